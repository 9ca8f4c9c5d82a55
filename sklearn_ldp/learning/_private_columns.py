"""`PrivatizedColumns`: a transformer that randomizes columns and returns unbiased indicators."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from .._core.common.docs import Documented
from .._core.common.privacy import WatchesRefits, refuse_memory, warn_of_epsilon, warn_of_learned
from .._core.common.random import RandomState
from .._core.common.typing import Values
from .._core.domains import RecordDomain
from .._core.domains.values import column_names, read_once
from .._core.fitting import Budget
from .._core.mechanisms import CoinStreams, Protocol, privatize
from .._core.mechanisms.protocol import reports_of
from ..oracles.channels import Channel
from ..privacy import PrivacyWarning
from ..surveys import ColumnOracle

_CHUNK_CELLS = 1 << 22  # indicators that are computed in one step

# The key makes digests of randomized rows useless outside of this process.
_KEY = os.urandom(32)


class _AllColumns(ColumnOracle):
    """A ColumnOracle that asks each user about all columns.

    Its error messages name `PrivatizedColumns`, the class that the user called.
    """

    _name = "PrivatizedColumns"


class ReadsColumns(Documented, WatchesRefits):
    """Base class of the estimators whose input X has columns of private categories."""

    random_state: RandomState

    #: Whether values are categories. Checks of older scikit-learn versions convert them to floats.
    _reads_categories = True

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _keep_names(self, X: Values, features: Iterable[Any]) -> None:
        """Store `feature_names_in_` if the columns of X have names that are all strings.

        features: the names to store.
        """
        self.__dict__.pop("feature_names_in_", None)
        names = column_names(X)
        if names is not None and all(isinstance(name, str) for name in names):
            self.feature_names_in_: np.ndarray = np.array(list(features), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.non_deterministic = self.random_state is None
        return tags


class PrivatizedColumns(ReadsColumns, TransformerMixin, BaseEstimator):
    """Randomize the columns of each user, and return unbiased indicators of the true values.

    Each user reports on all columns, which share epsilon such that the sum of the variances of all
    indicators is minimal. The output has a column of floats for each category v of each column:

    .. math:: Z_v = \\frac{[\\text{the report supports } v] - q}{p - q},

    with the exact support probabilities p and q of the column's oracle. A report supports v if it
    counts as evidence for v, which has the probability p for the user's own category and q for each
    other one. The expectation of :math:`Z_v` is 1 for the user's own category and 0 for the others.
    So sums of indicators over users are unbiased, and also sums of their products with public
    values or with indicators of *another* column.
    Products of indicators of the same column are biased: a model that uses them needs a correction,
    such as :class:`CorrectedRidge`.

    Privacy: each call of `transform`, `fit_transform` or `privatize` on values spends epsilon of
    the user of each row, for all columns together. So `predict` of a pipeline randomizes the new
    rows as well, and a cross-validation randomizes each row several times, which is for
    simulations. In a deployment clients call `privatize` once, and the server fits and predicts
    with ``input="reports"``, which is free. `fit` by itself releases nothing, unless it learns the
    domains from the values. Other columns that a pipeline passes to the model are not protected.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of a user's whole report, on all columns together, > 0.
    domains : "auto" or mapping of str to categories, default="auto"
        The public domain of each column, as an argument of :class:`~sklearn_ldp.Domain`. "auto",
        for all columns or for a column in the mapping, uses the levels that a column of a data
        frame declares (categorical dtypes). Without declared levels, `fit` learns a domain from
        the raw values, which leaks the values that occur and is for simulations only. A data frame
        must have no columns without an entry in the mapping.
    oracle : "best", oracle or mapping of str to oracle, default="best"
        The oracle of each column, as for :class:`~sklearn_ldp.ColumnOracle`. "best" is the oracle
        with the minimum total variance of the indicators.
    input : {"values", "reports"}, default="values"
        Whether `fit`, `transform` and `fit_transform` read users' raw values or their reports.
    random_state : int, RandomState, Generator or None, default=None
        If None, all random bits come from a secure source. Any other value makes reports
        predictable, and is for simulations. With an int, each call uses the same random bits; with
        a Generator, calls use different ones.

    Attributes
    ----------
    slices_ : dict of str to range
        For each column of the input, the positions of its indicators in the output. Pass this dict
        as the parameter `private` of :class:`CorrectedRidge` (if these indicators are the first
        columns of its input).
    oracles_ : dict of str to oracle
        The unfitted oracle of each column; its `epsilon` is the column's part of the budget.
    n_features_in_ : int
        Number of columns of X; with ``input="reports"``, number of integers in a report.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, in the order of `domains`, if the values seen in `fit` had names.

    See Also
    --------
    CorrectedRidge : Regression without the bias that noisy indicators cause.
    sklearn_ldp.ColumnOracle : Frequencies only, with less noise: each user reports on one column.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp.learning import PrivatizedColumns
    >>> users = [["F", 2], ["M", 0], ["F", 1]]
    >>> domains = {"sex": ["F", "M"], "age": 3}
    >>> transformer = PrivatizedColumns(epsilon=4.0, domains=domains, random_state=0)
    >>> transformer.fit_transform(users).shape
    (3, 5)
    >>> transformer.get_feature_names_out().tolist()
    ['sex_F', 'sex_M', 'age_0', 'age_1', 'age_2']
    >>> transformer.slices_
    {'sex': range(0, 2), 'age': range(2, 5)}
    >>> many = transformer.transform([["F", 2]] * 100_000)
    >>> np.abs(many.mean(axis=0).round(1))
    array([1., 0., 0., 0., 1.])
    >>> reports = transformer.privatize(users)
    >>> transformer.set_params(input="reports").fit_transform(reports).shape
    (3, 5)
    """

    _parameter_constraints: dict = {
        "epsilon": [Budget()],
        "domains": "no_validation",  # RecordDomain validates it
        "oracle": ColumnOracle._parameter_constraints["oracle"],
        "input": [StrOptions({"values", "reports"})],
        "random_state": [None, Integral, np.random.RandomState, np.random.Generator],
    }

    _fitted_protocol: Any
    _released: bytes | None = None

    #: The scikit-learn checks that this estimator cannot pass, with the reasons.
    _expected_failed_checks = {
        "check_methods_sample_order_invariance": "the random bits depend on the place of a row",
        "check_methods_subset_invariance": "the random bits depend on the place of a row",
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        domains: Any = "auto",
        oracle: Any = "best",
        input: str = "values",
        random_state: RandomState = None,
    ) -> None:
        self.epsilon = epsilon
        self.domains = domains
        self.oracle = oracle
        self.input = input
        self.random_state = random_state

    # -- client side --------------------------------------------------------------------------
    def protocol(self, collection_round: str = "") -> Protocol:
        """Return the protocol of clients and server, for files of reports.

        ``ColumnOracle(strategy="split-budget")`` has the same protocol, and estimates frequencies
        from the same reports. Files of reports are shuffled to hide the senders. If each report
        belongs to a row of public features, store both in the same row of a table instead.

        Parameters
        ----------
        collection_round : str, default=""
            Name of the collection.

        Returns
        -------
        Protocol
            The mechanism, the domains and the round.

        Raises
        ------
        ValueError
            If a parameter is not valid, or the domains are not declared.
        """
        return replace(self._protocol(collection_round), name=ColumnOracle.__name__)

    def privatize(self, X: Values) -> np.ndarray:
        """Randomize users' values into reports on the client; no fit is needed.

        Privacy: each call spends epsilon of every user in `X`. Only ``random_state=None`` protects
        the users.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_columns)
            One row per user.

        Returns
        -------
        ndarray of shape (n_samples, width)
            The reports, which `transform` reads with ``input="reports"``.

        Raises
        ------
        ValueError
            If a value is not in the domain of its column, or the domains are neither declared nor
            learned.
        """
        protocol = self._protocol()
        warn_of_epsilon(self._name, self.epsilon, self.random_state)
        # Errors name this class, but the reports have the protocol of ColumnOracle.
        return reports_of(protocol.privatize(X, self.random_state), self.protocol())

    # -- as a transformer ---------------------------------------------------------------------
    def fit(self, X: Values, y: object = None) -> Self:
        """Learn domains that are not declared, and check that all values or reports are valid.

        Nothing is randomized.

        Privacy: costs none if the domains are declared. With ``domains="auto"`` and columns
        without declared levels, `fit` reveals the values that occur.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_columns)
            One row per user, or one report per user with ``input="reports"``.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The fitted transformer.

        Raises
        ------
        ValueError
            If a value is not in the domain of its column, or a report cannot come from the oracles.
        """
        self._fit(X)
        return self

    def fit_transform(self, X: Values, y: object = None) -> np.ndarray:
        """Fit, randomize the users' values once, and return their indicators.

        Privacy: spends epsilon of every user in `X`, unless `X` contains reports.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_columns)
            As for `fit`.
        y : None
            Ignored.

        Returns
        -------
        ndarray of shape (n_samples, n_indicators)
            The indicators.

        Raises
        ------
        ValueError
            As for `fit`; also in a ``Pipeline(memory=...)`` without a seed, because joblib would
            write raw values to a disk.
        """
        if self.input == "values" and self.random_state is None:
            refuse_memory(self._name)
        rows = self._fit(X, releases=True)
        if self.input == "values":
            self._released = _digest(rows)
        return self._indicators(rows)

    def transform(self, X: Values) -> np.ndarray:
        """Randomize the values of users and return their indicators.

        Privacy: spends epsilon of every user in `X`, unless `X` contains reports. If `X` equals the
        rows that `fit_transform` has randomized, a :class:`~sklearn_ldp.PrivacyWarning` warns that
        their users spend epsilon twice.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_columns)
            As for `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_indicators)
            The indicators.

        Raises
        ------
        ValueError
            As for `fit`.
        """
        check_is_fitted(self)
        rows = self._rows(self._fitted_protocol, read_once(X))
        if self.input == "values" and _digest(rows) == self._released:
            warnings.warn(
                "PrivatizedColumns.transform got the rows that fit_transform has randomized, so "
                f"their users spend epsilon={self._fitted_protocol.epsilon:g} again. Store the "
                "output of fit_transform, or pass the output of privatize with "
                'input="reports".',
                PrivacyWarning,
                stacklevel=2,
            )
        return self._indicators(rows)

    def true_indicators(self, X: Values) -> np.ndarray:
        """Return the indicators of true values without noise, in the columns of `transform`.

        Privacy: not private. This method is for simulations, for predictions on the client, and
        for rows that the server has anyway.

        Parameters
        ----------
        X : data frame, or array-like of shape (n_samples, n_columns)
            Values.

        Returns
        -------
        ndarray of shape (n_samples, n_indicators)
            1 for the category of each column, otherwise 0.

        Raises
        ------
        ValueError
            If a value is not in the domain of its column, or the domains are neither declared nor
            learned.
        """
        domain = self._domain()
        codes = domain.encode(X, self._name)
        result = np.zeros((len(codes), domain.size))
        starts = [columns.start for columns in _slices(domain).values()]
        np.put_along_axis(result, codes.astype(np.intp) + starts, 1, axis=1)
        return result

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Name the indicators after the columns and their categories.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Compared with the names seen in `fit`, and otherwise ignored.

        Returns
        -------
        ndarray of shape (n_indicators,)
            Names such as "state_CA", in the order of the output.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        return self._domain().names

    def __getstate__(self) -> dict[str, Any]:
        # Other processes must not be able to recognize the randomized rows.
        return {k: v for k, v in super().__getstate__().items() if k != "_released"}

    # -- implementation -----------------------------------------------------------------------
    def _domain(self) -> RecordDomain:
        """Return the domains of the columns: the domains used by `fit`, or the declared domains."""
        if hasattr(self, "_fitted_protocol"):
            return self._fitted_protocol.domain
        return RecordDomain.declared(self.domains, self._name)

    def _collector(self, domain: RecordDomain) -> _AllColumns:
        options: dict[str, Any] = {"oracle": self.oracle, "random_state": self.random_state}
        options |= {"strategy": "split-budget", "n_shards": 1}
        return _AllColumns(self.epsilon, domains=domain, **options)

    def _protocol(self, collection_round: str = "") -> Protocol:
        self._validate_params()
        return self._supporting(self._collector(self._domain()).protocol(collection_round))

    def _supporting(self, protocol: Any) -> Protocol:
        """Return the protocol, or raise TypeError if its oracles cannot provide indicators.

        Indicators need oracles whose reports support categories with known probabilities.
        """
        if not all(isinstance(channel, Channel) for channel in protocol.mechanism.mechanisms):
            raise TypeError(
                f"{self._name} needs an oracle with known probabilities p and q that a report "
                f"supports a category, got oracle={self.oracle!r}. Pass oracle='best', or an "
                "oracle such as GRR() or OUE()."
            )
        return protocol

    def _fit(self, X: Any, *, releases: bool = False) -> np.ndarray:
        """Fit the transformer to X, and return X as an array of integers.

        Returns: the checked reports if X contains reports. If X contains values, their codes, the
        positions of the values in the domains.
        releases: whether the caller randomizes and returns the values, which spends epsilon.
        """
        self._validate_params()
        X = read_once(X)
        reads_values = self.input == "values"
        if reads_values:
            domain, learned = RecordDomain.of_values(self.domains, X, self._name)
            if learned:
                warn_of_learned(self._name, learned, "domains", self.random_state)
        else:
            domain = RecordDomain.declared(self.domains, self._name)
        collector = self._collector(domain)
        protocol = self._supporting(collector.protocol())
        rows = self._rows(protocol, X)
        if reads_values and releases:
            warn_of_epsilon(self._name, self.epsilon, self.random_state)
            self._warn_of_refit(self.random_state)
        self._fitted_protocol = protocol
        self._released = None
        self.slices_: dict[Any, range] = _slices(domain)
        planned = collector.__collector__().planned()
        self.oracles_: dict[Any, Any] = {name: column.oracle for name, column in planned.items()}
        self.n_features_in_: Any = rows.shape[1]
        self._keep_names(X, domain.columns if reads_values else column_names(X) or [])
        return rows

    def _rows(self, protocol: Protocol, X: Any) -> np.ndarray:
        """Check X, and return it as an array of integers.

        Returns: the reports if X contains reports; otherwise the codes of the values, their
        positions in the domains.
        """
        if self.input == "reports":  # reports have the protocol of ColumnOracle
            return replace(protocol, name=ColumnOracle.__name__).check(X)
        return protocol.domain.encode(X, self._name)

    def _indicators(self, rows: np.ndarray) -> np.ndarray:
        """Return the unbiased indicators, of shape (n_samples, n_indicators).

        rows: the result of `_rows`. If it contains codes of values, they are randomized first.
        """
        mechanism = self._fitted_protocol.mechanism
        if self.input == "values":
            rows = privatize(mechanism, rows, 0, CoinStreams(self.random_state))
        result = np.empty((len(rows), self._fitted_protocol.domain.size))
        for j, columns in enumerate(self.slices_.values()):
            channel = mechanism.mechanisms[j]
            answers = mechanism.reports_on(rows, j)
            p, q = float(channel.p), float(channel.q)
            codes = np.arange(len(columns))
            for chunk in gen_batches(len(rows), max(_CHUNK_CELLS // len(columns), 1)):
                supported = channel.supports(answers[chunk], codes)
                result[chunk, columns.start : columns.stop] = (supported - q) / (p - q)
        return result


def _slices(domain: RecordDomain) -> dict[Any, range]:
    """Return a dict with the range of positions of each column's indicators in the output."""
    ends = np.cumsum([0, *domain.sizes]).tolist()
    ranges = (range(start, stop) for start, stop in pairwise(ends))
    return dict(zip(domain.columns, ranges, strict=True))


def _digest(codes: np.ndarray) -> bytes:
    """Return a hash of the codes of users' values, with a secret key of this process.

    Another process cannot test guesses of the values with it.
    """
    return hashlib.blake2b(np.ascontiguousarray(codes).data, key=_KEY).digest()
