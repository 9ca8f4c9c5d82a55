"""An oracle with a channel that is optimized for a query workload."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions

from .._core.common.random import RandomState
from .._core.domains import Categories
from .._core.mechanisms.matrix import MatrixChannel, check_channel, integer_channel, kept_channel
from .._core.numerics import strategies
from .._core.queries import Queries, as_query_set
from ._base import BaseOracle
from ._prefix_channels import PREFIX_SIZES, prefix_integers
from ._subset import best_subset_channel

_MOST_OPTIMIZED = 512
_MOST_INPUTS = 2048
_MOST_SETS = 4096  # outputs of a channel that lists all sets
# Beyond this budget the resolution of 2**-64 matters, so channels of this budget are used.
_SURE_EPSILON = 40.0


class MatrixOracle(BaseOracle, tag="matrix-oracle"):
    """A channel optimized for a query workload, such as the prefixes of ordered bins.

    A report is the number of one of m outputs. `support_counts_` counts the outputs, and least
    squares decode these counts. The estimate is unbiased, its covariance matrix is exact, and the
    answers to all linear queries have confidence intervals. A report does not support a set of
    categories, so p and q are undefined. Post-processors that need p and q, such as
    :class:`~sklearn_ldp.MLEApx`, raise an error; :class:`~sklearn_ldp.ExactMLE` works.

    The optimized channel minimizes the mean variance of the answers to `queries` under uniform
    frequencies, by projected gradient descent. The problem is not convex, so the result is good but
    there is no proof that it is the best. The package contains the channels for prefixes of 16, 32,
    64, 128 and 256 bins at epsilon 0.5, 0.7, 1, 1.5, 2, 3, 4 and 6. Each process computes any other
    channel once. For prefixes of 16 to 256 bins this takes about a second. For other queries it
    takes a second for 64 categories, half a minute for 256 and minutes for 512; with more than 128
    categories, stderr shows the progress. Different machines may compute different last digits. So
    compute the channel once, and pass its integers to servers and clients:
    ``strategy=oracle.channel().integers``. The server refuses reports of another channel in any
    case.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; everything computed from reports is free.

    %(parameters)s
    queries : QuerySet, list, (sparse) matrix of shape (n_queries, d) or None, default=None
        The query workload to optimize for, in a form that `answer` accepts. If None, the workload
        is the frequency of every category, and the oracle is as accurate as
        :class:`SubsetSelection`, or nearly so. Other queries also have unbiased answers, but with
        more noise. The noise is very large if they compare categories that `queries` never compare.
    strategy : {"optimized", "square-wave"} or array-like of shape (m, d), default="optimized"
        The channel. "square-wave" makes outputs near the user's own category more likely, and
        ignores the queries. An array contains the probability of each output given each category,
        or the integers over 2**64 of :attr:`MatrixChannel.integers`, which are used unchanged.

    %(attributes)s

    See Also
    --------
    SubsetSelection : The most accurate oracle for single categories, on domains of any size.

    References
    ----------
    .. [1] R. McKenna, R. K. Maity, A. Mazumdar, G. Miklau, "A workload-adaptive mechanism for
       linear queries under local differential privacy", PVLDB 13(11), 2020,
       :doi:`10.14778/3407790.3407798`.
    .. [2] Z. Li, T. Wang, M. Lopuhaä-Zwakenberg, N. Li, B. Skoric, "Estimating numerical
       distributions under local differential privacy", SIGMOD 2020,
       :doi:`10.1145/3318464.3389700`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import MatrixOracle
    >>> hours = np.random.default_rng(0).binomial(15, 0.3, size=50_000)
    >>> prefixes = np.tri(16)
    >>> oracle = MatrixOracle(1.0, categories=16, queries=prefixes, random_state=0)
    >>> estimate = oracle.fit_transform(hours)
    >>> estimate.answer(prefixes)[0, [3, 7, 15]].round(1)
    array([0.3, 0.9, 1. ])
    """

    _checked_sizes = (5, 2)  # for `check_oracle`: computing larger matrices takes a second
    _parameter_constraints: dict = {
        **BaseOracle._parameter_constraints,
        "queries": "no_validation",  # the query sets check them with specific errors
        "strategy": [StrOptions({"optimized", "square-wave"}), "array-like"],
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
        queries: Queries | None = None,
        strategy: str | ArrayLike = "optimized",
    ) -> None:
        self._store(epsilon, categories, input, n_shards, random_state, n_jobs)
        self.queries = queries
        self.strategy = strategy

    def _make_mechanism(self, domain):
        d = domain.size
        max_size = _MOST_OPTIMIZED if self._way == "optimized" else _MOST_INPUTS
        if d > max_size:
            raise ValueError(
                f"MatrixOracle makes channels for at most {max_size} categories, got {d:,}. Use "
                "coarser categories, or SubsetSelection or HadamardResponse."
            )
        return kept_channel(self._key(domain), lambda: self._integers(domain))

    @property
    def _way(self) -> str | None:
        """The name of the strategy; None if `strategy` is an array."""
        return self.strategy if isinstance(self.strategy, str) else None

    def _key(self, domain: Any) -> bytes:
        """Return a digest of everything that the channel depends on."""
        array = None if self._way else np.asarray(self.strategy)
        gram = self._gram(domain) if self._way == "optimized" else None
        content = pickle.dumps((self._way, domain.size, float(self.epsilon), array, gram))
        return hashlib.sha256(content).digest()

    def _gram(self, domain: Any) -> np.ndarray:
        """Return the inner products of the queries, without the part that asks for the sum 1."""
        rows = as_query_set(self.queries).aligned(domain.categories, domain).matrix(domain.size)
        rows = rows - np.asarray(rows.mean(axis=1)).reshape(-1, 1)
        gram = np.asarray(rows.T @ rows)
        if not np.trace(gram) > 1e-12 * max(np.abs(rows).max(initial=0), 1e-300) ** 2:
            raise ValueError(
                "The 'queries' parameter of MatrixOracle must depend on the frequencies, but the "
                "answers to these queries are known without any report (rank 0). Pass queries that "
                "compare categories."
            )
        return gram

    def _integers(self, domain: Any) -> np.ndarray:
        d = domain.size
        epsilon = min(float(self.epsilon), _SURE_EPSILON)
        if self._way is None:
            return self._given(d)
        if self._way == "square-wave":
            return integer_channel(strategies.square_wave(d, epsilon), self.epsilon)
        gram = self._gram(domain)
        if _is_like(gram, np.eye(d)):
            size = best_subset_channel(d, epsilon).size
            channel = strategies.subset_channel(d, size, epsilon, _MOST_SETS)
            return integer_channel(channel, self.epsilon)
        if d in PREFIX_SIZES and _is_like(gram, np.tri(d)):
            return prefix_integers(d, epsilon, self.epsilon)
        return integer_channel(strategies.optimised_channel(gram, epsilon), self.epsilon)

    def _given(self, n_categories: int) -> np.ndarray:
        try:
            integers = check_channel(self.strategy, n_categories, self.epsilon)
            if MatrixChannel(integers).is_informative:
                return integers
            why = "its outputs do not tell all categories apart"
        except ValueError as error:
            why = str(error)
        raise ValueError(
            f"The array 'strategy' of MatrixOracle must be a channel at epsilon={self.epsilon:g}: "
            f"{why}."
        )


def _is_like(gram: np.ndarray, queries: np.ndarray) -> bool:
    """Whether `gram` has the inner products of the centered queries, up to a factor."""
    rows = queries - queries.mean(axis=1, keepdims=True)
    other = rows.T @ rows
    return bool(np.allclose(gram / np.trace(gram), other / np.trace(other), rtol=0, atol=1e-12))
