"""What the docstrings of all oracles have in common."""

from __future__ import annotations

from .._docstrings import fill_in

_PARAMETERS = """Parameters
----------
epsilon : float, default=1.0
    Privacy budget of one report, > 0.
categories : "auto", int, array-like of shape (d,) or Domain, default="auto"
    The public domain: all that :class:`~sklearn_ldp.Domain` takes. An int d stands for
    ``0 .. d-1``, tuples for values of several columns. "auto" takes the levels that the values
    declare (a categorical dtype); without any it learns the domain from the raw values in `fit`,
    which leaks the values that occur: for simulations only.
input : {"values", "reports"}, default="values"
    Whether `fit`, `partial_fit` and `transform` read users' raw values or their reports.
n_shards : int, default=10
    Number of disjoint parts of the reports (user i in part i modulo `n_shards`) whose counts are
    kept apart, for :class:`~sklearn_ldp.HeldOutSearch`; 1 keeps none, and none are kept where that
    would take more than 64 MiB.
random_state : int, RandomState, Generator or None, default=None
    None draws every coin from the operating system's secure source. Anything else makes reports
    predictable, and is for simulations.
n_jobs : int, default=None
    Number of threads that work on chunks of users; it does not change the result."""

_ATTRIBUTES = """Attributes
----------
categories_ : ndarray of shape (d,)
    The domain.
support_counts_ : ndarray of shape (d,)
    How many reports support each category.
n_samples_seen_ : int
    Number of users.
frequencies_ : ndarray of shape (d,)
    Unbiased estimates; some may be negative.
noise_ : NoiseModel
    The noise of the estimates.
estimate_ : FrequencyEstimate of shape (1, d)
    All of it together: what post-processors take.
n_features_in_ : int
    Number of columns of the values seen in `fit`.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Their names, if they have any."""


def inherit_parameters(cls: type) -> type:
    """Fill in the parameters and attributes that all oracles share in a class's docstring."""
    return fill_in(cls, parameters=_PARAMETERS, attributes=_ATTRIBUTES)
