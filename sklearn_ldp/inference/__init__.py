"""Statements that hold: intervals and tests from estimates and what is known about their noise."""
