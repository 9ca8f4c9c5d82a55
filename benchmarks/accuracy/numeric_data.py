"""Errors of estimates from numerical data: means, distributions, ranges, bins and quantiles.

    python -m benchmarks.accuracy.numeric_data [--sections mean shapes ranges ..]

"mean" compares the exact errors of LocalMean and other mechanisms. "columns" compares them on 15
real columns. "shapes" and "ranges" draw numbers in [0, 1). "shapes" compares distributions by their
Wasserstein distance, and "ranges" compares 400 random ranges by their mean squared error. "bins"
compares single bins with few reports, including numbers on a circle. "spread" measures the coverage
of intervals for queries that cut bins, also for numbers that users round (heaping). "which"
compares the methods for means, standard deviations, ranges and quantiles, also for few users.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import gmean
from sklearn import datasets

from sklearn_ldp import (
    OLH,
    Base,
    Domain,
    EmpiricalBayes,
    ExactMLE,
    HeldOutSearch,
    LocalMean,
    MatrixOracle,
    MonotoneCDF,
    NormSub,
    RangeOracle,
    Smooth,
    SmoothMLE,
)
from sklearn_ldp._core.mechanisms.mean import MeanMechanism, mean_table
from sklearn_ldp.inference import quantiles
from sklearn_ldp.postprocessing import BasePostProcessor
from sklearn_ldp.queries import between, mean, prefixes

from .._command import add_data_argument, command
from .._tables import markdown

N_USERS, EPSILON = 100_000, 1.0
PROBABILITIES = np.array([0.1, 0.25, 0.5, 0.75, 0.9])


def main() -> None:
    """Print the tables of the sections that are asked for."""
    parser = command(__doc__, __spec__, repeats=20, seed=0)
    add_data_argument(parser)
    parser.add_argument("--sections", nargs="+", default=list(SECTIONS), choices=list(SECTIONS))
    arguments = parser.parse_args()
    for name in arguments.sections:
        print(f"\n{name}\n")
        SECTIONS[name](arguments)


# -- means ------------------------------------------------------------------------------------
Variance = Callable[[np.ndarray], np.ndarray]


def duchi(epsilon: float) -> Variance:
    """Return the variance of one bit as a function of the number (Duchi et al., JASA 2018)."""
    bit = 1 / np.tanh(epsilon / 2)
    return lambda x: bit**2 - x**2


def piecewise(epsilon: float) -> Variance:
    """Return the variance of the Piecewise Mechanism (Wang et al., ICDE 2019, lemma 1)."""
    half = np.exp(epsilon / 2) - 1
    return lambda x: x**2 / half + (half + 4) / (3 * half**2)


def hybrid(epsilon: float) -> Variance:
    """Return the variance of a mixture of both (Wang et al., ICDE 2019, equation 8)."""
    share = 1 - np.exp(-epsilon / 2) if epsilon > 0.61 else 0.0
    return lambda x: share * piecewise(epsilon)(x) + (1 - share) * duchi(epsilon)(x)


def local_mean(worst_case: float) -> Callable[[float], Variance]:
    """Return the variance of our channel, exactly."""
    return lambda epsilon: MeanMechanism(mean_table(epsilon, worst_case)).variance


MECHANISMS: dict[str, Callable[[float], Variance]] = {
    "LocalMean(worst_case=1)": local_mean(1.0),
    "LocalMean()": local_mean(1.1),
    "Duchi": duchi,
    "Piecewise": piecewise,
    "Hybrid": hybrid,
}


def mean_section(arguments: argparse.Namespace) -> None:
    """Print the worst and the mean variance of each mechanism."""
    numbers = np.linspace(-1, 1, 1001)
    for what, of in (("worst", np.max), ("mean", np.mean)):
        print(f"\nThe {what} variance of one report over 1,001 numbers\n")
        rows = [
            [f"{e:g}", *(f"{of(make(e)(numbers)):.4g}" for make in MECHANISMS.values())]
            for e in (0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
        ]
        print(markdown(["epsilon", *MECHANISMS], rows))


#: Public bounds of 15 columns, chosen by hand before any error was computed.
BOUNDS = {
    ("Adult", "age"): (0, 100),
    ("Adult", "education_num"): (1, 16),
    ("Adult", "hours_per_week"): (0, 100),
    ("Adult", "capital_loss"): (0, 5000),
    ("digits", "ink"): (0, 1024),
    ("diabetes", "age"): (0, 100),
    ("diabetes", "bmi"): (10, 50),
    ("diabetes", "bp"): (40, 160),
    ("diabetes", "s1"): (80, 320),
    ("diabetes", "target"): (0, 400),
    ("wine", "alcohol"): (10, 16),
    ("wine", "proline"): (0, 2000),
    ("iris", "petal length (cm)"): (0, 8),
    ("breast_cancer", "mean radius"): (0, 40),
    ("breast_cancer", "mean concavity"): (0, 0.5),
}


def columns(data: str) -> dict[str, np.ndarray]:
    """Return columns of public data sets, scaled from public bounds to [-1, 1]."""
    frames = {
        "digits": pd.DataFrame({"ink": datasets.load_digits().data.sum(axis=1)}),
        "diabetes": datasets.load_diabetes(as_frame=True, scaled=False).frame,
        "wine": datasets.load_wine(as_frame=True).data,
        "iris": datasets.load_iris(as_frame=True).data,
        "breast_cancer": datasets.load_breast_cancer(as_frame=True).data,
    }
    path = Path(data) / "ADULT_TRAIN.csv.gz"
    if path.exists():
        frames = {"Adult": pd.read_csv(path), **frames}
    return {
        f"{name}, {column}": 2 * (frames[name][column].to_numpy(float) - low) / (high - low) - 1
        for (name, column), (low, high) in BOUNDS.items()
        if name in frames
    }


def columns_section(arguments: argparse.Namespace) -> None:
    """Print exact mean variances of reports of real columns, over that of the least worst case."""
    epsilons, numbers = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0), columns(arguments.data)
    rows = []
    for epsilon, (mechanism, make) in itertools.product(epsilons, MECHANISMS.items()):
        least = local_mean(1.0)(epsilon)
        found = [make(epsilon)(x).mean() / least(x).mean() for x in numbers.values()]
        rows.append((epsilon, mechanism, gmean(found), min(found), max(found)))
    header = ["epsilon", "mechanism", "geometric mean", "least", "most"]
    print(pd.DataFrame(rows, columns=header).round(3).to_string(index=False))


# -- distributions ----------------------------------------------------------------------------
def shapes(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return users' numbers in [0, 1) of three shapes."""
    n = N_USERS
    peaks = np.where(rng.random(n) < 0.5, rng.normal(0.3, 0.03, n), rng.normal(0.7, 0.05, n))
    spikes = np.where(rng.random(n) < 0.5, rng.choice([0.1, 0.35, 0.6, 0.85], n), rng.random(n))
    found = {"Beta(5, 2)": rng.beta(5, 2, n), "two peaks": peaks, "four spikes": spikes}
    return {name: np.clip(numbers, 0, 1 - 1e-9) for name, numbers in found.items()}


def populations(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return users' numbers in [0, 1) for ranges: smooth, heaped, periodic, and spikes."""
    n = N_USERS
    incomes = 0.25 * rng.lognormal(0, 0.5, n)
    incomes = np.where(rng.random(n) < 0.5, np.round(incomes * 40) / 40, incomes)
    day = np.arange(1024)
    searches = (1 + 0.5 * np.sin(2 * np.pi * day / 365.25)) * np.where(day % 7 < 5, 1.0, 0.5)
    searches += 8 * np.exp(-np.maximum(day - 700, 0) / 5) * (day >= 700)
    days = (rng.choice(1024, n, p=searches / searches.sum()) + rng.random(n)) / 1024
    of_shapes = shapes(rng)
    found = {
        "Beta(5, 2)": of_shapes["Beta(5, 2)"],
        "heaped incomes": incomes,
        "1,024 days": days,
        "four spikes": of_shapes["four spikes"],
    }
    return {name: np.clip(numbers, 0, 1 - 1e-9) for name, numbers in found.items()}


class SmoothedEM(BasePostProcessor):
    """Expectation maximisation, with a kernel of three bins in each step or with none.

    Z. Li, T. Wang, M. Lopuhaae-Zwakenberg, N. Li, B. Skoric, SIGMOD 2020: it stops when a step adds
    less than ``0.001 exp(epsilon)`` to the log-likelihood.
    """

    def __init__(self, smooths: bool = True, epsilon: float = 1.0) -> None:
        self.smooths = smooths
        self.epsilon = epsilon

    def _process(self, estimate: Any) -> Any:
        tally, law = estimate.shards.tallies.sum(axis=0), estimate.shards.law
        f, before = np.full(estimate.shape[1], 1 / estimate.shape[1]), -np.inf
        while True:
            chances = law.probabilities(f)
            value = float(tally @ np.log(chances))
            if value - before < 1e-3 * np.exp(self.epsilon):
                return estimate.with_values(f[None], by="SmoothedEM")
            before, f = value, f * law.likelihoods(tally / chances)
            if self.smooths:
                f = np.convolve(np.pad(f, 1, mode="edge"), [0.25, 0.5, 0.25], mode="valid")
            f = f / f.sum()


def collections(epsilon: float, d: int) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return oracles over d bins, and what post-processes the reports of each, by name."""
    bins = Domain.bins(d, bounds=(0, 1))
    ordered = {
        "EmpiricalBayes(ordered)": EmpiricalBayes(ordered=True),
        "Smooth": Smooth(),
        "MonotoneCDF": MonotoneCDF(),
    }
    by_likelihood = {
        "SmoothMLE": SmoothMLE(),
        "EM": SmoothedEM(smooths=False, epsilon=epsilon),
        "EMS": SmoothedEM(epsilon=epsilon),
        "MonotoneCDF": MonotoneCDF(),
    }
    if d <= 64:  # a search takes ten times as long
        candidates = [SmoothMLE(), ExactMLE(tol=1e-5), MonotoneCDF()]
        by_likelihood["HeldOutSearch"] = HeldOutSearch(candidates, queries=prefixes())
    wave = MatrixOracle(epsilon, categories=bins, strategy="square-wave")
    return {
        "square wave": (wave, by_likelihood),
        "RangeOracle": (
            RangeOracle(epsilon, categories=bins),
            {"none": Base(), **ordered, **by_likelihood},
        ),
        "OLH": (OLH(epsilon, categories=bins), {**ordered, "NormSub": NormSub()}),
    }


def wasserstein(numbers: np.ndarray, estimates: Any) -> np.ndarray:
    """Return the distances of distribution functions at the ends of 256 bins, for each estimate."""
    grid = np.arange(1, 257) / 256
    truth = np.searchsorted(np.sort(numbers), grid, side="left") / len(numbers)
    found = np.pad(np.asarray(estimates.answer(prefixes())), ((0, 0), (1, 0)))
    reached = [np.interp(grid, estimates.domain.ends, row) for row in found]
    return np.mean(np.abs(reached - truth), axis=1)


def range_error(numbers: np.ndarray, estimate: Any) -> float:
    """Return the mean squared error of 400 random ranges of [0, 1)."""
    ends = np.sort(np.random.default_rng(0).random((400, 2)), axis=1)
    ordered = np.sort(numbers)
    truth = (np.searchsorted(ordered, ends[:, 1]) - np.searchsorted(ordered, ends[:, 0])) / len(
        numbers
    )
    return float(np.mean((estimate.answer(between(ends))[0] - truth) ** 2))


def bin_error(numbers: np.ndarray, estimate: Any) -> float:
    """Return the mean squared error of the shares of the estimate's own bins."""
    counts = np.bincount(estimate.domain.encode(numbers), minlength=estimate.shape[1])
    return float(np.mean((estimate.values[0] - counts / len(numbers)) ** 2))


def circular(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return times of the day, as shares of it, of two shapes, and a shape that is no circle."""
    at_midnight = rng.vonmises(0, 2, N_USERS)
    humps = np.where(
        rng.random(N_USERS) < 0.6, rng.vonmises(0.3, 3, N_USERS), rng.vonmises(2.8, 5, N_USERS)
    )
    return {
        "at midnight": (at_midnight / (2 * np.pi)) % 1,
        "two humps": (humps / (2 * np.pi)) % 1,
        "Beta(5, 2)": shapes(rng)["Beta(5, 2)"],
    }


def _compared(
    arguments: argparse.Namespace,
    users: Callable[[np.random.Generator], dict[str, np.ndarray]],
    measure: Callable[[np.ndarray, Any], Any],
    scale: float,
    epsilon: float,
    d: int,
    only: tuple[str, ...] = (),
) -> None:
    """Print the errors of each oracle and post-processor on the users' numbers."""
    oracles, found = collections(epsilon, d), []
    for repeat in range(arguments.repeats):
        rng = np.random.default_rng([arguments.seed, repeat])
        for shape, numbers in users(rng).items():
            for name in only or oracles:
                oracle, posts = oracles[name]
                raw = oracle.set_params(random_state=rng).fit_transform(numbers)
                for label, post in posts.items():
                    error = scale * float(np.mean(measure(numbers, post.fit_transform(raw))))
                    found.append((f"{name}, {label}", shape, error))
    table = pd.DataFrame(found, columns=["oracle, post-processor", "users", "error"])
    of_cell = table.groupby(["oracle, post-processor", "users"], sort=False)["error"]
    shown = of_cell.agg(lambda e: f"{e.mean():.2f} ({e.std(ddof=0) / len(e) ** 0.5:.2f})")
    print(f"\nn {N_USERS:,}, {d} bins, epsilon {epsilon:g}, {arguments.repeats} runs\n")
    print(shown.unstack(sort=False).to_string())


def shapes_section(arguments: argparse.Namespace) -> None:
    """Print mean Wasserstein distances, times 10,000, and their standard errors."""
    for epsilon in (1.0, 0.5):
        _compared(arguments, shapes, wasserstein, 1e4, epsilon, 256)


def ranges_section(arguments: argparse.Namespace) -> None:
    """Print mean squared errors of ranges, times 100,000, and their standard errors."""
    _compared(arguments, populations, range_error, 1e5, EPSILON, 64)


def bins_section(arguments: argparse.Namespace) -> None:
    """Print mean squared errors of single bins, times 1,000,000, and their standard errors."""
    for epsilon in (1.0, 0.5):
        _compared(arguments, circular, bin_error, 1e6, epsilon, 288, ("OLH",))


# -- how users are spread within bins ---------------------------------------------------------
def resampled(data: str, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return numbers in [0, 1) of n users: smooth ones, heaped ones, and real ones."""
    numbers = {
        "Beta(5, 2)": rng.beta(5, 2, n),
        "fives": np.round(20 * rng.normal(0.4, 0.12, n)) / 20,
        "half on fortieths": 0.25 * rng.lognormal(0, 0.5, n),
        **{name: (rng.choice(x, n) + 1) / 2 for name, x in columns(data).items()},
    }
    incomes = numbers["half on fortieths"]
    rounded = np.round(40 * incomes) / 40
    numbers["half on fortieths"] = np.where(rng.random(n) < 0.5, rounded, incomes)
    return {name: np.clip(x, 0, 1 - 1e-9) for name, x in numbers.items()}


def spread_section(arguments: argparse.Namespace) -> None:
    """Print what 95 % intervals cover of quantiles, of ranges that cut bins, and of means."""
    found, bins = [], Domain.bins(64, bounds=(0, 1))
    pairs = np.sort(np.random.default_rng(1).random((20, 2)), axis=1)
    for n, oracle in ((1000, RangeOracle), (30_000, RangeOracle), (30_000, OLH), (10**6, OLH)):
        population = resampled(arguments.data, n, np.random.default_rng(arguments.seed))
        names = ("Beta(5, 2)", "fives", "half on fortieths", "Adult, age", "diabetes, s1")
        for name in (one for one in names if one in population):
            x = population[name]
            counts = np.bincount(bins.encode(x), minlength=64)
            raw = oracle(EPSILON, categories=bins, random_state=arguments.seed)
            raw = raw.simulate(counts, 10 * arguments.repeats)
            ordered, row = np.sort(x), {"users": n, "oracle": oracle.__name__, "numbers": name}
            true_quantiles = ordered[np.ceil(PROBABILITIES * n).astype(int) - 1]
            true_shares = np.diff(np.searchsorted(ordered, pairs) / n, axis=1)[:, 0]
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for how in ("even", "any"):
                    ends = {
                        "quantiles": quantiles(raw, PROBABILITIES, spread=how)[1:],
                        "ranges": raw.confidence_interval(queries=between(pairs, spread=how)),
                        "mean": raw.confidence_interval(queries=mean(spread=how)),
                    }
                    truths = (true_quantiles, true_shares, x.mean())
                    for (what, (low, high)), true in zip(ends.items(), truths, strict=True):
                        held, width = np.mean((low <= true) & (true <= high)), np.mean(high - low)
                        row[f"{what}, {how}"] = f"{held:.3f} / {width:.3f}"
            found.append({**row, "warned": "yes" if caught else "no"})
    print(pd.DataFrame(found).to_string(index=False))


# -- which to take ----------------------------------------------------------------------------
def which_section(arguments: argparse.Namespace) -> None:
    """Print errors of the mean, deviation, ranges and quantiles, over those of RangeOracle."""
    bins, centres = Domain.bins(64, bounds=(0, 1)), (np.arange(64) + 0.5) / 64
    names = ("Beta(5, 2)", "half on fortieths", "Adult, age", "Adult, hours_per_week")
    names += ("digits, ink", "diabetes, target", "diabetes, s1", "wine, proline")
    makers = {
        "RangeOracle": RangeOracle(EPSILON, categories=bins),
        "square wave": MatrixOracle(EPSILON, categories=bins, strategy="square-wave"),
        "OLH": OLH(EPSILON, categories=bins),
    }
    cells = []
    for n, repeat in itertools.product((500, 1000, 3000, 30_000), range(arguments.repeats)):
        rng = np.random.default_rng([arguments.seed, repeat])
        population = resampled(arguments.data, n, rng)
        for name in (one for one in names if one in population):
            x, found = population[name], {}
            for label, oracle in makers.items():
                found[label] = oracle.set_params(random_state=rng).fit_transform(x)
            for label in ("RangeOracle", "square wave"):
                found[f"{label}, SmoothMLE"] = SmoothMLE().fit_transform(found[label])
            ordered = EmpiricalBayes(ordered=True)
            found["OLH, EmpiricalBayes(ordered=True)"] = ordered.fit_transform(found["OLH"])
            alone = LocalMean(EPSILON, bounds=(0, 1), random_state=rng).fit(x)
            cells.append((n, name, "LocalMean", "mean", (alone.mean_ - x.mean()) ** 2))
            for label, estimate in found.items():
                f = estimate.values[0]
                deviation = np.sqrt(max(f @ centres**2 - (f @ centres) ** 2, 0))
                values = np.asarray(quantiles(estimate, PROBABILITIES).value[0])
                errors = {
                    "mean": (f @ centres - x.mean()) ** 2,
                    "deviation": (deviation - x.std()) ** 2,
                    "ranges": range_error(x, estimate),
                    "quantiles": np.mean((values - np.quantile(x, PROBABILITIES)) ** 2),
                }
                cells += [(n, name, label, what, error) for what, error in errors.items()]
    table = pd.DataFrame(cells, columns=["users", "numbers", "way", "what", "error"])
    squares = table.groupby(["users", "what", "numbers", "way"], sort=False).error.mean().unstack()
    ratios = np.sqrt(squares.div(squares["RangeOracle"], axis=0)).groupby(["users", "what"])
    for how, of_how in (("geometric mean", gmean), ("greatest", np.max)):
        print(f"\n{how}\n")
        print(ratios.agg(lambda x, of=of_how: of(x.to_numpy())).stack().unstack("what").round(2))


SECTIONS: dict[str, Callable[[argparse.Namespace], None]] = {
    "mean": mean_section,
    "columns": columns_section,
    "shapes": shapes_section,
    "ranges": ranges_section,
    "bins": bins_section,
    "spread": spread_section,
    "which": which_section,
}

if __name__ == "__main__":
    main()
