"""Hash functions that the collector assigns to users, so that clients cannot choose them."""

from __future__ import annotations

import hmac
import json
from typing import Any

import numpy as np

from .._core.aggregation.containers import as_chunks
from .._core.common.typing import Column
from .._core.domains.canonical import canonical
from .._core.mechanisms import OracleOrProtocol, Protocol
from ..oracles.channels import PublicPart

_KEY_BYTES = 16  # minimum length
_WORDS = 8  # 64-bit words per digest: a second digest is hardly ever needed


def assigned_parts(
    oracle: OracleOrProtocol, tokens: Column, key: bytes, *, collection_round: str = ""
) -> np.ndarray:
    """Return the hash functions that a collector assigns to users, derived from their tokens.

    In local hashing, each user draws a hash function and sends it in the report. It is the public
    part of the report, here called part. Attackers gain most if they choose this function instead
    of drawing it. They cannot choose it if the collector computes it from a secret key, the name
    of the round and the user's token (an identifier of the user),

    .. math:: \\mathrm{part} = H(\\mathrm{key}, \\mathrm{round}, \\mathrm{token}),

    where H is HMAC-SHA-512. Rejection sampling gives the parts exactly the same distribution as in
    honest reports. The client randomizes its value with ``oracle.privatize(values, parts=parts)``,
    and the collector accepts a report if its public part is the part of the user's token
    (`check_assigned`).

    Privacy: costs none. The mechanism is epsilon-LDP for every single part, which the tests prove
    by enumeration, so even a collector who assigns parts in bad faith learns no more than epsilon.
    But a report that is sent with its token can be linked to the token, and so can its part as long
    as the key exists. Therefore check the reports at a place that has the tokens anyway (the login
    server, or a relay), pass on the reports without tokens, and delete the key when the round ends.

    Parameters
    ----------
    oracle : oracle or Protocol
        :class:`~sklearn_ldp.OLH`, :class:`~sklearn_ldp.BLH`, or any other oracle with a channel
        that has a `public_part`, such as a hash function. The oracle need not be fitted. With
        :class:`~sklearn_ldp.ColumnOracle`, the function assigns the column that each user reports.
    tokens : array-like of shape (n,)
        One text, bytes or number per user, which the user cannot choose and which stays the same
        within a round: the number of an account or of a device, or a place in a list. Users who can
        get any number of tokens can effectively choose their functions.
    key : bytes
        At least 16 random bytes, new for each round (``secrets.token_bytes(32)``). If the key stays
        secret, clients request their parts from the collector. If the key is published after all
        tokens have been handed out, clients compute their parts themselves. Do not reuse the key
        that signs files.
    collection_round : str, default=""
        Name of the round of collection.

    Returns
    -------
    ndarray of shape (n,)
        The part of each user, as int64.

    Raises
    ------
    TypeError
        If reports of the mechanism have no public part, if `key` is not bytes, or if a token is not
        a text, bytes or number.
    ValueError
        If the key is too short.

    See Also
    --------
    check_assigned : Checks on the server that reports have the assigned parts.
    poisoning_gain : With ``attack="assigned"``, the remaining gain of fake users.
    sklearn_ldp.collection.SurveyClient : A client that reports the same column in every round.

    Notes
    -----
    Every part has the same probability as in an honest report, and parts are independent of each
    other, if HMAC-SHA-512 behaves like a random function. The computation belongs to the
    protocol and does not change between releases:

    1. The key of the round is HMAC(key, configuration). The configuration is the JSON (keys sorted,
       no spaces) of the oracle's name, `configuration` of the mechanism, the number of draws, and
       the round.
    2. The words of a token are the eight big-endian 64-bit words of
       HMAC(key of the round, counter || token), with a counter of one byte that starts from 0.
    3. The first word below the largest multiple of the number of draws is reduced to the part.

    Examples
    --------
    >>> from sklearn_ldp import OLH
    >>> from sklearn_ldp.robustness import assigned_parts, check_assigned
    >>> oracle = OLH(1.0, categories=["yes", "no"], random_state=0)
    >>> key, tokens = bytes(range(32)), ["user 17", "user 18", "user 19"]
    >>> parts = assigned_parts(oracle, tokens, key)
    >>> reports = oracle.privatize(["yes", "no", "no"], parts=parts)
    >>> reports[2] = reports[0]  # user 19 prefers another function
    >>> check_assigned(reports, oracle, tokens, key)
    array([ True,  True, False])
    """
    protocol, part = _assignable(oracle, collection_round)
    round_key = _round_key(protocol, part, key)
    texts = [canonical(token) for token in _listed(tokens)]
    return part.draw(lambda high: _uniform(texts, round_key, high))


def check_assigned(
    reports: Any,
    oracle: OracleOrProtocol,
    tokens: Column,
    key: bytes,
    *,
    collection_round: str = "",
) -> np.ndarray:
    """Return, for each report, whether it contains the hash function assigned to its user.

    Privacy: costs none; :func:`assigned_parts` explains how tokens link reports to users.

    Parameters
    ----------
    reports : array-like, Arrow stream or iterator of such chunks
        Reports as returned by the oracle's `privatize`.
    oracle : oracle or Protocol
        As for :func:`assigned_parts`, with declared categories.
    tokens : array-like of shape (n,)
        The token of each report's user.
    key : bytes
        As for :func:`assigned_parts`.
    collection_round : str, default=""
        Name of the round of collection.

    Returns
    -------
    ndarray of shape (n,)
        Booleans: True for a report to accept; False if the report has another hash function, or if
        an earlier report in this call has the same token.

    Raises
    ------
    TypeError
        As for :func:`assigned_parts`.
    ValueError
        If a report cannot come from the oracle, or the numbers of tokens and reports differ.

    See Also
    --------
    assigned_parts : Computes the assigned functions, with an example.
    hash_function_test : A test of hash functions that clients draw themselves.
    """
    protocol, part = _assignable(oracle, collection_round)
    checked = np.concatenate([protocol.check(chunk) for chunk in as_chunks(reports, protocol)])
    tokens = _listed(tokens)
    if len(tokens) != len(checked):
        raise ValueError(
            f"check_assigned got {len(checked)} reports and {len(tokens)} tokens. Pass the token "
            "of each report's user, in the order of the reports."
        )
    is_assigned = part.of_reports(checked) == assigned_parts(protocol, tokens, key)
    first: dict[bytes, int] = {}
    is_first = [first.setdefault(canonical(token), i) == i for i, token in enumerate(tokens)]
    return is_assigned & np.array(is_first, dtype=bool)


def _assignable(oracle: Any, collection_round: str) -> tuple[Protocol, PublicPart]:
    """Return the oracle's protocol, and the part of a report that the collector can assign."""
    if not hasattr(oracle, "protocol") or isinstance(oracle, type):
        raise TypeError(
            f"assigned_parts needs an oracle, got {oracle!r}. Pass an oracle such as OLH()."
        )
    protocol = oracle.protocol(collection_round)
    part = protocol.mechanism.public_part
    if part is None or part.privatize is None:
        raise TypeError(
            f"Reports of {protocol.name} contain no public part, such as a hash function, that "
            "could be assigned. Use OLH or BLH, or a ColumnOracle that asks each user "
            "for one column."
        )
    return protocol, part


def _listed(tokens: Any) -> list:
    tokens = tokens.to_numpy() if hasattr(tokens, "to_numpy") else tokens
    listed = tokens.tolist() if isinstance(tokens, np.ndarray) else tokens
    if isinstance(listed, (str, bytes)) or not isinstance(listed, (list, tuple, range)):
        raise TypeError(
            f"tokens must be a list or an array of shape (n,), got {tokens!r}. Pass one per user."
        )
    return list(listed)


def _round_key(protocol: Protocol, part: PublicPart, key: bytes) -> bytes:
    if not isinstance(key, (bytes, bytearray)):
        raise TypeError(
            f"Argument key must be bytes, got {type(key).__name__}. Pass secrets.token_bytes(32)."
        )
    if len(key) < _KEY_BYTES:
        raise ValueError(
            f"Argument key must have at least {_KEY_BYTES} bytes, so that it cannot be guessed, "
            f"got {len(key)} bytes. Pass secrets.token_bytes(32)."
        )
    configuration = {
        "oracle": protocol.name,
        "mechanism": protocol.mechanism.configuration,
        "n_draws": part.n_values if part.n_draws is None else part.n_draws,
        "collection_round": protocol.collection_round,
    }
    text = json.dumps(configuration, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hmac.digest(bytes(key), b"sklearn_ldp part 1\n" + text.encode(), "sha512")


def _uniform(texts: list[bytes], key: bytes, high: int) -> np.ndarray:
    """Map each text to a number below `high`; all numbers have the same probability."""
    limit = (1 << 64) // high * high - 1  # the largest word that is accepted
    draws = np.empty(len(texts), dtype=np.int64)
    left = np.arange(len(texts))
    counter = 0
    # Ends: with probability 1: each word is accepted with a probability above 1/2.
    while left.size:
        prefix = bytes([counter])
        digests = b"".join(hmac.digest(key, prefix + texts[i], "sha512") for i in left.tolist())
        words = np.frombuffer(digests, dtype=">u8").reshape(-1, _WORDS)
        counts = words <= limit
        first = np.argmax(counts, axis=1)
        chosen = words[np.arange(len(left)), first].astype(np.uint64)
        draws[left] = (chosen % np.uint64(high)).astype(np.int64)
        left = left[~counts.any(axis=1)]
        counter = counter + 1
    return draws
