"""Benchmarks of time and memory, alone and beside other packages."""
