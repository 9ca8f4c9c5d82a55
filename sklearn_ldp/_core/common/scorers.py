"""The base of scorers, which scikit-learn's searches call, also with weights."""

from __future__ import annotations

from typing import Self
from uuid import uuid4

from sklearn import get_config
from sklearn.utils.metadata_routing import MetadataRequest

from .privacy import warn_once


class BaseScorer:
    """Base of the scorers, which `GridSearchCV` and similar tools call with held-out users.

    A scorer is called as ``scorer(estimator, X, y=None, sample_weight=None)``, and scikit-learn's
    displays write its ``__name__`` on an axis.
    """

    # Whether scikit-learn's metadata routing passes the weights. If None, the user must decide.
    _requests_weights: bool | str | None = None

    def __init__(self) -> None:
        # A copy of a scorer is the same scorer: searches copy and pickle it once for each task.
        self._identity = uuid4().hex

    def set_score_request(self, *, sample_weight: bool | str | None) -> Self:
        """Request the weights from scikit-learn's metadata routing, like its own scorers.

        Parameters
        ----------
        sample_weight : bool, str or None
            Whether the weights are passed to this scorer. A str is the name of the weights in the
            caller's arguments. If None, passing weights is an error.

        Returns
        -------
        self : object
            The scorer.

        Raises
        ------
        RuntimeError
            If metadata routing is off.
        ValueError
            If `sample_weight` is not a valid request.
        """
        if not get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                f"{self!r}.set_score_request needs metadata routing. First call "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        self._routing_of(sample_weight)  # raises ValueError for an invalid request
        self._requests_weights = sample_weight
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the scorer's requests of metadata routing.

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
        """Return the name of the scorer in errors of metadata routing: the user's call."""
        return repr(self)

    def _accept_sample_weight(self) -> bool:
        """Return True for scikit-learn's searches without metadata routing, which ask this."""
        return True

    def _warn_once(self, message: str, category: type[Warning]) -> None:
        """Warn, unless this scorer has given a warning of this category in this process."""
        warn_once(message, category, f"{category.__name__} of the scorer {self._identity}")
