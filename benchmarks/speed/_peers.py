"""Measure one oracle of one package; run by an interpreter that has the package.

Reads one JSON object from the standard input (package, oracle, values: a NumPy file with one
category code per user, n_categories, epsilon, seconds, mebibytes, and whether one value is to be
randomised instead) and writes one. Every package,
including ours, is measured by this code. It needs NumPy and the package, and nothing else.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

_ROUNDS = 3
_START_USERS = 10  # their time is the part that does not depend on the users
_FIRST_USERS = 100  # number of users tried first, then more and more
_TRUSTED_USERS = 2_000  # from this number, or one second, a forecast is good

Collect = Callable[[Any], np.ndarray]
Projection = Callable[[np.ndarray], np.ndarray]


def main() -> None:
    """Read the task, measure, and write the result."""
    task = json.load(sys.stdin)
    package = PACKAGES[task["package"]]
    oracles = package(task["n_categories"], task["epsilon"])
    privatize, collect = {name: rest for name, *rest in oracles}[task["oracle"]]
    if task["one_value"]:
        print(json.dumps({"microseconds": 1e6 * one_value(privatize)}))
        return
    values = np.load(task["values"])
    project = PROJECTIONS.get(task["package"], simplex_projection)
    users = values if task["package"] == "sklearn_ldp" else values.tolist()
    collect(users[:_START_USERS])  # compiles what is compiled at the first call
    row = measure(collect, project, users, task["seconds"], task["mebibytes"])
    n = row["n_timed"]
    truth = np.bincount(values[:n], minlength=task["n_categories"]) / n
    for stage in ("collected", "projected"):
        row[f"mse_{stage}"] = float(np.mean((row.pop(stage) - truth) ** 2))
    print(json.dumps(row))


def measure(collect: Collect, project: Projection, users, seconds, mebibytes) -> dict:
    """Time a collection and its projection on the simplex, for all users if the limits allow it.

    Otherwise fewer users are timed, and the time is extrapolated along a straight line in the
    number of users, which starts at the time of ten. The peak memory is that of the timed users.
    """
    n_users = len(users)
    start = _timed(lambda: collect(users[:_START_USERS]))[0]

    def forecast(took, n):
        slope = max(took - start, 0.0) / (n - _START_USERS)
        return start + slope * (n_users - _START_USERS)

    n = min(n_users, _FIRST_USERS)
    while True:
        took, growth, collected = _run(collect, users[:n])
        fits = forecast(took, n) <= seconds and growth * n_users / n <= mebibytes
        is_trusted = n >= _TRUSTED_USERS or took > 1
        if n < n_users and fits and is_trusted:
            n = n_users
        elif n < n_users and took <= seconds / 24 and growth <= mebibytes / 4:
            n = min(4 * n, n_users)
        else:
            break
    rounds = _ROUNDS - 1 if took < seconds / 6 else 0
    took = min([took, *(_timed(lambda: collect(users[:n]))[0] for _ in range(rounds))])
    projection, projected = min(
        (_timed(lambda: project(collected)) for _ in range(_ROUNDS)), key=lambda pair: pair[0]
    )
    return {
        "n_timed": n,
        "seconds": took if n == n_users else forecast(took, n),
        "projection_seconds": projection,
        "peak_mib": growth,
        "collected": collected,
        "projected": projected,
    }


def one_value(privatize: Privatize) -> float:
    """Return the best seconds of randomising one value, as a client on a device does."""
    n_calls = 1 + int(0.05 / (1e-7 + min(_timed(lambda: privatize(3))[0] for _ in range(_ROUNDS))))

    def calls():
        for _ in range(n_calls):
            privatize(3)

    return min(_timed(calls)[0] for _ in range(_ROUNDS)) / n_calls


def _run(collect: Collect, users) -> tuple[float, float, np.ndarray]:
    """Return seconds, MiB at the peak above what was held before, and the estimates."""
    _forget_peak()
    before = _memory("VmRSS")
    took, estimates = _timed(lambda: collect(users))
    return took, _memory("VmHWM") - before, estimates


def _timed(work: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Return processor and system seconds, which do not count what else runs on the machine."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def _memory(kind: str) -> float:
    """Return MiB; VmHWM is the peak. (getrusage may return the peak of the parent process.)"""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(kind))


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def simplex_projection(estimates: np.ndarray) -> np.ndarray:
    """Norm-Sub, for packages that do not have it."""
    falling = np.sort(estimates)[::-1]
    shifts = (np.cumsum(falling) - 1) / np.arange(1, len(falling) + 1)
    return np.maximum(estimates - shifts[np.flatnonzero(falling > shifts)[-1]], 0)


# -- the packages: each as fast as its documentation makes it ------------------------------------
# Each yields the name of an oracle, what randomises one value, and what collects many.
Privatize = Callable[[int], Any]
Oracles = Iterator[tuple[str, Privatize, Collect]]


def ours(d: int, epsilon: float) -> Oracles:
    """Oracles of sklearn_ldp, with secure coins."""
    import sklearn_ldp

    def collector(name):
        def collect(values):
            return getattr(sklearn_ldp, name)(epsilon, categories=d).fit_transform(values).values[0]

        return collect

    names = ["GRR", "SUE", "OUE", "BLH", "OLH", "HadamardResponse", "SubsetSelection"]
    for name in [*names, "ProjectiveGeometryResponse"]:
        client = getattr(sklearn_ldp, name)(epsilon, categories=d)
        yield name, lambda value, client=client: client.privatize([value]), collector(name)


def our_projection(estimates: np.ndarray) -> np.ndarray:
    """Norm-Sub of sklearn_ldp."""
    from sklearn_ldp.postprocessing import norm_sub

    return norm_sub(estimates)


def pure_ldp(d: int, epsilon: float) -> Oracles:
    """Oracles of pure-ldp, whose estimates are counts."""
    from pure_ldp.frequency_oracles import (
        direct_encoding,
        hadamard_response,
        local_hashing,
        unary_encoding,
    )

    def same(value):
        return value

    def estimates(client, server, values):
        for value in values:
            server.aggregate(client.privatise(value))
        return np.asarray(server.estimate_all(range(d), suppress_warnings=True)) / len(values)

    def pair(make_client, make_server, **options):
        options |= {"epsilon": epsilon, "d": d, "index_mapper": same}

        def collect(values):
            return estimates(make_client(**options), make_server(**options), values)

        return make_client(**options).privatise, collect

    def hadamard_client(server):
        functions = server.get_hash_funcs()
        return hadamard_response.HadamardResponseClient(epsilon, d, functions, index_mapper=same)

    def hadamard_server():
        return hadamard_response.HadamardResponseServer(epsilon, d, index_mapper=same)

    def hadamard(values):
        server = hadamard_server()
        return estimates(hadamard_client(server), server, values)

    hashing = local_hashing.LHClient, local_hashing.LHServer
    unary = unary_encoding.UEClient, unary_encoding.UEServer
    yield "GRR", *pair(direct_encoding.DEClient, direct_encoding.DEServer)
    yield "SUE", *pair(*unary, use_oue=False)
    yield "OUE", *pair(*unary, use_oue=True)
    yield "BLH", *pair(*hashing, use_olh=False)
    yield "OLH", *pair(*hashing, use_olh=True)
    yield "HadamardResponse", hadamard_client(hadamard_server()).privatise, hadamard


def pure_ldp_projection(estimates: np.ndarray) -> np.ndarray:
    """Norm-Sub of pure-ldp."""
    from pure_ldp.core.prob_simplex import project_probability_simplex

    return project_probability_simplex(estimates)


def multi_freq_ldpy(d: int, epsilon: float) -> Oracles:
    """Oracles of multi-freq-ldpy; it clips its estimates at 0 and divides them by their sum."""
    from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, SS, UE

    def pair(randomise, aggregate, *options):
        def privatise(value):
            return randomise(value, d, epsilon, *options)

        return privatise, lambda values: aggregate([privatise(value) for value in values])

    def unary(optimal):
        def aggregate(reports):
            return UE.UE_Aggregator_MI(reports, epsilon, optimal)

        return pair(UE.UE_Client, aggregate, optimal)

    def hashing(optimal):
        def aggregate(reports):
            return LH.LH_Aggregator_MI(reports, d, epsilon, optimal)

        return pair(LH.LH_Client, aggregate, optimal)

    yield "GRR", *pair(GRR.GRR_Client, lambda reports: GRR.GRR_Aggregator_MI(reports, d, epsilon))
    yield "SUE", *unary(False)
    yield "OUE", *unary(True)
    yield "BLH", *hashing(False)
    yield "OLH", *hashing(True)
    subsets = pair(SS.SS_Client, lambda reports: SS.SS_Aggregator_MI(reports, d, epsilon))
    yield "SubsetSelection", *subsets


def ldp_toolbox(d: int, epsilon: float) -> Oracles:
    """Oracles of ldp-toolbox; it clips its estimates at 0 and divides them by their sum."""
    from ldp_toolbox.protocols.frequency import grr, lh, ss, ue

    def pair(make, **options):
        def collect(values):
            protocol = make(d, epsilon, **options)
            return protocol.estimate([protocol.obfuscate(value) for value in values])

        return make(d, epsilon, **options).obfuscate, collect

    yield "GRR", *pair(grr.GeneralizedRandomizedResponse)
    yield "SUE", *pair(ue.UnaryEncoding, optimal=False)
    yield "OUE", *pair(ue.UnaryEncoding, optimal=True)
    yield "BLH", *pair(lh.LocalHashing, optimal=False)
    yield "OLH", *pair(lh.LocalHashing, optimal=True)
    yield "SubsetSelection", *pair(ss.SubsetSelection)


def opendp(d: int, epsilon: float) -> Oracles:
    """Randomised response of opendp, with secure randomness; it has no estimator for GRR."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    p = np.exp(epsilon) / (np.exp(epsilon) + d - 1)
    keep = dp.m.make_randomized_response(list(range(d)), prob=p)

    def grr(values):
        counts = np.bincount([keep(value) for value in values], minlength=d)
        q = (1 - p) / (d - 1)
        return (counts / len(values) - q) / (p - q)

    flip = 2 / (1 + np.exp(epsilon / 2))
    bits = dp.bitvector_domain(max_weight=1)
    flip_bits = dp.m.make_randomized_response_bitvec(bits, dp.discrete_distance(), flip)
    encoded = np.zeros(-(-d // 8), dtype=np.uint8)

    def randomise(value):
        encoded[value // 8] = 1 << value % 8
        report = flip_bits(encoded)
        encoded[value // 8] = 0
        return report

    def sue(values):
        reports = [randomise(value) for value in values]
        counts = dp.m.debias_randomized_response_bitvec(reports, flip)
        return np.asarray(counts)[:d] / len(values)

    yield "GRR", keep, grr
    yield "SUE", randomise, sue


PACKAGES = {
    "sklearn_ldp": ours,
    "pure-ldp": pure_ldp,
    "multi-freq-ldpy": multi_freq_ldpy,
    "ldp-toolbox": ldp_toolbox,
    "opendp": opendp,
}
PROJECTIONS = {"sklearn_ldp": our_projection, "pure-ldp": pure_ldp_projection}


if __name__ == "__main__":
    main()
