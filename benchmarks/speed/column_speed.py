"""Speed of `fit` for typical data types of columns: ``python -m benchmarks.speed.column_speed``.

The first table contains the CPU time of ``GRR(1.0).fit`` for a column, on one core, as a multiple
of the CPU time for integer codes in the same run. Then follows the CPU time of a GridSearchCV over
epsilon and post-processors. To compare versions, run it with another version on the path::

    PYTHONPATH=/path/to/other/version:/path/to/this/one python -m benchmarks.speed.column_speed
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

from sklearn_ldp import GRR, BasePos, NormCut, NormMul, NormSub, PostPos, Power
from sklearn_ldp.metrics import make_frequency_scorer

from .._command import command
from .._timing import seconds


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


def fit(column: Any, categories: Any) -> GRR:
    """Collect a column."""
    return GRR(1.0, categories=categories).fit(column)


def search(column: Any, categories: Any) -> GridSearchCV:
    """Fit a search over three budgets and six methods."""
    grid = {
        "grr__epsilon": [0.5, 1.0, 2.0],
        "postprocessor": [NormSub(), BasePos(), NormCut(), NormMul(), PostPos(), Power()],
    }
    grr = GRR(categories=categories, random_state=0)
    pipe = Pipeline([("grr", grr), ("postprocessor", NormSub())])
    return GridSearchCV(pipe, grid, cv=3, scoring=make_frequency_scorer()).fit(column)


def main() -> None:
    """Print one table of fits, and one of searches."""
    parser = command(__doc__, __spec__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--categories", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5, help="of which the quickest counts")
    parser.add_argument("--quick", action="store_true", help="with 20,000 rows, once")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.rounds = 20_000, 1
    warnings.simplefilter("ignore")
    first = 0.0
    for name, column in columns(options.rows, options.categories).items():
        spent = seconds(partial(fit, *column), options.rounds, time.process_time)
        first = first or spent
        print(f"{name:20} {1000 * spent:8.1f} ms {spent / first:6.2f}", flush=True)
    found, first = columns(options.rows * 3 // 10, options.categories), 0.0
    for name in ("integer codes", "pandas Categorical", "pandas str", "NumPy object"):
        spent = seconds(partial(search, *found[name]), 1, time.process_time)
        first = first or spent
        print(f"search: {name:20} {spent:5.2f} s {spent / first:6.2f}", flush=True)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
