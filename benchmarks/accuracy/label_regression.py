"""Numbers as private labels: ``python -m benchmarks.accuracy.label_regression FOLDER``.

FOLDER contains the tables that ``benchmarks/accuracy/_learning_tables.py FOLDER --numbers`` writes.
The printed errors are root mean squared errors on the true labels of test rows (a fifth of all
rows), divided by the standard deviation of the label. The methods are: the constant, estimated from
the same reports; Ridge on true labels; `LabelDPRegressor` with its default estimator, and with
boosted trees with large leaves; the same Ridge on labels with Laplace noise; and the same Ridge on
labels in 32 bins that randomized response has randomized.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from sklearn_ldp import GRR, LocalMean
from sklearn_ldp.learning import LabelDPRegressor

from .._command import command

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
TUNED = ("computers", "males", "visits")
TREES = HistGradientBoostingRegressor(min_samples_leaf=500, random_state=0)
RIDGE = RidgeCV(np.logspace(-3, 12, 16))
N_BINS = 32


def errors(path: Path, epsilon: float, seed: int, n_rows: int | None) -> dict[str, Any]:
    """Return the error of each way, over the standard deviation of the label."""
    warnings.simplefilter("ignore")
    name, low, high = path.stem.split(" ")
    bounds = float(low), float(high)
    table = pd.read_csv(path)
    y = table.pop("label").to_numpy(dtype=float)
    X = StandardScaler().fit_transform(table)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
    X, y = X[:n_rows], y[:n_rows]
    rng, width = np.random.default_rng(seed), bounds[1] - bounds[0]

    def error(predicted: Any) -> float:
        return float(np.sqrt(np.mean((predicted - y_test) ** 2)) / y_test.std())

    model = LabelDPRegressor(epsilon=epsilon, bounds=bounds, random_state=seed)
    bins = np.minimum(((y - bounds[0]) / width * N_BINS).astype(int), N_BINS - 1)
    moved = GRR(epsilon, categories=N_BINS, random_state=seed).privatize(bins)
    noisy = {
        "clean": y,
        "laplace": y + rng.laplace(scale=width / epsilon, size=len(y)),
        "bins": bounds[0] + (np.asarray(moved) + 0.5) * width / N_BINS,
    }
    found = {way: error(clone(RIDGE).fit(X, z).predict(X_test)) for way, z in noisy.items()}
    oracle = LocalMean(epsilon, bounds=bounds, random_state=seed).fit(y)
    found["constant"] = error(np.clip(oracle.mean_, *bounds))
    found["ridge"] = error(model.fit(X, y).predict(X_test))
    found["weight"] = model.weight_
    model.set_params(estimator=TREES)
    found["trees"] = error(model.fit(X, y).predict(X_test))
    return {"data": name, "epsilon": epsilon, "sd": y_test.std(), **found}


def main() -> None:
    """Print one row for each table and epsilon."""
    parser = command(__doc__, __spec__, repeats=3, n_jobs=1)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--tuned", action="store_true", help="use the tables on which the constants were chosen"
    )
    parser.add_argument("--rows", type=int, help="maximum number of training rows (default: all)")
    parser.add_argument("--quick", action="store_true", help="one split, one epsilon")
    options = parser.parse_args()
    paths = sorted(options.folder.glob("*.csv"))
    paths = [p for p in paths if (p.stem.split(" ")[0] in TUNED) == options.tuned]
    epsilons, repeats = ((1.0,), 1) if options.quick else (EPSILONS, options.repeats)
    cells = [(p, e, seed, options.rows) for p in paths for e in epsilons for seed in range(repeats)]
    rows = Parallel(options.n_jobs)(delayed(errors)(*cell) for cell in cells)
    table = pd.DataFrame(rows).groupby(["data", "epsilon"], sort=False).mean()
    print(table.round(3).to_string())
    worst = (table[["ridge", "trees"]].div(table.constant, axis=0)).max()
    print(f"\nover the constant, greatest: {worst.round(3).to_dict()}")


if __name__ == "__main__":
    main()
