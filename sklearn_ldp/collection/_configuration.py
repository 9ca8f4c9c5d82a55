"""The configuration of a collection, as plain numbers and strings."""

from __future__ import annotations

from typing import Any

from .._typing import OracleOrProtocol
from ..mechanisms import as_protocol


def report_configuration(oracle: OracleOrProtocol, *, collection_round: str = "") -> dict[str, Any]:
    """Return what clients and servers must agree on for their reports to add up.

    Files of reports and checkpoints carry it, and whoever reads them compares it with the
    expected one.

    Parameters
    ----------
    oracle : oracle or Protocol
        Unfitted, with declared categories.
    collection_round : str, default=""
        Name of the collection: reports of one round are not added to another.

    Returns
    -------
    dict
        Plain numbers and strings: the oracle, epsilon, the number of categories, their SHA-256
        digest, the mechanism's own settings such as the hash family, the integers that a report
        consists of, p and q if the mechanism has them, and the round.

    Raises
    ------
    ValueError
        If the oracle's domain is not known.
    TypeError
        If a category is of a type that has no form that is the same on every machine.

    Examples
    --------
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.collection import report_configuration
    >>> configuration = report_configuration(OLH(1.0, categories=["a", "b"]))
    >>> configuration["epsilon"], configuration["hash_range"], configuration["hash_family"]
    (1.0, 4, 'linear')
    """
    return dict(as_protocol(oracle, collection_round).configuration)
