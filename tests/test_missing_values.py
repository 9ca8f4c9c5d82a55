"""Missing values: one category of its own if it is declared, otherwise refused with a remedy."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    ColumnOracle,
    Consistent,
    Domain,
    EmpiricalBayes,
    KeyValueOracle,
    LatentClasses,
    LocalMean,
    MarginalOracle,
    NormSub,
    RangeOracle,
    StringOracle,
    load_estimate,
)
from sklearn_ldp.inference import EstimateDifference
from sklearn_ldp.inspection import ContingencyDisplay
from sklearn_ldp.learning import LabelDPClassifier, LDPNaiveBayes, PrivatizedColumns
from sklearn_ldp.privacy import PrivacyWarning
from sklearn_ldp.queries import groups

ANSWERS = ["a", None, "b", "a"]
CONTAINERS = [
    lambda values: values,
    pd.Series,
    lambda values: pd.Series(values, dtype="category"),
    lambda values: pd.Series(values, dtype="string"),
    pl.Series,
    lambda values: pl.Series(values, dtype=pl.Enum(["a", "b"])),
    pa.array,
    lambda values: np.array([np.nan if v is None else v for v in values], dtype=object),
]


@pytest.mark.parametrize("container", CONTAINERS)
def test_none_is_a_category_in_every_container(container):
    oracle = OUE(1.0, categories=["a", "b", None])
    np.testing.assert_array_equal(oracle.true_frequencies(container(ANSWERS)), [0.5, 0.25, 0.25])
    with pytest.raises(ValueError, match=r"None in a list, missing=True in Domain\.bins"):
        OUE(1.0, categories=["a", "b"]).fit(container(ANSWERS))


@pytest.mark.parametrize(
    "numbers",
    [
        [17.5, None, 40],
        [17.5, np.nan, 40.0],
        np.array([17.5, np.nan, 40]),
        ["17.5", None, "40"],
        pd.Series([17, None, 40], dtype="Int64"),
        pd.array([17, None, 40], dtype="Int64"),
        pl.Series([17, None, 40]),
        pa.array([17, None, 40]),
        ["young", None, "old"],
    ],
)
def test_bins_with_a_missing_category_and_labels(numbers):
    ages = Domain.bins([18, 40], labels=["young", "middle", "old"], missing=True)
    assert ages.categories.tolist() == ["young", "middle", "old", None]
    assert ages.encode(numbers).tolist() == [0, 3, 2]
    assert Domain.bins([18, 40], missing=True).names[0] == "< 18"
    with pytest.raises(ValueError, match="missing=True"):
        Domain.bins([18, 40], labels=["young", "middle", "old"]).encode(numbers)


def test_labelled_bins_of_other_edges_are_another_domain():
    one, other = (Domain.bins([edge], labels=["young", "old"]) for edge in (18, 21))
    assert one != other
    assert one.digest != other.digest
    assert one == Domain.bins([18], labels=["young", "old"])
    # Names that tell the edges are all that a server needs.
    assert Domain.bins([18]) == Domain(["< 18", ">= 18"])
    assert Domain.bins([18]).digest == Domain(["< 18", ">= 18"]).digest
    joint = [Domain.product([bins, 2]) for bins in (one, other)]
    assert joint[0] != joint[1]
    assert joint[0].digest != joint[1].digest


@pytest.mark.parametrize(
    ("message", "labels"),
    [
        ("2 strings.*one label for each bin", ["young"]),
        ("2 strings.*one label for each bin.*missing=True", ["young", None]),
        ("got the label '18'.*like 'bin 18'", ["young", "18"]),
        ("could be mistaken for a user", ["young", "nan"]),
        ("distinct", ["young", "young"]),
        ("2 strings", "ab"),
    ],
)
def test_labels_that_are_no_names(message, labels):
    with pytest.raises(ValueError, match=message):
        Domain.bins([18], labels=labels)


def test_a_survey_with_missing_answers():
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {"sex": rng.choice(["F", "M", None], 3000), "age": rng.normal(40, 20, 3000)}
    )
    people.loc[:500, "age"] = np.nan
    domains = {"sex": ["F", "M", None], "age": Domain.bins([18, 65], missing=True)}
    estimates = ColumnOracle(4.0, domains=domains, random_state=0).fit_transform(people)
    assert estimates["age"][None] == pytest.approx(1 / 6, abs=0.1)
    told = groups({"F": "told", "M": "told", np.nan: "not"})
    assert estimates["sex"].answer(told).shape == (1, 2)
    raw = MarginalOracle(8.0, domains=domains, random_state=0).fit_transform(people)
    for post in (Consistent(), LatentClasses()):
        tables = post.fit_transform(raw)
        assert tables.answer({"age": None}, given={"sex": [None, "F"]}).item() < 0.4
        assert 0 < tables.crosstab("sex", "age").to_numpy()[2, 3] < 0.2
        rows = tables.sample(1000, random_state=0)
        assert rows["sex"].isna().mean() == pytest.approx(1 / 3, abs=0.1)
    columns = PrivatizedColumns(4.0, domains=domains, random_state=0).fit(people)
    assert columns.get_feature_names_out()[[2, -1]].tolist() == ["sex_None", "age_None"]


BINS = Domain.bins(4, bounds=(0, 8))
CATEGORY = r"Declare such a category \(None in a list, missing=True in Domain.bins\).*Client"
HINTS = [
    (GRR(1.0, categories=["a", "b"]), None, CATEGORY),
    (GRR(1.0, categories=["a", "b"]), np.nan, CATEGORY),
    (OUE(1.0, categories=BINS), np.nan, CATEGORY),
    (RangeOracle(1.0, categories=BINS), np.nan, CATEGORY),
    (OLH(1.0, categories="open", hash_family="mixing"), np.nan, CATEGORY),
    (
        LocalMean(1.0, bounds=(0, 8)),
        np.nan,
        r"Use RangeOracle.*missing=True.*answered\(\), or",
    ),
    (StringOracle(4.0, alphabet="ab", max_length=2, n_found=2), None, 'Set missing="report" so'),
    (KeyValueOracle(1.0, categories=["a", "b"]), {"a": np.nan}, "Leave the item out"),
]


@pytest.mark.parametrize(("oracle", "value", "hint"), HINTS, ids=lambda value: str(value)[:12])
def test_a_missing_value_names_a_remedy_that_the_class_has(oracle, value, hint):
    with pytest.raises(ValueError, match=hint) as info:
        oracle.privatize([value])
    set_by = 'et missing="report"' in str(info.value)
    assert set_by <= ("missing" in oracle.get_params())


@pytest.mark.parametrize(
    "oracle", [hint[0] for hint in HINTS[1:-2]], ids=lambda o: type(o).__name__
)
@pytest.mark.parametrize("number", [np.inf, -np.inf])
def test_infinity_is_not_called_missing(oracle, number):
    with pytest.raises(ValueError, match="contains infinity|outside of the bounds") as info:
        oracle.privatize([0.5, number])
    assert not re.search("missing|NaN", str(info.value))


LEARNERS = [
    lambda **options: LabelDPClassifier(LogisticRegression(), **options),
    lambda **options: LDPNaiveBayes(random_state=0, **options),
]


@pytest.mark.parametrize("make", LEARNERS)
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_a_missing_label_is_refused_with_a_remedy(make, missing):
    X, y = np.arange(3)[:, None], np.array(["p", "q", missing], dtype=object)
    for classes in (None, ["p", "q"], ["p", "q", missing]):
        with pytest.raises(ValueError, match="a missing label .* Replace missing labels by"):
            make(classes=classes).fit(X, y)
    with pytest.raises(ValueError, match=r"missing label .* in classes="):
        make(classes=["p", "q", missing]).fit(X, ["p", "q", "p"])


@pytest.mark.parametrize("make", LEARNERS)
def test_an_unknown_label_names_the_parameter_classes(make):
    X = np.arange(3)[:, None]
    message = r"unknown class at position 2.*List every class in classes="
    with pytest.raises(ValueError, match=message) as error:
        make(classes=["p", "q"]).fit(X, ["p", "q", "r"])
    assert "categories" not in str(error.value)
    assert "MarginalOracle" not in str(error.value)


# -- one column with missing answers, in a frame of several ----------------------------------------
PLANS = {"plan": ["free", "pro", None]}
AUTO = {**PLANS, "size": "auto", "visits": "auto"}
SIZES = pd.CategoricalDtype(["S", "M", "L"], ordered=True)
PEOPLE = pd.DataFrame(
    {
        "size": pd.Categorical(["L", "S", "M", "M"] * 25, dtype=SIZES),
        "plan": ["free", None, "pro", "free"] * 25,
        "visits": [0, 1, 2, 0] * 25,
    }
)


@pytest.mark.parametrize("survey", [ColumnOracle, MarginalOracle])
@pytest.mark.parametrize("container", [lambda frame: frame, pa.Table.from_pandas])
@pytest.mark.parametrize(
    "others",
    [{"visits": "auto", "size": "auto"}, {"size": SIZES, "visits": "auto"}],
    ids=["auto", "a dtype"],
)
def test_columns_may_be_auto(survey, container, others):
    """They have the levels that they declare, or the values that occur."""
    fitted = survey(4.0, domains={**PLANS, **others}, random_state=0).fit(container(PEOPLE))
    columns = fitted.protocol().domain.columns
    assert set(columns) == set(PEOPLE)
    assert list(columns)[: 1 + len(others)] == ["plan", *others]
    assert columns["plan"].categories.tolist() == ["free", "pro", None]
    assert columns["size"].categories.tolist() == ["S", "M", "L"]
    assert columns["size"].is_ordered
    assert columns["visits"].categories.tolist() == [0, 1, 2]
    assert fitted.feature_names_in_.tolist() == list(columns)
    assert fitted.partial_fit(PEOPLE[["visits", "size", "plan"]]).n_samples_seen_ == 200


def test_learned_columns_are_warned_of_by_name():
    for model, y in (
        (ColumnOracle(2.0, domains=AUTO), None),
        (PrivatizedColumns(2.0, domains=AUTO), None),
        (LDPNaiveBayes(2.0, domains=AUTO, classes=[0, 1]), [0, 1] * 50),
    ):
        with pytest.warns(
            PrivacyWarning, match=r"learns the domain of columns 'visits' from the raw val"
        ):
            model.fit(PEOPLE, y)
        declared = model.set_params(domains={**AUTO, "visits": 3})
        declared.fit(PEOPLE, y)  # levels that a column declares are no secret: warnings are errors


@pytest.mark.parametrize("survey", [ColumnOracle, MarginalOracle, PrivatizedColumns])
def test_a_column_of_ids_is_named_with_the_remedy(survey):
    """Without a domain, fit would estimate the frequency of each id."""
    domains = {**PLANS, "paid": [False, True], "user_id": "auto"}
    people = PEOPLE[["plan"]].loc[np.repeat(PEOPLE.index, 4)].reset_index(drop=True)
    people["paid"] = people["plan"] == "pro"
    people["user_id"] = [f"u{i}" for i in range(len(people))]
    remedy = "or leave out a column that identifies users"
    with (
        pytest.warns(UserWarning, match=rf"'user_id', found \d+ distinct values.*{remedy}"),
        pytest.warns(PrivacyWarning, match="'user_id' from the raw .* leave out the other columns"),
    ):
        survey(2.0, domains=domains).fit(people)


@pytest.mark.parametrize("random_state", [None, 0])
@pytest.mark.parametrize(
    "model",
    [
        ColumnOracle(2.0, domains=PLANS),
        MarginalOracle(2.0, domains={**PLANS, "visits": 3}),
        ColumnOracle(2.0, domains={**PLANS, "visits": "auto"}, strategy="split-budget"),
        PrivatizedColumns(2.0, domains=PLANS),
        LDPNaiveBayes(2.0, domains=PLANS, classes=[0, 1]),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore:.*learns the domain of columns 'visits'")
def test_a_column_without_a_domain_is_refused(model, random_state):
    """In simulations as on clients: no user answers a question that is not declared."""
    model = clone(model).set_params(random_state=random_state)
    message = r"'size'.*has no domain.*as in X\[\['plan'.*or declare the other columns in domains="
    if not model.domains.keys() >= {"visits"}:
        message = message.replace("size", "(size|visits)")
    with pytest.raises(ValueError, match=message):
        model.fit(PEOPLE, [0, 1] * 50)
    assert not hasattr(model, "n_features_in_")
    if hasattr(model, "privatize"):
        with pytest.raises(ValueError, match="domain"):
            clone(model).set_params(random_state=None).privatize(PEOPLE)
    model.fit(PEOPLE[list(model.domains)], [0, 1] * 50)  # the negative control


def test_clients_declare_every_column():
    survey = ColumnOracle(2.0, domains={**PLANS, "visits": "auto"})
    with pytest.raises(
        ValueError, match="'visits', has no domain yet.*Declare the categories in d"
    ):
        survey.privatize(PEOPLE[["plan", "visits"]])
    with pytest.raises(ValueError, match="a column without a domain"):
        ColumnOracle(2.0, domains=PLANS).privatize(PEOPLE)
    with pytest.raises(
        ValueError, match="has a domain for the column 'age', but X has no such column"
    ):
        ColumnOracle(2.0, domains={"age": "auto"}, random_state=0).fit(PEOPLE[["plan"]])
    with pytest.raises(ValueError, match="needs domains= to be a mapping"):
        ColumnOracle(2.0, domains={}).fit(PEOPLE)
    rows = PEOPLE[["size", "visits"]].to_numpy(dtype=object)  # columns without names
    named = ColumnOracle(2.0, domains={"a": SIZES, "b": "auto"}, random_state=0).fit(rows)
    assert named.estimate_["b"].categories.tolist() == [0, 1, 2]


# -- the name of a missing answer, and the order of a scale ----------------------------------------
NAMED = [
    (Domain(["free", "pro", None]), "(missing)"),
    (Domain(["free", "pro"], missing="no answer"), "no answer"),
    (Domain(["free", "pro", None], missing="no answer"), "no answer"),
]


@pytest.mark.parametrize(("domain", "name"), NAMED, ids=["default", "added", "given"])
def test_a_missing_answer_has_one_name(domain, name, tmp_path):
    assert domain.categories.tolist() == ["free", "pro", None]
    raw = ColumnOracle(4.0, domains={**AUTO, "plan": domain}, random_state=0).fit_transform(PEOPLE)
    raw.save(tmp_path / "set.npz")
    for estimates in (raw, NormSub().fit_transform(raw), load_estimate(tmp_path / "set.npz")):
        estimate = estimates["plan"]
        assert estimate[None] == estimate.values[0, 2]
        assert estimate.to_frame(0.95)["category"].tolist() == ["free", "pro", name]
        assert name in estimate.summary()["category"].tolist()
        assert name in estimates.to_frame(0.95)["category"].tolist()
        assert name in repr(estimate)
        assert f"<td>{name}</td>" in estimate._repr_html_()
        assert [row["category"] for row in estimate.describe()["rows"]] == ["free", "pro", name]
        shown = estimate.plot().categories
        assert name in list(shown)
    tables = MarginalOracle(4.0, domains={**AUTO, "plan": domain}, random_state=0).fit_transform(
        PEOPLE
    )
    assert tables.crosstab("plan", "size").index.tolist() == ["free", "pro", name]
    assert (name, "L") in tables["plan", "size"].summary()["category"].tolist()
    display = ContingencyDisplay.from_estimate(tables, "plan", "size")
    assert display.categories[0] == ["free", "pro", name]
    later = (
        ColumnOracle(4.0, domains={**AUTO, "plan": domain}, random_state=1)
        .fit(PEOPLE[:90])
        .estimate_
    )
    change = EstimateDifference(raw["plan"], later["plan"])
    assert change.to_frame().index.tolist() == ["free", "pro", name]


def test_bins_name_their_missing_numbers():
    ages = Domain.bins([18], missing="no age")
    assert ages.labels.tolist() == ["< 18", ">= 18", "no age"]
    assert ages.encode([20, None]).tolist() == [1, 2]
    assert ages == Domain.bins([18], missing=True)
    assert ages.digest == Domain.bins([18], missing=True).digest


@pytest.mark.parametrize("missing", ["free", "", True, 3])
def test_names_of_missing_answers_that_are_none(missing):
    with pytest.raises(ValueError, match="needs missing= to be a text that is not one of its cat"):
        Domain(["free", "pro"], missing=missing)
    with pytest.raises(ValueError, match="missing= to the Domain of each column"):
        Domain([np.arange(2), np.arange(3)], missing="none")


def test_scales_and_bins_keep_their_order():
    levels = list("abcdefghijkl")
    scale = pd.CategoricalDtype(levels, ordered=True)
    users = pd.Series(list("lllbbk") * 50)
    kept = [GRR(4.0, categories=scale, random_state=0).fit(users)]
    kept += [GRR(4.0, random_state=0).fit(users.astype(scale))]
    for oracle in kept:
        estimate = oracle.estimate_
        assert estimate.summary()["category"].tolist() == levels
        assert estimate.describe()["is_ordered"]
        assert repr(estimate).splitlines()[1].split()[0] == "a"
        assert hasattr(EmpiricalBayes().fit(estimate), "curve_weight_")
        assert not hasattr(EmpiricalBayes(ordered=False).fit(estimate), "curve_weight_")
    # Negative control: levels without an order are shown by their size.
    plain = GRR(4.0, categories=pd.CategoricalDtype(levels), random_state=0).fit(users).estimate_
    assert plain.summary()["category"].tolist()[:3] == ["l", "b", "k"]
    assert not plain.describe()["is_ordered"]
    assert not hasattr(EmpiricalBayes().fit(plain), "curve_weight_")
    bins = Domain.bins([18, 40, 65])
    ages = GRR(4.0, categories=bins, random_state=0).fit([50] * 99 + [20]).estimate_
    assert ages.summary()["category"].tolist() == bins.categories.tolist()
