"""Warnings where users spend more privacy than one may think; a seed marks a simulation."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any, Self
from uuid import uuid4

from joblib.memory import MemorizedFunc
from sklearn.utils._set_output import _get_output_config

HARDLY_ANY = 20.0  # a budget above it protects nobody: exp(20) is 5e8
_given: set[str] = set()  # what has been warned of in this process
_fitted: set[str] = set()  # families of which a clone has been fitted


class PrivacyWarning(UserWarning):
    """Warning that a call spends users' privacy where one may not expect it."""


def warn_once(message: str, category: type[Warning], about: str) -> None:
    """Warn, unless something has been warned of in this process, and be it another object."""
    if about not in _given:
        warnings.warn(message, category, stacklevel=4)
        _given.add(about)  # not reached where warnings are errors


def warn_of_output(transformer: Any, container: str | None = None) -> None:
    """Tell once that estimates stay what they are where scikit-learn is asked for data frames."""
    # container: what is asked for; None is what is configured, for the transformer or for all.
    if (container or _get_output_config("transform", transformer)["dense"]) != "default":
        name = type(transformer).__name__
        text = (
            f"{name} returns estimates, not data frames: call their to_frame(). A "
            "ColumnTransformer makes one row of them, which its set_output makes a data frame."
        )
        warn_once(text, UserWarning, "set_output")


def makes_pandas() -> bool:
    """Return whether the method that joins estimates is of a transformer that is set to pandas."""
    # Such as ColumnTransformer, two frames above: it gives an array of one row the index of users.
    caller = sys._getframe(2).f_locals.get("self")
    is_transformer = hasattr(caller, "set_output")
    return is_transformer and _get_output_config("transform", caller)["dense"] == "pandas"


def refuse_memory(name: str) -> None:
    """Raise ValueError if `joblib.Memory` runs the caller of this, itself or in a Pipeline."""
    # It writes the arguments beside the result, after the call; so now it writes nothing. What
    # somebody else's function under it does with values is not told by its arguments.
    frame: FrameType | None = sys._getframe(2)
    # Ends: a stack has finitely many frames.
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in ("sklearn", "joblib"):
        if isinstance(frame.f_locals.get("self"), MemorizedFunc):
            raise ValueError(
                f"{name} refuses memory= (of a Pipeline, or joblib.Memory), which would write raw "
                "values to a disk, and replay their first collection: leave it out, cache what is "
                'made of reports (input="reports"), or give a random_state for a simulation.'
            )
        frame = frame.f_back


def warn_of_epsilon(name: str, epsilon: float, random_state: Any) -> None:
    """Warn once if real users, who draw no seeded coins, spend what protects nobody."""
    if random_state is None and epsilon > HARDLY_ANY:
        warn_once(
            f"{name} with epsilon={epsilon:g} protects nobody: a report may be e**epsilon times "
            "likelier under one value than under another. Budgets in use are about 0.5 to 8.",
            PrivacyWarning,
            "epsilon",
        )


def warn_of_learned(
    name: str, what: str, parameter: str, random_state: Any, *, is_repeated: bool = False
) -> None:
    """Warn if a domain is learned from the values of real users.

    Parameters
    ----------
    name : str
        Class of the learner.
    what : str
        The learned part, such as "the domain".
    parameter : str
        The parameter that declares this part.
    random_state : object
        None if the users are real.
    is_repeated : bool, default=False
        Whether the learner is a clone: a search fits many of these, and one of them warns.
    """
    if random_state is not None:
        return
    text = (
        f"{name} learns {what} from the raw values, which reveals the values that occur. Declare "
        f"public ones in {parameter}=, or give a random_state if this is a simulation."
    )
    if is_repeated:
        warn_once(text, PrivacyWarning, f"{name} learns {what}, cloned")
    else:
        warnings.warn(text, PrivacyWarning, stacklevel=4)


class WatchesRefits:
    """A learner that reads values, and warns if clones of it are fitted repeatedly."""

    # A search fits a clone for each fold and candidate, mostly to the same users, so it spends
    # epsilon many times; only the clones themselves can detect this.

    _family: str | None = None

    def __sklearn_clone__(self) -> Self:
        self._family = self._family or uuid4().hex
        clone = super().__sklearn_clone__()  # type: ignore[misc]
        clone._family = self._family
        return clone

    def _warn_of_refit(self, random_state: Any) -> None:
        """Note a fit to values, and warn at the second one of a family: once for all its clones."""
        if random_state is not None or self._family is None:
            return
        if self._family in _fitted:
            warn_once(
                f"{type(self).__name__} is fitted again by a copy of itself. In searches users "
                "spend epsilon for every candidate and every fold. For a simulation give it a "
                "random_state; for real users collect once, and search with reports.",
                PrivacyWarning,
                self._family,
            )
        _fitted.add(self._family)
