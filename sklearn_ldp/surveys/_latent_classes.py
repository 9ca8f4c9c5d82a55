"""A joint model of all columns, fitted to noisy tables."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
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
from ._consistent import BaseTableProcessor, agreeing_cells, linear_tables
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
_LEAST_SIGNAL = 1e-6  # keeps a quotient finite where nothing was found


class LatentClasses(BaseTableProcessor):
    """Make tables better by a joint model of all columns, which also makes synthetic rows.

    The model is a mixture of a few classes of users. Within a class the columns are independent.
    The classes have a prior that pulls them together, and of the dependence that they find, the
    model keeps the part that an unbiased estimate of its error confirms: none of it where
    independent columns do better. All tables follow from the model: they have no negative cells and
    agree with each other. Where there is little noise, each table also takes a part of what the
    model leaves.

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
        tables have little noise.
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
    leaves is
    shrunk cell by cell, by a factor that is estimated for each table from the size of what is left
    in comparison with its noise. Measured in the notes on tables, with
    ``python -m benchmarks.accuracy.table_models``.

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
        self.dependence_: float = _dependence(fit, tables.sizes, observed, variances)
        self.mixture_: Any = fit.mixture.shrunk(self.dependence_)
        self.noise_index_: float = _noise_index(observed, tables.sizes)
        cells = {name: self.mixture_.table(columns) for name, columns in linear.columns_of.items()}
        is_clear = self.noise_index_ <= _LITTLE_NOISE
        takes_residual = is_clear if isinstance(self.residual, str) else self.residual
        if takes_residual:
            cells = _with_residuals(linear, cells, observed, self.mixture_)
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


def _dependence(
    fit: ClassFit, sizes: tuple[int, ...], observed: Sequence[_Observed], variances: Sequence[Any]
) -> float:
    """How much of the dependence that a model found the tables confirm, in [0, 1]."""
    # The error of the model's tables is estimated without bias from what they leave of the
    # observed ones, and from how far they follow when these move a little (C. Stein,
    # "Estimation of the mean of a multivariate normal distribution", Annals of Statistics 1981,
    # :doi:`10.1214/aos/1176345632`). Between independence and the model it is a parabola.
    places = [i for i, one in enumerate(observed) if len(one.columns) == 2]
    pairs = {i: np.sqrt(np.broadcast_to(variances[i], observed[i].values.shape)) for i in places}
    if not pairs:
        return 0.0

    def beyond(mixture: ClassMixture) -> np.ndarray:
        """The dependence in the model's pairs, in units of the noise."""
        without, columns = mixture.shrunk(0.0), {i: observed[i].columns for i in pairs}
        left = {i: mixture.table(own) - without.table(own) for i, own in columns.items()}
        return np.concatenate([left[i] / s for i, s in pairs.items()])

    mixture, found = fit.mixture, beyond(fit.mixture)
    left = [(observed[i].values - mixture.table(observed[i].columns)) / s for i, s in pairs.items()]
    rng, follows = np.random.default_rng(0), 0.0
    n_steps = max(2, _MOVED_CELLS // len(found))
    for _ in range(n_steps):
        steps, moved = [], list(observed)
        for i, scale in pairs.items():
            steps.append(rng.choice([-_STEP, _STEP], len(scale)))
            moved[i] = replace(moved[i], values=moved[i].values + scale * steps[-1])
        refit = copy.copy(fit).fit(_side_by_side(sizes, moved, variances))
        follows += np.concatenate(steps) @ (beyond(refit.mixture) - found) / _STEP**2 / n_steps
    confirmed = found @ (found + np.concatenate(left)) - _CAUTION * follows
    return float(np.clip(confirmed / max(found @ found, _LEAST_SIGNAL), 0, 1))


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


def _with_residuals(
    linear: TableSet, cells: dict[Any, np.ndarray], observed: list[_Observed], mixture: ClassMixture
) -> dict[Any, np.ndarray]:
    """The model's tables, each with its part of what they leave of the linear ones."""
    by_columns = {one.columns: one for one in observed}
    made, variances = {}, []
    for name, of_table in linear.columns_of.items():
        one = by_columns.get(of_table)
        if one is None or len(of_table) < 2:
            continue
        f, variance = cells[name], np.broadcast_to(one.variances(mixture), cells[name].shape)
        left = linear.row(name) - f
        # What is left of a cell is taken to be proportional to its frequency, squared on average.
        spread = np.sum((left**2 - variance) * f / variance**2) / np.sum(f**2 / variance**2)
        signal = max(float(spread), 0.0) * f
        made[name] = norm_sub(f + left * signal / (signal + variance))
        variances.append(one.variance)
    if not made:
        return cells
    agreed, _ = agreeing_cells(linear, made, variances)
    return {**cells, **{name: np.maximum(own, 0) for name, own in agreed.items()}}
