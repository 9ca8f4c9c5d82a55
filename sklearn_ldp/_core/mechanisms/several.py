"""The mechanism of surveys: each user answers some of many questions, which are drawn at random."""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise, zip_longest
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..common.locks import cached_property
from ..common.state import Uncached
from ..common.tags import Tagged
from ..noise import Noise
from .coins import PROBABILITY_UNIT, Coins, rows_by_group
from .laws import mixture_entropy
from .mechanism import Mechanism, PublicPart, ReportField, are_below, bit_width, require_reports

_WRITTEN_BYTES = 256  # bytes of a written report, for the number of users in a block
# Longer reports are one column of lists in files, because header and footer list all columns.
_MANY_INTEGERS = 64
_TESTED_REPORTS = 1 << 22  # reports times questions in the test of plain reports
_MAX_LISTED = 1 << 14  # characters of the questions that a header lists; a quarter of a header


# -- the code that a question asks for -------------------------------------------------------------
@dataclass(frozen=True)
class QuestionView(Tagged, tag="view"):
    """The function that computes a user's code for a question from the codes of the user's columns.

    A code is an integer that stands for a value. The result is the sum of the codes of some
    columns, each multiplied by a factor (its stride), modulo `n_values`.

    Parameters
    ----------
    columns : tuple of int
        Positions of the columns.
    strides : tuple of int
        The factor of each column.
    n_values : int
        Number of possible values of the result.
    """

    columns: tuple[int, ...]
    strides: tuple[int, ...]
    n_values: int

    @property
    def is_parity(self) -> bool:
        """Whether the result is the parity (sum modulo 2) of several binary columns."""
        return self.n_values == 2 and len(self.columns) > 1

    @classmethod
    def joint(cls, columns: Sequence[int], sizes: Sequence[int]) -> QuestionView:
        """Return the function that computes the code of a combination of several columns' values.

        The combinations are numbered in C order: the last column changes fastest.

        Parameters
        ----------
        columns : sequence of int
            Positions of the columns.
        sizes : sequence of int
            Number of categories of each column.

        Returns
        -------
        QuestionView
            The function.
        """
        strides = tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
        return cls(tuple(columns), strides, math.prod(sizes))

    @classmethod
    def parity(cls, columns: Sequence[int]) -> QuestionView:
        """Return the function that computes the parity (sum modulo 2) of several binary columns.

        Parameters
        ----------
        columns : sequence of int
            Positions of the columns.

        Returns
        -------
        QuestionView
            The function.
        """
        return cls(tuple(columns), (1,) * len(columns), 2)


class Views(Tagged, tag="views"):
    """Several objects of class `QuestionView`, whose codes are computed together for speed.

    Parameters
    ----------
    views : sequence of QuestionView
        The objects.
    """

    def __init__(self, views: Sequence[QuestionView]) -> None:
        # Shorter views are padded with a column that does not count.
        columns = zip_longest(*(view.columns for view in views), fillvalue=0)
        strides = zip_longest(*(view.strides for view in views), fillvalue=0)
        self._terms = np.array(list(zip(columns, strides, strict=True)), dtype=np.int64)
        self._n_values = np.array([view.n_values for view in views], dtype=np.int64)

    def codes(self, records: np.ndarray, views: np.ndarray) -> np.ndarray:
        """Return, for each record, the code of the true answer to one question.

        A record contains the codes of a user's columns. A code is an integer that stands for a
        value. `views` contains, for each record, the number of the `QuestionView` that computes the
        answer.
        Shapes: records (n, n_columns), views (n,) -> (n,), int64.
        """
        codes = np.zeros(len(records), dtype=np.int64)
        rows = np.arange(len(records))
        for columns, strides in self._terms:
            codes += records[rows, columns[views]] * strides[views]
        return codes % self._n_values[views]


# -- how questions are drawn ----------------------------------------------------------------------
def shares_over_2_64(probabilities: ArrayLike, n_drawn: int = 1) -> list[int]:
    """Convert probabilities to integers that are proportional to them, with sum `n_drawn` times
    2**64.

    A question is drawn with the probability of its integer, divided by 2**64. `n_drawn` questions
    are drawn. If a proportional integer would exceed 2**64, it is 2**64.
    """
    # The integers are multiples of 2**28, from 1 to 2**64. They are rounded by up to 2**-36, so
    # that machines whose floats differ in the last digits agree on them. Their sum is `n_drawn`
    # times 2**64. If the share of a question would exceed 2**64, it is 2**64, and the other
    # questions share the rest in proportion.
    exact = [Fraction(float(p)) for p in np.asarray(probabilities, dtype=float)]
    certain: set[int] = set()
    # Ends: because each pass makes at least one more question certain.
    while True:
        free = [i for i in range(len(exact)) if i not in certain]
        rest = n_drawn - len(certain)
        total = sum(exact[i] for i in free)
        above = [i for i in free if exact[i] * rest >= total] if rest else []
        if not above or not free:
            break
        certain.update(above)
    shares = [PROBABILITY_UNIT] * len(exact)
    for i in free:
        shares[i] = max(round(exact[i] * rest / total * 2**36), 1) << 28
    if free:
        largest = max(free, key=lambda i: shares[i])
        shares[largest] += n_drawn * PROBABILITY_UNIT - sum(shares)
    return shares


def systematic_samples(shares: Sequence[int]) -> tuple[list[tuple[int, ...]], list[int]]:
    """Return all samples of questions that can be drawn, and the cumulative sums of their
    probabilities.

    A sample is a tuple of numbers of questions. The sums are integers over 2**64.
    """
    # The questions are arranged on a line, each as long as its share. Points at the distances u,
    # u + 2**64, u + 2 * 2**64, .. mark the questions that are drawn, where u is uniform below
    # 2**64. So the probability of a question is its share. No question is drawn twice, because no
    # share is longer than the distance between two points. All samples have the same size, and
    # there are at most as many samples as questions. The range of a sample ends at the first u that
    # no longer gives this sample; the last range ends at 2**64.
    # W. G. Madow, "On the theory of systematic sampling, II", Annals of Mathematical Statistics
    # 20(3), 1949, doi:10.1214/aoms/1177729988.
    ends = list(accumulate(shares))
    n_drawn = ends[-1] // PROBABILITY_UNIT
    starts = sorted({end % PROBABILITY_UNIT for end in ends})
    marks = [[start + k * PROBABILITY_UNIT for k in range(n_drawn)] for start in starts]
    samples = [tuple(bisect_right(ends, mark) for mark in points) for points in marks]
    return samples, [*starts[1:], PROBABILITY_UNIT]


# -- the questions of a user, and the positions of the answers -------------------------------------
class Samples(Uncached, tag="samples"):
    """All samples (sets) of questions that a user may be asked. One is drawn for each user, and is
    public."""

    def __init__(self, shares: Sequence[int]) -> None:
        self.shares: tuple[int, ...] = tuple(shares)  # probability of each question over 2**64
        self.n_drawn = sum(shares) // PROBABILITY_UNIT

    @cached_property
    def _design(self) -> tuple[list[tuple[int, ...]], list[int]]:
        return systematic_samples(self.shares)

    @property
    def listed(self) -> list[tuple[int, ...]]:
        """For each sample (set of questions that a user is asked), the indices of its questions."""
        return self._design[0]

    @property
    def ends(self) -> list[int]:
        """The cumulative sums of the samples' probabilities, as integers over 2**64."""
        return self._design[1]

    @cached_property
    def questions(self) -> np.ndarray:
        """The indices of the questions of each sample, as an array of shape (n_samples, n_drawn).

        A sample is a set of questions that a user is asked.
        """
        return np.array(self.listed, dtype=np.intp)

    @property
    def number(self) -> tuple[ReportField, ...]:
        """Description of the column of files that contains the number of each report's sample.

        It is a tuple with one element. The tuple is empty if users answer several questions and
        there is only one sample.
        """
        if self.n_drawn == 1:
            return (ReportField("part", len(self.listed)),)
        return (ReportField("sample", len(self.listed)),) if len(self.listed) > 1 else ()

    def asked(self, reports: np.ndarray) -> np.ndarray:
        """Return the indices of the questions that each report answers, of shape (n, n_drawn)."""
        if not self.number:
            return np.broadcast_to(self.questions, (len(reports), self.n_drawn))
        return self.questions[reports[:, 0].astype(np.intp)]


class Layout(Uncached, tag="layout"):
    """Layout of a user's report in a survey: first the number of the sample, then a report per
    question.

    A sample is the set of questions that the user was asked.
    """

    def __init__(self, samples: Samples, mechanisms: Sequence[Mechanism]) -> None:
        fields = [mechanism.report_fields for mechanism in mechanisms]
        if not all(fields):
            raise ValueError(
                "A mechanism of this survey does not define report_fields, the description of its "
                "reports. Override report_fields in the mechanism of each question."
            )
        self._samples = samples
        # The number of values of each integer in the reports on each question.
        self._sizes = [
            [f.n_values for f in own_fields for _ in range(f.width or 1)] for own_fields in fields
        ]
        self._are_numbers = [
            len(own_fields) == 1 and own_fields[0].width is None for own_fields in fields
        ]

    @property
    def longest(self) -> int:
        """The maximum number of integers in a report on one question."""
        return max(map(len, self._sizes))

    @cached_property
    def _blocks(self) -> list[list[int]]:
        """For each position (1st, 2nd, .. question of a sample), the number of values of each of
        its integers.

        It is the maximum over all questions at this position.
        """
        blocks = []
        for questions in self._samples.questions.T:
            sizes = [self._sizes[j] for j in np.unique(questions).tolist()]
            width = max(map(len, sizes))
            blocks.append(
                [
                    max(own_sizes[i] for own_sizes in sizes if i < len(own_sizes))
                    for i in range(width)
                ]
            )
        return blocks

    @cached_property
    def _starts(self) -> list[int]:
        """For each position, the index of its first integer in a user's report; and the total
        number of integers.

        A position is the 1st, 2nd, .. question of a sample.
        """
        return list(accumulate(map(len, self._blocks), initial=len(self._samples.number)))

    @property
    def width(self) -> int:
        """The number of integers in a user's report on all questions of a sample."""
        return self._starts[-1]

    @property
    def report_fields(self) -> tuple[ReportField, ...]:
        """Descriptions of the columns in which files store users' reports on all questions of a
        sample."""
        sizes = [size for block in self._blocks for size in block]
        if len(sizes) > _MANY_INTEGERS:
            return (*self._samples.number, ReportField("reports", max(sizes), len(sizes)))
        name = "report_{i}" if self._samples.n_drawn == 1 else "report_{k}_{i}"
        fields = (
            ReportField(name.format(k=k, i=i), size)
            for k, block in enumerate(self._blocks)
            for i, size in enumerate(block)
        )
        return (*self._samples.number, *fields)

    def require_reports(self, reports: np.ndarray) -> None:
        """Raise ValueError if reports have a wrong number of integers or a wrong number of a
        sample."""
        is_fine = reports.ndim == 2 and reports.shape[1] == self.width
        detail = ""
        for number in self._samples.number:
            is_fine = is_fine and are_below(reports[:, 0], number.n_values)
            detail = f", the first of them a {number.name} in [0, {number.n_values - 1}]"
        require_reports(
            is_fine, f"an array of shape (n, {self.width}) of integers{detail}", reports
        )

    def write(
        self, reports: np.ndarray, rows: np.ndarray, own: np.ndarray, places: np.ndarray
    ) -> None:
        """Write reports on single questions into the array of the users' whole reports.

        `own` contains one report on a question per user. `rows` contains the rows of these users in
        `reports`, and `places` the position of the question among the questions of the user.
        """
        for k, here in rows_by_group(places):
            start = self._starts[k]
            reports[rows[here], start : start + own.shape[1]] = own[here]

    def own(self, reports: np.ndarray, rows: np.ndarray, j: int, k: int) -> np.ndarray:
        """Return the reports on question j from some rows of the users' whole reports.

        In these rows, question j is at position k. The result has the form of the question's
        mechanism.
        """
        start = self._starts[k]
        return self._in_form(reports[rows, start : start + len(self._sizes[j])], j)

    def rest(self, reports: np.ndarray, rows: np.ndarray, j: int, k: int) -> np.ndarray:
        """Return the integers after the reports that `own` returns, which must be zeros.

        They are the padding of position k.
        """
        start, stop = self._starts[k : k + 2]
        return reports[rows, start + len(self._sizes[j]) : stop]

    def on(self, reports: np.ndarray, j: int) -> np.ndarray:
        """Return the reports of all users who answered question j, in the form of the question's
        mechanism."""
        rows, places = np.nonzero(self._samples.asked(reports) == j)
        start = np.array(self._starts)[places][:, None] + np.arange(len(self._sizes[j]))
        return self._in_form(reports[rows[:, None], start], j)

    def _in_form(self, own: np.ndarray, j: int) -> np.ndarray:
        return own[:, 0] if self._are_numbers[j] else own


class SampledQuestions(Mechanism, tag="several"):
    """The mechanism of a survey: one or several questions are drawn for each user.

    The questions are drawn with fixed, public probabilities. The set of questions that are drawn
    for a user is called a sample. A user's values are a row with one code (an integer that stands
    for a value) for each column. A user's report starts with the number of the sample. (It is
    omitted if users answer several questions and there is only one sample.) The reports on the
    questions of the sample follow in their order. Shorter reports are padded with zeros.

    The sample does not depend on the user's values. Given the sample, the reports on its questions
    are independent. So the probability of a user's report is a product, and the epsilons of the
    questions in a sample add up. If one question is drawn for each user, the survey spends the
    largest epsilon of all questions. If s questions are drawn, each with a budget of epsilon / s,
    the survey spends epsilon for all values of a user together.

    Parameters
    ----------
    mechanisms : sequence of Mechanism
        The mechanism for each question.
    shares : sequence of int
        For each question, the probability that it is drawn, times 2**64: an integer from 1 to
        2**64. The sum of all shares is 2**64 times the number of questions per user. To pass
        probabilities, use :meth:`drawn`.
    views : sequence of QuestionView, default=None
        For each question, the function that computes the code of the answer from the codes of the
        user's columns. If None, question j asks for column j.
    """

    def __init__(
        self,
        mechanisms: Sequence[Mechanism],
        shares: Sequence[int],
        views: Sequence[QuestionView] | None = None,
    ) -> None:
        are_shares = shares and all(1 <= share <= PROBABILITY_UNIT for share in shares)
        if len(mechanisms) != len(shares) or not are_shares or sum(shares) % PROBABILITY_UNIT:
            raise ValueError(
                f"A survey of {len(mechanisms)} questions needs {len(mechanisms)} shares. Each "
                "must be an integer from 1 to 2**64, and their sum a multiple of 2**64; got "
                f"{list(shares)}. To pass probabilities, use SampledQuestions.drawn."
            )
        if any(getattr(mechanism, "shares_overlap", False) for mechanism in mechanisms):
            raise TypeError(
                "A survey does not accept a mechanism for users with several items, because a user "
                "has one answer per question. Collect sets of items separately, with an ItemOracle."
            )
        self.mechanisms: tuple[Mechanism, ...] = tuple(mechanisms)
        self.shares: tuple[int, ...] = tuple(shares)
        self.views: tuple[QuestionView, ...] | None = None if views is None else tuple(views)
        self._samples = Samples(shares)
        self._layout = Layout(self._samples, mechanisms)
        if self.n_drawn == 1:
            # The questions are processed one after another, each for its share of the users.
            # Written reports hardly matter, because each question has a fixed cost per block, even
            # for few users. The question with the most users times bytes determines the block.
            examples, kinds = self._kinds
            shares_of = zip(np.bincount(kinds, self.probabilities), examples, strict=True)
            working = max(share * mechanisms[j].report_bytes for share, j in shares_of)
            written = min(8 * (1 + self._layout.longest), _WRITTEN_BYTES)
            self.report_bytes: int = written + math.ceil(working)
        else:
            n_integers = 1 + self._layout.width - len(self._samples.number)
            own_bytes = max(mechanism.report_bytes for mechanism in mechanisms)
            self.report_bytes = 16 * n_integers + own_bytes

    @classmethod
    def drawn(
        cls,
        mechanisms: Sequence[Mechanism],
        probabilities: ArrayLike,
        n_drawn: int = 1,
        views: Sequence[QuestionView] | None = None,
    ) -> SampledQuestions:
        """Return the survey that draws each question with a probability proportional to a number.

        Parameters
        ----------
        mechanisms : sequence of Mechanism
            The mechanism for each question.
        probabilities : array-like of shape (n_questions,)
            One positive finite number per question. Their sum may be any number. If the probability
            of a question would exceed 1, it is 1, and the other probabilities are increased.
        n_drawn : int, default=1
            Number of questions that each user answers.
        views : sequence of QuestionView, default=None
            For each question, the function that computes the code of the answer from the codes of
            the user's columns. If None, question j asks for column j.

        Returns
        -------
        SampledQuestions
            The survey.
        """
        return cls(mechanisms, shares_over_2_64(probabilities, n_drawn), views)

    # -- the configuration of clients and servers ---------------------------------------------
    @property
    def probabilities(self) -> np.ndarray:
        """For each question, the probability that a user is asked it, of shape (n_questions,)."""
        return np.array([share / PROBABILITY_UNIT for share in self.shares])

    @property
    def configuration(self) -> dict[str, Any]:
        configurations = []
        for mechanism, share in zip(self.mechanisms, self.shares, strict=True):
            fields = [list(field) for field in mechanism.report_fields]
            support = {name: str(getattr(mechanism, name, None)) for name in ("p", "q")}
            description = {"share": share, **mechanism.configuration, "report": fields, **support}
            configurations.append(json.dumps(description, default=str))
        n_drawn = {} if self.n_drawn == 1 else {"n_sampled": self.n_drawn}
        if self.views is None and sum(map(len, configurations)) <= _MAX_LISTED:
            return {**{f"part_{j}": text for j, text in enumerate(configurations)}, **n_drawn}
        # There may be thousands of questions, which are too many to write into each file.
        # The class had the name View when the first files were written, which must be readable.
        views = [repr(view).replace("QuestionView", "View") for view in self.views or ()]
        whole = "\n".join([*configurations, *views])
        digest = hashlib.sha256(whole.encode()).hexdigest()
        return {"n_parts": len(self.mechanisms), "parts": digest, **n_drawn}

    def _identity(self):
        return *super()._identity(), self.mechanisms, self.views

    @property
    def n_drawn(self) -> int:
        """Number of questions that each user answers."""
        return self._samples.n_drawn

    @property
    def samples(self) -> list[tuple[int, ...]]:
        """All samples (sets) of questions that a user may be asked. One is drawn for each user."""
        return self._samples.listed

    @property
    def sample_probabilities(self) -> np.ndarray:
        """For each sample, the probability that it is drawn for a user, of shape (n_samples,)."""
        return np.array([(b - a) / PROBABILITY_UNIT for a, b in pairwise([0, *self._samples.ends])])

    @property
    def report_fields(self) -> tuple[ReportField, ...]:
        return self._layout.report_fields

    @property
    def is_informative(self) -> bool:
        return all(mechanism.is_informative for mechanism in self.mechanisms)

    @property
    def report_bits(self) -> int:
        own = np.array([mechanism.report_bits for mechanism in self.mechanisms])
        return bit_width(len(self.samples)) + int(own[self._samples.questions].sum(axis=1).max())

    def report_entropy(self, order: int = 1) -> float:
        own = np.array([mechanism.report_entropy(order) for mechanism in self.mechanisms])
        entropies = own[self._samples.questions].sum(axis=1)
        return mixture_entropy(np.log2(self.sample_probabilities), entropies, order)

    @property
    def public_part(self) -> PublicPart | None:
        if not self._samples.number:
            return None
        ends = self._samples.ends
        unit = math.gcd(*ends)  # a power of two, because it divides the last of them
        places = np.array([end // unit for end in ends[:-1]], dtype=np.uint64)
        return PublicPart(
            lambda reports: reports[:, 0],
            len(ends),
            self.sample_probabilities,
            n_draws=PROBABILITY_UNIT // unit,
            of_draws=lambda draws: np.searchsorted(places, draws.astype(np.uint64), side="right"),
            privatize=self._report_on if PROBABILITY_UNIT // unit < 1 << 63 else None,
        )

    def for_enumeration(self) -> SampledQuestions:
        """Return a similar survey with few outcomes, so that a test can enumerate all of them.

        Returns
        -------
        SampledQuestions
            The survey, with the result of `for_enumeration` of each question's mechanism.
        """
        small = [mechanism.for_enumeration() for mechanism in self.mechanisms]
        return SampledQuestions(small, self.shares, self.views)

    # -- expected values ----------------------------------------------------------------------
    def draw_sizes(self, n_samples: int, n_repeats: int, rng: np.random.Generator) -> np.ndarray:
        """Draw how many users answer each question, in simulated collections.

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
        ndarray of shape (n_repeats, n_questions)
            For each collection (row) and each question (column), the number of users who answer it.
        """
        drawn = rng.multinomial(n_samples, self.sample_probabilities, size=n_repeats)
        sizes = np.zeros((n_repeats, len(self.mechanisms)), dtype=drawn.dtype)
        for questions in self._samples.questions.T:
            np.add.at(sizes.T, questions, drawn.T)
        return sizes

    def noise_of(self, j: int, n_samples: float) -> Noise:
        """Return the noise of the estimate for one question, if it is an estimate for all users.

        It assumes the expected number of users who answer the question.

        Parameters
        ----------
        j : int
            Number of the question.
        n_samples : float
            Number of users of the survey. Only some of them answer this question.

        Returns
        -------
        Noise
            The noise, which includes the noise of the reports and the random choice of the users
            who answer.
        """
        channel: Any = self.mechanisms[j]
        return channel.noise(n_samples * float(self.probabilities[j])).of_sample(n_samples)

    @cached_property
    def _kinds(self) -> tuple[list[int], np.ndarray]:
        """Two results about questions with equal mechanisms, which are randomized together.

        The first contains, for each different mechanism, one question that has this mechanism. The
        second contains, for each question, the number of its mechanism in this list.
        """
        numbers: dict[Mechanism, int] = {}
        kinds = np.array(
            [numbers.setdefault(mechanism, len(numbers)) for mechanism in self.mechanisms]
        )
        return [int(np.argmax(kinds == kind)) for kind in range(len(numbers))], kinds

    # -- on the client ------------------------------------------------------------------------
    def draw_samples(self, n: int, coins: Coins) -> np.ndarray:
        """Draw, for each user, the sample (set of questions) that the user is asked.

        Parameters
        ----------
        n : int
            Number of users.
        coins : Coins
            Source of the random bits.

        Returns
        -------
        ndarray of shape (n,)
            The number of each user's sample. If users answer one question each, it is the number of
            the question.
        """
        samples = self._samples
        return coins.choice(samples.ends, n) if samples.number else np.zeros(n, dtype=np.int64)

    def privatize(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        return self._report_on(codes, self.draw_samples(len(codes), coins), coins)

    def _report_on(self, codes: np.ndarray, drawn: np.ndarray, coins: Coins) -> np.ndarray:
        """Return the reports of users, given the number of the sample that was drawn for each of
        them."""
        reports = np.zeros((len(codes), self._layout.width), dtype=np.int64)
        if self._samples.number:
            reports[:, 0] = drawn
        for j, rows, questions, places in self._turns(drawn):
            looked_at = self.looked_at(codes[rows], questions)
            own = self.mechanisms[j].privatize(looked_at, coins).reshape(rows.size, -1)
            self._layout.write(reports, rows, own, places)
        return reports

    def _turns(self, drawn: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """Divide the reports on questions into groups that are randomized together, and yield the
        groups.

        `drawn` contains the number of each user's sample. A group is a tuple: a question whose
        mechanism is used for the group; the rows of its users; for each user, the question; and for
        each user, the position of this question in the user's sample.

        With a seed, the reports depend on the order of the groups. If users answer one question
        each, all users whose questions have equal mechanisms are one group. So a survey of
        thousands of tables has only a few groups.
        """
        if self.n_drawn == 1:
            for j, rows in self._by_kind(questions := self._samples.questions[drawn, 0]):
                yield j, rows, questions[rows], np.zeros(rows.size, dtype=np.intp)
            return
        for j in range(len(self.mechanisms)):
            is_here = self._samples.questions == j
            places = np.where(is_here.any(axis=1), is_here.argmax(axis=1), -1)[drawn]
            rows = np.flatnonzero(places >= 0)
            if rows.size:
                yield j, rows, np.full(rows.size, j), places[rows]

    def _by_kind(self, questions: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """For each different mechanism among the given questions, yield one question and some rows.

        The question has this mechanism. The rows are the positions in `questions` at which a
        question has an equal mechanism.
        """
        examples, kinds = self._kinds
        kind_of_row = kinds[questions]
        for kind, example in enumerate(examples):
            rows = np.flatnonzero(kind_of_row == kind)
            if rows.size:
                yield example, rows

    def looked_at(self, codes: np.ndarray, questions: np.ndarray) -> np.ndarray:
        """Return, for each user, the code of the true answer to the user's question.

        Parameters
        ----------
        codes : ndarray of shape (n_samples, any) or (n_samples,)
            The users' values, in the form that `privatize` accepts.
        questions : ndarray of int of shape (n_samples,)
            The number of each user's question.

        Returns
        -------
        ndarray of shape (n_samples,)
            The codes, which the mechanisms of the questions accept.
        """
        if self._together is None:
            return codes[np.arange(len(codes)), questions]
        return self._together.codes(codes, questions)

    @cached_property
    def _together(self) -> Views | None:
        return None if self.views is None else Views(self.views)

    # -- on the server ------------------------------------------------------------------------
    def check_reports(self, reports: np.ndarray) -> np.ndarray:
        self._layout.require_reports(reports)
        for j, rows, _, k in self._at_places(reports):
            self.mechanisms[j].check_reports(self._layout.own(reports, rows, j, k))
            rest = self._layout.rest(reports, rows, j, k)
            require_reports(not rest.any(), f"zeros after the report on question {j}", rest)
        # Reports from files have small types, and 64-bit integers would make sums 8 times as slow.
        return reports if reports.dtype.itemsize < 8 else reports.astype(np.int64, copy=False)

    def _at_places(self, reports: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray, int]]:
        """Divide the reports on questions into groups with equal mechanisms and positions; yield
        the groups.

        A group is a tuple: a question with the mechanism of the group; the rows of its users; for
        each user, the question; and the position of these questions in the users' samples.
        """
        for k, questions in enumerate(self._samples.asked(reports).T):
            for j, rows in self._by_kind(questions):
                yield j, rows, questions[rows], k

    def reports_on(self, reports: np.ndarray, j: int) -> np.ndarray:
        """Return the reports of all users who answered one question.

        Parameters
        ----------
        reports : ndarray of shape (n, width)
            The users' reports on all questions of their samples, as `check_reports` returns them.
        j : int
            Number of the question.

        Returns
        -------
        ndarray with the users who answered the question as first axis
            The reports on the question, in the form of the question's mechanism.
        """
        return self.mechanisms[j].check_reports(self._layout.on(reports, j))

    def unlikely_total(self, reports: np.ndarray, rate: float) -> tuple[str, float]:
        both = enumerate(self.mechanisms)
        n = len(self.mechanisms)
        some = reports[: max(_TESTED_REPORTS // n, 1)]
        said = (
            mechanism.unlikely_total(self.reports_on(some, j), rate / n) for j, mechanism in both
        )
        return max(said, key=lambda statement: statement[1])

    @cached_property
    def tally_size(self) -> int:
        return len(self.mechanisms) + sum(mechanism.tally_size for mechanism in self.mechanisms)

    def tally(self, reports: np.ndarray) -> np.ndarray:
        tally = np.zeros(self.tally_size, dtype=np.int64)
        asked = self._samples.asked(reports)
        tally[: len(self.mechanisms)] = np.bincount(asked.ravel(), minlength=len(self.mechanisms))
        for j, rows, questions, k in self._at_places(reports):
            own = self.mechanisms[j].check_reports(self._layout.own(reports, rows, j, k))
            for question, own_tally in self.mechanisms[j].tally_each(own, questions):
                tally[self._tally_places[question]] += own_tally
        return tally

    @cached_property
    def _tally_places(self) -> list[slice]:
        return _slices([mechanism.tally_size for mechanism in self.mechanisms])

    def tallies_on(self, tallies: np.ndarray, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Extract the tallies of one question from the tallies of the survey.

        A tally is a vector of counts of reports.

        Parameters
        ----------
        tallies : ndarray of shape (..., tally_size)
            Results of `tally` of the survey, or sums of such results.
        j : int
            Number of the question.

        Returns
        -------
        (ndarray of shape (..., own tally_size), ndarray of shape (...,))
            The tallies of the question's mechanism, and the numbers of users who answered the
            question.
        """
        return tallies[..., self._tally_places[j]], tallies[..., j]

    def check_tallies(self, tallies: np.ndarray, sizes: np.ndarray) -> None:
        super().check_tallies(tallies, sizes)
        asked = tallies[:, : len(self.mechanisms)]
        expected = self.n_drawn * sizes
        # Sums of integers may wrap around, while sums of floats only lose digits.
        is_off = np.abs(asked.sum(axis=1, dtype=float) - expected) > 0.5 + 1e-9 * expected
        is_off |= (asked.sum(axis=1) != expected) | np.any(asked > sizes[:, None], axis=1)
        if np.any(is_off):
            raise ValueError(
                "the numbers of users who answered the questions add up to "
                f"{asked.sum(dtype=float):.0f}, expected {self.n_drawn} times the number of "
                f"reports, which is {sizes.sum()}"
            )
        for j, mechanism in enumerate(self.mechanisms):
            mechanism.check_tallies(*self.tallies_on(tallies, j))

    def decode_operations(self, n_samples: int) -> int:
        return self._least_operations if n_samples == 0 else self._operations(n_samples)

    @cached_property
    def _least_operations(self) -> int:
        return self._operations(0)

    def _operations(self, n_samples: int) -> int:
        return sum(
            mechanism.decode_operations(math.ceil(n_samples * pi))
            for mechanism, pi in zip(self.mechanisms, self.probabilities.tolist(), strict=True)
        )

    def decode(self, tallies: np.ndarray) -> np.ndarray:
        both = enumerate(self.mechanisms)
        decoded = [mechanism.decode(self.tallies_on(tallies, j)[0]) for j, mechanism in both]
        return np.concatenate([tallies[:, : len(self.mechanisms)], *decoded], axis=1)

    @cached_property
    def _decoded_places(self) -> list[slice]:
        both = (
            (mechanism, np.zeros((1, mechanism.tally_size), dtype=np.int64))
            for mechanism in self.mechanisms
        )
        return _slices([mechanism.decode(tally).shape[1] for mechanism, tally in both])

    def decoded_on(self, decoded: np.ndarray, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Extract the decoded tallies of one question from the decoded tallies of the survey.

        Parameters
        ----------
        decoded : ndarray of shape (m, any)
            The result of `decode` of the survey.
        j : int
            Number of the question.

        Returns
        -------
        (ndarray of shape (m, any), ndarray of shape (m,))
            The decoded tallies of the question, and the numbers of users who answered the question.
        """
        return decoded[:, self._decoded_places[j]], decoded[:, j]


def _slices(widths: list[int]) -> list[slice]:
    """Return a slice for each of several consecutive blocks with the given widths.

    The first block starts after as many entries as there are blocks.
    """
    ends = np.cumsum([len(widths), *widths]).tolist()
    return [slice(start, stop) for start, stop in pairwise(ends)]
