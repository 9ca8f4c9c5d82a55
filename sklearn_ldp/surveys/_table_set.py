"""Tables of several columns: estimates that answer questions about users, and make rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .._estimate import ConfidenceInterval, FrequencyEstimate
from .._estimate_set import EstimateSet
from .._pandas import import_pandas
from .._random import RandomState, as_generator
from .._reordered_noise import ReorderedNoise
from .._typing import CategoryEncoder, DataFrame
from ..domains import RecordDomain
from ..domains._values import objects
from ..inference import WaldTest, independence
from ._class_mixture import ClassMixture, mixture_of_tables
from ._components import Subset
from ._rates import plain_rates, shrunken_rates
from ._views import TableView

Conjunction = Mapping[Any, Any]


class TableSet(EstimateSet):
    """Estimated tables of several columns of the same users.

    The name of a table is the tuple of its columns, in the order of the domains; that of a single
    column is the column itself. ``tables["b", "a"]`` is the transpose of ``tables["a", "b"]``.
    Post-processors take a set and return one, see :class:`~sklearn_ldp.EstimateSet`.

    Parameters
    ----------
    parts : mapping of names to FrequencyEstimate
        The tables.
    domain : RecordDomain
        The domains of all columns.
    views : sequence of TableView
        The independent estimates that the tables were made of.
    mixture : ClassMixture, default=None
        The joint model that the tables are from, if there is one.

    See Also
    --------
    MarginalOracle : Collects tables, and returns such a set.
    Consistent : Makes its tables agree with each other.
    LatentClasses : Fits a joint model, which is more accurate.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_ldp import Consistent, MarginalOracle
    >>> rng = np.random.default_rng(0)
    >>> smokes = rng.integers(0, 2, 50_000)
    >>> users = np.column_stack([smokes, rng.binomial(3, 0.3 + 0.3 * smokes)])
    >>> oracle = MarginalOracle(4.0, domains={"smokes": 2, "visits": 4}, random_state=0)
    >>> tables = make_pipeline(oracle, Consistent()).fit_transform(users)
    >>> tables.answer({"smokes": 1, "visits": [2, 3]}).round(2)
    array([[0.32]])
    >>> bool(tables.independence("smokes", "visits").p_value[0] < 0.001)
    True
    """

    def __init__(
        self,
        parts: Mapping[Any, FrequencyEstimate],
        domain: RecordDomain,
        views: Sequence[TableView],
        mixture: ClassMixture | None = None,
    ) -> None:
        super().__init__(parts)
        self.domain = domain
        self.views = tuple(views)
        self.mixture = mixture

    def with_parts(self, parts: Mapping[Any, FrequencyEstimate]) -> TableSet:
        return TableSet(parts, self.domain, self.views)

    with_parts.__doc__ = EstimateSet.with_parts.__doc__

    def of_shards(self, shards: Mapping[Any, np.ndarray]) -> TableSet:
        made = super().of_shards(shards)
        tables: dict[Subset, Any] = {self.columns_of[name]: made[name] for name in shards}
        views = []
        for view in self.views:
            table = tables.get(view.columns)
            if table is not None:
                view = replace(view, values=table.values[0], noise=table.noise)
            views.append(view)
        return TableSet(made, self.domain, views)

    of_shards.__doc__ = EstimateSet.of_shards.__doc__

    def __getitem__(self, name: Any) -> FrequencyEstimate:
        if name not in self._parts and isinstance(name, tuple):
            ordered = tuple(key for key in self.domain.columns if key in name)
            if ordered in self._parts and len(ordered) == len(name):
                return self._transposed(ordered, name)
        return super().__getitem__(name)

    def _transposed(self, name: tuple, wanted: tuple) -> FrequencyEstimate:
        """A table with its columns in another order."""
        table, axes = self._parts[name], [name.index(key) for key in wanted]
        shape = [self.domain.columns[key].size for key in name]
        order = np.arange(table.shape[1]).reshape(shape).transpose(axes).ravel()
        categories = [tuple(table.categories[i][a] for a in axes) for i in order.tolist()]
        noise, raw = table.noise, table.raw_values
        return replace(
            table,
            values=table.values[:, order],
            categories=objects(categories),
            noise=None if noise is None else ReorderedNoise(noise, order),
            raw_values=None if raw is None else raw[:, order],
            oracle=None,
            shards=None,
        )

    # -- what it is of ------------------------------------------------------------------------
    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each column."""
        return tuple(one.size for one in self.domain.columns.values())

    @cached_property
    def columns_of(self) -> dict[Any, Subset]:
        """The positions of the columns of each table, by its name."""
        places = {key: (j,) for j, key in enumerate(self.domain.columns)}
        return {
            name: places[name] if name in places else tuple(places[key][0] for key in name)
            for name in self
        }

    def row(self, name: Any) -> np.ndarray:
        """Return the cells of a table that has a single estimate.

        Parameters
        ----------
        name : str or tuple of str
            Name of the table.

        Returns
        -------
        ndarray of shape (n_cells,)
            The cells in C order.

        Raises
        ------
        ValueError
            If it has no users, or several estimates.
        """
        values = self[name].values
        if len(values) == 1:
            return values[0]
        what = f"{len(values)} estimates" if len(values) else "no users"
        raise ValueError(f"The table {name!r} must have one estimate for this, it has {what}.")

    def crosstab(self, rows: Any, columns: Any) -> DataFrame:
        """Return the table of two columns as a pandas DataFrame.

        Parameters
        ----------
        rows, columns : str
            The column whose categories are the rows, and the one whose categories are the columns.

        Returns
        -------
        pandas.DataFrame
            The frequencies of all combinations, which sum to 1, as
            ``pandas.crosstab(..., normalize=True)`` has them.

        Raises
        ------
        ValueError
            If there is no table of the two, or it has several estimates.
        """
        pd = import_pandas("TableSet.crosstab")
        pair = self._pair_name(rows, columns)
        index, others = (pd.Index(self.domain.columns[key].categories, name=key) for key in pair)
        cells = self.row(pair).reshape(len(index), len(others))
        table = pd.DataFrame(cells, index=index, columns=others)
        return table if pair[0] == rows else table.T

    # -- asking -------------------------------------------------------------------------------
    def answer(self, conjunction: Conjunction) -> np.ndarray:
        """Return the share of users for whom several conditions hold at once.

        Parameters
        ----------
        conjunction : mapping of str to category or list of categories
            For some columns, the category that users have, or those of which they have one.

        Returns
        -------
        ndarray of shape (n_estimates, 1)
            From the table with the least noise among those that have all the columns; from the
            joint model if there is no such table.

        Raises
        ------
        ValueError
            If a column or a category does not exist; or if no table has all the columns and there
            is no joint model.

        Examples
        --------
        ``tables.answer({"sex": "F", "age": [1, 2]}).item()``
        """
        codes = self._codes(conjunction)
        name = self._covering(codes)
        if name is None:
            assert self.mixture is not None
            return np.array([[self.mixture.conjunction(codes)]])
        return self[name].values @ self._row_of(name, codes)[:, None]

    def confidence_interval(
        self, conjunction: Conjunction, level: float = 0.95, *, of: str = "users"
    ) -> ConfidenceInterval:
        """Return a confidence interval of the answer to a conjunction.

        Parameters
        ----------
        conjunction : mapping of str to category or list of categories
            As for `answer`.
        level : float, default=0.95
            Probability that the interval covers the true answer.
        of : {"users", "population"}, default="users"
            Whom the interval is about.

        Returns
        -------
        ConfidenceInterval
            `low` and `high`, of shape (1, 1).

        Raises
        ------
        ValueError
            As for `answer`; or if no table has all the columns, or the tables are post-processed
            (``Consistent(non_negative=False)`` has intervals).
        """
        codes = self._codes(conjunction)
        name = self._covering(codes)
        if name is None:
            raise ValueError(
                "A joint model has no intervals: ask for the columns of one table, such as "
                f"{next(reversed(self._parts))!r}, in a set that is not post-processed."
            )
        return self[name].confidence_interval(level, self._row_of(name, codes)[None], of=of)

    def _codes(self, conjunction: Conjunction) -> dict[int, np.ndarray]:
        """The codes that are allowed, by the position of the column."""
        if not isinstance(conjunction, Mapping) or not conjunction:
            raise ValueError(
                "A conjunction is a mapping from columns to categories, such as {'sex': 'F', "
                f"'age': [1, 2]}}, got {conjunction!r}."
            )
        places = {key: j for j, key in enumerate(self.domain.columns)}
        codes = {}
        for key, wanted in conjunction.items():
            if key not in places:
                known = ", ".join(map(repr, places))
                raise ValueError(f"There is no column {key!r}; there are {known}.")
            listed = list(wanted) if isinstance(wanted, (list, np.ndarray, range)) else [wanted]
            if not listed:
                raise ValueError(f"The condition on {key!r} lists no category.")
            encoded = self.domain.columns[key].encode(listed, f"The condition on {key!r}")
            codes[places[key]] = np.unique(encoded)
        return codes

    def _covering(self, codes: dict[int, np.ndarray]) -> Any:
        """The name of the least noisy table that has these columns; None asks the model."""
        fitting = [
            name
            for name, columns in self.columns_of.items()
            if set(codes) <= set(columns) and len(self[name])
        ]
        if not fitting:
            if self.mixture is not None:
                return None
            asked = ", ".join(str(list(self.domain.columns)[j]) for j in codes)
            raise ValueError(
                f"No table has all of the columns {asked}: collect tables of order {len(codes)}, "
                "or fit LatentClasses(), whose joint model answers."
            )
        if len(fitting) == 1 or any(self[name].noise is None for name in fitting):
            return min(fitting, key=lambda name: self[name].shape[1])
        return min(fitting, key=lambda name: self._answer_variance(name, codes))

    def _answer_variance(self, name: Any, codes: dict[int, np.ndarray]) -> float:
        table = self[name]
        frequencies = np.maximum(table.values[0], 0)
        noise: Any = table.noise
        row = self._row_of(name, codes)[None]
        return float(np.ravel(noise.answer_variance(row, frequencies / frequencies.sum()))[0])

    def _row_of(self, name: Any, codes: dict[int, np.ndarray]) -> np.ndarray:
        """The query of a conjunction over the cells of a table."""
        row = np.ones(1)
        for j in self.columns_of[name]:
            allowed = np.ones(self.sizes[j])
            if j in codes:
                allowed[:] = 0
                allowed[codes[j]] = 1
            row = np.outer(row, allowed).ravel()
        return row

    def independence(self, first: Any, second: Any, *, of: str = "population") -> WaldTest:
        """Test whether two columns are independent, from their table.

        Parameters
        ----------
        first, second : str
            The columns.
        of : {"population", "users"}, default="population"
            Among whom, see :func:`~sklearn_ldp.inference.independence`.

        Returns
        -------
        WaldTest
            The statistic, its p-value and its degrees of freedom.

        Raises
        ------
        ValueError
            If there is no table of the two columns, or its noise is not known.
        """
        return independence(self.pair(first, second).as_raw(), of=of)

    def pair(self, first: Any, second: Any) -> FrequencyEstimate:
        """Return the table of two columns, whichever comes first in the domains.

        Parameters
        ----------
        first, second : str
            The columns.

        Returns
        -------
        FrequencyEstimate
            Their table; in its categories, the columns are in the order of the domains.

        Raises
        ------
        ValueError
            If there is no table of the two.
        """
        return self[self._pair_name(first, second)]

    def _pair_name(self, first: Any, second: Any) -> tuple:
        """The name of the table of two columns."""
        name = tuple(key for key in self.domain.columns if key in (first, second))
        if name not in self._parts:
            raise ValueError(
                f"There is no table of {first!r} and {second!r}; there are "
                f"{', '.join(map(repr, self._parts))}."
            )
        return name

    # -- features -----------------------------------------------------------------------------
    def encoder(
        self,
        columns: Sequence[Any] | None = None,
        *,
        target: Conjunction | None = None,
        smooth: bool = True,
        handle_unknown: str = "error",
        unknown_value: float | None = None,
    ) -> CategoryEncoder:
        """Return a transformer of categories into frequencies, or into rates of a target.

        Privacy: costs none.

        A rate is the share of users with the target among those with the category. Cells and
        margins are noisy, so that their ratio may be anything where a category is rare: rates are
        shrunken towards the overall rate by the noise of each category, as
        ``TargetEncoder(smooth="auto")`` does for raw values, and a category whose margin is not
        above its noise has about the overall rate. That needs the noise of the tables, which raw
        ones have, and those of ``Consistent(non_negative=False)``. Post-processed tables have
        plain ratios, clipped to [0, 1], and the overall rate where the margin is 0.

        Parameters
        ----------
        columns : sequence, default=None
            Without a target: the names of the tables to make columns of. With one: the columns to
            encode. None takes all tables; all columns that have a table together with the target.
        target : mapping of str to category or list of categories, default=None
            One column and the category, or categories, whose rate is asked for, such as
            ``{"income": ">50K"}``. None encodes by frequencies.
        smooth : bool, default=True
            Whether rates are shrunken, where the noise is known.
        handle_unknown : {"error", "use_encoded_value"}, default="error"
            What happens to missing values and to others that are no category.
        unknown_value : float, default=None
            What they become with ``handle_unknown="use_encoded_value"``; with a target, None stands
            for the overall rate.

        Returns
        -------
        FrequencyEncoder or RateEncoder
            Fitted, for any Pipeline on other data that has columns of these names.

        Raises
        ------
        ValueError
            If there is no table of a column and the target, or a table has no users or several
            estimates.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_ldp import MarginalOracle
        >>> rng = np.random.default_rng(0)
        >>> smokes = rng.integers(0, 2, 50_000)
        >>> users = np.column_stack([smokes, rng.random(50_000) < 0.1 + 0.3 * smokes])
        >>> oracle = MarginalOracle(
        ...     4.0, domains={"smokes": 2, "ill": [False, True]}, random_state=0
        ... )
        >>> encoder = oracle.fit_transform(users).encoder(target={"ill": True})
        >>> encoder.transform([[0], [1]]).round(1).ravel()
        array([0.1, 0.4])
        """
        if target is None:
            chosen = super().encoder(
                columns, handle_unknown=handle_unknown, unknown_value=unknown_value
            )
            return chosen
        from ..learning import RateEncoder

        rates, overall = self._rates(target, columns, smooth)
        return RateEncoder(
            rates, overall, handle_unknown=handle_unknown, unknown_value=unknown_value
        )

    def _rates(
        self, target: Conjunction, columns: Sequence[Any] | None, smooth: bool
    ) -> tuple[dict[Any, dict[Any, float]], float]:
        """The rates of a target by column and category, and among all."""
        codes = self._codes(target)
        if len(codes) > 1:
            raise ValueError(
                f"A target is one column and its category, such as {{'income': '>50K'}}, got "
                f"{target!r}."
            )
        ((at, of_target),) = codes.items()
        names = list(self.domain.columns)
        smallest = {
            j: min(
                (
                    name
                    for name, c in self.columns_of.items()
                    if {j, at} <= {*c} and len(self[name])
                ),
                key=lambda name: self[name].shape[1],
                default=None,
            )
            for j in range(len(names))
            if j != at
        }
        wanted = [j for j, name in smallest.items() if name is not None]
        if columns is not None:
            unknown = [key for key in columns if key not in names or names.index(key) == at]
            wanted = [names.index(key) for key in columns if key not in unknown]
            lacking = unknown or [names[j] for j in wanted if smallest[j] is None]
        else:
            lacking = [] if wanted else [names[j] for j in smallest]
        if lacking:
            raise ValueError(
                f"There is no table of {lacking[0]!r} and the target {names[at]!r}, which rates "
                f"are made from; there are {', '.join(map(repr, self._parts))}."
            )
        overall = float(np.clip(self.answer(target).item(), 0, 1))
        of_column = {}
        for j in wanted:
            rates = self._rates_of(smallest[j], j, at, of_target, overall, smooth)
            of_column[names[j]] = dict(
                zip(self.domain.joint([j]).categories.tolist(), rates.tolist(), strict=True)
            )
        return of_column, overall

    def _rates_of(
        self, name: Any, j: int, at: int, of_target: np.ndarray, overall: float, smooth: bool
    ) -> np.ndarray:
        """The rates of a target in the categories of the column at j, from a table."""
        places, cells, table = self.columns_of[name], self.row(name), self[name]
        axes = np.unravel_index(np.arange(len(cells)), [self.sizes[i] for i in places])
        category = axes[places.index(j)]
        is_target = np.isin(axes[places.index(at)], of_target)
        shape = (self.sizes[j], len(cells))
        margin = sparse.csr_array((np.ones(len(cells)), (category, np.arange(len(cells)))), shape)
        joint = margin @ sparse.diags_array(is_target.astype(float))
        noise = table.noise
        if not smooth or noise is None or not table.is_raw:
            return plain_rates(joint @ cells, margin @ cells, overall)
        frequencies = np.maximum(cells, 0)
        frequencies = frequencies / frequencies.sum()
        gap_variance, margin_variance = (
            np.ravel(noise.answer_variance(rows, frequencies))
            for rows in (joint - overall * margin, margin)
        )
        n_users = None if noise.n_users is None else float(np.ravel(noise.n_users)[0])
        return shrunken_rates(
            joint @ cells, margin @ cells, overall, gap_variance, margin_variance, n_users
        )

    # -- rows ---------------------------------------------------------------------------------
    def sample(self, n_rows: int, random_state: RandomState = None) -> DataFrame:
        """Draw synthetic users whose tables are those of this set, as nearly as a model can.

        Privacy: costs none. The rows are made from the estimates alone.

        The model is a mixture of classes of users in which columns are independent, fitted to the
        tables of the set. Where the tables are so noisy that no users could have them, the rows
        cannot have them, either.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        pandas.DataFrame
            One row per synthetic user, with the columns of the domains: numbers where the domain
            has numbers, otherwise categorical with the levels of the domain.

        Raises
        ------
        ValueError
            If `n_rows` is not a positive integer, or a table is negative somewhere.
        """
        pd = import_pandas("TableSet.sample")
        if not isinstance(n_rows, (int, np.integer)) or n_rows < 1:
            raise ValueError(f"TableSet.sample expects n_rows >= 1, got {n_rows!r}.")
        codes = self._fitted_mixture().sample(int(n_rows), as_generator(random_state))
        columns = {}
        for (key, domain), of_column in zip(self.domain.columns.items(), codes.T, strict=True):
            categories = domain.categories
            if categories.dtype.kind in "iufb":
                columns[key] = categories[of_column]
            else:
                columns[key] = pd.Categorical.from_codes(of_column, categories.tolist())
        return pd.DataFrame(columns)

    def _fitted_mixture(self) -> ClassMixture:
        """A mixture whose tables are those of this set."""
        negative = [name for name in self if self.row(name).min() < -1e-6]
        if negative:
            raise ValueError(
                f"TableSet.sample needs tables without negative cells, {negative[0]!r} has some: "
                "apply Consistent() or LatentClasses() first."
            )
        if not hasattr(self, "_sampled_from"):
            tables = {columns: self.row(name) for name, columns in self.columns_of.items()}
            self._sampled_from = mixture_of_tables(self.sizes, tables, self.mixture)
        return self._sampled_from

    def _heading(self) -> str:
        n_cells = sum(part.shape[1] for part in self.values())
        return f"TableSet of {len(self)} tables with {n_cells:,} cells"
