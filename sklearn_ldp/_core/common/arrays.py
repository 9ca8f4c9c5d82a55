"""Archives of arrays (npz files) without pickle.

The reader checks all sizes that an archive claims.
"""

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
    """Return the SHA-256 digest of some bytes as 64 hexadecimal digits.

    It is written at the end of an archive, as its seal.
    """
    return hashlib.sha256(content).hexdigest().encode()


def pack_sealed(
    header: Any, arrays: Mapping[str, np.ndarray], seal: Callable[..., bytes] = sha256_seal
) -> memoryview:
    """Return the bytes of an archive with a JSON header and arrays.

    The last 64 bytes are the seal, which `seal` computes from all other bytes.
    """
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    content = pack_arrays({"header": text, **arrays}, b"0" * SEAL_BYTES)
    content[-SEAL_BYTES:] = seal(content[:-SEAL_BYTES])
    return content


def pack_arrays(members: Mapping[str, np.ndarray], comment: bytes = b"") -> memoryview:
    """Return the bytes of an uncompressed archive of named arrays.

    They contain no time, so equal arrays give equal bytes.
    """
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
    """Return the arrays of an archive by name.

    Raise ValueError if an array is compressed, or larger than the archive.
    """
    members: dict[str, np.ndarray] = {}
    total = 0
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError(
            "it is not an archive of arrays (npz). Pass a file that this package has saved"
        )
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            total += info.file_size
            if info.compress_type != zipfile.ZIP_STORED or total > len(content) or name in members:
                raise ValueError(
                    f"the array {name:.80} is either compressed, repeated, or larger than the "
                    "file. Copy the file again"
                )
            members[name] = _array(archive.read(info), name)
    return members


def _array(content: bytes, name: str) -> np.ndarray:
    """Return a read-only array from the bytes of an npy file.

    Raise ValueError unless the array has exactly the claimed size.
    """
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError(
            f"the array {name} has another version of the npy format than 1.0. Save the file "
            "again with this package"
        )
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file, _MAX_NPY_HEADER)
    n_bytes = len(content) - file.tell()
    if dtype.hasobject or is_fortran or dtype.itemsize * math.prod(shape) != n_bytes:
        raise ValueError(
            f"the array {name} claims dtype {dtype} and shape {shape!r:.80}, but has {n_bytes} "
            "bytes. Copy the file again"
        )
    return np.frombuffer(content, dtype, offset=file.tell()).reshape(shape)
