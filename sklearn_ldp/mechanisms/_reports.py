"""Checks of what reports must look like, and the error messages if they do not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def check_hash_reports(reports: np.ndarray, n_functions: int, hash_range: int) -> np.ndarray:
    """Return reports of a hash function and a hash value as int64, or raise ValueError."""
    expect(
        reports.ndim == 2
        and reports.shape[1] == 2
        and (
            len(reports) == 0
            or (
                reports.min() >= 0
                and int(reports[:, 0].max()) < n_functions
                and reports[:, 1].max() < hash_range
            )
        ),
        f"an array of shape (n, 2) of integers, the first in [0, {n_functions - 1}], the second "
        f"in [0, {hash_range - 1}]",
        reports,
    )
    return reports.astype(np.int64, copy=False)


def bits_for(n_values: int) -> int:
    """Count the bits that are needed to tell values apart.

    Parameters
    ----------
    n_values : int
        Number of possible values.

    Returns
    -------
    int
        The binary logarithm of `n_values`, rounded up.
    """
    return (n_values - 1).bit_length()


def check_indices(reports: np.ndarray, n_values: int) -> np.ndarray:
    """Return reports that are one integer below `n_values` each, or raise ValueError."""
    expect(
        reports.ndim == 1 and (reports.size == 0 or 0 <= reports.min() <= reports.max() < n_values),
        f"an array of shape (n,) of integers in [0, {n_values - 1}]",
        reports,
    )
    return reports


def expect(condition: object, expectation: str, reports: np.ndarray) -> None:
    """Raise ValueError, saying what was expected and what came, unless a condition holds.

    Parameters
    ----------
    condition : bool
        Whether reports are as expected.
    expectation : str
        What was expected; it follows the word "expected" in the message.
    reports : ndarray
        The reports that came.

    Raises
    ------
    ValueError
        Unless the condition holds.
    """
    if not condition:
        came = f"an array of dtype {reports.dtype} and shape {reports.shape}"
        if reports.size and reports.dtype.kind in "iuf":
            came += f" with values from {reports.min()} to {reports.max()}"
        raise ValueError(f"expected {expectation}, got {came}")


def sorted_parts(parts: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each part that occurs, with the indices of its reports.

    Parameters
    ----------
    parts : ndarray of int of shape (n,)
        The part of each report.

    Yields
    ------
    (int, ndarray of int)
        The parts in their order, with rising indices.
    """
    # Integers of 16 bits are sorted by their digits, in linear time.
    is_small = parts.size and parts.min() >= 0 and parts.max() < 1 << 16
    order = np.argsort(parts.astype(np.uint16) if is_small else parts, kind="stable")
    present, begin = np.unique(parts[order], return_index=True)
    yield from zip(present.tolist(), np.split(order, begin[1:]), strict=True)


def counted_by_part(
    codes: np.ndarray, parts: np.ndarray, n_codes: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each part that occurs, with how often it has each code.

    Parameters
    ----------
    codes : ndarray of int of shape (n,)
        Codes, each in [0, n_codes - 1].
    parts : ndarray of int of shape (n,)
        The part of each code.
    n_codes : int
        Number of codes.

    Yields
    ------
    (int, ndarray of shape (n_codes,))
        The parts in their order, with their counts, int64.
    """
    if not parts.size:
        return
    first, n_parts = int(parts.min()), int(np.ptp(parts)) + 1
    counts = np.bincount((parts - first) * n_codes + codes, minlength=n_parts * n_codes)
    by_part = counts.astype(np.int64, copy=False).reshape(n_parts, n_codes)
    present = np.flatnonzero(by_part.any(axis=1))
    yield from zip((first + present).tolist(), by_part[present], strict=True)
