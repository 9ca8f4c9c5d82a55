"""Power of the tests for fake users: ``python -m benchmarks.security.report_test_power``.

The table contains every attack on every oracle, for several numbers of target categories and shares
of fake users. The gain is the mean increase of the total estimated frequency of the targets. The
power of a test is the share of collections in which its p-value is at most 5 %. Without fake users,
this share is the size of the test. The values of honest users have a Zipf distribution over 100
categories, and the targets are rare categories.

``--markdown`` also prints the table for the page about deployments. The seeds are fixed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from sklearn_ldp._core.common.text import format_table
from sklearn_ldp.model_selection import candidate_name
from sklearn_ldp.robustness import (
    hash_function_test,
    joint_support_test,
    support_size_test,
)
from sklearn_ldp.robustness._report_tests import (
    _pearson,
    _sizes,
    _wald,
    largest_pair,
    pair_counts,
)

from .._command import command
from .._tables import markdown
from ._attacks import ATTACKS, Attack

N, D, LEVEL = 100_000, 100, 0.05
SHARES = (0.005, 0.01, 0.05)
N_TARGETS = (1, 2, 3, 10)
# Rare categories that have nothing to do with each other.
TARGETS = np.random.default_rng(7).permutation(np.arange(40, D))
#: The attacks that the page on deployments shows.
PAGE = [
    ("GRR", "name a target"),
    ("OUE", "target bits, padded"),
    ("OUE", "target bits, honest sizes"),
    ("SubsetSelection", "subsets with targets"),
    ("OLH", "chosen functions"),
    ("OLH", "chosen values"),
    ("OLH(hash_family='mixing')", "chosen functions"),
    ("OLH(hash_family='mixing')", "chosen values"),
    ("HadamardResponse", "best columns"),
    ("ProjectiveGeometryResponse", "best points"),
]
#: Short names, for the columns of the long table.
TESTS: dict[str, Callable] = {
    "size": support_size_test,
    "function": hash_function_test,
    "joint": joint_support_test,
}


def main() -> None:
    """Print one table per oracle and attack, or the tables of the page."""
    parser = command(__doc__, __spec__, repeats=100, n_jobs=1)
    parser.add_argument("--n-samples", type=int, default=N, help=f"users (default: {N:,})")
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    rows = []
    start = time.perf_counter()
    for oracle, attacks in ATTACKS:
        oracle = clone(oracle).set_params(categories=D)
        with threadpool_limits(1):
            runs = Parallel(arguments.n_jobs)(
                delayed(collection)(oracle, attacks, arguments.n_samples, seed)
                for seed in range(arguments.repeats)
            )
        rows += rows_of(_name(oracle), runs)
        print(f"{_name(oracle)}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    header = ["oracle", "attack", "targets", *(f"gain\n{s:.1%}" for s in SHARES)]
    header += [f"{name}\n{share:.1%}" for name in TESTS for share in SHARES]
    print(format_table(header, [_full(row) for row in rows]))
    if arguments.markdown:
        print("\n" + markdown_table(rows))


def _name(oracle: Any) -> str:
    return candidate_name(clone(oracle).set_params(categories="auto"))


def collection(oracle: Any, attacks: dict[str, Attack], n: int, seed: int) -> dict[tuple, tuple]:
    """Simulate one collection with each attack; return gains and p-values.

    Honest reports are counted once, in the pieces that fake ones take the place of.
    """
    rng = np.random.default_rng(seed)
    zipf = 1 / np.arange(1, D + 1) ** 1.1
    codes = rng.choice(D, n, p=zipf / zipf.sum())
    honest = oracle.protocol().privatize(codes, rng)
    cuts = [0, *(round(n * share) for share in SHARES)]
    pieces = [Counted.of(honest[i:j], oracle) for i, j in zip(cuts, [*cuts[1:], n], strict=True)]
    left = {cut: Counted.sum(pieces[i:]) for i, cut in enumerate(cuts)}
    results = {("none", 0, 0.0): (0.0, left[0].p_values())}
    for name, attack in attacks.items():
        for r in N_TARGETS:
            # Whoever lies about the value can be seen by no test, whatever the targets are.
            if (name == "lie" and r > 1) or (name == "chosen values" and r == 1):
                continue
            for share, m in zip(SHARES, cuts[1:], strict=True):
                fake = attack(oracle, TARGETS[:r], m, rng).astype(honest.dtype)
                together = Counted.sum([left[m], Counted.of(fake, oracle)])
                truth = np.bincount(codes[m:], minlength=D) / (n - m)
                gain = float((together.frequencies - truth)[TARGETS[:r]].sum())
                results[name, r, share] = (gain, together.p_values())
    return results


@dataclass
class Counted:
    """What the tests make of reports, so that pieces of a collection can be added up."""

    oracle: Any
    reports: list[np.ndarray]
    n: int
    support: np.ndarray
    sizes: np.ndarray | None
    pairs: np.ndarray | None

    @classmethod
    def of(cls, reports: np.ndarray, oracle: Any) -> Counted:
        """Count reports."""
        channel, sizes, pairs = oracle.channel(), None, None
        if channel.support_sizes is not None:
            sizes = _sizes(channel, reports)
        elif channel.law_of_reports is not None:
            sizes = channel.law_of_reports.count(reports, D)
        if channel.joint_support is not None:
            pairs = pair_counts(reports, channel, np.arange(D))
        return cls(oracle, [reports], len(reports), channel.count_support(reports), sizes, pairs)

    @classmethod
    def sum(cls, parts: list[Counted]) -> Counted:
        """Add pieces up."""
        sizes, pairs = (
            None if getattr(parts[0], name) is None else sum(getattr(one, name) for one in parts)
            for name in ("sizes", "pairs")
        )
        reports = [piece for one in parts for piece in one.reports]
        support = np.sum([one.support for one in parts], axis=0)
        return cls(parts[0].oracle, reports, sum(one.n for one in parts), support, sizes, pairs)

    @property
    def frequencies(self) -> np.ndarray:
        """The raw estimate."""
        return self.oracle.channel().noise(self.n).debias(self.support[None])[0]

    def p_values(self) -> list[float]:
        """Return the p-values of the tests; NaN where a test does not apply."""
        channel = self.oracle.channel()
        results: list[Any] = [None, None, None]
        if channel.support_sizes is not None and np.count_nonzero(channel.support_sizes) > 1:
            results[0] = _pearson(self.sizes, channel.support_sizes)
        elif channel.support_sizes is None:
            results[0] = _wald(self.sizes, channel, channel.law_of_reports)
        if channel.public_part is not None:
            results[1] = hash_function_test(iter(self.reports), self.oracle)
        if channel.joint_support is not None:
            results[2] = largest_pair(self.pairs, self.n, channel, channel.joint_support)
        elif channel.public_part is not None:
            results[2] = joint_support_test(iter(self.reports), self.oracle)
        return [one.p_value if one is not None and one.has_power else np.nan for one in results]


def rows_of(name: str, runs: list[dict[tuple, tuple]]) -> list[tuple]:
    """Return one row per attack and number of targets: name, attack, r, gains, powers."""
    rows = []
    for attack, r in dict.fromkeys(key[:2] for key in runs[0]):
        shares = [key[2] for key in runs[0] if key[:2] == (attack, r)]
        gains = [float(np.mean([run[attack, r, s][0] for run in runs])) for s in shares]
        p_values = np.array([[run[attack, r, s][1] for run in runs] for s in shares])
        powers = np.where(np.isnan(p_values[:, 0]), np.nan, np.mean(p_values <= LEVEL, axis=1))
        rows.append((name, attack, r, gains, powers.T))
    return rows


def _full(row: tuple) -> list[str]:
    name, attack, r, gains, powers = row
    cells = [f"{gain:.4f}" for gain in gains] + [""] * (len(SHARES) - len(gains))
    for power in powers:
        cells += [_percent(x) for x in power] + [""] * (len(SHARES) - len(power))
    return [name, attack, str(r), *cells]


def markdown_table(rows: list[tuple]) -> str:
    """Return the table of the page: tests below each other, and numbers of targets side by side."""
    cells = {row[:3]: row[3:] for row in rows}
    lines = []
    for name, attack in PAGE:
        of_attack = [cells.get((name, attack, r)) for r in N_TARGETS]
        gains = [f"{cell[0][1]:.3f}" if cell else "" for cell in of_attack]
        lines.append([f"{name}, {attack}", "gain of 1 %", *gains])
        for i, test in enumerate(TESTS.values()):
            shown = [" / ".join(map(_percent, cell[1][i])) if cell else "" for cell in of_attack]
            if any(text.strip(" /") for text in shown):
                lines.append(["", f"`{test.__name__}`", *shown])
    header = ["oracle, attack", "", *(f"{r} targets" if r > 1 else "1 target" for r in N_TARGETS)]
    return markdown(header, lines)


def _percent(x: float) -> str:
    return "" if np.isnan(x) else f"{100 * x:.0f}"


if __name__ == "__main__":
    main()
