"""TableSet: a set of estimated tables, which answers queries and draws synthetic records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._core.common.locks import cached_property
from .._core.common.pandas import import_pandas
from .._core.common.random import RandomState, as_generator
from .._core.common.text import counted
from .._core.common.typing import DataFrame
from .._core.domains import RecordDomain
from .._core.domains.values import is_missing, objects
from .._core.estimates import EstimateSet, FrequencyEstimate
from .._core.statistics import ConfidenceInterval, WaldTest, independence
from ._class_mixture import ClassMixture, mixture_of_tables
from ._components import Subset
from ._views import TableView

Conjunction = Mapping[Any, Any]


class TableSet(EstimateSet, tag="table-set"):
    """A set of estimated tables about the same users.

    A table contains the frequency of each combination of some columns' categories. Each combination
    is a cell of the table. The name of a table is the tuple of its columns, in the order of the
    domains. The name of a table of a single column is the column itself. ``tables["b", "a"]`` is
    the transpose of ``tables["a", "b"]``. Post-processors accept a set and return a set, see
    :class:`~sklearn_ldp.EstimateSet`.

    Parameters
    ----------
    parts : mapping of names to FrequencyEstimate
        The tables, by name.
    domain : RecordDomain
        The categories of all columns.
    views : sequence of TableView
        The raw estimates from which the tables were computed. Each view comes from different users.
    mixture : ClassMixture, default=None
        The joint model of the tables, or None if there is none.

    See Also
    --------
    MarginalOracle : Estimates tables and returns a TableSet.
    Consistent : Makes the tables agree with each other.
    LatentClasses : Fits a joint model, whose tables are more accurate.

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

    domain: RecordDomain
    views: tuple[TableView, ...]
    mixture: ClassMixture | None

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

    def __check_state__(self) -> None:
        TableSet.__init__(self, self._parts, self.domain, self.views, self.mixture)
        for columns, table in zip(self.columns_of.values(), self.values(), strict=True):
            if table.shape[1] != np.prod([self.domain.sizes[j] for j in columns]):
                raise ValueError(
                    f"the table of the columns {columns} has {table.shape[1]} cells, which is not "
                    "the number of combinations of the columns' categories"
                )

    def with_parts(self, parts: Mapping[Any, FrequencyEstimate]) -> TableSet:
        return TableSet(parts, self.domain, self.views)

    with_parts.__doc__ = EstimateSet.with_parts.__doc__

    def of_shards(self, shards: Mapping[Any, np.ndarray]) -> TableSet:
        estimates = super().of_shards(shards)
        tables: dict[Subset, Any] = {self.columns_of[name]: estimates[name] for name in shards}
        views = []
        for view in self.views:
            table = tables.get(view.columns)
            if table is not None:
                view = replace(view, values=table.values[0], noise=table.noise)
            views.append(view)
        return TableSet(estimates, self.domain, views)

    of_shards.__doc__ = EstimateSet.of_shards.__doc__

    def __getitem__(self, name: Any) -> FrequencyEstimate:
        if name not in self._parts and isinstance(name, tuple):
            ordered = tuple(key for key in self.domain.columns if key in name)
            if ordered in self._parts and len(ordered) == len(name):
                return self._transposed(ordered, name)
        return super().__getitem__(name)

    def _transposed(self, name: tuple, wanted: tuple) -> FrequencyEstimate:
        """Return the table `name` with its columns in the order `wanted`."""
        table = self._parts[name]
        axes = [name.index(key) for key in wanted]
        shape = [self.domain.columns[key].size for key in name]
        order = np.arange(table.shape[1]).reshape(shape).transpose(axes).ravel()
        categories = [tuple(table.categories[i][a] for a in axes) for i in order.tolist()]
        changes: dict[str, Any] = {"values": table.values[:, order], "oracle": None, "shards": None}
        if table.noise is not None:
            changes["noise"] = table.noise.permuted(order)
        if table.raw_values is not None:
            changes["raw_values"] = table.raw_values[:, order]
        return replace(table, categories=objects(categories), **changes)

    # -- columns and cells --------------------------------------------------------------------
    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of categories of each column, in the order of the domains."""
        return self.domain.sizes

    @cached_property
    def columns_of(self) -> dict[Any, Subset]:
        """A dict from the name of each table to the positions of its columns."""
        places = {key: (j,) for j, key in enumerate(self.domain.columns)}
        return {
            name: places[name] if name in places else tuple(places[key][0] for key in name)
            for name in self
        }

    def row(self, name: Any) -> np.ndarray:
        """Return the cells of a table whose estimate has exactly one row.

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
            If the estimate has no rows because the table has no users, or if it has several rows.
        """
        values = self[name].values
        if len(values) == 1:
            return values[0]
        content = f"{len(values)} estimates" if len(values) else "none because it has no users"
        raise ValueError(
            f"The table {name!r} must have exactly one estimate, got {content}. If there are "
            "several, select one of them; if there is none, collect reports from more users."
        )

    def crosstab(self, rows: Any, columns: Any, normalize: str = "all") -> DataFrame:
        """Return the table of two columns as a pandas DataFrame.

        Parameters
        ----------
        rows, columns : str
            The column of the survey whose categories are the rows of the result, and the column
            whose categories are the columns of the result.
        normalize : {"all", "index", "columns"}, default="all"
            Which cells sum to 1, as in ``pandas.crosstab``. "all": all cells. "index": the cells of
            each row. "columns": the cells of each column. Rows and columns are divided by their
            estimated totals. The quotients are only accurate if these totals are large.

        Returns
        -------
        pandas.DataFrame
            The frequencies of all combinations among all users, or among the users of each row or
            of each column.

        Raises
        ------
        ValueError
            If `normalize` is not one of the three values, if there is no table of the two columns,
            if its estimate does not have exactly one row, or if the total of a row or column by
            which cells are divided is not positive.
        """
        if normalize not in ("all", "index", "columns"):
            expected = '"all", "index" or "columns"'
            raise ValueError(f"Argument normalize must be {expected}, got {normalize!r}.")
        pd = import_pandas("TableSet.crosstab")
        pair = self._pair_name(rows, columns)
        index, others = (pd.Index(self.domain.columns[key].labels, name=key) for key in pair)
        cells = self.row(pair).reshape(len(index), len(others))
        table = pd.DataFrame(cells, index=index, columns=others)
        table = table if pair[0] == rows else table.T
        if normalize == "all":
            return table
        by_row = normalize == "index"
        totals = table.sum(axis=int(by_row))
        _check_divisors(totals.to_numpy(), rows if by_row else columns)
        return table.div(totals, axis=int(not by_row))

    # -- queries ------------------------------------------------------------------------------
    def answer(self, conjunction: Conjunction, given: Conjunction | None = None) -> np.ndarray:
        """Return the estimated frequency of the users who satisfy several conditions.

        Parameters
        ----------
        conjunction : mapping of str to category or list of categories
            The conditions. The mapping contains, for each column with a condition, the allowed
            category or a list of allowed categories. A user must satisfy all conditions.
        given : mapping of str to category or list of categories, default=None
            Additional conditions, as for `conjunction`. If they are passed, the frequency is a
            proportion of the users who satisfy them. If None, it is a proportion of all users.

        Returns
        -------
        ndarray of shape (n_estimates, 1)
            The estimated frequency. If some tables contain all columns of the conditions, the
            frequency is computed from the table with the smallest noise among them. Otherwise it is
            computed from the joint model.

        Raises
        ------
        ValueError
            If a column or a category does not exist; if no table contains all columns and there is
            no joint model; or if the estimated frequency of the users who satisfy `given` is not
            positive.

        Examples
        --------
        The frequency of women of age group 1 or 2 among all users is
        ``tables.answer({"sex": "F", "age": [1, 2]}).item()``.

        The frequency of age group 1 or 2 among the women is
        ``tables.answer({"age": [1, 2]}, given={"sex": "F"}).item()``.
        """
        codes = self._codes(conjunction)
        if given is None:
            return self._share(self._covering(codes), codes)
        condition = self._codes(given)
        cell = {**condition, **codes}
        for j in set(condition) & set(codes):
            cell[j] = np.intersect1d(condition[j], codes[j])
        name = self._covering(cell)  # both frequencies are from the same table, so that they agree
        divisors = self._share(name, condition)
        _check_divisors(divisors, given)
        return self._share(name, cell) / divisors

    def _share(self, name: Any, codes: dict[int, np.ndarray]) -> np.ndarray:
        """Return the frequency of the users who satisfy conditions, of shape (n_estimates, 1).

        name: the table from which it is computed, or None to use the joint model.
        codes: the positions of the allowed categories, by the position of their column.
        """
        if name is None:
            assert self.mixture is not None
            return np.array([[self.mixture.conjunction(codes)]])
        return self[name].values @ self._row_of(name, codes)[:, None]

    def confidence_interval(
        self, level: float, conjunction: Conjunction, *, of: str = "users"
    ) -> ConfidenceInterval:
        """Return a confidence interval for the frequency of users who satisfy several conditions.

        Parameters
        ----------
        level : float
            Probability that the interval covers the true answer.
        conjunction : mapping of str to category or list of categories
            The conditions, as for :meth:`answer`.
        of : {"users", "population"}, default="users"
            Whether the interval refers to the frequency among the users, or to the frequency in the
            population of which the users are a sample. See :mod:`sklearn_ldp.inference`.

        Returns
        -------
        ConfidenceInterval
            `low` and `high`, of shape (1, 1).

        Raises
        ------
        ValueError
            If a column or a category does not exist; if no table contains all columns; or if the
            tables are post-processed, except by ``Consistent(non_negative=False)``.
        """
        codes = self._codes(conjunction)
        name = self._covering(codes)
        if name is None:
            raise ValueError(
                f"No table contains all columns of the conditions {conjunction!r}, and answers "
                "from a joint model have no intervals. Use the tables before post-processing, and "
                f"conditions on columns of one table, such as {next(reversed(self._parts))!r}."
            )
        return self[name].confidence_interval(level, self._row_of(name, codes)[None], of=of)

    def _codes(self, conjunction: Conjunction) -> dict[int, np.ndarray]:
        """Convert conditions to positions.

        conjunction: the conditions, as for `answer`. Returns: a dict from the position of each
        column with a condition to the positions of its allowed categories.
        """
        if not isinstance(conjunction, Mapping) or not conjunction:
            raise ValueError(
                "Conditions must be a nonempty mapping from columns to categories, got "
                f"{conjunction!r}. Pass a dict such as {{'sex': 0, 'age': [1, 2]}}."
            )
        places = {key: j for j, key in enumerate(self.domain.columns)}
        codes = {}
        for key, wanted in conjunction.items():
            if key not in places:
                columns = ", ".join(map(repr, places))
                raise ValueError(
                    f"The conditions contain the column {key!r}, which does not exist. Use the "
                    f"columns {columns}."
                )
            listed = list(wanted) if isinstance(wanted, (list, np.ndarray, range)) else [wanted]
            if not listed:
                raise ValueError(
                    f"The condition on the column {key!r} is an empty list. Pass at least one "
                    "allowed category."
                )
            encoded = self.domain.columns[key].encode(listed, f"The condition on {key!r}")
            codes[places[key]] = np.unique(encoded)
        return codes

    def _covering(self, codes: dict[int, np.ndarray]) -> Any:
        """Return the name of the table from which conditions are answered, or None for the model.

        It is the table with the smallest noise among the tables that contain all columns.
        codes: the positions of the allowed categories, by the position of their column.
        """
        fitting = [
            name
            for name, columns in self.columns_of.items()
            if set(codes) <= set(columns) and len(self[name])
        ]
        if not fitting:
            if self.mixture is not None:
                return None
            names = ", ".join(str(list(self.domain.columns)[j]) for j in codes)
            raise ValueError(
                f"No table contains all of the columns {names}. Apply LatentClasses(), which fits "
                f"a joint model of all columns, or collect tables with order={len(codes)}."
            )
        return min(fitting, key=self._noise_of)

    def _noise_of(self, name: Any) -> float:
        """Return the approximate squared error of the table with this name.

        If the noise of the table is unknown, return its number of cells, which is larger.
        """
        noise, n_cells = self[name].noise, self[name].shape[1]
        return n_cells * (1.0 if noise is None else float(np.mean(noise.std)) ** 2)

    def _row_of(self, name: Any, codes: dict[int, np.ndarray]) -> np.ndarray:
        """Return the query for the conditions: 1 for each cell that satisfies them, otherwise 0.

        The array has the shape (n_cells,). codes: the positions of the allowed categories, by the
        position of their column.
        """
        sizes = {j: self.sizes[j] for j in self.columns_of[name]}
        row = np.zeros(list(sizes.values()))
        row[np.ix_(*(codes.get(j, np.arange(size)) for j, size in sizes.items()))] = 1
        return row.ravel()

    def independence(self, first: Any, second: Any, *, of: str = "population") -> WaldTest:
        """Test whether two columns are independent, from their table.

        Parameters
        ----------
        first, second : str
            The columns.
        of : {"population", "users"}, default="population"
            Whether the test refers to the population of which the users are a sample, or only to
            the users. See :func:`~sklearn_ldp.inference.independence`.

        Returns
        -------
        WaldTest
            The statistic, its p-value and its degrees of freedom.

        Raises
        ------
        ValueError
            If there is no table of the two columns, or its noise is unknown.
        """
        return independence(self.pair(first, second).as_raw(), of=of)

    def pair(self, first: Any, second: Any) -> FrequencyEstimate:
        """Return the table of two columns, whose names may be passed in any order.

        Parameters
        ----------
        first, second : str
            The names of the columns.

        Returns
        -------
        FrequencyEstimate
            The table. Its categories are pairs of values, in the order of the columns in `domain`.

        Raises
        ------
        ValueError
            If there is no table of the two columns.
        """
        return self[self._pair_name(first, second)]

    def _pair_name(self, first: Any, second: Any) -> tuple:
        """Return the name of the table of two columns, or raise ValueError if there is none."""
        name = tuple(key for key in self.domain.columns if key in (first, second))
        if name not in self._parts:
            tables = ", ".join(map(repr, self._parts))
            raise ValueError(
                f"There is no table of the columns {first!r} and {second!r}. Use the columns of "
                f"one of the tables {tables}."
            )
        return name

    # -- rows ---------------------------------------------------------------------------------
    def sample(self, n_rows: int, random_state: RandomState = None) -> DataFrame:
        """Draw synthetic records from a model that is fitted to the tables of the set.

        Privacy: the method spends no epsilon, because it uses only the estimates.

        The model is a mixture of classes of users. Within each class, columns are independent. The
        tables of the synthetic records approximate the tables of the set. If the tables are so
        noisy that no group of users could have them, the tables of the records differ from them.

        Parameters
        ----------
        n_rows : int
            Number of records.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        pandas.DataFrame
            One row per synthetic user, with all columns of the survey. A column has numbers if its
            categories are numbers. Otherwise it has a pandas categorical dtype. A missing answer is
            a missing value.

        Raises
        ------
        ValueError
            If `n_rows` is not a positive integer, or if a table has a negative frequency.
        """
        pd = import_pandas("TableSet.sample")
        if not isinstance(n_rows, (int, np.integer)) or n_rows < 1:
            raise ValueError(
                f"TableSet.sample got n_rows={n_rows!r}. Pass the number of records as a positive "
                "integer."
            )
        negative = [name for name in self if self.row(name).min() < -1e-6]
        if negative:
            raise ValueError(
                f"TableSet.sample needs tables without negative frequencies, but the table "
                f"{negative[0]!r} has some. Apply Consistent() or LatentClasses() first."
            )
        if not hasattr(self, "_sampled_from"):
            tables = {columns: self.row(name) for name, columns in self.columns_of.items()}
            self._sampled_from = mixture_of_tables(self.sizes, tables, self.mixture)
        codes = self._sampled_from.sample(int(n_rows), as_generator(random_state))
        columns = {}
        for (key, domain), column_codes in zip(self.domain.columns.items(), codes.T, strict=True):
            categories = domain.categories
            if categories.dtype.kind in "iufb":
                columns[key] = categories[column_codes]
            else:
                is_level = ~np.array([is_missing(category) for category in categories.tolist()])
                # In pandas, the code of a missing value is -1.
                level_codes = np.where(is_level, np.cumsum(is_level) - 1, -1)
                levels = categories[is_level].tolist()
                columns[key] = pd.Categorical.from_codes(level_codes[column_codes], levels)
        return pd.DataFrame(columns)

    def _heading(self) -> str:
        n_cells = sum(table.shape[1] for table in self.values())
        is_product = self.mixture is not None and len(self.mixture.shares) == 1
        model = ", from a model with independent columns" if is_product else ""
        return f"TableSet of {counted(len(self), 'table')} with {n_cells:,} cells{model}"


def _check_divisors(frequencies: np.ndarray, condition: Any) -> None:
    """Raise ValueError if an estimated frequency by which others are divided is not positive.

    condition: the condition on the users whose frequency is the divisor, for the error message.
    """
    if not np.all(frequencies > 0):
        raise ValueError(
            f"The estimated frequency of the users with {condition!r} is {frequencies.min():.3g}, "
            "so frequencies among these users cannot be computed. Apply Consistent() or "
            "LatentClasses() first, or compute the frequency among all users."
        )
