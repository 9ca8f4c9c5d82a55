"""Bases of the searches: the errors of candidates are compared, and the best one is kept."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from .. import postprocessing
from .._domains.values import objects
from .._estimates import EstimateSet, FrequencyEstimate
from .._hints import QueryHints
from .._noise import Noise, as_rows, variances_after_norm
from .._utils.docs import fill_in
from .._utils.lazy import exported_classes
from .._utils.parallel import each_warning_once, run
from ..metrics import query_errors
from ..postprocessing import (
    BasePostProcessor,
    EmpiricalBayes,
    MLEApx,
    MonotoneCDF,
    Power,
    SmoothMLE,
    norm_sub,
)
from ..queries import Queries, QuerySet, as_query_set, query_matrix

PostProcessor: TypeAlias = BasePostProcessor | Pipeline
#: "all", a list, or a grid of parameters (or a list of grids) for each class name.
Candidates: TypeAlias = str | Sequence[PostProcessor] | Mapping[Any, Any]


def default_candidates() -> list[BasePostProcessor]:
    """Return the post-processors for any domain, with default parameters, the simplest first.

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
    return [
        postprocessing.Base(),
        postprocessing.Norm(),
        postprocessing.BasePos(),
        postprocessing.PostPos(),
        postprocessing.BaseCut(),
        postprocessing.NormSub(),
        postprocessing.NormCut(),
        postprocessing.NormMul(),
        postprocessing.NormHyb(),
        postprocessing.MLEApx(),
        postprocessing.Power(),
        postprocessing.PowerNS(),
        postprocessing.EmpiricalBayes(),
    ]


def as_candidates(candidates: Candidates, name: str) -> list:
    """Return the post-processors that a `candidates` parameter stands for.

    Parameters
    ----------
    candidates : "all", list or dict
        "all", a list of post-processors (or Pipelines of them), or a dict that gives a grid of
        parameters for each class name, such as
        ``{"NormSub": {}, "BaseCut": {"alpha": [0.05, 2]}}``.
    name : str
        The class or function to name in errors.

    Returns
    -------
    list of post-processors or Pipelines
        At least one.

    Raises
    ------
    TypeError
        If one of them is not a post-processor.
    ValueError
        If there is no candidate, or the class name or a parameter of a grid is not known.
    """
    if isinstance(candidates, str):  # "all", as the constraints have checked
        return default_candidates()
    if isinstance(candidates, Mapping):
        expanded = [_grid(key, grid, name) for key, grid in candidates.items()]
        candidates = [candidate for grid in expanded for candidate in grid]
    candidates = list(candidates)
    if not candidates:
        raise ValueError(f"{name} needs at least one candidate.")
    for candidate in candidates:
        steps = _steps(candidate)
        odd = [step for step in steps if not isinstance(step, BasePostProcessor)]
        if odd or not steps:
            raise TypeError(
                f"{name} chooses among post-processors (or Pipelines of them), got "
                f"{odd[0] if odd else candidate!r} as a candidate; give instances such as "
                "NormSub()."
            )
    return list(candidates)


def _steps(candidate: Any) -> list:
    """The steps of a Pipeline, or the post-processor itself."""
    is_pipeline = isinstance(candidate, Pipeline)
    return [step for _, step in candidate.steps] if is_pipeline else [candidate]


def seeing_whole_sets(candidates: Candidates) -> list[BasePostProcessor]:
    """Return those post-processors among the candidates that look at all parts of a set at once.

    Parameters
    ----------
    candidates : "all", list or dict
        As for `as_candidates`; what is no post-processor is left out.

    Returns
    -------
    list of post-processors
        Candidates, or steps of Pipelines among them.
    """
    if isinstance(candidates, str | Mapping):  # whose post-processors work part by part
        return []
    steps = [step for candidate in candidates for step in _steps(candidate)]
    return [s for s in steps if isinstance(s, BasePostProcessor) and s._sees_whole_sets()]


def _grid(key: Any, grid: Any, name: str) -> list:
    """Return one post-processor of a class for each combination of parameters in its grid."""
    from sklearn.model_selection import ParameterGrid  # slow to import, so only if needed

    known = exported_classes(postprocessing, BasePostProcessor)
    if key not in known:
        raise ValueError(
            f"{name} does not know the post-processor {key!r} of the candidates' grids; it knows "
            f"{', '.join(known)}."
        )
    # set_params refuses an unknown parameter and names the ones that the class has.
    return [known[key]().set_params(**parameters) for parameters in ParameterGrid(grid)]


def knowing_queries(
    queries: Queries | None, estimate: FrequencyEstimate
) -> list[BasePostProcessor]:
    """Return an EmpiricalBayes that knows what is asked, if that makes it another one.

    Parameters
    ----------
    queries : query set, (sparse) matrix of shape (n_queries, d) or None
        The queries.
    estimate : FrequencyEstimate
        An estimate over the domain.

    Returns
    -------
    list of EmpiricalBayes
        One of them, or none if the queries treat all categories alike.
    """
    if not any(QueryHints.of(queries, estimate.categories, "EmpiricalBayes")):
        return []
    return [EmpiricalBayes(queries=queries)]


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
_TASK = 100_000  # estimates post-processed by one task, which takes about a tenth of a second

_PARAGRAPHS = {
    "evidence": """This holds in expectation. If few queries are asked (a handful of groups), the
noise of the comparison can exceed the differences between candidates. So :class:`EmpiricalBayes`,
if it is among the candidates, is left for another one only if that one's error is less by
`min_z_score` standard deviations of the difference. If groups or ranges are asked for, the
candidates of "all" include an EmpiricalBayes that knows these queries, and takes that place. For
ranges and prefixes they include :class:`MonotoneCDF` too, and in a HeldOutSearch
:class:`SmoothMLE`, which takes that place, if the oracle counts the reports of each kind. For
``top_k`` noisy estimates cannot judge, as they do not tell who is among the k largest: "all" takes
the EmpiricalBayes that knows the query, whatever the errors in `results_` are.""",
    "candidates": """candidates : "all", list of post-processors or dict of grids, default="all"
    The post-processors to choose from; a list may hold Pipelines of them. "all" takes
    :func:`~sklearn_ldp.model_selection.default_candidates`. A dict gives a grid of parameters
    for each class name, such as ``{"NormSub": {}, "BaseCut": {"alpha": [0.05, 2]}}``, and
    every combination is a candidate.
queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
    The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category.
    For a set of estimates also a mapping by the names of parts.""",
    "min_z_score": """min_z_score : float, default=2.0
    By how many standard deviations of the difference another candidate must be better than
    EmpiricalBayes (or what takes its place). 0 takes the least error.""",
    "n_jobs": """n_jobs : int, default=None
    Number of joblib workers; it does not change the result.""",
    "results": """results_ : dict of ndarray
    One row per candidate: "candidate" (its name), "params", "mean_error" (squared distance to the
    noisy estimates that judge, including their variance), "standard_error" (of that mean, as if
    the cases were independent), "rank_error" (1 is best), and "difference_std" (the standard
    deviation of the difference from the mean error of EmpiricalBayes, or of what takes its place;
    NaN without one).""",
    "best": """best_index_ : int
    Row of the best candidate.
best_params_ : dict
    Parameters of the best candidate.
best_score_ : float
    Minus the mean error of the best candidate.
best_estimator_ : post-processor
    The best candidate, fitted on the whole estimate.""",
}


class Case(NamedTuple):
    """Estimates to post-process, and the frequencies that their answers are compared with."""

    estimate: FrequencyEstimate
    frequencies: np.ndarray
    queries: Any

    @property
    def size(self) -> int:
        """Number of values to post-process."""
        return self.estimate.values.size


class Judgement(NamedTuple):
    """What the cases say about one candidate.

    Parameters
    ----------
    errors : ndarray of shape (n_errors,)
        One error for each row of each case.
    answers : ndarray, dict of ndarray or None
        The candidate's answers, if the choice needs them; by name for a set of estimates.
    """

    errors: np.ndarray
    answers: Any = None


class BaseSearch(BasePostProcessor):
    """Base of the searches over post-processors, which are post-processors themselves.

    A search defines `_cases`. The error of a candidate is its mean error over the rows of all
    cases. Every candidate is judged on the same cases; of equally good candidates, the first one
    is chosen.
    """

    _parameter_constraints: dict = {
        "candidates": [StrOptions({"all"}), list, tuple, dict],
        "n_jobs": [None, Integral],
    }

    _of_each_part = ("queries",)

    candidates: Any
    queries: Any
    results_: dict[str, np.ndarray]
    best_index_: int
    best_params_: dict[str, Any]
    best_score_: float
    best_estimator_: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        fill_in(cls, **_PARAGRAPHS)

    @property
    @abstractmethod
    def _error_name(self) -> str:
        """What the errors are, on an axis."""

    def _refuse_changed(self, estimate: FrequencyEstimate) -> None:
        """Raise ValueError if the estimate is not raw."""
        if not estimate.is_raw:
            raise ValueError(
                f"{type(self).__name__} needs a raw estimate, but this one has been changed by "
                f"{' and '.join(estimate.postprocessors)}: pass the estimate that the oracle "
                "returned, and make the first step a part of each candidate (a Pipeline)."
            )

    @abstractmethod
    def _cases(self, estimate: FrequencyEstimate) -> list[Case]:
        """Return the cases to judge the candidates on; raise errors before any long work starts."""

    def _fit_process(self, estimate):
        candidates = self._all_candidates(estimate)
        if estimate.shape[1] < 2:
            raise ValueError(
                f"{type(self).__name__} got an estimate of 1 feature(s), that is one category, so "
                "there is nothing to choose: give an estimate of at least two categories."
            )
        with each_warning_once():
            return self._best(candidates, estimate)

    def _all_candidates(self, estimate: FrequencyEstimate) -> list:
        """Return the candidates to choose from."""
        candidates = as_candidates(self.candidates, type(self).__name__)
        noise = self._completed(estimate).noise if isinstance(self.candidates, str) else None
        if noise is not None:
            # What these need to know, not every noise tells: that of a matrix, or a level alone.
            needs = ((MLEApx, "null_variance"), (Power, "n_samples"))
            unfit = tuple(post for post, what in needs if getattr(noise, what) is None)
            candidates = [one for one in candidates if not isinstance(one, unfit)]
        return candidates + self._knowing_queries(estimate)

    def _knowing_queries(self, estimate: FrequencyEstimate) -> list:
        """Return more candidates of "all", for what is asked, if that makes a difference."""
        if not isinstance(self.candidates, str):
            return []
        monotone = [MonotoneCDF()] if as_query_set(self.queries).ordered else []
        return monotone + knowing_queries(self.queries, estimate)

    def _best(self, candidates: list, estimate: FrequencyEstimate) -> FrequencyEstimate:
        """Compare the candidates, and return what the best one makes of the estimate."""
        judgements = self._judgements(candidates, self._cases(estimate), estimate)
        self.results_ = results_of(candidates, judgements)
        self._keep(candidates, self._choice(candidates, judgements, estimate))
        return self.best_estimator_.fit_transform(self._completed(estimate))

    def _keep(self, candidates: list, best: int) -> None:
        """Keep which candidate is the best, when `results_` is known."""
        self.best_index_ = best
        self.best_params_ = self.results_["params"][best]
        self.best_score_ = -float(self.results_["mean_error"][best])
        self.best_estimator_ = clone(candidates[best])

    def _choice(
        self, candidates: list, judgements: list[Judgement], estimate: FrequencyEstimate
    ) -> int:
        """Return the index of the candidate to take, when `results_` is known."""
        return int(np.argmin(self.results_["mean_error"]))

    @abstractmethod
    def _judgements(
        self, candidates: list, cases: list[Case], estimate: FrequencyEstimate
    ) -> list[Judgement]:
        """Return what the cases, which were made from the estimate, say about each candidate."""

    def _of_each(self, what: Any, candidates: list, cases: Sequence[Any], *arguments: Any) -> list:
        """Return what a function gives for each candidate and all cases, through joblib."""
        n_values = len(candidates) * sum(case.size for case in cases)
        n_tasks = min(-(-n_values // _TASK), len(candidates))
        # Candidates are dealt out in turn, because costly ones stand next to each other.
        every = range(len(candidates))
        tasks = [
            (what, [(j, clone(candidates[j])) for j in every[i::n_tasks]], cases, *arguments)
            for i in range(n_tasks)
        ]
        results = dict(pair for pairs in run(_of_some, tasks, self.n_jobs) for pair in pairs)
        return [results[j] for j in every]

    # -- whole sets ---------------------------------------------------------------------------
    def _sees_whole_sets(self) -> bool:
        return bool(seeing_whole_sets(self.candidates))

    def _fit_set(self, estimates: EstimateSet) -> EstimateSet:
        if not self._sees_whole_sets():
            return super()._fit_set(estimates)
        candidates = as_candidates(self.candidates, type(self).__name__)
        with each_warning_once():
            return self._best_of_set(candidates, estimates)

    def _best_of_set(self, candidates: list, estimates: EstimateSet) -> EstimateSet:
        """Compare the candidates on all parts at once, and return what the best one makes."""
        name = candidate_name(seeing_whole_sets(candidates)[0])
        raise ValueError(
            f"{type(self).__name__} looks at each table alone, but its candidate {name} needs all "
            "of them at once: use HeldOutSearch, which judges whole sets of tables."
        )

    def _transform_set(self, estimates: EstimateSet) -> EstimateSet:
        if not self._sees_whole_sets():
            return super()._transform_set(estimates)
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.transform(estimates)

    # -- estimates ----------------------------------------------------------------------------
    def _process(self, estimate):
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.transform(self._completed(estimate))

    def _completed(self, estimate: FrequencyEstimate) -> FrequencyEstimate:
        """Return the estimate, with the noise that the search knows if the estimate does not."""
        return estimate

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags


def _of_some(what: Any, candidates: list, *arguments: Any) -> list[tuple[int, Any]]:
    """Return what a function gives for each numbered candidate, with its number."""
    return [(i, what(candidate, *arguments)) for i, candidate in candidates]


def results_of(candidates: list, judgements: list[Judgement]) -> dict[str, np.ndarray]:
    """Return one row per candidate, like GridSearchCV's cv_results_.

    Parameters
    ----------
    candidates : list of post-processors
        All candidates.
    judgements : list of Judgement
        What the cases say about each.

    Returns
    -------
    dict of ndarray
        The columns of `results_` that all searches have.
    """
    errors = np.array([judgement.errors for judgement in judgements])
    mean = errors.mean(axis=1)
    params = objects([candidate.get_params(deep=False) for candidate in candidates])
    n_rows = errors.shape[1]
    spread = errors.std(axis=1, ddof=1) if n_rows > 1 else np.full(len(mean), np.nan)
    return {
        "candidate": np.array([candidate_name(candidate) for candidate in candidates]),
        "params": params,
        "mean_error": mean,
        "standard_error": spread / np.sqrt(n_rows),
        "rank_error": np.array([1 + np.count_nonzero(mean < m) for m in mean]),
    }


# -- searches that compare with noisy estimates ----------------------------------------------------
class NoisySearch(BaseSearch):
    """Base of the searches whose cases compare with a raw estimate, and not with the truth.

    The expected squared distance to an unbiased estimate ranks the candidates correctly, but with
    few queries its noise can exceed the differences between them. So EmpiricalBayes, if it is
    among the candidates, is left for another one only if that one's error is less by `min_z_score`
    standard deviations of the difference. The cases come row by row, as many for each.
    """

    _parameter_constraints: dict = {
        **BaseSearch._parameter_constraints,
        "min_z_score": [Interval(Real, 0, None, closed="left")],
        "random_state": [None, Integral, np.random.RandomState, np.random.Generator],
    }

    min_z_score: float

    def _judgements(self, candidates, cases, estimate):
        return self._of_each(_errors_and_answers, candidates, cases, len(estimate))

    def _choice(self, candidates, judgements, estimate):
        if isinstance(self.candidates, str) and as_query_set(self.queries).depends_on_truth:
            # Only the truth could judge answers about the truly most frequent, so no one is judged.
            self._surely_best(None)
            return len(candidates) - 1
        is_ordered = as_query_set(self.queries).ordered
        reference, noise = reference_among(candidates, is_ordered), self._completed(estimate).noise
        if reference is None or noise is None:
            return self._surely_best(None)
        answers = np.array([judgement.answers for judgement in judgements])
        return self._surely_best(self._error_spread(answers - answers[reference], estimate, noise))

    def _surely_best(self, spread: np.ndarray | None) -> int:
        """Return the candidate to take, from how sure its difference from EmpiricalBayes is."""
        mean_error = self.results_["mean_error"]
        unknown = np.full(len(mean_error), np.nan)
        self.results_["difference_std"] = unknown if spread is None else spread
        needed = 0 if spread is None else self.min_z_score * spread
        return int(np.argmin(mean_error + needed))

    def _error_spread(
        self, differences: np.ndarray, estimate: FrequencyEstimate, noise: Noise
    ) -> np.ndarray:
        """Standard deviations of differences of errors, from the differences of the answers.

        The squared distance to a noisy response changes with the noise in proportion to how far
        the answers differ: by a linear answer of its own.
        """
        query_set = as_query_set(self.queries).aligned(estimate.categories, estimate.domain)
        d = estimate.shape[1]
        weights = query_set.square_weights(d)
        variances = np.zeros(len(differences))
        for i, values in enumerate(estimate.values):
            if weights is not None:
                rows = (weights[0] - weights[1]) * differences[:, i]
            else:
                matrix = query_set.matrix(d, values)
                rows = differences[:, i] @ matrix / matrix.shape[0]
            variances += variances_after_norm(noise.of_rows(i), as_rows(rows), norm_sub(values))
        more = self._response_variance(estimate)
        return 2 * np.sqrt(variances * more) / len(estimate)

    @abstractmethod
    def _response_variance(self, estimate: FrequencyEstimate) -> float:
        """Variance of what the candidates are compared with, over that of the estimate itself."""


def reference_among(candidates: list, is_ordered: bool = False) -> int | None:
    """Return which candidate the others have to be surely better than.

    Parameters
    ----------
    candidates : list of post-processors
        All candidates.
    is_ordered : bool, default=False
        Whether ranges are asked for.

    Returns
    -------
    int or None
        The index of an EmpiricalBayes, of the last one that knows more if there is one; for ranges
        that of a SmoothMLE, if there is one.
    """
    curves = [i for i, post in enumerate(candidates) if isinstance(post, SmoothMLE)]
    if is_ordered and curves:
        return curves[0]
    found = [i for i, post in enumerate(candidates) if isinstance(post, EmpiricalBayes)]

    def knows_more(post: EmpiricalBayes) -> bool:
        return post.groups is not None or bool(post.ordered) or post.queries is not None

    informed = [i for i in found if knows_more(candidates[i])]
    return informed[-1] if informed else next(iter(found), None)


def queries_of(query_set: QuerySet, values: np.ndarray) -> QuerySet:
    """Return the queries of a case; those that depend on the truth look at these values."""
    if query_set.depends_on_truth:
        return query_matrix(query_set.matrix(len(values), values))
    return query_set


def _errors_and_answers(candidate: Any, cases: list[Case], n_rows: int) -> Judgement:
    """The errors of a candidate on each case, and its mean answers (or values) for each row."""
    judged = [judged_case(case, candidate.fit_transform(case.estimate)) for case in cases]
    answers = np.array([answer for _, answer in judged])
    of_rows = answers.reshape(n_rows, -1, answers.shape[1])  # the cases come row by row
    return Judgement(np.array([error for error, _ in judged]), of_rows.mean(axis=1))


def judged_case(case: Case, result: FrequencyEstimate) -> tuple[float, np.ndarray]:
    """Return the error of one row, and its answers.

    Parameters
    ----------
    case : Case
        What the row is compared with.
    result : FrequencyEstimate of shape (1, d)
        What a candidate has made of the estimate of the case.

    Returns
    -------
    (float, ndarray)
        The error, which contains the noise of the case; and the answers, or the values if the error
        has a closed form.
    """
    is_closed = as_query_set(case.queries).square_weights(result.shape[1]) is not None
    answers = result.values if is_closed else result.answer(case.queries)
    return _error(case, result), answers[0]


def _error(case: Case, result: FrequencyEstimate) -> float:
    """The error of one row, in which the noise of the case is the same for all candidates."""
    queries, truth = as_query_set(case.queries), case.frequencies
    error = query_errors(truth, result, queries=queries)[0]
    if not result.clip_answers or queries.square_weights(len(truth)) is None:
        return error
    # Without clipping, the error over all sets is known. Drawn sets, whose noise is their own, are
    # only to tell what clipping changes.
    unclipped = replace(result, clip_answers=False)
    drawn = query_matrix(queries.matrix(len(truth)))
    error += query_errors(truth, unclipped, queries=queries)[0]
    return error - query_errors(truth, unclipped, queries=drawn)[0]
