"""The least epsilon with a good error: the rule on tables made by hand, and in searches."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, ShuffleSplit
from sklearn.pipeline import Pipeline

from sklearn_ldp import GRR, Base, NormSub
from sklearn_ldp.datasets import make_zipf
from sklearn_ldp.metrics import make_frequency_scorer
from sklearn_ldp.model_selection import least_epsilon

VALUES = make_zipf(n_samples=4000, n_categories=16, random_state=0)
CV = ShuffleSplit(4, test_size=0.5, random_state=0)


def table(epsilons, errors, *, name="epsilon", metric="score"):
    """Return results as a search has them, from the errors of each candidate in each fold."""
    scores = -np.asarray(errors, dtype=float).reshape(len(epsilons), -1)
    columns = {f"split{i}_test_{metric}": column for i, column in enumerate(scores.T)}
    columns[f"mean_test_{metric}"] = scores.mean(axis=1)
    return {"params": [{name: epsilon} for epsilon in epsilons], **columns}


RESULTS = table([4.0, 0.5, 2.0, 1.0], [1.0, 8.0, 1.2, 3.0])


WITHOUT = table([1, 2, 4], [np.nan, 3, 2])
NEGATIVE = table([1, 2], [-0.4, -1.0])


@pytest.mark.parametrize(
    ("limit", "results", "index"),
    [
        ({"max_error": 0.9 + 0.1}, RESULTS, 0),
        ({"max_error": 1.2}, RESULTS, 2),
        ({"max_error": 2.99}, RESULTS, 2),
        ({"max_error": 3.0}, RESULTS, 3),
        ({"max_error": 100}, RESULTS, 1),
        ({"tolerance": 0}, RESULTS, 0),
        ({"tolerance": 0.19}, RESULTS, 0),
        ({"tolerance": 0.21}, RESULTS, 2),
        ({"tolerance": 2}, RESULTS, 3),
        ({"tolerance": 7}, RESULTS, 1),
        # Ties go to the better score.
        ({"max_error": 5}, table([2, 1, 1, 1], [0.1, 4, 2, 3]), 2),
        # Candidates without a score do not count.
        ({"max_error": 5}, WITHOUT, 1),
        ({"tolerance": 10}, WITHOUT, 1),
        # Held-out scores may be above 0; the best candidate is within its own tolerance.
        ({"tolerance": 0.5}, NEGATIVE, 1),
        ({"tolerance": 0.7}, NEGATIVE, 0),
    ],
)
def test_the_least_epsilon_within_the_limit(limit, results, index):
    found = least_epsilon(**limit)(results)
    assert found == index
    assert type(found) is int


@pytest.mark.parametrize(("n", "index"), [(0, 0), (0.99, 0), (1.01, 1), (None, 1), (3, 2)])
def test_standard_errors_of_the_best(n, index):
    """Those of the best candidate (here 1, from the folds 1 and 3) count, not those of others."""
    results = table([4, 2, 1], [[1.0, 3.0], [3.0, 3.0], [-45.0, 55.0]])
    rule = least_epsilon() if n is None else least_epsilon(standard_errors=n)
    assert rule(results) == index


PAIRS = [{"a__epsilon": 1, "b__epsilon": 2}] * 4
MIXED = [{"epsilon": 1}, {"alpha": 2}, {"epsilon": 1}, {}]
ONE_OF = "epsilon= must be one of "
LEAST = "no candidate with a finite error of at most 0.5: the smallest error is 1, at epsilon=4."


@pytest.mark.parametrize(
    ("arguments", "changes", "message"),
    [
        ({"max_error": 0.5}, {}, LEAST),
        ({}, {"params": [{"post": 1}] * 4}, rf"{ONE_OF}\['post'\], got None"),
        ({}, {"params": PAIRS}, rf"{ONE_OF}\['a__epsilon', 'b__epsilon'\], got None"),
        (
            {},
            {"params": MIXED},
            r"number as 'epsilon' for each candidate, got \[1, None, 1, None\]",
        ),
        ({"epsilon": "oracle__epsilon"}, {}, r"one of \['epsilon'\], got 'oracle__epsilon'"),
        ({}, {}, "needs at least 2 folds .* got 1"),
        ({}, table([1, 2], [np.nan, np.nan]), 'error_score="raise"'),
        ({"score": "error"}, {}, r"one of \['score'\], got 'error'"),
        ({}, {"mean_test_epsilon": np.ones(4)}, r"one of \['epsilon', 'score'\], got None"),
    ],
)
def test_what_the_results_do_not_tell(arguments, changes, message):
    with pytest.raises(ValueError, match=message):
        least_epsilon(**arguments)({**RESULTS, **changes})


def test_several_parameters_and_scorers_can_be_named():
    params = [{"a__epsilon": 1, "b__epsilon": 2}, {"a__epsilon": 2, "b__epsilon": 1}]
    results = {**table([0, 0], [1, 1], metric="mse"), "params": params}
    results["mean_test_my_mse"] = np.array([-1.0, -9.0])
    results["split0_test_my_mse"] = np.array([-1.0, -9.0])
    for name, index in (("a__epsilon", 0), ("b__epsilon", 1)):
        assert least_epsilon(max_error=2, epsilon=name, score="mse")(results) == index
    assert least_epsilon(max_error=2, epsilon="b__epsilon", score="my_mse")(results) == 0
    with pytest.raises(ValueError, match="got 1 fold"):  # the folds of my_mse are no folds of mse
        least_epsilon(epsilon="a__epsilon", score="mse")(results)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_error": 1, "tolerance": 1}, "accepts at most one of .* got .*max_error.*tolerance"),
        ({"max_error": -1}, "max_error, .*, as a finite number that is at least 0, got .*-1"),
        ({"tolerance": np.nan}, "a finite number that is at least 0, got .*nan"),
        ({"standard_errors": "1"}, "a finite number that is at least 0, got .*'1'"),
    ],
)
def test_limits_are_checked_at_once(arguments, message):
    with pytest.raises(ValueError, match=message):
        least_epsilon(**arguments)


def test_the_rule_can_be_pickled_and_says_what_it_is():
    rule = least_epsilon(max_error=1e-4, epsilon="oracle__epsilon", score="error")
    assert pickle.loads(pickle.dumps(rule)) == rule != least_epsilon()
    assert "max_error=0.0001" in repr(rule)


# -- in searches ------------------------------------------------------------------------------
def search_with(refit, scoring=None, **grid):
    oracle = GRR(categories=16, random_state=0)
    return GridSearchCV(
        Pipeline([("oracle", oracle), ("post", NormSub())]),
        {"oracle__epsilon": [0.5, 1.0, 2.0, 4.0], **grid},
        scoring=make_frequency_scorer() if scoring is None else scoring,
        cv=CV,
        refit=refit,
    )


def test_the_error_alone_chooses_the_largest_epsilon():
    """What the rule is for: the search takes 4, the rule less, and it keeps its word."""
    alone = search_with(True).fit(VALUES)
    assert alone.best_params_ == {"oracle__epsilon": 4.0}
    errors = -alone.cv_results_["mean_test_score"]
    target = float(errors[1] * 1.001)
    search = search_with(least_epsilon(max_error=target)).fit(VALUES)
    assert search.best_params_ == {"oracle__epsilon": 1.0}
    assert search.best_estimator_[0].epsilon == 1.0
    assert search.best_estimator_[0].n_samples_seen_ == 4000
    assert -search.cv_results_["mean_test_score"][search.best_index_] <= target < errors[0]


def test_of_equal_epsilons_the_best_post_processor():
    search = search_with(least_epsilon(max_error=1), post=[Base(), NormSub()]).fit(VALUES)
    assert search.best_params_["oracle__epsilon"] == 0.5
    assert isinstance(search.best_params_["post"], NormSub)
    assert search.best_index_ == 1  # the first candidate, Base, has the same epsilon


def test_one_of_several_scorers_is_named():
    """By a search that can be cloned and pickled."""
    scoring = {"mse": make_frequency_scorer(), "mae": make_frequency_scorer("mae")}
    search = search_with(least_epsilon(tolerance=5, score="mae"), scoring).fit(VALUES)
    errors = -search.cv_results_["mean_test_mae"]
    by_hand = int(np.flatnonzero(errors <= 6 * errors.min())[0])
    assert 0 < by_hand < 3
    assert search.best_index_ == by_hand
    assert clone(search).fit(VALUES).best_index_ == by_hand
    assert pickle.loads(pickle.dumps(search)).best_index_ == by_hand


def test_a_halving_search_is_asked_afterwards():
    """It ignores a callable refit; candidates of other iterations have seen fewer users."""
    search = HalvingGridSearchCV(
        GRR(categories=16, random_state=0),
        {"epsilon": [0.5, 1.0, 2.0, 4.0]},
        scoring=make_frequency_scorer(),
        cv=CV,
        min_resources=1000,
        factor=2,
        random_state=0,
    ).fit(VALUES)
    results = search.cv_results_
    last = np.flatnonzero(results["iter"] == results["iter"].max())
    chosen = least_epsilon(max_error=1)(results)
    assert chosen in last
    epsilons = [one["epsilon"] for one in results["params"]]
    assert epsilons[chosen] == min(epsilons[i] for i in last) > 0.5
