"""Several populations at once: an estimate for each group of users."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_consistent_length

from .._categories import group_codes
from .._estimate import FrequencyEstimate
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
        If the groups do not match the rows, a group has no users, or there are so many groups
        that their counts would not fit in memory.

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
    names, codes = group_codes(by, "estimate_by_group", "a row")
    check_consistent_length(X, codes)
    apart = clone(oracle).set_params(n_shards=len(names), random_state=oracle.random_state)
    apart._check_parameters()
    collection = apart._collect(X, sample_weight, None, codes)._state.collection
    if not np.all(collection.sizes):
        empty = [name for name, size in zip(names, collection.sizes, strict=True) if not size]
        raise ValueError(f"estimate_by_group has no users in {empty}: leave such groups out.")
    noise = collection.channel.noise(collection.sizes)
    plain = apart.estimate_
    return FrequencyEstimate(
        noise.debias(collection.channel.decode(collection.tallies)),
        plain.categories,
        noise,
        plain.oracle.set_params(n_shards=oracle.n_shards),
        row_names=names,
    )
