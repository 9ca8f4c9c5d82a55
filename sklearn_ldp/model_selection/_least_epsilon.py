"""Choice of the least epsilon whose error is good enough, for searches of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from .._utils.fitted import mean_errors, metric_names, standard_errors


def least_epsilon(
    *,
    max_error: float | None = None,
    tolerance: float | None = None,
    standard_errors: float | None = None,
    epsilon: str | None = None,
    score: str | None = None,
) -> LeastEpsilon:
    """Make a `refit` for GridSearchCV that chooses the least epsilon with a good error.

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

    Returns
    -------
    callable
        ``refit(cv_results) -> int``, the index of the chosen candidate. As for every callable
        `refit`, the search then has no ``best_score_``; its error is
        ``-search.cv_results_["mean_test_score"][search.best_index_]``.

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
    limits = {"max_error": max_error, "tolerance": tolerance, "standard_errors": standard_errors}
    given = {name: value for name, value in limits.items() if value is not None}
    if len(given) > 1:
        raise ValueError(
            "least_epsilon takes one of max_error, tolerance and standard_errors, got "
            f"{' and '.join(given)}."
        )
    name, value = next(iter(given.items()), ("standard_errors", 1.0))
    if not isinstance(value, Real) or not 0 <= float(value) < np.inf:
        raise ValueError(f"Argument {name} must be a finite number >= 0, got {value!r}.")
    return LeastEpsilon(name, float(value), epsilon, score)


@dataclass(frozen=True, repr=False)
class LeastEpsilon:
    """The rule that `least_epsilon` returns; it is a class so that it can be pickled."""

    limit: str
    value: float
    epsilon: str | None
    score: str | None

    def __call__(self, cv_results: Mapping[str, Any]) -> int:
        epsilons, metric = self._epsilons(cv_results["params"]), self._metric(cv_results)
        errors = mean_errors(cv_results, metric)
        is_known = np.isfinite(errors)
        if "iter" in cv_results:
            is_known &= np.asarray(cv_results["iter"]) == np.max(cv_results["iter"])
        if not is_known.any():
            raise ValueError(
                "least_epsilon found no candidate with a finite score; give the search "
                'error_score="raise" to see what went wrong.'
            )
        best = int(np.argmin(np.where(is_known, errors, np.inf)))
        most = self.value  # the largest error that is good enough
        if self.limit == "tolerance":
            most = errors[best] + self.value * abs(errors[best])
        elif self.limit == "standard_errors":
            spread, n_folds = standard_errors(cv_results, metric)
            if spread is None:
                raise ValueError(
                    "least_epsilon needs at least 2 folds for a standard error, got "
                    f"{n_folds}: take more folds, or give max_error or tolerance."
                )
            most = errors[best] + self.value * spread[best]
        is_good = is_known & (errors <= most)
        if not is_good.any():
            raise ValueError(
                f"least_epsilon found no candidate with an error of at most {self.value:g}: the "
                f"least error is {errors[best]:.3g}, at epsilon={epsilons[best]:g}."
            )
        is_least = is_good & (epsilons == epsilons[is_good].min())
        return int(np.argmin(np.where(is_least, errors, np.inf)))

    def _epsilons(self, params: list[dict[str, Any]]) -> np.ndarray:
        """The epsilon of each candidate."""
        names, name = sorted({key for one in params for key in one}), self.epsilon
        if name is None:
            found = [key for key in names if key.endswith("epsilon")]
            if len(found) != 1:
                got = (
                    f", got {found}: name one of them, as in epsilon={found[0]!r}." if found else ""
                )
                raise ValueError(
                    "least_epsilon needs one parameter whose name ends in epsilon in the grid"
                    + (got or f', such as "oracle__epsilon", got {names}.')
                )
            name = found[0]
        for one in params:
            if not isinstance(one.get(name), Real):
                raise ValueError(
                    f"least_epsilon needs a number for the parameter {name!r} in every candidate "
                    f"of the grid, got {one}."
                )
        return np.array([one[name] for one in params], dtype=float)

    def _metric(self, cv_results: Mapping[str, Any]) -> str:
        """The name of the score, as it stands in the columns of the results."""
        names = sorted(metric_names(cv_results))
        if self.score is None and len(names) == 1:
            return names[0]
        if self.score not in names:
            raise ValueError(
                "Argument score of least_epsilon must name a scorer of the search, one of "
                f"{names}, got {self.score!r}."
            )
        return self.score

    def __repr__(self) -> str:
        given = {"epsilon": self.epsilon, "score": self.score}
        named = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        return f"least_epsilon({', '.join([f'{self.limit}={self.value:g}', *named])})"
