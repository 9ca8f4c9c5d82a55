"""The base of post-processors that look at all tables of a set at once."""

from __future__ import annotations

import copy
from abc import abstractmethod

from .._estimate import FrequencyEstimate
from .._estimate_set import EstimateSet
from ..numerics.simplex import norm_sub
from ..postprocessing import BasePostProcessor
from ._table_set import TableSet


class BaseTableProcessor(BasePostProcessor):
    """Base of post-processors that take a whole :class:`TableSet` and return one.

    An estimate that is no set has nothing to agree with: it is projected onto the simplex, as
    :class:`~sklearn_ldp.NormSub` does it.
    """

    @abstractmethod
    def _process_tables(self, tables: TableSet) -> TableSet:
        """Return the processed tables, and set what was learnt as fitted attributes."""

    def _sees_whole_sets(self) -> bool:
        return True

    def _process(self, estimate: FrequencyEstimate) -> FrequencyEstimate:
        return estimate.with_values(norm_sub(estimate.values), by=type(self).__name__)

    def _fit_set(self, estimates: EstimateSet) -> EstimateSet:
        return self._process_tables(self._checked(estimates))

    def _transform_set(self, estimates: EstimateSet) -> EstimateSet:
        self._validate_params()
        return copy.copy(self)._process_tables(self._checked(estimates))

    def _checked(self, estimates: EstimateSet) -> TableSet:
        if isinstance(estimates, TableSet):
            return estimates
        raise ValueError(
            f"{type(self).__name__} needs the tables that a MarginalOracle returns, got a set of "
            f"{len(estimates)} estimates that have nothing in common: use EmpiricalBayes()."
        )
