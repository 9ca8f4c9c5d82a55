"""Categories as numbers: their estimated frequency, or the estimated rate of a target."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import StrOptions

from .._documentation import Documented
from .._estimate import FrequencyEstimate
from .._estimate_set import EstimateSet
from .._typing import Column, Values
from ..domains import Domain
from ..domains._columns import as_columns, column_names, read_once
from ..domains._values import is_missing

# Each of these passes if the encoder has as many columns as the data of the check.
_OF_ONE_WIDTH = (
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit1d",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_transformer_data_not_an_array",
    "check_transformer_general",
    "check_transformer_preserve_dtypes",
    "check_transformers_unfitted_stateless",
)


@dataclass(frozen=True)
class _Lookup:
    """What the values of one or several columns become."""

    columns: list[Any]
    domain: Domain
    numbers: np.ndarray


class CategoryEncoder(Documented, TransformerMixin, BaseEstimator):
    """Base of the encoders that replace each category by a number.

    A subclass says in `_lookups` what the values of which columns become. It has the parameters
    `handle_unknown` and `unknown_value`, learns nothing from data, and is fitted from the start.
    """

    _parameter_constraints: dict = {
        "handle_unknown": [StrOptions({"error", "use_encoded_value"})],
        "unknown_value": [Real, None],
    }
    _suffix: str
    _fitted_names: np.ndarray | None = None

    # scikit-learn's checks that cannot pass, and why.
    _expected_failed_checks = {
        "check_n_features_in": "it is fitted from the start, and knows the number of its columns",
        **dict.fromkeys(_OF_ONE_WIDTH, "the estimates are of other columns than the check's data"),
    }

    handle_unknown: str
    unknown_value: float | None

    @abstractmethod
    def _inputs(self) -> list[list[Any]]:
        """The columns of X that each column of the result is from; numbers without names."""

    @abstractmethod
    def _lookups(self) -> list[_Lookup]:
        """What the values become, for each column of the result."""

    @abstractmethod
    def _of_unknown(self) -> float:
        """What a value becomes that is no category."""

    def _names(self) -> list[Any] | None:
        """Names of the columns of X, in the order of an array; None if they are not known."""
        return list(dict.fromkeys(key for columns in self._inputs() for key in columns))

    # -- as a transformer ---------------------------------------------------------------------
    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = self.handle_unknown != "error"
        tags.requires_fit = False
        return tags

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X."""
        return len({key for columns in self._inputs() for key in columns})

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns of X, of shape `(n_features_in_,)`, where they are known."""
        names = self._names()
        if names is None:
            names = [] if self._fitted_names is None else self._fitted_names.tolist()
        if not names or not all(isinstance(name, str) for name in names):
            raise AttributeError(f"{type(self).__name__} does not know the names of its columns.")
        return np.array(names, dtype=object)

    def fit(self, X: Values, y: object = None) -> Self:
        """Check that X can be encoded; nothing is learnt from it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_in_)
            Values, as for `transform`.
        y : None
            Ignored.

        Returns
        -------
        Self
            The encoder.

        Raises
        ------
        ValueError
            If a parameter is not valid, or as for `transform`.
        """
        X = read_once(X)
        self._fitted_names = None
        self._encoded(X)
        names = column_names(X)
        if self._names() is None and names is not None:
            self._fitted_names = np.array(names, dtype=object)
        return self

    def transform(self, X: Values) -> np.ndarray:
        """Replace each category by its number.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_in_)
            Values in any container: a data frame with the columns in any order, or an array with
            the columns in the order of the estimates; a single column may have one dimension.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            The numbers, float64.

        Raises
        ------
        ValueError
            If X has other columns; or, unless `handle_unknown` says otherwise, if a value is
            missing or no category.
        """
        return self._encoded(X)

    def _encoded(self, X: Values) -> np.ndarray:
        self._check()
        columns = self._columns_of(read_once(X))
        lookups = self._lookups()
        encoded = np.empty((len(next(iter(columns.values()))), len(lookups)))
        for j, one in enumerate(lookups):
            values = [columns[key] for key in one.columns if key in columns]
            places = one.domain.places(values, type(self).__name__)
            unknown = places < 0
            encoded[:, j] = one.numbers[places]
            if unknown.any():
                if self.handle_unknown == "error":
                    self._refuse([column[np.argmax(unknown)] for column in values], one)
                encoded[unknown, j] = self._of_unknown()
        return encoded

    def get_feature_names_out(self, input_features: Column | None = None) -> np.ndarray:
        """Return the names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of X, where they are not known; by default those that were seen in
            `fit`, or x0, x1, ...

        Returns
        -------
        ndarray of shape (n_features_out,)
            The names, such as "state_frequency".
        """
        if self._names() is None:
            given: Any = self._fitted_names if input_features is None else input_features
            names = [f"x{i}" for i in range(self.n_features_in_)] if given is None else list(given)
            if len(names) != self.n_features_in_:
                raise ValueError(
                    f"{type(self).__name__} has {self.n_features_in_} columns of X, got "
                    f"{len(names)} input_features."
                )
            stems = [names]
        else:
            stems = self._inputs()
        named = [f"{'_'.join(map(str, stem))}_{self._suffix}" for stem in stems]
        return np.array(named, dtype=object)

    # -- its input ----------------------------------------------------------------------------
    def _check(self) -> None:
        self._validate_params()

    def _columns_of(self, X: Any) -> dict[Any, np.ndarray]:
        """The columns of X, by their names, or by their numbers if the names are not known."""
        class_name, wanted = type(self).__name__, self._names()
        columns, names = as_columns(X, class_name), column_names(X)
        if wanted is None or names is None:
            keys = list(range(self.n_features_in_)) if wanted is None else wanted
            if _holds_tuples(columns, len(keys)):
                keys = keys[:1]
            if len(columns) != len(keys):
                remedy = "Reshape your data to one row per sample"
                if len(columns) > 1 or names is not None:
                    remedy = "Select them, as a ColumnTransformer does"
                raise ValueError(
                    f"X has {len(columns)} features, but {class_name} is expecting {len(keys)} "
                    f"features as input{_listed(wanted)}. {remedy}."
                )
            fitted = self._fitted_names
            if names is not None and fitted is not None and fitted.tolist() != names:
                raise ValueError(
                    f"{class_name} was fitted to {', '.join(map(repr, fitted.tolist()))}, got "
                    f"{', '.join(map(repr, names))}: rename it, or fit again."
                )
            return dict(zip(keys, columns, strict=True))
        missing = [key for key in wanted if key not in names]
        extra = [key for key in names if key not in wanted]
        if missing or extra or len(names) > len(wanted):
            what = f"no column {missing[0]!r}" if missing else "a column that it does not encode"
            what += "" if missing or not extra else f", {extra[0]!r}"
            raise ValueError(
                f"X has {what}; {class_name} encodes{_listed(wanted).lstrip(':')}: select "
                f"these, as a ColumnTransformer does, or X[{wanted!r}]."
            )
        return {key: columns[names.index(key)] for key in wanted}

    def _refuse(self, row: list[Any], one: _Lookup) -> None:
        """Raise ValueError for values that are no category."""
        plain = [value.item() if isinstance(value, np.generic) else value for value in row]
        value = plain[0] if len(plain) == 1 else tuple(plain)
        names: Any = one.columns if self._names() is not None else self._fitted_names
        where = "" if names is None else f" in {', '.join(repr(name) for name in names)}"
        remedy = 'pass handle_unknown="use_encoded_value" with an unknown_value that it becomes'
        if is_missing(value):
            raise ValueError(
                f"Input X contains NaN (or another missing value){where}, and "
                f"{type(self).__name__} has no category for it: impute it, or {remedy}."
            )
        shown = ", ".join(map(repr, one.domain.categories[:3].tolist()))
        raise ValueError(
            f"{type(self).__name__} got {value!r}{where}, which is none of the "
            f"{one.domain.size:,} categories {shown}, ...: {remedy}."
        )


class FrequencyEncoder(CategoryEncoder):
    """Replaces each category by its estimated frequency.

    It makes one number of a category, however many categories there are: for models of other data,
    in any Pipeline. It is fitted from the start; `fit` only checks its input.

    Privacy: costs none. It is made from an estimate alone.

    Parameters
    ----------
    estimate : FrequencyEstimate or EstimateSet
        What is known of the frequencies. An estimate has a single row; if its categories are
        tuples, X has that many columns. A set makes a column of each part; its names are those
        of the columns of X, and the name of a table is a tuple of them. Raw estimates may be
        negative, and are noisy where categories are rare: post-process them first, as with
        :class:`~sklearn_ldp.EmpiricalBayes`.
    handle_unknown : {"error", "use_encoded_value"}, default="error"
        What happens to missing values and to others that are no category.
    unknown_value : float, default=None
        What they become with ``handle_unknown="use_encoded_value"``, such as 0 or NaN.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names: those of a set, or those that were seen in `fit`.

    See Also
    --------
    RateEncoder : Replaces each category by the rate of a target.
    sklearn.preprocessing.TargetEncoder : The same from raw values.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ldp import FrequencyEstimate
    >>> from sklearn_ldp.learning import FrequencyEncoder
    >>> estimate = FrequencyEstimate([[0.7, 0.2, 0.1]], ["chrome", "safari", "opera"])
    >>> encoder = FrequencyEncoder(estimate)
    >>> encoder.transform(["opera", "chrome", "opera"])
    array([[0.1],
           [0.7],
           [0.1]])
    >>> encoder.get_feature_names_out(["browser"])
    array(['browser_frequency'], dtype=object)
    """

    _parameter_constraints: dict = {
        "estimate": [FrequencyEstimate, EstimateSet],
        **CategoryEncoder._parameter_constraints,
    }
    _suffix = "frequency"

    def __init__(
        self,
        estimate: FrequencyEstimate | EstimateSet,
        *,
        handle_unknown: str = "error",
        unknown_value: float | None = None,
    ) -> None:
        self.estimate = estimate
        self.handle_unknown = handle_unknown
        self.unknown_value = unknown_value

    def _names(self) -> list[Any] | None:
        return None if isinstance(self.estimate, FrequencyEstimate) else super()._names()

    def _inputs(self) -> list[list[Any]]:
        if isinstance(self.estimate, FrequencyEstimate):
            return [list(range(_width(self.estimate.categories)))]
        return [list(name) if isinstance(name, tuple) else [name] for name in self.estimate]

    def _lookups(self) -> list[_Lookup]:
        estimate: Any = self.estimate
        if isinstance(estimate, FrequencyEstimate):
            domain = Domain.of(estimate.categories)
            return [_Lookup(self._inputs()[0], domain, estimate.values[0])]
        lookups = []
        for columns, (name, part) in zip(self._inputs(), estimate.items(), strict=True):
            domain = Domain.of(part.categories)
            if hasattr(estimate, "columns_of"):  # a table's domain is a product, which is quicker
                domain = estimate.domain.joint(estimate.columns_of[name])
            lookups.append(_Lookup(columns, domain, part.values[0]))
        return lookups

    def _of_unknown(self) -> float:
        assert self.unknown_value is not None
        return float(self.unknown_value)

    def _check(self) -> None:
        super()._check()
        if self.handle_unknown == "use_encoded_value" and self.unknown_value is None:
            raise ValueError(
                'FrequencyEncoder with handle_unknown="use_encoded_value" needs an unknown_value, '
                "such as 0.0 or float('nan'), got None."
            )
        is_one = isinstance(self.estimate, FrequencyEstimate)
        parts: Any = {None: self.estimate} if is_one else self.estimate
        for name, part in parts.items():
            where = "estimate" if is_one else f"estimates[{name!r}]"
            if len(part) == 0:
                raise ValueError(
                    f"FrequencyEncoder knows no frequency, as no users have answered for {where}: "
                    "leave it out (columns= of estimates.encoder)."
                )
            if len(part) > 1:
                raise ValueError(
                    f"FrequencyEncoder needs a single estimate, got {len(part)} rows in {where}: "
                    f"select one, as in {where}[0]."
                )


class RateEncoder(CategoryEncoder):
    """Replaces each category by the rate of a target among those who have it.

    :meth:`sklearn_ldp.surveys.TableSet.encoder` makes one from private tables. It is fitted from
    the start; `fit` only checks its input. What :class:`sklearn.preprocessing.TargetEncoder` does
    with raw values, this does with estimates.

    Privacy: costs none. It is made from estimates alone.

    Parameters
    ----------
    rates : mapping of str to mapping of category to float
        The rate of each category, by the names of the columns of X.
    overall_rate : float
        The rate among all.
    handle_unknown : {"error", "use_encoded_value"}, default="error"
        What happens to missing values and to others that are no category.
    unknown_value : float, default=None
        What they become with ``handle_unknown="use_encoded_value"``; None stands for the
        `overall_rate`.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names.

    See Also
    --------
    FrequencyEncoder : Replaces each category by its frequency.

    Examples
    --------
    >>> from sklearn_ldp.learning import RateEncoder
    >>> encoder = RateEncoder({"smokes": {"no": 0.02, "yes": 0.11}}, overall_rate=0.04)
    >>> encoder.transform(["yes", "no"])
    array([[0.11],
           [0.02]])
    >>> encoder.set_params(handle_unknown="use_encoded_value").transform([None])
    array([[0.04]])
    """

    _parameter_constraints: dict = {
        "rates": [Mapping],
        "overall_rate": [Real],
        **CategoryEncoder._parameter_constraints,
    }
    _suffix = "rate"

    def __init__(
        self,
        rates: Mapping[Any, Mapping[Any, float]],
        overall_rate: float,
        *,
        handle_unknown: str = "error",
        unknown_value: float | None = None,
    ) -> None:
        self.rates = rates
        self.overall_rate = overall_rate
        self.handle_unknown = handle_unknown
        self.unknown_value = unknown_value

    def _inputs(self) -> list[list[Any]]:
        return [[name] for name in self.rates]

    def _lookups(self) -> list[_Lookup]:
        return [
            _Lookup([name], Domain.of(list(of_one)), np.array(list(of_one.values()), dtype=float))
            for name, of_one in self.rates.items()
        ]

    def _of_unknown(self) -> float:
        return float(self.overall_rate if self.unknown_value is None else self.unknown_value)

    def _check(self) -> None:
        super()._check()
        if not self.rates:
            raise ValueError("RateEncoder needs the rates of at least one column, got none.")


def _width(categories: np.ndarray) -> int:
    """Number of columns that categories are of: tuples of one length are of several."""
    widths = {len(c) if isinstance(c, tuple) else 1 for c in categories.tolist()}
    return widths.pop() if len(widths) == 1 else 1


def _holds_tuples(columns: list[np.ndarray], width: int) -> bool:
    """Whether a single column holds the joint values of several."""
    return len(columns) == 1 < width and isinstance(columns[0][0], tuple)


def _listed(names: list[Any] | None) -> str:
    if names is None:
        return ""
    shown = [repr(name) for name in names]
    return f": the columns {', '.join(shown if len(shown) <= 10 else [*shown[:9], '...'])}"
