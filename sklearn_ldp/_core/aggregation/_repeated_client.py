"""Clients for repeated collections, which store their reports and account for epsilon."""

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
    """The client of one user who reports in several collection rounds, for a value that may change.

    If a user reports in T rounds with the oracle's `privatize`, the user spends T times epsilon.
    This client draws a *permanent* report when a value first occurs, and stores it (memoization).
    In each round it sends at random either the permanent report of the value, or a report that does
    not depend on the value. Each single report has exactly the distribution of the oracle's
    reports, so the server uses the plain oracle.

    Privacy: one report spends the oracle's epsilon, and any number of reports of one value spend at
    most `epsilon_forever`. Reports of k values spend at most k times `epsilon_forever`. The
    attribute `spent` is this total. The total protects *which* values a user had: it compares two
    users whose values change, and return, in the same rounds. It does not protect *when* a value
    changed, which the reports can reveal.

    Parameters
    ----------
    oracle : oracle, ColumnOracle, StringOracle or Protocol
        The mechanism of a single report, with declared or open categories and without a
        `random_state`. If each user of a survey reports one column, the column is drawn once for
        all rounds. If each user of a StringOracle reports one prefix of the string, the length of
        the prefix is also drawn once, and strings with the same prefix count as one value.
    memo : path-like
        The file in which the client stores its reports. It is created if it does not exist. It must
        stay on the user's device, see the notes.
    question : str
        Name of the question, such as "browser". Each question of a user needs its own file.
    epsilon_forever : float
        Total budget of all reports of one value (epsilon_inf), at least the oracle's epsilon. If it
        is twice the oracle's epsilon, the client sends the permanent report in about half of the
        rounds.
    max_epsilon : float, default=None
        Maximum total budget of all values. If a new value would exceed it, the client raises an
        error and sends nothing. Report an earlier value in such a round, because a missing report
        reveals the new value. If None, there is no maximum. You may change it later.
    fixed_part : bool, default=False
        Whether the client uses the same hash function for all values of the user. Then only hash
        values spend epsilon, so the user spends at most `hash_range_` times `epsilon_forever`. Use
        it if values change often. All reports of a user then contain the same hash function, so
        they can be linked even if the value changes.
    missing : {"error", "report"}, default="error"
        How to treat an answer that is missing or is not a category. "error" raises a ValueError. If
        users do not report in this case, their absence reveals that the answer is missing. "report"
        sends a report of a default value: None if it is a category, otherwise the last category;
        for strings, the last letter of the alphabet; for sets of items, the empty set.

    Raises
    ------
    TypeError
        If `oracle` is not an oracle or a protocol, or if its reports cannot be memoized, because
        the likelihood of a report takes more than two values.
    ValueError
        If a budget is not valid; if `fixed_part` is true and the oracle has no hash functions; if
        the oracle has a `random_state`; or if the file is damaged, belongs to another question,
        oracle or format version, or is locked by another process for a minute.

    See Also
    --------
    SurveyClient : For values that hardly change. It always sends the same report.
    sklearn_ldp.privacy.repeated_collection_risk : The information that repetition reveals.

    Notes
    -----
    A permanent report is a report of the oracle with exp(epsilon_forever) in place of exp(epsilon).
    The client sends it with a probability that gives each single report the oracle's distribution.
    The parameters in [1]_ waste budget if there are more than two values. Because the permanent
    report is sent unchanged, its noise does not average out over rounds. With most oracles, an
    observer can link the rounds of one user without the user's name, and find the round in which
    the value changed. The observer also sees when a client sends nothing because of `max_epsilon`,
    so choose `max_epsilon` so large that this is rare.

    The file contains a keyed digest of each value, its permanent report, and the report of each
    round. The key is in the file, so an attacker who has the file can try all values of a small
    domain. The file is written to disk before a report is returned, so a crash never spends epsilon
    twice. Several processes may share the file. If a file is lost, or if two devices continue from
    copies of it, new permanent reports spend epsilon again. A running client raises an error if its
    file is replaced by the file of another user; a new client cannot detect whose file it is.

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
                "RepeatedClient needs a frequency oracle or a Protocol, got "
                f"{type(oracle).__name__}. Pass for example OLH(epsilon, categories=categories)."
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
        """Return the number of values that have a permanent report.

        With `fixed_part`, it is the number of hash values that have one.
        """
        return len(self._read()["values"])

    @property
    def spent(self) -> float:
        """Return the total epsilon that all reports of clients with this file have spent.

        The total bounds the information about *which* values the user had. It does not bound the
        information about when they changed.
        """
        return self.n_values * self._forever

    @property
    def history(self) -> dict[str, float]:
        """Return a dict that maps each round to the epsilon by which it increased `spent`.

        The rounds are in the order of their first reports.
        """
        entries = self._read()
        is_first = set(entries["first"])
        return {name: self._forever * (i in is_first) for i, name in enumerate(entries["rounds"])}

    def __repr__(self) -> str:
        column = "" if self.column is None else f"column={self.column!r}, "
        return f"RepeatedClient({column}n_values={self.n_values}, spent={self.spent:g})"

    # -- reporting ------------------------------------------------------------------------------
    def report(self, value: Any, *, collection_round: str) -> Reports:
        """Return the user's report for a collection round.

        Privacy: spends `epsilon_forever` if the value is new, otherwise nothing.

        Parameters
        ----------
        value : object, or mapping of column to value
            The user's value. For a survey, it is a mapping, of which only the value of `column` is
            used; keys that are not columns of the survey raise an error. If the round already has a
            report, the argument is ignored.
        collection_round : str
            Name of the round. Each round has one report, and a second call returns it again.

        Returns
        -------
        Reports of shape (1,) or (1, width)
            One report in the form of ``oracle.privatize([value])``, with the name of the round
            attached.

        Raises
        ------
        TypeError
            If `collection_round` is not a string.
        ValueError
            If the value is not in the domain; if the total budget would exceed `max_epsilon`; if
            the client was created from the protocol of another round; or if the file was changed by
            another program, is full, or is locked by another process for a minute. After any error,
            also an OSError, nothing is spent or written.
        """
        if not isinstance(collection_round, str):
            raise TypeError(
                f"collection_round must be a text, got {type(collection_round).__name__}. Pass "
                "the name of the round, such as 'may'."
            )
        if self._protocol.collection_round not in ("", collection_round):
            raise ValueError(
                "This RepeatedClient was created from a protocol of the round "
                f"{self._protocol.collection_round!r}, so it cannot report in another round. "
                "Create a client from the oracle or from the protocol of the other round."
            )
        with self._changing() as entries:
            if collection_round not in entries["rounds"]:
                self._add_round(entries, self._code(value), collection_round)
        sent = entries["sent"][entries["rounds"].index(collection_round)]
        row = entries["permanent"][sent] if type(sent) is int else sent
        return reports_of(self._report(row), self._protocol.protocol(collection_round))

    def _add_round(self, entries: dict[str, Any], code: np.ndarray, collection_round: str) -> None:
        """Draw the report for a round and append it to the entries of the file.

        The list "sent" contains the integers of the report, or the index of a permanent report.
        """
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
                    "This value is new to this RepeatedClient, which has "
                    f"{len(entries['values'])} earlier values. The total budget would exceed "
                    "max_epsilon, so nothing is reported or written. Report an earlier value, "
                    "which spends nothing, because a missing report reveals the new value; or "
                    "create the client with a larger max_epsilon=."
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
    """Return whether all items are integers that are at least 0 and less than `high`."""
    return all(type(number) is int and 0 <= number < high for number in numbers)


def _append(entries: dict[str, Any], **added: Any) -> None:
    """Append an item to each named list of the entries.

    The lists are replaced by new lists, because earlier readers of the entries share the old lists.
    """
    entries.update({name: [*entries[name], item] for name, item in added.items()})


def asks_one_part(mechanism: object) -> bool:
    """Return whether each user reports one column of a survey, or one prefix of a string."""
    return (
        isinstance(mechanism, SampledQuestions)
        and mechanism.views is None
        and mechanism.n_drawn == 1
    )


def chains_of(protocol: Protocol, epsilon_forever: float, fixed_part: bool) -> list[Chain]:
    """Return a list with the `Chain` of the mechanism.

    A `Chain` draws permanent reports and reports of a round. If each user reports one column or
    prefix, the list contains one `Chain` for each column or prefix.
    """
    mechanism: Any = protocol.mechanism
    own = mechanism.mechanisms if asks_one_part(mechanism) else [mechanism]
    chains = [Chain(part, protocol.epsilon, epsilon_forever) for part in own]
    if fixed_part and not any(chain.has_functions for chain in chains):
        raise ValueError(
            f"{protocol.name} has no hash function, so fixed_part=True has no effect. Leave out "
            "fixed_part, or use OLH."
        )
    return chains


def most_values(max_epsilon: Any, epsilon_forever: float) -> float:
    """Return the maximum number of values whose permanent reports `max_epsilon` can pay for."""
    if max_epsilon is None:
        return math.inf
    if not isinstance(max_epsilon, Real) or not epsilon_forever <= float(max_epsilon) < math.inf:
        raise ValueError(
            "max_epsilon must be None, or a finite number that is at least "
            f"epsilon_forever={epsilon_forever:g}; got {max_epsilon!r}. Pass a larger "
            "max_epsilon, because the first value already spends epsilon_forever."
        )
    # Computed with decimals as they are written, so that three times 0.1 is not above 0.3.
    maximum = Fraction(repr(float(max_epsilon)))
    return int(maximum / Fraction(repr(float(epsilon_forever))))


class SurveyClient(BaseClient):
    """The client of one user in a repeated survey, which always sends the same report.

    Privacy: creating the client spends nothing. The first call of `report` spends the epsilon of
    the survey. All further calls return the same report and spend nothing, even if the values have
    changed. Each call of `renew` spends epsilon again, on the same column.

    Parameters
    ----------
    survey : ColumnOracle
        An unfitted survey with declared domains and without a `random_state`, in which each user
        reports one column (``n_sampled=1``).
    memo : path-like
        The file in which the client stores the drawn column and the report. It is created if it
        does not exist. It must stay on the user's device, although it contains only the report and
        not the values. Delete the file to remove the user's data from the device.
    question : str
        Name of the question, such as "browser". Each question of a user needs its own file.
    missing : {"error", "report"}, default="error"
        As for :class:`RepeatedClient`.

    Raises
    ------
    TypeError
        If `survey` is not a survey in which each user reports one column.
    ValueError
        If the file is damaged, belongs to another question, survey or format version, or is locked
        by another process for a minute; or if the survey has a `random_state`.

    See Also
    --------
    RepeatedClient : For values that change. It stores one permanent report per value.
    sklearn_ldp.robustness.assigned_parts : The server assigns the column of each user.

    Notes
    -----
    All reports of one user are equal. So an observer can link the rounds of a user without the
    user's name, and find the round in which the report was renewed. This is harder if reports have
    no user tokens and are shuffled. The column is drawn once, because a user who reports another
    column in each round spends epsilon in each round. :class:`RepeatedClient` describes the effects
    of a crash and of a copied file.

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
                "SurveyClient needs a survey in which each user reports one column, got "
                f"{type(survey).__name__}. Pass for example ColumnOracle(1.0, domains=domains)."
            )
        super().__init__(survey, memo, question, missing)

    @property
    def n_reports(self) -> int:
        """Return the number of reports that clients with this file have made.

        Each of them spent epsilon.
        """
        return self._read()["n_reports"]

    def report(self, record: Mapping[Any, Any]) -> Reports:
        """Return the user's report, which the first call makes and later calls repeat.

        Privacy: the first call spends epsilon.

        Parameters
        ----------
        record : mapping of column to value
            The user's values. Only the value of `column` is used, and only in the first call. Keys
            that are not columns of the survey raise an error.

        Returns
        -------
        Reports of shape (1, width)
            One report, in the form of ``survey.privatize``.

        Raises
        ------
        ValueError
            If the record has no valid value for the column, if the file was changed by another
            program, or if it is locked by another process for a minute. After any error, also an
            OSError, nothing is spent or written.
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
        """Return the report in the file.

        If there is no report, or if `is_renewed` is true, make a new report and write it first.
        """
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
