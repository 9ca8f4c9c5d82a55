"""Post-processors and the noise, estimates that are no longer raw, and fitted attributes."""

import copy
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from estimators import POSTPROCESSORS
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklearn_ldp import (
    CLS,
    GRR,
    NPMLE,
    OLH,
    OUE,
    Base,
    BaseCut,
    BasePos,
    Calibrate,
    EmpiricalBayes,
    ExactMLE,
    FrequencyEstimate,
    MLEApx,
    NoiseModel,
    Norm,
    NormCut,
    NormHyb,
    NormMul,
    NormSub,
    Power,
    PowerNS,
    Smooth,
)
from sklearn_ldp._core.noise import Covariance, Noise, of_columns

F3 = np.array([[0.75, 0.5, -0.125], [0.25, 0.125, 0.375]])
NAMES = ["red", "green", "blue"]
NOISE = NoiseModel(0.5, 0.25, 10_000)
over_all = pytest.mark.parametrize("post", POSTPROCESSORS, ids=repr)
WITH_NOISE = [post for post in POSTPROCESSORS if hasattr(post, "noise")]
NEEDS_NOISE = [BaseCut(), NormHyb(), MLEApx(), Calibrate(), Power(), PowerNS()]
NEEDS_NOISE += [EmpiricalBayes(), NPMLE(), Smooth()]
over_needy = pytest.mark.parametrize("post", NEEDS_NOISE, ids=repr)
NEEDS_USERS = (Calibrate, Power)
NEEDS_MORE = [post for post in NEEDS_NOISE if isinstance(post, (*NEEDS_USERS, MLEApx))]


def test_which_take_noise():
    """The nine of the design have the one parameter, and none has those that it replaced."""
    assert {type(post) for post in WITH_NOISE} == {type(post) for post in NEEDS_NOISE}
    for post in POSTPROCESSORS:
        assert not {"std", "p", "q", "n_samples"} & set(post.get_params())


def oracle_estimates():
    counts = np.round(400 * 0.6 ** np.arange(12)).astype(int)
    for oracle in (OUE(1.0), GRR(2.0), OLH(1.0)):
        yield oracle.set_params(categories=12, random_state=0).simulate(counts, 3)


@pytest.mark.slow
@over_needy
def test_given_noise_is_as_good_as_that_of_the_estimate(post):
    """Bit for bit, whether it is the oracle's own or the same p, q and number of users.

    Only EmpiricalBayes also uses the distribution of the reports. That distribution is part of an
    oracle's noise but not of a NoiseModel, so the results differ by less than 0.001.
    """
    for estimate in oracle_estimates():
        own = estimate.noise
        expected = clone(post).fit(estimate)
        for noise in (own, NoiseModel(own.p, own.q, own.n_samples)):
            given_noise = clone(post).set_params(noise=noise)
            result = given_noise.fit_transform(estimate.values)
            atol = 1e-3 if noise is not own and isinstance(post, EmpiricalBayes) else 0
            np.testing.assert_allclose(result, expected.estimate_.values, rtol=0, atol=atol)
            other = estimate.with_values(estimate.values, noise=NoiseModel(0.9, 0.4, 17))
            np.testing.assert_array_equal(given_noise.fit_transform(other), result)
        # Negative control: other noise gives other results.
        wrong = NoiseModel(own.p - 0.7 * (own.p - own.q), own.q, own.n_samples)
        other = clone(post).set_params(noise=wrong).fit_transform(estimate.values)
        assert np.abs(other - result).max() > atol


@pytest.mark.parametrize("post", [BaseCut(), NormHyb(), EmpiricalBayes(), NPMLE(), Smooth()])
def test_a_number_is_a_constant_noise_level(post):
    """It equals a model whose variance does not grow with the frequency: p + q = 1."""
    F = next(oracle_estimates()).values
    model = NoiseModel(0.625, 0.375, 1000)
    assert model.growth == 0
    expected = clone(post).set_params(noise=model).fit_transform(F)
    constant = clone(post).set_params(noise=float(model.std)).fit_transform(F)
    np.testing.assert_allclose(constant, expected, rtol=1e-12)
    other = clone(post).set_params(noise=3 * float(model.std)).fit_transform(F)
    assert np.abs(other - expected).max() > 1e-4  # negative control


def test_any_kind_of_noise_will_do():
    """Such as one that is added to frequencies, and knows no p and q."""

    @dataclass(frozen=True)
    class Added:
        null_variance = 2000 * 0.04**2
        slope = curvature = half_count = 0.0

        def variances(self, frequencies):
            return np.full(frequencies.shape, self.null_variance)

        def covariance(self, f):
            variances = self.variances(f)
            factors = of_columns(variances, np.zeros((len(f), 0)), np.zeros(0))
            return Covariance(self, f, lambda f: factors)

    F = np.array([[0.5, 0.3, 0.2, 0.04, -0.04]])
    for post in NEEDS_NOISE:
        if isinstance(post, MLEApx):
            continue
        added = clone(post).set_params(noise=Noise.of(Added(), 2000)).fit_transform(F)
        if isinstance(post, NEEDS_USERS):
            assert np.isfinite(added).all()
            continue
        number = clone(post).set_params(noise=0.04).fit_transform(F)
        np.testing.assert_allclose(added, number, rtol=1e-12)


@over_needy
@pytest.mark.parametrize("F", [F3, FrequencyEstimate(F3, NAMES), pd.DataFrame(F3)])
def test_without_noise_the_remedy_is_named(post, F):
    name = type(post).__name__
    expected = rf"^{name} needs the noise level.*an oracle returns, or pass noise="
    for call in (post.fit, post.transform, post.fit_transform):
        with pytest.raises(ValueError, match=expected):
            call(F)


@pytest.mark.parametrize("post", NEEDS_MORE, ids=repr)
def test_a_number_is_not_enough_for_all(post):
    name = type(post).__name__
    missing = "its growth with the frequency" if name == "MLEApx" else "the number of users"
    expected = (
        rf"^{name} needs .*{missing}, which noise=0.05 does not contain.*NoiseModel\(p, q, n_s"
    )
    for X in (F3, FrequencyEstimate(F3, NAMES, NOISE)):
        with pytest.raises(ValueError, match=expected):
            clone(post).set_params(noise=0.05).fit(X)


@over_needy
def test_one_number_of_users_per_row(post):
    """Each row with its own noise is as if it were alone; any other number of rows is refused."""
    sizes = np.array([500, 50_000])
    post = clone(post).set_params(noise=NoiseModel(0.5, 0.25, sizes))
    together = post.fit_transform(F3)
    for row, result, n in zip(F3, together, sizes, strict=True):
        alone = clone(post).set_params(noise=NoiseModel(0.5, 0.25, int(n)))
        np.testing.assert_array_equal(alone.fit_transform([row])[0], result)
    name = type(post).__name__
    with pytest.raises(ValueError, match=rf"^{name} needs .* one for each of the 3 rows, got"):
        post.fit(np.vstack([F3, F3[:1]]))


def test_a_noise_level_of_zero_is_refused():
    with pytest.raises(ValueError, match=r"BaseCut needs one positive, finite noise level"):
        BaseCut(noise=NoiseModel(0.5, 0.0, 100)).fit(F3)


# -- estimates that are no longer raw ---------------------------------------------------------
@over_needy
def test_a_processed_estimate_is_refused(post):
    raw = OUE(1.0, categories=NAMES, random_state=0).fit_transform(["red", "blue"] * 500)
    changed = make_pipeline(Norm(), BasePos()).fit_transform(raw)
    name = type(post).__name__
    expected = (
        rf"^{name} needs a raw estimate, got an estimate .* by Norm and BasePos.*Apply {name} first"
    )
    for call in (post.fit, post.transform, post.fit_transform):
        with pytest.raises(ValueError, match=expected + r".*oracle\.estimate_.*noise="):
            call(changed)
    with pytest.raises(ValueError, match=expected):
        make_pipeline(Norm(), BasePos(), clone(post)).fit(raw)
    given = clone(post).set_params(noise=raw.noise)
    result = given.fit_transform(changed)
    np.testing.assert_array_equal(result.values, given.fit_transform(changed.values))
    assert result.postprocessors == ("Norm", "BasePos", name)
    # Base changes nothing, so what follows it still sees a raw estimate.
    after_base = make_pipeline(Base(), clone(post)).fit_transform(raw)
    np.testing.assert_array_equal(after_base.values, clone(post).fit_transform(raw).values)


@pytest.mark.parametrize("post", [BaseCut(n_kept=2), NormHyb(n_kept=1), Smooth(2.0)], ids=repr)
def test_what_needs_no_noise_takes_processed_estimates(post):
    changed = NormSub().fit_transform(FrequencyEstimate(F3, NAMES, NOISE))
    expected = clone(post).fit_transform(changed.values)
    np.testing.assert_array_equal(clone(post).fit_transform(changed).values, expected)


def test_exact_mle_names_what_changed_the_estimate():
    changed = NormSub().fit_transform(GRR(1.0, categories=NAMES).fit_transform(NAMES * 20))
    with pytest.raises(
        ValueError, match=r"ExactMLE needs the raw .* got an estimate after NormSub"
    ):
        ExactMLE().fit(changed)


# -- what fit sets ----------------------------------------------------------------------------
def learnt(fitted):
    own = ("estimate_", "n_features_in_", "feature_names_in_")
    return {k: v for k, v in vars(fitted).items() if k.endswith("_") and k not in own}


LEARNT = {
    BaseCut: ["threshold_"],
    Norm: ["shift_"],
    NormMul: ["factor_"],
    NormSub: ["shift_"],
    CLS: ["shift_"],
    NormCut: ["threshold_"],
    NormHyb: ["threshold_"],
    Calibrate: ["params_", "prior_"],
    PowerNS: ["exponent_"],
    NPMLE: ["prior_support_", "prior_weights_"],
    Smooth: ["bandwidth_"],
    ExactMLE: ["gap_", "n_iter_"],
    Base: [],
}


@over_all
def test_learnt_attributes_are_those_of_the_fitted_rows(post):
    """They are documented, one for each row, and `transform` changes nothing in them."""
    other = np.array([[0.05, 0.3, 0.6], [0.9, -0.2, 0.1], [0.2, 0.2, 0.2]])
    fitted, of_three = clone(post).fit(F3), learnt(clone(post).fit(other))
    kept = copy.deepcopy(learnt(fitted))
    assert sorted(kept) == LEARNT.get(type(post), sorted(kept))
    fitted.transform(other)
    for name, value in learnt(fitted).items():
        if name != "prior_":  # distributions of SciPy have no equality
            np.testing.assert_equal(value, kept[name])
        assert f"{name} : " in type(post).__doc__
        if isinstance(value, (list, np.ndarray)):
            assert (len(value), len(of_three[name])) == (2, 3)
