"""Large sets of SubsetSelection are reported as packed bits, and lists of them are still read."""

import io
import json
import os
import subprocess
import sys
from itertools import combinations
from math import comb

import numpy as np
import pytest
from estimators import slow_but
from scipy import stats
from sklearn.base import clone

from sklearn_ldp import OUE, SUE, ColumnOracle, SubsetSelection
from sklearn_ldp._core.mechanisms.coins import SecureCoins, SeededCoins
from sklearn_ldp.collection import (
    Aggregator,
    RefusedBatchError,
    RepeatedBatchError,
    RepeatedClient,
    describe_reports,
    read_reports,
    tally_file,
    write_reports,
)
from sklearn_ldp.utils._checks import (
    check_covariance,
    check_exact_epsilon,
    check_exact_support_probabilities,
    check_joint_support,
)
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

D = 300
ORACLE = SubsetSelection(1.0, categories=D)
CHANNEL = ORACLE.channel()
FORMATS = ["parquet", "arrow", "jsonl"]


def seeded_coins(seed):
    return SeededCoins(np.random.default_rng(seed))


def some_reports(n, seed=0, channel=CHANNEL):
    return channel.privatize(np.arange(n) % channel.n_categories, seeded_coins(seed))


@pytest.fixture
def never_packed(monkeypatch):
    """A place to report as all clients did before there were bits, and to undo that."""
    monkeypatch.setattr(type(CHANNEL), "is_packed", False)
    return monkeypatch


@pytest.mark.parametrize(
    ("d", "epsilon", "is_packed"),
    [(256, 0.5, False), (257, 0.5, True), (1024, 1.9, True), (1024, 2.0, False)],
)
def test_bits_where_they_are_fewer_integers(d, epsilon, is_packed):
    channel = SubsetSelection(epsilon, categories=d).channel()
    assert channel.is_packed == is_packed
    reports, (field,) = some_reports(50, channel=channel), channel.report_fields
    assert reports.shape == (50, field.width)
    assert field == (("bits", 256, -(-d // 8)) if is_packed else ("codes", d, channel.size))
    assert reports.dtype == (np.uint8 if is_packed or d <= 256 else np.uint16)


# -- the law ----------------------------------------------------------------------------------
def test_bits_have_the_law_of_lists(monkeypatch):
    """Whose epsilon and support are proved for every oracle; and so are those of the bits."""
    lists = exact_report_distribution(SubsetSelection(subset_size=3).channel(6), 4)
    monkeypatch.setattr(type(CHANNEL), "is_packed", True)
    bits = exact_report_distribution(SubsetSelection(subset_size=3).channel(6), 4)
    number = {tuple(np.flatnonzero(np.unpackbits(np.uint8(r)))): p for r, p in bits.items()}
    assert number == lists
    assert len(lists) == comb(6, 3)
    check_exact_epsilon(SubsetSelection(1.0, subset_size=2))
    check_exact_support_probabilities(SubsetSelection(1.0, subset_size=2))
    check_joint_support(SubsetSelection(1.0, subset_size=2))
    check_covariance(SubsetSelection(1.0, subset_size=2))


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(("d", "size"), [(9, 3), (9, 7), (17, 2)])
@pytest.mark.parametrize("own", slow_but([-1], [0, 1, -1]))
def test_sets_are_sorted_and_uniform(d, size, own, is_packed, seed, monkeypatch):
    """Chi-square test at 1e-9 over all sets of a size, for the first, second and last category.

    Negative controls: the mechanism of another category; and reports of which a thirtieth is the
    first set.
    """
    monkeypatch.setattr(type(CHANNEL), "is_packed", is_packed)
    own, n = own % d, 40_000
    channel = SubsetSelection(1.0, subset_size=size).channel(d)
    reports = channel.privatize(np.full(n, own), seeded_coins(seed))
    np.testing.assert_array_equal(channel.check_reports(reports), reports)
    members = (channel.lists(reports) if is_packed else reports).astype(int)
    assert np.all(np.diff(members, axis=1) > 0)
    sets, p = list(combinations(range(d), size)), float(channel.p)
    bits = [sum(1 << member for member in one) for one in sets]
    counts = np.bincount((1 << members).sum(axis=1), minlength=1 << d)[bits]

    def p_value(counts, code):
        holds = np.array([code in one for one in sets])
        law = np.where(holds, p / comb(d - 1, size - 1), (1 - p) / comb(d - 1, size))
        return stats.chisquare(counts, n * law).pvalue

    assert p_value(counts, own) > 1e-9
    assert p_value(counts, (own + 1) % d) < 1e-9
    assert p_value(counts * 29 / 30 + n / 30 * (np.arange(len(sets)) == 0), own) < 1e-9


@pytest.mark.parametrize("starts_exactly", [False, True])
@pytest.mark.parametrize("rate", [0.01, 0.07, 0.27, 0.5, 0.76, 0.99])
def test_rows_of_all_rates_have_their_size(rate, starts_exactly, seed, monkeypatch):
    """Pairs of items far apart agree as often as in uniform sets: fails less than once in 10**9.

    Rows of very many items start from bits of the exact share.
    """
    n, d = 3000, 403
    if starts_exactly:
        monkeypatch.setattr("sklearn_ldp._core.mechanisms.coins._MANY_ITEMS", 1)
    sizes = np.where(np.arange(n) % 2, round(rate * d), round(rate * d) + 1)
    packed = seeded_coins(seed).packed_subsets(sizes, d, 53)
    bits = np.unpackbits(packed, axis=1)
    assert packed.shape == (n, 53)
    assert not bits[:, d:].any()
    np.testing.assert_array_equal(bits.sum(axis=1), sizes)
    both = bits[:, :200] & bits[:, 201:401]
    expected = np.mean(sizes * (sizes - 1) / (d * (d - 1)))
    spread = np.sqrt(both.mean(axis=1).var() / n) + 1e-6
    assert abs(both.mean() - expected) < 6.5 * spread


# -- tallies ----------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [1, 2, 17, 40, 15_000])
def test_tallies_are_those_of_lists(n):
    reports = some_reports(n)
    lists = CHANNEL.lists(reports)
    assert lists.shape == (n, CHANNEL.size)
    assert np.all(lists[:, 1:] > lists[:, :-1])
    expected = np.bincount(lists.ravel(), minlength=D)
    np.testing.assert_array_equal(CHANNEL.tally(reports), expected)
    for older in (lists, lists.astype(np.int64), lists.tolist()):
        np.testing.assert_array_equal(CHANNEL.as_reports(older), reports)
    groups = np.arange(n) % 3
    each = dict(CHANNEL.tally_each(reports, groups))
    np.testing.assert_array_equal(sum(each.values()), expected)
    codes = np.array([0, 7, 8, D - 1])
    support = CHANNEL.supports(reports, codes)
    np.testing.assert_array_equal(support.sum(axis=0), expected[codes])


# -- hostile reports --------------------------------------------------------------------------
def tampered(change):
    reports = some_reports(20).astype(np.int64)
    change(reports[5])
    return reports


def one_more(row):
    row[np.argmax(row != 255)] |= row[np.argmax(row != 255)] + 1


def one_beyond(row):
    row[np.argmax(row > 0)] &= row[np.argmax(row > 0)] - 1
    row[-1] |= 1


HOSTILE = {
    "a member too many": (tampered(one_more), "row 5"),
    "a member beyond the last": (tampered(one_beyond), "row 5"),
    "nobody": (tampered(lambda row: row.fill(0)), "row 5"),
    "negative": (tampered(lambda row: row.put(0, -1)), "packed bits"),
    "too large": (tampered(lambda row: row.put(3, row[3] + 256)), "packed bits"),
    "too narrow": (some_reports(20)[:, 1:], f"of shape \\(n, {CHANNEL.size}\\)"),
    "unpacked": (np.unpackbits(some_reports(20), axis=1), "packed bits of shape \\(n, 38"),
    "one number": (np.arange(20), "packed bits"),
    "list unsorted": (CHANNEL.lists(some_reports(20))[:, ::-1], "row 0"),
    "list of others": (CHANNEL.lists(some_reports(20)) + D, "sorted, distinct"),
    "list in pairs": (CHANNEL.lists(some_reports(20)) // 2, "row 0"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_forged_sets_are_refused_in_one_sentence(name):
    reports, what = HOSTILE[name]
    with pytest.raises(ValueError, match=what) as caught:
        clone(ORACLE).aggregate(reports)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)
    server = Aggregator(ORACLE)
    with pytest.raises(ValueError, match=what):
        server.add(reports, "x")
    assert server.n_samples == 0


# -- files ------------------------------------------------------------------------------------
def file_of(reports, form, oracle=ORACLE, batch_id="x"):
    file = io.BytesIO()
    write_reports(file, reports, oracle, batch_id=batch_id, format=form, random_state=0)
    return file.getvalue()


@pytest.mark.parametrize("form", FORMATS)
def test_files_of_both_forms_are_read_and_added_up(form, never_packed):
    lists, other_lists = some_reports(500), some_reports(500, seed=1)
    old, copy = (file_of(one, form, batch_id="old") for one in (other_lists, lists))
    assert read_reports(old, ORACLE, format=form).shape == (500, 81)
    never_packed.undo()
    packed, others = CHANNEL.as_reports(lists), CHANNEL.as_reports(other_lists)
    new = file_of(packed, form)
    assert file_of(lists, form) == new  # a list is written as bits
    one, other = (describe_reports(file, format=form)["configuration"] for file in (old, new))
    assert one == other
    for file, reports in ((old, others), (new, packed)):
        read = read_reports(file, ORACLE, format=form)
        np.testing.assert_array_equal(np.unique(read, axis=0), np.unique(reports, axis=0))
    server = Aggregator(ORACLE).merge(tally_file(old, ORACLE, format=form))
    server.merge(tally_file(new, ORACLE, format=form))
    whole = clone(ORACLE).aggregate(np.concatenate([packed, others]))
    np.testing.assert_array_equal(server.estimate_.values, whole.estimate_.values)
    repeated = Aggregator(ORACLE).merge(tally_file(new, ORACLE, format=form))
    with pytest.raises(RepeatedBatchError, match="counted the reports"):  # in whatever form
        repeated.merge(tally_file(copy, ORACLE, format=form))


def test_lines_hold_the_bits_in_their_order_and_no_other_form_beside():
    packed = some_reports(40)
    lines = file_of(packed, "jsonl").splitlines(keepends=True)
    assert json.loads(lines[0])["configuration"]["report"] == f"codes < {D}"
    assert sorted(map(json.loads, lines[1:])) == sorted(packed.tolist())
    members = CHANNEL.lists(packed)[0]
    assert packed[0, members[0] // 8] & 128 >> members[0] % 8
    for odd in (members, packed[0, 1:]):
        lines[-1] = f"{odd.tolist()}\n".encode()
        with pytest.raises(RefusedBatchError, match="a list of 38 64-bit integers"):
            read_reports(b"".join(lines), ORACLE, format="jsonl")
    with pytest.raises(RefusedBatchError, match="a list of 38 or 81 64-bit integers"):
        read_reports(lines[0] + lines[-1], ORACLE, format="jsonl")


def test_lists_of_bytes_are_read_as_before():
    """At 256 categories and more a list of bytes was a list in Arrow; now it is a binary."""
    pa = pytest.importorskip("pyarrow")
    oracle = SubsetSelection(1.0, categories=256, subset_size=20)
    reports = oracle.channel().privatize(np.arange(100), seeded_coins(0))
    table = pa.ipc.open_stream(file_of(reports, "arrow", oracle)).read_all()
    assert table.schema.types == [pa.binary(20)]
    values = np.frombuffer(b"".join(table["codes"].to_pylist()), np.uint8)
    older = pa.schema(
        [pa.field("codes", pa.list_(pa.field("item", pa.uint8(), nullable=False), 20), False)],
        table.schema.metadata,
    )
    column = pa.FixedSizeListArray.from_arrays(pa.array(values), type=older.types[0])
    file = io.BytesIO()
    with pa.ipc.new_stream(file, older) as writer:
        writer.write_batch(pa.record_batch([column], schema=older))
    read = read_reports(file.getvalue(), oracle, format="arrow")
    np.testing.assert_array_equal(np.unique(read, axis=0), np.unique(reports, axis=0))


# -- clients ----------------------------------------------------------------------------------
def test_a_memo_of_a_list_is_reported_as_bits(tmp_path, never_packed):
    client = RepeatedClient(ORACLE, tmp_path / "memo", question="item", epsilon_forever=2.0)
    before = client.report(7, collection_round="0")
    assert before.shape == (1, CHANNEL.size)
    never_packed.undo()
    again = RepeatedClient(ORACLE, tmp_path / "memo", question="item", epsilon_forever=2.0)
    first, *others = (again.report(7, collection_round=str(i)) for i in range(9))
    np.testing.assert_array_equal(first, CHANNEL.as_reports(before))
    assert {one.shape for one in others} == {(1, 38)}


def test_a_survey_carries_bits_among_lists(seed):
    columns = {"city": D, "sex": ["F", "M"], "age": 20}
    survey = ColumnOracle(1.0, domains=columns, oracle=SubsetSelection())
    rng = np.random.default_rng(seed)
    parts = rng.integers(0, D, 4000), rng.choice(["F", "M"], 4000), rng.integers(0, 20, 4000)
    records = np.array(list(zip(*(part.tolist() for part in parts), strict=True)), dtype=object)
    reports = survey.protocol().privatize(records)
    assert reports.shape[1] == 1 + 38
    for form in FORMATS:
        read = read_reports(file_of(reports, form, survey), survey, format=form)
        np.testing.assert_array_equal(np.unique(read, axis=0), np.unique(reports, axis=0))
    cities = np.flatnonzero(reports[:, 0] == 0)
    forged = reports.copy()
    forged[cities[0], 1:] = 0
    with pytest.raises(ValueError, match="sets of 81 of 300 categories"):
        survey.protocol().check(forged)


# -- the secure source ------------------------------------------------------------------------
@pytest.mark.slow
def test_many_coins_differ_after_a_fork():
    code = (
        "import os; from sklearn_ldp._core.mechanisms.coins import SecureCoins\n"
        "coins = SecureCoins()\n"
        "coins.bytes(9000); ends = os.pipe(); is_parent = os.fork()\n"
        "own = coins.bytes(9000).tobytes()\n"
        "if is_parent: print(len(set(own)), own != os.read(ends[0], 9000))\n"
        "else: os.write(ends[1], own)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["256", "True"]


def test_few_coins_are_the_systems_own_and_many_are_seeded_by_it(monkeypatch):
    asked = []

    def urandom(n):
        asked.append(n)
        return bytes(n)

    monkeypatch.setattr(os, "urandom", urandom)
    assert not SecureCoins().bytes(4096).any()
    first, second = (SecureCoins().bytes(4097).tobytes() for _ in range(2))
    assert asked == [4096, 32, 32]
    assert first != second
    monkeypatch.setitem(sys.modules, "ssl", None)  # Python was built without it
    assert not SecureCoins().bytes(4097).any()


# -- unary encodings --------------------------------------------------------------------------
@pytest.mark.parametrize("oracle_class", [OUE, SUE])
@pytest.mark.parametrize("d", [300, 304])
def test_bits_of_unary_encodings_are_packed(oracle_class, d, monkeypatch):
    """The same coins make the same bits, packed or not; tallies and support are those of bits."""
    channel, codes = oracle_class(1.0, categories=d).channel(), np.arange(2000) % d
    packed = channel.privatize(codes, seeded_coins(0))
    bits = channel.draw(codes, seeded_coins(0))
    assert packed.shape == (2000, 38)
    np.testing.assert_array_equal(np.unpackbits(packed, axis=1, count=d), bits)
    np.testing.assert_array_equal(channel.count_support(packed), bits.sum(axis=0))
    np.testing.assert_array_equal(channel.supports(packed, [0, d - 1]), bits[:, [0, d - 1]])
    for older in (bits, bits.astype(np.int64), bits.tolist()):
        np.testing.assert_array_equal(channel.as_reports(older), packed)
    if d == 300:
        wrong = np.zeros((2, 38), dtype=np.uint8)
        wrong[1, -1] = 8
        said = r"300 bits, packed .* zeros after the last .* row 1"
        with pytest.raises(ValueError, match=said):
            channel.check_reports(wrong)
    log_base = channel.log_base(packed)
    monkeypatch.setattr(type(channel), "is_packed", False)
    np.testing.assert_allclose(log_base, channel.log_base(bits))
    assert not oracle_class(1.0, categories=256).channel().is_packed


@pytest.mark.parametrize("form", FORMATS)
def test_files_of_bits_stay_as_they_were(form, monkeypatch):
    """Parquet and Arrow files have the same bytes of bits; lines of bits are read."""
    oracle = OUE(1.0, categories=D)
    reports = oracle.channel().privatize(np.arange(50), seeded_coins(0))
    new, old = io.BytesIO(), io.BytesIO()
    write_reports(new, reports, oracle, format=form, batch_id="a", random_state=0)
    with monkeypatch.context() as patch:
        patch.setattr(type(oracle.channel()), "is_packed", False)
        bits = np.unpackbits(reports, axis=1, count=D)
        write_reports(old, bits, clone(oracle), format=form, batch_id="a", random_state=0)
    if form != "jsonl":
        assert new.getvalue() == old.getvalue()
    for file in (new, old):
        file.seek(0)
        tally = tally_file(file, oracle, format=form)
        expected = oracle.channel().count_support(reports)
        np.testing.assert_array_equal(tally.tallies.sum(axis=0), expected)
