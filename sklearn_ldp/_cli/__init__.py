"""The command line: its commands, its exit codes and its one-line errors.

Estimate the frequencies of categorical attributes under local differential privacy.

----
examples:
  sklearn-ldp demo
      the main job on real data: which oracle, which post-processor, and who finds it
  sklearn-ldp estimate people.csv --categories domain.txt --epsilon 1 --output estimate.csv
      simulate a collection of these people's values, and write what the server would learn
  sklearn-ldp plan --epsilon 1 --n-categories 1000 --n-samples 1000000
      what to expect of a collection, before there is any data

a collection, step by step:
  sklearn-ldp privatize people.csv --categories domain.txt --output reports/today.parquet
  sklearn-ldp aggregate reports --categories domain.txt --checkpoint state.npz
  sklearn-ldp estimate state.npz --categories domain.txt --output estimate.csv
on a web page: `sklearn-ldp serve` asks and collects, or users randomise with the module that
`sklearn-ldp client` writes for pages of your own
with --domains domains.json instead, people.csv has several columns, and each user is asked for one

exit codes: 0 done, 1 refused or failed (one line on standard error says why), 2 wrong arguments,
130 interrupted by Ctrl-C: aggregate resumes from its checkpoint, 141 broken pipe,
129 and 143 aggregate was ended by SIGHUP or SIGTERM, and resumes as well

sklearn-ldp COMMAND --help says more. Without installing: python -m sklearn_ldp ...
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

from .._core.support.text import printable
from .._version import __version__

PROG = "sklearn-ldp"
FAILED, MISUSED, SIGNALLED, BROKEN_PIPE = 1, 2, 128, 141
# Of an error: names from a file may be as long as the file.
_MAX_ERROR = 480
_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))

# Each command is a module with `add_options` and `run`, and is imported if it is asked for: all of
# them take a second. Its texts for --help are the rest of its docstring, as those of the command
# line as a whole are that of this module.
_COMMANDS = {
    "demo": "the main job on real data, in a minute",
    "plan": "expected errors and needed users of every oracle",
    "privatize": "a file of values in, a file of reports out",
    "serve": "a web page that asks one question, and a collector behind it",
    "client": "a JavaScript module that randomises answers in a browser",
    "aggregate": "files of reports in, a collection that can be resumed out",
    "estimate": "a file of values or a histogram in, an estimate out",
}


class _Parser(argparse.ArgumentParser):
    """Print errors in one line, whereas argparse would print the usage before them."""

    commands: Mapping[str, Any] = {}  # the parser of each
    given: Sequence[str] = ()  # all arguments of the process

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"invalid choice: '(.*?)'", message)
        names = [name for action in self._actions for name in action.choices or ()]
        wrong = [choice[1]] if choice else []
        if "required" in message or message.startswith("unrecognized arguments"):
            parsers = (self, *self.commands.values())
            names = [name for parser in parsers for name in parser._option_string_actions]
            options = (text.split("=")[0] for text in self.given if text.startswith("--"))
            wrong = [option for option in options if option not in names]
        near = [match for name in wrong[:1] for match in get_close_matches(name, names, 1)]
        meant = ""
        if near and "did you mean" not in message:
            unknown = "" if wrong[0] in message else f" {wrong[0]!r} is unknown:"
            meant = f";{unknown} did you mean {near[0]!r}?"
        _complain(f"{message}{meant} (try {self.prog} --help)")
        raise SystemExit(MISUSED)


class _Closed:
    """A standard stream that was closed before the process began: Python has None for it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def flush(self) -> None:
        """Do nothing: nothing has been written."""

    def __getattr__(self, attribute: str) -> Any:
        raise OSError(errno.EBADF, "it is closed: open it, or name a file", self._name)


def _replace_closed_streams() -> None:
    streams: Any = sys  # of which each may be None
    streams.stdin = sys.stdin or _Closed("standard input")
    streams.stdout = sys.stdout or _Closed("standard output")
    if sys.stderr is None:  # errors have no other place
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def run(argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, run the command and return the exit code."""
    given = sys.argv[1:] if argv is None else argv
    _replace_closed_streams()
    try:
        arguments = _parser(given).parse_args(given)
    except SystemExit as stop:  # --help and --version end with 0, a mistake with 2
        return int(stop.code or 0)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_once()
            arguments.run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt as stop:  # of Ctrl-C, or of a signal that is treated like it
        return SIGNALLED + getattr(stop, "number", SIGINT)
    except BrokenPipeError:  # the reader of our output, such as `head`, has had enough
        _forget_stdout()
        return BROKEN_PIPE
    # The library raises these when its input is wrong. Anything else is a bug of the package and
    # keeps its traceback.
    except (ValueError, OSError, ImportError, MemoryError) as error:
        _complain(_explain(error))
        return FAILED
    return 0


def _show_once() -> Callable[..., None]:
    """A way to show warnings: each text once, in a line of the command."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            text = printable(" ".join(str(message).split()))
            print(f"{PROG}: warning: {text}", file=sys.stderr)

    return show


def _forget_stdout() -> None:
    """Let what is still to be written go nowhere, or Python would complain when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = _Parser(prog=PROG, **_help_texts(__doc__))
    parser.add_argument("--version", action="version", version=f"{PROG} {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    parser.commands = commands.choices
    parser.given = argv
    for name, title in _COMMANDS.items():
        command: Any = import_module(f"._{name}", __name__) if name in argv else None
        made = commands.add_parser(name, help=title, **_help_texts(command and command.__doc__))
        made.given = argv
        if command:
            command.add_options(made)
            made.set_defaults(run=command.run)
    return parser


def _help_texts(docstring: str | None) -> dict[str, Any]:
    """Return how argparse shows a module's docstring but for its first line."""
    # docstring: a line of dashes is between the description and the epilog. None, as Python has
    # it with `-OO`, is no help.
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
    if isinstance(error, OSError) and error.errno in _FULL:  # every file that we write has a name
        _forget_stdout()
        return f"standard output: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}"
    return str(error)


def _complain(message: str) -> None:
    text = printable(" ".join(message.split()))
    if len(text) > _MAX_ERROR:  # what is wrong stands at the front, and the remedy at the end
        text = f"{text[: _MAX_ERROR // 2]} ... {text[-_MAX_ERROR // 3 :]}"
    print(f"{PROG}: error: {text}", file=sys.stderr)
