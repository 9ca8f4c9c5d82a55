"""Classifiers from private data, on Adult's official split: accuracy and log loss on the test part.

"labels": features are public, the label is randomised. "records": everything is private, one report
a user, with the full domains of 12 columns, without the column of 42 countries, and with public
groups. "central": what diffprivlib reaches with a server that sees the records (--peers-python, an
interpreter with diffprivlib). "gradients": LDP-SGD, in which each user reports one randomised
gradient. "channels": other ways to randomise labels of many classes (15 occupations). "speeds":
processor seconds of a million users.

The constants of LDPNaiveBayes were chosen on tables that _learning_tables.py writes (--choose
FOLDER prints how they compare); Adult is only reported on.

    python -m benchmarks.accuracy.learning
    python -m benchmarks.accuracy.learning --only records --repeats 30
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, gammaln, logsumexp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import CategoricalNB
from sklearn.preprocessing import StandardScaler

from sklearn_ldp import Domain, SubsetSelection
from sklearn_ldp.learning import LabelDPClassifier, LDPNaiveBayes, label_dp_score
from sklearn_ldp.learning._label_channel import LabelChannel
from sklearn_ldp.learning._label_classifier import minimise
from sklearn_ldp.postprocessing import norm_sub

from .._command import DATA, command
from .table_models import CUTS, grouped_adult

EPSILONS = [0.5, 1.0, 2.0, 4.0]

#: Finer public cuts of numeric columns, where they cost no privacy: 148 indicators in all.
FINE_CUTS = {
    "age": [*range(20, 40, 2), 40, 45, 50, 55, 60, 65, 70],
    "capital_gain": [1, 3000, 4000, 5000, 7000, 10_000, 15_000],
    "capital_loss": [1, 1500, 1600, 1800, 1850, 1900, 2000, 2200],
    "hours_per_week": [10, 20, 30, 35, 40, 41, 45, 50, 60, 70],
}


# -- the data -----------------------------------------------------------------------------------
def adult(cuts: dict[str, list[int]], label: str = "income") -> tuple[Any, ...]:
    """Return codes of 12 columns and of the label, of both parts, and the numbers of categories."""
    import pandas as pd

    parts = [
        pd.read_csv(DATA / f"ADULT_{part}.csv.gz", keep_default_na=False)
        for part in ("TRAIN", "TEST")
    ]
    both = pd.concat(parts)
    names = [name for name in both.columns if name not in ("fnlwgt", "education", label)]
    domains = {
        name: Domain.bins(cuts[name]) if name in cuts else Domain(sorted(both[name].unique()))
        for name in names
    }
    classes = sorted(both[label].unique())
    coded = []
    for part in parts:
        columns = [domain.encode(part[name]) for name, domain in domains.items()]
        coded.append((np.column_stack(columns), np.searchsorted(classes, part[label])))
    (X, y), (X_test, y_test) = coded
    return X, y, X_test, y_test, [domain.size for domain in domains.values()]


def grouped() -> tuple[Any, ...]:
    """Return the same of Adult in public groups."""
    train, test = grouped_adult("TRAIN"), grouped_adult("TEST")
    features = train.columns.drop("income")
    X, X_test = train[features].to_numpy(), test[features].to_numpy()
    sizes = [int(max(a.max(), b.max())) + 1 for a, b in zip(X.T, X_test.T, strict=True)]
    return X, train.income.to_numpy(), X_test, test.income.to_numpy(), sizes


def indicators(codes: np.ndarray, sizes: list[int]) -> Any:
    """Return a sparse column of zeros and ones for each category."""
    from scipy import sparse

    starts = np.cumsum([0, *sizes[:-1]])
    n, width = codes.shape
    rows = np.repeat(np.arange(n), width)
    return sparse.csr_array((np.ones(n * width), (rows, (codes + starts).ravel())), (n, sum(sizes)))


def judged(P: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the accuracy and the log loss of probabilities."""
    return float(np.mean(P.argmax(axis=1) == y)), log_loss(y, P, labels=range(P.shape[1]))


# -- tables -------------------------------------------------------------------------------------
def table(rows: dict[str, Callable[[float, int], Any]], n_repeats: int) -> Iterator[str]:
    """Yield a table of accuracy (standard deviation over seeds), log loss for each epsilon."""
    yield "| | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in EPSILONS) + " |"
    yield "|---|" + "---|" * len(EPSILONS)
    for name, row in rows.items():
        cells = []
        for epsilon in EPSILONS:
            found = np.array([row(epsilon, seed) for seed in range(n_repeats)])
            accuracy, loss = found.mean(axis=0)
            cells.append(f"{accuracy:.4f} ({found[:, 0].std():.4f}), {loss:.4f}")
        yield f"| {name} | " + " | ".join(cells) + " |"


def labels_table(n_repeats: int) -> Iterator[str]:
    """Yield the table of randomised labels."""
    X, y, X_test, y_test, sizes = adult(FINE_CUTS)
    coarse = adult(CUTS)  # 127 indicators
    Z, Z_test = indicators(X, sizes), indicators(X_test, sizes)
    clean = LogisticRegression(max_iter=1000).fit(Z, y).predict_proba(Z_test)
    forest = HistGradientBoostingClassifier(max_leaf_nodes=8, learning_rate=0.05, random_state=0)
    of_forest = forest.fit(X, y).predict_proba(X_test)
    yield "true labels: logistic {:.4f}, {:.4f}; boosting {:.4f}, {:.4f}".format(
        *judged(clean, y_test), *judged(of_forest, y_test)
    )

    few, few_test = (indicators(part, coarse[4]) for part in (coarse[0], coarse[2]))

    def linear(
        C: float, correction: str, Z: Any = Z, Z_test: Any = Z_test
    ) -> Callable[[float, int], Any]:
        def row(epsilon: float, seed: int) -> Any:
            base = LogisticRegression(C=C, max_iter=1000)
            model = LabelDPClassifier(base, epsilon, correction=correction, random_state=seed)
            return judged(model.fit(Z, y).predict_proba(Z_test), y_test)

        return row

    def uncorrected(epsilon: float, seed: int) -> Any:
        reports = LabelChannel(epsilon, np.array([0, 1])).privatize(y, seed)
        model = LogisticRegression(C=0.02, max_iter=1000).fit(Z, reports)
        return judged(model.predict_proba(Z_test), y_test)

    def boosting(correction: str) -> Callable[[float, int], Any]:
        def row(epsilon: float, seed: int) -> Any:
            model = LabelDPClassifier(forest, epsilon, correction=correction, random_state=seed)
            return judged(model.fit(X, y).predict_proba(X_test), y_test)

        return row

    rows = {
        "reports as if they were labels, C=0.02": uncorrected,
        "likelihood, C=0.02": linear(0.02, "likelihood"),
        "auto, C=0.02": linear(0.02, "auto"),
        "auto, C=0.02, coarser cuts (127 columns)": linear(0.02, "auto", few, few_test),
        "likelihood, C=1": linear(1.0, "likelihood"),
        "auto, C=1": linear(1.0, "auto"),
        "probabilities, logistic, C=0.02": linear(0.02, "probabilities"),
        "probabilities, boosting": boosting("probabilities"),
        "auto, boosting": boosting("auto"),
    }
    yield from table(rows, n_repeats)


def records_table(n_repeats: int) -> Iterator[str]:
    """Yield the table of private records."""
    full = adult(CUTS)
    without = (full[0][:, :-1], full[1], full[2][:, :-1], full[3], full[4][:-1])
    rows: dict[str, Callable[[float, int], Any]] = {}
    sources = {"12 columns": full, "without the country": without, "in public groups": grouped()}
    for name, (X, y, X_test, y_test, sizes) in sources.items():
        plain = CategoricalNB(min_categories=sizes).fit(X, y).predict_proba(X_test)
        yield "{}, true values: {:.4f}, {:.4f}".format(name, *judged(plain, y_test))
        data = (X, y, X_test, y_test, sizes)
        rows[f"{name}, plain ratios"] = _naive_bayes(data, _plain)
        rows[f"{name}, shrunk, no slope"] = _naive_bayes(data, correlation=0.0)
        rows[f"{name}, LDPNaiveBayes"] = _naive_bayes(data)
    yield from table(rows, n_repeats)


def _naive_bayes(
    data: Any, predict: Callable | None = None, **parameters: Any
) -> Callable[[float, int], Any]:
    X, y, X_test, y_test, sizes = data
    domains = {f"column {j}": size for j, size in enumerate(sizes)}

    def row(epsilon: float, seed: int) -> Any:
        model = LDPNaiveBayes(
            epsilon, domains=domains, classes=[0, 1], random_state=seed, **parameters
        )
        model.fit(X, y)
        P = model.predict_proba(X_test) if predict is None else predict(model, X_test)
        return judged(P, y_test)

    return row


def _plain(model: LDPNaiveBayes, X: np.ndarray) -> np.ndarray:
    """Naive Bayes from each table as it is, projected on the simplex (Norm-Sub)."""
    scores = np.log(model.class_prior_) + np.zeros((len(X), 2))
    tables: Any = model.tables_
    for codes, key in zip(X.T, model.feature_log_lift_, strict=True):
        part = tables[key, "class"]
        cells = norm_sub(part.values[0]).reshape(-1, 2)
        cells = np.maximum(cells, 0.1 * part.noise.std)
        scores += np.log(cells / cells.sum(axis=0))[codes]
    return np.exp(scores - logsumexp(scores, axis=1, keepdims=True))


def central_table(python: str, n_repeats: int) -> Iterator[str]:
    """Yield the accuracies of diffprivlib's classifiers, whose server sees the records."""
    yield "| diffprivlib | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in EPSILONS) + " |"
    yield "|---|" + "---|" * len(EPSILONS)
    X, y, X_test, y_test, sizes = adult(FINE_CUTS)
    cells: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        task = {"sizes": sizes, "n_repeats": n_repeats}
        for part, codes in (("train", (X, y)), ("test", (X_test, y_test))):
            task[part] = os.path.join(folder, f"{part}.npy")
            np.save(task[part], np.column_stack(codes).astype(int))
        for epsilon in EPSILONS:
            done = subprocess.run(
                [python, str(Path(__file__).with_name("_learning_peers.py"))],
                input=json.dumps({**task, "epsilon": epsilon}),
                stdout=subprocess.PIPE,
                check=True,
                text=True,
            )
            for name, found in json.loads(done.stdout.splitlines()[-1]).items():
                cell = f"{np.mean(found):.4f} ({np.std(found):.4f})"
                cells.setdefault(name, []).append(cell)
    for name, row in cells.items():
        yield f"| {name} | " + " | ".join(row) + " |"


# -- what does not work -------------------------------------------------------------------------
def gradient_scale(dimension: int, epsilon: float) -> float:
    """Return the length of a report of a unit vector by Duchi, Jordan and Wainwright's mechanism.

    A report points into the half space of the vector with probability e^epsilon / (1 + e^epsilon),
    uniformly (JASA 2018, section 4.2.3); its length makes it unbiased.
    """
    share = np.expm1(epsilon) / (np.exp(epsilon) + 1)
    # Mean of |first coordinate| of a uniform direction.
    mean = np.exp(gammaln(dimension / 2) - gammaln((dimension + 1) / 2)) / np.sqrt(np.pi)
    return float(1 / (share * mean))


def randomised(vectors: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Return an unbiased report of each vector; those longer than 1 are scaled to 1 first."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(norms, 1e-12)
    # A shorter vector is rounded at random to one of the two unit vectors on its line.
    up = rng.random(len(vectors)) < 0.5 + np.minimum(norms[:, 0], 1) / 2
    unit = np.where(up[:, None], unit, -unit)
    direction = rng.normal(size=vectors.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    to_agree = rng.random(len(vectors)) < expit(epsilon)
    agrees = np.einsum("ij,ij->i", direction, unit) > 0
    direction[to_agree != agrees] *= -1
    return gradient_scale(vectors.shape[1], epsilon) * direction


def sgd(Z: Any, y: np.ndarray, epsilon: float, n_steps: int, rate: float, seed: int) -> Any:
    """Return a logistic regression by gradients, of which each user sends one."""
    rng = np.random.default_rng(seed)
    coef, mean = np.zeros(Z.shape[1]), np.zeros(Z.shape[1])
    for step, rows in enumerate(np.array_split(rng.permutation(len(y)), n_steps)):
        batch = np.asarray(Z[rows].todense())
        gradients = batch * (expit(batch @ coef) - y[rows])[:, None]
        reports = randomised(gradients, epsilon, rng)
        coef = coef - rate / np.sqrt(step + 1) * reports.mean(axis=0)
        mean += coef / n_steps
    return mean


def gradients_table(n_repeats: int) -> Iterator[str]:
    """Yield the table of LDP-SGD: for each epsilon the best of 12 settings in hindsight."""
    X, y, X_test, y_test, sizes = adult(CUTS)
    Z, Z_test = indicators(X, sizes), indicators(X_test, sizes)
    settings = [(steps, rate) for steps in (10, 30, 100) for rate in (0.1, 0.3, 1.0, 3.0)]

    def best(epsilon: float, seed: int) -> Any:
        found = []
        for n_steps, rate in settings:
            coef = sgd(Z, y, epsilon, n_steps, rate, seed)
            of_second = np.clip(expit(Z_test @ coef), 1e-9, 1 - 1e-9)
            P = np.column_stack([1 - of_second, of_second])
            found.append(judged(P, y_test))
        return min(found, key=lambda one: one[1])

    yield from table({f"{len(y):,} users": best}, n_repeats)


def channels_table(n_repeats: int) -> Iterator[str]:
    """Yield the table of ways to randomise labels of 15 classes."""
    X, y, X_test, y_test, sizes = adult(CUTS, label="occupation")
    Z, Z_test = indicators(X, sizes), indicators(X_test, sizes)
    n_classes = int(y.max()) + 1
    clean = LogisticRegression(max_iter=500).fit(Z, y).predict_proba(Z_test)
    yield "true labels: {:.4f}, {:.4f}".format(*judged(clean, y_test))

    def fitted(rows: np.ndarray, likelihoods: np.ndarray, signal: float) -> Any:
        objective, weights = _mixture(likelihoods), np.ones(len(rows))
        model = LogisticRegression(C=1.0, max_iter=400)
        coef, intercept, _ = minimise(
            objective, Z[rows], weights, n_classes, model, tol=1e-4 * signal
        )
        return lambda features: _probabilities(features @ coef.T + intercept)

    def randomised_response(epsilon: float, seed: int) -> tuple[np.ndarray, float]:
        channel = LabelChannel(epsilon, np.arange(n_classes))
        reports = channel.privatize(y, seed)
        return channel.q + channel.signal * np.eye(n_classes)[reports], channel.signal

    def of_all(draw: Callable) -> Callable[[float, int], Any]:
        def row(epsilon: float, seed: int) -> Any:
            likelihoods, signal = draw(epsilon, seed)
            return judged(fitted(np.arange(len(y)), likelihoods, signal)(Z_test), y_test)

        return row

    def subsets(epsilon: float, seed: int) -> tuple[np.ndarray, float]:
        oracle = SubsetSelection(epsilon, categories=n_classes, random_state=seed)
        channel: Any = oracle.channel()
        supports = channel.supports(oracle.privatize(y), np.arange(n_classes))
        ratio = float(channel.p / (1 - channel.p)) * (n_classes / supports[0].sum() - 1)
        return np.where(supports, ratio, 1.0), float(channel.p - channel.q)

    def two_stages(epsilon: float, seed: int) -> Any:
        rng = np.random.default_rng(seed)
        first, second = np.array_split(rng.permutation(len(y)), 2)
        likelihoods, signal = randomised_response(epsilon, seed)
        prior = fitted(first, likelihoods[first], signal)(Z[second])
        likelihoods[second] = top_k_likelihoods(prior, y[second], epsilon, rng)
        return judged(fitted(np.arange(len(y)), likelihoods, signal)(Z_test), y_test)

    rows = {
        "randomised response": of_all(randomised_response),
        "RRWithPrior for half of the users": two_stages,
        "subset selection": of_all(subsets),
    }
    yield from table(rows, n_repeats)


def top_k_likelihoods(
    prior: np.ndarray, y: np.ndarray, epsilon: float, rng: np.random.Generator
) -> np.ndarray:
    """Draw a report of RRWithPrior for each user, and return P(report | each class).

    A user reports by randomised response among her k most probable classes, for the k at which she
    most probably tells the truth; if hers is not among them, she reports a uniform one of them.
    (Ghazi et al., "Deep learning with label differential privacy", NeurIPS 2021, Algorithm 2.)
    """
    n, n_classes = prior.shape
    growth = np.exp(epsilon)
    order = np.argsort(-prior, axis=1)
    covered = np.cumsum(np.take_along_axis(prior, order, axis=1), axis=1)
    sizes = 1 + np.argmax(growth / (growth + np.arange(n_classes)) * covered, axis=1)
    ranks = np.argsort(order, axis=1)
    inside = ranks < sizes[:, None]
    own = ranks[np.arange(n), y]
    truthful = (own < sizes) & (rng.random(n) < growth / (growth + sizes - 1))
    # Any other one of the k; for users outside, any one.
    other = np.floor(rng.random(n) * np.where(own < sizes, np.maximum(sizes - 1, 1), sizes))
    other = other.astype(int) + ((own < sizes) & (other >= own) & (sizes > 1))
    reports = order[np.arange(n), np.where(truthful, own, other)]
    likelihoods = np.where(inside, 1 / (growth + sizes - 1)[:, None], (1 / sizes)[:, None])
    likelihoods[np.arange(n), reports] = growth / (growth + sizes - 1)
    return likelihoods


def _mixture(likelihoods: np.ndarray) -> Any:
    """Return minus the log likelihood of reports, for any channel of each row."""

    def objective(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        P = _probabilities(scores)
        joint = likelihoods * P
        total = joint.sum(axis=1)
        return -np.log(total), P - joint / total[:, None]

    return objective


def _probabilities(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores - logsumexp(scores, axis=1, keepdims=True))


def speeds(n_repeats: int) -> Iterator[str]:
    """Yield the processor seconds of a million users, and of digits: the least of some runs."""
    rng = np.random.default_rng(0)
    X, decisions = rng.integers(0, 4, (10**6, 12)), rng.random(10**6)
    y = np.where(rng.random(10**6) < 0.2 + 0.1 * X[:, 0], "yes", "no")
    domains = {f"column {j}": 4 for j in range(12)}
    records = LDPNaiveBayes(1.0, domains=domains, classes=[0, 1], random_state=0)
    labels = LabelDPClassifier(epsilon=1.0, classes=["no", "yes"], random_state=0)
    users = np.column_stack([X, y == "yes"])
    digits = load_digits(return_X_y=True)
    digits = StandardScaler().fit_transform(digits[0]), digits[1]
    survey = records.oracle()
    of_records, of_labels = survey.privatize(users), labels.privatize(y)
    model = records.fit_tables(clone(survey).aggregate(of_records).estimate_)
    known = {"epsilon": 1.0, "classes": ["no", "yes"]}
    tasks: dict[str, Callable[[], Any]] = {
        "naive Bayes of 12 columns: reports": lambda: survey.privatize(users),
        "naive Bayes: from reports to the model": lambda: records.fit_tables(
            clone(survey).aggregate(of_records).estimate_
        ),
        "naive Bayes: probabilities": lambda: model.predict_proba(X),
        "labels: reports": lambda: labels.privatize(y),
        "labels: a fit to digits": lambda: LabelDPClassifier(random_state=0).fit(*digits),
        "labels: area under the ROC curve": lambda: label_dp_score(
            "roc_auc", of_labels, decisions, **known
        ),
    }
    for name, task in tasks.items():
        seconds = []
        for _ in range(n_repeats):
            start = time.process_time()
            task()
            seconds.append(time.process_time() - start)
        yield f"{name}: {min(seconds):.2f} s"


# -- how the constants were chosen --------------------------------------------------------------
def choices(folder: str, n_repeats: int) -> Iterator[str]:
    """Yield the mean log loss over tables of _learning_tables.py, by the correlation."""
    import pandas as pd

    correlations = [0.0, 0.05, 0.1, 0.15, 0.2, 0.3]
    yield "log loss below that of the class prior alone, mean over tables and seeds"
    yield "| correlation | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in EPSILONS) + " |"
    yield "|---|" + "---|" * len(EPSILONS)
    found: dict[tuple[float, float], list[float]] = {}
    for path in sorted(Path(folder).glob("*.csv")):
        frame = pd.read_csv(path)
        X, y = frame.drop(columns="class").to_numpy(), frame["class"].to_numpy()
        X -= X.min(axis=0)
        for seed in range(n_repeats):
            rng = np.random.default_rng(seed)
            train, test = np.array_split(rng.permutation(len(y)), [2 * len(y) // 3])
            train = rng.choice(train, 32_561)
            columns = rng.permutation(X.shape[1])[: [4, 7, 99][seed % 3]]
            domains = {f"column {j}": int(X[:, j].max()) + 1 for j in columns}
            share = y[test].mean()
            entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share))
            for epsilon in EPSILONS:
                model = LDPNaiveBayes(epsilon, domains=domains, classes=[0, 1], random_state=seed)
                model.fit(X[train][:, columns], y[train])
                for correlation in correlations:
                    model.set_params(correlation=correlation).fit_tables(model.tables_)
                    P = model.predict_proba(X[test][:, columns])
                    gain = log_loss(y[test], P) - entropy
                    found.setdefault((correlation, epsilon), []).append(gain)
    for correlation in correlations:
        cells = [f"{np.mean(found[correlation, epsilon]):.4f}" for epsilon in EPSILONS]
        yield f"| {correlation:g} | " + " | ".join(cells) + " |"


def main(argv: list[str] | None = None) -> None:
    """Print the tables."""
    parser = command(__doc__, __spec__)
    names = ["labels", "records", "gradients", "channels", "central", "speeds"]
    parser.add_argument("--only", choices=names)
    parser.add_argument("--repeats", type=int, default=5, help="seeds (default: 5)")
    parser.add_argument("--peers-python", metavar="PATH", help="interpreter with diffprivlib")
    parser.add_argument("--choose", metavar="FOLDER", help="compare correlations on these tables")
    options = parser.parse_args(argv)
    if options.choose:
        print("\n".join(choices(options.choose, options.repeats)))
        return
    tables = {
        "labels": labels_table,
        "records": records_table,
        "gradients": gradients_table,
        "channels": channels_table,
        "speeds": speeds,
    }
    for name, lines in tables.items():
        if options.only in (None, name):
            print(
                f"## {name}: accuracy (its standard deviation over {options.repeats} seeds), loss"
            )
            for line in lines(options.repeats):
                print(line, flush=True)
    if options.peers_python and options.only in (None, "central"):
        print("## central")
        print("\n".join(central_table(options.peers_python, options.repeats)))


if __name__ == "__main__":
    main()
