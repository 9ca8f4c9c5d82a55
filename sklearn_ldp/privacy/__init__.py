"""Privacy accounting: the epsilon after shuffling, and the risk of repeated collections."""

from .._core.common.privacy import PrivacyWarning
from ._repetition import repeated_collection_risk
from ._shuffling import local_epsilon, shuffled_epsilon

__all__ = [
    "PrivacyWarning",
    "local_epsilon",
    "repeated_collection_risk",
    "shuffled_epsilon",
]
