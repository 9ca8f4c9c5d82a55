"""Progress of long work, shown on stderr."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, TextIO


class Progress:
    """A bar on a terminal if tqdm is installed, otherwise one line per step.

    Parameters
    ----------
    n_steps : int
        Number of times that `step`, or `finish`, will be called.
    stream : file, default=None
        Where to show the progress; None is stderr.
    """

    def __init__(self, n_steps: int, stream: TextIO | None = None):
        self._n_steps = n_steps
        self._n_begun = 0
        self._stream = sys.stderr if stream is None else stream
        self._bar = self._make_bar() if self._stream.isatty() else None

    def _make_bar(self) -> Any:
        try:
            from tqdm import tqdm
        except ImportError:
            return None
        form = "{desc:<34} {bar} {n_fmt}/{total_fmt} [{elapsed}]"
        # The size is given because a terminal that has none, as in a container, would show nothing.
        return tqdm(
            total=self._n_steps,
            file=self._stream,
            ncols=80,
            nrows=24,
            leave=False,
            bar_format=form,
        )

    def step(self, text: str) -> None:
        """Show that a step begins, and what it is."""
        self._n_begun += 1
        if self._bar is None:
            print(f"[{self._n_begun}/{self._n_steps}] {text}", file=self._stream, flush=True)
            return
        self._bar.set_description_str(text, refresh=False)
        self._bar.n = self._n_begun - 1
        self._bar.refresh()

    def finish(self, text: str = "") -> None:
        """Show that a step is done; without a bar, a line for every twentieth of all steps."""
        self._n_begun += 1
        if self._bar is not None:
            self._bar.set_description_str(text, refresh=False)
            self._bar.update()
        elif 20 * self._n_begun // self._n_steps > 20 * (self._n_begun - 1) // self._n_steps:
            print(f"[{self._n_begun}/{self._n_steps}] {text}", file=self._stream, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
