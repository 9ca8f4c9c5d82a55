"""The command ``sklearn-ldp estimate``.

Simulate a collection under epsilon-local differential privacy: the value of each user in FILE is
randomised as their own device would do it, and the server's estimate of the frequencies is written
as a table with one row per category:

  category   the category
  estimate   raw and unbiased, may be negative
  low, high  its confidence interval
  frequency  after post-processing
  count      the frequency times the number of users
  interval   how the intervals hold: those of all categories at once, so that rows may be sorted
             and picked

These are the columns of `to_frame(interval=..)` in Python.

With --domains this is done for each of several columns, of which every user is asked for one. The
table has the name of the column, too; a terminal shows one table per column.

With --strings nobody lists the values: the table has those that a search has found.

What FILE holds is recognised by its content:

  histogram      CSV, CSV.gz or Parquet with the columns value and count (its number of users)
  values         one user per row: CSV, CSV.gz or Parquet with the column value (other columns are
                 ignored), or plain text with one value per line; a first line that looks like a
                 header is refused until --value-column or --no-header says what it is
                 an empty cell is a missing answer, if the domain has a category for it (null)
  checkpoint     what `sklearn-ldp aggregate` has written: real reports (also of several items a
                 user), nothing is simulated; give the --categories (or --domains) of the
                 collection, as it knows the rest. Several checkpoints, such as those of weeks, are
                 rows of one estimate, which --post trend smooths; their names are in the table.
                 With --change it is the difference of the last from the first, and its interval

----
privacy: the reports are as private as epsilon says when the domain is public (--categories or
--domains) and no --seed is given. Whoever runs this command sees the raw values of FILE all the
same.

examples:
  sklearn-ldp estimate survey.csv --value-column browser --categories browsers.txt
  sklearn-ldp estimate histogram.csv.gz --epsilon 2 --post norm-cut --output estimate.parquet
  sklearn-ldp estimate values.txt --seed 0 --sort frequency | head
  sklearn-ldp estimate people.csv --value-column age --categories ages.txt --ordered
  sklearn-ldp estimate histogram.csv.gz --queries groups:region
  sklearn-ldp estimate state.npz --categories browsers.txt --post held-out-search
  sklearn-ldp estimate week-*.npz --categories browsers.txt --post trend
  sklearn-ldp estimate may.npz june.npz --categories browsers.txt --change --html change.html
  sklearn-ldp estimate people.csv --domains domains.json --epsilon 2 --output estimates.csv
  sklearn-ldp estimate words.csv --strings abcdefghijklmnopqrstuvwxyz --max-length 12 --epsilon 4
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import sklearn_ldp as ldp

from .._core.support.files import check_writable, make_folder, shorten
from .._core.support.progress import Progress
from .._core.support.text import counted
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
from ._files import (
    declared_users,
    first_formula,
    is_csv,
    read_users,
    without_formulas,
    write_table,
    write_tables,
)

_REPORTS = b"sklearn_ldp reports"
_HEADER_BYTES = 1 << 16  # of a file of reports, at its beginning or its end
_LONG, _STEPS = 200, 20  # chunks of users that are long work, and steps of its progress
_QUERIES = "full, sets:SHARE, ranges:COUNT, top:K, groups:COLUMN"
_NUMBERS = ("estimate", "low", "high", "frequency", "count")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    source = parser.add_argument_group("input")
    text = "values, a histogram or a checkpoint"
    source.add_argument("file", type=Path, metavar="FILE", help=text)
    text = "more checkpoints of the same question, of other users, such as those of later weeks"
    source.add_argument("more", nargs="*", type=Path, metavar="FILE", help=text)
    text = (
        "the public domain, one category per line, or a .json file with what --domains has of a "
        "column; without it the domain is learned from the raw values, which leaks it"
    )
    add_domain_options(source, required=False, help=text)
    add_value_options(source)
    text = "name of the collection (default: as the checkpoint says)"
    add_shared(source, "--round", default=None, help=text)
    add_shared(source, "--key-file")
    method = parser.add_argument_group("method")
    text = "privacy budget of one report, > 0 (default: as the checkpoint says, otherwise 1)"
    add_shared(method, "--epsilon", default=None, help=text)
    add_shared(method, "--oracle")
    posts = [*POSTPROCESSORS, *SEARCHES]
    text = (
        f"the post-processor, or a search that picks one: {', '.join(posts)} (default: "
        "empirical-bayes; with --strings always post-pos)"
    )
    method.add_argument("--post", type=partial(spelled, known=posts), metavar="NAME", help=text)
    text = (
        "the categories have an order, that of --categories, such as ages: with "
        "empirical-bayes, neighbours then help each other (as bins do without it)"
    )
    method.add_argument("--ordered", action="store_true", help=text)
    text = (
        "what will be asked, for empirical-bayes or a search: ranges:COUNT, top:K, or "
        "groups:COLUMN, which another column of a histogram names; it helps where groups differ, "
        "and after top:K only the K largest mean anything"
    )
    method.add_argument("--queries", metavar="Q", help=text)
    text = "of several checkpoints: by how much the last differs from the first, in raw estimates"
    method.add_argument("--change", action="store_true", help=text)
    add_shared(method, "--seed", "--jobs")
    target = parser.add_argument_group("output")
    add_shared(target, "--output", "--level")
    text = "also write a report, one page of HTML with a picture and what may be said"
    target.add_argument("--html", type=Path, metavar="FILE", help=text)
    target.add_argument("--question", default="", help="with --html, the title of the report")
    text = "order of the rows: that of the domain, or largest first (default: domain)"
    target.add_argument("--sort", choices=["domain", "frequency"], default="domain", help=text)

    text = (
        "CSV for spreadsheets: an apostrophe before categories that begin with = + - @, a tab "
        "or a carriage return, which would be taken for formulas"
    )
    target.add_argument("--spreadsheet-safe", action="store_true", help=text)


class _Refusal(NamedTuple):
    """A combination of options that is refused: its main option, its condition, its message."""

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


def _chosen_post(arguments: argparse.Namespace) -> str:
    default = "empirical-bayes" if arguments.strings is None else "post-pos"
    return arguments.post or default


def _check(arguments: argparse.Namespace) -> None:
    """Raise ValueError for a combination of options that is not possible, before any work."""
    post = _chosen_post(arguments)
    for refusal in _REFUSALS:
        if refusal.condition(arguments, post):
            raise ValueError(f"{refusal.option} {refusal.message}".format(post=post))


def run(arguments: argparse.Namespace) -> None:
    """Read the file, collect or load the reports, post-process the estimate and write it."""
    for path in (arguments.file, *arguments.more):
        check_table_output(arguments.output, path)
    _check(arguments)
    arguments.post = _chosen_post(arguments)
    _refuse_reports(arguments.file)
    if arguments.html is not None:
        check_suffix(arguments.html, (".html",), option="--html ")
        check_writable(arguments.html)
    raw = _of_weeks(arguments) if arguments.more else _of_file(arguments, arguments.file)
    if arguments.strings is not None and 0 in raw.shape:
        raise ValueError("no string is detected: more users, or a larger epsilon, are needed.")
    if arguments.change:
        estimate = raw[[-1]] - raw[[0]]
        made = f"{raw.row_names[-1]} minus {raw.row_names[0]}: {estimate}"
        write_table(_change(estimate, arguments), arguments.output)
    else:
        estimate, made = _processed(raw, arguments)
    if arguments.html is not None:
        make_folder(arguments.html)
        estimate.report(arguments.level, question=arguments.question).save(arguments.html)
    if not has_domain(arguments):
        say(
            "warning: the domain is learned from the raw values, which leaks it: fine for a "
            "simulation, otherwise give the public one with --categories"
        )
    say(made)


def _processed(raw: Any, arguments: argparse.Namespace) -> tuple[Any, str]:
    """Post-process and write an estimate; return it, and what it is in one line."""
    post = _postprocessor(raw, arguments)
    if arguments.queries is not None:
        post.set_params(queries=_query_set(arguments.queries, _labels(arguments, raw.categories)))
    estimate = post.fit_transform(raw)
    if arguments.more:
        rows = zip(raw.row_names.tolist(), raw, estimate, strict=True)
        tables = {name: _written(one, after, arguments, len(raw)) for name, one, after in rows}
        write_tables(tables, arguments.output, "row")
    elif arguments.domains is not None:
        write_tables(_tables(raw, estimate, arguments), arguments.output)
    else:
        write_table(_written(raw, estimate, arguments), arguments.output)
    return estimate, f"{_heading(raw)}; after {_description(post)}"


def _change(change: Any, arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    """Return the table of a difference of two estimates."""
    found = change.describe(arguments.level)
    names = ("difference", "low", "high")
    columns = {"category": _names(change.one, arguments)}
    columns |= {name: np.array([row[name] for row in found["rows"]]) for name in names}
    columns["interval"] = np.full(change.shape[1], found["interval"])
    return _ordered(columns, "difference", arguments)


def _of_file(arguments: argparse.Namespace, path: Path) -> Any:
    """Return the raw estimate of one file, whose oracle and round are as it says."""
    if _is_checkpoint(path):
        return _server(arguments, path).estimate_
    adopt(arguments, None)
    return _simulated(arguments)


def _of_weeks(arguments: argparse.Namespace) -> ldp.FrequencyEstimate:
    """Return the raw estimate whose rows are those of several checkpoints."""
    paths = [arguments.file, *arguments.more]
    for path in paths:
        path.stat()  # or FileNotFoundError
    others = [path for path in paths if not _is_checkpoint(path)]
    if others or arguments.categories is None:
        what = f"{others[0]} is none" if others else "--categories is missing"
        if arguments.domains is not None and not others:
            what = (
                "--domains has several: in Python put a column together, as in "
                'FrequencyEstimate.from_rows({"may": may["age"], "june": june["age"]})'
            )
        raise ValueError(f"Several files are checkpoints of one column, and {what}.")
    stems = [path.stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in paths]
    by_number = sorted(names, key=lambda name: [int(n) for n in re.findall(r"\d+", name)])
    if names == sorted(names) != by_number:
        say(
            f"warning: the rows are in the order of the files, {', '.join(names)}, as a pattern "
            f"of the shell gives them; by their numbers it is {', '.join(by_number)}: name the "
            "files in that order, or 01, 02, .."
        )
    servers = [_server(copy(arguments), path) for path in paths]
    for (a, one), (b, other) in combinations(zip(paths, servers, strict=True), 2):
        known, is_one_round = one.batches, one.configuration == other.configuration
        told = other.batches.digests.items()
        if is_one_round and any(known.digest(batch) == digest for batch, digest in told):
            raise ValueError(
                f"{a} and {b} hold the same batches, as copies do, and sums that are saved while "
                "they grow: users would count twice. Save a checkpoint of each week alone."
            )
    rows = zip(names, servers, strict=True)
    return ldp.FrequencyEstimate.from_rows({name: server.estimate_ for name, server in rows})


def _query_set(text: str, labels: Mapping[str, Any]) -> Any:
    """Return the queries that an option stands for, with the labels of groups by their column."""
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
        found = ", ".join(labels) or "those of values and counts alone"
        columns = f"; the columns are {found}" if kind == "groups" else ""
        raise ValueError(f"--queries must be of {_QUERIES}, got {text!r}{columns}.") from None


def _labels(arguments: argparse.Namespace, categories: np.ndarray) -> dict[str, list]:
    """Return the group of each category, by the column of the histogram that names it."""
    if not arguments.queries.startswith("groups:"):
        return {}
    columns = {"value_column": arguments.value_column, "count_column": arguments.count_column}
    given = {name: column for name, column in columns.items() if column is not None}
    try:
        histogram = ldp.datasets.read_histogram(arguments.file, dtype=str, **given)
    except ValueError as error:
        raise ValueError(f"--queries groups:COLUMN needs a histogram in FILE: {error}") from error
    place = {value: i for i, value in enumerate(histogram.categories.tolist())}
    try:
        places = [place[text] for text in categories.astype(str).tolist()]
    except KeyError as error:
        raise ValueError(
            f"{arguments.file} has no group for {error} of --categories: add a row of count 0."
        ) from None
    return {name: labels[places].tolist() for name, labels in histogram.groups.items()}


def _is_checkpoint(path: Path) -> bool:
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"PK\3\4"  # an npz is a zip archive


def _claimed(path: Path) -> dict[str, Any] | None:
    """The configuration that a checkpoint claims to have; None if it cannot be read."""
    from .._core.storage.checkpoints import claimed_configuration

    with suppress(ValueError):  # errors when it is read in earnest
        return claimed_configuration(path)
    return None


def _refuse_reports(path: Path) -> None:
    """Refuse a file of reports, which looks like one of values: its beginning or end says so."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        first = file.read(_HEADER_BYTES)
        file.seek(max(path.stat().st_size - _HEADER_BYTES, 0))
        if _REPORTS in first + file.read(_HEADER_BYTES):
            raise ValueError(
                f"{path} holds reports: first `sklearn-ldp aggregate {path} --checkpoint "
                "state.npz` with the options of their clients, then estimate state.npz."
            )


def _server(arguments: argparse.Namespace, path: Path) -> Any:
    """Return the aggregator of what ``sklearn-ldp aggregate`` has added up."""
    from ..collection import Aggregator, CheckpointError

    arguments.file = path
    adopt(arguments, _claimed(path))
    if not has_domain(arguments):
        raise ValueError(
            f"{arguments.file} holds counts and no names: give the public domain of its reports "
            "with --categories, or of several columns with --domains."
        )
    if arguments.seed is not None and arguments.post not in SEARCHES:
        raise ValueError("--seed is for simulations; these reports were made by their users.")
    oracle = declared_oracle(arguments)
    options = {"collection_round": arguments.round, "key": read_key(arguments.key_file)}
    try:
        return Aggregator.load(arguments.file, oracle, **options)
    except CheckpointError as error:
        told = as_options(_claimed(arguments.file) or {})
        is_other = "of this collection" in str(error) and told
        raise ValueError(f"{error} It says: {told}." if is_other else error) from None


def _simulated(arguments: argparse.Namespace) -> Any:
    """Return the estimate of a simulated collection of the values in the file."""
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
    """Return the estimate from these users; long work shows how many are done."""
    from .._core.mechanisms.mechanism import chunk_users

    n, chunk = int(counts.sum()), chunk_users(oracle.protocol().mechanism)
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
    # This seeds the splits, or the simulations that the search compares on, and no user's coins.
    return search if arguments.seed is None else search.set_params(random_state=arguments.seed)


def _tables(raw: Any, estimate: Any, arguments: argparse.Namespace) -> dict[str, dict]:
    """Return a table for each column of a survey; a column without users has no numbers."""
    tables: dict[Any, dict[str, np.ndarray]] = {}
    names, n_tables = np.array(raw.names, dtype=object), sum(map(bool, map(len, raw.values())))
    shown = _for_spreadsheets(names, arguments) if is_csv(arguments.output) else names
    for name, part in zip(shown.tolist(), raw.values(), strict=True):
        if len(part):
            tables[name] = _written(part, estimate[raw.names[len(tables)]], arguments, n_tables)
            continue
        say(f"warning: no user was asked for the column {name!r}, so it has no estimate")
        nothing = np.full(part.shape[1], np.nan)
        tables[name] = {"category": _names(part, arguments), **dict.fromkeys(_NUMBERS, nothing)}
        tables[name]["interval"] = np.full(part.shape[1], "")
    return tables


def _written(
    raw: Any, estimate: Any, arguments: argparse.Namespace, n_tables: int = 1
) -> dict[str, np.ndarray]:
    """Return the table of one estimate, whose intervals are simultaneous over n tables."""
    from .._core.statements import at_level, level_of_each, table_columns

    numbers = table_columns(estimate, level_of_each(arguments.level, n_tables))
    numbers.setdefault("frequency", numbers["estimate"])  # without a post-processor
    columns = {
        "category": _names(raw, arguments),
        **{name: numbers[name][0] for name in _NUMBERS},
        "interval": np.full(raw.shape[1], at_level(arguments.level)),
        **(raw.flags or {}),
    }
    return _ordered(columns, "frequency", arguments)


def _names(estimate: Any, arguments: argparse.Namespace) -> np.ndarray:
    """Return the categories for people to read; a Parquet file has a null for a missing answer."""
    is_read = arguments.output is None or is_csv(arguments.output)
    # Flags are columns of their own.
    return replace(estimate, flags=None).labels if is_read else estimate.categories


def _ordered(columns: dict[str, np.ndarray], by: str, arguments: Any) -> dict[str, np.ndarray]:
    """Return a table in the order that is asked for, with categories as its file may have them."""
    if arguments.sort == "frequency":
        order = np.argsort(-columns[by], kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
    if is_csv(arguments.output):
        columns["category"] = _for_spreadsheets(columns["category"], arguments)
    return columns


def _for_spreadsheets(values: np.ndarray, arguments: argparse.Namespace) -> np.ndarray:
    """Return the categories as CSV is to have them, with a warning if some are formulas."""
    if arguments.spreadsheet_safe:
        return without_formulas(values)
    formula = first_formula(values)
    if formula is not None:
        say(
            f"warning: a spreadsheet takes the category {shorten(formula)} for a formula and may "
            "run it: say --spreadsheet-safe to put an apostrophe before such categories"
        )
    return values


def _heading(raw: Any) -> str:
    """The title of an estimate, in one line."""
    first = str(raw).splitlines()[0]
    if not isinstance(raw, Mapping):
        return first
    n_users = next(part.noise.n_users for part in raw.values() if len(part))
    return f"{first} from {counted(n_users, 'user')}, each asked for one of them"


def _description(post: Any) -> str:
    name = type(post).__name__
    if name in SEARCHES.values() and hasattr(post, "estimators_"):
        best = {part: getattr(x, "best_estimator_", None) for part, x in post.estimators_.items()}
        if None in best.values():  # a mean of all
            return name
        picked = ", ".join(f"{type(one).__name__} for {part!r}" for part, one in best.items())
        return f"{picked}, picked by {name}"
    chosen = getattr(post, "best_estimator_", None)
    return name if chosen is None else f"{type(chosen).__name__}, picked by {name}"
