"""A scorer that tells what a fit costs its users, to stand beside the error in a search."""

from __future__ import annotations

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._typing import Values
from ._scorer import BaseScorer, oracle_and_its_input


def make_epsilon_scorer() -> EpsilonScorer:
    """Make a scorer that returns minus the epsilon that one fit spends of each user.

    In a search with several scorers it puts the cost beside the error, also if the candidates are
    whole oracles: ``scoring={"error": make_frequency_scorer(), "epsilon": make_epsilon_scorer()}``.

    Privacy: no cost; the scorer reads no values. It tells what a single collection costs. A search
    on raw values collects once for every candidate and every fold.

    Returns
    -------
    callable
        ``scorer(estimator, X, y=None, sample_weight=None) -> float``; greater is better. Neither
        the data nor the weights change the score.

    See Also
    --------
    make_frequency_scorer : The error.
    sklearn_ldp.model_selection.least_epsilon : Chooses the least epsilon with a good error.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_ldp import GRR
    >>> from sklearn_ldp.datasets import make_zipf
    >>> from sklearn_ldp.metrics import make_epsilon_scorer, make_frequency_scorer
    >>> scoring = {"error": make_frequency_scorer(), "epsilon": make_epsilon_scorer()}
    >>> oracle = GRR(categories=8, random_state=0)
    >>> search = GridSearchCV(oracle, {"epsilon": [1.0, 2.0]}, scoring=scoring, refit="error")
    >>> search = search.fit(make_zipf(n_samples=1000, n_categories=8, random_state=0))
    >>> search.cv_results_["mean_test_epsilon"]
    array([-1., -2.])
    """
    return EpsilonScorer()


class EpsilonScorer(BaseScorer):
    """The scorer that `make_epsilon_scorer` returns; it is a class so that it can be pickled."""

    # With metadata routing on, nobody has to say that this scorer needs no weights.
    _requests_weights = False

    @property
    def __name__(self) -> str:
        return "neg_epsilon"

    def __call__(
        self,
        estimator: BaseEstimator,
        X: Values,
        y: object = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        oracle, _ = oracle_and_its_input(estimator, X)
        return -float(oracle.epsilon)

    def __repr__(self) -> str:
        return "make_epsilon_scorer()"
