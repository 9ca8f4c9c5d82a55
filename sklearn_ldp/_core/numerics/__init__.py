"""Numerics: functions of arrays that use no reports, oracles or estimates."""
