"""Batches of reports: their ids and errors, limits on their sizes, and keys that sign data."""

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
    """Error for a batch of reports that was refused; none of its reports was counted.

    Parameters
    ----------
    message : str
        The reason for the refusal.
    batch_id : str, default=""
        Id of the batch if the batch was counted before, otherwise empty.
    """

    def __init__(self, message: str, batch_id: str = "") -> None:
        super().__init__(message)
        self.batch_id = batch_id


class RepeatedBatchError(RefusedBatchError):
    """Error for a batch that was refused because its id or its reports were counted before.

    Parameters
    ----------
    message : str
        The reason for the refusal.
    batch_id : str, default=""
        Id of the repeated batch. It is empty if the error is about several batches.
    """


def check_batch_id(batch_id: Any) -> None:
    """Raise ValueError unless the id is a string of 1 to 1000 characters and valid Unicode."""
    if not isinstance(batch_id, str) or not 0 < len(batch_id) <= _MAX_ID:
        raise ValueError(
            f"The id of a batch must be a string of 1 to {_MAX_ID} characters, got "
            f"{batch_id!r:.80}. Pass another id."
        )
    try:
        batch_id.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"The id of a batch must be valid Unicode, got {batch_id!r:.80}. Pass an id without "
            "surrogate characters."
        ) from None


def report_configuration(oracle: OracleOrProtocol, *, collection_round: str = "") -> dict[str, Any]:
    """Return the settings that clients and server must share so that reports can be added up.

    Files of reports and checkpoints contain this configuration. Before a program reads such a file,
    it compares the configuration in the file with the configuration of its own oracle.

    Parameters
    ----------
    oracle : oracle or Protocol
        An unfitted oracle with declared categories, or its protocol.
    collection_round : str, default=""
        Name of the collection. Reports of two rounds are never added up.

    Returns
    -------
    dict
        Plain numbers and strings: the oracle, epsilon, the number of categories, the SHA-256
        digest of the categories, the settings of the mechanism such as the hash family, the columns
        of integers of which a report consists, p and q if the mechanism has them, and the round.

    Raises
    ------
    ValueError
        If the categories of the oracle are not declared.
    TypeError
        If a category has a type that is not stored in the same way on every machine.

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
    """Return the source of a batch, which is the text before the first slash of its id.

    Parameters
    ----------
    batch_id : str
        Id of a batch, such as ``relay-7/0001``.

    Returns
    -------
    str
        The source, such as ``relay-7``. All ids without a slash share the source "". So clients
        cannot evade the limits per source by omitting the slash.
    """
    return batch_id.partition("/")[0] if "/" in batch_id else ""


@dataclass(frozen=True)
class Caps:
    """Limits on the sizes of batches, and on the totals of each source of batches.

    A batch that violates a limit is refused as a whole. A limit of None has no effect. The source
    of a batch is computed from its id, and a sender can use any id if files are not signed. So use
    the limits on sources only with a key, or if the transport authenticates the senders.

    Parameters
    ----------
    max_batch_reports : int, default=None
        Maximum number of reports in one batch.
    min_batch_reports : int, default=None
        Minimum number of reports in one batch. A small batch reveals much about its few users.
    max_source_batches : int, default=None
        Maximum number of batches of one source.
    max_source_reports : int, default=None
        Maximum total number of reports in all batches of one source.
    source : callable, default=source_of
        Function that receives the id of a batch and returns the name of its source, a str. By
        default, the source is the text before the first slash, and all ids without a slash have the
        same source.

    Raises
    ------
    ValueError
        If a limit is neither None nor an integer >= 1, or if no batch can satisfy all limits.

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
                raise ValueError(
                    f"{name} must be an integer >= 1, or None for no limit; got {cap!r}. Pass an "
                    "integer or None."
                )
        most = [cap for cap in (self.max_batch_reports, self.max_source_reports) if cap is not None]
        if self.min_batch_reports is not None and most and self.min_batch_reports > min(most):
            raise ValueError(
                f"min_batch_reports={self.min_batch_reports} excludes every batch, because "
                f"max_batch_reports or max_source_reports allows at most {min(most)} reports. "
                "Choose a smaller minimum."
            )

    def refuse_size(self, batch_id: str, n_samples: int) -> None:
        """Raise RefusedBatchError if a batch has too many or too few reports.

        Parameters
        ----------
        batch_id : str
            Id of the batch.
        n_samples : int
            Number of reports in the batch.
        """
        most, least = self.max_batch_reports, self.min_batch_reports
        if most is not None and n_samples > most:
            raise _refused(
                batch_id,
                f"it has {n_samples} reports, but at most {most} are accepted. Split the batch "
                "into smaller batches",
            )
        if least is not None and n_samples < least:
            text = f"it has {n_samples} reports, but at least {least} are expected"
            why = (
                "because a small batch reveals much about its users. Combine the batch with "
                "other batches"
            )
            raise _refused(batch_id, f"{text}, {why}")


class Sources:
    """Total numbers of batches and reports of each source, if sources are limited.

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
        """Add the batches to the totals of their sources.

        `batches` maps each id to a number of reports.
        """
        for _, source, total in self._running(batches):
            self._totals[source] = total

    def refuse(self, batches: Mapping[str, int]) -> None:
        """Raise RefusedBatchError if batches would violate a limit.

        The limits apply to each batch, and to the totals of each source after the batches are
        added.
        """
        for batch_id, n_samples in batches.items():
            self._caps.refuse_size(batch_id, n_samples)
        for batch_id, source, total in self._running(batches):
            for n, (name, most) in zip(total, self._most.items(), strict=True):
                if most is not None and n > most:
                    text = f"with this batch, the source {source!r:.200} would have {n} {name}"
                    raise _refused(batch_id, f"{text}, but at most {most} are accepted")

    def _running(self, batches: Mapping[str, int]) -> Iterator[tuple[str, str, tuple[int, int]]]:
        """Yield the id of each batch, its source, and the source's totals including the batch.

        The totals are the numbers of batches and of reports. If sources are not limited, nothing is
        yielded.
        """
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
    """The secret key of a collection, which servers and trusted clients share.

    The key signs files, tallies and checkpoints. `repr` does not show its bytes.

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
        """Return the signature of some bytes, as 64 hexadecimal digits.

        Parameters
        ----------
        kind : str
            The type of the signed data, such as "tally". A signature for one type is not valid for
            another type.
        content : bytes
            The bytes to sign.
        """
        message = b"sklearn_ldp " + kind.encode() + b"\0" + content
        return hmac.new(self._secret, message, hashlib.sha256).hexdigest()

    def has_made(self, tag: Any, kind: str, content: bytes) -> bool:
        """Return whether `tag` is the signature of the content by this key."""
        if not isinstance(tag, str) or not tag.isascii():
            return False
        return hmac.compare_digest(tag, self.tag(kind, content))


def as_key(key: Any) -> Key | None:
    """Return the Key object of a secret, or None if there is no secret.

    The error messages do not show the bytes of the secret.

    Raises
    ------
    TypeError
        If the argument is not bytes, a Key or None.
    ValueError
        If the secret has fewer than 16 bytes.
    """
    if key is None or isinstance(key, Key):
        return key
    if not isinstance(key, (bytes, bytearray)):
        raise TypeError(
            f"key must be bytes, or None for no signatures, got {type(key).__name__}. Pass the "
            "bytes of the key."
        )
    if len(key) < LEAST_BYTES:
        raise ValueError(
            f"key must have at least {LEAST_BYTES} bytes, got {len(key)}. Make a key with "
            "secrets.token_bytes(32)."
        )
    return Key(bytes(key))
