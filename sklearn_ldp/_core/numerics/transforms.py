"""Fast sums over vectors with entries in a finite field, by Walsh-Hadamard and Fourier transforms.

A vector is numbered by the integer whose digits in base g are its entries, where g is the number of
field elements.
"""

from __future__ import annotations

from functools import lru_cache, reduce

import numpy as np
from scipy import fft
from scipy.linalg import hadamard

from ..common.locks import cached_property
from .finite_field import FiniteField

_AT_ONCE = 5  # the number of index bits that one matrix product transforms
_EXACT = 2**53  # floats represent whole numbers up to this exactly


def walsh_hadamard(x: np.ndarray) -> np.ndarray:
    """Return the Walsh-Hadamard transform along the last axis, whose length K is a power of two.

    Shapes: x (..., K) -> (..., K).
    The entry r of the result is the sum of ``x[y] * (-1)**popcount(r & y)`` over all y. For
    integers it is exact.
    """
    if x.dtype.kind not in "iub":
        return _by_products(x)
    whole = x.astype(np.int64)
    if np.abs(whole, dtype=np.float64).sum(axis=-1).max(initial=0) < _EXACT:
        return np.rint(_by_products(whole)).astype(np.int64)
    return _by_pairs(whole)


def _by_products(x: np.ndarray) -> np.ndarray:
    """Return the Walsh-Hadamard transform, computed by products with small Hadamard matrices."""
    size = x.shape[-1]
    result = x.reshape(-1, size).astype(np.float64)
    n_left = size.bit_length() - 1
    if n_left <= _AT_ONCE:  # one product for all rows together
        return (result @ _matrix(n_left)).reshape(x.shape)
    # Ends: because each pass handles at least one of the bits.
    while n_left:
        n_bits = -(-n_left // -(-n_left // _AT_ONCE))  # nearly the same number in each pass
        split = result.reshape(len(result), 1 << n_bits, size >> n_bits)
        result = (_matrix(n_bits) @ split).swapaxes(1, 2).reshape(len(result), size)
        n_left -= n_bits
    return result.reshape(x.shape)


def _by_pairs(x: np.ndarray) -> np.ndarray:
    """Return the Walsh-Hadamard transform, computed by additions of integers.

    It is for integers that are too large for floats to represent them exactly.
    """
    shape = x.shape
    size = x.shape[-1]
    step = 1
    while step < size:
        pairs = x.reshape(*shape[:-1], size // (2 * step), 2, step)
        even, odd = pairs[..., 0, :], pairs[..., 1, :]
        x = np.stack([even + odd, even - odd], axis=-2).reshape(shape)
        step *= 2
    return x


@lru_cache
def _matrix(n_bits: int) -> np.ndarray:
    return hadamard(1 << n_bits, dtype=np.float64)


_CACHE = 2**18  # bytes of sums that are processed together
_PLACES = 2**20  # number of summands that are in memory together


def contract(
    field: FiniteField, tables: np.ndarray, n_digits: int, n_codes: int, n_values: int = 1
) -> np.ndarray:
    """Return, for each vector v and value s, the number of reports (a, t) with ``<a, v> + s = t``.

    A report consists of a vector a of k digits and a value t. The tables contain the number of each
    report: report (a, t) is at the index ``a * g + t``, where a is the integer with the digits
    a_{k-1} .. a_0 in base g. The results are for the first `n_codes` vectors v. `n_values` is 1 if
    only s = 0 is needed, or g for all s.

    Shapes: tables (m, g**(k + 1)) -> (m, n_codes, n_values).
    [1] V. Feldman, J. Nelson, H. Nguyen, K. Talwar, "Private frequency estimation via
    projective geometry", ICML 2022. https://proceedings.mlr.press/v162/feldman22a.html (the
    dynamic program of section 4, for prime g).
    """
    # `T[a_{k-1}, .., a_0, t]` becomes `T'[v_{k-1}, a_{k-2}, .., t] = sum over a_{k-1} of
    # T[a_{k-1}, .., t + a_{k-1} v_{k-1}]`. The other digits follow in the same way; at the end t =
    # s. The cost is O(k g**(k + 2)) for tables of g**(k + 1) counts.
    g = field.order
    k = n_digits
    m = len(tables)
    table = tables.reshape(1, m, g, g ** (k - 1), g)
    for j in reversed(range(k)):
        # Axes: digits of v computed so far, table, digit a_j, digits below, t.
        n_above = table.shape[0]
        n_below = g**j
        flat = np.ascontiguousarray(table.transpose(2, 4, 0, 1, 3)).reshape(g * g, -1)
        # Only the first, highest digit can be limited by the number of codes.
        n_asked = min(g, -(-n_codes // n_below)) if n_above == 1 else g
        summed = _sum_over_digit(field, flat, n_asked, g if j else n_values)
        summed = summed.reshape(*summed.shape[:2], n_above, m, n_below)
        table = summed.transpose(2, 0, 3, 4, 1).reshape(n_above * n_asked, m, n_below, -1)
        if j:
            table = table.reshape(-1, m, g, n_below // g, g)
    return table.reshape(-1, m, n_values).transpose(1, 0, 2)[:, :n_codes]


def _sum_over_digit(
    field: FiniteField, flat: np.ndarray, n_asked: int, n_values: int
) -> np.ndarray:
    """Return, for each digit v and value t, the sum over all digits a of the row (a, t + a v) of a
    table.

    The row (a, t) of `flat` has the index ``a * g + t``. There are `n_asked` digits v and
    `n_values` values t.
    """
    g = field.order
    n_columns = flat.shape[1]
    summed = np.empty((n_asked, n_values, n_columns), dtype=flat.dtype)
    some = max(_PLACES // (g * n_values), 1)
    for first in range(0, n_asked, some):
        slab = summed[first : first + some]
        a, v, t = np.ogrid[:g, first : first + len(slab), :n_values]
        places = a * g + field.add(t, field.multiply(a, v))
        # The sum runs block by block, so that the data stay in the processor's cache.
        width = max(_CACHE // slab[:, :, 0].nbytes, 64)
        for start in range(0, n_columns, width):
            block = slice(start, start + width)
            columns = np.ascontiguousarray(flat[:, block])
            total = columns[places[0]]
            for place in places[1:]:
                total += columns[place]
            slab[:, :, block] = total
    return summed


_MAX_PRODUCTS = 1 << 18  # one-byte cells of a table of products, which stays in the cache


@lru_cache(maxsize=4)
def linear_functions(order: int, n_digits: int) -> LinearFunctions:
    """Return the linear functions on GF(order)**n_digits from a cache, because they are large."""
    return LinearFunctions(FiniteField(order), n_digits)


class LinearFunctions:
    """The linear functions ``v -> <a, v>`` on GF(g)**k, without multiples of each other.

    A report (a, t) consists of a function a and a value t. It supports the vectors v with ``<a, v>
    = t``.
    """

    # Vectors are numbers with k digits in base g. Function 0 is zero. The other functions are those
    # with the leading digit 1, in order. A report (a, t) supports the vectors v with <a, v> = t,
    # and so does its multiple (c a, c t), so one of each set of multiples is enough. With the
    # additive characters chi of the field and c ranging over the field, `[<a, v> = t] = sum over c
    # of chi(c <a, v>) chi(-c t) / g`. So sums over level sets need two transforms. The first is
    # along t, and gives a value for each c, which is stored at index c a. The second is along all
    # indices. They cost O(k g**k log g), because every vector equals c a for one pair.
    # field: GF(g).
    # n_digits: dimension k of the space.

    def __init__(self, field: FiniteField, n_digits: int):
        g = field.order
        self.field = field
        self.n_digits = n_digits
        self.n_vectors = g**n_digits
        self.n_functions = 1 + (self.n_vectors - 1) // (g - 1)

    @cached_property
    def vectors(self) -> np.ndarray:
        """The vector a of each function ``v -> <a, v>``."""
        powers = [self.field.order**m for m in range(self.n_digits)]
        return np.concatenate([[0], *(np.arange(power, 2 * power) for power in powers)])

    def of_uniform_vectors(self, numbers: np.ndarray) -> np.ndarray:
        """Convert uniformly drawn numbers of vectors to numbers of functions.

        A result has the same distribution as the function of which a uniformly drawn vector is a
        multiple.
        """
        return -(-numbers // (self.field.order - 1))

    # -- values -------------------------------------------------------------------------------
    @cached_property
    def _products(self) -> tuple[int, np.ndarray | None]:
        """A number h of digits, and a table of the inner products of all vectors with h digits.

        If the table would be too large, it is None and h is 1.
        """
        # Without a table, h is 1, and digits are multiplied as numbers modulo g.
        g = self.field.order
        field = self.field
        n_low = next(h for h in range(1, 18) if g ** (2 * h + 2) > _MAX_PRODUCTS)
        if field.degree == 1 and n_low == 1:
            return 1, None
        return n_low, field.products(n_low).astype(np.min_scalar_type(g - 1))

    def pieces(self, vectors: np.ndarray) -> list[np.ndarray]:
        """Split each vector into pieces of h digits, for each of which `values` uses one step.

        Return a list with an array for each piece, in the order of the vectors.
        """
        n_low, table = self._products
        base = self.field.order**n_low
        # Without a table, the sum of k products of digits must fit into the integer type.
        small = self.n_digits * base**2 < 2**31
        dtype = np.int64 if table is None and not small else np.int32
        return [
            (vectors // base**i % base).astype(dtype) for i in range(-(-self.n_digits // n_low))
        ]

    @cached_property
    def _pieces(self) -> list[np.ndarray]:
        return self.pieces(self.vectors)

    def values(
        self, functions: np.ndarray, pieces: list[np.ndarray], codes: np.ndarray
    ) -> np.ndarray:
        """Return the value of each function at each vector. `functions` and `codes` broadcast.

        `pieces` is the result of `pieces` for a list of vectors, and `codes` contains indices of
        this list.
        """
        # `pieces` contains the pieces of all vectors; `codes` are indices of that list of
        # vectors.
        _, table = self._products

        def product(own: np.ndarray, other: np.ndarray) -> np.ndarray:
            u, v = own.take(functions), other.take(codes)
            return u * v if table is None else table.take(u * table.shape[1] + v)

        terms = (product(*both) for both in zip(self._pieces, pieces, strict=True))
        total = reduce(np.add if table is None else self.field.add, terms)
        return total % self.field.order if table is None else total

    @cached_property
    def _multiples(self) -> np.ndarray:
        """For each function a except 0 (row) and each field element c (column), the number of the
        vector c a."""
        g = self.field.order
        c = np.arange(self.field.order)
        result = np.zeros((self.n_functions - 1, g), dtype=np.int64)
        for power in g ** np.arange(self.n_digits):
            digit = self.vectors[1:, None] // power % g
            result += self.field.multiply(digit, c) * power
        return result

    @cached_property
    def _normal_form(self) -> tuple[np.ndarray, np.ndarray]:
        """For each vector v, the index of a function and a factor c.

        The function with this index is defined by the vector c v.
        """
        functions, factor = np.zeros((2, self.n_vectors), dtype=np.int64)
        inverse = self.field.invert(np.arange(self.field.order))
        functions[self._multiples[:, 1:]] = np.arange(1, self.n_functions)[:, None]
        factor[self._multiples[:, 1:]] = inverse[1:]
        factor[0] = 1
        return functions, factor

    def normalised(self, vectors: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert reports (vector, value) to equivalent reports (function, value).

        Equivalent reports support the same vectors.
        """
        functions, factor = self._normal_form
        return functions[vectors], self.field.multiply(values, factor[vectors])

    # -- sums ---------------------------------------------------------------------------------
    def gather(self, tables: np.ndarray) -> np.ndarray:
        """Return, for each vector, the sum of the table's entries for the reports that support the
        vector.

        Shapes: tables (m, n_functions, g) -> (m, n_vectors).
        The sums are floats. If the entries are counts, the sums must be rounded; they are then
        exact for at least 2**40 reports.
        """
        g = self.field.order
        is_real = self.field.characteristic == 2
        sums = np.empty((len(tables), self.n_vectors))
        for i in range(0, len(tables), 1 if is_real else 2):
            # Two real tables are combined into one complex table.
            table = tables[i].astype(np.float64)
            if not is_real and i + 1 < len(tables):
                table = table + 1j * tables[i + 1]
            spectrum = self._transform(table[1:], 1)
            places = np.empty(self.n_vectors, dtype=spectrum.dtype)
            places[self._places] = spectrum
            places[0] = spectrum[:, 0].sum()
            pair_sum = self._transform(places, self.n_digits, inverse=True) / g + table[0, 0]
            sums[i] = pair_sum.real
            if not is_real and i + 1 < len(tables):
                sums[i + 1] = pair_sum.imag
        return sums

    def spread(self, weights: np.ndarray) -> np.ndarray:
        """Return, for each report (function, value), the sum of the weights of the vectors that it
        supports.

        Shapes: weights (..., n_vectors) -> (..., n_functions, g).
        """
        sums = np.zeros((*weights.shape[:-1], self.n_functions, self.field.order))
        places = self._transform(weights, self.n_digits, inverse=True)
        spectrum = places.take(self._places, axis=-1)
        np.divide(self._transform(spectrum, 1).real, self.field.order, out=sums[..., 1:, :])
        sums[..., 0, 0] = weights.sum(axis=-1)
        return sums

    def zero_sums(self, weights: np.ndarray) -> np.ndarray:
        """Return, for each function, the sum of the weights of the vectors that it maps to 0.

        A vector a defines the linear function v -> <a, v>. The zero function is left out.
        Shapes: weights (..., n) -> (..., n_functions - 1).
        weights: the weights of the n vectors that define the first n of these functions. All other
        vectors have weight 0.
        """
        # A vector with the leading digit 1 in place m is (1, x), where x are the m digits below. A
        # function a maps it to 0 if <a below m, x> = -a_m. So the sums of these vectors are sums
        # over level sets of the functions on m digits, of which there are about g times fewer.
        # The only vector of m = 0 has the number 1, and is mapped to 0 if a_0 = 0.
        sums = weights[..., :1] * (self.vectors[1:] % self.field.order == 0)
        for lower, functions, values in self._level_sets:
            start = lower.n_functions - 1
            own = weights[..., start : start + lower.n_vectors]
            if not own.shape[-1]:
                break
            padded = np.zeros((*weights.shape[:-1], lower.n_vectors))
            padded[..., : own.shape[-1]] = own
            levels = lower.spread(padded)
            sums += levels[..., functions, values]
        return sums

    @cached_property
    def _level_sets(self) -> list[tuple[LinearFunctions, np.ndarray, np.ndarray]]:
        """For each number of digits m from 1 to k - 1: the functions on m digits, and reports.

        The reports are arrays of functions and values, with one report for each function a of this
        object except 0. The report of a supports the vectors x with <a below m, x> = -a_m.
        """
        g = self.field.order
        sets = []
        for m in range(1, self.n_digits):
            below, digit = self.vectors[1:] % g**m, self.vectors[1:] // g**m % g
            value = self.field.subtract(np.zeros_like(digit), digit)
            lower = linear_functions(g, m)
            sets.append((lower, *lower.normalised(below, value)))
        return sets

    def _transform(self, x: np.ndarray, n_digits: int, inverse: bool = False) -> np.ndarray:
        """Return the Fourier transform along the last axis, which contains one entry per vector.

        Shapes: x (..., g**k) -> (..., g**k), for the vectors of k digits in a field of g elements.
        The result is complex, or real if the field has characteristic 2. It is not normalized.
        """
        # Vectors are added by adding the base-p digits of their numbers, where p is the
        # characteristic.
        p = self.field.characteristic
        if p == 2:
            return walsh_hadamard(x)
        split = x.reshape(*x.shape[:-1], *[p] * (self.field.degree * n_digits))
        axes = range(x.ndim - 1, split.ndim)
        if inverse:
            return fft.ifftn(split, axes=axes, norm="forward").reshape(x.shape)
        return fft.fftn(split, axes=axes).reshape(x.shape)

    @cached_property
    def _places(self) -> np.ndarray:
        """For each function a except 0 (row) and each c (column), the index of the vector c a in
        the results of `_transform`."""
        # The character chi(x y), as a character of the base-p digits of y, has the i-th
        # digit trace(x p**i); the number p**i is the i-th element of the basis.
        g = self.field.order
        field = self.field
        places = self._multiples
        if field.degree > 1:
            dual = self._dual
            multiples = places[:, np.argsort(self._dual)]
            places = np.zeros_like(multiples)
            for power in g ** np.arange(self.n_digits):
                places += dual[multiples // power % g] * power
        return places.astype(np.int32 if self.n_vectors < 2**31 else np.int64)

    @cached_property
    def _dual(self) -> np.ndarray:
        """For each field element x, the integer whose digits in base p are trace(x p**i)."""
        field = self.field
        x = np.arange(self.field.order)
        p = field.characteristic
        dual = np.zeros_like(x)
        for i in range(field.degree):
            trace = power = field.multiply(x, p**i)
            for _ in range(field.degree - 1):
                power = field.power(power, p)
                trace = field.add(trace, power)
            dual += trace * p**i
        return dual


def scattered(n: int, n_places: int) -> np.ndarray:
    """Return the first n numbers of a fixed permutation of ``range(n_places)`` that looks random.

    Shapes: -> (n,).
    n_places: size of the range, at least n.
    """
    # This is part of the protocol: it must never change. It applies bijections of the words
    # that have as many bits as the range needs (multiplication by an odd number, xor with the
    # higher half), and repeats them while the result is outside of the range.
    n_bits = max((n_places - 1).bit_length(), 1)
    mask = np.uint64((1 << n_bits) - 1)
    shift = np.uint64(-(-n_bits // 2))
    numbers = np.arange(n, dtype=np.uint64)
    outside = np.arange(n)
    # Ends: because a bijection leads from a number in the range back into the range.
    while outside.size:
        x = numbers[outside]
        for factor in _FACTORS:
            x = (x * factor + (factor >> np.uint64(32))) & mask
            x ^= x >> shift
        numbers[outside] = x
        outside = outside[x >= n_places]
    return numbers.astype(np.int64)


# Odd multipliers of S. Vigna's SplitMix64, of Fibonacci hashing, and of G. Steele's and S. Vigna's
# tables.
_FACTORS = np.array(
    [0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0x9E3779B97F4A7C15, 0xD1342543DE82EF95],
    dtype=np.uint64,
)


def mixed(x: np.ndarray) -> np.ndarray:
    """Mix the bits of each 64-bit word by a bijection, the last step of SplitMix64."""
    # The constants are those of S. Vigna's SplitMix64 (variant 13 of D. Stafford). This is part
    # of the protocol: it must never change.
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
