"""Columns as users have them: ``python -m benchmarks.speed.column_speed``.

The CPU time of ``GRR(1.0).fit`` over a column, on one core, as a multiple of that over integer
codes in the same run; then that of a GridSearchCV over epsilon and post-processors. Run it with
another version on the path to compare::

    PYTHONPATH=/path/to/other/version python /path/to/benchmarks/speed/column_speed.py
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from sklearn_ldp import GRR, BasePos, NormCut, NormMul, NormSub, PostPos, Power
from sklearn_ldp.metrics import make_frequency_scorer


def columns(n: int, d: int) -> dict[str, tuple[Any, Any]]:
    """Return columns of the same answers, each with the categories of its type."""
    codes = np.random.default_rng(0).integers(d, size=n)
    names = [f"answer {i}" for i in range(d)]
    text = np.array(names)[codes]
    rows = text.tolist()
    days = np.datetime64("2020-01-01", "D") + np.arange(d)
    primes = np.arange(d) * 7 % 1009  # small integers that are no range
    series = pd.Series(rows, dtype="str")
    return {
        "integer codes": (codes, d),
        "pandas Categorical": (series.astype(pd.CategoricalDtype(names)), names),
        "polars Enum": (pl.Series(rows, dtype=pl.Enum(names)), names),
        "Arrow dictionary": (pa.array(rows).dictionary_encode(), names),
        "pandas str": (series, names),
        "Arrow text": (pa.array(rows), names),
        "polars text": (pl.Series(rows), names),
        "NumPy text": (text, names),
        "NumPy object": (text.astype(object), names),
        "list of text": (rows, names),
        "NumPy days": (days[codes], days),
        "pandas instants": (pd.Series(days.astype("M8[us]")[codes]), list(days.astype("M8[us]"))),
        "bools": (codes % 2 == 0, [False, True]),
        "floats": (codes / 8, np.arange(d) / 8),
        "integers, no range": (primes[codes], primes),
    }


def seconds(work: Callable[[], object], rounds: int) -> float:
    """Return the least CPU time of some runs."""
    best = np.inf
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def search(column: Any, categories: Any) -> GridSearchCV:
    """Fit a search over three budgets and six methods."""
    grid = {
        "grr__epsilon": [0.5, 1.0, 2.0],
        "postprocessor": [NormSub(), BasePos(), NormCut(), NormMul(), PostPos(), Power()],
    }
    pipe = make_pipeline(GRR(categories=categories, random_state=0), NormSub())
    pipe.steps[1] = ("postprocessor", pipe.steps[1][1])
    return GridSearchCV(pipe, grid, cv=3, scoring=make_frequency_scorer()).fit(column)


def main() -> None:
    """Print one table of fits, and one of searches."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.column_speed", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--categories", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5, help="of which the quickest counts")
    parser.add_argument("--quick", action="store_true", help="with 20,000 rows, once")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.rounds = 20_000, 1
    warnings.simplefilter("ignore")
    found = columns(options.rows, options.categories)
    with threadpool_limits(limits=1):
        first = 0.0
        for name, (column, categories) in found.items():
            spent = seconds(
                lambda x=column, c=categories: GRR(1.0, categories=c).fit(x), options.rounds
            )
            first = first or spent
            print(f"{name:20} {1000 * spent:8.1f} ms {spent / first:6.2f}", flush=True)
        found, first = columns(options.rows * 3 // 10, options.categories), 0.0
        for name in ("integer codes", "pandas Categorical", "pandas str", "NumPy object"):
            spent = seconds(lambda pair=found[name]: search(*pair), 1)
            first = first or spent
            print(f"search: {name:20} {spent:5.2f} s {spent / first:6.2f}", flush=True)


if __name__ == "__main__":
    main()
