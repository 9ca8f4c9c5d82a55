"""Batches of reports: the configuration that they share, their ids, and errors for refused ones."""

from __future__ import annotations

from typing import Any

from ..mechanisms import OracleOrProtocol, as_protocol

_MAX_ID = 1000  # characters


class RefusedBatchError(ValueError):
    """A batch of reports was refused as a whole; the collection is unchanged."""

    #: Id of the batch, if the error is about a single one that was counted before.
    batch_id = ""


class RepeatedBatchError(RefusedBatchError):
    """A batch was refused because its id, or its reports, were seen before."""


def repeated(name: str, batches: list[str]) -> RepeatedBatchError:
    """Make the error for batches that were seen before."""
    more = f" and {len(batches) - 1} more" if len(batches) > 1 else ""
    return RepeatedBatchError(
        f"{name} has seen batch {batches[0]!r}{more} before: a report counts once. Leave the "
        "batch out, or ask to ignore repeats."
    )


def other_content(name: str, batch: str) -> RepeatedBatchError:
    """Make the error for a batch whose id was used for other reports."""
    return _of(
        batch,
        f"{name} has seen batch {batch!r} before, with other reports: this batch is refused, and "
        "the first one stays. Ask the sender which is right; if both are, send this one under an "
        "id of its own.",
    )


def copied(name: str, batch: str, original: str) -> RepeatedBatchError:
    """Make the error for a batch that was counted under another id."""
    return _of(
        batch,
        f"{name} has seen the reports of batch {batch!r} before, as batch {original!r}: a report "
        "counts once. Leave the batch out. (Batches do not agree by chance; if a simulation repeats"
        " itself, give every batch a seed of its own.)",
    )


def _of(batch: str, message: str) -> RepeatedBatchError:
    error = RepeatedBatchError(message)
    error.batch_id = batch
    return error


def check_batch_id(batch_id: Any) -> None:
    """Raise ValueError if the id cannot stand in a ledger."""
    if not isinstance(batch_id, str) or not 0 < len(batch_id) <= _MAX_ID:
        raise ValueError(
            f"A batch's id must be a string of 1 to {_MAX_ID} characters, got "
            f"{repr(batch_id)[:80]}."
        )
    try:
        batch_id.encode()
    except UnicodeEncodeError:
        raise ValueError(f"A batch's id must be valid Unicode, got {batch_id!r:.80}.") from None


def report_configuration(oracle: OracleOrProtocol, *, collection_round: str = "") -> dict[str, Any]:
    """Return what clients and servers must agree on for their reports to add up.

    Files of reports and checkpoints carry it, and whoever reads them compares it with the
    expected one.

    Parameters
    ----------
    oracle : oracle or Protocol
        Unfitted, with declared categories.
    collection_round : str, default=""
        Name of the collection: reports of one round are not added to another.

    Returns
    -------
    dict
        Plain numbers and strings: the oracle, epsilon, the number of categories, their SHA-256
        digest, the mechanism's own settings such as the hash family, the integers that a report
        consists of, p and q if the mechanism has them, and the round.

    Raises
    ------
    ValueError
        If the oracle's domain is not known.
    TypeError
        If a category is of a type that has no form that is the same on every machine.

    Examples
    --------
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.collection import report_configuration
    >>> configuration = report_configuration(OLH(1.0, categories=["a", "b"]))
    >>> configuration["epsilon"], configuration["hash_range"], configuration["hash_family"]
    (1.0, 4, 'linear')
    """
    return dict(as_protocol(oracle, collection_round).configuration)
