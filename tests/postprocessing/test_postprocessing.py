"""Post-processors: properties over the list of all of them, and each against its definition."""

from contextlib import nullcontext
from math import erfc, expm1, fsum, sqrt

import numpy as np
import pandas as pd
import pytest
from estimators import POSTPROCESSORS, ROW_JOINERS, TALLY_PROCESSORS, is_ordinal, slow_but
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize, nnls
from scipy.stats import binomtest
from scipy.stats import norm as normal
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline

import sklearn_ldp
from sklearn_ldp import (
    CLS,
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
    HeldOutSearch,
    MLEApx,
    MonotoneCDF,
    NoiseModel,
    Norm,
    NormCut,
    NormHyb,
    NormMul,
    NormSub,
    PostPos,
    Power,
    PowerNS,
    Smooth,
    postprocessing,
)
from sklearn_ldp.datasets import make_zipf
from sklearn_ldp.metrics import frequency_mse
from sklearn_ldp.postprocessing import (
    BasePostProcessor,
    base_cut,
    base_pos,
    direct_mle,
    mle_apx,
    monotone_cdf,
    norm,
    norm_cut,
    norm_hyb,
    norm_mul,
    norm_sub,
    posterior_mean,
    power,
    significance_threshold,
    smooth,
    smooth_average,
)
from sklearn_ldp.queries import groups
from sklearn_ldp.utils.estimator_checks import check_postprocessor

ALL = [
    *POSTPROCESSORS,
    BaseCut(alpha=0.05, noise=1e-3),
    BaseCut(alpha=1e6, noise=1.0),
    BaseCut(n_kept=1),
]
# What runs the same code as another one in the list is slow, and so is the longest search.
SLOW = [BaseCut(alpha=1e6, noise=1.0), BaseCut(n_kept=1), NormHyb(n_kept=2)]
SLOW += [MLEApx(noise=NoiseModel(p=0.75, q=0.5, n_samples=2000))]
SLOW += [EmpiricalBayes(noise=0.05, ordered=True)]


def quick_or_slow(posts):
    slow = set(map(repr, SLOW))
    return slow_but([post for post in posts if repr(post) not in slow], posts)


over_all = pytest.mark.parametrize("post", quick_or_slow(ALL), ids=repr)
# Smoothing exchanges ranks and depends on neighbours: what it keeps is in test_smooth.py.
NOMINAL = [post for post in ALL if not is_ordinal(post)]
over_nominal = pytest.mark.parametrize("post", quick_or_slow(NOMINAL), ids=repr)
few = settings(max_examples=settings().max_examples // 2)  # for each of them

# What each promises of its output (2020 paper, Table I).
CALIBRATED = (Calibrate, Power, PowerNS)
NON_NEGATIVE = (BasePos, BaseCut, NormMul, NormSub, NormCut, NormHyb, CLS, MLEApx, *CALIBRATED)
NON_NEGATIVE += (EmpiricalBayes, NPMLE, ExactMLE, Smooth, MonotoneCDF)
SUMS_TO_ONE = (Norm, NormMul, NormSub, NormHyb, CLS, MLEApx, PowerNS, EmpiricalBayes, NPMLE)
SUMS_TO_ONE += (ExactMLE, Smooth, MonotoneCDF)
AT_MOST_ONE = (NormCut,)
SHRINKS = (*CALIBRATED, EmpiricalBayes, NPMLE, Smooth)
PURE = {
    Base: lambda post, F: F,
    PostPos: lambda post, F: F,
    BasePos: lambda post, F: base_pos(F),
    BaseCut: lambda post, F: base_cut(F, post.threshold_[:, None]),
    Norm: lambda post, F: norm(F),
    NormMul: lambda post, F: norm_mul(F),
    NormSub: lambda post, F: norm_sub(F),
    NormCut: lambda post, F: norm_cut(F, rescale=post.rescale),
    NormHyb: lambda post, F: norm_hyb(F, post.threshold_[:, None]),
    CLS: lambda post, F: norm_sub(F),
    MLEApx: lambda post, F: mle_apx(F, post.noise.null_variance, post.noise.slope),
    Calibrate: lambda post, F: _powers(post, F, post.params_["exponent"]),
    Power: lambda post, F: _powers(post, F, post.exponent_),
    PowerNS: lambda post, F: norm_sub(_powers(post, F, post.exponent_)),
    EmpiricalBayes: lambda post, F: norm_sub(_posterior_means(post, F)),
    NPMLE: lambda post, F: norm_sub(_posterior_means(post, F)),
    ExactMLE: lambda post, F: direct_mle(F, 1 / expm1(post.epsilon)),
    Smooth: lambda post, F: _smoothed(post, F),
    MonotoneCDF: lambda post, F: monotone_cdf(F),
}


def _smoothed(post, F):
    if post.bandwidth is None:
        return smooth_average(F, post.noise)[0]
    return norm_sub(smooth(F, post.bandwidth))


def _powers(post, F, exponents):
    rows = zip(F, exponents, strict=True)
    return np.array([power(row, post.noise.std, post.noise.n_samples, a) for row, a in rows])


def _posterior_means(post, F):
    is_number = isinstance(post.noise, float)
    std, slope = (post.noise, 0.0) if is_number else (post.noise.std, post.noise.growth)
    rows = zip(F, post.prior_support_, post.prior_weights_, strict=True)
    return np.array([posterior_mean(f, std, *prior, slope) for f, *prior in rows])


NOISE = NoiseModel(0.5, 0.25, 10_000)
EPSILON = np.finfo(float).eps


def rounding(F):
    """What the sum of a row may be off by, its numbers being as large as they are."""
    return 8 * EPSILON * np.sum(np.abs(F) + 1, axis=-1)


def process(post, F):
    return clone(post).fit_transform(F)


# -- estimates to try -------------------------------------------------------------------------
@st.composite
def rows(draw, max_rows=4, kinds=("float", "counts", "negative", "one", "mixed", "huge", "tiny")):
    """Estimates of shape (1..4, 1..40) of the kinds that break formulas."""
    shape = draw(st.integers(1, max_rows)), draw(st.integers(1, 40))
    kind = draw(st.sampled_from(kinds))
    if shape[1] == 1 and kind in ("mixed", "huge"):  # more rows of one look like users' values
        shape = (1, 1)
    counts = draw(arrays(np.int64, shape, elements=st.integers(-8, 24)))
    if kind == "counts":  # many ties
        return counts / 48
    if kind == "one":  # sums of exactly 1, in binary
        F = counts / 64
        F[:, 0] += 1 - F.sum(axis=1)
        return F
    F = draw(arrays(np.float64, shape, elements=st.floats(-1, 1, allow_subnormal=False)))
    if kind == "negative":
        return -np.abs(F) - 1e-3
    if kind == "mixed":
        return F * 10.0 ** draw(arrays(np.int64, shape, elements=st.integers(-12, 2)))
    return F * {"float": 1.0, "huge": 1e12, "tiny": 1e-12}[kind]


# -- the list ---------------------------------------------------------------------------------
def test_the_list_is_complete():
    """Whoever adds a post-processor adds it to tests/estimators.py and to the promises above."""
    public = {getattr(postprocessing, name) for name in postprocessing.__all__}
    classes = {c for c in public if isinstance(c, type) and issubclass(c, BasePostProcessor)}
    others = {type(post) for post in [*TALLY_PROCESSORS, *ROW_JOINERS]}
    of_rows = classes - {BasePostProcessor} - others
    assert {type(post) for post in ALL} == of_rows == set(PURE)
    assert all(getattr(sklearn_ldp, cls.__name__) is cls for cls in {*PURE, *others})


# -- properties over all ----------------------------------------------------------------------
@over_nominal
@few
@given(F=rows())
def test_order_and_ties_are_kept(post, F):
    """f_u <= f_v implies f'_u <= f'_v (2019 paper, note to Table 1), so ties stay ties."""
    order = np.argsort(F, axis=1)
    before = np.take_along_axis(F, order, axis=1)
    after = np.take_along_axis(process(post, F), order, axis=1)
    assert (np.diff(after, axis=1) >= 0).all()
    assert (np.diff(after, axis=1)[np.diff(before, axis=1) == 0] == 0).all()


@over_nominal
@few
@given(F=rows(), data=st.data())
def test_categories_may_come_in_any_order(post, F, data):
    order = data.draw(st.permutations(range(F.shape[1])))
    # Another order of summation rounds otherwise, and may move a sum across NormCut's limit.
    if isinstance(post, NormCut):
        assume(not near_one(F))
    permuted = process(post, F)[:, order]
    tolerance = np.max(rounding(F))
    np.testing.assert_allclose(process(post, F[:, order]), permuted, rtol=1e-12, atol=tolerance)


@pytest.mark.parametrize(
    "post", [post for post in ALL if not getattr(post, "ordered", False)], ids=repr
)
@few
@given(F=rows())
def test_class_is_its_function(post, F):
    fitted = clone(post).fit(F)
    expected = PURE[type(post)](fitted, F)
    np.testing.assert_array_equal(fitted.transform(F), expected)
    np.testing.assert_array_equal(fitted.estimate_.values, expected)
    np.testing.assert_array_equal(clone(post).fit_transform(F), expected)
    np.testing.assert_array_equal(clone(post).transform(F), expected)  # like Normalizer, no fit
    one = len(F) == 1
    np.testing.assert_array_equal(fitted.frequencies_, expected[0] if one else expected)


@over_all
@few
@given(F=rows())
def test_shapes_sums_and_signs(post, F):
    """2020 paper, Table I; whatever is given, the result is finite."""
    result = process(post, F)
    assert type(result) is np.ndarray
    assert (result.shape, result.dtype) == (F.shape, np.float64)
    assert np.isfinite(result).all()
    if isinstance(post, NON_NEGATIVE):
        assert (result >= 0).all()
    sums = np.array([fsum(row) for row in result])
    if isinstance(post, SUMS_TO_ONE):
        np.testing.assert_array_less(np.abs(sums - 1), rounding(F))
    if isinstance(post, AT_MOST_ONE):
        assert (sums <= 1 + 1e-11).all()


@pytest.mark.parametrize("post", [p for p in ALL if not isinstance(p, SHRINKS)], ids=repr)
@few
@given(F=rows(kinds=("float", "counts", "negative", "one", "mixed", "tiny")))
def test_twice_is_once(post, F):
    """All but those that shrink again."""
    once = process(post, F)
    np.testing.assert_allclose(process(post, once), once, rtol=1e-12, atol=1e-12)


@over_all
@pytest.mark.parametrize("value", [-2.0, 0.0, 0.25, 1.0, 1e12])
def test_one_category(post, value):
    result = process(post, [[value]])
    expected = {
        BasePos: max(value, 0),
        BaseCut: max(value, 0),
        Norm: 1.0,
        NormMul: 1.0,
        NormSub: 1.0,
        NormHyb: 1.0,
        CLS: 1.0,
        MLEApx: 1.0,
        PowerNS: 1.0,
        EmpiricalBayes: 1.0,
        NPMLE: 1.0,
        ExactMLE: 1.0,
        Smooth: 1.0,
        MonotoneCDF: 1.0,
        NormCut: value if 0 <= value <= 1 else 0.0,
    }.get(type(post), value)
    if isinstance(post, NormCut) and post.rescale:
        expected = 1.0
    if isinstance(post, (Calibrate, Power)) and not isinstance(post, PowerNS):  # over (0, 1]
        assert 0 < result[0, 0] <= 1
        return
    np.testing.assert_allclose(result, [[expected]], atol=2 * EPSILON * abs(value))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_estimates_must_be_finite(bad):
    """Also those of an oracle; arrays are scikit-learn's to check."""
    with pytest.raises(ValueError, match="(?i)nan|infinity"):
        NormSub().fit(FrequencyEstimate([[0.5, bad]], ["a", "b"]))


# -- containers -------------------------------------------------------------------------------
F3 = np.array([[0.75, 0.5, -0.125], [0.25, 0.125, 0.375]])
NAMES = ["red", "green", "blue"]
FROM_NOISE = [clone(p).set_params(noise=None) if hasattr(p, "noise") else p for p in ALL]


@pytest.mark.parametrize("post", FROM_NOISE, ids=repr)
def test_estimate_in_estimate_out(post):
    oracle = OUE(1.0, categories=NAMES)
    estimate = FrequencyEstimate(F3, NAMES, NOISE, oracle)
    for result in (
        clone(post).fit_transform(estimate),
        clone(post).transform(estimate),
        clone(post).fit(estimate).estimate_,
    ):
        assert isinstance(result, FrequencyEstimate)
        assert result.noise is NOISE
        assert result.oracle is oracle
        assert result.categories.tolist() == NAMES
        np.testing.assert_array_equal(result.values, clone(post).fit(estimate).frequencies_)
        raw = isinstance(post, Base)
        assert result.postprocessors == (() if raw else (type(post).__name__,))
    np.testing.assert_array_equal(estimate.values, F3)
    assert estimate.is_raw


def test_columns_of_a_data_frame_are_the_categories():
    fitted = NormSub().fit(pd.DataFrame(F3, columns=NAMES))
    assert fitted.estimate_.categories.tolist() == NAMES


def test_users_values_are_no_estimates():
    """Before: `NormSub` of a column of codes was all ones, as each row was made to sum to 1."""
    codes = np.arange(10)[:, None]
    for post in (NormSub(), Base(), PowerNS(noise=0.1)):
        for values in (codes, codes + 0.5, -codes.astype(float)):
            with pytest.raises(ValueError, match=r"in each row, got a single number \(n_feat"):
                post.fit_transform(values)
    with pytest.raises(ValueError, match="users' values are for an oracle"):
        NormSub().transform(codes)
    for estimates in (codes[:1], codes / 10):  # which may be of a single category
        assert np.all(NormSub().fit_transform(estimates) == 1)
    one = FrequencyEstimate([[0.75]], ["the only string that was found"])
    assert NormSub().fit_transform(one).values.tolist() == [[1.0]]


@pytest.mark.parametrize("is_global", [False, True])
def test_an_estimate_that_is_no_data_frame_is_told_of(monkeypatch, is_global):
    """Before: `set_output` of an oracle told it, and nothing else did."""
    oracle = OUE(1.0, categories=NAMES, n_shards=5, random_state=0)
    estimate = oracle.fit_transform(NAMES * 100)
    for one, X in ((NormSub(), estimate), (HeldOutSearch(), estimate), (oracle, NAMES * 100)):
        monkeypatch.setattr("sklearn_ldp._core.support.privacy._given", set())
        told = pytest.warns(UserWarning, match=f"{type(one).__name__} returns estimates, not data")
        with told, config_context(transform_output="pandas" if is_global else None):
            if not is_global:
                one.set_output(transform="pandas")
            assert isinstance(one.fit_transform(X), FrequencyEstimate)
        assert isinstance(one.fit_transform(X), FrequencyEstimate)  # told once


@pytest.mark.filterwarnings("ignore:.*not data frames")
@pytest.mark.parametrize("post", [Base(), BaseCut(), EmpiricalBayes()], ids=repr)
def test_an_estimate_stays_one_whatever_the_output_is_set_to(post):
    """A data frame would lose the noise level on the way to the next step of a Pipeline."""
    oracle = OUE(1.0, categories=NAMES, random_state=0)
    X = ["red", "green", "red", "blue"] * 100
    plain = make_pipeline(oracle, clone(post)).fit(X)
    with config_context(transform_output="pandas"):
        result = make_pipeline(clone(oracle), clone(post)).fit_transform(X)
    framed = make_pipeline(clone(oracle), clone(post)).set_output(transform="pandas")
    for estimate in (result, framed.fit_transform(X)):
        assert isinstance(estimate, FrequencyEstimate)
        np.testing.assert_allclose(estimate.values[0], plain[-1].frequencies_)
    frame = result.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame.columns.tolist() == NAMES
    assert plain[-1].get_feature_names_out().tolist() == NAMES


def test_methods_compose():
    pipe = Pipeline([("norm", Norm()), ("clip", BasePos()), ("sub", NormSub())])
    np.testing.assert_array_equal(pipe.fit_transform(F3), norm_sub(base_pos(norm(F3))))
    estimate = pipe.fit_transform(FrequencyEstimate(F3, NAMES, NOISE))
    assert estimate.postprocessors == ("Norm", "BasePos", "NormSub")
    assert estimate.noise is NOISE
    # A second step that needs a noise level can be given one.
    cut = make_pipeline(Norm(), BaseCut(alpha=0.05, noise=NOISE)).fit(
        FrequencyEstimate(F3, NAMES, NOISE)
    )
    np.testing.assert_allclose(cut[-1].threshold_, NOISE.std * normal.isf(0.05 / 3))


def test_the_functions_take_lists_and_any_leading_axes():
    for function in (base_pos, norm, norm_mul, norm_sub, norm_cut):
        cube = np.stack([F3, F3 - 0.25])
        np.testing.assert_allclose(function(cube.tolist())[1, 0], function(F3[0] - 0.25))


# -- Base, BasePos, PostPos -------------------------------------------------------------------
@given(F=rows())
def test_base_is_the_identity(F):
    np.testing.assert_array_equal(Base().fit_transform(F), F)
    np.testing.assert_array_equal(PostPos().fit_transform(F), F)
    np.testing.assert_array_equal(base_pos(F), np.where(F > 0, F, 0))
    before = F.copy()
    Base().fit_transform(F)[:] = 7.0  # the output is the caller's own
    np.testing.assert_array_equal(F, before)


def test_post_pos_clips_answers_only():
    estimate = PostPos().fit_transform(FrequencyEstimate(F3, NAMES, NOISE))
    assert estimate.clip_answers
    np.testing.assert_array_equal(estimate.answer(), base_pos(F3))
    np.testing.assert_allclose(estimate.answer(groups([1, 2, 2])), [[0.75, 0.375], [0.25, 0.5]])
    assert (PostPos().fit(F3).frequencies_ == F3).all()


def test_post_pos_is_not_forgotten_by_the_next_step():
    estimate = make_pipeline(PostPos(), Norm()).fit_transform(FrequencyEstimate(F3, NAMES))
    assert estimate.clip_answers
    assert (estimate.answer() >= 0).all()


# -- BaseCut ----------------------------------------------------------------------------------
def brute_force_cut(F, threshold):
    return [[f if f >= t else 0.0 for f in row] for row, t in zip(F, threshold, strict=True)]


@given(F=rows(), alpha=st.floats(1e-9, 100), std=st.floats(1e-6, 1))
def test_base_cut_threshold(F, alpha, std):
    """2020 paper, Eq. 9."""
    d = F.shape[1]
    expected = max(0.0, normal.isf(alpha / d)) * std if alpha < d else 0.0
    cut = BaseCut(alpha=alpha, noise=std).fit(F)
    np.testing.assert_allclose(cut.threshold_, [expected] * len(F), rtol=1e-9, atol=1e-15)
    np.testing.assert_array_equal(cut.transform(F), brute_force_cut(F, cut.threshold_))


@pytest.mark.parametrize(("d", "alpha"), [(1024, 2.0), (1024, 0.05), (42_178, 1e-12), (4, 1.9)])
def test_base_cut_threshold_in_numbers(d, alpha):
    """The normal tail beyond the threshold is alpha / d; it is 0 from d / 2 on."""
    z = significance_threshold(0.5, d, alpha) / 0.5
    assert erfc(z / sqrt(2)) / 2 == pytest.approx(alpha / d, rel=1e-9)
    assert significance_threshold(0.5, 1024, 2.0) == pytest.approx(0.5 * 2.8856, abs=1e-4)
    assert significance_threshold(0.5, 4, 2) == 0


@pytest.mark.parametrize("alpha", [1.5, 2, 3, 4, 1e300])
def test_base_cut_of_few_categories_is_base_pos(alpha):
    cut = BaseCut(alpha=alpha, noise=10.0).fit(F3)
    np.testing.assert_array_equal(cut.threshold_, [0, 0])
    np.testing.assert_array_equal(cut.frequencies_, base_pos(F3))


@given(F=rows(), k=st.integers(1, 50))
def test_base_cut_keeps_the_largest(F, k):
    cut = BaseCut(n_kept=k).fit(F)
    for row, result, threshold in zip(F, cut.transform(F), cut.threshold_, strict=True):
        limit = sorted(row, reverse=True)[min(k, len(row)) - 1]
        assert threshold == max(limit, 0)
        np.testing.assert_array_equal(result, [f if f >= max(limit, 0) else 0 for f in row])
        assert np.count_nonzero(result) <= k or (row == limit).sum() > 1


def test_base_cut_keeps_ties_at_the_threshold():
    F = [[0.5, 0.25, 0.25, 0.25, 0.125]]
    np.testing.assert_array_equal(process(BaseCut(n_kept=2), F), [[0.5, 0.25, 0.25, 0.25, 0]])
    std = 0.25 / normal.isf(0.5 / 5)
    cut = BaseCut(alpha=0.5, noise=std).fit(F)
    np.testing.assert_array_equal(cut.frequencies_, base_cut(F, cut.threshold_[0])[0])
    np.testing.assert_array_equal(base_cut(F, 0.25), [[0.5, 0.25, 0.25, 0.25, 0]])


def test_base_cut_n_kept_needs_no_noise():
    np.testing.assert_array_equal(BaseCut(n_kept=1).fit(F3).frequencies_.max(axis=1), [0.75, 0.375])


def test_base_cut_takes_the_noise_of_each_row():
    noise = NoiseModel(0.5, 0.25, np.array([100, 10_000]))
    of_estimate = BaseCut(alpha=0.05).fit(FrequencyEstimate(F3, NAMES, noise))
    np.testing.assert_allclose(of_estimate.threshold_, noise.std * normal.isf(0.05 / 3))
    given = BaseCut(alpha=0.05, noise=noise).fit(F3)
    np.testing.assert_array_equal(given.threshold_, of_estimate.threshold_)
    np.testing.assert_array_equal(given.frequencies_, of_estimate.frequencies_)


def test_base_cut_noise_goes_before_that_of_the_estimate():
    estimate = FrequencyEstimate(F3, NAMES, NOISE)
    cut = BaseCut(alpha=0.05, noise=0.2).fit(estimate)
    np.testing.assert_allclose(cut.threshold_, 0.2 * normal.isf(0.05 / 3))


@pytest.mark.parametrize(
    "params",
    [
        {"alpha": 0},
        {"alpha": -1.0},
        {"alpha": np.nan},
        {"alpha": np.inf},
        {"alpha": "2"},
        {"alpha": None},
        {"n_kept": 0},
        {"n_kept": -3},
        {"n_kept": 1.5},
        {"n_kept": "2"},
        {"noise": "0.1"},
        {"noise": [0.1, 0.1]},
        {"noise": 0},
        {"noise": -0.1},
        {"noise": np.nan},
        {"noise": np.inf},
    ],
    ids=str,
)
def test_base_cut_bad_parameters(params):
    (name,) = params
    with pytest.raises(ValueError, match=f"The '{name}' parameter of BaseCut must be"):
        BaseCut(**{"noise": 0.1, **params}).fit(F3)


# -- Norm -------------------------------------------------------------------------------------
@given(F=rows())
def test_norm_shift(F):
    fitted = Norm().fit(F)
    assert fitted.shift_.shape == (len(F),)
    expected = [(1 - fsum(row)) / len(row) for row in F]
    np.testing.assert_allclose(fitted.shift_, expected, rtol=1e-12, atol=np.max(rounding(F)))
    np.testing.assert_array_equal(fitted.transform(F), F + fitted.shift_[:, None])


# -- NormMul ----------------------------------------------------------------------------------
@given(F=rows())
def test_norm_mul_keeps_ratios(F):
    fitted = NormMul().fit(F)
    for row, result, factor in zip(F, fitted.transform(F), fitted.factor_, strict=True):
        total = fsum(row[row > 0])
        if total == 0:
            assert np.isinf(factor)
            np.testing.assert_allclose(result, 1 / len(row))
            continue
        assert factor == pytest.approx(1 / total)
        np.testing.assert_allclose(result, np.maximum(row, 0) / total, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-12, 1.0, 1e12, 1e300])
def test_norm_mul_has_no_scale(scale):
    F = np.array([[3.0, 1.0, -1.0]])
    np.testing.assert_allclose(
        norm_mul(F * scale), norm_mul(F), rtol=1e-2 if scale < 1e-310 else 1e-12
    )


# -- NormSub ----------------------------------------------------------------------------------
def projection_by_bisection(row, total=1):
    """max(row + shift, 0) of sum `total`, the shift found by bisection."""
    low, high = -np.max(row), total - np.min(row)
    for _ in range(200):
        middle = (low + high) / 2
        if fsum(np.maximum(row + middle, 0)) < total:
            low = middle
        else:
            high = middle
    return np.maximum(row + high, 0), high


@given(F=rows(kinds=("float", "counts", "negative", "one", "mixed", "tiny")))
def test_norm_sub_is_the_projection(F):
    fitted = NormSub().fit(F)
    assert fitted.shift_.shape == (len(F),)
    for row, result, shift in zip(F, fitted.transform(F), fitted.shift_, strict=True):
        expected, expected_shift = projection_by_bisection(row)
        np.testing.assert_allclose(result, expected, atol=1e-12 * max(1, np.abs(row).max()))
        assert shift == pytest.approx(expected_shift, abs=1e-12 * max(1, np.abs(row).max()))
        np.testing.assert_allclose(
            result, np.maximum(row + shift, 0), atol=1e-14 * max(1, np.abs(row).max())
        )


@pytest.mark.parametrize("seed_", range(5))
@pytest.mark.parametrize("d", [1, 2, 3, 7, 12])
def test_norm_sub_is_constrained_least_squares(d, seed_):
    """2020 paper, section IV-C and Appendix A; the solver is SciPy's."""
    row = np.random.default_rng([d, seed_]).normal(1 / d, 0.4, size=d)
    heavy = 1e4  # the weight of "sum 1" beside the distances
    system = np.vstack([np.eye(d), np.full(d, heavy)])
    solution, _ = nnls(system, np.append(row, heavy))
    np.testing.assert_allclose(norm_sub(row), solution, atol=1e-7)


@pytest.mark.parametrize("function", [norm_sub, norm_mul])
@pytest.mark.parametrize("scale", [1e9, 1e12, 1e15, 1e17, 1e200])
def test_ties_share_the_sum_at_any_scale(function, scale):
    """Only differences matter to a projection, and they are exact here."""
    np.testing.assert_allclose(function(np.full((1, 7), scale)), 1 / 7, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e9, 1e12, 1e17])
def test_norm_sub_of_negative_estimates_at_any_scale(scale):
    np.testing.assert_allclose(norm_sub(np.full((1, 7), -scale)), 1 / 7, rtol=1e-9)
    np.testing.assert_allclose(norm_sub([[-scale, -2 * scale]]), [[1.0, 0.0]], rtol=1e-9)


# -- NormCut ----------------------------------------------------------------------------------
def near_one(F):
    """Whether a sum of a row's largest estimates is too near 1 to be told from it."""
    sums = np.cumsum(-np.sort(-np.maximum(F, 0), axis=1), axis=1)
    return ((np.abs(sums - 1) < 1e-9) & (sums != 1)).any()


def brute_force_norm_cut(row):
    """The smallest of all thresholds that respect ties; positive ones are what estimates can be."""
    feasible = [t for t in {f for f in row if f > 0} if fsum(f for f in row if f >= t) <= 1]
    return [f if feasible and f >= min(feasible) else 0.0 for f in row]


@given(F=rows())
def test_norm_cut_keeps_as_many_as_it_can(F):
    assume(not near_one(F))
    fitted = NormCut().fit(F)
    result = fitted.transform(F)
    np.testing.assert_array_equal(result, [brute_force_norm_cut(row) for row in F])
    assert fitted.threshold_.shape == (len(F),)
    for row, cut, threshold in zip(F, result, fitted.threshold_, strict=True):
        np.testing.assert_array_equal(cut, np.where(row >= threshold, row, 0))


def test_norm_cut_threshold_means_what_it_says():
    fitted = NormCut().fit(
        [
            [0.5, 0.375, 0.25, -0.125],  # 0.25 must go
            [0.5, 0.25, 0.0, -0.125],  # all positive ones stay
            [1.5, 1.25, 0.25, 0.125],  # not even the largest can stay
            [0.75, 0.25, 0.25, 0.0],  # ties go together
        ]
    )
    np.testing.assert_array_equal(fitted.threshold_, [0.375, 0.0, np.inf, 0.75])
    np.testing.assert_array_equal(
        fitted.frequencies_,
        [[0.5, 0.375, 0, 0], [0.5, 0.25, 0, 0], [0, 0, 0, 0], [0.75, 0, 0, 0]],
    )


def test_norm_cut_threshold_is_0_if_all_positive_ones_are_kept():
    """So the docstring says; without a negative estimate as well as with one."""
    np.testing.assert_array_equal(NormCut().fit([[0.5, 0.25]]).threshold_, [0.0])


def test_norm_cut_of_at_most_one_is_base_pos():
    F = np.array([[0.5, 0.5, -0.5], [0.1, 0.2, -1.0], [1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(norm_cut(F), base_pos(F))


def test_norm_cut_as_the_authors_ran_it():
    """It keeps the estimates of Norm-Cut and the next one, scaled in proportion to the sum 1."""
    counts = make_zipf(100_000, 64, return_counts=True, random_state=0)
    raw = OLH(categories=64, random_state=0).simulate(counts, 20)
    cut, rescaled = NormCut().fit_transform(raw).values, norm_cut(raw.values, rescale=True)
    np.testing.assert_allclose(rescaled.sum(axis=1), 1)
    np.testing.assert_array_equal(rescaled[cut > 0] > 0, True)
    is_cut = np.maximum(raw.values, 0).sum(axis=1) > 1
    more = (rescaled > 0).sum(axis=1) - (cut > 0).sum(axis=1)
    assert is_cut.any()
    assert np.all(more[is_cut] > 0)
    assert np.all(more[~is_cut] == 0)
    factor = (rescaled / np.where(cut > 0, cut, np.inf))[is_cut].max(axis=1)
    assert np.all((factor > 0.9) & (factor < 1))
    # If nothing has to be cut, it only divides.
    np.testing.assert_allclose(norm_cut([[0.5, 0.3, -0.2]], rescale=True), [[0.625, 0.375, 0]])


def test_norm_cut_rescaled_by_hand():
    """Ties at the crossing are kept together; a row without positive estimates becomes uniform."""
    fitted = NormCut(rescale=True).fit(
        [[0.75, 0.5, 0.25], [0.5, 0.375, 0.375], [0.5, 0.5, 0.25], [-1.0, -0.5, 0.0]]
    )
    third = 1 / 3
    expected = [[0.6, 0.4, 0], [0.4, 0.3, 0.3], [0.4, 0.4, 0.2], [third, third, third]]
    np.testing.assert_allclose(fitted.frequencies_, expected)
    np.testing.assert_array_equal(fitted.threshold_, [0.5, 0.375, 0.25, 0.0])
    assert not np.allclose(NormCut().fit_transform([[0.75, 0.5, 0.25]]), expected[:1])


def test_norm_cut_lets_a_rounded_one_pass():
    row = np.full(10, 0.1)  # adds up to 0.9999999999999999, or to a little more than 1 for 1/49
    np.testing.assert_array_equal(norm_cut(row), row)
    row = np.full(49, 1 / 49)
    np.testing.assert_array_equal(norm_cut(row), row)


# -- statistics -------------------------------------------------------------------------------
FREQUENCIES = np.array([500, 250, 125, 60, 30, 15, 10, 6, 3, 1, 0, 0, 0, 0, 0, 0]) / 1000


def simulated(seed, n_repeats=4000):
    """Rows are independent collections of 100,000 users; the noise is about 0.006."""
    counts = (FREQUENCIES * 100_000).round().astype(int)
    return OUE(1.0, categories=16, random_state=seed).simulate(counts, n_repeats)


def bias_z_scores(F, expected):
    return (F.mean(axis=0) - expected) / (F.std(axis=0, ddof=1) / np.sqrt(len(F)))


@pytest.mark.parametrize("post", [Base(), Norm()], ids=repr)
def test_norm_is_unbiased(post, seed):
    """2020 paper, Lemma 3. Error rate 1e-6 for each seed (16 two-sided z-tests, Bonferroni).

    Negative controls: NormSub, which is biased, and the same with estimates 1 % too large.
    """
    critical = normal.isf(0.5e-6 / 16)
    raw = simulated(seed)
    values = np.asarray(process(post, raw))
    assert np.abs(bias_z_scores(values, FREQUENCIES)).max() < critical
    for tampered in (process(NormSub(), raw).values, process(post, raw.values * 1.01)):
        assert np.abs(bias_z_scores(tampered, FREQUENCIES)).max() > critical


def test_norm_varies_less_than_base(seed):
    """Variance (1 - 1/d) of what it was at most, about; error rate under 1e-6 for each seed.

    For independent estimates Norm's total variance is exactly (d - 1)/d of theirs: 0.9375, whose
    estimate from 64,000 numbers has standard error 0.002 (the two are nearly the same noise). The
    negative control takes half of the excess away, and must fail.
    """
    raw = simulated(seed)

    def ratio(processed):
        return processed.var(axis=0).sum() / raw.values.var(axis=0).sum()

    assert ratio(norm(raw.values)) == pytest.approx(15 / 16, abs=0.01)
    assert ratio((norm(raw.values) + raw.values) / 2) != pytest.approx(15 / 16, abs=0.01)


def test_base_pos_is_biased_upwards(seed):
    """2020 paper, Lemma 1. Error rate 1e-6 for each seed (22 one-sided and a two-sided z-test).

    Every category that nobody has gains sigma / sqrt(2 pi), and none loses. Negative controls: Norm
    is not biased, and a noise level 20 % off is not that of the bias.
    """
    raw = simulated(seed)
    critical = normal.isf(1e-6 / 24)
    nobody = FREQUENCIES == 0
    gain = raw.noise.std / np.sqrt(2 * np.pi)
    clipped = process(BasePos(), raw).values
    assert (bias_z_scores(clipped, FREQUENCIES)[nobody] > critical).all()
    assert (bias_z_scores(clipped, FREQUENCIES) > -critical).all()
    pooled = clipped[:, nobody].mean(axis=1)
    assert abs(bias_z_scores(pooled, gain)) < critical

    assert not (bias_z_scores(norm(raw.values), FREQUENCIES)[nobody] > critical).any()
    assert abs(bias_z_scores(pooled, 1.2 * gain)) > critical


def test_norm_mul_understates_the_frequent_most(seed):
    """2020 paper, section IV-B. Error rate under 1e-6 for each seed: the effects are tens of z.

    Negative controls: Norm-Sub understates all frequent ones alike, and Norm none.
    """
    raw = simulated(seed)

    def falls_with_frequency(post):
        bias = process(post, raw).values.mean(axis=0) - FREQUENCIES
        steps = np.diff(np.append(bias[:3], 0))
        return np.all(steps > 0.1 * abs(bias[0])) and bias[-1] > 0

    assert falls_with_frequency(NormMul())
    assert not falls_with_frequency(NormSub())
    assert not falls_with_frequency(Norm())


def false_positives_p_value(estimate, claimed, alpha):
    """Exact test of how many empty categories pass, `claimed` in a row being expected."""
    d = estimate.shape[1]
    empty = estimate.values[:, 1:]
    passed = np.count_nonzero(BaseCut(alpha=alpha).fit(estimate).estimate_.values[:, 1:])
    return binomtest(passed, empty.size, claimed / d).pvalue


def test_base_cut_lets_alpha_pass(seed):
    """Error rate 1e-6 for each seed: an exact binomial test, OUE's categories being independent.

    The negative control lets 1.5 times as many pass as it says.
    """
    counts = np.zeros(256, dtype=int)
    counts[0] = 10_000_000
    estimate = OUE(1.0, categories=256, random_state=seed).simulate(counts, n_repeats=800)
    assert false_positives_p_value(estimate, claimed=2.0, alpha=2.0) > 1e-6
    assert false_positives_p_value(estimate, claimed=2.0, alpha=3.0) < 1e-6


@pytest.mark.parametrize("post", [BasePos(), BaseCut(), NormSub()], ids=repr)
def test_post_processing_helps(post):
    """On skewed data at a small epsilon, as in all figures of the papers."""
    counts = np.zeros(256, dtype=int)
    counts[:4] = [50_000, 30_000, 15_000, 5_000]
    raw = OLH(0.5, categories=256, random_state=0).simulate(counts, n_repeats=5)
    truth = counts / counts.sum()
    assert frequency_mse(truth, process(post, raw)) < 0.7 * frequency_mse(truth, raw)


# -- NormHyb, CLS and MLEApx ------------------------------------------------------------------
def test_cls_is_norm_sub_by_name():
    assert isinstance(CLS(), NormSub)
    estimate = FrequencyEstimate(F3, NAMES)
    np.testing.assert_array_equal(CLS().fit(F3).frequencies_, NormSub().fit(F3).frequencies_)
    assert CLS().fit_transform(estimate).postprocessors == ("CLS",)


def test_norm_hyb_keeps_what_is_above_and_projects_the_rest():
    """2019 paper, section 3.3."""
    row = np.array([0.5, 0.375, 0.25, -0.125])
    np.testing.assert_allclose(norm_hyb(row, 0.45), [0.5, 0.3125, 0.1875, 0])
    np.testing.assert_allclose(norm_hyb(row, 0.3), [0.5, 0.375, 0.125, 0])
    # All three sum to more than 1, so only the two largest are kept.
    np.testing.assert_allclose(norm_hyb(row, 0.1), [0.5, 0.375, 0.125, 0])
    # Nothing above the threshold: Norm-Sub.
    np.testing.assert_allclose(norm_hyb(row, 0.6), norm_sub(row))
    # Tied estimates are kept together or not at all.
    tied = [0.6, 0.3, 0.3, 0.1]
    np.testing.assert_allclose(norm_hyb(tied, 0.2), norm_hyb(tied, 0.5))


def test_norm_hyb_never_lifts_an_estimate_above_a_kept_one():
    row = np.array([0.3, 0.29, 0.0, 0.0])  # the rest of 0.7 would lift 0.29 to 0.47
    np.testing.assert_allclose(norm_hyb(row, 0.295), norm_sub(row))
    np.testing.assert_allclose(norm_hyb(np.array([0.3, 0.2]), 0.1), norm_sub(np.array([0.3, 0.2])))


@given(F=rows(kinds=("float", "counts", "mixed")), threshold=st.floats(0, 0.8))
def test_norm_hyb_by_its_definition(F, threshold):
    for row, result in zip(F, norm_hyb(F, threshold), strict=True):
        distinct = np.unique(row[(row >= threshold) & (row > 0)])
        cuts = [c for c in distinct if row[row >= c].sum() <= 1 + 1e-12]
        kept = row >= min(cuts, default=np.inf)
        expected = norm_sub(row)
        if not kept.all():
            hybrid = row.copy()
            rest = max(1 - row[kept].sum(), 0)
            others, _ = projection_by_bisection(row[~kept], rest)
            hybrid[~kept] = others
            if not kept.any() or others.max() <= row[kept].min():
                expected = hybrid
        np.testing.assert_allclose(result, expected, atol=1e-9 * max(1, np.abs(row).max()))


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.25), (0.73, 0.5), (0.9, 0.02), (0.6, 0.4)])
@pytest.mark.parametrize("d", [1, 2, 5, 12])
def test_mle_apx_is_the_minimiser_of_equation_13(d, p, q):
    """To 1e-8 in the stationarity of the objective on the support, and beyond it by sign."""
    for seed in range(8):
        assert_minimises_equation_13(d, p, q, seed)


def assert_minimises_equation_13(d, p, q, seed_):
    rng = np.random.default_rng([seed_, d])
    n = int(rng.integers(50, 5000))
    counts = rng.binomial(n, q + (p - q) * rng.dirichlet(np.full(d, 0.5)))
    row = (counts / n - q) / (p - q)
    noise = NoiseModel(p, q, n)
    a, b = noise.null_variance, noise.slope
    result = mle_apx(row, a, b)
    assert result.sum() == pytest.approx(1, abs=1e-12)
    x = (result - row) / (a + b * result)
    gradient = 2 * x - b * x**2  # of the convex objective of Eq. 13
    support = result > 0
    multiplier = gradient[support].mean()
    np.testing.assert_allclose(gradient[support], multiplier, atol=1e-8)
    assert np.all(gradient[~support] >= multiplier - 1e-8)

    def objective(f):
        return np.sum((f - row) ** 2 / (a + b * f))

    solution = minimize(
        objective,
        np.full(d, 1 / d),
        method="SLSQP",
        bounds=[(0, 1)] * d,
        constraints={"type": "eq", "fun": lambda f: f.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert objective(result) <= solution.fun + 1e-8


def test_mle_apx_with_a_constant_variance_is_norm_sub():
    np.testing.assert_allclose(mle_apx(F3, 3.7, 0.0), norm_sub(F3), atol=1e-15)


def test_mle_apx_where_a_frequency_of_one_has_no_noise():
    np.testing.assert_allclose(mle_apx([1.0, 0.0], 1.0, -1.0), [1, 0], atol=1e-12)
    result = mle_apx([0.75, 0.5, -0.125], 1.0, -1.0)
    assert result.sum() == pytest.approx(1)
    assert result.min() >= 0


def test_mle_apx_takes_the_noise_of_the_estimate_or_that_which_is_given():
    estimate = OUE(1.0, categories=NAMES, random_state=0).fit_transform(["red", "blue"] * 50)
    noise = NoiseModel(estimate.noise.p, estimate.noise.q, 7)  # whatever the number of users
    np.testing.assert_array_equal(
        MLEApx().fit(estimate).frequencies_, MLEApx(noise=noise).fit(estimate.values).frequencies_
    )


def stays_raw(estimate):
    return FrequencyEstimate(estimate.values.clip(0, 1), estimate.categories, estimate.noise)


def invents_errors(estimate):
    errors = np.full(estimate.shape, 1e-6)
    return estimate.with_values(estimate.values, by="Mine", standard_errors=errors)


def sorts_many(estimate):
    many = estimate.shape[1] > 30
    return estimate.with_values(np.sort(estimate.values) if many else estimate.values, by="Mine")


def draws(estimate):
    noise = np.random.default_rng().normal(size=estimate.shape)
    return estimate.with_values(estimate.values + noise, by="Mine")


@pytest.mark.parametrize(
    ("process", "fault"),
    [
        (lambda estimate: estimate.with_values(estimate.values.clip(0, 1), by="Mine"), None),
        (stays_raw, "the result says that it is raw: return estimate.with_values"),
        (invents_errors, r"errors are \d.*e\+04 times as large as `standard_errors` tell"),
        (sorts_many, "depends on the order of the 130 categories"),
        (draws, "draws random numbers without a seed, or depends on attributes"),
    ],
)
def test_what_the_checks_of_a_postprocessor_find(process, fault):
    class Mine(BasePostProcessor):
        def _process(self, estimate):
            return process(estimate)

    with nullcontext() if fault is None else pytest.raises(AssertionError, match=fault):
        check_postprocessor(Mine())
