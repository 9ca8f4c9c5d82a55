"""`mean_by_answer`: the mean of a public number among the users with each private answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from sklearn.utils import check_consistent_length

from ..common.pandas import import_pandas
from ..common.text import labelled_lines
from ..common.typing import DataFrame
from ..domains.values import named_missing, refuse_shuffled
from ..report_page import Reported
from ._confidence import critical_at_all_times
from ._described import POPULATION, describe_nothing, rows_of
from ._intervals import ConfidenceInterval, two_sided
from ._statements import at_level, check_level

_MOST_ANSWERS = 100  # categories, because of the sums over all pairs of categories
_ROWS = 1 << 16  # decoded together


class MeanDifference(NamedTuple):
    """The difference of two means, with its standard error and its confidence interval.

    Parameters
    ----------
    value : float
        The difference.
    standard_error : float
        Its standard error.
    low, high : float
        The ends of its interval. For another level, call `difference` again with ``level=``.
    """

    value: float
    standard_error: float
    low: float
    high: float

    @property
    def p_value(self) -> float:
        """The two-sided p-value of the hypothesis that both means are equal, at a single look.

        The error of the difference is assumed to be normal.
        """
        if self.standard_error == 0:  # all outcomes are equal
            return float(self.value == 0)
        return float(2 * ndtr(-abs(self.value) / self.standard_error))


class Means(Reported):
    """Mixin for classes that contain several named means with confidence intervals.

    It provides differences, a table and a plot. A subclass defines the first three methods.
    """

    def _means(self) -> tuple[list[Any], np.ndarray, dict[str, np.ndarray]]:
        """Return the names, the means of shape (n,), and further columns for the table by name."""
        raise NotImplementedError

    def confidence_interval(self, level: float = 0.95, *, at_all_times: bool | int = False) -> Any:
        """Return the lower and upper ends of the confidence interval of each single mean."""
        raise NotImplementedError

    def _errors_of_difference(self, i: int, j: int) -> list[tuple[float, float]]:
        """Return the independent errors of the i-th minus the j-th mean.

        Returns: for each collection, its standard error, including the sampling error, and its
        number of people.
        """
        raise NotImplementedError

    def difference(
        self, a: Any, b: Any, level: float = 0.95, *, at_all_times: bool | int = False
    ) -> MeanDifference:
        """Return the mean of `a` minus the mean of `b`.

        Parameters
        ----------
        a, b : object
            Two categories, or the names of two groups.
        level : float, default=0.95
            Level of the interval.
        at_all_times : bool or int, default=False
            Whether the level is valid for *all* looks at growing collections, see
            `confidence_interval`. Two groups share the error probability equally.

        Returns
        -------
        MeanDifference
            The difference, its standard error, and the ends of its interval, `low` and `high`.
            They include the error from sampling the people from their population.

        Raises
        ------
        ValueError
            If there is no such category or group, the level is not in [0.5, 1), or `at_all_times`
            is not valid.
        """
        check_level(level)
        names, means, _ = self._means()
        if missing := [name for name in (a, b) if name not in names]:
            raise ValueError(f"No mean has the name {missing[0]!r}. Pass names from {list(names)}.")
        i, j = names.index(a), names.index(b)
        if i == j:
            raise ValueError(
                f"A difference needs two means, got {a!r} twice. Pass two names from {list(names)}."
            )
        value = float(means[i] - means[j])
        errors = self._errors_of_difference(i, j) if value == value else [(np.nan, 1.0)]
        error = float(np.sqrt(sum(own**2 for own, _ in errors)))
        each = 1 - (1 - level) / len(errors)  # Bonferroni
        at_looks = [own * critical_at_all_times(each, n, at_all_times) for own, n in errors]
        half = two_sided(level) * error if at_all_times is False else float(sum(at_looks))
        return MeanDifference(value, error, value - half, value + half)

    def to_frame(self, level: float = 0.95, *, at_all_times: bool | int = False) -> DataFrame:
        """Return the means as a pandas DataFrame.

        Parameters
        ----------
        level : float, default=0.95
            Level of each individual interval.
        at_all_times : bool or int, default=False
            Passed to `confidence_interval`.

        Returns
        -------
        pandas.DataFrame
            One row per mean, with the columns mean, low, high, standard_error, and share (for
            categories) or n_samples (for groups).
        """
        pd = import_pandas(f"{type(self).__name__}.to_frame")
        names, means, more = self._means()
        low, high = self.confidence_interval(level, at_all_times=at_all_times)
        return pd.DataFrame({"mean": means, "low": low, "high": high, **more}, index=names)

    def plot(self, level: float = 0.95, ax: Any = None) -> Any:
        """Draw the means with their intervals (needs matplotlib).

        Parameters
        ----------
        level : float, default=0.95
            Level of each individual interval.
        ax : matplotlib Axes, default=None
            The axes. If None, a new figure is created.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        from matplotlib.figure import Figure

        ax = Figure(layout="constrained").subplots() if ax is None else ax
        names, means, _ = self._means()
        low, high = self.confidence_interval(level)
        errors = np.maximum([means - low, high - means], 0)  # an interval may end at a bound
        ax.errorbar(means, [str(name) for name in names], xerr=errors, fmt="o", capsize=4)
        ax.set(xlabel=f"Mean, {100 * level:g} % intervals")
        ax.margins(y=0.5 / len(names))
        return ax


def fieller(
    sums: np.ndarray, products: np.ndarray, moments: Sequence[Any], u: float, bounds: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return confidence intervals of the ratios ``products / sums`` (Fieller, JRSS B 16, 1954).

    Shapes: sums, products (d,) -> two ends (d,).
    moments: the variance of `sums`, its covariance with `products`, and the variance of `products`.
    u: the half width of an interval in standard errors.
    bounds: the two ends of the interval if the true sum may be 0.
    """
    # The interval contains the ratios t with (products - t sums)**2 <= u**2 (c - 2 b t + a t**2).
    a, b, c = moments
    x = sums**2 - u**2 * a
    y = products * sums - u**2 * b
    z = products**2 - u**2 * c
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(np.maximum(y**2 - x * z, 0))
        is_there = (x > 0) & (sums > 0)
        low, high = ((y - root) / x, (y + root) / x)
    return np.where(is_there, low, bounds[0]), np.where(is_there, high, bounds[1])


class MeansByAnswer(Means):
    """The result of `mean_by_answer`: the mean of an outcome for each true answer.

    Parameters
    ----------
    parts : list of (ndarray, ndarray, ndarray)
        For each batch of n people: their decoded reports of shape (n, d), their outcomes of shape
        (n,) and their weights of shape (n,). A decoded report is an unbiased estimate of the
        indicators of the person's answer.
    categories : ndarray of shape (d,)
        The true answers.

    Attributes
    ----------
    categories : ndarray of shape (d,)
        The true answers.
    values : ndarray of shape (d,)
        Mean of the outcome among the people with each answer; NaN for answers of too few people.
    standard_errors : ndarray of shape (d,)
        Standard errors of the means, including the error from sampling the people.
    shares : ndarray of shape (d,)
        Estimated share of the people with each answer. Each person counts by the person's weight.
    reasons : dict
        For each category with the value NaN, the reason.
    """

    categories: np.ndarray
    values: np.ndarray
    standard_errors: np.ndarray
    shares: np.ndarray
    reasons: dict[Any, str]

    def __init__(self, parts: list[Any], categories: np.ndarray) -> None:
        self._parts = parts
        self.categories = categories
        total = sum(w.sum() for _, _, w in parts)
        sums: Any = sum(w @ decoded for decoded, _, w in parts)
        squares: Any = sum(w**2 @ decoded**2 for decoded, _, w in parts)
        self.shares = sums / total
        is_there = sums > 2 * np.sqrt(squares)
        with np.errstate(divide="ignore", invalid="ignore"):
            means = sum((w * z) @ decoded for decoded, z, w in parts) / sums
        self.values = np.where(is_there, means, np.nan)
        self.reasons = {
            category: f"its share, {share:.3g}, is within two standard errors of 0"
            for category, share, is_known in zip(
                categories.tolist(), self.shares, is_there, strict=True
            )
            if not is_known
        }
        self._covariance = np.zeros((len(sums), len(sums)))
        for decoded, z, w in parts:
            with np.errstate(divide="ignore", invalid="ignore"):
                influence = w[:, None] * decoded * (z[:, None] - means) / sums
            self._covariance += influence.T @ influence
        variances = np.where(is_there, np.diag(self._covariance), np.nan)
        self.standard_errors = np.sqrt(variances)

    def __repr__(self) -> str:
        numbers = [
            f"{value:.4g}, standard error {error:.2g}" if value == value else "nan (too few people)"
            for value, error in zip(self.values, self.standard_errors, strict=True)
        ]
        lines = labelled_lines(named_missing(self.categories).tolist(), numbers)
        return "\n  ".join(["Mean of the outcome by the true answer", *lines])

    def confidence_interval(
        self, level: float = 0.95, *, at_all_times: bool | int = False
    ) -> ConfidenceInterval:
        """Return individual confidence intervals of the means, by Fieller's method.

        Parameters
        ----------
        level : float, default=0.95
            Probability that an interval covers the mean of the population.
        at_all_times : bool or int, default=False
            Whether the level is the probability that the intervals of *all* looks at a growing
            collection cover the mean. A number is the number of people at which the intervals
            are narrowest; choose it before the first look. True: 1,000.

        Returns
        -------
        ConfidenceInterval
            `low` and `high`, each of shape (d,). If the data do not exclude at this level that the
            frequency of a category is 0, the ends are the smallest and the largest outcome. If the
            mean is NaN, the ends are NaN.
        """
        # Few people have rare outcomes, so the sum of the outcomes is skewed, and its estimated
        # variance is too small if the sum is small. Like the interval of Agresti and Coull for a
        # proportion, the variance counts u**2 / 2 more reports of each extreme outcome.
        check_level(level)
        n_people = sum(len(z) for _, z, _ in self._parts)
        u = float(critical_at_all_times(level, n_people, at_all_times))
        outcomes = np.array([(z.min(), z.max()) for _, z, _ in self._parts])
        extremes = np.array([outcomes[:, 0].min(), outcomes[:, 1].max()])
        sums = products = np.zeros(len(self.values))
        moments: list[Any] = [0.0, 0.0, 0.0]
        largest = np.max([(w[:, None] * abs(x)).max(axis=0) for x, _, w in self._parts], axis=0)
        for decoded, z, w in self._parts:
            sums = sums + w @ decoded
            products = products + (w * z) @ decoded
            moments = [m + (w**2 * z**k) @ decoded**2 for k, m in enumerate(moments)]
        more = u**2 / 2 * largest**2
        moments = [m + more * np.sum(extremes**k) for k, m in enumerate(moments)]
        low, high = fieller(sums, products, moments, u, extremes)
        is_there = self.values == self.values
        return ConfidenceInterval(np.where(is_there, low, np.nan), np.where(is_there, high, np.nan))

    def _errors_of_difference(self, i, j):
        c = self._covariance  # the two means have reports in common
        n_people = sum(len(z) for _, z, _ in self._parts)
        return [(np.sqrt(c[i, i] + c[j, j] - 2 * c[i, j]), n_people)]

    def quantile(self, q: float) -> np.ndarray:
        """Return a quantile of the outcome in each category.

        Parameters
        ----------
        q : float
            The probability of the quantile, in (0, 1). 0.5 is the median.

        Returns
        -------
        ndarray of shape (d,)
            For each category, the smallest outcome at which the estimated distribution function
            reaches q. Before, the function is made nondecreasing by its running maximum. NaN for
            categories whose mean is NaN.
        """
        if not 0 < q < 1:
            raise ValueError(
                f"Argument q must be a probability in (0, 1), got {q!r}. Use 0.5 for the median."
            )
        outcomes = np.concatenate([z for _, z, _ in self._parts])
        order = np.argsort(outcomes, kind="stable")
        weighted = np.concatenate([w[:, None] * decoded for decoded, _, w in self._parts])[order]
        below = np.maximum.accumulate(np.cumsum(weighted, axis=0), axis=0)
        places = np.argmax(below >= q * weighted.sum(axis=0), axis=0)
        return np.where(np.isnan(self.values), np.nan, outcomes[order[places]])

    def _means(self) -> tuple[list[Any], np.ndarray, dict[str, np.ndarray]]:
        more = {"standard_error": self.standard_errors, "share": self.shares}
        return named_missing(self.categories).tolist(), self.values, more

    def describe(
        self, level: float = 0.95, *, question: str = "", of: str | None = None
    ) -> dict[str, Any]:
        check_level(level)
        if of not in (None, "population"):
            raise ValueError(
                f'The means by answer have intervals only of="population", got {of!r}. Omit of=.'
            )
        low, high = self.confidence_interval(level ** (1 / len(self.values)))
        names = named_missing(self.categories).tolist()
        table = {"category": names, "mean": self.values.tolist()}
        table |= {"low": low.tolist(), "high": high.tolist()}
        return {
            **describe_nothing(question, repr(self).partition("\n")[0], level, None),
            "value": "mean",
            "unit": "",
            "shown": "Mean of the outcome",
            "domain": f"{len(names)} answers",
            "n_categories": len(names),
            "n_samples": sum(len(z) for _, z, _ in self._parts),
            "of": POPULATION,
            "interval": at_level(level),
            "is_ordered": True,
            "rows": [row for row in rows_of(table) if row["mean"] == row["mean"]],
            "may_be_said": [],
            "may_not_be_said": [
                f"The mean of {name!r}: {reason}." for name, reason in self.reasons.items()
            ],
            "made_by": "",
        }

    describe.__doc__ = Reported.describe.__doc__


def mean_by_answer(
    outcome: ArrayLike, reports: Any, oracle: Any, *, sample_weight: ArrayLike | None = None
) -> MeansByAnswer:
    """Return the mean of an outcome among the people with each true answer.

    The mean by *reported* answer is biased, because reports are randomized and mix people with
    different true answers. This function decodes each report into unbiased estimates of the
    indicators of the person's answer. An estimate may be negative. The mean for an answer is the
    sum of the outcomes, each times the estimated indicator, divided by the sum of the estimated
    indicators. Standard errors are sandwich estimates.

    Privacy: costs none; the outcome is public.

    Parameters
    ----------
    outcome : array-like of shape (n,)
        A number for each person.
    reports : array-like with the n persons as the first axis
        The report of each person.
    oracle : oracle, or sequence of n oracles
        The oracle that randomized the reports. If people used several oracles, for example with
        different values of epsilon, the oracle of each report.
    sample_weight : array-like of shape (n,), default=None
        The weight of each person. If None, all weights are 1.

    Returns
    -------
    MeansByAnswer
        Means, standard errors, intervals, differences and quantiles.

    Raises
    ------
    ValueError
        If an outcome is not finite, lengths differ, a report cannot come from its oracle, or there
        are more than 100 categories.

    See Also
    --------
    sklearn_ldp.learning.CorrectedRidge : Regressions on private answers.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import GRR
    >>> from sklearn_ldp.inference import mean_by_answer
    >>> rng = np.random.default_rng(0)
    >>> answers = rng.choice(["fast", "slow"], size=20_000)
    >>> seconds = np.where(answers == "slow", 3.0, 1.0) + rng.exponential(size=20_000)
    >>> oracle = GRR(1.0, categories=["fast", "slow"], random_state=0)
    >>> mean_by_answer(seconds, oracle.privatize(answers), oracle)
    Mean of the outcome by the true answer
      fast 1.99, standard error 0.025
      slow 4.009, standard error 0.026
    """
    refuse_shuffled("mean_by_answer", outcome=outcome, reports=reports, sample_weight=sample_weight)
    z = np.asarray(outcome, dtype=float)
    n = len(reports)
    w = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    check_consistent_length(z, reports, w)
    if z.ndim != 1 or not np.isfinite(z).all() or not np.isfinite(w).all() or np.any(w < 0):
        raise ValueError(
            "mean_by_answer needs one finite outcome and one finite weight >= 0 for each person, "
            "got another value. Leave out people without an outcome, together with their reports."
        )
    is_several = isinstance(oracle, Sequence) or getattr(oracle, "ndim", 0) == 1
    groups: list[tuple[Any, np.ndarray]] = [(oracle, np.arange(n))] if n else []
    if is_several:
        check_consistent_length(oracle, z)
        distinct, first = np.unique([id(each) for each in oracle], return_inverse=True)
        places = [np.flatnonzero(first == k) for k in range(len(distinct))]
        groups = [(oracle[chosen[0]], chosen) for chosen in places]
    rows = np.asarray(reports)
    parts = []
    categories = None
    for group_oracle, chosen in groups:
        protocol = group_oracle.protocol()
        own = protocol.domain.categories
        d = protocol.domain.size
        if categories is not None and own.tolist() != categories.tolist():
            raise ValueError(
                "mean_by_answer needs oracles with the same categories, got oracles with "
                "different categories. Call it for the reports of each list of categories."
            )
        if d > _MOST_ANSWERS or not hasattr(protocol.mechanism, "decode_each"):
            raise ValueError(
                f"mean_by_answer needs at most {_MOST_ANSWERS} categories and an oracle with one "
                f"report per person, got {d:,} categories and {protocol.name}. Use GRR with fewer "
                "categories."
            )
        categories = own
        checked = protocol.check(reports if not is_several else rows[chosen])
        for start in range(0, len(chosen), _ROWS):
            decoded = protocol.mechanism.decode_each(checked[start : start + _ROWS])
            part = chosen[start : start + _ROWS]
            parts.append((decoded, z[part], w[part]))
    if categories is None:
        raise ValueError(
            "mean_by_answer needs at least one person, got no reports. Pass the reports of all "
            "people."
        )
    return MeansByAnswer(parts, categories)
