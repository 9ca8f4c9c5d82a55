"""Noise models: variances and covariances of estimates, and of answers to linear queries."""

from ._added import NOISE_KINDS, AddedNoise, std_of_noise
from ._answered import AnsweredLaw, noise_of_answered
from ._covariance import (
    MULTINOMIAL,
    CategoryLaw,
    Covariance,
    Covariances,
    Factors,
    as_rows,
    every_category,
    of_columns,
    support_law,
)
from ._model import (
    NOISE_CONSTRAINT,
    Noise,
    NoiseModel,
    Term,
    independent_noise,
    variances_after_norm,
)
