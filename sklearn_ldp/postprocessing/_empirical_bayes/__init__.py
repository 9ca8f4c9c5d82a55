"""EmpiricalBayes and NPMLE: posterior means under a prior that is learned from the estimates."""

from .estimator import EmpiricalBayes
from .priors import NPMLE
from .totals import GroupTotals
