"""The totals of groups in EmpiricalBayes: weighted averages of the raw totals and model totals."""

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
        Totals of the raw estimate after Norm, which adds the same amount to all categories so that
        they sum to 1.
    common : ndarray of shape (n_estimates, n_groups)
        Totals of the estimate if all categories have a common prior.
    totals : ndarray of shape (n_estimates, n_groups)
        Totals of the final estimate.
    log_evidence : ndarray of shape (n_estimates,)
        Logarithm of the Bayes factor for the model that groups differ, against the model that
        groups do not differ.
    share : ndarray of shape (n_estimates,)
        In the final estimate, the weight of the estimate under priors that differ between groups.
        The estimate under the common prior has the weight 1 - share.
    probability : ndarray of shape (n_estimates,)
        Posterior probability that the groups of this grouping differ, under the condition that the
        groups of some grouping differ or that the frequencies follow a smooth curve. The
        probabilities of all groupings and of the curve sum to 1.
    raw_weights : ndarray of shape (n_estimates, n_groups)
        In the final totals, the weight w of the totals that are computed from the raw totals alone.
        The totals of the model have the weight 1 - w.
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
        """Return the totals of one row of the estimate as a pandas DataFrame.

        Parameters
        ----------
        row : int, default=0
            Index of the row of the estimate.

        Returns
        -------
        pandas.DataFrame
            One row per group, with the columns raw, common, totals and raw_weight. The columns have
            the same meaning as the attributes of this class.

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
    """The result of EmpiricalBayes with groups or an order, for one row of the estimate.

    raw, common, values (d,): the raw estimate after Norm, the estimate under the common prior, and
    the final estimate. fit: the fit of the groups' priors. raw_weights: for each partition, the
    weights of the raw totals in the final totals, of shape (n_groups,).
    """

    raw: np.ndarray
    common: np.ndarray
    values: np.ndarray
    fit: GroupFit
    raw_weights: list[np.ndarray]


def grouped(
    row: LearnedRow,
    partitions: list[Partition],
    ordered: bool,
    simplex: bool,
    missing: int | None = None,
) -> Grouped:
    """Improve one row by priors that differ between groups and, if `ordered`, by a smooth curve.

    row: the row, with the common prior of all categories. missing: the position of the missing
    answers, which are a neighbor of no category; None if there are none. Returns: the improved
    estimate, as an instance of Grouped.
    """
    # ordered: whether frequencies may follow a smooth curve along the order.
    # simplex: whether the result is non-negative, sums to 1, and has the shrunken totals.
    theta, prior = row.sample.whole_prior(row.weights)
    z = row.sample.z
    std = row.sample.std
    growth = row.sample.growth
    estimates = Estimates(z, theta, prior, growth, row.means / std, row.sample.law)
    curve = None
    if ordered and missing is not None:
        curve = fit_curve(np.delete(z, missing), growth, 1 / std - z[missing])
        curve = curve.with_missing(estimates, missing)
    elif ordered:
        curve = fit_curve(z, growth, 1 / std)
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
    """Return the totals of one partition's groups, from the results of all rows.

    place: index of the partition in the results.
    """
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
    """Return weighted averages of the raw and the processed totals of groups, and the raw weights.

    Shapes: raw (d,), processed (d,), variances (n_groups,), posterior_variances (n_groups,)
    -> (n_groups,), (n_groups,).
    raw: raw estimate that sums to 1.
    processed: post-processed estimate that sums to 1.
    variances: variances of the raw totals.
    posterior_variances: variances of the totals under the model of the post-processor.
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
    """Improve the raw totals of groups without using the estimates of single categories.

    Shapes: totals (n_groups,), sizes (n_groups,) -> (n_groups,).
    totals: raw totals, which sum to 1.
    sizes: number of categories in each group.
    variance: the sum of the variances of the raw totals.
    Returns: the posterior means of the totals under Dirichlet priors. If there are many groups, or
    groups of very different sizes, return the raw totals.
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
    """Return, for each partition, the variances of its groups' totals in a raw estimate after Norm.

    Shapes: frequencies (d,) -> a list of arrays (n_groups,), one for each partition.
    Exact variances include the covariances of the categories and are slow to compute. In large
    domains, they are computed for a few groups only. For all groups of such a partition, the
    variances without covariances are then multiplied by a common factor: the ratio of the exact
    variances to the variances without covariances in the few groups.
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
    """Apply Norm-Sub within each group, so that the values of each group sum to its given total.

    Shapes: values (d,), totals (n_groups,) -> (d,).
    values: non-negative values of the categories.
    totals: non-negative totals of the groups.
    This is Michelot's projection: it sets values to 0 until all remaining values are positive.
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
