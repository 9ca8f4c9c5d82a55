"""How far an estimate is from the truth, and scorers for scikit-learn's model selection."""

from ._errors import frequency_mae, frequency_mse, query_errors
from ._scorer import make_frequency_scorer

__all__ = ["frequency_mae", "frequency_mse", "make_frequency_scorer", "query_errors"]
