"""Several populations at once: an estimate for each group of users."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_consistent_length

from .._estimate import FrequencyEstimate
from ..domains._values import group_codes
from ..protocols import Counts
from ._base import BaseOracle


def estimate_by_group(
    oracle: BaseOracle, X: Any, by: Any, *, sample_weight: Any = None
) -> FrequencyEstimate:
    """Estimate the distribution of each group of users: of each region, of each week.

    One collection, counted by group; each group has its own number of users and so its own noise,
    which post-processors and intervals mind row by row. Which group a user is in is not protected:
    it must be public, or known to the collector anyway.

    Privacy: as `fit`, epsilon of every user in `X` once when it holds values; nothing when the
    oracle reads reports. Groups of different users cost no more than one of them.

    Parameters
    ----------
    oracle : oracle
        It stays as it is.
    X : array-like of shape (n_samples,) or (n_samples, n_columns)
        As for its `fit`: values, or reports with ``input="reports"``.
    by : array-like of shape (n_samples,)
        The group of each row.
    sample_weight : array-like of shape (n_samples,), default=None
        The number of users of each row.

    Returns
    -------
    FrequencyEstimate of shape (n_groups, d)
        A row a group, in the sorted order of their names, which are its `row_names`.

    Raises
    ------
    ValueError
        If the groups do not match the rows, or a group has no users.

    Examples
    --------
    >>> from sklearn_ldp import GRR, NormSub
    >>> from sklearn_ldp.oracles import estimate_by_group
    >>> oracle = GRR(epsilon=8.0, categories=["no", "yes"], random_state=0)
    >>> answers, region = ["yes", "no", "yes", "yes"] * 100, ["east", "east", "west", "west"] * 100
    >>> estimate = estimate_by_group(oracle, answers, region)
    >>> estimate.noise.n_samples
    array([200, 200])
    >>> NormSub().fit_transform(estimate).to_frame().round(2)
    category   no  yes
    east      0.5  0.5
    west      0.0  1.0
    """
    names, groups = group_codes(by, "estimate_by_group", "for each row")
    check_consistent_length(X, groups)
    # Of its own, so that the oracle stays as it is; a generator moves on all the same.
    apart = clone(oracle).set_params(random_state=oracle.random_state)
    state = apart._started(X)
    reads = oracle.input == "reports"
    rows = state.protocol.check(X) if reads else state.protocol.domain.encode(X, apart._name)
    weights = None if sample_weight is None else state.checked_weights(sample_weight, len(rows))
    sizes = np.bincount(groups, weights, minlength=len(names))
    if not sizes.all():
        empty = [name for name, size in zip(names, sizes, strict=True) if not size]
        raise ValueError(f"estimate_by_group has no users in {empty}: leave such groups out.")
    decoded = []
    # As many groups at a time as fit in memory; what is kept of them is what the estimate has.
    step = Counts.most(state.mechanism, len(names))
    for first in range(0, len(names), step):
        n_groups = min(step, len(names) - first)
        chosen = np.flatnonzero((first <= groups) & (groups < first + n_groups))
        state = state.emptied(Counts.empty(state.mechanism, 1, n_groups))
        add = state.with_reports if reads else state.with_values
        of_rows = None if weights is None else weights[chosen]
        state = add(rows[chosen], of_rows, oracle.n_jobs, groups[chosen] - first)
        decoded.append(state.decoded[0])
    values, noise = state.mechanism.estimate_decoded(np.concatenate(decoded), sizes.astype(int))
    categories = state.protocol.domain.categories
    oracle = apart._unfitted(state.parameters, state.protocol.domain)
    return FrequencyEstimate(values, categories, noise, oracle, row_names=names)
