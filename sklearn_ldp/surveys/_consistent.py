"""Tables that agree with each other: the best linear combination, and then no negative cells."""

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
    """Base of post-processors that take a whole :class:`TableSet` and return one."""

    # An estimate that is no set has nothing to agree with: it is projected onto the simplex, as
    # :class:`~sklearn_ldp.NormSub` does it. A plain array is refused, as it may hold people's
    # rows.

    def _takes_arrays(self) -> bool:
        return False

    @abstractmethod
    def _process_tables(self, tables: TableSet) -> TableSet:
        """Return the processed tables, and set what was learnt as fitted attributes."""

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
        name, given = type(self).__name__, type(X).__name__
        raise ValueError(
            f"{name} needs the tables that a MarginalOracle returns, got {given}: this oracle "
            f"makes them of people's rows, make_pipeline(MarginalOracle(...), {name}())."
        )

    def _checked(self, estimates: EstimateSet) -> TableSet:
        if isinstance(estimates, TableSet):
            return estimates
        raise ValueError(
            f"{type(self).__name__} needs the tables that a MarginalOracle returns, got a set of "
            f"{len(estimates)} estimates that have nothing in common: use EmpiricalBayes()."
        )


_PENALTY = 5.0  # of the difference between the two projections
_ENOUGH = 1e-6  # cells that are no more below 0 than this are lifted to it


def consistent_tables(
    sizes: Sequence[int],
    columns: Sequence[Subset],
    values: Sequence[np.ndarray],
    variances: Sequence[float],
    *,
    non_negative: bool = True,
    max_iter: int = 300,
) -> tuple[list[np.ndarray], int]:
    """Return the nearest tables that agree with each other on the columns that they share.

    Near means the least sum of squared differences, each divided by the variance of its table.
    Without negative cells that is a quadratic program. It is solved by the alternating direction
    method of multipliers, as both projections that it asks for have a closed form: onto tables that
    agree with each other, and of each table onto the simplex. What is left below 0 in the end (at
    most 1e-6, unless `max_iter` ends it before) is removed by a mixture with the uniform
    distribution, so that the result agrees exactly and has no negative cell.

    Parameters
    ----------
    sizes : sequence of int
        Number of categories of each column.
    columns : sequence of tuple of int
        The columns of each table, rising.
    values : sequence of ndarray of shape (n_cells,)
        The cells of each table in C order.
    variances : sequence of float
        Variance of a cell of each table, > 0.
    non_negative : bool, default=True
        Whether no cell may be negative. If not, the result is generalised least squares.
    max_iter : int, default=300
        The most iterations.

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
    """Return the nearest tables without negative cells that agree, see `consistent_tables`.

    Shapes: -> (n_cells,).
    """
    tables, n_iter = components.own_tables(), 0
    near, inside = tables, _on_simplex(tables)
    prices = [np.zeros_like(table) for table in tables]
    # Ends: at the latest after `max_iter` passes.
    while min(table.min() for table in tables) < -_ENOUGH and n_iter < max_iter:
        n_iter += 1
        triples = zip(near, inside, prices, strict=True)
        pulled = [(x + _PENALTY * (z - u)) / (1 + _PENALTY) for x, z, u in triples]
        tables = components.fitted(pulled).own_tables()
        inside = _on_simplex([table + u for table, u in zip(tables, prices, strict=True)])
        prices = [u + t - z for u, t, z in zip(prices, tables, inside, strict=True)]
    # The least share of the uniform distribution that leaves no cell negative.
    pairs = [(max(-float(table.min()), 0.0), 1 / len(table)) for table in tables]
    share = max(below / (below + even) for below, even in pairs)
    return [(1 - share) * table + share / len(table) for table in tables], n_iter


def _on_simplex(tables: list[np.ndarray]) -> list[np.ndarray]:
    """Project each table onto the simplex, all of one size at once."""
    by_size: dict[int, list[int]] = {}
    for i, table in enumerate(tables):
        by_size.setdefault(len(table), []).append(i)
    rows = [norm_sub(np.stack([tables[i] for i in places])) for places in by_size.values()]
    places = np.argsort(np.concatenate(list(by_size.values())))
    flat = [row for of_size in rows for row in of_size]
    return [flat[i] for i in places]


class Consistent(BaseTableProcessor):
    """Make tables agree with each other on the columns that they share.

    The age of users follows from the table of age and sex, and from that of age and state. These
    two are estimates from different users, and differ. The best linear combination of all that
    tables say about each other (generalised least squares) makes them agree, and it lowers their
    errors. It has a closed form, so it takes milliseconds. Then negative cells are removed, such
    that the tables go on to agree.

    Parameters
    ----------
    non_negative : bool, default=True
        Whether no cell may be negative. False keeps the tables linear, unbiased and with
        intervals: their noise is that of the combination.
    max_iter : int, default=300
        The most iterations against negative cells.

    Attributes
    ----------
    estimate_ : TableSet
        The tables, and those of all single columns. All of them agree with each other up to
        rounding.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of categories, if a plain estimate was fitted.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if a plain estimate was fitted and has any.

    See Also
    --------
    LatentClasses : More accurate where there is more than a little noise.

    Notes
    -----
    Agreement alone does not make noisy tables good: as long as their noise is large, the assumption
    that all columns are independent can have the smaller error.

    Tables that have been post-processed one by one (by ``EmpiricalBayes()``, say) are taken as they
    are, each with the weight of its raw noise.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_ldp import Consistent, MarginalOracle
    >>> users = np.random.default_rng(0).integers(0, 2, (20_000, 3))
    >>> oracle = MarginalOracle(1.0, domains={"a": 2, "b": 2, "c": 2}, random_state=0)
    >>> tables = make_pipeline(oracle, Consistent()).fit_transform(users)
    >>> of_ab, of_bc = (tables[name].values.reshape(2, 2) for name in [("a", "b"), ("b", "c")])
    >>> np.allclose(of_ab.sum(axis=0), of_bc.sum(axis=1))
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
        # Nearest to the linear tables: what they all agree on counts once for each of them.
        cells = {name: linear.row(name) for name in tables if len(linear[name])}
        variances = [cell_variance(tables if len(tables[name]) else linear, name) for name in cells]
        cells, self.n_iter_ = agreeing_cells(linear, cells, variances, self.max_iter)
        made = dict(linear)
        for name, own in cells.items():
            made[name] = linear[name].with_values([np.maximum(own, 0)], by="Consistent")
        return linear.with_parts(made)


def agreeing_cells(
    tables: TableSet, cells: dict[Any, np.ndarray], variances: list[float], max_iter: int = 300
) -> tuple[dict[Any, np.ndarray], int]:
    """Return the nearest cells of some tables that agree, and the single columns in them.

    Shapes: cells (n_cells,) -> (n_cells,).
    """
    columns = [tables.columns_of[name] for name in cells]
    components = Components.of_tables(tables.sizes, columns, list(cells.values()), variances)
    made, n_iter = non_negative_tables(components, max_iter)
    components = components.fitted(made)
    others = {name: own for name, own in tables.columns_of.items() if name not in cells}
    singles = {name: own for name, own in others.items() if len(own) == 1 and own in components}
    of_singles = components.tables(list(singles.values()))
    found = [*zip(cells, made, strict=True), *zip(singles, of_singles, strict=True)]
    return dict(found), n_iter


def cell_variance(tables: TableSet, name: Any) -> float:
    """Return about the variance of a cell of a table, from its noise level."""
    noise = tables[name].noise
    if noise is None:
        raise ValueError(
            f"The noise of the table {name!r} is not known: pass what a MarginalOracle returns."
        )
    return float(np.square(noise.std))


def linear_tables(tables: TableSet, components: Components | None = None) -> TableSet:
    """Return the best linear combinations of tables, which agree with each other."""
    # Raw tables are made of all that users have said. Tables that have been post-processed are
    # taken as they are.
    sizes, columns_of = tables.sizes, tables.columns_of
    names = list(tables.domain.columns)
    singles = {names[j]: (j,) for columns in columns_of.values() for j in columns}
    wanted: dict[Any, Subset] = {**columns_of, **singles}
    if all(table.is_raw for table in tables.values()):
        components = components or best_components(sizes, tables.views)
        n_users = int(tables.views[0].noise.n_users)
        told = next((one.caveats for one in tables.values()), ())
        combined = combined_tables(tables.domain, wanted, tables.views, components, n_users, told)
        return tables.with_parts(combined)
    known = [name for name in tables if len(tables[name])]
    cells = [tables.row(name) for name in known]
    variances = [cell_variance(tables, name) for name in known]
    components = Components.of_tables(sizes, [columns_of[name] for name in known], cells, variances)
    of_singles = {name: own for name, own in wanted.items() if own in components}
    made = components.tables(list(of_singles.values()))
    found = dict(tables)
    for (name, columns), values in zip(of_singles.items(), made, strict=True):
        if name in tables:
            found[name] = tables[name].with_values([values], by="Consistent")
        else:
            categories = tables.domain.joint(columns).categories
            found[name] = FrequencyEstimate([values], categories, postprocessors=("Consistent",))
    return tables.with_parts(found)
