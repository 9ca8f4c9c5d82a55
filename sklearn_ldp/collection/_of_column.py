"""The reports on one column of a survey, for the tests of reports."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from .._typing import OracleOrProtocol
from ..oracles._survey import BaseSurvey
from ..protocols import Protocol, as_protocol
from ._convert import as_chunks


def of_column(reports: Any, oracle: OracleOrProtocol, column: Any) -> tuple[Any, Protocol]:
    """Return the reports to test, and what they are of.

    Parameters
    ----------
    reports : array-like, Arrow stream or iterator of those
        Reports of the oracle or survey.
    oracle : oracle, survey or Protocol
        Unfitted, with declared categories.
    column : object or None
        The column of a survey whose reports are wanted; None takes the reports as they are.

    Returns
    -------
    (reports, Protocol)
        Of a column, those of its own oracle.

    Raises
    ------
    ValueError
        If the survey has no such column, or its users report on several.
    TypeError
        If a column is named, and the oracle has only one.
    """
    protocol = as_protocol(oracle)
    if column is None:
        return reports, protocol
    if not isinstance(oracle, BaseSurvey):
        raise TypeError(
            f"Argument column is for surveys such as ColumnOracle, got {oracle!r}: leave it out."
        )
    parts = oracle._planned_parts()
    if column not in parts:
        raise ValueError(
            f"{protocol.name} has no column {column!r}; it has {', '.join(map(repr, parts))}."
        )
    if getattr(protocol.mechanism, "n_drawn", 1) != 1:
        raise ValueError(
            f"Argument column needs reports about one column each, but users of {protocol.name} "
            "report on several: collect with n_sampled=1 to test the reports of a column."
        )
    mechanism, j = cast(Any, protocol.mechanism), list(parts).index(column)
    chunks = (protocol.check(chunk) for chunk in as_chunks(reports, protocol))
    own = [mechanism.reports_of_part(chunk, j) for chunk in chunks]
    return np.concatenate(own), as_protocol(parts[column].oracle)
