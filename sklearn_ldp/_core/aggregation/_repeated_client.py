"""Clients for repeated collection, which store their reports and account for epsilon."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Mapping
from fractions import Fraction
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np

from ...surveys import BaseColumnSurvey
from ..mechanisms import OracleOrProtocol, Protocol, Reports
from ..mechanisms.chain import Chain
from ..mechanisms.coins import SecureCoins
from ..mechanisms.protocol import reports_of
from ..mechanisms.several import SampledQuestions
from ._memo import BaseClient

_LISTS = ("values", "permanent", "first", "rounds", "sent")


class RepeatedClient(BaseClient):
    """The client of one user in a repeated collection, for a value that may change.

    A user who reports in T rounds with `privatize` spends T times epsilon. This client draws a
    *permanent* report when a value first occurs (memoization). In each round it sends that report
    or, at random, a report that does not depend on the value. Each single report has exactly the
    distribution of the oracle's reports, so nothing changes on the server.

    Privacy: one report spends the oracle's epsilon, and any number of reports of one value spend at
    most `epsilon_forever`. Reports of k values spend at most k times `epsilon_forever`. `spent` is
    this total; it compares two histories whose values change, and return, in the same rounds.
    *When* a value changes is not protected: no budget bounds how much the reports reveal about it.

    Parameters
    ----------
    oracle : oracle, ColumnOracle, StringOracle or Protocol
        The mechanism of a single report, over declared or open categories, without a
        `random_state`. If users of a survey are asked for one column each, the column is drawn
        once. If a user of a StringOracle is asked for a prefix or a level of a tree, it is also
        drawn once, and values with the same answer count as one value.
    memo : path-like
        The memoization file, which stores the reports; created if missing. It is private, see the
        notes.
    question : str
        Name of the question, such as "browser". The memoization file belongs to the question, so
        another question needs another file.
    epsilon_forever : float
        Budget of all reports of one value together (epsilon_inf), at least the oracle's epsilon.
        With twice the oracle's epsilon, about half of the rounds send the permanent report.
    max_epsilon : float, default=None
        The maximum that all values may spend; a new value that would spend more is refused. If
        None, there is no limit. You may change it later.
    fixed_part : bool, default=False
        Whether one hash function serves all values, so that at most `hash_range_` values ever spend
        epsilon. Use it if values change often. All reports of a user then contain the user's
        function, so they are linkable even if the value changes.
    missing : {"error", "report"}, default="error"
        How to treat an answer that is missing or not listed. If users do not report then, their
        absence reveals that. "report" sends a report of a default value: None if it is a category,
        otherwise the last category; for strings, the last letter of the alphabet.

    Raises
    ------
    TypeError
        If the reports do not have two likelihoods.
    ValueError
        If a budget is not valid, or `fixed_part` finds no hash function; if the oracle has a
        `random_state`; or if the file is damaged, belongs to another question, oracle or version,
        or stays locked by another process for a minute.

    See Also
    --------
    SurveyClient : For values that hardly change: always the same report.
    sklearn_ldp.privacy.repeated_collection_risk : The information that repetition reveals.

    Notes
    -----
    A permanent report is a report of the oracle with exp(epsilon_forever) in place of exp(epsilon).
    It is sent with the probability that gives a single report the oracle's distribution; published
    parameters [1]_ waste budget for more than two values. Because the permanent report is sent
    unchanged, its noise does not average out over rounds. With most oracles, the rounds of one user
    can be linked without the user's name, and the round in which the value changed can be found. A
    refusal is also visible, so choose `max_epsilon` such that refusals are rare.

    The file contains a keyed digest of each value, its permanent report, and the report of each
    round. The key is in the file, so an attacker with the file can try all values of a small
    domain. The file is on disk before a report is returned, so a crash never spends epsilon twice,
    and several processes may share the file. If a file is lost or copied, new permanent reports
    spend epsilon again. A running client refuses the file of another user in place of its own; a
    new client cannot detect whose file it is.

    References
    ----------
    .. [1] H. H. Arcolezi, C. Pinzón, C. Palamidessi, S. Gambs, "Frequency estimation of evolving
       data under local differential privacy", EDBT 2023, https://arxiv.org/abs/2210.00262

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.collection import RepeatedClient
    >>> oracle = OLH(epsilon=1.0, categories=["chrome", "edge", "firefox"])
    >>> folder = tempfile.TemporaryDirectory()
    >>> memo = os.path.join(folder.name, "state.json")
    >>> client = RepeatedClient(
    ...     oracle, memo, question="browser", epsilon_forever=2.0, max_epsilon=8.0
    ... )
    >>> for value, name in [("firefox", "may"), ("firefox", "june"), ("edge", "july")]:
    ...     report = client.report(value, collection_round=name)
    >>> client.history
    {'may': 2.0, 'june': 0.0, 'july': 2.0}
    >>> client.spent, client.n_values
    (4.0, 2)
    >>> folder.cleanup()
    """

    _form, _mark = "sklearn_ldp repeated client 2", "key"

    def __init__(
        self,
        oracle: OracleOrProtocol,
        memo: str | PathLike[str],
        *,
        question: str,
        epsilon_forever: float,
        max_epsilon: float | None = None,
        fixed_part: bool = False,
        missing: str = "error",
    ) -> None:
        if not hasattr(oracle, "protocol"):
            raise TypeError(
                f"RepeatedClient needs a frequency oracle or Protocol, got {type(oracle).__name__}."
            )
        self._chains = chains_of(oracle.protocol(), epsilon_forever, fixed_part)
        self._most_values = most_values(max_epsilon, epsilon_forever)
        self._forever = float(epsilon_forever)
        self._is_fixed = bool(fixed_part)
        settings = {"epsilon_forever": self._forever, "fixed_part": self._is_fixed}
        super().__init__(oracle, memo, question, missing, **settings)

    # -- privacy accounting ---------------------------------------------------------------------
    @property
    def n_values(self) -> int:
        """Number of values (with a fixed part, of hash values) that have a permanent report."""
        return len(self._read()["values"])

    @property
    def spent(self) -> float:
        """The epsilon that all reports have spent, by any client with this file.

        It bounds the information about *which* values the user had, not about when they changed.
        """
        return self.n_values * self._forever

    @property
    def history(self) -> dict[str, float]:
        """The epsilon that each round has added to `spent`, in the order of their first reports."""
        entries = self._read()
        is_first = set(entries["first"])
        return {name: self._forever * (i in is_first) for i, name in enumerate(entries["rounds"])}

    def __repr__(self) -> str:
        column = "" if self.column is None else f"column={self.column!r}, "
        return f"RepeatedClient({column}n_values={self.n_values}, spent={self.spent:g})"

    # -- reporting ------------------------------------------------------------------------------
    def report(self, value: Any, *, collection_round: str) -> Reports:
        """Return the user's report of a round.

        Privacy: spends `epsilon_forever` if the value is new, otherwise nothing.

        Parameters
        ----------
        value : object, or mapping of column to value
            The user's value. For a survey, the user's values; only the value of `column` is used.
            If there already is a report of the round, the argument is ignored.
        collection_round : str
            Name of the round. Each round has one report.

        Returns
        -------
        Reports of shape (1,) or (1, width)
            One report with its round attached, in the form of ``oracle.privatize([value])``.

        Raises
        ------
        TypeError
            If the round is not a string.
        ValueError
            If the value is not in the domain or would spend more than `max_epsilon`; if the
            protocol is of another round; or if a program other than a client has changed the file,
            or the file is full, or stays locked by another process. Then nothing is spent or
            written. The same is true after an OSError.
        """
        if not isinstance(collection_round, str):
            raise TypeError(
                f"collection_round must be text, got {type(collection_round).__name__}."
            )
        if self._protocol.collection_round not in ("", collection_round):
            raise ValueError(
                f"This RepeatedClient is of the round {self._protocol.collection_round!r} alone. "
                "Reports of two rounds cannot be added up, so make a client of the other round."
            )
        with self._changing() as entries:
            if collection_round not in entries["rounds"]:
                self._add_round(entries, self._code(value), collection_round)
        sent = entries["sent"][entries["rounds"].index(collection_round)]
        row = entries["permanent"][sent] if type(sent) is int else sent
        return reports_of(self._report(row), self._protocol.protocol(collection_round))

    def _add_round(self, entries: dict[str, Any], code: np.ndarray, collection_round: str) -> None:
        """Draw the report of a round; a number in "sent" refers to a permanent report."""
        coins = SecureCoins()
        function = entries["function"]
        chain = self._chains[self._part or 0]
        if code.ndim > 1:  # a set of items, padded to the length of the longest list
            looked_at: Any = tuple(code[0, code[0] > 0].tolist())
        else:
            looked_at = int(code[0]) if function is None else chain.image(code, function)
        key = bytes.fromhex(entries["key"])
        digest = hashlib.blake2b(f"{looked_at}".encode(), key=key, digest_size=16).hexdigest()
        if digest not in entries["values"]:
            if len(entries["values"]) >= self._most_values:
                raise ValueError(
                    f"This value is new to RepeatedClient, after {len(entries['values'])} others. "
                    "It would spend more than max_epsilon, so nothing is reported or written. "
                    "Leave this round out."
                )
            permanent = self._row(chain.permanent(code, coins, function))
            _append(entries, values=digest, permanent=permanent, first=len(entries["rounds"]))
        sent: Any = entries["values"].index(digest)
        is_permanent = chain.are_permanent(1, coins)[0]
        # Both reports are made, so that the time does not reveal which report is sent.
        if chain.has_quick_uniforms or not is_permanent:
            uniform = self._row(chain.uniform(code, coins, function))
            sent = sent if is_permanent else uniform
        _append(entries, rounds=collection_round, sent=sent)

    def _new(self, coins: SecureCoins) -> dict[str, Any]:
        entries = super()._new(coins)
        chain = self._chains[entries["part"] or 0]
        function = None
        if self._is_fixed and chain.has_functions:
            part = chain.mechanism.public_part
            function = int(part.draw(lambda high: coins.integers(high, 1))[0])
        lists: dict[str, list] = {name: [] for name in _LISTS}
        return {**entries, "key": secrets.token_hex(32), "function": function, **lists}

    def _is_fine(self, entries: dict[str, Any]) -> bool:
        values, permanent, first, rounds, sent = lists = [entries[name] for name in _LISTS]
        part = entries["part"]
        function = entries["function"]
        is_drawn = len(self._chains) > 1
        if len(entries) != len(_LISTS) + 3 or any(type(x) is not list for x in lists):
            return False
        if not (_are_below([part], len(self._chains)) if is_drawn else part is None):
            return False
        mechanism = self._chains[part or 0].mechanism
        if self._is_fixed and self._chains[part or 0].has_functions:
            is_function = _are_below([function], mechanism.report_fields[0].n_values)
        else:
            is_function = function is None
        rows = [*permanent, *(x for x in sent if type(x) is not int)]
        return (
            is_function
            and len(bytes.fromhex(entries["key"])) == 32
            and all(type(x) is str for x in (*values, *rounds))
            and all(len(set(x)) == len(x) for x in (values, rounds, first))
            and len(values) == len(permanent) == len(first)
            and len(rounds) == len(sent)
            and _are_below(first, len(rounds))
            and _are_below([x for x in sent if type(x) is int], len(values))
            and self._are_reports(rows, part)
        )


def _are_below(numbers: list[Any], high: int) -> bool:
    """Whether all items are integers that are at least 0 and less than `high`."""
    return all(type(number) is int and 0 <= number < high for number in numbers)


def _append(entries: dict[str, Any], **added: Any) -> None:
    """Append to lists by replacing them, because the lists of a memo must not be changed."""
    entries.update({name: [*entries[name], item] for name, item in added.items()})


def asks_one_part(mechanism: object) -> bool:
    """Whether each user is asked for one column of a survey, or for one prefix of strings."""
    return (
        isinstance(mechanism, SampledQuestions)
        and mechanism.views is None
        and mechanism.n_drawn == 1
    )


def chains_of(protocol: Protocol, epsilon_forever: float, fixed_part: bool) -> list[Chain]:
    """Return the chain of an oracle, or of each part that a user may be asked for."""
    mechanism: Any = protocol.mechanism
    own = mechanism.mechanisms if asks_one_part(mechanism) else [mechanism]
    chains = [Chain(part, protocol.epsilon, epsilon_forever) for part in own]
    if fixed_part and not any(chain.has_functions for chain in chains):
        raise ValueError(
            f"{protocol.name} has no hash function that could be fixed. Leave fixed_part out, "
            "or use OLH."
        )
    return chains


def most_values(max_epsilon: Any, epsilon_forever: float) -> float:
    """Return the maximum number of values that may spend their budget."""
    if max_epsilon is None:
        return math.inf
    if not isinstance(max_epsilon, Real) or not epsilon_forever <= float(max_epsilon) < math.inf:
        raise ValueError(
            f"Argument max_epsilon must be None, or finite and at least epsilon_forever, "
            f"{epsilon_forever:g}, which the first value spends; got {max_epsilon!r}."
        )
    # Computed with decimals as they are written, so that three times 0.1 is not above 0.3.
    maximum = Fraction(repr(float(max_epsilon)))
    return int(maximum / Fraction(repr(float(epsilon_forever))))


class SurveyClient(BaseClient):
    """The client of one user in a repeated survey, with a fixed column and a fixed report.

    Privacy: making the client spends nothing. The first `report` spends epsilon of the whole
    record. All further calls return the same report and spend nothing, even if the values have
    changed. `renew` spends epsilon once more, on the same column.

    Parameters
    ----------
    survey : ColumnOracle
        Unfitted, with declared domains and without a `random_state`; each user is asked for one
        column (``n_sampled=1``).
    memo : path-like
        The memoization file, which stores the column and the report; created if missing. It is
        private: a reader of the file learns the report, but not the values. Delete it if the device
        should forget the user.
    question : str
        Name of the question, such as "browser". The memoization file belongs to the question, so
        another question needs another file.
    missing : {"error", "report"}, default="error"
        As for :class:`RepeatedClient`.

    Raises
    ------
    TypeError
        If `survey` is not a survey that asks each user for one column.
    ValueError
        If the file is damaged, belongs to another question, survey or version, or stays locked by
        another process for a minute; or if the survey has a `random_state`.

    See Also
    --------
    RepeatedClient : For values that change: one permanent report per value.
    sklearn_ldp.robustness.assigned_parts : Columns that the server assigns, not the user.

    Notes
    -----
    The reports of one user are equal. So the rounds of a user can be linked without the user's
    name, and the round in which a report was renewed can be found; shuffling reports without tokens
    makes this harder. A user who draws a new column in each round spends epsilon in each round. See
    :class:`RepeatedClient` for the epsilon that a crash or a copy of the file spends.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn_ldp import ColumnOracle
    >>> from sklearn_ldp.collection import SurveyClient
    >>> survey = ColumnOracle(epsilon=1.0, domains={"sex": ["F", "M"], "age": 10})
    >>> folder = tempfile.TemporaryDirectory()
    >>> memo = os.path.join(folder.name, "survey.json")
    >>> client = SurveyClient(survey, memo, question="census")
    >>> in_may = client.report({"sex": "F", "age": 7})
    >>> again = SurveyClient(survey, memo, question="census")
    >>> in_june = again.report({"sex": "F", "age": 8})
    >>> bool((in_may == in_june).all()), client.n_reports
    (True, 1)
    >>> folder.cleanup()
    """

    _form, _mark = "sklearn_ldp survey client 2", "part"

    def __init__(
        self,
        survey: BaseColumnSurvey[Any],
        memo: str | PathLike[str],
        *,
        question: str,
        missing: str = "error",
    ) -> None:
        is_survey = isinstance(survey, BaseColumnSurvey)
        if not is_survey or not asks_one_part(survey.protocol().mechanism):
            raise TypeError(
                "SurveyClient needs a survey that asks each user for one column, such as "
                f"ColumnOracle(1.0, domains=domains), got {type(survey).__name__}."
            )
        super().__init__(survey, memo, question, missing)

    @property
    def n_reports(self) -> int:
        """Number of reports made by any client with this file; each report spent epsilon."""
        return self._read()["n_reports"]

    def report(self, record: Mapping[Any, Any]) -> Reports:
        """Return the user's report: a new report in the first call, and the same report later.

        Privacy: spends epsilon the first time.

        Parameters
        ----------
        record : mapping of column to value
            The user's values. Only the value of `column` is used, and only in the first call.

        Returns
        -------
        Reports of shape (1, width)
            One report, in the form of ``survey.privatize``.

        Raises
        ------
        ValueError
            If the record has no valid value of the column, if a program other than a client has
            changed the file, or if the file stays locked by another process. Then nothing is spent
            or written. The same is true after an OSError.
        """
        return self._reported(record, False)

    def renew(self, record: Mapping[Any, Any]) -> Reports:
        """Make a new report for the same column, which replaces the old one.

        Privacy: spends epsilon, in addition to the epsilon of the earlier reports.

        Parameters
        ----------
        record : mapping of column to value
            The user's values. Only the value of `column` is reported.

        Returns
        -------
        Reports of shape (1, width)
            The new report. The errors are the same as for `report`.
        """
        return self._reported(record, True)

    def __repr__(self) -> str:
        return f"SurveyClient(column={self.column!r}, n_reports={self.n_reports})"

    def _reported(self, record: Mapping[Any, Any], is_renewed: bool) -> Reports:
        """Return the report in the file; a new report is in the file before it is returned."""
        with self._changing() as entries:
            if is_renewed or entries["report"] is None:
                own = self._protocol.mechanism.mechanisms[self._part]
                report = own.privatize(self._code(record), SecureCoins())
                entries.update(report=self._row(report), n_reports=entries["n_reports"] + 1)
        return reports_of(self._report(entries["report"]), self._protocol)

    def _new(self, coins: SecureCoins) -> dict[str, Any]:
        return {**super()._new(coins), "report": None, "n_reports": 0}

    def _is_fine(self, entries: dict[str, Any]) -> bool:
        part, report, n_reports = entries["part"], entries["report"], entries["n_reports"]
        n_parts = len(self._protocol.mechanism.mechanisms)
        if not type(part) is type(n_reports) is int or len(entries) != 3:
            return False
        if part not in range(n_parts) or n_reports < 0 or (report is None) != (n_reports == 0):
            return False
        return report is None or self._are_reports([report], part)
