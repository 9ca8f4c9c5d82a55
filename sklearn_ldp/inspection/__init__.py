"""Displays of estimates; matplotlib is imported when one is drawn."""

from ._frequency import FrequencyDisplay

__all__ = ["FrequencyDisplay"]
