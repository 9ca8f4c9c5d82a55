"""Errors of SmoothMLE where numbers are heaped, and where they are few, beside cheap answers.

    python -m benchmarks.accuracy._simple_numbers
    python -m benchmarks.accuracy._simple_numbers --populations tune --repeats 6

Errors are root mean squares of the distribution function (and of all ranges), over the lesser one
of the raw estimate of RangeOracle and of MonotoneCDF. Eight kinds of populations have parameters
that are drawn: those of "tune" chose the constants of SmoothMLE, those of "report" did not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta, gmean, lognorm, norm

from sklearn_ldp import RangeOracle
from sklearn_ldp.postprocessing import monotone_cdf, smooth_mle

from .._command import command

BINS = (48, 64, 65, 100, 128, 256)
USERS = (3_000, 30_000, 300_000)
FEW_USERS = (10, 30, 100)
EPSILONS = (1.0, 4.0)
SMOOTH = ("Beta", "two peaks", "log-normal")
POPULATIONS = {"tune": 1, "report": 2}


def populations(d: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the frequencies of d bins of eight kinds of populations, with drawn parameters."""
    ends = np.linspace(0, 1, d + 1)
    low, high = np.sort(rng.uniform(0.15, 0.85, 2))
    widths = rng.uniform(0.03, 0.08, 2)
    peaks = norm.cdf(ends[:, None], [low, high], widths).mean(axis=1)
    spread = rng.uniform(0.4, 0.8)
    curves = {
        "Beta": beta.cdf(ends, *rng.uniform(1.5, 6, 2)),
        "two peaks": peaks,
        "log-normal": lognorm.cdf(ends, spread, scale=rng.uniform(0.15, 0.35)),
    }
    found = {name: np.diff(curve) / (curve[-1] - curve[0]) for name, curve in curves.items()}
    base = np.diff(norm.cdf(ends, rng.uniform(0.3, 0.7), rng.uniform(0.12, 0.3)))
    base /= base.sum()
    for every in (5, 10):
        rounded = np.bincount(np.round(np.arange(d) / every).astype(int) * every, base)
        rounded = np.bincount(np.minimum(np.arange(len(rounded)), d - 1), rounded, minlength=d)
        share = rng.uniform(0.5, 1.0)
        found[f"heaped at {every}"] = share * rounded + (1 - share) * base
    zeros = rng.uniform(0.3, 0.9)
    found["zero-inflated"] = (1 - zeros) * found["log-normal"]
    found["zero-inflated"][0] += zeros
    spikes = np.zeros(d)
    spikes[rng.choice(d, d // 10, replace=False)] = rng.dirichlet(np.ones(d // 10))
    found["spikes"] = spikes
    found["one bin"] = np.eye(d)[rng.integers(d)]
    return found


def squared_errors(rows: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return mean squared errors of the distribution function and of all ranges of bins."""
    errors = np.cumsum(rows - truth, axis=1)
    prefixes = np.square(errors[:, :-1]).mean(axis=1)
    padded = np.pad(errors, ((0, 0), (1, 0)))
    ranges = 2 * padded.var(axis=1, ddof=1)
    return np.column_stack([prefixes, ranges])


def cells(
    kind: str, bins: Sequence[int], users: Sequence[int], repeats: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield the errors of each cell, over those of the cheap answers."""
    for d, epsilon in itertools.product(bins, EPSILONS):
        channel = RangeOracle(epsilon).channel(d)
        law, decoding = channel.report_law, channel.decoding
        drawn = populations(d, np.random.default_rng([POPULATIONS[kind], d]))
        for n, (name, truth) in itertools.product(users, drawn.items()):
            rng = np.random.default_rng([seed, d, n, int(epsilon)])
            tallies = rng.multinomial(n, law.probabilities(truth), size=repeats)
            raw = tallies / n @ decoding.T
            fits = [smooth_mle(tally, law, d) for tally in tallies]
            own = squared_errors(np.array([fit.frequencies for fit in fits]), truth)
            cheap = [squared_errors(rows, truth) for rows in (raw, monotone_cdf(raw))]
            row = {"numbers": name, "bins": d, "users": n, "epsilon": epsilon}
            for column, what in enumerate(("prefixes", "ranges")):
                best = min((errors[:, column] for errors in cheap), key=np.mean)
                ratio = np.sqrt(own[:, column].mean() / best.mean())
                left = own[:, column] - ratio**2 * best
                error = left.std(ddof=1) / np.sqrt(len(left)) / best.mean() / (2 * ratio)
                row |= {what: ratio, f"error of {what}": error}
            row["curve weight"] = np.mean([fit.curve_weight for fit in fits])
            row["rmse"] = np.sqrt(own[:, 0].mean())
            yield row


def summary(table: pd.DataFrame) -> str:
    """Return geometric means, greatest ratios and the share of bad cells, and the worst cells."""
    grouped = table.groupby(["numbers", "users"], sort=False)["prefixes"]
    shown = grouped.agg(lambda ratios: f"{gmean(ratios):.2f}, {ratios.max():.2f}").unstack()
    lines = [f"geometric mean and greatest ratio of {len(table)} cells\n{shown.to_string()}"]
    for what in ("prefixes", "ranges"):
        ratios = table[what]
        above = np.count_nonzero(ratios > 1.1)
        surely = np.count_nonzero(ratios - 3 * table[f"error of {what}"] > 1.1)
        lines.append(
            f"{what}: geometric mean {gmean(ratios):.3f}, greatest {ratios.max():.2f}, "
            f"above 1.1 in {above}, by more than three standard errors in {surely}"
        )
    worst = table.sort_values("prefixes", ascending=False).head(12)
    lines.append(f"worst cells\n{worst.round(4).to_string(index=False)}")
    return "\n\n".join(lines)


def main() -> None:
    """Print the tables of many and of few users."""
    parser = command(__doc__, __spec__, repeats=20, seed=0)
    parser.add_argument("--populations", choices=list(POPULATIONS), default="report")
    parser.add_argument("--bins", type=int, nargs="+", default=BINS)
    parser.add_argument("--save", help="CSV file for the cells")
    arguments = parser.parse_args()
    settings = arguments.populations, arguments.bins
    draws = arguments.repeats, arguments.seed
    many, few = (pd.DataFrame(cells(*settings, users, *draws)) for users in (USERS, FEW_USERS))
    for title, table in (("many users", many), ("few users", few)):
        print(f"\n{title}, {arguments.populations}, {arguments.repeats} collections each\n")
        print(summary(table), flush=True)
    if arguments.save:
        pd.concat([many, few]).to_csv(arguments.save, index=False)


if __name__ == "__main__":
    main()
