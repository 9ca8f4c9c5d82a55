"""``sklearn-ldp study``: errors of oracles and post-processors on known frequencies

Simulate whole collections from known frequencies, and write a table of the errors of every
combination of oracle, epsilon, post-processor and queries. The frequencies are those of a histogram
(CSV, CSV.gz or Parquet with the columns value and count) or of a built-in distribution.

The queries are full, sets:SHARE, ranges:COUNT, top:K, groups:COLUMN: every category; random sets of
this share of the domain; so many ranges, in the order of the histogram; the K most frequent
categories; the groups that another column of the histogram names. For the last three, the row
"empirical-bayes, told" is the same method with the queries, as `estimate --queries` takes them.

----
With --checkpoint each part is kept as soon as it is finished: the same command resumes after Ctrl-C
or a crash, and a larger study computes only what is new.

examples:
  sklearn-ldp study histogram.csv --oracle olh oue --epsilon 0.5 1 2 --output errors.csv
  sklearn-ldp study --distribution zipf --n-categories 1024 --n-samples 1000000 \\
      --post base norm-sub power-ns --queries full sets:0.1 top:20 --checkpoint study.jsonl
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._utils.files import check_writable, make_folder
from ..datasets import load_us_states, make_beta, make_zipf, read_histogram
from ..model_selection import simulate_errors
from ..queries import full_domain, groups, random_sets, ranges, top_k
from ._arguments import (
    ORACLE_NAMES,
    add_shared,
    all_postprocessors,
    all_searches,
    check_table_output,
    count,
    default_postprocessors,
    kebab,
    oracle_class,
    oracle_name,
    positive,
    say,
)
from ._demo import with_told
from ._files import write_table

_DISTRIBUTIONS = ["zipf", "beta", "uniform", "us-states"]
_QUERIES = "full, sets:SHARE, ranges:COUNT, top:K, groups:COLUMN"
_TELLING = ("ranges:", "top:", "groups:")  # EmpiricalBayes answers these better if it is told them


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    _add_population(parser.add_argument_group("population"))
    _add_methods(parser.add_argument_group("what is compared"))
    target = parser.add_argument_group("output")
    add_shared(target, "--output")
    text = "a file to resume from, created with its folder if missing (JSON lines)"
    target.add_argument("--checkpoint", type=Path, metavar="FILE", help=text)


def _add_population(parser: Any) -> None:
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="a histogram")
    text = f"instead of FILE: {', '.join(_DISTRIBUTIONS)}"
    parser.add_argument("--distribution", choices=_DISTRIBUTIONS, metavar="NAME", help=text)
    text = "domain of zipf, beta and uniform (default: 1024)"
    parser.add_argument("--n-categories", type=count, default=1024, metavar="D", help=text)
    text = "that of zipf (default: 1.5)"
    parser.add_argument("--exponent", type=positive, default=1.5, metavar="S", help=text)
    text = "number of users (default: those of the histogram, else 1000000)"
    parser.add_argument("--n-samples", type=count, metavar="N", help=text)


def _add_methods(parser: Any) -> None:
    posts = [*all_postprocessors(), *all_searches()]
    posts.remove("held-out-search")  # needs the shards of a real collection
    text = f"{ORACLE_NAMES} (default: olh)"
    parser.add_argument(
        "--oracle", nargs="+", type=oracle_name, default=["olh"], metavar="NAME", help=text
    )
    parser.add_argument(
        "--post",
        type=kebab,
        nargs="+",
        choices=posts,
        default=list(default_postprocessors()),
        metavar="NAME",
        help=f"%(choices)s (default: all up to {list(default_postprocessors())[-1]})",
    )
    text = "privacy budgets of one report (default: 1)"
    parser.add_argument(
        "--epsilon", nargs="+", type=positive, default=[1.0], metavar="E", help=text
    )
    parser.add_argument(
        "--queries", nargs="+", default=["full"], metavar="Q", help=f"{_QUERIES} (default: full)"
    )
    text = "mean squared or mean absolute error of the answers (default: mse)"
    parser.add_argument("--metric", nargs="+", choices=["mse", "mae"], default=["mse"], help=text)
    add_shared(parser, "--repeats", "--jobs")
    add_shared(parser, "--seed", default=0, help="seed of the simulation (default: 0)")


def run(arguments: argparse.Namespace) -> None:
    """Simulate the collections and write the table of errors."""
    check_table_output(arguments.output, arguments.file)
    if arguments.checkpoint is not None:
        check_writable(arguments.checkpoint)
    frequencies, n_samples, labels = _population(arguments)
    posts = all_postprocessors()
    searches = {name: search() for name, search in all_searches().items()}
    queries = {text: query_set(text, labels) for text in arguments.queries}
    oracles = {name: oracle_class(name)() for name in arguments.oracle}
    options = {
        "epsilons": arguments.epsilon,
        "metrics": arguments.metric,
        "n_repeats": arguments.repeats,
        "n_jobs": arguments.jobs,
        "random_state": arguments.seed,
        "checkpoint": arguments.checkpoint,
        "progress": True,
    }
    if arguments.checkpoint is not None:
        make_folder(arguments.checkpoint)
    try:
        study = simulate_errors(
            oracles,
            {name: {**posts, **searches}[name] for name in arguments.post},
            frequencies,
            n_samples,
            queries=queries,
            **options,
        )
        if "empirical-bayes" in arguments.post:
            asked = {text: one for text, one in queries.items() if text.startswith(_TELLING)}
            study = with_told(
                study, oracles, frequencies, asked, "empirical-bayes, told", n_samples, **options
            )
    except KeyboardInterrupt:
        if arguments.checkpoint is not None:
            say(f"interrupted: the same command goes on from {arguments.checkpoint}")
        raise
    columns = study.to_dict()
    del columns["population"]  # there is one
    write_table(columns, arguments.output)
    say(f"{len(study)} rows of {arguments.repeats} simulated collections each")


def _population(arguments: argparse.Namespace) -> tuple[np.ndarray, int | None, dict]:
    """Return frequencies and the number of users (or counts and None), and the groups' labels."""
    name, n_samples = arguments.distribution, arguments.n_samples
    if (name is None) == (arguments.file is None):
        raise ValueError("study needs a histogram FILE, or a --distribution, and not both.")
    if name in (None, "us-states"):
        given = load_us_states() if name else read_histogram(arguments.file)
        population = given.counts if n_samples is None else given.frequencies
        return population, n_samples, dict(given.groups)
    n_samples, d = n_samples or 1_000_000, arguments.n_categories
    options = {"return_counts": True, "random_state": arguments.seed}
    if name == "zipf":
        return make_zipf(n_samples, d, exponent=arguments.exponent, **options), None, {}
    if name == "beta":
        return make_beta(n_samples, d, **options), None, {}
    return np.full(d, 1 / d), n_samples, {}


def query_set(text: str, labels: Mapping[str, Any]) -> Any:
    """Return the queries that an option stands for, with the labels of groups by their column."""
    kind, _, value = text.partition(":")
    kinds = {
        "sets": lambda: random_sets(float(value)),
        "ranges": lambda: ranges(int(value)),
        "top": lambda: top_k(int(value)),
        "groups": lambda: groups(labels[value]),
    }
    if text in ("full", "full:"):
        return full_domain()
    try:
        return kinds[kind]()
    except (ValueError, KeyError):
        if kind == "groups" and not labels:
            raise ValueError(
                f"--queries {text} needs a histogram FILE with a column {value!r} that names the "
                "group of each category; this one has no columns but its values and counts."
            ) from None
        columns = f"; the columns are {', '.join(labels)}" if labels and kind == "groups" else ""
        raise ValueError(f"--queries must be of {_QUERIES}, got {text!r}{columns}.") from None
