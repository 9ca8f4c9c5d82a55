"""The command ``sklearn-ldp client``.

Write a module without dependencies, for browsers and Node 20, which contains the configuration of
one collection. The module exports privatize(value), which returns a report, and configuration,
which is posted with each report. Its declarations for TypeScript are written to the same folder.

The domain is a list of categories, or any text and whole number (--open, for OLH). With --open only
the server lists categories, with --oracle olh-mixing. With --max-items a value is a list of
categories.

With --epsilon-forever the module also exports repeated(storage, question), for users who are asked
again. It stores the memoization file of the question in localStorage, or in any object with
getItem and setItem.

----
privacy: each call of privatize in the module spends epsilon of its user. Random bits come from
crypto.getRandomValues; a runtime without this function is refused.

examples:
  sklearn-ldp client --oracle grr --categories domain.txt --epsilon 1 --round may \\
      --output client.mjs
  sklearn-ldp client --oracle olh --open --epsilon 2 --round may --output client.mjs
  sklearn-ldp client --oracle oue --self-test
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from shlex import quote
from typing import Any

from .._core.common.files import check_writable, make_folder, replacing
from ._arguments import add_shared, check_suffix, hashing_oracle, make_oracle, positive, say
from ._files import read_categories

_SELF_TEST_CATEGORIES = 100
_SELF_TEST_ROWS = 1000


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command ``client`` to its parser."""
    source = parser.add_argument_group("domain").add_mutually_exclusive_group()
    text = "the public domain: one category per line, or a .json file with a list of categories"
    source.add_argument("--categories", type=Path, metavar="FILE", help=text)
    text = "any text, whole number or missing answer, for OLH (olh-mixing on the server)"
    source.add_argument("--open", action="store_true", help=text)
    method = parser.add_argument_group("method")
    add_shared(method, "--epsilon", "--oracle", "--max-items")
    text = "budget of all reports of one value together; adds repeated(storage, question)"
    method.add_argument("--epsilon-forever", type=positive, metavar="E", help=text)
    text = "maximum budget of all values of a user together (default: no limit)"
    method.add_argument("--max-epsilon", type=positive, metavar="E", help=text)
    text = "one hash function for all reports of a user, see RepeatedClient"
    method.add_argument("--fixed-part", action="store_true", help=text)
    text = (
        "report: send a default value for an answer that is not listed (None, or the last category)"
    )
    method.add_argument("--missing", choices=("error", "report"), default="error", help=text)
    target = parser.add_argument_group("output")
    add_shared(target, "--output", help=".mjs; missing folders are created")
    add_shared(target, "--round")
    text = (
        "write a client and test vectors into a temporary folder instead, and print the command "
        f"that compares both (without a domain: {_SELF_TEST_CATEGORIES} categories)"
    )
    target.add_argument("--self-test", action="store_true", help=text)


def run(arguments: argparse.Namespace) -> None:
    """Write the JavaScript module. With --self-test, write a module with test cases instead."""
    from .._core.aggregation import clients

    path = arguments.output
    if path is None and not arguments.self_test:
        raise ValueError(
            "The command 'client' needs --output FILE.mjs, or --self-test. Pass one of them."
        )
    oracle = _oracle(arguments)
    names = ("epsilon_forever", "max_epsilon", "fixed_part", "missing")
    options = {name: getattr(arguments, name) for name in names}
    module = clients.client_module(oracle, collection_round=arguments.round, **options)
    if arguments.self_test:
        folder = Path(tempfile.mkdtemp(prefix="sklearn-ldp-"))
        vectors = clients.client_vectors(oracle, _SELF_TEST_ROWS)
        print(f"a client of {type(oracle).__name__}, and {_SELF_TEST_ROWS:,} vectors to compare:")
        print(f"node {quote(str(clients.write_self_test(folder, module, [vectors])))}")
        return
    check_suffix(path, (".mjs",))
    check_writable(path)
    make_folder(path)
    for target, text in {path: module, path.with_suffix(".d.mts"): clients.declarations()}.items():
        with replacing(target) as file:
            file.write(text.encode())
    forever = arguments.epsilon_forever
    more = f", or repeated(storage, question) {forever:g} for each value" if forever else ""
    say(f"{path}: a client of {type(oracle).__name__}; each report spends {oracle.epsilon:g}{more}")


def _oracle(arguments: Any) -> Any:
    if arguments.open:
        return hashing_oracle(arguments, "open")
    if arguments.categories is not None:
        return make_oracle(arguments, read_categories(arguments.categories), in_browsers=True)
    if arguments.self_test:
        return make_oracle(arguments, _SELF_TEST_CATEGORIES, in_browsers=True)
    raise ValueError(
        "The command 'client' needs --categories FILE. If the possible answers cannot be listed, "
        "pass --open instead."
    )
