"""`poststratify` and `rake`: weights for groups of users with different response rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ._combined import check_shares, combine
from ._covariances import refuse_without_law

_MOST_ROUNDS = 10_000  # a bound on work; raking converges geometrically
_CONVERGED = 1e-9  # largest accepted distance of a margin from its target


def poststratify(estimate: Any, shares: Mapping[Any, float]) -> Any:
    """Return the estimate for a population that consists of groups with known shares.

    Volunteers do not represent the population, because some groups answer more often than others.
    Therefore each group gets its share of the population as its weight. Weights correct the bias
    if, within each group, respondents are similar to nonrespondents. Weights do not help if the
    decision to answer depends on the answer itself.

    Privacy: costs none, if the groups are public and the shares have another source. Shares that
    depend on the private answers reveal information about them.

    Parameters
    ----------
    estimate : FrequencyEstimate of shape (n_groups, d), or EstimateSet
        A raw estimate with a row for each group of different users, as
        :func:`~sklearn_ldp.oracles.estimate_by_group` returns it. If it is a set, the function
        processes each part of the set.
    shares : mapping of group to float
        For each row name, the share of the population that belongs to this group, for example from
        a census. The sum of the shares is 1. A share of 0 leaves the row out.

    Returns
    -------
    FrequencyEstimate of shape (1, d), or EstimateSet
        A raw estimate with the noise of the weighted sum. Its `design_effect` is the factor by
        which the weights increase the variance. With ``of="users"``, intervals do not account for
        the sampling of users: each group is represented exactly by its reporting users.
        With ``of="population"``, the users of each group are a random sample of the group. The
        estimate has no oracle, no shards and no counts, like the result of `combine`.

    Raises
    ------
    ValueError
        If the keys of `shares` differ from the row names, the shares do not sum to 1, the rows have
        no names or equal names, or the estimate is post-processed or has no noise model.

    See Also
    --------
    rake : For traits with known shares, if the shares of their combinations are unknown.
    combine : The weighted mean of separate estimates instead of the rows of one estimate.

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
    if not hasattr(shares, "keys"):  # of a mapping, or of a pandas Series
        raise TypeError(
            "poststratify needs a mapping from the names of the rows to their shares, got "
            f"{type(shares).__name__}. Pass a dict such as {{{names[0]!r}: 0.5, ...}}."
        )
    shares = dict(shares)
    for group in [*names, *shares]:
        if group not in shares:
            raise ValueError(
                f"poststratify needs a share for each row, but shares has no entry for the row "
                f"{group!r}. Add its share, or 0 to leave the row out."
            )
        if group not in names and shares[group] != 0:
            raise ValueError(
                f"poststratify got the share {shares[group]} for {group!r}, which is not a row of "
                f"the estimate; its rows are {', '.join(map(repr, names[:10]))}. If no user of "
                "this group reported, join it with a similar group before estimate_by_group."
            )
    weights = check_shares([shares[name] for name in names], len(names), "poststratify", "row")
    kept = np.flatnonzero(weights)
    mean = combine([estimate[int(i)] for i in kept], weights[kept])
    return mean.with_values(mean.values, row_names=None)


def rake(estimate: Any, margins: Mapping[Any, Mapping[Any, float]]) -> Any:
    """Return the estimate for a population in which the shares of single traits are known.

    Traits are public properties of users, such as age and sex. Each row of the estimate is about
    one combination of traits (a cell). A cell's weight is first proportional to its number of
    users. Iterative proportional fitting [1]_ then scales the weights until they have the known
    shares of each trait (the margins), and `poststratify` uses the result. The weights are correct
    if the probability that a user answers is a product of one factor for each trait.

    Privacy: costs none, under the conditions of `poststratify`.

    Parameters
    ----------
    estimate : FrequencyEstimate of shape (n_cells, d), or EstimateSet
        A raw estimate. Each row name is a tuple with one value for each trait, as
        :func:`~sklearn_ldp.oracles.estimate_by_group` returns it for several columns.
    margins : mapping of trait to mapping of value to float
        For each trait, the share of each of its values. The traits must be in the order of the
        tuples in the row names. If two traits have the same values, use the positions 0, 1, ..
        in these tuples as keys, instead of names of traits.

    Returns
    -------
    FrequencyEstimate of shape (1, d), or EstimateSet
        The weighted estimate, with the properties of a result of `poststratify`.

    Raises
    ------
    ValueError
        If a value of a trait has no share, if no weights of the cells have all known shares (the
        message names the trait with the largest error), or for the reasons of `poststratify`.

    See Also
    --------
    poststratify : For known shares of the combinations of traits.

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
                f"rake used the shares of {trait!r} for position {place} of the row names, and "
                f"they have no entry for the value {missing[0]!r}. Add its share, or pass margins "
                "in the order of the row names."
            )
        name = f"rake: margin {trait!r}"
        targets.append(check_shares([known[v] for v in values], len(values), name, "value"))
        codes.append(np.array([values.index(cell[place]) for cell in cells]))
    users = np.broadcast_to(np.asarray(estimate.noise.n_users, dtype=float), len(cells))
    weights, gaps = fitted_to_margins(users / users.sum(), codes, targets)
    if max(gaps) > _CONVERGED:
        worst = list(margins)[int(np.argmax(gaps))]
        raise ValueError(
            f"rake found no weights with all known shares; the largest error is {max(gaps):.3g}, "
            f"for {worst!r}. Join rare values before estimate_by_group, or leave this trait out of "
            "by= and margins."
        )
    return poststratify(estimate, dict(zip(names, weights.tolist(), strict=True)))


def fitted_to_margins(
    weights: np.ndarray, codes: list[np.ndarray], targets: list[np.ndarray]
) -> tuple[np.ndarray, list[float]]:
    """Scale the weights of cells until they have the known shares of each trait.

    Shapes: weights (n_cells,) -> (n_cells,).
    codes: for each trait, the position of each cell's value among the values, of shape (n_cells,).
    targets: for each trait, the known shares of its values, of shape (n_values,).
    Returns: the weights, with the sum 1; and for each trait the largest error of a share.
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
    """Return the row names of a raw estimate; raise ValueError if any is missing or repeated.

    name: the calling function, for the message.
    """
    refuse_without_law(estimate, name)
    names = None if estimate.row_names is None else estimate.row_names.tolist()
    if names is None or len(set(names)) < len(names):
        raise ValueError(
            f"{name} needs an estimate with a different name for each row, got row names "
            f"{names!r:.80}. Use estimate_by_group to create an estimate with one row for each "
            "group of users."
        )
    return names


def _columns_of(margins: Mapping[Any, Any], cells: list[tuple[Any, ...]]) -> list[int]:
    """Return, for each trait in `margins`, the position of its values in the row names.

    cells: the row names, tuples with one value for each trait.
    """
    n_traits = len(cells[0])
    by_number = set(margins) == set(range(n_traits))
    if len(margins) != n_traits:
        raise ValueError(
            f"rake needs margins for the {n_traits} traits in the row names, got margins for "
            f"{len(margins)} traits. Pass one mapping of values to shares for each trait."
        )
    known = [frozenset(margin) for margin in margins.values()]
    if not by_number and len(set(known)) < len(known):
        raise ValueError(
            "rake cannot match the margins to the row names, because two traits have the same "
            "values. Use the positions in the row names as keys, as in {0: {...}, 1: {...}}."
        )
    return list(margins) if by_number else list(range(n_traits))
