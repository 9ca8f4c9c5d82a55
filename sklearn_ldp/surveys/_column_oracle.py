"""The survey ColumnOracle: each user answers for one of several columns, with the whole epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache, partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.common.random import RandomState
from .._core.domains import Domain, RecordDomain
from .._core.estimates import EstimateSet
from .._core.fitting import inherit_survey_parameters
from .._core.mechanisms.coins import PROBABILITY_UNIT
from .._core.mechanisms.several import SampledQuestions, shares_over_2_64
from ..oracles import BaseOracle, minimax_bound
from ._base import BaseColumnSurvey


@inherit_survey_parameters
class ColumnOracle(BaseColumnSurvey[EstimateSet], tag="column-oracle"):
    """Estimate the distribution of each of several columns from one report per user.

    For each user, one of the columns is drawn with public probabilities. The user reports their
    value in this column, through an oracle for this column and with the whole privacy budget. With
    J columns, the noise of a column is as large as with J times fewer users. If each user reported
    all columns and split the budget between them, the noise would be as large as with a J times
    smaller epsilon. With small budgets, the second noise is larger.

    If epsilon is large, it is more accurate to ask each user for several columns (`n_sampled`),
    with an equal part of epsilon for each. The reason is that the estimate of a column has an
    additional error if only a random part of the users reports this column.

    Users are asked more often for columns with many categories. The probability of a column is
    proportional to ``sqrt(weight * V)``. Here V is the sum of the variances of the column's
    categories under uniform frequencies. These probabilities minimize the sum of
    ``weight * V / probability`` over all columns.

    An estimate refers to the frequencies among *all* users. Its noise therefore includes the
    variance that the random choice of the asked users causes. This variance is about
    ``f (1 - f) (1 / probability - 1) / n`` for a category of frequency f and n users.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user, for all columns together. No operation on reports spends epsilon. A report shows for
    which column the user was asked.

    Parameters
    ----------
    %(domains)s
    oracle : "best", oracle or mapping of str to "best" or oracle, default="best"
        The oracle for all columns, or a mapping from column names to oracles. Columns that are not
        in the mapping use "best". The oracle "best" is the result of
        :func:`~sklearn_ldp.best_oracle` for the categories of the column. The survey sets the
        parameters `epsilon` and `categories` of each oracle.
    weights : mapping of str to float or array-like of shape (n_columns,), default=None
        Importance of the errors of each column, as a positive number. Columns that are not in a
        mapping have the weight 1. If None, all columns have the same weight.
    n_sampled : int or "auto", default=1
        Number of columns that each user is asked for. Each answer uses epsilon / n_sampled. "auto"
        chooses the number with the smallest expected error under uniform frequencies. For epsilon
        up to 2, this number is 1.
    strategy : {"sample", "split-budget"}, default="sample"
        With "sample", each user is asked for `n_sampled` columns. "split-budget" is for
        comparison: every user is asked for all columns, and epsilon is split between the columns
        such that the sum of ``weight * V`` is minimal.
    %(collection)s

    Attributes
    ----------
    estimate_ : EstimateSet
        The raw estimate of each column, by its name. The estimate has no rows if no user was
        asked for the column.
    frequencies_ : dict of str to ndarray of shape (d,)
        The unbiased frequencies of each column that has users. Some may be negative.
    sampling_probabilities_ : ndarray of shape (n_columns,)
        For each column, in the order of `domains`, the probability that a user is asked for it. The
        probabilities sum to `n_sampled_`.
    n_sampled_ : int
        Number of columns that each user is asked for.
    oracles_ : dict of str to oracle
        The unfitted oracle of each column. Its `epsilon` is the part of the privacy budget that an
        answer for this column uses.
    n_samples_seen_ : int
        Number of all users, whichever columns they were asked for.
    %(features)s

    See Also
    --------
    EstimateSet : The class of the result, which post-processors and searches accept.

    References
    ----------
    .. [1] H. H. Arcolezi, J.-F. Couchot, B. Al Bouna, X. Xiao, "Random sampling plus fake data:
       multidimensional frequency estimates with local differential privacy", CIKM 2021,
       :doi:`10.1145/3459637.3482467`. Section 3 describes the random choice of one column.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import ColumnOracle, NormSub
    >>> from sklearn.pipeline import make_pipeline
    >>> rng = np.random.default_rng(0)
    >>> users = np.column_stack([rng.integers(0, 2, 50_000), rng.binomial(9, 0.4, 50_000)])
    >>> survey = ColumnOracle(epsilon=2.0, domains={"smokes": 2, "visits": 10}, random_state=0)
    >>> estimates = make_pipeline(survey, NormSub()).fit_transform(users)
    >>> estimates["smokes"].values.round(2)
    array([[0.5, 0.5]])
    >>> estimates["visits"].top(1)[0][0]
    4
    >>> survey.sampling_probabilities_.round(2)
    array([0.21, 0.79])

    If smoking matters more, more users are asked for it:

    >>> survey.set_params(weights={"smokes": 9}).fit(users).sampling_probabilities_.round(2)
    array([0.45, 0.55])
    """

    _parameter_constraints: dict = {
        **BaseColumnSurvey._parameter_constraints,
        "oracle": [StrOptions({"best"}), BaseOracle, Mapping],
        "weights": [None, "array-like", Mapping],
        "n_sampled": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "strategy": [StrOptions({"sample", "split-budget"})],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        domains: Any = "auto",
        oracle: Any = "best",
        weights: Mapping[Any, float] | ArrayLike | None = None,
        n_sampled: int | str = 1,
        strategy: str = "sample",
        input: str = "values",
        n_shards: int = 10,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self._store(epsilon, domains, input, n_shards, random_state, n_jobs)
        self.oracle = oracle
        self.weights = weights
        self.n_sampled = n_sampled
        self.strategy = strategy

    # -- hooks of the collection --------------------------------------------------------------
    def _make_mechanism(self, domain: RecordDomain) -> SampledQuestions:
        n_asked = self._n_asked(domain)
        channels = [oracle.channel() for oracle in self._oracles(domain, n_asked).values()]
        roots = np.sqrt(self._weights(domain) * self._total_variances(channels))
        return SampledQuestions.drawn(channels, roots, n_asked)

    def _oracles(self, domain: RecordDomain, n_asked: int | None = None) -> dict[Any, BaseOracle]:
        """Return a dict from the name of each column to its oracle.

        The `epsilon` of an oracle is the part of the privacy budget that an answer for this column
        uses.
        """
        choices = self._by_column(self.oracle, domain, "oracle", "best")
        budgets = self._budgets(domain, self._n_asked(domain) if n_asked is None else n_asked)
        return {
            key: self._oracle_of(choices[key], column, key, budget)
            for (key, column), budget in zip(domain.columns.items(), budgets, strict=True)
        }

    def _oracles_behind(self, domain: RecordDomain, views: Any) -> dict[Any, BaseOracle]:
        return self._oracles(domain)

    def _error_in_range(self, estimate: EstimateSet) -> float:
        return max(map(super()._error_in_range, estimate.values()))

    def _weights_by_name(self, domain: RecordDomain) -> dict[Any, float]:
        return dict(zip(domain.columns, self._weights(domain).tolist(), strict=True))

    def _by_column(self, value: Any, domain: RecordDomain, parameter: str, default: Any) -> dict:
        """Return a dict from the name of each column to its value of a parameter.

        value: one value for all columns, or a mapping. default: the value of columns that are not
        in the mapping. parameter: the name of the parameter, for the error message.
        """
        if not isinstance(value, Mapping):
            return dict.fromkeys(domain.columns, value)
        unknown = [key for key in value if key not in domain.columns]
        if unknown:
            columns = ", ".join(map(repr, domain.columns))
            raise ValueError(
                f"{self._name} got {parameter} for {unknown[0]!r}, which is not one of its "
                f"columns. Use only the names {columns} as keys of {parameter}."
            )
        return {key: value.get(key, default) for key in domain.columns}

    def _n_asked(self, domain: RecordDomain) -> int:
        """Return the number of columns that each user is asked for."""
        n_columns = len(domain.columns)
        if self.strategy == "split-budget":
            if self.n_sampled not in (1, "auto"):
                raise ValueError(
                    f'{self._name} cannot use n_sampled with strategy="split-budget", which asks '
                    f"each user for all {n_columns} columns, got n_sampled={self.n_sampled!r}. "
                    "Leave out n_sampled."
                )
            return n_columns
        if not isinstance(self.n_sampled, str):
            if self.n_sampled > n_columns:
                raise ValueError(
                    f"{self._name} cannot ask a user for n_sampled={self.n_sampled} of "
                    f"{n_columns} columns. Pass n_sampled= as a number up to {n_columns}, or as "
                    '"auto".'
                )
            return int(self.n_sampled)
        sizes = np.array(domain.sizes)
        total_at = self._variances_at(domain)
        return best_n_sampled(self.epsilon, self._weights(domain), sizes, total_at)

    def _budgets(self, domain: RecordDomain, n_asked: int) -> list[float]:
        """Return the part of epsilon that the answer for each column uses, in a list.

        n_asked: number of columns that each user is asked for.
        """
        if n_asked == 1:
            return [self.epsilon] * len(domain.columns)
        if self.strategy == "split-budget":
            return split_budget(self.epsilon, self._weights(domain), self._variances_at(domain))
        return [budget_share(self.epsilon, Fraction(1, n_asked))] * len(domain.columns)

    def _variances_at(self, domain: RecordDomain) -> list[TotalVariance]:
        """Return a list with a function for each column.

        The argument of the function is a privacy budget. The function returns n times the sum of
        the variances of the column's categories if n users answer with this budget. The true
        frequencies are assumed to be uniform.
        """
        choices = self._by_column(self.oracle, domain, "oracle", "best")

        def variance(key: Any, column: Domain, epsilon: float) -> float:
            if isinstance(choices[key], str) and choices[key] == "best":
                return minimum_variance(epsilon, column.size)
            return self._oracle_of(choices[key], column, key, epsilon).channel().total_variance()

        return [partial(variance, key, column) for key, column in domain.columns.items()]

    def _weights(self, domain: RecordDomain) -> np.ndarray:
        """Return the weight of each column, of shape (n_columns,), from the parameter `weights`."""
        weights: Any = {} if self.weights is None else self.weights
        if isinstance(weights, Mapping):
            weights = list(self._by_column(weights, domain, "weights", 1.0).values())
        try:
            array = np.asarray(weights, dtype=float)
        except (TypeError, ValueError):
            array = np.empty(0)
        if array.shape != (len(domain.columns),) or not np.all((array > 0) & np.isfinite(array)):
            raise ValueError(
                f"{self._name} needs a positive, finite weight for each of its "
                f"{len(domain.columns)} columns, got weights={self.weights!r}. Pass weights= with "
                "one positive number per column."
            )
        return array

    # -- fitted attributes --------------------------------------------------------------------
    @property
    def n_sampled_(self) -> int:
        """Number of columns that each user is asked for."""
        return self._fitted("n_sampled_").mechanism.n_drawn

    @property
    def oracles_(self) -> dict[Any, BaseOracle]:
        """A dict from the name of each column to its unfitted oracle."""
        state = self._fitted("oracles_")
        domain: Any = state.protocol.domain
        return type(self)(**state.parameters)._oracles(domain)


#: Total variance of a column at a budget, times the number of users.
TotalVariance = Callable[[float], float]

# Bounds of the searches for budgets. Chosen by hand, not measured.
_FIRST_UNITS = 1 << 6  # minimum number of units that the budget is split into at first
_HALVINGS = 4  # number of times that the units are halved
_CLEARLY_WORSE = 1.5  # ratio to the minimum error at which the search for `n_sampled` stops


#: The total variance of the best oracle, cached.
minimum_variance = lru_cache(maxsize=1 << 14)(minimax_bound)


def budget_share(epsilon: float, share: Fraction) -> float:
    """Return the part `share * epsilon` of a privacy budget, rounded down to a float.

    Because of the rounding, parts with shares that sum to 1 never exceed epsilon together.
    """
    # share: at most 1.
    # The result is the largest number that is not above `share * epsilon`.
    exact = Fraction(float(epsilon)) * share
    rounded = float(exact)
    return rounded if Fraction(rounded) <= exact else math.nextafter(rounded, 0)


def sampled_error(
    weights: np.ndarray, sizes: np.ndarray, totals: np.ndarray, n_sampled: int
) -> float:
    """Return n times the expected weighted squared error of all columns, for n users.

    The true frequencies are assumed to be uniform.
    weights, sizes: weight and number of categories of each column, of shape (n_columns,).
    totals: for each column, n times the sum of the variances of its categories if all n users
    answered for this column; shape (n_columns,).
    n_sampled: number of columns that each user is asked for.
    """
    # Users are asked for a column with a probability in proportion to `sqrt(weight * total)`, at
    # most 1. These probabilities minimize the sum of `weight * total / probability`.
    # .. math:: \sum_j w_j \Big(\frac{V_j}{\pi_j} +
    #           \Big(1 - \frac 1{d_j}\Big) \Big(\frac 1{\pi_j} - 1\Big)\Big),
    # the variance of the reports plus the variance of drawing the users.
    shares = shares_over_2_64(np.sqrt(weights * totals), n_sampled)
    pis = np.array(shares, dtype=float) / PROBABILITY_UNIT
    return float(np.sum(weights * (totals / pis + (1 - 1 / sizes) * (1 / pis - 1))))


def best_n_sampled(
    epsilon: float, weights: np.ndarray, sizes: np.ndarray, total_at: Sequence[TotalVariance]
) -> int:
    """Return the number of columns per user for which `sampled_error` is minimal.

    Each user is asked for this number of columns, with an equal part of epsilon for each.
    weights, sizes: weight and number of categories of each column, of shape (n_columns,).
    total_at: for each column, a function from a budget to the argument `totals` of `sampled_error`.
    """
    # The number is 1 for epsilon up to about 2, and about `epsilon / 2.2` for many binary columns
    # at large epsilon. It decreases with the number of categories.
    best = 1
    minimum = math.inf
    for n_sampled in range(1, len(sizes) + 1):
        budget = budget_share(epsilon, Fraction(1, n_sampled))
        totals = np.array([total(budget) for total in total_at])
        if not np.all(np.isfinite(totals)):
            break
        error = sampled_error(weights, sizes, totals, n_sampled)
        # The margin makes machines agree if their floats differ in the last digits.
        if error < minimum * (1 - 1e-9):
            best = n_sampled
            minimum = error
        if error > _CLEARLY_WORSE * minimum:  # beyond the best number the error only rises
            break
    return best


def split_budget(
    epsilon: float, weights: np.ndarray, total_at: Sequence[TotalVariance]
) -> list[float]:
    """Return the part of epsilon for each column if every user answers for all columns.

    The parts minimize the weighted sum of the columns' variances.
    weights: weight of each column, of shape (n_columns,).
    total_at: for each column, a function from its part to the sum of its categories' variances.
    """
    # The budgets are multiples of epsilon / n, with n at least 1024. No exchange of one unit
    # between two columns makes the sum of `weight * V(budget)` smaller. V is convex, except at
    # budgets at which the best oracle changes. Machines agree on the budgets because no optimizer
    # is involved.
    n_columns = len(weights)
    n_units = max(_FIRST_UNITS, 4 * n_columns)

    @cache
    def error(j: int, share: Fraction) -> float:
        return float(weights[j] * total_at[j](budget_share(epsilon, share)))

    def error_with(j: int, n: int) -> float:
        return error(j, Fraction(n, n_units)) if n else math.inf

    def changes(by: int) -> list[float]:
        """Return a list with the change of each column's error if its budget grows by `by` units.

        The budget of a column is its part of epsilon, in units of epsilon / n_units. The change is
        -inf if the error was infinite before.
        """
        pairs = [(error_with(j, n + by), error_with(j, n)) for j, n in enumerate(units)]
        return [-math.inf if math.isinf(before) else after - before for after, before in pairs]

    units = [1] * n_columns  # of each column
    for _ in range(n_units - n_columns):
        units[int(np.argmin(changes(1)))] += 1
    for _ in range(_HALVINGS):
        n_units = 2 * n_units
        units = [2 * n for n in units]
        # Ends: each exchange makes the sum smaller, and the number of divisions is finite.
        while True:
            more = changes(1)
            less = changes(-1)
            if -math.inf in more:  # the budget is too small even for a large share
                break
            gains = np.add.outer(more, less)
            np.fill_diagonal(gains, math.inf)  # a column exchanges nothing with itself
            receiver, giver = np.unravel_index(np.argmin(gains), gains.shape)
            if gains[receiver, giver] >= -1e-12 * abs(more[receiver]):
                break
            units[receiver] += 1
            units[giver] -= 1
    return [budget_share(epsilon, Fraction(n, n_units)) for n in units]
