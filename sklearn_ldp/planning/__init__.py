"""Planning of a collection before there is any data: errors, power, and the number of users."""

from ._plan import Plan

__all__ = ["Plan"]
