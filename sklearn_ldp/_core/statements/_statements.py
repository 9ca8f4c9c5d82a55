"""Arguments of all statements about users: whom they are about, and how surely they hold.

The rule of their defaults stands in the docstring of :mod:`sklearn_ldp.inference`.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

OF = ("users", "population")


def check_level(level: Any) -> None:
    """Raise ValueError unless the level is a probability of at least 1/2, and less than 1."""
    if not (isinstance(level, Real) and 0.5 <= float(level) < 1):
        message = f"Argument level must fulfil 0.5 <= level < 1, got {level!r}: 95 % is 0.95."
        raise ValueError(message)


def at_level(level: float, is_raw: bool = True, noise: Any = None) -> str:
    """Return the name of the intervals of tables and pictures, such as "95 % simultaneous"."""
    is_presumed = noise is not None and noise.presumes_normal
    which = "each, if noise is normal" if is_presumed else "simultaneous"
    return f"{100 * level:g} % {which}{'' if is_raw else ', of raw'}"


def if_normal(*estimates: Any) -> str:
    """Return the condition of intervals where only the standard deviation of noise is known."""
    return ", if noise is normal" * any(one.noise.presumes_normal for one in estimates)


def stated(estimate: Any, of: str | None) -> tuple[Any, str]:
    """Return an estimate whose intervals are about the users or the population, and which of these.

    None takes what its oracle is about: the population where an interviewer asked, as surveys do.
    """
    of = getattr(estimate.oracle, "about", "users") if of is None else of
    check_of(of)
    if of == "users" or estimate.noise is None:
        return estimate, of
    return replace(estimate, noise=estimate.noise.of_population()), of


def check_of(of: Any) -> None:
    """Raise ValueError unless `of` says whom the statement is about."""
    if of not in OF:
        raise ValueError(
            'Argument of must be "users" (a statement about those who reported) or "population" '
            f"(about those whom they were drawn from), got {of!r}."
        )
