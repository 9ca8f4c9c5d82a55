"""``sklearn-ldp plan``: the errors to expect of a collection, before there is any data."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ._arguments import (
    add_shared,
    check_table_output,
    count,
    positive,
    say,
    unit,
)
from ._methods import all_oracles
from ._output import write_table

TITLE = "expected errors and needed users of every oracle"

DESCRIPTION = """\
For every oracle: the size of a report, the error to expect of the raw estimate of a category, the
frequency above which a category can be told from one that nobody has, and the number of users that
a given precision takes. Nothing is collected or simulated.

  report_bits          size of a report
  rmse                 root mean squared error of a category's estimated frequency
  half_width           half the width of its confidence interval
  detection_threshold  frequency above which a category can be told from one that nobody has (with
                       --alpha false discoveries in all)
  users_needed         users with which the half width is --target
  users_to_tell        users with which a difference of --gap is told with probability --power
                       (with --gap only; --to says a difference of what)
  fake_gain            what a share --fake-share of fake users can add to one category"""

EPILOG = """\
The frequencies are assumed to be uniform, which matters little unless epsilon is large. Post-
processing lowers the errors: `sklearn-ldp study` says by how much, on data like yours.

examples:
  sklearn-ldp plan --epsilon 1 --n-categories 1000 --n-samples 1000000
  sklearn-ldp plan --epsilon 2 --categories domain.txt --n-samples 50000 --target 0.005
  sklearn-ldp plan --epsilon 2 --n-categories 50 --n-samples 100000 --gap 0.01 --to order"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_shared(parser, "--epsilon")
    domain = parser.add_mutually_exclusive_group(required=True)
    domain.add_argument("--n-categories", type=count, metavar="D", help="size of the domain")
    domain.add_argument("--categories", type=Path, metavar="FILE", help="the domain itself")
    parser.add_argument(
        "--n-samples", type=count, required=True, metavar="N", help="number of users"
    )
    parser.add_argument(
        "--target",
        type=positive,
        default=0.01,
        metavar="F",
        help="half width to reach, a frequency (default: 0.01, one percentage point)",
    )
    add_shared(parser, "--level")
    parser.add_argument(
        "--alpha",
        type=positive,
        default=0.05,
        metavar="A",
        help="false discoveries to expect among categories that nobody has (default: 0.05)",
    )
    parser.add_argument(
        "--fake-share",
        type=unit,
        default=0.01,
        metavar="B",
        help="fake users as a share of all (default: 0.01)",
    )
    parser.add_argument(
        "--gap",
        type=unit,
        metavar="F",
        help="difference of frequencies to tell (0.005 is half a percentage point)",
    )
    parser.add_argument(
        "--to",
        choices=["change", "order", "detection"],
        help="what to tell: that a category grew by --gap between two collections, that it is more "
        "frequent than another, or that a category of this frequency is there (default: change)",
    )
    parser.add_argument(
        "--power",
        type=unit,
        metavar="P",
        help="probability of telling it (default: 0.8)",
    )
    add_shared(parser, "--output")


def run(arguments: argparse.Namespace) -> None:
    """Compute the table and write it."""
    check_table_output(arguments.output)
    if arguments.gap is None and (arguments.to, arguments.power) != (None, None):
        raise ValueError("--to and --power need --gap F, the difference of frequencies to tell.")
    n_categories = arguments.n_categories
    if n_categories is None:
        from ._input import read_categories

        n_categories = len(read_categories(arguments.categories))
    columns = _columns(arguments, n_categories)
    write_table(columns, arguments.output)
    best = columns["oracle"][int(np.argmin(columns["rmse"]))]
    say(f"the least error is that of {best}; sklearn_ldp.best_oracle weighs the size of reports")
    share = max(int(arguments.fake_share * arguments.n_samples), 1)
    say(
        f"`sklearn-ldp aggregate --max-source-reports {share}` keeps what one lying source can add "
        "to a category to about fake_gain; --max-source-batches and --max-batch-reports are other "
        "limits, and --min-batch-reports is one because small batches identify"
    )


def _columns(arguments: argparse.Namespace, n_categories: int) -> dict[str, np.ndarray]:
    from ..collection import poisoning_gain
    from ..metrics import detection_threshold, expected_error, required_n_samples
    from ..oracles import profile_oracle

    named = all_oracles()
    oracles = [oracle(arguments.epsilon, categories=n_categories) for oracle in named.values()]
    width = {"metric": "half_width", "level": arguments.level}
    n = arguments.n_samples
    told = {}
    if arguments.gap is not None:
        told["users_to_tell"] = required_n_samples(
            oracles,
            arguments.gap,
            to=arguments.to or "change",
            power=0.8 if arguments.power is None else arguments.power,
            level=arguments.level,
        )
    mse = expected_error(oracles, n)  # raises if there are fewer than two categories
    return {
        "oracle": np.array(list(named)),
        "report_bits": np.array([profile_oracle(o, n_categories).report_bits for o in oracles]),
        "rmse": np.sqrt(mse),
        "half_width": expected_error(oracles, n, **width),
        "detection_threshold": detection_threshold(oracles, n, alpha=arguments.alpha),
        "users_needed": required_n_samples(oracles, arguments.target, **width),
        **told,
        "fake_gain": poisoning_gain(oracles, arguments.fake_share, 1),
    }
