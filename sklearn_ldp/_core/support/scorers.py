"""The base of scorers, which scikit-learn's searches call and may give weights."""

from __future__ import annotations

from typing import Self
from uuid import uuid4

from sklearn import get_config
from sklearn.utils.metadata_routing import MetadataRequest

from .privacy import warn_once


class BaseScorer:
    """Base of the scorers, which `GridSearchCV` and similar tools call with users left out.

    A scorer is called as ``scorer(estimator, X, y=None, sample_weight=None)``, and scikit-learn's
    displays write its ``__name__`` on an axis.
    """

    # Whether scikit-learn's metadata routing brings the weights: None makes it ask the user.
    _requests_weights: bool | str | None = None

    def __init__(self) -> None:
        # A copy of a scorer is the same scorer: searches copy and pickle it once for each task.
        self._identity = uuid4().hex

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
        """Return how errors of metadata routing call the scorer: as the user has made it."""
        return repr(self)

    def _accept_sample_weight(self) -> bool:
        """Tell scikit-learn's searches, which ask this if metadata routing is off."""
        return True

    def _warn_once(self, message: str, category: type[Warning]) -> None:
        """Warn, unless this scorer has given a warning of this category in this process."""
        warn_once(message, category, f"{category.__name__} of the scorer {self._identity}")
