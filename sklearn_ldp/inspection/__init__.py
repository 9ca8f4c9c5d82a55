"""Displays of estimates, errors and searches; matplotlib is imported when one is drawn."""

from ._error_curve_display import ErrorCurveDisplay
from ._error_dot_display import ErrorDotDisplay
from ._frequency_display import FrequencyDisplay
from ._search_display import SearchDisplay

__all__ = ["ErrorCurveDisplay", "ErrorDotDisplay", "FrequencyDisplay", "SearchDisplay"]
