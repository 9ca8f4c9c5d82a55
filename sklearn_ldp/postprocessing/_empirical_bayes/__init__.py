"""EmpiricalBayes and NPMLE: posterior means under priors that are learnt from the estimates."""

from .estimator import EmpiricalBayes as EmpiricalBayes
from .priors import NPMLE as NPMLE
from .totals import GroupTotals as GroupTotals
