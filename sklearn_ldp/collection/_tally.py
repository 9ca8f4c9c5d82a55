"""Sums of reports with the ledger of their batches, which shards, files and machines exchange."""

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
    """Sums of some batches of reports; ``a + b`` adds up two tallies.

    A tally is what a worker sends back: exact integers, the names of the batches and the
    configuration of their reports. It does not depend on the order in which batches were added.

    Parameters
    ----------
    configuration : dict
        Configuration of the reports, see :func:`report_configuration`.
    tallies : ndarray of shape (n_shards, tally_size)
        Sum of the tallies of each shard's reports, int64.
    sizes : ndarray of shape (n_shards,)
        Number of reports in each shard.
    batches : dict
        Number of reports of each batch, keyed by its id.
    """

    configuration: dict[str, Any]
    tallies: np.ndarray
    sizes: np.ndarray
    batches: dict[str, int]

    @classmethod
    def of(cls, protocol: Protocol, counts: Counts, batches: dict[str, int]) -> Tally:
        """Return the tally of a protocol's counts, with a copy of the ledger.

        Parameters
        ----------
        protocol : Protocol
            The protocol of the reports.
        counts : Counts
            Sums of the reports, in a single group.
        batches : dict
            Number of reports of each batch, keyed by its id.

        Returns
        -------
        Tally
            The sums with configuration and ledger.
        """
        return cls(dict(protocol.configuration), counts.tallies[0], counts.sizes[0], dict(batches))

    @property
    def counts(self) -> Counts:
        """The sums without the ledger: counts of a single group."""
        return Counts(self.tallies[None], self.sizes[None])

    @property
    def n_samples(self) -> int:
        """Number of reports."""
        return int(self.sizes.sum())

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        refuse_difference("Tally", other, self.configuration, self.counts)
        twice = sorted(other.batches.keys() & self.batches.keys())
        if twice:
            raise repeated("Tally", twice)
        total, batches = self.counts + other.counts, {**self.batches, **other.batches}
        return Tally(self.configuration, total.tallies[0], total.sizes[0], batches)


def refuse_difference(name: str, theirs: Tally, configuration: dict, ours: Counts) -> None:
    """Raise RefusedBatchError if a tally has another configuration or number of shards."""
    what = configuration_difference(theirs.configuration, configuration)
    if not what and theirs.tallies.shape != ours.tallies.shape[1:]:
        what = f"{len(theirs.sizes)} shards instead of {ours.n_shards}"
    if what:
        raise RefusedBatchError(
            f"{name} refuses a tally of another collection ({what}): reports of two protocols "
            "cannot be added up. Estimate from each of them separately."
        )


def tally_reports(reports: Any, oracle: Any, batch_id: str, *, collection_round: str = "") -> Tally:
    """Add up one batch of reports: a pure function that a worker can call.

    Memory stays bounded whatever the number of reports: arrays are processed in pieces,
    iterators and Arrow streams are read once.

    Privacy: costs none.

    Parameters
    ----------
    reports : array-like, Arrow stream or iterator of those
        Reports as returned by the oracle's `privatize`; together they are one batch.
    oracle : oracle or Protocol
        Unfitted, with declared categories; it is not modified.
    batch_id : str
        Name of the batch. It determines the shard of the batch's first report, so that the result
        does not depend on what was added before.
    collection_round : str, default=""
        Name of the collection.

    Returns
    -------
    Tally
        The tally of the batch.

    Raises
    ------
    RefusedBatchError
        If a report cannot come from the oracle. This is a ValueError.

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
    """Add up a batch as `tally_reports` does, for a protocol that exists already."""
    check_batch_id(batch_id)
    counts = protocol.empty
    try:
        for chunk in as_chunks(reports, protocol):
            counts = _added(counts, chunk, protocol)
        if not counts.n_samples:
            raise ValueError("it holds no reports")
    except RefusedBatchError:  # of the file that the batch is in
        raise
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
    """The shard of a batch's first report; small batches must not all fill the same shards."""
    return int.from_bytes(hashlib.sha256(batch_id.encode()).digest()[:8], "little") % n_shards
