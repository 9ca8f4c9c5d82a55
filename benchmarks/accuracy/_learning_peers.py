"""Central differential privacy with diffprivlib, on Adult; run by an interpreter that has it.

Reads one JSON object from the standard input (train, test: NumPy files of codes, the label last;
sizes of the features; epsilon; n_repeats), and writes the accuracies of naive Bayes and of logistic
regression on indicators.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
from diffprivlib.models import GaussianNB, LogisticRegression


def indicators(codes: np.ndarray, sizes: list[int]) -> np.ndarray:
    """Return one column of zeros and ones for each category."""
    both = zip(codes.T, sizes, strict=True)
    return np.column_stack([np.eye(size)[column] for column, size in both])


def main() -> None:
    """Read the task, fit, and write the accuracies."""
    warnings.simplefilter("ignore")
    task = json.load(sys.stdin)
    train, test, sizes = np.load(task["train"]), np.load(task["test"]), task["sizes"]
    X, y, X_test, y_test = train[:, :-1], train[:, -1], test[:, :-1], test[:, -1]
    Z, Z_test = indicators(X, sizes), indicators(X_test, sizes)
    found: dict[str, list[float]] = {"naive Bayes": [], "logistic regression": []}
    for seed in range(task["n_repeats"]):
        bounds = (np.zeros(len(sizes)), np.array(sizes) - 1.0)
        nb = GaussianNB(epsilon=task["epsilon"], bounds=bounds, random_state=seed).fit(X, y)
        found["naive Bayes"].append(float(nb.score(X_test, y_test)))
        model = LogisticRegression(
            epsilon=task["epsilon"],
            data_norm=float(np.sqrt(len(sizes))),
            C=0.02,
            max_iter=1000,
            random_state=seed,
        ).fit(Z, y)
        found["logistic regression"].append(float(model.score(Z_test, y_test)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
