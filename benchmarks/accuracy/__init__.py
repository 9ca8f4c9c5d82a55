"""Benchmarks of errors, coverage and learning: how good the estimates are."""
