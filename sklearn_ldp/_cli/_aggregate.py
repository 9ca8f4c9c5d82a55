"""The command ``sklearn-ldp aggregate``.

Add up reports that `sklearn-ldp privatize` or sklearn_ldp.collection.write_reports has written.
Each file is a batch and counts once, even if it is sent repeatedly or renamed. A batch that is
damaged, or of another configuration, is refused as a whole. A checkpoint stores the state of the
collection. The same command resumes from it after Ctrl-C or a crash; a later run adds only the new
batches. If two processes use the same checkpoint, one waits for the other. Oracle, epsilon and
round come from the checkpoint or, if it does not exist, from the first file, so only the public
domain must be specified. `sklearn-ldp estimate` reads the checkpoint.

----
examples:
  sklearn-ldp aggregate reports --categories domain.txt --checkpoint state.npz
  sklearn-ldp aggregate a.parquet b.parquet --oracle oue --epsilon 2 --categories domain.txt \\
      --checkpoint state.npz --on-refusal skip
  sklearn-ldp aggregate reports --domains domains.json --checkpoint state.npz
  ssh client cat batch.arrows | sklearn-ldp aggregate - --categories domain.txt \\
      --checkpoint state.npz
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any, NoReturn

from .._core.common.files import check_writable, make_folder
from .._core.common.progress import Progress
from .._core.common.text import printable
from ._arguments import (
    ORACLE_NAMES,
    add_domain_options,
    add_shared,
    adopt,
    as_options,
    check_suffix,
    count,
    declared_oracle,
    read_key,
    say,
    seconds,
    seconds_or_never,
)

_CAPS = {
    "--max-batch-reports": "refuse batches of more reports",
    "--min-batch-reports": "refuse batches of fewer reports, which reveal much about their users",
    "--max-source-batches": "refuse further batches of a source; the source of a batch is the part "
    "of its id before the first slash",
    "--max-source-reports": "refuse further reports of a source",
}


def _place(text: str) -> Path | str:
    from .._core.aggregation.sources import is_url

    return text if is_url(text) else Path(text)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command ``aggregate`` to its parser."""
    source = parser.add_argument_group("input")
    text = (
        "files of reports, folders of such files, their addresses in object storage (s3://, "
        "gs://, ..), or - for one batch on standard input"
    )
    source.add_argument("files", type=_place, nargs="+", metavar="FILE", help=text)
    text = "the format of standard input (default: arrow)"
    formats = ["arrow", "parquet", "jsonl"]
    source.add_argument("--format", choices=formats, default="arrow", help=text)
    text = "action if a batch is refused (default: stop; skip records it in the summary)"
    source.add_argument("--on-refusal", choices=["stop", "skip"], default="stop", help=text)
    text = "action if a batch occurs twice in this call (default: ignore)"
    source.add_argument("--on-repeat", choices=["stop", "ignore"], default="ignore", help=text)
    method = parser.add_argument_group("method of the reports")
    default = "default: from the checkpoint or the first file"
    text = f"how users randomize: {ORACLE_NAMES} ({default}; with --domains the best for each)"
    add_shared(method, "--oracle", help=text)
    text = f"privacy budget of one report, > 0 ({default})"
    add_shared(method, "--epsilon", default=None, help=text)
    add_shared(method, "--round", default=None, help=f"name of the collection ({default})")
    add_domain_options(method)
    add_shared(method, "--key-file")
    for option, text in _CAPS.items():
        method.add_argument(option, type=count, metavar="N", help=f"{text} (default: no limit)")
    target = parser.add_argument_group("output")
    text = (
        "the state of the collection (.npz): created with its folder if missing, otherwise resumed"
    )
    target.add_argument("--checkpoint", type=Path, metavar="FILE", required=True, help=text)
    text = "how long to wait for another process that adds to the same checkpoint (default: 600)"
    target.add_argument("--lock-seconds", type=seconds, default=600.0, metavar="S", help=text)
    text = "minimum number of seconds between two writes of the checkpoint (default: 10)"
    target.add_argument("--checkpoint-every", type=seconds, default=10.0, metavar="S", help=text)
    text = "add up on the Dask cluster of this scheduler, whose workers see the same files"
    target.add_argument("--dask", metavar="ADDRESS", help=text)
    text = (
        "with --dask: seconds to wait for a file before giving up, or never; files that "
        "were added are kept (default: 600)"
    )
    target.add_argument("--timeout", type=seconds_or_never, metavar="S", help=text)


def run(arguments: argparse.Namespace) -> None:
    """Add up the reports in the files, and print a summary of the collection."""
    from .._core.aggregation.checkpoints import other_user
    from ..collection import Caps, CheckpointError, RefusedBatchError

    path = arguments.checkpoint
    check_writable(path)
    caps = [option.removeprefix("--").replace("-", "_") for option in _CAPS]
    adopt(arguments, _claimed(arguments))
    oracle = declared_oracle(arguments)
    options = {
        "collection_round": arguments.round,
        "checkpoint": path,
        "on_repeat": "raise" if arguments.on_repeat == "stop" else "ignore",
        "on_refusal": "raise" if arguments.on_refusal == "stop" else "skip",
        "checkpoint_seconds": arguments.checkpoint_every,
        "lock_seconds": arguments.lock_seconds,
        "caps": Caps(**{name: getattr(arguments, name) for name in caps}),
        "key": read_key(arguments.key_file),
    }
    if other := other_user(path):
        say(f"waiting for {other}, which adds to {path}")
    if arguments.dask is None and arguments.timeout is not None:
        raise ValueError(
            "--timeout can be used only with a Dask cluster. Pass --dask ADDRESS as well, or "
            "leave out --timeout."
        )
    work = _aggregate_here if arguments.dask is None else _aggregate_on_dask
    try:
        with ending_like_ctrl_c():
            n_refused = _earlier_refusals(arguments, oracle, options)
            server, n_batches = work(arguments, oracle, options)
    except (RefusedBatchError, CheckpointError) as error:
        claimed = as_options(_claimed(arguments) or {})
        used = as_options(oracle.protocol(arguments.round).configuration)
        is_other = "of another collection" in str(error) or "of this collection" in str(error)
        hint = f"The reports claim: {claimed}."
        if claimed == used:  # from the first file or the checkpoint, so another file differs
            hint = f"This command counts only {claimed}. Use --on-refusal skip to omit other files."
        raise ValueError(f"{error} {hint}" if is_other and claimed else error) from None
    except KeyboardInterrupt:
        if path.exists():
            say(f"interrupted: {path} contains the added batches. The same command resumes from it")
        raise
    if not path.exists():  # there was no new batch
        server.save(path)
    summary = server.summary()
    print(summary)
    if n_batches and summary.n_refused - n_refused >= n_batches:
        raise ValueError(
            f"Every batch was refused ({n_batches:,} in this call), so nothing was added. Read "
            "the reasons in the summary, and correct the options or the files."
        )


def _earlier_refusals(arguments: argparse.Namespace, oracle: Any, options: dict) -> int:
    """Return the number of refused batches in the checkpoint of an earlier call.

    Return 0 if refused batches are not skipped.
    """
    from ..collection import Aggregator

    if arguments.on_refusal == "stop" or not arguments.checkpoint.exists():
        return 0
    settings = {"collection_round": arguments.round, "key": options["key"]}
    return Aggregator.load(arguments.checkpoint, oracle, **settings).summary().n_refused


def _claimed(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Return the configuration in the checkpoint, or in the first readable file of reports.

    Return None if there is neither. The configuration is not verified.
    """
    from .._core.aggregation import checkpoints
    from ..collection import describe_reports

    path = arguments.checkpoint
    with suppress(ValueError, OSError):  # the actual reading raises these errors again
        if path.exists():
            return checkpoints.claimed_configuration(path)
        for file in _paths(arguments.files, may_miss=True):
            with suppress(ValueError, OSError):
                return describe_reports(file)["configuration"]  # "-" is no file
    return None


def _aggregate_here(arguments: argparse.Namespace, oracle: Any, options: dict) -> tuple[Any, int]:
    from ..collection import RepeatedBatchError, aggregate

    paths = list(_paths(arguments.files, arguments.on_refusal == "skip"))
    make_folder(arguments.checkpoint)
    with Progress(len(paths)) as progress:
        batches = _batches(paths, arguments, progress)
        # Ends: because each refusal consumes another batch of the iterator.
        while True:  # after a copy, continue with the remaining batches
            try:
                return aggregate(batches, oracle, **options), len(paths)
            except RepeatedBatchError as error:
                if arguments.on_repeat == "stop" or "counted the reports of" not in str(error):
                    raise
                say(f"skipped, because a sender may repeat the same reports: {error}")


def _paths(files: list[Path | str], may_miss: bool) -> Iterator[Any]:
    """Yield the files of reports that the arguments name.

    Raise an error for a missing file, unless `may_miss` is true.
    """
    from .._core.aggregation.sources import SUFFIXES, report_files
    from .._serve.slots import held_in

    for file in files:
        if str(file) == "-":
            yield file
            continue
        if isinstance(file, str):
            yield from report_files(file)
            continue
        if not os.path.lexists(file) and not may_miss:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
        if file.suffix == ".npz" and file.is_file():
            raise ValueError(
                f"{file} is a checkpoint, not a file of reports, and checkpoints may contain the "
                "same batches. Pass all files of reports with a single --checkpoint. To merge "
                "checkpoints of different batches, use Aggregator.merge in Python."
            )
        if not file.is_dir():
            check_suffix(file, tuple(SUFFIXES), option="")
        try:
            files_of_folder = report_files(file)
        except ValueError as error:  # there are no files, or not yet
            raise ValueError(held_in(file) or error) from None
        yield from files_of_folder


def _batches(paths: list[Any], arguments: Any, progress: Progress) -> Iterator[Any]:
    """Yield the files. For "-", yield the batch on standard input, which is read in pieces."""
    from .._core.aggregation.sources import Piped

    for path in paths:
        is_pipe = str(path) == "-"
        yield Piped(sys.stdin.buffer, arguments.format, "standard input") if is_pipe else path
        # When the next batch is requested, this batch was added. Read the rest of the pipe, so that
        # its sender does not find the pipe closed.
        # Ends: at the end of the pipe.
        while is_pipe and sys.stdin.buffer.read(1 << 20):
            pass
        progress.finish(printable(os.path.basename(path)))


def _aggregate_on_dask(
    arguments: argparse.Namespace, oracle: Any, options: dict
) -> tuple[Any, int]:
    from ..collection import aggregate_dask

    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(
            "--dask needs the package distributed. Run pip install 'sklearn_ldp[dask]'."
        ) from error
    if any(str(file) == "-" for file in arguments.files):
        raise ValueError(
            "--dask cannot read standard input, because the workers must open the files. Pass "
            "the names of files instead of -."
        )
    paths = [
        path.resolve() if isinstance(path, Path) else path
        for path in _paths(arguments.files, arguments.on_refusal == "skip")
    ]
    make_folder(arguments.checkpoint)
    if arguments.timeout is not None:
        options["timeout"] = arguments.timeout if arguments.timeout < inf else None
    with Client(arguments.dask) as client:
        return aggregate_dask(client, paths, oracle, progress=True, **options), len(paths)


# -- signals that end the process, as an exception that lets it save its work first ----------------
class Terminated(KeyboardInterrupt):
    """Exception for a signal other than Ctrl-C that ends the process."""

    # number: number of the signal.

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def ending_like_ctrl_c() -> Iterator[None]:
    """While the `with` block runs, raise `Terminated` on the signals SIGTERM and SIGHUP."""
    # After the first signal, further signals do not interrupt the saving in the block. A signal
    # that was ignored at the start of the process, such as SIGHUP under nohup, stays ignored.
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [getattr(signal, name) for name in names]
    numbers = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, frame: Any) -> NoReturn:
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)
        raise Terminated(number)

    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
