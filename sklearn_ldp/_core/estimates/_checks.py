"""What the parts of an estimate have to agree on, whoever has put them together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..domains.values import comparable


def check_estimate(estimate: Any) -> None:
    """Raise ValueError unless the parts of an estimate, which are from a file, belong together."""
    _check_parts(estimate)
    noise, oracle, shards = estimate.noise, estimate.oracle, estimate.shards
    if noise is None:
        return
    (n_rows, d), terms = estimate.shape, (*noise.terms, *(noise.draws or ()))
    numbers = [noise.n_samples, noise.n_users, noise.level, *(n for _, n in noise.grids)]
    numbers += [number for term in terms for number in (term.weight, term.users)]
    ends = {np.shape(row)[-1:] for term in terms for row in (term.order, term.frequencies)}
    if not {np.shape(x) for x in numbers} <= {(), (1,), (n_rows,)} or not ends <= {(), (d,)}:
        raise ValueError("its noise has other rows or categories")
    law = noise.channel
    if hasattr(oracle, "channel") and hasattr(law, "settle"):
        domain = estimate.categories if estimate.domain is None else estimate.domain
        if not law.settle(oracle, domain):
            raise ValueError(f"its noise is not that of {oracle!r:.200}")
    raw = estimate.as_raw()
    if shards is not None and raw.is_raw and not shards.agree_with(raw.values, noise):
        raise ValueError("its values or its noise are not those of its tallies")


def _check_parts(estimate: Any) -> None:
    """Raise ValueError unless each part has the type and the shape that an estimate needs."""
    n_categories, raw = estimate.shape[1], estimate.raw_values
    if estimate.oracle is not None and not hasattr(estimate.oracle, "get_params"):
        raise ValueError(f"an oracle that is {estimate.oracle!r:.80}")
    if len(set(comparable(estimate.categories.tolist()))) < n_categories:
        raise ValueError("it has a category twice")
    if raw is not None and (np.shape(raw) != estimate.shape or not np.all(np.isfinite(raw))):
        raise ValueError(f"raw values of shape {np.shape(raw)}, or that are not finite")
    for name, flag in (estimate.flags or {}).items():
        if not isinstance(name, str) or flag.shape != (n_categories,) or flag.dtype != bool:
            raise ValueError(f"the flag {name!r:.80} is not one truth value for each category")
    errors = estimate.standard_errors
    if errors is not None and not np.all(np.isfinite(errors) & (errors >= 0)):
        raise ValueError("standard errors that are negative or not finite")
