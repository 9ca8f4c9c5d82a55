"""Errors of post-processors with learned priors on seven distributions.

    python -m benchmarks.accuracy.seven_distributions

The program prints mean squared errors over all categories for OLH, and an approximate lower bound:
the posterior mean with the true prior (the histogram of the true frequencies), followed by
Norm-Sub. The weights with which EmpiricalBayes averages its priors were chosen on 13 other
distributions, and are evaluated on the seven distributions and on the real histograms of ``--group
held-back``. With ``--populations FILE``, a file that _real_populations.py writes, the program
instead compares EmpiricalBayes with the better of two methods, James-Stein (followed by Norm-Sub)
and NPMLE, in six cells of each population.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from sklearn_ldp import GRR, NPMLE, OLH, Base, BaseCut, EmpiricalBayes, NormSub, PowerNS
from sklearn_ldp._core.common.text import format_table
from sklearn_ldp.postprocessing import norm_sub, posterior_mean

from .._command import add_data_argument, command, histograms
from .._tables import with_error

METHODS = {
    "Base": Base(),
    "BaseCut": BaseCut(),
    "NormSub": NormSub(),
    "PowerNS": PowerNS(),
    "PowerNS, mle": PowerNS(fit_method="mle"),
    "EmpiricalBayes": EmpiricalBayes(),
    "EmpiricalBayes, g-model": EmpiricalBayes(prior="g-model"),
    "NPMLE": NPMLE(),
}
TRUE_PRIOR = "true prior"
HELD_BACK = {
    "emoji": "EMOJI_TRACKER2019_N884427.csv.gz",
    "retail": "RETAIL_one_item.csv.gz",
    "kosarak": "KOSARAK_PREFIX36682_one_item.csv.gz",
    "cities": "US1940_CITY_1PCT_TOP915.csv.gz",
}
CELLS = [(OLH, 0.5, 20_000), (OLH, 1, 20_000), (OLH, 4, 20_000)]
CELLS += [(OLH, 1, 100_000), (GRR, 2, 100_000), (OLH, 1, 1_000_000)]


def main() -> None:
    """Print a table of the errors."""
    parser = command(__doc__, __spec__, repeats=30, n_jobs=1, seed=0)
    add_data_argument(parser)
    parser.add_argument("--group", choices=["seven", "held-back"], default="seven")
    parser.add_argument("--populations", type=Path, help="JSON of _real_populations.py")
    arguments = parser.parse_args()
    if arguments.populations:
        report_better_of_two(json.loads(arguments.populations.read_text()), arguments)
        return
    truths = seven(arguments.seed)
    if arguments.group == "held-back":
        found = histograms(arguments.data, HELD_BACK)
        truths = {name: (one.counts, 1.0) for name, one in found.items()}
    work = (delayed(errors)(*truth, arguments.repeats, arguments.seed) for truth in truths.values())
    results = dict(zip(truths, Parallel(n_jobs=arguments.n_jobs)(work), strict=True))
    rows = [
        [method, *(f"{results[name][method].mean():.3g}" for name in truths)]
        for method in [*METHODS, TRUE_PRIOR]
    ]
    print(format_table(["mean squared error", *truths], rows))
    print()
    rows = [
        [method, *(ratio(results[name][method], results[name][TRUE_PRIOR]) for name in truths)]
        for method in METHODS
    ]
    print(format_table(["over that of the true prior", *truths], rows))
    print("(+- standard errors of the ratio, of paired runs)")


def ratio(errors, reference) -> str:
    """Return the ratio of two means over the same runs, and its standard error."""
    quotient = errors.mean() / reference.mean()
    spread = np.std(errors - quotient * reference, ddof=1) if len(errors) > 1 else np.nan
    return f"{quotient:.3f} +- {spread / np.sqrt(len(errors)) / reference.mean():.3f}"


def errors(counts, epsilon: float, repeats: int, seed: int) -> dict[str, np.ndarray]:
    """Return the mean squared errors of each method, and of the true prior: of shape (repeats,)."""
    truth = counts / counts.sum()
    support, number = np.unique(truth, return_counts=True)
    oracle = OLH(epsilon, categories=len(counts), random_state=seed)
    with threadpool_limits(1):
        estimate = oracle.simulate(counts, repeats)
        noise = estimate.noise
        prior = support, number / len(counts), noise.slope / noise.n_samples
        results = {name: post.fit_transform(estimate).values for name, post in METHODS.items()}
        means = [posterior_mean(row, noise.std, *prior) for row in estimate.values]
    results[TRUE_PRIOR] = norm_sub(means)
    return {name: np.mean((values - truth) ** 2, axis=1) for name, values in results.items()}


def report_better_of_two(populations, arguments) -> None:
    """Print the geometric mean and the worst cell of errors over the better one."""
    work = [
        (name, oracle, epsilon, n, delayed(cell)(one["counts"], oracle, epsilon, n, arguments))
        for name, one in populations.items()
        for oracle, epsilon, n in CELLS
    ]
    errors = np.array(Parallel(n_jobs=arguments.n_jobs)(job for *_, job in work))
    ratios = errors / errors[:, 1:].min(axis=1, keepdims=True)
    of_cells = np.array([name for name, *_ in work])
    rows = []
    for i, method in enumerate(("EmpiricalBayes", "James-Stein", "NPMLE")):
        name, oracle, epsilon, n, _ = work[ratios[:, i].argmax()]
        over = f"{np.sum(ratios[:, i] > 1.05)} of {len(work)}"
        where = f"{name}, {oracle.__name__} {epsilon:g}, {n:,} users"
        rows.append([method, with_error(ratios[:, i], of_cells), over, where])
    print(
        format_table(["over the better of two", "mean (+-) / worst", "above 1.05", "where"], rows)
    )


def cell(counts, oracle, epsilon: float, n_samples: int, arguments) -> tuple[float, float, float]:
    """Return mean squared errors of EmpiricalBayes, of James-Stein and of the NPMLE."""
    shares = np.asarray(counts) / np.sum(counts)
    counts = np.random.default_rng(arguments.seed).multinomial(n_samples, shares)
    truth, d = counts / n_samples, len(counts)
    oracle = oracle(epsilon, categories=d, random_state=arguments.seed)
    estimate = oracle.simulate(counts, arguments.repeats)
    off = estimate.values - 1 / d
    noise = estimate.noise.variance(1 / d)
    kept = np.maximum(1 - (d - 3) * noise / np.sum(off**2, axis=1, keepdims=True), 0)
    found = [
        EmpiricalBayes().fit_transform(estimate).values,
        norm_sub(1 / d + kept * off),
        NPMLE().fit_transform(estimate).values,
    ]
    return tuple(np.mean((values - truth) ** 2) for values in found)


def rounded(law, n_samples: int) -> np.ndarray:
    """Return counts in proportion to a distribution, by largest remainders."""
    exact = np.asarray(law, dtype=float) / np.sum(law) * n_samples
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: n_samples - counts.sum()]] += 1
    return counts


def seven(seed: int) -> dict[str, tuple[np.ndarray, float]]:
    """Return the true counts and epsilon of the distributions that judge the methods."""
    rank = np.arange(1, 1025.0)
    laws = {
        "zipf 1.5": rank**-1.5,
        "zipf 1.1": rank**-1.1,
        "geometric .99": 0.99**rank,
        "geometric .9": 0.9**rank,
        "uniform": np.ones(1024),
        "100 equal": rank <= 100,
    }
    truths = {name: (rounded(law, 1_000_000), 1.0) for name, law in laws.items()}
    draws = np.random.default_rng(seed).beta(50, 2, 100_000)
    truths["beta(50, 2)"] = np.histogram(draws, bins=400, range=(0, 1))[0], 1.0
    return truths


if __name__ == "__main__":
    main()
