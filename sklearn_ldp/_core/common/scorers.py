"""The base class of the scorers, which scikit-learn's searches call."""

from __future__ import annotations

from typing import Self
from uuid import uuid4

from sklearn import get_config
from sklearn.utils.metadata_routing import MetadataRequest

from .privacy import warn_once


class BaseScorer:
    """Base class of the scorers, which `GridSearchCV` and similar tools call with held-out users.

    A scorer is called as ``scorer(estimator, X, y=None, sample_weight=None)``. Displays of
    scikit-learn write its ``__name__`` on an axis.
    """

    # Whether scikit-learn's metadata routing passes the weights. If None, the user must decide.
    _requests_weights: bool | str | None = None

    def __init__(self) -> None:
        # A copy of a scorer is the same scorer: searches copy and pickle it once for each task.
        self._identity = uuid4().hex

    def set_score_request(self, *, sample_weight: bool | str | None) -> Self:
        """Set whether scikit-learn's metadata routing passes sample weights to this scorer.

        Parameters
        ----------
        sample_weight : bool, str or None
            Whether the weights are passed to this scorer. If it is a str, the caller passes the
            weights under this name. If None, an error is raised if the caller passes weights.

        Returns
        -------
        self : object
            The scorer.

        Raises
        ------
        RuntimeError
            If metadata routing is not enabled in scikit-learn.
        ValueError
            If `sample_weight` is not a valid request.
        """
        if not get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                f"{self!r}.set_score_request needs metadata routing, which is not enabled. First "
                "call sklearn.set_config(enable_metadata_routing=True)."
            )
        self._routing_of(sample_weight)  # raises ValueError for an invalid request
        self._requests_weights = sample_weight
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata that this scorer requests, for scikit-learn's metadata routing.

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
        """Return the name of the scorer for errors of metadata routing."""
        return repr(self)

    def _accept_sample_weight(self) -> bool:
        """Return True: the scorer accepts sample weights.

        Searches of scikit-learn without metadata routing call this method.
        """
        return True

    def _warn_once(self, message: str, category: type[Warning]) -> None:
        """Give a warning, unless this scorer has already given a warning of the same class."""
        warn_once(message, category, f"{category.__name__} of the scorer {self._identity}")
