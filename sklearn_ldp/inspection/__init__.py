"""Displays of estimates, errors and searches; matplotlib is imported when one is drawn."""

from ._contingency_display import ContingencyDisplay
from ._difference_display import DifferenceDisplay
from ._error_curve_display import ErrorCurveDisplay
from ._error_dot_display import ErrorDotDisplay
from ._frequency_display import FrequencyDisplay
from ._group_totals_display import GroupTotalsDisplay
from ._search_display import SearchDisplay
from ._trend_display import TrendDisplay

__all__ = [
    "ContingencyDisplay",
    "DifferenceDisplay",
    "ErrorCurveDisplay",
    "ErrorDotDisplay",
    "FrequencyDisplay",
    "GroupTotalsDisplay",
    "SearchDisplay",
    "TrendDisplay",
]
