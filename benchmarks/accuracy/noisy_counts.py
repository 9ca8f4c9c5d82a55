"""Counts with added noise: coverage of intervals, looks at all times, and EmpiricalBayes.

    python -m benchmarks.accuracy.noisy_counts
    python -m benchmarks.accuracy.noisy_counts --only looks --repeats 400

`coverage`: how often 95 % intervals of each distribution cover: single counts, all counts
simultaneously, two totals, and simultaneous differences of two releases. Counts have unequal noise.
`looks`: how often intervals miss at any of 200 looks at a growing collection of 20,000 users, and
at the last look. `means`: the same for means of `LocalMean`, and of `mean_by_answer`. `bayes`: the
error of EmpiricalBayes with the likelihood of the noise, relative to the error with the normal
likelihood.
"""

from __future__ import annotations

import itertools
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.stats import gmean

from sklearn_ldp import GRR, OLH, EmpiricalBayes, FrequencyEstimate, LocalMean, PrivacyWarning
from sklearn_ldp._core.noise import NOISE_KINDS, AddedNoise, Noise
from sklearn_ldp.inference import mean_by_answer

from .._command import command
from .._tables import markdown

BINS = (3, 20, 100, 1_000)
LOOKS, PER_LOOK, NARROWEST = 200, 100, 2_000


def is_covered(interval: tuple[np.ndarray, np.ndarray], truth: np.ndarray) -> np.ndarray:
    """Return whether each answer is in its interval."""
    low, high = interval
    return (low <= truth) & (truth <= high)


def covered(
    kind: str, stated: str, d: int, level: float, repeats: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the part of the intervals that cover, for each of many pairs of releases.

    kind: the distribution of the noise of d counts, with unequal standard deviations.
    stated: the distribution that the intervals assume.
    Shapes: -> (repeats, 4): single counts, all counts simultaneously, two totals, and simultaneous
    differences of both releases.
    """
    std = np.exp(rng.uniform(1, 3, d))
    counts = rng.multinomial(20_000, rng.dirichlet(np.ones(d))) + 400.0
    n_users = counts.sum()
    truth = counts / n_users
    totals = np.zeros((2, d))
    totals[0, : d // 2 + 1] = 1
    totals[1, d // 2 :] = 1
    noise = AddedNoise(kind, std).draw(2 * repeats, rng)
    options: dict = {"noise": stated, "std": std, "n_samples": np.full(repeats, n_users)}
    one = FrequencyEstimate.from_counts(counts + noise[:repeats], **options)
    other = FrequencyEstimate.from_counts(counts + noise[repeats:], **options)
    together = is_covered(one.confidence_interval(level, simultaneous=True), truth)
    differences = (one - other).confidence_interval(level, simultaneous=True, of="users")
    return np.column_stack(
        [
            is_covered(one.confidence_interval(level), truth).mean(axis=1),
            together.all(axis=1),
            is_covered(one.confidence_interval(level, totals), totals @ truth).mean(axis=1),
            is_covered(differences, np.zeros(d)).all(axis=1),
        ]
    )


def coverage(repeats: int, seed: int) -> None:
    """Print the coverage of intervals of each distribution and number of counts."""
    rows = []
    for kind, d in itertools.product(NOISE_KINDS, BINS):
        shares = covered(kind, kind, d, 0.95, repeats, np.random.default_rng([seed, d]))
        rows.append([kind, f"{d:,}", *(f"{share:.3f}" for share in shares.mean(axis=0))])
    print(markdown(["noise", "counts", "single", "simultaneous", "totals", "differences"], rows))


def looks(repeats: int, seed: int) -> None:
    """Print how often intervals miss at any look, and at the last one."""
    rows = []
    for oracle, d in ((GRR(1.0), 2), (GRR(1.0), 10), (OLH(1.0), 10)):
        rng = np.random.default_rng([seed, d])
        channel = oracle.channel(d)
        p, q = float(channel.p), float(channel.q)
        users = rng.binomial(PER_LOOK, 0.3, (repeats, LOOKS))
        support = rng.binomial(users, p) + rng.binomial(PER_LOOK - users, q)
        n_users = PER_LOOK * np.arange(1, LOOKS + 1)
        frequencies = (support.cumsum(axis=1) / n_users - q) / (p - q)
        true = {"users": users.cumsum(axis=1) / n_users, "population": np.full(users.shape, 0.3)}
        for (of, truth), at_all_times in itertools.product(true.items(), (False, NARROWEST)):
            missed = np.zeros(users.shape, dtype=bool)
            for i, n in enumerate(n_users[2:], 2):
                # The other categories are equally frequent: only the first one is looked at.
                rest = np.repeat((1 - frequencies[:, i : i + 1]) / (d - 1), d - 1, axis=1)
                values = np.hstack([frequencies[:, i : i + 1], rest])
                noise = Noise.of(channel, np.full(repeats, n))
                estimate = FrequencyEstimate(values, range(d), noise)
                row = np.zeros((1, d))
                row[0, 0] = 1
                ends = estimate.confidence_interval(0.95, row, of=of, at_all_times=at_all_times)
                missed[:, i] = ~is_covered(ends, truth[:, i : i + 1])[:, 0]
            numbers = f"{missed.any(axis=1).mean():.3f}", f"{missed[:, -1].mean():.3f}"
            name = f"{type(oracle).__name__}, {d} categories"
            rows.append([name, of, "all looks" if at_all_times else "one look", *numbers])
    print(markdown(["collection", "about", "valid for", "misses at any look", "at the last"], rows))


def looks_at_means(
    kind: str, n_repeats: int, n_looks: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return whether intervals of a mean miss it, about users or a population.

    kind: "LocalMean", or "mean_by_answer" (of the answer "no").
    Shapes: -> (2, n_repeats, n_looks), for intervals of one look and of all looks.
    """
    size = PER_LOOK * n_looks
    is_local = kind == "LocalMean"
    oracle: Any = GRR(1.0, categories=["no", "yes"])
    if is_local:
        oracle = LocalMean(1.0, bounds=(0, 10), input="reports")
    oracle.set_params(random_state=rng)
    abouts = ("users", "population") if is_local else ("population",)
    missed = {of: np.zeros((2, n_repeats, n_looks), dtype=bool) for of in abouts}
    for repeat in range(n_repeats):
        numbers = rng.choice([0.0, 1.0, 4.0, 9.0], size, p=[0.5, 0.2, 0.2, 0.1])
        answers = rng.choice(["no", "yes"], size, p=[0.4, 0.6])
        outcomes = numbers + (answers == "yes")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            reports = np.asarray(oracle.privatize(numbers if is_local else answers))
        sizes = PER_LOOK * np.arange(1, n_looks + 1)
        if is_local:
            # One row for each look: the reports of all users so far.
            protocol = oracle.protocol()
            each = np.eye(protocol.mechanism.n_reports, dtype=np.int64)[reports]
            decoded = each.cumsum(axis=0)[sizes - 1], sizes
            state = SimpleNamespace(
                protocol=protocol, mechanism=protocol.mechanism, decoded=decoded, groups=None
            )
            estimates = oracle._estimate_of(state)
        so_far = numbers.cumsum()[sizes - 1] / sizes
        for of, (row, at_all_times) in itertools.product(abouts, enumerate((False, NARROWEST))):
            options: dict = {"at_all_times": at_all_times}
            if is_local:
                low, high = estimates.confidence_interval(0.95, of=of, **options)
            else:
                ends = [
                    mean_by_answer(outcomes[:n], reports[:n], oracle).confidence_interval(
                        0.95, **options
                    )
                    for n in sizes
                ]
                low, high = np.array([(interval.low[0], interval.high[0]) for interval in ends]).T
            truth = so_far if of == "users" else 1.9
            # An answer of too few people has no interval.
            missed[of][row, repeat] = (low > truth) | (truth > high)
    return missed


def means(repeats: int, seed: int) -> None:
    """Print how often intervals of means miss at any look, and at the last one."""
    rows = []
    for kind in ("LocalMean", "mean_by_answer"):
        missed = looks_at_means(kind, repeats, LOOKS, np.random.default_rng(seed))
        for of, both in missed.items():
            for valid_for, at_looks in zip(("one look", "all looks"), both, strict=True):
                numbers = at_looks.any(axis=1).mean(), at_looks[:, -1].mean()
                rows.append([kind, of, valid_for, *(f"{number:.3f}" for number in numbers)])
    print(markdown(["mean", "about", "valid for", "misses at any look", "at the last"], rows))


def populations(d: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return frequencies of a few kinds."""
    occupied = max(d // 10, 1)
    sparse = np.zeros(d)
    sparse[:occupied] = rng.dirichlet(np.ones(occupied))
    zipf = 1 / np.arange(1, d + 1)
    return {
        "Zipf": zipf / zipf.sum(),
        "Dirichlet(1)": rng.dirichlet(np.ones(d)),
        "sparse": sparse,
        "equal": np.full(d, 1 / d),
        "one": np.eye(d)[0],
    }


def bayes(repeats: int, seed: int, n_users: int = 20_000) -> None:
    """Print the errors of EmpiricalBayes relative to the errors with the normal likelihood."""
    ratios, rows = [], []
    for d, kind, level in itertools.product((3, 8, 20, 100, 1_000), NOISE_KINDS[1:3], (0.1, 1.0)):
        rng = np.random.default_rng([seed, d])
        std = max(level * n_users / d, 1.0)
        for name, frequencies in populations(d, rng).items():
            noise = AddedNoise(kind, np.full(d, std)).draw(repeats, rng)
            errors = {}
            for stated in (kind, "normal"):
                estimate = FrequencyEstimate.from_counts(
                    np.rint(n_users * frequencies) + noise,
                    noise=stated,
                    std=std,
                    n_samples=np.full(repeats, n_users),
                )
                values = EmpiricalBayes().fit_transform(estimate).values
                errors[stated] = np.sum((values - frequencies) ** 2, axis=1)
            ratio = np.sqrt(errors[kind].mean() / errors["normal"].mean())
            terms = errors[kind] / errors[kind].mean() - errors["normal"] / errors["normal"].mean()
            error = ratio / 2 * terms.std() / np.sqrt(repeats)
            ratios.append(ratio)
            rows.append((ratio, [name, f"{d:,}", kind, f"{level:g}", f"{ratio:.3f} ({error:.3f})"]))
    print(f"geometric mean of {len(ratios)} settings {gmean(ratios):.3f}; the largest:\n")
    largest = [row for _, row in sorted(rows, key=lambda pair: -pair[0])[:8]]
    print(markdown(["population", "counts", "noise", "noise level", "ratio (error)"], largest))


SECTIONS = {"coverage": coverage, "looks": looks, "means": means, "bayes": bayes}


def main() -> None:
    """Print the sections' tables."""
    parser = command(__doc__, __spec__, whole=True, repeats=400, seed=0)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=[*SECTIONS])
    arguments = parser.parse_args()
    for section in arguments.only:
        print(f"\n{section}\n", flush=True)
        repeats = max(arguments.repeats // (8 if section == "bayes" else 1), 2)
        SECTIONS[section](repeats, arguments.seed)


if __name__ == "__main__":
    main()
