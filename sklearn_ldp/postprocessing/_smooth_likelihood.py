"""SmoothMLE: maximum likelihood estimates of smooth curves of frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag, cholesky, solve_triangular
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp, softmax

from .._core.common.parallel import one_thread
from .._core.common.progress import Progress
from .._core.estimates import FrequencyEstimate
from .._core.queries import Queries, as_query_set
from ..oracles.channels import ReportLaw
from ._base import BasePostProcessor, MissingApart
from ._drawn_curves import average_of_drawn
from ._likelihood import tally_of
from ._smooth_grid import smooth_grid

# Chosen in November 2026 on eight synthetic populations, which differ from the populations in
# `python -m benchmarks.accuracy.numeric_data` (doc/notes/numbers.md). The numbers of steps and the
# tolerance limit the work.
_MOST_SPLINES = 48
_PENALTIES = 10.0 ** np.arange(6, -3, -1)
_TREND = 10.0  # standard deviation of a curve's slope and of its bend, in log-frequencies

# Groups of neighbors with effects of their own. Few groups show whether more are worth the time.
# The largest effects were added on 2026-11-28: six variants on populations of
# `python -m benchmarks.accuracy._simple_numbers`, and spikes in 64 bins of its default populations.
_MOST_GROUPS = 256
_FEW_GROUPS = 64
_ROUGH = [(penalty, size) for penalty in (1e5, 1e3, 1e1) for size in (0.5, 1.0, 2.0, 4.0)]
_PROBE = [(1e3, 1.0)]
_SPIKES = [(1e3, 4.0)]
_MOST_MODELS = len(_PENALTIES) + 3 * len(_PROBE) + len(_SPIKES) + 2 * len(_ROUGH)

# Differences of log-evidence.
_HOPELESS = 20.0  # from which further penalties are not tried
_NOTABLE = 3.0  # up to which a model still contributes to the average
_MUCH = 6.0  # below which drawn curves may replace modes
# With few reports Laplace's approximation was too large by at most 3.3 (1,073 tallies, 27 November
# 2026).
_OPTIMISM = 4.0
_ENOUGH_DRAWN = 100  # effective number of drawn curves
_MOST_STEPS = 100  # a bound on work
_FAR = 1.0  # rise of the log-posterior, above which steps use Fisher's scoring; see `mode`
_TOL = 1e-3  # of the log-posterior
_AT_ONCE = 1 << 16  # numbers in a block of products with the distribution, which fit into a cache


class SmoothFit(NamedTuple):
    """The result of `smooth_mle`.

    Parameters
    ----------
    frequencies : ndarray of shape (d,)
        The averaged frequencies, which sum to 1.
    penalty : float
        The smoothness penalty of the curve with the largest marginal likelihood. It is infinite for
        the uniform distribution.
    curve_weight : float
        Posterior probability that the frequencies follow a smooth curve. It is 1 if the result is
        an average of fixed candidate distributions, because there are few reports.
    """

    frequencies: np.ndarray
    penalty: float
    curve_weight: float


@one_thread
def smooth_mle(
    tally: np.ndarray, law: ReportLaw, n_categories: int, *, verbose: int = 0
) -> SmoothFit:
    """Average models of smooth frequencies, weighted by their marginal likelihoods.

    :class:`~sklearn_ldp.SmoothMLE` describes the models.

    Parameters
    ----------
    tally : ndarray of shape (n_kinds,)
        Number of times that each possible report was received.
    law : ReportLaw
        The probability of each possible report for each category.
    n_categories : int
        The number d of categories, which are ordered.
    verbose : int, default=0
        Whether to show the progress on stderr.

    Returns
    -------
    SmoothFit
        The average, the penalty of the best curve, and the total weight of all curves.
    """
    reports = _Reports(tally, law)
    even = np.full(n_categories, 1 / n_categories)
    curve = _curve(n_categories)
    with Progress(_MOST_MODELS, is_shown=bool(verbose)) as bar:
        evidence = float(tally @ np.log(reports.chances(even)))
        curves = [_Model(np.inf, even, evidence, np.zeros(curve.mixing.shape[1]))]
        curves += _fitted(reports, curve, [(penalty,) for penalty in _PENALTIES], bar)
        best = max(curves, key=lambda model: model.evidence)
        grouped = [_with_groups(curve, _FEW_GROUPS)]
        rough = _fitted(reports, grouped[0], _PROBE, bar)
        if n_categories > _FEW_GROUPS:
            finest = _with_groups(curve, _MOST_GROUPS)
            grouped.append(finest)
            # Heaps cancel out within few groups. A single step from the curve predicts the evidence
            # of many groups. If the prediction is high enough, a complete fit follows.
            start = np.pad(best.coefficients, (0, finest.sizes[2]))
            glimpse = _fitted(reports, finest, _PROBE, bar, start, most_steps=1)[0]
            if glimpse.evidence > best.evidence - _NOTABLE:
                rough += _fitted(reports, finest, _PROBE, bar, start)
        # With few reports a posterior is as wide as its prior, and the mode cannot represent it.
        group_evidence = max(model.evidence for model in rough)
        top = max(best.evidence, group_evidence)
        if top < curves[0].evidence + _MUCH:
            drawn = average_of_drawn(tally, law, n_categories)
            if drawn.n_effective >= _ENOUGH_DRAWN and drawn.evidence >= top - _OPTIMISM:
                return SmoothFit(drawn.frequencies, best.penalty, 1.0)
        if group_evidence <= best.evidence - _NOTABLE:
            # A curve of many splines can follow spikes, but then no bin next to them is empty.
            rough += _fitted(reports, grouped[0], _SPIKES, bar, rough[0].coefficients)
            group_evidence = rough[-1].evidence
        if group_evidence > best.evidence - _NOTABLE:
            for columns in grouped:
                rough += _fitted(reports, columns, _ROUGH, bar)
    models = curves + rough
    if n_categories <= _MOST_GROUPS:
        models.append(reports.one_category(n_categories))
    weights = softmax([model.evidence for model in models])
    frequencies = weights @ [model.frequencies for model in models]
    return SmoothFit(frequencies, best.penalty, float(weights[: len(curves)].sum()))


class _Model(NamedTuple):
    """The posterior mode of the frequencies in one model, and its log marginal likelihood.

    `coefficients` are the coefficients of the model at the mode, and `penalty` is the smoothness
    penalty of the curve.
    """

    penalty: float
    frequencies: np.ndarray
    evidence: float
    coefficients: np.ndarray


class _Columns(NamedTuple):
    """The factors of the matrix ``basis @ mixing`` of a model.

    The matrix maps the coefficients of the model to the logarithms of the frequencies.
    """

    basis: sparse.csr_array  # (d, n_basis)
    mixing: np.ndarray  # (n_basis, n_coefficients)
    sizes: list[int]  # numbers of coefficients with a common scale


def _curve(d: int) -> _Columns:
    """Return the matrix that maps the coefficients of a curve to d logarithms of frequencies.

    The first columns belong to a linear and a quadratic trend. The other columns belong to the
    third differences of the coefficients of the splines.
    """
    # The coefficients of the splines are a quadratic trend plus `D' (D D')^-1 u`, which has the
    # third differences (by D) u.
    n_splines = min(_MOST_SPLINES, d)
    if n_splines < 4:
        splines = np.eye(d)
    else:
        places = (np.arange(d)[:, None] + 0.5) * (n_splines - 3) / d
        far = np.abs(places - (np.arange(n_splines) - 1))  # from a spline's middle, in knots
        splines = (np.maximum(2 - far, 0) ** 3 - 4 * np.maximum(1 - far, 0) ** 3) / 6
    powers = np.vander(np.linspace(-1, 1, n_splines), 3, increasing=True)
    trend = np.linalg.qr(powers)[0][:, 1:] * np.sqrt(n_splines)
    bent = np.linalg.pinv(np.diff(np.eye(n_splines), 3, axis=0))
    sizes = [trend.shape[1], bent.shape[1]]
    return _Columns(sparse.csr_array(splines), np.hstack([trend, bent]), sizes)


def _with_groups(curve: _Columns, most: int) -> _Columns:
    """Return the matrix of a curve with an additional column for each group of categories.

    The categories are divided into at most `most` groups of neighbors. The additional coefficients
    are differences of the groups' logarithms from the curve.
    """
    d = curve.basis.shape[0]
    n_groups = min(most, d)
    indicators = sparse.csr_array((np.ones(d), np.arange(d) * n_groups // d, np.arange(d + 1)))
    basis = sparse.hstack([curve.basis, indicators], format="csr")
    return _Columns(basis, block_diag(curve.mixing, np.eye(n_groups)), [*curve.sizes, n_groups])


def _fitted(
    reports: _Reports,
    columns: _Columns,
    settings: Sequence[tuple[float, ...]],
    bar: Progress,
    start: np.ndarray | None = None,
    most_steps: int = _MOST_STEPS,
) -> list[_Model]:
    """Fit one model for each setting, and return the list of the models.

    Each fit begins at the result of the previous fit. bar: the progress bar.
    """
    # A setting is the penalty of a curve, and the standard deviation of effects of groups, if there
    # are groups. Curves end when the evidence has become too small.
    models: list[_Model] = []
    kind = "curves" if len(columns.sizes) < 3 else f"{columns.sizes[2]} groups"
    coefficients = np.zeros(columns.mixing.shape[1]) if start is None else start
    information = None
    for penalty, *size in settings:
        bar.step(f"{kind}, penalty {penalty:g}")
        scales = np.repeat([_TREND, penalty**-0.5, *size], columns.sizes)
        coefficients, information, frequencies, evidence = reports.mode(
            columns, scales, coefficients, information, most_steps
        )
        models.append(_Model(penalty, frequencies, evidence, coefficients))
        if not size and evidence < max(m.evidence for m in models) - _HOPELESS:
            break
    return models


class _Reports:
    """The numbers of the received reports, and functions of their likelihood.

    tally: how often each possible report was received. law: the probability of each possible report
    for each category.
    """

    def __init__(self, tally: np.ndarray, law: ReportLaw) -> None:
        self.tally = tally
        self.law = law
        self.n = tally.sum()

    def chances(self, frequencies: np.ndarray) -> np.ndarray:
        return np.maximum(self.law.probabilities(frequencies), np.finfo(float).tiny)

    def one_category(self, n_categories: int) -> _Model:
        """Return the model in which all users have the same category.

        Each category has the same prior probability.
        """
        columns = np.eye(n_categories)
        heights = np.zeros(n_categories)
        step = max(_AT_ONCE // len(self.tally), 1)
        for start in range(0, n_categories, step):
            some = slice(start, start + step)
            chances = np.maximum(self.law.products(columns[:, some]), np.finfo(float).tiny)
            heights[some] = self.tally @ np.log(chances)
        evidence = float(logsumexp(heights) - np.log(n_categories))
        return _Model(0.0, softmax(heights), evidence, np.empty(0))

    def slope(self, frequencies: np.ndarray, chances: np.ndarray) -> np.ndarray:
        """Return the derivatives of the log-likelihood by the log-frequencies, of shape (d,).

        chances: the probabilities of the possible reports under `frequencies`.
        """
        return frequencies * (self.law.likelihoods(self.tally / chances) - self.n)

    def information(self, frequencies: np.ndarray, columns: _Columns) -> np.ndarray:
        """Return the Fisher information matrix of a model's coefficients.

        frequencies: the frequencies for which it is computed. columns: the matrix of the model.
        """
        chances = self.chances(frequencies)
        weighted = (columns.basis * frequencies[:, None]).T.tocsr()  # a row for each column
        changes = np.empty((weighted.shape[0], len(chances)))
        step = max(_AT_ONCE // len(chances), 1)
        for start in range(0, len(changes), step):
            some = weighted[start : start + step].toarray()
            change = changes[start : start + step]
            np.multiply(some.sum(axis=1, keepdims=True), -chances, out=change)
            change += self.law.products(some.T).T
            change *= np.sqrt(self.n / chances)
        return columns.mixing.T @ (changes @ changes.T) @ columns.mixing

    def mode(
        self,
        columns: _Columns,
        scales: np.ndarray,
        start: np.ndarray,
        information: np.ndarray | None = None,
        most_steps: int = _MOST_STEPS,
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, float]:
        """Find the coefficients of a model with the largest posterior density (the mode).

        columns: the matrix of the model. scales: standard deviations of the normal prior of the
        coefficients. start: the coefficients with which the search begins.
        Returns: the coefficients at the mode; the Fisher information matrix at the mode, or None if
        it was not computed; the frequencies at the mode; and Laplace's approximation of the log
        marginal likelihood.
        """
        # scales: standard deviations of the prior of the coefficients; start: first coefficients.
        # information: Fisher's information at the start, if it is known. It costs a product with
        # the distribution for each column.
        # Fisher's scoring with a line search makes the first steps, which decide among several
        # modes. Near a mode it is slow. There `minimize`, in units of the posterior's standard
        # deviations, needs a few products per step. From larger distances it found other modes:
        # with _FAR 1, 10 and infinite, 2, 4 and 7 of 60 averages differed by more than .01 (sum of
        # absolute differences) from scoring alone; the 2 had a higher evidence (2026-11-25, two
        # seeded tallies of each of three populations, five distributions of reports, 256 and 1,000
        # categories).
        basis = columns.basis
        mixing = columns.mixing * scales
        z = start / scales

        def frequencies_at(z):
            return softmax(basis @ (mixing @ z))

        def ascent(z):
            f = frequencies_at(z)
            chances = self.chances(f)
            value = float(self.tally @ np.log(chances)) - z @ z / 2
            return value, mixing.T @ (basis.T @ self.slope(f, chances)) - z

        def descent(move):
            value, gradient = ascent(z + solve_triangular(root, move, lower=True, trans=1))
            return top - value, -solve_triangular(root, gradient, lower=True)

        for _ in range(most_steps):
            top, gradient = ascent(z)
            if information is None:
                information = self.information(frequencies_at(z), columns)
            curvature = scales[:, None] * information * scales
            curvature.flat[:: len(z) + 1] += 1.0
            root = cholesky(curvature, lower=True)
            upwards = solve_triangular(root, gradient, lower=True)
            rise = float(upwards @ upwards)
            length = 1.0
            if rise <= _TOL:
                break
            step = solve_triangular(root, upwards, lower=True, trans=1)
            if rise > _FAR:
                # Ends: the length is halved down to 1e-6.
                while ascent(z + length * step)[0] < top + length * rise / 10 and length > 1e-6:
                    length /= 2
            else:
                limits = {"gtol": np.sqrt(_TOL / len(z)) / 2, "ftol": 0.0, "maxiter": _MOST_STEPS}
                move = minimize(descent, 0 * z, jac=True, method="L-BFGS-B", options=limits).x
                step = solve_triangular(root, move, lower=True, trans=1)
            z = z + length * step
            information = None
        evidence = top + rise / 2 - float(np.log(np.diag(root)).sum())
        return z * scales, information, frequencies_at(z), evidence


class BinsLaw(NamedTuple):
    """The distribution of a report, given the bin of a user and the share a of bins.

    It has the products of :class:`~sklearn_ldp.oracles.channels.ReportLaw` for the matrix
    ``a A + (1 - a) A_m 1'``: the users have a bin with probability a, and otherwise no number.
    A contains the columns of the bins, and A_m is the column of missing numbers.
    """

    law: ReportLaw
    place: int  # the position of the missing numbers among the categories
    share: float  # a

    def _whole(self, rows: np.ndarray) -> np.ndarray:
        """Return weights of all categories: shapes (..., d) -> (..., d + 1)."""
        missing = (1 - self.share) * rows.sum(axis=-1)
        return np.insert(self.share * rows, self.place, missing, axis=-1)

    def probabilities(self, frequencies: np.ndarray) -> np.ndarray:
        return self.law.probabilities(self._whole(frequencies))

    def products(self, columns: np.ndarray) -> np.ndarray:
        return self.law.products(self._whole(columns.T).T)

    def refitted(self, tally: np.ndarray, frequencies: np.ndarray) -> BinsLaw:
        """Return this distribution with the share of maximum likelihood, given the curve."""
        answered, missing = (
            self._replace(share=share).probabilities(frequencies) for share in (1.0, 0.0)
        )

        def minus_likelihood(share):
            chances = share * answered + (1 - share) * missing
            return -float(tally @ np.log(np.maximum(chances, np.finfo(float).tiny)))

        fit = minimize_scalar(minus_likelihood, bounds=(0.0, 1.0), method="bounded")
        return self._replace(share=float(fit.x))

    def likelihoods(self, weights: np.ndarray) -> np.ndarray:
        every = self.law.likelihoods(weights)
        bins = np.delete(every, self.place)
        return self.share * bins + (1 - self.share) * every[self.place]


class SmoothMLE(BasePostProcessor):
    """Estimate a smooth curve of frequencies by maximum likelihood, for ordered categories.

    Use this method for totals of ranges, distribution functions and quantiles, for example of
    numbers in bins. In the model, the logarithms of the frequencies follow a curve. The curve is a
    sum of 48 cubic B-splines (of d splines if there are d < 48 categories), with a penalty on third
    differences [1]_. The likelihood is computed from the numbers of the received reports. The
    result is an average over curves with nine penalties and the uniform distribution. Their weights
    are their marginal likelihoods, in Laplace's approximation [2]_. Therefore the user need not
    choose a bandwidth, and for uniform data the result is nearly uniform. If there are few reports,
    the result is an average of fixed candidate distributions instead (see the notes).

    Spikes and steps are not smooth. If the reports show them, the average includes models with 64
    or 256 groups of neighboring categories (or fewer, if there are fewer categories), whose
    frequencies differ at random from the curve. For at most 256 categories, the average also
    includes the model that all users have the same category. The weights are again marginal
    likelihoods. `curve_weight_` is the total weight of the curves. For the frequencies and ranks of
    single categories, use :class:`EmpiricalBayes` on the estimate of :class:`OLH`.

    Over the cells of a :meth:`~sklearn_ldp.Domain.grid`, which are pairs of bins of two numbers,
    the method accepts the raw estimate of any oracle, and assumes normal errors. In the smooth
    models, the logarithms of the frequencies have small second differences. In some of these
    models, the two numbers are almost independent, and the margins may be rough, because people
    round numbers. In other models, some cells, such as cities, differ at random from a smooth
    density or from equal frequencies. All models are averaged, weighted by their marginal
    likelihoods. Differences between the raw estimate and this average are then added to the result,
    separately for each resolution and for the margins. They are multiplied by a factor from 0 to 1
    that minimizes an unbiased estimate of the error. The result is replaced by the closest
    frequencies, in units of the errors of the raw estimate. `curve_weight_` is the probability that
    no cell differs at random. If there are few users, or if the numbers are almost independent and
    have rough margins, rectangles can be 10 to 30 % more accurate with HDG [3]_, which asks
    two thirds of the users about one number (see the notes on places).

    Over other domains, the oracle must count each distinct report. These oracles do:
    :class:`MatrixOracle` (with ``strategy="square-wave"`` for smooth data, with
    ``queries=prefixes()`` for data with spikes), :class:`HadamardResponse`,
    :class:`ProjectiveGeometryResponse`, :class:`GRR`, and :class:`OLH` and :class:`BLH` over
    domains of moderate size.

    The order is the order of ``estimate.categories``. The values of the categories are not used.
    The category of missing numbers is a neighbor of no bin. The method fits the curve for the raw
    share of missing numbers, then the share by maximum likelihood for this curve, and the curve
    again.

    Parameters
    ----------
    verbose : int, default=0
        Whether to show the progress on stderr. With 10,000 categories, a fit can need more than ten
        seconds.

    Attributes
    ----------
    penalty_ : float, or ndarray of shape (n_estimates,)
        The smoothness penalty of the curve with the largest marginal likelihood. It is infinite for
        the uniform distribution.
    curve_weight_ : float, or ndarray of shape (n_estimates,)
        Posterior probability that the frequencies follow a smooth curve. It is 1 if there are few
        reports, so that only fixed candidate distributions are averaged.
    frequencies_ : ndarray of shape (d,)
        Non-negative estimates that sum to 1.
    %(fitted)s

    See Also
    --------
    MonotoneCDF : Answers the same queries after any oracle, without a model.
    ExactMLE : Maximizes the same likelihood without a smooth model.

    Notes
    -----
    Let z be the coefficients, divided by their prior standard deviations, X the matrix that maps z
    to the logarithms of the frequencies, and ``f = softmax(X z)`` the frequencies. Let A be the
    matrix with the probability of each report (rows) for each category (columns), t the numbers of
    the received reports, n their sum, and ``c = A f``. The log-posterior is
    ``sum_y t_y log c_y - z'z / 2``. Its gradient is ``X' (f (A'(t / c) - n)) - z``, and its
    expected curvature is ``I + n J' diag(1 / c) J`` with ``J = A diag(f) X - c f'X``. The penalties
    are 10**6 to 10**-2. They are the inverse variances of third differences. The prior standard
    deviation is 10 for the linear and the quadratic trend of a curve, and 0.5, 1, 2 or 4 for the
    differences of groups.

    The average that includes models with groups of neighbors is unpublished. With 100,000 users in
    256 bins at epsilon 1 and ``strategy="square-wave"``, the mean Wasserstein distance times 10,000
    is as follows (``python -m benchmarks.accuracy.numeric_data``). EMS is the method that was
    published with the square-wave mechanism, and EM is EMS without smoothing.

    =============================  =========  =====  =====
    users                          SmoothMLE     EM    EMS
    =============================  =========  =====  =====
    Beta(5, 2)                            46     82     60
    two normal peaks                      38     65    155
    four spikes on a uniform half         88    110    225
    =============================  =========  =====  =====

    **Few users.** With few reports, the posterior is almost as wide as the prior, and its mode is
    not a good estimate. The result is then a posterior mean over fixed candidate distributions:
    equal frequencies (prior probability 0.28), 2,048 smooth curves (0.42), and equal frequencies
    except for one bin with 0.3, 0.5, 0.7, 0.9 or all of the users (0.3). Each candidate is weighted
    by its likelihood. The logarithms of the curves are sums of eight cosines. The coefficient of
    the k-th cosine has a standard deviation of 0.5 / k or 1 / k, and the mean of all curves has
    equal frequencies. This result is used if the effective number of curves is at least 100 and no
    other model has a much larger marginal likelihood. It is unpublished. The table shows errors of
    the distribution function. They are divided by the smallest of the errors of equal frequencies,
    :class:`NormSub` and :class:`MonotoneCDF`. The two numbers are the geometric mean and the
    maximum of twelve settings (:class:`RangeOracle`, 16 and 64 bins, epsilon 0.5 and 1, three
    populations). "this" is SmoothMLE, and "modes alone" is SmoothMLE without the fixed candidates:

    =================  ==========  ===========  ===========
    users              this        modes alone  MonotoneCDF
    =================  ==========  ===========  ===========
    1                  1.00, 1.02   2.92, 4.46   3.48, 5.17
    10                  .99, 1.05   2.37, 3.93   2.67, 4.47
    100                 .97, 1.06   1.56, 3.20   1.62, 3.03
    1,000               .92, 1.06    .98, 1.32   1.06, 1.47
    =================  ==========  ===========  ===========

    On other populations, the error was at most 1.4 times the smallest of these errors, and at most
    2.3 times if the true frequencies are nearly equal. The table was computed without the
    candidates in which one bin has many users. They increase these errors by about 2 %, and they
    reduce the error by a third if all of 100 users are in one of 64 bins.

    **Missing numbers.** Do not use this method for the share of missing numbers if there are a few
    hundred users and this share is small. With 300 users of whom 6 % gave no number
    (:class:`RangeOracle` over 32 bins, epsilon 1), the error of the share is 7.0 percentage points,
    and 5.7 after :class:`NormSub`. The distribution function of the other users is still better:
    its error is 8.6 points, and 13.8 after NormSub. If 30 % gave no number, both errors are smaller
    than after NormSub (``python -m benchmarks.accuracy._missing_numbers``).

    References
    ----------
    .. [1] P. H. C. Eilers, B. D. Marx, "Flexible smoothing with B-splines and penalties",
       Statistical Science 11(2), 1996, :doi:`10.1214/ss/1038425655`.
    .. [2] D. J. C. MacKay, "Bayesian interpolation", Neural Computation 4(3), 1992,
       :doi:`10.1162/neco.1992.4.3.415`.
    .. [3] J. Yang, T. Wang, N. Li, X. Cheng, S. Su, "Answering multi-dimensional range queries
       under local differential privacy", PVLDB 14(3), 2020, :doi:`10.14778/3430915.3430927`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import Domain, MatrixOracle, SmoothMLE
    >>> from sklearn_ldp.queries import between
    >>> heights = np.random.default_rng(0).normal(170, 10, size=50_000)
    >>> bins = Domain.bins(32, bounds=(130, 210), clip=True)
    >>> oracle = MatrixOracle(1.0, categories=bins, strategy="square-wave", random_state=0)
    >>> curve = SmoothMLE().fit(oracle.fit_transform(heights))
    >>> curve.estimate_.answer(between([(160, 180)])).round(2)
    [160, 180)  0.66
    """

    _parameter_constraints: dict = {"verbose": ["verbose"]}

    def __init__(self, *, verbose: int = 0) -> None:
        self.verbose = verbose

    def _takes_arrays(self) -> bool:
        return False  # arrays have no numbers of reports

    def _process(self, estimate):
        if _has_grid(estimate):
            return self._process_grid(estimate)
        missing = MissingApart.of(estimate)
        tallies, law = tally_of(
            estimate, "SmoothMLE", "use MonotoneCDF, which accepts any estimate"
        )
        d = estimate.shape[1]
        laws: list[Any] = [law] * len(tallies)
        if missing.place is not None:
            d -= 1
            laws = [BinsLaw(law, missing.place, float(share)) for share in missing.scales[:, 0]]
            # The curve makes the share of users with a number more accurate.
            for i, tally in enumerate(tallies):
                laws[i] = laws[i].refitted(tally, smooth_mle(tally, laws[i], d).frequencies)
            missing = missing._replace(shares=np.array([[own.share] for own in laws]))
        pairs = zip(tallies, laws, strict=True)
        fits = [smooth_mle(tally, own, d, verbose=self.verbose) for tally, own in pairs]
        self.penalty_: float | np.ndarray = np.squeeze([fit.penalty for fit in fits])[()]
        shares = np.squeeze([fit.curve_weight for fit in fits])[()]
        self.curve_weight_: float | np.ndarray = shares
        values = missing.joined([fit.frequencies for fit in fits])
        return estimate.with_values(values, by="SmoothMLE")

    def _process_grid(self, estimate: FrequencyEstimate) -> FrequencyEstimate:
        if not estimate.is_raw or estimate.noise is None:
            changed = " and ".join(estimate.postprocessors) or "no known noise"
            raise ValueError(
                "SmoothMLE over a grid needs a raw estimate with known noise, got an estimate with "
                f"{changed}. Pass the `estimate_` of the oracle."
            )
        assert estimate.domain is not None
        fits = []
        for i, row in enumerate(estimate.values):
            noise = estimate.noise.of_rows(i)
            fits.append(smooth_grid(row, noise, estimate.domain.shape))
        self.penalty_ = np.squeeze([fit.penalty for fit in fits])[()]
        self.curve_weight_ = np.squeeze([fit.smooth_weight for fit in fits])[()]
        return estimate.with_values([fit.frequencies for fit in fits], by="SmoothMLE")

    def knows(self, queries: Queries | None, estimate: FrequencyEstimate) -> bool:
        if _has_grid(estimate):
            return estimate.is_raw and estimate.noise is not None and self.is_reference(queries)
        is_counted = estimate.shards is not None and estimate.shards.law is not None
        return is_counted and self.is_reference(queries)

    def is_reference(self, queries: Queries | None) -> bool:
        return as_query_set(queries).ordered


def _has_grid(estimate: FrequencyEstimate) -> bool:
    """Return whether the categories of an estimate are the cells of a grid of two numbers."""
    return estimate.domain is not None and estimate.domain.grid_ends is not None
