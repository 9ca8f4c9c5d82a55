"""Several collections of one population in one estimate."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import chdtrc

from .._noise import Noise
from .._numerics.simplex import norm_sub
from ._covariances import Estimate, EstimateCovariances
from ._difference import check_alike

_ERROR_RATE = 0.01  # of the warning that the groups differ, over all categories


def combine(
    estimates: Sequence[Estimate], weights: str = "precision", *, shared_users: bool = False
) -> Any:
    """Return the weighted mean of raw estimates of one population, by any oracles and epsilons.

    Each user took part in one of the collections only, unless it is said that they are the same.

    Privacy: costs none.

    Parameters
    ----------
    estimates : list of FrequencyEstimate of shape (n_estimates, d)
        Raw estimates of the same categories, each with its noise.
    weights : {"precision", "users"}, default="precision"
        "precision" weights by the inverse variances of the estimate of a category that nobody has:
        the most accurate mean whose weights do not depend on the reports, and unbiased if the
        groups do not differ. "users" weights by the numbers of users: an estimate of all users
        together, who may have chosen their epsilon by their values.
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
    if weights not in ("precision", "users"):
        raise ValueError(f'Argument weights must be "precision" or "users", got {weights!r}.')
    noises: list[Any] = [estimate.noise for estimate in estimates]
    if weights == "users":
        chosen = [np.asarray(noise.n_users, dtype=float) for noise in noises]
    else:
        chosen = [1 / np.maximum(np.square(noise.std), 1e-300) for noise in noises]
    shares = np.array(np.broadcast_arrays(*chosen))
    shares /= shares.sum(axis=0)
    pairs = zip(shares, estimates, strict=True)
    mean: Any = sum(share[..., None] * one.values for share, one in pairs)
    if weights == "precision" and not shared_users:
        _warn_of_groups(estimates, mean)
    first: Any = estimates[0]
    if shared_users:
        # By Cauchy and Schwarz the variance of a sum of errors e_i is at most the sum of
        # Var(e_i) / a_i, for any a_i that sum to 1; the least bound has a_i in proportion to
        # the standard deviations, here of a category that nobody has.
        parts = np.maximum(shares * [noise.std for noise in noises], 1e-300)
        shares = shares / np.sqrt(parts / parts.sum(axis=0))
    noise = Noise.combined(noises, shares)
    return first.with_values(mean, noise=noise, oracle=None, shards=None)


def _check(estimates: list[Any]) -> None:
    if not estimates:
        raise ValueError("combine needs at least one estimate, got none.")
    if len(set(map(id, estimates))) < len(estimates):
        raise ValueError("combine was given one estimate twice: its users would count twice.")
    check_alike(estimates, "combination of estimates")
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
        pooled, values = norm_sub(row), np.array([estimate.values[i] for estimate in estimates])
        spreads = (EstimateCovariances(e.noise.of_rows(i), "population", pooled) for e in estimates)
        variances = np.maximum([spread.variances() for spread in spreads], 1e-300)
        middle = np.average(values, axis=0, weights=1 / variances)
        statistic = np.sum((values - middle) ** 2 / variances, axis=0)
        p_values.append(chdtrc(len(estimates) - 1, statistic))
    if len(estimates) > 1 and np.min(p_values) * np.size(p_values) < _ERROR_RATE:
        _, worst = np.unravel_index(np.argmin(p_values), np.shape(p_values))
        warnings.warn(
            f"The groups differ, most of all in {estimates[0].categories[worst]!r}: weights by "
            'precision estimate another population than all users; take weights="users", which '
            "estimates these, or compare the groups (estimate_1 - estimate_2).",
            stacklevel=3,
        )
