"""A file of the finished parts of a study, so that a killed study can be resumed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from .._typing import FilePath

_FORMAT = {"format": "sklearn_ldp study", "version": 1}


class Ledger:
    """An append-only file of JSON lines, each of which holds a key and its errors.

    Only complete lines count. If a killed process has left an incomplete last line, the next
    process that opens the file removes it. Only one process may write at a time.

    Parameters
    ----------
    path : path-like or None
        The file, created if missing; with None nothing is kept.

    Raises
    ------
    ValueError
        If the file is not such a ledger, or is damaged.
    """

    def __init__(self, path: FilePath | None):
        self._path = None if path is None else Path(path)
        self._known: dict[str, list[float]] = {}
        if self._path is not None:
            self._read()

    def _read(self) -> None:
        assert self._path is not None
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            content = b""
        whole = content[: content.rfind(b"\n") + 1]
        header, *lines = whole.splitlines() or [b""]
        if content and not _is_header(header if whole else content):
            raise ValueError(
                f"{self._path} is not a checkpoint of simulate_errors, or is one of another "
                "version; give the name of a new file."
            )
        for number, line in enumerate(lines, start=2):
            try:
                entry = json.loads(line)
                self._known[entry["key"]] = [float(error) for error in entry["errors"]]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{self._path} is damaged in line {number}: remove the line, and its errors "
                    "are computed again."
                ) from error
        if not whole:
            self._path.write_bytes(json.dumps(_FORMAT).encode() + b"\n")
        elif len(whole) < len(content):
            os.truncate(self._path, len(whole))

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __getitem__(self, key: str) -> np.ndarray:
        return np.array(self._known[key])

    def add(self, errors: dict[str, np.ndarray]) -> None:
        """Keep the errors of some keys; they are on disk when this returns."""
        entries = {key: values.tolist() for key, values in errors.items()}
        self._known.update(entries)
        if self._path is None:
            return
        lines = [json.dumps({"key": key, "errors": values}) for key, values in entries.items()]
        with self._path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())


def _is_header(line: bytes) -> bool:
    # The header may have been cut off by a kill; then the line is the beginning of a header.
    return json.dumps(_FORMAT).encode().startswith(line)
