"""Projective geometry response: a point of a projective space over a finite field."""

from __future__ import annotations

import math
from functools import lru_cache, reduce
from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.domains import Categories
from .._core.mechanisms.channel import IndexChannel
from .._core.mechanisms.coins import TWO_64, n_reached
from .._core.mechanisms.laws import ReportLaw
from .._core.numerics.finite_field import FiniteField, prime_power
from .._core.numerics.transforms import contract, linear_functions
from .._core.support.locks import cached_property
from .._core.support.random import RandomState
from ._base import BaseOracle

_MAX_FIELD = 64  # beyond, spaces outgrow any domain, and other oracles are as good
# A decoded space has at most this many vectors, or this many per category if that is more.
_SMALL_SPACE = 1 << 20
_SPACE_PER_CATEGORY = 32  # a bound on the time of decoding
_MAX_PRODUCTS = 1 << 16  # cells of the table of products, which should stay in the cache


class ProjectiveGeometryResponse(BaseOracle, tag="projective-geometry-response"):
    """Projective geometry response: nearly the most accurate oracle, with small reports.

    Say `epsilon` and `categories`; the defaults of the rest are good.

    Categories and reports are points of the projective space PG(t-1, g): the K = (g^t - 1)/(g - 1)
    lines through the origin of GF(g)^t, where g is near :math:`e^\\epsilon + 1` and K at least d.
    A report supports the categories orthogonal to it. With probability p the user reports a uniform
    one of the :math:`c = (g^{t-1} - 1)/(g - 1)` points orthogonal to their category, otherwise a
    uniform one of the other points. With :math:`c_2 = (g^{t-2} - 1)/(g - 1)`,

    .. math:: p = \\frac{c\\, e^\\epsilon}{c (e^\\epsilon - 1) + K}, \\qquad
              q = \\frac{c_2 (e^\\epsilon - 1) + c}{c (e^\\epsilon - 1) + K}.

    A report is one integer in [0, K), and decoding takes near-linear time. For 1,000 or more
    categories and epsilon up to 3 the total variance is within 3 % of that of `SubsetSelection`.
    With fewer categories or a larger epsilon, up to 4, it may be 1.5 times as large, if the
    categories fill only a small part of the smallest space that holds them; `best_oracle` compares.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; all that is done with reports is free.

    %(parameters)s
    field_order : "auto" or int, default="auto"
        Number g of elements of the field, a prime or a power of a prime; "auto" takes the one with
        the least total variance.

    %(attributes)s
    field_order_ : int
        The number g of elements of the field.

    See Also
    --------
    sklearn_ldp.best_oracle : Which oracle to take.
    OLH : Nearly as accurate, with two integers per report.
    SubsetSelection : The optimum, with large reports.

    References
    ----------
    .. [1] V. Feldman, J. Nelson, H. Nguyen, K. Talwar, "Private frequency estimation via
       projective geometry", ICML 2022. https://proceedings.mlr.press/v162/feldman22a.html

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import ProjectiveGeometryResponse
    >>> colours = np.repeat(["red", "green", "blue"], [60_000, 30_000, 10_000])
    >>> oracle = ProjectiveGeometryResponse(
    ...     2.0, categories=["red", "green", "blue"], random_state=0
    ... )
    >>> oracle.fit(colours).frequencies_.round(1)
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
        """The number g of elements of the field."""
        return self._fitted("field_order_").mechanism.field.order

    def _make_mechanism(self, domain):
        g = self.field_order
        if isinstance(g, str):
            g = best_field_order(domain.size, float(self.epsilon))
        return ProjectiveChannel(domain.size, self.epsilon, int(g))


@lru_cache(maxsize=64)
def best_field_order(n_categories: int, epsilon: float) -> int:
    """Return the field order of least total variance whose space is quickly decoded."""
    spaces = {g: g ** _n_digits(n_categories, g) for g in _ORDERS}
    limit = max(min(spaces.values()), _SMALL_SPACE, _SPACE_PER_CATEGORY * n_categories)
    decodable = [g for g, size in spaces.items() if size <= limit]
    # Channels are made of those only that may be the best in exact numbers.
    about = {g: _about_variance(n_categories, epsilon, g) for g in decodable}
    near = [g for g in decodable if about[g] <= min(about.values()) * (1 + 1e-6)]
    channels = [ProjectiveChannel(n_categories, epsilon, g) for g in near or decodable]
    return min(channels, key=lambda channel: channel.total_variance()).field.order


_ORDERS = [g for g in range(2, _MAX_FIELD + 1) if prime_power(g) is not None]


def _n_digits(n_categories: int, order: int) -> int:
    """The least number of digits of vectors with this many points."""
    return next(t for t in range(2, 65) if (order**t - 1) // (order - 1) >= n_categories)


def _about_variance(n_categories: int, epsilon: float, order: int) -> float:
    """The total variance of the channel in closed form, in floats; NaN where these do not do."""
    n_digits = _n_digits(n_categories, order)
    points, inside, common = ((order ** (n_digits - i) - 1) / (order - 1) for i in range(3))
    weight, outside = inside * math.exp(min(epsilon, 500.0)), points - inside
    p = weight / (weight + outside)
    q = p * common / inside + (inside - common) / (weight + outside)
    total = n_categories * q * (1 - q) + (p - q) * (1 - p - q)
    return total / (p - q) ** 2 if p > q else math.nan


@lru_cache(maxsize=8)
def _products(order: int) -> tuple[int, np.ndarray]:
    """Return a number h of digits, and <x, y> of all x, y of h digits at place ``x g**h + y``."""
    field, n_digits = FiniteField(order), 1
    while order ** (2 * n_digits + 2) <= _MAX_PRODUCTS:
        n_digits += 1
    table = field.products(n_digits).ravel()
    return n_digits, table.astype(np.min_scalar_type(2 * order - 2))  # a sum of two fits


class ProjectiveChannel(IndexChannel, tag="projective-channel"):
    """Report a point, orthogonal to the category's with probability ``threshold / 2**64``."""

    # Points are vectors whose leading digit is 1. The point whose leading 1 is digit m, and
    # whose digits below form the number x, has the number `(g**m - 1) / (g - 1) + x`.

    report_name = "point"

    def __init__(self, n_categories: int, epsilon: float, order: int):
        g = order
        self.field = FiniteField(g)
        self.n_digits = _n_digits(n_categories, g)
        n_points, n_inside, n_common = ((g ** (self.n_digits - i) - 1) // (g - 1) for i in range(3))
        super().__init__(n_categories, epsilon, n_points, n_inside, n_common)
        # For each leading digit 0, 1, ..: its power, its first point, and the difference between
        # the numbers of a vector and of its point.
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
        """Return the numbers of the vectors of points, and the places of their leading 1."""
        leading = n_reached(self._starts, points) - 1
        return points + self._shifts[leading], leading

    def _product(self, u, v):
        """Return <u, v> of vectors given by their numbers (broadcasting)."""
        n_low, table = _products(self.field.order)
        base, parts = self.field.order**n_low, []
        for _ in range(0, self.n_digits, n_low):
            u_rest, v_rest = u // base, v // base
            parts.append(table.take((u - u_rest * base) * base + (v - v_rest * base)))
            u, v = u_rest, v_rest
        return reduce(self.field.add, parts).astype(np.int64)

    @cached_property
    def _pivots(self):
        """Of each category: vector v, place value of its lowest nonzero digit v_l, and 1 / v_l."""
        vectors = self._vectors(np.arange(self.n_categories))[0]
        place, digit = np.ones_like(vectors), np.zeros_like(vectors)
        for power in self._powers[::-1]:
            found = vectors // power % self.field.order
            place[found > 0], digit[found > 0] = power, found[found > 0]
        return vectors, place, self.field.invert(digit)

    def _solved(self, codes, rest, product):
        """Return the u with <u, v> = product whose digits, except the l-th, are those of `rest`."""
        # As v_l is the lowest nonzero digit of v, the digits of u below the l-th do not
        # matter. Where `rest` has no digits above it either, <u, v> = 0 makes u_l = 0. So u
        # has a leading 1 if `rest` has one.
        v, place, inverse = (table[codes] for table in self._pivots)
        u = rest + rest // place * place * (self.field.order - 1)  # digits from l on move up
        missing = self.field.subtract(product, self._product(u, v))
        return u + self.field.multiply(missing, inverse) * place

    def privatize(self, codes, coins):
        if len(codes) >= self.n_categories * self.n_reports:
            _ = self._listed  # a table is quicker from now on, and costs no more than these users
        return super().privatize(codes, coins)

    @cached_property
    def _listed(self):
        """Numbers of all points for each category in turn, the orthogonal ones first."""
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
        """Return the index-th point u with <u, v> = 0."""
        return self._points(self._solved(codes, self._vectors(index)[0], np.zeros_like(index)))

    def _others(self, codes, index):
        """Return the index-th point u with <u, v> not 0."""
        # Such points lead with u_l, or with a digit above it. In the second case the
        # product may be any number but 0, and takes the place of the leading 1 in the
        # index.
        place = self._pivots[1][codes]
        power = self._powers[n_reached(self._powers, np.maximum(index, 1)) - 1]
        product = index // power
        above = self._solved(codes, index - (product - 1) * power, product)
        return self._points(np.where(index < place, place + index, above))

    def _points(self, vectors):
        """Return the numbers of the points of vectors with a leading 1."""
        return vectors - self._shifts[n_reached(self._powers, vectors) - 1]

    @property
    def report_law(self):
        p = self.threshold / TWO_64  # a quotient of floats, on whose last digit estimates depend
        inside, outside = p / self.n_inside, (1 - p) / (self.n_reports - self.n_inside)
        return ReportLaw(inside, outside, self._spread, self._gather, takes_rows=True)

    @property
    def largest_support(self):
        # The first points are those of a hyperplane.
        return min(self.n_categories, self.n_inside)

    @property
    def _functions(self):
        return linear_functions(self.field.order, self.n_digits)

    # Floats are summed by transforms, of many rows at once; counts, exactly, by `decode`.
    def _spread(self, weights):
        """Return, for each point, the sum of the weights of the categories orthogonal to it."""
        return self._functions.zero_sums(weights)

    def _gather(self, weights):
        """Return, for each category, the sum of the weights of the points orthogonal to it."""
        return self._functions.zero_sums(weights)[: self.n_categories]

    def decode(self, tallies):
        # For each of the first points, the sum over the points orthogonal to it.
        # Points that lead with digit m are (1, x), x being the m digits below, and support v
        # where <x, v below m> + v_m = 0: like reports of local hashing with the value 0, see
        # `contract`.
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
