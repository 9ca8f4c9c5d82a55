"""Data for experiments: synthetic populations, one real data set, and a reader of histograms."""

from ._generators import make_beta, make_zipf, sample_counts
from ._readers import read_histogram
from ._us_states import load_us_states

__all__ = ["load_us_states", "make_beta", "make_zipf", "read_histogram", "sample_counts"]
