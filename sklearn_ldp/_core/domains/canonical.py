"""The canonical form of a category: bytes that are equal on every machine."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from uuid import UUID

import numpy as np

from .values import is_missing, plain_instant

_WITH_A_TEXT = (date, time, timedelta, Decimal, Fraction, UUID)  # datetime is a date


def canonical(value: object) -> bytes:
    """Return the bytes that represent a category.

    Equal categories have equal bytes, on every machine and in every release.
    """
    if type(value) is str and value.isascii():  # first, because most long lists contain only these
        return b"s" + value.encode()
    value = plain_instant(value)
    if isinstance(value, (np.datetime64, np.timedelta64)) and not np.isnat(value):
        return b"x" + f"{type(value).__name__} {value}".encode()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple):
        parts = [canonical(part) for part in value]
        return b"t" + b"".join(b"%d:%s" % (len(part), part) for part in parts)
    if is_missing(value):
        return b"n"
    if isinstance(value, str):
        # One form for an accented letter, whether a device sends it as one character or as two.
        with suppress(UnicodeEncodeError):  # its text shows the value
            return b"s" + unicodedata.normalize("NFC", value).encode()
        raise ValueError(
            "A category contains an unpaired surrogate, which is not a valid Unicode character. "
            "Remove this character from the text."
        )
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, float) and not value.is_integer():
        return b"f" + value.hex().encode()
    if isinstance(value, (int, float)):
        # 1, 1.0 and True are the same key of a dictionary, and the same category.
        return b"i%d" % int(value)
    if isinstance(value, Enum):
        return b"x" + f"{type(value).__name__} {value.name}".encode()
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    if isinstance(value, _WITH_A_TEXT):
        return b"x" + f"{type(value).__name__} {value}".encode()
    raise TypeError(
        "Categories must have a form that is the same on every machine, got a category of the "
        f"type {type(value).__name__}. Use strings, bytes, numbers, dates, members of "
        "enumerations, UUIDs or tuples of these."
    )


def word_digest(value: object) -> int:
    """Return a hash of a category as an integer of 64 bits. It is the same on every machine."""
    return int.from_bytes(hashlib.blake2b(canonical(value), digest_size=8).digest(), "little")


def list_digest(values: Iterable) -> str:
    """Return the SHA-256 hash of a list of categories as hexadecimal digits.

    It is the same on every machine.
    """
    sha = hashlib.sha256(b"sklearn_ldp domain 1\n")
    for value in values:
        text = canonical(value)
        sha.update(b"%d:%s" % (len(text), text))
    return sha.hexdigest()
