"""Caps on what a batch, or a source of batches, may add to a collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral

from ._batches import RefusedBatchError

_NAMES = ("max_batch_reports", "min_batch_reports", "max_source_batches", "max_source_reports")


def source_of(batch_id: str) -> str:
    """Return what stands before the first slash of an id.

    Parameters
    ----------
    batch_id : str
        Id of a batch, such as ``relay-7/0001``.

    Returns
    -------
    str
        The source, such as ``relay-7``. Ids without a slash all have the source "", so that nobody
        gets around a cap by leaving the slash out.
    """
    return batch_id.partition("/")[0] if "/" in batch_id else ""


@dataclass(frozen=True)
class Caps:
    """Limits on batches and on their sources; None sets no limit.

    A batch beyond a limit is refused as a whole. Ids of batches are their senders' claims, unless
    files are signed with a key; so the limits on sources need a key, or a transport that knows who
    sends.

    Parameters
    ----------
    max_batch_reports : int, default=None
        Largest number of reports in a batch.
    min_batch_reports : int, default=None
        Least number of reports in a batch: a small batch says much about the few users in it.
    max_source_batches : int, default=None
        Largest number of batches of one source.
    max_source_reports : int, default=None
        Largest number of reports of one source, over all of its batches.
    source : callable, default=source_of
        Returns the source of a batch's id, a str: by default what stands before the first slash.
        Ids without a slash are all of one source.

    Raises
    ------
    ValueError
        If a limit is not a whole number >= 1, or if no batch could meet all of them.

    Examples
    --------
    >>> from sklearn_ldp import GRR
    >>> from sklearn_ldp.collection import Aggregator, Caps
    >>> server = Aggregator(GRR(1.0, categories=2), caps=Caps(min_batch_reports=3))
    >>> server.add([0, 1, 1], "relay-7/1")
    Aggregator(GRR, 3 reports in 1 batches)
    >>> server.add([0], "relay-7/2")
    Traceback (most recent call last):
    ...
    sklearn_ldp.collection...RefusedBatchError: Batch 'relay-7/2' is refused: it has 1 ...
    """

    max_batch_reports: int | None = None
    min_batch_reports: int | None = None
    max_source_batches: int | None = None
    max_source_reports: int | None = None
    source: Callable[[str], str] = source_of

    def __post_init__(self) -> None:
        for name in _NAMES:
            cap = getattr(self, name)
            if cap is not None and (
                not isinstance(cap, Integral) or isinstance(cap, bool) or cap < 1
            ):
                raise ValueError(f"{name} must be a whole number >= 1 or None, got {cap!r}.")
        most = [cap for cap in (self.max_batch_reports, self.max_source_reports) if cap is not None]
        if self.min_batch_reports is not None and most and self.min_batch_reports > min(most):
            raise ValueError(
                f"min_batch_reports={self.min_batch_reports} lets no batch through, because at "
                f"most {min(most)} reports are allowed."
            )

    def refuse_size(self, batch_id: str, n_samples: int) -> None:
        """Raise RefusedBatchError if a batch is too large or too small.

        Parameters
        ----------
        batch_id : str
            Id of the batch.
        n_samples : int
            Its number of reports.
        """
        most, least = self.max_batch_reports, self.min_batch_reports
        if most is not None and n_samples > most:
            raise _refused(batch_id, f"it has {n_samples} reports, at most {most} are accepted")
        if least is not None and n_samples < least:
            raise _refused(
                batch_id,
                f"it has {n_samples} reports, at least {least} are expected, because a small batch "
                "says much about its users: send it together with others",
            )


NO_CAPS = Caps()


class Sources:
    """Number of batches and reports of each source, as far as they are capped.

    Parameters
    ----------
    caps : Caps
        The limits.
    ledger : mapping
        The batches that are there already; they are not refused.
    """

    def __init__(self, caps: Caps, ledger: Mapping[str, int]):
        self._caps = caps
        self._is_needed = not (caps.max_source_batches is None and caps.max_source_reports is None)
        self._totals: dict[str, tuple[int, int]] = {}
        self.add(ledger)

    def add(self, batches: Mapping[str, int]) -> None:
        """Count batches."""
        if self._is_needed:
            self._count(self._totals, batches)

    def refuse(self, batches: Mapping[str, int]) -> None:
        """Raise RefusedBatchError if a batch, or its source with it, has too much or too little."""
        for batch_id, n_samples in batches.items():
            self._caps.refuse_size(batch_id, n_samples)
        if not self._is_needed:
            return
        sources = {self._caps.source(batch_id) for batch_id in batches}
        totals = {source: self._totals.get(source, (0, 0)) for source in sources}
        for batch_id, n_samples in batches.items():
            self._count(totals, {batch_id: n_samples})
            source = self._caps.source(batch_id)
            most = (self._caps.max_source_batches, self._caps.max_source_reports)
            for n, cap, name in zip(totals[source], most, ("batches", "reports"), strict=True):
                if cap is not None and n > cap:
                    raise _refused(
                        batch_id,
                        f"with it the source {source!r:.200} would have {n} {name}, at most {cap} "
                        "are accepted",
                    )

    def _count(self, totals: dict[str, tuple[int, int]], batches: Mapping[str, int]) -> None:
        for batch_id, n_samples in batches.items():
            source = self._caps.source(batch_id)
            n_batches, n_reports = totals.get(source, (0, 0))
            totals[source] = n_batches + 1, n_reports + n_samples


def _refused(batch_id: str, reason: str) -> RefusedBatchError:
    return RefusedBatchError(f"Batch {batch_id!r} is refused: {reason}.")
