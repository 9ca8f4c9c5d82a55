"""The display of the progress of long computations, on standard error."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any, TextIO


class Progress(AbstractContextManager["Progress"]):
    """A progress bar on a terminal with tqdm installed, otherwise lines of text."""

    # n_steps: number of times that `step`, or `finish`, will be called.
    # stream: where to show the progress; None is stderr.
    # is_shown: False shows nothing.

    def __init__(self, n_steps: int, stream: TextIO | None = None, is_shown: bool = True):
        self._n_steps = n_steps
        self._n_begun = 0
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = is_shown
        self._bar = self._make_bar() if is_shown and self._stream.isatty() else None

    def _make_bar(self) -> Any:
        try:
            from tqdm import tqdm
        except ImportError:
            return None
        # The size is fixed, because a terminal without a size (in a container) would show nothing.
        look: dict[str, Any] = {"ncols": 80, "nrows": 24, "leave": False}
        look["bar_format"] = "{desc:<34} {bar} {n_fmt}/{total_fmt} [{elapsed}]"
        return tqdm(total=self._n_steps, file=self._stream, **look)

    def step(self, text: str) -> None:
        """Show that the next step begins, with a text that describes it."""
        self._n_begun += 1
        self._show(text)
        if self._bar is not None:
            self._bar.n = self._n_begun - 1
            self._bar.refresh()

    def finish(self, text: str = "") -> None:
        """Show that a step has ended.

        Without a progress bar, print a line only after every 5 % of all steps.
        """
        self._n_begun += 1
        if self._bar is not None:
            self._show(text)
            self._bar.update()
        elif 20 * self._n_begun % self._n_steps < 20:
            self._show(text)

    def _show(self, text: str) -> None:
        if self._bar is None and self._is_shown:
            print(f"[{self._n_begun}/{self._n_steps}] {text}", file=self._stream, flush=True)
        elif self._bar is not None:
            self._bar.set_description_str(text, refresh=False)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
