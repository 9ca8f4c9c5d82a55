"""The mechanism that estimates a mean. Linear programming minimizes its variance.

Numbers are scaled to [-1, 1]. The mechanism is a matrix of probabilities of outputs (reports) for
33 or 65 equidistant numbers, called inputs. A number between two inputs is rounded to one of them
at random. The rounding preserves epsilon, because the distribution of the reports is a mixture of
two distributions. It also preserves the mean, and adds at most a quarter of the squared step to the
variance.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from ..common.locks import cached_property
from .coins import PROBABILITY_UNIT, Coins, exp_lower_bound
from .matrix import MatrixChannel

#: Number of codes between two bounds; it represents decimals between bounds (0, 100) exactly.
N_LEVELS = 512_000_001
_HALF = 16  # inputs on each side of 0
_MANY = 5.0  # from this budget on there are twice as many, because 33 would add 1 % of variance
# The linear program is solved for budgets between these.
_LEAST = 0.2
_MOST = 8.0
_SLACK = 2e-5  # share of exp(epsilon) that is reserved for the rounding to integers
_REACH = 1.35  # range of the outputs, in units of the largest output of one bit
_OUTPUTS = 80  # about half the number of outputs to choose from
# A report's variance estimate may have this bias, per unit between its smallest and its largest
# value. The second constant is the number of users with the worst variance that it starts with.
# Both were chosen by hand, so that 95 % intervals of 1 to 1,000 users have the coverage of
# intervals with the worst variance, for populations in which every user has the worst variance.
_STEADY = 0.05
_BEGIN = 4


class MeanTable(NamedTuple):
    """The probabilities of the outputs for each input in [-1, 1], and the value of each output.

    The expected value of the output is the input.
    """

    rows: list[list[int]]  # the probability of each output under each input, in units of 2**-64
    values: list[Fraction]  # the number that each output represents


@lru_cache(maxsize=64)
def mean_table(epsilon: float, worst_case: float) -> MeanTable:
    """Return the table of probabilities for this epsilon and this `worst_case`.

    Common tables are stored in the package. Others are computed by linear programming.
    """
    # Below 0.2 the channel has two outputs [1]_; its worst variance is less than 1 % above the
    # optimum there. Above 8, the channel of 8 is used.
    # [1] J. C. Duchi, M. I. Jordan, M. J. Wainwright, "Minimax optimal procedures for locally
    # private estimation", JASA 113 (2018), :doi:`10.1080/01621459.2017.1389735`.
    if epsilon < _LEAST:
        return _two_outputs(epsilon)
    epsilon = min(epsilon, _MOST)
    key = f"{epsilon!r} {worst_case!r}"
    with files(__package__).joinpath("data/mean_channels.npz").open("rb") as file:
        stored = np.load(file)
        if key in stored.files:
            scale, *outputs = stored[f"{key} outputs"].tolist()
            return _mirrored(stored[key].tolist(), outputs, scale)
    return solved_table(epsilon, worst_case)


def _mirrored(half: list[list[int]], outputs: list[int], scale: int) -> MeanTable:
    """Return the table for all inputs, given the probabilities for the inputs >= 0.

    The table is symmetric. The output with the number k has the value k / scale.
    """
    rows = [row[::-1] for row in half[:0:-1]] + half
    return MeanTable(rows, [Fraction(k, scale) for k in outputs])


def _two_outputs(epsilon: float) -> MeanTable:
    """Return the table of a mechanism with two outputs, whose probabilities are linear in the
    input."""
    ratio = exp_lower_bound(epsilon)
    unit = int(PROBABILITY_UNIT // 2 * (ratio - 1) / (ratio + 1)) // _HALF
    middle = PROBABILITY_UNIT // 2
    rows = [[middle - unit * i, middle + unit * i] for i in range(-_HALF, _HALF + 1)]
    far = Fraction(middle, max(unit, 1) * _HALF)
    return MeanTable(rows, [-far, far])


def solved_table(epsilon: float, worst_case: float) -> MeanTable:
    """Compute a table by linear programming, and round it so that it is exactly private and
    unbiased."""
    # The first program minimizes the worst variance t over the inputs x = i / half. Each row of
    # probabilities sums to 1, has the mean x and a second moment of at most `t + x**2`, and is
    # between z and exp(epsilon) z, where z has one entry for each output. A second program allows
    # `worst_case` times this t, and minimizes the mean variance over the bounds. Channels that are
    # symmetric about 0 suffice, because averaging a channel with its mirror image is no worse.
    growth = float(np.exp(epsilon))
    reach = _REACH * (growth + 1) / (growth - 1)
    scale = 16 * max(1, round(_OUTPUTS / reach / 16))
    outputs = np.arange(-int(reach * scale), int(reach * scale) + 1)
    half = _HALF if epsilon < _MANY else 2 * _HALF
    chances, least = _programme(outputs / scale, growth * (1 - _SLACK), half, worst_case)
    used = growth * least > 1e-7
    outputs, chances = outputs[used], chances[:, used]
    lower = [int(z * (1 - _SLACK / 2) * PROBABILITY_UNIT) for z in least[used].tolist()]
    upper = [int(exp_lower_bound(epsilon) * z) for z in lower]
    rows = [
        _exact_row(row, outputs.tolist(), i * scale * PROBABILITY_UNIT // half, lower, upper)
        for i, row in enumerate(chances.tolist())
    ]
    return _mirrored(rows, outputs.tolist(), scale)


def _programme(
    values: np.ndarray, growth: float, half: int, worst_case: float
) -> tuple[np.ndarray, np.ndarray]:
    """Solve one linear program for the inputs >= 0.

    Return the probabilities of the m outputs for each input, of shape (half + 1, m), and the
    minimum probability of each output over all inputs, of shape (m,). `growth` is the maximum ratio
    of two probabilities of an output.
    """
    m = len(values)
    n = half + 1
    inputs = np.arange(n) / half
    each = sparse.eye_array(n * m)
    # An output and its mirror image share a bound. The last variable is the worst variance.
    shared = _mirror_pairs(m)
    bounds = sparse.csr_array(np.tile(shared, (n, 1)))

    def sums(weights: np.ndarray) -> sparse.csr_array:
        return sparse.csr_array(sparse.kron(sparse.eye_array(n), weights[None]))

    upper = sparse.block_array(
        [
            [-each, bounds, None],
            [each, -growth * bounds, None],
            [sums(values**2), None, -np.ones((n, 1))],
        ]
    )
    nothing = sparse.csr_array((n, shared.shape[1] + 1))
    equal = sparse.block_array([[sums(np.ones(m)), nothing], [sums(values), nothing]])
    limits = np.r_[np.zeros(2 * n * m), inputs**2], equal, np.r_[np.ones(n), inputs]
    worst = np.eye(upper.shape[1])[-1]
    solution = _solved(worst, upper, *limits)
    if worst_case > 1:  # the worst variance is now fixed; minimize the mean variance
        fixed = np.tile([0, np.inf], (len(worst), 1))
        fixed[-1] = worst_case * solution[-1]
        mean = np.kron(_input_weights(n), values**2)
        solution = _solved(np.r_[mean, np.zeros(shared.shape[1] + 1)], upper, *limits, fixed)
    return solution[: n * m].reshape(n, m), shared @ solution[n * m : -1]


def _mirror_pairs(m: int) -> np.ndarray:
    """Return a matrix of shape (m, n_pairs): 1 if the output (row) belongs to the pair (column),
    else 0.

    A pair consists of an output and its mirror image.
    """
    return np.eye((m + 1) // 2)[np.minimum(np.arange(m), np.arange(m)[::-1])]


def _input_weights(n: int) -> np.ndarray:
    """Return the proportion of users at each of n equidistant inputs, if numbers are uniform.

    Numbers are rounded to the adjacent inputs at random.
    """
    return np.r_[0.5, np.ones(n - 2), 0.5] / (n - 1)


def _solved(cost: np.ndarray, *limits: Any) -> np.ndarray:
    """Minimize a linear cost function under linear constraints, and return the solution.

    `limits` are the further positional arguments of SciPy's `linprog`.
    """
    precise = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    result = linprog(cost, *limits, method="highs", options=precise)
    if result.status != 0:
        raise ArithmeticError(
            f"LocalMean cannot compute its mechanism by linear programming: {result.message} Use "
            "another epsilon."
        )
    return np.asarray(result.x)


def _exact_row(
    chances: list[float], outputs: list[int], moment: int, least: list[int], most: list[int]
) -> list[int]:
    """Round the probabilities of the outputs, given one input, to integers over 2**64.

    Their sum is 2**64, their sum weighted with `outputs` is `moment`, and each integer is between
    its minimum (`least`) and its maximum (`most`).
    """
    bounds = list(zip(least, most, strict=True))
    row = [
        min(max(round(p * PROBABILITY_UNIT), a), b)
        for p, (a, b) in zip(chances, bounds, strict=True)
    ]

    def room(j: int) -> int:
        return min(row[j] - least[j], most[j] - row[j])

    def lacking() -> int:
        return moment - sum(k * n for k, n in zip(outputs, row, strict=True))

    row[max(range(len(row)), key=room)] += PROBABILITY_UNIT - sum(row)
    gaps = {(a, b): outputs[b] - outputs[a] for b in range(len(row)) for a in range(b)}
    # First move mass between outputs that are far apart, and then the rest to the next output.
    for near in (gaps, [pair for pair, gap in gaps.items() if gap == 1]):
        a, b = max(near, key=lambda pair: min(map(room, pair)) * gaps[pair], default=(0, 1))
        moved = lacking() // gaps[a, b]
        row[a], row[b] = row[a] - moved, row[b] + moved
    is_within = all(a <= x <= b for x, (a, b) in zip(row, bounds, strict=True))
    if lacking() or sum(row) != PROBABILITY_UNIT or not is_within:
        raise ArithmeticError(
            "LocalMean cannot round the probabilities of its mechanism to integers over 2**64. Use "
            "another epsilon."
        )
    return row


class MeanMechanism(MatrixChannel):
    """Mechanism of :class:`LocalMean`, for numbers on a grid that are scaled to [-1, 1].

    Each report (output) has a value, and the average of these values is an unbiased estimate of the
    mean of the users' numbers.
    """

    # The channel has few inputs, and a number between two inputs is rounded to one at random.
    # table: the channel.
    # n_steps: number of codes from one input to the next. If None, there are `N_LEVELS` codes.

    report_name = "output"

    def __init__(self, table: MeanTable, n_steps: int | None = None) -> None:
        super().__init__(np.array(table.rows, dtype=np.uint64).T)
        self.table = table
        self.n_steps = n_steps or N_LEVELS // (len(table.rows) - 1)
        #: The number that each output represents, of shape (m,).
        self.values = np.array([float(value) for value in table.values])

    @property
    def configuration(self) -> dict[str, Any]:
        text = repr((self.table.rows, [str(value) for value in self.table.values]))
        return {"n_steps": self.n_steps, "channel": hashlib.sha256(text.encode()).hexdigest()}

    @property
    def is_informative(self) -> bool:
        return self.table.rows[0] != self.table.rows[-1]

    def privatize(self, codes: np.ndarray, coins: Coins) -> np.ndarray:
        inputs, rest = np.divmod(np.asarray(codes, dtype=np.int64), self.n_steps)
        inputs += coins.integers(self.n_steps, len(codes)) < rest
        return super().privatize(inputs, coins)

    def for_enumeration(self) -> MeanMechanism:
        return MeanMechanism(self.table, 2)  # a coarse grid with few random outcomes

    @cached_property
    def _inputs(self) -> np.ndarray:
        return np.linspace(-1, 1, self.n_categories)

    def variance(self, numbers: np.ndarray) -> np.ndarray:
        """Return, for each true number of a user, the variance of the value of the report.

        Shapes: numbers (n,) -> (n,).
        """
        moments = self.values**2 @ self.probabilities
        return np.interp(numbers, self._inputs, moments) - numbers**2

    @cached_property
    def variance_estimates(self) -> np.ndarray:
        """For each output, a score, of shape (m,). The mean score estimates the variance of a
        report's value.

        For every number of a user, the expected score is at least this variance.
        """
        # Between two inputs, the mean of the estimate is a straight line. The variance is at most
        # the line between the variances at the inputs, plus a quarter of the squared step. So at
        # the inputs the mean must exceed the variance by this amount, but by little, and the
        # estimates should be close to each other, in units of the worst variance. The variables are
        # the values of the pairs of outputs, then the largest and the smallest value.
        step = 2 / (self.n_categories - 1)
        worst = self.worst_variance
        pairs = _mirror_pairs(self.n_reports)
        identity = np.eye(pairs.shape[1])
        ones = np.ones((pairs.shape[1], 1))
        chances = np.hstack([self.probabilities.T @ pairs, np.zeros((self.n_categories, 2))])
        needed = (self.variance(self._inputs) + step**2 / 4) / worst
        upper = np.vstack(
            [
                -chances,
                np.hstack([identity, -ones, 0 * ones]),
                np.hstack([-identity, 0 * ones, ones]),
            ]
        )
        cost = _input_weights(self.n_categories) @ chances + _STEADY * np.eye(len(upper[0]))[-2]
        cost[-1] = -_STEADY
        solution = _solved(cost, upper, np.r_[-needed, np.zeros(2 * len(identity))])
        return worst * (pairs @ solution[:-2])

    def mean_variance(self, tallies: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Estimate the mean variance of the values of reports, from the numbers of reports of each
        output.

        Shapes: tallies (n_rows, m), sizes (n_rows,) -> (n_rows,).
        """
        worst = self.worst_variance
        known = (tallies @ self.variance_estimates + _BEGIN * worst) / (sizes + _BEGIN)
        return np.minimum(known, worst)

    @cached_property
    def squares(self) -> np.ndarray | None:
        """For each output, an unbiased estimate of the square of the user's number. None if there
        is none.

        If numbers are uniform, no unbiased estimate has a smaller variance. If there are only two
        outputs, no unbiased estimate exists.
        """
        # Between two inputs the mean of the estimate is a straight line, which exceeds the square
        # by a sixth of the squared step on average.
        x = self._inputs
        law = self.probabilities.T
        root = np.sqrt(law.mean(axis=0))
        estimates = np.linalg.lstsq(law / root, x**2, rcond=1e-9)[0] / root
        is_exact = np.allclose(law @ estimates, x**2, rtol=0, atol=1e-6)
        return estimates - (x[1] - x[0]) ** 2 / 6 if is_exact else None

    def largest_weight(self, n_targets: int) -> float:
        """Return the maximum contribution of one report to n times the mean, if numbers are in [0,
        1]."""
        return float(1 + self.values.max()) / 2

    @property
    def worst_variance(self) -> float:
        """The maximum, over all numbers of a user, of the variance of the value of one report."""
        # Between two inputs the variance is a parabola, with the maximum at an input or half-way.
        return float(self.variance(np.linspace(-1, 1, 32 * self.n_categories - 31)).max())
