"""The contract: scikit-learn's checks and ours, over the lists of all estimators."""

import pytest
import sklearn
from estimators import ORACLES, ORDINAL, POSTPROCESSORS, SEARCHES
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_ldp.utils.estimator_checks import oracle_checks, postprocessor_checks

ONE_ROW = "an estimate has one row a collection, not one a user"
# Why an oracle cannot pass a check of scikit-learn's; everything else must pass.
EXPECTED_FAILURES = {
    "check_fit1d": "one value a user is the usual input, and is 1D",
    "check_fit_idempotent": "the check's test rows are no categories of its training rows",
    "check_methods_sample_order_invariance": ONE_ROW,
    "check_methods_subset_invariance": ONE_ROW,
    "check_sample_weight_equivalence_on_dense_data": (
        "a row of weight 0 is a category that nobody has, a missing row is no category"
    ),
    "check_transformer_data_not_an_array": ONE_ROW,
    "check_transformer_general": ONE_ROW,
}
if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8):
    EXPECTED_FAILURES["check_positive_only_tag_during_fit"] = (
        "before 1.8 the check turns categories into fractions"
    )


# Checks of ours that a post-processor for ordered categories cannot pass.
ORDINAL_FAILURES = {
    "check_permutation_equivariance": "other neighbours make another result",
    "check_order_is_preserved": "neighbours pull estimates up or down, whatever their ranks",
}


@pytest.mark.filterwarnings("ignore::sklearn_ldp.PrivacyWarning")
@parametrize_with_checks(
    [clone(oracle).set_params(random_state=0) for oracle in ORACLES[:3]],
    expected_failed_checks=lambda oracle: EXPECTED_FAILURES,  # strict, as pytest is told
)
def test_scikit_learn_checks_of_oracles(estimator, check):
    check(estimator)


@parametrize_with_checks([*POSTPROCESSORS, SEARCHES[0]])
def test_scikit_learn_checks_of_postprocessors(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", oracle_checks(), ids=lambda check: check.__name__)
@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_checks_of_oracles(oracle, check):
    check(oracle)


@pytest.mark.parametrize("check", postprocessor_checks(), ids=lambda check: check.__name__)
@pytest.mark.parametrize("postprocessor", POSTPROCESSORS, ids=repr)
def test_checks_of_postprocessors(postprocessor, check, request):
    if isinstance(postprocessor, ORDINAL) and check.__name__ in ORDINAL_FAILURES:
        reason = ORDINAL_FAILURES[check.__name__]
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    check(postprocessor)
