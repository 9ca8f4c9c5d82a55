"""Estimates in files: what is read says the same, and a file runs no code, whoever wrote it."""

import json
import sys
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from estimators import ORACLES, slow_but
from random_question import RandomQuestion
from sklearn.base import clone

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    ColumnOracle,
    Consistent,
    Domain,
    FrequencyEstimate,
    HadamardResponse,
    HeldOutSearch,
    LatentClasses,
    LocalMean,
    MarginalOracle,
    MatrixOracle,
    NoiseModel,
    Norm,
    NormSub,
    StringOracle,
    Trend,
    load_estimate,
)
from sklearn_ldp._core.support.arrays import pack_arrays, unpack_arrays
from sklearn_ldp.inference import combine, poststratify
from sklearn_ldp.oracles import BaseOracle, estimate_by_group

CATEGORIES = [f"c{i}" for i in range(8)]
OLD = Path(__file__).parents[2] / "data" / "estimate_version_1.npz"


def through_a_file(estimate, folder):
    estimate.save(folder / "estimate.npz")
    return load_estimate(folder / "estimate.npz")


QUICK = [OLH(), HadamardResponse(2.0, n_blocks=2), MatrixOracle(), RandomQuestion()]


@pytest.mark.parametrize("oracle", slow_but(QUICK, [*ORACLES, RandomQuestion()]), ids=repr)
def test_what_an_oracle_returns_is_kept(oracle, tmp_path):
    """With noise, oracle and shards: intervals, another collection and a search are the same."""
    oracle = clone(oracle).set_params(categories=CATEGORIES, random_state=0)
    raw = oracle.fit_transform(CATEGORIES * 100)
    again = through_a_file(raw, tmp_path)
    assert repr(again) == repr(raw)
    np.testing.assert_array_equal(again.values, raw.values)
    ends = [one.confidence_interval(simultaneous=True) for one in (raw, again)]
    np.testing.assert_array_equal(*ends)
    assert again.oracle.protocol().configuration == raw.oracle.protocol().configuration
    search = HeldOutSearch([Norm(), NormSub()], random_state=0)
    found = [search.fit_transform(x).values for x in (raw, again)]
    np.testing.assert_array_equal(*found)
    post = NormSub().fit_transform(raw)
    assert through_a_file(post, tmp_path).describe() == post.describe()


USERS = np.column_stack([np.arange(8000) % 2, np.arange(8000) % 4])
COLUMNS = {"domains": {"smokes": 2, "visits": 4}, "random_state": 0}
BINS = Domain.bins(8, bounds=(0, 9), missing=True)


def months():
    june = GRR(2.0, categories=CATEGORIES, random_state=1).fit_transform(CATEGORIES * 50)
    return june, OLH(1.0, categories=CATEGORIES, random_state=0).fit_transform(CATEGORIES * 100)


def strings():
    given = {"alphabet": "ab", "max_length": 4, "n_found": 2, "expected_n_users": 4000}
    return StringOracle(6.0, random_state=0, **given).fit_transform(["abab", "aa"] * 3000)


@cache
def tables():
    return MarginalOracle(4.0, **COLUMNS).fit_transform(USERS)


OTHERS = {
    "columns": lambda: ColumnOracle(2.0, **COLUMNS).fit_transform(USERS),
    "tables": tables,
    "consistent": lambda: Consistent(non_negative=False).fit_transform(tables()),
    "latent": lambda: LatentClasses(2, n_mixtures=1).fit_transform(tables()),
    "difference": lambda: months()[0] - months()[1],
    "combined": lambda: combine(months()),
    "mean": lambda: LocalMean(1.0, bounds=(0, 1), random_state=0).fit([0.5] * 100).estimate_,
    "bins": lambda: OUE(categories=BINS, random_state=0).fit_transform([1, 2, None] * 99),
    "strings": strings,
    "days": lambda: FrequencyEstimate(
        [[0.5, 0.5]], [date(2020, 1, 1), date(2020, 1, 2)], NoiseModel(0.5, 0.25, 100)
    ),
    "odd": lambda: FrequencyEstimate([[0.5, 0.5]], [None, ("a", b"1", True)]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_every_kind_of_estimate_is_kept(name, tmp_path):
    estimate = OTHERS[name]()
    again = through_a_file(estimate, tmp_path)
    assert type(again) is type(estimate)
    assert repr(again) == repr(estimate)
    assert repr(again.describe()) == repr(estimate.describe())
    if name == "tables":
        crossed = again["visits", "smokes"], estimate["visits", "smokes"]
        np.testing.assert_array_equal(*(one.confidence_interval(0.9)[0] for one in crossed))
        assert again.independence("smokes", "visits") == estimate.independence("smokes", "visits")
    if name == "latent":
        answers = [one.answer({"smokes": 1, "visits": 3}) for one in (again, estimate)]
        np.testing.assert_array_equal(*answers)


@pytest.mark.parametrize("of", ["users", "population"])
@pytest.mark.parametrize("kind", ["weighted", "trend"])
def test_what_weights_and_weeks_know_of_their_errors_is_kept(kind, of, tmp_path):
    """Draws of the users of each group, and the standard errors of a trend, are in the file."""
    oracle = GRR(1.0, categories=CATEGORIES[:3], random_state=0)
    groups = np.arange(600) % 4
    rows = estimate_by_group(oracle, np.array(CATEGORIES)[np.arange(600) % 3], by=groups)
    if kind == "trend":
        estimate = Trend().fit_transform(rows)
    else:
        estimate = poststratify(rows, dict(enumerate([0.1, 0.2, 0.3, 0.4])))
    again = through_a_file(estimate, tmp_path)
    ends = [one.confidence_interval(0.9, of=of) for one in (estimate, again)]
    np.testing.assert_array_equal(*ends)
    np.testing.assert_array_equal(again.design_effect, estimate.design_effect)
    assert again.describe() == estimate.describe()
    # Without them there would be other intervals, or none.
    bare = estimate.with_values(estimate.values, noise=rows.noise.of_rows(0), standard_errors=None)
    if kind == "trend":
        with pytest.raises(ValueError, match="No confidence interval after Trend"):
            bare.confidence_interval(0.9, of=of)
    else:
        assert not np.allclose(bare.confidence_interval(0.9, of=of), ends[0])


def test_a_file_of_an_earlier_release_is_read():
    """Written by the first release that keeps estimates; a change of its form needs a version."""
    estimate = load_estimate(OLD)
    assert estimate.top(1)[0][0] == "b"
    assert estimate.oracle.epsilon == 1.5
    low, high = estimate.as_raw().confidence_interval(0.95)
    assert low[0, 1] < estimate["b"] < high[0, 1]


class LocalOracle(GRR):
    """One of a module that a reader may not have."""


def test_what_no_file_can_hold_is_refused_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "estimate.npz"
    raw = GRR(1.0, categories=["a", "b"], random_state=0).fit_transform(["a"] * 9)
    raw.save(path)
    before = path.read_bytes()
    for odd in (object(), lambda x: x, open):
        with pytest.raises(TypeError, match="cannot be saved, since a file holds numbers, text"):
            raw.with_values(raw.values, oracle=odd).save(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["estimate.npz"]


# ---- files that others wrote ---------------------------------------------------------------------
@pytest.fixture
def path(tmp_path):
    raw = OUE(1.0, categories=["a", "b"], random_state=0).fit_transform(["a"] * 9)
    raw.save(tmp_path / "estimate.npz")
    return tmp_path / "estimate.npz"


def forge(path, change):
    arrays = dict(unpack_arrays(path.read_bytes()))
    header = json.loads(arrays["header"].tobytes())
    change(header, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    path.write_bytes(pack_arrays(arrays))


def test_damaged_files_are_refused(path):
    """Each cut is an error that names the file, and so is a changed byte that is read."""
    content, expected, n_refused = path.read_bytes(), load_estimate(path).describe(), 0
    for n in range(0, len(content), 97):
        path.write_bytes(content[:n])
        with pytest.raises(ValueError, match="estimate.npz is no estimate that this release"):
            load_estimate(path)
    for i in range(0, len(content), 37):
        path.write_bytes(content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :])
        try:
            assert load_estimate(path).describe() == expected
        except ValueError:
            n_refused += 1
    assert n_refused > 0.8 * len(content) / 37


@pytest.mark.parametrize(
    ("objects", "match"),
    [
        ([["os:system", ["echo"]]], "os:system is nothing that an estimate holds"),
        ([["builtins:eval", ["1"]]], "builtins:eval is nothing"),
        ([["sklearn_ldp._utils.files:sweep", ["/"]]], "sweep is nothing"),
        ([["sklearn_ldp._utils.files:os", ["/"]]], "os is nothing"),
        ([["a_module_of_a_stranger:Oracle", {"dict": []}]], "import a_module_of_a_stranger first"),
        ([["sklearn_ldp.oracles:GRR", {"dict": []}]], "holds a GRR, and no estimate"),
        ([["sklearn_ldp:FrequencyEstimate", {"array": "none"}]], "KeyError"),
        ([["sklearn_ldp:FrequencyEstimate", [[[1.0]], ["a", "b"]]]], "needs values of shape"),
    ],
)
def test_forged_files_run_nothing(objects, match, path, tmp_path, monkeypatch):
    """A class is one of this package, or derived from one and imported before."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "a_module_of_a_stranger.py").write_text("raise SystemExit('it ran')\n")
    forge(path, lambda header, _: header.update(objects=objects, root={"object": 0}))
    with pytest.raises(ValueError, match=match):
        load_estimate(path)


def test_a_class_of_another_package_is_read_once_it_is_imported(path, monkeypatch):
    """Negative control of the above."""
    raw = LocalOracle(1.0, categories=["a", "b"], random_state=0).fit_transform(["a"] * 9)
    raw.save(path)
    assert isinstance(load_estimate(path).oracle, LocalOracle)
    monkeypatch.delitem(sys.modules, __name__)
    with pytest.raises(ValueError, match=f"import {__name__} first, whose LocalOracle it holds"):
        load_estimate(path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda header, _: header.update(version=2), "of version 2, and not of 1"),
        (lambda header, _: header.update(format="other"), "it is of version"),
        (lambda header, _: header.update(root="x" * 9), "holds a str, and no estimate"),
    ],
)
def test_other_formats_are_refused(change, match, path):
    forge(path, lambda _, arrays: arrays.update(extra=np.zeros(1)))
    assert load_estimate(path).shape == (1, 2)  # arrays that nothing refers to are let be
    forge(path, change)
    with pytest.raises(ValueError, match=match):
        load_estimate(path)


def test_an_open_file_is_none_of_ours_to_read_and_close(path):
    with open(path, "rb") as file:
        with pytest.raises(TypeError, match="not int"):
            load_estimate(file.fileno())
        assert file.read(2) == b"PK"


def test_deep_and_compressed_files_are_refused(path):
    deep = "[" * 100_000 + "]" * 100_000
    path.write_bytes(pack_arrays({"header": np.frombuffer(deep.encode(), np.uint8)}))
    with pytest.raises(ValueError, match="RecursionError"):
        load_estimate(path)
    with open(path, "wb") as file:
        np.savez_compressed(file, header=np.zeros(10_000_000, np.uint8))
    with pytest.raises(ValueError, match="compressed, or larger than the file"):
        load_estimate(path)
    with open(path, "wb") as file:
        np.savez(file, header=np.array([BaseOracle], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="claims dtype object"):
        load_estimate(path)
