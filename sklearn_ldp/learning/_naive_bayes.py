"""Naive Bayes from records of which users reveal nothing: one randomised report each."""

from __future__ import annotations

from functools import cached_property
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import assert_all_finite
from sklearn.utils._param_validation import Interval, StrOptions

from .._documentation import Documented
from .._random import RandomState
from .._typing import Values
from ..domains import Domain, RecordDomain
from ..domains._columns import column_names, read_once, table_columns
from ..domains._levels import declared_levels
from ..domains._records import array_columns
from ..postprocessing._normalization import norm_sub
from ..surveys import MarginalOracle
from ..surveys._components import Components
from ..surveys._consistent import cell_variance
from ._label_channel import checked_classes, checked_labels
from ._log_odds import log_lifts, slope

_LABEL = "class"
_N_BINS = 10  # of a number whose domain is learnt
_HOPELESS = 10.0  # standard error of a frequency above which a fit is refused


class LDPNaiveBayes(Documented, ClassifierMixin, BaseEstimator):
    """Naive Bayes classifier from private records: each user sends one report, at the full epsilon.

    Features and labels are all private. Each user draws one of the features by public
    probabilities, and reports her value of it together with her class, as one category of a
    :class:`~sklearn_ldp.MarginalOracle` whose tables are (feature, class). From these tables come
    P(class), pooled over all of them, and how much each value of a feature speaks for each class.
    The latter is shrunk by the noise level, such that values that noise swamps say nothing; and the
    sum over features is scaled down, as features say the same things again and again.

    Privacy: one `fit`, `partial_fit` or `privatize` on values spends epsilon of each user, for her
    whole record; all that is done with reports is free. The model can be published. Predictions
    read features in the clear: send the model to the user, who predicts on her own device.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one report, > 0.
    domains : "auto" or mapping of str to categories, default="auto"
        The public domain of each feature: anything that :class:`~sklearn_ldp.Domain` takes, such as
        ``Domain.bins([20, 40, 60])`` for a number. Few, coarse categories that were chosen with
        care help more than anything else. "auto" takes the levels that the columns of a data frame
        declare, and otherwise learns categories, or ten bins of a number, from the raw values in
        `fit`, which is for simulations only.
    classes : array-like of shape (n_classes,), default=None
        All labels that there are. None learns them from the labels in `fit`, which is for
        simulations.
    correlation : float, default=0.2
        How much two features' evidence is correlated within a class, on average, from 0 (naive
        Bayes as it is known) to 1 (all features say the same). The default was chosen on tables of
        diamonds, flights, incomes and patients (``benchmarks/learning.py``).
    input : {"values", "reports"}, default="values"
        Whether `fit` and `partial_fit` read users' records or their reports.
    random_state : int, RandomState, Generator or None, default=None
        None draws every coin from the operating system's secure source. Anything else makes
        reports predictable, and is for simulations.
    n_jobs : int, default=None
        Number of threads that work on chunks of users; it does not change the result.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    class_prior_ : ndarray of shape (n_classes,)
        Estimated P(class).
    feature_log_lift_ : dict of str to ndarray of shape (n_categories, n_classes)
        Logarithm of P(class | value) / P(class) of each feature, shrunk; 0 is no evidence.
    slope_ : float
        The factor of the sum over features, in (0, 1].
    survey_ : MarginalOracle
        What has been collected. Its tables are ``survey_.estimate_[feature, "class"]``, with
        intervals.
    n_samples_seen_ : int
        Number of users.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, in the order of `domains`, if the values seen in `fit` had names.

    See Also
    --------
    LabelDPClassifier : Where the features are public: much more accurate.
    LatentClasses : A model of all columns, whose synthetic rows train any classifier.

    Notes
    -----
    P(class | value) of a feature has a Student prior on its log odds ratio, whose scale is learnt;
    the noise of the tables is known. With J features whose evidence has standard deviations
    :math:`s_j` under the naive model, the sum is multiplied by
    :math:`\\sum s_j^2 / (\\sum s_j^2 + \\rho \\sum_{j \\neq k} s_j s_k)`, where :math:`\\rho` is
    `correlation`: what makes it calibrated if the terms are normal and equally correlated. Both are
    unpublished; the guide page "Learning under LDP" has the measurements.

    References
    ----------
    .. [1] E. Yilmaz, M. Al-Rubaie, J. M. Chang, "Locally differentially private naive Bayes
       classification", 2019, arXiv:1905.01039 (randomises (feature, class) pairs).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import Domain
    >>> from sklearn_ldp.learning import LDPNaiveBayes
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(18, 90, 50_000)
    >>> smokes = rng.random(50_000) < 0.3
    >>> ill = np.where(rng.random(50_000) < age / 300 + 0.4 * smokes, "yes", "no")
    >>> model = LDPNaiveBayes(
    ...     2.0,
    ...     domains={"age": Domain.bins([40, 65]), "smokes": [False, True]},
    ...     classes=["no", "yes"],
    ...     random_state=0,
    ... )
    >>> users = np.column_stack([age, smokes])
    >>> model.fit(users, ill).predict([[80, True], [30, False]]).tolist()
    ['yes', 'no']
    """

    #: Whether values are categories, which checks of older versions turn into fractions.
    _reads_categories = True

    #: Checks of scikit-learn's that it cannot pass, and why.
    _expected_failed_checks = {
        "check_sample_weight_equivalence_on_dense_data": (
            "each user draws coins of her own, and bins are learnt from rows"
        ),
    }

    _parameter_constraints: dict = {
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "correlation": [Interval(Real, 0, 1, closed="both")],
        "input": [StrOptions({"values", "reports"})],
        "random_state": [None, Integral, np.random.RandomState, np.random.Generator],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        domains: Any = "auto",
        classes: ArrayLike | None = None,
        correlation: float = 0.2,
        input: str = "values",
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.domains = domains
        self.classes = classes
        self.correlation = correlation
        self.input = input
        self.random_state = random_state
        self.n_jobs = n_jobs

    # -- client side --------------------------------------------------------------------------
    def oracle(self) -> MarginalOracle:
        """Return the oracle that clients and servers agree on, without users.

        Everything in :mod:`sklearn_ldp.collection` takes it: files of reports, checkpoints that
        count each batch once, clusters. `merge` then takes the fitted oracle.

        Returns
        -------
        MarginalOracle
            Its tables are (feature, class).

        Raises
        ------
        ValueError
            If domains or classes are not declared.
        """
        return self._new_survey(None, None)

    def privatize(self, X: Values, y: ArrayLike) -> np.ndarray:
        """Randomise users' records into reports, as each client does; no fit is needed.

        Privacy: each call spends epsilon of every user in `X`. Only ``random_state=None`` protects
        anybody.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_features)
            One row per user.
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            The reports.

        Raises
        ------
        ValueError
            If a value is not in its domain, or domains or classes are not declared.
        """
        oracle = self.oracle()
        records: Any = self._records(X, y, oracle)
        return oracle.privatize(records)

    # -- server side --------------------------------------------------------------------------
    def fit(self, X: Values, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Collect once: randomise users' records (or read their reports), and learn the model.

        Privacy: spends epsilon of each user if `X` and `y` hold values; nothing with reports.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_features)
            One row per user; or, with ``input="reports"``, one report per user.
        y : array-like of shape (n_samples,)
            Their labels; None with ``input="reports"``.
        sample_weight : array-like of int of shape (n_samples,), default=None
            The number of users of each row.

        Returns
        -------
        self : object
            The fitted classifier.

        Raises
        ------
        ValueError
            If a value is not in its domain, a label is not a class, there is only one class, or
            epsilon is too small for any signal; the classifier then stays unchanged.
        """
        before = self.__dict__.copy()
        self._collect(None, X, y, sample_weight)
        error = self._model.least_error
        if error > _HOPELESS:
            self.__dict__ = before
            raise ValueError(
                f"{self._name} needs a larger epsilon than {self.epsilon:g}, or more users: each "
                f"frequency would have a standard error of {error:.3g} or more, so that there is "
                "no signal to learn from."
            )
        return self

    def partial_fit(
        self,
        X: Values,
        y: Any = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add more users, who should be new ones.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_features)
            As for `fit`.
        y : array-like of shape (n_samples,)
            As for `fit`.
        classes : array-like of shape (n_classes,), default=None
            All labels that there are, if the parameter `classes` does not say so; for the first
            call.
        sample_weight : array-like of int of shape (n_samples,), default=None
            As for `fit`.

        Returns
        -------
        self : object
            The classifier with the users added.

        Raises
        ------
        ValueError
            As for `fit`.
        """
        return self._collect(getattr(self, "survey_", None), X, y, sample_weight, classes)

    def aggregate(self, reports: ArrayLike) -> Self:
        """Add a batch of reports, which costs no privacy.

        Parameters
        ----------
        reports : array-like whose first axis is the users
            As `privatize` returns them.

        Returns
        -------
        self : object
            The classifier with the reports added.

        Raises
        ------
        ValueError
            If a report cannot come from this classifier; the whole batch is then refused.
        """
        survey = getattr(self, "survey_", None) or self._new_survey(None, None)
        return self._learnt(survey.aggregate(reports))

    def merge(self, other: LDPNaiveBayes | MarginalOracle) -> Self:
        """Add what another server has collected for the same model.

        Parameters
        ----------
        other : LDPNaiveBayes or MarginalOracle
            With the same epsilon, domains and classes; an oracle is one that :meth:`oracle` has
            returned, or an :class:`~sklearn_ldp.collection.Aggregator` of it. It is not changed.

        Returns
        -------
        self : object
            The classifier with the other's reports added.

        Raises
        ------
        NotFittedError
            If the other has no reports.
        ValueError
            If the two are configured differently; the classifier then stays unchanged.
        """
        if not isinstance(other, (LDPNaiveBayes, MarginalOracle)):
            raise TypeError(
                f"{self._name}.merge needs another {self._name}, or a fitted oracle of one, got "
                f"{type(other).__name__}."
            )
        theirs = other if isinstance(other, MarginalOracle) else getattr(other, "survey_", None)
        if theirs is None:
            raise NotFittedError(
                f"The other {self._name} has no reports to merge: call fit or aggregate on it."
            )
        survey = getattr(self, "survey_", None) or self._new_survey(None, None)
        return self._learnt(survey.merge(theirs))

    # -- predictions --------------------------------------------------------------------------
    def predict(self, X: Values) -> np.ndarray:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_features)
            Features, not randomised.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        best = self.predict_joint_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Values) -> np.ndarray:
        """Return the probability of each class.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_features)
            Features, not randomised.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Values) -> np.ndarray:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_features)
            Features, not randomised.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        return log_softmax(self.predict_joint_log_proba(X), axis=1)

    def predict_joint_log_proba(self, X: Values) -> np.ndarray:
        """Return the score of each class: log P(class) plus what all features say, scaled.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_features)
            Features, not randomised.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Not normalised.
        """
        domain, model = _features_of(self._fitted("predict")), self._model
        codes = domain.encode(read_once(X), self._name)
        evidence = np.zeros((len(codes), len(self.classes_)))
        for column, lift in zip(codes.T, model.lifts.values(), strict=True):
            evidence += lift[column]
        return np.log(model.class_prior) + model.slope(self.correlation) * evidence

    # -- what is known after fit --------------------------------------------------------------
    @property
    def class_prior_(self) -> np.ndarray:
        """Estimated P(class), of shape (n_classes,)."""
        self._fitted("class_prior_")
        return self._model.class_prior

    @property
    def feature_log_lift_(self) -> dict[Any, np.ndarray]:
        """Logarithm of P(class | value) / P(class) of each feature, shrunk."""
        self._fitted("feature_log_lift_")
        return dict(self._model.lifts)

    @property
    def slope_(self) -> float:
        """The factor of the sum over features."""
        self._fitted("slope_")
        return self._model.slope(self.correlation)

    @property
    def n_samples_seen_(self) -> int:
        """Number of users."""
        return self._fitted("n_samples_seen_").n_samples_seen_

    # -- the survey ---------------------------------------------------------------------------
    def _learnt(self, survey: MarginalOracle) -> Self:
        """Take a survey with more users than before."""
        self.survey_ = survey
        self.classes_ = np.asarray(_domain_of(survey).columns[_LABEL].categories)
        self.n_features_in_ = len(_domain_of(survey).columns) - 1
        self._model = _Model(survey)
        return self

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _fitted(self, attribute: str) -> MarginalOracle:
        if not hasattr(self, "survey_"):
            raise NotFittedError(
                f"This {self._name} instance is not fitted yet and has no {attribute}: call fit on "
                "users' records, or aggregate on their reports, first."
            )
        return self.survey_

    def _new_survey(self, X: Any, labels: Any, classes: Any = None) -> MarginalOracle:
        """Return the empty survey; X and labels say what nothing else does."""
        self._validate_params()
        if isinstance(self.domains, str) and self.domains == "auto" and X is not None:
            features = _learned(X, self._name)
        else:
            features = RecordDomain.declared(self.domains, self._name)
        if _LABEL in features.columns:
            raise ValueError(
                f"{self._name} needs another name for the feature {_LABEL!r}, which is what it "
                "calls the labels."
            )
        declared = self.classes if self.classes is not None else classes
        if declared is None and labels is None:
            raise ValueError(
                f"{self._name} does not know its classes yet: declare them in classes=, since "
                "clients and servers must share them before any report is made."
            )
        found = checked_classes(np.unique(labels) if declared is None else declared, self._name)
        record = RecordDomain({**features.columns, _LABEL: Domain.of(found, self._name)})
        return MarginalOracle(
            self.epsilon,
            domains=record,
            order=[(key, _LABEL) for key in features.columns],
            method="split",
            column_share=0,
            input=self.input,
            n_shards=1,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )

    def _collect(
        self, survey: Any, X: Any, y: Any, sample_weight: Any, classes: Any = None
    ) -> Self:
        """Add users to a survey, or to a new one."""
        if self.input == "reports":
            if y is not None:
                raise ValueError(
                    f'{self._name}(input="reports") reads the labels from the reports: leave out y.'
                )
            is_new, survey = survey is None, survey or self._new_survey(None, None, classes)
            return self._learnt(_added(survey, X, sample_weight, is_new))
        X, labels = read_once(X), checked_labels(y, self._name)
        is_new = survey is None
        if is_new:
            survey = self._new_survey(X, labels, classes)
        records = self._records(X, labels, survey)
        self._learnt(_added(survey, records, sample_weight, is_new))
        names = column_names(X)
        if names is not None and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(list(_features_of(survey).columns), dtype=object)
        elif is_new and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def _records(self, X: Any, y: Any, survey: MarginalOracle) -> _Table:
        """Return the columns of users' records, with their labels."""
        features = _features_of(survey)
        columns = features.columns_of(X, self._name)
        labels = checked_labels(y, self._name)
        if len(labels) != len(columns[0]):
            raise ValueError(
                f"{self._name} found input variables with inconsistent numbers of samples: "
                f"{len(columns[0])} rows of X and {len(labels)} labels."
            )
        classes = _domain_of(survey).columns[_LABEL]
        unknown = set(np.unique(labels).tolist()) - set(classes.categories.tolist())
        if unknown:
            raise ValueError(
                f"{self._name} got the label {sorted(unknown, key=str)[0]!r}, which is not one of "
                f"its classes {classes.categories.tolist()!r}."
            )
        return _Table([*features.columns, _LABEL], [*columns, labels])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "survey_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.non_deterministic = self.random_state is None
        return tags


class _Model:
    """What a survey of (feature, class) says, worked out when it is first asked for."""

    def __init__(self, survey: MarginalOracle) -> None:
        self.survey = survey

    def __getstate__(self) -> dict[str, Any]:
        return {"survey": self.survey}

    @cached_property
    def _agreed(self) -> dict[Any, tuple[np.ndarray, float]]:
        """The table of each feature that users were asked for, and the variance of its cells."""
        tables: Any = self.survey.estimate_
        names = [(name, _LABEL) for name in _features_of(self.survey).columns]
        names = [name for name in names if len(tables[name])]
        columns = [tables.columns_of[name] for name in names]
        variances = [cell_variance(tables, name) for name in names]
        cells = [tables.row(name) for name in names]
        # All tables have the classes in common: least squares makes them agree on these.
        agreed = Components.of_tables(tables.sizes, columns, cells, variances).own_tables()
        shape = (-1, tables.sizes[-1])
        both = zip(names, agreed, variances, strict=True)
        return {name[0]: (table.reshape(shape), float(v)) for name, table, v in both}

    @property
    def least_error(self) -> float:
        """The least standard error of a cell, over all tables."""
        return float(np.sqrt(min(variance for _, variance in self._agreed.values())))

    @cached_property
    def class_prior(self) -> np.ndarray:
        """P(class), in which no class is impossible."""
        table, _ = next(iter(self._agreed.values()))
        prior = np.maximum(norm_sub(table.sum(axis=0)), 1 / (self.survey.n_samples_seen_ + 1))
        return prior / prior.sum()

    @cached_property
    def lifts(self) -> dict[Any, np.ndarray]:
        """The log lifts of each feature; none where nobody was asked."""
        found = {}
        for name, domain in _features_of(self.survey).columns.items():
            if name in self._agreed:
                table, variance = self._agreed[name]
                found[name] = log_lifts(table, np.sqrt(variance), self.class_prior)
            else:
                found[name] = np.zeros((domain.size, len(self.class_prior)))
        return found

    def slope(self, correlation: float) -> float:
        """The factor of the sum over features."""
        lifts = [self.lifts[name] for name in self._agreed]
        frequencies = [norm_sub(table.sum(axis=1)) for table, _ in self._agreed.values()]
        return slope(lifts, frequencies, correlation)


class _Table:
    """Columns by name, as a survey reads them from a data frame."""

    def __init__(self, columns: list, arrays: list[np.ndarray]) -> None:
        self.columns = columns
        self._arrays = arrays

    def get_columns(self) -> list[np.ndarray]:
        return self._arrays

    def __len__(self) -> int:
        return len(self._arrays[0])


def _added(survey: MarginalOracle, X: Any, sample_weight: Any, is_new: bool) -> MarginalOracle:
    return (survey.fit if is_new else survey.partial_fit)(X, sample_weight=sample_weight)


def _domain_of(survey: MarginalOracle) -> Any:
    """The domain of features and label."""
    return survey.domains


def _features_of(survey: MarginalOracle) -> RecordDomain:
    columns = _domain_of(survey).columns
    return RecordDomain({key: one for key, one in columns.items() if key != _LABEL})


def _learned(X: Any, name: str) -> RecordDomain:
    """Return domains that are learnt from raw values: levels, categories, or bins of numbers."""
    columns = table_columns(X)
    if columns is None:
        columns = array_columns(X, name)
    names = column_names(X) or list(range(len(columns)))
    domains = {}
    for key, column in zip(names, columns, strict=True):
        values = np.asarray(column)
        is_number = values.dtype.kind == "f" or (
            values.dtype.kind in "iu" and len(np.unique(values)) > _N_BINS
        )
        if is_number and declared_levels(column) is None:
            assert_all_finite(values, input_name="X", estimator_name=name)
            cuts = np.quantile(values, np.linspace(0, 1, _N_BINS + 1)[1:-1])
            domains[key] = Domain.bins(np.unique(cuts))
        else:
            domains[key] = Domain.learned(column, f"{name}, in the column {key!r},")
    return RecordDomain(domains)
