"""Errors of post-processors on real histograms.

    python -m benchmarks.accuracy.postprocessor_errors

The tables compare all post-processors on simulated OLH collections, for each histogram, epsilon and
kind of query: every category, random sets of a tenth of the domain, the ten most frequent
categories, and groups. A number is the mean squared error divided by the error of the raw estimate
(Base). For the raw estimate, the table contains the mean squared error itself. The best number of a
column is bold, and so are all numbers within two standard errors of it. The data are not part of
the project. If a file is missing, the program skips it.
"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from sklearn_ldp import NPMLE, OLH, Calibrate, PowerNS
from sklearn_ldp.model_selection import ErrorStudy, default_candidates, simulate_errors
from sklearn_ldp.queries import full_domain, groups, random_sets, top_k

from .._command import add_data_argument, command, histograms
from .._tables import markdown

# Each with its column of groups; products and pages have none, and get runs of numbers.
HISTOGRAMS = {
    "retail": ("RETAIL_one_item.csv.gz", None),
    "kosarak": ("KOSARAK_PREFIX36682_one_item.csv.gz", None),
    "emoji": ("EMOJI_TRACKER2019_N884427.csv.gz", "category"),
    "cities": ("US1940_CITY_1PCT_TOP915.csv.gz", "category"),
}
N_RUNS = 50
METHODS = [*default_candidates(), Calibrate(), PowerNS(fit_method="mle"), NPMLE()]
KINDS = {
    "all": "Every category",
    "10 % sets": "Random sets of a tenth of the domain",
    "top 10": "The ten most frequent categories",
    "groups": "Groups: Unicode's categories of emoji, states of cities, 50 runs of item numbers",
}


def main() -> None:
    """Print one table per kind of query."""
    parser = command(__doc__, __spec__, repeats=30, seed=0)
    add_data_argument(parser)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    arguments = parser.parse_args()
    studies = {}
    files = {name: file for name, (file, _) in HISTOGRAMS.items()}
    for name, data in histograms(arguments.data, files).items():
        column, d = HISTOGRAMS[name][1], len(data.counts)
        labels = data.groups[column] if column else np.arange(d) * N_RUNS // d
        queries = (full_domain(), random_sets(0.1), top_k(10), groups(labels))
        studies[name] = simulate_errors(
            OLH(),
            METHODS,
            data.counts,
            epsilons=arguments.epsilons,
            queries=dict(zip(KINDS, queries, strict=True)),
            n_repeats=arguments.repeats,
            random_state=arguments.seed,
        )
    for kind, title in KINDS.items():
        print(f"{title}:\n\n{error_table(studies, kind)}\n")


def error_table(studies: dict[str, ErrorStudy], kind: str) -> str:
    """Return a table of methods against histograms and epsilons, with the best in bold."""
    columns, header = [], ["MSE / that of Base"]
    for name, study in studies.items():
        for epsilon in np.unique(study["epsilon"]):
            columns.append(study.select(epsilon=epsilon, queries=kind))
            header.append(f"{name} {epsilon:g}")
    raw = [column.select(postprocessor="Base").errors for column in columns]
    rows = [["Base, MSE", *(f"{errors.mean():.1e}" for errors in raw)]]
    cells = [_cells(column, base.mean()) for column, base in zip(columns, raw, strict=True)]
    for name, *of_name in zip(columns[0]["postprocessor"], *cells, strict=True):
        rows.append([name if "," in name else f"`{name}`", *of_name])
    return markdown(header, rows)


def _cells(column: ErrorStudy, base: float) -> list[str]:
    """Return the errors divided by that of Base, with the best in bold."""
    # Compared in pairs, because all methods saw the same collections.
    gaps = column.errors - column.errors[np.argmin(column.error)]
    is_best = gaps.mean(axis=1) <= 2 * gaps.std(axis=1, ddof=1) / np.sqrt(gaps.shape[1])
    return [
        f"**{error / base:.3g}**" if best else f"{error / base:.3g}"
        for error, best in zip(column.error, is_best, strict=True)
    ]


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
