"""Paragraphs that the docstrings of oracles and surveys share."""

from __future__ import annotations

from typing import TypeVar

from ..common.docs import fill_in

_T = TypeVar("_T")

_COLLECTION = """input : {"values", "reports"}, default="values"
    The content of X in `fit`, `partial_fit` and `transform`: the users' raw values, or reports that
    `privatize` has made.
n_shards : int, default=10
    Number of shards. A shard is a subset of the reports that is counted separately, so that
    :class:`~sklearn_ldp.HeldOutSearch` can compare estimates from different reports. User i is in
    shard i modulo `n_shards`. With ``n_shards=1``, or if the counts would need more than 64 MiB,
    all reports are counted together. The counts of shards reveal something about the order of the
    users. If you give the fitted oracle or its estimate to other people, shuffle the reports
    first, or use ``n_shards=1``.
random_state : int, RandomState, Generator or None, default=None
    Source of the random bits of the reports. If None, the bits come from a secure source. Any
    other value makes the reports predictable, and is for simulations only.
n_jobs : int, default=None
    Number of threads. Each works on a part of the users. It does not change the result."""

_PARAMETERS = """Parameters
----------
epsilon : float, default=1.0
    Privacy budget of one report, > 0.
categories : "auto", int, array-like of shape (d,) or Domain, default="auto"
    The public domain: the list of all values that users may have. An int d means the values
    ``0 .. d-1``, and a list of tuples means values of several columns. :class:`~sklearn_ldp.Domain`
    describes all forms. With "auto", the domain is the levels of the values' categorical dtype. If
    the values have no such dtype, `fit` learns the domain from the raw values. This reveals which
    values occur, so it is for simulations only.
"""

_ATTRIBUTES = """Attributes
----------
categories_ : ndarray of shape (d,)
    The categories of the domain.
support_counts_ : ndarray of shape (d,)
    Number of reports that support (count in favor of) each category.
n_samples_seen_ : int
    Number of users who reported.
frequencies_ : ndarray of shape (d,)
    Estimates of the frequencies; some may be negative. They are unbiased if a report depends on the
    whole value of the user.
noise_ : Noise
    The distribution of the noise of the estimates.
estimate_ : FrequencyEstimate of shape (1, d)
    The raw estimate: the frequencies with their categories and their noise. Post-processors accept
    it.
n_features_in_ : int
    Number of columns of the values seen in `fit`.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of these columns. The attribute only exists if the columns have names."""


_EPSILON_AND_DOMAINS = """epsilon : float, default=1.0
    Privacy budget of one report, > 0.
domains : "auto" or mapping of str to categories, default="auto"
    The public domain of each column: the list of all values that users may have in this column, in
    a form that :class:`~sklearn_ldp.Domain` describes. A data frame must have no other columns. The
    domain of a column may be "auto". With "auto", the domain is the levels of the column's
    categorical dtype in a data frame. If the column has no such dtype, `fit` learns its domain from
    the raw values. This reveals which values occur, so it is for simulations only."""

_FEATURES = """n_features_in_ : int
    Number of columns.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the columns, in the order of `domains`. The attribute only exists if the columns of the
    values seen in `fit` had names."""


def inherit_parameters(cls: type[_T]) -> type[_T]:
    """Insert the parameters and attributes that all oracles share into the docstring of an oracle
    class."""
    return fill_in(cls, parameters=_PARAMETERS + _COLLECTION, attributes=_ATTRIBUTES)


def inherit_survey_parameters(cls: type[_T]) -> type[_T]:
    """Insert the parameters and attributes that all surveys share into the docstring of a survey
    class."""
    return fill_in(cls, domains=_EPSILON_AND_DOMAINS, collection=_COLLECTION, features=_FEATURES)
