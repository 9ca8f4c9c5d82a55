"""Paragraphs that the docstrings of oracles and surveys share."""

from __future__ import annotations

from typing import TypeVar

from ..common.docs import fill_in

_T = TypeVar("_T")

_COLLECTION = """input : {"values", "reports"}, default="values"
    Whether `fit`, `partial_fit` and `transform` read users' raw values or their reports.
n_shards : int, default=10
    Number of shards of the reports, for :class:`~sklearn_ldp.HeldOutSearch`. The counts of each
    shard are stored separately; user i is in shard i modulo `n_shards`. No shards are stored with
    ``n_shards=1``, or if they would need more than 64 MiB. The counts of shards reveal something
    about the order of the users. If other people get the fitted oracle or its estimate, shuffle
    the reports first, or use ``n_shards=1``.
random_state : int, RandomState, Generator or None, default=None
    Source of the random bits of the reports. If None, the bits come from a secure source. Any
    other value makes the reports predictable, and is for simulations only.
n_jobs : int, default=None
    Number of threads that work on chunks of users; it does not change the result."""

_PARAMETERS = """Parameters
----------
epsilon : float, default=1.0
    Privacy budget of one report, > 0.
categories : "auto", int, array-like of shape (d,) or Domain, default="auto"
    The public domain, as an argument of :class:`~sklearn_ldp.Domain`. An int d stands for
    ``0 .. d-1``, tuples for values of several columns. With "auto", the domain is the levels that
    the values declare (a categorical dtype). If the values declare no levels, `fit` learns the
    domain from the raw values, which leaks the values that occur and is for simulations only.
"""

_ATTRIBUTES = """Attributes
----------
categories_ : ndarray of shape (d,)
    The domain.
support_counts_ : ndarray of shape (d,)
    Number of reports that support each category.
n_samples_seen_ : int
    Number of users.
frequencies_ : ndarray of shape (d,)
    Unbiased estimates of the frequencies; some may be negative.
noise_ : Noise
    The noise of the estimates.
estimate_ : FrequencyEstimate of shape (1, d)
    The estimates with their categories and their noise, which post-processors accept.
n_features_in_ : int
    Number of columns of the values seen in `fit`.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of these columns, if they have names."""


_EPSILON_AND_DOMAINS = """epsilon : float, default=1.0
    Privacy budget of one report, > 0.
domains : "auto" or mapping of str to categories, default="auto"
    The public domain of each column, as an argument of :class:`~sklearn_ldp.Domain`. "auto", for
    all columns or for one in the mapping, stands for the levels that a column of a data frame
    declares (a categorical dtype). A column of the data frame that the mapping omits is "auto".
    If a column declares no levels, `fit` learns its domain from the raw values, which leaks the
    values that occur and is for simulations only."""

_FEATURES = """n_features_in_ : int
    Number of columns.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the columns, in the order of `domains`, if the values seen in `fit` had names."""


def inherit_parameters(cls: type[_T]) -> type[_T]:
    """Insert the parameters and attributes that all oracles share into a class's docstring."""
    return fill_in(cls, parameters=_PARAMETERS + _COLLECTION, attributes=_ATTRIBUTES)


def inherit_survey_parameters(cls: type[_T]) -> type[_T]:
    """Insert the parameters and attributes that all surveys share into a class's docstring."""
    return fill_in(cls, domains=_EPSILON_AND_DOMAINS, collection=_COLLECTION, features=_FEATURES)
