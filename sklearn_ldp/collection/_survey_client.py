"""A client that remembers which column it was asked for, and what it has reported."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .._utils.files import replacing
from ..mechanisms import Protocol
from ..mechanisms.coins import CoinStreams
from ..mechanisms.several import Several
from ..surveys import BaseColumnSurvey

_FORMAT = "sklearn_ldp survey client 1"


class SurveyClient:
    """One user's side of a survey that is repeated: always the same column, the same report.

    If a survey is repeated and each user draws a new column every time, she spends epsilon every
    time, and reports that can be linked (by an account or a device) tell more and more about her
    whole record. This client draws a column once and keeps it in a file on the device, with the
    report. Whatever is asked for how often, the user spends epsilon once.

    Privacy: making the client spends nothing; the first `report` spends epsilon of the whole
    record, and all further ones nothing, whatever has become of the values meanwhile. `renew`
    spends epsilon once more, on the same column.

    Parameters
    ----------
    survey : ColumnOracle
        Unfitted, with declared domains; each user is asked for one column (``n_sampled=1``).
    memo : path-like
        The file that keeps column and report, created if missing. It is private: whoever reads it
        knows the report, and if the device is to forget the user, it is to be deleted. It does not
        hold her values.

    Attributes
    ----------
    column : object
        The column that this user is asked for, as public as the column in a report.
    n_reports : int
        Number of different reports that were made, each of which has spent epsilon.

    Raises
    ------
    TypeError
        If `survey` is not a survey whose users are asked for one column each.
    ValueError
        If the file is damaged, or is of another survey.

    See Also
    --------
    sklearn_ldp.robustness.assigned_parts : Columns that nobody can choose.

    Notes
    -----
    What is still linkable: the reports of one user are equal, and with local hashing hardly two
    users have the same one. So reports of several rounds that stand for one user can be found
    without her name. This tells that it is the same user, and which column she is asked for, but
    nothing more about her values. It also tells when a report was renewed. Send reports without
    tokens, and shuffled (``write_reports`` shuffles), to make it harder.

    A report that was made once stays, so estimates are of the values that users had then. Where
    values change, `renew` makes a new report for the same column. It spends epsilon again: n
    reports that can be linked spend n times epsilon on that column, and nothing on the others.

    A file that is lost, or copied to two devices before the first report, means another report.
    The report is in the file before `report` returns it, so a crash spends nothing twice.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn_ldp import ColumnOracle
    >>> from sklearn_ldp.collection import SurveyClient
    >>> survey = ColumnOracle(epsilon=1.0, domains={"sex": ["F", "M"], "age": 10})
    >>> folder = tempfile.TemporaryDirectory()
    >>> memo = os.path.join(folder.name, "survey.json")
    >>> client = SurveyClient(survey, memo)
    >>> in_may = client.report({"sex": "F", "age": 7})
    >>> in_june = SurveyClient(survey, memo).report({"sex": "F", "age": 8})
    >>> bool((in_may == in_june).all()), SurveyClient(survey, memo).column == client.column
    (True, True)
    >>> survey.aggregate(in_june).n_samples_seen_
    1
    >>> folder.cleanup()
    """

    def __init__(self, survey: BaseColumnSurvey[Any], memo: str | PathLike[str]) -> None:
        protocol = survey.protocol() if isinstance(survey, BaseColumnSurvey) else None
        mechanism = None if protocol is None else protocol.mechanism
        part = None if mechanism is None else mechanism.public_part
        is_of_columns = (
            isinstance(mechanism, Several) and mechanism.views is None and mechanism.n_drawn == 1
        )
        can_be_assigned = part is not None and part.privatize is not None
        if protocol is None or not is_of_columns or not can_be_assigned:
            raise TypeError(
                "SurveyClient needs a survey whose users are asked for one column each, such as "
                f"ColumnOracle(1.0, domains=domains), got {survey!r}."
            )
        self._survey, self._protocol = survey, protocol
        self._path = Path(memo)
        self._memo = self._read() if self._path.exists() else self._drawn()

    @property
    def column(self) -> Any:
        """The column that this user is asked for."""
        return list(self._domain.columns)[self._memo["part"]]

    @property
    def n_reports(self) -> int:
        """Number of different reports that were made, each of which has spent epsilon."""
        return self._memo["n_reports"]

    def report(self, record: Mapping[Any, Any]) -> np.ndarray:
        """Return the user's report: a new one the first time, and later the same.

        Privacy: spends epsilon the first time.

        Parameters
        ----------
        record : mapping of column to value
            The user's values. Only that of `column` is looked at, and only the first time.

        Returns
        -------
        ndarray of shape (1, width)
            One report, as ``survey.privatize`` returns it.

        Raises
        ------
        ValueError
            If the record has no value of the column, or the value is not in its domain.
        OSError
            If the file cannot be written; nothing is reported then.
        """
        if self._memo["report"] is None:
            self._write(self._reported(record))
        return np.array([self._memo["report"]], dtype=np.int64)

    def renew(self, record: Mapping[Any, Any]) -> np.ndarray:
        """Make a new report for the same column, which replaces the old one.

        Privacy: spends epsilon, in addition to what the reports before have spent.

        Parameters
        ----------
        record : mapping of column to value
            The user's values, of which that of `column` is reported.

        Returns
        -------
        ndarray of shape (1, width)
            The new report.

        Raises
        ------
        ValueError
            As for `report`.
        """
        self._write(self._reported(record))
        return self.report(record)

    def __repr__(self) -> str:
        return f"SurveyClient(column={self.column!r}, n_reports={self.n_reports})"

    @property
    def _domain(self) -> Any:
        return self._protocol.domain

    @property
    def _coins(self) -> Any:
        return CoinStreams(self._survey.random_state).block(0)

    def _drawn(self) -> dict[str, Any]:
        mechanism: Any = self._protocol.mechanism
        part = int(mechanism.draw_samples(1, self._coins)[0])
        memo = {"part": part, "report": None, "n_reports": 0}
        self._write(memo)
        return memo

    def _reported(self, record: Mapping[Any, Any]) -> dict[str, Any]:
        name, part = type(self._survey).__name__, self._memo["part"]
        if self.column not in record:
            raise ValueError(
                f"SurveyClient is to report the column {self.column!r}, which the record does not "
                f"have: {', '.join(map(repr, record))}."
            )
        of_column = self._domain.columns[self.column]
        codes = np.zeros((1, len(self._domain.columns)), dtype=np.int64)
        value = [record[self.column]]
        codes[0, part] = of_column.encode(value, f"{name}, in the column {self.column!r},")[0]
        public: Any = self._protocol.mechanism.public_part
        report = public.privatize(codes, np.array([part]), self._coins)[0].tolist()
        return {**self._memo, "report": report, "n_reports": self.n_reports + 1}

    def _write(self, memo: dict[str, Any]) -> None:
        text = json.dumps({"format": _FORMAT, "survey": _digest(self._protocol), **memo})
        with replacing(self._path) as file:
            os.chmod(file.fileno(), 0o600)
            file.write(text.encode())
        self._memo = memo

    def _read(self) -> dict[str, Any]:
        try:
            memo = json.loads(self._path.read_text(encoding="utf-8"))
            kind, survey = memo.pop("format"), memo.pop("survey")
            part, report, n_reports = memo["part"], memo["report"], memo["n_reports"]
            is_fine = kind == _FORMAT and 0 <= part < len(self._domain.columns)
            is_fine = is_fine and (report is None) == (n_reports == 0)
            if is_fine and survey == _digest(self._protocol) and report is not None:
                is_fine = self._protocol.check(np.array([report]))[0, 0] == part
        except (ValueError, KeyError, TypeError, AttributeError):
            is_fine, survey = False, None
        if not is_fine:
            raise ValueError(
                f"{self._path} is not the memo of a SurveyClient, or it is damaged. A new one "
                "would spend epsilon again: delete it only if that is meant."
            )
        if survey != _digest(self._protocol):
            raise ValueError(
                f"{self._path} is the memo of another survey: the domains, the oracles, epsilon "
                "and weights must stay as they were. Give each survey a file of its own; its "
                "users spend epsilon in each."
            )
        return memo


def _digest(protocol: Protocol) -> str:
    """What identifies a survey in all of its rounds."""
    configuration = {k: v for k, v in protocol.configuration.items() if k != "collection_round"}
    text = json.dumps(configuration, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
