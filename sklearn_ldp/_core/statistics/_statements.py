"""Arguments of all statements about users: `of` (users or population) and `level`.

The docstring of :mod:`sklearn_ldp.inference` explains the defaults.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

OF = ("users", "population")


def check_level(level: Any) -> None:
    """Raise ValueError unless the level is a probability of at least 1/2, and less than 1."""
    if not (isinstance(level, Real) and 0.5 <= float(level) < 1):
        raise ValueError(
            f"Argument level must satisfy 0.5 <= level < 1, got {level!r}. Write 95 % as 0.95."
        )


def at_level(
    level: float, is_raw: bool = True, noise: Any = None, at_all_times: bool | int = False
) -> str:
    """Return the name of the intervals of tables and plots, such as "95 % simultaneous"."""
    is_presumed = noise is not None and noise.presumes_normal
    which = "each, if noise is normal" if is_presumed else "simultaneous"
    which += "" if at_all_times is False else " at all looks"
    return f"{100 * level:g} % {which}{'' if is_raw else ', of raw'}"


def if_normal(*estimates: Any) -> str:
    """Return the condition of intervals if only the standard deviation of noise is known."""
    return ", if noise is normal" * any(estimate.noise.presumes_normal for estimate in estimates)


def stated(estimate: Any, of: str | None) -> tuple[Any, str]:
    """Return the estimate with noise for statements about `of`, and the resolved value of `of`.

    If None, `of` is "population" for a survey with an interviewer, and "users" otherwise.
    """
    of = getattr(estimate.oracle, "about", "users") if of is None else of
    check_of(of)
    if of == "users" or estimate.noise is None:
        return estimate, of
    return replace(estimate, noise=estimate.noise.of_population()), of


def check_of(of: Any) -> None:
    """Raise ValueError unless `of` is valid."""
    if of not in OF:
        raise ValueError(
            'Argument of must be "users" (a statement about the reporting users) or "population" '
            f"(about the population that the users were sampled from), got {of!r}."
        )
