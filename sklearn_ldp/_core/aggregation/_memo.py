"""Base class of the clients that store their reports in a file, the memoization file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..common.files import read_regular, replacing, sweep
from ..domains import codes_on_client
from ..mechanisms import OracleOrProtocol, Protocol
from ..mechanisms.coins import SecureCoins
from ..mechanisms.several import SampledQuestions
from .checkpoints import locked

_MAX_BYTES = 1 << 24  # a guard against files that are not memoization files
_LOCK_SECONDS = 60.0  # a report needs milliseconds


class BaseClient:
    """A client of one user, which stores its reports in a memoization file.

    If users of a survey report one column each, the client draws the user's column once.
    """

    # The file is read without trusting it. A change is made under a lock, starts from the content
    # of the file at that time, and is on disk before `_changing` ends. So later clients see
    # everything that earlier clients sent, even if a process is killed. The question, the protocol
    # except for its round, and the settings must not change.

    _form: str  # name and version of the format of the file
    _mark: str  # the entry that distinguishes the files of different users

    def __init__(
        self,
        source: OracleOrProtocol,
        memo: str | PathLike[str],
        question: str,
        missing: str,
        **settings: float,
    ) -> None:
        self._name = type(self).__name__
        self._path = Path(memo)
        self._protocol: Any = source.protocol()
        if not isinstance(question, str) or not question:
            raise ValueError(
                f"{self._name} needs question= to be the name of the question, such as 'browser', "
                f"got {'an empty text' if question == '' else type(question).__name__}. Pass the "
                "name as a text."
            )
        self._is_stood_in = is_stood_in(missing, self._name)
        if getattr(source, "random_state", None) is not None:
            raise ValueError(
                f"{self._name} refuses {type(source).__name__} with a random_state, because "
                "predictable reports protect no user. Leave out random_state. To simulate "
                "reports, use the oracle's privatize."
            )
        survey = _sha256(_text([question, survey_digest(self._protocol, **settings)]))
        self._head = {"format": self._form, "survey": survey}
        self._known: tuple[bytes | None, dict[str, Any]] = (None, {})
        self._written: dict[str, tuple[Any, str]] = {}
        self._part: Any = None  # the number of the column or of the prefix
        self._own_mark: Any = None
        with self._changing() as entries:
            if not entries:
                entries.update(self._new(SecureCoins()))
        self._part = entries["part"]
        self._own_mark = entries[self._mark]

    def _new(self, coins: SecureCoins) -> dict[str, Any]:
        """Return the entries of a new file.

        The entry "part" is the index of the drawn column or prefix, or None if nothing is drawn.
        """
        mechanism = self._protocol.mechanism
        is_survey = isinstance(mechanism, SampledQuestions)
        return {"part": int(mechanism.draw_samples(1, coins)[0]) if is_survey else None}

    @property
    def column(self) -> Any:
        """Return the column that this user reports.

        It is None if the oracle has no columns to draw from.
        """
        columns = getattr(self._protocol.domain, "columns", None)
        return None if columns is None else list(columns)[self._part]

    # -- values and reports -------------------------------------------------------------------
    def _code(self, value: Any) -> np.ndarray:
        """Return the category code of a value as an array of shape (1,).

        If the user reports a column, `value` is a mapping that contains the column.
        """
        domain, name, column = self._protocol.domain, self._protocol.name, self.column
        if column is not None:
            domain, name = domain.columns[column], f"{name}, in the column {column!r},"
            if not hasattr(value, "keys") or not (self._is_stood_in or column in value):
                raise ValueError(
                    f"{self._name} needs a mapping with an answer for the column {column!r}, got "
                    f"{type(value).__name__} without this column. Pass the user's answers as a "
                    "mapping of column to value."
                )
            if not set(value.keys()) <= set(self._protocol.domain.columns):
                raise ValueError(
                    f"{self._name} got an answer for a column that is not in the survey (not "
                    "shown, because errors of clients are logged). Pass only answers for "
                    f"{', '.join(map(repr, self._protocol.domain.columns))}."
                )
            value = value.get(column)
        try:
            codes = codes_on_client(domain, [value], name)
        except (TypeError, ValueError):
            if not self._is_stood_in:
                raise
            codes = codes_on_client(domain, [domain.stand_in], name)
        if column is not None or self._part is None:
            return codes
        return self._protocol.mechanism.looked_at(codes, np.array([self._part]))

    def _row(self, report: np.ndarray) -> list[int]:
        """Return a report as a list of integers for the file.

        If a column or prefix is drawn, the list begins with its index, and ends with zeros up to
        the full length.
        """
        numbers = np.ravel(report).tolist()
        if self._part is None:
            return numbers
        width = sum(field.width or 1 for field in self._protocol.mechanism.report_fields)
        return [self._part, *numbers, *[0] * (width - 1 - len(numbers))]

    def _report(self, row: list[int]) -> np.ndarray:
        """Return the report in a list of integers from the file, in the form of `privatize`."""
        field, *more = self._protocol.mechanism.report_fields
        is_row = more or field.width is not None
        return self._protocol.mechanism.as_reports([row] if is_row else row)

    def _are_reports(self, rows: list[Any], part: int | None) -> bool:
        """Return whether lists of integers from a file can be reports of this user.

        `part` is the index of the user's column or prefix, or None. If a list cannot be a report,
        the method may also raise ValueError.
        """
        for row in rows:
            if type(row) is not list or part not in (None, *row[:1]):
                return False
            if any(type(number) is not int or not 0 <= number < 1 << 63 for number in row):
                return False
            if len(self._report(row)) != 1:
                return False
        return True

    # -- the file -------------------------------------------------------------------------------
    def _read(self) -> dict[str, Any]:
        """Return the entries of the memoization file as a dict.

        Callers must not change its lists.
        """
        entries: dict[str, Any] = {}
        with suppress(FileNotFoundError):  # a link may have no file yet
            content = read_regular(self._path, _MAX_BYTES)
            known = self._known  # another thread may replace it meanwhile
            if content != known[0]:  # parsing thousands of rounds takes milliseconds
                known = self._known = content, self._parsed(content)
            entries = dict(known[1])
        if self._own_mark not in (None, entries.get(self._mark)):
            raise ValueError(
                f"The memoization file of this {self._name} was deleted or replaced by another "
                "file, so nothing is reported. Restore the file, or create a new client with the "
                "path of the right file."
            )
        return entries

    def _parsed(self, content: bytes) -> dict[str, Any]:
        form = ""
        survey = None
        is_whole = False
        entries = {}
        with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            entries = json.loads(content)
            form = str(entries.pop("format"))
            survey = entries.pop("survey")
            digest = entries.pop("sha256", None)
            is_other = survey != self._head["survey"]  # its entries may have other types
            is_whole = digest == _sha256(_text(entries)) and (is_other or self._is_fine(entries))
        ours, _, newest = self._form.rpartition(" ")
        form_name, _, version = form.rpartition(" ")
        if form_name == ours and version.isdecimal() and version != newest:
            if int(version[:9]) > int(newest):
                description = (
                    f"a newer {self._name}. Install the release of sklearn_ldp that wrote it"
                )
            else:
                description = (
                    f"an older {self._name}, which has no question. Delete the file, or use "
                    "another file; further reports then spend epsilon again"
                )
            raise ValueError(f"{self._path} is the memoization file of {description}.")
        if form != self._form or not is_whole:
            raise ValueError(
                f"{self._path} is not the memoization file of a {self._name}, or it is damaged. "
                "Restore the file. Delete it only if you accept that new reports spend epsilon "
                "again."
            )
        if survey != self._head["survey"]:
            raise ValueError(
                f"{self._path} is the memoization file of another question, survey or oracle, or "
                "a parameter has changed. Use the same parameters as before, or use another file "
                "for each question; users spend epsilon in each file."
            )
        return entries

    def _is_fine(self, entries: dict[str, Any]) -> bool:
        """Return whether the entries of a file can come from a client like this one.

        They are checked, because anyone can compute the digest of the file. The errors ValueError,
        KeyError, TypeError and AttributeError also mean that the entries are not valid.
        """
        raise NotImplementedError

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """Lock the file and yield its entries as a dict, which is empty if there is no file.

        If the `with` block has changed the entries, they are written to the file.
        """
        # Raises ValueError like `_read`, if another process does not release the file, or if the
        # file is full; OSError if it cannot be written. The file is then unchanged.
        with locked(self._path, _LOCK_SECONDS):
            sweep(self._path)
            entries = self._read()
            before = dict(entries)
            yield entries
            if entries != before:
                self._write(entries)

    def _write(self, entries: dict[str, Any]) -> None:
        text = self._text_of(entries)
        head = _text({**self._head, "sha256": _sha256(text)})
        content = f"{head[:-1]}, {text[1:]}".encode()
        if len(content) > _MAX_BYTES:
            raise ValueError(
                f"{self._path} would have more than {_MAX_BYTES:,} bytes, the maximum size of a "
                "memoization file, so nothing is reported or written. Use an oracle with smaller "
                "reports."
            )
        with replacing(self._path) as file:
            if hasattr(os, "fchmod"):  # missing on Windows before Python 3.13
                os.fchmod(file.fileno(), 0o600)
            file.write(content)
        self._known = content, entries

    def _text_of(self, entries: dict[str, Any]) -> str:
        """Return the entries as JSON text.

        If an item was appended to a list, only this item is encoded.
        """
        for name, value in entries.items():
            known, text = self._written.get(name, (None, ""))
            if known and type(value) is list and value[: len(known)] == known:
                text = ", ".join([text[:-1], *map(json.dumps, value[len(known) :])]) + "]"
            else:
                text = json.dumps(value)
            self._written[name] = value, text
        texts = (f"{_text(name)}: {self._written[name][1]}" for name in sorted(entries))
        return f"{{{', '.join(texts)}}}"


def is_stood_in(missing: Any, name: str) -> bool:
    """Return whether a client sends a report of a default value for missing or unlisted answers.

    Raise ValueError if `missing` is neither "error" nor "report".
    """
    if missing not in ("error", "report"):
        raise ValueError(f'{name} needs missing="error" or missing="report", got another value.')
    return missing == "report"


def survey_digest(protocol: Protocol, **settings: float) -> str:
    """Return the SHA-256 digest of the configuration without its round, and of the settings."""
    configuration = {k: v for k, v in protocol.configuration.items() if k != "collection_round"}
    return _sha256(_text({**configuration, **settings}))


def _text(entries: Any) -> str:
    return json.dumps(entries, sort_keys=True, default=str)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
