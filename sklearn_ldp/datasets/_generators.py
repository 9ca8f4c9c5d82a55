"""Synthetic populations with a known distribution, and samples from a population of counts."""

from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from .._core.common.random import RandomState

# Generator.multivariate_hypergeometric requires that the population is smaller than this.
_MAX_POPULATION = 1_000_000_000


def make_zipf(
    n_samples: int = 1_000_000,
    n_categories: int = 1024,
    *,
    exponent: float = 1.5,
    return_counts: bool = False,
    random_state: RandomState = None,
) -> np.ndarray:
    r"""Draw users whose values follow a truncated Zipf distribution.

    Category ``k`` (from 0) has probability proportional to :math:`(k + 1)^{-s}`, where `s` is the
    exponent: the most frequent category is 0. The defaults are the Zipf data of [1]_ and [2]_.

    Parameters
    ----------
    n_samples : int, default=1_000_000
        Number of users.

    n_categories : int, default=1024
        Number of categories, at least 2.

    exponent : float, default=1.5
        The exponent `s`, at least 0. For 0, all categories are equally frequent.

    return_counts : bool, default=False
        If True, return the number of users in each category instead of one value per user. The
        distribution is the same, and the same seed gives the same population. With True, time
        and memory do not grow with `n_samples`. Pass the counts to ``oracle.simulate``, or as
        ``sample_weight`` to ``oracle.fit``.

    random_state : int, RandomState, Generator or None, default=None
        Seed of the population. It does not affect privacy, because it only draws test data.

    Returns
    -------
    values : ndarray of shape (n_samples,), dtype int64
        The category of each user, from 0 to ``n_categories - 1``, drawn independently.
    counts : ndarray of shape (n_categories,), dtype int64
        The number of users in each category, returned instead of `values` if `return_counts` is
        True. The counts sum to `n_samples`. Categories without users are kept, with count 0.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    See Also
    --------
    make_beta : Smooth data that are concentrated on the last categories.
    sample_counts : Draw people from a given histogram.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li. "Locally Differentially
       Private Frequency Estimation with Consistency". NDSS 2020.
       :doi:`10.14722/ndss.2020.24157`.
    .. [2] T. Wang, Z. Li, N. Li, M. Lopuhaä-Zwakenberg, B. Skoric. "Consistent and Accurate
       Frequency Oracles under Local Differential Privacy". 2019.
       :doi:`10.48550/arXiv.1905.08320`.

    Examples
    --------
    >>> from sklearn_ldp.datasets import make_zipf
    >>> values = make_zipf(10_000, 8, random_state=0)
    >>> values.shape, int(values.min()), int(values.max())
    ((10000,), 0, 7)
    >>> counts = make_zipf(10_000, 8, return_counts=True, random_state=0)
    >>> counts.shape, int(counts.sum()), int(counts.argmax())
    ((8,), 10000, 0)
    """
    _check_size("make_zipf", n_samples=n_samples, n_categories=n_categories)
    if not (isinstance(exponent, Real) and 0 <= exponent < np.inf):
        raise ValueError(
            f"make_zipf: exponent must be a finite number >= 0, got {exponent!r}. Pass for "
            "example 1.5."
        )
    frequencies = np.arange(1, n_categories + 1, dtype=float) ** -exponent
    return _draw(n_samples, frequencies, return_counts, random_state)


def make_beta(
    n_samples: int = 100_000,
    n_categories: int = 400,
    *,
    a: float = 50,
    b: float = 2,
    return_counts: bool = False,
    random_state: RandomState = None,
) -> np.ndarray:
    r"""Draw users whose values follow a Beta distribution that is divided into equal intervals.

    A user draws :math:`x \sim \mathrm{Beta}(a, b)` on [0, 1] and has category :math:`\lfloor d x
    \rfloor`, so category ``k`` (from 0) has probability :math:`F((k + 1) / d) - F(k / d)`, where
    `F` is the distribution function. The defaults are the Beta data of [1]_. Their frequencies are
    a smooth function of the category: nearly all users have one of the last categories, and hardly
    any user has one of the first.

    Parameters
    ----------
    n_samples : int, default=100_000
        Number of users.

    n_categories : int, default=400
        Number of intervals `d`, at least 2.

    a, b : float, default=50 and 2
        Shape parameters of the Beta distribution, both > 0.

    return_counts : bool, default=False
        If True, return the number of users in each category instead of one value per user. The
        distribution is the same, and the same seed gives the same population. With True, time
        and memory do not grow with `n_samples`. Pass the counts to ``oracle.simulate``, or as
        ``sample_weight`` to ``oracle.fit``.

    random_state : int, RandomState, Generator or None, default=None
        Seed of the population. It does not affect privacy, because it only draws test data.

    Returns
    -------
    values : ndarray of shape (n_samples,), dtype int64
        The category of each user, from 0 to ``n_categories - 1``, drawn independently.
    counts : ndarray of shape (n_categories,), dtype int64
        The number of users in each category, returned instead of `values` if `return_counts` is
        True. The counts sum to `n_samples`. Categories without users are kept, with count 0.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    See Also
    --------
    make_zipf : Data with a few heavy categories and a long tail.
    sample_counts : Draw people from a given histogram.

    References
    ----------
    .. [1] T. Wang, Z. Li, N. Li, M. Lopuhaä-Zwakenberg, B. Skoric. "Consistent and Accurate
       Frequency Oracles under Local Differential Privacy". 2019.
       :doi:`10.48550/arXiv.1905.08320`.

    Examples
    --------
    >>> from sklearn_ldp.datasets import make_beta
    >>> values = make_beta(random_state=0)
    >>> values.shape, bool(values.mean() > 380)
    ((100000,), True)
    """
    _check_size("make_beta", n_samples=n_samples, n_categories=n_categories)
    for name, value in {"a": a, "b": b}.items():
        if not (isinstance(value, Real) and 0 < value < np.inf):
            raise ValueError(
                f"make_beta: {name} must be a finite number > 0, got {value!r}. Pass a positive "
                "number."
            )
    # betainc(a, b, x) is the distribution function of Beta(a, b) at x. In its flat part, rounding
    # errors can make it decrease by an ulp, but a probability must not be negative.
    edges = np.linspace(0, 1, n_categories + 1)
    frequencies = np.diff(betainc(a, b, edges)).clip(min=0)
    return _draw(n_samples, frequencies, return_counts, random_state)


def sample_counts(
    counts: ArrayLike, n_samples: int, *, random_state: RandomState = None
) -> np.ndarray:
    """Draw people without replacement from a population of which the counts are known.

    The result contains the counts of a simple random sample. A count in the sample is at most the
    count in the population. If `n_samples` is the size of the population, the result equals
    `counts`. The counts are drawn from the multivariate hypergeometric distribution, so people are
    not enumerated.

    Parameters
    ----------
    counts : array-like of shape (n_categories,), of integers
        Number of people in each category of the population; fewer than 1,000,000,000 in total.

    n_samples : int
        Number of people to draw, from 1 to ``sum(counts)``.

    random_state : int, RandomState, Generator or None, default=None
        Seed of the sample. It does not affect privacy, because it only draws test data.

    Returns
    -------
    sampled : ndarray of shape (n_categories,), dtype int64
        Number of people in each category of the sample. The counts sum to `n_samples`.

    Raises
    ------
    ValueError
        If `counts` is not a vector of non-negative integers, if the population has 1,000,000,000
        people or more, or if it has fewer than `n_samples` people.

    See Also
    --------
    load_us_states : Resident populations of the US states, a histogram to draw from.

    Examples
    --------
    >>> from sklearn_ldp.datasets import sample_counts
    >>> sample_counts([3, 0, 2], 5, random_state=0)
    array([3, 0, 2])
    >>> int(sample_counts([300, 0, 200], 50, random_state=0).sum())
    50
    """
    _check_size("sample_counts", n_samples=n_samples)
    counts = np.asarray(counts)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise ValueError(
            "sample_counts: counts must be a 1D array of non-negative integers, got "
            f"dtype {counts.dtype} and shape {counts.shape}"
            + (f" with minimum {counts.min()}" if counts.dtype.kind == "i" and counts.size else "")
            + ". If you have frequencies, multiply them by the number of people, round them, and "
            "cast them to np.int64."
        )
    population = sum(counts.tolist())  # Python integers: int64 could overflow
    if population >= _MAX_POPULATION:
        raise ValueError(
            f"sample_counts: the population must be below {_MAX_POPULATION:,} people, got "
            f"{population:,}. For a population this large, sample with replacement (the difference "
            "is negligible): numpy.random.default_rng(seed).multinomial(n_samples, "
            "counts / counts.sum())."
        )
    if n_samples > population:
        raise ValueError(
            f"sample_counts: n_samples must be at most the population of {population:,}, got "
            f"{n_samples:,}. Pass a smaller n_samples, because people are drawn without "
            "replacement."
        )
    rng = _generator(random_state)
    return rng.multivariate_hypergeometric(counts.astype(np.int64), n_samples, method="marginals")


def _check_size(function, *, n_samples, n_categories=2):
    for name, value, minimum in (("n_samples", n_samples, 1), ("n_categories", n_categories, 2)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
            raise ValueError(
                f"{function}: {name} must be an integer >= {minimum}, got {value!r}. Pass an "
                "integer in this range."
            )


def _generator(random_state):
    """Return a NumPy Generator for a seed.

    If the seed is a RandomState, numbers are drawn from it, so that its next use gives another
    Generator.
    """
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**32, size=4, dtype=np.uint32)
    return np.random.default_rng(random_state)


def _draw(n_samples, frequencies, return_counts, random_state):
    rng = _generator(random_state)
    counts = rng.multinomial(n_samples, frequencies / frequencies.sum())
    if return_counts:
        return counts
    # Multinomial counts in a uniformly random order are exactly independent draws. This makes a
    # seed give the same population in both forms.
    values = np.repeat(np.arange(counts.size), counts)
    rng.shuffle(values)
    return values
