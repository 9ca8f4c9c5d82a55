"""Check the targets of the design: some with the race's results, the rest measured here."""

from __future__ import annotations

from collections.abc import Callable

from sklearn_ldp import OLH, SyntheticSearch
from sklearn_ldp.datasets import make_zipf

from .._timing import seconds
from ._contest import OURS, PEERS, SIZES, Result
from .regression import N_ROWS, import_seconds, postprocessor_paths

SMALL, MANY, LARGE = SIZES
RIVALS = list(PEERS)[:2]  # the targets of the design compare with these two
# The oracles, how many times as fast as whom they are to be.
RATIOS = [
    (["OLH"], 1000, RIVALS),
    (["OUE", "SUE"], 10, RIVALS),
    (["SubsetSelection"], 25, [*RIVALS, "ldp-toolbox"]),
]
POWER = ("Power", "PowerNS")
LEARNT = ("EmpiricalBayes",)  # no closed form, and no target


Check = tuple[str, str, bool]  # a target, the measured value, and whether it reaches the target


def check_targets(results: list[Result]) -> list[Check]:
    """Return a check for each row of the design's table that these results can decide."""
    of = {(r.package, r.oracle, (r.n_samples, r.n_categories)): r for r in results}
    checks = []
    for names, factor, rivals in RATIOS:
        ratios = {
            f"{name} {package}": of[package, name, SMALL].seconds / of[OURS, name, SMALL].seconds
            for name in names
            for package in rivals
            if (package, name, SMALL) in of
        }
        if ratios:
            text = ", ".join(f"{name}: {value:,.0f}" for name, value in ratios.items())
            target = f"{' / '.join(names)} at {_size(SMALL)}: {factor} times as fast as the peers"
            checks.append((target, text, min(ratios.values()) >= factor))
    seconds = of[OURS, "OLH", LARGE].seconds
    checks.append((f"OLH at {_size(LARGE)}: under 1 s", f"{seconds:.2f} s", seconds < 1))
    peaks = {r: of[OURS, *r].peak_mib for r in [(n, s) for n in ("OUE", "SUE") for s in SIZES]}
    worst = max(peaks.values())
    checks.append(("OUE / SUE: under 300 MB", f"at most {worst:.0f} MiB", worst < 286))
    nanoseconds = {
        name: 1e9 * max(of[OURS, name, size].seconds / size[0] for size in (SMALL, MANY))
        for name in ("GRR", "HadamardResponse", "ProjectiveGeometryResponse")
    }
    text = ", ".join(f"{name} {value:.0f}" for name, value in nanoseconds.items())
    target = "GRR, HadamardResponse, ProjectiveGeometryResponse: under 150 ns a user"
    checks.append((target, text, max(nanoseconds.values()) < 150))
    return checks + _without_peers()


def _without_peers() -> list[Check]:
    """Return the checks of the post-processors, the search and the import."""
    row = {name: 1e3 * seconds(work) / N_ROWS for name, work in postprocessor_paths()}
    row = {name.removeprefix("post "): value for name, value in row.items()}
    closed = {n: value for n, value in row.items() if not n.startswith(POWER + LEARNT)}
    slowest, took = max(closed.items(), key=lambda pair: pair[1])
    checks = [
        _check("closed-form post-processors, d = 42,178: under 20 ms a row", slowest, took, 20)
    ]
    slowest, took = max(((n, row[n]) for n in POWER if n in row), key=lambda pair: pair[1])
    checks.append(_check("Power and PowerNS, the same: under 100 ms", slowest, took, 100))
    values = make_zipf(1_000_000, 1_024, exponent=1.1, random_state=0)
    estimate = OLH(categories=1_024, random_state=0).fit_transform(values)
    search: Callable = SyntheticSearch(n_repeats=30, random_state=0).fit
    took = seconds(lambda: search(estimate))
    target = "SyntheticSearch, d = 1,024, the default candidates, 30 repeats: under 3 s"
    checks.append((target, f"{took:.2f} s", took < 3))
    pipeline, own = import_seconds()
    target = "import sklearn_ldp: at most 50 ms beyond import sklearn.pipeline"
    text = f"{1e3 * own:.0f} ms beyond {1e3 * pipeline:.0f} ms"
    return [*checks, (target, text, own <= 0.05)]


def _check(target: str, slowest: str, took: float, limit: float) -> Check:
    return target, f"at most {took:.1f} ms ({slowest})", took < limit


def _size(size: tuple[int, int]) -> str:
    return f"n = {size[0]:,}, d = {size[1]:,}"
