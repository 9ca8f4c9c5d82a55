"""Bases of the searches: the errors of candidates are compared, and the best one is kept."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from .. import postprocessing as pp
from .._core.domains.values import objects
from .._core.estimates import EstimateSet, FrequencyEstimate
from .._core.estimates.errors import query_errors
from .._core.queries import Queries, as_query_set
from .._core.support.docs import fill_in
from .._core.support.lazy import exported_classes
from .._core.support.parallel import each_warning_once, run, silent
from .._core.support.progress import Progress
from .._core.support.text import format_table
from ..postprocessing import BasePostProcessor
from ._expected_error import expected_error

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
    few = [pp.Base(), pp.Norm(), pp.BasePos(), pp.PostPos(), pp.BaseCut(), pp.NormSub()]
    more = [pp.NormCut(), pp.NormMul(), pp.NormHyb(), pp.MLEApx(), pp.Power(), pp.PowerNS()]
    return [*few, *more, pp.EmpiricalBayes()]


def candidates_knowing(queries: Queries | None) -> list[BasePostProcessor]:
    """Return post-processors that may be told what is asked, of which `knows` tells who is.

    Parameters
    ----------
    queries : query set, (sparse) matrix of shape (n_queries, d) or None
        The queries.

    Returns
    -------
    list of post-processors
        More candidates of a search with ``candidates="all"``.
    """
    return [pp.MonotoneCDF(), pp.EmpiricalBayes(queries=queries), pp.SmoothMLE()]


def as_candidates(candidates: Candidates, name: str) -> list:
    """Return the post-processors that a `candidates` parameter stands for.

    Parameters
    ----------
    candidates : "all", list or dict
        "all", a list of post-processors (or Pipelines of them), or a dict that gives a grid of
        parameters for each class, or name of a class of the package, such as
        ``{"NormSub": {}, MyOwn: {"weight": [0.05, 2]}}``.
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
        candidates = [one for key, grid in candidates.items() for one in _grid(key, grid, name)]
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
                "NormSub(), or Base(), which changes nothing."
            )
    return candidates


def _steps(candidate: Any) -> list:
    """The steps of a Pipeline, or the post-processor itself."""
    is_pipeline = isinstance(candidate, Pipeline)
    return [step for _, step in candidate.steps] if is_pipeline else [candidate]


def seeing_whole_sets(candidates: Candidates) -> list[BasePostProcessor]:
    """Return the post-processors among the candidates that look at all parts of a set at once.

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

    known = exported_classes(pp, BasePostProcessor)
    is_class = isinstance(key, type) and issubclass(key, BasePostProcessor)
    if not is_class and key not in known:
        raise ValueError(
            f"{name} got the unknown post-processor {key!r} in a grid. Give a class derived from "
            f"BasePostProcessor, or one of the names {', '.join(known)}."
        )
    make = key if is_class else known[key]
    # set_params refuses an unknown parameter and names the parameters of the class.
    return [make().set_params(**parameters) for parameters in ParameterGrid(grid)]


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
_TASK = 100_000  # estimates post-processed by one task, which takes about a tenth of a second

_PARAGRAPHS = {
    "n_jobs": """n_jobs : int, default=None
    Number of joblib workers; it does not change the result.""",
    "verbose": """verbose : int, default=0
    Whether to show the progress on stderr.""",
    "results": """results_ : dict of ndarray
    One row per candidate, which print as a table, best first (so does the search itself); "+-" is
    the standard error over collections, splits or draws, without that of the estimate. As
    `cv_results_` of scikit-learn has them: "candidate" (its name),
    "params", "mean_test_score" (minus the mean error; larger is better), "std_test_score" and
    "split0_test_score", .. (over the collections, splits or draws), "rank_test_score" (1 is
    best).""",
    "best": """best_index_ : int
    Row of the best candidate.
best_params_ : dict
    Parameters of the best candidate.
best_score_ : float
    Mean score of the best candidate.
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
    """The judgement of the cases about one candidate.

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
        "verbose": ["verbose"],
        "random_state": [None, Integral, np.random.RandomState, np.random.Generator],
    }

    _of_each_part = ("queries",)

    candidates: Any
    queries: Any
    n_jobs: int | None
    verbose: int
    results_: SearchResults
    best_index_: int
    best_params_: dict[str, Any]
    best_score_: float
    best_estimator_: Any
    _rule = ""  # a sentence on why the chosen candidate may not rank first
    _expected: tuple[Any, Any] = (None, None)  # an estimate and its expected error

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        fill_in(cls, **_PARAGRAPHS)

    def __str__(self) -> str:
        """The parameters, and the results if there are any."""
        if not hasattr(self, "results_"):
            parts = getattr(self, "estimators_", {})
            return "\n\n".join([repr(self), *(f"{name}: {one}" for name, one in parts.items())])
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
        """The root mean squared error to expect of the answers, whatever the metric is.

        An :class:`~sklearn_ldp.model_selection.ExpectedError` with the attributes `value`; `low`
        and `high`, the ends of a range that contains the true error in about 80 % of settings; and
        `raw`, the error of the raw estimate. The scores in `results_` are errors on simulated
        users, or include the noise of held-out reports, so they are not errors to expect. A set of
        estimates has a dict by the names of its parts.
        """
        check_is_fitted(self, "estimate_")
        if isinstance(self.estimate_, EstimateSet):
            if not hasattr(self, "estimators_"):
                raise AttributeError(
                    f"{type(self).__name__} has no expected_error_ where one candidate was chosen "
                    "for a whole set. Search a part alone, such as estimates['age']."
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
        """The name of the errors, on an axis."""

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
        candidates = as_candidates(self.candidates, type(self).__name__)
        if estimate.shape[1] < 2:
            raise ValueError(
                f"{type(self).__name__} got an estimate of 1 feature(s), that is one category, so "
                "there is nothing to choose: give an estimate of at least two categories."
            )
        with each_warning_once():
            cases = self._cases(estimate)
            if isinstance(self.candidates, str):
                candidates = self._all(candidates, self._completed(estimate), cases[0].estimate)
            return self._best(candidates, cases, estimate)

    def _all(self, candidates: list, *estimates: FrequencyEstimate) -> list:
        """Return the candidates of "all" that can process all estimates, and know the queries."""
        if not estimates[0].sums_to_one:  # shares overlap, and queries add up nothing
            plain = [pp.Base(), pp.BasePos(), pp.BaseCut(), pp.NPMLE(simplex=False)]
            return [*plain, pp.EmpiricalBayes(simplex=False, queries=self.queries)]
        noises = [one.noise for one in estimates if one.noise is not None]
        known = candidates_knowing(self.queries)
        known = [post for post in known if all(post.knows(self.queries, one) for one in estimates)]
        return [
            post
            for post in candidates
            if not post.needs or all(getattr(noise, post.needs) is not None for noise in noises)
        ] + known

    def _best(
        self, candidates: list, cases: list[Case], estimate: FrequencyEstimate
    ) -> FrequencyEstimate:
        """Compare the candidates, and return what the estimate becomes."""
        judgements = self._judgements(candidates, cases, estimate)
        errors = np.array([judgement.errors for judgement in judgements])
        self.results_ = results_of(candidates, self._splits(errors, len(estimate)))
        chosen = self._choice(candidates, judgements, estimate)
        is_raw = [isinstance(candidate, pp.Base) for candidate in candidates]
        self.results_.always_shown = (chosen, *np.flatnonzero(is_raw))
        return self._made(candidates, judgements, chosen, estimate)

    def _made(
        self, candidates: list, judgements: list[Judgement], chosen: int, estimate: Any
    ) -> FrequencyEstimate:
        """Return what the chosen candidate makes of the estimate."""
        self._keep(candidates, chosen)
        return self.best_estimator_.fit_transform(self._completed(estimate))

    def _state_rule(self, best: int, reference: int, lead: str, demand: str) -> None:
        """Keep a sentence on the rule of the choice, if the default does not rank first."""
        names = self.results_["candidate"]
        if best != reference:
            self._rule = (
                f"{names[best]} ranks first, {lead}. A candidate replaces the default "
                f"{names[reference]} if it is {demand}."
            )

    def _splits(self, errors: np.ndarray, n_rows: int) -> np.ndarray:
        """The errors of each split, over all rows of the estimate: (n_candidates, n_splits)."""
        return errors.reshape(len(errors), n_rows, -1).mean(axis=1)

    def _keep(self, candidates: list, best: int) -> None:
        """Keep which candidate is the best, when `results_` is known."""
        self.best_index_ = best
        self.best_params_ = self.results_["params"][best]
        self.best_score_ = float(self.results_["mean_test_score"][best])
        self.best_estimator_ = clone(candidates[best])

    @abstractmethod
    def _choice(
        self, candidates: list, judgements: list[Judgement], estimate: FrequencyEstimate
    ) -> int:
        """Return the index of the candidate to take, when `results_` is known."""

    @abstractmethod
    def _judgements(
        self, candidates: list, cases: list[Case], estimate: FrequencyEstimate
    ) -> list[Judgement]:
        """Return the judgement of each candidate by cases that were made from the estimate."""

    def _reference(self, candidates: list, queries: Any, estimate: FrequencyEstimate) -> int | None:
        """Return which candidate the others have to be surely better than, if there is one."""
        found = [
            i
            for i, post in enumerate(candidates)
            if isinstance(post, BasePostProcessor) and post.is_reference(queries)
        ]
        knowing = [i for i in found if candidates[i].knows(queries, estimate)]
        return next(iter(knowing[-1:] or found), None)

    def _of_each(self, what: Any, candidates: list, cases: Sequence[Any], *arguments: Any) -> list:
        """Return the results of a function for each candidate and all cases, through joblib."""
        n_values = len(candidates) * sum(case.size for case in cases)
        n_tasks = min(-(-n_values // _TASK), len(candidates))
        # Candidates are dealt out in turn, because costly ones stand next to each other.
        every = range(len(candidates))
        tasks = [
            (what, [(j, clone(candidates[j])) for j in every[i::n_tasks]], cases, *arguments)
            for i in range(n_tasks)
        ]
        results: dict[int, Any] = {}
        # Candidates that the user has not named say nothing; the one that is taken does.
        is_all = isinstance(self.candidates, str)
        with silent(is_all), Progress(len(tasks), is_shown=bool(self.verbose)) as bar:
            for pairs in run(_of_some, tasks, self.n_jobs):
                results |= pairs
                bar.finish(", ".join(candidate_name(candidates[j]) for j, _ in pairs))
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
            "of them at once: use HeldOutSearch, which judges whole sets by their shards."
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

    def _completed(self, estimate: FrequencyEstimate) -> FrequencyEstimate:
        """Return the estimate, with the noise that the search knows if the estimate does not."""
        return estimate

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags


def _of_some(what: Any, candidates: list, *arguments: Any) -> list[tuple[int, Any]]:
    """Return the results of a function for numbered candidates, each with its number."""
    return [(i, what(candidate, *arguments)) for i, candidate in candidates]


class SearchResults(dict[str, np.ndarray]):
    """One row per candidate; their repr is a table of the best ones.

    Attributes
    ----------
    are_simulated_mse : bool
        Whether minus the scores are mean squared errors in simulations; the table then shows their
        square roots in percentage points.
    always_shown : tuple of int
        Rows of the table in any case: the chosen candidate and the raw estimate.
    """

    are_simulated_mse = False
    always_shown: tuple[int, ...] = ()

    def __repr__(self) -> str:
        """Names, mean scores with standard errors over splits, ranks and weights."""
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
    """Return one row per candidate, like GridSearchCV's cv_results_.

    Parameters
    ----------
    candidates : list of post-processors
        All candidates.
    errors : ndarray of shape (n_candidates, n_splits)
        What each collection, split or draw says about them.

    Returns
    -------
    SearchResults
        The columns of `results_` that all searches have.
    """
    mean = -errors.mean(axis=1)
    columns = {
        "candidate": np.array([candidate_name(candidate) for candidate in candidates]),
        "params": objects([candidate.get_params(deep=False) for candidate in candidates]),
        **{f"split{i}_test_score": -of_split for i, of_split in enumerate(errors.T)},
        "mean_test_score": mean,
        "std_test_score": errors.std(axis=1),
        "rank_test_score": np.array([1 + np.count_nonzero(mean > m) for m in mean]),
    }
    return SearchResults(columns)
