"""All tables of a few columns each, from one report per user."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.domains import RecordDomain
from .._core.lifecycle import Collected, inherit_survey_parameters
from .._core.mechanisms import check_counts
from .._core.mechanisms.several import Several, View
from .._core.support.random import RandomState
from ..oracles import GRR, BaseOracle, SubsetSelection
from ._base import BaseColumnSurvey, PlannedEstimate, best_of_size, counts_in_views, table_name
from ._components import Subset
from ._plan import (
    MAX_RISK,
    TablePlan,
    TableRequest,
    best_plans,
    column_share,
    table_cells,
)
from ._table_set import TableSet
from ._views import TableView, best_components, combined_tables

_MAX_CELLS = 10**6  # of a table
_MAX_UNTOLD = 0.01  # the share of the tables that nobody is expected to tell about


@inherit_survey_parameters
class MarginalOracle(BaseColumnSurvey[TableSet], tag="marginal-oracle"):
    """Estimate the tables of all pairs of columns, or of other sets of columns.

    A table (a marginal of the joint distribution) has the frequencies of all combinations of the
    categories of a few columns. Each user reports once, with the whole budget, and all reports tell
    about all tables. How they are asked depends on the columns and on epsilon:

    - "split": they draw one of the tables asked for, and report their cell in it. Or the users are
      split among larger tables, from each of which several of those asked for follow.
    - "fourier": for binary columns, they draw a set of columns and report the parity of their
      values
      in them. Tables are made of these parities (their Fourier coefficients).
    - "joint": they report their combination of all columns, where there are not many.

    The raw tables are unbiased, with intervals; one that nobody happens to tell about, where fewer
    users come than were expected, has no rows. Tables that share columns do not agree with each
    other exactly, and have negative cells: put :class:`~sklearn_ldp.LatentClasses` behind it for
    the most accurate tables and for synthetic rows, or :class:`~sklearn_ldp.Consistent` for tables
    that agree.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user, for their whole record; all that is done with reports is free. What a user was asked is
    public.

    Parameters
    ----------
    %(domains)s
    order : int or list of tuple of str, default=2
        Number of columns of a table; all such tables are asked for. A list names the columns of
        each table.
    method : {"auto", "split", "fourier", "joint"}, default="auto"
        How users are asked. "auto" takes the least expected squared error, which is known in closed
        form before any user is asked: see :func:`~sklearn_ldp.surveys.compare_methods`. "split"
        splits the users among the tables asked for. "fourier" needs binary columns.
    oracle : "best" or oracle, default="best"
        How a table is reported. "best" is :func:`~sklearn_ldp.best_oracle` for its cells; of an
        oracle, `epsilon` and `categories` are set.
    weights : mapping of str or tuple of str to float, default=None
        How much the errors of each table count, > 0; tables left out have weight 1. A column stands
        for all tables with it, so that ``weights={"income": 100}`` is for a model of incomes. None
        counts all tables alike.
    column_share : "auto" or float, default="auto"
        Share of users who are asked for a single column, in [0, 1), where users are split among
        tables of two columns or more that are asked for. They make the model more accurate where
        tables are noisy. "auto" goes by the expected noise of the tables.
    expected_n_users : int, default=100_000
        About how many users there will be, for ``method="auto"`` and ``column_share="auto"``. It is
        a public number that clients and servers share, like the domains, and is never taken from
        the data. So few users that some tables would have nobody are refused before any is asked.
    %(collection)s

    Attributes
    ----------
    estimate_ : TableSet
        The raw tables, by the names of their columns.
    frequencies_ : dict of tuple of str to ndarray of shape (n_cells,)
        The cells of each table, in C order; some may be negative.
    method_ : {"split", "fourier", "joint"}
        How users were asked.
    views_ : list of tuple of str
        The columns that a user may be asked about.
    sampling_probabilities_ : ndarray of shape (n_views,)
        Probability of each of them.
    n_samples_seen_ : int
        Number of users.
    %(features)s

    See Also
    --------
    Consistent : Makes the tables agree with each other.
    LatentClasses : Fits a joint model to them.
    ColumnOracle : Estimates each column alone, with less noise.

    Notes
    -----
    What tables cost grows fast with their number and their cells. Where they are so noisy that
    nothing beats the assumption that columns are independent, the model falls back to it
    (``dependence_`` is 0); then a :class:`~sklearn_ldp.ColumnOracle` is at least as good.

    References
    ----------
    .. [1] G. Cormode, T. Kulkarni, D. Srivastava, "Marginal release under local differential
       privacy", SIGMOD 2018, :doi:`10.1145/3183713.3196906`.
    .. [2] Z. Zhang, T. Wang, N. Li, S. He, J. Chen, "CALM: Consistent adaptive local marginal for
       marginal release under local differential privacy", CCS 2018,
       :doi:`10.1145/3243734.3243742`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_ldp import LatentClasses, MarginalOracle
    >>> rng = np.random.default_rng(0)
    >>> smokes = rng.integers(0, 2, 50_000)
    >>> users = np.column_stack([smokes, rng.binomial(3, 0.3 + 0.3 * smokes)])
    >>> oracle = MarginalOracle(4.0, domains={"smokes": 2, "visits": 4}, random_state=0)
    >>> tables = make_pipeline(oracle, LatentClasses()).fit_transform(users)
    >>> tables["smokes", "visits"].values.reshape(2, 4).round(2)
    array([[0.17, 0.22, 0.09, 0.02],
           [0.03, 0.14, 0.21, 0.11]])
    >>> tables.sample(1000, random_state=0).columns.tolist()
    ['smokes', 'visits']

    Only some tables, or all of them with more users for those with "ill":

    >>> domains = {"smokes": 2, "visits": 4, "ill": 2}
    >>> MarginalOracle(4.0, domains=domains, order=[("smokes", "ill")]).fit([[0, 0, 0]]).views_
    [('smokes', 'ill')]
    >>> oracle = MarginalOracle(1.0, domains=domains, weights={"ill": 100}).fit([[0, 0, 0]])
    >>> dict(zip(oracle.views_, oracle.sampling_probabilities_.round(2).tolist()))
    {('smokes', 'visits'): 0.05, ('smokes', 'ill'): 0.4, ('visits', 'ill'): 0.54}
    """

    _parameter_constraints: dict = {
        **BaseColumnSurvey._parameter_constraints,
        "order": [Interval(Integral, 1, None, closed="left"), list, tuple],
        "method": [StrOptions({"auto", "split", "fourier", "joint"})],
        "oracle": [StrOptions({"best"}), BaseOracle],
        "weights": [None, Mapping],
        "column_share": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="left")],
        "expected_n_users": [Interval(Integral, 1, None, closed="left")],
    }

    _estimates_groups = False

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        domains: Any = "auto",
        order: int | Sequence[tuple[Any, ...]] = 2,
        method: str = "auto",
        oracle: Any = "best",
        weights: Mapping[Any, float] | None = None,
        column_share: str | float = "auto",
        expected_n_users: int = 100_000,
        input: str = "values",
        n_shards: int = 10,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self._store(epsilon, domains, input, n_shards, random_state, n_jobs)
        self.order = order
        self.method = method
        self.oracle = oracle
        self.weights = weights
        self.column_share = column_share
        self.expected_n_users = expected_n_users

    # -- hooks of the collection --------------------------------------------------------------
    def _make_mechanism(self, domain: RecordDomain) -> Several:
        request, channel = self._request(domain)
        plan, sizes = self._plan(domain, request), domain.sizes
        if plan.method == "fourier":
            views = [View.parity(columns) for columns in plan.views]
        else:
            views = [View.joint(c, [sizes[j] for j in c]) for c in plan.views]
        of_views = [channel(view.n_values) for view in views]
        return Several.drawn(of_views, plan.probabilities, views=views)

    def _oracles_behind(
        self, domain: RecordDomain, views: Mapping[Any, View]
    ) -> dict[Any, BaseOracle]:
        """The oracle of each table that users are asked about."""
        joint = {name: domain.joint(v.columns) for name, v in views.items() if not v.is_parity}
        return {name: self._oracle_of(self.oracle, one, name) for name, one in joint.items()}

    def _weights_by_name(self, domain: RecordDomain) -> dict[Any, float]:
        weights = self._weights(domain).items()
        return {table_name(domain, columns): weight for columns, weight in weights}

    def _request(self, domain: RecordDomain) -> tuple[TableRequest, Callable[[int], Any]]:
        """The tables asked for, and the channel over a number of cells."""
        oracle = self.oracle if isinstance(self.oracle, BaseOracle) else None

        @cache
        def channel(size: int) -> Any:
            if oracle is None:
                return best_of_size(self.epsilon, size).channel()
            return clone(oracle).set_params(epsilon=self.epsilon, input="values").channel(size)

        @cache
        def total_variance(size: int) -> float:
            if oracle is not None:
                return float(self._total_variances([channel(size)])[0])
            # One of them has the least total variance of all.
            best = (kind(self.epsilon).channel(size) for kind in (GRR, SubsetSelection))
            return float(np.min(self._total_variances(best)))

        weights, n_users = self._weights(domain), self.expected_n_users
        tables, of_tables = [*weights], [*weights.values()]
        return TableRequest(domain.sizes, tables, total_variance, of_tables, n_users), channel

    def _plan(self, domain: RecordDomain, request: TableRequest) -> TablePlan:
        """How users are asked."""
        sizes, tables, n_users = request.sizes, request.tables, self.expected_n_users
        if self.method == "fourier" and set(sizes) != {2}:
            raise ValueError(
                f'{self._name} with method="fourier" needs binary columns, got columns of '
                f'{max(sizes)} categories: use method="split" or "auto".'
            )
        if self.method == "joint":
            self._check_cells(domain, tuple(range(len(sizes))), 'method="split"')
        # A request has a method for each of the others.
        plan = best_plans(request)[0] if self.method == "auto" else getattr(request, self.method)()
        if plan.views == tables and min(map(len, tables)) > 1 and plan.method == "split":
            share = self.column_share
            if isinstance(share, str):
                share = column_share(request.noise_index(n_users))
            with_columns = request.split(column_share=float(share))
            # Of itself it takes no users from tables that would have nobody then.
            is_safe = with_columns.n_untold <= max(plan.n_untold, MAX_RISK)
            if is_safe or self.column_share != "auto":
                plan = with_columns
        if plan.n_untold > _MAX_UNTOLD * len(tables):
            raise ValueError(
                f"{self._name} is asked for {len(tables):,} tables, but expects {n_users:,} users "
                f"among {len(plan.views):,} sets of columns: nobody would tell about "
                f"{plan.n_untold:.0f} tables. Ask for fewer of them, or give expected_n_users."
            )
        return plan

    def _compared(self) -> list[TablePlan]:
        """The plans of all methods, for `compare_methods`."""
        self._check_parameters()
        request, _ = self._request(RecordDomain.declared(self.domains, "compare_methods"))
        return best_plans(request)

    def _weights(self, domain: RecordDomain) -> dict[Subset, float]:
        """The weight of each table asked for."""
        names, tables = list(domain.columns), dict.fromkeys(self._tables(domain))
        listed = (self.weights or {}).items()
        given = {self._named_table(names, one): weight for one, weight in listed}
        # A set of columns that is no table asked for stands for all tables that have them.
        for columns in sorted(given.keys() - tables.keys()):
            if within := [table for table in tables if set(columns) <= set(table)]:
                given = {**dict.fromkeys(within, given.pop(columns)), **given}
        unknown = [columns for columns in given if columns not in tables]
        bad = [w for w in given.values() if not (isinstance(w, Real) and 0 < w < math.inf)]
        if unknown or bad:
            what = repr(bad[0]) if bad else f"one for {table_name(domain, unknown[0])!r}"
            raise ValueError(
                f"{self._name} needs finite weights > 0 of tables that it is asked for, got {what}."
            )
        return {columns: float(given.get(columns, 1.0)) for columns in tables}

    def _tables(self, domain: RecordDomain) -> list[Subset]:
        """The columns of each table asked for, by position."""
        names = list(domain.columns)
        if isinstance(self.order, Integral):
            if int(self.order) > len(names):
                raise ValueError(
                    f"{self._name} is asked for tables of {self.order} columns, but X has only "
                    f"{len(names)} feature(s): {', '.join(map(repr, names))}."
                )
            tables = list(combinations(range(len(names)), int(self.order)))
        else:
            asked: Any = self.order
            tables = list(dict.fromkeys(self._named_table(names, one) for one in asked))
            if not tables:
                raise ValueError(f"{self._name} needs at least one table in order=, got none.")
        for table in tables:
            self._check_cells(domain, table, "fewer columns a table, or coarser categories")
        return tables

    def _named_table(self, names: list[Any], columns: Any) -> Subset:
        is_one = isinstance(columns, str) or columns in names
        listed: list[Any] = [columns] if is_one else list(columns)
        unknown = [name for name in listed if name not in names]
        if unknown or len(set(listed)) < len(listed) or not listed:
            what = f"there is no column {unknown[0]!r}" if unknown else "each column counts once"
            raise ValueError(
                f"{self._name} cannot make the table {columns!r}: {what}; the columns are {names}."
            )
        return tuple(sorted(names.index(name) for name in listed))

    def _check_cells(self, domain: RecordDomain, table: Subset, remedy: str) -> None:
        n_cells = table_cells(domain.sizes, table)
        if n_cells > _MAX_CELLS:
            names = [str(name) for j, name in enumerate(domain.columns) if j in table]
            listed = ", ".join(names[:6]) + (", .." if len(names) > 6 else "")
            raise ValueError(
                f"{self._name} refuses a table of {n_cells:.3g} cells ({listed}), more than "
                f"{_MAX_CELLS:,}: use {remedy}."
            )

    # -- the estimate -------------------------------------------------------------------------
    def _estimated(self, domain: RecordDomain, survey: Several) -> dict[Any, View]:
        tables = self._tables(domain)
        if _asks_for(survey, tables):
            return self._views(domain, survey)
        sizes = domain.sizes
        return {table_name(domain, c): View.joint(c, [sizes[j] for j in c]) for c in tables}

    def _estimate_of(self, state: Collected) -> TableSet:
        domain: Any = state.protocol.domain
        like = type(self)(**state.parameters)
        survey, n_users, said = state.mechanism, state.counts.n_samples, []
        for j, channel in enumerate(survey.mechanisms):
            support, sizes = survey.decoded_on(state.decoded[0], j)
            if len(sizes) == 1 and sizes[0]:
                values, noise = channel.estimate_decoded(support, sizes)
                said.append((j, values[0], noise.of_sample(n_users)))
        views = _table_views(survey, said)  # of all questions that somebody was asked
        if _asks_for(survey, like._tables(domain)):
            return TableSet(self._answers(state), domain, views)
        return like._combined(domain, views, n_users, *state.caveats)

    def _combined(
        self, domain: RecordDomain, views: list[TableView], n_users: int, *caveats: str
    ) -> TableSet:
        """The tables that follow from what users were asked about instead."""
        components = best_components(domain.sizes, views)
        wanted = {table_name(domain, columns): columns for columns in self._tables(domain)}
        tables = combined_tables(domain, wanted, views, components, n_users, caveats)
        return TableSet(tables, domain, views)

    # -- without users ------------------------------------------------------------------------
    def simulate(self, counts: Mapping[Any, Any], n_repeats: int = 1) -> TableSet:
        """Draw a whole collection from known counts of records, without users, for studies.

        Privacy: none is protected; `counts` must be public or synthetic.

        What users say of each set of columns that they may be asked about has its exact law.
        Different sets are drawn as if they were of different users.

        Parameters
        ----------
        counts : mapping of tuple to int
            True number of users with each record: as many values as there are columns, in the order
            of the domains. ``frame.value_counts()`` is such a mapping.
        n_repeats : int, default=1
            Not more than 1: a set of tables is one collection. For more, call it again with a
            generator as `random_state`.

        Returns
        -------
        TableSet
            The raw tables.

        Raises
        ------
        ValueError
            If a record is not in the domains, or a count is no non-negative integer.
        """
        if n_repeats != 1:
            raise ValueError(
                f"{self._name}.simulate draws one collection, got n_repeats={n_repeats!r}: call it "
                "in a loop, with a generator as random_state."
            )
        domain: Any = self._domain()
        survey: Any = self._protocol_over(domain).mechanism
        given = {key: counts[key] for key in counts.keys()}  # noqa: SIM118, of a Series, too
        users = check_counts(list(given.values()), f"{self._name}.simulate: counts")
        records = np.empty((len(given), len(domain.columns)), dtype=object)
        records[:] = [key if isinstance(key, tuple) else (key,) for key in given]
        codes = domain.encode(records, self._name)
        seen = counts_in_views(self._views(domain, survey), codes, users)
        drawn = self._simulated(domain, survey, {k: v.astype(np.int64) for k, v in seen.items()}, 1)
        rows = [(j, one) for j, one in enumerate(drawn.values()) if len(one)]
        said = _table_views(survey, [(j, one.values[0], one.noise) for j, one in rows])
        if _asks_for(survey, self._tables(domain)):
            return TableSet(drawn, domain, said)
        return self._combined(domain, said, int(users.sum()))

    def _planned_by(self, protocol: Any) -> dict[Any, PlannedEstimate]:
        domain, survey = protocol.domain, protocol.mechanism
        weights = self._weights_by_name(domain)
        if _asks_for(survey, self._tables(domain)):
            planned = super()._planned_by(protocol)
            return {name: planned[name] for name in weights}
        uniform = [np.full(view.n_values, 1 / view.n_values) for view in survey.views]
        views = [(j, values, survey.noise_of(j, 1.0)) for j, values in enumerate(uniform)]
        tables = self._combined(domain, _table_views(survey, views), 1)
        planned = {}
        for name, columns in tables.columns_of.items():
            noise, joint = tables[name].noise, domain.joint(columns)
            assert noise is not None
            oracle = self._oracle_of(self.oracle, joint, name)
            planned[name] = PlannedEstimate(joint, oracle, noise, weights[name])
        return planned

    # -- what is known after fit --------------------------------------------------------------
    @property
    def method_(self) -> str:
        """How users were asked."""
        state: Any = self._fitted("method_")
        if _parity(state.mechanism):
            return "fourier"
        views, n_columns = state.mechanism.views, len(state.protocol.domain.columns)
        return "joint" if len(views) == 1 and len(views[0].columns) == n_columns else "split"

    @property
    def views_(self) -> list[tuple[Any, ...]]:
        """The columns that a user may be asked about."""
        state = self._fitted("views_")
        names = list(state.protocol.domain.columns)  # type: ignore[attr-defined]
        return [tuple(names[j] for j in view.columns) for view in state.mechanism.views]


def compare_methods(
    epsilon: float,
    domains: Mapping[Any, Any],
    order: int | Sequence[tuple[Any, ...]] = 2,
    *,
    oracle: Any = "best",
    expected_n_users: int = 100_000,
) -> dict[str, np.ndarray]:
    """Compare the ways to collect tables, before any user is asked.

    Parameters
    ----------
    epsilon : float
        Privacy budget of one report.
    domains : mapping of str to categories
        The public domain of each column.
    order : int or list of tuple of str, default=2
        The tables asked for, as for :class:`~sklearn_ldp.MarginalOracle`.
    oracle : "best" or oracle, default="best"
        How a table is reported.
    expected_n_users : int, default=100_000
        About how many users there will be. Ways that would leave one of the tables without users
        are left out, unless all would.

    Returns
    -------
    dict of ndarray
        One row per way, the best one first: "method"; "order", the most columns that a user is
        asked about at once; "n_views", the number of sets of columns that users are split among;
        "squared_error", n times the expected sum of squared errors of a table (mean over the tables
        asked for) with the best linear combination of all reports, under uniform frequencies.

    Raises
    ------
    ValueError
        If a parameter is not valid.

    Examples
    --------
    >>> from sklearn_ldp.surveys import compare_methods
    >>> answers = dict.fromkeys("abcdefghijklmnop", 2)
    >>> ways = compare_methods(1.0, answers)
    >>> str(ways["method"][0]), int(ways["squared_error"][0])
    ('fourier', 322)
    >>> ways = compare_methods(4.0, answers)
    >>> str(ways["method"][0]), int(ways["order"][0]), int(ways["squared_error"][0])
    ('split', 5, 10)
    """
    options = {"order": order, "oracle": oracle, "expected_n_users": expected_n_users}
    plans = MarginalOracle(epsilon, domains=domains, **options)._compared()
    return {
        "method": np.array([plan.method for plan in plans]),
        "order": np.array([max(map(len, plan.views)) for plan in plans]),
        "n_views": np.array([len(plan.views) for plan in plans]),
        "squared_error": np.array([plan.squared_error for plan in plans]),
    }


def _table_views(survey: Any, estimates: Sequence[tuple[int, Any, Any]]) -> list[TableView]:
    """The views of some questions, from the values and their noise."""
    # The total variance of each kind of mechanism, of which many may be alike.
    totals = {channel: channel.total_variance() for channel in set(survey.mechanisms)}
    is_parity = _parity(survey)
    return [
        TableView(survey.views[j].columns, values, noise, totals[survey.mechanisms[j]], is_parity)
        for j, values, noise in estimates
    ]


def _asks_for(survey: Any, tables: Sequence[Subset]) -> bool:
    """Whether users are asked about these very tables."""
    return {*tables} <= {view.columns for view in survey.views} and not _parity(survey)


def _parity(survey: Any) -> bool:
    """Whether users are asked for parities."""
    return any(view.is_parity for view in survey.views)
