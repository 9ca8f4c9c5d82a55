"""Planning of a collection before there is any data: errors, power, and the users they take."""

from ._plan import Plan

__all__ = ["Plan"]
