"""Noise: what is known about the errors of an estimate, which are a sum of independent ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils._param_validation import Interval

from ..numerics.simplex import norm_sub
from ..support.tags import TAGGED, Tagged
from ..support.typing import Matrix, Rows
from ._covariance import MULTINOMIAL, CategoryLaw, Covariances, as_rows, support_law


class Term(NamedTuple):
    """One of the independent errors of an estimate: those of a law, times ``weight / users``."""

    # What is known of one user: `null_variance`, `slope`, `curvature` and `half_count`, the
    # variance of each category by `variances(frequencies)`, and all covariances by
    # `covariance(frequencies)`.
    law: Any
    weight: Any = 1.0  # weight, users: (n_estimates,): the factor, which may be negative
    users: Any = 1.0
    # (d,): the position of each category among those of the law, if these stand in another
    # order.
    order: np.ndarray | None = None
    # (d,) or (n_estimates, d): its own frequencies; None takes those that are asked about.
    frequencies: np.ndarray | None = None

    def __check_state__(self) -> None:
        frequencies = 0 if self.frequencies is None else self.frequencies
        are_finite = all(map(_is_finite, (self.weight, self.users, frequencies)))
        if not are_finite or not callable(self.law.variances) or np.any(self.users <= 0):
            raise ValueError("an error of no users, or without bound")
        order: Any = [] if self.order is None else self.order
        if not np.array_equal(np.sort(order), np.arange(len(order))):
            raise ValueError("an order that is no permutation")

    @property
    def is_draw(self) -> bool:
        """Whether the term is the error of sampling users."""
        return self.law == MULTINOMIAL

    def times(self, value: Any) -> Any:
        """Return a variance of one user, times the factor of each estimate."""
        return value / np.asarray(self.users, dtype=float) * self.weight

    def is_like(self, other: Term) -> bool:
        """Whether the term differs from another one in the factor at most."""
        fields = zip(self[3:], other[3:], strict=True)  # laws from pickles are copies
        return self.law == other.law and all(_is_same(one, another) for one, another in fields)

    def variances(self, frequencies: np.ndarray) -> np.ndarray:
        """Return the variance of each category, of the shape of the frequencies or (n, d)."""
        f = frequencies if self.frequencies is None else self.frequencies
        if self.order is None:
            variances = self.law.variances(f)
        else:
            variances = self.law.variances(_Reordered(self.order).back(f))[..., self.order]
        users = np.asarray(self.users, dtype=float)[..., None]
        return variances / users * np.asarray(self.weight)[..., None]

    def covariance(self, frequencies: np.ndarray) -> Any:
        """Return the covariance of one user, for a single estimate."""
        f = frequencies if self.frequencies is None else self.frequencies.reshape(-1)
        if self.order is None:
            return self.law.covariance(f)
        view = _Reordered(self.order)
        inner = self.law.covariance(view.back(f))
        return Covariances([(1.0, inner)], view, lambda: inner.variances()[self.order])

    def of_rows(self, rows: Rows) -> Term:
        """Return the term of the given estimates."""
        numbers = {name: _some(getattr(self, name), rows) for name in ("weight", "users")}
        return self._replace(**numbers, frequencies=_some(self.frequencies, rows, least=2))

    def permuted(self, order: np.ndarray) -> Term:
        """Return the term of an estimate whose categories stand in another order."""
        f = None if self.frequencies is None else self.frequencies[..., order]
        if not self.is_draw:
            order = order if self.order is None else self.order[order]
        return self._replace(order=None if self.is_draw else order, frequencies=f)


TAGGED["term"] = Term


class _Reordered(NamedTuple):
    """Answers to categories that stand in another order."""

    order: np.ndarray

    def back(self, vectors: np.ndarray) -> np.ndarray:
        """Put numbers of the categories, along the last axis, into the order of the law."""
        known = np.empty_like(vectors)
        known[..., self.order] = vectors
        return known

    def pull(self, rows: Any) -> list[Any]:
        if not sparse.issparse(rows):
            return [self.back(rows)]
        known = rows.tocoo()
        places = known.row, self.order[known.col]
        return [sparse.csr_array((known.data, places), shape=rows.shape)]

    def push(self, vectors: Sequence[np.ndarray]) -> np.ndarray:
        return vectors[0][self.order]


class Noise(Tagged, tag="noise"):
    """The errors of an estimate as a sum of terms, whatever made it."""

    # It answers one question: what is the covariance of the linear answers `matrix @ estimate`,
    # given the true frequencies? The errors are a sum of independent ones, its terms: those of
    # the reports, and those of a random choice of users. A collection of n users has the law of
    # its mechanism divided by n; drawing m of n users without replacement adds
    # .. math:: \Big(\frac 1m - \frac 1n\Big) \frac{n}{n - 1} (\mathrm{diag}(f) - f f^T)
    # to that of the m reports [1]_ (which is linear in the frequencies of those asked, so that
    # its mean over the draws is its value at the frequencies of all users), and users who are a
    # sample of a population add `(diag(f) - f f') / n`. The law of a weighted sum or of a
    # difference of independent estimates has the terms of all, times the squares of the
    # weights: for a difference of two tables, what is known of each (of one that was asked for as
    # it is, its mechanism; of one that combines several, `TableLaw` of the surveys) at its own
    # frequencies, and the two draws of users. Everything else is fixed: the users, unless it is
    # said that they were drawn.
    # [1] W. G. Cochran, "Sampling techniques", third edition, Wiley 1977, theorem 2.2.

    terms: tuple[Term, ...]  # the independent errors
    n_samples: Any  # (n_estimates,): number of users behind each estimate; None if unknown
    # (n_estimates,): number of users whose frequencies the estimate is of: more than were
    # asked, if these were drawn. None takes `n_samples`.
    n_users: Any
    # p, q: probabilities that a report supports the user's own category, and a given other one;
    # None if the estimate is not made of such reports.
    p: Any
    q: Any
    # (n_estimates,): laws whose `half_count`, divided by a number, are half the distance of
    # possible estimates.
    grids: tuple[tuple[Any, Any], ...]
    # Whether the variance of a category follows its own frequency, with the same growth for
    # all.
    has_slope: bool
    level: Any  # the standard deviation, if nothing else is known: its square may be no float
    # The errors of a draw of the users, which statements about a population add. None takes those
    # of `n_users` drawn at once; the groups of a weighted mean were drawn one by one.
    draws: tuple[Term, ...] | None = None

    def __init__(
        self,
        terms: Sequence[Term],
        n_samples: Any = None,
        *,
        n_users: Any = None,
        p: float | None = None,
        q: float | None = None,
        grids: Sequence[tuple[Any, Any]] = (),
        has_slope: bool = False,
        level: float | None = None,
        draws: Sequence[Term] | None = None,
    ) -> None:
        vars(self).update(
            terms=tuple(terms),
            n_samples=n_samples,
            n_users=n_samples if n_users is None else n_users,
            p=p,
            q=q,
            grids=tuple(grids),
            has_slope=has_slope,
            level=level,
            draws=None if draws is None else tuple(draws),
        )

    def __check_state__(self) -> None:
        for size in (self.n_samples, self.n_users, *(n for _, n in self.grids)):
            if size is not None:
                _checked(size)
        if self.p is not None:
            support_law(self.p, self.q)
        if self.level is not None and not (_is_finite(self.level) and np.all(self.level >= 0)):
            raise ValueError(f"noise of level {self.level!r:.80}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} does not change: make another one.")

    # -- of one collection, and what follows from it ---------------------------------------------
    @classmethod
    def of(cls, law: Any, n_samples: ArrayLike) -> Noise:
        """Return the noise of the estimates of one collection.

        Parameters
        ----------
        law : LinearMechanism
            The mechanism.
        n_samples : int or array-like of shape (n_estimates,)
            Number of users.

        Returns
        -------
        Noise
            The noise.
        """
        n_samples, p, q = _checked(n_samples), getattr(law, "p", None), getattr(law, "q", None)
        if p is not None and q is not None:
            p, q = float(p), float(q)
        grids = [(law, n_samples)]
        terms = [Term(law, 1.0, n_samples)]
        return Noise(terms, n_samples, p=p, q=q, grids=grids, has_slope=p is not None)

    @classmethod
    def of_level(cls, std: float, n_samples: ArrayLike | None = None) -> Noise:
        """Return the noise of which nothing but its level is known, the same at all frequencies.

        Parameters
        ----------
        std : float
            Standard deviation of the estimate of any category; with `n_samples`, of its count.
        n_samples : int or array-like of shape (n_estimates,), default=None
            Number of users, if it is known.

        Returns
        -------
        Noise
            The noise.
        """
        law = CategoryLaw(float(std) * float(std))
        if n_samples is None:
            return Noise([Term(law)], level=std)
        n: Any = _checked(n_samples)
        return Noise([Term(law, 1.0, np.square(n, dtype=float))], n, level=std / n)

    @classmethod
    def combined(cls, noises: Sequence[Noise], weights: ArrayLike) -> Noise:
        """Return the noise of a weighted sum of independent estimates, of different users.

        Parameters
        ----------
        noises : sequence of Noise
            Those of the estimates.
        weights : array-like of shape (n_noises,) or (n_noises, n_estimates)
            Their weights; (1, -1) for a difference.

        Returns
        -------
        Noise
            The noise. Its `n_users` are those whose mean differs as much from a population.
        """
        weights = np.asarray(weights, dtype=float)
        pairs = list(zip(noises, weights, strict=True))
        terms, draws = (
            [term._replace(weight=term.weight * w**2) for one, w in pairs for term in own(one)]
            for own in (attrgetter("terms"), Noise._draws)
        )
        is_known = all(one.n_samples is not None for one in noises)
        sizes = [np.asarray(one.n_users, dtype=float) for one in noises] if is_known else []
        is_grid = all(one.grids for one in noises)
        return Noise(
            _joined(terms),
            sum(np.asarray(one.n_samples) for one in noises) if is_known else None,
            n_users=1 / sum(w**2 / n for n, w in zip(sizes, weights, strict=True))
            if sizes
            else None,
            grids=[(law, n / abs(w)) for x, w in pairs for law, n in x.grids] if is_grid else (),
            has_slope=is_known,
            draws=draws if any(one.draws is not None for one in noises) else None,
        )

    @classmethod
    def of_estimates(cls, noises: Sequence[Noise]) -> Noise:
        """Return the noise of estimates of one mechanism, each from its own users, as rows of one.

        Parameters
        ----------
        noises : sequence of Noise
            That of each, for a single estimate.

        Returns
        -------
        Noise
            The noise.

        Raises
        ------
        ValueError
            If they are not alike but for the numbers of users.
        """
        first = noises[0]
        same = [(len(x.terms), x.p, x.q, x.has_slope, x.draws, x.n_samples is None) for x in noises]
        pairs = [zip(x.terms, first.terms, strict=False) for x in noises]
        if len(set(same)) > 1 or not all(a.is_like(b) for pair in pairs for a, b in pair):
            raise ValueError("The errors of these estimates follow different laws.")

        def rows(numbers: Iterable[Any]) -> Any:
            found = list(numbers)
            return None if found[0] is None else np.array([np.ravel(x)[0] for x in found])

        terms = [
            first.terms[i]._replace(
                weight=rows(one.terms[i].weight for one in noises),
                users=rows(one.terms[i].users for one in noises),
            )
            for i in range(len(first.terms))
        ]
        laws = [law for law, _ in first.grids]
        return first._with(
            terms,
            n_samples=rows(one.n_samples for one in noises),
            n_users=rows(one.n_users for one in noises),
            level=rows(one.level for one in noises),
            grids=[(law, rows(one.grids[i][1] for one in noises)) for i, law in enumerate(laws)],
        )

    @property
    def design_effect(self) -> Any:
        """The cost of weighting users unequally, of shape (n_estimates,); 1 without weights."""
        n = np.ravel(np.asarray(self.n_samples))
        laws = [term for term in self.terms if not term.is_draw]
        if any(getattr(term.law, "of_all_users", False) for term in laws):
            return np.ones(len(n))  # of a survey's tables, whose law is not that of one user
        return n * np.ravel(sum(term.times(1.0) for term in laws))

    @property
    def is_weighted(self) -> bool:
        """Whether it is of a mean of groups that count more or less than their users do."""
        return self.n_samples is not None and bool(np.any(self.design_effect > 1 + 1e-9))

    def of_sample(self, n_users: Any) -> Noise:
        """Return the noise of an estimate about all users, of whom those who reported were drawn.

        Parameters
        ----------
        n_users : int or ndarray of shape (n_estimates,)
            Number of all users.

        Returns
        -------
        Noise
            The noise.
        """
        m, n = np.asarray(self.n_samples, dtype=float), np.asarray(n_users, dtype=float)
        drawn = Term(MULTINOMIAL, (n - m) / (m * np.maximum(n - 1, 1)))
        return self._with([*self.terms, drawn], n_users=n_users, draws=None)

    def of_population(self) -> Noise:
        """Return the noise of an estimate about a population, of which the users are a sample.

        Returns
        -------
        Noise
            The noise.
        """
        if self.n_users is None:
            raise ValueError("Noise without a number of users tells nothing about a population.")
        return self._with([*self.terms, *self._draws()], draws=())

    def _draws(self) -> tuple[Term, ...]:
        if self.draws is None and self.n_users is not None:
            return (Term(MULTINOMIAL, 1.0, self.n_users),)
        return self.draws or ()

    def of_reports(self) -> Noise:
        """Return the noise of the reports alone, without that of a choice of users.

        Returns
        -------
        Noise
            The noise.
        """
        terms = [term for term in self.terms if not term.is_draw]
        return self._with(terms, n_users=self.n_samples, draws=None)

    def permuted(self, order: np.ndarray) -> Noise:
        """Return the noise of an estimate whose categories stand in another order.

        Parameters
        ----------
        order : ndarray of int of shape (d,)
            The position of each category in the order of this noise.

        Returns
        -------
        Noise
            The noise.
        """
        return self._of_each_term(lambda term: term.permuted(order))

    def scaled(self, factor: float) -> Noise:
        """Return the noise of an estimate whose covariances are larger by a factor.

        Parameters
        ----------
        factor : float
            The factor.

        Returns
        -------
        Noise
            That of fewer users, by this factor. Unless it is that of one collection, nothing is
            known of what its reports support.
        """
        is_plain = self.p is not None and len(self.terms) == 1 and self.terms[0].order is None
        fewer = None if self.n_samples is None else np.asarray(self.n_samples) / factor
        return self._of_each_term(
            lambda term: term._replace(users=term.users / factor),
            n_samples=fewer,
            n_users=fewer,
            level=None if self.level is None else np.sqrt(factor) * self.level,
            grids=[(law, n / factor) for law, n in self.grids] if is_plain else (),
            **({} if is_plain else {"p": None, "q": None}),
        )

    def given(self, frequencies: np.ndarray) -> Noise:
        """Return the same noise at frequencies of its own, whatever it is asked about later.

        Parameters
        ----------
        frequencies : ndarray of shape (d,) or (n_estimates, d)
            The frequencies.

        Returns
        -------
        Noise
            The noise. What a draw of the users adds is at these frequencies, too.
        """
        whole = self._with(self.terms, draws=self._draws())
        return whole._of_each_term(lambda term: term._replace(frequencies=frequencies))

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
        terms = (*self.terms, *(self.draws or ()))
        numbers = [self.n_samples, self.n_users, *(x for term in terms for x in term[1:3])]
        own = [term.frequencies for term in terms if term.frequencies is not None]
        if not any(map(np.ndim, numbers)) and all(f.ndim < 2 for f in own):
            return self
        return self._of_each_term(
            lambda term: term.of_rows(rows),
            n_samples=_some(self.n_samples, rows),
            n_users=_some(self.n_users, rows),
            grids=[(law, _some(n, rows)) for law, n in self.grids],
        )

    def _of_each_term(self, change: Callable[[Term], Term], **changes: Any) -> Noise:
        draws = None if self.draws is None else tuple(map(change, self.draws))
        return self._with(map(change, self.terms), draws=draws, **changes)

    def _with(self, terms: Any, **changes: Any) -> Noise:
        return Noise(**{**vars(self), "terms": tuple(terms), **changes})

    # -- what it is -------------------------------------------------------------------------------
    def __repr__(self) -> str:
        law = self.terms[0].law
        if self.n_samples is None:
            return f"<Noise of level {self.std:.6g}>"
        if self.p is not None and len(self.terms) == 1 and isinstance(law, CategoryLaw):
            return f"NoiseModel(p={self.p!r}, q={self.q!r}, n_samples={self.n_samples!r})"
        names = dict.fromkeys(type(one.law).__name__ for one in self.terms if not one.is_draw)
        p_q = "" if self.p is None else f", p={self.p:.6g}, q={self.q:.6g}"
        of = "" if self.n_users is self.n_samples else f", n_users={self.n_users!r}"
        return f"<Noise of {' and '.join(names)}{p_q}, n_samples={self.n_samples!r}{of}>"

    def _key(self) -> tuple[Any, ...]:
        terms = (*self.terms, *(self.draws or ()))
        return self.n_samples, self.n_users, self.level, *(x for term in terms for x in term)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Noise):
            return NotImplemented
        one, another = self._key(), other._key()
        return len(one) == len(another) and all(map(_is_same, one, another))

    def __hash__(self) -> int:
        return hash((len(self.terms), np.asarray(self.n_samples, dtype=float).tobytes()))

    @property
    def presumes_normal(self) -> bool:
        """Whether only the standard deviation is known, so that intervals presume normal noise."""
        return self.level is not None

    @property
    def channel(self) -> Any:
        """The mechanism that made the reports; of a combination, that of the first estimate."""
        return self.terms[0].law

    @property
    def support_law(self) -> Noise | None:
        """Itself, if its reports support categories or do not (p and q); None for others."""
        return None if self.p is None else self

    def _total(self, question: Callable[[Any], Any]) -> Any:
        return sum(term.times(question(term.law)) for term in self.terms)

    @property
    def std(self) -> Any:
        """Standard deviation of the estimate of a category that nobody has (2020 paper, Eq. 7).

        A float or one for each estimate. Where categories differ, it is the root of the mean.
        """
        if self.level is not None:
            return self.level
        return np.sqrt(self._total(lambda law: law.null_variance))

    @property
    def growth(self) -> Any:
        """How much the variance of a category's estimate grows with its frequency."""
        return self._total(lambda law: law.slope)

    @property
    def curvature(self) -> Any:
        """How much the variance of a category falls with the square of its frequency.

        A float or one for each estimate; 0 unless only a random part of the users was asked.
        """
        return sum((one.times(one.law.curvature) for one in self.terms if one.law.curvature), 0.0)

    def _per_user(self, question: Callable[[Any], float]) -> float | None:
        if not self.has_slope:
            return None
        n = np.asarray(self.n_samples, dtype=float)
        return float(sum(question(t.law) * np.mean(t.weight * (n / t.users)) for t in self.terms))

    @property
    def null_variance(self) -> float | None:
        """The square of `std`, times the number of users; None if no `slope` is known."""
        return self._per_user(lambda law: law.null_variance)

    @property
    def slope(self) -> float | None:
        """`growth`, times the number of users; None where it differs between categories."""
        return self._per_user(lambda law: law.slope)

    @property
    def half_count(self) -> Any:
        """How much half a report adds to an estimate: a float or one for each estimate.

        Estimates lie on a grid, and a probability on a grid is compared with a continuous one at
        the middle between two points. It is 0 if the grid is not known; of several, it is the
        coarsest: a part whose reports are hardly ever false has few values, in finer steps or not.
        """
        halves = [law.half_count / np.asarray(n, dtype=float) for law, n in self.grids]
        return np.max(halves, axis=0) if halves else 0.0

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

    def frequencies_behind(self, values: np.ndarray) -> np.ndarray:
        """Return a distribution at which to take the covariances of a raw estimate.

        Parameters
        ----------
        values : ndarray of shape (d,)
            The raw estimate.

        Returns
        -------
        ndarray of shape (d,)
            The nearest distribution, or one that the mechanism of the reports knows to be better;
            of shares that overlap, the values within 0 and 1.
        """
        kept = [term for term in self.terms if not term.is_draw]
        if any(getattr(term.law, "shares_overlap", False) for term in kept):
            return np.clip(values, 0, 1)  # they sum to anything
        if len(kept) != 1 or not hasattr(kept[0].law, "frequencies_behind"):
            return norm_sub(values)
        law, order = kept[0].law, kept[0].order
        if order is None:
            return law.frequencies_behind(values)
        return law.frequencies_behind(_Reordered(order).back(values))[order]

    # -- its covariances --------------------------------------------------------------------------
    def at(self, frequencies: ArrayLike) -> Covariances:
        """Return the covariance of linear answers to a single estimate.

        Parameters
        ----------
        frequencies : array-like of shape (d,)
            True frequencies of all categories.

        Returns
        -------
        Covariances
            An operator: ``variances(rows)``, ``matrix(rows)`` and ``product(vector)``.
        """
        f, parts = np.asarray(frequencies, dtype=np.float64), list[list[Any]]()
        for term in self.terms:
            factor = float(np.ravel(term.times(1.0))[0])
            alike = next((part for part in parts if part[1].is_like(term)), None)
            if alike is None:
                parts.append([factor, term])
            else:
                alike[0] += factor
        return Covariances([(factor, term.covariance(f)) for factor, term in parts])

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
            If this noise does not know how the errors of these answers are correlated.
        """
        rows = as_rows(matrix, np.shape(frequencies)[-1])
        return self._of_each(frequencies, lambda errors: errors.matrix(rows))

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
        rows = as_rows(matrix, np.shape(frequencies)[-1])
        return self._of_each(frequencies, lambda errors: errors.variances(rows))

    def variance(self, frequencies: ArrayLike) -> np.ndarray:
        """Return the variance of the raw estimate of each category (2020 paper, Eq. 5).

        Parameters
        ----------
        frequencies : array-like of shape (d,) or (n_estimates, d)
            True frequencies of all categories.

        Returns
        -------
        ndarray of shape (d,) or (n_estimates, d)
            The variance of each category's estimate.
        """
        f = np.asarray(frequencies, dtype=np.float64)
        return sum((term.variances(f) for term in self.terms[1:]), self.terms[0].variances(f))

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
            If this noise does not know how the errors of the categories are correlated.
        """
        return self.at(frequencies).product(vector)

    def _of_each(
        self, frequencies: ArrayLike, ask: Callable[[Covariances], np.ndarray]
    ) -> np.ndarray:
        """Apply `ask`, which answers for one estimate, to each of the estimates."""
        f = np.asarray(frequencies, dtype=np.float64)
        n_estimates = {len(x) for x in (f[..., 0], self.n_samples) if np.ndim(x)}
        if not n_estimates:
            return ask(self.at(f))
        each = np.broadcast_to(f, (max(n_estimates), f.shape[-1]))
        return np.stack([ask(self.of_rows(i).at(row)) for i, row in enumerate(each)])


@dataclass(frozen=True, eq=False)
class NoiseModel(Noise, tag="noise-model"):
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
        law, n = support_law(self.p, self.q), _checked(self.n_samples)
        terms, grids = [Term(law, 1.0, n)], [(law, n)]
        super().__init__(terms, n, p=self.p, q=self.q, grids=grids, has_slope=True)


def _checked(given: ArrayLike) -> Any:
    """Return a number of users as it is, or those of several estimates as an array."""
    n_samples = np.asarray(given)
    if n_samples.ndim > 1 or not _is_finite(n_samples) or not np.all(n_samples > 0):
        raise ValueError(
            f"Noise needs finite n_samples > 0, got {given!r}: one, or one for each row."
        )
    return n_samples if n_samples.ndim else given


def _is_finite(numbers: Any) -> bool:
    is_number = isinstance(numbers, Real | np.ndarray) and np.asarray(numbers).dtype.kind in "biuf"
    return is_number and bool(np.all(np.isfinite(numbers)))


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


def _some(numbers: Any, rows: Any, least: int = 1) -> Any:
    """Return the values of some of the estimates, if each has its own."""
    return np.asarray(numbers)[rows] if np.ndim(numbers) >= least else numbers


def _joined(terms: Sequence[Term]) -> list[Term]:
    """Return terms, with a single one for the reports of a mechanism at several frequencies."""
    # Users report independently of each other, so the covariance of their reports is a sum over
    # the users, and linear in their frequencies: it is that at the weighted mean of these.
    alike: list[list[Term]] = []
    for term in terms:
        is_linear = term.frequencies is not None and not term.law.curvature
        for some in alike:
            own = some[0].frequencies
            if is_linear and own is not None and term._replace(frequencies=own).is_like(some[0]):
                some.append(term)
                break
        else:
            alike.append([term])
    return [some[0] if len(some) == 1 else _mean_term(some) for some in alike]


def _mean_term(terms: Sequence[Any]) -> Term:
    factors: list[Any] = [np.asarray(term.times(1.0))[..., None] for term in terms]
    pairs = zip(factors, terms, strict=True)
    total: Any = sum(factors)
    f = sum(factor * term.frequencies for factor, term in pairs)
    return terms[0]._replace(weight=total[..., 0], users=1.0, frequencies=f / total)


def variances_after_norm(
    noise: Noise, rows: sparse.csr_array, frequencies: np.ndarray
) -> np.ndarray:
    """Return the variances of linear answers of a raw estimate whose sum was made 1 by Norm.

    Shapes: rows (n_queries, d), frequencies (d,) -> (n_queries,).
    """
    errors = noise.at(frequencies)
    try:
        of_sum = errors.product(np.ones(len(frequencies)))
        variances = errors.variances(rows)
    except ValueError:
        of_sum = errors.variances()
        variances = rows.power(2) @ of_sum
    # Norm takes from each answer its share of the error of the sum.
    shares = rows.sum(axis=1) / len(frequencies)
    result = variances - 2 * shares * (rows @ of_sum) + shares**2 * of_sum.sum()
    return np.maximum(result, 0)


def independent_noise(noise: Noise, largest: int, n_categories: int) -> tuple[float, float]:
    """Return the noise of independent errors whose differences have the same variances.

    largest: the category that may have all users.
    Returns: the standard deviation of a category that nobody has, and how much the variance
    grows with the frequency.
    If the sum of the frequencies is known, the differences of the estimates are all that matters.
    Without a known covariance, the errors count as independent.
    """
    rows, of_all = np.eye(n_categories), np.arange(n_categories) == largest
    try:
        mean = _spread(noise.at(np.full(n_categories, 1 / n_categories)).matrix(rows))
        if n_categories == 2:
            return np.sqrt(mean), 0.0
        nobody = _spread(noise.at(of_all * 1.0).matrix(rows[~of_all]))
    except ValueError:
        return float(np.ravel(noise.std)[0]), float(np.ravel(noise.growth)[0])
    return np.sqrt(nobody), n_categories * (mean - nobody)


def _spread(covariance: np.ndarray) -> float:
    """Return the mean of half the variances of all differences."""
    n = len(covariance)
    return max((np.trace(covariance) - covariance.sum() / n) / (n - 1), 0.0)


#: The constraint of a parameter `noise`: what the estimate carries, a noise level, or a model.
NOISE_CONSTRAINT = [None, Interval(Real, 0, None, closed="neither"), Noise]
