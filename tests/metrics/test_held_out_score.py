"""Scores without the truth are unbiased over many collections, for every oracle and query set."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from estimators import ORACLES, slow_but
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklearn_ldp import (
    GRR,
    OUE,
    BasePos,
    ColumnOracle,
    FrequencyEstimate,
    HadamardResponse,
    NoiseModel,
    NormSub,
    PostPos,
)
from sklearn_ldp.metrics import (
    frequency_mse,
    held_out_score,
    make_frequency_scorer,
    make_held_out_scorer,
)
from sklearn_ldp.queries import groups, query_matrix, random_sets, top_k

COUNTS = np.array([80, 60, 30, 20, 10, 0, 0, 0])
TRUTH = COUNTS / COUNTS.sum()
GUESS = np.array([[0.3, 0.3, 0.1, 0.1, 0.1, 0.05, 0.05, 0.0]])
GROUPS = groups([0, 0, 0, 1, 1, 0, 2, 2])
QUERIES = [None, GROUPS, random_sets(3)]
N_RUNS = 200
Z = 6.0


def collections(oracle, n_runs, seed):
    """Return raw estimates of the same users from repeated collections."""
    rng = np.random.default_rng([seed, 6])
    oracle = clone(oracle).set_params(categories=8, random_state=rng)
    return oracle.simulate(COUNTS, n_runs)


def z_score(scores, expected):
    scores = np.asarray(scores)
    return (scores.mean() - expected) / (scores.std(ddof=1) / np.sqrt(len(scores)))


@pytest.mark.slow
@pytest.mark.parametrize("oracle", slow_but([GRR(), OUE(), HadamardResponse()], ORACLES), ids=repr)
def test_score_is_unbiased(oracle, seed):
    """The mean score over collections is minus the error: z tests, error rate below 1e-6 each.

    Negative control: a score without the variance, which the same test must reject.
    """
    held_out = collections(oracle, N_RUNS, seed)
    for queries in QUERIES:
        expected = -frequency_mse(TRUTH, GUESS, queries=queries)
        scores = [held_out_score(GUESS, row, queries=queries) for row in held_out]
        assert abs(z_score(scores, expected)) < Z
        biased = [-frequency_mse(GUESS[0], row, queries=queries) for row in held_out]
        assert abs(z_score(biased, expected)) > Z


@pytest.mark.parametrize("queries", [None, groups([0, 0, 1, 2]), random_sets(3)], ids=repr)
def test_score_of_clipped_answers_is_unbiased(queries, seed):
    """PostPos clips answers, so random sets are drawn; error rate below 1e-6."""
    clipped = PostPos().fit_transform(FrequencyEstimate([[0.5, -0.4, 0.3, 0.6]], range(4)))
    counts = np.array([100, 50, 50, 0])
    held_out = GRR(random_state=seed).simulate(counts, N_RUNS)
    scores = [held_out_score(clipped, row, queries=queries) for row in held_out]
    expected = -frequency_mse(counts / 200, clipped, queries=queries)
    assert abs(z_score(scores, expected)) < Z


def test_score_of_overlapping_reports_is_biased(seed):
    """Negative control: judged on the reports it was made from, the raw estimate looks perfect."""
    held_out, fitted = collections(OUE(), N_RUNS, seed), collections(OUE(), N_RUNS, seed + 1000)
    errors = [frequency_mse(TRUTH, row) for row in fitted]
    apart = [held_out_score(a, b) + e for a, b, e in zip(fitted, held_out, errors, strict=True)]
    assert abs(z_score(apart, 0)) < Z
    same = [held_out_score(row, row) + e for row, e in zip(fitted, errors, strict=True)]
    assert abs(z_score(same, 0)) > Z


def test_rows_are_averaged():
    held_out = OUE(random_state=0).simulate(COUNTS)
    rows = np.vstack([GUESS, GUESS[:, ::-1]])
    apart = [held_out_score(row, held_out, queries=GROUPS) for row in rows]
    assert held_out_score(rows, held_out, queries=GROUPS) == pytest.approx(np.mean(apart))
    assert type(held_out_score(GUESS[0], held_out)) is float


def test_held_out_score_refuses():
    raw = OUE(random_state=0).simulate(COUNTS, 2)
    for bad in (raw, raw.values, NormSub().fit_transform(raw[0])):
        with pytest.raises(ValueError, match="needs one raw estimate"):
            held_out_score(GUESS, bad)
    silent = FrequencyEstimate(raw.values[:1], raw.categories, oracle=raw.oracle)
    with pytest.raises(ValueError, match="with a noise model, from which"):
        held_out_score(GUESS, silent)
    # p, q and n are enough for single categories, but do not determine the variance of sums.
    plain = replace(silent, noise=NoiseModel(raw.noise.p, raw.noise.q, raw.noise.n_samples))
    assert held_out_score(GUESS, plain) == held_out_score(GUESS, raw[0])
    with pytest.raises(ValueError, match="do not determine the covariance"):
        held_out_score(GUESS, plain, queries=random_sets(3))
    with pytest.raises(ValueError, match="top_k.* depends on the truth"):
        held_out_score(GUESS, raw[0], queries=top_k(2))
    with pytest.raises(ValueError, match="shape"):
        held_out_score(GUESS[:, :3], raw[0])


# -- the scorer -------------------------------------------------------------------------------
CATEGORIES = list("abcdefgh")
VALUES = np.repeat(CATEGORIES, COUNTS)


def server(oracle):
    return clone(oracle).set_params(categories=CATEGORIES, input="reports", random_state=None)


def split_reports(oracle, seed):
    client = clone(oracle).set_params(categories=CATEGORIES, random_state=seed)
    order = np.random.default_rng(seed).permutation(len(VALUES))
    reports = client.privatize(VALUES[order])
    return VALUES[order][:50], reports[:50], reports[50:]


def scored(oracle):
    """A pipeline that has read the reports of some users, and those of others."""
    _, test, train = split_reports(oracle, 0)
    return make_pipeline(server(oracle), NormSub()).fit(train), test


@pytest.mark.parametrize("oracle", [GRR(), HadamardResponse(2.0, n_blocks=2)], ids=repr)
def test_scorer_by_hand(oracle):
    """It leaves the estimate as it is, and gives no PrivacyWarning, which would be an error."""
    pipe, test = scored(oracle)
    before = pipe[-1].frequencies_.copy()
    held_out = server(oracle).fit(test).estimate_
    largest = np.argsort(-pipe[0].frequencies_, kind="stable")[:2]
    for queries, meant in (
        *((queries, queries) for queries in QUERIES),
        (top_k(2), query_matrix(np.eye(8)[largest])),
    ):
        scorer = make_held_out_scorer(queries=queries)
        score = scorer(pipe, test)
        assert type(score) is float
        assert score == held_out_score(pipe[-1].estimate_, held_out, queries=meant)
        assert score == scorer(pipe, test, None) == scorer(pipe, test, y=[1])
        twin = pickle.loads(pickle.dumps(scorer))
        assert repr(twin) == repr(scorer) == repr(clone(scorer, safe=False))
        assert "make_held_out_scorer(queries=" in repr(scorer)
        assert twin(pipe, test) == score
    assert pipe[0].n_samples_seen_ == len(VALUES) - 50
    np.testing.assert_array_equal(pipe[-1].frequencies_, before)


def test_scorer_says_what_the_raw_values_would(seed):
    """In expectation it is the score of make_frequency_scorer: a z test, error rate below 1e-6.

    Negative control: the users of another part, whose frequencies differ.
    """
    values, _, train = split_reports(OUE(), 0)
    pipe = make_pipeline(server(OUE()), BasePos()).fit(train)
    # The same pipeline, reading raw values, tells what the score should be.
    raw_values = make_pipeline(OUE(categories=CATEGORIES), BasePos())
    raw_values.steps[0] = (raw_values.steps[0][0], clone(pipe[0]).fit(train))
    raw_values[0].set_params(input="values", random_state=0)
    raw_values[-1].fit(pipe[0].estimate_)
    scorer = make_held_out_scorer(queries=GROUPS)
    client = OUE(categories=CATEGORIES, random_state=np.random.default_rng(seed))
    scores = [scorer(pipe, client.privatize(values)) for _ in range(100)]
    truth = make_frequency_scorer(queries=GROUPS)
    assert abs(z_score(scores, truth(raw_values, values))) < Z
    assert abs(z_score(scores, truth(raw_values, ["h"] * 50))) > Z


@pytest.mark.filterwarnings("ignore:.*draws predictable reports")
def test_parts_without_users_have_no_score():
    survey = ColumnOracle(2.0, domains={"a": 2, "b": 3}, random_state=0)
    reports = survey.privatize(np.array([[0, 1], [1, 2]] * 30))
    server = survey.set_params(input="reports").fit(reports[reports[:, 0] == 0])
    assert [len(part) for part in server.estimate_.values()] == [1, 0]
    held_out = clone(survey).fit(reports).estimate_["a"]
    expected = held_out_score(server.estimate_["a"], held_out)
    assert make_held_out_scorer()(server, reports) == pytest.approx(float(np.ravel(expected)[0]))


def test_scorer_refuses():
    pipe = make_pipeline(OUE(categories=CATEGORIES, random_state=0), NormSub()).fit(VALUES)
    with pytest.raises(ValueError, match="reads raw values.*make_frequency_scorer"):
        make_held_out_scorer()(pipe, VALUES)
    with pytest.raises(TypeError, match="needs an oracle"):
        make_held_out_scorer()(NormSub(), VALUES)
    with pytest.raises(TypeError, match=r"sklearn_ldp\.queries"):
        make_held_out_scorer(queries=5)
    reading, test = scored(GRR())
    with pytest.raises(ValueError, match="make_held_out_scorer"):
        make_frequency_scorer()(reading, test)
    with pytest.raises(ValueError, match="cannot have made these reports"):
        make_held_out_scorer()(reading, [99])


@pytest.mark.parametrize("oracle", [GRR(), OUE()], ids=repr)
def test_weights_are_numbers_of_reports(oracle):
    pipe, test = scored(oracle)
    weights = np.arange(len(test)) % 3
    scorer = make_held_out_scorer(queries=GROUPS)
    score = scorer(pipe, test, sample_weight=weights)
    assert score == scorer(pipe, np.repeat(test, weights, axis=0))
    assert score != scorer(pipe, test)
    with pytest.raises(ValueError, match="one sample_weight for each of the"):
        scorer(pipe, test, sample_weight=weights[1:])
    ones = np.ones(len(test), dtype=int)
    with pytest.warns(UserWarning, match="was fitted with sample_weight"):
        scorer(server(oracle).fit(test, sample_weight=ones), test)
