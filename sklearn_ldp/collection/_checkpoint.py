"""Checkpoints of a collection: written atomically, and read without trusting the content."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._files._atomic import replacing, sweep
from .._typing import FilePath
from ..mechanisms import Counts
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.protocol import configuration_difference
from ._authentication import Key
from ._digest import N_BYTES
from ._lock import claimed
from ._sums import checked_sums

ANYTHING = b"anything"  # no seal

_FORMAT = "sklearn_ldp checkpoint"
# The arrays of each version, in the order in which the file holds them.
_VERSION_1 = {
    "header": "|u1",
    "ids": "|u1",
    "id_ends": "<i8",
    "counts": "<i8",
    "tallies": "<i8",
    "sizes": "<i8",
}
_DTYPES = {1: _VERSION_1, 2: {**_VERSION_1, "digests": "|u1"}}
_VERSION = max(_DTYPES)
# Hexadecimal digits of SHA-256, or of HMAC-SHA-256 with a key: the archive's comment, hence the
# file's last bytes.
_SEAL = 64
_MAX_NPY_HEADER = 512


class CheckpointError(ValueError):
    """A checkpoint is damaged, cut short, of another collection, or in use by another process."""


class ReplacedError(Exception):
    """Another process has written the checkpoint since it was read or written here."""


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
    digests : dict
        Digests of the batches that have one, keyed by their ids.
    seal : bytes
        The seal of the file that it was read from.
    """

    configuration: dict[str, Any]
    counts: Counts
    batches: dict[str, int]
    n_repeats: int
    n_refused: int
    refused: list
    digests: dict[str, bytes] = field(default_factory=dict)
    seal: bytes = b""


def write(
    path: FilePath, state: Checkpoint, *, replaces: bytes | None = ANYTHING, key: Key | None = None
) -> bytes:
    """Write a checkpoint atomically; it is complete and on disk when this returns.

    Parameters
    ----------
    path : path-like
        The file to write.
    state : Checkpoint
        What to write.
    replaces : bytes or None, default=ANYTHING
        Seal of the checkpoint that is replaced; None if there must be none.
    key : Key, default=None
        Makes the seal.

    Returns
    -------
    bytes
        The seal of the new checkpoint.

    Raises
    ------
    ReplacedError
        If the checkpoint on disk is another one than `replaces`, before or after the writing;
        it is not touched before.
    """
    path = Path(path)
    content = _pack(state, key)
    seal = content[-_SEAL:]

    @contextmanager
    def compared() -> Iterator[None]:
        with claimed(path):
            if replaces != ANYTHING and seal_on_disk(path) != replaces:
                raise ReplacedError
            yield

    sweep(path)
    with replacing(path, compared) as file:
        file.write(content)
    if replaces != ANYTHING and seal_on_disk(path) != seal:
        raise ReplacedError  # by a writer that had compared before, where no claim is honoured
    return seal


def seal_on_disk(path: Path) -> bytes | None:
    """The last bytes of a checkpoint, which tell it from any other; None if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(file.seek(0, io.SEEK_END) - _SEAL, 0))
            return file.read()
    except FileNotFoundError:
        return None


def _seal(content: bytes | memoryview, key: Key | None) -> bytes:
    if key is None:
        return hashlib.sha256(content).hexdigest().encode()
    return key.tag("checkpoint", bytes(content)).encode()


def _pack(state: Checkpoint, key: Key | None = None) -> bytes:
    """An npz archive whose comment is a seal: the digest, or the tag, of all bytes before it."""
    ids = [batch.encode() for batch in state.batches]
    header = {
        "format": _FORMAT,
        "version": _VERSION,
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
        "digests": np.frombuffer(_digests(state), np.uint8).reshape(-1, N_BYTES),
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in members.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                array = np.ascontiguousarray(array, dtype=_DTYPES[_VERSION][name])
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
        archive.comment = b"0" * _SEAL
    content = file.getbuffer()
    content[-_SEAL:] = _seal(content[:-_SEAL], key)
    return bytes(content)


def _digests(state: Checkpoint) -> bytes:
    """One digest per batch; zeros stand for none."""
    none = bytes(N_BYTES)
    return b"".join(state.digests.get(batch, none) for batch in state.batches)


def read(
    path: FilePath,
    configuration: dict[str, Any],
    empty: Counts,
    *,
    mechanism: Mechanism | None = None,
    key: Key | None = None,
) -> Checkpoint:
    """Read a checkpoint of the expected configuration, with counts of the same shape as `empty`.

    The seal is checked before anything else is read, so that damage is recognised as such. Since
    anybody can make a seal, the content is read without trusting it all the same.
    """
    path = Path(path)
    content = path.read_bytes()
    body, seal = content[:-_SEAL], content[-_SEAL:]
    if not body or not hmac.compare_digest(seal, _seal(body, key)):
        if key is not None and seal == _seal(body, None):
            raise CheckpointError(
                f"{path} is not signed, and with a key only signed checkpoints are read. If you "
                "trust it, load it without the key, save it, and say so to whoever wrote it."
            )
        what = "SHA-256" if key is None else "signature"
        other = " made with a key" if key is None else " made with another key"
        raise CheckpointError(
            f"{path} is damaged or cut short: its {what} is not the one it ends with (or it was"
            f"{other}). Go back to an earlier checkpoint, or add its batches again."
        )
    try:
        return _unpacked(_members(content), configuration, empty.shape[1:], mechanism, seal)
    except Exception as error:  # whatever a forged file makes the readers raise
        raise CheckpointError(f"{path} is not a checkpoint of this collection: {error}.") from None


def _members(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of an npz archive, none of which can be larger than the file."""
    members = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        names = [info.filename.removesuffix(".npy") for info in infos]
        dtypes = next((known for known in _DTYPES.values() if list(known) == names), None)
        if dtypes is None:
            raise ValueError("its arrays are not those of a checkpoint")
        for (name, dtype), info in zip(dtypes.items(), infos, strict=True):
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


def _unpacked(members, configuration, shape, mechanism, seal):
    header = json.loads(members["header"].tobytes())
    version = header.get("version")
    if header.get("format") != _FORMAT or version not in _DTYPES:
        raise ValueError(f"it is of format {header.get('format')!r:.80}, {version!r:.80}")
    if list(members) != list(_DTYPES[version]):
        raise ValueError("its arrays are not those of its version")
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
    digests = _read_digests(batches, members.get("digests"))
    tallies, sizes = checked_sums(mechanism, tallies, sizes, batches)
    numbers = (header["n_repeats"], header["n_refused"])
    refused = header["refused"]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("its header is damaged")
    if not all(len(item) == 2 and all(isinstance(text, str) for text in item) for item in refused):
        raise ValueError("its header is damaged")
    counts = Counts(tallies.astype(np.int64)[None], sizes.astype(np.int64)[None])
    return Checkpoint(configuration, counts, batches, *numbers, refused, digests, seal)


def _read_digests(batches: dict[str, int], array: np.ndarray | None) -> dict[str, bytes]:
    if array is None:
        return {}
    if array.shape != (len(batches), N_BYTES):
        raise ValueError("its ledger is damaged")
    text, none = array.tobytes(), bytes(N_BYTES)
    found = (text[i : i + N_BYTES] for i in range(0, len(text), N_BYTES))
    return {batch: digest for batch, digest in zip(batches, found, strict=True) if digest != none}


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
