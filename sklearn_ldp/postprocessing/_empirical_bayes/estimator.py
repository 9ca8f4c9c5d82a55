"""The post-processor EmpiricalBayes, whose prior may depend on groups and on an order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ..._core.estimates import FrequencyEstimate
from ..._core.noise import Noise
from ..._core.numerics.deconvolution import fit_average, fit_g_model
from ..._core.queries import Queries, QuerySet
from .few import of_few_categories
from .group_priors import FEWEST
from .hints import Grouping, QueryHints, as_partitions, range_partitions
from .priors import LearntPrior
from .top import top_values
from .totals import GroupTotals, group_totals, grouped


class EmpiricalBayes(LearntPrior):
    """Make an estimate better by what its own values show; the post-processor to try first.

    Without parameters it suits any domain. Say what you know, if you know it: `queries` is what
    will be asked (totals of groups, ranges, the most frequent), `groups` says which categories may
    be alike, and `ordered` that neighbours may be. The other parameters are for comparisons.

    If there are many categories, their estimates show how the frequencies are distributed: the
    prior. The expected value of a category's frequency under that distribution, given its own
    estimate, has the least expected square error. Norm-Sub then makes the sum 1.

    ``prior="g-model"`` is Efron's: a log-spline with an atom at 0 [1]_. ``prior="average"`` is
    unpublished: four log-polynomial priors, whose fits use that the frequencies sum to 1, the
    NPMLE, and Gaussian ones for nearly equal frequencies, averaged by their likelihood
    (:func:`~sklearn_ldp.postprocessing.average_prior`).

    Parameters
    ----------
    simplex : bool, default=True
        Whether Norm-Sub follows, so that the estimates sum to 1.
    prior : {"average", "g-model"}, default="average"
        Which kind of prior is learnt.
    groups : array-like of shape (d,), mapping, query set or list of those, default=None
        The group of each category, such as the state of each city, if frequencies may differ from
        group to group; or several groupings. Labels with an index of their own, and mappings, may
        be in any order. None takes all categories alike. For a set of estimates, a mapping has the
        names of parts as its keys: ``{"state": regions}``.
    ordered : bool, mapping of bool or None, default=None
        Whether the categories have an order along which frequencies may change slowly or from
        range to range, such as ages or hours. The order is that of ``estimate.categories``. None
        means that bins of numbers (``Domain.bins``) and the levels of an ordered dtype have one,
        unless the most frequent are asked. For a set of estimates also by the names of parts:
        ``{"age": True}``.
    queries : query set, list of those, matrix of shape (n_queries, d) or None, default=None
        What will be asked, see :mod:`sklearn_ldp.queries`. Sets such as ``groups(labels)`` act like
        `groups`, ``ranges(10)`` like `ordered`, and other queries like None, but for ``top_k(k)``:
        then the values answer this question only, see the notes, so it cannot be in a list with
        others. To tell groups helps where they differ; where not, it costs 4 % of the error on
        average, and a fifth of it for few groups of few reports. For a set of estimates also a
        mapping by the names of parts.
    %(noise)s

    Attributes
    ----------
    group_totals_ : list of GroupTotals
        If there are groups or an order: for each grouping, the totals of its groups and what was
        learnt about them, see :class:`~sklearn_ldp.postprocessing.GroupTotals`. Of an ordered
        domain these are divisions into 5, 10, 20 .. 160 ranges.
    curve_weight_ : ndarray of shape (n_estimates,)
        If the categories are ordered: probability that the frequencies follow a smooth curve, given
        that they follow the order at all.
    prior_support_ : list of ndarray of shape (n_support,)
        For each row, the frequencies that have a positive probability under its prior, in
        increasing order.
    prior_weights_ : list of ndarray of shape (n_support,)
        For each row, the probabilities of these frequencies.
    frequencies_ : ndarray of shape (d,) or (n_estimates, d)
        Non-negative estimates that sum to 1, if `simplex`.
    %(fitted)s

    See Also
    --------
    PowerNS : The same with a power-law prior.
    NPMLE : The same with a prior of a few atoms.

    Notes
    -----
    The table shows the full-domain error divided by that of Bayes with the true prior, in 100
    collections through OLH at epsilon 1. The average was designed on other distributions than these
    (``python -m benchmarks.accuracy.seven_distributions`` has all). The last four are real
    histograms.

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

    If all frequencies are equal, the errors are 0.5e-8, 1.8e-8 and 0.9e-8 (PowerNS: 9.0e-8). The
    noise is assumed to be independent between categories, and normal; where few reports support a
    category nobody has (a skewness above .03), it is that of their counts instead. The spread of
    the posterior is not a confidence interval.

    **Few categories.** No prior can be learnt from a handful of estimates. Up to 12 categories of
    frequencies that sum to 1, ``prior="average"`` is a mixture of Dirichlet priors, from one answer
    that everybody has to equal ones, whose posterior mean is computed without draws. From 24
    categories the prior is learnt, and between both the two means are averaged. In 288 cells of 2
    to 12 answers the error over the better of the raw estimate and Norm-Sub is .82 by geometric
    mean, and 1.13 at most (``python -m benchmarks.accuracy.simple_questions``). If all frequencies
    are exactly equal, the error is half that of the cheap answer, though a prior for this case
    alone would be better.

    **Few reports.** If the mean frequency is less than half the noise level, "all are equal" is one
    more model, and the learnt prior is averaged with it: the largest of many estimates looks like a
    frequency of its own. Its prior odds are the square of 10 over the reports a category beyond
    those of chance. Where chance supports a category often (with a variance v above 600), they are
    multiplied by the square of 600 / v: large collections keep their prior. One in 200 parts of
    these odds is for one category with a share of the users and equal others. A single category
    that stands out by less than that is missed: in 4 of 144 collections with few reports the error
    is over 5 % above that of NormSub, by a factor of 1.45 at most
    (``python -m benchmarks.accuracy._weak_frequencies``).

    **Order.** Two kinds of models are weighed by how likely they make the estimates: priors of 5,
    10, 20 .. 160 ranges, which differ as those of groups do, and a smooth curve, a Gaussian prior
    of the waves along the order. If the order says nothing, the common prior stays.

    **The most frequent.** With ``queries=top_k(k)`` the value of a category is its expected
    frequency *if it is among the k largest*: above the threshold over which k categories are
    expected. Methods that shrink every estimate are too low on these. The values answer this one
    question, on average over these k categories; they do not sum to 1, and those of other
    categories mean nothing. If the estimates are nearly as likely (within a factor of 20) when no
    frequency exceeds the k-th largest of the prior, the usual posterior mean is returned. Single
    collections can be far off: with 300 or 1,000 users a category the error of the ten most
    frequent is .9 times that of the best of 12 methods in hindsight by geometric mean, but 4.5
    times in the worst of 96 cells through GRR, and 2.8 times through OLH.

    **Cost.** Seconds of CPU a row, measured for 100 to 42,178 categories (OLH, epsilon 1 and 4,
    100,000 and a million users): .007 to .025; with ``top_k(10)`` up to .22, with 20 groups .02 to
    .29, with ``ranges(10)`` .03 to 1.6 (1,024 categories at epsilon 4 take longest).

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

    Nobody is in the west. Totals are better where they are said beforehand:

    >>> from sklearn_ldp.queries import groups
    >>> region = groups(np.repeat(["east", "west"], [24, 76]))
    >>> bayes.estimate_.answer(region).round(1).tolist()
    [[0.9, 0.1]]
    >>> EmpiricalBayes(queries=region).fit_transform(estimate).answer(region).round(1).tolist()
    [[1.0, 0.0]]
    """

    _parameter_constraints: dict = {
        **LearntPrior._parameter_constraints,
        "prior": [StrOptions({"average", "g-model"})],
        "groups": ["array-like", Mapping, QuerySet, None],
        "ordered": ["boolean", Mapping, None],
        "queries": ["array-like", "sparse matrix", QuerySet, Mapping, None],
    }
    _of_each_part = ("groups", "ordered", "queries")

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
            few = of_few_categories(values, noise)
        if few is None:
            return super()._row(values, noise, sample, sums_to_one)
        learnt = super()._row(values, noise, sample, sums_to_one) if few.share < 1 else None
        return few.row(values, noise, sample, learnt)

    def _process(self, estimate):
        partitions, ordered, top = self._hints(estimate)
        if top is not None:
            values = [top_values(row, top, self.simplex) for row in self._learn(estimate)]
        elif partitions or ordered:
            learnt = self._learn(estimate)
            rows = [grouped(row, partitions, ordered, self.simplex) for row in learnt]
            totals = [group_totals(p, i, rows) for i, p in enumerate(partitions)]
            self.group_totals_: list[GroupTotals] = totals
            if ordered:
                self.curve_weight_: np.ndarray = np.array([row.fit.curve_weight for row in rows])
            values = [row.values for row in rows]
        else:
            return super()._process(estimate)
        return estimate.with_values(np.reshape(values, estimate.shape), by=type(self).__name__)

    def knows(self, queries: Queries | None, estimate: FrequencyEstimate) -> bool:
        # The order of bins was not asked for, so that it makes nobody a candidate of its own.
        return any(self._hints(estimate, of_bins=False))

    def is_reference(self, queries: Queries | None) -> bool:
        return True

    def _hints(self, estimate: FrequencyEstimate, of_bins: bool = True) -> QueryHints:
        """The hints of parameters and queries: groups, order and the most frequent."""
        name = type(self).__name__
        if isinstance(self.ordered, Mapping):
            raise ValueError(
                f"{name} accepts a mapping as ordered for a set of estimates, by the names of its "
                "parts, but got a single estimate. Pass True, False or None."
            )
        partitions, ordered, top = QueryHints.of(self.queries, estimate, name)
        if self.groups is not None:
            partitions = as_partitions(self.groups, estimate.categories, name) + partitions
        # Without an order, ranges of bins may be worse than those of raw values.
        by_default = of_bins and self.ordered is None and top is None
        is_scale = estimate.domain is not None and estimate.domain.is_ordered
        is_ordered = self.ordered or ordered or (by_default and is_scale)
        ordered = bool(is_ordered) and len(estimate.categories) >= FEWEST
        if ordered:
            known = [p.codes.tobytes() for p in partitions]
            ranges = range_partitions(estimate.categories)
            partitions = partitions + [p for p in ranges if p.codes.tobytes() not in known]
        if top is not None and (partitions or self.ordered):
            raise ValueError(
                f"{name} answers {self.queries!r} by a prior that all categories have in common: "
                "leave out groups= and ordered=, or ask for the most frequent separately."
            )
        return QueryHints(partitions, ordered, top)
