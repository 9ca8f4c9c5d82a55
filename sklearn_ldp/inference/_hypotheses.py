"""Tests of a hypothesis about all frequencies of one estimate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._noise import as_rows
from .._typing import Frequencies, FrequencyEstimate
from ..domains.values import in_order
from ..postprocessing import norm_sub
from ._estimates import spreads
from ._intervals import band
from ._spread import Spread
from ._wald import WaldTest, quadratic_form, sum_known, wald_test


def goodness_of_fit(
    estimate: FrequencyEstimate, frequencies: Frequencies, *, of: str = "population"
) -> WaldTest:
    """Test whether the true distribution is a given one.

    Privacy: costs none.

    Parameters
    ----------
    estimate : FrequencyEstimate of shape (n_estimates, d)
        A raw estimate.
    frequencies : array-like of shape (d,)
        The distribution to compare with; it must not have been made from the same reports. A
        pandas Series may be in any order if its index holds the categories.
    of : {"population", "users"}, default="population"
        Whose distribution it is: that of the population that the users are a random sample of, or
        that of the users themselves.

    Returns
    -------
    WaldTest
        One statistic and p-value for each estimate, with d - 1 degrees of freedom.

    Raises
    ------
    ValueError
        If the estimate is post-processed or has no noise model, the frequencies are not a
        distribution over its categories, or the covariances of the mechanism are not known.

    Examples
    --------
    >>> from sklearn_ldp import OUE
    >>> from sklearn_ldp.inference import goodness_of_fit
    >>> oracle = OUE(2.0, categories=["a", "b", "c"], random_state=0)
    >>> estimate = oracle.fit_transform(["a", "b", "b", "c"] * 5000)
    >>> goodness_of_fit(estimate, [0.25, 0.5, 0.25]).p_value.round(2)
    array([0.63])
    >>> bool(goodness_of_fit(estimate, [0.25, 0.25, 0.5]).p_value < 1e-6)
    True
    """
    rows = spreads(estimate, of, "test of fit")
    expected = np.asarray(
        in_order(frequencies, estimate.categories, "The array of frequencies"), dtype=np.float64
    )
    is_distribution = expected.shape == (estimate.shape[1],) and np.all(expected >= 0)
    if not (is_distribution and abs(expected.sum() - 1) < 1e-6):
        raise ValueError(
            f"goodness_of_fit needs {estimate.shape[1]} frequencies >= 0 that sum to 1, got "
            f"{expected.size} with the sum {expected.sum():g}; divide counts by their sum."
        )
    statistics = []
    for values, spread in rows:
        under = replace(spread, frequencies=expected)
        statistics.append(sum_known(values - expected, under.product, under.variances()))
    return wald_test(statistics, estimate.shape[1] - 1)


def independence(estimate: FrequencyEstimate, *, of: str = "population") -> WaldTest:
    """Test whether two attributes of a joint domain are independent.

    Privacy: costs none.

    Parameters
    ----------
    estimate : FrequencyEstimate of shape (n_estimates, d_a * d_b)
        A raw estimate whose categories are all pairs of a value of the first and one of the second
        attribute, in any order.
    of : {"population", "users"}, default="population"
        Among whom: in the population that the users are a random sample of, or among the users
        themselves.

    Returns
    -------
    WaldTest
        One statistic and p-value for each estimate, with (d_a - 1) (d_b - 1) degrees of freedom.

    Raises
    ------
    ValueError
        If the categories are not all pairs of two attributes, the estimate is post-processed or has
        no noise model, or the covariances of the mechanism are not known.

    Notes
    -----
    The difference ``Delta = F - f_a f_b'`` of the joint frequencies from the product of their
    margins is compared with its covariance by the delta method, at the product of the margins.

    Examples
    --------
    >>> import itertools
    >>> from sklearn_ldp import OUE
    >>> from sklearn_ldp.inference import independence
    >>> pairs = list(itertools.product(["F", "M"], ["yes", "no"]))
    >>> oracle = OUE(3.0, categories=pairs, random_state=0)
    >>> estimate = oracle.fit_transform((pairs * 4 + [("F", "yes"), ("M", "no")]) * 2000)
    >>> test = independence(estimate)
    >>> test.degrees_of_freedom, bool(test.p_value[0] < 0.01)
    (1, True)
    """
    rows = spreads(estimate, of, "test of independence")
    order, names = as_table(estimate.categories)
    shape = len(names[0]), len(names[1])
    statistics = [_independence(values, spread, order, shape) for values, spread in rows]
    return wald_test(statistics, (shape[0] - 1) * (shape[1] - 1))


class Departures(NamedTuple):
    """How far the cells of a table are from those of independent attributes, and their noise.

    Parameters
    ----------
    differences : ndarray of shape (d_a, d_b)
        The joint frequencies minus the products of the margins, as the sum of all is.
    std : ndarray of shape (d_a, d_b)
        Their standard deviations if the attributes are independent.
    critical : float
        How many of them the differences stay within, all at once, with the probability asked for.
    """

    differences: np.ndarray
    std: np.ndarray
    critical: float


def departures(estimate: FrequencyEstimate, level: float, of: str) -> Departures:
    """Return how far the cells of a table are from those of independent attributes.

    Parameters
    ----------
    estimate : FrequencyEstimate of shape (1, d_a * d_b)
        A raw estimate, as for :func:`independence`.
    level : float
        Probability that all differences are within the noise if the attributes are independent.
    of : {"population", "users"}
        Among whom.

    Returns
    -------
    Departures
        By the delta method, as in the test of independence.

    Raises
    ------
    ValueError
        As :func:`independence`.
    """
    ((values, spread),) = spreads(estimate, of, "comparison with independence")
    order, (first, second) = as_table(estimate.categories)
    table = np.empty((len(first), len(second)))
    table.ravel()[order] = values
    of_rows, of_columns, product = _margins(table)
    # J of _independence as a matrix, with one row for each cell.
    of_cells = np.kron(
        np.eye(len(first)) - np.outer(of_rows, np.ones(len(first))),
        np.eye(len(second)) - np.outer(of_columns, np.ones(len(second))),
    )
    spread = replace(spread, frequencies=product.ravel()[order])
    critical, std = band(spread, as_rows(of_cells[:, order]), level)
    return Departures(from_independence(table), std.reshape(table.shape), critical)


def from_independence(table: np.ndarray) -> np.ndarray:
    """Return a table minus that of independent attributes with the same margins.

    Parameters
    ----------
    table : ndarray of shape (d_a, d_b)
        Joint frequencies; their sum need not be 1.

    Returns
    -------
    ndarray of shape (d_a, d_b)
        The differences.
    """
    of_rows, of_columns, _ = _margins(table)
    return _centred(table, of_rows, of_columns)


def as_table(categories: np.ndarray) -> tuple[np.ndarray, tuple[list[Any], list[Any]]]:
    """Return how categories that are pairs make a table.

    Parameters
    ----------
    categories : ndarray of shape (d_a * d_b,)
        All pairs of a value of the first and one of the second attribute, in any order.

    Returns
    -------
    (ndarray of shape (d_a * d_b,), (list, list))
        The place of each category in the table, in C order; and the values of both attributes.

    Raises
    ------
    ValueError
        If they are something else.
    """
    pairs = categories.tolist()
    if all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        first, second = (list(dict.fromkeys(values)) for values in zip(*pairs, strict=True))
        if len(first) * len(second) == len(pairs) and min(len(first), len(second)) > 1:
            row, column = ({v: i for i, v in enumerate(names)} for names in (first, second))
            places = np.array([row[a] * len(second) + column[b] for a, b in pairs])
            return places, (first, second)
    raise ValueError(
        "A test of independence needs all pairs of two attributes with at least two values each as "
        f"categories, got {len(pairs):,} such as {pairs[0]!r}. Fit an oracle to two columns."
    )


def _margins(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the margins of a table with the sum 1, and the nearest table of independent ones."""
    total, of_rows, of_columns = table.sum(), table.sum(axis=1), table.sum(axis=0)
    if total > 0.5:
        of_rows, of_columns = of_rows / total, of_columns / total
    else:  # far from the 1 that it estimates: nothing but noise
        of_rows, of_columns = norm_sub(of_rows), norm_sub(of_columns)
    return of_rows, of_columns, np.outer(norm_sub(of_rows), norm_sub(of_columns))


def _centred(x: np.ndarray, of_rows: np.ndarray, of_columns: np.ndarray) -> np.ndarray:
    """J x: what is left of a table after its margins, to first order."""
    x = x - np.outer(of_rows, x.sum(axis=0))
    return x - np.outer(x.sum(axis=1), of_columns)


def _independence(
    values: np.ndarray, spread: Spread, places: np.ndarray, shape: tuple[int, int]
) -> float:
    table = np.empty(shape)
    table.ravel()[places] = values
    of_rows, of_columns, product = _margins(table)
    spread = replace(spread, frequencies=product.ravel()[places])

    def transposed(x: np.ndarray) -> np.ndarray:
        x = x - of_rows @ x
        return x - (x @ of_columns)[:, None]

    def covariance(x: np.ndarray) -> np.ndarray:
        of_pairs = spread.product(transposed(x.reshape(shape)).ravel()[places])
        back = np.empty(shape)
        back.ravel()[places] = of_pairs
        return _centred(back, of_rows, of_columns)

    variances = np.empty(shape)
    variances.ravel()[places] = spread.variances()
    tau = float(variances.mean())

    def regular(x: np.ndarray) -> np.ndarray:
        """J Sigma J' has no part in tables whose rows, or columns, are all equal."""
        square = x.reshape(shape)
        means = square.mean(axis=1, keepdims=True) + square.mean(axis=0) - square.mean()
        return (covariance(x) + tau * means).ravel()

    return quadratic_form(regular, variances.ravel(), _centred(table, of_rows, of_columns).ravel())
