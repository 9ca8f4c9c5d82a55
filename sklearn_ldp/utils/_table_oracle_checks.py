"""The package's own checks of oracles of several columns."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from .._estimate_set import EstimateSet

_DOMAINS = {"sex": ["F", "M"], "age": 3}
_VALUES = np.array(
    [["F", 0], ["M", 2], ["M", 1], ["F", 0], ["M", 0], ["F", 2], ["M", 1], ["M", 0]] * 25,
    dtype=object,
)


def table_oracle_checks() -> list[Callable[[Any], None]]:
    """Return the checks of oracles of several columns, such as :class:`~sklearn_ldp.ColumnOracle`.

    Returns
    -------
    list of callables
        Each takes an oracle and raises AssertionError if it fails.
    """
    return [
        check_exact_epsilon_of_records,
        check_one_set,
        check_table_client_needs_no_fit,
        check_table_batches_add_up,
        check_table_merge,
        check_refused_tables_change_nothing,
        check_table_randomness,
        check_table_histogram,
        check_table_pieces,
        check_table_pickle,
    ]


def check_table_oracle(oracle: Any) -> None:
    """Run every check of an oracle of several columns.

    Parameters
    ----------
    oracle : oracle
        An instance with a parameter `domains`. The checks clone it, and set its domains and its
        randomness.

    Raises
    ------
    AssertionError
        If the oracle breaks the contract.

    Examples
    --------
    >>> from sklearn_ldp import ColumnOracle
    >>> from sklearn_ldp.utils.estimator_checks import check_table_oracle
    >>> check_table_oracle(ColumnOracle(epsilon=2.0))
    """
    for check in table_oracle_checks():
        check(oracle)


def _small(oracle: Any, **parameters: Any) -> Any:
    given = {"domains": _DOMAINS, "random_state": 0, "input": "values", **parameters}
    return clone(oracle).set_params(**given)


def _same(one: Any, other: Any) -> bool:
    is_same = _same_set(one.estimate_, other.estimate_)
    return is_same and one.n_samples_seen_ == other.n_samples_seen_


def _same_set(one: Any, other: Any) -> bool:
    are_same = (_same_part(part, other[name]) for name, part in one.items())
    return one.names == other.names and all(are_same)


def _same_part(part: Any, other: Any) -> bool:
    # A sum may be taken in another order.
    is_close = part.shape == other.shape and np.allclose(part.values, other.values, atol=1e-12)
    return is_close and part.noise == other.noise


def check_exact_epsilon_of_records(oracle: Any) -> None:
    """Assert by enumeration that no report tells two whole records apart by more than epsilon.

    The largest ratio over all pairs of records, which may differ in every column, must not exceed
    exp(epsilon), nor fall short of it by more than 1e-12.
    """
    from .estimator_checks import check_exact_epsilon_of

    mechanism = _small(oracle).protocol().mechanism.for_enumeration()
    check_exact_epsilon_of(mechanism, product(range(2), range(3)), oracle.epsilon)


def check_one_set(oracle: Any) -> None:
    """Assert that what fit_transform returns is what the fitted attributes hold."""
    oracle = _small(oracle)
    estimates = oracle.fit_transform(_VALUES)
    assert isinstance(estimates, EstimateSet)
    assert oracle.n_samples_seen_ == len(_VALUES)
    assert oracle.n_features_in_ == len(_DOMAINS)
    for name, part in estimates.items():
        assert _same_part(part, oracle.estimate_[name])
        noise: Any = part.noise
        assert noise.n_users == len(_VALUES)
        assert noise.n_samples <= len(_VALUES)


def check_table_client_needs_no_fit(oracle: Any) -> None:
    """Assert that a client needs only the public domains, and keeps no trace of the values."""
    client = _small(oracle)
    before = vars(client).copy()
    reports = client.privatize(_VALUES)
    assert reports.dtype.kind in "iu"
    assert len(reports) == len(_VALUES)
    assert vars(client) == before
    try:
        clone(client).estimate_  # noqa: B018
    except NotFittedError:
        pass
    else:
        raise AssertionError("estimate_ before fit must raise NotFittedError")


def check_table_batches_add_up(oracle: Any) -> None:
    """Assert that reports give the same counts in any order and any split, and within `fit`."""
    reports = _small(oracle).privatize(_VALUES)
    whole = _small(oracle).aggregate(reports)
    split = _small(oracle).aggregate(reports[150:]).aggregate(reports[:1]).aggregate(reports[1:150])
    assert _same(whole, split)
    assert _same(whole, _small(oracle, input="reports").fit(reports))
    assert _same(whole, _small(oracle).fit(_VALUES))


def check_table_merge(oracle: Any) -> None:
    """Assert that merged servers equal one server, and that other configurations are refused."""
    reports = _small(oracle).privatize(_VALUES)
    one, other = _small(oracle).aggregate(reports[:70]), _small(oracle).aggregate(reports[70:])
    assert _same(_small(oracle).merge(one).merge(other), _small(oracle).aggregate(reports))
    for change in ({"epsilon": oracle.epsilon * 1.5}, {"domains": {"sex": ["M", "F"], "age": 3}}):
        stranger = _small(oracle, **change)
        stranger.aggregate(stranger.privatize(_VALUES))
        _assert_refused(one, "merge", stranger)


def check_refused_tables_change_nothing(oracle: Any) -> None:
    """Assert that malformed reports or values are refused as a whole, by one sentence."""
    fitted = _small(oracle).fit(_VALUES)
    reports = np.asarray(fitted.privatize(_VALUES))
    spoilt, missing = reports.copy(), reports.astype(float)
    spoilt[-1] = np.iinfo(reports.dtype).max
    missing[-1] = np.nan
    for bad in (spoilt, missing, reports[:0], reports[..., None], reports.astype(str), None):
        _assert_refused(fitted, "aggregate", bad)
    outside, none = _VALUES.copy(), _VALUES.copy()
    outside[-1, 1], none[-1, 0] = 3, None
    ones = np.ones(len(_VALUES))
    for X, weight in (
        (outside, None),
        (none, None),
        (_VALUES[:0], None),
        (_VALUES[:, :1], None),
        (_VALUES[:, 0], None),
        (_VALUES, -ones),
        (_VALUES, 0.5 * ones),
        (_VALUES, 0 * ones),
        (_VALUES, ones[1:]),
    ):
        for method in ("fit", "partial_fit"):
            _assert_refused(fitted, method, X, sample_weight=weight)


def _assert_refused(oracle: Any, method: str, *args: Any, **kwargs: Any) -> None:
    before, n_samples = oracle.estimate_, oracle.n_samples_seen_
    try:
        getattr(oracle, method)(*args, **kwargs)
    except (ValueError, TypeError) as error:
        assert type(oracle).__name__ in str(error) or "X" in str(error), f"unhelpful: {error}"
    else:
        raise AssertionError("malformed input was accepted")
    assert _same_set(before, oracle.estimate_)
    assert oracle.n_samples_seen_ == n_samples


def check_table_randomness(oracle: Any) -> None:
    """Assert that a seed reproduces, that None does not, and that a generator moves on."""
    first, again = _small(oracle).privatize(_VALUES), _small(oracle).privatize(_VALUES)
    np.testing.assert_array_equal(first, again)
    for moving in (None, np.random.default_rng(0)):
        client = _small(oracle, random_state=moving)
        assert not np.array_equal(client.privatize(_VALUES), client.privatize(_VALUES))
    assert _same(_small(oracle).fit(_VALUES), _small(oracle, n_jobs=2).fit(_VALUES))


def check_table_histogram(oracle: Any) -> None:
    """Assert that fitting counted rows equals fitting the users that they count."""
    rows = np.array([["F", 0], ["M", 2], ["F", 1], ["M", 0]], dtype=object)
    counts = np.array([30, 0, 50, 20])
    whole = _small(oracle).fit(rows.repeat(counts, axis=0))
    assert _same(whole, _small(oracle).fit(rows, sample_weight=counts))


def check_table_pieces(oracle: Any) -> None:
    """Assert that with a seed, values in pieces give the same counts as all values at once."""
    pieces = _small(oracle)
    for start, stop in ((0, 1), (1, 117), (117, len(_VALUES))):
        pieces.partial_fit(_VALUES[start:stop])
    assert _same(_small(oracle).fit(_VALUES), pieces)


def check_table_pickle(oracle: Any) -> None:
    """Assert that a pickled server can be restored, and continues as the original does."""
    server = _small(oracle).fit(_VALUES)
    twin = pickle.loads(pickle.dumps(server))
    assert _same(server, twin)
    assert _same(server.partial_fit(_VALUES), twin.partial_fit(_VALUES))
