"""Batches of reports: their ids and errors, limits on their sizes, and keys that sign them."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ..mechanisms import OracleOrProtocol, as_protocol

_MAX_ID = 1000  # characters


class RefusedBatchError(ValueError):
    """A batch of reports was refused as a whole; the collection is unchanged.

    Parameters
    ----------
    message : str
        The reason for the refusal.
    batch_id : str, default=""
        Id of the batch, if the error is about a single batch that was counted before.
    """

    def __init__(self, message: str, batch_id: str = "") -> None:
        super().__init__(message)
        self.batch_id = batch_id


class RepeatedBatchError(RefusedBatchError):
    """A batch was refused because its id, or its reports, were seen before.

    Parameters
    ----------
    message : str
        The reason for the refusal.
    batch_id : str, default=""
        Id of the batch, if the error is about a single batch.
    """


def check_batch_id(batch_id: Any) -> None:
    """Raise ValueError if a ledger cannot store the id."""
    if not isinstance(batch_id, str) or not 0 < len(batch_id) <= _MAX_ID:
        raise ValueError(
            f"A batch's id must be a string of 1 to {_MAX_ID} characters, got {batch_id!r:.80}."
        )
    try:
        batch_id.encode()
    except UnicodeEncodeError:
        raise ValueError(f"A batch's id must be valid Unicode, got {batch_id!r:.80}.") from None


def report_configuration(oracle: OracleOrProtocol, *, collection_round: str = "") -> dict[str, Any]:
    """Return the configuration that clients and servers must share for their reports to add up.

    Files of reports and checkpoints contain it. Every reader compares it with the expected
    configuration.

    Parameters
    ----------
    oracle : oracle or Protocol
        Unfitted, with declared categories.
    collection_round : str, default=""
        Name of the collection. Reports of one round are not added to another round.

    Returns
    -------
    dict
        Plain numbers and strings: the oracle, epsilon, the number of categories, their SHA-256
        digest, the mechanism's own settings such as the hash family, the integers of a report, p
        and q if the mechanism has them, and the round.

    Raises
    ------
    ValueError
        If the oracle's domain is unknown.
    TypeError
        If the type of a category has no portable form, which is the same on every machine.

    Examples
    --------
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.collection import report_configuration
    >>> configuration = report_configuration(OLH(1.0, categories=["a", "b"]))
    >>> configuration["epsilon"], configuration["hash_range"], configuration["hash_family"]
    (1.0, 4, 'linear')
    """
    return dict(as_protocol(oracle, collection_round).configuration)


# -- limits on the size of a batch, and on the total of a source of batches ----------------------


def source_of(batch_id: str) -> str:
    """Return the part before the first slash of an id.

    Parameters
    ----------
    batch_id : str
        Id of a batch, such as ``relay-7/0001``.

    Returns
    -------
    str
        The source, such as ``relay-7``. All ids without a slash share the source "", so
        clients cannot escape the limits per source by omitting the slash.
    """
    return batch_id.partition("/")[0] if "/" in batch_id else ""


@dataclass(frozen=True)
class Caps:
    """Limits on batches and on their sources; None means no limit.

    A batch beyond a limit is refused as a whole. Unless files are signed with a key, a sender can
    claim any batch id. So the limits on sources need a key, or a transport that authenticates the
    sender.

    Parameters
    ----------
    max_batch_reports : int, default=None
        Maximum number of reports in a batch.
    min_batch_reports : int, default=None
        Minimum number of reports in a batch. A small batch reveals much about its few users.
    max_source_batches : int, default=None
        Maximum number of batches of one source.
    max_source_reports : int, default=None
        Maximum number of reports of one source, over all of its batches.
    source : callable, default=source_of
        Returns the source of a batch's id, a str. The default is the text before the first slash;
        all ids without a slash have the same source.

    Raises
    ------
    ValueError
        If a limit is not a whole number >= 1, or if no batch could satisfy all limits.

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
    sklearn_ldp...RefusedBatchError: Batch 'relay-7/2' is refused: it has 1 ...
    """

    max_batch_reports: int | None = None
    min_batch_reports: int | None = None
    max_source_batches: int | None = None
    max_source_reports: int | None = None
    source: Callable[[str], str] = source_of

    def __post_init__(self) -> None:
        limits = {name: cap for name, cap in vars(self).items() if name != "source"}
        for name, cap in limits.items():
            is_whole = isinstance(cap, Integral) and not isinstance(cap, bool)
            if cap is not None and not (is_whole and cap >= 1):
                raise ValueError(f"{name} must be a whole number >= 1 or None, got {cap!r}.")
        most = [cap for cap in (self.max_batch_reports, self.max_source_reports) if cap is not None]
        if self.min_batch_reports is not None and most and self.min_batch_reports > min(most):
            raise ValueError(
                f"min_batch_reports={self.min_batch_reports} excludes every batch, because at "
                f"most {min(most)} reports are allowed. Choose a smaller minimum."
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
            raise _refused(
                batch_id,
                f"it has {n_samples} reports, but at most {most} are accepted. Split it into "
                "smaller batches",
            )
        if least is not None and n_samples < least:
            text = f"it has {n_samples} reports, at least {least} are expected"
            why = "because a small batch reveals much about its users. Send it together with others"
            raise _refused(batch_id, f"{text}, {why}")


class Sources:
    """Number of batches and reports of each source, as far as there are limits.

    Parameters
    ----------
    caps : Caps
        The limits.
    """

    def __init__(self, caps: Caps):
        self._caps = caps
        self._most = {"batches": caps.max_source_batches, "reports": caps.max_source_reports}
        self._totals: dict[str, tuple[int, int]] = {}

    def add(self, batches: Mapping[str, int]) -> None:
        """Count batches."""
        for _, source, total in self._running(batches):
            self._totals[source] = total

    def refuse(self, batches: Mapping[str, int]) -> None:
        """Raise RefusedBatchError if a batch, or its source with the batch, is beyond a limit."""
        for batch_id, n_samples in batches.items():
            self._caps.refuse_size(batch_id, n_samples)
        for batch_id, source, total in self._running(batches):
            for n, (name, most) in zip(total, self._most.items(), strict=True):
                if most is not None and n > most:
                    text = f"with it the source {source!r:.200} would have {n} {name}"
                    raise _refused(batch_id, f"{text}, at most {most} are accepted")

    def _running(self, batches: Mapping[str, int]) -> Iterator[tuple[str, str, tuple[int, int]]]:
        """Yield each batch, its source, and the source's totals with it, if sources are limited."""
        totals: dict[str, tuple[int, int]] = {}
        for batch_id, n_samples in batches.items() if any(self._most.values()) else ():
            source = self._caps.source(batch_id)
            n_batches, n_reports = totals.get(source) or self._totals.get(source, (0, 0))
            totals[source] = n_batches + 1, n_reports + n_samples
            yield batch_id, source, totals[source]


def _refused(batch_id: str, reason: str) -> RefusedBatchError:
    return RefusedBatchError(f"Batch {batch_id!r} is refused: {reason}.")


# -- signatures that only owners of the key can make (HMAC-SHA-256, RFC 2104) ---------------------
LEAST_BYTES = 16


class Key:
    """The secret of the servers and clients that may add to a collection; its repr is empty.

    Parameters
    ----------
    secret : bytes
        At least 16 bytes.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes):
        self._secret = secret

    def __repr__(self) -> str:
        return "Key(...)"

    def tag(self, kind: str, content: bytes) -> str:
        """Return the keyed signature (tag) of a content, as 64 hexadecimal digits.

        Parameters
        ----------
        kind : str
            The kind of content. A tag of one kind of content is not valid for another kind.
        content : bytes
            The content to sign.
        """
        message = b"sklearn_ldp " + kind.encode() + b"\0" + content
        return hmac.new(self._secret, message, hashlib.sha256).hexdigest()

    def has_made(self, tag: Any, kind: str, content: bytes) -> bool:
        """Whether a tag is valid for the content."""
        if not isinstance(tag, str) or not tag.isascii():
            return False
        return hmac.compare_digest(tag, self.tag(kind, content))


def as_key(key: Any) -> Key | None:
    """Return the key of some bytes. The errors do not show the bytes.

    Raises
    ------
    TypeError
        If it is neither bytes nor None.
    ValueError
        If it is too short.
    """
    if key is None or isinstance(key, Key):
        return key
    if not isinstance(key, (bytes, bytearray)):
        raise TypeError(f"key must be bytes, or None for no signatures, got {type(key).__name__}.")
    if len(key) < LEAST_BYTES:
        raise ValueError(
            f"key must have at least {LEAST_BYTES} bytes, got {len(key)}. Draw one with "
            "secrets.token_bytes(32)."
        )
    return Key(bytes(key))
