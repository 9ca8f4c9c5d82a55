"""The share of users whose value is found: against all sequences of reports, one by one."""

from itertools import product

import numpy as np
import pytest

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    SUE,
    ColumnOracle,
    HadamardResponse,
    ProjectiveGeometryResponse,
    SubsetSelection,
)
from sklearn_ldp._core.mechanisms.chain import Chain
from sklearn_ldp.privacy import repeated_collection_risk
from sklearn_ldp.utils.estimator_checks import exact_report_distribution

PRIOR = [0.5, 0.3, 0.2]
LISTED = [
    GRR(1.0, categories=3),
    HadamardResponse(1.0, categories=3),
    HadamardResponse(2.0, categories=3, n_blocks=2),
    ProjectiveGeometryResponse(1.0, categories=3),
]
DRAWN = [
    OUE(1.0, categories=3),
    SUE(2.0, categories=3),
    SubsetSelection(1.0, categories=3, subset_size=2),
]


def by_sequences(oracle, n_rounds, forever=None):
    """Sum the best guess over all sequences of reports, from the enumerated law of one report."""
    channel = oracle.channel()
    laws = [exact_report_distribution(channel, code) for code in range(3)]
    kinds = sorted(laws[0])
    once = np.array([[float(law[y]) for y in kinds] for law in laws])
    if forever is None:
        of_permanent = np.ones((3, 1))
        given = once[:, None]
    else:
        chain, codes = Chain(channel, oracle.epsilon, forever), np.arange(3)
        reports = np.array(kinds).reshape(len(kinds), *oracle.privatize([0]).shape[1:])
        supported = channel.supports(reports, codes).T
        of_permanent = once * np.where(supported, 1, chain.keep_against / 2**64)
        of_permanent /= of_permanent.sum(axis=1, keepdims=True)
        uniform = once[0] * np.where(supported[0], chain.keep_for / 2**64, 1)
        a = chain.share / 2**64
        given = a * np.eye(len(kinds)) + (1 - a) * uniform / uniform.sum()
        given = np.broadcast_to(given, (3, *given.shape))
    total = 0.0
    for sequence in product(range(len(kinds)), repeat=n_rounds):
        chances = (of_permanent * given[:, :, list(sequence)].prod(axis=2)).sum(axis=1)
        total += max(PRIOR * chances)
    return total


@pytest.mark.parametrize("oracle", LISTED, ids=repr)
@pytest.mark.parametrize("forever", [None, 2.5])
def test_the_share_is_exact_where_reports_are_listed(oracle, forever):
    risk = repeated_collection_risk(oracle, 3, forever, PRIOR)
    expected = [by_sequences(oracle, n, forever) for n in (1, 2, 3)]
    np.testing.assert_allclose(risk, expected, rtol=1e-12)


@pytest.mark.parametrize("oracle", [LISTED[0], *DRAWN], ids=repr)
@pytest.mark.parametrize("gain", [None, 1.0])
def test_the_share_of_drawn_users(oracle, gain, seed, monkeypatch):
    """Within 6 standard errors; the share of the other number of rounds is the negative control."""
    monkeypatch.setattr("sklearn_ldp.privacy._repetition._MOST_LISTED", 0)
    forever = None if gain is None else oracle.epsilon + gain
    risk = repeated_collection_risk(oracle, 3, forever, PRIOR, random_state=seed)
    expected = [by_sequences(oracle, n, forever) for n in (1, 2, 3)]
    assert np.abs(risk - expected).max() < 6 * 0.25 / np.sqrt(20_000)
    assert np.abs(risk[::-1] - expected).max() > 6 * 0.25 / np.sqrt(20_000)


def test_a_memo_limits_what_repetition_reveals():
    oracle = OLH(1.0, categories=10)
    fresh = repeated_collection_risk(oracle, 12, random_state=0)
    memo = repeated_collection_risk(oracle, 12, 2.0, random_state=0)
    assert memo[0] == pytest.approx(fresh[0], abs=0.01)
    assert fresh[-1] > 2 * memo[-1]
    # The best guess after a report of the oracle at epsilon_forever, of the same hash range.
    limit = OLH(2.0, categories=10, hash_range=oracle.channel().field.order)
    assert memo[-1] < repeated_collection_risk(limit, 1, random_state=0)[0] + 0.01
    once = repeated_collection_risk(oracle, 4, 1.0, random_state=0)
    assert (once == once[0]).all()


def test_frequencies_by_category_and_bad_input():
    oracle = GRR(1.0, categories=["a", "b"])
    listed = repeated_collection_risk(oracle, 2, None, [0.9, 0.1])
    named = repeated_collection_risk(oracle, 2, None, {"b": 1, "a": 9})
    np.testing.assert_array_equal(listed, named)
    assert listed[0] == pytest.approx(0.9)  # one report does not outweigh the frequencies
    for arguments, message in (
        ((0,), "n_rounds must be an integer of at least 1"),
        ((2.5,), "n_rounds must be an integer of at least 1"),
        ((2, 0.5), "epsilon_forever must be finite and at least 1, the epsilon of one report"),
        ((2, np.inf), "epsilon_forever must be finite and at least 1, the epsilon of one report"),
        ((2, None, [1.0]), "frequencies must be 2 numbers of at least 0"),
        ((2, None, [1.0, -1.0]), "frequencies must be 2 numbers of at least 0"),
        ((2, None, [0.0, 0.0]), "not all 0"),
    ):
        with pytest.raises(ValueError, match=message):
            repeated_collection_risk(oracle, *arguments)
    with pytest.raises(ValueError, match="categories"):
        repeated_collection_risk(GRR(1.0), 2)
    with pytest.raises(TypeError, match="does not support the mechanism"):
        repeated_collection_risk(ColumnOracle(1.0, domains={"a": 2, "b": 2}), 2)
