"""Split collections: each user is asked about one of several parts, at the full epsilon."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._sampled_noise import SampledNoise
from ._coins import TWO_64, Coins
from ._laws import PublicPart, mixture_entropy
from ._mechanism import Mechanism, ReportField
from ._reports import bits_for, expect
from ._views import View, Views

_WRITTEN_BYTES = 256  # of a written report, as far as the number of users in a block is concerned


def shares_over_2_64(probabilities: ArrayLike, n_drawn: int = 1) -> list[int]:
    """Return integers with the sum 2**64, or a multiple, in proportion to probabilities.

    They are rounded, by up to 2**-36, so that machines whose floats differ in the last digits
    agree on them.

    Parameters
    ----------
    probabilities : array-like of shape (n,)
        Positive finite numbers, of any sum.
    n_drawn : int, default=1
        Number of parts that are drawn, at most n: the sum is so many times 2**64. A part whose
        share would exceed 2**64 has 2**64, and the others share the rest in proportion.

    Returns
    -------
    list of int
        Multiples of 2**28, above 0, and at most 2**64.
    """
    exact = [Fraction(float(p)) for p in np.asarray(probabilities, dtype=float)]
    certain: set[int] = set()
    while True:
        free = [i for i in range(len(exact)) if i not in certain]
        rest, total = n_drawn - len(certain), sum(exact[i] for i in free)
        above = [i for i in free if exact[i] * rest >= total] if rest else []
        if not above or not free:
            break
        certain.update(above)
    shares = [TWO_64] * len(exact)
    for i in free:
        shares[i] = max(round(exact[i] * rest / total * 2**36), 1) << 28
    if free:
        largest = max(free, key=lambda i: shares[i])
        shares[largest] += n_drawn * TWO_64 - sum(shares)
    return shares


class Split(Mechanism):
    """Draw one of several parts by public probabilities, and report on this part alone.

    A code is a row with one code for each column. A report is the number of the part and then the
    report of the part's own mechanism, filled up with zeros.

    The part does not depend on the values. So a report y of the part j has the probability
    ``pi_j m_j(y | x_j)``, and that of another record differs by no more than the part's own
    mechanism allows: the collection has the largest epsilon of its parts, for whole records.

    Parameters
    ----------
    parts : sequence of Mechanism
        The mechanism of each part.
    shares : sequence of int
        Probability of each part, over 2**64; their sum is 2**64.
    views : sequence of View, default=None
        What each part looks at; None lets each part look at a column of its own.
    """

    def __init__(
        self,
        parts: Sequence[Mechanism],
        shares: Sequence[int],
        views: Sequence[View] | None = None,
    ) -> None:
        if len(parts) != len(shares) or sum(shares) != TWO_64 or min(shares) < 1:
            raise ValueError(
                f"A split collection of {len(parts)} parts needs as many shares, integers of at "
                f"least 1 with the sum 2**64, got {list(shares)}."
            )
        self.parts = tuple(parts)
        self.shares = tuple(shares)
        self.views = None if views is None else tuple(views)
        # The parts work one after the other, each on its share of the users. Written reports hardly
        # count, as each part takes a while for each block, however few of its users are its own.
        written = 8 * (1 + max(map(len, self._fields)))
        self.report_bytes = min(written, _WRITTEN_BYTES) + self._working_bytes()

    # -- what two parties must agree on -------------------------------------------------------
    @property
    def probabilities(self) -> np.ndarray:
        """The probability of each part, of shape (n_parts,)."""
        return np.array([share / TWO_64 for share in self.shares])

    def draw_sizes(self, n_samples: int, n_repeats: int, rng: np.random.Generator) -> np.ndarray:
        """Draw how many users are asked about each part, without users.

        Parameters
        ----------
        n_samples : int
            Number of users.
        n_repeats : int
            Number of collections.
        rng : Generator
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_repeats, n_parts)
            The numbers.
        """
        return rng.multinomial(n_samples, self.probabilities, size=n_repeats)

    @property
    def n_drawn(self) -> int:
        """Number of parts that each user reports on."""
        return 1

    @property
    def configuration(self):
        configurations = [
            json.dumps(
                {
                    "share": share,
                    **part.configuration,
                    "report": [list(field) for field in part.report_fields],
                    "p": str(getattr(part, "p", None)),
                    "q": str(getattr(part, "q", None)),
                },
                default=str,
            )
            for part, share in zip(self.parts, self.shares, strict=True)
        ]
        if self.views is None:
            return {f"part_{j}": one for j, one in enumerate(configurations)}
        # There may be thousands of tables: too many to write into each file.
        whole = "\n".join([*configurations, *map(repr, self.views)])
        digest = hashlib.sha256(whole.encode()).hexdigest()
        return {"n_parts": len(self.parts), "parts": digest}

    def _identity(self):
        return *super()._identity(), self.parts, self.views

    @cached_property
    def _fields(self) -> list[list[int]]:
        """The number of values of each integer in the reports of each part."""
        fields = [part.report_fields for part in self.parts]
        if not all(fields):
            raise ValueError("The parts of a split collection must say what their reports hold.")
        return [[f.n_values for f in of_one for _ in range(f.width or 1)] for of_one in fields]

    @property
    def report_fields(self):
        width = max(map(len, self._fields))
        sizes = [max(one[i] for one in self._fields if i < len(one)) for i in range(width)]
        of_parts = (ReportField(f"report_{i}", size) for i, size in enumerate(sizes))
        return (ReportField("part", len(self.parts)), *of_parts)

    @property
    def is_informative(self):
        return all(part.is_informative for part in self.parts)

    @property
    def report_bits(self):
        return bits_for(len(self.parts)) + max(part.report_bits for part in self.parts)

    def report_entropy(self, order=1):
        own = [part.report_entropy(order) for part in self.parts]
        return mixture_entropy(np.log2(self.probabilities), own, order)

    @property
    def public_part(self):
        unit = math.gcd(*self.shares)  # a power of two, as it divides their sum
        ends = np.cumsum([share // unit for share in self.shares])
        return PublicPart(
            lambda reports: reports[:, 0],
            len(self.parts),
            self.probabilities,
            n_draws=TWO_64 // unit,
            of_draws=lambda draws: np.searchsorted(ends, draws, side="right"),
            privatize=self._report_on if TWO_64 // unit < 1 << 63 else None,
        )

    def for_enumeration(self) -> Split:
        """Return the same collection of parts that have few enough outcomes to list them all."""
        parts = [getattr(part, "for_enumeration", lambda part=part: part)() for part in self.parts]
        return Split(parts, self.shares, self.views)

    @cached_property
    def _kinds(self) -> tuple[list[int], np.ndarray]:
        """A part of each kind of mechanism, and the kind of each part."""
        numbers: dict[Mechanism, int] = {}
        kinds = np.array([numbers.setdefault(part, len(numbers)) for part in self.parts])
        return [int(np.argmax(kinds == kind)) for kind in range(len(numbers))], kinds

    def _working_bytes(self) -> int:
        """The memory that a user takes in the mechanism with the most users times bytes."""
        examples, kinds = self._kinds
        both = zip(np.bincount(kinds, self.probabilities), examples, strict=True)
        return math.ceil(max(share * self.parts[j].report_bytes for share, j in both))

    def _by_kind(self, drawn: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield a part of each kind of mechanism that occurs, with the rows of all such parts."""
        examples, kinds = self._kinds
        of_rows = kinds[drawn]
        for kind, example in enumerate(examples):
            rows = np.flatnonzero(of_rows == kind)
            if rows.size:
                yield example, rows

    def noise_of_part(self, j: int, n_samples: float) -> SampledNoise:
        """Return the noise to expect of a part's estimate, about all users of a collection.

        Parameters
        ----------
        j : int
            Number of the part.
        n_samples : float
            Number of users, of whom the expected number is asked about the part.

        Returns
        -------
        SampledNoise
            With the sampling of those who are asked.
        """
        asked = n_samples * float(self.probabilities[j])
        part: Any = self.parts[j]
        return SampledNoise(part.noise(asked), n_samples)

    # -- on the client ------------------------------------------------------------------------
    def draw_parts(self, n: int, coins: Coins) -> np.ndarray:
        """Draw the parts that users report on.

        Parameters
        ----------
        n : int
            Number of users.
        coins : Coins
            Source of the coins.

        Returns
        -------
        ndarray of shape (n,)
            Their parts.
        """
        ends = np.cumsum(np.array(self.shares, dtype=object)).tolist()
        return coins.choice(ends, n)

    def privatize(self, codes, coins):
        return self._report_on(codes, self.draw_parts(len(codes), coins), coins)

    def _report_on(self, codes: np.ndarray, drawn: np.ndarray, coins: Coins) -> np.ndarray:
        """Report on the given part of each record, which keeps epsilon for every part."""
        looked_at = self._looked_at(codes, drawn)
        reports = np.zeros((len(codes), len(self.report_fields)), dtype=np.int64)
        reports[:, 0] = drawn
        for j, rows in self._by_kind(drawn):
            own = self.parts[j].privatize(looked_at[rows], coins)
            reports[rows, 1 : 1 + len(self._fields[j])] = own.reshape(rows.size, -1)
        return reports

    def _looked_at(self, codes: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        """The code of each row that the part which was drawn for it looks at."""
        if self.views is None:
            return codes[np.arange(len(codes)), drawn]
        return self._together.codes(codes, drawn)

    @cached_property
    def _together(self) -> Views:
        assert self.views is not None
        return Views(self.views)

    # -- on the server ------------------------------------------------------------------------
    def check_reports(self, reports):
        n_parts, width = len(self.parts), len(self.report_fields)
        is_row = reports.ndim == 2 and reports.shape[1] == width
        has_parts = is_row and bool(np.all((reports[:, 0] >= 0) & (reports[:, 0] < n_parts)))
        expect(
            has_parts,
            f"an array of shape (n, {width}) of integers, the first of them a part in "
            f"[0, {n_parts - 1}]",
            reports,
        )
        for j, rows in self._by_kind(reports[:, 0]):
            self.parts[j].check_reports(self._own(reports, rows, j))
            empty = reports[rows, 1 + len(self._fields[j]) :]
            expect(not empty.any(), f"zeros after the report of part {j}", empty)
        return reports.astype(np.int64, copy=False)

    def reports_of_part(self, reports: np.ndarray, j: int) -> np.ndarray:
        """Return the reports on a part, in the form of its own mechanism.

        Parameters
        ----------
        reports : ndarray of shape (n, width)
            Checked reports.
        j : int
            Number of the part.

        Returns
        -------
        ndarray whose first axis is the users who were asked about the part
            Their reports.
        """
        rows = np.flatnonzero(reports[:, 0] == j)
        return self.parts[j].check_reports(self._own(reports, rows, j))

    def _own(self, reports: np.ndarray, rows: np.ndarray, j: int) -> np.ndarray:
        """The reports of a part, in the form of its mechanism."""
        own = reports[rows, 1 : 1 + len(self._fields[j])]
        fields = self.parts[j].report_fields
        return own[:, 0] if len(fields) == 1 and fields[0].width is None else own

    @property
    def tally_size(self):
        return len(self.parts) + sum(part.tally_size for part in self.parts)

    def tally(self, reports):
        tally = np.zeros(self.tally_size, dtype=np.int64)
        tally[: len(self.parts)] = np.bincount(reports[:, 0], minlength=len(self.parts))
        for j, rows in self._by_kind(reports[:, 0]):
            own = self.parts[j].check_reports(self._own(reports, rows, j))
            for part, of_part in self.parts[j].tally_each(own, reports[rows, 0]):
                tally[self._tally_places[part]] = of_part
        return tally

    @cached_property
    def _tally_places(self) -> list[slice]:
        return _places(len(self.parts), [part.tally_size for part in self.parts])

    def of_part(self, tallies: np.ndarray, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Return what tallies hold of one part.

        Parameters
        ----------
        tallies : ndarray of shape (..., tally_size)
            Sums of what `tally` returned.
        j : int
            Number of the part.

        Returns
        -------
        (ndarray of shape (..., part's tally_size), ndarray of shape (...,))
            The part's own tallies, and its numbers of users.
        """
        return tallies[..., self._tally_places[j]], tallies[..., j]

    def check_tallies(self, tallies, sizes):
        super().check_tallies(tallies, sizes)
        asked = tallies[:, : len(self.parts)]
        # Integers may wrap where floats only lose digits.
        is_off = np.abs(asked.sum(axis=1, dtype=float) - sizes) > 0.5 + 1e-9 * sizes
        if np.any(is_off) or np.any(asked.sum(axis=1) != sizes):
            raise ValueError(
                f"the users of its parts add up to {asked.sum(dtype=float):.0f}, expected "
                f"{sizes.sum()}, the number of its reports"
            )
        for j, part in enumerate(self.parts):
            part.check_tallies(*self.of_part(tallies, j))

    def decode_operations(self, n_samples):
        return sum(
            part.decode_operations(math.ceil(n_samples * pi))
            for part, pi in zip(self.parts, self.probabilities.tolist(), strict=True)
        )

    def decode(self, tallies):
        decoded = [part.decode(self.of_part(tallies, j)[0]) for j, part in enumerate(self.parts)]
        return np.concatenate([tallies[:, : len(self.parts)], *decoded], axis=1)

    @cached_property
    def _decoded_places(self) -> list[slice]:
        nothing = (np.zeros((1, part.tally_size), dtype=np.int64) for part in self.parts)
        widths = [
            part.decode(tally).shape[1] for part, tally in zip(self.parts, nothing, strict=True)
        ]
        return _places(len(self.parts), widths)

    def of_decoded(self, decoded: np.ndarray, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Return what decoded tallies hold of one part.

        Parameters
        ----------
        decoded : ndarray of shape (m, any)
            What `decode` returned.
        j : int
            Number of the part.

        Returns
        -------
        (ndarray of shape (m, any), ndarray of shape (m,))
            The part's own decoded tallies, and its numbers of users.
        """
        return decoded[:, self._decoded_places[j]], decoded[:, j]


def _places(first: int, widths: list[int]) -> list[slice]:
    """Where blocks of these widths are, one after the other."""
    ends = np.cumsum([first, *widths]).tolist()
    return [slice(start, stop) for start, stop in pairwise(ends)]
