"""Search without the truth: candidates are compared with reports that they have not seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.estimates import EstimateSet, FrequencyEstimate
from .._core.noise import NOISE_CONSTRAINT, Noise, as_rows, variances_after_norm
from .._core.queries import Queries, QuerySet, as_query_set
from .._core.support.parallel import run_in_order
from .._core.support.random import RandomState, as_generator
from ..postprocessing import resolve_noise
from ._base import BaseSearch, Candidates, Case, Judgement, SearchResults, results_of
from ._drawn_noise import (
    consistent_values,
    correlated,
    plausible_frequencies,
    variances_of_each,
)
from ._noisy_cases import (
    SetCase,
    errors_and_answers,
    errors_and_answers_of_set,
    queries_of,
)

_PARTS = 4  # of the candidates, whose answers' variances are computed in a task each


class HeldOutSearch(BaseSearch):
    """Choose the post-processor that does best on held-out reports.

    The shards of an estimate's reports are split in two, several times. The candidates post-process
    the estimate from the first shards, and are compared with the raw estimate from the others,
    shifted to the known sum 1 (Norm). The latter is unbiased and independent. So the
    expected squared distance to it is the squared error with respect to the truth plus its
    variance, which is the same for all candidates. In expectation the candidates are therefore
    ranked correctly, without the truth, without a second collection and at no privacy cost.
    Without the shift, the noise of the sum would hide the differences for large sets.

    Other estimates, and plain arrays with their `noise`, have no shards. Of such an estimate x two
    others are made: ``x + sqrt(alpha) w`` and ``x - w / sqrt(alpha)``, where the noise w is drawn
    with the covariances of x (the coupled bootstrap [1]_). If the noise of x is normal, the two
    are independent, as those of disjoint reports are. The candidates post-process the first one,
    which is as noisy as an estimate of ``n / (1 + alpha)`` users, and are compared with the second.

    This holds in expectation. If few queries are asked (a handful of groups), the
    noise of the comparison can exceed the differences between candidates. So
    :class:`EmpiricalBayes`, if it is among the candidates, is left for another one only if that
    one's error is less by `min_z_score` standard deviations of the difference. If groups or ranges
    are asked for, the candidates of "all" include an EmpiricalBayes that knows these queries, and
    takes that place. For ranges and prefixes they include :class:`MonotoneCDF` too, and
    :class:`SmoothMLE`, which takes that place, if the shards count the reports of each kind. For
    ``top_k`` noisy estimates cannot judge, as they do not tell who is among the k largest: "all"
    takes the EmpiricalBayes that knows the query, whatever the scores in `results_` are.

    Each part of a set is judged alone, and may get another post-processor. But if one of the
    candidates looks at all tables of a set at once (:class:`~sklearn_ldp.Consistent`,
    :class:`~sklearn_ldp.LatentClasses`, or a Pipeline with one of them), one candidate is chosen
    for the whole set: the shards of every table are split, the candidates post-process the set of
    tables from the first shards, and their error is the mean over all answers of all tables. That
    needs tables that users were asked about themselves, as with ``MarginalOracle(method="split")``.

    To our knowledge the method is unpublished for frequency oracles. With shards it is the hold-out
    method of regression, with the raw estimate as the response.

    Parameters
    ----------
    candidates : "all", list of post-processors or dict of grids, default="all"
        The post-processors to choose from; a list may hold Pipelines of them. "all" takes
        :func:`~sklearn_ldp.model_selection.default_candidates`. A dict gives a grid of parameters
        for each class name, such as ``{"NormSub": {}, "BaseCut": {"alpha": [0.05, 2]}}``, and
        every combination is a candidate.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category.
        For a set of estimates also a mapping by the names of parts.
        ``top_k`` takes the largest categories of the estimate that the candidates see.
    method : {"auto", "shards", "bootstrap"}, default="auto"
        What judges: "shards" are for a single raw estimate of an oracle that kept them
        (``n_shards > 1``, as by default), "bootstrap" for all others. "auto" takes shards if there
        are two with reports, and no `noise` is given.
    test_size : float, default=None
        Share of the reports that judge, in (0, 1); of shards either side has at least one. For a
        bootstrap it is ``alpha / (1 + alpha)``: the smaller, the closer candidates are judged to
        how they work on the estimate itself, and the more noise there is in the comparison. None is
        0.2 of the shards, and an alpha of 0.15.
    min_z_score : float, default=3.0
        By how many standard deviations of the difference another candidate must be better than
        EmpiricalBayes (or what takes its place). 0 takes the least error. With 2, one of a dozen
        candidates often seems better by chance (notes on choosing).
    n_splits : int, default=None
        How many times the shards are split, or noise is drawn for each row, where each draw is
        used with both signs. None is 10, and 4 draws.
    noise : float or NoiseModel, default=None
        The noise of the estimate, for a bootstrap. None takes the noise that the estimate carries.
        For a plain array give a :class:`~sklearn_ldp.NoiseModel`, such as ``oracle.noise_``, or the
        noise level: the standard deviation of the estimate of a category that nobody has. With a
        level alone, "all" leaves out MLEApx, Power and PowerNS, which need more. Unless the noise
        knows covariances, as that of an oracle does, errors of different categories are taken as
        independent.
    %(n_jobs)s
    %(verbose)s
    random_state : int, RandomState, Generator or None, default=0
        Seed of the splits, or of the noise.

    Attributes
    ----------
    %(results)s
        The errors are squared distances to the noisy estimates that judge, and include their
        variance. "difference_std" is the standard deviation of the difference from the mean error
        of EmpiricalBayes, or of what takes its place; NaN without one.
    %(best)s
    method_ : {"shards", "bootstrap"}
        What has judged.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        The estimate, post-processed by the best candidate; of a set, a dict of these by name.
    %(fitted)s

    See Also
    --------
    SyntheticSearch : Judges the candidates on a synthetic data set, as the papers do.

    Notes
    -----
    With as few reports as in the notes of :class:`~sklearn_ldp.Calibrate`, the chosen candidate's
    error in every category exceeds that of NormSub by over 5 % in 1 of 72 cells, by a factor of
    1.66 with shards and of 1.23 with a bootstrap. Four fifths of few reports are fewer still, and
    the noise of few is skewed, so that the two copies are not independent.

    For prefixes behind OUE it leaves its reference seldom, as the noise of held-out prefixes is
    much larger than what candidates differ by; the error is 1.7 times that of hindsight's best. A
    lower limit (`min_z_score`) picks by noise instead: such questions are for
    :class:`~sklearn_ldp.RangeOracle`.

    References
    ----------
    .. [1] N. L. Oliveira, J. Lei, R. J. Tibshirani, "Unbiased risk estimation in the normal means
       problem via coupled bootstrap techniques" (2021), :doi:`10.48550/arXiv.2111.09447`.

    Examples
    --------
    >>> from sklearn_ldp import HeldOutSearch, NoiseModel, OLH
    >>> from sklearn_ldp.datasets import load_us_states
    >>> states = load_us_states(n_samples=100_000, random_state=0)
    >>> oracle = OLH(categories=states.categories, random_state=0)
    >>> estimate = oracle.fit_transform(states.categories, sample_weight=states.counts)
    >>> HeldOutSearch().fit(estimate).results_["rank_test_score"].shape
    (13,)
    >>> old = estimate.values  # all that was kept of an old collection
    >>> HeldOutSearch(noise=NoiseModel(p=0.5, q=0.25, n_samples=100_000)).fit(old).best_index_
    12

    Tables of several columns, among post-processors that look at all of them:

    >>> import numpy as np
    >>> from sklearn_ldp import Consistent, MarginalOracle, NormSub
    >>> users = np.random.default_rng(0).binomial(1, 0.3, (20_000, 3))
    >>> survey = MarginalOracle(domains={"a": 2, "b": 2, "c": 2}, method="split", random_state=0)
    >>> HeldOutSearch([NormSub(), Consistent()]).fit(survey.fit_transform(users)).best_estimator_
    Consistent()
    """

    _parameter_constraints: dict = {
        **BaseSearch._parameter_constraints,
        "method": [StrOptions({"auto", "shards", "bootstrap"})],
        "test_size": [None, Interval(Real, 0, 1, closed="neither")],
        "min_z_score": [Interval(Real, 0, None, closed="left")],
        "n_splits": [None, Interval(Integral, 1, None, closed="left")],
        "noise": NOISE_CONSTRAINT,
    }

    sums_to_one = False  # its candidates say for themselves
    method_: str

    def __init__(
        self,
        candidates: Candidates = "all",
        *,
        queries: Queries | Mapping[Any, Queries] | None = None,
        method: str = "auto",
        test_size: float | None = None,
        min_z_score: float = 3.0,
        n_splits: int | None = None,
        noise: float | Noise | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = 0,
    ) -> None:
        self.candidates = candidates
        self.queries = queries
        self.method = method
        self.test_size = test_size
        self.min_z_score = min_z_score
        self.n_splits = n_splits
        self.noise = noise
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @property
    def _error_name(self):
        judges = "held-out estimates" if self.method_ == "shards" else "noisy copies"
        return f"squared error to {judges}, their noise included"

    def _completed(self, estimate):
        if self.noise is None:
            return estimate
        return replace(estimate, noise=resolve_noise(estimate, self.noise, type(self).__name__))

    # -- one estimate -------------------------------------------------------------------------
    def _cases(self, estimate):
        is_split = self.method == "auto" and self.noise is None and _n_filled(estimate) > 1
        self.method_ = "shards" if is_split else self.method.replace("auto", "bootstrap")
        self._refuse_changed(estimate)
        if estimate.shares_overlap and not as_query_set(self.queries).depends_on_truth:
            estimate.answer(self.queries)  # refuses sums
        if self.method_ == "bootstrap":
            return self._noisy_copies(estimate)
        if _n_filled(estimate) < 2:
            raise ValueError(
                'HeldOutSearch(method="shards") needs a single raw estimate with at least two '
                'shards of reports (n_shards > 1): pass oracle.estimate_, or take method="auto".'
            )
        query_set = as_query_set(self.queries)
        rng = as_generator(self.random_state)
        cases = []
        for _ in range(self._n_splits):
            training, held_out = self._split(estimate, rng)
            train = estimate.of_shards(training)
            cases.append(_case(train, estimate.of_shards(held_out), query_set))
        return cases

    @property
    def _n_splits(self):
        return self.n_splits or (10 if self.method_ == "shards" else 4)

    def _split(
        self, estimate: FrequencyEstimate, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the shards that make the estimate, and those that judge."""
        filled = np.flatnonzero(estimate.shards.sizes)
        order, n_test = rng.permutation(filled), self._n_test(len(filled))
        return order[n_test:], order[:n_test]

    def _n_test(self, n_filled):
        """Number of shards that judge."""
        return int(np.clip(round((self.test_size or 0.2) * n_filled), 1, n_filled - 1))

    def _noisy_copies(self, estimate: FrequencyEstimate) -> list[Case]:
        """Add noise to the estimate for the candidates to see, and take it away to judge them."""
        noise = resolve_noise(estimate, self.noise, type(self).__name__)
        query_set = as_query_set(self.queries)
        rng = as_generator(self.random_state)
        alpha = 0.15 if self.test_size is None else self.test_size / (1 - self.test_size)
        n_splits, d = self._n_splits, estimate.shape[1]
        tasks = [
            (noise.of_rows(i), plausible_frequencies(estimate, values), rng.standard_normal(d))
            for i, values in enumerate(estimate.values)
            for _ in range(n_splits)
        ]
        drawn = np.reshape(run_in_order(correlated, tasks, self.n_jobs), (-1, n_splits, d))
        cases = []
        for i, values in enumerate(estimate.values):
            scaled = noise.of_rows(i).scaled(1 + alpha)
            row = replace(estimate[i], noise=scaled, shards=None)
            for one in drawn[i]:
                for signed in (one, -one):
                    seen = row.with_values(values + np.sqrt(alpha) * signed)
                    response = consistent_values(row, values - signed / np.sqrt(alpha))
                    cases.append(Case(seen, response, queries_of(query_set, seen.values[0])))
        return cases

    def _judgements(self, candidates, cases, estimate):
        return self._of_each(errors_and_answers, candidates, cases, len(estimate))

    # -- the choice ---------------------------------------------------------------------------
    def _choice(self, candidates, judgements, estimate):
        completed = self._completed(estimate)
        if isinstance(self.candidates, str) and as_query_set(self.queries).depends_on_truth:
            # Only the truth could judge answers about the truly most frequent, so no one is judged.
            self._surely_best(None)
            return next(i for i, c in enumerate(candidates) if c.knows(self.queries, completed))
        reference, noise = self._reference(candidates, self.queries, completed), completed.noise
        if reference is None or noise is None:
            return self._surely_best(None)
        answers = np.array([judgement.answers for judgement in judgements])
        spread = self._error_spread(answers - answers[reference], estimate, noise)
        return self._surely_best(spread, reference)

    def _surely_best(self, spread: np.ndarray | None, reference: int = 0) -> int:
        """Return the chosen candidate.

        Parameters
        ----------
        spread : ndarray of shape (n_candidates,) or None
            Standard deviation of the difference from the reference; None without a reference.
        reference : int, default=0
            The candidate that others have to be significantly better than.
        """
        scores = self.results_["mean_test_score"]
        self._rule = ""
        if spread is None:
            self.results_["difference_std"] = np.full(len(scores), np.nan)
            return int(np.argmax(scores))
        self.results_["difference_std"] = spread
        best = int(np.argmax(scores))
        lead = f"by {scores[best] - scores[reference]:.2g} with a standard deviation of "
        self._state_rule(
            best,
            reference,
            f"{lead}{spread[best]:.2g}",
            f"{self.min_z_score:g} standard deviations better",
        )
        return int(np.argmax(scores - self.min_z_score * spread))

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
        tasks = []
        for i, values in enumerate(estimate.values):
            if weights is not None:
                rows = (weights[0] - weights[1]) * differences[:, i]
            else:
                matrix = query_set.matrix(d, values)
                rows = differences[:, i] @ matrix / matrix.shape[0]
            of_row, f = noise.of_rows(i), plausible_frequencies(estimate, values)
            tasks += [(of_row, as_rows(some), f) for some in np.array_split(rows, _PARTS)]
        # What does not sum to 1 is not made to, and covariances of shares that overlap are unknown.
        ask = variances_after_norm if estimate.sums_to_one else variances_of_each
        found = np.concatenate(run_in_order(ask, tasks, self.n_jobs))
        variances = found.reshape(-1, len(differences)).sum(axis=0)
        # Variance of what the candidates are compared with, over that of the estimate itself: the
        # noise that is drawn cancels, as it has both signs.
        more = 1.0
        if self.method_ == "shards":  # a mean over splits that each leave most of the reports out
            n_filled = _n_filled(estimate)
            more = 1 + (n_filled / self._n_test(n_filled) - 1) / self._n_splits
        return 2 * np.sqrt(variances * more) / len(estimate)

    # -- whole sets ---------------------------------------------------------------------------
    def _best_of_set(self, candidates, estimates):
        if self.method == "bootstrap" or self.noise is not None:
            raise ValueError(
                "HeldOutSearch judges whole sets by their shards, so not by a bootstrap: leave out "
                'method="bootstrap" and noise=, and have an oracle with n_shards > 1.'
            )
        cases = self._set_cases(estimates)
        judgements = self._of_each(errors_and_answers_of_set, candidates, cases)
        errors = np.array([one.errors for one in judgements])
        self.results_: SearchResults = results_of(candidates, errors)
        self._keep(candidates, self._choice_for_set(candidates, judgements, estimates, cases[0]))
        return self.best_estimator_.fit_transform(estimates)

    def _set_cases(self, estimates: EstimateSet) -> list[SetCase]:
        """Split the shards of each part, and make a set of the parts for either side."""
        self.method_ = "shards"
        asked = {name: part for name, part in estimates.items() if len(part)}
        for name, part in asked.items():
            self._refuse_changed(part)
            if _n_filled(part) < 2:
                raise ValueError(
                    "HeldOutSearch needs reports about each table itself in at least two shards, "
                    f'and {name!r} lacks them: collect with MarginalOracle(method="split", '
                    "n_shards=10) from enough users, or take LatentClasses() without a search."
                )
        copies = self._copies(estimates.names).items()
        asks = {name: as_query_set(one.queries) for name, one in copies}
        rng = as_generator(self.random_state)
        cases = []
        for _ in range(self._n_splits):
            splits = {name: self._split(part, rng) for name, part in asked.items()}
            train = estimates.of_shards({name: training for name, (training, _) in splits.items()})
            parts = {
                name: _case(train[name], part.of_shards(splits[name][1]), asks[name])
                for name, part in asked.items()
            }
            cases.append(SetCase(train, parts))
        return cases

    def _choice_for_set(
        self, candidates: list, judgements: list[Judgement], estimates: EstimateSet, case: SetCase
    ) -> int:
        reference = self._reference(candidates, None, next(iter(case.parts.values())).estimate)
        if reference is None:
            return self._surely_best(None)
        searches = self._copies(estimates.names)  # each of which knows what is asked of its part
        for search in searches.values():
            search.method_ = self.method_
        variances = np.zeros(len(candidates))
        for name, share in case.shares.items():  # of different users, hence independent
            part, noise = estimates[name], estimates[name].noise
            assert noise is not None  # as shards have it
            answers = np.array([judgement.answers[name] for judgement in judgements])
            differences = (answers - answers[reference])[:, None]
            variances += (share * searches[name]._error_spread(differences, part, noise)) ** 2
        return self._surely_best(np.sqrt(variances), reference)


def _n_filled(estimate: FrequencyEstimate) -> int:
    """Number of shards that have reports, of a single estimate."""
    if estimate.shards is None or not estimate.is_raw or len(estimate) != 1:
        return 0
    return int(np.count_nonzero(estimate.shards.sizes))


def _case(train: FrequencyEstimate, test: FrequencyEstimate, query_set: QuerySet) -> Case:
    return Case(
        train, consistent_values(test, test.values)[0], queries_of(query_set, train.values[0])
    )
