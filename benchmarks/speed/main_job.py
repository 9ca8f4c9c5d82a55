"""The main job on large real inputs, timed: ``python -m benchmarks.speed.main_job``.

For each histogram and oracle it prints: the seconds of a collection by the users' protocol
(randomise, add up, decode) on one core; the mean squared error in units of the variance of the 2020
paper, Eq. 5, which should be 1; the mean squared error of each post-processor; and what the
searches choose. The data are not part of the project: a file that is missing is skipped.

Last come small sets of categories, and surveys of a million users: tables of three of 16 yes/no
questions, and tables of two columns of Adult, whose people are drawn again. *Processor* is the time
of all threads, so it is as long as the clock's where one thread works. ``--surveys`` prints these
alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from sklearn_ldp import OLH, LatentClasses, MarginalOracle, SubsetSelection
from sklearn_ldp._cli._arguments import all_oracles
from sklearn_ldp._cli._demo import error_tables, pick_table, searched
from sklearn_ldp._core.support.text import format_table
from sklearn_ldp.datasets import make_zipf, read_histogram
from sklearn_ldp.model_selection import simulate_errors
from sklearn_ldp.queries import full_domain, groups

from .._command import add_data_argument, command
from ..accuracy.table_models import adult, domains_of

# Each file with its columns of groups to ask for.
HISTOGRAMS = {
    "RETAIL_one_item.csv.gz": [],
    "EMOJI_TRACKER2019_N884427.csv.gz": ["category"],
    "US1940_CITY_1PCT_TOP915.csv.gz": ["category", "division", "region"],
}


def main() -> None:
    """Run the whole benchmark on one core."""
    arguments = _parse_arguments()
    if not arguments.surveys:
        print_main_jobs(arguments)
    print_surveys(arguments.epsilon)


def print_main_jobs(arguments: argparse.Namespace) -> None:
    """Time OLH, and run the main job on each histogram."""
    with threadpool_limits(limits=1):
        print_speed(arguments.epsilon)
        for name, columns in HISTOGRAMS.items():
            path = arguments.data / name
            if path.exists():
                print_main_job(path, columns, arguments)
            else:
                print(f"\n{name}: skipped, there is no such file in {arguments.data}")


def _parse_arguments() -> argparse.Namespace:
    parser = command(__doc__, __spec__)
    add_data_argument(parser)
    parser.add_argument("--epsilon", type=float, default=1.0, help="(default: 1)")
    parser.add_argument("--repeats", type=int, default=30, help="simulated collections")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument("--surveys", action="store_true", help="small sets and surveys alone")
    return parser.parse_args()


# -- speed --------------------------------------------------------------------------------------
def print_speed(epsilon: float, n_samples: int = 990_002, n_categories: int = 42_178) -> None:
    """Time OLH end to end with secure randomness, and a NumPy yardstick in the same run."""
    values = make_zipf(n_samples, n_categories, exponent=1.1, random_state=0)

    def privatize():
        return OLH(epsilon, categories=n_categories).privatize(values)

    reports = privatize()

    def aggregate():
        server = OLH(epsilon, categories=n_categories).aggregate(reports)
        return server.estimate_

    numbers = np.random.default_rng(0).random(10_000_000)
    yardstick = best_time(lambda: np.sort(numbers))
    client, server = best_time(privatize), best_time(aggregate)
    print(
        f"OLH, n = {n_samples:,}, d = {n_categories:,}, epsilon = {epsilon:g}, one core, best of "
        f"3:\n{client + server:.2f} s end to end (privatize {client:.2f} s, aggregate and decode "
        f"{server:.2f} s),\n{(client + server) / yardstick:.2f} times as long as np.sort of 1e7 "
        f"floats ({yardstick:.2f} s); {1e9 * client / n_samples:.0f} ns a user to privatize"
    )


def best_time(work: Callable[[], object], n_rounds: int = 3) -> float:
    """Return the least of several times that the work takes, in seconds."""
    times = []
    for _ in range(n_rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


# -- small sets and surveys -----------------------------------------------------------------------
def print_surveys(epsilon: float, n_users: int = 1_000_000) -> None:
    """Time what has no other benchmark, with secure randomness and all threads."""
    rng = np.random.default_rng(0)
    values = make_zipf(100_000, 1024, exponent=1.1, random_state=0)
    sets = SubsetSelection(5.0, categories=1024)
    rows = [_timed(f"sets of {sets.channel().size} of 1,024", lambda: sets.fit(values))]
    answers = rng.random((n_users, 16)) < np.linspace(0.1, 0.9, 16)
    people = {"16 yes/no columns": ({f"q{j}": 2 for j in range(16)}, 3, answers.astype(int))}
    try:
        records = adult()
        people["Adult"] = domains_of(records), 2, records.to_numpy()
    except FileNotFoundError:
        print("\nAdult: skipped, there is no such file")
    for name, (domains, order, codes) in people.items():
        survey = MarginalOracle(epsilon, domains=domains, order=order)
        drawn = codes if len(codes) == n_users else codes[rng.integers(len(codes), size=n_users)]
        rows.append(_timed(f"{name}, tables of {order}: fit", lambda s=survey, d=drawn: s.fit(d)))
        raw = survey.estimate_
        rows.append(
            _timed(f"{name}: LatentClasses", lambda r=raw: LatentClasses().fit_transform(r))
        )
    print("\n" + format_table(["100,000 or a million users", "s", "processor, s"], rows))


def _timed(name: str, work: Callable[[], object]) -> list[str]:
    """Return a row of a table: a name, and the seconds of one run."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return [name, f"{time.perf_counter() - clock:.2f}", f"{time.process_time() - processor:.2f}"]


# -- the main job -------------------------------------------------------------------------------
def print_main_job(path: Path, columns: list[str], arguments: argparse.Namespace) -> None:
    """Run all oracles, post-processors and searches on one histogram."""
    data = read_histogram(path)
    query_sets = {"full domain": full_domain()}
    for column in columns:
        labels = data.groups[column]
        query_sets[f"{column} ({len(set(labels))})"] = groups(labels)
    d = len(data.categories)
    print(f"\n{path.name}: n = {data.n_samples:,}, d = {d:,}, epsilon = {arguments.epsilon:g}\n")
    oracles = {
        oracle.__name__: oracle(arguments.epsilon, categories=data.categories)
        for oracle in all_oracles().values()
    }
    rows, picks = [], {}
    for name, oracle in oracles.items():
        start = time.perf_counter()
        estimate = oracle.fit_transform(data.categories, sample_weight=data.counts)
        collected = time.perf_counter()
        picks[name] = searched(
            estimate, query_sets, n_repeats=arguments.repeats, seed=arguments.seed
        )
        times = f"{collected - start:.2f}", f"{time.perf_counter() - collected:.2f}"
        squared = squared_z(estimate, data.frequencies)
        z_score = (squared.mean() - 1) / (squared.std() / np.sqrt(squared.size))
        rows.append([name, *times, f"{squared.mean():.4f}", f"{z_score:+.2f}"])
    header = ["oracle", "collection, s", "searches, s", "squared z, mean", "its z-score"]
    print(format_table(header, rows))
    study = simulate_errors(
        oracles,
        "all",
        data.counts,
        queries=query_sets,
        n_repeats=arguments.repeats,
        random_state=arguments.seed,
    )
    print(f"\nMSE over {arguments.repeats} simulated collections, * is the best of its column")
    print(f"\n{error_tables(study, '{:.2g}'.format)}")
    print(f"\nWhat the searches pick; regret is in RMSE\n\n{pick_table(study, picks)}")


def squared_z(estimate, frequencies) -> np.ndarray:
    """Return squared errors of a raw estimate in units of their variance (2020 paper, Eq. 5)."""
    errors = estimate.values[0] - frequencies
    return errors**2 / estimate.noise.variance(frequencies)


if __name__ == "__main__":
    main()
