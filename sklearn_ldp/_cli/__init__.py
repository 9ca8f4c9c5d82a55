"""The command line: its commands, its exit codes and its one-line errors.

Estimate the frequencies of categorical attributes under local differential privacy.

----
examples:
  sklearn-ldp demo
      compares oracles, post-processors and searches on real data
  sklearn-ldp estimate people.csv --categories domain.txt --epsilon 1 --output estimate.csv
      simulate a collection of these people's values, and write the estimate of the server
  sklearn-ldp plan --epsilon 1 --n-categories 1000 --n-samples 1000000
      expected errors of a collection, before there is any data

a collection, step by step:
  sklearn-ldp privatize people.csv --categories domain.txt --output reports/today.parquet
  sklearn-ldp aggregate reports --categories domain.txt --checkpoint state.npz
  sklearn-ldp estimate state.npz --categories domain.txt --output estimate.csv
on a web page: `sklearn-ldp serve` asks a question and collects the reports. For your own pages,
`sklearn-ldp client` writes a module that randomizes answers in the browser.
several columns: with --domains domains.json instead of --categories, each user is asked for one
column of people.csv

exit codes: 0 done, 1 refused or failed (one line on standard error gives the reason), 2 wrong
arguments, 130 interrupted by Ctrl-C (aggregate resumes from its checkpoint), 141 broken pipe,
129 and 143 aggregate was ended by SIGHUP or SIGTERM (it also resumes)

For the options of a command: sklearn-ldp COMMAND --help. Without installing: python -m sklearn_ldp
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from signal import SIGINT
from typing import Any, NoReturn

from .._core.common.text import printable
from .._version import __version__

PROG = "sklearn-ldp"
FAILED, MISUSED, SIGNALLED, BROKEN_PIPE = 1, 2, 128, 141
_MAX_ERROR = 480  # characters, because names from a file may be as long as the file
_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))

# Each command is a module with `add_options` and `run`. It is imported only if it is used, because
# importing all commands takes a second. The text for --help is its docstring without the first
# line; the docstring of this module is the text for the whole command line.
_COMMANDS = {
    "demo": "a comparison of methods on real data, in a minute",
    "plan": "expected errors and needed users of every oracle",
    "privatize": "randomize a file of values into a file of reports",
    "serve": "a web page with one question, and the server that collects its reports",
    "client": "a JavaScript module that randomizes answers in a browser",
    "aggregate": "add up files of reports; the collection can be resumed",
    "estimate": "estimate frequencies from values, a histogram or a checkpoint",
}


class _Parser(argparse.ArgumentParser):
    """An argument parser that prints errors in a single line, without a usage text."""

    commands: Mapping[str, Any] = {}  # the parsers by command
    all_arguments: Sequence[str] = ()  # of the process

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"invalid choice: '(.*?)'", message)
        names = [name for action in self._actions for name in action.choices or ()]
        wrong = [choice[1]] if choice else []
        if "required" in message or message.startswith("unrecognized arguments"):
            parsers = (self, *self.commands.values())
            names = [name for parser in parsers for name in parser._option_string_actions]
            options = (text.split("=")[0] for text in self.all_arguments if text.startswith("--"))
            wrong = [option for option in options if option not in names]
        near = [match for name in wrong[:1] for match in get_close_matches(name, names, 1)]
        meant = ""
        if near and "did you mean" not in message:
            unknown = "" if wrong[0] in message else f" {wrong[0]!r} is unknown:"
            meant = f";{unknown} did you mean {near[0]!r}?"
        _complain(f"{message}{meant} (try {self.prog} --help)")
        raise SystemExit(MISUSED)


class _Closed:
    """A replacement for a standard stream that was closed before the process started.

    Reading or writing raises an OSError.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def flush(self) -> None:
        """Do nothing, because nothing can have been written to the stream."""

    def __getattr__(self, attribute: str) -> Any:
        raise OSError(
            errno.EBADF, "the stream is closed. Open it, or pass the name of a file", self._name
        )


def _replace_closed_streams() -> None:
    streams: Any = sys  # each stream may be None
    streams.stdin = sys.stdin or _Closed("standard input")
    streams.stdout = sys.stdout or _Closed("standard output")
    if sys.stderr is None:  # errors cannot be shown anywhere else
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def run(argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, run the command and return the exit code of the process."""
    words = sys.argv[1:] if argv is None else argv
    _replace_closed_streams()
    try:
        arguments = _parser(words).parse_args(words)
    except SystemExit as stop:  # --help and --version end with 0, a mistake with 2
        return int(stop.code or 0)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_once()
            arguments.run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt as stop:  # from Ctrl-C, or from a signal that is treated like Ctrl-C
        return SIGNALLED + getattr(stop, "number", SIGINT)
    except BrokenPipeError:  # the reader of the output, such as `head`, has ended
        _forget_stdout()
        return BROKEN_PIPE
    # The library raises these exceptions for wrong input. Any other exception is a bug of the
    # package and keeps its traceback.
    except (ValueError, OSError, ImportError, MemoryError) as error:
        _complain(_explain(error))
        return FAILED
    return 0


def _show_once() -> Callable[..., None]:
    """Return a function that prints each distinct warning once, as a single line."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            text = printable(" ".join(str(message).split()))
            print(f"{PROG}: warning: {text}", file=sys.stderr)

    return show


def _forget_stdout() -> None:
    """Discard output that was not written yet.

    Otherwise Python would report an error for it at exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = _Parser(prog=PROG, **_help_texts(__doc__))
    parser.add_argument("--version", action="version", version=f"{PROG} {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    parser.commands = commands.choices
    parser.all_arguments = argv
    for name, title in _COMMANDS.items():
        command: Any = import_module(f"._{name}", __name__) if name in argv else None
        subparser = commands.add_parser(
            name, help=title, **_help_texts(command and command.__doc__)
        )
        subparser.all_arguments = argv
        if command:
            command.add_options(subparser)
            subparser.set_defaults(run=command.run)
    return parser


def _help_texts(docstring: str | None) -> dict[str, Any]:
    """Return the arguments of argparse that show a module's docstring as help.

    The first line of the docstring is left out.
    """
    # docstring: a line of dashes separates the description from the epilog. With `-OO` Python has
    # no docstrings, so there is no help.
    description, _, epilog = (docstring or "").partition("\n")[2].partition("\n----\n")
    return {
        "description": description.strip(),
        "epilog": epilog.strip(),
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }


def _explain(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fspath(error.filename)}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in _FULL:  # only standard output has no name
        _forget_stdout()
        return f"standard output: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}"
    return str(error)


def _complain(message: str) -> None:
    text = printable(" ".join(message.split()))
    if len(text) > _MAX_ERROR:  # the fault is at the beginning, and the remedy at the end
        text = f"{text[: _MAX_ERROR // 2]} ... {text[-_MAX_ERROR // 3 :]}"
    print(f"{PROG}: error: {text}", file=sys.stderr)
