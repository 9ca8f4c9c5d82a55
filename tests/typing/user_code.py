"""Code of a user, checked by mypy --strict and by pyright in `make lint` (nobody runs it).

`assert_type` says what an editor has to show. A line with `ignore` is a mistake that has to be found: both checkers report an
`ignore` that nothing needs. As scikit-learn's base classes have no types, mypy takes any attribute and any argument that they
might have, so some mistakes are found by pyright only.
"""

import datetime
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import scipy.stats
from scipy import sparse
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

import sklearn_ldp
from sklearn_ldp import (
    GRR,
    OLH,
    Base,
    BaseCut,
    Calibrate,
    ColumnOracle,
    Domain,
    EmpiricalBayes,
    EstimateSet,
    FrequencyEstimate,
    HeldOutSearch,
    LatentClasses,
    MarginalOracle,
    NoiseModel,
    NormSub,
    SyntheticSearch,
)
from sklearn_ldp.collection import Aggregator, aggregate, read_reports, write_reports
from sklearn_ldp.inspection import (
    DistributionDisplay,
    ErrorCurveDisplay,
    FrequencyDisplay,
    MapDisplay,
    SearchDisplay,
    TrendDisplay,
)
from sklearn_ldp.metrics import (
    equivalent_n_samples,
    frequency_mse,
    make_frequency_scorer,
    query_errors,
)
from sklearn_ldp.model_selection import simulate_errors
from sklearn_ldp.oracles import best_oracle, estimate_by_group
from sklearn_ldp.planning import Plan
from sklearn_ldp.postprocessing import norm_sub
from sklearn_ldp.queries import QuerySet, groups, mean, query_matrix, random_sets
from sklearn_ldp.surveys import TableSet
from sklearn_ldp.utils.estimator_checks import check_oracle, check_postprocessor

values = ["firefox", "edge", "edge"]
oracle = OLH(epsilon=1.0, categories=["edge", "firefox", "safari"])

# One value per user in, an estimate out; a fitted oracle is the oracle that was fitted.
assert_type(oracle, OLH)
assert_type(oracle.fit(values), OLH)
assert_type(oracle.partial_fit(values).merge(OLH(epsilon=1.0)), OLH)
assert_type(oracle.estimate_, FrequencyEstimate)
assert_type(oracle.fit_transform(values), FrequencyEstimate)
assert_type(GRR(1.0).aggregate(oracle.privatize(values)), GRR)

# An estimate gives an estimate, and an array an array.
assert_type(NormSub().fit_transform(oracle.estimate_), FrequencyEstimate)
assert_type(EmpiricalBayes().fit(oracle.estimate_).transform(oracle.estimate_), FrequencyEstimate)
array: np.ndarray[Any, np.dtype[np.float64]] = np.array([0.5, 0.6])
assert_type(NormSub().fit_transform(array).shape, tuple[Any, ...])

# What a reader takes from an estimate.
estimate = oracle.estimate_
low: np.ndarray = estimate.confidence_interval(0.95).low
best: list[tuple[Any, float]] = estimate.top(3)
queries: QuerySet = groups({"made by one company": ["edge", "safari"]})
search = SyntheticSearch(queries=queries).fit(estimate)
assert_type(search, SyntheticSearch)
assert_type(search.estimate_, FrequencyEstimate)

# The calls of a server.
server = Aggregator(oracle)
survey = ColumnOracle(epsilon=1.0, domains={"browser": 3, "age": 5})
estimates: EstimateSet = Aggregator(survey).estimate_
tables = MarginalOracle(epsilon=1.0, domains={"browser": 3, "age": 5}).fit_transform([[0, 1]])
assert_type(tables, TableSet)
assert_type(LatentClasses().fit_transform(tables), TableSet)
shares: pd.DataFrame = tables.crosstab("browser", "age", normalize="index")
among: np.ndarray = tables.answer({"browser": 1}, given={"age": [2, 3]})
truths: dict[Any, np.ndarray] = survey.true_frequencies([[0, 1], [2, 4]])
simulated: EstimateSet = survey.simulate({"browser": [5, 3, 2], "age": [2, 2, 2, 2, 2]})
collected: FrequencyEstimate = aggregate("reports", oracle).estimate_
counts: int = server.n_samples
factory: Callable[[float], sklearn_ldp.OLH] = OLH
users: np.ndarray = sklearn_ldp.datasets.make_zipf(10, 100)

histogram = sklearn_ldp.datasets.load_us_states(n_samples=1000)
oracle.fit(histogram.categories, sample_weight=histogram.counts)
X, weights = sklearn_ldp.datasets.load_us_states(return_X_y=True)
applicants = sklearn_ldp.datasets.load_ucb_admissions(as_frame=True).frame

# Users' values in any container, of any type.
frame = pd.DataFrame({"browser": values, "region": ["east", "west", "west"]})
table = pl.DataFrame({"browser": values, "region": ["east", "west", "west"]})
oracle.fit(frame["browser"]).partial_fit(table["browser"]).fit(np.array(values))
oracle.fit(frame).fit(frame[["browser", "region"]]).fit(table).fit(frame.to_numpy())
oracle.fit([None, "edge"]).fit([datetime.date(2024, 1, 1)]).fit([("edge", 1), ("safari", 2)])
oracle.fit(range(3), sample_weight=[1, 2, 3]).fit(tuple(values), sample_weight=frame["browser"])
oracle.privatize(pd.Categorical(values))
assert_type(estimate_by_group(oracle, frame["browser"], frame["region"]), FrequencyEstimate)
assert_type(estimate_by_group(survey, frame, frame["region"]), EstimateSet)
estimate_by_group(oracle, values, ["east", "west", "west"], sample_weight=np.ones(3))

ok: list[object]  # calls that are right

# Domains: numbers, lists, levels of a column, domains.
ok = [
    GRR(categories=10),
    GRR(categories="auto"),
    GRR(categories=range(5)),
    GRR(categories=[None, 1, "b", datetime.date(2024, 1, 1)]),
    GRR(categories=frame["browser"].unique()),
    GRR(categories=pd.CategoricalDtype(["edge", "safari"])),
    GRR(categories=pl.Enum(["edge", "safari"])),
]
GRR(categories=[frame["browser"].astype("category"), frame["region"].astype("category")])
ok = [
    GRR(categories=pd.Index(["edge", "safari"])),
    GRR(categories=Domain.product([["F", "M"], range(3)])),
    OLH(categories=oracle.categories_),
    best_oracle(1.0, ["yes", "no"]),
    oracle.channel(8),
]
n_categories: int = len(oracle.categories)
ok = [Domain(["yes", "no"]).encode(frame["browser"]), Domain(["yes", "no"]).decode([0, 1])]

# Frequencies and estimates in any container, or by category.
truth = pd.Series([0.5, 0.3, 0.2], index=["edge", "firefox", "safari"])
rows = [[0.5, 0.6, -0.1], [0.4, 0.5, 0.1]]
assert_type(query_errors(truth, estimate), np.ndarray)
assert_type(frequency_mse(truth, estimate), float)
ok = [
    frequency_mse({"edge": 0.5, "firefox": 0.3, "safari": 0.2}, estimate),
    frequency_mse([1, 0, 0], rows),
    frequency_mse(table["browser"], [np.array([0.5, 0.5])]),
    frequency_mse(truth.to_numpy(), [estimate]),
]
query_errors(truth, estimate, metric=mean_squared_error)
query_errors(truth, estimate, metric=lambda true, answers: float(abs(true - answers).max()))
ok = [
    oracle.simulate([500, 300, 200]),
    oracle.simulate({"edge": 500, "firefox": 300, "safari": 200}),
]
oracle.simulate(frame["browser"].value_counts(), n_repeats=10)
assert_type(NormSub().fit(frame).estimate_, FrequencyEstimate)
ok = [norm_sub(rows), norm_sub(truth), norm_sub(estimate), norm_sub((0.5, 0.5))]
FrequencyEstimate(rows, ["edge", "firefox", "safari"], NoiseModel(0.5, 0.25, [100, 200]))
assert_type(estimate["edge"], float)
assert_type(estimate["F", 1], float)
assert_type(estimate[None], float)
assert_type(estimate[0], FrequencyEstimate)
assert_type(estimate.summary(), pd.DataFrame)
ok = [
    estimate.answer(["edge", None]),
    estimate.answer([("F", 1)]),
    estimate.answer([queries, ["edge"], mean([1, 2.5, 4])]),
    estimate.answer(mean({"edge": 1, "firefox": 2, "safari": 4})),
    estimate.to_frame(interval=0.9),
    EmpiricalBayes(queries=[queries, groups({"edge": "old"})]),
    estimate[0],
    estimate[:2],
    estimate[[0, 1]],
    estimate[np.array([True])],
    estimate[frame["region"] == "east"],
    Calibrate("gaussian"),
    Calibrate(scipy.stats.norm(10, 2)),
]

# Queries: sets of them, matrices that are sparse or not, lists, data frames.
matrix = sparse.csr_array(np.eye(3))
ok = [
    estimate.answer(),
    estimate.answer(queries),
    estimate.answer(matrix),
    estimate.answer(np.eye(3)),
    estimate.answer([[1, 1, 0]]),
    estimate.answer(frame),
    query_matrix(sparse.eye_array(3)),
    query_matrix([[1, 0, 1]]),
    groups(frame["region"]),
    HeldOutSearch(queries=matrix),
    HeldOutSearch(queries=groups(["a", "b"]), noise=0.1),
    SyntheticSearch(queries=None),
    make_frequency_scorer(queries=matrix),
]

# Candidates, and what was found.
two_steps = Pipeline([("base", Base()), ("simplex", NormSub())])
SyntheticSearch([Base(), two_steps], metric="mae", synthesizer=Base(), n_samples=np.int64(10))
HeldOutSearch({"NormSub": {}, "BaseCut": {"alpha": [0.05, 2]}}).fit(estimate).best_estimator_
check_oracle(GRR())
check_postprocessor(NormSub())

# Plans, of an oracle or of a survey, for one number of users or for several.
plan = Plan(oracle, 3, queries=matrix, frequencies=truth)
plan.rmse(1000)
plan.half_width([1000, 2000])
plan.power(np.array([1e3, 1e4]), detection=0.1)
Plan(ColumnOracle(domains={"sex": 2})).users_for(change=0.01, power=0.8)
assert_type(equivalent_n_samples(estimate, query_errors(truth, estimate)), np.ndarray)
assert_type(equivalent_n_samples(estimate.noise, frequency_mse(truth, estimate), 3), float)

# Studies and pictures.
study = simulate_errors(
    {"ours": GRR(), "theirs": OLH()}, [Base(), two_steps], truth, 1000, [0.5, 1], {10: random_sets(0.1)},
    metrics=["mse", mean_squared_error], checkpoint=Path("study.jsonl"),
)  # fmt: skip
simulate_errors(OLH(), NormSub(), [5, 3], epsilons=1.0, queries=matrix, checkpoint="study.jsonl")
simulate_errors([OLH()], "all", {"a": truth, 2: [0.5, 0.5]}, [100, 200], np.array([1.0]))
assert_type(study.to_frame(), pd.DataFrame)
assert_type(study.to_frame("polars"), pl.DataFrame)
assert_type(estimate.to_frame(), pd.DataFrame)
assert_type(estimate.plot(), FrequencyDisplay | DistributionDisplay | TrendDisplay | MapDisplay)
figure, axes = plt.subplots()
FrequencyDisplay.from_estimate(estimate, truth=truth, ax=axes).plot(axes)
ok = [
    FrequencyDisplay.from_estimator(two_steps, ax=axes),
    SearchDisplay.from_estimator(search, ax=axes),
    ErrorCurveDisplay.from_results(study, ax=axes),
    ErrorCurveDisplay.from_results(study.to_frame()),
]
ErrorCurveDisplay.from_results(
    {"oracle": ["OLH"], "postprocessor": ["Base"], "error": [0.1]},
    x="postprocessor", by="oracle", spread=None, chosen={"OLH": "Base"},
)  # fmt: skip
grid = GridSearchCV(two_steps, {"simplex": [BaseCut()]}, scoring=make_frequency_scorer("mae"))
ErrorCurveDisplay.from_grid_search(grid)

# Files of reports: by name, open, or in memory.
protocol = oracle.protocol("March")
Aggregator(protocol)
write_reports("a.parquet", oracle.privatize(values), oracle)
write_reports(Path("a.jsonl"), oracle.privatize(values), protocol)
write_reports(io.BytesIO(), [[1, 2]], oracle, format="arrow")
with open("a.arrows", "rb") as file:
    ok = [
        read_reports("a.parquet", oracle),
        read_reports(Path("a.jsonl"), protocol),
        read_reports(file, oracle, format="arrow"),
        read_reports(file.read(), oracle, format="arrow"),
        aggregate(Path("folder"), oracle),
        aggregate((oracle.privatize(values) for _ in range(3)), server, batch_id="a"),
    ]

# Mistakes that both find.
Aggregator(OLH)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
read_reports(oracle, "a.parquet")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
oracle.fit(value for value in values)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
oracle.fit(table.lazy())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
oracle.fit(set(values))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
oracle.aggregate(estimate.noise)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
oracle.simulate(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
GRR(categories={"edge", "safari"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
NormSub().fit({"edge": 0.5})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
norm_sub(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
query_errors(truth, estimate, metric=2)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
estimate.answer(groups)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
ok = [estimate["edge"] + "a"]  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue]
groups(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
SyntheticSearch(oracle="OLH")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Calibrate(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Plan(OLH, 1000)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
simulate_errors(OLH(), [Base()], truth, checkpoint=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
ErrorCurveDisplay.from_results([1, 2])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
FrequencyDisplay.from_estimate(estimate, ax=plt)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
OLH(eps=1.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
OLH(1.0, random_state="0")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
estimate.confidence_interval("95")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
NormSub().fit_transform(oracle.estimate_).privatize  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
sklearn_ldp.OHL  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
NormSub(3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
best_oracle("one", 100)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# Mistakes that pyright finds.
oracle.fit_transfrom(values)  # pyright: ignore[reportAttributeAccessIssue]
search.best_estimate  # pyright: ignore[reportAttributeAccessIssue]
oracle.true_frequencies(oracle)  # pyright: ignore[reportArgumentType]
NormSub().fit(oracle)  # pyright: ignore[reportArgumentType]
frequency_mse(truth, oracle)  # pyright: ignore[reportCallIssue, reportArgumentType]
SyntheticSearch(NormSub())  # pyright: ignore[reportArgumentType]
simulate_errors(OLH, [Base()], truth)  # pyright: ignore[reportArgumentType]
check_oracle(NormSub())  # pyright: ignore[reportArgumentType]
check_postprocessor(OLH())  # pyright: ignore[reportArgumentType]
