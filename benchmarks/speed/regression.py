"""Check whether a part of the package has become slower or needs more memory.

    python -m benchmarks.speed.regression    (or make regression)

The program measures the CPU time of important operations on one core, alternately with a NumPy
computation (the yardstick) in a separate process. It compares the ratios of both times with
``regression_baselines.json``. It also compares the peak memory, and the times of imports as
multiples of the time to import scikit-learn. The ratios depend on the kind of processor, so
baselines of one kind of machine are not valid for another kind. An operation is measured again if
its ratio exceeds the baseline, or if the ratio is so far below the baseline that a regression would
not be noticed. If the second ratio is also outside of the limits, the exit code is 1. ``--update``
writes the baselines.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import sklearn_ldp
from sklearn_ldp import GRR, OLH, EmpiricalBayes, HeldOutSearch, PrivacyWarning, SyntheticSearch
from sklearn_ldp._core.common.text import format_table
from sklearn_ldp.datasets import make_zipf
from sklearn_ldp.model_selection import default_candidates
from sklearn_ldp.queries import groups, ranges, top_k

from .._command import command
from .._timing import seconds
from ._contest import ORACLES

BASELINES = Path(__file__).with_name("regression_baselines.json")
FACTOR = STALE_FACTOR = 2.0
MEMORY_FACTOR, MEMORY_SLACK = 1.5, 10.0  # MiB
N_USERS, N_CATEGORIES, N_CATEGORIES_POST, N_ROWS = 100_000, 1_024, 42_178, 5
N_MANY_USERS = 10_000_000
ROUNDS = 5
#: Imports in one process, in this order, and their names in the table.
IMPORTS = {
    "import sklearn_ldp": "import sklearn_ldp",
    "import OLH": "from sklearn_ldp import OLH",
    "import": "from sklearn_ldp import NormSub",
}
QUICK = 0.02  # seconds: quicker work is repeated more often
# Run in a separate process: the peak above what the imports and the values take.
_MEMORY_PROBE = """
import sys
from pathlib import Path
import numpy as np
import sklearn_ldp

def peak():  # ru_maxrss would be the parent's, if that is larger
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

name, n, d = sys.argv[1:]
values = np.resize(np.arange(int(d)), int(n))
oracle = getattr(sklearn_ldp, name)(1.0, categories=int(d))
before = peak()  # names are imported when they are first used
oracle.fit_transform(values)
print((peak() - before) / 1024)
"""

_cpu_seconds = partial(seconds, repeats=1, clock=time.process_time)

Path_ = tuple[str, Callable[[], object]]


def main(arguments: list[str] | None = None) -> int:
    """Measure, compare and print; return 1 if a path is worse than its baseline allows."""
    parser = command(__doc__, __spec__)
    parser.add_argument("--update", action="store_true", help="write the baselines")
    parser.add_argument("--factor", type=float, default=FACTOR, help="(default: 2)")
    parser.add_argument("--yardsticks", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", PrivacyWarning)  # of reports with a seed
    if options.yardsticks:
        serve_yardsticks()
        return 0
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the processes it starts inherit it
    with threadpool_limits(limits=1):
        measured = measure_all()
        if options.update:
            rounded = {name: float(f"{value:.3g}") for name, value in measured.items()}
            BASELINES.write_text(json.dumps(rounded, indent=1) + "\n", encoding="ascii")
        baselines = json.loads(BASELINES.read_text(encoding="ascii"))
        # The best of several times is low by chance, too, where the yardstick was disturbed.
        for judge, better in ((partial(worse, factor=options.factor), min), (too_loose, max)):
            suspects = judge(measured, baselines)
            again = measure_all(only=suspects) if suspects else {}
            measured |= {name: better(value, measured[name]) for name, value in again.items()}
    print(table(measured, baselines, options.factor))
    failed, loose = worse(measured, baselines, options.factor), too_loose(measured, baselines)
    print(f"\n{len(measured)} paths, {len(failed)} worse than allowed: {', '.join(failed) or '-'}")
    missing = sorted(set(measured) ^ set(baselines))
    if missing:
        print(f"without a baseline, or a baseline without its path (--update): {missing}")
    if loose:
        print(f"baselines more than twice the measured, which would hide a regression: {loose}")
    return 1 if failed or missing or loose else 0


def allowed(name: str, baseline: float, factor: float = FACTOR) -> float:
    """Return the largest value that a measurement may have."""
    if name.startswith("memory"):
        return MEMORY_FACTOR * baseline + MEMORY_SLACK
    return factor * baseline


def worse(
    measured: dict[str, float], baselines: dict[str, float], factor: float = FACTOR
) -> list[str]:
    """Return the names of the paths that exceed their baseline by more than is allowed."""
    return [
        name
        for name, value in measured.items()
        if name in baselines and value > allowed(name, baselines[name], factor)
    ]


def too_loose(measured: dict[str, float], baselines: dict[str, float]) -> list[str]:
    """Return the names of the paths whose baseline is more than twice what they take now."""
    slack = {name: MEMORY_SLACK if name.startswith("memory") else 0.0 for name in measured}
    return [
        name
        for name, value in measured.items()
        if name in baselines and baselines[name] > STALE_FACTOR * value + slack[name]
    ]


def table(measured: dict[str, float], baselines: dict[str, float], factor: float) -> str:
    """Return a table of all measurements and their baselines."""
    rows = []
    for name, value in measured.items():
        baseline = baselines.get(name, float("nan"))
        verdict = "" if value <= allowed(name, baseline, factor) else "worse"
        rows.append([name, f"{value:.3g}", f"{baseline:.3g}", verdict])
    header = ["path", "now", "baseline", ""]
    units = (
        "times: of a NumPy yardstick's; imports: of sklearn.pipeline's, after it; "
        "memory: MiB at the peak"
    )
    return f"{units}\n{format_table(header, rows)}"


# -- measuring ----------------------------------------------------------------------------------
def measure_all(only: list[str] | None = None) -> dict[str, float]:
    """Measure every ratio and peak, or some of them, by name."""
    with yardsticks() as plain_seconds:
        return {
            name: measure()
            for name, measure in _measures(plain_seconds)
            if only is None or name in only
        }


def _measures(plain_seconds: Callable[[], float]) -> Iterator[tuple[str, Callable[[], float]]]:
    for name, work in hot_paths():
        yield name, partial(ratio, work, plain_seconds)
    for name in IMPORTS:
        yield name, partial(import_ratio, name)
    yield "start of the command line", partial(start_ratio, plain_seconds)
    for name in ORACLES:
        yield f"memory {name} fit", partial(peak_memory, name, N_USERS)
    for name in ("GRR", "OLH"):
        yield f"memory {name} fit, {N_MANY_USERS:,} users", partial(peak_memory, name, N_MANY_USERS)
    for name, work in postprocessor_paths():
        yield f"memory {name}", partial(traced_peak, work)


def ratio(work: Callable[[], object], plain_seconds: Callable[[], float]) -> float:
    """Return the best time of some work in units of the yardstick, the two measured alternately."""
    rounds = ROUNDS if _cpu_seconds(work) > QUICK else 4 * ROUNDS
    pairs = [(_cpu_seconds(work), plain_seconds()) for _ in range(rounds)]
    own, plain = (min(times) for times in zip(*pairs, strict=True))
    return own / plain


@contextmanager
def yardsticks() -> Iterator[Callable[[], float]]:
    """Yield a function that returns the CPU seconds of one yardstick in a process of its own.

    In this process the yardstick would take less time after work that has once freed large arrays:
    from then on the C library keeps memory that it gave back to the system before.
    """
    command = [sys.executable, "-m", __spec__.name, "--yardsticks"]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, text=True, bufsize=1, **pipes) as other:
        given: Any = other.stdin
        answers: Any = other.stdout

        def plain_seconds() -> float:
            given.write("\n")
            return float(answers.readline())

        yield plain_seconds
        given.close()


def yardstick() -> None:
    """Draw a million integers, count them and add them up.

    None of these has special code for wide registers. np.sort has, so that ratios to it would tell
    more about the processor than about the paths.
    """
    codes = np.random.default_rng(0).integers(1_024, size=1_000_000)
    np.bincount(codes)
    np.cumsum(codes)


def serve_yardsticks() -> None:
    """Print the CPU seconds of one yardstick for each line that comes in."""
    yardstick()
    for _ in sys.stdin:
        print(_cpu_seconds(yardstick), flush=True)


def import_seconds(name: str = "import", rounds: int = ROUNDS) -> tuple[float, float]:
    """Return the best times of importing sklearn.pipeline, and then ours, in new processes.

    Ours is by default what a first example imports, as the package itself imports next to nothing.
    The result includes the earlier lines of `IMPORTS`.
    """
    lines = "; ".join(list(IMPORTS.values())[: list(IMPORTS).index(name) + 1])
    code = (
        "from time import process_time as now; a = now(); import sklearn.pipeline; b = now(); "
        f"{lines}; print(b - a, now() - b)"
    )
    with compiled_runs("-c", code) as run:
        times = [[float(t) for t in run().split()] for _ in range(rounds)]
    pipeline, own = (min(column) for column in zip(*times, strict=True))
    return pipeline, own


@contextmanager
def compiled_runs(*arguments: str) -> Iterator[Callable[[], str]]:
    """Yield a function that runs Python with these arguments in a new process.

    The function returns the output. The bytecode is already compiled, as after an installation by
    pip.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-X", f"pycache_prefix={folder}", *arguments]

        def run() -> str:
            options: dict[str, Any] = {"check": True, "capture_output": True, "text": True}
            return subprocess.run(command, env=environment, **options).stdout

        run()  # compiles the bytecode
        yield run


def import_ratio(name: str) -> float:
    """Return the time of some of our imports, in units of the time to import sklearn.pipeline."""
    pipeline, own = import_seconds(name)
    return own / pipeline


def start_ratio(plain_seconds: Callable[[], float]) -> float:
    """Return the CPU time of ``python -m sklearn_ldp --help`` in units of the yardstick."""

    def cpu_of_children() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    with compiled_runs("-m", "sklearn_ldp", "--help") as run:
        clock = partial(seconds, run, repeats=1, clock=cpu_of_children)
        return min(clock() for _ in range(ROUNDS)) / min(plain_seconds() for _ in range(ROUNDS))


def peak_memory(name: str, n_users: int) -> float:
    """Return the MiB that a collection takes at its peak, without the users' values."""
    task = [sys.executable, "-c", _MEMORY_PROBE, name, str(n_users), str(N_CATEGORIES)]
    return float(subprocess.run(task, check=True, capture_output=True, text=True).stdout)


def traced_peak(work: Callable[[], object]) -> float:
    """Return the MiB that NumPy and Python allocate at the peak of some work."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


# -- what is measured ---------------------------------------------------------------------------
def hot_paths() -> Iterator[Path_]:
    """Return the paths: client and server of every oracle, post-processors, and searches."""
    values = make_zipf(N_USERS, N_CATEGORIES, exponent=1.1, random_state=0)
    for name in ORACLES:
        make = partial(getattr(sklearn_ldp, name), 1.0, categories=N_CATEGORIES)
        reports = make(random_state=0).privatize(values)
        yield f"privatize {name}", lambda make=make: make().privatize(values)
        yield (
            f"aggregate {name}",
            lambda make=make, reports=reports: make().aggregate(reports).estimate_,
        )
    names = [f"answer {i}" for i in range(128)]
    text = pd.Series(np.array(names)[make_zipf(N_USERS, 128, random_state=0)])
    for kind in ("category", "str"):
        column = text.astype(pd.CategoricalDtype(names) if kind == "category" else kind)
        fit = partial(GRR(1.0, categories=names).fit, column)
        yield f"fit GRR to {'levels' if kind == 'category' else 'text'}", fit
    yield from postprocessor_paths()
    oracle = OLH(categories=N_CATEGORIES, random_state=0)
    estimate = oracle.fit_transform(values)
    yield "SyntheticSearch", lambda: SyntheticSearch(random_state=0).fit(estimate)
    yield "HeldOutSearch", lambda: HeldOutSearch().fit(estimate)


def postprocessor_paths() -> Iterator[Path_]:
    """Return the paths of the default candidates on several rows of a large domain."""
    counts = make_zipf(1_000_000, N_CATEGORIES_POST, return_counts=True, random_state=0)
    rows = OLH(categories=N_CATEGORIES_POST, random_state=0).simulate(counts, N_ROWS)
    for post in default_candidates():
        yield f"post {type(post).__name__}", lambda post=post: post.fit(rows)
    labels = np.arange(N_CATEGORIES_POST) % 50
    for queries in (groups(labels), ranges(10), top_k(10)):
        told = EmpiricalBayes(queries=queries)
        yield f"post EmpiricalBayes, {queries!r}", lambda told=told: told.fit(rows)


if __name__ == "__main__":
    sys.exit(main())
