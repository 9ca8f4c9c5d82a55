"""The vectors of the written format: `make vectors` writes them into tests/data/vectors."""

import json
from pathlib import Path

from sklearn_ldp import BLH, GRR, OLH, OUE, SUE, HadamardResponse, ItemOracle, SubsetSelection
from sklearn_ldp._core.aggregation.clients import client_vectors

FOLDER = Path(__file__).parent / "data" / "vectors"

# Integers of one, two and four bytes; fields of primes and of powers; lists and packed masks.
ORACLES = {
    "grr": [GRR(1.0, categories=3), GRR(2.0, categories=1000), GRR(5.0, categories=40_000)],
    "sue": [SUE(1.0, categories=20)],
    "oue": [OUE(3.0, categories=20)],
    "olh": [
        OLH(1.0, categories=20),
        OLH(0.5, categories=5000),
        OLH(2.1, categories=50),
        OLH(1.0, categories=10, hash_range=27),
        OLH(1.0, categories=10, hash_range=1_000_003),
        OLH(1.0, categories="open", hash_family="mixing"),
        OLH(3.0, categories=["a", "b"], hash_family="mixing"),
    ],
    "blh": [BLH(1.0, categories=9)],
    "hadamard-response": [HadamardResponse(1.0, categories=3), HadamardResponse(categories=900)],
    "subset-selection": [
        SubsetSelection(1.0, categories=20),
        SubsetSelection(4.0, categories=300),
        SubsetSelection(1.0, categories=300),
    ],
    "item-oracle": [
        ItemOracle(1.0, categories=20, max_items=3),
        ItemOracle(0.1, categories=300, max_items=2),
        ItemOracle(1.0, categories="open", max_items=3),
        ItemOracle(4.0, categories="open", max_items=1),
    ],
}
MOST_ROWS = {"subset-selection": 90, "item-oracle": 100}  # of all cases of an oracle


def cases(name, n_rows):
    """Vectors of each case of an oracle, of so many rows in all."""
    oracles = ORACLES[name]
    return [client_vectors(oracle, n_rows // len(oracles), 7) for oracle in oracles]


def text(name):
    """The file of an oracle, with a row a line."""
    written = []
    for case in cases(name, MOST_ROWS.get(name, 200)):
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in case.pop("rows"))
        written.append(f'{json.dumps(case)[:-1]}, "rows": [\n{rows}\n]}}')
    return "[" + ",\n".join(written) + "]\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for one in ORACLES:
        (FOLDER / f"{one}.json").write_text(text(one), encoding="utf-8")
