"""Reports added up, with the ledger of the batches they came in: what shards, files and machines
exchange."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..oracles import BaseOracle
from ..oracles._collection import Collection
from ._convert import as_chunks
from ._protocol import (
    Protocol,
    RefusedBatchError,
    RepeatedBatchError,
    difference,
    make_protocol,
)

_MAX_ID = 1000  # characters


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

    @property
    def n_samples(self) -> int:
        """Number of reports."""
        return int(self.sizes.sum())

    def __add__(self, other):
        if not isinstance(other, Tally):
            return NotImplemented
        refuse_difference("Tally", other, self.configuration, self)
        twice = sorted(other.batches.keys() & self.batches.keys())
        if twice:
            raise repeated("Tally", twice)
        return Tally(
            self.configuration,
            self.tallies + other.tallies,
            self.sizes + other.sizes,
            {**self.batches, **other.batches},
        )


def refuse_difference(name: str, theirs: Tally, configuration: dict, ours: Any) -> None:
    """Raise ValueError if a tally is not of the configuration, or of other shards than ours."""
    what = difference(theirs.configuration, configuration)
    if not what and theirs.tallies.shape != ours.tallies.shape:
        what = f"{len(theirs.sizes)} shards instead of {len(ours.sizes)}"
    if what:
        raise RefusedBatchError(
            f"{name} refuses a tally of another collection ({what}): reports of two protocols do "
            "not add up. Make an estimate of each instead."
        )


def repeated(name: str, batches: list[str]) -> RepeatedBatchError:
    """The error that says that batches were seen before."""
    more = f" and {len(batches) - 1} more" if len(batches) > 1 else ""
    return RepeatedBatchError(
        f"{name} has seen batch {batches[0]!r}{more} before: a report counts once. Leave the "
        "batch out, or ask to ignore repeats."
    )


def tally_reports(
    reports: Any, oracle: BaseOracle, batch_id: str, *, collection_round: str = ""
) -> Tally:
    """Add up one batch of reports: a pure function, for a worker to call.

    Memory stays bounded whatever the number of reports: arrays are worked on in pieces, iterators
    and Arrow streams are read once.

    Privacy: costs none.

    Parameters
    ----------
    reports : array-like, Arrow stream or iterator of those
        As the oracle's `privatize` returns them, all one batch.
    oracle : oracle
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
    return tally_batch(reports, make_protocol(oracle, collection_round), batch_id)


def tally_batch(reports: Any, protocol: Protocol, batch_id: str) -> Tally:
    """As `tally_reports`, under a protocol made before."""
    check_batch_id(batch_id)
    collection = protocol.empty
    try:
        for chunk in as_chunks(reports, protocol):
            collection = _added(collection, chunk, protocol)
        if not collection.n_samples:
            raise ValueError("it holds no reports")
    except ValueError as error:
        raise RefusedBatchError(f"Batch {batch_id!r} is refused: {error}") from None
    start = _first_shard(batch_id, len(collection.sizes))
    return Tally(
        protocol.configuration,
        np.roll(collection.tallies, start, axis=0) if start else collection.tallies,
        np.roll(collection.sizes, start),
        {batch_id: collection.n_samples},
    )


def _added(collection: Collection, chunk: Any, protocol: Protocol) -> Collection:
    if not len(chunk):
        return collection
    n_jobs = protocol.oracle.n_jobs
    # Checked piece by piece, while a piece is in the processor's cache.
    return collection.added(len(chunk), lambda i, j: protocol.check(chunk[i:j]), n_jobs)


def check_batch_id(batch_id: Any) -> None:
    """Raise if it cannot stand in a ledger."""
    if not isinstance(batch_id, str) or not 0 < len(batch_id) <= _MAX_ID:
        raise ValueError(
            f"A batch's id must be a text of 1 to {_MAX_ID} characters, got {repr(batch_id)[:80]}."
        )
    try:
        batch_id.encode()
    except UnicodeEncodeError:
        raise ValueError(f"A batch's id must be valid Unicode, got {batch_id!r:.80}.") from None


def _first_shard(batch_id: str, n_shards: int) -> int:
    """Where a batch begins, so that small batches do not all fill the same shards."""
    return int.from_bytes(hashlib.sha256(batch_id.encode()).digest()[:8], "little") % n_shards
