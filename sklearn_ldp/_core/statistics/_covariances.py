"""Covariances of raw estimates, about the users themselves or about their population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from scipy import sparse
from scipy.special import ndtr, ndtri

from ..common.locks import cached_property
from ..noise import AddedNoise, Covariances, Noise, Term, as_rows, every_category
from ._statements import check_of


@runtime_checkable
class Estimate(Protocol):
    """The part of a FrequencyEstimate that statements and displays read."""

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
    """The distribution of the number of reports that support each category."""

    n: int  # number of users
    p: np.ndarray  # (d,): probability that a report supports the user's own category
    q: np.ndarray  # (d,): probability that a report supports the category of other users
    is_sampled: bool  # whether the statement is about the population of the users


@dataclass(frozen=True, eq=False)
class EstimateCovariances:
    """Covariances of one raw estimate about the frequencies that a statement is about."""

    noise: Noise  # the noise of a single estimate
    of: str  # "users", or "population" if the users are a random sample
    # (d,): the distribution at which the covariances are evaluated.
    frequencies: np.ndarray

    @property
    def is_of_counts(self) -> bool:
        """Whether noise of a known distribution was added to counts."""
        return bool(self._added)

    @cached_property
    def _noise_of_statement(self) -> Noise:
        """The noise, with the sampling of the users if the statement is about a population."""
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
        """The continuity correction: half a report on the scale of estimates; 0 without a grid."""
        return float(np.ravel(self.noise.half_count)[0])

    @property
    def binomial(self) -> Noise | None:
        """The p and q of reports that support categories; None for other reports."""
        law = self.noise.support_law  # q is 0 where supports are signed
        return law if law is not None and law.q > 0 else None

    @cached_property
    def counts(self) -> SupportCounts | None:
        """The distribution of the counts of an estimate with exact intervals; None otherwise.

        Such an estimate comes from one collection by a matrix. Its counts may have a larger
        skewness than score intervals account for.
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
        """Whether the statement is about a larger group, with the users as a random sample."""
        return bool(np.any(self._noise_of_statement.curvature))

    def support_counts(self, values: np.ndarray) -> np.ndarray:
        """Return the number of reports that support each category (only with a `binomial`)."""
        law = self.binomial
        n = self.n_samples
        assert law is not None
        return np.clip(np.rint(n * (law.q + (law.p - law.q) * values)), 0, n)

    def minus(self, other: EstimateCovariances) -> EstimateCovariances:
        """Return the covariances of the difference to an independent estimate."""
        noises = [
            covariances._noise_of_statement.given(covariances.frequencies)
            for covariances in (self, other)
        ]
        return EstimateCovariances(Noise.combined(noises, (1, -1)), "users", self.frequencies)

    def quadratic(self) -> tuple[np.ndarray, float, float]:
        """Return A, b, c such that the variance of a category is ``A + b f - c f**2``."""
        # A is the same number for all categories of a pure oracle. If A also depends on other
        # categories, it is evaluated at the frequencies of this object.
        f = self.frequencies
        noise = self._noise_of_statement
        growth, curvature = (float(np.ravel(x)[0]) for x in (noise.growth, noise.curvature))
        return self.variances() - growth * f + curvature * f**2, growth, curvature

    def variances(self) -> np.ndarray:
        """Return the variance of each category, of shape (d,)."""
        return self._noise_of_statement.variance(self.frequencies)

    def answer_variances(self, rows: sparse.csr_array) -> np.ndarray:
        """Return the variances of linear answers, of shape (n_queries,)."""
        return np.maximum(self._errors.variances(rows), 0)

    def covariance(self, rows: sparse.csr_array) -> np.ndarray:
        """Return the covariances of linear answers, of shape (n_queries, n_queries)."""
        return self._errors.matrix(rows)

    def product(self, vector: np.ndarray) -> np.ndarray:
        """Return the covariance matrix of all categories times a vector, of shape (d,)."""
        return self._errors.product(vector)

    # -- noise that is not normal -----------------------------------------------------------------
    @cached_property
    def _added(self) -> list[Term]:
        """The terms of noise of a known distribution that was added to counts."""
        return [term for term in self._noise_of_statement.terms if isinstance(term.law, AddedNoise)]

    def _only_added(self) -> Term | None:
        """Return the term of independent added noise if there is no other error."""
        terms = self._noise_of_statement.terms
        term = terms[0] if len(terms) == 1 and self._added else None
        return term if term is not None and term.law.is_independent else None

    def _excess_kurtosis(self, rows: sparse.csr_array | None) -> Any:
        """Return the excess kurtosis of the errors of answers, or of categories."""
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
        """Return critical values of errors with the same tail probability as a normal one.

        Shapes: rows (n_queries, d) -> (n_queries,), or (d,) without rows.
        normal: critical value of a normal error in standard deviations, above 0.
        Returns: critical values in standard deviations. They are exact for single counts with added
        noise. For other answers they use the expansion of Cornish and Fisher up to the fourth
        cumulant, because all these errors are symmetric.
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
        """Return normal statistics with the same tail probabilities as these statistics.

        Shapes: statistics (d,) -> (d,).
        statistics: absolute errors in standard deviations.
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
    """Return values of the categories in the order of the estimate, from the order of a term."""
    return values if term.order is None else values[term.order]


def _expansion(normal: Any, kurtosis: Any) -> Any:
    """Return critical values of symmetric errors by the expansion of Cornish and Fisher."""
    return normal + kurtosis * (normal**3 - 3 * normal) / 24


def refuse_without_law(estimate: Estimate, statement: str, other: str = "") -> None:
    """Raise ValueError unless an estimate is raw and its noise is known."""
    if len(estimate) == 0:
        raise ValueError(
            f"No {statement} without users, because no user was asked about these categories. "
            "Collect reports first."
        )
    if not estimate.is_raw:
        raise ValueError(
            f"No {statement} after {' and '.join(estimate.postprocessors)}, because "
            "post-processing biases the estimate. Use the raw estimate that the oracle returned "
            f"(oracle.estimate_){other}."
        )
    if estimate.noise is None:
        raise ValueError(
            f"No {statement} without a noise model. Create the estimate with "
            "noise=NoiseModel(p, q, n_samples)."
        )


def refuse_unknown_tails(noise: Noise | None, statements: str) -> None:
    """Raise ValueError if only the standard deviation of the noise is known."""
    if noise is not None and noise.presumes_normal:
        raise ValueError(
            f"There are no {statements} without the distribution of the noise, and only its "
            f"standard deviation is known, {np.ravel(noise.std)[0]:.3g}. Use "
            "confidence_interval(level), which presumes normal noise, for each category alone."
        )


def refuse_sums(estimate: Estimate, matrix: Any, queries: str) -> None:
    """Raise ValueError if queries add up shares that overlap."""
    if estimate.shares_overlap and np.any(np.diff(as_rows(matrix).indptr) > 1):
        raise ValueError(
            f"{queries} would add up shares that overlap, because a user may have several "
            "categories. Query single categories, or collect groups of categories as categories."
        )


def covariances_of_rows(
    estimate: Estimate, of: str, statement: str, other: str = ""
) -> list[tuple[np.ndarray, EstimateCovariances]]:
    """Return the values of each row of a raw estimate, and their covariances at these values.

    Shapes: -> (d,).
    Returns one pair for each row. The covariances are evaluated at `frequencies_behind` the values.
    """
    check_of(of)
    refuse_without_law(estimate, statement, other)
    noise: Any = estimate.noise
    rows = enumerate(estimate.values)
    return [(row, covariances(row, noise.of_rows(i), of)) for i, row in rows]


def covariances(values: np.ndarray, noise: Noise, of: str) -> EstimateCovariances:
    """Return the covariances of a single raw estimate, at a plausible true distribution."""
    return EstimateCovariances(noise, of, noise.frequencies_behind(values))
