"""Side files that keep writers of one file apart: a lock for a whole run, a claim for a moment."""

from __future__ import annotations

import os
import random
import secrets
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .._files._atomic import errors_name, is_alive

_STALE_SECONDS = 30.0  # a claim is held for milliseconds
_LOCKED_BYTE = 1 << 30  # Windows lets nobody read a locked byte, and the text stands at the front

_held: set[int] = set()


class LockedError(ValueError):
    """Another process works on the file, and did not end in time."""


# -- a lock of the system, which dies with its process ----------------------------------------
def _lock(descriptor: int, *, wait: bool = False) -> bool:
    """Lock an open file; True as well where the file system knows no locks."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # not honoured here; whoever writes compares what is on disk all the same
        return True
    return True


def _forget_locks() -> None:
    """A forked child must not keep alive the locks of its parent."""
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Keep other runs off a file, which is locked through a file beside it.

    The lock is not on the file itself, because a file that is replaced takes its lock with it.

    Parameters
    ----------
    path : Path
        The file to work on.
    seconds : float
        How long to wait for another run.

    Raises
    ------
    LockedError
        If the other run does not end in time. The error names its process.
    """
    side = _side(path, "lock")
    deadline = time.monotonic() + seconds
    while (descriptor := _attempt(path, side)) is None:
        if time.monotonic() >= deadline:
            raise LockedError(
                f"{path} is in use by {_owner(side)}, which did not end within {seconds:g} "
                "seconds: nothing was read, so run this again when that process is done."
            )
        time.sleep(random.uniform(0.01, 0.1))  # processes that start together must not stay in step
    _held.add(descriptor)
    try:
        yield
    finally:
        _held.discard(descriptor)
        with suppress(OSError):
            side.unlink()  # while it is locked, so that nobody locks a file without a name
        with suppress(OSError):  # a forked child has closed it
            os.close(descriptor)


def other_user(path: Path) -> str:
    """Name the process whose run has locked the file; empty if there is none."""
    side = _side(path, "lock")
    try:
        descriptor = os.open(side, os.O_RDWR)
    except OSError:
        return ""
    try:
        return "" if _lock(descriptor) else _owner(side)
    finally:
        os.close(descriptor)


def _attempt(path: Path, side: Path) -> int | None:
    with errors_name(path):
        descriptor = os.open(side, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if _lock(descriptor) and _has_name(descriptor, side):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, _self().encode())
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _has_name(descriptor: int, side: Path) -> bool:
    """Whether the locked file is still the one with this name: its last owner removes it."""
    try:
        return os.path.samestat(os.fstat(descriptor), side.stat())
    except OSError:
        return False


# -- a claim, which needs no locks -------------------------------------------------------------
@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Be the only one who replaces a file, for the moment that this takes.

    A claim is a file that only one process can create, on any file system. A claim whose process
    is dead, or that has not changed for 30 seconds, is removed, unless its process holds a lock.

    Parameters
    ----------
    path : Path
        The file to replace.
    """
    side = _side(path, "claim")
    token = f"{_self()} {secrets.token_hex(8)}".encode()
    descriptor = _claim(path, side, token)
    try:
        yield
    finally:
        os.close(descriptor)
        with suppress(OSError):
            if side.read_bytes() == token:
                side.unlink()


def _claim(path: Path, side: Path, token: bytes) -> int:
    seen, since = None, 0.0
    while True:
        try:
            with errors_name(path):
                descriptor = os.open(side, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            pass
        else:
            os.write(descriptor, token)
            _lock(descriptor, wait=True)
            return descriptor
        try:
            found = side.read_bytes()
        except OSError:  # it has just been removed
            continue
        if found != seen:
            seen, since = found, time.monotonic()
        if _is_stale(side, found, time.monotonic() - since):
            _remove_claim(side, found)
            seen = None
        time.sleep(random.uniform(0.001, 0.01))


def _is_stale(side: Path, token: bytes, seconds: float) -> bool:
    words = token.decode(errors="replace").split()
    is_here = len(words) == 6 and words[4] == socket.gethostname() and words[1].isdigit()
    if not (is_here and not is_alive(int(words[1]))) and seconds < _STALE_SECONDS:
        return False
    try:
        descriptor = os.open(side, os.O_RDWR)
    except OSError:
        return False
    try:
        return _lock(descriptor)  # not if its process lives in another container, or was stopped
    finally:
        os.close(descriptor)


def _remove_claim(side: Path, token: bytes) -> None:
    """Remove a stale claim, but not one that another process made in the meantime."""
    taken = side.with_name(f"{side.name}.{secrets.token_hex(4)}")
    with suppress(OSError):
        os.rename(side, taken)
        if taken.read_bytes() != token:
            os.link(taken, side)
        taken.unlink()


def _side(path: Path, kind: str) -> Path:
    target = path.resolve()
    return target.with_name(f".{target.name}.{kind}")


def _self() -> str:
    return f"process {os.getpid()} on host {socket.gethostname()}"


def _owner(side: Path) -> str:
    with suppress(OSError):
        return side.read_text(errors="replace")[:200] or "another process"
    return "another process"
