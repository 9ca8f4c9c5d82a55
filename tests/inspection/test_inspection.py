"""FrequencyDisplay draws what an estimate says."""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgba
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline

import sklearn_ldp
from sklearn_ldp import (
    OLH,
    OUE,
    BasePos,
    Domain,
    FrequencyEstimate,
    NoiseModel,
    Norm,
    NormSub,
    SyntheticSearch,
)
from sklearn_ldp.datasets import make_zipf
from sklearn_ldp.inspection import FrequencyDisplay
from sklearn_ldp.metrics import make_frequency_scorer
from sklearn_ldp.queries import groups

NOISE = NoiseModel(0.5, 0.25, 1000)
ESTIMATE = FrequencyEstimate([[0.2, 0.5, -0.1, 0.4]], list("abcd"), NOISE)
TRUTH = [0.4, 0.3, 0.2, 0.1]
VALUES = list("aaaabbbccd") * 20


def oracle(**kwargs):
    return OUE(1.0, categories=list("abcd"), random_state=0, **kwargs)


def ticks(display):
    return [label.get_text() for label in display.ax_.get_xticklabels()]


def legend(display):
    return {text.get_text() for text in display.ax_.get_legend().get_texts()}


def marks(display):
    """The markers of each estimate on the axes, by its name."""
    return {container.get_label(): container.lines[0] for container in display.ax_.containers}


def drawn(display, label):
    """Where the markers of an estimate, or of the truth, are: x and y."""
    lines = {line.get_label(): line for line in display.ax_.lines}
    line = {**lines, **marks(display)}[label]
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def test_truth_orders_the_picture():
    truth = [0.1, 0.4, 0.3, 0.2]
    display = FrequencyDisplay.from_estimate(ESTIMATE, truth=truth, name="mine")
    assert ticks(display) == list("bcda")
    np.testing.assert_array_equal(drawn(display, "truth")[1], [0.4, 0.3, 0.2, 0.1])
    np.testing.assert_array_equal(drawn(display, "mine")[1], [0.5, -0.1, 0.4, 0.2])
    assert legend(display) == {"truth", "mine"}
    # Without a name, it is the post-processors'.
    estimate = make_pipeline(Norm(), BasePos()).fit_transform(ESTIMATE)
    assert legend(FrequencyDisplay.from_estimate(estimate)) == {"Norm + BasePos"}


NUMBERS = FrequencyEstimate(ESTIMATE.values, [10, 20, 30, 40], NOISE)
UNSORTED = FrequencyEstimate(ESTIMATE.values, [10, 40, 30, 20], NOISE)
BINS = FrequencyEstimate(ESTIMATE.values, Domain.bins([5, 10, 15]), NOISE)


@pytest.mark.parametrize(
    ("estimate", "arguments", "places", "label"),
    [
        # The noise orders no picture that can do without: a whole domain, and numbers.
        (ESTIMATE, {}, [0, 1, 2, 3], "all 4 categories"),
        (ESTIMATE, {"k": None}, [0, 1, 2, 3], "all 4 categories"),
        (NUMBERS, {"k": 3}, [0, 1, 3], "3 of 4 categories, only the largest estimates"),
        (BINS, {"k": 3}, [0, 1, 3], "bins, not to scale without bounds=, only the lar"),
        (UNSORTED, {"k": 3}, [1, 3, 0], "3 of 4 categories, largest estimates first"),
        (ESTIMATE, {"k": 3}, [1, 3, 0], "3 of 4 categories, largest estimates first"),
        (NUMBERS, {"truth": TRUTH[::-1], "k": 2}, [3, 2], "2 of 4 categories, largest true freq"),
        (NUMBERS, {"truth": TRUTH[::-1]}, [3, 2, 1, 0], "all 4 categories, largest true freq"),
        # What is asked for.
        (ESTIMATE, {"order": "frequency"}, [1, 3, 0, 2], "all 4 categories, largest estimates"),
        (ESTIMATE, {"order": "domain", "k": 2}, [1, 3], "2 of 4 categories, only the lar"),
        (ESTIMATE, {"order": "domain", "truth": TRUTH[::-1]}, [0, 1, 2, 3], "all 4 categories"),
        (ESTIMATE, {"by": "rank"}, [1, 3, 0, 2], "rank"),
        (NUMBERS, {"by": "rank", "k": 3}, [1, 3, 0], "rank, the first 3 of 4 categories"),
    ],
)
def test_order_of_the_categories(estimate, arguments, places, label):
    """Which categories are shown, in which order, and that the axis says so."""
    display = FrequencyDisplay.from_estimate(estimate, **arguments)
    np.testing.assert_array_equal(display.categories, estimate.categories[places])
    np.testing.assert_array_equal(drawn(display, "raw estimate")[1], estimate.values[0, places])
    found = display.ax_.get_xlabel()
    assert found == label or (label.endswith(("freq", "estimates", "lar")) and label in found)
    assert display.n_categories == 4
    again = display.plot().ax_
    assert again.get_xlabel() == found


def test_legend_hides_no_interval():
    """A marker below the legend, whose bar reaches into it: the upper left corner is free."""
    values = np.r_[np.zeros(12), 0.3, 0, 0, 0.2]
    interval = (np.maximum(values - 0.05, 0), values + 0.05)
    display = FrequencyDisplay(range(16), values, interval=interval, name="raw estimate")
    ax = display.plot(plt.subplots(figsize=(5, 3))[1]).ax_
    ax.figure.canvas.draw()
    box = ax.get_legend().get_window_extent()
    (bars,) = display.errorbar_.lines[2]
    assert not any(
        ax.transData.transform_path(bar).intersects_bbox(box) for bar in bars.get_paths()
    )


def test_label_of_intervals_is_not_cut_off():
    """Names of 26 letters leave low axes, and the label beside them still fits on the figure."""
    names = [f"Outlying-US(Guam-USVI-e{i:02})" for i in range(42)]
    oracle = OLH(epsilon=1.0, categories=names, random_state=0)
    display = FrequencyDisplay.from_estimate(oracle.simulate(np.full(42, 1000)), k=30)
    figure = display.ax_.figure
    figure.canvas.draw()
    label = display.ax_.yaxis.label.get_window_extent()
    assert 0 <= label.y0 < label.y1 <= figure.bbox.y1


def test_axes_say_what_the_intervals_are():
    def label(display):
        return display.ax_.get_ylabel().replace("\n", " ")

    plain = "frequency, with simultaneous 95 % intervals for all 4 categories"
    raw = FrequencyDisplay.from_estimate(ESTIMATE)
    assert label(raw) == plain
    assert label(raw.plot()) == plain
    assert raw.level == 0.95
    # Intervals that come second are told too, at all their levels.
    silent = FrequencyEstimate(ESTIMATE.values, list("abcd"))
    second = FrequencyDisplay.from_estimate(silent)
    assert (label(second), second.level) == ("frequency", None)
    FrequencyDisplay.from_estimate(ESTIMATE, ax=second.ax_)
    assert label(second) == plain
    FrequencyDisplay.from_estimate(ESTIMATE, ax=second.ax_, level=0.999)
    assert label(second).startswith(
        "frequency, with simultaneous 95 % and 99.9 % intervals for all 4"
    )
    processed = FrequencyDisplay.from_estimate(NormSub().fit_transform(ESTIMATE))
    assert label(processed) == plain.replace("intervals", "intervals of raw estimates")
    # A label of the user's stays, and nothing is said about what is not known.
    raw.ax_.set_ylabel("share")
    FrequencyDisplay.from_estimate(ESTIMATE, ax=raw.ax_, level=0.999)
    assert label(raw) == "share"
    silent = FrequencyDisplay(["a", "b"], [0.5, 0.5], interval=([0.4, 0.4], [0.6, 0.6])).plot()
    assert (label(silent), silent.ax_.get_xlabel()) == ("frequency", "")


def segments(display):
    """Lower and upper ends of the bars that are on the axes."""
    (bars,) = display.errorbar_.lines[2]
    return np.transpose([segment[:, 1] for segment in bars.get_segments()])


@pytest.mark.slow
@pytest.mark.parametrize("n_repeats", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_intervals_hold_for_the_winners(n_repeats, seed):
    """The 30 largest of 2,000 estimates are chosen by the noise; their intervals allow for it.

    All 30 intervals of a picture hold with a probability of at least 95 %, so fewer than 93 % of
    300 pictures have a probability of 5 % (binomial), and by 10,000 simulated collections of 2e-5;
    of 40 only the single intervals are counted, of which 99.8 % hold. The negative control are 95 %
    intervals for single categories, which hold for 30 % of the winners and never for all 30.
    """
    counts = make_zipf(100_000, 2000, return_counts=True, random_state=0)
    truth, ax = counts / counts.sum(), plt.figure().subplots()
    collections = OLH(1.0, random_state=seed).simulate(counts, n_repeats)
    held, held_alone = np.empty((2, n_repeats, 30), dtype=bool)
    for i in range(n_repeats):
        ax.clear()
        display = FrequencyDisplay.from_estimate(collections[i], ax=ax)
        shown = truth[display.categories]
        low, high = segments(display)
        held[i] = (low <= shown) & (shown <= high)
        low, high = (end[0, display.categories] for end in collections[i].confidence_interval(0.95))
        held_alone[i] = (low <= shown) & (shown <= high)
    assert held.mean() >= 0.93
    assert n_repeats < 300 or held.all(axis=1).mean() >= 0.93
    assert held_alone.all(axis=1).mean() < 0.93
    assert held_alone.mean() < 0.93


def test_intervals_of_raw_estimates_only():
    display = FrequencyDisplay.from_estimate(ESTIMATE, level=0.6)
    low, high = ESTIMATE.confidence_interval(0.6, simultaneous=True)
    np.testing.assert_allclose(display.interval, [low[0], high[0]])
    display = FrequencyDisplay.from_estimate(ESTIMATE, level=0.6, k=3)
    np.testing.assert_allclose(segments(display), display.interval)
    beside = FrequencyDisplay.from_estimate(NormSub().fit_transform(ESTIMATE), ax=display.ax_)
    assert beside.interval is None
    silent = FrequencyEstimate(ESTIMATE.values, list("abcd"))
    assert FrequencyDisplay.from_estimate(silent).interval is None


def test_pictures_tables_and_notebooks_give_one_interval():
    """Before and after post-processing, whatever is shown of it, in whichever order."""
    for estimate in (ESTIMATE, NormSub().fit_transform(ESTIMATE)):
        table = estimate.summary().set_index("category")
        assert np.all(table["low"] <= table["high"])
        for options in ({}, {"k": 3}, {"k": 2, "order": "domain"}, {"k": 3, "truth": TRUTH}):
            display = FrequencyDisplay.from_estimate(estimate, **options)
            found = table.loc[display.categories, ["low", "high"]]
            np.testing.assert_array_equal(np.transpose(display.interval), found)
        for category, (low, high) in table[["low", "high"]].iterrows():
            cells = category, f"{estimate[category]: .4g}", f"{low:.4g} to {high:.4g}"
            assert "<td>" + "</td><td>".join(cells) in estimate._repr_html_()
    lost = FrequencyEstimate(ESTIMATE.values, list("abcd"), NOISE, postprocessors=("Mine",))
    assert FrequencyDisplay.from_estimate(lost, k=3).interval is None


def test_it_draws_where_it_is_told_and_keeps_it():
    FrequencyDisplay(np.array(["a"]), np.array([1.0]))
    assert not plt.get_fignums()  # drawing makes figures, and nothing else does
    _, axes = plt.subplots(1, 2)
    display = ESTIMATE.plot(ax=axes[1], truth=TRUTH)
    assert isinstance(display, FrequencyDisplay)
    assert display.ax_ is axes[1]
    assert not axes[0].lines
    assert display.errorbar_ in display.ax_.containers
    assert display.truth_ in display.ax_.lines
    assert display.band_ is None
    second = FrequencyDisplay.from_estimate(ESTIMATE, truth=TRUTH, ax=display.ax_)
    assert second.truth_ is None  # it is there already
    assert display.plot() is display
    assert display.ax_ is not axes[1]  # drawn again elsewhere
    assert display.figure_ is display.ax_.figure
    ranked = FrequencyDisplay.from_estimate(ESTIMATE, by="rank")
    assert ranked.band_ in ranked.ax_.collections
    # What has been removed is not there: the next estimate takes its place.
    again = FrequencyDisplay.from_estimate(ESTIMATE, truth=TRUTH)
    again.errorbar_.remove()
    third = FrequencyDisplay.from_estimate(ESTIMATE, k=2, ax=again.ax_)
    assert third.categories.tolist() == ["b", "d"]


def test_keywords_change_the_look():
    look = {"ms": 9, "c": "red", "marker": "v", "capsize": 3, "ecolor": "blue"}
    for draw in (partial(ESTIMATE.plot, **look), partial(ESTIMATE.plot().plot, **look)):
        line, caps, (bars,) = draw().errorbar_.lines
        assert (line.get_markersize(), line.get_color(), line.get_marker()) == (9, "red", "v")
        assert len(caps) == 2
        assert to_hex(bars.get_color()[0]) == to_hex("blue")
    # The bars take the colour of their markers, paler.
    line, _, (bars,) = ESTIMATE.plot(color="green").errorbar_.lines
    np.testing.assert_allclose(bars.get_color()[0], to_rgba("green", 0.4))


def test_rows_of_categories():
    """Sideways all is the same, with the axes exchanged and the first category at the top."""
    upright = FrequencyDisplay.from_estimate(ESTIMATE, truth=TRUTH)
    lying = FrequencyDisplay.from_estimate(ESTIMATE, truth=TRUTH, orientation="horizontal")
    for name in ("errorbar_", "truth_"):
        lines = [getattr(display, name) for display in (upright, lying)]
        (x, y), (v, u) = [getattr(line, "lines", [line])[0].get_data(orig=True) for line in lines]
        np.testing.assert_array_equal([x, y], [u, v])
    segments = [np.array(d.errorbar_.lines[2][0].get_segments()) for d in (upright, lying)]
    np.testing.assert_allclose(segments[0], segments[1][:, :, ::-1])
    assert [label.get_text() for label in lying.ax_.get_yticklabels()] == ticks(upright)
    assert lying.ax_.yaxis_inverted()
    assert lying.ax_.get_xlabel() == upright.ax_.get_ylabel()
    assert lying.ax_.get_ylabel() == upright.ax_.get_xlabel().replace(", ", ",\n")
    # What follows lies down too.
    processed = NormSub().fit_transform(ESTIMATE)
    second = FrequencyDisplay.from_estimate(processed, ax=lying.ax_)
    assert second.orientation == "horizontal"
    np.testing.assert_array_equal(second.errorbar_.lines[0].get_xdata(), processed.values[0])
    assert lying.ax_.yaxis_inverted()
    ranked = FrequencyDisplay.from_estimate(ESTIMATE, by="rank", orientation="horizontal")
    assert ranked.ax_.get_ylabel() == "rank"
    ends = ranked.band_.get_datalim(ranked.ax_.transData)
    np.testing.assert_allclose(
        [ends.x0, ends.x1], [np.min(ranked.interval), np.max(ranked.interval)]
    )


@pytest.mark.parametrize(
    ("estimator", "source"),
    [
        (oracle(), lambda it: it),
        (make_pipeline(oracle(), NormSub()), lambda it: it[-1]),
        (
            make_pipeline(oracle(), SyntheticSearch([Norm(), NormSub()], n_repeats=2)),
            lambda it: it[-1],
        ),
        (Pipeline([("oracle", oracle()), ("post", "passthrough")]), lambda it: it[0]),
        (make_pipeline(oracle(), make_pipeline(BasePos(), NormSub())), lambda it: it[-1][-1]),
        (
            GridSearchCV(
                make_pipeline(oracle(), NormSub()),
                {"oue__epsilon": [1.0, 2.0]},
                cv=2,
                scoring=make_frequency_scorer(),
            ),
            lambda it: it.best_estimator_[-1],
        ),
    ],
    ids=["oracle", "pipeline", "search", "no last step", "pipeline in a pipeline", "grid search"],
)
def test_from_estimator(estimator, source):
    """Oracles, post-processors, searches (scikit-learn's, too) and pipelines, at their end."""
    with pytest.raises(NotFittedError):
        FrequencyDisplay.from_estimator(clone(estimator))
    display = FrequencyDisplay.from_estimator(estimator.fit(VALUES), k=2, truth=TRUTH)
    assert ticks(display) == ["a", "b"]
    np.testing.assert_array_equal(display.frequencies, source(estimator).frequencies_[:2])


@pytest.mark.parametrize("categories", [[("NY", 1), ("NY", 2)], [1, 2], [None, "a"], [0.5, 1.5]])
def test_any_categories(categories):
    display = FrequencyDisplay.from_estimate(FrequencyEstimate([[0.75, 0.25]], categories))
    # Of a cell of a table the names of its columns.
    shown = [", ".join(map(str, c)) if isinstance(c, tuple) else str(c) for c in categories]
    shown = ["(missing)" if name == "None" else name for name in shown]
    assert ticks(display) == shown
    display.figure_.canvas.draw()


@pytest.mark.parametrize("categories", [["$10k-$20k", "over $20k"], [r"$\frac", r"$\bad$"]])
def test_categories_are_no_formulas(categories):
    """Income brackets are read as they are: matplotlib takes what is between dollars for TeX."""
    display = FrequencyDisplay.from_estimate(FrequencyEstimate([[0.75, 0.25]], categories))
    display.figure_.canvas.draw()
    for label, category in zip(display.ax_.get_xticklabels(), categories, strict=True):
        escaped = label.get_text().replace(r"\$", "$") == category and r"\$" in label.get_text()
        assert escaped or (label.get_text() == category and not label.get_parse_math())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": "size"}, '"auto", "domain" or "frequency", got \'size\''),
        ({"by": "rank", "order": "domain"}, 'by="category", or leave out order='),
        ({"by": "size"}, '"category" or "rank"'),
        ({"orientation": "up"}, '"vertical" or "horizontal", got \'up\''),
        # A short one would be drawn beside the wrong categories, or silently hide some.
        *(({"truth": t, "k": 2}, "truth") for t in (TRUTH[:2], [*TRUTH, 0.5], [TRUTH], 0.5)),
        *(({"k": k}, r"\bk\b") for k in (-1, 0, 1.5)),
    ],
    ids=repr,
)
def test_what_is_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        FrequencyDisplay.from_estimate(ESTIMATE, **arguments)


@pytest.mark.parametrize("other", [ESTIMATE.values, NOISE, NormSub(), FrequencyEstimate, None])
def test_what_is_no_estimate(other):
    with pytest.raises(TypeError, match="needs a FrequencyEstimate, got .*. Convert an array"):
        FrequencyDisplay.from_estimate(other)
    two = FrequencyEstimate(np.ones((2, 2)), ["a", "b"])
    with pytest.raises(
        ValueError, match=r"one estimate, got 2 rows. Select one row with estimate\[0\]"
    ):
        FrequencyDisplay.from_estimate(two)
    two[1].plot()


def test_inspection_imports_neither_estimates_nor_matplotlib(fresh_processes):
    """Estimates plot themselves with displays, which therefore must not need their class."""
    code = (
        "import sys, types; sys.modules['sklearn_ldp'] = package = types.ModuleType('sklearn_ldp');"
        f"package.__path__ = {list(sklearn_ldp.__path__)!r}; import sklearn_ldp.inspection;"
        "print([name for name in sys.modules if name.startswith(('sklearn_ldp.', 'matplotlib'))])"
    )
    done = fresh_processes.run(code)
    assert "sklearn_ldp._core.displays._frequency_display" in done.stdout
    assert "_estimate'" not in done.stdout
    assert "model_selection" not in done.stdout
    assert "matplotlib" not in done.stdout


@pytest.mark.parametrize("form", [pd.Series, dict])
def test_a_labeled_truth_is_matched_by_category(form):
    """A Series in another order was drawn by position: b had the true frequency of d."""
    labeled = form({"d": 0.1, "c": 0.2, "b": 0.3, "a": 0.4})
    display = FrequencyDisplay.from_estimate(ESTIMATE, truth=labeled, order="domain", k=None)
    np.testing.assert_array_equal(drawn(display, "truth")[1], TRUTH)
    halves = groups(dict(zip("abcd", "xyxy", strict=True)))
    display = ESTIMATE.plot(truth=labeled, queries=halves, order="domain")
    np.testing.assert_allclose(drawn(display, "truth")[1], [0.6, 0.4])
    with pytest.raises(ValueError, match="has no label for the category 'b'"):
        ESTIMATE.plot(truth=form({"a": 0.5, "z": 0.5}))


@pytest.mark.parametrize("truth", [[400, 300, 200, 100], [40.0, 30.0, 20.0, 10.0]])
def test_a_truth_of_counts_is_refused(truth):
    with pytest.raises(ValueError, match=r"from 0 to 1, got values up to 40.*Divide counts by"):
        ESTIMATE.plot(truth=truth)


def test_displays_without_a_truth_name_an_alternative():
    rows = FrequencyEstimate(np.tile(TRUTH, (2, 1)), list("abcd"), NOISE, row_names=[1, 2])
    for plot in (rows.plot, (rows[[0]] - ESTIMATE).plot):
        with pytest.raises(TypeError, match=r"draws no true frequencies.*estimate\[0\], truth="):
            plot(truth=TRUTH)
