"""The public domain: what it accepts and refuses, and codes in both directions."""

import datetime
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from sklearn_ldp import GRR, OLH, ColumnOracle, Domain, LocalMean
from sklearn_ldp.collection import report_configuration

DAY = datetime.date(2020, 1, 1)
LEVELS = ["low", "mid", "high"]
CATEGORICAL = pd.Categorical(["mid", "low"], categories=LEVELS)
ENUM = pl.Series(["mid", "low"], dtype=pl.Enum(LEVELS))
DICTIONARY = pa.DictionaryArray.from_arrays([1, 0], LEVELS)


@pytest.mark.parametrize(
    "declared",
    [
        *(make(LEVELS) for make in (list, tuple, np.array, pd.Index, pl.Series, pa.array, Domain)),
        *(make(LEVELS) for make in (pd.CategoricalDtype, pl.Enum, dict.fromkeys)),
        pd.CategoricalDtype(LEVELS, ordered=True),
        CATEGORICAL,
        pd.Series(CATEGORICAL),
        ENUM,
        DICTIONARY,
        pa.chunked_array([DICTIONARY]),
    ],
    ids=lambda x: f"{type(x).__module__.split('.')[0]} {type(x).__name__}",
)
def test_what_the_ecosystem_says_of_a_domain(declared):
    oracle = GRR(8.0, categories=declared, random_state=0)
    assert Domain.of(declared).categories.tolist() == LEVELS
    estimate = clone(oracle).fit(["high"] * 900 + ["mid"] * 100).estimate_
    assert estimate.categories.tolist() == LEVELS
    assert estimate.top(1)[0][0] == "high"
    assert report_configuration(oracle) == report_configuration(GRR(8.0, categories=LEVELS))


@pytest.mark.parametrize(
    "unordered",
    [set(LEVELS), frozenset(LEVELS), dict.fromkeys(LEVELS).keys(), {"a": 1, "b": 2}.items()],
    ids=lambda x: type(x).__name__,
)
def test_unordered_collections_are_refused(unordered):
    """Their order differs from process to process, and clients and servers would disagree."""
    for make in (Domain, Domain.of, lambda x: GRR(categories=x).privatize(["low"])):
        with pytest.raises(ValueError, match="the same order in every process"):
            make(unordered)


def test_auto_learns_where_nothing_is_declared():
    """Declared levels leak nothing: those that nobody has are included, in their order."""

    def learned(X):
        return GRR(random_state=0).fit(X).categories_.tolist()

    frame = pd.DataFrame({"x": CATEGORICAL})
    for declared in (CATEGORICAL, ENUM, DICTIONARY, frame):
        assert learned(declared) == LEVELS
    assert learned(pd.Series(["mid", "low"])) == ["low", "mid"]
    two = frame.assign(y=pd.Categorical(["a", "b"]))
    assert learned(two) == [(x, y) for x in LEVELS for y in ("a", "b")]
    # A column that declares nothing is learned; the levels of the other one stay.
    assert learned(two.assign(y=["z", "b"])) == [(x, y) for x in LEVELS for y in ("b", "z")]
    plain = pd.DataFrame({"x": ["mid", "low"], "y": ["a", "b"]})
    assert learned(plain) == [("low", "b"), ("mid", "a")]


# -- several columns --------------------------------------------------------------------------
@pytest.mark.parametrize(
    "columns",
    [
        Domain.product([["F", "M"], range(3)]),
        [np.array(["F", "M"]), np.arange(3)],
        [pd.CategoricalDtype(["F", "M"]), pl.Series([0, 1, 2])],
    ],
    ids=["product", "arrays", "dtype and series"],
)
def test_products(columns):
    domain = Domain.of(columns)
    tuples = [(sex, age) for sex in "FM" for age in range(3)]
    assert domain.size == len(domain) == 6
    assert domain.categories.tolist() == tuples  # C order, the last column fastest
    frame = pd.DataFrame({"sex": ["M", "F"], "age": [2, 1]})
    assert domain.encode(frame).tolist() == [5, 1]
    assert domain.decode([5, 1]).tolist() == [("M", 2), ("F", 1)]
    assert domain == Domain(tuples)
    assert domain.digest == Domain(tuples).digest
    oracle = OLH(8.0, categories=columns, random_state=0).fit(pd.concat([frame] * 500))
    assert {c for c, _ in oracle.estimate_.top(2)} == {("M", 2), ("F", 1)}
    listed = OLH(8.0, categories=tuples, random_state=0).fit(pd.concat([frame] * 500))
    np.testing.assert_array_equal(listed.frequencies_, oracle.frequencies_)


def test_errors_of_products_name_the_column_and_none_is_too_large_to_encode():
    domain = Domain.product([["F", "M"], range(3)])
    with pytest.raises(ValueError, match="unknown category 9 in column 2; its 3 categories"):
        domain.encode(pd.DataFrame({"sex": ["F"], "age": [9]}))
    with pytest.raises(ValueError, match="expects the 2 columns .* got 1"):
        domain.encode(["F"])
    with pytest.raises(ValueError, match=r"missing value\) in column 1"):
        domain.encode(pd.DataFrame({"sex": ["F", None], "age": [1, 1]}))
    large = Domain.product([range(10_000)] * 3)
    assert large.size == 10**12
    assert large.encode(np.array([[9_999, 9_999, 9_999]])).tolist() == [10**12 - 1]
    with pytest.raises(ValueError, match="1e.12 combinations is too large for a list"):
        large.categories  # noqa: B018


# -- what holds no values of users ----------------------------------------------------------------
@pytest.mark.parametrize(
    "X", [31337, 31337.5, np.array(31337), np.array([31337j]), [[31337], [1, 2]]]
)
def test_errors_of_clients_do_not_show_values_that_are_no_list(X):
    """Forgotten brackets are a client's likeliest mistake, and errors of clients are logged."""
    for oracle in (GRR(1.0, categories=10), LocalMean(1.0, bounds=(0, 100))):
        with pytest.raises(ValueError, match="^(?s:(?!31337).)*$"):
            oracle.privatize(X)


@pytest.mark.parametrize("categories", [10**8 + 1, 10**12, 10**30])
def test_no_memory_is_taken_for_categories_that_nobody_can_list(categories):
    for declare in (Domain, lambda d: Domain.product([2, d])):
        with pytest.raises(ValueError, match="at most 100,000,000 categories"):
            declare(categories)


def test_masked_values_are_missing():
    """What is below a mask was not answered, whatever stands there."""
    answers = np.ma.array([3, 4, 3], mask=[False, True, False])
    with pytest.raises(ValueError, match="missing value"):
        GRR(1.0, categories=10).privatize(answers)
    assert Domain([3, 4, None]).encode(answers).tolist() == [0, 2, 0]


# -- missing answers --------------------------------------------------------------------------
@pytest.mark.parametrize("listed", [None, np.nan, pd.NA, pd.NaT], ids=str)
def test_a_missing_answer_that_is_listed(listed):
    domain = Domain(["yes", "no", listed])
    for X in (
        ["no", None, "yes"],
        np.array(["no", np.nan, "yes"], dtype=object),
        pd.Series(["no", None, "yes"]),
        pd.Series(["no", pd.NA, "yes"], dtype="string"),
        pl.Series(["no", None, "yes"]),
        pa.array(["no", None, "yes"]),
    ):
        assert domain.encode(X).tolist() == [1, 2, 0]
    again = pickle.loads(pickle.dumps(domain))
    assert again == domain == Domain(["yes", "no", None])
    assert again.digest == Domain(["yes", "no", None]).digest
    oracle = GRR(8.0, categories=["yes", "no", listed], random_state=0).fit([None] * 500)
    assert oracle.frequencies_[2] > 0.9
    numbers = Domain([1.0, 2.0, listed])
    assert numbers.encode(np.array([np.nan, 2.0])).tolist() == [2, 1]
    with pytest.raises(ValueError, match="unknown category inf"):
        numbers.encode(np.array([np.inf]))
    both = Domain.product([["a", listed], [0, 1]])
    assert both.encode(pd.DataFrame({"x": [np.nan, "a"], "y": [1, 0]})).tolist() == [3, 0]


# -- as a value -------------------------------------------------------------------------------
def test_equality_and_immutability():
    domain = Domain(["a", "b"])
    assert domain == Domain(np.array(["a", "b"]))
    assert hash(domain) == hash(Domain(["a", "b"]))
    assert domain != Domain(["b", "a"])
    assert domain != Domain(["a", "b", "c"])
    assert domain != ["a", "b"]
    with pytest.raises(ValueError, match="read-only"):
        domain.categories[0] = "z"
    for copy in (pickle.loads(pickle.dumps(domain)), clone(GRR(categories=domain)).categories):
        assert copy == domain
        with pytest.raises(ValueError, match="read-only"):
            copy.categories[0] = "z"
    assert repr(domain) == "Domain('a', 'b')"
    assert repr(Domain(5)) == "Domain(0, 1, 2, ...)"
    both = Domain.product([["F", "M"], 5])
    assert repr(both) == "Domain(('F', 'M') x (0, 1, 2, ...))"
    assert both == pickle.loads(pickle.dumps(both))
    assert both != Domain.product([["F", "M"], [0, 1, 2, 3, 5]])
    assert Domain.product([10_000] * 3) == Domain.product([range(10_000)] * 3)
    assert domain.names.tolist() == ["a", "b"]
    mine = np.array(["a", "b"])
    taken = Domain(mine)
    mine[0] = "z"
    assert taken.categories.tolist() == ["a", "b"]


def test_open_domains():
    domain = Domain.open()
    assert domain.is_open
    assert domain == Domain.of("open") == pickle.loads(pickle.dumps(domain))
    assert domain.encode(["a", "b"]).dtype == np.uint64
    with pytest.raises(ValueError, match="has no list of categories"):
        domain.categories  # noqa: B018
    reports = [
        OLH(categories=c, hash_family="mixing", random_state=0).privatize(["a"])
        for c in ("open", Domain.open(), ["a", "b"])
    ]
    assert reports[0].tolist() == reports[1].tolist() == reports[2].tolist()
    for oracle in (GRR(categories="open"), GRR(categories=Domain.open())):
        with pytest.raises(ValueError, match="needs a list of the categories"):
            oracle.privatize(["a"])


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (1, "at least 2 categories, got 1"),
        (["a"], "at least 2 categories, got 1"),
        (pd.CategoricalDtype(), "a categorical dtype that lists no categories"),
        (3.5, "Expected one list of categories or values"),
        ("colours", "has no domain yet"),
        ([["a", []], ["b", []]], "hashable"),
    ],
    ids=repr,
)
def test_what_is_no_domain(wrong, what):
    with pytest.raises(ValueError, match=what):
        Domain.of(wrong)


def test_rows_of_other_lengths_are_categories_of_their_own():
    domain = Domain([["a"], ["b", "c"]])
    assert domain.categories.tolist() == [("a",), ("b", "c")]
    with pytest.raises(ValueError, match="Pass a single value in a list"):
        domain.encode("a")


@pytest.mark.parametrize(
    ("categories", "digest"),
    [
        (["a", "b"], "5bc880d0b7ac2373073f7d232f3ff485c35087bdf1feba104d7b7e84148fc3fa"),
        (3, "b7336bded7e0548c8b83a7c4ad5bf82e6756a15e25be6dd5420bfe1851d81747"),
        (
            [("a", 1), ("b", 2.5)],
            "d1da98d424e09615dc76ec12ebcb1c440a3bf30150cf31afd870df2623027a6d",
        ),
        ([DAY, b"x"], "f4a802eafd0d9dfd34249d33858b4976896896578131685032adfe89ae2489ae"),
    ],
    ids=repr,
)
def test_digests_never_change(categories, digest):
    """Files and checkpoints carry them."""
    assert Domain(categories).digest == digest


# -- text that ends with NUL -----------------------------------------------------------------------
NUL = ["a", "a\0", "b"]
WITH_NUL = {
    "list": lambda values: values,
    "tuple": tuple,
    "objects": lambda values: np.array(values, dtype=object),
    "pandas": pd.Series,
    "polars": pl.Series,
    "Arrow": pa.array,
    "bytes": lambda values: [value.encode() for value in values],
}


@pytest.mark.parametrize("name", WITH_NUL)
def test_text_that_ends_with_nul_stays_what_it_is(name):
    """NumPy's text drops it: "a" and "a\\0" would be one category."""
    values = WITH_NUL[name](NUL)
    expected = [value.encode() for value in NUL] if name == "bytes" else NUL
    domain = Domain(values)
    assert domain.categories.tolist() == expected
    assert domain.encode(values).tolist() == [0, 1, 2]
    assert domain.decode([1]).tolist() == expected[1:2]
    assert pickle.loads(pickle.dumps(domain)) == domain
    assert domain.digest != Domain(["a", "A", "b"]).digest
    with pytest.raises(ValueError, match=r"got the unknown category b?'a.x00'"):
        Domain(expected[::2]).encode(WITH_NUL[name](NUL[1:2]))


def test_rows_and_learned_domains_keep_nul():
    assert GRR(random_state=0).fit(NUL * 10).categories_.tolist() == NUL
    rows = [["x", "a\0"], ["x", "a"]]
    assert Domain(rows).encode(rows).tolist() == [0, 1]
    estimate = GRR(9.0, categories=NUL, random_state=0).fit_transform(["a\0"] * 100)
    assert estimate.categories.tolist() == NUL
    assert estimate.top(1)[0][0] == "a\0"
    assert estimate.to_series().index.tolist() == NUL


def test_bins_have_names_and_encode_numbers_and_names():
    ages = Domain.bins([18, 40.5, 65])
    assert ages.categories.tolist() == ["< 18", "[18, 40.5)", "[40.5, 65)", ">= 65"]
    values = [-1e300, 17.9, 18, 40.5, 64, 65, 1e9]
    assert ages.encode(values).tolist() == [0, 0, 1, 2, 2, 3, 3]
    assert ages.encode(np.array([17, 40])).tolist() == [0, 1]
    assert ages.encode(["17", "66.5"]).tolist() == [0, 3]
    assert ages.encode([">= 65", "< 18"]).tolist() == [3, 0]
    assert pickle.loads(pickle.dumps(ages)) == ages != Domain.bins([18, 41, 65])
    both = Domain.product([ages, ["F", "M"]])
    assert both.encode([[70, "F"], [3, "M"]]).tolist() == [6, 1]
    # Names round an edge and do not tell it; a text that looks like one is never read as an edge.
    thirds, near = (Domain.bins([x], bounds=(0, 1)) for x in (1 / 3, 0.333333))
    assert thirds.categories.tolist() == ["[0, 0.333333)", "[0.333333, 1]"]
    assert thirds.categories.tolist() == near.categories.tolist()
    assert thirds.digest != near.digest
    assert thirds != near
    for names in (["< 3", ">= 3"], ["< 3", "[3, 4)", ">= 4"], ["< a", ">= a"]):
        assert Domain(names).encode(names).tolist() == list(range(len(names)))
        with pytest.raises(ValueError, match="unknown category 3"):
            Domain(names).encode([3])


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
@pytest.mark.parametrize("kind", ["datetime64", "timedelta64"])
@pytest.mark.parametrize("options", [{"edges": [18, 40]}, {"edges": 4, "bounds": (0, 100)}])
def test_dates_are_no_numbers_of_bins(kind, unit, options):
    """Nor are durations: their integers depend on the unit, and all fell into the last bin."""
    dates = np.array([20_454, 20_485], dtype=f"{kind}[{unit}]")
    bins = Domain.bins(**options)
    for X in (dates, pd.Series(dates), list(dates), pd.DataFrame({"a": dates})):
        with pytest.raises(ValueError, match="unknown category|outside of the bounds"):
            bins.encode(X)
    with pytest.raises(ValueError, match="unknown category"):
        bins.encode(pd.DataFrame({"a": [1j, 2j]}))
    with pytest.raises(ValueError, match="finite numbers"):
        Domain.bins(dates)


def test_equal_bins_between_bounds():
    ages = Domain.bins(4, bounds=(0, 100))
    assert ages.categories.tolist() == ["[0, 25)", "[25, 50)", "[50, 75)", "[75, 100]"]
    assert ages.ends.tolist() == [0, 25, 50, 75, 100]
    assert ages.edges.tolist() == [25, 50, 75]
    assert ages.encode([0, 24.9, 25, 75, 100]).tolist() == [0, 0, 1, 3, 3]
    assert ages.encode(np.array([0, 100], dtype=np.uint8)).tolist() == [0, 3]
    assert ages.encode(["25", 99.5]).tolist() == [1, 3]
    assert ages == Domain.bins([25, 50, 75], bounds=(0, 100)) != Domain.bins([25, 50, 75])
    copy = pickle.loads(pickle.dumps(ages))
    assert copy == ages
    assert copy.digest == ages.digest
    assert not copy.ends.flags.writeable
    for other in (Domain.bins(3, bounds=(0, 1), missing=True), Domain.product([ages, 2])):
        assert other.ends is None  # they are those of bins on a line
    # Bounds are agreed on, also under names of one's own.
    names = {"labels": ["young", "old"]}
    ages = Domain.bins([50], bounds=(0, 100), **names)
    others = Domain.bins([50], **names), Domain.bins([50], bounds=(0, 90), **names)
    assert others[0].ends is None
    assert all(ages != one and ages.digest != one.digest for one in others)


@pytest.mark.parametrize("n", [4, 64, 2048])
def test_bins_of_a_logarithmic_scale(n):
    """Ends grow by the same factor, but for rounding, and names are as people write numbers."""
    money = Domain.bins(n, bounds=(100, 1_000_000), clip=True, scale="log")
    steps = np.diff(np.log(money.ends))
    np.testing.assert_allclose(steps, np.log(1e4) / n, rtol=0.1)
    assert money.encode([0, 100, 999_999, 1e7]).tolist() == [0, 0, n - 1, n - 1]
    if n == 4:
        assert money.categories[1] == "[1,000, 10,000)"
    assert pickle.loads(pickle.dumps(money)) == money
    assert Domain.bins(money.edges, bounds=(100, 1_000_000)).digest == money.digest


@pytest.mark.parametrize("outside", [-0.01, 100.5, "130", 1e5, 10**400])
def test_a_number_outside_of_the_bounds_is_refused_by_its_row(outside):
    ages = Domain.bins(4, bounds=(0, 100))
    with pytest.raises(ValueError, match=f"{outside!r} at position 2, outside of the bounds 0 and"):
        ages.encode([5, 7, outside], "GRR")
    with pytest.raises(ValueError, match="outside of the bounds 0 and 100 at position 2") as found:
        GRR(1.0, categories=ages, random_state=None).privatize([5, 7, outside])
    assert str(outside) not in str(found.value)
    assert Domain.bins(4, bounds=(0, 100), clip=True).encode([outside]).tolist() in ([0], [3])


def test_clipped_values_are_counted_if_clipping_was_asked():
    """Of numbers, texts and columns; over batches; reports have none."""
    ages = Domain.bins(4, bounds=(0, 100), clip=True)
    oracle = GRR(1.0, categories=ages, random_state=0).fit([-1, 0, 100, 100.5])
    assert oracle.n_clipped_ == 2
    assert oracle.partial_fit(["130", "30"]).n_clipped_ == 3
    assert oracle.fit([5]).n_clipped_ == 0
    assert oracle.fit(["[0, 25)"]).n_clipped_ == 0
    with pytest.raises(ValueError, match="NaN"):
        oracle.partial_fit([-5, np.nan])
    assert oracle.n_clipped_ == 0
    domains = {"age": ages, "sex": 2}
    survey = ColumnOracle(1.0, domains=domains, random_state=0).fit([[150, 0], [50, 1]])
    assert survey.n_clipped_ == 1
    pair = Domain.product([ages, ages])
    assert GRR(1.0, categories=pair, random_state=0).fit([[150, -1], [50, 1]]).n_clipped_ == 2
    unasked = GRR(1.0, categories=Domain.bins(4, bounds=(0, 100)), random_state=0).fit([5])
    assert not hasattr(unasked, "n_clipped_")


@pytest.mark.parametrize(
    "ages", [Domain.bins([18, 65]), Domain.bins(3, bounds=(0, 100), clip=True)], ids=str
)
def test_what_is_no_number_is_in_no_bin_and_not_outside(ages):
    for value in (np.nan, None):
        with pytest.raises(ValueError, match="NaN"):
            ages.encode([20, value], "GRR")
    with pytest.raises(ValueError, match="unknown category '20'; its 3"):
        ages.encode(["20", "old"], "GRR")
    with_missing = Domain.bins(4, bounds=(0, 100), missing=True)
    assert with_missing.encode([np.nan, 3]).tolist() == [4, 0]


NO_BOUNDS = [
    *((0, 0), (0, np.inf), (np.nan, 1), (-1e308, 1e308)),  # the last ones have no finite width
    *(("0", "1"), ([0], [1, 2])),
]


@pytest.mark.parametrize(
    ("edges", "options", "what"),
    [
        *((edges, {}, "finite numbers") for edges in ([], [1, np.nan], ["a"])),
        ([2, 1], {}, "increasing order"),
        (64, {}, "got the number of bins 64 without bounds="),
        (64, {"bounds": (0, 9), "scale": "log"}, "and bounds above 0"),
        ([5], {"bounds": (1, 9), "scale": "log"}, "needs a number of bins"),
        (64, {"bounds": (1, 9), "scale": "lg"}, '"linear" or "log", got \'lg\''),
        (1, {"bounds": (0, 1)}, "supports 2 to 1,048,576 equal bins, got 1"),
        (2**40, {"bounds": (0, 1)}, "supports 2 to 1,048,576 equal bins"),
        (True, {"bounds": (0, 1)}, "list of finite numbers"),
        (4.0, {"bounds": (0, 1)}, "list of finite numbers"),
        (4, {"bounds": (1, 0)}, "not two finite numbers with the smaller first"),
        *((4, {"bounds": (low, high)}, "two finite numbers") for low, high in NO_BOUNDS),
        (4, {"bounds": 7}, "two finite numbers"),
        (4, {"bounds": "auto"}, "got bounds='auto'.* without the users' values"),
        (4, {"bounds": (1.0, 1.0 + 2**-52)}, "in increasing order between the bounds"),
        ([5, 100], {"bounds": (0, 100)}, "in increasing order between the bounds 0 and 100"),
        ([18], {"clip": True}, "together with clip=True"),
        ([18], {"clip": "no", "bounds": (0, 100)}, "Pass clip=False"),
    ],
)
def test_bins_that_are_none(edges, options, what):
    with pytest.raises(ValueError, match=what):
        Domain.bins(edges, **options)


def test_text_with_an_underscore_is_no_number():
    """Python reads "18_25" as 1825, which is in the last bin."""
    ages = Domain.bins([18, 65])
    with pytest.raises(ValueError, match="'18_25'"):
        ages.encode(["18_25", "30"])
    assert ages.encode(["1825", "30"]).tolist() == [2, 1]  # the negative control


@pytest.mark.parametrize("categories", [["a"], [1.5], []])
def test_fewer_than_two_categories_contain_no_information(categories):
    with pytest.raises(ValueError, match=f"at least 2 categories, got {len(categories)}"):
        Domain(categories)


def test_an_infinite_number_is_no_missing_category():
    with pytest.raises(ValueError, match="infinity"):
        GRR(categories=[0.5, 1.5], random_state=0).fit([0.5, np.inf])
