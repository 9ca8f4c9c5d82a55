"""The header of a file of reports, and its comparison with the protocol that a reader expects."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..mechanisms import Protocol
from ._batches import Key, check_batch_id

KEY = b"sklearn_ldp"  # the key of the header in the schema's metadata
FORMAT = "sklearn_ldp reports"
VERSION = 1
MAX_LENGTH = 1 << 16
POSTED = "posted/"  # prefix of the id of lines in the form in which clients post them


@dataclass(frozen=True)
class Header:
    """Description of the batch of reports in a file."""

    configuration: dict[str, Any]  # the result of :func:`report_configuration`
    batch_id: str  # name of the batch
    n_samples: int  # number of reports
    # Digest of the reports; empty for lines in the form that clients post, which have no digest.
    sha256: str
    tag: str = ""  # signature of all other fields; empty without a key

    @property
    def origin(self) -> str:
        """Return the digest that identifies a repeated file, as hexadecimal digits."""
        return self.sha256

    def signed(self, key: Key | None) -> Header:
        """Return a copy of the header with the signature of the key.

        If there is no key, return the header unchanged.
        """
        return self if key is None else replace(self, tag=key.tag("reports", self._content()))

    def refuse_unsigned(self, key: Key | None) -> None:
        """Raise ValueError unless the header has a valid signature of the key.

        If there is no key, nothing is raised.
        """
        if key is None or key.has_made(self.tag, "reports", self._content()):
            return
        if not self.tag:
            raise ValueError(
                "the file is not signed, but this collection accepts only signed files. Pass the "
                "key of the collection as key= to write_reports"
            )
        raise ValueError(
            "the file is signed with another key than the key of this collection, or was changed "
            "after it was signed. Write the file again with the key of the collection"
        )

    def _content(self) -> bytes:
        return json.dumps({**vars(self), "tag": ""}, sort_keys=True).encode()

    def to_json(self) -> str:
        """Return the header as one line of text."""
        batch = {"id": self.batch_id, "n_samples": self.n_samples, "sha256": self.sha256}
        if self.tag:
            batch["tag"] = self.tag
        content = {"format": FORMAT, "version": VERSION, "configuration": self.configuration}
        return json.dumps({**content, "batch": batch})


@dataclass(frozen=True)
class PostedHeader(Header):
    """Header of a file of posted lines.

    Posted lines are lines of JSON, each with a configuration and a report, as clients post them to
    a server. Such a file contains no header, so the header is computed from the lines.
    """

    place: str = ""  # digest of the path or address of their file; empty if there is no file
    # Earlier ids of the file, from the moments when it had as many lines as a batch in the ledger.
    prefixes: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        """Return the digest of the path or address of the file, which identifies a repeated file.

        A file of lines that clients posted contains no digest of its reports.
        """
        return self.place


def parse_header(text: str | bytes) -> Header:
    """Return the header in the text from `to_json`. Raise ValueError for any other text."""
    if len(text) > MAX_LENGTH:
        raise ValueError(
            f"the header has {len(text)} characters, but at most {MAX_LENGTH} are allowed. Check "
            "that the file was written by write_reports"
        )
    try:
        content = json.loads(text, parse_constant=_no_constant)
        if content["format"] != FORMAT:
            raise ValueError("another format")
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError(
            "the file contains no configuration of sklearn_ldp, so either it is damaged or "
            "write_reports has not written it. Write the file again with write_reports"
        ) from None
    if content.get("version") != VERSION:
        raise ValueError(
            f"the file has format version {content.get('version')!r:.80}, but this release reads "
            f"only version {VERSION}. Read the file with the release of sklearn_ldp that wrote it"
        )
    configuration = content.get("configuration")
    batch = content.get("batch")
    if not isinstance(configuration, dict) or not isinstance(batch, dict):
        raise ValueError("the header is damaged. Copy or write the file again")
    n_samples = batch.get("n_samples")
    sha256 = batch.get("sha256")
    tag = batch.get("tag", "")
    are_texts = isinstance(sha256, str) and isinstance(tag, str)
    if type(n_samples) is not int or n_samples < 1 or not are_texts:
        raise ValueError("the header is damaged. Copy or write the file again")
    check_batch_id(batch.get("id"))
    return Header(configuration, batch["id"], n_samples, str(sha256), tag)


def _no_constant(name):
    raise ValueError(name)


def schema_header(metadata: dict[bytes, bytes] | None) -> Header:
    """Return the header in the metadata of an Arrow schema.

    Raise ValueError if there is no header.
    """
    return parse_header((metadata or {}).get(KEY, b"{}"))


def refuse_other_configuration(theirs: dict[str, Any], protocol: Protocol) -> None:
    """Raise ValueError unless a configuration is the configuration of the protocol's reports."""
    if difference := protocol.difference(theirs):
        raise ValueError(
            f"the reports are reports of another collection: {difference}. Reports with different "
            "configurations cannot be added up. Pass an oracle with the same parameters as the "
            "oracle of the clients."
        )


class ContentDigest:
    """SHA-256 of columns of reports.

    The columns are added in pieces, and the sizes of the pieces do not change the digest.
    """

    # n_columns: number of columns.

    def __init__(self, n_columns: int):
        self._columns = [hashlib.sha256() for _ in range(n_columns)]
        self.n_samples = 0

    def add(self, columns: list[np.ndarray]) -> None:
        """Add a piece of all columns: a list of arrays of equal length, from `to_columns`."""
        self.n_samples += len(columns[0])
        for sha, column in zip(self._columns, columns, strict=True):
            little = column.astype(column.dtype.newbyteorder("<"), copy=False)
            sha.update(np.ascontiguousarray(little).data)

    def hexdigest(self) -> str:
        """Return the digest of all pieces so far, as 64 hexadecimal digits."""
        return hashlib.sha256(b"".join(sha.digest() for sha in self._columns)).hexdigest()

    def refuse_other(self, header: Header) -> None:
        """Raise ValueError unless the reports have the number and the digest in the header."""
        if self.n_samples != header.n_samples:
            raise ValueError(
                f"the file is damaged or truncated: the header promises {header.n_samples} "
                f"reports, but the file contains {self.n_samples}. Copy or write the file again"
            )
        if header.sha256 and self.hexdigest() != header.sha256:
            raise ValueError(
                "the file is damaged: the digest of the reports differs from the digest in the "
                "header. Copy or write the file again"
            )
