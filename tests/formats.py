"""Files of every format: `make formats` writes those of this version into tests/data/written.

Every later 1.x has to read them: `tests/collection/test_older_files.py`. A folder is written anew
only until its version is released; then it stays as it is.
"""

import gzip
import json
import os
import shutil
import tempfile
from pathlib import Path
from queue import SimpleQueue

import numpy as np
from sklearn.base import clone

import sklearn_ldp
from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    OUE,
    SUE,
    ColumnOracle,
    Consistent,
    Domain,
    HadamardResponse,
    LatentClasses,
    LocalMean,
    MarginalOracle,
    MatrixOracle,
    NormSub,
    ProjectiveGeometryResponse,
    RangeOracle,
    StringOracle,
    SubsetSelection,
    load_estimate,
)
from sklearn_ldp._serve.slots import Slots
from sklearn_ldp._serve.store import Post, Rules, Store
from sklearn_ldp.collection import (
    Aggregator,
    RepeatedClient,
    SurveyClient,
    aggregate,
    write_reports,
)
from sklearn_ldp.inference import combine
from sklearn_ldp.oracles import MeanEstimate, estimate_by_group

FOLDER = Path(__file__).parent / "data" / "written"
ROUND = "2026-11"
KEY = bytes(range(32))
COLORS = ["red", "green", "blue", "grey"]
DOMAINS = {"smokes": ["no", "yes"], "visits": 4}
USERS = COLORS * 10
PEOPLE = np.array([[("no", "yes")[i % 2], i % 4] for i in range(40)], dtype=object)

GRID = Domain.grid(Domain.bins(4, bounds=(0, 8)), Domain.bins(2, bounds=(-4, 0)))
ORACLES = {
    "grr": GRR(2.0, categories=COLORS),
    "sue": SUE(1.0, categories=COLORS),
    "oue": OUE(1.0, categories=COLORS, n_shards=2),
    "blh": BLH(1.0, categories=COLORS),
    "olh": OLH(1.0, categories=COLORS),
    "mixing": OLH(1.0, categories=COLORS, hash_family="mixing"),
    "hadamard": HadamardResponse(1.0, categories=COLORS),
    "subset": SubsetSelection(1.0, categories=COLORS),
    "projective": ProjectiveGeometryResponse(1.0, categories=COLORS),
    "matrix": MatrixOracle(1.0, categories=COLORS),
    # Of a size whose channel the package carries: others are computed, and NumPy 2.4 and 2.5 make
    # two channels of them, whose reports are refused by one another.
    "range": RangeOracle(1.0, categories=16),
    "grid": RangeOracle(1.0, categories=GRID),
    "mean": LocalMean(1.0, bounds=(0, 100)),
    "strings": StringOracle(6.0, alphabet="ab", max_length=2, n_found=2, expected_n_users=400),
    "columns": ColumnOracle(2.0, domains=DOMAINS, oracle={"visits": OUE()}),
    "pairs": MarginalOracle(2.0, domains=DOMAINS),
}
VALUES = {"mean": [20.0, 80.0] * 20, "strings": ["ab", "aa"] * 20}
VALUES["grid"] = [(i % 8 + 0.5, -(i % 4) - 0.5) for i in range(40)]
VALUES |= {"range": [i % 16 for i in range(40)], "columns": PEOPLE, "pairs": PEOPLE}
FORMATS = ["jsonl", "arrows", "parquet"]


def estimates():
    """An estimate of each kind that `save` keeps."""
    raw = {name: ORACLES[name].set_params(random_state=0) for name in ("oue", "grr", "mean")}
    may, june = raw["oue"].fit_transform(USERS), raw["grr"].fit_transform(USERS)
    tables = ORACLES["pairs"].set_params(random_state=0).fit_transform(PEOPLE)
    bins = Domain.bins(8, bounds=(0, 9), missing=True)
    strings = ORACLES["strings"].set_params(random_state=0)
    return {
        "frequencies": may,
        "processed": NormSub().fit_transform(may),
        "difference": may - june,
        "combined": combine([may, june]),
        "mean": raw["mean"].fit([20.0, 80.0] * 20).estimate_,
        "bins": OUE(1.0, categories=bins, random_state=0).fit_transform([1, 2, None] * 20),
        "strings": strings.fit_transform(["ab", "aa"] * 300),
        "grid": ORACLES["grid"].set_params(random_state=0).fit_transform(VALUES["grid"]),
        "groups": estimate_by_group(GRR(1.0, categories=2, random_state=0), [0, 1] * 9, [0] * 18),
        "columns": ORACLES["columns"].set_params(random_state=0).fit_transform(PEOPLE),
        "tables": tables,
        "consistent": Consistent().fit_transform(tables),
        "latent": LatentClasses().fit_transform(tables),
    }


def told(estimate):
    """What an estimate tells, which no later version may read otherwise."""
    if hasattr(estimate, "keys"):
        return {str(key): told(estimate[key]) for key in estimate}
    if isinstance(estimate, MeanEstimate):
        return [np.ravel(one).tolist() for one in (estimate.mean, estimate.standard_error)]
    return np.asarray(estimate.values, dtype=float).tolist()


def reopened(folder):
    """The clients of the memos in a folder, which is written to."""
    repeated = {"question": "color", "epsilon_forever": 2.0}
    return (
        RepeatedClient(OLH(1.0, categories=COLORS), folder / "repeated_memo.json", **repeated),
        SurveyClient(
            clone(ORACLES["columns"]).set_params(random_state=None),
            folder / "survey_memo.json",
            question="health",
        ),
    )


def reported(folder):
    """What the clients of the memos report again, of values that they have reported before."""
    repeated, survey = reopened(folder)
    reports = repeated.report("blue", collection_round=ROUND), survey.report(PERSON)
    told = [np.atleast_1d(np.asarray(one)) for one in reports]
    return [repr(one.tolist()) for one in told] + [repeated.n_values, repeated.spent]


PERSON = {"smokes": "yes", "visits": 3}


def write_served(folder):
    """Write the state of a server: two sealed batches of 40 reports, and 15 that it holds."""
    oracle, outcomes = ORACLES["grr"], SimpleQueue()
    reports = clone(oracle).set_params(random_state=None).privatize(np.resize(USERS, 95))
    with tempfile.TemporaryDirectory() as place:
        store = Store(Path(place), oracle, ROUND, Rules(40, 600.0, 30, 10), outcomes.put)
        store.open()
        store.submit(Post(bytes(16), reports.tolist(), "all"))
        assert outcomes.get(timeout=60) == [("all", "")]
        store.close()
        shutil.copytree(Path(place, ".serve"), folder)


def served(folder, place):
    """The number of reports of a server with this state, and the number that it holds."""
    shutil.copytree(folder, place / ".serve")
    store = Store(place, ORACLES["grr"], ROUND, Rules(40, 600.0, 30, 10), lambda pairs: None)
    store.open()
    numbers = store.counts.n_samples, store.n_held
    store.close()
    return numbers


def write(folder):
    """Write a file of each kind, and what they tell."""
    folder.mkdir(parents=True)
    expected = {"reports": {}, "estimates": {}}
    for name, oracle in ORACLES.items():
        oracle = oracle.set_params(random_state=0)
        reports = oracle.privatize(VALUES.get(name, USERS))
        options = {"collection_round": ROUND, "random_state": 0}
        for form in FORMATS:
            write_reports(folder / f"{name}.{form}", reports, oracle, batch_id="1", **options)
        server = aggregate(folder / f"{name}.jsonl", oracle, collection_round=ROUND)
        server.note_refusal("2", "because")
        server.save(folder / f"{name}.npz")
        if name == "strings":  # of megabytes, most of which are zeros
            path = folder / f"{name}.npz"
            Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
            path.unlink()
        expected["reports"][name] = told(server.estimate_)
    signed = {"collection_round": ROUND, "batch_id": "1", "key": KEY, "random_state": 0}
    reports = ORACLES["grr"].privatize(USERS)
    write_reports(folder / "signed.parquet", reports, ORACLES["grr"], **signed)
    Aggregator(ORACLES["grr"], collection_round=ROUND, key=KEY).add(reports, "1").save(
        folder / "signed.npz"
    )
    for name, estimate in estimates().items():
        estimate.save(folder / f"estimate_{name}.npz")
        expected["estimates"][name] = told(load_estimate(folder / f"estimate_{name}.npz"))
    expected["memos"] = reported(folder)
    slots = Slots.make(
        folder / "open.slots",
        batch_id="1",
        configuration=ORACLES["grr"].protocol().configuration,
        width=3,
        n_slots=4,
        seconds=9,
    )
    slots.write(2, bytes(range(8)), b"abc")
    expected["slots"] = [np.asarray(part).tolist() for part in slots.read()]
    os.close(slots.file)
    write_served(folder / "served")
    text = json.dumps(expected, indent=1, sort_keys=True)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    target = FOLDER / sklearn_ldp.__version__
    shutil.rmtree(target, ignore_errors=True)
    write(target)
    print(f"{target.relative_to(Path.cwd())}: {sum(1 for _ in target.iterdir())} files")
