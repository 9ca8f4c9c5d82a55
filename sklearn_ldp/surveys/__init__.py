"""Surveys: estimates of several columns per user, tables of several columns, and joint models."""

from .._core.domains import RecordDomain
from .._core.mechanisms.several import QuestionView, SampledQuestions
from ._base import BaseColumnSurvey
from ._class_mixture import ClassMixture
from ._column_oracle import ColumnOracle
from ._consistent import Consistent, consistent_tables
from ._latent_classes import LatentClasses
from ._marginal_oracle import MarginalOracle, compare_methods
from ._range_oracle import RangeOracle
from ._response_design import ResponseDesign
from ._table_set import TableSet

__all__ = [
    "BaseColumnSurvey",
    "ClassMixture",
    "ColumnOracle",
    "Consistent",
    "LatentClasses",
    "MarginalOracle",
    "QuestionView",
    "RangeOracle",
    "RecordDomain",
    "ResponseDesign",
    "SampledQuestions",
    "TableSet",
    "compare_methods",
    "consistent_tables",
]
