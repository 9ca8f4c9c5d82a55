"""Covariances of the errors of raw estimates, as estimates about the users or their population."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from scipy import sparse
from scipy.special import ndtr, ndtri

from ..common.locks import cached_property
from ..noise import AddedNoise, Covariances, Noise, Term, as_rows, every_category
from ._statements import check_of


@runtime_checkable
class Estimate(Protocol):
    """The attributes and methods of FrequencyEstimate that inference and displays use."""

    @property
    def values(self) -> Any: ...
    @property
    def categories(self) -> Any: ...
    @property
    def labels(self) -> Any: ...
    @property
    def domain(self) -> Any: ...
    @property
    def noise(self) -> Noise | None: ...
    @property
    def shares_overlap(self) -> bool: ...
    @property
    def sums_to_one(self) -> bool: ...
    @property
    def postprocessors(self) -> tuple[str, ...]: ...
    @property
    def is_raw(self) -> bool: ...
    @property
    def states_errors(self) -> bool: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    def __len__(self) -> int: ...
    def answer(self, queries: Any) -> Any: ...
    def as_raw(self) -> Any: ...
    def confidence_interval(
        self, level: float, queries: Any, *, simultaneous: bool = ..., coverage: str = ...
    ) -> Any: ...


class SupportCounts(NamedTuple):
    """Parameters of the distribution of support counts.

    The support count of a category is the number of reports that support this category. It is the
    sum of two binomial counts: from users with this category (p), and from all other users (q).
    """

    n: int  # number of users
    p: np.ndarray  # (d,): probability that a report supports the user's own category
    q: np.ndarray  # (d,): probability that a report supports the category of other users
    is_sampled: bool  # whether the statement is about the population of the users


@dataclass(frozen=True, eq=False)
class EstimateCovariances:
    """Covariances of the errors of one raw estimate.

    An error is the difference between the estimated frequency of a category and its true frequency,
    either among the users or in the population that the users are a random sample of (`of`).
    """

    noise: Noise  # the noise of a single estimate
    of: str  # "users", or "population" if the users are a random sample
    # (d,): the distribution at which the covariances are evaluated.
    frequencies: np.ndarray
    sums_to_one: bool = True  # whether each user has exactly one of the categories

    @property
    def is_of_counts(self) -> bool:
        """Whether the estimate comes from counts with added noise of a known distribution."""
        return bool(self._added)

    @cached_property
    def _noise_of_statement(self) -> Noise:
        """The noise of the estimate; if `of` is "population", plus the users' sampling error."""
        return self.noise if self.of == "users" else self.noise.of_population()

    @cached_property
    def _errors(self) -> Covariances:
        return self._noise_of_statement.at(self.frequencies)

    @cached_property
    def n_samples(self) -> float:
        """Number of users."""
        return float(np.ravel(self.noise.n_samples)[0])

    @cached_property
    def half_count(self) -> float:
        """The continuity correction of intervals: half the change of an estimate by one report.

        0 if estimates may have any value, instead of only values on a grid.
        """
        return float(np.ravel(self.noise.half_count)[0])

    @property
    def binomial(self) -> Noise | None:
        """The noise model with p and q, if support counts are binomial; otherwise None.

        p and q are the probabilities that a report supports the user's own category, and another
        one.
        """
        law = self.noise.support_law  # q is 0 where supports are signed
        return law if law is not None and law.q > 0 else None

    @cached_property
    def counts(self) -> SupportCounts | None:
        """The distribution of the support counts, for exact intervals; None if it is not available.

        It is available if the estimate comes from a single collection, and the mechanism has a
        known matrix of probabilities. The support counts of such mechanisms may be too skewed for
        score intervals.
        """
        noise = self.noise
        term, *draws = noise.terms
        n = float(np.ravel(np.asarray(term.users, dtype=float))[0])
        known: Any = getattr(term.law, "support_of_each", None)
        is_plain = (
            term.order is None
            and bool(np.all(np.asarray(term.weight) == 1))
            and noise.n_samples is not None
            and n == self.n_samples == round(n)
            and all(np.all(draw.times(1.0) == 1 / n) for draw in draws)
        )
        if not is_plain or known is None:
            return None
        return SupportCounts(int(n), known[0], known[1], self.of == "population" or bool(draws))

    @property
    def is_sampled(self) -> bool:
        """Whether the errors contain the sampling of the users from a larger group."""
        return bool(np.any(self._noise_of_statement.curvature))

    def support_counts(self, values: np.ndarray) -> np.ndarray:
        """Return, for each category, the number of reports that support it.

        The estimate determines these numbers. `binomial` must not be None.
        Shapes: values (d,) -> (d,).
        values: the raw estimate.
        """
        law = self.binomial
        n = self.n_samples
        assert law is not None
        return np.clip(np.rint(n * (law.q + (law.p - law.q) * values)), 0, n)

    def minus(self, other: EstimateCovariances) -> EstimateCovariances:
        """Return the covariances of the difference between this estimate and an independent one."""
        noises = [
            covariances._noise_of_statement.given(covariances.frequencies)
            for covariances in (self, other)
        ]
        return EstimateCovariances(Noise.combined(noises, (1, -1)), "users", self.frequencies)

    def quadratic(self) -> tuple[np.ndarray, float, float]:
        """Return A, b, c so that a category of frequency f has the variance ``A + b f - c f**2``.

        Shapes: -> A (d,), the numbers b and c.
        """
        # A is the same number for all categories of a pure oracle. If A also depends on other
        # categories, it is evaluated at the frequencies of this object.
        f = self.frequencies
        noise = self._noise_of_statement
        growth, curvature = (float(np.ravel(x)[0]) for x in (noise.growth, noise.curvature))
        return self.variances() - growth * f + curvature * f**2, growth, curvature

    def variances(self) -> np.ndarray:
        """Return the variance of the error of each category, of shape (d,)."""
        return self._noise_of_statement.variance(self.frequencies)

    def answer_variances(self, rows: sparse.csr_array) -> np.ndarray:
        """Return the variance of the error of the answer to each linear query.

        Shapes: rows (n_queries, d) -> (n_queries,).
        rows: the weights of the categories in each query.
        """
        return np.maximum(self._errors.variances(rows), 0)

    def covariance(self, rows: sparse.csr_array) -> np.ndarray:
        """Return the covariance matrix of the errors of the answers to linear queries.

        Shapes: rows (n_queries, d) -> (n_queries, n_queries).
        rows: the weights of the categories in each query.
        """
        return self._errors.matrix(rows)

    def product(self, vector: np.ndarray) -> np.ndarray:
        """Return the covariance matrix of the errors of all categories, multiplied by a vector.

        Shapes: vector (d,) -> (d,).
        """
        return self._errors.product(vector)

    # -- noise that is not normal -----------------------------------------------------------------
    @cached_property
    def _added(self) -> list[Term]:
        """The terms of the noise that are noise of a known distribution, added to counts."""
        return [term for term in self._noise_of_statement.terms if isinstance(term.law, AddedNoise)]

    def _only_added(self) -> Term | None:
        """Return the term of the added noise if it is independent and the only error, else None."""
        terms = self._noise_of_statement.terms
        term = terms[0] if len(terms) == 1 and self._added else None
        return term if term is not None and term.law.is_independent else None

    def _excess_kurtosis(self, rows: sparse.csr_array | None) -> Any:
        """Return the excess kurtosis of the error of each answer.

        Shapes: rows (n_queries, d) -> (n_queries,), or the number 0 if all errors are normal.
        rows: the weights of the categories in each query; if None, every category is a query.
        """
        if not any(np.any(term.law.excess_kurtosis) for term in self._added):
            return 0.0
        variances = self.variances() if rows is None else self.answer_variances(rows)
        if rows is None:
            rows = every_category(len(variances))
        fourth = np.zeros(len(variances))
        for term in self._added:
            law = term.law
            cumulants = _in_order(law.std**4 * law.excess_kurtosis, term)
            # An error of the total changes every proportion, so it adds to all weights.
            of_total = rows @ self.frequencies if law.is_normalized else np.zeros(len(variances))
            shift = np.repeat(of_total, np.diff(rows.indptr))
            powers = (rows.data - shift) ** 4 - shift**4
            weights = sparse.csr_array((powers, rows.indices, rows.indptr), shape=rows.shape)
            sums = weights @ cumulants + of_total**4 * cumulants.sum()
            fourth += float(np.ravel(term.times(1.0))[0]) ** 2 * sums
        return fourth / np.maximum(variances, np.finfo(float).tiny) ** 2

    def critical(self, normal: float, rows: sparse.csr_array | None = None) -> Any:
        """Return critical values of the errors from the critical value of a normal error.

        An error exceeds its critical value with the same probability as a normal error exceeds
        `normal`. All values are in standard deviations.
        Shapes: rows (n_queries, d) -> (n_queries,), or (d,) without rows.
        normal: the critical value of a normal error, above 0.
        rows: the weights of the categories in each query; if None, every category is a query.
        The critical values are exact for single counts with added noise. For other answers they use
        the expansion of Cornish and Fisher up to the fourth cumulant; odd cumulants are 0, because
        these errors are symmetric.
        """
        kurtosis = self._excess_kurtosis(rows)
        result = _expansion(normal, kurtosis)
        result = np.maximum(result, min(normal, 1.0) if np.any(kurtosis) else normal)
        term = self._only_added()
        if term is None:
            return result
        std = np.maximum(term.law.std, np.finfo(float).tiny)
        exact = _in_order(term.law.upper(float(ndtr(-normal))) / std, term)
        if rows is None:
            return exact
        single = np.flatnonzero(np.diff(rows.indptr) == 1)
        result = np.broadcast_to(result, rows.shape[:1]).copy()
        result[single] = exact[rows.indices[rows.indptr[single]]]
        return result

    def normal_statistics(self, statistics: np.ndarray) -> np.ndarray:
        """Convert test statistics to statistics of a normal error with the same tail probabilities.

        Shapes: statistics (d,) -> (d,).
        statistics: the absolute error of each category, in standard deviations.
        """
        if not self._added:
            return statistics
        term = self._only_added()
        if term is not None:
            own_order = np.empty_like(statistics)
            own_order[_in_order(np.arange(len(statistics)), term)] = statistics
            tails = _in_order(term.law.tails(own_order * term.law.std), term)
            return np.maximum(-ndtri(np.minimum(tails, 0.5)), 0)
        kurtosis = self._excess_kurtosis(None)
        # The expansion rises with the normal statistic, so interpolation inverts it.
        grid = np.linspace(0, 40, 4001)
        each = zip(statistics, np.broadcast_to(kurtosis, statistics.shape), strict=True)
        return np.array(
            [np.interp(x, np.maximum.accumulate(_expansion(grid, k)), grid) for x, k in each]
        )


def _in_order(values: np.ndarray, term: Term) -> np.ndarray:
    """Reorder values of the categories from the order of a noise term to the estimate's order."""
    return values if term.order is None else values[term.order]


def _expansion(normal: Any, kurtosis: Any) -> Any:
    """Return critical values of symmetric errors by the expansion of Cornish and Fisher.

    normal: the critical value of a normal error, in standard deviations.
    kurtosis: the excess kurtosis of the errors.
    """
    return normal + kurtosis * (normal**3 - 3 * normal) / 24


def refuse_without_law(estimate: Estimate, statement: str, other: str = "") -> None:
    """Raise ValueError if an estimate has no rows, is post-processed, or has no noise model.

    statement: the requested result, for the message. other: a second remedy for a post-processed
    estimate, with its conjunction.
    """
    if len(estimate) == 0:
        raise ValueError(
            f"No {statement} is available without users, because no user was asked about these "
            "categories. Collect reports about these categories first."
        )
    if not estimate.is_raw:
        raw = "the raw estimate of the oracle"
        if estimate.as_raw().is_raw:
            raw = "its raw estimate, estimate.as_raw()"
        raise ValueError(
            f"No {statement} is available after {' and '.join(estimate.postprocessors)}, because "
            f"post-processing biases the estimate. Use {raw}{other}."
        )
    if estimate.noise is None:
        raise ValueError(
            f"No {statement} is available without a noise model. Create the estimate with "
            "noise=NoiseModel(p, q, n_samples)."
        )


def refuse_unknown_tails(noise: Noise | None, statements: str) -> None:
    """Raise ValueError if only the standard deviation of the noise is known, not its distribution.

    statements: the requested results, for the message.
    """
    if noise is not None and noise.presumes_normal:
        raise ValueError(
            f"For {statements} the distribution of the noise must be known, but only its standard "
            f"deviation is known, {np.ravel(noise.std)[0]:.3g}. Use confidence_interval(level), "
            "which assumes normal noise and returns a separate interval for each category."
        )


def refuse_sums(estimate: Estimate, matrix: Any, queries: str) -> None:
    """Raise ValueError if a query adds up categories of which a user may have several.

    matrix: the queries as a (sparse) matrix. queries: their name, for the message.
    """
    if estimate.shares_overlap and np.any(np.diff(as_rows(matrix).indptr) > 1):
        raise ValueError(
            f"{queries} would count a user several times, because a user may have several of the "
            "categories that a query adds up. Query single categories, or run a collection in "
            "which each group of categories is one category."
        )


def covariances_of_rows(
    estimate: Estimate, of: str, statement: str, other: str = ""
) -> list[tuple[np.ndarray, EstimateCovariances]]:
    """Return, for each row of a raw estimate, its values and the covariances of its errors.

    of: "users" or "population", the group whose frequencies are estimated.
    statement: the requested result, for error messages. other: a further remedy for them.
    Returns: a list of pairs of values, of shape (d,), and covariances. The covariances depend on
    the true frequencies, so they are evaluated at plausible frequencies near the values.
    """
    check_of(of)
    refuse_without_law(estimate, statement, other)
    noise: Any = estimate.noise
    rows = enumerate(estimate.values)
    of_rows = [(row, covariances(row, noise.of_rows(i), of)) for i, row in rows]
    return [(row, replace(errors, sums_to_one=estimate.sums_to_one)) for row, errors in of_rows]


def covariances(values: np.ndarray, noise: Noise, of: str) -> EstimateCovariances:
    """Return the covariances of the errors of one row of a raw estimate.

    They depend on the true frequencies, so they are evaluated at plausible frequencies near the
    values.
    Shapes: values (d,).
    """
    return EstimateCovariances(noise, of, noise.frequencies_behind(values))
