"""Experiments of both papers of T. Wang et al., and their layout: two panels a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from sklearn.base import clone

from sklearn_ldp.inspection import ErrorCurveDisplay
from sklearn_ldp.model_selection import ErrorStudy
from sklearn_ldp.queries import full_domain, random_sets, top_k

from ._figure import Registry, Settings, Table
from ._measures import SINGLE, distinct, ratio
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


def over_base_on_largest(study: Any) -> Table:
    """Errors on the largest sets over that of Base."""
    rows = []
    for population in distinct(study["population"]):
        part = study.select(population=population, queries=[distinct(study["queries"])[-1]])
        for name in distinct(study["postprocessor"]):
            ((_, value, error),) = ratio(part, name, "Base")
            row = {"population": population, "postprocessor": name, "over_base": value}
            rows.append(row | {"standard_error": error})
    return Table.of(rows)


_SETS_NOTE = (
    "The MSE over all sets of a size in closed form; 100 drawn sets for Post-Pos. At least sixty "
    "times the collections of the other figures: the error of large sets without normalisation is "
    "that of one number a collection, the sum."
)
_TOP_REPEATS = 20  # of the few most frequent values the error varies much from one to the next


def _numbers(settings: Settings) -> list[int]:
    """Those of the most frequent values."""
    return [int(k) for k in settings.grid(range(2, 33, 2), [2, 10, 32])]


@dataclass(frozen=True)
class Experiment:
    """Errors of the methods of a paper on its data, collected by its oracle."""

    paper: str  # with which the names of its figures begin
    figures: Registry  # to which they are added
    keys: tuple[str, ...]  # of the populations
    oracle: Any
    methods: dict[str, Any]  # post-processors by name
    right: list[str]  # those of the panels on the right

    def errors(self, settings: Settings, keys: Sequence[str] = (), **kwargs: Any) -> Any:
        """Simulate them, on other populations if need be."""
        return settings.errors(list(keys or self.keys), self.oracle, self.methods, **kwargs)

    def draw(self, x: str = "epsilon", x_label: str = "epsilon", **kwargs: Any) -> Callable:
        """Curves along an axis."""
        return lambda study: error_panels(study, self.right, x=x, x_label=x_label, **kwargs)

    def add(self, name: str, title: str, queries: Callable, n_repeats: int, **more: Any) -> None:
        """Add a figure of queries at epsilon 1, with so many times the usual repeats."""

        def compute(settings: Settings) -> Any:
            n = n_repeats * settings.n_repeats
            return self.errors(settings, epsilons=1.0, queries=queries(settings), n_repeats=n)

        self.figures.add(f"{self.paper}-{name}", title, self.keys, **more)(compute)

    def add_sets(
        self, number: int, sizes: Sequence[int], quick: Sequence[int], n_repeats: int = 60
    ) -> None:
        """Add the figure of random sets of these percentages of the domain."""
        self.add(
            f"fig{number}",
            f"Figure {number}: MSE on random sets of {sizes[0]} % to {sizes[-1]} % of the domain",
            lambda settings: {f"{r:g}": random_sets(r / 100) for r in settings.grid(sizes, quick)},
            n_repeats,
            draw=self.draw("queries", "ρ: set size, % of the domain"),
            note=_SETS_NOTE,
            summary=over_base_on_largest,
        )

    def add_small_sets(self) -> None:
        """Add a table of sets of 1 % of the domain beside single values."""
        queries = {"1": random_sets(0.01), SINGLE: full_domain()}
        title = "MSE on sets of 1 %, and on single values"
        self.add("small-sets", title, lambda settings: queries, 4)

    def add_top(self, number: int) -> None:
        """Add the figure of the most frequent values."""
        # As the papers do: with Base, and without MLE-Apx, which does what Norm-Sub does.
        right = ["Base", *(name for name in self.right if name != "MLE-Apx")]
        self.add(
            f"fig{number}",
            f"Figure {number}: MSE of the k most frequent values",
            lambda settings: {f"{k}": top_k(k) for k in _numbers(settings)},
            _TOP_REPEATS,
            draw=lambda study: error_panels(study, right, x="queries", x_label="k"),
        )

    def add_known_k(self, name: str, process: Callable) -> None:
        """Add the figure of the k most frequent values where the method is told k.

        It processes raw estimates of shape (n, d) by a threshold of each, of shape (n, 1).
        """

        def compute(settings: Settings) -> ErrorStudy:
            rows = [
                row
                for population in settings.populations(self.keys).values()
                for row in self._known_k(settings, population, f"{name}, T known", process)
            ]
            errors = np.array([row.pop("errors") for row in rows])
            columns = {c: np.array([row[c] for row in rows], dtype=object) for c in rows[0]}
            columns["error"] = errors.mean(axis=1)
            columns["standard_error"] = errors.std(axis=1, ddof=1) / np.sqrt(errors.shape[1])
            return ErrorStudy(columns, errors)

        self.figures.add(
            f"{self.paper}-known-k",
            f"MSE of the k most frequent values where {name} is told k",
            self.keys,
            note="T is the k-th highest raw estimate, epsilon 1.",
        )(compute)

    def _known_k(self, settings: Settings, population: Any, name: str, process: Callable) -> list:
        counts = population.counts
        oracle = clone(self.oracle).set_params(
            epsilon=1.0, categories=len(counts), random_state=settings.seed
        )
        raw = oracle.simulate(counts, _TOP_REPEATS * settings.n_repeats // 2).values
        truth, order = population.frequencies, np.argsort(-counts, kind="stable")
        falling = -np.sort(-raw, axis=1)
        rows = []
        for k in _numbers(settings):
            made = {"Base": raw, name: process(raw, falling[:, k - 1 : k])}
            top = order[:k]
            for method, values in made.items():
                errors = ((values[:, top] - truth[top]) ** 2).mean(axis=1)
                rows.append(
                    {
                        "population": population.name,
                        "epsilon": 1.0,
                        "queries": f"{k}",
                        "postprocessor": method,
                        "errors": errors,
                    }
                )
        return rows
