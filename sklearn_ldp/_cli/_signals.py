"""Signals that end a process, as an exception that lets it save its work first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn


class Terminated(KeyboardInterrupt):
    """The process was asked to end by a signal other than that of Ctrl-C.

    Parameters
    ----------
    number : int
        Number of the signal.
    """

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def ending_like_ctrl_c() -> Iterator[None]:
    """Raise `Terminated` on SIGTERM and SIGHUP while the block runs.

    The first signal is enough: further ones do not interrupt what it makes the block save. A signal
    that the process was started to ignore, as SIGHUP by nohup, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may ask for signals
        return
    numbers = [
        number
        for name in ("SIGTERM", "SIGHUP")
        if (number := getattr(signal, name, None)) is not None
        and signal.getsignal(number) is signal.SIG_DFL
    ]

    def end(number: int, frame: Any) -> NoReturn:
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)
        raise Terminated(number)

    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
