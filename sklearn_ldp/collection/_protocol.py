"""What a client and a server must agree on, written down: the configuration of a collection."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np

from ..oracles import BaseOracle
from ..oracles._channel import Channel
from ..oracles._collection import Collection
from ..oracles._domain import Domain
from ..oracles._mixing import _canonical as canonical

_WITH_A_TEXT = (date, time, timedelta, Decimal, Fraction, UUID)  # datetime is a date


class RefusedBatchError(ValueError):
    """A batch of reports that is refused whole; the collection is as it was."""


class RepeatedBatchError(RefusedBatchError):
    """A batch that was seen before."""


@dataclass(frozen=True, eq=False)
class Protocol:
    """An oracle ready to add up reports, and its configuration.

    Parameters
    ----------
    oracle : BaseOracle
        Unfitted, with a declared domain.
    domain : Domain
        The domain.
    empty : Collection
        No reports yet.
    configuration : dict
        As :func:`report_configuration` gives it.
    """

    oracle: BaseOracle
    domain: Domain
    empty: Collection
    configuration: dict[str, Any]

    @property
    def channel(self) -> Channel:
        """The channel that the reports come from."""
        return self.empty.channel

    def check(self, reports: np.ndarray) -> np.ndarray:
        """Return reports in canonical form; raise ValueError if the oracle cannot make them."""
        return self.oracle._as_reports(reports, self.channel)


def make_protocol(oracle: BaseOracle, collection_round: str) -> Protocol:
    """The protocol of an oracle, which must know its domain and hold no reports of its own."""
    if not isinstance(oracle, BaseOracle):
        raise TypeError(f"A collection needs a frequency oracle, got {type(oracle).__name__}.")
    if not isinstance(collection_round, str):
        raise TypeError(f"collection_round must be text, got {collection_round!r}.")
    oracle._check_parameters()
    if oracle._state is not None:
        raise ValueError(
            f"This {oracle._name} already holds {oracle.n_samples_seen_} reports that no ledger "
            "of batches vouches for: start from an unfitted one (sklearn.base.clone) with "
            "declared categories."
        )
    state = oracle._started(oracle._known_domain())
    configuration = _configuration(oracle, state.domain, state.collection.channel)
    configuration["collection_round"] = collection_round
    return Protocol(oracle, state.domain, state.collection, configuration)


def report_configuration(oracle: BaseOracle, *, collection_round: str = "") -> dict[str, Any]:
    """What clients and servers must agree on for their reports to add up.

    Files of reports and checkpoints carry it, and whoever reads them compares it with her own.

    Parameters
    ----------
    oracle : oracle
        Unfitted, with declared categories.
    collection_round : str, default=""
        Name of the collection: reports of one round are not added to another.

    Returns
    -------
    dict
        Plain numbers and texts: the oracle, epsilon, the number of categories, their SHA-256
        digest, the protocol's own numbers such as the hash family, the integers of a report, p, q
        and the round.

    Raises
    ------
    ValueError
        If the oracle's domain is not known.
    TypeError
        If a category has no form that is the same on every machine.

    Examples
    --------
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.collection import report_configuration
    >>> configuration = report_configuration(OLH(1.0, categories=["a", "b"]))
    >>> configuration["epsilon"], configuration["hash_range"], configuration["hash_family"]
    (1.0, 4, 'linear')
    """
    return dict(make_protocol(oracle, collection_round).configuration)


def _configuration(oracle, domain, channel):
    return {
        "oracle": type(oracle).__name__,
        "epsilon": float(oracle.epsilon),
        "n_categories": domain.size,
        "domain_sha256": domain_digest(domain.categories),
        **{name: _plain(value) for name, value in channel.configuration.items()},
        # Two releases that number their hash functions otherwise would show it here.
        "report": ", ".join(f"{name} < {n_values}" for name, n_values, _ in channel.report_fields),
        "p": str(channel.p),
        "q": str(channel.q),
    }


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value


def domain_digest(categories: np.ndarray) -> str:
    """SHA-256 of categories in their order, the same on every machine."""
    sha = hashlib.sha256(b"sklearn_ldp domain 1\n")
    for category in categories.tolist():
        text = _canonical(category)
        sha.update(b"%d:%s" % (len(text), text))
    return sha.hexdigest()


def _canonical(category: Any) -> bytes:
    """The mixing hash's canonical form, and one for dates and exact numbers."""
    if isinstance(category, tuple):
        parts = [_canonical(part) for part in category]
        return b"t" + b"".join(b"%d:%s" % (len(part), part) for part in parts)
    if isinstance(category, _WITH_A_TEXT):
        return b"x" + f"{type(category).__name__} {category}".encode()
    try:
        return canonical(category)
    except TypeError:
        raise TypeError(
            "Reports can be kept for categories that are text, bytes, numbers, dates, UUIDs or "
            f"tuples of those, got {type(category).__name__}: no other type has a form that is "
            "the same on every machine. Use the categories' names."
        ) from None


def difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """What two configurations differ in, as text; empty if nothing."""
    keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    # These follow from all the rest, so they are worth a word only if nothing else differs.
    telling = [key for key in keys if key not in ("report", "p", "q")] or keys
    return ", ".join(
        f"{key if key in ours else _shown(key)} {_shown(theirs.get(key))} instead of "
        f"{_shown(ours.get(key))}"
        for key in telling
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
