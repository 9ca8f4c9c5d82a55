"""Reports of fake users who promote some categories, as the literature and we can think of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    OUE,
    HadamardResponse,
    ProjectiveGeometryResponse,
    SubsetSelection,
)

_TRIES = 1 << 16  # hash functions that are tried at a time
_POOL = 5000  # reports that are searched for at once, and kept

Attack = Callable[[Any, np.ndarray, int, np.random.Generator], np.ndarray]


def lie(oracle: Any, targets: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Follow the protocol, with a target as the value (input poisoning)."""
    return oracle.protocol().privatize(rng.choice(targets, n), rng)


def name_target(oracle: Any, targets: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Report a target as it is (GRR)."""
    return rng.choice(targets, n)


def _bits_of_sizes(oracle: Any, targets: np.ndarray, sizes: Any, rng: Any) -> np.ndarray:
    """Set the bits of the targets, and uniform others until the report has its size."""
    places = rng.random((len(sizes), oracle.categories))
    places[:, targets] -= 1
    order = np.argsort(np.argsort(places, axis=1), axis=1)
    return (order < sizes[:, None]).astype(np.uint8)


def padded_bits(oracle: Any, targets: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Set as many bits as honest reports have on average (Cao, Jia and Gong)."""
    channel = oracle.channel()
    mean = round(float(channel.p + (channel.n_categories - 1) * channel.q))
    return _bits_of_sizes(oracle, targets, np.full(n, max(mean, len(targets))), rng)


def disguised_bits(
    oracle: Any, targets: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Set the bits of the targets, and others so that the sizes follow the honest law."""
    sizes = lie(oracle, targets, n, rng).sum(axis=1)
    return _bits_of_sizes(oracle, targets, np.maximum(sizes, len(targets)), rng)


def subsets_with_targets(
    oracle: Any, targets: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Report subsets that hold as many targets as they can, and uniform others."""
    k = lie(oracle, targets, 1, rng).shape[1]
    places = rng.random((n, oracle.categories))
    places[:, targets] -= 1
    return np.sort(np.argpartition(places, k - 1, axis=1)[:, :k], axis=1)


def chosen_functions(
    oracle: Any, targets: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Report functions that map as many targets to one value as any, drawn at random from these.

    The function 0 of linear hashing is not used: it maps everything to 0, which is easy to see.
    """
    if hasattr(oracle.channel(), "client"):
        return _mixing_reports(oracle, tuple(targets.tolist()), max(n, _POOL))[:n]
    return rng.choice(_linear_reports(oracle, targets), n)


def _linear_reports(oracle: Any, targets: np.ndarray) -> np.ndarray:
    channel = oracle.channel()
    functions, values = channel.n_functions, int(1 / channel.q)
    reports = np.indices((functions, values)).reshape(2, -1).T[values:]
    supported = channel.supports(reports, targets).sum(axis=1)
    return reports[supported == supported.max()]


_pools: dict[tuple, np.ndarray] = {}


def _mixing_reports(oracle: Any, targets: tuple, n: int) -> np.ndarray:
    """Return reports that support all targets, as many as asked for, by search."""
    key = (oracle.epsilon, oracle.categories, targets, n)
    if key not in _pools:
        rng, channel, found = np.random.default_rng(0), oracle.channel(), []
        while sum(map(len, found)) < n:
            seeds = rng.integers(channel.client.n_seeds, size=_TRIES)
            value = _hash(channel, seeds, targets[0])
            for code in targets[1:]:
                same = _hash(channel, seeds, code) == value
                seeds, value = seeds[same], value[same]
            found.append(np.column_stack([seeds, value]))
        _pools[key] = np.concatenate(found)[:n]
    return _pools[key]


def _hash(channel: Any, functions: np.ndarray, code: int) -> np.ndarray:
    """Return the values of functions at one category."""
    if hasattr(channel, "client"):
        return channel.client.hash(functions, channel.digests[code]).astype(np.int64)
    return channel.hash(functions, np.array([code])).astype(np.int64)


def chosen_values(
    oracle: Any,
    targets: np.ndarray,
    n: int,
    rng: np.random.Generator,
    parts: np.ndarray | None = None,
) -> np.ndarray:
    """Report honest (or assigned) functions, with the value that most targets have."""
    channel = oracle.channel()
    reports = lie(oracle, targets, n, rng)
    if parts is not None:
        reports[:, 0] = parts
    values = np.stack([_hash(channel, reports[:, 0], code) for code in targets.tolist()], axis=1)
    counts = np.stack([(values == t).sum(axis=1) for t in range(int(1 / channel.q))], axis=1)
    # Ties are broken at random, which is less regular than always the lowest value.
    reports[:, 1] = np.argmax(counts + rng.random(counts.shape), axis=1)
    return reports


def best_points(oracle: Any, targets: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Report columns or points that support as many targets as any, each as likely as the next."""
    channel = oracle.channel()
    points = np.arange(channel.report_fields[0].n_values)
    supported = channel.supports(points, targets).sum(axis=1)
    return rng.choice(points[supported == supported.max()], n)


#: Oracles at epsilon 1, each with the attacks of its reports, the most harmful ones last.
ATTACKS: list[tuple[Any, dict[str, Attack]]] = [
    (GRR(), {"lie": lie, "name a target": name_target}),
    (
        OUE(),
        {
            "lie": lie,
            "target bits, padded": padded_bits,
            "target bits, honest sizes": disguised_bits,
        },
    ),
    (SubsetSelection(), {"lie": lie, "subsets with targets": subsets_with_targets}),
    (OLH(), {"lie": lie, "chosen values": chosen_values, "chosen functions": chosen_functions}),
    (BLH(), {"lie": lie, "chosen values": chosen_values, "chosen functions": chosen_functions}),
    (
        OLH(hash_family="mixing"),
        {"lie": lie, "chosen values": chosen_values, "chosen functions": chosen_functions},
    ),
    (HadamardResponse(), {"lie": lie, "best columns": best_points}),
    (ProjectiveGeometryResponse(), {"lie": lie, "best points": best_points}),
]
