"""The rule by which a search of scikit-learn takes the least epsilon with a good error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from .._core.support.fitted import mean_errors, metric_names
from .._core.support.fitted import standard_errors as errors_over_splits

_LIMITS = ("max_error", "tolerance", "standard_errors")


@dataclass(frozen=True, kw_only=True)
class least_epsilon:  # noqa: N801 - it is called as a function is, and can be pickled
    """The `refit` for GridSearchCV that chooses the least epsilon with a good error.

    The error nearly always falls as epsilon grows, so a search that looks at the error alone
    chooses the largest epsilon of its grid: nothing in a score knows what privacy costs. This rule
    names a limit of the error, and takes the least epsilon within it. If several candidates have
    that epsilon, it takes the one with the least error.

    Give at most one of the three limits. Without any, it is one standard error.

    Parameters
    ----------
    max_error : float, default=None
        The error may be at most this, in the unit of the score: a mean squared error of 1e-4, for
        example.
    tolerance : float, default=None
        The error may exceed the least error of all candidates by this fraction of it: 0.1 allows
        10 % more.
    standard_errors : float, default=None
        The error may exceed the least error by this many of its standard errors, which are
        computed from the spread between the folds.
    epsilon : str, default=None
        Name of the parameter in the grid, such as ``"oracle__epsilon"``; None takes the only one
        whose name ends in "epsilon".
    score : str, default=None
        Name of the scorer in a search with several, whose score is minus the error; None takes the
        only one.

    Raises
    ------
    ValueError
        If several limits are given or one is not valid; when called, if no candidate is within
        the limit, or the results do not tell the epsilon, the error or its standard error.

    See Also
    --------
    sklearn_ldp.metrics.make_frequency_scorer : The scorer of such a search, in simulations.
    sklearn_ldp.planning.Plan : Plans the number of users, without a simulation.

    Notes
    -----
    It is called with the `cv_results_`, and returns the index of the chosen candidate. As for every
    callable `refit`, the search then has no ``best_score_``; its error is
    ``-search.cv_results_["mean_test_score"][search.best_index_]``.

    A search over epsilon collects from the same users again and again, so it is for simulations.

    The error of a search is that of its folds: the estimate comes from fewer users than there are,
    and the truth is that of the users left out, who differ from the others by chance.

    The halving searches ignore a callable `refit`. Apply the rule to their results, as in
    ``least_epsilon()(search.cv_results_)``; it then compares the candidates of the last iteration,
    which have seen the same number of users. But these searches drop small epsilons early.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV, ShuffleSplit
    >>> from sklearn_ldp import GRR
    >>> from sklearn_ldp.datasets import make_zipf
    >>> from sklearn_ldp.metrics import make_frequency_scorer
    >>> from sklearn_ldp.model_selection import least_epsilon
    >>> values = make_zipf(n_samples=10_000, n_categories=8, random_state=0)
    >>> search = GridSearchCV(
    ...     GRR(categories=8, random_state=0),
    ...     {"epsilon": [0.5, 1.0, 2.0, 4.0]},
    ...     scoring=make_frequency_scorer("mae"),
    ...     cv=ShuffleSplit(5, test_size=0.5, random_state=0),
    ...     refit=least_epsilon(max_error=0.02),
    ... ).fit(values)
    >>> search.best_params_
    {'epsilon': 1.0}
    >>> least_epsilon(tolerance=1)(search.cv_results_)  # any error up to twice the least
    2
    """

    max_error: float | None = None
    tolerance: float | None = None
    standard_errors: float | None = None
    epsilon: str | None = None
    score: str | None = None

    def __post_init__(self) -> None:
        given = {n: getattr(self, n) for n in _LIMITS if getattr(self, n) is not None}
        fits = [isinstance(one, Real) and 0 <= float(one) < np.inf for one in given.values()]
        if len(given) > 1 or not all(fits):
            names = ", ".join(_LIMITS)
            raise ValueError(f"least_epsilon takes one of {names}, finite and >= 0, got {given}.")

    def __call__(self, cv_results: Mapping[str, Any]) -> int:
        params, metrics = cv_results["params"], sorted(metric_names(cv_results))
        keys = sorted({key for one in params for key in one})
        name = _named("epsilon", self.epsilon, [key for key in keys if key[-7:] == "epsilon"], keys)
        metric = _named("score", self.score, metrics, metrics)
        epsilons, errors = [one.get(name) for one in params], mean_errors(cv_results, metric)
        if not all(isinstance(epsilon, Real) for epsilon in epsilons):
            raise ValueError(f"least_epsilon needs a number {name!r} everywhere, got {epsilons}.")
        rounds = np.asarray(cv_results.get("iter", 0))
        errors = np.where(np.isfinite(errors) & (rounds == rounds.max()), errors, np.inf)
        best = int(np.argmin(errors))
        most = self._most(cv_results, metric, best, float(errors[best]))
        if not errors[best] <= most < np.inf:
            raise ValueError(
                f"least_epsilon found no candidate with a finite error of at most {most:g}: the "
                f"least error is {errors[best]:.3g}, at epsilon={epsilons[best]:g}. If fits "
                'failed, give the search error_score="raise" to see what went wrong.'
            )
        # The least epsilon first, and of equal ones the least error.
        good = np.flatnonzero(errors <= most)
        return int(min(good, key=lambda i: (epsilons[i], errors[i])))

    def _most(self, cv_results: Mapping[str, Any], metric: str, best: int, least: float) -> float:
        """The largest error that is good enough."""
        if np.isinf(least):
            return least
        if self.max_error is not None:
            return self.max_error
        if self.tolerance is not None:
            return least + self.tolerance * abs(least)
        errors, n_folds = errors_over_splits(cv_results, metric)
        if errors is None:
            raise ValueError(f"least_epsilon needs 2 folds, or a max_error, got {n_folds} fold.")
        n_errors = 1.0 if self.standard_errors is None else self.standard_errors
        return least + n_errors * float(errors[best])


def _named(argument: str, given: str | None, found: list[str], known: list[str]) -> str:
    if given is None and len(found) == 1:
        return found[0]
    if given not in known:
        raise ValueError(f"Name {argument}= of least_epsilon, one of {known}, got {given!r}.")
    return given
