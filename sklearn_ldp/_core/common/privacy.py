"""Warnings if users may spend more privacy than expected.

No warning is given for simulations, which have a seed.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any, Self
from uuid import uuid4

from joblib.memory import MemorizedFunc
from sklearn.utils._set_output import _get_output_config

HARDLY_ANY = 20.0  # a budget above it protects no user: exp(20) is 5e8
_given: set[str] = set()  # the subjects of all warnings that this process has given
_fitted: set[str] = set()  # the families of all clones that have been fitted


class PrivacyWarning(UserWarning):
    """Warning that a call spends users' privacy budget unexpectedly."""


def warn_once(message: str, category: type[Warning], about: str) -> None:
    """Give a warning, unless this process has already given a warning about the same subject.

    The subject is the text `about`.
    """
    if about not in _given:
        warnings.warn(message, category, stacklevel=4)
        _given.add(about)  # not reached if warnings are errors


def warn_of_output(transformer: Any, container: str | None = None) -> None:
    """Warn once that a transformer returns estimates, if it is configured for data frames."""
    # container: the requested container. If None, the configuration of the transformer, or the
    # global configuration.
    if (container or _get_output_config("transform", transformer)["dense"]) != "default":
        name = type(transformer).__name__
        text = (
            f"{name} returns estimates, not data frames. To get a data frame, call to_frame() of "
            "an estimate. In a ColumnTransformer, which joins estimates to one row, call "
            "set_output of the ColumnTransformer instead."
        )
        warn_once(text, UserWarning, "set_output")


def makes_pandas() -> bool:
    """Return whether a transformer such as ColumnTransformer joins estimates to a pandas table.

    The transformer is the caller of the code that calls this function.
    """
    # The transformer is two frames above. ColumnTransformer, for instance, would use the index of
    # the users for an array of one row.
    caller = sys._getframe(2).f_locals.get("self")
    is_transformer = hasattr(caller, "set_output")
    return is_transformer and _get_output_config("transform", caller)["dense"] == "pandas"


def refuse_memory(name: str) -> None:
    """Raise ValueError if `joblib.Memory` caches the call of the calling method."""
    # joblib writes the arguments of a cached call to the disk, after the call. Only an error
    # during the call prevents this. Neither joblib nor scikit-learn passes the method any sign of
    # the cache, and the same arguments come without a cache. So the callers are the only source
    # for this check. The check reads their frames, from the nearest caller on, and stops at the
    # first that is not a function of joblib or scikit-learn. A cache beyond it writes the arguments
    # of another function, and its author decides whether they contain values.
    # If a release of joblib renames `MemorizedFunc`, the import fails. Tests run both ways.
    frame: FrameType | None = sys._getframe(2)
    # Ends: a stack has finitely many frames.
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in ("sklearn", "joblib"):
        if isinstance(frame.f_locals.get("self"), MemorizedFunc):
            raise ValueError(
                f"{name} cannot be cached (by memory= of a Pipeline, or by joblib.Memory), "
                "because the cache would write raw values to disk, and would return the first "
                "collection again. Leave out memory=, cache only results of reports "
                '(input="reports"), or set random_state for a simulation.'
            )
        frame = frame.f_back


def warn_of_epsilon(name: str, epsilon: float, random_state: Any) -> None:
    """Warn once for each class if epsilon is too large to protect users.

    No warning is given if `random_state` is not None, because this is a simulation.
    """
    if random_state is None and epsilon > HARDLY_ANY:
        warn_once(
            f"{name} with epsilon={epsilon:g} protects no user: a report may be e**epsilon times "
            "likelier under one value than under another. Use an epsilon of about 0.5 to 8.",
            PrivacyWarning,
            f"epsilon of {name}",
        )


def warn_of_learned(
    name: str, part: str, parameter: str, random_state: Any, *, is_repeated: bool = False
) -> None:
    """Warn if a domain is learned from the values of real users.

    Parameters
    ----------
    name : str
        Name of the class that learns from the values.
    part : str
        The object that is learned, such as "the domain".
    parameter : str
        The parameter in which the user can declare this object instead.
    random_state : object
        The `random_state` of the learner. If it is not None, this is a simulation, and there is no
        warning.
    is_repeated : bool, default=False
        Whether the learner is a clone. A search fits many clones, of which only the first one
        warns.
    """
    if random_state is not None:
        return
    other_columns = "leave out the other columns, " * (parameter == "domains")
    text = (
        f"{name} learns {part} from the raw values, which reveals the values that occur. Declare "
        f"public values in {parameter}=, {other_columns}or set random_state if this is a "
        "simulation."
    )
    if is_repeated:
        warn_once(text, PrivacyWarning, f"{name} learns {part}, cloned")
    else:
        warnings.warn(text, PrivacyWarning, stacklevel=4)


class WatchesRefits:
    """Mixin of estimators that read raw values.

    It warns if several clones of an estimator are fitted.
    """

    # A search fits a clone for each fold and candidate, mostly to the same users, so it spends
    # epsilon many times; only the clones themselves can detect this.

    _family: str | None = None

    def __sklearn_clone__(self) -> Self:
        self._family = self._family or uuid4().hex
        clone = super().__sklearn_clone__()  # type: ignore[misc]
        clone._family = self._family
        return clone

    def _warn_of_refit(self, random_state: Any) -> None:
        """Record that a clone is fitted to raw values.

        Warn once at the second fit of clones of the same estimator.
        """
        if random_state is not None or self._family is None:
            return
        if self._family in _fitted:
            warn_once(
                f"A clone of this {type(self).__name__} is fitted again, so users spend epsilon "
                "again. A search does so for every candidate and every fold. For a simulation, "
                "set random_state. For real users, collect reports once, and search with these "
                "reports.",
                PrivacyWarning,
                self._family,
            )
        _fitted.add(self._family)
