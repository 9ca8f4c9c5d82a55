"""Surveys in the rest of the package: groups of users, searches on reports in files, labels by column."""

import numpy as np
import pandas as pd
import pytest

from sklearn_ldp import ColumnOracle, EmpiricalBayes, HeldOutSearch, NormSub
from sklearn_ldp.collection import aggregate, write_reports
from sklearn_ldp.oracles import estimate_by_group

STATES = [f"state {i}" for i in range(12)]
DOMAINS = {"sex": ["F", "M"], "age": 5, "state": STATES}


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    weights = np.arange(12, 0, -1.0)
    return pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n, p=[0.3, 0.7]),
            "age": rng.binomial(4, 0.4, n),
            "state": rng.choice(STATES, n, p=weights / weights.sum()),
        }
    )


TABLE = people()
WEEKS = np.resize(["first", "second", "second", "third"], len(TABLE))


def survey(**parameters):
    return ColumnOracle(**{"epsilon": 2.0, "domains": DOMAINS, "random_state": 0, **parameters})


# -- groups of users --------------------------------------------------------------------------
def test_groups_are_estimated_as_if_each_was_a_collection():
    reports = survey().privatize(TABLE)
    estimates = estimate_by_group(survey(input="reports"), reports, WEEKS)
    assert estimates.names == list(DOMAINS)
    for i, week in enumerate(["first", "second", "third"]):
        alone = survey(n_shards=1).aggregate(reports[WEEKS == week]).estimate_
        for name, part in estimates.items():
            assert part.row_names.tolist() == ["first", "second", "third"]
            np.testing.assert_allclose(part.values[i], alone[name].values[0], atol=1e-12)
            assert part[i].noise.n_samples == alone[name].noise.n_samples
            assert part[i].noise.n_users == np.sum(WEEKS == week)
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
def test_a_search_on_the_shards_of_files(tmp_path):
    for i in range(3):
        client = survey(random_state=i)
        write_reports(tmp_path / f"{i}.arrows", client.privatize(people(1000, i)), client)
    server = aggregate(tmp_path, survey(), checkpoint=tmp_path / "state.npz")
    search = HeldOutSearch().fit(server.estimate_)
    assert list(search.estimators_) == list(DOMAINS)
    assert search.estimate_["state"].values.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="In the part 'sex': .* needs a single raw estimate"):
        HeldOutSearch().fit(estimate_by_group(survey(), TABLE, WEEKS))
