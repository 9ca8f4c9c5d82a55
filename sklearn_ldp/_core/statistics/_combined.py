"""`combine`: one estimate from the estimates of several collections of one population."""

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

_ERROR_RATE = 0.01  # probability of a false warning that the groups differ, over all categories
_ROUNDING = 1e-6  # the largest accepted distance of a sum of shares from 1


def combine(
    estimates: Sequence[Estimate],
    weights: str | ArrayLike = "precision",
    *,
    shared_users: bool = False,
) -> Any:
    """Return the weighted mean of the raw estimates of several collections.

    The collections may use different oracles and values of epsilon. By default, each user must have
    taken part in only one of the collections. If users took part in several collections, see
    `shared_users`.

    Privacy: costs none.

    Parameters
    ----------
    estimates : list of FrequencyEstimate of shape (n_estimates, d)
        Raw estimates of the same categories, each with its noise.
    weights : {"precision", "users"} or array-like of shape (n,), default="precision"
        The weight of each estimate. "precision" weights each estimate by its inverse variance at
        frequency 0. Among all weights that do not depend on the reports, these weights give the
        most accurate mean. The mean is unbiased if the users of all collections come from the same
        population. "users" weights each estimate by its number of users. The mean then estimates
        the frequencies of all users together, even if a user's choice of epsilon depended on the
        user's value. An array contains, for each estimate, the share of the population that its
        users represent (see `poststratify`). The shares must not be computed from the reports.
    shared_users : bool, default=False
        Whether users took part in several of the collections, as in the rounds of a
        :class:`~sklearn_ldp.collection.RepeatedClient`. If True, the errors of the collections may
        depend on each other in any way, so the noise of the result is an upper bound. If all
        rounds have the same noise, the bound equals the noise of one round. If the users drew
        fresh random bits in each round, False is also correct, but only for statements about these
        users (``of="users"``), not for statements about their population.

    Returns
    -------
    FrequencyEstimate of shape (n_estimates, d)
        The weighted mean, as a raw estimate. Its noise is the noise of the mean or, if
        `shared_users` is True, an upper bound on this noise. Intervals and most post-processors
        accept this estimate. It has no oracle, no shards (random subsets of the reports) and no
        counts, so `detected`, ExactMLE and some searches raise an error.

    Warns
    -----
    UserWarning
        If ``weights="precision"`` and Cochran's test [1]_ rejects that the users of all collections
        come from the same population. Then the mean does not estimate the frequencies of all users.
        The test multiplies the smallest p-value by the number of categories times the number of
        rows, and rejects below 1 %. A false warning appears in at most 1 % of all calls.

    See Also
    --------
    EstimateDifference : The differences between two estimates.
    poststratify : The weighted mean of the rows of one estimate, with a weight for each row name.

    References
    ----------
    .. [1] W. G. Cochran, "The combination of estimates from different experiments", Biometrics
       10(1), 1954, :doi:`10.2307/3001666`.

    Examples
    --------
    >>> from sklearn_ldp import OLH, OUE
    >>> from sklearn_ldp.inference import combine
    >>> colors = ["red"] * 6000 + ["blue"] * 4000
    >>> careful = OLH(0.5, categories=["red", "blue"], random_state=0).fit(colors)
    >>> relaxed = OUE(2.0, categories=["red", "blue"], random_state=1).fit(colors[::4])
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
        noises = [at_own_frequencies(estimate) for estimate in estimates]
        factors = list(parts[kept])
    elif weights == "users":
        factors = [np.asarray(noise.n_users, dtype=float) for noise in noises]
    elif weights == "precision":
        factors = [1 / np.maximum(np.square(noise.std), 1e-300) for noise in noises]
    else:
        raise ValueError(
            f'Argument weights must be "precision", "users" or an array, got {weights!r}. For an '
            "array, pass one share of the population for each estimate."
        )
    shares = np.array(np.broadcast_arrays(*factors))
    shares /= shares.sum(axis=0)
    pairs = zip(shares, estimates, strict=True)
    mean: Any = sum(share[..., None] * estimate.values for share, estimate in pairs)
    if isinstance(weights, str) and weights == "precision" and not shared_users:
        _warn_of_groups(estimates, mean)
    first: Any = estimates[0]
    if shared_users:
        # By Cauchy and Schwarz the variance of a sum of errors e_i is at most the sum of
        # Var(e_i) / a_i, for any a_i that sum to 1. The bound is smallest if the a_i are
        # proportional to the standard deviations, here those at frequency 0.
        parts = np.maximum(shares * [noise.std for noise in noises], 1e-300)
        shares = shares / np.sqrt(parts / parts.sum(axis=0))
    noise = Noise.combined(noises, shares)
    # The result keeps the design of a survey, because statements about a survey are about the
    # population.
    oracles: list[Any] = [getattr(estimate, "oracle", None) for estimate in estimates]
    designs = {repr(oracle) if hasattr(oracle, "about") else None for oracle in oracles}
    oracle = oracles[0] if len(designs) == 1 and designs != {None} else None
    return first.with_values(mean, noise=noise, oracle=oracle, shards=None)


def check_shares(values: ArrayLike, n: int, name: str, unit: str) -> np.ndarray:
    """Return shares of a population as an array, divided by their sum, which must be nearly 1.

    Shapes: values (n,) -> (n,).
    name, unit: for error messages: the function, and the noun for the groups with shares.
    Raises ValueError for a wrong number of shares, a negative or infinite share, or another sum.
    """
    shares = np.asarray(values, dtype=float)
    if shares.shape != (n,) or not np.all((shares >= 0) & np.isfinite(shares)):
        raise ValueError(
            f"{name} needs {n} shares of the population, one finite number >= 0 for each {unit}, "
            f"got {values!r}. Pass {n} such shares with the sum 1."
        )
    if abs(shares.sum() - 1) > _ROUNDING:
        raise ValueError(
            f"{name} needs shares with the sum 1, got shares with the sum {shares.sum():.6g}. Add "
            "the missing shares, or divide each share by this sum."
        )
    return shares / shares.sum()


def at_own_frequencies(estimate: Any) -> Noise:
    """Return the noise of an estimate, evaluated at the frequencies that this estimate shows."""
    noise = estimate.noise
    rows = enumerate(estimate.values)
    own = np.array([noise.of_rows(i).frequencies_behind(row) for i, row in rows])
    return noise.given(own[0] if len(own) == 1 else own)


def _check(estimates: list[Any]) -> None:
    if not estimates:
        raise ValueError(
            "combine needs at least one estimate, got an empty list. Pass a list of raw estimates."
        )
    check_apart(estimates, "combination of estimates")
    if any(estimate.noise.n_samples is None for estimate in estimates):
        raise ValueError(
            "combine needs the number of users of each estimate, but at least one estimate has no "
            "such number. Create this estimate with noise=NoiseModel(p, q, n_samples)."
        )
    n_rows = list(map(len, estimates))
    if len(set(n_rows)) > 1:
        raise ValueError(
            f"combine needs estimates with equal numbers of rows, got estimates with {n_rows} "
            "rows. Select the rows to combine, as in estimate[:2]."
        )


def _warn_of_groups(estimates: list[Any], mean: np.ndarray) -> None:
    """Warn if Cochran's test rejects that the users of all estimates come from one population.

    mean: the weighted mean of the estimates, of shape (n_rows, d).
    """
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
        category = estimates[0].categories.tolist()[worst]
        warnings.warn(
            "The estimates differ by more than their noise explains, most significantly in "
            f'category {category!r}, so the mean with weights="precision" does not estimate the '
            'frequencies of all users. Use weights="users" to estimate them, or compare two '
            "estimates by their difference (estimate_1 - estimate_2).",
            stacklevel=3,
        )
