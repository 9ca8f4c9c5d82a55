"""Sums over hyperplanes of a finite vector space, one digit at a time."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from threadpoolctl import ThreadpoolController  # which scikit-learn requires

from ._finite_field import FiniteField


def contract(
    field: FiniteField, tables: np.ndarray, n_digits: int, n_codes: int, n_values: int = 1
) -> np.ndarray:
    """Sum tables over the reports (a, t) with ``<a, v> + s = t``, for the first codes v and s.

    ``T[a_{k-1}, .., a_0, t]`` becomes ``T'[v_{k-1}, a_{k-2}, .., t] =
    sum over a_{k-1} of T[a_{k-1}, .., t + a_{k-1} v_{k-1}]``, and so on for the other digits; in
    the end t = s. Each step is a product with a 0/1 matrix, exact in float64 as long as the
    counts add up to less than 2**53. The cost is O(k g**(k + 2)) for tables of g**(k + 1) counts.

    Parameters
    ----------
    field : FiniteField
        GF(g).
    tables : ndarray of shape (m, g**(k + 1))
        Counts or weights of the reports: a is the number with the base-g digits a_{k-1} .. a_0,
        and the place of (a, t) is ``a * g + t``.
    n_digits : int
        k.
    n_codes : int
        How many vectors v, numbered in the same way, are asked for.
    n_values : int, default=1
        How many s: 0 alone, or all g.

    Returns
    -------
    ndarray of shape (m, n_codes, n_values)
        Of the type of `tables`.

    References
    ----------
    .. [1] V. Feldman, J. Nelson, H. Nguyen, K. Talwar, "Private frequency estimation via
       projective geometry", ICML 2022. https://proceedings.mlr.press/v162/feldman22a.html
       (the dynamic program of section 4, for prime g).
    """
    g, k, m = field.order, n_digits, len(tables)
    a, t = np.divmod(np.arange(g * g), g)
    table = tables.astype(np.float64).reshape(1, m, g, g ** (k - 1), g)
    for j in reversed(range(k)):
        # Axes: digits of v found so far, table, digit a_j, digits below, t.
        n_above, n_below = table.shape[0], g**j
        flat = np.ascontiguousarray(table.transpose(2, 4, 0, 1, 3)).reshape(g * g, -1)
        # Only the first, highest digit can be limited by the number of codes.
        n_values = min(g, -(-n_codes // n_below)) if n_above == 1 else g
        wanted = np.arange(n_values if j == 0 else g)
        summed = np.empty((n_values, len(wanted), flat.shape[1]))
        for v in range(n_values):
            shifted = field.subtract(t, field.multiply(a, np.full_like(a, v)))
            selection = (shifted == wanted[:, None]).astype(np.float64)
            # Small products: threads would wait for each other, long so on a busy machine.
            with _thread_pools().limit(limits=1, user_api="blas"):
                summed[v] = selection @ flat
        summed = summed.reshape(n_values, len(wanted), n_above, m, n_below)
        table = summed.transpose(2, 0, 3, 4, 1).reshape(n_above * n_values, m, n_below, -1)
        if j:
            table = table.reshape(-1, m, g, n_below // g, g)
    return table.reshape(-1, m, n_values).transpose(1, 0, 2)[:, :n_codes].astype(tables.dtype)


@lru_cache(maxsize=1)
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()
