"""Arguments of the commands: their types, shared options, and the objects that they describe."""

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

from .._core.common.files import check_writable, read_regular
from .._core.common.lazy import is_concrete
from .._core.common.text import printable
from ._files import TABLE_SUFFIXES, check_parquet, is_csv, read_categories, read_domains

if TYPE_CHECKING:
    from ..oracles import BaseOracle


# -- oracles, post-processors and searches, by name ----------------------------------------------
def kebab(name: str) -> str:
    """Return a class name in lower case with hyphens, for example ``norm-sub`` for ``NormSub``."""
    return re.sub("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


def _listed(names: str) -> dict[str, str]:
    return {kebab(name): name for name in names.split()}


# The class of each name. The names are listed, so that options and help texts import no class.
# Oracles for queries or sets are missing, because no option can specify queries or sets.
_ORACLES = _listed(
    "BLH GRR OLH OUE SUE HadamardResponse ProjectiveGeometryResponse SubsetSelection"
)
# The candidates of the searches come first. Others may need more than an estimate and its noise.
# They then raise an error.
POSTPROCESSORS = _listed(
    "Base Norm BasePos PostPos BaseCut NormSub NormCut NormMul NormHyb MLEApx Power PowerNS "
    "EmpiricalBayes CLS NPMLE Calibrate ExactMLE MonotoneCDF Smooth SmoothMLE Trend"
)
SEARCHES = _listed("SyntheticSearch SyntheticStack HeldOutSearch")
_ONLY_IN_PYTHON = ("key-value-oracle", "local-mean", "marginal-oracle", "design-oracle")
_NAMED = (*_ORACLES, "range-oracle")


def all_oracles() -> dict[str, type[BaseOracle]]:
    """Return a dict of the oracles for lists of categories, such as ``{"olh": OLH, ..}``."""
    return {name: getattr(ldp.oracles, cls) for name, cls in _ORACLES.items()}


def named_oracles() -> dict[str, type[BaseOracle]]:
    """Return a dict of the oracle classes that ``--oracle`` accepts.

    In addition to `all_oracles`, it contains RangeOracle, for bins of numbers.
    """
    return {**all_oracles(), "range-oracle": ldp.RangeOracle}


def oracle_class(name: str) -> Callable[..., BaseOracle]:
    """Return the oracle class for a value of ``--oracle``."""
    # name: a key of `named_oracles` or the name of its class, "olh-mixing", or
    # `package.module:ClassName` of any other subclass of BaseOracle that can be imported.
    classes: dict[str, Callable[..., BaseOracle]] = {**named_oracles()}
    classes["olh-mixing"] = partial(ldp.oracles.OLH, hash_family="mixing")
    module, colon, attribute = name.partition(":")
    if not colon:
        other = "; for an oracle of another package use package.module:ClassName"
        return classes[spelled(name, classes, other)]
    try:
        result = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a foreign module may raise any exception
        raise argparse.ArgumentTypeError(
            f"cannot import {name!r} ({type(error).__name__}: {error}). Pass "
            "package.module:ClassName of an oracle that Python can import here"
        ) from error
    if not is_concrete(result, ldp.oracles.BaseOracle):
        raise argparse.ArgumentTypeError(
            f"{name!r} is {result!r}, which is not a subclass of sklearn_ldp.oracles.BaseOracle. "
            "Pass the name of such a class"
        )
    return result


def oracle_name(name: str) -> str:
    """Check a value of ``--oracle``, and return the name of the oracle for tables.

    This is the argparse type of the option.
    """
    if ":" in name:
        oracle_class(name)
        return name
    return spelled(name, [*_NAMED, "olh-mixing"])


def spelled(name: str, known: Iterable[str], other: str = "") -> str:
    """Return the known name that equals `name` if case and hyphens are ignored.

    Otherwise raise an error, which ends with `other`.
    """
    plain = {_plain(listed): listed for listed in known}
    if _plain(name) in plain:
        return plain[_plain(name)]
    close = get_close_matches(_plain(name), plain, 1)
    meant = "".join(f", did you mean {plain[match]!r}?" for match in close)
    choices = ", ".join(map(repr, plain.values()))
    text = f"invalid choice: {name!r}{meant} (choose from {choices}){other}"
    raise argparse.ArgumentTypeError(text)


def _plain(name: str) -> str:
    return re.sub("[-_ ]", "", name).casefold()


def make_oracle(arguments: Any, categories: Any, *, in_browsers: bool = False) -> BaseOracle:
    """Return the oracle that ``--oracle`` and ``--epsilon`` select, without a seed.

    Without ``--oracle``, return the most accurate oracle. `in_browsers` restricts it to oracles
    with a JavaScript client.
    """
    if max_items := getattr(arguments, "max_items", None):
        if arguments.oracle is not None:
            raise ValueError(
                "--oracle cannot be combined with --max-items, because only one oracle supports "
                "sets of items. Leave out --oracle."
            )
        method = "hash" if getattr(arguments, "is_hashed", False) else "auto"
        return ldp.ItemOracle(
            arguments.epsilon, categories=categories, max_items=max_items, method=method
        )
    is_grid = getattr(categories, "grid_ends", None) is not None
    if arguments.oracle is None and is_grid and not in_browsers:
        return ldp.RangeOracle(arguments.epsilon, categories=categories)
    if arguments.oracle is None:
        candidates: Any = None
        if in_browsers:
            candidates = [ldp.oracles.GRR(), ldp.oracles.SubsetSelection(), ldp.oracles.OLH()]
        return ldp.oracles.best_oracle(arguments.epsilon, categories, candidates=candidates)
    return oracle_class(arguments.oracle)(arguments.epsilon, categories=categories)


def has_domain(arguments: Any) -> bool:
    """Return whether --categories, --domains or --strings specifies the public domain."""
    domains = (arguments.categories, arguments.domains, arguments.strings)
    return any(domain is not None for domain in domains)


def declared_oracle(arguments: Any) -> BaseOracle | ldp.ColumnOracle | ldp.oracles.StringOracle:
    """Return the oracle for the domain of ``--categories``, ``--domains`` or ``--strings``."""
    if arguments.strings is not None:
        if arguments.oracle is not None:
            raise ValueError(
                "--oracle cannot be combined with --strings, because it needs a list of "
                "categories. Leave out --oracle."
            )
        return ldp.oracles.StringOracle(
            arguments.epsilon,
            alphabet=arguments.strings,
            max_length=arguments.max_length,
            n_found=arguments.n_found,
            expected_n_users=arguments.expected_users,
        )
    if arguments.domains is not None:
        oracle: Any = "best" if arguments.oracle is None else oracle_class(arguments.oracle)()
        domains = read_domains(arguments.domains)
        return ldp.ColumnOracle(arguments.epsilon, domains=domains, oracle=oracle)
    domain = ldp.Domain.of(read_categories(arguments.categories), "--categories")
    return make_oracle(arguments, domain)


def hashing_oracle(arguments: Any, categories: Any) -> BaseOracle:
    """Return the oracle for ``--open``.

    `categories` is "open" on clients, and the list of categories on the server.
    """
    if arguments.oracle not in (None, "olh", "olh-mixing"):
        raise ValueError(
            f"--open works only with --oracle olh, got --oracle {arguments.oracle}. Pass --oracle "
            "olh, or leave out --oracle."
        )
    if m := arguments.max_items:
        return ldp.ItemOracle(arguments.epsilon, categories=categories, max_items=m, method="hash")
    return ldp.OLH(arguments.epsilon, categories=categories, hash_family="mixing")


def adopt(arguments: Any, configuration: Mapping[str, Any] | None) -> None:
    """Set oracle, epsilon and round from the configuration of reports, unless options set them."""
    # configuration: None if it cannot be read. It is a claim of the senders. Reports that do not
    # fit the resulting oracle are refused as usual.
    claimed = configuration or {}
    options = _options_of(claimed)
    if arguments.domains is not None or arguments.strings is not None:
        options.pop("oracle", None)  # the domains determine the survey
    for name, value in options.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    oracle = claimed.get("oracle")
    if isinstance(oracle, str) and kebab(oracle) in _ONLY_IN_PYTHON:
        raise ValueError(
            f"The command line does not support reports of {printable(oracle)}. Use "
            "`sklearn_ldp.collection.aggregate` or `Aggregator.load` in Python."
        )
    max_items = claimed.get("max_items")
    has_items = oracle == "ItemOracle" and arguments.oracle is None and isinstance(max_items, int)
    arguments.max_items = max_items if has_items else None
    arguments.is_hashed = "hash_range" in claimed
    if arguments.epsilon is None:
        arguments.epsilon = 1.0
    arguments.round = arguments.round or ""


def as_options(configuration: Mapping[str, Any]) -> str:
    """Return the command-line options that match a configuration, such as ``--oracle grr``."""
    options = _options_of(configuration).items()
    return " ".join(
        f"--{name} {quote(printable(str(value)))}" for name, value in options if value != ""
    )


def _options_of(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the oracle, epsilon and round in a configuration, as far as they are valid options."""
    options = dict[str, Any]()
    names = {_plain(name): name for name in _NAMED}
    oracle = configuration.get("oracle")
    if isinstance(oracle, str) and _plain(kebab(oracle)) in names:
        is_mixing = configuration.get("hash_family") == "mixing"
        options["oracle"] = names[_plain(kebab(oracle))] + "-mixing" * is_mixing
    epsilon = configuration.get("epsilon")
    if isinstance(epsilon, float) and 0 < epsilon < math.inf:
        options["epsilon"] = epsilon
    collection_round = configuration.get("collection_round")
    if isinstance(collection_round, str):
        options["round"] = collection_round
    return options


# -- options ------------------------------------------------------------------------------------
def _number(kind: type, expectation: str, is_fine: Callable[[Any], bool]) -> Callable[[str], Any]:
    """Return an argparse type for numbers.

    It accepts numbers for which `is_fine` is true, and its errors contain `expectation`.
    """

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
    """Return the whole number in a text such as 1e6.

    Return None if the text is not a whole number.
    """
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
    """Return the number of seconds in a text. For "never", return infinity."""
    return math.inf if text == "never" else patience(text)


#: The names for ``--oracle``, as ``--help`` shows them.
ORACLE_NAMES = (
    f"{', '.join(_NAMED)}, olh-mixing for clients without a list of categories "
    "(`client --open`), or package.module:ClassName for another oracle"
)


def _option(type: Any, metavar: str, help: str, default: Any = None) -> dict[str, Any]:
    """Return the keyword arguments of `add_argument` for an option."""
    return {"type": type, "metavar": metavar, "help": help, "default": default}


_SHARED = {
    "--epsilon": _option(positive, "E", "privacy budget of one report, > 0 (default: 1)", 1.0),
    "--oracle": _option(
        oracle_name,
        "NAME",
        f"how users randomize: {ORACLE_NAMES} (default: sklearn_ldp.best_oracle, the most accurate "
        "oracle for epsilon and the domain; with --domains for each column)",
    ),
    "--domains": _option(
        Path,
        "FILE",
        "instead of --categories, for several columns of which each user is asked for one: JSON "
        'with the public domain of each, {"sex": ["F", "M", null], "visits": 10, "age": {"bins": '
        "[18, 65]}}; an integer is a number of categories, from 0; null is a missing answer (an "
        "empty cell); and bins may have bounds, clip, integers, labels, missing and scale",
    ),
    "--max-items": _option(
        count,
        "N",
        "an answer is a set of categories, and a report uses up to N of them (ItemOracle)",
    ),
    "--round": _option(
        None, "NAME", "name of the collection: reports of one round are not added to another", ""
    ),
    "--seed": _option(
        seed, "N", "a repeatable simulation without privacy (default: secure random bits)"
    ),
    "--repeats": _option(
        count, "N", "number of simulated collections for the average error (default: 30)", 30
    ),
    "--jobs": _option(
        jobs, "N", "threads; the result does not depend on it (default: -1, all cores)", -1
    ),
    "--key-file": _option(
        Path,
        "FILE",
        "the key of the collection, all bytes of this file (at least 16): reports and checkpoints "
        "are signed with it, and files without this signature are refused",
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
    """Add options that several commands have in common.

    `changes` replaces keyword arguments of all these options.
    """
    for name in names:
        parser.add_argument(name, **{**_SHARED[name], **changes})


def add_domain_options(
    parser: Any,
    *,
    required: bool = True,
    help: str = "the public domain, the same for clients and server: one category per line, or a "
    '.json file with the domain of a column as in --domains, such as ["yes", "no", null], in which '
    "null is a missing answer, or with the bins of two columns of "
    'numbers, {"grid": {"lon": {"bins": 16, "bounds": [8, 13]}, "lat": ..}}',
) -> None:
    """Add the options that specify the public domain of one column or of several columns."""
    either = parser.add_mutually_exclusive_group(required=required)
    either.add_argument("--categories", type=Path, metavar="FILE", help=help)
    add_shared(either, "--domains")
    text = (
        "instead of --categories, for strings that cannot be listed: the alphabet of the "
        "strings, such as abcdefghijklmnopqrstuvwxyz"
    )
    either.add_argument("--strings", metavar="LETTERS", help=text)
    for option, default, text in (
        ("--max-length", 20, "with --strings, maximum length; longer strings are cut"),
        ("--n-found", 32, "with --strings, number of strings to find"),
        ("--expected-users", 1_000_000, "with --strings, expected number of users"),
    ):
        parser.add_argument(
            option, type=count, default=default, metavar="N", help=f"{text} (default: {default})"
        )


def add_value_options(parser: Any) -> None:
    """Add the options that describe where a file contains the users' values."""
    text = "content of FILE (default: auto, a histogram if it has both columns)"
    kinds = ["auto", "values", "histogram"]
    parser.add_argument("--input-kind", choices=kinds, default="auto", help=text)
    either = parser.add_mutually_exclusive_group()  # a column has a name only in a header
    text = "column of the values in the header (default: value)"
    either.add_argument("--value-column", metavar="NAME", help=text)
    text = "the first line is a value of a user, even if it looks like a header"
    either.add_argument("--no-header", action="store_true", help=text)
    text = "column of the numbers of users (default: count)"
    parser.add_argument("--count-column", metavar="NAME", help=text)


def check_table_output(path: Path | None, source: Path | None = None) -> None:
    """Raise an error if the table cannot be written to `path`.

    Commands call it before any work. `source` is the input file, which must not be replaced.
    """
    if path is None:
        return
    check_suffix(path, TABLE_SUFFIXES)
    if not is_csv(path):
        check_parquet(path)
    if source is not None and path.exists() and source.exists() and path.samefile(source):
        raise ValueError(f"--output {path} is also the input file. Pass another file name.")
    check_writable(path)


def check_suffix(path: Path, suffixes: tuple[str, ...], option: str = "--output ") -> None:
    """Raise ValueError unless the name of the file has one of the suffixes.

    `option` is the text before the path in the error.
    """
    if not path.name.lower().endswith(suffixes):
        raise ValueError(
            f"{option}{path}: the name must end in {', '.join(suffixes)}, because the suffix "
            "selects the format. Pass another file name."
        )


def read_key(path: Path | None) -> bytes | None:
    """Return the key in a file, or None if there is no file. The errors do not show the key."""
    if path is None:
        return None
    key = read_regular(path, 1 << 20)
    if len(key) < 16:
        raise ValueError(
            f"--key-file {path}: a key needs at least 16 bytes, got {len(key)} bytes. Create a "
            "key with `openssl rand -out FILE 32`."
        )
    return key


def say(text: str) -> None:
    """Print a line on standard error, for messages that are not part of the result."""
    print(f"sklearn-ldp: {printable(text)}", file=sys.stderr)
