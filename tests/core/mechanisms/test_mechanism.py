"""Collecting needs only a mechanism: one without p and q goes through every step."""

import io
import pickle

import numpy as np
import pytest
from estimators import slow_but
from one_bit import mean, one_bit

from sklearn_ldp import GRR, OLH, ProjectiveGeometryResponse
from sklearn_ldp._core.mechanisms import Counts
from sklearn_ldp.collection import (
    Aggregator,
    RefusedBatchError,
    aggregate,
    describe_reports,
    read_reports,
    report_configuration,
    tally_file,
    tally_reports,
    write_reports,
)
from sklearn_ldp.robustness import hash_function_test, support_size_test
from sklearn_ldp.utils._checks import check_exact_epsilon_of

PROTOCOL = one_bit(n_shards=4)
NUMBERS = np.random.default_rng(0).binomial(100, 0.3, size=40_000)
REPORTS = PROTOCOL.privatize(NUMBERS, random_state=0)


def is_the_mean(tallies, shift=0.0):
    """Whether the mean is within 6 standard errors (of a bit); error rate 2e-9."""
    return abs(mean(PROTOCOL, tallies) - NUMBERS.mean() - shift) < 6 * 100 / 0.46 / 2 / 200


def test_its_epsilon_is_proved_by_enumeration():
    check_exact_epsilon_of(one_bit(1.0, 5).mechanism, range(5), 1.0)


@pytest.mark.parametrize("form", slow_but(["parquet", "arrow"], ["parquet", "arrow", "jsonl"]))
def test_files(form):
    file = io.BytesIO()
    write_reports(file, REPORTS, PROTOCOL, batch_id="monday", format=form)
    content = file.getvalue()
    assert describe_reports(content, format=form)["n_samples"] == len(REPORTS)
    again = read_reports(content, PROTOCOL, format=form)
    assert again.dtype == np.uint8
    assert again.sum() == REPORTS.sum()
    tally = tally_file(content, PROTOCOL, format=form)
    assert is_the_mean(tally.tallies.sum(axis=0))
    assert not is_the_mean(tally.tallies.sum(axis=0), shift=10)  # the negative control
    others = (one_bit(2.0), "epsilon 1.0 instead of 2.0"), (GRR(categories=2), "oracle")
    for other, what in others:
        with pytest.raises(RefusedBatchError, match=what):
            read_reports(content, other, format=form)


def test_ledger_and_checkpoint(tmp_path):
    batches = {"monday": REPORTS[:15_000], "tuesday": REPORTS[15_000:]}
    server = Aggregator(PROTOCOL, on_repeat="ignore")
    for name, reports in batches.items():
        server.add(reports, name).add(reports, name)
    assert server.n_samples == len(REPORTS)
    assert server.summary().n_repeats == 2
    assert len(server.summary().shard_sizes) == 4
    with pytest.raises(RefusedBatchError, match="zeros and ones"):
        server.add([2], "bad")
    server.save(tmp_path / "state.npz")
    loaded = Aggregator.load(tmp_path / "state.npz", PROTOCOL)
    assert loaded.batches == {"monday": 15_000, "tuesday": 25_000}
    np.testing.assert_array_equal(loaded.tally().tallies, server.tally().tallies)
    assert is_the_mean(loaded.tally().tallies.sum(axis=0))
    with pytest.raises(ValueError, match="n_levels 101 instead of 51"):
        Aggregator.load(tmp_path / "state.npz", one_bit(n_levels=51, n_shards=4))
    assert "OneBit" in repr(loaded)
    with pytest.raises(AttributeError, match="no oracle and no estimate"):
        loaded.oracle_  # noqa: B018


def test_streams_and_workers():
    total = aggregate((REPORTS[i::3] for i in range(3)), PROTOCOL, batch_id="x")
    assert total.n_samples == len(REPORTS)
    parts = [tally_reports(REPORTS[i::3], PROTOCOL, f"x/{i}") for i in range(3)]
    sums = [one.tallies.sum(axis=0) for one in (parts[0] + parts[1] + parts[2], total.tally())]
    np.testing.assert_array_equal(*sums)
    again = pickle.loads(pickle.dumps(PROTOCOL))
    assert not again.difference(PROTOCOL)
    assert again.configuration == PROTOCOL.configuration
    configuration = report_configuration(PROTOCOL, collection_round="may")
    assert (configuration["collection_round"], configuration["n_levels"]) == ("may", 101)
    assert not {"p", "q"} & configuration.keys()


def test_groups_and_shards():
    """Counts by group and shard equal those of each group's reports alone."""
    mechanism, by = PROTOCOL.mechanism, np.random.default_rng(1).integers(3, size=len(REPORTS))
    shard = np.random.default_rng(2).integers(2, size=len(REPORTS))
    counts = Counts.empty(mechanism, n_shards=2, n_groups=3).added(
        mechanism,
        len(REPORTS),
        lambda start, stop: REPORTS[start:stop],
        n_jobs=2,
        slots_of=lambda start, stop: (2 * by + shard)[start:stop],
    )
    assert counts.n_samples == len(REPORTS)
    for group in range(3):
        alone = np.bincount(REPORTS[by == group], minlength=2)
        np.testing.assert_array_equal(counts.by_group[0][group], alone)
        part = counts.of_shards([1]).tallies[group, 0]
        np.testing.assert_array_equal(part, np.bincount(REPORTS[(by == group) & (shard == 1)]))
    total = counts + counts
    assert total.n_samples == 2 * len(REPORTS)
    assert counts.n_samples == len(REPORTS)  # immutable


def test_what_differs_is_said_in_words():
    mine = OLH(categories=["a", "b"]).protocol()
    mixing = OLH(categories=["a", "b"], hash_family="mixing").protocol()
    turned = OLH(categories=["b", "a"]).protocol()
    assert not mine.difference(OLH(categories=["a", "b"]).protocol())
    assert mine.difference(turned) == "the categories, or their order, differ"
    assert "hash_family 'mixing' instead of 'linear'" in mine.difference(mixing)
    assert mine.difference(mine.protocol("may")) == "collection_round 'may' instead of ''"


def test_what_is_no_protocol():
    for wrong in (3, GRR, "olh"):
        with pytest.raises(TypeError, match="needs a frequency oracle or a Protocol"):
            Aggregator(wrong)
    with pytest.raises(TypeError, match="draw none"):
        hash_function_test(REPORTS, PROTOCOL)
    with pytest.raises(TypeError, match="support categories, but reports of OneBit do not"):
        support_size_test(REPORTS, PROTOCOL)
    with pytest.raises(ValueError, match="of the round 'may', not of 'june'"):
        Aggregator(PROTOCOL.protocol("may"), collection_round="june")


def test_mechanisms_are_equal_when_their_reports_add_up():
    assert one_bit().mechanism == one_bit().mechanism
    assert hash(one_bit().mechanism) == hash(one_bit().mechanism)
    assert one_bit().mechanism != one_bit(2.0).mechanism
    assert one_bit().mechanism != GRR().channel(2)
    words = OLH(hash_family="mixing")
    assert words.channel(["a", "b"]) == words.channel(["a", "b"])
    assert words.channel(["a", "b"]) != words.channel(["a", "c"])
    # Surveys of thousands of tables look them up; fields alone would be those of few fields.
    channels = [ProjectiveGeometryResponse(1.0).channel(d) for d in range(2000, 2100)]
    assert len({hash(channel) for channel in channels}) == len(set(channels)) == 100
    assert len({channel.report_fields for channel in channels}) < 10  # negative control
