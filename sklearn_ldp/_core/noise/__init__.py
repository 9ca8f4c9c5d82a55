"""Noise: the covariance of any linear answers to an estimate, for all kinds of estimates."""

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
