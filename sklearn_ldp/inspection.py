"""Displays (plots) of estimates, errors and searches. The first plot imports matplotlib."""

from ._core.displays import (
    ContingencyDisplay,
    DifferenceDisplay,
    DistributionDisplay,
    ErrorCurveDisplay,
    FrequencyDisplay,
    MapDisplay,
    SearchDisplay,
    TrendDisplay,
)
from ._core.report_page import EstimateReport

__all__ = [
    "ContingencyDisplay",
    "DifferenceDisplay",
    "DistributionDisplay",
    "ErrorCurveDisplay",
    "EstimateReport",
    "FrequencyDisplay",
    "MapDisplay",
    "SearchDisplay",
    "TrendDisplay",
]
