"""Errors of post-processors on real histograms: ``python -m benchmarks.postprocessor_errors``.

Every post-processor on simulated collections through OLH, for each histogram, epsilon and kind of
query: every category, random sets of a tenth of the domain, the ten most frequent categories, and
groups. A figure is a mean squared error over that of the raw estimate (Base), whose own is given;
the best of a column is marked with a star, and so is whatever is within two standard errors of it.
The data are no part of the project: a file that is not there is skipped.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from sklearn_ldp import OLH
from sklearn_ldp._table import format_table
from sklearn_ldp.datasets import read_histogram
from sklearn_ldp.model_selection import ErrorStudy, default_candidates, simulate_errors
from sklearn_ldp.queries import full_domain, groups, random_sets, top_k

from ._data import add_data_argument

# Each with its column of groups; products and pages have none, and get runs of numbers.
HISTOGRAMS = {
    "RETAIL_one_item.csv.gz": None,
    "KOSARAK_PREFIX36682_one_item.csv.gz": None,
    "EMOJI_TRACKER2019_N884427.csv.gz": "category",
    "US1940_CITY_1PCT_TOP915.csv.gz": "category",
}
N_RUNS = 50
METHODS = default_candidates()


def main() -> None:
    """Print a table a histogram."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.postprocessor_errors", description=__doc__.split("\n", 1)[0]
    )
    add_data_argument(parser)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--repeats", type=int, default=30, help="simulated collections")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    arguments = parser.parse_args()
    for name, column in HISTOGRAMS.items():
        path = arguments.data / name
        if not path.exists():
            print(f"\n{name}: skipped, there is no such file in {arguments.data}")
            continue
        data = read_histogram(path)
        d = len(data.counts)
        labels = data.groups[column] if column else np.arange(d) * N_RUNS // d
        queries = {
            "all": full_domain(),
            "10 % sets": random_sets(0.1),
            "top 10": top_k(10),
            column or "runs": groups(labels),
        }
        start = time.perf_counter()
        study = simulate_errors(
            OLH(),
            METHODS,
            data.counts,
            epsilons=arguments.epsilons,
            queries=queries,
            n_repeats=arguments.repeats,
            random_state=arguments.seed,
        )
        took = time.perf_counter() - start
        print(f"\n{name}: n = {data.counts.sum():,}, d = {d:,} ({took:.0f} s)")
        print(error_table(study))


def error_table(study: ErrorStudy) -> str:
    """Methods down, queries at each epsilon across."""
    columns = [
        study.select(epsilon=epsilon, queries=queries)
        for epsilon in np.unique(study["epsilon"])
        for queries in dict.fromkeys(study["queries"])
    ]
    header = ["", *(f"{c['queries'][0]}\n{c['epsilon'][0]:g}" for c in columns)]
    raw = [column.select(postprocessor="Base").errors for column in columns]
    rows = [["Base, MSE", *(f"{errors.mean():.1e}" for errors in raw)]]
    cells = [_cells(column, base.mean()) for column, base in zip(columns, raw, strict=True)]
    for i, method in enumerate(columns[0]["postprocessor"]):
        rows.append([method, *(column[i] for column in cells)])
    return format_table(header, rows)


def _cells(column: ErrorStudy, base: float) -> list[str]:
    """Errors over that of Base, with a star at the best."""
    best = column.errors[np.argmin(column.error)]
    # In pairs: all methods saw the same collections.
    gaps = column.errors - best
    spread = gaps.std(axis=1, ddof=1) / np.sqrt(gaps.shape[1])
    is_best = gaps.mean(axis=1) <= 2 * spread
    return [
        f"{error / base:.3g}{'*' if star else ' '}"
        for error, star in zip(column.error, is_best, strict=True)
    ]


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
