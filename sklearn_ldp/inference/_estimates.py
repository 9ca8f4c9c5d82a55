"""What the methods of an estimate call: checks of the input, and a loop over its rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._statements import check_level, check_of
from ..queries import as_query_set
from ._average_coverage import average_intervals
from ._intervals import Ends, intervals
from ._spread import Spread


def refuse_without_law(estimate: Any, what: str, other: str = "") -> None:
    """Raise ValueError unless an estimate is raw and its noise is known.

    Parameters
    ----------
    estimate : FrequencyEstimate
        The estimate.
    what : str
        What it is needed for, such as "confidence interval".
    other : str, default=""
        Another remedy than the raw estimate.
    """
    if len(estimate) == 0:
        raise ValueError(
            f"No {what} without users: nobody was asked about these {estimate.shape[1]} categories."
        )
    if not estimate.is_raw:
        raise ValueError(
            f"No {what} after {' and '.join(estimate.postprocessors)}: post-processing biases the "
            "estimate and changes its spread, so what it says would not hold at the stated level. "
            f"Use the raw estimate that the oracle returned (oracle.estimate_){other}."
        )
    if estimate.noise is None:
        raise ValueError(
            f"No {what} without a noise model; build the estimate with "
            "noise=NoiseModel(p, q, n_samples)."
        )


def spreads(estimate: Any, of: str, what: str, other: str = "") -> list[tuple[np.ndarray, Spread]]:
    """Return the values and the covariances of each row of a raw estimate.

    Parameters
    ----------
    estimate : FrequencyEstimate
        The estimate.
    of : {"users", "population"}
        Whom the statement is about.
    what, other : str
        What it is needed for, and another remedy, as for `refuse_without_law`.

    Returns
    -------
    list of (ndarray of shape (d,), Spread)
        One pair for each row.

    Raises
    ------
    ValueError
        If there is no raw estimate with a noise model, or `of` is something else.
    """
    check_of(of)
    refuse_without_law(estimate, what, other)
    noises = (estimate.noise.of_rows(i) for i in range(len(estimate)))
    rows = zip(estimate.values, noises, strict=True)
    return [(row, Spread.at_estimate(row, noise, of)) for row, noise in rows]


def stacked(ends: list[Ends], n_queries: int) -> Ends:
    """Return the ends of the intervals of all rows, each of shape (n_estimates, n_queries)."""
    both: np.ndarray = np.reshape(ends, (len(ends), 2, n_queries))
    return both[:, 0], both[:, 1]


def query_rows(queries: Any, estimate: Any) -> Any:
    """Return the matrix of queries for the categories of an estimate; None if there are none."""
    if queries is None:
        return None
    return as_query_set(queries).aligned(estimate.categories).matrix(estimate.shape[1])


def confidence_interval(
    estimate: Any, level: float, queries: Any, simultaneous: bool, of: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of `FrequencyEstimate.confidence_interval`, of shape (n_estimates, k)."""
    check_level(level)
    other = ', or ask for coverage="average", which holds on average'
    rows = spreads(estimate, of, "confidence interval", other)
    matrix = query_rows(queries, estimate)
    n_queries = estimate.shape[1] if matrix is None else matrix.shape[0]
    return stacked(
        [intervals(row, spread, matrix, level, simultaneous) for row, spread in rows], n_queries
    )


def average_interval(
    estimate: Any, level: float, queries: Any, simultaneous: bool, of: str, coverage: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of intervals that hold for a share of all categories, of shape (m, d)."""
    if coverage not in ("average", "posterior"):
        raise ValueError(
            f'Argument coverage must be one of "each", "average", "posterior", got {coverage!r}.'
        )
    if queries is not None or simultaneous:
        raise ValueError(
            "Intervals that hold on average are those of single categories, each by itself: for "
            'sums of categories, or all at once, ask the raw estimate with coverage="each".'
        )
    check_level(level)
    raw = estimate
    if not estimate.is_raw:
        if estimate.raw_values is None:
            refuse_without_law(estimate, "confidence interval")
        raw = estimate.as_raw()
    rows = spreads(raw, of, "confidence interval")
    return stacked(
        [average_intervals(row, spread, level, coverage) for row, spread in rows], raw.shape[1]
    )
