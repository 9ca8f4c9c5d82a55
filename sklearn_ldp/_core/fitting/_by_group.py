"""Estimates for several groups of users: one collection, whose reports are counted by group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_consistent_length

from ..common.typing import Column, Values
from ..domains.values import as_columns, group_codes, objects, refuse_shuffled
from ..mechanisms import Counts
from ._base import BaseCollector
from ._collected import Groups, check_weights

_Estimate = TypeVar("_Estimate")


def estimate_by_group(
    oracle: BaseCollector[_Estimate],
    X: Values,
    by: Column,
    *,
    sample_weight: ArrayLike | None = None,
) -> _Estimate:
    """Estimate the frequencies in each group of users, such as each region or each week.

    The function runs one collection, and counts the reports separately for each group. The noise of
    a group depends on its number of users. Post-processors and intervals account for the different
    noise of the rows. The group of a user is not protected, so it must be public or known to the
    collector.

    Privacy: if `X` contains values, the call spends epsilon of every user in `X` once. If the
    oracle reads reports, it spends nothing. Each user is in one group, so several groups cost no
    more than one group.

    Parameters
    ----------
    oracle : oracle
        An oracle, or a survey such as :class:`~sklearn_ldp.ColumnOracle`. It is not changed.
    X : array-like of shape (n_samples,) or (n_samples, n_columns)
        Values of users, or their reports if the oracle has ``input="reports"``, as for its `fit`.
    by : array-like of shape (n_samples,) or (n_samples, n_columns)
        The name of the group of each row. If there are several columns, the name of a group is the
        tuple of their values.
    sample_weight : array-like of shape (n_samples,), default=None
        The number of users that each row stands for. If None, each row is one user.

    Returns
    -------
    FrequencyEstimate of shape (n_groups, d), or EstimateSet
        The raw estimate, with one row per group. The rows are sorted by the names of the groups,
        which are its `row_names`. If `by` is an ordered categorical column of pandas, its levels
        define the order. If `oracle` is a survey, the result is a set of estimates, one
        for each column of the survey. Each has a row for every group in which at least one user was
        asked for this column.

    Raises
    ------
    ValueError
        If `by` and `X` have different numbers of rows, or if a group has no users.
    TypeError
        If the oracle does not support groups, such as :class:`~sklearn_ldp.MarginalOracle`.

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
    if not oracle._estimates_groups:
        raise TypeError(
            "estimate_by_group expects an oracle or a ColumnOracle, got "
            f"{type(oracle).__name__}. Instead, fit a separate {type(oracle).__name__} to the "
            "users of each group."
        )
    refuse_shuffled("estimate_by_group", X=X, by=by, sample_weight=sample_weight)
    if len(np.shape(by)) == 2:  # type: ignore[arg-type]
        columns = [column.tolist() for column in as_columns(by, "estimate_by_group: by")]
        by = columns[0] if len(columns) == 1 else objects(list(zip(*columns, strict=True)))
    names, groups = group_codes(by, "estimate_by_group", "for each row")
    check_consistent_length(X, groups)
    # A clone, so that the oracle is not changed; but a generator is shared and advances.
    collector = clone(oracle).set_params(random_state=oracle.random_state)
    state = collector._started(X)
    name = collector._name
    reads_reports = oracle.input == "reports"
    rows = state.protocol.check(X) if reads_reports else state.protocol.domain.encode(X, name)
    weights = None if sample_weight is None else check_weights(sample_weight, len(rows), name)
    sizes = np.bincount(groups, weights, minlength=len(names))
    if not sizes.all():
        empty = [name for name, size in zip(names, sizes, strict=True) if not size]
        raise ValueError(
            f"estimate_by_group got groups without users: {empty}. Remove the rows of these "
            "groups: their sample_weight is 0."
        )
    decoded: Any = None
    # As many groups at a time as fit in memory; of each step only the decoded tallies are kept.
    step = Counts.most(state.mechanism, len(names))
    for first in range(0, len(names), step):
        n_groups = min(step, len(names) - first)
        chosen = np.flatnonzero((first <= groups) & (groups < first + n_groups))
        state = state.emptied(Counts.empty(state.mechanism, 1, n_groups))
        add = state.with_reports if reads_reports else state.with_values
        row_weights = None if weights is None else weights[chosen]
        state = add(rows[chosen], row_weights, oracle.n_jobs, groups[chosen] - first)
        step_decoded = state.decoded[0]
        if decoded is None:  # one array for all steps, because tables of strings are large
            decoded = np.empty((len(names), *step_decoded.shape[1:]), step_decoded.dtype)
        decoded[first : first + n_groups] = step_decoded
    user_groups = Groups(names, decoded, sizes.astype(int))
    return collector._estimate_of(replace(state, groups=user_groups))
