"""Experiments of both papers of T. Wang et al., and their layout: two panels a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from sklearn_ldp.inspection import ErrorCurveDisplay
from sklearn_ldp.queries import random_sets, top_k

from ._figure import Registry, Settings
from ._methods import LEFT

mpl.use("Agg")


def rows_of_panels(n_rows: int, n_columns: int = 2) -> tuple[Figure, np.ndarray]:
    """A figure with this many panels."""
    figure = Figure(figsize=(6.0 * n_columns, 3.4 * n_rows), layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False)


def error_panels(
    study: Any,
    right: list[str],
    *,
    x: str,
    x_label: str,
    y_label: str = "MSE",
    row: str = "population",
    left: list[str] = LEFT,
    **kwargs: Any,
) -> Figure:
    """Curves of errors: a row a population (or value of another column)."""
    values = list(dict.fromkeys(np.asarray(study[row]).tolist()))
    figure, axes = rows_of_panels(len(values))
    for value, pair in zip(values, axes, strict=True):
        for ax, methods in zip(pair, (left, right), strict=True):
            part = study.select(**{row: value, "postprocessor": methods})
            display = ErrorCurveDisplay.from_results(part, x=x, ax=ax, **kwargs)
            display.ax_.set(title=value, xlabel=x_label, ylabel=y_label)
    return figure


_SETS_NOTE = (
    "The MSE over all sets of a size in closed form; 100 drawn sets for Post-Pos. At least sixty "
    "times the collections of the other figures: the error of large sets without normalisation is "
    "that of one number a collection, the sum."
)
_TOP_REPEATS = 20  # of the few most frequent values the error varies much from one to the next


@dataclass(frozen=True)
class Experiment:
    """Errors of the methods of a paper on its data, collected by its oracle.

    Parameters
    ----------
    paper : str
        With which the names of its figures begin.
    figures : Registry
        To which they are added.
    keys : tuple of str
        Of the populations.
    oracle : oracle
        By which users report.
    methods : dict
        Post-processors by name.
    right : list of str
        Those of the panels on the right.
    """

    paper: str
    figures: Registry
    keys: tuple[str, ...]
    oracle: Any
    methods: dict[str, Any]
    right: list[str]

    def errors(self, settings: Settings, keys: Sequence[str] = (), **kwargs: Any) -> Any:
        """Simulate them, on other populations if need be."""
        return settings.errors(list(keys or self.keys), self.oracle, self.methods, **kwargs)

    def draw(self, x: str = "epsilon", x_label: str = "epsilon", **kwargs: Any) -> Callable:
        """Curves along an axis."""
        return lambda study: error_panels(study, self.right, x=x, x_label=x_label, **kwargs)

    def add_sets(
        self, number: int, sizes: Sequence[int], quick: Sequence[int], n_repeats: int = 60
    ) -> None:
        """Add the figure of random sets of these percentages of the domain, at epsilon 1."""

        def compute(settings: Settings) -> Any:
            queries = {f"{rho:g}": random_sets(rho / 100) for rho in settings.grid(sizes, quick)}
            n = n_repeats * settings.n_repeats
            return self.errors(settings, epsilons=1.0, queries=queries, n_repeats=n)

        self.figures.add(
            f"{self.paper}-fig{number}",
            f"Figure {number}: MSE on random sets of {sizes[0]} % to {sizes[-1]} % of the domain",
            self.keys,
            draw=self.draw("queries", "ρ: set size, % of the domain"),
            note=_SETS_NOTE,
        )(compute)

    def add_top(self, number: int) -> None:
        """Add the figure of the most frequent values, at epsilon 1."""

        def compute(settings: Settings) -> Any:
            queries = {f"{k:g}": top_k(int(k)) for k in settings.grid(range(2, 33, 2), [2, 10, 32])}
            n = _TOP_REPEATS * settings.n_repeats
            return self.errors(settings, epsilons=1.0, queries=queries, n_repeats=n)

        self.figures.add(
            f"{self.paper}-fig{number}",
            f"Figure {number}: MSE of the k most frequent values",
            self.keys,
            draw=self.draw("queries", "k"),
        )(compute)
