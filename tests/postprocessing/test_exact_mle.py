"""ExactMLE: against SciPy's solver on the enumerated likelihood."""

import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    OUE,
    ExactMLE,
    HadamardResponse,
    MLEApx,
    Norm,
    NormSub,
    ProjectiveGeometryResponse,
    SubsetSelection,
)
from sklearn_ldp.model_selection import default_candidates
from sklearn_ldp.postprocessing import direct_mle, exact_mle, norm_sub

WITH_A_LAW = [
    GRR(1.0),
    HadamardResponse(1.0),
    HadamardResponse(2.0, n_blocks=2),
    HadamardResponse(3.0, n_blocks="auto"),
    ProjectiveGeometryResponse(1.0),
    ProjectiveGeometryResponse(2.0, field_order=4),
    OLH(1.0),
    BLH(2.0),
]
over_laws = pytest.mark.parametrize("oracle", WITH_A_LAW, ids=repr)


def enumerated(oracle, d):
    """Matrix of the probabilities of all kinds of reports, from what each of them supports.

    A report's probability is one for the categories that it supports and another for the others;
    the two follow from p and q of the channel, not from its law. A function of linear hashing
    stands for its g - 1 multiples, but 0.
    """
    channel = oracle.channel(d)
    if isinstance(oracle, (OLH, BLH)):
        g = channel.field.order
        reports = np.stack(np.divmod(np.arange(channel.n_functions * g), g), axis=1)
        weights = np.where(reports[:, 0] > 0, g - 1, 1)
    else:
        reports = np.arange(channel.tally_size)
        weights = np.ones(len(reports))
    supports = channel.supports(reports, np.arange(d))
    inside = (weights @ supports)[0]
    own = float(getattr(channel, "inside", channel.p))
    chances = np.where(supports, own / inside, (1 - own) / (weights.sum() - inside))
    return channel, weights[:, None] * chances


def log_likelihood(A, tally, f):
    seen = tally > 0
    return tally[seen] @ np.log(A[seen] @ f)


def solved(A, tally):
    """SciPy's maximum on the simplex."""
    d, share, seen = A.shape[1], tally[tally > 0] / tally.sum(), A[tally > 0]
    solution = minimize(
        lambda f: -share @ np.log(seen @ f),
        np.full(d, 1 / d),
        jac=lambda f: -seen.T @ (share / (seen @ f)),
        method="SLSQP",
        bounds=[(0, 1)] * d,
        constraints={"type": "eq", "fun": lambda f: f.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-16, "maxiter": 1000},
    )
    return solution.x


@over_laws
@pytest.mark.parametrize("d", [5, 12])
def test_the_law_is_that_of_the_reports(oracle, d):
    channel, A = enumerated(oracle, d)
    law = channel.report_law
    rng = np.random.default_rng(0)
    f, weights = rng.normal(size=d), rng.normal(size=len(A))
    np.testing.assert_allclose(A.sum(axis=0), 1)
    np.testing.assert_allclose(law.probabilities(f), A @ f, atol=1e-12)
    np.testing.assert_allclose(law.likelihoods(weights), A.T @ weights, atol=1e-12)
    twin = pickle.loads(pickle.dumps(law))
    np.testing.assert_array_equal(twin.probabilities(f), law.probabilities(f))


# -- the maximum ------------------------------------------------------------------------------
@over_laws
@pytest.mark.parametrize("d", [5, 12])
@pytest.mark.parametrize("n", [60, 3000])
def test_it_is_the_maximum(oracle, d, n):
    channel, A = enumerated(oracle, d)
    rng = np.random.default_rng([d, n])
    tally = rng.multinomial(n, A @ rng.dirichlet(np.full(d, 0.3)))
    start = norm_sub(rng.normal(size=d))
    f, gap, _ = exact_mle(tally, channel.report_law, start, tol=1e-12)
    assert 0 <= gap + 1e-13 <= 1.1e-12
    assert (f >= 0).all()
    assert f.sum() == pytest.approx(1, abs=1e-12)
    solution = solved(A, tally)
    assert log_likelihood(A, tally, f) >= log_likelihood(A, tally, solution) - 1e-9 * n
    # Kinds that nobody sent may leave a small domain with more than one maximum.
    if n == 3000 and np.linalg.matrix_rank(A) == d:
        np.testing.assert_allclose(f, solution, atol=1e-6)
        assert (
            np.abs(norm_sub(f + 1e-3 * rng.normal(size=d)) - solution).max() > 1e-6
        )  # negative control


@pytest.mark.parametrize("d", [2, 3, 8])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 6.0])
def test_the_closed_form_is_the_maximum(d, epsilon):
    """Rows of GRR at once; categories that nobody reported among them."""
    p, q = np.array([np.exp(epsilon), 1]) / (np.exp(epsilon) + d - 1)
    A = (p - q) * np.eye(d) + q
    rng = np.random.default_rng(d)
    tallies = rng.multinomial([7, 100, 5000], A @ rng.dirichlet(np.full(d, 0.3)))
    F = (tallies / tallies.sum(axis=1, keepdims=True) - q) / (p - q)
    result = direct_mle(F, q / (p - q))
    np.testing.assert_array_equal(ExactMLE(epsilon=epsilon).fit(F).frequencies_.shape, F.shape)
    np.testing.assert_allclose(ExactMLE(epsilon=epsilon).fit_transform(F), result, atol=1e-12)
    for tally, f in zip(tallies, result, strict=True):
        # Karush-Kuhn-Tucker: the slope is n where f > 0, and at most n elsewhere.
        slope = A.T @ (tally / (A @ f)) / tally.sum()
        assert slope.max() <= 1 + 1e-9
        np.testing.assert_allclose(slope[f > 0], 1, atol=1e-7)


def test_the_projection_is_not_the_maximum():
    """The negative control of the conditions above: they tell Norm-Sub from it."""
    p, q = np.array([np.e, 1]) / (np.e + 7)
    A, tally = (p - q) * np.eye(8) + q, np.array([40, 25, 20, 9, 2, 1, 2, 1])
    f = norm_sub((tally / 100 - q) / (p - q))
    slope = A.T @ (tally / (A @ f)) / 100
    assert slope.max() > 1 + 1e-3
    exact = direct_mle((tally / 100 - q) / (p - q), q / (p - q))
    assert log_likelihood(A, tally, exact) > log_likelihood(A, tally, f) + 1e-4


def test_the_closed_form_at_its_ends():
    F = np.array([[0.75, 0.5, -0.25], [-1.0, -3.0, -2.0]])
    np.testing.assert_allclose(direct_mle(F[:1], 1e12), norm_sub(F[:1]), atol=1e-9)
    np.testing.assert_allclose(direct_mle(F, 0.0), [[0.6, 0.4, 0], [1 / 3, 1 / 3, 1 / 3]])
    np.testing.assert_array_equal(ExactMLE(epsilon=800.0).fit(F).frequencies_, direct_mle(F, 0.0))


# -- from oracles -----------------------------------------------------------------------------
@over_laws
def test_no_other_method_is_likelier(oracle, seed):
    d = 12
    weights = 0.5 ** np.arange(d)
    values = np.random.default_rng(seed).choice(d, 2000, p=weights / weights.sum())
    oracle = oracle.set_params(categories=d, random_state=seed)
    estimate = oracle.fit_transform(values)
    _, A = enumerated(oracle, d)
    tally = estimate.shards.tallies.sum(axis=0)
    fitted = ExactMLE().fit(estimate)
    ours = log_likelihood(A, tally, fitted.frequencies_)
    assert fitted.gap_ <= 1e-9
    assert fitted.estimate_.postprocessors == ("ExactMLE",)
    for other in (NormSub(), MLEApx()):
        theirs = log_likelihood(A, tally, other.fit(estimate).frequencies_)
        assert ours >= theirs - 1e-6
    truth = np.bincount(values, minlength=d) / len(values)
    assert np.abs(fitted.frequencies_ - truth).max() < 0.25


def test_simulated_rows_of_grr():
    estimate = GRR(1.0, categories=5, random_state=0).simulate([50, 30, 20, 0, 0], 4)
    p, q = estimate.noise.p, estimate.noise.q
    expected = direct_mle(estimate.values, q / (p - q))
    fitted = ExactMLE().fit(estimate)
    np.testing.assert_array_equal(fitted.frequencies_, expected)
    assert (fitted.n_iter_, fitted.gap_) == (1, 0)
    np.testing.assert_allclose(ExactMLE(epsilon=1.0).fit(estimate.values).frequencies_, expected)


VALUES = np.tile(np.arange(20), 30)
SETTING = {"categories": 20, "random_state": 0}
UNKNOWN = {
    "too many kinds": lambda: OUE(**SETTING).fit_transform(VALUES),
    "too many kinds of sets": lambda: SubsetSelection(0.5, **SETTING).fit_transform(VALUES),
    "one shard": lambda: HadamardResponse(n_shards=1, **SETTING).fit_transform(VALUES),
    "not raw": lambda: make_pipeline(GRR(**SETTING), NormSub()).fit_transform(VALUES),
    "not raw either": lambda: make_pipeline(HadamardResponse(**SETTING), Norm()).fit_transform(
        VALUES
    ),
    "an array": lambda: np.full((1, 4), 0.25),
}


@pytest.mark.parametrize("make_estimate", list(UNKNOWN.values()), ids=list(UNKNOWN))
def test_what_it_cannot_know_names_the_remedy(make_estimate):
    with pytest.raises(ValueError, match=r"ExactMLE needs .*epsilon=.*MLEApx"):
        ExactMLE().fit(make_estimate())


def test_too_few_steps_warn():
    values = np.random.default_rng(0).integers(40, size=3000)
    estimate = HadamardResponse(3.0, categories=40, random_state=0).fit_transform(values)
    with pytest.warns(ConvergenceWarning, match=r"ExactMLE has not converged after max_iter=1 "):
        fitted = ExactMLE(max_iter=1).fit(estimate)
    assert fitted.gap_ > 1e-9
    assert ExactMLE().fit(estimate).n_iter_ > fitted.n_iter_ == 1


@pytest.mark.parametrize("params", [{"epsilon": 0}, {"tol": -1}, {"max_iter": 0}], ids=str)
def test_bad_parameters(params):
    (name,) = params
    with pytest.raises(ValueError, match=f"The '{name}' parameter of ExactMLE must be"):
        ExactMLE(**{"epsilon": 1.0, **params}).fit([[0.5, 0.5]])


def test_it_is_no_default():
    assert not any(isinstance(post, ExactMLE) for post in default_candidates())
