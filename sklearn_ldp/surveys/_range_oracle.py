"""An oracle for ranges: one channel for prefixes, a tree of coarser bins, or coarser grids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

from .._core.domains import Categories, Domain
from .._core.mechanisms.channel import Channel, LinearMechanism
from .._core.mechanisms.several import Several, shares_over_2_64
from .._core.noise import MULTINOMIAL, Covariances, Noise
from .._core.numerics.nested_waves import nested_waves
from .._core.queries import prefixes
from .._core.support.locks import cached_property
from .._core.support.random import RandomState
from ..oracles import (
    GRR,
    BaseOracle,
    MatrixOracle,
    ProjectiveGeometryResponse,
    SubsetSelection,
    best_oracle,
)

_MOST_OF_MATRIX, _MOST_BINS = 256, 1 << 20
_FAN_OUT = 4  # 2 has twice the levels, 8 is less accurate: notes on numbers
_FEW_CELLS = 16  # of a level whose users may list several of them
# Users from whom on the ranges of the prefix channel are better than those of a square wave, both
# with SmoothMLE: eight real columns with 500 to 30,000 users, 25 November 2026
# (python -m benchmarks.accuracy.numeric_data --sections which --repeats 12).
_FEW_USERS = 3_000
_MOST_SINGLE = 2048  # bins whose own variances are computed for each of them


# Shares of users for the candidates, chosen by hand; the margins together have 1.
_SHARES = list(product((0.5, 1.0, 2.0), repeat=2))


class RangeOracle(BaseOracle, tag="range-oracle"):
    """Estimate ordered bins such that ranges, prefixes and quantiles are accurate.

    Up to 256 bins it is a :class:`~sklearn_ldp.MatrixOracle` for prefixes. For more bins, up to
    2**20, each user is asked for one of several coarser and coarser bins: their own bin, or groups
    of 4, 16, 64, .. bins. Which one is drawn in public, each with the same probability. The
    estimate is the best linear combination of all levels (generalised least squares in a tree). The
    matrix is the more accurate one wherever it can be computed: expected errors are in the notes.

    Over a :meth:`~sklearn_ldp.Domain.grid` each user is asked for a cell, a strip or a block of
    cells, or for one of both numbers alone. The split is the one of the candidates with the least
    expected error of random rectangles under equal frequencies, and the estimate is the best
    linear combination. `strategy` has no effect then. Strips and blocks need an even number of bins
    of both numbers.

    The estimate is unbiased and all linear answers have intervals. Fewer bins have less noise: 64
    instead of 256 take 40 % off the variance of a prefix. Single bins have more noise than those of
    other oracles, so it is not for the most frequent values. Post-processors of single categories,
    such as :class:`~sklearn_ldp.NormSub`, ruin ranges.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; all that is done with reports is free. What a user was asked is public.

    %(parameters)s
    strategy : {"tree", "square-wave", "auto"}, default="tree"
        How users report. "tree" is as above. "square-wave", for up to 2,048 bins, makes outputs
        near the user's own bin likelier: with :class:`~sklearn_ldp.SmoothMLE` it is better for
        means and standard deviations, and for ranges of fewer than 3,000 users, unless peaks are
        narrow; its intervals of ranges are twice as wide. "auto" takes it for up to 256 bins of
        fewer than 3,000 expected users.
    expected_n_users : int or None, default=None
        How many users will report, which "auto" needs: said before any data, as clients and servers
        must agree. Nothing else looks at it.

    %(attributes)s

    See Also
    --------
    MatrixOracle : A channel for any other queries.
    sklearn_ldp.inference.quantiles : Quantiles with intervals.

    Notes
    -----
    The noise of the tree assumes that each level was asked as many users as expected. Beyond 2,048
    bins, variances of single bins also assume that no few bins have most of the users.

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

    _checked_sizes = (5, 2)  # for `check_oracle`: computing larger matrices takes a second
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
        if domain.grid_ends is not None:
            return best_grid(self.epsilon, domain.shape)
        if self.strategy == "auto" and self.expected_n_users is None:
            raise ValueError('RangeOracle(strategy="auto") needs expected_n_users before any data.')
        is_wave = self.strategy == "square-wave"
        if self.strategy == "auto" and domain.size <= _MOST_OF_MATRIX:
            is_wave = (self.expected_n_users or 0) < _FEW_USERS
        if is_wave:
            return MatrixOracle(self.epsilon, strategy="square-wave")._make_mechanism(domain)
        if domain.size <= _MOST_OF_MATRIX:
            return MatrixOracle(self.epsilon, queries=prefixes())._make_mechanism(domain)
        if domain.size > _MOST_BINS:
            raise ValueError(f"RangeOracle takes at most {_MOST_BINS:,} bins, got {domain.size:,}.")
        return _tree(self.epsilon, domain.size)


def _tree(epsilon: float, n_categories: int) -> TreeChannel:
    """Return the tree whose levels have their most accurate short reports."""
    widths = [1]
    while n_categories > _FAN_OUT * widths[0]:
        widths.insert(0, _FAN_OUT * widths[0])
    levels = [short_channel(epsilon, -(-n_categories // width)) for width in widths]
    return TreeChannel(levels, shares_over_2_64(np.ones(len(levels))), n_categories, widths)


def short_channel(epsilon: float, n_cells: int) -> Any:
    """Return the most accurate channel with short reports."""
    short = SubsetSelection() if n_cells <= _FEW_CELLS else ProjectiveGeometryResponse()
    return best_oracle(epsilon, n_cells, candidates=[GRR(), short]).channel()


class TreeChannel(Several, LinearMechanism, tag="tree-channel"):
    """A survey whose questions are the levels of a tree over ordered categories."""

    # A code is the number of a category. On a level with bins of `w` categories a user reports
    # `code // w`. The estimate of the categories is the weighted least-squares fit to the raw
    # estimates of all levels, whose sum is 1; the weights assume uniform frequencies.
    # shares: as for `Several`.
    # n_categories: number of categories.
    # widths: number of categories of a bin of each level. Each is a multiple of the next, the
    # last is 1.

    mechanisms: tuple[Any, ...]  # what reports on each level, the coarsest first
    _is_of, _fewer = "the tree", "256 or fewer"  # of errors

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
        drawn = []
        for sizes in self.draw_sizes(int(counts.sum()), n_repeats, rng):
            support, left = [sizes], counts
            for j, (channel, size) in enumerate(zip(self.mechanisms, sizes, strict=True)):
                users = rng.multivariate_hypergeometric(left, size, method="marginals")
                support.append(channel.simulate(self._on_level(users, j), 1, rng)[0])
                left = left - users
            drawn.append(np.concatenate(support))
        return np.stack(drawn)

    def _on_level(self, values: np.ndarray, j: int) -> np.ndarray:
        """Sums over the categories of each cell of a level: (.., d) -> (.., n_cells)."""
        return _binned(values, self._widths[j])

    def _from_level(self, values: np.ndarray, j: int) -> np.ndarray:
        """The value of each category's cell of a level: (.., n_cells) -> (.., d)."""
        return _spread(values, self._widths[j], self.n_categories)

    # -- the fit ------------------------------------------------------------------------------
    @cached_property
    def _precisions(self) -> list[float]:
        """One over the variance of a bin of each level, under uniform frequencies."""
        found = []
        for channel, pi in zip(self.mechanisms, self.probabilities.tolist(), strict=True):
            sampled = 1 / channel.n_categories  # the variance of a draw, in each direction
            variance = channel.total_variance() / (channel.n_categories - 1)
            found.append(1 / ((variance + sampled) / pi - sampled))
        return found

    def _fitted(self, levels: Sequence[Any], total: float) -> np.ndarray:
        """The categories with a given sum that fit values of all levels best: (.., d)."""
        # Up the tree: what the bins below a bin say about it is averaged with its own value.
        own, variance, passed = levels[-1], np.full(self.n_categories, 1 / self._precisions[-1]), []
        # Number of bins that make one of the level above: all, of the first level.
        steps = [self.n_categories, *(self._widths[:-1] // self._widths[1:]).tolist()]
        for j in reversed(range(len(levels))):
            sums = _binned(variance, steps[j])
            passed.append((own, variance, sums, steps[j]))
            if j:
                precision, below = self._precisions[j - 1], _binned(own, steps[j])
                variance = 1 / (precision + 1 / sums)
                own = (precision * levels[j - 1] + below / sums) * variance
        # Down the tree: what a bin has more than those below it is shared among these.
        parents = np.full((*np.shape(own)[:-1], 1), total)
        for own, variance, sums, step in reversed(passed):
            lacking = (parents - _binned(own, step)) / sums
            parents = own + variance * _spread(lacking, step, own.shape[-1])
        return parents

    def _solved(self, rows: np.ndarray) -> np.ndarray:
        """The covariance matrix of the fit (if the weights are right) times rows: (.., d)."""
        nothing = [np.zeros(1)] * (len(self.mechanisms) - 1)
        return self._fitted([*nothing, rows / self._precisions[-1]], 0.0)

    def estimate_decoded(self, tallies: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, Noise]:
        levels = []
        for j, channel in enumerate(self.mechanisms):
            support, asked = self.decoded_on(tallies, j)
            if not asked.all():
                where = " of a group" if len(asked) > 1 else ""
                raise ValueError(
                    f"Nobody{where} was asked about level {j + 1} of the {len(self.mechanisms)} of "
                    f"{self._is_of} of {self.n_categories:,} bins: ask more users, or use "
                    f"{self._fewer}."
                )
            levels.append(channel.estimate_decoded(support, asked)[0])
        noise = self.noise(sizes if len(sizes) > 1 else int(sizes[0]))
        return np.stack([self._fitted(row, 1.0) for row in zip(*levels, strict=True)]), noise

    # -- its noise ----------------------------------------------------------------------------
    @cached_property
    def null_variance(self) -> float:
        others = 1 - self._middle
        return self._of_middle(others / others.sum())

    @cached_property
    def slope(self) -> float:
        return self._of_middle(self._middle) - self.null_variance

    def _of_middle(self, frequencies: np.ndarray) -> float:
        return float(self.covariance(frequencies).variances(self._middle[None])[0])

    @cached_property
    def half_count(self) -> float:
        # A level has few users, so that one report on it may be most of what an estimate says.
        weights = [float(np.max(np.abs(row))) for row in self.pull(self._middle)]
        grids = [one.half_count / pi for one, pi, _ in self._levels(self._middle)]
        return max(np.multiply(weights, grids))

    @property
    def _middle(self) -> np.ndarray:
        """A typical category, as a distribution."""
        return (np.arange(self.n_categories) == self.n_categories // 2).astype(float)

    def variances(self, frequencies: np.ndarray) -> np.ndarray:
        if self.n_categories > _MOST_SINGLE:  # about: as where all others are equally frequent
            return self.null_variance + self.slope * frequencies
        # The errors of a level's bins have the sum 0, and are hardly correlated otherwise. So equal
        # weights have no error, and the mean of the weights is taken off.
        total = frequencies**2 - frequencies
        levels = zip(self._levels(frequencies), self.pull(np.eye(self.n_categories)), strict=True)
        for (channel, pi, f), weights in levels:
            n_cells, drawn = len(weights.T), f @ (weights**2).T - (f @ weights.T) ** 2
            squares = (weights - weights.mean(axis=1, keepdims=True)) ** 2
            of_reports = n_cells / (n_cells - 1) * (channel.variances(f) @ squares.T)
            total += (of_reports + drawn) / pi
        return total

    def covariance(self, frequencies: np.ndarray) -> Covariances:
        # An answer is a sum over the levels, of which each is asked other users. The users are
        # fixed: what the frequencies of a random part of them differ by is an error, too.
        asked = self._levels(frequencies)
        levels = [(1 / pi, channel.noise(1).of_population().at(f)) for channel, pi, f in asked]
        parts = [(1.0, Covariances(levels, self)), (-1.0, MULTINOMIAL.covariance(frequencies))]
        return Covariances(parts, single=lambda: self.variances(frequencies))

    def _levels(self, frequencies: np.ndarray) -> Iterator[tuple[Any, float, np.ndarray]]:
        """Yield each level's channel, probability, and frequencies."""
        both = zip(self.mechanisms, self.probabilities.tolist(), strict=True)
        for j, (channel, pi) in enumerate(both):
            yield channel, pi, self._on_level(frequencies, j)

    def pull(self, rows: Any) -> Iterator[np.ndarray]:
        """Answers to the fit, of shape (.., d), as answers to the estimates of all levels.

        Shapes: rows (n_queries, d) or (d,) -> (n_queries, n_cells) or (n_cells,).
        """
        solved = self._solved(rows.toarray() if sparse.issparse(rows) else rows)
        for j, precision in enumerate(self._precisions):
            yield precision * self._on_level(solved, j)

    def push(self, vectors: Sequence[np.ndarray]) -> np.ndarray:
        """Return the transpose of `pull` times a vector for each level, which is the fit itself.

        Shapes: vectors (n_cells,) -> (d,).
        """
        total = np.zeros(self.n_categories)
        for j, (vector, precision) in enumerate(zip(vectors, self._precisions, strict=True)):
            total += self._from_level(precision * vector, j)
        return self._solved(total)


def _binned(values: np.ndarray, width: int) -> np.ndarray:
    """Sums of `width` neighbours along the last axis; the last sum may have fewer."""
    return np.add.reduceat(values, np.arange(0, values.shape[-1], width), axis=-1)


def _spread(values: np.ndarray, width: int, size: int) -> np.ndarray:
    """Each value `width` times along the last axis, cut to a size."""
    return np.repeat(values, width, axis=-1)[..., :size]


class GridChannel(TreeChannel, tag="grid-channel"):
    """A survey whose questions are coarser and coarser grids over the cells of two numbers."""

    # A level's cell is a block of cells, `widths[0]` by `widths[1]` of them; a margin has the
    # width of the whole grid. All widths of an axis are the whole or powers of two that divide it.
    # The levels' normal equations then are diagonal in the product of two bases.

    _is_of, _fewer = "the grid", "larger cells"

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
            raise ValueError(f"a grid of {self._shape!r:.80} with {self.n_categories!r:.80} cells")
        is_fine = widths.shape == (len(self.mechanisms), 2) and widths.min() >= 1
        if not is_fine or np.any(np.array(self._shape) % widths):
            raise ValueError("the levels of a grid do not divide it")

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
        """Two bases, and the precision of each product of their waves under uniform frequencies."""
        (left, x_constant), (right, y_constant) = map(nested_waves, self._shape)
        total = np.zeros(self._shape)
        for (x_width, y_width), precision in zip(self._widths, self._precisions, strict=True):
            seen = np.outer(x_constant >= x_width, y_constant >= y_width)
            total += precision * x_width * y_width * seen
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
        """The mean variance of random rectangles, per user and under uniform frequencies."""
        left, right, precision = self._waves
        variances = 1 / precision
        variances[0, 0] = 0.0  # of the whole, which is known
        return float(_squares_of_ranges(left) @ variances @ _squares_of_ranges(right))


def _squares_of_ranges(basis: np.ndarray) -> np.ndarray:
    """The mean square of each wave's coefficient over all ranges of an axis."""
    n = basis.shape[1]
    starts, stops = np.triu_indices(n + 1, 1)
    sums = np.pad(np.cumsum(basis, axis=1), ((0, 0), (1, 0)))
    return np.mean((sums[:, stops] - sums[:, starts]) ** 2, axis=1)


@lru_cache(maxsize=64)
def best_grid(epsilon: float, shape: tuple[int, ...]) -> GridChannel:
    """Return the split over resolutions with the least expected error of random rectangles."""
    n_x, n_y = shape
    margins = [(1, n_y), (n_x, 1)]
    splits = [([(1, 1)], [1.0])]
    splits += [([*margins, (1, 1)], [0.5, 0.5, fine]) for fine in (0.5, 1.0, 2.0)]
    width = 2
    # Ends: because the width doubles, and stays below the size of the grid.
    while n_x % width == n_y % width == 0 and min(shape) > width:
        blocks = [*margins, (width, width), (1, 1)]
        strips = [*margins, (width, 1), (1, width), (width, width), (1, 1)]
        for block, fine in _SHARES:
            splits.append((blocks, [0.5, 0.5, block, fine]))
            splits.append((strips, [0.5, 0.5, block / 2, block / 2, block, fine]))
        width *= 2
    candidates = [grid_channel(epsilon, shape, *split) for split in splits]
    return min(candidates, key=lambda channel: channel.rectangle_variance)


def grid_channel(
    epsilon: float, shape: tuple[int, ...], widths: Sequence[tuple[int, int]], shares: Any
) -> GridChannel:
    """Return the survey of some resolutions, each with its most accurate short reports."""
    levels = [short_channel(epsilon, shape[0] // x * (shape[1] // y)) for x, y in widths]
    return GridChannel(levels, shares_over_2_64(shares), shape, widths)
