"""LatentClasses: a joint model of all columns of a survey, which is fitted to noisy tables."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.common.random import RandomState, as_generator
from .._core.numerics.simplex import norm_sub
from ..postprocessing import EmpiricalBayes
from ._class_mixture import ClassFit, ClassMixture, PairTables, positive
from ._components import Components, Subset
from ._consistent import BaseTableProcessor, Consistent, agreeing_cells, linear_tables
from ._plan import TableRequest
from ._table_set import TableSet
from ._views import TableView, best_components

# Maximum expected squared error of a table at which `residual="auto"` adds residuals of the model
# to all tables. Chosen on flights, incomes and diamonds, which
# benchmarks/accuracy/_real_tables.py writes.
_LITTLE_NOISE = 0.03

# Constants of the numerical derivatives of the model. Chosen on the same data.
_STEP = 0.1  # change of the cells of the tables, in units of their noise
_MOVED_CELLS = 600  # minimum number of changed cells, over all repetitions
_CAUTION = 1.4  # factor of the derivatives, because small steps underestimate them
_EMPTY = 1e-5  # Consistent sets cells to 0; frequencies below this number count as such cells
_MIN_SIGNAL = 1e-6  # keeps a quotient finite if the signal is 0


class LatentClasses(BaseTableProcessor):
    """Fit a joint model of all columns to noisy tables. The model can draw synthetic records.

    A table contains the frequency of each combination of some columns' categories. The model is a
    mixture of a few classes of users. Within a class the columns are independent. A prior shrinks
    the classes towards each other. Then the dependence between the columns is multiplied by a
    factor in [0, 1], which is chosen by Stein's unbiased risk estimate. The factor is 0 if a model
    with independent columns has the smaller error. The frequencies of each table are computed from
    the model, so they are not negative, and the tables agree with each other. If there is little
    noise, or if an estimate of the error recommends it, a part of the difference between the noisy
    table and the model is added to each table.

    The tables are more accurate than with :class:`~sklearn_ldp.Consistent` unless there is almost
    no noise. The model can draw synthetic records (:meth:`TableSet.sample`), and it can answer
    queries about more columns than any table contains. It needs memory for the categories of all
    columns, but not for their combinations.

    Parameters
    ----------
    n_classes : int, default=8
        Number of classes of each mixture.
    n_mixtures : int, default=3
        Number of mixtures, which are fitted from different starting values. The model is the mean
        of these mixtures.
    prior_precision : float, default=1.0
        Inverse variance of the normal prior of the log odds of a category within a class. The mean
        of the prior is the log odds of the category among all users. With larger values, the
        columns become more independent.
    residual : "auto" or bool, default="auto"
        Whether a part of the difference between the noisy table and the model is added to each
        table. "auto" adds it if the tables have little noise, or if an unbiased estimate of the
        error recommends it. If False, the tables are computed from the model only.
    random_state : int, RandomState, Generator or None, default=0
        Source of randomness for the starting values. With the default, the model is always the same
        for the same tables.

    Attributes
    ----------
    estimate_ : TableSet
        The processed tables, and in addition a table for each single column.
    mixture_ : ClassMixture
        The model. ``shares`` contains the proportions of the n classes, and ``columns`` contains,
        for each column, the frequencies of its k categories in the classes, of shape (k, n). The
        number n of classes is ``n_mixtures * n_classes``, plus one class with the mean frequencies
        if the factor of the dependence is less than 1. If the factor is 0, the model has only this
        last class.
    dependence_ : float
        The factor of the dependence, in [0, 1]. If it is 0, the columns are independent, and the
        repr of the estimate shows this.
    noise_index_ : float
        Expected squared error of a noisy table of two columns without any model.
    n_features_in_ : int
        Number of categories. Only defined if a single FrequencyEstimate was fitted.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the input's columns. Only defined if a single FrequencyEstimate was fitted, and if
        its columns have names.

    See Also
    --------
    Consistent : Unbiased linear combinations of the tables, with confidence intervals.

    Notes
    -----
    This method is unpublished. It has five steps. (1) The frequencies of single columns are
    estimated from all tables by generalized least squares, and improved by
    :class:`~sklearn_ldp.EmpiricalBayes`. (2) The model is fitted to the tables by least squares,
    weighted by the inverse variances of the cells. It is fitted a second time, with the variances
    that follow from the first model. (3) The dependence is multiplied by the factor that minimizes
    Stein's unbiased risk estimate. (4) The difference between each noisy table and the model is
    shrunk cell by cell and added. How much it is shrunk depends on the size of the differences in
    this table compared with its noise. (5) Each table is moved towards the table of
    :class:`~sklearn_ldp.Consistent`. The distance minimizes Stein's risk estimate, minus one
    standard deviation. Step 5 is needed because a few classes cannot represent, for example, two
    columns that are always equal. ``python -m benchmarks.accuracy.table_models`` measures the
    errors.

    The model is fitted to tables of one and two columns. Tables of more columns are reduced to
    tables of two columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_ldp import LatentClasses, MarginalOracle
    >>> rng = np.random.default_rng(0)
    >>> kind = rng.integers(0, 2, 40_000)
    >>> users = np.column_stack([rng.random(40_000) < 0.2 + 0.6 * kind for _ in range(4)])
    >>> oracle = MarginalOracle(2.0, domains=dict.fromkeys("abcd", 2), random_state=0)
    >>> tables = make_pipeline(oracle, LatentClasses()).fit_transform(users.astype(int))
    >>> tables.answer({"a": 1, "b": 1, "c": 1, "d": 1}).round(2)
    array([[0.2]])
    """

    _parameter_constraints: dict = {
        "n_classes": [Interval(Integral, 1, None, closed="left")],
        "n_mixtures": [Interval(Integral, 1, None, closed="left")],
        "prior_precision": [Interval(Real, 0, None, closed="neither")],
        "residual": [StrOptions({"auto"}), "boolean"],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        n_classes: int = 8,
        *,
        n_mixtures: int = 3,
        prior_precision: float = 1.0,
        residual: str | bool = "auto",
        random_state: RandomState = 0,
    ) -> None:
        self.n_classes = n_classes
        self.n_mixtures = n_mixtures
        self.prior_precision = prior_precision
        self.residual = residual
        self.random_state = random_state

    def _process_tables(self, tables: TableSet) -> TableSet:
        if not all(table.is_raw for table in tables.values()):
            by = next(p for p in tables.values() if not p.is_raw).postprocessors
            raise ValueError(
                f"LatentClasses needs raw tables, got tables that were post-processed by "
                f"{' and '.join(by)}. Apply LatentClasses directly to the result of the "
                "MarginalOracle."
            )
        components = best_components(tables.sizes, tables.views)
        linear = linear_tables(tables, components)
        observed = _observed(tables, components)
        fit = ClassFit(
            _columns(tables, components),
            n_classes=int(self.n_classes),
            n_starts=int(self.n_mixtures),
            prior_precision=float(self.prior_precision),
            rng=as_generator(self.random_state),
        )
        # First with equal variances in each table, then with the variances that the model implies.
        fit.fit(_pair_tables(tables.sizes, observed, [table.variance for table in observed]))
        variances = [table.variances(fit.mixture) for table in observed]
        fit.fit(_pair_tables(tables.sizes, observed, variances))
        derivatives = _pair_derivatives(fit, tables.sizes, observed, variances)
        self.dependence_: float = _dependence(derivatives)
        self.mixture_: Any = fit.mixture.shrunk(self.dependence_)
        self.noise_index_: float = _noise_index(observed, tables.sizes)
        cells = {name: self.mixture_.table(columns) for name, columns in linear.columns_of.items()}
        if self.residual is not False:
            is_clear = self.noise_index_ <= _LITTLE_NOISE
            cells = _confirmed(
                linear,
                Consistent().fit_transform(tables),
                components,
                cells,
                [(pair, pair.divergence(self.dependence_)) for pair in derivatives],
                adds_residual=is_clear if isinstance(self.residual, str) else True,
            )
        estimates = {
            name: table.with_values([cells[name]], by="LatentClasses")
            for name, table in linear.items()
        }
        return TableSet(estimates, tables.domain, tables.views, self.mixture_)


@dataclass(frozen=True, eq=False)
class _Observed:
    """A noisy table of one or two columns to which the model is fitted, and its variance."""

    columns: Subset  # the columns
    values: np.ndarray  # (n_cells,): the cells in C order
    variance: float  # variance of a cell under uniform frequencies
    view: TableView | None  # the view of the table, if users were asked for exactly this table

    def variances(self, mixture: ClassMixture) -> np.ndarray | float:
        """Return the variances of the cells if the true frequencies are those of `mixture`.

        If the table was computed from larger tables, return one approximate variance of all cells.
        """
        if self.view is None:
            return self.variance
        return self.view.population_noise.variance(mixture.table(self.columns))


def _pair_tables(
    sizes: tuple[int, ...], observed: Sequence[_Observed], variances: Sequence[Any]
) -> PairTables:
    tables = PairTables(sizes)
    for table, variance in zip(observed, variances, strict=True):
        tables.add(table.columns, table.values, variance)
    return tables


@dataclass(frozen=True, eq=False)
class _PairDerivative:
    """The table of two columns in the model, and the derivatives of its cells.

    The derivative of a cell describes how much the fitted frequency changes if the observed
    frequency of the same cell changes. All frequencies are divided by the standard deviations of
    the observed cells.
    """

    table: _Observed
    scale: np.ndarray  # (n_cells,): standard deviations of the observed cells
    independent: np.ndarray  # (n_cells,): the product of the model's columns
    dependence: np.ndarray  # (n_cells,): the difference between the model and `independent`
    independent_divergence: float  # sum of the derivatives of `independent` over the cells
    dependence_divergence: float  # sum of the derivatives of `dependence` over the cells

    def divergence(self, factor: float) -> float:
        """Return the sum of the derivatives of all cells with respect to their observed values.

        factor: the factor by which the dependence between the columns is multiplied first.
        """
        return self.independent_divergence + factor * self.dependence_divergence


def _pair_derivatives(
    fit: ClassFit, sizes: tuple[int, ...], observed: Sequence[_Observed], variances: Sequence[Any]
) -> list[_PairDerivative]:
    """Return the model's tables of two columns with their numerical derivatives.

    The observed tables are changed by small random steps, and the model is fitted again.
    variances: the variances of the cells of each observed table.
    """
    # The risk estimate with these derivatives is due to C. Stein, "Estimation of the mean of a
    # multivariate normal distribution", Annals of Statistics 1981,
    # :doi:`10.1214/aos/1176345632`.
    scales = {  # standard deviations of the cells, by the position of the pair in `observed`
        i: np.sqrt(np.broadcast_to(variances[i], table.values.shape))
        for i, table in enumerate(observed)
        if len(table.columns) == 2
    }

    def in_units(mixture: ClassMixture) -> dict[int, np.ndarray]:
        """Return a dict with an array of shape (2, n_cells) for each observed pair of columns.

        The first row is the pair's table in a model with independent columns. The second row is the
        difference between the pair's table in `mixture` and the first row. Both rows are divided by
        the standard deviations of the observed cells.
        """
        independent = mixture.shrunk(0.0)
        parts = {}
        for i, scale in scales.items():
            base = independent.table(observed[i].columns)
            parts[i] = np.stack([base, mixture.table(observed[i].columns) - base]) / scale
        return parts

    before = in_units(fit.mixture)
    rng = np.random.default_rng(0)
    divergences = {i: np.zeros(2) for i in scales}
    n_cells = sum(len(scale) for scale in scales.values())
    n_steps = max(2, _MOVED_CELLS // max(n_cells, 1)) if scales else 0
    for _ in range(n_steps):
        moved = list(observed)
        steps = {i: rng.choice([-_STEP, _STEP], len(scale)) for i, scale in scales.items()}
        for i, scale in scales.items():
            moved[i] = replace(moved[i], values=moved[i].values + scale * steps[i])
        after = in_units(copy.copy(fit).fit(_pair_tables(sizes, moved, variances)).mixture)
        for i, step in steps.items():
            divergences[i] += (after[i] - before[i]) @ step / _STEP**2 / n_steps
    return [
        _PairDerivative(observed[i], scale, *before[i], *divergences[i])
        for i, scale in scales.items()
    ]


def _dependence(derivatives: Sequence[_PairDerivative]) -> float:
    """Return the factor in [0, 1] by which the dependence between columns is multiplied.

    The factor minimizes an unbiased estimate of the squared error of the tables.
    """
    # Stein's unbiased estimate of the error of the model's tables uses their residuals from the
    # observed tables, and their derivatives. It is a quadratic function of the factor.
    confirmed = 0.0
    possible = _MIN_SIGNAL
    for pair in derivatives:
        residual = pair.table.values / pair.scale - pair.independent
        confirmed += pair.dependence @ residual - _CAUTION * pair.dependence_divergence
        possible += pair.dependence @ pair.dependence
    return float(np.clip(confirmed / possible, 0, 1))


def _observed(tables: TableSet, components: Components) -> list[_Observed]:
    """Return the noisy tables of one and two columns to which the model is fitted.

    Tables of more columns are replaced by tables of two columns.
    components: the components of all tables, from which tables of two columns are computed.
    """
    sizes = tables.sizes
    views = tables.views
    if all(len(view.columns) <= 2 and not view.is_parity for view in views):
        observed = []
        for view in views:
            variance = view.total_variance / len(view.values) / float(view.noise.n_samples)
            observed.append(_Observed(view.columns, view.values, variance, view))
        return observed
    pairs = [*combinations(range(len(sizes)), 2)]
    pairs = [pair for pair in pairs if np.isfinite(components.squared_error(pair))]
    singles: list[Subset] = [(j,) for j in range(len(sizes)) if (j,) in components]
    known: list[Subset] = [*pairs] if pairs else singles
    rows = zip(known, components.tables(known), strict=True)
    observed = [_Observed(c, values, 1 / components.precision(c), None) for c, values in rows]
    # All pairs with a column contain the same estimate of this column. The sum of their
    # precisions differs from its precision. A table of the single column, possibly with a
    # negative precision, corrects the difference.
    for j, size in enumerate(sizes if pairs else ()):
        column_pairs = [pair for pair in pairs if j in pair]
        counted = sum(
            size / math.prod(sizes[i] for i in pair) * components.precision(pair)
            for pair in column_pairs
        )
        if column_pairs and (excess := components.precision((j,)) - counted):
            observed.append(_Observed((j,), components.tables([(j,)])[0], 1 / excess, None))
    return observed


def _noise_index(observed: list[_Observed], sizes: tuple[int, ...]) -> float:
    """Return the expected squared error of an observed table of two columns.

    The result is the mean over all pairs, or inf if there is no table of two columns. The method
    `TableRequest.noise_index` computes it for tables that users were asked for.
    """
    pairs = [table for table in observed if len(table.columns) == 2]
    if not pairs:
        return math.inf
    views = [pair.view for pair in pairs if pair.view is not None]
    if len(views) < len(pairs):
        return float(np.mean([pair.variance * len(pair.values) for pair in pairs]))
    # Tables with the same number of cells have the same oracle.
    total_variance = {len(view.values): view.total_variance for view in views}
    request = TableRequest(sizes, [pair.columns for pair in pairs], total_variance.__getitem__)
    return request.noise_index(sum(float(view.noise.n_samples) for view in views))


def _columns(tables: TableSet, components: Components) -> list[np.ndarray]:
    """Return the frequencies of each single column, estimated from all tables together.

    The frequencies are positive and sum to 1.
    """
    columns = []
    for j, domain in enumerate(tables.domain.columns.values()):
        precision = components.precision((j,))
        shrunk = np.full(domain.size, 1 / domain.size)
        if precision:
            shrink = EmpiricalBayes(noise=1 / math.sqrt(precision))
            (shrunk,) = shrink.fit_transform(components.tables([(j,)])[0][None])
        columns.append(positive(shrunk))
    return columns


def _confirmed(
    linear: TableSet,
    near: TableSet,
    components: Components,
    cells: dict[Any, np.ndarray],
    pairs: Iterable[tuple[_PairDerivative, float]],
    *,
    adds_residual: bool,
) -> dict[Any, np.ndarray]:
    """Return the model's tables after two corrections: their residuals, and a step.

    A table of two columns is moved towards its linear estimate, which adds a part of the residual,
    if `adds_residual` is True. Then it is moved towards its consistent estimate. An estimate of the
    squared error determines both distances. Finally all tables are made to agree again.
    linear, near: the linear estimates, and the consistent estimates without negative cells.
    cells: the tables of the model by name.
    pairs: the derivatives of each table of two columns, and the sum of its derivatives.
    """
    names = {columns: name for name, columns in linear.columns_of.items()}
    moved = {}
    variances = []
    is_changed = adds_residual
    for pair, divergence in pairs:
        columns = pair.table.columns
        if columns not in names:
            continue
        name = names[columns]
        table = cells[name]
        target = near.row(name)
        if adds_residual:
            table, divergence = _with_residual(pair, table, divergence, linear.row(name))
        n_cells = len(table)
        relative_error = components.squared_error(columns) / (pair.table.variance * n_cells)
        n_free = np.count_nonzero(target > _EMPTY) - 1
        target_divergence = min(relative_error, 1.0) * n_free
        step = _confirmed_step(pair, table, divergence, target, target_divergence)
        is_changed = is_changed or step > 0
        moved[name] = table + step * (target - table)
        variances.append(pair.table.variance)
    if not moved or not is_changed:
        return cells
    # Tables without reports of their own, or with more columns, must agree with the moved tables.
    others = [
        name
        for name, columns in linear.columns_of.items()
        if len(columns) > 1 and name not in moved
    ]
    moved |= {name: cells[name] for name in others}
    variances += [max(variances)] * len(others)
    agreed, _ = agreeing_cells(linear, moved, variances)
    return {**cells, **{name: np.maximum(table, 0) for name, table in agreed.items()}}


def _with_residual(
    pair: _PairDerivative, table: np.ndarray, divergence: float, linear: np.ndarray
) -> tuple[np.ndarray, float]:
    """Move a table of the model towards the unbiased linear estimate of this table.

    table, linear: the cells of the model's table and of the linear estimate. Each cell moves by a
    fraction of the difference, which is larger if the noise is smaller.
    divergence: the sum of the derivatives of the table's cells with respect to the observed cells.
    Returns: the new table, and the sum of its derivatives.
    """
    residual = linear - table
    variance = pair.scale**2
    # The expected squared residual of a cell is assumed to be proportional to its frequency.
    spread = np.sum((residual**2 - variance) * table / variance**2)
    spread /= np.sum(table**2 / variance**2)
    signal = max(float(spread), 0.0) * table
    weight = signal / (signal + variance)
    new_divergence = float(divergence * (1 - weight.mean()) + weight.sum())
    return norm_sub(table + residual * weight), new_divergence


def _confirmed_step(
    pair: _PairDerivative,
    table: np.ndarray,
    divergence: float,
    target: np.ndarray,
    target_divergence: float,
) -> float:
    """Return the fraction of the distance by which a table moves to its consistent estimate.

    The fraction is in [0, 1]. It minimizes an estimate of the squared error, minus one standard
    deviation. target: the consistent estimate. divergence, target_divergence: the sums of the
    derivatives of the cells of the table and of the target.
    """
    # The part minimizes Stein's unbiased risk estimate, as in `_dependence`. The noise of the
    # estimate has about the variance `length`. The part is reduced by one standard deviation.
    start = table / pair.scale
    way = target / pair.scale - start
    length = max(float(way @ way), _MIN_SIGNAL)
    confirmed = way @ (pair.table.values / pair.scale - start) + divergence - target_divergence
    return float(np.clip((confirmed - np.sqrt(length)) / length, 0, 1))
