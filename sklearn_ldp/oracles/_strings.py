"""The most frequent strings of an open domain, without a list on clients or servers."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy import stats
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.common.random import RandomState
from .._core.domains import Domain, StringDomain
from .._core.domains.values import warn_of_variants
from .._core.estimates import OR_LONGER, FrequencyEstimate
from .._core.fitting import BaseCollector, Collected
from .._core.mechanisms.several import SampledQuestions
from .._core.noise import NoiseModel
from .._core.statistics import adjusted_p_values
from ._base import OneColumn
from ._local_hashing import MixingHash, MixingHashChannel
from ._string_parts import (
    MOST_EXPECTED_USERS,
    PrefixDomain,
    StringPlan,
    best_plan,
    digest_of_digits,
)

_NOTHING: tuple[int, ...] = ()  # the letters of the empty prefix
# These two bound the work of the server; they were chosen by hand, not measured.
_TRIED = 16  # extensions of a prefix that are examined for each prefix that is kept
_MOST_TRIED = 1 << 18  # maximum number of examined extensions of all prefixes together
_LEVEL = 0.95  # with this probability, some user has each string of `estimate_`


def search(
    survey: SampledQuestions, domain: PrefixDomain, tally: np.ndarray
) -> tuple[list, np.ndarray]:
    """Search for the most frequent strings: each part of the users extends the prefixes of the part
    before.

    `tally` contains the counts of the reports, of shape (tally_size,). Return two values. The first
    is a list with one entry per part: a list of (prefix, estimate) of the prefixes that are kept,
    in order of evidence. A prefix is a tuple of letter numbers, and its estimate is biased by
    selection. The second is the digits of the strings of the last part.
    """
    # Returns the prefixes kept after each part, in order of evidence, with their letters and an
    # estimate that is biased by selection; and the digits of the strings in the last part.
    plan = domain.plan
    coder = domain.digits
    digits = np.zeros((1, 0), dtype=np.int64)
    letters = [_NOTHING]
    prefixes = []
    errors = np.zeros(0)
    paths = np.zeros((1, 0))
    rivals = np.zeros((1, 0))
    for j in range(len(plan.steps)):
        channel: Any = survey.mechanisms[j]
        part_tally, n_users = survey.tallies_on(tally, j)
        noise = NoiseModel(float(channel.p), float(channel.q), max(int(n_users), 1))
        is_last = j == len(plan.steps) - 1
        n_kept = plan.n_found if is_last else plan.n_kept
        has_ended = np.array([prefix[-1:] == (0,) for prefix in letters])  # no further letters
        ended = {int(i): letters[i] for i in np.flatnonzero(has_ended)}
        n_tried = _TRIED * n_kept
        before, digits, support = _extended(channel, coder, part_tally, digits, ended, n_tried)
        errors = np.append(errors, noise.std)
        paths = np.column_stack([paths[before], noise.debias(support)])
        own = np.where(has_ended[before], 0.0, plan.n_rivals[j])
        rivals = np.column_stack([rivals[before], own])
        surest = np.argsort(-evidence(paths, errors, rivals), kind="stable")
        chosen = _told_apart(domain, digits, surest, n_kept, is_last)
        rows = list(chosen)
        letters = list(chosen.values())
        digits, paths, rivals = digits[rows], paths[rows], rivals[rows]
        prefixes.append(list(zip(letters, paths[:, -1].tolist(), strict=True)))
        if not letters:  # no examined prefix is the beginning of a valid string
            break
    return prefixes, digits


def evidence(paths: np.ndarray, errors: np.ndarray, n_rivals: np.ndarray) -> np.ndarray:
    """Return, for each prefix, a number that measures the evidence that at least one user has it.

    The users are divided into parts, and each part estimates prefixes of one length.
    paths: for each prefix (row) and each part (column), the estimate of the beginning of the prefix
    that has the length of this part.
    errors: the standard error of each part.
    n_rivals: the number of prefixes that compete with each beginning, in the shape of `paths`.
    """
    # If no user has a prefix, its estimates are noise from some first part on. So the combined
    # estimates from this part on must exceed the estimates of all rival prefixes there. For each
    # possible first part, the evidence is the logarithm of a likelihood ratio minus the logarithm
    # of the number of rivals; the result is the minimum over the first parts. `paths` and
    # `n_rivals` have a row for each prefix and a column for each part. The number of rivals is 0
    # in a part if the string has ended before.
    precisions = errors**-2.0
    sums = np.cumsum((paths * precisions)[:, ::-1], axis=1)[:, ::-1]
    z = sums / np.sqrt(np.cumsum(precisions[::-1])[::-1])
    logs = np.log(n_rivals, out=np.full(paths.shape, -np.inf), where=n_rivals > 0)
    return (z * np.abs(z) / 2 - logs).min(axis=1)


def _extended(channel, coder, tally, digits, ended, n_best):
    """Extend each prefix by digits, and return its `n_best` extensions with the largest support.

    Return three arrays with an entry for each extension: the index of the prefix that it extends,
    its digits, and its support (the number of reports that count in favor of it). A prefix in
    `ended` is a complete string, and has a single extension: itself.
    """
    n_best = min(n_best, max(_TRIED, _MOST_TRIED // len(digits)), channel.n_extensions)
    powers = channel.field.order ** np.arange(channel.n_digits)[::-1]
    start = digits.shape[1]
    digests = digest_of_digits(digits)
    is_open = [i for i in range(len(digits)) if i not in ended]
    supports = channel.count_extensions(tally, digests[is_open])
    # A prefix in `ended` is a whole string, so it has a single extension.
    extensions: list[Any] = []
    for i, support in zip(is_open, supports, strict=True):
        best = np.argpartition(-support, n_best - 1)[:n_best]
        new = best[:, None] // powers % channel.field.order
        extended = np.concatenate([np.tile(digits[i], (n_best, 1)), new], axis=1)
        extensions.append((np.full(n_best, i), extended, support[best]))
    for i, letters in ended.items():
        padded = np.pad(letters, (0, coder.length - len(letters)))
        whole = coder.digits(padded[None])[:, : start + channel.n_digits]
        codes = digests[i] * channel.n_extensions + whole[:, start:] @ powers
        extensions.append(([i], whole, channel.support_of(tally[None], codes)[0]))
    return [np.concatenate(column) for column in zip(*extensions, strict=True)]


def _told_apart(domain, digits, surest, n_kept, is_last):
    """Return the letters of the `n_kept` best prefixes, as a dict with their indices as keys.

    `surest` contains the indices of all prefixes, the best first. A prefix without valid letters is
    omitted. In the last part, a string is omitted if its held-out reports cannot be distinguished
    from the reports of a better string.
    """
    coder = domain.digits
    chosen = {}
    taken: set[Any] = set()
    for i in surest.tolist():
        letters = coder.read(digits[i].tolist())
        if letters is None:
            continue
        # If several strings share a bucket, the reports of held-out users cannot separate them, so
        # only the first string is kept. A truncated longer string has the same name as a string.
        name = domain.text(letters)
        marks = {name, int(domain.codes(digits[i][None])[0, -1])} if is_last else set()
        if taken.isdisjoint(marks):
            taken |= marks
            chosen[i] = letters
        if len(chosen) == n_kept:
            break
    return chosen


class Found(NamedTuple):
    """The results of a search: the prefixes that each part has kept, and two estimates from
    held-out users.

    The estimate `all` has all strings that the search has kept, and `detected` only the strings
    that the held-out users detect.
    """

    prefixes: list[list[tuple[str, float]]]
    all: FrequencyEstimate
    detected: FrequencyEstimate


# The results of the collections in memory, because `estimate_` of an oracle is read many times.
_found: WeakKeyDictionary[Collected, Found] = WeakKeyDictionary()


def found_in(state: Collected) -> Found:
    """Search for strings in the collected reports, and estimate their frequencies with held-out
    users.

    The held-out users also test for each string whether any user has it.
    """
    # The tests are exact, because the reports of held-out users did not select the strings: such a
    # report supports a string of frequency 0 with the probability q. Holm's method bounds the
    # probability of any error among all strings that were kept.
    domain: Any = state.protocol.domain
    survey = state.mechanism
    kept, digits = search(survey, domain, state.decoded[0].sum(axis=0))
    texts = [[(domain.text(prefix), value) for prefix, value in step] for step in kept]
    strings = np.array([text for text, _ in texts[-1]], dtype=object)
    may_go_on = np.array([letters[-1:] != (0,) for letters, _ in kept[-1]], dtype=bool)
    tallies, sizes = survey.tallies_on(state.decoded[0], len(domain.plan.steps))
    rows = np.flatnonzero(sizes)
    last = survey.mechanisms[-1]
    buckets = np.empty(0, dtype=np.int64)
    support = np.empty((rows.size, 0))
    if strings.size:
        buckets = domain.codes(digits)[:, -1]
        support = last.support_of(tallies[rows], buckets)
    p_values = stats.binom.sf(support.sum(axis=0) - 1, sizes.sum(), float(last.q))
    detected = adjusted_p_values(p_values[None], "fwer")[0] <= 1 - _LEVEL

    def estimate(chosen: Any, **flags: np.ndarray) -> FrequencyEstimate:
        flags[OR_LONGER] = may_go_on[chosen]
        texts = strings[chosen]
        if domain.is_stood_in:
            flags["or missing"] = texts == domain.stand_in
        if not rows.size:
            values = np.empty((0, len(texts)))
            return FrequencyEstimate(values, texts, flags=flags, is_partial=True)
        client = MixingHash(last.field.order, last.threshold)
        channel = MixingHashChannel(buckets[chosen].astype(np.uint64), client)
        values, noise = channel.estimate_decoded(support[:, chosen], sizes[rows])
        n_users, names = state.row_sizes_and_names(rows)
        noise = noise.of_sample(n_users)
        return FrequencyEstimate(
            values,
            texts,
            noise,
            row_names=names,
            flags=flags,
            caveats=state.caveats,
            is_partial=True,
        )

    return Found(texts, estimate(slice(None), detected=detected), estimate(detected))


class StringOracle(OneColumn, BaseCollector[FrequencyEstimate], tag="string-oracle"):
    """Find the most frequent strings of the users (heavy hitters), without a list of candidates.

    The collection has one round: each user sends one report. The users are divided at random into
    parts, and each part has a prefix length. A user's report describes the prefix of their string
    with this length: it is a hash function and a randomized hash value, as for :class:`OLH`. The
    server searches from the shortest to the longest prefixes. It keeps the most frequent prefixes
    of one length, and counts the reports of the next part for all extensions of these prefixes to
    the next length. A Fourier transform counts the reports for all extensions together [1]_. One
    user in seven is held out from the search, and reports on their whole string. The estimate uses
    only these held-out users, so it is not biased by the selection of strings.

    Strings are encoded as digits (elements of a finite field). The field, the prefix lengths and
    the proportions of users in the parts maximize the expected recall, which is the proportion of
    frequent strings that are found. They depend on the parameters and never on data, so clients and
    servers use the same values.

    The search keeps up to `n_found` strings, and no user has some of them. The estimate contains
    only the strings that the held-out users detect. With a probability of at least 95 %, at least
    one user has each string of the estimate (Holm's method over all strings that the search has
    kept), unless malicious users poison the data.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; everything computed from reports is free. There is no minimum number of users per string:
    if epsilon is large, the estimate may contain a string of one or two users.
    ``estimate_.detected(threshold=k / n)`` returns the strings that more than k of n users have.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one report, > 0.
    alphabet : str or StringDomain, default=None
        The letters of the strings, which are public; or a result of :meth:`Domain.strings`, which
        can encode frequent letters with fewer digits than rare letters. If None, use such an
        encoding of the package, for texts in Latin script.
    max_length : int, default=20
        Maximum number of letters of a string; longer strings are truncated. A larger maximum
        reduces accuracy. If `alphabet` is a result of :meth:`Domain.strings`, the maximum of this
        domain is used instead.
    n_found : int, default=32
        Maximum number of strings to find.
    expected_n_users : int, default=1_000_000
        Expected number of users, for which the parts are optimized. The actual number may differ.
    hash_range : "auto" or int, default="auto"
        Number of possible values of a digit, which is also the number of hash values: a prime, or a
        power of a prime. "auto" chooses the number with the maximum expected recall.
    missing : {"error", "report"}, default="error"
        The treatment of a string that is empty or missing, or contains letters outside of the
        alphabet. If "error", it raises an error. If the client then sends no report, this reveals
        that there was no valid string. If "report", the client reports a string of one letter
        instead, which is the last letter of the alphabet ("ґ" if `alphabet` is None). If the search
        finds it, the flag "or missing" of the estimate marks it. `fit` still raises an error if a
        raw value is a number.
    input : {"values", "reports"}, default="values"
        Whether `fit`, `partial_fit` and `transform` read users' raw values or their reports.
    random_state : int, RandomState, Generator or None, default=None
        If None, all random bits come from the operating system's secure source. Any other value
        makes reports predictable, and is for simulations.
    n_jobs : int, default=None
        Number of threads that work on chunks of users; it does not change the result.

    Attributes
    ----------
    estimate_ : FrequencyEstimate of shape (1, n_detected)
        The detected strings, with frequencies that are estimated from the held-out users. The
        string with the strongest evidence that a user has it is first. The frequencies do not sum
        to 1, so do not use post-processors that assume this. The flag "or longer" marks strings of
        length `max_length`: their frequency includes users with longer strings that begin with
        them.
    found_ : FrequencyEstimate of shape (1, n_kept)
        All strings that the search has kept, at most `n_found`, with frequencies that are estimated
        from the held-out users. The flag "detected" marks the detected strings. Simultaneous
        intervals remain valid for any selection of these strings, such as the detected strings.
    n_samples_seen_ : int
        Number of users.

    Notes
    -----
    A held-out user reports a digest of their string, which is one of at least 2**18 values. So the
    estimated frequency of a string includes all strings with the same digest. If two strings that
    the search finds have the same digest, only the string with stronger evidence is kept. Few
    strings in ten thousand share their digest with another string that is not rare. If an encoding
    truncates a long string, it has the same name as a shorter string; the search keeps one of the
    two, with the stronger evidence.

    The server stores the number of reports of each distinct kind, and not the reports. So its
    memory does not depend on the actual number of users. It needs about 100 MB for a million
    expected users.

    References
    ----------
    .. [1] T. Wang, N. Li, S. Jha, "Locally differentially private heavy hitter identification",
       IEEE Transactions on Dependable and Secure Computing 18(2), 2021,
       :doi:`10.1109/TDSC.2019.2927695` (for the prefixes; the transform and the held-out
       users are additions of this package).

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
        "alphabet": "no_validation",  # StringDomain checks these two with specific errors
        "max_length": "no_validation",
        "n_found": [Interval(Integral, 1, 1 << 10, closed="both")],
        "expected_n_users": [Interval(Integral, 1, MOST_EXPECTED_USERS, closed="both")],
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
        """Return the plan of the collection: the prefix lengths and the proportions of users.

        The plan depends only on the parameters, so you can compute it before the collection.

        Returns
        -------
        StringPlan
            The plan. Its attribute `steps` contains the number of digits by which each part extends
            the prefixes, and `shares` the proportion of users in each part. Its method
            ``found_probability(frequencies)`` returns the probability that a string of a given
            frequency is found, from 0 to 1. Its method ``users_for(frequency, power=0.8)`` returns
            the number of users from which this probability is at least `power`, if you pass this
            number as `expected_n_users`. ``threshold()`` is the frequency at which the probability
            is 1/2. All three are approximations.

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
        >>> plan.users_for(0.01)
        162851
        """
        return self._domain().plan

    # -- results of fit ------------------------------------------------------------------------
    @property
    def found_prefixes_(self) -> list[list[tuple[str, float]]]:
        """For each part of the users, a list of (prefix, estimated frequency) of the kept prefixes.

        The prefix with the strongest evidence that a user has it is first. The estimates are biased
        by selection. If the search has missed a string, this shows in which part it was dropped.
        """
        return self._found_in(self._fitted("found_prefixes_")).prefixes

    @property
    def found_(self) -> FrequencyEstimate:
        """All strings that the search has kept, including strings that no user has."""
        return self._found_in(self._fitted("found_")).all

    # -- the hooks ----------------------------------------------------------------------------
    def _is_auto(self) -> bool:
        return False

    def _domain(self) -> PrefixDomain:
        return self._domain_of(self.alphabet)  # the domain also depends on other parameters

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
                f"{self._name} needs hash_range=, because its alphabet was made with max_digits=, "
                "and max_digits depends on the number of values of a digit. Pass this number as "
                "hash_range=."
            )
        users = int(self.expected_n_users)
        epsilon = float(self.epsilon)
        plan = best_plan(epsilon, strings, int(self.n_found), users, order)
        return PrefixDomain(strings, plan, self.missing == "report")

    def _make_mechanism(self, domain: Any) -> SampledQuestions:
        return SampledQuestions.drawn(domain.plan.mechanisms(), domain.plan.shares)

    def _found_in(self, state: Any) -> Found:
        """Return the strings found in the reports. Warn once if the search has kept undetected
        strings."""
        if state in _found:
            return _found[state]
        result = _found.setdefault(state, found_in(state))
        remedy = "Convert strings to lower case and strip them on the client"
        warn_of_variants(result.detected.categories.tolist(), self._name, "strings", remedy)
        plan = state.protocol.domain.plan
        n_users = int(np.sum(state.decoded[1]))
        n_found = plan.n_found
        if n_missed := result.all.shape[1] - result.detected.shape[1]:
            bar = plan.threshold(max(n_users, 1))
            needs = f"a frequency of about {bar:.2g}" if bar < 1 else "more users than these"
            warnings.warn(
                f"{self._name} searched for {n_found} strings, and the estimate omits {n_missed}. "
                f"The omitted strings are not detected among {n_users:,} users: the reports do not "
                f"show that any user has them. A string needs {needs} to be found. See found_ for "
                "all strings that the search has kept.",
                stacklevel=4,
            )
        return result

    def _estimate_of(self, state: Collected) -> FrequencyEstimate:
        return self._found_in(state).detected
