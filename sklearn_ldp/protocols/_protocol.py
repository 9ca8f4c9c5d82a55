"""What a client and a server must agree on for their reports to add up, and the comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..domains import Domain
from ..mechanisms._coins import CoinStreams
from ..mechanisms._mechanism import Mechanism
from ._clients import privatize
from ._counts import Counts

# These follow from all the rest, so they are worth a word only if nothing else differs.
_CONSEQUENCES = ("report", "p", "q")


@dataclass(frozen=True, eq=False)
class Protocol:
    """A mechanism, the domain of its codes, and the round of the collection.

    An oracle makes one of its parameters (:meth:`BaseOracle.protocol`), and whatever reads or adds
    up reports takes one in the place of an oracle. So may a mechanism that is no oracle's.

    Parameters
    ----------
    mechanism : Mechanism
        What a client does to a code, and a server to a report.
    domain : Domain
        What the codes stand for.
    epsilon : float
        Privacy budget of one report.
    name : str
        What the mechanism is called, an oracle's class.
    collection_round : str, default=""
        Name of the collection: reports of one round are not added to another.
    n_shards : int, default=1
        The reports are dealt out to so many shards that are kept apart, as far as they fit in
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
        """Return the protocol of another round, as an oracle's method of this name does."""
        return replace(self, collection_round=collection_round or self.collection_round)

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """All of it as plain numbers and texts, which files and checkpoints carry."""
        mechanism = self.mechanism
        configuration = {
            "oracle": self.name,
            "epsilon": float(self.epsilon),
            "n_categories": self.domain.size,
            "domain_sha256": self.domain.digest,
            **{name: _plain(value) for name, value in mechanism.configuration.items()},
            # Two releases that number their hash functions otherwise would show it here.
            "report": ", ".join(f"{f.name} < {f.n_values}" for f in mechanism.report_fields),
        }
        for name in ("p", "q"):
            if hasattr(mechanism, name):
                configuration[name] = str(getattr(mechanism, name))
        configuration["collection_round"] = self.collection_round
        return configuration

    def difference(self, other: Protocol) -> str:
        """Say what the reports of another protocol differ in; empty if they add up with ours.

        The categories are compared themselves, so that any type will do.

        Parameters
        ----------
        other : Protocol
            The other one.

        Returns
        -------
        str
            Such as ``epsilon 2.0 instead of 1.0``.
        """
        if other is self or (self._key() == other._key() and self.domain == other.domain):
            return ""
        what = configuration_difference(other._key(), self._key())
        return what or "the categories, or their order, differ"

    def _key(self) -> dict[str, Any]:
        """The configuration but for the digest, which not all categories have."""
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
    def privatize(self, X: Any, random_state: Any = None) -> np.ndarray:
        """Randomise users' values into reports, as each client does.

        Privacy: each call spends epsilon of every user in `X`. Only ``random_state=None`` protects
        anybody.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            One value per user.
        random_state : int, RandomState, Generator or None, default=None
            None is the secure source; anything else is for simulations.

        Returns
        -------
        ndarray whose first axis is the users
            The reports.
        """
        codes = self.domain.encode(X, self.name)
        return privatize(self.mechanism, codes, 0, CoinStreams(random_state))

    def check(self, reports: Any) -> np.ndarray:
        """Return reports in canonical form.

        Parameters
        ----------
        reports : array-like whose first axis is the users
            Integers.

        Returns
        -------
        ndarray whose first axis is the users
            As `privatize` makes them.

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
                f"whole; give what {self.name}.privatize returns, for the same epsilon and "
                "categories."
            ) from None

    @cached_property
    def empty(self) -> Counts:
        """No reports yet; a single shard where more would not fit in memory."""
        shards = Counts.most(self.mechanism, self.n_shards)
        return Counts.empty(self.mechanism, self.n_shards if shards == self.n_shards else 1)

    def __getstate__(self) -> dict[str, Any]:
        names = self.__dataclass_fields__
        return {name: getattr(self, name) for name in names}


def as_protocol(source: Any, collection_round: str = "") -> Protocol:
    """Return the protocol of an oracle that holds no reports of its own, or of a protocol.

    Parameters
    ----------
    source : oracle or Protocol
        Whose reports are meant.
    collection_round : str, default=""
        Name of the collection.

    Returns
    -------
    Protocol
        Of that round.

    Raises
    ------
    TypeError
        If it is neither.
    ValueError
        If the oracle's domain is not known, or it holds reports of its own.
    """
    if not hasattr(source, "protocol") or isinstance(source, type):
        raise TypeError(f"A collection needs a frequency oracle, got {type(source).__name__}.")
    if not isinstance(collection_round, str):
        raise TypeError(f"collection_round must be text, got {collection_round!r}.")
    if getattr(source, "n_samples_seen_", 0):
        raise ValueError(
            f"This {type(source).__name__} already holds {source.n_samples_seen_} reports that no "
            "ledger of batches vouches for: start from an unfitted one (sklearn.base.clone) with "
            "declared categories."
        )
    protocol = source.protocol(collection_round)
    protocol.domain.closed()
    return protocol


def configuration_difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """Say what two configurations differ in.

    Parameters
    ----------
    theirs, ours : dict
        Plain numbers and texts.

    Returns
    -------
    str
        Empty if they are the same.
    """
    keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    telling = [key for key in keys if key not in _CONSEQUENCES] or keys
    return ", ".join(
        f"{key if key in ours else _shown(key)} {_shown(theirs.get(key))} instead of "
        f"{_shown(ours.get(key))}"
        for key in telling
    )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
