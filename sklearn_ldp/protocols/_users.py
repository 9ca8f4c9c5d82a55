"""The users that rows stand for: one per row, or as many as the row's weight says."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

#: The most users whose number a float holds exactly, as estimates, metrics and files need it.
MAX_USERS = 2**53


def check_counts(counts: ArrayLike, what: str) -> np.ndarray:
    """Return numbers of users as int64 of shape (n,).

    Parameters
    ----------
    counts : array-like of shape (n,)
        Non-negative integers (in any numeric dtype), not all zero, and at most 2**53 in total.
    what : str
        What error messages call them.

    Returns
    -------
    ndarray of shape (n,)
        The counts.

    Raises
    ------
    ValueError
        If they are anything else.
    """
    array = np.asarray(counts)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{what} must be a 1D array of numbers of users, got an array of dtype {array.dtype} "
            f"and shape {array.shape}."
        )
    if array.dtype.kind == "f":
        odd = ~np.isfinite(array) | (array != np.floor(array))
        if odd.any():
            raise ValueError(
                f"{what} must be whole numbers of users, got {array[np.argmax(odd)]}; a user "
                "cannot count in part."
            )
    if array.size and array.min() < 0:
        raise ValueError(f"{what} must not be negative, got {array.min()}.")
    if array.size and int(array.max()) > MAX_USERS // array.size:
        check_total(sum(map(int, array.tolist())), what)  # Python's integers do not overflow
    array = array.astype(np.int64)
    if array.sum() == 0:
        raise ValueError(f"{what} are all zero: there is no user.")
    return array


def check_total(n_users: int, what: str) -> None:
    """Raise ValueError if there are more users than a float can count.

    Parameters
    ----------
    n_users : int
        Number of users.
    what : str
        What the error message calls the numbers that add up to it.
    """
    if n_users > MAX_USERS:
        raise ValueError(
            f"{what} must add up to at most 2**53 users, so that all sums are exact, got "
            f"{n_users:,}. Are these numbers of users, and not ids or hashes?"
        )


def expand(ends: np.ndarray | None, start: int, stop: int) -> slice | np.ndarray:
    """Return the rows of the users in ``range(start, stop)``.

    Parameters
    ----------
    ends : ndarray of shape (n_rows,) or None
        The users of row i end before ``ends[i]``; None means one user per row.
    start, stop : int
        The range of users.

    Returns
    -------
    slice or ndarray of shape (stop - start,)
        The row of each of these users.
    """
    if ends is None:
        return slice(start, stop)
    low, high = np.searchsorted(ends, [start, stop - 1], side="right")
    inside = np.diff(np.clip(ends[low : high + 1], start, stop), prepend=start)
    return np.repeat(np.arange(low, high + 1), inside)
