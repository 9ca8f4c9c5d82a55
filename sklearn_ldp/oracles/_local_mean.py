"""The mean of a number per user, estimated without a histogram."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.common.random import RandomState
from .._core.common.text import counted, labelled_lines, number_texts
from .._core.domains import NumberDomain
from .._core.fitting import BaseCollector, Collected, PlannedEstimate, inherit_survey_parameters
from .._core.mechanisms.mean import N_LEVELS, MeanMechanism, mean_table
from .._core.report_page import Kept, Reported
from .._core.statistics import (
    POPULATION,
    Means,
    at_level,
    check_level,
    check_of,
    critical_at_all_times,
    describe_nothing,
    rows_of,
)
from ._base import OneColumn


@dataclass(frozen=True, eq=False, repr=False)
class MeanEstimate(Means, Kept, tag="mean-estimate"):
    """Estimated means of a number, one for each group of users.

    Parameters
    ----------
    mean : ndarray of shape (n_estimates,)
        Unbiased estimates of the means, one per group. With few users an estimate may lie outside
        of the bounds.
    standard_error : ndarray of shape (n_estimates,)
        Standard errors of the means, if each is an estimate for the users who reported.
    population_error : ndarray of shape (n_estimates,)
        Standard errors of the means, if each is an estimate for a population from which the users
        are a random sample.
    n_samples : ndarray of int of shape (n_estimates,)
        Number of users in each group.
    bounds : (float, float)
        The public minimum and maximum of the users' numbers.
    row_names : list, default=None
        Names of the groups. None if there is a single group.
    oracle : LocalMean, default=None
        An unfitted oracle with the parameters of the collection. None if these are unknown.

    Examples
    --------
    >>> from sklearn_ldp import LocalMean
    >>> from sklearn_ldp.oracles import estimate_by_group
    >>> oracle = LocalMean(2.0, bounds=(0, 100), random_state=1)
    >>> ages, region = [20, 60, 40, 80] * 2500, ["east", "east", "west", "west"] * 2500
    >>> estimate_by_group(oracle, ages, region)
    MeanEstimate of 2 groups, 10,000 users
      east  40.33, standard error 0.61
      west  59.34, standard error 0.61
    """

    mean: np.ndarray
    standard_error: np.ndarray
    population_error: np.ndarray
    n_samples: np.ndarray
    bounds: tuple[float, float]
    row_names: list[Any] | None = None
    oracle: Any = None

    def __check_state__(self) -> None:
        numbers = [self.mean, self.standard_error, self.population_error, self.n_samples]
        are_alike = {np.shape(x) for x in numbers} == {(len(self),)} and np.isfinite(numbers).all()
        if not are_alike or np.min(numbers[1:], initial=0) < 0 or self.bounds[0] >= self.bounds[1]:
            raise ValueError(
                "MeanEstimate needs a finite standard error and a number of users for each mean, "
                "and bounds=(minimum, maximum) with minimum < maximum. Save the estimate again."
            )
        if self.oracle is not None and tuple(self.oracle.bounds) != tuple(self.bounds):
            raise ValueError(
                "A MeanEstimate and its oracle have different bounds. Save the estimate again."
            )

    def __len__(self) -> int:
        return len(self.mean)

    def confidence_interval(
        self, level: float = 0.95, *, of: str = "users", at_all_times: bool | int = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return confidence intervals of the means, within the bounds.

        Parameters
        ----------
        level : float, default=0.95
            Probability that a single interval covers its mean.
        of : {"users", "population"}, default="users"
            The mean that an interval covers: the mean of the users who reported, or the mean of a
            population from which they are a random sample (see :mod:`sklearn_ldp.inference`).
        at_all_times : bool or int, default=False
            Whether the level is the probability that the intervals of *all* looks at a growing
            collection cover their means. A number is the number of users at which the intervals
            are narrowest; choose it before the first look. True: 1,000.

        Returns
        -------
        low, high : ndarray of shape (n_estimates,)
            The lower and upper ends of the intervals.

        Raises
        ------
        ValueError
            If `level` is not in [0.5, 1), or if `of` or `at_all_times` is not valid.
        """
        check_level(level)
        check_of(of)
        error = self.standard_error if of == "users" else self.population_error
        critical = critical_at_all_times(level, self.n_samples, at_all_times)
        half_width = critical * error
        minimum, maximum = self.bounds
        # The interval of a mean outside of the bounds is more than a single point.
        low = np.minimum(self.mean - half_width, maximum - half_width / 4)
        high = np.maximum(self.mean + half_width, minimum + half_width / 4)
        return np.clip(low, minimum, maximum), np.clip(high, minimum, maximum)

    def _means(self) -> tuple[list[Any], np.ndarray, dict[str, np.ndarray]]:
        names = ["mean"] if self.row_names is None else self.row_names
        more = {"standard_error": self.standard_error, "n_samples": self.n_samples}
        return names, self.mean, more

    def _errors_of_difference(self, i, j):
        return [(self.population_error[k], self.n_samples[k]) for k in (i, j)]

    def describe(
        self, level: float = 0.95, *, question: str = "", of: str | None = None
    ) -> dict[str, Any]:
        check_level(level)
        each = level ** (1 / max(len(self), 1))  # groups are independent
        ends = self.confidence_interval(each, of="users" if of is None else of)
        names = ["mean"] if self.row_names is None else self.row_names
        columns = (names, self.mean.tolist(), ends[0].tolist(), ends[1].tolist())
        table = dict(zip(("category", "mean", "low", "high"), columns, strict=True))
        which = "mean"
        may_not = ["The data do not show the median or the spread of the numbers."]
        if getattr(self.oracle, "clip", False):
            which += f" of values clipped to {' to '.join(number_texts(self.bounds))}"
            may_not.append(f"This is the {which}, not the mean of all numbers.")
        return {
            **describe_nothing(question, repr(self).partition("\n")[0], level, self.oracle),
            **({"of": POPULATION} if of == "population" else {}),
            "value": "mean",
            "unit": "",
            "bounds": list(self.bounds),
            "shown": which.capitalize(),
            "domain": f"numbers from {self.bounds[0]:g} to {self.bounds[1]:g}",
            "n_samples": int(self.n_samples.sum()),
            "noise_level": float(np.mean(self.standard_error)),
            "interval": at_level(level),
            "is_ordered": True,
            "rows": rows_of(table),
            "may_be_said": [
                f"The {which}{'' if self.row_names is None else f' of {name}'} is between "
                f"{low:.4g} and {high:.4g} ({100 * level:g} % confidence, simultaneous)."
                for name, _, low, high in zip(*columns, strict=True)
            ],
            "may_not_be_said": may_not,
            "made_by": "# reports: what users sent; oracle: the LocalMean that they shared\n"
            f"oracle.aggregate(reports).report(level={level:g})",
        }

    describe.__doc__ = Kept.describe.__doc__

    def __repr__(self) -> str:
        names = ["mean"] if self.row_names is None else self.row_names
        pairs = zip(self.mean.tolist(), self.standard_error.tolist(), strict=True)
        lines = labelled_lines(
            names, [f"{mean:.4g}, standard error {error:.2g}" for mean, error in pairs]
        )
        groups = "" if self.row_names is None else f" of {len(self)} groups"
        head = f"MeanEstimate{groups}, {counted(int(self.n_samples.sum()), 'user')}"
        return "\n  ".join([head, *lines[:20]])


@inherit_survey_parameters
class LocalMean(OneColumn, Reported, BaseCollector[MeanEstimate], tag="local-mean"):
    """Estimate the mean of a number per user, between public bounds.

    The client of each user randomizes the number. The average of the decoded reports is an unbiased
    estimate of the mean. The distribution of the report, given the number, minimizes the average
    variance over all numbers between the bounds, under a constraint: the variance for each number
    is at most `worst_case` times a minimum. This minimum is the smallest possible value of the
    largest variance over all numbers. A linear program computes the distribution. The package
    contains the solutions for common values of epsilon (such as 0.5, 1 or 2). For other values the
    computation lasts some seconds, once per process.

    Privacy: one report spends epsilon of its user. The probabilities of reports are integers,
    divided by a power of two. So the bound is exact: no report is more than exp(epsilon) times as
    likely for one number as for another.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one report, > 0. Below 0.2 a report is one bit. Above 8 the oracle uses
        the distribution for epsilon 8.
    bounds : (float, float)
        The public minimum and maximum of the numbers. The standard error is proportional to maximum
        minus minimum. So it is better to clip a few extreme numbers than to widen the bounds.
    clip : bool, default=False
        If True, the client replaces a number outside of the bounds by the nearest bound. The result
        is then the mean of the clipped numbers; the page that `report` writes states this. `fit`
        and `partial_fit` store the exact count of such numbers in ``n_clipped_``, and warn if it
        exceeds 5 % of at least 50 numbers. Do not publish the count. If False, a number outside of
        the bounds raises an error.
    worst_case : float, default=1.1
        A number of at least 1. The largest variance of a report over all numbers is at most
        `worst_case` times its minimum. With 1 the variance is nearly the same for all numbers. With
        1.1 the variance is smaller for most numbers, and up to 10 % larger near the bounds. From
        epsilon 1 on, this improves the mean of most data. Clients and servers must use the same
        value.
    missing : {"error", "report"}, default="error"
        The treatment of a number that is missing or outside of the bounds. If "error", it raises an
        error. If the client then sends no report, this reveals that the number was missing. If
        "report", the client reports the midpoint of the bounds instead, which biases the mean
        towards the midpoint.
    %(collection)s

    Attributes
    ----------
    mean_ : float
        The unbiased estimate of the mean.
    standard_error_ : float
        Its standard error, if it is an estimate for the users who reported.
    estimate_ : MeanEstimate of length 1
        The mean and its standard error, with methods for confidence intervals.
    n_samples_seen_ : int
        Number of users.

    See Also
    --------
    sklearn_ldp.Domain.bins : Categories for histograms and quantiles of a number. An estimate with
        these categories also has a mean.

    Notes
    -----
    The linear program uses a grid of 33 numbers between the bounds (65 from epsilon 5 on). Other
    numbers are randomly rounded to one of the two adjacent grid numbers, which increases the
    variance. Because of this rounding, the largest variance with ``worst_case=1.1`` is up to 1.11
    times the minimum for epsilon up to 4, and 1.14 times for epsilon 8. Below epsilon 0.7 all
    numbers have nearly the same variance for any `worst_case`.

    The standard error is estimated from the reports. Each possible report has a score. For every
    number of a user, the expected score is at least the variance of the report. So the mean score
    of the reports is an estimate of the variance. It includes four additional scores that equal the
    largest variance, so that the standard error is not too small if there are few reports. The
    estimated variance is at most the largest variance.

    Examples
    --------
    >>> from sklearn_ldp import LocalMean
    >>> oracle = LocalMean(1.0, bounds=(0, 100), random_state=0).fit([20, 30, 50, 80] * 2500)
    >>> round(oracle.mean_, 1), round(oracle.standard_error_, 1)
    (43.5, 1.0)
    >>> low, high = oracle.confidence_interval(0.95)
    >>> round(low, 1), round(high, 1)
    (41.6, 45.4)
    """

    _parameter_constraints: dict = {
        **BaseCollector._parameter_constraints,
        "bounds": "no_validation",  # NumberDomain checks them with specific errors
        "clip": ["boolean"],
        "worst_case": [Interval(Real, 1, None, closed="left")],
        "missing": [StrOptions({"error", "report"})],
    }
    _domain_parameter = "bounds"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        bounds: Any = None,
        clip: bool = False,
        worst_case: float = 1.1,
        missing: str = "error",
        input: str = "values",
        n_shards: int = 10,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.clip = clip
        self.worst_case = worst_case
        self.missing = missing
        self.input = input
        self.n_shards = n_shards
        self.random_state = random_state
        self.n_jobs = n_jobs

    # -- results of fit ------------------------------------------------------------------------
    @property
    def mean_(self) -> float:
        """The unbiased estimate of the mean."""
        return float(self.estimate_.mean[0])

    @property
    def standard_error_(self) -> float:
        """The standard error of `mean_`, if it is an estimate for the users who reported."""
        return float(self.estimate_.standard_error[0])

    def confidence_interval(
        self, level: float = 0.95, *, of: str = "users", at_all_times: bool | int = False
    ) -> tuple[float, float]:
        """Return a confidence interval of the mean, within the bounds.

        Parameters
        ----------
        level : float, default=0.95
            Probability that the interval covers the mean.
        of : {"users", "population"}, default="users"
            The mean that the interval covers: the mean of the users who reported, or the mean of a
            population from which they are a random sample (see :mod:`sklearn_ldp.inference`).
        at_all_times : bool or int, default=False
            Whether the level is the probability that the intervals of *all* looks at a growing
            collection cover the mean. A number is the number of users at which the intervals
            are narrowest; choose it before the first look. True: 1,000.

        Returns
        -------
        (float, float)
            The lower and the upper end of the interval.

        Raises
        ------
        ValueError
            If `level` is not in [0.5, 1), or if `of` or `at_all_times` is not valid.
        """
        low, high = self.estimate_.confidence_interval(level, of=of, at_all_times=at_all_times)
        return float(low[0]), float(high[0])

    def describe(
        self, level: float = 0.95, *, question: str = "", of: str | None = None
    ) -> dict[str, Any]:
        return self.estimate_.describe(level, question=question, of=of)

    describe.__doc__ = Reported.describe.__doc__

    # -- the hooks ----------------------------------------------------------------------------
    def _error_in_range(self, estimate: Any) -> float:
        return float(estimate.standard_error[0] / np.ptp(estimate.bounds))

    def _domain_of(self, declared: Any) -> NumberDomain:
        return NumberDomain(declared, N_LEVELS, self._name, self.missing == "report", self.clip)

    def _make_mechanism(self, domain: Any) -> MeanMechanism:
        return MeanMechanism(mean_table(float(self.epsilon), float(self.worst_case)))

    def _planned_by(self, protocol: Any) -> dict[Any, PlannedEstimate]:
        return {None: PlannedEstimate(protocol.domain, self, protocol.mechanism, 1.0)}

    def _estimate_of(self, state: Collected) -> MeanEstimate:
        """Return the estimated means that are computed from the collected reports."""
        domain: Any = state.protocol.domain
        low, high = domain.bounds
        tallies, sizes = state.decoded
        values = state.mechanism.values
        worst = state.mechanism.worst_variance
        n = np.maximum(np.ravel(sizes), 1)
        means = tallies @ values / n
        known = state.mechanism.mean_variance(tallies, n)
        # The variance of one report of a random user is at least `known`, and at most 1 more.
        spread = (tallies @ values**2 - n * means**2) / np.maximum(n - 1, 1)
        spread = np.where(n > 1, np.clip(spread, known, known + 1), worst + 1)
        middle = (low + high) / 2
        scale = (high - low) / 2
        errors = scale * np.sqrt(known / n), scale * np.sqrt(spread / n)
        sizes = np.ravel(sizes)
        names = None if state.groups is None else state.groups.names
        mean = middle + scale * means
        return MeanEstimate(mean, *errors, sizes, domain.bounds, names, clone(self))

    def _score(self, estimate: MeanEstimate, held_out: MeanEstimate) -> float:
        # The expected squared distance to an unbiased mean is the squared error plus the variance
        # of the unbiased mean.
        return float((held_out.standard_error**2 - (estimate.mean - held_out.mean) ** 2).mean())
