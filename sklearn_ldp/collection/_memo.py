"""The private file of a client: read without trust in it, and changed by one process at a time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from .._utils.files import read_regular, replacing, sweep
from ..mechanisms import Protocol
from .checkpoints import lock_file, locked

_MAX_BYTES = 1 << 24
_LOCK_SECONDS = 60.0
_WITHOUT_DIGEST = "sklearn_ldp survey client 1"  # the first files of which had none


class Memo:
    """What a client must not forget: what it has reported, and what that has cost.

    Two clients may share the file. A change is made under a lock, on what the file says at that
    time, and it is on disk before `changing` ends. So what a client sends afterwards is known to
    all later clients, whenever a process is killed.

    `client` is the class's name for errors, and `form` the name and version of the format. The
    `protocol`, but for its round, and the settings must stay as they were. `is_fine` tells whether
    entries can be those of such a client, or raises ValueError, KeyError or TypeError.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        client: str,
        form: str,
        protocol: Protocol,
        is_fine: Callable[[dict[str, Any]], bool],
        **settings: float,
    ) -> None:
        self._path, self._client, self._is_fine = Path(path), client, is_fine
        self._head = {"format": form, "survey": survey_digest(protocol, **settings)}
        self._known: tuple[bytes | None, dict[str, Any]] = (None, {})
        self._written: dict[str, tuple[Any, str]] = {}

    def read(self) -> dict[str, Any] | None:
        """Return the entries of the file, which must be replaced and not changed; None without one.

        Raises ValueError if it is damaged, of a newer version, or of another client or survey.
        """
        if not os.path.lexists(self._path):
            return None
        content = read_regular(self._path, _MAX_BYTES)
        if content != self._known[0]:  # thousands of rounds take milliseconds to parse
            self._known = content, self._parsed(content)
        return dict(self._known[1])

    def _parsed(self, content: bytes) -> dict[str, Any]:
        found: dict[str, Any] = {}
        try:
            entries = json.loads(content, parse_constant=_no_constant)
            found = {name: entries.pop(name) for name in self._head}
            digest = entries.pop("sha256", None)
            may_lack = digest is None and found["format"] == _WITHOUT_DIGEST
            if not may_lack and digest != _digest(_text(entries)):
                raise ValueError("another digest")
            is_other = found["survey"] != self._head["survey"]
            is_fine = found["format"] == self._head["format"] and type(found["survey"]) is str
            is_fine = is_fine and (is_other or self._is_fine(entries))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            is_fine = False
        form, _, version = str(found.get("format")).rpartition(" ")
        ours, _, newest = self._head["format"].rpartition(" ")
        if form == ours and version.isdecimal() and int(version[:9]) > int(newest):
            raise ValueError(
                f"{self._path} is the memo of a newer {self._client}: install the release of "
                "sklearn_ldp that has written it."
            )
        if not is_fine:
            raise ValueError(
                f"{self._path} is not the memo of a {self._client}, or it is damaged. A new one "
                "would spend epsilon again: delete it only if that is meant."
            )
        if is_other:
            raise ValueError(
                f"{self._path} is the memo of another survey or oracle: categories, epsilons and "
                "all other parameters must stay as they were. Give each survey a file of its own; "
                "its users spend epsilon in each."
            )
        return entries

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """Lock the file, yield its entries (none without one), and write them if they have changed.

        Raises ValueError as `read` does, if another process does not let the file go, or if it is
        full; OSError if it cannot be written. It is as before then.
        """
        with locked(self._path, _LOCK_SECONDS):
            sweep(self._path)
            before = self.read()
            entries = dict(before or {})
            yield entries
            if entries != before:
                self._write(entries)

    def _write(self, entries: dict[str, Any]) -> None:
        text = self._text_of(entries)
        head = _text({**self._head, "sha256": _digest(text)})
        content = f"{head[:-1]}, {text[1:]}".encode()
        if len(content) > _MAX_BYTES:
            raise ValueError(
                f"{self._path} is full: it would have more than {_MAX_BYTES:,} bytes, so nothing "
                "is reported or written. Use an oracle with smaller reports."
            )
        with replacing(self._path) as file:
            os.chmod(file.fileno(), 0o600)
            file.write(content)
        self._known = content, entries

    def _text_of(self, entries: dict[str, Any]) -> str:
        """Return what `_text` does; of a list that has grown, only the new end is encoded."""
        for name, value in entries.items():
            known, text = self._written.get(name, (None, ""))
            if known and type(value) is list and value[: len(known)] == known:
                text = ", ".join([text[:-1], *map(json.dumps, value[len(known) :])]) + "]"
            else:
                text = json.dumps(value)
            self._written[name] = value, text
        named = (f"{json.dumps(name)}: {self._written[name][1]}" for name in sorted(entries))
        return f"{{{', '.join(named)}}}"

    def is_left_locked(self) -> bool:
        """Whether there is a lock: `changing` waits for its owner, or removes a dead one's."""
        return os.path.lexists(lock_file(self._path))


def survey_digest(protocol: Protocol, **settings: float) -> str:
    """Return the digest of what must stay as it was, whatever the round."""
    configuration = {k: v for k, v in protocol.configuration.items() if k != "collection_round"}
    return _digest(_text({**configuration, **settings}))


def _text(entries: dict[str, Any]) -> str:
    return json.dumps(entries, sort_keys=True, default=str)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _no_constant(name: str) -> None:
    raise ValueError(name)
