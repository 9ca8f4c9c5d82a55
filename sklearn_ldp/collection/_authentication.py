"""Tags that only those who know a key can make (HMAC-SHA-256, RFC 2104)."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

LEAST_BYTES = 16


class Key:
    """The secret of those who may add to a collection; it shows itself nowhere.

    Parameters
    ----------
    secret : bytes
        At least 16 bytes.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes):
        self._secret = secret

    def __repr__(self) -> str:
        return "Key(...)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and hmac.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(Key)  # not of the secret

    def tag(self, kind: str, content: bytes) -> str:
        """Return the tag of some content, as 64 hexadecimal digits.

        Parameters
        ----------
        kind : str
            What the content is. A tag of one kind of content is worth nothing for another.
        content : bytes
            What is signed.
        """
        message = b"sklearn_ldp " + kind.encode() + b"\0" + content
        return hmac.new(self._secret, message, hashlib.sha256).hexdigest()

    def has_made(self, tag: Any, kind: str, content: bytes) -> bool:
        """Whether a tag is that of the content."""
        if not isinstance(tag, str) or not tag.isascii():
            return False
        return hmac.compare_digest(tag, self.tag(kind, content))


def as_key(key: Any) -> Key | None:
    """Return the key in bytes; the errors do not show it.

    Raises
    ------
    TypeError
        If it is neither bytes nor None.
    ValueError
        If it is too short.
    """
    if key is None or isinstance(key, Key):
        return key
    if not isinstance(key, (bytes, bytearray)):
        raise TypeError(f"key must be bytes, or None for no signatures, got {type(key).__name__}.")
    if len(key) < LEAST_BYTES:
        raise ValueError(
            f"key must have at least {LEAST_BYTES} bytes, got {len(key)}: draw one with "
            "secrets.token_bytes(32)."
        )
    return Key(bytes(key))
