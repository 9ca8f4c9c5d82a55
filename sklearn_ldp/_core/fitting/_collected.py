"""A collection in progress: its protocol, its counts and its streams of random bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..common.locks import cached_property
from ..common.privacy import HARDLY_ANY
from ..common.state import Uncached
from ..mechanisms import Counts, Protocol, Users, check_counts, check_total
from ..mechanisms.coins import CoinStreams

_WEIGHTED_GROUPS = """ Groups of users can, by their proportions of the population:
  by_group = estimate_by_group(oracle, X, by=group)
  inference.poststratify(by_group, {"a": 0.3, "b": 0.7})"""
#: Parameters in which the parties of a collection may differ.
PARTY_PARAMETERS = ("input", "random_state", "n_jobs")


class Groups(NamedTuple):
    """Groups of users, which are the rows of an estimate: their names and sizes.

    Parameters
    ----------
    names : list
        The names of the groups.
    decoded : ndarray of shape (n_groups, any)
        Their decoded tallies.
    sizes : ndarray of int of shape (n_groups,)
        Their numbers of users.
    """

    names: list
    decoded: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True, eq=False)
class Collected(Uncached):
    """A collection in progress. It is immutable, so a failure cannot leave half of a change.

    Parameters
    ----------
    protocol : Protocol
        The protocol of the reports.
    counts : Counts
        The counts of the reports so far.
    streams : CoinStreams
        The streams of the users' random bits.
    parameters : dict
        The parameters of the oracle that started the collection.
    first : int, default=0
        Position of the first user in the streams of random bits.
    is_weighted : bool, default=False
        Whether some rows stood for several users (``sample_weight``).
    groups : Groups or None, default=None
        Groups that are estimated separately. If None, there is one estimate of all users.
    is_learned : bool, default=False
        Whether the domain was learned from users' values.
    is_of_fit : bool, default=False
        Whether `fit` began the collection. It then discards all calls that began before it.
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

    @property
    def caveats(self) -> tuple[str, ...]:
        """Sentences about the users' privacy, for a report of the estimate."""
        seed = self.parameters["random_state"]
        epsilon = self.protocol.epsilon
        is_true_by_text = {
            "That the domain was public: it was learned from the users' values, which leaks the "
            "values that occur.": self.is_learned,
            "That the reports protect users: the oracle has a seed, which is for simulations.": seed
            is not None,
            f"That the reports protect users: no report does at epsilon = {epsilon:g}.": (
                epsilon > HARDLY_ANY
            ),
        }
        return tuple(text for text, is_true in is_true_by_text.items() if is_true)

    @property
    def mechanism(self) -> Any:
        """The mechanism of the protocol."""
        return self.protocol.mechanism

    @property
    def position(self) -> int:
        """Position of the next user in the streams of random bits."""
        return self.first + self.counts.n_samples

    @cached_property
    def decoded(self) -> tuple[np.ndarray, np.ndarray]:
        """The decoded tallies, which are the input of estimates, and the sizes of all groups."""
        if self.groups is not None:
            return self.groups.decoded, self.groups.sizes
        tallies, sizes = self.counts.by_group
        return self.mechanism.decode(tallies), sizes

    def row_sizes_and_names(self, rows: np.ndarray) -> tuple[Any, list | None]:
        """Return the numbers of users in rows of an estimate, and the names of the rows."""
        if self.groups is None:
            return self.counts.n_samples, None
        return self.groups.sizes[rows], [self.groups.names[i] for i in rows]

    def emptied(self, counts: Counts | None = None) -> Collected:
        """Return an empty collection that continues with fresh random bits.

        In a seeded run these are the bits at the positions after all users so far.
        """
        counts = self.protocol.empty if counts is None else counts
        return replace(self, counts=counts, first=self.position)

    def with_values(
        self,
        codes: np.ndarray,
        sample_weight: ArrayLike | None,
        n_jobs: int | None,
        slots: np.ndarray | None = None,
    ) -> Collected:
        """Return the collection with the randomized reports of more users.

        Parameters
        ----------
        codes : ndarray whose first axis is the rows
            The users' values as the domain encodes them.
        sample_weight : array-like of shape (n_rows,) or None
            Number of users of each row.
        n_jobs : int or None
            Number of threads.
        slots : ndarray of shape (n_rows,), default=None
            The slot (group or shard) of each row.
        """
        return self._with(codes, self.streams, sample_weight, n_jobs, slots)

    def with_reports(
        self,
        reports: Any,
        sample_weight: ArrayLike | None,
        n_jobs: int | None,
        slots: np.ndarray | None = None,
    ) -> Collected:
        """Return the collection with more reports; see `with_values` for the arguments."""
        # If rows stand for several users, their total has another distribution.
        reports = self.protocol.check(reports, tests_totals=sample_weight is None)
        return self._with(reports, None, sample_weight, n_jobs, slots)

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
        """Return the sum of two collections; raise ValueError if their protocols differ."""
        difference = self.protocol.difference(other.protocol)
        if not difference and self.counts.n_shards != other.counts.n_shards:
            difference = f"n_shards {other.counts.n_shards} instead of {self.counts.n_shards}"
        if difference:
            others = [name for name in self._differing(other) if name not in difference]
            also = f"; they have other values of {', '.join(others)}" if others else ""
            raise ValueError(
                f"{self.protocol.name}.merge refuses a differently configured oracle ({difference}"
                f"{also}), because reports of two protocols cannot be added up. Make a separate "
                "estimate of each oracle."
            )
        name = self.protocol.name
        theirs = other.counts
        self._check_total(theirs.n_samples)
        try:
            self.mechanism.check_tallies(theirs.tallies[0], theirs.sizes[0])
        except ValueError as error:
            raise ValueError(f"{name}.merge refuses the other {name}: {error}.") from None
        is_weighted = self.is_weighted or other.is_weighted
        return replace(self, counts=self.counts + other.counts, is_weighted=is_weighted)

    def with_additions(self, before: Collected, after: Collected) -> Collected:
        """Return the collection with the users that another call has added between two states."""
        n_others = self.counts.n_samples - before.counts.n_samples
        counts = self.counts + after.counts.since(before.counts, n_others)
        check_total(counts.n_samples, f"The users of this {self.protocol.name}")
        return replace(self, counts=counts, is_weighted=self.is_weighted or after.is_weighted)

    def _check_total(self, n_more: int) -> None:
        check_total(self.counts.n_samples + n_more, f"The users of this {self.protocol.name}")

    def _differing(self, other: Collected) -> list[str]:
        """Return the names of the parameters with different numbers or texts."""
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
    """Return the number of users of each row as int64 of shape (n_rows,), or raise ValueError."""
    weights = check_counts(sample_weight, f"{name}: sample_weight", _WEIGHTED_GROUPS)
    if len(weights) != n_rows:
        raise ValueError(
            f"{name} expects one sample_weight for each row of X ({n_rows}), got {len(weights)}. "
            "Pass the number of users of each row."
        )
    return weights


def lost_weights(state: Collected, sample_weight: ArrayLike | None) -> str:
    """Return a warning if an oracle was fitted with weights but is scored without weights."""
    text = (
        f"The {state.protocol.name} was fitted with sample_weight, but is scored without it, so "
        "each row of X counts as one user. In a search call sklearn.set_config("
        "enable_metadata_routing=True), set_fit_request(sample_weight=True) of the oracle and "
        "set_score_request(sample_weight=True) of a scorer, and pass sample_weight without a "
        "prefix. If each row is one user, pass a sample_weight of ones."
    )
    return text * (state.is_weighted and sample_weight is None)
