"""An oracle whose channel is made for the queries that will be asked."""

from __future__ import annotations

import hashlib
import pickle
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions

from .._core.domains import Categories
from .._core.mechanisms.matrix import MatrixChannel, check_channel, integer_channel, kept_channel
from .._core.numerics import strategies
from .._core.queries import Queries, as_query_set
from .._core.support.random import RandomState
from ._base import BaseOracle
from ._subset import best_subset_channel

_MOST_OPTIMIZED, _MOST_INPUTS = 512, 2048
_MOST_SETS = 4096  # outputs of a channel that lists all sets
_SURE_EPSILON = 40.0  # beyond it the resolution of 2**-64 shows, and a smaller budget keeps epsilon


class MatrixOracle(BaseOracle, tag="matrix-oracle"):
    """A channel made for the queries that will be asked, such as the prefixes of ordered bins.

    A report is the number of one of m outputs, which `support_counts_` counts and least squares
    decode. The estimate is unbiased, its noise is known exactly, and any linear answers have
    intervals. Its reports do not support categories, so that there are no p and q: what needs them
    (such as :class:`~sklearn_ldp.MLEApx`) refuses it; :class:`~sklearn_ldp.ExactMLE` takes it.

    The optimised channel minimises the mean variance of the answers to `queries` under uniform
    frequencies, by projected gradient descent. The problem is not convex, so that the result is
    good but not proved to be the best. For prefixes of 16, 32, 64, 128 and 256 bins at epsilon 0.5,
    0.7, 1, 1.5, 2, 3, 4 and 6 it is in the package; others are computed once in a process, in about
    a second for 64 categories, half a minute for 256 and minutes for 512. Machines differ in the
    last digits of such a computation. So make the protocol once, and give servers and clients its
    integers, ``strategy=oracle.channel().integers``. Files of another channel are refused in any
    case.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user; all that is done with reports is free.

    %(parameters)s
    queries : QuerySet, list, (sparse) matrix of shape (n_queries, d) or None, default=None
        What the channel is made for, as `answer` takes it. None stands for every category, where
        it is as accurate as :class:`SubsetSelection`, or nearly so. All other queries have unbiased
        answers too, with more noise: with very much if they tell apart what `queries` never do.
    strategy : {"optimized", "square-wave"} or array-like of shape (m, d), default="optimized"
        The channel. "square-wave" makes outputs near the user's own category likelier, whatever
        the queries. An array holds the probability of each output given each category, or the
        integers over 2**64 of :attr:`MatrixChannel.integers`, which are used as they are.

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
        "queries": "no_validation",  # the query sets say what is wrong
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
        d, most = domain.size, _MOST_OPTIMIZED if self._way == "optimized" else _MOST_INPUTS
        if d > most:
            raise ValueError(
                f"MatrixOracle makes channels for at most {most} categories, got {d:,}: use "
                "coarser categories, or SubsetSelection or HadamardResponse."
            )
        return kept_channel(self._key(domain), lambda: self._integers(domain))

    @property
    def _way(self) -> str | None:
        """How the channel is made; None if it is given."""
        return self.strategy if isinstance(self.strategy, str) else None

    def _key(self, domain: Any) -> bytes:
        """A digest of everything that the channel depends on."""
        given = None if self._way else np.asarray(self.strategy)
        gram = self._gram(domain) if self._way == "optimized" else None
        said = pickle.dumps((self._way, domain.size, float(self.epsilon), given, gram))
        return hashlib.sha256(said).digest()

    def _gram(self, domain: Any) -> np.ndarray:
        """Inner products of the queries, less what they ask of the sum, which is known to be 1."""
        rows = as_query_set(self.queries).aligned(domain.categories).matrix(domain.size)
        rows = rows - np.asarray(rows.mean(axis=1)).reshape(-1, 1)
        gram = np.asarray(rows.T @ rows)
        if not np.trace(gram) > 1e-12 * max(np.abs(rows).max(initial=0), 1e-300) ** 2:
            raise ValueError(
                "The 'queries' parameter of MatrixOracle must ask for something, got queries of "
                "rank 0, whose answers are known without any report."
            )
        return gram

    def _integers(self, domain: Any) -> np.ndarray:
        d, epsilon = domain.size, min(float(self.epsilon), _SURE_EPSILON)
        if self._way is None:
            return self._given(d)
        if self._way == "square-wave":
            return integer_channel(strategies.square_wave(d, epsilon), self.epsilon)
        gram = self._gram(domain)
        if _is_like(gram, np.eye(d)):
            size = best_subset_channel(d, epsilon).size
            made = strategies.subset_channel(d, size, epsilon, _MOST_SETS)
            return integer_channel(made, self.epsilon)
        stored, starts = _stored(d, epsilon) if _is_like(gram, np.tri(d)) else (None, [])
        if stored is not None:
            return stored
        made = strategies.optimised_channel(gram, epsilon, starts=starts)
        return integer_channel(made, self.epsilon)

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
    """Whether queries have the inner products of others, up to a factor."""
    rows = queries - queries.mean(axis=1, keepdims=True)
    other = rows.T @ rows
    return bool(np.allclose(gram / np.trace(gram), other / np.trace(other), rtol=0, atol=1e-12))


def _stored(n_categories: int, epsilon: float) -> tuple[np.ndarray | None, list[np.ndarray]]:
    """Return the package's channel for prefixes; or None, and that of the next lower budget."""
    source = files(__package__).joinpath("data", "prefix_channels.npz")
    with source.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        of_size = [name for name in archive.files if name.startswith(f"{n_categories}_")]
        below = [one for name in of_size if (one := float(name.split("_")[1])) <= epsilon]
        if not below:
            return None, []
        nearest = archive[f"{n_categories}_{max(below):g}"]
    return (nearest, []) if max(below) == epsilon else (None, [nearest / 2.0**64])
