"""A joint model of all columns, fitted to noisy tables."""

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

from .._core.numerics.simplex import norm_sub
from .._core.support.random import RandomState, as_generator
from ..postprocessing import EmpiricalBayes
from ._class_mixture import ClassFit, ClassMixture, PairTables, positive
from ._components import Components, Subset
from ._consistent import BaseTableProcessor, Consistent, agreeing_cells, linear_tables
from ._plan import TableRequest
from ._table_set import TableSet
from ._views import TableView, best_components

# Below this expected squared error of a table, what the model leaves of the tables is worth
# looking at. Chosen on flights, incomes and diamonds, which benchmarks/accuracy/_real_tables.py
# writes.
_LITTLE_NOISE = 0.03

# How far tables are moved to see how the model follows, in units of their noise; how many cells at
# least, over all times; and by what its following counts: it follows more than small steps show.
# Chosen on the same data.
_STEP, _MOVED_CELLS, _CAUTION = 0.1, 600, 1.4
_EMPTY = 1e-5  # frequencies below it are taken for those that Consistent lifts to 0
_LEAST_SIGNAL = 1e-6  # keeps a quotient finite where nothing was found


class LatentClasses(BaseTableProcessor):
    """Make tables better by a joint model of all columns, which also makes synthetic rows.

    The model is a mixture of a few classes of users. Within a class the columns are independent.
    The classes have a prior that pulls them together, and of the dependence that they find, the
    model keeps the part that an unbiased estimate of its error confirms: none of it where
    independent columns do better. All tables follow from the model: they have no negative cells and
    agree with each other. Each table also takes a part of what the model leaves, where there is
    little noise or the reports confirm it.

    This is more accurate than :class:`~sklearn_ldp.Consistent` unless there is next to no noise.
    It makes synthetic rows (:meth:`TableSet.sample`), answers questions about more columns than any
    table has, and needs memory for the categories of all columns, not for their combinations.

    Parameters
    ----------
    n_classes : int, default=8
        Number of classes of a mixture.
    n_mixtures : int, default=3
        Number of mixtures, fitted from different starts. The result is their mean.
    prior_precision : float, default=1.0
        Inverse of the variance of the normal prior of the log odds of a category in a class, around
        those in its column. Larger values make columns more independent.
    residual : "auto" or bool, default="auto"
        Whether each table takes a part of what the model leaves of it. "auto" does so where the
        tables have little noise, or an unbiased estimate of the error confirms it. False leaves
        the tables of the model.
    random_state : int, RandomState, Generator or None, default=0
        The starts. The default gives the same model for the same tables each time.

    Attributes
    ----------
    estimate_ : TableSet
        The tables of the model, and those of all single columns.
    mixture_ : ClassMixture
        The model: ``shares`` of shape (n,), and for each column in ``columns`` the frequencies in
        the classes, of shape (k, n). There are ``n_mixtures * n_classes`` of them; one more, of
        users who are as they are on average, where a part of the dependence is kept; and that one
        alone if columns are independent.
    dependence_ : float
        The part of the dependence that was kept, in [0, 1]; 0 makes columns independent, and the
        estimate's representation says so.
    noise_index_ : float
        Expected squared error of a table of two columns without any model.
    n_features_in_ : int
        Number of categories, if a plain estimate was fitted.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if a plain estimate was fitted and has any.

    See Also
    --------
    Consistent : Linear, unbiased and with intervals.

    Notes
    -----
    Unpublished. The columns are estimated from all tables (generalised least squares) and by
    :class:`~sklearn_ldp.EmpiricalBayes`. The model is fitted by least squares, weighted by the
    variances of the cells; then once more with the variances that it implies. Its dependence is
    shrunk towards the product of its columns by Stein's unbiased estimate of the error. What it
    leaves is shrunk cell by cell, by a factor that is estimated for each table from the size of
    what is left in comparison with its noise. Then each table moves towards that of
    :class:`~sklearn_ldp.Consistent`, as far as Stein's estimate of the error confirms it, less one
    standard deviation: a few classes cannot show that two columns are equal. Measured in the notes
    on tables, with ``python -m benchmarks.accuracy.table_models``.

    The model sees tables of one and of two columns; those of more columns are reduced to pairs.

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
                f"LatentClasses needs raw tables, got tables after {' and '.join(by)}: put it "
                "directly behind the MarginalOracle."
            )
        components = best_components(tables.sizes, tables.views)
        linear = linear_tables(tables, components)
        observed = _observed(tables, components)
        sizes = int(self.n_classes), int(self.n_mixtures), float(self.prior_precision)
        fit = ClassFit(_columns(tables, components), *sizes, as_generator(self.random_state))
        # With equal variances in each table first, then with those that the model implies.
        fit.fit(_side_by_side(tables.sizes, observed, [one.variance for one in observed]))
        variances = [one.variances(fit.mixture) for one in observed]
        fit.fit(_side_by_side(tables.sizes, observed, variances))
        derivatives = _pair_derivatives(fit, tables.sizes, observed, variances)
        self.dependence_: float = _dependence(derivatives)
        self.mixture_: Any = fit.mixture.shrunk(self.dependence_)
        self.noise_index_: float = _noise_index(observed, tables.sizes)
        cells = {name: self.mixture_.table(columns) for name, columns in linear.columns_of.items()}
        if self.residual is not False:
            is_clear = self.noise_index_ <= _LITTLE_NOISE
            takes_residual = is_clear if isinstance(self.residual, str) else True
            follows = [one.of_independent + self.dependence_ * one.of_beyond for one in derivatives]
            near = Consistent().fit_transform(tables)
            pairs = zip(derivatives, follows, strict=True)
            cells = _confirmed(linear, near, components, cells, pairs, takes_residual)
        named = linear.items()
        made = {name: one.with_values([cells[name]], by="LatentClasses") for name, one in named}
        return TableSet(made, tables.domain, tables.views, self.mixture_)


@dataclass(frozen=True, eq=False)
class _Observed:
    """A noisy table of one column or of two, with the variances of its cells."""

    columns: Subset  # the columns
    values: np.ndarray  # (n_cells,): the cells in C order
    variance: float  # variance of a cell, before anything is known of its frequency
    view: TableView | None  # what it is from, if users were asked for this very table

    def variances(self, mixture: ClassMixture) -> np.ndarray | float:
        """The variances of the cells if their frequencies are those of the model."""
        if self.view is None:
            return self.variance
        return self.view.of_draw.variance(mixture.table(self.columns))


def _side_by_side(
    sizes: tuple[int, ...], observed: Sequence[_Observed], variances: Sequence[Any]
) -> PairTables:
    tables = PairTables(sizes)
    for one, variance in zip(observed, variances, strict=True):
        tables.add(one.columns, one.values, variance)
    return tables


@dataclass(frozen=True, eq=False)
class _PairDerivative:
    """Cells of a pair of columns in the model, and their derivatives by the observed cells."""

    # All cells are in units of their noise, and the numbers are sums over the cells.
    table: _Observed
    scale: np.ndarray  # (n_cells,): standard deviations of the observed cells
    independent: np.ndarray  # (n_cells,): the product of the model's columns
    beyond: np.ndarray  # (n_cells,): the dependence that the model adds
    of_independent: float  # sum of the derivatives of `independent`
    of_beyond: float  # sum of the derivatives of `beyond`


def _pair_derivatives(
    fit: ClassFit, sizes: tuple[int, ...], observed: Sequence[_Observed], variances: Sequence[Any]
) -> list[_PairDerivative]:
    """Return the derivatives of the fitted pairs, from small steps of the observed tables."""
    # The derivatives are those of C. Stein, "Estimation of the mean of a multivariate normal
    # distribution", Annals of Statistics 1981, :doi:`10.1214/aos/1176345632`.
    places = [i for i, one in enumerate(observed) if len(one.columns) == 2]
    pairs = {i: np.sqrt(np.broadcast_to(variances[i], observed[i].values.shape)) for i in places}

    def in_units(mixture: ClassMixture) -> dict[int, np.ndarray]:
        """Each pair's cells with independent columns, and the model's dependence: (2, n_cells)."""
        without, columns = mixture.shrunk(0.0), {i: observed[i].columns for i in pairs}
        made = {
            i: np.stack([m.table(own) for m in (without, mixture)]) for i, own in columns.items()
        }
        return {i: np.stack([made[i][0], made[i][1] - made[i][0]]) / s for i, s in pairs.items()}

    before = in_units(fit.mixture)
    rng = np.random.default_rng(0)
    follows = {i: np.zeros(2) for i in pairs}
    n_cells = sum(len(scale) for scale in pairs.values())
    n_steps = max(2, _MOVED_CELLS // max(n_cells, 1)) if pairs else 0
    for _ in range(n_steps):
        moved = list(observed)
        steps = {i: rng.choice([-_STEP, _STEP], len(scale)) for i, scale in pairs.items()}
        for i, scale in pairs.items():
            moved[i] = replace(moved[i], values=moved[i].values + scale * steps[i])
        after = in_units(copy.copy(fit).fit(_side_by_side(sizes, moved, variances)).mixture)
        for i, step in steps.items():
            follows[i] += (after[i] - before[i]) @ step / _STEP**2 / n_steps
    return [_PairDerivative(observed[i], s, *before[i], *follows[i]) for i, s in pairs.items()]


def _dependence(derivatives: Sequence[_PairDerivative]) -> float:
    """How much of the dependence that a model found the tables confirm, in [0, 1]."""
    # The error of the model's tables is estimated without bias from what they leave of the
    # observed ones, and from how far they follow when these move a little. Between independence
    # and the model it is a parabola.
    confirmed, possible = 0.0, _LEAST_SIGNAL
    for pair in derivatives:
        left = pair.table.values / pair.scale - pair.independent
        confirmed += pair.beyond @ left - _CAUTION * pair.of_beyond
        possible += pair.beyond @ pair.beyond
    return float(np.clip(confirmed / possible, 0, 1))


def _observed(tables: TableSet, components: Components) -> list[_Observed]:
    """The tables that a model is fitted to: what users said, or pairs that follow from it."""
    sizes, views = tables.sizes, tables.views
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
    # All pairs of a column say the same of it, with another precision than they have of the pair:
    # what is too much in their sum is taken away again.
    for j, size in enumerate(sizes if pairs else ()):
        of_pairs = [pair for pair in pairs if j in pair]
        shares = [size / math.prod(sizes[i] for i in pair) for pair in of_pairs]
        counted = sum(s * components.precision(p) for s, p in zip(shares, of_pairs, strict=True))
        if of_pairs and (excess := components.precision((j,)) - counted):
            observed.append(_Observed((j,), components.tables([(j,)])[0], 1 / excess, None))
    return observed


def _noise_index(observed: list[_Observed], sizes: tuple[int, ...]) -> float:
    """The expected squared error of the tables of two columns, see `noise_index`."""
    pairs = [one for one in observed if len(one.columns) == 2]
    if not pairs:
        return math.inf
    views = [one.view for one in pairs if one.view is not None]
    if len(views) < len(pairs):
        return float(np.mean([pair.variance * len(pair.values) for pair in pairs]))
    # Tables with as many cells are reported by the same oracle.
    total_variance = {len(view.values): view.total_variance for view in views}
    request = TableRequest(sizes, [one.columns for one in pairs], total_variance.__getitem__)
    return request.noise_index(sum(float(view.noise.n_samples) for view in views))


def _columns(tables: TableSet, components: Components) -> list[np.ndarray]:
    """The frequencies of each column, as well as all tables together tell them."""
    columns = []
    for j, domain in enumerate(tables.domain.columns.values()):
        precision, shrunk = components.precision((j,)), np.full(domain.size, 1 / domain.size)
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
    takes_residual: bool,
) -> dict[Any, np.ndarray]:
    """The model's tables, each with the part of the linear and consistent ones that it deserves."""
    names = {columns: name for name, columns in linear.columns_of.items()}
    made, variances, is_changed = {}, [], takes_residual
    for pair, follows in pairs:
        columns = pair.table.columns
        if columns not in names:
            continue
        name = names[columns]
        own, target = cells[name], near.row(name)
        if takes_residual:
            own, follows = _with_residual(pair, own, follows, linear.row(name))
        n_cells = len(own)
        known = components.squared_error(columns) / (pair.table.variance * n_cells)
        n_free = np.count_nonzero(target > _EMPTY) - 1
        part = _part(pair, own, follows, target, min(known, 1.0) * n_free)
        is_changed = is_changed or part > 0
        made[name] = own + part * (target - own)
        variances.append(pair.table.variance)
    if not made or not is_changed:
        return cells
    # Tables that nobody reported, or of more columns, have to agree with those that moved.
    others = [name for name, own in linear.columns_of.items() if len(own) > 1 and name not in made]
    made |= {name: cells[name] for name in others}
    variances += [max(variances)] * len(others)
    agreed, _ = agreeing_cells(linear, made, variances)
    return {**cells, **{name: np.maximum(own, 0) for name, own in agreed.items()}}


def _with_residual(
    pair: _PairDerivative, own: np.ndarray, follows: float, linear: np.ndarray
) -> tuple[np.ndarray, float]:
    """A table with its part of what it leaves of the linear one, and how far it then follows."""
    left, variance = linear - own, pair.scale**2
    # What is left of a cell is taken to be proportional to its frequency, squared on average.
    spread = np.sum((left**2 - variance) * own / variance**2) / np.sum(own**2 / variance**2)
    signal = max(float(spread), 0.0) * own
    part = signal / (signal + variance)
    return norm_sub(own + left * part), float(follows * (1 - part.mean()) + part.sum())


def _part(
    pair: _PairDerivative, own: np.ndarray, follows: float, target: np.ndarray, of_target: float
) -> float:
    """How far a table should move to the nearest consistent one, in [0, 1]."""
    # follows, of_target: sums of the derivatives of both tables. The error between both is
    # estimated without bias, as that of the dependence is. The noise of the estimate has about
    # the variance `length`; the part is smaller by one standard deviation.
    base, end = own / pair.scale, target / pair.scale
    way = end - base
    length = max(float(way @ way), _LEAST_SIGNAL)
    confirmed = way @ (pair.table.values / pair.scale - base) + follows - of_target
    return float(np.clip((confirmed - np.sqrt(length)) / length, 0, 1))
