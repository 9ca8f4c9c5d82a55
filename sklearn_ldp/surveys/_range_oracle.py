"""RangeOracle, an oracle for the totals of ranges of ordered bins.

It uses a channel for prefixes, a tree of coarser and coarser bins, or coarser and coarser grids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.common.locks import cached_property
from .._core.common.random import RandomState
from .._core.domains import Categories, Domain
from .._core.mechanisms.channel import Channel, LinearMechanism
from .._core.mechanisms.several import SampledQuestions, shares_over_2_64
from .._core.noise import MULTINOMIAL, Covariances, Noise
from .._core.numerics.nested_waves import nested_waves
from .._core.queries import prefixes
from ..oracles import (
    GRR,
    BaseOracle,
    MatrixOracle,
    ProjectiveGeometryResponse,
    SubsetSelection,
    best_oracle,
)

_MAX_MATRIX_BINS = 256  # maximum number of bins for a matrix
_MAX_BINS = 1 << 20
_MAX_GRID_BINS = 512  # maximum number of bins of each axis of a grid
_FAN_OUT = 4  # 2 has twice the levels, 8 is less accurate: notes on numbers
_FEW_CELLS = 16  # maximum number of cells of a level for subset selection
# For at least this number of users, ranges of the prefix channel are more accurate than ranges of
# a square wave, both with SmoothMLE: eight real columns with 500 to 30,000 users, 25 November 2026
# (python -m benchmarks.accuracy.numeric_data --sections which --repeats 12).
_FEW_USERS = 3_000
_MAX_EXACT_BINS = 2048  # maximum number of bins for exact variances of single bins


# The split of users over the resolutions of a grid. The variance of frequencies of blocks, relative
# to equal ones, is the mean over the populations of `benchmarks.accuracy.places --tune`; the others
# were chosen by hand (2026-11-28, notes on places).
_PRIOR_VARIANCE = 0.3
_MODEL_WEIGHT = 0.8
_SMALLEST_SHARE = 0.04
_SHARE_STEPS = 100
_GRID_USERS = 100_000  # if `expected_n_users` is None


class RangeOracle(BaseOracle, tag="range-oracle"):
    """Estimate the frequencies of ordered bins with accurate ranges, prefixes and quantiles.

    For up to 256 bins, the oracle is a :class:`~sklearn_ldp.MatrixOracle` for prefixes. It is more
    accurate than the tree below, but cannot be computed for more bins. For more bins, up to 2**20,
    there is a tree. On its lowest level, users are asked for their bin. On each higher level, users
    are asked for their group of 4, 16, 64, .. neighboring bins. For each user, one of the levels is
    drawn with public randomness. All levels have the same probability. The estimate is the best
    linear combination of all levels (generalized least squares in a tree).

    The cells of a :meth:`~sklearn_ldp.Domain.grid` are pairs of bins of two numbers. Over a grid,
    each user is asked for a cell, for a strip or a larger block of cells, or for the bin of one of
    the two numbers. The proportions of users who are asked for each of these minimize the expected
    error of random rectangles. They are computed before any user is asked. The fewer users are
    expected (`expected_n_users`), the more of them are asked for large blocks. The estimate is the
    best linear combination of all reports. `strategy` has no effect. Strips and larger blocks are
    only used if both numbers have an even number of bins.

    The estimate is unbiased, and all answers to linear queries have confidence intervals. With
    fewer bins there is less noise: 64 bins instead of 256 reduce the variance of a prefix by 40 %.
    Single bins have more noise than with other oracles. Use another oracle to find the most
    frequent values. Do not apply post-processors that change single categories, such as
    :class:`~sklearn_ldp.NormSub`, because they make the answers for ranges inaccurate.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user. No operation on reports spends epsilon. A report shows which level the user was asked
    about.

    %(parameters)s
    strategy : {"tree", "square-wave", "auto"}, default="tree"
        The mechanism of the reports. "tree" is described above. "square-wave" accepts up to 2,048
        bins. Its reports are numbers. Numbers near the user's bin are more likely. Together with
        :class:`~sklearn_ldp.SmoothMLE`, "square-wave" is more accurate for means and standard
        deviations, and with fewer than 3,000 users also for ranges, unless the distribution has
        narrow peaks. For ranges, the intervals of "square-wave" are twice as wide as the intervals
        of "tree". "auto" uses "square-wave" for up to 256 bins and fewer than 3,000 expected users,
        and otherwise "tree".
    expected_n_users : int or None, default=None
        Expected number of users. It is required for "auto". Over a grid, None means 100,000. It
        has no effect otherwise. Choose this number before any data are collected, because clients
        and servers must use the same number.

    %(attributes)s

    See Also
    --------
    MatrixOracle : A channel that can be optimized for any other queries.
    sklearn_ldp.inference.quantiles : Estimates quantiles with confidence intervals.

    Notes
    -----
    The noise of the tree is computed as if each level had its expected number of users. With more
    than 2,048 bins, the variances of single bins are approximations, which are accurate if the
    users are spread over many bins.

    References
    ----------
    .. [1] G. Cormode, T. Kulkarni, D. Srivastava, "Answering range queries under local differential
       privacy", PVLDB 12(10), 2019, :doi:`10.14778/3339490.3339496`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import Domain, RangeOracle
    >>> from sklearn_ldp.queries import between
    >>> ages = np.random.default_rng(0).normal(40, 12, 50_000).clip(0, 99)
    >>> bins = Domain.bins(64, bounds=(0, 100))
    >>> oracle = RangeOracle(1.0, categories=bins, random_state=0)
    >>> oracle.fit_transform(ages).answer(between([(20, 40), (65, 100)])).round(2)
    [20, 40)   0.44
    [65, 100)  0.03
    """

    _checked_sizes = (5, 2)  # for `check_oracle`: larger matrices need a second to compute
    _parameter_constraints: dict = {
        **BaseOracle._parameter_constraints,
        "strategy": [StrOptions({"tree", "square-wave", "auto"})],
        "expected_n_users": [Interval(Integral, 1, None, closed="left"), None],
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
        strategy: str = "tree",
        expected_n_users: int | None = None,
    ) -> None:
        self._store(epsilon, categories, input, n_shards, random_state, n_jobs)
        self.strategy = strategy
        self.expected_n_users = expected_n_users

    def _make_mechanism(self, domain: Domain) -> Any:
        if domain.grid_ends is not None and max(domain.shape) > _MAX_GRID_BINS:
            raise ValueError(
                f"RangeOracle supports at most {_MAX_GRID_BINS} bins of each number of a grid, got "
                f"{' x '.join(map(str, domain.shape))}. Use fewer bins."
            )
        if domain.grid_ends is not None:
            n_users = self.expected_n_users or _GRID_USERS
            return best_grid(self.epsilon, domain.shape, n_users)
        if self.strategy == "auto" and self.expected_n_users is None:
            raise ValueError(
                'RangeOracle(strategy="auto") needs expected_n_users, got None. Pass the expected '
                "number of users as expected_n_users= before any data are collected."
            )
        is_wave = self.strategy == "square-wave"
        if self.strategy == "auto" and domain.size <= _MAX_MATRIX_BINS:
            is_wave = (self.expected_n_users or 0) < _FEW_USERS
        if is_wave:
            return MatrixOracle(self.epsilon, strategy="square-wave")._make_mechanism(domain)
        if domain.size <= _MAX_MATRIX_BINS:
            return MatrixOracle(self.epsilon, queries=prefixes())._make_mechanism(domain)
        if domain.size > _MAX_BINS:
            raise ValueError(
                f"RangeOracle supports at most {_MAX_BINS:,} bins, got {domain.size:,} bins. Pass "
                "categories= with fewer bins."
            )
        return _tree(self.epsilon, domain.size)


def _tree(epsilon: float, n_categories: int) -> TreeChannel:
    """Return the TreeChannel of a domain.

    The bins of each level are 4 times as wide as the bins of the next level. The bins of the last
    level are the categories. Each level has the most accurate mechanism whose reports need few
    bits.
    """
    widths = [1]
    while n_categories > _FAN_OUT * widths[0]:
        widths.insert(0, _FAN_OUT * widths[0])
    levels = [short_channel(epsilon, -(-n_categories // width)) for width in widths]
    return TreeChannel(levels, shares_over_2_64(np.ones(len(levels))), n_categories, widths)


def short_channel(epsilon: float, n_cells: int) -> Any:
    """Return the most accurate channel for n_cells categories.

    Only channels whose reports need few bits are compared.
    """
    short = SubsetSelection() if n_cells <= _FEW_CELLS else ProjectiveGeometryResponse()
    return best_oracle(epsilon, n_cells, candidates=[GRR(), short]).channel()


class TreeChannel(SampledQuestions, LinearMechanism, tag="tree-channel"):
    """A mechanism with one question for each level of a tree over ordered categories.

    Each level divides the categories into bins of equal width. The bins of a level are unions of
    bins of the next level. Each user is asked for their bin on one randomly drawn level.
    """

    # A code is the number of a category. On a level with bins of `w` categories a user reports
    # `code // w`. The estimate of the categories is the weighted least-squares fit to the raw
    # estimates of all levels, under the condition that the sum is 1. The weights assume uniform
    # frequencies.
    # shares: as for `SampledQuestions`.
    # n_categories: number of categories.
    # widths: number of categories of a bin of each level. Each width is a multiple of the next
    # width. The last width is 1.

    mechanisms: tuple[Any, ...]  # the mechanism of each level, the coarsest level first
    _domain_name = "its tree"  # in errors
    _remedy = "256 or fewer bins"  # in errors

    settle = Channel.settle

    def __init__(
        self, mechanisms: Sequence[Any], shares: Sequence[int], n_categories: int, widths: list[int]
    ) -> None:
        super().__init__(mechanisms, shares)
        self.n_categories = n_categories
        self._widths = np.array(widths)

    @property
    def configuration(self) -> dict[str, Any]:
        return {**super().configuration, "widths": ",".join(map(str, self._widths))}

    def for_enumeration(self) -> TreeChannel:
        small = super().for_enumeration().mechanisms
        return TreeChannel(small, self.shares, self.n_categories, self._widths.tolist())

    def looked_at(self, codes: np.ndarray, questions: np.ndarray) -> np.ndarray:
        return codes // self._widths[questions]

    def simulate(self, counts: np.ndarray, n_repeats: int, rng: np.random.Generator) -> np.ndarray:
        collections = []
        for sizes in self.draw_sizes(int(counts.sum()), n_repeats, rng):
            support = [sizes]
            remaining = counts
            for j, (channel, size) in enumerate(zip(self.mechanisms, sizes, strict=True)):
                users = rng.multivariate_hypergeometric(remaining, size, method="marginals")
                support.append(channel.simulate(self._on_level(users, j), 1, rng)[0])
                remaining = remaining - users
            collections.append(np.concatenate(support))
        return np.stack(collections)

    def _on_level(self, values: np.ndarray, j: int) -> np.ndarray:
        """Return the sum of the categories' values in each cell of level j.

        Shapes: values (.., d) -> (.., n_cells).
        """
        return _binned(values, self._widths[j])

    def _from_level(self, values: np.ndarray, j: int) -> np.ndarray:
        """Return, for each category, the value of the cell of level j that contains it.

        Shapes: values (.., n_cells) -> (.., d).
        """
        return _spread(values, self._widths[j], self.n_categories)

    # -- the fit ------------------------------------------------------------------------------
    @cached_property
    def _precisions(self) -> list[float]:
        """For each level, the inverse variance of a bin's estimate, under uniform frequencies."""
        precisions = []
        for channel, pi in zip(self.mechanisms, self.probabilities.tolist(), strict=True):
            drawing = 1 / channel.n_categories  # the variance of drawing users, in each direction
            variance = channel.total_variance() / (channel.n_categories - 1)
            precisions.append(1 / ((variance + drawing) / pi - drawing))
        return precisions

    def _fitted(self, levels: Sequence[Any], total: float) -> np.ndarray:
        """Fit the frequencies of all categories to the estimates of all levels by least squares.

        levels: for each level, the estimates of its cells, of shape (.., n_cells). total: the sum
        of the fitted frequencies. Returns: the frequencies, of shape (.., d).
        """
        # Up the tree: the value of a bin is averaged with the sum of the bins below it.
        values = levels[-1]
        variance = np.full(self.n_categories, 1 / self._precisions[-1])
        passed = []
        # Number of bins of each level within a bin of the level above. The bins of the first level
        # are within one bin.
        steps = [self.n_categories, *(self._widths[:-1] // self._widths[1:]).tolist()]
        for j in reversed(range(len(levels))):
            sums = _binned(variance, steps[j])
            passed.append((values, variance, sums, steps[j]))
            if j:
                precision = self._precisions[j - 1]
                below = _binned(values, steps[j])
                variance = 1 / (precision + 1 / sums)
                values = (precision * levels[j - 1] + below / sums) * variance
        # Down the tree: the difference between a bin and the sum of the bins below it is divided
        # among the bins below it.
        parents = np.full((*np.shape(values)[:-1], 1), total)
        for values, variance, sums, step in reversed(passed):
            difference = (parents - _binned(values, step)) / sums
            parents = values + variance * _spread(difference, step, values.shape[-1])
        return parents

    def _solved(self, rows: np.ndarray) -> np.ndarray:
        """Return the products of the covariance matrix of the fitted frequencies and each row.

        The covariance matrix is exact if the precisions of the levels are exact.
        Shapes: rows (.., d) -> (.., d).
        """
        zeros = [np.zeros(1)] * (len(self.mechanisms) - 1)
        return self._fitted([*zeros, rows / self._precisions[-1]], 0.0)

    def estimate_decoded(self, tallies: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, Noise]:
        levels = []
        for j, channel in enumerate(self.mechanisms):
            support, asked = self.decoded_on(tallies, j)
            if not asked.all():
                where = " of a group" if len(asked) > 1 else ""
                raise ValueError(
                    f"RangeOracle needs users for each level of {self._domain_name} of "
                    f"{self.n_categories:,} bins, but no user{where} was asked about level {j + 1} "
                    f"of the {len(self.mechanisms)} levels. Ask more users, or use {self._remedy}."
                )
            levels.append(channel.estimate_decoded(support, asked)[0])
        noise = self.noise(sizes if len(sizes) > 1 else int(sizes[0]))
        return np.stack([self._fitted(row, 1.0) for row in zip(*levels, strict=True)]), noise

    # -- the noise ----------------------------------------------------------------------------
    @cached_property
    def null_variance(self) -> float:
        others = 1 - self._middle
        return self._middle_variance(others / others.sum())

    @cached_property
    def slope(self) -> float:
        return self._middle_variance(self._middle) - self.null_variance

    def _middle_variance(self, frequencies: np.ndarray) -> float:
        return float(self.covariance(frequencies).variances(self._middle[None])[0])

    @cached_property
    def half_count(self) -> float:
        # A level may have few users, so a single report can change an estimate considerably.
        weights = [float(np.max(np.abs(row))) for row in self.pull(self._middle)]
        grids = [channel.half_count / pi for channel, pi, _ in self._levels(self._middle)]
        return max(np.multiply(weights, grids))

    @property
    def _middle(self) -> np.ndarray:
        """The distribution in which all users have the middle category, of shape (d,)."""
        return (np.arange(self.n_categories) == self.n_categories // 2).astype(float)

    def variances(self, frequencies: np.ndarray) -> np.ndarray:
        if self.n_categories > _MAX_EXACT_BINS:
            # This approximation is exact if all other categories have the same frequency.
            return self.null_variance + self.slope * frequencies
        # The errors of a level's bins have the sum 0, and are hardly correlated otherwise. Equal
        # weights therefore have no error, and the mean of the weights is subtracted.
        total = frequencies**2 - frequencies
        levels = zip(self._levels(frequencies), self.pull(np.eye(self.n_categories)), strict=True)
        for (channel, pi, f), weights in levels:
            n_cells = len(weights.T)
            drawing = f @ (weights**2).T - (f @ weights.T) ** 2
            squares = (weights - weights.mean(axis=1, keepdims=True)) ** 2
            reporting = n_cells / (n_cells - 1) * (channel.variances(f) @ squares.T)
            total += (reporting + drawing) / pi
        return total

    def covariance(self, frequencies: np.ndarray) -> Covariances:
        # An answer is a sum over the levels. Each level has different users, which are a random
        # part of all users. The difference between the frequencies of this part and of all users
        # is an error as well.
        levels = [
            (1 / pi, channel.noise(1).of_population().at(f))
            for channel, pi, f in self._levels(frequencies)
        ]
        parts = [(1.0, Covariances(levels, self)), (-1.0, MULTINOMIAL.covariance(frequencies))]
        return Covariances(parts, single=lambda: self.variances(frequencies))

    def _levels(self, frequencies: np.ndarray) -> Iterator[tuple[Any, float, np.ndarray]]:
        """For each level, yield its channel, its probability and the frequencies of its cells.

        frequencies: the frequencies of the categories, of shape (d,).
        """
        both = zip(self.mechanisms, self.probabilities.tolist(), strict=True)
        for j, (channel, pi) in enumerate(both):
            yield channel, pi, self._on_level(frequencies, j)

    def pull(self, rows: Any) -> Iterator[np.ndarray]:
        """Convert weights of queries on the categories to weights on the cells of each level.

        The fitted frequencies are linear functions of the estimates of all levels. The weighted sum
        over the cells of all levels is therefore the answer to the query.
        Shapes: rows (n_queries, d) or (d,) -> for each level (n_queries, n_cells) or (n_cells,).
        """
        solved = self._solved(rows.toarray() if sparse.issparse(rows) else rows)
        for j, precision in enumerate(self._precisions):
            yield precision * self._on_level(solved, j)

    def push(self, vectors: Sequence[np.ndarray]) -> np.ndarray:
        """Multiply one vector for each level by the transpose of the map `pull`; return the sum.

        If the vectors are the estimates of the levels, the result is the fit of the categories.
        Shapes: vectors (n_cells,) for each level -> (d,).
        """
        total = np.zeros(self.n_categories)
        for j, (vector, precision) in enumerate(zip(vectors, self._precisions, strict=True)):
            total += self._from_level(precision * vector, j)
        return self._solved(total)


def _binned(values: np.ndarray, width: int) -> np.ndarray:
    """Return the sums of groups of `width` neighbors along the last axis.

    The last group may have fewer than `width` numbers.
    """
    return np.add.reduceat(values, np.arange(0, values.shape[-1], width), axis=-1)


def _spread(values: np.ndarray, width: int, size: int) -> np.ndarray:
    """Repeat each value `width` times along the last axis, and keep the first `size` values."""
    return np.repeat(values, width, axis=-1)[..., :size]


class GridChannel(TreeChannel, tag="grid-channel"):
    """A mechanism for pairs of two numbers, with questions for coarser and coarser grids.

    Each level divides the pairs into rectangular blocks of cells. Each user is asked for their
    block on one randomly drawn level.
    """

    # A level's cell is a block of cells, `widths[0]` by `widths[1]` of them; a margin has the
    # width of the whole grid. All widths of an axis are the whole or powers of two that divide it.
    # The levels' normal equations then are diagonal in the product of two bases.

    _domain_name = "its grid"
    _remedy = "larger cells"

    def __init__(
        self,
        mechanisms: Sequence[Any],
        shares: Sequence[int],
        shape: tuple[int, ...],
        widths: Sequence[Sequence[int]],
    ) -> None:
        super().__init__(mechanisms, shares, shape[0] * shape[1], np.array(widths).tolist())
        self._shape = tuple(shape)

    def __check_state__(self) -> None:
        widths = np.asarray(self._widths)
        are_sizes = len(self._shape) == 2 and all(isinstance(n, int) for n in self._shape)
        if not are_sizes or self._shape[0] * self._shape[1] != self.n_categories:
            raise ValueError(
                f"a grid of the shape {self._shape!r:.80} cannot have {self.n_categories!r:.80} "
                "cells"
            )
        is_fine = widths.shape == (len(self.mechanisms), 2) and widths.min() >= 1
        if not is_fine or np.any(np.array(self._shape) % widths):
            raise ValueError(
                "the widths of the blocks on each level of a grid must be divisors of its shape"
            )

    @property
    def configuration(self) -> dict[str, Any]:
        widths = ",".join(f"{x}x{y}" for x, y in self._widths.tolist())
        shape = "x".join(map(str, self._shape))
        return {**super().configuration, "widths": widths, "shape": shape}

    def for_enumeration(self) -> GridChannel:
        small = [one.for_enumeration() for one in self.mechanisms]
        return GridChannel(small, self.shares, self._shape, self._widths.tolist())

    def looked_at(self, codes: np.ndarray, questions: np.ndarray) -> np.ndarray:
        x_widths, y_widths = self._widths[questions].T
        x, y = np.divmod(codes, self._shape[1])
        return x // x_widths * (self._shape[1] // y_widths) + y // y_widths

    def _on_level(self, values: np.ndarray, j: int) -> np.ndarray:
        x_width, y_width = self._widths[j].tolist()
        n_x, n_y = self._shape
        blocks = (n_x // x_width, x_width, n_y // y_width, y_width)
        sums = values.reshape(*values.shape[:-1], *blocks).sum(axis=(-3, -1))
        return sums.reshape(*values.shape[:-1], -1)

    def _from_level(self, values: np.ndarray, j: int) -> np.ndarray:
        x_width, y_width = self._widths[j].tolist()
        cells = values.reshape(*values.shape[:-1], self._shape[0] // x_width, -1)
        spread = np.repeat(np.repeat(cells, x_width, axis=-2), y_width, axis=-1)
        return spread.reshape(*values.shape[:-1], -1)

    @cached_property
    def _waves(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Two orthonormal bases, one for each axis, and an array of precisions.

        Each element of the array belongs to a product of a vector of the first basis and a vector
        of the second basis. It is the inverse variance of the fit in this direction, under uniform
        frequencies.
        """
        (left, x_constant), (right, y_constant) = map(nested_waves, self._shape)
        total = np.zeros(self._shape)
        for widths, precision in zip(self._widths.tolist(), self._precisions, strict=True):
            total += precision * _information(x_constant, y_constant, *widths)
        return left, right, total

    def _fitted(self, levels: Sequence[Any], total: float) -> np.ndarray:
        right = np.zeros(self.n_categories)
        for j, (precision, level) in enumerate(zip(self._precisions, levels, strict=True)):
            right = right + self._from_level(precision * level, j)
        return self._solved(right) + total / self.n_categories

    def _solved(self, rows: np.ndarray) -> np.ndarray:
        left, right, precision = self._waves
        rows = np.asarray(rows, dtype=float)
        waves = left @ rows.reshape(*rows.shape[:-1], *self._shape) @ right.T / precision
        waves[..., 0, 0] = 0.0
        return (left.T @ waves @ right).reshape(rows.shape)

    @property
    def rectangle_variance(self) -> float:
        """The variance of the total of a rectangle of cells, times the number of users.

        It is the mean over all rectangles, under uniform frequencies.
        """
        left, right, precision = self._waves
        variances = 1 / precision
        variances[0, 0] = 0.0  # of the whole, which is known
        return float(_squares_of_ranges(left) @ variances @ _squares_of_ranges(right))


def _information(
    x_constant: ArrayLike, y_constant: ArrayLike, x_width: int, y_width: int
) -> np.ndarray:
    """Return how much a level with blocks of this size informs about products of waves.

    x_constant, y_constant: the widths of the ranges on which the waves of each axis are constant.
    Returns: multiples of the precision of a block, of shape (n_x, n_y).
    """
    is_seen = np.outer(np.asarray(x_constant) >= x_width, np.asarray(y_constant) >= y_width)
    return x_width * y_width * is_seen


def _squares_of_ranges(basis: np.ndarray) -> np.ndarray:
    """The mean square of each wave's coefficient over all ranges of an axis."""
    # A coefficient is a difference of two of the n + 1 cumulative sums. For numbers s, the squares
    # of the differences of all pairs have the sum m sum(s**2) - sum(s)**2, where m is n + 1.
    m = basis.shape[1] + 1
    sums = np.cumsum(basis, axis=1)
    return (m * np.sum(sums**2, axis=1) - np.sum(sums, axis=1) ** 2) / (m * (m - 1) / 2)


@lru_cache(maxsize=64)
def best_grid(epsilon: float, shape: tuple[int, ...], n_users: int) -> GridChannel:
    """Return the split over resolutions with the smallest expected error of random rectangles.

    The expected error is computed under equal frequencies. The logarithms of two mean variances
    are averaged: of unbiased answers, and of answers by a model that expects small differences
    between neighbors. Few users therefore are asked about large blocks of cells.
    """
    questions = _GridQuestions(epsilon, shape, n_users)
    shares = np.full(len(questions.widths), 1 / len(questions.widths))
    # Ends: because each round but the last one drops a level. The cells themselves stay, because
    # without cells the variance is infinite.
    while True:
        for _ in range(_SHARE_STEPS):
            shares *= np.sqrt(questions.gains(shares))
            shares /= shares.sum()
        smallest = shares[shares > 0].min()
        if smallest >= _SMALLEST_SHARE:
            break
        shares[shares < smallest * (1 + 1e-6)] = 0.0  # both of a pair with equal shares
    # Clients and servers compute the same percentages, also if their last digits differ.
    percentages = np.rint(100 * shares)
    kept = np.flatnonzero(percentages)
    widths = [questions.widths[j] for j in kept]
    return grid_channel(epsilon, shape, widths, percentages[kept])


class _GridQuestions:
    """Every level of a grid, and the expected errors of rectangles for shares of the users."""

    def __init__(self, epsilon: float, shape: tuple[int, ...], n_users: int) -> None:
        (x_widths, x_squares), (y_widths, y_squares) = map(_resolutions, shape)
        self.widths = [pair for pair in product(x_widths, y_widths) if pair != shape]
        # All waves that are constant on the same blocks have the same precision.
        self._squares = np.outer(x_squares, y_squares)
        self._squares[0, 0] = 0.0  # the sum of all frequencies is known
        size = shape[0] * shape[1]
        areas = np.outer(x_widths, y_widths) / size
        self._prior = size / (_PRIOR_VARIANCE * n_users * np.sqrt(areas))
        precisions = []
        for x, y in self.widths:
            channel = grid_channel(epsilon, shape, [(x, y)], [1.0])
            precisions.append(channel._precisions[0] * _information(x_widths, y_widths, x, y))
        self._precisions = np.array(precisions)

    def gains(self, shares: np.ndarray) -> np.ndarray:
        """Return how much a small increase of each share reduces the criterion."""
        precision = np.tensordot(shares, self._precisions, 1)
        precision[0, 0] = 1.0  # any number: the sum is no part of the error
        total = np.zeros(len(shares))
        for weight, prior in ((1 - _MODEL_WEIGHT, 0.0), (_MODEL_WEIGHT, self._prior)):
            variances = self._squares / (precision + prior)
            slopes = np.tensordot(self._precisions, variances / (precision + prior), 2)
            total += weight * slopes / variances.sum()
        return total


def _resolutions(n: int) -> tuple[list[int], np.ndarray]:
    """Return the widths of blocks of an axis, and the sums of squares of their waves' ranges."""
    basis, widths = nested_waves(n)
    resolutions = np.unique(widths)[::-1]
    squares = _squares_of_ranges(basis)
    return resolutions.tolist(), np.array([squares[widths == w].sum() for w in resolutions])


def grid_channel(
    epsilon: float, shape: tuple[int, ...], widths: Sequence[tuple[int, int]], shares: Any
) -> GridChannel:
    """Return the GridChannel with one level for each pair of widths.

    widths: the sizes of a level's blocks, in cells along both axes. shares: the relative numbers of
    users of the levels. Each level has the most accurate channel whose reports need few bits.
    """
    levels = [short_channel(epsilon, shape[0] // x * (shape[1] // y)) for x, y in widths]
    return GridChannel(levels, shares_over_2_64(shares), shape, widths)
