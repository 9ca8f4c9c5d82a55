"""Weight volunteers by census shares: errors and coverage of three estimates of a population.

python -m benchmarks.accuracy.weights

Four groups of the population answer more or less often, and their answers differ. The unweighted
estimate is of those who answered; `poststratify` knows the shares of the groups, and `rake` those
of two traits in a 2 x 4 table of such groups. The control, whose variances lack the squares of the
weights, must not cover.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._command import command
from benchmarks._tables import markdown
from sklearn_ldp import GRR, OLH, FrequencyEstimate
from sklearn_ldp._core.noise import Noise
from sklearn_ldp.inference import combine, poststratify, rake

SHARES = np.array([0.2, 0.3, 0.3, 0.2])
RATES = np.array([0.6, 0.3, 0.15, 0.05])  # the chance to answer
INVITED = 200_000
# The answers of the groups, to a question with five answers; a row each.
ANSWERS = np.array(
    [
        [0.40, 0.25, 0.15, 0.12, 0.08],
        [0.30, 0.25, 0.20, 0.15, 0.10],
        [0.15, 0.22, 0.25, 0.22, 0.16],
        [0.08, 0.17, 0.25, 0.28, 0.22],
    ]
)
SEXES, SHARE_OF_F, RATE_OF_F = ["F", "M"], 0.52, 1.3


class Population:
    """Groups with their shares, chances to answer, and answers."""

    def __init__(self, shares: Any, rates: Any, answers: Any, names: list[Any]) -> None:
        self.shares, self.rates, self.answers, self.names = shares, rates, answers, names

    @property
    def truth(self) -> np.ndarray:
        """The answers of the population."""
        return self.shares @ self.answers

    def collect(self, oracle: Any, rng: np.random.Generator) -> tuple[FrequencyEstimate, Any]:
        """Return an estimate of each group, and the frequencies of those who answered."""
        invited = rng.multinomial(INVITED, self.shares)
        counts = rng.multinomial(rng.binomial(invited, self.rates), self.answers)
        rows = [oracle.simulate(row) for row in counts]
        n = counts.sum(axis=1)
        noise = rows[0].noise.of(rows[0].noise.channel, n)
        values = np.concatenate([row.values for row in rows])
        estimate = FrequencyEstimate(values, rows[0].categories, noise, row_names=self.names)
        return estimate, counts / n[:, None]


def one_way() -> Population:
    """Four groups, such as ages."""
    return Population(SHARES, RATES, ANSWERS, ["18-29", "30-44", "45-64", "65+"])


def two_ways() -> Population:
    """The same by sex, which goes with the answers and with the chance to give one."""
    sexes = np.array([SHARE_OF_F, 1 - SHARE_OF_F])
    rates = np.array([RATE_OF_F, 1.0])
    tilted = np.stack([np.roll(ANSWERS, 1, axis=1) * 0.3 + ANSWERS * 0.7, ANSWERS], axis=1)
    names = [(age, sex) for age in one_way().names for sex in SEXES]
    shares, rates = np.outer(SHARES, sexes).ravel(), np.outer(RATES, rates).ravel()
    return Population(shares, rates, tilted.reshape(8, -1), names)


def without_squares(estimate: FrequencyEstimate, shares: np.ndarray) -> FrequencyEstimate:
    """Return the weighted estimate with variances whose weights are not squared."""
    mean = poststratify(estimate, dict(zip(estimate.row_names.tolist(), shares, strict=True)))
    noises = [estimate[i].noise for i in range(len(estimate))]
    wrong = Noise.combined(noises, np.sqrt(shares))
    return FrequencyEstimate(mean.values, mean.categories, wrong)


def coverage(estimate: FrequencyEstimate, truth: np.ndarray, of: str) -> float:
    """Return the share of categories whose interval covers the truth."""
    low, high = estimate.confidence_interval(0.95, of=of)
    return float(np.mean((low <= truth) & (truth <= high)))


def one_run(population: Population, oracle: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Return error and coverage of each estimate in one collection."""
    rows, of_users = population.collect(oracle, rng)
    shares, truth = population.shares, population.truth
    by_name = dict(zip(rows.row_names.tolist(), shares, strict=True))
    unweighted = combine([rows[i] for i in range(len(rows))], weights="users")
    estimates = {"unweighted": unweighted, "post-stratified": poststratify(rows, by_name)}
    if isinstance(population.names[0], tuple):
        margins = [
            {value: sum(s for cell, s in by_name.items() if cell[i] == value) for value in values}
            for i, values in enumerate((one_way().names, SEXES))
        ]
        estimates["raked"] = rake(rows, dict(zip(["age", "sex"], margins, strict=True)))
    estimates["control: no squares"] = without_squares(rows, shares)
    return {
        name: (
            np.mean((one.values[0] - truth) ** 2),
            coverage(one, truth, "population"),
            coverage(one, shares @ of_users, "users"),
            one.design_effect,
        )
        for name, one in estimates.items()
    }


def table(oracle: Any, population: Population, n_runs: int) -> str:
    """Return the table in Markdown."""
    rng = np.random.default_rng(0)
    runs = [one_run(population, oracle, rng) for _ in range(n_runs)]
    lines = []
    for name in runs[0]:
        means = np.mean([run[name] for run in runs], axis=0)
        lines.append([name, f"{np.sqrt(means[0]):.4f}", *(f"{x:.3f}" for x in means[1:3])])
        lines[-1].append(f"{means[3]:.2f}")
    head = ["estimate", "RMSE", "coverage, population", "coverage, users", "design effect"]
    return markdown(head, lines)


def main() -> None:
    """Print the tables."""
    parser = command(__doc__, __spec__, whole=True)
    parser.add_argument("--runs", type=int, default=500, help="collections (default: 500)")
    n_runs = parser.parse_args().runs
    for oracle in (OLH(1.0, categories=5, random_state=0), GRR(6.0, categories=5, random_state=0)):
        oracle.set_params(random_state=np.random.RandomState(0))
        for name, population in (("four groups", one_way()), ("2 x 4 cells", two_ways())):
            print(f"{type(oracle).__name__}, epsilon {oracle.epsilon:g}, {name}")
            print(table(oracle, population, n_runs), end="\n\n")


if __name__ == "__main__":
    main()
