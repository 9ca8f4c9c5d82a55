"""Conversion of strings to digits of a finite field GF(g), and back."""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..common.locks import cached_property

_LIMB = 1 << 52  # bound of a limb, so that a limb times a digit stays within 64 bits


class StringCoder(ABC):
    """Base class of the objects that convert strings to digits from 0 to g - 1, and back.

    A string is represented by a row of `length` integers. Each letter is an integer from 1 on, and
    zeros fill the rest of the row, so the first zero marks the end of the string. The first digits
    of a string depend on its first letters.
    """

    length: int
    n_digits: int

    @abstractmethod
    def digits(self, letters: np.ndarray) -> np.ndarray:
        """Return the digits of strings.

        Shapes: letters (n, length) -> (n, n_digits), int64 in [0, g).
        """

    @abstractmethod
    def read(self, digits: Sequence[int]) -> tuple[int, ...] | None:
        """Return the first letters of a string, as far as its first digits determine them.

        Returns
        -------
        tuple of int, or None
            The letters, followed by a 0 if the string certainly ends there. None if no valid string
            begins with these digits. A valid string is not empty, and has no letter after a 0.
        """


class NumberCoder(StringCoder):
    """Reads the letters of a string as digits of a large number, and writes it in base g."""

    def __init__(self, n_letters: int, length: int, order: int) -> None:
        self.base: int = n_letters + 1
        self.length: int = length
        self.order: int = order
        self.n_strings: int = self.base**length
        self.n_digits: int = max(int(math.log(self.n_strings) / math.log(order)) - 1, 1)
        while order**self.n_digits < self.n_strings:
            self.n_digits += 1

    def digits(self, letters: np.ndarray) -> np.ndarray:
        width = max(int(math.log(_LIMB // self.order) / math.log(self.base)), 1)
        n_limbs = -(-self.length // width)
        powers = self.base ** np.arange(width)[::-1]
        filled = np.zeros((len(letters), n_limbs * width), dtype=np.int64)
        filled[:, : self.length] = letters
        limbs = filled.reshape(len(letters), n_limbs, width) @ powers
        whole = self.base**width
        digits = np.empty((len(letters), self.n_digits), dtype=np.int64)
        for i in range(self.n_digits):
            carry: np.ndarray | int = 0
            for j in reversed(range(n_limbs)):
                carry, limbs[:, j] = np.divmod(limbs[:, j] * self.order + carry, whole)
            digits[:, i] = carry
        return digits

    def read(self, digits: Sequence[int]) -> tuple[int, ...] | None:
        # The strings that begin with the digits are numbers in [start, end).
        number = _number(digits, self.order)
        unit = self.order ** len(digits)
        start, end = (-(-x * self.n_strings // unit) for x in (number, number + 1))
        first = self._next_string(self._letters(start)) if start < self.n_strings else None
        if first is None or _number(first, self.base) >= end:
            return None
        last = self._letters(min(end, self.n_strings) - 1)
        common = next((i for i in range(self.length) if first[i] != last[i]), self.length)
        return first[: first.index(0) + 1] if 0 in first[:common] else first[:common]

    def _letters(self, number: int) -> tuple[int, ...]:
        letters = []
        for _ in range(self.length):
            number, letter = divmod(number, self.base)
            letters.append(letter)
        return tuple(reversed(letters))

    def _next_string(self, letters: tuple[int, ...]) -> tuple[int, ...]:
        """Return the first valid string that is not before these letters in lexicographic order."""
        place = letters.index(0) if 0 in letters else self.length
        if place and not any(letters[place:]):
            return letters
        return (*letters[:place], 1, *(0,) * (self.length - place - 1))


def _number(digits: Sequence[int], base: int) -> int:
    number = 0
    for digit in digits:
        number = number * base + int(digit)
    return number


@dataclass(frozen=True)
class WordCoder(StringCoder):
    """Replaces each letter by a word, a sequence of digits from a prefix-free code.

    If the words of a string have more than `n_digits` digits, the rest is cut off.
    """

    words: tuple[tuple[int, ...], ...]
    length: int
    n_digits: int

    def digits(self, letters: np.ndarray) -> np.ndarray:
        widths = np.array([len(word) for word in self.words])
        table = np.zeros((len(self.words), widths.max()), dtype=np.int64)
        for row, word in zip(table, self.words, strict=True):
            row[: len(word)] = word
        n = len(letters)
        rows = np.arange(n)
        # An extra column receives the digits that are cut off, and the zeros after the end mark.
        digits = np.zeros((n, self.n_digits + 1), dtype=np.int64)
        place = np.zeros(n, dtype=int)
        for letter in letters.T:
            for i in range(widths.max()):
                inside = np.where(i < widths[letter], np.minimum(place + i, self.n_digits), -1)
                digits[rows, inside] = table[letter, i]
            place = np.where(letter == 0, self.n_digits, place + widths[letter])
        return digits[:, : self.n_digits]

    @cached_property
    def _letter_of(self) -> dict[tuple[int, ...], int]:
        return {word: letter for letter, word in enumerate(self.words)}

    @cached_property
    def _beginnings(self) -> set[tuple[int, ...]]:
        return {word[:i] for word in self.words for i in range(len(word))}

    def read(self, digits: Sequence[int]) -> tuple[int, ...] | None:
        letters: list[int] = []
        word: tuple[int, ...] = ()
        for i, digit in enumerate(digits):
            word = (*word, int(digit))
            if word in self._letter_of:
                letters.append(self._letter_of[word])
                word = ()
                if letters[-1] == 0 or len(letters) == self.length:
                    return None if letters == [0] or any(digits[i + 1 :]) else tuple(letters)
            elif word not in self._beginnings:
                return None
        return tuple(letters)


@lru_cache(maxsize=64)
def huffman_words(weights: tuple[int, ...], order: int) -> tuple[tuple[int, ...], ...]:
    """Return a Huffman code for letters with these weights: a word of digits for each letter.

    `order` is the number of values of a digit. The code is the same on every machine.
    """
    # D. A. Huffman, "A method for the construction of minimum-redundancy codes", Proceedings of
    # the IRE 40(9), 1952, :doi:`10.1109/JRPROC.1952.273898`.
    n_missing = -(len(weights) - 1) % (order - 1)  # only the lowest node may have fewer children
    heap: list[tuple[int, int, tuple[int, ...]]]
    heap = [(weight, i, (i,)) for i, weight in enumerate([*weights, *[0] * n_missing])]
    heapq.heapify(heap)
    words: list[tuple[int, ...]] = [()] * len(heap)
    while len(heap) > 1:
        joined: list[tuple[int, int, tuple[int, ...]]] = []
        for digit in range(min(order, len(heap))):
            joined.append(heapq.heappop(heap))
            for symbol in joined[-1][2]:
                words[symbol] = (digit, *words[symbol])
        symbols = tuple(symbol for node in joined for symbol in node[2])
        heapq.heappush(heap, (sum(node[0] for node in joined), min(symbols), symbols))
    return tuple(words[: len(weights)])


def letter_codes(strings: list[str], alphabet: str, length: int) -> np.ndarray:
    """Return the letters of strings as positions in the alphabet, counted from 1.

    The result is int32 of shape (n, length). Unknown letters are -1, and zeros follow the last
    letter.
    """
    points = np.array(strings, dtype=f"U{length}").view(np.uint32).reshape(-1, length)
    known = np.array([ord(letter) for letter in alphabet])
    table = np.full(known.max() + 2, -1, dtype=np.int32)
    table[known] = np.arange(1, len(known) + 1)
    table[0] = 0
    return table[np.minimum(points, len(table) - 1)]
