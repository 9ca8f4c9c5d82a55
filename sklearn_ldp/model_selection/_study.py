"""The result of a study, a tidy table of errors, and the file that keeps it while it is made."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from .._utils.files import errors_name
from .._utils.pandas import import_library
from .._utils.text import format_table
from .._utils.typing import DataFrame, FilePath, PolarsDataFrame

_SHOWN = 20
_HEADER = json.dumps({"format": "sklearn_ldp study", "version": 1}).encode()


@dataclass(frozen=True, eq=False, repr=False)
class ErrorStudy:
    """Errors of a study, with one row per combination, as `simulate_errors` returns them.

    ``study["error"]`` is a column, and ``study.select(oracle="OLH", epsilon=1)`` is a smaller
    study.

    Parameters
    ----------
    columns : dict of ndarray of shape (n_rows,)
        What each row is about: "population", "n_samples", "oracle", "epsilon", "postprocessor",
        "queries", "metric".
    errors : ndarray of shape (n_rows, n_repeats)
        The error of each simulated collection. Rows of the same population, number of users,
        oracle and epsilon come from the same collections, in the same order, so that they can be
        compared in pairs.

    Examples
    --------
    >>> from sklearn_ldp import GRR, Base, Norm
    >>> from sklearn_ldp.model_selection import simulate_errors
    >>> study = simulate_errors(GRR(), [Base(), Norm()], [0.5, 0.3, 0.2], 1000, [1, 2])
    >>> study.select(postprocessor="Norm")["error"].shape
    (2,)
    """

    columns: dict[str, np.ndarray]
    errors: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """Mean error of each row, of shape (n_rows,)."""
        return self.errors.mean(axis=1)

    @property
    def standard_deviation(self) -> np.ndarray:
        """Standard deviation of each row's errors over the repeats; NaN if there is only one."""
        if self.errors.shape[1] < 2:
            return np.full(len(self), np.nan)
        return self.errors.std(axis=1, ddof=1)

    @property
    def standard_error(self) -> np.ndarray:
        """Standard error of each row's mean error, of shape (n_rows,)."""
        return self.standard_deviation / np.sqrt(self.errors.shape[1])

    def __len__(self) -> int:
        return len(self.errors)

    def __getitem__(self, column: str) -> np.ndarray:
        if column in self.columns:
            return self.columns[column]
        if column in _STATISTICS:
            return getattr(self, column)
        known = ", ".join([*self.columns, *_STATISTICS])
        raise KeyError(f"An ErrorStudy has no column {column!r}; it has {known}.")

    def select(self, **conditions: Any) -> ErrorStudy:
        """Return the rows that fulfil all conditions.

        Parameters
        ----------
        **conditions : value or list of values
            For each column, the value or the values to keep.

        Returns
        -------
        ErrorStudy
            The selected rows, in the same order.

        Raises
        ------
        KeyError
            If there is no such column.
        """
        keep = np.ones(len(self), dtype=bool)
        for column, wanted in conditions.items():
            is_list = isinstance(wanted, list | tuple | set | np.ndarray)
            keep &= np.isin(self[column], list(wanted) if is_list else [wanted])
        return ErrorStudy({k: v[keep] for k, v in self.columns.items()}, self.errors[keep])

    def to_dict(self) -> dict[str, np.ndarray]:
        """Return all columns, and the mean error, standard deviation and standard error.

        Returns
        -------
        dict of ndarray of shape (n_rows,)
            The values of each column by its name.
        """
        return {name: self[name] for name in [*self.columns, *_STATISTICS]}

    @overload
    def to_frame(self, library: Literal["pandas"] = "pandas") -> DataFrame: ...
    @overload
    def to_frame(self, library: Literal["polars"]) -> PolarsDataFrame: ...
    @overload
    def to_frame(self, library: str) -> DataFrame | PolarsDataFrame: ...
    def to_frame(self, library: str = "pandas") -> DataFrame | PolarsDataFrame:
        """Return the tidy table as a data frame.

        Parameters
        ----------
        library : {"pandas", "polars"}, default="pandas"
            The library whose data frame is returned.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            The columns of `to_dict`.

        Raises
        ------
        ImportError
            If the library is not installed.
        """
        if library not in ("pandas", "polars"):
            raise ValueError(f'Argument library must be "pandas" or "polars", got {library!r}.')
        module = import_library("ErrorStudy.to_frame", library)
        table = {
            name: values.tolist() if values.dtype == object else values
            for name, values in self.to_dict().items()
        }
        return module.DataFrame(table)

    def __repr__(self) -> str:
        title = f"{type(self).__name__} of {len(self)} rows and {self.errors.shape[1]} repeats"
        # Columns that have the same value in every row are left out.
        varied = [c for c, v in self.columns.items() if len(set(v.tolist())) > 1 or c in _ALWAYS]
        header = [*varied, "error", "+-"]
        shown = min(len(self), _SHOWN)
        statistics = zip(self.error[:shown], self.standard_error[:shown], strict=True)
        rows = [
            [*(_text(self.columns[c][i]) for c in varied), f"{mean:.3g}", f"{spread:.3g}"]
            for i, (mean, spread) in enumerate(statistics)
        ]
        more = [f"... {len(self) - shown} more rows"] if len(self) > shown else []
        table = format_table(header, rows, left=range(len(varied)))
        return "\n".join([title, table, *more])


_STATISTICS = ["error", "standard_deviation", "standard_error"]
_ALWAYS = {"oracle", "epsilon", "postprocessor"}


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# -- the file of a study that is under way -----------------------------------------------------
class Ledger:
    """An append-only file of JSON lines, each of which holds a key and its errors.

    Only complete lines count. If a killed process has left an incomplete last line, the next
    process that opens the file removes it. Only one process may write at a time.

    Parameters
    ----------
    path : path-like or None
        The file, created if missing; with None nothing is kept.

    Raises
    ------
    ValueError
        If the file is not such a ledger, or is damaged.
    """

    def __init__(self, path: FilePath | None):
        self._path = None if path is None else Path(path)
        self._known: dict[str, list[float]] = {}
        if self._path is not None:
            self._read()

    def _read(self) -> None:
        assert self._path is not None
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            content = b""
        whole = content[: content.rfind(b"\n") + 1]
        header, *lines = whole.splitlines() or [b""]
        # The header may have been cut off by a kill; then the content is its beginning.
        if content and not _HEADER.startswith(header if whole else content):
            raise ValueError(
                f"{self._path} is not a checkpoint of simulate_errors, or is one of another "
                "version; give the name of a new file."
            )
        for number, line in enumerate(lines, start=2):
            try:
                entry = json.loads(line)
                self._known[entry["key"]] = [float(error) for error in entry["errors"]]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{self._path} is damaged in line {number}: remove the line, and its errors "
                    "are computed again."
                ) from error
        if not whole:
            self._path.write_bytes(_HEADER + b"\n")
        elif len(whole) < len(content):
            os.truncate(self._path, len(whole))

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __getitem__(self, key: str) -> np.ndarray:
        return np.array(self._known[key])

    def add(self, errors: dict[str, np.ndarray]) -> None:
        """Keep the errors of some keys; they are on disk when this returns."""
        entries = {key: values.tolist() for key, values in errors.items()}
        self._known.update(entries)
        if self._path is None:
            return
        lines = [json.dumps({"key": key, "errors": values}) for key, values in entries.items()]
        with errors_name(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
