"""The base class of estimators that learn from randomized labels."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import Bunch, get_tags
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from .._core.common.docs import Documented
from .._core.common.privacy import WatchesRefits, warn_once
from .._core.fitting import Budget
from ._label_channel import steps_to_last


class LabelLearner(Documented, WatchesRefits, MetaEstimatorMixin, BaseEstimator):
    """Base class of meta-estimators that randomize labels and train on them, or on reports."""

    _parameter_constraints: dict = {
        "estimator": [None, HasMethods(["fit", "predict"])],
        "epsilon": [Budget()],
        "input": [StrOptions({"values", "reports"})],
        "random_state": ["random_state", np.random.Generator],
    }

    estimator: Any
    input: str
    random_state: Any

    def _base(self) -> Any:
        """Return the estimator to train: the parameter `estimator`, or the default."""
        raise NotImplementedError

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _routed(self, sample_weight: ArrayLike | None, fit_params: dict) -> dict[str, Any]:
        """Return the keyword arguments for the method `fit` of the estimator to train.

        They contain the sample weights, if there are any, and the routed `fit_params`.
        """
        if get_config().get("enable_metadata_routing", False):
            routed: Bunch = process_routing(self, "fit", sample_weight=sample_weight, **fit_params)
            return dict(routed.estimator.fit)
        if sample_weight is None:
            return dict(fit_params)
        names, _ = steps_to_last(self._base())
        return {**fit_params, "__".join([*names, "sample_weight"]): sample_weight}

    def _take_features(self, fitted: Any) -> None:
        """Copy the attributes `n_features_in_` and `feature_names_in_` of the fitted estimator."""
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(fitted, name):
                setattr(self, name, getattr(fitted, name))

    def _warn_of_constant(self, n_reports: int) -> None:
        """Warn that the fitted model predicts the same for all rows.

        All clones of this estimator in a search issue the warning only once.
        """
        message = (
            f"{self._name} ends at the constant (the same prediction for all rows), because "
            f"{n_reports} reports do not show that the features predict the label. Collect more "
            "reports, or use fewer features or a larger epsilon."
        )
        warn_once(message, UserWarning, f"the constant of {self._family or uuid4()}")

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata requests of this estimator and of the estimator that it trains.

        Returns
        -------
        MetadataRouter
            The routing of `fit`.
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return router.add(estimator=self._base(), method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._base())
        tags.input_tags = inner.input_tags
        tags.non_deterministic = self.random_state is None and self.input == "values"
        return tags

    @property
    def _expected_failed_checks(self) -> dict[str, str]:
        """The scikit-learn checks that this estimator cannot pass, with the reasons."""
        reason = "each label is randomized with random bits of its own, even if rows are repeated"
        if self.input == "reports":
            reason = "the held-out rows change if rows are repeated"
        kinds = ("dense", "sparse")
        return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in kinds}
