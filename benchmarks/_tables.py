"""Tables in Markdown, and what stands in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], others: str = "---:") -> str:
    """Return a table whose first column is aligned to the left, and all others to the right."""
    rule = ["---", *[others] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, rule, *rows])


def refresh(path: Path, marks: tuple[str, str], text: str) -> None:
    """Replace the text between the two marks of a page."""
    begin, end = marks
    before, _, rest = path.read_text(encoding="utf-8").partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{path} must hold the lines {begin!r} and {end!r}.")
    path.write_text(f"{before}{begin}\n\n{text}\n{end}{after}", encoding="utf-8")


def with_error(ratios: np.ndarray, populations: np.ndarray) -> str:
    """The geometric mean, its jackknife standard error over the populations, and the greatest."""
    logs = np.log(ratios)
    left_out = np.array([logs[populations != name].mean() for name in dict.fromkeys(populations)])
    n = len(left_out)
    error = np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean()) ** 2)) if n > 1 else np.nan
    mean = np.exp(logs.mean())
    return f"{mean:.3f} ({mean * error:.3f}) / {ratios.max():.2f}"
