"""The command ``sklearn-ldp demo``.

A comparison of all methods on real data. Residents of the US (2020 census) report their state once
under epsilon-local differential privacy. Every oracle produces an estimate, every post-processor
improves it, and the searches select a post-processor from the estimate. The errors are computed
from the true frequencies, which a real server never sees. The command prints tables and draws a
picture.

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

from .._core.common.files import check_writable, make_folder, replacing
from .._core.common.progress import Progress
from .._core.common.text import format_table, narrow
from ._arguments import add_shared, all_oracles, check_suffix, count

if TYPE_CHECKING:
    from ..model_selection import ErrorStudy

_PICTURE_SUFFIXES = (".png", ".pdf", ".svg")
_N_STATES = 12  # in the picture, from the largest to the smallest
_LEVEL = 0.95

_ERRORS = """\
Error of the answers: RMSE in percentage points over {} simulated collections;
* is the best post-processor of its column. Base is the raw estimate; "with queries=" is
EmpiricalBayes(queries=...), which uses the queries. This helps if groups differ from each other.
The states of a division are not more similar to each other than to other states, so here the
queries make no difference (within 1 %, on average over many collections)."""

_PICKS = """\
Post-processors that the searches select from the estimate of each oracle, without the truth;
regret is the relative excess of the RMSE of the selection, in the tables above, over the best."""

_NEXT = """\
Next: README.md shows the same in ten lines of Python, and links to the guide.
  sklearn-ldp estimate --help     your own file: an estimate with intervals, as CSV or Parquet
  sklearn-ldp demo --epsilon 0.2  less privacy loss, more noise: post-processing matters more"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command ``demo`` to its parser."""
    text = "privacy budget of one report, > 0 (default: 0.5)"
    add_shared(parser, "--epsilon", default=0.5, help=text)
    text = "number of residents who report, drawn at random (default: 100000)"
    parser.add_argument("--n-samples", type=count, default=100_000, metavar="N", help=text)
    add_shared(parser, "--repeats", "--jobs")
    text = "makes the demo repeatable, and its reports predictable (default: 0)"
    add_shared(parser, "--seed", default=0, help=text)
    text = "the picture, .png, .pdf or .svg (default: sklearn_ldp_demo.png)"
    picture = Path("sklearn_ldp_demo.png")
    parser.add_argument("--output", type=Path, default=picture, metavar="FILE", help=text)


def run(arguments: argparse.Namespace) -> None:
    """Simulate collections with all methods, and print the tables of their errors."""
    check_suffix(arguments.output, _PICTURE_SUFFIXES)
    check_writable(arguments.output)
    states = ldp.datasets.load_us_states(n_samples=arguments.n_samples, random_state=arguments.seed)
    query_sets = _query_sets(states)
    print(_introduction(arguments, list(query_sets)), flush=True)
    oracles = {}
    for oracle_class in all_oracles().values():
        oracles[oracle_class.__name__] = oracle_class(
            arguments.epsilon, categories=states.categories, n_jobs=arguments.jobs
        )
    estimates = {}
    picks = {}
    rng = np.random.default_rng(arguments.seed)
    with Progress(1 + len(oracles)) as progress:
        progress.step("simulating collections of every oracle")
        options = {"n_repeats": arguments.repeats, "random_state": arguments.seed}
        study = ldp.model_selection.simulate_errors(
            oracles, "all", states.counts, queries=query_sets, **options
        )
        study = with_queries(study, oracles, states.counts, query_sets, **options)
        for name, oracle in oracles.items():
            progress.step(f"{name}: collecting and searching")
            # Users and searches of all oracles need independent random bits.
            oracle_seed, search_seed = rng.integers(2**32, size=2).tolist()
            oracle.set_params(random_state=oracle_seed)
            estimates[name] = oracle.fit_transform(states.categories, sample_weight=states.counts)
            picks[name] = searched(estimates[name], query_sets, seed=search_seed)
    tables = error_tables(study, lambda mse: f"{_in_points(mse):.4f}")
    print(f"\n{_ERRORS.format(arguments.repeats)}\n\n{tables}")
    print(f"\n{_PICKS}\n\n{pick_table(study, picks)}\n")
    print(_draw(estimates, states, arguments.output))
    print(f"\n{_NEXT}\n\n{_in_short(study, arguments)}")


def _query_sets(states: Any) -> dict[str, Any]:
    divisions = states.groups.division
    regions = states.groups.region
    return {
        f"{len(states.categories)} states": ldp.queries.full_domain(),
        f"{len(set(divisions))} divisions": ldp.queries.groups(divisions),
        f"{len(set(regions))} regions": ldp.queries.groups(regions),
    }


def _introduction(arguments: argparse.Namespace, query_names: list[str]) -> str:
    return (
        f"{arguments.n_samples:,} residents of the US (2020 census: {', '.join(query_names)}) "
        "report their state\n"
        f"once under epsilon-LDP with epsilon = {arguments.epsilon:g}. "
        "The server sees only noisy reports.\n"
        f"This is a simulation with --seed {arguments.seed}: reports from a seed have no privacy."
    )


def _in_short(study: ErrorStudy, arguments: argparse.Namespace) -> str:
    """Return a sentence with the errors before and after post-processing."""
    states = study["queries"][0]
    errors = [_errors(study, oracle, states) for oracle in dict.fromkeys(study["oracle"])]
    best = min(errors, key=lambda by_post: by_post["Base"])
    raw, after = (_in_points(best[name]) for name in ("Base", "EmpiricalBayes"))
    return (
        f"In short: with {arguments.n_samples:,} users at epsilon {arguments.epsilon:g}, "
        "post-processing\n"
        f"reduces the error of a frequency from {raw:.2f} to {after:.2f} percentage points,\n"
        "without privacy cost."
    )


def _in_points(mse: Any) -> Any:
    """Return the root of a mean squared error, in percentage points."""
    return 100 * np.sqrt(mse)


def _draw(estimates: dict, states: Any, path: Path) -> str:
    """Draw twelve states with their true frequency, raw estimate and post-processed estimate.

    Return a line with the name of the file.
    """
    try:
        import matplotlib  # noqa: F401
        from matplotlib.figure import Figure
        from matplotlib.ticker import PercentFormatter
    except ImportError:
        return "No picture: it needs matplotlib (pip install 'sklearn_ldp[plot]')."
    from .._core.displays import FrequencyDisplay

    raw = min(estimates.values(), key=lambda estimate: float(estimate.noise.std))
    after = ldp.EmpiricalBayes().fit_transform(raw)
    truth = states.frequencies
    by_size = np.argsort(-truth, kind="stable")
    shown = by_size[np.linspace(0, len(truth) - 1, _N_STATES).astype(int)]
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
    errors = [_in_points(np.mean((x.values[0] - truth) ** 2)) for x in (raw, after)]
    ax.set(ylabel="", xlabel="residents, in %")
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


# -- tables: a study of errors, and the selections of the searches --------------------------------
WITH_QUERIES = "with queries="  # short, because it heads rows of wide tables


def with_queries(
    study: ErrorStudy, oracles: Any, counts: Any, query_sets: Mapping[str, Any], **options: Any
) -> ErrorStudy:
    """Return a copy of the study that also has EmpiricalBayes with each query set."""
    studies = [study]
    for name, queries in query_sets.items():
        if repr(queries) != repr(ldp.queries.full_domain()):
            posts = {WITH_QUERIES: ldp.EmpiricalBayes(queries=queries)}
            options["queries"] = {name: queries}
            studies.append(ldp.model_selection.simulate_errors(oracles, posts, counts, **options))
    columns = {name: np.concatenate([part[name] for part in studies]) for name in study.columns}
    errors = np.concatenate([part.errors for part in studies])
    return ldp.model_selection.ErrorStudy(columns, errors)


def error_tables(study: ErrorStudy, show: Callable[[float], str]) -> str:
    """Return a table of errors as text for each query set.

    A table has one row per post-processor and one column per oracle. `show` converts a mean squared
    error to text.
    """
    oracles = list(dict.fromkeys(study["oracle"]))
    # Stars have a separate character, which is blank in the head, so that digits stay aligned.
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
    """Return the post-processor that each search selects from an estimate, for each query set.

    The result maps the name of a query set to a dict, which maps the name of a search to the name
    of the selected post-processor.
    """
    searches = [ldp.SyntheticSearch(random_state=seed), ldp.HeldOutSearch(random_state=seed)]
    return {
        name: {
            type(search).__name__: _pick(search.set_params(queries=queries).fit(estimate))
            for search in searches
        }
        for name, queries in query_sets.items()
    }


def _pick(search: Any) -> str:
    """Return the name of the post-processor that a search has selected."""
    best = search.best_estimator_
    has_queries = isinstance(best, ldp.EmpiricalBayes) and best.queries is not None
    return WITH_QUERIES if has_queries else ldp.model_selection.candidate_name(best)


def pick_table(study: ErrorStudy, picks: Mapping[str, dict[str, dict[str, str]]]) -> str:
    """Return a table of the selected post-processors as text.

    Below each oracle, there is one row per query set.
    """
    searches = list(next(iter(next(iter(picks.values())).values())))
    header = ["oracle,\n  queries", "best in\nhindsight"]
    for search in searches:
        header += [search, "regret"]
    rows = []
    for oracle, picks_by_queries in picks.items():
        rows.append([oracle, *[""] * (len(header) - 1)])
        for queries, picked in picks_by_queries.items():
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
    """Return the name of the post-processor with the smallest error.

    `errors` maps names to errors.
    """
    return min(errors, key=errors.__getitem__)


def _regret(mse: float, minimum: float) -> float:
    """Return sqrt(mse / minimum) - 1: by how much an error exceeds the minimum."""
    excess = mse**0.5 - minimum**0.5
    # Without noise, at a huge epsilon, only rounding errors remain.
    return excess / (minimum**0.5 or 1e-11) if excess > 1e-11 else 0.0
