"""Planning before any data: what error to expect of a collection, and how many users it needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from .._estimate import FrequencyEstimate
from .._noise import Noise
from .._statements import check_level
from .._typing import Frequencies, Queries
from ..domains._alignment import in_order
from ..oracles import BaseOracle
from ..postprocessing import significance_threshold
from ..queries import QuerySet, as_query_set
from ..surveys import BaseColumnSurvey
from ._errors import METRICS
from ._planned_parts import check_average, of_parts
from ._planning_of import check_number, for_each, least_number, planned_protocol
from ._power import AIMS, samples_for_power

PLANNED = (*METRICS, "half_width")


@overload
def expected_error(
    oracle: BaseOracle,
    n_samples: float,
    n_categories: int | None = None,
    *,
    epsilon: float | None = None,
    frequencies: Frequencies | None = None,
    queries: Queries | None = None,
    metric: str = "mse",
    level: float = 0.95,
) -> float: ...
@overload
def expected_error(
    oracle: Sequence[BaseOracle],
    n_samples: float,
    n_categories: int | None = None,
    *,
    epsilon: float | None = None,
    frequencies: Frequencies | None = None,
    queries: Queries | None = None,
    metric: str = "mse",
    level: float = 0.95,
) -> np.ndarray: ...
@overload
def expected_error(
    oracle: BaseColumnSurvey,
    n_samples: float,
    n_categories: int | None = None,
    *,
    epsilon: float | None = None,
    frequencies: Mapping[Any, Frequencies] | None = None,
    queries: Mapping[Any, Queries] | None = None,
    metric: str = "mse",
    level: float = 0.95,
    average: None = None,
) -> dict[Any, float]: ...
@overload
def expected_error(
    oracle: BaseColumnSurvey,
    n_samples: float,
    n_categories: int | None = None,
    *,
    epsilon: float | None = None,
    frequencies: Mapping[Any, Frequencies] | None = None,
    queries: Mapping[Any, Queries] | None = None,
    metric: str = "mse",
    level: float = 0.95,
    average: str,
) -> float: ...
def expected_error(
    oracle: BaseOracle | BaseColumnSurvey | Sequence[BaseOracle | BaseColumnSurvey],
    n_samples: float,
    n_categories: int | None = None,
    *,
    epsilon: float | None = None,
    frequencies: Frequencies | Mapping[Any, Frequencies] | None = None,
    queries: Queries | Mapping[Any, Queries] | None = None,
    metric: str = "mse",
    level: float = 0.95,
    average: str | None = None,
) -> float | dict[Any, float] | np.ndarray:
    """Return the expected error of the raw estimate of a collection, averaged over the queries.

    The mean squared error is exact and includes the covariances between categories, if the
    mechanism knows them (``oracle.channel().has_exact_covariance``). All mechanisms of this package
    do, except linear hashing in spaces of millions of points. Otherwise the variance of sums is
    estimated from 2**14 drawn reports; this is rough if some rare reports support many categories.
    The other metrics follow from the variances by the normal approximation. The error is with
    respect to the frequencies among the users themselves, as in :func:`query_errors` for
    simulations.

    Sums of categories are noisier with the linear hashing of :class:`~sklearn_ldp.OLH` than with
    ideal hashing, which is that of ``hash_family="mixing"``: by some percent for a thousand
    categories and epsilon up to 4, but several times for far more categories or larger epsilon.

    Parameters
    ----------
    oracle : oracle or list of oracles
        The oracles to plan for; they need not be fitted. A :class:`~sklearn_ldp.ColumnOracle` has
        an error for each column, which contains that of drawing whom to ask.
    n_samples : float
        Number of users; of a survey those of all columns together.
    n_categories : int, default=None
        Size d of the domain; None takes the domain that the oracle declares.
    epsilon : float, default=None
        Privacy budget of one report; None takes the epsilon of the oracle.
    frequencies : array-like of shape (d,), default=None
        Presumed true frequencies, which sum to 1; None is the uniform distribution. For most
        oracles they matter little if d is large. A mapping by the names of the columns for a
        survey; columns that it leaves out are taken as uniform.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category.
        ``top_k`` needs the frequencies. A mapping by the names of the columns for a survey.
    metric : {"mse", "mae", "half_width"}, default="mse"
        Mean squared error, mean absolute error, or mean half width of the confidence intervals.
    level : float, default=0.95
        Level of the confidence intervals, for "half_width".
    average : {None, "weighted"}, default=None
        What is returned for a survey: the error of each column, or their mean, weighted by the
        survey's `weights`.

    Returns
    -------
    float, dict of float, or ndarray of shape (n_oracles,)
        One error per oracle, a dict by column for a survey; it is an array if `oracle` is a list.

    Raises
    ------
    ValueError
        If the domain is not known, or a parameter is out of range.

    See Also
    --------
    required_n_samples : The inverse: the number of users for a given error.
    sklearn_ldp.oracles.profile_oracle : The size of reports and the work of decoding.

    Examples
    --------
    >>> from sklearn_ldp import GRR, OUE
    >>> from sklearn_ldp.metrics import expected_error
    >>> from sklearn_ldp.queries import groups
    >>> round(expected_error(OUE(epsilon=1.0), 1_000_000, 1000), 8)
    3.69e-06
    >>> regions = groups([0] * 5 + [1] * 5)
    >>> expected_error([GRR(), OUE()], 10_000, 10, queries=regions, metric="mae").round(3)
    array([0.027, 0.035])
    >>> from sklearn_ldp import ColumnOracle
    >>> survey = ColumnOracle(epsilon=1.0, domains={"sex": 2, "state": 51})
    >>> errors = expected_error(survey, 100_000)
    >>> {name: round(error**0.5, 4) for name, error in errors.items()}
    {'sex': 0.0112, 'state': 0.0062}
    """
    check_number("n_samples", n_samples)
    _check_metric(metric, level)
    check_average(average, oracle)
    scale = n_samples if metric == "mse" else math.sqrt(n_samples)
    options = (n_categories, epsilon, frequencies, queries, metric, level)

    def error(one):
        of_one_user = _error_of_one_user(one, *options)
        return _averaged(of_one_user, average, lambda error: error / scale)

    return for_each(oracle, error)


@overload
def required_n_samples(
    oracle: BaseOracle,
    error: float,
    n_categories: int | None = None,
    *,
    epsilon: float | None = None,
    frequencies: Frequencies | None = None,
    queries: Queries | None = None,
    metric: str = "mse",
    level: float = 0.95,
    to: str = "error",
    power: float = 0.8,
    frequency: float | None = None,
    of: str = "population",
) -> int: ...
@overload
def required_n_samples(
    oracle: Sequence[BaseOracle],
    error: float,
    n_categories: int | None = None,
    *,
    epsilon: float | None = None,
    frequencies: Frequencies | None = None,
    queries: Queries | None = None,
    metric: str = "mse",
    level: float = 0.95,
    to: str = "error",
    power: float = 0.8,
    frequency: float | None = None,
    of: str = "population",
) -> np.ndarray: ...
@overload
def required_n_samples(
    oracle: BaseColumnSurvey,
    error: float,
    n_categories: int | None = None,
    *,
    epsilon: float | None = None,
    frequencies: Mapping[Any, Frequencies] | None = None,
    queries: Mapping[Any, Queries] | None = None,
    metric: str = "mse",
    level: float = 0.95,
    to: str = "error",
    power: float = 0.8,
    frequency: float | None = None,
    of: str = "population",
    average: None = None,
) -> dict[Any, int]: ...
@overload
def required_n_samples(
    oracle: BaseColumnSurvey,
    error: float,
    n_categories: int | None = None,
    *,
    epsilon: float | None = None,
    frequencies: Mapping[Any, Frequencies] | None = None,
    queries: Mapping[Any, Queries] | None = None,
    metric: str = "mse",
    level: float = 0.95,
    to: str = "error",
    power: float = 0.8,
    frequency: float | None = None,
    of: str = "population",
    average: str,
) -> int: ...
def required_n_samples(
    oracle: BaseOracle | BaseColumnSurvey | Sequence[BaseOracle | BaseColumnSurvey],
    error: float,
    n_categories: int | None = None,
    *,
    epsilon: float | None = None,
    frequencies: Frequencies | Mapping[Any, Frequencies] | None = None,
    queries: Queries | Mapping[Any, Queries] | None = None,
    metric: str = "mse",
    level: float = 0.95,
    to: str = "error",
    power: float = 0.8,
    frequency: float | None = None,
    of: str = "population",
    average: str | None = None,
) -> int | dict[Any, int] | np.ndarray:
    """Return the least number of users for a given expected error, or to tell a difference.

    Parameters
    ----------
    oracle : oracle or list of oracles
        The oracles to plan for; they need not be fitted.
    error : float
        The allowed error, in the unit of the metric: a squared frequency for "mse". With another
        aim `to`, the difference to tell, a frequency.
    n_categories : int, default=None
        Size d of the domain; None takes the domain that the oracle declares.
    epsilon : float, default=None
        Privacy budget of one report; None takes the epsilon of the oracle.
    frequencies : array-like of shape (d,), default=None
        Presumed true frequencies, which sum to 1; None is the uniform distribution. A mapping by
        the names of the columns for a survey.
    queries : query set, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries to answer, see :mod:`sklearn_ldp.queries`; None asks for every category. A
        mapping by the names of the columns for a survey.
    metric : {"mse", "mae", "half_width"}, default="mse"
        As for :func:`expected_error`.
    level : float, default=0.95
        Level of the confidence intervals, for "half_width"; and one minus the probability of
        telling a difference that is not there.
    to : {"error", "change", "order", "detection"}, default="error"
        What the users are needed for: for an error of the estimate; or to tell that a category
        changed by `error` between two collections (of so many users each), that one category is
        more frequent than another by `error`, or that a category of frequency `error` is there, see
        :func:`expected_power`. These use neither `frequencies` nor `queries` nor `metric`.
    power : float, default=0.8
        Probability with which a difference is told.
    frequency : float, default=None
        The smaller one of two frequencies that are compared; None is 1/d.
    of : {"population", "users"}, default="population"
        Whom a statement about a difference is about.
    average : {None, "weighted"}, default=None
        What is returned for a survey: how many users it needs for this error in each column, or
        for this mean error of all columns, weighted by the survey's `weights`.

    Returns
    -------
    int, dict of int, or ndarray of shape (n_oracles,)
        One number per oracle, a dict by column for a survey; it is an array if `oracle` is a list.

    Raises
    ------
    ValueError
        As for :func:`expected_error`.

    See Also
    --------
    expected_error : The inverse: the error for a given number of users.
    expected_power : The inverse: the probability of telling a difference.

    Examples
    --------
    How many users are needed to estimate a category of frequency 1 %, one of 1000 categories, to
    within 0.1 % with 95 % confidence?

    >>> import numpy as np
    >>> from sklearn_ldp import GRR, OLH, OUE
    >>> from sklearn_ldp.metrics import required_n_samples
    >>> from sklearn_ldp.queries import top_k
    >>> presumed = np.r_[0.01, np.full(999, 0.99 / 999)]
    >>> required_n_samples(
    ...     [OUE(), OLH(), GRR()],
    ...     0.001,
    ...     1000,
    ...     epsilon=1.0,
    ...     frequencies=presumed,
    ...     queries=top_k(1),
    ...     metric="half_width",
    ... )
    array([  14185334,   14228152, 1324336378])

    How many users are needed each week to tell that one of 100 categories grew by half a point?

    >>> required_n_samples(OUE(epsilon=1.0), 0.005, 100, to="change")
    2328001
    """
    if to not in ("error", *AIMS):
        raise ValueError(f"Argument to must be one of {('error', *AIMS)}, got {to!r}.")
    if to != "error":
        if frequencies is not None or queries is not None or metric != "mse":
            raise ValueError(
                f'With to="{to}" the frequencies, queries and metric have no meaning: leave them '
                "out, and give the smaller one of the two frequencies as frequency."
            )
        return samples_for_power(
            oracle, error, n_categories, to, epsilon, frequency, level, power, of
        )
    check_number("error", error)
    _check_metric(metric, level)
    check_average(average, oracle)
    options = (n_categories, epsilon, frequencies, queries, metric, level)

    def enough(of_one_user):
        ratio = of_one_user / error
        return least_number(ratio if metric == "mse" else ratio**2)

    return for_each(
        oracle, lambda one: _averaged(_error_of_one_user(one, *options), average, enough)
    )


@overload
def detection_threshold(
    oracle: BaseOracle,
    n_samples: float,
    n_categories: int | None = None,
    *,
    epsilon: float | None = None,
    alpha: float = 0.05,
) -> float: ...
@overload
def detection_threshold(
    oracle: Sequence[BaseOracle],
    n_samples: float,
    n_categories: int | None = None,
    *,
    epsilon: float | None = None,
    alpha: float = 0.05,
) -> np.ndarray: ...
@overload
def detection_threshold(
    oracle: BaseColumnSurvey,
    n_samples: float,
    n_categories: int | None = None,
    *,
    epsilon: float | None = None,
    alpha: float = 0.05,
) -> dict[Any, float]: ...
def detection_threshold(
    oracle: BaseOracle | BaseColumnSurvey | Sequence[BaseOracle | BaseColumnSurvey],
    n_samples: float,
    n_categories: int | None = None,
    *,
    epsilon: float | None = None,
    alpha: float = 0.05,
) -> float | dict[Any, float] | np.ndarray:
    """Return the frequency above which a category can be told from one that nobody has.

    Of d categories that nobody has, `alpha` are expected to have an estimate above
    ``Phi^-1(1 - alpha/d) sigma`` (2020 paper, Eq. 9). This is also the threshold of
    :class:`~sklearn_ldp.BaseCut` with this `alpha`. The estimate of a category whose true frequency
    equals the threshold exceeds it in half of the collections.

    Parameters
    ----------
    oracle : oracle or list of oracles
        The oracles to plan for; they need not be fitted. A :class:`~sklearn_ldp.ColumnOracle` has
        a threshold for each column.
    n_samples : float
        Number of users.
    n_categories : int, default=None
        Size d of the domain; None takes the domain that the oracle declares.
    epsilon : float, default=None
        Privacy budget of one report; None takes the epsilon of the oracle.
    alpha : float, default=0.05
        Expected number of false discoveries, and a bound on the probability that there is one.

    Returns
    -------
    float, dict of float, or ndarray of shape (n_oracles,)
        One frequency per oracle, a dict by column for a survey; it is an array if `oracle` is a
        list. If it is above 1, no category can be told from one that nobody has.

    Raises
    ------
    ValueError
        As for :func:`expected_error`.

    Notes
    -----
    With blocks in :class:`~sklearn_ldp.HadamardResponse` the noise level depends on the frequency
    of the block; the frequencies of all other categories are then taken as uniform.

    Examples
    --------
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.metrics import detection_threshold
    >>> round(detection_threshold(OLH(epsilon=1.0), 1_000_000, 1000), 4)
    0.0075
    """
    check_number("n_samples", n_samples)
    check_number("alpha", alpha)

    def of_one_domain(noise, categories):
        d = len(categories)
        frequencies = np.r_[0.0, np.full(d - 1, 1 / max(d - 1, 1))]
        std = math.sqrt(noise.variance(frequencies)[0] / n_samples)
        return float(significance_threshold(std, d, alpha))

    def threshold(one):
        if isinstance(one, BaseColumnSurvey):
            return of_parts(one, of_one_domain, n_categories, epsilon)[0]
        protocol = planned_protocol(one, n_categories, epsilon)
        channel: Any = protocol.mechanism
        return of_one_domain(channel.noise(1), protocol.domain.categories)

    return for_each(oracle, threshold)


@overload
def equivalent_n_samples(
    noise: Noise | FrequencyEstimate | None,
    mse: float | np.number[Any],
    n_categories: int | None = None,
) -> float: ...
@overload
def equivalent_n_samples(
    noise: Noise | FrequencyEstimate | None, mse: ArrayLike, n_categories: int | None = None
) -> np.ndarray: ...
def equivalent_n_samples(
    noise: Noise | FrequencyEstimate | None, mse: ArrayLike, n_categories: int | None = None
) -> float | np.ndarray:
    """Return the number of users n' whose raw estimate would have this mean squared error.

    A post-processor that reaches an error with n users is worth ``n' / n`` times as many users
    (2020 paper, section V-C):

    .. math:: n' = \\frac{1}{\\mathrm{MSE}} \\left( \\frac{q (1 - q)}{(p - q)^2}
              + \\frac{1 - p - q}{d (p - q)} \\right).

    Parameters
    ----------
    noise : NoiseModel or FrequencyEstimate
        The noise of the oracle; the number of users in it does not matter.
    mse : float or array-like
        Mean squared errors over the full domain, such as :func:`query_errors` returns.
    n_categories : int, default=None
        Size d of the domain; it is not needed with an estimate.

    Returns
    -------
    float or ndarray of the shape of `mse`
        The numbers of users; infinity for an error of 0.

    Raises
    ------
    ValueError
        If the noise or the domain is not known, or an error is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import OUE, NormSub
    >>> from sklearn_ldp.metrics import equivalent_n_samples, frequency_mse
    >>> counts = np.repeat([5000, 0], [2, 98])
    >>> raw = OUE(epsilon=1.0, random_state=0).simulate(counts, n_repeats=100)
    >>> mse = frequency_mse(counts / 10_000, NormSub().fit_transform(raw))
    >>> bool(equivalent_n_samples(raw, mse) > 50_000)
    True
    """
    if isinstance(noise, FrequencyEstimate):
        n_categories = noise.shape[1] if n_categories is None else n_categories
        noise = noise.noise
    if noise is None or n_categories is None:
        raise ValueError(
            "equivalent_n_samples needs a noise model and the number of categories; give an "
            "estimate that has a noise model, or NoiseModel(p, q, n_samples) and n_categories."
        )
    mse = np.asarray(mse, dtype=np.float64)
    if not np.all(mse >= 0):
        raise ValueError(f"Argument mse must be >= 0, got {mse}.")
    # The sum of the variances does not depend on the frequencies, so take uniform ones.
    variance = noise.variance(np.full(n_categories, 1 / n_categories))
    of_one_user = float(np.ravel(np.mean(variance, axis=-1) * noise.n_samples)[0])
    with np.errstate(divide="ignore"):
        n_samples = of_one_user / mse
    return n_samples if n_samples.ndim else float(n_samples)


def _error_of_one_user(
    oracle: BaseOracle | BaseColumnSurvey,
    n_categories: int | None,
    epsilon: float | None,
    frequencies: Any,
    queries: Any,
    metric: str,
    level: float,
) -> Any:
    """Return the error with one user; for n users divide it by n, or by the square root of n.

    Of a survey these are the errors by part, and the weights of the parts.
    """

    def error(noise, categories, frequencies, queries):
        return _error_of_noise(noise, categories, frequencies, queries, metric, level)

    if isinstance(oracle, BaseColumnSurvey):
        by_part = {"frequencies": frequencies, "queries": queries}
        return of_parts(oracle, error, n_categories, epsilon, **by_part)
    protocol = planned_protocol(oracle, n_categories, epsilon)
    channel: Any = protocol.mechanism
    return error(channel.noise(1), protocol.domain.categories, frequencies, queries)


def _averaged(of_one_user: Any, average: str | None, scaled: Callable[[float], Any]) -> Any:
    """Return what follows from the error with one user, of each part of a survey or all of it."""
    if not isinstance(of_one_user, tuple):
        return scaled(of_one_user)
    errors, weights = of_one_user
    if average is None:
        return {name: scaled(error) for name, error in errors.items()}
    return scaled(float(np.average(list(errors.values()), weights=weights)))


def _error_of_noise(
    noise: Noise,
    categories: np.ndarray,
    frequencies: Frequencies | None,
    queries: Queries | None,
    metric: str,
    level: float,
) -> float:
    d = len(categories)
    truth = None if frequencies is None else _checked(frequencies, categories)
    f = np.full(d, 1 / d) if truth is None else truth
    query_set = as_query_set(queries).aligned(categories)
    if metric == "mse":
        return max(mean_variance(noise, query_set, f, truth), 0.0)
    variances = noise.answer_variance(query_set.matrix(d, truth), f)
    mean_std = float(np.sqrt(np.maximum(variances, 0)).mean())
    return mean_std * (math.sqrt(2 / math.pi) if metric == "mae" else ndtri(0.5 + level / 2))


def mean_variance(
    noise: Noise, queries: QuerySet, frequencies: np.ndarray, truth: np.ndarray | None
) -> float:
    """Return the expected squared error of the raw estimate, averaged over the queries.

    Parameters
    ----------
    noise : Noise
        The noise of the estimate.
    queries : QuerySet
        The queries. For random sets the mean is over all sets of their size, in closed form.
    frequencies : ndarray of shape (d,)
        Frequencies among the users.
    truth : ndarray of shape (d,) or None
        The same frequencies, for queries that depend on the truth; None if it is not known.

    Returns
    -------
    float
        The mean variance.
    """
    d = len(frequencies)
    weights = queries.square_weights(d)
    if weights is None:
        return float(noise.answer_variance(queries.matrix(d, truth), frequencies).mean())
    single, pairs = weights
    of_categories = float(noise.variance(frequencies).sum())
    if not pairs:
        return single * of_categories
    of_total = float(noise.answer_variance(np.ones((1, d)), frequencies)[0])
    return single * of_categories + pairs * (of_total - of_categories)


def _checked(frequencies: Frequencies, categories: np.ndarray) -> np.ndarray:
    d, what = len(categories), "The array of presumed frequencies"
    frequencies = np.asarray(in_order(frequencies, categories, what), dtype=np.float64)
    if frequencies.shape != (d,):
        raise ValueError(
            f"The presumed frequencies must have shape ({d},), one for each category, got "
            f"{frequencies.shape}."
        )
    if not (np.all(frequencies >= 0) and abs(frequencies.sum() - 1) < 1e-6):
        raise ValueError(
            "The presumed frequencies must be >= 0 and sum to 1, got a minimum of "
            f"{frequencies.min():g} and a sum of {frequencies.sum():g}; divide counts by their sum."
        )
    return frequencies


def _check_metric(metric: str, level: float) -> None:
    if metric not in PLANNED:
        raise ValueError(f"Argument metric must be one of {PLANNED}, got {metric!r}.")
    check_level(level)
