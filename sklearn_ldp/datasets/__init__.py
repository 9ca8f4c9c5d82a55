"""Data for experiments: synthetic populations, real data sets, and a reader of histograms."""

from ._generators import make_beta, make_zipf, sample_counts
from ._readers import read_histogram
from ._real import load_ucb_admissions, load_us_states

__all__ = [
    "load_ucb_admissions",
    "load_us_states",
    "make_beta",
    "make_zipf",
    "read_histogram",
    "sample_counts",
]
