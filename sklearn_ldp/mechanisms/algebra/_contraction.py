"""Sums over hyperplanes of a finite vector space, one digit at a time."""

from __future__ import annotations

import numpy as np

from ._finite_field import FiniteField

_CACHE = 2**18  # how many bytes of sums are worked on at a time
_PLACES = 2**20  # how many places of summands are held at a time


def contract(
    field: FiniteField, tables: np.ndarray, n_digits: int, n_codes: int, n_values: int = 1
) -> np.ndarray:
    """Sum tables over the reports (a, t) with ``<a, v> + s = t``, for the first codes v and s.

    ``T[a_{k-1}, .., a_0, t]`` becomes ``T'[v_{k-1}, a_{k-2}, .., t] =
    sum over a_{k-1} of T[a_{k-1}, .., t + a_{k-1} v_{k-1}]``, and so on for the other digits; in
    the end t = s. The cost is O(k g**(k + 2)) for tables of g**(k + 1) counts.

    Parameters
    ----------
    field : FiniteField
        GF(g).
    tables : ndarray of shape (m, g**(k + 1))
        Counts or weights of the reports: a is the number with the base-g digits a_{k-1} .. a_0,
        and the place of (a, t) is ``a * g + t``.
    n_digits : int
        Number k of digits.
    n_codes : int
        Number of vectors v, numbered in the same way, that are asked for.
    n_values : int, default=1
        Number of values s: 1 for s = 0 alone, or g for all of them.

    Returns
    -------
    ndarray of shape (m, n_codes, n_values)
        The sums, of the same type as `tables`.

    References
    ----------
    .. [1] V. Feldman, J. Nelson, H. Nguyen, K. Talwar, "Private frequency estimation via
       projective geometry", ICML 2022. https://proceedings.mlr.press/v162/feldman22a.html
       (the dynamic program of section 4, for prime g).
    """
    g, k, m = field.order, n_digits, len(tables)
    table = tables.reshape(1, m, g, g ** (k - 1), g)
    for j in reversed(range(k)):
        # Axes: digits of v found so far, table, digit a_j, digits below, t.
        n_above, n_below = table.shape[0], g**j
        flat = np.ascontiguousarray(table.transpose(2, 4, 0, 1, 3)).reshape(g * g, -1)
        # Only the first, highest digit can be limited by the number of codes.
        n_asked = min(g, -(-n_codes // n_below)) if n_above == 1 else g
        summed = _sum_over_digit(field, flat, n_asked, g if j else n_values)
        summed = summed.reshape(*summed.shape[:2], n_above, m, n_below)
        table = summed.transpose(2, 0, 3, 4, 1).reshape(n_above * n_asked, m, n_below, -1)
        if j:
            table = table.reshape(-1, m, g, n_below // g, g)
    return table.reshape(-1, m, n_values).transpose(1, 0, 2)[:, :n_codes]


def _sum_over_digit(
    field: FiniteField, flat: np.ndarray, n_asked: int, n_values: int
) -> np.ndarray:
    """Return the sum of the rows (a, t + a v) of a table over all a, for the first v and t."""
    g, n_columns = field.order, flat.shape[1]
    summed = np.empty((n_asked, n_values, n_columns), dtype=flat.dtype)
    some = max(_PLACES // (g * n_values), 1)
    for first in range(0, n_asked, some):
        part = summed[first : first + some]
        a, v, t = np.ogrid[:g, first : first + len(part), :n_values]
        places = a * g + field.add(t, field.multiply(a, v))
        # Block by block, so that what is added up stays in a processor's cache.
        width = max(_CACHE // part[:, :, 0].nbytes, 64)
        for start in range(0, n_columns, width):
            block = slice(start, start + width)
            columns = np.ascontiguousarray(flat[:, block])
            total = columns[places[0]]
            for place in places[1:]:
                total += columns[place]
            part[:, :, block] = total
    return summed
