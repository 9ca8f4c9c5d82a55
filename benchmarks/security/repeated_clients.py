"""Clients that report repeatedly: ``python -m benchmarks.security.repeated_clients``.

The first table contains the epsilon of one report and of several reports, by enumeration of small
domains. The second contains the variance of a collection of such reports, divided by the variance
of the oracle. The third contains the success of a Bayesian attacker. The fourth is about clients
that are killed at random times, and about the time of many reports of one client.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from math import comb, log2
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    OUE,
    SUE,
    HadamardResponse,
    ProjectiveGeometryResponse,
    SubsetSelection,
)
from sklearn_ldp._core.common.text import format_table
from sklearn_ldp._core.mechanisms.chain import Chain
from sklearn_ldp._core.mechanisms.coins import SeededCoins, exp_lower_bound
from sklearn_ldp.collection import RepeatedClient
from sklearn_ldp.model_selection import candidate_name
from sklearn_ldp.privacy import repeated_collection_risk
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

from .._command import command
from ._chains import leaks, permanent_laws, ratio, single_laws

VALUES, CAP = 6, 4
_MORE_KILLS = 1000
PROTOCOL = OLH(1.0, categories=1000).protocol()  # of which two reports are hardly ever equal


@dataclass
class Kills:
    """What was seen while clients were killed."""

    n_kills: int = 0
    n_handed_out: int = 0
    n_files: int = 0


def _client(path: Path) -> RepeatedClient:
    return RepeatedClient(
        PROTOCOL, path, question="item", epsilon_forever=2.0, max_epsilon=2.0 * CAP
    )


def _use_until_killed(path: Path, log: Path, seed: int) -> None:
    """Note what was handed out, each in one write, which a kill does not cut."""
    rng = random.Random(seed)
    with open(log, "ab", buffering=0) as file:
        while True:
            client = _client(path)
            for _ in range(5):
                value, name = rng.randrange(VALUES), str(rng.randrange(10**4))
                with suppress(ValueError):  # beyond the cap
                    sent = client.report(value, collection_round=name)[0].tolist()
                    file.write((json.dumps([name, sent]) + "\n").encode())


def kills(folder: Path, n_kills: int, seed: int = 0, n_reports: int = 1) -> Kills:
    """Kill clients that share a file, two at a time, and check what was handed out.

    A round has one report; at most `CAP` values have a permanent report, which does not change;
    whatever was handed out is in the file, which can always be read. A machine may be so slow that
    clients are killed before they report: kills go on until there are `n_reports`, up to a limit.
    """
    context, rng, done = multiprocessing.get_context("fork"), random.Random(seed), Kills()
    most = n_kills + _MORE_KILLS
    while done.n_kills < (n_kills if done.n_handed_out >= n_reports else most):
        done.n_files += 1
        path, log = folder / str(done.n_files) / "memo.json", folder / f"{done.n_files}.log"
        path.parent.mkdir(parents=True)
        log.touch()
        permanent: list = []
        for _ in range(min(50, n_kills)):
            users = [
                context.Process(target=_use_until_killed, args=(path, log, rng.randrange(10**9)))
                for _ in range(2)
            ]
            for user in users:
                user.start()
            for user in users:
                time.sleep(rng.uniform(0.01, 0.08))
                user.kill()
            for user in users:
                user.join()
            done.n_kills += len(users)
            permanent = _check(path, log, permanent)
            if done.n_kills >= n_kills:
                break
        done.n_handed_out += log.read_text().count("\n")
    return done


def _check(path: Path, log: Path, permanent: list) -> list:
    """Assert all that must hold of a file; return its permanent reports."""
    client = _client(path)
    assert client.n_values <= CAP
    assert client.spent <= 2.0 * CAP
    with suppress(ValueError):  # sweeps what processes have left that were killed
        client.report(0, collection_round=f"after {len(client.history)}")
    assert [file.name for file in path.parent.iterdir()] == ["memo.json"]
    rounds: dict[str, set] = {}
    for line in log.read_text().splitlines():
        name, sent = json.loads(line)
        rounds.setdefault(name, set()).add(tuple(sent))
    entries = json.loads(path.read_text())
    assert entries["permanent"][: len(permanent)] == permanent, "a second permanent report"
    held = dict(zip(entries["rounds"], entries["sent"], strict=True))
    for name, sent in rounds.items():
        assert name in held, "a report that is not in the file"
        in_file = held[name]
        of_file = entries["permanent"][in_file] if isinstance(in_file, int) else in_file
        assert sent == {tuple(of_file)}, "a round has two reports"
    return entries["permanent"]


# -- tables ---------------------------------------------------------------------------------
ORACLES = [
    GRR(),
    OUE(),
    SUE(),
    BLH(),
    OLH(hash_range=3),
    OLH(hash_family="mixing"),
    HadamardResponse(),
    HadamardResponse(n_blocks=2),
    SubsetSelection(subset_size=2),
    ProjectiveGeometryResponse(),
]
BUDGETS = [(0.5, 1.5), (1.0, 2.0), (2.0, 5.0)]
_MOST_SETS = 10_000


def revealed(oracle: Any, epsilon: float, forever: float, d: int = 5) -> list[str]:
    """Return what reports of a small domain reveal, and how far one is from the oracle's."""
    channel = clone(oracle).set_params(epsilon=epsilon).channel(d).for_enumeration()
    chain = Chain(channel, epsilon, forever)
    laws = single_laws(chain, d)
    once = [exact_report_distribution(channel, code) for code in range(d)]
    both = list(zip(laws, once, strict=True))
    off = max(abs(law[y] / one[y] - 1) for law, one in both for y in one)
    ok = ratio(laws) <= exp_lower_bound(epsilon)
    ok &= ratio(permanent_laws(chain, d)) <= exp_lower_bound(forever)
    n_kinds = len(laws[0])
    counts = [n for n in (1, 2, 3, 5) if comb(n_kinds + n - 1, n) <= _MOST_SETS]
    found = [f"{leak:.4f}" for leak in leaks(chain, d, counts)]
    exact, (drawn, mean) = _variance(channel, *both[0]), _drawn(oracle, epsilon, forever)
    return [
        candidate_name(oracle),
        f"{epsilon:g} / {forever:g}",
        f"2^{log2(off):.1f}" if off else "0",
        "yes" if ok else "NO",
        *found,
        *[""] * (4 - len(found)),
        f"{exact - 1:+.1e}",
        f"{drawn - 1:+.2%}",
        f"{mean:.3f}",
    ]


def _variance(channel: Any, law: Any, once: Any) -> float:
    """Variance of the estimate of a rare category from single reports, over the oracle's."""
    reports = list(once)
    is_number = channel.report_fields[0].width is None and len(channel.report_fields) == 1
    array = np.array(reports)[:, 0] if is_number else np.array(reports)
    supported = channel.supports(channel.check_reports(array), np.arange(2))
    of = [np.array([float(x[y]) for y in reports]) @ supported for x in (law, once)]
    return _of(*of[0]) / _of(*of[1])


def _of(p: float, q: float) -> float:
    return q * (1 - q) / (p - q) ** 2


def _drawn(oracle: Any, epsilon: float, forever: float, d: int = 32) -> tuple[float, float]:
    """Return the same variance from 400,000 drawn reports, and the estimate where all have one."""
    channel = clone(oracle).set_params(epsilon=epsilon).channel(d)
    chain, coins = Chain(channel, epsilon, forever), SeededCoins(np.random.default_rng(0))
    n, code, support = 100_000, np.zeros(1, dtype=int), np.zeros(d)
    for _ in range(4):
        reports = chain.uniform(code, coins, n=n)
        is_permanent = chain.are_permanent(n, coins)
        reports[is_permanent] = chain.permanent(code, coins, n=int(is_permanent.sum()))
        support += channel.supports(reports, np.arange(d)).mean(axis=0) / 4
    once = channel.privatize(np.zeros(4 * n, dtype=int), coins)
    expected = channel.supports(once, np.arange(d)).mean(axis=0)
    p, q, q_once = float(channel.own_support), support[1:].mean(), expected[1:].mean()
    return q * (1 - q) / (q_once * (1 - q_once)), (support[0] - q) / (p - q_once)


def risks(d: int, n_rounds: int) -> list[list[str]]:
    """Return the share of users whose value is found, without and with a memo."""
    rows = []
    for oracle in (GRR(1.0, categories=d), OLH(1.0, categories=d), OUE(1.0, categories=d)):
        for forever in (None, 2.0, 1.0):
            risk = repeated_collection_risk(oracle, n_rounds, forever, random_state=0)
            memo = "none" if forever is None else f"{forever:g}"
            shown = [f"{risk[n - 1]:.3f}" for n in (1, 2, 4, 8, n_rounds)]
            rows.append([type(oracle).__name__, memo, *shown])
    return rows


def timing(n_reports: int, folder: str | None) -> list[str]:
    """Return seconds, seconds of CPU, and bytes of the file, for one client's reports."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        path = os.path.join(name, "memo.json")
        client = RepeatedClient(PROTOCOL, path, question="item", epsilon_forever=2.0)
        start, cpu = time.perf_counter(), time.process_time()
        for i in range(n_reports):
            client.report(i % 4, collection_round=str(i))
        seconds = time.perf_counter() - start, time.process_time() - cpu
        size = os.path.getsize(path)
        return [folder or tempfile.gettempdir(), *(f"{one:.1f}" for one in seconds), f"{size:,}"]


def main() -> None:
    """Print the tables."""
    parser = command(__doc__, __spec__)
    parser.add_argument("--kills", type=int, default=1000, help="(default: 1000)")
    parser.add_argument("--reports", type=int, default=10_000, help="(default: 10,000)")
    parser.add_argument("--memory", default=None, help="also time the reports in this folder")
    arguments = parser.parse_args()
    header = ["oracle", "epsilons", "law of one\nis off by", "never\nabove"]
    header += [f"revealed by\n{n} reports" for n in (1, 2, 3, 5)]
    header += ["variance\nenumerated", "variance\ndrawn", "mean\ndrawn"]
    print(format_table(header, [revealed(o, *both) for o in ORACLES for both in BUDGETS]))
    header = ["oracle", "epsilon\nforever"]
    header += [f"found after\n{n} reports" for n in (1, 2, 4, 8, 20)]
    print("\n" + format_table(header, risks(20, 20)))
    folders = [None] if arguments.memory is None else [None, arguments.memory]
    header = ["folder", f"seconds for\n{arguments.reports:,} reports", "of CPU"]
    header.append("bytes of\nthe file")
    print("\n" + format_table(header, [timing(arguments.reports, one) for one in folders]))
    with tempfile.TemporaryDirectory() as name:
        start = time.perf_counter()
        done = kills(Path(name), arguments.kills)
        seconds = time.perf_counter() - start
    print(
        f"\n{done.n_kills:,} kills of clients of {done.n_files} files in {seconds:.0f} s: "
        f"{done.n_handed_out:,} reports handed out, no second permanent report, none beyond the "
        "cap, every file read"
    )


if __name__ == "__main__":
    main()
