"""Displays of errors and searches, and several estimates on the same axes."""

import sys
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from test_inspection import ESTIMATE, TRUTH, drawn, marks, ticks

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    Base,
    Domain,
    EmpiricalBayes,
    FrequencyEstimate,
    HeldOutSearch,
    Norm,
    NormSub,
    RangeOracle,
    SyntheticSearch,
)
from sklearn_ldp.inspection import (
    ContingencyDisplay,
    DifferenceDisplay,
    DistributionDisplay,
    ErrorCurveDisplay,
    FrequencyDisplay,
    SearchDisplay,
    TrendDisplay,
)
from sklearn_ldp.metrics import make_frequency_scorer, make_held_out_scorer
from sklearn_ldp.model_selection import default_candidates, simulate_errors
from sklearn_ldp.queries import groups, random_sets, ranges

COUNTS = np.array([600, 300, 80, 20])


@pytest.fixture(scope="module")
def study():
    return simulate_errors(OLH(), "all", COUNTS, epsilons=[2, 0.5, 1], n_repeats=3)


def test_what_has_a_display_has_a_plot(study):
    """A study, a difference, and rows with names; rows without say what to do."""
    part = study.select(epsilon=1.0)
    assert isinstance(part.plot(x="postprocessor", by="oracle"), ErrorCurveDisplay)
    weeks = OUE(2.0, categories=list("abcd"), random_state=0).simulate(COUNTS, 2)
    assert isinstance((weeks[1] - weeks[0]).plot(), DifferenceDisplay)
    for names, style in ((["week 1", "week 2"], "-"), (["<= 50", "> 50"], "None")):
        display = replace(weeks, row_names=names).plot()  # lines join what follows each other
        assert isinstance(display, TrendDisplay)
        assert display.lines_["a"].get_linestyle() == style
    with pytest.raises(ValueError, match="if they have row_names"):
        weeks.plot()


def test_long_names_turn_the_picture():
    names = ["a category with a long name", "b", "c", "d"]
    long = FrequencyEstimate(ESTIMATE.values, names)
    assert long.plot().orientation == "horizontal"
    assert long.plot(orientation="vertical").orientation == "vertical"
    assert ESTIMATE.plot().orientation == "vertical"
    low = plt.subplots(figsize=(4, 0.6))[1]  # no room for four rows
    assert long.plot(ax=low).orientation == "vertical"


def lines(display):
    """What is drawn, by name: x, y and the lower and upper ends of the bars."""
    found = {}
    for container in display.ax_.containers:
        line, _, bars = container.lines
        ends = np.array([s[:, 1] for s in bars[0].get_segments()]) if bars else None
        found[container.get_label()] = np.asarray(line.get_xdata()), line.get_ydata(), ends
    return found


def looks(ax):
    """Colour, line style and marker of each curve."""
    curves = [container.lines[0] for container in ax.containers]
    return [(to_hex(c.get_color()), str(c.get_linestyle()), c.get_marker()) for c in curves]


# -- ErrorCurveDisplay ----------------------------------------------------------------------------
def test_curves_are_what_the_study_holds(study):
    pytest.importorskip("pandas")
    display = ErrorCurveDisplay.from_results(study, x="epsilon")
    drawn = lines(display)
    assert list(drawn) == list(dict.fromkeys(study["postprocessor"]))
    for name, (x, y, ends) in drawn.items():
        part = study.select(postprocessor=name)
        order = np.argsort(part["epsilon"])
        np.testing.assert_array_equal(x, [0.5, 1, 2])
        np.testing.assert_array_equal(y, part.error[order])
        bar = part.standard_error[order]
        np.testing.assert_allclose(ends, np.transpose([y - bar, y + bar]))
    assert display.ax_.get_yscale() == "log"
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("epsilon", "MSE")
    assert display.figure_ is display.ax_.figure
    for table in (study.to_frame(), study.to_dict()):  # any tidy table will do
        again = ErrorCurveDisplay.from_results(table, spread=None)
        np.testing.assert_array_equal(again.curves["Base"].error, display.curves["Base"].error)
        assert again.curves["Base"].spread is None


def test_legend_is_outside_and_complete(study):
    display = ErrorCurveDisplay.from_results(study)
    display.figure_.canvas.draw()
    legend = display.ax_.get_legend()
    assert [t.get_text() for t in legend.get_texts()] == list(display.curves)
    assert legend.get_window_extent().x0 >= display.ax_.get_window_extent().x1
    assert ErrorCurveDisplay.from_results(study, legend=False).ax_.get_legend() is None


def look_of(names):
    """Colour, dashes and marker of each curve, by its name."""
    table = {"postprocessor": names, "epsilon": [1.0] * len(names), "error": [1.0] * len(names)}
    display = ErrorCurveDisplay.from_results(table, spread=None)
    curves = {name: container.lines[0] for name, container in display.errorbars_.items()}
    return {
        name: (to_hex(line.get_color()), str(line._unscaled_dash_pattern), line.get_marker())
        for name, line in curves.items()
    }


def test_every_method_has_a_look_of_its_own(study):
    """A colour-blind reader and a printout tell them apart: no two share marker or look."""
    assert len(default_candidates()) >= 12
    names = [f"method {i}" for i in range(17)]
    for found in (look_of(list(dict.fromkeys(study["postprocessor"]))), look_of(names)):
        markers = [marker for _, _, marker in found.values()]
        pairs = {(color, dashes) for color, dashes, _ in found.values()}
        assert len(set(markers)) == len(pairs) == len(found)


def test_a_method_looks_the_same_in_every_panel_and_spelling():
    left = look_of(["Base", "Norm-Sub"])
    right = look_of(["mine", "NormSub", "Power"])
    assert left["Norm-Sub"] == right["NormSub"]
    assert right["mine"] not in (right["NormSub"], right["Power"])


def test_set_sizes_and_users_on_the_x_axis():
    queries = {25: random_sets(0.25), 50: random_sets(0.5)}
    study = simulate_errors(OLH(1.0), [Base()], COUNTS, queries=queries, n_repeats=2)
    (x, y, _), *_ = lines(ErrorCurveDisplay.from_results(study, x="queries")).values()
    np.testing.assert_array_equal(x, [25, 50])
    np.testing.assert_array_equal(y, study.error)
    study = simulate_errors(OLH(1.0), [Base()], COUNTS / 1000, [1000, 500], n_repeats=2)
    (x, y, _), *_ = lines(ErrorCurveDisplay.from_results(study, x="n_samples")).values()
    np.testing.assert_array_equal(x, [500, 1000])
    np.testing.assert_array_equal(y, study.error[::-1])
    once = simulate_errors(OLH(), [Base()], COUNTS, epsilons=[1, 2], n_repeats=1)
    display = ErrorCurveDisplay.from_results(once)  # without bars, but a curve
    display.figure_.canvas.draw()
    np.testing.assert_array_equal(display.curves["Base"].error, once.error)


def test_curves_by_several_columns(study):
    several = simulate_errors([OLH(), OUE()], [Base(), NormSub()], COUNTS, epsilons=[1, 2])
    display = ErrorCurveDisplay.from_results(several, by=["oracle", "postprocessor"])
    assert list(display.curves) == ["OLH, Base", "OLH, NormSub", "OUE, Base", "OUE, NormSub"]
    with pytest.raises(ValueError, match=r"differ in oracle.*select\(oracle=\.\.\)"):
        ErrorCurveDisplay.from_results(several)
    with pytest.raises(KeyError, match="column 'k'"):
        ErrorCurveDisplay.from_results(study, x="k")
    with pytest.raises(KeyError, match="simulate_errors"):
        ErrorCurveDisplay.from_results([1, 2])


def test_panels_and_a_second_drawing(study):
    """Curves are kept, look the same and take keywords."""
    _, axes = plt.subplots(1, 2)
    display = ErrorCurveDisplay.from_results(study, ax=axes[1], ms=11, capsize=0)
    assert display.ax_ is axes[1]
    assert not axes[0].lines
    assert list(display.errorbars_) == list(display.curves)
    for name, container in display.errorbars_.items():
        assert container in display.ax_.containers
        assert container.get_label() == name
        assert container.lines[0].get_markersize() == 11
        assert container.lines[1] == ()  # no caps
    assert display.plot(axes[0], x_scale="log", error_scale="linear") is display
    assert (axes[0].get_xscale(), axes[0].get_yscale()) == ("log", "linear")
    assert looks(axes[0]) == looks(axes[1])


# -- ErrorCurveDisplay of scikit-learn's searches -------------------------------------------------
USERS = np.repeat(np.arange(4), COUNTS // 2)
PIPE = Pipeline([("oracle", GRR(categories=4, random_state=0)), ("post", Base())])
GRID = {"oracle__epsilon": [2, 0.5, 1], "post": [Base(), NormSub()]}


def searched(grid=GRID, pipe=PIPE, search=GridSearchCV, **kwargs):
    kwargs = {"cv": 3, "scoring": make_frequency_scorer("mse"), "error_score": "raise", **kwargs}
    shuffled = np.random.default_rng(0).permutation(USERS)
    return search(pipe, grid, **kwargs).fit(shuffled)


@pytest.fixture(scope="module")
def grid_search():
    return searched()


def ring(display):
    """The point that is marked on the axes."""
    (line,) = [line for line in display.ax_.lines if line.get_label() == "chosen"]
    assert line is display.chosen_
    return line.get_xdata()[0], line.get_ydata()[0]


def test_a_grid_search_over_epsilon(grid_search):
    display = ErrorCurveDisplay.from_grid_search(grid_search)
    results, drawn = grid_search.cv_results_, lines(display)
    assert list(drawn) == list(display.curves) == ["Base", "NormSub"]
    splits = -np.array([results[f"split{i}_test_score"] for i in range(3)])
    for i, (x, y, ends) in enumerate(drawn.values()):
        mine = [2 + i, 4 + i, i]  # epsilon 0.5, 1 and 2 in the order of the grid
        np.testing.assert_array_equal(x, [0.5, 1, 2])
        np.testing.assert_allclose(y, splits[:, mine].mean(axis=0))
        bar = splits[:, mine].std(axis=0, ddof=1) / np.sqrt(3)
        np.testing.assert_allclose(np.diff(ends)[:, 0], 2 * bar)
    best = grid_search.best_params_
    assert display.chosen == {str(best["post"]).removesuffix("()"): best["oracle__epsilon"]}
    assert ring(display) == (best["oracle__epsilon"], -grid_search.best_score_)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert sorted(texts) == ["Base", "NormSub", "chosen"]
    labels = (display.ax_.get_xlabel(), display.ax_.get_ylabel())
    assert labels == ("epsilon", "MSE, mean of 3 splits")
    assert display.ax_.get_yscale() == "log"
    for name in ("oracle__epsilon", "param_oracle__epsilon"):
        again = ErrorCurveDisplay.from_grid_search(grid_search, x=name, ax=display.ax_, ms=9)
        assert again.ax_ is display.ax_
        assert again.chosen == display.chosen
    display.figure_.canvas.draw()


def test_the_mark_is_on_what_the_search_has_chosen(grid_search):
    """The largest epsilon is not marked for being the best, but for being chosen."""
    search = searched(refit=lambda results: 3)
    display = ErrorCurveDisplay.from_grid_search(search)
    assert display.chosen == {"NormSub": 0.5}
    assert ring(display) == (0.5, -search.cv_results_["mean_test_score"][3])
    curves = ErrorCurveDisplay.from_grid_search(grid_search).curves
    assert ErrorCurveDisplay(curves).plot().chosen_ is None
    for wrong in ({"Base": 0.7}, {"Norm": 1.0}):
        with pytest.raises(ValueError, match="not a point of a curve"):
            ErrorCurveDisplay(curves, chosen=wrong).plot()


def test_a_grid_search_with_several_metrics():
    scoring = {name: make_frequency_scorer(name) for name in ("mse", "mae")}
    search = searched(scoring=scoring, refit="mae")
    results = search.cv_results_
    for metric, expected in ((None, "mae"), ("mae", "mae"), ("mse", "mse")):
        display = ErrorCurveDisplay.from_grid_search(search, metric=metric)
        assert display.error_name == f"{expected.upper()}, mean of 3 splits"
        assert ring(display)[1] == -results[f"mean_test_{expected}"][search.best_index_]
    unchosen = searched(scoring=scoring, refit=False)
    assert ErrorCurveDisplay.from_grid_search(unchosen, metric="mse").chosen_ is None
    for metric in (None, "rmse"):
        with pytest.raises(ValueError, match=r"metric must be a score.* one of \['mse', 'mae'\]"):
            ErrorCurveDisplay.from_grid_search(unchosen, metric=metric)


def test_a_halving_search_has_a_curve_for_each_number_of_users():
    search = searched(search=HalvingGridSearchCV, random_state=0, min_resources=100)
    results = search.cv_results_
    display = ErrorCurveDisplay.from_grid_search(search)
    assert results["iter"].max() > 0
    assert "Base, iteration 0 (n_samples = 100)" in display.curves
    assert sum(len(curve.x) for curve in display.curves.values()) == len(results["iter"])
    ((name, x),) = display.chosen.items()
    last = f"iteration {results['iter'].max()} (n_samples = {search.n_resources_[-1]})"
    assert name.endswith(last)
    assert ring(display) == (x, -search.best_score_)


def test_oracles_of_several_budgets_are_on_the_axis():
    """By the budget of each; their names are without it, and without the domain of all."""
    oracles = [kind(e, categories=4, random_state=0) for e in (0.5, 2.0) for kind in (GRR, OUE)]
    display = ErrorCurveDisplay.from_grid_search(searched({"oracle": oracles}))
    assert list(display.curves) == ["GRR(random_state=0)", "OUE(random_state=0)"]
    assert [curve.x.tolist() for curve in display.curves.values()] == [[0.5, 2.0]] * 2


def test_candidates_that_set_other_parameters():
    """What a candidate does not set is that of its step, or of the searched estimator."""
    grids = [
        {"oracle__epsilon": [0.5]},
        {"post": [NormSub()]},
        {"oracle": [OUE(3.0, categories=4, random_state=0)], "post": [NormSub()]},
        {"post": [Norm()], "oracle__n_jobs": [1], "oracle__epsilon": [4.0]},
    ]
    display = ErrorCurveDisplay.from_grid_search(searched(grids))
    places = {name: curve.x.tolist() for name, curve in display.curves.items()}
    oue = "OUE(random_state=0)"  # without the budget, which is its place, and the shared domain
    assert places == {
        "error": [0.5],
        "NormSub": [1.0],
        f"NormSub, {oue}": [3.0],
        "Norm, oracle__n_jobs = 1": [4.0],
    }
    # One curve, of an oracle alone.
    alone = ErrorCurveDisplay.from_grid_search(searched({"epsilon": [1, 2]}, pipe=PIPE[0]))
    assert (list(alone.curves), alone.x_name) == (["error"], "epsilon")


def test_errors_below_0_are_drawn():
    """Unbiased estimates of an error may be negative, and a logarithm would hide those."""
    reports = GRR(1.0, categories=4, random_state=0).privatize(USERS[::10])
    server = Pipeline([("oracle", GRR(1.0, categories=4, input="reports")), ("post", Base())])
    grid = {"oracle__epsilon": [1.0], "post": [Base(), Norm(), NormSub()]}
    search = GridSearchCV(server, grid, cv=2, scoring=make_held_out_scorer()).fit(reports)
    search.cv_results_["mean_test_score"][0] = 0.1  # whatever these reports say
    display = ErrorCurveDisplay.from_grid_search(search)
    assert display.ax_.get_yscale() == "linear"
    assert display.curves["Base"].error[0] == -0.1
    assert display.error_name == "error, mean of 2 splits"


def test_a_search_that_does_not_fit():
    with pytest.raises(NotFittedError):
        ErrorCurveDisplay.from_grid_search(GridSearchCV(PIPE, GRID))
    for other in (NormSub(), SyntheticSearch(), None):
        with pytest.raises(
            TypeError, match="needs a fitted search such as GridSearchCV.*SearchDisplay"
        ):
            ErrorCurveDisplay.from_grid_search(other)
    search = searched({"post": [Base(), NormSub()]})
    with pytest.raises(ValueError, match="needs exactly one epsilon.*found 0"):
        ErrorCurveDisplay.from_grid_search(search)
    with pytest.raises(
        ValueError, match=r"x must be a searched parameter, got 'epsilon'. Use one of \['post'\]"
    ):
        ErrorCurveDisplay.from_grid_search(search, x="epsilon")
    with pytest.raises(ValueError, match="numbers on the x axis.*Pass a parameter with numbers"):
        ErrorCurveDisplay.from_grid_search(search, x="post")
    twice = searched([{"oracle__epsilon": [1.0]}, {"oracle__epsilon": [1.0]}])
    with pytest.raises(ValueError, match="several candidates called 'error'"):
        ErrorCurveDisplay.from_grid_search(twice)


# -- rows of dots ---------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def dots():
    oracles = {f"oracle {i}": oracle for i, oracle in enumerate([OLH(), OUE()] * 4)}
    posts = [Base(), NormSub(), Norm()]
    return simulate_errors(oracles, posts, COUNTS, epsilons=1.0, n_repeats=3)


ROWS = {"x": "postprocessor", "by": "oracle"}


def points(display):
    """The line with the dots of each kind."""
    return {name: container.lines[0] for name, container in display.errorbars_.items()}


def test_dots_are_what_the_study_holds(dots):
    display = ErrorCurveDisplay.from_results(dots, **ROWS)
    rows = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert rows == display.rows == ["Base", "NormSub", "Norm"]
    assert display.ax_.yaxis_inverted()
    drawn = points(display)
    assert list(drawn) == list(display.curves) == [f"oracle {i}" for i in range(8)]
    for name, line in drawn.items():
        part = dots.select(oracle=name)
        assert display.curves[name].x.tolist() == rows
        np.testing.assert_array_equal(line.get_xdata(), part.error)
        np.testing.assert_array_equal(np.round(line.get_ydata()), [0, 1, 2])  # each in its row
        (bars,) = display.errorbars_[name].lines[2]
        half = np.array([s[1, 0] - s[0, 0] for s in bars.get_segments()]) / 2
        np.testing.assert_allclose(half, part.standard_error)
    places = np.array([line.get_ydata()[0] for line in drawn.values()])
    assert np.all(np.diff(places) > 0.05)
    # Each oracle has a marker of its own, and one of a colour that comes again is hollow.
    assert len({line.get_marker() for line in drawn.values()}) == 8
    looks = {(to_hex(line.get_color()), line.get_fillstyle()) for line in drawn.values()}
    assert len(looks) == 8
    assert {line.get_linestyle() for line in drawn.values()} == {"None"}
    assert display.chosen_ is None
    assert (display.ax_.get_xscale(), display.ax_.get_xlabel()) == ("log", "MSE")
    assert display.figure_ is display.ax_.figure
    display.figure_.canvas.draw()


def test_other_rows_and_dots():
    queries = {"all": None, "half": random_sets(0.5)}
    posts, epsilons = [Base(), NormSub()], [1, 2]
    study = simulate_errors(OLH(), posts, COUNTS, None, epsilons, queries, n_repeats=2)
    part = study.select(epsilon=2)
    table = {**part.columns, "RMSE": np.sqrt(part.error)}
    display = ErrorCurveDisplay.from_results(
        table, x="queries", error="RMSE", spread=None, error_scale="linear", ms=3
    )
    assert display.rows == ["all", "half"]
    for name, line in points(display).items():
        errors = part.select(postprocessor=name).error
        np.testing.assert_array_equal(line.get_xdata(), np.sqrt(errors))
        assert line.get_markersize() == 3
    assert (display.ax_.get_xscale(), display.ax_.get_xlabel()) == ("linear", "RMSE")
    several = "at the same x on the curve 'OLH', which differ in epsilon and queries"
    with pytest.raises(ValueError, match=several):
        ErrorCurveDisplay.from_results(study, **ROWS)
    with pytest.raises(KeyError, match="ErrorCurveDisplay.from_results found no column 'regret'"):
        ErrorCurveDisplay.from_results(study, error="regret")


def test_chosen_dots_are_ringed(dots):
    chosen = {"oracle 3": "Norm", "oracle 0": "Base"}
    display = ErrorCurveDisplay.from_results(dots, chosen=chosen, **ROWS)
    drawn = points(display)
    places = np.transpose(display.chosen_.get_data())
    for (name, row), place in zip(chosen.items(), places, strict=True):
        expected = np.transpose(drawn[name].get_data())[display.rows.index(row)]
        np.testing.assert_array_equal(place, expected)
    names = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert sorted(names) == sorted([*drawn, "chosen"])
    for wrong in ({"oracle 0": "PowerNS"}, {"OLH": "Norm"}):
        with pytest.raises(ValueError, match="got chosen=.* not a point of a curve.* one of"):
            ErrorCurveDisplay.from_results(dots, chosen=wrong, **ROWS)


def test_missing_dots_and_other_axes():
    _, axes = plt.subplots(1, 2)
    table = {
        "postprocessor": ["$b", "a", "a", "c", "c"],
        "oracle": ["x", "y", "x", "y", "x"],
        "error": [1.0, 2.0, np.nan, 4.0, 5.0],
    }
    display = ErrorCurveDisplay.from_results(table, spread=None, ax=axes[1], legend=False, **ROWS)
    assert display.ax_ is axes[1]
    assert display.rows == ["$b", "a", "c"]
    assert display.curves["y"].x.tolist() == ["a", "c"]
    np.testing.assert_array_equal(np.round(points(display)["y"].get_ydata()), [1, 2])
    assert not axes[0].lines
    assert axes[1].get_legend() is None
    display.figure_.canvas.draw()


def test_epsilons_within_a_decade_get_labels():
    table = {"postprocessor": ["a", "b"], "oracle": ["x", "x"], "error": [2e-5, 4e-5]}
    near = ErrorCurveDisplay.from_results(table, spread=None, **ROWS)
    far = ErrorCurveDisplay.from_results({**table, "error": [1e-5, 1.0]}, spread=None, **ROWS)
    for display in (near, far):
        low, high = display.ax_.get_xlim()
        assert 2 <= sum(low <= tick <= high for tick in display.ax_.get_xticks()) <= 9


# -- SearchDisplay --------------------------------------------------------------------------------
CANDIDATES = [Base(), Norm(), NormSub(), EmpiricalBayes()]


@pytest.mark.parametrize(
    ("search", "words"),
    [
        (SyntheticSearch(CANDIDATES, n_repeats=3, random_state=0), "synthetic data"),
        (HeldOutSearch(CANDIDATES), "held-out"),
        (HeldOutSearch(CANDIDATES, method="bootstrap"), "noisy copies"),
    ],
    ids=["synthetic", "held out", "coupled"],
)
def test_candidates_of_a_search(search, words):
    oracle = OLH(categories=4, random_state=0)
    search.fit(oracle.fit_transform(np.arange(4), sample_weight=COUNTS))
    display = SearchDisplay.from_estimator(search)
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    order = np.argsort(-search.results_["mean_test_score"], kind="stable")
    assert names == search.results_["candidate"][order].tolist()
    (line, _, (bars,)) = display.errorbar_.lines
    np.testing.assert_array_equal(line.get_xdata(), -search.results_["mean_test_score"][order])
    half = np.array([s[1, 0] - s[0, 0] for s in bars.get_segments()]) / 2
    n_splits = sum(key.startswith("split") for key in search.results_)
    expected = search.results_["std_test_score"][order] / np.sqrt(n_splits - 1)
    np.testing.assert_allclose(half, expected)
    chosen = display.chosen_
    assert chosen.get_label() == "chosen"
    assert chosen in display.ax_.lines
    assert chosen.get_xdata()[0] == -search.results_["mean_test_score"][search.best_index_]
    best = search.results_["candidate"][search.best_index_]
    assert names[int(chosen.get_ydata()[0])] == best
    assert display.ax_.yaxis_inverted()
    assert words in display.ax_.get_xlabel()
    display.figure_.canvas.draw()


def test_where_a_fitted_search_is_looked_for():
    """At the end of a pipeline, too."""
    search = SyntheticSearch([Base(), NormSub()], n_repeats=2, random_state=0)
    pipe = make_pipeline(OLH(categories=list("abcd"), random_state=0), search)
    display = SearchDisplay.from_estimator(pipe.fit(list("aaaabbbccd") * 20))
    assert set(display.candidates) == {"Base", "NormSub"}
    with pytest.raises(NotFittedError):
        SearchDisplay.from_estimator(SyntheticSearch())
    with pytest.raises(TypeError, match="NormSub.*HeldOutSearch"):
        SearchDisplay.from_estimator(NormSub())


def test_scale_of_the_errors():
    assert SearchDisplay(["a", "b"], [1.0, 50.0]).plot().ax_.get_xscale() == "log"
    assert SearchDisplay(["a", "b"], [1.0, 5.0]).plot().ax_.get_xscale() == "linear"
    display = SearchDisplay(["a", "$b"], [0.0, 5.0]).plot(error_scale="linear", c="red", ms=9)
    assert display.best_index is None
    assert display.chosen_ is None
    line = display.errorbar_.lines[0]
    assert (line.get_color(), line.get_markersize()) == ("red", 9)


# -- several estimates on the same axes -----------------------------------------------------------
def test_a_second_estimate_keeps_the_order_of_the_first():
    first = FrequencyDisplay.from_estimate(ESTIMATE, k=3, truth=TRUTH)
    turned = FrequencyEstimate([[0.4, 0.1, 0.3, 0.2]], list("dcba"))
    second = FrequencyDisplay.from_estimate(turned, ax=first.ax_, truth=TRUTH[::-1], name="turned")
    assert second.ax_ is first.ax_
    assert second.categories.tolist() == list("abc")
    assert ticks(first) == list("abc")
    np.testing.assert_array_equal(drawn(first, "turned")[1], [0.2, 0.3, 0.1])
    assert [line.get_label() for line in first.ax_.lines].count("truth") == 1
    names = [t.get_text() for t in first.ax_.get_legend().get_texts()]
    assert names == ["truth", "raw estimate", "turned"]
    # Drawn alone, the second one knows how many it shows, but not what has chosen them.
    assert second.plot().ax_.get_xlabel() == "3 of 4 categories"


def test_overlaid_estimates_stand_apart():
    display = FrequencyDisplay.from_estimate(ESTIMATE, name="0")
    for name in "1234":
        FrequencyDisplay.from_estimate(ESTIMATE, ax=display.ax_, name=name)
    places = [drawn(display, name)[0] for name in "01234"]
    shifts = np.array([place - places[0] for place in places])
    assert np.ptp(shifts, axis=1).max() < 1e-12
    assert len(set(shifts[:, 0].round(6))) == 5
    assert np.abs(shifts).max() < 0.5
    curves = [line for name, line in marks(display).items() if name in "01234"]
    assert len(curves) == 5
    assert len({line.get_marker() for line in curves}) == 5
    assert len({to_hex(line.get_color()) for line in curves}) == 5


def test_other_categories_do_not_fit_on_the_axes():
    """Unless the axes are cleared, and so are new."""
    display = FrequencyDisplay.from_estimate(ESTIMATE)
    other = FrequencyEstimate([[0.5, 0.5]], ["a", "z"])
    with pytest.raises(ValueError, match="the category 'b', which this estimate lacks"):
        FrequencyDisplay.from_estimate(other, ax=display.ax_)
    assert len(display.ax_.get_legend().get_texts()) == 1
    display.ax_.clear()
    FrequencyDisplay.from_estimate(other, ax=display.ax_)
    assert ticks(display) == ["a", "z"]


def test_against_ranks():
    display = FrequencyDisplay.from_estimate(ESTIMATE, k=None, truth=TRUTH, by="rank")
    x, y = drawn(display, "raw estimate")
    np.testing.assert_array_equal(x, [1, 2, 3, 4])
    np.testing.assert_array_equal(y, ESTIMATE.values[0])
    assert display.ax_.get_xlabel() == "rank"
    FrequencyDisplay.from_estimate(ESTIMATE, ax=display.ax_, name="again")
    np.testing.assert_array_equal(drawn(display, "again")[0], x)


# -- matplotlib -----------------------------------------------------------------------------------
def test_without_matplotlib_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    table = ContingencyDisplay(np.full((2, 2), 0.25), (["a", "b"], ["c", "d"]))
    search, bars = SearchDisplay(["a"], [1.0]), FrequencyDisplay(["a"], [1.0])
    for display in (ErrorCurveDisplay({}), search, bars, table):
        with pytest.raises(ImportError, match=r"sklearn_ldp\[plot\]"):
            display.plot()


# -- totals of groups -------------------------------------------------------------------------
LABELS = np.repeat(["north", "south", "west"], 30)
GROUPS = groups(LABELS)


def grouped():
    counts = np.repeat([3000, 100, 0], 30)
    estimate = OUE(1.0, categories=90, random_state=0).simulate(counts)
    return EmpiricalBayes(groups=LABELS).fit(estimate), estimate, counts / counts.sum()


def test_totals_of_groups_before_and_after():
    """The raw totals with intervals that hold at once, and both priors', beside the truth."""
    bayes, raw, truth = grouped()
    display = FrequencyDisplay.from_estimate(
        raw, queries=GROUPS, truth=truth, orientation="horizontal"
    )
    for name, post in (("sum 1", Norm()), ("one prior", EmpiricalBayes())):
        result = post.fit_transform(raw)
        FrequencyDisplay.from_estimate(result, queries=GROUPS, name=name, ax=display.ax_)
    FrequencyDisplay.from_estimator(bayes, queries=GROUPS, name="groups", ax=display.ax_)
    (learnt,) = bayes.group_totals_
    for name, values in (
        ("raw estimate", raw.answer(GROUPS)[0]),
        ("sum 1", learnt.raw[0]),
        ("one prior", learnt.common[0]),
        ("groups", learnt.totals[0]),
    ):
        np.testing.assert_allclose(drawn(display, name)[0], values, atol=1e-12)
    totals = truth.reshape(3, 30).sum(axis=1)
    np.testing.assert_allclose(drawn(display, "truth")[0], totals, atol=1e-12)
    assert display.categories.tolist() == ["north", "south", "west"]
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["north", "south", "west"]
    low, high = raw.confidence_interval(0.95, GROUPS, simultaneous=True)
    np.testing.assert_array_equal(display.interval, [low[0], high[0]])
    label = display.ax_.get_xlabel().replace("\n", " ")
    assert label == "frequency, with simultaneous 95 % intervals for all 3 groups"
    with pytest.raises(ValueError, match="the category 'north', which this estimate lacks"):
        FrequencyDisplay.from_estimate(raw, ax=display.ax_)


def test_the_largest_of_many_groups_are_drawn_and_said_to_be():
    bayes, *_ = grouped()
    display = FrequencyDisplay.from_estimator(bayes, queries=GROUPS, k=2, color="k")
    assert display.categories.tolist() == ["north", "south"]
    assert display.ax_.get_xlabel() == "2 of 3 groups, largest estimates first"
    assert (display.truth_, display.is_raw) == (None, False)
    label = display.ax_.get_ylabel().replace("\n", " ")
    assert "intervals of raw estimates for all 3 groups" in label
    assert display.errorbar_.lines[0].get_color() == "k"
    with pytest.raises(ValueError, match=r"truth must have shape \(90,\)"):
        FrequencyDisplay.from_estimator(bayes, queries=GROUPS, truth=[0.5, 0.5])
    with pytest.raises(ValueError, match="k must be an integer >= 1"):
        FrequencyDisplay.from_estimator(bayes, queries=GROUPS, k=0)


def test_queries_without_names_and_noise_without_covariances():
    """The intervals of sums need covariances, which p and q alone do not tell."""
    display = FrequencyDisplay.from_estimate(ESTIMATE, queries=ranges(2), truth=TRUTH)
    assert display.categories.tolist() == [0, 1]
    np.testing.assert_allclose(display.frequencies, [0.7, 0.3])
    np.testing.assert_allclose(display.truth, [0.7, 0.3])
    assert display.ax_.get_xlabel() == "all 2 queries, largest true frequencies first"
    with pytest.raises(ValueError, match="do not determine the covariance"):
        ESTIMATE.confidence_interval(0.95, ranges(2))
    assert display.interval is None


def test_a_difference_that_presumes_normal_noise_says_so_on_its_axis():
    one, other = (
        FrequencyEstimate.from_counts(counts, std=10.0, n_samples=1000)
        for counts in ([500, 300, 200], [400, 400, 200])
    )
    label = (one - other).plot().ax_.get_xlabel()
    assert label.endswith("simultaneous\n95 % intervals, if noise is normal")
    known = GRR(4.0, categories=3, random_state=0).fit_transform([0, 1, 2] * 300)
    difference = known - GRR(4.0, categories=3, random_state=1).fit_transform([0, 1, 1] * 300)
    assert difference.plot().ax_.get_xlabel().endswith("95 % intervals")  # negative control


# -- readability -------------------------------------------------------------------------------
def points_between(display, second):
    """Return the distance between the marks of two estimates of the first category, in points."""
    x = [part.errorbar_.lines[0].get_xdata(orig=True)[0] for part in (display, second)]
    left, right = display.ax_.transData.transform([(place, 0) for place in x])[:, 0]
    return (right - left) * 72 / display.figure_.dpi


@pytest.mark.parametrize(("d", "expected"), [(2, 6.4), (5, 6.4), (60, 2.4)])
def test_a_second_estimate_is_a_few_points_beside_the_first(d, expected):
    raw = FrequencyEstimate([np.full(d, 1 / d)], range(d))
    display = raw.plot(k=None)
    second = NormSub().fit_transform(raw).plot(ax=display.ax_)
    assert points_between(display, second) == pytest.approx(expected, rel=0.15)


def test_differences_are_sorted_unless_the_categories_have_an_order():
    counts = [[5000, 4000, 1000, 2000], [5000, 2000, 3000, 2000]]
    for categories, expected in ((list("abcd"), list("cadb")), (range(4), [0, 1, 2, 3])):
        oracle = GRR(6.0, categories=categories, random_state=0)
        before, after = (oracle.simulate(part) for part in counts)
        shown = (after - before).plot().categories.tolist()
        assert (shown[0], shown[-1]) == (expected[0], expected[-1])
    largest_first = (after - before).values[0].argsort()[::-1]
    assert shown != largest_first.tolist()  # negative control: the order of numbers is another


def test_axes_of_frequencies_show_percent():
    display = FrequencyEstimate([[0.6, 0.5, -0.1]], list("abc")).plot()
    display.figure_.canvas.draw()
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert "20 %" in labels
    assert "0.2" not in labels


def test_lines_have_no_markers_of_the_users_style():
    cycle = plt.rcParams["axes.prop_cycle"] + plt.cycler(marker=list("os^Dv*<>hd"))
    bins = RangeOracle(2.0, categories=Domain.bins(8, bounds=(0, 1)), random_state=0)
    estimate = bins.fit_transform(np.linspace(0, 0.99, 500))
    with plt.rc_context({"axes.prop_cycle": cycle}):
        display = DistributionDisplay.from_estimate(estimate, truth=np.full(8, 1 / 8))
        ranks = FrequencyDisplay.from_estimate(estimate, truth=np.full(8, 1 / 8), by="rank")
        control = plt.subplots()[1].plot([0, 1], [0, 1])
    markers = {line.get_marker() for line in [*display.lines_, ranks.truth_]}
    assert markers == {"none"}
    assert control[0].get_marker() == "o"


def test_long_names_of_candidates_have_two_lines():
    """A name of 52 letters would leave little room for the errors."""
    long = "EmpiricalBayes(queries=groups(26 of 676 categories))"
    display = SearchDisplay(["Base", long], [2e-6, 1e-6]).plot()
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert labels == ["EmpiricalBayes(queries=groups(26\nof 676 categories))", "Base"]
    display.figure_.canvas.draw()
    assert display.ax_.xaxis.get_offset_text().get_text() == ""  # the numbers are complete


def test_methods_that_are_compared_most_have_their_own_colors():
    names = ["Base", "BaseCut", "NormMul", "NormSub", "PowerNS"]
    assert len({color for color, _, _ in look_of(names).values()}) == len(names)
