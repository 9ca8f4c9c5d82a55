"""With a key, nothing counts that was not signed with it; caps limit batches and sources."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from forged import forged

from sklearn_ldp import GRR, OLH
from sklearn_ldp._core.aggregation._batches import Key
from sklearn_ldp.collection import (
    Aggregator,
    Caps,
    CheckpointError,
    RefusedBatchError,
    aggregate,
    aggregate_dask,
    describe_reports,
    read_reports,
    tally_file,
    tally_reports,
    write_reports,
)

KEY, OTHER = b"a key of 32 bytes for the tests!", b"another key of the same length !"
ORACLE = OLH(1.0, categories=20, random_state=0)
REPORTS = ORACLE.privatize(np.arange(200) % 20)
SUFFIXES = ("parquet", "arrows", "jsonl")


def written(path, key=KEY, reports=REPORTS, batch_id="relay/1", **options):
    write_reports(path, reports, ORACLE, batch_id=batch_id, key=key, **options)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_signed_files_are_read(suffix, tmp_path):
    pytest.importorskip("pyarrow")
    path = written(tmp_path / f"a.{suffix}")
    assert len(read_reports(path, ORACLE, key=KEY)) == 200
    assert aggregate(path, ORACLE, key=KEY).n_samples == 200
    assert aggregate(path, ORACLE).n_samples == 200  # who has no key checks no signature
    assert Aggregator(ORACLE, key=KEY).merge(tally_file(path, ORACLE, key=KEY)).n_samples == 200


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("key", "what"), [(None, "the file is not signed"), (OTHER, "signed with another key")]
)
def test_other_files_are_refused(suffix, key, what, tmp_path):
    pytest.importorskip("pyarrow")
    path = written(tmp_path / f"a.{suffix}", key)
    for read in (read_reports, tally_file, aggregate):
        with pytest.raises(RefusedBatchError, match=rf"a\.{suffix} is refused: .*{what}"):
            read(path, ORACLE, key=KEY)
    server = aggregate(tmp_path, ORACLE, key=KEY, on_refusal="skip")
    assert (server.n_samples, server.summary().n_refused) == (0, 1)


CHANGES = {
    "id": lambda content: content["batch"].update(id="relay/2"),
    "n_samples": lambda content: content["batch"].update(n_samples=199),
    "digest": lambda content: content["batch"].update(sha256="0" * 64),
    "tag": lambda content: content["batch"].update(tag="0" * 64),
    "no hexadecimal tag": lambda content: content["batch"].update(tag="é" * 64),
    "round": lambda content: content["configuration"].update(collection_round=""),
}


@pytest.mark.parametrize("what", CHANGES)
def test_every_part_of_the_header_is_signed(what, tmp_path):
    path = written(tmp_path / "a.jsonl", collection_round="may")
    header, _, rest = path.read_text().partition("\n")
    content = json.loads(header)
    CHANGES[what](content)
    path.write_text(f"{json.dumps(content)}\n{rest}")
    own_round = content["configuration"]["collection_round"]
    with pytest.raises(RefusedBatchError, match="signed with another key .* or was changed"):
        tally_file(path, ORACLE, collection_round=own_round, key=KEY)


# -- checkpoints ------------------------------------------------------------------------------
def test_signed_checkpoints(tmp_path):
    state, second = tmp_path / "state.npz", {"reports": REPORTS[:100], "batch_id": "relay/2"}
    aggregate(written(tmp_path / "a.jsonl"), ORACLE, checkpoint=state, key=KEY)
    assert Aggregator.load(state, ORACLE, key=KEY).n_samples == 200
    aggregate(written(tmp_path / "b.jsonl", **second), ORACLE, checkpoint=state, key=KEY)
    assert Aggregator.load(state, ORACLE, key=KEY).n_samples == 300
    with pytest.raises(CheckpointError, match="or it was written with another key"):
        Aggregator.load(state, ORACLE, key=OTHER)


def test_two_writers_with_a_key(tmp_path):
    state = tmp_path / "state.npz"
    Aggregator(ORACLE, key=KEY).save(state)
    one, two = (Aggregator.load(state, ORACLE, key=KEY) for _ in range(2))
    one.add(REPORTS[:50], "a").save(state)
    with pytest.raises(CheckpointError, match="another process has written it"):
        two.add(REPORTS[50:], "b").save(state)
    one.add(REPORTS[50:], "b").save(state)
    assert Aggregator.load(state, ORACLE, key=KEY).n_samples == 200


# -- tallies ----------------------------------------------------------------------------------
def test_tallies_are_signed():
    server = Aggregator(ORACLE, key=KEY)
    tally = tally_reports(REPORTS, ORACLE, "a", key=KEY)
    for other in (
        replace(tally, tag=""),
        tally.signed(OTHER),
        forged(tally, batches={"b": 200}, digests={"b": tally.digests["a"]}),
        forged(tally, digests={}),
        forged(tally, sizes=tally.sizes[::-1].copy(), tallies=tally.tallies[::-1].copy()),
        Aggregator(ORACLE).add(REPORTS, "a"),
        tally_reports(REPORTS[:100], ORACLE, "a", key=KEY)
        + tally_reports(REPORTS[100:], ORACLE, "b", key=KEY),
    ):
        with pytest.raises(RefusedBatchError, match="is not signed|signed with another key"):
            server.merge(other)
    assert server.n_samples == 0
    assert server.merge(pickle.loads(pickle.dumps(tally))).n_samples == 200
    assert Aggregator(ORACLE, key=KEY).merge(server).n_samples == 200
    both = tally_reports([[1, 1]], ORACLE, "b") + tally_reports([[2, 1]], ORACLE, "c")
    assert server.merge(both.signed(KEY)).n_samples == 202


def test_one_kind_of_tag_is_worth_nothing_for_another():
    key = Key(KEY)
    assert key.tag("tally", b"x") != key.tag("reports", b"x")
    assert key.has_made(key.tag("tally", b"x"), "tally", b"x")
    assert not key.has_made(key.tag("tally", b"x"), "reports", b"x")


# -- the key itself -----------------------------------------------------------------------------
def test_the_key_shows_nowhere(tmp_path):
    server = Aggregator(ORACLE, key=KEY)
    aggregate(written(tmp_path / "a.jsonl"), server)
    server.save(tmp_path / "state.npz")
    shown = f"{server!r} {server.summary()} {server.configuration} {Key(KEY)!r} {server.tally()!r}"
    files = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    described = str(describe_reports(tmp_path / "a.jsonl"))
    for text in (shown.encode(), files, described.encode(), pickle.dumps(server.tally())):
        assert KEY not in text
        assert KEY.hex().encode() not in text
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(server)


@pytest.mark.parametrize(
    ("key", "error", "what"),
    [
        (b"short", ValueError, "at least 16 bytes, got 5"),
        ("a key of 32 bytes for the tests!", TypeError, "must be bytes.*got str"),
    ],
)
def test_keys_that_are_none(key, error, what, tmp_path):
    for call in (
        lambda: Aggregator(ORACLE, key=key),
        lambda: write_reports(tmp_path / "a.jsonl", REPORTS, ORACLE, key=key),
        lambda: tally_reports(REPORTS, ORACLE, "a", key=key),
    ):
        with pytest.raises(error, match=what) as caught:
            call()
        assert "short" not in str(caught.value)
        assert "for the tests" not in str(caught.value)


# -- Dask ---------------------------------------------------------------------------------------
@pytest.mark.slow
def test_workers_check_and_sign(client, tmp_path):
    pytest.importorskip("pyarrow")
    for i in range(4):
        written(tmp_path / f"{i}.parquet", reports=REPORTS[50 * i :], batch_id=f"relay/{i}")
    written(tmp_path / "other.parquet", OTHER, REPORTS[:3], "relay/9")
    with pytest.raises(RefusedBatchError, match="signed with another key"):
        aggregate_dask(client, tmp_path, ORACLE, key=KEY)
    state = tmp_path / "state.npz"
    options = {"checkpoint": state, "caps": Caps(max_source_reports=400)}
    server = aggregate_dask(client, tmp_path, ORACLE, key=KEY, on_refusal="skip", **options)
    assert server.n_samples <= 400
    assert set(server.batches) < {f"relay/{i}" for i in range(4)}
    assert len(server.batches) == 3
    assert server.summary().n_refused == 2
    assert Aggregator.load(state, ORACLE, key=KEY).batches == server.batches


@pytest.mark.slow
def test_dask_names_other_contents_and_copies(client, tmp_path):
    pytest.importorskip("pyarrow")
    first = written(tmp_path / "0.jsonl", None)
    server = aggregate(first, Aggregator(ORACLE, on_repeat="ignore"))
    written(tmp_path / "1.jsonl", None, REPORTS[:50])  # the same id
    written(tmp_path / "2.jsonl", None)  # the same reports, shuffled otherwise
    written(tmp_path / "3.jsonl", None, batch_id="relay/copy")
    written(tmp_path / "4.jsonl", None, REPORTS[:100], "relay/new")
    aggregate_dask(client, tmp_path, server, on_refusal="skip")
    assert server.batches == {"relay/1": 200, "relay/new": 100}
    summary = server.summary()
    assert (summary.n_repeats, summary.n_refused) == (2, 2)
    assert "with other reports" in summary.refused[0].reason + summary.refused[1].reason
    assert "as batch 'relay/1'" in summary.refused[0].reason + summary.refused[1].reason


# -- caps -----------------------------------------------------------------------------------------
def test_caps_on_batches(tmp_path, monkeypatch):
    server = Aggregator(GRR(1.0, categories=3), caps=Caps(max_batch_reports=5, min_batch_reports=2))
    server.add([0, 1], "a").add([0, 1, 2, 2, 1], "b")
    for reports, what in [([0], "it has 1 reports, but at least 2"), ([0] * 6, "at most 5 are")]:
        with pytest.raises(RefusedBatchError, match=rf"'c' is refused: .*{what}"):
            server.add(reports, "c")
        with pytest.raises(RefusedBatchError, match=what):
            server.merge(tally_reports(reports, GRR(1.0, categories=3), "c"))
    assert server.n_samples == 7
    assert server.summary().n_refused == 4
    path = written(tmp_path / "a.jsonl", None)  # which is not read
    monkeypatch.setattr("sklearn_ldp._core.aggregation._report_files.count_batch", None)
    with pytest.raises(RefusedBatchError, match="at most 199 are accepted"):
        aggregate(path, ORACLE, caps=Caps(max_batch_reports=199))


def test_caps_on_sources(tmp_path):
    oracle, state = GRR(1.0, categories=3), tmp_path / "state.npz"
    caps = Caps(max_source_batches=2, max_source_reports=5)
    server = Aggregator(oracle, caps=caps)
    server.add([0, 1], "one/1").add([0], "one/2").add([0] * 5, "two/1").add([1], "no slash")
    for reports, batch_id, what in [
        ([0], "one/3", "the source 'one' would have 3 batches, but at most 2"),
        ([0], "two/2", "the source 'two' would have 6 reports, but at most 5"),
        ([0] * 5, "no other", "the source '' would have 6 reports, but at most 5"),
    ]:
        with pytest.raises(RefusedBatchError, match=what):
            server.add(reports, batch_id)
    server.save(state)
    server = Aggregator.load(state, oracle, caps=caps)
    with pytest.raises(RefusedBatchError, match="the source 'one' would have 3 batches"):
        server.add([0], "one/3")
    by_day = Caps(max_source_batches=1, source=lambda batch_id: batch_id.rpartition("/")[2])
    server = Aggregator(oracle, caps=by_day).add([0], "one/1").add([1], "one/2")
    with pytest.raises(RefusedBatchError, match="the source '1' would have 2 batches"):
        server.add([2], "two/1")
    both = tally_reports([0], oracle, "x/1") + tally_reports([1], oracle, "x/2")
    with pytest.raises(RefusedBatchError, match="would have 2 batches"):
        Aggregator(oracle, caps=Caps(max_source_batches=1)).merge(both)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3"])
def test_caps_that_are_none(value):
    with pytest.raises(ValueError, match="max_source_reports must be an integer >= 1, or None"):
        Caps(max_source_reports=value)
    with pytest.raises(ValueError, match="excludes every batch, because .* at most 2"):
        Caps(max_source_reports=2, min_batch_reports=3)
