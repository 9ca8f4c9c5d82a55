"""How good the choices of the searches are: ``python -m benchmarks.accuracy.selection_regret``.

Regret is the error of the post-processor that a search chooses, divided by that of the best one in
hindsight, minus one. Two numbers are printed: the median over the runs, where the best candidate is
that of the same run; and the mean error of the chosen ones compared with the least mean error of a
candidate, on which a single lucky run has little influence. Each run is a real collection by the
users' protocol.

First on seven distributions at epsilon 1: every category, random sets of a tenth of the domain, and
twenty random groups, for which EmpiricalBayes with these groups is a candidate, too. Then on emoji
counts with Unicode's groups over epsilon, as in the 2020 paper's Figures 8 and 9. The synthesizer
is the default, two populations; Norm-Sub, as there; or PowerNS, which tends to choose itself. The
data are not part of the project: a file that is missing is skipped.

With ``--populations FILE``, what benchmarks/accuracy/_real_populations.py prints (``--fresh`` has
those on which no code was tuned), the searches are compared on those that have groups instead: on
all, or on the first half of them or on the second. A cell is one population, epsilon and number of
users; ``--wide`` has other oracles, too. Its regret is the mean error of what a way gives over the
least mean error of a candidate. The table has the geometric mean over the cells, its standard error
(a jackknife over the populations), the greatest one, and the CPU seconds of one fit. The best
constant rule is the candidate of the least geometric mean. The papers' candidates are those of
"all" without EmpiricalBayes. ``--ways`` compares some ways only, ``--max-d`` leaves out large
domains, and ``--picture FILE`` draws the table.

With ``--large``, it tells what fewer synthetic collections cost in large domains.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    EmpiricalBayes,
    HeldOutSearch,
    NormSub,
    PowerNS,
    SubsetSelection,
    SyntheticSearch,
    SyntheticStack,
)
from sklearn_ldp._core.support.text import format_table
from sklearn_ldp.datasets import read_histogram
from sklearn_ldp.metrics import query_errors
from sklearn_ldp.model_selection import candidate_name, default_candidates
from sklearn_ldp.queries import full_domain, groups, random_sets, top_k

from .._command import add_data_argument, command
from .._tables import with_error
from .seven_distributions import rounded, seven

EMOJI = "EMOJI_TRACKER2019_N884427.csv.gz"
EPSILONS = (0.2, 0.5, 1.0, 2.0, 4.0)
REPEATS = (30, 20, 12, 10, 5)
LARGE = ("RETAIL_one_item.csv.gz", "KOSARAK_PREFIX36682_one_item.csv.gz")
# Oracles, budgets and numbers of users.
COLLECTIONS = (
    (OLH, 1.0, 20_000),
    (OLH, 1.0, 100_000),
    (OLH, 1.0, 1_000_000),
    (OLH, 2.0, 1_000_000),
)
WIDE = (
    (OLH, 0.5, 20_000),
    (OUE, 1.0, 20_000),
    (OLH, 1.0, 100_000),
    (SubsetSelection, 2.0, 100_000),
    (GRR, 4.0, 100_000),
    (OLH, 1.0, 1_000_000),
)
GUARDED = ("HeldOutSearch", "  bootstrap")
SEARCHES = {
    "SyntheticSearch": SyntheticSearch(random_state=0),
    "  with NormSub": SyntheticSearch(synthesizer=NormSub(), random_state=0),
    "  with PowerNS": SyntheticSearch(synthesizer=PowerNS(), random_state=0),
    "HeldOutSearch": HeldOutSearch(),
    "  without guard": HeldOutSearch(min_z_score=0),
    "  bootstrap": HeldOutSearch(method="bootstrap"),
    "  without guard ": HeldOutSearch(method="bootstrap", min_z_score=0),
}
PAPERS = [one for one in default_candidates() if not isinstance(one, EmpiricalBayes)]
COMPARED = {
    "SyntheticSearch": SEARCHES["SyntheticSearch"],
    "SyntheticStack": SyntheticStack(random_state=0),
    "papers' candidates, pick": SyntheticSearch(PAPERS, random_state=0),
    "papers' candidates, stack": SyntheticStack(PAPERS, random_state=0),
    "  one population": SyntheticSearch(synthesizer=EmpiricalBayes(), random_state=0),
    "  with NormSub": SEARCHES["  with NormSub"],
    **{name: SEARCHES[name] for name in GUARDED},
}
CONSTANT = "best constant rule"
TOLD = "EmpiricalBayes(queries)"  # no search: always this one


def main() -> None:
    """Print one table per kind of query, and one of the choices."""
    parser = command(__doc__, __spec__)
    add_data_argument(parser)
    parser.add_argument("--repeats", type=int, default=20, help="collections of each kind")
    parser.add_argument("--n-jobs", type=int, default=1, help="(default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument("--populations", type=Path, help="compare on these; see above")
    parser.add_argument("--wide", action="store_true", help="other oracles, too")
    parser.add_argument("--ways", nargs="*", help="compare only these (default: all)")
    parser.add_argument("--max-d", type=int, help="only populations of no more categories")
    parser.add_argument("--picture", type=Path, help="draw the regrets into this file")
    parser.add_argument("--large", action="store_true", help="compare numbers of repeats")
    parser.add_argument(
        "--half", type=int, choices=(1, 2), help="of the populations (default: all)"
    )
    arguments = parser.parse_args()
    with threadpool_limits(1):
        if arguments.large:
            print_large(arguments)
            return
        if arguments.populations is not None:
            print_populations(arguments)
            return
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
        for search in (*SEARCHES, TOLD):
            regrets = np.array([regret(*cell, search) for cell in cells])
            average = [_summary(regrets.mean(axis=0)), _summary(np.median(regrets, axis=0))]
            rows.append([search, *map(_summary, regrets), *average])
        print(format_table(["", *populations, "average", "median"], rows))


def print_emoji(data: Any, arguments: argparse.Namespace) -> None:
    """Print the regrets over epsilon, and what was chosen most often."""
    names = [*(candidate_name(candidate) for candidate in default_candidates()), TOLD]
    for column in ("category", "subcategory"):
        queries = groups(data.groups[column])
        cells = [study(data.counts, epsilon, queries, arguments) for epsilon in EPSILONS]
        print(f"\nemoji, groups of Unicode's {column}: {_SUMMARY}")
        rows = [[s, *(_summary(regret(*cell, s)) for cell in cells)] for s in (*SEARCHES, TOLD)]
        rows.append(["picks most:", *("" for _ in EPSILONS)])
        rows += [[s, *(_most(names, picks[s]) for _, picks in cells)] for s in SEARCHES]
        best = (_most(names, errors.argmin(axis=1)) for errors, _ in cells)
        rows.append(["best of a run", *best])
        rows.append(["best on average", *(names[e.mean(axis=0).argmin()] for e, _ in cells)])
        print(format_table(["epsilon", *(f"{epsilon:g}" for epsilon in EPSILONS)], rows))


def print_populations(arguments: argparse.Namespace) -> None:
    """Print the errors of the choices on some of the populations."""
    populations = json.loads(arguments.populations.read_text(encoding="utf-8"))
    largest = arguments.max_d or np.inf
    names = [n for n, one in populations.items() if one["groups"] and len(one["counts"]) <= largest]
    if arguments.half is not None:
        middle = len(names) // 2
        names = names[:middle] if arguments.half == 1 else names[middle:]
    ways = {
        way: search
        for way, search in COMPARED.items()
        if not arguments.ways or way.strip() in arguments.ways
    }
    collections = WIDE if arguments.wide else COLLECTIONS
    cells = [(name, *collection) for name in names for collection in collections]
    results = Parallel(n_jobs=arguments.n_jobs)(
        delayed(compared)(
            populations[name], oracle(epsilon), n, ways, arguments.repeats, arguments.seed
        )
        for name, oracle, epsilon, n in cells
    )
    singles = [candidate_name(one) for one in default_candidates()]
    seconds = {way: np.mean([costs[way] for _, costs in results]) for way in ways}
    kinds = list(results[0][0])
    regrets = dict[str, dict[str, np.ndarray]]()
    constants = dict[str, str]()
    for kind in kinds:
        of = {
            name: np.array([one[kind][name] for one, _ in results]) for name in results[0][0][kind]
        }
        best = min(singles, key=lambda name: np.log(of[name]).mean())
        constants[kind] = best
        shown = {**{way: of[way] for way in ways}, TOLD: of[TOLD], CONSTANT: of[best]}
        for way, ratios in shown.items():
            regrets.setdefault(way, {})[kind] = ratios
    groups_of = np.array([name for name, *_ in cells])
    table = [
        [way, *(with_error(of[kind], groups_of) for kind in kinds), _seconds(seconds.get(way))]
        for way, of in regrets.items()
    ]
    print(f"{len(names)} populations, {len(cells)} cells of {arguments.repeats} collections:")
    print("error over the least of a candidate: geometric mean (standard error) / greatest")
    print(format_table(["", *kinds, "seconds"], table))
    print("best constant rule:", "; ".join(f"{kind}: {one}" for kind, one in constants.items()))
    print_ratios(regrets, groups_of, kinds)
    for way in list(ways)[:2]:
        for kind in kinds:
            worst = np.argsort(-regrets[way][kind])[:3]
            greatest = [_cell(cells[i], regrets[way][kind][i]) for i in worst]
            print(f"{kind}, greatest of {way.strip()}: {'; '.join(greatest)}")
    if arguments.picture is not None:
        draw(regrets, kinds, arguments.picture)


def print_ratios(regrets: dict, of_cells: np.ndarray, kinds: list[str]) -> None:
    """Print the errors of stacks over those of picks from the same candidates."""
    pairs = (
        ("SyntheticStack", "SyntheticSearch"),
        ("papers' candidates, stack", "papers' candidates, pick"),
    )
    rows = [
        [one, *(with_error(regrets[one][k] / regrets[other][k], of_cells) for k in kinds)]
        for one, other in pairs
        if one in regrets and other in regrets
    ]
    if rows:
        print("error over that of the pick from the same candidates, and its greatest:")
        print(format_table(["", *kinds], rows))


def draw(regrets: dict, kinds: list[str], path: Path) -> None:
    """Draw the geometric mean of the regrets by question, hindsight's best candidate at 1."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    for i, (way, of) in enumerate(regrets.items()):
        means = [np.exp(np.log(of[kind]).mean()) for kind in kinds]
        shift = 0.06 * (i - (len(regrets) - 1) / 2)
        places = np.arange(len(kinds)) + shift
        ax.plot(means, places, "osD^vPX*<>hd"[i % 12], label=way.strip(), markersize=6)
    ax.axvline(1, color="0.6", linewidth=1)
    ax.set_yticks(range(len(kinds)), kinds)
    ax.invert_yaxis()
    ax.set_xscale("log")
    right = 1.05 * max(np.exp(np.log(x).mean()) for of in regrets.values() for x in of.values())
    ticks = [tick for tick in (1, 1.1, 1.2, 1.5, 2, 3, 5) if tick <= right]
    ax.set_xlim(0.99, right)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xlabel("error over that of the best candidate in hindsight")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")
    figure.savefig(path, dpi=150)


def print_large(arguments: argparse.Namespace) -> None:
    """Print the errors of SyntheticSearch's choices in large domains, by the number of repeats."""
    rank = np.arange(1, 42_179.0)
    lognormal = np.exp(2 * np.random.default_rng(arguments.seed).normal(size=len(rank)))
    laws = [rank**-1.5, rank**-1.1, rank**-0.8, 0.999**rank, lognormal]
    populations = [rounded(law, 990_002) for law in laws]
    paths = [arguments.data / name for name in LARGE]
    populations += [read_histogram(path).counts for path in paths if path.exists()]
    results = Parallel(n_jobs=arguments.n_jobs)(
        delayed(_by_repeats)(counts, epsilon, arguments.seed + i)
        for counts in populations
        for epsilon in (1.0, 2.0)
        for i in range(arguments.repeats)
    )
    kinds = list(results[0])
    rows = [
        [
            str(n_repeats),
            *(_quantiles([result[kind][n_repeats] for result in results]) for kind in kinds),
        ]
        for n_repeats in REPEATS
    ]
    print(f"{len(populations)} populations: error over that of the best of 13 candidates in")
    print("hindsight: geometric mean / 90 % / greatest")
    print(format_table(["collections", *kinds], rows))


def _by_repeats(counts: np.ndarray, epsilon: float, seed: int) -> dict[str, dict[int, float]]:
    """Return the error of the choice over that of the best one, by queries and repeats."""
    d, rng = len(counts), np.random.default_rng(seed)
    kinds = {
        "every category": full_domain(),
        "10 % sets": random_sets(0.1),
        "groups by lot": groups(rng.permutation(d) * 20 // d),
        "top 10": top_k(10),
    }
    oracle = OLH(epsilon, categories=d, random_state=rng)
    estimate = oracle.fit_transform(np.arange(d), sample_weight=counts)
    singles = default_candidates()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        made = [candidate.fit_transform(estimate) for candidate in singles]
        search = SyntheticSearch(synthesizer=EmpiricalBayes(), n_repeats=max(REPEATS))
        (case,) = search.set_params(random_state=seed)._cases(estimate)
        simulated = [candidate.fit_transform(case.estimate) for candidate in singles]
    result = {}
    for kind, queries in kinds.items():
        truth = counts / counts.sum()
        errors = np.array([query_errors(truth, one, queries=queries)[0] for one in made])
        judged = np.array(
            [query_errors(case.frequencies, one, queries=queries) for one in simulated]
        )
        result[kind] = {
            n: float(errors[judged[:, :n].mean(axis=1).argmin()] / errors.min()) for n in REPEATS
        }
    return result


def compared(
    population: dict,
    oracle: Any,
    n_samples: int,
    ways: dict[str, Any],
    repeats: int,
    seed: int,
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Return what ways to choose lose to the best candidate for each kind of query, and their cost.

    Parameters
    ----------
    population : dict
        Its "counts", and "groups": the labels of one or several groupings.
    oracle : oracle
        The oracle to collect with.
    n_samples : int
        Number of users.
    ways : dict of post-processors
        What is compared, by name; those that have the parameter are told the queries.
    repeats : int
        Number of collections.
    seed : int
        Seed of all that is drawn.

    Returns
    -------
    errors : dict of dict
        Over that of the best candidate, keyed by the kind of queries and the way.
    seconds : dict of float
        CPU time of one fit.
    """
    shares = np.array(population["counts"]) / np.sum(population["counts"])
    labels = np.array(min(population["groups"].values(), key=lambda one: len(set(one))))
    totals: dict[str, dict[str, float]] = {}
    seconds = dict.fromkeys(ways, 0.0)
    for i in range(repeats):
        rng = np.random.default_rng([seed, i, len(shares)])
        kinds = {
            "every category": full_domain(),
            "10 % sets": random_sets(0.1),
            "natural groups": groups(labels),
            "groups by lot": groups(rng.permutation(labels)),
            "top 10": top_k(10),
        }
        counts = rng.multinomial(n_samples, shares)
        asked = clone(oracle).set_params(categories=len(counts), random_state=rng)
        estimate = asked.fit_transform(np.arange(len(counts)), sample_weight=counts)
        for kind, queries in kinds.items():
            errors, times = _errors_of_choices(estimate, counts / n_samples, queries, ways)
            of_kind = totals.setdefault(kind, {})
            for method, error in errors.items():
                of_kind[method] = of_kind.get(method, 0.0) + error
            for way, cost in times.items():
                seconds[way] += cost / (repeats * len(kinds))
    singles = [candidate_name(candidate) for candidate in default_candidates()]
    return {
        kind: {
            method: error / min(found[one] for one in (*singles, TOLD))
            for method, error in found.items()
        }
        for kind, found in totals.items()
    }, seconds


def _errors_of_choices(estimate: Any, truth: np.ndarray, queries: Any, ways: dict) -> tuple:
    """Return the error of every candidate and of what each way gives, and the ways' seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        made = {candidate_name(one): one.fit_transform(estimate) for one in default_candidates()}
        made[TOLD] = EmpiricalBayes(queries=queries).fit_transform(estimate)
        seconds = {}
        for way, method in ways.items():
            start, method = time.process_time(), clone(method)
            if "queries" in method.get_params():
                method.set_params(queries=queries)
            made[way] = method.fit_transform(estimate)
            seconds[way] = time.process_time() - start
    errors = {name: query_errors(truth, one, queries=queries)[0] for name, one in made.items()}
    return errors, seconds


def _seconds(cost: float | None) -> str:
    return "" if cost is None else f"{cost:.2f}"


def _cell(cell: tuple, regret: float) -> str:
    name, oracle, epsilon, n = cell
    return f"{regret:.2f} {name} ({oracle.__name__}, epsilon {epsilon:g}, {n:,})"


def _quantiles(ratios: Any) -> str:
    values = np.array(ratios)
    mean, tail = np.exp(np.log(values).mean()), np.quantile(values, 0.9)
    return f"{mean:.3f} / {tail:.2f} / {values.max():.2f}"


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
    picks[TOLD] = len(errors) - 1
    return errors, picks


def candidates(queries: Any) -> list:
    """Return the candidates of HeldOutSearch: the last one knows the groups, if there are any."""
    is_grouped = repr(queries).startswith("groups")
    return [*default_candidates(), *([EmpiricalBayes(queries=queries)] if is_grouped else [])]


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
