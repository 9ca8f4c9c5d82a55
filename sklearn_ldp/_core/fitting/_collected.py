"""The state of a collection: its protocol, the counts of its reports, and its random bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..common.locks import cached_property
from ..common.privacy import HARDLY_ANY, warn_once
from ..common.state import Uncached
from ..mechanisms import Counts, Protocol, Users, check_counts, check_total
from ..mechanisms.coins import CoinStreams
from ..mechanisms.protocol import rounds_of

_WEIGHTED_GROUPS = """ Groups of users can, by their proportions of the population:
  by_group = estimate_by_group(oracle, X, by=group)
  inference.poststratify(by_group, {"a": 0.3, "b": 0.7})"""
_MANY_USERS = 50  # so many reports rarely have equal counts in two collections; by hand
#: Parameters in which the parties of a collection may differ.
PARTY_PARAMETERS = ("input", "random_state", "n_jobs")


class Groups(NamedTuple):
    """The groups of users that are the rows of an estimate.

    Parameters
    ----------
    names : list
        The names of the groups.
    decoded : ndarray of shape (n_groups, any)
        For each group, the decoded counts of reports, from which the estimate is computed.
    sizes : ndarray of int of shape (n_groups,)
        For each group, the number of users.
    """

    names: list
    decoded: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True, eq=False)
class Collected(Uncached):
    """The state of a collection: the reports that have been counted so far.

    The object is immutable. To add reports, a new object is created. So an error cannot leave a
    collection to which only a part of the reports was added.

    Parameters
    ----------
    protocol : Protocol
        The protocol of the reports.
    counts : Counts
        The counts of the reports so far.
    streams : CoinStreams
        The source of the random bits of each user.
    parameters : dict
        The parameters of the oracle that started the collection.
    first : int, default=0
        Position of the first user. With a seed, the random bits of a user depend on the position.
    is_weighted : bool, default=False
        Whether reports were added with ``sample_weight``, so that a row stood for several users.
    groups : Groups or None, default=None
        Groups of users with a separate row in the estimate. If None, the estimate has one row for
        all users.
    is_learned : bool, default=False
        Whether the domain was learned from users' values.
    is_of_fit : bool, default=False
        Whether `fit` started the collection. Then the batches of calls that began before this `fit`
        are not added.
    rounds : frozenset of str, default=frozenset()
        The names of the collection rounds that were attached to the reports so far.
    """

    protocol: Protocol
    counts: Counts
    streams: CoinStreams
    parameters: dict[str, Any]
    first: int = 0
    is_weighted: bool = False
    groups: Groups | None = None
    is_learned: bool = False
    is_of_fit: bool = False
    rounds: frozenset[str] = frozenset()

    @property
    def caveats(self) -> tuple[str, ...]:
        """Sentences about limits of the users' privacy, for the report page of the estimate."""
        seed = self.parameters["random_state"]
        epsilon = self.protocol.epsilon
        is_true_by_text = {
            "The domain was learned from the users' values, which reveals the values that occur.": (
                self.is_learned
            ),
            "The reports do not protect users, because the oracle has a seed. A seed is for "
            "simulations.": seed is not None,
            f"The reports do not protect users at epsilon = {epsilon:g}.": epsilon > HARDLY_ANY,
        }
        return tuple(text for text, is_true in is_true_by_text.items() if is_true)

    @property
    def mechanism(self) -> Any:
        """The mechanism of the protocol."""
        return self.protocol.mechanism

    @property
    def position(self) -> int:
        """Position of the next user. With a seed, the random bits of a user depend on the
        position."""
        return self.first + self.counts.n_samples

    @cached_property
    def decoded(self) -> tuple[np.ndarray, np.ndarray]:
        """The decoded counts of reports, from which the estimate is computed, and the numbers of
        users.

        Both arrays have a row or an entry for each group of users.
        """
        if self.groups is not None:
            return self.groups.decoded, self.groups.sizes
        tallies, sizes = self.counts.by_group
        return self.mechanism.decode(tallies), sizes

    def row_sizes_and_names(self, rows: np.ndarray) -> tuple[Any, list | None]:
        """Return, for some rows of the estimate, the numbers of users and the names of the groups.

        If there are no groups, return the number of all users, and None instead of names.
        """
        if self.groups is None:
            return self.counts.n_samples, None
        return self.groups.sizes[rows], [self.groups.names[i] for i in rows]

    def emptied(self, counts: Counts | None = None) -> Collected:
        """Return a collection without reports, which continues with fresh random bits.

        With a seed, these are the random bits for the positions after all users so far. If `counts`
        is not None, the collection has these counts.
        """
        counts = self.protocol.empty if counts is None else counts
        return replace(self, counts=counts, first=self.position, rounds=frozenset())

    def with_values(
        self,
        codes: np.ndarray,
        sample_weight: ArrayLike | None,
        n_jobs: int | None,
        slots: np.ndarray | None = None,
    ) -> Collected:
        """Randomize users' values, and return the collection to which these reports were added.

        Parameters
        ----------
        codes : ndarray whose first axis is the rows
            The users' values as the domain encodes them.
        sample_weight : array-like of shape (n_rows,) or None
            Number of users that each row stands for.
        n_jobs : int or None
            Number of threads.
        slots : ndarray of shape (n_rows,), default=None
            The index of the slot (combination of group and shard) of each row.
        """
        return self._with(codes, self.streams, sample_weight, n_jobs, slots)

    def with_reports(
        self,
        reports: Any,
        sample_weight: ArrayLike | None,
        n_jobs: int | None,
        slots: np.ndarray | None = None,
    ) -> Collected:
        """Return the collection to which the given reports have been added.

        The other arguments are as for `with_values`.
        """
        # If rows stand for several users, their total has another distribution.
        checked = self.protocol.check(reports, tests_totals=sample_weight is None)
        rounds = self._rounds_with(rounds_of(reports))
        return replace(self._with(checked, None, sample_weight, n_jobs, slots), rounds=rounds)

    def _rounds_with(self, others: frozenset[str]) -> frozenset[str]:
        """Return the names of the rounds so far and of other rounds. Warn once if they differ."""
        rounds = self.rounds | others
        if len(rounds) > 1:
            name = self.protocol.name
            first, second = sorted(rounds)[:2]
            text = f"{name} counts reports of {len(rounds)} rounds together, such as {first!r} and "
            text += f"{second!r}, so a user who reports in each of them counts as several users. "
            text += "Estimate each round with its own oracle, and pass the estimates to "
            text += "inference.combine, with shared_users=True if the users are the same."
            warn_once(text, UserWarning, f"{name} counts several rounds")
        return rounds

    def _with(
        self,
        rows: np.ndarray,
        streams: CoinStreams | None,
        sample_weight: ArrayLike | None,
        n_jobs: int | None,
        slots: np.ndarray | None,
    ) -> Collected:
        n_users = len(rows)
        ends = None
        if sample_weight is not None:
            ends = np.cumsum(check_weights(sample_weight, n_users, self.protocol.name))
            n_users = int(ends[-1])
        self._check_total(n_users)
        users = Users(self.mechanism, rows, streams, self.position, ends, slots)
        slots_of = None if slots is None else users.slots
        counts = self.counts.added(self.mechanism, n_users, users.reports, n_jobs, slots_of)
        is_weighted = self.is_weighted or sample_weight is not None
        return replace(self, counts=counts, is_weighted=is_weighted)

    def merged(self, other: Collected) -> Collected:
        """Return the sum of two collections. Raise ValueError if protocols or shards differ."""
        difference = self.protocol.difference(other.protocol)
        if not difference and self.counts.n_shards != other.counts.n_shards:
            difference = f"n_shards {other.counts.n_shards} instead of {self.counts.n_shards}"
        if difference:
            others = [name for name in self._differing(other) if name not in difference]
            also = f"; they have other values of {', '.join(others)}" if others else ""
            raise ValueError(
                f"{self.protocol.name}.merge refuses a differently configured oracle ({difference}"
                f"{also}), because reports with different configurations cannot be counted "
                "together. Use the estimate of each oracle separately."
            )
        name = self.protocol.name
        theirs = other.counts
        self._check_total(theirs.n_samples)
        try:
            self.mechanism.check_tallies(theirs.tallies[0], theirs.sizes[0])
        except ValueError as error:
            raise ValueError(
                f"{name}.merge refuses the other {name}, because its counts of reports are "
                f"impossible: {error}. Collect its reports again."
            ) from None
        is_weighted = self.is_weighted or other.is_weighted
        counts = self.counts + theirs
        rounds = self._rounds_with(other.rounds)
        return replace(self, counts=counts, is_weighted=is_weighted, rounds=rounds)

    def has_equal_counts(self, other: Collected) -> bool:
        """Return whether two collections of many users have the same counts of reports."""
        if self.counts.n_samples < _MANY_USERS:  # few reports may be equal by chance
            return False
        return np.array_equal(self.counts.sizes, other.counts.sizes) and np.array_equal(
            self.counts.tallies, other.counts.tallies
        )

    def with_additions(self, before: Collected, after: Collected) -> Collected:
        """Return this collection with the reports that another call has added to an earlier state.

        The call has changed the state `before` to the state `after`.
        """
        n_others = self.counts.n_samples - before.counts.n_samples
        counts = self.counts + after.counts.since(before.counts, n_others)
        check_total(counts.n_samples, f"The users of this {self.protocol.name}")
        is_weighted = self.is_weighted or after.is_weighted
        rounds = self.rounds | after.rounds
        return replace(self, counts=counts, is_weighted=is_weighted, rounds=rounds)

    def _check_total(self, n_more: int) -> None:
        check_total(self.counts.n_samples + n_more, f"The users of this {self.protocol.name}")

    def _differing(self, other: Collected) -> list[str]:
        """Return the names of the parameters with different values (numbers or texts only)."""
        ours, theirs = (
            {
                name: value
                for name, value in collected.parameters.items()
                if isinstance(value, (int, float, str)) and name not in PARTY_PARAMETERS
            }
            for collected in (self, other)
        )
        return [name for name in ours if name in theirs and ours[name] != theirs[name]]


def check_weights(sample_weight: ArrayLike, n_rows: int, name: str) -> np.ndarray:
    """Check `sample_weight`, and return it as int64 of shape (n_rows,). Raise ValueError otherwise.

    It contains the number of users that each row stands for. `name` is the class in the error
    message.
    """
    weights = check_counts(sample_weight, f"{name}: sample_weight", _WEIGHTED_GROUPS)
    if len(weights) != n_rows:
        raise ValueError(
            f"{name} expects one sample_weight for each of the {n_rows} rows of X, got "
            f"{len(weights)} weights. Pass the number of users of each row."
        )
    return weights


def lost_weights(state: Collected, sample_weight: ArrayLike | None) -> str:
    """Return a warning text if an oracle was fitted with weights but is scored without weights;
    else ""."""
    text = (
        f"The {state.protocol.name} was fitted with sample_weight, but is scored without it, so "
        "each row of X counts as one user. Pass sample_weight to the score, too. In a search, call "
        "sklearn.set_config(enable_metadata_routing=True), set_fit_request(sample_weight=True) of "
        "the oracle and set_score_request(sample_weight=True) of the scorer, and pass "
        "sample_weight= to the search. If each row is one user, pass a sample_weight of ones."
    )
    return text * (state.is_weighted and sample_weight is None)
