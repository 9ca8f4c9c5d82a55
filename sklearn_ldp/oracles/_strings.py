"""The most frequent strings of an open domain, which no client and no server lists."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .._utils.random import RandomState
from .._utils.typing import Values
from ..domains import Domain, StringDomain
from ..estimates import FrequencyEstimate
from ..mechanisms.several import Several
from ..noise import NoiseModel, SampledNoise
from ._local_hashing import MixingHash, MixingHashChannel
from ._string_parts import PrefixDomain, StringPlan, best_plan, digest_of_digits
from .collector import BaseCollector, Collected

_NOTHING: tuple[int, ...] = ()  # the letters of the empty prefix
_TRIED = 16  # extensions of a prefix that are looked at, for each that is kept ..
_MOST_TRIED = 1 << 18  # .. and the most of all prefixes


@dataclass(frozen=True, eq=False)
class StringSearch:
    """What was kept after each part, the surest first, and the digits of the strings found."""

    prefixes: list[list[tuple[str, float]]]
    digits: np.ndarray


def search(survey: Several, domain: PrefixDomain, tally: np.ndarray) -> StringSearch:
    """Search for the strings that most reports tell of, part by part."""
    plan, coder = domain.plan, domain.digits
    digits, letters = np.zeros((1, 0), dtype=np.int64), [_NOTHING]
    prefixes, errors, paths, rivals = [], np.zeros(0), np.zeros((1, 0)), np.zeros((1, 0))
    for j in range(len(plan.steps)):
        part: Any = survey.mechanisms[j]
        of_part, n_users = survey.tallies_on(tally, j)
        noise = NoiseModel(float(part.p), float(part.q), max(int(n_users), 1))
        is_last = j == len(plan.steps) - 1
        n_kept = plan.n_found if is_last else plan.n_kept
        has_ended = np.array([one[-1:] == (0,) for one in letters])  # its further digits are known
        ended = {int(i): letters[i] for i in np.flatnonzero(has_ended)}
        before, digits, support = _extended(part, coder, of_part, digits, ended, _TRIED * n_kept)
        errors = np.append(errors, noise.std)
        paths = np.column_stack([paths[before], noise.debias(support)])
        own = np.where(has_ended[before], 0.0, plan.n_rivals[j])
        rivals = np.column_stack([rivals[before], own])
        surest = np.argsort(-evidence(paths, errors, rivals), kind="stable")
        chosen = _told_apart(domain, digits, surest, n_kept, is_last)
        rows, letters = list(chosen), list(chosen.values())
        digits, paths, rivals = digits[rows], paths[rows], rivals[rows]
        both = zip(letters, paths[:, -1].tolist(), strict=True)
        prefixes.append([(domain.text(one), estimate) for one, estimate in both])
        if not letters:  # no string begins with what was looked at
            break
    return StringSearch(prefixes, digits)


def evidence(paths: np.ndarray, errors: np.ndarray, n_rivals: np.ndarray) -> np.ndarray:
    """Return how sure it is that somebody has each prefix.

    If nobody has a prefix, there is a first part from which on its estimates are noise: the
    estimates from there on, together, must stand out from those of all its rivals there. The
    evidence, the logarithm of a likelihood ratio less that of the number of rivals, is that
    against the likeliest such part. `paths` and `n_rivals` have a row for each prefix and a column
    for each part; there are 0 rivals where the string had ended before.
    """
    precisions = errors**-2.0
    sums = np.cumsum((paths * precisions)[:, ::-1], axis=1)[:, ::-1]
    z = sums / np.sqrt(np.cumsum(precisions[::-1])[::-1])
    logs = np.log(n_rivals, out=np.full(paths.shape, -np.inf), where=n_rivals > 0)
    return (z * np.abs(z) / 2 - logs).min(axis=1)


def _extended(part, coder, tally, digits, ended, n_best):
    """The best extensions of prefixes, some of which have ended: whose, their digits, support."""
    n_best = min(n_best, max(_TRIED, _MOST_TRIED // len(digits)), part.n_extensions)
    powers, start = part.field.order ** np.arange(part.n_digits)[::-1], digits.shape[1]
    digests = digest_of_digits(digits)
    is_open = [i for i in range(len(digits)) if i not in ended]
    supports = part.count_extensions(tally, digests[is_open])
    found: list[Any] = []
    for i, support in zip(is_open, supports, strict=True):
        best = np.argpartition(-support, n_best - 1)[:n_best]
        new = best[:, None] // powers % part.field.order
        extended = np.concatenate([np.tile(digits[i], (n_best, 1)), new], axis=1)
        found.append((np.full(n_best, i), extended, support[best]))
    for i, letters in ended.items():
        padded = np.pad(letters, (0, coder.length - len(letters)))
        whole = coder.digits(padded[None])[:, : start + part.n_digits]
        codes = digests[i] * part.n_extensions + whole[:, start:] @ powers
        found.append(([i], whole, part.support_of(tally[None], codes)[0]))
    return [np.concatenate(one) for one in zip(*found, strict=True)]


def _told_apart(domain, digits, surest, n_kept, is_last):
    """The letters of the surest prefixes that some string has; different strings in the end."""
    coder, chosen = domain.digits, {}
    taken: set[Any] = set()
    for i in surest.tolist():
        letters = coder.read(digits[i].tolist())
        if letters is None:
            continue
        # Of strings in one bucket, held-out users tell of the most frequent one only.
        marks = {letters, int(domain.codes(digits[i][None])[0, -1])} if is_last else set()
        if taken.isdisjoint(marks):
            taken |= marks
            chosen[i] = letters
        if len(chosen) == n_kept:
            break
    return chosen


# The searches of the collections in memory: an oracle's `estimate_` is read many times.
_searches: WeakKeyDictionary[Collected, StringSearch] = WeakKeyDictionary()


class StringOracle(BaseCollector[FrequencyEstimate]):
    """The most frequent strings that users have, where nobody can list them.

    The collection has one round, and clients need no candidates. Each user is asked about a prefix
    of her string, of one of several lengths, which is drawn in public: her report is a hash
    function and a randomised hash value, as :class:`OLH` makes them. The server keeps the most
    frequent prefixes of one length, and looks at all their extensions by the digits of the next
    length; a Fourier transform adds up the reports for all of them at once [1]_. One user in seven
    is held out from the search and tells about her whole string. The estimate of what was found is
    of these users alone, so it is not biased by the selection.

    Strings are written in digits of a finite field, which is chosen with the lengths and the shares
    of the users by the expected recall. That depends on parameters and never on data, so all
    parties agree.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; all that is done with reports is free. A string that was found was told by many users.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one report, > 0.
    alphabet : str or StringDomain
        The letters, which are public; or what :meth:`Domain.strings` returns, for a code in which
        frequent letters are short.
    max_length : int, default=20
        The most letters of a string; longer ones are cut off. Each letter costs accuracy. A domain
        given as `alphabet` has its own.
    n_found : int, default=32
        Number of strings to find.
    expected_n_users : int, default=1_000_000
        Number of users to plan for. Any other number may report.
    hash_range : "auto" or int, default="auto"
        Number of values of a digit: a prime, or a power of one. "auto" chooses it.
    input : {"values", "reports"}, default="values"
        Whether `fit`, `partial_fit` and `transform` read users' raw values or their reports.
    random_state : int, RandomState, Generator or None, default=None
        None draws every coin from the operating system's secure source. Anything else makes reports
        predictable, and is for simulations.
    n_jobs : int, default=None
        Number of threads that work on chunks of users; it does not change the result.

    Attributes
    ----------
    estimate_ : FrequencyEstimate of shape (1, n_found)
        The strings that were found, the most frequent first, with frequencies by held-out users.
        They do not add up to 1, so post-processors that assume it are not for them.
    n_samples_seen_ : int
        Number of users.

    Notes
    -----
    A string is estimated by the bucket that its digest falls into, one of more than 2**18. Of two
    strings in one bucket only the more frequent one is found. If the other one was not found, and
    is not rare, the estimate is of both, which happens to few strings in ten thousand.

    A tally counts each kind of report: the memory of a server depends on the plan, not on the
    number of users. It is about 100 MB for a million expected ones.

    References
    ----------
    .. [1] T. Wang, N. Li, S. Jha, "Locally differentially private heavy hitter identification",
       IEEE Transactions on Dependable and Secure Computing 18(2), 2021,
       :doi:`10.1109/TDSC.2019.2927695` (the prefixes; the transform and the held-out users are
       not in it).

    Examples
    --------
    >>> from sklearn_ldp import StringOracle
    >>> words = ["yes"] * 6000 + ["no"] * 3000 + ["perhaps"] * 1000
    >>> oracle = StringOracle(4.0, alphabet="aehnoprsy", max_length=8, n_found=3, random_state=1)
    >>> oracle.fit(words).estimate_.top(2)
    [('yes', 0.6...), ('no', 0.3...)]
    """

    _parameter_constraints: dict = {
        **BaseCollector._parameter_constraints,
        "alphabet": "no_validation",  # StringDomain checks these two, and says what is wrong
        "max_length": "no_validation",
        "n_found": [Interval(Integral, 1, 1 << 10, closed="both")],
        "expected_n_users": [Interval(Integral, 1, 1 << 40, closed="both")],
        "hash_range": [StrOptions({"auto"}), Interval(Integral, 2, 1 << 10, closed="both")],
    }
    _domain_parameter = "alphabet"
    n_shards = 1

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        alphabet: Any = None,
        max_length: int = 20,
        n_found: int = 32,
        expected_n_users: int = 1_000_000,
        hash_range: int | str = "auto",
        input: str = "values",
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.alphabet = alphabet
        self.max_length = max_length
        self.n_found = n_found
        self.expected_n_users = expected_n_users
        self.hash_range = hash_range
        self.input = input
        self.random_state = random_state
        self.n_jobs = n_jobs

    def plan(self) -> StringPlan:
        """Return what users are asked, and what recall to expect, before any data.

        Returns
        -------
        StringPlan
            The lengths, the shares, and ``found_probability(frequencies)``.

        Raises
        ------
        ValueError
            If a parameter is not valid.

        Examples
        --------
        >>> from sklearn_ldp import StringOracle
        >>> plan = StringOracle(4.0, alphabet="01", max_length=48).plan()
        >>> plan.found_probability([0.01, 0.003, 0.001]).round(2)
        array([...])
        """
        return self._domain().plan

    # -- what is known after fit --------------------------------------------------------------
    @property
    def found_prefixes_(self) -> list[list[tuple[str, float]]]:
        """What was kept after each part, the surest first, with estimates that selection biases.

        It shows where a string was lost.
        """
        return self._search_of(self._fitted("found_prefixes_")).prefixes

    # -- the hooks ----------------------------------------------------------------------------
    def _is_auto(self) -> bool:
        return False

    def _domain(self) -> PrefixDomain:
        return self._domain_of(self.alphabet)  # which depends on other parameters, too

    def _domain_of(self, declared: Any) -> PrefixDomain:
        self._check_parameters()
        strings = declared
        if not isinstance(declared, StringDomain):
            strings = StringDomain(declared, self.max_length, name=self._name)
        order = None if self.hash_range == "auto" else int(self.hash_range)
        if order is None and strings.max_digits is not None:
            raise ValueError(
                f"{self._name} needs hash_range= with max_digits=, as these are digits of a field "
                "of so many elements."
            )
        users, epsilon = int(self.expected_n_users), float(self.epsilon)
        return PrefixDomain(strings, best_plan(epsilon, strings, int(self.n_found), users, order))

    def _learned_domain(self, X: Values) -> Domain:
        return self._domain()

    def _make_mechanism(self, domain: Any) -> Several:
        return Several.drawn(domain.plan.mechanisms(), domain.plan.shares)

    def _search_of(self, state: Collected) -> StringSearch:
        if state in _searches:
            return _searches[state]
        domain: Any = state.protocol.domain
        tallies, sizes = state.decoded
        n_users, n_found = int(np.sum(sizes)), domain.plan.n_found
        threshold = domain.plan.threshold(max(n_users, 1))
        if int(1 / threshold) < n_found:
            needs = f"a string needs a frequency of about {threshold:.2g}"
            if threshold > 1:
                needs = "even one that all have takes more users"
            warnings.warn(
                f"{self._name} looks for {n_found} strings, and at most {int(1 / threshold)} can "
                f"stand out among {n_users:,} users: {needs}. Most others are strings that nobody "
                "has; estimate_.detected() tells.",
                UserWarning,
                stacklevel=3,
            )
        return _searches.setdefault(state, search(state.mechanism, domain, tallies.sum(axis=0)))

    def _estimate_of(self, state: Collected) -> FrequencyEstimate:
        domain: Any = state.protocol.domain
        found, survey = self._search_of(state), state.mechanism
        strings = [text for text, _ in found.prefixes[-1]]
        part: Any = survey.mechanisms[-1]
        own, asked = survey.tallies_on(state.decoded[0], len(survey.mechanisms) - 1)
        rows = np.flatnonzero(asked)
        if not (rows.size and strings):
            return FrequencyEstimate(np.empty((0, len(strings))), strings)
        buckets = domain.codes(found.digits)[:, -1]
        support = part.support_of(own[rows], buckets)
        client = MixingHash(part.field.order, part.threshold)
        channel = MixingHashChannel(buckets.astype(np.uint64), client)
        values, noise = channel.estimate_decoded(support, asked[rows])
        n_users, names = state.of_rows(rows)
        return FrequencyEstimate(values, strings, SampledNoise(noise, n_users), row_names=names)
