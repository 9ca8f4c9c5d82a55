"""A client of a collection that is repeated: it remembers its reports, and keeps count."""

from __future__ import annotations

import hashlib
import secrets
from fractions import Fraction
from functools import cached_property
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np

from ..domains import codes_on_client
from ..mechanisms import OracleOrProtocol, Protocol
from ..mechanisms.chain import Chain
from ..mechanisms.coins import SecureCoins
from ..mechanisms.several import Several
from ._memo import Memo


class BaseClient:
    """One user of an oracle, or of the column of a survey that is drawn for her once."""

    _form: str  # name and version of the format of the file
    _mark: str  # the entry that tells one user's file from another's

    def __init__(
        self, source: OracleOrProtocol, memo: str | PathLike[str], **settings: float
    ) -> None:
        self._protocol: Protocol = source.protocol()
        self._part: int | None = None
        self._name = type(self).__name__
        if getattr(source, "random_state", None) is not None:
            raise ValueError(
                f"{self._name} refuses {type(source).__name__} with a random_state, because "
                "predictable reports protect nobody: leave it out. To simulate, use privatize."
            )
        self._file = Memo(memo, self._name, self._form, self._protocol, self._is_fine, **settings)
        entries = None if self._file.is_left_locked() else self._file.read()
        if entries is None:
            with self._file.changing() as entries:
                if not entries:
                    entries.update(self._new(SecureCoins()))
        self._part, self._own_mark = entries["part"], entries[self._mark]

    def _new(self, coins: SecureCoins) -> dict[str, Any]:
        """The entries of a new file, of which "part" is the number of the column, or None."""
        mechanism = self._protocol.mechanism
        if isinstance(mechanism, Several):
            self._part = int(mechanism.draw_samples(1, coins)[0])
        return {"part": self._part}

    def _is_fine(self, entries: dict[str, Any]) -> bool:
        """Whether the entries of a file can be those of such a client."""
        raise NotImplementedError

    @property
    def _mechanism(self) -> Any:
        mechanism: Any = self._protocol.mechanism
        return mechanism if self._part is None else mechanism.mechanisms[self._part]

    @property
    def column(self) -> Any:
        """The column that this user is asked for; None if there are no columns to draw from."""
        if self._part is None:
            return None
        domain: Any = self._protocol.domain
        return list(domain.columns)[self._part]

    def _code(self, value: Any) -> np.ndarray:
        """The code of a value, or of that of the column in a record, of shape (1,)."""
        domain: Any = self._protocol.domain
        if self._part is None:
            return codes_on_client(domain, [value], self._protocol.name)
        if self.column not in value:
            raise ValueError(
                f"{self._name} is to report the column {self.column!r}, which the record does not "
                f"have: {', '.join(map(repr, value))}."
            )
        name = f"{self._protocol.name}, in the column {self.column!r},"
        return codes_on_client(domain.columns[self.column], [value[self.column]], name)

    # -- reports, in the file as a list of integers -------------------------------------------
    def _row(self, report: np.ndarray) -> list[int]:
        own = np.ravel(report).tolist()
        if self._part is None:
            return own
        width = sum(field.width or 1 for field in self._protocol.mechanism.report_fields)
        return [self._part, *own, *[0] * (width - 1 - len(own))]

    def _report(self, row: list[int]) -> np.ndarray:
        """The report as `privatize` returns it."""
        if self._part is not None:
            return np.array([row], dtype=np.int64)
        mechanism = self._mechanism
        if len(row) in [field.width for field in mechanism.older_fields]:
            return mechanism.as_reports([row])
        return np.array(row, dtype=self._like.dtype).reshape(1, *self._like.shape[1:])

    @cached_property
    def _like(self) -> np.ndarray:
        """No reports, of the right type and shape."""
        codes = np.uint64 if self._protocol.domain.is_open else np.int64
        return self._mechanism.privatize(np.zeros(0, dtype=codes), SecureCoins())

    def _own(self, entries: dict[str, Any] | None) -> dict[str, Any]:
        """The entries, if they still are of this client."""
        if not entries or entries[self._mark] != self._own_mark:
            raise ValueError(
                f"The memo of this {self._name} has been deleted, or another one is in its place, "
                "so nothing is reported: make a new client of the file that is meant."
            )
        return entries


def asks_one_column(mechanism: object) -> bool:
    """Whether a mechanism is that of a survey whose users are asked for one column each."""
    # The levels of a tree of bins are parts as well, and no columns.
    return type(mechanism) is Several and mechanism.views is None and mechanism.n_drawn == 1


_ENTRIES = {"key", "part", "function", "values", "permanent", "first", "rounds", "sent"}


class RepeatedClient(BaseClient):
    """One user's side of a collection that is repeated, when her value may change.

    Whoever reports in T rounds with `privatize` spends T times epsilon. This client draws a
    *permanent* report when a value first occurs. In each round it sends that report or, by a coin,
    one that does not depend on the value. A single report has exactly the law of the oracle's, so
    nothing changes on the server.

    Privacy: one report spends the oracle's epsilon, any number of reports of one value at most
    `epsilon_forever`, and those of k values k times `epsilon_forever`, which `spent` counts.

    Parameters
    ----------
    oracle : oracle, ColumnOracle or Protocol
        What a single report spends, over declared or open categories, without a `random_state`. Of
        a survey whose users are asked for one column each, the column is drawn once.
    memo : path-like
        The file that keeps the reports, created if missing. It is private, see the notes.
    epsilon_forever : float
        Budget of all reports of one value together, at least the oracle's epsilon. With twice the
        oracle's epsilon, about half of the rounds send the permanent report.
    most_epsilon : float, default=None
        The most that all values may spend; a new value that would spend more is refused. None means
        no limit. It may be changed later.
    fixed_part : bool, default=False
        Whether one hash function serves all values, so that at most `hash_range_` values are ever
        paid for. Take it if values change often. All reports of a user then carry her function, so
        they are linkable even if her value changes.

    Attributes
    ----------
    column : object
        The column of a survey that this user is asked for; None for an oracle.
    spent : float
        What all reports have spent, by any client with this file.
    n_values : int
        Number of values (with a fixed part, of hash values) that have a permanent report.
    history : dict of str to float
        What each round has added to `spent`, in the order in which they were reported first.

    Raises
    ------
    TypeError
        If the reports have no two likelihoods, or `fixed_part` finds no hash function.
    ValueError
        If a budget is not valid; if the oracle has a `random_state`; or if the file is damaged, is
        of another oracle or a newer version, or is kept locked by another process for a minute.

    See Also
    --------
    SurveyClient : Where values hardly change: one report for ever.
    sklearn_ldp.metrics.repeated_collection_risk : What repetition reveals.

    Notes
    -----
    A permanent report is one of the oracle's with exp(epsilon_forever) in the place of
    exp(epsilon), and it is sent with the probability that makes a single report the oracle's:
    published parameters [1]_ waste budget over more than two values. Its noise does not average out
    over rounds.

    What is still linkable: a permanent report comes back unchanged, so with most oracles the rounds
    of one user can be found without her name, as can the round in which her value changed. A
    refusal is visible, too: choose `most_epsilon` such that it is rare.

    The file holds a keyed digest of each value, its permanent report, and the report of each round.
    The key is in the file: whoever has the file can try all values of a small domain. It is on disk
    before a report is returned, so a crash draws no second permanent report, and a round that was
    reported before gets the same report again. Several processes may share the file. A file that is
    lost or copied means new permanent reports, which spend again. A client refuses another user's
    file that takes the place of its own while it lives; a new client cannot tell whose a file is.

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
    >>> client = RepeatedClient(oracle, memo, epsilon_forever=2.0, most_epsilon=8.0)
    >>> rounds = [("firefox", "may"), ("firefox", "june"), ("edge", "july")]
    >>> reports = [client.report(value, collection_round=name) for value, name in rounds]
    >>> client.history
    {'may': 2.0, 'june': 0.0, 'july': 2.0}
    >>> client.spent, client.n_values
    (4.0, 2)
    >>> oracle.aggregate(reports[0]).n_samples_seen_
    1
    >>> folder.cleanup()
    """

    _form, _mark = "sklearn_ldp repeated client 1", "key"

    def __init__(
        self,
        oracle: OracleOrProtocol,
        memo: str | PathLike[str],
        *,
        epsilon_forever: float,
        most_epsilon: float | None = None,
        fixed_part: bool = False,
    ) -> None:
        if not hasattr(oracle, "protocol"):
            raise TypeError(f"RepeatedClient needs a frequency oracle or Protocol, got {oracle!r}.")
        protocol = oracle.protocol()
        mechanism: Any = protocol.mechanism
        own = mechanism.mechanisms if asks_one_column(mechanism) else [mechanism]
        self._chains = [Chain(one, protocol.epsilon, epsilon_forever) for one in own]
        if fixed_part and not any(map(_has_part, own)):
            raise TypeError(
                f"{protocol.name} has no hash function that could be fixed: leave fixed_part out, "
                "or use OLH."
            )
        check_cap(most_epsilon, epsilon_forever)
        self._forever, self._most = float(epsilon_forever), most_epsilon
        self._is_fixed = bool(fixed_part)
        super().__init__(oracle, memo, epsilon_forever=self._forever, fixed_part=self._is_fixed)

    # -- the account ----------------------------------------------------------------------------
    @property
    def n_values(self) -> int:
        """Number of values (with a fixed part, of hash values) that have a permanent report."""
        return len(self._own(self._file.read())["values"])

    @property
    def spent(self) -> float:
        """What all reports have spent."""
        return self.n_values * self._forever

    @property
    def history(self) -> dict[str, float]:
        """What each round has added to `spent`, in the order in which they were reported first."""
        entries = self._own(self._file.read())
        costs = dict.fromkeys(entries["rounds"], 0.0)
        for i in entries["first"]:
            costs[entries["rounds"][i]] = self._forever
        return costs

    def __repr__(self) -> str:
        column = "" if self._part is None else f"column={self.column!r}, "
        return f"RepeatedClient({column}n_values={self.n_values}, spent={self.spent:g})"

    # -- reporting ------------------------------------------------------------------------------
    def report(self, value: Any, *, collection_round: str) -> np.ndarray:
        """Return the user's report of a round.

        Privacy: spends `epsilon_forever` if the value is new, otherwise nothing.

        Parameters
        ----------
        value : object, or mapping of column to value
            The user's value; for a survey her values, of which only that of `column` is looked at.
            If the round was reported before, it does not matter.
        collection_round : str
            Name of the round. Each round has one report.

        Returns
        -------
        ndarray of shape (1,) or (1, width)
            One report, as ``oracle.privatize([value])`` returns it.

        Raises
        ------
        TypeError
            If the round is not a string.
        ValueError
            If the value is not in the domain, would spend more than `most_epsilon`, or the protocol
            is of another round; or if the file has changed otherwise than by clients, is full, or
            is kept locked by another process. Nothing is spent or written then, nor after OSError.
        """
        if not isinstance(collection_round, str):
            raise TypeError(f"collection_round must be a string, got {collection_round!r}.")
        self._protocol.protocol(collection_round)
        entries = self._own(self._file.read())
        if collection_round not in entries["rounds"]:
            with self._file.changing() as entries:
                self._own(entries)
                if collection_round not in entries["rounds"]:
                    self._add_round(entries, self._code(value), collection_round)
        sent = entries["sent"][entries["rounds"].index(collection_round)]
        return self._report(entries["permanent"][sent] if type(sent) is int else sent)

    def _add_round(self, entries: dict[str, Any], code: np.ndarray, collection_round: str) -> None:
        """Draw the report of a round; a number in "sent" stands for a permanent report."""
        coins, function, chain = SecureCoins(), entries["function"], self._chains[self._part or 0]
        looked_at = int(code[0]) if function is None else chain.image(code, function)
        key = bytes.fromhex(entries["key"])
        digest = hashlib.blake2b(b"%d" % looked_at, key=key, digest_size=16).hexdigest()
        if digest not in entries["values"]:
            self._refuse_beyond(len(entries["values"]))
            permanent = self._row(chain.permanent(code, coins, function))
            _append(entries, values=digest, permanent=permanent, first=len(entries["rounds"]))
        sent: Any = entries["values"].index(digest)
        if not chain.are_permanent(1, coins)[0]:
            sent = self._row(chain.uniform(code, coins, function))
        _append(entries, rounds=collection_round, sent=sent)

    def _refuse_beyond(self, n_values: int) -> None:
        # Decimals as they are written, so that three times 0.1 is not above 0.3.
        after = (n_values + 1) * exact(self._forever)
        if self._most is not None and after > exact(self._most):
            raise ValueError(
                f"This value is new to RepeatedClient, and would spend epsilon_forever="
                f"{self._forever:g} beyond most_epsilon={self._most:g} ({n_values} values have "
                "spent before it), so nothing is reported or written: leave this round out."
            )

    # -- the file -------------------------------------------------------------------------------
    def _new(self, coins: SecureCoins) -> dict[str, Any]:
        entries, function = super()._new(coins), None
        if self._is_fixed and _has_part(self._mechanism):
            part = self._mechanism.public_part
            function = int(part.draw(lambda high: coins.integers(high, 1))[0])
        entries.update(key=secrets.token_hex(32), function=function)
        return {**entries, **{name: [] for name in _ENTRIES - entries.keys()}}

    def _is_fine(self, entries: dict[str, Any]) -> bool:
        names = "values", "permanent", "first", "rounds", "sent", "part", "function", "key"
        values, permanent, first, rounds, sent, part, function, key = (entries[n] for n in names)
        lists, mechanism = (values, permanent, first, rounds, sent), self._protocol.mechanism
        if entries.keys() != _ENTRIES or {type(one) for one in lists} != {list}:
            return False
        if len(values) != len(permanent) or len(values) != len(first) or len(rounds) != len(sent):
            return False
        own: Any = mechanism
        if asks_one_column(mechanism):
            if not _are_below([part], len(own.mechanisms)):
                return False
            own = own.mechanisms[part]
        elif part is not None:
            return False
        if not (self._is_fixed and _has_part(own)):
            is_function = function is None
        else:
            is_function = _are_below([function], own.report_fields[0].n_values)
        own_rows = [*permanent, *(one for one in sent if type(one) is not int)]
        return (
            is_function
            and len(bytes.fromhex(key)) == 32
            and all(type(one) is str for one in [*values, *rounds])
            and len(set(values)) == len(values)
            and len(set(rounds)) == len(rounds)
            and len(set(first)) == len(first)
            and _are_below(first, len(rounds))
            and _are_below([one for one in sent if type(one) is int], len(values))
            and self._are_reports(own_rows, part)
        )

    def _are_reports(self, rows: list[Any], part: int | None) -> bool:
        """Whether rows of a file can be reports of this client; raises ValueError as well."""
        if not all(type(row) is list and row and _are_below(row, 2**63) for row in rows):
            return False
        if part is not None:
            return all(row[0] == part for row in rows) and (
                not rows or len(self._protocol.check(np.array(rows))) > 0
            )
        for width in {len(row) for row in rows}:
            reports = [self._report(row) for row in rows if len(row) == width]
            self._protocol.check(np.concatenate(reports))
        return True


def _are_below(numbers: list[Any], high: int) -> bool:
    """Whether all are integers from 0 to below a number."""
    return all(type(one) is int and 0 <= one < high for one in numbers)


def _append(entries: dict[str, Any], **added: Any) -> None:
    """Put something at the end of lists, as new ones: a memo's must not be changed."""
    entries.update({name: [*entries[name], one] for name, one in added.items()})


def _has_part(mechanism: Any) -> bool:
    """Whether a client can fix a hash function for all of its reports."""
    part = mechanism.public_part
    return part is not None and part.privatize is not None


def exact(epsilon: float) -> Fraction:
    """Return the decimal fraction that a budget is written as."""
    return Fraction(repr(float(epsilon)))


def check_cap(most_epsilon: Any, epsilon_forever: float) -> None:
    """Raise a ValueError unless a value may spend its budget before the cap of all values."""
    if most_epsilon is None:
        return
    if not isinstance(most_epsilon, Real) or not float(most_epsilon) >= epsilon_forever:
        raise ValueError(
            "Argument most_epsilon must be at least epsilon_forever, "
            f"{epsilon_forever:g}, which the first value spends, got {most_epsilon!r}."
        )
