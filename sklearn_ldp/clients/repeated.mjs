// -- the same user again: permanent reports, in the file format of RepeatedClient ------------------
export function repeated(storage, question) {
  if (typeof question !== "string" || !question) {
    throw new TypeError('A memo belongs to a question: name what is asked, as in repeated(localStorage, "browser").');
  }
  const { chain, mechanism, memo } = SETTINGS;
  const kind = KINDS[mechanism.kind];
  const survey = sha256(pythonText([question, memo.survey]));
  const name = `sklearn_ldp ${question} ${survey.slice(0, 16)}`;
  const locks = globalThis.navigator?.locks;
  let release;
  let known = {}; // the text that was read or written last, and what it says

  function read(key = name) {
    const text = storage.getItem(key) ?? null;
    if (text !== known.text) known = { text, entries: readMemo(text, memo.format, survey) };
    return known.entries;
  }

  function write(entries) {
    const text = writeMemo(entries, memo.format, survey);
    storage.setItem(name, text);
    known = { text, entries };
  }

  read(`sklearn_ldp ${memo.survey.slice(0, 16)}`); // of no question: refused
  let own = read()?.key;

  function current() {
    const entries = read();
    if (!own || entries?.key === own) return entries;
    throw new Error(
      "The memo of this client has been deleted, or another one is in its place, so nothing is reported: load the page again if that is meant.",
    );
  }

  function fresh() {
    const part = memo.fixed_part ? kind.drawPart(mechanism, secureBytes) : null;
    const lists = { first: [], permanent: [], rounds: [], sent: [], values: [] };
    return { function: part, key: hex(secureBytes(32)), part: null, ...lists };
  }

  // A report, and whether it is of the likelier kind.
  function sided(code, part) {
    if (kind.sided) return kind.sided(mechanism, code, secureBytes);
    const report = draw(code, secureBytes, part ?? undefined);
    return [report, kind.supports(mechanism, report, code)];
  }

  // A report that is kept with one of two probabilities, over 2^64.
  function kept(code, part, keepFor, keepAgainst) {
    for (;;) {
      const [report, isFor] = sided(code, part);
      if (happens(isFor ? keepFor : keepAgainst)) return [report].flat();
    }
  }

  // What reports depend on, as Python writes it: a code, a hash value, or the tuple of a set.
  function lookedAtIn(value, code, part) {
    if (!kind.sided) return `${part === null ? code : kind.hash(mechanism, part, code)}`;
    const set = places ? placesIn(value) : code;
    return `(${set.join(", ")}${set.length === 1 ? "," : ""})`;
  }

  function withRound(entries, value, round) {
    const [code, part] = [codeOf(value), entries.function];
    const digest = hex(blake2b(utf8(lookedAtIn(value, code, part)), 16, entries.key.match(/../g).map((x) => parseInt(x, 16))));
    let { first, permanent, rounds, sent, values } = entries;
    if (!values.includes(digest)) {
      if (values.length >= (memo.most_values ?? Infinity)) {
        throw new RangeError(
          "This value is new, and would spend more than max_epsilon, so nothing is reported: report an earlier value, because a missing report reveals the new one.",
        );
      }
      first = [...first, rounds.length];
      permanent = [...permanent, kept(code, part, CERTAIN, chain.keep_against)];
      values = [...values, digest];
    }
    const none = kind.sided ? [] : typeof code === "bigint" ? 0n : 0;
    // Both are made whichever is sent, unless the other one is never sent, or takes more than 2^16 tries.
    const isQuick = BigInt(chain.share) < CERTAIN && BigInt(chain.keep_for) >= CERTAIN >> 16n;
    const isPermanent = happens(chain.share);
    const uniform = isQuick || !isPermanent ? kept(none, part, chain.keep_for, CERTAIN) : null;
    sent = [...sent, isPermanent ? values.indexOf(digest) : uniform];
    return { ...entries, first, permanent, rounds: [...rounds, round], sent, values };
  }

  // What another tab has written meanwhile holds: it is read again before anything is sent.
  async function settled(value, round) {
    for (let i = 0; i < 9; i++) {
      const entries = current();
      if (entries?.rounds.includes(round)) {
        own = entries.key;
        return entries;
      }
      write(withRound(entries ?? fresh(), value, round));
      if (!locks) await pause();
    }
    throw new Error("The storage does not keep the memo, so nothing is reported: give it one that does.");
  }

  // Tabs take turns. A tab's storage may still lack what another one has written in its turn, which
  // therefore keeps a lock with the number of rounds in its name.
  async function inTurn(work) {
    const { held } = await locks.query();
    const written = held.map((lock) => (lock.name.startsWith(`${name} `) ? Number(lock.name.slice(name.length)) : 0));
    // Two seconds at most: that tab may have a storage of its own, or the memo is deleted.
    for (let i = 0; i < 99 && (current()?.rounds.length ?? 0) < Math.max(0, ...written); i++) await pause();
    const entries = await work();
    locks.request(`${name} ${entries.rounds.length}`, { mode: "shared" }, () => {
      release?.();
      return new Promise((resolve) => (release = resolve));
    });
    return entries;
  }

  return {
    async report(value, round = configuration.collection_round) {
      if (typeof round !== "string" || !["", round].includes(configuration.collection_round)) {
        throw new RangeError("This client is of another round, and reports of two rounds do not add up.");
      }
      const work = () => settled(value, round);
      const { permanent, rounds, sent } = await (locks ? locks.request(name, () => inTurn(work)) : work());
      const one = sent[rounds.indexOf(round)];
      const row = Array.isArray(one) ? one : permanent[one];
      return posted(memo.is_row ? row : row[0]);
    },
    get spent() {
      return (current()?.values.length ?? 0) * memo.epsilon_forever;
    },
  };
}

const CERTAIN = 1n << 64n;
const pause = () => new Promise((resume) => setTimeout(resume, 20));
// Eight bytes, whatever is compared with them.
const happens = (threshold) => word(secureBytes(8)) < BigInt(threshold);
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

// As Python's json writes it, because digests are of this text; a list never changes.
const texts = new WeakMap();

function pythonText(x) {
  if (Array.isArray(x)) {
    if (!texts.has(x)) texts.set(x, `[${(x.every(Number.isInteger) ? x : x.map(pythonText)).join(", ")}]`);
    return texts.get(x);
  }
  if (x && typeof x === "object") {
    return `{${Object.keys(x).sort().map((key) => `"${key}": ${pythonText(x[key])}`).join(", ")}}`;
  }
  if (typeof x !== "string") return `${x}`;
  const escaped = (c) => `\\u${c.charCodeAt().toString(16).padStart(4, "0")}`;
  return JSON.stringify(x).replace(/[\x7f-\uffff]/g, escaped);
}

function writeMemo(entries, format, survey) {
  return pythonText({ ...entries, format, sha256: sha256(pythonText(entries)), survey });
}

function readMemo(text, form, ours) {
  if (text === null) return null;
  let [found, isSound] = [{}, false];
  try {
    // Large integers, outside of texts, are marked before they are rounded.
    const marked = text.replace(/"(?:[^"\\]|\\.)*"|\d{16,}/g, (x) => (x[0] === '"' ? x : `{"integer": "${x}"}`));
    found = JSON.parse(marked, (_, x) => (x?.integer ? BigInt(x.integer) : x));
    const { format, sha256: digest, survey, ...entries } = found;
    isSound = format === form && digest === sha256(pythonText(entries));
    if (isSound && survey === ours) return entries;
  } catch {
    isSound = false;
  }
  const [kind, version] = [/^(.*) (\d+)$/.exec(found?.format) ?? [], /\d+$/.exec(form)];
  if (kind[1] === form.slice(0, version.index - 1) && kind[2] !== version[0]) {
    throw new Error(
      kind[2] > +version[0]
        ? "The memo is of a newer client: make this one again, with the release that has written the memo."
        : "The memo is of an older client, and belongs to no question: delete it, and what is asked from now on spends epsilon again.",
    );
  }
  throw new Error(
    isSound
      ? "The memo is of another question, survey or oracle: give each question a storage of its own."
      : "The memo is damaged, or not one of this client: delete it only if epsilon is meant to be spent again.",
  );
}

// SHA-256: FIPS 180-4.
const ROUNDS = Int32Array.from(PRIMES.slice(0, 64), (prime) => Number(rootBits(prime, 3n, 32)));
const turned = (x, n) => (x >>> n) | (x << (32 - n));

function sha256(text) {
  const message = new TextEncoder().encode(text);
  const bytes = new Uint8Array(((message.length + 72) >> 6) << 6);
  bytes.set(message);
  bytes[message.length] = 128;
  const view = new DataView(bytes.buffer);
  view.setBigUint64(bytes.length - 8, BigInt(8 * message.length));
  const state = Int32Array.from(IV, (x) => Number(x >> 32n));
  const w = new Int32Array(64);
  for (let start = 0; start < bytes.length; start += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getInt32(start + 4 * i);
    for (let i = 16; i < 64; i++) {
      const x = turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ (w[i - 15] >>> 3);
      const y = turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ (w[i - 2] >>> 10);
      w[i] = w[i - 16] + x + w[i - 7] + y;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const t = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
      const u = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + t) | 0, c, b, a, (t + u) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((x, i) => (state[i] += x));
  }
  return Array.from(state, (x) => (x >>> 0).toString(16).padStart(8, "0")).join("");
}
