"""Clients in JavaScript: vectors, proofs, and memos that both languages read."""

import json
import math
import re
import shutil
import subprocess
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import vectors
from scipy import stats
from serving import patience

from sklearn_ldp import GRR, OLH, OUE, Domain, HadamardResponse, ItemOracle, SubsetSelection
from sklearn_ldp._core.aggregation.clients import (
    client_mechanism,
    client_vectors,
    one_report,
    whole_module,
    write_self_test,
)
from sklearn_ldp._core.domains import word_digests
from sklearn_ldp._core.domains.canonical import word_digest
from sklearn_ldp._core.mechanisms.coins import ByteCoins
from sklearn_ldp.collection import RepeatedClient, client_module

slow = pytest.mark.slow
ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "sklearn_ldp" / "clients"
BROWSERS = ["chrome", "edge", "firefox"]
MANY = [*BROWSERS, *map(str, range(300))]
ONES = ", ".join(
    ["KINDS", "posted", "bernoulli", "integer", "codeOf", "secureBytes", "draw", "SETTINGS"]
)
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def node(folder, script, module, *argv):
    """Run a script beside a client, and return what it prints as JSON."""
    (folder / "client.mjs").write_text(f"{module}\nexport {{ {ONES} }};\n", encoding="utf-8")
    (folder / "script.mjs").write_text(script, encoding="utf-8")
    call = ["node", str(folder / "script.mjs"), *map(str, argv)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def compared(folder, cases):
    """The end of the script that compares vectors, and its last words."""
    script = write_self_test(folder, whole_module(), cases)
    done = subprocess.run(["node", str(script)], capture_output=True, text=True, timeout=3000)
    return done.returncode, done.stdout.strip() or done.stderr


# -- vectors ------------------------------------------------------------------------------------
def committed(name):
    return json.loads((vectors.FOLDER / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", vectors.ORACLES)
def test_the_format_is_that_of_the_committed_vectors(name):
    path, cases = vectors.FOLDER / f"{name}.json", committed(name)
    assert path.stat().st_size <= 50_000
    assert sum(len(case["rows"]) for case in cases) <= 200
    for oracle, case in zip(vectors.ORACLES[name], cases, strict=True):
        protocol = oracle.protocol()
        assert case["version"] == 1
        assert case["mechanism"] == client_mechanism(protocol)
        digests = [] if protocol.domain.is_open else word_digests(protocol.domain).tolist()
        for text, code, report in case["rows"]:
            coins = ByteCoins(bytes.fromhex(text))
            if isinstance(code, str):  # the digest of a value, which a list of them has a place for
                code = digests.index(int(code)) if digests else np.uint64(int(code))
            if isinstance(code, list):  # a set, in which the first place is 1
                code = np.array(code, dtype=np.int64 if digests else np.uint64)
            assert one_report(protocol, code, coins) == report
            assert coins.n_read == len(text) // 2


def test_too_few_coins_are_refused():
    with pytest.raises(ValueError, match="expected 2 bytes of random bits, got 1"):
        one_report(GRR(1.0, categories=3).protocol(), 0, ByteCoins(b"\xff"))


@needs_node
def test_javascript_agrees_with_the_committed_vectors(tmp_path):
    cases = [case for name in vectors.ORACLES for case in committed(name)]
    n = sum(len(case["rows"]) for case in cases)
    assert compared(tmp_path, cases) == (0, f"{n} vectors agree")
    cases[0]["rows"][5][2] = (cases[0]["rows"][5][2] + 1) % 3  # negative control
    code, message = compared(tmp_path, cases)
    assert code == 1
    assert "instead of" in message


@needs_node
@slow
@pytest.mark.parametrize("name", vectors.ORACLES)
def test_javascript_agrees_with_many_vectors(name, tmp_path, seed):
    """40,000 of each oracle; the long reports of large sets are fewer than the others."""
    most = 20 if name in ("subset-selection", "item-oracle") else np.inf
    oracles = [one for one in vectors.ORACLES[name] if Domain.of(one.categories).size <= most]
    rows = [client_vectors(one, -(-40_000 // len(oracles)), seed + 1) for one in oracles]
    if len(oracles) < len(vectors.ORACLES[name]):
        rows += [client_vectors(one, 1000, seed) for one in vectors.ORACLES[name][1:]]
    assert sum(len(case["rows"]) for case in rows) >= 40_000
    assert compared(tmp_path, rows)[0] == 0


def test_subsets_of_one_user_are_uniform():
    """All outcomes of the coins, of which each is as likely."""

    class Listed(ByteCoins):
        def integers(self, high, size):
            return np.array([next(self.outcomes)])

    found = []
    for outcomes in product(range(4), range(3)):
        coins = Listed(b"")
        coins.outcomes = iter(outcomes)
        found.append(tuple(np.flatnonzero(coins.subsets(np.array([2]), 4, 5)[0])))
    assert sorted(set(found)) == [(i, j) for i in range(4) for j in range(i + 1, 4)]
    assert {found.count(one) for one in found} == {2}


# -- proofs in JavaScript -------------------------------------------------------------------------
ENUMERATION = """
import { KINDS, integer } from "./client.mjs";
const [m, codes, firsts] = JSON.parse(process.argv[2]);
// The coins that remain after a first word: all bytes that are asked for, by what they weigh.
const counts = codes.map(() => ({}));
let [stream, n] = [[], 0];
const bytes = (size) => {  // a tie takes seven bytes; no rest is below 0
  const start = n;
  n += size;
  return Uint8Array.from({ length: size }, (_, i) => stream[start + i] ?? 0);
};
const words = {};
for (let byte = 0; firsts && byte < 256; byte++) {
  [stream, n] = [[byte], 0];
  const value = integer(bytes, firsts);
  if (n === 1) words[value] = (words[value] ?? 0) + 1;  // otherwise it was rejected
}
function add(code, coins, weight, i) {
  [stream, n] = [coins, 0];
  const report = String(KINDS[m.kind].draw(m, code, bytes));
  counts[i][report] = (counts[i][report] ?? 0) + weight;
}
codes.forEach((code, i) => {
  for (let first = 0; first < (firsts || 1); first++) {
    const start = firsts ? [first] : [];
    for (let keep = 0; keep < 256; keep++) {
      [stream, n] = [[...start, keep], 0];
      KINDS[m.kind].draw(m, code, bytes);
      const isTie = keep === Number(BigInt(m.keep) >> 56n);
      const rest = isTie ? [...start, keep, 0, 0, 0, 0, 0, 0, 0] : [...start, keep];
      if (n === start.length + 1) add(code, rest, 256, i);
      else for (let other = 0; other < 256; other++) add(code, [...rest, other], 1, i);
    }
  }
});
console.log(JSON.stringify([words, counts]));
"""


@needs_node
@pytest.mark.parametrize(
    ("oracle", "n_first"),
    [
        (GRR(1.0, categories=3), 0),
        pytest.param(OLH(1.0, categories=3, hash_range=3), 9, marks=slow),
    ],
)
def test_probabilities_are_exact_in_javascript(oracle, n_first, tmp_path):
    """All outcomes of the coins at a threshold over 2**8, as fractions."""
    channel, top = oracle.channel(3), 139
    kept = Fraction(top, 256)
    mechanism = {**client_mechanism(oracle.protocol()), "keep": str(top << 56)}
    found = node(tmp_path, ENUMERATION, whole_module(), json.dumps([mechanism, [0, 1, 2], n_first]))
    words, counts = found
    # Of a word of one byte, all values of a uniform draw are as likely; the others are read again.
    assert words == {str(i): 256 // n_first for i in range(n_first)}
    total = 65_536 * max(n_first, 1)
    laws = [{key: Fraction(n, total) for key, n in of_code.items()} for of_code in counts]
    assert all(sum(law.values()) == 1 for law in laws)
    reports = sorted(set().union(*laws))
    rows = np.array([[int(x) for x in report.split(",")] for report in reports])
    supported = channel.supports(rows[:, 0] if rows.shape[1] == 1 else rows, np.arange(3))
    g = 3  # categories, and hash values
    q = (1 - kept) / 2 if oracle.__class__ is GRR else Fraction(1, g)
    for i, j in product(range(3), repeat=2):
        told = [r for r, yes in zip(reports, supported[:, j], strict=True) if yes]
        share = sum((laws[i].get(r, Fraction()) for r in told), Fraction())
        assert share == (kept if i == j else q)
    worst = max(a.get(r, 0) / b.get(r, 0) for a, b in product(laws, repeat=2) for r in reports)
    assert worst == kept * (g - 1) / (1 - kept)


# -- what a client is, and what it refuses ---------------------------------------------------------
def test_the_client_is_small_and_takes_nothing_from_elsewhere():
    for name in ("client.mjs", "repeated.mjs"):
        text = (CLIENTS / name).read_text(encoding="utf-8")
        assert len(text.encode()) <= 15_000  # of which a module has what its kind needs
        assert not re.search(r"\b(import|require|eval)\b|Math\.random|Date\.now|\bFunction\(", text)
    lines = [path.read_text(encoding="utf-8").splitlines() for path in CLIENTS.glob("*.mjs")]
    code = [line for one in lines for line in one if line.strip() and line.strip()[:2] != "//"]
    assert len(code) <= 490  # tabs that report at once take turns; sets are remembered, too


REFUSALS = """
const [, , action, ...rest] = process.argv;
if (action === "without") Object.defineProperty(globalThis, "crypto", { value: undefined });
if (action === "empty") Object.defineProperty(globalThis, "crypto", { value: {} });
Math.random = () => { throw new Error("Math.random was asked"); };
try {
  const client = await import("./client.mjs");
  console.log(JSON.stringify(client.privatize(JSON.parse(rest[0]))));
} catch (error) {
  console.log(JSON.stringify(error.message));
}
"""


@needs_node
@pytest.mark.parametrize(
    ("action", "value", "fragment"),
    [
        ("without", "edge", "no crypto.getRandomValues"),
        pytest.param("empty", "edge", "no crypto.getRandomValues", marks=slow),
        ("plain", "SECRET", "none of the 3 categories"),
        pytest.param("plain", 1, "none of the 3 categories", marks=slow),
        pytest.param("plain", None, "none of the 3 categories", marks=slow),
        ("newer", "edge", "version 1 of the configuration, got 2"),
    ],
)
def test_javascript_refuses_in_one_sentence(action, value, fragment, tmp_path):
    module = client_module(GRR(1.0, categories=BROWSERS))
    if action == "newer":
        module = module.replace('{"version": 1', '{"version": 2')
    elif action == "plain":  # negative control
        assert node(tmp_path, REFUSALS, module, action, json.dumps("edge")) in (0, 1, 2)
    message = node(tmp_path, REFUSALS, module, action, json.dumps(value))
    assert fragment in message
    assert "SECRET" not in message
    assert message.endswith(".")
    assert message.count(". ") == 0


@pytest.mark.parametrize(
    ("oracle", "message"),
    [
        (
            HadamardResponse(1.0, categories=9, n_blocks=2),
            "no client outside Python for HadamardResponse.* GRR",
        ),
        (GRR(1.0, categories=100_001), "100,001 categories, but the limit is 100,000. .*--open"),
        (GRR(1.0, categories=[0.5, 1.5]), "texts, integers of at most"),
        (GRR(1.0, categories=Domain.bins([0, 1, 2])), "texts, integers of at most"),
        (GRR(1.0, categories=Domain.product([2, 2])), "texts, integers of at most"),
    ],
)
def test_what_has_no_client_is_refused(oracle, message):
    with pytest.raises(ValueError, match=message):
        client_module(oracle)


def test_budgets_are_checked():
    oracle = GRR(1.0, categories=3)
    with pytest.raises(ValueError, match="epsilon_forever must be finite and at least"):
        client_module(oracle, epsilon_forever=0.5)
    with pytest.raises(ValueError, match="no hash function, so fixed_part"):
        client_module(oracle, epsilon_forever=2.0, fixed_part=True)
    with pytest.raises(ValueError, match="have no effect without epsilon_forever"):
        client_module(oracle, max_epsilon=2.0)


@needs_node
def test_digests_of_open_answers_agree(tmp_path):
    values = ["", "edge", "é" * 200, "x" * 127, "\U0001f98a", 0, -7, 2**53 - 1, 1e21, True, None]
    values += [["a", 1, None], ["b" * 300, ["c"]], "e\u0301", ["e\u0301"], "\u00e9"]
    script = """
import { codeOf } from "./client.mjs";
console.log(JSON.stringify(JSON.parse(process.argv[2]).map((value) => `${codeOf(value)}`)));
"""
    module = client_module(OLH(1.0, categories="open", hash_family="mixing"))
    found = node(tmp_path, script, module, json.dumps(values))

    def nested(value):
        return tuple(map(nested, value)) if isinstance(value, list) else value

    assert found == [str(word_digest(nested(value))) for value in values]
    assert found[-3] == found[-1]  # one letter, or a letter and its accent


WORDS = """
const source = globalThis.crypto;
let [n, first, next] = [0, 0, 0];
Object.defineProperty(globalThis, "crypto", { value: { getRandomValues(bytes) {
  n += bytes.length;
  bytes.fill(0);
  if (first !== null) bytes[0] = first;
  first = null;
} } });
const { privatize, draw } = await import("./client.mjs");
const found = [];
for (const coin of [0, 255]) {  // the first coin says whether the value is told
  [n, first] = [0, coin];
  privatize("edge");
  found.push(n);
}
console.log(JSON.stringify(found));
"""


@needs_node
@pytest.mark.parametrize(
    "oracle",
    [
        GRR(1.0, categories=BROWSERS),
        OLH(1.0, categories="open", hash_family="mixing"),
        SubsetSelection(1.0, categories=["edge", *range(20)]),
        HadamardResponse(1.0, categories=BROWSERS),
    ],
    ids=repr,
)
def test_a_lie_takes_as_many_words_as_the_truth(oracle, tmp_path):
    """How long a client draws would tell whether it has lied, and with most oracles the value."""
    script = WORDS
    if isinstance(oracle, OLH):  # the seed comes before the coin
        script = script.replace("if (first !== null) bytes[0] = first;", SECOND_COIN)
        script = script.replace("first = null;\n}", "}")
    told, lied = node(tmp_path, script, client_module(oracle))
    assert told == lied


SECOND_COIN = "if (bytes.length === 1 && first !== null) { bytes[0] = first; first = null; }"


STAND_INS = """
import { codeOf, SETTINGS } from "./client.mjs";
const values = ["x", null, undefined, NaN, 3, "\\ud800", {}, [{}], () => 1, Symbol("x"), 1.5];
const codes = values.map((value) => `${codeOf(value)}`);
console.log(JSON.stringify([...new Set(codes)]));
"""


@needs_node
@pytest.mark.parametrize(
    ("oracle", "stand_in"),
    [
        (GRR(1.0, categories=BROWSERS), "firefox"),
        pytest.param(GRR(1.0, categories=["a", None, "b"]), None, marks=slow),
        pytest.param(OLH(1.0, categories=BROWSERS, hash_family="mixing"), "firefox", marks=slow),
        (OLH(1.0, categories="open", hash_family="mixing"), None),
    ],
    ids=repr,
)
def test_javascript_reports_a_stand_in(oracle, stand_in, tmp_path):
    """As Python's clients do; and without it, `test_javascript_refuses_in_one_sentence`."""
    script = STAND_INS
    if oracle.protocol().domain.is_open:  # where a text and an integer are answers
        script = script.replace('"x", null', "null").replace("NaN, 3,", "NaN,")
    codes = node(tmp_path, script, client_module(oracle, missing="report"))
    digest = oracle.protocol().domain.encode([stand_in])[0]
    if getattr(oracle, "hash_family", None) == "mixing":
        digest = word_digest(stand_in)
    assert codes == [str(digest)]


# -- the same user again ---------------------------------------------------------------------------
REPEATED = """
import { readFileSync, writeFileSync, existsSync } from "node:fs";
import { repeated } from "./client.mjs";
const [, , path, calls, question = "browser"] = process.argv;
const storage = {
  getItem: () => (existsSync(path) ? readFileSync(path, "utf8") : null),
  setItem: (name, text) => writeFileSync(path, text),
};
try {
  const client = repeated(storage, question);
  const reports = [];
  for (const [value, round] of JSON.parse(calls)) reports.push(await client.report(value, round));
  console.log(JSON.stringify({ reports, spent: client.spent }));
} catch (error) {
  console.log(JSON.stringify({ message: error.message }));
}
"""
ROUNDS = ["may", 'ju"ne', "july é\x7f\U0001f98a", "1234567890123456789", "\n"]


@needs_node
@pytest.mark.parametrize(
    ("oracle", "fixed_part"),
    [
        (OLH(1.0, categories="open", hash_family="mixing"), True),
        (ItemOracle(1.0, categories=BROWSERS, max_items=1), False),
        *(
            pytest.param(kind(1.0, categories=BROWSERS), False, marks=slow)
            for kind in (GRR, OUE, OLH, HadamardResponse, SubsetSelection)
        ),
        pytest.param(OLH(1.0, categories=BROWSERS), True, marks=slow),
        pytest.param(OLH(1.0, categories="open", hash_family="mixing"), False, marks=slow),
        pytest.param(SubsetSelection(1.0, categories=MANY), False, marks=slow),  # packed
        pytest.param(ItemOracle(1.0, categories=MANY, method="hash"), False, marks=slow),
        pytest.param(ItemOracle(1.0, categories="open"), False, marks=slow),
    ],
    ids=repr,
)
def test_python_and_javascript_share_a_memo(oracle, fixed_part, tmp_path):
    values = {"chrome": ["chrome"], "edge": ["edge", "firefox"], "firefox": []}  # of sets
    if not isinstance(oracle, ItemOracle):
        values = {name: name for name in BROWSERS}
    path, options = tmp_path / "memo.json", {"epsilon_forever": 2.0, "fixed_part": fixed_part}
    module = client_module(oracle, **options)

    def in_javascript(calls):
        return node(tmp_path, REPEATED, module, path, json.dumps(calls))

    def same(report, posted):
        rows = [[int(x) for x in np.ravel(one)] for one in (report, posted)]
        return rows[0] == rows[1]

    first = in_javascript([*zip(values.values(), ROUNDS, strict=False)])
    client = RepeatedClient(oracle, path, question="browser", **options)
    assert client.spent == first["spent"]
    for name, posted in zip(ROUNDS, first["reports"], strict=False):
        assert same(client.report(values["edge"], collection_round=name), posted)
    added = [client.report(values["edge"], collection_round=name) for name in ROUNDS[3:]]
    assert client.spent == first["spent"]  # a value that JavaScript has paid for
    second = in_javascript([(values["chrome"], name) for name in [*ROUNDS, "last"]])
    assert second["reports"][:3] == first["reports"]
    assert all(map(same, added, second["reports"][3:5]))
    assert second["spent"] == first["spent"]
    assert same(client.report(values["edge"], collection_round="last"), second["reports"][5])


@needs_node
@slow
def test_a_memo_is_refused_in_javascript(tmp_path):
    oracle, path = GRR(1.0, categories=BROWSERS), tmp_path / "memo.json"

    def message(changed=lambda text: text, calls=(("edge", "may"),), question="browser", **options):
        path.write_text(changed(memo), encoding="utf-8")
        options = {"epsilon_forever": 2.0, "max_epsilon": 4.0, **options}
        module, calls = client_module(oracle, **options), json.dumps(calls)
        found = node(tmp_path, REPEATED, module, path, calls, question)
        assert changed(memo) == path.read_text(encoding="utf-8") or "message" not in found
        return found.get("message")

    client = RepeatedClient(oracle, path, question="browser", epsilon_forever=2.0)
    for value, name in [("edge", "may"), ("chrome", "june")]:
        client.report(value, collection_round=name)
    memo = path.read_text(encoding="utf-8")
    assert message() is None
    assert message(calls=[("edge", "july")]) is None
    assert "more than max_epsilon" in message(calls=[("firefox", "july")])
    assert message(calls=[("firefox", "july")], max_epsilon=6.0) is None
    assert "none of the 3" in message(calls=[("lynx", "july")])
    assert "damaged" in message(lambda text: text.replace("may", "mai"))
    assert "damaged" in message(lambda text: text[:50])
    assert "newer client" in message(lambda text: text.replace("client 2", "client 3"))
    assert "belongs to no question: delete" in message(lambda x: x.replace("client 2", "client 1"))
    assert "another question, survey" in message(epsilon_forever=3.0)
    assert "another question, survey" in message(question="Browser")
    assert "A memo belongs to a question" in message(question="")
    assert "another round" in message(calls=[("edge", "july")], collection_round="may")
    assert message(calls=[("edge", "may")], collection_round="may") is None


LAWS = """
import { repeated } from "./client.mjs";
const [n, value] = [20000, JSON.parse(process.argv[2])];
globalThis.setTimeout = (resume) => resume();  // no other tab could have written meanwhile
const found = { single: {}, permanent: {} };
for (let i = 0; i < n; i++) {
  let memo = null;
  const client = repeated({ getItem: () => memo, setItem: (_, text) => (memo = text) }, "browser");
  const report = await client.report(value, "may");
  const permanent = JSON.parse(memo).permanent[0];
  found.single[report] = (found.single[report] ?? 0) + 1;
  found.permanent[permanent] = (found.permanent[permanent] ?? 0) + 1;
}
console.log(JSON.stringify(found));
"""


@needs_node
@slow
@pytest.mark.parametrize(
    ("oracle", "value", "likelier", "others"),
    [
        (GRR(1.0, categories=BROWSERS), "edge", ["1"], ["0", "2"]),
        # A report is one of four places: the category 1 and the dummy 3 are this user's.
        (ItemOracle(1.0, categories=BROWSERS[:2], max_items=2), ["edge"], ["1", "3"], ["0", "2"]),
    ],
    ids=["value", "set"],
)
def test_repeated_reports_have_their_laws_in_javascript(oracle, value, likelier, others, tmp_path):
    """A single report spends 1, a permanent one 3; secure coins: wrong by chance once in 10**6."""
    found = node(tmp_path, LAWS, client_module(oracle, epsilon_forever=3.0), json.dumps(value))

    def p_value(kind, epsilon):
        expected = np.repeat([math.exp(epsilon), 1.0], [len(likelier), len(others)])
        counts = [found[kind].pop(name, 0) for name in [*likelier, *others]]
        assert not found[kind]
        found[kind] = dict(zip([*likelier, *others], counts, strict=True))
        return stats.chisquare(counts, expected * 20_000 / expected.sum()).pvalue

    assert p_value("single", 1.0) > 1e-6
    assert p_value("permanent", 3.0) > 1e-6
    # Negative controls, ten standard errors away: they pass by chance once in 10**6, too.
    assert p_value("single", 1.15) < 1e-6
    assert p_value("permanent", 2.75) < 1e-6


DRAWN = """
import { repeated } from "./client.mjs";
globalThis.setTimeout = (resume) => resume();
const draw = crypto.getRandomValues.bind(crypto);
let drawn = 0;
crypto.getRandomValues = (bytes) => ((drawn += bytes.length), draw(bytes));
let memo = null;
const client = repeated({ getItem: () => memo, setItem: (_, text) => (memo = text) }, "browser");
for (let i = 0; i < 10; i++) await client.report("edge", `${i}`);
console.log(JSON.stringify(drawn));
"""


@pytest.mark.slow
@needs_node
def test_a_report_that_is_certain_to_be_permanent_takes_few_words(tmp_path):
    """At epsilon 10 another one takes 22,000 tries, at 30 it did not end; of which it was no use.

    The negative control draws both.
    """
    oracle = GRR(10.0, categories=BROWSERS)
    assert node(tmp_path, DRAWN, client_module(oracle, epsilon_forever=10.0)) < 1000
    assert node(tmp_path, DRAWN, client_module(oracle, epsilon_forever=10.1)) > 10_000
    rare = GRR(30.0, categories=BROWSERS)
    assert node(tmp_path, DRAWN, client_module(rare, epsilon_forever=31.0)) < 10_000


TABS = """
import { repeated as inFirst } from "./client.mjs?first";
import { repeated as inSecond } from "./client.mjs?second";
const [, , way] = process.argv;

// A clock of its own, so that a busy machine changes nothing.
let now = 0;
const waiting = [];
globalThis.setTimeout = (resume, delay) => waiting.push([now + delay, resume]);
(function tick() {
  waiting.sort((a, b) => a[0] - b[0]);
  const [time, resume] = waiting.shift() ?? [now, () => {}];
  now = time;
  resume();
  setImmediate(tick);
})();

// A tab sees its own writes at once, and those of another one later, in the order of the storage.
const tabs = [new Map(), new Map()];
const storageOf = (tab, late) => ({
  getItem: (key) => tab.get(key) ?? null,
  setItem(key, text) {
    tab.set(key, text);
    setTimeout(() => tabs.forEach((one) => one.set(key, text)), late);
  },
});

// One turn after the other; locks that are shared are held at once.
const [held, last] = [[], {}];
const locks = {
  async request(name, options, work = options) {
    const before = last[name];
    let end;
    if (options.mode !== "shared") last[name] = new Promise((resolve) => (end = resolve));
    if (options.mode !== "shared") await before;
    const lock = { name };
    held.push(lock);
    try {
      return await work(lock);
    } finally {
      held.splice(held.indexOf(lock), 1);
      end?.();
    }
  },
  query: async () => ({ held: [...held] }),
};
if (way === "locks") Object.defineProperty(globalThis, "navigator", { value: { locks } });

let different = 0;
const clients = [];
for (let i = 0; i < 60; i++) {
  if (i % 3 === 0) clients[0] = inFirst(storageOf(tabs[0], i % 7), `question ${i}`);
  if (i % 3 === 0) clients[1] = inSecond(storageOf(tabs[1], 6 - (i % 7)), `question ${i}`);
  const both = await Promise.all(clients.map((one, j) => one.report(`${(i + j) % 300}`, `${i}`)));
  different += both[0] !== both[1];
  const again = await Promise.all(clients.map((one) => one.report("7", `${i}`)));
  different += again[0] !== both[0] || again[1] !== both[1];
}
console.log(JSON.stringify(different));
process.exit();
"""


def tabs(folder, way, *changes):
    module = client_module(GRR(1.0, categories=MANY), epsilon_forever=2.0)
    for old, new in changes:
        assert old in module
        module = module.replace(old, new)
    return node(folder, TABS, module, way)


@needs_node
@pytest.mark.parametrize("way", ["locks", "no locks"])
def test_two_tabs_at_once_send_one_report(way, tmp_path):
    """Two tabs whose storages lag behind each other by up to 7 ms."""
    assert tabs(tmp_path, way) == 0


@needs_node
@slow
@pytest.mark.parametrize(
    ("way", "change"),
    [
        ("locks", ("Math.max(0, ...written)", "0")),  # as locks alone: 27 of 200 in Chromium
        ("no locks", ("if (!locks) await pause();", "")),
    ],
)
def test_two_tabs_would_send_two_reports(way, change, tmp_path):
    """The negative controls."""
    assert tabs(tmp_path, way, change) > 10


QUESTIONS = """
import { repeated } from "./client.mjs";
const [older, question] = [JSON.parse(process.argv[2]), "smoke"];
const kept = new Map();
const getItem = (key) => kept.get(key) ?? null;
const storage = { getItem, setItem: (key, text) => kept.set(key, text) };
let parsed = 0;
const parse = JSON.parse;
JSON.parse = (...all) => (parsed++, parse(...all));
const smoke = repeated(storage, "smoke");
for (let i = 0; i < 30; i++) await smoke.report("edge", `${i}`);
await repeated(storage, "vote").report("chrome", "0");
const [keys, spent, nParsed] = [[...kept.keys()], smoke.spent, parsed];
const messages = [];
const said = (ask) => { try { ask(); } catch (error) { messages.push(error.message); } };
for (const name of [undefined, "", 3]) said(() => repeated(storage, name));
kept.set(keys[0], kept.get(keys[1]));
said(() => repeated(storage, "smoke"));
for (const [key, text] of Object.entries(older)) kept.set(key, text);
said(() => repeated(storage, "new"));
console.log(JSON.stringify([keys, spent, nParsed, messages]));
"""


@needs_node
def test_each_question_has_a_memo_of_its_own(tmp_path):
    """Memos that belong to no question are refused, and a memo is parsed when others wrote it."""
    oracle = GRR(1.0, categories=BROWSERS)
    module = client_module(oracle, epsilon_forever=2.0)
    (survey,) = re.findall(r'"survey": "([0-9a-f]{64})"', module)
    older = json.dumps({"format": "sklearn_ldp repeated client 1", "survey": survey})
    argument = json.dumps({f"sklearn_ldp {survey[:16]}": older})
    keys, spent, parsed, messages = node(tmp_path, QUESTIONS, module, argument)
    assert [key.split()[1] for key in keys] == ["smoke", "vote"]
    assert len(set(keys)) == 2
    assert (spent, parsed) == (2.0, 0)
    assert all("A memo belongs to a question" in message for message in messages[:3])
    assert "another question, survey or oracle" in messages[3]
    assert "belongs to no question" in messages[4]


LARGE = """
import { repeated } from "./client.mjs";
let memo = null;
const storage = { getItem: () => memo, setItem: (_, text) => (memo = text) };
globalThis.setTimeout = (resume) => resume();
const client = repeated(storage, "browser");
for (let i = 0; i < 60; i++) await client.report(`${i % 5}`, `${i}`);
const failing = { getItem: () => null, setItem: () => {} };
const full = { getItem: () => memo, setItem: () => { throw new Error("QuotaExceededError"); } };
const messages = [];
for (const one of [failing, full]) {
  const of_one = repeated(one, "browser");
  for (let i = 0; i < 2; i++) {
    await of_one.report("7", "new").catch((error) => messages.push(error.message));
  }
}
const again = await repeated(storage, "browser").report("x", "3");
console.log(JSON.stringify({ memo, again, messages, spent: client.spent }));
"""


@needs_node
def test_memos_that_are_large_or_cannot_be_kept(tmp_path):
    """Nothing is reported that is not kept; and Python reads what is."""
    oracle = OUE(1.0, categories=list(map(str, range(1000))))
    found = node(tmp_path, LARGE, client_module(oracle, epsilon_forever=2.0))
    (tmp_path / "memo.json").write_text(found["memo"])
    client = RepeatedClient(oracle, tmp_path / "memo.json", question="browser", epsilon_forever=2.0)
    assert client.report("x", collection_round="3")[0].tolist() == found["again"]
    assert (client.n_values, client.spent) == (5, found["spent"])
    assert all("does not keep the memo" in message for message in found["messages"][:2])
    assert found["messages"][2:] == ["QuotaExceededError"] * 2


# -- a page in a browser ---------------------------------------------------------------------------
@contextmanager
def site(folder, tab):
    """A server of two tabs and a folder, which hears what pages say when they are done."""
    done = []
    for name in ("index.html", "second.html"):
        (folder / name).write_text(tab)

    class Site(SimpleHTTPRequestHandler):
        def do_POST(self):
            done.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", done
        server.shutdown()


CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)


def browse(url, done, n_done, folder):
    """Open a page in Chromium until so many pages have said that they are done."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'c'}"]
    # A tab that nobody looks at would have one timer a second.
    shown = ["background-timer-throttling", "renderer-backgrounding", "popup-blocking"]
    options += [f"--disable-{one}" for one in [*shown, "backgrounding-occluded-windows"]]
    with open(folder / "log", "wb") as log:
        browser = subprocess.Popen([CHROMIUM, *options, url], stdout=log, stderr=log)
        try:
            patience(lambda: len(done) >= n_done, 120)
        finally:
            browser.terminate()
            browser.wait(30)


TAB = """<!doctype html><title>tab</title><script type="module">
import { repeated } from "./client.mjs";
let start = Number(location.hash.slice(1));
if (!start) {
  start = Date.now() + 4000;
  window.open(`/second.html#${start}`, "_blank", "noopener");  // which is another process
}
const found = [];
let client;
for (let i = 0; i < 200; i++) {
  const left = start + 80 * i - Date.now();
  await new Promise((resume) => setTimeout(resume, left));
  if (i % 4 === 0) client = repeated(localStorage, `question ${i}`);
  found.push(await client.report("edge", `${i}`));
}
await fetch("/done", { method: "POST", body: JSON.stringify(found) });
</script>"""


@slow
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed")
def test_two_tabs_of_a_browser_send_one_report(tmp_path):
    """Negative control: two clients whose memos are apart."""
    module = client_module(OLH(1.0, categories=MANY), epsilon_forever=2.0)
    (tmp_path / "client.mjs").write_text(module)
    with site(tmp_path, TAB) as (url, done):
        browse(url, done, 2, tmp_path)
    different = [one != other for one, other in zip(*done, strict=True)]
    assert (len(different), sum(different)) == (200, 0)
    apart = TAB.replace("`question ${i}`", "`question ${i} ${location.pathname.slice(1)}`")
    with site(tmp_path, apart) as (url, done):
        browse(url, done, 2, tmp_path)
    assert sum(one != other for one, other in zip(*done, strict=True)) > 100


SETS = """
const { privatize } = await import("./client.mjs");
const tell = (value) => {
  try { return privatize(value).length; } catch (error) { return error.message; }
};
const sets = [["a", "b", "a"], [], ["SECRET"], "a", ["a", null], [...Array(9).keys()]];
console.log(JSON.stringify(sets.map(tell)));
"""


@needs_node
@pytest.mark.parametrize("method", ["subset", pytest.param("hash", marks=slow)])
def test_javascript_takes_lists_of_items(method, tmp_path):
    """What is no list of categories is refused, or reported as an empty set."""
    oracle = ItemOracle(1.0, categories=["a", "b", *range(9)], max_items=2, method=method)
    width = oracle.privatize([[]]).shape[1]
    plain = node(tmp_path, SETS, client_module(oracle))
    assert [plain[i] for i in (0, 1, 5)] == [width] * 3
    assert all("none of the 11 categories" in plain[i] for i in (2, 4))
    assert "stand in a list" in plain[3]
    assert node(tmp_path, SETS, client_module(oracle, missing="report")) == [width] * 6
