"""Files of slots, which store reports in random places, so that they do not reveal their order."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.common.files import open_regular, replacing

OWN = ".serve"  # the hidden folder of unsealed reports, which readers of reports ignore
_FORMAT, _VERSION = "sklearn_ldp slots", 1
_HEAD = 4096  # bytes of the header, padded with blanks
_TAG, _CRC = 8, 4  # bytes before and after a record
_PIECE = 1 << 20
_BINARY = getattr(os, "O_BINARY", 0)


class LostError(Exception):
    """Error for a disk that has failed, so that reports on it may be lost."""


def shuffled(n: int) -> list[int]:
    """Return the integers from 0 to n - 1 in uniformly random order.

    The random bits come from the secure source of the operating system.
    """
    # Two of n random keys agree with a probability of about n**2 / 2**65.
    return np.argsort(np.frombuffer(os.urandom(8 * n), np.uint64), kind="stable").tolist()


class Slots(NamedTuple):
    """A file with places (slots) of equal size for reports, each of which is written only once.

    A slot contains the tag of a report (8 bytes of a keyed hash of its nonce), the integers of the
    report, and a checksum (CRC) of both. If a slot was not written completely, its checksum is
    wrong. A new file is filled with zeros. If its blocks were only reserved, the file system would
    reveal which slots were written first.
    """

    path: Path
    batch_id: str
    configuration: dict[str, Any]
    width: int  # bytes of a record
    n_slots: int
    seconds: float  # until it is sealed, if it has enough reports
    file: Any  # a descriptor

    @classmethod
    def make(
        cls,
        path: Path,
        *,
        batch_id: str,
        configuration: dict[str, Any],
        width: int,
        n_slots: int,
        seconds: float,
    ) -> Any:
        """Create a file of empty slots, and return it open."""
        head = {
            "format": _FORMAT,
            "version": _VERSION,
            "batch_id": batch_id,
            "configuration": configuration,
            "width": width,
            "n_slots": n_slots,
            "seconds": seconds,
        }
        left = n_slots * (_TAG + width + _CRC)
        with replacing(path) as file:
            file.write(json.dumps(head).encode().ljust(_HEAD))
            while left > 0:
                left -= file.write(bytes(min(left, _PIECE)))
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> Any:
        """Open a file that `make` created.

        Raise ValueError if the file is damaged or has another format.
        """
        with open_regular(path) as file:
            try:
                head = json.loads(file.read(_HEAD))
                known = (head["format"], head["version"]) == (_FORMAT, _VERSION)
                parts: Any = [head[name] for name in cls._fields[1:-1]]
                _, _, width, n_slots, seconds = parts
                left = os.fstat(file.fileno()).st_size - _HEAD
                is_whole = width > 0 and left == n_slots * (_TAG + width + _CRC) and seconds >= 0
            except (ValueError, TypeError, KeyError):
                known = False
        if not known:
            raise ValueError(
                f"{path} is not a file of reports (slots) that this release can read. Use the "
                "release of sklearn_ldp that wrote it, or another folder."
            )
        if not is_whole:
            raise ValueError(
                f"{path} is damaged: its size does not match {n_slots} slots for reports of "
                f"{width} bytes. Restore the file from a backup, or move it away to continue "
                "without its reports."
            )
        return cls._make([path, *parts, os.open(path, os.O_RDWR | _BINARY)])

    def write(self, slot: int, tag: bytes, record: bytes) -> None:
        """Write a report and its tag, a hash of its nonce, to a slot.

        Call `sync` to ensure that it is on disk.
        """
        content = tag + record
        content += zlib.crc32(content).to_bytes(_CRC)
        place = _HEAD + slot * len(content)
        if hasattr(os, "pwrite"):
            n_written = os.pwrite(self.file, content, place)
        else:
            os.lseek(self.file, place, os.SEEK_SET)
            n_written = os.write(self.file, content)
        if n_written < len(content):
            raise OSError(
                f"{self.path}: only {n_written} of {len(content)} bytes were written. Free space "
                "on the disk."
            )

    def sync(self) -> None:
        """Wait until all written slots are on disk.

        If this fails, raise LostError, because reports may be lost.
        """
        try:
            getattr(os, "fdatasync", os.fsync)(self.file)
        except OSError as error:
            raise LostError(f"{self.path}: {error.strerror}") from error

    def read(self) -> tuple[list[int], np.ndarray, np.ndarray]:
        """Return the positions, the tags and the records of the completely written slots.

        A record is a report as bytes. The positions are a list, and the arrays have the shapes (n,)
        and (n, width).
        """
        size = _TAG + self.width + _CRC
        with open_regular(self.path) as file:
            file.seek(_HEAD)
            content = file.read(size * self.n_slots).ljust(size * self.n_slots, b"\0")
        slots = (content[start : start + size] for start in range(0, len(content), size))
        is_whole = [any(x) and zlib.crc32(x[:-_CRC]).to_bytes(_CRC) == x[-_CRC:] for x in slots]
        rows = np.frombuffer(content, np.uint8).reshape(self.n_slots, size)[is_whole]
        tags = np.ascontiguousarray(rows[:, :_TAG]).view("<u8").ravel()
        return np.flatnonzero(is_whole).tolist(), tags, rows[:, _TAG:-_CRC]

    def remove(self) -> None:
        """Close the file and delete it."""
        os.close(self.file)
        self.path.unlink(missing_ok=True)


def held_in(folder: Any) -> str:
    """Return a sentence about the reports in a folder of a server that are not yet in a batch.

    The sentence is empty if there are none.
    """
    files = [Slots.open(path) for path in sorted((Path(folder) / OWN).glob("*.slots"))]
    n = sum(len(slots.read()[0]) for slots in files)
    for slots in files:
        os.close(slots.file)
    if not n:
        return ""
    when = f"at {files[0].n_slots:,}, after {files[0].seconds:g} s or when the server ends"
    return f"{folder}: no batch is sealed yet. {n:,} reports are held, and sealed {when}."
