"""Covariances of answers to linear queries, computed without the matrix of all categories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..common.locks import cached_property
from ..common.tags import TAGGED
from ..common.typing import Matrix

_CELLS = 1 << 21  # numbers that are processed at a time


# The factors of a covariance matrix diag(D) + B W B' of all categories:
# - D, of shape (d,);
# - a function that returns B' times a vector of shape (d,), or times each row of a (sparse) matrix
#   of shape (n, d);
# - a function that returns B times a vector of shape (k,);
# - W, of shape (k, k), or its diagonal, of shape (k,).
Factors = tuple[np.ndarray, Callable[[Any], np.ndarray], Callable[[Any], np.ndarray], np.ndarray]


class Covariance:
    """n times the covariance matrix of an estimate F from n users, in the form diag(D) + B W B'.

    From it, the covariances of linear answers a'F are computed. D is a vector; B and W are
    matrices.
    """

    # The users' categories are fixed, with frequencies f, so only the reports are random. Every
    # mechanism with an exact covariance has this form.
    # - **A distribution of reports.** A report with the value r adds the r-th number of B'a to n
    #   times an answer. For a user of category x the mean of this number is ``a_x``, because the
    #   estimate is unbiased. So with the probabilities P of the values
    #   ``n Cov(a'F, c'F) = (B'a)' diag(P f) (B'c) - a' diag(f) c``.
    # - **Joint support.** For two categories v, w and a user of category x let ``r(x)`` be the
    #   probability that a report supports both: `own` if x is v or w, `other` if not. Then
    #   ``n (p - q)**2 Cov_vw = sum over x of f_x (r(x) - Pr[v | x] Pr[w | x])
    #   = alpha + beta (f_v + f_w)`` with ``alpha = other - q**2`` and
    #   ``beta = own - other - q (p - q)``: of rank two, with the columns 1 and f in B.
    # - **A draw of users** from a distribution f: ``diag(f) - f f'``.
    # law: its method `variances(frequencies)` returns the variance of each category. This may be
    # available even if the covariances are unknown.
    # frequencies (d,): frequencies among the users.
    # factors: a function of `frequencies` that returns the `Factors`. It is only called when they
    # are needed, and raises ValueError if they are unknown.

    def __init__(
        self, law: Any, frequencies: np.ndarray, factors: Callable[[np.ndarray], Factors]
    ) -> None:
        self.law: Any = law
        self.frequencies: np.ndarray = frequencies
        self._make = factors

    @cached_property
    def _single(self) -> np.ndarray:
        return self.law.variances(self.frequencies)

    @cached_property
    def _factors(self) -> Factors:
        return self._make(self.frequencies)

    def variances(self, rows: Any = None) -> np.ndarray:
        """Return the variance of the answer to each query, times the number n of users.

        Shapes: rows (n_queries, d) -> (n_queries,) or (d,).
        rows: one query per row. If None, the queries are the frequencies of the single categories.
        """
        if rows is None:
            return self._single
        if not sparse.issparse(rows):
            return self._sums(rows)
        several = np.flatnonzero(np.diff(rows.indptr) > 1)
        if several.size and several.size == rows.shape[0]:
            return self._sums(rows)
        result = rows.power(2) @ self._single
        if several.size:
            result[several] = self._sums(rows[several])
        return result

    def _sums(self, rows: Any) -> np.ndarray:
        """Return n times the variance of each answer. The queries may combine several categories.

        Shapes: rows (n_queries, d) -> (n_queries,).
        """
        diagonal, spread, _, weights = self._factors
        result = (rows.power(2) if sparse.issparse(rows) else rows**2) @ diagonal
        # A few rows at a time are as fast as many, and the result of `spread` may be large.
        for block in _blocks(rows.shape[0], _CELLS // 8 // max(len(weights), 1)):
            x = spread(rows[block])
            result[block] += np.einsum("ij,ij->i", _weighted(x, weights), x)
        return result

    def matrix(self, rows: Any) -> np.ndarray:
        """Return the covariance of each pair of answers, times the number n of users.

        Shapes: rows (n_queries, d), one query per row -> (n_queries, n_queries).
        """
        if sparse.issparse(rows) and (rows.nnz == 0 or np.ptp(rows.indices) == 0):
            sums = rows.sum(axis=1)  # answers about one category only need its variance
            return np.outer(sums, sums) * self._single[rows.indices[:1]].sum()
        diagonal, spread, _, weights = self._factors
        if sparse.issparse(rows):
            result = (rows.multiply(diagonal) @ rows.T).toarray()
        else:
            result = (rows * diagonal) @ rows.T
        blocks = list(_blocks(rows.shape[0], 8 * _CELLS // max(len(weights), 1)))
        for i, block in enumerate(blocks):
            x = spread(rows[block])
            weighted = _weighted(x, weights)
            for other in blocks[: i + 1]:
                products = weighted @ (x if other is block else spread(rows[other])).T
                result[block, other] += products
                if other is not block:
                    result[other, block] += products.T
        return result

    def product(self, vector: np.ndarray) -> np.ndarray:
        """Multiply n times the covariance matrix of all categories by a vector.

        Shapes: vector (d,) -> (d,).
        """
        diagonal, spread, gather, weights = self._factors
        return diagonal * vector + gather(_weighted(spread(vector), weights))


def _weighted(spread: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Multiply the result of the function `spread` by the matrix W, given in full or by its
    diagonal."""
    return spread * weights if weights.ndim == 1 else spread @ weights


class Covariances:
    """A weighted sum of covariances, which are objects of class `Covariance`.

    If there is a view, it first transforms the queries into queries for each of these objects.
    """

    # summands: pairs of a factor, which may be negative, and a covariance.
    # view: its method `pull` transforms answers, of shape (n_queries, d) or (d,), into answers to
    # the estimates of the summands, with an array for each summand in turn; `push` is the
    # transpose, from a vector for each summand to a vector of shape (d,). If None, no change.
    # single: a function that returns the variance of each category, if there is a faster way than
    # for general answers.

    def __init__(
        self,
        summands: Sequence[tuple[float, Any]],
        view: Any = None,
        single: Callable[[], np.ndarray] | None = None,
    ) -> None:
        self._summands = summands
        self._view = view
        self._single = single

    def _pulled(self, rows: Any) -> Iterable[Any]:
        return [rows] * len(self._summands) if self._view is None else self._view.pull(rows)

    def _sum(self, ask: str, rows: Any) -> Any:
        terms = zip(self._summands, self._pulled(rows), strict=True)
        return sum(factor * getattr(summand, ask)(x) for (factor, summand), x in terms)

    def variances(self, rows: Any = None) -> np.ndarray:
        """Return the variance of each answer. The arguments are as for
        :meth:`Covariance.variances`."""
        if rows is None and self._single is not None:
            return self._single()
        if self._view is None:
            return self._sum("variances", rows)
        if rows.shape[0] == 0:
            return np.zeros(0)
        # A view may turn sparse rows into dense rows.
        blocks = _blocks(rows.shape[0], 2 * _CELLS // rows.shape[1])
        return np.concatenate([self._sum("variances", rows[block]) for block in blocks])

    def matrix(self, rows: Any) -> np.ndarray:
        """Return the covariance of each pair of answers. The arguments are as for
        :meth:`Covariance.matrix`."""
        return self._sum("matrix", rows)

    def product(self, vector: np.ndarray) -> np.ndarray:
        """Multiply the covariance matrix of all categories by a vector, as
        :meth:`Covariance.product` does."""
        if self._view is None:
            return self._sum("product", vector)
        terms = zip(self._summands, self._pulled(vector), strict=True)
        return self._view.push([factor * summand.product(x) for (factor, summand), x in terms])


def of_columns(diagonal: np.ndarray, columns: np.ndarray, weights: np.ndarray) -> Factors:
    """Return the `Factors` of the covariance matrix diag(D) + B W B', given D, B and W as arrays.

    Shapes: diagonal D (d,), columns B (d, k), weights W (k, k) or its diagonal (k,).
    """
    return diagonal, lambda rows: rows @ columns, lambda x: columns @ x, weights


def _blocks(n_rows: int, width: int) -> Iterator[slice]:
    width = max(width, 1)
    return (slice(start, start + width) for start in range(0, n_rows, width))


class CategoryLaw(NamedTuple):
    """n times the variance of a category's estimate, as a quadratic function of its true frequency
    f.

    It is ``null_variance + slope * f - curvature * f**2``, where n is the number of users.
    """

    # Here f is the frequency of the category. The covariance of several categories is known if
    # there are factors.

    null_variance: float  # null_variance, slope, curvature: A, b and c
    slope: float = 0.0
    curvature: float = 0.0
    # The change of an estimate from one user by half a report; 0 if it is unknown.
    half_count: float = 0.0
    factors: Callable[[np.ndarray], Factors] | None = None  # as for `Covariance`
    shares_overlap: bool = False  # whether a user may be in several categories

    def __reduce__(self) -> Any:
        # The only instance with a function is MULTINOMIAL: copies are the same object, and files
        # store its name.
        return "MULTINOMIAL" if self.factors is not None else (type(self), tuple(self))

    def variances(self, frequencies: np.ndarray) -> np.ndarray:
        """Return n times the variance of each category's estimate, for given true frequencies."""
        return self.null_variance + frequencies * (self.slope - self.curvature * frequencies)

    def covariance(self, frequencies: np.ndarray) -> Covariance:
        """Return n times the covariance of answers to queries, for given true frequencies."""
        return Covariance(self, frequencies, self.factors or _refuse)


def support_law(p: float, q: float) -> CategoryLaw:
    """Return n times the variances of estimates from n users, given the probabilities p and q.

    A report supports (counts in favor of) the user's own category with probability p, and each
    other category with probability q. The formula is Eq. 5 of T. Wang et al., "Locally
    differentially private frequency estimation with consistency", NDSS 2020.
    """
    if not 0 <= q < p <= 1:
        raise ValueError(
            f"NoiseModel needs 0 <= q < p <= 1, got p={p}, q={q}. Pass as p the probability that a "
            "report supports the user's own category, and as q the probability that it supports "
            "another category."
        )
    null_variance, slope = q * (1 - q) / (p - q) ** 2, (1 - p - q) / (p - q)
    return CategoryLaw(null_variance, slope, half_count=0.5 / (p - q))


def _refuse(frequencies: np.ndarray) -> Factors:
    raise ValueError(
        "This noise was created from a standard error, or from p, q and n_samples. These numbers "
        "do not determine the covariance of several categories, which depends on the mechanism. "
        "Use the noise of an oracle or of its estimate (oracle.noise_, estimate.noise), or "
        "oracle.channel(n_categories).noise(n_samples)."
    )


def _drawn_user(frequencies: np.ndarray) -> Factors:
    return of_columns(frequencies, frequencies[:, None], np.array([-1.0]))


#: The frequencies of one user who is drawn at random.
MULTINOMIAL = CategoryLaw(0.0, 1.0, 1.0, factors=_drawn_user)
TAGGED |= {"category-law": CategoryLaw, "drawn-user": MULTINOMIAL}


def every_category(n_categories: int) -> sparse.csr_array:
    """Return the matrix of the queries for the frequencies of the single categories (an identity
    matrix)."""
    return as_rows(sparse.eye_array(n_categories, format="csr"))


def as_rows(matrix: Matrix, n_categories: int | None = None) -> sparse.csr_array:
    """Convert a matrix of queries to a sparse matrix without explicit zeros or repeated entries.

    Shapes: matrix (n_queries, d) -> (n_queries, d).
    n_categories: the required number d of columns. If None, any number is accepted.
    """
    queries: Any = matrix
    rows = sparse.csr_array(queries if sparse.issparse(queries) else np.atleast_2d(queries))
    rows = rows.astype(np.float64, copy=True)
    if rows.ndim != 2 or n_categories not in (None, rows.shape[1]):
        raise ValueError(
            f"Queries must be a matrix of shape (n_queries, {n_categories or 'd'}), got shape "
            f"{rows.shape}. Pass one row per query, with one weight per category."
        )
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows
