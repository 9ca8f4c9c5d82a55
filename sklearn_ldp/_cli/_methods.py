"""Oracles and post-processors as the command line names them."""

from __future__ import annotations

import inspect
import re
from typing import Any

from .. import model_selection, oracles


def all_oracles() -> dict[str, type[oracles.BaseOracle]]:
    """Return every oracle that the package exports, such as ``{"olh": OLH, ..}``."""
    exported = (getattr(oracles, name) for name in oracles.__all__)
    return {
        _kebab(found.__name__): found
        for found in exported
        if inspect.isclass(found)
        and issubclass(found, oracles.BaseOracle)
        and not inspect.isabstract(found)
    }


def make_oracle(arguments: Any, categories: Any) -> oracles.BaseOracle:
    """Return the oracle of ``--oracle`` and ``--epsilon``, without a seed."""
    return all_oracles()[arguments.oracle](arguments.epsilon, categories=categories)


def all_postprocessors() -> dict[str, Any]:
    """Return an instance of every post-processor, such as ``{"norm-sub": NormSub(), ..}``."""
    return {_kebab(type(post).__name__): post for post in model_selection.default_candidates()}


def all_searches() -> dict[str, type]:
    """Return every search over post-processors, ``{"synthetic-search": SyntheticSearch, ..}``."""
    searches = (model_selection.SyntheticSearch, model_selection.HeldOutSearch)
    return {_kebab(search.__name__): search for search in searches}


def _kebab(name: str) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()
