"""The command ``sklearn-ldp plan``.

For every oracle: the size of a report, the error to expect of the raw estimate of a category, the
frequency above which a category can be told from one that nobody has, and the number of users that
a given precision takes. Nothing is collected.

  report_bits          size of a report
  rmse                 root mean squared error of a category's raw estimate
  processed_rmse       the same after EmpiricalBayes, by simulation, if frequencies follow Zipf's
                       law (--exponent), or are like those of a histogram (--like)
  half_width           half the width of its confidence interval
  detection_threshold  frequency above which a category can be told from one that nobody has (with
                       --alpha false discoveries in all)
  users_needed         users with which the half width is --target
  users_to_tell        users with which a difference of --gap is told with probability --power
                       (with --gap only; --to says a difference of what)
  shuffled_epsilon     what a report still spends, but for a probability of --delta, if those of all
                       users are shuffled together (with --shuffled only)
  fake_gain            what a share --fake-share of fake users can add to one category

With --domains, for every column of a survey in which each user is asked for one of them: the oracle
of the column, the probability of being asked for it, and of these numbers rmse, half_width,
detection_threshold, users_needed and users_to_tell, which contain the noise of drawing whom to ask;
and shuffled_epsilon, which holds even if everybody knows who was asked for it.
fake_gain is that of fake users who all claim to have been asked for the column, and
fake_gain_assigned what is left of it if the collector assigns the columns.

With --n-bins and --bounds, for numbers in equal bins: rmse, half_width and users_needed are of the
share of users below a number, the mean over numbers; median_half_width and mean_half_width are in
the units of the bounds, the first one if numbers are spread evenly.

----
All columns but processed_rmse assume uniform frequencies, which matters little unless epsilon is
large. `simulate_errors` in Python simulates other post-processors and queries.

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
from ._files import read_categories, read_domains, write_table

_NO_ERROR = 1e-20  # squared, of frequencies: what rounding leaves
_PREFIXES = 64  # numbers, at most, over which the error of the share below them is averaged
_SIMULATED, _FEWEST, _MOST = 10_000, 3, 10  # categories in all, and collections, per oracle


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_shared(parser, "--epsilon")
    domain = parser.add_mutually_exclusive_group(required=True)
    domain.add_argument("--n-categories", type=count, metavar="D", help="size of the domain")
    domain.add_argument("--categories", type=Path, metavar="FILE", help="the domain itself")
    add_shared(domain, "--domains")
    domain.add_argument("--n-bins", type=count, metavar="D", help="number of bins of a number")
    text = "a histogram of the whole domain that the frequencies are presumed to be like"
    domain.add_argument("--like", type=Path, metavar="FILE", help=text)
    text = "with --n-bins: the least and the largest number"
    parser.add_argument("--bounds", type=float, nargs=2, metavar=("LOW", "HIGH"), help=text)
    text = (
        "without --like: that of Zipf's law, which frequencies are presumed to follow (default: 1)"
    )
    parser.add_argument("--exponent", type=positive, metavar="S", help=text)
    text = "number of users"
    parser.add_argument("--n-samples", type=count, required=True, metavar="N", help=text)
    text = "half width to reach, a frequency (default: 0.01, one percentage point)"
    parser.add_argument("--target", type=unit, default=0.01, metavar="F", help=text)
    add_shared(parser, "--level")
    text = "false discoveries to expect among categories that nobody has (default: 0.05)"
    parser.add_argument("--alpha", type=positive, default=0.05, metavar="A", help=text)
    text = "fake users as a share of all (default: 0.01)"
    parser.add_argument("--fake-share", type=unit, default=0.01, metavar="B", help=text)
    text = "difference of frequencies to tell (0.005 is half a percentage point)"
    parser.add_argument("--gap", type=unit, metavar="F", help=text)
    text = (
        "what to tell: that a category grew by --gap between two collections, that it is more "
        "frequent than another, or that a category of this frequency is there (default: change)"
    )
    parser.add_argument("--to", choices=["change", "order", "detection"], help=text)
    text = "probability of telling it (default: 0.8)"
    parser.add_argument("--power", type=unit, metavar="P", help=text)
    text = "say what a report spends after a shuffle of all --n-samples of them"
    parser.add_argument("--shuffled", action="store_true", help=text)
    text = "with --shuffled: probability with which more may be spent, well below 1 / N"
    parser.add_argument("--delta", type=unit, metavar="P", help=text)
    add_shared(parser, "--output")


def run(arguments: argparse.Namespace) -> None:
    """Compute the table and write it."""
    check_table_output(arguments.output)
    if arguments.gap is None and (arguments.to, arguments.power) != (None, None):
        raise ValueError("--to and --power need --gap F, the difference of frequencies to tell.")
    if arguments.shuffled != (arguments.delta is not None):
        raise ValueError("--shuffled and --delta need each other.")
    if (arguments.bounds is None) != (arguments.n_bins is None):
        raise ValueError("--n-bins D and --bounds LOW HIGH need each other.")
    if arguments.n_bins is not None:
        return _plan_numbers(arguments)
    if arguments.domains is not None:
        return _plan_survey(arguments)
    if arguments.like is not None and arguments.exponent is not None:
        raise ValueError("--exponent is for frequencies by Zipf's law; leave it out with --like.")
    presumed = _presumed(arguments)
    write_table(_columns(arguments, presumed), arguments.output)
    advised = kebab(type(ldp.best_oracle(arguments.epsilon, len(presumed))).__name__)
    say(
        f"take {advised} (sklearn_ldp.best_oracle: the least error, with reports of a reasonable "
        "size), which is the default of the other commands"
    )
    share = max(int(arguments.fake_share * arguments.n_samples), 1)
    say(
        f"`sklearn-ldp aggregate --max-source-reports {share}` keeps what one lying source can add "
        "to a category to about fake_gain; --max-source-batches and --max-batch-reports are other "
        "limits, and --min-batch-reports is one because small batches identify"
    )


def _figures(plan: ldp.planning.Plan, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the planned numbers that oracles and columns of surveys have in common."""
    n, told = arguments.n_samples, {}
    if arguments.gap is not None:
        difference = {arguments.to or "change": arguments.gap}
        told["users_to_tell"] = plan.users_for(**difference, power=arguments.power)
    return {
        "rmse": plan.rmse(n),
        "half_width": plan.half_width(n),
        "detection_threshold": plan.detection_threshold(n, alpha=arguments.alpha),
        "users_needed": plan.users_for(half_width=arguments.target),
        **told,
    }


def _shuffled(oracles: list[Any], arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    """Return the epsilon that reports spend after a shuffle, by oracle or by column of a survey."""
    if not arguments.shuffled:
        return {}
    n, delta = arguments.n_samples, arguments.delta
    spent = [ldp.metrics.shuffled_epsilon(one, n, delta) for one in oracles]
    return {"shuffled_epsilon": np.array(list(spent[0].values()) if len(spent) == 1 else spent)}


def _plan_survey(arguments: argparse.Namespace) -> None:
    """Write what to expect of each column of a survey."""
    if arguments.exponent is not None:
        raise ValueError("--exponent is for a plan of one column; leave it out with --domains.")
    from ..robustness import poisoning_gain

    survey: Any = ldp.ColumnOracle(arguments.epsilon, domains=read_domains(arguments.domains))
    plan = ldp.planning.Plan(survey, level=arguments.level)
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
    users, which = f"{arguments.n_samples:,} users", f"one of {len(plan.oracle)} columns"
    say(f"{users}, each asked for {which} at epsilon {survey.epsilon:g}")


def _plan_numbers(arguments: argparse.Namespace) -> None:
    """Write what to expect of ranges, of the median and of the mean of numbers in bins."""
    if arguments.exponent is not None or arguments.gap is not None or arguments.shuffled:
        raise ValueError("--exponent, --gap and --shuffled are not for --n-bins; leave them out.")
    n, (low, high) = arguments.n_samples, arguments.bounds
    bins = ldp.Domain.bins(arguments.n_bins, bounds=(low, high))
    ends = np.unique(np.linspace(1, bins.size, _PREFIXES + 1, dtype=int)[:-1])
    below = (np.arange(bins.size) < ends[:, None]).astype(float)
    rows = []
    for name, oracle in named_oracles().items():
        made: Any = oracle(arguments.epsilon, categories=bins)
        shares, median, of_mean = (
            ldp.planning.Plan(made, queries=queries, level=arguments.level)
            for queries in (below, below[[len(below) // 2]], ldp.queries.mean())
        )
        row = {
            "oracle": name,
            "report_bits": made.channel().report_bits,
            "rmse": shares.rmse(n),
            "half_width": shares.half_width(n),
            "users_needed": shares.users_for(half_width=arguments.target),
            "median_half_width": (high - low) * median.half_width(n),
            "mean_half_width": of_mean.half_width(n),
        }
        rows.append(row)
    write_table({key: np.array([row[key] for row in rows]) for key in rows[0]}, arguments.output)
    alone: Any = ldp.LocalMean(arguments.epsilon, bounds=(low, high)).protocol().mechanism
    std = (high - low) / 2 * np.sqrt(alone.worst_variance / n)
    half = NormalDist().inv_cdf(0.5 + arguments.level / 2) * std
    say(f"for the mean alone LocalMean has a half width of at most {half:.4g}")


def _presumed(arguments: argparse.Namespace) -> np.ndarray:
    """Return the frequencies of the domain that the plan assumes for post-processing."""
    if arguments.like is not None:
        return ldp.datasets.read_histogram(arguments.like).frequencies
    domain = arguments.n_categories
    if domain is None:
        domain = read_categories(arguments.categories)
    n_categories = ldp.Domain.of(domain).size
    exponent = 1.0 if arguments.exponent is None else arguments.exponent
    weights = np.arange(1, n_categories + 1) ** -exponent
    return weights / weights.sum()


def _processed_share(oracles: list[Any], presumed: np.ndarray, n_samples: int) -> np.ndarray:
    """Return how much of the raw mean squared error is left after EmpiricalBayes, by oracle."""
    # Where reports are all true, there is no error to lessen.
    named = {str(i): oracle for i, oracle in enumerate(oracles)}
    posts = [ldp.Base(), ldp.EmpiricalBayes()]
    repeats = int(np.clip(_SIMULATED // len(presumed), _FEWEST, _MOST))
    study = ldp.model_selection.simulate_errors(
        named, posts, presumed, n_samples, n_repeats=repeats, random_state=0
    )
    raw, processed = (study.select(postprocessor=name).error for name in ("Base", "EmpiricalBayes"))
    return np.divide(processed, raw, out=np.ones_like(raw), where=raw > _NO_ERROR)


def _columns(arguments: argparse.Namespace, presumed: np.ndarray) -> dict[str, np.ndarray]:
    from ..robustness import poisoning_gain

    named, d = all_oracles(), len(presumed)
    oracles = [oracle(arguments.epsilon, categories=d) for oracle in named.values()]
    plans = [ldp.planning.Plan(oracle, level=arguments.level) for oracle in oracles]
    rows = [_figures(plan, arguments) for plan in plans]
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
