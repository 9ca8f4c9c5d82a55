"""The cost and the accuracy of oracles, which one is best, and what an audit shows."""

import math

import numpy as np
import pytest
from estimators import slow_but

from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    OUE,
    SUE,
    HadamardResponse,
    ProjectiveGeometryResponse,
    SubsetSelection,
)
from sklearn_ldp.oracles import best_oracle, compare_oracles, minimax_bound, profile_oracle
from sklearn_ldp.robustness import audit_epsilon

EVERY = [GRR, SUE, OUE, BLH, OLH, HadamardResponse, SubsetSelection, ProjectiveGeometryResponse]


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 5.0])
@pytest.mark.parametrize("d", [2, 3, 17, 300])
def test_no_oracle_beats_the_bound(epsilon, d):
    table = compare_oracles(epsilon, d)
    assert np.all(table["excess"] > -1e-9)
    assert table["excess"][table["oracle"].tolist().index("SubsetSelection()")] == 0
    E = math.exp(epsilon)
    sizes = np.arange(1, d)
    p = sizes * E / (sizes * E + d - sizes)
    q = (p * (sizes - 1) + (1 - p) * sizes) / (d - 1)
    by_formula = d * q * (1 - q) / (p - q) ** 2 + (1 - p - q) / (p - q)
    assert minimax_bound(epsilon, d) == pytest.approx(by_formula.min())


def test_report_bits():
    bits = {o: profile_oracle(o(1.0), 1024).report_bits for o in EVERY}
    assert 800 < bits.pop(SubsetSelection) < 1024
    short = dict.fromkeys((BLH, HadamardResponse, ProjectiveGeometryResponse), 11)
    assert bits == {GRR: 10, OUE: 1024, SUE: 1024, OLH: 13, **short}


def test_best_oracle_minds_the_budget():
    assert isinstance(best_oracle(1.0, 1024), SubsetSelection)
    assert isinstance(best_oracle(1.0, 1024, max_report_bits=100), ProjectiveGeometryResponse)
    assert isinstance(best_oracle(1.0, 1024, max_decode_operations=1e8), ProjectiveGeometryResponse)
    assert isinstance(best_oracle(1.0, 1024, max_report_bits=10), GRR)
    with pytest.raises(ValueError, match=r"at most max_report_bits=3 bits.*smallest report has 10"):
        best_oracle(1.0, 1024, max_report_bits=3)
    with pytest.raises(ValueError, match="epsilon"):
        best_oracle(-1.0, 10)
    chosen = best_oracle(1.0, list("abc"))
    assert chosen.categories == list("abc")
    assert chosen.privatize(["a"]).shape[0] == 1


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 3.0])
def test_grr_is_best_for_small_domains_as_the_papers_say(epsilon):
    """GRR is chosen where d - 2 < 3 exp(epsilon), before unary and hashing oracles."""
    limit = 3 * math.exp(epsilon) + 2
    for d in (2, math.floor(0.75 * limit), math.ceil(1.3 * limit), math.ceil(5 * limit)):
        chosen = best_oracle(epsilon, d, candidates=[GRR(), SUE(), OUE(), OLH()])
        assert isinstance(chosen, GRR) == (d < limit)


# -- audit ------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("oracle", EVERY)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("d", [2, 50])
def test_audit_certifies_every_oracle(oracle, epsilon, d):
    """An audit finds at least 97 % of epsilon; a false alarm has probability 1e-6."""
    n_trials = 40_000_000 if (oracle, epsilon, d) == (GRR, 0.5, 50) else 4_000_000
    result = audit_epsilon(
        oracle(epsilon, categories=d), n_trials=n_trials, confidence=1 - 1e-6, random_state=0
    )
    assert result.lower_bound >= 0.97 * epsilon
    assert not result.is_violated


@pytest.mark.parametrize(
    "oracle", slow_but([GRR, SubsetSelection, ProjectiveGeometryResponse], EVERY)
)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_audit_flags_an_overspending_mechanism(oracle, epsilon):
    """An oracle run at 1.3 epsilon is flagged, at epsilon it is not (false alarm below 1e-6)."""
    parameters = {}
    if oracle in (OLH, SubsetSelection, ProjectiveGeometryResponse):
        honest = oracle(epsilon, categories=4).fit([0])
        name = {OLH: "hash_range", SubsetSelection: "subset_size"}.get(oracle, "field_order")
        parameters[name] = getattr(honest, f"{name}_")
    honest = oracle(epsilon, categories=4, random_state=0, **parameters)
    spender = oracle(1.3 * epsilon, categories=4, **parameters)
    spender.set_params(random_state=np.random.default_rng(0))
    options = {"n_trials": 200_000, "confidence": 1 - 1e-6}
    assert audit_epsilon(honest, mechanism=spender.privatize, **options).is_violated
    result = audit_epsilon(honest, random_state=0, **options)
    assert not result.is_violated
    assert result.lower_bound > 0.85 * epsilon
    assert result.pair == (0, 3)


def test_audit_takes_any_pair_of_any_categories_and_no_bad_confidence():
    oracle = OLH(2.0, categories=["a", "b", ("c", 1)])
    result = audit_epsilon(oracle, pair=("b", ("c", 1)), n_trials=20_000, random_state=0)
    assert 1.5 < result.lower_bound < 2
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        audit_epsilon(oracle, confidence=1.0)
    with pytest.raises(ValueError, match="Declare the categories in categories"):
        audit_epsilon(GRR())


@pytest.mark.parametrize("oracle", EVERY)
def test_supports_is_what_count_support_counts(oracle):
    oracle = oracle(1.0, categories=11, random_state=0)
    reports = oracle.privatize(np.arange(300) % 11)
    channel = oracle.channel(11)
    supports = channel.supports(channel.check_reports(reports), np.arange(11))
    np.testing.assert_array_equal(supports.sum(axis=0), channel.count_support(reports))
