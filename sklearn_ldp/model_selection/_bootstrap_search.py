"""A search on an estimate alone: noise is added to one copy of it, and taken from another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from .._estimate import FrequencyEstimate
from .._noise import Noise
from .._random import RandomState, as_generator
from .._typing import Candidates
from ..numerics.simplex import norm, norm_sub
from ..postprocessing import NOISE_CONSTRAINT, MLEApx, Power, resolve_noise
from ..queries import Queries, as_query_set
from ._added_noise import drawn_noise, with_more_noise
from ._base import Case
from ._guarded_search import GuardedSearch, queries_of


class BootstrapSearch(GuardedSearch):
    """Choose the post-processor that does best on an independent copy of the estimate.

    From an estimate x two others are made: ``x + sqrt(alpha) w`` and ``x - w / sqrt(alpha)``, where
    the noise w is drawn with the covariances of x (the coupled bootstrap [1]_). If the noise of x
    is normal, the two are independent. The candidates post-process the first one, which has a
    little more noise than x, and are compared with the second one, shifted to the known sum 1
    (Norm). The latter is unbiased. So the expected squared distance to it is the squared error with
    respect to the truth, of an estimate from ``n / (1 + alpha)`` users, plus a variance that is the
    same for all candidates. In expectation the candidates are therefore ranked correctly, without
    the truth, without shards of the reports and at no privacy cost.

    %(guarded)s

    Parameters
    ----------
    %(candidates)s
        ``top_k`` takes the largest categories of the estimate that the candidates see.
    alpha : float, default=0.15
        Variance of the noise that the candidates see in addition, over that of the estimate. The
        smaller, the closer they are judged to how they work on the estimate itself, and the more
        noise there is in the comparison.
    %(min_z_score)s
    n_pairs : int, default=4
        How many times noise is drawn for each row. Each draw is used with both signs.
    noise : float or NoiseModel, default=None
        The noise of the estimate. None takes the noise that the estimate carries. For a plain array
        give a :class:`~sklearn_ldp.NoiseModel`, such as ``oracle.noise_``, or the noise level: the
        standard deviation of the estimate of a category that nobody has. With a level alone, "all"
        leaves out MLEApx, Power and PowerNS, which need more. Unless the noise knows covariances,
        as that of an oracle does, errors of different categories are taken as independent.
    %(n_jobs)s
    random_state : int, RandomState, Generator or None, default=0
        Seed of the noise.

    Attributes
    ----------
    %(results)s
    %(best)s
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        The estimate, post-processed by the best candidate.
    %(fitted)s

    See Also
    --------
    HeldOutSearch : Judges on held-out reports, whose noise need not be normal.
    SyntheticSearch : Judges the candidates on a synthetic data set, as the papers do.

    References
    ----------
    .. [1] N. L. Oliveira, J. Lei, R. J. Tibshirani, "Unbiased risk estimation in the normal means
       problem via coupled bootstrap techniques" (2021), :doi:`10.48550/arXiv.2111.09447`.

    Examples
    --------
    >>> from sklearn_ldp import BootstrapSearch, NoiseModel, OLH
    >>> from sklearn_ldp.datasets import load_us_states
    >>> states = load_us_states(n_samples=100_000, random_state=0)
    >>> oracle = OLH(categories=states.categories, random_state=0)
    >>> estimate = oracle.fit_transform(states.categories, sample_weight=states.counts)
    >>> BootstrapSearch().fit(estimate).best_estimator_
    EmpiricalBayes()
    >>> old = estimate.values  # all that was kept of an old collection
    >>> BootstrapSearch(noise=NoiseModel(p=0.5, q=0.25, n_samples=100_000)).fit(old).best_index_
    12
    """

    _parameter_constraints: dict = {
        **GuardedSearch._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "n_pairs": [Interval(Integral, 1, None, closed="left")],
        "noise": NOISE_CONSTRAINT,
    }

    _error_name = "squared error to noisy copies, their noise included"

    def __init__(
        self,
        candidates: Candidates = "all",
        *,
        queries: Queries | Mapping[Any, Queries] | None = None,
        alpha: float = 0.15,
        min_z_score: float = 2.0,
        n_pairs: int = 4,
        noise: float | Noise | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.candidates = candidates
        self.queries = queries
        self.alpha = alpha
        self.min_z_score = min_z_score
        self.n_pairs = n_pairs
        self.noise = noise
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _cases(self, estimate):
        if not estimate.is_raw:
            raise ValueError(
                "BootstrapSearch needs a raw estimate, but this one has been changed by "
                f"{' and '.join(estimate.postprocessors)}: pass the estimate that the oracle "
                "returned, and make the first step a part of each candidate (a Pipeline)."
            )
        noise = resolve_noise(estimate, self.noise, type(self).__name__)
        query_set = as_query_set(self.queries)
        rng = as_generator(self.random_state)
        cases = []
        for i, values in enumerate(estimate.values):
            of_row = noise.of_rows(i)
            row = replace(estimate[i], noise=with_more_noise(of_row, 1 + self.alpha))
            for _ in range(self.n_pairs):
                drawn = drawn_noise(of_row, norm_sub(values), rng)
                cases += [self._case(row, sign * drawn, query_set) for sign in (1, -1)]
        return cases

    def _case(self, row: FrequencyEstimate, drawn: np.ndarray, query_set: Any) -> Case:
        seen = row.with_values(row.values + np.sqrt(self.alpha) * drawn)
        response = norm(row.values[0] - drawn / np.sqrt(self.alpha))
        return Case(seen, response, queries_of(query_set, seen.values[0]))

    def _response_variance(self, estimate):
        return 1.0  # the drawn noise cancels, as it has both signs

    def _all_candidates(self, estimate):
        candidates = super()._all_candidates(estimate)
        if isinstance(self.candidates, str) and isinstance(self.noise, Real):
            return [one for one in candidates if not isinstance(one, MLEApx | Power)]
        return candidates

    def _completed(self, estimate):
        if self.noise is None:
            return estimate
        return replace(estimate, noise=resolve_noise(estimate, self.noise, type(self).__name__))
