"""The parts of a StringOracle: each part of the users reports prefixes of one length.

The prefixes are hashed with linear functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from .._core.common.locks import cached_property
from .._core.common.numbers import (
    check_number,
    check_power,
    frequencies_below_1,
    positive_numbers,
)
from .._core.domains import StringCoder, StringDomain
from .._core.domains.canonical import list_digest
from .._core.mechanisms.coins import PROBABILITY_UNIT, direct_threshold, exp_lower_bound
from .._core.numerics.finite_field import MAX_SUGGESTED_POWER, FiniteField, prime_power
from .._core.numerics.transforms import mixed
from ._local_hashing import LinearHash, MixingHash

MOST_EXPECTED_USERS = 1 << 40
_DIGEST_BITS = 40  # of a prefix: together with the new digits, a code has fewer than 63 bits
# Maximum numbers of extensions of the empty prefix, and of each other prefix.
_MOST_FIRST = 1 << 20
_MOST_NEXT = 1 << 18
_BUCKETS = 1 << 18, 1 << 21  # minimum and maximum number of buckets of the held-out part
_MOST_CELLS = 1 << 22  # maximum number of counts in the tally of a part
_USERS_OF_FUNCTION = 4  # expected users per function, if the tally is not too large
_MOST_ORDER = 1 << 9
_MOST_PARTS = 24
_HELD_OUT = 0.15  # the best of .10, .15 and .20 by recall of random strings: notes on strings
_ROWS = 1 << 15  # strings that are encoded at a time


class PrefixHash(LinearHash):
    """Mechanism of a part of :class:`StringOracle`: a report is a hash function and a hash value.

    The value is the hash of a prefix of the user's string, after randomized response.
    """

    # A code is `digest * g**k + e`, where e has the k new digits of the prefix, and the digest
    # represents all digits before them. The value of a function is `<a, e> + s`, where a is a
    # linear function on GF(g)^k, and s mixes the digest with the number of the function: there
    # are `n_copies` functions with the same a. So two extensions of one prefix have the same
    # value with probability exactly 1 / g, and a Fourier transform counts the reports for all
    # extensions. Two different prefixes have the same value with this probability if the mixing is
    # ideal.
    # A tally counts each distinct report, so it contains all information of the reports, and its
    # size does not depend on the number of reports.

    def __init__(self, field: FiniteField, n_digits: int, n_copies: int, threshold: int) -> None:
        self.field = field
        self.n_digits = n_digits
        self.n_copies = n_copies
        self.threshold = threshold
        self.p, self.q = Fraction(threshold, PROBABILITY_UNIT), Fraction(1, field.order)
        self.n_extensions = field.order**n_digits
        self.n_linear = 1 + (self.n_extensions - 1) // (field.order - 1)
        self.n_functions = self.n_linear * n_copies

    @property
    def configuration(self):
        sizes = {"hash_range": self.field.order, "hash_dimension": self.n_digits}
        return {**sizes, "n_copies": self.n_copies}

    def _identity(self):
        return *super()._identity(), self.p

    @property
    def is_informative(self):
        return self.q < self.p

    # -- on the client ------------------------------------------------------------------------
    def _of_draws(self, draws):
        copies, vectors = np.divmod(draws, self.n_extensions)
        return copies * self.n_linear + self.functions.of_uniform_vectors(vectors)

    def hash(self, functions, codes):
        digests, extensions = np.divmod(codes.astype(np.int64), self.n_extensions)
        linear = functions % self.n_linear
        pieces = self.functions.pieces(extensions)
        values = self.functions.values(linear, pieces, np.arange(len(extensions)))
        return self.field.add(values.astype(np.int64), self._shifts(functions, digests))

    def _shifts(self, functions: np.ndarray, digests: np.ndarray) -> np.ndarray:
        """Return, for each user, the shift that is added to the value of the linear hash function.

        It depends on the function, and on the digest of the digits before the last digits of the
        prefix.
        """
        mixing = MixingHash(self.field.order, self.threshold)
        return mixing.hash(functions, digests.astype(np.uint64)).astype(np.int64)

    # -- on the server ------------------------------------------------------------------------
    def tally(self, reports):
        return np.bincount(self._kinds(reports), minlength=self.tally_size)

    @property
    def tally_size(self):
        return self.n_functions * self.field.order

    tally_sum = 1

    @property
    def n_categories(self):
        """Number of extensions of a prefix by `n_digits` digits. Estimates are made for these
        categories."""
        return self.n_extensions

    def largest_weight(self, n_targets):
        """Return how much one report can change n times the sum of `n_targets` estimates from n
        reports.

        This is the maximum over all reports.
        """
        return float(n_targets * (1 - self.q) / (self.p - self.q))

    def decode_operations(self, n_samples):
        return n_samples + int(self.n_extensions * np.log2(self.n_extensions))

    def count_extensions(self, tally: np.ndarray, digests: np.ndarray) -> Iterator[np.ndarray]:
        """Yield, for each prefix, an array with the number of reports that support each of its
        extensions.

        `digests` contains the digest of each prefix. A report supports an extension if its function
        maps the extension to the reported value.
        """
        # No extension is hashed. Instead the shift of the prefix is subtracted from the values,
        # and the result is the value of a linear function at the new digits.
        g = self.field.order
        kinds = np.flatnonzero(tally)
        functions, values = np.divmod(kinds, g)
        counts = tally[kinds].astype(float)
        linear = functions % self.n_linear * g
        for start in range(0, len(digests), 2):  # two prefixes are transformed at a time
            tables = np.empty((len(digests[start : start + 2]), self.n_linear, g))
            for table, digest in zip(tables, digests[start : start + 2], strict=True):
                left = self.field.subtract(values, self._shifts(functions, digest))
                sums = np.bincount(linear + left, counts, self.n_linear * g)
                table[:] = sums.reshape(self.n_linear, g)
            yield from np.rint(self.functions.gather(tables))

    def support_of(self, tallies: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return, for each tally (row) and each code, the number of reports that support the code.

        A report supports a code (an integer that stands for a prefix) if its function maps the code
        to the reported value.
        Shapes: tallies (m, tally_size), codes (n,) -> (m, n).
        """
        functions = np.arange(self.n_functions)
        values = (self.hash(functions, code) for code in codes[:, None])
        kinds = (functions * self.field.order + code_values for code_values in values)
        return np.column_stack([tallies[:, cells].sum(axis=1) for cells in kinds])


# -- codes of strings -------------------------------------------------------------------------
def digest_of_digits(digits: np.ndarray) -> np.ndarray:
    """Return a 40-bit digest (hash) of each row of digits. The digest of a row without digits is
    0."""
    words = np.full(len(digits), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for digit in digits.T:
        words = mixed(words ^ (digit.astype(np.uint64) + np.uint64(1)))
    digests = (words >> np.uint64(64 - _DIGEST_BITS)).astype(np.int64)
    return digests if digits.shape[1] else np.zeros_like(digests)


@dataclass(frozen=True)
class StringPlan:
    """The design of a collection of strings.

    The users are divided into parts. In each searching part they report on prefixes of one length;
    each part extends the prefixes of the part before. The users of the last part are held out from
    the search, and report on whole strings.
    """

    epsilon: float
    hash_range: int  # number g of values of a digit
    steps: tuple[int, ...]  # number of new digits of each searching part
    shares: tuple[float, ...]  # of the users, in each searching part and in the held-out one
    n_strings: float  # number of strings that these digits distinguish
    n_found: int
    expected_n_users: int
    # For `users_for`: the domain, and the number of values of a digit unless it is "auto".
    strings: StringDomain | None = field(default=None, compare=False, repr=False)
    chosen_range: int | None = field(default=None, compare=False, repr=False)

    @property
    def n_kept(self) -> int:
        """Number of prefixes that the search keeps after each searching part except the last."""
        return 2 * self.n_found

    def found_probability(self, frequencies: ArrayLike, n_users: int | None = None) -> np.ndarray:
        """Return, for each frequency, the approximate probability that such a string is found.

        Shapes: frequencies (n,) -> (n,). A frequency is at least 0 and less than 1.
        n_users: number of users; if None, the expected number.
        The result is a product over the searching parts. Each factor is the probability that the
        estimate of the string's prefix is large enough to be kept. It ignores that other strings
        may have the same prefix.
        """
        values = frequencies_below_1("frequencies", frequencies)[..., None]
        return self._probability(values, self._root(n_users))

    def _probability(self, values: Any, root: Any) -> Any:
        p, q = _support(self.epsilon, self.hash_range)
        # The standard error at the frequency of the string, divided by the one at frequency 0.
        growth = np.sqrt(1 + values * (p * (1 - p) / (q * (1 - q)) - 1))
        with np.errstate(over="ignore", divide="ignore"):
            distances = values / self._errors_of_one * root - self._levels(root)
            return ndtr(distances / growth).prod(axis=-1)

    def _levels(self, root: Any) -> np.ndarray:
        """Return `noise_levels`, corrected for the skewness of the counts of few reports.

        This is the first term of the Cornish-Fisher expansion. `root` is the square root of the
        number of users.
        """
        q = 1 / self.hash_range
        skewness = (1 - 2 * q) / np.sqrt(np.array(self.shares[:-1]) * q * (1 - q)) / root
        return self.noise_levels + (self.noise_levels**2 - 1) / 6 * skewness

    @property
    def normal_recall(self) -> float:
        """Return the expected recall for typical frequencies, by the normal approximation.

        It determines the plan. A change would change the protocol of all collections of strings.
        """
        # The recall of the strings up to rank `n_found`, with frequencies proportional to
        # `rank**-1.2`, which is approximately the distribution of words. It depends on no data.
        frequencies = np.arange(1, self.n_found + 1) ** -1.2 / _ZETA
        errors = self._errors_of_one / math.sqrt(self.expected_n_users)
        with np.errstate(over="ignore"):
            each = ndtr(frequencies[:, None] / errors - self.noise_levels)
        return float(each.prod(axis=-1).mean().round(9))

    def threshold(self, n_users: int | None = None) -> float:
        """Return the approximate frequency above which a string is found with a probability above
        1/2, or 1 if there is no such frequency.

        `n_users` is the number of users; if None, the expected number.
        """
        root = self._root(n_users)
        if self._probability(1.0, root) <= 0.5:
            return 1.0
        return float(brentq(lambda f: self._probability(f, root) - 0.5, 0.0, 1.0))

    def users_for(self, frequency: float, *, power: float = 0.8) -> int:
        """Return the number of users from which a string is found with the probability `power`.

        `frequency` is the frequency of the string, > 0 and < 1.
        The result is the smallest number n, up to 0.1 %, that suffices for the plan with
        ``expected_n_users=n``. Pass it as `expected_n_users` of the oracle.
        """
        frequencies_below_1("frequency", frequency)
        check_number("frequency", frequency)
        check_power(power)
        lowest, highest = 1, MOST_EXPECTED_USERS
        if self._replanned(highest).found_probability(frequency) < power:
            raise ValueError(
                f"StringPlan.users_for: a string of frequency {frequency!r} needs more than "
                f"{highest:,} users. Pass a larger frequency."
            )
        # Ends: each step halves the logarithm of highest / lowest.
        while highest - lowest > 1 and highest > 1.001 * lowest:
            middle = max(math.isqrt(lowest * highest), lowest + 1)
            suffices = self._replanned(middle).found_probability(frequency) >= power
            lowest, highest = (lowest, middle) if suffices else (middle, highest)
        return highest

    def _replanned(self, n_users: int) -> StringPlan:
        """Return the plan of the same collection for another expected number of users."""
        assert self.strings is not None  # `best_plan` sets it
        return best_plan(self.epsilon, self.strings, self.n_found, n_users, self.chosen_range)

    def _root(self, n_users: int | None) -> np.ndarray:
        """Return the square root of the number of users."""
        n = self.expected_n_users if n_users is None else n_users
        return np.sqrt(positive_numbers("n_users", n))

    @cached_property
    def n_rivals(self) -> np.ndarray:
        """For each searching part, the number of candidate prefixes that compete, of shape
        (n_parts,)."""
        # Some sequences of digits are not valid strings: they have letters after the end.
        logs = np.log(self.hash_range) * np.array(self.steps)
        logs = np.minimum(logs, math.log(self.n_strings) * logs / logs.sum())
        return np.exp(logs) * np.where(np.arange(len(logs)), self.n_kept, 1)

    @cached_property
    def noise_levels(self) -> np.ndarray:
        """For each searching part, how large an estimate must be to be kept, of shape (n_parts,).

        The unit is the standard error of an estimate at frequency 0.
        """
        kept = np.full(len(self.steps), self.n_kept / 2)
        kept[-1] = self.n_found / 2
        return np.maximum(ndtri(1 - np.minimum(kept / self.n_rivals, 0.5)), 1.0).round(9)

    @cached_property
    def _errors_of_one(self) -> np.ndarray:
        variance = _null_variance(self.epsilon, self.hash_range)
        return np.sqrt(variance / np.array(self.shares[:-1]))

    def mechanisms(self) -> list[PrefixHash]:
        """Return the mechanism of each searching part, followed by the mechanism of the held-out
        users."""
        field = FiniteField(self.hash_range)
        threshold = direct_threshold(self.epsilon, self.hash_range)
        mechanisms: list[PrefixHash] = []
        for step, share in zip(self.steps, self.shares[:-1], strict=True):
            single = PrefixHash(field, step, 1, threshold)
            expected = self.expected_n_users * share / _USERS_OF_FUNCTION
            n_copies = int(min(expected / single.n_linear, _MOST_CELLS / single.tally_size))
            copied = PrefixHash(field, step, max(n_copies, 1), threshold)
            mechanisms.append(copied if mechanisms else single)
        order, n_digits = bucket_space(self.epsilon)
        whole = FiniteField(order), n_digits, 1, direct_threshold(self.epsilon, order)
        return [*mechanisms, PrefixHash(*whole)]


class PrefixDomain(StringDomain):
    """Strings that are encoded by their prefixes: a string has one code for each part of a plan.

    A code is an integer that stands for the prefix of this part.
    """

    def __init__(self, strings: StringDomain, plan: StringPlan, is_stood_in: bool = False) -> None:
        vars(self).update(vars(strings))
        self.plan = plan
        self.is_stood_in = is_stood_in

    @property
    def digits(self) -> StringCoder:
        """The converter of strings to digits (from 0 to `hash_range` - 1) and back."""
        return self.coder(self.plan.hash_range)

    @property
    def digest(self) -> str:
        return list_digest([super().digest, self.plan.hash_range, *self.plan.steps])

    @property
    def _key(self):
        return *super()._key, self.plan.hash_range, self.plan.steps

    def _encode_columns(self, columns: list[np.ndarray], name: str) -> np.ndarray:
        letters = super()._encode_columns(columns, name)
        pieces = np.split(letters, range(_ROWS, len(letters), _ROWS))
        return np.concatenate([self.codes(self.digits.digits(piece)) for piece in pieces])

    def codes(self, digits: np.ndarray) -> np.ndarray:
        """Return one code per part for each string, of shape (n, n_parts), from the digits of the
        strings.

        A code is an integer that stands for the prefix of this part. The last code is a digest of
        the whole string.
        """
        g = self.plan.hash_range
        ends = np.cumsum([0, *self.plan.steps]).tolist()
        order, n_digits = bucket_space(self.plan.epsilon)
        columns = []
        for start, stop in pairwise(ends):
            new = digits[:, start:stop] @ g ** np.arange(stop - start)[::-1]
            columns.append(digest_of_digits(digits[:, :start]) * g ** (stop - start) + new)
        return np.column_stack([*columns, digest_of_digits(digits) % order**n_digits])


# -- choice of the parts ----------------------------------------------------------------------
def _support(epsilon: float, order: int) -> tuple[float, float]:
    """Return the probability that a report supports the user's prefix, and another prefix."""
    ratio = float(min(exp_lower_bound(epsilon), Fraction(1 << 60)))
    return ratio / (ratio + order - 1), 1 / order


def _null_variance(epsilon: float, order: int) -> float:
    p, q = _support(epsilon, order)
    return q * (1 - q) / (p - q) ** 2 if p > q else math.inf


@lru_cache(maxsize=64)
def _orders(epsilon: float, max_order: int) -> list[int]:
    """Return the orders of finite fields to choose from, in ascending order of variance at
    `epsilon`."""
    largest = min(int(2 * min(exp_lower_bound(epsilon), Fraction(max_order))) + 4, max_order)
    powers = [(n, prime_power(n)) for n in range(2, largest + 1)]
    orders = [n for n, at in powers if at and (at[1] == 1 or n <= MAX_SUGGESTED_POWER)]
    return sorted(orders, key=lambda order: _null_variance(epsilon, order))


@lru_cache(maxsize=64)
def bucket_space(epsilon: float) -> tuple[int, int]:
    """Return the order g and the number k of digits of the hash functions for held-out users.

    A digest of the whole string is one of g**k values, from 2**18 to 2**21. The field with g
    elements has the smallest variance.
    """
    minimum, maximum = _BUCKETS
    orders = _orders(epsilon, 1 << 10)  # 2 is among them
    spaces = ((g, math.ceil(math.log2(minimum) / math.log2(g) - 1e-9)) for g in orders)
    return next((g, n_digits) for g, n_digits in spaces if g**n_digits <= maximum)


@lru_cache(maxsize=64)
def best_plan(
    epsilon: float, strings: StringDomain, n_found: int, n_users: int, hash_range: int | None
) -> StringPlan:
    """Return the plan with the largest expected recall (proportion of frequent strings that are
    found)."""
    plans = []
    for order in _orders(epsilon, _MOST_ORDER) if hash_range is None else [hash_range]:
        n_digits = strings.coder(order).n_digits
        n_strings = math.exp(min(strings.max_length * math.log(strings.size), 700))
        n_strings = min(n_strings, float(order) ** min(n_digits, 300 / math.log10(order)))
        for steps in _divisions(n_digits, order):
            even = (1.0,) * (len(steps) + 1)
            plan = StringPlan(
                epsilon, order, steps, even, n_strings, n_found, n_users, strings, hash_range
            )
            squares = plan.noise_levels**2  # these shares give all parts the same threshold
            shares = ((1 - _HELD_OUT) * squares / squares.sum()).round(9).tolist()
            plans.append(replace(plan, shares=(*shares, _HELD_OUT)))
    if not plans:
        raise ValueError(
            f"StringOracle cannot search for strings of max_length={strings.max_length} over an "
            f"alphabet of {strings.size - 1} letters, because it would divide the users into more "
            f"than {_MOST_PARTS} parts. Pass a smaller max_length=, or pass "
            "alphabet=Domain.strings(code=..), which encodes frequent letters with fewer digits."
        )
    return max(plans, key=lambda plan: plan.normal_recall)


_ZETA = 5.591582441177750  # the Riemann zeta function at 1.2


def _divisions(n_digits: int, order: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to divide the digits of a string into steps.

    Each step belongs to one group of users. All steps after the first have nearly equal numbers of
    digits.
    """
    powers = (math.log2(m) / math.log2(order) + 1e-9 for m in (_MOST_FIRST, _MOST_NEXT))
    max_first, max_next = (max(int(n), 1) for n in powers)
    for first in range(1, min(max_first, n_digits) + 1):
        left = n_digits - first
        fewest = -(-left // max_next)
        for n_parts in range(fewest, min(left, fewest + 2, _MOST_PARTS - 1) + 1):
            small, n_larger = divmod(left, max(n_parts, 1))
            yield (first, *(small + (j < n_larger) for j in range(n_parts)))
