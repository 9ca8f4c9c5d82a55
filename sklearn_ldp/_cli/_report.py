"""Tables to print: a study of errors, and what the searches pick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._utils.text import format_table, narrow
from ..model_selection import (
    ErrorStudy,
    HeldOutSearch,
    SyntheticSearch,
    candidate_name,
    simulate_errors,
)
from ..postprocessing import EmpiricalBayes
from ..queries import full_domain

TOLD = "told queries"  # short, as it heads rows of wide tables


def with_told(
    study: ErrorStudy, oracles: Any, frequencies: Any, query_sets: Mapping[str, Any], **options: Any
) -> ErrorStudy:
    """Return a study with the errors of an EmpiricalBayes that is told what is asked.

    Parameters
    ----------
    study : ErrorStudy
        What :func:`~sklearn_ldp.model_selection.simulate_errors` returned for the same arguments.
    oracles, frequencies : object
        Its oracles and population.
    query_sets : dict of str to query set
        Its queries.
    **options : dict
        Its other arguments. With the same seed the simulated collections are the same.

    Returns
    -------
    ErrorStudy
        With rows for all queries but those for every category, where it makes no difference.
    """
    studies = [study]
    for name, queries in query_sets.items():
        if repr(queries) != repr(full_domain()):
            told = {TOLD: EmpiricalBayes(queries=queries)}
            studies.append(
                simulate_errors(oracles, told, frequencies, queries={name: queries}, **options)
            )
    columns = {name: np.concatenate([one[name] for one in studies]) for name in study.columns}
    return ErrorStudy(columns, np.concatenate([one.errors for one in studies]))


def error_tables(study: ErrorStudy, show: Callable[[float], str]) -> str:
    """Return one table per query set, with a row per post-processor and a column per oracle.

    Parameters
    ----------
    study : ErrorStudy
        Of one population, epsilon and metric.
    show : callable
        Writes an error as text.

    Returns
    -------
    str
        The tables, in which a star marks the best post-processor of each column.
    """
    oracles = list(dict.fromkeys(study["oracle"]))
    # The stars get a column of their own, a blank in the head, to keep the digits aligned.
    heads = [narrow(oracle).replace("\n", " \n") + " " for oracle in oracles]
    tables = []
    for queries in dict.fromkeys(study["queries"]):
        errors = [_errors(study, oracle, queries) for oracle in oracles]
        rows = [
            [post, *(show(e[post]) + ("*" if post == _best(e) else " ") for e in errors)]
            for post in errors[0]
        ]
        tables.append(format_table([queries, *heads], rows))
    return "\n\n".join(tables)


def searched(
    estimate: Any, query_sets: Mapping[str, Any], *, seed: int
) -> dict[str, dict[str, str]]:
    """Return what each search picks from an estimate, by the name of the queries and the search."""
    searches = [
        SyntheticSearch(random_state=seed),
        HeldOutSearch(random_state=seed),
    ]
    return {
        name: {
            type(search).__name__: _pick(search.set_params(queries=queries).fit(estimate))
            for search in searches
        }
        for name, queries in query_sets.items()
    }


def _pick(search: Any) -> str:
    """Return the name of what a search has picked, as in the study."""
    best = search.best_estimator_
    is_told = isinstance(best, EmpiricalBayes) and best.queries is not None
    return TOLD if is_told else candidate_name(best)


def pick_table(study: ErrorStudy, picks: Mapping[str, dict[str, dict[str, str]]]) -> str:
    """Return a table of what the searches pick, with one row per query set below each oracle.

    Parameters
    ----------
    study : ErrorStudy
        The errors in hindsight, as for `error_tables`; mean squared ones.
    picks : dict of str to dict
        What `searched` returns, keyed by the oracle.

    Returns
    -------
    str
        The table. The regret of a pick is how much its RMSE exceeds that of the best.
    """
    searches = list(next(iter(next(iter(picks.values())).values())))
    header = ["oracle,\n  queries", "best in\nhindsight"]
    for search in searches:
        header += [search, "regret"]
    rows = []
    for oracle, of_oracle in picks.items():
        rows.append([oracle, *[""] * (len(header) - 1)])
        for queries, picked in of_oracle.items():
            errors = _errors(study, oracle, queries)
            best = _best(errors)
            row = [f"  {queries}", best]
            for search in searches:
                row += [picked[search], f"{_regret(errors[picked[search]], errors[best]):.1%}"]
            rows.append(row)
    left = [i for i, name in enumerate(header) if name != "regret"]
    return format_table(header, rows, left=left)


def _errors(study: ErrorStudy, oracle: str, queries: str) -> dict[str, float]:
    rows = study.select(oracle=oracle, queries=queries)
    return dict(zip(rows["postprocessor"].tolist(), rows.error.tolist(), strict=True))


def _best(errors: dict[str, float]) -> str:
    """The post-processor of the least error, which can be known only from the truth."""
    return min(errors, key=errors.__getitem__)


def _regret(mse: float, least: float) -> float:
    """How far an RMSE is above the least one, as a share of it."""
    excess = mse**0.5 - least**0.5
    # Without noise, at a huge epsilon, all that is left are rounding errors.
    return excess / (least**0.5 or 1e-11) if excess > 1e-11 else 0.0
