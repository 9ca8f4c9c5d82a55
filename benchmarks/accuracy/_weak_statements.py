"""Intervals of what leads a list, where data are weak.

    python -m benchmarks.accuracy._weak_statements [--quick]

Each row of the table is an oracle and a budget, over all populations: synthetic ones and real
histograms with few users. The coverage is that of the ten categories with the largest values of
EmpiricalBayes (listed), and of the ten that are truly the most frequent (true), by the intervals
of ``coverage="selected"``: the mean share of the ten, and how often all ten of the list hold at
once, with the least cell. Lengths are those of the intervals of the listed ten, divided by those of
the band over all categories (geometric means of cells). The real histograms are not part of the
project: a file that is missing is skipped.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from sklearn_ldp import GRR, OLH, OUE, EmpiricalBayes, HadamardResponse, SubsetSelection
from sklearn_ldp._core.statistics._confidence import leading_intervals
from sklearn_ldp._core.statistics._covariances import covariances_of_rows

from .._command import DATA, command, histograms
from .._tables import markdown

K = 10
ORACLES = {
    "GRR": GRR(),
    "OUE": OUE(),
    "OLH": OLH(),
    "SubsetSelection": SubsetSelection(),
    "HadamardResponse": HadamardResponse(),
    "HadamardResponse, blocks": HadamardResponse(n_blocks=4),
}
EPSILONS = (0.5, 1.0, 4.0)
FILES = {
    "emoji": "EMOJI_TRACKER2019_N884427.csv.gz",
    "cities": "US1940_CITY_1PCT_TOP915.csv.gz",
    "kosarak, head": "KOSARAK_FULL_HEAD156.csv.gz",
}


def populations() -> dict[str, np.ndarray]:
    """Return true counts, of 1,000 to 30,000 users, in no order: lists may end in ties."""
    rng = np.random.default_rng(29)
    rank = np.arange(1.0, 1233)
    laws: dict[str, tuple[np.ndarray, int]] = {
        "zipf, d 1,232": (1 / rank, 1_000),
        "equal, d 612": (np.ones(612), 10_000),
        "zipf 1.5, d 60": (rank[:60] ** -1.5, 2_000),
        "Dirichlet .3, d 700": (rng.gamma(0.3, size=700), 20_000),
        "two levels, d 300": (np.where(rank[:300] <= 20, 10.0, 1.0), 5_000),
    }
    found = histograms(DATA, FILES)
    laws |= {f"{name}, d {{}}": (one.counts, 30_000) for name, one in found.items()}
    return {
        name.format(len(law)): rng.permutation(rng.multinomial(n, law / law.sum()))
        for name, (law, n) in laws.items()
    }


def measure(counts: np.ndarray, oracle: Any, n_runs: int) -> np.ndarray:
    """Return shares of the listed ten and of the true ten, how often all hold, and the length."""
    truth, raw = counts / counts.sum(), oracle.simulate(counts, n_repeats=n_runs)
    lists = np.argsort(-EmpiricalBayes().fit_transform(raw).values, axis=1, kind="stable")[:, :K]
    true = np.argsort(-truth, kind="stable")[:K]
    rows = covariances_of_rows(raw, "users", "interval")
    found = np.array([leading_intervals(*row, K, 0.95) for row in rows])
    band = np.stack(raw.confidence_interval(0.95, simultaneous=True), axis=1)
    held = (found[:, 0] <= truth) & (truth <= found[:, 1])
    listed = np.take_along_axis(held, lists, axis=1)
    lengths = [
        np.take_along_axis(ends[:, 1] - ends[:, 0], lists, axis=1).mean() for ends in (found, band)
    ]
    shares = [listed.mean(), held[:, true].mean(), listed.all(axis=1).mean()]
    return np.array([*shares, lengths[0] / lengths[1]])


def main(quick: bool) -> None:
    """Print the table."""
    n_runs, cells, names, rows = (10 if quick else 40), {}, populations(), []
    for (name, oracle), epsilon in product(ORACLES.items(), EPSILONS):
        for i, (population, counts) in enumerate(names.items()):
            asked = oracle.set_params(epsilon=epsilon, categories=len(counts))
            asked.set_params(random_state=np.random.default_rng([29, i]))
            cells[name, epsilon, population] = measure(counts, asked, n_runs)
        rows.append(row(f"{name}, {epsilon:g}", [cells[name, epsilon, p] for p in names]))
    header = ["oracle, epsilon", "listed ten", "true ten", "all listed at once", "length / band's"]
    print(markdown(header, [*rows, row("all", list(cells.values()))]))
    worst = min(cells, key=lambda key: cells[key][2])
    print(f"\nleast coverage of all selected at once: {cells[worst][2]:.3f} ({worst})")


def row(name: str, cells: list[np.ndarray]) -> list[str]:
    """Return the means of some cells, with the least one of each coverage."""
    values = np.array(cells)
    coverage = [f"{m:.3f} ({a:.2f})" for m, a in zip(values.mean(0), values.min(0), strict=True)]
    return [name, *coverage[:3], f"{np.exp(np.log(values[:, 3]).mean()):.2f}"]


if __name__ == "__main__":
    parser = command(__doc__, __spec__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the collections")
    main(parser.parse_args().quick)
