"""How good the choices of the searches are: ``python -m benchmarks.selection_regret``.

Regret is the error of the post-processor that a search chooses, divided by that of the best one in
hindsight, minus one. Two numbers are printed: the median over the runs, where the best candidate is
that of the same run; and the mean error of the chosen ones compared with the least mean error of a
candidate, on which a single lucky run has little influence. Each run is a real collection by the
users' protocol.

First on seven distributions at epsilon 1: every category, random sets of a tenth of the domain, and
twenty random groups, for which EmpiricalBayes with these groups is a candidate, too. Then on emoji
counts with Unicode's groups over epsilon, as in the 2020 paper's Figures 8 and 9. The synthesizer
is Norm-Sub, as there; PowerNS, which tends to choose itself; or EmpiricalBayes. The data are not
part of the project: a file that is missing is skipped.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from sklearn_ldp import OLH, EmpiricalBayes, HeldOutSearch, PowerNS, SyntheticSearch
from sklearn_ldp._table import format_table
from sklearn_ldp.datasets import read_histogram
from sklearn_ldp.metrics import query_errors
from sklearn_ldp.model_selection import candidate_name, default_candidates
from sklearn_ldp.queries import full_domain, groups, random_sets

from ._data import add_data_argument
from .seven_distributions import seven

EMOJI = "EMOJI_TRACKER2019_N884427.csv.gz"
EPSILONS = (0.2, 0.5, 1.0, 2.0, 4.0)
SEARCHES = {
    "SyntheticSearch": SyntheticSearch(random_state=0),
    "  with PowerNS": SyntheticSearch(synthesizer=PowerNS(), random_state=0),
    "  with EmpiricalBayes": SyntheticSearch(synthesizer=EmpiricalBayes(), random_state=0),
    "HeldOutSearch": HeldOutSearch(),
    "  without guard": HeldOutSearch(guard=0),
}
GROUPED = "EmpiricalBayes(groups)"  # no search: always this one


def main() -> None:
    """Print one table per kind of query, and one of the choices."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.selection_regret", description=__doc__.split("\n", 1)[0]
    )
    add_data_argument(parser)
    parser.add_argument("--repeats", type=int, default=20, help="collections of each kind")
    parser.add_argument("--n-jobs", type=int, default=1, help="(default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    arguments = parser.parse_args()
    with threadpool_limits(1):
        print_seven(arguments)
        path = arguments.data / EMOJI
        if path.exists():
            print_emoji(read_histogram(path), arguments)
        else:
            print(f"\nskipped: there is no {path}")


def print_seven(arguments: argparse.Namespace) -> None:
    """Print the regrets on each distribution."""
    populations = seven(arguments.seed)
    for kind in ("every category", "10 % sets", "20 groups by lot"):
        cells = [
            study(counts, epsilon, _queries(kind, len(counts)), arguments)
            for counts, epsilon in populations.values()
        ]
        print(f"\n{kind}, epsilon 1: {_SUMMARY}, {arguments.repeats} runs")
        rows = []
        for search in (*SEARCHES, GROUPED):
            regrets = np.array([regret(*cell, search) for cell in cells])
            average = [_summary(regrets.mean(axis=0)), _summary(np.median(regrets, axis=0))]
            rows.append([search, *map(_summary, regrets), *average])
        print(format_table(["", *populations, "average", "median"], rows))


def print_emoji(data: Any, arguments: argparse.Namespace) -> None:
    """Print the regrets over epsilon, and what was chosen most often."""
    names = [*(candidate_name(candidate) for candidate in default_candidates()), GROUPED]
    for column in ("category", "subcategory"):
        queries = groups(data.groups[column])
        cells = [study(data.counts, epsilon, queries, arguments) for epsilon in EPSILONS]
        print(f"\nemoji, groups of Unicode's {column}: {_SUMMARY}")
        rows = [[s, *(_summary(regret(*cell, s)) for cell in cells)] for s in (*SEARCHES, GROUPED)]
        rows.append(["picks most:", *("" for _ in EPSILONS)])
        rows += [[s, *(_most(names, picks[s]) for _, picks in cells)] for s in SEARCHES]
        best = (_most(names, errors.argmin(axis=1)) for errors, _ in cells)
        rows.append(["best of a run", *best])
        rows.append(["best on average", *(names[e.mean(axis=0).argmin()] for e, _ in cells)])
        print(format_table(["epsilon", *(f"{epsilon:g}" for epsilon in EPSILONS)], rows))


def _queries(kind: str, n_categories: int) -> Any:
    if kind == "every category":
        return full_domain()
    if kind == "10 % sets":
        return random_sets(0.1)
    return groups(np.random.default_rng(0).permutation(n_categories) * 20 // n_categories)


def study(
    counts: np.ndarray, epsilon: float, queries: Any, arguments: argparse.Namespace
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the candidates' errors and the searches' choices in some collections.

    Parameters
    ----------
    counts : ndarray of shape (d,)
        True counts.
    epsilon : float
        Privacy budget.
    queries : QuerySet
        The queries to answer.
    arguments : Namespace
        The options repeats, n_jobs and seed.

    Returns
    -------
    errors : ndarray of shape (repeats, n_candidates)
        The error of every candidate.
    picks : dict of ndarray of shape (repeats,)
        For each search, the index of the chosen candidate.
    """
    work = (
        delayed(run)(counts, epsilon, queries, arguments.seed + i) for i in range(arguments.repeats)
    )
    runs = Parallel(n_jobs=arguments.n_jobs)(work)
    picks = {search: np.array([picked[search] for _, picked in runs]) for search in runs[0][1]}
    return np.array([errors for errors, _ in runs]), picks


def run(counts: np.ndarray, epsilon: float, queries: Any, seed: int) -> tuple[list, dict]:
    """Return the errors of all candidates in one collection, and what each search chooses."""
    d = len(counts)
    oracle = OLH(epsilon, categories=d, random_state=seed)
    estimate = oracle.fit_transform(np.arange(d), sample_weight=counts)
    with warnings.catch_warnings():  # fits to pure noise fall back and warn
        warnings.simplefilter("ignore", UserWarning)
        errors = [
            query_errors(counts / counts.sum(), post.fit_transform(estimate), queries=queries)[0]
            for post in candidates(queries)
        ]
        picks = {
            name: clone(search).set_params(queries=queries).fit(estimate).best_index_
            for name, search in SEARCHES.items()
        }
    picks[GROUPED] = len(errors) - 1
    return errors, picks


def candidates(queries: Any) -> list:
    """Return the candidates of HeldOutSearch: the last one knows the groups, if there are any."""
    is_grouped = repr(queries).startswith("groups")
    return [*default_candidates(), *([EmpiricalBayes(groups=queries)] if is_grouped else [])]


def regret(errors: np.ndarray, picks: dict, search: str) -> tuple[float, float]:
    """Return the median regret over the runs, and the regret of the mean errors."""
    picked = errors[np.arange(len(errors)), picks[search]]
    of_runs = np.median(picked / errors.min(axis=1)) - 1
    return float(of_runs), float(picked.mean() / errors.mean(axis=0).min() - 1)


_SUMMARY = "regret in %, median of runs (of the mean error)"


def _summary(regrets: Any) -> str:
    return f"{100 * regrets[0]:.1f} ({100 * regrets[1]:.1f})"


def _most(names: list, picks: Any) -> str:
    index = np.bincount(picks).argmax()
    return f"{names[index]} {np.count_nonzero(picks == index)}/{len(picks)}"


if __name__ == "__main__":
    main()
