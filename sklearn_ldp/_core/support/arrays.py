"""Archives of arrays (npz) without pickle, which are read without trust in what they claim."""

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
SEAL_BYTES = 64  # hexadecimal digits of SHA-256: the archive's comment, hence the last bytes


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
    """Return an uncompressed archive of arrays, which holds no time."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in members.items():
            # A ZipInfo of its own has the same date whenever it is made.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                array = np.ascontiguousarray(array)
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
        archive.comment = comment
    return file.getbuffer()


def unpack_arrays(content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of an archive, which together cannot be larger than the file."""
    members, total = dict[str, np.ndarray](), 0
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError("it is no archive of arrays")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for info in archive.infolist():
            name, total = info.filename.removesuffix(".npy"), total + info.file_size
            if info.compress_type != zipfile.ZIP_STORED or total > len(content) or name in members:
                raise ValueError(f"its array {name:.80} is compressed, or larger than the file")
            members[name] = _array(archive.read(info), name)
    return members


def _array(content: bytes, name: str) -> np.ndarray:
    """A read-only array from the bytes of a npy file, whose size must match exactly."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError(f"its array {name} is of another version of the npy format")
    shape, is_fortran, found = np.lib.format.read_array_header_1_0(file, _MAX_NPY_HEADER)
    n_bytes, size = len(content) - file.tell(), found.itemsize * math.prod(shape)
    if found.hasobject or is_fortran or size != n_bytes:
        raise ValueError(f"its array {name} claims dtype {found}, {shape!r:.80} in {n_bytes} bytes")
    return np.frombuffer(content, found, offset=file.tell()).reshape(shape)
