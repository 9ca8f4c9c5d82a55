"""Wald tests of hypotheses about all frequencies of an estimate.

The tests never need a whole covariance matrix, only its products with vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import chdtrc

from ..common.typing import Frequencies
from ..domains.values import as_distribution
from ..noise import as_rows
from ..numerics.simplex import norm_sub
from ._covariances import Estimate, EstimateCovariances, covariances_of_rows
from ._intervals import band

_TOLERANCE = 1e-4  # of the residual; the error of the quadratic form is about its square
_STEPS = 2_000  # a bound on work; more steps raise an error
Product = Callable[[np.ndarray], np.ndarray]


class WaldTest(NamedTuple):
    """Result of a Wald test, with one statistic and p-value for each row of an estimate.

    Parameters
    ----------
    statistic : ndarray of shape (n_estimates,)
        Approximately chi-square distributed if the hypothesis is true.
    degrees_of_freedom : int
        Degrees of freedom of the chi-square distribution.
    p_value : ndarray of shape (n_estimates,)
        Probability of a statistic at least this large if the hypothesis is true.
    """

    statistic: np.ndarray
    degrees_of_freedom: int
    p_value: np.ndarray


def wald_test(statistics: list[float], degrees_of_freedom: int) -> WaldTest:
    """Return the result of a Wald test from the test statistic of each row of an estimate."""
    values = np.array(statistics)
    return WaldTest(values, degrees_of_freedom, chdtrc(degrees_of_freedom, values))


def goodness_of_fit(
    estimate: Estimate, frequencies: Frequencies, *, of: str = "population"
) -> WaldTest:
    """Test whether the true distribution equals an expected distribution.

    Privacy: costs none.

    Parameters
    ----------
    estimate : FrequencyEstimate of shape (n_estimates, d)
        A raw estimate.
    frequencies : array-like of shape (d,)
        The expected distribution. It must not be computed from the reports behind the estimate. A
        pandas Series may be in any order if its index contains the categories.
    of : {"population", "users"}, default="population"
        The tested distribution: the distribution of the population that the users are a random
        sample of, or the distribution of the users themselves. See :mod:`sklearn_ldp.inference`.

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
    rows = covariances_of_rows(estimate, of, "test of fit")
    expected = as_distribution(frequencies, estimate.categories, "goodness_of_fit")
    statistics = []
    for values, covariances in rows:
        under = replace(covariances, frequencies=expected)
        difference = beyond_half_count(values - expected, under.half_count)
        statistics.append(sum_known(difference, under.product, under.variances()))
    return wald_test(statistics, estimate.shape[1] - 1)


def homogeneity(estimate: Estimate, *, of: str = "population") -> WaldTest:
    """Test whether all groups have the same distribution.

    Privacy: costs none.

    Parameters
    ----------
    estimate : FrequencyEstimate of shape (n_groups, d)
        A raw estimate with a row for each of at least two groups of different users, as
        :func:`~sklearn_ldp.oracles.estimate_by_group` and
        :meth:`FrequencyEstimate.from_rows <sklearn_ldp.FrequencyEstimate.from_rows>` return it.
    of : {"population", "users"}, default="population"
        Whether the distributions of the populations or of the users are compared. See
        :mod:`sklearn_ldp.inference`.

    Returns
    -------
    WaldTest
        One statistic and p-value, with (n_groups - 1) (d - 1) degrees of freedom.

    Raises
    ------
    ValueError
        If there are fewer than two groups, the estimate is post-processed or has no noise model, or
        the covariances of the mechanism are not known.

    See Also
    --------
    EstimateDifference.test : The same test for two groups, which may have different oracles.

    Notes
    -----
    Under the hypothesis the covariance matrices of the groups are proportional to the inverse
    numbers of users. So the mean over all users is the best estimate of the common distribution.
    The statistic is the sum of the Wald statistics of the groups' distances from this mean.

    Examples
    --------
    >>> from sklearn_ldp import OUE
    >>> from sklearn_ldp.inference import homogeneity
    >>> from sklearn_ldp.oracles import estimate_by_group
    >>> answers = ["yes", "no"] * 5000 + ["yes"] * 4000 + ["no"] * 6000 + ["yes", "no"] * 5000
    >>> regions = ["north"] * 10_000 + ["south"] * 10_000 + ["east"] * 10_000
    >>> oracle = OUE(2.0, categories=["yes", "no"], random_state=0)
    >>> test = homogeneity(estimate_by_group(oracle, answers, regions))
    >>> test.degrees_of_freedom, bool(test.p_value[0] < 1e-6)
    (2, True)
    """
    rows = covariances_of_rows(estimate, of, "test of homogeneity")
    if len(rows) < 2:
        raise ValueError(
            "A test of homogeneity needs an estimate with at least two rows (groups), got "
            f"{len(rows)} rows. Use estimate_by_group, or FrequencyEstimate.from_rows."
        )
    n_users = [covariances.n_samples for _, covariances in rows]
    mean = np.average([values for values, _ in rows], axis=0, weights=n_users)
    pooled = norm_sub(mean) if estimate.sums_to_one else np.clip(mean, 0, 1)
    statistic = 0.0
    for values, covariances in rows:
        under = replace(covariances, frequencies=pooled)
        difference = beyond_half_count(values - mean, under.half_count)
        statistic += sum_known(difference, under.product, under.variances())
    return wald_test([statistic], (len(rows) - 1) * (estimate.shape[1] - 1))


def independence(estimate: Estimate, *, of: str = "population") -> WaldTest:
    """Test whether two attributes are independent, from an estimate of their joint frequencies.

    Privacy: costs none.

    Parameters
    ----------
    estimate : FrequencyEstimate of shape (n_estimates, d_a * d_b)
        A raw estimate. Its categories are all pairs of a value of the first attribute and a value
        of the second attribute, in any order.
    of : {"population", "users"}, default="population"
        The tested group: the population that the users are a random sample of, or the users
        themselves. See :mod:`sklearn_ldp.inference`.

    Returns
    -------
    WaldTest
        One statistic and p-value for each estimate, with (d_a - 1) (d_b - 1) degrees of freedom.

    Raises
    ------
    ValueError
        If the categories are not all pairs of values of two attributes, the estimate is
        post-processed or has no noise model, or the covariances of the mechanism are not known.

    Notes
    -----
    Let F be the matrix of the joint frequencies, and f_a and f_b its row sums and column sums. The
    statistic compares ``Delta = F - f_a f_b'`` with its covariance matrix, which the delta method
    provides under the hypothesis ``F = f_a f_b'``.

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
    if hasattr(estimate, "items"):  # a set of estimates
        raise TypeError(
            f"independence needs the table of two columns, got {type(estimate).__name__}. Call "
            "tables.independence(a, b) with the names of two columns of a MarginalOracle, or "
            "select one table, as in tables[a, b]."
        )
    rows = covariances_of_rows(estimate, of, "test of independence")
    order, names = as_table(estimate.categories)
    shape = len(names[0]), len(names[1])
    statistics = [_independence(*row, order, shape) for row in rows]
    return wald_test(statistics, (shape[0] - 1) * (shape[1] - 1))


class Departures(NamedTuple):
    """Differences between joint frequencies and the product of their margins, and their noise.

    The differences are 0 if the two attributes are independent.
    """

    # (d_a, d_b): the joint frequencies minus the products of the margins.
    differences: np.ndarray
    std: np.ndarray  # (d_a, d_b): their standard deviations if the attributes are independent
    critical: float  # simultaneous critical value, in standard deviations


def departures(estimate: Estimate, level: float, of: str) -> Departures:
    """Return a table of joint frequencies minus the product of its margins, with the noise.

    Shapes: estimate (1, d_a * d_b).
    level: the probability that no difference exceeds the critical value if the attributes are
    independent.
    """
    ((values, covariances),) = covariances_of_rows(estimate, of, "comparison with independence")
    order, (first, second) = as_table(estimate.categories)
    table = _laid_out(values, order, (len(first), len(second)))
    row_sums, column_sums, product = _margins(table)
    # The matrix J of `_centered`, with one row for each cell.
    jacobian = np.kron(
        np.eye(len(first)) - np.outer(row_sums, np.ones(len(first))),
        np.eye(len(second)) - np.outer(column_sums, np.ones(len(second))),
    )
    under = replace(covariances, frequencies=product.ravel()[order])
    critical, std = band(under, as_rows(jacobian[:, order]), level)
    return Departures(from_independence(table), std.reshape(table.shape), critical)


def from_independence(table: np.ndarray) -> np.ndarray:
    """Return a table of joint frequencies minus the product of its row sums and column sums.

    Shapes: table (d_a, d_b) -> (d_a, d_b).
    table: joint frequencies; their sum need not be 1.
    """
    row_sums, column_sums, _ = _margins(table)
    return _centered(table, row_sums, column_sums)


def as_table(categories: np.ndarray) -> tuple[np.ndarray, tuple[list[Any], list[Any]]]:
    """Arrange categories that are pairs of values of two attributes in a table.

    Shapes: categories (d_a * d_b,) -> (d_a * d_b,).
    categories: all pairs of a value of the first attribute and a value of the second, in any order.
    Returns: the index of the cell of each category in the table of shape (d_a, d_b), in row-major
    order; and a pair of lists, the values of the first and of the second attribute.
    """
    pairs = categories.tolist()
    if all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        first, second = (list(dict.fromkeys(values)) for values in zip(*pairs, strict=True))
        if len(first) * len(second) == len(pairs) and min(len(first), len(second)) > 1:
            row, column = ({v: i for i, v in enumerate(names)} for names in (first, second))
            places = np.array([row[a] * len(second) + column[b] for a, b in pairs])
            return places, (first, second)
    raise ValueError(
        "A test of independence needs an estimate whose categories are all pairs of values of two "
        f"attributes, got {len(pairs):,} categories such as {pairs[0]!r}. Fit an oracle to two "
        "columns."
    )


def _margins(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the margins of a table of joint frequencies, and the table for independent attributes.

    The margins are the row sums and the column sums, scaled to the sum 1. The third result is the
    outer product of both margins, after their projection to distributions.
    Shapes: table (d_a, d_b) -> (d_a,), (d_b,), (d_a, d_b).
    """
    total = table.sum()
    row_sums = table.sum(axis=1)
    column_sums = table.sum(axis=0)
    if total > 0.5:
        row_sums = row_sums / total
        column_sums = column_sums / total
    else:  # the total estimates 1, so a total this small is dominated by noise
        row_sums = norm_sub(row_sums)
        column_sums = norm_sub(column_sums)
    return row_sums, column_sums, np.outer(norm_sub(row_sums), norm_sub(column_sums))


def _centered(x: np.ndarray, row_sums: np.ndarray, column_sums: np.ndarray) -> np.ndarray:
    """Return the linearized difference of a table from the product of its margins.

    The linearization is at the margins `row_sums` and `column_sums`. It is a linear function of the
    table, which comments call J.
    Shapes: x (d_a, d_b), row_sums (d_a,), column_sums (d_b,) -> (d_a, d_b).
    """
    x = x - np.outer(row_sums, x.sum(axis=0))
    return x - np.outer(x.sum(axis=1), column_sums)


def _laid_out(values: np.ndarray, places: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    table = np.empty(shape)
    table.ravel()[places] = values
    return table


def _independence(
    values: np.ndarray, covariances: EstimateCovariances, places: np.ndarray, shape: tuple[int, int]
) -> float:
    table = _laid_out(values, places, shape)
    row_sums, column_sums, product = _margins(table)
    under = replace(covariances, frequencies=product.ravel()[places])

    def transposed(x: np.ndarray) -> np.ndarray:
        x = x - row_sums @ x
        return x - (x @ column_sums)[:, None]

    def covariance(x: np.ndarray) -> np.ndarray:
        products = under.product(transposed(x.reshape(shape)).ravel()[places])
        return _centered(_laid_out(products, places, shape), row_sums, column_sums)

    variances = _laid_out(under.variances(), places, shape)
    tau = float(variances.mean())

    def regular(x: np.ndarray) -> np.ndarray:
        # J Sigma J' is 0 for tables with equal rows or equal columns. The added term is positive
        # there.
        square = x.reshape(shape)
        means = square.mean(axis=1, keepdims=True) + square.mean(axis=0) - square.mean()
        return (covariance(x) + tau * means).ravel()

    return quadratic_form(
        regular, variances.ravel(), _centered(table, row_sums, column_sums).ravel()
    )


# -- quadratic forms --------------------------------------------------------------------------
def quadratic_form(product: Product, diagonal: np.ndarray, vector: np.ndarray) -> float:
    """Return ``vector' M^-1 vector`` for a positive definite matrix M, by conjugate gradients.

    product: the function that multiplies M by a vector.
    diagonal: the diagonal of M, of shape (d,), or an approximation; it only affects the speed.
    vector: of shape (d,).
    """
    d = len(vector)
    if not np.any(vector):
        return 0.0
    scale = 1 / diagonal
    solution, failed = cg(
        LinearOperator((d, d), product, dtype=np.float64),
        vector,
        rtol=_TOLERANCE,
        maxiter=_STEPS,
        M=LinearOperator((d, d), lambda x: scale * x, dtype=np.float64),
    )
    if failed:
        raise RuntimeError(
            f"The conjugate gradients of a Wald test did not converge in {_STEPS} steps, with {d} "
            "categories. Please report the oracle, its parameters and the number of users."
        )
    return float(vector @ solution)


def beyond_half_count(difference: np.ndarray, half_count: float) -> np.ndarray:
    """Move each difference toward 0 by half a count, but not beyond 0 (Yates's correction).

    Shapes: difference (d,) -> (d,). half_count: half a count on the scale of the differences.
    """
    return np.sign(difference) * np.maximum(np.abs(difference) - half_count, 0)


def sum_known(difference: np.ndarray, product: Product, variances: np.ndarray) -> float:
    """Return the Wald statistic of a difference of two distributions, whose true sum is 0.

    Shapes: difference (d,), variances (d,).
    product: the function that multiplies the covariance matrix Sigma of the difference by a vector.
    Because the true sum is known, the difference is replaced by its residual mu after regression
    on its own sum, `mu = delta - S (1' delta) / T` with `S = Sigma 1` and `T = 1' S`. The residual
    has the sum 0 and the covariance matrix `R = Sigma - S S' / T`. For any c > 0 let x be the
    solution of `(Sigma + c S S') x = mu`. Multiplication by 1' shows that `S' x = 0`, hence
    `R x = mu`, and `mu' x` is the statistic with the generalized inverse of R. Oracles with
    estimates that always sum to 1, such as GRR, have S = 0. Then the vector of ones replaces S.
    """
    d = len(difference)
    sum_covariances = product(np.ones(d))  # S
    total = float(sum_covariances.sum())  # T
    if total > 1e-9 * float(variances.sum()):
        residual = difference - sum_covariances * (difference.sum() / total)
    else:
        sum_covariances = np.ones(d)
        residual = difference - difference.mean()
    c = float(variances.mean()) / float(sum_covariances @ sum_covariances)
    return quadratic_form(
        lambda x: product(x) + (c * (sum_covariances @ x)) * sum_covariances,
        variances + c * sum_covariances**2,
        residual - residual.mean(),
    )
