"""Checkpoints of a collection: written atomically, and read without trusting the content."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._files._atomic import replacing, sweep
from ..protocols import Counts
from ..protocols._protocol import configuration_difference

_FORMAT = {"format": "sklearn_ldp checkpoint", "version": 1}
# The arrays, in the order in which the file holds them.
_DTYPES = {
    "header": "|u1",
    "ids": "|u1",
    "id_ends": "<i8",
    "counts": "<i8",
    "tallies": "<i8",
    "sizes": "<i8",
}
_SEAL = 64  # hexadecimal digits of SHA-256: the archive's comment, hence the file's last bytes
_MAX_NPY_HEADER = 512


class CheckpointError(ValueError):
    """A checkpoint is damaged, cut short, or of another collection."""


@dataclass(frozen=True)
class Checkpoint:
    """Content of a checkpoint: counts, the ledger of their batches, and refusals.

    Parameters
    ----------
    configuration : dict
        The configuration of the reports.
    counts : Counts
        Sums of the reports, in a single group.
    batches : dict
        The ledger: number of reports of each batch, keyed by its id.
    n_repeats, n_refused : int
        Number of batches that were ignored as repeats, and number of refusals.
    refused : list
        Ids and reasons of the last refusals.
    """

    configuration: dict[str, Any]
    counts: Counts
    batches: dict[str, int]
    n_repeats: int
    n_refused: int
    refused: list


def write(path: Any, state: Checkpoint) -> None:
    """Write a checkpoint atomically; it is complete and on disk when this returns."""
    content = _pack(state)
    sweep(Path(path))
    with replacing(Path(path)) as file:
        file.write(content)


def _pack(state: Checkpoint) -> bytes:
    """An npz archive whose comment is a seal: the digest of all bytes before it."""
    ids = [batch.encode() for batch in state.batches]
    header = {
        **_FORMAT,
        "configuration": state.configuration,
        "n_repeats": state.n_repeats,
        "n_refused": state.n_refused,
        "refused": state.refused,
    }
    members = {
        "header": np.frombuffer(json.dumps(header).encode(), np.uint8),
        "ids": np.frombuffer(b"".join(ids), np.uint8),
        "id_ends": np.cumsum([len(text) for text in ids], dtype=np.int64),
        "counts": np.fromiter(state.batches.values(), np.int64, len(ids)),
        "tallies": state.counts.tallies[0],
        "sizes": state.counts.sizes[0],
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in members.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                array = np.ascontiguousarray(array, dtype=_DTYPES[name])
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
        archive.comment = b"0" * _SEAL
    content = file.getbuffer()
    content[-_SEAL:] = hashlib.sha256(content[:-_SEAL]).hexdigest().encode()
    return bytes(content)


def read(path: Any, configuration: dict[str, Any], empty: Counts) -> Checkpoint:
    """Read a checkpoint of the expected configuration, with counts of the same shape as `empty`.

    The seal is checked before anything else is read, so that damage is recognised as such. Since
    anybody can make a seal, the content is read without trusting it all the same.
    """
    path = Path(path)
    content = path.read_bytes()
    seal = hashlib.sha256(content[:-_SEAL]).hexdigest().encode()
    if len(content) <= _SEAL or content[-_SEAL:] != seal:
        raise CheckpointError(
            f"{path} is damaged or cut short: its SHA-256 is not the one it ends with. Go back to "
            "an earlier checkpoint, or add its batches again."
        )
    try:
        return _unpacked(_members(content), configuration, empty.shape[1:])
    except Exception as error:  # whatever a forged file makes the readers raise
        raise CheckpointError(f"{path} is not a checkpoint of this collection: {error}.") from None


def _members(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of an npz archive, none of which can be larger than the file."""
    members = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        if [info.filename for info in infos] != [f"{name}.npy" for name in _DTYPES]:
            raise ValueError("its arrays are not those of a checkpoint")
        for (name, dtype), info in zip(_DTYPES.items(), infos, strict=True):
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > len(content):
                raise ValueError(f"its array {name} is compressed, or larger than the file")
            members[name] = _array(archive.read(info), dtype, name)
    return members


def _array(content: bytes, dtype: str, name: str) -> np.ndarray:
    """An array of known type from the bytes of a npy file, whose size must match exactly."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError(f"its array {name} is of another version of the npy format")
    shape, is_fortran, found = np.lib.format.read_array_header_1_0(
        file, max_header_size=_MAX_NPY_HEADER
    )
    n_bytes = len(content) - file.tell()
    size = found.itemsize
    for length in shape:
        size *= length
    if found != np.dtype(dtype) or is_fortran or len(shape) > 2 or size != n_bytes:
        raise ValueError(
            f"its array {name} claims dtype {found} and shape {shape!r:.80} in {n_bytes} bytes"
        )
    return np.frombuffer(content, dtype, offset=file.tell()).reshape(shape)


def _unpacked(members, configuration, shape):
    header = json.loads(members["header"].tobytes())
    if {key: header.get(key) for key in _FORMAT} != _FORMAT:
        raise ValueError(f"it is of format {header.get('format')!r}, {header.get('version')!r}")
    what = configuration_difference(header["configuration"], configuration)
    if what:
        raise ValueError(what)
    tallies, sizes = members["tallies"], members["sizes"]
    if tallies.shape != shape or sizes.shape != shape[:1]:
        raise ValueError(
            f"it holds tallies of shape {tallies.shape}, expected {shape}: n_shards must be the "
            "same"
        )
    batches = _ledger(members["ids"].tobytes(), members["id_ends"], members["counts"])
    if sizes.min() < 0 or sum(batches.values()) != sum(sizes.tolist()):
        raise ValueError("its ledger and its counts do not agree")
    numbers = (header["n_repeats"], header["n_refused"])
    refused = header["refused"]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("its header is damaged")
    if not all(len(item) == 2 and all(isinstance(text, str) for text in item) for item in refused):
        raise ValueError("its header is damaged")
    counts = Counts(tallies.astype(np.int64)[None], sizes.astype(np.int64)[None])
    return Checkpoint(configuration, counts, batches, *numbers, refused)


def _ledger(text: bytes, ends: np.ndarray, counts: np.ndarray) -> dict[str, int]:
    stops = ends.tolist()
    starts = [0, *stops[:-1]]
    if ends.shape != counts.shape or ends.ndim != 1 or (stops[-1] if stops else 0) != len(text):
        raise ValueError("its ledger is damaged")
    ids = [text[start:stop].decode() for start, stop in zip(starts, stops, strict=False)]
    ledger = dict(zip(ids, counts.tolist(), strict=True))
    if len(ledger) < len(ids) or "" in ledger or (len(counts) and counts.min() < 1):
        raise ValueError("its ledger is damaged")
    return ledger
