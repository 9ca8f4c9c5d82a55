"""The plan of a collection: expected errors, statistical power, and required numbers of users."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import ndtr, ndtri
from sklearn.base import clone

from .._core.common.locks import cached_property
from .._core.common.numbers import check_number, check_power, frequencies_below_1, positive_numbers
from .._core.common.typing import Axes, Frequencies
from .._core.displays import ErrorCurveDisplay
from .._core.domains import NumberDomain
from .._core.domains.values import as_distribution
from .._core.fitting import BaseCollector, PlannedEstimate
from .._core.noise import as_rows
from .._core.queries import Queries, as_query_set
from .._core.statistics import (
    answer_range,
    check_level,
    check_of,
    critical_of_look,
    narrowest,
)
from ..learning import LabelDPRegressor, LDPNaiveBayes
from ..oracles import BaseOracle, LocalMean, StringOracle
from ..postprocessing import significance_threshold
from ..surveys import BaseColumnSurvey

_DRAWN_USERS = np.geomspace(1e4, 1e8, 9)
_NUMBERS = 1025  # equally spaced points that approximate the uniform distribution


class Plan:
    """Expected errors of a collection, and required numbers of users, before there is any data.

    An error is a difference of frequencies, so 0.01 is one percentage point. All errors are errors
    of the raw estimate, compared with the true frequencies among the users. A good post-processor
    reduces them further (:func:`~sklearn_ldp.model_selection.simulate_errors` shows by how much).

    The plan of a survey, such as a :class:`~sklearn_ldp.ColumnOracle` or a
    :class:`~sklearn_ldp.MarginalOracle`, covers each column or table. Its errors include the
    random assignment of users to columns. Numbers of users are totals for the whole survey, and
    each result is a dict by the name of the column or table.

    For a :class:`~sklearn_ldp.LocalMean`, the errors are errors of the mean, in the unit of the
    number. The plan of a learner is the plan of its `oracle()`. For a
    :class:`~sklearn_ldp.learning.LabelDPRegressor`, the errors are errors of the mean label. If the
    features are uncorrelated and have variance 1, the noise of the reports causes an error of the
    same size in each coefficient.

    Parameters
    ----------
    oracle : oracle, survey or learner
        The object whose users send the reports. It need not be fitted, and is not changed.
    n_categories : int, default=None
        Number d of categories. If None, use the categories that the oracle declares. For a survey
        it must be None, because the survey declares the domains of its columns.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries over which errors are averaged, see :mod:`sklearn_ldp.queries`. If None,
        the frequency of every category. For a survey, a mapping from names of columns to queries.
    frequencies : array-like of shape (d,), default=None
        Assumed true frequencies, which sum to 1. If None, all categories are equally frequent. For
        most oracles the frequencies matter little if d is large. For a survey, a mapping from names
        of columns to frequencies; columns that the mapping lacks are assumed to be uniform. For a
        :class:`~sklearn_ldp.LocalMean`, the assumed proportions of users at equally spaced numbers
        from the lower to the upper bound; their number is arbitrary. For an
        :class:`~sklearn_ldp.ItemOracle`, the frequency of each item, from 0 to 1; if None,
        ``max_items`` items per user, all equally frequent.
    level : float, default=0.95
        Level of the confidence intervals, and one minus the significance level of the tests.
    simultaneous : bool, default=False
        Whether half widths refer to simultaneous intervals for all queries (of all columns of a
        survey), as in the summaries and plots of estimates. By default they refer to the interval
        of a single answer, which is narrower.

    Attributes
    ----------
    oracle : oracle, or dict of oracle
        A copy of the oracle, with its domain. For a survey, a dict that maps the name of each
        column or table to its oracle, or to None if it has no oracle of its own.
    n_categories : int, or dict of int
        Number of categories. For a survey, a dict that maps names to numbers. None for a mean.

    Raises
    ------
    ValueError
        If the categories are not declared, or a parameter is out of range.
    TypeError
        If `oracle` is not an oracle, a survey or a learner.

    See Also
    --------
    sklearn_ldp.oracles.profile_oracle : The size of reports and the cost of decoding.
    sklearn_ldp.best_oracle : The oracle with the smallest error.
    sklearn_ldp.StringOracle.plan : The plan of a collection of strings.

    Notes
    -----
    If ``oracle.channel().has_exact_covariance`` is True, the mean squared error is exact and
    includes the covariances between categories. This is the case for all mechanisms of this
    package, except linear hashing in spaces of millions of points. Otherwise the variance of a sum
    of categories is estimated from 2**14 simulated reports. This estimate is inaccurate if some
    rare reports support many categories. Absolute errors, intervals and power are computed from the
    variances by the normal approximation.

    Sums of categories have a larger variance with the linear hashing of :class:`~sklearn_ldp.OLH`
    than with ideal hashing (``hash_family="mixing"``): larger by some percent for a thousand
    categories and epsilon up to 4, but several times larger for far more categories or larger
    epsilon.

    Examples
    --------
    >>> from sklearn_ldp import ColumnOracle, OLH, OUE
    >>> from sklearn_ldp.planning import Plan
    >>> from sklearn_ldp.queries import groups
    >>> plan = Plan(OLH(epsilon=1.0), n_categories=1000)
    >>> plan.rmse(n_users=[10_000, 1_000_000]).round(4)
    array([0.0192, 0.0019])
    >>> plan.users_for(half_width=0.005)
    568328
    >>> Plan(OLH(epsilon=1.0), 1000, simultaneous=True).users_for(half_width=0.005)
    2423376
    >>> plan.users_for(detection=0.01, power=0.8)
    827582
    >>> regions = groups([0] * 5 + [1] * 5)
    >>> round(Plan(OUE(epsilon=1.0), 10, queries=regions).mae(n_users=10_000), 3)
    0.035
    >>> survey = ColumnOracle(epsilon=1.0, domains={"sex": 2, "state": 51})
    >>> {name: round(rmse, 4) for name, rmse in Plan(survey).rmse(n_users=100_000).items()}
    {'sex': 0.0112, 'state': 0.0062}
    """

    oracle: Any
    n_categories: Any

    def __init__(
        self,
        oracle: BaseCollector[Any] | LabelDPRegressor | LDPNaiveBayes,
        n_categories: int | None = None,
        *,
        queries: Queries | Mapping[Any, Queries] | None = None,
        frequencies: Frequencies | Mapping[Any, Frequencies] | None = None,
        level: float = 0.95,
        simultaneous: bool = False,
    ) -> None:
        check_level(level)
        self.level: float = level
        self.simultaneous: bool = simultaneous
        if isinstance(oracle, LabelDPRegressor | LDPNaiveBayes):
            oracle = oracle.oracle()
        # The plan of a survey has named columns; the plan of an oracle has one column, called None.
        self._is_survey: bool = isinstance(oracle, BaseColumnSurvey)
        columns = _planned_of(oracle, n_categories)
        kind = type(oracle).__name__
        self._is_mean: bool = isinstance(columns.get(None, [None])[0], NumberDomain)
        self._has_questions: bool = not self._is_mean and (
            queries is not None or frequencies is not None
        )
        if self._is_survey:
            workloads = _by_name("queries", queries, columns, kind)
            assumed = _by_name("frequencies", frequencies, columns, kind)
        else:
            workloads, assumed = {None: queries}, {None: frequencies}
        make = _Mean if self._is_mean else _Column
        self._columns: dict[Any, _Column] = {
            name: make(column, workloads[name], assumed[name]) for name, column in columns.items()
        }
        self.oracle = self._of_each(lambda column: column.oracle)
        self.n_categories = self._of_each(
            lambda column: None if self._is_mean else column.domain.size
        )

    def __repr__(self) -> str:
        return f"Plan({self.oracle!r}, n_categories={self.n_categories!r})"

    # -- errors -------------------------------------------------------------------------------
    def rmse(self, n_users: ArrayLike) -> Any:
        """Return the root mean squared error, averaged over the queries and over collections.

        Parameters
        ----------
        n_users : float or array-like
            Number of users; for a survey, the total over all columns.

        Returns
        -------
        float, ndarray of the shape of `n_users`, or dict of these
            The errors. For a survey, a dict that maps the name of each column to its errors.
        """
        return self._error("rmse", n_users)

    def overall_rmse(self, n_users: ArrayLike) -> Any:
        """Return the root mean squared error over all columns, weighted by the survey's `weights`.

        Parameters
        ----------
        n_users : float or array-like
            Number of users.

        Returns
        -------
        float, or ndarray of the shape of `n_users`
            The error. It is a single value also for a survey. For an oracle it is the `rmse`.
        """
        return _plain(self._overall_rmse / np.sqrt(positive_numbers("n_users", n_users)))

    def mae(self, n_users: ArrayLike) -> Any:
        """Return the mean absolute error, averaged over the queries and over collections.

        Parameters
        ----------
        n_users : float or array-like
            Number of users; for a survey, the total over all columns.

        Returns
        -------
        float, ndarray of the shape of `n_users`, or dict of these
            The errors. For a survey, a dict that maps the name of each column to its errors.
        """
        return self._error("mae", n_users)

    def half_width(self, n_users: ArrayLike, *, at_all_times: bool | int = False) -> Any:
        """Return half the width of the confidence intervals, averaged over the queries.

        By default it is the interval of a single answer. For simultaneous intervals, as in the
        summary of an estimate, use ``Plan(.., simultaneous=True)``. The half width includes a
        continuity correction of half a report. The intervals of an estimate are clipped to the
        possible answers, for example to frequencies from 0 to 1. So the intervals of rare
        categories are narrower than planned, by at most a half.

        Parameters
        ----------
        n_users : float or array-like
            Number of users; for a survey, the total over all columns.
        at_all_times : bool or int, default=False
            Whether the intervals are valid simultaneously for all times at which a growing
            collection is examined, as for :meth:`FrequencyEstimate.confidence_interval
            <sklearn_ldp.FrequencyEstimate.confidence_interval>`. Only for a single question.

        Returns
        -------
        float, ndarray of the shape of `n_users`, or dict of these
            The half widths of intervals for the frequencies among the users. For a survey, a dict
            that maps the name of each column to its half widths.

        Raises
        ------
        ValueError
            If `at_all_times` is used for a survey.
        """
        n_narrowest = narrowest(at_all_times)
        if n_narrowest is None:
            return self._error("half_width", n_users)
        if self._is_survey:
            raise ValueError(
                "Plan.half_width(at_all_times=..) is only available for a single question, got "
                "the plan of a survey. Make a Plan(oracle) for each column."
            )
        numbers = positive_numbers("n_users", n_users)
        column = self._columns[None]
        critical = critical_of_look(self._level_of_each(column), numbers, n_narrowest)
        return _plain(critical * column.mean_std / np.sqrt(numbers) + column.half_count / numbers)

    # -- detection and comparison -------------------------------------------------------------
    def detection_threshold(self, n_users: ArrayLike, *, alpha: float | None = None) -> Any:
        """Return the frequency from which a category can be distinguished from an empty category.

        Let sigma be the standard error at frequency 0. If all d categories have the frequency 0,
        the expected number of estimates above ``Phi^-1(1 - alpha/d) sigma`` is `alpha` (Wang et
        al., NDSS 2020, Eq. 9). This is also the threshold of
        :class:`~sklearn_ldp.BaseCut` with this `alpha`. If the true frequency of a category equals
        the threshold, its estimate exceeds the threshold in half of the collections.

        Parameters
        ----------
        n_users : float or array-like
            Number of users; for a survey, the total over all columns.
        alpha : float, default=None
            Expected number of empty categories (frequency 0) whose estimates exceed the threshold.
            The probability that there is at least one such category is also at most `alpha`. If
            None, one minus the level.

        Returns
        -------
        float, ndarray of the shape of `n_users`, or dict of these
            The threshold. For a survey, a dict that maps the name of each column to its threshold.
            If the threshold is above 1, no category can be distinguished from an empty category.

        Notes
        -----
        If :class:`~sklearn_ldp.HadamardResponse` divides the categories into blocks, the standard
        error at frequency 0 depends on the total frequency of the category's block. All other
        categories are then assumed to be equally frequent.
        """
        alpha = 1 - self.level if alpha is None else alpha
        check_number("alpha", alpha)
        root = np.sqrt(positive_numbers("n_users", n_users))
        return self._of_each(
            lambda column: _plain(
                significance_threshold(column.empty_std, column.domain.size, alpha) / root
            )
        )

    def power(
        self,
        n_users: ArrayLike,
        *,
        change: float | None = None,
        order: float | None = None,
        detection: float | None = None,
        frequency: float | None = None,
        of: str = "population",
    ) -> Any:
        """Return the probability that a collection detects a difference.

        Specify exactly one of `change`, `order` and `detection`.

        Parameters
        ----------
        n_users : float or array-like
            Number of users in each collection; for a survey, the total over all columns.
        change : float, default=None
            An increase of the frequency of one category between two collections; 0.005 is half a
            percentage point. The category is specified before the collections.
        order : float, default=None
            A difference between the frequencies of two categories in one collection. The categories
            are specified before the collection.
        detection : float, default=None
            The frequency of a category that is to be distinguished from frequency 0. All d
            categories are tested, and the probability of at least one false discovery is at most
            one minus the level.
        frequency : float, default=None
            The smaller of the two frequencies that are compared. If None, it is 1/d, or less if the
            frequencies would otherwise sum to more than 1. All other categories are assumed to be
            equally frequent. It cannot be combined with `detection`, which compares a frequency
            with 0.
        of : {"population", "users"}, default="population"
            Whether the difference refers to the users or to a population, see
            :meth:`FrequencyEstimate.confidence_interval`.

        Returns
        -------
        float, ndarray of the shape of `n_users`, or dict of these
            The probabilities. For a survey, a dict that maps the name of each column to its
            probabilities.

        Raises
        ------
        ValueError
            If not exactly one of `change`, `order` and `detection` is passed, if the difference is
            out of range, or if the plan has queries or frequencies.

        Examples
        --------
        >>> from sklearn_ldp import OUE
        >>> from sklearn_ldp.planning import Plan
        >>> round(Plan(OUE(epsilon=1.0), 100).power(n_users=100_000, change=0.02), 2)
        0.64
        """
        root = np.sqrt(positive_numbers("n_users", n_users))
        aim, gap = _only(change=change, order=order, detection=detection)
        statement = self._statement(aim, gap, frequency, of)
        return self._of_each(lambda column: _plain(statement(column).power(root)))

    # -- users --------------------------------------------------------------------------------
    def users_for(
        self,
        *,
        rmse: float | None = None,
        overall_rmse: float | None = None,
        mae: float | None = None,
        half_width: float | None = None,
        change: float | None = None,
        order: float | None = None,
        detection: float | None = None,
        power: float | None = None,
        frequency: float | None = None,
        of: str | None = None,
    ) -> Any:
        """Return the minimum number of users for a maximum error, or for detecting a difference.

        Specify exactly one aim: either a maximum error, or a difference to detect.

        Parameters
        ----------
        rmse, overall_rmse, mae, half_width : float, default=None
            The maximum error, as a difference of frequencies. The methods with these names define
            the errors.
        change, order, detection : float, default=None
            The difference of frequencies to detect, see :meth:`power`. For `change`, the result is
            the number of users in each of the two collections.
        power : float, default=None
            The probability with which the difference is detected. If None, 0.8.
        frequency : float, default=None
            For `change` or `order`: the smaller of the two frequencies that are compared. If None,
            it is 1/d, or less if the frequencies would otherwise sum to more than 1.
        of : {"population", "users"}, default=None
            Whether the difference refers to the users or to a population. If None, the population.

        Returns
        -------
        int, or dict of int
            The number of users, at least 1. For a survey, a dict that maps the name of each column
            to the number of users that the whole survey needs to reach the aim in this column. For
            `overall_rmse`, a single number.

        Raises
        ------
        ValueError
            If not exactly one aim is passed, or if a parameter is out of range.

        Examples
        --------
        How many users are needed to estimate a category of frequency 1 %, one of 1000 categories,
        to within 0.1 % with 95 % confidence?

        >>> import numpy as np
        >>> from sklearn_ldp import OUE
        >>> from sklearn_ldp.planning import Plan
        >>> from sklearn_ldp.queries import top_k
        >>> assumed = np.r_[0.01, np.full(999, 0.99 / 999)]
        >>> plan = Plan(OUE(epsilon=1.0), 1000, queries=top_k(1), frequencies=assumed)
        >>> plan.users_for(half_width=0.001)
        14189661

        How many users are needed each week to detect that one of 100 categories grew by half a
        percentage point?

        >>> Plan(OUE(epsilon=1.0), 100).users_for(change=0.005, power=0.8)
        2328001
        """
        aim, goal = _only(
            rmse=rmse,
            overall_rmse=overall_rmse,
            mae=mae,
            half_width=half_width,
            change=change,
            order=order,
            detection=detection,
        )
        if aim in ("change", "order", "detection"):
            wanted = 0.8 if power is None else power
            check_power(wanted)
            statement = self._statement(aim, goal, frequency, "population" if of is None else of)
            return self._of_each(lambda column: _least_number(statement(column).root(wanted)))
        if any(option is not None for option in (power, frequency, of)):
            raise ValueError(
                "Arguments power, frequency and of can be combined only with change=, order= or "
                f"detection=, got {aim}=. Leave out power=, frequency= and of=."
            )
        widest = max(column.max_distance for column in self._columns.values())
        if goal >= widest:
            raise ValueError(
                f"Argument {aim} must be less than {widest:g}, the largest possible difference "
                f"between two answers, got {goal!r}. Pass an error in the unit of the answers; "
                "for frequencies, 0.01 is a percentage point."
            )
        if aim == "overall_rmse":
            return _least_number(self._overall_rmse / goal)
        return self._of_each(
            lambda column: _least_number(column.root(aim, self._level_of_each(column), goal))
        )

    # -- plot ---------------------------------------------------------------------------------
    def plot(
        self, n_users: ArrayLike | None = None, *, ax: Axes | None = None, **kwargs: Any
    ) -> Any:
        """Plot the expected errors against the number of users.

        The plot shows `rmse`, `half_width` and `detection_threshold` of an oracle, or the `rmse` of
        each column of a survey.

        Parameters
        ----------
        n_users : array-like of shape (n_points,), default=None
            Numbers of users on the x axis. If None, they range from ten thousand to a hundred
            million.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made.
        **kwargs : dict
            Passed to the ``plot`` of :class:`~sklearn_ldp.inspection.ErrorCurveDisplay`.

        Returns
        -------
        ErrorCurveDisplay
            The display, which is already drawn.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        n = np.atleast_1d(positive_numbers("n_users", _DRAWN_USERS if n_users is None else n_users))
        if self._is_survey:
            error = "rmse"
            curves = {str(name): curve for name, curve in self.rmse(n).items()}
        else:
            shown = [self.rmse, self.half_width, self.detection_threshold][: 3 - self._is_mean]
            error = "error of the mean" if self._is_mean else "frequency"
            curves = {method.__name__: method(n) for method in shown}
        table = {
            "curve": np.repeat(list(curves), len(n)),
            "n_users": np.tile(n, len(curves)),
            error: np.concatenate(list(curves.values())),
        }
        options = {"x": "n_users", "by": "curve", "error": error, "spread": None, "x_scale": "log"}
        return ErrorCurveDisplay.from_results(table, ax=ax, **{**options, **kwargs})

    # -- shared by the methods ----------------------------------------------------------------
    def _of_each(self, compute: Callable[[_Column], Any]) -> Any:
        """Apply a function to the plan of each column.

        Return a dict of the results for a survey, and the single result for an oracle.
        """
        results = {name: compute(column) for name, column in self._columns.items()}
        return results if self._is_survey else results[None]

    def _error(self, name: str, n_users: ArrayLike) -> Any:
        root = np.sqrt(positive_numbers("n_users", n_users))
        return self._of_each(
            lambda column: _plain(column.error(name, self._level_of_each(column), root))
        )

    def _level_of_each(self, column: _Column) -> float:
        """Return the level of the interval of each answer, by Sidak's formula if simultaneous."""
        n_intervals = column.n_answers * len(self._columns) if self.simultaneous else 1
        return float(self.level ** (1 / n_intervals))

    @property
    def _overall_rmse(self) -> float:
        """Return the root mean squared error over all columns, if the survey had a single user."""
        columns = self._columns.values()
        weights = [column.weight for column in columns]
        return math.sqrt(np.average([column.mse for column in columns], weights=weights))

    def _statement(
        self, aim: str, gap: float, frequency: float | None, of: str
    ) -> Callable[[_Column], _Statement]:
        check_of(of)
        if self._has_questions:
            raise ValueError(
                f"Plan(queries=..., frequencies=...) cannot plan a {aim}, because a {aim} "
                "compares single categories. Leave out queries= and frequencies=. For a change "
                "or an order, pass the smaller of the two frequencies that are compared as "
                "frequency=.."
            )
        if aim == "detection" and frequency is not None:
            raise ValueError(
                "frequency= cannot be combined with detection=, which compares a frequency with "
                "0. Leave out frequency=."
            )
        return lambda column: column.statement(aim, gap, frequency, self.level, of)


class _Column:
    """The plan of one column.

    Its errors are computed for a single user, and then scaled to n users.
    """

    def __init__(self, planned: PlannedEstimate, queries: Any, frequencies: Any) -> None:
        self.domain, self.oracle, self.noise, self.weight = planned
        d = self.domain.size
        categories = self.domain.categories
        self.queries = as_query_set(queries).aligned(categories, self.domain)
        if self.queries.depends_on_truth and frequencies is None:
            raise ValueError(
                f"Plan: the errors of {self.queries!r} depend on the true frequencies, which are "
                "unknown. Pass assumed frequencies as frequencies=.."
            )
        overlap = self.domain.shares_overlap
        if frequencies is None:  # each user has as many items as a report covers
            n_items = getattr(self.domain, "max_items", 1) if overlap else 1
            frequencies = np.full(d, min(n_items / d, 1))
        self.frequencies = as_distribution(frequencies, categories, "Plan", overlap=overlap)

    # Errors with one user; errors with n users are sqrt(n) times smaller.
    @cached_property
    def mse(self) -> float:
        return max(self.queries.mean_variance(self.noise, self.frequencies), 0.0)

    @cached_property
    def matrix(self) -> Any:
        """Return the weights of the queries, a (sparse) matrix of shape (n_queries, d)."""
        return self.queries.matrix(self.domain.size, self.frequencies)

    @cached_property
    def n_answers(self) -> int:
        return int(self.matrix.shape[0])

    @cached_property
    def max_distance(self) -> float:
        """Return the largest possible difference between two answers to a query."""
        return float(np.ptp(answer_range(as_rows(self.matrix)), axis=0).max())

    @cached_property
    def half_count(self) -> float:
        """Return the smallest amount by which half a report changes an answer, with one user.

        It is the continuity correction of the intervals.
        """
        smallest = abs(as_rows(self.matrix).data).min(initial=1)
        return float(np.ravel(self.noise.half_count)[0] * smallest)

    @cached_property
    def mean_std(self) -> float:
        variances = self.noise.answer_variance(self.matrix, self.frequencies)
        return float(np.sqrt(np.maximum(variances, 0)).mean())

    def error_of_one(self, name: str, level: float) -> float:
        """Return the error with one user.

        With n users, it is smaller by the factor sqrt(n). `name` is "rmse", "mae" or "half_width".
        """
        if name == "rmse":
            return math.sqrt(self.mse)
        normal = math.sqrt(2 / math.pi) if name == "mae" else float(ndtri(0.5 + level / 2))
        return normal * self.mean_std

    def error(self, name: str, level: float, root: Any) -> Any:
        """Return an error, which includes the continuity correction for "half_width".

        `root` is the square root of the number of users.
        """
        step = self.half_count if name == "half_width" else 0.0
        return self.error_of_one(name, level) / root + step / root**2

    def root(self, name: str, level: float, goal: float) -> float:
        """Return the square root of the number of users for which an error equals `goal`."""
        step = self.half_count if name == "half_width" else 0.0
        error = self.error_of_one(name, level)
        return (error + math.sqrt(error**2 + 4 * goal * step)) / (2 * goal)

    @cached_property
    def empty_std(self) -> float:
        """Return the standard error of an empty category (frequency 0), with one user."""
        return math.sqrt(self.noise.variance(self._rest([0.0]))[0])

    def statement(
        self, aim: str, gap: float, frequency: float | None, level: float, of: str
    ) -> _Statement:
        """Return the test of a difference `gap` between two frequencies.

        `aim` is "change", "order" or "detection", see `Plan.power`.
        """
        d = self.domain.size
        n_compared = 2 if aim == "order" else 1
        base = 0.0 if aim == "detection" else min(1 / d, max(1 - gap, 0) / n_compared)
        if frequency is not None:
            base = float(frequencies_below_1("frequency", frequency))
        rest = 1 - gap - n_compared * base  # for the other categories
        if not (0 <= base < 1 and rest >= -1e-12 and (d > n_compared or rest < 1e-6)):
            raise ValueError(
                f"Plan: a frequency of {base:g} and a difference of {gap:g} are impossible "
                "together, because frequencies sum to 1. Pass a smaller difference, or a smaller "
                "frequency=.."
            )
        bar = float(ndtri(0.5 + level / 2))
        if aim == "order":
            std = math.sqrt(self._variance([1.0, -1.0], [base + gap, base], of))
            return _Statement(gap, std, std, bar)
        before, after = (self._variance([1.0], [f], of) for f in (base, base + gap))
        if aim == "change":  # between two collections
            middle = self._variance([1.0], [base + gap / 2], of)
            return _Statement(gap, math.sqrt(2 * middle), math.sqrt(before + after), bar)
        bar = float(-ndtri((1 - level) / d))
        return _Statement(gap, math.sqrt(before), math.sqrt(after), bar)

    def _rest(self, first: list[float]) -> np.ndarray:
        """Return a distribution over all categories.

        The first categories have the frequencies `first`, and all other categories are equally
        frequent.
        """
        others = self.domain.size - len(first)
        return np.r_[first, np.full(others, (1 - sum(first)) / max(others, 1))]

    def _variance(self, signs: list[float], first: list[float], of: str) -> float:
        """Return the variance of an estimated sum of frequencies, each with a sign, for one user.

        The first categories have the frequencies `first` and the factors `signs` (1 or -1). If `of`
        is "population", the variance includes the random choice of the users.
        """
        places = ([0] * len(signs), range(len(signs)))
        row = sparse.csr_array((signs, places), shape=(1, self.domain.size))
        frequencies = self._rest(first)
        variance = max(float(self.noise.answer_variance(row, frequencies)[0]), 0.0)
        if of == "population":  # the users are a sample of the population
            mean = float((row @ frequencies)[0])
            variance += max(float((row.power(2) @ frequencies)[0]) - mean**2, 0.0)
        return variance


class _Mean(_Column):
    """The plan of a mean of numbers. Its errors are in the unit of the numbers."""

    def __init__(self, planned: PlannedEstimate, queries: Any, frequencies: Any) -> None:
        self.domain, self.oracle, mechanism, self.weight = planned
        bounds: Any = planned.oracle.bounds
        if queries is not None:
            raise ValueError(
                "Plan does not support queries= for a mean, because a mean is a single number. "
                "Leave out queries=."
            )
        shares = np.full(_NUMBERS, 1.0) if frequencies is None else np.asarray(frequencies)
        shares = as_distribution(shares / shares.sum(), np.arange(len(shares)), "Plan")
        numbers = np.linspace(-1, 1, len(shares))
        scale = float(np.ptp(bounds)) / 2
        self.mse = scale**2 * float(shares @ mechanism.variance(numbers))
        self.mean_std = math.sqrt(self.mse)
        self.n_answers = 1
        self.max_distance = 2 * scale
        self.half_count = 0.0
        self._spread = scale**2 * float(shares @ (numbers - shares @ numbers) ** 2)

    @property
    def empty_std(self) -> float:
        raise ValueError(
            "The plan of a mean has no detection and no detection_threshold, because a mean has "
            "no categories. Use half_width, or power with change=."
        )

    def statement(
        self, aim: str, gap: float, frequency: float | None, level: float, of: str
    ) -> _Statement:
        if aim != "change" or frequency is not None:
            raise ValueError(
                "Plan: the plan of a mean supports only change=, and not order=, detection= or "
                "frequency=. Pass change=, and leave out the other arguments."
            )
        variance = self.mse + (self._spread if of == "population" else 0.0)
        std = math.sqrt(2 * variance)
        return _Statement(gap, std, std, float(ndtri(0.5 + level / 2)))


@dataclass(frozen=True)
class _Statement:
    """A difference to detect, and the standard errors that its test would have with one user."""

    gap: float  # the difference, a frequency
    # Standard deviations if there is no difference, and if there is a difference.
    null_std: float
    std: float
    bar: float  # minimum distance of a significant estimate from 0, in units of null_std

    def power(self, root: Any) -> Any:
        """Return the probability that the difference is detected.

        `root` is the square root of the number of users.
        """
        return ndtr((self.gap * root - self.bar * self.null_std) / self.std)

    def root(self, power: float) -> float:
        """Return the square root of the number of users for which the test has this power."""
        root = (self.bar * self.null_std + float(ndtri(power)) * self.std) / self.gap
        return max(root, 0.0)


# -- arguments ------------------------------------------------------------------------------------
def _planned_of(oracle: Any, n_categories: int | None) -> dict[Any, PlannedEstimate]:
    """Return the planned estimate of each column of a survey by name.

    An oracle has one column, with the name None.
    """
    kind = oracle.__name__ if isinstance(oracle, type) else type(oracle).__name__
    if isinstance(oracle, StringOracle):
        raise TypeError(
            f"Plan does not support {kind}, which has a plan of its own. Call its method plan(), "
            "as in StringOracle(2.0).plan().users_for(0.01)."
        )
    if not isinstance(oracle, BaseOracle | BaseColumnSurvey | LocalMean):
        raise TypeError(
            f"Plan needs an oracle or a survey, got {kind}. Pass an instance such as OLH(1.0)."
        )
    oracle = clone(oracle)
    if n_categories is not None:
        if not isinstance(oracle, BaseOracle):
            raise ValueError(
                f"Plan: n_categories= cannot be combined with {kind}, which declares its own "
                "domains. Leave out n_categories=."
            )
        oracle.set_params(categories=n_categories)
    return oracle.__collector__().planned()


def _by_name(argument: str, values: Any, names: Mapping, survey: str) -> dict[Any, Any]:
    """Return a dict that maps each column to its value in `values`, or to None if there is none.

    `argument` is the name of the argument for errors.
    """
    values = {} if values is None else values
    if not isinstance(values, Mapping):
        raise ValueError(
            f"{survey} needs {argument} as a mapping from names of columns, got "
            f"{type(values).__name__}. Pass a mapping such as {{{next(iter(names))!r}: ...}}."
        )
    unknown = [name for name in values if name not in names]
    if unknown:
        raise ValueError(
            f"{survey} got {argument} for {unknown[0]!r}, which is not the name of a column. Use "
            f"one of the names {', '.join(map(repr, names))}."
        )
    return {name: values.get(name) for name in names}


def _only(**aims: float | None) -> tuple[str, float]:
    """Return the name and the value of the only argument that is not None.

    Raise ValueError if several or none are passed.
    """
    specified = {name: value for name, value in aims.items() if value is not None}
    if len(specified) != 1:
        raise ValueError(
            f"Plan needs exactly one of the arguments {', '.join(aims)}, got "
            f"{', '.join(specified) or 'none of them'}. Pass one of these arguments."
        )
    ((name, value),) = specified.items()
    check_number(name, value)
    return name, value


def _plain(result: Any) -> Any:
    """Return a scalar array as a float, and any other array unchanged."""
    return result if np.ndim(result) else float(result)


def _least_number(root: float) -> int:
    """Return the smallest integer >= 1 whose square root is at least `root`.

    Rounding errors of `root` are ignored.
    """
    if not root < 1e150:  # its square is a float
        raise ValueError(
            "Plan.users_for: reaching this aim needs more than 10**300 users. Pass a larger "
            "maximum error, or a larger difference."
        )
    # If rounding errors alone raise a quotient above a whole number, no further user is needed.
    return max(1, math.ceil(root**2 * (1 - 1e-12)))
