"""Files with the state of a server. Each file contains its name, the configuration and a digest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from .._core.common.arrays import SEAL_BYTES, pack_sealed, sha256_seal, unpack_arrays
from .._core.common.files import read_regular, replacing
from .._core.mechanisms import Counts, Protocol

_FORM = {"format": "sklearn_ldp serve", "version": 1}


def write_state(path: Path, protocol: Protocol, content: Any = None, **arrays: np.ndarray) -> None:
    """Write JSON content and arrays to a file. The function returns when the file is on disk."""
    head = {**_FORM, "name": path.name, "configuration": protocol.configuration, "content": content}
    with replacing(path) as file:
        file.write(pack_sealed(head, arrays))


def read_state(path: Path, protocol: Protocol) -> tuple[Any, dict[str, np.ndarray]]:
    """Return the content and the arrays of a file from `write_state`.

    Raise ValueError if it is damaged or belongs to another collection.
    """
    packed = read_regular(path)
    try:
        if packed[-SEAL_BYTES:] != sha256_seal(packed[:-SEAL_BYTES]):
            raise ValueError("the SHA-256 does not match the content")
        arrays = unpack_arrays(packed)
        head = json.loads(arrays.pop("header").tobytes())
        if not {**_FORM, "name": path.name}.items() <= head.items():
            raise ValueError(
                f"the file was written under another name ({head['name']!r:.80}) or in another "
                f"version ({head['version']!r})"
            )
        configuration, content = head["configuration"], head["content"]
    except Exception as error:  # an edited file can make the readers raise any exception
        raise damaged(path, error) from None
    refuse_other(path, protocol, configuration)
    return content, arrays


def read_tags(path: Path, protocol: Protocol, *, reads_older: bool) -> tuple[np.ndarray, Counts]:
    """Return the tags and the counts of a finished batch.

    The tags are sorted hashes that identify its reports.
    """
    # Release candidates wrote an archive without header and digest, which ends with two zeros.
    is_older = reads_older and read_regular(path).endswith(bytes(2))
    arrays = {} if is_older else read_state(path, protocol)[1]
    shape = protocol.empty.shape
    try:
        if is_older:
            arrays = unpack_arrays(read_regular(path))
        tags, tallies, sizes = (arrays[name] for name in ("tags", "tallies", "sizes"))
        n = len(tags)
        expected = [("<u8", (n,)), ("<i8", shape), ("<i8", shape[:-1])]
        if [(array.dtype.str, array.shape) for array in arrays.values()] != expected:
            raise ValueError(f"the arrays have other types or shapes than expected for {n} reports")
        if n == 0 or sizes.tolist() != [[n]]:
            raise ValueError(f"the file has {n} tags for {sizes.sum()} reports, not one for each")
        if np.any(tags[1:] <= tags[:-1]):
            raise ValueError("the tags in the file are not sorted")
        protocol.mechanism.check_tallies(tallies[0], sizes[0])
    except Exception as error:  # an edited file can make the readers raise any exception
        raise damaged(path, error) from None
    return tags, Counts(tallies.copy(), sizes.copy())


def damaged(path: Path, reason: object) -> ValueError:
    """Return the error for a file that the server cannot have written in this form."""
    remedy = "Restore the file from a backup, or move it away to continue without it."
    return ValueError(f"{path} is damaged or was changed ({reason}). {remedy}")


def refuse_other(path: Path, protocol: Protocol, configuration: Any) -> None:
    """Raise ValueError if a file belongs to another collection than the protocol."""
    if not isinstance(configuration, dict):
        raise damaged(path, "it has no configuration")
    if difference := protocol.difference(configuration):
        text = f"{path} is of another collection: {difference}. Pass another --folder, or pass"
        raise ValueError(f"{text} the same options as at the first start.")
