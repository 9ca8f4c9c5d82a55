"""Batches of reports: their names, and what is said of those that are not taken."""

from __future__ import annotations

from typing import Any

_MAX_ID = 1000  # characters


class RefusedBatchError(ValueError):
    """A batch of reports that is refused whole; the collection is as it was."""


class RepeatedBatchError(RefusedBatchError):
    """A batch that was seen before."""


def repeated(name: str, batches: list[str]) -> RepeatedBatchError:
    """The error that says that batches were seen before."""
    more = f" and {len(batches) - 1} more" if len(batches) > 1 else ""
    return RepeatedBatchError(
        f"{name} has seen batch {batches[0]!r}{more} before: a report counts once. Leave the "
        "batch out, or ask to ignore repeats."
    )


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
