"""Errors and coverage of `Trend`, which smooths weekly estimates, on simulated series.

python -m benchmarks.accuracy.weeks

The true frequencies of a row are the frequencies of the population in that week, and the users of
each week are a new random sample. NormSub is applied after each method. As a control, one drift is
the same for all categories.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from benchmarks._command import command
from sklearn_ldp import OLH, FrequencyEstimate, Trend
from sklearn_ldp.postprocessing import local_level, norm_sub

N_WEEKS, N_CATEGORIES, N_USERS = 52, 16, 20_000


def made_up(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return the shares of each week: a random walk of the logarithms, or a jump of one."""
    shape = (5, 2) if kind == "few" else (N_WEEKS, N_CATEGORIES)
    start = -np.log(np.arange(1, shape[1] + 1))
    step = {"slow": 0.03, "still": 0.0, "jump": 0.0, "wild": 0.3, "few": 0.05}[kind]
    logs = start + np.cumsum(rng.normal(0, step, shape), axis=0)
    if kind == "jump":
        logs[N_WEEKS // 2 :, 2] += np.log(2.5)
    return np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)


def collected(truth: np.ndarray, oracle: Any, rng: np.random.Generator) -> FrequencyEstimate:
    """Return an estimate of each week."""
    d = truth.shape[1]
    oracle.set_params(categories=d, random_state=np.random.RandomState(rng.integers(1 << 31)))
    rows = [oracle.simulate(rng.multinomial(N_USERS, row)) for row in truth]
    noise = rows[0].noise.of(rows[0].noise.channel, N_USERS)
    return FrequencyEstimate(np.concatenate(rows), rows[0].categories, noise)


def common_drift(estimate: FrequencyEstimate) -> tuple[np.ndarray, np.ndarray]:
    """Return levels and standard errors with one drift for all categories: the control."""
    F = estimate.values
    noise: Any = estimate.noise
    variance = noise.of_population().variance(np.broadcast_to(norm_sub(F.mean(axis=0)), F.shape))
    drifts = np.append(0.0, np.logspace(-5, 0, 101))
    logs = [local_level(F, variance, w**2).log_likelihood.sum() for w in drifts]
    levels = local_level(F, variance, drifts[int(np.argmax(logs))] ** 2)
    return levels.smoothed, np.sqrt(levels.smoothed_variance)


def one_run(truth: np.ndarray, oracle: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Return errors, coverage and jumps of one series."""
    estimate = collected(truth, oracle, rng)
    trend, F = Trend(), estimate.values
    smoothed = trend.fit_transform(estimate)
    filtered = Trend(filtered=True).fit_transform(estimate)
    four = np.array([F[max(t - 3, 0) : t + 1].mean(axis=0) for t in range(len(F))])
    common, common_errors = common_drift(estimate)
    values = {"raw": F, "four": four, "common": common}
    values |= {"trend": smoothed.values, "filtered": filtered.values}
    result: dict[str, Any] = {
        name: 1e6 * np.mean((norm_sub(one) - truth) ** 2) for name, one in values.items()
    }
    largest = np.argsort(-truth.mean(axis=0))[:2]
    for name, one in (("trend", smoothed), ("filtered", filtered)):
        low, high = one.confidence_interval(0.95, of="population")
        covers = (low <= truth) & (truth <= high)
        result[f"{name} covers"] = covers.mean()
        result[f"{name} covers 2"] = covers[:, largest].mean()
    covers = np.abs(common - truth) <= 1.96 * common_errors
    result["common covers 2"] = covers[:, largest].mean()
    result["jumps"] = trend.jumps_.sum()
    return result


def table(series: dict[str, Any], oracle: Any, n_runs: int) -> pd.DataFrame:
    """Return the means over runs; errors are MSE x 10^6 after NormSub."""
    means = {}
    for name, make in series.items():
        seeds = [np.random.default_rng([seed, 49]) for seed in range(n_runs)]
        means[name] = pd.DataFrame([one_run(make(rng), oracle, rng) for rng in seeds]).mean()
    return pd.DataFrame(means).T


def main() -> None:
    """Print the table."""
    parser = command(__doc__, __spec__, whole=True)
    parser.add_argument("--runs", type=int, default=20, help="of each series (default: 20)")
    given = parser.parse_args()
    kinds = ["slow", "still", "jump", "wild", "few"]
    series = {kind: lambda rng, kind=kind: made_up(kind, rng) for kind in kinds}
    print(f"OLH, epsilon 1, {N_USERS:,} users a row")
    print(table(series, OLH(1.0), given.runs).round(3).to_string())


if __name__ == "__main__":
    main()
