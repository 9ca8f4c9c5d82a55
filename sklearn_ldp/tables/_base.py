"""The base of post-processors that look at all tables of a set at once."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, Self

from .._estimate import FrequencyEstimate
from .._estimate_set import EstimateSet
from ..postprocessing._base import BasePostProcessor
from ..postprocessing._normalization import norm_sub
from ._table_set import TableSet


class BaseTableProcessor(BasePostProcessor):
    """Base of post-processors that take a whole :class:`TableSet` and return one.

    An estimate that is no set has nothing to agree with: it is projected onto the simplex, as
    :class:`~sklearn_ldp.NormSub` does it.
    """

    @abstractmethod
    def _process_tables(self, tables: TableSet) -> TableSet:
        """Return the processed tables, and set what was learnt as fitted attributes."""

    def _process(self, estimate: FrequencyEstimate) -> FrequencyEstimate:
        return estimate.with_values(norm_sub(estimate.values), by=type(self).__name__)

    def fit(self, X: Any, y: object = None) -> Self:
        if not isinstance(X, EstimateSet):
            return super().fit(X, y)
        self._forget()
        self._validate_params()
        whole: Any = self._process_tables(self._checked(X))
        self.estimate_ = whole
        return self

    fit.__doc__ = BasePostProcessor.fit.__doc__

    def _transform_set(self, estimates: EstimateSet) -> Any:
        self._validate_params()
        return copy.copy(self)._process_tables(self._checked(estimates))

    def _checked(self, estimates: EstimateSet) -> TableSet:
        if isinstance(estimates, TableSet):
            return estimates
        raise ValueError(
            f"{type(self).__name__} needs the tables that a MarginalOracle returns, got a set of "
            f"{len(estimates)} estimates that have nothing in common: use EmpiricalBayes()."
        )

    @property
    def frequencies_(self) -> Any:
        """The fitted rows; of a set, a dict of the cells of each table."""
        fitted: Any = getattr(self, "estimate_", None)
        if isinstance(fitted, EstimateSet):
            return {name: part.values[0] for name, part in fitted.items() if len(part)}
        return super().frequencies_

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        fitted: Any = getattr(self, "estimate_", None)
        if isinstance(fitted, EstimateSet):
            return fitted.feature_names
        return super().get_feature_names_out(input_features)

    get_feature_names_out.__doc__ = BasePostProcessor.get_feature_names_out.__doc__
