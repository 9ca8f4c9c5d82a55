"""Wald tests of many frequencies at once, by products with the covariance matrix alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import chdtrc

_TOLERANCE = 1e-4  # of the residual; the error of the quadratic form is about its square
_STEPS = 2_000
Product = Callable[[np.ndarray], np.ndarray]


class WaldTest(NamedTuple):
    """Result of a Wald test, one number for each estimate.

    Parameters
    ----------
    statistic : ndarray of shape (n_estimates,)
        Approximately chi-square distributed if the hypothesis holds.
    degrees_of_freedom : int
        Degrees of freedom of that distribution.
    p_value : ndarray of shape (n_estimates,)
        Probability of a statistic at least this large if the hypothesis holds.
    """

    statistic: np.ndarray
    degrees_of_freedom: int
    p_value: np.ndarray


def wald_test(statistics: list[float], degrees_of_freedom: int) -> WaldTest:
    """Return the result for the statistics of all estimates."""
    values = np.array(statistics)
    return WaldTest(values, degrees_of_freedom, chdtrc(degrees_of_freedom, values))


def quadratic_form(product: Product, diagonal: np.ndarray, vector: np.ndarray) -> float:
    """Return ``vector' M^-1 vector`` for a positive definite matrix M.

    Parameters
    ----------
    product : callable
        Returns M times a vector of shape (d,).
    diagonal : ndarray of shape (d,)
        About the diagonal of M: the preconditioner of conjugate gradients.
    vector : ndarray of shape (d,)
        The vector.

    Returns
    -------
    float
        The quadratic form.

    Raises
    ------
    RuntimeError
        If conjugate gradients do not converge.
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
            f"Conjugate gradients did not converge in {_STEPS} steps over {d} categories. Please "
            "report the oracle, its parameters and the number of users."
        )
    return float(vector @ solution)


def sum_known(difference: np.ndarray, product: Product, variances: np.ndarray) -> float:
    """Return the Wald statistic of a difference of frequencies whose true sum is known to be 0.

    Parameters
    ----------
    difference : ndarray of shape (d,)
        The estimated difference.
    product : callable
        Returns its covariance matrix Sigma times a vector.
    variances : ndarray of shape (d,)
        The diagonal of Sigma.

    Returns
    -------
    float
        The statistic, of d - 1 degrees of freedom.

    Notes
    -----
    As the true sum is known, the difference is replaced by its residual mu after regression on its
    own sum, ``mu = delta - S (1' delta) / T`` with ``S = Sigma 1`` and ``T = 1' S``. Its sum is 0,
    and its covariance matrix is ``R = Sigma - S S' / T``. With any c > 0 the solution x of
    ``(Sigma + c S S') x = mu`` has ``S' x = 0``, as multiplication by 1' shows, hence ``R x = mu``,
    and ``mu' x`` is the statistic with the generalised inverse of R. An oracle such as GRR, whose
    estimates always sum to 1, has S = 0, and the vector of ones takes the place of S.
    """
    d = len(difference)
    of_sum = product(np.ones(d))
    total = float(of_sum.sum())
    if total > 1e-9 * float(variances.sum()):
        residual = difference - of_sum * (difference.sum() / total)
    else:
        of_sum, residual = np.ones(d), difference - difference.mean()
    c = float(variances.mean()) / float(of_sum @ of_sum)
    return quadratic_form(
        lambda x: product(x) + (c * (of_sum @ x)) * of_sum,
        variances + c * of_sum**2,
        residual - residual.mean(),
    )
