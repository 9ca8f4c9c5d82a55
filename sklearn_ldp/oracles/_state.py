"""What an oracle has collected so far, and how users and reports are added to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..mechanisms._coins import CoinStreams
from ..protocols import Counts, Protocol, check_counts, expand
from ..protocols._clients import privatize


class Groups(NamedTuple):
    """What is known of groups of users, of which an estimate has a row each.

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
class Collected:
    """A collection in progress, replaced as a whole, so that a failure never changes half of it.

    Parameters
    ----------
    protocol : Protocol
        The protocol of the reports.
    counts : Counts
        The counts of the reports so far.
    streams : CoinStreams
        The streams of the users' coins.
    parameters : dict
        The parameters of the oracle that started the collection.
    first : int, default=0
        Position of the first user in the streams of coins.
    is_weighted : bool, default=False
        Whether some rows stood for several users (``sample_weight``).
    groups : Groups or None, default=None
        Groups that are estimated apart; None makes one estimate of all users.
    """

    protocol: Protocol
    counts: Counts
    streams: CoinStreams
    parameters: dict[str, Any]
    first: int = 0
    is_weighted: bool = False
    groups: Groups | None = None

    @property
    def mechanism(self) -> Any:
        """The mechanism of the protocol."""
        return self.protocol.mechanism

    @property
    def position(self) -> int:
        """Position of the next user in the streams of coins."""
        return self.first + self.counts.n_samples

    @cached_property
    def decoded(self) -> tuple[np.ndarray, np.ndarray]:
        """The decoded tallies, from which estimates are made, and the sizes of all groups."""
        if self.groups is not None:
            return self.groups.decoded, self.groups.sizes
        tallies, sizes = self.counts.by_group
        return self.mechanism.decode(tallies), sizes

    def of_rows(self, rows: np.ndarray) -> tuple[Any, list | None]:
        """Return the numbers of all users, and the names, of rows of an estimate."""
        if self.groups is None:
            return self.counts.n_samples, None
        return self.groups.sizes[rows], [self.groups.names[i] for i in rows]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "decoded"}

    def emptied(self, counts: Counts | None = None) -> Collected:
        """Return an empty collection that goes on with fresh coins.

        In a seeded run these are the coins at the positions after all users so far.
        """
        counts = self.protocol.empty if counts is None else counts
        return replace(self, counts=counts, first=self.position)

    def with_values(
        self,
        codes: np.ndarray,
        sample_weight: ArrayLike | None,
        n_jobs: int | None,
        parts: np.ndarray | None = None,
    ) -> Collected:
        """Return the collection with users added, whose codes are randomised.

        Parameters
        ----------
        codes : ndarray whose first axis is the rows
            The users' values as the domain encodes them.
        sample_weight : array-like of shape (n_rows,) or None
            Number of users of each row.
        n_jobs : int or None
            Number of threads.
        parts : ndarray of shape (n_rows,), default=None
            The part (group or shard) of each row.
        """
        start = self.position

        def make_reports(rows, first):
            chosen = codes[rows]
            return privatize(self.mechanism, chosen, start + first, self.streams, for_sums=True)

        return self._with(len(codes), sample_weight, n_jobs, make_reports, parts)

    def with_reports(
        self,
        reports: Any,
        sample_weight: ArrayLike | None,
        n_jobs: int | None,
        parts: np.ndarray | None = None,
    ) -> Collected:
        """Return the collection with reports added; the arguments are those of `with_values`."""
        reports = self.protocol.check(reports)
        return self._with(len(reports), sample_weight, n_jobs, lambda rows, _: reports[rows], parts)

    def _with(
        self,
        n_rows: int,
        sample_weight: ArrayLike | None,
        n_jobs: int | None,
        make_reports: Callable[[Any, int], np.ndarray],
        parts: np.ndarray | None,
    ) -> Collected:
        n_users, ends = n_rows, None
        if sample_weight is not None:
            ends = np.cumsum(check_weights(sample_weight, n_rows, self.protocol.name))
            n_users = int(ends[-1])

        def reports_of_users(start, stop):
            return make_reports(expand(ends, start, stop), start)

        def parts_of_users(start, stop):
            assert parts is not None
            return parts[expand(ends, start, stop)]

        counts = self.counts.added(
            self.mechanism,
            n_users,
            reports_of_users,
            n_jobs,
            None if parts is None else parts_of_users,
        )
        is_weighted = self.is_weighted or sample_weight is not None
        return replace(self, counts=counts, is_weighted=is_weighted)

    def checked_shards(self, shards: ArrayLike, n_rows: int) -> np.ndarray:
        """Return the shard of each report, or raise ValueError."""
        shards, n_shards, wanted = np.asarray(shards), self.counts.n_shards, self.protocol.n_shards
        is_valid = shards.shape == (n_rows,) and shards.dtype.kind in "iu"
        if not is_valid or not np.all((shards >= 0) & (shards < n_shards)):
            raise ValueError(
                f"{self.protocol.name} expects shards of shape ({n_rows},), integers in [0, "
                f"{n_shards - 1}], one for each row; got dtype {shards.dtype}, shape "
                f"{shards.shape}. It keeps {n_shards} shards apart (n_shards={wanted}, fewer where "
                "they would not fit in memory)."
            )
        return shards

    def merged(self, other: Collected) -> Collected:
        """Return the sum of two collections, or raise ValueError if they do not add up."""
        what = self.protocol.difference(other.protocol)
        if not what and self.counts.n_shards != other.counts.n_shards:
            what = f"n_shards {other.counts.n_shards} instead of {self.counts.n_shards}"
        if what:
            raise ValueError(
                f"{self.protocol.name}.merge refuses a differently configured oracle ({what}): "
                "reports of two protocols do not add up. Make an estimate of each instead."
            )
        is_weighted = self.is_weighted or other.is_weighted
        return replace(self, counts=self.counts + other.counts, is_weighted=is_weighted)


def check_weights(sample_weight: ArrayLike, n_rows: int, name: str) -> np.ndarray:
    """Return the number of users of each row as int64 of shape (n_rows,), or raise ValueError."""
    weights = check_counts(sample_weight, f"{name}: sample_weight")
    if len(weights) != n_rows:
        raise ValueError(
            f"{name} expects one sample_weight for each row of X: expected {n_rows}, got "
            f"{len(weights)}."
        )
    return weights
