"""Displays of estimates, errors and searches; matplotlib is imported when one is drawn."""

from ._error_curve import ErrorCurveDisplay
from ._frequency import FrequencyDisplay
from ._search import SearchDisplay

__all__ = ["ErrorCurveDisplay", "FrequencyDisplay", "SearchDisplay"]
