"""Oracles, post-processors and searches, as the command line names them."""

from __future__ import annotations

import importlib
import inspect
import re
from argparse import ArgumentTypeError
from typing import Any

from .. import model_selection, oracles, postprocessing
from ..surveys import ColumnOracle


def all_oracles() -> dict[str, type[oracles.BaseOracle]]:
    """Return every oracle that the package exports, such as ``{"olh": OLH, ..}``."""
    exported = (getattr(oracles, name) for name in oracles.__all__)
    return {_kebab(found.__name__): found for found in exported if _is_oracle(found)}


def oracle_class(name: str) -> type[oracles.BaseOracle]:
    """Return the class of ``--oracle``.

    Parameters
    ----------
    name : str
        A key of `all_oracles`, or ``package.module:ClassName`` of any other subclass of
        BaseOracle that can be imported.

    Returns
    -------
    type
        The class of the oracle.

    Raises
    ------
    ArgumentTypeError
        If there is no such class, or it is no oracle.
    """
    known = all_oracles()
    if name in known:
        return known[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        choices = ", ".join(map(repr, known))
        raise ArgumentTypeError(
            f"invalid choice: {name!r} (choose from {choices}); an oracle of another package is "
            "given as package.module:ClassName"
        )
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever happens in a module that is not ours
        raise ArgumentTypeError(
            f"cannot import {name!r} ({type(error).__name__}: {error}); expected "
            "package.module:ClassName of an oracle that Python can import here"
        ) from error
    if not _is_oracle(found):
        raise ArgumentTypeError(
            f"{name!r} is {found!r}; expected a class derived from sklearn_ldp.oracles.BaseOracle"
        )
    return found


def oracle_name(name: str) -> str:
    """Return the name of an oracle as it is: the type of ``--oracle`` for argparse."""
    oracle_class(name)
    return name


def make_oracle(arguments: Any, categories: Any) -> oracles.BaseOracle:
    """Return the oracle of ``--oracle`` and ``--epsilon``, without a seed."""
    return oracle_class(arguments.oracle or "olh")(arguments.epsilon, categories=categories)


def make_survey(arguments: Any, domains: Any) -> ColumnOracle:
    """Return the oracle of several columns, of ``--oracle`` and ``--epsilon``, without a seed."""
    oracle = "best" if arguments.oracle is None else oracle_class(arguments.oracle)()
    return ColumnOracle(arguments.epsilon, domains=domains, oracle=oracle)


def declared_oracle(arguments: Any) -> oracles.BaseOracle | ColumnOracle:
    """Return the oracle over the domain in the file of ``--categories`` or ``--domains``."""
    from ._columns import read_domains
    from ._input import read_categories

    if arguments.domains is not None:
        return make_survey(arguments, read_domains(arguments.domains))
    return make_oracle(arguments, read_categories(arguments.categories))


def default_postprocessors() -> dict[str, Any]:
    """Return those for any domain and any oracle, such as ``{"norm-sub": NormSub(), ..}``."""
    return {_kebab(type(post).__name__): post for post in model_selection.default_candidates()}


def all_postprocessors() -> dict[str, Any]:
    """Return an instance of every post-processor that the package exports, the default ones first.

    Those that are not among the default ones may need more than an estimate and its noise, and
    say so when they are used.
    """
    exported = (getattr(postprocessing, name) for name in postprocessing.__all__)
    concrete = [one for one in exported if _is_concrete(one, postprocessing.BasePostProcessor)]
    first = default_postprocessors()
    return first | {
        name: found() for found in concrete if (name := _kebab(found.__name__)) not in first
    }


def all_searches() -> dict[str, type]:
    """Return every search over post-processors, ``{"synthetic-search": SyntheticSearch, ..}``."""
    searches = (
        model_selection.SyntheticSearch,
        model_selection.HeldOutSearch,
        model_selection.BootstrapSearch,
    )
    return {_kebab(search.__name__): search for search in searches}


def _is_oracle(found: Any) -> bool:
    return _is_concrete(found, oracles.BaseOracle)


def _is_concrete(found: Any, base: type) -> bool:
    is_class = inspect.isclass(found) and issubclass(found, base)
    return is_class and not inspect.isabstract(found)


def _kebab(name: str) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()
