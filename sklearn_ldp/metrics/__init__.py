"""How far an estimate is from the truth, and scorers for scikit-learn's model selection."""

from ._audit import AuditResult, audit_epsilon
from ._errors import frequency_mae, frequency_mse, query_errors
from ._scorer import make_frequency_scorer

__all__ = [
    "AuditResult",
    "audit_epsilon",
    "frequency_mae",
    "frequency_mse",
    "make_frequency_scorer",
    "query_errors",
]
