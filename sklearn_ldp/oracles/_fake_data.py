"""Random sampling plus fake data, at the epsilon that it has for whole records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from .._random import RandomState
from ..domains import Domain, RecordDomain
from ..domains.values import in_order
from ..mechanisms._fake_data import FakeData, FakedChannel
from ..mechanisms._split import shares_over_2_64
from ._base import BaseOracle
from ._column_survey import BaseColumnSurvey
from ._direct import GRR
from ._shared_paragraphs import inherit_survey_parameters
from ._unary import OUE, SUE


@inherit_survey_parameters
class RandomSamplingFakeData(BaseColumnSurvey):
    """Report on one column, and hide which one it is by fake data for all others: RS+FD, RS+RFD.

    It is here for comparison: use :class:`~sklearn_ldp.ColumnOracle`, which draws one column as
    well but says which, and whose variance is about J times smaller for J columns.

    Its authors randomise the true answer at a larger budget, ``ln(J (exp(epsilon) - 1) + 1)``,
    because an observer does not know which column it is for. But that holds only for users who
    differ in a single column, and not even for all of these. If two records differ in all columns,
    any report is a mixture of J answers that may all favour the same record: then the likelihood
    ratio is that of a single answer, whatever the fake data are. By enumeration, at a stated
    epsilon of 1:

    ================================= ============ ==========
    mechanism and sizes of columns    whole record one column
    ================================= ============ ==========
    GRR, 3, 3, 3                      1.817        1.000
    GRR, 2, 3, 10                     1.817        1.281
    GRR, 2, 2, 2, 2                   2.063        1.000
    GRR, 2, 3, 10, priors 0.9         1.817        1.777
    OUE of zeros, 2, 3, 3             1.817        1.000
    OUE of fake values, 2, 3, 3       1.817        1.155
    ================================= ============ ==========

    So here the true answer has `epsilon` itself, and the whole is `epsilon`-LDP for whole records.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user, for her whole record; all that is done with reports is free.

    Parameters
    ----------
    %(domains)s
    oracle : "best", GRR, OUE, SUE or mapping of str to those, default="best"
        How a column is reported. "best" is GRR or OUE, whichever has the smaller variance. A
        mapping says it by column; columns that it leaves out have the best one.
    fake_data : "uniform", "zeros" or mapping of str to array-like, default="uniform"
        The values of fake reports. "zeros" takes bits that are all 0, which are then randomised,
        for the columns that OUE or SUE reports, and uniform values for others. A mapping has, by
        column, public prior frequencies to draw them from (RS+RFD): an array in the order of the
        categories, or a mapping from categories; columns left out have uniform fake values.
    %(collection)s

    Attributes
    ----------
    estimate_ : EstimateSet
        The raw estimate of each column, by its name; all users are behind each of them.
    frequencies_ : dict of str to ndarray of shape (d,)
        Unbiased estimates of each column; some may be negative.
    sampling_probabilities_ : ndarray of shape (n_columns,)
        Probability that a user's answer for each column is true: the same for all.
    oracles_ : dict of str to oracle
        The unfitted oracle of each column, of true reports.
    n_samples_seen_ : int
        Number of users.
    %(features)s

    See Also
    --------
    ColumnOracle : The better way to ask about several columns.

    Notes
    -----
    With the probabilities p and q of the oracle, J columns, and b the probability that a report of
    a user without the category supports it, the estimate from c such reports of n is
    ``J (c / n - b) / (p - q)``, where ``b = (q + (J - 1) r) / J``. A fake report supports the
    category with the probability r: its prior for GRR, q for zeros, and ``q + (p - q) * prior`` for
    fake values that OUE or SUE randomises. These are the estimators of [1]_ and [2]_.

    References
    ----------
    .. [1] H. H. Arcolezi, J.-F. Couchot, B. Al Bouna, X. Xiao, "Random sampling plus fake data:
       multidimensional frequency estimates with local differential privacy", CIKM 2021,
       :doi:`10.1145/3459637.3482467`.
    .. [2] H. H. Arcolezi, S. Gambs, J.-F. Couchot, C. Palamidessi, "On the risks of collecting
       multidimensional data under local differential privacy", PVLDB 16(5), 2023,
       :doi:`10.14778/3579075.3579086`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import ColumnOracle
    >>> from sklearn_ldp.oracles import RandomSamplingFakeData
    >>> users = np.random.default_rng(0).binomial(1, 0.3, (20_000, 5))
    >>> domains = dict.fromkeys("abcde", 2)
    >>> for oracle in (ColumnOracle, RandomSamplingFakeData):
    ...     estimates = oracle(2.0, domains=domains, random_state=0).fit_transform(users)
    ...     print(estimates["a"].noise.variance([0.7, 0.3])[1].round(5))
    9e-05
    0.00053
    """

    _parameter_constraints: dict = {
        **BaseColumnSurvey._parameter_constraints,
        "oracle": [StrOptions({"best"}), BaseOracle, Mapping],
        "fake_data": [StrOptions({"uniform", "zeros"}), Mapping],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        domains: Any = "auto",
        oracle: Any = "best",
        fake_data: Any = "uniform",
        input: str = "values",
        n_shards: int = 10,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.domains = domains
        self.oracle = oracle
        self.fake_data = fake_data
        self.input = input
        self.n_shards = n_shards
        self.random_state = random_state
        self.n_jobs = n_jobs

    # -- hooks of the collection --------------------------------------------------------------
    def _make_mechanism(self, domain: Domain) -> FakeData:
        assert isinstance(domain, RecordDomain)
        oracles, fakes = self._oracles(domain), self._fakes(domain)
        n_columns = len(domain.columns)
        parts = [_part(oracle, n_columns, fakes[key]) for key, oracle in oracles.items()]
        self._total_variances(part.channel for part in parts)
        return FakeData(parts)

    def _fakes(self, domain: RecordDomain) -> dict[Any, Any]:
        """The law of the fake values of each column."""
        given = self._by_column(self.fake_data, domain, "fake_data", "uniform")
        return {
            key: fakes if isinstance(fakes, str) else self._prior(fakes, domain.columns[key], key)
            for key, fakes in given.items()
        }

    def _prior(self, given: Any, of_column: Domain, key: Any) -> list[int]:
        """Public prior frequencies of a column, over 2**64."""
        what = f"{self._name}: fake_data of {key!r}"
        try:
            prior = np.asarray(in_order(given, of_column.categories, what), dtype=float)
        except (TypeError, ValueError) as error:
            if self._name in str(error):
                raise
            prior = np.empty(0)
        is_prior = prior.shape == (of_column.size,) and bool(np.all(prior > 0))
        if not is_prior or not np.isclose(prior.sum(), 1):
            raise ValueError(
                f"{what} must be one prior frequency > 0 for each of its {of_column.size} "
                f"categories, with the sum 1, got {given!r}."
            )
        return shares_over_2_64(prior)

    def _oracles(self, domain: RecordDomain) -> dict[Any, BaseOracle]:
        """The oracle of each column; the best one has the least variance with its fake data."""
        chosen, fakes, n_columns = self._chosen(domain), self._fakes(domain), len(domain.columns)
        oracles = {}
        for key, of_column in domain.columns.items():
            is_best = isinstance(chosen[key], str) and chosen[key] == "best"
            candidates = [GRR(), OUE()] if is_best else [chosen[key]]
            if not isinstance(candidates[0], (GRR, OUE, SUE)):
                raise ValueError(
                    f"{self._name} can fake the reports of GRR, OUE and SUE, got "
                    f'{chosen[key]!r} for {key!r}: use one of these, or "best".'
                )
            made = [self._oracle_of(one, of_column, key) for one in candidates]
            errors = [_part(one, n_columns, fakes[key]).total_variance() for one in made]
            oracles[key] = made[int(np.argmin(errors))]
        return oracles

    def _oracle_behind(self, oracle: BaseOracle) -> None:
        """No oracle of a single column draws estimates with the noise of fake data."""

    # -- what is known after fit --------------------------------------------------------------
    @property
    def sampling_probabilities_(self) -> np.ndarray:
        """Probability that a user's answer for each column is true, of shape (n_columns,)."""
        n_columns = len(self._fitted("sampling_probabilities_").mechanism.parts)
        return np.full(n_columns, 1 / n_columns)


def _part(oracle: BaseOracle, n_columns: int, fakes: Any) -> FakedChannel:
    is_unary = not isinstance(oracle, GRR)
    if not is_unary and isinstance(fakes, str):
        fakes = "uniform"
    return FakedChannel(oracle.channel(), n_columns, fakes, is_randomised=is_unary)
