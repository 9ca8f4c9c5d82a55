"""Projective geometry response: a report is a point of a projective space over a finite field."""

from __future__ import annotations

import math
from functools import lru_cache, reduce
from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.common.locks import cached_property
from .._core.common.random import RandomState
from .._core.domains import Categories
from .._core.mechanisms.channel import IndexChannel
from .._core.mechanisms.coins import PROBABILITY_UNIT, n_reached
from .._core.mechanisms.laws import ReportLaw
from .._core.numerics.finite_field import FiniteField, prime_power
from .._core.numerics.transforms import contract, linear_functions
from ._base import BaseOracle

_MAX_FIELD = 64  # larger fields have too large spaces, and other oracles are as good
# The maximum number of vectors of a decoded space: the first number, or the second per category if
# larger.
_SMALL_SPACE = 1 << 20
_SPACE_PER_CATEGORY = 32  # a bound on the time of decoding
_MAX_PRODUCTS = 1 << 16  # cells of the table of products, which should stay in the cache


class ProjectiveGeometryResponse(BaseOracle, tag="projective-geometry-response"):
    """Projective geometry response: small reports, and nearly the minimum variance.

    Specify `epsilon` and `categories`; the defaults of the other parameters are good.

    Let GF(g) be the finite field with g elements, where g is near :math:`e^\\epsilon + 1`. The
    points of the projective space PG(t-1, g) are the K = (g^t - 1)/(g - 1) lines through the origin
    of GF(g)^t. The dimension t is large enough for d categories: K is at least d. Each category is
    assigned to one point, and a report is one of the K points. A report supports (counts in favor
    of) the categories whose points are orthogonal to it.

    For each category there are :math:`c = (g^{t-1} - 1)/(g - 1)` orthogonal points. With
    probability p the report is drawn uniformly from these points, otherwise from all other points.
    The report is orthogonal to a given other category with probability q. With
    :math:`c_2 = (g^{t-2} - 1)/(g - 1)`,

    .. math:: p = \\frac{c\\, e^\\epsilon}{c (e^\\epsilon - 1) + K}, \\qquad
              q = \\frac{c_2 (e^\\epsilon - 1) + c}{c (e^\\epsilon - 1) + K}.

    A report is one integer in [0, K), and the time of decoding is nearly linear in K. For 1,000 or
    more categories and epsilon up to 3, the total variance is at most 3 % larger than with
    :class:`SubsetSelection`. For fewer categories, or for epsilon between 3 and 4, it may be 1.5
    times as large, if K is much larger than d for every possible g.
    :func:`~sklearn_ldp.best_oracle` compares the oracles.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; everything computed from reports is free.

    %(parameters)s
    field_order : "auto" or int, default="auto"
        Number g of elements of the field, a prime or a power of a prime; "auto" chooses the order
        with the minimum total variance.

    %(attributes)s
    field_order_ : int
        The number g of elements of the field.

    See Also
    --------
    sklearn_ldp.best_oracle : The choice of an oracle.
    OLH : Nearly as accurate, with two integers per report.
    SubsetSelection : The oracle with the minimum variance; its reports are large.

    References
    ----------
    .. [1] V. Feldman, J. Nelson, H. Nguyen, K. Talwar, "Private frequency estimation via
       projective geometry", ICML 2022. https://proceedings.mlr.press/v162/feldman22a.html

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import ProjectiveGeometryResponse
    >>> colors = np.repeat(["red", "green", "blue"], [60_000, 30_000, 10_000])
    >>> oracle = ProjectiveGeometryResponse(
    ...     2.0, categories=["red", "green", "blue"], random_state=0
    ... )
    >>> oracle.fit(colors).frequencies_.round(1)
    array([0.6, 0.3, 0.1])
    """

    _parameter_constraints: dict = {
        **BaseOracle._parameter_constraints,
        "field_order": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        categories: Categories = "auto",
        input: str = "values",
        n_shards: int = 10,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        field_order: int | str = "auto",
    ) -> None:
        self._store(epsilon, categories, input, n_shards, random_state, n_jobs)
        self.field_order = field_order

    @property
    def field_order_(self) -> int:
        """The number of elements of the finite field."""
        return self._fitted("field_order_").mechanism.field.order

    def _make_mechanism(self, domain):
        g = self.field_order
        if isinstance(g, str):
            g = best_field_order(domain.size, float(self.epsilon))
        return ProjectiveChannel(domain.size, self.epsilon, int(g))


@lru_cache(maxsize=64)
def best_field_order(n_categories: int, epsilon: float) -> int:
    """Return the order g of the finite field with the smallest total variance.

    Orders with slow decoding (large spaces of vectors) are not considered.
    """
    spaces = {g: g ** _n_digits(n_categories, g) for g in _ORDERS}
    limit = max(min(spaces.values()), _SMALL_SPACE, _SPACE_PER_CATEGORY * n_categories)
    decodable = [g for g, size in spaces.items() if size <= limit]
    # Channels are only constructed for orders that may be the best in exact arithmetic.
    about = {g: _about_variance(n_categories, epsilon, g) for g in decodable}
    near = [g for g in decodable if about[g] <= min(about.values()) * (1 + 1e-6)]
    channels = [ProjectiveChannel(n_categories, epsilon, g) for g in near or decodable]
    return min(channels, key=lambda channel: channel.total_variance()).field.order


_ORDERS = [g for g in range(2, _MAX_FIELD + 1) if prime_power(g) is not None]


def _n_digits(n_categories: int, order: int) -> int:
    """Return the minimum dimension t of vectors over GF(order) with at least `n_categories`
    points."""
    return next(t for t in range(2, 65) if (order**t - 1) // (order - 1) >= n_categories)


def _about_variance(n_categories: int, epsilon: float, order: int) -> float:
    """Return the total variance in closed form, computed in floats. It is NaN if p <= q."""
    n_digits = _n_digits(n_categories, order)
    points, inside, common = ((order ** (n_digits - i) - 1) / (order - 1) for i in range(3))
    weight = inside * math.exp(min(epsilon, 500.0))
    outside = points - inside
    p = weight / (weight + outside)
    q = p * common / inside + (inside - common) / (weight + outside)
    total = n_categories * q * (1 - q) + (p - q) * (1 - p - q)
    return total / (p - q) ** 2 if p > q else math.nan


@lru_cache(maxsize=8)
def _products(order: int) -> tuple[int, np.ndarray]:
    """Return a number h of digits, and a table of the inner products of all vectors with h digits.

    A vector is written as an integer with digits in base g = `order`. The inner product of x and y
    is at the position ``x g**h + y`` of the table.
    """
    field = FiniteField(order)
    n_digits = 1
    while order ** (2 * n_digits + 2) <= _MAX_PRODUCTS:
        n_digits += 1
    table = field.products(n_digits).ravel()
    return n_digits, table.astype(np.min_scalar_type(2 * order - 2))  # the sum of two products fits


class ProjectiveChannel(IndexChannel, tag="projective-channel"):
    """Mechanism of :class:`ProjectiveGeometryResponse`: a report is a point of a projective space.

    With probability ``threshold / 2**64`` the point is orthogonal to the point of the user's
    category.
    """

    # Points are vectors with leading digit 1. If the leading 1 is digit m, and the digits below it
    # form the number x, the number of the point is `(g**m - 1) / (g - 1) + x`.

    report_name = "point"

    def __init__(self, n_categories: int, epsilon: float, order: int):
        g = order
        self.field = FiniteField(g)
        self.n_digits = _n_digits(n_categories, g)
        n_points, n_inside, n_common = ((g ** (self.n_digits - i) - 1) // (g - 1) for i in range(3))
        super().__init__(n_categories, epsilon, n_points, n_inside, n_common)
        # For each leading digit 0, 1, ..: the power of g, the first point, and the difference
        # between the numbers of a vector and of its point.
        self._powers = np.array([g**m for m in range(self.n_digits)])
        self._starts = (self._powers - 1) // (g - 1)
        self._shifts = self._powers - self._starts

    @property
    def configuration(self):
        return {"field_order": self.field.order}

    def decode_operations(self, n_samples):
        return n_samples + self.n_digits * self.field.order ** (self.n_digits + 1)

    def supports(self, reports, codes):
        return self._product(self._vectors(reports)[0][:, None], self._vectors(codes)[0]) == 0

    def _vectors(self, points):
        """Convert numbers of points to the vectors that represent them.

        A vector represents a point if its highest nonzero digit is 1. Return the vectors, as
        integers in base g, and the position of the digit 1 in each vector.
        """
        leading = n_reached(self._starts, points) - 1
        return points + self._shifts[leading], leading

    def _product(self, u, v):
        """Return the inner products <u, v> of vectors. `u` and `v` contain integers in base g, and
        broadcast."""
        n_low, table = _products(self.field.order)
        base = self.field.order**n_low
        parts = []
        for _ in range(0, self.n_digits, n_low):
            u_rest, v_rest = u // base, v // base
            parts.append(table.take((u - u_rest * base) * base + (v - v_rest * base)))
            u, v = u_rest, v_rest
        return reduce(self.field.add, parts).astype(np.int64)

    @cached_property
    def _pivots(self):
        """Three arrays with an entry for each category.

        The entries are the vector v of the category, as an integer in base g; the place value of
        its lowest nonzero digit v_l; and 1 / v_l.
        """
        vectors = self._vectors(np.arange(self.n_categories))[0]
        place = np.ones_like(vectors)
        digit = np.zeros_like(vectors)
        for power in self._powers[::-1]:
            digits = vectors // power % self.field.order
            place[digits > 0] = power
            digit[digits > 0] = digits[digits > 0]
        return vectors, place, self.field.invert(digit)

    def _solved(self, codes, rest, product):
        """Return vectors u with <u, v> = `product`, where v is the vector of each code.

        Let v_l be the lowest nonzero digit of v. All digits of u except the l-th are the digits of
        `rest`; the l-th digit is determined by the product.
        """
        # The digits of u below the l-th do not matter, because v_l is the lowest nonzero digit of
        # v. If `rest` has no digits above the l-th either, <u, v> = 0 implies u_l = 0. So u has a
        # leading 1 if `rest` has a leading 1.
        v, place, inverse = (table[codes] for table in self._pivots)
        u = rest + rest // place * place * (self.field.order - 1)  # digits from l on move up
        missing = self.field.subtract(product, self._product(u, v))
        return u + self.field.multiply(missing, inverse) * place

    def privatize(self, codes, coins):
        if len(codes) >= self.n_categories * self.n_reports:
            _ = self._listed  # from here on a table is faster, and it costs less than these users
        return super().privatize(codes, coins)

    @cached_property
    def _listed(self):
        """A flat array that contains, for each category, the numbers of all points.

        The points that are orthogonal to the category are first.
        """
        codes = np.arange(self.n_categories)[:, None]
        sets = [(self._orthogonal, self.n_inside), (self._others, self.n_reports - self.n_inside)]
        rows = [f(*map(np.ravel, np.broadcast_arrays(codes, np.arange(n)))) for f, n in sets]
        table = np.concatenate([x.reshape(len(codes), -1) for x in rows], axis=1)
        return table.astype(np.min_scalar_type(self.n_reports - 1)).ravel()

    def _inside(self, codes, index):
        if "_listed" in vars(self):
            return self._listed.take(codes.astype(np.int64) * self.n_reports + index)
        return self._orthogonal(codes, index)

    def _outside(self, codes, index):
        if "_listed" in vars(self):
            index = index + self.n_inside
            return self._listed.take(codes.astype(np.int64) * self.n_reports + index)
        return self._others(codes, index)

    def _orthogonal(self, codes, index):
        """Return the number of the index-th point that is orthogonal to each user's category."""
        return self._points(self._solved(codes, self._vectors(index)[0], np.zeros_like(index)))

    def _others(self, codes, index):
        """Return the number of the index-th point not orthogonal to each user's category."""
        # The leading digit of such a point is u_l, or a digit above it. In the second case the
        # product may be any number except 0, and replaces the leading 1 in the index.
        place = self._pivots[1][codes]
        power = self._powers[n_reached(self._powers, np.maximum(index, 1)) - 1]
        product = index // power
        above = self._solved(codes, index - (product - 1) * power, product)
        return self._points(np.where(index < place, place + index, above))

    def _points(self, vectors):
        """Convert vectors with highest nonzero digit 1 (integers in base g) to the numbers of
        their points."""
        return vectors - self._shifts[n_reached(self._powers, vectors) - 1]

    @property
    def report_law(self):
        p = (
            self.threshold / PROBABILITY_UNIT
        )  # a float quotient; estimates depend on its last digit
        inside, outside = p / self.n_inside, (1 - p) / (self.n_reports - self.n_inside)
        return ReportLaw(inside, outside, self._spread, self._gather, takes_rows=True)

    @property
    def largest_support(self):
        # The first points form a hyperplane.
        return min(self.n_categories, self.n_inside)

    @property
    def _functions(self):
        return linear_functions(self.field.order, self.n_digits)

    # Transforms sum floats, of many rows together; `decode` sums counts exactly.
    def _spread(self, weights):
        """Return, for each point, the sum of the weights of the categories that are orthogonal to
        it.

        `weights` contains a weight for each category.
        """
        return self._functions.zero_sums(weights)

    def _gather(self, weights):
        """Return, for each category, the sum of the weights of the points that are orthogonal to
        it.

        `weights` contains a weight for each point.
        """
        return self._functions.zero_sums(weights)[: self.n_categories]

    def decode(self, tallies):
        # Returns, for each of the first points, the sum over the points orthogonal to it. A point
        # with the leading digit m is (1, x), where x are the m digits below. It supports v if
        # <x, v below m> + v_m = 0, like a report of local hashing with the value 0: see `contract`.
        g = self.field.order
        vectors = self._vectors(np.arange(self.n_categories))[0]
        support = np.where(vectors % g == 0, tallies[:, :1], 0)  # the point of m = 0
        for row, tally in zip(support, tallies, strict=True):
            for m in range(1, self.n_digits):
                power = g**m
                digit = vectors // power % g
                points = tally[self._starts[m] : self._starts[m] + power]
                table = np.zeros((1, power, g), dtype=tallies.dtype)
                table[0, :, 0] = points
                below = vectors % power
                n_codes = int(below.max()) + 1
                row += contract(self.field, table.reshape(1, -1), m, n_codes, g)[0, below, digit]
        return support
