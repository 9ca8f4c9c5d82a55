"""Base class of the searches, which compare the errors of candidates and fit the best one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from .. import postprocessing as pp
from .._core.common.docs import fill_in
from .._core.common.lazy import exported_classes
from .._core.common.parallel import each_warning_once, run, silent
from .._core.common.progress import Progress
from .._core.common.text import format_table
from .._core.domains.values import objects
from .._core.estimates import EstimateSet, FrequencyEstimate
from .._core.estimates.errors import query_errors
from .._core.queries import Queries, as_query_set
from ..postprocessing import BasePostProcessor
from ._expected_error import expected_error

PostProcessor: TypeAlias = BasePostProcessor | Pipeline
#: "all", a list, or a dict with a grid of parameters (or a list of grids) for each class name.
Candidates: TypeAlias = str | Sequence[PostProcessor] | Mapping[Any, Any]


def default_candidates() -> list[BasePostProcessor]:
    """Return the post-processors that suit any domain, with default parameters, simplest first.

    Returns
    -------
    list of post-processors
        The candidates of a search with ``candidates="all"``.

    Examples
    --------
    >>> from sklearn_ldp.model_selection import default_candidates
    >>> default_candidates()[:2]
    [Base(), Norm()]
    """
    few = [pp.Base(), pp.Norm(), pp.BasePos(), pp.PostPos(), pp.BaseCut(), pp.NormSub()]
    more = [pp.NormCut(), pp.NormMul(), pp.NormHyb(), pp.MLEApx(), pp.Power(), pp.PowerNS()]
    return [*few, *more, pp.EmpiricalBayes()]


def candidates_knowing(queries: Queries | None) -> list[BasePostProcessor]:
    """Return post-processors that may be able to use the queries; `knows` selects among them.

    Parameters
    ----------
    queries : query set, (sparse) matrix of shape (n_queries, d) or None
        The queries.

    Returns
    -------
    list of post-processors
        Further candidates of a search with ``candidates="all"``.
    """
    return [pp.MonotoneCDF(), pp.EmpiricalBayes(queries=queries), pp.SmoothMLE()]


def as_candidates(candidates: Candidates, name: str) -> list:
    """Return the post-processors that a `candidates` parameter describes.

    Parameters
    ----------
    candidates : "all", list or dict
        "all", a list of post-processors (or Pipelines of them), or a dict with a grid of
        parameters for each class. A key is a class, or the name of a class of the package, as in
        ``{"NormSub": {}, MyOwn: {"weight": [0.05, 2]}}``.
    name : str
        The class or function that error messages name.

    Returns
    -------
    list of post-processors or Pipelines
        The candidates; the list is not empty.

    Raises
    ------
    TypeError
        If a candidate is not a post-processor.
    ValueError
        If there is no candidate, or the class name or a parameter of a grid is unknown.
    """
    if isinstance(candidates, str):  # "all": the parameter constraints allow no other text
        return default_candidates()
    if isinstance(candidates, Mapping):
        grids = [_grid(key, grid, name) for key, grid in candidates.items()]
        candidates = [candidate for grid in grids for candidate in grid]
    candidates = list(candidates)
    if not candidates:
        raise ValueError(
            f"{name} needs at least one candidate, got none. Pass post-processors such as "
            '[Base(), NormSub()], or candidates="all".'
        )
    for candidate in candidates:
        steps = _steps(candidate)
        odd = [step for step in steps if not isinstance(step, BasePostProcessor)]
        if odd or not steps:
            raise TypeError(
                f"{name} chooses among post-processors (or Pipelines of them), got "
                f"{odd[0] if odd else candidate!r} as a candidate. Pass instances such as "
                "NormSub(), or Base(), which changes nothing."
            )
    return candidates


def _steps(candidate: Any) -> list:
    """Return the list of steps of a Pipeline, or a list with the post-processor itself."""
    is_pipeline = isinstance(candidate, Pipeline)
    return [step for _, step in candidate.steps] if is_pipeline else [candidate]


def seeing_whole_sets(candidates: Candidates) -> list[BasePostProcessor]:
    """Return the post-processors among the candidates that process a whole set of estimates.

    Parameters
    ----------
    candidates : "all", list or dict
        As for `as_candidates`; other objects than post-processors are ignored.

    Returns
    -------
    list of post-processors
        Candidates, or steps of the Pipelines among them.
    """
    if isinstance(candidates, str | Mapping):  # these post-processors work part by part
        return []
    steps = [step for candidate in candidates for step in _steps(candidate)]
    return [s for s in steps if isinstance(s, BasePostProcessor) and s._sees_whole_sets()]


def _grid(key: Any, grid: Any, name: str) -> list:
    """Return one post-processor of a class for each combination of parameters in its grid."""
    from sklearn.model_selection import ParameterGrid  # slow to import, so only if needed

    known = exported_classes(pp, BasePostProcessor)
    is_class = isinstance(key, type) and issubclass(key, BasePostProcessor)
    if not is_class and key not in known:
        raise ValueError(
            f"{name} got the unknown post-processor {key!r} in a grid. Pass a class derived from "
            f"BasePostProcessor, or one of the names {', '.join(known)}."
        )
    post_processor = key if is_class else known[key]
    # set_params refuses an unknown parameter and names the parameters of the class.
    return [post_processor().set_params(**parameters) for parameters in ParameterGrid(grid)]


def candidate_name(candidate: BaseEstimator) -> str:
    """Return a short name of a post-processor, or of a Pipeline of them.

    Parameters
    ----------
    candidate : post-processor or Pipeline
        The object to name.

    Returns
    -------
    str
        A name such as ``BaseCut(alpha=0.05)`` or ``Base + NormSub``.
    """
    if isinstance(candidate, Pipeline):
        return " + ".join(candidate_name(step) for _, step in candidate.steps)
    text = " ".join(repr(candidate).split())
    return text.removesuffix("()")


# -- searches --------------------------------------------------------------------------------------
_MOST_SHOWN = 10  # rows of a printed table
_WIDE_RANGE = 4.0  # ratio of the ends of an expected error, chosen by hand
_TASK = 100_000  # frequencies that a task post-processes, in about a tenth of a second

_PARAGRAPHS = {
    "n_jobs": """n_jobs : int, default=None
    Number of joblib workers. It does not change the result.""",
    "verbose": """verbose : int, default=0
    Whether to show the progress on stderr.""",
    "results": """results_ : dict of ndarray
    One row per candidate, in columns as in `cv_results_` of scikit-learn: "candidate" (its name),
    "params", "mean_test_score" (minus the mean error; larger is better), "std_test_score" and
    "split0_test_score", .. (over the collections, splits or draws), "rank_test_score" (1 is
    best). The dict and the search are printed as a table, best candidate first. In the table, "+-"
    is the standard error over collections, splits or draws; it does not include the noise of the
    estimate.""",
    "best": """best_index_ : int
    Row of the chosen candidate.
best_params_ : dict
    Parameters of the chosen candidate.
best_score_ : float
    Mean score of the chosen candidate.
best_estimator_ : post-processor
    The chosen candidate, fitted on the whole estimate.""",
}


class Case(NamedTuple):
    """Input of a comparison: estimates to post-process, and frequencies to compare with."""

    estimate: FrequencyEstimate
    frequencies: np.ndarray
    queries: Any

    @property
    def size(self) -> int:
        """Number of values to post-process."""
        return self.estimate.values.size


class Judgment(NamedTuple):
    """The errors of a candidate on all cases.

    Parameters
    ----------
    errors : ndarray of shape (n_errors,)
        The error of each row of each case.
    answers : ndarray, dict of ndarray or None
        The candidate's answers to the queries, or None if the choice does not depend on them. For a
        set of estimates, a dict from the name of each estimate to its answers.
    """

    errors: np.ndarray
    answers: Any = None


class Choice(NamedTuple):
    """The outcome of a search.

    Parameters
    ----------
    results : SearchResults
        The table of all candidates.
    chosen : int
        Row of the chosen candidate in `results`.
    rule : str
        A sentence that explains why the chosen candidate does not rank first; "" if it does.
    """

    results: SearchResults
    chosen: int
    rule: str = ""


class BaseSearch(BasePostProcessor):
    """Base of the searches over post-processors, which are post-processors themselves.

    A search judges all candidates on the same cases, and chooses one by their errors
    (`_fit_process` and `_search`). A subclass defines `_make_cases`, `_judge` and `_choose`. It may
    override `_refit` (if the result is not simply the estimate after the chosen candidate),
    `_completed` (if the search has a parameter for the noise of the estimate), and
    `_make_cases_of_set` (if the search can judge candidates that process whole sets).
    """

    _parameter_constraints: dict = {
        "candidates": [StrOptions({"all"}), list, tuple, dict],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
        "random_state": [None, Integral, np.random.RandomState, np.random.Generator],
    }

    _part_parameters = ("queries",)

    candidates: Any
    queries: Any
    n_jobs: int | None
    verbose: int
    results_: SearchResults
    best_index_: int
    best_params_: dict[str, Any]
    best_score_: float
    best_estimator_: Any
    _rule = ""  # a sentence on why the chosen candidate does not rank first
    _expected: tuple[Any, Any] = (None, None)  # an estimate and its expected error

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        fill_in(cls, **_PARAGRAPHS)

    def __str__(self) -> str:
        """Return the repr of the search; after fit, also the table of results."""
        if not hasattr(self, "results_"):
            parts = getattr(self, "estimators_", {})
            return "\n\n".join([repr(self), *(f"{name}: {part}" for name, part in parts.items())])
        lines = [repr(self), repr(self.results_)]
        if hasattr(self, "best_index_"):
            lines.append(f"chosen: {self.results_['candidate'][self.best_index_]}")
        if self._rule:
            lines.append(self._rule)
        if not isinstance(self.estimate_, EstimateSet):
            error = self.expected_error_
            lines.append(f"expected error: {error}")
            if error.high > _WIDE_RANGE * error.low:
                lines.append("The range is wide because the noise of the reports hides the error.")
        return "\n".join(lines)

    @property
    def expected_error_(self) -> Any:
        """The expected root mean squared error of the answers, also if another metric was used.

        An :class:`~sklearn_ldp.model_selection.ExpectedError` with the attributes `value`; `low`
        and `high`, the ends of a range that contains the true error in about 80 % of settings; and
        `raw`, the error of the raw estimate. The scores in `results_` are errors on simulated
        users, or include the noise of held-out reports, so they are not errors to expect. For a
        set, this is a dict from the name of each estimate to its ExpectedError.
        """
        check_is_fitted(self, "estimate_")
        if isinstance(self.estimate_, EstimateSet):
            if not hasattr(self, "estimators_"):
                raise AttributeError(
                    f"{type(self).__name__} has no expected_error_ because one candidate was "
                    "chosen for a whole set. To get it, fit the search to a single estimate of the "
                    "set, such as estimates['age']."
                )
            return {name: search.expected_error_ for name, search in self.estimators_.items()}
        fitted, error = self._expected
        if fitted is not self.estimate_:
            raw = self._completed(self.estimate_.as_raw())
            queries = as_query_set(self.queries).aligned(raw.categories, raw.domain)
            with silent():
                error = expected_error(self.transform, raw, queries)
            self._expected = self.estimate_, error
        return error

    @property
    @abstractmethod
    def _error_name(self) -> str:
        """The label of the errors on the axis of a plot."""

    # -- the search -----------------------------------------------------------------------------
    def _fit_process(self, estimate):
        candidates = as_candidates(self.candidates, type(self).__name__)
        if estimate.shape[1] < 2:
            raise ValueError(
                f"{type(self).__name__} got an estimate of 1 feature(s), i.e. one category, whose "
                "frequency is always 1. Pass an estimate of at least two categories."
            )
        with each_warning_once():
            cases = self._make_cases(estimate)
            if isinstance(self.candidates, str):
                estimates = [self._completed(estimate), cases[0].estimate]
                candidates = suitable_candidates(candidates, self.queries, estimates)
            return self._search(candidates, cases, estimate)

    def _search(self, candidates: list, cases: list, estimate: Any) -> Any:
        """Judge the candidates, choose the best, and return the estimate (or set) after it."""
        judgments = self._judge_each(candidates, cases, self._judge(estimate))
        choice = self._choose(candidates, judgments, cases, estimate)
        is_raw = [isinstance(candidate, pp.Base) for candidate in candidates]
        self.results_ = choice.results
        self.results_.always_shown = (choice.chosen, *np.flatnonzero(is_raw))
        self._rule = choice.rule
        return self._refit(candidates, judgments, choice.chosen, estimate)

    @abstractmethod
    def _make_cases(self, estimate: FrequencyEstimate) -> list[Case]:
        """Return the cases on which candidates are judged; raise errors before any long work."""

    @abstractmethod
    def _judge(self, estimate: Any) -> Callable[[Any, list], Judgment]:
        """Return a function of (candidate, cases) that can be pickled for joblib workers."""

    @abstractmethod
    def _choose(
        self, candidates: list, judgments: list[Judgment], cases: list, estimate: Any
    ) -> Choice:
        """Return the results of all candidates, and the index of the chosen one."""

    def _refit(
        self, candidates: list, judgments: list[Judgment], chosen: int, estimate: Any
    ) -> Any:
        """Fit the chosen candidate to the estimate, and return the result."""
        self.best_index_ = chosen
        self.best_params_ = self.results_["params"][chosen]
        self.best_score_ = float(self.results_["mean_test_score"][chosen])
        self.best_estimator_ = clone(candidates[chosen])
        return self.best_estimator_.fit_transform(self._completed(estimate))

    def _judge_each(self, candidates: list, cases: list, judge: Callable) -> list[Judgment]:
        """Return the judgment of each candidate, computed by joblib workers."""
        n_values = len(candidates) * sum(case.size for case in cases)
        n_tasks = min(-(-n_values // _TASK), len(candidates))
        # Tasks take candidates in turn, because costly candidates are neighbors in the list.
        numbers = range(len(candidates))
        tasks = [
            (judge, [(number, clone(candidates[number])) for number in numbers[i::n_tasks]], cases)
            for i in range(n_tasks)
        ]
        judgments: dict[int, Judgment] = {}
        # Candidates that the user has not listed give no warnings; the chosen one does.
        is_all = isinstance(self.candidates, str)
        with silent(is_all), Progress(len(tasks), is_shown=bool(self.verbose)) as bar:
            for pairs in run(_judge_some, tasks, self.n_jobs):
                judgments |= pairs
                bar.finish(", ".join(candidate_name(candidates[number]) for number, _ in pairs))
        return [judgments[number] for number in numbers]

    # -- whole sets ---------------------------------------------------------------------------
    def _sees_whole_sets(self) -> bool:
        return bool(seeing_whole_sets(self.candidates))

    def _fit_set(self, estimates: EstimateSet) -> EstimateSet:
        if not self._sees_whole_sets():
            return super()._fit_set(estimates)
        candidates = as_candidates(self.candidates, type(self).__name__)
        with each_warning_once():
            cases = self._make_cases_of_set(estimates)
            return self._search(candidates, cases, estimates)

    def _make_cases_of_set(self, estimates: EstimateSet) -> list:
        """Return cases that are whole sets, on which candidates are judged."""
        name = candidate_name(seeing_whole_sets(self.candidates)[0])
        raise ValueError(
            f"{type(self).__name__} judges each table of a set separately, but its candidate "
            f"{name} processes all tables together. Use HeldOutSearch, which can judge whole sets."
        )

    def _transform_set(self, estimates: EstimateSet) -> EstimateSet:
        if not self._sees_whole_sets():
            return super()._transform_set(estimates)
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.transform(estimates)

    # -- estimates ----------------------------------------------------------------------------
    def _errors(self, truth: Any) -> Any:
        metric = getattr(self, "metric", "mse")
        return query_errors(truth, self.estimate_, queries=self.queries, metric=metric)

    def _process(self, estimate):
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.transform(self._completed(estimate))

    def _completed(self, estimate: Any) -> Any:
        """Return the estimate; if the search has a parameter for its noise, with this noise."""
        return estimate

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags


def _judge_some(judge: Callable, candidates: list, cases: list) -> list[tuple[int, Judgment]]:
    """Return pairs of the number and the judgment of each numbered candidate."""
    return [(number, judge(candidate, cases)) for number, candidate in candidates]


def suitable_candidates(
    candidates: list, queries: Queries | None, estimates: list[FrequencyEstimate]
) -> list:
    """Return the candidates that ``candidates="all"`` means for these queries and estimates.

    Parameters
    ----------
    candidates : list of post-processors
        The candidates for any domain.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None
        The queries.
    estimates : list of FrequencyEstimate
        Estimates that every candidate must be able to process.

    Returns
    -------
    list of post-processors
        The candidates for which the noise of the estimates is sufficient, and candidates that
        use the queries.
    """
    if not estimates[0].sums_to_one:  # the frequencies overlap, and queries have no sums
        few = [pp.Base(), pp.BasePos(), pp.BaseCut(), pp.NPMLE(simplex=False)]
        return [*few, pp.EmpiricalBayes(simplex=False, queries=queries)]
    noises = [estimate.noise for estimate in estimates if estimate.noise is not None]
    plain = [
        post
        for post in candidates
        if not post.needs or all(getattr(noise, post.needs) is not None for noise in noises)
    ]
    knowing = [
        post
        for post in candidates_knowing(queries)
        if all(post.knows(queries, estimate) for estimate in estimates)
    ]
    return plain + knowing


def refuse_changed(estimate: FrequencyEstimate, name: str) -> None:
    """Raise ValueError if the estimate has been post-processed.

    Parameters
    ----------
    estimate : FrequencyEstimate
        An estimate.
    name : str
        Class name of the search, for the error message.
    """
    if not estimate.is_raw:
        raise ValueError(
            f"{name} needs a raw estimate, got an estimate that was post-processed by "
            f"{' and '.join(estimate.postprocessors)}. Pass the estimate that the oracle "
            "returned. To apply a post-processor first, make each candidate a Pipeline."
        )


def default_index(candidates: list, queries: Any, estimate: FrequencyEstimate) -> int | None:
    """Return the index of the default: another candidate must be significantly better.

    Parameters
    ----------
    candidates : list of post-processors
        All candidates.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None
        The queries.
    estimate : FrequencyEstimate
        The estimate that answers them.

    Returns
    -------
    int or None
        References are candidates whose `is_reference` is true. The result is the last reference
        that uses the queries, otherwise the first reference; None if there is no reference.
    """
    references = [
        i
        for i, post in enumerate(candidates)
        if isinstance(post, BasePostProcessor) and post.is_reference(queries)
    ]
    knowing = [i for i in references if candidates[i].knows(queries, estimate)]
    return next(iter(knowing[-1:] or references), None)


def rule_text(names: np.ndarray, *, best: int, default: int, lead: str, demand: str) -> str:
    """Return a sentence that explains a choice; "" if the default ranks first.

    Parameters
    ----------
    names : ndarray of str of shape (n_candidates,)
        Names of the candidates.
    best : int
        Index of the candidate that ranks first.
    default : int
        Index of the default, which another candidate replaces only if it is significantly better.
    lead : str
        Text that states how much better the first candidate is than the default.
    demand : str
        Text that states how much better a candidate must be to replace the default.

    Returns
    -------
    str
        A sentence for the printed search.
    """
    if best == default:
        return ""
    return (
        f"{names[best]} ranks first, {lead}. A candidate replaces the default "
        f"{names[default]} if it is {demand}."
    )


def mean_over_rows(judgments: list[Judgment], n_rows: int, n_populations: int = 1) -> np.ndarray:
    """Return the errors of each split, averaged over the rows of the estimate.

    Parameters
    ----------
    judgments : list of Judgment
        The judgment of each candidate. Its errors are ordered by population, row and split.
    n_rows : int
        Number of rows of the estimate.
    n_populations : int, default=1
        Number of synthetic populations.

    Returns
    -------
    ndarray of shape (n_candidates, n_populations, n_splits)
        Mean errors.
    """
    errors = np.array([judgment.errors for judgment in judgments])
    return errors.reshape(len(errors), n_populations, n_rows, -1).mean(axis=2)


class SearchResults(dict[str, np.ndarray]):
    """Results of a search with one row per candidate; the repr shows the best candidates.

    Attributes
    ----------
    are_simulated_mse : bool
        Whether the scores are negative mean squared errors in simulations. The table then shows
        the square roots of these errors in percentage points.
    always_shown : tuple of int
        Rows that the table always shows: the chosen candidate and the raw estimate.
    """

    are_simulated_mse = False
    always_shown: tuple[int, ...] = ()

    def __repr__(self) -> str:
        """Return a table of names, mean scores, their standard errors, ranks and weights."""
        n_splits = sum(name.startswith("split") for name in self)
        scores = self["mean_test_score"]
        errors = self["std_test_score"] / np.sqrt(max(n_splits - 1, 1))
        head = "score"
        if self.are_simulated_mse:
            head = "simulated error (%)"
            scores = 100 * np.sqrt(-scores)
            # The standard error of the root, by the delta method.
            errors = 100**2 * errors / np.maximum(2 * scores, np.finfo(float).tiny)
        order = np.argsort(self["rank_test_score"], kind="stable")
        heads = ["candidate", head, "+-", "rank", *(["weight"] * ("weight" in self))]
        rows = []
        shown = [i for k, i in enumerate(order) if k < _MOST_SHOWN or i in self.always_shown]
        for i in shown:
            numbers = (scores[i], errors[i], self["rank_test_score"][i])
            row = [self["candidate"][i], *(f"{x:.3g}" for x in numbers)]
            rows.append([*row, f"{self['weight'][i]:.2f}"] if "weight" in self else row)
        more = f"\n{len(order) - len(rows)} more" * (len(order) > len(rows))
        return format_table(heads, rows) + more


def results_of(candidates: list, errors: np.ndarray) -> SearchResults:
    """Return a table with one row per candidate, like the `cv_results_` of GridSearchCV.

    Parameters
    ----------
    candidates : list of post-processors
        All candidates.
    errors : ndarray of shape (n_candidates, n_splits)
        The error of each candidate in each collection, split or draw of noise.

    Returns
    -------
    SearchResults
        The columns of `results_` that all searches share.
    """
    mean = -errors.mean(axis=1)
    columns = {
        "candidate": np.array([candidate_name(candidate) for candidate in candidates]),
        "params": objects([candidate.get_params(deep=False) for candidate in candidates]),
        **{f"split{i}_test_score": -column for i, column in enumerate(errors.T)},
        "mean_test_score": mean,
        "std_test_score": errors.std(axis=1),
        "rank_test_score": np.array([1 + np.count_nonzero(mean > m) for m in mean]),
    }
    return SearchResults(columns)
