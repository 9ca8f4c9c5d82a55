"""A stored protocol of an oracle, with the parameters from which it was created."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number
from operator import eq
from typing import Any, NamedTuple

import numpy as np

from ..domains import Domain
from ..mechanisms import Protocol
from ._collected import PARTY_PARAMETERS

_IMMUTABLE = (str, Number, type(None), Domain)
_SIMPLE = {str, bytes, int, float, bool, tuple, type(None)}  # types of a category


class KeptProtocol(NamedTuple):
    """A protocol with the parameters from which it was created.

    It is stored, so that a client that makes many reports creates the protocol only once.

    Parameters
    ----------
    protocol : Protocol
        The protocol.
    values : dict
        For each parameter, by name: the object, and a copy of it. The copy is None if the object
        cannot be modified.
    """

    protocol: Protocol
    values: dict[str, tuple[Any, Any]]

    @classmethod
    def from_attributes(
        cls, attributes: Mapping[str, Any], protocol: Protocol
    ) -> KeptProtocol | None:
        """Return an object with the protocol and the parameters among an oracle's attributes.

        Return None if a parameter is an object that could be modified without notice.
        """
        values = {}
        for name, value in dict(attributes).items():  # another thread may add attributes
            if name in PARTY_PARAMETERS[:2] or name.startswith("_") or name.endswith("_"):
                continue
            copy: Any = None
            if isinstance(value, np.ndarray) and not value.dtype.hasobject:
                copy = value.copy()
            elif not isinstance(value, _IMMUTABLE):
                if not isinstance(value, (list, tuple)) or not set(map(type, value)) <= _SIMPLE:
                    return None
                copy = list(value) if isinstance(value, list) else None
            values[name] = value, copy
        return cls(protocol, values)

    def matches(self, attributes: Mapping[str, Any]) -> bool:
        """Return whether the parameters among an oracle's attributes are unchanged, so the
        protocol is valid."""
        for name, (original, copy) in self.values.items():
            value = attributes.get(name)
            # It must be the same object, because True equals 1 but is not a valid number.
            same = np.array_equal if isinstance(copy, np.ndarray) else eq
            if value is not original or (copy is not None and not same(value, copy)):
                return False
        return True
