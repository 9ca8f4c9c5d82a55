"""Files of slots: acknowledged reports in random places, which do not reveal their order."""

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
    """The disk has failed, and written reports may be lost."""


def shuffled(n: int) -> list[int]:
    """All integers below n in uniformly random order, from the system's secure source."""
    # Two of n random keys agree with a probability of about n**2 / 2**65.
    return np.argsort(np.frombuffer(os.urandom(8 * n), np.uint64), kind="stable").tolist()


class Slots(NamedTuple):
    """A file of slots of one width, each of which is written once.

    A slot contains the tag of a report, its record, and the CRC of both. If a slot was never
    written, or only in part, its CRC is wrong. A new file is filled with zeros, because blocks that
    are only reserved would reveal which slots were written first.
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
        """Write a file of free slots, and open it."""
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
        """Open a file that `make` wrote; raise ValueError if it is damaged or no file of slots."""
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
            raise ValueError(f"{path} is not a file of slots that this release can read.")
        if not is_whole:
            raise ValueError(
                f"{path} is damaged: its size is not {n_slots} slots of {width} bytes."
            )
        return cls._make([path, *parts, os.open(path, os.O_RDWR | _BINARY)])

    def write(self, slot: int, tag: bytes, record: bytes) -> None:
        """Write a slot; `sync` makes it durable."""
        content = tag + record
        content += zlib.crc32(content).to_bytes(_CRC)
        place = _HEAD + slot * len(content)
        if hasattr(os, "pwrite"):
            n_written = os.pwrite(self.file, content, place)
        else:
            os.lseek(self.file, place, os.SEEK_SET)
            n_written = os.write(self.file, content)
        if n_written < len(content):
            raise OSError(f"{self.path}: {n_written} of {len(content)} bytes were written.")

    def sync(self) -> None:
        """Wait until all writes are on disk; if this fails, the content of the disk is unknown."""
        try:
            getattr(os, "fdatasync", os.fsync)(self.file)
        except OSError as error:
            raise LostError(f"{self.path}: {error.strerror}") from error

    def read(self) -> tuple[list[int], np.ndarray, np.ndarray]:
        """Return positions, tags (n,) and records (n, width) of the completely written slots."""
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
        """Close the file and remove it."""
        os.close(self.file)
        self.path.unlink(missing_ok=True)


def held_in(folder: Any) -> str:
    """Return a sentence about the unsealed reports in a folder; empty if there are none."""
    files = [Slots.open(path) for path in sorted((Path(folder) / OWN).glob("*.slots"))]
    n = sum(len(slots.read()[0]) for slots in files)
    for slots in files:
        os.close(slots.file)
    if not n:
        return ""
    when = f"at {files[0].n_slots:,}, after {files[0].seconds:g} s or when the server ends"
    return f"{folder}: no batch is sealed yet. {n:,} reports are held, and sealed {when}."
