"""Errors over bins with a category for missing numbers: of its share, and of the other users.

``python -m benchmarks.accuracy._missing_numbers`` prints, for each oracle, number of users and
share of missing numbers, the root mean squared errors (times 1,000) of each post-processor: of the
share of missing numbers, and of the distribution function among the users who answered.
"""

import argparse

import numpy as np

from sklearn_ldp import (
    GRR,
    OLH,
    Domain,
    EmpiricalBayes,
    HadamardResponse,
    MatrixOracle,
    MonotoneCDF,
    NormSub,
    RangeOracle,
    Smooth,
    SmoothMLE,
)

N_BINS = 32
BINS = Domain.bins(N_BINS, bounds=(0, N_BINS), missing=True)
ORACLES = {
    "GRR": GRR(1.0, categories=BINS),
    "OLH": OLH(1.0, categories=BINS),
    "Hadamard": HadamardResponse(1.0, categories=BINS),
    "Range": RangeOracle(1.0, categories=BINS),
    "square-wave": MatrixOracle(1.0, categories=BINS, strategy="square-wave"),
}
POSTPROCESSORS = [NormSub(), SmoothMLE(), EmpiricalBayes(), Smooth(), MonotoneCDF()]


def errors(oracle, n_users, share, n_repeats):
    """Return the errors of the raw estimate and of all post-processors, of shape (2, n_methods)."""
    places = np.arange(N_BINS)
    curve = np.exp(-((places - 11) ** 2) / 60) + 0.4 * np.exp(-((places - 24) ** 2) / 12)
    n_missing = round(n_users * share)
    rng = np.random.default_rng(0)
    squares = []
    for i in range(n_repeats):
        counts = rng.multinomial(n_users - n_missing, curve / curve.sum())
        truth = np.cumsum(counts) / counts.sum()
        estimate = oracle.set_params(random_state=i).simulate(np.append(counts, n_missing))
        rows = [estimate.values[0]]
        rows += [post.fit_transform(estimate).values[0] for post in POSTPROCESSORS]
        missing = [(row[-1] - n_missing / n_users) ** 2 for row in rows]
        shares = [1 - rows[0][-1], *(max(row[:-1].sum(), 1e-9) for row in rows[1:])]
        functions = [np.cumsum(row[:-1]) / a for row, a in zip(rows, shares, strict=True)]
        squares.append([missing, [np.mean((own - truth) ** 2) for own in functions]])
    return np.sqrt(np.mean(squares, axis=0))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--oracles", nargs="*", choices=[*ORACLES], default=[*ORACLES])
    arguments = parser.parse_args()
    names = ["raw", *(type(post).__name__ for post in POSTPROCESSORS)]
    print("oracle, users, missing | error of the share | of the distribution:", *names, flush=True)
    for name in arguments.oracles:
        for n_users in (300, 5_000, 100_000):
            for share in (0, 0.01, 0.06, 0.3, 0.9):
                rows = 1000 * errors(ORACLES[name], n_users, share, arguments.repeats)
                shown = " | ".join(" ".join(f"{x:6.1f}" for x in row) for row in rows)
                print(f"{name:11} {n_users:6} {share:4} | {shown}", flush=True)


if __name__ == "__main__":
    main()
