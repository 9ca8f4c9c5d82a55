"""Errors of estimates name a remedy, and the remedy works for the same estimate."""

import pytest

from sklearn_ldp import (
    GRR,
    Domain,
    EmpiricalBayes,
    FrequencyEstimate,
    NormSub,
    RangeOracle,
    SmoothMLE,
)
from sklearn_ldp.metrics import held_out_score
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.queries import between, mean, top_k

BINS = Domain.bins(8, bounds=(0, 80), missing=True)
AGES = [10.5, 20.5, 30.5, None] * 500
RAW = RangeOracle(2.0, categories=BINS, random_state=0).fit_transform(AGES)
NUMBERS = GRR(2.0, categories=[10, 20, 30], random_state=0).fit([10, 20, 30] * 50)
WEEKS = estimate_by_group(GRR(2.0, categories=3, random_state=0), [0, 1, 2] * 50, ["a", "b"] * 75)
ROUNDED = FrequencyEstimate.from_counts({"a": 300, "b": 280}, std=9.0, n_samples=600)
WITHOUT = FrequencyEstimate(NUMBERS.estimate_.values, NUMBERS.estimate_.categories)
RANGE = between([(10, 30)])
AS_RAW = r"Use its raw estimate, estimate\.as_raw\(\)"
SELECTED = r'or pass top_k\(k\) with coverage="selected"'
MEAN = r"Pass mean\(\) from sklearn_ldp\.queries, without quotes"


def answered(post):
    return post.fit_transform(RAW).answered()


REMEDIES = {  # the failing call, the named remedy, and the remedy itself
    **{
        f"interval after {post!r}": (
            lambda post=post: answered(post).confidence_interval(0.95, RANGE),
            AS_RAW,
            lambda post=post: answered(post).as_raw().confidence_interval(0.95, RANGE),
        )
        for post in (NormSub(), SmoothMLE(), EmpiricalBayes())
    },
    "largest categories": (
        lambda: answered(NormSub()).confidence_interval(0.95, top_k(2)),
        SELECTED,
        lambda: answered(NormSub()).confidence_interval(0.95, top_k(2), coverage="selected"),
    ),
    "difference": (
        lambda: NormSub().fit_transform(RAW) - ROUNDED,
        AS_RAW,
        lambda: NormSub().fit_transform(NUMBERS.estimate_).as_raw() - second_collection(),
    ),
    "an integer": (
        lambda: NUMBERS.estimate_[10],
        r"^An integer selects a row of an estimate and not a category.*use estimate\.answer\(\[",
        lambda: NUMBERS.estimate_.answer([10]),
    ),
    "a name of queries in answer": (
        lambda: RAW.answered().answer("mean"),
        MEAN,
        lambda: RAW.answered().answer(mean()),
    ),
    "a name of queries in an interval": (
        lambda: RAW.answered().confidence_interval(queries="mean"),
        MEAN,
        lambda: RAW.answered().confidence_interval(queries=mean()),
    ),
    "mean of bins with a missing answer": (
        RAW.mean,
        r"Ask estimate\.answered\(\)",
        lambda: RAW.answered().mean(),
    ),
    "detection without a distribution": (
        ROUNDED.detected,
        r"Use confidence_interval\(level\)",
        lambda: ROUNDED.confidence_interval(0.95),
    ),
    "detection without p and q": (
        RAW.detected,
        r"Use confidence_interval\(simultaneous=True\)",
        lambda: RAW.confidence_interval(simultaneous=True),
    ),
    "several rows": (WEEKS.top, r"estimate\[0\]\.top\(\)", lambda: WEEKS[0].top()),
    "no noise": (
        lambda: held_out_score(WITHOUT, WITHOUT),
        r"noise=oracle\.noise_",
        lambda: held_out_score(
            WITHOUT,
            FrequencyEstimate(WITHOUT.values, WITHOUT.categories, noise=NUMBERS.noise_),
        ),
    ),
}


def second_collection():
    return GRR(2.0, categories=[10, 20, 30], random_state=1).fit_transform([10, 20, 30] * 50)


@pytest.mark.parametrize("name", list(REMEDIES))
def test_the_remedy_that_an_error_names_works(name):
    fails, remedy, works = REMEDIES[name]
    with pytest.raises((ValueError, TypeError, IndexError), match=remedy):
        fails()
    assert works() is not None


def test_without_raw_values_the_oracle_is_named():
    estimate = FrequencyEstimate(WITHOUT.values, WITHOUT.categories, postprocessors=("Mine",))
    with pytest.raises(ValueError, match="after Mine.*Use the raw estimate of the oracle"):
        estimate.confidence_interval(0.95)
