"""A client that remembers which column it was asked for, and what it has reported."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

from ..mechanisms.coins import SecureCoins
from ..surveys import BaseColumnSurvey
from ._repeated_client import BaseClient, asks_one_column


class SurveyClient(BaseClient):
    """One user's side of a survey that is repeated: always the same column, the same report.

    If each user draws a new column every time, she spends epsilon every time, and reports that can
    be linked tell more and more about her whole record. This client draws a column once and keeps
    it in a file on the device, with the report.

    Privacy: making the client spends nothing; the first `report` spends epsilon of the whole
    record, and all further ones nothing, whatever has become of the values meanwhile. `renew`
    spends epsilon once more, on the same column.

    Parameters
    ----------
    survey : ColumnOracle
        Unfitted, with declared domains and without a `random_state`; each user is asked for one
        column (``n_sampled=1``).
    memo : path-like
        The file that keeps column and report, created if missing. It is private: whoever reads it
        knows the report, but not her values. Delete it if the device is to forget the user.

    Attributes
    ----------
    column : object
        The column that this user is asked for, as public as the column in a report.
    n_reports : int
        Number of different reports that were made, each of which has spent epsilon, by any client
        with this file.

    Raises
    ------
    TypeError
        If `survey` is not a survey whose users are asked for one column each.
    ValueError
        If the file is damaged, is of another survey, or is kept locked by another process for a
        minute; or if the survey has a `random_state`.

    See Also
    --------
    RepeatedClient : Where values change: a report of each value that is paid for once.
    sklearn_ldp.robustness.assigned_parts : Columns that nobody can choose.

    Notes
    -----
    What is still linkable: the reports of one user are equal, and with local hashing hardly two
    users have the same one. So her rounds can be found without her name. They tell which column she
    is asked for, and when a report was renewed, but nothing more about her values. Send reports
    without tokens, and shuffled (``write_reports`` shuffles), to make it harder.

    Estimates are of the values that users had when they first reported. `renew` makes a new report
    for the same column: n reports that can be linked spend n times epsilon on that column, and
    nothing on the others. A :class:`RepeatedClient` of the survey follows the values and knows its
    limit.

    The report is in the file before `report` returns it, so a crash spends nothing twice, and
    several clients and processes may share the file. A file that is lost, or copied to two devices
    before the first report, means another report.

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

    _form, _mark = "sklearn_ldp survey client 1", "part"

    def __init__(self, survey: BaseColumnSurvey[Any], memo: str | PathLike[str]) -> None:
        is_survey = isinstance(survey, BaseColumnSurvey)
        if not is_survey or not asks_one_column(survey.protocol().mechanism):
            raise TypeError(
                "SurveyClient needs a survey whose users are asked for one column each, such as "
                f"ColumnOracle(1.0, domains=domains), got {survey!r}."
            )
        super().__init__(survey, memo)

    @property
    def n_reports(self) -> int:
        """Number of different reports that were made, each of which has spent epsilon."""
        return self._own(self._file.read())["n_reports"]

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
            If the record has no valid value of the column, or if the file has changed otherwise
            than by clients, or is kept locked by another process.
        OSError
            If the file cannot be written; nothing is reported then.
        """
        report = self._own(self._file.read())["report"]
        return self._report(report) if report else self._reported(record, False)

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
            The new report; it raises what `report` does.
        """
        return self._reported(record, True)

    def __repr__(self) -> str:
        return f"SurveyClient(column={self.column!r}, n_reports={self.n_reports})"

    def _reported(self, record: Mapping[Any, Any], is_renewed: bool) -> np.ndarray:
        """The report in the file; a new one is there before it is returned."""
        with self._file.changing() as entries:
            self._own(entries)
            if is_renewed or entries["report"] is None:
                own = self._mechanism.privatize(self._code(record), SecureCoins())
                entries.update(report=self._row(own), n_reports=entries["n_reports"] + 1)
        return self._report(entries["report"])

    def _new(self, coins: SecureCoins) -> dict[str, Any]:
        return {**super()._new(coins), "report": None, "n_reports": 0}

    def _is_fine(self, entries: dict[str, Any]) -> bool:
        part, report, n_reports = entries["part"], entries["report"], entries["n_reports"]
        mechanism: Any = self._protocol.mechanism
        if type(part) is not int or not 0 <= part < len(mechanism.mechanisms):
            return False
        if type(n_reports) is not int or not 0 <= n_reports < 2**53 or len(entries) != 3:
            return False
        if report is None or n_reports == 0:
            return report is None and n_reports == 0
        is_row = type(report) is list and all(type(one) is int for one in report)
        if not is_row or not report or max(map(abs, report)) >= 2**63:
            return False
        return int(self._protocol.check(np.array([report], dtype=np.int64))[0, 0]) == part
