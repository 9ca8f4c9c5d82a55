"""Clients in JavaScript: a module that randomizes values for one collection, and its test cases."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from ..domains import Domain, word_digests
from ..domains.values import is_missing
from ..mechanisms import OracleOrProtocol, Protocol
from ..mechanisms.coins import ByteCoins
from ._memo import is_stood_in, survey_digest
from ._repeated_client import RepeatedClient, chains_of, most_values

#: The version of the written format that clients and vectors use.
VERSION = 1
_MOST_CATEGORIES = 100_000
_EXACT = (1 << 53) - 1  # JavaScript represents all integers up to this exactly
_NAMES = "GRR, SUE, OUE, OLH, BLH, HadamardResponse with one block, SubsetSelection and ItemOracle"
_THRESHOLDS = {"keep", "one", "zero", "inside"}
_SECTION = re.compile(r"^// \[([a-z ]+)\]\n", re.MULTILINE)


def client_module(
    oracle: OracleOrProtocol,
    *,
    collection_round: str = "",
    epsilon_forever: float | None = None,
    max_epsilon: float | None = None,
    fixed_part: bool = False,
    missing: str = "error",
) -> str:
    """Return the text of a JavaScript module that randomizes values like the oracle.

    The module exports ``privatize(value)`` and ``configuration``, runs in browsers and Node 20, and
    has no dependencies. :doc:`/user_guide/format` describes the format of its reports.

    Privacy: this function costs none. Each call of the module's ``privatize`` spends epsilon of the
    user.

    Parameters
    ----------
    oracle : oracle or Protocol
        GRR, SUE, OUE, OLH, BLH, HadamardResponse with one block, SubsetSelection, or ItemOracle.
        Clients of ItemOracle accept a list of items.
    collection_round : str, default=""
        Name of the collection.
    epsilon_forever : float, default=None
        Total budget of all reports of one value, as for :class:`RepeatedClient`. If it is a number,
        the module also exports ``repeated(storage, question)``, which is such a client in
        JavaScript. It stores the state of the user in `storage`, an object with the methods
        ``getItem`` and ``setItem``.
    max_epsilon : float, default=None
        As for :class:`RepeatedClient`.
    fixed_part : bool, default=False
        As for :class:`RepeatedClient`.
    missing : {"error", "report"}, default="error"
        As for :class:`RepeatedClient`. In an open domain every text is a category, so only answers
        that have no canonical form, such as a missing answer, use the default value.

    Returns
    -------
    str
        The code of the module.

    Raises
    ------
    ValueError
        If the module does not support the oracle or the type of its categories, or if
        `epsilon_forever` or `max_epsilon` is not valid.

    Examples
    --------
    >>> from sklearn_ldp import GRR
    >>> from sklearn_ldp.collection import client_module
    >>> module = client_module(GRR(1.0, categories=["yes", "no"]), collection_round="may")
    >>> "export function privatize(value)" in module
    True
    """
    protocol = oracle.protocol(collection_round)
    settings: dict[str, Any] = {
        "version": VERSION,
        "configuration": protocol.configuration,
        "mechanism": client_mechanism(protocol),
        "categories": _categories(protocol.domain),
    }
    if is_stood_in(missing, "client_module"):
        domain = protocol.domain
        if domain.shares_overlap:
            settings["stand_in_set"] = []
        else:
            settings["stand_in"] = 0 if domain.is_open else int(domain.encode([domain.stand_in])[0])
    if epsilon_forever is not None:
        settings |= _memory(protocol, epsilon_forever, max_epsilon, fixed_part)
    elif max_epsilon is not None or fixed_part:
        raise ValueError(
            "max_epsilon and fixed_part have no effect without epsilon_forever. Pass "
            "epsilon_forever= as well, or leave out max_epsilon and fixed_part."
        )
    return _module(settings)


def _module(settings: dict[str, Any], kinds: set[str] | None = None) -> str:
    """Return the text of the JavaScript module with its settings.

    Sections that only other mechanisms need are left out. `kinds` are the names of the mechanisms
    to include; by default the mechanism in the settings.
    """
    used = kinds or {settings["mechanism"]["kind"]}
    text = _resource("client.mjs")
    if "memo" in settings:
        used = used | {"repeated"}
        text = f"{text}\n{_resource('repeated.mjs')}"
        text = text.replace("\n// -- the same", "\n// [repeated]\n// -- the same", 1)
    first, *rest = _SECTION.split(text)
    sections = zip(rest[::2], rest[1::2], strict=True)
    kept = [first, *(body for names, body in sections if used & {*names.split()})]
    # A page may contain the module, so nothing in it may look like the page's own marks.
    content = json.dumps(settings).replace("<", "\\u003c")
    return "".join(kept).replace("const SETTINGS = {};", f"const SETTINGS = {content};", 1)


def _resource(name: str) -> str:
    return (files("sklearn_ldp") / "clients" / name).read_text(encoding="utf-8")


def client_mechanism(protocol: Protocol) -> dict[str, Any]:
    """Return the parameters of the mechanism for a client, as a dict for JSON.

    Integers that JavaScript may round are decimal texts.
    """
    parameters = protocol.mechanism.client_parameters
    if parameters is None:
        raise ValueError(
            f"There is no client outside Python for {protocol.name}. For a single column, use "
            f"{_NAMES}."
        )
    return {
        name: str(value) if name in _THRESHOLDS else value for name, value in parameters.items()
    }


def _categories(domain: Domain) -> list[Any] | None:
    if domain.is_open:
        return None
    if domain.size > _MOST_CATEGORIES:
        raise ValueError(
            f"A page would load {domain.size:,} categories, but the limit is "
            f'{_MOST_CATEGORIES:,}. Use the open domain: OLH(categories="open", '
            'hash_family="mixing"), or the option --open of the command line.'
        )
    categories = [None if is_missing(x) else x for x in domain.categories.tolist()]
    is_fine = all(
        x is None or type(x) is str or (type(x) is int and abs(x) <= _EXACT) for x in categories
    )
    if domain.edges is not None or not is_fine:
        raise ValueError(
            "A client outside Python accepts only categories that are texts, integers of at most "
            f"2**53 - 1 or None, got {domain!r:.100}. List the names of the categories as texts."
        )
    return categories


def _memory(
    protocol: Protocol, forever: float, most: float | None, fixed_part: bool
) -> dict[str, Any]:
    """Return the settings that only a client for repeated collections needs."""
    (chain,) = chains_of(protocol, forever, fixed_part)
    n_values = most_values(most, forever)
    field, *more = protocol.mechanism.report_fields
    settings: dict[str, Any] = {"epsilon_forever": float(forever), "fixed_part": bool(fixed_part)}
    memo = {
        **settings,
        "format": RepeatedClient._form,
        "survey": survey_digest(protocol, **settings),
        "most_values": None if most is None else n_values,
        "is_row": bool(more) or field.width is not None,
    }
    names = ("keep_against", "keep_for", "share")
    return {"memo": memo, "chain": {name: str(getattr(chain, name)) for name in names}}


# -- vectors: (random bits, code, report) --------------------------------------------------------
def client_vectors(oracle: OracleOrProtocol, n: int, seed: int = 0) -> dict[str, Any]:
    """Return test cases for clients: random bits, a value, and the report that must result.

    Each row contains the random bytes as hexadecimal digits, the category code (or digest) of the
    value, and the report in the form that clients post.
    """
    # Ties and rejections are more frequent than with uniform bits. A client reads all the bytes.
    protocol = oracle.protocol()
    rng = np.random.default_rng(seed)
    mechanism: Any = client_mechanism(protocol)
    domain: Any = protocol.domain
    is_hashed = mechanism["kind"] in ("mixing", "itemhash")
    is_list_of_digests = is_hashed and not domain.is_open
    digests = np.maximum(word_digests(domain), 1) if is_list_of_digests else np.empty(0)
    edges = [int(mechanism[name]) >> 56 for name in sorted(_THRESHOLDS & mechanism.keys())]
    rows = []
    for _ in range(n):
        size: Any = rng.integers(domain.max_items + 3) if domain.shares_overlap else None
        code: Any
        if domain.is_open:
            code = rng.integers(2**64, size=size, dtype=np.uint64)
        elif size is None:
            code = rng.integers(domain.size)
        else:
            code = 1 + rng.permutation(domain.size)[:size]
        shown = digests[code - (size is not None)] if is_list_of_digests else code
        shown = shown.astype(str).tolist() if is_hashed else shown.tolist()
        coins = _TestCoins(rng, [*edges, 255])
        report = one_report(protocol, code, coins)
        rows.append([coins.drawn.hex(), shown, report])
    return {"version": VERSION, "mechanism": mechanism, "rows": rows}


def one_report(protocol: Protocol, code: Any, coins: ByteCoins) -> Any:
    """Return the report of one user, in the form in which a client posts it.

    code: the position of the user's value among the categories; in an open domain its digest.
    coins: the random bits of the user.

    Returns: the integer of the report, or a list of its integers. If a field can have values of
    2**53 or more, its integers are written as decimal texts.
    """
    report = protocol.mechanism.privatize(np.array([code]), coins)[0].tolist()
    are_large = [field.n_values > _EXACT + 1 for field in protocol.mechanism.report_fields]
    if not any(are_large):
        return report
    return [str(x) if is_large else x for x, is_large in zip(report, are_large, strict=True)]


class _TestCoins(ByteCoins):
    """Source of random bytes for tests.

    One eighth of the bytes are drawn from a few listed values.
    """

    def __init__(self, rng: np.random.Generator, values: list[int]) -> None:
        super().__init__(b"")
        self._rng = rng
        self._values = np.array(values, dtype=np.uint8)
        self.drawn = b""

    def bytes(self, n):
        drawn = self._rng.integers(256, size=n, dtype=np.uint8)
        is_given = self._rng.random(n) < 0.125
        drawn[is_given] = self._rng.choice(self._values, is_given.sum())
        self.drawn += drawn.tobytes()
        return drawn


def write_self_test(folder: Path, module: str, vectors: list[dict[str, Any]]) -> Path:
    """Write a module, its test cases, and a script that runs the test cases under Node.

    Return the path of the script. Its exit code is 0 if all reports are equal to the expected
    reports, otherwise 1.
    """
    texts = {
        "client.mjs": f"{module}\nexport {{ KINDS, posted }};\n",
        "vectors.json": json.dumps(vectors),
        "self_test.mjs": _resource("self_test.mjs"),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "self_test.mjs"


def declarations() -> str:
    """Return the TypeScript declarations of the JavaScript module."""
    return _resource("client.d.mts")


def whole_module() -> str:
    """Return the text of a JavaScript module for all mechanisms and no collection, for tests."""
    kinds = {"direct", "unary", "linear", "mixing", "hadamard", "subset", "items", "itemhash"}
    return _module({"version": VERSION, "configuration": {}, "mechanism": {}}, kinds)
