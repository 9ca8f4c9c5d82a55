"""Estimates of groups of users: one collection, counted by group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_consistent_length

from ..domains.values import as_columns, group_codes, objects
from ..mechanisms import Counts
from ..support.typing import Column, Values
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
    """Estimate the distribution of each group of users, such as each region or each week.

    This is one collection, whose reports are counted by group. Each group has its own number of
    users and therefore its own noise, which post-processors and intervals take into account row by
    row. The group of a user is not protected: it must be public, or known to the collector anyway.

    Privacy: as for `fit`, this spends epsilon of every user in `X` once if `X` holds values, and
    nothing if the oracle reads reports. Several groups of different users cost no more than one.

    Parameters
    ----------
    oracle : oracle
        The oracle to use, or a survey such as :class:`~sklearn_ldp.ColumnOracle`; it is not
        changed.
    X : array-like of shape (n_samples,) or (n_samples, n_columns)
        As for its `fit`: values, or reports with ``input="reports"``.
    by : array-like of shape (n_samples,) or (n_samples, n_columns)
        The group of each row. Several columns name a group by the tuple of their values.
    sample_weight : array-like of shape (n_samples,), default=None
        The number of users of each row.

    Returns
    -------
    FrequencyEstimate of shape (n_groups, d), or EstimateSet
        One row per group, in the sorted order of the groups' names, which are its `row_names`. In
        a set of estimates, a column has rows for the groups in which somebody was asked for it.

    Raises
    ------
    ValueError
        If the groups do not match the rows, or a group has no users.
    TypeError
        If the oracle makes no estimates of groups, as :class:`~sklearn_ldp.MarginalOracle`.

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
            f"estimate_by_group is for oracles and for ColumnOracle, got {type(oracle).__name__}: "
            "fit one to the users of each group."
        )
    if len(np.shape(by)) == 2:  # type: ignore[arg-type]
        columns = [column.tolist() for column in as_columns(by, "estimate_by_group: by")]
        by = columns[0] if len(columns) == 1 else objects(list(zip(*columns, strict=True)))
    names, groups = group_codes(by, "estimate_by_group", "for each row")
    check_consistent_length(X, groups)
    # A clone, so that the oracle is not changed; but a generator is shared, and moves on.
    apart = clone(oracle).set_params(random_state=oracle.random_state)
    state, name = apart._started(X), apart._name
    reads = oracle.input == "reports"
    rows = state.protocol.check(X) if reads else state.protocol.domain.encode(X, name)
    weights = None if sample_weight is None else check_weights(sample_weight, len(rows), name)
    sizes = np.bincount(groups, weights, minlength=len(names))
    if not sizes.all():
        empty = [name for name, size in zip(names, sizes, strict=True) if not size]
        raise ValueError(f"estimate_by_group has no users in {empty}: leave such groups out.")
    decoded: Any = None
    # As many groups at a time as fit in memory; only what the estimate needs of them is kept.
    step = Counts.most(state.mechanism, len(names))
    for first in range(0, len(names), step):
        n_groups = min(step, len(names) - first)
        chosen = np.flatnonzero((first <= groups) & (groups < first + n_groups))
        state = state.emptied(Counts.empty(state.mechanism, 1, n_groups))
        add = state.with_reports if reads else state.with_values
        of_rows = None if weights is None else weights[chosen]
        state = add(rows[chosen], of_rows, oracle.n_jobs, groups[chosen] - first)
        of_groups = state.decoded[0]
        if decoded is None:  # filled in, as tables of strings are too large to be held twice
            decoded = np.empty((len(names), *of_groups.shape[1:]), of_groups.dtype)
        decoded[first : first + n_groups] = of_groups
    groups_of_users = Groups(names, decoded, sizes.astype(int))
    return apart._estimate_of(replace(state, groups=groups_of_users))
