"""The base class of all oracles and surveys, and the collection of reports that they share."""

from ._base import BaseCollector, Budget, CollectorTools, PlannedEstimate
from ._by_group import estimate_by_group
from ._collected import PARTY_PARAMETERS, Collected, check_weights, lost_weights
from ._shared_docs import inherit_parameters, inherit_survey_parameters

__all__ = [
    "PARTY_PARAMETERS",
    "BaseCollector",
    "Budget",
    "Collected",
    "CollectorTools",
    "PlannedEstimate",
    "check_weights",
    "estimate_by_group",
    "inherit_parameters",
    "inherit_survey_parameters",
    "lost_weights",
]
