"""The noise model of an estimate: the error of the estimate is a sum of independent terms."""

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

from ..common.tags import TAGGED, Tagged
from ..common.typing import Matrix, Rows
from ..numerics.simplex import norm_sub
from ._added import AddedNoise
from ._covariance import MULTINOMIAL, CategoryLaw, Covariances, as_rows, support_law


class Term(NamedTuple):
    """One of the independent errors whose sum is the error of an estimate.

    Its covariance is ``weight / users`` times the covariance for one user, which `law` defines.
    """

    # The properties for one user: `null_variance`, `slope`, `curvature` and `half_count`, the
    # variance of each category by `variances(frequencies)`, and all covariances by
    # `covariance(frequencies)`.
    law: Any
    weight: Any = 1.0  # weight, users: (n_estimates,): the factor, which may be negative
    users: Any = 1.0
    # (d,): the position of each category in the order of the law, if the orders differ.
    order: np.ndarray | None = None
    # (d,) or (n_estimates, d): fixed frequencies; if None, the frequencies in the argument.
    frequencies: np.ndarray | None = None

    def __check_state__(self) -> None:
        frequencies = 0 if self.frequencies is None else self.frequencies
        are_finite = all(map(_is_finite, (self.weight, self.users, frequencies)))
        if not are_finite or not callable(self.law.variances) or np.any(self.users <= 0):
            raise ValueError(
                "A term of the noise needs a law with a method variances, finite numbers, and "
                "users > 0. Save the estimate again."
            )
        order: Any = [] if self.order is None else self.order
        if not np.array_equal(np.sort(order), np.arange(len(order))):
            raise ValueError(
                "The order of a term of the noise must contain each position of a category once. "
                "Save the estimate again."
            )

    @property
    def is_draw(self) -> bool:
        """Whether the term is the sampling error of the users, if they are a random sample."""
        return self.law == MULTINOMIAL

    def times(self, value: Any) -> Any:
        """Multiply a number for one user, such as a variance, by ``weight / users`` of each
        estimate."""
        return value / np.asarray(self.users, dtype=float) * self.weight

    def is_like(self, other: Term) -> bool:
        """Return whether two terms are equal in all attributes except `weight` and `users`."""
        fields = zip(self[3:], other[3:], strict=True)  # laws from pickles are copies
        return self.law == other.law and all(_is_same(a, b) for a, b in fields)

    def variances(self, frequencies: np.ndarray) -> np.ndarray:
        """Return the variance of this error for each category, for given true frequencies.

        The shape is (d,), or (n_estimates, d) if the estimates differ.
        """
        f = frequencies if self.frequencies is None else self.frequencies
        if self.order is None:
            variances = self.law.variances(f)
        else:
            variances = self.law.variances(_Reordered(self.order).back(f))[..., self.order]
        users = np.asarray(self.users, dtype=float)[..., None]
        return variances / users * np.asarray(self.weight)[..., None]

    def covariance(self, frequencies: np.ndarray) -> Any:
        """Return the covariance of this error for one user, for given true frequencies.

        It requires a single estimate, and does not include the factor ``weight / users``.
        """
        f = frequencies if self.frequencies is None else self.frequencies.reshape(-1)
        if self.order is None:
            return self.law.covariance(f)
        view = _Reordered(self.order)
        inner = self.law.covariance(view.back(f))
        return Covariances([(1.0, inner)], view, lambda: inner.variances()[self.order])

    def of_rows(self, rows: Rows) -> Term:
        """Return the term of an estimate that contains only the given rows."""
        numbers = {name: _some(getattr(self, name), rows) for name in ("weight", "users")}
        law = self.law.of_rows(rows) if hasattr(self.law, "of_rows") else self.law
        return self._replace(law=law, **numbers, frequencies=_some(self.frequencies, rows, least=2))

    def permuted(self, order: np.ndarray) -> Term:
        """Return the term for the same estimate with its categories in another order.

        `order` contains, for each category of the new order, its position in the present order.
        """
        f = None if self.frequencies is None else self.frequencies[..., order]
        if not self.is_draw:
            order = order if self.order is None else self.order[order]
        return self._replace(order=None if self.is_draw else order, frequencies=f)


TAGGED["term"] = Term


class _Reordered(NamedTuple):
    """Converts queries and vectors between two orders of the categories.

    `order` contains, for each category of the new order, its position in the original order.
    """

    order: np.ndarray

    def back(self, vectors: np.ndarray) -> np.ndarray:
        """Convert arrays to the original order of the categories, which are the last axis."""
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
    """The noise model of an estimate, whose error is a sum of independent terms.

    It is the type of ``estimate.noise`` and ``oracle.noise_``. The object is immutable, and the
    parameters are also its attributes.

    Parameters
    ----------
    terms : tuple of Term
        The independent errors.
    n_samples : int, ndarray of shape (n_estimates,) or None
        For each estimate, the number of users who reported. None if it is unknown.
    n_users : int, float, ndarray of shape (n_estimates,) or None
        For each estimate, the number of users whose frequencies are estimated. It is larger than
        `n_samples` if only a random sample of these users reported.
    p, q : float or None
        Probability that a report supports (counts in favor of) the user's own category (p), and
        probability that it supports a given other category (q). None if reports do not support sets
        of categories.
    grids : tuple of (mechanism, number)
        Pairs from which the distance between two neighboring possible estimates is computed: half
        of this distance is `half_count` of the mechanism, divided by the number.
    has_slope : bool
        Whether the variance of a category's estimate is the same function of the category's true
        frequency for all categories, and depends on no other frequency.
    level : float, ndarray of shape (n_estimates,) or None
        The standard deviation, if it is the only known property of the noise; otherwise None. The
        square of the standard deviation may be too large or too small for a float.
    draws : tuple of Term or None
        The sampling errors that must be added for statements about a population from which the
        users are a random sample. None means that the `n_users` users are one random sample. A
        weighted mean of groups has one term per group.
    """

    # The object computes the covariance of the linear answers `matrix @ estimate` for given true
    # frequencies. The errors are a sum of independent terms: errors of the reports, and errors of
    # a random selection of users. The covariance of a collection of n users is the covariance of
    # its mechanism for one user divided by n. Drawing m of n users without replacement adds
    # .. math:: \Big(\frac 1m - \frac 1n\Big) \frac{n}{n - 1} (\mathrm{diag}(f) - f f^T)
    # to the covariance of the m reports [1]_. (The covariance of the reports is linear in the
    # frequencies of the selected users, so its mean over the draws is its value at the frequencies
    # of all users.) If the users are a sample of a population, this adds `(diag(f) - f f') / n`.
    # A weighted sum or a difference of independent estimates has the terms of all estimates, times
    # the squares of the weights. For a difference of two tables these are the errors of each table
    # at its own frequencies (the mechanism for a table with its own reports, `TableLaw` of the
    # surveys for a table that combines several), and the two draws of users. Everything else is
    # fixed. In particular the users are fixed if no term states that they were drawn.
    # [1] W. G. Cochran, "Sampling techniques", third edition, Wiley 1977, theorem 2.2.

    # Files are checked against these types. This class is not a dataclass, because `replace` could
    # then change `n_samples` but not the terms. `NoiseModel` computes the terms, so it can be one.
    terms: tuple[Term, ...]
    n_samples: Any
    n_users: Any
    p: Any
    q: Any
    grids: tuple[tuple[Any, Any], ...]
    has_slope: bool
    level: Any
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
        vars(self).update(  # because `__setattr__` refuses every change
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
            raise ValueError(
                f"The standard deviation of Noise must be finite and >= 0, got level="
                f"{self.level!r:.80}. Save the estimate again."
            )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable. Create a new object instead.")

    # -- noise of one collection, and combinations ------------------------------------------------
    @classmethod
    def of(cls, law: Any, n_samples: ArrayLike) -> Noise:
        """Return the noise of estimates from reports of one mechanism.

        Parameters
        ----------
        law : LinearMechanism
            The mechanism of the reports.
        n_samples : int or array-like of shape (n_estimates,)
            Number of users who reported, for each estimate.

        Returns
        -------
        Noise
            The noise.
        """
        n_samples = _checked(n_samples)
        p = getattr(law, "p", None)
        q = getattr(law, "q", None)
        if p is not None and q is not None:
            p, q = float(p), float(q)
        grids = [(law, n_samples)]
        terms = [Term(law, 1.0, n_samples)]
        return Noise(terms, n_samples, p=p, q=q, grids=grids, has_slope=p is not None)

    @classmethod
    def of_level(cls, std: float, n_samples: ArrayLike | None = None) -> Noise:
        """Return a noise model in which only the standard deviation is known.

        The standard deviation is the same for all categories and frequencies.

        Parameters
        ----------
        std : float
            Standard deviation of the estimated frequency of a category. If `n_samples` is not None,
            it is the standard deviation of the estimated number of users of a category.
        n_samples : int or array-like of shape (n_estimates,), default=None
            Number of users. None if it is unknown.

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
    def added(cls, law: AddedNoise, n_samples: Any) -> Noise:
        """Return the noise of frequencies that were computed from counts with added noise.

        Parameters
        ----------
        law : AddedNoise
            The distribution of the noise of the counts.
        n_samples : int or array-like of shape (n_estimates,)
            Number of users. The frequencies are the counts divided by this number.

        Returns
        -------
        Noise
            The noise.
        """
        n: Any = _checked(n_samples)
        has_slope = law.is_independent and np.ptp(law.std) == 0
        return Noise([Term(law, 1.0, np.square(n, dtype=float))], n, has_slope=bool(has_slope))

    @classmethod
    def combined(cls, noises: Sequence[Noise], weights: ArrayLike) -> Noise:
        """Return the noise of a weighted sum of estimates from different users.

        Parameters
        ----------
        noises : sequence of Noise
            The noise of each estimate.
        weights : array-like of shape (n_noises,) or (n_noises, n_estimates)
            The weights of the estimates. For a difference of two estimates, (1, -1).

        Returns
        -------
        Noise
            The noise. Its `n_users` is the effective sample size: a random sample of so many users
            has the same sampling error.
        """
        weights = np.asarray(weights, dtype=float)
        pairs = list(zip(noises, weights, strict=True))
        terms, draws = (
            [term._replace(weight=term.weight * w**2) for noise, w in pairs for term in own(noise)]
            for own in (attrgetter("terms"), Noise._draws)
        )
        is_known = all(noise.n_samples is not None for noise in noises)
        sizes = [np.asarray(noise.n_users, dtype=float) for noise in noises] if is_known else []
        is_grid = all(noise.grids for noise in noises)
        return Noise(
            _joined(terms),
            sum(np.asarray(noise.n_samples) for noise in noises) if is_known else None,
            n_users=1 / sum(w**2 / n for n, w in zip(sizes, weights, strict=True))
            if sizes
            else None,
            grids=[(law, n / abs(w)) for x, w in pairs for law, n in x.grids] if is_grid else (),
            has_slope=is_known,
            draws=draws if any(noise.draws is not None for noise in noises) else None,
        )

    @classmethod
    def of_estimates(cls, noises: Sequence[Noise]) -> Noise:
        """Return the noise of an estimate with several rows, given the noise of each row.

        Parameters
        ----------
        noises : sequence of Noise
            The noise of each row. The rows must be estimates from reports of equal mechanisms, and
            each from different users.

        Returns
        -------
        Noise
            The noise.

        Raises
        ------
        ValueError
            If the noise models differ in something other than their numbers of users.
        """
        first = noises[0]
        same = [(len(x.terms), x.p, x.q, x.has_slope, x.draws, x.n_samples is None) for x in noises]
        pairs = [zip(x.terms, first.terms, strict=False) for x in noises]
        if len(set(same)) > 1 or not all(a.is_like(b) for pair in pairs for a, b in pair):
            raise ValueError(
                "These estimates cannot become rows of one estimate, because their errors have "
                "different distributions. Combine only estimates from equal oracles."
            )

        def rows(numbers: Iterable[Any]) -> Any:
            values = list(numbers)
            return None if values[0] is None else np.array([np.ravel(x)[0] for x in values])

        terms = [
            first.terms[i]._replace(
                weight=rows(noise.terms[i].weight for noise in noises),
                users=rows(noise.terms[i].users for noise in noises),
            )
            for i in range(len(first.terms))
        ]
        laws = [law for law, _ in first.grids]
        return first._with(
            terms,
            n_samples=rows(noise.n_samples for noise in noises),
            n_users=rows(noise.n_users for noise in noises),
            level=rows(noise.level for noise in noises),
            grids=[(law, rows(n.grids[i][1] for n in noises)) for i, law in enumerate(laws)],
        )

    @property
    def design_effect(self) -> Any:
        """Kish's design effect: the factor by which weights of users increase the variance.

        It has shape (n_estimates,), and is 1 if all users have equal weights.
        """
        n = np.ravel(np.asarray(self.n_samples))
        laws = [term for term in self.terms if not term.is_draw]
        if any(getattr(term.law, "of_all_users", False) for term in laws):
            return np.ones(len(n))  # tables of a survey: the law is for all users
        return n * np.ravel(sum(term.times(1.0) for term in laws))

    @property
    def is_weighted(self) -> bool:
        """Whether the estimate is a weighted mean in which users have unequal weights."""
        return self.n_samples is not None and bool(np.any(self.design_effect > 1 + 1e-9))

    def of_sample(self, n_users: Any) -> Noise:
        """Return the noise of an estimate for all users, if only a random sample of them reported.

        Parameters
        ----------
        n_users : int or ndarray of shape (n_estimates,)
            Number of all users, including the users who did not report.

        Returns
        -------
        Noise
            The noise, which includes the sampling error.
        """
        m, n = np.asarray(self.n_samples, dtype=float), np.asarray(n_users, dtype=float)
        drawn = Term(MULTINOMIAL, (n - m) / (m * np.maximum(n - 1, 1)))
        return self._with([*self.terms, drawn], n_users=n_users, draws=None)

    def of_population(self) -> Noise:
        """Return the noise of an estimate for a population, if the users are a random sample of it.

        Returns
        -------
        Noise
            The noise, which includes the sampling error of the users.
        """
        if self.n_users is None:
            raise ValueError(
                "The sampling error for a population cannot be computed, because the number of "
                "users of this noise is unknown. Use a noise model that was created with n_samples."
            )
        return self._with([*self.terms, *self._draws()], draws=())

    def _draws(self) -> tuple[Term, ...]:
        if self.draws is None and self.n_users is not None:
            return (Term(MULTINOMIAL, 1.0, self.n_users),)
        return self.draws or ()

    def of_reports(self) -> Noise:
        """Return the noise without the sampling error of the users.

        Returns
        -------
        Noise
            The noise, which includes only the errors of the reports.
        """
        terms = [term for term in self.terms if not term.is_draw]
        return self._with(terms, n_users=self.n_samples, draws=None)

    def permuted(self, order: np.ndarray) -> Noise:
        """Return the noise for the same estimate with its categories in another order.

        Parameters
        ----------
        order : ndarray of int of shape (d,)
            For each category in the new order, its position in the present order.

        Returns
        -------
        Noise
            The noise.
        """
        return self._of_each_term(lambda term: term.permuted(order))

    def scaled(self, factor: float) -> Noise:
        """Return noise whose covariances are multiplied by a factor.

        Parameters
        ----------
        factor : float
            The factor.

        Returns
        -------
        Noise
            The noise, as of an estimate from fewer users: their number is divided by the factor.
            The attributes p and q are None unless this is the noise of a single collection.
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
        """Return a copy of the noise in which the true frequencies are fixed.

        The methods of the copy ignore their argument `frequencies` and use the fixed frequencies.

        Parameters
        ----------
        frequencies : ndarray of shape (d,) or (n_estimates, d)
            The frequencies.

        Returns
        -------
        Noise
            The noise. Its sampling error of users also uses the fixed frequencies.
        """
        whole = self._with(self.terms, draws=self._draws())
        return whole._of_each_term(lambda term: term._replace(frequencies=frequencies))

    def of_rows(self, rows: Rows) -> Noise:
        """Return the noise of some rows (estimates).

        Parameters
        ----------
        rows : int, slice or array-like
            The rows to select.

        Returns
        -------
        Noise
            The noise of these rows. If the noise does not differ between rows, it is this object.
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

    # -- properties -------------------------------------------------------------------------------
    def __repr__(self) -> str:
        law = self.terms[0].law
        if self.n_samples is None:
            return f"<Noise of level {self.std:.6g}>"
        if self.p is not None and len(self.terms) == 1 and isinstance(law, CategoryLaw):
            return f"NoiseModel(p={self.p!r}, q={self.q!r}, n_samples={self.n_samples!r})"
        names = dict.fromkeys(type(term.law).__name__ for term in self.terms if not term.is_draw)
        p_q = "" if self.p is None else f", p={self.p:.6g}, q={self.q:.6g}"
        of = "" if self.n_users is self.n_samples else f", n_users={self.n_users!r}"
        return f"<Noise of {' and '.join(names)}{p_q}, n_samples={self.n_samples!r}{of}>"

    def _key(self) -> tuple[Any, ...]:
        terms = (*self.terms, *(self.draws or ()))
        return self.n_samples, self.n_users, self.level, *(x for term in terms for x in term)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Noise):
            return NotImplemented
        own, others = self._key(), other._key()
        return len(own) == len(others) and all(map(_is_same, own, others))

    def __hash__(self) -> int:
        return hash((len(self.terms), np.asarray(self.n_samples, dtype=float).tobytes()))

    @property
    def presumes_normal(self) -> bool:
        """Whether only the standard deviation is known.

        Intervals must then assume that the noise is normal.
        """
        return self.level is not None

    @property
    def is_of_complete_counts(self) -> bool:
        """Whether the estimate consists of noisy counts of all users, instead of their reports.

        Such users are usually not a sample of a population.
        """
        is_level = self.level is not None and self.n_samples is not None
        laws = [term.law for term in self.terms]
        return is_level or all(getattr(law, "is_of_complete_counts", False) for law in laws)

    @property
    def channel(self) -> Any:
        """The mechanism of the reports; for several estimates, the mechanism of the first."""
        return self.terms[0].law

    @property
    def among(self) -> str:
        """Which users the estimate is about, as text after "users"; empty for all users."""
        return getattr(self.channel, "among", "")

    @property
    def support_law(self) -> Noise | None:
        """This object if p and q are known, otherwise None."""
        return None if self.p is None else self

    def _total(self, question: Callable[[Any], Any]) -> Any:
        return sum(term.times(question(term.law)) for term in self.terms)

    @property
    def std(self) -> Any:
        """Standard error of the estimated frequency of a category with true frequency 0.

        A float, or an array with one entry per estimate. If categories differ, it is the square
        root of the mean variance. The formula for p and q is Eq. 7 of T. Wang et al., "Locally
        differentially private frequency estimation with consistency", NDSS 2020.
        """
        if self.level is not None:
            return self.level
        return np.sqrt(self._total(lambda law: law.null_variance))

    @property
    def growth(self) -> Any:
        """Derivative of the variance of an estimate with respect to the true frequency, at 0."""
        return self._total(lambda law: law.slope)

    @property
    def curvature(self) -> Any:
        """The coefficient c of the variance ``a + b f - c f**2`` at the true frequency f.

        A float, or an array with one entry per estimate. It is 0 if there is no sampling error of
        users.
        """
        return sum((t.times(t.law.curvature) for t in self.terms if t.law.curvature), 0.0)

    def _per_user(self, question: Callable[[Any], float]) -> float | None:
        if not self.has_slope:
            return None
        n = np.asarray(self.n_samples, dtype=float)
        return float(sum(question(t.law) * np.mean(t.weight * (n / t.users)) for t in self.terms))

    @property
    def null_variance(self) -> float | None:
        """``std**2`` times the number of users. None if `slope` is None."""
        return self._per_user(lambda law: law.null_variance)

    @property
    def slope(self) -> float | None:
        """`growth` times the number of users. None if `growth` differs between categories."""
        return self._per_user(lambda law: law.slope)

    @property
    def half_count(self) -> Any:
        """The continuity correction: half the distance between two neighboring possible estimates.

        A float, or an array with one entry per estimate. Only certain values are possible for an
        estimate, because reports are counted. A probability of such values is compared with a
        continuous distribution at the midpoint between two values. The property is 0 if the
        possible values are unknown. If the estimate is a sum of several parts with different
        distances, the largest distance is used, because a part with nearly noiseless reports has
        few possible values.
        """
        halves = [law.half_count / np.asarray(n, dtype=float) for law, n in self.grids]
        return np.max(halves, axis=0) if halves else 0.0

    def debias(self, support_counts: ArrayLike) -> np.ndarray:
        """Return unbiased frequency estimates from the numbers of reports that support categories.

        A report supports a category if it counts in favor of the category.
        The formula is Eq. 2 of T. Wang et al., "Locally differentially private frequency estimation
        with consistency", NDSS 2020.

        Parameters
        ----------
        support_counts : array-like of shape (d,) or (n_estimates, d)
            Number of reports that support each category.

        Returns
        -------
        ndarray of shape (d,) or (n_estimates, d)
            ``(support_counts / n_samples - q) / (p - q)``.
        """
        n_samples = np.asarray(self.n_samples)[..., None]
        return (np.asarray(support_counts) / n_samples - self.q) / (self.p - self.q)

    def frequencies_behind(self, values: np.ndarray) -> np.ndarray:
        """Return frequencies for the computation of the covariances of a raw estimate.

        Covariances depend on the true frequencies, which are unknown. This method replaces them by
        frequencies that are computed from the raw estimate.

        Parameters
        ----------
        values : ndarray of shape (d,)
            The raw estimate.

        Returns
        -------
        ndarray of shape (d,)
            By default, the vector nearest to the raw estimate whose entries are at least 0 and sum
            to 1. The mechanism may define other frequencies. If a user may have several categories,
            the raw estimate clipped to [0, 1].
        """
        kept = [term for term in self.terms if not term.is_draw]
        if any(getattr(term.law, "shares_overlap", False) for term in kept):
            return np.clip(values, 0, 1)  # these frequencies need not sum to 1
        if len(kept) != 1 or not hasattr(kept[0].law, "frequencies_behind"):
            return norm_sub(values)
        law, order = kept[0].law, kept[0].order
        if order is None:
            return law.frequencies_behind(values)
        return law.frequencies_behind(_Reordered(order).back(values))[order]

    # -- covariances ------------------------------------------------------------------------------
    def at(self, frequencies: ArrayLike) -> Covariances:
        """Return the covariance of a single raw estimate, for given true frequencies.

        Parameters
        ----------
        frequencies : array-like of shape (d,)
            True frequencies of all categories.

        Returns
        -------
        Covariances
            An object with the methods ``variances(rows)`` and ``matrix(rows)``, for the answers to
            the queries in ``rows``, and ``product(vector)``.
        """
        f = np.asarray(frequencies, dtype=np.float64)
        parts = list[list[Any]]()
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
            The covariances. The result is a single matrix if all estimates have the same number of
            users and `frequencies` has shape (d,).

        Raises
        ------
        ValueError
            If the covariance of these answers is unknown.
        """
        rows = as_rows(matrix, np.shape(frequencies)[-1])
        return self._of_each(frequencies, lambda errors: errors.matrix(rows))

    def answer_variance(self, matrix: Matrix, frequencies: ArrayLike) -> np.ndarray:
        """Return the variances of the answers to linear queries of the raw estimate.

        They are the diagonal of the result of `covariance`.

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
        """Return the variance of each category's raw estimate.

        The formula for p and q is Eq. 5 of T. Wang et al., "Locally differentially private
        frequency estimation with consistency", NDSS 2020.

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
        """Multiply the covariance matrix of all categories by a vector, without storing the matrix.

        Parameters
        ----------
        vector : ndarray of shape (d,)
            The vector.
        frequencies : ndarray of shape (d,)
            True frequencies of all categories.

        Returns
        -------
        ndarray of shape (d,)
            The product. The noise must be for a single estimate.

        Raises
        ------
        ValueError
            If the covariance of the categories is unknown.
        """
        return self.at(frequencies).product(vector)

    def _of_each(
        self, frequencies: ArrayLike, ask: Callable[[Covariances], np.ndarray]
    ) -> np.ndarray:
        """Apply the function `ask` to the covariance of each estimate, and return the results as an
        array.

        `frequencies` contains the true frequencies.
        """
        f = np.asarray(frequencies, dtype=np.float64)
        n_estimates = {len(x) for x in (f[..., 0], self.n_samples) if np.ndim(x)}
        if not n_estimates:
            return ask(self.at(f))
        each = np.broadcast_to(f, (max(n_estimates), f.shape[-1]))
        return np.stack([ask(self.of_rows(i).at(row)) for i, row in enumerate(each)])


@dataclass(frozen=True, eq=False)
class NoiseModel(Noise, tag="noise-model"):
    """The noise of an estimate, given two probabilities p and q and the number of users.

    Most oracles have these probabilities. A report of such an oracle *supports* (counts in favor
    of) a set of categories. The set contains the user's own category with probability `p`, and each
    other category with probability `q`. The numbers p and q determine the variance of each
    category's estimate. They do not determine the covariance of two categories, which depends on
    the mechanism. The noise of an oracle's own estimate (``oracle.noise_``, ``estimate.noise``)
    includes the covariances.

    Parameters
    ----------
    p : float
        Probability that a report supports the user's own category.
    q : float
        Probability that a report supports each other category, ``0 <= q < p <= 1``.
    n_samples : int or ndarray of shape (n_estimates,)
        Number of users, for each estimate.

    Attributes
    ----------
    std : float or ndarray of shape (n_estimates,)
        Standard error of the estimated frequency of a category with true frequency 0.

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
        law = support_law(self.p, self.q)
        n = _checked(self.n_samples)
        # The fields p, q and n_samples determine all other attributes.
        super().__init__(
            terms=[Term(law, 1.0, n)],
            n_samples=n,
            p=self.p,
            q=self.q,
            grids=[(law, n)],
            has_slope=True,
        )


def _checked(n_users: ArrayLike) -> Any:
    """Check that numbers of users are finite and positive. Return a single number, or an array."""
    n_samples = np.asarray(n_users)
    if n_samples.ndim > 1 or not _is_finite(n_samples) or not np.all(n_samples > 0):
        raise ValueError(
            f"Noise needs finite numbers of users > 0, got n_samples={n_users!r}. Pass a single "
            "number, or one number for each estimate."
        )
    return n_samples if n_samples.ndim else n_users


def _is_finite(numbers: Any) -> bool:
    is_number = isinstance(numbers, Real | np.ndarray) and np.asarray(numbers).dtype.kind in "biuf"
    return is_number and bool(np.all(np.isfinite(numbers)))


def _is_same(value: Any, other: Any) -> bool:
    if isinstance(value, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(value, other)
    return bool(value == other)


def _some(numbers: Any, rows: Any, least: int = 1) -> Any:
    """Select rows of an array that has one entry per estimate. Return anything else unchanged.

    An array has one entry per estimate if it has at least `least` axes.
    """
    return np.asarray(numbers)[rows] if np.ndim(numbers) >= least else numbers


def _joined(terms: Sequence[Term]) -> list[Term]:
    """Merge terms that have the same mechanism into one term, if possible.

    The terms may have different fixed frequencies.
    """
    # Users report independently of each other, so the covariance of their reports is a sum over
    # the users, and linear in their frequencies. So a weighted sum of covariances is the covariance
    # at the weighted mean of the frequencies.
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
    """Return the variances of answers to linear queries after the post-processor Norm.

    Norm adds the same number to all estimates, so that they sum to 1.
    Shapes: rows (n_queries, d), frequencies (d,) -> (n_queries,).
    """
    errors = noise.at(frequencies)
    try:
        with_sum = errors.product(np.ones(len(frequencies)))  # covariances with the sum
        variances = errors.variances(rows)
    except ValueError:
        with_sum = errors.variances()
        variances = rows.power(2) @ with_sum
    # Norm subtracts from each answer its share of the error of the sum.
    shares = rows.sum(axis=1) / len(frequencies)
    result = variances - 2 * shares * (rows @ with_sum) + shares**2 * with_sum.sum()
    return np.maximum(result, 0)


def independent_noise(noise: Noise, largest: int, n_categories: int) -> tuple[float, float]:
    """Return an approximation with independent errors, for estimates whose sum is known.

    If the sum of the frequencies is known, only the differences between categories' estimates
    matter. The result has the same mean variance of these differences.
    largest: the category that may have all users.
    Returns: the standard error at frequency 0, and the derivative of the variance with respect to
    the frequency. If the covariance is unknown, the errors are assumed to be independent.
    """
    rows = np.eye(n_categories)
    is_largest = np.arange(n_categories) == largest
    try:
        mean = _spread(noise.at(np.full(n_categories, 1 / n_categories)).matrix(rows))
        if n_categories == 2:
            return np.sqrt(mean), 0.0
        empty = _spread(noise.at(is_largest * 1.0).matrix(rows[~is_largest]))
    except ValueError:
        return float(np.ravel(noise.std)[0]), float(np.ravel(noise.growth)[0])
    return np.sqrt(empty), n_categories * (mean - empty)


def _spread(covariance: np.ndarray) -> float:
    """Return half the mean variance of the difference between the estimates of two categories.

    The mean is over all pairs of categories.
    """
    n = len(covariance)
    return max((np.trace(covariance) - covariance.sum() / n) / (n - 1), 0.0)


#: The constraint of a parameter `noise`: None (the estimate's own), a standard error, or a model.
NOISE_CONSTRAINT = [None, Interval(Real, 0, None, closed="neither"), Noise]
