"""Errors of numbers: means, quantiles and distributions, and the time of a million users.

    python -m benchmarks.accuracy.numeric_data [--sections mean quantiles shapes monotone ranges ..]

"mean" compares LocalMean with the optimum and with other mechanisms, exactly, and "columns" on 15
real columns; "mean_intervals" are of few users. "quantiles" collects real ages (ADULT_TRAIN of
--data) in 64 bins. "shapes" and "ranges" draw numbers in [0, 1) and compare distributions by their
Wasserstein distance, and 400 random ranges by their mean squared error; "bins" compares single bins
where data are weak, with numbers on a circle among them. "monotone" measures
RangeOracle and MonotoneCDF in a hundred times as many collections, from the same users. "coverage"
is that of 95 % intervals of 200 random ranges of bins; "spread" that of intervals where bins are
cut and numbers may be heaped. "which" compares what to take for means, deviations, ranges and
quantiles, also of few users. "repeated" compares what remembered reports cost with dBitFlipPM.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
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
    HadamardResponse,
    HeldOutSearch,
    LocalMean,
    MatrixOracle,
    MonotoneCDF,
    NormSub,
    RangeOracle,
    Smooth,
    SmoothMLE,
    SubsetSelection,
)
from sklearn_ldp._core.mechanisms.coins import TWO_64, exp_lower_bound
from sklearn_ldp._core.mechanisms.mean import MeanMechanism, mean_table
from sklearn_ldp.inference import quantiles
from sklearn_ldp.postprocessing import BasePostProcessor
from sklearn_ldp.queries import between, mean, prefixes

from .._command import add_data_argument, command
from .._tables import markdown

OPTIMA = {0.5: 16.00, 0.7: 8.170, 1.0: 3.991, 1.5: 1.692, 2.0: 0.865, 3.0: 0.304, 4.0: 0.127}
ORACLES = (RangeOracle, HadamardResponse, SubsetSelection, OLH)
N_USERS, EPSILON = 100_000, 1.0


def main() -> None:
    """Print the tables of the sections that are asked for."""
    parser = command(__doc__, __spec__)
    add_data_argument(parser)
    parser.add_argument("--sections", nargs="+", default=list(SECTIONS), choices=list(SECTIONS))
    parser.add_argument("--repeats", type=int, default=20, help="collections per cell")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
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
    """Print worst variances over 1,001 numbers, and what is proved in rational numbers."""
    rows, numbers = [], np.linspace(-1, 1, 1001)
    for epsilon, optimum in OPTIMA.items():
        for worst_case in (1.0, 1.1):
            table = mean_table(epsilon, worst_case)
            variances = MeanMechanism(table).variance(numbers)
            ratio = max(Fraction(max(c), min(c)) for c in zip(*table.rows, strict=True))
            unbiased = sum(
                _exact_mean(table, Fraction(i, 50) - 1) == Fraction(i, 50) - 1 for i in range(101)
            )
            rows.append(
                [
                    f"{epsilon:g}",
                    f"{worst_case:g}",
                    f"{variances.max():.4g}",
                    f"{variances.max() / optimum:.4f}",
                    f"{variances.mean():.4g}",
                    f"{unbiased} of 101",
                    "yes" if ratio <= exp_lower_bound(epsilon) else "NO",
                    str(len(table.values)),
                ]
            )
    header = (
        "epsilon",
        "worst_case",
        "worst",
        "over optimum",
        "mean",
        "unbiased",
        "private",
        "outputs",
    )
    print(markdown(list(header), rows))
    for what, of in (("worst", np.max), ("mean", np.mean)):
        print(f"\nThe {what} variance of one report over 1,001 numbers\n")
        rows = [
            [f"{e:g}", *(f"{of(make(e)(numbers)):.4g}" for make in MECHANISMS.values())]
            for e in (0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
        ]
        print(markdown(["epsilon", *MECHANISMS], rows))


def _exact_mean(table: Any, number: Fraction) -> Fraction:
    n_steps = len(table.rows) - 1
    place = (number + 1) * n_steps / 2
    low = min(int(place), n_steps - 1)
    one, other = (
        sum(v * n for v, n in zip(table.values, table.rows[i], strict=True)) for i in (low, low + 1)
    )
    return (one + (place - low) * (other - one)) / TWO_64


#: Public bounds of 15 columns, chosen by hand before any error was computed.
BOUNDS = {
    "Adult": {
        "age": (0, 100),
        "education_num": (1, 16),
        "hours_per_week": (0, 100),
        "capital_loss": (0, 5000),
    },
    "digits": {"ink": (0, 1024)},
    "diabetes": {
        "age": (0, 100),
        "bmi": (10, 50),
        "bp": (40, 160),
        "s1": (80, 320),
        "target": (0, 400),
    },
    "wine": {"alcohol": (10, 16), "proline": (0, 2000)},
    "iris": {"petal length (cm)": (0, 8)},
    "breast_cancer": {"mean radius": (0, 40), "mean concavity": (0, 0.5)},
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
        f"{name}, {column}": 2 * (frame[column].to_numpy(float) - low) / (high - low) - 1
        for name, frame in frames.items()
        for column, (low, high) in BOUNDS[name].items()
    }


def columns_section(arguments: argparse.Namespace) -> None:
    """Print exact mean variances of reports of real columns, over that of the least worst case."""
    epsilons, numbers = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0), columns(arguments.data)
    ratios = {
        (epsilon, mechanism): [
            make(epsilon)(x).mean() / local_mean(1.0)(epsilon)(x).mean() for x in numbers.values()
        ]
        for epsilon in epsilons
        for mechanism, make in MECHANISMS.items()
    }
    rows = [
        [f"{epsilon:g}", mechanism, f"{gmean(found):.3f}", f"{min(found):.3f}", f"{max(found):.3f}"]
        for (epsilon, mechanism), found in ratios.items()
    ]
    print(markdown(["epsilon", "mechanism", "geometric mean", "least", "most"], rows))
    rows = [
        [
            name,
            *(f"{ratios[e, m][i]:.3f}" for e in (2.0, 4.0) for m in ("LocalMean()", "Piecewise")),
        ]
        for i, name in enumerate(numbers)
    ]
    print("\nEpsilon 2 and 4, each column\n")
    print(markdown(["column", *["LocalMean()", "Piecewise"] * 2], rows))


def mean_intervals_section(arguments: argparse.Namespace) -> None:
    """Print what 95 % intervals of means of few users cover, and with the worst variance."""
    rng, rows, repeats = np.random.default_rng(arguments.seed), [], 1000 * arguments.repeats
    for epsilon in (0.7, 1.0, 2.0, 4.0, 6.0):
        mechanism = MeanMechanism(mean_table(epsilon, 1.1))
        inputs = np.linspace(-1, 1, mechanism.n_categories)
        laws = mechanism.probabilities / mechanism.probabilities.sum(axis=0)
        populations = {
            "all in the middle": inputs == 0,
            "all at a bound": inputs == 1,
            "near -0.8": np.exp(-(((inputs + 0.8) / 0.05) ** 2) / 2),
            "even": np.ones(len(inputs)),
            "half in the middle, half at a bound": (inputs == 0) | (inputs == 1),
        }
        for name, weights in populations.items():
            shown = []
            for n in (1, 2, 5, 10, 30, 100, 1000):
                users = rng.multinomial(n, weights / weights.sum(), size=repeats)
                tallies = sum(
                    rng.multinomial(users[:, i], laws[:, i]) for i in np.flatnonzero(weights > 1e-6)
                )
                errors = np.abs((tallies @ mechanism.values - users @ inputs) / n)
                known = mechanism.mean_variance(tallies, np.full(repeats, n))
                both = [
                    np.mean(errors <= 1.96 * np.sqrt(variance / n))
                    for variance in (known, mechanism.worst_variance)
                ]
                shown.append("{:.3f} / {:.3f}".format(*both))
            rows.append([f"{epsilon:g}", name, *shown])
    users = [f"{n} users" for n in (1, 2, 5, 10, 30, 100, 1000)]
    print(markdown(["epsilon", "numbers", *users], rows))


# -- quantiles --------------------------------------------------------------------------------
def quantiles_section(arguments: argparse.Namespace) -> None:
    """Print errors of the median of real ages, and what its intervals cover."""
    path = Path(arguments.data) / "ADULT_TRAIN.csv.gz"
    if not path.exists():
        print(f"(needs {path})")
        return
    with gzip.open(path, "rt", encoding="utf-8") as file:
        ages = np.array([int(row["age"]) for row in csv.DictReader(file)][:30_000])
    bins, repeats = Domain.bins(64, bounds=(0, 100)), 10 * arguments.repeats
    counts = np.bincount(bins.encode(ages), minlength=64)
    truth = float(np.median(ages))
    rows = []
    for oracle in ORACLES:
        estimate = oracle(EPSILON, categories=bins, random_state=arguments.seed).simulate(
            counts, repeats
        )
        for how in ({}, {"spread": "any"}, {"simultaneous": True}):
            value, low, high = quantiles(estimate, [0.5], **how)
            covered = np.mean((low <= truth) & (truth <= high))
            rows.append(
                [
                    f"{oracle.__name__}{''.join(f', {k}={v!r}' for k, v in how.items())}",
                    f"{np.mean(np.abs(value - truth)):.2f}",
                    f"{100 * covered:.1f} %",
                    f"{np.mean(high - low):.2f}",
                ]
            )
    print(f"Median {truth:g} of 30,000 ages, epsilon {EPSILON:g}, {repeats} collections\n")
    print(markdown(["oracle, intervals", "error (years)", "covered", "width (years)"], rows))


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
        "RangeOracle, 1,024 bins (a tree)": (
            RangeOracle(epsilon, categories=Domain.bins(1024, bounds=(0, 1))),
            {"none": Base(), "MonotoneCDF": MonotoneCDF()},
        ),
        "OLH": (OLH(epsilon, categories=bins), {**ordered, "NormSub": NormSub()}),
        "HadamardResponse": (HadamardResponse(epsilon, categories=bins), ordered),
        "HadamardResponse, 16 bins": (
            HadamardResponse(epsilon, categories=Domain.bins(16, bounds=(0, 1))),
            ordered,
        ),
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
    oracles = collections(epsilon, d)
    oracles = {name: oracles[name] for name in only or oracles}
    errors: dict[tuple[str, str], dict[str, list[float]]] = {}
    for repeat in range(arguments.repeats):
        rng = np.random.default_rng([arguments.seed, repeat])
        for shape, numbers in users(rng).items():
            for name, (oracle, posts) in oracles.items():
                raw = oracle.set_params(random_state=rng).fit_transform(numbers)
                for label, post in posts.items():
                    of_post = errors.setdefault((name, label), {})
                    error = scale * float(np.mean(measure(numbers, post.fit_transform(raw))))
                    of_post.setdefault(shape, []).append(error)
    rows = [
        [f"{name}, {label}"]
        + [f"{np.mean(e):.2f} ({np.std(e) / np.sqrt(len(e)):.2f})" for e in of_post.values()]
        for (name, label), of_post in errors.items()
    ]
    shown = next(iter(errors.values()))
    print(f"\nn {N_USERS:,}, {d} bins, epsilon {epsilon:g}, {arguments.repeats} runs\n")
    print(markdown(["oracle, post-processor", *shown], rows))


def shapes_section(arguments: argparse.Namespace) -> None:
    """Print mean Wasserstein distances, times 10,000, and their standard errors."""
    for epsilon in (1.0, 0.5):
        _compared(arguments, shapes, wasserstein, 1e4, epsilon, 256)


def monotone_section(arguments: argparse.Namespace) -> None:
    """Print mean Wasserstein distances, times 10,000, from 64, 128 and 256 bins."""
    rows = []
    for d in (64, 128, 256):
        bins = Domain.bins(d, bounds=(0, 1))
        oracle = RangeOracle(EPSILON, categories=bins, random_state=arguments.seed)
        for shape, numbers in shapes(np.random.default_rng(arguments.seed)).items():
            counts = np.bincount(bins.encode(numbers), minlength=d)
            raw = oracle.simulate(counts, 100 * arguments.repeats)
            both = (raw, MonotoneCDF().fit_transform(raw))
            errors = [1e4 * wasserstein(numbers, one) for one in both]
            shown = [f"{np.mean(e):.1f} ({np.std(e) / np.sqrt(len(e)):.1f})" for e in errors]
            of_ten = np.quantile(errors[1].reshape(-1, 10).mean(axis=1), [0.05, 0.95])
            rows.append([f"{d}", shape, *shown, "{:.0f} to {:.0f}".format(*of_ten)])
    print(markdown(["bins", "users", "RangeOracle", "MonotoneCDF", "90 % of means of ten"], rows))


def ranges_section(arguments: argparse.Namespace) -> None:
    """Print mean squared errors of ranges, times 100,000, and their standard errors."""
    _compared(arguments, populations, range_error, 1e5, EPSILON, 64)


def bins_section(arguments: argparse.Namespace) -> None:
    """Print mean squared errors of single bins, times 1,000,000, and their standard errors."""
    for epsilon in (1.0, 0.5):
        _compared(arguments, circular, bin_error, 1e6, epsilon, 288, ("OLH", "HadamardResponse"))


# -- coverage ---------------------------------------------------------------------------------
def coverage_section(arguments: argparse.Namespace) -> None:
    """Print how many intervals of random ranges cover what is true among the users."""
    rows = []
    for epsilon, d in ((1.0, 64), (0.5, 64), (4.0, 64), (1.0, 256), (1.0, 1024)):
        bins, covered, widths = Domain.bins(d, bounds=(0, 1)), [], []
        for repeat in range(arguments.repeats):
            rng = np.random.default_rng([arguments.seed, repeat])
            counts = np.bincount(bins.encode(shapes(rng)["Beta(5, 2)"]), minlength=d)
            ends = np.sort(rng.integers(0, d + 1, (200, 2)), axis=1)
            ends = ends[ends[:, 0] < ends[:, 1]]
            asked = (ends[:, :1] <= np.arange(d)) & (np.arange(d) < ends[:, 1:])
            estimate = RangeOracle(epsilon, categories=bins, random_state=rng).simulate(counts)
            low, high = estimate.confidence_interval(0.95, queries=asked.astype(float))
            truth = asked @ counts / N_USERS
            covered.append(np.mean((low <= truth) & (truth <= high)))
            widths.append(np.mean(high - low))
        share = f"{100 * np.mean(covered):.1f} %"
        rows.append([f"{epsilon:g}", str(d), share, f"{np.mean(widths):.4f}"])
    print(markdown(["epsilon", "bins", "covered", "width"], rows))


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
    rows, bins = [], Domain.bins(64, bounds=(0, 1))
    probabilities = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    pairs = np.sort(np.random.default_rng(1).random((20, 2)), axis=1)
    for n, oracle in ((1000, RangeOracle), (30_000, RangeOracle), (30_000, OLH), (10**6, OLH)):
        population = resampled(arguments.data, n, np.random.default_rng(arguments.seed))
        for name in ("Beta(5, 2)", "fives", "half on fortieths", "Adult, age", "diabetes, s1"):
            if (x := population.get(name)) is None:
                continue
            counts = np.bincount(bins.encode(x), minlength=64)
            raw = oracle(EPSILON, categories=bins, random_state=arguments.seed).simulate(
                counts, 10 * arguments.repeats
            )
            ordered, row = np.sort(x), [f"{n:,}", oracle.__name__, name]
            true_quantiles = ordered[np.ceil(probabilities * n).astype(int) - 1]
            true_shares = np.diff(np.searchsorted(ordered, pairs) / n, axis=1)[:, 0]
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for how in ("even", "any"):
                    _, *ends = quantiles(raw, probabilities, spread=how)
                    of_ranges = raw.confidence_interval(queries=between(pairs, spread=how))
                    of_mean = raw.confidence_interval(queries=mean(spread=how))
                    for true, (low, high) in (
                        (true_quantiles, ends),
                        (true_shares, of_ranges),
                        (x.mean(), of_mean),
                    ):
                        row.append(
                            f"{np.mean((low <= true) & (true <= high)):.3f} / "
                            f"{np.mean(high - low):.3f}"
                        )
            rows.append([*row, "yes" if caught else "no"])
            print(rows[-1], flush=True)
    shown = [
        f"{what}, {how}" for how in ("even", "any") for what in ("quantiles", "ranges", "mean")
    ]
    print(markdown(["users", "oracle", "numbers", *shown, "warned"], rows))


# -- which to take ----------------------------------------------------------------------------
def which_section(arguments: argparse.Namespace) -> None:
    """Print errors of the mean, deviation, ranges and quantiles, over those of RangeOracle."""
    bins, rows = Domain.bins(64, bounds=(0, 1)), []
    centres, probabilities = (np.arange(64) + 0.5) / 64, np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    names = ("Beta(5, 2)", "half on fortieths", "Adult, age", "Adult, hours_per_week")
    names += ("digits, ink", "diabetes, target", "diabetes, s1", "wine, proline")
    for n in (500, 1000, 3000, 30_000):
        errors: dict[tuple[str, str], dict[str, list[float]]] = {}
        for repeat in range(arguments.repeats):
            rng = np.random.default_rng([arguments.seed, repeat])
            population = resampled(arguments.data, n, rng)
            for name in (one for one in names if one in population):
                x = population[name]
                wave = MatrixOracle(EPSILON, categories=bins, strategy="square-wave")
                makers: dict[str, Any] = {"RangeOracle": RangeOracle(EPSILON, categories=bins)}
                makers |= {"square wave": wave, "OLH": OLH(EPSILON, categories=bins)}
                found = {
                    label: oracle.set_params(random_state=rng).fit_transform(x)
                    for label, oracle in makers.items()
                }
                found["RangeOracle, SmoothMLE"] = SmoothMLE().fit_transform(found["RangeOracle"])
                found["square wave, SmoothMLE"] = SmoothMLE().fit_transform(found["square wave"])
                ordered = EmpiricalBayes(ordered=True)
                found["OLH, EmpiricalBayes(ordered=True)"] = ordered.fit_transform(found["OLH"])
                alone = LocalMean(EPSILON, bounds=(0, 1), random_state=rng).fit(x)
                errors.setdefault(("LocalMean", "mean"), {}).setdefault(name, []).append(
                    (alone.mean_ - x.mean()) ** 2
                )
                true = np.quantile(x, probabilities)
                for label, estimate in found.items():
                    f = estimate.values[0]
                    mean_of = f @ centres
                    deviation = np.sqrt(max(f @ centres**2 - mean_of**2, 0))
                    values = np.asarray(quantiles(estimate, probabilities).value[0])
                    for what, error in (
                        ("mean", (mean_of - x.mean()) ** 2),
                        ("deviation", (deviation - x.std()) ** 2),
                        ("ranges", range_error(x, estimate)),
                        ("quantiles", np.mean((values - true) ** 2)),
                    ):
                        of_label = errors.setdefault((label, what), {})
                        of_label.setdefault(name, []).append(float(error))
        labels = dict.fromkeys(label for label, _ in errors)
        for label in labels:
            row = [f"{n:,}", label]
            for what in ("mean", "deviation", "ranges", "quantiles"):
                if (label, what) not in errors:
                    row.append("-")
                    continue
                ratios = [
                    np.sqrt(np.mean(of) / np.mean(errors["RangeOracle", what][name]))
                    for name, of in errors[label, what].items()
                ]
                row.append(f"{gmean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
            rows.append(row)
            print(row, flush=True)
    header = ["users", "oracle, post-processor", "mean", "deviation", "ranges", "quantiles"]
    print(markdown(header, rows))


# -- users who are asked again ----------------------------------------------------------------
def bit_flip_variance(n_bins: int, n_bits: int, epsilon: float) -> float:
    """Return n times the mean variance of a bin by dBitFlipPM, with users spread evenly.

    A user is asked of `n_bits` bins that are drawn once, and each answer is true with the
    probability ``e / (e + 1)``, ``e = exp(epsilon / 2)`` (B. Ding, J. Kulkarni, S. Yekhanin,
    "Collecting telemetry data privately", NeurIPS 2017). What changes costs another epsilon, up to
    ``min(n_bits + 1, n_bins)`` of them (Arcolezi et al., EDBT 2023).
    """
    e = np.exp(epsilon / 2)
    weights = n_bins / n_bits * np.array([e, -1.0]) / (e - 1)  # of an answer yes, and no
    yes = np.array([e, 1.0]) / (e + 1)  # for users in the bin, and for others
    squares = n_bits / n_bins * (yes * weights[0] ** 2 + (1 - yes) * weights[1] ** 2)
    return float(squares @ [1 / n_bins, 1 - 1 / n_bins] - 1 / n_bins)


def _simulated_bit_flips(n_bins: int, n_bits: int, epsilon: float, rng: Any) -> float:
    n, squares, e = 10_000, [], np.exp(epsilon / 2)
    codes = np.arange(n) % n_bins
    for _ in range(10):
        asked = np.argsort(rng.random((n, n_bins)), axis=1)[:, :n_bits]
        said = rng.random(asked.shape) < np.where(asked == codes[:, None], e, 1) / (e + 1)
        sums = np.bincount(asked.ravel(), np.where(said, e, -1.0).ravel() / (e - 1), n_bins)
        squares.append(np.mean((n_bins / n_bits * sums / n - 1 / n_bins) ** 2))
    return n * float(np.mean(squares))


def repeated_section(arguments: argparse.Namespace) -> None:
    """Print n times the mean variance of a bin in a round, for what all rounds may spend."""
    rows, rng, d = [], np.random.default_rng(arguments.seed), 64

    def ours(oracle: Any) -> str:
        return f"{oracle.channel(d).noise(1).variance(np.full(d, 1 / d)).mean():.3g}"

    for total in (2.0, 4.0, 8.0):
        for n_bits in (1, 4, 16, 64):
            n_paid = min(n_bits + 1, d)
            shown = [
                f"{bit_flip_variance(d, n_bits, each):.3g} "
                f"({_simulated_bit_flips(d, n_bits, each, rng):.3g})"
                for each in (total, total / n_paid)
            ]
            rows.append([f"{total:g}", f"dBitFlipPM, {n_bits} of {d} bits", *shown])
        for name, oracle, n_paid in (
            ("SubsetSelection", SubsetSelection(total), None),
            ("OLH", OLH(total), None),
            ("OLH, one function, 2 values", OLH(total / 2, hash_range=2), 2),
            ("OLH, one function, 4 values", OLH(total / 4, hash_range=4), 4),
        ):
            never = oracle if n_paid is None else OLH(total, hash_range=n_paid)
            any_number = "-" if n_paid is None else ours(oracle)
            rows.append([f"{total:g}", f"RepeatedClient, {name}", ours(never), any_number])
    header = ["spent by all rounds", "client", "values never change", "change any number of times"]
    print(markdown(header, rows))


# -- speed ------------------------------------------------------------------------------------
def speed_section(arguments: argparse.Namespace) -> None:
    """Print the seconds of a processor that a million users take."""
    numbers = np.random.default_rng(arguments.seed).random(10**6)
    oracles: dict[str, Any] = {
        "LocalMean": LocalMean(EPSILON, bounds=(0, 1)),
        "MatrixOracle, 64 bins": MatrixOracle(EPSILON, categories=Domain.bins(64, bounds=(0, 1))),
    }
    for d in (64, 256, 1024, 1 << 16):
        bins = Domain.bins(d, bounds=(0, 1))
        oracles[f"RangeOracle, {d:,} bins"] = RangeOracle(EPSILON, categories=bins)
    rows = []
    for name, oracle in oracles.items():
        oracle.protocol()  # computes the channel
        start = time.process_time()
        reports = oracle.privatize(numbers)
        middle = time.process_time()
        oracle.aggregate(reports)
        _ = oracle.estimate_
        end = time.process_time()
        rows.append([name, f"{middle - start:.2f} s", f"{end - middle:.2f} s"])
    print(markdown(["10^6 users", "privatize", "decode"], rows))


SECTIONS: dict[str, Callable[[argparse.Namespace], None]] = {
    "mean": mean_section,
    "columns": columns_section,
    "mean_intervals": mean_intervals_section,
    "quantiles": quantiles_section,
    "shapes": shapes_section,
    "monotone": monotone_section,
    "ranges": ranges_section,
    "bins": bins_section,
    "coverage": coverage_section,
    "spread": spread_section,
    "which": which_section,
    "repeated": repeated_section,
    "speed": speed_section,
}

if __name__ == "__main__":
    main()
