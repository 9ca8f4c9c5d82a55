"""Search on the reports themselves: some shards make the estimate, the others judge it."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils._param_validation import Interval

from .._estimates import EstimateSet, FrequencyEstimate
from .._numerics.simplex import norm
from .._utils.random import RandomState, as_generator
from ..postprocessing import SmoothMLE
from ..queries import Queries, QuerySet, as_query_set
from ._base import (
    Candidates,
    Case,
    Judgement,
    NoisySearch,
    judged_case,
    queries_of,
    reference_among,
    results_of,
)


class SetCase(NamedTuple):
    """A set of estimates to post-process, and what each of its parts is compared with.

    Parameters
    ----------
    estimates : EstimateSet
        The set.
    parts : dict of Case
        Its parts that have users, by name.
    """

    estimates: EstimateSet
    parts: dict[Any, Case]

    @property
    def size(self) -> int:
        """Number of values to post-process."""
        return sum(case.size for case in self.parts.values())

    @property
    def shares(self) -> dict[Any, float]:
        """The share of each part in the mean error over all answers."""
        n_answers = {}
        for name, (part, truth, queries) in self.parts.items():
            asked = as_query_set(queries).aligned(part.categories, part.domain)
            n_answers[name] = asked.matrix(len(truth), truth).shape[0]
        total = sum(n_answers.values())
        return {name: n / total for name, n in n_answers.items()}


class HeldOutSearch(NoisySearch):
    """Choose the post-processor that does best on held-out reports.

    The shards of an estimate's reports are split in two, several times. The candidates post-process
    the estimate from the first shards, and are compared with the raw estimate from the others,
    shifted to the known sum 1 (Norm). The latter is unbiased and independent. So the
    expected squared distance to it is the squared error with respect to the truth plus its
    variance, which is the same for all candidates. In expectation the candidates are therefore
    ranked correctly, without the truth, without a second collection and at no privacy cost.
    Without the shift, the noise of the sum would hide the differences for large sets.

    %(evidence)s

    Each part of a set is judged alone, and may get another post-processor. But if one of the
    candidates looks at all tables of a set at once (:class:`~sklearn_ldp.Consistent`,
    :class:`~sklearn_ldp.LatentClasses`, or a Pipeline with one of them), one candidate is chosen
    for the whole set: the shards of every table are split, the candidates post-process the set of
    tables from the first shards, and their error is the mean over all answers of all tables. That
    needs tables that users were asked about themselves, as with ``MarginalOracle(method="split")``.

    To our knowledge the method is unpublished for frequency oracles. It is the hold-out method of
    regression, with the raw estimate as the response.

    Parameters
    ----------
    %(candidates)s
        ``top_k`` takes the largest categories of the estimate that the candidates see.
    test_size : float, default=0.2
        Share of the shards that judge, in (0, 1); either side has at least one shard.
    %(min_z_score)s
    n_splits : int, default=10
        How many times the shards are split.
    %(n_jobs)s
    random_state : int, RandomState, Generator or None, default=0
        Seed of the splits.

    Attributes
    ----------
    %(results)s
    %(best)s
    frequencies_ : ndarray of shape (d,)
        The estimate, post-processed by the best candidate; of a set, a dict of these by name.
    %(fitted)s

    See Also
    --------
    BootstrapSearch : The same without shards, for other estimates and arrays.
    SyntheticSearch : Judges the candidates on a synthetic data set, as the papers do.

    Notes
    -----
    With as few reports as in the notes of :class:`~sklearn_ldp.Calibrate`, the chosen candidate's
    error in every category exceeds that of NormSub by over 5 % in 1 of 72 cells, by a factor of
    1.66. Four fifths of few reports are fewer still, and judge for a smaller collection.

    Examples
    --------
    >>> from sklearn_ldp import HeldOutSearch, OLH
    >>> from sklearn_ldp.datasets import load_us_states
    >>> states = load_us_states(n_samples=100_000, random_state=0)
    >>> oracle = OLH(categories=states.categories, random_state=0)
    >>> estimate = oracle.fit_transform(states.categories, sample_weight=states.counts)
    >>> HeldOutSearch().fit(estimate).results_["rank_error"].shape
    (13,)

    Tables of several columns, among post-processors that look at all of them:

    >>> import numpy as np
    >>> from sklearn_ldp import Consistent, MarginalOracle, NormSub
    >>> users = np.random.default_rng(0).binomial(1, 0.3, (20_000, 3))
    >>> survey = MarginalOracle(domains={"a": 2, "b": 2, "c": 2}, method="split", random_state=0)
    >>> HeldOutSearch([NormSub(), Consistent()]).fit(survey.fit_transform(users)).best_estimator_
    Consistent()
    """

    #: Checks of scikit-learn's that it cannot pass, as they fit plain arrays.
    _expected_failed_checks = dict.fromkeys(
        NoisySearch._checks_of_arrays,
        "it needs the shards of an oracle's own estimate, and a plain array has none",
    )

    _parameter_constraints: dict = {
        **NoisySearch._parameter_constraints,
        "test_size": [Interval(Real, 0, 1, closed="neither")],
        "n_splits": [Interval(Integral, 1, None, closed="left")],
    }

    _error_name = "squared error to held-out estimates, their noise included"

    def __init__(
        self,
        candidates: Candidates = "all",
        *,
        queries: Queries | Mapping[Any, Queries] | None = None,
        test_size: float = 0.2,
        min_z_score: float = 2.0,
        n_splits: int = 10,
        n_jobs: int | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.candidates = candidates
        self.queries = queries
        self.test_size = test_size
        self.min_z_score = min_z_score
        self.n_splits = n_splits
        self.n_jobs = n_jobs
        self.random_state = random_state

    # -- one estimate -------------------------------------------------------------------------
    def _knowing_queries(self, estimate):
        others = super()._knowing_queries(estimate)
        has_tally = estimate.shards is not None and estimate.shards.law is not None
        is_asked = bool(others) and as_query_set(self.queries).ordered
        return [SmoothMLE(), *others] if is_asked and has_tally else others

    def _cases(self, estimate):
        if estimate.shards is None or not estimate.is_raw or len(estimate) != 1:
            raise ValueError(
                "HeldOutSearch needs a single raw estimate of an oracle that kept shards of its "
                "reports (n_shards > 1, as by default): pass oracle.estimate_ itself. For other "
                "estimates use BootstrapSearch or SyntheticSearch."
            )
        if np.count_nonzero(estimate.shards.sizes) < 2:
            raise ValueError(
                "HeldOutSearch needs reports in at least two shards, got sizes "
                f"{estimate.shards.sizes.tolist()}: collect more reports, or use BootstrapSearch."
            )
        query_set = as_query_set(self.queries)
        rng = as_generator(self.random_state)
        cases = []
        for _ in range(self.n_splits):
            training, held_out = self._split(estimate, rng)
            train = estimate.of_shards(training)
            cases.append(_case(train, estimate.of_shards(held_out), query_set))
        return cases

    def _split(
        self, estimate: FrequencyEstimate, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the shards that make the estimate, and those that judge."""
        filled = np.flatnonzero(estimate.shards.sizes)
        order, n_test = rng.permutation(filled), self._n_test(len(filled))
        return order[n_test:], order[:n_test]

    def _response_variance(self, estimate):
        # It is a mean over splits that each leave most of the reports out.
        n_filled = np.count_nonzero(estimate.shards.sizes)
        return 1 + (n_filled / self._n_test(n_filled) - 1) / self.n_splits

    def _n_test(self, n_filled):
        """Number of shards that judge."""
        return int(np.clip(round(self.test_size * n_filled), 1, n_filled - 1))

    # -- whole sets ---------------------------------------------------------------------------
    def _best_of_set(self, candidates, estimates):
        cases = self._set_cases(estimates)
        judgements = self._of_each(_errors_and_answers_of_set, candidates, cases)
        self.results_ = results_of(candidates, judgements)
        self._keep(candidates, self._choice_for_set(candidates, judgements, estimates, cases[0]))
        return self.best_estimator_.fit_transform(estimates)

    def _set_cases(self, estimates: EstimateSet) -> list[SetCase]:
        """Split the shards of each part, and make a set of the parts for either side."""
        asked = {name: part for name, part in estimates.items() if len(part)}
        for name, part in asked.items():
            if not part.is_raw:
                raise ValueError(
                    f"HeldOutSearch needs raw tables, but {name!r} has been changed by "
                    f"{' and '.join(part.postprocessors)}: put it directly behind the "
                    "MarginalOracle, and make the first step a part of each candidate (a Pipeline)."
                )
            if part.shards is None or np.count_nonzero(part.shards.sizes) < 2:
                raise ValueError(
                    "HeldOutSearch needs reports about each table itself in at least two shards, "
                    f"which {name!r} does not have: collect with MarginalOracle("
                    'method="split", n_shards=10) from enough users, or take LatentClasses() '
                    "without a search."
                )
        copies = self._copies(estimates.names).items()
        asks = {name: as_query_set(one.queries) for name, one in copies}
        rng = as_generator(self.random_state)
        cases = []
        for _ in range(self.n_splits):
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
        reference = reference_among(candidates)
        if reference is None:
            return self._surely_best(None)
        searches = self._copies(estimates.names)  # each of which knows what is asked of its part
        variances = np.zeros(len(candidates))
        for name, share in case.shares.items():  # of different users, hence independent
            part, noise = estimates[name], estimates[name].noise
            assert noise is not None  # as shards have it
            answers = np.array([judgement.answers[name] for judgement in judgements])
            differences = (answers - answers[reference])[:, None]
            variances += (share * searches[name]._error_spread(differences, part, noise)) ** 2
        return self._surely_best(np.sqrt(variances))


def _case(train: FrequencyEstimate, test: FrequencyEstimate, query_set: QuerySet) -> Case:
    return Case(train, norm(test.values)[0], queries_of(query_set, train.values[0]))


def _errors_and_answers_of_set(candidate: Any, cases: list[SetCase]) -> Judgement:
    """Return the errors of a candidate on whole sets, and its mean answers.

    Parameters
    ----------
    candidate : post-processor
        The candidate.
    cases : list of SetCase
        All of the same parts.

    Returns
    -------
    Judgement
        One error for each case, the mean over all answers of all parts; and the answers by name.
    """
    errors = []
    answers: dict[Any, list[np.ndarray]] = {name: [] for name in cases[0].parts}
    for case in cases:
        made, shares, error = candidate.fit_transform(case.estimates), case.shares, 0.0
        for name, part in case.parts.items():
            of_part, answer = judged_case(part, made[name])
            error += shares[name] * of_part
            answers[name].append(answer)
        errors.append(error)
    means = {name: np.mean(rows, axis=0) for name, rows in answers.items()}
    return Judgement(np.array(errors), means)
