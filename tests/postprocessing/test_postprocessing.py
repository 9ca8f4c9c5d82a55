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
from scipy.optimize import nnls
from scipy.stats import binomtest
from scipy.stats import norm as normal
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline

import sklearn_ldp
from sklearn_ldp import (
    CLS,
    GRR,
    NPMLE,
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
from sklearn_ldp.postprocessing import (
    BasePostProcessor,
    average_prior,
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
    resolve_noise,
    significance_threshold,
    smooth,
    smooth_average,
)
from sklearn_ldp.postprocessing._empirical_bayes.few import few_categories_row
from sklearn_ldp.queries import groups
from sklearn_ldp.utils._checks import check_transform_sets_nothing
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
    EmpiricalBayes: lambda post, F: norm_sub(_bayes(post, F)),
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


def _bayes(post, F):
    """Under given priors up to 12 categories, and under a learnt one from 24."""
    few = [
        few_categories_row(f, resolve_noise(FrequencyEstimate(f, range(len(f))), post.noise, ""))
        for f in F
    ]
    if few[0] is None:
        return _posterior_means(post, F)
    means = np.array([one.std * one.frequencies.means for one in few])
    learnt = [posterior_mean(f, post.noise, *average_prior(f, post.noise)) for f in F]
    share = few[0].share
    return means if share == 1 else share * means + (1 - share) * np.array(learnt)


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


@pytest.mark.slow  # the quick one is `check_permutation_equivariance`
@pytest.mark.parametrize("post", NOMINAL, ids=repr)
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
    "post", quick_or_slow([post for post in ALL if not getattr(post, "ordered", False)]), ids=repr
)
@few
@given(F=rows())
def test_class_is_its_function(post, F):
    fitted = clone(post).fit(F)
    expected = PURE[type(post)](fitted, F)
    np.testing.assert_array_equal(fitted.transform(F), expected)
    np.testing.assert_array_equal(clone(post).transform(F), expected)  # like Normalizer, no fit
    one = len(F) == 1
    np.testing.assert_array_equal(fitted.frequencies_, expected[0] if one else expected)


@over_all
@few
@given(F=rows())
def test_shapes_sums_signs_and_order(post, F):
    """2020 paper, Table I; whatever is given, the result is finite.

    f_u <= f_v implies f'_u <= f'_v (2019 paper, note to Table 1), so ties stay ties.
    """
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
    if not is_ordinal(post):
        order = np.argsort(F, axis=1)
        before, after = (np.diff(np.take_along_axis(x, order, axis=1)) for x in (F, result))
        assert (after >= 0).all()
        assert (after[before == 0] == 0).all()


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
    if isinstance(post, (Calibrate, Power)) and not isinstance(post, PowerNS):
        assert 0 < result[0, 0] <= 1
        return
    expected = max(value, 0) if isinstance(post, NON_NEGATIVE) else value
    if isinstance(post, SUMS_TO_ONE) or getattr(post, "rescale", False):
        expected = 1.0
    elif isinstance(post, NormCut):
        expected = value if 0 <= value <= 1 else 0.0
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
    """A processed estimate has the noise, the oracle and the shards of the raw one."""
    estimate = GRR(1.0, categories=NAMES, random_state=0).fit_transform(["red", "blue"] * 500)
    fitted = clone(post).fit(estimate)
    for result in (clone(post).transform(estimate), fitted.estimate_):
        assert isinstance(result, FrequencyEstimate)
        assert result.noise is estimate.noise
        assert result.oracle is estimate.oracle
        assert result.shards is estimate.shards
        assert result.categories.tolist() == NAMES
        np.testing.assert_array_equal(result.values[0], fitted.frequencies_)
        raw = isinstance(post, Base)
        assert result.postprocessors == (() if raw else (type(post).__name__,))
    again = NormSub().fit_transform(result)
    assert (again.noise, again.shards) == (estimate.noise, estimate.shards)
    assert estimate.is_raw


def test_columns_of_a_data_frame_are_the_categories():
    fitted = NormSub().fit(pd.DataFrame(F3, columns=NAMES))
    assert fitted.estimate_.categories.tolist() == NAMES


def test_users_values_are_no_estimates():
    """Before: `NormSub` of a column of codes was all ones, as each row was made to sum to 1."""
    codes = np.arange(10)[:, None]
    for post in (NormSub(), Base(), PowerNS(noise=0.1)):
        for values in (codes, codes + 0.5, -codes.astype(float), [[0.5], [2.1]]):
            with pytest.raises(
                ValueError, match=r"in each row, got a single number per row \(n_feat"
            ):
                post.fit_transform(values)
    with pytest.raises(ValueError, match="Pass users' values to an oracle"):
        NormSub().transform(codes)
    for estimates in (codes[:1], codes / 10, [[0.5], [1.9]]):  # perhaps of a single category
        assert np.all(NormSub().fit_transform(estimates) == 1)
    one = FrequencyEstimate([[0.75]], ["the only string that was found"])
    assert NormSub().fit_transform(one).values.tolist() == [[1.0]]


@pytest.mark.parametrize("is_global", [False, True])
def test_an_estimate_that_is_no_data_frame_is_told_of(monkeypatch, is_global):
    """Before: `set_output` of an oracle told it, and nothing else did."""
    oracle = OUE(1.0, categories=NAMES, n_shards=5, random_state=0)
    estimate = oracle.fit_transform(NAMES * 100)
    search = HeldOutSearch([Base(), NormSub()], n_splits=1)
    for one, X in ((NormSub(), estimate), (search, estimate), (oracle, NAMES * 100)):
        monkeypatch.setattr("sklearn_ldp._core.common.privacy._given", set())
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
def test_base_returns_a_copy_and_base_pos_clips(F):
    np.testing.assert_array_equal(base_pos(F), np.where(F > 0, F, 0))
    before = F.copy()
    Base().fit_transform(F)[:] = 7.0  # the output is the caller's own
    np.testing.assert_array_equal(F, before)


def test_post_pos_clips_answers_only():
    """And those of the next step."""
    estimate = PostPos().fit_transform(FrequencyEstimate(F3, NAMES, NOISE))
    assert estimate.clip_answers
    np.testing.assert_array_equal(estimate.answer(), base_pos(F3))
    np.testing.assert_allclose(estimate.answer(groups([1, 2, 2])), [[0.75, 0.375], [0.25, 0.5]])
    assert (PostPos().fit(F3).frequencies_ == F3).all()
    after = Norm().fit_transform(estimate)
    assert after.clip_answers
    assert (after.answer() >= 0).all()


# -- BaseCut ----------------------------------------------------------------------------------
@given(F=rows(), alpha=st.floats(1e-9, 100), std=st.floats(1e-6, 1))
def test_base_cut_threshold(F, alpha, std):
    """2020 paper, Eq. 9."""
    d = F.shape[1]
    expected = max(0.0, normal.isf(alpha / d)) * std if alpha < d else 0.0
    cut = BaseCut(alpha=alpha, noise=std).fit(F)
    np.testing.assert_allclose(cut.threshold_, [expected] * len(F), rtol=1e-9, atol=1e-15)
    at_least = cut.threshold_[:, None]
    np.testing.assert_array_equal(cut.transform(F), np.where(at_least <= F, F, 0.0))


@pytest.mark.parametrize(("d", "alpha"), [(1024, 2.0), (1024, 0.05), (42_178, 1e-12), (4, 1.9)])
def test_base_cut_threshold_in_numbers(d, alpha):
    """The normal tail beyond the threshold is alpha / d; it is 0 from d / 2 on."""
    z = significance_threshold(0.5, d, alpha) / 0.5
    assert erfc(z / sqrt(2)) / 2 == pytest.approx(alpha / d, rel=1e-9)
    assert significance_threshold(0.5, 1024, 2.0) == pytest.approx(0.5 * 2.8856, abs=1e-4)
    assert significance_threshold(0.5, 4, 2) == significance_threshold(0.5, 4, 1e300) == 0


@given(F=rows(), k=st.integers(1, 50))
def test_base_cut_keeps_the_largest(F, k):
    cut = BaseCut(n_kept=k).fit(F)
    for row, result, threshold in zip(F, cut.transform(F), cut.threshold_, strict=True):
        limit = sorted(row, reverse=True)[min(k, len(row)) - 1]
        assert threshold == max(limit, 0)
        np.testing.assert_array_equal(result, [f if f >= max(limit, 0) else 0 for f in row])
        assert np.count_nonzero(result) <= k or (row == limit).sum() > 1


def test_base_cut_takes_the_noise_of_each_row():
    """That of the parameter goes before that of the estimate."""
    noise = NoiseModel(0.5, 0.25, np.array([100, 10_000]))
    of_estimate = BaseCut(alpha=0.05).fit(FrequencyEstimate(F3, NAMES, noise))
    np.testing.assert_allclose(of_estimate.threshold_, noise.std * normal.isf(0.05 / 3))
    given = BaseCut(alpha=0.05, noise=noise).fit(F3)
    np.testing.assert_array_equal(given.threshold_, of_estimate.threshold_)
    np.testing.assert_array_equal(given.frequencies_, of_estimate.frequencies_)
    other = BaseCut(alpha=0.05, noise=0.2).fit(FrequencyEstimate(F3, NAMES, noise))
    np.testing.assert_allclose(other.threshold_, 0.2 * normal.isf(0.05 / 3))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("alpha", value) for value in (0, -1.0, np.nan, np.inf, "2", None)),
        *(("n_kept", value) for value in (0, -3, 1.5, "2")),
        *(("noise", value) for value in ("0.1", [0.1, 0.1], 0, -0.1, np.nan, np.inf)),
    ],
)
def test_base_cut_bad_parameters(name, value):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of BaseCut must be"):
        BaseCut(**{"noise": 0.1, name: value}).fit(F3)


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


def nearest_on_simplex(row):
    """Return SciPy's least-squares solution x >= 0; a large weight makes its sum 1."""
    weight = 1e4
    system = np.vstack([np.eye(len(row)), np.full(len(row), weight)])
    solution, _ = nnls(system, np.append(row, weight))
    return solution


@pytest.mark.parametrize("seed_", range(5))
@pytest.mark.parametrize("d", [1, 2, 3, 7, 12])
def test_norm_sub_is_constrained_least_squares(d, seed_):
    """2020 paper, section IV-C and Appendix A, against a general solver."""
    row = np.random.default_rng([d, seed_]).normal(1 / d, 0.4, size=d)
    np.testing.assert_allclose(norm_sub(row), nearest_on_simplex(row), atol=1e-7)


def test_norm_mul_is_not_constrained_least_squares():
    """Negative control of the test before: another normalization does not pass."""
    row = np.array([0.7, 0.5, -0.1])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        np.testing.assert_allclose(norm_mul(row), nearest_on_simplex(row), atol=1e-7)


@pytest.mark.parametrize("scale", [1e9, 1e12, 1e15, 1e17, 1e200])
def test_ties_share_the_sum_at_any_scale(scale):
    """Only differences matter to a projection, and they are exact here."""
    for function, sign in ((norm_sub, 1), (norm_mul, 1), (norm_sub, -1)):
        np.testing.assert_allclose(function(np.full((1, 7), sign * scale)), 1 / 7, rtol=1e-9)
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
            [0.5, 0.25, 0.125, 0.0625],  # also without a negative one
            [1.5, 1.25, 0.25, 0.125],  # not even the largest can stay
            [0.75, 0.25, 0.25, 0.0],  # ties go together
        ]
    )
    np.testing.assert_array_equal(fitted.threshold_, [0.375, 0.0, 0.0, np.inf, 0.75])
    np.testing.assert_array_equal(
        fitted.frequencies_,
        [
            [0.5, 0.375, 0, 0],
            [0.5, 0.25, 0, 0],
            [0.5, 0.25, 0.125, 0.0625],
            [0, 0, 0, 0],
            [0.75, 0, 0, 0],
        ],
    )


def test_norm_cut_rescaled_by_hand():
    """It keeps the estimates of Norm-Cut and the next one, as the authors ran it, with the sum 1.

    Ties at the crossing are kept together; a row without positive estimates becomes uniform.

    If nothing has to be cut, as in the last row, it only divides.
    """
    fitted = NormCut(rescale=True).fit(
        [
            [0.75, 0.5, 0.25],
            [0.5, 0.375, 0.375],
            [0.5, 0.5, 0.25],
            [-1.0, -0.5, 0.0],
            [0.5, 0.3, -0.2],
        ]
    )
    third = 1 / 3
    expected = [[0.6, 0.4, 0], [0.4, 0.3, 0.3], [0.4, 0.4, 0.2], [third, third, third]]
    np.testing.assert_allclose(fitted.frequencies_, [*expected, [0.625, 0.375, 0]])
    np.testing.assert_array_equal(fitted.threshold_, [0.5, 0.375, 0.25, 0.0, 0.0])
    assert not np.allclose(NormCut().fit_transform([[0.75, 0.5, 0.25]]), expected[:1])


def test_norm_cut_lets_a_rounded_one_pass():
    row = np.full(10, 0.1)  # adds up to 0.9999999999999999, or to a little more than 1 for 1/49
    np.testing.assert_array_equal(norm_cut(row), row)
    row = np.full(49, 1 / 49)
    np.testing.assert_array_equal(norm_cut(row), row)


# -- statistics -------------------------------------------------------------------------------


def test_base_pos_is_biased_upwards(seed):
    """2020 paper, Lemma 1: every category that nobody has gains sigma / sqrt(2 pi).

    Error rate 1e-6 for each seed (a two-sided z-test). Negative control: a noise level 20 % off.
    """
    counts = np.array([500, 250, 125, 60, 30, 15, 10, 6, 3, 1, 0, 0, 0, 0, 0, 0]) * 100
    raw = OUE(1.0, categories=16, random_state=seed).simulate(counts, 4000)
    gain = raw.noise.std / np.sqrt(2 * np.pi)
    of_nobody = process(BasePos(), raw).values[:, counts == 0].mean(axis=1)
    error = of_nobody.std(ddof=1) / np.sqrt(len(raw))
    assert abs(of_nobody.mean() - gain) < normal.isf(0.5e-6) * error
    assert abs(of_nobody.mean() - 1.2 * gain) > normal.isf(0.5e-6) * error


def test_base_cut_lets_alpha_pass(seed):
    """Error rate 1e-6 for each seed: an exact binomial test, OUE's categories being independent.

    The negative control lets 1.5 times as many pass as it says.
    """
    counts = np.zeros(256, dtype=int)
    counts[0] = 10_000_000
    estimate = OUE(1.0, categories=256, random_state=seed).simulate(counts, n_repeats=800)
    for alpha, is_right in ((2.0, True), (3.0, False)):
        empty = BaseCut(alpha=alpha).fit_transform(estimate).values[:, 1:]
        passed = binomtest(np.count_nonzero(empty), empty.size, 2.0 / 256)
        assert (passed.pvalue > 1e-6) == is_right


# -- NormHyb, CLS and MLEApx ------------------------------------------------------------------


def test_norm_hyb_keeps_what_is_above_and_projects_the_rest():
    """2019 paper, section 3.3; no estimate is lifted above one that was kept."""
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
    # The rest of 0.7 would lift 0.29 to 0.47.
    row = np.array([0.3, 0.29, 0.0, 0.0])
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
    """Of a convex objective: stationary on the support to 1e-8, and by sign beyond it.

    Negative control: Norm-Sub is not, where the variance grows with the frequency.
    """
    for seed in range(8):
        rng = np.random.default_rng([seed, d])
        n = int(rng.integers(50, 5000))
        counts = rng.binomial(n, q + (p - q) * rng.dirichlet(np.full(d, 0.5)))
        row, noise = (counts / n - q) / (p - q), NoiseModel(p, q, n)
        a, b = noise.null_variance, noise.slope
        result = mle_apx(row, a, b)
        assert result.sum() == pytest.approx(1, abs=1e-12)
        assert equation_13_is_stationary(result, row, a, b)
    is_constant = d < 3 or b < 0.1
    assert is_constant or not equation_13_is_stationary(norm_sub(row), row, a, b)


def equation_13_is_stationary(f, row, a, b):
    x = (f - row) / (a + b * f)
    gradient, support = 2 * x - b * x**2, f > 0
    multiplier = gradient[support].mean()
    return np.all(np.abs(gradient[support] - multiplier) < 1e-8) and np.all(
        gradient[~support] >= multiplier - 1e-8
    )


def test_mle_apx_where_a_frequency_of_one_has_no_noise():
    np.testing.assert_allclose(mle_apx([1.0, 0.0], 1.0, -1.0), [1, 0], atol=1e-12)
    result = mle_apx([0.75, 0.5, -0.125], 1.0, -1.0)
    assert result.sum() == pytest.approx(1)
    assert result.min() >= 0


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
        (stays_raw, "the result claims to be raw: return estimate.with_values"),
        (invents_errors, r"errors are \d.*e\+04 times as large as `standard_errors`: return no"),
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


def test_a_transform_that_changes_fitted_attributes_is_found():
    class Mine(NormSub):
        def transform(self, estimate):
            result = super().transform(estimate)
            if hasattr(self, "estimate_"):
                self.estimate_ = result
            return result

    with pytest.raises(AssertionError, match="transform has changed attributes"):
        check_transform_sets_nothing(Mine())
