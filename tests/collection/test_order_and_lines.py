"""What files and ledgers keep tells nobody's order, and posted lines count once, each by itself."""

import hashlib
import io
import itertools
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from estimators import slow_but

from sklearn_ldp import GRR, OLH, OUE, Domain, RangeOracle, SubsetSelection
from sklearn_ldp._core.aggregation._ledger import N_LINES, CopyRule, lines_of
from sklearn_ldp._core.mechanisms import configuration_difference
from sklearn_ldp.collection import (
    Aggregator,
    CheckpointError,
    RefusedBatchError,
    RepeatedBatchError,
    aggregate,
    aggregate_dask,
    describe_reports,
    read_reports,
    tally_file,
    tally_reports,
    write_reports,
)

YES_NO = GRR(1.0, categories=2)
SEEDS = OLH(1.0, categories=4, hash_family="mixing")
PLACES = RangeOracle(1.0, categories=Domain.grid(*[Domain.bins(4, bounds=(-0.5, 3.5))] * 2))
KEY = bytes(range(32))


def posted(oracle, reports, **changes):
    configuration = {**oracle.protocol().configuration, **changes}
    return [
        json.dumps({"configuration": configuration, "report": row}).encode() + b"\n"
        for row in np.asarray(reports).tolist()
    ]


def drawn(oracle, n):
    values = np.arange(n) % 2
    if oracle is PLACES:
        values = np.column_stack([values + 0.25, values])
    return posted(oracle, oracle.privatize(values))


def stored(path, lines):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(lines))
    return path


# -- the attack: whoever knows 188 of 200 reports looks for the order of the other 12 --------------
KNOWN = 188


def candidates(reports):
    """All orders that the 12 unknown reports may have had, if their sum is known."""
    ones = int(reports[KNOWN:].sum())
    for places in itertools.combinations(range(12), ones):
        guess = reports.copy()
        guess[KNOWN:] = 0
        guess[[KNOWN + place for place in places]] = 1
        yield guess


def found(kept, digest_of, reports):
    """The orders whose digest, in any of some forms, is among the bytes that were kept."""
    return [
        guess
        for guess in candidates(reports)
        if any(one in kept for d in digest_of(guess) for one in (d[:16], d.hex()[:32].encode()))
    ]


LINES = posted(YES_NO, [0, 1])
CONFIGURATION = json.dumps(YES_NO.protocol().configuration, sort_keys=True)


def digests_of_order(guess):
    """Digests of reports in their order, as ids and ledgers used to hold them."""
    column = hashlib.sha256(hashlib.sha256(guess.astype(np.uint8)).digest())
    yield column.digest()
    yield hashlib.sha256(f"batch\n{CONFIGURATION}\n{column.hexdigest()}".encode()).digest()
    yield hashlib.sha256(b"posted\n" + b"".join(map(LINES.__getitem__, guess))).digest()


def kept_of(what, reports, tmp_path):
    state, file = tmp_path / "state.npz", tmp_path / "a.jsonl"
    if what == "file":
        write_reports(file, reports, YES_NO)
        return file.read_bytes()
    if what == "the digest of the order":  # the negative control
        return next(digests_of_order(reports))
    if what in ("pickle", "array"):
        server = Aggregator(YES_NO).add(reports, "a")
        server.save(state)
        return pickle.dumps(server) if what == "pickle" else state.read_bytes()
    if what == "tally":
        return pickle.dumps(tally_reports(reports, YES_NO, "a"))
    aggregate(stored(file, posted(YES_NO, reports)), YES_NO, checkpoint=state)
    return state.read_bytes()


@pytest.mark.parametrize(
    "what", ["file", "array", "pickle", "tally", "posted", "the digest of the order"]
)
def test_nothing_that_is_kept_tells_the_order(what, tmp_path):
    """A digest of the order is found within comb(12, 6) = 924 hashes; here there is none."""
    reports = np.random.default_rng(0).integers(2, size=200)
    reports[KNOWN:] = [0, 1] * 6
    orders = found(kept_of(what, reports, tmp_path), digests_of_order, reports)
    if what == "the digest of the order":
        (order,) = orders
        np.testing.assert_array_equal(order, reports)
    else:
        assert orders == []


@pytest.mark.parametrize("what", ["array", "posted"])
def test_shards_do_not_tell_the_order(what, tmp_path):
    """Ten shards of a hundred reports: in turn, the first shard has all the ones.

    Dealt out at random, 20 shards of 10 among 100 have the ones in the same one with a probability
    below 1e-9.
    """
    reports = (np.arange(100) % 10 == 0).astype(int)
    server = Aggregator(YES_NO)
    if what == "array":
        server.add(reports, "a")
    else:
        aggregate(stored(tmp_path / "a.jsonl", posted(YES_NO, reports)), server)
    shards = server.tally().tallies
    assert shards.sum(axis=0).tolist() == [90, 10]
    assert shards[:, 1].max() < 10
    # The negative control: a file is shuffled when it is written, and then dealt out in turn.
    assert np.bincount(np.arange(100) % 10, weights=reports, minlength=10).max() == 10
    write_reports(tmp_path / "b.jsonl", reports, YES_NO, batch_id="b")
    assert aggregate(tmp_path / "b.jsonl", Aggregator(YES_NO)).summary().shard_sizes == (10,) * 10


def test_ids_are_random():
    reports = np.arange(1000) % 2
    ids = [write_reports(io.BytesIO(), reports, YES_NO, format="jsonl", key=k) for k in (None, KEY)]
    ids += [
        write_reports(io.BytesIO(), reports, YES_NO, format="jsonl", random_state=0)
        for _ in range(2)
    ]
    assert len(set(ids)) == 4
    assert {len(one) for one in ids} == {32}


def test_checkpoints_hold_neither_times_nor_the_order_of_batches(tmp_path, monkeypatch):
    paths, one = [tmp_path / "1.npz", tmp_path / "2.npz"], GRR(1.0, categories=2, n_shards=1)
    for path, names, now in zip(paths, ("ab", "ba"), (1e9, 2e9), strict=True):
        monkeypatch.setattr("time.time", lambda now=now: now)
        server = Aggregator(one)
        server._secret = bytes(16)
        for name in names:
            server.add([0] * (1 + ord(name)), name)
        server.save(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with zipfile.ZipFile(paths[0]) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_copies_of_arrays_are_known_while_the_aggregator_lives(tmp_path):
    reports = np.random.default_rng(0).integers(2, size=1000)
    server = Aggregator(YES_NO).add(reports, "a")
    with pytest.raises(RepeatedBatchError, match="'b' before, as batch 'a'"):
        server.add(reports, "b")
    server.save(tmp_path / "state.npz")
    # The digest of their order is kept nowhere, and reports of two kinds have nothing else.
    assert Aggregator.load(tmp_path / "state.npz", YES_NO).add(reports, "b").n_samples == 2000


# -- posted files ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "oracle", [GRR(1.0, categories=3), OUE(1.0, categories=3), OLH(1.0, categories=3)]
)
def test_lines_as_posted_are_a_batch(oracle, tmp_path):
    reports = oracle.privatize(np.arange(3).repeat(200))
    path = stored(tmp_path / "a.jsonl", posted(oracle, reports))
    np.testing.assert_array_equal(read_reports(path, oracle), reports)
    stated = describe_reports(path)
    assert (stated["n_samples"], stated["configuration"]) == (600, oracle.protocol().configuration)
    alone = Aggregator(oracle).add(reports, "alone")
    np.testing.assert_array_equal(aggregate(path, oracle).estimate_.values, alone.estimate_.values)
    stored(tmp_path / "again.jsonl", posted(oracle, reports))
    with pytest.raises(RepeatedBatchError):
        aggregate(tmp_path, oracle)


def odd_line(report):
    return posted(YES_NO, [1])[0].replace(b'"report": 1', b'"report": ' + report)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"7\n", "nothing else"),
        (b"\xef\xbb\xbf" + odd_line(b"1"), "nothing else"),
        (odd_line(b'1, "user": "SECRET"'), "nothing else"),
        (odd_line(b'1, "nonce": "00", "version": 1'), "a nonce or a version"),
        (odd_line(b'1, "report": 1'), "nothing else"),
        (odd_line(b'1, "configuration": {"a": "SECRET"}'), "nothing else"),
        (posted(GRR(1.1, categories=2), [1])[0], "epsilon 1.1"),
        (odd_line(b"2"), "[0, 1]"),
        *(
            (odd_line(b), "expected a 64-bit integer")
            for b in (b'"1"', b"1.5", b"true", b"null", b"{}")
        ),
        *((odd_line(b), "expected a 64-bit integer") for b in (b"[1]", b"[[1]]")),
    ],
    ids=repr,
)
def test_bad_lines_refuse_the_batch(line, what):
    good = posted(YES_NO, [0, 1] * 5)
    assert len(read_reports(b"".join(good), YES_NO, format="jsonl")) == 10
    with pytest.raises(RefusedBatchError) as info:
        read_reports(b"".join([*good, line]), YES_NO, format="jsonl")
    assert what in str(info.value)
    assert "SECRET" not in str(info.value)


def test_lines_that_are_unsigned_or_say_nothing_are_refused():
    for content, key, what in (
        (odd_line(b"1"), b"k" * 16, "not signed"),
        (b"{}\n", None, "no configuration"),
    ):
        with pytest.raises(RefusedBatchError, match=what):
            read_reports(content, YES_NO, format="jsonl", key=key)


def test_posted_lines_are_read_twice():
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    with pytest.raises(RefusedBatchError, match="Save the lines to a file"):
        read_reports(Pipe(b"".join(posted(YES_NO, [0, 1]))), YES_NO, format="jsonl")


def test_the_id_of_posted_lines_does_not_depend_on_their_order(tmp_path):
    lines = posted(YES_NO, [0, 0, 1, 1, 1])
    ids = {
        describe_reports(stored(tmp_path / "a.jsonl", order))["batch_id"]
        for order in (lines, lines[::-1], [line.strip() + b"\r\n" for line in lines])
    }
    assert len(ids) == 1
    for path, other in (("a.jsonl", lines + lines[:1]), ("a.jsonl", lines[1:]), ("b.jsonl", lines)):
        ids.add(describe_reports(stored(tmp_path / path, other))["batch_id"])
    assert len(ids) == 4
    assert "place" not in describe_reports(tmp_path / "a.jsonl")


@pytest.mark.parametrize("oracle", [YES_NO, SEEDS, PLACES], ids=str)
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_posted_file_that_grows_counts_once(oracle, is_cut, tmp_path):
    """It counted 100, 300 and 600 for a truth of 300; and 150, then 450, for a cut one."""
    lines, path, state = drawn(oracle, 300), tmp_path / "a.jsonl", tmp_path / "state.npz"
    counted = 150 if is_cut else 100
    for n in (counted, 200, 300, counted):
        stored(path, lines[:n])
        if n == counted:
            aggregate(path, oracle, checkpoint=state)
        else:
            refused = f"has counted the first {counted} lines.*file with another name"
            with pytest.raises(RepeatedBatchError, match=refused):
                aggregate(path, oracle, checkpoint=state)
        assert Aggregator.load(state, oracle).n_samples == counted
    # The remedy.
    aggregate(stored(tmp_path / "b.jsonl", lines[counted:]), oracle, checkpoint=state)
    assert Aggregator.load(state, oracle).n_samples == 300
    # Other lines at the same place are another batch, as after a rotation of files.
    aggregate(stored(path, drawn(SEEDS, 300)), Aggregator(SEEDS))
    if oracle is SEEDS:
        aggregate(stored(path, drawn(SEEDS, 300)), SEEDS, checkpoint=state)
        assert Aggregator.load(state, oracle).n_samples == 600


@pytest.mark.parametrize("oracle", [YES_NO, SEEDS, PLACES], ids=str)
def test_tallies_of_a_posted_file_that_grows_count_once(oracle, tmp_path):
    """Workers read it without the ledger: 100, 300 and 600 were counted for a truth of 300."""
    lines, path = drawn(oracle, 300), tmp_path / "a.jsonl"
    tallies = [tally_file(stored(path, lines[:n]), oracle) for n in (100, 200, 300)]
    server = Aggregator(oracle).merge(tallies[0])
    for other in tallies[1:]:
        with pytest.raises(
            RepeatedBatchError, match="a tally does not show whether the file has grown"
        ):
            server.merge(other)
        with pytest.raises(
            RepeatedBatchError, match="a tally does not show whether the file has grown"
        ):
            tallies[0] + other
    with pytest.raises(RepeatedBatchError, match="has counted the first 100 lines"):
        aggregate(path, server)
    read = aggregate(stored(path, lines[:100]), Aggregator(oracle))
    with pytest.raises(
        RepeatedBatchError, match="a tally does not show whether the file has grown"
    ):
        read.merge(tallies[2])
    # The remedy; and what aggregate reads itself may be at the place of another file, as before.
    server.merge(tally_file(stored(tmp_path / "b.jsonl", lines[100:]), oracle))
    other = drawn(SEEDS, 50)
    if oracle is SEEDS:
        aggregate(stored(path, other), server)
    assert (server.n_samples, read.n_samples) == (300 + 50 * (oracle is SEEDS), 100)


@pytest.mark.parametrize("oracle", [YES_NO, SEEDS], ids=str)
def test_lines_may_be_spelled_with_other_spaces(oracle, tmp_path):
    """A relay that writes JSON anew makes no new batch: 100 lines counted 200."""
    lines, path = drawn(oracle, 300), tmp_path / "a.jsonl"
    server = aggregate(stored(path, lines[:100]), Aggregator(oracle, on_repeat="ignore"))
    for spaces in ((",", ":"), (" ,", ":  "), (",\t", "\t:"), (", ", ": \r")):
        texts = [json.dumps(json.loads(line), separators=spaces) for line in lines]
        spelled = [f" {text} \r\n".encode() for text in texts]
        aggregate(stored(path, spelled[:100]), server)
        with pytest.raises(RepeatedBatchError, match="has counted the first 100 lines"):
            aggregate(stored(path, spelled), server)
    assert (server.n_samples, server.summary().n_repeats) == (100, 4)


def test_honest_files_of_few_categories_all_count(tmp_path):
    """They share all their lines, and often even how many there are of each."""
    server = Aggregator(YES_NO, on_repeat="ignore")
    for i in range(20):
        aggregate(stored(tmp_path / f"{i}.jsonl", posted(YES_NO, np.arange(40) % 2)), server)
        aggregate(stored(tmp_path / f"{i}.jsonl", posted(YES_NO, np.arange(40) % 2)), server)
    summary = server.summary()
    assert (server.n_samples, summary.n_repeats, summary.n_refused) == (800, 20, 0)


def test_a_namesake_is_named_where_nobody_can_tell(tmp_path):
    """Of two relays that give their files the same names; or of one whose folder was moved."""
    for oracle, lines in ((YES_NO, posted(YES_NO, [0, 1] * 20)), (SEEDS, drawn(SEEDS, 40))):
        paths = [stored(tmp_path / place / "1.jsonl", lines) for place in ("x", "y")]
        server = aggregate(paths[0], Aggregator(oracle, on_repeat="ignore"))
        aggregate(os.path.relpath(paths[0]), server)
        if oracle is SEEDS:  # then it is a copy, whatever its folder
            aggregate(paths[1], server)
            assert server.summary().n_repeats == 2
            continue
        with pytest.raises(RepeatedBatchError, match="of this name in another folder"):
            aggregate(paths[1], server)
        with pytest.raises(RepeatedBatchError, match="of this name in another folder"):
            server.merge(tally_file(paths[1], oracle))
        assert (server.n_samples, server.summary().n_repeats) == (40, 1)


@pytest.mark.parametrize(
    "oracle", slow_but([SEEDS], [SEEDS, OLH(1.0, categories=8000)]), ids=["mixing", "linear"]
)
@pytest.mark.parametrize("form", ["more", "fewer", "one changed", "two together"])
def test_lines_that_were_counted_under_another_name_are_refused(oracle, form, tmp_path):
    """Of 32 lines at least half are known: with 5 of 6 shared, but for once in 10**5."""
    first, second, more = (drawn(oracle, n) for n in (300, 300, 60))
    state = tmp_path / "state.npz"
    for name, lines in (("a", first), ("b", second)):
        aggregate(stored(tmp_path / f"{name}.jsonl", lines), oracle, checkpoint=state)
    lines = {
        "more": more + first,
        "fewer": first[30:],
        "one changed": more[:1] + first[1:][::-1],
        "two together": first + second,
    }[form]
    other = stored(tmp_path / "c.jsonl", lines)
    with pytest.raises(RepeatedBatchError, match="has counted most lines of batch 'posted"):
        aggregate(other, oracle, checkpoint=state)
    # The negative control: nine of ten users are others, and the tenth's client has sent twice.
    aggregate(stored(other, drawn(oracle, 270) + first[:30]), oracle, checkpoint=state)
    assert Aggregator.load(state, oracle).n_samples == 900


def test_a_line_that_is_repeated_refuses_no_honest_one(tmp_path):
    """A thousand copies of a line are one of the lines by which a file is known."""
    spam = drawn(SEEDS, 3)
    server = Aggregator(SEEDS)
    for i in range(3):
        aggregate(stored(tmp_path / f"{i}.jsonl", drawn(SEEDS, 50) + spam * 300), server)
    assert server.n_samples == 3 * 950


def test_lines_are_bounded_keyed_and_of_no_order(tmp_path):
    lines = drawn(SEEDS, 200)
    one, other, again = Aggregator(SEEDS), Aggregator(SEEDS), tmp_path / "b" / "a.jsonl"
    for server in (one, other):
        aggregate(stored(tmp_path / "a.jsonl", lines), server)
    (mine,), (theirs,) = (list(server.tally().digests.values()) for server in (one, other))
    assert len(lines_of(mine)) == N_LINES
    assert not set(lines_of(mine)) & set(lines_of(theirs))  # each collection has its own key
    fresh = Aggregator(SEEDS)
    fresh._secret = one._secret
    aggregate(stored(again, lines[::-1]), fresh)
    (reversed_,) = fresh.tally().digests.values()
    assert lines_of(reversed_) == lines_of(mine)


@pytest.mark.parametrize(("cells", "is_rare"), [(20_000, True), (200, False)])
def test_the_bound_of_shared_lines_holds(cells, is_rare, seed):
    """Of reports that are uniform among many cells no two batches share half of the lines.

    They do so with a probability below 2**-40 each, and there are 200. Among 200 cells all batches
    share more, and the rule knows: the negative control.
    """
    rng = np.random.default_rng(seed)
    rule, n, shared = CopyRule(float(np.log2(cells)), 0), 300, []
    for _ in range(200):
        keys = rng.permutation(cells)
        lowest = [set(np.unique(keys[rng.integers(cells, size=n)])[:N_LINES]) for _ in range(2)]
        shared.append(len(lowest[0] & lowest[1]))
    assert (max(shared) < N_LINES // 2) is is_rare
    assert rule.tells_lines(N_LINES // 2, n, 1) is is_rare


# -- one line refuses no others --------------------------------------------------------------------
def assert_alone_as_beside(oracle, lines, odd, passes):
    """Some lines pass, or none of them, whatever stands before or after them."""
    for content in (odd[:1], lines + odd, odd + lines):
        if passes:
            read = read_reports(b"".join(content), oracle, format="jsonl")
            assert len(read) == len(content)
        else:
            with pytest.raises(RefusedBatchError):
                read_reports(b"".join(content), oracle, format="jsonl")


ZERO = posted(YES_NO, [0])[0].strip()
ODD = {
    "null": (posted(YES_NO, [1], x=None)[0], False),
    "another epsilon": (posted(YES_NO, [1], epsilon=2.0)[0], False),
    "an integer": (posted(YES_NO, [1], epsilon=1)[0], True),
    "a list": (ZERO.replace(b'"report": 0', b'"report": [0]'), False),
    "a number": (ZERO.replace(b'"configuration": {', b'"configuration": 3, "x": {'), False),
    "no object": (b'{"configuration": null, "report": 1}', False),
    "long": (ZERO.ljust(2**20), True),
    "too long": (ZERO.ljust(2**20 + 1), False),
}


@pytest.mark.parametrize("name", ODD)
def test_a_line_passes_alone_as_beside_others(name):
    line, passes = ODD[name]
    assert_alone_as_beside(YES_NO, posted(YES_NO, [0, 1] * 20), [line.strip(b"\n") + b"\n"], passes)


def test_lines_of_two_forms_pass_beside_each_other():
    subset, mixing = SubsetSelection(1.0, categories=300), OLH(categories=9, hash_family="mixing")
    unlisted = OLH(categories="open", hash_family="mixing")
    assert_alone_as_beside(mixing, drawn(mixing, 9), drawn(unlisted, 9), True)
    reports = subset.privatize(np.arange(9))
    sets = [np.flatnonzero(np.unpackbits(bits)[:300]).tolist() for bits in reports]
    lines, old = posted(subset, reports), posted(subset, sets)
    assert_alone_as_beside(subset, lines, old, True)
    both = read_reports(b"".join(lines + old), subset, format="jsonl")
    np.testing.assert_array_equal(both, np.concatenate([reports, reports]))


def test_an_entry_that_is_null_is_not_a_missing_one(tmp_path):
    ours = YES_NO.protocol().configuration
    told = "'x' (NoneType) instead of nothing"  # no value of a name that nobody knows
    assert configuration_difference({**ours, "x": None}, ours) == told
    assert configuration_difference(ours, {**ours, "x": None}) == "x nothing instead of None"
    path = tmp_path / "a.jsonl"
    write_reports(path, [0, 1], YES_NO)
    path.write_text(path.read_text().replace('"epsilon"', '"x": null, "epsilon"', 1))
    with pytest.raises(RefusedBatchError, match=r"'x' \(NoneType\) instead of nothing"):
        read_reports(path, YES_NO)


# -- what is kept of refused reports ---------------------------------------------------------------
MARKER = "HIV positive"
RAW = {
    "a text": lambda ours: {"configuration": ours, "report": MARKER},
    "a list": lambda ours: {"configuration": ours, "report": [MARKER]},
    "a number": lambda ours: {"configuration": ours, "report": 47114711},
    "another name": lambda ours: {"configuration": ours, "value": MARKER},
    "a configuration": lambda ours: {"configuration": {**ours, "x": MARKER}, "report": 0},
    "no post": lambda ours: MARKER,
}


@pytest.mark.parametrize("name", RAW)
@pytest.mark.parametrize("place", ["first", "second"])
def test_a_checkpoint_keeps_no_text_of_a_refused_report(name, place, tmp_path):
    """A client posted a raw value: the summary and the checkpoint have its type and its length."""
    ours = YES_NO.protocol().configuration
    lines = [json.dumps({"configuration": ours, "report": 0})] * (place == "second")
    path = tmp_path / "posted.jsonl"
    path.write_text("\n".join([*lines, json.dumps(RAW[name](ours))]) + "\n")
    state = tmp_path / "state.npz"
    server = aggregate(path, YES_NO, checkpoint=state, on_refusal="skip")
    (refusal,) = server.summary().refused
    kept = state.read_bytes() + str(server.summary()).encode()
    assert MARKER.encode() not in kept
    assert b"47114711" not in kept
    assert b"posted.jsonl is refused" in kept  # control: why is kept
    if name in ("a text", "a configuration"):
        assert "str of length 12" in refusal.reason


# -- advice that loses data ------------------------------------------------------------------------
def test_a_signed_checkpoint_asks_for_its_key(tmp_path):
    state = tmp_path / "state.npz"
    Aggregator(YES_NO, key=KEY).add([0, 1], "a").save(state)
    with pytest.raises(CheckpointError, match="is signed, but no key was passed") as info:
        aggregate(iter([]), YES_NO, checkpoint=state)
    assert "earlier" not in str(info.value)
    with pytest.raises(
        CheckpointError, match="another key.*retry with the key that wrote it.*again"
    ):
        aggregate(iter([]), YES_NO, checkpoint=state, key=KEY[::-1])
    assert Aggregator.load(state, YES_NO, key=KEY).n_samples == 2
    # The negative control: one that is not signed is not taken for one that is.
    Aggregator(YES_NO).add([0, 1], "a").save(state)
    content = bytearray(state.read_bytes())
    content[len(content) // 2] ^= 1
    state.write_bytes(content)
    with pytest.raises(
        CheckpointError, match="damaged or truncated.*restore an earlier checkpoint"
    ):
        Aggregator.load(state, YES_NO)


def test_the_advice_for_an_unsigned_checkpoint_works(tmp_path):
    path, oracle, key = tmp_path / "state.npz", YES_NO, KEY
    Aggregator(oracle).add([0, 1], "a").save(path)
    before = path.read_bytes()
    with pytest.raises(
        CheckpointError, match="is not signed, but this collection has a key"
    ) as info:
        aggregate(iter([]), oracle, checkpoint=path, key=key)
    assert path.read_bytes() == before
    assert "merge Aggregator.load(path, oracle).tally().signed(key)" in str(info.value)
    Aggregator(oracle, key=key).merge(Aggregator.load(path, oracle).tally().signed(key)).save(path)
    assert Aggregator.load(path, oracle, key=key).batches == {"a": 2}


def as_earlier(path):
    """A checkpoint as earlier releases wrote the second version: without a secret."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    name = "header.npy"
    content = json.loads(np.load(io.BytesIO(members[name])).tobytes())
    del content["secret"], content["is_signed"]
    text, array = io.BytesIO(), np.frombuffer(json.dumps(content).encode(), np.uint8)
    np.lib.format.write_array(text, array, version=(1, 0))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for member, data in {**members, name: text.getvalue()}.items():
            archive.writestr(member, data)
        archive.comment = b"0" * 64
    body = file.getvalue()[:-64]
    path.write_bytes(body + hashlib.sha256(body).hexdigest().encode())


def test_checkpoints_of_earlier_releases_are_read_or_refused(tmp_path):
    state = tmp_path / "state.npz"
    Aggregator(YES_NO).add([0, 1], "a").save(state)
    as_earlier(state)
    assert Aggregator.load(state, YES_NO).batches == {"a": 2}
    aggregate(stored(tmp_path / "a.jsonl", posted(YES_NO, [0])), YES_NO, checkpoint=state)
    as_earlier(state)
    with pytest.raises(CheckpointError, match="Add all files to a new checkpoint"):
        Aggregator.load(state, YES_NO)


def test_a_cluster_knows_lines_that_grow_and_lines_of_others(tmp_path):
    distributed = pytest.importorskip("distributed")
    lines, state = drawn(SEEDS, 300), tmp_path / "state.npz"
    path, other = stored(tmp_path / "a.jsonl", lines[:100]), tmp_path / "b.jsonl"
    cluster = distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        aggregate_dask(client, [path], SEEDS, checkpoint=state)
        stored(path, lines)
        with pytest.raises(RepeatedBatchError, match="has counted the first 100 lines"):
            aggregate_dask(client, [path], SEEDS, checkpoint=state)
        stored(other, lines[10:110])
        with pytest.raises(RepeatedBatchError, match="has counted most lines of batch"):
            aggregate_dask(client, [other], SEEDS, checkpoint=state)
        stored(other, lines[100:])
        aggregate_dask(client, [other], SEEDS, checkpoint=state)
    server = aggregate(other, SEEDS, checkpoint=state)  # the cluster's places are those here
    assert (server.n_samples, server.summary().n_repeats) == (300, 0)
