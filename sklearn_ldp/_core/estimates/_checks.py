"""Checks that the attributes of an estimate from a file are consistent with each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..domains.values import comparable


def check_estimate(estimate: Any) -> None:
    """Raise ValueError unless the attributes of an estimate from a file are consistent.

    The message names the inconsistent attributes; the caller adds the file and the remedy.
    """
    _check_parts(estimate)
    noise = estimate.noise
    oracle = estimate.oracle
    shards = estimate.shards
    if noise is None:
        return
    n_rows, d = estimate.shape
    terms = (*noise.terms, *(noise.draws or ()))
    numbers = [noise.n_samples, noise.n_users, noise.level, *(n for _, n in noise.grids)]
    numbers += [number for term in terms for number in (term.weight, term.users)]
    ends = {np.shape(row)[-1:] for term in terms for row in (term.order, term.frequencies)}
    if not {np.shape(x) for x in numbers} <= {(), (1,), (n_rows,)} or not ends <= {(), (d,)}:
        raise ValueError("its noise has another number of rows or categories than its values")
    channel = noise.channel
    if hasattr(oracle, "channel") and hasattr(channel, "settle"):
        domain = estimate.categories if estimate.domain is None else estimate.domain
        if not channel.settle(oracle, domain):
            raise ValueError(f"its noise is not the noise of its oracle {oracle!r:.200}")
    raw = estimate.as_raw()
    if shards is not None and raw.is_raw and not shards.agree_with(raw.values, noise):
        raise ValueError("its values or its noise do not agree with the counts of its reports")


def _check_parts(estimate: Any) -> None:
    """Raise ValueError unless each attribute of the estimate has a valid type and shape."""
    n_categories = estimate.shape[1]
    raw = estimate.raw_values
    if estimate.oracle is not None and not hasattr(estimate.oracle, "get_params"):
        raise ValueError(f"its oracle is {estimate.oracle!r:.80}, which is not an estimator")
    if len(set(comparable(estimate.categories.tolist()))) < n_categories:
        raise ValueError("it has a category twice")
    if raw is not None and (np.shape(raw) != estimate.shape or not np.all(np.isfinite(raw))):
        raise ValueError(
            f"its raw values, of shape {np.shape(raw)}, either are not finite or do not have the "
            f"shape of its values, {estimate.shape}"
        )
    for name, flag in (estimate.flags or {}).items():
        if not isinstance(name, str) or flag.shape != (n_categories,) or flag.dtype != bool:
            raise ValueError(f"its flag {name!r:.80} does not have one Boolean for each category")
    errors = estimate.standard_errors
    if errors is not None and not np.all(np.isfinite(errors) & (errors >= 0)):
        raise ValueError("its standard errors are negative or not finite")
