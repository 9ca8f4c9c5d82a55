"""The command ``sklearn-ldp demo``.

The main job on real data. Residents of the US (2020 census) report their state, once each, under
epsilon-local differential privacy. Every oracle makes an estimate, every post-processor improves
it, and the searches pick a post-processor from the estimate alone; the truth, which a real server
never sees, then tells how good they all are. Prints tables and draws a picture.

----
examples:
  sklearn-ldp demo
  sklearn-ldp demo --epsilon 0.2 --output strict.png
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import sklearn_ldp as ldp

from .._core.support.files import check_writable, make_folder, replacing
from .._core.support.progress import Progress
from .._core.support.text import format_table, narrow
from ._arguments import add_shared, all_oracles, check_suffix, count

if TYPE_CHECKING:
    from ..model_selection import ErrorStudy

_PICTURE_SUFFIXES = (".png", ".pdf", ".svg")
_STATES, _LEVEL = 12, 0.95  # that are drawn, from the largest to the smallest

_ERRORS = """\
Error of the answers: RMSE in percentage points over {} simulated collections;
* is the best post-processor of its column. Base is the raw estimate; "with queries=" is
EmpiricalBayes(queries=...), which knows what is asked. That helps where groups differ from each
other. A state is no more like the others of its division than like any other, so here it makes no
difference (within 1 %, on average over many collections)."""

_PICKS = """\
What the searches pick from the one real estimate of each oracle, without the truth;
regret is how much the RMSE of the pick, in the tables above, exceeds that of the best."""

_NEXT = """\
What next: README.md shows the same in ten lines of Python, and where to read on.
  sklearn-ldp estimate --help     your own file: an estimate with intervals, as CSV or Parquet
  sklearn-ldp demo --epsilon 0.2  less privacy loss, more noise: post-processing matters more"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    text = "privacy budget of one report, > 0 (default: 0.5)"
    add_shared(parser, "--epsilon", default=0.5, help=text)
    text = "residents who report, drawn at random (default: 100000)"
    parser.add_argument("--n-samples", type=count, default=100_000, metavar="N", help=text)
    add_shared(parser, "--repeats", "--jobs")
    text = "makes the demo repeatable, and its reports predictable (default: 0)"
    add_shared(parser, "--seed", default=0, help=text)
    text = "the picture, .png, .pdf or .svg (default: sklearn_ldp_demo.png)"
    picture = Path("sklearn_ldp_demo.png")
    parser.add_argument("--output", type=Path, default=picture, metavar="FILE", help=text)


def run(arguments: argparse.Namespace) -> None:
    """Run the demo."""
    check_suffix(arguments.output, _PICTURE_SUFFIXES)
    check_writable(arguments.output)
    states = ldp.datasets.load_us_states(n_samples=arguments.n_samples, random_state=arguments.seed)
    query_sets = _query_sets(states)
    print(_introduction(arguments, list(query_sets)), flush=True)
    known = {"categories": states.categories, "n_jobs": arguments.jobs}
    made = [oracle(arguments.epsilon, **known) for oracle in all_oracles().values()]
    oracles = {type(oracle).__name__: oracle for oracle in made}
    estimates, picks = {}, {}
    coins = np.random.default_rng(arguments.seed)
    with Progress(1 + len(oracles)) as progress:
        progress.step("simulating collections of every oracle")
        options = {"n_repeats": arguments.repeats, "random_state": arguments.seed}
        study = ldp.model_selection.simulate_errors(
            oracles, "all", states.counts, queries=query_sets, **options
        )
        study = with_told(study, oracles, states.counts, query_sets, **options)
        for name, oracle in oracles.items():
            progress.step(f"{name}: collecting and searching")
            # The users and the search must not draw the same coins, nor those of other oracles.
            oracle_seed, search_seed = coins.integers(2**32, size=2).tolist()
            oracle.set_params(random_state=oracle_seed)
            estimates[name] = oracle.fit_transform(states.categories, sample_weight=states.counts)
            picks[name] = searched(estimates[name], query_sets, seed=search_seed)
    tables = error_tables(study, lambda mse: f"{_in_points(mse):.4f}")
    print(f"\n{_ERRORS.format(arguments.repeats)}\n\n{tables}")
    print(f"\n{_PICKS}\n\n{pick_table(study, picks)}\n")
    print(_draw(estimates, states, arguments.output))
    print(f"\n{_NEXT}\n\n{_in_short(study, arguments)}")


def _query_sets(states: Any) -> dict[str, Any]:
    divisions, regions = states.groups.division, states.groups.region
    return {
        f"{len(states.categories)} states": ldp.queries.full_domain(),
        f"{len(set(divisions))} divisions": ldp.queries.groups(divisions),
        f"{len(set(regions))} regions": ldp.queries.groups(regions),
    }


def _introduction(arguments: argparse.Namespace, query_names: list[str]) -> str:
    return (
        f"{arguments.n_samples:,} residents of the US (2020 census: {', '.join(query_names)}) "
        "report their state,\n"
        f"once each, under epsilon-LDP with epsilon = {arguments.epsilon:g}. "
        "The server sees noisy reports only.\n"
        f"This is a simulation with --seed {arguments.seed}: a seeded demo protects nobody."
    )


def _in_short(study: ErrorStudy, arguments: argparse.Namespace) -> str:
    """Return a sentence that a visitor can repeat: the gain by post-processing."""
    states = study["queries"][0]
    errors = [_errors(study, oracle, states) for oracle in dict.fromkeys(study["oracle"])]
    of_best = min(errors, key=lambda one: one["Base"])
    raw, after = (_in_points(of_best[name]) for name in ("Base", "EmpiricalBayes"))
    return (
        f"In short: with {arguments.n_samples:,} users at epsilon {arguments.epsilon:g}, "
        "post-processing\n"
        f"takes the error of a share from {raw:.2f} to {after:.2f} points, free of privacy cost."
    )


def _in_points(mse: Any) -> Any:
    """Root mean squared error in percentage points."""
    return 100 * np.sqrt(mse)


def _draw(estimates: dict, states: Any, path: Path) -> str:
    """Draw a dozen states: the truth, the best estimate, and what post-processing makes of it."""
    try:
        import matplotlib  # noqa: F401
        from matplotlib.figure import Figure
        from matplotlib.ticker import PercentFormatter
    except ImportError:
        return "No picture: it needs matplotlib (pip install 'sklearn_ldp[plot]')."
    from .._core.displays import FrequencyDisplay

    raw = min(estimates.values(), key=lambda one: float(one.noise.std))
    after, truth = ldp.EmpiricalBayes().fit_transform(raw), states.frequencies
    by_size = np.argsort(-truth, kind="stable")
    shown = by_size[np.linspace(0, len(truth) - 1, _STATES).astype(int)]
    low, high = raw.confidence_interval(_LEVEL, simultaneous=True)
    figure = Figure(figsize=(5.8, 5.0), layout="constrained")
    ax = figure.subplots()
    names = states.categories[shown]
    look: Any = {"orientation": "horizontal"}
    before = f"raw estimate, {100 * _LEVEL:g} % interval"
    ends = (low[0, shown], high[0, shown])
    FrequencyDisplay(
        names, raw.values[0, shown], interval=ends, truth=truth[shown], name=before, **look
    ).plot(ax)
    name = "after EmpiricalBayes"
    FrequencyDisplay(names, after.values[0, shown], name=name, **look).plot(ax)
    errors = [_in_points(np.mean((one.values[0] - truth) ** 2)) for one in (raw, after)]
    ax.set(ylabel="", xlabel="share of residents, in %")
    figure.suptitle(
        f"{states.n_samples:,} users, epsilon {raw.oracle.epsilon:g}: {names[0]} "
        f"{100 * raw.values[0, shown[0]]:.1f} % estimated, {100 * truth[shown[0]]:.1f} % true\n"
        f"Error of all {len(truth)}: {errors[0]:.2f} points, {errors[1]:.2f} after EmpiricalBayes",
        fontsize="medium",
    )
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=None, symbol=""))
    ax.legend(loc="lower right", frameon=False)
    make_folder(path)
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower(), dpi=120)
    return f"Picture: {path}"


# -- tables: a study of errors, and what the searches pick ----------------------------------------
TOLD = "with queries="  # short, as it heads rows of wide tables


def with_told(
    study: ErrorStudy, oracles: Any, counts: Any, query_sets: Mapping[str, Any], **options: Any
) -> ErrorStudy:
    """Return a study with the errors of an EmpiricalBayes that is told what is asked."""
    studies = [study]
    for asked, queries in query_sets.items():
        if repr(queries) != repr(ldp.queries.full_domain()):
            told, options["queries"] = {TOLD: ldp.EmpiricalBayes(queries=queries)}, {asked: queries}
            studies.append(ldp.model_selection.simulate_errors(oracles, told, counts, **options))
    columns = {name: np.concatenate([one[name] for one in studies]) for name in study.columns}
    return ldp.model_selection.ErrorStudy(columns, np.concatenate([one.errors for one in studies]))


def error_tables(study: ErrorStudy, show: Callable[[float], str]) -> str:
    """Return one table per query set, with a row per post-processor and a column per oracle."""
    oracles = list(dict.fromkeys(study["oracle"]))
    # The stars get a column of their own, a blank in the head, to keep the digits aligned.
    heads = [narrow(oracle).replace("\n", " \n") + " " for oracle in oracles]
    tables = []
    for queries in dict.fromkeys(study["queries"]):
        errors = [_errors(study, oracle, queries) for oracle in oracles]
        rows = [
            [post, *(show(e[post]) + ("*" if post == _best(e) else " ") for e in errors)]
            for post in errors[0]
        ]
        tables.append(format_table([queries, *heads], rows))
    return "\n\n".join(tables)


def searched(estimate: Any, query_sets: Mapping[str, Any], seed: int) -> dict[str, dict[str, str]]:
    """Return the pick of each search from an estimate, by the names of queries and search."""
    searches = [ldp.SyntheticSearch(random_state=seed), ldp.HeldOutSearch(random_state=seed)]
    return {
        name: {
            type(search).__name__: _pick(search.set_params(queries=queries).fit(estimate))
            for search in searches
        }
        for name, queries in query_sets.items()
    }


def _pick(search: Any) -> str:
    """Return the name of what a search has picked, as in the study."""
    best = search.best_estimator_
    is_told = isinstance(best, ldp.EmpiricalBayes) and best.queries is not None
    return TOLD if is_told else ldp.model_selection.candidate_name(best)


def pick_table(study: ErrorStudy, picks: Mapping[str, dict[str, dict[str, str]]]) -> str:
    """Return a table of what the searches pick, with one row per query set below each oracle."""
    searches = list(next(iter(next(iter(picks.values())).values())))
    header = ["oracle,\n  queries", "best in\nhindsight"]
    for search in searches:
        header += [search, "regret"]
    rows = []
    for oracle, of_oracle in picks.items():
        rows.append([oracle, *[""] * (len(header) - 1)])
        for queries, picked in of_oracle.items():
            errors = _errors(study, oracle, queries)
            best = _best(errors)
            row = [f"  {queries}", best]
            for search in searches:
                row += [picked[search], f"{_regret(errors[picked[search]], errors[best]):.1%}"]
            rows.append(row)
    left = [i for i, name in enumerate(header) if name != "regret"]
    return format_table(header, rows, left=left)


def _errors(study: ErrorStudy, oracle: str, queries: str) -> dict[str, float]:
    rows = study.select(oracle=oracle, queries=queries)
    return dict(zip(rows["postprocessor"].tolist(), rows.error.tolist(), strict=True))


def _best(errors: dict[str, float]) -> str:
    """The post-processor of the least error, which can be known only from the truth."""
    return min(errors, key=errors.__getitem__)


def _regret(mse: float, least: float) -> float:
    """How far an RMSE is above the least one, as a share of it."""
    excess = mse**0.5 - least**0.5
    # Without noise, at a huge epsilon, all that is left are rounding errors.
    return excess / (least**0.5 or 1e-11) if excess > 1e-11 else 0.0
