"""Collections of several parts: each user is asked about some of them, drawn by a public design."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np

from ._coins import TWO_64, Coins
from ._laws import PublicPart, mixture_entropy
from ._mechanism import Mechanism, ReportField
from ._reports import bits_for, expect
from ._split import Split


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
