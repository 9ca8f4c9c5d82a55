"""Clients outside Python: a JavaScript module for one collection, and test vectors for it."""

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
    """Return a JavaScript module that randomizes values like the oracle.

    It exports ``privatize(value)`` and ``configuration``, runs in browsers and Node 20, and has no
    dependencies. Its reports have the written format, see :doc:`/user_guide/format`.

    Privacy: costs none. Each call of its ``privatize`` spends epsilon of the user.

    Parameters
    ----------
    oracle : oracle or Protocol
        GRR, SUE, OUE, OLH, BLH, HadamardResponse with one block, SubsetSelection, or ItemOracle.
        Clients of ItemOracle accept a list of items.
    collection_round : str, default=""
        Name of the collection.
    epsilon_forever : float, default=None
        If this is a number, the module also exports ``repeated(storage, question)``, which stores
        the memo of a :class:`RepeatedClient` in an object with ``getItem`` and ``setItem``.
    max_epsilon : float, default=None
        As for :class:`RepeatedClient`.
    fixed_part : bool, default=False
        As for :class:`RepeatedClient`.
    missing : {"error", "report"}, default="error"
        As for :class:`RepeatedClient`. In an open domain it applies to values without a canonical
        form.

    Returns
    -------
    str
        The code of the module.

    Raises
    ------
    ValueError
        If there is no client for the oracle or its categories, or a budget is not valid.

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
            "max_epsilon and fixed_part are only for clients with epsilon_forever. Pass "
            "epsilon_forever, or leave them out."
        )
    return _module(settings)


def _module(settings: dict[str, Any], kinds: set[str] | None = None) -> str:
    """Return the module with its settings, without the parts for other kinds of mechanisms."""
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
    """Return a client's mechanism; integers that JSON may round are decimal texts."""
    parameters = protocol.mechanism.client_parameters
    if parameters is None:
        raise ValueError(
            f"There is no client for {protocol.name} outside Python. Use {_NAMES}, for one column."
        )
    return {
        name: str(value) if name in _THRESHOLDS else value for name, value in parameters.items()
    }


def _categories(domain: Domain) -> list[Any] | None:
    if domain.is_open:
        return None
    if domain.size > _MOST_CATEGORIES:
        raise ValueError(
            f"A page would load {domain.size:,} categories, but the limit is {_MOST_CATEGORIES:,}. "
            'Use the open domain, OLH(categories="open", hash_family="mixing") or --open.'
        )
    categories = [None if is_missing(x) else x for x in domain.categories.tolist()]
    is_fine = all(
        x is None or type(x) is str or (type(x) is int and abs(x) <= _EXACT) for x in categories
    )
    if domain.edges is not None or not is_fine:
        raise ValueError(
            "A client outside Python accepts categories that are texts, integers below 2**53 or "
            f"None, got {domain!r:.100}. List the names of the categories."
        )
    return categories


def _memory(
    protocol: Protocol, forever: float, most: float | None, fixed_part: bool
) -> dict[str, Any]:
    """Return the additional parameters of a client with a memoization file."""
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
    """Return rows of random bits, a code, and the report that all clients must make of them."""
    # Ties and rejections are more frequent than with uniform bits. A row has the bytes in
    # hexadecimal digits, all of which are read, the code, and the report as clients post it.
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
    """Return the post of a client: the report of one user, as a function of code and random bits.

    coins: the bytes of the user's random bits.
    Returns: the integers of the report in their order. If a field has values from 2**53 on, its
    integers are decimal texts.
    code: the position of the user's value among the categories; its digest in an open domain.
    """
    report = protocol.mechanism.privatize(np.array([code]), coins)[0].tolist()
    are_large = [field.n_values > _EXACT + 1 for field in protocol.mechanism.report_fields]
    if not any(are_large):
        return report
    return [str(x) if is_large else x for x, is_large in zip(report, are_large, strict=True)]


class _TestCoins(ByteCoins):
    """Random bytes, an eighth of which are of a few given values."""

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
    """Write a client, vectors, and the script that compares them under Node.

    Returns: the script. Its exit code is 0 if all vectors agree, otherwise 1.
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
    """Return the declarations of a client for TypeScript."""
    return _resource("client.d.mts")


def whole_module() -> str:
    """Return the client for all kinds of mechanisms and no collection, for tests."""
    kinds = {"direct", "unary", "linear", "mixing", "hadamard", "subset", "items", "itemhash"}
    return _module({"version": VERSION, "configuration": {}, "mechanism": {}}, kinds)
