"""SyntheticStack, a weighted mean of post-processors, with weights from simulated users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._core.common.random import RandomState
from .._core.queries import Queries
from ..oracles import BaseOracle
from ._base import Candidates, Case, Judgment, PostProcessor, candidate_name
from ._drawn_noise import scaled_answers
from ._synthetic_search import SyntheticSearch

# The weight of the mean; the choice of SyntheticSearch has the rest. Selected among 33 rules on 26
# November 2026, on 54 settings of synthetic populations, also flat ones, and of cities
# (doc/notes/choosing.md).
_MEAN_WEIGHT = 2 / 3


class SyntheticStack(SyntheticSearch):
    """Average post-processors with the weights that have the smallest error on simulated users.

    The candidates are the post-processors that are averaged. :class:`~sklearn_ldp.SyntheticSearch`
    chooses one candidate. This class computes a weighted mean of the results of all candidates. The
    errors of different candidates partly cancel in the mean. If the simulation cannot show which
    candidate is best, a mean also depends less on chance. The simulated users, the simulated
    collections and the computing time are the same as in SyntheticSearch.

    Let E be the errors of all candidates' answers in a simulated collection, of shape
    (n_candidates, n_answers), and G the mean of E E' over the simulated collections of a
    population. The weights w are non-negative. Two thirds of the total weight minimize w' (sum over
    populations of G / g) w. Here g is the mean squared error, in the same population, of the
    candidate that SyntheticSearch would choose. The remaining third is the weight of this
    candidate, because both populations may differ from the true one in the same way. This method is
    unpublished.

    Use this class for your own candidates if EmpiricalBayes is not among them. With "all" it is
    less reliable: for the most frequent categories of a population with nearly equal frequencies,
    its error was up to 2.8 times the error of SyntheticSearch.

    Parameters
    ----------
    candidates : "all", list of post-processors or dict of grids, default="all"
        The post-processors to average, see :class:`~sklearn_ldp.SyntheticSearch`. For PostPos, the
        average uses its frequencies, which are the frequencies of Base, and not its answers, which
        are set to 0 if they are negative.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries whose answers should have a small mean squared error, see
        :mod:`sklearn_ldp.queries`. If None, every category is a query. For a set of estimates, a
        mapping from the names of its estimates to queries is also possible.
    synthesizer : post-processor, default=None
        The post-processor that makes the distribution of the simulated users, see
        :class:`~sklearn_ldp.SyntheticSearch`.
    n_repeats : int or "auto", default="auto"
        Number of simulated collections, see :class:`~sklearn_ldp.SyntheticSearch`.
    oracle : oracle, default=None
        The oracle that is simulated. If None, use the oracle of the estimate. For a plain array,
        pass the oracle that made the estimate.
    n_samples : int, default=None
        Number of users. If None, use the number of users of the estimate. For a plain array, pass
        this number.
    %(n_jobs)s
    %(verbose)s
    random_state : int, RandomState, Generator or None, default=0
        Seed of the simulated collections. If None, use the `random_state` of the oracle.

    Attributes
    ----------
    weights_ : dict of float
        A dict from each candidate's name in `results_` to its weight. The weights sum to 1.
    %(results)s
        There is an additional entry "weight", the weight of each candidate. With two populations,
        the scores of each candidate are multiplied by a factor in each population, so that both
        populations have the same mean score.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        The weighted mean of the results of all candidates.
    %(fitted)s

    See Also
    --------
    SyntheticSearch : Chooses a single candidate, as the papers do.

    Notes
    -----
    The result has no confidence intervals. Use the confidence intervals of the raw estimate.

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

    # The squared error of a mean follows from products of errors; other errors do not.
    metric = "mse"

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

    def _judge(self, estimate):
        return _scaled_errors

    def _refit(self, candidates, judgments, chosen, estimate):
        errors = np.stack([judgment.answers for judgment in judgments], axis=1)
        weights = self._weights(errors, chosen)
        self.results_["weight"] = weights
        self.weights_: dict[Any, float] = dict.fromkeys(self.results_["candidate"].tolist(), 0.0)
        completed = self._completed(estimate)
        self._stacked = []
        for candidate, weight in zip(candidates, weights.tolist(), strict=True):
            self.weights_[candidate_name(candidate)] += weight
            if weight > 0:
                self._stacked.append((weight, clone(candidate).fit(completed)))
        return self._mean(completed, [post.estimate_ for _, post in self._stacked])

    def _weights(self, errors, chosen):
        """Return the weights of all candidates, which are non-negative and sum to 1.

        errors: the scaled errors of the answers, of shape (n_cases, n_candidates, n_answers).
        chosen: index of the candidate that SyntheticSearch would choose.
        Returns: an array of shape (n_candidates,).
        """
        n_populations = 2 if self.synthesizer is None else 1
        k = errors.shape[1]
        products = (errors @ errors.transpose(0, 2, 1)).reshape(n_populations, -1, k, k)
        means = products.mean(axis=1)
        chosen_errors = means[:, chosen, chosen]
        scales = np.where(chosen_errors > 0, chosen_errors, 1.0)
        scaled = means / scales[:, None, None]
        weights = _MEAN_WEIGHT * least_on_simplex(scaled.sum(axis=0))
        weights[chosen] += 1 - _MEAN_WEIGHT
        return weights

    def _mean(self, estimate, processed):
        """Return the weighted mean of the candidates' results as a FrequencyEstimate.

        estimate: the raw estimate. processed: the results of the candidates with a positive weight.
        """
        pairs = zip(self._stacked, processed, strict=True)
        values = sum(weight * result.values for (weight, _), result in pairs)
        return estimate.with_values(values, by=type(self).__name__)

    def _process(self, estimate):
        check_is_fitted(self, "weights_")
        completed = self._completed(estimate)
        return self._mean(completed, [post.transform(completed) for _, post in self._stacked])


def _scaled_errors(candidate: Any, cases: list[Case]) -> Judgment:
    """Return the Judgment of a candidate: its mean squared error in each case, and scaled errors.

    The scaled errors are the errors of the answers, multiplied by numbers such that their squares
    sum to the mean squared error.
    """
    # The squares of the scaled errors sum to the squared error.
    scaled = []
    for case in cases:
        errors = candidate.fit_transform(case.estimate).values - case.frequencies
        queries = case.queries.aligned(case.estimate.categories, case.estimate.domain)
        scaled.append(scaled_answers(queries, errors, case.frequencies))
    answers = np.concatenate(scaled)
    return Judgment(np.sum(answers**2, axis=1), answers)


def least_on_simplex(products: np.ndarray) -> np.ndarray:
    """Return the non-negative weights with the sum 1 that minimize a quadratic form.

    Parameters
    ----------
    products : ndarray of shape (k, k)
        The symmetric matrix M of the quadratic form. It has no negative eigenvalues.

    Returns
    -------
    ndarray of shape (k,)
        The weights w that minimize w' M w.
    """
    # With x = s w, the minimum of x' M x + (sum(x) - 1)^2 over s is v / (1 + v) for v = w' M w,
    # which grows with v. So non-negative least squares without the constraint has the same w.
    values, vectors = np.linalg.eigh(products / max(np.trace(products), np.finfo(float).tiny))
    rows = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    k = len(products)
    weights, _ = nnls(np.vstack([rows, np.ones(k)]), np.append(np.zeros(k), 1.0))
    return weights / weights.sum()
