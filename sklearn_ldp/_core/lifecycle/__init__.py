"""The base of all oracles and surveys: the life of a collection, whatever its estimate is of."""

from ._base import (
    BaseCollector,
    Budget,
    PlannedEstimate,
    column_weights,
    fit_columns,
    has_learned_domain,
    planned,
    state_of,
    with_counts,
)
from ._by_group import estimate_by_group
from ._collected import OF_ONE_PARTY, Collected, check_weights, lost_weights
from ._shared_docs import inherit_parameters, inherit_survey_parameters

__all__ = [
    "OF_ONE_PARTY",
    "BaseCollector",
    "Budget",
    "Collected",
    "PlannedEstimate",
    "check_weights",
    "column_weights",
    "estimate_by_group",
    "fit_columns",
    "has_learned_domain",
    "inherit_parameters",
    "inherit_survey_parameters",
    "lost_weights",
    "planned",
    "state_of",
    "with_counts",
]
