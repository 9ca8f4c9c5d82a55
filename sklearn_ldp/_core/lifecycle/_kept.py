"""The protocol of an oracle, with the attributes that it was made of."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number
from operator import eq
from typing import Any, NamedTuple

import numpy as np

from ..domains import Domain
from ..mechanisms import Protocol
from ._collected import OF_ONE_PARTY

_IMMUTABLE = (str, Number, type(None), Domain)
_SIMPLE = {str, bytes, int, float, bool, tuple, type(None)}  # of a category; of columns a tuple


class KeptProtocol(NamedTuple):
    """A protocol with what it was made of, so that a client that answers often makes it once.

    Parameters
    ----------
    protocol : Protocol
        The protocol.
    values : dict
        The parameters by name, each as it was given and, if its owner may change it, a copy.
    """

    protocol: Protocol
    values: dict[str, tuple[Any, Any]]

    @classmethod
    def of(cls, attributes: Mapping[str, Any], protocol: Protocol) -> KeptProtocol | None:
        """The protocol with an oracle's parameters; None if one may change without a trace."""
        values = {}
        for name, value in dict(attributes).items():  # others may add some meanwhile
            if name in OF_ONE_PARTY[:2] or name.startswith("_") or name.endswith("_"):
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

    def is_of(self, attributes: Mapping[str, Any]) -> bool:
        """Whether these are the attributes that the protocol was made of."""
        for name, (given, copy) in self.values.items():
            value = attributes.get(name)
            # True equals 1, but is refused where a number is expected: it must be the same object.
            same = np.array_equal if isinstance(copy, np.ndarray) else eq
            if value is not given or (copy is not None and not same(value, copy)):
                return False
        return True
