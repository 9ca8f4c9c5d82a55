"""Search on an estimate alone: noise is added to one copy of it, and taken from another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from .._estimates import FrequencyEstimate
from .._noise import NOISE_CONSTRAINT, Noise
from .._numerics.simplex import norm, norm_sub
from .._utils.random import RandomState, as_generator
from ..postprocessing import resolve_noise
from ..queries import Queries, as_query_set
from ._base import Candidates, Case, NoisySearch, queries_of

_TINIEST = 1e-300
_MOST_STEPS = 60
_PRECISE = 1e-3  # of a draw's length


class BootstrapSearch(NoisySearch):
    """Choose the post-processor that does best on an independent copy of the estimate.

    From an estimate x two others are made: ``x + sqrt(alpha) w`` and ``x - w / sqrt(alpha)``, where
    the noise w is drawn with the covariances of x (the coupled bootstrap [1]_). If the noise of x
    is normal, the two are independent. The candidates post-process the first one, which has a
    little more noise than x, and are compared with the second one, shifted to the known sum 1
    (Norm). The latter is unbiased. So the expected squared distance to it is the squared error with
    respect to the truth, of an estimate from ``n / (1 + alpha)`` users, plus a variance that is the
    same for all candidates. In expectation the candidates are therefore ranked correctly, without
    the truth, without shards of the reports and at no privacy cost.

    %(evidence)s

    Parameters
    ----------
    %(candidates)s
        ``top_k`` takes the largest categories of the estimate that the candidates see.
    alpha : float, default=0.15
        Variance of the noise that the candidates see in addition, over that of the estimate. The
        smaller, the closer they are judged to how they work on the estimate itself, and the more
        noise there is in the comparison.
    %(min_z_score)s
    n_repeats : int, default=4
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

    Notes
    -----
    With as few reports as in the notes of :class:`~sklearn_ldp.Calibrate`, the chosen candidate's
    error in every category exceeds that of NormSub by over 5 % in 1 of 72 cells, by a factor of
    1.23. The noise of such estimates is skewed, so that the two copies are not
    independent.

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
        **NoisySearch._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "n_repeats": [Interval(Integral, 1, None, closed="left")],
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
        n_repeats: int = 4,
        noise: float | Noise | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.candidates = candidates
        self.queries = queries
        self.alpha = alpha
        self.min_z_score = min_z_score
        self.n_repeats = n_repeats
        self.noise = noise
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _cases(self, estimate):
        self._refuse_changed(estimate)
        noise = resolve_noise(estimate, self.noise, type(self).__name__)
        query_set = as_query_set(self.queries)
        rng = as_generator(self.random_state)
        cases = []
        for i, values in enumerate(estimate.values):
            of_row = noise.of_rows(i)
            row = replace(estimate[i], noise=of_row.scaled(1 + self.alpha))
            for _ in range(self.n_repeats):
                drawn = drawn_noise(of_row, norm_sub(values), rng)
                cases += [self._case(row, sign * drawn, query_set) for sign in (1, -1)]
        return cases

    def _case(self, row: FrequencyEstimate, drawn: np.ndarray, query_set: Any) -> Case:
        seen = row.with_values(row.values + np.sqrt(self.alpha) * drawn)
        response = norm(row.values[0] - drawn / np.sqrt(self.alpha))
        return Case(seen, response, queries_of(query_set, seen.values[0]))

    def _response_variance(self, estimate):
        return 1.0  # the drawn noise cancels, as it has both signs

    def _completed(self, estimate):
        if self.noise is None:
            return estimate
        return replace(estimate, noise=resolve_noise(estimate, self.noise, type(self).__name__))


# -- noise that is added on purpose -------------------------------------------------------------
def drawn_noise(noise: Noise, frequencies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw normal errors with the covariances that an estimate has.

    Parameters
    ----------
    noise : Noise
        The noise of a single estimate; without covariances, errors are taken as independent.
    frequencies : ndarray of shape (d,)
        True frequencies of all categories.
    rng : Generator
        Source of the draw.

    Returns
    -------
    ndarray of shape (d,)
        The errors.

    Notes
    -----
    They are the square root of the covariance matrix times independent normal numbers, by Lanczos'
    method, which needs nothing but products with the matrix. Scaled to a diagonal of ones, it is
    the identity plus a matrix of low rank for most oracles, which takes as many steps as the rank.
    """
    errors = noise.at(frequencies)
    deviations = np.sqrt(np.maximum(errors.variances(), 0))
    independent = rng.standard_normal(len(frequencies))
    safe = np.maximum(deviations, _TINIEST)

    def correlations(vector):
        return errors.product(vector / safe) / safe

    try:
        return deviations * _square_root_product(correlations, independent)
    except ValueError:
        return deviations * independent


def _square_root_product(product: Any, vector: np.ndarray) -> np.ndarray:
    """Return the square root of a symmetric matrix times a vector, from products with the matrix.

    In the basis of the Krylov space, which is extended step by step, the matrix is tridiagonal.
    """
    length = np.linalg.norm(vector)
    basis, weights = [vector / length], np.zeros(0)
    diagonal: list[float] = []
    beside: list[float] = []
    while True:
        image = product(basis[-1])
        diagonal.append(float(basis[-1] @ image))
        values, vectors = np.linalg.eigh(
            np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
        )
        before, weights = weights, vectors @ (np.sqrt(np.maximum(values, 0)) * vectors[0])
        change = np.linalg.norm(weights - np.append(before, 0))
        # Twice, as rounding leaves something along earlier vectors.
        for _ in range(2):
            for one in basis:
                image = image - (one @ image) * one
        beside.append(float(np.linalg.norm(image)))
        if beside[-1] < _PRECISE or change < _PRECISE or len(basis) == _MOST_STEPS:
            return length * (weights @ np.array(basis))
        basis.append(image / beside[-1])
