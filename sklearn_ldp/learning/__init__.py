"""Classifiers and regressors for private data: users randomize labels, features or records."""

from ._corrected_models import CorrectedLogisticRegression, CorrectedRidge, corrected_gram
from ._label_channel import corrected_labels
from ._label_classifier import LabelDPClassifier
from ._label_regressor import LabelDPRegressor
from ._label_scores import label_dp_score, make_label_dp_scorer
from ._naive_bayes import LDPNaiveBayes
from ._private_columns import PrivatizedColumns

__all__ = [
    "CorrectedLogisticRegression",
    "CorrectedRidge",
    "LDPNaiveBayes",
    "LabelDPClassifier",
    "LabelDPRegressor",
    "PrivatizedColumns",
    "corrected_gram",
    "corrected_labels",
    "label_dp_score",
    "make_label_dp_scorer",
]
