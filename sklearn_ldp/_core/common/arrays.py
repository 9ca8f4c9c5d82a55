"""Archives of arrays (npz) without pickle; the reader checks every claim of an archive."""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_MAX_NPY_HEADER = 512
SEAL_BYTES = 64  # hexadecimal digits of SHA-256 in the archive's comment, which is at the end


def sha256_seal(content: bytes | memoryview) -> bytes:
    """Return the digest of all bytes before a seal."""
    return hashlib.sha256(content).hexdigest().encode()


def pack_sealed(
    header: Any, arrays: Mapping[str, np.ndarray], seal: Callable[..., bytes] = sha256_seal
) -> memoryview:
    """Return an archive of a JSON header and arrays that ends with the seal of its content."""
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    content = pack_arrays({"header": text, **arrays}, b"0" * SEAL_BYTES)
    content[-SEAL_BYTES:] = seal(content[:-SEAL_BYTES])
    return content


def pack_arrays(members: Mapping[str, np.ndarray], comment: bytes = b"") -> memoryview:
    """Return an uncompressed archive of arrays, which contains no time."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in members.items():
            # A new ZipInfo always has the same date.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                array = np.ascontiguousarray(array)
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
        archive.comment = comment
    return file.getbuffer()


def unpack_arrays(content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of an archive, after a check that they are not larger than the file."""
    members: dict[str, np.ndarray] = {}
    total = 0
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError("it is not an archive of arrays")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            total += info.file_size
            if info.compress_type != zipfile.ZIP_STORED or total > len(content) or name in members:
                raise ValueError(f"its array {name:.80} is compressed, or larger than the file")
            members[name] = _array(archive.read(info), name)
    return members


def _array(content: bytes, name: str) -> np.ndarray:
    """Return a read-only array from the bytes of a npy file, which must have the exact size."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError(f"its array {name} has another version of the npy format")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file, _MAX_NPY_HEADER)
    n_bytes = len(content) - file.tell()
    if dtype.hasobject or is_fortran or dtype.itemsize * math.prod(shape) != n_bytes:
        raise ValueError(f"its array {name} claims dtype {dtype}, {shape!r:.80} in {n_bytes} bytes")
    return np.frombuffer(content, dtype, offset=file.tell()).reshape(shape)
