"""The header of a file of reports, and its comparison with the expected header."""

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
    """Description of the batch in a file."""

    configuration: dict[str, Any]  # the result of :func:`report_configuration`
    batch_id: str  # name of the batch
    n_samples: int  # number of reports
    # Digest of the reports; empty for lines in the form that clients post, which have no digest.
    sha256: str
    tag: str = ""  # signature of all other fields; empty without a key

    @property
    def origin(self) -> str:
        """The digest by which a ledger recognizes a repeated file, in hexadecimal digits."""
        return self.sha256

    def signed(self, key: Key | None) -> Header:
        """Return the header with a signature if there is a key, otherwise return it unchanged."""
        return self if key is None else replace(self, tag=key.tag("reports", self._content()))

    def refuse_unsigned(self, key: Key | None) -> None:
        """Raise ValueError if there is a key that has not signed this header."""
        if key is None or key.has_made(self.tag, "reports", self._content()):
            return
        if not self.tag:
            raise ValueError("it is not signed, and this collection has a key: sign it with key=")
        raise ValueError("it is signed with another key than this collection's, or was changed")

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
    """Description of lines in the form in which clients post them, which have no header."""

    place: str = ""  # digest of the path or address of their file; empty if there is no file
    # The ids that the file had when its number of lines was that of a batch in the ledger.
    prefixes: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        """The digest of the place, because posted lines contain no digest of the reports."""
        return self.place


def parse_header(text: str | bytes) -> Header:
    """Parse the result of `to_json`; raise ValueError for any other text."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"its header has {len(text)} characters, at most {MAX_LENGTH} are read")
    try:
        content = json.loads(text, parse_constant=_no_constant)
        if content["format"] != FORMAT:
            raise ValueError("another format")
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError(
            "it contains no configuration of sklearn_ldp: damaged, or not written by write_reports"
        ) from None
    if content.get("version") != VERSION:
        raise ValueError(
            f"it is of format version {content.get('version')!r:.80}, but this release reads "
            f"version {VERSION}"
        )
    configuration = content.get("configuration")
    batch = content.get("batch")
    if not isinstance(configuration, dict) or not isinstance(batch, dict):
        raise ValueError("its header is damaged")
    n_samples = batch.get("n_samples")
    sha256 = batch.get("sha256")
    tag = batch.get("tag", "")
    are_texts = isinstance(sha256, str) and isinstance(tag, str)
    if type(n_samples) is not int or n_samples < 1 or not are_texts:
        raise ValueError("its header is damaged")
    check_batch_id(batch.get("id"))
    return Header(configuration, batch["id"], n_samples, str(sha256), tag)


def _no_constant(name):
    raise ValueError(name)


def schema_header(metadata: dict[bytes, bytes] | None) -> Header:
    """Return the header in a schema's metadata; raise ValueError if there is none."""
    return parse_header((metadata or {}).get(KEY, b"{}"))


def refuse_other_configuration(theirs: dict[str, Any], protocol: Protocol) -> None:
    """Raise ValueError if reports of this configuration do not belong to this protocol."""
    if difference := protocol.difference(theirs):
        raise ValueError(
            f"its reports are of another collection: {difference}. Reports of two protocols cannot "
            "be added up; read them with an oracle that has the configuration of their clients' "
            "oracle."
        )


class ContentDigest:
    """SHA-256 of columns of reports; it does not depend on how the columns are cut into pieces."""

    # n_columns: number of columns.

    def __init__(self, n_columns: int):
        self._columns = [hashlib.sha256() for _ in range(n_columns)]
        self.n_samples = 0

    def add(self, columns: list[np.ndarray]) -> None:
        """Add a piece: arrays from `to_columns`."""
        self.n_samples += len(columns[0])
        for sha, column in zip(self._columns, columns, strict=True):
            little = column.astype(column.dtype.newbyteorder("<"), copy=False)
            sha.update(np.ascontiguousarray(little).data)

    def hexdigest(self) -> str:
        """The digest of all pieces."""
        return hashlib.sha256(b"".join(sha.digest() for sha in self._columns)).hexdigest()

    def refuse_other(self, header: Header) -> None:
        """Raise ValueError if the reports differ from the claims of the header."""
        if self.n_samples != header.n_samples:
            raise ValueError(
                f"it is cut short or damaged: its header promises {header.n_samples} reports, "
                f"it contains {self.n_samples}"
            )
        if header.sha256 and self.hexdigest() != header.sha256:
            raise ValueError("it is damaged: its reports do not have the digest in its header")
