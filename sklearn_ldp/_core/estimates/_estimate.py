"""FrequencyEstimate, the result of oracles, post-processors and searches."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import date
from itertools import pairwise
from numbers import Integral
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from ..common.pandas import import_pandas
from ..common.privacy import PrivacyWarning, makes_pandas, warn_once
from ..common.text import counted, labelled_lines
from ..common.typing import DataFrame, Rows, Series
from ..displays import DistributionDisplay, FrequencyDisplay, MapDisplay, TrendDisplay
from ..domains import Domain, bounds_of_cells, ends_of, has_cells
from ..domains.values import (
    as_vector,
    in_order,
    is_row_index,
    named_missing,
    own_categories,
    place_of_missing,
    places_of,
)
from ..noise import Noise, NoiseModel, noise_of_answered
from ..numerics.simplex import apportion, project
from ..queries import Answers, Queries, as_query_set, between, is_mean
from ..report_page import Kept
from ..statistics import (
    ConfidenceInterval,
    Discoveries,
    EstimateDifference,
    at_level,
    check_apart,
    confidence_interval,
    describe_estimate,
    detected,
    quantile_values,
    quartiles,
    refuse_sums,
    refuse_without_law,
    sorted_table,
    stated,
    table_columns,
    table_intervals,
)
from ._checks import check_estimate
from ._counts import (
    check_noisy_counts,
    checked_counts,
    names_of,
    noise_of_counts,
    order_of_counts,
    warn_of_suppressed,
)

OR_LONGER = "or longer"  # flag of strings that may be the beginning of longer ones
# Minimum of the share of users who answered, in standard errors: the delta method fails for less.
_LEAST_RATIO = 4.0
_LEVEL = 0.95  # level of the intervals in the representation for notebooks


@dataclass(frozen=True, eq=False, repr=False)
class FrequencyEstimate(Kept, tag="frequency-estimate"):
    """Estimated frequencies of categories, with a model of their noise.

    Oracles return a raw estimate, from which post-processors compute new estimates. The method
    `top` returns the most frequent categories, `answer` evaluates queries such as totals of groups,
    `confidence_interval` and `detected` state how large the error of the raw estimate may be, and
    `plot` draws the estimate. You only need the parameters if you construct an estimate from your
    own numbers.

    An estimate is immutable. It is not a subclass of ndarray, because the noise model would not be
    valid for the results of slicing and arithmetic. ``np.asarray(estimate)`` returns the numbers,
    ``estimate["red"]`` is the frequency of a category, and ``estimate[i]`` selects rows.

    Parameters
    ----------
    values : array-like of shape (n_estimates, d)
        Each row is an estimate of the frequencies of all categories. There is no row if no user was
        asked, which can happen in an :class:`~sklearn_ldp.EstimateSet`.
    categories : array-like of shape (d,) or Domain
        The categories, in the order of the columns.
    noise : Noise, default=None
        The noise of the raw estimate, such as ``NoiseModel(p, q, n_samples)``; None if unknown. A
        post-processed estimate keeps the `noise`, the `oracle` and the `shards` of its raw
        estimate; its noise is not the error of the processed values.
    oracle : estimator, default=None
        An unfitted oracle with the configuration of the collection; None if unknown. Its method
        `simulate` repeats the collection with simulated users.
    shards : Shards, default=None
        Counts of disjoint subsets of the reports, which :class:`~sklearn_ldp.HeldOutSearch` uses;
        None if subsets were not counted separately.
    postprocessors : tuple of str, default=()
        Names of the post-processors that have changed the raw estimate.
    clip_answers : bool, default=False
        Whether `answer` clips each answer at 0 (:class:`~sklearn_ldp.PostPos`).
    row_names : array-like of shape (n_estimates,), default=None
        The subject of each row, such as a region or a week.
    raw_values : ndarray of shape (n_estimates, d), default=None
        The raw values from which a post-processed estimate was computed. None if they are unknown,
        or if the estimate is itself raw.
    domain : Domain, default=None
        The domain of the categories, which also contains properties such as the edges of bins. If
        None, it is the domain that was passed as `categories`, if any.
    flags : mapping of str to ndarray of bool of shape (d,), default=None
        For each property of categories, such as "detected", whether each category has it. Tables
        have a column for each flag. Printed estimates and plots show the flags of a category beside
        its name.
    caveats : tuple of str, default=()
        Sentences about limitations that a report of the estimate must state, for example that the
        domain was learned from the users' values.
    standard_errors : ndarray of shape (n_estimates, d), default=None
        Standard errors of the values as estimates of the population's frequencies. Only some
        post-processors compute them, such as :class:`~sklearn_ldp.Trend`. With standard errors, a
        post-processed estimate has intervals.
    is_partial : bool, default=False
        Whether users may have categories that are not in the list, so that the true frequencies may
        sum to less than 1. True for the strings that a :class:`~sklearn_ldp.StringOracle` has
        found, and for noisy counts that clearly add up to less than `n_samples`.

    Attributes
    ----------
    shape : tuple of int
        ``(n_estimates, d)``.
    is_raw : bool
        Whether no post-processor has changed the estimate.
    shares_overlap : bool
        Whether a user may have several categories (:class:`~sklearn_ldp.ItemOracle`). Then
        frequencies do not sum to 1, and queries that add up several categories raise an error.
    sums_to_one : bool
        Whether the true frequencies certainly sum to 1: False if `shares_overlap` or `is_partial`.

    Examples
    --------
    >>> from sklearn_ldp import FrequencyEstimate
    >>> estimate = FrequencyEstimate([[0.6, 0.5, -0.1]], ["red", "green", "blue"])
    >>> estimate.top(2)
    [('red', 0.6), ('green', 0.5)]
    >>> estimate["blue"]
    -0.1
    >>> estimate
    FrequencyEstimate of 3 categories, noise unknown
      red    0.6
      green  0.5
      blue  -0.1
    """

    values: Any
    categories: Any
    noise: Noise | None = None
    oracle: Any = None
    shards: Any = None
    postprocessors: tuple[str, ...] = ()
    clip_answers: bool = False
    row_names: Any = None
    raw_values: Any = None
    domain: Domain | None = None
    flags: Any = None
    caveats: tuple[str, ...] = ()
    standard_errors: Any = None
    is_partial: bool = False

    def __post_init__(self) -> None:
        if np.iscomplexobj(self.values):
            raise ValueError("FrequencyEstimate needs real values, got complex values. Use .real.")
        values = np.array(self.values, dtype=np.float64, ndmin=2)
        domain = self.domain
        categories = self.categories
        if isinstance(categories, Domain):
            domain = categories
            if domain.size > values.shape[-1]:  # a product may be too large to list
                _check_shape(values, domain.size)
            categories = domain.categories
        categories = _sealed(categories)
        if domain is not None and domain.categories is not categories:
            domain = None  # `replace` has brought other categories
        _check_shape(values, len(categories))
        if not np.all(np.isfinite(values)):
            raise ValueError(
                "FrequencyEstimate needs finite values, got NaN or infinity. Remove the rows that "
                "contain such values."
            )
        if self.noise is not None and np.size(self.noise.n_samples) not in (1, len(values)):
            raise ValueError(
                f"FrequencyEstimate has {len(values)} rows but its noise has "
                f"{np.size(self.noise.n_samples)} sample sizes. Pass noise with one n_samples for "
                "all rows, or with one for each row."
            )
        values.flags.writeable = False
        checked: dict[str, Any] = {"values": values, "categories": categories, "domain": domain}
        if domain is self.categories and domain is not None:  # not in copies with other values
            checked["flags"] = {**domain.flags, **(self.flags or {})} or None
            checked["caveats"] = tuple(dict.fromkeys((*self.caveats, *domain.caveats)))
        if self.standard_errors is not None:
            errors = _read_only(np.asarray(self.standard_errors, dtype=np.float64))
            if errors.shape != values.shape:
                raise ValueError(
                    f"FrequencyEstimate needs standard_errors of the shape of its values, "
                    f"{values.shape}, got {errors.shape}. Pass one standard error for each value."
                )
            checked["standard_errors"] = errors
        if self.row_names is not None:
            if len(self.row_names) != len(values):
                raise ValueError(
                    f"FrequencyEstimate has {len(values)} rows but {len(self.row_names)} "
                    "row_names. Pass one name for each row."
                )
            checked["row_names"] = _read_only(as_vector(self.row_names))
        vars(self).update(checked)

    def __check_state__(self) -> int:
        check_estimate(self)
        if OR_LONGER in (self.flags or {}):  # a file from before there was `is_partial`
            vars(self)["is_partial"] = True
        return 0 if self.shards is None else self.shards.of.tallies.nbytes

    @classmethod
    def from_counts(
        cls,
        counts: ArrayLike,
        *,
        n_samples: ArrayLike | None = None,
        p: float | None = None,
        q: float | None = None,
        std: ArrayLike | None = None,
        noise: str | None = None,
        epsilon: ArrayLike | None = None,
        sensitivity: float = 1.0,
        categories: Any = None,
    ) -> FrequencyEstimate:
        """Build an estimate from counts that another system has added up.

        Parameters
        ----------
        counts : array-like of shape (d,) or (n_estimates, d), or mapping
            With `p` and `q`, the number of reports that support each category, such as the bits of
            RAPPOR. Otherwise noisy numbers of users, such as a noisy histogram. A count of NaN
            means that it was suppressed: the estimate omits this category, with a warning.
        n_samples : int or array-like of shape (n_estimates,), default=None
            Number of users. With `noise` it may be None (unknown); then each frequency is a count
            divided by the sum of all noisy counts.
        p, q : float, default=None
            p is the probability that a report supports the user's own category; q is the
            probability that it supports a given other category.
        std : float, array-like of shape (d,) or (d, d), default=None
            Standard deviation of the noise of each count, in the order of the counts. If
            ``noise="normal"``, it may also be the (d, d) covariance matrix of the noise.
        noise : {"normal", "laplace", "geometric", "discrete-normal"}, default=None
            Distribution of the noise. The noise of different counts is independent unless `std` is
            a matrix. "geometric" is the two-sided geometric (discrete Laplace) distribution. If
            None, only the standard deviation is known; then intervals of single categories assume
            normal noise, and intervals of totals, differences and tests raise an error.
        epsilon : float or array-like of shape (d,), default=None
            For "laplace" and "geometric" noise, instead of `std`: the epsilon of central
            differential privacy. The scale of the noise is ``sensitivity / epsilon``.
        sensitivity : float, default=1.0
            The maximum change of the counts by one user, with which the noise was calibrated. It
            determines the noise together with `epsilon`. If a user may be in several counts, the
            counts may add up to `sensitivity` times `n_samples`.
        categories : array-like of shape (d,), default=None
            The categories. If None, they are the keys of a mapping, the index of a Series, or 0, 1,
            .. If the counts have such labels, each category has the count of its label. Counts
            without labels, or with the default index 0, 1, .. of pandas, are in the order of the
            categories, and so are two columns of the same frame.

        Returns
        -------
        FrequencyEstimate
            A raw estimate with its noise, which has intervals and can be post-processed.

        Raises
        ------
        ValueError
            If the arguments do not determine the noise, a count of reports is not from 0 to
            `n_samples`, noisy counts add up to clearly more than the users can, a count is a
            fraction although the noise consists of whole numbers, or the labels of the counts are
            not the categories.

        Warns
        -----
        UserWarning
            If counts are suppressed.

        Examples
        --------
        >>> from sklearn_ldp import FrequencyEstimate
        >>> bits = {"home": 6375, "abroad": 6125}  # of basic RAPPOR, from 10,000 users
        >>> FrequencyEstimate.from_counts(bits, p=0.6875, q=0.5625, n_samples=10_000).values
        array([[0.6, 0.4]])
        >>> release = {"home": 5991.3, "abroad": 4013.8}  # a count + Laplace noise, epsilon 0.1
        >>> estimate = FrequencyEstimate.from_counts(
        ...     release, noise="laplace", epsilon=0.1, n_samples=10_000
        ... )
        >>> estimate.confidence_interval(0.95).high.round(4)
        array([[0.6021, 0.4044]])
        """
        labels = own_categories(counts)
        values, n = checked_counts(counts, n_samples, noise)
        order = order_of_counts(counts, labels, categories)
        values = values if order is None else values[:, order]
        is_of_reports = p is not None and q is not None
        if is_of_reports and not np.all((values >= 0) & (values <= n[..., None])):
            raise ValueError(
                "FrequencyEstimate.from_counts needs counts of reports from 0 to n_samples, got "
                f"{values.min():g} to {values.max():g}. If they are numbers of users with added "
                "noise, omit p= and q=, and describe the noise by std= or noise=."
            )
        if categories is None:
            categories = labels or range(values.shape[1])
        if p is not None and q is not None and std is None and noise is None:
            model = NoiseModel(p, q, n_samples)
            return cls(model.debias(values), categories, model)
        sizes = n if n_samples is None else n_samples
        if labels is not None and not hasattr(std, "columns"):  # no data frame
            std = in_order(std, as_vector(labels), "Argument std of from_counts")
            epsilon = in_order(epsilon, as_vector(labels), "Argument epsilon of from_counts")
        error: Any = noise_of_counts(noise, p, q, std, epsilon, sensitivity, values.shape[1])
        if order is not None and noise is not None:
            error = error.of_categories(order)
        # Without n_samples, `n` is the sum of the counts.
        is_partial = check_noisy_counts(values, n, noise, error, sensitivity)
        is_known = np.isfinite(values).all(axis=0)
        if not is_known.all() and noise is not None and is_known.any():
            names = names_of(categories)
            warn_of_suppressed(names[~is_known].tolist())
            error = error.of_categories(is_known)
            values = values[:, is_known]
            categories = names[is_known]
        frequencies = values / n[..., None]
        if noise is None:
            law = Noise.of_level(error, n_samples)
        else:
            error = replace(error, is_normalized=n_samples is None)
            law = Noise.added(error, sizes)
        return cls(frequencies, categories, law, is_partial=is_partial)

    @classmethod
    def from_rows(cls, estimates: Mapping[Any, FrequencyEstimate]) -> FrequencyEstimate:
        """Combine several estimates of the same question into one estimate with several rows.

        For example, the rows are the weeks of a repeated collection.

        Parameters
        ----------
        estimates : mapping of name to FrequencyEstimate of shape (1, d)
            Raw estimates in the order of the rows. They must come from different users and from
            oracles with the same configuration. The numbers of users and the names of rounds may
            differ.

        Returns
        -------
        FrequencyEstimate of shape (n_estimates, d)
            An estimate with the keys as `row_names`, like the result of
            :func:`~sklearn_ldp.oracles.estimate_by_group`. :class:`~sklearn_ldp.Trend` and
            :func:`~sklearn_ldp.inference.poststratify` accept it.

        Raises
        ------
        ValueError
            If the mapping is empty, or the estimates do not have the same configuration.

        Examples
        --------
        >>> from sklearn_ldp import FrequencyEstimate, GRR, Trend
        >>> oracle = GRR(2.0, categories=["no", "yes"], random_state=0)
        >>> may = oracle.fit(["yes"] * 3000 + ["no"] * 7000).estimate_
        >>> june = oracle.fit(["yes"] * 2000 + ["no"] * 4000).estimate_
        >>> months = FrequencyEstimate.from_rows({"may": may, "june": june})
        >>> months["june"].values.round(1)
        array([[0.7, 0.3]])
        >>> Trend().fit_transform(months).shape
        (2, 2)
        """
        rows: list[Any] = list(estimates.values())
        if not rows:
            raise ValueError(
                f"FrequencyEstimate.from_rows needs at least one estimate, got {estimates!r}. Pass "
                "a mapping of row names to estimates."
            )
        check_apart(rows, "set of rows")
        lengths = [len(row) for row in rows]
        if set(lengths) != {1}:
            raise ValueError(
                f"FrequencyEstimate.from_rows needs estimates of one row each, got {lengths} rows. "
                "Select one row of each estimate, as in estimate[0]."
            )
        try:
            noise = Noise.of_estimates([row.noise for row in rows])
        except ValueError as error:
            raise ValueError(
                f"{error} FrequencyEstimate.from_rows combines only estimates of the same oracle. "
                "Instead, keep the estimates in an EstimateSet, or average them with "
                "inference.combine."
            ) from None
        values = np.vstack([row.values for row in rows])
        names = list(estimates)
        return rows[0].with_values(values, noise=noise, row_names=names, shards=None)

    # -- as a container -----------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of estimates (rows) and of categories, ``(n_estimates, d)``."""
        return self.values.shape

    @property
    def ndim(self) -> int:
        """Number of axes, always 2; transformers such as ColumnTransformer require it."""
        return 2

    @property
    def dtype(self) -> np.dtype:
        """Always float64."""
        return self.values.dtype

    @property
    def is_raw(self) -> bool:
        """Whether no post-processor has changed the estimate."""
        return not self.postprocessors

    @property
    def shares_overlap(self) -> bool:
        """Whether a user may have several categories, so that frequencies do not sum to 1."""
        return self.domain is not None and self.domain.shares_overlap

    @property
    def sums_to_one(self) -> bool:
        """Whether the true frequencies sum to 1; False if `shares_overlap` or `is_partial`."""
        return not self.shares_overlap and not self.is_partial

    @property
    def states_errors(self) -> bool:
        """Whether the values have confidence intervals of their own.

        They do if the estimate is raw, or if it has `standard_errors`.
        """
        return self.is_raw or self.standard_errors is not None

    @property
    def design_effect(self) -> Any:
        """Kish's design effect of unequal weights: a float, or an array with one value per row.

        To reach the same precision, an estimate with unequal weights needs this factor times as
        many users as an estimate without weights. The factor is ``n sum W_h**2 / n_h`` for n users
        in groups of n_h users with the weights W_h. Without weights it is 1.
        """
        noise = self.noise
        if noise is None or noise.n_samples is None:
            raise ValueError(
                "FrequencyEstimate.design_effect is unknown, because the estimate has no noise "
                "model or no number of users. Use an estimate returned by an oracle or by "
                "poststratify."
            )
        effect = noise.design_effect
        return float(effect[0]) if effect.size == 1 else effect

    @property
    def labels(self) -> Any:
        """The categories as plots and printed estimates show them.

        A name replaces the category None, and the flags of a category follow its name.
        """
        if not self.flags:
            return self._labels
        names = np.array(list(self.flags))
        rows = np.column_stack(list(self.flags.values()))
        marks = [", ".join(names[row]) for row in rows]
        pairs = zip(self._labels.tolist(), marks, strict=True)
        return np.array([f"{name} ({mark})" if mark else str(name) for name, mark in pairs], object)

    @property
    def _labels(self) -> np.ndarray:
        """The categories, with a name for missing answers in place of the category None."""
        return named_missing(self.categories) if self.domain is None else self.domain.labels

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies go through __init__, so that they are as read-only as the original.
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.domain is not None:
            state["categories"] = self.domain  # the domain recognizes only its own array
        if not self.is_partial:  # the form of files from before this field
            del state["is_partial"]
        return type(self), tuple(state.values())

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False and dtype not in (None, np.float64):
            raise ValueError(
                f"FrequencyEstimate contains float64 values, and {dtype} needs a copy. Use "
                "copy=True."
            )
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        is_row = func is np.hstack or (func is np.concatenate and kwargs.get("axis") == 1)
        if is_row and sum(getattr(part, "is_raw", False) for part in args[0]) > 1:
            # For example by make_union: users report to each oracle, and the row has no noise.
            text = "Several raw estimates were joined into one array. Users spend the sum of their "
            text += "epsilons, and a post-processor treats the array as a single estimate. Put a "
            text += "post-processor after each oracle, or collect the columns with a ColumnOracle."
            warn_once(text, PrivacyWarning, "estimates side by side")
        stacked = func._implementation(*args, **kwargs)
        if func is np.hstack and makes_pandas():
            import pandas as pd

            return pd.DataFrame(stacked)
        return stacked

    def __iter__(self) -> Iterator[FrequencyEstimate]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(  # type: ignore[overload-overlap]
        self, key: str | bytes | bool | tuple[Any, ...] | date | None
    ) -> float: ...
    @overload
    def __getitem__(self, key: Rows) -> FrequencyEstimate: ...
    def __getitem__(self, key: Any) -> Any:
        """Return the frequency of one category, or an estimate with only some of the rows.

        Parameters
        ----------
        key : category, or int, slice, list, array or mask of rows
            An integer always selects a row, even if the categories are integers; use
            ``answer([18])`` for such a category. It is a position, counted from 0, even if the
            `row_names` are integers: ``weeks[10]`` is the eleventh row, and the row with the name
            10 is ``weeks[list(weeks.row_names).index(10)]``. A slice, a list or an array also
            selects rows. Any other key (text, a tuple, a date, True or None) is a category.
            Exception: in an estimate of several rows with `row_names`, such a key is the name of a
            row: ``weeks["may"]["red"]``. Type checkers infer a number also in this case.

        Returns
        -------
        float or FrequencyEstimate
            For a category, its frequency, which is clipped like in `answer`. For rows, an estimate
            of shape (n_selected, d), also if a single row is selected.

        Raises
        ------
        KeyError
            If the category does not exist.
        IndexError
            If the row does not exist.
        """
        if not is_row_index(key):
            names = [] if self.row_names is None else self.row_names.tolist()
            is_category = len(self) == 1 and key in self.categories.tolist()
            is_row = not is_category and key in names
            return self._selected_rows(names.index(key)) if is_row else self._frequency_of(key)
        try:
            return self._selected_rows(key)
        except IndexError:
            raise IndexError(
                "An integer selects a row of an estimate and not a category; this estimate has "
                f"{counted(len(self), 'row')}, got {key!r:.80}. For a category that is an integer "
                "use estimate.answer([..]), or pass an existing row as integer, slice, list or "
                "mask."
            ) from None

    def _frequency_of(self, category: Any) -> float:
        if isinstance(category, tuple) and not isinstance(self.categories[0], tuple):
            raise IndexError(
                f"A FrequencyEstimate is indexed by rows or by one category, got {category!r}. For "
                "several categories use estimate.answer([..]), estimate.to_frame() or "
                "np.asarray(estimate)."
            )
        if len(self) > 1 and self.row_names is not None:
            name = repr(self.row_names.tolist()[0])
            if is_row_index(self.row_names.tolist()[0]):
                name = f"list(estimate.row_names).index({name})"
            raise ValueError(
                f"None of the {len(self)} rows of this estimate has the name {category!r}. Select "
                f"one row first: by its name, as in estimate[{name}], or by its position, as in "
                "estimate[0]."
            )
        row = self._single_row("__getitem__", f"estimate[0][{category!r}]")
        try:
            (place,) = places_of([category], self.categories, "This estimate")
        except ValueError as error:
            raise KeyError(str(error)) from None
        return float(max(row[place], 0.0) if self.clip_answers else row[place])

    def _selected_rows(self, rows: Any) -> FrequencyEstimate:
        rows = [int(rows)] if isinstance(rows, (int, np.integer)) else rows
        arrays: dict[str, Any] = {
            "row_names": self.row_names,
            "raw_values": self.raw_values,
            "standard_errors": self.standard_errors,
        }
        arrays = {name: None if x is None else x[rows] for name, x in arrays.items()}
        return replace(
            self,
            values=self.values[rows],
            noise=None if self.noise is None else self.noise.of_rows(rows),
            shards=None if self.shards is None else self.shards.of_rows(rows),
            **arrays,
        )

    def with_values(
        self, values: ArrayLike, by: str | None = None, **changes: Any
    ) -> FrequencyEstimate:
        """Return a copy of the estimate with other values.

        Parameters
        ----------
        values : array-like of shape (n_estimates, d)
            The new values.
        by : str, default=None
            Name of the post-processor that computed the new values, which is added to
            `postprocessors`; None if they are still raw.
        **changes : dict
            Other parameters of the class to replace, by name.

        Returns
        -------
        FrequencyEstimate
            A new estimate; this one is not changed.

        Raises
        ------
        ValueError
            If `by` is empty, or the values do not fit the categories.
        """
        if by == "":
            raise ValueError(
                "FrequencyEstimate.with_values got by=''. Pass the name of the post-processor that "
                "computed the values, or None if they are raw."
            )
        names = self.postprocessors if by is None else (*self.postprocessors, by)
        if by is not None:
            raw = self.values if self.is_raw else self.raw_values
            changes = {"raw_values": raw, "standard_errors": None, **changes}
        return replace(self, values=values, postprocessors=names, **changes)

    def as_raw(self) -> FrequencyEstimate:
        """Return the raw estimate from which a post-processed estimate was computed.

        Returns
        -------
        FrequencyEstimate
            An estimate with the raw values; this estimate itself if they are unknown or it is raw.
        """
        if self.is_raw or self.raw_values is None:
            return self
        return replace(
            self,
            values=self.raw_values,
            postprocessors=(),
            clip_answers=False,
            raw_values=None,
            standard_errors=None,
        )

    def of_shards(self, shards: np.ndarray) -> FrequencyEstimate:
        """Return the raw estimate from only some shards (disjoint subsets) of the reports.

        Parameters
        ----------
        shards : ndarray of int
            Indices of the shards to use, each of which contains reports.

        Returns
        -------
        FrequencyEstimate
            The same estimate as from a collection of only these reports.

        Raises
        ------
        ValueError
            If the shards were not counted separately.
        """
        if self.shards is None:
            raise ValueError(
                "FrequencyEstimate has no shards, because its reports were counted together. "
                "Collect the reports with an oracle that has n_shards > 1."
            )
        values, noise = self.shards.estimate(shards)
        return replace(self, values=values, noise=noise, shards=self.shards.some(shards))

    def answered(self) -> FrequencyEstimate:
        """Return the estimate among the users who answered, without the missing answers.

        The categories are the categories of this estimate without None. Each frequency is divided
        by the estimated share of users who answered, ``1 - estimate[None]``. Means, quantiles,
        ranges and plots of bins with ``missing=True`` need this estimate. Apply post-processors
        before this method.

        Returns
        -------
        FrequencyEstimate
            The estimate. Its noise includes the error of the share of users who answered, by the
            delta method. The number of users is the estimated number of users who answered. The
            result has no `shards` and no `standard_errors`, which describe all users.

        Raises
        ------
        ValueError
            If the estimate has no category None, if a user may have several categories, or if the
            share of users who answered is less than four of its standard errors.

        Examples
        --------
        >>> from sklearn_ldp import GRR, Domain
        >>> ages = Domain.bins(3, bounds=(0, 90), missing=True)
        >>> oracle = GRR(3.0, categories=ages, random_state=0)
        >>> estimate = oracle.fit_transform([20.5, 50.5, 50.5, 80.5, None] * 2000)
        >>> estimate.answered().median().round()
        array([45.])
        """
        place = place_of_missing(self.categories)
        if place is None or self.shares_overlap:
            raise ValueError(
                "FrequencyEstimate.answered needs an estimate with a category for missing answers, "
                f"got the categories {', '.join(map(repr, self._labels[:3].tolist()))}, ... "
                "Declare None as a category, or pass missing=True to Domain.bins."
            )
        raw = self.as_raw().values
        shares = self._checked_shares(raw, place)

        def among(values: Any) -> Any:
            if values is None:
                return None
            return np.delete(values, place, axis=1) / (1 - values[:, [place]])

        kept = np.delete(self.categories, place)
        domain = kept if self.domain is None else self.domain.without_missing()
        flags = {name: np.delete(flag, place) for name, flag in (self.flags or {}).items()}
        answered = ", ".join(f"{100 * share:.1f} %" for share in shares)
        caveat = (
            f"Each share is among the users who answered, an estimated {answered} of all users."
        )
        return FrequencyEstimate(
            among(self.values),
            domain,
            None if self.noise is None else noise_of_answered(self.noise, shares, place),
            self.oracle,
            postprocessors=self.postprocessors,
            clip_answers=self.clip_answers,
            row_names=self.row_names,
            raw_values=among(self.raw_values),
            flags=flags or None,
            caveats=(caveat, *self.caveats),
            is_partial=self.is_partial,
        )

    def _checked_shares(self, raw: np.ndarray, place: int) -> np.ndarray:
        """Return the share of users who answered in each row; raise ValueError if one is uncertain.

        raw: the raw values. place: the position of the missing answer. Shapes: -> (n_estimates,).
        """
        shares = 1 - raw[:, place]
        processed = 1 - self.values[:, place]
        errors = np.zeros(len(self))
        if self.noise is not None:
            plausible = np.clip(raw, 0, 1)
            variances = np.broadcast_to(self.noise.variance(plausible), raw.shape)
            errors = np.sqrt(np.maximum(variances[:, place], 0))
        if np.any(shares <= _LEAST_RATIO * errors) or np.any(processed <= 0):
            row = int(np.argmin(shares - _LEAST_RATIO * errors))
            raise ValueError(
                f"FrequencyEstimate.answered divides by the share of users who answered, got "
                f"{shares[row]:.3g} with the standard error {errors[row]:.3g}, which may be 0. "
                "Collect more reports, or use the frequencies among all users."
            )
        return shares

    # -- asking -------------------------------------------------------------------------------
    @overload
    def answer(self, queries: None = None) -> np.ndarray: ...
    @overload
    def answer(self, queries: Queries) -> np.ndarray | Answers: ...
    def answer(self, queries: Queries | None = None) -> np.ndarray | Answers:
        """Answer linear queries, such as the total frequency of a set of categories.

        Parameters
        ----------
        queries : list of categories, mapping, query set, matrix of shape (n_queries, d), or None
            A list of categories asks for the frequency of each category. A mapping such as
            ``{"north": ["a", "b"]}`` asks for the total frequency of each list.
            :mod:`sklearn_ldp.queries` has query sets such as ``groups(labels)`` and
            ``mean(numbers)``; a list may also consist of query sets. Each row of a (sparse) matrix
            is a query with one weight per category. If None, every category is a query.

        Returns
        -------
        ndarray or Answers of shape (n_estimates, n_queries)
            The answers; after :class:`~sklearn_ldp.PostPos`, negative answers become 0. If the
            queries have names (groups, listed categories), the result is
            :class:`~sklearn_ldp.queries.Answers`: ``answers["cat"]`` is the answer to one query,
            and ``np.asarray(answers)`` is the array of all answers.

        Raises
        ------
        ValueError
            If the queries refer to categories that the estimate lacks, or have another number of
            categories; or if a query adds up several categories although a user may have several
            (`shares_overlap`).

        Examples
        --------
        >>> from sklearn_ldp import FrequencyEstimate
        >>> from sklearn_ldp.queries import groups
        >>> estimate = FrequencyEstimate([[0.5, 0.25, 0.25]], ["cat", "dog", "trout"])
        >>> estimate.answer(["trout", "cat"])
        trout  0.25
        cat    0.5
        >>> estimate.answer(groups({"cat": "mammal", "dog": "mammal", "trout": "fish"}))
        fish    0.25
        mammal  0.75
        """
        query_set = as_query_set(queries).aligned(self.categories, self.domain)
        is_bins = self.domain is not None and self.domain.ends is not None
        if is_bins and not self.is_raw and any(is_mean(name) for name in query_set.names or ()):
            text = f"The mean after {', '.join(self.postprocessors)} may be biased far more than "
            text += "any frequency, because post-processing moves users between bins. "
            text += 'Use estimate.mean(values="raw"), which is unbiased.'
            warn_once(text, UserWarning, "mean after post-processing")
        matrix = query_set.matrix(self.shape[1])
        refuse_sums(self, matrix, repr(query_set))
        answers = np.asarray((matrix @ self.values.T).T)
        answers = np.maximum(answers, 0) if self.clip_answers else answers
        return answers if query_set.names is None else Answers(answers, query_set.names)

    def top(self, k: int = 10) -> list[tuple[Any, float]]:
        """Return the `k` categories with the largest estimates.

        Parameters
        ----------
        k : int, default=10
            Maximum number of categories to return.

        Returns
        -------
        list of (category, frequency)
            In descending order of frequency, like :meth:`collections.Counter.most_common`.
        """
        if not isinstance(k, (int, np.integer)) or k < 0:
            raise ValueError(
                f"FrequencyEstimate.top needs an integer k >= 0, got {k!r}. Pass the number of "
                "categories."
            )
        row = self._single_row("top")
        order = np.argsort(-row, kind="stable")[:k]
        return [(_plain(self.categories[i]), float(row[i])) for i in order]

    def mean(self, values: str | None = None) -> np.ndarray:
        """Return the mean of the users' numbers, computed from the frequencies and centers of bins.

        For an interval of the mean, call ``confidence_interval(0.95, queries.mean())`` of the raw
        estimate.

        Parameters
        ----------
        values : {"raw", "processed"}, default=None
            Which frequencies to use. "raw": the raw frequencies. The mean is then unbiased, and
            intervals of ``queries.mean()`` refer to it. "processed": the frequencies after
            post-processing. The mean then has a smaller error after
            :class:`~sklearn_ldp.SmoothMLE`, but a large bias after projections such as
            :class:`~sklearn_ldp.NormSub`. If None, the raw frequencies, with one warning if the
            estimate is post-processed. The methods :meth:`median` and
            :meth:`quantile` use the processed frequencies instead, because raw frequencies do not
            make a quantile unbiased.

        Returns
        -------
        ndarray of shape (n_estimates,)
            The means, in the units of the bins.

        Raises
        ------
        ValueError
            If the categories are not bins between bounds, if the estimate is post-processed and its
            raw values are unknown, or if `values` is invalid.

        Examples
        --------
        >>> from sklearn_ldp import Domain, FrequencyEstimate
        >>> ages = FrequencyEstimate([[0.5, 0.25, 0.25]], Domain.bins(3, bounds=(0, 90)))
        >>> ages.mean().tolist(), ages.std().round(2).tolist()
        ([37.5], [24.87])
        """
        return self._moments(values, "mean")[0]

    def std(self, values: str | None = None) -> np.ndarray:
        """Return the standard deviation of the users' numbers, from the centers of their bins.

        Parameters
        ----------
        values : {"raw", "processed"}, default=None
            Which frequencies to use, as for `mean`.

        Returns
        -------
        ndarray of shape (n_estimates,)
            The standard deviations, in the units of the bins; 0 if the estimated variance is
            negative.

        Raises
        ------
        ValueError
            As for `mean`.
        """
        return self._moments(values, "std")[1]

    def _moments(self, values: str | None, method: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the means and standard deviations of the users' numbers in each row.

        Shapes: -> (n_estimates,), (n_estimates,).
        values: "raw", "processed" or None. method: the calling method, for messages.
        """
        ends = ends_of(self.domain, f"FrequencyEstimate.{method}")
        if values not in (None, "raw", "processed"):
            raise ValueError(
                f'FrequencyEstimate.{method} needs values="raw" or "processed", got {values!r}. '
                'Use "raw" for an unbiased result.'
            )
        source = self if values == "processed" else self.as_raw()
        if values != "processed" and not source.is_raw:  # the raw values are lost
            refuse_without_law(self, method)
        if values is None and not self.is_raw:
            text = f"FrequencyEstimate.{method} uses the raw values, not the values after "
            text += f'{", ".join(self.postprocessors)}. Specify values="raw" or "processed".'
            warn_once(text, UserWarning, f"{method} of raw values")
        centers = (ends[:-1] + ends[1:]) / 2
        means = source.values @ centers
        squares = (centers - means[:, None]) ** 2
        return means, np.sqrt(np.maximum(np.sum(source.values * squares, axis=1), 0))

    def quantile(self, probabilities: ArrayLike) -> np.ndarray:
        """Return quantiles of the users' numbers, from the frequencies of their bins.

        Parameters
        ----------
        probabilities : float or array-like of shape (n_quantiles,)
            Probability of each quantile, in (0, 1); 0.5 is the median.

        Returns
        -------
        ndarray of shape (n_estimates, n_quantiles)
            The quantiles, from the frequencies after post-processing if there is any. For intervals
            see :func:`sklearn_ldp.inference.quantiles`. For quantiles of the raw frequencies, call
            ``as_raw().quantile(..)``.

        Raises
        ------
        ValueError
            If the categories are not bins between bounds, or a probability is not in (0, 1).
        """
        return quantile_values(self, probabilities)

    def median(self) -> np.ndarray:
        """Return the median of the users' numbers, from the frequencies of their bins.

        Returns
        -------
        ndarray of shape (n_estimates,)
            The medians, from the frequencies after post-processing if there is any. This differs
            from :meth:`mean`, which uses the raw frequencies by default. For intervals see
            :func:`sklearn_ldp.inference.quantiles`. For the median of the raw frequencies, call
            ``as_raw().median()``.
        """
        return self.quantile(0.5)[:, 0]

    def to_series(self) -> Series:
        """Return the frequencies as a pandas Series indexed by category.

        Returns
        -------
        pandas.Series
            The frequencies of a single estimate; the name of the series is "frequency".
        """
        self._single_row("to_series")
        return self.to_frame().iloc[0].rename("frequency")

    def to_frame(self, interval: float | None = None, *, of: str | None = None) -> DataFrame:
        """Return the estimates as a pandas DataFrame.

        Parameters
        ----------
        interval : float, default=None
            Level of confidence intervals, such as 0.95. If specified, the frame has one row per
            category, with an interval that is simultaneous with all others of the frame.
        of : {"users", "population"}, default=None
            The people to whom the intervals refer; None as for `describe`.

        Returns
        -------
        pandas.DataFrame
            Without `interval`: one row per estimate and one column per category, of shape
            (n_estimates, d), indexed by `row_names` if there are any. Joint categories of several
            columns make a MultiIndex with one level per column, so that the frame can be unstacked.

            With `interval`: the columns "category", "estimate" (the raw value), "low", "high",
            "frequency" (the processed value, only after post-processing), "count" (of users),
            "interval" and one column for each of the `flags`. If there are several estimates, the
            column "row" precedes them. All intervals of the frame are simultaneous, so the frame
            may be sorted and cut; "interval" contains their level. If only the standard deviation
            of the noise is known, each interval is for a single category. The intervals refer to
            the column before them: to "estimate", or to "frequency" if the post-processor computes
            standard errors. Raw values below 0 or above 1 lie outside of their intervals. For cells
            of a grid, the columns "x_low", "x_high", "y_low" and "y_high" follow "category", from
            which other packages make polygons. The command line writes the same columns.

        Raises
        ------
        ValueError
            If the noise of the raw estimate is unknown, so that there are no intervals.
        """
        pd = import_pandas("FrequencyEstimate.to_frame")
        if interval is None:
            columns = _index(self.categories, pd)
            return pd.DataFrame(self.values.copy(), index=self.row_names, columns=columns)
        n, d = self.shape
        tidy: dict[str, Any] = {}
        if n != 1 or self.row_names is not None:
            names = np.arange(n) if self.row_names is None else self.row_names
            tidy["row"] = np.repeat(names, d)
        tidy["category"] = np.tile(self._labels, n)
        tidy |= {name: np.tile(ends, n) for name, ends in bounds_of_cells(self.domain).items()}
        for name, column in table_columns(stated(self, of)[0], interval).items():
            tidy[name] = column.ravel()
        tidy["interval"] = at_level(interval, noise=self.noise)
        for name, flag in (self.flags or {}).items():
            tidy[name] = np.tile(flag, n)
        return pd.DataFrame(tidy)

    def to_geojson(self, level: float = 0.95) -> dict[str, Any]:
        """Return the cells of a grid of longitudes and latitudes as GeoJSON, for maps.

        Parameters
        ----------
        level : float, default=0.95
            Level of the simultaneous intervals.

        Returns
        -------
        dict
            A feature collection (RFC 7946) with a polygon for each cell, whose properties are the
            rows of ``describe(level)``. ``json.dumps`` makes it a text.

        Raises
        ------
        ValueError
            If there are several estimates, or the categories are not a grid whose first number is a
            longitude (-180 to 180 degrees) and whose second number is a latitude (-90 to 90
            degrees).

        Examples
        --------
        >>> from sklearn_ldp import Domain, FrequencyEstimate
        >>> grid = Domain.grid(Domain.bins(2, bounds=(8, 10)), Domain.bins(2, bounds=(47, 49)))
        >>> geojson = FrequencyEstimate([[0.4, 0.3, 0.2, 0.1]], grid).to_geojson()
        >>> geojson["features"][0]["properties"]["estimate"]
        0.4
        >>> geojson["features"][0]["geometry"]["coordinates"]
        [[[8.0, 47.0], [9.0, 47.0], [9.0, 48.0], [8.0, 48.0], [8.0, 47.0]]]
        """
        self._single_row("to_geojson")
        bounds = bounds_of_cells(self.domain)
        sides = ("x_low", "x_high", "y_low", "y_high")
        largest = [np.abs(bounds.get(side, np.inf)).max() for side in sides]
        if not np.all(np.array(largest) <= [180, 180, 90, 90]):
            raise ValueError(
                "FrequencyEstimate.to_geojson needs cells of longitudes and latitudes in degrees, "
                f"got {self.domain!r:.200}. Use to_frame(0.95) for other coordinates."
            )
        features = []
        cells = np.column_stack([*bounds.values()]).tolist()
        rows = self.describe(level)["rows"]
        for row, (west, east, south, north) in zip(rows, cells, strict=True):
            # The exterior ring is counterclockwise and closed.
            ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
            geometry = {"type": "Polygon", "coordinates": [ring]}
            row["category"] = " x ".join(row["category"])
            features.append({"type": "Feature", "geometry": geometry, "properties": row})
        return {"type": "FeatureCollection", "features": features}

    def summary(self, level: float = 0.95, *, of: str | None = None) -> DataFrame:
        """Return a pandas DataFrame of estimates with intervals, with the largest estimates first.

        The frame contains the rows of ``to_frame(interval=level)``, sorted by the estimates. Bins
        and ordered scales are not sorted. The largest estimates tend to have positive noise, so the
        intervals are simultaneous over all categories.

        Parameters
        ----------
        level : float, default=0.95
            Probability that all intervals of the frame contain the true frequencies.
        of : {"users", "population"}, default=None
            The people to whom the intervals refer; None as for `describe`.

        Returns
        -------
        pandas.DataFrame
            One row per category; if there are several estimates, one row per estimate and category.

        Raises
        ------
        ValueError
            As for `to_frame`.

        Examples
        --------
        >>> from sklearn_ldp import OUE
        >>> oracle = OUE(3.0, categories=["a", "b", "c"], random_state=0)
        >>> oracle.fit_transform(["b"] * 900 + ["a"] * 100).summary().round(2)
          category  estimate   low  high  count           interval
        0        b      0.87  0.79  0.96  874.1  95 % simultaneous
        1        a      0.09  0.05  0.14   89.7  95 % simultaneous
        2        c      0.01  0.00  0.06   14.5  95 % simultaneous
        """
        frame = self.to_frame(interval=level, of=of)
        return sorted_table(frame, self.domain, self.answer()).reset_index(drop=True)

    def confidence_interval(
        self,
        level: float = 0.95,
        queries: Queries | None = None,
        *,
        simultaneous: bool = False,
        of: str = "users",
        coverage: str = "each",
        at_all_times: bool | int = False,
    ) -> ConfidenceInterval:
        """Return confidence intervals of the true frequencies, or of answers to linear queries.

        Intervals for single categories are score intervals with a continuity correction of half a
        count. Their coverage is at least their level, even if few reports support a category.
        Intervals for other answers are Wald intervals with the same correction. They use the exact
        covariances of the oracle, evaluated at the probability distribution nearest to the
        estimate. After :class:`~sklearn_ldp.Trend` the intervals are normal intervals with its
        `standard_errors`; the documentation of Trend states their conditions.

        No interval contains the bias of :class:`~sklearn_ldp.ItemOracle` for users with more than
        `max_items` items.

        Privacy: no cost.

        Parameters
        ----------
        level : float, default=0.95
            Probability that an interval covers the true answer, for each interval separately; with
            `simultaneous`, the probability that all intervals cover their true answers.
        queries : as for `answer`, default=None
            The queries, see :mod:`sklearn_ldp.queries`. If None, every category is a query. Choose
            the queries before you see the estimate, unless simultaneous intervals cover all queries
            that you could have chosen.
        simultaneous : bool, default=False
            Whether the level applies to all intervals together. Then the intervals are valid for
            any selection among them, such as the largest categories.
        of : {"users", "population"}, default="users"
            The people whose frequencies the intervals cover: the users who reported, or a
            population of which the users are a random sample, see :mod:`sklearn_ldp.inference`. For
            a population, the intervals are wider, because they also account for the sampling error.
        coverage : {"each", "selected"}, default="each"
            The intervals to which the level applies. "each": to all queries, as `simultaneous`
            determines. "selected": to the k categories with the largest estimates, which are
            selected by the noisy estimate itself. Pass ``top_k(k)`` as `queries`. All k intervals
            are then simultaneous. They are also simultaneous for the k categories that are truly
            the most frequent, if these are on the list. Such intervals use the raw estimate, and
            are also available after post-processing.
        at_all_times : bool or int, default=False
            Whether the level is valid for all looks at a growing collection together. If ordinary
            intervals are computed after every batch, the probability that at least one of them
            misses the truth is far larger than stated. An integer is the number of users at which
            the intervals are narrowest relative to ordinary ones; choose it before the first look.
            True means 1,000 users. See the notes.

        Returns
        -------
        ConfidenceInterval
            `low` and `high`, each of shape (n_estimates, n_queries). Both ends are within the range
            of possible answers, such as [0, 1], and an interval never shrinks to one end of this
            range, such as [0, 0]. With ``coverage="selected"`` they are in the order of `top`, the
            largest value first.

        Raises
        ------
        ValueError
            If the estimate is post-processed, because the distribution of its error is then unknown
            (unless `coverage` is "selected"); if the estimate has no noise model; or if a query
            combines categories whose covariance the noise model does not contain.

        See Also
        --------
        detected : The categories that occur, with a bound on the rate of false ones.
        sklearn_ldp.inference : Differences of two estimates, tests and ranks.

        Notes
        -----
        Simultaneous intervals for up to 500 queries use the quantile of a Gaussian maximum with the
        exact covariances. For more queries, and for all single categories if there are at least
        100, Sidak's inequality replaces it. For more than 100 categories the ends account for the
        skewness of the counts, because Gaussian tails are too light; an interval that becomes
        longer than the interval of Clopper and Pearson is replaced by the latter.

        An interval for a list of k categories (``coverage="selected"``) has the lower end of the
        simultaneous intervals for all d categories, because positive noise tends to move a category
        to the top of the list. The upper end is the upper end for k categories that were chosen in
        advance: if all of the k most frequent categories are below their upper ends, no other
        category exceeds the smallest of these ends. By Bonferroni's inequality the coverage is
        valid for any distribution, any post-processor and any dependence of the errors.

        With `at_all_times`, the intervals are an asymptotic confidence sequence (Waudby-Smith,
        Arbour, Sinha, Kennedy, Ramdas, Annals of Statistics 52(6), 2024, arXiv:2103.06476): the
        probability that any look ever misses is at most ``1 - level`` if the first look has enough
        users for the central limit theorem. They are 1.55 times as wide as ordinary intervals at
        the number of users that they are tuned for. Several queries use Bonferroni's inequality.

        Examples
        --------
        >>> from sklearn_ldp import OUE
        >>> from sklearn_ldp.queries import groups
        >>> oracle = OUE(2.0, categories=["a", "b", "c", "d"], random_state=0)
        >>> estimate = oracle.fit_transform(["a", "b", "c", "d"] * 2500)
        >>> low, high = estimate.confidence_interval(0.95, groups([0, 0, 1, 1]))
        >>> ((low < 0.5) & (0.5 < high)).tolist()
        [[True, True]]

        Intervals for the two categories at the top of the list:

        >>> from sklearn_ldp.queries import top_k
        >>> estimate.confidence_interval(0.95, top_k(2), coverage="selected").low.shape
        (1, 2)
        """
        return confidence_interval(self, level, queries, simultaneous, of, coverage, at_all_times)

    def to_counts(self, total: int | None = None) -> np.ndarray:
        """Return the estimate as non-negative integer counts with a given sum.

        Norm-Sub (:class:`~sklearn_ldp.NormSub`) makes the frequencies non-negative with sum 1. Then
        the largest remainder method rounds the counts. Rounding changes a count by less than 1, so
        intervals of the frequencies stay valid.

        Privacy: no cost.

        Parameters
        ----------
        total : int, default=None
            The sum of the counts. If None, it is the number of users (rounded if it was estimated),
            or of the users who have one of the categories if `is_partial`.

        Returns
        -------
        ndarray of int64 of shape (n_estimates, d)
            The counts. If users may have several categories, each count is rounded separately, and
            the sum may differ.

        Raises
        ------
        ValueError
            If `total` is not a positive integer, or is None although the number of users is
            unknown.

        Examples
        --------
        >>> from sklearn_ldp import FrequencyEstimate
        >>> release = {"north": 61.3, "south": 42.1, "east": -2.8}
        >>> estimate = FrequencyEstimate.from_counts(
        ...     release, noise="laplace", std=2.0, n_samples=100
        ... )
        >>> estimate.to_counts()
        array([[60, 40,  0]])
        """
        sizes: Any = total
        if total is None:
            sizes = None if self.noise is None else self.noise.n_users
        elif not isinstance(total, Integral) or isinstance(total, bool) or total < 1:
            raise ValueError(
                f"to_counts needs an integer total >= 1, got {total!r}. Pass the sum that the "
                "counts should have."
            )
        if sizes is None:
            raise ValueError(
                "to_counts needs the number of users, which this estimate does not contain. Pass "
                "it as total=."
            )
        whole = np.broadcast_to(np.rint(sizes).astype(np.int64), len(self))
        if self.shares_overlap:
            return np.rint(np.maximum(self.values, 0) * whole[:, None]).astype(np.int64)
        sums = np.ones((len(self), 1))
        if self.is_partial and total is None:
            sums = self.values.sum(axis=1, keepdims=True).clip(0, 1)
            whole = np.rint(sums[:, 0] * whole).astype(np.int64)
        rows = zip(project(self.values, sums)[0], whole.tolist(), strict=True)
        return np.array([apportion(row, size) for row, size in rows]).reshape(self.shape)

    def detected(
        self,
        level: float = 0.95,
        *,
        threshold: float = 0.0,
        error_rate: str = "fdr",
        of: str = "users",
    ) -> Discoveries:
        """Return the categories whose true frequency is significantly above a threshold.

        Each category has an exact p-value: the probability of at least as many reports that support
        it, if its true frequency were equal to the threshold. The p-value is valid for any
        frequencies of the other categories. By default a small proportion of the categories may be
        wrong. So the result may contain categories whose simultaneous interval, as in a summary or
        a report, begins at 0; all such intervals are valid together.

        Privacy: no cost.

        Parameters
        ----------
        level : float, default=0.95
            One minus the allowed error rate.
        threshold : float, default=0.0
            The frequency, in [0, 1), that the categories must exceed.
        error_rate : {"fdr", "fdr_any", "fwer"}, default="fdr"
            The error rate to control. "fdr": the expected proportion of false discoveries (method
            of Benjamini and Hochberg, which assumes that errors are not strongly dependent).
            "fdr_any": the same for any dependence (Benjamini and Yekutieli). "fwer": the
            probability of at least one false discovery (Holm).
        of : {"users", "population"}, default="users"
            The people whose frequencies are compared with the threshold.

        Returns
        -------
        Discoveries
            An object `discoveries`: ``discoveries[i]`` contains the detected categories of row i of
            the estimate; its `mask` and `p_values` have the shape (n_estimates, d).

        Raises
        ------
        ValueError
            If the estimate is post-processed, or its noise model has no p and q (the probabilities
            that a report supports the user's own category, and another category).

        See Also
        --------
        sklearn_ldp.inference.ranks : Ranks with intervals.

        Examples
        --------
        >>> from sklearn_ldp import OUE
        >>> oracle = OUE(3.0, categories=["a", "b", "c", "d"], random_state=0)
        >>> estimate = oracle.fit_transform(["a"] * 900 + ["b"] * 100)
        >>> estimate.detected(threshold=0.5)[0].tolist()
        ['a']
        """
        return detected(self, level, threshold, error_rate, of)

    def __sub__(self, other: Any) -> EstimateDifference:
        """Return the difference of two raw estimates from different users, with its noise.

        Overlapping groups, such as all users and one region, cannot be recognized.
        """
        if not isinstance(other, FrequencyEstimate):
            return NotImplemented
        return EstimateDifference(self, other)

    def describe(
        self,
        level: float = 0.95,
        *,
        question: str = "",
        of: str | None = None,
        at_all_times: bool | int = False,
    ) -> dict[str, Any]:
        """Return the content of the report page (see `report`) as a dict of plain values.

        Parameters
        ----------
        level : float, default=0.95
            Probability that all intervals of an estimate together cover the truth. Each sentence of
            the report is also true with this probability.
        question : str, default=""
            The question that users were asked.
        of : {"users", "population"}, default=None
            The people to whom intervals and sentences refer: the users who reported, or a
            population of which the users are a random sample. If None, it is the population if an
            interviewer asked the users (:class:`~sklearn_ldp.surveys.ResponseDesign`), and
            otherwise the users.
        at_all_times : bool or int, default=False
            Whether intervals and sentences are valid for all looks at a growing collection, as for
            `confidence_interval`. The server of a web survey uses True.

        Returns
        -------
        dict
            Among other entries: `rows` (a dict for each category, as in ``to_frame(level)``),
            `n_samples`, `epsilon`, `oracle`, `configuration`, `noise_level`, `interval` (the level
            and the kind of the intervals), `may_be_said` and `may_not_be_said` (lists of
            sentences), and `made_by` (Python code for this estimate). Unknown entries are None. For
            several estimates, the entry `parts` is a list with one such dict for each estimate.

        Raises
        ------
        ValueError
            If the level is not in [0.5, 1).
        """
        return describe_estimate(self, level, question, of, at_all_times)

    def plot(
        self, **kwargs: Any
    ) -> FrequencyDisplay | DistributionDisplay | TrendDisplay | MapDisplay:
        """Plot the estimate (needs matplotlib).

        Parameters
        ----------
        **kwargs : dict
            Parameters of the display's method `from_estimate`. A single estimate has `truth` (true
            frequencies: an array, a mapping or a Series, which is matched by category), `k` (the
            number of categories) and `queries`. With `truth`, the k largest *true* frequencies are
            drawn, otherwise the k largest estimates. Axes that already show an estimate (`ax`) keep
            their categories.

        Returns
        -------
        FrequencyDisplay, DistributionDisplay, TrendDisplay or MapDisplay
            The display, with the axes in `ax_` and the figure in `figure_`. Several estimates with
            `row_names` are drawn by :class:`~sklearn_ldp.inspection.TrendDisplay`. Bins between
            bounds are drawn by :class:`~sklearn_ldp.inspection.DistributionDisplay`, and cells of a
            grid by :class:`~sklearn_ldp.inspection.MapDisplay`, unless you pass a single `ax`, or a
            parameter of the other display, such as `k` or `queries`. All other estimates are drawn
            by :class:`~sklearn_ldp.inspection.FrequencyDisplay`.
        """
        if "kind" in kwargs:
            raise TypeError(
                f"FrequencyEstimate.plot has no kind=, got {kwargs['kind']!r}. Choose a display of "
                "sklearn_ldp.inspection, such as FrequencyDisplay.from_estimate(estimate)."
            )
        return display_class(self, kwargs).from_estimate(self, **kwargs)

    def _single_row(self, method: str, remedy: str | None = None) -> np.ndarray:
        if len(self) == 0:
            raise ValueError(
                f"FrequencyEstimate.{method} has no result, because no user was asked about the "
                f"categories {', '.join(map(repr, self.categories[:3].tolist()))}, ... Collect "
                "reports first."
            )
        if len(self) != 1:
            raise ValueError(
                f"FrequencyEstimate.{method} needs a single estimate, but this estimate has "
                f"{len(self)} rows. Select one row first: {remedy or f'estimate[0].{method}()'}."
            )
        return self.values[0]

    # -- showing ------------------------------------------------------------------------------
    def _heading(self) -> str:
        if len(self) == 0:
            return f"FrequencyEstimate of {self.shape[1]:,} categories (0 estimates), no users"
        rows = "" if len(self) == 1 else f" ({len(self):,} estimates)"
        parts = [f"FrequencyEstimate of {self.shape[1]:,} categories{rows}"]
        if self.oracle is not None:
            parts.append(f"by {type(self.oracle).__name__}(epsilon={self.oracle.epsilon:g})")
        if self.noise is None:
            parts.append("noise unknown")
        elif self.noise.n_samples is not None and np.size(self.noise.n_samples) == 1:
            n_samples = np.ravel(self.noise.n_samples)[0]
            n_samples = np.rint(n_samples) if self.noise.among else n_samples  # an estimated number
            std = np.ravel(self.noise.std)[0]
            level = "noise level" if self.is_raw else "raw noise level"
            parts.append(f"{counted(n_samples, 'user')}{self.noise.among}, {level} {std:.2g}")
        if not self.is_raw:
            parts.append(f"after {', '.join(self.postprocessors)}")
        return ", ".join(parts)

    def _shown(self, k: int, digits: int = 4) -> tuple[Any, np.ndarray, list[list[str]]]:
        """Choose the answers that the printed form of one estimate shows.

        k: the maximum number of answers. digits: the number of decimal places.
        Returns: the queries, the positions of the shown answers among the answers to these queries,
        and for each shown answer its name and its value as text.
        """
        # The largest categories are shown. For bins, the first bins are shown, or ranges that
        # together contain all bins.
        if len(self) != 1:
            return None, np.empty(0), []
        queries: Any = None
        d = self.shape[1]
        names = self.labels
        places = np.argsort(-self.values[0], kind="stable")
        if self.domain is not None and self.domain.is_ordered:
            places = np.arange(d)
        if quartiles(self) and d > k:
            places = np.arange(4 * k // 5)  # a power of two, as numbers of bins often are
            domain: Any = self.domain
            cuts = domain.ends[np.append(places * d // len(places), d)]
            queries = between(list(pairwise(np.ceil(cuts) + 0.0 if domain.integers else cuts)))
            names = queries.names
        places = places[:k]
        answers = self.answer(queries)[0]
        return queries, places, [[str(names[i]), f"{answers[i]: .{digits}g}"] for i in places]

    def __repr__(self) -> str:
        queries, places, shown = self._shown(5)
        lines = labelled_lines(*zip(*shown, strict=True)) if shown else []
        more = ["..."] * (queries is None and 0 < len(places) < self.shape[1])
        return "\n  ".join([self._heading(), *filter(None, [quartiles(self)]), *lines, *more])

    def _repr_html_(self) -> str:
        queries, places, shown = self._shown(10)
        heads = ["category", "frequency"]
        with suppress(ValueError):  # if the noise, or the raw estimate, is unknown
            ends = table_intervals(self, _LEVEL, queries) if shown else ()
            for row, low, high in zip(shown, *(end[0, places] for end in ends), strict=False):
                row.append(f"{low:.4g} to {high:.4g}")
            heads.append(at_level(_LEVEL, self.states_errors, self.noise))
        rows = [f"<th>{'</th><th>'.join(heads)}</th>"] if shown else []
        rows += [f"<td>{'</td><td>'.join(map(html.escape, row))}</td>" for row in shown]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        caption = html.escape("; ".join(filter(None, [self._heading(), quartiles(self)])))
        return f"<table><caption>{caption}</caption>{body}</table>"


def display_class(estimate: FrequencyEstimate, options: Mapping[str, Any]) -> Any:
    """Return the class of the display that the method `plot` of an estimate draws.

    options: the keyword arguments of `plot`.
    """
    if len(estimate) > 1 and estimate.row_names is not None:
        return TrendDisplay
    shows_categories = {"queries", "k", "order", "by", "orientation"} & options.keys()
    is_single = options.get("ax") is not None and np.ndim(options["ax"]) == 0
    if has_cells(estimate.domain) and not shows_categories:
        return MapDisplay
    if quartiles(estimate) and not shows_categories and not is_single:
        return DistributionDisplay
    return FrequencyDisplay


def _index(categories: np.ndarray, pd: Any) -> Any:
    """Return the categories as a pandas Index; tuples of equal length become a MultiIndex."""
    widths = {len(c) if isinstance(c, tuple) else 0 for c in categories.tolist()}
    if len(widths) == 1 and (width := widths.pop()) > 1:
        names = [f"category_{i}" for i in range(width)]
        return pd.MultiIndex.from_tuples(categories.tolist(), names=names)
    return pd.Index(categories, name="category", tupleize_cols=False)


def _check_shape(values: np.ndarray, n_categories: int) -> None:
    if values.ndim != 2 or values.shape[1] != n_categories:
        raise ValueError(
            f"FrequencyEstimate got values of shape {values.shape} for {n_categories} categories. "
            "Pass values of shape (n_estimates, n_categories)."
        )


def _sealed(categories: Any) -> np.ndarray:
    """Return the categories as a read-only array of shape (d,).

    A read-only array is not copied. Raises ValueError if a category occurs twice.
    """
    if isinstance(categories, np.ndarray) and categories.ndim == 1:
        flags = categories.flags
        if flags.owndata and not flags.writeable:
            return categories
    array = as_vector(categories)
    if len(set(array.tolist())) < len(array):
        raise ValueError(
            "FrequencyEstimate needs distinct categories, got a category more than once. List each "
            "category only once."
        )
    return _read_only(array)


def _read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def _plain(category: Any) -> Any:
    """Convert a NumPy scalar to a Python object, for display and hashing."""
    return category.item() if isinstance(category, np.generic) else category
