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

    In local hashing, each client draws a hash function at random and sends it in the report. The
    hash function does not depend on the user's value. It is the public part of the report, here
    called part. Attackers gain most if they choose this function instead of drawing it. They cannot
    choose it if the collector computes it from a secret key, the name of the round and the user's
    token (an identifier of the user),

    .. math:: \\mathrm{part} = H(\\mathrm{key}, \\mathrm{round}, \\mathrm{token}),

    where H is HMAC-SHA-512 with rejection sampling. The parts have exactly the same distribution as
    the parts of honest reports. The client randomizes its value with ``oracle.privatize(values,
    parts=parts)``. The collector accepts a report only if it contains the part that belongs to the
    user's token, see `check_assigned`.

    Privacy: costs none. The mechanism is epsilon-LDP for every single part, which the tests prove
    by enumeration. So reports spend no more than epsilon, even if the collector assigns parts in
    bad faith. However, a report that is sent with its token can be linked to the token. As long as
    the key exists, the part of a report can also be linked to its token. Therefore check the
    reports on a server that has the tokens anyway (the login server, or a relay), pass on the
    reports without tokens, and delete the key when the round ends.

    Parameters
    ----------
    oracle : oracle or Protocol
        :class:`~sklearn_ldp.OLH`, :class:`~sklearn_ldp.BLH`, or any other oracle with a channel
        that has a `public_part`, such as a hash function. The oracle need not be fitted. With
        :class:`~sklearn_ldp.ColumnOracle`, the function assigns the column that each user reports.
    tokens : array-like of shape (n,)
        One text, bytes object or number per user, such as the number of an account or a device. The
        user must not be able to choose it, and it must stay the same within a round. Users who can
        get many tokens can choose among many hash functions.
    key : bytes
        At least 16 random bytes (``secrets.token_bytes(32)``); use a new key for each round. If you
        keep the key secret, the clients must request their parts from the collector. If you publish
        the key after all tokens were handed out, the clients can compute their parts themselves. Do
        not use the key that signs files.
    collection_round : str, default=""
        Name of the collection round.

    Returns
    -------
    ndarray of shape (n,)
        The part of each user, as int64.

    Raises
    ------
    TypeError
        If reports of the oracle have no public part, if `key` is not bytes, or if a token is not a
        text, a bytes object or a number.
    ValueError
        If the key is too short.

    See Also
    --------
    check_assigned : Check on the server that reports have the assigned parts.
    poisoning_gain : With ``attack="assigned"``, the remaining gain of fake users.
    sklearn_ldp.collection.SurveyClient : A client that reports the same column in every round.

    Notes
    -----
    If HMAC-SHA-512 behaves like a random function, every part has the same probability as in an
    honest report, and the parts of different users are independent. The computation is the same in
    all releases:

    1. The key of the round is HMAC(key, configuration). The configuration is the JSON (keys sorted,
       no spaces) of the oracle's name, `configuration` of the mechanism, the number of draws, and
       the round.
    2. The words of a token are the eight big-endian 64-bit words of
       HMAC(key of the round, counter || token), with a counter of one byte that starts from 0.
    3. The first word below the largest multiple of the number of possible draws is used. Its
       remainder modulo this number determines the part.

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
        Reports from the oracle's `privatize`.
    oracle : oracle or Protocol
        As for :func:`assigned_parts`, with declared categories.
    tokens : array-like of shape (n,)
        The token of each report's user.
    key : bytes
        As for :func:`assigned_parts`.
    collection_round : str, default=""
        Name of the collection round.

    Returns
    -------
    ndarray of shape (n,)
        True if the report is accepted. False if it has another hash function than the assigned one,
        or if an earlier report in this call has the same token.

    Raises
    ------
    TypeError
        As for :func:`assigned_parts`.
    ValueError
        If a report cannot come from the oracle, or if the number of tokens differs from the number
        of reports.

    See Also
    --------
    assigned_parts : Compute the assigned functions, with an example.
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
    """Return the protocol of an oracle, and the public part of its reports.

    Raise TypeError if the collector cannot assign this part.
    """
    if not hasattr(oracle, "protocol") or isinstance(oracle, type):
        raise TypeError(
            f"assigned_parts needs an oracle, got {oracle!r}. Pass an oracle such as OLH()."
        )
    protocol = oracle.protocol(collection_round)
    part = protocol.mechanism.public_part
    if part is None or part.privatize is None:
        raise TypeError(
            f"Reports of {protocol.name} contain no public part, such as a hash function, that a "
            "collector could assign. Use OLH or BLH, or a ColumnOracle in which each user "
            "reports one column."
        )
    return protocol, part


def _listed(tokens: Any) -> list:
    tokens = tokens.to_numpy() if hasattr(tokens, "to_numpy") else tokens
    listed = tokens.tolist() if isinstance(tokens, np.ndarray) else tokens
    if isinstance(listed, (str, bytes)) or not isinstance(listed, (list, tuple, range)):
        raise TypeError(
            f"tokens must be a list or an array of shape (n,), got {tokens!r}. Pass one token per "
            "user."
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
    """Return a pseudorandom integer from 0 to high - 1 for each text, without bias."""
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
