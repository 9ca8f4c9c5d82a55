"""Tables of several columns: collected, made consistent, modelled, asked, and turned into rows."""

from ._consistent import Consistent, consistent_tables
from ._latent import ClassMixture
from ._latent_classes import LatentClasses
from ._marginal_oracle import MarginalOracle, compare_methods
from ._table_set import TableSet

__all__ = [
    "ClassMixture",
    "Consistent",
    "LatentClasses",
    "MarginalOracle",
    "TableSet",
    "compare_methods",
    "consistent_tables",
]
