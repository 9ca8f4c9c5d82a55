"""Protocols: all that a client and a server must agree on so that reports can be added up."""

from __future__ import annotations

import typing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._utils.random import RandomState
from .._utils.state import Uncached
from .._utils.typing import Values
from ..domains import Domain, codes_on_client
from .coins import CoinStreams
from .counts import Counts
from .mechanism import Mechanism, privatize

# Beyond, a collection would need gigabytes for its counts, or many minutes for each estimate.
_MAX_CELLS, _MAX_OPERATIONS = 1 << 27, 10**10
# These follow from the other entries, so they are mentioned only if nothing else differs.
_CONSEQUENCES = ("report", "p", "q")


@dataclass(frozen=True, eq=False)
class Protocol(Uncached):
    """A mechanism, the domain of its codes, and the round of the collection.

    An oracle makes a protocol from its parameters (:meth:`BaseOracle.protocol`). Every function
    that reads or adds up reports takes a protocol in place of an oracle, so that reports of a
    mechanism that belongs to no oracle can be collected, too.

    Parameters
    ----------
    mechanism : Mechanism
        How a client randomises a code, and how a server adds up reports.
    domain : Domain
        The answers that the codes stand for.
    epsilon : float
        Privacy budget of one report.
    name : str
        Name of the mechanism; for an oracle, the name of its class.
    collection_round : str, default=""
        Name of the collection: reports of one round are not added to another.
    n_shards : int, default=1
        Number of shards that the reports are dealt out to and that are kept apart, if they fit in
        memory.
    n_jobs : int, default=None
        Number of threads that add up reports; it does not change the result.

    Examples
    --------
    >>> from sklearn_ldp import GRR
    >>> protocol = GRR(1.0, categories=["yes", "no"]).protocol()
    >>> protocol.difference(GRR(2.0, categories=["yes", "no"]).protocol())
    'epsilon 2.0 instead of 1.0'
    """

    mechanism: Mechanism
    domain: Domain
    epsilon: float
    name: str
    collection_round: str = ""
    n_shards: int = 1
    n_jobs: int | None = None

    def protocol(self, collection_round: str = "") -> Protocol:
        """Return this protocol for a round, like the method of this name of an oracle.

        Parameters
        ----------
        collection_round : str, default=""
            Name of the collection; the empty name keeps the present round.

        Returns
        -------
        Protocol
            The same but for the round.

        Raises
        ------
        ValueError
            If this protocol is of another round already.
        """
        if collection_round and self.collection_round not in ("", collection_round):
            raise ValueError(
                f"This protocol is of the round {self.collection_round!r}, not of "
                f"{collection_round!r}: reports of two rounds do not add up."
            )
        return replace(self, collection_round=collection_round or self.collection_round)

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """The protocol as plain numbers and strings, as files and checkpoints carry it."""
        mechanism = self.mechanism
        fields = mechanism.older_fields or mechanism.report_fields
        configuration = {
            "oracle": self.name,
            "epsilon": float(self.epsilon),
            "n_categories": self.domain.size,
            "domain_sha256": self.domain.digest,
            **{name: _plain(value) for name, value in mechanism.configuration.items()},
            # If two releases numbered their hash functions differently, this entry would differ.
            "report": ", ".join(f"{f.name} < {f.n_values}" for f in fields),
        }
        for name in ("p", "q"):
            if hasattr(mechanism, name):
                configuration[name] = str(getattr(mechanism, name))
        configuration["collection_round"] = self.collection_round
        return configuration

    def difference(self, other: Protocol) -> str:
        """Say how another protocol differs; empty if the reports of both can be added up.

        The categories themselves are compared, not their digests, so they may be of any type.

        Parameters
        ----------
        other : Protocol
            The protocol to compare with.

        Returns
        -------
        str
            For example ``epsilon 2.0 instead of 1.0``.
        """
        if other is self or (self._key() == other._key() and self.domain == other.domain):
            return ""
        what = configuration_difference(other._key(), self._key())
        return what or "the categories, or their order, differ"

    def _key(self) -> dict[str, Any]:
        """The configuration without the digest, which not all categories have."""
        mechanism = self.mechanism
        return {
            "oracle": self.name,
            "epsilon": self.epsilon,
            "n_categories": self.domain.size,
            **mechanism.configuration,
            "report": mechanism.report_fields,
            "p": getattr(mechanism, "p", None),
            "q": getattr(mechanism, "q", None),
            "collection_round": self.collection_round,
        }

    # -- using it -----------------------------------------------------------------------------
    def privatize(
        self, X: Values, random_state: RandomState = None, parts: ArrayLike | None = None
    ) -> np.ndarray:
        """Randomise users' values into reports, as each client does.

        Privacy: each call spends epsilon of every user in `X`. Only ``random_state=None`` protects
        anybody.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            One value per user.
        random_state : int, RandomState, Generator or None, default=None
            None is the secure source; anything else is for simulations.
        parts : array-like of int of shape (n,), default=None
            The public part of each report, as
            :func:`~sklearn_ldp.robustness.assigned_parts` returns them. None lets clients draw.

        Returns
        -------
        ndarray whose first axis is the users
            The reports.

        Raises
        ------
        ValueError
            If a value is not a category, or a part is none of the mechanism's. The error says
            where the value is, and does not show it.
        TypeError
            If parts are given to a mechanism that has none.
        MemoryError
            If the reports do not fit in memory.
        """
        self.refuse_size()
        codes = codes_on_client(self.domain, X, self.name)
        checked = None if parts is None else self._checked_parts(parts, len(codes))
        try:
            return privatize(self.mechanism, codes, 0, CoinStreams(random_state), parts=checked)
        except MemoryError:
            raise MemoryError(
                f"the {len(codes):,} reports of {self.name} over {self.domain.size:,} categories "
                "do not fit in memory at once: randomise the users in batches, or use OLH, whose "
                "report is a few bytes whatever the categories are."
            ) from None

    def _checked_parts(self, parts: ArrayLike, n: int) -> np.ndarray:
        part = self.mechanism.public_part
        if part is None or part.privatize is None:
            raise TypeError(
                f"{self.name} takes no parts=: its users draw no part of their report without "
                "looking at their value. Use OLH or BLH."
            )
        array = np.asarray(parts)
        if (
            array.dtype.kind not in "iu"
            or array.shape != (n,)
            or (n and not 0 <= array.min() <= array.max() < part.n_values)
        ):
            raise ValueError(
                f"{self.name} expects parts= to be one integer per user, in "
                f"[0, {part.n_values - 1}], got an array of dtype {array.dtype} and shape "
                f"{array.shape} for {n} users: pass what assigned_parts returns for this oracle."
            )
        return array.astype(np.int64)

    def check(self, reports: ArrayLike) -> np.ndarray:
        """Return reports in canonical form.

        Parameters
        ----------
        reports : array-like whose first axis is the users
            The reports, as integers.

        Returns
        -------
        ndarray whose first axis is the users
            Reports as `privatize` returns them.

        Raises
        ------
        ValueError
            If a report cannot come from this protocol's clients.
        """
        try:
            return self.mechanism.as_reports(reports)
        except ValueError as error:
            raise ValueError(
                f"{self.name} cannot have made these reports: {error}. The batch is refused "
                f"as a whole; pass what {self.name}.privatize returns for the same epsilon and "
                "categories."
            ) from None

    @cached_property
    def empty(self) -> Counts:
        """The counts of no reports; with a single shard if more would not fit in memory."""
        self.refuse_size()
        shards = Counts.most(self.mechanism, self.n_shards)
        return Counts.empty(self.mechanism, self.n_shards if shards == self.n_shards else 1)

    def refuse_size(self) -> None:
        """Raise ValueError if the reports of any number of users are too costly to decode.

        Raises
        ------
        ValueError
            If the domain is too large for this mechanism at this epsilon.
        """
        if self.domain.is_open:
            return
        cells, operations = self.mechanism.tally_size, self.mechanism.decode_operations(0)
        if cells > _MAX_CELLS or operations > _MAX_OPERATIONS:
            raise ValueError(
                f"{self.name} cannot collect {self.domain.size:,} categories at "
                f"epsilon={self.epsilon:g}: for any number of users n its reports are added up in "
                f"{cells:.1e} counts and decoded in about {float(operations):.0e} operations, and "
                f"the limits are {_MAX_CELLS:.1e} and {float(_MAX_OPERATIONS):.0e}. Use "
                "HadamardResponse, linear in the categories, or fewer categories or tables."
            )


class OracleOrProtocol(typing.Protocol):
    """Whatever makes reports: an oracle, a survey, or the protocol itself."""

    def protocol(self, collection_round: str = "") -> Protocol:
        """Return what a client and a server of a collection must agree on.

        Parameters
        ----------
        collection_round : str, default=""
            Name of the collection.

        Returns
        -------
        Protocol
            The protocol of that round.
        """
        ...


def as_protocol(source: OracleOrProtocol, collection_round: str = "") -> Protocol:
    """Return the protocol of an oracle that holds no reports, or a protocol for the given round.

    Parameters
    ----------
    source : oracle or Protocol
        The oracle or protocol that makes the reports.
    collection_round : str, default=""
        Name of the collection.

    Returns
    -------
    Protocol
        The protocol of that round.

    Raises
    ------
    TypeError
        If `source` is neither of these.
    ValueError
        If the oracle's domain is not known, or if the oracle already holds reports.
    """
    if not hasattr(source, "protocol") or isinstance(source, type):
        raise TypeError(
            f"A collection needs a frequency oracle or a Protocol, got {type(source).__name__}."
        )
    if not isinstance(collection_round, str):
        raise TypeError(f"collection_round must be a string, got {collection_round!r}.")
    n_held = getattr(source, "n_samples_seen_", 0)
    if n_held:
        raise ValueError(
            f"This {type(source).__name__} already holds {n_held} reports that no "
            "ledger of batches lists: start from an unfitted one (sklearn.base.clone) with "
            "declared categories."
        )
    protocol = source.protocol(collection_round)
    protocol.domain.closed()
    return protocol


def configuration_difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """Say how two configurations differ.

    Parameters
    ----------
    theirs, ours : dict
        Configurations as plain numbers and strings.

    Returns
    -------
    str
        The differences; empty if there are none.
    """
    keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    telling = [key for key in keys if key not in _CONSEQUENCES and not _is_part(key)]
    if "n_categories" in telling:  # then so do the digests
        telling = [key for key in telling if key != "domain_sha256"]
    parts = [key for key in keys if _is_part(key)]
    if parts and not telling:
        return f"another mechanism, or another share of users or budget, of {', '.join(parts)}"
    telling = telling or keys
    return ", ".join(
        f"{key if key in ours else _shown(key)} {_shown(theirs.get(key))} instead of "
        f"{_shown(ours.get(key))}"
        for key in telling
    )


def _is_part(key: str) -> bool:
    """Whether an entry describes the mechanism of a column, which follows from the others."""
    return key.startswith("part_")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
