"""Displays: plots of estimates, errors and searches. The first plot imports matplotlib."""

from ._contingency_display import ContingencyDisplay
from ._difference_displays import DifferenceDisplay, TrendDisplay
from ._distribution_display import DistributionDisplay
from ._error_displays import ErrorCurveDisplay, SearchDisplay
from ._frequency_display import FrequencyDisplay
from ._map_display import MapDisplay
