"""What EmpiricalBayes makes of groups and of an order: the estimate, and what was learnt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._typing import DataFrame
from ._curves import fit_curve
from ._group_priors import Estimates, GroupFit, fit_groups
from ._group_totals import shrunken_totals, total_variances, with_totals
from ._learnt_prior import LearntRow
from ._normalization import norm, norm_sub
from ._partitions import Partition


@dataclass(frozen=True, eq=False)
class GroupTotals:
    """What :class:`~sklearn_ldp.EmpiricalBayes` learnt about groups of categories.

    Parameters
    ----------
    names : list of length n_groups
        The groups.
    raw : ndarray of shape (n_estimates, n_groups)
        Totals of the raw estimate, after Norm.
    common : ndarray of shape (n_estimates, n_groups)
        Totals of the estimate under the prior that all categories have in common.
    totals : ndarray of shape (n_estimates, n_groups)
        Totals of the result.
    log_evidence : ndarray of shape (n_estimates,)
        Logarithm of how much more likely the estimates are if the groups of any grouping differ
        than if none do.
    share : ndarray of shape (n_estimates,)
        Share of the estimate under priors of groups, beside that under the common prior.
    probability : ndarray of shape (n_estimates,)
        Probability of this grouping, given that groups differ (or that frequencies follow the
        order, if there is one); the rest is that of other groupings and of a smooth curve.
    raw_weights : ndarray of shape (n_estimates, n_groups)
        Weight of the raw totals in the result, beside those of the processed estimate.
    """

    names: list
    raw: np.ndarray
    common: np.ndarray
    totals: np.ndarray
    log_evidence: np.ndarray
    share: np.ndarray
    probability: np.ndarray
    raw_weights: np.ndarray

    def to_frame(self, row: int = 0) -> DataFrame:
        """Return the totals of one estimate as a pandas DataFrame.

        Parameters
        ----------
        row : int, default=0
            The estimate.

        Returns
        -------
        pandas.DataFrame
            One row per group, with the columns raw, common, totals and raw_weight.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        import pandas as pd

        columns = {
            "raw": self.raw[row],
            "common": self.common[row],
            "totals": self.totals[row],
            "raw_weight": self.raw_weights[row],
        }
        return pd.DataFrame(columns, index=pd.Index(self.names, name="group", tupleize_cols=False))


@dataclass(frozen=True, eq=False)
class Grouped:
    """What was learnt about the groups and the order of one row, and the result."""

    raw: np.ndarray
    common: np.ndarray
    values: np.ndarray
    fit: GroupFit
    raw_weights: list[np.ndarray]


def grouped(row: LearntRow, partitions: list[Partition], ordered: bool, simplex: bool) -> Grouped:
    """Return what groups and an order make of a row.

    Parameters
    ----------
    row : LearntRow
        The row and its common prior.
    partitions : list of Partition
        Groups in which frequencies may differ.
    ordered : bool
        Whether frequencies may follow a smooth curve along the order.
    simplex : bool
        Whether the result is non-negative, sums to 1, and has the shrunken totals.

    Returns
    -------
    Grouped
        The result is `values`.
    """
    theta, prior = row.sample.whole_prior(row.weights)
    growth = row.slope / row.std
    estimates = Estimates(row.z, theta, prior, growth, row.means / row.std)
    curve = fit_curve(row.z, growth, 1 / row.std) if ordered else None
    fit = fit_groups(estimates, partitions, curve)
    raw, common, values = norm(row.raw), row.means, row.std * fit.means
    weights = [np.zeros(len(p.names)) for p in partitions]
    if simplex:
        common, values = norm_sub(common), norm_sub(values)
        variances = [total_variances(row.noise, p, values) for p in partitions]
        # The coarsest grouping comes last: its totals hold exactly.
        for i in sorted(range(len(partitions)), key=lambda i: -len(partitions[i].names)):
            totals, weights[i] = shrunken_totals(
                raw, values, partitions[i], variances[i], row.std**2 * fit.variances[i]
            )
            values = with_totals(values, partitions[i], totals)
    return Grouped(raw, common, values, fit, weights)


def group_totals(partition: Partition, place: int, rows: list[Grouped]) -> GroupTotals:
    """Return what was learnt about one of the partitions in all rows."""
    return GroupTotals(
        partition.names,
        np.array([partition.sums(row.raw) for row in rows]),
        np.array([partition.sums(row.common) for row in rows]),
        np.array([partition.sums(row.values) for row in rows]),
        np.array([row.fit.log_evidence for row in rows]),
        np.array([row.fit.share for row in rows]),
        np.array([row.fit.weights[place] for row in rows]),
        np.array([row.raw_weights[place] for row in rows]),
    )
