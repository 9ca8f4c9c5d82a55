"""Planning of surveys: the error of each column, with that of drawing whom to ask."""

import numpy as np
import pytest

from sklearn_ldp import GRR, OUE, ColumnOracle
from sklearn_ldp.metrics import (
    detection_threshold,
    expected_error,
    expected_power,
    query_errors,
    required_n_samples,
)
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
    errors = expected_error(one, 1000, frequencies=PRESUMED)
    assert errors == pytest.approx({k: e / 1000 for k, e in by_hand(one).items()})
    assert expected_error(survey(9.0, oracle=oracle), 1000, epsilon=epsilon) == expected_error(
        one, 1000
    )


def test_simulated_errors_are_the_expected_ones():
    """The mean of 3,000 squared errors is within 5 standard errors: one run in 10**6 fails. The
    negative control leaves out the drawing of whom to ask.
    """
    one, n = survey(), 5000
    counts = {name: np.floor(f * n).astype(int) for name, f in PRESUMED.items()}
    for of_column in counts.values():
        of_column[0] += n - of_column.sum()
    truth = {name: c / n for name, c in counts.items()}
    drawn = query_errors(truth, one.simulate(counts, 3000))
    errors = expected_error(one, n, frequencies=truth)
    without = by_hand(one, with_sampling=False)
    for name, squares in drawn.items():
        spread = squares.std() / np.sqrt(len(squares))
        assert abs(squares.mean() - errors[name]) < 5 * spread
        assert abs(squares.mean() - without[name] / n) > 5 * spread


@pytest.mark.parametrize("metric", ["mse", "mae", "half_width"])
@pytest.mark.parametrize("average", [None, "weighted"])
def test_the_number_of_users_is_the_inverse(metric, average):
    one, goal = survey(weights={"age": 3}), 0.002
    options = {"frequencies": PRESUMED, "metric": metric, "average": average}
    needed = required_n_samples(one, goal, **options)
    for name, n in needed.items() if average is None else [(None, needed)]:
        enough, fewer = (expected_error(one, m, **options) for m in (n, n - 1))
        assert isinstance(n, int)
        assert (enough if name is None else enough[name]) <= goal * (1 + 1e-9)
        assert (fewer if name is None else fewer[name]) > goal


def test_the_mean_is_weighted_by_the_weights_of_the_survey():
    one = survey(weights={"age": 3})
    errors = expected_error(one, 100)
    mean = expected_error(one, 100, average="weighted")
    assert mean == pytest.approx((errors["sex"] + 3 * errors["age"] + errors["state"]) / 5)
    both = expected_error([one, survey()], 100, average="weighted")
    assert both.shape == (2,)
    assert both[0] == mean


def test_queries_of_columns():
    halves = {"state": groups([0] * 10 + [1] * 10)}
    one = survey()
    plain, asked = expected_error(one, 100), expected_error(one, 100, queries=halves)
    assert asked["sex"] == plain["sex"]
    assert asked["state"] > plain["state"]
    pi = one.protocol().mechanism.probabilities[2]
    matrix = halves["state"].matrix(20)
    part = one.protocol().mechanism.mechanisms[2].noise(1)
    of_reports = part.answer_variance(matrix, np.full(20, 1 / 20)) / pi
    assert asked["state"] == pytest.approx((of_reports[0] + 0.25 * (1 / pi - 1)) / 100)


def test_detection_thresholds_are_those_of_the_users_who_are_asked():
    one = survey()
    thresholds = detection_threshold(one, 10_000)
    split = one.protocol().mechanism
    for name, part, pi in zip(DOMAINS, split.mechanisms, split.probabilities, strict=True):
        oracle = type(one._planned()[name].oracle)(3.0)
        alone = detection_threshold(oracle, 10_000 * pi, part.n_categories)
        assert thresholds[name] == pytest.approx(alone)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "leave out n_categories", lambda s: expected_error(s, 10, 5)),
        (
            ValueError,
            "'height', which is not one of its columns: 'sex', 'age', 'state'",
            lambda s: expected_error(s, 10, frequencies={"height": [1.0]}),
        ),
        (ValueError, "pass a mapping", lambda s: expected_error(s, 10, frequencies=[0.5, 0.5])),
        (
            ValueError,
            "queries of each column, by name",
            lambda s: required_n_samples(s, 0.1, queries=groups([0, 1])),
        ),
        (ValueError, "must have shape", lambda s: expected_error(s, 9, frequencies={"age": [1]})),
        (ValueError, "average must be one of", lambda s: expected_error(s, 10, average="max")),
        (ValueError, "is for surveys", lambda s: expected_error(OUE(), 10, 5, average="weighted")),
        (TypeError, "the oracle of one column", lambda s: expected_power(s, 0.1, 10)),
        (
            TypeError,
            "the oracle of one column",
            lambda s: required_n_samples(s, 0.1, to="change"),
        ),
        (ValueError, "declare the categories", lambda s: expected_error(ColumnOracle(), 10)),
    ],
)
def test_what_is_refused(error, message, call):
    with pytest.raises(error, match=message):
        call(survey())
