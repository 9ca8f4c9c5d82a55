"""Benchmarks: figures to print, never to assert."""
