"""The base class of all searches.

A search compares the errors of several post-processors, the candidates, and fits the best of them.
"""

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
    """Return the post-processors that suit any domain, with their default parameters.

    Returns
    -------
    list of post-processors
        The candidates of a search with ``candidates="all"``, from the simplest to the most complex.

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
    """Return the post-processors of the package that can use information from the queries.

    Parameters
    ----------
    queries : query set, (sparse) matrix of shape (n_queries, d) or None
        The queries of a search.

    Returns
    -------
    list of post-processors
        A search with ``candidates="all"`` adds those of them whose method `knows` returns True.
    """
    return [pp.MonotoneCDF(), pp.EmpiricalBayes(queries=queries), pp.SmoothMLE()]


def as_candidates(candidates: Candidates, name: str) -> list:
    """Return the list of post-processors that the value of a parameter `candidates` specifies.

    Parameters
    ----------
    candidates : "all", list or dict
        "all", a list of post-processors (or of Pipelines of post-processors), or a dict with a grid
        of parameters for each class. A key of the dict is a class, or the name of a class of the
        package, as in ``{"NormSub": {}, MyOwn: {"weight": [0.05, 2]}}``.
    name : str
        The class or function for the error messages.

    Returns
    -------
    list of post-processors or Pipelines
        The candidates. The list is never empty.

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
            f"{name} needs at least one candidate, got none. Pass a list of post-processors such "
            'as candidates=[Base(), NormSub()], or candidates="all".'
        )
    for candidate in candidates:
        steps = _steps(candidate)
        odd = [step for step in steps if not isinstance(step, BasePostProcessor)]
        if odd or not steps:
            raise TypeError(
                f"{name} got the candidate {odd[0] if odd else candidate!r}, which is not an "
                "instance of a post-processor. Pass instances such as NormSub(), or Pipelines of "
                "such instances. To compare with the unchanged estimate, pass Base()."
            )
    return candidates


def _steps(candidate: Any) -> list:
    """Return the list of a Pipeline's steps. If `candidate` is no Pipeline, return [candidate]."""
    is_pipeline = isinstance(candidate, Pipeline)
    return [step for _, step in candidate.steps] if is_pipeline else [candidate]


def seeing_whole_sets(candidates: Candidates) -> list[BasePostProcessor]:
    """Return the candidates that process all estimates of a set together, such as Consistent.

    Parameters
    ----------
    candidates : "all", list or dict
        The candidates, as for `as_candidates`. Objects that are not post-processors are ignored.

    Returns
    -------
    list of post-processors
        All candidates, and all steps of candidate Pipelines, that process a set as a whole.
    """
    if isinstance(candidates, str | Mapping):  # these post-processors work part by part
        return []
    steps = [step for candidate in candidates for step in _steps(candidate)]
    return [s for s in steps if isinstance(s, BasePostProcessor) and s._sees_whole_sets()]


def _grid(key: Any, grid: Any, name: str) -> list:
    """Return a list with one post-processor for each combination of parameters in a grid.

    key: the class of the post-processors, or its name. name: the name for error messages.
    """
    from sklearn.model_selection import ParameterGrid  # slow to import, so only if needed

    known = exported_classes(pp, BasePostProcessor)
    is_class = isinstance(key, type) and issubclass(key, BasePostProcessor)
    if not is_class and key not in known:
        raise ValueError(
            f"{name} got the unknown post-processor {key!r} as a key of candidates=. Pass a class "
            f"derived from BasePostProcessor, or one of the names {', '.join(known)}."
        )
    post_processor = key if is_class else known[key]
    # set_params refuses an unknown parameter and names the parameters of the class.
    return [post_processor().set_params(**parameters) for parameters in ParameterGrid(grid)]


def candidate_name(candidate: BaseEstimator) -> str:
    """Return a short name of a post-processor or of a Pipeline of post-processors.

    Parameters
    ----------
    candidate : post-processor or Pipeline
        The object whose name is returned.

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
    Number of joblib workers. The result does not depend on this number.""",
    "verbose": """verbose : int, default=0
    Whether to show the progress on stderr.""",
    "results": """results_ : dict of ndarray
    The scores of the candidates. Each array has one entry per candidate, as in `cv_results_` of
    scikit-learn. "candidate" is the name of the candidate, and "params" are its parameters.
    "split0_test_score", "split1_test_score" and so on are minus the errors in each simulated
    collection, split or draw of noise, so larger is better. "mean_test_score" and "std_test_score"
    are their means and standard deviations. "rank_test_score" is 1 for the best candidate. The dict
    and the search are printed as a table with the best candidate first. In this table, "+-" is the
    standard error of the mean score. It does not include the noise of the estimate.""",
    "best": """best_index_ : int
    Index of the chosen candidate in the arrays of `results_`.
best_params_ : dict
    Parameters of the chosen candidate.
best_score_ : float
    Mean score of the chosen candidate.
best_estimator_ : post-processor
    The chosen candidate, fitted on the whole estimate.""",
}


class Case(NamedTuple):
    """One test of the candidates (post-processors) of a search.

    Each candidate post-processes `estimate`. Its answers to `queries` are then compared with the
    answers that are computed from `frequencies`.
    """

    estimate: FrequencyEstimate
    frequencies: np.ndarray
    queries: Any

    @property
    def size(self) -> int:
        """The number of values that each candidate must post-process in this case."""
        return self.estimate.values.size


class Judgment(NamedTuple):
    """The errors of a candidate (post-processor) on all cases of a search.

    Parameters
    ----------
    errors : ndarray of shape (n_errors,)
        The error of each row of each case. A case is one test of the candidates.
    answers : ndarray, dict of ndarray or None
        The candidate's answers to the queries, or None if the search does not need the answers to
        choose a candidate. For a set of estimates, a dict from the name of each estimate to the
        answers.
    """

    errors: np.ndarray
    answers: Any = None


class Choice(NamedTuple):
    """The candidate that a search chooses, with the scores of all candidates.

    Parameters
    ----------
    results : SearchResults
        The scores of all candidates.
    chosen : int
        Index of the chosen candidate in `results`.
    rule : str
        A sentence that explains why the chosen candidate is not the candidate with the best score.
        It is "" if no explanation is needed.
    """

    results: SearchResults
    chosen: int
    rule: str = ""


class BaseSearch(BasePostProcessor):
    """Base class of searches that choose a post-processor. A search is also a post-processor.

    A search computes the errors of all candidates on the same cases, and chooses one candidate by
    these errors. A case is an estimate to post-process, together with frequencies with which the
    result is compared. A subclass must define three methods: `_make_cases` returns the cases,
    `_judge` returns the function that computes the errors of a candidate, and `_choose` chooses the
    candidate. A subclass may override `_refit` (if the result is not the estimate after the chosen
    candidate), `_completed` (if the search has a parameter for the noise of the estimate) and
    `_make_cases_of_set` (if the search accepts candidates that process a whole set of estimates).
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
        """Return the repr of the search and, after `fit`, also the table of the results."""
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
        """The expected root mean squared error of the answers, for any metric of the search.

        The attribute is an :class:`~sklearn_ldp.model_selection.ExpectedError`. Its attribute
        `value` is the expected error, `low` and `high` are the ends of a range that contains the
        true error in about 80 % of settings, and `raw` is the expected error of the raw estimate.
        The scores in `results_` are not estimates of the true error, because they are errors on
        simulated users, or include the noise of held-out reports. After a fit to a set, this
        attribute is a dict from the name of each estimate to its ExpectedError.
        """
        check_is_fitted(self, "estimate_")
        if isinstance(self.estimate_, EstimateSet):
            if not hasattr(self, "estimators_"):
                raise AttributeError(
                    f"{type(self).__name__} has no expected_error_ because one candidate was "
                    "chosen for a whole set of estimates. To get the expected error of an "
                    "estimate, fit the search to this estimate only, such as estimates['age']."
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
        """The label of the axis that shows the errors in a plot of the results."""

    # -- the search -----------------------------------------------------------------------------
    def _fit_process(self, estimate):
        candidates = as_candidates(self.candidates, type(self).__name__)
        if estimate.shape[1] < 2:
            raise ValueError(
                f"{type(self).__name__} got an estimate with 1 feature(s), which is one category, "
                "and its frequency is always 1. Pass an estimate with at least two categories."
            )
        with each_warning_once():
            cases = self._make_cases(estimate)
            if isinstance(self.candidates, str):
                estimates = [self._completed(estimate), cases[0].estimate]
                candidates = suitable_candidates(candidates, self.queries, estimates)
            return self._search(candidates, cases, estimate)

    def _search(self, candidates: list, cases: list, estimate: Any) -> Any:
        """Compute the errors of the candidates, choose one, and return the processed estimate.

        estimate: the estimate or set of estimates that the chosen candidate post-processes.
        """
        judgments = self._judge_each(candidates, cases, self._judge(estimate))
        choice = self._choose(candidates, judgments, cases, estimate)
        is_raw = [isinstance(candidate, pp.Base) for candidate in candidates]
        self.results_ = choice.results
        self.results_.always_shown = (choice.chosen, *np.flatnonzero(is_raw))
        self._rule = choice.rule
        return self._refit(candidates, judgments, choice.chosen, estimate)

    @abstractmethod
    def _make_cases(self, estimate: FrequencyEstimate) -> list[Case]:
        """Return the cases on which the errors of the candidates are computed.

        If the estimate is not suitable, this method must raise the error before slow computations.
        """

    @abstractmethod
    def _judge(self, estimate: Any) -> Callable[[Any, list], Judgment]:
        """Return a function that computes the errors of a candidate.

        The function has the arguments candidate and cases, and returns a Judgment. It must be
        picklable, because joblib workers call it.
        """

    @abstractmethod
    def _choose(
        self, candidates: list, judgments: list[Judgment], cases: list, estimate: Any
    ) -> Choice:
        """Return a Choice: the scores of all candidates, and the index of the chosen candidate."""

    def _refit(
        self, candidates: list, judgments: list[Judgment], chosen: int, estimate: Any
    ) -> Any:
        """Fit the chosen candidate to the estimate, and return the post-processed estimate.

        chosen: index of the candidate. The fitted attributes of the search are set.
        """
        self.best_index_ = chosen
        self.best_params_ = self.results_["params"][chosen]
        self.best_score_ = float(self.results_["mean_test_score"][chosen])
        self.best_estimator_ = clone(candidates[chosen])
        return self.best_estimator_.fit_transform(self._completed(estimate))

    def _judge_each(self, candidates: list, cases: list, judge: Callable) -> list[Judgment]:
        """Return a list with the Judgment of each candidate, computed by joblib workers.

        judge: the function from `_judge`.
        """
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
        """Return cases for candidates that process a whole set of estimates.

        By default, raise ValueError, because most searches process each estimate separately.
        """
        name = candidate_name(seeing_whole_sets(self.candidates)[0])
        raise ValueError(
            f"{type(self).__name__} chooses a candidate for each table of a set separately, but "
            f"its candidate {name} processes all tables together. Use HeldOutSearch, which can "
            "choose one candidate for a whole set."
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
        """Return the estimate with the noise that a parameter of the search specifies.

        By default, return the estimate unchanged, because there is no such parameter.
        """
        return estimate

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags


def _judge_some(judge: Callable, candidates: list, cases: list) -> list[tuple[int, Judgment]]:
    """Return a list of pairs: the number of each candidate, and its Judgment.

    candidates: pairs of a number and a candidate.
    """
    return [(number, judge(candidate, cases)) for number, candidate in candidates]


def suitable_candidates(
    candidates: list, queries: Queries | None, estimates: list[FrequencyEstimate]
) -> list:
    """Return the candidates of a search with ``candidates="all"``.

    Parameters
    ----------
    candidates : list of post-processors
        The candidates for any domain, from `default_candidates`.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None
        The queries of the search.
    estimates : list of FrequencyEstimate
        Estimates that every candidate must be able to process.

    Returns
    -------
    list of post-processors
        All candidates that do not need more information about the noise than the estimates contain,
        and additional candidates that use the queries.
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
    """Raise ValueError if an estimate has been post-processed.

    Parameters
    ----------
    estimate : FrequencyEstimate
        The estimate that is checked.
    name : str
        Class name of the search, for the error message.

    Raises
    ------
    ValueError
        If the estimate is not raw.
    """
    if not estimate.is_raw:
        raise ValueError(
            f"{name} needs a raw estimate, got an estimate that was post-processed by "
            f"{' and '.join(estimate.postprocessors)}. Pass the estimate that the oracle "
            "returned. If every candidate should be applied after this post-processor, pass "
            "Pipelines of both as candidates=."
        )


def default_index(candidates: list, queries: Any, estimate: FrequencyEstimate) -> int | None:
    """Return the index of the default candidate.

    A search chooses another candidate only if it is significantly better than the default.

    Parameters
    ----------
    candidates : list of post-processors
        All candidates.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None
        The queries of the search.
    estimate : FrequencyEstimate
        The estimate from which the queries are answered.

    Returns
    -------
    int or None
        The index of a candidate whose method `is_reference` returns True. If there are several, it
        is the last one whose method `knows` also returns True, or the first one if there is no such
        candidate. If `is_reference` returns True for no candidate, the result is None.
    """
    references = [
        i
        for i, post in enumerate(candidates)
        if isinstance(post, BasePostProcessor) and post.is_reference(queries)
    ]
    knowing = [i for i in references if candidates[i].knows(queries, estimate)]
    return next(iter(knowing[-1:] or references), None)


def rule_text(names: np.ndarray, *, best: int, default: int, lead: str, demand: str) -> str:
    """Return a sentence that explains why the candidate with the best score may not be chosen.

    Parameters
    ----------
    names : ndarray of str of shape (n_candidates,)
        Names of the candidates.
    best : int
        Index of the candidate with the best score.
    default : int
        Index of the default candidate. Another candidate is chosen only if it is significantly
        better.
    lead : str
        Text that states how much better the best candidate is than the default.
    demand : str
        Text that states how much better a candidate must be to be chosen instead of the default.

    Returns
    -------
    str
        The sentence, which is printed with the search. It is "" if the default has the best score.
    """
    if best == default:
        return ""
    return (
        f"{names[best]} ranks first, {lead}. Because small gains may be due to chance, the default "
        f"{names[default]} is kept unless a candidate is {demand}."
    )


def mean_over_rows(judgments: list[Judgment], n_rows: int, n_populations: int = 1) -> np.ndarray:
    """Return the error of each candidate in each split, averaged over the rows of the estimate.

    Parameters
    ----------
    judgments : list of Judgment
        The errors of each candidate, ordered by population, then by row, then by split.
    n_rows : int
        Number of rows of the estimate.
    n_populations : int, default=1
        Number of synthetic populations on which the candidates were compared.

    Returns
    -------
    ndarray of shape (n_candidates, n_populations, n_splits)
        The mean errors.
    """
    errors = np.array([judgment.errors for judgment in judgments])
    return errors.reshape(len(errors), n_populations, n_rows, -1).mean(axis=2)


class SearchResults(dict[str, np.ndarray]):
    """The results of a search, as a dict of arrays with one entry per candidate.

    The repr is a table of the best candidates.

    Attributes
    ----------
    are_simulated_mse : bool
        Whether the scores are minus mean squared errors in simulations. The table then shows the
        square roots of these errors in percentage points.
    always_shown : tuple of int
        Indices of the candidates that the table always shows: the chosen candidate, and Base, which
        is the raw estimate.
    """

    are_simulated_mse = False
    always_shown: tuple[int, ...] = ()

    def __repr__(self) -> str:
        """Return a table of the best candidates.

        Its columns are the names, the mean scores and their standard errors, the ranks, and for a
        SyntheticStack also the weights.
        """
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
    """Return the scores of all candidates, like the `cv_results_` of GridSearchCV.

    Parameters
    ----------
    candidates : list of post-processors
        All candidates.
    errors : ndarray of shape (n_candidates, n_splits)
        The error of each candidate in each simulated collection, split or draw of noise.

    Returns
    -------
    SearchResults
        The entries that the attribute `results_` of every search contains.
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
