"""Noise models answer one question: what is the covariance of any linear answers?"""

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import sparse

from sklearn_ldp import GRR, OLH, OUE, FrequencyEstimate, HadamardResponse, NoiseModel
from sklearn_ldp._core.noise import MULTINOMIAL, Covariances, Noise
from sklearn_ldp.metrics import held_out_score
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.queries import groups, random_sets

TRUTH = np.array([0.5, 0.3, 0.15, 0.05])
PAIRS = np.array([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, -1]])


def test_p_q_and_n_alone_refuse_what_they_do_not_know():
    noise = NoiseModel(0.5, 0.25, 1000)
    for matrix in (PAIRS, np.eye(4)):
        with pytest.raises(ValueError, match="do not determine the covariance of several"):
            noise.covariance(matrix, TRUTH)
    with pytest.raises(ValueError, match="do not determine the covariance"):
        noise.answer_variance(PAIRS, TRUTH)
    # For single categories it knows everything.
    variance = noise.variance(TRUTH)
    np.testing.assert_allclose(noise.answer_variance(3 * np.eye(4), TRUTH), 9 * variance)
    np.testing.assert_allclose(noise.covariance(np.eye(4)[:1], TRUTH), variance[:1, None])
    twice = np.array([[0, 2.0, 0, 0], [0, -1, 0, 0]])
    of_one = variance[1] * np.array([[4, -2], [-2, 1]])
    np.testing.assert_allclose(noise.covariance(twice, TRUTH), of_one)


@pytest.mark.parametrize("oracle", [GRR(), OUE(), OLH(), HadamardResponse(3.0, n_blocks=2)])
def test_noise_of_an_oracle_is_a_noise_model_that_knows_more(oracle):
    noise = oracle.channel(4).noise(1000)
    assert isinstance(noise, Noise)
    assert noise != NoiseModel(noise.p, noise.q, 1000)
    assert (noise.p, noise.q) == (float(noise.channel.p), float(noise.channel.q))
    covariance = noise.covariance(PAIRS, TRUTH)
    assert covariance.shape == (3, 3)
    np.testing.assert_allclose(noise.covariance(sparse.csr_array(PAIRS), TRUTH), covariance)
    np.testing.assert_allclose(np.diag(noise.covariance(np.eye(4), TRUTH)), noise.variance(TRUTH))
    whole = PAIRS @ noise.covariance(np.eye(4), TRUTH) @ PAIRS.T
    np.testing.assert_allclose(covariance, whole, atol=1e-15)
    assert np.linalg.eigvalsh(covariance).min() > -1e-12
    again = pickle.loads(pickle.dumps(noise))
    assert again == noise
    assert hash(again) == hash(noise)
    assert noise != oracle.channel(4).noise(1001)
    if type(oracle) is GRR:  # its estimates sum to 1
        np.testing.assert_allclose(noise.covariance(np.ones((1, 4)), TRUTH), 0, atol=1e-15)


def test_several_estimates_have_a_matrix_each():
    by = np.repeat(["a", "b"], [300, 700])
    estimate = estimate_by_group(OUE(categories=4, random_state=0), np.arange(1000) % 4, by)
    stack = estimate.noise.covariance(PAIRS, TRUTH)
    assert stack.shape == (2, 3, 3)
    np.testing.assert_allclose(300 * stack[0], 700 * stack[1])
    of_rows = estimate.noise.covariance(PAIRS, np.array([TRUTH, TRUTH[::-1]]))
    np.testing.assert_allclose(of_rows[0], stack[0])
    np.testing.assert_allclose(estimate[[1]].noise.covariance(PAIRS, TRUTH)[0], stack[1])
    assert estimate.noise.answer_variance(PAIRS, TRUTH).shape == (2, 3)
    assert estimate.noise.variance(TRUTH).shape == (2, 4)
    with pytest.raises(ValueError, match=r"shape \(n_queries, 4\).*got shape \(1, 3\)"):
        estimate.noise.covariance(np.ones((1, 3)), TRUTH)


def test_what_is_printed_behaves_as_it_says():
    """Pasted back it is the same; what is more than p, q and n does not print as that."""
    model = NoiseModel(0.5, 0.25, 1000)
    assert repr(model) == "NoiseModel(p=0.5, q=0.25, n_samples=1000)"
    halved = model.scaled(2.0)
    for one in (model, halved):
        assert eval(repr(one), {"NoiseModel": NoiseModel, "np": np, "array": np.array}) == one
    of_oracle = GRR(1.0).channel(4).noise(1000)
    for one in (of_oracle, of_oracle.of_sample(2000), model.of_population(), Noise.of_level(0.1)):
        assert repr(one).startswith("<Noise of ") or one.curvature
    assert "DirectChannel, p=" in repr(of_oracle)
    with pytest.raises(AttributeError, match="is immutable"):
        of_oracle.n_samples = 5
    with pytest.raises(TypeError):
        replace(of_oracle, n_samples=5)
    of_half = replace(model, n_samples=500).variance(TRUTH)
    np.testing.assert_allclose(of_half, halved.variance(TRUTH))


def test_a_pickled_law_is_the_same_law():
    """Two terms of equal laws are one, also where one comes from a file."""
    noise = OLH(2.0).channel(20).noise(1000)
    other = pickle.loads(pickle.dumps(OLH(2.0).channel(20).noise(7000)))
    f, vector = np.full(20, 0.05), np.arange(20.0)
    for change in (str, Noise.of_population):
        one, two = (n if change is str else change(n) for n in (noise, other))
        errors = Noise.combined([one, two], (1, -1)).at(f)
        assert len(errors._summands) == len(one.terms)
        both = one.at(f).product(vector) + two.at(f).product(vector)
        np.testing.assert_allclose(errors.product(vector), both)
    parts = [noise.given(f), other.given(np.eye(20)[0])]  # of independent users: linear in theirs
    errors, alone = (Noise.combined(parts[:n], (1, -1)[:n]).at(f) for n in (2, 1))
    assert len(errors._summands) == 1
    both = alone.product(vector) + parts[1].at(f).product(vector)
    np.testing.assert_allclose(errors.product(vector), both)


# -- other kinds fit in without bending -------------------------------------------------------
@dataclass(frozen=True)
class Sampled:
    """Each user is asked with probability `share`: the sampling adds f (1 - f) (1 / share - 1)."""

    asked: object
    share: float
    curvature = half_count = 0.0

    @property
    def null_variance(self):
        return self.asked.null_variance / self.share

    @property
    def slope(self):
        return self.asked.slope / self.share + (1 / self.share - 1)

    def variances(self, frequencies):
        drawn = MULTINOMIAL.variances(frequencies) * (1 / self.share - 1)
        return self.asked.variances(frequencies) / self.share + drawn

    def covariance(self, f):
        parts = (1 / self.share, self.asked), (1 / self.share - 1, MULTINOMIAL)
        return Covariances([(factor, law.covariance(f)) for factor, law in parts])


def test_a_noise_of_another_kind_serves_intervals_scores_and_rows():
    """Everything that asks for noise accepts a law of one's own, which knows neither p nor q."""
    asked = OUE().channel(4)
    noise = Noise.of(Sampled(asked, 0.25), 1000)
    expected = asked.noise(1000).variance(TRUTH) / 0.25 + TRUTH * (1 - TRUTH) * 3 / 1000
    np.testing.assert_allclose(noise.variance(TRUTH), expected)
    estimate = FrequencyEstimate([TRUTH], list("abcd"), noise)
    low = estimate.confidence_interval(0.95).low[0]
    of_low = noise.variance(TRUTH) + noise.growth * (low - TRUTH)
    inside = low > 0
    squared = ((TRUTH - low) / 1.959964) ** 2
    np.testing.assert_allclose(squared[inside], of_low[inside], rtol=1e-6)
    assert inside.any()
    pair = np.array([[1.0, -1.0, 0, 0]])
    wide = estimate.confidence_interval(0.95, pair)
    half_width = 1.959964 * np.sqrt(noise.covariance(pair, TRUTH)[0, 0])
    np.testing.assert_allclose(wide.high - wide.low, 2 * half_width, rtol=1e-6)
    assert estimate[0].noise is noise
    for queries in (None, groups([0, 0, 1, 1]), random_sets(0.5)):
        assert np.isfinite(held_out_score(TRUTH, estimate, queries=queries))
    assert "noise level" in repr(estimate)


def test_a_number_of_users_for_each_row_differs_from_a_single_number():
    single = OUE().channel(4).noise(1000)
    rows = OUE().channel(4).noise(np.array([1000, 500]))
    assert single != rows
    assert rows != single
    assert rows == OUE().channel(4).noise(np.array([1000, 500]))
    assert rows != OUE().channel(4).noise(np.array([1000, 501]))
