"""scikit-learn's checks of all learners, those of tests/test_common.py being by default."""

import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_ldp.learning import (
    CorrectedLogisticRegression,
    CorrectedRidge,
    LabelDPClassifier,
    LabelDPRegressor,
    LDPNaiveBayes,
    PrivatizedColumns,
)
from sklearn_ldp.utils.estimator_checks import expected_failed_checks

PIPELINE = make_pipeline(StandardScaler(), LogisticRegression())


@parametrize_with_checks(
    [
        CorrectedRidge(private=[]),
        CorrectedLogisticRegression(private=[]),
        # The default fits many candidates, which takes eight times as long.
        LabelDPClassifier(correction="likelihood", random_state=0),
    ],
    expected_failed_checks=expected_failed_checks,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn_ldp.PrivacyWarning")
@parametrize_with_checks(
    [
        LabelDPClassifier(random_state=0),
        LabelDPClassifier(input="reports", correction="likelihood"),
        LabelDPClassifier(correction="probabilities", input="reports"),
        LabelDPClassifier(PIPELINE, epsilon=8.0, random_state=0),
        # Classes of a few hundred users can be told apart with hardly any noise only.
        LDPNaiveBayes(epsilon=20.0, random_state=0),
        PrivatizedColumns(random_state=0),
    ],
    expected_failed_checks=expected_failed_checks,
)
def test_scikit_learn_checks_of_other_parameters(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("model", "method", "arguments"),
    [
        (CorrectedRidge(private=[]), "corrected_score", ([[1.0], [2.0]], [1.0, 2.0])),
        (CorrectedRidge(private=[]), "confidence_interval", ()),
        (LabelDPRegressor(input="reports"), "corrected_score", ([[1.0], [2.0]], [0, 1])),
        (PrivatizedColumns(domains={"a": 2}), "get_feature_names_out", ()),
    ],
)
def test_methods_need_a_fit(model, method, arguments):
    with pytest.raises(NotFittedError, match=type(model).__name__):
        getattr(model, method)(*arguments)
