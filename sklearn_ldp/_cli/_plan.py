"""The command ``sklearn-ldp plan``.

For every oracle: the size of a report, the expected error of the raw estimate of a category, the
frequency above which a category is detected, and the number of users that a precision needs.
Nothing is collected.

  report_bits          size of a report
  rmse                 root mean squared error of a category's raw estimate
  processed_rmse       the same after EmpiricalBayes, by simulation, if frequencies follow Zipf's
                       law (--exponent) or a histogram (--like)
  half_width           half the width of its confidence interval for one frequency named before;
                       with --simultaneous of simultaneous intervals for all frequencies, which are
                       wider, and which tables and plots show
  detection_threshold  frequency above which a category is detected (with an expected number of
                       --alpha false discoveries among all categories)
  users_needed         users with which the half width is --target
  users_to_tell        users with which a difference of --gap is detected with probability --power
                       (with --gap only; --to selects the kind of difference)
  shuffled_epsilon     epsilon of a report, except with probability --delta, if the reports of all
                       users are shuffled together (with --shuffled only)
  fake_gain            frequency that a proportion --fake-share of fake users can add to a category

With --domains, for every column of a survey in which each user is asked for one of them: the oracle
of the column, the probability of being asked for it, rmse, half_width, detection_threshold,
users_needed and users_to_tell, which contain the noise of drawing the users to ask, and
shuffled_epsilon, which is valid even if it is public who was asked for the column. For fake_gain
all fake users claim to have been asked for the column; for fake_gain_assigned the collector assigns
the columns.

With --n-bins and --bounds, for numbers in equal bins: rmse, half_width and users_needed refer to
the proportion of users below a number, averaged over numbers. median_half_width and mean_half_width
are in the units of the bounds; median_half_width assumes a uniform distribution.

----
All columns except processed_rmse assume uniform frequencies, which matters only if epsilon
is large. `simulate_errors` in Python simulates other post-processors and queries.

examples:
  sklearn-ldp plan --epsilon 1 --n-categories 1000 --n-samples 1000000
  sklearn-ldp plan --epsilon 2 --categories domain.txt --n-samples 50000 --target 0.005
  sklearn-ldp plan --epsilon 1 --like last_year.csv --n-samples 50000
  sklearn-ldp plan --epsilon 1 --domains domains.json --n-samples 1000000
  sklearn-ldp plan --epsilon 1 --bounds 0 100 --n-bins 64 --n-samples 30000
  sklearn-ldp plan --epsilon 2 --n-categories 50 --n-samples 100000 --gap 0.01 --to order
  sklearn-ldp plan --epsilon 4 --n-categories 50 --n-samples 100000 --shuffled --delta 1e-8
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

import sklearn_ldp as ldp

from ._arguments import (
    add_shared,
    all_oracles,
    check_table_output,
    count,
    kebab,
    named_oracles,
    positive,
    say,
    unit,
)
from ._files import read_categories, read_domains, read_grid, write_table

_NO_ERROR = 1e-20  # squared error of frequencies that is only rounding
_PREFIXES = 64  # maximum number of thresholds over which the error is averaged
_SIMULATED = 10_000  # categories of all simulated collections of an oracle together
_MIN_REPEATS, _MAX_REPEATS = 3, 10  # simulated collections per oracle


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command ``plan`` to its parser."""
    add_shared(parser, "--epsilon")
    domain = parser.add_mutually_exclusive_group(required=True)
    domain.add_argument("--n-categories", type=count, metavar="D", help="size of the domain")
    domain.add_argument("--categories", type=Path, metavar="FILE", help="the domain itself")
    add_shared(domain, "--domains")
    domain.add_argument("--n-bins", type=count, metavar="D", help="number of bins of a number")
    text = "a histogram of the whole domain with the assumed frequencies"
    domain.add_argument("--like", type=Path, metavar="FILE", help=text)
    for name in ("value", "count"):
        text = f"with --like: name of the column of the {name}s (default: {name})"
        parser.add_argument(f"--{name}-column", default=name, metavar="NAME", help=text)
    text = "with --n-bins: the smallest and the largest number"
    parser.add_argument("--bounds", type=float, nargs=2, metavar=("LOW", "HIGH"), help=text)
    text = "without --like: exponent of Zipf's law for the assumed frequencies (default: 1)"
    parser.add_argument("--exponent", type=positive, metavar="S", help=text)
    text = "number of users"
    parser.add_argument("--n-samples", type=count, required=True, metavar="N", help=text)
    text = "half width to reach, a frequency (default: 0.01, one percentage point)"
    parser.add_argument("--target", type=unit, default=0.01, metavar="F", help=text)
    text = "half_width and users_needed of the simultaneous intervals in tables and plots"
    parser.add_argument("--simultaneous", action="store_true", help=text)
    add_shared(parser, "--level")
    text = "expected false discoveries among categories of frequency 0 (default: 0.05)"
    parser.add_argument("--alpha", type=positive, default=0.05, metavar="A", help=text)
    text = "proportion of fake users (default: 0.01)"
    parser.add_argument("--fake-share", type=unit, default=0.01, metavar="B", help=text)
    text = "difference of frequencies to detect (0.005 is half a percentage point)"
    parser.add_argument("--gap", type=unit, metavar="F", help=text)
    text = (
        "the claim to prove: a category grew by --gap between two collections, a category is more "
        "frequent than another by --gap, or a category of frequency --gap exists (default: change)"
    )
    parser.add_argument("--to", choices=["change", "order", "detection"], help=text)
    text = "probability of detecting the difference (default: 0.8)"
    parser.add_argument("--power", type=unit, metavar="P", help=text)
    text = "show the epsilon of a report after a shuffle of all --n-samples reports"
    parser.add_argument("--shuffled", action="store_true", help=text)
    text = "with --shuffled: probability that a larger epsilon is spent, well below 1 / N"
    parser.add_argument("--delta", type=unit, metavar="P", help=text)
    add_shared(parser, "--output")


def run(arguments: argparse.Namespace) -> None:
    """Compute the table of planned errors, and write it."""
    check_table_output(arguments.output)
    if arguments.gap is None and (arguments.to, arguments.power) != (None, None):
        raise ValueError(
            "--to and --power need --gap F, the difference of frequencies to detect. Pass --gap, "
            "or leave out --to and --power."
        )
    if arguments.shuffled != (arguments.delta is not None):
        raise ValueError(
            "--shuffled and --delta must be used together. Pass both, or leave out both."
        )
    if (arguments.bounds is None) != (arguments.n_bins is None):
        raise ValueError(
            "--n-bins D and --bounds LOW HIGH must be used together. Pass both, or leave out both."
        )
    if read_grid(arguments.categories) is not None:
        raise ValueError(
            "plan cannot plan a grid. In Python use Plan(RangeOracle(epsilon, categories=grid), "
            "queries=rectangles())."
        )
    if arguments.n_bins is not None:
        return _plan_numbers(arguments)
    if arguments.domains is not None:
        return _plan_survey(arguments)
    if arguments.like is not None and arguments.exponent is not None:
        raise ValueError(
            "--exponent cannot be combined with --like, which already specifies the frequencies. "
            "Leave out --exponent."
        )
    presumed = _presumed(arguments)
    write_table(_columns(arguments, presumed), arguments.output)
    best = ldp.best_oracle(arguments.epsilon, len(presumed))
    name = kebab(type(best).__name__)
    _say_users(best, name, arguments)
    say(
        f"use {name} (sklearn_ldp.best_oracle: the smallest error, with reports of a reasonable "
        "size), which is the default of the other commands"
    )
    n_fake = max(int(arguments.fake_share * arguments.n_samples), 1)
    say(
        f"`sklearn-ldp aggregate --max-source-reports {n_fake}` limits the frequency that a lying "
        "source can add to a category to about fake_gain; other limits are --max-source-batches, "
        "--max-batch-reports, and --min-batch-reports, because small batches identify users"
    )


def _plan(oracle: Any, arguments: argparse.Namespace) -> ldp.planning.Plan:
    return ldp.planning.Plan(oracle, level=arguments.level, simultaneous=arguments.simultaneous)


def _say_users(oracle: Any, name: str, arguments: argparse.Namespace) -> None:
    """Print the users for the half width of one frequency, and of simultaneous intervals."""
    numbers = []
    for simultaneous in (False, True):
        plan = ldp.planning.Plan(oracle, level=arguments.level, simultaneous=simultaneous)
        users = plan.users_for(half_width=arguments.target)
        numbers.append(max(users.values()) if isinstance(users, dict) else users)
    hint = "" if arguments.simultaneous else " (see --simultaneous)"
    say(
        f"for the half width {arguments.target:g}, {name} needs {numbers[0]:,} users if one "
        f"frequency is named beforehand, and {numbers[1]:,} users for the simultaneous intervals "
        f"of all frequencies, which tables and plots show{hint}"
    )


def _figures(plan: ldp.planning.Plan, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the columns that the tables for oracles and for surveys have in common."""
    n = arguments.n_samples
    users_to_tell = {}
    if arguments.gap is not None:
        difference = {arguments.to or "change": arguments.gap}
        users_to_tell["users_to_tell"] = plan.users_for(**difference, power=arguments.power)
    return {
        "rmse": plan.rmse(n),
        "half_width": plan.half_width(n),
        "detection_threshold": plan.detection_threshold(n, alpha=arguments.alpha),
        "users_needed": plan.users_for(half_width=arguments.target),
        **users_to_tell,
    }


def _shuffled(oracles: list[Any], arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    """Return the column shuffled_epsilon: the epsilon of a report after shuffling.

    It has one number per oracle, or per column of a survey.
    """
    if not arguments.shuffled:
        return {}
    n = arguments.n_samples
    delta = arguments.delta
    spent = [ldp.privacy.shuffled_epsilon(oracle, n, delta) for oracle in oracles]
    return {"shuffled_epsilon": np.array(list(spent[0].values()) if len(spent) == 1 else spent)}


def _plan_survey(arguments: argparse.Namespace) -> None:
    """Write the table with the expected errors of each column of a survey."""
    if arguments.exponent is not None:
        raise ValueError(
            "--exponent cannot be combined with --domains, because it describes a single column. "
            "Leave out --exponent."
        )
    from ..robustness import poisoning_gain

    survey: Any = ldp.ColumnOracle(arguments.epsilon, domains=read_domains(arguments.domains))
    plan = _plan(survey, arguments)
    figures = _figures(plan, arguments)
    columns = {
        "column": np.array(list(plan.oracle), dtype=object),
        "n_categories": np.array(list(plan.n_categories.values())),
        "oracle": np.array([type(oracle).__name__ for oracle in plan.oracle.values()]),
        "probability": survey.protocol().mechanism.probabilities,
        **{name: np.array(list(by_column.values())) for name, by_column in figures.items()},
        **_shuffled([survey], arguments),
        "fake_gain": poisoning_gain(survey, arguments.fake_share, 1),
        "fake_gain_assigned": poisoning_gain(survey, arguments.fake_share, 1, attack="assigned"),
    }
    write_table(columns, arguments.output)
    _say_users(survey, "the survey", arguments)
    say(
        f"{arguments.n_samples:,} users, each asked for one of {len(plan.oracle)} columns at "
        f"epsilon {survey.epsilon:g}"
    )


def _plan_numbers(arguments: argparse.Namespace) -> None:
    """Write the table with the expected errors of ranges, the median and the mean of numbers."""
    is_used = [arguments.exponent is not None, arguments.gap is not None]
    if any([*is_used, arguments.shuffled, arguments.simultaneous]):
        raise ValueError(
            "--exponent, --gap, --shuffled and --simultaneous cannot be combined with --n-bins. "
            "Leave out these options."
        )
    n = arguments.n_samples
    low, high = arguments.bounds
    bins = ldp.Domain.bins(arguments.n_bins, bounds=(low, high))
    ends = np.unique(np.linspace(1, bins.size, _PREFIXES + 1, dtype=int)[:-1])
    below = (np.arange(bins.size) < ends[:, None]).astype(float)
    rows = []
    for name, oracle_class in named_oracles().items():
        oracle: Any = oracle_class(arguments.epsilon, categories=bins)
        proportions, median, mean = (
            ldp.planning.Plan(oracle, queries=queries, level=arguments.level)
            for queries in (below, below[[len(below) // 2]], ldp.queries.mean())
        )
        row = {
            "oracle": name,
            "report_bits": oracle.channel().report_bits,
            "rmse": proportions.rmse(n),
            "half_width": proportions.half_width(n),
            "users_needed": proportions.users_for(half_width=arguments.target),
            "median_half_width": (high - low) * median.half_width(n),
            "mean_half_width": mean.half_width(n),
        }
        rows.append(row)
    write_table({key: np.array([row[key] for row in rows]) for key in rows[0]}, arguments.output)
    mechanism: Any = ldp.LocalMean(arguments.epsilon, bounds=(low, high)).protocol().mechanism
    std = (high - low) / 2 * np.sqrt(mechanism.worst_variance / n)
    half = NormalDist().inv_cdf(0.5 + arguments.level / 2) * std
    say(f"if only the mean is needed, LocalMean has a half width of at most {half:.4g}")


def _presumed(arguments: argparse.Namespace) -> np.ndarray:
    """Return the assumed frequencies of the categories, of shape (n_categories,)."""
    if arguments.like is not None:
        names = {"value_column": arguments.value_column, "count_column": arguments.count_column}
        return ldp.datasets.read_histogram(arguments.like, **names).frequencies
    domain = arguments.n_categories
    if domain is None:
        domain = read_categories(arguments.categories)
    n_categories = ldp.Domain.of(domain).size
    exponent = 1.0 if arguments.exponent is None else arguments.exponent
    weights = np.arange(1, n_categories + 1) ** -exponent
    return weights / weights.sum()


def _processed_share(oracles: list[Any], presumed: np.ndarray, n_samples: int) -> np.ndarray:
    """Return, for each oracle, the ratio of the squared errors after and before EmpiricalBayes.

    The errors are averages over simulated collections.
    """
    # If all reports are true, there is no error to reduce.
    named = {str(i): oracle for i, oracle in enumerate(oracles)}
    posts = [ldp.Base(), ldp.EmpiricalBayes()]
    repeats = int(np.clip(_SIMULATED // len(presumed), _MIN_REPEATS, _MAX_REPEATS))
    study = ldp.model_selection.simulate_errors(
        named, posts, presumed, n_samples, n_repeats=repeats, random_state=0
    )
    raw, processed = (study.select(postprocessor=name).error for name in ("Base", "EmpiricalBayes"))
    return np.divide(processed, raw, out=np.ones_like(raw), where=raw > _NO_ERROR)


def _columns(arguments: argparse.Namespace, presumed: np.ndarray) -> dict[str, np.ndarray]:
    from ..robustness import poisoning_gain

    named = all_oracles()
    d = len(presumed)
    oracles = [oracle(arguments.epsilon, categories=d) for oracle in named.values()]
    rows = [_figures(_plan(oracle, arguments), arguments) for oracle in oracles]
    bits = [ldp.oracles.profile_oracle(oracle, d).report_bits for oracle in oracles]
    figures = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    rmse = figures.pop("rmse")
    return {
        "oracle": np.array(list(named)),
        "report_bits": np.array(bits),
        "rmse": rmse,
        "processed_rmse": rmse * np.sqrt(_processed_share(oracles, presumed, arguments.n_samples)),
        **figures,
        **_shuffled(oracles, arguments),
        "fake_gain": poisoning_gain(oracles, arguments.fake_share, 1),
    }
