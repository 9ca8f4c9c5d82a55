"""Estimates of a population from groups of users with different response rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ._combined import check_shares, combine
from ._covariances import refuse_without_law

_MOST_ROUNDS = 10_000  # a bound on work; raking converges geometrically
_CONVERGED = 1e-9  # largest accepted distance of a margin from its target


def poststratify(estimate: Any, shares: Mapping[Any, float]) -> Any:
    """Return the estimate of a population with known shares of the groups of users.

    Volunteers do not represent the population, because some groups answer more often than others.
    Weights correct this if, within each group, respondents are similar to nonrespondents. Weights
    do not help if the decision to answer depends on the answer itself.

    Privacy: costs none, if the groups are public and the shares have another source. Shares that
    depend on the private answers reveal information about them.

    Parameters
    ----------
    estimate : FrequencyEstimate of shape (n_groups, d), or EstimateSet
        A raw estimate with a row for each group of different users, as
        :func:`~sklearn_ldp.oracles.estimate_by_group` returns it. Each part of a set is
        weighted.
    shares : mapping of group to float
        The share of the population for each row, by the name of the row, for example from a census.
        The sum of the shares is 1. A share of 0 leaves a row out.

    Returns
    -------
    FrequencyEstimate of shape (1, d), or EstimateSet
        A raw estimate with the noise of the weighted sum. Its `design_effect` is the factor by
        which the weights increase the variance. With ``of="users"``, statements are about the
        population with these shares and with the reporting users as groups.
        ``of="population"`` adds the sampling of each group. The estimate has no oracle, no shards
        and no counts, as after `combine`.

    Raises
    ------
    ValueError
        If groups and shares do not match, the shares do not sum to 1, the rows have no names or
        equal names, or the estimate is post-processed or has no noise.

    See Also
    --------
    rake : For known shares of single traits without known shares of their combinations.
    combine : The same for separate estimates instead of rows.

    Notes
    -----
    With shares `W_h` and estimates `f_h` of the groups, the result is ``sum W_h f_h`` with the
    covariance ``sum W_h**2 Cov(f_h)`` [1]_. The shares are assumed to be exact.

    References
    ----------
    .. [1] D. Holt, T. M. F. Smith, "Post stratification", Journal of the Royal Statistical Society
       A 142(1), 1979, :doi:`10.2307/2344652`.

    Examples
    --------
    >>> from sklearn_ldp import GRR
    >>> from sklearn_ldp.inference import poststratify
    >>> from sklearn_ldp.oracles import estimate_by_group
    >>> age = ["young"] * 9000 + ["old"] * 1000  # in the population, each is one half
    >>> answers = ["yes"] * 9000 + ["no"] * 1000
    >>> oracle = GRR(4.0, categories=["no", "yes"], random_state=0)
    >>> by_age = estimate_by_group(oracle, answers, by=age)
    >>> weighted = poststratify(by_age, {"young": 0.5, "old": 0.5})
    >>> weighted.values.round(2)
    array([[0.5, 0.5]])
    >>> round(weighted.design_effect, 2)
    2.78
    """
    if hasattr(estimate, "with_parts"):
        parts = {name: poststratify(part, shares) for name, part in estimate.items()}
        return estimate.with_parts(parts)
    names = _named_rows(estimate, "poststratify")
    shares = dict(shares)
    for group in [*names, *shares]:
        if group not in shares:
            raise ValueError(
                f"poststratify needs the share of each row, got none of {group!r}. Add this "
                "share, or 0 to leave the row out."
            )
        if group not in names and shares[group] != 0:
            raise ValueError(
                f"poststratify has no row of {group!r} with the share {shares[group]}, and the "
                f"rows are {', '.join(map(repr, names[:10]))}. If no user of this group reported, "
                "join it with a similar group before estimate_by_group."
            )
    weights = check_shares([shares[name] for name in names], len(names), "poststratify", "row")
    kept = np.flatnonzero(weights)
    mean = combine([estimate[int(i)] for i in kept], weights[kept])
    return mean.with_values(mean.values, row_names=None)


def rake(estimate: Any, margins: Mapping[Any, Mapping[Any, float]]) -> Any:
    """Return the estimate of a population with known shares of single traits.

    The weights of the cells (combinations of traits) are proportional to their users, with the
    smallest change that the margins require. They are computed by iterative proportional fitting
    [1]_ and passed to `poststratify`. The weights are correct if the probability to answer is a
    product of one factor for each trait.

    Privacy: the same as `poststratify`.

    Parameters
    ----------
    estimate : FrequencyEstimate of shape (n_cells, d), or EstimateSet
        A raw estimate. The names of its rows are tuples with a value of each trait, as
        :func:`~sklearn_ldp.oracles.estimate_by_group` returns it for several columns.
    margins : mapping of trait to mapping of value to float
        The shares of the values of each trait, in the order of the columns. If two traits have the
        same values, the keys are the numbers of their columns, 0, 1 and so on.

    Returns
    -------
    FrequencyEstimate of shape (1, d), or EstimateSet
        The same as the result of `poststratify`.

    Raises
    ------
    ValueError
        If the margins do not match the cells or contradict each other (the message names the margin
        with the largest error), or for the reasons of `poststratify`.

    See Also
    --------
    poststratify : For known shares of the cells.

    References
    ----------
    .. [1] W. E. Deming, F. F. Stephan, "On a least squares adjustment of a sampled frequency table
       when the expected marginal totals are known", Annals of Mathematical Statistics 11(4), 1940,
       :doi:`10.1214/aoms/1177731829`.

    Examples
    --------
    >>> from sklearn_ldp import GRR
    >>> from sklearn_ldp.inference import rake
    >>> from sklearn_ldp.oracles import estimate_by_group
    >>> cells = [("young", "F")] * 6000 + [("young", "M")] * 2000 + [("old", "F")] * 2000
    >>> oracle = GRR(4.0, categories=["no", "yes"], random_state=0)
    >>> by_cell = estimate_by_group(oracle, ["yes"] * 6000 + ["no"] * 4000, by=cells)
    >>> shares = {"age": {"young": 0.7, "old": 0.3}, "sex": {"F": 0.7, "M": 0.3}}
    >>> rake(by_cell, shares).values.round(1)  # four tenths are young women
    array([[0.6, 0.4]])
    """
    if hasattr(estimate, "with_parts"):
        parts = {name: rake(part, margins) for name, part in estimate.items()}
        return estimate.with_parts(parts)
    names = _named_rows(estimate, "rake")
    cells = [name if isinstance(name, tuple) else (name,) for name in names]
    places = _columns_of(margins, cells)
    targets = []
    codes = []
    for trait, place in zip(margins, places, strict=True):
        known = dict(margins[trait])
        values = list(dict.fromkeys([cell[place] for cell in cells] + list(known)))
        missing = [value for value in values if value not in known]
        if missing:
            raise ValueError(
                f"The margin {trait!r} of rake, used for column {place} of by=, has no share for "
                f"{missing[0]!r}. Add this share, or pass the margins in the order of the columns."
            )
        name = f"rake: margin {trait!r}"
        targets.append(check_shares([known[v] for v in values], len(values), name, "value"))
        codes.append(np.array([values.index(cell[place]) for cell in cells]))
    users = np.broadcast_to(np.asarray(estimate.noise.n_users, dtype=float), len(cells))
    weights, gaps = fitted_to_margins(users / users.sum(), codes, targets)
    if max(gaps) > _CONVERGED:
        worst = list(margins)[int(np.argmax(gaps))]
        raise ValueError(
            f"rake misses the margin {worst!r} by {max(gaps):.3g}, because the cells do not allow "
            "all margins. Join rare values before estimate_by_group, or leave the margin out."
        )
    return poststratify(estimate, dict(zip(names, weights.tolist(), strict=True)))


def fitted_to_margins(
    weights: np.ndarray, codes: list[np.ndarray], targets: list[np.ndarray]
) -> tuple[np.ndarray, list[float]]:
    """Return weights of cells, scaled to one margin after the other, and the errors of the margins.

    Shapes: weights (n_cells,), codes (n_cells,) and targets (n_values,) of each margin.
    """
    gaps = [np.inf]
    for _ in range(_MOST_ROUNDS):
        if max(gaps) <= _CONVERGED:
            break
        for code, target in zip(codes, targets, strict=True):
            sums = np.bincount(code, weights, minlength=len(target))
            weights = weights * (target / np.where(sums > 0, sums, 1))[code]
        gaps = [
            float(np.abs(np.bincount(code, weights, minlength=len(target)) - target).max())
            for code, target in zip(codes, targets, strict=True)
        ]
    return weights / weights.sum(), gaps


def _named_rows(estimate: Any, name: str) -> list[Any]:
    """Return the distinct names of the rows of a raw estimate."""
    refuse_without_law(estimate, name)
    names = None if estimate.row_names is None else estimate.row_names.tolist()
    if names is None or len(set(names)) < len(names):
        raise ValueError(
            f"{name} needs an estimate with rows with distinct names, of groups of different "
            "users. Use estimate_by_group."
        )
    return names


def _columns_of(margins: Mapping[Any, Any], cells: list[tuple[Any, ...]]) -> list[int]:
    """Return the index of the column of each margin."""
    n_traits = len(cells[0])
    by_number = set(margins) == set(range(n_traits))
    if len(margins) != n_traits:
        raise ValueError(
            f"rake needs a margin for each of the {n_traits} columns of by=, got {len(margins)}. "
            "Pass one mapping for each column."
        )
    known = [frozenset(margin) for margin in margins.values()]
    if not by_number and len(set(known)) < len(known):
        raise ValueError(
            "rake cannot assign the margins to columns, because two margins have the same values. "
            "Use the numbers of the columns as keys, as in {0: {...}, 1: {...}}."
        )
    return list(margins) if by_number else list(range(n_traits))
