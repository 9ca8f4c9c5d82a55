"""The checkpoint file of `simulate_errors`, which stores the errors that are already computed."""

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
    """Return a hash of the key and the errors in a line of the checkpoint file.

    The line also contains the hash, so that damage can be detected.
    """
    return hashlib.sha256(json.dumps([key, errors]).encode()).hexdigest()[:32]


class StudyFile:
    """The checkpoint file of a study. An interrupted study can be resumed from this file.

    Each line is a JSON object with the key of a row of the study and the errors of this row. Lines
    are only appended. If a process was killed, the last line may be incomplete. The next process
    that opens the file removes this line. Only one process may write to the file at a time.

    Parameters
    ----------
    path : path-like or None
        The file, which is created if it does not exist. If None, errors are only kept in memory.

    Raises
    ------
    ValueError
        If the file is not a checkpoint of a study, or if it is damaged.
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
                f"{self._path} is not a checkpoint of simulate_errors in the current format. Pass "
                "checkpoint= as the name of a new file."
            )
        for number, line in enumerate(lines, start=2):
            try:
                entry = json.loads(line)
                key = entry["key"]
                errors = [float(error) for error in entry["errors"]]
                if entry["sha256"] != _line_digest(key, errors):
                    raise ValueError("the hash in this line is not the hash of its key and errors")
                self._known[key] = errors
            except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
                raise ValueError(
                    f"{self._path} is damaged in line {number}. Delete this line from the file and "
                    "repeat the call; the errors of this line are then computed again."
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
        """Append errors to the file, and wait until they are written to the disk.

        errors: a dict from the keys of rows of the study to the errors of these rows.
        """
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
