"""Several collections of one population in one estimate."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc

from ..noise import Noise
from ..numerics.simplex import norm_sub
from ._covariances import Estimate, EstimateCovariances
from ._difference import check_apart

_ERROR_RATE = 0.01  # of the warning that the groups differ, over all categories
_ROUNDING = 1e-6  # how far from 1 a sum of shares may be


def combine(
    estimates: Sequence[Estimate],
    weights: str | ArrayLike = "precision",
    *,
    shared_users: bool = False,
) -> Any:
    """Return the weighted mean of raw estimates of different users, by any oracles and epsilons.

    Each user took part in one of the collections only, unless it is said that they are the same.

    Privacy: costs none.

    Parameters
    ----------
    estimates : list of FrequencyEstimate of shape (n_estimates, d)
        Raw estimates of the same categories, each with its noise.
    weights : {"precision", "users"} or array-like of shape (n,), default="precision"
        "precision" weights by the inverse variances of the estimate of a category that nobody has:
        the most accurate mean whose weights do not depend on the reports, and unbiased if the
        groups do not differ. "users" weights by the numbers of users: an estimate of all users
        together, who may have chosen their epsilon by their values. An array has a share of the
        population for each estimate, see `poststratify`, and may not depend on the reports.
    shared_users : bool, default=False
        Whether users took part in several of the collections, as in the rounds of a
        :class:`~sklearn_ldp.collection.RepeatedClient`. Their errors may then depend on each other
        in any way, so the noise is the largest that is possible: that of one round, if all rounds
        are alike. For users who draw fresh coins in each round, False is right with
        ``of="users"``, and only with that.

    Returns
    -------
    FrequencyEstimate of shape (n_estimates, d)
        A raw estimate with the noise of the mean (with `shared_users` a bound of it), for
        post-processors and intervals. It has no oracle, no shards and no counts, which some
        searches, `detected` and ExactMLE need.

    Warns
    -----
    UserWarning
        If weights by precision estimate another population, as the groups differ by Cochran's test
        [1]_. The least p-value times the number of categories and rows is then below 1 %, which
        happens by chance in at most 1 % of all calls.

    See Also
    --------
    EstimateDifference : What differs between two of them.
    poststratify : The same for the rows of one estimate, whose weights have names.

    References
    ----------
    .. [1] W. G. Cochran, "The combination of estimates from different experiments", Biometrics
       10(1), 1954, :doi:`10.2307/3001666`.

    Examples
    --------
    >>> from sklearn_ldp import OLH, OUE
    >>> from sklearn_ldp.inference import combine
    >>> colours = ["red"] * 6000 + ["blue"] * 4000
    >>> careful = OLH(0.5, categories=["red", "blue"], random_state=0).fit(colours)
    >>> relaxed = OUE(2.0, categories=["red", "blue"], random_state=1).fit(colours[::4])
    >>> combine([careful.estimate_, relaxed.estimate_]).values.round(1)
    array([[0.6, 0.4]])
    """
    estimates = list(estimates)
    _check(estimates)
    noises: list[Any] = [estimate.noise for estimate in estimates]
    if not isinstance(weights, str):
        parts = check_shares(weights, len(estimates), "combine", "estimate")
        kept = [i for i, part in enumerate(parts) if part]
        estimates = [estimates[i] for i in kept]
        noises, chosen = [at_own_frequencies(one) for one in estimates], list(parts[kept])
    elif weights == "users":
        chosen = [np.asarray(noise.n_users, dtype=float) for noise in noises]
    elif weights == "precision":
        chosen = [1 / np.maximum(np.square(noise.std), 1e-300) for noise in noises]
    else:
        raise ValueError(
            f'Argument weights must be "precision" or "users", or an array, got {weights!r}.'
        )
    shares = np.array(np.broadcast_arrays(*chosen))
    shares /= shares.sum(axis=0)
    pairs = zip(shares, estimates, strict=True)
    mean: Any = sum(share[..., None] * one.values for share, one in pairs)
    if isinstance(weights, str) and weights == "precision" and not shared_users:
        _warn_of_groups(estimates, mean)
    first: Any = estimates[0]
    if shared_users:
        # By Cauchy and Schwarz the variance of a sum of errors e_i is at most the sum of
        # Var(e_i) / a_i, for any a_i that sum to 1; the least bound has a_i in proportion to
        # the standard deviations, here of a category that nobody has.
        parts = np.maximum(shares * [noise.std for noise in noises], 1e-300)
        shares = shares / np.sqrt(parts / parts.sum(axis=0))
    noise = Noise.combined(noises, shares)
    # A survey's design goes on, as statements about it are about the population.
    oracles: list[Any] = [getattr(one, "oracle", None) for one in estimates]
    designs = {repr(one) if hasattr(one, "about") else None for one in oracles}
    oracle = oracles[0] if len(designs) == 1 and designs != {None} else None
    return first.with_values(mean, noise=noise, oracle=oracle, shards=None)


def check_shares(given: ArrayLike, n: int, name: str, of: str) -> np.ndarray:
    """Return shares of a population as an array whose sum is exactly 1, or raise ValueError."""
    shares = np.asarray(given, dtype=float)
    if shares.shape != (n,) or not np.all((shares >= 0) & np.isfinite(shares)):
        raise ValueError(
            f"{name} needs a share of the population >= 0 for each {of}, {n} in all, got {given!r}."
        )
    if abs(shares.sum() - 1) > _ROUNDING:
        raise ValueError(
            f"{name} needs shares whose sum is 1, got {shares.sum():.6g}: divide them by their "
            "sum, if none is missing."
        )
    return shares / shares.sum()


def at_own_frequencies(estimate: Any) -> Noise:
    """Return the noise of an estimate at the frequencies of its users, and not those of others."""
    noise, rows = estimate.noise, enumerate(estimate.values)
    own = np.array([noise.of_rows(i).frequencies_behind(row) for i, row in rows])
    return noise.given(own[0] if len(own) == 1 else own)


def _check(estimates: list[Any]) -> None:
    if not estimates:
        raise ValueError("combine needs at least one estimate, got none.")
    check_apart(estimates, "combination of estimates")
    if any(one.noise.n_samples is None for one in estimates):
        raise ValueError(
            "combine needs the number of users of each estimate: give it a NoiseModel(p, q, "
            "n_samples)."
        )
    n_rows = list(map(len, estimates))
    if len(set(n_rows)) > 1:
        raise ValueError(f"combine needs as many rows in each estimate, got {n_rows}.")


def _warn_of_groups(estimates: list[Any], mean: np.ndarray) -> None:
    """Warn if Cochran's test tells that the groups are not of one population."""
    p_values = []
    for i, row in enumerate(mean):
        pooled = norm_sub(row) if estimates[0].sums_to_one else np.clip(row, 0, 1)
        values = np.array([estimate.values[i] for estimate in estimates])
        spreads = (EstimateCovariances(e.noise.of_rows(i), "population", pooled) for e in estimates)
        variances = np.maximum([spread.variances() for spread in spreads], 1e-300)
        middle = np.average(values, axis=0, weights=1 / variances)
        statistic = np.sum((values - middle) ** 2 / variances, axis=0)
        p_values.append(chdtrc(len(estimates) - 1, statistic))
    if len(estimates) > 1 and np.min(p_values) * np.size(p_values) < _ERROR_RATE:
        _, worst = np.unravel_index(np.argmin(p_values), np.shape(p_values))
        which = estimates[0].categories.tolist()[worst]
        warnings.warn(
            f"The groups differ, most of all in {which!r}: weights by "
            'precision estimate another population than all users; take weights="users", which '
            "estimates these, or compare the groups (estimate_1 - estimate_2).",
            stacklevel=3,
        )
