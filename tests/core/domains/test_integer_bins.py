"""Bins of whole numbers, clipped numbers, and the answers that are made from both."""

import numpy as np
import pandas as pd
import pytest

from sklearn_ldp import (
    GRR,
    OUE,
    ColumnOracle,
    Domain,
    FrequencyEstimate,
    LocalMean,
    NormSub,
    RangeOracle,
    SmoothMLE,
    load_estimate,
)
from sklearn_ldp.inference import quantiles
from sklearn_ldp.queries import between, mean

YEARS = Domain.bins(24, bounds=(0, 120), integers=True)


def exact(values, domain):
    counts = np.bincount(domain.encode(values), minlength=domain.size)
    return FrequencyEstimate([counts / len(values)], domain)


# -- whole numbers ---------------------------------------------------------------------------------
@pytest.mark.parametrize("n_bins", [2, 7, 24, 121])
def test_each_whole_number_is_in_the_bin_that_names_it(n_bins):
    domain = Domain.bins(n_bins, bounds=(0, 120), integers=True)
    sizes = np.bincount(domain.encode(np.arange(121)))
    assert np.ptp(sizes) <= 1
    assert sizes.tolist() == np.diff(domain.ends).tolist()
    for number in range(121):
        first, _, last = domain.decode([domain.encode([number])[0]])[0].partition(" to ")
        assert int(first) <= number <= int(last or first)


def test_means_and_ranges_of_whole_numbers_are_those_of_the_values():
    ages = np.arange(120)  # even within each bin but the last
    estimate = exact(ages[:115], YEARS)
    assert estimate.mean()[0] == pytest.approx(ages[:115].mean())
    of_others = exact(ages[:115], Domain.bins(24, bounds=(0, 120)))
    assert of_others.mean()[0] == pytest.approx(ages[:115].mean() + 0.5)  # what is wrong there
    pairs = [(20, 40), (3, 7), (-5, 6)]
    shares = [np.mean((ages[:115] >= low) & (ages[:115] < high)) for low, high in pairs]
    assert estimate.answer(between(pairs)).tolist()[0] == pytest.approx(shares)
    assert (estimate.median().tolist(), estimate.quantile([0.1]).tolist()) == ([57], [[11]])


def test_quantiles_of_whole_numbers_are_whole_and_end_where_bins_do():
    oracle = RangeOracle(4.0, categories=YEARS, random_state=0)
    found = quantiles(oracle.fit_transform(np.arange(115).repeat(100)), [0.25, 0.5])
    for ends in found:
        assert (ends == np.rint(ends)).all()
    assert (found.low % 5 == 0).all()
    assert (found.high % 5 == 4).all()


@pytest.mark.parametrize(
    ("edges", "bounds"), [(122, (0, 120)), (5, (0, 12.5)), ([1.5], None), ([3, 3], (0, 9))]
)
def test_whole_numbers_need_whole_edges_and_one_for_each_bin(edges, bounds):
    with pytest.raises(ValueError, match=r"Domain\.bins.* (whole|rise)"):
        Domain.bins(edges, bounds=bounds, integers=True)


def test_other_numbers_are_no_whole_ones():
    with pytest.raises(
        ValueError, match=r"got 17\.5 at position 0, but its bins contain only whole"
    ):
        YEARS.encode([17.5])
    with pytest.raises(ValueError, match="is not shown") as error:
        OUE(categories=YEARS).privatize([17.5])
    assert "17.5" not in str(error.value)


def test_bins_and_bins_of_whole_numbers_are_no_one_protocol():
    labels = {"labels": list("ab"), "bounds": (0, 9)}
    assert Domain.bins([5], **labels) != Domain.bins([5], **labels, integers=True)
    assert (
        Domain.bins(2, bounds=(0, 9)).digest != Domain.bins(2, bounds=(0, 9), integers=True).digest
    )


def test_whole_values_in_other_bins_make_a_hint_once():
    oracle = OUE(categories=Domain.bins(24, bounds=(0, 120)), random_state=0)
    oracle.fit(np.arange(100) + 0.5)
    oracle.privatize(np.arange(100))  # clients are logged
    with pytest.warns(UserWarning, match="OUE got only whole numbers.* integers=True"):
        oracle.fit(np.arange(100))
    oracle.fit(np.arange(100))


# -- clipped numbers -------------------------------------------------------------------------------
def test_clipped_numbers_are_named_wherever_they_are_shown(tmp_path):
    bins = Domain.bins(4, bounds=(0, 100), clip=True)
    assert bins.digest == Domain.bins(4, bounds=(0, 100)).digest  # categories are what they were
    with pytest.warns(UserWarning, match="clipped more than 5 %"):
        raw = OUE(3.0, categories=bins, random_state=0).fit_transform(np.linspace(0.5, 180.5, 500))
    raw.save(tmp_path / "estimate.npz")
    for estimate in (raw, NormSub().fit_transform(raw), load_estimate(tmp_path / "estimate.npz")):
        assert estimate.labels[[0, 3]].tolist() == ["[0, 25) (or less)", "[75, 100] (or more)"]
        assert any("outside of 0 to 100" in one for one in estimate.describe()["may_not_be_said"])
        assert estimate.summary().set_index("category")["or more"].sum() == 1
    assert "mean of values clipped to 0 to 100" in repr(raw.confidence_interval(0.95, mean()))
    assert raw.answer(mean())["mean"] == pytest.approx(raw.mean()[0])
    plain = OUE(3.0, categories=Domain.bins(4, bounds=(0, 100)), random_state=0)
    assert plain.fit_transform([0.5, 30.5]).flags is None


def test_a_local_mean_clips_if_asked():
    with pytest.raises(ValueError, match="clip=True of Domain.bins and LocalMean"):
        LocalMean(2.0, bounds=(0, 10)).fit([5.0, 11.0])
    oracle = LocalMean(2.0, bounds=(0, 10), clip=True, random_state=0).fit([5.0, 11.0, -3.0])
    same = LocalMean(2.0, bounds=(0, 10), random_state=0).fit([5.0, 10.0, 0.0])
    assert (oracle.mean_, oracle.n_clipped_) == (same.mean_, 2)
    assert "values clipped to 0 to 10" in " ".join(oracle.describe()["may_not_be_said"])


# -- whose mean ------------------------------------------------------------------------------------
def test_means_and_deviations_say_whose_they_are():
    bins = Domain.bins(16, bounds=(0, 16))
    raw = RangeOracle(1.0, categories=bins, random_state=0).fit_transform(
        np.random.default_rng(0).normal(8, 1, 2000).clip(0, 16)
    )
    smooth = SmoothMLE().fit_transform(raw)
    centers = np.arange(16) + 0.5
    expected = smooth.values[0] @ centers
    assert smooth.mean("processed")[0] == pytest.approx(expected)
    variance = smooth.values[0] @ (centers - expected) ** 2
    assert smooth.std("processed")[0] == pytest.approx(variance**0.5)
    for method in ("mean", "std"):
        with pytest.warns(UserWarning, match=f"{method} uses the raw values.*SmoothMLE"):
            assert getattr(smooth, method)() == getattr(raw, method)()
    assert smooth.median() == quantiles(smooth, [0.5]).value[:, 0]
    with pytest.raises(ValueError, match='values="raw" or "processed"'):
        smooth.mean("smooth")


# -- answers as arrays -----------------------------------------------------------------------------
def test_answers_calculate_as_arrays_do():
    answers = FrequencyEstimate([[0.5, 0.25, 0.25]], ["a", "b", "c"]).answer(["a", "b"])
    array = np.asarray(answers)
    pairs = [
        (answers - 0.1, array - 0.1),
        (1 - answers, 1 - array),
        (answers == 0.5, array == 0.5),
        (answers < array + 1, array < array + 1),
        (np.sqrt(answers), np.sqrt(array)),
        (answers.T, array.T),
        (answers.ravel(), array.ravel()),
        (np.vstack([answers, answers]), np.vstack([array, array])),
    ]
    for found, expected in pairs:
        assert type(found) is np.ndarray
        assert np.array_equal(found, expected)
    assert (answers.sum(), answers.mean(), answers.max()) == (0.75, 0.375, 0.5)
    assert np.mean(answers) == 0.375
    answers -= 0.5
    assert type(answers) is np.ndarray
    with pytest.raises(
        AttributeError, match="Neither Answers nor NumPy arrays have an attribute 'nothing'"
    ):
        _ = FrequencyEstimate([[0.5, 0.5]], ["a", "b"]).answer(["a"]).nothing


# -- words -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "counts",
    ["ab", None, ["a", "b"], [None, 1], [], pd.Series(["x", "y"]).value_counts().to_frame()],
)
def test_what_is_no_count_is_refused_in_a_sentence(counts):
    with pytest.raises(ValueError, match=r"FrequencyEstimate\.from_counts"):
        FrequencyEstimate.from_counts(counts, n_samples=3, std=1.0)


@pytest.mark.parametrize("std", [-1.0, np.nan, np.inf, "a"])
def test_a_standard_deviation_is_finite_and_not_negative(std):
    with pytest.raises(ValueError, match="needs a finite std >= 0"):
        FrequencyEstimate.from_counts([1, 2], n_samples=3, std=std)


def test_wrong_words_are_right():
    with pytest.raises(
        ValueError, match="NormSub expects an estimate.* Pass users' values to an oracle"
    ):
        NormSub().fit_transform(["a", "b"] * 10)
    table = pd.DataFrame({"a": ["x", "y"] * 50, "b": ["u", "v"] * 50})
    estimates = ColumnOracle(2.0, random_state=0).fit_transform(table)
    with pytest.raises(TypeError, match=r"EstimateSet\.plot .* no ax="):
        estimates.plot(ax=object())
    with pytest.raises(TypeError, match="has no kind="):
        estimates["a"].plot(kind="bar")


def test_a_difference_names_both_numbers_of_users():
    one, other = (GRR(2.0, categories=["a", "b"], random_state=i) for i in (0, 1))
    change = one.fit_transform(["a", "b"] * 60) - other.fit_transform(["a", "b"] * 70)
    assert change.describe()["n_each"] == [120, 140]
    page = change.report()
    assert "120 against 140" in getattr(page, "html", str(page))


def test_ranges_of_whole_numbers_are_named_by_their_first_and_last_one():
    """Negative control: other bins keep half-open ranges."""
    asked, pairs = between([(0, 21), (79.5, 101), (40, 41)]), ["0 to 20", "80 to 100", "40"]
    domains = (Domain.bins(5, bounds=(0, 120), integers=i) for i in (True, False))
    whole, other = (GRR(2.0, categories=each, random_state=0) for each in domains)
    estimate = whole.fit_transform(np.arange(100))
    assert estimate.answer(asked).names == pairs
    assert estimate.confidence_interval(0.95, asked).names == pairs
    assert other.fit_transform(np.arange(100) + 0.5).answer(asked).names[0] == "[0, 21)"
    description = estimate.describe()
    assert [row["name"] for row in description["ranges"]] == estimate.labels.tolist()
    assert description["domain"] == "5 bins of whole numbers from 0 to 120"
    assert "101" not in str(estimate.report())


def test_whole_values_of_a_column_make_a_hint():
    domains = {"age": Domain.bins(24, bounds=(0, 120)), "sex": 2}
    people = np.column_stack([np.arange(100), np.arange(100) % 2])
    with pytest.warns(UserWarning, match="got only whole numbers.* integers=True"):
        ColumnOracle(domains=domains, random_state=0).fit(people)
