"""Totals of groups in EmpiricalBayes: averages of the raw and the model's totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, logsumexp

from ..._core.common.pandas import import_pandas
from ..._core.common.typing import DataFrame
from ..._core.noise import Noise, variances_after_norm
from ..._core.numerics.deconvolution import least_level
from ..._core.numerics.dirichlet import KnownVariances, few_frequencies
from ..._core.numerics.simplex import norm, norm_sub
from .group_priors import Estimates, GroupFit, fit_curve, fit_groups
from .hints import Partition
from .priors import LearnedRow

# Chosen on 2026-11-28 among 100 rules (this range, prior odds of an excess, the totals to shrink
# to, guards for few groups) on 208 settings of groups of 10 to 100 categories; other settings are
# in `python -m benchmarks.accuracy.simple_questions`. The other constants were chosen by hand; they
# limit the work.
_EXCESSES = np.exp(np.arange(-2, 4.01, 0.5))  # relative to the variance between totals by chance
# Relative to the variance of totals under a uniform distribution on the simplex. Chosen on the same
# day among six bounds, on 232 settings of US states and of 3 to 20 groups
# (doc/notes/postprocessors.md).
_MOST_EXCESS = 1.0
_FEW = 4  # groups with exact variances in any case
_CHEAP = 500_000  # categories times groups, up to which all groups have exact variances
_MOST_GROUPS = 100  # up to this number of groups, totals have a Dirichlet prior
_MOST_RATIO = 16  # of the sizes of such groups
_LEAST = 0.02  # minimum of the variance by chance, relative to the variance of the raw totals


@dataclass(frozen=True, eq=False)
class GroupTotals:
    """The total frequencies of groups of categories in :class:`~sklearn_ldp.EmpiricalBayes`.

    Parameters
    ----------
    names : list of length n_groups
        The names of the groups.
    raw : ndarray of shape (n_estimates, n_groups)
        Totals of the raw estimate, shifted to the sum 1 (Norm).
    common : ndarray of shape (n_estimates, n_groups)
        Totals of the estimate under the common prior of all categories.
    totals : ndarray of shape (n_estimates, n_groups)
        Totals of the final estimate.
    log_evidence : ndarray of shape (n_estimates,)
        Logarithm of the Bayes factor for the model that groups differ, against the model that they
        do not differ.
    share : ndarray of shape (n_estimates,)
        Weight of the estimate under priors that differ between groups. The estimate under the
        common prior has the weight 1 - share.
    probability : ndarray of shape (n_estimates,)
        Probability that the groups of this grouping differ, given that the groups of some grouping
        differ or frequencies follow a smooth curve. With the probabilities of the other groupings
        and the curve it sums to 1.
    raw_weights : ndarray of shape (n_estimates, n_groups)
        Weight w of the totals from the raw estimate in the final totals. The totals of the model
        have the weight 1 - w.
    """

    names: list[Any]
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
            Index of the estimate.

        Returns
        -------
        pandas.DataFrame
            One row per group, with the columns raw, common, totals and raw_weight.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = import_pandas("GroupTotals.to_frame")
        columns = {name: getattr(self, name)[row] for name in ("raw", "common", "totals")}
        columns["raw_weight"] = self.raw_weights[row]
        return pd.DataFrame(columns, index=pd.Index(self.names, name="group", tupleize_cols=False))


@dataclass(frozen=True, eq=False)
class Grouped:
    """The result for one row with groups or an order: estimates, their fit, and weights."""

    raw: np.ndarray
    common: np.ndarray
    values: np.ndarray
    fit: GroupFit
    raw_weights: list[np.ndarray]


def grouped(row: LearnedRow, partitions: list[Partition], ordered: bool, simplex: bool) -> Grouped:
    """Improve one row by priors of groups and, if ordered, by a smooth curve."""
    # ordered: whether frequencies may follow a smooth curve along the order.
    # simplex: whether the result is non-negative, sums to 1, and has the shrunken totals.
    theta, prior = row.sample.whole_prior(row.weights)
    z = row.sample.z
    std = row.sample.std
    growth = row.sample.growth
    estimates = Estimates(z, theta, prior, growth, row.means / std, row.sample.law)
    curve = fit_curve(z, growth, 1 / std) if ordered else None
    fit = fit_groups(estimates, partitions, curve)
    raw = norm(row.raw)
    common = row.means
    values = std * fit.means
    weights = [np.zeros(len(p.names)) for p in partitions]
    if simplex:
        common = norm_sub(common)
        values = norm_sub(values)
        variances = total_variances(row.noise, partitions, values) if partitions else []
        # The coarsest grouping comes last: its totals hold exactly.
        for i in sorted(range(len(partitions)), key=lambda i: -len(partitions[i].names)):
            partition = partitions[i]
            model_variances = std**2 * fit.variances[i]
            totals, weights[i] = shrunken_totals(
                raw, values, partition, variances[i], model_variances
            )
            values = with_totals(values, partition, totals)
    return Grouped(raw, common, values, fit, weights)


def group_totals(partition: Partition, place: int, rows: list[Grouped]) -> GroupTotals:
    """Collect the totals of a partition's groups from the results of all rows."""
    return GroupTotals(
        names=partition.names,
        raw=np.array([partition.sums(row.raw) for row in rows]),
        common=np.array([partition.sums(row.common) for row in rows]),
        totals=np.array([partition.sums(row.values) for row in rows]),
        log_evidence=np.array([row.fit.log_evidence for row in rows]),
        share=np.array([row.fit.share for row in rows]),
        probability=np.array([row.fit.weights[place] for row in rows]),
        raw_weights=np.array([row.raw_weights[place] for row in rows]),
    )


def shrunken_totals(
    raw: np.ndarray,
    processed: np.ndarray,
    partition: Partition,
    variances: np.ndarray,
    posterior_variances: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Average the raw and the processed totals of groups; return these, and the raw weights.

    Shapes: raw (d,), processed (d,), variances (n_groups,), posterior_variances (n_groups,)
    -> (n_groups,), (n_groups,).
    raw: raw estimate that sums to 1.
    processed: processed estimate that sums to 1.
    """
    # The raw total of a group differs from the processed total by chance, with a variance that
    # follows from the model, or because the model lacks a common effect of the group's members.
    # All groups show the variance of this excess, over which the result averages (unpublished).
    sizes = partition.sizes()
    spread = sizes * (1 - sizes / len(partition.codes))
    if len(sizes) < 2 or not np.all(variances[spread > 0] > 0):
        return partition.sums(processed), np.zeros(len(sizes))
    gaps = partition.sums(raw) - partition.sums(processed)
    # For a small group, the variance by chance is itself uncertain, hence a common one for all.
    chance = np.sum(variances - posterior_variances)
    chance = max(chance, _LEAST * variances.sum()) * spread / spread.sum()
    parts = sizes / sizes.sum()
    # Without a bound, weak data would allow an excess that is impossible on the simplex.
    most = _MOST_EXCESS * (parts @ (1 - parts)) / (len(parts) + 1)
    n_excesses = max(np.count_nonzero(_EXCESSES * chance.sum() <= most), 1)
    excess = _EXCESSES[:n_excesses, None] * chance.sum() * parts

    def log_likelihood(total: np.ndarray) -> np.ndarray:
        return -0.5 * np.sum(np.log(total) + gaps**2 / total, axis=-1)

    scores = log_likelihood(chance + excess)
    weights = np.exp(scores - logsumexp(scores)) @ (excess / (chance + excess))
    odds = logsumexp(scores) - np.log(len(scores)) - log_likelihood(chance)
    weights = weights * expit(odds)
    own = totals_alone(partition.sums(raw), sizes, float(variances.sum()))
    totals = partition.sums(processed) + weights * (own - partition.sums(processed))
    return norm_sub(totals[None])[0], weights


def totals_alone(totals: np.ndarray, sizes: np.ndarray, variance: float) -> np.ndarray:
    """Improve the raw totals of groups without using the categories within groups.

    Shapes: totals (n_groups,), sizes (n_groups,) -> (n_groups,).
    totals: raw totals, with the sum 1.
    variance: the sum of the variances of the raw totals.
    Returns: posterior means under Dirichlet priors of the totals; for many groups, or groups of
    very different sizes, the raw totals.
    """
    parts = sizes / sizes.sum()
    if len(sizes) > _MOST_GROUPS or sizes.max() > _MOST_RATIO * sizes.min():
        return totals
    # Independent errors with variances proportional to the sizes have this total after Norm.
    std = least_level(np.sqrt(variance / (1 - parts @ parts) * parts.min()))
    law = KnownVariances(parts / parts.min())
    return std * few_frequencies(totals / std, 1 / std, law, sizes).means


def total_variances(
    noise: Noise, partitions: list[Partition], frequencies: np.ndarray
) -> list[np.ndarray]:
    """Return, for each partition, the variances of its groups' totals in a raw estimate (Norm).

    Shapes: frequencies (d,) -> a list of (n_groups,).
    Exact variances of a mechanism with covariances are slow. In large domains, only a few groups
    have exact variances. For the other groups, the variances without covariances are multiplied by
    the ratio of exact to approximate variances in the few groups.
    """
    d = len(frequencies)
    chosen = []
    for partition in partitions:
        n_groups = len(partition.names)
        by_size = np.argsort(partition.sizes(), kind="stable")
        is_exact = n_groups <= _FEW or d * n_groups <= _CHEAP
        few = by_size[np.linspace(0, n_groups - 1, _FEW).astype(np.int64)]
        chosen.append((partition, np.arange(n_groups) if is_exact else few))
    # All groups together, because the distribution of the reports needs a pass over them.
    rows = sparse.vstack([partition.rows()[places] for partition, places in chosen], format="csr")
    ends = np.cumsum([len(places) for _, places in chosen])[:-1]
    known = np.split(variances_after_norm(noise, rows, frequencies), ends)
    single = np.maximum(np.ravel(noise.variance(frequencies)), 0)
    result = []
    for (partition, places), exact in zip(chosen, known, strict=True):
        sizes = partition.sizes()
        plain = partition.sums(single) * (1 - 2 * sizes / d) + (sizes / d) ** 2 * single.sum()
        is_exact = len(exact) == len(sizes)
        result.append(exact if is_exact else plain * (exact.sum() / plain[places].sum()))
    return result


def with_totals(values: np.ndarray, partition: Partition, totals: np.ndarray) -> np.ndarray:
    """Apply Norm-Sub within each group, so that the values have the given totals.

    Shapes: values (d,), totals (n_groups,) -> (d,).
    values: non-negative values.
    totals: non-negative totals.
    This is Michelot's projection: it sets members to 0 until all remaining members are positive.
    """
    stays = np.ones(len(values), dtype=bool)
    # Ends: each pass removes at least one member.
    while True:
        codes = partition.codes[stays]
        n_left = np.bincount(codes, minlength=len(totals))
        sums = np.bincount(codes, weights=values[stays], minlength=len(totals))
        moves = ((sums - totals) / np.maximum(n_left, 1))[partition.codes]
        positive = stays & (values > moves)
        if np.array_equal(positive, stays):
            return np.where(stays, values - moves, 0)
        stays = positive
