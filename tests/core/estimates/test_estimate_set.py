"""Sets of estimates: a mapping that shows what it holds, also a part that nobody answered for."""

import pickle

import numpy as np
import pytest

from sklearn_ldp import ColumnOracle, EstimateSet, FrequencyEstimate, NoiseModel

SEX = FrequencyEstimate([[0.6, 0.4]], ["F", "M"], NoiseModel(0.75, 0.25, 400))
AGE = FrequencyEstimate([[0.1, 0.2, 0.3, 0.4]], [0, 1, 2, 3], NoiseModel(0.5, 0.25, 600))
NOBODY = FrequencyEstimate(np.empty((0, 2)), ["no", "yes"])


@pytest.fixture
def estimates():
    return EstimateSet({"sex": SEX, "age": AGE, "smokes": NOBODY})


def test_it_is_a_mapping_in_order(estimates):
    assert estimates.names == list(estimates) == list(estimates.keys()) == ["sex", "age", "smokes"]
    assert len(estimates) == 3
    assert estimates["age"] is AGE
    assert [part for _, part in estimates.items()] == list(estimates.values())
    assert "age" in estimates
    assert "wage" not in estimates
    with pytest.raises(KeyError, match="no part 'wage'. Choose one of 'sex', 'age', 'smokes'"):
        estimates["wage"]


def test_it_cannot_be_changed(estimates):
    with pytest.raises(TypeError):
        estimates["sex"] = AGE
    parts = {"sex": SEX}
    held = EstimateSet(parts)
    parts["age"] = AGE
    assert held.names == ["sex"]
    again = pickle.loads(pickle.dumps(estimates))
    assert again.names == estimates.names
    np.testing.assert_array_equal(again["age"].values, AGE.values)
    assert again["age"].noise == AGE.noise
    assert not again["age"].values.flags.writeable


def test_map_leaves_out_parts_without_users(estimates):
    doubled = estimates.map(lambda part: part.with_values(2 * part.values, by="Double"))
    np.testing.assert_array_equal(doubled["sex"].values, [[1.2, 0.8]])
    assert doubled["smokes"] is NOBODY


def test_a_frame_has_the_frames_of_its_parts(estimates):
    frame = estimates.to_frame()
    assert frame.columns.names == ["part", "category"]
    assert frame["age"].to_numpy().tolist() == AGE.to_frame().to_numpy().tolist()
    assert frame["age"].columns.tolist() == [0, 1, 2, 3]
    assert frame["smokes"].isna().to_numpy().all()
    table = FrequencyEstimate([[0.1, 0.2, 0.3, 0.4]], [("F", 0), ("F", 1), ("M", 0), ("M", 1)])
    both = EstimateSet({("sex", "age"): table, "sex": SEX})  # a name of several columns
    assert both["sex", "age"] is table
    assert both.to_frame().shape == (1, 6)
    several = EstimateSet({"sex": SEX, "age": FrequencyEstimate(np.full((2, 2), 0.5), [0, 1])})
    with pytest.raises(ValueError, match="parts with equal numbers of rows, got 1 in 'sex' and 2"):
        several.to_frame()


def test_it_shows_itself(estimates):
    assert repr(estimates).splitlines() == [
        "EstimateSet of 3 parts",
        "  sex     F 0.6, M 0.4",
        "  age     3 0.4, 2 0.3, 1 0.2, ...",
        "  smokes  no users",
    ]
    html = EstimateSet({"<b>": SEX})._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "1 part<" in html


def test_numbers_are_rounded_once():
    """To four digits and then to three, .33447 would be .335."""
    values = [[0.33447, 0.66553]], [[0.18747, 0.81253]]
    parts = {name: FrequencyEstimate(x, ["F", "M"]) for name, x in zip("ab", values, strict=True)}
    lines = ["  a  M 0.666, F 0.334", "  b  M 0.813, F 0.187"]
    assert repr(EstimateSet(parts)).splitlines()[1:] == lines


def test_each_part_has_axes_of_its_own(estimates):
    displays = estimates.plot()
    assert list(displays) == ["sex", "age"]
    assert displays["sex"].figure_ is displays["age"].figure_
    assert displays["sex"].ax_ is not displays["age"].ax_
    assert displays["age"].ax_.get_title() == "age"
    with pytest.raises(ValueError, match="a part with users, got none"):
        EstimateSet({"smokes": NOBODY}).plot()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda part: part.top(), "no user was asked about the categories 'no', 'yes'"),
        (lambda part: part.to_series(), "no user was asked"),
        (
            lambda part: part.confidence_interval(),
            "No confidence interval is available without users",
        ),
        (lambda part: part.detected(), "No detection is available without users"),
    ],
)
def test_a_part_without_users_says_so(estimates, ask, message):
    assert repr(estimates["smokes"]) == "FrequencyEstimate of 2 categories (0 estimates), no users"
    with pytest.raises(ValueError, match=message):
        ask(estimates["smokes"])


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        ({}, ValueError, "at least one entry"),
        ([SEX], ValueError, "needs a mapping"),
        ({"sex": [0.5, 0.5]}, TypeError, "got list for the name 'sex'"),
    ],
)
def test_anything_else_is_refused(parts, error, message):
    with pytest.raises(error, match=message):
        EstimateSet(parts)


@pytest.mark.slow
def test_intervals_of_a_table_are_simultaneous_over_all_columns(seed):
    """Twelve columns: 100 tables of 95 %; fewer than 85 right ones have less than 1e-4.

    Negative control: intervals that are simultaneous within each column.
    """
    domains = {f"c{i}": 2 + i % 4 for i in range(12)}
    values = np.column_stack([np.arange(1200) % d for d in domains.values()])
    truth = np.concatenate([np.full(d, 1 / d) for d in domains.values()])
    whole, within = [], []
    for i in range(100):
        survey = ColumnOracle(2.0, domains=domains, random_state=1000 * seed + i)
        estimates = survey.fit_transform(values)
        frame = estimates.to_frame(interval=0.95)
        whole.append(np.all((frame.low <= truth + 1e-9) & (truth - 1e-9 <= frame.high)))
        ends = [one.confidence_interval(0.95, simultaneous=True) for one in estimates.values()]
        low, high = (np.hstack([getattr(one, end)[0] for one in ends]) for end in ("low", "high"))
        within.append(np.all((low <= truth + 1e-9) & (truth - 1e-9 <= high)))
    assert np.mean(whole) >= 0.85
    assert np.mean(within) < 0.8
    assert set(frame["interval"]) == {"95 % simultaneous"}


def test_reports_and_pictures_of_a_set_have_the_intervals_of_its_table():
    survey = ColumnOracle(2.0, domains={"a": 3, "b": 2}, random_state=0)
    estimates = survey.fit_transform(np.array([[0, 0], [1, 1], [2, 0]] * 100))
    frame = estimates.to_frame(interval=0.9)
    rows = [row for part in estimates.describe(0.9)["parts"] for row in part["rows"]]
    np.testing.assert_array_equal(frame[["low", "high"]], [[r["low"], r["high"]] for r in rows])
    ends = [one.confidence_interval(0.9**0.5, simultaneous=True) for one in estimates.values()]
    np.testing.assert_array_equal(frame["low"], np.concatenate([one.low[0] for one in ends]))
    displays = estimates.plot(level=0.9)
    low = np.concatenate([display.interval[0] for display in displays.values()])
    np.testing.assert_array_equal(frame["low"], low)
    assert "90 %" in displays["a"].figure_.get_suptitle()
