"""Which post-processors there are to choose from, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from .. import postprocessing
from ..postprocessing import (
    Base,
    BaseCut,
    BasePos,
    BasePostProcessor,
    EmpiricalBayes,
    MLEApx,
    Norm,
    NormCut,
    NormHyb,
    NormMul,
    NormSub,
    PostPos,
    Power,
    PowerNS,
)


def default_candidates() -> list[BasePostProcessor]:
    """Return post-processors for any domain with their default parameters, the simplest first.

    Returns
    -------
    list of post-processors
        What a search takes for ``candidates="all"``.

    Examples
    --------
    >>> from sklearn_ldp.model_selection import default_candidates
    >>> default_candidates()[:2]
    [Base(), Norm()]
    """
    return [
        Base(),
        Norm(),
        BasePos(),
        PostPos(),
        BaseCut(),
        NormSub(),
        NormCut(),
        NormMul(),
        NormHyb(),
        MLEApx(),
        Power(),
        PowerNS(),
        EmpiricalBayes(),
    ]


def as_candidates(candidates: Any, name: str) -> list:
    """Return the post-processors that a `candidates` parameter means.

    Parameters
    ----------
    candidates : "all", list or dict
        "all", post-processors (or Pipelines of them), or a grid of parameters by class name, such
        as ``{"NormSub": {}, "BaseCut": {"alpha": [0.05, 2]}}``.
    name : str
        Who asks, for errors.

    Returns
    -------
    list of post-processors or Pipelines
        At least one.

    Raises
    ------
    TypeError
        If one of them is not a post-processor.
    ValueError
        If there is none, or a grid's name or parameter is not known.
    """
    if isinstance(candidates, str):  # "all", as the constraints have checked
        return default_candidates()
    if isinstance(candidates, Mapping):
        expanded = [_grid(key, grid, name) for key, grid in candidates.items()]
        candidates = [candidate for grid in expanded for candidate in grid]
    if not candidates:
        raise ValueError(f"{name} needs at least one candidate.")
    for candidate in candidates:
        steps = (
            [step for _, step in candidate.steps]
            if isinstance(candidate, Pipeline)
            else [candidate]
        )
        odd = [step for step in steps if not isinstance(step, BasePostProcessor)]
        if odd or not steps:
            raise TypeError(
                f"{name} chooses among post-processors (or Pipelines of them), got "
                f"{odd[0] if odd else candidate!r} as a candidate; give instances such as "
                "NormSub()."
            )
    return list(candidates)


def _grid(key: Any, grid: Any, name: str) -> list:
    """Every combination of the parameters of a class."""
    from sklearn.model_selection import ParameterGrid  # quick to import only when it is needed

    known = {
        found: getattr(postprocessing, found)
        for found in postprocessing.__all__
        if isinstance(getattr(postprocessing, found), type) and found != "BasePostProcessor"
    }
    made = known[key]() if key in known else None
    if made is None:
        raise ValueError(
            f"{name} does not know the post-processor {key!r} of the candidates' grids; it knows "
            f"{', '.join(known)}."
        )
    # Refuses a parameter that the class does not have, with the names of those it has.
    return [clone(made).set_params(**parameters) for parameters in ParameterGrid(grid)]


def candidate_name(candidate: Any) -> str:
    """Short name of a post-processor, or of a pipeline of them.

    Parameters
    ----------
    candidate : post-processor or Pipeline
        What to name.

    Returns
    -------
    str
        Such as ``BaseCut(alpha=0.05)`` or ``Base + NormSub``.
    """
    if isinstance(candidate, Pipeline):
        return " + ".join(candidate_name(step) for _, step in candidate.steps)
    text = " ".join(repr(candidate).split())
    return text.removesuffix("()")
