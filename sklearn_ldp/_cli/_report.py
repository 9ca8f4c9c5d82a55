"""Studies as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from .._table import format_table, narrow
from ._study import Study

_Show: TypeAlias = Callable[[Study, str, str], str]


def error_tables(studies: list[Study], show: _Show) -> str:
    """Return a table for each query set: a row a post-processor, a column an oracle.

    Parameters
    ----------
    studies : list of Study
        One an oracle, of the same query sets and post-processors.
    show : callable
        ``show(study, queries, post)`` writes an error.

    Returns
    -------
    str
        The tables, the best of each column marked with a star.
    """
    # A blank under which the stars stand keeps the digits aligned with the names.
    heads = [narrow(study.oracle).replace("\n", " \n") + " " for study in studies]
    tables = []
    for queries, errors in studies[0].mse.items():
        rows = [
            [post, *(_cell(study, queries, post, show) for study in studies)] for post in errors
        ]
        tables.append(format_table([queries, *heads], rows))
    return "\n\n".join(tables)


def _cell(study: Study, queries: str, post: str, show: _Show) -> str:
    return show(study, queries, post) + ("*" if post == study.best(queries) else " ")


def pick_table(studies: list[Study]) -> str:
    """Return a table of what the searches pick: below each oracle, a row a query set."""
    searches = list(next(iter(studies[0].picks.values())))
    header = ["oracle,\n  queries", "best in\nhindsight"]
    for search in searches:
        header += [search, "regret"]
    rows = []
    for study in studies:
        rows.append([study.oracle, *[""] * (len(header) - 1)])
        for queries, picks in study.picks.items():
            row = [f"  {queries}", study.best(queries)]
            for search in searches:
                row += [picks[search], f"{study.regret(queries, search):.1%}"]
            rows.append(row)
    left = [i for i, name in enumerate(header) if name != "regret"]
    return format_table(header, rows, left=left)
