"""A search on the reports themselves: some shards make the estimate, the others judge it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from .._estimate import FrequencyEstimate
from .._random import RandomState, as_generator
from .._typing import Candidates, Queries
from ..postprocessing import norm
from ..queries import as_query_set
from ._base import Case
from ._guarded_search import GuardedSearch, queries_of


class HeldOutSearch(GuardedSearch):
    """Choose the post-processor that does best on held-out reports.

    The shards of an estimate's reports are split into two parts, several times. The candidates
    post-process the estimate from the first part, and are compared with the raw estimate from the
    second part, shifted to the known sum 1 (Norm). The latter is unbiased and independent. So the
    expected squared distance to it is the squared error with respect to the truth plus its
    variance, which is the same for all candidates. In expectation the candidates are therefore
    ranked correctly, without the truth, without a second collection and at no privacy cost.
    Without the shift, the noise of the sum would hide the differences for large sets.

    %(guarded)s

    To our knowledge the method is unpublished for frequency oracles. It is the hold-out method of
    regression, with the raw estimate as the response.

    Parameters
    ----------
    %(candidates)s
        ``top_k`` takes the largest categories of the part that the estimate is made from.
    test_size : float, default=0.2
        Share of the shards that judge, in (0, 1); each part has at least one shard.
    %(guard)s
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
        The estimate, post-processed by the best candidate.
    %(fitted)s

    See Also
    --------
    BootstrapSearch : The same without shards, for other estimates and arrays.
    SyntheticSearch : Judges the candidates on a synthetic data set, as the papers do.

    Examples
    --------
    >>> from sklearn_ldp import HeldOutSearch, OLH
    >>> from sklearn_ldp.datasets import load_us_states
    >>> states = load_us_states(n_samples=100_000, random_state=0)
    >>> oracle = OLH(categories=states.categories, random_state=0)
    >>> estimate = oracle.fit_transform(states.categories, sample_weight=states.counts)
    >>> HeldOutSearch().fit(estimate).results_["rank_error"].shape
    (13,)
    """

    #: Checks of scikit-learn's that it cannot pass, as they fit plain arrays.
    _expected_failed_checks = dict.fromkeys(
        (
            "check_dict_unchanged",
            "check_dont_overwrite_parameters",
            "check_dtype_object",
            "check_estimators_dtypes",
            "check_estimators_fit_returns_self",
            "check_estimators_nan_inf",
            "check_estimators_overwrite_params",
            "check_estimators_pickle",
            "check_f_contiguous_array_estimator",
            "check_fit2d_1sample",
            "check_fit2d_predict1d",
            "check_fit_check_is_fitted",
            "check_fit_idempotent",
            "check_fit_score_takes_y",
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
            "check_n_features_in",
            "check_n_features_in_after_fitting",
            "check_pipeline_consistency",
            "check_positive_only_tag_during_fit",
            "check_readonly_memmap_input",
            "check_transformer_data_not_an_array",
            "check_transformer_general",
            "check_transformer_preserve_dtypes",
        ),
        "it needs the shards of an oracle's own estimate, and a plain array has none",
    )

    _parameter_constraints: dict = {
        **GuardedSearch._parameter_constraints,
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
        guard: float = 2.0,
        n_splits: int = 10,
        n_jobs: int | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.candidates = candidates
        self.queries = queries
        self.test_size = test_size
        self.guard = guard
        self.n_splits = n_splits
        self.n_jobs = n_jobs
        self.random_state = random_state

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
        filled = np.flatnonzero(estimate.shards.sizes)
        n_test = self._n_test(len(filled))
        cases = []
        for _ in range(self.n_splits):
            order = rng.permutation(filled)
            test = _estimate_of(estimate, order[:n_test])
            train = _estimate_of(estimate, order[n_test:])
            cases.append(Case(train, norm(test.values)[0], queries_of(query_set, train.values[0])))
        return cases

    def _response_variance(self, estimate):
        # It is a mean over splits that each leave most of the reports out.
        n_filled = np.count_nonzero(estimate.shards.sizes)
        return 1 + (n_filled / self._n_test(n_filled) - 1) / self.n_splits

    def _n_test(self, n_filled):
        """Number of shards that judge."""
        return int(np.clip(round(self.test_size * n_filled), 1, n_filled - 1))


def _estimate_of(estimate: FrequencyEstimate, shards: np.ndarray) -> FrequencyEstimate:
    """Return the raw estimate from some of the shards."""
    values, noise = estimate.shards.estimate(shards)
    return replace(estimate, values=values, noise=noise, shards=None)
