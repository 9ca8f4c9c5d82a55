"""Hadamard response: reports of one column of a Hadamard matrix."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.common.random import RandomState
from .._core.domains import Categories
from .._core.mechanisms.channel import IndexChannel
from .._core.mechanisms.coins import exp_lower_bound
from .._core.mechanisms.mechanism import bit_width
from .._core.numerics.transforms import walsh_hadamard
from ._base import BaseOracle


class HadamardResponse(BaseOracle, tag="hadamard-response"):
    """Hadamard response: for small epsilons, with reports of one integer and fast decoding.

    The oracle uses a Hadamard matrix of order K, a power of two that is larger than the number d of
    categories. Each category is assigned to one row of this matrix. (Row 0 contains only ones and
    is not used.) Each row has the entry +1 in one half of the columns and -1 in the other half. The
    user reports one column. With probability p it is drawn uniformly from the columns with +1 in
    the row of the user's category, otherwise from the columns with -1,

    .. math:: p = \\frac{e^\\epsilon}{e^\\epsilon + 1}, \\qquad q = \\frac12.

    where q is the probability that a user of another category reports a column with +1 in this row
    [1]_. A report is one integer in [0, K). The server computes the estimate with one fast
    Walsh-Hadamard transform. The oracle is as accurate as :class:`BLH`. If :math:`e^\\epsilon` is
    far above 1, its variance is larger than the minimum of all oracles.

    With ``n_blocks > 1`` the matrix is block diagonal: it has B Hadamard matrices (blocks) on its
    diagonal, and zeros elsewhere [2]_. Each category is assigned to one row of one block. The
    reported column is then more likely to lie in the block of the user's category, which reduces
    the variance for large epsilon. The estimate of a category compares the reports of the columns
    with +1 and with -1 in its row. The variance depends on the frequency of the block:

    .. math:: n \\operatorname{Var}_v = \\frac{2 (e^\\epsilon + 2B - 1)}{(e^\\epsilon - 1)^2}
              \\left(1 + \\frac{e^\\epsilon - 1}{2} F_v \\right) - f_v,

    where :math:`f_v` is the frequency of category v, and :math:`F_v` is the sum of the frequencies
    of all categories in the same block.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; everything computed from reports is free.

    %(parameters)s
    n_blocks : "auto" or int, default=1
        Number B of blocks, a power of two. 1 is the mechanism of [1]_. "auto" chooses the number of
        [2]_: the largest power of two up to :math:`\\min(e^\\epsilon, 2d)`.

    %(attributes)s
    n_blocks_ : int
        The number B of blocks.

    See Also
    --------
    ProjectiveGeometryResponse : Similar costs, and nearly the minimum variance for any epsilon.

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
    >>> colors = np.repeat(["red", "green", "blue"], [60_000, 30_000, 10_000])
    >>> oracle = HadamardResponse(2.0, categories=["red", "green", "blue"], random_state=0)
    >>> oracle.fit(colors).frequencies_.round(1)
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
        self._store(epsilon, categories, input, n_shards, random_state, n_jobs)
        self.n_blocks = n_blocks

    @property
    def n_blocks_(self) -> int:
        """The number of Hadamard matrices (blocks) on the diagonal of the matrix."""
        return self._fitted("n_blocks_").mechanism.n_blocks

    def _make_mechanism(self, domain):
        n_categories = domain.size
        n_blocks = self.n_blocks
        if isinstance(n_blocks, str):
            limit = min(exp_lower_bound(self.epsilon), 2 * n_categories)
            n_blocks = 1 << (int(limit).bit_length() - 1)
        if n_blocks & (n_blocks - 1):
            raise ValueError(
                "The 'n_blocks' parameter of HadamardResponse must be \"auto\" or a power of two, "
                f"such as 1, 2 or 4. Got {n_blocks!r} instead."
            )
        if n_blocks == 1:
            return HadamardChannel(n_categories, self.epsilon)
        return BlockHadamardChannel(n_categories, self.epsilon, int(n_blocks))


class HadamardChannel(IndexChannel, tag="hadamard-channel"):
    """Mechanism of :class:`HadamardResponse` with one block: a report is a column of a Hadamard
    matrix.

    Columns with +1 in the row of the user's category are more likely than columns with -1.
    """

    n_blocks = 1
    report_name = "column"

    def __init__(self, n_categories: int, epsilon: float):
        # Row 0 of a block is all ones and reveals nothing, so no category uses it.
        rows_needed = -(-n_categories // self.n_blocks) + 1
        self.order = 1 << int(rows_needed - 1).bit_length()
        n_columns = self.n_blocks * self.order
        half = self.order // 2
        super().__init__(n_categories, epsilon, n_columns, half, half // 2)

    @property
    def configuration(self):
        return {"n_blocks": self.n_blocks}

    @property
    def client_parameters(self):
        return {"kind": "hadamard", "order": self.order, "inside": self.threshold}

    def decode_operations(self, n_samples):
        return n_samples + self.n_reports * bit_width(self.order)

    # -- places of categories -----------------------------------------------------------------
    def _place(self, codes):
        """Return two arrays: the block of each category, and its row inside this block."""
        row, block = np.divmod(codes.astype(np.int64), self.n_blocks)
        return block, row + 1

    def _in_blocks(self, weights):
        """Write the weight of each category at the block and row of this category, and zeros
        elsewhere.

        Shapes: weights (..., d) -> (..., n_blocks, order).
        """
        blocks = np.zeros((*weights.shape[:-1], self.n_blocks, self.order))
        blocks[..., *self._place(np.arange(self.n_categories))] = weights
        return blocks

    def supports(self, reports, codes):
        block, row = self._place(codes)
        own_block, column = np.divmod(reports[:, None], self.order)
        return (own_block == block) & (np.bitwise_count(column & row) & 1 == 0)

    @property
    def largest_support(self):
        # The first column of a block supports all categories of the block.
        return -(-self.n_categories // self.n_blocks)

    def _spread(self, weights):
        return self._halves(self._in_blocks(weights)).reshape(*weights.shape[:-1], -1)

    def _gather(self, weights):
        halves = self._halves(weights.reshape(self.n_blocks, self.order))
        return halves[self._place(np.arange(self.n_categories))]

    @staticmethod
    def _halves(blocks):
        """Return, for each row of each block, the sum of the weights of the columns with +1.

        `blocks` has shape (..., n_blocks, order) and contains one weight per column.
        """
        return (walsh_hadamard(blocks) + blocks.sum(axis=-1, keepdims=True)) / 2

    def _member(self, codes, index, sign):
        """Return a column of the block of each user's category, given the column's index in one
        half.

        The half contains the columns with +1 (if `sign` is 0) or -1 (if `sign` is 1) in the row of
        the category. `codes` contains the number of each user's category, and `index` an index per
        user.
        """
        block, row = self._place(codes)
        pivot = row & -row
        low = index & (pivot - 1)
        column = ((index - low) << 1) | low
        wrong = (np.bitwise_count(column & row) & 1) != sign
        return block * self.order + np.where(wrong, column | pivot, column)

    def _inside(self, codes, index):
        return self._member(codes, index, 0)

    def _outside(self, codes, index):
        return self._member(codes, index, 1)

    # -- supports and their noise -------------------------------------------------------------
    def decode(self, tallies):
        signed = walsh_hadamard(tallies.reshape(len(tallies), self.n_blocks, self.order))
        by_code = self._supports_of(signed, tallies)[:, :, 1:].transpose(0, 2, 1)
        return by_code.reshape(len(tallies), -1)[:, : self.n_categories]

    def _supports_of(self, signed, tallies):
        """Return, for each row of each block, the number of reports of columns with +1 in this row.

        `signed` contains the number of reports of columns with +1 minus the number with -1, for
        each row. `tallies` contains the number of reports of each column. The first axis is one
        collection each.
        """
        return (signed + tallies.sum(axis=1)[:, None, None]) // 2


class BlockHadamardChannel(HadamardChannel, tag="block-hadamard-channel"):
    """Mechanism of :class:`HadamardResponse` with several blocks.

    A report is a column of a block-diagonal matrix; each block is a Hadamard matrix. Columns with
    +1 in the row of the user's category are more likely than other columns.
    """

    # Support counts are signed: reports for a category minus reports of the same block against it.
    # So their noise grows with the frequency of the block.

    def __init__(self, n_categories: int, epsilon: float, n_blocks: int):
        self.n_blocks = n_blocks
        super().__init__(n_categories, epsilon)
        self.p, self.q = self.inside - self.against, Fraction(0)

    client_parameters = None  # clients in other languages do not support blocks
    own_support = property(lambda self: self.inside)
    least_other_support = property(lambda self: self.against)  # of a category in another block

    def _outside(self, codes, index):
        against = self._member(codes, np.minimum(index, self.n_inside - 1), 1)
        # Columns of other blocks are numbered as if the user's block were not there.
        other = index - self.n_inside
        start = self._place(codes)[0] * self.order
        other = np.where(other >= start, other + self.order, other)
        return np.where(index < self.n_inside, against, other)

    def _supports_of(self, signed, tallies):
        return signed

    @property
    def blocks(self) -> np.ndarray:
        """For each category, the number of the block to which the category is assigned, of shape
        (d,)."""
        return np.arange(self.n_categories) % self.n_blocks

    @property
    def _per_user(self):
        """Return two probabilities: a report is in the block of the user's category, or in one
        other block.

        The second probability is for a single other block, and is the same for all of them.
        """
        return float(self.inside + self.against), float(2 * self.against)

    @property
    def null_variance(self):
        """Variance of an estimated frequency from one user, if the frequency of the block is 0.

        The frequency of a block is the sum of the frequencies of its categories.
        """
        return self._per_user[1] / float(self.p) ** 2

    @property
    def slope(self):
        """Derivative of the variance (for one user) with respect to the frequency of the category.

        The other categories in the same block are assumed to have frequency 0.
        """
        own_block, other_block = self._per_user
        return (own_block - other_block) / float(self.p) ** 2 - 1

    def variances(self, frequencies):
        own_block, other_block = self._per_user
        blocks = self.blocks
        member = blocks[:, None] == np.arange(blocks.max() + 1)
        block_frequencies = (frequencies @ member)[..., blocks]
        per_user = other_block + block_frequencies * (own_block - other_block)
        return per_user / float(self.p) ** 2 - frequencies

    def contributions(self, law, weights):
        # A column counts against the categories of its block that the column does not support.
        totals = self._in_blocks(weights).sum(axis=-1)
        return (2 * law.spread(weights) - np.repeat(totals, self.order, axis=-1)) / float(self.p)

    def gathered_contributions(self, law, weights):
        totals = weights.reshape(self.n_blocks, self.order).sum(axis=1)
        return (2 * law.gather(weights) - totals[self.blocks]) / float(self.p)
