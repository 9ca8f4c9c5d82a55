"""Parallel tasks with joblib, and functions that limit repeated warnings and threads."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from joblib import Parallel, delayed
from sklearn.utils.parallel import _threadpool_controller_decorator

#: Lets BLAS use one thread: in a loop of small products, more threads only wait for each other.
one_thread = _threadpool_controller_decorator(limits=1, user_api="blas")


def run(
    function: Callable, tasks: Iterable[tuple], n_jobs: int | None, how: str = "generator_unordered"
) -> Iterator[Any]:
    """Run ``function(*task)`` for each task in parallel, and yield each result when it is finished.

    By default the results have no fixed order. Each distinct warning is given once.
    """
    calls = [delayed(_call)(function, task) for task in tasks]
    seen: set[tuple[type[Warning], str]] = set()
    for result, warned in _finished(calls, n_jobs, how):
        for warning in _distinct(warned, seen):
            warnings.warn(warning, stacklevel=2)
        yield result


def run_in_order(function: Callable, tasks: Iterable[tuple], n_jobs: int | None) -> list:
    """Run ``function(*task)`` for each task in parallel.

    Return the results in the order of the tasks.
    """
    return list(run(function, tasks, n_jobs, "generator"))


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Collect the warnings of the `with` block, and give each distinct warning once at its end."""
    # Outside of the main thread the warnings are not caught, because Python changes the filters of
    # warnings for all threads.
    caught: list[Warning] = []
    try:
        with _recorded(caught):
            yield
    finally:
        for warning in _distinct(caught, set()):
            warnings.warn(warning, stacklevel=3)


@contextmanager
def silent(is_silent: bool = True) -> Iterator[None]:
    """Suppress the warnings of the `with` block if `is_silent` is true.

    In other threads than the main thread, they are not suppressed.
    """
    with _recorded([]) if is_silent else nullcontext():
        yield


def _finished(calls: list, n_jobs: int | None, how: str) -> Iterable[tuple[Any, list[Warning]]]:
    try:
        return Parallel(n_jobs=n_jobs, return_as=how)(calls)
    except (NotImplementedError, ValueError) as error:  # a backend that has only lists
        if "return_as" not in str(error) and "enerator" not in str(error):
            raise
        return Parallel(n_jobs=n_jobs)(calls)


def _call(function: Callable, task: tuple) -> tuple[Any, list[Warning]]:
    """Return the result of a task and the list of its distinct warnings.

    A worker process returns the warnings, because it could only print them.
    """
    warned: list[Warning] = []
    with _recorded(warned):
        result = function(*task)
    return result, list(_distinct(warned, set()))


@contextmanager
def _recorded(into: list[Warning]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            into.extend(_as_warning(message) for message in caught)


def _as_warning(caught: warnings.WarningMessage) -> Warning:
    """Return a warning with the same class and text as a recorded warning, which can be pickled."""
    text = str(caught.message)
    try:
        return caught.category(text)
    except TypeError:  # the class needs other arguments than a text
        return UserWarning(f"{caught.category.__name__}: {text}")


def _distinct(warned: Iterable[Warning], seen: set[tuple[type[Warning], str]]) -> Iterator[Warning]:
    """Yield the warnings whose class and text are not in `seen`, and add them to `seen`."""
    for warning in warned:
        key = type(warning), str(warning)
        if key not in seen:
            seen.add(key)
            yield warning
