"""Locks of objects, which a forked process finds free also if its parent has acquired them."""

from __future__ import annotations

import functools
import os
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from threading import RLock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

_Value = TypeVar("_Value")

# Beside the objects, so that clones, copies and pickles contain no lock.
_locks: WeakKeyDictionary[Any, defaultdict[str, Any]] = WeakKeyDictionary()
_of_locks = RLock()


def lock_of(owner: Any, purpose: str = "") -> Any:
    """Return a reentrant lock of an object, for one of the purposes for which it needs locks.

    All locks of the package come from here. A fork copies the locks but only the thread that calls
    it, so another thread's lock would stay acquired for ever: the child begins with new locks.
    """
    with _of_locks:
        return _locks.setdefault(owner, defaultdict(RLock))[purpose]


def _forget_locks() -> None:
    """Begin without locks in a forked process."""
    global _locks, _of_locks
    _locks = WeakKeyDictionary()
    _of_locks = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


class cached_property(functools.cached_property[_Value]):  # noqa: N801
    """A cached property without a lock, as in Python 3.12 and later.

    Python 3.11 has one lock for all objects of a class, which a fork could leave acquired for ever.
    """

    def __init__(self, func: Callable[[Any], _Value]) -> None:
        super().__init__(func)
        self.lock: Any = nullcontext()
