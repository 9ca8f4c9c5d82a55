"""What is known about the errors of an estimate: the covariance of any linear answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .._utils.docs import inherit_docstrings
from .._utils.typing import Matrix, Rows
from ..numerics.simplex import norm_sub


class Noise(ABC):
    """Base of all noise models, which all answer one question, whatever made the estimate.

    The question is: what is the covariance of the linear answers `matrix @ estimate`, given the
    true frequencies? A noise model answers it in `covariance`, and has a noise level in `std`.
    Think twice before adding anything here. The users are fixed: the only randomness is that of
    their reports, and of the choice of what each user reports (such as the part that a user is
    asked about).

    Attributes
    ----------
    n_samples : int, ndarray of shape (n_estimates,) or None
        Number of users behind each estimate; None if unknown.
    std : float or ndarray of shape (n_estimates,)
        Standard deviation of the estimate of a category that nobody has.
    growth : float or ndarray of shape (n_estimates,)
        How much the variance of a category's estimate grows with its frequency.
    """

    n_samples: Any
    std: Any
    growth: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherit_docstrings(cls)

    @abstractmethod
    def _covariance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        """Return the `covariance` of one estimate: one `n_samples`, frequencies of shape (d,)."""

    def _answer_variance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        """Return the `answer_variance` of one estimate; override it if there is a faster way."""
        matrices = (self._covariance(rows[[i]], frequencies) for i in range(rows.shape[0]))
        return np.array([matrix[0, 0] for matrix in matrices])

    def covariance(self, matrix: Matrix, frequencies: ArrayLike) -> np.ndarray:
        """Return the covariance matrix of the answers to linear queries of the raw estimate.

        Parameters
        ----------
        matrix : (sparse) matrix of shape (n_queries, d)
            One row per query.
        frequencies : array-like of shape (d,) or (n_estimates, d)
            True frequencies of all categories.

        Returns
        -------
        ndarray of shape (n_queries, n_queries) or (n_estimates, n_queries, n_queries)
            The covariances. There is a single matrix if there is one number of users and one
            distribution.

        Raises
        ------
        ValueError
            If this noise model does not know how the errors of these answers are correlated.
        """
        rows = as_rows(matrix)
        return self._of_each(frequencies, lambda noise, f: noise._covariance(rows, f))

    def frequencies_behind(self, values: np.ndarray) -> np.ndarray:
        """Return a distribution at which to take the covariances of a raw estimate.

        Parameters
        ----------
        values : ndarray of shape (d,)
            The raw estimate.

        Returns
        -------
        ndarray of shape (d,)
            The nearest distribution.
        """
        return norm_sub(values)

    def answer_variance(self, matrix: Matrix, frequencies: ArrayLike) -> np.ndarray:
        """Return only the variances of the answers, which are the diagonal of `covariance`.

        Parameters
        ----------
        matrix : (sparse) matrix of shape (n_queries, d)
            One row per query.
        frequencies : array-like of shape (d,) or (n_estimates, d)
            True frequencies of all categories.

        Returns
        -------
        ndarray of shape (n_queries,) or (n_estimates, n_queries)
            The variance of each answer.
        """
        rows = as_rows(matrix)
        return self._of_each(frequencies, lambda noise, f: noise._answer_variance(rows, f))

    def variance(self, frequencies: ArrayLike) -> np.ndarray:
        """Return the variance of the raw estimate of each category.

        Parameters
        ----------
        frequencies : array-like of shape (d,) or (n_estimates, d)
            True frequencies of all categories.

        Returns
        -------
        ndarray of shape (d,) or (n_estimates, d)
            The variance of each category's estimate.
        """
        every = sparse.eye_array(np.shape(frequencies)[-1], format="csr")
        return self.answer_variance(every, frequencies)

    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        """Return the covariance matrix of all categories, times a vector, without the matrix.

        Parameters
        ----------
        vector : ndarray of shape (d,)
            The vector.
        frequencies : ndarray of shape (d,)
            True frequencies of all categories.

        Returns
        -------
        ndarray of shape (d,)
            The product, for a single number of users.

        Raises
        ------
        ValueError
            If this noise model does not know how the errors of the categories are correlated.
        """
        every = sparse.eye_array(len(frequencies), format="csr")
        return self._covariance(every, frequencies) @ vector

    @property
    def half_count(self) -> Any:
        """How much half a report adds to an estimate: a float or one for each estimate.

        Estimates lie on a grid, and a probability on a grid is compared with a continuous one at
        the middle between two points. It is 0 if the grid is not known.
        """
        return 0.0

    @property
    def n_users(self) -> Any:
        """Number of users whose frequencies the estimate is of: more than were asked, if sampled.

        An int, one for each estimate, or None if unknown.
        """
        return self.n_samples

    @property
    def curvature(self) -> Any:
        """How much the variance of a category falls with the square of its frequency.

        A float or one for each estimate; 0 unless only a random part of the users was asked.
        """
        return 0.0

    @property
    def support_law(self) -> NoiseModel | None:
        """The p and q of reports that support a category or do not; None for other estimates."""
        return None

    def drawn_users(
        self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw who is asked in collections like that of a single estimate.

        Parameters
        ----------
        counts : ndarray of shape (d,)
            Number of all users of each category.
        n_repeats : int
            Number of collections.
        rng : Generator
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_repeats, d)
            Number of users of each category who are asked: by default all of them, each time.
        """
        return np.broadcast_to(counts, (n_repeats, len(counts)))

    def of_rows(self, rows: Rows) -> Noise:
        """Return the noise of some of the estimates.

        Parameters
        ----------
        rows : int, slice or array-like
            The estimates to select.

        Returns
        -------
        Noise
            The noise of these estimates; this very object if all estimates have the same number
            of users.
        """
        return self

    def _of_each(
        self, frequencies: ArrayLike, ask: Callable[[Any, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Apply `ask`, which answers for one estimate, to each of the estimates."""
        frequencies = np.asarray(frequencies, dtype=np.float64)
        n_estimates = {len(x) for x in (frequencies[..., 0], self.n_samples) if np.ndim(x)}
        if not n_estimates:
            return ask(self, frequencies)
        each = np.broadcast_to(frequencies, (max(n_estimates), frequencies.shape[-1]))
        return np.stack([ask(self.of_rows(i), row) for i, row in enumerate(each)])


@dataclass(frozen=True, eq=False)
class CountedNoise(Noise):
    """Base of the noise of known numbers of users: one number, or one for each estimate."""

    def __post_init__(self) -> None:
        n_samples = np.asarray(self.n_samples)
        if n_samples.ndim > 1 or not np.all((n_samples > 0) & np.isfinite(n_samples)):
            raise ValueError(
                f"Noise needs n_samples > 0, got {self.n_samples!r}; give a finite number, or one "
                "for each row of the estimate."
            )
        if n_samples.ndim:
            object.__setattr__(self, "n_samples", n_samples)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)
        )

    def __hash__(self) -> int:
        return hash((type(self), np.asarray(self.n_samples).tobytes()))

    def of_rows(self, rows: Rows) -> Self:
        whole: Any = self
        n_samples: Any = np.asarray(self.n_samples)
        return replace(whole, n_samples=n_samples[rows]) if n_samples.ndim else self


@dataclass(frozen=True, eq=False)
class NoiseModel(CountedNoise):
    """The noise of a pure frequency oracle, known by p, q and the number of users.

    Every report of a pure oracle *supports* a set of categories: the user's own category with
    probability `p`, and any other category with probability `q`. These determine the variance of
    each category's estimate. They do not determine how the errors of two categories are
    correlated, which depends on the mechanism. The noise of an oracle's own estimate
    (``oracle.noise_``, ``estimate.noise``) knows that too.

    Parameters
    ----------
    p : float
        Probability that a report supports the user's own category.
    q : float
        Probability that a report supports a given other category, ``0 <= q < p <= 1``.
    n_samples : int or ndarray of shape (n_estimates,)
        Number of users behind each estimate.

    Attributes
    ----------
    std : float or ndarray of shape (n_estimates,)
        Standard deviation of the estimate of a category that nobody has.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020,
       :doi:`10.14722/ndss.2020.24157`.

    Examples
    --------
    >>> from sklearn_ldp import NoiseModel
    >>> noise = NoiseModel(p=0.5, q=0.25, n_samples=10_000)
    >>> float(round(noise.std, 4))
    0.0173
    """

    p: float
    q: float
    n_samples: Any

    def __post_init__(self) -> None:
        if not 0 <= self.q < self.p <= 1:
            raise ValueError(
                f"NoiseModel needs 0 <= q < p <= 1, got p={self.p}, q={self.q}; p is the "
                "probability that a report supports the user's own category."
            )
        super().__post_init__()

    @property
    def null_variance(self) -> float:
        """Variance of the estimate of a category that nobody has, multiplied by n."""
        return self.q * (1 - self.q) / (self.p - self.q) ** 2

    @property
    def slope(self) -> float:
        """How much n times the variance grows with the frequency."""
        return (1 - self.p - self.q) / (self.p - self.q)

    @property
    def std(self) -> Any:
        """Noise level sigma of a category of frequency 0 (2020 paper, Eq. 7)."""
        return np.sqrt(self.null_variance / self.n_samples)

    @property
    def growth(self) -> Any:
        """How much the variance grows with the frequency, for each estimate."""
        return self.slope / np.asarray(self.n_samples, dtype=float)

    @property
    def half_count(self) -> Any:
        """How much half a report that supports a category adds to its estimate."""
        return 0.5 / ((self.p - self.q) * np.asarray(self.n_samples, dtype=float))

    @property
    def support_law(self) -> NoiseModel:
        """Itself."""
        return self

    def debias(self, support_counts: ArrayLike) -> np.ndarray:
        """Return unbiased frequencies from support counts (2020 paper, Eq. 2).

        Parameters
        ----------
        support_counts : array-like of shape (d,) or (n_estimates, d)
            How many reports support each category.

        Returns
        -------
        ndarray of shape (d,) or (n_estimates, d)
            ``(support_counts / n_samples - q) / (p - q)``.
        """
        n_samples = np.asarray(self.n_samples)[..., None]
        return (np.asarray(support_counts) / n_samples - self.q) / (self.p - self.q)

    def variance(self, frequencies: ArrayLike) -> np.ndarray:
        """Return the variance of the raw estimate of each category (2020 paper, Eq. 5).

        Parameters
        ----------
        frequencies : array-like of shape (d,) or (n_estimates, d)
            True frequencies.

        Returns
        -------
        ndarray of shape (d,) or (n_estimates, d)
            The variance of each category's estimate.
        """
        n_samples = np.asarray(self.n_samples, dtype=float)[..., None]
        frequencies = np.asarray(frequencies, dtype=np.float64)
        return (self.null_variance + frequencies * self.slope) / n_samples

    def _covariance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        _refuse_sums(rows)
        if len(np.unique(rows.indices)) > 1:
            _refuse("the errors of several categories")
        weights = rows.sum(axis=1)
        return np.outer(weights, weights) * self.variance(frequencies)[rows.indices[:1]].sum()

    def _answer_variance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        _refuse_sums(rows)
        return rows.power(2) @ self.variance(frequencies)


class OfMechanism(Noise):
    """Covariances that a mechanism gives for one user."""

    channel: Any

    def _covariance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self.channel.answer_covariance(rows, frequencies) / self.n_samples

    def _answer_variance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self.channel.answer_variances(rows, frequencies) / self.n_samples

    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        return self.channel.covariance_product(vector, frequencies) / self.n_samples

    def variance(self, frequencies: ArrayLike) -> np.ndarray:
        n_samples = np.asarray(self.n_samples, dtype=float)[..., None]
        return self.channel.variances(np.asarray(frequencies, dtype=np.float64)) / n_samples


@dataclass(frozen=True, eq=False)
class ChannelNoise(OfMechanism, NoiseModel):
    """The noise of a pure oracle's own estimates; it knows the mechanism behind p and q.

    Parameters
    ----------
    p, q : float
        Probabilities that a report supports the user's own category, and a given other category.
    n_samples : int or ndarray of shape (n_estimates,)
        Number of users behind each estimate.
    channel : Channel
        The mechanism; the variances and covariances that it gives are those of one user.
    """

    channel: Any

    def __repr__(self) -> str:
        return f"NoiseModel(p={self.p!r}, q={self.q!r}, n_samples={self.n_samples!r})"

    @property
    def null_variance(self) -> float:
        """Variance of the estimate of a category that nobody has, multiplied by n."""
        return self.channel.null_variance

    @property
    def slope(self) -> float:
        """How much n times the variance of a category grows with its frequency."""
        return self.channel.slope


@dataclass(frozen=True)
class ConstantNoise(Noise):
    """Noise of which nothing but its level is known, and which is the same at all frequencies.

    Parameters
    ----------
    std : float
        Standard deviation of the estimate of any category.
    """

    std: float
    n_samples = None
    growth = 0.0

    def variance(self, frequencies: ArrayLike) -> np.ndarray:
        return np.full(np.shape(frequencies), np.square(self.std))

    def _covariance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        raise ValueError(
            "A noise level does not tell how the errors of several categories go together. Ask the "
            "noise of the oracle's own estimate (oracle.noise_, estimate.noise)."
        )


@dataclass(frozen=True, eq=False)
class CombinedNoise(Noise):
    """The noise of a weighted mean of independent estimates, of different users.

    Parameters
    ----------
    noises : tuple of Noise
        Those of the estimates.
    weights : ndarray of shape (n_noises,) or (n_noises, n_estimates)
        Their weights, which sum to 1.
    """

    noises: tuple[Any, ...]
    weights: np.ndarray

    def _sum(self, of_one: Callable[[Any], Any]) -> Any:
        both = zip(self.weights, self.noises, strict=True)
        return sum(weight**2 * of_one(noise) for weight, noise in both)

    @property
    def n_samples(self) -> Any:
        """Number of users who reported, in all collections."""
        return sum(np.asarray(noise.n_samples) for noise in self.noises)

    @property
    def n_users(self) -> Any:
        """Number of users whose mean differs as much from the population as the weighted one."""
        return 1 / self._sum(lambda noise: 1 / np.asarray(noise.n_users, dtype=float))

    @property
    def std(self) -> Any:
        """Standard deviation of the estimate of a category that nobody has."""
        return np.sqrt(self._sum(lambda noise: np.square(noise.std)))

    @property
    def growth(self) -> Any:
        """How much the variance of a category's estimate grows with its frequency."""
        return self._sum(lambda noise: np.asarray(noise.growth))

    @property
    def curvature(self) -> Any:
        """How much the variance of a category falls with the square of its frequency."""
        return self._sum(lambda noise: np.asarray(noise.curvature))

    @property
    def null_variance(self) -> float:
        """The square of `std`, times the number of users."""
        return float(np.mean(np.square(self.std) * self.n_samples))

    @property
    def slope(self) -> float:
        """`growth`, times the number of users."""
        return float(np.mean(self.growth * self.n_samples))

    @property
    def half_count(self) -> Any:
        """Half the finest of the grids."""
        both = zip(self.weights, self.noises, strict=True)
        return np.min([weight * noise.half_count for weight, noise in both], axis=0)

    def variance(self, frequencies: ArrayLike) -> np.ndarray:
        both = zip(self.weights, self.noises, strict=True)
        return sum(np.square(weight)[..., None] * one.variance(frequencies) for weight, one in both)

    def _covariance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self._sum(lambda noise: noise._covariance(rows, frequencies))

    def _answer_variance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self._sum(lambda noise: noise._answer_variance(rows, frequencies))

    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        return self._sum(lambda noise: noise.covariance_product(vector, frequencies))

    def of_rows(self, rows: Rows) -> CombinedNoise:
        weights: Any = self.weights if self.weights.ndim == 1 else self.weights[:, np.asarray(rows)]
        return CombinedNoise(tuple(noise.of_rows(rows) for noise in self.noises), weights)


def variances_after_norm(
    noise: Noise, rows: sparse.csr_array, frequencies: np.ndarray
) -> np.ndarray:
    """Return the variances of linear answers of a raw estimate whose sum was made 1 by Norm.

    Parameters
    ----------
    noise : Noise
        The noise of a single estimate; without covariances, errors are taken as independent.
    rows : csr_array of shape (n_queries, d)
        The queries.
    frequencies : ndarray of shape (d,)
        True frequencies of all categories.

    Returns
    -------
    ndarray of shape (n_queries,)
        The variances.
    """
    try:
        of_sum = noise.covariance_product(np.ones(len(frequencies)), frequencies)
        variances = np.ravel(noise.answer_variance(rows, frequencies))
    except ValueError:
        of_sum = np.ravel(noise.variance(frequencies))
        variances = rows.power(2) @ of_sum
    # Norm takes from each answer its share of the error of the sum.
    shares = rows.sum(axis=1) / len(frequencies)
    result = variances - 2 * shares * (rows @ of_sum) + shares**2 * of_sum.sum()
    return np.maximum(result, 0)


def as_rows(matrix: Matrix, n_categories: int | None = None) -> sparse.csr_array:
    """Return queries as a sparse matrix without explicit zeros or repeated entries.

    Parameters
    ----------
    matrix : (sparse) matrix of shape (n_queries, d)
        One row per query.
    n_categories : int, default=None
        The expected d; None accepts any.

    Returns
    -------
    csr_array of shape (n_queries, d)
        A copy.

    Raises
    ------
    ValueError
        If `matrix` does not have two dimensions and the expected number of columns.
    """
    given: Any = matrix
    rows = sparse.csr_array(given if sparse.issparse(given) else np.atleast_2d(given))
    rows = rows.astype(np.float64, copy=True)
    if rows.ndim != 2 or n_categories not in (None, rows.shape[1]):
        raise ValueError(
            f"Linear answers need a matrix of shape (n_queries, {n_categories or 'd'}), got an "
            f"array of shape {rows.shape}."
        )
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


def _refuse_sums(rows: sparse.csr_array) -> None:
    if np.any(np.diff(rows.indptr) > 1):
        _refuse("answers that add up several categories")


def _refuse(what: str) -> None:
    raise ValueError(
        f"Noise known only by p, q and n_samples does not tell the covariance of {what}, which "
        "depends on the mechanism. Use the noise of the oracle's own estimate (oracle.noise_, "
        "estimate.noise), or oracle.channel(n_categories).noise(n_samples)."
    )


# -- derived from another noise: of a sample, in another order, or more of it ----------------------
def _same(name: str, doc: str) -> Any:
    """A property that the other noise answers."""
    return property(attrgetter(f"noise.{name}"), doc=doc)


@dataclass(frozen=True, eq=False)
class _DerivedNoise(Noise):
    """Another noise, of which everything stays as it is that a subclass does not change."""

    noise: Any

    n_samples = _same("n_samples", "Number of users who reported.")
    n_users = _same("n_users", "Number of users whose frequencies the estimate is of.")
    std = _same("std", "Standard deviation of the estimate of a category that nobody has.")
    growth = _same("growth", "How much the variance of a category grows with its frequency.")
    curvature = _same("curvature", "How much it falls with the square of the frequency.")
    null_variance = _same("null_variance", "The square of `std`, times those who reported.")
    slope = _same("slope", "`growth`, times those who reported.")
    half_count = _same("half_count", "How much half a report adds to an estimate.")
    support_law = _same("support_law", "The p and q of reports that support categories, or None.")


@dataclass(frozen=True, eq=False)
class SampledNoise(_DerivedNoise):
    """The noise of an estimate that was made from a random part of the users, about all of them.

    A part of `m` users drawn at random, without replacement, from `n` users has frequencies that
    differ from those of all users, with the covariance matrix

    .. math:: \\Big(\\frac 1m - \\frac 1n\\Big) \\frac{n}{n - 1} (\\mathrm{diag}(f) - f f^T),

    which is added to that of the reports. The covariance of the reports is linear in the
    frequencies of those asked, so its mean over the parts that could have been drawn is its value
    at the frequencies of all users. With :math:`m = n \\pi` the added variance of a category is
    :math:`f (1 - f) (1 / \\pi - 1) / n`, up to a factor :math:`n / (n - 1)`.

    Parameters
    ----------
    noise : Noise
        The noise of the reports of those who were asked.
    total : int or ndarray of shape (n_estimates,)
        Number n of all users, of whom those were drawn.

    References
    ----------
    .. [1] W. G. Cochran, "Sampling techniques", third edition, Wiley 1977, theorem 2.2.
    """

    total: Any

    def __repr__(self) -> str:
        return f"SampledNoise({self.noise!r}, total={self.total!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SampledNoise):
            return NotImplemented
        return self.noise == other.noise and np.array_equal(self.total, other.total)

    def __hash__(self) -> int:
        return hash((self.noise, np.asarray(self.total).tobytes()))

    @property
    def curvature(self) -> Any:
        """How much the variance of a category falls with the square of its frequency."""
        m, n = np.asarray(self.n_samples, dtype=float), np.asarray(self.n_users, dtype=float)
        return (n - m) / (m * np.maximum(n - 1, 1))

    def variance(self, frequencies: ArrayLike) -> np.ndarray:
        f = np.asarray(frequencies, dtype=np.float64)
        return self.noise.variance(f) + self.curvature[..., None] * f * (1 - f)

    def _covariance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        means = rows @ frequencies
        products = (rows.multiply(frequencies) @ rows.T).toarray()
        sampled = self.curvature * (products - np.outer(means, means))
        return self.noise._covariance(rows, frequencies) + sampled

    def _answer_variance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        squares = rows.power(2) @ frequencies - (rows @ frequencies) ** 2
        return self.noise._answer_variance(rows, frequencies) + self.curvature * squares

    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        f = frequencies
        sampled = self.curvature * f * (vector - f @ vector)
        return self.noise.covariance_product(vector, f) + sampled

    def of_rows(self, rows: Rows) -> SampledNoise:
        total: Any = np.asarray(self.total)
        return SampledNoise(self.noise.of_rows(rows), total[rows] if total.ndim else self.total)

    def drawn_users(
        self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator
    ) -> np.ndarray:
        return rng.multivariate_hypergeometric(
            counts, int(self.n_samples), size=n_repeats, method="marginals"
        )

    @property
    def n_users(self) -> Any:
        """Number of users whose frequencies the estimate is of."""
        return self.total

    @property
    def growth(self) -> Any:
        """How much the variance of a category grows with its frequency, where that is small."""
        return self.noise.growth + self.curvature

    @property
    def slope(self) -> Any:
        """How much the variance, times those asked, grows with a small frequency."""
        # Nearly the same for all estimates, as it depends on the share of users asked alone.
        return self.noise.slope + float(np.mean(np.asarray(self.n_samples) * self.curvature))


@dataclass(frozen=True, eq=False)
class ReorderedNoise(_DerivedNoise):
    """The noise of an estimate whose categories stand in another order, such as a transposed table.

    Parameters
    ----------
    noise : Noise
        The noise in the order that the collection knows.
    order : ndarray of int of shape (d,)
        The position there of each category.
    """

    order: np.ndarray

    def __repr__(self) -> str:
        return repr(self.noise)

    def _back(self, vector: np.ndarray) -> np.ndarray:
        """Put numbers of the categories, along the last axis, into the collection's order."""
        known = np.empty_like(vector)
        known[..., self.order] = vector
        return known

    def _rows_back(self, rows: sparse.csr_array) -> sparse.csr_array:
        known = rows.tocoo()
        places = (known.row, self.order[known.col])
        return sparse.csr_array((known.data, places), shape=rows.shape)

    def variance(self, frequencies: ArrayLike) -> np.ndarray:
        known = self._back(np.asarray(frequencies, dtype=float))
        return self.noise.variance(known)[..., self.order]

    def _covariance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self.noise._covariance(self._rows_back(rows), self._back(frequencies))

    def _answer_variance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self.noise._answer_variance(self._rows_back(rows), self._back(frequencies))

    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        known = self.noise.covariance_product(self._back(vector), self._back(frequencies))
        return known[self.order]

    def drawn_users(
        self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator
    ) -> np.ndarray:
        return self.noise.drawn_users(self._back(counts), n_repeats, rng)[:, self.order]

    def of_rows(self, rows: Rows) -> ReorderedNoise:
        return ReorderedNoise(self.noise.of_rows(rows), self.order)


@dataclass(frozen=True)
class ScaledNoise(_DerivedNoise):
    """Another noise with all covariances multiplied by a factor.

    Parameters
    ----------
    noise : Noise
        The other one.
    factor : float
        The factor.
    """

    factor: float

    # It is no longer that of reports, so it says what any noise says.
    n_users, half_count, support_law = Noise.n_users, Noise.half_count, Noise.support_law

    def __repr__(self) -> str:
        return repr(self.noise)  # errors name what was given

    @property
    def n_samples(self) -> Any:
        """Number of users; None if unknown."""
        n_samples = self.noise.n_samples
        return None if n_samples is None else np.asarray(n_samples) / self.factor

    @property
    def std(self) -> Any:
        """Standard deviation of the estimate of a category that nobody has."""
        return np.sqrt(self.factor) * np.asarray(self.noise.std)

    @property
    def growth(self) -> Any:
        """How much the variance of a category's estimate grows with its frequency."""
        return self.factor * np.asarray(self.noise.growth)

    @property
    def curvature(self) -> Any:
        """How much the variance of a category falls with the square of its frequency."""
        return self.factor * np.asarray(self.noise.curvature)

    def variance(self, frequencies: ArrayLike) -> np.ndarray:
        """Return the variances of the other noise, times the factor."""
        return self.factor * self.noise.variance(frequencies)

    def _covariance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self.factor * self.noise._covariance(rows, frequencies)

    def _answer_variance(self, rows: sparse.csr_array, frequencies: np.ndarray) -> np.ndarray:
        return self.factor * self.noise._answer_variance(rows, frequencies)

    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        """Return the product of the other noise, times the factor."""
        return self.factor * self.noise.covariance_product(vector, frequencies)

    def of_rows(self, rows: Rows) -> Noise:
        """Return the noise of some of the estimates."""
        return ScaledNoise(self.noise.of_rows(rows), self.factor)
