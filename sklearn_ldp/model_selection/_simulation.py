"""Simulated errors of oracles and post-processors for known frequencies (studies)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from numbers import Integral
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from .._core.common.locks import cached_property
from .._core.common.pandas import import_library
from .._core.common.parallel import run
from .._core.common.progress import Progress
from .._core.common.random import RandomState, check_repeats, root_entropy
from .._core.common.text import format_table
from .._core.common.typing import DataFrame, FilePath, Metric, PolarsDataFrame
from .._core.displays import ErrorCurveDisplay
from .._core.domains.values import objects
from .._core.estimates import FrequencyEstimate
from .._core.mechanisms import check_counts, check_total
from .._core.numerics.simplex import apportion
from .._core.queries import Queries, QuerySet, as_query_set
from .._version import __version__
from ..metrics import query_errors
from ..oracles import BaseOracle
from ..surveys import BaseColumnSurvey
from ._base import BaseSearch, Candidates, PostProcessor, as_candidates, candidate_name
from ._study_file import StudyFile

_SHOWN = 20


@dataclass(frozen=True, eq=False, repr=False)
class ErrorStudy:
    """The table of simulated errors that `simulate_errors` returns, one row per combination.

    ``study["error"]`` is a column, and ``study.select(oracle="OLH", epsilon=1)`` is a smaller
    study.

    Parameters
    ----------
    columns : dict of ndarray of shape (n_rows,)
        The values that define each row: "population", "n_samples", "oracle", "epsilon",
        "postprocessor", "queries", "metric".
    errors : ndarray of shape (n_rows, n_repeats)
        The error of each simulated collection. Rows with the same population, number of users,
        oracle and epsilon come from the same collections, in the same order, so their errors can
        be compared in pairs.

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
        raise KeyError(f"An ErrorStudy has no column {column!r}; it has {known}. Use one of these.")

    def plot(self, **kwargs: Any) -> ErrorCurveDisplay:
        """Plot the errors (needs matplotlib).

        Parameters
        ----------
        **kwargs : dict
            Arguments of :meth:`sklearn_ldp.inspection.ErrorCurveDisplay.from_results`, such as
            ``x="n_samples"`` or ``by="oracle"``.

        Returns
        -------
        ErrorCurveDisplay
            The display, with the axes in `ax_` and the figure in `figure_`.
        """
        return ErrorCurveDisplay.from_results(self, **kwargs)

    def select(self, **conditions: Any) -> ErrorStudy:
        """Return the rows that satisfy all conditions.

        Parameters
        ----------
        **conditions : value or list of values
            For each named column, the value, or the list of values, of the rows to select.

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
        """Return all columns, with the mean error, standard deviation and standard error.

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
        # Columns with the same value in every row are not shown.
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


# -- the study -------------------------------------------------------------------------------------
_TASK = 400_000  # frequencies that a task post-processes, in about a tenth of a second
# Parameters of oracles that the study sets itself.
_STUDY_PARAMETERS = {"categories": "auto", "input": "values"}


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

    A cell is a combination of population, number of users, oracle and epsilon. For each cell, whole
    collections are simulated from the counts. Every post-processor then processes the same
    simulated estimates, so the errors can be compared in pairs. Users are not simulated
    individually, so a study takes only seconds.

    The joblib backend is the one that :func:`joblib.parallel_config` selects ("loky", "threading",
    "dask", "ray"). The result depends neither on the backend nor on `n_jobs`. The result of a cell
    does not depend on the other cells, because its random numbers depend only on the seed and the
    cell.

    Parameters
    ----------
    oracles : oracle, list or dict of them
        The oracles. The names in the result are the keys of the dict, otherwise the reprs.
    postprocessors : "all", list or dict
        Post-processors or Pipelines of them. A dict contains post-processors by their names in the
        result, or grids of parameters by class names. If a post-processor is a search, it chooses
        separately for each simulated estimate.
    frequencies : array-like of shape (d,), or dict of them
        True frequencies of a population, which sum to 1, or a dict of several named populations. If
        `n_samples` is None, the numbers of users of the categories instead, as integers.
    n_samples : int, list of int or None, default=None
        Numbers of users. Each category gets the integer number of users nearest to its frequency,
        the same in each repeat. If None, use the sum of the counts.
    epsilons : float, list of float or None, default=None
        Privacy budgets. If None, use the epsilon of each oracle.
    queries : query set, dict of them, or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`. If None, every category is a query.
    metrics : {"mse", "mae"}, callable, or list of them, default="mse"
        Errors of the answers, see :func:`~sklearn_ldp.metrics.query_errors`.
    n_repeats : int, default=30
        Number of simulated collections per cell.
    n_jobs : int, default=None
        Number of joblib workers.
    random_state : int, RandomState or Generator, default=0
        Seed. With an int, the study is reproducible. A Generator is advanced by each call.
    checkpoint : path-like, default=None
        A file to store the errors of each finished cell; it is created if missing. If the same call
        is repeated, it resumes from this file, and a larger study computes only the cells that are
        not in the file. The file is text (JSON lines).
    progress : bool, default=False
        Whether to show the progress on stderr.

    Returns
    -------
    ErrorStudy
        The errors, with one row per combination.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid, or two parameters do not match. These errors are raised before
        the work starts.

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
    check_repeats(n_repeats, "simulate_errors")
    posts = _named_postprocessors(postprocessors)
    if not isinstance(queries, Mapping):
        queries = {repr(as_query_set(queries)): queries}
    query_sets = {str(name): as_query_set(query_set) for name, query_set in queries.items()}
    listed_metrics: list[Any] = (
        [metrics] if isinstance(metrics, str) or callable(metrics) else list(metrics)
    )
    named_metrics = _by_name(
        listed_metrics, "metrics", lambda m: m if isinstance(m, str) else m.__name__
    )
    entropy = root_entropy(random_state)
    named_oracles = _named_oracles(oracles)
    cells = [
        _Cell(population, counts, name, oracle_at_epsilon, int(n_repeats), entropy)
        for population, counts in _populations(frequencies, n_samples)
        for name, oracle in named_oracles.items()
        for oracle_at_epsilon in _with_each_epsilon(oracle, epsilons, len(counts))
    ]
    rows = [row for cell in cells for row in _rows(cell, posts, query_sets, named_metrics)]
    ledger = StudyFile(checkpoint)
    tasks = _tasks([row for row in rows if row.key not in ledger])
    with Progress(len(tasks), is_shown=progress and bool(tasks)) as bar:
        for errors, name in run(_work, [(task,) for task in tasks], n_jobs):
            ledger.add(errors)
            bar.finish(name)
    return ErrorStudy(_columns(rows), np.array([ledger[row.key] for row in rows]))


@dataclass(frozen=True, eq=False)
class _Cell:
    """An oracle and a population, whose collections are simulated in one task."""

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
        """Return a digest of all inputs of the simulation, which seeds its random numbers.

        The digest includes neither the version of the package nor the module of the oracle, so
        that a seeded study stays the same when these change.
        """
        return _digest(self.counts, _whole_repr(self.oracle), self.n_repeats, self.entropy)

    def simulate(self) -> FrequencyEstimate:
        rng = np.random.default_rng(int(self.digest, 16))
        oracle = clone(self.oracle).set_params(categories=len(self.counts), random_state=rng)
        return oracle.simulate(self.counts, self.n_repeats)

    def __str__(self) -> str:
        return f"{self.oracle_name}, epsilon {self.oracle.epsilon:g}, n {self.n_samples:,}"


class _Row(NamedTuple):
    """One row of the study: what it combines, and the key of its errors in the checkpoint."""

    cell: _Cell
    post_name: str
    post: Any
    queries_name: str
    queries: QuerySet
    metric_name: str
    metric: Any
    key: str


def _rows(cell: _Cell, posts: dict, queries: dict, metrics: dict) -> Iterator[_Row]:
    """Yield the rows of a cell; raise ValueError if queries do not fit its population."""
    digests = {}
    for name, query_set in queries.items():
        for metric in metrics.values():
            query_errors(cell.truth, cell.truth[None], queries=query_set, metric=metric)
        matrix = query_set.matrix(len(cell.counts), cell.truth)
        digests[name] = _digest(repr(query_set), matrix.indptr, matrix.indices, matrix.data)
    for post_name, post in posts.items():
        modules = type(cell.oracle).__module__, type(post).__module__
        code = __version__, *modules, _whole_repr(post)
        for queries_name, query_set in queries.items():
            for metric_name, metric in metrics.items():
                key = _digest(cell.digest, code, digests[queries_name], metric_name)
                yield _Row(cell, post_name, post, queries_name, query_set, metric_name, metric, key)


def _tasks(rows: list[_Row]) -> list[list[_Row]]:
    """Group whole cells into tasks that are large enough for a worker."""
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
    """Return a dict from the key of each row of a task to its errors, and the task's name."""
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
    results = [clone(post).fit_transform(row) for row in simulated]
    return simulated.with_values(np.concatenate([row.values for row in results]), by="search")


# -- from the parameters to cells -----------------------------------------------------------------
def _with_each_epsilon(oracle: BaseOracle, epsilons: Any, d: int) -> Iterator[BaseOracle]:
    for epsilon in [oracle.epsilon] if epsilons is None else np.atleast_1d(epsilons):
        copy = clone(oracle).set_params(epsilon=float(epsilon), n_jobs=None, **_STUDY_PARAMETERS)
        copy.channel(d)  # refuses parameters that do not fit the domain
        yield copy.set_params(random_state=None)


def _populations(frequencies: Any, n_samples: Any) -> Iterator[tuple[str, np.ndarray]]:
    """For each population and number of users, yield its name and integer counts."""
    named = frequencies if isinstance(frequencies, Mapping) else {"": frequencies}
    for name, population in named.items():
        label = f"frequencies of {name!r}" if name else "frequencies"
        try:
            values = np.asarray(population, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"simulate_errors needs {label} or counts, with one number for each category, "
                "but got users' values. Count the values first, for example by value_counts() of a "
                "pandas Series."
            ) from error
        if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values) & (values >= 0)):
            raise ValueError(
                f"simulate_errors needs {label} that are finite and >= 0, of shape (d,), got an "
                f"array of shape {values.shape}. Pass one number for each category."
            )
        if n_samples is None:
            if np.any(values != np.floor(values)) or not values.sum():
                raise ValueError(
                    f"simulate_errors needs the number of users, got {label} without n_samples. "
                    "Pass n_samples=, or integer counts of users as frequencies=."
                )
            counts = population if np.asarray(population).dtype.kind in "iu" else values
            yield str(name), check_counts(counts, f"simulate_errors: {label}")
            continue
        if not np.isclose(values.sum(), 1.0, rtol=0, atol=1e-6):
            raise ValueError(
                f"simulate_errors needs {label} that sum to 1, got a sum of {values.sum():.6g}. "
                "Divide the numbers by their sum, or pass counts and leave out n_samples=."
            )
        for size in np.atleast_1d(n_samples).tolist():
            if not isinstance(size, Integral) or size < 1:
                raise ValueError(
                    f"simulate_errors needs integers >= 1 as n_samples, got {size!r}. Pass "
                    "n_samples= as a number of users, or a list of such numbers."
                )
            check_total(int(size), "simulate_errors: n_samples")
            yield str(name), apportion(values, int(size))


def _named_oracles(oracles: Any) -> dict[str, BaseOracle]:
    if isinstance(oracles, type):
        raise TypeError(
            f"simulate_errors needs oracles such as {oracles.__name__}(), got the class itself. "
            f"Pass an instance, {oracles.__name__}()."
        )
    if isinstance(oracles, BaseColumnSurvey):
        raise TypeError(
            f"simulate_errors needs oracles for one question, got {type(oracles).__name__}. Pass "
            "the oracle of a single column, or pass survey.simulate(counts, n_repeats) to "
            "query_errors."
        )
    is_named = isinstance(oracles, Mapping)
    listed = oracles.values() if is_named else oracles
    listed = [listed] if isinstance(listed, BaseOracle) else list(listed)
    for oracle in listed:
        if not isinstance(oracle, BaseOracle):
            raise TypeError(
                f"simulate_errors needs oracles such as OLH(), got {oracle!r}. Pass an oracle, or "
                "a list or dict of oracles."
            )
    if is_named:
        return dict(zip(map(str, oracles), listed, strict=True))
    # The repr of an oracle, without the parameters that the study sets.
    defaults = {"epsilon": 1.0, "random_state": None, **_STUDY_PARAMETERS}
    return _by_name(listed, "oracles", lambda o: candidate_name(clone(o).set_params(**defaults)))


def _named_postprocessors(postprocessors: Any) -> dict[str, Any]:
    is_mapping = isinstance(postprocessors, Mapping)
    if is_mapping and all(hasattr(post, "fit") for post in postprocessors.values()):
        posts = as_candidates(list(postprocessors.values()), "simulate_errors")
        return dict(zip(map(str, postprocessors), posts, strict=True))
    candidates = [postprocessors] if hasattr(postprocessors, "fit") else postprocessors
    posts = as_candidates(candidates, "simulate_errors")
    return _by_name(posts, "postprocessors", candidate_name)


def _by_name(entries: list, kind: str, name: Callable[[Any], str]) -> dict[str, Any]:
    """Return a dict from names to entries; raise ValueError if two names are equal."""
    names = [name(entry) for entry in entries]
    named = dict(zip(names, entries, strict=True))
    if len(named) < len(entries) or not named:
        raise ValueError(
            f"simulate_errors needs at least one entry in {kind}, and different names for all, got "
            f"the names {names}. Pass {kind}= as a dict with a name for each entry."
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


# -- keys: digests of the inputs of a result ------------------------------------------------------
def _whole_repr(estimator: Any) -> str:
    return estimator.__repr__(N_CHAR_MAX=10**6)


def _digest(*values: Any) -> str:
    """Return a digest of some values."""
    digest = hashlib.sha256()
    for value in values:
        content = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()
