"""EmpiricalBayes and NPMLE: posterior means under priors that are learned from the estimates."""

from .estimator import EmpiricalBayes
from .priors import NPMLE
from .totals import GroupTotals
