"""Tests of sklearn_ldp.datasets.

Statistical tests are chi-square tests at level ALPHA on fixed seeds: a correct implementation fails
one of them on a fresh seed with probability ALPHA. Each has a twin with something tampered, which
the same test must reject.
"""

import csv
import gzip
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import stats

from sklearn_ldp.datasets import (
    load_ucb_admissions,
    load_us_states,
    make_beta,
    make_zipf,
    read_histogram,
    sample_counts,
)

ALPHA = 1e-4


def chi_square_p_value(counts, frequencies):
    """Test counts against a law, neighbouring cells pooled until each expects about 10 users."""
    expected = counts.sum() * frequencies / frequencies.sum()
    cell = (np.cumsum(expected) // 10).astype(int)
    cell = np.minimum(cell, cell[-1] - 1)  # the rest joins the last full cell
    observed, expected = np.bincount(cell, counts), np.bincount(cell, expected)
    used = expected > 0
    statistic = ((observed[used] - expected[used]) ** 2 / expected[used]).sum()
    return stats.chi2.sf(statistic, used.sum() - 1)


def zipf_law(n_categories, exponent):
    return 1.0 / np.arange(1, n_categories + 1) ** exponent


def beta_law(n_categories, a, b):
    return np.diff(stats.beta(a, b).cdf(np.arange(n_categories + 1) / n_categories))


GENERATORS = [make_zipf, make_beta]


# -- generators: contract --------------------------------------------------------------------------
@pytest.mark.parametrize("make", GENERATORS)
def test_generator_returns_values_or_their_counts(make):
    values = make(5000, 30, random_state=0)
    assert values.shape == (5000,)
    assert values.dtype == np.int64
    assert values.min() >= 0
    assert values.max() < 30
    counts = make(5000, 30, return_counts=True, random_state=0)
    assert counts.shape == (30,)
    assert counts.dtype == np.int64
    assert_array_equal(np.bincount(values, minlength=30), counts)


@pytest.mark.parametrize("make", GENERATORS)
def test_generator_random_state(make):
    for same in (3, np.random.default_rng(3)):
        assert_array_equal(make(100, 9, random_state=3), make(100, 9, random_state=same))
    legacy = [make(100, 9, random_state=np.random.RandomState(3)) for _ in range(2)]
    assert_array_equal(*legacy)
    for rng in (np.random.default_rng(3), np.random.RandomState(3)):
        assert (make(1000, 9, random_state=rng) != make(1000, 9, random_state=rng)).any()
    assert (make(1000, 9) != make(1000, 9)).any()
    with pytest.raises(TypeError):
        make(100, 9, random_state="seed")


@pytest.mark.parametrize("make", GENERATORS)
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_samples": 0}, "n_samples must be an integer >= 1, got 0"),
        ({"n_samples": 10.0}, "n_samples must be an integer >= 1, got 10.0"),
        ({"n_samples": True}, "n_samples must be an integer"),
        ({"n_categories": 1}, "n_categories must be an integer >= 2, got 1"),
    ],
)
def test_generator_refuses_sizes(make, parameters, message):
    with pytest.raises(ValueError, match=f"{make.__name__}: {message}"):
        make(**parameters)


@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf, "1.5", None])
def test_generator_refuses_shape(value):
    with pytest.raises(ValueError, match="make_zipf: exponent must be a finite number >= 0"):
        make_zipf(exponent=value)
    for name in ("a", "b"):
        for other in (value, 0):
            with pytest.raises(ValueError, match=f"make_beta: {name} must be a finite number > 0"):
                make_beta(**{name: other})


@pytest.mark.parametrize(("a", "b"), [(1e-3, 1e-3), (1e6, 1e6), (2, 500), (500, 0.1)])
def test_beta_extreme_shapes(a, b):
    assert make_beta(1000, 5000, a=a, b=b, return_counts=True, random_state=0).sum() == 1000


# -- generators: statistics ------------------------------------------------------------------------
def test_zipf_follows_its_law():
    """By default with the sizes of the paper, as the Beta law below."""
    counts = make_zipf(return_counts=True, random_state=0)
    assert counts.shape == (1024,)
    assert counts.sum() == 1_000_000
    assert chi_square_p_value(counts, zipf_law(1024, 1.5)) > ALPHA
    # Twins: another exponent; a law shifted by one category.
    assert chi_square_p_value(counts, zipf_law(1024, 1.52)) < ALPHA
    assert chi_square_p_value(counts, zipf_law(1025, 1.5)[1:]) < ALPHA


def test_zipf_exponent_zero_is_uniform():
    counts = make_zipf(100_000, 50, exponent=0, return_counts=True, random_state=1)
    assert chi_square_p_value(counts, np.ones(50)) > ALPHA
    tampered = make_zipf(100_000, 50, exponent=0.05, return_counts=True, random_state=1)
    assert chi_square_p_value(tampered, np.ones(50)) < ALPHA


def test_beta_follows_its_law():
    """That of the integer part of 400 times a Beta draw, as the paper makes its values."""
    counts = make_beta(return_counts=True, random_state=0)
    assert counts.shape == (400,)
    assert counts.sum() == 100_000
    assert chi_square_p_value(counts, beta_law(400, 50, 2)) > ALPHA
    # Twins: other shapes; buckets off by one.
    assert chi_square_p_value(counts, beta_law(400, 47, 2)) < ALPHA
    assert chi_square_p_value(counts, beta_law(400, 50, 2.1)) < ALPHA
    assert chi_square_p_value(np.roll(counts, 1), beta_law(400, 50, 2)) < ALPHA


def test_values_are_independent_draws():
    """Neighbouring users are independent, and the law is the same all along the array."""

    def p_values(values):
        pairs = np.zeros((6, 6))
        np.add.at(pairs, (values[:-1:2], values[1::2]), 1)
        parts = [np.bincount(part, minlength=6) for part in np.split(values, 4)]
        return stats.chi2_contingency(pairs).pvalue, stats.chi2_contingency(parts).pvalue

    values = make_zipf(100_000, 6, random_state=0)
    assert min(p_values(values)) > ALPHA / 2
    assert max(p_values(np.sort(values))) < ALPHA / 2


# -- US states -------------------------------------------------------------------------------------
def test_us_states_census():
    states = load_us_states()
    assert states.counts.sum() == states.n_samples == 331_449_281
    assert states.counts.dtype == np.int64
    assert states.categories.shape == states.counts.shape == (51,)
    assert np.unique(states.categories).size == 51
    assert_array_equal(states.categories, np.sort(states.categories))
    assert np.unique(states.abbreviations).size == 51
    assert set(map(len, states.abbreviations)) == {2}
    assert states.frequencies.sum() == pytest.approx(1, abs=1e-12)
    assert states.frame is None
    assert "331,449,281" in states.DESCR
    X, counts = load_us_states(return_X_y=True)
    assert_array_equal(X, states.categories)
    assert_array_equal(counts, states.counts)


def test_us_states_groups_are_the_census_bureaus():
    states = load_us_states()
    region = states.groups["region"]
    residents = {str(name): states.counts[region == name].sum() for name in np.unique(region)}
    # The regions' totals as published, which the states' numbers were not taken from.
    assert residents == {
        "Northeast": 57_609_148,
        "Midwest": 68_985_454,
        "South": 126_266_107,
        "West": 78_588_572,
    }
    divisions = dict(zip(*np.unique(states.groups["division"], return_counts=True), strict=True))
    assert divisions == {
        "New England": 6,
        "Middle Atlantic": 3,
        "East North Central": 5,
        "West North Central": 7,
        "South Atlantic": 9,
        "East South Central": 4,
        "West South Central": 4,
        "Mountain": 8,
        "Pacific": 5,
    }
    for division in divisions:  # each division is in one region
        assert np.unique(states.groups.region[states.groups.division == division]).size == 1


def test_us_states_as_frame():
    pytest.importorskip("pandas")
    states = load_us_states(as_frame=True, n_samples=1000, random_state=0)
    assert list(states.frame) == ["state", "abbreviation", "count", "division", "region"]
    assert states.frame.shape == (51, 5)
    assert_array_equal(states.frame["count"], states.counts)
    assert isinstance(states.counts, np.ndarray)
    X, counts = load_us_states(as_frame=True, return_X_y=True)
    assert X.name == "state"
    assert counts.sum() == 331_449_281


def test_us_states_sample():
    states = load_us_states(n_samples=1_000_000, random_state=0)
    assert states.n_samples == states.counts.sum() == 1_000_000
    assert states.frequencies.sum() == pytest.approx(1, abs=1e-12)
    _, counts = load_us_states(n_samples=1_000_000, return_X_y=True, random_state=0)
    assert_array_equal(counts, states.counts)
    population = load_us_states().counts
    assert_array_equal(sample_counts(population, 1_000_000, random_state=0), counts)
    with pytest.raises(ValueError, match="at most the population of 331,449,281"):
        load_us_states(n_samples=331_449_282)


def test_us_states_are_a_fresh_copy_that_pickles():
    states = load_us_states()
    states.counts[:] = 0
    states.groups.region[:] = ""
    assert load_us_states().counts.min() > 0
    assert_array_equal(pickle.loads(pickle.dumps(load_us_states())).counts, load_us_states().counts)


# -- admissions at Berkeley ------------------------------------------------------------------------
def test_ucb_admissions():
    ucb = load_ucb_admissions()
    assert ucb.n_samples == ucb.counts.sum() == 4_526
    assert ucb.data.shape == (24, 3) == (len(np.unique(ucb.data, axis=0)), 3)
    assert ucb.feature_names == list(ucb.domains) == ["admission", "gender", "department"]
    assert [len(levels) for levels in ucb.domains.values()] == [2, 2, 6]
    # The totals that are told of these data: 1,198 of 2,691 men and 557 of 1,835 women.
    is_admitted = ucb.data[:, 0] == "Admitted"
    for gender, totals in (("Male", [2691, 1198]), ("Female", [1835, 557])):
        rows = ucb.data[:, 1] == gender
        assert [ucb.counts[rows].sum(), ucb.counts[rows & is_admitted].sum()] == totals
    assert ucb.frame is None
    assert "Bickel" in ucb.DESCR
    X, counts = load_ucb_admissions(return_X_y=True)
    assert_array_equal(X, ucb.data)
    assert_array_equal(counts, ucb.counts)


def test_ucb_admissions_as_frame(monkeypatch):
    pd = pytest.importorskip("pandas")
    ucb = load_ucb_admissions(as_frame=True)
    assert ucb.frame.shape == (4_526, 3)
    assert {name: list(ucb.frame[name].cat.categories) for name in ucb.frame} == ucb.domains
    X, counts = load_ucb_admissions(as_frame=True, return_X_y=True)
    pd.testing.assert_frame_equal(X.loc[X.index.repeat(counts)].reset_index(drop=True), ucb.frame)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"as_frame=True.* pip install 'sklearn_ldp\[data\]'"):
        load_ucb_admissions(as_frame=True)


# -- samples of a histogram ------------------------------------------------------------------------
@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=20).filter(any),
    st.floats(0, 1),
    st.integers(0, 2**32),
)
def test_sample_counts_draws_without_replacement(counts, share, seed):
    n_samples = max(1, int(share * sum(counts)))
    sampled = sample_counts(counts, n_samples, random_state=seed)
    assert sampled.shape == (len(counts),)
    assert sampled.dtype == np.int64
    assert sampled.sum() == n_samples
    assert (sampled >= 0).all()
    assert (sampled <= counts).all()
    assert_array_equal(sample_counts(counts, sum(counts), random_state=seed), counts)


def test_sample_counts_random_state():
    for random_state in (0, np.random.default_rng(0), np.random.RandomState(0), None):
        assert sample_counts([50, 50], 10, random_state=random_state).sum() == 10
    rng = np.random.RandomState(0)
    draws = [tuple(sample_counts([500, 500], 100, random_state=rng)) for _ in range(10)]
    assert len(set(draws)) > 1
    nearly_a_billion = np.array([999_999_998, 1], dtype=np.uint64)
    assert sample_counts(nearly_a_billion, 1000, random_state=0).sum() == 1000


def test_sample_counts_follows_the_hypergeometric_law():
    population, n_samples = np.array([40, 20, 60]), 50
    law = stats.hypergeom(population.sum(), population[0], n_samples).pmf(np.arange(51))

    def p_value(draw):
        draws = [draw()[0] for _ in range(4000)]
        return chi_square_p_value(np.bincount(draws, minlength=51), law)

    rng = np.random.default_rng(0)
    assert p_value(lambda: sample_counts(population, n_samples, random_state=rng)) > ALPHA
    # Twin: with replacement, the same mean and a wider spread.
    frequencies = population / population.sum()
    assert p_value(lambda: rng.multinomial(n_samples, frequencies)) < ALPHA


@pytest.mark.parametrize(
    ("counts", "n_samples", "message"),
    [
        ([[1, 2]], 1, r"1D array.* shape \(1, 2\)"),
        ([1.0, 2.0], 1, "integers, got dtype float64"),
        ([3, -1], 1, "non-negative integers.* minimum -1"),
        (["a", "b"], 1, "got dtype <U1"),
        ([], 1, "got dtype float64"),
        ([1, 2], 0, "n_samples must be an integer >= 1, got 0"),
        ([1, 2], 1.5, "n_samples must be an integer >= 1, got 1.5"),
        ([1, 2], 4, "at most the population of 3, got 4"),
        ([999_999_999, 1], 5, "below 1,000,000,000 people, got 1,000,000,000.*multinomial"),
        ([2**62, 2**62, 2**62], 5, "got 13,835,058,055,282,163,712"),
    ],
)
def test_sample_counts_refuses(counts, n_samples, message):
    with pytest.raises(ValueError, match=f"sample_counts: .*{message}"):
        sample_counts(counts, n_samples)


# -- reader: formats -------------------------------------------------------------------------------
def write(path, text):
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8", newline="")
    return path


def write_parquet(path, **columns):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("name", ["h.csv", "h.csv.gz", "h"])
def test_read_csv(tmp_path, name):
    """Gzip is told from the content, not from the name."""
    text = 'value,count,category\nb,3,"x, y"\na,0,\n"two\nlines",5,z\n'
    histogram = read_histogram(write(tmp_path / name, text))
    assert histogram.categories.tolist() == ["b", "a", "two\nlines"]
    assert histogram.counts.tolist() == [3, 0, 5]
    assert histogram.counts.dtype == np.int64
    assert histogram.frequencies.tolist() == [3 / 8, 0, 5 / 8]
    assert histogram.n_samples == 8
    assert list(histogram.groups) == ["category"]
    assert histogram.groups["category"].tolist() == ["x, y", "", "z"]
    for other in ("other.csv.gz", "other.csv"):
        (tmp_path / other).write_bytes((tmp_path / name).read_bytes())
        assert read_histogram(str(tmp_path / other)).n_samples == 8


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffvalue,count\na,1\nb,2\n",
        "value,count\r\na,1\r\nb,2\r\n",
        "\nvalue,count\n\na,1\n\nb,2",
        "count,value\n1,a\n 2 ,b\n",
    ],
    ids=["byte-order mark", "CRLF", "blank lines", "order of columns, spaces"],
)
def test_read_csv_variants(tmp_path, text):
    histogram = read_histogram(write(tmp_path / "h.csv", text))
    assert histogram.categories.tolist() == ["a", "b"]
    assert histogram.counts.tolist() == [1, 2]


def test_read_other_columns(tmp_path):
    path = write(tmp_path / "h.csv", "item,users,value,self,keys\nx,2,10,1,a\ny,3,20,2,b\n")
    histogram = read_histogram(path, value_column="item", count_column="users")
    assert histogram.categories.tolist() == ["x", "y"]
    assert {name: labels.tolist() for name, labels in histogram.groups.items()} == {
        "value": [10, 20],
        "self": [1, 2],
        "keys": ["a", "b"],
    }


@pytest.mark.parametrize(
    "values",
    [
        *(["007", "8"], ["1.0", "2"], ["+7", "8"], ["-0", "1"], ["1e3", "2"], [" 7", "8"]),
        *(["1_0", "2"], ["18446744073709551616", "1"], ["-9223372036854775809", "1"]),
        *(["9" * 5000, "1"], ["٣", "1"]),
    ],
)
def test_read_csv_keeps_text(tmp_path, values):
    path = write(tmp_path / "h.csv", "value,count\n" + "".join(f"{v},1\n" for v in values))
    assert read_histogram(path).categories.tolist() == values


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, unique=True))
def test_read_csv_integers_keep_all_digits(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("integers") / "h.csv"
    write(path, "value,count\n" + "".join(f"{value},1\n" for value in values))
    histogram = read_histogram(path)
    assert histogram.categories.dtype == np.int64
    assert histogram.categories.tolist() == values
    assert read_histogram(path, dtype=str).categories.tolist() == list(map(str, values))


@given(st.data())
def test_read_csv_round_trip_of_text(tmp_path_factory, data):
    character = st.characters(codec="utf-8", exclude_characters="\0\r")
    row = st.tuples(st.text(character, min_size=1, max_size=8), st.text(character))
    rows = data.draw(st.lists(row, min_size=1, max_size=20, unique_by=lambda one: one[0]))
    path = tmp_path_factory.mktemp("text") / "h.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["count", "value", "group"])
        writer.writerows((i, *one) for i, one in enumerate(rows, 1))
    histogram = read_histogram(path, dtype=str)
    pairs = zip(histogram.categories.tolist(), histogram.groups["group"].tolist(), strict=True)
    assert list(pairs) == rows
    assert histogram.counts.tolist() == [*range(1, len(rows) + 1)]


def test_read_large_counts(tmp_path):
    path = write(tmp_path / "h.csv", f"value,count\na,{2**53 - 3}\nb,{3}\n")
    histogram = read_histogram(path)
    assert histogram.counts.tolist() == [2**53 - 3, 3]
    assert histogram.n_samples == 2**53


def test_read_parquet_keeps_types(tmp_path):
    values = [2**53 + 1, -3]
    columns = {"count": [2**53 - 1, 0], "text": ["1", None], "code": [1, 2]}
    path = write_parquet(tmp_path / "h.parquet", value=values, **columns)
    histogram = read_histogram(path)
    assert histogram.categories.dtype == histogram.counts.dtype == np.int64
    assert histogram.categories.tolist() == values
    assert histogram.counts.tolist() == columns["count"]
    assert histogram.groups["text"].tolist() == ["1", ""]
    assert histogram.groups["code"].tolist() == [1, 2]
    of_text = write_parquet(tmp_path / "text.parquet", value=["007", "8"], count=[1, 2])
    assert read_histogram(of_text).categories.tolist() == ["007", "8"]
    assert read_histogram(path, dtype=str).categories.tolist() == ["9007199254740993", "-3"]


def test_read_parquet_of_pandas_and_polars(tmp_path):
    pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    columns = {"value": ["b", "a"], "count": [1, 2]}
    pd.DataFrame(columns).astype({"value": "category"}).to_parquet(tmp_path / "pandas.parquet")
    pl.DataFrame(columns).write_parquet(tmp_path / "polars.parquet")
    for name in ("pandas", "polars"):
        histogram = read_histogram(tmp_path / f"{name}.parquet")
        assert histogram.categories.tolist() == ["b", "a"]
        assert histogram.counts.tolist() == [1, 2]


def test_read_parquet_takes_no_column_from_the_folder_and_needs_pyarrow(tmp_path, monkeypatch):
    (tmp_path / "year=2020").mkdir()
    path = write_parquet(tmp_path / "year=2020" / "h.parquet", value=["a"], count=[1])
    assert not read_histogram(path).groups
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "sklearn_ldp\[data\]"'):
        read_histogram(path)


# -- reader: bad input -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty. Write a header"),
        ("value,count\n", "has a header but no rows"),
        ("value,n\na,1\n", r"has no column 'count'; it has 2 columns: \['value', 'n'\]"),
        ("value;count\na;1\n", "no column 'value' and no column 'count'.*commas"),
        ("value,count,value\na,1,b\n", "contains a column name twice"),
        ("value,count\na,1\nb,2\na,3\n", "line 4: value .* once, got 'a' again after line 2"),
        ('value,count\n"a\nb",1\n"a\nb",1\n', "line 5: .* again after line 3"),
        ("value,count\na,1\nb,-2\n", "line 3: count must be a whole number.*got '-2'"),
        ("value,count\na,12.0\n", "line 2: .*got '12.0'. Write 12 instead of 12.0"),
        ("value,count\na,\n", "line 2: .*got ''"),
        ("value,count\na,nan\n", "line 2: .*got 'nan'"),
        ("value,count\na,1_000\n", "line 2: .*got '1_000'"),
        ("value,count\na,٣\n", "line 2: count must be a whole number"),
        (f"value,count\na,{2**63}\n", "line 2: .*from 0 to 2\\*\\*63"),
        (f"value,count\na,{'9' * 5000}\n", r"line 2: .*9\.\.\.\. Write"),
        (f"value,count\na,{2**62}\nb,{2**62}\n", "must be between 1 and"),
        (f"value,count\na,{2**53}\nb,1\n", r"between 1 and 2\*\*53 users, got 9007199254740993"),
        ("value,count\na,0\n", "must be between 1 and"),
        ("value,count\n,1\n", "line 2: value must be text or an integer, got ''.*unknown"),
        ("value,count\na,1\nb\n", "line 3: expected 2 columns .* got 1"),
        ("value,count\na,1\n1,234,5\n", "line 3: expected 2 columns .* double quotes"),
        ('value,count\na,1\n"b,2\n', "line 3: not well-formed CSV"),
        ('value,count\n"a"b,1\n', "line 2: not well-formed CSV"),
        ("value,count\na\0,1\n", "line 2: .*NUL"),
    ],
)
def test_read_csv_refuses(tmp_path, text, message):
    for name in ("h.csv", "h.csv.gz"):
        if not text and name.endswith("gz"):
            message = "is empty. Write a header"
        with pytest.raises(ValueError, match=rf"^read_histogram: .*{name},?:? .*{message}"):
            read_histogram(write(tmp_path / name, text))


def test_read_csv_refuses_other_encodings(tmp_path):
    path = tmp_path / "h.csv"
    lines = ["value,count", *(f"city {i},1" for i in range(5000)), "Zürich,1"]
    path.write_bytes("\n".join(lines).encode("latin1"))
    with pytest.raises(ValueError, match="line 5002: expected text in UTF-8.*iconv"):
        read_histogram(path)
    path.write_bytes("value,count\na,1\n".encode("utf-16"))
    with pytest.raises(ValueError, match="is text in UTF-16"):
        read_histogram(path)
    path.write_bytes("value,count\na,1\n".encode("utf-16-le"))
    with pytest.raises(ValueError, match="line 1: expected text in UTF-8.*UTF-16"):
        read_histogram(path)


def test_read_refuses_damaged_gzip(tmp_path):
    whole = gzip.compress("".join(["value,count\n", *(f"{i},{i}\n" for i in range(999))]).encode())
    path = tmp_path / "h.csv.gz"
    flipped = bytearray(whole)
    flipped[-6] ^= 1  # the checksum
    ends = (2, 5, 15, len(whole) // 2, len(whole) - 8, len(whole) - 1)
    for damaged in (*(whole[:end] for end in ends), whole + b"junk", flipped):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="truncated or damaged gzip"):
            read_histogram(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": ["a"], "n": [1]}, "has no column 'count'"),
        ({"value": [], "count": []}, "no rows"),
        ({"value": ["a", "b"], "count": [1, None]}, "row 2: count .*got None"),
        ({"value": ["a", "b"], "count": [1, -1]}, "row 2: count .*got -1"),
        ({"value": ["a"], "count": [1.5]}, "row 1: count .*got 1.5"),
        ({"value": ["a"], "count": [True]}, "row 1: count .*got True"),
        ({"value": ["a", None], "count": [1, 1]}, "row 2: value .*got None.*unknown"),
        ({"value": [1.5], "count": [1]}, "row 1: value .*got 1.5.*convert"),
        ({"value": [True], "count": [1]}, "row 1: value .*got True"),
        ({"value": ["a\0", "a"], "count": [1, 1]}, "row 1: value must be text"),
        ({"value": ["a", "a"], "count": [1, 1]}, "row 2: .*'a' again after row 1"),
    ],
)
def test_read_parquet_refuses(tmp_path, columns, message):
    path = write_parquet(tmp_path / "h.parquet", **columns)
    with pytest.raises(ValueError, match=f"read_histogram: .*h.parquet.*{message}"):
        read_histogram(path)


def test_read_refuses_damaged_parquet(tmp_path):
    path = write_parquet(tmp_path / "h.parquet", value=["a", "b"], count=[1, 2])
    whole = path.read_bytes()
    for end in (4, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match="truncated or damaged Parquet"):
            read_histogram(path)


def test_read_refuses_parameters(tmp_path):
    path = write(tmp_path / "h.csv", "value,count\na,1\n")
    with pytest.raises(ValueError, match="dtype must be None or str, got <class 'int'>"):
        read_histogram(path, dtype=int)
    with pytest.raises(ValueError, match="must be different columns, got 'value' for both"):
        read_histogram(path, count_column="value")
    with pytest.raises(FileNotFoundError):
        read_histogram(tmp_path / "missing.csv")
    with pytest.raises(OSError, match="directory"):
        read_histogram(tmp_path)


def test_read_never_unpickles(tmp_path):
    path = tmp_path / "h.csv"
    path.write_bytes(pickle.dumps({"value": ["a"], "count": [1]}))
    with pytest.raises(ValueError, match="read_histogram: .*h.csv"):
        read_histogram(path)


def test_read_real_file_of_several_histograms_is_refused(shared_data):
    path = shared_data("REFERENCE_INPUTS_minilek.csv.gz")
    with pytest.raises(
        ValueError, match="again after line .* if the file contains several histograms, split it"
    ):
        read_histogram(path)
