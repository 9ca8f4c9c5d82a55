"""Scores of classifiers from randomized labels, without any true label."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import _check_sample_weight

from .._core.common.privacy import warn_once
from .._core.common.scorers import BaseScorer
from ._label_channel import chance_of_frequencies, reported_codes, steps_to_last

NORMAL_LIMIT = float(stats.norm.ppf(0.975))  # standard errors on either side of a 95 % interval
_N_GROUPS = 20  # groups of users; the jackknife leaves out one group at a time
_BY_CHANCE = 1e-3  # error rate of the warning that reports do not fit the predictions
_N_TENTHS = 10  # groups of users with similar predictions, in which reports are tested
_ROUNDING = 1e-3  # of the sum of probabilities, which may have single precision
_LEAST_NOISE = 1e-6  # labels with a smaller share of noise in their variance count as true labels


class _LabelMetric(NamedTuple):
    """A score of predictions that is computed from corrected labels.

    A corrected label is an unbiased estimate of the indicator of each class, see
    `corrected_labels`.
    """

    # The function receives the weights, of shape (n, n_classes), and the predictions. It returns
    # the score if the score is a mean over rows. If the score is a mean of ratios, it returns the
    # numerators and denominators, of shape (2, n_ratios), each a mean over rows or pairs of rows.
    score: Callable[[np.ndarray, np.ndarray], Any]
    # The kind of prediction: "labels" (codes of shape (n,)), "probabilities" of shape
    # (n, n_classes), or "decision", which increases with the probability of the second class, of
    # shape (n,).
    needs: str = "labels"
    is_binary: bool = False  # whether it is defined for two classes only


# -- the metrics ------------------------------------------------------------------------------
def _accuracy(labels: np.ndarray, predicted: np.ndarray) -> float:
    return float(labels[np.arange(len(labels)), predicted].sum() / labels.sum())


def _confusion_score(ratios: Callable[[np.ndarray], tuple]) -> Callable:
    """Return a score, which is a function of corrected labels and predicted labels.

    The score applies the function `ratios` to the confusion matrix, with a row for each true class.
    It returns the numerators and denominators of ratios, of shape (2, n_ratios).
    """
    return lambda labels, predicted: np.reshape(
        ratios(labels.T @ np.eye(labels.shape[1])[predicted] / labels.sum()), (2, -1)
    )


def _neg_log_loss(labels: np.ndarray, P: np.ndarray) -> float:
    # As in scikit-learn's log_loss, a class with predicted probability 0 costs 36, not infinity.
    P = np.clip(P, np.finfo(float).eps, 1 - np.finfo(float).eps)
    return float((labels * np.log(P)).sum() / labels.sum())


def _neg_brier_score(labels: np.ndarray, P: np.ndarray) -> float:
    squares = (P**2).sum(axis=1, keepdims=True) - 2 * P + 1  # |P - indicator of class k|^2
    scale = 0.5 if P.shape[1] == 2 else 1.0
    return -float(scale * (labels * squares).sum() / labels.sum())


def _roc_auc(labels: np.ndarray, decision: np.ndarray) -> np.ndarray:
    """Return the area under the ROC curve as a ratio, of shape (2, 1).

    The denominator counts pairs of users from different classes. The numerator counts those pairs
    in which the user of the second class has the larger decision value. Both are divided by n**2.
    Shapes: labels (n, 2), decision (n,).
    """
    # Reports of different users are independent, so the sum over pairs of different users is
    # unbiased. Pairs of a user with the same user are subtracted. The rows are sorted by the
    # decision.
    starts = np.flatnonzero(np.append(True, decision[1:] != decision[:-1]))
    self_pairs = labels[:, 0] @ labels[:, 1]
    first, second = (np.add.reduceat(weights, starts) for weights in labels.T)
    pairs = second @ (np.cumsum(first) - 0.5 * first) - 0.5 * self_pairs
    total = second.sum() * first.sum() - self_pairs
    return np.array([[pairs], [total]]) / labels.sum() ** 2


_METRICS = {
    "accuracy": _LabelMetric(_accuracy),
    "balanced_accuracy": _LabelMetric(_confusion_score(lambda m: (np.diag(m), m.sum(axis=1)))),
    "f1": _LabelMetric(
        _confusion_score(lambda m: (2 * m[1, 1], m[1].sum() + m[:, 1].sum())), is_binary=True
    ),
    "neg_brier_score": _LabelMetric(_neg_brier_score, "probabilities"),
    "neg_log_loss": _LabelMetric(_neg_log_loss, "probabilities"),
    "precision": _LabelMetric(_confusion_score(lambda m: (m[1, 1], m[:, 1].sum())), is_binary=True),
    "recall": _LabelMetric(_confusion_score(lambda m: (m[1, 1], m[1].sum())), is_binary=True),
    "roc_auc": _LabelMetric(_roc_auc, "decision", is_binary=True),
}


def label_dp_score(
    metric: str,
    reports: ArrayLike,
    predictions: ArrayLike,
    *,
    epsilon: float | None = None,
    classes: ArrayLike | None = None,
    oracle: Any = None,
    sample_weight: ArrayLike | None = None,
    return_error: bool = False,
) -> Any:
    """Estimate, from randomized labels, the score of predictions on the true labels.

    The score uses a :func:`corrected label <corrected_labels>` for each user. Accuracy, log loss
    and Brier score are means over users, and therefore unbiased. In addition to the sampling error
    of n true labels, randomization adds noise with a standard error of about ``sqrt(q (1 - q) / n)
    / (p - q)`` for an accuracy of two classes: .011 for 10,000 users at epsilon 1. So an accuracy
    may be above 1.

    The other scores are ratios of such means. With a rare class, the noise is large compared with
    the denominator, and the ratio is neither unbiased nor normally distributed. Therefore the score
    is the middle of Fieller's interval of the ratio [1]_, cut to [0, 1]. Its difference from the
    ratio vanishes as the number of users, or epsilon, grows. If a denominator is within two
    standard errors of 0, the interval is not bounded, and the score is nan.

    Privacy: costs none, because it uses reports.

    Parameters
    ----------
    metric : {"accuracy", "balanced_accuracy", "f1", "neg_brier_score", "neg_log_loss", \
"precision", "recall", "roc_auc"}
        The score, defined as in scikit-learn; greater is better. "f1", "precision", "recall" and
        "roc_auc" are for two classes; the second of the sorted classes is the positive class.
    reports : array-like of shape (n_samples,) or (n_samples, subset_size)
        Randomized labels, or sets of labels, of users outside of the training data.
    predictions : array-like of shape (n_samples,) or (n_samples, n_classes)
        For "neg_brier_score" and "neg_log_loss", probabilities in the order of the sorted classes.
        For "roc_auc", numbers that increase with the probability of the second class. For all other
        metrics, predicted labels.
    epsilon : float, default=None
        The privacy budget with which the reports were randomized, > 0. Required without an oracle.
    classes : array-like of shape (n_classes,), default=None
        All possible labels. Required without an oracle.
    oracle : MatrixOracle or oracle of a ResponseDesign, default=None
        The oracle of the reports. A report is then the index of one of its outputs.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each user.
    return_error : bool, default=False
        Whether to return the standard error of the score as well, which accounts for the noise and
        for the sampling of users. It is computed by the jackknife, which leaves out a twentieth of
        the users at a time. The score plus and minus 1.96 standard errors contains the true score
        with a probability of about .95.

    Returns
    -------
    float or (float, float)
        The score; with `return_error`, also its standard error.

    Raises
    ------
    ValueError
        If the metric does not exist or does not support the number of classes, reports are of
        another protocol, or an argument is malformed.

    Warns
    -----
    UserWarning
        If the score is nan, because the noise does not exclude that a denominator is 0. If the
        frequencies of reports are impossible among users with similar predictions, because epsilon
        is wrong or the reports are true labels. The error rate of this test is .001. True labels
        of a weak model can pass it.

    References
    ----------
    .. [1] E. C. Fieller, "Some problems in interval estimation", Journal of the Royal Statistical
       Society B 16(2), 1954, :doi:`10.1111/j.2517-6161.1954.tb00159.x`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp.learning import LabelDPClassifier, label_dp_score
    >>> rng = np.random.default_rng(0)
    >>> predicted = rng.integers(0, 2, 100_000)
    >>> y = np.where(rng.random(100_000) < 0.9, predicted, 1 - predicted)
    >>> reports = LabelDPClassifier(epsilon=1.0, classes=[0, 1], random_state=0).privatize(y)
    >>> round(float(np.mean(reports == predicted)), 1)  # as if the reports were true
    0.7
    >>> score, error = label_dp_score(
    ...     "accuracy", reports, predicted, epsilon=1.0, classes=[0, 1], return_error=True
    ... )
    >>> round(score, 1), round(error, 3)
    (0.9, 0.003)
    """
    label_metric = _metric(metric)
    name = f"The score {metric!r} on randomized labels"
    channel, codes = reported_codes(reports, epsilon, classes, oracle, name)
    n_classes = len(channel.classes)
    if label_metric.is_binary and n_classes > 2:
        raise ValueError(
            f'The score {metric!r} is for two classes, got {n_classes} classes. Use "accuracy", '
            '"balanced_accuracy", "neg_brier_score" or "neg_log_loss".'
        )
    labels = channel.corrected(codes)
    predicted = np.asarray(predictions)
    column = " For predicted probabilities, pass predict_proba(X)[:, 1]."
    shape = (len(labels), n_classes) if label_metric.needs == "probabilities" else (len(labels),)
    if predicted.shape != shape:
        raise ValueError(
            f"{name} needs predictions of shape {shape}, got the shape {predicted.shape}. Pass "
            f"one prediction for each report.{column if label_metric.needs == 'decision' else ''}"
        )
    if label_metric.needs != "labels" and predicted.dtype.kind == "f":
        assert_all_finite(predicted, input_name="predictions")
    if label_metric.needs == "probabilities":
        sums = predicted.sum(axis=1)
        if predicted.min() < 0 or np.abs(sums - 1).max() > _ROUNDING:
            raise ValueError(
                f"{name} needs probabilities that sum to 1 in each row, got rows with sums from "
                f"{sums.min():g} to {sums.max():g} and the minimum {predicted.min():g}. Pass the "
                "output of predict_proba."
            )
    # The share of noise in the variance of the labels. A true label equals its square, so the
    # difference of both is noise.
    spread = max(np.sum((labels - labels.mean(axis=0)) ** 2), np.finfo(float).eps)
    noise = np.clip(np.sum(labels**2 - labels) / spread, _LEAST_NOISE, 1)
    if sample_weight is not None:
        kinds: dict[str, Any] = {"dtype": float, "ensure_non_negative": True}
        labels *= _check_sample_weight(sample_weight, labels, **kinds)[:, None]
    if label_metric.needs == "labels":
        groups = predicted = channel.encode(predicted, name)
    elif label_metric.needs == "decision":  # sorted once for all groups of the jackknife
        order = np.argsort(predicted, kind="stable")
        labels, predicted, codes = labels[order], predicted[order], codes[order]
        groups = np.arange(len(codes)) * _N_TENTHS // len(codes)
    else:
        groups = groups_of_predictions(predicted)
    is_tested = sample_weight is None  # a row with a weight may represent several users
    if is_tested and chance_of_frequencies(codes, *channel.limits, groups)[0] < _BY_CHANCE:
        text = (
            f"{name} is probably wrong, because the reports of users with similar predictions have "
            f"frequencies that are impossible for epsilon={channel.epsilon:g}. Pass the epsilon, "
            "classes or oracle of the clients, and pass reports instead of true labels, of users "
            "outside of the training data."
        )
        warn_once(text, UserWarning, name)
    score = label_metric.score(labels, predicted)
    if not (return_error or np.ndim(score)):
        return score
    replicates = _replicates(label_metric.score, labels, predicted)
    error = float(np.sqrt((len(replicates) - 1) * replicates.var()))
    if np.ndim(score):
        score, error = _mean_ratio(score, replicates, noise)
    if np.isnan(score):
        warnings.warn(
            f"{name} is nan because its denominator, an estimated number of users, is within two "
            "standard errors of 0. Collect more reports, or use a larger epsilon.",
            stacklevel=2,
        )
    return (score, error) if return_error else score


def groups_of_predictions(P: np.ndarray) -> np.ndarray:
    """Return a group for each user: the most probable class, and the tenth of its probability.

    In the surest group, true labels are the most different from reports.
    Shapes: P (n, n_classes) -> (n,).
    """
    ranks = P.max(axis=1).argsort(kind="stable").argsort()
    return P.argmax(axis=1) * _N_TENTHS + ranks * _N_TENTHS // len(P)


def _replicates(score: Any, labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Return scores for the jackknife: for each group of users, the score without this group.

    The groups are random and have nearly equal sizes.
    Shapes: labels (n, n_classes) -> (n_groups, ...), with the shape of one score.
    """
    n_groups = min(_N_GROUPS, len(labels))
    # The groups are random, because neighboring rows of the data may be similar.
    group = np.random.default_rng(0).permutation(len(labels)) % n_groups
    kept = [group != left_out for left_out in range(n_groups)]
    return np.array([score(labels[rows], predictions[rows]) for rows in kept])


def _mean_ratio(sums: np.ndarray, replicates: np.ndarray, noise: float) -> tuple[float, float]:
    """Return the mean of several ratios and its standard error, from Fieller's intervals.

    Shapes: sums (2, n_ratios), replicates (n_groups, 2, n_ratios).
    sums: the numerators and the denominators. replicates: the sums without each group of users.
    noise: the share of the variance that the randomization causes.
    """
    # All variances are multiplied by the share of noise, and the width is divided by its square
    # root, so that scores of true labels are the plain ratios.
    part, whole = sums
    n_groups = len(replicates)
    deviations = (replicates - replicates.mean(axis=0)) * np.sqrt((n_groups - 1) / n_groups)
    limit = stats.t.ppf(0.975, n_groups - 1)
    margins = noise * limit**2 * np.einsum("gik,gjk->ijk", deviations, deviations)
    low, high = ratio_interval(part, whole, margins)
    if np.any(np.isnan(low)):
        return math.nan, math.nan
    half = (high - low) / 2
    low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
    half = np.where(low < high, (high - low) / 2, half)
    # The correlations of the ratios are approximated by those of their linearizations.
    linear = deviations[:, 0] - part / whole * deviations[:, 1]
    linear /= np.maximum(np.linalg.norm(linear, axis=0), np.finfo(float).tiny)
    error = np.linalg.norm((linear * half).mean(axis=1)) / np.sqrt(noise)
    return float(np.mean((low + high) / 2)), float(error / NORMAL_LIMIT)


def ratio_interval(part: Any, whole: Any, margins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Fieller's interval of each ratio ``part / whole``; NaN if the denominator may be 0.

    Shapes: part and whole (...), margins (2, 2, ...) -> lower ends (...), upper ends (...).
    margins: the covariance matrix of each numerator (part) and denominator (whole), multiplied by
    the square of the critical value, which is the allowed number of standard errors.
    """
    # The interval contains the ratio r if part - r whole is within the allowed number of standard
    # errors of 0. The ends of the interval are the roots of a r^2 - 2 b r + c.
    a, b, c = whole**2 - margins[1, 1], part * whole - margins[0, 1], part**2 - margins[0, 0]
    a = np.where((a > 0) & (whole > 0), a, math.nan)
    half = np.sqrt(np.maximum(b**2 - a * c, 0)) / a
    return b / a - half, b / a + half


def make_label_dp_scorer(
    metric: str = "neg_log_loss",
    *,
    epsilon: float | None = None,
    classes: ArrayLike | None = None,
    oracle: Any = None,
) -> LabelDPScorer:
    """Return a scorer of classifiers that uses randomized labels, for searches.

    With this scorer, `GridSearchCV`, `cross_val_score` and similar tools need no true labels. See
    :func:`label_dp_score` for the definition of the score.

    Privacy: if the classifier has ``input="reports"``, the labels passed to the search are reports
    and nothing costs privacy. With ``input="values"``, for simulations, the scorer first randomizes
    the held-out labels like the classifier, so that scores are as noisy as in a real collection.

    Parameters
    ----------
    metric : str, default="neg_log_loss"
        As for :func:`label_dp_score`.
    epsilon : float, default=None
        The privacy budget with which the labels were randomized. Pass it for classifiers without
        this parameter; the labels of the search are then reports. If None, use the epsilon of the
        :class:`LabelDPClassifier`.
    classes : array-like of shape (n_classes,), default=None
        All possible labels. If None, the classes of the classifier.
    oracle : MatrixOracle or oracle of a ResponseDesign, default=None
        The oracle of the reports, instead of `epsilon` and `classes`.

    Returns
    -------
    callable
        A scorer ``(estimator, X, y, sample_weight=None) -> float``.

    Raises
    ------
    ValueError
        If the metric does not exist.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_ldp.learning import LabelDPClassifier, make_label_dp_scorer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = (X[:, 0] + rng.logistic(size=5000) > 0).astype(int)
    >>> reports = LabelDPClassifier(epsilon=1.0, classes=[0, 1], random_state=0).privatize(y)
    >>> model = LabelDPClassifier(
    ...     LogisticRegression(), epsilon=1.0, classes=[0, 1], input="reports"
    ... )
    >>> search = GridSearchCV(
    ...     model, {"estimator__C": [1e-4, 1.0]}, scoring=make_label_dp_scorer("neg_log_loss")
    ... )
    >>> search.fit(X, reports).best_params_
    {'estimator__C': 1.0}
    """
    _metric(metric)
    return LabelDPScorer(metric, epsilon, classes, oracle)


class LabelDPScorer(BaseScorer):
    """A scorer that uses randomized labels, the result of :func:`make_label_dp_scorer`."""

    def __init__(
        self, metric: str, epsilon: float | None, classes: Any, oracle: Any = None
    ) -> None:
        super().__init__()
        self.metric: str = metric
        self.oracle: Any = oracle
        self.epsilon: float | None = epsilon
        self.classes: Any = classes

    def __call__(
        self, estimator: Any, X: Any, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> float:
        model = _label_classifier(estimator)
        epsilon = self.epsilon
        oracle = self.oracle
        reports = y
        if epsilon is None and oracle is None:
            if model is None:
                raise ValueError(
                    f"{self!r} needs the epsilon with which the labels were randomized, but the "
                    f"estimator {type(estimator).__name__} has no epsilon. Pass epsilon= to "
                    "make_label_dp_scorer, or score a LabelDPClassifier."
                )
            oracle = model.oracle
            epsilon = model.epsilon if oracle is None else None
            if model.input == "reports":
                model._warn_of_labels(y)
            else:
                try:
                    reports = model._privatize_held_out(y)
                except ValueError as error:
                    if model.classes is None:  # scikit-learn replaces the error by a score of NaN
                        message = (
                            f"{type(model).__name__} has learned its classes from some users only: "
                            f"{error} Declare classes=."
                        )
                        self._warn_once(message, UserWarning)
                    raise
        predictions = _predictions(_metric(self.metric), estimator, X)
        classes = self.classes
        if classes is None and oracle is None:
            classes = estimator.classes_
        return label_dp_score(
            self.metric,
            reports,
            predictions,
            epsilon=epsilon,
            classes=classes,
            oracle=oracle,
            sample_weight=sample_weight,
        )

    @property
    def __name__(self) -> str:
        return f"{self.metric} on randomized labels"

    def __repr__(self) -> str:
        optional = {"epsilon": self.epsilon, "classes": self.classes, "oracle": self.oracle}
        options = "".join(f", {k}={value!r}" for k, value in optional.items() if value is not None)
        return f"make_label_dp_scorer({self.metric!r}{options})"


def _metric(name: str) -> _LabelMetric:
    if name not in _METRICS:
        known = ", ".join(map(repr, _METRICS))
        raise ValueError(f"There is no score {name!r} for randomized labels. Use one of {known}.")
    return _METRICS[name]


def _label_classifier(estimator: Any) -> Any:
    """Return the LabelDPClassifier that makes the predictions of an estimator, or None.

    It is the estimator itself, the last step of a Pipeline, or the best estimator of a search.
    """
    _, last = steps_to_last(estimator)
    if hasattr(last, "best_estimator_"):
        return _label_classifier(last.best_estimator_)
    return last if hasattr(last, "_privatize_held_out") else None


def _predictions(metric: _LabelMetric, estimator: Any, X: Any) -> np.ndarray:
    if metric.needs == "labels":
        return estimator.predict(X)
    if metric.needs == "decision" and hasattr(estimator, "decision_function"):
        return estimator.decision_function(X)
    P = estimator.predict_proba(X)
    return P[:, 1] if metric.needs == "decision" else P
