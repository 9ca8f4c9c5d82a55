"""Estimates of a population from groups of users that answered more or less often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ._combined import check_shares, combine
from ._covariances import refuse_without_law

_MOST_ROUNDS = 10_000  # a bound on work; raking converges geometrically
_CONVERGED = 1e-9  # how far from its target a margin of the weights may be


def poststratify(estimate: Any, shares: Mapping[Any, float]) -> Any:
    """Return the estimate of a population in which the groups of users have known shares.

    Volunteers are not the population: some groups answer more often than others. Within a group,
    those who answer must be like those who do not. Weights do not help where people answer or not
    because of what the answer is.

    Privacy: costs none, as long as the groups are public and the shares come from elsewhere. Shares
    that depend on the private answers reveal them.

    Parameters
    ----------
    estimate : FrequencyEstimate of shape (n_groups, d), or EstimateSet
        A raw estimate with a row for each group of different users, as
        :func:`~sklearn_ldp.oracles.estimate_by_group` returns it. Of a set, each part is weighted.
    shares : mapping of group to float
        The share of the population that each row stands for, by the row's name, such as those of a
        census. Their sum is 1; a share of 0 leaves a row out.

    Returns
    -------
    FrequencyEstimate of shape (1, d), or EstimateSet
        A raw estimate with the noise of the weighted sum; its `design_effect` tells what the
        weights cost. With ``of="users"``, statements are about the population that the shares
        describe, with its groups as they reported; ``of="population"`` adds the sampling of each
        group. It has no oracle, no shards and no counts, as after `combine`.

    Raises
    ------
    ValueError
        If groups and shares do not match, the shares do not sum to 1, the names of the rows are not
        known or not distinct, or the estimate is post-processed or has no noise.

    See Also
    --------
    rake : If the shares of single traits are known, but not those of their combinations.
    combine : The same for estimates that are not rows of one.

    Notes
    -----
    With shares `W_h` and estimates `f_h` of the groups it is ``sum W_h f_h``, and its covariance
    is ``sum W_h**2 Cov(f_h)`` [1]_. The shares are taken as known exactly.

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
    >>> everybody = poststratify(by_age, {"young": 0.5, "old": 0.5})
    >>> everybody.values.round(2)
    array([[0.5, 0.5]])
    >>> round(everybody.design_effect, 2)
    2.78
    """
    if hasattr(estimate, "with_parts"):
        return estimate.with_parts({n: poststratify(one, shares) for n, one in estimate.items()})
    names, shares = _named_rows(estimate, "poststratify"), dict(shares)
    for group in [*names, *shares]:
        if group not in shares:
            raise ValueError(
                f"poststratify needs the share of each row, got none of {group!r}: 0 leaves it out."
            )
        if group not in names and shares[group] != 0:
            raise ValueError(
                f"poststratify has no row of {group!r}, whose share is {shares[group]}: the rows "
                f"are {', '.join(map(repr, names[:10]))}. If nobody of it reported, join it with a "
                "group that is like it before estimate_by_group."
            )
    weights = check_shares([shares[name] for name in names], len(names), "poststratify", "row")
    kept = np.flatnonzero(weights)
    mean = combine([estimate[int(i)] for i in kept], weights[kept])
    return mean.with_values(mean.values, row_names=None)


def rake(estimate: Any, margins: Mapping[Any, Mapping[Any, float]]) -> Any:
    """Return the estimate of a population of which the shares of single traits are known.

    The cells (combinations of traits) are weighted in proportion to their users, changed as little
    as the margins require: by iterative proportional fitting [1]_, after which `poststratify` does
    the rest. The weights are right if the chance to answer is a product of one factor for each
    trait.

    Privacy: as `poststratify`.

    Parameters
    ----------
    estimate : FrequencyEstimate of shape (n_cells, d), or EstimateSet
        A raw estimate whose rows are named by tuples with a value of each trait, as
        :func:`~sklearn_ldp.oracles.estimate_by_group` returns it for several columns.
    margins : mapping of trait to mapping of value to float
        The shares of the values of each trait, in the order of the columns. If two traits have the
        same values, the keys are the numbers of their columns, 0, 1 and so on.

    Returns
    -------
    FrequencyEstimate of shape (1, d), or EstimateSet
        As `poststratify` returns it.

    Raises
    ------
    ValueError
        If the margins do not match the cells or contradict each other, which is said of the
        margin that is missed most; or as for `poststratify`.

    See Also
    --------
    poststratify : If the shares of the cells are known.

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
        return estimate.with_parts({name: rake(one, margins) for name, one in estimate.items()})
    names = _named_rows(estimate, "rake")
    cells = [name if isinstance(name, tuple) else (name,) for name in names]
    places = _columns_of(margins, cells)
    targets, codes = [], []
    for trait, place in zip(margins, places, strict=True):
        known = dict(margins[trait])
        values = list(dict.fromkeys([cell[place] for cell in cells] + list(known)))
        missing = [value for value in values if value not in known]
        if missing:
            raise ValueError(
                f"rake needs the share of {missing[0]!r} in the margin {trait!r}, which is that of "
                f"column {place} of by=: margins stand in the order of the columns."
            )
        what = f"rake: margin {trait!r}"
        targets.append(check_shares([known[v] for v in values], len(values), what, "value"))
        codes.append(np.array([values.index(cell[place]) for cell in cells]))
    users = np.broadcast_to(np.asarray(estimate.noise.n_users, dtype=float), len(cells))
    weights, gaps = fitted_to_margins(users / users.sum(), codes, targets)
    if max(gaps) > _CONVERGED:
        worst = list(margins)[int(np.argmax(gaps))]
        raise ValueError(
            f"rake misses the margin {worst!r} by {max(gaps):.3g}, as the cells do not allow "
            "all margins: join values that few have before estimate_by_group, or leave it out."
        )
    return poststratify(estimate, dict(zip(names, weights.tolist(), strict=True)))


def fitted_to_margins(
    weights: np.ndarray, codes: list[np.ndarray], targets: list[np.ndarray]
) -> tuple[np.ndarray, list[float]]:
    """Return weights of cells, scaled to one margin after the other, and how far each is missed.

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
            f"{name} needs an estimate whose rows have distinct names, of groups of different "
            "users, as estimate_by_group returns it."
        )
    return names


def _columns_of(margins: Mapping[Any, Any], cells: list[tuple[Any, ...]]) -> list[int]:
    """Return the number of the column of each margin."""
    n_traits = len(cells[0])
    by_number = set(margins) == set(range(n_traits))
    if len(margins) != n_traits:
        raise ValueError(
            f"rake needs a margin for each of the {n_traits} columns of by=, got {len(margins)}."
        )
    known = [frozenset(margin) for margin in margins.values()]
    if not by_number and len(set(known)) < len(known):
        raise ValueError(
            "rake cannot tell which column each margin is of, as two have the same values: let "
            "the keys be the numbers of the columns, as in {0: {...}, 1: {...}}."
        )
    return list(margins) if by_number else list(range(n_traits))
