"""Several columns at once: each user is asked for one of them, at the full epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Options, StrOptions

from .._estimate import FrequencyEstimate
from .._estimate_set import EstimateSet
from .._random import RandomState, as_generator
from .._sampled_noise import SampledNoise
from .._typing import Frequencies, Values
from ..domains import Domain, RecordDomain
from ..domains._alignment import in_order
from ..mechanisms._split import Split, shares_over_2_64
from ..protocols import check_counts
from ._base import BaseOracle
from ._state import Collected, check_weights
from ._survey import BaseSurvey


class ColumnOracle(BaseSurvey):
    """Estimate the distribution of each of several columns from one report per user.

    Each user draws one of the columns by public probabilities, and reports her value of that
    column alone, by the column's own oracle and with the whole budget. This beats reports on all
    columns that share the budget: with J columns the noise of a column grows as if there were J
    times fewer users, and not as if epsilon were J times smaller.

    Columns of many categories are asked for more often: the probabilities are in proportion to
    ``sqrt(weight * V)``, where V is the total variance of the column's oracle over its categories
    under uniform frequencies, which minimises the sum of ``weight * V / probability``.

    An estimate is of the frequencies among *all* users. So its noise contains that of drawing
    whom to ask, about ``f (1 - f) (1 / probability - 1) / n`` for a category of frequency f.

    Privacy: one `fit`, `partial_fit`, `privatize` or `transform` on values spends epsilon of each
    user, for her whole record; all that is done with reports is free. Which column a user was
    asked for is public.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one report, > 0.
    domains : "auto" or mapping of str to categories, default="auto"
        The public domain of each column: anything that :class:`~sklearn_ldp.Domain` takes. "auto"
        takes the levels that the columns of a data frame declare (categorical dtypes). Without
        declared levels it learns a domain from the raw values in `fit`, which leaks the values
        that occur and is for simulations only.
    oracle : "best", oracle or mapping of str to those, default="best"
        How a column is reported. "best" is :func:`~sklearn_ldp.best_oracle` for its domain; of an
        oracle, `epsilon` and `categories` are set. A mapping says it by column; columns that it
        leaves out have the best oracle.
    weights : mapping of str to float or array-like of shape (n_columns,), default=None
        How much the errors of each column count, > 0; in a mapping, columns left out have weight 1.
        None weights all columns alike.
    n_sampled : int, default=1
        Number of columns that each user is asked for; 1 is the only one so far.
    input : {"values", "reports"}, default="values"
        Whether `fit`, `partial_fit` and `transform` read users' raw values or their reports.
    n_shards : int, default=10
        Number of disjoint parts of the reports whose counts are kept apart, for
        :class:`~sklearn_ldp.HeldOutSearch`. With 1 no parts are kept, nor where they would take
        more than 64 MiB.
    random_state : int, RandomState, Generator or None, default=None
        None draws every coin from the operating system's secure source. Anything else makes
        reports predictable, and is for simulations.
    n_jobs : int, default=None
        Number of threads that work on chunks of users; it does not change the result.

    Attributes
    ----------
    estimate_ : EstimateSet
        The raw estimate of each column, by its name. A column that no user was asked for has an
        estimate without rows, which says so.
    frequencies_ : dict of str to ndarray of shape (d,)
        Unbiased estimates of each column that has users; some may be negative.
    sampling_probabilities_ : ndarray of shape (n_columns,)
        Probability that a user is asked for each column, in the order of `domains`.
    oracles_ : dict of str to oracle
        The unfitted oracle of each column.
    n_samples_seen_ : int
        Number of users, over all columns.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, in the order of `domains`, if the values seen in `fit` had names.

    See Also
    --------
    EstimateSet : What it returns, which post-processors and searches take.

    References
    ----------
    .. [1] H. H. Arcolezi, J.-F. Couchot, B. Al Bouna, X. Xiao, "Random sampling plus fake data:
       multidimensional frequency estimates with local differential privacy", CIKM 2021,
       :doi:`10.1145/3459637.3482467` (section 3 describes sampling one attribute).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import ColumnOracle, NormSub
    >>> from sklearn.pipeline import make_pipeline
    >>> rng = np.random.default_rng(0)
    >>> users = np.column_stack([rng.integers(0, 2, 50_000), rng.binomial(9, 0.4, 50_000)])
    >>> survey = ColumnOracle(epsilon=2.0, domains={"smokes": 2, "visits": 10}, random_state=0)
    >>> estimates = make_pipeline(survey, NormSub()).fit_transform(users)
    >>> estimates["smokes"].values.round(2)
    array([[0.5, 0.5]])
    >>> estimates["visits"].top(1)[0][0]
    4
    >>> survey.sampling_probabilities_.round(2)
    array([0.21, 0.79])
    """

    _parameter_constraints: dict = {
        **BaseSurvey._parameter_constraints,
        "oracle": [StrOptions({"best"}), BaseOracle, Mapping],
        "weights": [None, "array-like", Mapping],
        "n_sampled": [Options(Integral, {1})],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        domains: Any = "auto",
        oracle: Any = "best",
        weights: Mapping[Any, float] | ArrayLike | None = None,
        n_sampled: int = 1,
        input: str = "values",
        n_shards: int = 10,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.domains = domains
        self.oracle = oracle
        self.weights = weights
        self.n_sampled = n_sampled
        self.input = input
        self.n_shards = n_shards
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _planned_parts(self):
        domain: Any = self._domain()
        return self._planned_columns(self._oracles(domain), self._weights(domain))

    # -- hooks of the collection --------------------------------------------------------------
    def _make_mechanism(self, domain: Domain) -> Split:
        assert isinstance(domain, RecordDomain)
        channels = [oracle.channel() for oracle in self._oracles(domain).values()]
        totals = self._total_variances(channels)
        return Split(channels, shares_over_2_64(np.sqrt(self._weights(domain) * totals)))

    def _oracles(self, domain: RecordDomain) -> dict[Any, BaseOracle]:
        """The oracle of each column."""
        given = self.oracle
        if isinstance(given, Mapping):
            self._refuse_unknown(given, domain, "oracle")
            chosen = {key: given.get(key, "best") for key in domain.columns}
        else:
            chosen = dict.fromkeys(domain.columns, given)
        return {
            key: self._oracle_of(chosen[key], of_column, key)
            for key, of_column in domain.columns.items()
        }

    def _weights(self, domain: RecordDomain) -> np.ndarray:
        """The weight of each column."""
        given: Any = self.weights
        if given is None:
            return np.ones(len(domain.columns))
        if isinstance(given, Mapping):
            self._refuse_unknown(given, domain, "weights")
            given = [given.get(key, 1.0) for key in domain.columns]
        array = np.asarray(given, dtype=float)
        if array.shape != (len(domain.columns),) or not np.all((array > 0) & np.isfinite(array)):
            raise ValueError(
                f"{self._name} needs a finite weight > 0 for each of its {len(domain.columns)} "
                f"columns, got {self.weights!r}."
            )
        return array

    def _refuse_unknown(self, given: Mapping, domain: RecordDomain, what: str) -> None:
        unknown = [key for key in given if key not in domain.columns]
        if unknown:
            raise ValueError(
                f"{self._name} got {what} for {unknown[0]!r}, which is not one of its columns: "
                f"{', '.join(map(repr, domain.columns))}."
            )

    def _estimate_of(self, state: Collected) -> EstimateSet:
        domain: Any = state.protocol.domain
        oracles, parts = self._oracles_of(state), {}
        for j, (key, of_column) in enumerate(domain.columns.items()):
            parts[key] = self._estimate_of_part(state, j, of_column, oracles[key])
        return EstimateSet(parts)

    def _oracles_of(self, state: Collected) -> dict[Any, BaseOracle]:
        """The oracles that the collection was started with, unfitted."""
        domain: Any = state.protocol.domain
        return type(self)(**state.parameters)._oracles(domain)

    # -- without users ------------------------------------------------------------------------
    def simulate(self, counts: Mapping[Any, Frequencies], n_repeats: int = 1) -> EstimateSet:
        """Draw whole collections from known counts of each column, without users, for studies.

        Privacy: none is protected; `counts` must be public or synthetic.

        The estimates of each column have their exact law. Different columns are drawn as if their
        values were independent.

        Parameters
        ----------
        counts : mapping of str to array-like of shape (d,)
            True number of users of each category, for each column; with the same sum.
        n_repeats : int, default=1
            Number of independent collections.

        Returns
        -------
        EstimateSet
            One row per collection in each part.

        Raises
        ------
        ValueError
            If the counts are not non-negative integers of the same sum for each column, or a
            column has no users in one of the collections.
        """
        self._check_parameters()
        if not isinstance(n_repeats, Integral) or n_repeats < 1:
            raise ValueError(f"{self._name}.simulate expects n_repeats >= 1, got {n_repeats!r}.")
        domain: Any = self._domain()
        users = self._checked_counts(domain, counts)
        split: Any = self._protocol_over(domain).mechanism
        oracles, rng = self._oracles(domain), as_generator(self.random_state)
        n_users = int(next(iter(users.values())).sum())
        asked = rng.multinomial(n_users, split.probabilities, size=int(n_repeats))
        if not asked.all():
            empty = list(users)[int(np.argmin(asked.min(axis=0)))]
            raise ValueError(
                f"{self._name}.simulate has no users for the column {empty!r} in one of the "
                f"{n_repeats} collections: {n_users} users are too few."
            )
        parts = {}
        for (key, of_column), channel, sizes in zip(
            users.items(), split.parts, asked.T, strict=True
        ):
            drawn = (rng.multivariate_hypergeometric(of_column, size) for size in sizes)
            support = np.concatenate([channel.simulate(one, 1, rng) for one in drawn])
            noise = channel.noise(sizes if len(sizes) > 1 else int(sizes[0]))
            parts[key] = FrequencyEstimate(
                noise.debias(support),
                domain.columns[key].categories,
                SampledNoise(noise, n_users),
                oracles[key],
            )
        return EstimateSet(parts)

    def _checked_counts(self, domain: RecordDomain, counts: Any) -> dict[Any, np.ndarray]:
        if not isinstance(counts, Mapping) or set(counts) != set(domain.columns):
            raise ValueError(
                f"{self._name}.simulate expects counts for each of its columns "
                f"{', '.join(map(repr, domain.columns))}, by name."
            )
        checked = {}
        for key, of_column in domain.columns.items():
            what = f"{self._name}.simulate: counts of {key!r}"
            checked[key] = check_counts(in_order(counts[key], of_column.categories, what), what)
            if len(checked[key]) != of_column.size:
                raise ValueError(
                    f"{what} must have one number for each of its {of_column.size} categories, got "
                    f"{len(checked[key])}."
                )
        sums = {key: int(of_column.sum()) for key, of_column in checked.items()}
        if len(set(sums.values())) > 1:
            raise ValueError(
                f"{self._name}.simulate expects as many users in each column, got {sums}."
            )
        return checked

    def true_frequencies(
        self, X: Values, sample_weight: ArrayLike | None = None
    ) -> dict[Any, np.ndarray]:
        """Return the raw frequencies of users' values, to judge estimates in simulations.

        Privacy: not private at all.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_columns)
            One row per user.
        sample_weight : array-like of shape (n_samples,), default=None
            The number of users of each row, as for `fit`.

        Returns
        -------
        dict of str to ndarray of shape (d,)
            The frequencies in each column, in the order of its categories.

        Raises
        ------
        ValueError
            If a value is not a category, the domains are not known, or the weights are malformed.
        """
        domain: Any = self._domain()
        codes = domain.encode(X, self._name)
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, len(codes), self._name)
        columns = zip(domain.columns.items(), codes.T, strict=True)
        counts = {
            key: np.bincount(of_column, sample_weight, minlength=one.size)
            for (key, one), of_column in columns
        }
        return {key: one / one.sum() for key, one in counts.items()}

    # -- what is known after fit --------------------------------------------------------------
    @property
    def oracles_(self) -> dict[Any, BaseOracle]:
        """The unfitted oracle of each column."""
        return self._oracles_of(self._fitted("oracles_"))

    @property
    def frequencies_(self) -> dict[Any, np.ndarray]:
        """Unbiased estimates of the frequencies of each column that has users."""
        estimates = self._estimate_of(self._fitted("frequencies_"))
        return {key: part.values[0] for key, part in estimates.items() if len(part)}

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Name the estimates after the columns and their categories.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of shape (total number of categories,)
            Such as "age_3", in the order of the columns.
        """
        return self._fitted("feature names").protocol.domain.names
