"""Reports added up, with the ledger of the batches they came in: what shards, files and machines
exchange."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..protocols import Counts, Protocol, as_protocol
from ..protocols._protocol import configuration_difference
from ._batches import RefusedBatchError, check_batch_id, repeated
from ._convert import as_chunks


@dataclass(frozen=True, eq=False)
class Tally:
    """What some batches of reports add up to; ``a + b`` adds two.

    It is what a worker sends back: exact integers, the names of the batches and the configuration
    of their reports. It does not depend on the order in which batches were added.

    Parameters
    ----------
    configuration : dict
        Of the reports, see :func:`report_configuration`.
    tallies : ndarray of shape (n_shards, tally_size)
        Sums of the shards' tallies, int64.
    sizes : ndarray of shape (n_shards,)
        Number of reports of each shard.
    batches : dict
        Number of reports of each batch, by its id.
    """

    configuration: dict[str, Any]
    tallies: np.ndarray
    sizes: np.ndarray
    batches: dict[str, int]

    @classmethod
    def of(cls, protocol: Protocol, counts: Counts, batches: dict[str, int]) -> Tally:
        """Return the tally of a protocol's counts, a copy of the ledger with it."""
        return cls(dict(protocol.configuration), counts.tallies[0], counts.sizes[0], dict(batches))

    @property
    def counts(self) -> Counts:
        """The same without names: counts of a single group."""
        return Counts(self.tallies[None], self.sizes[None])

    @property
    def n_samples(self) -> int:
        """Number of reports."""
        return int(self.sizes.sum())

    def __add__(self, other):
        if not isinstance(other, Tally):
            return NotImplemented
        refuse_difference("Tally", other, self.configuration, self.counts)
        twice = sorted(other.batches.keys() & self.batches.keys())
        if twice:
            raise repeated("Tally", twice)
        total, batches = self.counts + other.counts, {**self.batches, **other.batches}
        return Tally(self.configuration, total.tallies[0], total.sizes[0], batches)


def refuse_difference(name: str, theirs: Tally, configuration: dict, ours: Counts) -> None:
    """Raise ValueError if a tally is not of the configuration, or of other shards than ours."""
    what = configuration_difference(theirs.configuration, configuration)
    if not what and theirs.tallies.shape != ours.tallies.shape[1:]:
        what = f"{len(theirs.sizes)} shards instead of {ours.n_shards}"
    if what:
        raise RefusedBatchError(
            f"{name} refuses a tally of another collection ({what}): reports of two protocols do "
            "not add up. Make an estimate of each instead."
        )


def tally_reports(reports: Any, oracle: Any, batch_id: str, *, collection_round: str = "") -> Tally:
    """Add up one batch of reports: a pure function, for a worker to call.

    Memory stays bounded whatever the number of reports: arrays are worked on in pieces, iterators
    and Arrow streams are read once.

    Privacy: costs none.

    Parameters
    ----------
    reports : array-like, Arrow stream or iterator of those
        As the oracle's `privatize` returns them, all one batch.
    oracle : oracle or Protocol
        Unfitted, with declared categories; it stays as it is.
    batch_id : str
        Name of the batch. A batch's first report goes to a shard drawn from it, so that the result
        does not depend on what else was added before.
    collection_round : str, default=""
        Name of the collection.

    Returns
    -------
    Tally
        Of the batch.

    Raises
    ------
    RefusedBatchError
        If a report cannot come from the oracle; a ValueError.

    Examples
    --------
    >>> from sklearn_ldp import GRR
    >>> from sklearn_ldp.collection import tally_reports
    >>> oracle = GRR(1.0, categories=["yes", "no"], n_shards=2)
    >>> tally = tally_reports([0, 1, 1], oracle, "monday")
    >>> (tally + tally_reports([1, 0], oracle, "tuesday")).tallies.sum(axis=0)
    array([2, 3])
    """
    return tally_batch(reports, as_protocol(oracle, collection_round), batch_id)


def tally_batch(reports: Any, protocol: Protocol, batch_id: str) -> Tally:
    """As `tally_reports`, under a protocol made before."""
    check_batch_id(batch_id)
    counts = protocol.empty
    try:
        for chunk in as_chunks(reports, protocol):
            counts = _added(counts, chunk, protocol)
        if not counts.n_samples:
            raise ValueError("it holds no reports")
    except ValueError as error:
        raise RefusedBatchError(f"Batch {batch_id!r} is refused: {error}") from None
    counts = counts.rolled(_first_shard(batch_id, counts.n_shards))
    return Tally.of(protocol, counts, {batch_id: counts.n_samples})


def _added(counts: Counts, chunk: Any, protocol: Protocol) -> Counts:
    if not len(chunk):
        return counts
    # Checked piece by piece, while a piece is in the processor's cache.
    return counts.added(
        protocol.mechanism, len(chunk), lambda i, j: protocol.check(chunk[i:j]), protocol.n_jobs
    )


def _first_shard(batch_id: str, n_shards: int) -> int:
    """Where a batch begins, so that small batches do not all fill the same shards."""
    return int.from_bytes(hashlib.sha256(batch_id.encode()).digest()[:8], "little") % n_shards
