"""EmpiricalBayes and NPMLE: posterior means under priors that are learnt from the estimates."""

from .estimator import EmpiricalBayes
from .priors import NPMLE
from .totals import GroupTotals
