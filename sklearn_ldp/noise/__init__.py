"""Noise: the covariance of any linear answers to an estimate, whatever made it."""

from ._matrix import MatrixNoise as MatrixNoise
from ._model import ChannelNoise as ChannelNoise
from ._model import CombinedNoise as CombinedNoise
from ._model import ConstantNoise as ConstantNoise
from ._model import Noise as Noise
from ._model import NoiseModel as NoiseModel
from ._model import ReorderedNoise as ReorderedNoise
from ._model import SampledNoise as SampledNoise
from ._model import ScaledNoise as ScaledNoise
from ._model import as_rows as as_rows
from ._model import variances_after_norm as variances_after_norm
