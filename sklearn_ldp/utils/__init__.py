"""Checks that third-party oracles and post-processors can run on themselves."""
