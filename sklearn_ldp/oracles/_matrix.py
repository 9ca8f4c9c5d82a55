"""An oracle whose mechanism is optimized for a list of queries."""

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
    """An oracle optimized for a list of queries, such as the prefixes of ordered bins.

    A prefix is the sum of the frequencies of the first k bins. A report is the number of one of m
    outputs. The oracle is defined by a matrix of probabilities (here called channel): the
    probability of each output, given the user's category. The server counts the reports with each
    output (`support_counts_`), and computes the estimate from these counts by least squares. The
    estimate is unbiased, its covariance matrix is exact, and the answers to all linear queries have
    confidence intervals. Other oracles have two probabilities p and q: a report counts in favor of
    the user's category with probability p, and of each other category with probability q. This
    oracle does not have them. Post-processors that need p and q, such as
    :class:`~sklearn_ldp.MLEApx`, raise an error; :class:`~sklearn_ldp.ExactMLE` works.

    The optimized channel minimizes the mean variance of the answers to `queries` if all frequencies
    are equal. It is computed by projected gradient descent. The problem is not convex, so the
    result is good but there is no proof that it is the best. The package contains the channels for
    prefixes of 16, 32, 64, 128 and 256 bins at epsilon 0.5, 0.7, 1, 1.5, 2, 3, 4 and 6. Each
    process computes any other channel once. For prefixes of 16 to 256 bins the computation lasts
    about a second. For other queries it lasts a second for 64 categories, half a minute for 256 and
    minutes for 512; with more than 128 categories, stderr shows the progress.

    Different machines may compute channels that differ in the last digits, and the server refuses
    reports of a different channel. So compute the channel once, and pass its integers to servers
    and clients: ``strategy=oracle.channel().integers``.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; everything computed from reports is free.

    %(parameters)s
    queries : QuerySet, list, (sparse) matrix of shape (n_queries, d) or None, default=None
        The queries for which to optimize, in a form that the method `answer` of an estimate
        accepts. If None, they are the frequencies of the single categories, and the oracle is
        nearly as accurate as :class:`SubsetSelection`. The estimate can also answer queries that
        are not in `queries`. Their answers are unbiased, but have more noise. The noise is very
        large if such a query compares two categories that no query in `queries` compares.
    strategy : {"optimized", "square-wave"} or array-like of shape (m, d), default="optimized"
        The channel. "optimized" computes the channel for `queries`. "square-wave" ignores the
        queries, and makes outputs near the user's own category more likely [2]_. It mixes missing
        numbers with the highest bins: at epsilon 1 with 32 bins, the variance of their share is 4
        times as large as with :class:`~sklearn_ldp.RangeOracle`. An array contains the
        probability of each output (row), given each category (column). Instead of probabilities it
        may contain integers that stand for probabilities after division by 2**64, such as
        :attr:`MatrixChannel.integers`; these are used unchanged.

    %(attributes)s

    See Also
    --------
    SubsetSelection : The most accurate oracle for single categories, for any number of categories.

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
                f"MatrixOracle needs at most {max_size} categories, got {d:,} categories. Merge "
                "categories, or use SubsetSelection or HadamardResponse."
            )
        return kept_channel(self._key(domain), lambda: self._integers(domain))

    @property
    def _way(self) -> str | None:
        """The parameter `strategy` if it is a name. None if it is an array."""
        return self.strategy if isinstance(self.strategy, str) else None

    def _key(self, domain: Any) -> bytes:
        """Return a digest (hash) of all inputs of the channel; it is the key of a cache."""
        array = None if self._way else np.asarray(self.strategy)
        gram = self._gram(domain) if self._way == "optimized" else None
        content = pickle.dumps((self._way, domain.size, float(self.epsilon), array, gram))
        return hashlib.sha256(content).digest()

    def _gram(self, domain: Any) -> np.ndarray:
        """Return the inner products of the columns of the centered queries, of shape (d, d).

        Each query is centered by subtracting the mean of its d weights. This changes its answers by
        a constant only, because the frequencies sum to 1.
        """
        rows = as_query_set(self.queries).aligned(domain.categories, domain).matrix(domain.size)
        rows = rows - np.asarray(rows.mean(axis=1)).reshape(-1, 1)
        gram = np.asarray(rows.T @ rows)
        if not np.trace(gram) > 1e-12 * max(np.abs(rows).max(initial=0), 1e-300) ** 2:
            raise ValueError(
                "Each query in the 'queries' parameter of MatrixOracle has the same weight for all "
                "categories, so the answers do not depend on the frequencies. Pass queries that "
                "have different weights for different categories."
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
            why = (
                "it is not informative, because different frequencies can cause the same "
                "distribution of outputs"
            )
        except ValueError as error:
            why = str(error)
        raise ValueError(
            "The 'strategy' parameter of MatrixOracle is not a channel (a matrix of probabilities) "
            f'for epsilon={self.epsilon:g}: {why}. Pass another array, or "optimized".'
        )


def _is_like(gram: np.ndarray, queries: np.ndarray) -> bool:
    """Return whether `gram` equals the inner products of the centered queries, except for a factor.

    A query is centered by subtracting the mean of its weights.
    """
    rows = queries - queries.mean(axis=1, keepdims=True)
    other = rows.T @ rows
    return bool(np.allclose(gram / np.trace(gram), other / np.trace(other), rtol=0, atol=1e-12))
