"""Files and checkpoints that the first version of the formats wrote, before the redesign."""

from pathlib import Path

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
)
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
