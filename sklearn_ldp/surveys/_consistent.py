"""Make tables that share columns agree with each other, and remove negative frequencies.

A table contains the frequency of each combination of some columns' categories. Each combination is
a cell of the table.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval

from .._core.estimates import EstimateSet, FrequencyEstimate
from .._core.numerics.simplex import norm_sub
from ..postprocessing import BasePostProcessor
from ._components import Components, Subset
from ._table_set import TableSet
from ._views import best_components, combined_tables


class BaseTableProcessor(BasePostProcessor):
    """Base class of post-processors that process all tables of a :class:`TableSet` together."""

    # A single estimate is projected onto the simplex, like :class:`~sklearn_ldp.NormSub` does,
    # because it has no other table to agree with. A plain array is refused, because it may
    # contain the users' rows.

    def _takes_arrays(self) -> bool:
        return False

    @abstractmethod
    def _process_tables(self, tables: TableSet) -> TableSet:
        """Return the post-processed tables, and set the fitted attributes of the subclass."""

    def _sees_whole_sets(self) -> bool:
        return True

    def _process(self, estimate: FrequencyEstimate) -> FrequencyEstimate:
        return estimate.with_values(norm_sub(estimate.values), by=type(self).__name__)

    def _fit_set(self, estimates: EstimateSet) -> EstimateSet:
        return self._process_tables(self._checked(estimates))

    def _transform_set(self, estimates: EstimateSet) -> EstimateSet:
        self._validate_params()
        return copy.copy(self)._process_tables(self._checked(estimates))

    def _check(self, X: FrequencyEstimate | ArrayLike, *, reset: bool) -> FrequencyEstimate:
        if isinstance(X, FrequencyEstimate):
            return super()._check(X, reset=reset)
        name = type(self).__name__
        raise ValueError(
            f"{name} needs the tables that a MarginalOracle returns, got {type(X).__name__}. Pass "
            f"users' values to the oracle, as in make_pipeline(MarginalOracle(...), {name}())."
        )

    def _checked(self, estimates: EstimateSet) -> TableSet:
        if isinstance(estimates, TableSet):
            return estimates
        raise ValueError(
            f"{type(self).__name__} needs the tables that a MarginalOracle returns, got a set of "
            f"{len(estimates)} estimates that is not a TableSet. Use EmpiricalBayes() for "
            "estimates of single columns."
        )


_PENALTY = 5.0  # penalty of the difference between the two projections
_TOLERANCE = 1e-6  # cells above minus this number are not negative enough for another iteration


def consistent_tables(
    sizes: Sequence[int],
    columns: Sequence[Subset],
    values: Sequence[np.ndarray],
    variances: Sequence[float],
    *,
    non_negative: bool = True,
    max_iter: int = 300,
) -> tuple[list[np.ndarray], int]:
    """Return the tables closest to the given tables that agree with each other.

    Two tables agree if they contain the same frequencies of the columns that they share. The
    closest tables minimize the sum of the squared differences of all cells, each divided by the
    variance of its table. If negative cells are not allowed, this is a quadratic program. It is
    solved by the alternating direction method of multipliers, because its two projections have a
    closed form: the projection of all tables onto tables that agree, and the projection of each
    table onto non-negative cells that sum to 1. After the last iteration, cells may be as low as
    -1e-6, or lower if the iteration stopped because of `max_iter`. As a last step, the tables are
    mixed with uniform tables. The returned tables therefore agree up to rounding, and have no
    negative cell.

    Parameters
    ----------
    sizes : sequence of int
        Number of categories of each column.
    columns : sequence of tuple of int
        The positions of the columns of each table, in ascending order.
    values : sequence of ndarray of shape (n_cells,)
        The cells of each table in C order.
    variances : sequence of float
        For each table, the variance of a cell, which must be positive.
    non_negative : bool, default=True
        Whether the returned tables must not have negative cells. If False, return the generalized
        least squares solution.
    max_iter : int, default=300
        Maximum number of iterations.

    Returns
    -------
    (list of ndarray of shape (n_cells,), int)
        The tables, and the number of iterations.
    """
    components = Components.of_tables(sizes, columns, values, variances)
    if not non_negative:
        return components.own_tables(), 0
    return non_negative_tables(components, max_iter)


def non_negative_tables(
    components: Components, max_iter: int = 300
) -> tuple[list[np.ndarray], int]:
    """Return the closest tables that agree with each other and have no negative cell.

    components: the components of the noisy tables. The method is described in `consistent_tables`.
    Returns: a list of tables of shape (n_cells,), and the number of iterations.
    """
    linear = components.own_tables()
    tables = linear
    on_simplex = _on_simplex(tables)
    duals = [np.zeros_like(table) for table in tables]
    n_iter = 0
    # Ends: after at most `max_iter` passes.
    while min(table.min() for table in tables) < -_TOLERANCE and n_iter < max_iter:
        n_iter += 1
        triples = zip(linear, on_simplex, duals, strict=True)
        pulled = [(x + _PENALTY * (z - u)) / (1 + _PENALTY) for x, z, u in triples]
        tables = components.fitted(pulled).own_tables()
        on_simplex = _on_simplex([table + u for table, u in zip(tables, duals, strict=True)])
        duals = [u + t - z for u, t, z in zip(duals, tables, on_simplex, strict=True)]
    # The minimum weight of the uniform distribution that leaves no cell negative.
    pairs = [(max(-float(table.min()), 0.0), 1 / len(table)) for table in tables]
    weight = max(below / (below + even) for below, even in pairs)
    return [(1 - weight) * table + weight / len(table) for table in tables], n_iter


def _on_simplex(tables: list[np.ndarray]) -> list[np.ndarray]:
    """Return, for each table, the closest table with non-negative cells that sum to 1."""
    by_size: dict[int, list[int]] = {}
    for i, table in enumerate(tables):
        by_size.setdefault(len(table), []).append(i)
    projected = [norm_sub(np.stack([tables[i] for i in places])) for places in by_size.values()]
    rows = [row for same_size in projected for row in same_size]
    order = np.argsort(np.concatenate(list(by_size.values())))
    return [rows[i] for i in order]


class Consistent(BaseTableProcessor):
    """Make tables agree with each other on the columns that they share.

    For example, the table of age and sex and the table of age and state both contain the
    distribution of age. The two estimated distributions differ because they come from different
    users. This post-processor replaces each table by the best linear combination of all tables
    (generalized least squares). Then the tables agree, and their errors are smaller. This step has
    a closed form and needs milliseconds. Afterwards negative frequencies are removed such that the
    tables still agree.

    Parameters
    ----------
    non_negative : bool, default=True
        Whether to remove negative frequencies. If False, the results are unbiased linear
        combinations of the raw tables. They then have confidence intervals, from the noise of the
        linear combinations.
    max_iter : int, default=300
        Maximum number of iterations of the method that removes negative frequencies.

    Attributes
    ----------
    estimate_ : TableSet
        The processed tables, and in addition a table for each single column. All these tables agree
        with each other up to rounding.
    n_iter_ : int
        Number of iterations of the method that removes negative frequencies.
    n_features_in_ : int
        Number of categories. Only defined if a single FrequencyEstimate was fitted.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the input's columns. Only defined if a single FrequencyEstimate was fitted, and if
        its columns have names.

    See Also
    --------
    LatentClasses : A joint model, which is more accurate unless there is very little noise.

    Notes
    -----
    Tables that agree with each other can still be inaccurate. If the noise is large, tables that
    are computed as if all columns were independent can have smaller errors.

    If the tables were post-processed before, for example by ``EmpiricalBayes()``, the
    post-processed frequencies are combined. The weights still follow from the noise of the raw
    tables.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_ldp import Consistent, MarginalOracle
    >>> users = np.random.default_rng(0).integers(0, 2, (20_000, 3))
    >>> oracle = MarginalOracle(1.0, domains={"a": 2, "b": 2, "c": 2}, random_state=0)
    >>> tables = make_pipeline(oracle, Consistent()).fit_transform(users)
    >>> ab, bc = (tables[name].values.reshape(2, 2) for name in [("a", "b"), ("b", "c")])
    >>> np.allclose(ab.sum(axis=0), bc.sum(axis=1))
    True
    """

    _parameter_constraints: dict = {
        "non_negative": ["boolean"],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(self, *, non_negative: bool = True, max_iter: int = 300) -> None:
        self.non_negative = non_negative
        self.max_iter = max_iter

    def _process(self, estimate: FrequencyEstimate) -> FrequencyEstimate:
        self.n_iter_: int = 1
        return super()._process(estimate)

    def _process_tables(self, tables: TableSet) -> TableSet:
        linear = linear_tables(tables)
        if not self.non_negative:
            self.n_iter_ = 0
            return linear
        # The distance to the linear tables counts a shared column once for each of its tables.
        cells = {name: linear.row(name) for name in tables if len(linear[name])}
        variances = [cell_variance(tables if len(tables[name]) else linear, name) for name in cells]
        cells, self.n_iter_ = agreeing_cells(linear, cells, variances, self.max_iter)
        estimates = dict(linear)
        for name, values in cells.items():
            estimates[name] = linear[name].with_values([np.maximum(values, 0)], by="Consistent")
        return linear.with_parts(estimates)


def agreeing_cells(
    tables: TableSet, cells: dict[Any, np.ndarray], variances: list[float], max_iter: int = 300
) -> tuple[dict[Any, np.ndarray], int]:
    """Return the closest non-negative tables that agree with each other, and the iterations.

    cells: the cells of each table, of shape (n_cells,), by the name of the table.
    variances: the variance of a cell of each table.
    Returns: a dict from names to tables of shape (n_cells,), which also contains a table for each
    single column; and the number of iterations.
    """
    columns = [tables.columns_of[name] for name in cells]
    components = Components.of_tables(tables.sizes, columns, list(cells.values()), variances)
    agreeing, n_iter = non_negative_tables(components, max_iter)
    components = components.fitted(agreeing)
    singles = {
        name: columns
        for name, columns in tables.columns_of.items()
        if name not in cells and len(columns) == 1 and columns in components
    }
    single_cells = components.tables(list(singles.values()))
    return dict(zip([*cells, *singles], [*agreeing, *single_cells], strict=True)), n_iter


def cell_variance(tables: TableSet, name: Any) -> float:
    """Return the variance of a cell whose true frequency is 0, in the table with this name.

    It is used as an approximate variance of all cells of the table.
    """
    noise = tables[name].noise
    if noise is None:
        raise ValueError(
            f"Consistent needs the noise of every table, but the noise of the table {name!r} is "
            "unknown. Pass the tables that a MarginalOracle returns."
        )
    return float(np.square(noise.std))


def linear_tables(tables: TableSet, components: Components | None = None) -> TableSet:
    """Return the best linear combinations of the tables, so that they agree with each other.

    The result also contains a table for each single column.
    components: the components of the tables, or None to compute them.
    """
    sizes = tables.sizes
    columns_of = tables.columns_of
    names = list(tables.domain.columns)
    singles = {names[j]: (j,) for columns in columns_of.values() for j in columns}
    wanted: dict[Any, Subset] = {**columns_of, **singles}
    if all(table.is_raw for table in tables.values()):
        # Raw tables are computed from all views.
        components = components or best_components(sizes, tables.views)
        n_users = int(tables.views[0].noise.n_users)
        caveats = next((table.caveats for table in tables.values()), ())
        combined = combined_tables(
            tables.domain, wanted, tables.views, components, n_users, caveats
        )
        return tables.with_parts(combined)
    # Post-processed tables are combined with their own values.
    known = [name for name in tables if len(tables[name])]
    cells = [tables.row(name) for name in known]
    variances = [cell_variance(tables, name) for name in known]
    components = Components.of_tables(sizes, [columns_of[name] for name in known], cells, variances)
    covered = {name: columns for name, columns in wanted.items() if columns in components}
    combined_cells = components.tables(list(covered.values()))
    estimates = dict(tables)
    for (name, columns), values in zip(covered.items(), combined_cells, strict=True):
        if name in tables:
            estimates[name] = tables[name].with_values([values], by="Consistent")
        else:
            estimates[name] = FrequencyEstimate(
                [values],
                tables.domain.joint(columns).categories,
                postprocessors=("Consistent",),
            )
    return tables.with_parts(estimates)
