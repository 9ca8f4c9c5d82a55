"""A rule for GridSearchCV that chooses the smallest epsilon whose error is small enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from .._core.common.fitted import mean_errors, metric_names
from .._core.common.fitted import standard_errors as errors_over_splits

_LIMITS = ("max_error", "tolerance", "standard_errors")


@dataclass(frozen=True, kw_only=True)
class least_epsilon:  # noqa: N801 - users call it like a function; a class can be pickled
    """A rule for the parameter `refit` of GridSearchCV, which chooses a small epsilon.

    The error nearly always falls as epsilon grows, and a score does not include the loss of
    privacy. Therefore a search that uses only the error chooses the largest epsilon of its grid.
    This rule has a limit for the error. It chooses the smallest epsilon whose error does not exceed
    the limit. If several candidates have this epsilon, it chooses the candidate with the smallest
    error.

    Pass at most one of the three limits `max_error`, `tolerance` and `standard_errors`. If you pass
    none, the limit is ``standard_errors=1``.

    Parameters
    ----------
    max_error : float, default=None
        The maximum error, in the unit of the score. For example, 1e-4 if the score is minus the
        mean squared error.
    tolerance : float, default=None
        The fraction by which the error may exceed the smallest error of all candidates. For
        example, 0.1 allows 10 % more.
    standard_errors : float, default=None
        The number of standard errors by which the error may exceed the smallest error. The
        standard error is computed from the differences between the folds.
    epsilon : str, default=None
        Name of the parameter in the grid, such as ``"oracle__epsilon"``. If None, it is the only
        parameter of the grid whose name ends in "epsilon".
    score : str, default=None
        Name of the scorer, which is needed if the search has several scorers. The score must be
        minus the error. If None, it is the only scorer.

    Raises
    ------
    ValueError
        If several limits are passed, or if a limit is not a finite number that is at least 0.
        During the search: if no error is within the limit; if a candidate has no epsilon; if the
        name of the parameter or of the scorer is missing or unknown; or if there is only one fold,
        so that there is no standard error.

    See Also
    --------
    sklearn_ldp.metrics.make_frequency_scorer : The scorer of such a search, in simulations.
    sklearn_ldp.planning.Plan : Plans the number of users, without a simulation.

    Notes
    -----
    The search calls the rule with its `cv_results_`, and the rule returns the index of the chosen
    candidate. A search with a callable `refit` has no ``best_score_``. The error of the chosen
    candidate is ``-search.cv_results_["mean_test_score"][search.best_index_]``.

    A search over epsilon collects reports from the same users many times. Use it only in
    simulations.

    An oracle with a seed draws the same random bits in every fold. Then the errors of the folds are
    correlated, and the standard errors of the search are too small. For public data, omit the seed
    of the oracle, or repeat the search with several seeds. Do not put several seeds into one grid,
    because the rule would choose the luckiest seed.

    The search computes errors by cross-validation: the estimate comes from the users of the
    training folds, and the true frequencies come from the held-out users. The two groups of users
    differ by chance, which increases the error.

    The halving searches of scikit-learn ignore a callable `refit`. Apply the rule to their results:
    ``least_epsilon()(search.cv_results_)``. The rule then compares only the candidates of the last
    iteration, which all have the same number of users. However, a halving search often removes
    small epsilons in its first iterations, because their errors are larger.

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
    >>> least_epsilon(tolerance=1)(search.cv_results_)  # any error up to twice the smallest
    2
    """

    max_error: float | None = None
    tolerance: float | None = None
    standard_errors: float | None = None
    epsilon: str | None = None
    score: str | None = None

    def __post_init__(self) -> None:
        limits = {n: getattr(self, n) for n in _LIMITS if getattr(self, n) is not None}
        is_valid = [isinstance(x, Real) and 0 <= float(x) < np.inf for x in limits.values()]
        if len(limits) > 1 or not all(is_valid):
            names = ", ".join(_LIMITS)
            raise ValueError(
                f"least_epsilon accepts at most one of {names}, as a finite number that is at "
                f"least 0, got {limits}. Pass one such number, or none to use standard_errors=1."
            )

    def __call__(self, cv_results: Mapping[str, Any]) -> int:
        params = cv_results["params"]
        metrics = sorted(metric_names(cv_results))
        names = sorted({name for parameters in params for name in parameters})
        matches = [name for name in names if name.endswith("epsilon")]
        name = _named("epsilon", self.epsilon, matches, names)
        metric = _named("score", self.score, metrics, metrics)
        epsilons = [parameters.get(name) for parameters in params]
        errors = mean_errors(cv_results, metric)
        if not all(isinstance(epsilon, Real) for epsilon in epsilons):
            raise ValueError(
                f"least_epsilon needs a number as {name!r} for each candidate, got {epsilons}. "
                "Add numbers for this parameter to every grid of the search."
            )
        iterations = np.asarray(cv_results.get("iter", 0))
        is_last = iterations == iterations.max()
        errors = np.where(np.isfinite(errors) & is_last, errors, np.inf)
        best = int(np.argmin(errors))
        limit = self._limit(cv_results, metric, best, float(errors[best]))
        if not errors[best] <= limit < np.inf:
            raise ValueError(
                f"least_epsilon found no candidate with a finite error of at most {limit:g}: the "
                f"smallest error is {errors[best]:.3g}, at epsilon={epsilons[best]:g}. If fits "
                'failed, pass error_score="raise" to the search to see the reason. Otherwise pass '
                "a larger limit, or add larger epsilons to the grid."
            )
        # The smallest epsilon first, and among equal ones the smallest error.
        good = np.flatnonzero(errors <= limit)
        return int(min(good, key=lambda i: (epsilons[i], errors[i])))

    def _limit(
        self, cv_results: Mapping[str, Any], metric: str, best: int, smallest: float
    ) -> float:
        """Return the largest error with which a candidate may be chosen.

        metric: name of the score. best, smallest: index and error of the candidate with the
        smallest error.
        """
        if np.isinf(smallest):
            return smallest
        if self.max_error is not None:
            return self.max_error
        if self.tolerance is not None:
            return smallest + self.tolerance * abs(smallest)
        errors, n_folds = errors_over_splits(cv_results, metric)
        if errors is None:
            raise ValueError(
                f"least_epsilon needs at least 2 folds to compute a standard error, got {n_folds} "
                "fold. Pass cv= with at least 2 folds to the search, or pass max_error= or "
                "tolerance= to least_epsilon."
            )
        n_errors = 1.0 if self.standard_errors is None else self.standard_errors
        return smallest + n_errors * float(errors[best])


def _named(argument: str, name: str | None, matches: list[str], known: list[str]) -> str:
    """Return the name of a parameter or of a scorer in the results of a search.

    It is `name`, or the only element of `matches` if `name` is None. Raise ValueError if the result
    would not be in `known`. argument: the argument of least_epsilon, for the error message.
    """
    if name is None and len(matches) == 1:
        return matches[0]
    if name not in known:
        raise ValueError(
            f"least_epsilon: {argument}= must be one of {known}, got {name!r}. Pass one of these "
            f"names as {argument}=."
        )
    return name
