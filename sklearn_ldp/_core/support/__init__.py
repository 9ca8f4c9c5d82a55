"""Helpers that know nothing of local differential privacy."""
