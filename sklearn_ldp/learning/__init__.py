"""Models from private data: labels, features or whole records that users have randomised."""

from ._encoder import FrequencyEncoder, RateEncoder
from ._label_channel import corrected_labels
from ._label_classifier import LabelDPClassifier
from ._label_scores import label_dp_score, make_label_dp_scorer
from ._naive_bayes import LDPNaiveBayes

__all__ = [
    "FrequencyEncoder",
    "LDPNaiveBayes",
    "LabelDPClassifier",
    "RateEncoder",
    "corrected_labels",
    "label_dp_score",
    "make_label_dp_scorer",
]
