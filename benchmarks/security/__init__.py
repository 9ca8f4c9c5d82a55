"""Benchmarks of attacks and of hostile files: what an enemy costs, and what is seen of one."""
