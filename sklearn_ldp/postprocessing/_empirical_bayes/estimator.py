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
from .few import few_categories_row
from .group_priors import FEWEST
from .hints import Grouping, QueryHints, as_partitions, range_partitions
from .priors import LearnedPrior
from .top import top_values
from .totals import GroupTotals, group_totals, grouped


class EmpiricalBayes(LearnedPrior):
    """Improve an estimate by a prior learned from its own values; try this post-processor first.

    Without parameters it suits any domain. Declare additional knowledge by parameters: `queries`
    are the queries to answer (totals of groups, ranges, the most frequent categories), `groups` are
    groups of categories that may have similar frequencies, and `ordered` means that neighboring
    categories may have similar frequencies. The other parameters are for comparisons.

    If there are many categories, their estimates together show the distribution of the frequencies,
    which serves as the prior. The expected value of a category's frequency under this distribution,
    given its own estimate, has the smallest expected squared error. Norm-Sub then makes the sum 1.

    ``prior="g-model"`` is the prior of Efron: a log-spline with an atom at 0 [1]_.
    ``prior="average"`` is unpublished. It averages priors by their likelihood: four log-polynomial
    priors, which are fitted under the constraint that the frequencies sum to 1, the NPMLE, and
    Gaussian priors for nearly equal frequencies
    (:func:`~sklearn_ldp.postprocessing.average_prior`).

    Parameters
    ----------
    simplex : bool, default=True
        Whether Norm-Sub follows, so that the estimates sum to 1.
    prior : {"average", "g-model"}, default="average"
        The kind of the prior. "g-model" is the published method, for comparisons with the default.
    groups : array-like of shape (d,), mapping, query set or list of groupings, default=None
        The group of each category, such as the state of each city, if frequencies may differ from
        group to group; or a list of several groupings. A pandas Series of labels, or a mapping, may
        be in any order. If None, all categories have the same prior. For a set of estimates, a
        mapping from the names of its estimates: ``{"state": regions}``. Unlike `queries`, this
        parameter does not restrict the queries that the result is made for.
    ordered : bool, mapping of bool or None, default=None
        Whether the categories have an order along which frequencies may change slowly or from
        range to range, such as ages or hours, as in ``estimate.categories``. If None, bins of
        numbers (``Domain.bins``) and the levels of an ordered dtype have an order, unless the
        queries ask for the most frequent categories. If False, the order of bins is ignored. For a
        set of estimates, also a mapping from the names of its estimates: ``{"age": True}``.
    queries : query set, list, matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`. ``groups(labels)`` has the same
        effect as the parameter `groups`, ``ranges(10)`` the effect of ``ordered=True``, and other
        queries have the effect of None. With ``top_k(k)`` the values answer only this query (see
        the notes), so a list cannot combine it with other queries. Groups reduce the error if their
        frequencies differ. Otherwise they increase the error by 4 % on average, and by a fifth for
        few groups of few reports. For a set of estimates, also a mapping from the names of its
        estimates to queries.
    %(noise)s

    Attributes
    ----------
    group_totals_ : list of GroupTotals
        Only if there are groups or an order: for each grouping, the totals of its groups and the
        weights of the raw totals, see :class:`~sklearn_ldp.postprocessing.GroupTotals`. The
        groupings of an ordered domain are divisions into 5, 10, 20 .. 160 ranges.
    curve_weight_ : ndarray of shape (n_estimates,)
        Only if the categories are ordered: the probability that the frequencies follow a smooth
        curve, given that they depend on the order at all.
    prior_support_ : list of ndarray of shape (n_support,)
        For each row, the frequencies with a positive probability under its prior, in increasing
        order.
    prior_weights_ : list of ndarray of shape (n_support,)
        For each row, the probabilities of these frequencies.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1, if `simplex`.
    %(fitted)s

    See Also
    --------
    PowerNS : Uses a power-law prior.
    NPMLE : Uses a prior with a few possible frequencies.

    Notes
    -----
    The table shows the squared error over all categories, divided by the error of Bayes' rule with
    the true prior, in 100 collections through OLH at epsilon 1. The average was designed on other
    distributions (``python -m benchmarks.accuracy.seven_distributions`` shows all). The last four
    rows are real data.

    ================================  =======  =======  =====
    frequencies                       average  g-model  NPMLE
    ================================  =======  =======  =====
    zipf 1.5 (n 1e6, d 1,024)            1.08     1.09   1.17
    zipf 1.1                             1.04     1.04   1.11
    geometric .99                        1.03     1.03   1.03
    geometric .9                         1.05     1.05   1.25
    100 equal ones, zeros                1.07     1.75   1.07
    beta(50, 2) (n 1e5, d 400)           1.09     1.08   1.11
    emoji (n 884,427, d 845)             1.02     1.03   1.07
    cities (n 612,404, d 915)            1.06     1.07   1.10
    Retail (n 88,162, d 16,470)          1.13     1.09   1.18
    Kosarak (n 36,682, d 17,034)         1.14     1.12   1.21
    ================================  =======  =======  =====

    If all frequencies are equal, the errors of the three priors are 0.5e-8, 1.8e-8 and 0.9e-8
    (PowerNS: 9.0e-8). The
    noise is assumed to be independent between categories, and normal. If few reports support an
    empty category (a skewness above .03), the noise has the distribution of the counts instead. The
    spread of the posterior is not a confidence interval.

    **Few categories.** A handful of estimates cannot determine a prior. For up to 12 categories
    with frequencies that sum to 1, ``prior="average"`` is a mixture of Dirichlet priors, from a
    single answer of all users to equal answers, with exact posterior means. From 24 categories the
    prior is learned, and between 12 and 24 both means are averaged. In 288 settings of 2 to 12
    answers the error, relative to the better of the raw estimate and Norm-Sub, is .82 by geometric
    mean, and at most 1.13 (``python -m benchmarks.accuracy.simple_questions``). If all frequencies
    are exactly equal, the error is half the error of the better of the two, although a prior for
    equal frequencies alone would be better still.

    **Few reports.** If the mean frequency is less than half the noise level, "all are equal" is an
    additional model, and the learned prior is averaged with it, because the largest of many
    estimates looks like a truly large frequency. The prior odds of this model are the square of 10
    / m, where m is the mean number of reports per category beyond the reports that support it by
    chance. If the number of reports by chance has a variance v above 600, the odds are multiplied
    by the square of 600 / v, so large collections keep their prior. A 200th of these odds belongs
    to the model that a single category is more frequent and all others are equal. A category that
    is only slightly more frequent is missed: in 4 of 144 collections with few reports the error is
    over 5 % above the error of NormSub, by a factor of at most 1.45 (``python -m
    benchmarks.accuracy._weak_frequencies``).

    **Order.** Two kinds of models are weighted by their likelihood: priors of 5, 10, 20 .. 160
    ranges, which differ like priors of groups, and a smooth curve, with a Gaussian prior for its
    cosine waves. If the order does not help, the common prior of all categories is used.

    **The most frequent.** With ``queries=top_k(k)`` the value of a category is its expected
    frequency *if it is among the k largest*: above the threshold over which k categories are
    expected. Methods that shrink every estimate are too low for these categories. The values answer
    this query only, on average over these k categories. They do not sum to 1, and the values of
    other categories have no meaning. If the estimates are nearly as likely (within a factor of 20)
    if no frequency exceeds the k-th largest of the prior, the result is the usual posterior mean.
    The error of a single collection can be large. With 300 or 1,000 users per category the error
    for the ten most frequent is .9 times the error of the best of 12 methods in hindsight by
    geometric mean, but 4.5 times in the worst of 96 settings through GRR, and 2.8 times through
    OLH.

    **Cost.** Seconds of CPU per row, measured for 100 to 42,178 categories (OLH, epsilon 1 and 4,
    100,000 and a million users): .007 to .025; with ``top_k(10)`` up to .22, with 20 groups .02 to
    .29, with ``ranges(10)`` .03 to 1.6 (1,024 categories at epsilon 4 are the slowest).

    The methods for few categories, few reports, groups, an order and the most frequent are
    unpublished.

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

    No user is in the west. Declared queries improve the totals:

    >>> from sklearn_ldp.queries import groups
    >>> region = groups(np.repeat(["east", "west"], [24, 76]))
    >>> bayes.estimate_.answer(region).round(1).tolist()
    [[0.9, 0.1]]
    >>> EmpiricalBayes(queries=region).fit_transform(estimate).answer(region).round(1).tolist()
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
            learned = self._learn(estimate)
            rows = [grouped(row, partitions, ordered, self.simplex) for row in learned]
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
        """Return what parameters and queries declare: groups, an order, or a number for top_k."""
        name = type(self).__name__
        if isinstance(self.ordered, Mapping):
            raise ValueError(
                f"{name}: a mapping as ordered= is only for a set of estimates, but got a single "
                "estimate. Pass ordered=True, False or None."
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
            ranges = range_partitions(estimate.categories)
            partitions = partitions + [p for p in ranges if p.codes.tobytes() not in known]
        if top is not None and (partitions or self.ordered):
            raise ValueError(
                f"{name} answers {self.queries!r} by a common prior of all categories, without "
                "groups or an order. Leave out groups= and ordered=, or pass top_k to a separate "
                f"{name}."
            )
        return QueryHints(partitions, ordered, top)
