"""Confidence intervals of ranks, and the categories that are significantly in the top k."""

from __future__ import annotations

from contextlib import suppress
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ..common.text import MOST_LINES, printable
from ..domains.values import named_missing
from ..noise import every_category
from ._covariances import (
    Estimate,
    EstimateCovariances,
    covariances_of_rows,
    refuse_unknown_tails,
)
from ._intervals import stacked
from ._statements import check_level

_FEW = 300  # categories; below this number, the covariances of all pairs are used


class RankInterval(NamedTuple):
    """Lower and upper ends of intervals of ranks; rank 1 is the most frequent category.

    Parameters
    ----------
    low, high : ndarray of shape (n_estimates, d)
        The lower and the upper ends of the intervals, integers from 1 to d.
    """

    low: np.ndarray
    high: np.ndarray


class _TwoMasks(NamedTuple):
    surely: np.ndarray
    possibly: np.ndarray


class TopCategories(_TwoMasks):
    """Two boolean arrays that show which categories are among the k most frequent.

    You can unpack this pair: ``surely, possibly = top_categories(estimate, k)``. If printed, it
    lists the names of the categories.

    Parameters
    ----------
    surely : ndarray of shape (n_estimates, d)
        True for categories that are significantly among the k most frequent.
    possibly : ndarray of shape (n_estimates, d)
        True for categories that may be among the k most frequent. All other categories are
        significantly not among them.
    heading : str, default=""
        The number k and the level, for the printed text.
    categories : ndarray of shape (d,) or None, default=None
        The names of the categories, for the printed text. If None, it shows the two arrays.
    """

    heading: str
    categories: Any

    def __new__(
        cls, surely: np.ndarray, possibly: np.ndarray, heading: str = "", categories: Any = None
    ) -> TopCategories:
        self = super().__new__(cls, surely, possibly)
        self.heading = heading
        self.categories = categories
        return self

    def __repr__(self) -> str:
        if self.categories is None or len(self.surely) != 1:
            return super().__repr__()
        lines = [self.heading]
        for label, is_listed in (("surely", self.surely[0]), ("possibly", self.possibly[0])):
            names = self.categories[is_listed].tolist()
            shown = [str(name) for name in names[:MOST_LINES]]
            more = ["..."] * (len(names) > MOST_LINES)
            lines.append(f"{label} ({len(names):,}): {', '.join(shown + more)}")
        return "\n  ".join(printable(line) for line in lines)


def ranks(estimate: Estimate, level: float = 0.95, *, of: str = "users") -> RankInterval:
    """Return simultaneous intervals of the ranks of all categories.

    Category v is significantly above category w if the difference of their estimates, divided by
    its standard deviation, exceeds a critical value. The critical value is a quantile of the
    largest pairwise difference if all frequencies are equal (Tukey's studentized range). The rank
    of a category then lies between one plus the number of categories significantly above it, and d
    minus the number of categories significantly below it.

    Privacy: costs none.

    Parameters
    ----------
    estimate : FrequencyEstimate
        A raw estimate with a noise model.
    level : float, default=0.95
        Probability that all intervals contain the true ranks.
    of : {"users", "population"}, default="users"
        Whether the frequencies of the users or of their population are ranked. See
        :mod:`sklearn_ldp.inference`.

    Returns
    -------
    RankInterval
        `low` and `high`, each of shape (n_estimates, d). Equally frequent categories share several
        ranks, and the interval of each of these categories contains all these ranks.

    Raises
    ------
    ValueError
        If the estimate is post-processed or has no noise model, or the level is not in [0.5, 1).

    Notes
    -----
    With fewer than 300 categories the exact covariance of each pair is used. With more categories
    the errors are nearly uncorrelated, and the method assumes that they are uncorrelated. The
    intervals are conservative, because equal frequencies are the worst case.

    References
    ----------
    .. [1] M. Mogstad, J. P. Romano, A. M. Shaikh, D. Wilhelm, "Inference for ranks with
       applications to mobility across neighbourhoods and academic achievement across countries",
       Review of Economic Studies 91(1), 2024, :doi:`10.1093/restud/rdad006`.
    .. [2] J. W. Tukey, "The problem of multiple comparisons", 1953.

    Examples
    --------
    >>> from sklearn_ldp import OUE
    >>> from sklearn_ldp.inference import ranks
    >>> oracle = OUE(3.0, categories=["a", "b", "c"], random_state=0)
    >>> estimate = oracle.fit_transform(["a"] * 6000 + ["b"] * 2000 + ["c"] * 2000)
    >>> low, high = ranks(estimate)
    >>> low.tolist(), high.tolist()
    ([[1, 2, 2]], [[1, 3, 3]])
    """
    check_level(level)
    refuse_unknown_tails(estimate.noise, "intervals of ranks")
    rows = covariances_of_rows(estimate, of, "interval of ranks")
    d = estimate.shape[1]
    # The studentized range needs at least two categories.
    critical = stats.studentized_range.ppf(level, max(d, 2), np.inf) / np.sqrt(2)
    return RankInterval(*stacked([_ranks_of_row(*row, critical) for row in rows], d))


def top_categories(
    estimate: Estimate, k: int, level: float = 0.95, *, of: str = "users"
) -> TopCategories:
    """Return which categories are significantly, and which are possibly, among the k most frequent.

    Privacy: costs none.

    Parameters
    ----------
    estimate : FrequencyEstimate
        A raw estimate with a noise model.
    k : int
        Number of most frequent categories.
    level : float, default=0.95
        Probability that `surely` contains only categories among the k most frequent, and that
        `possibly` contains all of the k most frequent.
    of : {"users", "population"}, default="users"
        Whether the frequencies of the users or of their population are compared. See
        :mod:`sklearn_ldp.inference`.

    Returns
    -------
    TopCategories
        `surely` and `possibly`, each of shape (n_estimates, d).

    Raises
    ------
    ValueError
        If k is not an integer >= 1, the estimate is post-processed or has no noise model, or the
        level is not in [0.5, 1).

    Examples
    --------
    >>> from sklearn_ldp import OUE
    >>> from sklearn_ldp.inference import top_categories
    >>> oracle = OUE(3.0, categories=["a", "b", "c"], random_state=0)
    >>> estimate = oracle.fit_transform(["a"] * 6000 + ["b"] * 2000 + ["c"] * 2000)
    >>> surely, possibly = top_categories(estimate, 2)
    >>> estimate.categories[surely[0]].tolist(), estimate.categories[possibly[0]].tolist()
    (['a'], ['a', 'b', 'c'])
    >>> top_categories(estimate, 2)
    TopCategories: among the 2 most frequent (95 %, simultaneous)
      surely (1): a
      possibly (3): a, b, c
    """
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise ValueError(
            f"Argument k must be an integer >= 1, got {k!r}. Pass the number of most frequent "
            "categories."
        )
    low, high = ranks(estimate, level, of=of)
    heading = f"TopCategories: among the {k:,} most frequent ({100 * level:g} %, simultaneous)"
    return TopCategories(high <= k, low <= k, heading, named_missing(estimate.categories))


def _ranks_of_row(
    values: np.ndarray, covariances: EstimateCovariances, critical: float
) -> tuple[np.ndarray, np.ndarray]:
    d = len(values)
    variances = covariances.variances()
    covariance = None
    if covariances.is_of_counts:  # a difference has shorter tails than the error of one count
        critical = float(np.max(covariances.critical(critical)))
    if d < _FEW:
        with suppress(ValueError):  # the covariances are not known
            covariance = covariances.covariance(every_category(d))
    if covariance is not None:
        pair_variances = np.diag(covariance)[:, None] + np.diag(covariance) - 2 * covariance
        margins = critical * np.sqrt(np.maximum(pair_variances, 0))
        above = values[:, None] - values > margins
        n_below, n_above = above.sum(axis=1), above.sum(axis=0)
    else:
        n_below = _n_significantly_below(values, variances, critical)
        n_above = _n_significantly_below(-values, variances, critical)
    return 1 + n_above, d - n_below


def _n_significantly_below(
    values: np.ndarray, variances: np.ndarray, critical: float
) -> np.ndarray:
    """Return, for each category, the number of categories that are significantly below it.

    The errors of the categories are assumed to be uncorrelated. Needs O(d log d) steps.
    Shapes: values, variances (d,) -> (d,).
    critical: the critical value of a difference, in standard deviations.
    """
    # A category w is significantly below v if `x_w + u sqrt(s_v**2 + s_w**2) < x_v`. In the order
    # of the values the left side grows, so bisection counts these categories.
    order = np.argsort(values, kind="stable")
    x = values[order]
    s2 = variances[order]
    # If the left side grows for the smallest s_v, it grows for all s_v. Otherwise s_w**2 is
    # replaced by the largest variance so far. Then the left side grows, and the number can only be
    # too small.
    if np.any(np.diff(x + critical * np.sqrt(s2.min() + s2)) < 0):
        s2 = np.maximum.accumulate(s2)
    low = np.zeros(len(x), dtype=np.int64)
    high = np.arange(len(x))
    # Ends: each pass halves the distance of `low` and `high`.
    while np.any(is_open := low < high):
        middle = (low + high) // 2
        is_below = x[middle] + critical * np.sqrt(variances[order] + s2[middle]) < x
        low = np.where(is_open & is_below, middle + 1, low)
        high = np.where(is_open & ~is_below, middle, high)
    result = np.empty(len(x), dtype=np.int64)
    result[order] = low
    return result
