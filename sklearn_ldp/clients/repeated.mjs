// -- the same user again: permanent reports, in the file format of RepeatedClient ------------------
export function repeated(storage) {
  const { chain, mechanism, memo } = SETTINGS;
  const kind = KINDS[mechanism.kind];
  const name = `sklearn_ldp ${memo.survey.slice(0, 16)}`;
  const read = () => readMemo(storage.getItem(name), memo);
  const write = (entries) => storage.setItem(name, writeMemo(entries, memo));
  if (!read()) {
    const part = memo.fixed_part ? kind.drawPart(mechanism, secureBytes) : null;
    const lists = { first: [], permanent: [], rounds: [], sent: [], values: [] };
    write({ function: part, key: hex(secureBytes(32)), part: null, ...lists });
  }
  const own = read()?.key;

  function current() {
    const entries = read();
    if (entries && entries.key === own) return entries;
    throw new Error(
      "The memo of this client has been deleted, or another one is in its place, so nothing is reported: load the page again if that is meant.",
    );
  }

  // A report that is kept with one of two probabilities, over 2^64.
  function kept(code, part, keepFor, keepAgainst) {
    for (;;) {
      const report = draw(code, secureBytes, part ?? undefined);
      if (happens(kind.supports(mechanism, report, code) ? keepFor : keepAgainst)) return [report].flat();
    }
  }

  function addRound(entries, value, round) {
    const [code, part] = [codeOf(value), entries.function];
    const lookedAt = part === null ? code : kind.hash(mechanism, part, code);
    const digest = hex(blake2b(utf8(`${lookedAt}`), 16, entries.key.match(/../g).map((x) => parseInt(x, 16))));
    if (!entries.values.includes(digest)) {
      if (entries.values.length >= (memo.most_values ?? Infinity)) {
        throw new RangeError(
          "This value is new, and would spend more than most_epsilon, so nothing is reported: leave this round out.",
        );
      }
      entries.first.push(entries.rounds.length);
      entries.permanent.push(kept(code, part, CERTAIN, chain.keep_against));
      entries.values.push(digest);
    }
    const none = typeof code === "bigint" ? 0n : 0;
    const isPermanent = happens(chain.share);
    entries.sent.push(isPermanent ? entries.values.indexOf(digest) : kept(none, part, chain.keep_for, CERTAIN));
    entries.rounds.push(round);
    write(entries);
    return entries;
  }

  return {
    report(value, round = configuration.collection_round) {
      if (typeof round !== "string" || !["", round].includes(configuration.collection_round)) {
        throw new RangeError("This client is of another round, and reports of two rounds do not add up.");
      }
      let entries = current();
      if (!entries.rounds.includes(round)) entries = addRound(entries, value, round);
      const sent = entries.sent[entries.rounds.indexOf(round)];
      const row = Array.isArray(sent) ? sent : entries.permanent[sent];
      return posted(memo.is_row ? row : row[0]);
    },
    get spent() {
      return current().values.length * memo.epsilon_forever;
    },
  };
}

const CERTAIN = 1n << 64n;
const happens = (threshold) => BigInt(threshold) === CERTAIN || bernoulli(secureBytes, BigInt(threshold))[0];
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

// As Python's json writes it, because digests are of this text.
function pythonText(x) {
  if (Array.isArray(x)) return `[${x.map(pythonText).join(", ")}]`;
  if (x && typeof x === "object") {
    return `{${Object.keys(x).sort().map((key) => `"${key}": ${pythonText(x[key])}`).join(", ")}}`;
  }
  if (typeof x !== "string") return `${x}`;
  const escaped = (c) => `\\u${c.charCodeAt().toString(16).padStart(4, "0")}`;
  return JSON.stringify(x).replace(/[\x7f-\uffff]/g, escaped);
}

function writeMemo(entries, { format, survey }) {
  return pythonText({ ...entries, format, sha256: sha256(pythonText(entries)), survey });
}

function readMemo(text, memo) {
  if (text === null || text === undefined) return null;
  let [found, isSound] = [{}, false];
  try {
    // Large integers, outside of texts, are marked before they are rounded.
    const marked = text.replace(/"(?:[^"\\]|\\.)*"|\d{16,}/g, (x) => (x[0] === '"' ? x : `{"integer": "${x}"}`));
    found = JSON.parse(marked, (_, x) => (x?.integer ? BigInt(x.integer) : x));
    const { format, sha256: digest, survey, ...entries } = found;
    isSound = format === memo.format && digest === sha256(pythonText(entries));
    if (isSound && survey === memo.survey) return entries;
  } catch {
    isSound = false;
  }
  const [, name, version] = /^(.*) (\d+)$/.exec(found?.format) ?? [];
  if (Number(version) > 1 && memo.format === `${name} 1`) {
    throw new Error("The memo is of a newer client: make this one again, with the release that has written the memo.");
  }
  throw new Error(
    isSound
      ? "The memo is of another survey or oracle: give each survey a storage of its own."
      : "The memo is damaged, or not one of this client: delete it only if epsilon is meant to be spent again.",
  );
}

// SHA-256: FIPS 180-4.
const ROUNDS = PRIMES.slice(0, 64).map((prime) => Number(rootBits(prime, 3n, 32)));

function sha256(text) {
  const message = utf8(text);
  const bytes = new DataView(new ArrayBuffer(((message.length + 72) >> 6) << 6));
  [...message, 128].forEach((byte, i) => bytes.setUint8(i, byte));
  bytes.setBigUint64(bytes.byteLength - 8, BigInt(8 * message.length));
  const state = IV.map((x) => Number(x >> 32n));
  const turn = (x, ...by) => by.reduce((sum, n) => sum ^ ((x >>> n) | (x << (32 - n))), 0);
  for (let start = 0; start < bytes.byteLength; start += 64) {
    const w = Array.from({ length: 16 }, (_, i) => bytes.getUint32(start + 4 * i));
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const [x, y] = [w[i - 15], w[i - 2]];
      w[i] ??= (w[i - 16] + w[i - 7] + (turn(x, 7, 18) ^ (x >>> 3)) + (turn(y, 17, 19) ^ (y >>> 10))) | 0;
      const t = (h + turn(e, 6, 11, 25) + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
      const u = (turn(a, 2, 13, 22) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + t) | 0, c, b, a, (t + u) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((x, i) => (state[i] = (state[i] + x) >>> 0));
  }
  return state.map((x) => x.toString(16).padStart(8, "0")).join("");
}
