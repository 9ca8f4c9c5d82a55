"""Scores of classifiers on randomised labels, without one true label."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.utils.validation import _check_sample_weight

from .._core.support.scorers import BaseScorer
from ._label_channel import LabelChannel, checked_classes, checked_reports, steps_to_last

NORMAL_LIMIT = float(stats.norm.ppf(0.975))  # standard errors on either side of a 95 % interval
_N_GROUPS = 20  # of users, of which one at a time is left out
_LEAST_NOISE = 1e-6  # share of the variance, below which labels count as true


class _LabelMetric(NamedTuple):
    """A score of predictions, given weights of the classes of each row."""

    # Called with the weights, of shape (n, n_classes), and the prediction. Returns the score if
    # it is a mean over rows. If it is a mean of ratios, it returns their numerators and
    # denominators, of shape (2, n_ratios), each a mean over rows (or pairs of rows).
    score: Callable[[np.ndarray, np.ndarray], Any]
    # What the prediction is: codes of shape (n,), probabilities of shape (n, n_classes), or
    # anything that increases with the probability of the second class, of shape (n,).
    needs: str = "labels"
    is_binary: bool = False  # whether it is defined for two classes only


# -- the metrics ------------------------------------------------------------------------------
def _accuracy(labels: np.ndarray, predicted: np.ndarray) -> float:
    return float(labels[np.arange(len(labels)), predicted].sum() / labels.sum())


def _of_confusion(ratios: Callable[[np.ndarray], tuple]) -> Callable:
    """Ratios of the shares of rows by true class (rows) and predicted class."""
    return lambda labels, predicted: np.reshape(
        ratios(labels.T @ np.eye(labels.shape[1])[predicted] / labels.sum()), (2, -1)
    )


def _neg_log_loss(labels: np.ndarray, P: np.ndarray) -> float:
    # As scikit-learn's log_loss: a class that was held impossible costs 36, not infinitely much.
    P = np.clip(P, np.finfo(float).eps, 1 - np.finfo(float).eps)
    return float((labels * np.log(P)).sum() / labels.sum())


def _neg_brier_score(labels: np.ndarray, P: np.ndarray) -> float:
    squares = (P**2).sum(axis=1, keepdims=True) - 2 * P + 1  # |P - indicator of class k|^2
    scale = 0.5 if P.shape[1] == 2 else 1.0
    return -float(scale * (labels * squares).sum() / labels.sum())


def _roc_auc(labels: np.ndarray, decision: np.ndarray) -> np.ndarray:
    """The share of pairs of a user of the second class and another of the first in right order."""
    # Reports of different users are independent, so the sum over pairs is unbiased; a user is
    # no pair with themselves. The rows are sorted by the decision.
    starts = np.flatnonzero(np.append(True, decision[1:] != decision[:-1]))
    of_herself = labels[:, 0] @ labels[:, 1]
    first, second = (np.add.reduceat(of_class, starts) for of_class in labels.T)
    pairs = second @ (np.cumsum(first) - 0.5 * first) - 0.5 * of_herself
    total = second.sum() * first.sum() - of_herself
    return np.array([[pairs], [total]]) / labels.sum() ** 2


_METRICS = {
    "accuracy": _LabelMetric(_accuracy),
    "balanced_accuracy": _LabelMetric(_of_confusion(lambda m: (np.diag(m), m.sum(axis=1)))),
    "f1": _LabelMetric(
        _of_confusion(lambda m: (2 * m[1, 1], m[1].sum() + m[:, 1].sum())), is_binary=True
    ),
    "neg_brier_score": _LabelMetric(_neg_brier_score, "probabilities"),
    "neg_log_loss": _LabelMetric(_neg_log_loss, "probabilities"),
    "precision": _LabelMetric(_of_confusion(lambda m: (m[1, 1], m[:, 1].sum())), is_binary=True),
    "recall": _LabelMetric(_of_confusion(lambda m: (m[1, 1], m[1].sum())), is_binary=True),
    "roc_auc": _LabelMetric(_roc_auc, "decision", is_binary=True),
}


def label_dp_score(
    metric: str,
    reports: ArrayLike,
    predictions: ArrayLike,
    *,
    epsilon: float,
    classes: ArrayLike,
    sample_weight: ArrayLike | None = None,
    return_error: bool = False,
) -> Any:
    """Score predictions on randomised labels: what the score on true labels is, up to noise.

    Each user counts with their :func:`corrected label <corrected_labels>`. Accuracy, log loss and
    Brier score are means over users, and so unbiased. The noise that comes on top of that of n true
    labels has a standard error of about ``sqrt(q (1 - q) / n) / (p - q)`` for an accuracy of two
    classes: .011 for 10,000 users at epsilon 1. So an accuracy may be above 1.

    The others are ratios of such means. A rare class has a denominator that noise moves by a large
    part of it, and the ratio is then neither unbiased nor normal. So the score is the middle of
    Fieller's interval [1]_, cut to [0, 1]: its shift away from the ratio of the sums vanishes as
    the number of users, or epsilon, grows. Within two standard errors of a denominator of 0 there
    is no bounded interval, and the score is nan.

    Privacy: reports have been paid for.

    Parameters
    ----------
    metric : {"accuracy", "balanced_accuracy", "f1", "neg_brier_score", "neg_log_loss", \
"precision", "recall", "roc_auc"}
        As scikit-learn has them; greater is better. "f1", "precision", "recall" and "roc_auc" are
        for two classes, of which the second is the positive one.
    reports : array-like of shape (n_samples,) or (n_samples, subset_size)
        Randomised labels, or sets of labels, of users whom the classifier was not trained on.
    predictions : array-like of shape (n_samples,) or (n_samples, n_classes)
        Predicted labels; probabilities in the order of the sorted classes for "neg_brier_score" and
        "neg_log_loss"; for "roc_auc", decisions that increase with the probability of the second
        class.
    epsilon : float
        The budget that the reports were randomised with, > 0.
    classes : array-like of shape (n_classes,)
        All labels that there are.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each user.
    return_error : bool, default=False
        Whether to return the standard error of the score as well: of the noise, and of who was
        asked. It is found by leaving out a twentieth of the users at a time (jackknife). The score
        plus and minus 1.96 of it covers the truth with a probability of about .95.

    Returns
    -------
    float or (float, float)
        The score, and its standard error if asked for.

    Raises
    ------
    ValueError
        If the metric is not known, is not for this many classes, or an argument is malformed.

    Warns
    -----
    UserWarning
        If the score is nan, because the reports may come from no user of a class.

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
    found, who = _metric(metric), f"The score {metric!r} on randomised labels"
    reported = checked_reports(reports, who)
    channel = LabelChannel(epsilon, checked_classes(classes, who), reported[:1].size or 1)
    n_classes = len(channel.classes)
    if found.is_binary and n_classes > 2:
        raise ValueError(f"The score {metric!r} is for two classes, got {n_classes}.")
    labels, given = channel.corrected(channel.encode(reported, who)), np.asarray(predictions)
    shape = (len(labels), n_classes) if found.needs == "probabilities" else (len(labels),)
    if given.shape != shape:
        raise ValueError(f"{who} needs predictions of shape {shape}, got {given.shape}.")
    # The part of the variance of the labels that is noise: a true label equals its square.
    spread = max(np.sum((labels - labels.mean(axis=0)) ** 2), np.finfo(float).eps)
    noise = np.clip(np.sum(labels**2 - labels) / spread, _LEAST_NOISE, 1)
    if sample_weight is not None:
        labels *= _check_sample_weight(sample_weight, labels, dtype=float)[:, None]
    if found.needs == "labels":
        given = channel.encode(given, who)
    elif found.needs == "decision":  # sorted once, and not again for each group that is left out
        order = np.argsort(given, kind="stable")
        labels, given = labels[order], given[order]
    score = found.score(labels, given)
    if not (return_error or np.ndim(score)):
        return score
    replicates = _replicates(found.score, labels, given)
    error = float(np.sqrt((len(replicates) - 1) * replicates.var()))
    if np.ndim(score):
        score, error = _mean_ratio(score, replicates, noise)
    if np.isnan(score):
        why = "the number of users that it divides by is within two standard errors of 0. It needs"
        warnings.warn(f"{who} is nan: {why} more reports, or a larger epsilon.", stacklevel=2)
    return (score, error) if return_error else score


def _replicates(score: Any, labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """The score without one group of users at a time."""
    n_groups = min(_N_GROUPS, len(labels))
    # Neighbours in the data may be alike.
    group = np.random.default_rng(0).permutation(len(labels)) % n_groups
    kept = [group != one for one in range(n_groups)]
    return np.array([score(labels[some], predictions[some]) for some in kept])


def _mean_ratio(sums: np.ndarray, replicates: np.ndarray, noise: float) -> tuple[float, float]:
    """The mean of ratios and its standard error, by Fieller's interval of each."""
    # All variances are multiplied by the share of noise, and the width is divided by its root, so
    # that scores of true labels are the plain ratios.
    (part, whole), n_groups = sums, len(replicates)
    deviations = (replicates - replicates.mean(axis=0)) * np.sqrt((n_groups - 1) / n_groups)
    limit = stats.t.ppf(0.975, n_groups - 1)
    margins = noise * limit**2 * np.einsum("gik,gjk->ijk", deviations, deviations)
    low, high = ratio_interval(part, whole, margins)
    if np.any(np.isnan(low)):
        return math.nan, math.nan
    half = (high - low) / 2
    low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
    half = np.where(low < high, (high - low) / 2, half)
    # The ratios of a mean are correlated as their linear approximations are.
    linear = deviations[:, 0] - part / whole * deviations[:, 1]
    linear /= np.maximum(np.linalg.norm(linear, axis=0), np.finfo(float).tiny)
    error = np.linalg.norm((linear * half).mean(axis=1)) / np.sqrt(noise)
    return float(np.mean((low + high) / 2)), float(error / NORMAL_LIMIT)


def ratio_interval(part: Any, whole: Any, margins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Fieller's interval of each ratio; nan where noise may have made the denominator.

    Shapes: part and whole (...), margins (2, 2, ...): their covariance, times the square of how
    many standard errors are allowed -> (...), (...).
    """
    # The ratio r is in the interval if part - r whole is within so many standard errors of 0; its
    # ends are the roots of a r^2 - 2 b r + c.
    a, b, c = whole**2 - margins[1, 1], part * whole - margins[0, 1], part**2 - margins[0, 0]
    a = np.where((a > 0) & (whole > 0), a, math.nan)
    half = np.sqrt(np.maximum(b**2 - a * c, 0)) / a
    return b / a - half, b / a + half


def make_label_dp_scorer(
    metric: str = "neg_log_loss", *, epsilon: float | None = None, classes: ArrayLike | None = None
) -> LabelDPScorer:
    """Return a scorer that scores classifiers on randomised labels, for searches.

    It makes `GridSearchCV`, `cross_val_score` and the like work without one true label. See
    :func:`label_dp_score` for what it computes.

    Privacy: with a classifier whose `input` is "reports", the labels passed to the search are
    reports and all is free. With ``input="values"``, for simulations, the scorer randomises the
    held-out labels first, as the classifier would, so that scores are as noisy as in a collection.

    Parameters
    ----------
    metric : str, default="neg_log_loss"
        As for :func:`label_dp_score`.
    epsilon : float, default=None
        The budget that the labels were randomised with, for classifiers that do not know it; the
        labels are then reports. None asks the :class:`LabelDPClassifier`.
    classes : array-like of shape (n_classes,), default=None
        All labels that there are. None asks the classifier.

    Returns
    -------
    callable
        A scorer ``(estimator, X, y, sample_weight=None) -> float``.

    Raises
    ------
    ValueError
        If the metric is not known.

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
    return LabelDPScorer(metric, epsilon, classes)


class LabelDPScorer(BaseScorer):
    """A scorer on randomised labels; see :func:`make_label_dp_scorer`."""

    def __init__(self, metric: str, epsilon: float | None, classes: Any) -> None:
        super().__init__()
        self.metric: str = metric
        self.epsilon: float | None = epsilon
        self.classes: Any = classes

    def __call__(
        self, estimator: Any, X: Any, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> float:
        model, epsilon, reports = _label_classifier(estimator), self.epsilon, y
        if epsilon is None:
            if model is None:
                raise ValueError(
                    f"{self!r} needs to know how the labels were randomised: give it epsilon=, or "
                    f"score a LabelDPClassifier, got {type(estimator).__name__}."
                )
            epsilon = model.epsilon
            if model.input == "values":
                try:
                    reports = model._privatize_held_out(y)
                except ValueError as error:
                    if model.classes is None:  # scikit-learn makes NaN of the error
                        what = f"{type(model).__name__} has learnt its classes from some of the "
                        what += f"users, not of all: {error} Declare classes=."
                        self._warn_once(what, UserWarning)
                    raise
        predictions = _predictions(_metric(self.metric), estimator, X)
        classes = estimator.classes_ if self.classes is None else self.classes
        options = {"epsilon": epsilon, "classes": classes, "sample_weight": sample_weight}
        return label_dp_score(self.metric, reports, predictions, **options)

    @property
    def __name__(self) -> str:
        return f"{self.metric} on randomised labels"

    def __repr__(self) -> str:
        given = {"epsilon": self.epsilon, "classes": self.classes}
        options = "".join(f", {k}={value!r}" for k, value in given.items() if value is not None)
        return f"make_label_dp_scorer({self.metric!r}{options})"


def _metric(name: str) -> _LabelMetric:
    if name not in _METRICS:
        known = ", ".join(map(repr, _METRICS))
        raise ValueError(f"There is no score {name!r} on randomised labels; there are {known}.")
    return _METRICS[name]


def _label_classifier(estimator: Any) -> Any:
    """Return the LabelDPClassifier that an estimator is or ends with, or None."""
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
