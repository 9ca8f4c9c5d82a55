"""The mean of all candidates, weighted by how they err together on synthetic data sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._core.queries import Queries
from .._core.support.random import RandomState
from ..oracles import BaseOracle
from ._base import Candidates, Case, Judgement, PostProcessor, candidate_name
from ._drawn_noise import scaled_answers
from ._synthetic_search import SyntheticSearch

# How much of the weight goes to the mean, and not to the pick: chosen among 33 rules on 26 November
# 2026, on 54 cells of synthetic populations, flat ones too, and cities (doc/notes/choosing.md).
_SHARE = 2 / 3


class SyntheticStack(SyntheticSearch):
    """Average the post-processors, with the weights that do best on synthetic data sets.

    Where :class:`~sklearn_ldp.SyntheticSearch` picks one candidate, this takes a weighted mean of
    all of them. Errors of different methods partly cancel, and where the simulation cannot tell
    which one is best, a mean does not depend on its luck. The synthetic users, the simulated
    collections and the time are those of the search.

    With E the errors of all candidates' answers in a simulated collection, of shape (n_candidates,
    n_answers), and G the mean of E E' over the collections of a population, the weights w on the
    simplex minimise w' (sum over populations of G / g) w, where g is the error in that population
    of the candidate that SyntheticSearch would take. That candidate has a third of the weight
    besides, as both populations may be wrong in the same way. This is unpublished.

    It is for candidates of one's own, without EmpiricalBayes among them. With "all" it is not sure:
    for the most frequent categories of a flat population it had up to 2.8 times the error of
    SyntheticSearch.

    Parameters
    ----------
    candidates : "all", list of post-processors or dict of grids, default="all"
        As in SyntheticSearch. A PostPos is averaged by its frequencies, which are those of Base.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, with the least mean squared error, see :mod:`sklearn_ldp.queries`;
        None asks for every category. For a set of estimates also a mapping by the names of parts.
    synthesizer : post-processor, default=None
        As in SyntheticSearch.
    n_repeats : int or "auto", default="auto"
        As in SyntheticSearch.
    oracle : oracle, default=None
        The oracle to simulate; None takes the one that made the estimate. It is required with a
        plain array.
    n_samples : int, default=None
        Number of users; None takes that of the estimate. It is required with a plain array.
    %(n_jobs)s
    %(verbose)s
    random_state : int, RandomState, Generator or None, default=0
        Seed of the simulated collections; None takes the randomness of the oracle.

    Attributes
    ----------
    weights_ : dict of float
        The weight of each candidate, by its name in `results_`; they sum to 1.
    %(results)s
        "weight" is one more column. With two populations the scores of each are scaled to the
        geometric mean of both.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        The weighted mean of what the candidates make of the estimate.
    %(fitted)s

    See Also
    --------
    SyntheticSearch : Takes the best candidate alone, as the papers do.

    Notes
    -----
    As after any post-processor, the result has no confidence intervals: the raw estimate has.

    Examples
    --------
    >>> from sklearn_ldp import OLH, BasePos, NormSub, SyntheticStack
    >>> from sklearn_ldp.datasets import make_zipf
    >>> from sklearn_ldp.queries import top_k
    >>> counts = make_zipf(100_000, 256, return_counts=True, random_state=0)
    >>> estimate = OLH(categories=256, random_state=0).simulate(counts)
    >>> stack = SyntheticStack([BasePos(), NormSub()], queries=top_k(10)).fit(estimate)
    >>> {name: round(weight, 2) for name, weight in stack.weights_.items()}
    {'BasePos': 0.88, 'NormSub': 0.12}
    """

    metric = "mse"  # the squared error of a mean follows from products of errors, others do not

    def __init__(
        self,
        candidates: Candidates = "all",
        *,
        queries: Queries | Mapping[Any, Queries] | None = None,
        synthesizer: PostProcessor | None = None,
        n_repeats: int | str = "auto",
        oracle: BaseOracle | None = None,
        n_samples: int | np.integer[Any] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = 0,
    ) -> None:
        self.candidates = candidates
        self.queries = queries
        self.synthesizer = synthesizer
        self.n_repeats = n_repeats
        self.oracle = oracle
        self.n_samples = n_samples
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _judgements(self, candidates, cases, estimate):
        return self._of_each(_errors_of_answers, candidates, cases)

    def _made(self, candidates, judgements, chosen, estimate):
        weights = self._weights(np.stack([one.answers for one in judgements], axis=1), chosen)
        self.results_["weight"] = weights
        self.weights_: dict[Any, float] = dict.fromkeys(self.results_["candidate"].tolist(), 0.0)
        completed, self._stacked = self._completed(estimate), []
        for candidate, weight in zip(candidates, weights.tolist(), strict=True):
            self.weights_[candidate_name(candidate)] += weight
            if weight > 0:
                self._stacked.append((weight, clone(candidate).fit(completed)))
        return self._mean(completed, [one.estimate_ for _, one in self._stacked])

    def _weights(self, errors, chosen):
        """The weights of all candidates; errors have shape (n_rows, n_candidates, n_answers)."""
        n_populations, k = 2 if self.synthesizer is None else 1, errors.shape[1]
        products = (errors @ errors.transpose(0, 2, 1)).reshape(n_populations, -1, k, k)
        means = products.mean(axis=1)
        own = means[:, chosen, chosen]
        scaled = means / np.where(own > 0, own, 1.0)[:, None, None]
        weights = _SHARE * least_on_simplex(scaled.sum(axis=0))
        weights[chosen] += 1 - _SHARE
        return weights

    def _mean(self, estimate, made):
        pairs = zip(self._stacked, made, strict=True)
        values = sum(weight * one.values for (weight, _), one in pairs)
        return estimate.with_values(values, by=type(self).__name__)

    def _process(self, estimate):
        check_is_fitted(self, "weights_")
        completed = self._completed(estimate)
        return self._mean(completed, [one.transform(completed) for _, one in self._stacked])


def _errors_of_answers(candidate: Any, cases: list[Case]) -> Judgement:
    """The errors of a candidate's answers, scaled: the sum of their squares is the error."""
    scaled = []
    for case in cases:
        errors = candidate.fit_transform(case.estimate).values - case.frequencies
        queries = case.queries.aligned(case.estimate.categories, case.estimate.domain)
        scaled.append(scaled_answers(queries, errors, case.frequencies))
    answers = np.concatenate(scaled)
    return Judgement(np.sum(answers**2, axis=1), answers)


def least_on_simplex(products: np.ndarray) -> np.ndarray:
    """Return the weights on the simplex that minimise a quadratic form.

    Parameters
    ----------
    products : ndarray of shape (k, k)
        A symmetric matrix M without negative eigenvalues.

    Returns
    -------
    ndarray of shape (k,)
        Weights w >= 0 of sum 1, with the least w' M w.
    """
    # With x = s w, the minimum of x' M x + (sum(x) - 1)^2 over s is v / (1 + v) for v = w' M w,
    # which grows with v: so non-negative least squares without a constraint has the same w.
    values, vectors = np.linalg.eigh(products / max(np.trace(products), np.finfo(float).tiny))
    rows = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    k = len(products)
    found, _ = nnls(np.vstack([rows, np.ones(k)]), np.append(np.zeros(k), 1.0))
    return found / found.sum()
