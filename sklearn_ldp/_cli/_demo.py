"""``sklearn-ldp demo``: the main job on the US states, from reports to the pick of a search."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._files._atomic import check_writable
from .._progress import Progress
from ._arguments import add_epsilon, add_jobs, add_repeats, check_suffix, count, new_command, seed

if TYPE_CHECKING:
    from ._study import Study

_PICTURE_SUFFIXES = (".png", ".pdf", ".svg")

_DESCRIPTION = """\
The main job on real data. Residents of the US (2020 census) report their state, once each, under
epsilon-local differential privacy. Every oracle makes an estimate, every post-processor improves
it, and the searches pick a post-processor from the estimate alone; the truth, which a real server
never sees, then tells how good they all are. Prints two tables and draws a picture."""

_EPILOG = """\
examples:
  sklearn-ldp demo
  sklearn-ldp demo --epsilon 0.5 --n-samples 100000 --output half.png"""

_NEXT = """\
What next: README.md shows the same in ten lines of Python, and what a deployment looks like.
  sklearn-ldp estimate --help     your own file: an estimate with intervals, as CSV or Parquet
  sklearn-ldp demo --epsilon 0.2  less privacy loss, more noise: post-processing matters more"""


def add_command(commands: Any) -> None:
    """Add ``demo`` and its options."""
    parser = new_command(
        commands,
        "demo",
        run,
        title="the main job on real data, in a few seconds",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add_epsilon(parser)
    parser.add_argument(
        "--n-samples",
        type=count,
        default=1_000_000,
        metavar="N",
        help="residents who report, drawn at random (default: 1000000)",
    )
    add_repeats(parser)
    parser.add_argument(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="makes the demo repeatable, and its reports predictable (default: 0)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("sklearn_ldp_demo.png"),
        metavar="FILE",
        help="the picture, .png, .pdf or .svg (default: sklearn_ldp_demo.png)",
    )
    add_jobs(parser)


def run(arguments: argparse.Namespace) -> None:
    """Run the demo."""
    from ..datasets import load_us_states

    check_suffix(arguments.output, _PICTURE_SUFFIXES)
    check_writable(arguments.output)
    states = load_us_states(n_samples=arguments.n_samples, random_state=arguments.seed)
    query_sets = _query_sets(states)
    print(_introduction(arguments, list(query_sets)), flush=True)
    studies = _studies(arguments, states, query_sets)
    print(f"\n{_error_tables(studies, arguments.repeats)}\n\n{_pick_table(studies)}\n")
    print(_draw(studies, states, arguments.output))
    print(f"\n{_NEXT}")


def _query_sets(states: Any) -> dict[str, Any]:
    from ..queries import full_domain, groups

    divisions, regions = states.groups.division, states.groups.region
    return {
        f"{len(states.categories)} states": full_domain(),
        f"{len(set(divisions))} divisions": groups(divisions),
        f"{len(set(regions))} regions": groups(regions),
    }


def _introduction(arguments: argparse.Namespace, query_names: list[str]) -> str:
    return (
        f"{arguments.n_samples:,} residents of the US (2020 census: {', '.join(query_names)}) "
        "report their state,\n"
        f"once each, under epsilon-LDP with epsilon = {arguments.epsilon:g}. "
        "The server sees noisy reports only.\n"
        f"This is a simulation with --seed {arguments.seed}: a seeded demo protects nobody."
    )


def _studies(arguments: argparse.Namespace, states: Any, query_sets: dict) -> list[Study]:
    from ._methods import all_oracles
    from ._study import N_STEPS, study_oracle

    oracles = all_oracles().values()
    studies = []
    with Progress(N_STEPS * len(oracles)) as progress:
        for oracle in oracles:
            study = study_oracle(
                oracle(arguments.epsilon, categories=states.categories, n_jobs=arguments.jobs),
                states.categories,
                states.counts,
                query_sets,
                n_repeats=arguments.repeats,
                seed=arguments.seed,
                announce=progress.step,
            )
            studies.append(study)
    return studies


def _error_tables(studies: list[Study], n_repeats: int) -> str:
    from ._report import error_tables

    title = (
        f"Error of the answers: RMSE in percentage points over {n_repeats} simulated collections;\n"
        "* is the best post-processor of its column. Base is the raw estimate."
    )
    tables = error_tables(studies, lambda study, *which: f"{study.rmse(*which):.4f}")
    return f"{title}\n\n{tables}"


def _pick_table(studies: list[Study]) -> str:
    from ._report import pick_table

    title = (
        "What the searches pick from the one real estimate of each oracle, without the truth;\n"
        "regret is how much the RMSE of the pick, in the tables above, exceeds that of the best."
    )
    return f"{title}\n\n{pick_table(studies)}"


def _draw(studies: list[Study], states: Any, path: Path) -> str:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return "No picture: it needs matplotlib (pip install 'sklearn_ldp[plot]')."
    from ._picture import draw_demo

    draw_demo(studies, states, path)
    return f"Picture: {path}"
