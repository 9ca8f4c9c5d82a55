"""How intervals after post-processing cover on average.

    python -m benchmarks.accuracy.interval_coverage

For each histogram, oracle and epsilon (a cell) whole collections are simulated, and each kind of
interval is compared with the true frequencies. The coverage is the share of the categories that
their intervals contain. The table shows, for each group of histograms, its mean over cells, the
least cell, the least single collection, and mean lengths divided by those of Wald's intervals, as
they are and clipped to [0, 1]; they are averaged over the cells geometrically.

All constants were chosen on ``first`` and ``second``. The posterior that moves by a fixed .25
standard deviations, which is refused, is older than ``second``. The real histograms are not part
of the project: a file that is missing is skipped.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy import special
from threadpoolctl import threadpool_limits

from sklearn_ldp import OUE, SubsetSelection
from sklearn_ldp._utils.text import format_table
from sklearn_ldp.datasets import load_us_states, read_histogram
from sklearn_ldp.inference._confidence import localized_interval, robust_interval
from sklearn_ldp.noise import NoiseModel
from sklearn_ldp.numerics.deconvolution import average_prior, posterior_quantiles

from .._command import add_data_argument, command
from .seven_distributions import HELD_BACK, rounded, seven

Ends = tuple[np.ndarray, np.ndarray]
Laws = dict[str, tuple[np.ndarray, int]]
ORACLES = {"OUE": OUE(), "SubsetSelection": SubsetSelection()}  # the errors of OUE are independent
SECOND_FILES = {
    "retail, all items": "RETAIL.csv.gz",
    "kosarak, all clicks": "KOSARAK_PREFIX36682_all_clicks.csv.gz",
    "kosarak, head": "KOSARAK_FULL_HEAD156.csv.gz",
    "fire units": "FIRE_WEEK_JAN2017.csv.gz",
}
ADULT = "ADULT_ATTRIBUTES.csv.gz"
ADULT_SECOND = ("age", "hours-per-week", "capital-gain", "native-country")
ADULT_UNTOUCHED = ("capital-loss", "education", "occupation")
CATEGORIES_A_CELL = 4_000  # so many intervals are checked in a cell, in 3 to 40 collections


class Method(NamedTuple):
    """A kind of interval: how it is made, and how many categories it needs."""

    ends: Callable[[np.ndarray, np.ndarray, NoiseModel, float], Ends]
    least: int = 1


class Cell(NamedTuple):
    """What was measured of one histogram, oracle and epsilon, by one kind of interval."""

    coverage: np.ndarray  #: of each collection
    length: float  #: mean over categories and collections
    wald_length: float  #: the same of Wald's intervals


def wald(x: np.ndarray, s: np.ndarray, noise: NoiseModel, level: float) -> Ends:
    """Return the intervals of the raw estimate, clipped to [0, 1]."""
    half_width = special.ndtri(0.5 + level / 2) * s
    return np.clip(x - half_width, 0, 1), np.clip(x + half_width, 0, 1)


def robust(x: np.ndarray, s: np.ndarray, noise: NoiseModel, level: float) -> Ends:
    """Return the intervals that hold for any distribution of the same second moment."""
    return robust_interval(x, s, noise.std, level)


def localized(x: np.ndarray, s: np.ndarray, noise: NoiseModel, level: float) -> Ends:
    """Return the intervals that hold for any distribution that the estimate does not contradict."""
    return localized_interval(x, s, noise.std, noise.growth, level)


def posterior_as_it_is(x: np.ndarray, s: np.ndarray, noise: NoiseModel, level: float) -> Ends:
    """Return the plain posterior under the learnt prior, which is refused."""
    prior = average_prior(x, noise.std, noise.growth)
    return posterior_quantiles(x, noise.std, *prior, noise.growth, level)


def posterior_moved(x: np.ndarray, s: np.ndarray, noise: NoiseModel, level: float) -> Ends:
    """Return the posterior moved by a fixed part of the noise, and joined with Wald's."""
    low, high = posterior_as_it_is(x, s, noise, level)
    low, high = np.where(low < 0.05 * noise.std, 0.0, low - 0.25 * s), high + 0.25 * s
    half_width = special.ndtri(0.5 + level / 2) * s
    large = x > 2 * noise.std
    low = np.where(large, np.minimum(low, x - half_width), low)
    high = np.where(large, np.maximum(high, x + half_width), high)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


LEAST_CATEGORIES = 400  # from which on a prior is learnt at all
METHODS = {
    "Wald, clipped": Method(wald),
    "robust": Method(robust),
    "localized": Method(localized),
    "refused: posterior moved by .25": Method(posterior_moved, LEAST_CATEGORIES),
    "refused: posterior as it is": Method(posterior_as_it_is, LEAST_CATEGORIES),
}


def main() -> None:
    """Print one table."""
    parser = command(__doc__, __spec__)
    add_data_argument(parser)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--level", type=float, default=0.95, help="(default: .95)")
    parser.add_argument("--n-jobs", type=int, default=1, help="(default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument("--cells", action="store_true", help="print every cell as well")
    arguments = parser.parse_args()
    populations = {
        "first": first(arguments),
        "second": second(arguments),
        "untouched": untouched(arguments),
    }
    cells = {
        (group, name, oracle, epsilon): counts
        for group, members in populations.items()
        for name, counts in members.items()
        for oracle in ORACLES
        for epsilon in arguments.epsilons
    }
    work = (
        delayed(measure)(counts, ORACLES[key[2]], key[3], arguments.level, arguments.seed)
        for key, counts in cells.items()
    )
    results = dict(zip(cells, Parallel(n_jobs=arguments.n_jobs)(work), strict=True))
    if arguments.cells:
        print(format_table(["", *METHODS], [cell_row(*item) for item in results.items()]), "\n")
    for group, members in populations.items():
        print(f"{group}: {len(members)} histograms: {', '.join(members)}")
    print(f"\n{markdown_table(results)}")


def cell_row(key: tuple, cell: dict[str, Cell]) -> list[str]:
    """Return the coverage and relative length of each kind of interval in one cell."""
    row = [" ".join(map(str, key))]
    for name in METHODS:
        found = cell.get(name)
        row.append(
            f"{found.coverage.mean():.3f} ({found.coverage.min():.3f}) "
            f"{found.length / found.wald_length:.2f}"
            if found
            else "-"
        )
    return row


def markdown_table(results: dict[tuple, dict[str, Cell]]) -> str:
    """Return the table of the user guide."""
    header = (
        "| histograms | intervals | cells | mean coverage | least cell | least collection "
        "| length / Wald | / clipped Wald |"
    )
    lines = [header, "|---|---|---:|---:|---:|---:|---:|---:|"]
    for group in dict.fromkeys(key[0] for key in results):
        for name in METHODS:
            inside = [cells for key, cells in results.items() if key[0] == group and name in cells]
            if not inside:
                continue
            means = [cells[name].coverage.mean() for cells in inside]
            numbers = [
                np.mean(means),
                np.min(means),
                min(cells[name].coverage.min() for cells in inside),
                ratio((c[name].length, c[name].wald_length) for c in inside),
                ratio((c[name].length, c["Wald, clipped"].length) for c in inside),
            ]
            shown = " | ".join(f"{number:.3f}" for number in numbers[:3])
            shown += " | " + " | ".join(f"{number:.2f}" for number in numbers[3:])
            lines.append(f"| {group} | {name} | {len(inside)} | {shown} |")
    return "\n".join(lines)


def ratio(pairs: Iterable[tuple[float, float]]) -> float:
    """Return the geometric mean of quotients."""
    return float(np.exp(np.mean([np.log(a / b) for a, b in pairs])))


def measure(
    counts: np.ndarray, oracle: Any, epsilon: float, level: float, seed: int
) -> dict[str, Cell]:
    """Return what was measured in one cell.

    Parameters
    ----------
    counts : ndarray of shape (d,)
        True counts.
    oracle : BaseOracle
        Its parameters other than epsilon, categories and random_state are kept.
    epsilon : float
        Privacy budget.
    level : float
        Level of the intervals.
    seed : int
        Seed of the collections.

    Returns
    -------
    dict of Cell
        One for each of `METHODS` that takes so few categories.
    """
    d, truth = len(counts), counts / counts.sum()
    n_runs = int(np.clip(CATEGORIES_A_CELL // d, 3, 40))
    oracle = type(oracle)(epsilon, categories=d, random_state=seed)
    with threadpool_limits(1):
        estimate = oracle.simulate(counts, n_runs)
        noise = estimate.noise
        stds = np.sqrt(noise.variance(np.clip(estimate.values, 0, 1)))
        rows = list(zip(estimate.values, stds, strict=True))
        wald_length = 2 * special.ndtri(0.5 + level / 2) * stds.mean()
        cells = {}
        for name, method in METHODS.items():
            if d < method.least:
                continue
            ends = [method.ends(x, s, noise, level) for x, s in rows]
            covered = [np.mean((low <= truth) & (truth <= high)) for low, high in ends]
            length = np.mean([high - low for low, high in ends])
            cells[name] = Cell(np.array(covered), float(length), float(wald_length))
    return cells


# -- the histograms -------------------------------------------------------------------------------
def first(arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    """Return seven synthetic and four real histograms, known when constants were chosen."""
    synthetic = {name: counts for name, (counts, _) in seven(arguments.seed).items()}
    return {**synthetic, **read_all(arguments.data, HELD_BACK)}


def second(arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    """Return histograms unlike the first ones."""
    return {
        **drawn(second_laws, arguments.seed, 1),
        **read_all(arguments.data, SECOND_FILES),
        **adult(arguments.data, ADULT_SECOND),
    }


def untouched(arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    """Return histograms on which nothing was chosen."""
    return {
        **drawn(untouched_laws, arguments.seed, 2),
        "states": load_us_states(n_samples=100_000, random_state=arguments.seed).counts,
        **adult(arguments.data, ADULT_UNTOUCHED),
    }


def drawn(laws: Callable[[np.random.Generator], Laws], *seed: int) -> dict[str, np.ndarray]:
    """Return whole counts in proportion to distributions."""
    found = laws(np.random.default_rng(seed))
    return {name: rounded(law, n_samples) for name, (law, n_samples) in found.items()}


def rank(d: int) -> np.ndarray:
    """Return 1 .. d."""
    return np.arange(1.0, d + 1)


def second_laws(rng: np.random.Generator) -> Laws:
    """Return unnormalised distributions and numbers of users."""
    mixed = np.concatenate([rank(1000) ** -1.2 / 4.3, np.full(1000, 1e-3)])
    return {
        "geometric .95": (0.95 ** rank(600), 300_000),
        "zipf 1.2 and uniform": (mixed, 10**6),
        "two levels, 5 : 1": (np.where(rank(500) <= 50, 5.0, 1.0), 200_000),
        "steps": (0.5 ** (rank(1000) // 200), 500_000),
        "shifted zipf": ((rank(3000) + 30) ** -1.5, 10**6),
        "one of 70 %": (np.where(rank(800) == 1, 0.7, 0.3 / 799), 100_000),
        "half of 400": (rank(400) <= 200, 20_000),
        "Dirichlet .03": (rng.gamma(0.03, size=1500), 10**6),
        "Dirichlet .3": (rng.gamma(0.3, size=700), 200_000),
        "Dirichlet 3": (rng.gamma(3, size=500), 10**6),
        "Dirichlet 30": (rng.gamma(30, size=1000), 10**6),
        "Dirichlet .5, 60": (rng.gamma(0.5, size=60), 30_000),
        "lognormal 1.8": (np.exp(1.8 * rng.normal(size=5000)), 2 * 10**6),
        "ramp": (rank(450), 100_000),
        "5 % of 4,000": (rng.gamma(2, size=4000) * (rng.random(4000) < 0.05), 500_000),
        "zipf .6, 150": (rank(150) ** -0.6, 50_000),
    }


def untouched_laws(rng: np.random.Generator) -> Laws:
    """Return unnormalised distributions and numbers of users."""
    bells = [np.exp(-0.5 * ((rank(700) - at) / 25) ** 2) for at in (150, 300, 600)]
    return {
        "Zipf-Mandelbrot": ((rank(2000) + 10) ** -1.1, 400_000),
        "Weibull .5": (rng.weibull(0.5, size=900), 300_000),
        "Pareto 1.2": (1 + rng.pareto(1.2, size=1200), 10**6),
        "beta .5, 3": (rng.beta(0.5, 3, size=600), 500_000),
        "chi-square 8": (rng.chisquare(8, size=450), 100_000),
        "three levels": (4.0 ** -(rank(900) * 3 // 901), 800_000),
        "three bells": (sum(bells), 300_000),
        "half lognormal": (np.exp(rng.normal(size=1600)) * (rank(1600) <= 800), 10**6),
        "logistic": (1 / (1 + np.exp((rank(500) - 250) / 60)), 150_000),
        "3 of 20 % and equal ones": (np.where(rank(2500) <= 3, 0.2, 0.4 / 2497), 500_000),
        "Poisson 2": (rng.poisson(2, size=1000).astype(float), 200_000),
        "U": (rank(420) ** -0.5 + rank(420)[::-1] ** -0.5, 150_000),
        "Dirichlet 1, 100": (rng.gamma(1, size=100), 40_000),
        "zipf 1, 40": (1 / rank(40), 10_000),
    }


def read_all(folder: Path, files: dict[str, str]) -> dict[str, np.ndarray]:
    """Return the counts of the histograms that are there."""
    counts = {}
    for name, file in files.items():
        if (folder / file).exists():
            counts[name] = read_histogram(folder / file).counts
        else:
            print(f"{name}: skipped, there is no {file} in {folder}")
    return counts


def adult(folder: Path, columns: Iterable[str]) -> dict[str, np.ndarray]:
    """Return the counts of columns of Adult, if the file is there."""
    if not (folder / ADULT).exists():
        print(f"Adult: skipped, there is no {ADULT} in {folder}")
        return {}
    counts: dict[str, list[int]] = {name: [] for name in columns}
    with gzip.open(folder / ADULT, "rt", encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["attribute"] in counts:
                counts[row["attribute"]].append(int(row["count"]))
    return {f"Adult, {name}": np.array(numbers) for name, numbers in counts.items()}


if __name__ == "__main__":
    main()
