"""The estimate that oracles, post-processors and searches pass on, together with its noise."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import date
from itertools import pairwise
from numbers import Real
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from ...inspection import DistributionDisplay, FrequencyDisplay, MapDisplay, TrendDisplay
from ..domains import Domain, ends_of
from ..domains.values import (
    as_numbers,
    as_vector,
    is_row_index,
    named_missing,
    own_categories,
    places_of,
)
from ..noise import Noise, NoiseModel
from ..queries import Answers, Queries, as_query_set, between, is_mean
from ..report_page import Kept
from ..statements import (
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
    stated,
    table_columns,
    table_intervals,
)
from ..support.pandas import import_pandas
from ..support.privacy import PrivacyWarning, makes_pandas, warn_once
from ..support.text import counted, labelled_lines
from ..support.typing import DataFrame, Rows, Series
from ._checks import check_estimate

OR_LONGER = "or longer"  # a flag of strings that were found
_LEVEL = 0.95  # of the intervals in the representation of a notebook


@dataclass(frozen=True, eq=False, repr=False)
class FrequencyEstimate(Kept, tag="frequency-estimate"):
    """Estimated frequencies of categories, and what is known about their noise.

    Oracles return an estimate; post-processors take one and return a new one. Ask it: `top` names
    the most frequent categories, `answer` takes queries such as totals of groups,
    `confidence_interval` and `detected` say how sure the raw estimate is, and `plot` shows it.
    You need no parameter, unless you make an estimate from numbers of your own.

    It is a small frozen container and not a subclass of ndarray, because the results of slicing and
    arithmetic would keep a noise level that is no longer right. ``np.asarray(estimate)`` gives the
    numbers, ``estimate["red"]`` is the frequency of a category, and ``estimate[i]`` selects rows.

    Parameters
    ----------
    values : array-like of shape (n_estimates, d)
        Each row is an estimate of the distribution. There is no row if nobody was asked, as may
        happen to a part of an :class:`~sklearn_ldp.EstimateSet`.
    categories : array-like of shape (d,) or Domain
        The categories, in the order of the columns.
    noise : Noise, default=None
        The noise of the raw estimate, such as ``NoiseModel(p, q, n_samples)``; None if unknown.
        A post-processed estimate keeps the `noise`, the `oracle` and the `shards` of the raw
        estimate that it was made from. They say where it comes from, but no longer how far it is
        from the truth.
    oracle : estimator, default=None
        An unfitted oracle that can `simulate` the collection again; None if unknown.
    shards : Shards, default=None
        Support counts of disjoint parts of the same reports, which
        :class:`~sklearn_ldp.HeldOutSearch` uses; None if they were not kept apart.
    postprocessors : tuple of str, default=()
        Names of the post-processors that have changed the raw estimate.
    clip_answers : bool, default=False
        Whether `answer` clips each answer at 0 (:class:`~sklearn_ldp.PostPos`).
    row_names : array-like of shape (n_estimates,), default=None
        What each row is about, such as a region or a week.
    raw_values : ndarray of shape (n_estimates, d), default=None
        The raw values that a post-processed estimate was made from; None if they are not known, or
        if the estimate is raw itself.
    domain : Domain, default=None
        The domain, if it was given as `categories`; it goes where these categories go. None if only
        the categories are known.
    flags : mapping of str to ndarray of bool of shape (d,), default=None
        What is true of some categories, such as that they were "detected". Tables have a column
        for each flag, and print and pictures name those of a category beside it.
    caveats : tuple of str, default=()
        What a report of the estimate may not leave out, such as that its domain was learned from
        the users' values.
    standard_errors : ndarray of shape (n_estimates, d), default=None
        How far the values are from the population's frequencies, where a post-processor knows it,
        such as :class:`~sklearn_ldp.Trend`; then there are intervals after post-processing, too.

    Attributes
    ----------
    shape : tuple of int
        ``(n_estimates, d)``.
    is_raw : bool
        Whether no post-processor has changed the estimate.
    shares_overlap : bool
        Whether a user may be in several categories (:class:`~sklearn_ldp.ItemOracle`), so that
        frequencies do not sum to 1, and sums of several are refused.
    sums_to_one : bool
        Whether the true frequencies sum to 1: not if shares overlap, or if the categories are some
        of many (:class:`~sklearn_ldp.StringOracle`).

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

    def __post_init__(self) -> None:
        if np.iscomplexobj(self.values):
            raise ValueError("FrequencyEstimate needs real values, got complex ones: take .real.")
        values = np.array(self.values, dtype=np.float64, ndmin=2)
        domain, categories = self.domain, self.categories
        if isinstance(categories, Domain):
            domain = categories
            if domain.size > values.shape[-1]:  # a product may be too large to be listed
                _check_shape(values, domain.size)
            categories = domain.categories
        categories = _sealed(categories)
        if domain is not None and domain.categories is not categories:
            domain = None  # `replace` has brought other categories
        _check_shape(values, len(categories))
        if not np.all(np.isfinite(values)):
            raise ValueError("FrequencyEstimate needs finite values, got NaN or infinity.")
        if self.noise is not None and np.size(self.noise.n_samples) not in (1, len(values)):
            raise ValueError(
                f"FrequencyEstimate has {len(values)} rows but its noise has "
                f"{np.size(self.noise.n_samples)} sample sizes; give one, or one per row."
            )
        values.flags.writeable = False
        made: dict[str, Any] = {"values": values, "categories": categories, "domain": domain}
        if domain is self.categories and domain is not None:  # not in copies with other values
            made["flags"] = {**domain.flags, **(self.flags or {})} or None
            made["caveats"] = tuple(dict.fromkeys((*self.caveats, *domain.caveats)))
        if self.standard_errors is not None:
            errors = _read_only(np.asarray(self.standard_errors, dtype=np.float64))
            if errors.shape != values.shape:
                raise ValueError(
                    f"FrequencyEstimate needs standard_errors of shape {values.shape}, as the "
                    f"values, got {errors.shape}."
                )
            made["standard_errors"] = errors
        if self.row_names is not None:
            if len(self.row_names) != len(values):
                raise ValueError(
                    f"FrequencyEstimate has {len(values)} rows but {len(self.row_names)} row_names."
                )
            made["row_names"] = _read_only(as_vector(self.row_names))
        vars(self).update(made)

    def __check_state__(self) -> int:
        check_estimate(self)
        return 0 if self.shards is None else self.shards.of.tallies.nbytes

    @classmethod
    def from_counts(
        cls,
        counts: ArrayLike,
        *,
        n_samples: ArrayLike,
        p: float | None = None,
        q: float | None = None,
        std: float | None = None,
        categories: Any = None,
    ) -> FrequencyEstimate:
        """Return the estimate that counts give which somebody else added up.

        Parameters
        ----------
        counts : array-like of shape (d,) or (n_estimates, d), or mapping
            With `p` and `q`: how many reports support each category, such as the bits of RAPPOR;
            with `std`: noisy numbers of users, such as a noisy histogram has.
        n_samples : int or array-like of shape (n_estimates,)
            Number of users.
        p, q : float, default=None
            Probability that a report supports the user's own category, and a given other one.
        std : float, default=None
            Standard deviation of the noise of each count.
        categories : array-like of shape (d,), default=None
            The categories; None takes the keys or the index of `counts`, or 0, 1, ..

        Returns
        -------
        FrequencyEstimate
            A raw estimate with its noise, for intervals, post-processors and searches.

        Raises
        ------
        ValueError
            If it is not either p and q or std, or a count is impossible.

        Examples
        --------
        >>> from sklearn_ldp import FrequencyEstimate
        >>> bits = {"home": 6375, "abroad": 6125}  # of basic RAPPOR, from 10,000 users
        >>> FrequencyEstimate.from_counts(bits, p=0.6875, q=0.5625, n_samples=10_000).values
        array([[0.6, 0.4]])
        """
        labels = own_categories(counts)
        plain: Any = list(counts.values()) if isinstance(counts, Mapping) else counts
        if {"count", "proportion"} & set(getattr(plain, "columns", ())):
            raise ValueError(
                "FrequencyEstimate.from_counts got a data frame with a column of counts: pass this "
                "column as counts=, and the column of categories as categories=."
            )
        n = as_numbers(n_samples, kinds="iuf")
        array = np.atleast_2d(np.asarray(plain if as_numbers(plain, kinds="iuf").size else []))
        if not (array.size and n.size and np.all(n > 0)):
            raise ValueError(
                "FrequencyEstimate.from_counts needs a number for each category in counts=, and "
                f"numbers of users above 0 in n_samples=, got {counts!r:.100} and {n_samples!r}."
            )
        if std is not None and not (isinstance(std, Real) and 0 <= std < np.inf):
            raise ValueError(f"FrequencyEstimate.from_counts needs a finite std >= 0, got {std!r}.")
        if not (p is None) == (q is None) != (std is None):
            raise ValueError("FrequencyEstimate.from_counts needs p= and q= of reports, or std=.")
        most = array.max(initial=0)
        if array.dtype.kind == "u" and most > np.iinfo(array.dtype).max // 2:
            raise ValueError(
                f"FrequencyEstimate.from_counts got the count {most}, which looks like a negative "
                f"one in {array.dtype}: read it as a signed integer (counts.astype('int64'))."
            )
        values = array.astype(float)
        if std is None and not np.all((values >= 0) & (values <= n[..., None])):
            raise ValueError(
                "FrequencyEstimate.from_counts needs counts of reports from 0 to n_samples, got "
                f"{values.min():g} to {values.max():g}: noisy histograms have std= instead."
            )
        if categories is None:
            categories = labels or range(array.shape[1])
        if p is not None and q is not None:
            noise = NoiseModel(p, q, n_samples)
            return cls(noise.debias(values), categories, noise)
        assert std is not None
        return cls(values / n[..., None], categories, Noise.of_level(std, n_samples))

    @classmethod
    def from_rows(cls, estimates: Mapping[Any, FrequencyEstimate]) -> FrequencyEstimate:
        """Return estimates of one question as the rows of one, such as those of several weeks.

        Parameters
        ----------
        estimates : mapping of name to FrequencyEstimate of shape (1, d)
            Raw estimates from different users, by oracles that are configured alike, in the order
            of the rows; their numbers of users and rounds may differ.

        Returns
        -------
        FrequencyEstimate of shape (n_estimates, d)
            As :func:`~sklearn_ldp.oracles.estimate_by_group` returns it, for
            :class:`~sklearn_ldp.Trend`, :func:`~sklearn_ldp.inference.poststratify` and differences
            of rows.

        Raises
        ------
        ValueError
            If there is none, or they are not alike.

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
            raise ValueError("FrequencyEstimate.from_rows needs at least one estimate, got none.")
        check_apart(rows, "set of rows")
        if any(len(one) != 1 for one in rows):
            raise ValueError("FrequencyEstimate.from_rows needs estimates of one row each.")
        try:
            noise = Noise.of_estimates([one.noise for one in rows])
        except ValueError as error:
            raise ValueError(
                f"{error} Rows are of one oracle, so keep such estimates apart (EstimateSet), or "
                "average them (inference.combine)."
            ) from None
        values = np.vstack([one.values for one in rows])
        names = list(estimates)
        return rows[0].with_values(values, noise=noise, row_names=names, shards=None)

    # -- as a container -----------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, int]:
        """(n_estimates, d)."""
        return self.values.shape

    @property
    def ndim(self) -> int:
        """Number of axes, always 2: containers of transformers such as ColumnTransformer ask."""
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
        """Whether a user may be in several categories, so that frequencies do not sum to 1."""
        return self.domain is not None and self.domain.shares_overlap

    @property
    def sums_to_one(self) -> bool:
        """Whether the true frequencies sum to 1: not if they overlap, or are of strings found."""
        return not self.shares_overlap and OR_LONGER not in (self.flags or {})

    @property
    def states_errors(self) -> bool:
        """Whether the estimate has intervals of its own: it is raw, or has `standard_errors`."""
        return self.is_raw or self.standard_errors is not None

    @property
    def design_effect(self) -> Any:
        """The cost of weighting users unequally: a float, or one for each estimate.

        By this factor more users are needed than without weights: ``n sum W_h**2 / n_h`` for n
        users in groups of n_h and with the weights W_h (Kish). It is 1 without weights.
        """
        noise = self.noise
        if noise is None or noise.n_samples is None:
            raise ValueError("No design_effect without the noise and the number of users.")
        effect = noise.design_effect
        return float(effect[0]) if effect.size == 1 else effect

    @property
    def labels(self) -> Any:
        """The labels of the categories in print and pictures: themselves, with their flags."""
        if not self.flags:
            return self._labels
        names, rows = np.array(list(self.flags)), np.column_stack(list(self.flags.values()))
        pairs = zip(self._labels.tolist(), (", ".join(names[row]) for row in rows), strict=True)
        return np.array([f"{one} ({mark})" if mark else str(one) for one, mark in pairs], object)

    @property
    def _labels(self) -> np.ndarray:
        """The categories, with a name for missing answers."""
        return named_missing(self.categories) if self.domain is None else self.domain.labels

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies go through __init__, so that they are as read-only as the original.
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.domain is not None:
            state["categories"] = self.domain  # a copied array is no longer that of the domain
        return type(self), tuple(state.values())

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False and dtype not in (None, np.float64):
            raise ValueError("FrequencyEstimate holds float64: another dtype needs copy=True.")
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        is_row = func is np.hstack or (func is np.concatenate and kwargs.get("axis") == 1)
        if is_row and sum(getattr(one, "is_raw", False) for one in args[0]) > 1:
            # As by make_union, where users report to each oracle, and the row has no noise.
            text = "Raw estimates side by side spend the sum of their epsilons, and look like one "
            text += "to a post-processor: put one behind each oracle, or ask by a ColumnOracle."
            warn_once(text, PrivacyWarning, "estimates side by side")
        joined = func._implementation(*args, **kwargs)
        if func is np.hstack and makes_pandas():
            import pandas as pd

            return pd.DataFrame(joined)
        return joined

    def __iter__(self) -> Iterator[FrequencyEstimate]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(  # type: ignore[overload-overlap]
        self, key: str | bytes | bool | tuple[Any, ...] | date | None
    ) -> float: ...
    @overload
    def __getitem__(self, key: Rows) -> FrequencyEstimate: ...
    def __getitem__(self, key: Any) -> Any:
        """Return the frequency of a category by its name, or the estimates of some rows.

        Parameters
        ----------
        key : category, or int, slice, list, array or mask of rows
            An integer is always a row, also where the categories are integers: ask these by
            ``answer([18])``. Anything else that is neither a slice, a list nor an array is the name
            of a category: text, a tuple, a date, True, or None for a missing answer. Of several
            estimates with `row_names` it is the name of a row: ``weeks["may"]["red"]``. Type
            checkers see a number there, too, as no type tells whether rows have names.

        Returns
        -------
        float or FrequencyEstimate
            The frequency of the category in a single estimate, as `answer` returns it; or the
            chosen rows, of which a single one keeps both axes.

        Raises
        ------
        KeyError
            If there is no such category.
        IndexError
            If there is no such row.
        """
        if not is_row_index(key):
            names = [] if self.row_names is None else self.row_names.tolist()
            is_category = len(self) == 1 and key in self.categories.tolist()
            is_row = not is_category and key in names
            return self._of_rows(names.index(key)) if is_row else self._frequency_of(key)
        try:
            return self._of_rows(key)
        except IndexError:
            raise IndexError(
                f"An integer, a slice, a list or a mask selects among the {len(self)} rows of an "
                f"estimate, got {key!r}; categories are in a list of names, as in answer([..])."
            ) from None

    def _frequency_of(self, category: Any) -> float:
        if isinstance(category, tuple) and not isinstance(self.categories[0], tuple):
            raise IndexError(
                "A FrequencyEstimate is indexed by rows, or by the name of a single category; for "
                "more use estimate.answer([..]), estimate.to_frame() or np.asarray(estimate)."
            )
        row = self._single_row("__getitem__")
        try:
            (place,) = places_of([category], self.categories, "This estimate")
        except ValueError as error:
            raise KeyError(str(error)) from None
        return float(max(row[place], 0.0) if self.clip_answers else row[place])

    def _of_rows(self, rows: Any) -> FrequencyEstimate:
        rows = [int(rows)] if isinstance(rows, (int, np.integer)) else rows
        values = self.values[rows]
        noise = None if self.noise is None else self.noise.of_rows(rows)
        shards = None if self.shards is None else self.shards.of_rows(rows)
        names = None if self.row_names is None else self.row_names[rows]
        raw, errors = (x if x is None else x[rows] for x in (self.raw_values, self.standard_errors))
        changes: dict[str, Any] = {"row_names": names, "raw_values": raw, "standard_errors": errors}
        return replace(self, values=values, noise=noise, shards=shards, **changes)

    def with_values(
        self, values: ArrayLike, by: str | None = None, **changes: Any
    ) -> FrequencyEstimate:
        """Return the same estimate with other values.

        Parameters
        ----------
        values : array-like of shape (n_estimates, d)
            The new values.
        by : str, default=None
            Name of the post-processor that made the values; None if they are still raw.
        **changes : dict
            Other fields to replace.

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
            raise ValueError("with_values needs by=, a post-processor's name, or None if raw.")
        names = self.postprocessors if by is None else (*self.postprocessors, by)
        if by is not None:
            raw = self.values if self.is_raw else self.raw_values
            changes = {"raw_values": raw, "standard_errors": None, **changes}
        return replace(self, values=values, postprocessors=names, **changes)

    def as_raw(self) -> FrequencyEstimate:
        """Return the raw estimate that this one was made from.

        Returns
        -------
        FrequencyEstimate
            With the raw values, if they are known; otherwise the estimate itself.
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
        """Return the raw estimate from some of the shards of its reports.

        Parameters
        ----------
        shards : ndarray of int
            Indices of shards that hold reports.

        Returns
        -------
        FrequencyEstimate
            The same as from a collection of these reports alone.

        Raises
        ------
        ValueError
            If the reports were not kept apart.
        """
        if self.shards is None:
            raise ValueError("FrequencyEstimate has no shards: its oracle needs n_shards > 1.")
        values, noise = self.shards.estimate(shards)
        return replace(self, values=values, noise=noise, shards=self.shards.some(shards))

    # -- asking -------------------------------------------------------------------------------
    @overload
    def answer(self, queries: None = None) -> np.ndarray: ...
    @overload
    def answer(self, queries: Queries) -> np.ndarray | Answers: ...
    def answer(self, queries: Queries | None = None) -> np.ndarray | Answers:
        """Answer linear queries: each is the total frequency of a set of categories.

        Parameters
        ----------
        queries : list of categories, mapping, query set, matrix of shape (n_queries, d), or None
            Each category of a list is a query. A mapping such as ``{"north": ["a", "b"]}`` asks for
            the total of each list. A query set is from :mod:`sklearn_ldp.queries`, such as
            ``groups(labels)`` or ``mean(numbers)``, and may be in a list with others. A (sparse)
            matrix has one row per query. None asks for every category.

        Returns
        -------
        ndarray or Answers of shape (n_estimates, n_queries)
            The answers, clipped at 0 after :class:`~sklearn_ldp.PostPos`. If the queries have
            names, as groups and listed categories have, these stand beside the numbers:
            ``answers["cat"]`` is one of them, ``np.asarray(answers)`` is the array of all
            (:class:`~sklearn_ldp.queries.Answers`).

        Raises
        ------
        ValueError
            If the queries are for other categories, or for another number of them; or if they add
            up shares that overlap.

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
            text += "any frequency, because users were moved between bins: "
            text += 'estimate.mean(values="raw") is unbiased.'
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
            Number of categories; if there are fewer, all of them are returned.

        Returns
        -------
        list of (category, frequency)
            In descending order of frequency, like :meth:`collections.Counter.most_common`.
        """
        if not isinstance(k, (int, np.integer)) or k < 0:
            raise ValueError(f"Argument k must be an integer >= 0, got {k!r}.")
        row = self._single_row("top")
        order = np.argsort(-row, kind="stable")[:k]
        return [(_plain(self.categories[i]), float(row[i])) for i in order]

    def mean(self, values: str | None = None) -> np.ndarray:
        """Return the mean of a number from the centres of its bins.

        Parameters
        ----------
        values : {"raw", "processed"}, default=None
            Whose mean it is. "raw" is the answer of the raw estimate to ``queries.mean()``, which
            is unbiased, and which intervals are around. "processed" is the mean after
            post-processing: after :class:`~sklearn_ldp.SmoothMLE` it has the smaller error, after
            projections such as :class:`~sklearn_ldp.NormSub` a large bias. None takes "raw", and
            warns once after post-processing.

        Returns
        -------
        ndarray of shape (n_estimates,)
            The means, in the units of the bins.

        Raises
        ------
        ValueError
            If the categories are no bins between bounds, if the estimate is post-processed and the
            raw values are not known, or if `values` is something else.

        Examples
        --------
        >>> from sklearn_ldp import Domain, FrequencyEstimate
        >>> ages = FrequencyEstimate([[0.5, 0.25, 0.25]], Domain.bins(3, bounds=(0, 90)))
        >>> ages.mean().tolist(), ages.std().round(2).tolist()
        ([37.5], [24.87])
        """
        return self._moments(values, "mean")[0]

    def std(self, values: str | None = None) -> np.ndarray:
        """Return the standard deviation of a number from the centres of its bins.

        Parameters
        ----------
        values : {"raw", "processed"}, default=None
            Whose standard deviation it is, as for `mean`.

        Returns
        -------
        ndarray of shape (n_estimates,)
            The standard deviations, in the units of the bins; 0 where the noise makes the variance
            negative.

        Raises
        ------
        ValueError
            As for `mean`.
        """
        return self._moments(values, "std")[1]

    def _moments(self, values: str | None, method: str) -> tuple[np.ndarray, np.ndarray]:
        """The means and standard deviations of the raw or of the processed values."""
        ends = ends_of(self.domain, f"FrequencyEstimate.{method}")
        if values not in (None, "raw", "processed"):
            raise ValueError(
                f'FrequencyEstimate.{method} needs values="raw" or "processed", got {values!r}.'
            )
        source = self if values == "processed" else self.as_raw()
        if values != "processed" and not source.is_raw:  # its values are lost
            refuse_without_law(self, method)
        if values is None and not self.is_raw:
            text = f"FrequencyEstimate.{method} is of the raw values, not of those after "
            text += f'{", ".join(self.postprocessors)}: say which, values="raw" or "processed".'
            warn_once(text, UserWarning, f"{method} of raw values")
        centers = (ends[:-1] + ends[1:]) / 2
        means = source.values @ centers
        squares = (centers - means[:, None]) ** 2
        return means, np.sqrt(np.maximum(np.sum(source.values * squares, axis=1), 0))

    def quantile(self, probabilities: ArrayLike) -> np.ndarray:
        """Return quantiles of a number in bins, of the values as they are.

        Parameters
        ----------
        probabilities : float or array-like of shape (n_quantiles,)
            Which quantiles, each in (0, 1); 0.5 is the median.

        Returns
        -------
        ndarray of shape (n_estimates, n_quantiles)
            The quantiles; :func:`sklearn_ldp.inference.quantiles` has their intervals.

        Raises
        ------
        ValueError
            If the categories are no bins between bounds, or a probability is not in (0, 1).
        """
        return quantile_values(self, probabilities)

    def median(self) -> np.ndarray:
        """Return the median of a number in bins, of the values as they are.

        Returns
        -------
        ndarray of shape (n_estimates,)
            The medians; :func:`sklearn_ldp.inference.quantiles` has their intervals.
        """
        return self.quantile(0.5)[:, 0]

    def to_series(self) -> Series:
        """Return the frequencies as a pandas Series indexed by category.

        Returns
        -------
        pandas.Series
            Its name is "frequency".
        """
        self._single_row("to_series")
        return self.to_frame().iloc[0].rename("frequency")

    def to_frame(self, interval: float | None = None, *, of: str | None = None) -> DataFrame:
        """Return the estimates as a pandas DataFrame.

        Parameters
        ----------
        interval : float, default=None
            Level of confidence intervals. With it the frame is tidy, with one row per category,
            and its intervals are simultaneous over the whole frame.
        of : {"users", "population"}, default=None
            Whom the intervals are about; None as for `describe`.

        Returns
        -------
        pandas.DataFrame
            One row per estimate and one column per category, of shape (n_estimates, d); indexed by
            `row_names` if there are any. Joint categories of several columns make a MultiIndex with
            one level per column, which unstacks. With `interval` it has the columns "category",
            "estimate" (the raw one), "low", "high", after post-processing "frequency" (its result),
            "count" (of users) and "interval" instead, and "row" before them if there are several
            estimates. All intervals of the frame are simultaneous, so it may be sorted and
            cut; "interval" has the level, as in "95 % at once". Each interval is alone where only
            the standard deviation of the noise is known. They are those of the
            column before them: of "estimate", or of "frequency" where it states its errors.
            Raw values below 0 or above 1 lie outside of their intervals. Each of the `flags` has a
            column after them. The command line writes the same columns. Cells of a grid have the
            columns "x_low", "x_high", "y_low" and "y_high" after "category", of which other
            packages make polygons.

        Raises
        ------
        ValueError
            If the noise of the raw estimate is not known, so that there are no intervals.
        """
        pd = import_pandas("FrequencyEstimate.to_frame")
        if interval is None:
            columns = _index(self.categories, pd)
            return pd.DataFrame(self.values.copy(), index=self.row_names, columns=columns)
        (n, d), columns = self.shape, table_columns(stated(self, of)[0], interval)
        tidy = {"category": np.tile(self._labels, n), **_bounds_of_cells(self.domain, n)}
        if n != 1 or self.row_names is not None:
            names = np.arange(n) if self.row_names is None else self.row_names
            tidy = {"row": np.repeat(names, d), **tidy}
        flags = {name: np.tile(flag, n) for name, flag in (self.flags or {}).items()}
        numbers = {name: column.ravel() for name, column in columns.items()}
        said = {"interval": at_level(interval, noise=self.noise)}
        return pd.DataFrame({**tidy, **numbers, **said, **flags})

    def summary(self, level: float = 0.95, *, of: str | None = None) -> DataFrame:
        """Return category, estimate, low and high in a pandas DataFrame, the largest first.

        It is ``to_frame(interval=level)`` in another order, which bins and ordered scales keep. The
        largest estimates are large by their noise, too, so the intervals hold for all categories
        at once.

        Parameters
        ----------
        level : float, default=0.95
            Probability that all intervals of the frame contain the truth.
        of : {"users", "population"}, default=None
            Whom the intervals are about; None as for `describe`.

        Returns
        -------
        pandas.DataFrame
            One row per category, and per estimate if there are several.

        Raises
        ------
        ValueError
            As for `to_frame`.

        Examples
        --------
        >>> from sklearn_ldp import OUE
        >>> oracle = OUE(3.0, categories=["a", "b", "c"], random_state=0)
        >>> oracle.fit_transform(["b"] * 900 + ["a"] * 100).summary().round(2)
          category  estimate   low  high  count      interval
        0        b      0.87  0.79  0.96  874.1  95 % at once
        1        a      0.09  0.05  0.14   89.7  95 % at once
        2        c      0.01  0.00  0.06   14.5  95 % at once
        """
        frame = self.to_frame(interval=level, of=of)
        if self.domain is not None and self.domain.is_ordered:
            return frame
        order = np.argsort(-self.answer(), axis=1, kind="stable")
        starts = np.arange(len(self))[:, None] * self.shape[1]
        return frame.iloc[(starts + order).ravel()].reset_index(drop=True)

    def confidence_interval(
        self,
        level: float = 0.95,
        queries: Queries | None = None,
        *,
        simultaneous: bool = False,
        of: str = "users",
        coverage: str = "each",
    ) -> ConfidenceInterval:
        """Return confidence intervals of the true frequencies, or of answers to linear queries.

        Intervals of single categories are score intervals with half a count, which hold at least
        at their level even where few reports support a category. Those of other answers are Wald
        intervals with the exact covariances of the oracle, at the estimate's nearest distribution,
        and half a count wider. After :class:`~sklearn_ldp.Trend` they are normal
        intervals with its `standard_errors`, which it says when to trust.

        Privacy: costs none.

        Parameters
        ----------
        level : float, default=0.95
            Probability that an interval covers the true answer, for each of them; with
            `simultaneous`, that all of them do so at once.
        queries : as for `answer`, default=None
            The queries, see :mod:`sklearn_ldp.queries`; None asks for every category. They must be
            fixed before the estimate is seen, unless `simultaneous` covers all that could have
            been chosen.
        simultaneous : bool, default=False
            Whether the level is that of all intervals at once. Then they hold for whatever is
            chosen among them, such as the largest.
        of : {"users", "population"}, default="users"
            Whom the intervals are about: those who reported, or a population that they are a
            random sample of, see :mod:`sklearn_ldp.inference`. The latter adds what the drawing of
            the users contributes.
        coverage : {"each", "selected"}, default="each"
            What the level means. "each": every single category or query is covered that often.
            "selected": the intervals of the categories that lead the list hold all at once;
            ``top_k(k)`` as `queries` says how many these are. So do those of the k that are truly
            the most frequent, if they are on the list. These are made from the raw estimate, and
            can also be asked for after post-processing.

        Returns
        -------
        ConfidenceInterval
            `low` and `high`, each of shape (n_estimates, n_queries), within the range that the
            answers of distributions have, and never a single end of it such as [0, 0]. With
            ``coverage="selected"`` they are in the order of `top`, the largest value first.

        Raises
        ------
        ValueError
            If the estimate is post-processed, because its error is then no longer centred at 0
            with a known spread (unless `coverage` is "selected"); if it has no noise model; or if
            that does not know how the errors of the categories of a query are correlated.

        See Also
        --------
        detected : The categories that are surely there.
        sklearn_ldp.inference : Differences of two estimates, tests and ranks.

        Notes
        -----
        Simultaneous intervals of up to 500 queries use the quantile of a Gaussian maximum with the
        exact covariances; more of them, and of single categories from 100 on, use Sidak's
        inequality. For more than 100 categories the ends take the skewness of the counts into
        account, as Gaussian tails are too light; those of Clopper and Pearson are taken where they
        are shorter.

        An interval for a list of k categories (``coverage="selected"``) has the lower end of
        simultaneous intervals of all d categories, as the noise lifted what leads the list. The
        upper end is that of k categories that were named beforehand: if all of the k most frequent
        are below their upper ends, no other category is above the least of these. With Bonferroni's
        inequality this holds whatever the distribution, the post-processor and the dependence of
        the errors are.

        Examples
        --------
        >>> from sklearn_ldp import OUE
        >>> from sklearn_ldp.queries import groups
        >>> oracle = OUE(2.0, categories=["a", "b", "c", "d"], random_state=0)
        >>> estimate = oracle.fit_transform(["a", "b", "c", "d"] * 2500)
        >>> low, high = estimate.confidence_interval(0.95, groups([0, 0, 1, 1]))
        >>> ((low < 0.5) & (0.5 < high)).tolist()
        [[True, True]]

        Those that lead the list:

        >>> from sklearn_ldp.queries import top_k
        >>> estimate.confidence_interval(0.95, top_k(2), coverage="selected").low.shape
        (1, 2)
        """
        return confidence_interval(self, level, queries, simultaneous, of, coverage)

    def detected(
        self,
        level: float = 0.95,
        *,
        threshold: float = 0.0,
        error_rate: str = "fdr",
        of: str = "users",
    ) -> Discoveries:
        """Return the categories whose true frequency is surely above a threshold.

        Each category has an exact p-value: the probability of at least as many reports that
        support it if its frequency were at the threshold, whatever the other frequencies are.

        Privacy: costs none.

        Parameters
        ----------
        level : float, default=0.95
            One minus the error rate.
        threshold : float, default=0.0
            Frequency, in [0, 1).
        error_rate : {"fdr", "fdr_any", "fwer"}, default="fdr"
            The error rate: the expected share of false ones among those returned (Benjamini and
            Hochberg, which assumes that errors are not strongly dependent; or Benjamini and
            Yekutieli, which does not), or the probability that any is false (Holm).
        of : {"users", "population"}, default="users"
            Whose frequencies are compared with the threshold.

        Returns
        -------
        Discoveries
            ``found[i]`` are the categories that were found in the i-th estimate; `mask` and
            `p_values` have the shape (n_estimates, d).

        Raises
        ------
        ValueError
            If the estimate is post-processed, or its noise does not have the p and q of reports
            that support a category or do not.

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
        """Return the difference of two raw estimates, with its covariance."""
        if not isinstance(other, FrequencyEstimate):
            return NotImplemented
        return EstimateDifference(self, other)

    def describe(
        self, level: float = 0.95, *, question: str = "", of: str | None = None
    ) -> dict[str, Any]:
        return describe_estimate(self, level, question, of)

    describe.__doc__ = str(Kept.describe.__doc__).replace(
        "What users were asked.\n",
        """What users were asked.
        of : {"users", "population"}, default=None
            Whom intervals and sentences are about: those who reported, or a population that they
            are a random sample of. None takes the latter where an interviewer asked
            (:class:`~sklearn_ldp.surveys.ResponseDesign`), and otherwise the former.
""",
    )

    def plot(
        self, **kwargs: Any
    ) -> FrequencyDisplay | DistributionDisplay | TrendDisplay | MapDisplay:
        """Plot the estimate (needs matplotlib).

        Parameters
        ----------
        **kwargs : dict
            Passed on to `from_estimate` of the display.

        Returns
        -------
        FrequencyDisplay, DistributionDisplay, TrendDisplay or MapDisplay
            The display, with the axes in `ax_` and the figure in `figure_`. Several estimates with
            `row_names` are drawn by :class:`~sklearn_ldp.inspection.TrendDisplay`. Bins between
            bounds are drawn by :class:`~sklearn_ldp.inspection.DistributionDisplay` (cells of a
            grid by :class:`~sklearn_ldp.inspection.MapDisplay`), unless `ax` is
            a single one or there is an argument of the other display, such as `k` or `queries`. All
            else is drawn by :class:`~sklearn_ldp.inspection.FrequencyDisplay`.
        """
        if "kind" in kwargs:
            raise TypeError(
                "FrequencyEstimate.plot has no kind=: choose a display of sklearn_ldp.inspection, "
                "such as FrequencyDisplay.from_estimate(estimate)."
            )
        if len(self) > 1 and self.row_names is not None:
            return TrendDisplay.from_estimate(self, **kwargs)
        of_categories = {"queries", "k", "order", "by", "orientation"} & kwargs.keys()
        is_single = kwargs.get("ax") is not None and np.ndim(kwargs["ax"]) == 0
        if self.domain is not None and self.domain.grid_ends is not None and not of_categories:
            return MapDisplay.from_estimate(self, **kwargs)
        if quartiles(self) and not of_categories and not is_single:
            return DistributionDisplay.from_estimate(self, **kwargs)
        return FrequencyDisplay.from_estimate(self, **kwargs)

    def _single_row(self, method: str) -> np.ndarray:
        if len(self) == 0:
            raise ValueError(
                f"FrequencyEstimate.{method} has nothing to say: no users have answered for the "
                f"categories {', '.join(map(repr, self.categories[:3].tolist()))}, ..."
            )
        if len(self) != 1:
            raise ValueError(
                f"FrequencyEstimate.{method} needs a single estimate, but this one has "
                f"{len(self)} rows; select one first: estimate[0].{method}()."
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
            n_samples, std = np.ravel(self.noise.n_samples)[0], np.ravel(self.noise.std)[0]
            level = "noise level" if self.is_raw else "raw noise level"
            parts.append(f"{counted(n_samples, 'user')}, {level} {std:.2g}")
        if not self.is_raw:
            parts.append(f"after {', '.join(self.postprocessors)}")
        return ", ".join(parts)

    def _shown(self, k: int, digits: int = 4) -> tuple[Any, np.ndarray, list[list[str]]]:
        """The shown part of one estimate: the queries, places among them, names and answers."""
        # The largest categories; of bins the first ones, or ranges that together are all of
        # them.
        if len(self) != 1:
            return None, np.empty(0), []
        queries: Any = None
        d, names = self.shape[1], self.labels
        places = np.argsort(-self.values[0], kind="stable")
        if self.domain is not None and self.domain.is_ordered:
            places = np.arange(d)
        if quartiles(self) and d > k:
            places = np.arange(4 * k // 5)  # a power of two, as numbers of bins often are
            domain: Any = self.domain
            cuts = domain.ends[np.append(places * d // len(places), d)]
            queries = between(list(pairwise(np.ceil(cuts) + 0.0 if domain.integers else cuts)))
            names = queries.names
        answers, places = self.answer(queries)[0], places[:k]
        return queries, places, [[str(names[i]), f"{answers[i]: .{digits}g}"] for i in places]

    def __repr__(self) -> str:
        queries, places, shown = self._shown(5)
        lines = labelled_lines(*zip(*shown, strict=True)) if shown else []
        more = ["..."] * (queries is None and 0 < len(places) < self.shape[1])
        return "\n  ".join([self._heading(), *filter(None, [quartiles(self)]), *lines, *more])

    def _repr_html_(self) -> str:
        queries, places, shown = self._shown(10)
        heads = ["category", "frequency"]
        with suppress(ValueError):  # if the noise, or the raw estimate, is not known
            ends = table_intervals(self, _LEVEL, queries) if shown else ()
            for row, low, high in zip(shown, *(end[0, places] for end in ends), strict=False):
                row.append(f"{low:.4g} to {high:.4g}")
            heads.append(at_level(_LEVEL, self.states_errors, self.noise))
        rows = [f"<th>{'</th><th>'.join(heads)}</th>"] if shown else []
        rows += [f"<td>{'</td><td>'.join(map(html.escape, row))}</td>" for row in shown]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        caption = html.escape("; ".join(filter(None, [self._heading(), quartiles(self)])))
        return f"<table><caption>{caption}</caption>{body}</table>"


def _bounds_of_cells(domain: Domain | None, n: int) -> dict[str, np.ndarray]:
    """Where the cells of a grid begin and end, for each of n estimates; empty for others."""
    ends = None if domain is None else domain.grid_ends
    if ends is None:
        return {}
    x, y = (np.stack([end[:-1], end[1:]]) for end in ends)
    x_bounds = np.repeat(x, y.shape[1], axis=1)
    y_bounds = np.tile(y, x.shape[1])
    names = ("x_low", "x_high", "y_low", "y_high")
    return {name: np.tile(b, n) for name, b in zip(names, [*x_bounds, *y_bounds], strict=True)}


def _index(categories: np.ndarray, pd: Any) -> Any:
    """An index of categories: one level per column where all are tuples of one length."""
    widths = {len(c) if isinstance(c, tuple) else 0 for c in categories.tolist()}
    if len(widths) == 1 and (width := widths.pop()) > 1:
        names = [f"category_{i}" for i in range(width)]
        return pd.MultiIndex.from_tuples(categories.tolist(), names=names)
    return pd.Index(categories, name="category", tupleize_cols=False)


def _check_shape(values: np.ndarray, n_categories: int) -> None:
    if values.ndim != 2 or values.shape[1] != n_categories:
        raise ValueError(
            "FrequencyEstimate needs values of shape (n_estimates, n_categories); got values of "
            f"shape {values.shape} for {n_categories} categories."
        )


def _sealed(categories: Any) -> np.ndarray:
    """Return distinct categories as a read-only 1-D array; one that is sealed is returned as is."""
    if isinstance(categories, np.ndarray) and categories.ndim == 1:
        flags = categories.flags
        if flags.owndata and not flags.writeable:
            return categories
    array = as_vector(categories)
    if len(set(array.tolist())) < len(array):
        raise ValueError("FrequencyEstimate needs distinct categories, got some more than once.")
    return _read_only(array)


def _read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def _plain(category: Any) -> Any:
    """Return a Python object, for display and hashing, instead of a NumPy scalar."""
    return category.item() if isinstance(category, np.generic) else category
