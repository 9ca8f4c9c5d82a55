"""What post-processing does to an attack: ``python -m benchmarks.security.poisoned_estimates``.

Collections of OUE and GRR at epsilon 1 with 5 % fake users who promote rare categories: by lies
about the value (one target), or by the reports that gain most (one target, ten targets; those of
OUE look honest otherwise). A number of a method is the share of the raw gain that is left after it,
as a mean over the populations. The gain is what the targets' frequencies gain in all, compared with
the same method on the genuine users' reports. Two more columns are the mean squared error divided
by that of the raw estimate: on genuine reports alone, and with ten promoted targets.

LDPRecover (Sun et al., ICDE 2024, arXiv:2403.09351) is written down here from its
formulas. A share eta / (1 + eta) of the reports is assumed to be fake, so that the genuine users'
estimate is (1 + eta) f - eta y, where y is the fake reports' part. Their sum is known for a report
that supports one category, sum y = (1 - q d) / (p - q), and is split evenly over the categories of
positive estimates; then NormSub. If the targets are known as well, y is: it
is the expectation of the reports that gain most. Eta is 0.0526, as the share is known to be 5 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from sklearn_ldp import GRR, NPMLE, OUE, FrequencyEstimate
from sklearn_ldp.datasets import load_us_states
from sklearn_ldp.model_selection import candidate_name, default_candidates
from sklearn_ldp.postprocessing import norm_sub

from .._command import add_data_argument, command, histograms
from .._tables import markdown
from ..accuracy.postprocessor_errors import HISTOGRAMS
from ..accuracy.seven_distributions import rounded, seven

SHARE, N_TARGETS = 0.05, 10
ETA = SHARE / (1 - SHARE)
ORACLES = (OUE(1.0), GRR(1.0))
ATTACKS = {"lie, 1": ("lie", 1), "maximal, 1": ("maximal", 1), "maximal, 10": ("maximal", 10)}
#: The post-processors, and what is compared with them.
METHODS = [*default_candidates(), NPMLE()]


def main() -> None:
    """Print one table per oracle."""
    parser = command(__doc__, __spec__, repeats=20, n_jobs=1, seed=0)
    add_data_argument(parser)
    arguments = parser.parse_args()
    populations = judged(arguments)
    print(f"populations: {', '.join(populations)}")
    header = ["", *(f"gain left, {name}" for name in ATTACKS), "MSE, clean", "MSE, maximal, 10"]
    for oracle in ORACLES:
        with threadpool_limits(1):
            found = Parallel(arguments.n_jobs)(
                delayed(study)(oracle, counts, arguments.repeats, arguments.seed + i)
                for i, counts in enumerate(populations.values())
            )
        table = [
            [name, *map(_shown, np.mean([one[name] for one in found], 0))] for name in found[0]
        ]
        raw = np.mean([one["Base"] for one in found], axis=0)
        assert np.allclose(raw, 1)
        print(f"\n{oracle}\n\n{markdown(header, table)}")


def judged(arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    """Return the true counts of the populations to report on."""
    populations = {name: counts for name, (counts, _) in seven(arguments.seed).items()}
    populations["US states"] = rounded(load_us_states().counts, 1_000_000)
    files = {name: HISTOGRAMS[name][0] for name in ("emoji", "cities")}
    found = histograms(arguments.data, files)
    return populations | {name: one.counts for name, one in found.items()}


def collections(
    oracle: Any, counts: np.ndarray, attack: str, r: int, n_repeats: int, seed: int
) -> tuple[FrequencyEstimate, FrequencyEstimate, np.ndarray]:
    """Return raw estimates of the genuine users alone and with fake ones, and the targets."""
    rng = np.random.default_rng(seed)
    d, n = len(counts), int(counts.sum())
    channel = oracle.channel(d)
    rare = np.argsort(counts, kind="stable")[: max(d // 2, r)]
    targets = rng.permutation(rare)[: min(r, d)]
    m = round(n * ETA)
    genuine = channel.simulate(counts, n_repeats, rng)
    if attack == "lie":
        fake = channel.simulate(np.bincount(targets[:1], minlength=d) * m, n_repeats, rng)
    elif isinstance(oracle, GRR):
        of_targets = np.bincount(targets, minlength=d) / len(targets)
        fake = rng.multinomial(m, of_targets, n_repeats)
    else:
        fake = rng.binomial(m, float(channel.q), (n_repeats, d))
        fake[:, targets] = m
    raw = [
        FrequencyEstimate(noise.debias(support), np.arange(d), noise, oracle)
        for noise, support in (
            (channel.noise(n), genuine),
            (channel.noise(n + m), genuine + fake),
        )
    ]
    return raw[0], raw[1], targets


def recover(F: np.ndarray, channel: Any, eta: float, fake: np.ndarray | None = None) -> np.ndarray:
    """Return what LDPRecover makes of raw estimates, and of the fake reports' part if known."""
    if fake is None:
        positive = F > 0
        total = float((1 - channel.q * channel.n_categories) / (channel.p - channel.q))
        fake = np.where(positive, total / np.maximum(positive.sum(axis=1, keepdims=True), 1), 0)
    return norm_sub((1 + eta) * F - eta * fake)


def fake_part(oracle: Any, d: int, targets: np.ndarray) -> np.ndarray:
    """Return the expected raw estimate of the reports that gain most for the targets alone."""
    channel = oracle.channel(d)
    support = np.full(d, 0.0 if isinstance(oracle, GRR) else float(channel.q))
    support[targets] = 1 / len(targets) if isinstance(oracle, GRR) else 1.0
    return channel.noise(1).debias(support[None])[0]


def methods_for(
    oracle: Any, d: int, targets: np.ndarray
) -> dict[str, Callable[[FrequencyEstimate], np.ndarray]]:
    """Return all methods as functions of raw estimates."""
    channel, fake = oracle.channel(d), fake_part(oracle, d, targets)

    def of(method: Any) -> Callable[[FrequencyEstimate], np.ndarray]:
        return lambda estimate: np.asarray(method.fit_transform(estimate))

    return {
        **{candidate_name(method): of(method) for method in METHODS},
        "LDPRecover, eta known": lambda e: recover(e.values, channel, ETA),
        "LDPRecover, targets and eta known": lambda e: recover(e.values, channel, ETA, fake),
    }


def study(oracle: Any, counts: np.ndarray, n_repeats: int, seed: int) -> dict[str, np.ndarray]:
    """Return for each method the gains that are left, and the errors, in units of the raw ones."""
    d, truth = len(counts), counts / counts.sum()
    columns: dict[str, list[float]] = {}
    for attack, r in ATTACKS.values():
        clean, poisoned, targets = collections(oracle, counts, attack, r, n_repeats, seed)
        for name, method in methods_for(oracle, d, targets).items():
            before, after = method(clean), method(poisoned)
            values = columns.setdefault(name, [])
            values.append(float(np.mean((after - before)[:, targets].sum(axis=1))))
            if (attack, r) == ("maximal", 10):
                values += [float(np.mean((x - truth) ** 2)) for x in (before, after)]
    raw = np.array(columns["Base"])
    return {name: np.array(values) / raw for name, values in columns.items()}


def _shown(x: float) -> str:
    return f"{x:.2f}" if x < 10 else f"{x:.0f}"


if __name__ == "__main__":
    main()
