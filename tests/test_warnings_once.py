"""A warning that many tasks of a search or a study give comes once, also from workers of joblib."""

import inspect
import re
import threading
import warnings

import numpy as np
import pytest
from joblib import parallel_config
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from sklearn_ldp import (
    GRR,
    OLH,
    Base,
    ColumnOracle,
    Domain,
    FrequencyEstimate,
    LocalMean,
    MarginalOracle,
    NormSub,
    Power,
    PrivacyWarning,
    RangeOracle,
    SyntheticSearch,
    best_oracle,
)
from sklearn_ldp.learning import (
    CorrectedLogisticRegression,
    CorrectedRidge,
    LabelDPClassifier,
    LabelDPRegressor,
    LDPNaiveBayes,
    PrivatizedColumns,
)
from sklearn_ldp.metrics import make_frequency_scorer
from sklearn_ldp.model_selection import simulate_errors
from sklearn_ldp.postprocessing import BasePostProcessor

USERS = np.random.default_rng(0).integers(0, 50, 20)  # fewer users than categories


class Frost(UserWarning):
    """A class that pickle cannot build, because it is made of more than its text."""

    def __init__(self, degrees, unit):
        super().__init__(f"{degrees} {unit}")


class Frozen(BasePostProcessor):
    def _process(self, estimate):
        warnings.warn(Frost(-5, "C"), stacklevel=2)
        return estimate.with_values(estimate.values, by=type(self).__name__)


class Grumbler(BasePostProcessor):
    """Warns at every estimate, of the same thing and of its first value."""

    def _process(self, estimate):
        warnings.warn("It is cold.", UserWarning, stacklevel=2)
        warnings.warn("It is cold.", RuntimeWarning, stacklevel=2)
        return estimate.with_values(estimate.values, by=type(self).__name__)


def search(n_jobs=None):
    estimate = OLH(1.0, categories=range(50), random_state=0).fit_transform(USERS)
    candidates = [Grumbler(), Power(), NormSub()]
    return SyntheticSearch(candidates, random_state=0, n_jobs=n_jobs).fit(estimate)


def study(n_jobs=None, post=Grumbler):
    cells = {"n_samples": [20, 25, 30], "epsilons": [0.5, 1, 2]}  # nine make two tasks
    truth = np.full(50, 1 / 50)
    return simulate_errors(GRR(), [post()], truth, **cells, n_repeats=1000, n_jobs=n_jobs)


def given(call, n_jobs=None):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(n_jobs)
    return sorted((one.category.__name__, str(one.message)) for one in caught)


COLD = [("RuntimeWarning", "It is cold."), ("UserWarning", "It is cold.")]


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_search_and_a_study_give_each_warning_once(n_jobs):
    assert given(study, n_jobs) == COLD
    *cold, (_, other) = given(search, n_jobs)
    assert cold == COLD
    assert "Power found no power law" in other


@pytest.mark.slow
def test_warnings_that_cannot_be_pickled_come_as_text():
    """An exception that a worker cannot send would end its whole pool."""
    assert given(lambda n_jobs: study(n_jobs, Frozen), 2) == [("UserWarning", "Frost: -5 C")]


def test_filters_are_obeyed_and_come_back():
    before = list(warnings.filters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(RuntimeWarning, match="cold"):
            study()
        warnings.simplefilter("ignore")
        study()
        search()
    assert warnings.filters == before


def test_threads_leave_the_filters_alone():
    """Python's filters belong to all threads, so a task in a thread does not change them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = list(warnings.filters)
        with parallel_config(backend="threading", n_jobs=2):
            study(n_jobs=2)
        thread = threading.Thread(target=search)
        thread.start()
        thread.join()
        assert warnings.filters == before


# -- privacy --------------------------------------------------------------------------------------
PEOPLE = np.random.default_rng(1).integers(0, 2, (400, 2))
LABELS = np.random.default_rng(2).integers(0, 2, 400)
COLUMNS = {0: 2, 1: 2}


def privacy_warnings(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught if issubclass(one.category, PrivacyWarning)]


def learner(kind, random_state):
    options = {"epsilon": 3.0, "random_state": random_state}
    if kind is PrivatizedColumns:
        columns = PrivatizedColumns(domains=COLUMNS, **options)
        return make_pipeline(columns, LogisticRegression()), "privatizedcolumns__epsilon"
    classes = {"classes": [0, 1]}
    if kind is LDPNaiveBayes:
        classes["domains"] = COLUMNS
    return kind(**classes, **options), "epsilon"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LabelDPClassifier, LDPNaiveBayes, PrivatizedColumns])
def test_a_learner_that_is_refitted_to_the_same_people_warns_once(kind):
    def validated(model):
        cross_val_score(model, PEOPLE, LABELS, cv=3)

    def searched(model):
        GridSearchCV(model, {learner(kind, None)[1]: [2.0, 4.0]}, cv=3).fit(PEOPLE, LABELS)

    for call in (validated, searched):
        (message,) = privacy_warnings(lambda call=call: call(learner(kind, None)[0]))
        assert f"{kind.__name__} is fitted again" in message
        assert not privacy_warnings(lambda call=call: call(learner(kind, 0)[0]))  # a simulation
    once = learner(kind, None)[0]
    assert not privacy_warnings(lambda: clone(once).fit(PEOPLE, LABELS))


def test_an_oracle_that_is_refitted_to_the_same_people_warns_once():
    def searched(random_state):
        oracle = OLH(categories=2, random_state=random_state)
        scorer = make_frequency_scorer()
        GridSearchCV(oracle, {"epsilon": [1.0, 2.0]}, scoring=scorer, cv=3).fit(PEOPLE[:, 0])

    assert len(privacy_warnings(lambda: searched(None))) == 1
    assert not privacy_warnings(lambda: searched(0))


def labelled(kind, random_state, **options):
    return kind(epsilon=3, random_state=random_state, **options).fit(PEOPLE, LABELS)


@pytest.mark.parametrize(
    ("fit", "what"),
    [
        (lambda state: OLH(random_state=state).fit(list("abab")), "the domain.*categories="),
        (lambda state: ColumnOracle(random_state=state).fit(PEOPLE), "the domain.*domains="),
        (lambda state: MarginalOracle(random_state=state).fit(PEOPLE), "the domain.*domains="),
        (
            lambda state: PrivatizedColumns(random_state=state).fit(PEOPLE),
            "the domain of columns .*domains=",
        ),
        (lambda state: labelled(LabelDPClassifier, state), "the classes.*classes="),
        (lambda state: labelled(LDPNaiveBayes, state, domains=COLUMNS), "the classes.*classes="),
        (
            lambda state: labelled(LDPNaiveBayes, state, classes=[0, 1]),
            "the domain of columns .*domains=",
        ),
    ],
)
def test_what_is_learnt_from_real_people_is_warned_of(fit, what):
    with pytest.warns(PrivacyWarning, match=f"learns {what}"):
        fit(None)
    fit(0)  # a simulation: silent
    pd = pytest.importorskip("pandas")
    OLH().fit(pd.Series(list("abab"), dtype="category"))  # whose levels are declared


def test_each_class_warns_once_of_a_budget_that_protects_nobody():
    def collect(epsilon, random_state=None):
        OLH(epsilon, categories=2, random_state=random_state).fit(PEOPLE[:, 0])
        if random_state is None:  # a seed is another warning
            GRR(epsilon, categories=2).privatize(PEOPLE[:, 0])
        options = {"epsilon": epsilon, "random_state": random_state}
        LabelDPClassifier(classes=[0, 1], **options).privatize(LABELS)
        PrivatizedColumns(domains=COLUMNS, **options).privatize(PEOPLE)

    assert not privacy_warnings(lambda: collect(20.0))
    assert not privacy_warnings(lambda: collect(21.0, 0))  # a simulation
    messages = privacy_warnings(lambda: (collect(21.0), collect(30.0)))
    warned = [message.partition(" protects no user")[0] for message in messages]
    names = ["OLH", "GRR", "LabelDPClassifier", "PrivatizedColumns"]
    assert warned == [f"{name} with epsilon=21" for name in names]


WAYS = {
    "fit": lambda options: OLH(categories=2, **options).fit(PEOPLE[:, 0]),
    "partial_fit": lambda options: OLH(categories=2, **options).partial_fit(PEOPLE[:, 0]),
    "privatize": lambda options: OLH(categories=2, **options).privatize(PEOPLE[:, 0]),
    "survey": lambda options: ColumnOracle(domains=COLUMNS, **options).fit(PEOPLE),
    "survey by parts": lambda options: MarginalOracle(domains=COLUMNS, **options).partial_fit(
        PEOPLE
    ),
    "classifier": lambda options: LabelDPClassifier(classes=[0, 1], **options).fit(PEOPLE, LABELS),
    "classifier, privatize": lambda options: LabelDPClassifier(classes=[0, 1], **options).privatize(
        LABELS
    ),
    "regressor": lambda options: LabelDPRegressor(bounds=(0, 1), **options).fit(PEOPLE, LABELS),
    "regressor, privatize": lambda options: LabelDPRegressor(bounds=(0, 1), **options).privatize(
        LABELS
    ),
    "columns": lambda options: PrivatizedColumns(domains=COLUMNS, **options).fit_transform(PEOPLE),
    "columns, privatize": lambda options: PrivatizedColumns(domains=COLUMNS, **options).privatize(
        PEOPLE
    ),
    "naive Bayes": lambda options: LDPNaiveBayes(domains=COLUMNS, classes=[0, 1], **options).fit(
        PEOPLE, LABELS
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_of_collecting_warns_of_an_epsilon_that_protects_no_user(way):
    messages = privacy_warnings(lambda: WAYS[way]({"epsilon": 30.0}))
    assert any("with epsilon=30 protects no user" in message for message in messages)


@pytest.mark.parametrize(
    "kind", [LabelDPClassifier, LabelDPRegressor, LDPNaiveBayes, PrivatizedColumns]
)
def test_the_second_clone_that_is_fitted_to_raw_values_warns(kind):
    options = {"classes": [0, 1], "bounds": (0, 1), "domains": COLUMNS}
    options = {name: value for name, value in options.items() if name in kind().get_params()}
    model = kind(**options)
    method = "fit_transform" if kind is PrivatizedColumns else "fit"
    assert not privacy_warnings(lambda: getattr(clone(model), method)(PEOPLE, LABELS))
    (message,) = privacy_warnings(lambda: getattr(clone(model), method)(PEOPLE, LABELS))
    assert f"{kind.__name__} is fitted again" in message


@pytest.mark.parametrize("method", ["fit_transform", "transform"])
@pytest.mark.parametrize("is_oracle", [True, False])
def test_the_global_output_does_not_make_data_frames(method, is_oracle):
    pytest.importorskip("pandas")
    oracle = GRR(1.0, categories=2, random_state=0).fit([0, 1])
    step, data = (oracle, [0, 1]) if is_oracle else (Base().fit(oracle.estimate_), oracle.estimate_)
    warning = pytest.warns(UserWarning, match="returns estimates, not data frames")
    with config_context(transform_output="pandas"), warning:
        assert isinstance(getattr(step, method)(data), FrequencyEstimate)


@pytest.mark.parametrize(
    ("model", "remedy"), [(CorrectedRidge, "corrected_score"), (CorrectedLogisticRegression, "Log")]
)
def test_predictions_for_rows_that_are_randomised_anew_warn_once(model, remedy):
    columns = PrivatizedColumns(3.0, domains=COLUMNS, random_state=0)
    noisy = columns.fit_transform(PEOPLE)
    pipe = make_pipeline(columns, model(private=columns.slices_)).fit(PEOPLE, LABELS)
    pipe[-1].predict(columns.true_indicators(PEOPLE))
    with pytest.warns(UserWarning, match=f"predicts from randomized rows.*{remedy}"):
        pipe.score(PEOPLE[:50], LABELS[:50])
    pipe.predict(PEOPLE[:50])
    pipe[-1].predict(noisy)


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_what_makes_no_data_frames_says_what_does(container):
    """A Pipeline goes on with estimates; a ColumnTransformer makes a frame of one row."""
    pytest.importorskip(container)
    frame = pytest.importorskip("pandas").DataFrame({"a": [0, 1, 1] * 10, "b": [1, 0, 1] * 10})
    step = make_pipeline(GRR(1.0, categories=2, random_state=0), NormSub())
    each = [(name, clone(step), [name]) for name in frame]
    remedy = "returns estimates, not data frames.*call set_output of the ColumnTransformer"
    with pytest.warns(UserWarning, match=remedy):
        pipe = clone(step).set_output(transform=container)
    assert isinstance(pipe.fit_transform(frame["a"]), FrequencyEstimate)
    both = ColumnTransformer(each).set_output(transform=container)
    made = both.fit_transform(frame)
    assert type(made).__module__.partition(".")[0] == container
    assert list(made.columns) == ["a__0", "a__1", "b__0", "b__1"]
    np.testing.assert_array_equal(
        made, clone(both).set_output(transform="default").fit_transform(frame)
    )


@pytest.mark.parametrize(
    ("cls", "given", "named", "message"),
    [
        (GRR, (), {"category": 3}, "GRR has no parameter 'category', did you mean 'categories'?"),
        (ColumnOracle, (), {"domain": {}}, "did you mean 'domains'?"),
        (LocalMean, (), {"bound": 1}, "LocalMean has no parameter 'bound', did you mean 'bounds'"),
        (SyntheticSearch, (), {"query": 1}, "did you mean 'queries'?"),
        (LabelDPClassifier, (), {"class_": 1}, "did you mean 'classes'?"),
        (NormSub, (), {"noise": 1}, "NormSub has no parameter 'noise'; it has none"),
        (GRR, (1.0, 3), {}, "GRR: too many positional arguments. Write GRR(epsilon, categories=."),
        (GRR, (1.0,), {"epsilon": 2.0}, "GRR: multiple values for argument 'epsilon'. Write GRR("),
        (NormSub, (0.1,), {}, "NormSub: too many positional arguments. Write NormSub()."),
    ],
)
def test_a_wrong_parameter_is_named_by_its_class(cls, given, named, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        cls(*given, **named)
    assert "args" not in inspect.signature(cls).parameters


def test_categories_before_epsilon_are_refused():
    for given in ((["a", "b"], 1.0), (4, 1.0), (4, np.float32(1)), (True, 4)):
        with pytest.raises(
            TypeError, match=r"first epsilon \(a number\).*best_oracle\(1.0, categories\)"
        ):
            best_oracle(*given)
    assert best_oracle(4, np.int64(8)).epsilon == 4


def test_a_class_that_hands_parameters_on_takes_them():
    class HandsOn(GRR):
        def __init__(self, epsilon=1.0, *, categories="auto", **others):
            super().__init__(epsilon, categories=categories, **others)

    assert HandsOn(2.0, n_shards=3).n_shards == 3
    with pytest.raises(TypeError, match="unexpected keyword argument 'n_shrds'"):
        HandsOn(2.0, n_shrds=3)


def test_a_candidate_that_changes_nothing_is_base():
    few = GRR(1.0, categories=5, random_state=0).fit_transform(np.arange(30) % 5)
    for nothing in ("passthrough", make_pipeline("passthrough", NormSub())):
        with pytest.raises(TypeError, match=r"with the unchanged estimate, pass Base\(\)"):
            SyntheticSearch([nothing, NormSub()], random_state=0).fit(few)


def test_candidates_that_nobody_has_named_are_silent():
    """With fewer users than categories Power finds no power law; who names it is told."""
    few = GRR(1.0, categories=50, random_state=0).fit_transform(np.arange(30))
    SyntheticSearch(n_repeats=2, random_state=0).fit(few)  # a warning is an error
    with pytest.warns(UserWarning, match="Power found no power law"):
        SyntheticSearch([Base(), Power()], n_repeats=2, random_state=0).fit(few)


# -- clipped numbers -------------------------------------------------------------------------------
BINS = Domain.bins(4, bounds=(0, 80), clip=True)
CLIPPING = [
    GRR(1.0, categories=BINS),
    RangeOracle(1.0, categories=BINS),
    LocalMean(1.0, bounds=(0, 80), clip=True),
    ColumnOracle(1.0, domains={"age": BINS}),
]


def ages_of(oracle, n_clipped):
    ages = np.repeat([0.5, 99.5], [100 - n_clipped, n_clipped])
    return ages[:, None] if hasattr(oracle, "domains") else ages


@pytest.mark.parametrize("oracle", CLIPPING, ids=repr)
def test_many_clipped_numbers_are_warned_of_where_raw_values_are(oracle):
    """Clients clip without a word, because the warning would tell of a single user."""
    for few in (ages_of(oracle, 5), ages_of(oracle, 25)[-9:]):
        clone(oracle).set_params(random_state=0).fit(few)
    for batch in (ages_of(oracle, 25), ages_of(oracle, 25)[-1:]):
        oracle.privatize(batch)
    message = "clipped more than 5 % of the numbers to the bounds 0 to 80.*Declare wider bounds"
    with pytest.warns(UserWarning, match=message) as given:
        clone(oracle).set_params(random_state=0).fit(ages_of(oracle, 25))
    assert not re.search("99|25", str(given[0].message))
