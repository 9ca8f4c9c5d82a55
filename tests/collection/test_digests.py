"""The ledger knows what each batch held: repeats, other contents and copies are told apart."""

import json
import math

import numpy as np
import pytest
from estimators import ORACLES, each_way
from forged import forged
from sklearn.base import clone

from sklearn_ldp import GRR, OLH, OUE
from sklearn_ldp._core.aggregation._ledger import CopyRule
from sklearn_ldp.collection import (
    Aggregator,
    RepeatedBatchError,
    aggregate,
    tally_file,
    tally_reports,
    write_reports,
)
from sklearn_ldp.oracles.channels import Channel
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

ORACLE = GRR(1.0, categories=3)
RNG = np.random.default_rng(0)
REPORTS = RNG.integers(3, size=500)


def written(tmp_path, reports, batch_id, form="jsonl", oracle=ORACLE):
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.{form}"
    write_reports(path, reports, oracle, batch_id=batch_id)
    return path


def with_id(path, batch_id):
    """A copy of a file whose id alone is another one."""
    header, _, rest = path.read_text().partition("\n")
    content = json.loads(header)
    content["batch"]["id"] = batch_id
    copy = path.with_name(f"{batch_id}.jsonl")
    copy.write_text(f"{json.dumps(content)}\n{rest}")
    return copy


@pytest.mark.parametrize("oracle", each_way(ORACLES), ids=str)
def test_digests_depend_on_reports_only(oracle, tmp_path):
    """The same for arrays, pieces, files of every format and shuffled, and with any shards."""
    pytest.importorskip("pyarrow")
    oracle = clone(oracle).set_params(categories=13, random_state=0)
    reports = oracle.privatize(np.arange(300) % 13)
    digest = tally_reports(reports, oracle, "a").digests["a"]
    pieces = iter([reports[:1], reports[1:150], reports[150:]])
    assert tally_reports(pieces, oracle, "b").digests["b"] == digest
    assert tally_reports(reports.tolist(), oracle, "c").digests["c"] == digest
    assert tally_reports(reports, clone(oracle).set_params(n_shards=3), "d").digests["d"] == digest
    for form in ("parquet", "arrows", "jsonl"):
        path = written(tmp_path, reports, "e", form, oracle)
        assert tally_file(path, oracle).digests["e"][:16] == digest[:16]  # that of the sums
    changed = np.concatenate([reports[:-1], reports[:1]])
    if not np.array_equal(changed[-1], reports[-1]):
        assert tally_reports(changed, oracle, "f").digests["f"][:16] != digest[:16]


@pytest.mark.parametrize("on_repeat", ["raise", "ignore"])
def test_other_reports_under_a_known_id_are_refused_and_named(on_repeat, tmp_path):
    """The defect as it was found: exit 0, and "1 repeats ignored"."""
    stranger, honest = written(tmp_path, [0], "day/1"), written(tmp_path, REPORTS, "day/1")
    server = Aggregator(ORACLE, on_repeat=on_repeat)
    aggregate(stranger, server)
    with pytest.raises(RepeatedBatchError, match="'day/1' before, with other reports"):
        aggregate(honest, server)
    with pytest.raises(RepeatedBatchError, match="'day/1' before, with other reports"):
        server.add(REPORTS, "day/1")
    with pytest.raises(RepeatedBatchError, match="'day/1' before, with other reports"):
        server.merge(tally_reports(REPORTS, ORACLE, "day/1"))
    summary = server.summary()
    assert (summary.n_samples, summary.n_repeats, summary.n_refused) == (1, 0, 3)
    with pytest.raises(RepeatedBatchError, match="with other reports"):
        tally_reports([0], ORACLE, "a") + tally_reports([1], ORACLE, "a")


def test_a_checkpoint_remembers_what_it_holds(tmp_path):
    """What is on disk already is no repeat if it is the same, and refused by name if not."""
    state = tmp_path / "state" / "state.npz"
    state.parent.mkdir()
    path = written(tmp_path, REPORTS, "a")
    aggregate(path, ORACLE, checkpoint=state)
    before = state.read_bytes()
    aggregate(path, ORACLE, checkpoint=state)
    aggregate(written(tmp_path, REPORTS, "a"), ORACLE, checkpoint=state)  # shuffled otherwise
    aggregate(iter([("a", REPORTS)]), ORACLE, checkpoint=state)
    assert state.read_bytes() == before
    with pytest.raises(RepeatedBatchError, match="'a' before, with other reports"):
        aggregate(written(tmp_path, [0, 1], "a"), ORACLE, checkpoint=state)
    with pytest.raises(RepeatedBatchError, match="'a' before, with other reports"):
        aggregate(iter([("a", REPORTS[1:])]), ORACLE, checkpoint=state)
    assert Aggregator.load(state, ORACLE).batches == {"a": 500}


def test_a_file_that_the_ledger_knows_is_not_read_again(tmp_path, monkeypatch):
    path = written(tmp_path, REPORTS, "a")
    server = aggregate(path, Aggregator(ORACLE, on_repeat="ignore"))

    def unread(*args, **options):
        raise AssertionError("read")

    monkeypatch.setattr("sklearn_ldp._core.aggregation._report_files.count_batch", unread)
    assert aggregate(path, server).summary().n_repeats == 1


@pytest.mark.parametrize("oracle", [GRR(), OUE(), OLH(), OLH(hash_family="mixing")], ids=str)
def test_a_copy_under_another_id_is_refused_and_named(oracle, tmp_path):
    """The defect as it was found: a file whose id alone was edited counted twice."""
    oracle = clone(oracle).set_params(categories=13, random_state=0)
    reports = oracle.privatize(np.arange(600) % 13)
    path = written(tmp_path, reports, "a", oracle=oracle)
    server = aggregate(path, Aggregator(oracle, on_repeat="ignore"))
    with pytest.raises(RepeatedBatchError, match="reports of batch 'b' before, as batch 'a'"):
        aggregate(with_id(path, "b"), server)
    server.save(tmp_path / "state.npz")
    server = Aggregator.load(tmp_path / "state.npz", oracle)
    with pytest.raises(RepeatedBatchError, match="reports of batch 'b' before, as batch 'a'"):
        aggregate(with_id(path, "b"), server)
    both = tally_file(path, oracle) + tally_file(with_id(path, "b"), oracle)
    with pytest.raises(RepeatedBatchError, match="as batch 'a'"):
        Aggregator(oracle).merge(both)
    assert server.n_samples == 600


@pytest.mark.parametrize("oracle", [OLH(), OUE(), GRR()], ids=str)
def test_small_batches_may_agree(oracle):
    """Fewer than 128 bits of reports: honest users may well have sent both."""
    server = Aggregator(clone(oracle).set_params(categories=3))
    report = clone(oracle).set_params(categories=3, random_state=0).privatize([1] * 5)
    server.add(report, "a").add(report, "b")
    assert server.n_samples == 10


def test_entries_without_a_digest_are_treated_as_before():
    tally = tally_reports([0, 1], ORACLE, "a")
    server = Aggregator(ORACLE, on_repeat="ignore").merge(forged(tally, digests={}))
    assert server.add([2], "a").n_samples == 2
    assert server.summary().n_repeats == 1


# -- how rarely batches agree ------------------------------------------------------------
@pytest.mark.parametrize("oracle", each_way(ORACLES), ids=str)
def test_reports_agree_no_more_often_than_the_bound_says(oracle):
    """By enumeration: exactly so often for one value, and no more often for two.

    The entropy at another epsilon is the negative control.
    """

    def agreements(epsilon):
        channel = clone(oracle).set_params(epsilon=epsilon).channel(4).for_enumeration()
        laws = [exact_report_distribution(channel, code) for code in range(4)]
        agree = [
            [sum(p * other.get(r, 0) for r, p in law.items()) for other in laws] for law in laws
        ]
        return 2.0 ** -channel.report_entropy(order=2), np.array(agree, dtype=float)

    bound, agree = agreements(2.0)
    np.testing.assert_allclose(np.diag(agree).max(), bound, rtol=1e-9)
    assert agree.max() <= bound * (1 + 1e-9)
    assert abs(agreements(1.0)[0] / bound - 1) > 1e-2


def test_a_channel_that_says_nothing_has_the_bound_of_its_own_category():
    """The negative control is a bit more than that."""
    channel = OUE(1.0).channel(4)
    bits = Channel.report_entropy(channel, order=2)
    assert bits == pytest.approx(-math.log2(float(channel.p) ** 2 + float(1 - channel.p) ** 2))
    assert bits < channel.report_entropy(order=2) < 4 * bits


def test_keys_need_128_bits():
    """In the first 4096 reports in their order, or in few reports in any order."""
    digest = bytes(range(48))
    for entropy, n, n_bytes in (
        (1.0, 127, 0),
        (1.0, 128, 32),
        (1 / 32, 10**9, 32),
        (0.99 / 32, 10**9, 0),
        (0.0, 10**9, 0),
        (9.0, 21, 32),  # of 189 bits are left 123.5 in any order ..
        (9.0, 22, 16),  # .. and 128.1 of 198
        (9.0, 257, 32),  # the digest is that of sums
    ):
        rule = CopyRule(entropy, 256 if entropy > 8 else 4096)
        assert rule.key(digest, n) == digest[:n_bytes]
        assert rule.key(b"", n) == b""
    assert CopyRule.of(ORACLE.protocol()).n_small == 4096
    assert CopyRule.of(OUE(1.0, categories=100).protocol()).n_small == 40


def test_the_bound_for_any_order_holds():
    """Batches of n fair dice agree in some order as often as two multinomials are equal."""
    for sides in (2, 6, 40):
        for n in (1, 2, 5, 12):
            bound = math.factorial(n) * 2.0 ** (-n * math.log2(sides))
            assert sum_of_squares(sides, n) <= bound * (1 + 1e-9)
            # The negative control: it is not the bound of equal places.
            assert n == 1 or sum_of_squares(sides, n) > 2.0 ** (-n * math.log2(sides)) * (1 + 1e-9)


def sum_of_squares(sides, n):
    """Sum of the squared multinomial probabilities: n!^2 times the coefficient of a power of I0."""
    series = [1 / math.factorial(k) ** 2 for k in range(n + 1)]
    power = [1.0] + [0.0] * n
    for _ in range(sides):
        power = [sum(power[i] * series[k - i] for i in range(k + 1)) for k in range(n + 1)]
    return math.factorial(n) ** 2 * power[n] / sides ** (2 * n)


@pytest.mark.parametrize("oracle", [OLH(), OUE(), GRR()], ids=str)
def test_few_reports_are_a_copy_in_any_order(oracle):
    oracle = clone(oracle).set_params(categories=600, random_state=0)
    reports, server = oracle.privatize(np.arange(40)), Aggregator(oracle)
    if oracle.protocol().mechanism.report_fields[0].width:  # too many bits for 40 reports
        reports = reports[:6]
    server.add(reports, "a")
    with pytest.raises(RepeatedBatchError, match="as batch 'a'"):
        server.add(reports[::-1], "b")
    server.add(reports[1:], "c")  # the negative control


def test_batches_with_equal_sums_are_no_copies():
    """Sums of two counts often agree, although two of these reports never do."""
    oracle = OLH(1.0, categories=2, hash_family="mixing", random_state=np.random.default_rng(0))
    assert oracle.channel().report_entropy(order=2) > 60
    batches, seen = [oracle.privatize(np.arange(300) % 2) for _ in range(100)], {}
    for i, reports in enumerate(batches):
        sums = tally_reports(reports, oracle, "x").tallies.sum(axis=0)
        seen.setdefault(sums.tobytes(), []).append(i)
    first, second, *_ = next(same for same in seen.values() if len(same) > 1)
    server = Aggregator(clone(oracle)).add(batches[first], "a").add(batches[second], "b")
    assert server.n_samples == 600
    # The negative control is a copy.
    with pytest.raises(RepeatedBatchError, match="as batch 'b'"):
        server.add(batches[second], "c")
