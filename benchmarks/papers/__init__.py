"""The experiments of the three papers, each on one command: ``python -m benchmarks.papers``."""
