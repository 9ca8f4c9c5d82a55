"""Randomization of labels on the client, and unbiased decoding on the server."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, bdtrc
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from .._core.common.privacy import PrivacyWarning, warn_once
from .._core.common.random import RandomState
from .._core.common.text import integer_array
from .._core.domains import Domain, codes_on_client
from .._core.domains.values import exact_array, is_missing
from .._core.mechanisms.matrix import MatrixChannel
from .._core.mechanisms.protocol import Reports, difference_of_attached
from ..oracles import GRR, SubsetSelection

# If honest reports have such frequencies with less probability, the input is not reports. The rate
# is small, because a search checks the reports of each fold.
_BY_CHANCE = 1e-9
_MOST_FAKE = 0.15  # share of faulty reports up to which there is only a warning, as in Protocol


def corrected_labels(
    reports: ArrayLike,
    *,
    epsilon: float | None = None,
    classes: ArrayLike | None = None,
    oracle: Any = None,
) -> np.ndarray:
    """Return unbiased indicators of the true label of each user, from randomized labels.

    Labels come from randomized response: a user reports the true class with probability p, and each
    other class with probability q. Let y' be the reported class. The corrected label of class k is

    .. math:: \\tilde y_k = \\frac{1[y' = k] - q}{p - q}.

    Its expectation is 1 for the true class and 0 for the others (a backward correction [1]_). So
    means of quantities that are linear in the indicators of the true labels are unbiased if the
    corrected labels replace them: log losses, accuracies, sums of features by class. If reports are
    sets, y' = k means that k is in the set, p is the probability that the set contains the true
    class, and q the probability that it contains a particular other class. For an oracle with
    channel matrix A, the corrected labels of an output are its column of a left inverse of A.

    Parameters
    ----------
    reports : array-like of shape (n_samples,) or (n_samples, subset_size)
        Randomized labels, or sets of labels, as :meth:`LabelDPClassifier.privatize` returns them.
    epsilon : float, default=None
        The privacy budget with which the labels were randomized, > 0. Required without an oracle.
    classes : array-like of shape (n_classes,), default=None
        All possible labels. Required without an oracle.
    oracle : MatrixOracle or oracle of a ResponseDesign, default=None
        The oracle of the reports. A report is then the index of one of its outputs.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The corrected labels, which may be below 0 or above 1. Each row sums to 1; columns are in
        the order of the sorted classes.

    Raises
    ------
    ValueError
        If a report is not one of the classes, there are fewer than two classes, epsilon is not
        valid, or reports are of another protocol.

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
    channel, codes = reported_codes(reports, epsilon, classes, oracle, "corrected_labels")
    return channel.corrected(codes)


def reported_codes(
    reports: Any, epsilon: float | None, classes: Any, oracle: Any, name: str
) -> tuple[LabelChannel, np.ndarray]:
    """Return the channel of reports, and their codes."""
    if {epsilon is None, classes is None} != {oracle is not None}:
        raise ValueError(
            f"{name} got epsilon={epsilon!r}, classes={classes!r:.80} and oracle={oracle!r:.80}. "
            "Pass both epsilon= and classes=, or only oracle=."
        )
    if oracle is not None:
        channel: LabelChannel = OracleChannel(oracle, name)
        return channel, channel.report_codes(reports, name)
    labels = checked_reports(reports, name)
    assert epsilon is not None
    channel = LabelChannel(epsilon, checked_classes(classes, name), labels[:1].size or 1)
    return channel, channel.report_codes(reports, name)


def chance_of_frequencies(
    codes: np.ndarray, lowest: np.ndarray, highest: np.ndarray, groups: np.ndarray | int = 0
) -> tuple[float, float]:
    """Test whether reports can have their frequencies, for any true values of the users.

    Shapes: codes (n,) or (n, size), lowest and highest (n_outputs,), groups () or (n,).
    codes: the outputs in each report. lowest, highest: the minimum and the maximum probability of
    each output over all true values. groups: the group of each user, which may depend on the true
    value, but not on the random bits of the report. The frequencies of each group are tested.
    Returns: a bound of the probability of so extreme frequencies, and the minimum proportion of
    faulty reports that can explain the most extreme frequency.
    """
    # The reports of users are independent, and each contains the output with a probability between
    # the two limits. So the number of reports with the output is stochastically between two
    # binomial variables. The factor is the number of tests (Bonferroni).
    rows = codes.reshape(len(codes), -1)
    groups = np.broadcast_to(groups, len(rows))
    counts = np.zeros((groups.max(initial=0) + 1, len(lowest)))
    np.add.at(counts, (groups[:, None], rows), 1)
    sizes = np.bincount(groups, minlength=1)[:, None]
    chances = np.minimum(bdtr(counts, sizes, lowest), bdtrc(counts - 1, sizes, highest))
    shares = counts / np.maximum(sizes, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        faulty = np.fmax(1 - shares / lowest, (shares - highest) / (1 - highest))
    return 2 * chances.size * float(chances.min()), float(faulty.flat[chances.argmin()])


def refuse_frequencies(
    reports: Any,
    codes: np.ndarray,
    limits: tuple[np.ndarray, np.ndarray],
    sample_weight: ArrayLike | None,
    name: str,
) -> None:
    """Raise an error if reports cannot have their frequencies; warn if few are faulty.

    Reports with a protocol are not tested, and rows with weights neither, because such a row may
    represent several users. codes and limits: as for `chance_of_frequencies`.
    """
    if is_attached(reports) or sample_weight is not None:
        return
    chance, faulty = chance_of_frequencies(codes, *limits)
    if chance >= _BY_CHANCE:
        return
    text = (
        f"{name} got reports whose frequencies are impossible for this epsilon: {faulty:.0%} or "
        "more cannot be reports. If these are true labels, randomize them with privatize. If they "
        "are reports, use the epsilon of the clients."
    )
    if faulty > _MOST_FAKE:
        raise ValueError(text)
    warn_once(text, UserWarning, f"frequencies of {name}")


class LabelChannel:
    """Randomized response for class labels: randomizes labels, and decodes reports."""

    # epsilon: budget of a label.
    # classes (n_classes,): the labels, sorted.
    # subset_size: number of classes in a report, see :class:`~sklearn_ldp.SubsetSelection`.

    def __init__(self, epsilon: float, classes: np.ndarray, subset_size: int | str = 1) -> None:
        self.classes = classes
        n = len(classes)
        self.epsilon = epsilon
        self.n_outputs = n
        self._domain = Domain.of(classes, "classes")
        oracle: Any = GRR(epsilon, categories=n)
        if subset_size != 1:
            oracle = SubsetSelection(epsilon, categories=n, subset_size=subset_size)
        self._protocol = oracle.protocol()
        #: The protocol of the reports, which are labels instead of codes.
        self.protocol = replace(self._protocol, domain=self._domain)
        self._mechanism: Any = self._protocol.mechanism
        p, q = self._mechanism.p, self._mechanism.q
        #: Number of classes in a report.
        self.size = int(getattr(self._mechanism, "size", 1))
        self.q = float(q)
        #: p - q: the weight of the true label in a report.
        self.signal = float(p - q)
        #: The minimum and the maximum probability that a report contains a given class.
        self.limits = (np.full(n, float(q)), np.full(n, float(p)))
        # The likelihood of a report has two levels, here multiplied by the number of sets that
        # contain a given class.
        outside = (1 - p) / (n - self.size)
        #: The likelihood of a report without the true class, and the increment with it.
        self.levels = float(outside), float(p / self.size - outside)

    def encode(self, y: ArrayLike, name: str) -> np.ndarray:
        """Return the code of each label (its position in the classes), in the shape of `y`."""
        labels = np.asarray(y)
        codes = np.full(labels.shape, -1)
        if (labels.dtype.kind == "f") == (self.classes.dtype.kind == "f"):  # == is exact then
            for code, label in enumerate(self.classes):  # faster than a lookup of each row
                codes[labels == label] = code
        # A label that equals none of the classes may still denote a class: the text of a number.
        if np.any(codes < 0):
            codes = encoded_labels(self._domain, labels.ravel(), name).reshape(labels.shape)
        if codes.ndim > 1 and np.any(np.diff(np.sort(codes, axis=1), axis=1) == 0):
            raise ValueError(
                f"{name} got a report with the same class twice, but a report is a set of "
                "different classes. Pass the reports that privatize returns."
            )
        return codes

    def report_codes(self, reports: Any, name: str) -> np.ndarray:
        """Check reports, and return the integer code of each report."""
        difference = difference_of_attached(self.protocol, reports)
        if difference:
            raise ValueError(
                f"{name} got reports of another collection: {difference}. Use the epsilon, the "
                "classes and the subset_size of the clients."
            )
        return self.encode(checked_reports(reports, name), name)

    def reports(self, codes: np.ndarray) -> np.ndarray:
        """Return the reports with these codes."""
        return self.classes[codes]

    def likelihoods(self, codes: np.ndarray) -> np.ndarray:
        """Return the probability of each report given each class, up to a common factor.

        Shapes: codes (n,) or (n, size) -> (n, n_classes).
        """
        outside, rise = self.levels
        chances = np.full((len(codes), len(self.classes)), outside)
        chances[np.arange(len(codes))[:, None], codes.reshape(len(codes), -1)] += rise
        return chances

    def as_responses(self, reported: np.ndarray) -> np.ndarray:
        """Return probabilities of reports as if randomized response had made these reports.

        Shapes: reported (n, n_reports) -> (n, n_classes).
        """
        return reported

    def privatize(self, codes: np.ndarray, random_state: RandomState) -> np.ndarray:
        """Randomize labels, and return the reports.

        codes: for each user, the position of the label in the sorted classes.
        Returns: for each user, a class; if a report is a set of classes, a row of classes.
        """
        reports = self._protocol.privatize(codes, random_state)
        if self.size == 1:
            return self.classes[reports.reshape(len(codes))]
        return self.classes[self._mechanism.lists(reports)]

    def error_of_rates(self, n_samples: float) -> float:
        """Return the standard error of the estimated frequency of a class that no user has."""
        return float(np.sqrt(self.q * (1 - self.q) / n_samples) / self.signal)

    def corrected(self, codes: np.ndarray) -> np.ndarray:
        """Return unbiased indicators of the true labels, of shape (n, n_classes)."""
        indicators = np.full((len(codes), len(self.classes)), -self.q / self.signal)
        indicators[np.arange(len(codes))[:, None], codes.reshape(len(codes), -1)] += 1 / self.signal
        return indicators

    def corrected_probabilities(self, reported: np.ndarray, n_samples: float) -> np.ndarray:
        """Return the probabilities of the true labels from the result of `as_responses`.

        Shapes: reported (n, n_classes) -> (n, n_classes).
        """
        # The map is linear. Probabilities from a model that was fitted to n reports may be mapped
        # outside of [0, 1]. The minimum is the standard error of the estimated rate of an absent
        # class, because n reports cannot show that a probability is smaller.
        least = self.error_of_rates(n_samples)
        true = np.maximum((reported - self.q) / self.signal, min(least, 1 / len(self.classes)))
        return true / true.sum(axis=1, keepdims=True)


class OracleChannel(LabelChannel):
    """The channel of an oracle, such as a survey design, that sends the index of an output."""

    size = 1

    def __init__(self, oracle: Any, name: str) -> None:
        protocol: Any = oracle.protocol() if hasattr(oracle, "protocol") else None
        mechanism = getattr(protocol, "mechanism", None)
        if not isinstance(mechanism, MatrixChannel):
            raise ValueError(
                f"{name} needs a MatrixOracle or the oracle of a ResponseDesign, got oracle="
                f"{oracle!r:.80}. For randomized response pass epsilon= and classes= instead."
            )
        self._oracle = oracle
        self._protocol = self.protocol = protocol
        self._domain = protocol.domain
        self.epsilon = oracle.epsilon
        self.n_outputs = mechanism.n_reports
        self.classes = checked_classes(self._domain.categories, name)
        order = np.argsort(self._domain.categories)
        self._places = np.argsort(order)  # of each category among the sorted classes
        #: (n_outputs, n_classes): the probability of each output given each class.
        self.matrix = mechanism.probabilities[:, order]
        self.limits = (self.matrix.min(axis=1), self.matrix.max(axis=1))
        self._decoding = mechanism.decoding[order]
        # The equivalent randomized response has the same mean Fisher information, if all classes
        # are equally frequent: n_classes * signal**2 for each contrast of classes.
        n = len(self.classes)
        spread = self.matrix - self.matrix.mean(axis=1, keepdims=True)
        squares = spread**2 / self.matrix.sum(axis=1, keepdims=True)
        self.signal = float(np.sqrt(squares.sum() / (n - 1)))
        self.q = (1 - self.signal) / n
        self._null_variance = mechanism.null_variance

    def encode(self, y: ArrayLike, name: str) -> np.ndarray:
        return self._places[encoded_labels(self._domain, np.asarray(y).ravel(), name)]

    def report_codes(self, reports: Any, name: str) -> np.ndarray:
        return self._protocol.check(reports)

    def reports(self, codes: np.ndarray) -> np.ndarray:
        return codes

    def privatize(self, codes: np.ndarray, random_state: RandomState) -> np.ndarray:
        oracle = clone(self._oracle).set_params(random_state=random_state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # the classifier has warned
            return np.asarray(oracle.privatize(self.classes[codes]))

    def error_of_rates(self, n_samples: float) -> float:
        return float(np.sqrt(self._null_variance / n_samples))

    def likelihoods(self, codes: np.ndarray) -> np.ndarray:
        return self.matrix[codes]

    def corrected(self, codes: np.ndarray) -> np.ndarray:
        return self._decoding.T[codes]

    def as_responses(self, reported: np.ndarray) -> np.ndarray:
        return np.maximum(self.q + self.signal * reported @ self._decoding.T, 0)


def is_attached(reports: Any) -> bool:
    """Return whether a protocol is attached to reports."""
    return isinstance(reports, Reports) and reports.configuration is not None


def encoded_labels(domain: Domain, labels: np.ndarray, name: str) -> np.ndarray:
    """Return the position of each label in the domain.

    Error messages do not show the labels, because labels are secret. name: the calling class.
    """
    try:
        return codes_on_client(domain, labels, name)
    except ValueError as error:
        text = str(error).replace("categories", "classes").replace("category", "class")
    raise ValueError(text)


def _refuse_missing(y: Any, labels: np.ndarray, name: str, where: str) -> None:
    # An array of texts has no missing values, but conversion of a list turns NaN into "nan".
    listed = labels.tolist() if labels.dtype == object else []
    if labels.dtype.kind == "U" and isinstance(y, (list, tuple)):
        listed = list(y)
    if any(is_missing(label) for label in listed):
        raise ValueError(
            f"{name} got a missing label (None or NaN) {where}. Replace missing labels by a name "
            "such as 'unknown', and add this name to the classes."
        )


def checked_labels(y: Any, name: str) -> np.ndarray:
    """Check the labels of the users, and return them as an array of shape (n_samples,)."""
    if y is None:
        raise ValueError(
            f"{name} requires y to be passed, but the target y is None. Pass the users' labels."
        )
    array = exact_array(y, is_listed=True)
    if array.dtype.kind == "c":  # scikit-learn's error would show the labels
        raise ValueError(
            f"Complex data not supported: {name} needs real numbers or texts. Convert the labels."
        )
    labels = column_or_1d(array, warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y", estimator_name=name)
    _refuse_missing(y, labels, name, "in y")
    if labels.dtype == object and set(map(type, labels.tolist())) == {int}:
        labels = integer_array(labels.tolist())
    if labels.dtype == object and type(labels[0]) is int:
        raise ValueError(
            f"{name} got integers of more than 64 bits in y, which scikit-learn does not accept as "
            "labels. Convert all labels to texts."
        )
    try:
        check_classification_targets(labels)
    except TypeError:  # labels that cannot be sorted
        raise ValueError(
            f"{name} needs labels that are all numbers or all strings. If labels are missing, "
            "replace them by a class such as 'unknown'."
        ) from None
    return labels


def checked_reports(reports: Any, name: str) -> np.ndarray:
    """Check the reports of the users, and return them as an array.

    The shape is (n_samples,), or (n_samples, subset_size) if a report is a set of labels.
    """
    rows = np.asarray(reports)
    if not rows.size:
        raise ValueError(f"{name} got no reports. Pass at least 1 report.")
    if rows.ndim != 2 or rows.shape[1] < 2:
        return checked_labels(reports, name)
    return checked_labels(rows.ravel(), name).reshape(rows.shape)


def checked_classes(classes: Any, name: str) -> np.ndarray:
    """Check the classes, and return them sorted."""
    try:
        is_array = hasattr(classes, "__array__")
        listed = exact_array(classes if is_array else list(classes), is_listed=True)
        _refuse_missing(classes, listed, name, "in classes=")
        distinct = np.unique(listed)
    except TypeError:
        raise ValueError(
            f"{name} needs classes that can be sorted, got {classes!r}. Pass only numbers or only "
            "strings."
        ) from None
    if len(distinct) == 1:
        raise ValueError(
            f"{name} needs at least two classes, got 1 class: {distinct[0]!r}. Pass all possible "
            "labels in classes=."
        )
    if listed.ndim != 1 or len(distinct) < len(listed) or not len(distinct):
        raise ValueError(
            f"{name} needs a list of different classes, got {classes!r}. Pass each class only once."
        )
    if distinct.dtype.kind == "f" and np.isnan(distinct).any():
        raise ValueError(f"{name} got NaN among its classes. Remove NaN from classes=.")
    return distinct


def steps_to_last(estimator: Any) -> tuple[list[str], Any]:
    """Return the last step of nested Pipelines, and the names of the steps that lead to it.

    The names come first. The list is empty if the estimator is not a Pipeline.
    """
    names = []
    # Ends: the nesting of pipelines is finite.
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        names.append(name)
    return names, estimator
