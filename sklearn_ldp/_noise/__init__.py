"""Noise: the covariance of any linear answers to an estimate, whatever made it."""

from ._covariance import MULTINOMIAL as MULTINOMIAL
from ._covariance import CategoryLaw as CategoryLaw
from ._covariance import Covariance as Covariance
from ._covariance import Covariances as Covariances
from ._covariance import Factors as Factors
from ._covariance import as_rows as as_rows
from ._covariance import every_category as every_category
from ._covariance import of_columns as of_columns
from ._covariance import support_law as support_law
from ._model import NOISE_CONSTRAINT as NOISE_CONSTRAINT
from ._model import Noise as Noise
from ._model import NoiseModel as NoiseModel
from ._model import Term as Term
from ._model import variances_after_norm as variances_after_norm
