"""Differences of two estimates of the same categories: weeks, regions, treatment arms."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, starmap
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.special import ndtr

from ..common.pandas import import_pandas
from ..common.text import counted, grouped_digits, labelled_lines
from ..common.typing import DataFrame
from ..noise import every_category
from ..numerics.simplex import norm_sub
from ..queries import Queries
from ..report_page import Kept
from ._confidence import critical_of_look, display_order, narrowest, sorted_table
from ._covariances import (
    Estimate,
    EstimateCovariances,
    covariances,
    refuse_unknown_tails,
    refuse_without_law,
)
from ._described import describe_difference
from ._discoveries import Discoveries, check_error_rate, discoveries
from ._intervals import (
    ConfidenceInterval,
    Ends,
    band,
    maximum_error,
    names_of,
    query_rows,
    stacked,
    wald_intervals,
)
from ._statements import at_level, check_level, compared, if_normal
from ._tests import WaldTest, beyond_half_count, sum_known, wald_test

# Standard deviations from which two totals are different. Chosen by hand: equal totals with Laplace
# noise differ by more in less than 1 of 200 pairs.
_DIFFERENT_TOTALS = 4.0
_MOST_SHOWN = 5  # categories in a printed difference
_RARE = 1e-8  # probability that collections of different users have the same tallies


@dataclass(frozen=True, eq=False, repr=False)
class EstimateDifference(Kept, tag="estimate-difference"):
    """The difference of two raw estimates: ``estimate_a - estimate_b``.

    The two estimates may have different oracles, budgets and numbers of users. By default, every
    interval and test is about the two populations that the users are random samples of, because
    two collections, such as two weeks, usually have different users. The default is the users
    themselves (``of="users"``) if both estimates are noisy counts of all users (see
    :meth:`FrequencyEstimate.from_counts <sklearn_ldp.FrequencyEstimate.from_counts>`), or if the
    users are shared. If one collection contains reports of the other (all users minus one region),
    the intervals and tests are wrong. Subtract disjoint groups. Only two collections with exactly
    the same reports are recognized, with a warning.

    Privacy: costs none.

    Parameters
    ----------
    one, other : FrequencyEstimate of shape (n_estimates, d) or (1, d)
        Raw estimates of the same categories. If one estimate has a single row, this row is
        compared with each row of the second estimate.
    shared_users : bool, default=False
        Whether the same users took part in both collections, with fresh random bits. If True, only
        statements about these users are available (``of="users"``), not about their population.

    Attributes
    ----------
    values : ndarray of shape (n_estimates, d)
        The differences of the frequencies.
    categories : ndarray of shape (d,)
        The categories.

    Raises
    ------
    TypeError
        If one of the two objects is not an estimate.
    ValueError
        If the categories differ, an estimate is post-processed or has no noise model, or both
        estimates have several rows, but different numbers of rows.

    Warns
    -----
    UserWarning
        If two single rows have the same reports, or if two releases of noisy counts have clearly
        different totals.

    Examples
    --------
    >>> from sklearn_ldp import GRR, OUE
    >>> may = OUE(2.0, categories=["a", "b", "c"], random_state=0)
    >>> june = GRR(2.0, categories=["a", "b", "c"], random_state=1)
    >>> change = june.fit_transform(["a", "b", "c", "c"] * 5000) - may.fit_transform(
    ...     ["a", "b", "b", "c"] * 5000
    ... )
    >>> change.values.round(2) + 0
    array([[ 0.  , -0.26,  0.25]])
    >>> low, high = change.confidence_interval(0.95)
    >>> ((low < [[0, -0.25, 0.25]]) & (high > [[0, -0.25, 0.25]])).tolist()
    [[True, True, True]]
    >>> bool(change.test().p_value < 1e-6)
    True
    >>> change.changed()[0].tolist()
    ['b', 'c']
    """

    one: Estimate
    other: Estimate
    shared_users: bool = False

    # `DifferenceDisplay.from_difference`. The file of this display sets it, because this room may
    # not import displays.
    drawn_by: ClassVar[Any] = None

    def __post_init__(self) -> None:
        self._check()
        # A matrix of weeks may contain the week that is subtracted from all weeks.
        if len(self.one) == len(self.other) == 1 and _are_same(self.one, self.other):
            warnings.warn(
                "Both estimates of a difference have the same reports (one estimate minus itself, "
                "one checkpoint loaded twice, or two simulations with one seed), so the intervals "
                "are not valid. Pass the estimates of two separate collections.",
                UserWarning,
                stacklevel=4,
            )
        self._warn_of_unlike_totals()

    def _check(self) -> None:
        check_alike([self.one, self.other], "difference of estimates")
        if min(len(self.one), len(self.other)) != 1 and len(self.one) != len(self.other):
            raise ValueError(
                "A difference needs two estimates with equal numbers of rows, or one estimate with "
                f"a single row, got {len(self.one)} and {len(self.other)} rows. Select the rows to "
                "compare, as in estimate[0]."
            )

    def _warn_of_unlike_totals(self) -> None:
        """Warn if two releases of noisy counts were divided by clearly different totals."""
        noises: list[Any] = [self.one.noise, self.other.noise]
        if not all(noise.is_of_complete_counts and len(noise.terms) == 1 for noise in noises):
            return
        d = self.shape[1]
        laws = [noise.terms[0].law for noise in noises]
        variances = [getattr(law, "variance_of_total", d * law.null_variance) for law in laws]
        first, second = np.broadcast_arrays(
            *(np.ravel(np.asarray(noise.n_samples, dtype=float)) for noise in noises)
        )
        differences = np.abs(first - second)
        if np.all(differences <= _DIFFERENT_TOTALS * np.sqrt(np.sum(variances))):
            return
        place = int(np.argmax(differences))
        warnings.warn(
            "The frequencies of these releases of noisy counts are shares of different totals, "
            f"{grouped_digits(first[place])} and {grouped_digits(second[place])} users, so their "
            "difference is no difference of counts. To compare counts, pass one fixed number as "
            "n_samples= of both releases in from_counts; if you compare shares, ignore this "
            "warning.",
            UserWarning,
            stacklevel=5,
        )

    def __check_state__(self) -> int:
        self._check()
        return self.one.values.nbytes + self.other.values.nbytes

    @property
    def values(self) -> np.ndarray:
        """The differences of the frequencies."""
        return self.one.values - self.other.values

    @property
    def categories(self) -> np.ndarray:
        """The categories."""
        return self.one.categories

    @property
    def shape(self) -> tuple[int, int]:
        """The number of differences (rows) and the number of categories."""
        return self.values.shape

    def __len__(self) -> int:
        return len(self.values)

    def plot(self, **kwargs: Any) -> Any:
        """Plot the difference (needs matplotlib).

        Parameters
        ----------
        **kwargs : dict
            Passed on to :meth:`sklearn_ldp.inspection.DifferenceDisplay.from_difference`.

        Returns
        -------
        DifferenceDisplay
            The display, with the axes in `ax_` and the figure in `figure_`.
        """
        return type(self).drawn_by(self, **kwargs)

    def _heading(self) -> str:
        rows = "" if len(self) == 1 else f" ({len(self):,} differences)"
        sizes = [np.sum(e.noise.n_samples) for e in (self.one, self.other)]  # type: ignore[union-attr]
        users = f"{grouped_digits(sizes[0])} against {counted(sizes[1], 'user')}"
        users += if_normal(self.one, self.other).replace("if", "presuming that")
        return f"EstimateDifference of {self.shape[1]:,} categories{rows}, {users}"

    def __repr__(self) -> str:
        if len(self) != 1:
            return self._heading()
        places = display_order(self.one.domain, np.abs(self.values))[0, :_MOST_SHOWN]
        names = self.one.labels[places].tolist()
        lines = labelled_lines(names, [f"{value: .4g}" for value in self.values[0, places]])
        more = ["..."] * (len(places) < self.shape[1])
        return "\n  ".join([self._heading(), *lines, *more])

    def confidence_interval(
        self,
        level: float = 0.95,
        queries: Queries | None = None,
        *,
        simultaneous: bool = False,
        of: str | None = None,
        at_all_times: bool | int = False,
    ) -> ConfidenceInterval:
        """Return confidence intervals of the differences, for categories or linear queries.

        The intervals are Wald intervals with the covariances of both oracles and a continuity
        correction. Simultaneous intervals have a larger correction, because the errors of few
        reports have long tails. If only the standard deviation of the noise of an estimate is
        known, the intervals assume normal noise.

        Parameters
        ----------
        level : float, default=0.95
            Probability that a single interval covers the true difference. With `simultaneous`,
            the probability that all intervals cover their true differences.
        queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
            The queries; the intervals are for the differences of their answers. If None, every
            category is a query. If a query covers only a part of a bin, users may have any
            distribution within the bin, but it must be the same in both estimates.
        simultaneous : bool, default=False
            Whether the level is simultaneous for all intervals.
        of : {"population", "users"}, default=None
            The compared groups: two populations that the users are random samples of, or the users
            themselves. The description of the class states the default.
        at_all_times : bool or int, default=False
            Whether the level is valid simultaneously for all looks at two growing collections. An
            integer is the number of users at which the intervals are narrowest, see
            :meth:`FrequencyEstimate.confidence_interval`. Each collection has half of the error
            probability, so the intervals are wider than the intervals of one collection.

        Returns
        -------
        ConfidenceInterval
            `low` and `high`, each of shape (n_estimates, n_queries).

        Raises
        ------
        ValueError
            If an argument is not as described, or a query needs covariances that the noise does not
            provide.
        """
        check_level(level)
        of = self._compared(of)
        rows, n_queries, _ = query_rows(queries, self.one)
        query_rows(queries, self.other)  # refuses areas that the other estimate has selected
        n_narrowest = narrowest(at_all_times)
        each = 1 - (1 - level) / (rows.shape[0] if simultaneous else 1)  # Bonferroni
        ends = []
        for i, values in enumerate(self.values):
            errors = self._errors(i, of)
            if n_narrowest is not None:
                ends.append(self._at_all_times(i, of, values, rows, each, n_narrowest))
                continue
            critical, std = band(errors, rows, level, simultaneous)
            correction = errors.half_count * (1 + simultaneous * max(critical**2 - 1, 0) / 3)
            half_width = errors.critical(critical, rows) * std
            ends.append(wald_intervals(values, rows, half_width, correction))
        return ConfidenceInterval(*stacked(ends, n_queries), names_of(queries, self.one))

    def test(self, *, of: str | None = None) -> WaldTest:
        """Test the hypothesis that both estimates have the same true distribution.

        This is the Wald test with the exact covariances, evaluated at the pooled estimate of both
        distributions.

        Parameters
        ----------
        of : {"population", "users"}, default=None
            Whether the distributions of the populations or of the users are compared; None as for
            `confidence_interval`.

        Returns
        -------
        WaldTest
            One statistic and p-value for each row, with d - 1 degrees of freedom.

        Raises
        ------
        ValueError
            If the covariances of the categories are not known for one of the two oracles.
        """
        of = self._compared(of)
        statistics = []
        for i, difference in enumerate(self.values):
            errors = self._pooled(i, of)
            beyond = beyond_half_count(difference, errors.half_count)
            statistics.append(sum_known(beyond, errors.product, errors.variances()))
        return wald_test(statistics, self.shape[1] - 1)

    def changed(
        self, level: float = 0.95, *, error_rate: str = "fdr", of: str | None = None
    ) -> Discoveries:
        """Return the categories with a significantly changed frequency.

        Parameters
        ----------
        level : float, default=0.95
            One minus the bound for the error rate.
        error_rate : {"fdr", "fdr_any", "fwer"}, default="fdr"
            The error rate that is at most ``1 - level``. "fdr" and "fdr_any" control the expected
            proportion of false discoveries. "fdr" uses the method of Benjamini and Hochberg, which
            assumes that errors are not strongly dependent. "fdr_any" uses the method of Benjamini
            and Yekutieli, which allows any dependence. "fwer" controls the probability of any false
            discovery (Holm).
        of : {"population", "users"}, default=None
            Whether the frequencies of the populations or of the users are compared; None as for
            `confidence_interval`.

        Returns
        -------
        Discoveries
            ``changed()[i]`` contains the categories of the i-th difference. The `p_values` are
            adjusted.

        Raises
        ------
        ValueError
            If an argument is not as described.
        """
        check_level(level)
        check_error_rate(error_rate)
        of = self._compared(of)
        p_values = np.empty(self.shape)
        for i, difference in enumerate(self.values):
            errors = self._pooled(i, of)
            # If the raw sum is above 1 by chance, the projection moves rare categories to 0, where
            # the variance is too small. So the variance is also evaluated at the pooled frequency
            # of each category alone.
            alone = self._pooled(i, of, lambda mean: np.clip(mean, 0, 1))
            variances = np.maximum(errors.variances(), alone.variances())
            deviations = _deviations(difference, errors.half_count, variances)
            p_values[i] = 2 * ndtr(-errors.normal_statistics(deviations))
        return discoveries(self.categories, p_values, "changed", level, error_rate)

    def to_frame(self, level: float = 0.95, *, of: str | None = None) -> DataFrame:
        """Return the differences, their intervals and adjusted p-values as a pandas DataFrame.

        The intervals of one difference (one row of the estimates) are simultaneous, so they stay
        valid if you sort the frame or select rows. The p-value of a category is one minus the level
        at which one end of its interval is 0. So the p-values are adjusted for all categories: the
        probability that any unchanged category has a p-value of at most alpha is alpha. `changed`
        finds more categories, because it controls the false-discovery rate.

        Parameters
        ----------
        level : float, default=0.95
            Probability that all intervals of a difference cover their true differences.
        of : {"population", "users"}, default=None
            The compared groups: two populations or the users themselves; None as for
            `confidence_interval`.

        Returns
        -------
        pandas.DataFrame
            One row per category, with the columns difference, low, high, interval (the simultaneous
            level) and p_value. For several estimates, one row per estimate and category.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = import_pandas("EstimateDifference.to_frame")
        of = self._compared(of)
        low, high = self.confidence_interval(level, of=of, simultaneous=True)
        p_values = np.empty(self.shape)
        every = every_category(self.shape[1])
        for i, values in enumerate(self.values):
            errors = self._errors(i, of)
            maximum, std = maximum_error(errors, every)
            deviations = _deviations(values, errors.half_count, std**2)
            p_values[i] = maximum.p_values(errors.normal_statistics(deviations))
        interval = np.full(self.shape, at_level(level) + if_normal(self.one, self.other))
        columns = {"difference": self.values, "low": low, "high": high, "interval": interval}
        columns["p_value"] = p_values
        several: Any = self.one if len(self.one) > 1 else self.other
        index: Any = pd.Index(self.one.labels, name="category", tupleize_cols=False)
        if len(self) > 1:
            names = range(len(self)) if several.row_names is None else several.row_names
            levels = [list(names), list(self.one.labels)]
            index = pd.MultiIndex.from_product(levels, names=["estimate", "category"])
        return pd.DataFrame({k: v.ravel() for k, v in columns.items()}, index=index)

    def summary(self, level: float = 0.95, *, of: str | None = None) -> DataFrame:
        """Return the rows of `to_frame`, with the largest changes in either direction first.

        Bins and ordered scales are not sorted.

        Parameters
        ----------
        level : float, default=0.95
            Probability that all intervals of a difference cover their true differences.
        of : {"population", "users"}, default=None
            The compared groups, as for `to_frame`.

        Returns
        -------
        pandas.DataFrame
            One row per category; for several estimates, one row per estimate and category.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        return sorted_table(self.to_frame(level, of=of), self.one.domain, np.abs(self.values))

    def describe(
        self, level: float = 0.95, *, question: str = "", of: str | None = None
    ) -> dict[str, Any]:
        return describe_difference(self, level, question, self._compared(of))

    describe.__doc__ = Kept.describe.__doc__

    def _at_all_times(
        self,
        i: int,
        of: str,
        values: np.ndarray,
        rows: sparse.csr_array,
        level: float,
        n_narrowest: int,
    ) -> Ends:
        """Return confidence intervals of the i-th difference that are valid at all looks.

        Shapes: values (d,), rows (n_queries, d) -> two ends (n_queries,).
        n_narrowest: the number of users at which the intervals are narrowest.
        """
        half_width = np.zeros(rows.shape[0])
        for row, noise in self._rows(i):
            refuse_unknown_tails(noise, "intervals at all times")
            errors = covariances(row, noise, of)
            half = critical_of_look((1 + level) / 2, errors.n_samples, n_narrowest)
            half_width += errors.critical(half, rows) * np.sqrt(errors.answer_variances(rows))
        return wald_intervals(values, rows, half_width, self._errors(i, of).half_count)

    def _rows(self, i: int) -> list[tuple[np.ndarray, Any]]:
        """Return two pairs, one for each estimate: the values and the noise of its i-th row."""
        rows = []
        for estimate in (self.one, self.other):
            j = i if len(estimate) > 1 else 0
            assert estimate.noise is not None
            rows.append((estimate.values[j], estimate.noise.of_rows(j)))
        return rows

    def _errors(self, i: int, of: str) -> EstimateCovariances:
        """Return the covariances of the errors of the i-th difference."""
        first, second = (covariances(*row, of) for row in self._rows(i))
        return first.minus(second)

    def _pooled(
        self, i: int, of: str, project: Callable[[np.ndarray], np.ndarray] = norm_sub
    ) -> EstimateCovariances:
        """Return the covariances of the i-th difference if both true distributions are equal.

        They are evaluated at the weighted mean of the estimates.
        project: moves this mean to possible frequencies.
        """
        rows = self._rows(i)
        precisions = np.array([float(np.ravel(noise.std)[0]) ** -2 for _, noise in rows])
        mean = np.average([values for values, _ in rows], axis=0, weights=precisions)
        frequencies = project(mean) if self.one.sums_to_one else np.clip(mean, 0, 1)
        first, second = (EstimateCovariances(noise, of, frequencies) for _, noise in rows)
        return first.minus(second)

    def _compared(self, of: str | None) -> str:
        """Check the argument `of` and return it, or its default."""
        if of is None and self.shared_users:
            return "users"
        of = compared(of, self.one, self.other)
        if self.shared_users and of == "population":
            raise ValueError(
                'of="population" needs independent samples of two populations, but with '
                "shared_users=True both collections have the same users. Pass "
                'of="users" for results about these users, or compare collections of different '
                "users."
            )
        return of


def _deviations(values: np.ndarray, half_count: float, variances: np.ndarray) -> np.ndarray:
    """Return the absolute test statistics of differences, corrected for discreteness and skewness.

    Shapes: values, variances (d,) -> (d,).
    half_count: the continuity correction.
    """
    # Counts of few reports have longer tails than a normal variable. Their third cumulant is at
    # most one report times the variance. So by Cornish and Fisher a quantile is at most u standard
    # deviations, plus half a count, plus (u**2 - 1) / 6 reports. Simultaneous intervals of all
    # categories use the same correction.
    std = np.sqrt(np.maximum(variances, 1e-300))
    z = np.maximum(np.abs(values) - half_count, 0) / std
    bend = half_count / 3 / std
    return np.where(z > 1, 2 * (z + bend) / (1 + np.sqrt(1 + 4 * bend * (z + bend))), z)


def check_alike(estimates: list[Any], statement: str) -> None:
    """Raise TypeError or ValueError unless all are raw estimates of the same categories.

    statement: the requested result, for the message.
    """
    for estimate in estimates:
        if not hasattr(estimate, "is_raw"):
            raise TypeError(
                f"A {statement} needs FrequencyEstimates, got {type(estimate).__name__}. Convert "
                "an array with FrequencyEstimate(values, categories, noise)."
            )
        refuse_without_law(estimate, statement)
        if estimate.categories.tolist() != estimates[0].categories.tolist():
            raise ValueError(
                f"A {statement} needs estimates of the same categories in the same order, got "
                f"{_described(estimates[0])} and {_described(estimate)}. Use oracles with the same "
                "categories."
            )


def check_apart(estimates: list[Any], statement: str) -> None:
    """Raise the errors of `check_alike`, and ValueError if two estimates have the same reports."""
    check_alike(estimates, statement)
    if any(starmap(_are_same, combinations(estimates, 2))):
        raise ValueError(
            f"A {statement} needs estimates of different users, but two estimates have the same "
            "reports (one collection twice, or one checkpoint loaded twice). Pass each collection "
            "once."
        )


def _are_same(first: Any, second: Any) -> bool:
    """Return whether two estimates seem to have the same reports.

    They do if their tallies (sums of reports) are equal, and different reports are unlikely to
    have equal tallies.
    """
    if first is second or first.shards is None or second.shards is None:
        return first is second
    tallies = first.shards.of.tallies
    return (
        np.array_equal(first.values, second.values)
        and np.array_equal(tallies, second.shards.of.tallies)
        and _chance_of_equal(first) < _RARE
    )


def _chance_of_equal(estimate: Any) -> float:
    """Return an upper bound on the probability that reports of different users have equal sums."""
    # A number c of a tally counts some of the n reports of a shard. Let y_i be the probability that
    # user i is counted. Under epsilon-LDP the ratio of two of these probabilities is at most
    # k = exp(epsilon), and so is the ratio of two complements 1 - y_i. With the mean y = c / n the
    # mean of the users' variances is at least m - m**2 / 4V, with V = k / (1 + k)**2 and
    # m = min(y, 1 - y, 2V). This minimum belongs to users with two different probabilities. The
    # probability that two normal numbers with this variance round to the same integer is about
    # the density of their difference at 0. The largest number of a shard is left out, because the
    # others may determine it.
    if estimate.oracle is None:
        return 1.0
    counts = estimate.shards.of
    maximum = 1 / (2 * np.cosh(estimate.oracle.epsilon / 2)) ** 2  # V
    numbers = np.sort(counts.tallies, axis=-1)
    numbers = numbers if numbers.shape[-1] == 1 else numbers[..., :-1]
    sizes = np.maximum(counts.sizes[..., None], 1)
    shares = np.clip(np.minimum(numbers / sizes, 1 - numbers / sizes), 0, 2 * maximum)
    variances = sizes * (shares - shares**2 / (4 * maximum))
    return float(np.exp(-np.log(np.maximum(4 * np.pi * variances, 1)).sum() / 2))


def _described(estimate: Any) -> str:
    names = [str(category) for category in estimate.categories[:3].tolist()]
    more = ", ..." if estimate.shape[1] > 3 else ""
    return f"{estimate.shape[1]:,} ({', '.join(names)}{more})"
