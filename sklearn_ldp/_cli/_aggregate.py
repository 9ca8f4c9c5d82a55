"""``sklearn-ldp aggregate``: add files of reports to a collection that is kept on disk."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._files._atomic import check_writable, make_folder
from .._progress import Progress
from ._arguments import add_shared, check_suffix, count, read_key, say, seconds
from ._methods import make_oracle
from ._signals import ending_like_ctrl_c

TITLE = "files of reports in, a collection that can be resumed out"

DESCRIPTION = """\
Add up reports that `sklearn-ldp privatize` or sklearn_ldp.collection.write_reports has written.
Each file is a batch and counts once, whatever its name and however often it comes. A batch that is
damaged, or of another configuration, is refused as a whole. The state of the collection is kept in
a checkpoint: the same command resumes from it after Ctrl-C or a crash, and when it is run again it
adds the batches that are new. If two run at the same time, one waits for the other.
`sklearn-ldp estimate` reads the checkpoint."""

EPILOG = """\
examples:
  sklearn-ldp aggregate reports --categories domain.txt --checkpoint state.npz
  sklearn-ldp aggregate a.parquet b.parquet --oracle oue --epsilon 2 --categories domain.txt \\
      --checkpoint state.npz --on-refusal skip
  ssh client cat batch.arrows | sklearn-ldp aggregate - --categories domain.txt \\
      --checkpoint state.npz"""


_CAPS = {
    "--max-batch-reports": "refuse batches of more reports",
    "--min-batch-reports": "refuse batches of fewer reports, which say much about their users",
    "--max-source-batches": "refuse further batches of a source; the source of a batch is what "
    "stands before the first slash of its id",
    "--max-source-reports": "refuse further reports of a source",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    source = parser.add_argument_group("input")
    source.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="files of reports, folders of them, or - for one batch on standard input",
    )
    source.add_argument(
        "--format",
        choices=["arrow", "parquet", "jsonl"],
        default="arrow",
        help="the format of standard input (default: arrow)",
    )
    source.add_argument(
        "--on-refusal",
        choices=["stop", "skip"],
        default="stop",
        help="what to do when a batch is refused (default: stop; skip keeps a note of it)",
    )
    source.add_argument(
        "--on-repeat",
        choices=["stop", "ignore"],
        default="ignore",
        help="what to do with a batch that comes twice in this call (default: ignore)",
    )
    method = parser.add_argument_group("what the reports must be")
    add_shared(method, "--epsilon", "--oracle", "--categories", "--round", "--key-file")
    for option, text in _CAPS.items():
        method.add_argument(option, type=count, metavar="N", help=f"{text} (default: no limit)")
    target = parser.add_argument_group("output")
    target.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        required=True,
        help="the state of the collection (.npz): created with its folder if missing, otherwise "
        "resumed",
    )
    target.add_argument(
        "--lock-seconds",
        type=seconds,
        default=600.0,
        metavar="S",
        help="how long to wait for another process that adds to the same checkpoint (default: 600)",
    )
    target.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="add up on the Dask cluster of this scheduler, whose workers see the same files",
    )


def run(arguments: argparse.Namespace) -> None:
    """Add up the reports, and print a summary of the collection."""
    from ..collection import Caps
    from ..collection._lock import other_user
    from ._input import read_categories

    path = arguments.checkpoint
    check_writable(path)
    caps = [option.removeprefix("--").replace("-", "_") for option in _CAPS]
    oracle = make_oracle(arguments, read_categories(arguments.categories))
    options = {
        "collection_round": arguments.round,
        "checkpoint": path,
        "on_repeat": "raise" if arguments.on_repeat == "stop" else "ignore",
        "on_refusal": "raise" if arguments.on_refusal == "stop" else "skip",
        "lock_seconds": arguments.lock_seconds,
        "caps": Caps(**{name: getattr(arguments, name) for name in caps}),
        "key": read_key(arguments.key_file),
    }
    if other := other_user(path):
        say(f"waiting for {other}, which adds to {path}")
    work = _aggregate_here if arguments.dask is None else _aggregate_on_dask
    try:
        with ending_like_ctrl_c():
            server = work(arguments, oracle, options)
    except KeyboardInterrupt:
        if path.exists():
            say(f"interrupted: {path} holds what was added, and the same command goes on from it")
        raise
    if not path.exists():  # nothing was new
        server.save(path)
    print(server.summary())


def _aggregate_here(arguments: argparse.Namespace, oracle: Any, options: dict) -> Any:
    from ..collection import aggregate

    paths = list(_paths(arguments.files))
    make_folder(arguments.checkpoint)
    with Progress(len(paths)) as progress:
        batches = _batches(paths, oracle, arguments, options["key"], progress)
        return aggregate(batches, oracle, **options)


def _paths(files: list[Path]) -> Iterator[Path]:
    from ..collection._formats import SUFFIXES
    from ..collection._stream import report_files

    for file in files:
        if str(file) == "-":
            yield file
            continue
        if not file.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
        if not file.is_dir():
            check_suffix(file, tuple(SUFFIXES), option="")
        yield from report_files(file)


def _batches(
    paths: list[Path], oracle: Any, arguments: Any, key: bytes | None, progress: Progress
) -> Iterator[Any]:
    """Yield the files, and the batch on standard input with the id that it carries."""
    from ..collection import describe_reports, read_reports

    form = arguments.format
    for path in paths:
        if str(path) != "-":
            yield path
        else:
            content = sys.stdin.buffer.read()
            reports = read_reports(
                content, oracle, collection_round=arguments.round, format=form, key=key
            )
            yield describe_reports(content, format=form)["batch_id"], reports
        progress.finish(path.name)  # it has been added when the next one is asked for


def _aggregate_on_dask(arguments: argparse.Namespace, oracle: Any, options: dict) -> Any:
    from ..collection import aggregate_dask

    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError("--dask needs distributed: pip install 'sklearn_ldp[dask]'.") from error
    if any(str(file) == "-" for file in arguments.files):
        raise ValueError("--dask adds up files that the workers can open, not standard input.")
    paths = [path.resolve() for path in _paths(arguments.files)]
    make_folder(arguments.checkpoint)
    with Client(arguments.dask) as client:
        return aggregate_dask(client, paths, oracle, progress=True, **options)
