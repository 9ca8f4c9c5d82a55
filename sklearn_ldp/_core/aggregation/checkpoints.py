"""Checkpoints: files with the state of a collection, which only one process at a time can write."""

from __future__ import annotations

import hmac
import io
import json
import os
import random
import socket
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from ..common.arrays import SEAL_BYTES, pack_sealed, sha256_seal, unpack_arrays
from ..common.files import errors_name, open_regular, read_regular, replacing, resolved, sweep
from ..common.typing import FilePath
from ..mechanisms import Protocol, configuration_difference
from ._batches import Key
from ._header import POSTED
from ._ledger import LENGTHS, N_BYTES, CopyRule, Ledger, lines_of
from ._tally import Tally, checked_sums

_FORMAT = "sklearn_ldp checkpoint"
# The arrays of each version, in the order of the file.
_VERSION_1 = ("header", "ids", "id_ends", "counts", "tallies", "sizes")
_ARRAYS = {1: _VERSION_1, 2: (*_VERSION_1, "digests")}
_VERSION = max(_ARRAYS)
_BYTES = ("header", "ids", "digests")  # the others are little-endian integers of 64 bits
_NO_DIGEST = bytes(N_BYTES)  # zeros represent a batch without a digest
_LOCKED_BYTE = 1 << 30  # Windows forbids reading a locked byte, so it is far behind the text

_held: set[int] = set()  # descriptors of the locks of this process


class CheckpointError(ValueError):
    """Error for a checkpoint that cannot be used.

    The checkpoint is damaged or truncated, belongs to another collection, or is in use by another
    process.
    """


@dataclass(frozen=True)
class Checkpoint:
    """Content of a checkpoint: a tally, the refused batches, and counts of repeats and refusals."""

    tally: Tally
    n_repeats: int
    n_refused: int
    refused: list
    secret: bytes = b""  # key of the digests of posted lines; empty in older checkpoints
    seal: bytes = b""  # the seal of the file that it was read from


def write(
    path: FilePath, state: Checkpoint, seals: set[bytes] | None = None, *, key: Key | None = None
) -> bytes:
    """Write a checkpoint atomically. When the function returns, the file is complete and on disk.

    Parameters
    ----------
    path : path-like
        The file to write. The caller should have locked it with `locked`.
    state : Checkpoint
        The content of the checkpoint.
    seals : set of bytes, default=None
        The seals of the files that may be replaced. The seal of a checkpoint is its last bytes, the
        digest or signature of all other bytes. An existing file with another seal was written by
        another process and is not replaced. The new seal is added to the set before the file is
        replaced, so that the set is correct even after an interruption. If None, any existing file
        is replaced.
    key : Key, default=None
        The key that signs the checkpoint. If None, the seal is a SHA-256 digest without a key.

    Returns
    -------
    bytes
        The seal of the new checkpoint.

    Raises
    ------
    CheckpointError
        If an existing file has a seal that is not in `seals`. The file is then unchanged.
    """
    path = Path(path)
    content = _pack(state, key)
    seal = content[-SEAL_BYTES:]
    sweep(path)
    with replacing(path) as file:
        file.write(content)
        if seals is not None:
            if _seal_on_disk(path) not in (None, *seals):
                raise CheckpointError(
                    f"{path} is not replaced, because another process has written it meanwhile. "
                    "Load it and add your batches to it, or save this state under another name."
                )
            seals.add(seal)
    return seal


def _seal_on_disk(path: Path) -> bytes | None:
    """Return the seal (the last bytes) of the checkpoint at `path`.

    Return None if there is no file.
    """
    try:
        with open_regular(path) as file:
            file.seek(max(file.seek(0, io.SEEK_END) - SEAL_BYTES, 0))
            return file.read()
    except FileNotFoundError:
        return None


def _seal(content: bytes | memoryview, key: Key | None) -> bytes:
    return sha256_seal(content) if key is None else key.tag("checkpoint", bytes(content)).encode()


def _pack(state: Checkpoint, key: Key | None = None) -> bytes:
    """Return the bytes of a checkpoint: an npz archive, with the seal as its comment.

    The seal is the SHA-256 digest of all bytes before it, or their signature if there is a key.
    """
    tally = state.tally
    names = sorted(tally.ledger)  # sorted, so that the order of arrival is not revealed
    ids = [batch.encode() for batch in names]
    digests = [tally.ledger.digest(batch) or _NO_DIGEST for batch in names]
    width = max(map(len, digests), default=N_BYTES)
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "configuration": tally.configuration,
        "is_signed": key is not None,
        "secret": state.secret.hex(),
        "n_repeats": state.n_repeats,
        "n_refused": state.n_refused,
        "refused": state.refused,
    }
    members = {
        "ids": np.frombuffer(b"".join(ids), np.uint8),
        "id_ends": np.cumsum([len(text) for text in ids], dtype=np.int64),
        "counts": np.array([tally.ledger[batch] for batch in names], np.int64),
        "tallies": tally.tallies,
        "sizes": tally.sizes,
        "digests": np.array(digests, dtype=f"S{width}").view(np.uint8).reshape(-1, width),
    }
    arrays = {name: np.asarray(array, dtype=_dtype(name)) for name, array in members.items()}
    return bytes(pack_sealed(header, arrays, lambda content: _seal(content, key)))


def _dtype(name: str) -> np.dtype:
    return np.dtype("|u1" if name in _BYTES else "<i8")


def read(path: FilePath, protocol: Protocol, *, key: Key | None = None) -> Checkpoint:
    """Return the content of a checkpoint of the protocol's reports.

    The checkpoint must have the configuration and the number of shards of the protocol. The seal,
    which is the digest or signature at the end of the file, is verified first. So the error for a
    damaged file states that it is damaged. Anyone can compute a seal without a key, so the content
    is also checked.
    """
    path = Path(path)
    content = read_regular(path)
    body, seal = content[:-SEAL_BYTES], content[-SEAL_BYTES:]
    if not body or not hmac.compare_digest(seal, _seal(body, key)):
        if key is not None and seal == _seal(body, None):
            raise CheckpointError(
                f"{path} is not signed, but this collection has a key and reads only signed "
                "checkpoints. If you trust the file, merge Aggregator.load(path, "
                "oracle).tally().signed(key) into an Aggregator that has the key, and save that "
                "Aggregator."
            )
        if key is None and b'"is_signed": true' in body:
            raise CheckpointError(
                f"{path} is signed, but no key was passed. Pass the key of the collection as "
                "key=, or as --key-file in the command line."
            )
        seal_name, other = ("SHA-256", "a") if key is None else ("signature", "another")
        raise CheckpointError(
            f"{path}: the {seal_name} does not match. Either the file is damaged or truncated, or "
            f"it was written with {other} key. Keep the file, and first retry with the key that "
            "wrote it. If that fails, restore an earlier checkpoint and add the missing batches "
            "again."
        )
    try:
        return _unpacked(_members(content), protocol, seal)
    except Exception as error:  # a forged file can make the readers raise any exception
        raise CheckpointError(f"{path} is not a checkpoint of this collection: {error}.") from None


def claimed_configuration(path: FilePath) -> dict:
    """Return the configuration in a checkpoint, without verifying the checkpoint."""
    header = json.loads(_members(read_regular(path))["header"].tobytes())
    if not isinstance(header, dict) or not isinstance(header.get("configuration"), dict):
        raise ValueError("the header is damaged. Restore an earlier checkpoint")
    return header["configuration"]


def _members(content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of a checkpoint by name.

    Raise ValueError if names or types are not valid.
    """
    members = unpack_arrays(content)
    if tuple(members) not in _ARRAYS.values():
        raise ValueError(
            "the file does not contain the arrays of a checkpoint. Pass a file that "
            "Aggregator.save has written"
        )
    for name, array in members.items():
        if array.dtype != _dtype(name) or array.ndim > 2:
            raise ValueError(
                f"the array {name} has dtype {array.dtype} and {array.ndim} dimensions, which is "
                "not valid in a checkpoint. Restore an earlier checkpoint"
            )
    return members


def _unpacked(members: dict[str, np.ndarray], protocol: Protocol, seal: bytes) -> Checkpoint:
    header = json.loads(members["header"].tobytes())
    version = header.get("version")
    if header.get("format") != _FORMAT or version not in _ARRAYS:
        raise ValueError(
            f"the file has the format {header.get('format')!r:.80}, version {version!r:.80}, "
            "which this release cannot read. Read it with the release of sklearn_ldp that wrote "
            "it"
        )
    if tuple(members) != _ARRAYS[version]:
        raise ValueError(
            "the arrays do not belong to the version that the header states. Restore an earlier "
            "checkpoint"
        )
    difference = configuration_difference(
        header["configuration"], protocol.configuration, protocol.domain
    )
    if difference:
        raise ValueError(difference)
    tallies = members["tallies"]
    sizes = members["sizes"]
    shape = protocol.empty.shape[1:]
    if tallies.shape != shape or sizes.shape != shape[:1]:
        raise ValueError(
            f"the checkpoint has tallies of shape {tallies.shape}, but this oracle has tallies of "
            f"shape {shape}. Use an oracle with the same n_shards as before"
        )
    batches = _batches(members["ids"].tobytes(), members["id_ends"], members["counts"])
    digests = _read_digests(batches, members.get("digests"))
    secret = bytes.fromhex(header.get("secret", ""))[:16]
    if not secret and any(batch.startswith(POSTED) for batch in batches):
        raise ValueError(
            "the file contains lines that clients have posted under ids of an earlier release, so "
            "these lines would be counted again. Add all files to a new checkpoint"
        )
    counts = checked_sums(protocol.mechanism, tallies, sizes, batches)
    refused = header["refused"]
    n_repeats = header["n_repeats"]
    n_refused = header["n_refused"]
    are_fine = all(type(number) is int and number >= 0 for number in (n_repeats, n_refused))
    texts = (text for item in refused for text in item)
    if not are_fine or any(len(i) != 2 for i in refused) or any(type(t) is not str for t in texts):
        raise ValueError("the header is damaged. Restore an earlier checkpoint")
    ledger = Ledger(batches, digests, CopyRule.of(protocol))
    tally = Tally(protocol.configuration, counts, ledger)
    return Checkpoint(
        tally=tally,
        n_repeats=n_repeats,
        n_refused=n_refused,
        refused=refused,
        secret=secret,
        seal=seal,
    )


def _read_digests(batches: dict[str, int], array: np.ndarray | None) -> dict[str, bytes]:
    if array is None:
        return {}
    if array.ndim != 2 or len(array) != len(batches) or array.shape[1] not in LENGTHS:
        raise ValueError("the list of batches is damaged. Restore an earlier checkpoint")
    rows = zip(batches, (row.tobytes() for row in array), strict=True)
    # Rows without a digest, or with fewer lines than others, are filled with zeros.
    return {
        batch: row[:N_BYTES] + b"".join(line for line in lines_of(row) if any(line))
        for batch, row in rows
        if any(row)
    }


def _batches(text: bytes, ends: np.ndarray, counts: np.ndarray) -> dict[str, int]:
    stops = [0, *ends.tolist()]
    if ends.shape != counts.shape or ends.ndim != 1 or stops[-1] != len(text):
        raise ValueError("the list of batches is damaged. Restore an earlier checkpoint")
    ids = [text[start:stop].decode() for start, stop in pairwise(stops)]
    ledger = dict(zip(ids, counts.tolist(), strict=True))
    if len(ledger) < len(ids):  # repeated ids; `checked_sums` compares ids and counts
        raise ValueError("the list of batches is damaged. Restore an earlier checkpoint")
    return ledger


# -- one writer: a lock of the operating system, which ends with its process ---------------------
def _lock(descriptor: int) -> bool:
    """Try to lock an open file, and return whether it is locked.

    Also return True if the file system does not support locks.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)  # otherwise the text would be written after a GiB
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # This file system does not honor locks. Every writer also compares the file on disk.
        return not isinstance(error, (BlockingIOError, PermissionError))
    return True


def _forget_locks() -> None:
    """Close the lock files that a forked child has inherited. Only its parent keeps the locks."""
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Exclude other processes from a file while the `with` block runs.

    The lock is on a second file in the same folder, because replacing a file would also remove its
    lock.

    Parameters
    ----------
    path : Path
        The file that the `with` block reads or writes.
    seconds : float
        How many seconds to wait if another process has locked the file.

    Raises
    ------
    CheckpointError
        If the other process does not release the lock in time. The error names that process.
    """
    side = lock_file(path)
    deadline = time.monotonic() + seconds
    while (descriptor := _attempt(path, side)) is None:
        if time.monotonic() >= deadline:
            raise CheckpointError(
                f"{path} is in use by {_owner(side)}, which did not end within {seconds:g} "
                "seconds. Nothing was read or written. Try again when that process has ended."
            )
        time.sleep(random.uniform(0.01, 0.1))  # random, so that processes do not stay in step
    _held.add(descriptor)
    try:
        yield
    finally:
        _held.discard(descriptor)
        with suppress(OSError):
            side.unlink()  # while it is locked, so that no process locks a file without a name
        with suppress(OSError):  # a forked child has closed it
            os.close(descriptor)
        if sys.platform == "win32":  # an open file cannot be removed; another run's is open
            with suppress(OSError):
                side.unlink()


def other_user(path: Path) -> str:
    """Return the name of the process that has locked a file.

    Return an empty text if the file is not locked.
    """
    side = lock_file(path)
    try:
        descriptor = os.open(side, os.O_RDWR | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return ""
    try:
        return "" if _lock(descriptor) else _owner(side)
    finally:
        os.close(descriptor)


def _attempt(path: Path, side: Path) -> int | None:
    # Through a link, the process would write to a file that an attacker has chosen.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with errors_name(path, f"cannot lock this file by {side}"):
        descriptor = os.open(side, flags, 0o666)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise CheckpointError(
                f"{path} cannot be locked, because {side} is not a regular file. Remove {side}, "
                "and find out which program has made it."
            )
        if _lock(descriptor) and _has_name(descriptor, side):
            owner = f"process {os.getpid()} on host {socket.gethostname()}"
            with suppress(OSError):  # the disk is full; the lock works without a name in it
                os.ftruncate(descriptor, 0)
                os.write(descriptor, owner.encode())
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _has_name(descriptor: int, side: Path) -> bool:
    """Return whether the locked file still exists under its name.

    The process that had the lock before may have removed it.
    """
    try:
        return os.path.samestat(os.fstat(descriptor), side.stat())
    except OSError:
        return False


def lock_file(path: Path) -> Path:
    """Return the path of the lock file that belongs to a file, in the same folder.

    Parameters
    ----------
    path : Path
        The file that the lock protects.

    Returns
    -------
    Path
        The path of the lock file. The file exists while it is locked, and also after the process
        with the lock was killed.
    """
    target = resolved(path)
    return target.with_name(f".{target.name}.lock")


def _owner(side: Path) -> str:
    with suppress(OSError):
        return read_regular(side)[:200].decode(errors="replace") or "another process"
    return "another process"
