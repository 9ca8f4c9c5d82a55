"""Helpers that do not depend on local differential privacy."""
