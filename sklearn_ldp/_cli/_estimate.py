"""The command ``sklearn-ldp estimate``.

Simulate a collection under epsilon-local differential privacy. The command randomizes the value of
each user in FILE as the user's own device would do it, and writes the server's estimate of the
frequencies as a table with one row per category:

  category   the category
  estimate   raw and unbiased, may be negative
  low, high  its confidence interval
  frequency  after post-processing
  count      the frequency times the number of users
  interval   the coverage of the intervals: they are simultaneous for all categories, so that rows
             may be sorted and selected

These are the columns of `to_frame(interval=..)` in Python.

With --domains there are several columns, and each user is asked for one of them. The table also has
the name of the column; a terminal shows one table per column.

With --strings the values are not listed. The table has the strings that a search has found.

The command recognizes the kind of FILE by its content:

  histogram      CSV, CSV.gz or Parquet with the columns value and count (its number of users)
  values         one user per row: CSV, CSV.gz or Parquet with the column value (other columns are
                 ignored), or plain text with one value per line; a first line that looks like a
                 header is refused until --value-column or --no-header is used
                 an empty cell is a missing answer, if the domain has a category for it (null)
  checkpoint     a file from `sklearn-ldp aggregate` with real reports (also of several items per
                 user); nothing is simulated. Specify the --categories (or --domains) of the
                 collection; the file contains the other options. Several checkpoints, for example
                 of several weeks, are rows of one estimate, which --post trend smooths; their names
                 are in the table. With --change the table has the difference of the last and the
                 first checkpoint, and its interval

----
privacy: the reports have the privacy of epsilon if the domain is public (--categories or --domains)
and there is no --seed. The user of this command still sees the raw values of FILE.

examples:
  sklearn-ldp estimate survey.csv --value-column browser --categories browsers.txt
  sklearn-ldp estimate histogram.csv.gz --epsilon 2 --post norm-cut --output estimate.parquet
  sklearn-ldp estimate values.txt --seed 0 --sort frequency | head
  sklearn-ldp estimate people.csv --value-column age --categories ages.txt --ordered
  sklearn-ldp estimate histogram.csv.gz --queries groups:region
  sklearn-ldp estimate state.npz --categories browsers.txt --post held-out-search
  sklearn-ldp estimate week-*.npz --categories browsers.txt --post trend
  sklearn-ldp estimate may.npz june.npz --categories browsers.txt --change --html change.html
  sklearn-ldp estimate state.npz --categories browsers.txt --plot browsers.png
  sklearn-ldp estimate people.csv --domains domains.json --epsilon 2 --output estimates.csv
  sklearn-ldp estimate words.csv --strings abcdefghijklmnopqrstuvwxyz --max-length 12 --epsilon 4
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import sklearn_ldp as ldp

from .._core.common.files import check_writable, make_folder, shorten
from .._core.common.progress import Progress
from .._core.common.text import counted, order_by_number
from ._arguments import (
    POSTPROCESSORS,
    SEARCHES,
    add_domain_options,
    add_shared,
    add_value_options,
    adopt,
    as_options,
    check_suffix,
    check_table_output,
    declared_oracle,
    has_domain,
    make_oracle,
    read_key,
    say,
    spelled,
)
from ._drawing import check_matplotlib, draw
from ._files import (
    declared_users,
    first_formula,
    is_csv,
    read_grid,
    read_users,
    without_formulas,
    write_table,
    write_tables,
)

_PLOTS = (".png", ".svg", ".pdf")
_REPORTS = b"sklearn_ldp reports"
_HEADER_BYTES = 1 << 16  # of a file of reports, at its beginning or its end
_LONG = 200  # chunks of users from which progress is shown
_STEPS = 20  # steps of the progress
_QUERIES = "full, sets:SHARE, ranges:COUNT, top:K, groups:COLUMN"
_NUMBERS = ("estimate", "low", "high", "frequency", "count")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command ``estimate`` to its parser."""
    source = parser.add_argument_group("input")
    text = "values, a histogram or a checkpoint"
    source.add_argument("file", type=Path, metavar="FILE", help=text)
    text = "more checkpoints of the same question, of other users, such as those of later weeks"
    source.add_argument("more", nargs="*", type=Path, metavar="FILE", help=text)
    text = (
        "the public domain, one category per line, or a .json file with the domain of a column as "
        'in --domains, such as ["yes", "no", null] with missing answers, or with a grid; without '
        "it the domain is learned from the raw values, which leaks it"
    )
    add_domain_options(source, required=False, help=text)
    add_value_options(source)
    text = "name of the collection (default: from the checkpoint)"
    add_shared(source, "--round", default=None, help=text)
    add_shared(source, "--key-file")
    method = parser.add_argument_group("method")
    text = "privacy budget of one report, > 0 (default: from the checkpoint, otherwise 1)"
    add_shared(method, "--epsilon", default=None, help=text)
    add_shared(method, "--oracle")
    posts = [*POSTPROCESSORS, *SEARCHES]
    text = (
        f"the post-processor, or a search that selects a post-processor: {', '.join(posts)} "
        "(default: empirical-bayes; for a grid smooth-mle; with --strings always post-pos)"
    )
    method.add_argument("--post", type=partial(spelled, known=posts), metavar="NAME", help=text)
    text = (
        "the categories have the order of --categories, as ages do; empirical-bayes then uses "
        "neighboring categories (for bins it does so without this option)"
    )
    method.add_argument("--ordered", action="store_true", help=text)
    text = (
        "the queries that the estimate will answer, for empirical-bayes or a search: ranges:COUNT, "
        "top:K, or groups:COLUMN for another column of a histogram; this helps if groups differ; "
        "after top:K only the K largest frequencies are meaningful"
    )
    method.add_argument("--queries", metavar="Q", help=text)
    text = "the shares among the users who answered, without the missing answers"
    method.add_argument("--answered", action="store_true", help=text)
    text = "for several checkpoints: the raw estimate of the last minus the first"
    method.add_argument("--change", action="store_true", help=text)
    text = (
        "intervals that are valid at all looks at a growing collection, as on the results page of "
        "`serve`; by default they are valid for one look"
    )
    method.add_argument("--all-looks", action="store_true", help=text)
    add_shared(method, "--seed", "--jobs")
    target = parser.add_argument_group("output")
    add_shared(target, "--output", "--level")
    text = "also write a report: one page of HTML with a picture and valid statements"
    target.add_argument("--html", type=Path, metavar="FILE", help=text)
    text = "also draw the estimate with its intervals, as in Python: a .png, .svg or .pdf file"
    target.add_argument("--plot", type=Path, metavar="FILE", help=text)
    target.add_argument("--question", default="", help="with --html or --plot, the title")
    text = "order of rows and plotted categories: domain (default), or largest first"
    target.add_argument("--sort", choices=["domain", "frequency"], default="domain", help=text)
    text = (
        "CSV for spreadsheets: an apostrophe before categories that begin with = + - @, a tab "
        "or a carriage return, because spreadsheets would interpret them as formulas"
    )
    target.add_argument("--spreadsheet-safe", action="store_true", help=text)


class _Refusal(NamedTuple):
    """A combination of options that is not allowed, and the error message for it."""

    option: str
    #: Receives the arguments, and the name of the post-processor or search.
    condition: Callable[[argparse.Namespace, str], bool]
    message: str


_WITH_QUERIES = ("empirical-bayes", *SEARCHES)
# The first refusal of which the condition is true is raised. `{post}` becomes the name.
_REFUSALS = (
    _Refusal(
        "--post trend",
        lambda arguments, post: post == "trend" and not arguments.more,
        "smooths the estimates of several weeks. Name the checkpoint of each week, in their order.",
    ),
    _Refusal(
        "--change",
        lambda arguments, post: (
            arguments.change and (arguments.post is not None or not arguments.more)
        ),
        "compares the raw estimates of checkpoints. Name two or more checkpoints in their order, "
        "and omit --post.",
    ),
    _Refusal(
        "--post {post}",
        lambda arguments, post: arguments.strings is not None and post != "post-pos",
        "needs the estimates of all categories, and --strings finds only some of them. Omit "
        "--post; the estimates are then clipped at 0.",
    ),
    _Refusal(
        "--answered",
        lambda arguments, post: (
            arguments.answered
            and (arguments.change or arguments.domains is not None or arguments.strings is not None)
        ),
        "needs a single column with a category for missing answers, without --change. Use "
        "estimate.answered() in Python.",
    ),
    _Refusal(
        "--all-looks",
        lambda arguments, post: (
            arguments.all_looks
            and any([arguments.more, arguments.domains, arguments.strings, arguments.plot])
        ),
        "needs a single column in one file, without --strings and --plot. Use the argument "
        "at_all_times= of estimate.confidence_interval in Python.",
    ),
    _Refusal(
        "--ordered",
        lambda arguments, post: arguments.ordered and post != "empirical-bayes",
        "needs --post empirical-bayes, got {post}. Use empirical-bayes, or use --post smooth "
        "without --ordered.",
    ),
    _Refusal(
        "--ordered",
        lambda arguments, post: arguments.ordered and arguments.domains is not None,
        "needs a domain from --categories, because some columns of --domains may have an order and "
        "others none. Use EmpiricalBayes in Python.",
    ),
    _Refusal(
        "--ordered",
        lambda arguments, post: (
            arguments.ordered
            and arguments.categories is None
            and not _is_checkpoint(arguments.file)
        ),
        "needs the domain in its order. Specify the domain with --categories.",
    ),
    _Refusal(
        "--queries",
        lambda arguments, post: bool(
            arguments.queries and (arguments.domains is not None or post not in _WITH_QUERIES)
        ),
        f"needs a single column and --post {', '.join(_WITH_QUERIES)}, got --post {{post}}. For "
        "several columns use EmpiricalBayes(queries={{column: ..}}) in Python.",
    ),
)


def _chosen_post(arguments: argparse.Namespace, has_grid: bool) -> str:
    default = "empirical-bayes" if arguments.strings is None else "post-pos"
    return arguments.post or ("smooth-mle" if has_grid else default)


def _check(arguments: argparse.Namespace, post: str) -> None:
    """Raise ValueError if the options cannot be combined.

    The command calls this before any work.
    """
    for refusal in _REFUSALS:
        if refusal.condition(arguments, post):
            raise ValueError(f"{refusal.option} {refusal.message}".format(post=post))


def run(arguments: argparse.Namespace) -> None:
    """Read or simulate reports, post-process the estimate, and write it as a table."""
    for path in (arguments.file, *arguments.more):
        check_table_output(arguments.output, path)
    grid = read_grid(arguments.categories)
    post = _chosen_post(arguments, grid is not None)
    _check(arguments, post)
    arguments.post = post
    _refuse_reports(arguments.file)
    if arguments.html is not None:
        check_suffix(arguments.html, (".html",), option="--html ")
        check_writable(arguments.html)
    if arguments.plot is not None:
        check_suffix(arguments.plot, _PLOTS, option="--plot ")
        check_writable(arguments.plot)
        check_matplotlib()
    raw = _raw_weeks(arguments) if arguments.more else _raw_estimate(arguments, arguments.file)
    if arguments.strings is not None and 0 in raw.shape:
        raise ValueError(
            "No string is detected, because too few users share the same string at this epsilon. "
            "Collect reports of more users, or use a larger epsilon."
        )
    if arguments.change:
        estimate = raw[[-1]] - raw[[0]]
        description = f"{raw.row_names[-1]} minus {raw.row_names[0]}: {estimate}"
        write_table(_change(estimate, arguments), arguments.output)
    else:
        estimate, description = _processed(raw, arguments)
    if arguments.html is not None:
        make_folder(arguments.html)
        report = estimate.report(
            arguments.level, question=arguments.question, at_all_times=arguments.all_looks
        )
        report.save(arguments.html)
    if arguments.plot is not None:
        draw(
            estimate,
            arguments.plot,
            arguments.level,
            by_frequency=arguments.sort == "frequency",
            title=arguments.question,
            axis_names=None if grid is None else list(grid),
        )
    if not has_domain(arguments):
        say(
            "warning: the domain is learned from the raw values, which leaks it. This is fine for "
            "a simulation; otherwise pass the public domain with --categories"
        )
    say(description)
    if arguments.seed is None and not _is_checkpoint(arguments.file):
        say(
            "this call has simulated a collection with new random bits, so another call has "
            "another estimate. For several tables of one collection, run `privatize` and "
            "`aggregate` once, and then `estimate state.npz`"
        )


def _processed(raw: Any, arguments: argparse.Namespace) -> tuple[Any, str]:
    """Post-process the raw estimate and write the table.

    Return the processed estimate, and a line that describes it.
    """
    post = _postprocessor(raw, arguments)
    if arguments.queries is not None:
        post.set_params(queries=_query_set(arguments.queries, _labels(arguments, raw.categories)))
    estimate = post.fit_transform(raw)
    if arguments.answered:
        raw, estimate = raw.answered(), estimate.answered()
    if arguments.more:
        rows = zip(raw.row_names.tolist(), raw, estimate, strict=True)
        tables = {
            name: _written(before, after, arguments, len(raw)) for name, before, after in rows
        }
        write_tables(tables, arguments.output, "row")
    elif arguments.domains is not None:
        write_tables(_tables(raw, estimate, arguments), arguments.output)
    else:
        write_table(_written(raw, estimate, arguments), arguments.output)
    return estimate, f"{_heading(raw)}; after {_description(post)}"


def _change(change: Any, arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    """Return the table for the difference of two estimates."""
    description = change.describe(arguments.level)
    columns = {"category": _names(change.one, arguments)}
    columns |= _columns(description, ("difference", "low", "high"))
    columns["interval"] = np.full(change.shape[1], description["interval"])
    return _ordered(columns, "difference", arguments)


def _columns(description: dict[str, Any], names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return columns of the table in a description."""
    rows = description["rows"]
    return {name: np.array([row[name] for row in rows]) for name in names}


def _raw_estimate(arguments: argparse.Namespace, path: Path) -> Any:
    """Return the raw estimate from a file.

    For a checkpoint, the file determines the oracle and the round. For values, the collection is
    simulated.
    """
    if _is_checkpoint(path):
        return _server(arguments, path).estimate_
    adopt(arguments, None)
    return _simulated(arguments)


def _raw_weeks(arguments: argparse.Namespace) -> ldp.FrequencyEstimate:
    """Return a raw estimate with one row for each checkpoint."""
    paths = [arguments.file, *arguments.more]
    for path in paths:
        path.stat()  # or FileNotFoundError
    others = [path for path in paths if not _is_checkpoint(path)]
    if others or arguments.categories is None:
        fault = f"{others[0]} is not a checkpoint" if others else "--categories is missing"
        if arguments.domains is not None and not others:
            fault = (
                "--domains has several columns. In Python select a column, as in "
                'FrequencyEstimate.from_rows({"may": may["age"], "june": june["age"]})'
            )
        raise ValueError(
            f"Several files must be checkpoints of one column, but {fault}. Pass only such "
            "checkpoints, with --categories."
        )
    stems = [path.stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in paths]
    by_number = order_by_number(names)
    if by_number is not None:
        say(
            f"warning: the rows have the order of the files, {', '.join(names)}, which is typical "
            f"for a pattern of the shell; the order by number is {', '.join(by_number)}. List the "
            "files in that order, or name them 01, 02, .."
        )
        # This remedy is for files; Trend would add a remedy for Python.
        warnings.filterwarnings("ignore", "Trend got rows in the order of text")
    servers = [_server(copy(arguments), path) for path in paths]
    for (path_a, a), (path_b, b) in combinations(zip(paths, servers, strict=True), 2):
        digests = b.batches.digests.items()
        has_common = any(a.batches.digest(batch) == digest for batch, digest in digests)
        if a.configuration == b.configuration and has_common:
            raise ValueError(
                f"{path_a} and {path_b} contain the same batches, so users would count twice: one "
                "file is either a copy or an earlier state of the other. Save a checkpoint that "
                "contains only the batches of its own week."
            )
    rows = zip(names, servers, strict=True)
    return ldp.FrequencyEstimate.from_rows({name: server.estimate_ for name, server in rows})


def _query_set(text: str, labels: Mapping[str, Any]) -> Any:
    """Return the queries that a value of --queries describes.

    `labels` maps each column of the histogram to the groups of the categories.
    """
    kind, _, value = text.partition(":")
    kinds = {
        "sets": lambda: ldp.queries.random_sets(float(value)),
        "ranges": lambda: ldp.queries.ranges(int(value)),
        "top": lambda: ldp.queries.top_k(int(value)),
        "groups": lambda: ldp.queries.groups(labels[value]),
    }
    if text == "full":
        return ldp.queries.full_domain()
    try:
        return kinds[kind]()
    except (ValueError, KeyError):
        names = ", ".join(labels) or "only the columns of values and counts"
        columns = f"; the columns are {names}" if kind == "groups" else ""
        raise ValueError(f"--queries must be one of {_QUERIES}, got {text!r}{columns}.") from None


def _labels(arguments: argparse.Namespace, categories: np.ndarray) -> dict[str, list]:
    """Return the group of each category, for each further column of the histogram.

    The result is a dict from the names of the columns to lists.
    """
    if not arguments.queries.startswith("groups:"):
        return {}
    options = {"value_column": arguments.value_column, "count_column": arguments.count_column}
    options = {name: column for name, column in options.items() if column is not None}
    try:
        histogram = ldp.datasets.read_histogram(arguments.file, dtype=str, **options)
    except ValueError as error:
        raise ValueError(f"--queries groups:COLUMN needs a histogram in FILE: {error}") from error
    place = {value: i for i, value in enumerate(histogram.categories.tolist())}
    try:
        places = [place[text] for text in categories.astype(str).tolist()]
    except KeyError as error:
        raise ValueError(
            f"{arguments.file} has no row for the category {error} of --categories, so the group "
            "is unknown. Add a row with count 0."
        ) from None
    return {name: labels[places].tolist() for name, labels in histogram.groups.items()}


def _is_checkpoint(path: Path) -> bool:
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"PK\3\4"  # an npz is a zip archive


def _claimed(path: Path) -> dict[str, Any] | None:
    """Return the configuration in a checkpoint, which is not verified.

    Return None if it cannot be read.
    """
    from .._core.aggregation.checkpoints import claimed_configuration

    with suppress(ValueError):  # the actual reading raises the error again
        return claimed_configuration(path)
    return None


def _refuse_reports(path: Path) -> None:
    """Raise ValueError if a file contains reports instead of values, or if it is a folder."""
    if path.is_dir():
        raise ValueError(
            f"{path} is a folder. Pass a file of values, or first run `sklearn-ldp aggregate "
            f"{path} --checkpoint state.npz` for its reports, and then estimate state.npz."
        )
    if not path.is_file():
        return
    with open(path, "rb") as file:
        first = file.read(_HEADER_BYTES)
        file.seek(max(path.stat().st_size - _HEADER_BYTES, 0))
        if _REPORTS in first + file.read(_HEADER_BYTES):
            raise ValueError(
                f"{path} contains reports. First run `sklearn-ldp aggregate {path} --checkpoint "
                "state.npz` with the options of the clients, then estimate state.npz."
            )


def _server(arguments: argparse.Namespace, path: Path) -> Any:
    """Return the Aggregator in a checkpoint of ``sklearn-ldp aggregate``."""
    from ..collection import Aggregator, CheckpointError

    arguments.file = path
    adopt(arguments, _claimed(path))
    if not has_domain(arguments):
        raise ValueError(
            f"{arguments.file} is a checkpoint, which contains counts without the names of the "
            "categories. Pass the public domain of the reports as --categories, or the domains "
            "of several columns as --domains."
        )
    if arguments.seed is not None and arguments.post not in SEARCHES:
        raise ValueError(
            "--seed can be used only for a simulation, but a checkpoint contains reports of real "
            "users. Leave out --seed."
        )
    oracle = declared_oracle(arguments)
    options = {"collection_round": arguments.round, "key": read_key(arguments.key_file)}
    try:
        return Aggregator.load(arguments.file, oracle, **options)
    except CheckpointError as error:
        claimed = as_options(_claimed(arguments.file) or {})
        is_other = "of this collection" in str(error) and claimed
        raise ValueError(f"{error} It claims: {claimed}." if is_other else error) from None


def _simulated(arguments: argparse.Namespace) -> Any:
    """Return the estimate of a simulated collection from the users' values in the file."""
    oracle: Any
    if not has_domain(arguments):
        values, counts = read_users(arguments, None)
        oracle = make_oracle(arguments, values)
    else:
        oracle = declared_oracle(arguments)
        values, counts = declared_users(arguments, oracle)
    oracle.set_params(random_state=arguments.seed, n_jobs=arguments.jobs)
    return _fitted(oracle, values, counts)


def _fitted(oracle: Any, values: np.ndarray, counts: np.ndarray) -> Any:
    """Return the estimate of an oracle that is fitted to the values.

    Progress is shown if there are many users.
    """
    from .._core.mechanisms.mechanism import chunk_users

    n = int(counts.sum())
    chunk = chunk_users(oracle.protocol().mechanism)
    if n <= _LONG * chunk:
        return oracle.fit_transform(values, sample_weight=counts)
    ends = np.cumsum(counts)
    stops = np.linspace(0, n, _STEPS + 1).astype(np.int64)
    with Progress(_STEPS) as progress:
        for start, stop in pairwise(stops.tolist()):
            inside = np.diff(np.clip(ends, start, stop), prepend=start)
            rows = np.flatnonzero(inside)
            oracle.partial_fit(values[rows], sample_weight=inside[rows])
            progress.finish(f"{stop:,} of {n:,} users")
    return oracle.estimate_


def _postprocessor(raw: Any, arguments: argparse.Namespace) -> Any:
    if arguments.post == "empirical-bayes":
        simplex = not getattr(raw, "shares_overlap", False)
        return ldp.EmpiricalBayes(simplex=simplex, ordered=arguments.ordered or None)
    if arguments.post not in SEARCHES:
        return getattr(ldp.postprocessing, POSTPROCESSORS[arguments.post])()
    search = getattr(ldp.model_selection, SEARCHES[arguments.post])()
    # The seed determines the splits or simulations of the search, not the reports of users.
    return search if arguments.seed is None else search.set_params(random_state=arguments.seed)


def _tables(raw: Any, estimate: Any, arguments: argparse.Namespace) -> dict[str, dict]:
    """Return one table for each column of a survey.

    The numbers are missing if no user was asked for the column.
    """
    tables: dict[Any, dict[str, np.ndarray]] = {}
    names = np.array(raw.names, dtype=object)
    n_tables = sum(len(part) > 0 for part in raw.values())
    shown = _for_spreadsheets(names, arguments) if is_csv(arguments.output) else names
    for name, part in zip(shown.tolist(), raw.values(), strict=True):
        if len(part):
            tables[name] = _written(part, estimate[raw.names[len(tables)]], arguments, n_tables)
            continue
        say(f"warning: no user was asked for the column {name!r}, so it has no estimate")
        missing = np.full(part.shape[1], np.nan)
        tables[name] = {"category": _names(part, arguments), **dict.fromkeys(_NUMBERS, missing)}
        tables[name]["interval"] = np.full(part.shape[1], "")
    return tables


def _written(
    raw: Any, estimate: Any, arguments: argparse.Namespace, n_tables: int = 1
) -> dict[str, np.ndarray]:
    """Return the table of an estimate.

    Its intervals are simultaneous for the categories of all `n_tables` tables together.
    """
    from .._core.domains import bounds_of_cells
    from .._core.statistics import at_level, level_of_each, table_columns

    numbers = table_columns(estimate, level_of_each(arguments.level, n_tables))
    numbers.setdefault("frequency", numbers["estimate"])  # without a post-processor
    columns = {
        "category": _names(raw, arguments),
        **bounds_of_cells(raw.domain),
        **{name: numbers[name][0] for name in _NUMBERS},
        "interval": np.full(
            raw.shape[1], at_level(arguments.level, at_all_times=arguments.all_looks)
        ),
        **(raw.flags or {}),
    }
    if arguments.all_looks:
        description = estimate.describe(arguments.level, at_all_times=True)
        columns |= _columns(description, ("low", "high"))
    return _ordered(columns, "frequency", arguments)


def _names(estimate: Any, arguments: argparse.Namespace) -> np.ndarray:
    """Return the categories as the table shows them. In Parquet, a missing answer stays null."""
    from .._core.domains import has_cells

    is_read = arguments.output is None or is_csv(arguments.output)
    if has_cells(estimate.domain):
        return np.array([" x ".join(cell) for cell in estimate.labels.tolist()], dtype=object)
    # Flags are separate columns.
    return replace(estimate, flags=None).labels if is_read else estimate.categories


def _ordered(columns: dict[str, np.ndarray], by: str, arguments: Any) -> dict[str, np.ndarray]:
    """Return the table in the order of --sort, with categories that suit the output format.

    `by` is the column to sort by.
    """
    if arguments.sort == "frequency":
        order = np.argsort(-columns[by], kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
    if is_csv(arguments.output):
        columns["category"] = _for_spreadsheets(columns["category"], arguments)
    return columns


def _for_spreadsheets(values: np.ndarray, arguments: argparse.Namespace) -> np.ndarray:
    """Return the categories for CSV.

    If some of them look like formulas, protect them with --spreadsheet-safe, otherwise warn.
    """
    if arguments.spreadsheet_safe:
        return without_formulas(values)
    formula = first_formula(values)
    if formula is not None:
        say(
            f"warning: a spreadsheet interprets the category {shorten(formula)} as a formula and "
            "may run it. Use --spreadsheet-safe to put an apostrophe before such categories"
        )
    return values


def _heading(raw: Any) -> str:
    """Return a description of an estimate in one line."""
    first = str(raw).splitlines()[0]
    if not isinstance(raw, Mapping):
        return first
    n_users = next(part.noise.n_users for part in raw.values() if len(part))
    return f"{first} from {counted(n_users, 'user')}, each asked for one of them"


def _description(post: Any) -> str:
    name = type(post).__name__
    if name in SEARCHES.values() and hasattr(post, "estimators_"):
        best = {part: getattr(x, "best_estimator_", None) for part, x in post.estimators_.items()}
        if None in best.values():  # an average of all candidates
            return name
        selected = ", ".join(f"{type(x).__name__} for {part!r}" for part, x in best.items())
        return f"{selected}, selected by {name}"
    chosen = getattr(post, "best_estimator_", None)
    return name if chosen is None else f"{type(chosen).__name__}, selected by {name}"
