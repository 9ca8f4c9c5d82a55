"""FrequencyDisplay draws what an estimate says."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline

from sklearn_ldp import (
    OUE,
    BasePos,
    FrequencyEstimate,
    NoiseModel,
    Norm,
    NormSub,
    SyntheticSearch,
)
from sklearn_ldp.inspection import FrequencyDisplay
from sklearn_ldp.metrics import make_frequency_scorer

NOISE = NoiseModel(0.5, 0.25, 1000)
ESTIMATE = FrequencyEstimate([[0.2, 0.5, -0.1, 0.4]], list("abcd"), NOISE)
TRUTH = [0.4, 0.3, 0.2, 0.1]
VALUES = list("aaaabbbccd") * 20


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def oracle(**kwargs):
    return OUE(1.0, categories=list("abcd"), random_state=0, **kwargs)


def ticks(display):
    return [label.get_text() for label in display.ax_.get_xticklabels()]


def legend(display):
    return {text.get_text() for text in display.ax_.get_legend().get_texts()}


def drawn(display, label):
    line = next(line for line in display.ax_.lines if line.get_label() == label)
    return np.asarray(line.get_ydata())


def test_it_draws_the_largest_first():
    display = FrequencyDisplay.from_estimate(ESTIMATE, k=3)
    assert ticks(display) == ["b", "d", "a"]
    np.testing.assert_array_equal(drawn(display, "raw estimate"), [0.5, 0.4, 0.2])
    assert display.categories.tolist() == ["b", "d", "a"]
    assert display.figure_ is display.ax_.figure
    display.figure_.canvas.draw()


def test_truth_orders_the_picture():
    display = FrequencyDisplay.from_estimate(ESTIMATE, truth=TRUTH, name="mine")
    assert ticks(display) == list("abcd")
    np.testing.assert_array_equal(drawn(display, "truth"), TRUTH)
    np.testing.assert_array_equal(drawn(display, "mine"), ESTIMATE.values[0])
    assert legend(display) == {"truth", "mine"}


def test_intervals_of_raw_estimates_only():
    display = FrequencyDisplay.from_estimate(ESTIMATE, level=0.5)
    low, high = ESTIMATE.confidence_interval(0.5)
    order = [1, 3, 0, 2]
    np.testing.assert_array_equal(display.interval, [low[0, order], high[0, order]])
    (bars,) = (c for c in display.ax_.collections if hasattr(c, "get_segments"))
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, np.transpose(display.interval))

    assert FrequencyDisplay.from_estimate(NormSub().fit_transform(ESTIMATE)).interval is None
    silent = FrequencyEstimate(ESTIMATE.values, list("abcd"))
    assert FrequencyDisplay.from_estimate(silent).interval is None


def test_legend_names_the_post_processors():
    estimate = make_pipeline(Norm(), BasePos()).fit_transform(ESTIMATE)
    assert legend(FrequencyDisplay.from_estimate(estimate)) == {"Norm + BasePos"}


def test_it_draws_where_it_is_told():
    _, axes = plt.subplots(1, 2)
    display = ESTIMATE.plot(ax=axes[1])
    assert isinstance(display, FrequencyDisplay)
    assert display.ax_ is axes[1]
    assert not axes[0].lines


def test_it_draws_again_elsewhere():
    display = ESTIMATE.plot()
    first = display.ax_
    assert display.plot() is display
    assert display.ax_ is not first


@pytest.mark.parametrize(
    "estimator",
    [
        oracle(),
        make_pipeline(oracle(), NormSub()),
        make_pipeline(oracle(), SyntheticSearch([Norm(), NormSub()], n_repeats=2, random_state=0)),
    ],
    ids=["oracle", "pipeline", "search"],
)
def test_from_estimator(estimator):
    display = FrequencyDisplay.from_estimator(estimator.fit(VALUES), k=2, truth=TRUTH)
    assert ticks(display) == ["a", "b"]
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    np.testing.assert_array_equal(display.frequencies, last.frequencies_[:2])


def test_from_post_processor():
    post = NormSub().fit(ESTIMATE)
    np.testing.assert_array_equal(
        FrequencyDisplay.from_estimator(post).frequencies, np.sort(post.frequencies_)[::-1]
    )


def test_from_a_pipeline_without_its_last_step():
    pipe = Pipeline([("oracle", oracle()), ("post", "passthrough")]).fit(VALUES)
    display = FrequencyDisplay.from_estimator(pipe, truth=TRUTH)
    np.testing.assert_array_equal(display.frequencies, pipe[0].frequencies_)


def test_from_a_pipeline_in_a_pipeline():
    pipe = make_pipeline(oracle(), make_pipeline(BasePos(), NormSub())).fit(VALUES)
    display = FrequencyDisplay.from_estimator(pipe, truth=TRUTH)
    np.testing.assert_array_equal(display.frequencies, pipe[-1][-1].frequencies_)


def test_from_a_grid_search():
    """ "Oracle, post-processor, search or Pipeline": scikit-learn's searches are searches too."""
    pipe = make_pipeline(oracle(), NormSub())
    grid = {"oue__epsilon": [1.0, 2.0]}
    search = GridSearchCV(pipe, grid, cv=2, scoring=make_frequency_scorer()).fit(VALUES)
    display = FrequencyDisplay.from_estimator(search, truth=TRUTH)
    np.testing.assert_array_equal(display.frequencies, search.best_estimator_[-1].frequencies_)


@pytest.mark.parametrize("estimator", [oracle(), NormSub(), make_pipeline(oracle(), NormSub())])
def test_from_an_estimator_that_is_not_fitted(estimator):
    with pytest.raises(NotFittedError):
        FrequencyDisplay.from_estimator(clone(estimator))


@pytest.mark.parametrize("categories", [[("NY", 1), ("NY", 2)], [1, 2], [None, "a"], [0.5, 1.5]])
def test_any_categories(categories):
    display = FrequencyDisplay.from_estimate(FrequencyEstimate([[0.75, 0.25]], categories))
    assert ticks(display) == [str(c) for c in categories]
    display.figure_.canvas.draw()


@pytest.mark.parametrize("categories", [["$10k-$20k", "over $20k"], [r"$\frac", r"$\bad$"]])
def test_categories_are_no_formulas(categories):
    """Income brackets are read as they are: matplotlib takes what is between dollars for TeX."""
    display = FrequencyDisplay.from_estimate(FrequencyEstimate([[0.75, 0.25]], categories))
    display.figure_.canvas.draw()
    for label, category in zip(display.ax_.get_xticklabels(), categories, strict=True):
        escaped = label.get_text().replace(r"\$", "$") == category and r"\$" in label.get_text()
        assert escaped or (label.get_text() == category and not label.get_parse_math())


def test_one_estimate_at_a_time():
    two = FrequencyEstimate(np.ones((2, 2)), ["a", "b"])
    with pytest.raises(ValueError, match=r"one estimate, got 2 rows; select one: estimate\[0\]"):
        FrequencyDisplay.from_estimate(two)
    two[1].plot()


@pytest.mark.parametrize("truth", [TRUTH[:2], [*TRUTH, 0.5], [TRUTH], 0.5])
def test_truth_of_another_shape(truth):
    """A short one would be drawn beside the wrong categories, or silently hide some."""
    with pytest.raises(ValueError, match="truth"):
        FrequencyDisplay.from_estimate(ESTIMATE, truth=truth, k=2)


@pytest.mark.parametrize("level", [0, 1, 95])
def test_bad_level(level):
    with pytest.raises(ValueError, match="0 < level < 1"):
        FrequencyDisplay.from_estimate(ESTIMATE, level=level)


@pytest.mark.parametrize("k", [-1, 0, 1.5])
def test_bad_k(k):
    with pytest.raises((ValueError, TypeError), match=r"\bk\b"):
        FrequencyDisplay.from_estimate(ESTIMATE, k=k)


def test_a_plain_array_is_no_estimate():
    with pytest.raises(TypeError, match="FrequencyEstimate"):
        FrequencyDisplay.from_estimate(ESTIMATE.values)


def test_no_figure_is_made_by_importing_or_constructing():
    FrequencyDisplay(np.array(["a"]), np.array([1.0]))
    assert not plt.get_fignums()


def test_drawing_changes_no_estimate():
    before = ESTIMATE.values.copy()
    ESTIMATE.plot(truth=TRUTH)
    np.testing.assert_array_equal(ESTIMATE.values, before)
