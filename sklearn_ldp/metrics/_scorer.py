"""What the scorers share: weights, metadata routing, a name, and warnings that are given once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Self
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRequest

from .._typing import Values
from ..oracles.collector import BaseCollector

# Which scorer has already warned of what, in this process. A copy of a scorer is the same scorer:
# searches copy and pickle it once for each task.
_given: set[tuple[str, type[Warning]]] = set()


class BaseScorer:
    """Base of the scorers, which `GridSearchCV` and similar tools call with users left out."""

    # Whether scikit-learn's metadata routing brings the weights: None makes it ask the user.
    _requests_weights: bool | str | None = None

    def __init__(self) -> None:
        self._identity = uuid4().hex

    def __call__(
        self,
        estimator: BaseEstimator,
        X: Values,
        y: object = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        raise NotImplementedError

    @property
    def __name__(self) -> str:
        """The name that scikit-learn's displays write on an axis."""
        raise NotImplementedError

    def set_score_request(self, *, sample_weight: bool | str | None) -> Self:
        """Ask scikit-learn's metadata routing for the weights, as its own scorers do.

        Parameters
        ----------
        sample_weight : bool, str or None
            Whether the weights are passed to this scorer; a str is the name under which the caller
            gives them, and None makes it an error to give any before this is said.

        Returns
        -------
        self : object
            The scorer.

        Raises
        ------
        RuntimeError
            If metadata routing is off.
        ValueError
            If `sample_weight` is no such request.
        """
        if not get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                f"{self!r}.set_score_request needs metadata routing: call "
                "sklearn.set_config(enable_metadata_routing=True) first."
            )
        self._routing_of(sample_weight)  # refuses what is no request
        self._requests_weights = sample_weight
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return what the scorer asks of metadata routing.

        Returns
        -------
        MetadataRequest
            The request for `sample_weight`.
        """
        return self._routing_of(self._requests_weights)

    def _routing_of(self, request: bool | str | None) -> MetadataRequest:
        routing = MetadataRequest(owner=self)
        routing.score.add_request(param="sample_weight", alias=request)
        return routing

    def _routing_repr(self) -> str:
        """Return how errors of metadata routing call the scorer: as the user has made it."""
        return repr(self)

    def _accept_sample_weight(self) -> bool:
        """Tell scikit-learn's searches, which ask this if metadata routing is off."""
        return True

    def _warn_once(self, message: str, category: type[Warning]) -> None:
        """Warn, unless this scorer has given a warning of this category in this process."""
        if (self._identity, category) not in _given:
            warnings.warn(message, category, stacklevel=3)
            _given.add((self._identity, category))  # not reached where warnings are errors

    def _warn_of_lost_weights(
        self, oracle: BaseCollector[Any], sample_weight: ArrayLike | None
    ) -> None:
        """Warn if the oracle was fitted with weights, and none came with the users left out."""
        if sample_weight is None and oracle._fitted("score").is_weighted:
            self._warn_once(
                f"The {type(oracle).__name__} was fitted with sample_weight, but its scorer was "
                "given none and counts each row of X as one user. In a search or a "
                "cross-validation, call sklearn.set_config(enable_metadata_routing=True), "
                "set_fit_request(sample_weight=True) of the oracle and "
                "set_score_request(sample_weight=True) of the scorer, and pass sample_weight "
                "without a prefix. If each row is one user, pass a sample_weight of ones.",
                UserWarning,
            )


def oracle_and_its_input(estimator: BaseEstimator, X: Values) -> tuple[Any, Values]:
    """Return the oracle inside an estimator, and X as the oracle receives it."""
    if hasattr(estimator, "best_estimator_"):  # GridSearchCV and similar tools
        return oracle_and_its_input(estimator.best_estimator_, X)
    if isinstance(estimator, BaseCollector):
        return estimator, X
    steps = estimator.steps if isinstance(estimator, Pipeline) else []
    for i, (_, step) in enumerate(steps):
        if isinstance(step, BaseCollector):
            return step, estimator[:i].transform(X) if i else X
    raise TypeError(
        "Scoring frequencies needs an oracle, or a Pipeline with an oracle among its steps, got "
        f"{type(estimator).__name__}."
    )


def mean_over_parts(results: Mapping[Any, float], oracle: Any) -> float:
    """Return the mean of what was found for each part of a survey, weighted by its `weights`."""
    names, given = oracle.estimate_.names, getattr(oracle, "weights", None)
    if given is None or isinstance(given, Mapping):
        weights = dict.fromkeys(names, 1.0) | dict(given or {})
    else:
        weights = dict(zip(names, given, strict=True))
    return float(np.average(list(results.values()), weights=[weights[name] for name in results]))
