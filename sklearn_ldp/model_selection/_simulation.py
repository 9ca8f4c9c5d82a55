"""Studies: simulated errors of oracles and post-processors on known frequencies."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from .._core.displays import ErrorCurveDisplay
from .._core.domains.values import objects
from .._core.estimates import FrequencyEstimate
from .._core.mechanisms import check_counts, check_total
from .._core.queries import Queries, QuerySet, as_query_set
from .._core.support.files import errors_name
from .._core.support.locks import cached_property
from .._core.support.pandas import import_library
from .._core.support.parallel import run
from .._core.support.progress import Progress
from .._core.support.random import RandomState, root_entropy
from .._core.support.text import format_table
from .._core.support.typing import DataFrame, FilePath, Metric, PolarsDataFrame
from .._version import __version__
from ..metrics import query_errors
from ..oracles import BaseOracle
from ..surveys import BaseColumnSurvey
from ._base import BaseSearch, Candidates, PostProcessor, as_candidates, candidate_name
from ._drawn_noise import apportion

_SHOWN = 20
_HEADER = json.dumps({"format": "sklearn_ldp study", "version": 2}).encode()


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

    def plot(self, **kwargs: Any) -> ErrorCurveDisplay:
        """Plot the errors (needs matplotlib).

        Parameters
        ----------
        **kwargs : dict
            Passed on to :meth:`sklearn_ldp.inspection.ErrorCurveDisplay.from_results`, such as
            ``x="n_samples"`` or ``by="oracle"``.

        Returns
        -------
        ErrorCurveDisplay
            The display, with the axes in `ax_` and the figure in `figure_`.
        """
        return ErrorCurveDisplay.from_results(self, **kwargs)

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
        columns = self.to_dict().items()
        return module.DataFrame({k: v.tolist() if v.dtype == object else v for k, v in columns})

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


def _line_digest(key: str, errors: list[float]) -> str:
    """The digest of a line that holds these errors."""
    return hashlib.sha256(json.dumps([key, errors]).encode()).hexdigest()[:32]


# -- the file of a study that is under way -----------------------------------------------------
class StudyFile:
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
        if self._path is None:
            return
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
                key, found = entry["key"], [float(error) for error in entry["errors"]]
                if entry["sha256"] != _line_digest(key, found):
                    raise ValueError("another digest")
                self._known[key] = found
            except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
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
        with errors_name(self._path), self._path.open("a", encoding="utf-8") as file:
            for key, values in entries.items():
                line = {"key": key, "errors": values, "sha256": _line_digest(key, values)}
                file.write(f"{json.dumps(line)}\n")
            file.flush()
            os.fsync(file.fileno())


# -- the study -------------------------------------------------------------------------------------
_TASK = 400_000  # estimates post-processed by one task, which takes about a tenth of a second


def simulate_errors(
    oracles: BaseOracle | Iterable[BaseOracle] | Mapping[Any, BaseOracle],
    postprocessors: PostProcessor | Candidates,
    frequencies: ArrayLike | Mapping[Any, ArrayLike],
    n_samples: ArrayLike | None = None,
    epsilons: ArrayLike | None = None,
    queries: Queries | Mapping[Any, Queries | None] | None = None,
    *,
    metrics: Metric | Iterable[Metric] = "mse",
    n_repeats: int = 30,
    n_jobs: int | None = None,
    random_state: RandomState = 0,
    checkpoint: FilePath | None = None,
    progress: bool = False,
) -> ErrorStudy:
    """Simulate the errors of oracles with post-processors, over epsilons, queries and metrics.

    For each cell, that is each combination of population, number of users, oracle and epsilon,
    whole collections are simulated from the counts. Every post-processor then works on the same
    simulated estimates, so that the errors can be compared in pairs. Users are not simulated one
    by one, so a study takes only seconds.

    The work is done by joblib with the backend that :func:`joblib.parallel_config` selects
    ("loky", "threading", "dask", "ray"). Neither the backend nor `n_jobs` changes a bit of the
    result. The rest of the study does not change it either: the random numbers of a cell depend
    only on the seed and on the cell.

    Parameters
    ----------
    oracles : oracle, list or dict of them
        The keys of a dict are the names in the result; otherwise each oracle is named by its repr.
    postprocessors : "all", list or dict
        Post-processors or Pipelines of them. The values of a dict may be post-processors, whose
        keys are their names in the result, or grids of parameters, whose keys are class names. A
        search among the post-processors chooses anew for each simulated estimate.
    frequencies : array-like of shape (d,), or dict of them
        True frequencies, which sum to 1, of one population or of several named populations; whole
        counts if `n_samples` is None.
    n_samples : int, list of int or None, default=None
        Numbers of users; None takes the sum of the counts. The users of a population are the whole
        numbers nearest to its frequencies, the same in each repeat.
    epsilons : float, list of float or None, default=None
        Privacy budgets; None takes the epsilon of each oracle.
    queries : query set, dict of them, or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category.
    metrics : {"mse", "mae"}, callable, or list of them, default="mse"
        Errors of the answers, see :func:`~sklearn_ldp.metrics.query_errors`.
    n_repeats : int, default=30
        Number of simulated collections per cell.
    n_jobs : int, default=None
        Number of joblib workers.
    random_state : int, RandomState or Generator, default=0
        Seed. With an int the study is reproducible; a generator is advanced by each call.
    checkpoint : path-like, default=None
        A file that keeps the errors of each finished cell, created if missing. If the same call is
        repeated, it resumes from this file, and a larger study computes only what is new. The file
        is text (JSON lines).
    progress : bool, default=False
        Whether to show the progress on stderr.

    Returns
    -------
    ErrorStudy
        One row per combination.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid or two of them do not match; raised before the work starts.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section V,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import OLH, Base, NormSub
    >>> from sklearn_ldp.datasets import make_zipf
    >>> from sklearn_ldp.model_selection import simulate_errors
    >>> counts = make_zipf(100_000, 256, return_counts=True, random_state=0)
    >>> study = simulate_errors(OLH(), [Base(), NormSub()], counts, epsilons=[0.5, 1])
    >>> study
    ErrorStudy of 4 rows and 30 repeats
    oracle  epsilon  postprocessor     error        +-
    ------  -------  -------------  --------  --------
    OLH     0.5      Base           0.000159  2.63e-06
    OLH     0.5      NormSub        2.45e-05  9.25e-07
    OLH     1        Base           3.64e-05  6.41e-07
    OLH     1        NormSub        8.13e-06  2.48e-07
    """
    if not isinstance(n_repeats, Integral) or n_repeats < 1:
        raise ValueError(f"simulate_errors needs n_repeats >= 1, an integer, got {n_repeats!r}.")
    posts = _named_postprocessors(postprocessors)
    listed = queries if isinstance(queries, Mapping) else {repr(as_query_set(queries)): queries}
    asked = {str(name): as_query_set(one) for name, one in listed.items()}
    given = [metrics] if isinstance(metrics, str) or callable(metrics) else list(metrics)
    judged = _by_name(given, "metrics", lambda m: m if isinstance(m, str) else m.__name__)
    entropy, named = root_entropy(random_state), _named_oracles(oracles)
    cells = [
        _Cell(population, counts, name, made, int(n_repeats), entropy)
        for population, counts in _populations(frequencies, n_samples)
        for name, oracle in named.items()
        for made in _with_each_epsilon(oracle, epsilons, len(counts))
    ]
    rows = [row for cell in cells for row in _rows(cell, posts, asked, judged)]
    ledger = StudyFile(checkpoint)
    tasks = _tasks([row for row in rows if row.key not in ledger])
    with Progress(len(tasks), is_shown=progress and bool(tasks)) as bar:
        for errors, name in run(_work, [(task,) for task in tasks], n_jobs):
            ledger.add(errors)
            bar.finish(name)
    return ErrorStudy(_columns(rows), np.array([ledger[row.key] for row in rows]))


@dataclass(frozen=True, eq=False)
class _Cell:
    """One oracle on one population: the collections that are simulated together."""

    population: str
    counts: np.ndarray
    oracle_name: str
    oracle: BaseOracle
    n_repeats: int
    entropy: list[int]

    @property
    def n_samples(self) -> int:
        return int(self.counts.sum())

    @property
    def truth(self) -> np.ndarray:
        return self.counts / self.n_samples

    @cached_property
    def digest(self) -> str:
        """Digest of all that the simulated estimates depend on; it seeds their random numbers.

        Neither the version of the package nor the file of the oracle is part of it: a seeded study
        stays the same when they change.
        """
        return _digest(self.counts, _whole_repr(self.oracle), self.n_repeats, self.entropy)

    def simulate(self) -> FrequencyEstimate:
        rng = np.random.default_rng(int(self.digest, 16))
        oracle = clone(self.oracle).set_params(categories=len(self.counts), random_state=rng)
        return oracle.simulate(self.counts, self.n_repeats)

    def __str__(self) -> str:
        return f"{self.oracle_name}, epsilon {self.oracle.epsilon:g}, n {self.n_samples:,}"


class _Row(NamedTuple):
    """One row of the result, and the key under which its errors are kept."""

    cell: _Cell
    post_name: str
    post: Any
    queries_name: str
    queries: QuerySet
    metric_name: str
    metric: Any
    key: str


def _rows(cell: _Cell, posts: dict, queries: dict, metrics: dict) -> Iterator[_Row]:
    """Yield the rows of a cell; what does not fit its population fails here, before any work."""
    digests = {}
    for name, asked in queries.items():
        for metric in metrics.values():
            query_errors(cell.truth, cell.truth[None], queries=asked, metric=metric)
        matrix = asked.matrix(len(cell.counts), cell.truth)
        digests[name] = _digest(repr(asked), matrix.indptr, matrix.indices, matrix.data)
    for post_name, post in posts.items():
        what = __version__, type(cell.oracle).__module__, type(post).__module__, _whole_repr(post)
        for queries_name, asked in queries.items():
            for metric_name, metric in metrics.items():
                key = _digest(cell.digest, what, digests[queries_name], metric_name)
                yield _Row(cell, post_name, post, queries_name, asked, metric_name, metric, key)


def _tasks(rows: list[_Row]) -> list[list[_Row]]:
    """Return groups of rows that are large enough to send to a worker; a cell is never split."""
    tasks: list[list[_Row]] = []
    size = _TASK
    for _, group in groupby(rows, key=lambda row: id(row.cell)):
        cell_rows = list(group)
        if size >= _TASK:
            tasks.append([])
            size = 0
        tasks[-1].extend(cell_rows)
        cell = cell_rows[0].cell
        size += len({row.post_name for row in cell_rows}) * cell.n_repeats * len(cell.counts)
    return tasks


def _work(task: list[_Row]) -> tuple[dict[str, np.ndarray], str]:
    """Return the errors of a task's rows by key, and the name of the task."""
    errors = {}
    for _, cell_rows in groupby(task, key=lambda row: id(row.cell)):
        rows = list(cell_rows)
        simulated = rows[0].cell.simulate()
        for _, post_rows in groupby(rows, key=lambda row: row.post_name):
            same = list(post_rows)
            processed = _processed(same[0].post, simulated)
            for row in same:
                errors[row.key] = query_errors(
                    row.cell.truth, processed, queries=row.queries, metric=row.metric
                )
    return errors, str(task[-1].cell)


def _processed(post: Any, simulated: FrequencyEstimate) -> FrequencyEstimate:
    if not isinstance(post, BaseSearch):
        return clone(post).fit_transform(simulated)
    # A search chooses once for all rows of an estimate, but here each row is another collection.
    picks = [clone(post).fit_transform(one) for one in simulated]
    return simulated.with_values(np.concatenate([pick.values for pick in picks]), by="search")


# -- from the parameters to cells -----------------------------------------------------------------
def _with_each_epsilon(oracle: BaseOracle, epsilons: Any, d: int) -> Iterator[BaseOracle]:
    of_study = {"categories": "auto", "input": "values", "n_jobs": None}
    for epsilon in [oracle.epsilon] if epsilons is None else np.atleast_1d(epsilons):
        made = clone(oracle).set_params(epsilon=float(epsilon), **of_study)
        made.channel(d)  # refuses parameters that do not fit the domain
        yield made.set_params(random_state=None)


def _populations(frequencies: Any, n_samples: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the whole counts of each population, for each number of users."""
    named = frequencies if isinstance(frequencies, Mapping) else {"": frequencies}
    for name, given in named.items():
        of = f" of {name!r}" if name else ""
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"simulate_errors needs frequencies{of} or counts, a number for each category, not "
                "users' values: count them first, as value_counts() of a pandas Series does."
            ) from error
        if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values) & (values >= 0)):
            raise ValueError(
                f"simulate_errors needs frequencies{of} that are finite and >= 0, of shape (d,), "
                f"got an array of shape {values.shape}."
            )
        if n_samples is None:
            if np.any(values != np.floor(values)) or not values.sum():
                raise ValueError(
                    f"simulate_errors needs n_samples=, or whole counts instead of frequencies{of}."
                )
            whole = given if np.asarray(given).dtype.kind in "iu" else values
            yield str(name), check_counts(whole, f"simulate_errors: frequencies{of}")
            continue
        if not np.isclose(values.sum(), 1.0, rtol=0, atol=1e-6):
            raise ValueError(
                f"simulate_errors needs frequencies{of} that sum to 1, got a sum of "
                f"{values.sum():.6g}; divide by it, or give counts and no n_samples."
            )
        for size in np.atleast_1d(n_samples).tolist():
            if not isinstance(size, Integral) or size < 1:
                raise ValueError(f"simulate_errors needs n_samples >= 1, integers, got {size!r}.")
            check_total(int(size), "simulate_errors: n_samples")
            yield str(name), apportion(values, int(size))


def _named_oracles(oracles: Any) -> dict[str, BaseOracle]:
    if isinstance(oracles, type):
        raise TypeError(
            f"simulate_errors needs oracles such as {oracles.__name__}(), got the class itself."
        )
    if isinstance(oracles, BaseColumnSurvey):
        raise TypeError(
            f"simulate_errors is for oracles of one column, got {type(oracles).__name__}: give "
            "that of one column, or judge survey.simulate(counts, n_repeats) by query_errors."
        )
    is_named = isinstance(oracles, Mapping)
    given = oracles.values() if is_named else oracles
    given = [given] if isinstance(given, BaseOracle) else list(given)
    for oracle in given:
        if not isinstance(oracle, BaseOracle):
            raise TypeError(f"simulate_errors needs oracles such as OLH(), got {oracle!r}.")
    if is_named:
        return dict(zip(map(str, oracles), given, strict=True))
    # The repr of an oracle, without the parameters that the study sets.
    of_study = {"epsilon": 1.0, "categories": "auto", "input": "values", "random_state": None}
    return _by_name(given, "oracles", lambda o: candidate_name(clone(o).set_params(**of_study)))


def _named_postprocessors(postprocessors: Any) -> dict[str, Any]:
    is_mapping = isinstance(postprocessors, Mapping)
    if is_mapping and all(hasattr(post, "fit") for post in postprocessors.values()):
        posts = as_candidates(list(postprocessors.values()), "simulate_errors")
        return dict(zip(map(str, postprocessors), posts, strict=True))
    given = [postprocessors] if hasattr(postprocessors, "fit") else postprocessors
    posts = as_candidates(given, "simulate_errors")
    return _by_name(posts, "postprocessors", candidate_name)


def _by_name(given: list, what: str, name: Callable[[Any], str]) -> dict[str, Any]:
    named = {name(one): one for one in given}
    if len(named) < len(given) or not named:
        raise ValueError(
            f"simulate_errors needs at least one of the {what}, and all with different names, got "
            f"{[name(one) for one in given]}; give a dict to name them."
        )
    return named


def _columns(rows: list[_Row]) -> dict[str, np.ndarray]:
    return {
        "population": objects([row.cell.population for row in rows]),
        "n_samples": np.array([row.cell.n_samples for row in rows]),
        "oracle": objects([row.cell.oracle_name for row in rows]),
        "epsilon": np.array([row.cell.oracle.epsilon for row in rows]),
        "postprocessor": objects([row.post_name for row in rows]),
        "queries": objects([row.queries_name for row in rows]),
        "metric": objects([row.metric_name for row in rows]),
    }


# -- keys: what a result depends on ---------------------------------------------------------------
def _whole_repr(estimator: Any) -> str:
    return estimator.__repr__(N_CHAR_MAX=10**6)


def _digest(*values: Any) -> str:
    """Return a digest of some values."""
    digest = hashlib.sha256()
    for value in values:
        content = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()
