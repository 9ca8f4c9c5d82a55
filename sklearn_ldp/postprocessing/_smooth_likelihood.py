"""Maximum likelihood of smooth curves over ordered categories: SmoothMLE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .._estimates import FrequencyEstimate
from ..oracles.channels import ReportLaw
from ..queries import Queries, as_query_set
from ._base import BasePostProcessor
from ._likelihood import tally_of

# Chosen in November 2026 on eight made-up populations, which are not those that
# `python -m benchmarks.accuracy.numeric_data` prints (doc/notes/numbers.md). The numbers of steps,
# and the tolerance, bound the work.
_MOST_SPLINES = 48
_PENALTIES = 10.0 ** np.arange(6, -3, -1)
_TREND = 10.0  # standard deviation of a curve's slope and of its bend, in log-frequencies

# Groups of neighbours with effects of their own. Few of them tell whether more are worth the time.
_MOST_GROUPS, _FEW_GROUPS = 256, 64
_ROUGH = [(penalty, size) for penalty in (1e5, 1e3, 1e1) for size in (0.5, 1.0, 2.0)]
_PROBE = [(1e3, 1.0)]

_HOPELESS, _NOTABLE = 20.0, 3.0  # differences of log-evidence
_MOST_STEPS = 100
_TOL = 1e-3  # of the log-posterior


class SmoothFit(NamedTuple):
    """What `smooth_mle` finds.

    Parameters
    ----------
    frequencies : ndarray of shape (d,)
        The average, on the simplex.
    penalty : float
        That of the curve with the greatest evidence; infinite for the uniform distribution.
    curve_weight : float
        Posterior probability that the frequencies follow a smooth curve.
    """

    frequencies: np.ndarray
    penalty: float
    curve_weight: float


def smooth_mle(tally: np.ndarray, law: ReportLaw, n_categories: int) -> SmoothFit:
    """Average smooth distributions by their evidence, given a tally of reports.

    See :class:`~sklearn_ldp.SmoothMLE` for the models.

    Parameters
    ----------
    tally : ndarray of shape (n_kinds,)
        Number of reports of each kind.
    law : ReportLaw
        The probabilities of the kinds of reports.
    n_categories : int
        The number d of categories, in their order.

    Returns
    -------
    SmoothFit
        The average, and which models it is made of.
    """
    reports = _Reports(tally, law)
    even = np.full(n_categories, 1 / n_categories)
    curve = _coordinates(n_categories)
    curves = [_Model(np.inf, even, reports.log_likelihood(even))]
    curves += _fitted(reports, curve, [(penalty,) for penalty in _PENALTIES])
    best = max(curves, key=lambda model: model.evidence)
    rough = _fitted(reports, [*curve, _groups(n_categories, _FEW_GROUPS)], _PROBE)
    if rough[0].evidence > best.evidence - _NOTABLE:
        for most in (_FEW_GROUPS, _MOST_GROUPS):
            rough += _fitted(reports, [*curve, _groups(n_categories, most)], _ROUGH)
    models = curves + rough
    weights = np.exp([m.evidence - max(m.evidence for m in models) for m in models])
    weights /= weights.sum()
    frequencies = weights @ [model.frequencies for model in models]
    return SmoothFit(frequencies, best.penalty, float(weights[: len(curves)].sum()))


class _Model(NamedTuple):
    """The mode of one model, and the logarithm of its evidence."""

    penalty: float
    frequencies: np.ndarray
    evidence: float


def _coordinates(d: int) -> list[np.ndarray]:
    """A curve's trend (slope and bend) and what third differences make, as (d, ..) columns."""
    # The coefficients of the splines are a quadratic trend plus `D' (D D')^-1 u`, whose third
    # differences D are u.
    n_splines = min(_MOST_SPLINES, d)
    splines = np.eye(d)
    if n_splines >= 4:
        places = (np.arange(d)[:, None] + 0.5) * (n_splines - 3) / d
        far = np.abs(places - (np.arange(n_splines) - 1))  # from a spline's middle, in knots
        splines = (np.maximum(2 - far, 0) ** 3 - 4 * np.maximum(1 - far, 0) ** 3) / 6
    powers = np.vander(np.linspace(-1, 1, n_splines), 3, increasing=True)
    trend = np.linalg.qr(powers)[0][:, 1:] * np.sqrt(n_splines)
    differences = np.diff(np.eye(n_splines), 3, axis=0)
    return [splines @ trend, splines @ np.linalg.pinv(differences)]


def _groups(d: int, most: int) -> np.ndarray:
    """Return the indicators of groups of neighbours, of shape (d, n_groups)."""
    n_groups = min(most, d)
    return np.eye(n_groups)[np.arange(d) * n_groups // d]


def _fitted(
    reports: _Reports, blocks: list[np.ndarray], settings: Sequence[tuple[float, ...]]
) -> list[_Model]:
    """Fit models one after the other, each from the last one's mode."""
    # Curves, while there is hope.
    # A setting is the penalty of a curve, and the standard deviation of effects of groups, if
    # any.
    columns, sizes = np.hstack(blocks), [block.shape[1] for block in blocks]
    coefficients, models = np.zeros(columns.shape[1]), []
    for penalty, *size in settings:
        scales = np.repeat([_TREND, penalty**-0.5, *size], sizes)
        mode, frequencies, evidence = reports.mode(columns * scales, coefficients / scales)
        coefficients = mode * scales
        models.append(_Model(penalty, frequencies, evidence))
        if not size and evidence < max(m.evidence for m in models) - _HOPELESS:
            break
    return models


class _Reports:
    """The likelihood of a tally, as a function of logarithms of frequencies."""

    def __init__(self, tally: np.ndarray, law: ReportLaw) -> None:
        self.tally, self.law, self.n = tally, law, tally.sum()

    def chances(self, frequencies: np.ndarray) -> np.ndarray:
        return np.maximum(self.law.probabilities(frequencies), np.finfo(float).tiny)

    def log_likelihood(self, frequencies: np.ndarray) -> float:
        return float(self.tally @ np.log(self.chances(frequencies)))

    def slope(self, frequencies: np.ndarray, chances: np.ndarray) -> np.ndarray:
        """Derivatives of the log-likelihood with respect to log-frequencies, shape (d,)."""
        return frequencies * (self.law.likelihoods(self.tally / chances) - self.n)

    def information(
        self, frequencies: np.ndarray, chances: np.ndarray, columns: np.ndarray
    ) -> np.ndarray:
        """Fisher's information about coefficients of the log-frequencies' columns."""
        changes = self.law.products(frequencies[:, None] * columns)
        changes -= np.outer(chances, frequencies @ columns)
        changes *= np.sqrt(self.n / chances)[:, None]
        return changes.T @ changes

    def mode(self, columns: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Return where the posterior of standard normal coefficients z is greatest."""
        # Fisher's scoring with a line search, from a given z. Also the frequencies there,
        # and Laplace's approximation of the logarithm of the evidence.
        f = _softmax(columns @ z)
        value = self.log_likelihood(f) - z @ z / 2
        for _ in range(_MOST_STEPS):
            chances = self.chances(f)
            curvature = self.information(f, chances, columns)
            curvature.flat[:: len(z) + 1] += 1.0
            factor = cho_factor(curvature)
            gradient = columns.T @ self.slope(f, chances) - z
            step = cho_solve(factor, gradient)
            rise = float(gradient @ step)
            if rise <= _TOL:
                break
            length = 2.0
            while length > 1e-6:
                length /= 2
                there = z + length * step
                f_there = _softmax(columns @ there)
                value_there = self.log_likelihood(f_there) - there @ there / 2
                if value_there >= value + length * rise / 10:
                    break
            z, f, value = there, f_there, value_there
        return z, f, value - float(np.log(np.diag(factor[0])).sum())


def _softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max())
    return raised / raised.sum()


class SmoothMLE(BasePostProcessor):
    """Maximum likelihood of a smooth curve, for numbers in bins and other ordered categories.

    It is for totals of ranges, distribution functions and quantiles. The logarithms of the
    frequencies follow a curve of 48 cubic B-splines (or d, if there are fewer categories), whose
    third differences are penalised [1]_. The likelihood is that of the reports themselves. Nine
    penalties, and the uniform distribution, are averaged by their evidence, in Laplace's
    approximation [2]_. So there is no bandwidth to choose, and from few reports of uniform users
    the result is uniform.

    Spikes, heaps and steps are no smooth curve. If the reports tell so, models in which neighbours
    (in up to 64 or 256 groups) differ at random are averaged too, by the same evidence:
    `curve_weight_` tells whether. Single categories and their ranks are another question: take
    :class:`EmpiricalBayes` on the estimate of :class:`OLH`.

    The oracle must have kept the number of reports of each kind: it is available for
    :class:`MatrixOracle`, of which ``strategy="square-wave"`` suits curves and
    ``queries=prefixes()`` spikes, for :class:`HadamardResponse` and
    :class:`ProjectiveGeometryResponse`, for :class:`GRR`, and for :class:`OLH` and :class:`BLH`
    over domains of moderate size.

    The order is that of ``estimate.categories``; their values are not used.

    Attributes
    ----------
    penalty_ : float, or ndarray of shape (n_estimates,)
        The penalty of the curve with the greatest evidence; infinite if that is the uniform
        distribution.
    curve_weight_ : float, or ndarray of shape (n_estimates,)
        Probability that the frequencies follow a smooth curve, given the reports.
    frequencies_ : ndarray of shape (d,)
        Non-negative estimates that sum to 1.
    %(fitted)s

    See Also
    --------
    MonotoneCDF : For the same questions behind any oracle, without a model.
    ExactMLE : The same likelihood without smoothness.

    Notes
    -----
    Let z be the coefficients in units of their prior's standard deviations, X the columns that they
    multiply, ``f = softmax(X z)``, A the law of the reports, t their tally, n its sum and
    ``c = A f``. The log-posterior is ``sum_y t_y log c_y - z'z / 2``, its gradient ``X' (f (A'(t /
    c) - n)) - z``, and its expected curvature ``I + n J' diag(1 / c) J`` with ``J = A diag(f) X -
    c f'X``. Penalties are 10**6 to 10**-2 (inverse variances of third differences); slope and bend
    of a curve have the standard deviation 10, effects of groups .5, 1 and 2.

    The average over models that also let groups of neighbours differ is unpublished. With 100,000
    users in 256 bins at epsilon 1 and ``strategy="square-wave"``, the mean Wasserstein distance
    times 10,000 is as follows (``python -m benchmarks.accuracy.numeric_data``). EMS is what was
    published with that channel, EM the same without its smoothing.

    =============================  =========  =====  =====
    users                          SmoothMLE     EM    EMS
    =============================  =========  =====  =====
    Beta(5, 2)                            46     82     60
    two normal peaks                      38     65    155
    four spikes on a uniform half         88    110    225
    =============================  =========  =====  =====

    References
    ----------
    .. [1] P. H. C. Eilers, B. D. Marx, "Flexible smoothing with B-splines and penalties",
       Statistical Science 11(2), 1996, :doi:`10.1214/ss/1038425655`.
    .. [2] D. J. C. MacKay, "Bayesian interpolation", Neural Computation 4(3), 1992,
       :doi:`10.1162/neco.1992.4.3.415`.

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

    penalty_: float | np.ndarray
    curve_weight_: float | np.ndarray

    _takes_arrays = False  # which have no numbers of reports

    def _process(self, estimate):
        tallies, law = tally_of(estimate, "SmoothMLE", "use MonotoneCDF, which takes any estimate")
        fits = [smooth_mle(tally, law, estimate.shape[1]) for tally in tallies]
        self.penalty_ = np.squeeze([fit.penalty for fit in fits])[()]
        self.curve_weight_ = np.squeeze([fit.curve_weight for fit in fits])[()]
        return estimate.with_values([fit.frequencies for fit in fits], by="SmoothMLE")

    def knows(self, queries: Queries | None, estimate: FrequencyEstimate) -> bool:
        is_counted = estimate.shards is not None and estimate.shards.law is not None
        return is_counted and self.is_reference(queries)

    def is_reference(self, queries: Queries | None) -> bool:
        return as_query_set(queries).ordered
