"""The checks that `sklearn_ldp.utils.estimator_checks` runs. Each check is a function."""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from io import BytesIO
from itertools import combinations, islice, pairwise, product
from threading import Thread
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.fixes import parse_version

from .._core.common.privacy import PrivacyWarning
from .._core.estimates import EstimateSet, FrequencyEstimate
from .._core.mechanisms.channel import Channel
from .._core.mechanisms.coins import PROBABILITY_UNIT, Coins, SeededCoins, exp_lower_bound
from .._core.mechanisms.mechanism import Mechanism
from .._core.noise import NoiseModel
from ..collection import read_reports, write_reports
from ..oracles import BaseOracle, ItemOracle
from ..postprocessing import BasePostProcessor

#: The probability of each report; a report is identified by its numbers.
_Law: TypeAlias = dict[tuple[int, ...], Fraction]


def check_oracle(oracle: BaseOracle) -> None:
    """Run every check of a frequency oracle.

    Parameters
    ----------
    oracle : oracle
        The oracle to check. The checks use clones, with other categories and a random seed.

    Raises
    ------
    AssertionError
        If a check fails.
    TypeError
        If `oracle` is not an oracle for one category per user. This function has no checks for
        other objects.

    Examples
    --------
    >>> from sklearn_ldp import GRR
    >>> from sklearn_ldp.utils.estimator_checks import check_oracle
    >>> check_oracle(GRR(epsilon=2.0))
    """
    is_other = not isinstance(oracle, type | BaseOracle) or isinstance(oracle, ItemOracle)
    if is_other:
        raise TypeError(
            "check_oracle needs an oracle for one category per user, such as OLH(), got "
            f"{oracle!r}. For several columns use check_table_oracle; for other oracles there are "
            "no checks yet."
        )
    _run(oracle_checks(), oracle)


def check_postprocessor(postprocessor: BasePostProcessor) -> None:
    """Run every check of a post-processor.

    Parameters
    ----------
    postprocessor : post-processor
        The post-processor to check. The checks use clones.

    Raises
    ------
    AssertionError
        If a check fails.

    Examples
    --------
    >>> from sklearn_ldp import NormSub
    >>> from sklearn_ldp.utils.estimator_checks import check_postprocessor
    >>> check_postprocessor(NormSub())
    """
    _run(postprocessor_checks(), postprocessor)


def check_table_oracle(oracle: Any) -> None:
    """Run every check of an oracle of several columns, such as :class:`~sklearn_ldp.ColumnOracle`.

    Parameters
    ----------
    oracle : oracle
        The oracle to check, which has a parameter `domains`. The checks use clones, with other
        domains and a random seed.

    Raises
    ------
    AssertionError
        If a check fails.

    Examples
    --------
    >>> from sklearn_ldp import ColumnOracle
    >>> from sklearn_ldp.utils.estimator_checks import check_table_oracle
    >>> check_table_oracle(ColumnOracle(epsilon=2.0))
    """
    _run(table_oracle_checks(), oracle)


def _run(checks: Iterable[Callable[[Any], None]], estimator: Any) -> None:
    if isinstance(estimator, type):
        raise TypeError(
            f"The checks need an instance, got the class {estimator.__name__}. Pass "
            f"{estimator.__name__}()."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # the checks themselves set seeds
        for check in checks:
            check(estimator)


def expected_failed_checks(estimator: BaseEstimator) -> dict[str, str]:
    """Return the checks of scikit-learn that an estimator cannot pass, with the reasons.

    Pass the result as the argument `expected_failed_checks` of
    :func:`sklearn.utils.estimator_checks.check_estimator`. Post-processors pass all checks. Oracles
    fail some checks, because they transform the values of many users into a single row. If an
    estimator does not accept 2D arrays, its tags declare this, and scikit-learn runs hardly any
    check. This is the case for estimators that read strings, lists or sets of estimates, and for
    estimators that need a parameter first. For example, some post-processors and searches need
    `noise`, and corrected models need `private`. Set this parameter before you check such an
    estimator.

    Parameters
    ----------
    estimator : oracle, post-processor or search
        The estimator to check. Its class may belong to another package.

    Returns
    -------
    dict of str to str
        Maps the name of each check that fails to the reason.

    Examples
    --------
    >>> from sklearn_ldp import GRR, NormSub
    >>> from sklearn_ldp.utils.estimator_checks import expected_failed_checks
    >>> expected_failed_checks(GRR())["check_fit1d"]
    'the usual input is one value per user, which is 1D'
    >>> expected_failed_checks(NormSub())
    {}
    """
    expected = dict(getattr(estimator, "_expected_failed_checks", {}))
    reads_categories = getattr(estimator, "_reads_categories", "check_fit1d" in expected)
    release = parse_version(sklearn.__version__)
    if reads_categories and release < parse_version("1.8"):
        why = "before 1.8 the check turns categories into fractions"
        expected["check_positive_only_tag_during_fit"] = why
    classifier = get_tags(estimator).classifier_tags
    is_binary = classifier is not None and not classifier.multi_class
    if is_binary and release < parse_version("1.7"):
        why = "before 1.7 the check makes two classes by the first row, which another order changes"
        expected["check_sample_weight_equivalence_on_dense_data"] = why
    return expected


def oracle_checks() -> list[Callable[[BaseOracle], None]]:
    """Return the checks of frequency oracles.

    Returns
    -------
    list of callables
        Each function receives an oracle, and raises AssertionError if the check fails.
    """
    return [
        check_exact_epsilon,
        check_epsilon_of_assigned_parts,
        check_exact_support_probabilities,
        check_unbiased_estimates,
        check_joint_support,
        check_covariance,
        check_domains_epsilons_and_batches,
        check_one_release,
        check_supports,
        check_simulation,
        *collector_checks(),
    ]


def table_oracle_checks() -> list[Callable[[Any], None]]:
    """Return the checks of oracles of several columns, such as :class:`~sklearn_ldp.ColumnOracle`.

    Returns
    -------
    list of callables
        Each function receives an oracle, and raises AssertionError if the check fails.
    """
    return [check_exact_epsilon_of_records, check_one_set, *collector_checks()]


def collector_checks() -> list[Callable[[Any], None]]:
    """Return the checks of fitting, merging and storing, which apply to all oracles and surveys.

    Returns: a list of functions. Each receives an oracle, a survey or a
    :class:`~sklearn_ldp.LocalMean`, and raises AssertionError if the check fails.
    """
    return [
        check_client_needs_no_fit,
        check_batches_add_up,
        check_merge,
        check_refused_reports_change_nothing,
        check_refused_values_change_nothing,
        check_randomness,
        check_histogram,
        check_pieces,
        check_pickle,
        check_files,
        check_threads,
    ]


def postprocessor_checks() -> list[Callable[[BasePostProcessor], None]]:
    """Return the checks of post-processors.

    Returns
    -------
    list of callables
        Each function receives a post-processor, and raises AssertionError if the check fails.
    """
    return [
        check_containers,
        check_transform_sets_nothing,
        check_processed_estimates_are_refused,
        check_rows_are_independent,
        check_permutation_equivariance,
        check_order_is_preserved,
        check_extreme_estimates,
    ]


def _error_of(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Exception | None:
    """Return the ValueError or TypeError that a call raises, or None if it raises none of them."""
    try:
        function(*args, **kwargs)
    except (ValueError, TypeError) as error:
        return error
    return None


# -- oracles ----------------------------------------------------------------------------------
class _ScriptedCoins(Coins):
    """Source of random numbers that returns listed outcomes, and computes their probability."""

    def __init__(self, script: list[int]):
        self.script = script
        self.outcomes: list[int] = []
        self.n_outcomes: list[int] = []
        self.chance = Fraction(1)

    def _draw(self, n_outcomes: int, chances: list[Fraction] | None = None) -> int:
        place = len(self.outcomes)
        outcome = self.script[place] if place < len(self.script) else 0
        self.outcomes.append(outcome)
        self.n_outcomes.append(n_outcomes)
        self.chance *= Fraction(1, n_outcomes) if chances is None else chances[outcome]
        return outcome

    def bernoulli(self, threshold, size):
        success = Fraction(threshold, PROBABILITY_UNIT)
        n = int(np.prod(size))
        chances = [1 - success, success]
        return np.array([self._draw(2, chances) for _ in range(n)], dtype=bool).reshape(size)

    def integers(self, high, size):
        return np.array([self._draw(high) for _ in range(size)], dtype=np.int64)

    def choice(self, bounds, size):
        chances = [Fraction(b - a, PROBABILITY_UNIT) for a, b in pairwise([0, *bounds])]
        return np.array([self._draw(len(bounds), chances) for _ in range(size)], dtype=np.int64)

    def choices(self, bounds, laws):
        ends = ([*map(int, bounds[law]), PROBABILITY_UNIT] for law in laws)
        return np.concatenate([self.choice(ends_of_one, 1) for ends_of_one in ends])

    def subsets(self, sizes, n_items, n_columns=None):
        bits = np.zeros((len(sizes), n_columns or n_items), dtype=bool)
        for row, size in zip(bits, sizes.tolist(), strict=True):
            number = self._draw(math.comb(n_items, size))
            row[list(next(islice(combinations(range(n_items), size), number, None)))] = True
        return bits

    def packed_subsets(self, sizes, n_items, n_bytes):
        return np.packbits(self.subsets(sizes, n_items, 8 * n_bytes), axis=1)


class _EqualCoins(_ScriptedCoins):
    """Source of random numbers that always returns the same number."""

    many_coins = math.inf

    def __init__(self, number: int):
        self.number = number

    def bernoulli(self, threshold, size):
        return np.full(size, self.number % 2 == 1)

    def integers(self, high, size):
        return np.full(size, self.number % high)

    def choice(self, bounds, size):
        return self.integers(len(bounds), size)

    def choices(self, bounds, laws):
        return self.integers(bounds.shape[1] + 1, len(laws))

    def subsets(self, sizes, n_items, n_columns=None):
        return np.arange(n_columns or n_items) < np.reshape(sizes, (-1, 1))


def exact_report_distribution(
    channel: Mechanism, code: int | tuple[int, ...]
) -> dict[tuple[int, ...], Fraction]:
    """Return the exact probability of every report, by enumerating all random numbers.

    Parameters
    ----------
    channel : Channel or other mechanism
        A mechanism that draws few random numbers, because the time grows with the number of their
        outcomes.
    code : int, or tuple of int
        The position of the user's category in the list of categories. For a mechanism of several
        columns, a tuple of positions.

    Returns
    -------
    dict of tuple to Fraction
        Maps each possible report, as a flat tuple of its integers, to its exact probability.

    Examples
    --------
    >>> from sklearn_ldp.oracles._direct import DirectChannel
    >>> from sklearn_ldp.utils.estimator_checks import exact_report_distribution
    >>> exact_report_distribution(DirectChannel(3, threshold=2**63), code=0)
    {(1,): Fraction(1, 4), (2,): Fraction(1, 4), (0,): Fraction(1, 2)}
    """
    return _distribution(channel.privatize, code)


def _distribution(randomize: Callable[[np.ndarray, Any], np.ndarray], code: Any) -> _Law:
    """Return the probability of each report of one user, by enumerating all random numbers.

    `randomize` is a function of the user's category code and a source of random numbers.
    """
    distribution: _Law = {}
    script: list[int] = []
    # Ends: because the scripts rise in lexicographic order and the outcomes are finitely many.
    while True:
        coins = _ScriptedCoins(script)
        report = tuple(np.ravel(randomize(np.array([code]), coins)).tolist())
        distribution[report] = distribution.get(report, Fraction(0)) + coins.chance
        script = coins.outcomes
        # Ends: because each pass removes an outcome.
        while script and script[-1] + 1 == coins.n_outcomes[len(script) - 1]:
            script.pop()  # all outcomes of this draw have been enumerated
        if not script:
            return distribution
        script[-1] += 1


_SMALL = 4  # categories: few enough to enumerate, and not a power of every field order
_MAX_OUTCOMES = 400  # the largest number of random outcomes that are enumerated in a large domain
_EPSILONS = (0.1, 1.0, 6.0)


def _enumerable(oracle: BaseOracle) -> Channel:
    return oracle.channel(_SMALL).for_enumeration()


def check_exact_epsilon(oracle: BaseOracle) -> None:
    """Assert that a report is at most exp(epsilon) times as likely for one value as for another."""
    # The likelihood ratio of every report under every pair of values is compared as a rational
    # number. The maximum must not exceed exp(epsilon), and must not be smaller by more than 1e-12.
    check_exact_epsilon_of(_enumerable(oracle), range(_SMALL), oracle.epsilon)


def check_exact_epsilon_of(mechanism: Any, codes: Iterable[Any], epsilon: float) -> None:
    """Assert that a mechanism with these category codes spends exactly epsilon, by enumeration."""
    _assert_private([exact_report_distribution(mechanism, code) for code in codes], epsilon)


def _assert_private(laws: list[_Law], epsilon: float, is_whole: bool = True) -> None:
    """Assert that the probabilities of reports imply at most epsilon.

    `laws` contains the distribution of reports for each value. If `is_whole` is true, also assert
    that the whole epsilon is used.
    """
    _assert_laws(laws)
    chances = ([law[report] for law in laws] for report in laws[0])
    worst = max(max(by_code) / min(by_code) for by_code in chances)
    bound = exp_lower_bound(epsilon)
    share = float(worst / bound - 1)
    remedy = "; round thresholds as `direct_threshold` does" if share < 1e-9 else ""
    text = f"a ratio is exp(epsilon) times 1 + {share:.3g}{remedy}"
    assert worst <= bound, f"epsilon is exceeded: {text}"
    if is_whole and bound < 2**24:  # for larger ratios the resolution of 2**-64 is visible
        assert worst >= bound * (1 - Fraction(1, 10**12)), "privacy budget is wasted"


def _assert_laws(laws: list[_Law]) -> None:
    total = all(sum(law.values()) == 1 for law in laws)
    assert total, "the probabilities of the reports on a value do not add up to 1"
    same = all(law.keys() == laws[0].keys() for law in laws)
    assert same, "a report reveals its value: another value cannot lead to this report"


def check_exact_epsilon_of_records(oracle: Any) -> None:
    """Assert that no report is over exp(epsilon) times as likely for one record as for another."""
    # Two records may differ in every column. The maximum ratio over all pairs of records must not
    # exceed exp(epsilon), and must not be smaller by more than 1e-12.
    mechanism = _small(oracle).protocol().mechanism.for_enumeration()
    check_exact_epsilon_of(mechanism, product(range(2), range(3)), oracle.epsilon)


def check_epsilon_of_assigned_parts(oracle: BaseOracle) -> None:
    """Assert that reports spend at most epsilon if a collector assigns their public part.

    The public part of a report, such as a hash function, does not depend on the user's value.
    """
    # Given the public part, no report may separate two values by more than exp(epsilon), and each
    # report must contain that part. If parts are drawn as clients draw them, reports must have the
    # distribution of `privatize`. Oracles that do not support assigned parts pass.
    channel = _enumerable(oracle)
    part = channel.public_part
    if part is None or part.privatize is None:
        return
    assign = part.privatize
    bound = exp_lower_bound(oracle.epsilon)
    n_draws = part.n_values if part.n_draws is None else part.n_draws
    drawn = part.draw(np.arange).tolist()
    assert len(drawn) == n_draws, "`public_part.draw` does not return the requested number of parts"
    laws: list[_Law] = [{} for _ in range(_SMALL)]
    for value in range(part.n_values):

        def randomize(codes: np.ndarray, coins: Any, value: int = value) -> np.ndarray:
            return assign(codes, np.full(len(codes), value), coins)

        conditional_laws = [_distribution(randomize, code) for code in range(_SMALL)]
        _assert_laws(conditional_laws)
        for report in conditional_laws[0]:
            chances = [law[report] for law in conditional_laws]
            assert max(chances) <= bound * min(chances), "an assigned part exceeds epsilon"
            reports = channel.check_reports(np.array([report]))
            assert part.of_reports(reports).tolist() == [value], "a report contains another part"
        share = Fraction(drawn.count(value), n_draws)
        for total, law in zip(laws, conditional_laws, strict=True):
            for report, chance in law.items():
                total[report] = total.get(report, Fraction(0)) + share * chance
    expected = [exact_report_distribution(channel, code) for code in range(_SMALL)]
    assert laws == expected, "drawing a part, and randomizing given it, differs from `privatize`"


class _Enumeration:
    """All possible reports of users with some category codes, with their exact probabilities.

    Attributes
    ----------
    channel : Channel or other mechanism
        A mechanism that draws few random numbers.
    codes : ndarray of shape (n_codes,)
        The category codes of the users.
    laws : list of dict
        For each code, the exact probability of each report.
    reports : list of tuple
        All possible reports, sorted.
    probabilities : ndarray of shape (n_codes, n_reports)
        Probability of each report for each code.
    counts : ndarray of shape (n_reports, n_codes) or None
        Whether each report supports the category of each code. None if reports support no
        categories.
    values : ndarray of shape (n_reports, n_codes)
        For each report, the estimated frequencies of the codes from this report only.
    """

    def __init__(self, channel: Any, codes: np.ndarray) -> None:
        self.channel = channel
        self.codes = codes
        self.laws = [exact_report_distribution(channel, int(code)) for code in codes]
        self.reports = sorted(set().union(*self.laws))
        self.probabilities = np.array(
            [[float(law.get(report, 0)) for report in self.reports] for law in self.laws]
        )
        shape = channel.privatize(codes[:1], _ScriptedCoins([])).shape
        batches = [
            channel.check_reports(np.array(report).reshape(shape)) for report in self.reports
        ]
        self.counts: Any = None
        if isinstance(channel, Channel):
            self.counts = np.array([channel.count_support(batch)[codes] for batch in batches])
            self.values = (self.counts - float(channel.q)) / float(channel.p - channel.q)
        else:
            tallies = [channel.decode(channel.tally(batch)[None]) for batch in batches]
            estimates = [channel.estimate_decoded(tally, np.array([1]))[0] for tally in tallies]
            self.values = np.array(estimates)[:, 0, codes]

    @classmethod
    def of(cls, oracle: BaseOracle) -> _Enumeration:
        """Return the enumeration of all reports of an oracle with four categories."""
        return cls(_enumerable(oracle), np.arange(_SMALL))

    def support_probability(self, i: int, j: int) -> Fraction:
        """Return the probability that a report of a user with `codes[i]` supports `codes[j]`."""
        supporting = np.flatnonzero(self.counts[:, j])
        law = self.laws[i]
        return sum(
            (int(self.counts[k, j]) * law.get(self.reports[k], Fraction(0)) for k in supporting),
            Fraction(0),
        )


def check_exact_support_probabilities(oracle: BaseOracle) -> None:
    """Assert that p and q are the exact probabilities that a report supports a category.

    p is the probability for the user's own category, and q for any other category.
    """
    # If q assumes an ideal hash (`has_exact_support` is False), only p is exact. Oracles whose
    # reports support no categories pass.
    _assert_support_probabilities(_Enumeration.of(oracle))


def _assert_support_probabilities(enumeration: _Enumeration) -> None:
    channel = enumeration.channel
    codes = enumeration.codes
    if enumeration.counts is None:
        return
    for i, j in product(range(len(codes)), repeat=2):
        if i != j and not channel.has_exact_support:
            continue
        name = "p" if i == j else "q"
        stated = getattr(channel, name)
        exact = enumeration.support_probability(i, j)
        assert exact == stated, (
            f"the estimator's {name}={float(stated):.6g} is wrong: the mechanism's reports on "
            f"the value {codes[i]} support {codes[j]} with probability {float(exact):.6g}"
        )


def check_unbiased_estimates(oracle: BaseOracle) -> None:
    """Assert that the estimate from the report of a single user is unbiased."""
    # Oracles with an approximate q (`has_exact_support` is False) pass.
    _assert_unbiased(_Enumeration.of(oracle))


def _assert_unbiased(enumeration: _Enumeration) -> None:
    if not enumeration.channel.has_exact_support:
        return
    means = enumeration.probabilities @ enumeration.values
    is_unbiased = np.allclose(means, np.eye(len(enumeration.codes)), rtol=0, atol=1e-6)
    assert is_unbiased, "the estimate is biased"


def check_joint_support(oracle: BaseOracle) -> None:
    """Assert that `joint_support` is correct.

    It contains the probabilities that a report supports both of two categories.
    """
    # Oracles without exact `joint_support` pass.
    _assert_joint_support(_Enumeration.of(oracle))


def _assert_joint_support(enumeration: _Enumeration) -> None:
    channel = enumeration.channel
    codes = enumeration.codes
    counts = enumeration.counts
    if counts is None or channel.joint_support is None or not channel.has_exact_support:
        return
    for code, probabilities in zip(codes, enumeration.probabilities, strict=True):
        for i, j in combinations(range(len(codes)), 2):
            name = "own" if code in (codes[i], codes[j]) else "other"
            stated = getattr(channel.joint_support, name)
            exact = probabilities @ (counts[:, i] * counts[:, j])
            assert abs(exact - stated) < 1e-9, (
                f"`joint_support` is wrong: reports on the value {code} support both {codes[i]} "
                f"and {codes[j]} with probability {exact:.6g}, but {name}= is {stated:.6g}"
            )


def check_covariance(oracle: BaseOracle) -> None:
    """Assert that `covariance` is the exact covariance of the estimates from a single report."""
    # Oracles that estimate the covariance from their own reports pass, and oracles with an
    # approximate q.
    _assert_covariance(_Enumeration.of(oracle))


def _assert_covariance(enumeration: _Enumeration) -> None:
    channel = enumeration.channel
    values = enumeration.values
    is_drawn = not channel.has_exact_covariance and type(channel).covariance is Channel.covariance
    if is_drawn or not channel.has_exact_support:
        return
    unit = np.eye(channel.n_categories)[enumeration.codes]
    for code, own, probabilities in zip(
        enumeration.codes, unit, enumeration.probabilities, strict=True
    ):
        mean = probabilities @ values
        exact = (values.T * probabilities) @ values - np.outer(mean, mean)
        stated = channel.covariance(own).matrix(unit)
        limit = (1e-6 if channel.has_exact_covariance else 0.2) * np.abs(exact).max()
        assert np.allclose(stated, exact, rtol=0, atol=limit), (
            "`covariance` differs from the covariance of estimates from users with the value "
            f"{code}; by default it is computed from `joint_support`, or else from `law_of_reports`"
        )


def check_domains_epsilons_and_batches(oracle: BaseOracle) -> None:
    """Assert epsilon, p and q for other epsilons and numbers of categories.

    Also assert that the report of a user does not depend on other users in the same batch.
    """
    # If there are few random outcomes, they are enumerated for the first, a middle and the last
    # category. Settings that the oracle refuses are skipped.
    large, few = getattr(oracle, "_checked_sizes", (130, 3))  # 130 does not fit into seven bits
    others = [(few, epsilon) for epsilon in _EPSILONS if epsilon != oracle.epsilon]
    for d, epsilon in [(large, oracle.epsilon), *others]:
        other = clone(oracle).set_params(epsilon=epsilon)
        if _error_of(other.channel, d):
            continue
        codes = np.unique([0, d // 2, d - 1])
        channel = other.channel(d)
        enumerable = channel.for_enumeration()
        try:
            coins = _ScriptedCoins([])
            enumerable.privatize(codes[:1], coins)
            if math.prod(coins.n_outcomes) <= _MAX_OUTCOMES:
                enumeration = _Enumeration(enumerable, codes)
                _assert_private(enumeration.laws, epsilon, is_whole=len(codes) == d)
                _assert_support_probabilities(enumeration)
                _assert_unbiased(enumeration)
                _assert_joint_support(enumeration)
                _assert_covariance(enumeration)
            _assert_batches(channel, codes)
            _assert_drawn_support(channel, codes, epsilon)
        except AssertionError as error:
            raise AssertionError(f"with {d} categories at epsilon={epsilon:g}: {error}") from error


def _assert_batches(channel: Any, codes: np.ndarray) -> None:
    """Assert that equal random bits give a user the same report alone and in a batch."""
    batch = np.resize(codes, 1200)
    for number in (0, 1, 10, 11):
        reports = channel.privatize(batch, _EqualCoins(number))
        alone = [channel.privatize(codes[[i]], _EqualCoins(number))[0] for i in range(len(codes))]
        differs = reports != np.resize(alone, reports.shape)
        assert not differs.any(), (
            f"the report of user {np.argwhere(differs)[0, 0]} of a batch differs from the report "
            "that the same random bits give alone: no report may depend on other users or on "
            "their order"
        )


def _assert_drawn_support(channel: Any, codes: np.ndarray, epsilon: float) -> None:
    """Assert that drawn reports support categories with the probabilities p and q.

    Also assert that p and q imply at most epsilon.
    """
    # By Bernstein's inequality, a correct channel fails at most once in a million calls.
    if not isinstance(channel, Channel) or channel.own_support != channel.p:
        return  # p and q do not exist, or a report can also count against categories
    n = 2000
    limit = 17.0
    is_own = np.eye(len(codes), dtype=bool)
    reports = channel.privatize(np.repeat(codes, n), SeededCoins(np.random.default_rng(0)))
    supports = channel.supports(channel.check_reports(reports), codes)
    observed = supports.reshape(len(codes), n, -1).mean(axis=1)
    p, q = float(channel.p), float(channel.q)
    stated = np.where(is_own, p, q)
    far = abs(observed - stated) > np.sqrt(2 * limit * stated * (1 - stated) / n) + limit / n
    for i, j in np.argwhere(far & (is_own | channel.has_exact_support)):
        raise AssertionError(
            f"of {n} reports on the value {codes[i]} drawn in one batch, a share of "
            f"{observed[i, j]:.3g} support {codes[j]}, but the channel states {stated[i, j]:.3g}"
        )
    bound = exp_lower_bound(epsilon) * (1 + Fraction(1, 10**9))
    if bound < 2**24:
        own = 0.0 if channel.joint_support is None else channel.joint_support.own
        is_kept = p - own <= bound * (q - own) and 1 - q <= bound * (1 - p)
        assert is_kept, "epsilon is exceeded: p, q and `joint_support` imply a larger one"


def check_supports(oracle: BaseOracle) -> None:
    """Assert that `supports`, `count_support` and `report_fields` are correct for every report."""
    channel: Any = _enumerable(oracle)
    if not isinstance(channel, Channel):
        return
    codes = np.arange(_SMALL)
    shape = channel.privatize(np.array([0]), _ScriptedCoins([])).shape
    sizes = [field.n_values for field in channel.report_fields for _ in range(field.width or 1)]
    for report in exact_report_distribution(channel, 0):
        reports = channel.check_reports(np.array(report).reshape(shape))
        counts = np.asarray(channel.count_support(reports))
        is_same = np.array_equal(counts == 1, channel.supports(reports, codes)[0])
        assert is_same, f"`supports` and `count_support` disagree about the report {report}"
        is_allowed = not sizes or (len(sizes) == len(report) and np.all(np.array(report) < sizes))
        assert is_allowed, f"`report_fields` does not allow the report {report}, which occurs"


def check_simulation(oracle: BaseOracle) -> None:
    """Assert that simulated estimates have the correct mean and variance."""
    # The check draws 4,000 collections. A correct oracle fails once in a million calls by the mean,
    # and once in 10**5 by the variance.
    counts = np.array([1000, 500, 300, 0])
    n_repeats = 4000
    n = counts.sum()
    d = len(counts)
    simulated = _small(oracle, categories=d).simulate(counts, n_repeats)
    variance = oracle.channel(d).noise(n).variance(counts / n)
    far = np.abs(simulated.values.mean(axis=0) - counts / n) / np.sqrt(variance / n_repeats)
    is_rounded = np.abs(simulated.values.mean(axis=0) - counts / n) < 1e-9
    assert np.all((far < 5.2) | is_rounded), "the mean of simulated estimates is not the truth"
    ratio = simulated.values.var(axis=0) / np.maximum(variance, 1e-300)
    assert np.all((abs(ratio - 1) < 0.12) | (variance < 1e-12)), (
        "the variance of simulated estimates differs from the variance that `noise` states"
    )


# -- fitting, merging and storing: oracles of one column and of several ------------------------
_VALUES = np.array(list("aaabbcdeea" * 20))
_DOMAINS = {"sex": ["F", "M"], "age": 3}
_RECORDS = np.array(
    [["F", 0], ["M", 2], ["M", 1], ["F", 0], ["M", 0], ["F", 2], ["M", 1], ["M", 0]] * 25,
    dtype=object,
)


class _Case(NamedTuple):
    """Test data for an oracle: two domains, valid values, distinct values, and invalid values."""

    domain: Any
    other_domain: Any
    values: np.ndarray
    distinct: np.ndarray
    malformed: list[Any]


def _case(oracle: Any) -> _Case:
    """Return test data for an oracle of categories, of several columns, or of numbers."""
    malformed: list[Any]
    if _declares(oracle) == "domains":
        outside = _RECORDS.copy()
        outside[-1, 1] = 3
        missing = _RECORDS.copy()
        missing[-1, 0] = None
        malformed = [outside, missing, _RECORDS[:0], _RECORDS[:, :1], _RECORDS[:, 0]]
        renamed = {"sex": ["M", "F"], "age": 3}
        return _Case(_DOMAINS, renamed, _RECORDS, _RECORDS[[0, 1, 5, 4, 2]], malformed)
    if _declares(oracle) == "bounds":
        numbers = np.linspace(0, 10, len(_VALUES))
        malformed = [*([*numbers[:-1], last] for last in (11, np.nan, np.inf, "z", None)), []]
        return _Case((0, 10), (0, 20), numbers, np.arange(5.0), malformed)
    malformed = [[*_VALUES[:-1], "z"], [*_VALUES[:-1], None], []]
    return _Case(list("abcde"), list("edcba"), _VALUES, np.array(list("abcde")), malformed)


def _declares(oracle: Any) -> str:
    """Return the name of the parameter that declares the oracle's domain."""
    known = [name for name in ("domains", "bounds") if name in oracle.get_params(deep=False)]
    return known[0] if known else "categories"


def _small(oracle: Any, **parameters: Any) -> Any:
    defaults = {_declares(oracle): _case(oracle).domain, "random_state": 0, "input": "values"}
    return clone(oracle).set_params(**{**defaults, **parameters})


def _content(oracle: Any) -> tuple[int, list]:
    """Return the number of users and the counts that an oracle has stored."""
    counts = oracle.__collector__().state("counts").counts
    return oracle.n_samples_seen_, counts.by_group[0].tolist()


def _same(oracle: Any, other: Any) -> bool:
    return _content(oracle) == _content(other)


def check_one_release(oracle: BaseOracle) -> None:
    """Assert that the fitted attributes of an oracle equal the result of `fit_transform`."""
    oracle = _small(oracle)
    estimate = oracle.fit_transform(_VALUES)
    assert isinstance(estimate, FrequencyEstimate), "fit_transform returns no FrequencyEstimate"
    assert estimate.shape == (1, 5), f"the estimate has shape {estimate.shape}, expected (1, 5)"
    expected = {"frequencies_": estimate.values[0], "categories_": estimate.categories}
    for name, values in {**expected, "estimate_": estimate.values}.items():
        is_same = np.array_equal(getattr(oracle, name), values)
        assert is_same, f"{name} differs from the result of fit_transform"
    assert estimate.noise == oracle.noise_, "noise_ is not the noise of the estimate"
    n_users = (oracle.n_samples_seen_, oracle.noise_.n_samples)
    assert n_users == (len(_VALUES),) * 2, "n_samples_seen_ and noise_ do not count all users"
    assert oracle.support_counts_.dtype == np.int64, "support_counts_ are not of type int64"


def check_one_set(oracle: Any) -> None:
    """Assert that the fitted attributes of a survey equal the result of `fit_transform`."""
    oracle = _small(oracle)
    estimates = oracle.fit_transform(_RECORDS)
    assert isinstance(estimates, EstimateSet), "fit_transform returns no EstimateSet"
    assert oracle.n_samples_seen_ == len(_RECORDS), "n_samples_seen_ does not count all users"
    assert oracle.n_features_in_ == len(_DOMAINS), "n_features_in_ does not count the columns"
    for name, estimate in estimates.items():
        stored = oracle.estimate_[name]
        is_same = np.array_equal(estimate.values, stored.values) and estimate.noise == stored.noise
        assert is_same, f"estimate_[{name!r}] differs from the result of fit_transform"
        noise: Any = estimate.noise
        assert noise.n_users == len(_RECORDS), f"the noise of {name!r} does not count all users"
        assert noise.n_samples <= len(_RECORDS), f"more users than exist answered {name!r}"


def check_client_needs_no_fit(oracle: Any) -> None:
    """Assert that `privatize` works without `fit`, and stores nothing about the values."""
    client = _small(oracle)
    values = _case(oracle).values
    before = vars(client).copy()
    reports = client.privatize(values)
    assert len(reports) == len(values), "privatize does not return one report for each user"
    assert np.asarray(reports).dtype.kind in "iu", "reports are not integers"
    assert vars(client) == before, "privatize has set attributes"
    error = _error_of(getattr, clone(client), "estimate_")
    assert isinstance(error, NotFittedError), "estimate_ before fit must raise NotFittedError"


def check_batches_add_up(oracle: Any) -> None:
    """Assert that the order and the batches of reports have no effect on the counts.

    The counts must also be equal to the counts after `fit`.
    """
    values = _case(oracle).values
    reports = _small(oracle).privatize(values)
    whole = _small(oracle).aggregate(reports)
    split = _small(oracle).aggregate(reports[150:]).aggregate(reports[:1]).aggregate(reports[1:150])
    assert _same(whole, split), "batches in another order give other counts"
    read = _small(oracle, input="reports").fit(reports)
    assert _same(whole, read), 'fit with input="reports" and aggregate give different counts'
    # `fit` adds up the result of the mechanism's `draw`.
    assert _same(whole, _small(oracle).fit(values)), "fit differs from privatize and then aggregate"


def check_merge(oracle: Any) -> None:
    """Assert that `merge` adds up the counts of two servers.

    A server with another configuration must be refused.
    """
    values = _case(oracle).values
    reports = _small(oracle).privatize(values)
    first, other = _small(oracle).aggregate(reports[:70]), _small(oracle).aggregate(reports[70:])
    before = _content(other)
    merged = _small(oracle).merge(first).merge(other)
    whole = _small(oracle).aggregate(reports)
    assert _same(merged, whole), "merged servers differ from one server that counts all reports"
    assert before == _content(other), "merge has changed its argument"
    renamed = {_declares(oracle): _case(oracle).other_domain}
    for change in ({"epsilon": oracle.epsilon * 1.5}, renamed):
        stranger = _small(oracle, **change)
        stranger.aggregate(stranger.privatize(values))
        _assert_refused(first, "merge", stranger)


def check_refused_reports_change_nothing(oracle: Any) -> None:
    """Assert that a batch with an invalid report raises a helpful error and changes nothing."""
    server = _small(oracle)
    reports = np.asarray(server.privatize(_case(oracle).values))
    server.aggregate(reports)
    spoiled = reports.copy()
    spoiled[-1] = np.iinfo(reports.dtype).max
    missing = reports.astype(float)
    missing[-1] = np.nan
    for bad in (spoiled, missing, reports[:0], reports[..., None], reports.astype(str), None):
        _assert_refused(server, "aggregate", bad)


def check_refused_values_change_nothing(oracle: Any) -> None:
    """Assert that an invalid input of `fit` raises a helpful error and changes nothing."""
    values = _case(oracle).values
    fitted = _small(oracle).fit(values)
    ones = np.ones(len(values))
    weights = [-ones, 0.5 * ones, 0 * ones, ones[1:], np.nan * ones]
    weighted = [(values, weight) for weight in weights]
    for X, weight in [*((X, None) for X in _case(oracle).malformed), *weighted]:
        for method in ("fit", "partial_fit"):
            _assert_refused(fitted, method, X, sample_weight=weight)


def _assert_refused(oracle: Any, method: str, *args: Any, **kwargs: Any) -> None:
    before = _content(oracle)
    error = _error_of(getattr(oracle, method), *args, **kwargs)
    assert error is not None, f"{method} accepts malformed input"
    is_helpful = type(oracle).__name__ in str(error) or "X" in str(error)
    assert is_helpful, f"an error names neither the class nor X: {error}"
    assert before == _content(oracle), f"{method} has stored a part of the input that it refuses"


def check_randomness(oracle: Any) -> None:
    """Assert that an int seed reproduces the reports, and that None and generators do not."""
    values = _case(oracle).values
    first, again = _small(oracle).privatize(values), _small(oracle).privatize(values)
    assert np.array_equal(first, again), "a seed does not reproduce the reports"
    for moving in (None, np.random.default_rng(0)):
        client = _small(oracle, random_state=moving)
        once, twice = client.privatize(values), client.privatize(values)
        assert not np.array_equal(once, twice), f"random_state={moving!r} draws the same twice"
    serial, parallel = (_small(oracle, n_jobs=n_jobs).fit(values) for n_jobs in (None, 2))
    assert _same(serial, parallel), "the result depends on n_jobs"


def check_histogram(oracle: Any) -> None:
    """Assert that `sample_weight` has the same effect as repeating each row."""
    rows = _case(oracle).distinct
    counts = np.array([30, 0, 50, 20, 7])
    whole = _small(oracle).fit(rows.repeat(counts, axis=0))
    counted = _small(oracle).fit(rows, sample_weight=counts)
    assert _same(whole, counted), "sample_weight does not act as the number of users of a row"


def check_pieces(oracle: Any) -> None:
    """Assert that `partial_fit` of pieces gives the same counts as `fit` of all values.

    The oracle has a seed.
    """
    values = _case(oracle).values
    pieces = _small(oracle)
    for start, stop in ((0, 1), (1, 117), (117, len(values))):
        pieces.partial_fit(values[start:stop])
    whole = _small(oracle).fit(values)
    assert _same(whole, pieces), "partial_fit in pieces differs from fit of all values"


def check_pickle(oracle: Any) -> None:
    """Assert that a restored pickle of a server has the same counts and continues equally."""
    values = _case(oracle).values
    server = _small(oracle).fit(values)
    twin = pickle.loads(pickle.dumps(server))
    assert _same(server, twin), "a restored pickle differs from the server that was pickled"
    server.partial_fit(values)
    twin.partial_fit(values)
    assert _same(server, twin), "a restored pickle does not continue like the original"


def check_files(oracle: Any) -> None:
    """Assert that reports are unchanged after they were written to a file and read again."""
    client = _small(oracle)
    file = BytesIO()
    reports = client.privatize(_case(oracle).values)
    try:
        write_reports(file, reports, client, batch_id="one", format="jsonl")
        again = read_reports(file.getvalue(), client, format="jsonl")
    except ValueError as error:
        raise AssertionError(f"a file refuses the oracle's own reports: {error}") from error
    rows, rows_again = (
        np.sort(np.asarray(array).reshape(len(reports), -1), axis=0) for array in (reports, again)
    )
    server, server_again = (_small(oracle).aggregate(array) for array in (reports, again))
    is_same = np.array_equal(rows, rows_again) and _same(server, server_again)
    assert is_same, "a file does not contain the reports that were written"


class _Slow:
    """Reports that start another thread, and wait for it, at the time at which they are read."""

    def __init__(self, reports: np.ndarray, overtake: Callable[[], object]) -> None:
        self._reports = reports
        self._overtake = overtake
        self._is_read = False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if not self._is_read:
            self._is_read = True
            other = Thread(target=self._overtake)
            other.start()
            other.join(60)
            assert not other.is_alive(), "a thread waits while another thread reads reports"
        return np.asarray(self._reports, dtype)


def check_threads(oracle: Any) -> None:
    """Assert that no report is lost if several threads add reports.

    Also assert that `fit` replaces all earlier reports.
    """
    values = _case(oracle).values[:40]  # few users: `merge` does not warn of equal counts
    reports = np.asarray(_small(oracle).privatize(values))
    batch = _small(oracle).aggregate(reports)

    def merged(*servers: Any) -> Any:
        server = _small(oracle, random_state=None)
        for other in servers:
            server.merge(other)
        return server

    for earlier in ([], [batch]):  # with and without earlier reports
        for add, added in {"aggregate": reports, "merge": batch}.items():
            server = merged(*earlier)
            server.aggregate(_Slow(reports, partial(getattr(server, add), added)))
            expected = merged(*earlier, batch, batch)
            assert _same(server, expected), f"users are lost if another thread calls {add}"
        server = merged(*earlier)
        server.aggregate(_Slow(reports, partial(server.fit, values)))
        assert server.n_samples_seen_ == len(values), "a fit keeps what was collected before it"
    server.aggregate(_Slow(reports, partial(server.partial_fit, values)))
    assert server.n_samples_seen_ == 3 * len(values), "users of partial_fit are lost"


# -- post-processors --------------------------------------------------------------------------
def _truth(rng: np.random.Generator, d: int = 20) -> np.ndarray:
    return rng.dirichlet(np.full(d, 0.3))


def _estimates(seed: int = 0, n_estimates: int = 6, d: int = 20) -> FrequencyEstimate:
    rng = np.random.default_rng(seed)
    truth = _truth(rng, d)
    noise = NoiseModel(0.5, 0.25, 2000)
    counts = rng.binomial(2000, 0.25 + 0.25 * truth, size=(n_estimates, d))
    return FrequencyEstimate(noise.debias(counts), np.arange(d), noise)


def _processed(postprocessor: BasePostProcessor, estimate: FrequencyEstimate) -> np.ndarray:
    return np.asarray(clone(postprocessor).fit_transform(estimate))


def check_containers(postprocessor: BasePostProcessor) -> None:
    """Assert that `transform` returns estimates with their noise, and does not change its input."""
    estimate = _estimates()
    before = estimate.values.copy()
    fitted = clone(postprocessor).fit(estimate)
    result = fitted.transform(estimate)
    assert isinstance(result, FrequencyEstimate), "transform returns no FrequencyEstimate"
    assert result.noise is estimate.noise, "the result lacks the noise of the raw estimate"
    stored = {"estimate_": fitted.estimate_.values, "frequencies_": fitted.frequencies_}
    for name, values in stored.items():
        is_same = np.array_equal(values, result.values)
        assert is_same, (
            f"{name} differs from the result of transform for the same estimate: `_process` draws "
            "random numbers without a seed, or depends on attributes that an earlier call has set"
        )
    is_changed = not np.array_equal(result.values, before)
    assert not (result.is_raw and is_changed), (
        "the values have changed, but the result claims to be raw: return "
        f'estimate.with_values(values, by="{type(postprocessor).__name__}")'
    )
    if result.standard_errors is not None:
        errors = (result.values - _truth(np.random.default_rng(0))) / result.standard_errors
        size = np.sqrt(np.mean(errors**2))
        text = f"errors are {size:.3g} times as large as `standard_errors`"
        assert size < 3, f"{text}: return no standard_errors unless you have measured them"
    assert np.array_equal(estimate.values, before), "the estimate that was passed has changed"
    shape = fitted.fit(estimate[0]).frequencies_.shape
    assert shape == (20,), f"frequencies_ of one estimate has shape {shape}, expected (20,)"
    # A method that needs the noise must explain how to pass it; all others accept plain arrays.
    try:
        plain = clone(postprocessor).fit_transform(before)
    except ValueError as error:
        assert "noise=" in str(error) or "oracle" in str(error), f"no remedy in: {error}"
    else:
        assert type(plain) is np.ndarray, "a plain array does not give a plain array"


def check_transform_sets_nothing(postprocessor: BasePostProcessor) -> None:
    """Assert that `transform` neither sets nor changes attributes."""
    estimate = _estimates()
    unfitted = clone(postprocessor)
    before = vars(unfitted).copy()
    unfitted.transform(estimate)
    assert vars(unfitted) == before, "transform of an unfitted estimator has set attributes"
    fitted = unfitted.fit(estimate)
    before = vars(fitted).copy()
    fitted.transform(_estimates(seed=7))
    after = vars(fitted)
    assert after.keys() == before.keys(), "transform has set attributes"
    assert all(after[name] is before[name] for name in before), "transform has changed attributes"


def check_processed_estimates_are_refused(postprocessor: BasePostProcessor) -> None:
    """Assert that a method that needs the noise refuses an estimate that was already processed."""
    postprocessor = clone(postprocessor)
    if "noise" in postprocessor.get_params():
        postprocessor.set_params(noise=None)
    estimate = _estimates()
    if "noise" not in str(_error_of(clone(postprocessor).fit, estimate.values)):
        return  # the method needs no noise
    changed = estimate.with_values(estimate.values + 0.01, by="SomeMethod")
    error = _error_of(postprocessor.fit, changed)
    assert error is not None, "the noise of the raw estimate was used for a processed one"
    for word in (type(postprocessor).__name__, "SomeMethod"):
        assert word in str(error), f"unhelpful: {error}"


def check_rows_are_independent(postprocessor: BasePostProcessor) -> None:
    """Assert that the result for a row of an estimate does not depend on the other rows."""
    estimate = _estimates()
    together = _processed(postprocessor, estimate)
    for i in range(len(estimate)):
        alone = _processed(postprocessor, estimate[i])[0]
        message = "the result of a row depends on the other rows"
        np.testing.assert_allclose(together[i], alone, err_msg=message)


def check_permutation_equivariance(postprocessor: BasePostProcessor) -> None:
    """Assert that the order of the categories changes only the order of the results."""
    for estimate in (_estimates(1), _estimates(1, 1, d=130)):
        order = np.random.default_rng(2).permutation(estimate.shape[1])
        permuted = estimate.with_values(estimate.values[:, order])
        result = _processed(postprocessor, permuted)
        expected = _processed(postprocessor, estimate)[:, order]
        message = f"the result depends on the order of the {len(order)} categories"
        np.testing.assert_allclose(result, expected, atol=1e-12, err_msg=message)


def check_order_is_preserved(postprocessor: BasePostProcessor) -> None:
    """Assert that post-processing never reverses the order of two estimated frequencies."""
    # T. Wang et al., "Locally differentially private frequency estimation with consistency",
    # NDSS 2020, Table I.
    estimate = _estimates(3)
    result = _processed(postprocessor, estimate)
    for before, after in zip(estimate.values, result, strict=True):
        rising = np.diff(after[np.argsort(before, kind="stable")]) >= -1e-12
        assert np.all(rising), "the larger of two estimates has become the smaller"


def check_extreme_estimates(postprocessor: BasePostProcessor) -> None:
    """Assert that the results are finite for estimates that are negative, equal or sum to 1."""
    rows = np.array([[-0.5, -0.25, -0.125, -1.0], [0.25] * 4, [1.0, 0, 0, 0], [5.0, 5.0, -3.0, 0]])
    estimate = FrequencyEstimate(rows, list("abcd"), NoiseModel(0.5, 0.25, 10))
    for row in estimate:
        is_finite = np.all(np.isfinite(_processed(postprocessor, row)))
        assert is_finite, f"the result for {row.values[0].tolist()} is not finite"
