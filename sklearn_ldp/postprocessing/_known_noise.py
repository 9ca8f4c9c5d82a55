"""Which noise a post-processor reckons with: its parameter `noise`, or that of the estimate."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval

from .._estimate import FrequencyEstimate
from .._noise import Noise

# The constraint of the parameter, and its paragraph in the docstrings: %(noise)s where a number
# will do, %(noise_model)s where more must be known.
NOISE_CONSTRAINT = [None, Interval(Real, 0, None, closed="neither"), Noise]
NOISE_PARAGRAPHS = {
    "noise": """noise : float or NoiseModel, default=None
    The noise of the estimate. None takes the noise that the estimate carries, which must be raw
    then. A number is the noise level: the standard deviation of the estimate of a category that
    nobody has, taken as the same for all frequencies. A :class:`~sklearn_ldp.NoiseModel`, such as
    ``oracle.noise_``, also tells how the variance grows with the frequency.""",
    "noise_model": """noise : NoiseModel, default=None
    The noise of the estimate. None takes the noise that the estimate carries, which must be raw
    then. For a plain array give a :class:`~sklearn_ldp.NoiseModel`, which knows `p`, `q` and the
    number of users; a noise level alone is not enough.""",
}

_MODEL = "noise=NoiseModel(p, q, n_samples)"
_NEEDS = {
    "std": (
        "the noise level",
        "noise= (the standard deviation of the estimate of a category that nobody has, or a "
        "NoiseModel)",
    ),
    "n_samples": ("the noise level and the number of users", _MODEL),
    "null_variance": ("the noise level and its growth with the frequency", _MODEL),
}


@dataclass(frozen=True)
class ConstantNoise(Noise):
    """Noise of which nothing but its level is known, and which is the same at all frequencies.

    Parameters
    ----------
    std : float
        Standard deviation of the estimate of any category.
    """

    std: float
    n_samples = None
    growth = 0.0

    def variance(self, frequencies: ArrayLike) -> np.ndarray:
        return np.full(np.shape(frequencies), np.square(self.std))

    variance.__doc__ = Noise.variance.__doc__

    def _covariance(self, rows: Any, frequencies: np.ndarray) -> np.ndarray:
        raise ValueError(
            "A noise level does not tell how the errors of several categories go together. Ask the "
            "noise of the oracle's own estimate (oracle.noise_, estimate.noise)."
        )


def resolve_noise(
    estimate: FrequencyEstimate, noise: float | Noise | None, name: str, needs: str = "std"
) -> Noise:
    """Return the noise that a post-processor reckons with.

    Parameters
    ----------
    estimate : FrequencyEstimate
        What is post-processed. Its noise is taken if `noise` is None.
    noise : float, Noise or None
        The post-processor's parameter of this name. A number is the noise level.
    name : str
        Class of the post-processor, to be named in errors.
    needs : {"std", "n_samples", "null_variance"}, default="std"
        What the noise must know: its level, also the number of users, or also how the variance
        grows with the frequency as only a :class:`~sklearn_ldp.NoiseModel` tells it.

    Returns
    -------
    Noise
        With one noise level for all rows of the estimate, or one per row.

    Raises
    ------
    ValueError
        If the noise is not known, or does not know what is needed; if it is to come from an
        estimate that other post-processors have changed; or if it is of another number of rows.

    Examples
    --------
    >>> from sklearn_ldp import FrequencyEstimate, NoiseModel
    >>> from sklearn_ldp.postprocessing import resolve_noise
    >>> estimate = FrequencyEstimate([[0.75, 0.25]], ["a", "b"], NoiseModel(0.5, 0.25, 300))
    >>> float(resolve_noise(estimate, None, "Mine").std)
    0.1
    >>> resolve_noise(estimate, 0.05, "Mine").std
    0.05
    """
    if noise is None:
        noise = _noise_of(estimate, name)
    elif not isinstance(noise, Noise):
        noise = ConstantNoise(float(noise))
    if noise is None or getattr(noise, needs, None) is None:
        what, remedy = _NEEDS[needs]
        source = "a plain array" if noise is None else f"noise={_shown(noise)}"
        raise ValueError(
            f"{name} needs to know {what}, which {source} does not tell: pass the "
            f"FrequencyEstimate that an oracle returns, or give {remedy}."
        )
    levels = np.asarray(noise.std, dtype=np.float64)
    if levels.size not in (1, len(estimate)) or not np.all((levels > 0) & np.isfinite(levels)):
        raise ValueError(
            f"{name} needs one finite noise level > 0 for all rows, or one per row "
            f"({len(estimate)}), got {levels} from noise={_shown(noise)}."
        )
    return noise


def _noise_of(estimate: FrequencyEstimate, name: str) -> Noise | None:
    """The noise that the estimate carries, which is that of a raw estimate only."""
    if estimate.noise is not None and not estimate.is_raw:
        raise ValueError(
            f"{name} needs a raw estimate, got one after {' and '.join(estimate.postprocessors)}, "
            "whose errors are no longer those that its noise describes. Put "
            f"{name} first, pass the raw estimate (oracle.estimate_), or give noise= for the "
            "estimate as it is now."
        )
    return estimate.noise


def _shown(noise: Noise) -> str:
    return repr(noise.std) if isinstance(noise, ConstantNoise) else repr(noise)


def per_row(value: ArrayLike, n_rows: int) -> np.ndarray:
    """One number for each row, from one for all of them or one per row.

    Parameters
    ----------
    value : float or array-like of shape (1,) or (n_rows,)
        Such as `std`, `growth` or `n_samples` of a noise.
    n_rows : int
        Number of rows.

    Returns
    -------
    ndarray of shape (n_rows,)
        Floats, read-only.
    """
    return np.broadcast_to(np.ravel(np.asarray(value, dtype=np.float64)), n_rows)
