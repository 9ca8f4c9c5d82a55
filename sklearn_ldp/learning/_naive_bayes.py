"""Naive Bayes from private tables of (feature, class): one randomised report of each user."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_softmax, logit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from .._core.domains import Domain, RecordDomain
from .._core.domains.values import (
    declared_levels,
    exact_array,
    read_once,
    refuse_reports,
)
from .._core.lifecycle import Budget
from .._core.numerics.simplex import norm_sub
from .._core.support.privacy import warn_of_learned
from .._core.support.random import RandomState
from .._core.support.typing import Values
from ..surveys import MarginalOracle, TableSet, consistent_tables
from ._label_channel import checked_classes, checked_labels, encoded_labels
from ._private_columns import ReadsColumns

_LABEL = "class"
# Chosen by hand, not measured.
_N_BINS = 10  # of a number whose domain is learnt
_HOPELESS = 10.0  # standard error of a frequency above which a fit is refused


class LDPNaiveBayes(ReadsColumns, ClassifierMixin, BaseEstimator):
    """Naive Bayes classifier from private records: each user sends one report, at the full epsilon.

    Features and labels are all private. Each user draws one of the features by public
    probabilities, and reports their value of it together with their class, as one category of a
    :class:`~sklearn_ldp.MarginalOracle` whose tables are (feature, class). From these tables come
    P(class), pooled over all of them, and how much each value of a feature speaks for each class.
    The latter is shrunk by the noise level, such that values that noise swamps say nothing; and the
    sum over features is scaled down, as features say the same things again and again.

    `fit` collects and learns at once. In a deployment, clients and servers use the oracle that
    `oracle` returns, with its files, checkpoints and merges; `fit_tables` learns from the tables
    that it has collected, and from those of any other MarginalOracle that asked for the class
    together with each feature.

    Privacy: one `fit` spends epsilon of each user, for their whole record; `fit_tables` is free.
    The model can be published. Predictions read features in the clear: send the model to the user,
    who predicts on their own device.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one report, > 0.
    domains : "auto" or mapping of str to categories, default="auto"
        The public domain of each feature: anything that :class:`~sklearn_ldp.Domain` takes, such as
        ``Domain.bins([20, 40, 60])`` for a number. Few, coarse categories that were chosen with
        care help more than anything else. "auto", which columns that a mapping leaves out have,
        means the levels that a column of a data frame declares; otherwise `fit` learns categories,
        or ten bins of a number, from the raw values, which is for simulations only.
    classes : array-like of shape (n_classes,), default=None
        All labels that there are. None learns them from the labels in `fit`, which is for
        simulations.
    correlation : float, default=0.15
        How much two features' evidence is correlated within a class, on average, from 0 (naive
        Bayes as it is known) to 1 (all features say the same). The default was chosen on tables of
        diamonds, flights, incomes and patients (``benchmarks/accuracy/learning.py``).
    random_state : int, RandomState, Generator or None, default=None
        None draws every coin from a secure source. Anything else makes
        reports predictable, and is for simulations.
    n_jobs : int, default=None
        Number of threads that work on chunks of users; it does not change the result.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted if they were declared in `classes`.
    class_prior_ : ndarray of shape (n_classes,)
        Estimated P(class).
    feature_log_lift_ : dict of str to ndarray of shape (n_categories, n_classes)
        Logarithm of P(class | value) / P(class) of each feature, shrunk; 0 is no evidence.
    slope_ : float
        The factor of the sum over features, in [0, 1]; 0 where the tables do not bear out their
        evidence: predictions are then the most probable class, for everyone.
    tables_ : TableSet
        What it has learnt from: ``tables_[feature, "class"]``, with intervals.
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
    `correlation`: what makes it calibrated if the terms are normal and equally correlated; and by
    the share of the evidence that the tables bear out, less a third of a standard error: an
    estimate of the log likelihood that it adds, without the bias of being learnt from the same
    tables. All are unpublished; the notes on learning have the measurements.

    Of fewer than a thousand people, up to epsilon 1, ask for the class alone: the shares of the
    classes, which are sums over cells of tables, are noisier than those of users who report their
    class only, by up to 0.04 of log loss in three collections (notes on weak data).

    References
    ----------
    .. [1] E. Yilmaz, M. Al-Rubaie, J. M. Chang, "Locally differentially private naive Bayes
       classification", 2019, arXiv:1905.01039 (randomises (feature, class) pairs).

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
        """Checks of scikit-learn's that it cannot pass, and why."""
        few = {"check_classifiers_train": "its 300 users do not tell the classes at this epsilon"}
        weights = "each user draws coins of their own, and bins are learnt from rows"
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
        """Return the oracle that clients and servers agree on, without users.

        Clients randomise records with it, whose columns are those of `domains` and then "class".
        Everything in :mod:`sklearn_ldp.collection` takes it: files of reports, checkpoints that
        count each batch once, clusters. `fit_tables` takes what it has estimated in the end.

        Returns
        -------
        MarginalOracle
            Its tables are (feature, "class").

        Raises
        ------
        ValueError
            If domains or classes are not declared.
        """
        self._validate_params()
        return self._survey(RecordDomain.declared(self.domains, self._name), self.classes)

    def fit(self, X: Values, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Randomise users' records, and learn the model from the reports.

        Privacy: spends epsilon of each user.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_features)
            One row per user.
        y : array-like of shape (n_samples,)
            Their labels.
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
        self._validate_params()
        refuse_reports(y, self._name, "use oracle().aggregate and fit_tables")
        X, labels = read_once(X), checked_labels(y, self._name)
        features, learned = RecordDomain.of_values(self.domains, X, self._name, _learned)
        if learned:
            warn_of_learned(self._name, learned, "domains", self.random_state)
        if self.classes is None:
            warn_of_learned(self._name, "the classes", "classes", self.random_state)
        survey = self._survey(features, np.unique(labels) if self.classes is None else self.classes)
        columns = features.columns_of(X, self._name)
        check_consistent_length(columns[0], labels)
        self._warn_of_refit(self.random_state)
        try:
            rows = [*columns, labels]
            fitted = survey.__collector__().fit_columns(rows, sample_weight, self._name)
        except ValueError:
            # If it is a label that is unknown, this says so in terms of the classes.
            encoded_labels(survey.domains.columns[_LABEL], labels, self._name)
            raise
        self.fit_tables(fitted.estimate_)
        self._keep_names(X, features.columns)
        return self

    def _survey(self, features: RecordDomain, classes: Any) -> MarginalOracle:
        """The oracle of features and label, without users."""
        if _LABEL in features.columns:
            raise ValueError(
                f"{self._name} needs another name for the feature {_LABEL!r}: labels have this one."
            )
        if classes is None:
            raise ValueError(f"{self._name} does not know its classes: declare them in classes=.")
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
        """Learn the model from tables that have been collected, at no privacy cost.

        The features, the classes and the noise are those of the tables. Of the parameters only
        `correlation` matters.

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
            If `tables` is no TableSet.
        ValueError
            If no table has the target, a table is post-processed or has no users at all, or the
            noise leaves no signal; the classifier then stays unchanged.
        """
        self._validate_params()
        if not isinstance(tables, TableSet):
            raise TypeError(
                f"{self._name}.fit_tables needs the tables that a MarginalOracle estimates, such "
                f"as oracle.estimate_, got {type(tables).__name__}."
            )
        domains = dict(tables.domain.columns)
        classes = domains.pop(target, None)
        domains = {key: one for key, one in domains.items() if (key, target) in tables}
        found = {key: tables[key, target] for key in domains if len(tables[key, target])}
        if classes is None or not found:
            what = f"tables of features together with {target!r}, of users who were asked"
            raise ValueError(f"{self._name} needs {what}, and there is none in {tables.names}.")
        if not all(table.is_raw and table.noise is not None for table in found.values()):
            raise ValueError(
                f"{self._name} needs the noise of raw tables: pass what a MarginalOracle estimates."
            )
        shape = (-1, classes.size)
        of_cells = [_variances(one.values.reshape(shape), one.noise) for one in found.values()]
        variances = [float(one.mean()) for one in of_cells]
        error = float(np.sqrt(min(variances)))
        if error > _HOPELESS:
            raise ValueError(
                f"{self._name} needs a larger epsilon than that of these reports, or more users: "
                f"each frequency has a standard error of {error:.3g} or more, which is no signal."
            )
        # All tables have the classes in common: least squares makes them agree on these.
        sizes = [*(domains[key].size for key in found), classes.size]
        pairs = [(j, len(found)) for j in range(len(found))]
        values = [table.values[0] for table in found.values()]
        agreed, _ = consistent_tables(sizes, pairs, values, variances, non_negative=False)
        cells = [table.reshape(shape) for table in agreed]
        noise: Any = next(iter(found.values())).noise
        self.n_samples_seen_: int = int(np.max(noise.n_users))
        stds = [np.sqrt(one) for one in of_cells]
        # A class is not taken to be rarer than what can be told from 0.
        precisions = [1 / (len(one) * v) for one, v in zip(cells, variances, strict=True)]
        least = max(1 / np.sqrt(sum(precisions)), 1 / (self.n_samples_seen_ + 1))
        prior = np.maximum(norm_sub(cells[0].sum(axis=0)), least)
        self.class_prior_: Any = prior / prior.sum()
        evidence = [log_lifts(*one, self.class_prior_) for one in zip(cells, stds, strict=True)]
        lifts, gains = zip(*evidence, strict=True)
        nothing = {key: np.zeros((one.size, classes.size)) for key, one in domains.items()}
        self.feature_log_lift_: dict[Any, Any] = {**nothing, **dict(zip(found, lifts, strict=True))}
        shares = [norm_sub(one.sum(axis=1)) for one in cells]
        self.slope_: float = slope(lifts, shares, self.correlation) * confirmed(np.array(gains))
        self.tables_, self._features = tables, RecordDomain(domains)
        self.classes_, self.n_features_in_ = np.asarray(classes.categories), len(domains)
        self.__dict__.pop("feature_names_in_", None)
        return self

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
        check_is_fitted(self)
        codes = self._features.encode(read_once(X), self._name)
        evidence = np.zeros((len(codes), len(self.classes_)))
        for column, lift in zip(codes.T, self.feature_log_lift_.values(), strict=True):
            evidence += lift[column]
        return np.log(self.class_prior_) + self.slope_ * evidence


def _learned(column: Any, name: str) -> Domain:
    """Return a domain that is learnt from raw values: levels, categories, or bins of a number."""
    values = exact_array(column)
    kind = values.dtype.kind
    is_number = kind == "f" or (kind in "iu" and len(np.unique(values)) > _N_BINS)
    if not is_number or declared_levels(column) is not None:
        return Domain.learned(column, name)
    assert_all_finite(values, input_name="X", estimator_name=name)
    return Domain.bins(np.unique(np.quantile(values, np.linspace(0, 1, _N_BINS + 1)[1:-1])))


def _variances(table: np.ndarray, noise: Any) -> np.ndarray:
    """The variances of cells, given their rows, as if they were independent: they sum to 1."""
    # Which users were drawn moves the cells of a value together, and not the classes within it.
    f = norm_sub(table.ravel()).reshape(table.shape)
    rows = np.maximum(f.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    drawn, total = (float(np.max(of)) for of in (noise.n_samples, noise.n_users))
    variances = noise.variance(f.ravel()).reshape(f.shape)
    variances = variances + f * (1 - f) / total - f * (f / rows - f) / drawn
    return variances * f.size / (f.size - 1)


# -- evidence ---------------------------------------------------------------------------------
# Log odds ratios that are integrated over, and scales of their prior that are averaged by evidence:
# the grids are by hand, and what _DEGREES was chosen on is not recorded. _CAUTION was chosen on the
# tables that `python -m benchmarks.accuracy.learning --choose FOLDER` and
# `python -m benchmarks.accuracy._weak_models` read (November 2026, doc/notes/learning.md).
_LOG_ODDS = np.linspace(-6, 6, 121)
_SCALES = np.geomspace(0.1, 3, 12)
_DEGREES = 3  # of freedom of the prior: a few values may speak loudly where most are silent
_CAUTION = 0.35  # standard errors that are taken off the evidence that tables show
_PRIORS = (1 + (_LOG_ODDS / _SCALES[:, None]) ** 2 / _DEGREES) ** (-(_DEGREES + 1) / 2)
_PRIORS /= _PRIORS.sum(axis=1, keepdims=True)


def log_lifts(
    table: np.ndarray, std: np.ndarray | float, class_prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithm of P(class | value) / P(class), shrunk by the noise of the table.

    Shapes: table (n_values, n_classes), std (n_values, n_classes), class_prior (n_classes,)
    -> (n_values, n_classes).
    table: estimated joint frequencies; some may be negative.
    std: standard deviations of the cells, > 0.
    Also what the lifts add to the log likelihood: as they expect it, as the table says without
    bias, and the variance of the latter. These are the columns of `gains` in `confirmed`.
    """
    # For a class of probability c, the cell of a value minus c times the sum of its row is
    # .. math:: f(v) \, (P(c \mid v) - c),
    # plus noise of known variance. The log odds ratio of P(c | v) to c has a Student prior
    # around 0, whose scale is learnt from all values of the feature: averaged over by the
    # evidence for each of them. The result is the posterior mean. A rare value, or one that
    # noise swamps, says nothing.
    # What a little of the lifts adds to the log likelihood of the classes is the sum of their
    # products with the true contrasts. With the estimated ones it is too large, since lifts
    # follow their noise: by the sum of the posterior covariances of log odds and expected
    # contrasts, times 1 - c (Stein's lemma; the scale is part of the posterior). The variance
    # has these terms, too.
    n_classes = len(class_prior)
    rows, variances = table.sum(axis=1), np.broadcast_to(np.square(std), table.shape)
    # The frequency of a value is not taken to be smaller than what can be told from 0.
    frequencies = np.maximum(norm_sub(rows), np.sqrt(variances.mean(axis=1)))
    frequencies /= frequencies.sum()
    contrasts = table - rows[:, None] * class_prior
    # Tables agree on the classes: over all values the noise of a class sums to 0, too.
    of_values = 1 - 1 / len(table)
    of_others = variances.sum(axis=1, keepdims=True) - variances
    stds = np.sqrt(of_values * ((1 - class_prior) ** 2 * variances + class_prior**2 * of_others))
    likelihoods, evidence = [], np.zeros(len(_SCALES))
    expected = expit(logit(class_prior)[:, None] + _LOG_ODDS) - class_prior[:, None]
    for c in range(n_classes):
        distance = (contrasts[:, [c]] - frequencies[:, None] * expected[c]) / stds[:, [c]]
        log_likelihood = -0.5 * distance**2
        likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
        likelihoods.append(likelihood)
        evidence += np.log(likelihood @ _PRIORS.T).sum(axis=0)
    # The contrasts of a value sum to 0, and so do those of a class: one of each tells nothing new.
    evidence *= of_values * (n_classes - 1) / n_classes
    shares = softmax(evidence)
    log_odds, moved = np.zeros((2, *table.shape))
    for c, likelihood in enumerate(likelihoods):
        means, of_contrasts, products = (
            (likelihood @ (_PRIORS * of).T) / (likelihood @ _PRIORS.T) @ shares
            for of in (_LOG_ODDS, expected[c], _LOG_ODDS * expected[c])
        )
        log_odds[:, c] = means
        moved[:, c] = products - means * of_contrasts
    posterior = expit(logit(class_prior) + log_odds)
    posterior /= posterior.sum(axis=1, keepdims=True)
    lifts = np.log(posterior / class_prior)
    hoped = frequencies @ ((posterior - class_prior) * lifts).sum(axis=1)
    biases = frequencies[:, None] * moved * (1 - class_prior)
    centred = lifts - (lifts @ class_prior)[:, None]
    variance = np.sum((std * (centred - centred.mean(axis=0))) ** 2) + np.sum(biases**2)
    return lifts, np.array([hoped, np.sum(contrasts * lifts) - np.sum(biases), variance])


def confirmed(gains: np.ndarray) -> float:
    """Return how much of the evidence tables bear out, all features together.

    Shapes: gains (n_features, 3).
    Returns: the ratio of what was found, less a part of its standard error, to what was
    expected; in [0, 1]. A feature counts with no more than it expects, so that none speaks
    for the others.
    """
    hoped, found, variances = gains.T
    confirmed = np.minimum(found, hoped).sum() - _CAUTION * np.sqrt(variances.sum())
    return float(np.clip(confirmed / max(hoped.sum(), 1e-300), 0, 1))


def slope(
    lifts: Sequence[np.ndarray], frequencies: Sequence[np.ndarray], correlation: float
) -> float:
    """Return the factor that makes the sum of the features' log odds calibrated.

    Shapes: lifts (n_values, n_classes), frequencies (n_values,).
    """
    # Naive Bayes adds up log odds as if features were independent within a class. Say that the
    # sum of independent terms with variances `s_j^2` within a class also has a difference of
    # `sum s_j^2` between two classes, as log odds of a normal distribution have, and that the
    # terms are correlated with each other in truth. Then the variance is larger, and the
    # calibrated log odds are the sum times
    # .. math:: \frac{\sum_j s_j^2}{\sum_j s_j^2 + \rho \sum_{j \neq k} s_j s_k}.
    pairs = zip(lifts, frequencies, strict=True)
    stds = [np.sqrt(np.mean(shares @ (lift - shares @ lift) ** 2)) for lift, shares in pairs]
    squares, total = float(np.sum(np.square(stds))), float(np.sum(stds))
    if not squares:
        return 1.0
    return squares / (squares + correlation * (total**2 - squares))
