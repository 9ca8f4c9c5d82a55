"""The checkpoint file of `simulate_errors`, with the errors that are already computed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np

from .._core.common.files import errors_name
from .._core.common.typing import FilePath

_HEADER = json.dumps({"format": "sklearn_ldp study", "version": 2}).encode()


def _line_digest(key: str, errors: list[float]) -> str:
    """Return the digest that a line of the checkpoint contains, to detect damage."""
    return hashlib.sha256(json.dumps([key, errors]).encode()).hexdigest()[:32]


class StudyFile:
    """An append-only file of JSON lines, each of which contains a key and its errors.

    A study can take hours, and this file lets an interrupted study continue.

    Only complete lines count. If a killed process has left an incomplete last line, the next
    process that opens the file removes it. Only one process may write at a time.

    Parameters
    ----------
    path : path-like or None
        The file, created if missing. If None, errors are only in memory.

    Raises
    ------
    ValueError
        If the file is not the checkpoint of a study, or is damaged.
    """

    def __init__(self, path: FilePath | None):
        self._path = None if path is None else Path(path)
        self._known: dict[str, list[float]] = {}
        if self._path is None:
            return
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            content = b""
        complete = content[: content.rfind(b"\n") + 1]
        header, *lines = complete.splitlines() or [b""]
        # A killed process may have left an incomplete header.
        if content and not _HEADER.startswith(header if complete else content):
            raise ValueError(
                f"{self._path} is not a checkpoint of simulate_errors, or has another version. "
                "Pass the name of a new file."
            )
        for number, line in enumerate(lines, start=2):
            try:
                entry = json.loads(line)
                key = entry["key"]
                errors = [float(error) for error in entry["errors"]]
                if entry["sha256"] != _line_digest(key, errors):
                    raise ValueError("another digest")
                self._known[key] = errors
            except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
                raise ValueError(
                    f"{self._path} is damaged in line {number}. Remove this line from the file; "
                    "its errors are then computed again."
                ) from error
        if not complete:
            self._path.write_bytes(_HEADER + b"\n")
        elif len(complete) < len(content):
            os.truncate(self._path, len(complete))

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __getitem__(self, key: str) -> np.ndarray:
        return np.array(self._known[key])

    def add(self, errors: dict[str, np.ndarray]) -> None:
        """Append the errors of some keys to the file, and wait until they are on disk."""
        entries = {key: values.tolist() for key, values in errors.items()}
        self._known.update(entries)
        if self._path is None:
            return
        with errors_name(self._path), self._path.open("a", encoding="utf-8") as file:
            for key, values in entries.items():
                line = {"key": key, "errors": values, "sha256": _line_digest(key, values)}
                file.write(f"{json.dumps(line)}\n")
            file.flush()
            os.fsync(file.fileno())
