"""MarginalOracle, which estimates the tables of many sets of columns from one report per user.

A table contains the frequency of each combination of some columns' categories. Each combination is
a cell of the table.
"""

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

from .._core.common.random import RandomState
from .._core.domains import RecordDomain
from .._core.fitting import Collected, inherit_survey_parameters
from .._core.mechanisms import check_counts
from .._core.mechanisms.several import QuestionView, SampledQuestions
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

_MAX_CELLS = 10**6  # maximum number of cells of a table
_MAX_EMPTY = 0.01  # maximum expected proportion of tables without users


@inherit_survey_parameters
class MarginalOracle(BaseColumnSurvey[TableSet], tag="marginal-oracle"):
    """Estimate the tables of all pairs of columns, or of other sets of columns.

    A table is a marginal of the joint distribution. It contains the frequency of each combination
    of some columns' categories. Each combination is a cell of the table. Each user sends one
    report, which uses the whole privacy budget. There are three methods. Which is the most accurate
    depends on the columns and on epsilon:

    - "split": for each user, a table is drawn at random. The user reports their combination of
      values in this table. The drawn tables are either the requested tables, or larger tables, from
      which the requested tables are computed.
    - "fourier": for each user, a set of binary columns is drawn at random. The user reports the
      parity of their values in these columns. The tables are computed from these parities, because
      the parities determine the Fourier coefficients of the tables.
    - "joint": each user reports their combination of values in all columns. This method is only
      suitable if the number of combinations is small.

    The raw tables are unbiased and have confidence intervals. A table has no rows if no user
    reported on it, which can occur if there are fewer users than expected. Two raw tables that
    share columns contain slightly different frequencies of these columns, and raw tables contain
    negative frequencies. Apply :class:`~sklearn_ldp.LatentClasses` to the result for the most
    accurate tables and for synthetic records, or :class:`~sklearn_ldp.Consistent` for tables that
    agree with each other.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user, for all columns together. No operation on reports spends epsilon. A report shows which
    question the user was asked.

    Parameters
    ----------
    %(domains)s
    order : int or list of tuple of str, default=2
        The requested tables. If an integer, all tables with this number of columns are estimated.
        A list contains the names of the columns of each requested table.
    method : {"auto", "split", "fourier", "joint"}, default="auto"
        The question that users are asked, see above. "auto" chooses the method with the minimum
        expected squared error. This error is computed before any user is asked, see
        :func:`~sklearn_ldp.surveys.compare_methods`. "split" draws only requested tables, while
        "auto" may also draw larger tables. "fourier" needs binary columns.
    oracle : "best" or oracle, default="best"
        Oracle for the cells of a table. "best" is the result of :func:`~sklearn_ldp.best_oracle`
        for the number of cells. The survey sets the parameters `epsilon` and `categories` of the
        oracle.
    weights : mapping of str or tuple of str to float, default=None
        Importance of the errors of each table, as a positive number. The key of a table is the
        tuple of its columns. Tables that are not in the mapping have the weight 1. If a key is a
        single column, its weight applies to all tables that contain this column. For example,
        ``weights={"income": 100}`` is useful for a model that predicts incomes. If None, all tables
        have the same weight.
    column_share : "auto" or float, default="auto"
        Proportion of the users who are asked for a single column instead of a table, in [0, 1). It
        is only used if users are split among requested tables of at least two columns. If tables
        are noisy, accurate single columns improve the model of :class:`~sklearn_ldp.LatentClasses`.
        "auto" chooses the proportion from the expected noise of the tables.
    expected_n_users : int, default=100_000
        Approximate number of users, for ``method="auto"`` and ``column_share="auto"``. It is public
        and must be the same for clients and servers, like the domains. The oracle never computes it
        from the data. If the number is so small that some tables would have no users, the oracle
        raises an error before any user is asked.
    %(collection)s

    Attributes
    ----------
    estimate_ : TableSet
        The raw tables, by the names of their columns.
    frequencies_ : dict of tuple of str to ndarray of shape (n_cells,)
        The unbiased frequencies of each table, in C order. Some may be negative.
    method_ : {"split", "fourier", "joint"}
        The method that was used.
    views_ : list of tuple of str
        For each question that users may be asked, the names of its columns.
    sampling_probabilities_ : ndarray of shape (n_views,)
        For each question, the probability that a user is asked it.
    n_samples_seen_ : int
        Number of users.
    %(features)s

    See Also
    --------
    Consistent : Makes the tables agree with each other.
    LatentClasses : Fits a joint model to the tables.
    ColumnOracle : Estimates single columns without tables, with less noise.

    Notes
    -----
    The error of the tables grows fast with the number of tables and with their numbers of cells. If
    the tables are so noisy that no model is more accurate than a model with independent columns,
    :class:`~sklearn_ldp.LatentClasses` assumes independence (``dependence_`` is 0). In this case, a
    :class:`~sklearn_ldp.ColumnOracle` is at least as accurate.

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

    Request one table only, or request all tables and ask more users for the tables with "ill":

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
    def _make_mechanism(self, domain: RecordDomain) -> SampledQuestions:
        request, channel = self._request(domain)
        plan = self._plan(domain, request)
        if plan.method == "fourier":
            views = [QuestionView.parity(columns) for columns in plan.views]
        else:
            views = [_joint_view(domain, columns) for columns in plan.views]
        channels = [channel(view.n_values) for view in views]
        return SampledQuestions.drawn(channels, plan.probabilities, views=views)

    def _oracles_behind(
        self, domain: RecordDomain, views: Mapping[Any, QuestionView]
    ) -> dict[Any, BaseOracle]:
        """Return a dict with the oracle of each table that users may be asked about.

        The keys are the names of the tables. Questions about parities have no oracle.
        """
        return {
            name: self._oracle_of(self.oracle, domain.joint(view.columns), name)
            for name, view in views.items()
            if not view.is_parity
        }

    def _weights_by_name(self, domain: RecordDomain) -> dict[Any, float]:
        weights = self._weights(domain).items()
        return {table_name(domain, columns): weight for columns, weight in weights}

    def _request(self, domain: RecordDomain) -> tuple[TableRequest, Callable[[int], Any]]:
        """Return a TableRequest with the requested tables, and a function.

        The function has the argument `size`, a number of cells. It returns the channel with which
        users report one of these cells.
        """
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
            # One of these two has the minimum total variance of all oracles.
            candidates = (kind(self.epsilon).channel(size) for kind in (GRR, SubsetSelection))
            return float(np.min(self._total_variances(candidates)))

        weights = self._weights(domain)
        request = TableRequest(
            domain.sizes,
            tables=list(weights),
            total_variance=total_variance,
            weights=list(weights.values()),
            n_users=self.expected_n_users,
        )
        return request, channel

    def _plan(self, domain: RecordDomain, request: TableRequest) -> TablePlan:
        """Return the plan: the questions to the users and their probabilities."""
        tables = request.tables
        plan = self._plan_of_method(domain, request)
        if plan.method == "split" and plan.views == tables and min(map(len, tables)) > 1:
            plan = self._with_single_columns(plan, request)
        if plan.n_empty > _MAX_EMPTY * len(tables):
            raise ValueError(
                f"{self._name} cannot estimate {len(tables):,} tables from "
                f"expected_n_users={self.expected_n_users:,}: the users would be split among "
                f"{len(plan.views):,} sets of columns, and {plan.n_empty:.0f} tables would have no "
                "users. Request fewer tables as order=, or increase expected_n_users= if there "
                "will be more users."
            )
        return plan

    def _plan_of_method(self, domain: RecordDomain, request: TableRequest) -> TablePlan:
        """Return the plan (the questions and their probabilities) for the parameter `method`.

        It does not yet contain the questions about single columns that `column_share` adds.
        """
        if self.method == "auto":
            return best_plans(request)[0]
        if self.method == "split":
            return request.split()
        if self.method == "joint":
            self._check_cells(domain, tuple(range(len(request.sizes))), 'method="split"')
            return request.joint()
        if set(request.sizes) != {2}:
            raise ValueError(
                f'{self._name} with method="fourier" needs columns with 2 categories, got a column '
                f'with {max(request.sizes)} categories. Use method="split" or method="auto".'
            )
        return request.fourier()

    def _with_single_columns(self, plan: TablePlan, request: TableRequest) -> TablePlan:
        """Return a plan that asks a part of the users for a single column instead of a table.

        The parameter `column_share` determines the part, which may be 0.
        """
        if self.column_share != "auto":
            return request.split(column_share=float(self.column_share))
        share = column_share(request.noise_index(self.expected_n_users))
        with_columns = request.split(column_share=share)
        # "auto" must not leave more tables without users.
        return with_columns if with_columns.n_empty <= max(plan.n_empty, MAX_RISK) else plan

    def _compared(self) -> list[TablePlan]:
        """Return the plans that `compare_methods` compares, by ascending expected error."""
        self._check_parameters()
        request, _ = self._request(RecordDomain.declared(self.domains, "compare_methods"))
        return best_plans(request)

    def _weights(self, domain: RecordDomain) -> dict[Subset, float]:
        """Return a dict from the column positions of each requested table to its weight."""
        names = list(domain.columns)
        tables = dict.fromkeys(self._tables(domain))
        weights = {
            self._named_table(names, key): weight for key, weight in (self.weights or {}).items()
        }
        # A set of columns that is no requested table stands for all tables that contain it.
        for columns in sorted(weights.keys() - tables.keys()):
            if within := [table for table in tables if set(columns) <= set(table)]:
                weights = {**dict.fromkeys(within, weights.pop(columns)), **weights}
        unknown = [columns for columns in weights if columns not in tables]
        bad = [w for w in weights.values() if not (isinstance(w, Real) and 0 < w < math.inf)]
        if unknown or bad:
            received = (
                repr(bad[0])
                if bad
                else f"the key {table_name(domain, unknown[0])!r}, which is in no requested table"
            )
            raise ValueError(
                f"{self._name}: weights must map requested tables, or columns, to positive finite "
                f"numbers, got {received}. Pass such a mapping as weights=, or None."
            )
        return {columns: float(weights.get(columns, 1.0)) for columns in tables}

    def _tables(self, domain: RecordDomain) -> list[Subset]:
        """Return the requested tables, each as a tuple of the positions of its columns."""
        names = list(domain.columns)
        if isinstance(self.order, Integral):
            if int(self.order) > len(names):
                raise ValueError(
                    f"{self._name} cannot estimate tables of order={self.order} columns, because X "
                    f"has only {len(names)} feature(s): {', '.join(map(repr, names))}. Pass a "
                    "smaller order=."
                )
            tables = list(combinations(range(len(names)), int(self.order)))
        else:
            requested: Any = self.order
            tables = list(dict.fromkeys(self._named_table(names, table) for table in requested))
            if not tables:
                raise ValueError(
                    f"{self._name} needs at least one table, got order={self.order!r}. Pass order= "
                    "as a list with the columns of each table, or as a number of columns."
                )
        for table in tables:
            self._check_cells(domain, table, "fewer columns per table, or coarser categories")
        return tables

    def _named_table(self, names: list[Any], columns: Any) -> Subset:
        is_single = isinstance(columns, str) or columns in names
        listed: list[Any] = [columns] if is_single else list(columns)
        unknown = [name for name in listed if name not in names]
        if unknown or len(set(listed)) < len(listed) or not listed:
            reason = (
                f"there is no column {unknown[0]!r}"
                if unknown
                else "a table needs one or more different columns"
            )
            raise ValueError(
                f"{self._name} cannot make the table {columns!r}, because {reason}. Use only the "
                f"column names {names}."
            )
        return tuple(sorted(names.index(name) for name in listed))

    def _check_cells(self, domain: RecordDomain, table: Subset, remedy: str) -> None:
        n_cells = table_cells(domain.sizes, table)
        if n_cells > _MAX_CELLS:
            names = [str(name) for j, name in enumerate(domain.columns) if j in table]
            listed = ", ".join(names[:6]) + (", .." if len(names) > 6 else "")
            raise ValueError(
                f"{self._name} got a table of {n_cells:.3g} cells (columns {listed}), but a table "
                f"may have at most {_MAX_CELLS:,} cells. Use {remedy}."
            )

    # -- the estimate -------------------------------------------------------------------------
    def _estimated(self, domain: RecordDomain, survey: SampledQuestions) -> dict[Any, QuestionView]:
        tables = self._tables(domain)
        if _asks_for(survey, tables):
            return self._views(domain, survey)
        return {table_name(domain, columns): _joint_view(domain, columns) for columns in tables}

    def _estimate_of(self, state: Collected) -> TableSet:
        domain: Any = state.protocol.domain
        oracle = type(self)(**state.parameters)
        survey = state.mechanism
        n_users = state.counts.n_samples
        answers = []  # of the questions that have users
        for j, channel in enumerate(survey.mechanisms):
            support, sizes = survey.decoded_on(state.decoded[0], j)
            if len(sizes) == 1 and sizes[0]:
                values, noise = channel.estimate_decoded(support, sizes)
                answers.append((j, values[0], noise.of_sample(n_users)))
        views = _table_views(survey, answers)
        if _asks_for(survey, oracle._tables(domain)):
            return TableSet(self._answers(state), domain, views)
        return oracle._combined(domain, views, n_users, *state.caveats)

    def _combined(
        self, domain: RecordDomain, views: list[TableView], n_users: int, *caveats: str
    ) -> TableSet:
        """Return a TableSet of the requested tables, computed from the answers to all questions.

        views: for each question that users answered, the raw estimate from the answers.
        """
        components = best_components(domain.sizes, views)
        wanted = {table_name(domain, columns): columns for columns in self._tables(domain)}
        tables = combined_tables(domain, wanted, views, components, n_users, caveats)
        return TableSet(tables, domain, views)

    # -- without users ------------------------------------------------------------------------
    def simulate(self, counts: Mapping[Any, Any], n_repeats: int = 1) -> TableSet:
        """Simulate the tables of a whole collection from known counts of records.

        Privacy: the method protects no data. `counts` must be public or synthetic.

        The simulated answers to each question have the same distribution as in a real collection
        with these counts. The answers to different questions are drawn independently.

        Parameters
        ----------
        counts : mapping of tuple to int
            For each record, the true number of users who have this record. A record is a tuple with
            one value for each column, in the order of the domains. For a data frame,
            ``frame.value_counts()`` can be passed.
        n_repeats : int, default=1
            Must be 1, because a TableSet contains only one collection. To simulate several
            collections, call the method repeatedly with a generator as `random_state`.

        Returns
        -------
        TableSet
            The raw tables.

        Raises
        ------
        ValueError
            If `n_repeats` is not 1, if a value of a record is not a category, or if a count is not
            a non-negative integer.
        """
        if n_repeats != 1:
            raise ValueError(
                f"{self._name}.simulate draws only one collection, got n_repeats={n_repeats!r}. "
                "Call simulate in a loop, with a numpy Generator as random_state=."
            )
        domain: Any = self._domain()
        survey: Any = self._protocol_over(domain).mechanism
        # A Series has keys(), but iterates over its values.
        n_users = {key: counts[key] for key in counts.keys()}  # noqa: SIM118
        users = check_counts(list(n_users.values()), f"{self._name}.simulate: counts")
        records = np.empty((len(n_users), len(domain.columns)), dtype=object)
        records[:] = [key if isinstance(key, tuple) else (key,) for key in n_users]
        codes = domain.encode(records, self._name)
        in_views = counts_in_views(self._views(domain, survey), codes, users)
        whole = {name: view_counts.astype(np.int64) for name, view_counts in in_views.items()}
        estimates = self._simulated(domain, survey, whole, 1)
        answers = [
            (j, estimate.values[0], estimate.noise)
            for j, estimate in enumerate(estimates.values())
            if len(estimate)
        ]
        views = _table_views(survey, answers)
        if _asks_for(survey, self._tables(domain)):
            return TableSet(estimates, domain, views)
        return self._combined(domain, views, int(users.sum()))

    def _planned_by(self, protocol: Any) -> dict[Any, PlannedEstimate]:
        domain = protocol.domain
        survey = protocol.mechanism
        weights = self._weights_by_name(domain)
        if _asks_for(survey, self._tables(domain)):
            planned = super()._planned_by(protocol)
            return {name: planned[name] for name in weights}
        uniform = [np.full(view.n_values, 1 / view.n_values) for view in survey.views]
        answers = [(j, values, survey.noise_of(j, 1.0)) for j, values in enumerate(uniform)]
        tables = self._combined(domain, _table_views(survey, answers), 1)
        planned = {}
        for name, columns in tables.columns_of.items():
            noise = tables[name].noise
            assert noise is not None
            joint = domain.joint(columns)
            oracle = self._oracle_of(self.oracle, joint, name)
            planned[name] = PlannedEstimate(joint, oracle, noise, weights[name])
        return planned

    # -- fitted attributes --------------------------------------------------------------------
    @property
    def method_(self) -> str:
        """The method by which users were asked: "split", "fourier" or "joint"."""
        state: Any = self._fitted("method_")
        if _asks_for_parities(state.mechanism):
            return "fourier"
        views = state.mechanism.views
        n_columns = len(state.protocol.domain.columns)
        return "joint" if len(views) == 1 and len(views[0].columns) == n_columns else "split"

    @property
    def views_(self) -> list[tuple[Any, ...]]:
        """For each question that users may be asked, the tuple of its columns' names."""
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
    """Compare the expected errors of the methods of MarginalOracle, before any user is asked.

    Parameters
    ----------
    epsilon : float
        Privacy budget of one report.
    domains : mapping of str to categories
        The public domain of each column.
    order : int or list of tuple of str, default=2
        The requested tables, as for :class:`~sklearn_ldp.MarginalOracle`.
    oracle : "best" or oracle, default="best"
        Oracle for the cells of a table.
    expected_n_users : int, default=100_000
        Approximate number of users. A method is left out of the result if a table would probably
        have no users with this method. If this is true for every method, the methods with the
        fewest such tables are compared.

    Returns
    -------
    dict of ndarray
        Each array has one entry per method, and the method with the smallest error comes first.
        "method" is the name of the method. "order" is the maximum number of columns in one
        question. "n_views" is the number of different questions, among which the users are split.
        "squared_error" is n times the expected sum of squared errors of a table, for n users. It is
        the mean over the requested tables. It is computed for the best linear combination of all
        reports, under uniform frequencies.

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
    """Return a TableView (a raw estimate with its noise) for each question that users answered.

    estimates: for each of these questions, its number, the estimated frequencies of its answers,
    and their noise.
    """
    # Many mechanisms may be equal, so each total variance is computed once.
    totals = {channel: channel.total_variance() for channel in set(survey.mechanisms)}
    is_parity = _asks_for_parities(survey)
    return [
        TableView(survey.views[j].columns, values, noise, totals[survey.mechanisms[j]], is_parity)
        for j, values, noise in estimates
    ]


def _asks_for(survey: Any, tables: Sequence[Subset]) -> bool:
    """Return whether users are asked about each of the tables directly.

    If not, tables must be computed from larger tables or from parities.
    """
    columns = {view.columns for view in survey.views}
    return columns.issuperset(tables) and not _asks_for_parities(survey)


def _asks_for_parities(survey: Any) -> bool:
    """Return whether the questions of a survey ask for parities of binary columns."""
    return any(view.is_parity for view in survey.views)


def _joint_view(domain: RecordDomain, columns: Subset) -> QuestionView:
    """Return the QuestionView of a question for the user's combination of values in some columns.

    columns: the positions of the columns.
    """
    return QuestionView.joint(columns, [domain.sizes[j] for j in columns])
