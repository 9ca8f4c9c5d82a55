"""Numerics: pure functions of arrays, independent of reports, oracles and estimates."""
