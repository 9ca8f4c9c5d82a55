"""Simulation studies: errors of oracles and post-processors for known true frequencies."""

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
    """The table of simulated errors that `simulate_errors` returns.

    Each row is one combination of a population, a number of users, an oracle, an epsilon, a
    post-processor, queries and a metric. ``study["error"]`` returns a column, and
    ``study.select(oracle="OLH", epsilon=1)`` returns a study of the selected rows.

    Parameters
    ----------
    columns : dict of ndarray of shape (n_rows,)
        The combination of each row. The keys are "population", "n_samples", "oracle", "epsilon",
        "postprocessor", "queries" and "metric".
    errors : ndarray of shape (n_rows, n_repeats)
        The error in each simulated collection. Rows with the same population, number of users,
        oracle and epsilon use the same simulated collections in the same order. Their errors can
        therefore be compared collection by collection.

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
        """The mean error of each row over all repeats, of shape (n_rows,)."""
        return self.errors.mean(axis=1)

    @property
    def standard_deviation(self) -> np.ndarray:
        """The standard deviation of each row's errors over all repeats, of shape (n_rows,).

        It is NaN if there is only one repeat.
        """
        if self.errors.shape[1] < 2:
            return np.full(len(self), np.nan)
        return self.errors.std(axis=1, ddof=1)

    @property
    def standard_error(self) -> np.ndarray:
        """The standard error of the mean error of each row, of shape (n_rows,)."""
        return self.standard_deviation / np.sqrt(self.errors.shape[1])

    def __len__(self) -> int:
        return len(self.errors)

    def __getitem__(self, column: str) -> np.ndarray:
        if column in self.columns:
            return self.columns[column]
        if column in _STATISTICS:
            return getattr(self, column)
        known = ", ".join([*self.columns, *_STATISTICS])
        raise KeyError(f"An ErrorStudy has no column {column!r}. Use one of the columns {known}.")

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
            The name of each argument is a column. Its value is the required value in this column,
            or a list of allowed values.

        Returns
        -------
        ErrorStudy
            The selected rows, in the same order.

        Raises
        ------
        KeyError
            If the name of an argument is not a column.
        """
        keep = np.ones(len(self), dtype=bool)
        for column, wanted in conditions.items():
            is_list = isinstance(wanted, list | tuple | set | np.ndarray)
            keep &= np.isin(self[column], list(wanted) if is_list else [wanted])
        return ErrorStudy({k: v[keep] for k, v in self.columns.items()}, self.errors[keep])

    def to_dict(self) -> dict[str, np.ndarray]:
        """Return all columns of the table as a dict.

        Returns
        -------
        dict of ndarray of shape (n_rows,)
            The values of each column by its name. In addition to the columns that define the rows,
            there are the columns "error", "standard_deviation" and "standard_error".
        """
        return {name: self[name] for name in [*self.columns, *_STATISTICS]}

    @overload
    def to_frame(self, library: Literal["pandas"] = "pandas") -> DataFrame: ...
    @overload
    def to_frame(self, library: Literal["polars"]) -> PolarsDataFrame: ...
    @overload
    def to_frame(self, library: str) -> DataFrame | PolarsDataFrame: ...
    def to_frame(self, library: str = "pandas") -> DataFrame | PolarsDataFrame:
        """Return the table as a data frame.

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
            raise ValueError(
                f"ErrorStudy.to_frame got the unknown library {library!r}. Pass library="
                '"pandas" or "polars".'
            )
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
    """Simulate the errors of oracles and post-processors for known true frequencies.

    For each combination of a population, a number of users, an oracle and an epsilon, `n_repeats`
    collections are simulated. Every post-processor processes the same simulated estimates. Errors
    of different post-processors can therefore be compared collection by collection. Only the
    counts of the reports are simulated, not each user, so a study needs only seconds.

    The joblib backend ("loky", "threading", "dask", "ray") can be selected with
    :func:`joblib.parallel_config`. The result depends neither on the backend nor on `n_jobs`. The
    simulated collections of a combination do not depend on the other combinations of the study,
    because their random numbers depend only on the seed and on this combination.

    Parameters
    ----------
    oracles : oracle, list or dict of oracles
        The oracles. In the result, the name of an oracle is its key in the dict. If `oracles` is
        not a dict, the name is the repr of the oracle.
    postprocessors : "all", list or dict
        The post-processors, or Pipelines of post-processors. A dict maps names, which are used in
        the result, to post-processors, or class names to grids of parameters. If a post-processor
        is a search, it chooses a candidate separately for each simulated estimate.
    frequencies : array-like of shape (d,), or dict of arrays
        The true frequencies of a population, which sum to 1, or a dict from names to the
        frequencies of several populations. If `n_samples` is None, pass integers instead: the
        number of users of each category.
    n_samples : int, list of int or None, default=None
        Numbers of users. The number of users of each category is its frequency times the number of
        users, rounded, and is the same in each repeat. If None, `frequencies` contains numbers of
        users.
    epsilons : float, list of float or None, default=None
        Privacy budgets, each of which is used with each oracle. If None, use the epsilon of each
        oracle.
    queries : query set, dict of query sets, or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`. The keys of a dict are the names in
        the result. If None, every category is a query.
    metrics : {"mse", "mae"}, callable, or list of these, default="mse"
        Errors of the answers, see :func:`~sklearn_ldp.metrics.query_errors`.
    n_repeats : int, default=30
        Number of simulated collections per combination of population, number of users, oracle and
        epsilon.
    n_jobs : int, default=None
        Number of joblib workers.
    random_state : int, RandomState or Generator, default=0
        Seed of the simulation. With an int, the study is reproducible. With a Generator, each call
        draws other random numbers.
    checkpoint : path-like, default=None
        A file that stores errors as soon as they are computed. It is created if it does not exist.
        If an interrupted call is repeated with the same file, only the errors that are not in the
        file are computed. The same is true for a larger study. The file has one JSON object per
        line.
    progress : bool, default=False
        Whether to show the progress on stderr.

    Returns
    -------
    ErrorStudy
        The errors, with one row per combination of population, number of users, oracle, epsilon,
        post-processor, queries and metric.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid, or if parameters do not match, such as queries for another
        number of categories. These errors are raised before the simulation starts.

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
    """One combination of a population, a number of users, an oracle and an epsilon.

    All collections of a cell are simulated together.
    """

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
        """A hash of all inputs of the simulation, from which its random numbers are seeded.

        The version of the package and the module of the oracle are not included. A study with a
        seed therefore has the same result after these change.
        """
        return _digest(self.counts, _whole_repr(self.oracle), self.n_repeats, self.entropy)

    def simulate(self) -> FrequencyEstimate:
        rng = np.random.default_rng(int(self.digest, 16))
        oracle = clone(self.oracle).set_params(categories=len(self.counts), random_state=rng)
        return oracle.simulate(self.counts, self.n_repeats)

    def __str__(self) -> str:
        return f"{self.oracle_name}, epsilon {self.oracle.epsilon:g}, n {self.n_samples:,}"


class _Row(NamedTuple):
    """One row of a study: a cell, a post-processor, queries and a metric, with their names.

    A cell is a combination of a population, a number of users, an oracle and an epsilon. `key`
    identifies the errors of the row in the checkpoint file.
    """

    cell: _Cell
    post_name: str
    post: Any
    queries_name: str
    queries: QuerySet
    metric_name: str
    metric: Any
    key: str


def _rows(cell: _Cell, posts: dict, queries: dict, metrics: dict) -> Iterator[_Row]:
    """Yield the rows of a study for one cell: one row per post-processor, query set and metric.

    A cell is a combination of a population, a number of users, an oracle and an epsilon.
    posts, queries, metrics: dicts from names to post-processors, query sets and metrics.
    Raise ValueError if queries do not match the number of categories of the population.
    """
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
    """Split the rows of a study into tasks for joblib workers, and return the list of the tasks.

    All rows that use the same simulated collections belong to the same task. Each task is large
    enough for a worker.
    """
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
    """Compute the errors of all rows of a task.

    Returns: a dict from the key of each row to its errors, of shape (n_repeats,), and a text for
    the progress bar.
    """
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
    """For each population and each number of users, yield the population's name and its counts.

    The counts are the integer numbers of users of the categories.
    """
    named = frequencies if isinstance(frequencies, Mapping) else {"": frequencies}
    for name, population in named.items():
        label = f"frequencies of {name!r}" if name else "frequencies"
        try:
            values = np.asarray(population, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"simulate_errors needs {label} with one number for each category, got values that "
                "are not numbers. If these are users' values, count them first, for example by "
                "value_counts() of a pandas Series."
            ) from error
        if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values) & (values >= 0)):
            raise ValueError(
                f"simulate_errors needs {label} as a nonempty one-dimensional array of finite "
                f"numbers that are at least 0, got {values.tolist()!s:.60} of shape "
                f"{values.shape}. Pass one such number for each category."
            )
        if n_samples is None:
            if np.any(values != np.floor(values)) or not values.sum():
                raise ValueError(
                    f"simulate_errors needs n_samples, because {label} are not integers with a "
                    "positive sum, got n_samples=None. Pass the number of users as n_samples=, or "
                    "integer numbers of users as frequencies=."
                )
            counts = population if np.asarray(population).dtype.kind in "iu" else values
            yield str(name), check_counts(counts, f"simulate_errors: {label}")
            continue
        if not np.isclose(values.sum(), 1.0, rtol=0, atol=1e-6):
            raise ValueError(
                f"simulate_errors needs {label} that sum to 1, got numbers with the sum "
                f"{values.sum():.6g}. Divide the numbers by their sum. If they are integer numbers "
                "of users, leave out n_samples= instead."
            )
        for size in np.atleast_1d(n_samples).tolist():
            if not isinstance(size, Integral) or size < 1:
                raise ValueError(
                    f"simulate_errors needs positive integers as n_samples, got {size!r}. Pass "
                    "n_samples= as a number of users, or as a list of such numbers."
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
            "simulate_errors needs oracles for a single column, got the survey "
            f"{type(oracles).__name__}, which has several columns. Pass the oracle of a single "
            "column. To simulate a survey, pass survey.simulate(counts, n_repeats) to query_errors."
        )
    is_named = isinstance(oracles, Mapping)
    listed = oracles.values() if is_named else oracles
    listed = [listed] if isinstance(listed, BaseOracle) else list(listed)
    for oracle in listed:
        if not isinstance(oracle, BaseOracle):
            raise TypeError(
                f"simulate_errors needs oracles such as OLH(), got {oracle!r}. Pass oracles= as an "
                "oracle, or as a list or dict of oracles."
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
    """Return a dict from the name of each entry to the entry.

    name: function that returns the name of an entry. kind: the parameter that contains the entries,
    for the error message. Raise ValueError if two names are equal or there is no entry.
    """
    names = [name(entry) for entry in entries]
    named = dict(zip(names, entries, strict=True))
    if len(named) < len(entries) or not named:
        raise ValueError(
            f"simulate_errors needs at least one entry in {kind}, and all entries need different "
            f"names, got the names {names}. Pass {kind}= as a dict from different names to entries."
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
    """Return the SHA-256 hash of several arrays or other values, as hexadecimal digits.

    Other values than arrays are represented by their repr.
    """
    digest = hashlib.sha256()
    for value in values:
        content = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()
