"""Models from private data: labels, features or whole records that users have randomised."""

from ._corrected_logistic import CorrectedLogisticRegression
from ._corrected_ridge import CorrectedRidge, corrected_gram
from ._encoder import FrequencyEncoder, RateEncoder
from ._label_channel import corrected_labels
from ._label_classifier import LabelDPClassifier
from ._label_scores import label_dp_score, make_label_dp_scorer
from ._naive_bayes import LDPNaiveBayes
from ._private_columns import PrivatizedColumns

__all__ = [
    "CorrectedLogisticRegression",
    "CorrectedRidge",
    "FrequencyEncoder",
    "LDPNaiveBayes",
    "LabelDPClassifier",
    "PrivatizedColumns",
    "RateEncoder",
    "corrected_gram",
    "corrected_labels",
    "label_dp_score",
    "make_label_dp_scorer",
]
