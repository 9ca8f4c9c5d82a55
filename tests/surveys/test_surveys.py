"""Surveys in the rest of the package: groups of users, searches on files, labels by column."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from people import domains_of, people, survey
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_ldp import (
    GRR,
    OUE,
    Base,
    ColumnOracle,
    EmpiricalBayes,
    EstimateSet,
    HeldOutSearch,
    MarginalOracle,
    NormSub,
    SyntheticSearch,
)
from sklearn_ldp.collection import Aggregator, aggregate, read_reports, write_reports
from sklearn_ldp.inference import independence, ranks
from sklearn_ldp.inspection import FrequencyDisplay, SearchDisplay, TrendDisplay
from sklearn_ldp.metrics import (
    bias_variance,
    heavy_hitter_scores,
    held_out_score,
    make_frequency_scorer,
    make_held_out_scorer,
    query_errors,
)
from sklearn_ldp.model_selection import simulate_errors
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.queries import groups, top_k
from sklearn_ldp.surveys import BaseColumnSurvey, SampledQuestions

DOMAINS = domains_of(12)
STATES = DOMAINS["state"]
people = partial(people, n_states=12)
TABLE = people()
WEEKS = np.resize(["first", "second", "second", "third"], len(TABLE))
survey = partial(survey, domains=DOMAINS)


# -- groups of users --------------------------------------------------------------------------
def test_groups_are_estimated_as_if_each_was_a_collection():
    reports = survey().privatize(TABLE)
    estimates = estimate_by_group(survey(input="reports"), reports, WEEKS)
    assert estimates.names == list(DOMAINS)
    for i, week in enumerate(["first", "second", "third"]):
        alone = survey(n_shards=1).aggregate(reports[week == WEEKS]).estimate_
        for name, part in estimates.items():
            assert part.row_names.tolist() == ["first", "second", "third"]
            np.testing.assert_allclose(part.values[i], alone[name].values[0], atol=1e-12)
            assert part[i].noise.n_samples == alone[name].noise.n_samples
            assert part[i].noise.n_users == np.sum(week == WEEKS)
            np.testing.assert_allclose(
                part[i].confidence_interval(0.9).low, alone[name].confidence_interval(0.9).low
            )


def test_groups_of_values_and_of_weights():
    estimates = estimate_by_group(survey(), TABLE, WEEKS)
    asked = sum(part.noise.n_samples for part in estimates.values())
    np.testing.assert_array_equal(asked, [750, 1500, 750])
    frame = NormSub().fit_transform(estimates).to_frame()
    assert frame.index.tolist() == ["first", "second", "third"]
    np.testing.assert_allclose(frame["state"].sum(axis=1), 1)
    some = TABLE[:3]
    weighted = estimate_by_group(survey(), some, ["a", "b", "b"], sample_weight=[300, 100, 200])
    assert weighted["sex"].noise.n_users.tolist() == [300, 300]


def test_a_group_in_which_nobody_was_asked_for_a_column():
    by = np.where(np.arange(len(TABLE)) < 2, "two users", "the rest")
    estimates = estimate_by_group(survey(), TABLE, by)
    rows = [part.row_names.tolist() for part in estimates.values()]
    assert ["the rest"] in rows
    assert all(names in (["the rest"], ["the rest", "two users"]) for names in rows)
    assert EmpiricalBayes().fit_transform(estimates).names == list(DOMAINS)


# -- reports in files -------------------------------------------------------------------------
@pytest.mark.slow
def test_a_search_on_the_shards_of_files(tmp_path):
    for i in range(3):
        client = survey(random_state=i)
        write_reports(tmp_path / f"{i}.arrows", client.privatize(people(1000, i)), client)
    server = aggregate(tmp_path, survey(), checkpoint=tmp_path / "state.npz")
    search = HeldOutSearch().fit(server.estimate_)
    assert list(search.estimators_) == list(DOMAINS)
    assert search.estimate_["state"].values.sum() == pytest.approx(1)
    grouped = estimate_by_group(survey(), TABLE, WEEKS)
    with pytest.raises(
        ValueError, match="In the estimate named 'sex': .* needs a raw estimate with one row"
    ):
        HeldOutSearch(method="shards").fit(grouped)
    by_noise = HeldOutSearch([Base(), NormSub()], n_splits=1).fit(grouped)
    assert {one.method_ for one in by_noise.estimators_.values()} == {"bootstrap"}


# -- what is said of each part ----------------------------------------------------------------
REGIONS = dict(zip(STATES, ["east"] * 6 + ["west"] * 6, strict=True))
ESTIMATES = survey().fit_transform(TABLE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        {"groups": {"state": REGIONS}},
        {"groups": {"state": list(REGIONS.values()), "age": [0, 0, 1, 1, 1]}},
        {"ordered": {"age": True, "sex": False}},
        {"queries": {"state": groups(REGIONS), "age": top_k(2)}},
    ],
    ids=lambda given: str(*given),
)
def test_each_part_is_told_its_own(parameters):
    fitted = EmpiricalBayes(**parameters).fit(ESTIMATES)
    ((name, by_part),) = parameters.items()
    for part, estimate in ESTIMATES.items():
        own = {name: by_part[part]} if part in by_part else {}
        alone = EmpiricalBayes(**own).fit(estimate)
        np.testing.assert_array_equal(fitted.estimate_[part].values, alone.estimate_.values)
        assert fitted.estimators_[part].get_params()[name] == alone.get_params()[name]
    assert fitted.get_params()[name] is by_part
    unfitted = EmpiricalBayes(**parameters).transform(ESTIMATES)
    np.testing.assert_array_equal(unfitted["age"].values, fitted.estimate_["age"].values)


@pytest.mark.slow
@pytest.mark.parametrize(
    "search",
    [HeldOutSearch(), HeldOutSearch(method="bootstrap"), SyntheticSearch(n_repeats=4)],
    ids=repr,
)
def test_searches_are_told_the_queries_of_each_part(search):
    queries = {"state": groups(REGIONS)}
    search.set_params(queries=queries, random_state=0, candidates=[NormSub(), EmpiricalBayes()])
    fitted = search.fit(ESTIMATES)
    alone = type(search)(**{**search.get_params(deep=False), "queries": queries["state"]})
    alone.fit(ESTIMATES["state"])
    np.testing.assert_array_equal(
        fitted.estimators_["state"].results_["mean_test_score"], alone.results_["mean_test_score"]
    )
    assert fitted.estimators_["sex"].queries is None


def test_names_of_parts_that_are_refused():
    with pytest.raises(
        ValueError, match=r"keys of groups must be names .* 'state', got the key 'state 0'"
    ):
        EmpiricalBayes(groups=REGIONS).fit(ESTIMATES)
    with pytest.raises(ValueError, match=r"'sex', 'age', 'state', got the key 'region'"):
        EmpiricalBayes(queries={"region": top_k(2)}).transform(ESTIMATES)
    with pytest.raises(ValueError, match="ordered= can only be a mapping for a set"):
        EmpiricalBayes(ordered={"age": True}).fit(ESTIMATES["age"])
    with pytest.raises(
        ValueError, match="In the estimate named 'age': The queries are for 2 categories"
    ):
        EmpiricalBayes(groups={"age": [0, 1]}).fit(ESTIMATES)
    single = OUE(1.0, categories=5).simulate([9] * 5)
    for method in (HeldOutSearch, EmpiricalBayes):
        with pytest.raises(TypeError, match="from the names of estimates to queries"):
            method(queries={"age": top_k(1)}).fit(single)


# -- scores, differences and pictures -----------------------------------------------------------
TRUTH = survey().true_frequencies(TABLE)


def test_scores_of_sets():
    collections = survey().simulate({k: np.rint(3000 * f) for k, f in TRUTH.items()}, 20)
    of_parts = bias_variance(TRUTH, collections)
    np.testing.assert_array_equal(
        of_parts["age"].variance, bias_variance(TRUTH["age"], collections["age"]).variance
    )
    found = heavy_hitter_scores(TRUTH, collections, k=1)
    assert list(found) == list(DOMAINS)
    assert found["sex"].recall.mean() > 0.9
    other = survey(random_state=1).fit_transform(TABLE)
    scores = held_out_score(NormSub().fit_transform(ESTIMATES), other)
    alone = held_out_score(NormSub().fit_transform(ESTIMATES["age"]), other["age"])
    assert scores["age"] == alone
    with pytest.raises(
        ValueError, match=r"cannot compare \['sex', 'age'.*same names in the same order"
    ):
        held_out_score(ESTIMATES, other["age"])


def test_scorers_take_the_weighted_mean_of_the_columns():
    pipe = make_pipeline(survey(weights={"age": 3}), NormSub()).fit(TABLE)
    errors = query_errors(TRUTH, pipe[-1].estimate_)
    mean = (errors["sex"] + 3 * errors["age"] + errors["state"])[0] / 5
    assert make_frequency_scorer()(pipe, TABLE) == pytest.approx(-mean)
    search = GridSearchCV(
        pipe, {"columnoracle__epsilon": [0.1, 8.0]}, scoring=make_frequency_scorer(), cv=2
    )
    assert search.fit(TABLE).best_params_ == {"columnoracle__epsilon": 8.0}

    reports = survey(weights=[1, 3, 1]).privatize(TABLE)
    server = make_pipeline(survey(input="reports", weights=[1, 3, 1]), NormSub())
    server.fit(reports[:2000])
    held_out = survey(weights=[1, 3, 1]).aggregate(reports[2000:]).estimate_
    scores = held_out_score(server[-1].estimate_, held_out)
    mean = (scores["sex"] + 3 * scores["age"] + scores["state"]) / 5
    assert make_held_out_scorer()(server, reports[2000:]) == pytest.approx(mean)
    assert make_held_out_scorer(queries=top_k(1))(server, reports[2000:]) != mean


def test_scorers_know_the_weights_of_sets_of_columns():
    """The weight of a column is that of the tables with it, in whatever order they are named."""
    users = np.random.default_rng(0).integers(0, 2, (500, 3))
    weights = {"c": 4, ("b", "a"): 2}
    oracle = MarginalOracle(domains=dict.fromkeys("abc", 2), weights=weights, random_state=0)
    errors = query_errors(oracle.fit(users).true_frequencies(users), oracle.estimate_)
    mean = (2 * errors["a", "b"] + 4 * errors["a", "c"] + 4 * errors["b", "c"])[0] / 10
    assert make_frequency_scorer()(oracle, users) == pytest.approx(-mean)


def test_differences_are_those_of_the_parts():
    other = survey(random_state=1).fit_transform(people(seed=1))
    differences = ESTIMATES - other
    assert list(differences) == list(DOMAINS)
    alone = ESTIMATES["age"] - other["age"]
    np.testing.assert_array_equal(
        differences["age"].confidence_interval().low, alone.confidence_interval().low
    )
    with pytest.raises(ValueError, match="two sets whose parts have the same names"):
        ESTIMATES - EstimateSet({"age": other["age"]})
    with pytest.raises(TypeError, match="unsupported operand"):
        ESTIMATES - 1


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (AttributeError, r"as in estimates\['sex'\]\.answer, or loop", lambda: ESTIMATES.answer()),
        (AttributeError, r"estimates\['sex'\]\.noise", lambda: ESTIMATES.noise),
        (AttributeError, r"\['sex'\]\.summary, or loop over", lambda: ESTIMATES.summary()),
        (AttributeError, "EstimateSet has no attribute 'wrong'", lambda: ESTIMATES.wrong),
        (AttributeError, "'crosstab', .* with MarginalOracle", lambda: ESTIMATES.crosstab),
        (TypeError, r"tables.independence\(a, b\)", lambda: independence(ESTIMATES)),
        (AttributeError, "but each of its estimates has", lambda: ranks(ESTIMATES)),
        (
            AttributeError,
            "but each of its estimates has",
            lambda: TrendDisplay.from_estimate(ESTIMATES),
        ),
        (
            TypeError,
            r"draws one estimate, but got a set of .*\['sex'\], or .*estimates\.plot\(\)",
            lambda: FrequencyDisplay.from_estimate(ESTIMATES),
        ),
        (
            TypeError,
            r"draws one estimate, but got a set of estimates. Select one estimate, as in "
            r"estimates\['sex'\]",
            lambda: FrequencyDisplay.from_estimator(NormSub().fit(ESTIMATES)),
        ),
        (
            TypeError,
            r"SearchDisplay draws a search .* to one estimate, but this HeldOutSearch was "
            r"fitted to a set of estimates. Pass .*: search.estimators_\['sex'\]",
            lambda: SearchDisplay.from_estimator(HeldOutSearch([Base(), NormSub()]).fit(ESTIMATES)),
        ),
        (
            TypeError,
            "got MarginalOracle. Instead, fit a separate MarginalOracle to the users of each group",
            lambda: estimate_by_group(MarginalOracle(1.0, domains=DOMAINS), TABLE, WEEKS),
        ),
        (
            TypeError,
            "oracles for a single column",
            lambda: simulate_errors(survey(), NormSub(), TRUTH),
        ),
    ],
)
def test_what_takes_one_estimate_says_what_to_do_with_a_set(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_displays_of_one_part():
    pytest.importorskip("matplotlib")
    fitted = EmpiricalBayes(groups={"state": REGIONS}).fit(ESTIMATES)
    FrequencyDisplay.from_estimator(fitted.estimators_["state"], queries=groups(REGIONS))
    weeks = estimate_by_group(survey(), TABLE, WEEKS)
    TrendDisplay.from_estimate(weeks["age"])
    pickled = pickle.loads(pickle.dumps(ESTIMATES))
    assert pickled.names == ESTIMATES.names
    assert copy.deepcopy(ESTIMATES).names == ESTIMATES.names


# -- a third party's survey: the one of the guide's page on extending ------------------------------
class HalfTheFirst(BaseColumnSurvey):
    """Ask half of the users for the first column, and the others for another one."""

    def _make_mechanism(self, domain):
        channels = [GRR(self.epsilon).channel(d.size) for d in domain.columns.values()]
        return SampledQuestions.drawn(channels, [len(channels) - 1] + [1] * (len(channels) - 1))


def test_a_survey_of_a_third_party_has_everything(tmp_path):
    """By its one hook: files, groups, planning, simulation, post-processors."""
    survey = HalfTheFirst(2.0, domains=DOMAINS, random_state=0)
    write_reports(tmp_path / "reports.parquet", survey.privatize(TABLE), survey, batch_id="monday")
    server = Aggregator(survey).add(read_reports(tmp_path / "reports.parquet", survey), "monday")
    estimates = server.estimate_
    assert estimates.names == list(DOMAINS)
    plan, truth = survey.__collector__().planned(), survey.true_frequencies(TABLE)
    simulated = survey.simulate({k: np.rint(len(TABLE) * f).astype(int) for k, f in truth.items()})
    for name, one in estimates.items():
        expected = plan[name].noise.variance(truth[name]) / len(TABLE)
        for made in (one, simulated[name]):
            np.testing.assert_allclose(made.noise.variance(truth[name]), expected, rtol=0.3)
        assert np.all(np.abs(one.values[0] - truth[name]) < 6 * np.sqrt(expected))
    assert len(estimate_by_group(survey, TABLE, WEEKS)["age"]) == len(set(WEEKS))
    assert NormSub().fit_transform(estimates)["age"].values.sum() == pytest.approx(1)
    assert list(survey.questions()) == list(DOMAINS)


def test_a_parameter_without_a_hash_is_not_cached():
    """The survey of another package may have such a parameter."""

    class Odd(ColumnOracle):
        def __init__(self, epsilon=1.0, *, domains="auto", names=frozenset()):
            super().__init__(epsilon, domains=domains)
            self.names = names

    for names in ({"a"}, frozenset({"a"})):  # only the second has a hash
        assert list(Odd(domains={"a": 2, "b": 3}, names=names).questions()) == ["a", "b"]
