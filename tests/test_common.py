"""The contract: scikit-learn's checks and ours, over the lists of all estimators."""

from numbers import Integral

import numpy as np
import pytest
from estimators import (
    MEAN,
    ORACLES,
    POSTPROCESSORS,
    ROW_JOINERS,
    SEARCHES,
    SURVEYS,
    TABLE_ORACLES,
    TABLE_PROCESSORS,
    each_way,
    first_of_each,
    is_ordinal,
    slow_but,
)
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.estimator_checks import (
    check_estimator,
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
    parametrize_with_checks,
)

from sklearn_ldp import GRR, OUE, ExactMLE, Power
from sklearn_ldp.learning import LDPNaiveBayes
from sklearn_ldp.utils._checks import check_simulation, collector_checks
from sklearn_ldp.utils.discovery import all_estimators
from sklearn_ldp.utils.estimator_checks import (
    expected_failed_checks,
    oracle_checks,
    postprocessor_checks,
    table_oracle_checks,
)

# Checks of ours that a post-processor for ordered categories cannot pass.
ORDINAL_FAILURES = {
    "check_permutation_equivariance": "other neighbours make another result",
    "check_order_is_preserved": "neighbours pull estimates up or down, whatever their ranks",
}


# Constructed by default, as a user of `check_estimator` does it.
BY_DEFAULT = [cls() for _, cls in all_estimators()]
TAKE_ARRAYS = [one for one in BY_DEFAULT if get_tags(one).input_tags.two_d_array]
SEEDED = [clone(oracle).set_params(random_state=0) for oracle in [*ORACLES[:3], *SURVEYS]]
COSTLY = ("LabelDPClassifier", "MatrixOracle", "RangeOracle")  # computed channels take long
FIRST = first_of_each(POSTPROCESSORS)
# Those that need no noise are checked by default; of the others one a family is quick.
FAMILIES = [post for post in FIRST if type(post) in (Power, ExactMLE)]
# Slow checks of what takes long: others of the same base pass them in the quick ring.
LONG_CHECKS = {
    "LabelDPRegressor": "estimator_sparse_array estimator_sparse_matrix regressor_data_not_an_array"
    " estimators_dtypes dtype_object sample_weight_equivalence_on_sparse_data",
    "MarginalOracle": "sample_weight_equivalence_on_dense_data estimators_dtypes dtype_object",
    "SyntheticSearch": "transformer_data_not_an_array transformer_preserve_dtypes dtype_object"
    " pipeline_consistency n_features_in n_features_in_after_fitting fit_score_takes_y"
    " positive_only_tag_during_fit estimators_dtypes fit_check_is_fitted",
}


def is_long(estimator, check):
    name = getattr(check, "func", check).__name__.removeprefix("check_")
    return name in LONG_CHECKS.get(type(estimator).__name__, "").split()


def scikit_learn_checks(quick, slow):
    """Every check of every estimator, those that are expected to fail strictly marked as such."""
    cases = []
    for estimators in (quick, slow):
        mark = parametrize_with_checks(estimators, expected_failed_checks=expected_failed_checks)
        names, checks = mark.args
        for case in checks:
            values, marks = getattr(case, "values", case), getattr(case, "marks", ())
            if estimators is slow or is_long(*values):
                marks = [*marks, pytest.mark.slow]
            cases.append(pytest.param(*values, marks=marks))
    return pytest.mark.parametrize(names, cases, ids=mark.kwargs["ids"])


@pytest.mark.filterwarnings("ignore::sklearn_ldp.PrivacyWarning")
@scikit_learn_checks(
    [one for one in TAKE_ARRAYS if type(one).__name__ not in (*COSTLY, "LDPNaiveBayes")],
    [*(one for one in TAKE_ARRAYS if type(one).__name__ in COSTLY), *SEEDED],
)
def test_scikit_learn_checks_of_all_by_default(estimator, check):
    """And, in the slow ring, of oracles with a seed."""
    check(estimator)


@scikit_learn_checks(
    [*FAMILIES, SEARCHES[0]],
    [*(post for post in POSTPROCESSORS if post not in FAMILIES), ROW_JOINERS[0], *SEARCHES[1:]],
)
def test_scikit_learn_checks_of_postprocessors(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_learner_without_a_seed_fails_no_other_checks():
    """Two fits draw other coins, so that an expected failure may pass; pytest would refuse that."""
    learner = LDPNaiveBayes()
    check_estimator(learner, expected_failed_checks=expected_failed_checks(learner))
    with pytest.raises((AssertionError, TypeError)) as caught:  # old versions check with fractions
        check_estimator(learner)
    names = {entry.name for entry in caught.traceback}  # scikit-learn's message is empty
    assert caught.type is TypeError or names & set(expected_failed_checks(learner))


@pytest.mark.parametrize(
    "estimator", [MEAN, *(one for one in BY_DEFAULT if one not in TAKE_ARRAYS)], ids=repr
)
def test_what_takes_no_2d_arrays_says_so(estimator):
    """scikit-learn then checks nothing, so that what needs no data is checked here."""
    assert not get_tags(estimator).input_tags.two_d_array
    for check in (
        check_no_attributes_set_in_init,
        check_parameters_default_constructible,
        check_get_params_invariance,
        check_set_params,
    ):
        check(type(estimator).__name__, estimator)
    with pytest.raises((TypeError, ValueError)):
        clone(estimator).fit(np.full((5, 3), 1 / 3))


# The law of every simulation is tested in test_statistics; this check only for two ways of it.
SIMULATIONS = slow_but([GRR(), OUE()], ORACLES)


@pytest.mark.parametrize(
    ("check", "oracle"),
    [
        pytest.param(
            check, *case.values, marks=case.marks, id=f"{case.values[0]!r}-{check.__name__}"
        )
        for check in oracle_checks()
        for case in (SIMULATIONS if check is check_simulation else each_way(ORACLES))
    ],
)
def test_checks_of_oracles(oracle, check):
    check(oracle)


@pytest.mark.parametrize("check", collector_checks(), ids=lambda check: check.__name__)
def test_checks_of_means(check):
    check(MEAN)


@pytest.mark.parametrize("check", table_oracle_checks(), ids=lambda check: check.__name__)
@pytest.mark.parametrize("oracle", TABLE_ORACLES, ids=repr)
def test_checks_of_table_oracles(oracle, check):
    check(oracle)


@pytest.mark.parametrize("check", postprocessor_checks(), ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "postprocessor", [*slow_but(FIRST, POSTPROCESSORS), *ROW_JOINERS, *TABLE_PROCESSORS], ids=repr
)
def test_checks_of_postprocessors(postprocessor, check, request):
    known = ORDINAL_FAILURES if is_ordinal(postprocessor) else {}
    if postprocessor in ROW_JOINERS:
        known = expected_failed_checks(postprocessor)
    if reason := known.get(check.__name__):
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    check(postprocessor)


# The smallest valid number of each parameter of this name. Integers without an entry begin at 1.
_SMALLEST = {("Consistent", "max_iter"): 0, "field_order": 2, "hash_range": 2}
# The largest valid number, if there is a limit.
_LARGEST = {
    ("StringOracle", "expected_n_users"): 1 << 40,
    ("StringOracle", "hash_range"): 1024,
    "max_items": 256,
    "n_found": 1024,
}
# Real numbers: the smallest valid number, and whether the number itself is valid. Real numbers
# without an entry are above 0.
_REAL = {
    ("CorrectedRidge", "alpha"): (0, True),
    ("ExactMLE", "tol"): (0, True),
    "bandwidth": (0, True),
    "column_share": (0, True),
    "correlation": (0, True),
    "exponent": (0, True),
    "min_z_score": (0, True),
    "worst_case": (1, True),
}
# The largest valid real number, and whether the number itself is valid.
_BELOW = {"column_share": (1, False), "correlation": (1, True), "test_size": (1, False)}


def limits():
    """Yield each parameter of each estimator that must be a number in an interval."""
    for name, kind in all_estimators():
        for parameter, constraints in kind._parameter_constraints.items():
            if isinstance(constraints, list):
                for constraint in constraints:
                    if isinstance(constraint, Interval):
                        yield (name, parameter), constraint


def test_limits_of_parameters():
    for key, interval in limits():

        def entry(table, default, key=key):
            return table.get(key, table.get(key[1], default))

        if interval.type is Integral:
            smallest = entry(_SMALLEST, 1)
            largest = entry(_LARGEST, 1 << 62)
            beyond = [] if largest == 1 << 62 else [largest + 1]
            valid = [smallest, largest]
            invalid = [smallest - 1, *beyond]
        else:
            low, has_low = entry(_REAL, (0, False))
            high, has_high = entry(_BELOW, (1e300, True))
            valid = [low + 1e-9, high * (1 - 1e-9), *[low] * has_low, *[high] * has_high]
            invalid = [low - 1e-9, *[low] * (not has_low), *[high] * (not has_high)]
            invalid += [high + 1e-9] if high < 1e300 else []
        assert [x for x in valid if x not in interval] == [], key
        assert [x for x in invalid if x in interval] == [], key
