"""Paragraphs that the docstrings of oracles and surveys share."""

from __future__ import annotations

from typing import TypeVar

from ..support.docs import fill_in

_T = TypeVar("_T")

_COLLECTION = """input : {"values", "reports"}, default="values"
    Whether `fit`, `partial_fit` and `transform` read users' raw values or their reports.
n_shards : int, default=10
    Number of shards of the reports (user i is in shard i modulo `n_shards`) whose counts are kept
    apart, for :class:`~sklearn_ldp.HeldOutSearch`. With 1 no shards are kept, nor where they would
    take more than 64 MiB. Their sums tell something of the order of the users, so shuffle reports
    before, or keep no shards, if others get the fitted oracle or its estimate.
random_state : int, RandomState, Generator or None, default=None
    None draws every coin from a secure source. Anything else makes reports
    predictable, and is for simulations.
n_jobs : int, default=None
    Number of threads that work on chunks of users; it does not change the result."""

_PARAMETERS = """Parameters
----------
epsilon : float, default=1.0
    Privacy budget of one report, > 0.
categories : "auto", int, array-like of shape (d,) or Domain, default="auto"
    The public domain: anything that :class:`~sklearn_ldp.Domain` takes. An int d stands for
    ``0 .. d-1``, tuples for values of several columns. "auto" takes the levels that the values
    declare (a categorical dtype). Without declared levels it learns the domain from the raw values
    in `fit`, which leaks the values that occur and is for simulations only.
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
    Unbiased estimates; some may be negative.
noise_ : Noise
    The noise of the estimates.
estimate_ : FrequencyEstimate of shape (1, d)
    The estimates with their categories and their noise, as post-processors take them.
n_features_in_ : int
    Number of columns of the values seen in `fit`.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of these columns, if they have any."""


_EPSILON_AND_DOMAINS = """epsilon : float, default=1.0
    Privacy budget of one report, > 0.
domains : "auto" or mapping of str to categories, default="auto"
    The public domain of each column: anything that :class:`~sklearn_ldp.Domain` takes. "auto",
    for all columns or for one in the mapping, means the levels that a column of a data frame
    declares (categorical dtypes). A column of the data frame that the mapping leaves out is
    "auto". Without declared levels `fit` learns a domain from the raw values, which leaks the
    values that occur and is for simulations only."""

_FEATURES = """n_features_in_ : int
    Number of columns.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the columns, in the order of `domains`, if the values seen in `fit` had names."""


def inherit_parameters(cls: type[_T]) -> type[_T]:
    """Fill in the parameters and attributes that all oracles share in a class's docstring."""
    return fill_in(cls, parameters=_PARAMETERS + _COLLECTION, attributes=_ATTRIBUTES)


def inherit_survey_parameters(cls: type[_T]) -> type[_T]:
    """Fill in the parameters and attributes that all oracles of several columns share."""
    return fill_in(cls, domains=_EPSILON_AND_DOMAINS, collection=_COLLECTION, features=_FEATURES)
