"""What the papers print, as data: each statement with its tolerance and its measurement."""

from __future__ import annotations

from ._published2019 import BY_CODE, PAPER_2019
from ._published2020 import PAPER_2020
from ._published_calibrate import CALIBRATE

CLAIMS = [*PAPER_2020, *PAPER_2019, *CALIBRATE]

__all__ = ["BY_CODE", "CALIBRATE", "CLAIMS", "PAPER_2019", "PAPER_2020"]
