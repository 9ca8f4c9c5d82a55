"""Files of earlier versions: those before the redesign, and every format of every release."""

import gzip
import json
import shutil
from pathlib import Path

import formats
import numpy as np
import pytest
from sklearn.base import clone

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    HadamardResponse,
    ProjectiveGeometryResponse,
    SubsetSelection,
    __version__,
    load_estimate,
)
from sklearn_ldp._serve.slots import Slots
from sklearn_ldp.collection import Aggregator, RefusedBatchError, aggregate, read_reports

FOLDER = Path(__file__).parent.parent / "data" / "version_1"
CATEGORIES = ["red", "green", "blue", "grey"]
# 40 users each, and the estimate that the code printed at that time.
WRITTEN = {
    "grr": (GRR(2.0), [0.5752141141997327, 0.1686964714500669, 0.1280447071751003]),
    "oue": (OUE(1.0), [0.6754069879392021, -0.2983720482431916, 0.5672093172522695]),
    "olh": (OLH(1.0), [0.9983720482431916, 0.0, 0.5546511379128842]),
    "mixing": (OLH(1.0, hash_family="mixing"), [0.3327906827477306, 0.4437209103303073, 0.0]),
    "subset": (SubsetSelection(1.0), [0.41639534137386525, 0.499593012060798, 0.16680232931306738]),
    "hadamard": (HadamardResponse(1.0), [1.0819767068693265, -0.2163953413738652]),
    "projective": (ProjectiveGeometryResponse(1.0), [0.25, 0.499593012060798]),
}
FILES = sorted(path.name for path in FOLDER.iterdir())


def oracle_of(name):
    oracle, first = WRITTEN[name.partition(".")[0]]
    return clone(oracle).set_params(categories=CATEGORIES), first


def test_all_files_are_there():
    assert len(FILES) == 20
    assert {name.partition(".")[0] for name in FILES} == set(WRITTEN)


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith("npz")])
def test_reports_are_read(name):
    oracle, first = oracle_of(name)
    assert len(read_reports(FOLDER / name, oracle, collection_round="2026")) == 40
    server = aggregate(FOLDER / name, oracle, collection_round="2026")
    np.testing.assert_allclose(server.estimate_.values[0, : len(first)], first, atol=1e-12)
    with pytest.raises(RefusedBatchError, match="collection_round '2026' instead of '2027'"):
        read_reports(FOLDER / name, oracle, collection_round="2027")


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith("npz")])
def test_checkpoints_are_resumed(name):
    oracle, first = oracle_of(name)
    server = Aggregator.load(FOLDER / name, oracle, collection_round="2026")
    assert dict(server.batches) == {f"{name.partition('.')[0]}-1": 40}
    assert server.summary().refused[0].reason == "because"
    np.testing.assert_allclose(server.estimate_.values[0, : len(first)], first, atol=1e-12)
    with pytest.raises(ValueError, match="epsilon"):
        Aggregator.load(FOLDER / name, oracle.set_params(epsilon=9.0), collection_round="2026")


# ---- what `make formats` wrote of each version ---------------------------------------------------
WRITTEN_BY = sorted(path.name for path in formats.FOLDER.iterdir())


def expected(version):
    return json.loads((formats.FOLDER / version / "expected.json").read_text(encoding="utf-8"))


def assert_tells(estimate, found):
    """The estimate of today is that of the time, but for the order of sums of floats."""
    if isinstance(found, dict):
        assert {str(key) for key in estimate} == set(found)
        for key in estimate:
            assert_tells(estimate[key], found[str(key)])
    else:
        np.testing.assert_allclose(formats.told(estimate), found, rtol=1e-9, atol=1e-9)


def test_this_version_has_written_its_files():
    assert __version__ in WRITTEN_BY
    assert set(expected(__version__)["reports"]) == set(formats.ORACLES)


@pytest.mark.parametrize("version", WRITTEN_BY)
def test_files_and_checkpoints_of_a_release_are_read(version, tmp_path):
    folder = tmp_path / "files"
    shutil.copytree(formats.FOLDER / version, folder)
    for path in folder.glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
    for name, found in expected(version)["reports"].items():
        oracle = formats.ORACLES[name]
        for form in formats.FORMATS:
            server = aggregate(folder / f"{name}.{form}", oracle, collection_round=formats.ROUND)
            assert_tells(server.estimate_, found)
        server = Aggregator.load(folder / f"{name}.npz", oracle, collection_round=formats.ROUND)
        assert_tells(server.estimate_, found)
        assert dict(server.batches) == {"1": 40}
        assert server.summary().refused[0].reason == "because"
    with pytest.raises(AssertionError, match="Not equal to tolerance"):  # control: another one
        assert_tells(server.estimate_, expected(version)["reports"]["grr"])


@pytest.mark.parametrize("version", WRITTEN_BY)
def test_signed_files_of_a_release_are_read(version):
    options = {"collection_round": formats.ROUND, "key": formats.KEY}
    file, checkpoint = (formats.FOLDER / version / f"signed.{end}" for end in ("parquet", "npz"))
    grr = formats.ORACLES["grr"]
    server = Aggregator.load(checkpoint, grr, **options)
    tallies = aggregate(file, grr, **options).tally().tallies.sum(axis=0)
    np.testing.assert_array_equal(server.tally().tallies.sum(axis=0), tallies)
    with pytest.raises(RefusedBatchError, match="key"):
        read_reports(file, grr, **{**options, "key": bytes(32)})


@pytest.mark.parametrize("version", WRITTEN_BY)
def test_estimates_of_a_release_are_read(version):
    for name, found in expected(version)["estimates"].items():
        estimate = load_estimate(formats.FOLDER / version / f"estimate_{name}.npz")
        assert_tells(estimate, found)
        assert estimate.describe()


@pytest.mark.parametrize("version", WRITTEN_BY)
def test_memos_and_open_batches_of_a_release_are_read(version, tmp_path):
    """A client reports what it did before, and spends nothing for it."""
    for path in (formats.FOLDER / version).glob("*_memo.json"):
        shutil.copy(path, tmp_path)
    assert formats.reported(tmp_path) == expected(version)["memos"]
    slots = Slots.open(formats.FOLDER / version / "open.slots")
    found = [np.asarray(part).tolist() for part in slots.read()]
    formats.os.close(slots.file)
    assert found == expected(version)["slots"]


SERVED = [FOLDER.parent / "served_version_1", *sorted(formats.FOLDER.glob("*/served"))]


@pytest.mark.parametrize("folder", SERVED, ids=lambda one: f"{one.parent.name}/{one.name}")
def test_the_state_of_a_server_is_read(folder, tmp_path):
    """Twice: what the first start writes is read by the second one."""
    assert formats.served(folder, tmp_path / "first") == (95, 15)
    assert formats.served(tmp_path / "first" / ".serve", tmp_path / "second") == (95, 15)
    salt = (folder / "salt").read_bytes()
    assert (tmp_path / "second" / ".serve" / "salt").read_bytes() == salt
