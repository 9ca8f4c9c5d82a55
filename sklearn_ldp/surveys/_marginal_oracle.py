"""All tables of a few columns each, from one report per user."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions

from .._estimate import FrequencyEstimate
from .._random import RandomState
from .._sampled_noise import SampledNoise
from .._typing import Values
from ..domains import Domain, RecordDomain
from ..domains._columns import read_once
from ..mechanisms.several import Split, View, shares_over_2_64
from ..oracles import GRR, BaseOracle, SubsetSelection, best_oracle
from ..oracles.collector import Collected, check_weights, inherit_survey_parameters
from ._base import BaseSurvey, PlannedPart
from ._components import Subset
from ._plan import TablePlan, TableRequest, TotalVariance, column_share, table_cells
from ._table_set import TableSet
from ._views import CombinedNoise, TableView, best_components

_MAX_CELLS = 10**6  # of a table
# Reports of larger tables have a limited number of bits: the most accurate ones name a large set.
_SMALL_TABLE, _SMALL_REPORT = 1 << 12, 64
_N_SAMPLES = 100_000  # users that clients reckon with if nobody says how many there are


@inherit_survey_parameters
class MarginalOracle(BaseSurvey):
    """Estimate the tables of all pairs of columns, or of other sets of columns.

    A table (a marginal of the joint distribution) has the frequencies of all combinations of the
    categories of a few columns. Each user reports once, with the whole budget, and all reports tell
    about all tables. How she is asked depends on the columns and on epsilon:

    - "split": she draws one of the tables asked for, and reports her cell in it. Or the users are
      split among larger tables, from each of which several of those asked for follow.
    - "fourier": for binary columns, she draws a set of columns and reports the parity of her values
      in them. Tables are made of these parities (their Fourier coefficients).
    - "joint": she reports her combination of all columns, where there are not many.

    The raw tables are unbiased, with intervals. Tables that share columns do not agree with each
    other exactly, and have negative cells: put :class:`~sklearn_ldp.LatentClasses` behind it for
    the most accurate tables and for synthetic rows, or :class:`~sklearn_ldp.Consistent` for tables
    that agree.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user, for her whole record; all that is done with reports is free. What a user was asked is
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
        How a table is reported. "best" is :func:`~sklearn_ldp.best_oracle` for its cells, with
        reports of at most 64 bits if there are more than 4,096 of them; of an oracle, `epsilon` and
        `categories` are set.
    weights : mapping of tuple of str to float, default=None
        How much the errors of each table count, > 0; tables left out have weight 1. None counts all
        tables alike.
    column_share : "auto" or float, default="auto"
        Share of users who are asked for a single column, in [0, 1), where users are split among
        tables of two columns or more that are asked for. They make the model more accurate where
        tables are noisy. "auto" goes by the expected noise of the tables.
    n_samples : int, default=None
        Number of users who are expected, for "auto". Clients and servers must agree on it; it need
        not be exact. None takes the number of users in `fit` on values, and 100,000 elsewhere.
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
    nothing beats the assumption that columns are independent, the model says so by falling back to
    it; then a :class:`~sklearn_ldp.ColumnOracle` is as good.

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
    """

    _parameter_constraints: dict = {
        **BaseSurvey._parameter_constraints,
        "order": [Interval(Integral, 1, None, closed="left"), list, tuple],
        "method": [StrOptions({"auto", "split", "fourier", "joint"})],
        "oracle": [StrOptions({"best"}), BaseOracle],
        "weights": [None, Mapping],
        "column_share": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="left")],
        "n_samples": [None, Interval(Integral, 1, None, closed="left")],
    }
    _n_fitted: int | None = None

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
        n_samples: int | None = None,
        input: str = "values",
        n_shards: int = 10,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.domains = domains
        self.order = order
        self.method = method
        self.oracle = oracle
        self.weights = weights
        self.column_share = column_share
        self.n_samples = n_samples
        self.input = input
        self.n_shards = n_shards
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Values, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        X, before = read_once(X), self._n_fitted
        self._n_fitted = self._n_users(X, sample_weight)
        try:
            return super().fit(X, y, sample_weight)
        except BaseException:
            self._n_fitted = before
            raise

    fit.__doc__ = BaseSurvey.fit.__doc__

    def merge(self, other: Any) -> Self:
        try:
            return super().merge(other)
        except ValueError as error:
            both = (self._state, getattr(other, "_state", None))
            if other is self or any(state is None for state in both):
                raise
            given = [{**state.parameters, "n_samples": None} for state in both if state]
            if repr(given[0]) != repr(given[1]):
                raise
            raise ValueError(
                f"{error} They were planned for other numbers of users: give all of them the same "
                "n_samples."
            ) from None

    merge.__doc__ = BaseSurvey.merge.__doc__

    def _n_users(self, X: Any, sample_weight: ArrayLike | None) -> int | None:
        """The number of users, where fit on values may reckon with it."""
        if self.input == "reports" or not hasattr(X, "__len__"):
            return None
        if sample_weight is None:
            return len(X)
        return int(check_weights(sample_weight, len(X), self._name).sum())

    # -- hooks of the collection --------------------------------------------------------------
    @staticmethod
    def _best_oracle(epsilon: float, size: int) -> BaseOracle:
        return _best_of_table(epsilon, size)

    def _make_mechanism(self, domain: Domain) -> Split:
        assert isinstance(domain, RecordDomain)
        plan, channels = self._plan(domain)
        sizes = _sizes(domain)
        if plan.method == "fourier":
            views = [View.parity(columns) for columns in plan.views]
        else:
            views = [View.joint(c, [sizes[j] for j in c]) for c in plan.views]
        parts = [channels(view.n_values) for view in views]
        return Split(parts, shares_over_2_64(plan.probabilities), views)

    def _plan(self, domain: RecordDomain) -> tuple[TablePlan, Any]:
        """How users are asked, and the channel over a number of cells."""
        sizes, tables = _sizes(domain), self._tables(domain)
        channel_of, total_variance = _channels(self.epsilon, self.oracle, self._total_variances)
        request = TableRequest(sizes, tables, total_variance, self._weights(domain, tables))
        if self.method == "fourier":
            if set(sizes) != {2}:
                raise ValueError(
                    f'{self._name} with method="fourier" needs binary columns, got columns of '
                    f'{max(sizes)} categories: use method="split" or "auto".'
                )
            plan = request.fourier()
        elif self.method == "joint":
            self._check_cells(domain, tuple(range(len(sizes))), 'method="split"')
            plan = request.joint()
        elif self.method == "split":
            plan = request.split()
        else:
            plan = min(request.candidates(), key=lambda candidate: candidate.squared_error)
        if plan.views == tables and min(map(len, tables)) > 1 and plan.method == "split":
            plan = request.split(column_share=self._column_share(request))
        return plan, channel_of

    def _column_share(self, request: TableRequest) -> float:
        if not isinstance(self.column_share, str):
            return float(self.column_share)
        n_samples = self.n_samples or self._n_fitted or _N_SAMPLES
        return column_share(request.noise_index(n_samples))

    def _weights(self, domain: RecordDomain, tables: Sequence[Subset]) -> list[float]:
        """The weight of each table asked for."""
        names = list(domain.columns)
        given = {
            self._named_table(names, one): weight for one, weight in (self.weights or {}).items()
        }
        unknown = [columns for columns in given if columns not in tables]
        bad = [w for w in given.values() if not (isinstance(w, Real) and 0 < w < math.inf)]
        if unknown or bad:
            what = repr(bad[0]) if bad else f"one for {_name(domain, unknown[0])!r}"
            raise ValueError(
                f"{self._name} needs finite weights > 0 of tables that it is asked for, got {what}."
            )
        return [float(given.get(columns, 1.0)) for columns in tables]

    def _tables(self, domain: RecordDomain) -> list[Subset]:
        """The columns of each table asked for, by position."""
        names = list(domain.columns)
        if isinstance(self.order, Integral):
            if int(self.order) > len(names):
                raise ValueError(
                    f"{self._name} is asked for tables of {self.order} columns, but there are only "
                    f"{len(names)}: {', '.join(map(repr, names))}."
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
                f"{self._name} cannot make the table {columns!r}: {what}; the columns are "
                f"{', '.join(map(repr, names))}."
            )
        return tuple(sorted(names.index(name) for name in listed))

    def _check_cells(self, domain: RecordDomain, table: Subset, remedy: str) -> None:
        n_cells = table_cells(_sizes(domain), table)
        if n_cells > _MAX_CELLS:
            names = [str(name) for j, name in enumerate(domain.columns) if j in table]
            listed = ", ".join(names[:6]) + (", .." if len(names) > 6 else "")
            raise ValueError(
                f"{self._name} refuses a table of {n_cells:.3g} cells ({listed}), more than "
                f"{_MAX_CELLS:,}: use {remedy}."
            )

    # -- the estimate -------------------------------------------------------------------------
    def _estimate_of(self, state: Collected) -> TableSet:
        domain: Any = state.protocol.domain
        like = type(self)(**state.parameters)
        tables, views = like._tables(domain), self._views_of(state)
        sizes, mechanism = _sizes(domain), state.mechanism
        asked = [view.columns for view in mechanism.views]
        parts: dict[Any, FrequencyEstimate] = {}
        if set(tables) <= set(asked) and not _parity(mechanism):
            for j, columns in enumerate(asked):
                joint = domain.joint(columns)
                oracle = like._oracle_of(like.oracle, joint, columns)
                parts[_name(domain, columns)] = self._estimate_of_part(state, j, joint, oracle)
        else:
            if len(views) < len(asked):
                raise ValueError(
                    f"{self._name} has no users for {len(asked) - len(views)} of the {len(asked)} "
                    f"sets of columns that they were split among: {state.counts.n_samples} users "
                    "are too few."
                )
            components = best_components(sizes, views)
            made = components.tables(tables)
            for columns, values in zip(tables, made, strict=True):
                noise = CombinedNoise(sizes, columns, views, components, state.counts.n_samples)
                categories = domain.joint(columns).categories
                parts[_name(domain, columns)] = FrequencyEstimate([values], categories, noise)
        return TableSet(parts, domain, views)

    def _views_of(self, state: Collected) -> list[TableView]:
        """What the users said, of all parts that have users."""
        views, totals = [], _totals(state.mechanism)
        is_parity = _parity(state.mechanism)
        for j, view in enumerate(state.mechanism.views):
            support, asked = state.mechanism.of_decoded(state.decoded[0], j)
            if len(asked) == 1 and asked[0]:
                part = state.mechanism.parts[j]
                values, noise = part.estimate_decoded(support, asked)
                views.append(
                    TableView(
                        view.columns,
                        values[0],
                        SampledNoise(noise, state.counts.n_samples),
                        totals[part],
                        is_parity,
                    )
                )
        return views

    # -- before any data ----------------------------------------------------------------------
    def _planned_parts(self) -> dict[Any, PlannedPart]:
        protocol = self.protocol()
        domain: Any = protocol.domain
        mechanism: Any = protocol.mechanism
        sizes, tables = _sizes(domain), self._tables(domain)
        weights = self._weights(domain, tables)
        places = {view.columns: j for j, view in enumerate(mechanism.views)}
        is_asked = set(tables) <= set(places) and not _parity(mechanism)
        views, totals = [], _totals(mechanism)
        if not is_asked:
            for j, (view, part) in enumerate(zip(mechanism.views, mechanism.parts, strict=True)):
                uniform = np.full(view.n_values, 1 / view.n_values)
                noise, is_parity = mechanism.noise_of_part(j, 1.0), _parity(mechanism)
                views.append(TableView(view.columns, uniform, noise, totals[part], is_parity))
            components = best_components(sizes, views)
        planned = {}
        for columns, weight in zip(tables, weights, strict=True):
            joint = domain.joint(columns)
            if is_asked:
                noise = mechanism.noise_of_part(places[columns], 1.0)
            else:
                noise = CombinedNoise(sizes, columns, views, components, 1)
            oracle = self._oracle_of(self.oracle, joint, columns)
            planned[_name(domain, columns)] = PlannedPart(joint, oracle, noise, weight)
        return planned

    # -- what is known after fit --------------------------------------------------------------
    @property
    def method_(self) -> str:
        """How users were asked."""
        mechanism = self._fitted("method_").mechanism
        if _parity(mechanism):
            return "fourier"
        domain: Any = self._fitted("method_").protocol.domain
        n_columns = len(domain.columns)
        is_joint = len(mechanism.parts) == 1 and len(mechanism.views[0].columns) == n_columns
        return "joint" if is_joint else "split"

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
    like = MarginalOracle(epsilon, domains=domains, order=order, oracle=oracle)
    like._check_parameters()
    domain = RecordDomain.declared(domains, "compare_methods")
    sizes, tables = _sizes(domain), like._tables(domain)
    _, total_variance = _channels(epsilon, oracle, like._total_variances)
    plans = TableRequest(sizes, tables, total_variance).candidates()
    plans.sort(key=lambda plan: plan.squared_error)
    return {
        "method": np.array([plan.method for plan in plans]),
        "order": np.array([max(map(len, plan.views)) for plan in plans]),
        "n_views": np.array([len(plan.views) for plan in plans]),
        "squared_error": np.array([plan.squared_error for plan in plans]),
    }


def _channels(epsilon: float, oracle: Any, total_variances: Any) -> tuple[Any, TotalVariance]:
    """The channel over a number of cells, and its total variance; each is made once."""

    @cache
    def channel(size: int) -> Any:
        if isinstance(oracle, BaseOracle):
            return clone(oracle).set_params(epsilon=epsilon, categories=size).channel()
        return _best_of_table(epsilon, size).channel()

    @cache
    def total_variance(size: int) -> float:
        least = [channel(size)] if isinstance(oracle, BaseOracle) else _most_accurate(epsilon, size)
        return float(np.min(total_variances(least)))

    return channel, total_variance


@cache
def _best_of_table(epsilon: float, size: int) -> BaseOracle:
    """The best oracle for so many cells; it must not be changed."""
    bits = _SMALL_REPORT if size > _SMALL_TABLE else math.inf
    return best_oracle(epsilon, size, max_report_bits=bits)


def _most_accurate(epsilon: float, size: int) -> list[Any]:
    """The channels of which one has the least total variance of all, for plans of many sizes."""
    return [oracle(epsilon).channel(size) for oracle in (GRR, SubsetSelection)]


def _sizes(domain: RecordDomain) -> tuple[int, ...]:
    return tuple(one.size for one in domain.columns.values())


def _totals(mechanism: Any) -> dict[Any, float]:
    """The total variance of each kind of part, of which many may be alike."""
    return {part: part.total_variance() for part in set(mechanism.parts)}


def _parity(mechanism: Split) -> bool:
    """Whether users are asked for parities."""
    assert mechanism.views is not None
    return any(view.is_parity for view in mechanism.views)


def _name(domain: RecordDomain, columns: Subset) -> Any:
    """The name of a table: that of its column, or the tuple of its columns."""
    names = list(domain.columns)
    return names[columns[0]] if len(columns) == 1 else tuple(names[j] for j in columns)
