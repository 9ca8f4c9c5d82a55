"""Displays of estimates, errors and searches; matplotlib is imported when one is drawn."""

from ._core.displays import (
    ContingencyDisplay,
    DifferenceDisplay,
    DistributionDisplay,
    ErrorCurveDisplay,
    FrequencyDisplay,
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
    "SearchDisplay",
    "TrendDisplay",
]
