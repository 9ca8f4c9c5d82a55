"""Locks of objects. A forked process gets new locks, even if its parent has acquired some."""

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

# Outside of the objects, so that clones, copies and pickles contain no lock.
_locks: WeakKeyDictionary[Any, defaultdict[str, Any]] = WeakKeyDictionary()
_registry_lock = RLock()


def lock_of(owner: Any, purpose: str = "") -> Any:
    """Return the reentrant lock of an object. Each purpose has its own lock.

    All locks of the package come from this function. A fork copies all locks, but only the thread
    that calls it. If another thread had acquired a lock, the lock would never be released in the
    child process. So the child process begins with new locks.
    """
    with _registry_lock:
        return _locks.setdefault(owner, defaultdict(RLock))[purpose]


def _forget_locks() -> None:
    """Replace all locks by new locks in a forked process."""
    global _locks, _registry_lock
    _locks = WeakKeyDictionary()
    _registry_lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


class cached_property(functools.cached_property[_Value]):  # noqa: N801
    """A cached property without a lock, as in Python 3.12 and later.

    In Python 3.11, all objects of a class share one lock. After a fork, this lock could stay
    acquired forever in the child process.
    """

    def __init__(self, func: Callable[[Any], _Value]) -> None:
        super().__init__(func)
        self.lock: Any = nullcontext()
