"""Estimates in files: what is read says the same, and a file runs no code, whoever wrote it."""

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from datetime import date
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from estimators import ORACLES, SURVEYS, TABLE_ORACLES, slow_but
from random_question import QuestionChannel, RandomQuestion
from sklearn.base import clone

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    ColumnOracle,
    Consistent,
    Domain,
    EstimateSet,
    FrequencyEstimate,
    HadamardResponse,
    HeldOutSearch,
    ItemOracle,
    KeyValueOracle,
    LatentClasses,
    LocalMean,
    MarginalOracle,
    MatrixOracle,
    NoiseModel,
    Norm,
    NormSub,
    RangeOracle,
    SmoothMLE,
    StringOracle,
    Trend,
    load_estimate,
)
from sklearn_ldp._core.common import kept, tags
from sklearn_ldp._core.common.arrays import pack_arrays, unpack_arrays
from sklearn_ldp._core.mechanisms import matrix
from sklearn_ldp._core.mechanisms.several import QuestionView
from sklearn_ldp._core.noise import CategoryLaw
from sklearn_ldp.collection import Aggregator
from sklearn_ldp.inference import combine, poststratify
from sklearn_ldp.oracles import BaseOracle, estimate_by_group
from sklearn_ldp.queries import full_domain, groups, mean, prefixes, ranges
from sklearn_ldp.surveys import ResponseDesign

NUMBERS = np.linspace(-0.2, 9.2, 300)
CATEGORIES = [f"c{i}" for i in range(8)]
OLD = Path(__file__).parents[2] / "data" / "estimate_version_1.npz"


def through_a_file(estimate, folder):
    estimate.save(folder / "estimate.npz")
    return load_estimate(folder / "estimate.npz", classes=[RandomQuestion, QuestionChannel])


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
CLIPPED = Domain.bins(8, bounds=(0, 9), clip=True)
WHOLE = Domain.bins(5, bounds=(0, 9), integers=True, missing="no answer")
WHOLE_BINS = Domain.bins(4, bounds=(0, 9), integers=True)
NAMED = Domain(["yes", "no", None], missing="no answer")
LABELED = Domain.bins([3, 6], labels=["low", "middle", "high"])


def months():
    june = GRR(2.0, categories=CATEGORIES, random_state=1).fit_transform(CATEGORIES * 50)
    return june, OLH(1.0, categories=CATEGORIES, random_state=0).fit_transform(CATEGORIES * 100)


def strings():
    given = {"alphabet": "ab", "max_length": 4, "n_found": 2, "expected_n_users": 4000}
    return StringOracle(6.0, random_state=0, **given).fit_transform(["abab", "aa"] * 3000)


def by_bins(queries):
    return MatrixOracle(categories=CLIPPED, queries=queries, random_state=0).fit_transform(NUMBERS)


def smooth():
    oracle = MatrixOracle(categories=CLIPPED, strategy="square-wave", random_state=0)
    return SmoothMLE().fit_transform(oracle.fit_transform(NUMBERS))


def grid():
    oracle = RangeOracle(2.0, categories=Domain.grid(CLIPPED, WHOLE_BINS), random_state=0)
    return oracle.fit_transform(np.column_stack([NUMBERS, np.arange(300) % 10]))


def of_survey(survey):
    survey = clone(survey.values[0] if hasattr(survey, "values") else survey)
    domains = {"age": WHOLE, "smokes": NAMED, "visits": CLIPPED}
    rows = [[i % 10, ["yes", "no", None][i % 3], i % 8 + 0.5] for i in range(300)]
    rows = np.array(rows, dtype=object)
    return survey.set_params(domains=domains, random_state=0).fit_transform(rows)


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
    "clipped bins": lambda: OUE(categories=CLIPPED, random_state=0).fit_transform(NUMBERS),
    "whole numbers": lambda: OUE(categories=WHOLE, random_state=0).fit_transform([0, 9, None] * 99),
    "labeled bins": lambda: OUE(categories=LABELED, random_state=0).fit_transform([1, 4, 7] * 99),
    "a named missing answer": lambda: GRR(categories=NAMED, random_state=0).fit_transform(
        ["yes", "no", None] * 99
    ),
    "two columns": lambda: OLH(
        categories=Domain.product([NAMED, range(3)]), random_state=0
    ).fit_transform([("yes", 1), (None, 2)] * 99),
    "row names": lambda: estimate_by_group(
        GRR(categories=2, random_state=0),
        [0, 1, 1] * 9,
        [date(2020, 1, 1), date(2020, 1, 2), date(2020, 1, 2)] * 9,
    ),
    "listed groups": lambda: by_bins(groups([CLIPPED.categories[:2].tolist()])),
    "named groups": lambda: by_bins(groups({"low": CLIPPED.categories[:3].tolist()})),
    "labels of groups": lambda: by_bins(groups([0, 0, 0, 1, 1, 1, 1, 1])),
    "several queries": lambda: by_bins([prefixes(), full_domain(), ranges(2)]),
    "a mean and a matrix": lambda: by_bins([mean(np.arange(8)), np.eye(8)[:2]]),
    "a tree": lambda: RangeOracle(categories=512, random_state=0).fit_transform(range(512)),
    "a grid": grid,
    "a smooth grid": lambda: SmoothMLE().fit_transform(grid()),
    "smooth": smooth,
    "a design": lambda: ResponseDesign.crosswise(0.25).oracle().fit_transform([0, 1, 1] * 99),
    "items": lambda: ItemOracle(categories=CATEGORIES, max_items=2, random_state=0).fit_transform(
        [["c0", "c1"], ["c2"]] * 99
    ),
    "hashed items": lambda: ItemOracle(
        categories=range(3000), max_items=2, random_state=0
    ).fit_transform([[0, 1], [2]] * 99),
    "keys and values": lambda: KeyValueOracle(
        categories=["book", "film"], bounds=(1, 5), max_items=2, random_state=0
    ).fit_transform([{"film": 5, "book": 1}, {"film": 4}] * 99),
    **{f"survey {i}": partial(of_survey, one) for i, one in enumerate([*SURVEYS, *TABLE_ORACLES])},
    "strings": strings,
    "days": lambda: FrequencyEstimate(
        [[0.5, 0.5]], [date(2020, 1, 1), date(2020, 1, 2)], NoiseModel(0.5, 0.25, 100)
    ),
    "odd": lambda: FrequencyEstimate([[0.5, 0.5]], [None, ("a", b"1", True)]),
}


def parts(estimate):
    return [*estimate.values()] if isinstance(estimate, EstimateSet) else [estimate]


@pytest.mark.parametrize("name", OTHERS)
def test_every_kind_of_estimate_is_kept(name, tmp_path):
    estimate = OTHERS[name]()
    again = through_a_file(estimate, tmp_path)
    assert type(again) is type(estimate)
    assert repr(again) == repr(estimate)
    assert repr(again.describe()) == repr(estimate.describe())
    for part, other in zip(parts(again), parts(estimate), strict=True):
        values = [getattr(x, "mean" if name == "mean" else "values") for x in (part, other)]
        np.testing.assert_array_equal(*values)
        ends = []
        for x in (part, other):
            try:
                ends.append(x.confidence_interval(0.9))
            except ValueError as error:
                ends.append(str(error))
        np.testing.assert_array_equal(*ends)
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
        with pytest.raises(ValueError, match="No confidence interval is available after Trend"):
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
        with pytest.raises(TypeError, match="cannot be saved, because a file contains only"):
            raw.with_values(raw.values, oracle=odd).save(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["estimate.npz"]


# ---- files that others wrote ---------------------------------------------------------------------
@pytest.fixture
def path(tmp_path):
    raw = OUE(1.0, categories=["a", "b"], random_state=0).fit_transform(["a"] * 9)
    raw.save(tmp_path / "estimate.npz")
    return tmp_path / "estimate.npz"


def forge(path, change, is_sealed=True):
    """Change a file as anybody can who knows the format, or without the digest."""
    arrays = dict(unpack_arrays(path.read_bytes()))
    header = json.loads(arrays["header"].tobytes())
    change(header, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    content = pack_arrays(arrays, b"0" * 64)
    content[-64:] = hashlib.sha256(content[:-64]).hexdigest().encode() if is_sealed else b"0" * 64
    path.write_bytes(content)


def test_damaged_files_are_refused(path):
    """Each cut and each changed byte is an error that names the file."""
    content = path.read_bytes()
    for n in range(0, len(content), 97):
        path.write_bytes(content[:n])
        with pytest.raises(
            ValueError, match="estimate.npz does not contain an estimate that this release"
        ):
            load_estimate(path)
    for i in range(0, len(content), 37):
        path.write_bytes(content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :])
        with pytest.raises(
            ValueError, match="estimate.npz does not contain an estimate that this release"
        ):
            load_estimate(path)


def test_a_careless_edit_is_refused(path):
    forge(path, lambda *_: None)  # control: the same content with its digest
    load_estimate(path)
    forge(path, lambda *_: None, is_sealed=False)
    with pytest.raises(
        ValueError, match="the SHA-256 does not match, so the file was damaged or edited"
    ):
        load_estimate(path)


NAMED_FILE = ["sklearn_ldp._utils.files:_NamedFile", ["made", "x"]]
MEMO = ["sklearn_ldp._collection._repeated_client:RepeatedClient", {"dict": [["memo", "made"]]}]
UNKNOWN = "which is unknown to this release. If it is a class of another package that you trust"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("objects", "match"),
    [
        (
            [["os:system", ["echo"]]],
            f"contains 'os:system', {UNKNOWN}, pass the class: load_estimate",
        ),
        ([["builtins:eval", ["1"]]], UNKNOWN),
        ([["sklearn_ldp._utils.files:sweep", ["/"]]], UNKNOWN),
        ([NAMED_FILE], UNKNOWN),
        ([MEMO], UNKNOWN),
        ([["a_module_of_a_stranger:Oracle", {"dict": []}]], r"classes=\[Oracle\]"),
        (
            [["matrix-channel", [[[1]]]]],
            r"can read \(AttributeError",
        ),
        ([["grr", {"dict": []}]], "contains a GRR"),
        ([["frequency-estimate", {"array": "none"}]], "KeyError"),
        ([["frequency-estimate", [[[1.0]], ["a", "b"]]]], "got values of shape"),
    ],
)
def test_forged_files_run_nothing(objects, match, version, path, tmp_path, monkeypatch):
    """A file names tags, and neither imports a module nor calls what has effects."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_module_of_a_stranger.py").write_text("raise SystemExit('it ran')\n")
    forge(path, lambda h, _: h.update(objects=objects, root={"object": 0}, version=version))
    with pytest.raises(ValueError, match=match):
        load_estimate(path)
    assert not (tmp_path / "made").exists()


def test_a_class_of_another_package_is_read_if_the_caller_passes_it(path):
    """Negative control of the above."""
    raw = LocalOracle(1.0, categories=["a", "b"], random_state=0).fit_transform(["a"] * 9)
    raw.save(path)
    assert isinstance(load_estimate(path, classes=[LocalOracle]).oracle, LocalOracle)
    with pytest.raises(ValueError, match=rf"contains '{__name__}:LocalOracle'.*=\[LocalOracle\]"):
        load_estimate(path)


def test_a_channel_of_a_file_is_not_what_this_process_takes_for_an_oracles(path):
    """A forged key once replaced the channel of every later oracle with the same parameters."""
    oracle = MatrixOracle(1.0, categories=["a", "b"], random_state=0)
    oracle.fit_transform(["a"] * 9).save(path)
    matrix._KEPT.clear()
    load_estimate(path)
    assert not matrix._KEPT
    oracle.channel()  # control: an oracle does keep its channel
    assert matrix._KEPT


# ---- edits that do not belong together -----------------------------------------------------------
def first(header, tag):
    """The parts of the first object with a tag."""
    return next(parts for name, *parts in header["objects"] if name == tag)


def put(header, tag, attribute, value):
    """Replace an attribute of the first object with a tag."""
    (pair,) = (pair for pair in first(header, tag)[-1]["dict"] if pair[0] == attribute)
    pair[1] = value


def change_array(arrays, attribute, header, tag, change):
    (pair,) = (pair for pair in first(header, tag)[-1]["dict"] if pair[0] == attribute)
    name = pair[1]["array"]
    arrays[name] = change(np.array(arrays[name]))


def change_values(header, arrays, change):
    name = first(header, "frequency-estimate")[0][0]["array"]
    arrays[name] = change(np.array(arrays[name]))


def changed_oracle(header, parameter, value):
    (pair,) = (pair for pair in first(header, "oue")[0]["dict"] if pair[0] == parameter)
    pair[1] = value


def of_counts(attribute, change):
    return lambda h, a: change_array(a, attribute, h, "counts", change)


EDITS = {
    "swapped values": lambda h, a: change_values(h, a, lambda x: np.ascontiguousarray(x[:, ::-1])),
    "complex values": lambda h, a: change_values(h, a, lambda x: x + 1j),
    "NaN": lambda h, a: change_values(h, a, lambda x: x * np.nan),
    "a category twice": lambda h, _: put(h, "category-list", "categories", TWICE),
    "NaN twice": lambda h, _: put(h, "category-list", "categories", {"objects": [NAN, NAN, [2]]}),
    "negative tallies": of_counts("tallies", lambda x: x - 100),
    "fractional tallies": of_counts("tallies", lambda x: x + 0.5),
    "other tallies": of_counts("tallies", lambda x: np.roll(x, 1, axis=2)),
    "no reports": of_counts("sizes", lambda x: x * 0),
    "p of a channel": lambda h, _: put(h, "unary-channel", "p", {"fraction": "3/4"}),
    "p of the noise": lambda h, _: put(h, "noise", "p", 1e9),
    "no users": lambda h, _: put(h, "noise", "n_samples", 0),
    "another epsilon": lambda h, _: changed_oracle(h, "epsilon", 5.0),
    "epsilon as a text": lambda h, _: changed_oracle(h, "epsilon", "5"),
    "an endless fraction": lambda h, _: put(h, "unary-channel", "p", {"fraction": "1e99999999"}),
    "a long fraction": lambda h, _: put(h, "unary-channel", "p", {"fraction": "9" * 9999}),
    "objects": lambda h, _: put(h, "domain", "_dtype", {"dtype": "O"}),
    "a sparse array": lambda h, _: changed_oracle(h, "categories", OUT_OF_RANGE),
    "an object in another slot": lambda h, _: put(h, "noise", "has_slope", {"object": 0}),
    "a number in the place of terms": lambda h, _: put(h, "noise", "terms", {"tuple": [1.0]}),
    "dates as numbers of users": lambda h, _: put(h, "noise", "n_users", {"array": "days"}),
    "a category's distribution": lambda h, _: h["objects"].append(FACTORS),
    "a block of dates": lambda h, _: h["objects"].append(BLOCK),
    "one shape of two numbers": lambda h, _: h["objects"].append(["components", [], SIZES]),
    "a mean without bounds": lambda h, _: h["objects"].append(["mean-estimate", [], {"dict": []}]),
    "a claimed shape": lambda h, _: h["objects"].append(["frequency-estimate", CLAIM]),
    "another claimed shape": lambda h, _: h["objects"].append(["frequency-estimate", OBJECTS]),
    "an error of other rows": lambda h, _: first(h, "term")[0].__setitem__(slice(5), TERM),
    "an error of other categories": lambda h, _: first(h, "term")[0].__setitem__(slice(5), ORDERED),
    "a field": lambda h, _: h["objects"].append(["finite-field", [], ORDER]),
}
NAN = float("nan")
TWICE = {"objects": ["a", "a", [2]]}
ORDER = {"dict": [["order", 2**62]]}
INDICES = [{"array": "array_0"}, {"array": "far"}, {"array": "ends"}]
FACTORS = ["category-law", [1.0, 0.0, 0.0, 0.0, [1]]]
DAYS = [["columns", {"array": "days"}], ["places", {"array": "days"}]]
BLOCK = ["block", [], {"dict": [["shape", {"tuple": [2]}], *DAYS]}]
SIZES = {"dict": [["sizes", {"tuple": [2, 0.5]}]]}
CLAIM = [{"array": "empty"}, {"object": 0}]
OBJECTS = [{"objects": [[0, 10**12]]}, {"object": 0}]
TERM = [{"object": 2}, {"array": "far"}, 9, None, None]
ORDERED = [{"object": 2}, 1.0, 9, {"array": "four"}, None]
OUT_OF_RANGE = {"sparse": [*INDICES, [1, 2]]}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_refused_although_its_digest_fits(name, path):
    def change(header, arrays):
        arrays |= {"days": np.array(["2020-01-01"], "M8[D]"), "empty": np.zeros((0, 10**12))}
        arrays |= {"four": np.arange(4)}
        arrays |= {"far": np.array([1, 10**9]), "ends": np.array([0, 2])}
        EDITS[name](header, arrays)

    before = path.read_bytes()
    forge(path, change)
    assert path.read_bytes() != before
    with pytest.raises(
        ValueError, match=r"estimate.npz does not contain an estimate that .* \((?!KeyError)"
    ):
        load_estimate(path)


@pytest.mark.slow
def test_mutated_files_are_read_as_they_were_or_refused(seed):
    """The command runs in a process of its own, because it limits the memory of its process."""
    arguments = ["--estimates", "2000", "--seed", str(seed)]
    command = [sys.executable, "-m", "benchmarks.security.hostile_files", *arguments]
    done = subprocess.run(command, cwd=OLD.parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2,000 files" in done.stdout
    assert "0 failures" in done.stdout


@pytest.mark.parametrize(
    ("epsilon", "is_read"), [(1.0, True), (2.0, False)], ids=["as it was", "another"]
)
def test_the_epsilon_of_a_computed_channel_is_compared(epsilon, is_read, path):
    MatrixOracle(1.0, categories=3, random_state=0).fit_transform([0, 1] * 9).save(path)

    def change(header, _):
        (pair,) = (x for x in first(header, "matrix-oracle")[0]["dict"] if x[0] == "epsilon")
        pair[1] = epsilon

    forge(path, change)
    if is_read:
        assert load_estimate(path).oracle.epsilon == epsilon
    else:
        with pytest.raises(ValueError, match="its noise is not the noise of its oracle"):
            load_estimate(path)


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_tree_is_the_tree_of_its_oracle(is_changed, path):
    RangeOracle(categories=512, random_state=0).fit_transform(range(512)).save(path)

    def change(header, arrays):
        if is_changed:
            change_array(arrays, "_widths", header, "tree-channel", lambda x: x * 2)

    forge(path, change)
    if is_changed:
        with pytest.raises(
            ValueError, match="its noise is not the noise of its oracle RangeOracle"
        ):
            load_estimate(path)
    else:
        assert load_estimate(path).shape == (1, 512)


@pytest.mark.parametrize("name", ["_widths", "_shape", None])
def test_a_grid_is_the_grid_of_its_oracle(name, path):
    grid().save(path)

    def change(header, arrays):
        if name == "_widths":
            change_array(arrays, "_widths", header, "grid-channel", lambda x: x[::-1])
        elif name == "_shape":
            put(header, "grid-channel", "_shape", {"tuple": [4, 8]})

    forge(path, change)
    if name is None:
        assert load_estimate(path).domain.grid_ends is not None
    else:
        with pytest.raises(ValueError, match="its noise is not the noise|must be divisors"):
            load_estimate(path)


def test_a_design_of_a_file_has_probabilities(path):
    ResponseDesign.crosswise(0.25).oracle().fit_transform([0, 1, 1] * 99).save(path)

    def change(header, arrays):
        change_array(arrays, "channel", header, "response-design", lambda x: x * np.inf)

    forge(path, change)
    with pytest.raises(ValueError, match="The matrix of the design .* is not valid"):
        load_estimate(path)


def test_attributes_have_the_types_that_their_class_declares():
    """A float is finite; NumPy numbers count as numbers."""
    law = CategoryLaw(1.0, np.float32(0.5), 0, 0)
    tags.check_types(law)
    tags.check_types(law._replace(factors=len))
    for other in ({"slope": np.nan}, {"curvature": "0"}, {"factors": [1]}, {"slope": None}):
        with pytest.raises(ValueError, match="of a CategoryLaw does not have the type"):
            tags.check_types(law._replace(**other))
    view = QuestionView((0, np.int64(1)), (2, 1), 4)
    tags.check_types(view)
    for columns in ([0, 1], (0, 0.5), ("a",), 3, None):
        with pytest.raises(
            ValueError, match="the attribute columns of a QuestionView does not have the type"
        ):
            tags.check_types(replace(view, columns=columns))


def test_objects_that_share_an_array_cannot_multiply_the_work(path):
    def change(header, arrays):
        arrays["large"] = np.zeros((1, 100_000))
        header["root"] = [[{"array": "large"}] * 1000, header["root"]]

    forge(path, change)
    with pytest.raises(ValueError, match="its objects refer to the same array too often"):
        load_estimate(path)


def test_objects_that_share_tallies_cannot_multiply_the_work(path):
    """Each check of the tallies counts as work, and so do the checks of whole estimates."""

    def change(header, arrays):
        (shards,) = (i for i, (name, *_) in enumerate(header["objects"]) if name == "shards")
        header["objects"] += [header["objects"][shards]] * n_more
        counts = first(header, "counts")[-1]["dict"]
        (name,) = (x[1]["array"] for x in counts if x[0] == "tallies")
        arrays[name] = np.concatenate([arrays[name], np.zeros((1, 49_999, 2), np.int64)], axis=1)
        (name,) = (x[1]["array"] for x in counts if x[0] == "sizes")
        arrays[name] = np.concatenate([arrays[name], np.zeros((1, 49_999), np.int64)], axis=1)

    content = path.read_bytes()
    n_more = 3  # control
    forge(path, change)
    load_estimate(path)
    path.write_bytes(content)
    n_more = 1000
    forge(path, change)
    with pytest.raises(ValueError, match="its objects refer to the same array too often"):
        load_estimate(path)


def test_every_class_that_files_may_name_has_a_tag_that_stays():
    """Files of version 1 name them by modules; each of these names is one of a tag."""
    table = kept._names_of_version_1()
    assert len(table) == 71
    assert None not in table.values()
    assert table["sklearn_ldp.oracles._direct:GRR"] is tags.TAGGED["grr"] is GRR
    untagged = [one for one in ORACLES if tags.tag_of(type(one)) is None]
    assert untagged == []


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda header, _: header.update(version=3), "version 3, but this release reads only"),
        (lambda header, _: header.update(format="other"), "the file has the format"),
        (lambda header, _: header.update(root="x" * 9), "contains a str. Pass"),
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
    with pytest.raises(ValueError, match="repeated, or larger than the file"):
        load_estimate(path)
    with open(path, "wb") as file:
        np.savez(file, header=np.array([BaseOracle], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="claims dtype object"):
        load_estimate(path)


@pytest.mark.parametrize(
    ("collection_round", "key", "options"),
    [
        ("", None, ""),
        ("may", None, ", collection_round='may'"),
        ("may", b"k" * 32, ", collection_round='may', key=key"),
    ],
    ids=["plain", "round", "signed"],
)
def test_a_checkpoint_is_not_an_estimate_and_the_error_names_the_call(
    collection_round, key, options, tmp_path
):
    """The call of the error works: the estimate of the loaded checkpoint can be saved and read."""
    oracle = GRR(2.0, categories=["no", "yes"])
    path = tmp_path / "state.npz"
    server = Aggregator(oracle, collection_round=collection_round, key=key)
    reports = oracle.protocol(collection_round).privatize(["no", "yes"] * 100)
    server.add(reports, batch_id="1")
    server.save(path)
    expected = f"Aggregator.load(path, GRR(2.0, categories=..){options}).estimate_"
    with pytest.raises(ValueError, match="is a checkpoint of a data collection") as caught:
        load_estimate(path)
    assert expected in str(caught.value)
    call = expected.replace("categories=..", "categories=['no', 'yes']")
    estimate = eval(call, {"Aggregator": Aggregator, "GRR": GRR, "path": path, "key": key})
    estimate.save(tmp_path / "estimate.npz")
    loaded = load_estimate(tmp_path / "estimate.npz")
    np.testing.assert_array_equal(loaded.values, server.estimate_.values)


@pytest.mark.parametrize(
    "configuration",
    [None, [], {"oracle": "os.system('x')", "epsilon": 1.0}, {"oracle": "GRR", "epsilon": "1"}],
)
def test_an_error_repeats_no_unchecked_claim_of_a_checkpoint(configuration, tmp_path):
    header = {"format": "sklearn_ldp checkpoint", "configuration": configuration}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(tmp_path / "state.npz", header=text)
    with pytest.raises(ValueError, match=r"Aggregator\.load\(path, oracle\)\.estimate_"):
        load_estimate(tmp_path / "state.npz")
