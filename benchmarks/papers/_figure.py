"""What a figure of the study is: data in, a tidy table out, and a picture of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from sklearn_ldp.model_selection import ErrorStudy, simulate_errors
from sklearn_ldp.planning import Plan

from ._populations import Population, load


@dataclass(frozen=True)
class Settings:
    """How large the study is."""

    data: Path  # folder of the real histograms; figures without theirs are left out
    quick: bool = False  # fewer points and repeats
    repeats: int | None = None  # None takes the papers' 30, or 8 of a quick study
    n_jobs: int = 1
    seed: int = 0  # of all reports

    @property
    def n_repeats(self) -> int:
        """Simulated collections of each cell."""
        return self.repeats or (8 if self.quick else 30)

    @property
    def n_runs(self) -> int:
        """Runs for bias and variance: 5,000 where there are 30 repeats, as in the 2020 paper."""
        return self.n_repeats * (60 if self.quick else 5000) // (1 if self.quick else 30)

    def population(self, key: str) -> Population | None:
        """One of the data sets, None where its file is not there."""
        return load(key, self.data)

    def populations(self, keys: Iterable[str]) -> dict[str, Population]:
        """Those data sets that are there."""
        found = {key: self.population(key) for key in keys}
        return {key: one for key, one in found.items() if one is not None}

    def grid(self, values: Any, quick: Any) -> list[float]:
        """The points of an axis."""
        return [float(v) for v in (quick if self.quick else values)]

    def errors(self, keys: list[str], oracles: Any, methods: dict, **kwargs: Any) -> ErrorStudy:
        """Simulate every cell on the populations that are there."""
        found = self.populations(keys).values()
        kwargs.setdefault("frequencies", {p.name: p.counts for p in found})
        kwargs.setdefault("n_repeats", self.n_repeats)
        study = simulate_errors(
            oracles, methods, n_jobs=self.n_jobs, random_state=self.seed, **kwargs
        )
        return _with_expected_base(study, oracles, kwargs)


def _with_expected_base(study: ErrorStudy, oracles: Any, asked: dict[str, Any]) -> ErrorStudy:
    """Add the exact expectation of the raw estimate's error to each row, NaN if it is unknown."""
    if isinstance(oracles, dict):
        return study
    queries = asked.get("queries")

    @cache
    def expected(population: Any, n: int, epsilon: float, name: Any, metric: str) -> float:
        if metric != "mse":
            return np.nan
        counts = np.asarray(asked["frequencies"][population], dtype=float)
        plan = Plan(
            clone(oracles).set_params(epsilon=epsilon),
            len(counts),
            frequencies=counts / counts.sum(),
            queries=queries.get(name) if isinstance(queries, dict) else queries,
        )
        return plan.rmse(n) ** 2

    names = ("population", "n_samples", "epsilon", "queries", "metric")
    cells = zip(*(study[name].tolist() for name in names), strict=True)
    of_base = np.array([expected(*cell) for cell in cells])
    return ErrorStudy(study.columns | {"expected_base": of_base}, study.errors)


def joined(studies: list[ErrorStudy]) -> ErrorStudy:
    names = studies[0].columns
    return ErrorStudy(
        {name: np.concatenate([study[name] for study in studies]) for name in names},
        np.concatenate([study.errors for study in studies]),
    )


class Table(dict):
    """A tidy table: arrays of the same length by column."""

    @classmethod
    def of(cls, rows: list[dict[str, Any]]) -> Table:
        """Make one of rows, which all have the same keys."""
        return cls({name: np.array([row[name] for row in rows]) for name in rows[0]})

    def select(self, **conditions: Any) -> Table:
        """Return the rows that fulfil all conditions; a list is any of its values."""
        keep = np.ones(len(next(iter(self.values()))), dtype=bool)
        for name, wanted in conditions.items():
            keep &= np.isin(self[name], wanted)
        return Table({name: values[keep] for name, values in self.items()})


@dataclass(frozen=True)
class Figure:
    """A figure or table of a paper."""

    name: str  # such as "2020-fig4"
    title: str
    data: tuple[str, ...]  # keys of the populations; it is computed on those that are there
    compute: Callable[[Settings], Any]
    draw: Callable[[Any], Any] | None = None  # from the table; None for a table alone
    note: str = ""
    summary: Callable[[Any], Table] | None = None  # a short table below the picture

    def missing(self, settings: Settings) -> list[str]:
        """Keys of the populations that are not there."""
        return [key for key in self.data if settings.population(key) is None]


@dataclass
class Registry:
    """Figures by name, in the order of the papers."""

    figures: dict[str, Figure] = field(default_factory=dict)

    def add(self, name: str, title: str, data: tuple[str, ...], draw: Any = None, **more: Any):
        """Register the function below as a figure's `compute`."""

        def register(compute):
            self.figures[name] = Figure(name, title, data, compute, draw, **more)
            return compute

        return register


def columns(table: Any) -> dict[str, np.ndarray]:
    """The columns of a table or a study."""
    return table.to_dict() if hasattr(table, "to_dict") else dict(table)


def write_csv(table: Any, path: Path) -> None:
    """Write a tidy table; numbers keep 9 digits."""
    rows = pd.DataFrame(columns(table)).infer_objects()
    rows.to_csv(path, index=False, float_format="%.9g", na_rep="nan")
