"""Candidates of a search, and their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from .. import postprocessing
from ..estimates import FrequencyEstimate
from ..postprocessing import BasePostProcessor, EmpiricalBayes
from ..postprocessing.empirical_bayes import QueryHints
from ..queries import Queries

PostProcessor: TypeAlias = BasePostProcessor | Pipeline
#: "all", a list, or a grid of parameters (or a list of grids) for each class name.
Candidates: TypeAlias = str | Sequence[PostProcessor] | Mapping[Any, Any]


def default_candidates() -> list[BasePostProcessor]:
    """Return the post-processors for any domain, with default parameters, the simplest first.

    Returns
    -------
    list of post-processors
        The candidates of a search with ``candidates="all"``.

    Examples
    --------
    >>> from sklearn_ldp.model_selection import default_candidates
    >>> default_candidates()[:2]
    [Base(), Norm()]
    """
    return [
        postprocessing.Base(),
        postprocessing.Norm(),
        postprocessing.BasePos(),
        postprocessing.PostPos(),
        postprocessing.BaseCut(),
        postprocessing.NormSub(),
        postprocessing.NormCut(),
        postprocessing.NormMul(),
        postprocessing.NormHyb(),
        postprocessing.MLEApx(),
        postprocessing.Power(),
        postprocessing.PowerNS(),
        postprocessing.EmpiricalBayes(),
    ]


def as_candidates(candidates: Candidates, name: str) -> list:
    """Return the post-processors that a `candidates` parameter stands for.

    Parameters
    ----------
    candidates : "all", list or dict
        "all", a list of post-processors (or Pipelines of them), or a dict that gives a grid of
        parameters for each class name, such as
        ``{"NormSub": {}, "BaseCut": {"alpha": [0.05, 2]}}``.
    name : str
        The class or function to name in errors.

    Returns
    -------
    list of post-processors or Pipelines
        At least one.

    Raises
    ------
    TypeError
        If one of them is not a post-processor.
    ValueError
        If there is no candidate, or the class name or a parameter of a grid is not known.
    """
    if isinstance(candidates, str):  # "all", as the constraints have checked
        return default_candidates()
    if isinstance(candidates, Mapping):
        expanded = [_grid(key, grid, name) for key, grid in candidates.items()]
        candidates = [candidate for grid in expanded for candidate in grid]
    candidates = list(candidates)
    if not candidates:
        raise ValueError(f"{name} needs at least one candidate.")
    for candidate in candidates:
        steps = _steps(candidate)
        odd = [step for step in steps if not isinstance(step, BasePostProcessor)]
        if odd or not steps:
            raise TypeError(
                f"{name} chooses among post-processors (or Pipelines of them), got "
                f"{odd[0] if odd else candidate!r} as a candidate; give instances such as "
                "NormSub()."
            )
    return list(candidates)


def _steps(candidate: Any) -> list:
    """The steps of a Pipeline, or the post-processor itself."""
    is_pipeline = isinstance(candidate, Pipeline)
    return [step for _, step in candidate.steps] if is_pipeline else [candidate]


def seeing_whole_sets(candidates: Candidates) -> list[BasePostProcessor]:
    """Return those post-processors among the candidates that look at all parts of a set at once.

    Parameters
    ----------
    candidates : "all", list or dict
        As for `as_candidates`; what is no post-processor is left out.

    Returns
    -------
    list of post-processors
        Candidates, or steps of Pipelines among them.
    """
    if isinstance(candidates, str | Mapping):  # whose post-processors work part by part
        return []
    steps = [step for candidate in candidates for step in _steps(candidate)]
    return [s for s in steps if isinstance(s, BasePostProcessor) and s._sees_whole_sets()]


def _grid(key: Any, grid: Any, name: str) -> list:
    """Return one post-processor of a class for each combination of parameters in its grid."""
    from sklearn.model_selection import ParameterGrid  # slow to import, so only if needed

    exported = ((found, getattr(postprocessing, found)) for found in postprocessing.__all__)
    classes = ((found, kind) for found, kind in exported if isinstance(kind, type))
    known = {found: kind for found, kind in classes if BasePostProcessor in kind.__mro__[1:]}
    if key not in known:
        raise ValueError(
            f"{name} does not know the post-processor {key!r} of the candidates' grids; it knows "
            f"{', '.join(known)}."
        )
    # set_params refuses an unknown parameter and names the ones that the class has.
    return [known[key]().set_params(**parameters) for parameters in ParameterGrid(grid)]


def knowing_queries(
    queries: Queries | None, estimate: FrequencyEstimate
) -> list[BasePostProcessor]:
    """Return an EmpiricalBayes that knows what is asked, if that makes it another one.

    Parameters
    ----------
    queries : query set, (sparse) matrix of shape (n_queries, d) or None
        The queries.
    estimate : FrequencyEstimate
        An estimate over the domain.

    Returns
    -------
    list of EmpiricalBayes
        One of them, or none if the queries treat all categories alike.
    """
    if not any(QueryHints.of(queries, estimate.categories, "EmpiricalBayes")):
        return []
    return [EmpiricalBayes(queries=queries)]


def candidate_name(candidate: BaseEstimator) -> str:
    """Return a short name of a post-processor, or of a Pipeline of them.

    Parameters
    ----------
    candidate : post-processor or Pipeline
        The object to name.

    Returns
    -------
    str
        A name such as ``BaseCut(alpha=0.05)`` or ``Base + NormSub``.
    """
    if isinstance(candidate, Pipeline):
        return " + ".join(candidate_name(step) for _, step in candidate.steps)
    text = " ".join(repr(candidate).split())
    return text.removesuffix("()")
