"""The most frequent strings of an open domain, which no client and no server lists."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy import stats
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.domains import Domain, StringDomain
from .._core.estimates import OR_LONGER, FrequencyEstimate
from .._core.lifecycle import BaseCollector, Collected
from .._core.mechanisms.several import Several
from .._core.noise import NoiseModel
from .._core.statements import adjusted_p_values
from .._core.support.random import RandomState
from ._base import OneColumn
from ._local_hashing import MixingHash, MixingHashChannel
from ._string_parts import PrefixDomain, StringPlan, best_plan, digest_of_digits

_NOTHING: tuple[int, ...] = ()  # the letters of the empty prefix
# These bound the work of the server: chosen by hand, not measured.
_TRIED = 16  # extensions of a prefix that are looked at, for each that is kept ..
_MOST_TRIED = 1 << 18  # .. and the most of all prefixes
_LEVEL = 0.95  # with this probability, each string of `estimate_` is somebody's


def search(survey: Several, domain: PrefixDomain, tally: np.ndarray) -> tuple[list, np.ndarray]:
    """Search for the strings that most reports tell of, part by part."""
    # Returns what was kept after each part, the surest first: the letters, and an estimate that
    # selection biases; and the digits of the strings found.
    plan, coder = domain.plan, domain.digits
    digits, letters = np.zeros((1, 0), dtype=np.int64), [_NOTHING]
    prefixes, errors, paths, rivals = [], np.zeros(0), np.zeros((1, 0)), np.zeros((1, 0))
    for j in range(len(plan.steps)):
        channel: Any = survey.mechanisms[j]
        of_part, n_users = survey.tallies_on(tally, j)
        noise = NoiseModel(float(channel.p), float(channel.q), max(int(n_users), 1))
        is_last = j == len(plan.steps) - 1
        n_kept = plan.n_found if is_last else plan.n_kept
        has_ended = np.array([one[-1:] == (0,) for one in letters])  # its further digits are known
        ended = {int(i): letters[i] for i in np.flatnonzero(has_ended)}
        before, digits, support = _extended(channel, coder, of_part, digits, ended, _TRIED * n_kept)
        errors = np.append(errors, noise.std)
        paths = np.column_stack([paths[before], noise.debias(support)])
        own = np.where(has_ended[before], 0.0, plan.n_rivals[j])
        rivals = np.column_stack([rivals[before], own])
        surest = np.argsort(-evidence(paths, errors, rivals), kind="stable")
        chosen = _told_apart(domain, digits, surest, n_kept, is_last)
        rows, letters = list(chosen), list(chosen.values())
        digits, paths, rivals = digits[rows], paths[rows], rivals[rows]
        prefixes.append(list(zip(letters, paths[:, -1].tolist(), strict=True)))
        if not letters:  # no string begins with what was looked at
            break
    return prefixes, digits


def evidence(paths: np.ndarray, errors: np.ndarray, n_rivals: np.ndarray) -> np.ndarray:
    """Return how sure it is that somebody has each prefix."""
    # If nobody has a prefix, there is a first part from which on its estimates are noise: the
    # estimates from there on, together, must stand out from those of all its rivals there. The
    # evidence, the logarithm of a likelihood ratio less that of the number of rivals, is that
    # against the likeliest such part. `paths` and `n_rivals` have a row for each prefix and a
    # column for each part; there are 0 rivals where the string had ended before.
    precisions = errors**-2.0
    sums = np.cumsum((paths * precisions)[:, ::-1], axis=1)[:, ::-1]
    z = sums / np.sqrt(np.cumsum(precisions[::-1])[::-1])
    logs = np.log(n_rivals, out=np.full(paths.shape, -np.inf), where=n_rivals > 0)
    return (z * np.abs(z) / 2 - logs).min(axis=1)


def _extended(channel, coder, tally, digits, ended, n_best):
    """The best extensions of prefixes, some of which have ended: whose, their digits, support."""
    n_best = min(n_best, max(_TRIED, _MOST_TRIED // len(digits)), channel.n_extensions)
    powers, start = channel.field.order ** np.arange(channel.n_digits)[::-1], digits.shape[1]
    digests = digest_of_digits(digits)
    is_open = [i for i in range(len(digits)) if i not in ended]
    supports = channel.count_extensions(tally, digests[is_open])
    found: list[Any] = []
    for i, support in zip(is_open, supports, strict=True):
        best = np.argpartition(-support, n_best - 1)[:n_best]
        new = best[:, None] // powers % channel.field.order
        extended = np.concatenate([np.tile(digits[i], (n_best, 1)), new], axis=1)
        found.append((np.full(n_best, i), extended, support[best]))
    for i, letters in ended.items():
        padded = np.pad(letters, (0, coder.length - len(letters)))
        whole = coder.digits(padded[None])[:, : start + channel.n_digits]
        codes = digests[i] * channel.n_extensions + whole[:, start:] @ powers
        found.append(([i], whole, channel.support_of(tally[None], codes)[0]))
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
        name = domain.text(letters)  # a string and a longer one that is cut off behind it share it
        marks = {name, int(domain.codes(digits[i][None])[0, -1])} if is_last else set()
        if taken.isdisjoint(marks):
            taken |= marks
            chosen[i] = letters
        if len(chosen) == n_kept:
            break
    return chosen


class Found(NamedTuple):
    """The prefixes kept after each part of a search, and the estimate by users held out from it."""

    prefixes: list[list[tuple[str, float]]]
    all: FrequencyEstimate
    detected: FrequencyEstimate


# What was found in the collections in memory: an oracle's `estimate_` is read many times.
_found: WeakKeyDictionary[Collected, Found] = WeakKeyDictionary()


def found_in(state: Collected) -> Found:
    """Search for strings, and estimate and test them by the users who were held out."""
    # These did not choose the strings, so the tests are exact: a report supports a string that
    # nobody has with the probability q. Holm's method bounds the probability of any error among
    # all strings that were kept.
    domain: Any = state.protocol.domain
    survey = state.mechanism
    kept, digits = search(survey, domain, state.decoded[0].sum(axis=0))
    texts = [[(domain.text(one), estimate) for one, estimate in step] for step in kept]
    strings = np.array([text for text, _ in texts[-1]], dtype=object)
    may_go_on = np.array([letters[-1:] != (0,) for letters, _ in kept[-1]], dtype=bool)
    tallies, sizes = survey.tallies_on(state.decoded[0], len(domain.plan.steps))
    rows, last = np.flatnonzero(sizes), survey.mechanisms[-1]
    buckets, support = np.empty(0, dtype=np.int64), np.empty((rows.size, 0))
    if strings.size:
        buckets = domain.codes(digits)[:, -1]
        support = last.support_of(tallies[rows], buckets)
    p_values = stats.binom.sf(support.sum(axis=0) - 1, sizes.sum(), float(last.q))
    detected = adjusted_p_values(p_values[None], "fwer")[0] <= 1 - _LEVEL

    def estimate(chosen: Any, **flags: np.ndarray) -> FrequencyEstimate:
        flags[OR_LONGER], texts = may_go_on[chosen], strings[chosen]
        if not rows.size:
            return FrequencyEstimate(np.empty((0, len(texts))), texts, flags=flags)
        client = MixingHash(last.field.order, last.threshold)
        channel = MixingHashChannel(buckets[chosen].astype(np.uint64), client)
        values, noise = channel.estimate_decoded(support[:, chosen], sizes[rows])
        n_users, names = state.of_rows(rows)
        noise = noise.of_sample(n_users)
        facts: dict[str, Any] = {"row_names": names, "flags": flags, "caveats": state.caveats}
        return FrequencyEstimate(values, texts, noise, **facts)

    return Found(texts, estimate(slice(None), detected=detected), estimate(detected))


class StringOracle(OneColumn, BaseCollector[FrequencyEstimate], tag="string-oracle"):
    """The most frequent strings that users have, where nobody can list them.

    The collection has one round, and clients need no candidates. Each user is asked about a prefix
    of their string, of one of several lengths, which is drawn in public: their report is a hash
    function and a randomised hash value, as :class:`OLH` makes them. The server keeps the most
    frequent prefixes of one length, and looks at all their extensions by the digits of the next
    length; a Fourier transform adds up the reports for all of them at once [1]_. One user in seven
    is held out from the search and tells about their whole string. The estimate of what was found
    is of these users alone, so it is not biased by the selection.

    Strings are written in digits of a finite field, which is chosen with the lengths and the shares
    of the users by the expected recall. That depends on parameters and never on data, so all
    parties agree.

    What the held-out users do not detect is left out of the estimate, as nobody has most of it. The
    probability that any string of an estimate is nobody's is at most 5 % (Holm's method over all
    that the search has kept), unless users lie.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; all that is done with reports is free. That is all that protects a user: where epsilon is
    large, a string of one or two users may be detected. ``estimate_.detected(threshold=k / n)``
    tells which strings more than k of n users have.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one report, > 0.
    alphabet : str or StringDomain, default=None
        The letters, which are public; or what :meth:`Domain.strings` returns, for a code in which
        frequent letters are short. None takes the code of the package, for texts in Latin script.
    max_length : int, default=20
        The most letters of a string; longer ones are cut off. Each letter costs accuracy. A domain
        given as `alphabet` has its own.
    n_found : int, default=32
        The most strings to find.
    expected_n_users : int, default=1_000_000
        Number of users to plan for. Any other number may report.
    hash_range : "auto" or int, default="auto"
        Number of values of a digit: a prime, or a power of one. "auto" chooses it.
    missing : {"error", "report"}, default="error"
        What to do with a string that is empty, missing or not of the alphabet's letters. A user who
        then does not report tells that by their absence. "report" takes the last letter of the
        alphabet, alone, in its place.
    input : {"values", "reports"}, default="values"
        Whether `fit`, `partial_fit` and `transform` read users' raw values or their reports.
    random_state : int, RandomState, Generator or None, default=None
        None draws every coin from the operating system's secure source. Anything else makes reports
        predictable, and is for simulations.
    n_jobs : int, default=None
        Number of threads that work on chunks of users; it does not change the result.

    Attributes
    ----------
    estimate_ : FrequencyEstimate of shape (1, n_detected)
        The strings that were detected, the surest first, with frequencies by held-out users. They
        do not add up to 1, so post-processors that assume it are not for them. Its `flags` say
        which strings are as long as `max_length`: users of "or longer" ones are counted there.
    found_ : FrequencyEstimate of shape (1, n_kept)
        The same of all that the search has kept, at most `n_found`; `flags` say what is "detected".
        Its simultaneous intervals hold for whatever is chosen among them, such as the detected.
    n_samples_seen_ : int
        Number of users.

    Notes
    -----
    A string is estimated by the bucket that its digest falls into, one of more than 2**18. Of two
    strings in one bucket only the more frequent one is found. If the other one was not found, and
    is not rare, the estimate is of both, which happens to few strings in ten thousand. A string and
    longer ones whose next letter a code cuts off have one name, and the surer one is found.

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
        "missing": [StrOptions({"error", "report"})],
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
        missing: str = "error",
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
        self.missing = missing
        self.input = input
        self.random_state = random_state
        self.n_jobs = n_jobs

    def plan(self) -> StringPlan:
        """Return the plan: the questions, and the recall to expect, before any data.

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
        """The prefixes kept after each part, the surest first, with estimates biased by selection.

        It shows where a string was lost.
        """
        return self._found_in(self._fitted("found_prefixes_")).prefixes

    @property
    def found_(self) -> FrequencyEstimate:
        """All strings that the search has kept, of which some are nobody's."""
        return self._found_in(self._fitted("found_")).all

    # -- the hooks ----------------------------------------------------------------------------
    def _is_auto(self) -> bool:
        return False

    def _domain(self) -> PrefixDomain:
        return self._domain_of(self.alphabet)  # which depends on other parameters, too

    def _domain_of(self, declared: Any) -> PrefixDomain:
        self._check_parameters()
        strings = declared
        if declared is None:
            strings = Domain.strings(max_length=self.max_length)
        elif not isinstance(declared, StringDomain):
            strings = StringDomain(declared, self.max_length, name=self._name)
        order = None if self.hash_range == "auto" else int(self.hash_range)
        if order is None and strings.max_digits is not None:
            raise ValueError(
                f"{self._name} needs hash_range= with max_digits=, as these are digits of a field "
                "of so many elements."
            )
        users, epsilon = int(self.expected_n_users), float(self.epsilon)
        plan = best_plan(epsilon, strings, int(self.n_found), users, order)
        return PrefixDomain(strings, plan, self.missing == "report")

    def _make_mechanism(self, domain: Any) -> Several:
        return Several.drawn(domain.plan.mechanisms(), domain.plan.shares)

    def _found_in(self, state: Any) -> Found:
        """The strings found in a collection; warns once of those that are not detected."""
        if state in _found:
            return _found[state]
        found, plan = _found.setdefault(state, found_in(state)), state.protocol.domain.plan
        n_users, n_found = int(np.sum(state.decoded[1])), plan.n_found
        if n_missed := found.all.shape[1] - found.detected.shape[1]:
            least = plan.threshold(max(n_users, 1))
            needs = f"a frequency of about {least:.2g}" if least < 1 else "more users than these"
            warnings.warn(
                f"{self._name} looked for {n_found} strings and leaves out {n_missed} that are not "
                f"detected among {n_users:,} users: nobody has most of them. A string that is "
                f"found needs {needs}. All are in found_, which marks the detected ones.",
                stacklevel=4,
            )
        return found

    def _estimate_of(self, state: Collected) -> FrequencyEstimate:
        return self._found_in(state).detected
