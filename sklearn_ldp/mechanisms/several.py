"""Collections of several parts: each user is asked about some of them, drawn by a public design."""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._sampled_noise import SampledNoise
from .coins import TWO_64, Coins
from .laws import mixture_entropy
from .mechanism import Mechanism, PublicPart, ReportField, bits_for, expect


@dataclass(frozen=True)
class View:
    """What a part of a split collection looks at: a code that is made of a record's codes.

    It is the sum of the codes of some columns, each times a stride, modulo the number of values.

    Parameters
    ----------
    columns : tuple of int
        Positions of the columns.
    strides : tuple of int
        The factor of each of them.
    n_values : int
        Number of values of the code.
    """

    columns: tuple[int, ...]
    strides: tuple[int, ...]
    n_values: int

    @property
    def is_parity(self) -> bool:
        """Whether it is the parity of several columns."""
        return self.n_values == 2 and len(self.columns) > 1

    @classmethod
    def joint(cls, columns: Sequence[int], sizes: Sequence[int]) -> View:
        """Return the view of the joint category of several columns, in C order.

        Parameters
        ----------
        columns : sequence of int
            Positions of the columns.
        sizes : sequence of int
            Number of categories of each of them.

        Returns
        -------
        View
            The view.
        """
        strides = tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
        return cls(tuple(columns), strides, math.prod(sizes))

    @classmethod
    def parity(cls, columns: Sequence[int]) -> View:
        """Return the view of the parity of the codes of several binary columns.

        Parameters
        ----------
        columns : sequence of int
            Positions of the columns.

        Returns
        -------
        View
            The view.
        """
        return cls(tuple(columns), (1,) * len(columns), 2)


class Views:
    """Several views, which are looked at together.

    Parameters
    ----------
    views : sequence of View
        The views.
    """

    def __init__(self, views: Sequence[View]) -> None:
        self.views = tuple(views)
        width = max(len(view.columns) for view in views)
        # Shorter ones are filled up with a column that does not count.
        self._columns = np.zeros((len(views), width), dtype=np.intp)
        self._strides = np.zeros((len(views), width), dtype=np.int64)
        for i, view in enumerate(views):
            self._columns[i, : len(view.columns)] = view.columns
            self._strides[i, : len(view.columns)] = view.strides
        self._n_values = np.array([view.n_values for view in views], dtype=np.int64)

    def codes(self, records: np.ndarray, views: np.ndarray) -> np.ndarray:
        """Return the code of each record in a view of its own.

        Parameters
        ----------
        records : ndarray of shape (n, n_columns)
            One code for each column.
        views : ndarray of shape (n,)
            The number of the view of each record.

        Returns
        -------
        ndarray of shape (n,)
            int64.
        """
        codes = np.zeros(len(records), dtype=np.int64)
        rows = np.arange(len(records))
        for columns, strides in zip(self._columns.T, self._strides.T, strict=True):
            codes += records[rows, columns[views]] * strides[views]
        return codes % self._n_values[views]


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


def systematic_samples(shares: Sequence[int]) -> tuple[list[tuple[int, ...]], list[int]]:
    """Return the samples of a systematic design, which have a fixed size, and where they end.

    The parts lie one after the other on a line, each as long as its share. Points at the distances
    u, u + 2**64, u + 2 * 2**64, ... mark the parts that are drawn, where u is uniform below
    2**64. So a part is drawn with the probability of its share, and not twice, as no share is
    longer than the distance of two points.

    Parameters
    ----------
    shares : sequence of int
        The probability that each part is drawn, over 2**64: from 1 to 2**64. Their sum is a
        multiple s of 2**64.

    Returns
    -------
    (list of tuple of int, list of int)
        The samples, of s rising numbers of parts each, at most as many as there are parts; and for
        each the first u that no longer leads to it, rising, the last one 2**64.

    References
    ----------
    .. [1] W. G. Madow, "On the theory of systematic sampling, II", Annals of Mathematical
       Statistics 20(3), 1949, :doi:`10.1214/aoms/1177729988`.
    """
    ends = list(accumulate(shares))
    n_drawn = ends[-1] // TWO_64
    starts = sorted({end % TWO_64 for end in ends})
    marks = [[start + k * TWO_64 for k in range(n_drawn)] for start in starts]
    samples = [tuple(bisect_right(ends, mark) for mark in of_one) for of_one in marks]
    return samples, [*starts[1:], TWO_64]


class Several(Split):
    """Draw several of the parts by public probabilities, and report on each of them.

    A code is a row with one code for each part. A report is the number of the sample of parts that
    was drawn (left out if there is only one sample), and then the reports of the parts in it, in
    their order, each filled up with zeros.

    The sample does not depend on the values. Given it, the reports of its parts are independent,
    so the probability of a report is a product, and the epsilons of the parts in a sample add up:
    parts at epsilon / s each, of which s are drawn, spend epsilon for whole records.

    Parameters
    ----------
    parts : sequence of Mechanism
        The mechanism of each part.
    shares : sequence of int
        Probability that each part is drawn, over 2**64, from 1 to 2**64. Their sum is 2**64 times
        the number of parts that are drawn.
    """

    def __init__(self, parts: Sequence[Mechanism], shares: Sequence[int]) -> None:
        is_multiple = shares and sum(shares) % TWO_64 == 0
        if len(parts) != len(shares) or not is_multiple or not _are_shares(shares):
            raise ValueError(
                f"A collection of {len(parts)} parts needs as many shares, integers from 1 to "
                f"2**64 whose sum is a multiple of 2**64, got {list(shares)}."
            )
        self.parts = tuple(parts)
        self.shares = tuple(shares)
        self.views = None
        own_bytes = max(part.report_bytes for part in parts)
        self.report_bytes = 16 * (1 + sum(map(len, self._blocks))) + own_bytes

    # -- what two parties must agree on -------------------------------------------------------
    @property
    def n_drawn(self) -> int:
        """Number of parts that each user reports on."""
        return sum(self.shares) // TWO_64

    @property
    def configuration(self):
        return {**super().configuration, "n_sampled": self.n_drawn}

    @cached_property
    def _design(self) -> tuple[list[tuple[int, ...]], list[int]]:
        return systematic_samples(self.shares)

    @property
    def samples(self) -> list[tuple[int, ...]]:
        """The samples of parts that can be drawn."""
        return self._design[0]

    @property
    def sample_probabilities(self) -> np.ndarray:
        """The probability of each sample, of shape (n_samples,)."""
        ends = [0, *self._design[1]]
        return np.array([(b - a) / TWO_64 for a, b in pairwise(ends)])

    @cached_property
    def _places(self) -> np.ndarray:
        """The place of each part in each sample, or -1: shape (n_samples, n_parts)."""
        places = np.full((len(self.samples), len(self.parts)), -1)
        for row, sample in zip(places, self.samples, strict=True):
            row[list(sample)] = range(self.n_drawn)
        return places

    @cached_property
    def _blocks(self) -> list[list[int]]:
        """The number of values of each integer at each place of a sample."""
        fields = self._fields
        blocks = []
        for at_place in zip(*self.samples, strict=True):
            own = [fields[j] for j in set(at_place)]
            width = max(map(len, own))
            blocks.append([max(one[i] for one in own if i < len(one)) for i in range(width)])
        return blocks

    @property
    def _has_number(self) -> bool:
        return len(self.samples) > 1

    @cached_property
    def _starts(self) -> list[int]:
        """Where the report at each place of a sample starts, and where the last one ends."""
        return list(accumulate(map(len, self._blocks), initial=int(self._has_number)))

    @property
    def report_fields(self):
        number = (ReportField("sample", len(self.samples)),) if self._has_number else ()
        of_places = (
            ReportField(f"report_{k}_{i}", size)
            for k, block in enumerate(self._blocks)
            for i, size in enumerate(block)
        )
        return (*number, *of_places)

    @property
    def report_bits(self):
        own = [part.report_bits for part in self.parts]
        of_samples = (sum(own[j] for j in sample) for sample in self.samples)
        return (bits_for(len(self.samples)) if self._has_number else 0) + max(of_samples)

    def report_entropy(self, order=1):
        own = np.array([part.report_entropy(order) for part in self.parts])
        of_samples = [own[list(sample)].sum() for sample in self.samples]
        return mixture_entropy(np.log2(self.sample_probabilities), of_samples, order)

    @property
    def public_part(self):
        if not self._has_number:
            return None
        ends = self._design[1]
        unit = math.gcd(*ends)
        places = np.array([end // unit for end in ends[:-1]], dtype=np.uint64)
        return PublicPart(
            lambda reports: reports[:, 0],
            len(ends),
            self.sample_probabilities,
            n_draws=TWO_64 // unit,
            of_draws=lambda draws: np.searchsorted(places, draws.astype(np.uint64), side="right"),
            privatize=self._report_on if TWO_64 // unit < 1 << 63 else None,
        )

    def for_enumeration(self) -> Several:
        """Return the same collection of parts that have few enough outcomes to list them all."""
        parts = [getattr(part, "for_enumeration", lambda part=part: part)() for part in self.parts]
        return Several(parts, self.shares)

    def draw_sizes(self, n_samples: int, n_repeats: int, rng: np.random.Generator) -> np.ndarray:
        drawn = rng.multinomial(n_samples, self.sample_probabilities, size=n_repeats)
        return drawn @ (self._places >= 0)

    draw_sizes.__doc__ = Split.draw_sizes.__doc__

    # -- on the client ------------------------------------------------------------------------
    def privatize(self, codes, coins):
        n = len(codes)
        number = coins.choice(self._design[1], n) if self._has_number else np.zeros(n, np.int64)
        return self._report_on(codes, number, coins)

    def _report_on(self, codes: np.ndarray, drawn: np.ndarray, coins: Coins) -> np.ndarray:
        """Report on the parts in the sample that was drawn for each user."""
        reports = np.zeros((len(codes), self._starts[-1]), dtype=np.int64)
        if self._has_number:
            reports[:, 0] = drawn
        for j in range(len(self.parts)):
            place = self._places[drawn, j]
            rows = np.flatnonzero(place >= 0)
            if rows.size:
                own = self.parts[j].privatize(codes[rows, j], coins).reshape(rows.size, -1)
                for k in np.unique(place[rows]):
                    here = place[rows] == k
                    start = self._starts[k]
                    reports[rows[here], start : start + own.shape[1]] = own[here]
        return reports

    # -- on the server ------------------------------------------------------------------------
    def check_reports(self, reports):
        n_samples, width = len(self.samples), self._starts[-1]
        is_row = reports.ndim == 2 and reports.shape[1] == width
        has_number = is_row and (
            not self._has_number or bool(np.all((reports[:, 0] >= 0) & (reports[:, 0] < n_samples)))
        )
        what = f", the first of them a sample in [0, {n_samples - 1}]" if self._has_number else ""
        expect(has_number, f"an array of shape (n, {width}) of integers{what}", reports)
        for j, rows, start, stop in self._places_of_parts(reports):
            own_width = len(self._fields[j])
            self.parts[j].check_reports(self._own_at(reports, rows, j, start))
            empty = reports[rows, start + own_width : stop]
            expect(not empty.any(), f"zeros after the report of part {j}", empty)
        return reports.astype(np.int64, copy=False)

    def _places_of_parts(self, reports: np.ndarray) -> Iterator[tuple[int, np.ndarray, int, int]]:
        """Yield parts, rows that report on them at one place, and where that place is."""
        for j in range(len(self.parts)):
            for rows, start, stop in self._places_of_part(reports, j):
                yield j, rows, start, stop

    def _places_of_part(self, reports: np.ndarray, j: int) -> Iterator[tuple[np.ndarray, int, int]]:
        """Yield the rows that report on a part at one place, and where that place is."""
        drawn = reports[:, 0].astype(np.int64) if self._has_number else np.zeros(len(reports), int)
        place = self._places[drawn, j]
        for k in np.unique(place[place >= 0]).tolist():
            yield np.flatnonzero(place == k), self._starts[k], self._starts[k + 1]

    def reports_of_part(self, reports: np.ndarray, j: int) -> np.ndarray:
        found = list(self._places_of_part(reports, j))
        own = np.concatenate([self._own_at(reports, rows, j, start) for rows, start, _ in found])
        in_order = np.argsort(np.concatenate([rows for rows, _, _ in found]))
        return self.parts[j].check_reports(own[in_order])

    reports_of_part.__doc__ = Split.reports_of_part.__doc__

    def _own_at(self, reports: np.ndarray, rows: np.ndarray, j: int, start: int) -> np.ndarray:
        """The reports of a part at one place, in the form of its mechanism."""
        own = reports[rows, start : start + len(self._fields[j])]
        fields = self.parts[j].report_fields
        return own[:, 0] if len(fields) == 1 and fields[0].width is None else own

    def tally(self, reports):
        tally = np.zeros(self.tally_size, dtype=np.int64)
        for j, rows, start, _ in self._places_of_parts(reports):
            tally[j] += rows.size
            own = self.parts[j].check_reports(self._own_at(reports, rows, j, start))
            tally[self._tally_places[j]] += self.parts[j].tally(own)
        return tally

    def check_tallies(self, tallies, sizes):
        Mechanism.check_tallies(self, tallies, sizes)
        asked = tallies[:, : len(self.parts)]
        if np.any(asked > sizes[:, None]) or np.any(asked.sum(axis=1) != self.n_drawn * sizes):
            raise ValueError(
                f"the users of its parts add up to {asked.sum(dtype=float):.0f}, expected "
                f"{self.n_drawn} times the number of its reports, {sizes.sum()}"
            )
        for j, part in enumerate(self.parts):
            part.check_tallies(*self.of_part(tallies, j))


def _are_shares(shares: Sequence[int]) -> bool:
    return all(1 <= share <= TWO_64 for share in shares)
