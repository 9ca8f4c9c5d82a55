"""`LDPNaiveBayes`: a naive Bayes classifier for features and labels that are both private."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_softmax, logit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from .._core.common.privacy import warn_of_learned
from .._core.common.random import RandomState
from .._core.common.typing import Values
from .._core.domains import Domain, RecordDomain, columns_of
from .._core.domains.values import (
    declared_levels,
    exact_array,
    read_once,
    refuse_reports,
)
from .._core.fitting import Budget
from .._core.numerics.simplex import norm_sub
from ..surveys import MarginalOracle, TableSet, consistent_tables
from ._label_channel import checked_classes, checked_labels, encoded_labels
from ._private_columns import ReadsColumns

_LABEL = "class"
# Chosen by hand, not measured.
_N_BINS = 10  # of a numeric feature with a learned domain
_HOPELESS = 10.0  # a fit raises an error if the standard error of a frequency is larger


class LDPNaiveBayes(ReadsColumns, ClassifierMixin, BaseEstimator):
    """Naive Bayes classifier for private features and labels; each user sends one report.

    Features and labels are all private. Each user draws one of the features with public
    probabilities, and reports the value of this feature together with the class, as one category of
    a :class:`~sklearn_ldp.MarginalOracle` with the tables (feature, class). The classifier
    estimates P(class) from all tables, and from each table the evidence of each value of the
    feature for each class, log P(class | value) / P(class). The evidence is shrunk according to its
    noise, so values with mostly noise have no effect. The sum of the evidence over features is
    multiplied by a factor below 1, because features are correlated.

    `fit` collects reports and learns in one step. In a deployment, clients and servers use the
    oracle that `oracle` returns, with its files, checkpoints and merges. `fit_tables` then learns
    from the collected tables, or from tables of any other MarginalOracle with the class together
    with each feature.

    Privacy: one `fit` spends epsilon of each user, for the user's whole record; `fit_tables` is
    free. The model can be published. Predictions read true features: send the model to the users,
    who predict on their own devices.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one report, > 0.
    domains : "auto" or mapping of str to categories, default="auto"
        The public domain of each feature, as an argument of :class:`~sklearn_ldp.Domain`, such as
        ``Domain.bins([20, 40, 60])`` for a number. Few, coarse and carefully chosen categories
        improve the model more than any other choice. "auto", for all features or for a feature in
        the mapping, uses the levels that a column of a data frame declares. Without declared
        levels, `fit` learns categories, or ten bins of a number, from the raw values, which is for
        simulations only. A data frame must have no features without an entry in the mapping.
    classes : array-like of shape (n_classes,), default=None
        All possible labels. If None, `fit` learns the classes from the labels, which is for
        simulations.
    correlation : float, default=0.15
        Mean correlation of the evidence of two features within a class, from 0 (standard naive
        Bayes) to 1 (all features have the same evidence). The default was chosen on tables of
        diamonds, flights, incomes and patients (``benchmarks/accuracy/learning.py``).
    random_state : int, RandomState, Generator or None, default=None
        If None, all random bits come from a secure source. Any other value makes reports
        predictable, and is for simulations.
    n_jobs : int, default=None
        Number of threads, which process chunks of users; it does not change the result.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted if they were declared in `classes`.
    class_prior_ : ndarray of shape (n_classes,)
        Estimated probability of each class.
    feature_log_lift_ : dict of str to ndarray of shape (n_categories, n_classes)
        For each feature, the shrunken logarithm of P(class | value) / P(class); 0 is no evidence.
    slope_ : float
        The factor of the sum over features, in [0, 1]. At 0 the tables do not confirm the evidence,
        and the prediction for every user is the most frequent class.
    tables_ : TableSet
        The tables from which the model was learned: ``tables_[feature, "class"]``, with intervals.
    n_samples_seen_ : int
        Number of users.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, in the order of `domains`, if the values seen in `fit` had names.

    See Also
    --------
    LabelDPClassifier : Much more accurate, if the features are public.
    LatentClasses : A model of all columns, whose synthetic rows can train any classifier.

    Notes
    -----
    P(class | value) of a feature has a Student prior on its log odds ratio, with a scale that is
    learned; the noise of the tables is known. Let the evidence of J features have the standard
    deviations :math:`s_j` under the naive model. The sum over features is multiplied by two
    factors. The first is :math:`\\sum s_j^2 / (\\sum s_j^2 + \\rho \\sum_{j \\neq k} s_j s_k)`,
    where :math:`\\rho` is `correlation`: the sum is then calibrated if the terms are normal and
    equally correlated. The second is the fraction of the evidence that the tables confirm, minus a
    third of a standard error. This fraction is computed from an estimate of the gain in log
    likelihood, without the bias from learning on the same tables. The three methods are
    unpublished; the notes on learning have the measurements.

    With fewer than a thousand users and epsilon up to 1, collect the class only, without features.
    Here class frequencies are sums over cells of tables, and are noisier than frequencies from
    users who report only their class. In three collections, this increased the log loss by up to
    0.04.

    References
    ----------
    .. [1] E. Yilmaz, M. Al-Rubaie, J. M. Chang, "Locally differentially private naive Bayes
       classification", 2019, arXiv:1905.01039 (randomizes (feature, class) pairs).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
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
    >>> users = pd.DataFrame({"age": age, "smokes": smokes})
    >>> model.fit(users, ill).predict([[80, True], [30, False]]).tolist()
    ['yes', 'no']

    Clients and a server:

    >>> survey = model.oracle()
    >>> reports = survey.privatize(users.assign(**{"class": ill}))
    >>> model.fit_tables(survey.aggregate(reports).estimate_).n_samples_seen_
    50000
    """

    @property
    def _expected_failed_checks(self) -> dict[str, str]:
        """The scikit-learn checks that this estimator cannot pass, with the reasons."""
        few = {"check_classifiers_train": "at this epsilon, 300 users are too few for its score"}
        weights = "each user has random bits of their own, and bins are learned from rows"
        rows = {"check_sample_weight_equivalence_on_dense_data": weights}
        return rows | few if self.epsilon <= 2 else rows

    _parameter_constraints: dict = {
        "epsilon": [Budget()],
        "correlation": [Interval(Real, 0, 1, closed="both")],
        "random_state": [None, Integral, np.random.RandomState, np.random.Generator],
        "n_jobs": [None, Integral],
    }

    classes_: np.ndarray
    n_features_in_: int
    tables_: TableSet

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        domains: Any = "auto",
        classes: ArrayLike | None = None,
        correlation: float = 0.15,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.domains = domains
        self.classes = classes
        self.correlation = correlation
        self.random_state = random_state
        self.n_jobs = n_jobs

    # -- collecting ---------------------------------------------------------------------------
    def oracle(self) -> MarginalOracle:
        """Return the unfitted oracle that clients and servers use.

        Clients use it to randomize records with the columns of `domains`, followed by "class". All
        tools in :mod:`sklearn_ldp.collection` accept it: files of reports, checkpoints that count
        each batch once, clusters. Pass its estimate to `fit_tables`.

        Returns
        -------
        MarginalOracle
            The oracle for the tables (feature, "class").

        Raises
        ------
        ValueError
            If domains or classes are not declared.
        """
        self._validate_params()
        return self._survey(RecordDomain.declared(self.domains, self._name), self.classes)

    def fit(self, X: Values, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Randomize users' records, and learn the model from the reports.

        Privacy: spends epsilon of each user.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_features)
            One row per user.
        y : array-like of shape (n_samples,)
            The labels of these users.
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
            epsilon is too small for the number of users. The classifier is then unchanged.
        """
        self._validate_params()
        refuse_reports(y, self._name, "use oracle().aggregate and fit_tables")
        X = read_once(X)
        labels = checked_labels(y, self._name)
        features, learned = RecordDomain.of_values(self.domains, X, self._name, _learned)
        if learned:
            warn_of_learned(self._name, learned, "domains", self.random_state)
        if self.classes is None:
            warn_of_learned(self._name, "the classes", "classes", self.random_state)
        survey = self._survey(features, np.unique(labels) if self.classes is None else self.classes)
        columns = columns_of(features, X, self._name)
        check_consistent_length(columns[0], labels)
        self._warn_of_refit(self.random_state)
        try:
            rows = [*columns, labels]
            fitted = survey.__collector__().fit_columns(rows, sample_weight, self._name)
        except ValueError:
            # If a label is unknown, this raises an error about classes instead.
            encoded_labels(survey.domains.columns[_LABEL], labels, self._name)
            raise
        self.fit_tables(fitted.estimate_)
        self._keep_names(X, features.columns)
        return self

    def _survey(self, features: RecordDomain, classes: Any) -> MarginalOracle:
        """Return the unfitted MarginalOracle for the tables of each feature with the label.

        features: the domain of each feature. classes: all possible labels.
        """
        if _LABEL in features.columns:
            raise ValueError(
                f"{self._name}: a feature must not be named {_LABEL!r}, because the label has this "
                "name. Rename the feature."
            )
        if classes is None:
            raise ValueError(
                f"{self._name} needs all classes, because clients and servers must use the same "
                "classes. Pass all labels as classes=."
            )
        label = Domain.of(checked_classes(classes, self._name), self._name)
        return MarginalOracle(
            self.epsilon,
            domains=RecordDomain({**features.columns, _LABEL: label}),
            order=[(key, _LABEL) for key in features.columns],
            method="split",
            column_share=0,
            n_shards=1,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )

    # -- learning -----------------------------------------------------------------------------
    def fit_tables(self, tables: TableSet, target: Any = _LABEL) -> Self:
        """Learn the model from collected tables, at no privacy cost.

        The tables define the features, the classes and the noise. `correlation` is the only
        parameter of the classifier that has an effect.

        Parameters
        ----------
        tables : TableSet
            The raw tables of the fitted `oracle`, or of any other MarginalOracle. Each column that
            has a table together with the target is a feature.
        target : str, default="class"
            The column to predict.

        Returns
        -------
        self : object
            The fitted classifier.

        Raises
        ------
        TypeError
            If `tables` is not a TableSet.
        ValueError
            If no table contains the target, a table is post-processed, no table has users, or the
            noise is too large. The classifier is then unchanged.
        """
        self._validate_params()
        if not isinstance(tables, TableSet):
            raise TypeError(
                f"{self._name}.fit_tables needs the tables that a MarginalOracle estimates, got "
                f"{type(tables).__name__}. Pass oracle.estimate_ of a fitted MarginalOracle."
            )
        columns = dict(tables.domain.columns)
        label = columns.pop(target, None)
        domains = {key: domain for key, domain in columns.items() if (key, target) in tables}
        estimates = {key: tables[key, target] for key in domains if len(tables[key, target])}
        if label is None or not estimates:
            raise ValueError(
                f"{self._name} needs at least one table of a feature and {target!r} about which "
                f"users were asked, but the tables {tables.names} contain no such table. Pass "
                "another target=, or collect such a table."
            )
        if not all(table.is_raw and table.noise is not None for table in estimates.values()):
            raise ValueError(
                f"{self._name} needs the noise of raw tables to shrink its evidence, but some "
                "tables are post-processed. Pass the estimate of a MarginalOracle without "
                "post-processing."
            )
        features = [
            _FeatureTable.of(key, estimate, label.size) for key, estimate in estimates.items()
        ]
        error = float(np.sqrt(min(feature.mean_variance for feature in features)))
        if error > _HOPELESS:
            raise ValueError(
                f"{self._name} needs tables with less noise: each frequency in these tables has a "
                f"standard error of {error:.3g} or more, so they contain no usable information. "
                "Use a larger epsilon, or more users."
            )
        features = _with_equal_class_shares(features)
        noise: Any = next(iter(estimates.values())).noise
        n_users = int(np.max(noise.n_users))
        class_prior = _class_prior(features, n_users)
        # The lift of a feature without users is 0.
        lifts = {key: np.zeros((domain.size, label.size)) for key, domain in domains.items()}
        gains = []
        for feature in features:
            stds = np.sqrt(feature.variances)
            lifts[feature.name], gain = log_lifts(feature.cells, stds, class_prior)
            gains.append(gain)
        calibration = slope(
            [lifts[feature.name] for feature in features],
            [norm_sub(feature.cells.sum(axis=1)) for feature in features],
            self.correlation,
        )
        self.n_samples_seen_: int = n_users
        self.class_prior_: Any = class_prior
        self.feature_log_lift_: dict[Any, Any] = lifts
        self.slope_: float = calibration * confirmed(np.array(gains))
        self.tables_ = tables
        self._features = RecordDomain(domains)
        self.classes_ = np.asarray(label.categories)
        self.n_features_in_ = len(domains)
        self.__dict__.pop("feature_names_in_", None)
        return self

    # -- predictions --------------------------------------------------------------------------
    def predict(self, X: Values) -> np.ndarray:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_features)
            Features, not randomized.

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
            Features, not randomized.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The result, with columns in the order of `classes_`.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Values) -> np.ndarray:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_features)
            Features, not randomized.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The result, with columns in the order of `classes_`.
        """
        return log_softmax(self.predict_joint_log_proba(X), axis=1)

    def predict_joint_log_proba(self, X: Values) -> np.ndarray:
        """Return the score of each class: log P(class) plus the scaled evidence of all features.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_features)
            Features, not randomized.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The scores, which are not normalized to probabilities.
        """
        check_is_fitted(self)
        codes = self._features.encode(read_once(X), self._name)
        evidence = np.zeros((len(codes), len(self.classes_)))
        for column, lift in zip(codes.T, self.feature_log_lift_.values(), strict=True):
            evidence += lift[column]
        return np.log(self.class_prior_) + self.slope_ * evidence


# -- tables -----------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class _FeatureTable:
    """The estimated joint frequencies of one feature and the class, with the noise variances."""

    name: Any
    cells: np.ndarray  # (n_values, n_classes): frequencies, of which some may be negative
    variances: np.ndarray  # (n_values, n_classes): see `_variances`

    @classmethod
    def of(cls, name: Any, estimate: Any, n_classes: int) -> _FeatureTable:
        cells = estimate.values.reshape(-1, n_classes)
        return cls(name, cells, _variances(cells, estimate.noise))

    @property
    def mean_variance(self) -> float:
        return float(self.variances.mean())


def _with_equal_class_shares(features: Sequence[_FeatureTable]) -> list[_FeatureTable]:
    """Adjust the tables by least squares so that all have the same class frequencies."""
    n_classes = features[0].cells.shape[1]
    cells, _ = consistent_tables(
        sizes=[*(len(feature.cells) for feature in features), n_classes],
        columns=[(j, len(features)) for j in range(len(features))],  # the class comes last
        values=[feature.cells.ravel() for feature in features],
        variances=[feature.mean_variance for feature in features],
        non_negative=False,
    )
    return [
        replace(feature, cells=fitted.reshape(-1, n_classes))
        for feature, fitted in zip(features, cells, strict=True)
    ]


def _class_prior(features: Sequence[_FeatureTable], n_users: int) -> np.ndarray:
    """Return the estimated frequency of each class, of shape (n_classes,).

    features: tables that all have the same class frequencies.
    n_users: the number of users of all tables.
    """
    # The minimum of a class frequency is its standard error: the data cannot show that it is
    # smaller.
    precisions = [1 / (len(feature.cells) * feature.mean_variance) for feature in features]
    minimum = max(1 / np.sqrt(sum(precisions)), 1 / (n_users + 1))
    prior = np.maximum(norm_sub(features[0].cells.sum(axis=0)), minimum)
    return prior / prior.sum()


def _learned(column: Any, name: str) -> Domain:
    """Return the domain of a column of a data frame or array.

    It consists of the levels that the column declares, if any. Otherwise it is learned from the
    values: ten bins for numbers, and the categories that occur for other values.
    """
    values = exact_array(column)
    kind = values.dtype.kind
    is_number = kind == "f" or (kind in "iu" and len(np.unique(values)) > _N_BINS)
    if not is_number or declared_levels(column) is not None:
        return Domain.learned(column, name)
    assert_all_finite(values, input_name="X", estimator_name=name)
    return Domain.bins(np.unique(np.quantile(values, np.linspace(0, 1, _N_BINS + 1)[1:-1])))


def _variances(table: np.ndarray, noise: Any) -> np.ndarray:
    """Return the variance of each cell of a table (value, class), of the shape of the table.

    The variances are conditional on the row sums, the frequencies of the values. They are scaled
    up, because the cells sum to 1.
    """
    # The sampling of users changes all cells of a value by the same factor, and not the class
    # shares within the value.
    f = norm_sub(table.ravel()).reshape(table.shape)
    rows = np.maximum(f.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    n_asked = float(np.max(noise.n_samples))
    n_users = float(np.max(noise.n_users))
    variances = noise.variance(f.ravel()).reshape(f.shape)
    variances = variances + f * (1 - f) / n_users - f * (f / rows - f) / n_asked
    return variances * f.size / (f.size - 1)


# -- evidence ---------------------------------------------------------------------------------
# The grid of log odds ratios for integration, and the scales of their prior. The scales are
# averaged with weights by their marginal likelihood. Both grids were chosen by hand. The data that
# were used to choose _DEGREES are not recorded. _CAUTION was chosen on the tables of
# `python -m benchmarks.accuracy.learning --choose FOLDER` and
# `python -m benchmarks.accuracy._weak_models` (November 2026, doc/notes/learning.md).
_LOG_ODDS = np.linspace(-6, 6, 121)
_SCALES = np.geomspace(0.1, 3, 12)
_DEGREES = 3  # of freedom of the prior: most values may have no evidence, and a few strong evidence
_CAUTION = 0.35  # standard errors that are subtracted from the confirmed evidence
_PRIORS = (1 + (_LOG_ODDS / _SCALES[:, None]) ** 2 / _DEGREES) ** (-(_DEGREES + 1) / 2)
_PRIORS /= _PRIORS.sum(axis=1, keepdims=True)


def log_lifts(
    table: np.ndarray, std: np.ndarray | float, class_prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return estimates of log P(class | value) / P(class) for each value of a feature and class.

    The estimates (lifts) are shrunk toward 0 according to the noise of the table.
    Shapes: table (n_values, n_classes), std (n_values, n_classes), class_prior (n_classes,)
    -> (n_values, n_classes), (3,).
    table: estimated joint frequencies; some may be negative.
    std: standard deviations of the cells, > 0.
    Returns: the lifts, and three numbers for the function `confirmed`. They are about the gain in
    log likelihood by the lifts: the expected gain under the posterior, an unbiased estimate of the
    gain from the table, and the variance of this estimate.
    """
    # For a class of probability c, the cell of a value minus c times the sum of its row is
    # .. math:: f(v) \, (P(c \mid v) - c),
    # plus noise of known variance. The log odds ratio of P(c | v) to c has a Student prior
    # around 0. The scale of the prior is learned from all values of the feature: the posterior
    # is averaged over several scales, with weights by their marginal likelihood. The result is
    # the posterior mean. It is near 0 for rare values, and for values dominated by noise.
    # A small multiple of the lifts increases the log likelihood of the classes by the sum of
    # products of lifts and true contrasts. With estimated contrasts this sum is too large, because
    # the lifts depend on the noise of the contrasts. By Stein's lemma, the bias is the sum of the
    # posterior covariances of log odds and expected contrasts, times 1 - c (the posterior includes
    # the scale). The variance includes these terms as well.
    n_classes = len(class_prior)
    rows = table.sum(axis=1)
    variances = np.broadcast_to(np.square(std), table.shape)
    # The minimum of the frequency of a value is its standard error.
    frequencies = np.maximum(norm_sub(rows), np.sqrt(variances.mean(axis=1)))
    frequencies /= frequencies.sum()
    contrasts = table - rows[:, None] * class_prior
    # All tables have the same class shares, so the noise of a class sums to 0 over all values.
    constrained = 1 - 1 / len(table)
    other_variances = variances.sum(axis=1, keepdims=True) - variances
    contrast_variances = (1 - class_prior) ** 2 * variances + class_prior**2 * other_variances
    stds = np.sqrt(constrained * contrast_variances)
    likelihoods = []
    evidence = np.zeros(len(_SCALES))
    expected = expit(logit(class_prior)[:, None] + _LOG_ODDS) - class_prior[:, None]
    for c in range(n_classes):
        distance = (contrasts[:, [c]] - frequencies[:, None] * expected[c]) / stds[:, [c]]
        log_likelihood = -0.5 * distance**2
        likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
        likelihoods.append(likelihood)
        evidence += np.log(likelihood @ _PRIORS.T).sum(axis=0)
    # The contrasts of a value sum to 0, and the contrasts of a class sum to 0. One contrast of each
    # is therefore redundant.
    evidence *= constrained * (n_classes - 1) / n_classes
    shares = softmax(evidence)
    log_odds = np.zeros(table.shape)
    covariances = np.zeros(table.shape)
    for c, likelihood in enumerate(likelihoods):
        mean_log_odds, mean_contrasts, mean_products = (
            (likelihood @ (_PRIORS * values).T) / (likelihood @ _PRIORS.T) @ shares
            for values in (_LOG_ODDS, expected[c], _LOG_ODDS * expected[c])
        )
        log_odds[:, c] = mean_log_odds
        covariances[:, c] = mean_products - mean_log_odds * mean_contrasts
    posterior = expit(logit(class_prior) + log_odds)
    posterior /= posterior.sum(axis=1, keepdims=True)
    lifts = np.log(posterior / class_prior)
    expected_gain = frequencies @ ((posterior - class_prior) * lifts).sum(axis=1)
    biases = frequencies[:, None] * covariances * (1 - class_prior)
    centered = lifts - (lifts @ class_prior)[:, None]
    variance = np.sum((std * (centered - centered.mean(axis=0))) ** 2) + np.sum(biases**2)
    estimated_gain = np.sum(contrasts * lifts) - np.sum(biases)
    return lifts, np.array([expected_gain, estimated_gain, variance])


def confirmed(gains: np.ndarray) -> float:
    """Return the fraction of the evidence of all features that the tables confirm.

    Shapes: gains (n_features, 3).
    gains: for each feature, the expected gain in log likelihood, the estimated gain, and the
    variance of the estimate (see `log_lifts`).
    Returns: the estimated gain minus 0.35 standard errors, divided by the expected gain, and
    clipped to [0, 1]. The gains are summed over features. Before, the estimated gain of a feature
    is limited to its expected gain, so that one feature cannot compensate for others.
    """
    expected, estimated, variances = gains.T
    confirmed = np.minimum(estimated, expected).sum() - _CAUTION * np.sqrt(variances.sum())
    return float(np.clip(confirmed / max(expected.sum(), 1e-300), 0, 1))


def slope(
    lifts: Sequence[np.ndarray], frequencies: Sequence[np.ndarray], correlation: float
) -> float:
    """Return the factor that calibrates the sum of the evidence of correlated features.

    lifts: for each feature, the evidence log P(class | value) / P(class), of shape (n_values,
    n_classes). frequencies: for each feature, the frequencies of its values, of shape (n_values,).
    correlation: the mean correlation of the evidence of two features.
    """
    # Naive Bayes adds up log odds as if features were independent within a class. Assume that the
    # terms are normal, with variances `s_j^2` within a class. Then the sum of independent terms
    # differs by `sum s_j^2` between two classes, like log odds of normal distributions. If the
    # terms are correlated, the variance is larger, and the calibrated log odds are the sum times
    # .. math:: \frac{\sum_j s_j^2}{\sum_j s_j^2 + \rho \sum_{j \neq k} s_j s_k}.
    pairs = zip(lifts, frequencies, strict=True)
    stds = [np.sqrt(np.mean(shares @ (lift - shares @ lift) ** 2)) for lift, shares in pairs]
    squares = float(np.sum(np.square(stds)))
    total = float(np.sum(stds))
    if not squares:
        return 1.0
    return squares / (squares + correlation * (total**2 - squares))
