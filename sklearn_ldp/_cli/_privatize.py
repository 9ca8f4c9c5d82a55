"""The command ``sklearn-ldp privatize``.

Randomize the value of each user independently, and write the reports as one batch. The batch is
shuffled, and contains the configuration, so that a collector refuses batches of other collections.

FILE is a histogram or values, as for `sklearn-ldp estimate`; - reads values from standard input,
one per line (or a CSV with a header, see --value-column).

With --domains, FILE has a header that names several columns. Each user is asked for one of them, by
public probabilities, and spends the whole epsilon there; columns without a domain are not read.

An output file that exists, or that another process writes, is refused, because each call spends
every user's epsilon again. Errors show no cell of FILE, because others may read the logs of a
client.

----
privacy: the batch costs each user epsilon. Another batch of the same values costs epsilon again.
The user of this command sees the raw values, so a deployment runs it where the values are stored.

examples:
  sklearn-ldp privatize people.csv --categories domain.txt --output reports/monday.parquet
  sklearn-ldp privatize people.csv --domains domains.json --output reports/monday.parquet
  cut -f3 log.tsv | sklearn-ldp privatize - --categories domain.txt --output - | ssh server ...
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from .._core.common.files import check_writable, hidden_cells, make_folder
from .._core.common.progress import Progress
from .._core.common.text import counted
from ._arguments import (
    add_domain_options,
    add_shared,
    add_value_options,
    check_suffix,
    declared_oracle,
    read_key,
    say,
)
from ._files import declared_users

_SUFFIXES = {".parquet": "parquet", ".arrows": "arrow", ".arrow": "arrow", ".jsonl": "jsonl"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command ``privatize`` to its parser."""
    source = parser.add_argument_group("input")
    source.add_argument("file", type=Path, metavar="FILE", help="values or a histogram; - is stdin")
    add_domain_options(source)
    add_value_options(source)
    method = parser.add_argument_group("method")
    add_shared(method, "--epsilon", "--oracle", "--seed")
    target = parser.add_argument_group("output")
    text = f"{', '.join(_SUFFIXES)}; missing folders are created; - is standard output"
    target.add_argument("--output", type=Path, metavar="FILE", required=True, help=text)
    text = "replace an existing output; its users have spent epsilon, and spend it again"
    target.add_argument("--force", action="store_true", help=text)
    formats = list(dict.fromkeys(_SUFFIXES.values()))
    text = "the format on standard output (default: arrow)"
    target.add_argument("--format", choices=formats, default="arrow", help=text)
    text = "name of the batch, which counts once even if it is sent repeatedly (default: random)"
    target.add_argument("--batch-id", metavar="ID", help=text)
    add_shared(target, "--round", "--key-file")


def run(arguments: argparse.Namespace) -> None:
    """Read the users' values, randomize them, and write the reports to a file."""
    from ..collection import write_reports

    path = arguments.output
    is_stdout = str(path) == "-"
    if not is_stdout:
        check_suffix(path, tuple(_SUFFIXES))
        check_writable(path)
        _refuse_existing(path, arguments)
    key = read_key(arguments.key_file)
    oracle = declared_oracle(arguments)  # errors show the domain, which is public
    with hidden_cells(), ExitStack() as locks:
        values, counts = declared_users(arguments, oracle)
        reports = _reports(oracle, values, counts, arguments.seed)
        batch_id = write_reports(
            sys.stdout.buffer if is_stdout else path,
            reports if is_stdout else _locked(reports, arguments, locks),
            oracle,
            batch_id=arguments.batch_id,
            collection_round=arguments.round,
            format=arguments.format if is_stdout else "auto",
            random_state=arguments.seed,
            key=key,
        )
    if arguments.seed is not None:
        say("warning: with --seed the reports are predictable, and protect nobody")
    say(
        f"batch {batch_id}: {counted(counts.sum(), 'report')} of {type(oracle).__name__}; "
        f"each user has spent epsilon {oracle.epsilon:g}"
    )


def _refuse_existing(path: Path, arguments: argparse.Namespace) -> None:
    if path.exists() and not arguments.force:
        raise ValueError(
            f"--output {path} already exists, and each call of privatize spends every user's "
            "epsilon again. For another batch, pass another file name. To replace this file, "
            "pass --force."
        )


def _locked(
    reports: Iterator[np.ndarray], arguments: argparse.Namespace, locks: ExitStack
) -> Iterator[np.ndarray]:
    """Lock the output file, so that no other process writes it, and then yield the reports."""
    # The first report is drawn under the lock, so that a refused process spends nothing.
    from .._core.aggregation.checkpoints import locked

    make_folder(arguments.output)
    locks.enter_context(locked(arguments.output, 0))
    _refuse_existing(arguments.output, arguments)
    yield from reports


def _reports(
    oracle: Any, values: np.ndarray, counts: np.ndarray, seed: int | None
) -> Iterator[np.ndarray]:
    """Randomize the value of each user, and yield the reports in chunks.

    `counts` contains the number of users of each value.
    """
    from .._core.mechanisms import expand
    from .._core.mechanisms.mechanism import chunk_users

    # A generator continues from chunk to chunk. An int would draw the same random bits again.
    random_state = None if seed is None else np.random.default_rng(seed)
    protocol = oracle.protocol()
    ends = np.cumsum(counts)
    size = chunk_users(protocol.mechanism)
    n = int(ends[-1])
    starts = range(0, n, size)
    with Progress(max(len(starts), 1)) as progress:
        for start in starts:
            stop = min(start + size, n)
            yield protocol.privatize(values[expand(ends, start, stop)], random_state)
            progress.finish(f"{stop:,} users")
