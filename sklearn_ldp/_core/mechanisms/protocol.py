"""Protocols: the configuration that clients and a server must share to count reports together."""

from __future__ import annotations

import typing
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..common.locks import cached_property
from ..common.privacy import warn_once
from ..common.random import RandomState
from ..common.state import Uncached
from ..common.text import kind_of
from ..common.typing import Values
from ..domains import Domain, closed_domain, codes_on_client, digest_causes
from .coins import CoinStreams
from .counts import Counts
from .mechanism import Mechanism, are_below, privatize, require_reports

# Above these limits, a collection would need gigabytes for its counts, or minutes per estimate.
_MAX_CELLS = 1 << 27
_MAX_OPERATIONS = 10**10
_ERROR_RATE = 1e-9  # of the test of plain reports, because there may be a million batches
_MOST_FAKE = 0.15  # share of fake reports up to which a server does not refuse the batch
# These follow from the other entries, so they are mentioned only if nothing else differs.
_CONSEQUENCES = ("report", "p", "q")
_NOTHING = object()  # represents an entry that a configuration does not have
# Entries that a client of the open domain lacks: the list, and its consequences.
_OF_LISTS = ("n_categories", "domain_sha256", "p", "q")


class Reports(np.ndarray):
    """An array of reports, to which the protocol of the collection is attached.

    The protocol is the configuration that clients and servers must share. `privatize` returns such
    an array. It behaves like any other array. Rows, slices, copies and pickles keep the protocol,
    and so does ``np.concatenate``. The results of arithmetic and of ``np.asarray``, arrays of
    another dtype, and lists have no protocol. The protocol is also lost if the reports are stored
    as numbers, for example by ``np.save`` or in a data frame.

    Functions that read reports (`fit` and `aggregate` with reports, files, tests) raise an error if
    the attached protocol differs from their own protocol, or if reports of different protocols were
    concatenated. The attached protocol does not prove where the reports come from. So the reports
    themselves are checked as well.

    Parameters
    ----------
    shape, dtype, buffer, offset, strides, order : object
        The parameters of :class:`numpy.ndarray`. Use `privatize` instead of creating reports.

    Attributes
    ----------
    configuration : dict or None
        The protocol as a dict of numbers and strings, as files contain it. None if it is unknown.

    Examples
    --------
    >>> from sklearn_ldp import GRR
    >>> reports = GRR(1.0, categories=64, random_state=0).privatize([3, 1, 4])
    >>> reports[:2].configuration["epsilon"]
    1.0
    >>> type(reports + 1)
    <class 'numpy.ndarray'>
    """

    # A Protocol or its configuration, which all rows share; None if it is unknown. A pickle
    # contains the configuration, like the header of a file, because a protocol has the list of
    # categories.
    _source: Any = None

    @property
    def configuration(self) -> dict[str, Any] | None:
        """The protocol as a dict of numbers and strings, as files contain it.

        None if the protocol is unknown.
        """
        return getattr(self._source, "configuration", self._source)

    def __array_finalize__(self, obj: Any) -> None:
        if isinstance(obj, Reports) and obj.dtype == self.dtype:
            self._source = obj._source

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return np.asarray(array)[()]

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = super().__array_function__(func, types, args, kwargs)
        if func is np.concatenate:
            source = _common(
                {
                    id(array_source): array_source for array_source in map(_source_of, args[0])
                }.values()
            )
            return result if source is None else reports_of(result, source)
        return result

    def __reduce__(self) -> Any:
        configuration = None
        with suppress(TypeError):  # some categories have no portable form
            configuration = self.configuration
        return reports_of, (np.asarray(self), configuration)


def reports_of(array: np.ndarray, source: Any) -> Reports:
    """Return the array as `Reports`, to which `source` is attached: a protocol or its
    configuration."""
    reports = array.view(Reports)
    reports._source = source
    return reports


def _source_of(reports: Any) -> Any:
    """Return the protocol, or the configuration of a protocol, that is attached to reports; else
    None."""
    return reports._source if isinstance(reports, Reports) else None


def rounds_of(reports: Any) -> frozenset[str]:
    """Return the names of the collection rounds that are attached to reports."""
    source = _source_of(reports)
    if isinstance(source, _Mixture):
        return source.rounds
    return frozenset({_round_of(source)} - {None, ""})


class _Mixture(dict[str, Any]):
    """The configuration of reports of different protocols that were concatenated."""

    rounds: frozenset[str] = frozenset()


def difference_of_attached(protocol: Protocol, reports: Any, in_any_round: bool = True) -> str:
    """Describe how the protocol that is attached to reports differs from this protocol.

    The result is empty if both agree, or if no protocol is attached.
    """
    source = _source_of(reports)
    if source is None:
        return ""
    return protocol.difference(source, in_any_round=in_any_round or not _round_of(source))


def _common(sources: Iterable[Any]) -> Any:
    """Return the protocol (or its configuration) to attach to reports that are concatenated.

    `sources` contains the protocols or configurations of the parts. The result is None if one of
    them is unknown.
    """
    first, *others = sources
    if first is None or None in others:
        return None
    with suppress(TypeError):  # some categories have no portable form
        # Either source may be the one that accepts both, because it has a round or a list.
        wider = next((other for other in others if _differs(first, other)), first)
        if not any(_differs(wider, other) for other in (first, *others)):
            return wider
        ours, theirs = (getattr(x, "configuration", x) for x in (first, wider))
        pairs = {name: (ours.get(name), theirs.get(name)) for name in {**ours, **theirs}}
        mixture = _Mixture(
            (name, a if a == b else f"{a} and {b}") for name, (a, b) in pairs.items()
        )
        mixture.rounds = frozenset(filter(None, map(_round_of, (first, *others))))
        return mixture
    return None


def _differs(source: Any, other: Any) -> bool:
    """Return whether reports of the first protocol cannot be counted together with the second's.

    Each argument is a protocol or its configuration.
    """
    if isinstance(source, Protocol):
        return bool(source.difference(other, in_any_round=not _round_of(other)))
    return bool(source != getattr(other, "configuration", other))


def _round_of(source: Any) -> Any:
    """Return the name of the collection round in a protocol or in its configuration."""
    round_of_dict = source.get("collection_round") if isinstance(source, dict) else None
    return getattr(source, "collection_round", round_of_dict)


@dataclass(frozen=True, eq=False)
class Protocol(Uncached):
    """The configuration of a collection: its mechanism, its domain and the name of its round.

    An oracle creates a protocol from its parameters (:meth:`BaseOracle.protocol`). Every function
    that reads or counts reports accepts a protocol instead of an oracle. So you can also collect
    reports of a mechanism for which there is no oracle class.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism. On clients it randomizes codes (integers that stand for values) to reports,
        and on the server it counts reports.
    domain : Domain
        The public domain, which contains the values that the codes stand for.
    epsilon : float
        Privacy budget of one report.
    name : str
        Name of the mechanism; for an oracle, the name of its class.
    collection_round : str, default=""
        Name of the collection. Reports of different rounds are not counted together.
    n_shards : int, default=1
        Number of shards: disjoint subsets of the reports that are counted separately. If the counts
        of all shards do not fit in memory, all reports are counted together.
    n_jobs : int, default=None
        Number of threads that count reports. It does not change the result.

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
        """Return a copy of this protocol that has the given name of a collection round.

        Oracles have a method with the same name. So functions accept an oracle or a protocol.

        Parameters
        ----------
        collection_round : str, default=""
            Name of the collection round. If empty, the name of this protocol is kept.

        Returns
        -------
        Protocol
            The protocol with the name.

        Raises
        ------
        ValueError
            If this protocol already has another name of a round.
        """
        if collection_round and self.collection_round not in ("", collection_round):
            raise ValueError(
                f"This protocol is of the round {self.collection_round!r}, not of "
                f"{collection_round!r}. Reports of two rounds cannot be counted together, so "
                "create another protocol for the other round."
            )
        return replace(self, collection_round=collection_round or self.collection_round)

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """The protocol as a dict of numbers and strings, as files and checkpoints contain it."""
        return {**self._key, "domain_sha256": self.domain.digest}

    @cached_property
    def _key(self) -> dict[str, Any]:
        """A tuple with the content of the configuration, without the hash of the categories.

        Some categories cannot be hashed in a portable way.
        """
        mechanism = self.mechanism
        fields = mechanism.older_fields or mechanism.report_fields
        return {
            "oracle": self.name,
            "epsilon": float(self.epsilon),
            "n_categories": self.domain.size,
            "domain_sha256": "",
            **{name: _plain(value) for name, value in mechanism.configuration.items()},
            # If two releases numbered their hash functions differently, this entry would differ.
            "report": ", ".join(f"{f.name} < {f.n_values}" for f in fields),
            **{x: str(getattr(mechanism, x)) for x in ("p", "q") if hasattr(mechanism, x)},
            "collection_round": self.collection_round,
        }

    def difference(self, other: Protocol | dict[str, Any], *, in_any_round: bool = False) -> str:
        """Describe how another protocol differs from this one.

        The result is empty if reports of the two protocols can be counted together. If `other` is a
        protocol, the categories are compared; a configuration contains only a hash of the
        categories. Reports with ``categories="open"`` can be counted together with reports for any
        list of categories.

        Parameters
        ----------
        other : Protocol or dict
            The protocol to compare with, or its configuration.
        in_any_round : bool, default=False
            If True, and if one of the two protocols has no name of a round, the rounds are not
            compared.

        Returns
        -------
        str
            The differences, for example ``epsilon 2.0 instead of 1.0``; "" if there are none.
        """
        listed = other if isinstance(other, Protocol) and not other.domain.is_open else None
        theirs: Any = listed._key if listed else getattr(other, "configuration", other)
        ours = self._key if listed else self.configuration
        if theirs.get("domain_sha256") == "open" and ours.get("hash_family") == "mixing":
            theirs = {**theirs, **{name: ours[name] for name in _OF_LISTS if name in ours}}
        if in_any_round and not (self.collection_round and theirs.get("collection_round")):
            theirs = {**theirs, "collection_round": self.collection_round}
        difference = configuration_difference(theirs, ours, self.domain)
        if not difference and listed and self.domain != listed.domain:
            return "the categories, or their order, differ"
        return difference

    # -- using it -----------------------------------------------------------------------------
    def privatize(
        self, X: Values, random_state: RandomState = None, parts: ArrayLike | None = None
    ) -> Reports:
        """Randomize users' values to reports, as each client does.

        Privacy: each call spends epsilon of every user in `X`. Only ``random_state=None`` protects
        the users.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_columns)
            One value per user.
        random_state : int, RandomState, Generator or None, default=None
            Source of the random bits. If None, they come from a secure source. Any other value
            makes the reports predictable, and is for simulations only.
        parts : array-like of int of shape (n,), default=None
            The public part of each report, which does not depend on the value, such as a hash
            function: the result of :func:`~sklearn_ldp.robustness.assigned_parts`. If None, the
            public parts are drawn at random.

        Returns
        -------
        Reports with the users as first axis
            The reports, an array to which this protocol is attached.

        Raises
        ------
        ValueError
            If a value is not a category, or if a number in `parts` is not valid for the mechanism.
            The error shows the position of the value in `X`, and not the value.
        TypeError
            If `parts` is not None, and reports of this mechanism have no public part.
        MemoryError
            If the reports do not fit in memory.
        """
        self.refuse_size()
        codes = codes_on_client(self.domain, X, self.name)
        checked = None if parts is None else self._checked_parts(parts, len(codes))
        try:
            streams = CoinStreams(random_state)
            return reports_of(privatize(self.mechanism, codes, 0, streams, parts=checked), self)
        except MemoryError:
            raise MemoryError(
                f"{len(codes):,} reports of {self.name} for {self.domain.size:,} categories "
                "do not fit in memory. Pass the users in batches, or use OLH: its "
                "report needs a few bytes for any number of categories."
            ) from None

    def _checked_parts(self, parts: ArrayLike, n: int) -> np.ndarray:
        part = self.mechanism.public_part
        if part is None or part.privatize is None:
            raise TypeError(
                f"{self.name} does not accept parts=, because no part of its reports is "
                "independent of the value. Use OLH or BLH."
            )
        array = np.asarray(parts)
        is_one_each = array.dtype.kind in "iu" and array.shape == (n,)
        if not (is_one_each and are_below(array, part.n_values)):
            raise ValueError(
                f"{self.name} expects parts= to be one integer per user, in "
                f"[0, {part.n_values - 1}], got an array of dtype {array.dtype} and shape "
                f"{array.shape} for {n} users. Pass the result of assigned_parts for this oracle."
            )
        return array.astype(np.int64)

    def check(
        self, reports: ArrayLike, *, tests_totals: bool = False, in_any_round: bool = True
    ) -> np.ndarray:
        """Check reports, and return them as a plain array in the form that `privatize` returns.

        Parameters
        ----------
        reports : array-like with the users as first axis
            The reports, as integers. If a protocol is attached to them, it must be this protocol.
        tests_totals : bool, default=False
            If True, reports without an attached protocol are tested statistically. The test
            compares the number of categories that the reports support (count in favor of) with its
            expectation under this protocol. It fails if such a difference has a probability below
            1e-9. If the test fails, and if 15 % of fake reports are too few to explain the
            difference, it raises ValueError. If it fails otherwise, it raises one UserWarning.
        in_any_round : bool, default=True
            If True, and if this protocol has no name of a round, reports of any round are accepted.

        Returns
        -------
        ndarray with the users as first axis
            The reports, as an array without an attached protocol.

        Raises
        ------
        ValueError
            If another protocol is attached to the reports, if a report cannot come from a client
            with this protocol, or if the statistical test fails.
        """
        source = _source_of(reports)
        try:
            difference = difference_of_attached(self, reports, in_any_round)
            if difference:
                raise ValueError(f"the reports are of another collection: {difference}")
            checked = self.mechanism.as_reports(reports)
            if tests_totals and source is None:
                expectation, share = self.mechanism.unlikely_total(checked, _ERROR_RATE)
                require_reports(share < _MOST_FAKE, expectation, checked)
                if expectation:
                    text = f"{self.name} expects {expectation}. Either the clients use another "
                    text += f"epsilon or are faulty, or at least about {share:.1%} of the reports "
                    text += "are fake. Check the epsilon of the clients first."
                    warn_once(text, UserWarning, f"totals of {self.name}")
        except ValueError as error:
            raise ValueError(
                f"{self.name} cannot have made these reports: {error}. The batch is refused "
                f"as a whole. Pass reports from {self.name}.privatize with the same epsilon and "
                "categories."
            ) from None
        return checked

    @cached_property
    def empty(self) -> Counts:
        """Counts of zero reports. There is one shard if the counts of all shards would not fit in
        memory."""
        self.refuse_size()
        shards = Counts.most(self.mechanism, self.n_shards)
        return Counts.empty(self.mechanism, self.n_shards if shards == self.n_shards else 1)

    def refuse_size(self) -> None:
        """Raise ValueError if an estimate would need too much memory or time.

        Raises
        ------
        ValueError
            If the domain has too many categories for this mechanism at this epsilon.
        """
        if self._excess:
            raise ValueError(self._excess)

    @cached_property
    def _excess(self) -> str:
        if self.domain.is_open:
            return ""
        cells = self.mechanism.tally_size
        operations = self.mechanism.decode_operations(0)
        if cells <= _MAX_CELLS and operations <= _MAX_OPERATIONS:
            return ""
        return (
            f"{self.name} cannot collect {self.domain.size:,} categories at "
            f"epsilon={self.epsilon:g}, because the server would need "
            f"{cells:.1e} counts and about {float(operations):.0e} operations for any number of "
            f"users, but the limits are {_MAX_CELLS:.1e} counts and "
            f"{float(_MAX_OPERATIONS):.0e} operations. Use HadamardResponse, whose cost is linear "
            "in the number of categories, or use fewer categories or tables."
        )


class OracleOrProtocol(typing.Protocol):
    """Type of objects that have a method `protocol`: oracles, surveys, and protocols themselves."""

    def protocol(self, collection_round: str = "") -> Protocol:
        """Return the protocol that the clients and the server of a collection must share."""
        ...


def as_protocol(source: OracleOrProtocol, collection_round: str = "") -> Protocol:
    """Return the protocol of an oracle or a protocol, with the given name of a collection round.

    An oracle must not contain reports yet.
    """
    if not hasattr(source, "protocol") or isinstance(source, type):
        raise TypeError(
            "A data collection needs a frequency oracle or a Protocol, got "
            f"{type(source).__name__}. Pass an instance, such as OLH(1.0, categories=..)."
        )
    if not isinstance(collection_round, str):
        raise TypeError(
            f"Argument collection_round must be a string, got {collection_round!r}. Pass the name "
            "of the round in quotes."
        )
    n_held = getattr(source, "n_samples_seen_", 0)
    if n_held:
        raise ValueError(
            f"This {type(source).__name__} already contains {n_held} reports, so a data collection "
            "cannot record which batches they come from. Pass an unfitted oracle with declared "
            "categories, for example sklearn.base.clone(oracle)."
        )
    protocol = source.protocol(collection_round)
    closed_domain(protocol.domain)
    return protocol


def configuration_difference(
    theirs: dict[str, Any], ours: dict[str, Any], domain: Domain | None = None
) -> str:
    """Describe how the configuration `theirs` differs from the configuration `ours`.

    `domain` is the domain of `ours`; if None, it is unknown. A configuration is a protocol as a
    dict of numbers and strings.
    """
    # An entry with the value None counts as an entry, as in a JSON file.
    keys = [k for k in {**ours, **theirs} if ours.get(k, _NOTHING) != theirs.get(k, _NOTHING)]
    # The mechanism of a column follows from the other entries.
    parts = [key for key in keys if key.startswith("part_")]
    telling = [key for key in keys if key not in (*_CONSEQUENCES, *parts)]
    if "n_categories" in telling:  # then the digests also differ
        telling = [key for key in telling if key != "domain_sha256"]
    causes = digest_causes(domain)
    if parts and not telling:
        cause = f": {causes.parts}" if causes.parts else ""
        names = ", ".join(parts)
        return f"another mechanism, or another share of users or budget, of {names}{cause}"
    telling = telling or keys
    if telling == ["channel_sha256"]:
        return (
            "channel_sha256: another channel of the same question, so clients and servers that "
            "compute one need the same versions of NumPy and SciPy"
        )
    differences = [
        f"{key} {_shown(theirs.get(key, _NOTHING))} instead of {_shown(ours[key])}"
        if key in ours
        else f"{_shown(key)} ({kind_of(theirs[key])}) instead of nothing"
        for key in telling
    ]
    if "domain_sha256" in telling:
        differences.insert(0, causes.domain)
    return ", ".join(differences)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _shown(value: Any) -> str:
    text = "nothing" if value is _NOTHING else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
