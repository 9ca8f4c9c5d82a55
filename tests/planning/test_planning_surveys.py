"""Planning of surveys: the error of each column, with that of drawing whom to ask."""

import numpy as np
import pytest

from sklearn_ldp import GRR, OUE, ColumnOracle
from sklearn_ldp.metrics import query_errors
from sklearn_ldp.planning import Plan
from sklearn_ldp.queries import groups

DOMAINS = {"sex": ["F", "M"], "age": 5, "state": 20}
PRESUMED = {
    "sex": np.array([0.3, 0.7]),
    "age": np.array([0.1, 0.2, 0.4, 0.2, 0.1]),
    "state": np.arange(20, 0, -1) / 210,
}


def survey(epsilon=3.0, **parameters):
    return ColumnOracle(epsilon, domains=DOMAINS, random_state=0, **parameters)


def by_hand(one, *, with_sampling=True):
    """The formula: n Var = V / pi + f (1 - f) (1 / pi - 1)."""
    split = one.protocol().mechanism
    errors = {}
    for name, part, pi in zip(DOMAINS, split.mechanisms, split.probabilities, strict=True):
        f = PRESUMED[name]
        of_reports = part.noise(1).variance(f) / pi
        errors[name] = np.mean(of_reports + with_sampling * f * (1 - f) * (1 / pi - 1))
    return errors


@pytest.mark.parametrize("oracle", ["best", OUE(), {"sex": GRR(), "age": OUE()}], ids=repr)
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_errors_are_those_of_the_formula(epsilon, oracle):
    one = survey(epsilon, oracle=oracle)
    rmse = Plan(one, frequencies=PRESUMED).rmse(1000)
    assert {k: e**2 for k, e in rmse.items()} == pytest.approx(
        {k: e / 1000 for k, e in by_hand(one).items()}
    )


def test_simulated_errors_are_the_expected_ones():
    """The mean of 3,000 squared errors is within 5 standard errors: one run in 10**6 fails.

    The negative control leaves out the drawing of whom to ask.
    """
    one, n = survey(), 5000
    counts = {name: np.floor(f * n).astype(int) for name, f in PRESUMED.items()}
    for of_column in counts.values():
        of_column[0] += n - of_column.sum()
    truth = {name: c / n for name, c in counts.items()}
    drawn = query_errors(truth, one.simulate(counts, 3000))
    rmse = Plan(one, frequencies=truth).rmse(n)
    without = by_hand(one, with_sampling=False)
    for name, squares in drawn.items():
        spread = squares.std() / np.sqrt(len(squares))
        assert abs(squares.mean() - rmse[name] ** 2) < 5 * spread
        assert abs(squares.mean() - without[name] / n) > 5 * spread


@pytest.mark.parametrize("error", ["rmse", "mae", "half_width", "overall_rmse"])
def test_the_number_of_users_is_the_inverse(error):
    plan, goal = Plan(survey(weights={"age": 3}), frequencies=PRESUMED), 0.002
    needed, error_of = plan.users_for(**{error: goal}), getattr(plan, error)
    for name, n in needed.items() if error != "overall_rmse" else [(None, needed)]:
        enough, fewer = (error_of(m) if name is None else error_of(m)[name] for m in (n, n - 1))
        assert isinstance(n, int)
        assert enough <= goal * (1 + 1e-9)
        assert fewer > goal


@pytest.mark.parametrize("difference", ["change", "order", "detection"])
def test_users_for_a_difference_are_the_inverse_of_power(difference):
    plan, gap = Plan(survey()), {difference: 0.02}
    for name, n in plan.users_for(**gap, power=0.7).items():
        assert isinstance(n, int)
        assert plan.power(n, **gap)[name] >= 0.7
        assert plan.power(n - 1, **gap)[name] < 0.7
    powers = plan.power([1000, 10_000], **gap)
    assert list(powers) == list(DOMAINS)
    assert all(power.shape == (2,) for power in powers.values())


@pytest.mark.slow
def test_a_change_is_told_with_the_noise_of_drawing_whom_to_ask():
    """The planned power is that of collections; 400 of them, four standard errors."""
    one, n, frequency = survey(2.0), 3000, 0.2
    counts = {name: np.full(d, n // d) for name, d in (("sex", 2), ("age", 5), ("state", 20))}
    after = {**counts, "age": np.array([900, 525, 525, 525, 525])}
    planned = Plan(one).power(n, change=0.1, frequency=frequency, of="users")["age"]
    earlier, later = one.simulate(counts, 400)["age"], one.simulate(after, 400)["age"]
    told = [
        (later[[i]] - earlier[[i]]).confidence_interval(0.95, np.eye(5)[[0]], of="users")[0][0, 0]
        for i in range(400)
    ]
    assert 0.3 < planned < 0.9
    assert abs(np.mean(np.array(told) > 0) - planned) < 4 * np.sqrt(planned * (1 - planned) / 400)


def test_the_overall_error_is_weighted_by_the_weights_of_the_survey():
    plan = Plan(survey(weights={"age": 3}))
    squares = {name: rmse**2 for name, rmse in plan.rmse(100).items()}
    mean = (squares["sex"] + 3 * squares["age"] + squares["state"]) / 5
    assert plan.overall_rmse(100) ** 2 == pytest.approx(mean)
    assert plan.overall_rmse([100, 400])[1] == pytest.approx(plan.overall_rmse(100) / 2)


def test_queries_of_columns():
    halves = {"state": groups([0] * 10 + [1] * 10)}
    one = survey()
    plain, asked = Plan(one).rmse(100), Plan(one, queries=halves).rmse(100)
    assert asked["sex"] == plain["sex"]
    assert asked["state"] > plain["state"]
    pi = one.protocol().mechanism.probabilities[2]
    matrix = halves["state"].matrix(20)
    part = one.protocol().mechanism.mechanisms[2].noise(1)
    of_reports = part.answer_variance(matrix, np.full(20, 1 / 20)) / pi
    assert asked["state"] ** 2 == pytest.approx((of_reports[0] + 0.25 * (1 / pi - 1)) / 100)


def test_detection_thresholds_are_those_of_the_users_who_are_asked():
    one = survey()
    plan, split = Plan(one), one.protocol().mechanism
    assert plan.n_categories == {"sex": 2, "age": 5, "state": 20}
    assert list(plan.oracle) == list(DOMAINS)
    thresholds = plan.detection_threshold(10_000)
    for name, part, pi in zip(DOMAINS, split.mechanisms, split.probabilities, strict=True):
        alone = Plan(type(plan.oracle[name])(3.0), part.n_categories)
        assert thresholds[name] == pytest.approx(alone.detection_threshold(10_000 * pi))


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("Leave out n_categories", {"n_categories": 5}),
        (
            "'height', which is not the name of a column. Use one of the names 'sex', 'age'",
            {"frequencies": {"height": [1.0]}},
        ),
        (
            "frequencies as a mapping from names of columns, got list. Pass a mapping",
            {"frequencies": [0.5, 0.5]},
        ),
        ("queries as a mapping from names of columns", {"queries": groups([0, 1])}),
        ("must have shape", {"frequencies": {"age": [1]}}),
        ("Declare the categories", {"oracle": ColumnOracle()}),
    ],
)
def test_what_is_refused(message, arguments):
    with pytest.raises(ValueError, match=message):
        Plan(**{"oracle": survey(), **arguments})
    with pytest.raises(ValueError, match="cannot plan a change"):
        Plan(survey(), queries={"age": groups([0, 0, 1, 1, 1])}).users_for(change=0.1)
