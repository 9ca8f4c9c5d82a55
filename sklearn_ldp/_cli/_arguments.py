"""Arguments of the commands: their types, the options that commands share, and what they name."""

from __future__ import annotations

import argparse
import importlib
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import sklearn_ldp as ldp

from .._core.support.files import check_writable, read_regular
from .._core.support.lazy import is_concrete
from .._core.support.text import printable
from ._files import TABLE_SUFFIXES, check_parquet, is_csv, read_categories, read_domains

if TYPE_CHECKING:
    from ..oracles import BaseOracle


# -- oracles, post-processors and searches, by name ----------------------------------------------
def kebab(name: str) -> str:
    """Return ``norm-sub`` for ``NormSub``, and for itself."""
    return re.sub("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


def _listed(names: str) -> dict[str, str]:
    return {kebab(name): name for name in names.split()}


# The class of each name. They are listed, so that no option and no help imports a class; an oracle
# for queries or for sets is left out, as there is no option to give them.
_ORACLES = _listed(
    "BLH GRR OLH OUE SUE HadamardResponse ProjectiveGeometryResponse SubsetSelection"
)
# The candidates of the searches first; the others may need more than an estimate and its noise,
# and say so when they are used.
POSTPROCESSORS = _listed(
    "Base Norm BasePos PostPos BaseCut NormSub NormCut NormMul NormHyb MLEApx Power PowerNS "
    "EmpiricalBayes CLS NPMLE Calibrate ExactMLE MonotoneCDF Smooth SmoothMLE Trend"
)
SEARCHES = _listed("SyntheticSearch SyntheticStack HeldOutSearch")
_ONLY_IN_PYTHON = ("key-value-oracle", "local-mean", "marginal-oracle", "design-oracle")
_NAMED = (*_ORACLES, "range-oracle")


def all_oracles() -> dict[str, type[BaseOracle]]:
    """Return the oracles for a list of categories, such as ``{"olh": OLH, ..}``."""
    return {name: getattr(ldp.oracles, cls) for name, cls in _ORACLES.items()}


def named_oracles() -> dict[str, type[BaseOracle]]:
    """Return the classes that ``--oracle`` may name: all oracles, and that of bins of numbers."""
    return {**all_oracles(), "range-oracle": ldp.RangeOracle}


def oracle_class(name: str) -> Callable[..., BaseOracle]:
    """Return the class of ``--oracle``."""
    # name: a key of `named_oracles` or the name of its class, "olh-mixing", or
    # `package.module:ClassName` of any other subclass of BaseOracle that can be imported.
    known: dict[str, Callable[..., BaseOracle]] = {**named_oracles()}
    known["olh-mixing"] = partial(ldp.oracles.OLH, hash_family="mixing")
    module, colon, attribute = name.partition(":")
    if not colon:
        other = "; an oracle of another package is given as package.module:ClassName"
        return known[spelled(name, known, other)]
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever happens in a module that is not ours
        raise argparse.ArgumentTypeError(
            f"cannot import {name!r} ({type(error).__name__}: {error}); expected "
            "package.module:ClassName of an oracle that Python can import here"
        ) from error
    if not is_concrete(found, ldp.oracles.BaseOracle):
        raise argparse.ArgumentTypeError(
            f"{name!r} is {found!r}; expected a class derived from sklearn_ldp.oracles.BaseOracle"
        )
    return found


def oracle_name(name: str) -> str:
    """Return the name of an oracle as tables have it: the type of ``--oracle`` for argparse."""
    if ":" in name:
        oracle_class(name)
        return name
    return spelled(name, [*_NAMED, "olh-mixing"])


def spelled(name: str, known: Iterable[str], other: str = "") -> str:
    """Return a name as it is listed, in whichever case, with hyphens or without: for argparse."""
    plain = {_plain(one): one for one in known}
    if _plain(name) in plain:
        return plain[_plain(name)]
    close = get_close_matches(_plain(name), plain, 1)
    meant = "".join(f", did you mean {plain[one]!r}?" for one in close)
    choices = ", ".join(map(repr, plain.values()))
    text = f"invalid choice: {name!r}{meant} (choose from {choices}){other}"
    raise argparse.ArgumentTypeError(text)


def _plain(name: str) -> str:
    return re.sub("[-_ ]", "", name).casefold()


def make_oracle(arguments: Any, categories: Any, *, in_browsers: bool = False) -> BaseOracle:
    """Return the oracle of ``--oracle``, or the best one, and ``--epsilon``, without a seed."""
    if max_items := getattr(arguments, "max_items", None):
        if arguments.oracle is not None:
            raise ValueError("--max-items asks for sets, which have one oracle: omit --oracle.")
        method = "hash" if getattr(arguments, "is_hashed", False) else "auto"
        items = {"max_items": max_items, "method": method}
        return ldp.ItemOracle(arguments.epsilon, categories=categories, **items)
    if arguments.oracle is None:
        known: Any = [ldp.oracles.GRR(), ldp.oracles.SubsetSelection(), ldp.oracles.OLH()]
        candidates = known if in_browsers else None
        return ldp.oracles.best_oracle(arguments.epsilon, categories, candidates=candidates)
    return oracle_class(arguments.oracle)(arguments.epsilon, categories=categories)


def has_domain(arguments: Any) -> bool:
    """Return whether the public domain is given by one of the options for it."""
    given = arguments.categories, arguments.domains, arguments.strings
    return any(one is not None for one in given)


def declared_oracle(arguments: Any) -> BaseOracle | ldp.ColumnOracle | ldp.oracles.StringOracle:
    """Return the oracle over the domain of ``--categories``, ``--domains`` or ``--strings``."""
    if arguments.strings is not None:
        if arguments.oracle is not None:
            raise ValueError("--oracle is for a list of categories: leave it out with --strings.")
        lengths = {"max_length": arguments.max_length, "n_found": arguments.n_found}
        return ldp.oracles.StringOracle(
            arguments.epsilon,
            alphabet=arguments.strings,
            expected_n_users=arguments.expected_users,
            **lengths,
        )
    if arguments.domains is not None:
        of_each: Any = "best" if arguments.oracle is None else oracle_class(arguments.oracle)()
        domains = read_domains(arguments.domains)
        return ldp.ColumnOracle(arguments.epsilon, domains=domains, oracle=of_each)
    domain = ldp.Domain.of(read_categories(arguments.categories), "--categories")
    return make_oracle(arguments, domain)


def hashing_oracle(arguments: Any, categories: Any) -> BaseOracle:
    """Return the oracle of ``--open``, for clients that know no list, and for their server."""
    if arguments.oracle not in (None, "olh", "olh-mixing"):
        raise ValueError(f"--open is for --oracle olh, got {arguments.oracle}.")
    if m := arguments.max_items:
        return ldp.ItemOracle(arguments.epsilon, categories=categories, max_items=m, method="hash")
    return ldp.OLH(arguments.epsilon, categories=categories, hash_family="mixing")


def adopt(arguments: Any, configuration: Mapping[str, Any] | None) -> None:
    """Fill in oracle, epsilon and round, where they are not given, as reports say they are."""
    # configuration: that of the reports; None if they cannot be asked. It is their senders' claim,
    # and whatever does not fit the oracle that is made of it is refused as always.
    claimed = configuration or {}
    known = _options_of(claimed)
    if arguments.domains is not None or arguments.strings is not None:
        known.pop("oracle", None)  # that of a whole survey, which is made of its domains
    taken = {name: one for name, one in known.items() if getattr(arguments, name) is None}
    vars(arguments).update(taken)
    oracle = claimed.get("oracle")
    if isinstance(oracle, str) and kebab(oracle) in _ONLY_IN_PYTHON:
        raise ValueError(
            f"The command line does not read reports of {printable(oracle)}: in Python, "
            "`sklearn_ldp.collection.aggregate` and `Aggregator.load` do, for all oracles."
        )
    most = claimed.get("max_items")
    is_of_items = oracle == "ItemOracle" and arguments.oracle is None and isinstance(most, int)
    arguments.max_items = most if is_of_items else None
    arguments.is_hashed = "hash_range" in claimed
    if arguments.epsilon is None:
        arguments.epsilon = 1.0
    arguments.round = arguments.round or ""


def as_options(configuration: Mapping[str, Any]) -> str:
    """Return the options that reports of a configuration need, such as ``--oracle grr``."""
    known = _options_of(configuration).items()
    return " ".join(f"--{name} {quote(printable(f'{one}'))}" for name, one in known if one != "")


def _options_of(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Oracle, epsilon and round of a configuration, as far as they may be options."""
    found, names = dict[str, Any](), {_plain(name): name for name in _NAMED}
    oracle, epsilon, of = (configuration.get(x) for x in ("oracle", "epsilon", "collection_round"))
    if isinstance(oracle, str) and _plain(kebab(oracle)) in names:
        is_mixing = configuration.get("hash_family") == "mixing"
        found["oracle"] = names[_plain(kebab(oracle))] + "-mixing" * is_mixing
    if isinstance(epsilon, float) and 0 < epsilon < math.inf:
        found["epsilon"] = epsilon
    return {**found, "round": of} if isinstance(of, str) else found


# -- options ------------------------------------------------------------------------------------
def _number(kind: type, expectation: str, is_fine: Callable[[Any], bool]) -> Callable[[str], Any]:
    """Return an argparse type: a number that is fine, or an error that says what was expected."""

    def parse(text: str) -> Any:
        try:
            number = kind(text)
        except ValueError:
            number = _whole(text)
        if number is None or not is_fine(number):
            raise argparse.ArgumentTypeError(f"expected {expectation}, got {text!r}")
        return number

    return parse


def _whole(text: str) -> int | None:
    """Return the whole number that a text such as 1e6 stands for; None if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


positive = _number(float, "a finite number > 0", lambda x: 0 < x < math.inf)
level = _number(float, "a number from 0.5 to less than 1, such as 0.95", lambda x: 0.5 <= x < 1)
count = _number(int, "a whole number from 1 to 2**53", lambda x: 1 <= x <= 2**53)
unit = _number(float, "a number from 0 to 1", lambda x: 0 <= x <= 1)
seconds = _number(float, "a number of seconds >= 0", lambda x: 0 <= x < math.inf)
patience = _number(float, "a number of seconds > 0, or 'never'", lambda x: 0 < x < math.inf)
seed = _number(int, "a whole number >= 0", lambda x: x >= 0)
jobs = _number(int, "a number of threads >= 1, or -1 for all cores", lambda x: x >= 1 or x == -1)


def seconds_or_never(text: str) -> float:
    """Return a number of seconds, infinite for "never"."""
    return math.inf if text == "never" else patience(text)


#: What ``--help`` says of the names that ``--oracle`` takes.
ORACLE_NAMES = (
    f"{', '.join(_NAMED)}, olh-mixing for clients that know no list (`client --open`), or "
    "package.module:ClassName for any other"
)


def _option(type: Any, metavar: str, help: str, default: Any = None) -> dict[str, Any]:
    """Return how argparse adds an option."""
    return {"type": type, "metavar": metavar, "help": help, "default": default}


_SHARED = {
    "--epsilon": _option(positive, "E", "privacy budget of one report, > 0 (default: 1)", 1.0),
    "--oracle": _option(
        oracle_name,
        "NAME",
        f"how users randomise: {ORACLE_NAMES} (default: the most accurate one for epsilon and the "
        "domain, as sklearn_ldp.best_oracle says; with --domains for each column)",
    ),
    "--domains": _option(
        Path,
        "FILE",
        "instead of --categories, for several columns of which each user is asked for one: JSON "
        'with the public domain of each, {"sex": ["F", "M", null], "visits": 10, "age": {"bins": '
        "[18, 65]}}; an integer is a number of categories, from 0, null is a missing answer (an "
        "empty cell), and bins may have bounds, clip, labels, missing and scale",
    ),
    "--max-items": _option(
        count, "N", "an answer is a set of categories, of which a report tells up to N (ItemOracle)"
    ),
    "--round": _option(
        None, "NAME", "name of the collection: reports of one round are not added to another", ""
    ),
    "--seed": _option(
        seed, "N", "a repeatable simulation that protects nobody (default: secure randomness)"
    ),
    "--repeats": _option(
        count, "N", "simulated collections that errors are averaged over (default: 30)", 30
    ),
    "--jobs": _option(
        jobs, "N", "threads; the result does not depend on it (default: -1, all cores)", -1
    ),
    "--key-file": _option(
        Path,
        "FILE",
        "the key of the collection, all bytes of this file (at least 16): reports and checkpoints "
        "are signed with it, and what is not signed with it is refused",
    ),
    "--level": _option(level, "P", "coverage of the intervals (default: 0.95)", 0.95),
    "--output": _option(
        Path,
        "FILE",
        f"{', '.join(TABLE_SUFFIXES)}; missing folders are created (default: standard output, as "
        "an aligned table on a terminal and as CSV in a pipe or a file)",
    ),
}


def add_shared(parser: Any, *names: str, **changes: Any) -> None:
    """Add options that several commands have in common, in this order and with these changes."""
    for name in names:
        parser.add_argument(name, **{**_SHARED[name], **changes})


def add_domain_options(
    parser: Any,
    *,
    required: bool = True,
    help: str = "the public domain, the same for clients and server: one category per line, or a "
    ".json file with what --domains has for a column",
) -> None:
    """Add the options for the public domain: of one column, or of several."""
    either = parser.add_mutually_exclusive_group(required=required)
    either.add_argument("--categories", type=Path, metavar="FILE", help=help)
    add_shared(either, "--domains")
    text = (
        "instead of --categories, for strings that nobody can list: the letters that they are "
        "made of, such as abcdefghijklmnopqrstuvwxyz"
    )
    either.add_argument("--strings", metavar="LETTERS", help=text)
    for option, default, text in (
        ("--max-length", 20, "with --strings, letters that are kept of each"),
        ("--n-found", 32, "with --strings, how many to find"),
        ("--expected-users", 1_000_000, "with --strings, the number of users to plan for"),
    ):
        parser.add_argument(
            option, type=count, default=default, metavar="N", help=f"{text} (default: {default})"
        )


def add_value_options(parser: Any) -> None:
    """Add the options that say where the values in a file are."""
    text = "what FILE holds (default: auto, a histogram if it has both columns)"
    kinds = ["auto", "values", "histogram"]
    parser.add_argument("--input-kind", choices=kinds, default="auto", help=text)
    either = parser.add_mutually_exclusive_group()  # a column has a name only in a header
    text = "column of the values, as the header calls it (default: value)"
    either.add_argument("--value-column", metavar="NAME", help=text)
    text = "the first line is the value of a user, although it looks like a header"
    either.add_argument("--no-header", action="store_true", help=text)
    text = "column of the numbers of users (default: count)"
    parser.add_argument("--count-column", metavar="NAME", help=text)


def check_table_output(path: Path | None, source: Path | None = None) -> None:
    """Refuse an output that could not be written, before any work."""
    if path is None:
        return
    check_suffix(path, TABLE_SUFFIXES)
    if not is_csv(path):
        check_parquet(path)
    if source is not None and path.exists() and source.exists() and path.samefile(source):
        raise ValueError(f"--output {path} is the input itself; name another file.")
    check_writable(path)


def check_suffix(path: Path, suffixes: tuple[str, ...], option: str = "--output ") -> None:
    """Refuse a file whose name does not end in a known format."""
    if not path.name.lower().endswith(suffixes):
        raise ValueError(
            f"{option}{path}: the name must end in {', '.join(suffixes)}, which says the format."
        )


def read_key(path: Path | None) -> bytes | None:
    """Read the bytes of a key; the errors do not show them."""
    if path is None:
        return None
    key = read_regular(path, 1 << 20)
    if len(key) < 16:
        raise ValueError(
            f"--key-file {path}: a key has at least 16 bytes, got {len(key)}; draw one with "
            "`openssl rand -out FILE 32`."
        )
    return key


def say(text: str) -> None:
    """Print one line on stderr: something the user should know that is not the result."""
    print(f"sklearn-ldp: {printable(text)}", file=sys.stderr)
