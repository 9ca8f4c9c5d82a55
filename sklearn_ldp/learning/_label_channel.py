"""Randomised labels: what a client does with a label, and what a server knows of the true one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from .._core.domains import Domain, codes_on_client
from .._core.domains.values import exact_array, is_missing
from .._core.support.random import RandomState
from .._core.support.text import integer_array
from ..oracles import GRR, SubsetSelection


def corrected_labels(reports: ArrayLike, *, epsilon: float, classes: ArrayLike) -> np.ndarray:
    """Return an unbiased estimate of the true label of each user from their randomised one.

    Labels come from randomised response: a user reports their class with probability p, and any
    other one with probability q. The corrected label of class k is

    .. math:: \\tilde y_k = \\frac{1[y' = k] - q}{p - q},

    whose expectation is 1 for the true class and 0 for the others (a backward correction [1]_).
    So the mean of anything that is linear in the indicators of the labels is unbiased: log losses,
    accuracies, sums of features by class. If reports are sets, 1 stands for "k is in the set", and
    p and q are the probabilities that the true class, and another one, is.

    Parameters
    ----------
    reports : array-like of shape (n_samples,) or (n_samples, subset_size)
        Randomised labels, or sets of labels, as :meth:`LabelDPClassifier.privatize` returns them.
    epsilon : float
        The budget that they were randomised with, > 0.
    classes : array-like of shape (n_classes,)
        All labels that there are.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Rows sum to 1, with entries below 0 and above 1; columns in the order of the sorted classes.

    Raises
    ------
    ValueError
        If a report is not one of the classes, there are fewer than two of them, or epsilon is not
        valid.

    References
    ----------
    .. [1] G. Patrini, A. Rozza, A. K. Menon, R. Nock, L. Qu, "Making deep neural networks robust
       to label noise: a loss correction approach", CVPR 2017, :doi:`10.1109/CVPR.2017.240`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp.learning import corrected_labels
    >>> corrected_labels(["no", "yes"], epsilon=np.log(3), classes=["no", "yes"]).round(2)
    array([[ 1.5, -0.5],
           [-0.5,  1.5]])
    """
    labels = checked_reports(reports, "corrected_labels")
    size = labels[:1].size or 1
    channel = LabelChannel(epsilon, checked_classes(classes, "corrected_labels"), size)
    return channel.corrected(channel.encode(labels, "corrected_labels"))


class LabelChannel:
    """Randomised response over the classes, with what the server needs to read its reports."""

    # epsilon: budget of a label.
    # classes (n_classes,): the labels, sorted.
    # subset_size: number of classes in a report, as :class:`~sklearn_ldp.SubsetSelection` has
    # it.

    def __init__(self, epsilon: float, classes: np.ndarray, subset_size: int | str = 1) -> None:
        self.classes, n = classes, len(classes)
        self._domain = Domain.of(classes, "classes")
        oracle: Any = GRR(epsilon, categories=n)
        if subset_size != 1:
            oracle = SubsetSelection(epsilon, categories=n, subset_size=subset_size)
        self._protocol = oracle.protocol()
        self._mechanism: Any = self._protocol.mechanism
        p, q = self._mechanism.p, self._mechanism.q
        #: Number of classes in a report.
        self.size = int(getattr(self._mechanism, "size", 1))
        self.q = float(q)
        #: p - q: the weight of the true label in a report.
        self.signal = float(p - q)
        # The likelihood of a report has two levels; times the number of sets around a class.
        outside = (1 - p) / (n - self.size)
        #: That of a report without the true class, and what one with it has more.
        self.levels = float(outside), float(p / self.size - outside)

    def encode(self, y: ArrayLike, name: str) -> np.ndarray:
        """Return the code of each label, of the shape of the labels."""
        labels = np.asarray(y)
        codes = np.full(labels.shape, -1)
        if (labels.dtype.kind == "f") == (self.classes.dtype.kind == "f"):  # == is exact then
            for code, label in enumerate(self.classes):  # which beats a lookup of each row
                codes[labels == label] = code
        # What equals none of them may still be one, such as the text of a number.
        if np.any(codes < 0):
            codes = encoded_labels(self._domain, labels.ravel(), name).reshape(labels.shape)
        if codes.ndim > 1 and np.any(np.diff(np.sort(codes, axis=1), axis=1) == 0):
            raise ValueError(f"{name} got a report with the same class twice: a report is a set.")
        return codes

    def privatize(self, codes: np.ndarray, random_state: RandomState) -> np.ndarray:
        """Randomise codes of labels into labels, or into rows of labels if a report has several."""
        reports = self._protocol.privatize(codes, random_state)
        if self.size == 1:
            return self.classes[reports.reshape(len(codes))]
        return self.classes[self._mechanism.lists(reports)]

    def error_of_rates(self, n_samples: float) -> float:
        """Return the standard error of the estimated rate of a class that nobody has."""
        return float(np.sqrt(self.q * (1 - self.q) / n_samples) / self.signal)

    def corrected(self, codes: np.ndarray) -> np.ndarray:
        """Return unbiased indicators of the true labels, of shape (n, n_classes)."""
        indicators = np.full((len(codes), len(self.classes)), -self.q / self.signal)
        indicators[np.arange(len(codes))[:, None], codes.reshape(len(codes), -1)] += 1 / self.signal
        return indicators

    def corrected_probabilities(self, reported: np.ndarray, n_samples: float) -> np.ndarray:
        """Return the probabilities of the true labels, given those of the reported ones.

        Shapes: reported (n, n_classes) -> (n, n_classes).
        """
        # They are linear in each other. What a model has learnt from n reports may be
        # outside of [0, 1] afterwards; a probability is not set below the standard error
        # that the estimated rate of an absent class has, as nothing speaks for less.
        least = self.error_of_rates(n_samples)
        true = np.maximum((reported - self.q) / self.signal, min(least, 1 / len(self.classes)))
        return true / true.sum(axis=1, keepdims=True)


def encoded_labels(domain: Domain, labels: np.ndarray, name: str) -> np.ndarray:
    """Return the codes of labels, with errors that speak of classes and show no label."""
    try:
        return codes_on_client(domain, labels, name)
    except ValueError as error:
        text = str(error).replace("categories", "classes").replace("category", "class")
    raise ValueError(text)


def _refuse_missing(given: Any, labels: np.ndarray, name: str, where: str) -> None:
    # An array of text has none, but one that was made of a list calls its NaN "nan".
    listed = labels.tolist() if labels.dtype == object else []
    if labels.dtype.kind == "U" and isinstance(given, (list, tuple)):
        listed = list(given)
    if any(is_missing(label) for label in listed):
        raise ValueError(
            f"{name} got a missing label (None or NaN) {where}: give it a name of its own, such as "
            "'unknown', which is then one of the classes."
        )


def checked_labels(y: Any, name: str) -> np.ndarray:
    """Return users' labels as a vector."""
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    given = exact_array(y, is_listed=True)
    if given.dtype.kind == "c":  # scikit-learn's error would show them
        raise ValueError(f"Complex data not supported: {name} needs numbers or texts.")
    labels = column_or_1d(given, warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y", estimator_name=name)
    _refuse_missing(y, labels, name, "in y")
    if labels.dtype == object and set(map(type, labels.tolist())) == {int}:
        labels = integer_array(labels.tolist())
    if labels.dtype == object and type(labels[0]) is int:
        raise ValueError(
            f"{name} got integers of more than 64 bits in y, which scikit-learn refuses as labels: "
            "make all labels texts."
        )
    try:
        check_classification_targets(labels)
    except TypeError:  # labels that cannot be sorted
        raise ValueError(
            f"{name} needs labels that are all numbers or all strings: make missing ones a class."
        ) from None
    return labels


def checked_reports(reports: Any, name: str) -> np.ndarray:
    """Return users' randomised labels as a vector, or as a row of labels for each user."""
    rows = np.asarray(reports)
    if rows.ndim != 2 or rows.shape[1] < 2:
        return checked_labels(reports, name)
    return checked_labels(rows.ravel(), name).reshape(rows.shape)


def checked_classes(classes: Any, name: str) -> np.ndarray:
    """Return the classes, sorted."""
    try:
        is_array = hasattr(classes, "__array__")
        listed = exact_array(classes if is_array else list(classes), is_listed=True)
        _refuse_missing(classes, listed, name, "in classes=")
        found = np.unique(listed)
    except TypeError:
        raise ValueError(
            f"{name} needs classes that can be sorted, all numbers or all strings, got {classes!r}."
        ) from None
    if len(found) == 1:
        raise ValueError(
            f"{name} needs at least two classes, got 1 class: {found[0]!r}. Give all in classes=."
        )
    if listed.ndim != 1 or len(found) < len(listed) or not len(found):
        raise ValueError(f"{name} needs a list of different classes, got {classes!r}.")
    if found.dtype.kind == "f" and np.isnan(found).any():
        raise ValueError(f"{name} got NaN among its classes; leave it out.")
    return found


def steps_to_last(estimator: Any) -> tuple[list[str], Any]:
    """Return the names that lead to the last step of nested Pipelines, and that step."""
    names = []
    # Ends: pipelines are nested finitely often.
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        names.append(name)
    return names, estimator
