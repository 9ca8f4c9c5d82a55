"""``sklearn-ldp estimate``: from a file of raw values to what a server would learn of them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ._arguments import add_epsilon, add_jobs, check_suffix, new_command, seed, share
from ._methods import all_oracles, all_postprocessors, all_searches
from ._output import TABLE_SUFFIXES, check_parquet, check_writable, write_table

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
                 ignored), or plain text, one value a line and no header"""

_EPILOG = """\
privacy: the reports are as private as epsilon says when the domain is public (--categories) and
no --seed is given. Whoever runs this command sees the raw values of FILE all the same.

examples:
  sklearn-ldp estimate survey.csv --value-column browser --categories browsers.txt
  sklearn-ldp estimate histogram.csv.gz --epsilon 2 --post norm-cut --output estimate.parquet
  sklearn-ldp estimate values.txt --seed 0 --sort frequency | head"""


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
    parser.add_argument("file", type=Path, metavar="FILE", help="values or a histogram")
    parser.add_argument(
        "--categories",
        type=Path,
        metavar="FILE",
        help="the public domain, one category a line; without it the domain is learned from the "
        "raw values, which leaks it",
    )
    parser.add_argument(
        "--input-kind",
        choices=["auto", "values", "histogram"],
        default="auto",
        help="what FILE holds (default: auto, a histogram if it has both columns)",
    )
    parser.add_argument(
        "--value-column", metavar="NAME", help="column of the values (default: value)"
    )
    parser.add_argument(
        "--count-column", metavar="NAME", help="column of the numbers of users (default: count)"
    )


def _add_method_options(parser: Any) -> None:
    add_epsilon(parser)
    parser.add_argument(
        "--oracle",
        choices=list(all_oracles()),
        default="olh",
        metavar="NAME",
        help="how users randomise: %(choices)s (default: olh)",
    )
    parser.add_argument(
        "--post",
        choices=[*all_postprocessors(), *all_searches()],
        default="norm-sub",
        metavar="NAME",
        help="the post-processor, or a search that picks one: %(choices)s (default: norm-sub)",
    )
    parser.add_argument(
        "--seed",
        type=seed,
        metavar="N",
        help="a repeatable simulation that protects nobody (default: secure randomness)",
    )
    add_jobs(parser)


def _add_output_options(parser: Any) -> None:
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help=f"{', '.join(TABLE_SUFFIXES)} (default: CSV on standard output)",
    )
    parser.add_argument(
        "--level",
        type=share,
        default=0.95,
        metavar="P",
        help="coverage of the intervals (default: 0.95)",
    )
    parser.add_argument(
        "--sort",
        choices=["domain", "frequency"],
        default="domain",
        help="order of the rows: that of the domain, or largest first (default: domain)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Read, collect, post-process, write."""
    if arguments.output is not None:
        _check_output(arguments.output, arguments.file)
    users = _read(arguments)
    oracle = all_oracles()[arguments.oracle](
        arguments.epsilon,
        categories=users.categories,
        random_state=arguments.seed,
        n_jobs=arguments.jobs,
    )
    raw = oracle.fit_transform(users.categories, sample_weight=users.counts)
    post = _postprocessor(arguments)
    estimate = post.fit_transform(raw)
    write_table(_columns(raw, estimate, arguments), arguments.output)
    if arguments.categories is None:
        _say(
            "warning: the domain is learned from the raw values, which leaks it: fine for a "
            "simulation, otherwise give the public one with --categories"
        )
    _say(f"{str(raw).splitlines()[0]}; after {_description(post)}")


def _check_output(path: Path, source: Path) -> None:
    check_suffix(path, TABLE_SUFFIXES)
    if path.name.lower().endswith(".parquet"):
        check_parquet(path)
    if path.exists() and source.exists() and path.samefile(source):
        raise ValueError(f"--output {path} is the input itself; name another file.")
    check_writable(path)


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


def _say(text: str) -> None:
    print(f"sklearn-ldp: {text}", file=sys.stderr)
