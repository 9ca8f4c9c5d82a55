"""Saving and loading of objects of the package as JSON and arrays.

Loading runs no code of the file.
"""

from __future__ import annotations

import importlib
import json
import math
import re
from collections.abc import Sequence
from datetime import date, datetime
from fractions import Fraction
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from .arrays import SEAL_BYTES, pack_sealed, sha256_seal, unpack_arrays
from .files import read_regular, replacing
from .tags import TAGGED, Tagged, check_types, tag_of

_FORMAT = "sklearn_ldp estimate"
_VERSION = 2
_CHECKPOINT_FORMAT = "sklearn_ldp checkpoint"  # the format of `storage.checkpoints`
_PACKAGE = __name__.partition(".")[0]
_PLAIN = (type(None), bool, int, float, str)
_KINDS = "biufSUmM"  # kinds of arrays, without objects, records and complex numbers
# Arrays that objects share are checked once per object. All checks together read at most this
# multiple of the file's size, so that a small file cannot cause much work; chosen by hand.
_MOST_READ = 100
_LEAST_READ = 1 << 24


def _objects(items: list[Any]) -> np.ndarray:
    *values, shape = items
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return _sealed(array.reshape(shape))


def _sealed(array: np.ndarray) -> np.ndarray:
    """Return a read-only copy of an array."""
    array = array.copy()
    array.flags.writeable = False
    return array


def _fraction(text: str) -> Fraction:
    """Return the Fraction in a text such as "3/4".

    Raise ValueError if the text is not a fraction or is too long.
    """
    if not re.fullmatch(r"-?[0-9]{1,2000}(/[0-9]{1,2000})?", text):
        raise ValueError(f"{text!r:.80} is not a fraction")
    return Fraction(text)


def _dtype(text: str) -> np.dtype:
    if not re.fullmatch(r"[|<>][iu][1248]", text):
        raise ValueError(f"{text!r:.80} is not a type of integers")
    return np.dtype(text)


def _sparse(parts: list[Any]) -> sparse.csr_array:
    array = sparse.csr_array(tuple(parts[:3]), shape=parts[3])
    array.check_format(full_check=True)  # compiled code trusts the indices
    return array


# Values that are neither plain, nor arrays of numbers, nor objects of the package: the type, the
# function that returns the parts of a value, and the function that makes a value from the parts.
_FORMS: dict[str, tuple[Any, Any, Any]] = {
    "tuple": (tuple, list, tuple),
    "dict": (dict, lambda x: [list(pair) for pair in x.items()], dict),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (datetime, datetime.isoformat, datetime.fromisoformat),
    "fraction": (Fraction, str, _fraction),
    "dtype": (np.dtype, lambda x: x.str, _dtype),
    "scalar": (np.generic, lambda x: np.array([x]), lambda x: x[0]),
    "objects": (np.ndarray, lambda x: [*x.ravel(), list(x.shape)], _objects),
    "sparse": (
        sparse.sparray,
        lambda x: [x.tocsr().data, x.tocsr().indices, x.tocsr().indptr, list(x.shape)],
        _sparse,
    ),
}
_BY_BASE = (np.dtype, np.generic, np.ndarray, sparse.sparray)  # types that have subclasses


def keep(thing: Any, path: str | PathLike[str]) -> None:
    """Write an object to a file. If the call fails, an earlier file is unchanged."""
    writer = _Writer()
    header = {"format": _FORMAT, "version": _VERSION, "root": writer.form(thing)}
    header["objects"] = writer.objects
    with replacing(Path(path)) as file:
        file.write(pack_sealed(header, writer.arrays))


def kept(path: str | PathLike[str], classes: Sequence[type] = ()) -> Any:
    """Return the object in a file that `keep` wrote.

    `classes` lists classes of other packages that the file may contain.
    """
    content = read_regular(path)
    try:
        arrays = unpack_arrays(content)
        header = json.loads(arrays.pop("header").tobytes())
        return _read(content, arrays, header, classes)
    except _RefusedError as error:
        raise ValueError(f"{path}: {error}") from None
    except Exception as error:  # a damaged or forged file may cause any error
        raise ValueError(
            f"{path} does not contain an estimate that this release can read "
            f"({type(error).__name__}: {str(error)[:300]}). Save the estimate again with the "
            "release that wrote it."
        ) from None


def _read(content: Any, arrays: dict[str, np.ndarray], header: Any, classes: Any) -> Any:
    """Return the object in a file, after checking the format, version and digest of the file."""
    if header["format"] == _CHECKPOINT_FORMAT:
        raise _RefusedError(
            "the file is a checkpoint of a data collection, not an estimate. Read it with "
            f"sklearn_ldp.collection.{_checkpoint_call(header)}.estimate_, and save that estimate."
        )
    if header["format"] != _FORMAT or header["version"] not in (1, _VERSION):
        raise ValueError(
            f"the file has the format {header['format']!r:.80}, version "
            f"{header['version']!r:.80}, but this release reads only versions 1 and {_VERSION} of "
            f"the format {_FORMAT!r}. Load the file with the release that wrote it"
        )
    names = {_name_of(made): made for made in classes}
    if header["version"] == 1:
        names |= _names_of_version_1()
    elif sha256_seal(content[:-SEAL_BYTES]) != content[-SEAL_BYTES:]:
        raise ValueError(
            "the SHA-256 does not match, so the file was damaged or edited. Copy the file again"
        )
    return _Reader(arrays, names, len(content)).root(header)


def _checkpoint_call(header: dict[str, Any]) -> str:
    """Return the text of a call that reads a checkpoint, with the options in its header."""
    claims = header.get("configuration")
    claims = claims if isinstance(claims, dict) else {}
    name = claims.get("oracle")
    epsilon = claims.get("epsilon")
    is_known = isinstance(name, str) and name.isidentifier() and isinstance(epsilon, float)
    arguments = ["path", f"{name:.40}({epsilon}, categories=..)" if is_known else "oracle"]
    if isinstance(claims.get("collection_round"), str) and claims["collection_round"]:
        arguments.append(f"collection_round={claims['collection_round']!r:.80}")
    if header.get("is_signed") is True:
        arguments.append("key=key")
    return f"Aggregator.load({', '.join(arguments)})"


def _name_of(made: type) -> str:
    """Return the name by which files refer to a class of another package, which has no tag."""
    return f"{made.__module__}:{made.__qualname__}"


def _tagged(tag: str) -> Any:
    """Return the class or constant with this tag. Return None if there is none."""
    if tag not in TAGGED:
        importlib.import_module(f"{_PACKAGE}.surveys")  # gives every class its tag
    return TAGGED.get(tag)


def _names_of_version_1() -> dict[str, Any]:
    """Return a dict that maps the names of classes in files of version 1 to the classes."""
    table = files(__package__).joinpath("data/names_of_version_1.json").read_text("utf-8")
    return {name: _tagged(tag) for name, tag in json.loads(table).items()}


class _RefusedError(Exception):
    """Error for a file that is a checkpoint or contains an unknown class."""


class _Writer:
    """Converts objects to JSON forms and arrays.

    Each object and each array is written only once.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.objects: list[Any] = []
        # The written values and their forms, by id. The value is stored, so that no other object
        # gets its id.
        self._written: dict[int, tuple[Any, Any]] = {}

    def form(self, x: Any) -> Any:
        """Return the JSON form of a value: the value itself, a list, or a dict with one entry."""
        if type(x) in _PLAIN:
            return x
        if type(x) is list:
            return [self.form(item) for item in x]
        if id(x) not in self._written:
            self._written[id(x)] = x, self._form(x)
        return self._written[id(x)][1]

    def _form(self, x: Any) -> dict[str, Any]:
        if isinstance(x, np.ndarray) and not x.dtype.hasobject:
            name = f"array_{len(self.arrays)}"
            self.arrays[name] = np.asarray(x)
            return {"array": name}
        for name, (kind, write, _) in _FORMS.items():
            if type(x) is kind or (kind in _BY_BASE and isinstance(x, kind)):
                return {name: self.form(write(x))}
        self.objects.append(self._object(x))
        return {"object": len(self.objects) - 1}

    def _object(self, x: Any) -> list[Any]:
        """Return a list that describes an object.

        It contains the class, the arguments of the class, and the state of the object.
        """
        name = _name(type(x))
        if isinstance(x, BaseEstimator):  # its parameters: an unfitted copy
            return [name, self.form(x.get_params(deep=False))]
        reduced = x.__reduce_ex__(2)
        if isinstance(reduced, str):  # a constant
            return [tag_of(x)]
        make, args, *state = reduced
        if make is type(x):
            return [name, self.form(list(args))]
        return [name, self.form(list(args[1:])), self.form(state[0] if state else None)]


class _Reader:
    """Converts the JSON forms and arrays of a `_Writer` back to objects."""

    def __init__(self, arrays: dict[str, np.ndarray], names: dict[str, Any], n_bytes: int) -> None:
        if odd := [array.dtype for array in arrays.values() if array.dtype.kind not in _KINDS]:
            raise ValueError(
                f"an array has the dtype {odd[0]!s:.80}, which is not allowed in saved files. "
                "Save the estimate again"
            )
        self._arrays = {name: _sealed(array) for name, array in arrays.items()}
        self._names = names
        self._left = max(_LEAST_READ, _MOST_READ * n_bytes)
        self._objects: list[Any] = []

    def root(self, header: dict[str, Any]) -> Any:
        """Read all objects of a file in their order, and return the object that was saved."""
        for form in header["objects"]:
            self._objects.append(self._object(*form))
        return self.read(header["root"])

    def read(self, form: Any) -> Any:
        """Return the value that a JSON form describes."""
        if isinstance(form, list):
            return [self.read(item) for item in form]
        if not isinstance(form, dict):
            return form
        ((kind, value),) = form.items()
        if kind == "object":
            return self._objects[value]
        made = self._arrays[value] if kind == "array" else _FORMS[kind][2](self.read(value))
        if isinstance(made, np.ndarray):  # an empty array may claim a large shape
            self._spend(math.prod(max(n, 1) for n in made.shape) * made.itemsize)
        return made

    def _object(self, name: str, args: Any = None, state: Any = None) -> Any:
        made = self._names.get(name) or _tagged(name)
        if made is None:
            remedy = f"load_estimate(path, classes=[{name.split(':')[-1]:.80}])"
            raise _RefusedError(
                f"the file contains {name!r:.200}, which is unknown to this release. If it is a "
                f"class of another package that you trust, pass the class: {remedy}."
            )
        if not isinstance(made, type):
            return made
        args = self.read(args)
        state = self.read(state)
        if issubclass(made, BaseEstimator):
            thing = made(**args)
            thing._validate_params()
            return thing
        if issubclass(made, tuple) or "__reduce__" in vars(made):
            thing = made(*args)
        else:  # without `__init__` and `__setstate__`
            thing = made.__new__(made)
            vars(thing).update(**(state or {}))  # an object without attributes has no state
        check_types(thing)
        if check := getattr(made, "__check_state__", None):
            self._spend(check(thing) or 0)
        return thing

    def _spend(self, n_bytes: int) -> None:
        self._left -= n_bytes
        if self._left < 0:
            raise ValueError(
                "the file is damaged, because its objects refer to the same array too often or "
                "to arrays that are larger than the file. Save the estimate again"
            )


def _name(made: type) -> str:
    """Return the name of a class in files: its tag, or the path of a class from another package."""
    tag = tag_of(made)
    is_ours = made.__module__.partition(".")[0] == _PACKAGE
    if tag is None and (is_ours or not issubclass(made, Tagged)):
        raise TypeError(
            f"An estimate that contains a {_name_of(made).replace(':', '.')} cannot be saved, "
            "because a file contains only numbers, text and objects of this package. Pass only "
            "plain parameters to the oracle."
        )
    return tag or _name_of(made)
