"""Noise: the covariance of any linear answers to an estimate, whatever made it."""

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
