"""The arguments `of` and `level`, which most functions of statistical inference have.

`of` is the group whose frequencies are estimated: the users or their population. `level` is the
confidence level. The docstring of :mod:`sklearn_ldp.inference` explains the defaults.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

OF = ("users", "population")


def check_level(level: Any) -> None:
    """Raise ValueError unless the level is a number in [0.5, 1)."""
    if not (isinstance(level, Real) and 0.5 <= float(level) < 1):
        raise ValueError(
            f"Argument level must satisfy 0.5 <= level < 1, got {level!r}. Write 95 % as 0.95."
        )


def at_level(
    level: float, is_raw: bool = True, noise: Any = None, at_all_times: bool | int = False
) -> str:
    """Return a text that describes the intervals in a table or plot, such as "95 % simultaneous".

    is_raw: whether the intervals belong to the values beside which they are shown.
    noise: the noise of the estimate; None for noise of a known distribution.
    at_all_times: False, unless the intervals are valid at all looks at a growing collection.
    """
    is_presumed = noise is not None and noise.presumes_normal
    which = "each, if noise is normal" if is_presumed else "simultaneous"
    which += "" if at_all_times is False else " at all looks"
    return f"{100 * level:g} % {which}{'' if is_raw else ', of raw'}"


def if_normal(*estimates: Any) -> str:
    """Return the condition of confidence intervals as text: ", if noise is normal", or "".

    The condition is necessary if only the standard deviation of the noise is known.
    """
    return ", if noise is normal" * any(estimate.noise.presumes_normal for estimate in estimates)


def stated(estimate: Any, of: str | None) -> tuple[Any, str]:
    """Return the estimate with the noise for statements about `of`, and the value of `of`.

    of: "users" or "population". If None, it becomes "population" for a survey with an interviewer,
    and "users" otherwise. For "population", the noise includes the sampling error of the users.
    """
    of = getattr(estimate.oracle, "about", "users") if of is None else of
    check_of(of)
    if of == "users" or estimate.noise is None:
        return estimate, of
    return replace(estimate, noise=estimate.noise.of_population()), of


def compared(of: str | None, *estimates: Any) -> str:
    """Check the argument `of` of a comparison of estimates, and return it or its default.

    The default is "users" if all estimates are noisy counts of all users, and otherwise
    "population".
    """
    if of is None:
        noises = [estimate.noise for estimate in estimates]
        are_complete = all(noise is not None and noise.is_of_complete_counts for noise in noises)
        return "users" if are_complete else "population"
    check_of(of)
    return of


def check_of(of: Any) -> None:
    """Raise ValueError unless `of` is "users" or "population"."""
    if of not in OF:
        raise ValueError(
            f'Argument of must be "users" or "population", got {of!r}. Pass "users" for results '
            'about the users who reported, or "population" for results about the population that '
            "the users are a random sample of."
        )
