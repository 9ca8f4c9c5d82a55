"""``sklearn-ldp estimate``: from a file of raw values to what a server would learn of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ._arguments import (
    add_columns,
    add_jobs,
    add_level,
    add_oracle,
    add_round,
    add_seed,
    add_table_output,
    check_table_output,
    new_command,
    say,
)
from ._methods import all_postprocessors, all_searches, make_oracle
from ._output import write_table

_DESCRIPTION = """\
Simulate a collection under epsilon-local differential privacy: every user's value of FILE is
randomised as her own device would do it, and the server's estimate of the frequencies is written
as a table, one row a category:

  value          the category
  raw_frequency  unbiased estimate, may be negative
  low, high      confidence interval around it, for each category on its own
  frequency      after post-processing
  count          the frequency times the number of users

FILE is told from its content:

  histogram      CSV, CSV.gz or Parquet with the columns value and count: so many users hold it
  values         one user a row: CSV, CSV.gz or Parquet with the column value (other columns are
                 ignored), or plain text, one value a line and no header
  checkpoint     what `sklearn-ldp aggregate` wrote: real reports, nothing is simulated; give the
                 --oracle, --epsilon, --categories and --round of the collection"""

_EPILOG = """\
privacy: the reports are as private as epsilon says when the domain is public (--categories) and
no --seed is given. Whoever runs this command sees the raw values of FILE all the same.

examples:
  sklearn-ldp estimate survey.csv --value-column browser --categories browsers.txt
  sklearn-ldp estimate histogram.csv.gz --epsilon 2 --post norm-cut --output estimate.parquet
  sklearn-ldp estimate values.txt --seed 0 --sort frequency | head
  sklearn-ldp estimate state.npz --categories browsers.txt --post held-out-search"""


def add_command(commands: Any) -> None:
    """Add ``estimate`` and its options."""
    parser = new_command(
        commands,
        "estimate",
        run,
        title="a file of values or a histogram in, an estimate out",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    _add_input_options(parser.add_argument_group("input"))
    _add_method_options(parser.add_argument_group("method"))
    _add_output_options(parser.add_argument_group("output"))


def _add_input_options(parser: Any) -> None:
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="values, a histogram or a checkpoint"
    )
    parser.add_argument(
        "--categories",
        type=Path,
        metavar="FILE",
        help="the public domain, one category a line; without it the domain is learned from the "
        "raw values, which leaks it",
    )
    add_columns(parser)
    add_round(parser)


def _add_method_options(parser: Any) -> None:
    add_oracle(parser)
    parser.add_argument(
        "--post",
        choices=[*all_postprocessors(), *all_searches()],
        default="norm-sub",
        metavar="NAME",
        help="the post-processor, or a search that picks one: %(choices)s (default: norm-sub)",
    )
    add_seed(parser)
    add_jobs(parser)


def _add_output_options(parser: Any) -> None:
    add_table_output(parser)
    add_level(parser)
    parser.add_argument(
        "--sort",
        choices=["domain", "frequency"],
        default="domain",
        help="order of the rows: that of the domain, or largest first (default: domain)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Read, collect, post-process, write."""
    check_table_output(arguments.output, arguments.file)
    raw = _collected(arguments) if _is_checkpoint(arguments.file) else _simulated(arguments)
    post = _postprocessor(arguments)
    estimate = post.fit_transform(raw)
    write_table(_columns(raw, estimate, arguments), arguments.output)
    if arguments.categories is None:
        say(
            "warning: the domain is learned from the raw values, which leaks it: fine for a "
            "simulation, otherwise give the public one with --categories"
        )
    say(f"{str(raw).splitlines()[0]}; after {_description(post)}")


def _is_checkpoint(path: Path) -> bool:
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"PK\3\4"  # an npz is a zip archive


def _collected(arguments: argparse.Namespace) -> Any:
    """What ``sklearn-ldp aggregate`` has added up."""
    from ..collection import Aggregator
    from ._input import read_categories

    if arguments.categories is None:
        raise ValueError(
            f"{arguments.file} holds counts and no names: give the public domain of its reports "
            "with --categories."
        )
    if arguments.seed is not None and arguments.post not in all_searches():
        raise ValueError("--seed is for simulations; these reports were made by their users.")
    oracle = make_oracle(arguments, read_categories(arguments.categories))
    return Aggregator.load(arguments.file, oracle, collection_round=arguments.round).estimate_


def _simulated(arguments: argparse.Namespace) -> Any:
    """A collection of the values in the file."""
    users = _read(arguments)
    oracle = make_oracle(arguments, users.categories)
    oracle.set_params(random_state=arguments.seed, n_jobs=arguments.jobs)
    return oracle.fit_transform(users.categories, sample_weight=users.counts)


def _read(arguments: argparse.Namespace) -> Any:
    from ._input import over_domain, read_categories, read_users

    users = read_users(
        arguments.file,
        kind=arguments.input_kind,
        value_column=arguments.value_column,
        count_column=arguments.count_column,
    )
    if arguments.categories is None:
        return users
    return over_domain(users, read_categories(arguments.categories), arguments.file)


def _postprocessor(arguments: argparse.Namespace) -> Any:
    if arguments.post not in all_searches():
        return all_postprocessors()[arguments.post]
    search = all_searches()[arguments.post]()
    # The seed of the splits, or of the simulations that the search judges on: no user's coins.
    return search if arguments.seed is None else search.set_params(random_state=arguments.seed)


def _columns(raw: Any, estimate: Any, arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    low, high = raw.confidence_interval(arguments.level)
    frequency = estimate.answer()[0]  # as PostPos answers, not as it stores
    columns = {
        "value": raw.categories,
        "raw_frequency": raw.values[0],
        "low": low[0],
        "high": high[0],
        "frequency": frequency,
        "count": np.round(frequency * raw.noise.n_samples, 1),
    }
    if arguments.sort == "frequency":
        order = np.argsort(-frequency, kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
    return columns


def _description(post: Any) -> str:
    name = type(post).__name__
    chosen = getattr(post, "best_estimator_", None)
    return name if chosen is None else f"{type(chosen).__name__}, picked by {name}"
