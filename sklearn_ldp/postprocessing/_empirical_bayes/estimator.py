"""The post-processor EmpiricalBayes, with a prior that may depend on groups and an order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ..._core.estimates import FrequencyEstimate
from ..._core.noise import Noise
from ..._core.numerics.deconvolution import fit_average, fit_g_model
from ..._core.queries import Queries, QuerySet
from .._base import MissingApart
from .few import few_categories_row
from .group_priors import FEWEST
from .hints import Grouping, QueryHints, as_partitions, range_partitions
from .priors import LearnedPrior
from .top import top_values
from .totals import GroupTotals, group_totals, grouped


class EmpiricalBayes(LearnedPrior):
    """Improve an estimate by a prior that is learned from the estimate; the best first choice.

    Without parameters, this post-processor suits any domain. Three parameters describe the data and
    their use. `queries` are the queries to answer, such as totals of groups, ranges, or the most
    frequent categories. `groups` are groups of categories whose frequencies may be similar.
    `ordered` states that neighboring categories may have similar frequencies. The other parameters
    exist for comparisons of methods.

    The method has three steps. If there are many categories, their estimates together show how the
    true frequencies are distributed. The method learns this distribution and uses it as the prior
    of every category. It then replaces each estimate by the posterior mean of the frequency. If the
    prior is right, the posterior mean has the smallest expected squared error. Finally, Norm-Sub
    changes the sum to 1.

    ``prior="g-model"`` is the published prior of Efron: a log-spline with a point mass at 0 [1]_.
    The default prior is unpublished. It is an average of several priors, weighted by their
    likelihoods: four log-polynomial priors, which are fitted under the constraint that the
    frequencies sum to 1; the prior of :class:`NPMLE`; and Gaussian priors for nearly equal
    frequencies (:func:`~sklearn_ldp.postprocessing.average_prior`).

    Parameters
    ----------
    simplex : bool, default=True
        Whether to apply Norm-Sub to the posterior means, so that they are not negative and sum
        to 1.
    prior : {"average", "g-model"}, default="average"
        The method that learns the prior. "g-model" is the published method, for comparisons with
        the default.
    groups : array-like of shape (d,), mapping, query set or list of groupings, default=None
        The group of each category, such as the state of each city, if frequencies may differ
        between groups. A pandas Series with the categories as index, or a mapping from categories
        to groups, may be in any order. A list contains several groupings. If None, all categories
        have the same prior. For a set of estimates, pass a mapping from the names of its estimates
        to groups, such as ``{"state": regions}``. The result suits all queries, not only the totals
        of these groups.
    ordered : bool, mapping of bool or None, default=None
        Whether neighboring categories may have similar frequencies, as for ages or hours. The order
        is the order of ``estimate.categories``. If None, the order is used for bins of numbers
        (``Domain.bins``) and for the categories of an ordered pandas dtype, unless `queries` is
        ``top_k(k)``. If False, the order is ignored. For a set of estimates, pass a mapping from
        the names of its estimates to such values, such as ``{"age": True}``.
    queries : query set, list, matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`. Totals of groups, such as
        ``groups(labels)``, have the same effect as the parameter `groups`. Queries about ranges,
        such as ``ranges(10)``, have the same effect as ``ordered=True``. With ``top_k(k)``, the k
        most frequent categories become more accurate, but the other values have no meaning (see the
        notes). Therefore a list that contains ``top_k(k)`` cannot contain other queries. All other
        queries are ignored. For a set of estimates, pass a mapping from the names of its
        estimates to queries.

        Declare groups only if you expect that the frequencies of different groups differ. If they
        do not differ, groups increase the error by 4 % on average, and by 20 % for few groups with
        few reports.
    %(noise)s

    Attributes
    ----------
    group_totals_ : list of GroupTotals
        Only defined if there are groups or an order. It contains one object for each grouping, with
        the totals of the groups and the weights of the raw totals, see
        :class:`~sklearn_ldp.postprocessing.GroupTotals`. The groupings of an ordered domain are its
        divisions into 5, 10, 20, 40, 80 and 160 ranges, if there are enough categories.
    curve_weight_ : ndarray of shape (n_estimates,)
        Only defined if the categories are ordered. A number from 0 to 1 for each row. Near 1, the
        frequencies follow a smooth curve. Near 0, groups or ranges with different frequencies
        describe the data better. This number is the posterior probability of the curve, given that
        the frequencies depend on the order or on the groups at all.
    prior_support_ : list of ndarray of shape (n_support,)
        For each row, the frequencies that have a positive prior probability, in increasing order.
    prior_weights_ : list of ndarray of shape (n_support,)
        For each row, the prior probabilities of the frequencies in `prior_support_`.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        The improved frequencies. If `simplex` is True, they are not negative and sum to 1 (with
        ``top_k(k)``, the sum may differ from 1).
    %(fitted)s

    See Also
    --------
    PowerNS : Uses a power-law prior.
    NPMLE : Uses a prior with a few possible frequencies.

    Notes
    -----
    The table compares mean squared errors over all categories, in 100 collections through OLH at
    epsilon 1. Each number is an error divided by the error of Bayes' rule with the true prior,
    which is approximately the smallest possible error. The columns are the raw estimate, the two
    priors of this class, and :class:`NPMLE`. For example, the raw estimate of the first row has 12
    times the smallest possible error, and this class has 1.08 times this error. The default prior
    was designed on other distributions (``python -m benchmarks.accuracy.seven_distributions``
    prints all numbers). The last four rows are real data.

    ================================  =======  =======  =======  =====
    frequencies                           raw  average  g-model  NPMLE
    ================================  =======  =======  =======  =====
    zipf 1.5 (n 1e6, d 1,024)            12.1     1.08     1.09   1.17
    zipf 1.1                              7.4     1.04     1.04   1.11
    geometric .99                         3.2     1.03     1.03   1.03
    geometric .9                         13.5     1.05     1.05   1.25
    100 equal, others 0                  17.6     1.07     1.75   1.07
    beta(50, 2) (n 1e5, d 400)            6.0     1.09     1.08   1.11
    emoji (n 884,427, d 845)              4.3     1.02     1.03   1.07
    cities (n 612,404, d 915)             7.2     1.06     1.07   1.10
    Retail (n 88,162, d 16,470)           469     1.13     1.09   1.18
    Kosarak (n 36,682, d 17,034)          615     1.14     1.12   1.21
    ================================  =======  =======  =======  =====

    If all frequencies are equal, the mean squared errors are 372e-8 (raw), 0.5e-8 (average), 1.8e-8
    (g-model), 0.9e-8 (NPMLE) and 9.0e-8 (PowerNS).

    The method assumes that the errors of different categories are independent and normal. It uses
    the exact distribution of the number of reports instead if few reports support a category
    without users, so that its noise has a skewness above 0.03. The spread of the posterior is not a
    confidence interval.

    **Few categories.** A few estimates cannot determine a prior. For at most 12 categories whose
    frequencies sum to 1, ``prior="average"`` is a fixed mixture of Dirichlet priors. They range
    from the prior that all users have the same category to the prior that all categories are
    equally frequent. The posterior means are exact. For at least 24 categories, the prior is
    learned. Between 12 and 24 categories, the result is an average of the posterior means under the
    fixed prior and under the learned prior. In 288 settings of 2 to 12 categories, we divided the
    error of this class by the error of the raw estimate or of Norm-Sub, whichever was smaller. The
    geometric mean of this ratio is 0.82, and its maximum is 1.13 (``python -m
    benchmarks.accuracy.simple_questions``). If all frequencies are exactly equal, the ratio is 0.5.
    A prior that contains only equal frequencies would have an even smaller error in this case.

    **Few reports.** With few reports per category, the largest of many estimates may be only noise,
    although it looks like a large frequency. Therefore, if the mean frequency is less than half the
    noise level, the learned prior is averaged with two simple models. In the first model, all
    frequencies are equal. In the second model, one category is more frequent, and all others are
    equally frequent. The prior odds of these models decrease as the number of reports increases
    (formulas: doc/notes/weak_data.md). The result does not show a category that is only slightly
    more frequent than the others. In 4 of 144 collections with few reports, the error is over 5 %
    larger than the error of NormSub, by a factor of up to 1.45 (``python -m
    benchmarks.accuracy._weak_frequencies``).

    **Order.** The method averages two types of models, weighted by their likelihoods. In the first
    type, the domain is divided into 5, 10, 20, 40, 80 or 160 ranges, and each range has its own
    prior, like a group. In the second type, the frequencies follow a smooth curve, which is a sum
    of cosine waves with Gaussian priors. If the order does not help, the common prior of all
    categories is used. The category of missing numbers is a range of its own, and it is not on the
    curve.

    **The most frequent categories.** Methods that shrink every estimate underestimate the k most
    frequent categories. With ``queries=top_k(k)``, the value of a category is therefore its
    expected frequency if it is one of these k categories. More exactly, the condition is that the
    frequency exceeds a threshold, which k categories are expected to exceed. Use the values of the
    k largest categories only: they are right on average over these categories. The values do not
    sum to 1, and the other values have no meaning.

    Sometimes the estimates hardly show which categories are the largest. The class finds this by a
    second prior, which has no frequencies above the k-th largest. If the likelihood of this prior
    is at most 20 times smaller, the values are the usual posterior means. The error of a single
    collection can be large. With 300 or 1,000 users per category, we divided the error for the ten
    most frequent categories by the error of the method that was the best of 12 in each setting. The
    geometric mean of this ratio is 0.9. In the worst of 96 settings, it is 4.5 with GRR and 2.8
    with OLH.

    **Computing time.** The table shows CPU seconds per row for 100 to 42,178 categories (OLH,
    epsilon 1 and 4, 100,000 and one million users). The slowest setting of ``ranges(10)`` has 1,024
    categories at epsilon 4.

    =================  ==============
    queries            seconds
    =================  ==============
    none               0.007 to 0.025
    ``top_k(10)``      up to 0.22
    20 groups          0.02 to 0.29
    ``ranges(10)``     0.03 to 1.6
    =================  ==============

    The methods for few categories, few reports, groups, an order, and the most frequent categories
    are unpublished.

    References
    ----------
    .. [1] B. Efron, "Empirical Bayes deconvolution estimates", Biometrika 103 (2016),
       :doi:`10.1093/biomet/asv068`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OLH, EmpiricalBayes
    >>> counts = np.repeat([20_000, 1_000, 0], [4, 20, 76])
    >>> estimate = OLH(1.0, categories=100, random_state=0).simulate(counts, 1)
    >>> bayes = EmpiricalBayes().fit(estimate)
    >>> bayes.frequencies_[[0, 1, 98, 99]].round(3)
    array([0.212, 0.203, 0.001, 0.001])

    In this example, the first 24 categories are in the east, and all users have one of these
    categories. The true totals are therefore 1 and 0. Totals are more accurate if they are declared
    as queries:

    >>> from sklearn_ldp.queries import groups
    >>> region = groups(np.repeat(["east", "west"], [24, 76]))
    >>> bayes.estimate_.answer(region).round(1).tolist()
    [[0.9, 0.1]]
    >>> better = EmpiricalBayes(queries=region).fit_transform(estimate)
    >>> better.answer(region).round(1).tolist()
    [[1.0, 0.0]]
    """

    _parameter_constraints: dict = {
        **LearnedPrior._parameter_constraints,
        "prior": [StrOptions({"average", "g-model"})],
        "groups": ["array-like", Mapping, QuerySet, None],
        "ordered": ["boolean", Mapping, None],
        "queries": ["array-like", "sparse matrix", QuerySet, Mapping, None],
    }
    _part_parameters = ("groups", "ordered", "queries")

    def __init__(
        self,
        *,
        simplex: bool = True,
        prior: str = "average",
        groups: Grouping | None = None,
        ordered: bool | Mapping[Any, bool] | None = None,
        queries: Queries | Mapping[Any, Queries] | None = None,
        noise: float | Noise | None = None,
    ) -> None:
        super().__init__(simplex=simplex, noise=noise)
        self.prior = prior
        self.groups = groups
        self.ordered = ordered
        self.queries = queries

    def _fit_prior(self, sample):
        return (fit_average if self.prior == "average" else fit_g_model)(sample)

    def _row(self, values, noise, sample, sums_to_one):
        few = None
        if sums_to_one and self.prior == "average":
            few = few_categories_row(values, noise)
        if few is None:
            return super()._row(values, noise, sample, sums_to_one)
        learned = super()._row(values, noise, sample, sums_to_one) if few.share < 1 else None
        return few.row(values, noise, sample, learned)

    def _process(self, estimate):
        partitions, ordered, top = self._hints(estimate)
        if top is not None:
            values = [top_values(row, top, self.simplex) for row in self._learn(estimate)]
        elif partitions or ordered:
            place = MissingApart.of(estimate).place
            learned = self._learn(estimate)
            rows = [grouped(row, partitions, ordered, self.simplex, place) for row in learned]
            totals = [group_totals(p, i, rows) for i, p in enumerate(partitions)]
            self.group_totals_: list[GroupTotals] = totals
            if ordered:
                self.curve_weight_: np.ndarray = np.array([row.fit.curve_weight for row in rows])
            values = [row.values for row in rows]
        else:
            return super()._process(estimate)
        return estimate.with_values(np.reshape(values, estimate.shape), by=type(self).__name__)

    def knows(self, queries: Queries | None, estimate: FrequencyEstimate) -> bool:
        # The queries do not ask for the order of bins, so it does not add a candidate.
        return any(self._hints(estimate, use_bins=False))

    def is_reference(self, queries: Queries | None) -> bool:
        return True

    def _hints(self, estimate: FrequencyEstimate, use_bins: bool = True) -> QueryHints:
        """Return the groups, the order and the k of `top_k` that the parameters specify.

        use_bins: Whether to use the order of an ordered domain, such as bins of numbers, if the
        parameter `ordered` is None.
        """
        name = type(self).__name__
        if isinstance(self.ordered, Mapping):
            raise ValueError(
                f"{name}: ordered= can only be a mapping for a set of estimates, got the mapping "
                f"{self.ordered!r} for a single estimate. Pass ordered=True, False or None."
            )
        partitions, ordered, top = QueryHints.of(self.queries, estimate, name)
        if self.groups is not None:
            partitions = as_partitions(self.groups, estimate.categories, name) + partitions
        # Without an order, sums over ranges of bins may be worse than sums of raw values.
        by_default = use_bins and self.ordered is None and top is None
        is_scale = estimate.domain is not None and estimate.domain.is_ordered
        is_ordered = self.ordered or ordered or (by_default and is_scale)
        ordered = bool(is_ordered) and len(estimate.categories) >= FEWEST
        if ordered:
            known = [p.codes.tobytes() for p in partitions]
            ranges = range_partitions(estimate.categories, MissingApart.of(estimate).place)
            partitions = partitions + [p for p in ranges if p.codes.tobytes() not in known]
        if top is not None and (partitions or self.ordered):
            raise ValueError(
                f"{name} cannot combine queries={self.queries!r} with groups= or ordered=, because "
                "it answers top_k by one common prior of all categories. Leave out groups= and "
                f"ordered=, or use a separate {name} for top_k."
            )
        return QueryHints(partitions, ordered, top)
