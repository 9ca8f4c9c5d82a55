"""Numerics: pure functions of arrays, which know nothing of reports, oracles or estimates."""
