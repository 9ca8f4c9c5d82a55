"""The result of a study: a tidy table of errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from .._table import format_table
from .._typing import DataFrame, PolarsDataFrame

_SHOWN = 20


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
        try:
            module = __import__(library)
        except ImportError as error:
            raise ImportError(
                f"ErrorStudy.to_frame needs {library}: pip install 'sklearn_ldp[data]'."
            ) from error
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
