"""What sums from elsewhere must fulfil before they are added up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..mechanisms import MAX_USERS
from ..mechanisms.mechanism import Mechanism
from ._batches import check_batch_id


def checked_sums(
    mechanism: Mechanism | None, tallies: Any, sizes: Any, batches: Mapping[str, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return sums as int64 after all checks that do not need the reports themselves.

    Parameters
    ----------
    mechanism : Mechanism or None
        The mechanism of the reports; None checks only what holds for all.
    tallies : ndarray of shape (n_shards, tally_size)
        Sums of each shard.
    sizes : ndarray of shape (n_shards,)
        Number of reports in each shard.
    batches : mapping
        Number of reports of each batch, keyed by its id.

    Returns
    -------
    (ndarray, ndarray)
        `tallies` and `sizes`.

    Raises
    ------
    ValueError
        If they are not integers, too large, do not agree with the ledger, or cannot be sums of so
        many reports.
    """
    tallies, sizes = _integers(tallies, "counts"), _integers(sizes, "sizes")
    if tallies.ndim != 2 or sizes.shape != tallies.shape[:1]:
        raise ValueError(f"its sums have the shapes {tallies.shape} and {sizes.shape}")
    if sizes.min(initial=0) < 0:
        raise ValueError(f"one of its shards has {sizes.min()} reports")
    n_samples = 0
    for batch_id, n in batches.items():
        check_batch_id(batch_id)
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
            raise ValueError(f"its ledger says that batch {batch_id!r:.80} has {n!r:.80} reports")
        n_samples += int(n)
    if n_samples != sum(sizes.tolist()):
        raise ValueError(
            f"its ledger and its counts do not agree: the ledger lists {n_samples} reports, its "
            f"sums are of {sum(sizes.tolist())}"
        )
    refuse_overflow(n_samples)
    if mechanism is not None:
        mechanism.check_tallies(tallies, sizes)
    return tallies, sizes


def refuse_overflow(largest: int) -> None:
    """Raise ValueError if a count is no longer exact."""
    if largest > MAX_USERS:
        raise ValueError(f"one of the counts would be {largest}, at most 2**53 is exact")


def _integers(array: Any, what: str) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype.kind not in "iu":
        raise ValueError(f"its {what} are of type {array.dtype}, expected integers")
    if array.size and not -MAX_USERS <= int(array.min()) <= int(array.max()) <= MAX_USERS:
        raise ValueError(
            f"its {what} run from {array.min()} to {array.max()}, expected at most 2**53"
        )
    return array.astype(np.int64, copy=False)
