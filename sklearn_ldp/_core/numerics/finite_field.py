"""Arithmetic with arrays in the finite field GF(g), where g is a prime or a power of a prime."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.polynomial.polynomial import polydiv

from ..common.tags import Tagged

MAX_TABLE = 1024  # the largest prime power with stored tables
# Above this, primes are so close together that a prime power gains nothing over them.
MAX_SUGGESTED_POWER = 256

_MOST_OF_FILE = 1 << 40  # largest order that a file may claim, since the factors take its root


class FiniteField(Tagged, tag="finite-field"):
    """The finite field with g elements, GF(g). Its elements are represented by the integers ``0 ..
    g-1``."""

    # Element `sum c_i p**i` of GF(p**m) represents the polynomial with the coefficients c_i
    # over GF(p), modulo the irreducible polynomial with the smallest code.
    # order: number g of elements, which is a prime, or a power of a prime up to 1024.

    def __init__(self, order: int):
        factors = prime_power(order)
        if factors is None:
            raise ValueError(
                f"There is no finite field with {order} elements. Use a prime or a prime power."
            )
        self.order = order
        self.characteristic, self.degree = factors
        #: Coefficients of the polynomial, lowest first; X itself if the order is a prime.
        self.modulus = [0, 1]
        if self.degree > 1:
            if order > MAX_TABLE:
                raise ValueError(
                    f"Finite fields with more than {MAX_TABLE} elements need a prime number of "
                    f"elements, got {order}, which is a power of a prime. Use a prime."
                )
            self.modulus = _irreducible(self.characteristic, self.degree).tolist()
            self._sum, self._negative, self._product = _tables(self.characteristic, self.degree)

    def __check_state__(self) -> None:
        if not 2 <= self.order <= _MOST_OF_FILE:
            raise ValueError(
                f"A finite field in a file must have 2 to 2**40 elements, got {self.order!r:.80}. "
                "Save the file again."
            )
        FiniteField.__init__(self, self.order)  # everything else follows from the order

    def add(self, x, y):
        """Return the sums x + y in the field."""
        if self.degree == 1:
            return (x + y) % self.order
        if self.characteristic == 2:
            return x ^ y
        return self._sum[x, y]

    def subtract(self, x, y):
        """Return the differences x - y in the field."""
        if self.degree == 1:
            return (x - y) % self.order
        return self.add(x, self._negative[y])

    def multiply(self, x, y):
        """Return the products x * y in the field."""
        if self.degree == 1:
            return (x * y) % self.order
        return self._product[x, y]

    def products(self, n_digits):
        """Return the inner products <x, y> of all pairs of vectors with n_digits entries, as a
        matrix.

        A vector is numbered by the integer whose digits in base g are its entries.
        """
        x = np.arange(self.order**n_digits)
        table = np.zeros((len(x), len(x)), dtype=np.int64)
        for power in self.order ** np.arange(n_digits):
            digit = x // power % self.order
            table = self.add(table, self.multiply(digit[:, None], digit))
        return table

    def power(self, x, n):
        """Return the powers x**n in the field, by repeated squaring."""
        result = np.ones_like(x)
        # Ends: because each pass halves n.
        while n:
            if n & 1:
                result = self.multiply(result, x)
            x, n = self.multiply(x, x), n >> 1
        return result

    def invert(self, x):
        """Return the inverses 1 / x in the field, computed as x**(g-2). The result for 0 is 0."""
        return np.where(x == 0, 0, self.power(x, self.order - 2))


def prime_power(n: int) -> tuple[int, int] | None:
    """Return (p, m) such that n = p**m and p is prime; None if n is not a prime power."""
    if n < 2:
        return None
    p = next((q for q in range(2, int(n**0.5) + 1) if n % q == 0), n)
    m = round(math.log(n, p))
    return (p, m) if n == p**m else None


def field_orders_beside(x: float) -> list[int]:
    """Return the largest field order that is at most x, and the smallest field order above x.

    A field order is a prime or a power of a prime; large powers are omitted. If no order is at most
    x, the list has one number.
    """

    def is_order(n):
        factors = prime_power(n)
        return factors is not None and (factors[1] == 1 or n <= MAX_SUGGESTED_POWER)

    below = next((n for n in range(int(x), 1, -1) if is_order(n)), None)
    above = next(n for n in range(max(int(x), 1) + 1, 2 * int(x) + 4) if is_order(n))
    return [n for n in (below, above) if n is not None]


def _digits(n: np.ndarray, base: int, length: int) -> np.ndarray:
    return n[..., None] // base ** np.arange(length) % base


@lru_cache(maxsize=32)
def _tables(p: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three tables of the field GF(p**m): all sums, all negatives and all products."""
    order = p**m
    weights = p ** np.arange(m)
    digits = _digits(np.arange(order), p, m)
    total = (digits[:, None] + digits[None]) % p @ weights
    negative = -digits % p @ weights
    modulus = _irreducible(p, m)
    # Horner: x * y = (..(y_{m-1} x) X + y_{m-2} x) X + .., reduced by the modulus at each step.
    product = np.zeros((order, order, m), dtype=np.int64)
    for i in reversed(range(m)):
        carry = product[..., -1:]
        product = np.concatenate([np.zeros_like(carry), product[..., :-1]], axis=-1)
        product = product - carry * modulus[:m] + digits[:, None] * digits[None, :, i : i + 1]
        product %= p
    tables = total, negative, product @ weights
    for table in tables:
        table.flags.writeable = False
    return tables


@lru_cache(maxsize=32)
def _irreducible(p: int, m: int) -> np.ndarray:
    """Return the coefficients, from the lowest, of the first irreducible polynomial of degree m
    over GF(p).

    The highest coefficient is 1.
    """
    divisors = [f for n in range(1, m // 2 + 1) for f in _monic(p, n)]
    # There is an irreducible polynomial of every degree.
    return next(f for f in _monic(p, m) if not any(_divides(g, f, p) for g in divisors))


def _monic(p: int, m: int) -> Iterator[np.ndarray]:
    """Yield all polynomials of degree m over GF(p) with highest coefficient 1, as coefficients
    from the lowest."""
    return (np.append(_digits(np.array(code), p, m), 1) for code in range(p**m))


def _divides(divisor: np.ndarray, polynomial: np.ndarray, p: int) -> bool:
    # The quotient has integer coefficients because the divisor is monic; they fit into floats.
    return not np.any(polydiv(polynomial, divisor)[1] % p)
