"""SyntheticSearch, which chooses a post-processor by its errors on simulated users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.common.parallel import run_in_order
from .._core.common.random import RandomState, as_generator
from .._core.common.typing import Metric
from .._core.domains import has_bins, has_cells
from .._core.estimates import FrequencyEstimate
from .._core.numerics.simplex import apportion
from .._core.queries import Queries, as_query_set
from ..metrics import query_errors
from ..oracles import BaseOracle
from ..postprocessing import EmpiricalBayes, NormSub
from ._base import (
    BaseSearch,
    Candidates,
    Case,
    Choice,
    Judgment,
    PostProcessor,
    candidates_knowing,
    default_index,
    mean_over_rows,
    refuse_changed,
    results_of,
    rule_text,
)
from ._drawn_noise import simulator

_MAX_REPEATS = 30
_MIN_REPEATS = 10
_ENOUGH = 500_000  # estimates of single categories, in all repeats
_ENOUGH_WITH_QUERIES = 50_000  # the same if a candidate uses the queries, which takes longer


class _Demand(NamedTuple):
    """The condition under which another candidate is chosen instead of the default.

    The error of the candidate, divided by the error of the default, must be smaller than `ratio`.
    `n_standard_errors` standard errors are added to this quotient first.
    """

    ratio: float  # of the errors, which must be smaller
    n_standard_errors: float  # by which the ratio must be smaller


# The first demand was chosen on 25 November 2026 among 20, on cities of 14 countries, words, names
# and aircraft (groups, random groups, top ten). Ranges keep an earlier demand, because it was
# better than the first one on seven ordered populations (doc/notes/choosing.md).
_DEMAND = _Demand(ratio=0.85, n_standard_errors=2.0)
_DEMAND_OF_RANGES = _Demand(ratio=0.95, n_standard_errors=0.0)


class SyntheticSearch(BaseSearch):
    """Choose the post-processor with the smallest error on simulated users.

    The candidates are the post-processors among which the search chooses. Another post-processor,
    the synthesizer, turns the estimate into a distribution. Synthetic users are made with this
    distribution. The oracle is simulated on these users `n_repeats` times, and every candidate
    post-processes the same simulated estimates. The frequencies of the synthetic users are known,
    so the errors can be computed, and the candidate with the smallest error is chosen (Wang et al.,
    NDSS 2020, section V-D, Figure 9). The search uses no raw value of a user, so it costs no
    privacy.

    The choice is biased towards candidates with the same assumptions as the synthesizer. Norm-Sub
    is the synthesizer of the paper. Its result contains the largest errors of the estimate. If the
    noise is large, its synthetic users therefore have too few categories, which are too frequent.
    EmpiricalBayes assumes that categories, or groups of categories, are exchangeable. The
    frequencies of its synthetic users are therefore too similar. A power-law synthesizer favors
    power-law post-processors. By default, this class therefore uses two synthesizers, Norm-Sub and
    EmpiricalBayes, which make two populations of synthetic users. The error of a candidate is the
    geometric mean of its errors on both populations.

    If EmpiricalBayes is a candidate, it is the default choice. If several EmpiricalBayes are
    candidates, the default is the last that uses the queries. Another candidate is chosen only if
    its error is at least 15 % smaller than the error of the default, and this difference exceeds
    two standard errors of the simulation. For ranges, it is sufficient that the error is 5 %
    smaller. These rules are unpublished. With ``synthesizer=NormSub()``, this class is the search
    of the paper.

    Parameters
    ----------
    candidates : "all", list of post-processors or dict of grids, default="all"
        The post-processors to choose from. A list may also contain Pipelines of post-processors.
        "all" means :func:`~sklearn_ldp.model_selection.default_candidates`, and an EmpiricalBayes
        that uses the queries if they are groups, ranges or ``top_k``. A dict contains a grid of
        parameters for each class name, such as ``{"NormSub": {}, "BaseCut": {"alpha": [0.05,
        2]}}``. Each combination of parameters is then a candidate. If there is no EmpiricalBayes
        among the candidates, the candidate with the smallest error is chosen, even if the
        difference is not significant. To avoid this, add ``EmpiricalBayes(queries=...)`` to the
        list as the default choice, or use :class:`~sklearn_ldp.SyntheticStack`, which averages the
        candidates.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`. If None, every category is a query.
        For a set of estimates, a mapping from the names of its estimates to queries is also
        possible.
    metric : {"mse", "mae"} or callable, default="mse"
        The error of the answers: the mean squared error, the mean absolute error, or any function
        of the true and the estimated answers, see :func:`~sklearn_ldp.metrics.query_errors`.
    synthesizer : post-processor, default=None
        The post-processor that turns the estimate into a distribution. Negative values of its
        result are set to 0, and the other values are divided by their sum. If None, there are two
        synthesizers: :class:`~sklearn_ldp.NormSub`, and an :class:`~sklearn_ldp.EmpiricalBayes`
        that uses the queries if they are groups or ranges.
    n_repeats : int or "auto", default="auto"
        Number of simulated collections. With two synthesizers, each population has half of them.
        "auto" means 30. For more than 16,666 categories, "auto" means 500,000 divided by the number
        of categories, but at least 10. If a candidate of "all" uses groups or ``top_k``, which
        needs more computing time, these limits are 1,666 categories and 50,000. If a candidate of
        "all" uses ranges, "auto" means 10.
    oracle : oracle, default=None
        The oracle that is simulated. If None, use the oracle of the estimate. For a plain array,
        pass the oracle that made the estimate.
    n_samples : int, default=None
        Number of users. If None, use the number of users of the estimate. For a plain array, pass
        this number.
    %(n_jobs)s
    %(verbose)s
    random_state : int, RandomState, Generator or None, default=0
        Seed of the simulated collections. If None, use the `random_state` of the oracle.

    Attributes
    ----------
    %(results)s
        With two populations, the scores of each candidate are rescaled: in both populations, their
        mean becomes minus the geometric mean of the errors on the two populations.
    %(best)s
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        The estimate after the chosen candidate.
    %(fitted)s

    See Also
    --------
    SyntheticStack : Averages the candidates instead of choosing one of them.
    HeldOutSearch : Compares the candidates on held-out reports, or on noisy copies.

    Notes
    -----
    In 72 settings with as few reports as in the notes of :class:`~sklearn_ldp.Calibrate`, the error
    of the chosen candidate, over all categories, is over 5 % larger than the error of NormSub in 1
    setting, by a factor of 1.24. With so few reports, the frequencies of the synthetic users are
    mostly noise.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section V-D,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import OLH, SyntheticSearch
    >>> from sklearn_ldp.datasets import load_us_states
    >>> from sklearn_ldp.queries import groups
    >>> states = load_us_states(n_samples=100_000, random_state=0)
    >>> oracle = OLH(categories=states.categories, random_state=0)
    >>> estimate = oracle.fit_transform(states.categories, sample_weight=states.counts)
    >>> search = SyntheticSearch(queries=groups(states.groups["division"]), random_state=0)
    >>> search.fit(estimate).best_estimator_
    EmpiricalBayes(queries=groups(9 of 51 categories))
    """

    _parameter_constraints: dict = {
        **BaseSearch._parameter_constraints,
        "metric": [StrOptions({"mse", "mae"}), callable],
        "n_repeats": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "oracle": [None, BaseOracle],
        "n_samples": [None, Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        candidates: Candidates = "all",
        *,
        queries: Queries | Mapping[Any, Queries] | None = None,
        metric: Metric = "mse",
        synthesizer: PostProcessor | None = None,
        n_repeats: int | str = "auto",
        oracle: BaseOracle | None = None,
        n_samples: int | np.integer[Any] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = 0,
    ) -> None:
        self.candidates = candidates
        self.queries = queries
        self.metric = metric
        self.synthesizer = synthesizer
        self.n_repeats = n_repeats
        self.oracle = oracle
        self.n_samples = n_samples
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @property
    def _metric_name(self):
        return self.metric if isinstance(self.metric, str) else self.metric.__name__

    @property
    def _error_name(self):
        name = self._metric_name
        return f"{name.upper() if name == self.metric else name} on synthetic data"

    # -- the cases ----------------------------------------------------------------------------
    def _make_cases(self, estimate):
        oracle = self.oracle if self.oracle is not None else simulator(estimate)
        n_samples = self.n_samples
        if n_samples is None and estimate.noise is not None:
            n_samples = estimate.noise.n_users
        if oracle is None or n_samples is None:
            raise ValueError(
                f"{type(self).__name__} needs the oracle and the number of users of the estimate, "
                "got an estimate that does not contain both. Pass the FrequencyEstimate that the "
                "oracle returned, or pass oracle= and n_samples=."
            )
        refuse_changed(estimate, type(self).__name__)
        query_set = as_query_set(self.queries)
        d = estimate.shape[1]
        has_numbers = has_bins(estimate.domain) or has_cells(estimate.domain)
        domain = estimate.domain if has_numbers else estimate.categories
        oracle = clone(oracle).set_params(categories=domain, input="values")
        # Queries for another number of categories fail here, before any simulation.
        equal = FrequencyEstimate(np.full((1, d), 1 / d), domain)
        query_errors(equal.values[0], equal, queries=query_set, metric=self.metric)
        completed = self._completed(estimate)
        synthesizers = [self.synthesizer]
        if self.synthesizer is None:
            # An EmpiricalBayes for the most frequent categories returns no distribution.
            queries = None if query_set.depends_on_truth else self.queries
            synthesizers = [NormSub(), EmpiricalBayes(queries=queries)]
        n_repeats = -(-self._n_repeats(completed) // len(synthesizers))
        seed = oracle.random_state if self.random_state is None else self.random_state
        sizes = np.broadcast_to(n_samples, len(estimate))
        rows = list(zip(completed, sizes, strict=True))
        pairs = [(synthesizer, row) for synthesizer in synthesizers for row in rows]
        streams = as_generator(seed).spawn(len(pairs))
        tasks = [
            (
                clone(synthesizer),
                row,
                clone(oracle).set_params(random_state=stream),
                int(n),
                n_repeats,
            )
            for (synthesizer, (row, n)), stream in zip(pairs, streams, strict=True)
        ]
        collections = run_in_order(_synthetic, tasks, self.n_jobs)
        return [Case(simulated, truth, query_set) for simulated, truth in collections]

    def _n_repeats(self, estimate):
        """Return the number of simulated collections.

        If the parameter `n_repeats` is "auto", the number is smaller if a simulation is slow.
        """
        if self.n_repeats != "auto":
            return self.n_repeats
        knowing = candidates_knowing(self.queries) if isinstance(self.candidates, str) else []
        enough = _ENOUGH
        if any(post.knows(self.queries, estimate) for post in knowing):
            enough = 0 if as_query_set(self.queries).ordered else _ENOUGH_WITH_QUERIES
        return int(np.clip(enough // estimate.shape[1], _MIN_REPEATS, _MAX_REPEATS))

    def _completed(self, estimate):
        if estimate.noise is not None or self.oracle is None or self.n_samples is None:
            return estimate
        return replace(estimate, noise=self.oracle.channel(estimate.shape[1]).noise(self.n_samples))

    # -- the choice ---------------------------------------------------------------------------
    def _judge(self, estimate):
        return partial(_errors, metric=self.metric)

    def _choose(self, candidates, judgments, cases, estimate):
        splits = self._scaled_splits(judgments, len(estimate))
        results = results_of(candidates, splits)
        results.are_simulated_mse = self.metric == "mse"
        errors = -results["mean_test_score"]
        best = int(np.argmin(errors))
        default = default_index(candidates, self.queries, self._completed(estimate))
        if self.synthesizer is not None or default is None or np.any(errors <= 0):
            return Choice(results, best)
        n_free = splits.shape[1] - 2  # each population has its mean
        if n_free == 0:
            return Choice(results, default)
        # By the delta method, the standard error of the logarithm of the ratio.
        relative = splits / errors[:, None]
        deviations = (relative - relative[default]).std(axis=1) / np.sqrt(n_free)
        demand = _DEMAND_OF_RANGES if as_query_set(self.queries).ordered else _DEMAND
        ratios = errors / errors[default] * np.exp(demand.n_standard_errors * deviations)
        is_better = ratios < demand.ratio
        chosen = default
        if is_better.any():
            chosen = int(np.argmin(np.where(is_better, errors, np.inf)))
        demand_text = f"at least {1 - demand.ratio:.0%} better"
        if demand.n_standard_errors > 0:
            demand_text += f", by {demand.n_standard_errors:g} standard errors"
        gain = f"{1 - errors[best] / errors[default]:.0%}"
        rule = rule_text(
            results["candidate"],
            best=best,
            default=default,
            lead=f"with a {self._metric_name} in the simulation that is {gain} smaller",
            demand=demand_text,
        )
        return Choice(results, chosen, rule)

    def _scaled_splits(self, judgments, n_rows):
        """Return the rescaled errors of all candidates in all simulated collections.

        In each population, the mean error of a candidate becomes the geometric mean of its mean
        errors on all populations. Shapes: -> (n_candidates, n_splits).
        """
        n_populations = 2 if self.synthesizer is None else 1
        errors = mean_over_rows(judgments, n_rows, n_populations)
        means = errors.mean(axis=2, keepdims=True)
        if np.all(means > 0):  # a user's metric may be negative
            errors = errors * (np.exp(np.log(means).mean(axis=1, keepdims=True)) / means)
        return errors.reshape(len(errors), -1)


def _errors(candidate: Any, cases: list[Case], metric: Metric) -> Judgment:
    """Return the Judgment of a candidate: its errors on all cases, by the given metric."""
    errors = []
    for case in cases:
        processed = candidate.fit_transform(case.estimate)
        truth = case.frequencies
        errors.append(query_errors(truth, processed, queries=case.queries, metric=metric))
    return Judgment(np.concatenate(errors))


def _synthetic(
    synthesizer: Any, estimate: FrequencyEstimate, oracle: Any, n_users: int, n_repeats: int
) -> tuple[FrequencyEstimate, np.ndarray]:
    """Make synthetic users from an estimate, and simulate the oracle on them `n_repeats` times.

    Returns: the simulated estimates, as one FrequencyEstimate with a row per simulation, and the
    frequencies of the synthetic users, of shape (d,).
    """
    counts = apportion(np.asarray(synthesizer.fit_transform(estimate))[0], n_users)
    noise = estimate.noise
    if noise is None or not noise.curvature:
        return oracle.simulate(counts, n_repeats), counts / n_users
    # Only some of the users were asked, so each simulation asks another random sample.
    rng = oracle.random_state
    n_asked = min(int(noise.n_samples), n_users)
    samples = rng.multivariate_hypergeometric(counts, n_asked, size=n_repeats, method="marginals")
    rows = [oracle.simulate(sample) for sample in samples]
    values = np.concatenate([row.values for row in rows])
    noise = rows[0].noise.of_sample(n_users)
    return replace(rows[0], values=values, noise=noise, shards=None), counts / n_users
