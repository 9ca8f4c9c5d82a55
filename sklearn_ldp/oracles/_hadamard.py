"""Hadamard response: one index of a Hadamard matrix."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .._random import RandomState
from .._typing import Categories
from ..mechanisms.channel import Channel
from ..mechanisms.coins import TWO_64, exp_lower_bound, group_threshold
from ..mechanisms.covariances import gram, inner
from ..mechanisms.laws import ReportLaw, choice_entropy, simulate_members
from ..mechanisms.mechanism import ReportField, bits_for, check_indices
from ..numerics.transforms import walsh_hadamard
from ._base import BaseOracle
from .collector import inherit_parameters


@inherit_parameters
class HadamardResponse(BaseOracle):
    """Hadamard response.

    Each category has a row of a Hadamard matrix of order K, a power of two above d (row 0, all
    ones, is never used), and is supported by the half of the columns where its row is +1. The user
    reports one column: with probability p a uniform one of the half that supports her category,
    otherwise a uniform one of the other half,

    .. math:: p = \\frac{e^\\epsilon}{e^\\epsilon + 1}, \\qquad q = \\frac12.

    A report is one integer in [0, K), and decoding is one fast Walsh-Hadamard transform. The
    accuracy is that of :class:`BLH`: it falls short of the optimum where :math:`e^\\epsilon` is far
    above 1.

    With ``n_blocks > 1`` the matrix has B blocks on its diagonal [2]_: the column lies in the block
    of the category with a higher probability, which suits large budgets. The estimate of a category
    then compares the two halves of its block, and its variance depends on the frequency of the
    block:

    .. math:: n \\operatorname{Var}_v = \\frac{2 (e^\\epsilon + 2B - 1)}{(e^\\epsilon - 1)^2}
              \\left(1 + \\frac{e^\\epsilon - 1}{2} F_v \\right) - f_v,

    where :math:`F_v` is the frequency of all categories of the block.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; all that is done with reports is free.

    %(parameters)s
    n_blocks : "auto" or int, default=1
        Number B of blocks, a power of two; 1 is the papers' variant; "auto" is the choice of [2]_,
        the largest power of two up to :math:`\\min(e^\\epsilon, 2d)`.

    %(attributes)s
    n_blocks_ : int
        The number B of blocks.

    See Also
    --------
    ProjectiveGeometryResponse : As cheap, and near the optimum at any budget.

    References
    ----------
    .. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li, "Locally differentially
       private frequency estimation with consistency", NDSS 2020, section III-C,
       :doi:`10.14722/ndss.2020.24157`.
    .. [2] J. Acharya, Z. Sun, H. Zhang, "Hadamard response: estimating distributions privately,
       efficiently, and with little communication", AISTATS 2019.
       https://proceedings.mlr.press/v89/acharya19a.html

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import HadamardResponse
    >>> colours = np.repeat(["red", "green", "blue"], [60_000, 30_000, 10_000])
    >>> oracle = HadamardResponse(2.0, categories=["red", "green", "blue"], random_state=0)
    >>> oracle.fit(colours).frequencies_.round(1)
    array([0.6, 0.3, 0.1])
    """

    _parameter_constraints: dict = {
        **BaseOracle._parameter_constraints,
        "n_blocks": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
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
        n_blocks: int | str = 1,
    ) -> None:
        super().__init__(
            epsilon,
            categories=categories,
            input=input,
            n_shards=n_shards,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.n_blocks = n_blocks

    @property
    def n_blocks_(self) -> int:
        """The number B of blocks."""
        return self._fitted("n_blocks_").mechanism.n_blocks

    def _make_mechanism(self, domain):
        n_categories, n_blocks = domain.size, self.n_blocks
        if isinstance(n_blocks, str):
            limit = min(exp_lower_bound(self.epsilon), 2 * n_categories)
            n_blocks = 1 << (int(limit).bit_length() - 1)
        if n_blocks & (n_blocks - 1):
            raise ValueError(
                "The 'n_blocks' parameter of HadamardResponse must be \"auto\" or a power of two. "
                f"Got {n_blocks!r} instead."
            )
        return HadamardChannel(n_categories, self.epsilon, int(n_blocks))


class HadamardChannel(Channel):
    """Report a column of B diagonal Hadamard blocks, mostly one where the category's row is +1."""

    def __init__(self, n_categories: int, epsilon: float, n_blocks: int):
        self.n_blocks = n_blocks
        # Row 0 of a block is all ones and tells nothing, so no category gets it.
        rows_needed = -(-n_categories // n_blocks) + 1
        self.order = 1 << int(rows_needed - 1).bit_length()
        self.half = self.order // 2
        self.n_columns = n_blocks * self.order
        self.threshold = group_threshold(epsilon, self.half, self.n_columns - self.half)
        # Probability of the category's half of its block, and of any other half block.
        self._inside = Fraction(self.threshold, TWO_64)
        self._against = (1 - self._inside) * self.half / (self.n_columns - self.half)
        if n_blocks == 1:
            p, q = self._inside, Fraction(1, 2)
        else:  # support counts are signed: reports for a category minus those against it
            p, q = self._inside - self._against, Fraction(0)
        super().__init__(n_categories, p, q)

    @property
    def configuration(self):
        return {"n_blocks": self.n_blocks}

    @property
    def report_fields(self):
        return (ReportField("column", self.n_columns),)

    @property
    def report_bits(self):
        return bits_for(self.n_columns)

    def report_entropy(self, order=1):
        return choice_entropy(self._inside, self.half, self.n_columns - self.half, order)

    @property
    def tally_sum(self):
        return 1

    def decode_operations(self, n_samples):
        return n_samples + self.n_columns * bits_for(self.order)

    def supports(self, reports, codes):
        block, row = self._place(codes)
        own_block, column = np.divmod(reports[:, None], self.order)
        return (own_block == block) & (np.bitwise_count(column & row) & 1 == 0)

    @property
    def tally_size(self):
        return self.n_columns

    # -- noise: with blocks it grows with the frequency of the category's block ---------------
    @property
    def _per_user(self):
        """Probability of a report in the block of the user's category, and in a given other one."""
        return float(self._inside + self._against), float(2 * self._against)

    @property
    def null_variance(self):
        """Variance for one user, for a category in a block that nobody has."""
        if self.n_blocks == 1:
            return super().null_variance
        return self._per_user[1] / float(self.p) ** 2

    @property
    def slope(self):
        """Growth of that variance with the frequency, for a category that is alone in its block."""
        if self.n_blocks == 1:
            return super().slope
        own_block, other_block = self._per_user
        return (own_block - other_block) / float(self.p) ** 2 - 1

    def variances(self, frequencies):
        if self.n_blocks == 1:
            return super().variances(frequencies)
        own_block, other_block = self._per_user
        blocks = self.blocks
        member = blocks[:, None] == np.arange(blocks.max() + 1)
        of_block = (frequencies @ member)[..., blocks]
        per_user = other_block + of_block * (own_block - other_block)
        return per_user / float(self.p) ** 2 - frequencies

    has_exact_covariance = True

    def covariances(self, rows, frequencies, *, diagonal):
        # With supports signed +1 and -1, users of x correlate two other categories v and w only if
        # all three are in the same block, and the row of x is the product of those of v and w.
        of_users = walsh_hadamard(self._in_blocks(frequencies)).ravel()
        pairs = gram(
            lambda a: walsh_hadamard(self._in_blocks(a)).ravel(),
            rows,
            of_users / self.order / float(self._inside - self._against),
            diagonal,
        )
        return inner(rows.multiply(self.variances(frequencies)).tocsr(), rows, diagonal) + pairs

    def contributions(self, law, weights):
        if self.n_blocks == 1:
            return super().contributions(law, weights)
        # Signed: a column counts against the categories of its block that it does not support.
        totals = np.bincount(self.blocks, weights, minlength=self.n_blocks)
        return (2 * law.spread(weights) - np.repeat(totals, self.order)) / float(self.p)

    def gathered_contributions(self, law, weights):
        if self.n_blocks == 1:
            return super().gathered_contributions(law, weights)
        totals = weights.reshape(self.n_blocks, self.order).sum(axis=1)
        return (2 * law.gather(weights) - totals[self.blocks]) / float(self.p)

    @property
    def largest_support(self):
        # The first column of a block supports all categories of the block.
        return -(-self.n_categories // self.n_blocks)

    @property
    def report_law(self):
        inside = self._inside / self.half
        outside = (1 - self._inside) / (self.n_columns - self.half)
        return ReportLaw(float(inside), float(outside), self._spread, self._gather)

    def _spread(self, weights):
        """Return, for each column, the sum of the weights of the categories that it supports."""
        return self._halves(self._in_blocks(weights)).ravel()

    def _in_blocks(self, weights):
        """Place the categories' weights where their rows are, in the shape (n_blocks, order)."""
        blocks = np.zeros((self.n_blocks, self.order))
        blocks[self._place(np.arange(self.n_categories))] = weights
        return blocks

    def _gather(self, weights):
        """Return, for each category, the sum of the weights of the columns that support it."""
        halves = self._halves(weights.reshape(self.n_blocks, self.order))
        return halves[self._place(np.arange(self.n_categories))]

    @staticmethod
    def _halves(blocks):
        """Return the sums of each block over the places where the rows of the matrix are +1."""
        return (walsh_hadamard(blocks) + blocks.sum(axis=1, keepdims=True)) / 2

    @property
    def blocks(self) -> np.ndarray:
        """The block of each category."""
        return np.arange(self.n_categories) % self.n_blocks

    def _place(self, codes):
        """Return the block of each category, and its row inside that block."""
        row, block = np.divmod(codes.astype(np.int64), self.n_blocks)
        return block, row + 1

    def _member(self, codes, index, sign):
        """Return the index-th column of the category's block where its row is `sign` (0 is +1)."""
        block, row = self._place(codes)
        pivot = row & -row
        low = index & (pivot - 1)
        column = ((index - low) << 1) | low
        wrong = (np.bitwise_count(column & row) & 1) != sign
        return block * self.order + np.where(wrong, column | pivot, column)

    def privatize(self, codes, coins):
        is_inside = coins.bernoulli(self.threshold, len(codes))
        reports = np.empty(len(codes), dtype=np.int64)
        inside, outside = np.flatnonzero(is_inside), np.flatnonzero(~is_inside)
        index = coins.integers(self.half, inside.size)
        reports[inside] = self._member(codes[inside], index, 0)
        index = coins.integers(self.n_columns - self.half, outside.size)
        codes = codes[outside]
        against = self._member(codes, np.minimum(index, self.half - 1), 1)
        # Columns of other blocks are numbered as if the user's block were not there.
        other = index - self.half
        start = self._place(codes)[0] * self.order
        other = np.where(other >= start, other + self.order, other)
        reports[outside] = np.where(index < self.half, against, other)
        return reports

    def check_reports(self, reports):
        return check_indices(reports, self.n_columns)

    def tally(self, reports):
        return np.bincount(reports, minlength=self.n_columns)

    def count_support(self, reports):
        return self.decode(self.tally(reports)[None])[0]

    def decode(self, tallies):
        blocks = tallies.reshape(len(tallies), self.n_blocks, self.order)
        signed = walsh_hadamard(blocks)
        if self.n_blocks == 1:
            signed = (signed + tallies.sum(axis=1)[:, None, None]) // 2
        by_code = signed[:, :, 1:].transpose(0, 2, 1)
        return by_code.reshape(len(tallies), -1)[:, : self.n_categories]

    def simulate(self, counts, n_repeats, rng):
        # A user either ignores her category and draws any column, or draws a column of her half.
        share = self._inside - self._against
        columns = simulate_members(
            counts,
            n_repeats,
            rng,
            float(share),
            self.n_columns,
            self.half,
            lambda codes, index: self._member(codes, index, 0),
        )
        return self.decode(columns)
