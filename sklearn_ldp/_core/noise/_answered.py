"""The noise of an estimate among the users who answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from ..common.tags import Tagged
from ..common.typing import Rows
from ._covariance import Covariances, every_category
from ._model import Noise, Term


class _Conditional(NamedTuple):
    """Converts queries and vectors between the answers alone and all categories.

    The frequencies among users who answered are ``g = f / a``, where f are the frequencies of the
    answers among all users, and a is the share of users who answered. With the frequency m of
    missing answers, ``a = 1 - m``, so the error of g is the error of ``(f + g m) / a``.
    """

    frequencies: np.ndarray  # (d,): g
    share: float  # a
    place: int  # the position of the missing answer among all categories

    def pull(self, rows: Any) -> list[Any]:
        last = rows @ self.frequencies
        if not sparse.issparse(rows):
            return [np.insert(rows, self.place, last, axis=-1) / self.share]
        column = sparse.csr_array(last[:, None])
        blocks = [rows[:, : self.place], column, rows[:, self.place :]]
        return [sparse.hstack(blocks, format="csr") / self.share]

    def push(self, vectors: Any) -> np.ndarray:
        (vector,) = vectors
        answers = np.delete(vector, self.place)
        return (answers + self.frequencies * vector[self.place]) / self.share


@dataclass(frozen=True, eq=False)
class AnsweredLaw(Tagged, tag="answered-law"):
    """The error of the frequencies among the users who answered, by the delta method.

    Parameters
    ----------
    noise : Noise
        The noise of the frequencies of all categories.
    shares : ndarray of shape (n_estimates,)
        The estimated share of users who answered.
    place : int
        The position of the missing answer among all categories.
    """

    noise: Any
    shares: np.ndarray
    place: int

    half_count: ClassVar[float] = 0.0  # the grids of the noise contain the correction
    of_all_users: ClassVar[bool] = True
    among: ClassVar[str] = " who answered"  # which users the estimate is about, for texts

    def __check_state__(self) -> None:
        is_valid = np.ndim(self.shares) == 1 and np.all(np.isfinite(self.shares))
        if not isinstance(self.noise, Noise) or not is_valid or np.any(self.shares <= 0):
            raise ValueError(
                "The noise among users who answered needs a positive share of these users for each "
                "row. Save the estimate again."
            )

    @property
    def is_of_complete_counts(self) -> bool:
        """Whether the noise of all categories is noise of complete counts, see `Noise`."""
        return bool(self.noise.is_of_complete_counts)

    @property
    def variance_of_total(self) -> float:
        """Infinite, because the number of users who answered is estimated."""
        return np.inf

    @property
    def null_variance(self) -> Any:
        return np.square(self.noise.std) / self.shares**2

    @property
    def slope(self) -> Any:
        return self.noise.growth / self.shares

    @property
    def curvature(self) -> Any:
        return self.noise.curvature

    def of_rows(self, rows: Rows) -> AnsweredLaw:
        """Return the distribution of the errors of some rows of the estimate."""
        shares: Any = self.shares
        return AnsweredLaw(self.noise.of_rows(rows), np.atleast_1d(shares[rows]), self.place)

    def variances(self, frequencies: np.ndarray) -> np.ndarray:
        """Return the variance of the error of each category, for each row of the estimate."""
        shape = np.broadcast_shapes((len(self.shares), 1), frequencies.shape)
        each = np.broadcast_to(frequencies, shape)
        every = every_category(shape[-1])
        rows = [self.of_rows(i).covariance(f).variances(every) for i, f in enumerate(each)]
        return np.array(rows) if frequencies.ndim > 1 or len(rows) > 1 else rows[0]

    def covariance(self, frequencies: np.ndarray) -> Covariances:
        """Return the covariance of the errors of a single row."""
        share = float(self.shares[0])
        kept = min(share, 1.0)
        everyone = np.insert(kept * frequencies, self.place, 1 - kept)
        view = _Conditional(frequencies, share, self.place)
        summands = [(1.0, self.noise.at(everyone))]
        return Covariances(summands, view, lambda: self.variances(frequencies))


def noise_of_answered(noise: Noise, shares: np.ndarray, place: int) -> Noise:
    """Return the noise of the frequencies among the users who answered.

    noise: the noise of all categories. shares: the estimated share of users who answered, of shape
    (n_estimates,). place: the position of the missing answer among all categories.
    """
    draws = noise.draws
    if draws:
        of_draws = Noise(draws, noise.n_samples)
        draws = (Term(AnsweredLaw(of_draws, shares, place)),)
    is_known = noise.n_samples is not None
    return Noise(
        [Term(AnsweredLaw(noise, shares, place))],
        noise.n_samples * shares if is_known else None,
        n_users=noise.n_users * shares if is_known else None,
        grids=[(law, n * shares) for law, n in noise.grids],
        draws=draws,
    )
