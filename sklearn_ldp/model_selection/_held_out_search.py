"""HeldOutSearch, which chooses a post-processor by its errors on held-out reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.common.parallel import run_in_order
from .._core.common.random import RandomState, as_generator
from .._core.estimates import EstimateSet, FrequencyEstimate
from .._core.noise import NOISE_CONSTRAINT, Noise
from .._core.queries import Queries, QuerySet, as_query_set
from ..postprocessing import resolve_noise
from ._base import (
    BaseSearch,
    Candidates,
    Case,
    Choice,
    default_index,
    mean_over_rows,
    refuse_changed,
    results_of,
    rule_text,
)
from ._drawn_noise import consistent_values, correlated, plausible_frequencies
from ._noisy_cases import (
    SetCase,
    error_deviations,
    errors_and_answers,
    errors_and_answers_of_set,
    queries_of,
)


class HeldOutSearch(BaseSearch):
    """Choose the post-processor with the smallest error on held-out reports.

    The candidates are the post-processors among which the search chooses. An estimate stores its
    reports in shards, which are random groups of users with separate counts. The search splits the
    shards several times into two parts. Each candidate post-processes the estimate from the first
    part. Its result is compared with the raw estimate from the second part, after Norm, which adds
    the same amount to all categories so that they sum to 1. The second estimate is unbiased and
    independent of the first. Therefore the expected squared distance between the result and the
    second estimate is the squared error of the result plus the variance of the second estimate.
    This variance is the same for all candidates. In expectation, the candidates are therefore
    ranked correctly, without the truth, without a second collection and at no privacy cost. Without
    Norm, the noise of the sum would hide the differences between candidates if queries are totals
    of many categories.

    Estimates without stored shards, and plain arrays with the parameter `noise`, cannot be split.
    From such an estimate x the search makes two noisy copies, ``x + sqrt(alpha) w`` and ``x - w /
    sqrt(alpha)``, where the noise w has the covariance matrix of x (the coupled bootstrap [1]_). If
    the noise of x is normal, the two copies are independent, like estimates from different users.
    The candidates post-process the first copy, which is as noisy as an estimate from ``n / (1 +
    alpha)`` users. Their results are compared with the second copy.

    If there are few queries, such as the totals of a few groups, the noise of the comparison can
    exceed the differences between the candidates. Therefore one candidate is the default. Another
    candidate is chosen only if its error is smaller by `min_z_score` standard deviations of the
    difference. The default is :class:`EmpiricalBayes` if it is a candidate. For groups or ranges,
    ``candidates="all"`` includes an EmpiricalBayes that uses these queries, which is then the
    default. For ranges and prefixes, "all" also includes :class:`MonotoneCDF`. If the shards
    count each distinct report, it also includes :class:`SmoothMLE`, which is then the default. For
    ``top_k``, noisy estimates cannot show which candidate is best, because they do not show which
    categories are the k largest. Then "all" always chooses the EmpiricalBayes that uses the query,
    and the scores in `results_` have no effect.

    In a set of estimates, the search chooses a post-processor for each estimate separately. There
    is one exception: if a candidate processes all tables of a set together
    (:class:`~sklearn_ldp.Consistent`, :class:`~sklearn_ldp.LatentClasses`, or a Pipeline with one
    of them), one candidate is chosen for the whole set. The search then splits the shards of every
    table. The candidates post-process the set of tables from the first parts, and the error is the
    mean over all answers of all tables. For this, users must have reported on each of these tables,
    as with ``MarginalOracle(method="split")``.

    To our knowledge, the method is unpublished for frequency oracles. With shards, it corresponds
    to the hold-out method of regression, where the response is the raw estimate.

    Parameters
    ----------
    candidates : "all", list of post-processors or dict of grids, default="all"
        The post-processors to choose from. A list may also contain Pipelines of post-processors.
        "all" means :func:`~sklearn_ldp.model_selection.default_candidates`, and post-processors
        that use the queries. A dict contains a grid of parameters for each class name, such as
        ``{"NormSub": {}, "BaseCut": {"alpha": [0.05, 2]}}``. Each combination of parameters is then
        a candidate.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`. If None, every category is a query.
        For a set of estimates, a mapping from the names of its estimates to queries is also
        possible. With ``top_k``, the queries ask for the largest categories of the estimate that
        the candidates process.
    method : {"auto", "shards", "bootstrap"}, default="auto"
        How the candidates are compared. "shards" requires a raw estimate with one row, from an
        oracle with ``n_shards > 1``, which is the default of oracles. "bootstrap" works for all
        estimates. "auto" means "shards" if at least two shards have reports and `noise` is None,
        otherwise "bootstrap".
    test_size : float, default=None
        The fraction of the reports in the second part, with which the results are compared, in
        (0, 1). Each part has at least one shard. For a bootstrap, the fraction is ``alpha / (1 +
        alpha)``. With a smaller fraction, the first part is more similar to all reports, but the
        comparison is noisier. If None, 0.2 of the shards are used, or an alpha of 0.15.
    min_z_score : float, default=3.0
        The number of standard deviations by which the error of another candidate must be smaller
        than the error of the default. With 0, the candidate with the smallest error is chosen. With
        2, one of a dozen candidates often seems better than the default by chance.
    n_splits : int, default=None
        For "shards", the number of splits. If None, it is 10. For "bootstrap", the number of draws
        of noise for each row. If None, it is 4. Each draw is used with both signs.
    noise : float or NoiseModel, default=None
        The noise of the estimate, for a bootstrap. If None, the noise that the FrequencyEstimate
        contains is used. For a plain array, pass a :class:`~sklearn_ldp.NoiseModel`, such as
        ``oracle.noise_``, or the noise level, which is the standard error at frequency 0. With a
        noise level, "all" excludes MLEApx, Power and PowerNS, which need a NoiseModel. Errors of
        different categories are assumed to be independent if the noise contains no covariances.
        The noise of an oracle contains covariances.
    %(n_jobs)s
    %(verbose)s
    random_state : int, RandomState, Generator or None, default=0
        Seed of the splits, or of the noise.

    Attributes
    ----------
    %(results)s
        The errors are squared distances to the noisy held-out estimates, so they include the
        variance of these estimates. "difference_std" is the standard deviation of the difference
        between the mean error of the candidate and the mean error of the default. It is NaN if
        there is no default.
    %(best)s
    method_ : {"shards", "bootstrap"}
        How the candidates were compared.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        The estimate after the chosen candidate. For a set, a dict from the name of each estimate to
        such an array.
    %(fitted)s

    See Also
    --------
    SyntheticSearch : Compares the candidates on simulated users, as the papers do.

    Notes
    -----
    In 72 settings with as few reports as in the notes of :class:`~sklearn_ldp.Calibrate`, the error
    of the chosen candidate, over all categories, is over 5 % larger than the error of NormSub in 1
    setting: by a factor of 1.66 with shards and of 1.23 with a bootstrap. One reason is that the
    candidates process only four fifths of the few reports. Another reason is that the noise of few
    reports is skewed, so the two copies of a bootstrap are not independent.

    If the queries are prefixes and the oracle is OUE, another candidate seldom replaces the
    default, because the noise of held-out prefixes is much larger than the differences between
    candidates. The error is then 1.7 times the error of the method that is best in hindsight. With
    a smaller `min_z_score`, the choice would depend on the noise. Use
    :class:`~sklearn_ldp.RangeOracle` for such queries.

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
    >>> old = estimate.values  # an old collection, stored as a plain array
    >>> HeldOutSearch(noise=NoiseModel(p=0.5, q=0.25, n_samples=100_000)).fit(old).best_index_
    12

    For contingency tables, a candidate may process all tables together:

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

    sums_to_one = False  # each candidate checks this itself
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

    # -- the cases ----------------------------------------------------------------------------
    def _make_cases(self, estimate):
        is_split = self.method == "auto" and self.noise is None and _n_filled(estimate) > 1
        self.method_ = "shards" if is_split else self.method.replace("auto", "bootstrap")
        refuse_changed(estimate, type(self).__name__)
        if estimate.shares_overlap and not as_query_set(self.queries).depends_on_truth:
            estimate.answer(self.queries)  # refuses sums
        if self.method_ == "bootstrap":
            return self._noisy_copies(estimate)
        if _n_filled(estimate) < 2:
            raise ValueError(
                'HeldOutSearch(method="shards") needs a raw estimate with one row and at least two '
                "shards that contain reports. Pass the `estimate_` of an oracle with n_shards > 1, "
                'or use method="auto".'
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
        """Split the nonempty shards at random into two arrays of shard numbers.

        The candidates process the estimate from the first shards. The results are compared with the
        estimate from the second shards.
        """
        filled = np.flatnonzero(estimate.shards.sizes)
        order = rng.permutation(filled)
        n_test = self._n_test(len(filled))
        return order[n_test:], order[:n_test]

    def _n_test(self, n_filled):
        """Return the number of shards that are held out for the comparison.

        n_filled: number of shards that contain reports.
        """
        return int(np.clip(round((self.test_size or 0.2) * n_filled), 1, n_filled - 1))

    def _noisy_copies(self, estimate: FrequencyEstimate) -> list[Case]:
        """Return cases for a bootstrap, each with two noisy copies of a row of the estimate.

        The candidates process the first copy. The results are compared with the second copy.
        """
        noise = resolve_noise(estimate, self.noise, type(self).__name__)
        query_set = as_query_set(self.queries)
        rng = as_generator(self.random_state)
        alpha = 0.15 if self.test_size is None else self.test_size / (1 - self.test_size)
        n_splits = self._n_splits
        d = estimate.shape[1]
        tasks = [
            (noise.of_rows(i), plausible_frequencies(estimate, values), rng.standard_normal(d))
            for i, values in enumerate(estimate.values)
            for _ in range(n_splits)
        ]
        draws = np.reshape(run_in_order(correlated, tasks, self.n_jobs), (-1, n_splits, d))
        cases = []
        for i, values in enumerate(estimate.values):
            scaled = noise.of_rows(i).scaled(1 + alpha)
            row = replace(estimate[i], noise=scaled, shards=None)
            for draw in draws[i]:
                for signed in (draw, -draw):
                    seen = row.with_values(values + np.sqrt(alpha) * signed)
                    response = consistent_values(row, values - signed / np.sqrt(alpha))
                    cases.append(Case(seen, response, queries_of(query_set, seen.values[0])))
        return cases

    def _make_cases_of_set(self, estimates):
        if self.method == "bootstrap" or self.noise is not None:
            raise ValueError(
                "HeldOutSearch cannot use a bootstrap (method='bootstrap' or noise=) if a "
                "candidate processes a whole set of estimates. Leave out both parameters, and use "
                "an oracle with n_shards > 1."
            )
        self.method_ = "shards"
        nonempty = {name: part for name, part in estimates.items() if len(part)}
        for name, part in nonempty.items():
            refuse_changed(part, type(self).__name__)
            if _n_filled(part) < 2:
                raise ValueError(
                    "HeldOutSearch needs at least two shards that contain reports about each "
                    f"table, but the table {name!r} has {_n_filled(part)}. Collect the reports "
                    'with MarginalOracle(method="split", n_shards=10) from more users, or use '
                    "LatentClasses() without a search."
                )
        queries = self._queries_by_part(estimates)
        rng = as_generator(self.random_state)
        cases = []
        for _ in range(self._n_splits):
            splits = {name: self._split(part, rng) for name, part in nonempty.items()}
            train = estimates.of_shards({name: training for name, (training, _) in splits.items()})
            parts = {
                name: _case(train[name], part.of_shards(splits[name][1]), queries[name])
                for name, part in nonempty.items()
            }
            cases.append(SetCase(train, parts))
        return cases

    def _queries_by_part(self, estimates: EstimateSet) -> dict[Any, QuerySet]:
        copies = self._copies(estimates.names)
        return {name: as_query_set(copy.queries) for name, copy in copies.items()}

    # -- the choice ---------------------------------------------------------------------------
    def _judge(self, estimate):
        if isinstance(estimate, EstimateSet):
            return errors_and_answers_of_set
        return partial(errors_and_answers, n_rows=len(estimate))

    def _choose(self, candidates, judgments, cases, estimate):
        is_set = isinstance(estimate, EstimateSet)
        n_rows = 1 if is_set else len(estimate)
        results = results_of(candidates, mean_over_rows(judgments, n_rows)[:, 0])
        scores = results["mean_test_score"]
        best = int(np.argmax(scores))
        results["difference_std"] = np.full(len(scores), np.nan)
        if isinstance(self.candidates, str) and as_query_set(self.queries).depends_on_truth:
            # Only the truth could judge answers about the truly most frequent categories.
            completed = self._completed(estimate)
            knows = [candidate.knows(self.queries, completed) for candidate in candidates]
            return Choice(results, knows.index(True))
        if is_set:
            default, deviations = self._compare_in_set(candidates, judgments, cases[0], estimate)
        else:
            default, deviations = self._compare(candidates, judgments, estimate)
        if default is None:
            return Choice(results, best)

        results["difference_std"] = deviations
        gain = f"{scores[best] - scores[default]:.2g}"
        rule = rule_text(
            results["candidate"],
            best=best,
            default=default,
            lead=f"by {gain} with a standard deviation of {deviations[best]:.2g}",
            demand=f"{self.min_z_score:g} standard deviations better",
        )
        return Choice(results, int(np.argmax(scores - self.min_z_score * deviations)), rule)

    # Both methods return the default candidate, which others replace only if they are significantly
    # better, and the standard deviations of the differences from its error; or None and no array.
    def _compare(self, candidates, judgments, estimate):
        completed = self._completed(estimate)
        default = default_index(candidates, self.queries, completed)
        if default is None or completed.noise is None:
            return None, None
        answers = np.array([judgment.answers for judgment in judgments])
        differences = answers - answers[default]
        queries = as_query_set(self.queries)
        return default, self._deviations(differences, estimate, completed.noise, queries)

    def _compare_in_set(self, candidates, judgments, case, estimates):
        first_part = next(iter(case.parts.values())).estimate
        default = default_index(candidates, None, first_part)
        if default is None:
            return None, None
        queries = self._queries_by_part(estimates)
        variances = np.zeros(len(judgments))
        for name, share in case.shares.items():  # of different users, hence independent
            part = estimates[name]
            assert part.noise is not None  # an estimate with shards has noise
            answers = np.array([judgment.answers[name] for judgment in judgments])
            differences = (answers - answers[default])[:, None]
            deviations = self._deviations(differences, part, part.noise, queries[name])
            variances += (share * deviations) ** 2
        return default, np.sqrt(variances)

    def _deviations(
        self, differences: np.ndarray, estimate: FrequencyEstimate, noise: Noise, queries: QuerySet
    ) -> np.ndarray:
        """Return the standard deviation of each candidate's error minus the error of the default.

        differences: the candidates' answers minus the answers of the default, of shape
        (n_candidates, n_rows, n_answers). The result has the shape (n_candidates,).
        """
        # The noise of a bootstrap cancels, because each draw has both signs. With shards, the
        # response is a mean over splits, each of which contains only some of the reports.
        variance_ratio = 1.0
        if self.method_ == "shards":
            n_filled = _n_filled(estimate)
            variance_ratio = 1 + (n_filled / self._n_test(n_filled) - 1) / self._n_splits
        return error_deviations(
            differences,
            estimate,
            noise,
            queries,
            variance_ratio=variance_ratio,
            n_jobs=self.n_jobs,
        )


def _n_filled(estimate: FrequencyEstimate) -> int:
    """Return the number of shards that contain reports.

    Return 0 if the estimate is post-processed, has several rows, or stores no shards.
    """
    if estimate.shards is None or not estimate.is_raw or len(estimate) != 1:
        return 0
    return int(np.count_nonzero(estimate.shards.sizes))


def _case(train: FrequencyEstimate, test: FrequencyEstimate, query_set: QuerySet) -> Case:
    """Return a Case in which candidates process the estimate `train`.

    Their results are compared with the raw estimate `test`.
    """
    return Case(
        train, consistent_values(test, test.values)[0], queries_of(query_set, train.values[0])
    )
