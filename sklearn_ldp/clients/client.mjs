// Reports under local differential privacy, by version 1 of the written format of sklearn_ldp.
// Every coin comes from crypto.getRandomValues, and every probability is an integer over 2^64.

const SETTINGS = {};

if (SETTINGS.version !== 1) {
  throw new Error(
    `This client knows version 1 of the configuration, got ${SETTINGS.version}: make it again, with the release that made the configuration.`,
  );
}

export const configuration = Object.freeze(SETTINGS.configuration);

// Spends epsilon of the user with each call.
export function privatize(value) {
  return posted(draw(codeOf(value), secureBytes));
}

// -- values: errors do not show them --------------------------------------------------------------
const isMissing = (value) => value === undefined || value === null || Number.isNaN(value);

const places = SETTINGS.categories && new Map(SETTINGS.categories.map((one, i) => [one, i]));

function placeOf(value) {
  const place = places.get(isMissing(value) ? null : value) ?? SETTINGS.stand_in;
  if (place !== undefined) return place;
  throw new RangeError(
    `This value is none of the ${places.size} categories of the collection, so nothing is reported: map it to one of them.`,
  );
}

const codeOf = (value) => (KINDS[SETTINGS.mechanism.kind].codeOf ?? placeOf)(value);

// -- coins: `bytes(n)` returns the next n bytes of a stream ----------------------------------------
function secureBytes(n) {
  const source = globalThis.crypto;
  if (typeof source?.getRandomValues !== "function") {
    throw new Error(
      "This runtime has no crypto.getRandomValues, and no other coins are private, so nothing is reported: use a browser or Node 20.",
    );
  }
  const bytes = new Uint8Array(n);
  for (let i = 0; i < n; i += 65536) source.getRandomValues(bytes.subarray(i, i + 65536));
  return bytes;
}

// The lowest byte comes first.
const word = (bytes) => bytes.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);

// n coins, each true with probability threshold / 2^64.
function bernoulli(bytes, threshold, n = 1) {
  const [high, low] = [Number(threshold >> 56n), BigInt.asUintN(56, threshold)];
  const first = bytes(n);
  const result = Array.from(first, (byte) => byte < high);
  first.forEach((byte, i) => {
    if (byte === high) result[i] = word(bytes(7)) < low;
  });
  return result;
}

// Uniform below `high`, by rejection.
function integer(bytes, high) {
  const bound = BigInt(high);
  const width = [1, 2, 4].find((w) => bound <= 1n << BigInt(8 * w - (w > 1))) ?? 8;
  const all = 1n << BigInt(8 * width);
  for (;;) {
    const x = word(bytes(width));
    if (x < all - (all % bound)) return x % bound;
  }
}

// -- one report of a code, by the kind of the mechanism --------------------------------------------
const KINDS = {};

const draw = (code, bytes, part) => KINDS[SETTINGS.mechanism.kind].draw(SETTINGS.mechanism, code, bytes, part);

// Numbers that JSON readers might round are text.
const posted = (report) => (report.map ? report.map((x) => (typeof x === "bigint" ? `${x}` : x)) : report);

// [direct linear mixing itemhash]
function response(bytes, value, n, threshold) {
  const isKept = bernoulli(bytes, BigInt(threshold))[0];
  // As much is drawn for either: nobody reads this word of a value that is kept.
  const other = Number(integer(isKept ? secureBytes : bytes, n - 1));
  return isKept ? value : other + (other >= value);
}

// [direct]
KINDS.direct = {
  draw: (m, code, bytes) => response(bytes, code, m.n_categories, m.keep),
  supports: (m, report, code) => report === code,
};

// [unary subset items]
// Eight bits are a byte, the highest bit first.
function packed(m, codes) {
  const mask = new Array((m.n_categories + 7) >> 3).fill(0);
  for (const one of codes) mask[one >> 3] |= 128 >> one % 8;
  return mask;
}

const hasBit = (report, code) => !!(report[code >> 3] & (128 >> code % 8));

// [unary]
KINDS.unary = {
  draw(m, code, bytes) {
    const bits = bernoulli(bytes, BigInt(m.zero), m.n_categories).map(Number);
    bits[code] = Number(bernoulli(bytes, BigInt(m.one))[0]);
    return m.is_packed ? packed(m, [...bits.keys()].filter((i) => bits[i])) : bits;
  },
  supports: (m, report, code) => (m.is_packed ? hasBit(report, code) : report[code] === 1),
};

// [linear mixing itemhash]
const localHashing = (drawPart, hash) => ({
  drawPart,
  hash,
  draw(m, code, bytes, part = drawPart(m, bytes)) {
    return [part, response(bytes, hash(m, part, code), m.hash_range, m.keep)];
  },
  supports: (m, [part, value], code) => hash(m, part, code) === value,
});

// [linear]
KINDS.linear = localHashing(drawFunction, linearHash);

function drawFunction(m, bytes) {
  const vector = integer(bytes, BigInt(m.hash_range) ** BigInt(m.n_digits));
  const multiples = BigInt(m.hash_range - 1);
  return Number((vector + multiples - 1n) / multiples);
}

// <a, v> over GF(g), g = p^degree, for the vector a of a function and the vector v of a code.
function linearHash(m, part, code) {
  const [g, degree] = [m.hash_range, m.modulus.length - 1];
  const p = Math.round(g ** (1 / degree));
  const vector = digits(scattered(code, BigInt(m.n_places)), g, m.n_digits);
  const sum = new Array(2 * degree - 1).fill(0);
  digits(vectorOf(part, g), g, m.n_digits).forEach((x, j) => {
    const y = digits(vector[j], p, degree);
    digits(x, p, degree).forEach((xi, i) => y.forEach((yk, k) => (sum[i + k] += xi * yk)));
  });
  for (let top = sum.length - 1; top >= degree; top--) {
    const factor = p - (sum[top] % p);
    m.modulus.forEach((c, i) => (sum[top - degree + i] += factor * c));
  }
  return sum.slice(0, degree).reduceRight((value, digit) => value * p + (digit % p), 0);
}

// Functions are numbered by their vectors: zero, then those whose leading digit is 1.
function vectorOf(part, g) {
  let [power, first] = [1, 1];
  for (; part >= first + power; power *= g) first += power;
  return part && power + part - first;
}

const digits = (x, base, n) => Array.from({ length: n }, (_, i) => Math.floor(x / base ** i) % base);

const FACTORS = [0xbf58476d1ce4e5b9n, 0x94d049bb133111ebn, 0x9e3779b97f4a7c15n, 0xd1342543de82ef95n];

function scattered(code, nPlaces) {
  const nBits = (nPlaces - 1n).toString(2).length;
  let x = BigInt(code);
  do {
    for (const factor of FACTORS) {
      x = BigInt.asUintN(nBits, x * factor + (factor >> 32n));
      x ^= x >> BigInt((nBits + 1) >> 1);
    }
  } while (x >= nPlaces);
  return Number(x);
}

// [mixing itemhash]
const drawSeed = (m, bytes) => integer(bytes, 1n << 63n);

function mixingHash(m, seed, digest) {
  return Number(((mix(mix(seed) ^ BigInt(digest)) >> 32n) * BigInt(m.hash_range)) >> 32n);
}

function mix(x) {
  let y = BigInt.asUintN(64, (x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n);
  y = BigInt.asUintN(64, (y ^ (y >> 27n)) * 0x94d049bb133111ebn);
  return y ^ (y >> 31n);
}

KINDS.mixing = {
  ...localHashing(drawSeed, mixingHash),
  codeOf(value) {
    let text = utf8("n");
    try {
      text = canonical(places ? SETTINGS.categories[placeOf(value)] : value);
    } catch (error) {
      if (SETTINGS.stand_in === undefined) throw error;
    }
    return word(blake2b(text, 8));
  },
};

function canonical(value) {
  if (isMissing(value)) return utf8("n");
  if (typeof value === "string" && !/\p{Surrogate}/u.test(value)) return utf8(`s${value.normalize("NFC")}`);
  if (Array.isArray(value)) {
    const parts = value.map(canonical).flatMap((part) => [...utf8(`${part.length}:`), ...part]);
    return [...utf8("t"), ...parts];
  }
  if (Number.isInteger(value) || /bigint|boolean/.test(typeof value)) return utf8(`i${BigInt(value)}`);
  throw new TypeError(
    "A value must be well-formed text, a whole number, missing or a list of those, so nothing is reported: make it a text.",
  );
}

// [hadamard]
KINDS.hadamard = {
  draw(m, code, bytes) {
    const isInside = bernoulli(bytes, BigInt(m.inside))[0];
    const index = Number(integer(bytes, m.order / 2));
    const pivot = (code + 1) & -(code + 1);
    const low = index & (pivot - 1);
    const column = ((index - low) << 1) | low;
    return this.supports(m, column, code) === isInside ? column : column | pivot;
  },
  supports(m, column, code) {
    let [isEven, common] = [true, column & (code + 1)];
    for (; common; common &= common - 1) isEven = !isEven;
    return isEven;
  },
};

// [subset]
KINDS.subset = {
  draw(m, code, bytes) {
    const holdsOwn = bernoulli(bytes, BigInt(m.inside))[0];
    const [last, size] = [m.n_categories - 1, m.subset_size - holdsOwn];
    const items = Array.from({ length: last }, (_, i) => i);
    for (let i = 0; i < m.subset_size; i++) {
      const j = i + Number(integer(i < size ? bytes : secureBytes, last - i));
      [items[i], items[j]] = [items[j], items[i]];
    }
    // The other codes are numbered 0 .. d-2: d-1 takes the place of the user's own one.
    const codes = items.slice(0, size).map((item) => (item === code ? last : item));
    if (holdsOwn) codes.push(code);
    if (!m.is_packed) return codes.sort((a, b) => a - b);
    return packed(m, codes);
  },
  supports: (m, report, code) => (m.is_packed ? hasBit(report, code) : report.includes(code)),
};

// [items itemhash]
// -- sets: the codes of a user's items, the largest first; an empty set stands in for others --------
function setOf(value, codeOfItem) {
  try {
    if (!Array.isArray(value) && !(value instanceof Set)) {
      throw new TypeError('The items of a user stand in a list, such as ["a"] or [], so nothing is reported.');
    }
    return [...new Set(Array.from(value, codeOfItem))].sort((a, b) => (a < b ? 1 : -1));
  } catch (error) {
    if (!SETTINGS.stand_in_set) throw error;
    return SETTINGS.stand_in_set;
  }
}

// So many of the items at random if there are more; 0 where there are fewer.
function slotsOf(m, codes, bytes) {
  const picks = Array.from({ length: m.max_items }, () => integer(bytes, 1n << 31n));
  const pool = [...codes];
  if (pool.length > m.max_items) {
    picks.forEach((pick, i) => {
      const j = i + Number((pick * BigInt(pool.length - i)) >> 31n);
      [pool[i], pool[j]] = [pool[j], pool[i]];
    });
  }
  return picks.map((_, i) => pool[i] ?? 0);
}

const placesIn = (value) => setOf(value, (one) => placeOf(one) + 1);

// A report has one of two likelihoods: `sided` tells which.
const aboutSets = (sided) => ({ sided, draw: (m, codes, bytes) => sided(m, codes, bytes)[0] });

// [items]
KINDS.items = {
  codeOf: placesIn,
  ...aboutSets((m, codes, bytes) => {
    const [d, size, slots] = [m.n_categories, m.subset_size, slotsOf(m, codes, bytes)];
    const decides = word(bytes(8));
    const first = m.bounds.filter((end) => BigInt(end) <= decides).length;
    const turn = Number(integer(bytes, m.max_items));
    const taken = [];
    for (let i = 0; i < m.max_items; i++) {
      const isNext = i > 0 && Number(integer(bytes, d + m.max_items - i)) < size - taken.length;
      if (i === first || (first < i && isNext)) taken.push((i + turn) % m.max_items);
    }
    const [items, rest] = [Array.from({ length: d }, (_, i) => i), size - taken.length];
    for (let i = 0; i < size; i++) {
      const j = i + Number(integer(i < rest ? bytes : secureBytes, d - i));
      [items[i], items[j]] = [items[j], items[i]];
    }
    // A slot is the place d + t, and changes places with the item in it.
    const slotOf = new Map(slots.map((code, t) => [code - 1, d + t]));
    const report = items.slice(0, rest).map((item) => slotOf.get(item) ?? item);
    report.push(...taken.map((t) => (slots[t] ? slots[t] - 1 : d + t)));
    const sorted = () => report.sort((a, b) => a - b);
    return [m.is_packed ? packed({ n_categories: d + m.max_items }, report) : sorted(), first < m.max_items];
  }),
};

// [itemhash]
KINDS.itemhash = {
  codeOf: (value) => setOf(value, (one) => word(blake2b(canonical(places ? SETTINGS.categories[placeOf(one)] : one), 8)) || 1n),
  ...aboutSets((m, digests, bytes) => {
    const [g, slots, seed] = [m.hash_range, slotsOf(m, digests, bytes), drawSeed(m, bytes)];
    const isInside = bernoulli(bytes, BigInt(m.keep))[0];
    const index = Number(integer(bytes, m.max_items));
    const own = [...new Set(slots.filter((one) => one).map((one) => mixingHash(m, seed, one)))].sort((a, b) => a - b);
    const others = Array.from({ length: m.max_items + 1 }, (_, i) => Number(integer(bytes, g - i)));
    const other = own.reduce((value, one) => value + (value >= one), others[own.length]);
    return [[seed, isInside && index < own.length ? own[index] : other], isInside];
  }),
};

// [mixing repeated itemhash]
// -- digests: RFC 7693 -----------------------------------------------------------------------------
const utf8 = (text) => [...new TextEncoder().encode(text)];

const PRIMES = Array.from({ length: 311 }, (_, i) => i + 2).filter((n) => !/^(11+?)\1+$/.test("1".repeat(n)));

// The first bits of the fraction of a root of a prime.
function rootBits(prime, degree, nBits) {
  let root = 0n;
  for (let bit = 1n << BigInt(nBits + 5); bit; bit >>= 1n) {
    if ((root | bit) ** degree <= BigInt(prime) << (BigInt(nBits) * degree)) root |= bit;
  }
  return BigInt.asUintN(nBits, root);
}

const IV = PRIMES.slice(0, 8).map((prime) => rootBits(prime, 2n, 64));
const ORDERS = "0123456789abcdef ea489fd61c02b753 b8c052fdae367194 7931dcbe265a40f8 905724afe1bc683d 2c6a0b834d75fe19 c51fed4a0763928b db7ec13950f4862a 6fe9b308c2d714a5 a2847615fb9e3cd0".split(" ");

function blake2b(message, size, key = []) {
  const block = (x) => [...x, ...new Array(-x.length & 127).fill(0)];
  const content = [...block(key), ...message];
  const padded = content.length ? block(content) : new Array(128).fill(0);
  const turn = (x, by) => BigInt.asUintN(64, (x >> by) | (x << (64n - by)));
  const state = [...IV];
  state[0] ^= BigInt(0x01010000 ^ (key.length << 8) ^ size);
  for (let end = 128; end <= padded.length; end += 128) {
    const words = Array.from({ length: 16 }, (_, i) => word(padded.slice(end - 128 + 8 * i, end - 120 + 8 * i)));
    const v = [...state, ...IV];
    v[12] ^= BigInt(Math.min(end, content.length));
    if (end === padded.length) v[14] ^= (1n << 64n) - 1n;
    for (let round = 0; round < 12; round++) {
      for (let i = 0; i < 16; i++) {
        // Each column, then each diagonal, is mixed twice: with an even word, and an odd one.
        const [a, b, c, d] = [0, 1, 2, 3].map((row) => 4 * row + (((i >> 1) + (i < 8 ? 0 : row)) & 3));
        v[a] = BigInt.asUintN(64, v[a] + v[b] + words[parseInt(ORDERS[round % 10][i], 16)]);
        v[d] = turn(v[d] ^ v[a], i & 1 ? 16n : 32n);
        v[c] = BigInt.asUintN(64, v[c] + v[d]);
        v[b] = turn(v[b] ^ v[c], i & 1 ? 63n : 24n);
      }
    }
    state.forEach((x, i) => (state[i] = x ^ v[i] ^ v[i + 8]));
  }
  return Uint8Array.from({ length: size }, (_, i) => Number(state[i >> 3] >> BigInt(8 * (i % 8)) & 255n));
}
