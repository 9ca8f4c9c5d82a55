"""Missing values: one category of its own if it is declared, otherwise refused with a remedy."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_ldp import OUE, ColumnOracle, Consistent, Domain, LatentClasses, MarginalOracle
from sklearn_ldp.learning import LabelDPClassifier, LDPNaiveBayes, PrivatizedColumns
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
        ("2 strings, one for each bin", ["young"]),
        ("2 strings, one for each bin .*missing=True", ["young", None]),
        ("no numbers, .* got '18': call it 'bin 18'", ["young", "18"]),
        ("no numbers", ["young", "nan"]),
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


LEARNERS = [
    lambda **options: LabelDPClassifier(LogisticRegression(), **options),
    lambda **options: LDPNaiveBayes(random_state=0, **options),
]


@pytest.mark.parametrize("make", LEARNERS)
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_a_missing_label_is_refused_with_a_remedy(make, missing):
    X, y = np.arange(3)[:, None], np.array(["p", "q", missing], dtype=object)
    for classes in (None, ["p", "q"], ["p", "q", missing]):
        with pytest.raises(ValueError, match=r"a missing label .* a name of its own, such as"):
            make(classes=classes).fit(X, y)
    with pytest.raises(ValueError, match=r"missing label .* in classes="):
        make(classes=["p", "q", missing]).fit(X, ["p", "q", "p"])


@pytest.mark.parametrize("make", LEARNERS)
def test_an_unknown_label_names_the_parameter_classes(make):
    X = np.arange(3)[:, None]
    message = r"unknown class at position 2.*list every class in classes="
    with pytest.raises(ValueError, match=message) as error:
        make(classes=["p", "q"]).fit(X, ["p", "q", "r"])
    assert "categories" not in str(error.value)
    assert "MarginalOracle" not in str(error.value)
