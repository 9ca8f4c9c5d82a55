"""Statistical inference: the functions and classes that `sklearn_ldp.inference` exports."""

from ._combined import combine
from ._confidence import (
    confidence_interval,
    critical_at_all_times,
    critical_of_look,
    level_of_each,
    narrowest,
    sorted_table,
    table_columns,
    table_intervals,
)
from ._covariances import Estimate, EstimateCovariances, refuse_sums, refuse_without_law
from ._described import (
    POPULATION,
    describe_estimate,
    describe_nothing,
    has_increasing_numbers,
    rows_of,
    several,
)
from ._difference import EstimateDifference, check_apart
from ._discoveries import Discoveries, adjusted_p_values, detected
from ._intervals import ConfidenceInterval, answer_range
from ._mean_by_answer import MeanDifference, Means, MeansByAnswer, fieller, mean_by_answer
from ._quantiles import Quantiles, quantile_values, quantiles, quartiles
from ._ranks import RankInterval, TopCategories, ranks, top_categories
from ._reconciled import reconcile
from ._statements import at_level, check_level, check_of, compared, if_normal, stated
from ._tests import (
    WaldTest,
    as_table,
    departures,
    from_independence,
    goodness_of_fit,
    homogeneity,
    independence,
)
from ._weights import poststratify, rake
