"""Classifiers that learn from labels which users have randomized."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import expit, rel_entr, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .._core.common.parallel import each_warning_once
from .._core.common.privacy import warn_of_epsilon, warn_of_learned, warn_once
from .._core.common.progress import Progress
from .._core.common.random import RandomState
from .._core.domains.values import refuse_reports
from .._core.mechanisms.protocol import reports_of
from ._corrected_models import minimized
from ._label_channel import (
    LabelChannel,
    OracleChannel,
    chance_of_frequencies,
    checked_classes,
    checked_labels,
    checked_reports,
    is_attached,
    refuse_frequencies,
    steps_to_last,
)
from ._label_learner import LabelLearner
from ._label_scores import groups_of_predictions, make_label_dp_scorer

# The constants of model averaging were chosen in November 2026 on the data of `python -m
# benchmarks.accuracy._weak_labels --tuned`. The constants for trees and other classifiers (_FEW,
# _POWERS, _SHARES_AS_THEY_ARE) were chosen on five of these data sets, among about 50 variants
# (doc/notes/weak_data.md). Only _BETTER was measured separately.
_N_FOLDS = 5  # of the held-out reports that evaluate candidates
_N_FOLDS_OF_FEW, _FEW = 10, 1000  # a tree that learns from 4 of 5 of few people differs too much
_SHARES_OF_C = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 1e2, 1e3, 1e4)
_UP_TO_C = 5  # the first five of these are always tried, larger values only if the data need them
# Beyond C, the next candidate is tried if the last one is the best so far, and exceeds the previous
# candidate by this number of standard errors. With 0, 2, 3 and 4 standard errors, the mean log loss
# at C=1 differs from a rule that stops at C by +.028, -.002, -.001 and -.001, and at C=0.02 by
# -.037, -.057, -.051 and -.040. The maximum loss of a setting is .671, .078, .020 and 0 (nine data
# sets, four epsilons and three seeds of `benchmarks.accuracy._weak_labels --tuned`; about 34 rules
# were compared in November 2026).
_BETTER = 3.0
_POWERS = (0.25, 0.5, 1, 2, 3, 4)  # of the ratio of a classifier's probabilities to the constant's
_SHARES_OF_MODEL = (1 / 32, 1 / 16, 0.125, 0.25, 0.5, 1)  # before a correction
_SHARES_AS_THEY_ARE = (0.25, 0.5, 0.75, 0.95, 1)  # without a correction
_LEAST_WEIGHT = 1e-4  # candidates with a smaller weight are skipped
_CAUTION = 0.5  # standard errors that are subtracted from a gain
_BY_CHANCE = 1e-6  # if reports agree with predictions with less probability, they are true labels
_TRUST_IN_C = 0.25  # the weight of a nat

# Loss of each row and its derivative with respect to the row's scores, of shape (n, n_scores). Two
# classes have one score (the log odds of the second class), more classes have one score per class.
Objective = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def _has(method: str) -> Any:
    """Return a function that checks whether the trained estimator of a classifier has a method."""

    def check(self: LabelDPClassifier) -> bool:
        getattr(getattr(self, "estimator_", self._base()), method)
        # Scores of outputs need not increase with the probability of a class.
        is_about_outputs = self.oracle is not None and self._correction() == "probabilities"
        if method == "decision_function" and is_about_outputs:
            raise AttributeError(f"{self._name}(oracle=..) of this classifier has no {method}")
        return True

    return check


class LabelDPClassifier(ClassifierMixin, LabelLearner):
    """Train a classifier on labels that users have randomized, and correct the bias of the noise.

    The features are public, or the server has them. The label is a secret of the user, who sends
    the true class with probability p, and each other class with probability q (randomized response,
    the exact mechanism of :class:`~sklearn_ldp.GRR`). A classifier that is trained on such labels
    without a correction has the right ranking, but its probabilities are far too close to each
    other. With many classes, a report may be a set of classes (`subset_size`). Two corrections are
    available:

    - "likelihood": the maximum likelihood of the reports under the logistic model, with the penalty
      of the LogisticRegression. The objective is not convex; the optimizer starts from zero
      coefficients.
    - "probabilities": for any classifier. It is fitted to the reports, and its probabilities P' are
      mapped to probabilities of the true labels, ``(P' - q) / (p - q)``, or with an `oracle` by the
      left inverse of its channel matrix.

    Both overfit with few reports or many features, because they fit the noise of the reports.
    Therefore "auto" averages the corrected model with *the constant* (a baseline that predicts the
    same class frequencies for all rows, estimated from the same reports), and with models between
    the two. Held-out reports
    determine the weights (`weights_`). With many reports all weight is on the best model, with few
    reports on the constant.

    Privacy: one `fit` or `privatize` on values spends epsilon of each user, for the user's label.
    Everything computed from reports (``input="reports"``) is free, and so are predictions. The
    features are not protected. A search with ``input="values"`` randomizes the labels again in each
    of its fits, which is for simulations. With real users, randomize the labels once, and search
    with ``input="reports"``.

    Parameters
    ----------
    estimator : classifier, default=None
        The classifier to train: a :class:`~sklearn.linear_model.LogisticRegression`, a Pipeline
        that ends with one, or any other classifier. If None, ``LogisticRegression()``.
    epsilon : float, default=1.0
        Privacy budget of a label, > 0.
    classes : array-like of shape (n_classes,), default=None
        All possible labels. Clients and servers must use the same classes, because the noise
        depends on their number. If None, `fit` learns the classes from the labels, which is for
        simulations.
    correction : {"auto", "likelihood", "probabilities"}, default="auto"
        The correction. "likelihood" is for logistic regression with an L2 penalty. "auto" averages
        several candidates. For logistic regression with an L2 penalty, the candidates are the
        constant (all coefficients are 0) and "likelihood" fits with values from `C` / 10,000 to
        `C`. Larger values, up to 10,000 `C`, are tried as long as the largest value so far is the
        best on held-out reports. For other classifiers, the candidates are the constant,
        "probabilities", the uncorrected probabilities, mixtures of these, and powers of the ratio
        of the classifier's probabilities to the constant's probabilities. "auto" fits the
        classifier six times, and eleven times if there are fewer than 1,000 reports.
    subset_size : int or "auto", default=1
        Number of classes in a report. Clients and servers must use the same value. "auto" chooses
        the number from epsilon and the number of classes, and reduces the noise from about ten
        classes on if epsilon is small. A report is then a set of classes, which contains the true
        class more often than by chance (the rule of :class:`~sklearn_ldp.SubsetSelection`). Sets
        require logistic regression with the correction "auto" or "likelihood".
    oracle : MatrixOracle or oracle of a ResponseDesign, default=None
        The oracle that randomizes the labels, such as
        ``ResponseDesign.unrelated(0.7, 0.4).oracle()``. It determines the classes and the privacy
        budget, so `epsilon` has no effect. A report is the index of one of its outputs.
    input : {"values", "reports"}, default="values"
        Whether the `y` of `fit` contains true labels, which `fit` randomizes, or reports.
    random_state : int, RandomState, Generator or None, default=None
        If None, the random bits of the labels come from a secure source. Any other value makes
        reports predictable, and is for simulations. It does not seed `estimator`.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier. If `weights_` has the key "probabilities", this classifier predicts
        *reported* labels. Otherwise it is a LogisticRegression (or a Pipeline) that predicts true
        labels, and you can use it without this object.
    correction_ : {"likelihood", "probabilities", "constant"}
        The correction with the largest weight. If it is "constant", `fit` issues a warning.
    weights_ : dict
        The weight of each averaged candidate. The keys are "constant", and either the values of `C`
        or "probabilities".
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_features_in_ : int
        Number of features, if the fitted classifier has this attribute.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if they have names.

    See Also
    --------
    make_label_dp_scorer : Scores the classifier on randomized labels.
    LDPNaiveBayes : For features that are private as well.
    sklearn_ldp.surveys.ResponseDesign : Survey designs that randomize the labels.

    Notes
    -----
    ``correction="probabilities"`` does not change which class is the most probable, because the
    correction is an increasing function, the same for all classes. So the accuracy hardly
    changes, but probabilities, thresholds, costs and calibration change. If the constant has a
    weight, the most probable class moves towards the most frequent class.

    Candidates are compared by the likelihood of held-out reports. If a penalty gains G nats over
    the constant, with standard error S, its weight is proportional to exp((G - S / 2) / 4). The
    weight of a candidate between a classifier and the constant is proportional to
    exp(G - D (1 - s)^2 / s^2), where s = p - q and D is its mean Kullback-Leibler divergence from
    the constant. Neither rule is a theorem. Overconfident
    probabilities hardly change the likelihood of reports, but they increase the true log loss much.
    These rules had the smallest true log loss on trial data.

    "auto" adds a few artificial rows with the mean features and known labels, the same number for
    each class, so that every class keeps a positive probability. The number is estimated from the
    reports: it is large if the class shares do not differ by more than their noise, and it vanishes
    as epsilon grows.

    `score` is the accuracy. Like `fit`, it reads true labels; with ``input="reports"`` it reads
    reports, and computes the unbiased accuracy of :func:`label_dp_score`. So searches over reports
    need no `scoring`. A scorer of scikit-learn, such as ``scoring="accuracy"``, interprets reports
    as true labels without a warning, and its scores are too small. Use ``scoring=None`` or
    :func:`make_label_dp_scorer` instead.

    Reports that `privatize` returned are refused if their epsilon, classes or subset_size differ.
    Plain arrays, for example from a file, have no protocol. They are refused only if the frequency
    of a report is impossible for epsilon. So true labels can pass as reports.

    The fit uses `C`, `fit_intercept`, `tol` and `max_iter` of a LogisticRegression, and ignores
    `solver` and its options; `verbose` shows the progress of "auto". A report contains less
    information than a label, so a `C` that suits labels penalizes too much: "auto" also tries
    larger values, but "likelihood" uses `C` unchanged. `class_weight` raises an error, because the
    weights would belong to the true classes, which are secret; change the threshold on the
    probabilities instead.

    References
    ----------
    .. [1] S. L. Warner, "Randomized response: a survey technique for eliminating evasive answer
       bias", Journal of the American Statistical Association 60, 1965,
       :doi:`10.1080/01621459.1965.10480775`.
    .. [2] G. Patrini, A. Rozza, A. K. Menon, R. Nock, L. Qu, "Making deep neural networks robust
       to label noise: a loss correction approach", CVPR 2017, :doi:`10.1109/CVPR.2017.240`
       ("likelihood" is its forward correction).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_ldp.learning import LabelDPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = np.where(X[:, 0] + rng.logistic(size=20_000) > 0, "yes", "no")
    >>> model = LabelDPClassifier(
    ...     LogisticRegression(), epsilon=1.0, classes=["no", "yes"], random_state=0
    ... )
    >>> model.fit(X, y).predict_proba([[2.0, 0.0]]).round(1)
    array([[0.1, 0.9]])

    Clients randomize their labels once, and a server learns from the reports:

    >>> reports = model.privatize(y)
    >>> server = LabelDPClassifier(epsilon=1.0, classes=["no", "yes"], input="reports")
    >>> server.fit(X, reports).predict([[2.0, 0.0]]).tolist()
    ['yes']
    """

    _parameter_constraints: dict = {
        **LabelLearner._parameter_constraints,
        "correction": [StrOptions({"auto", "likelihood", "probabilities"})],
        "subset_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "oracle": [None, HasMethods(["protocol", "privatize"])],
    }

    classes_: np.ndarray
    estimator_: Any

    def __init__(
        self,
        estimator: Any = None,
        epsilon: float = 1.0,
        *,
        classes: ArrayLike | None = None,
        correction: str = "auto",
        subset_size: int | str = 1,
        oracle: Any = None,
        input: str = "values",
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.classes = classes
        self.correction = correction
        self.subset_size = subset_size
        self.oracle = oracle
        self.input = input
        self.random_state = random_state

    # -- client side --------------------------------------------------------------------------
    def privatize(self, y: ArrayLike) -> np.ndarray:
        """Randomize users' labels into reports on the client; no fit is needed.

        Privacy: each call spends epsilon of every user in `y`. Only ``random_state=None`` protects
        the users.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            One label per user.

        Returns
        -------
        Reports of shape (n_samples,) or (n_samples, subset_size)
            The reports: a label for each user, or a row of labels if `subset_size` is not 1. The
            array also contains the protocol (:class:`~sklearn_ldp.collection.Reports`).

        Raises
        ------
        ValueError
            If a label is not one of the classes, or the classes are not declared.
        """
        self._validate_params()
        if self.classes is None and self.oracle is None and not hasattr(self, "classes_"):
            raise ValueError(
                f"{self._name}.privatize needs all possible classes, because the noise depends on "
                "their number. Pass all labels as classes=."
            )
        channel, codes = self._encoded(y)
        warn_of_epsilon(self._name, channel.epsilon, self.random_state)
        return reports_of(channel.privatize(codes, self.random_state), channel.protocol)

    def _privatize_held_out(self, y: ArrayLike) -> np.ndarray:
        """Randomize the labels of held-out users, so that a scorer can use the reports.

        The random bits differ from the random bits of `fit`, and between the folds of a search.
        """
        channel, codes = self._encoded(y)
        state = self.random_state
        if isinstance(state, Integral):
            state = np.random.default_rng([int(state), crc32(codes.astype(np.int64).tobytes())])
        return reports_of(channel.privatize(codes, state), channel.protocol)

    # -- server side --------------------------------------------------------------------------
    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> Self:
        """Train on true labels, which this method randomizes first, or on reports.

        Privacy: spends epsilon of each user if `y` contains labels; nothing if it contains reports.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, in a form that the classifier accepts.
        y : array-like of shape (n_samples,) or (n_samples, subset_size)
            Labels; or, with ``input="reports"``, the reports that `privatize` returned.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row, which must not depend on the true labels.
        **fit_params : dict
            Passed to the classifier by scikit-learn's metadata routing.

        Returns
        -------
        self : object
            The fitted classifier.

        Raises
        ------
        ValueError
            If a label is not one of the classes, there is only one class, reports are of another
            protocol or have impossible frequencies, epsilon is too small for the number of reports,
            or the correction does not support the classifier.
        """
        self._validate_params()
        if is_regressor(self._base()):
            raise ValueError(
                f"{self._name} trains classifiers, got the regressor {self._base()!r}. Use "
                "LogisticRegression() or another classifier, or LabelDPRegressor."
            )
        channel, codes = self._encoded(y, learn=True, is_reported=self.input == "reports")
        routed = self._routed(sample_weight, fit_params)
        error = channel.error_of_rates(len(codes))
        if error > 1:
            raise ValueError(
                f"{self._name} needs a larger epsilon than {channel.epsilon:g}, or more than "
                f"{len(codes)} users: the standard error of the frequency of a class is "
                f"{error:.3g}, so the reports contain no usable information."
            )
        reports = channel.reports(codes)
        if self.input == "reports":
            refuse_frequencies(y, codes, channel.limits, sample_weight, self._name)
        else:
            if self.classes is None and self.oracle is None:
                warn_of_learned(self._name, "the classes", "classes", self.random_state)
            warn_of_epsilon(self._name, channel.epsilon, self.random_state)
            self._warn_of_refit(self.random_state)
            reports = channel.privatize(codes, self.random_state)
        if reports.size != len(reports) * channel.size:
            raise ValueError(
                f"{self._name}(subset_size={self.subset_size!r}) expects {channel.size} of the "
                f"{len(channel.classes)} classes in each report, got reports of shape "
                f"{reports.shape}. Use the same epsilon, classes and subset_size as the clients."
            )
        weights = _check_sample_weight(sample_weight, codes, dtype=float, ensure_non_negative=True)
        base = self._base()
        correction = self._correction()
        self._channel_ = channel
        self._has_protocol = is_attached(y)
        self._n_reports = float(weights.sum())
        if correction == "probabilities":
            if channel.size > 1:
                raise ValueError(
                    f"{self._name} of {base!r} needs subset_size=1, because only a "
                    'LogisticRegression with correction="auto" or "likelihood" learns from sets of '
                    "labels. Set subset_size=1 on clients and servers."
                )
            if self.oracle is not None and not hasattr(base, "predict_proba"):
                raise ValueError(
                    f"{self._name}(oracle=..) needs a classifier with predict_proba, got {base!r}. "
                    "Use another classifier, such as LogisticRegression()."
                )
            fitted = clone(base).fit(X, reports, **routed)
            self.weights_: dict[Any, Any] = {"probabilities": 1.0}
            if self.correction == "auto" and hasattr(fitted, "predict_proba"):
                codes = channel.report_codes(reports, self._name)
                self._shrink(X, codes, weights, routed)
        else:
            fitted, self.weights_ = _fit_corrected(base, correction, channel, X, reports, routed)
        best = max(self.weights_, key=lambda name: self.weights_[name])
        self.correction_: str = best if isinstance(best, str) else "likelihood"
        self.classes_ = channel.classes
        self.estimator_ = fitted
        self._take_features(fitted)
        if best == "constant":
            self._warn_of_constant(len(codes))
        return self

    def _shrink(self, X: Any, codes: np.ndarray, weights: np.ndarray, routed: dict) -> None:
        """Compute `weights_`, the weights of the classifier, the constant and mixtures of both.

        The weights depend on the likelihood of held-out reports.
        """
        channel = self._channel_
        n = len(codes)
        splits = _splits(codes, _N_FOLDS if n >= _FEW else _N_FOLDS_OF_FEW)
        self._rates = _probabilities(constant(channel, codes, weights)[None])[0]
        held_out = np.zeros((n, channel.n_outputs))
        reported = np.unique(codes)
        if min(len(np.unique(codes[some])) for some, _ in splits) < 2:
            self._shares: Any = np.ones(1)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # folds may lack a rare class; `fit` has warned
                held_out[:, reported] = cross_val_predict(
                    self._base(), X, codes, cv=splits, params=routed, method="predict_proba"
                )
            # The likelihood of very noisy reports hardly depends on overconfident probabilities.
            price = ((1 - channel.signal) / channel.signal) ** 2 / weights.sum()

            chances = channel.likelihoods(codes)

            def judged(P: np.ndarray) -> float:
                likelihoods = np.log(np.sum(chances * P, axis=1))
                surer = rel_entr(P, self._rates).sum(axis=1)
                return float(weights @ (likelihoods - price * surer))

            candidates = self._candidates(channel.as_responses(held_out))
            self._shares = softmax([judged(P()) for P in candidates])
        weight = float(self._shares[0])
        self.weights_ = {"constant": weight, "probabilities": 1 - weight}

    def _candidates(self, reported: np.ndarray) -> list[Callable[[], np.ndarray]]:
        """Return the candidates that are averaged; the first candidate is the constant.

        A candidate is a function that returns predicted probabilities of true labels.
        """
        channel = self._channel_
        rates = self._rates
        constant = channel.q + channel.signal * rates
        lifts = np.maximum(reported, channel.q / 2) / constant

        def raised(power: float) -> np.ndarray:
            likely = rates * lifts**power
            return likely / likely.sum(axis=1, keepdims=True)

        def corrected(share: float) -> np.ndarray:
            mixed = share * reported + (1 - share) * constant
            return channel.corrected_probabilities(mixed, self._n_reports)

        return [
            *(partial(raised, power) for power in (0.0, *_POWERS)),
            *(partial(corrected, share) for share in _SHARES_OF_MODEL),
            *(lambda w=w: w * reported + (1 - w) * rates for w in _SHARES_AS_THEY_ARE),
        ]

    # -- predictions --------------------------------------------------------------------------
    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable true label of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        check_is_fitted(self)
        is_ranked = "constant" not in self.weights_ and self.oracle is None
        if is_ranked or "probabilities" not in self.weights_:
            return self.estimator_.predict(X)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the true labels.

        Shapes: X (n_samples, n_features) -> (n_samples, n_classes).
        """
        check_is_fitted(self)
        P = self.estimator_.predict_proba(X)
        if "probabilities" not in self.weights_:
            return P
        reported = np.zeros((len(P), self._channel_.n_outputs))
        reported[:, self._channel_.report_codes(self.estimator_.classes_, self._name)] = P
        reported = self._channel_.as_responses(reported)
        if "constant" not in self.weights_:
            return self._channel_.corrected_probabilities(reported, self._n_reports)
        pairs = zip(self._shares, self._candidates(reported), strict=False)
        P = np.add.reduce(
            [share * candidate() for share, candidate in pairs if share > _LEAST_WEIGHT]
        )
        return P / P.sum(axis=1, keepdims=True)

    @available_if(_has("predict_proba"))
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the probabilities of the true labels.

        Shapes: X (n_samples, n_features) -> (n_samples, n_classes).
        """
        return np.log(self.predict_proba(X))

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the decision scores of the fitted classifier, which need no correction to rank.

        Shapes: X (n_samples, n_features) -> (n_samples,) or (n_samples, n_classes).
        """
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy on true labels, or an unbiased estimate of it from reports.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features of users who were not in `fit`.
        y : array-like of shape (n_samples,)
            True labels; or, with ``input="reports"``, randomized labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        float
            The accuracy. From few reports it may be above 1.

        Raises
        ------
        ValueError
            If `y` agrees with the predictions more often than reports can. Then `y` contains true
            labels, reports of a larger epsilon, or reports of the training data.

        Warns
        -----
        UserWarning
            If `fit` received reports with a protocol, but `y` has none.
        """
        if self.input == "values":
            refuse_reports(y, self._name, 'use input="reports"')
            labels = checked_labels(y, self._name)
            return float(super().score(X, labels, sample_weight))
        check_is_fitted(self)
        check_consistent_length(X, y)
        channel, codes = self._encoded(y, is_reported=True)
        if sample_weight is None:  # a row with a weight may represent several users
            self._refuse_agreement(X, channel, codes)
        return make_label_dp_scorer("accuracy")(self, X, y, sample_weight)

    def _refuse_agreement(self, X: Any, channel: LabelChannel, codes: np.ndarray) -> None:
        """Raise ValueError if reports agree with the predictions more often than reports can."""
        if hasattr(self, "predict_proba"):
            groups = groups_of_predictions(self.predict_proba(X))
        else:
            groups = channel.encode(self.predict(X), self._name)
        chance, _ = chance_of_frequencies(codes, *channel.limits, groups)
        if chance < _BY_CHANCE:
            raise ValueError(
                f"{self._name}.score expects reports of epsilon {channel.epsilon:g}, because input "
                "is 'reports'. But y agrees with the predictions more often than is possible for "
                "such reports of new users. If the clients used another epsilon, set it. If y "
                "contains true labels, use accuracy_score(y, model.predict(X))."
            )

    def _warn_of_labels(self, y: Any) -> None:
        """Warn once if `y` is a plain array, although `fit` received reports with a protocol."""
        if getattr(self, "_has_protocol", False) and not is_attached(y):
            text = (
                f"{self._name} was fitted to reports with a protocol, but is scored on an array "
                "without a protocol, which may contain true labels. Pass the array that privatize "
                "returned. For true labels, use accuracy_score(y, model.predict(X))."
            )
            warn_once(text, UserWarning, f"labels to score {self._name}")

    # -- scikit-learn's tags and checks -------------------------------------------------------
    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = get_tags(self._base()).classifier_tags.multi_class
        return tags

    @property
    def _expected_failed_checks(self) -> dict[str, str]:
        is_exact = self.input == "reports" and self.correction != "auto"
        return {} if is_exact else super()._expected_failed_checks

    # -- the parameters -----------------------------------------------------------------------
    def _base(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def _encoded(
        self, y: ArrayLike, *, learn: bool = False, is_reported: bool = False
    ) -> tuple[LabelChannel, np.ndarray]:
        """Return the randomization (a LabelChannel), and the code of each label or report in `y`.

        A code is the position of a label in the sorted classes.
        learn: whether classes that are not declared are learned from the labels.
        """
        if not is_reported:
            refuse_reports(y, self._name, 'use input="reports"')
        if self.oracle is not None:
            if self.classes is not None or self.subset_size != 1:
                raise ValueError(
                    f"{self._name} got classes={self.classes!r} and "
                    f"subset_size={self.subset_size!r} beside an oracle, which determines both. "
                    "Leave them out."
                )
            channel: LabelChannel = OracleChannel(self.oracle, self._name)
        else:
            classes = self.classes
            if classes is None:
                check = checked_reports if is_reported else checked_labels
                classes = np.unique(check(y, self._name)) if learn else self.classes_
            classes = checked_classes(classes, self._name)
            channel = LabelChannel(self.epsilon, classes, self.subset_size)
        if channel.signal <= 0:
            raise ValueError(
                f"{self._name} got epsilon={self.epsilon!r}, which is too small: reports do not "
                "depend on the labels, because probabilities are multiples of 2**-64. Increase "
                "epsilon."
            )
        if is_reported:
            return channel, channel.report_codes(y, self._name)
        return channel, channel.encode(checked_labels(y, self._name), self._name)

    def _correction(self) -> str:
        """Return the correction to use, or raise an error if the classifier does not support it."""
        last = steps_to_last(self._base())[1]
        problem = ""
        if type(last) is not LogisticRegression:
            problem = f"a LogisticRegression (at the end of a Pipeline), got {type(last).__name__}"
        elif last.class_weight is not None:
            raise ValueError(
                "LabelDPClassifier needs a LogisticRegression without class_weight, because class "
                "weights depend on the true classes, which are secret. Leave out class_weight, and "
                "change the threshold on the probabilities instead."
            )
        elif last.penalty not in ("l2", "deprecated") or last.l1_ratio or not 0 < last.C < math.inf:
            problem = "an L2 penalty with a finite C > 0, because losses have no minimum without it"
        if problem and self.correction == "likelihood":
            raise ValueError(
                f'{self._name}(correction="likelihood") needs {problem}. '
                'Use correction="probabilities", which supports any classifier.'
            )
        return "probabilities" if problem else self.correction


# -- corrected fits ---------------------------------------------------------------------------
class _CorrectedFit(ClassifierMixin, BaseEstimator):
    """A classifier that replaces the LogisticRegression at the end of a Pipeline during `fit`."""

    def __init__(self, model: LogisticRegression, correction: str, channel: LabelChannel) -> None:
        self.model = model
        self.correction = correction
        self.channel = channel

    def fit(self, X: Any, y: np.ndarray, sample_weight: ArrayLike | None = None) -> Self:
        model = clone(self.model)
        channel = self.channel
        kinds: dict[str, Any] = {"dtype": [np.float64, np.float32], "multi_output": y.ndim > 1}
        X, y = validate_data(model, X, y, accept_sparse="csr", order="C", **kinds)
        weights = _check_sample_weight(sample_weight, X, dtype=float, ensure_non_negative=True)
        codes = channel.report_codes(y, "LabelDPClassifier")
        if self.correction == "auto":
            fits, shares = self._judged(X, codes, weights)
            names = ["constant", *(model.C * share for share in _SHARES_OF_C)][: len(fits)]
        else:
            fits = [self._least(_likelihood(channel, codes), X, weights, model.C)]
            shares, names = np.ones(1), [model.C]
        self.weights_ = dict(zip(names, shares.tolist(), strict=True))
        model.classes_ = channel.classes
        coefs, intercepts, n_iters = zip(*fits, strict=True)
        model.coef_ = np.tensordot(shares, coefs, 1)
        model.intercept_ = shares @ intercepts
        model.n_iter_ = np.array([max(n_iters)], dtype=np.int32)
        self.model_ = model
        return self

    def _least(self, objective: Objective, X: Any, weights: Any, C: float, *start: Any) -> Any:
        # Compared with true labels, gradients are smaller by the factor `signal`.
        tol = self.model.tol * self.channel.signal
        model = clone(self.model).set_params(C=C)
        return minimise(objective, X, weights, len(self.channel.classes), model, tol, *start)

    def _path(self, path: list[Any], n: int, X: Any, codes: np.ndarray, weights: np.ndarray) -> Any:
        """Continue a list of fits with decreasing penalties, and return it.

        path: the fits so far: the constant, followed by the fits with the largest penalties.
        n: the number of fits after the constant in the result.
        """
        if not path:
            intercept = constant(self.channel, codes, weights) * self.model.fit_intercept
            path = [(np.zeros((len(intercept), X.shape[1])), intercept, 0)]
        rows = with_known_labels(self.channel, X, codes, weights)
        for share in _SHARES_OF_C[len(path) - 1 : n]:
            with warnings.catch_warnings():
                if share > 1:  # not a user's choice, and held-out reports evaluate the result
                    warnings.simplefilter("ignore", ConvergenceWarning)
                path = [*path, self._least(*rows, self.model.C * share, *path[-1][:2])]
        return path

    def _judged(self, X: Any, codes: np.ndarray, weights: np.ndarray) -> tuple[list, np.ndarray]:
        """Fit all candidates; return the coefficients and the weight of each candidate.

        The weights depend on the likelihood of held-out reports.
        """
        folds = [fold for fold in _splits(codes, _N_FOLDS) if weights[fold[0]].any()]
        paths: list[Any] = [[]] * len(folds)
        for n in range(_UP_TO_C, len(_SHARES_OF_C) + 1):
            likelihoods = np.zeros((len(codes), 1 + n))
            with Progress(len(folds), is_shown=bool(self.model.verbose)) as bar:
                for k, (some, others) in enumerate(folds):
                    bar.step(f"C up to {self.model.C * _SHARES_OF_C[n - 1]:g}")
                    paths[k] = self._path(paths[k], n, X[some], codes[some], weights[some])
                    judge = _likelihood(self.channel, codes[others])
                    for column, (coef, intercept, _) in enumerate(paths[k]):
                        likelihoods[others, column] = -judge(X[others] @ coef.T + intercept)[0]
            shares = evidence(likelihoods, weights, _TRUST_IN_C)
            gains, errors = _gains(likelihoods[:, -2:], weights)
            if shares.argmax() < n or gains[1] <= _BETTER * errors[1]:
                break
        return self._path([], n, X, codes, weights), shares

    def get_metadata_routing(self) -> Any:
        return get_routing_for_object(self.model)


@each_warning_once()
def _fit_corrected(
    base: Any, correction: str, channel: LabelChannel, X: Any, reports: np.ndarray, routed: dict
) -> tuple[Any, dict]:
    """Fit a logistic regression, or a Pipeline that ends with one, with a correction."""
    fitted = clone(base)
    names, last = steps_to_last(fitted)
    step = _CorrectedFit(last, correction, channel)
    if not names:
        step.fit(X, reports, **routed)
        return step.model_, step.weights_
    place = "__".join(names)
    fitted.set_params(**{place: step}).fit(X, reports, **routed)
    return fitted.set_params(**{place: step.model_}), step.weights_


# -- weights from held-out reports ------------------------------------------------------------
def _splits(codes: np.ndarray, n_folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return, for each fold, the indices of the training rows and of the held-out rows.

    Each fold has nearly the same proportions of reported labels.
    """
    # The rows may be sorted by a variable that is not a feature, so they are shuffled.
    order = np.random.default_rng(0).permutation(len(codes))
    order = order[np.argsort(codes.reshape(len(codes), -1)[order, 0], kind="stable")]
    folds = np.empty(len(codes), dtype=int)
    folds[order] = np.arange(len(codes)) % n_folds
    return [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in np.unique(folds)]


def evidence(log_likelihoods: np.ndarray, weights: np.ndarray, trust: float) -> np.ndarray:
    """Return the weights of candidates from their log likelihoods of held-out reports.

    The simplest candidate must be the first.
    Shapes: log_likelihoods (n, n_candidates), weights (n,) -> (n_candidates,).
    trust: the factor of log likelihood differences. 1 is Bayes' rule; smaller is more cautious.
    """
    gains, errors = _gains(log_likelihoods, weights)
    return softmax(trust * (gains - _CAUTION * errors))


def _gains(log_likelihoods: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the gain in log likelihood of each candidate over the first, with standard errors.

    Shapes: log_likelihoods (n, n_candidates), weights (n,) -> (n_candidates,), (n_candidates,).
    """
    gains = log_likelihoods - log_likelihoods[:, :1]
    total = weights @ gains
    return total, np.sqrt(weights**2 @ (gains - total / weights.sum()) ** 2)


def constant(channel: LabelChannel, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the linear scores of the classes in the logistic model without features.

    Shapes: codes (n,) or (n, size), weights (n,) -> (n_scores,).
    """
    rows = with_known_labels(channel, np.zeros((len(codes), 0)), codes, weights)
    return minimise(*rows, len(channel.classes), LogisticRegression(), 1e-6 * channel.signal)[1]


def with_known_labels(
    channel: LabelChannel, X: Any, codes: np.ndarray, weights: np.ndarray
) -> tuple[Objective, Any, np.ndarray]:
    """Add a few artificial rows with known labels; return the likelihood, and all rows.

    Shapes: X (n, n_features), codes (n,) or (n, size), weights (n,) -> (n + n_classes,
    n_features).
    """
    # Rows with the mean features and known labels, with equal weights for all classes, act as a
    # prior of the intercepts: a Dirichlet distribution. Its strength is estimated such that the
    # class shares differ from each other as much as their estimates, less the noise.
    # The strength per class is at least 1.
    n = len(codes)
    n_classes = len(channel.classes)
    total = weights.sum()
    labels = channel.corrected(codes)
    shares = weights @ labels / total
    noise = np.sum(weights @ labels**2 / total - shares**2) / total
    spread = np.sum((shares - 1 / n_classes) ** 2) - noise
    # A Dirichlet distribution with parameter a for each of K classes has the spread
    # (1 - 1 / K) / (a K + 1).
    most = 1 - 1 / n_classes
    strength = most / max(spread, most / (n_classes * total + 1)) - 1
    # With true labels there is no prior, as in LogisticRegression.
    known = max(strength / n_classes, 1) * (1 - channel.signal)
    report_loss = _likelihood(channel, codes)
    known_loss = report_likelihood(np.eye(n_classes) + np.finfo(float).tiny)

    def objective(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        loss, slope = zip(report_loss(scores[:n]), known_loss(scores[n:]), strict=True)
        return np.concatenate(loss), np.concatenate(slope)

    stack = sparse.vstack if sparse.issparse(X) else np.vstack
    rows = stack([X, np.tile(X.T @ weights / total, (n_classes, 1))])
    return objective, rows, np.append(weights, np.full(n_classes, known))


# -- the objective, and its minimization ------------------------------------------------------
def report_likelihood(chances: np.ndarray) -> Objective:
    """Return a function from linear scores to the loss of each report, and the loss's gradient.

    The loss is ``-log(sum_k chances_k P_k)`` for the class probabilities P of the scores.

    Shapes: chances (n, n_classes).
    chances: the probability of each report given each class, up to a factor for each report.
    """
    # The objective is not convex, but it weights each row by the information in its report. Its
    # minimum is the maximum likelihood estimate, which is asymptotically efficient if the model
    # is right.

    def objective(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        P = _probabilities(scores)
        joint = chances * P
        likelihood = joint.sum(axis=1)
        slope = P - joint / likelihood[:, None]
        return -np.log(likelihood), slope[:, P.shape[1] - scores.shape[1] :]

    return objective


def _probabilities(scores: np.ndarray) -> np.ndarray:
    """Convert linear scores to class probabilities.

    If there is a single score, it is the log odds of the second of two classes.
    """
    if scores.shape[1] == 1:
        return expit(scores * [-1, 1])
    return softmax(scores, axis=1)


def _likelihood(channel: LabelChannel, codes: np.ndarray) -> Objective:
    """Return the function from linear scores to the loss of each report, and its gradient."""
    return report_likelihood(channel.likelihoods(codes))


def minimise(
    objective: Objective, X: Any, weights: Any, n_classes: int, model: Any, tol: float, *start: Any
) -> tuple[np.ndarray, np.ndarray, int]:
    """Minimize ``C sum_i loss_i + |coef|^2 / 2`` over linear scores, as LogisticRegression does.

    Shapes: X (n, n_features), weights (n,) -> (n_scores, n_features).
    start: initial coefficients (n_scores, n_features) and intercepts (n_scores,), or nothing.
    Returns: coefficients, intercepts (zeros without intercepts), and the number of iterations.
    """
    n_features = X.shape[1]
    n_scores = 1 if n_classes == 2 else n_classes
    total = weights.sum()
    penalty = 1 / (model.C * total)
    share = (weights / total)[:, None]
    n_coef = n_scores * n_features
    n_free = n_coef + (n_scores if model.fit_intercept else 0)
    coef, intercept = start or (np.zeros(n_coef), np.zeros(n_scores))
    begin = np.append(coef, intercept)[:n_free]
    name = type(model).__name__

    def value_and_gradient(step: np.ndarray) -> tuple[float, np.ndarray]:
        flat = begin + step
        coef = flat[:n_coef].reshape(n_scores, n_features)
        loss, slope = objective(X @ coef.T + (flat[n_coef:] if model.fit_intercept else 0.0))
        slope = slope * share
        gradient = (X.T @ slope).T + penalty * coef
        value = float(loss @ share[:, 0] + 0.5 * penalty * (coef.ravel() @ coef.ravel()))
        intercept_gradient = slope.sum(axis=0) if model.fit_intercept else []
        return value, np.concatenate([gradient.ravel(), intercept_gradient])

    step, n_iter = minimized(value_and_gradient, n_free, tol, model.max_iter, name, maxls=50)
    x = begin + step
    intercepts = x[n_coef:] if model.fit_intercept else np.zeros(n_scores)
    return x[:n_coef].reshape(n_scores, n_features), intercepts, n_iter
