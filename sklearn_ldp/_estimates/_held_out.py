"""Estimates judged by the raw estimate of other users, without the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from ..queries import Queries, as_query_set, query_matrix
from ._errors import as_truth_and_estimate, query_errors
from ._estimate import FrequencyEstimate
from ._set import EstimateSet


@overload
def held_out_score(
    estimate: FrequencyEstimate | ArrayLike,
    held_out: FrequencyEstimate,
    *,
    queries: Queries | None = None,
) -> float: ...
@overload
def held_out_score(
    estimate: EstimateSet, held_out: EstimateSet, *, queries: Queries | None = None
) -> dict[Any, float]: ...
def held_out_score(
    estimate: FrequencyEstimate | EstimateSet | ArrayLike,
    held_out: FrequencyEstimate | EstimateSet,
    *,
    queries: Queries | None = None,
) -> float | dict[Any, float]:
    """Return an unbiased estimate of minus the mean squared error, without the truth.

    The squared distance to the raw estimate of other users is, in expectation, the squared error
    with respect to their frequencies plus the variance of that raw estimate. This variance is
    subtracted. It is linear in the frequencies, so the same raw estimate gives it without bias.
    The score is unbiased, but not precise: if there are few held-out users, it may be above 0.

    Privacy: no cost, because both estimates are made from reports.

    Parameters
    ----------
    estimate : FrequencyEstimate, EstimateSet or array-like of shape (n_estimates, d)
        The estimate to judge; it must be independent of the held-out reports.
    held_out : FrequencyEstimate of shape (1, d), or EstimateSet
        The raw estimate of an oracle, made from reports that were not used for `estimate`; a set of
        the same parts if `estimate` is one.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category.
        ``top_k`` depends on the truth and is refused.

    Returns
    -------
    float, or dict of float
        Minus the error, averaged over the rows of `estimate`; greater is better. By name for a set;
        parts without users are left out.

    Raises
    ------
    ValueError
        If the held-out estimate is not raw, has several rows, or has no noise model.

    See Also
    --------
    make_held_out_scorer : The same score for GridSearchCV and similar tools.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OUE, NormSub
    >>> from sklearn_ldp.metrics import held_out_score
    >>> oracle = OUE(epsilon=1.0, random_state=np.random.default_rng(0))
    >>> counts = np.repeat([5000, 0], [2, 98])
    >>> ours, theirs = oracle.simulate(counts), oracle.simulate(counts)
    >>> held_out_score(NormSub().fit_transform(ours), theirs) > held_out_score(ours, theirs)
    True
    """
    if isinstance(held_out, EstimateSet) or isinstance(estimate, EstimateSet):
        return _of_parts(estimate, held_out, queries)
    if not (isinstance(held_out, FrequencyEstimate) and held_out.is_raw and len(held_out) == 1):
        raise ValueError(
            "held_out_score compares with one raw estimate of held-out reports, got "
            f"{held_out!r}: pass oracle.estimate_ of an oracle that has read these reports."
        )
    if held_out.noise is None:
        raise ValueError(
            "held_out_score needs the noise of the held-out estimate for its variance: pass "
            "oracle.estimate_ itself, or FrequencyEstimate(..., noise=oracle.noise_)."
        )
    query_set = as_query_set(queries).aligned(held_out.categories, held_out.domain)
    if query_set.depends_on_truth:
        raise ValueError(
            f"held_out_score cannot ask {query_set!r}, which depends on the truth: choose the "
            "categories without the held-out reports and pass their query_matrix."
        )
    of_ours = getattr(estimate, "categories", held_out.categories)
    if of_ours is not held_out.categories and not np.array_equal(of_ours, held_out.categories):
        raise ValueError(
            "held_out_score compares estimates over one domain, in one order, got other categories "
            "in the held-out one: declare them in the oracle. Of two collections of strings each "
            "finds its own: ask one estimate for the strings of the other."
        )
    truth, estimate = as_truth_and_estimate(held_out.values[0], estimate)
    if estimate.clip_answers:
        # Clipped answers have no closed form, so the error and its variance need the same sets.
        query_set = query_matrix(query_set.matrix(len(truth)))
    errors = query_errors(truth, estimate, queries=query_set, metric="mse")
    variance = query_set.mean_variance(held_out.noise.of_rows(0), truth)
    return float(variance - errors.mean())


def _of_parts(estimate: Any, held_out: Any, queries: Queries | None) -> dict[Any, float]:
    given = (estimate, held_out)
    first, second = (one.names if isinstance(one, EstimateSet) else repr(one) for one in given)
    if first != second:
        raise ValueError(
            "held_out_score compares a set of estimates with another one of the same parts, got "
            f"{first} and {second}."
        )
    return {
        name: held_out_score(part, held_out[name], queries=queries)
        for name, part in estimate.items()
        if len(part) and len(held_out[name])
    }


def mean_of_parts(results: Any, weights: Mapping[Any, float]) -> float:
    """The mean of numbers; of a set, of the means of its parts, of which those left out count 1."""
    if not isinstance(results, Mapping):
        return float(np.mean(results))
    means = [float(np.mean(numbers)) for numbers in results.values()]
    return float(np.average(means, weights=[weights.get(name, 1.0) for name in results]))
