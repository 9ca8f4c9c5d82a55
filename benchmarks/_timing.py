"""Seconds and memory of some work."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from sklearn_ldp.postprocessing import _calibrate


def seconds(
    work: Callable[[], object], repeats: int = 3, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the least time of some runs."""
    times = []
    for _ in range(repeats):
        # Power caches results for a noise level and prior, which must not make the repeats faster.
        _calibrate._posterior.cache_clear()
        _calibrate.power_law_exponent.cache_clear()
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


def mebibytes(kind: str = "VmHWM", process: int | str = "self") -> float:
    """Return the memory of a process: its peak, or what it holds ("VmRSS").

    getrusage would not do: it may return the peak of the process that started this one.
    """
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition(f"{kind}:")[2].split()[0]) / 1024
