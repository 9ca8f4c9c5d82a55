"""What the methods of an estimate call: checks of the input, and a loop over its rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..queries import as_query_set
from ._intervals import intervals
from ._spread import Spread, check_level, check_of


def refuse_without_law(estimate: Any, what: str) -> None:
    """Raise ValueError unless an estimate is raw and its noise is known.

    Parameters
    ----------
    estimate : FrequencyEstimate
        The estimate.
    what : str
        What it is needed for, such as "confidence interval".
    """
    if not estimate.is_raw:
        raise ValueError(
            f"No {what} after {' and '.join(estimate.postprocessors)}: post-processing biases the "
            "estimate and changes its spread, so what it says would not hold at the stated level. "
            "Use the raw estimate that the oracle returned (oracle.estimate_)."
        )
    if estimate.noise is None:
        raise ValueError(
            f"No {what} without a noise model; build the estimate with "
            "noise=NoiseModel(p, q, n_samples)."
        )


def spreads(estimate: Any, of: str, what: str) -> list[tuple[np.ndarray, Spread]]:
    """Return the values and the covariances of each row of a raw estimate.

    Parameters
    ----------
    estimate : FrequencyEstimate
        The estimate.
    of : {"users", "population"}
        Whom the statement is about.
    what : str
        What it is needed for, as for `refuse_without_law`.

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
    refuse_without_law(estimate, what)
    noises = (estimate.noise.of_rows(i) for i in range(len(estimate)))
    rows = zip(estimate.values, noises, strict=True)
    return [(row, Spread.at_estimate(row, noise, of)) for row, noise in rows]


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
    rows, matrix = spreads(estimate, of, "confidence interval"), query_rows(queries, estimate)
    ends = [intervals(row, spread, matrix, level, simultaneous) for row, spread in rows]
    low, high = zip(*ends, strict=True) if ends else ((), ())
    shape = (len(estimate), estimate.shape[1] if matrix is None else matrix.shape[0])
    return np.reshape(low, shape), np.reshape(high, shape)
