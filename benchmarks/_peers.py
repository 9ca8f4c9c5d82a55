"""Time other packages, for ``benchmarks.oracle_speed``: run by an interpreter that has them.

Reads one JSON object from the standard input (n_samples, n_categories, epsilon, limit) and writes
one JSON line a measurement. It needs NumPy and the packages; nothing of ours.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

_ROUNDS = 3
_PROBE_USERS = 1000


def main() -> None:
    """Measure all peers, each as fast as its documentation makes it."""
    task = json.load(sys.stdin)
    values = np.random.default_rng(0).integers(task["n_categories"], size=task["n_samples"])
    for package, peers in (("pure-ldp", pure_ldp), ("multi-freq-ldpy", multi_freq_ldpy)):
        for oracle, collect in peers(task["n_categories"], task["epsilon"]):
            collect(values[:10])  # compiles what is compiled
            n, seconds = measure(collect, values.tolist(), task["limit"])
            row = {"package": package, "oracle": oracle, "n_timed": n, "seconds": seconds}
            print(json.dumps(row), flush=True)


def measure(collect: Callable, values: list[int], limit: float) -> tuple[int, float]:
    """Users timed, and seconds for all of them: extrapolated where it would exceed the limit."""
    probe = _seconds(collect, values[:_PROBE_USERS])
    expected = probe * len(values) / _PROBE_USERS
    if expected <= limit:
        n, rounds = len(values), _ROUNDS if expected <= limit / 6 else 1
    else:
        n, rounds = max(_PROBE_USERS, int(len(values) * limit / 6 / expected)), 1
    best = min(_seconds(collect, values[:n]) for _ in range(rounds))
    return n, best * len(values) / n


def _seconds(collect: Callable, values: list[int]) -> float:
    start = time.perf_counter()
    collect(values)
    return time.perf_counter() - start


def pure_ldp(d: int, epsilon: float) -> Iterator[tuple[str, Callable]]:
    """Oracles of pure-ldp: values in, estimates of all categories out."""
    from pure_ldp.frequency_oracles import (
        direct_encoding,
        hadamard_response,
        local_hashing,
        unary_encoding,
    )

    def same(value):
        return value

    def pair(client, server, **options):
        def collect(values):
            privatise = client(epsilon, d, index_mapper=same, **options).privatise
            receiver = server(epsilon, d, index_mapper=same, **options)
            for value in values:
                receiver.aggregate(privatise(value))
            return receiver.estimate_all(range(d), suppress_warnings=True)

        return collect

    def hadamard(values):
        receiver = hadamard_response.HadamardResponseServer(epsilon, d, index_mapper=same)
        functions = receiver.get_hash_funcs()
        client = hadamard_response.HadamardResponseClient(epsilon, d, functions, index_mapper=same)
        for value in values:
            receiver.aggregate(client.privatise(value))
        return receiver.estimate_all(range(d), suppress_warnings=True)

    hashing = local_hashing.LHClient, local_hashing.LHServer
    unary = unary_encoding.UEClient, unary_encoding.UEServer
    yield "GRR", pair(direct_encoding.DEClient, direct_encoding.DEServer)
    yield "SUE", pair(*unary, use_oue=False)
    yield "OUE", pair(*unary, use_oue=True)
    yield "BLH", pair(*hashing, use_olh=False)
    yield "OLH", pair(*hashing, use_olh=True)
    yield "HadamardResponse", hadamard


def multi_freq_ldpy(d: int, epsilon: float) -> Iterator[tuple[str, Callable]]:
    """Oracles of multi-freq-ldpy: values in, estimates of all categories out."""
    from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, SS, UE

    def grr(values):
        reports = [GRR.GRR_Client(value, d, epsilon) for value in values]
        return GRR.GRR_Aggregator_MI(reports, d, epsilon)

    def unary(optimal):
        def collect(values):
            reports = [UE.UE_Client(value, d, epsilon, optimal) for value in values]
            return UE.UE_Aggregator_MI(reports, epsilon, optimal)

        return collect

    def hashing(optimal):
        def collect(values):
            reports = [LH.LH_Client(value, d, epsilon, optimal) for value in values]
            return LH.LH_Aggregator_MI(reports, d, epsilon, optimal)

        return collect

    def subset(values):
        reports = [SS.SS_Client(value, d, epsilon) for value in values]
        return SS.SS_Aggregator_MI(reports, d, epsilon)

    yield "GRR", grr
    yield "SUE", unary(False)
    yield "OUE", unary(True)
    yield "BLH", hashing(False)
    yield "OLH", hashing(True)
    yield "SubsetSelection", subset


if __name__ == "__main__":
    main()
