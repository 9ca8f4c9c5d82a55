"""Files of reports: exact, checked for their configuration, and silent about who came when."""

import io
import json
import re

import numpy as np
import pytest
from estimators import ORACLES, each_way
from scipy.stats import chisquare
from sklearn.base import clone

from sklearn_ldp import GRR, OLH, OUE, SubsetSelection
from sklearn_ldp.collection import (
    RefusedBatchError,
    aggregate,
    describe_reports,
    read_reports,
    report_configuration,
    tally_file,
    write_reports,
)
from sklearn_ldp.oracles.channels import ReportField

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FORMATS = ["parquet", "arrow", "jsonl"]
SUFFIX = {"parquet": ".parquet", "arrow": ".arrows", "jsonl": ".jsonl"}
CATEGORIES = [f"c{i}" for i in range(13)]


def written(oracle, reports, form="arrow", **options):
    file = io.BytesIO()
    write_reports(file, reports, oracle, format=form, **options)
    return file.getvalue()


def as_multiset(reports):
    return sorted(map(str, reports.tolist()))


@pytest.mark.parametrize("form", FORMATS)
def test_files_of_several_pieces(form, tmp_path, monkeypatch):
    monkeypatch.setattr("sklearn_ldp._core.aggregation.formats._MAX_GROUP", 100)
    path = tmp_path / f"reports{SUFFIX[form]}"
    oracle = GRR(1.0, categories=300, random_state=0)
    reports = oracle.privatize(np.arange(1234) % 300)
    write_reports(path, reports, oracle, random_state=0)
    assert as_multiset(read_reports(path, oracle)) == as_multiset(reports)
    assert tally_file(path, oracle).n_samples == 1234


def test_columns_are_integers_of_the_smallest_type(tmp_path):
    def types(oracle):
        path = tmp_path / "reports.parquet"
        write_reports(path, oracle.privatize(oracle.categories[:2]), oracle)
        return [str(kind) for kind in pq.read_schema(path).types]

    assert types(GRR(1.0, categories=list(range(256)))) == ["uint8"]
    assert types(GRR(1.0, categories=list(range(257)))) == ["uint16"]
    assert types(OLH(1.0, categories=list(range(1000)))) == ["uint16", "uint8"]
    assert types(OUE(1.0, categories=list(range(17)))) == ["fixed_size_binary[3]"]
    (sets,) = types(SubsetSelection(1.0, categories=list(range(12))))
    assert re.fullmatch(r"fixed_size_list<\w+: uint8 not null>\[3\]", sets)


def test_parquet_is_zstd_with_the_configuration_in_its_schema(tmp_path):
    path = tmp_path / "reports.parquet"
    oracle = OLH(1.0, categories=CATEGORIES)
    batch_id = write_reports(path, oracle.privatize(["c1"]), oracle, collection_round="may")
    file = pq.ParquetFile(path)
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    header = json.loads(file.schema_arrow.metadata[b"sklearn_ldp"])
    assert header["configuration"] == report_configuration(oracle, collection_round="may")
    assert describe_reports(path)["batch_id"] == batch_id
    assert describe_reports(path)["n_samples"] == 1


def test_readers_refuse_reports_that_are_numbered_otherwise(monkeypatch):
    oracle = GRR(1.0, categories=["a", "b"])
    content = written(oracle, [0, 1])
    monkeypatch.setattr(type(oracle.channel()), "report_fields", (ReportField("report", 3),))
    with pytest.raises(RefusedBatchError, match="report 'report < 2' instead of 'report < 3'"):
        read_reports(content, clone(oracle), format="arrow")


@pytest.mark.parametrize("batch_id", [b'""', b"7", b'"%s"' % (b"x" * 1001)])
def test_readers_refuse_batches_without_a_valid_id(batch_id):
    oracle = GRR(1.0, categories=["a", "b"])
    content = written(oracle, [0, 1], "jsonl")
    assert read_reports(content, clone(oracle), format="jsonl").shape == (2,)
    damaged, n_changes = re.subn(rb'"id": *"[^"]*"', b'"id": ' + batch_id, content)
    assert n_changes == 1
    with pytest.raises(RefusedBatchError, match="must be a string of 1 to 1000 characters"):
        read_reports(damaged, clone(oracle), format="jsonl")


def test_readers_refuse_another_version():
    oracle = GRR(1.0, categories=["a", "b"])
    later = written(oracle, [0, 1], "jsonl").replace(b'"version": 1', b'"version": 2')
    with pytest.raises(
        RefusedBatchError, match="format version 2, but this release reads only version 1"
    ):
        read_reports(later, oracle, format="jsonl")


@pytest.mark.parametrize("form", FORMATS)
def test_readers_refuse_cut_files(form):
    oracle = GRR(1.0, categories=300)
    content = written(oracle, np.arange(300), form)
    read_reports(content, oracle, format=form)
    for length in [0, 1, 8, *range(20, len(content), len(content) // 50)]:
        if content[length:] in (b"\n", b"\0" * 4 + b"\xff" * 4):
            continue
        with pytest.raises(RefusedBatchError):
            tally_file(content[:length], oracle, format=form)


def test_the_domain_digest_knows_order_and_type_but_not_the_container():
    def digest(categories):
        return report_configuration(GRR(1.0, categories=categories))["domain_sha256"]

    assert digest(3) == digest([0, 1, 2]) == digest(np.arange(3, dtype=np.uint8))
    assert digest(["a", "b"]) == digest(np.array(["a", "b"]))
    texts = [["a", "b"], ["b", "a"], ["ab", ""], ["1", "2"]]
    distinct = [*texts, [b"a", b"b"], [("a",), ("b",)], [1, 2]]
    assert len({digest(categories) for categories in distinct}) == len(distinct)
    with pytest.raises(TypeError, match="must have a form that is the same on every"):
        digest([object(), object()])


def test_formats_are_told_by_names(tmp_path):
    oracle = GRR(1.0, categories=["a", "b"])
    for name in ("r.arrow", "r.arrows"):
        write_reports(tmp_path / name, [0, 1], oracle, batch_id="a")
        assert sorted(read_reports(tmp_path / name, oracle)) == [0, 1]
    assert aggregate(tmp_path, oracle, on_repeat="ignore").n_samples == 2
    with pytest.raises(ValueError, match=r"a name that ends with one of \.parquet"):
        write_reports("reports.csv", [0], oracle)
    with pytest.raises(ValueError, match="format must be one of"):
        write_reports("reports.csv", [0], oracle, format="csv")


def test_without_pyarrow_there_are_json_lines(monkeypatch):
    monkeypatch.setattr("sklearn_ldp._core.aggregation.formats.find_spec", lambda name: None)
    oracle = GRR(1.0, categories=["a", "b"])
    with pytest.raises(ImportError, match=r"needs pyarrow. Run pip install 'sklearn_ldp\[data\]'"):
        written(oracle, [0, 1])
    assert read_reports(written(oracle, [0, 1], "jsonl"), oracle, format="jsonl").size == 2


# -- what the order could tell ------------------------------------------------------------------
def order_score(oracle, reports):
    """z-score of whether reports for c0 come earlier; all of its users are in the first half."""
    supports = oracle.channel().supports(np.asarray(reports), np.array([0]))[:, 0]
    place, n = np.flatnonzero(supports) + 0.5, len(reports)
    m = len(place)
    variance = (n**2 - 1) / 12 * (n - m) / (n - 1) / m  # of the mean of m places out of n
    return (place.mean() - n / 2) / np.sqrt(variance)


@pytest.mark.parametrize("oracle", each_way(ORACLES), ids=str)
def test_the_order_of_reports_says_nothing(oracle, seed):
    """|z| < 5: a false alarm has probability 6e-7 per case."""
    oracle = clone(oracle).set_params(categories=CATEGORIES, epsilon=3.0, random_state=seed)
    reports = oracle.privatize(["c0"] * 1000 + ["c7"] * 1000)
    content = written(oracle, reports)  # a secure shuffle
    assert abs(order_score(oracle, read_reports(content, oracle, format="arrow"))) < 5
    # The negative control: what is kept in the order of arrival gives the users away.
    assert abs(order_score(oracle, reports)) > 5


def own_place_p_value(codes, reports):
    """p-value of the hypothesis that a user's own category has a uniform place in her set."""
    _, place = np.nonzero(reports == codes[:, None])
    return chisquare(np.bincount(place, minlength=reports.shape[1])).pvalue


def test_the_order_inside_a_set_says_nothing(seed):
    """A false alarm has probability 1e-6."""
    codes = np.random.default_rng(seed).integers(20, size=20_000)
    oracle = SubsetSelection(1.0, categories=20, random_state=seed)
    reports = oracle.privatize(codes)
    assert own_place_p_value(codes, reports) > 1e-6
    # The negative control: the user's category first, as some packages report it.
    own = reports == codes[:, None]
    first = np.take_along_axis(reports, np.argsort(~own, axis=1, kind="stable"), axis=1)
    assert own_place_p_value(codes, first) < 1e-6
    # No such report gets into a file, or out of one.
    with pytest.raises(RefusedBatchError, match="sorted, distinct integers"):
        written(oracle, first)


def test_spare_bits_say_nothing():
    """Unused bits after the last category could carry information that reports may not carry."""
    oracle = OUE(1.0, categories=10)
    content = written(oracle, np.ones((1, 10), dtype=np.uint8))
    assert content.count(b"\xff\xc0") == 1
    with pytest.raises(RefusedBatchError, match="zeros after the last"):
        read_reports(content.replace(b"\xff\xc0", b"\xff\xc1"), oracle, format="arrow")
