"""Noise: the covariance of any linear answers to an estimate, whatever made it."""

from ._model import (
    ChannelNoise,
    ConstantNoise,
    Noise,
    NoiseModel,
    ReorderedNoise,
    SampledNoise,
    ScaledNoise,
)
from ._model import as_rows as as_rows
from ._model import variances_after_norm as variances_after_norm

__all__ = [
    "ChannelNoise",
    "ConstantNoise",
    "Noise",
    "NoiseModel",
    "ReorderedNoise",
    "SampledNoise",
    "ScaledNoise",
]
