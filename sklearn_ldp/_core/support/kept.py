"""Objects of the package in files without pickle: JSON and arrays, and reading runs no code."""

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

_FORMAT, _VERSION = "sklearn_ldp estimate", 2
_OF_CHECKPOINTS = "sklearn_ldp checkpoint"  # what `storage.checkpoints` writes
_PACKAGE = __name__.partition(".")[0]
_PLAIN = (type(None), bool, int, float, str)
_KINDS = "biufSUmM"  # of arrays: no objects, no records and no complex numbers
# Arrays that objects share are checked once per object. All checks together read at most this
# multiple of the file's size, so that a small file cannot ask for much work; chosen by hand.
_MOST_READ = 100
_LEAST_READ = 1 << 24


def _objects(items: list[Any]) -> np.ndarray:
    *values, shape = items
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return _sealed(array.reshape(shape))


def _sealed(array: np.ndarray) -> np.ndarray:
    """A read-only array that owns its content, as those of categories are."""
    array = array.copy()
    array.flags.writeable = False
    return array


def _fraction(text: str) -> Fraction:
    """The fraction that digits, a slash and digits stand for; its parts have bounded lengths."""
    if not re.fullmatch(r"-?[0-9]{1,2000}(/[0-9]{1,2000})?", text):
        raise ValueError(f"{text!r:.80} is no fraction")
    return Fraction(text)


def _dtype(text: str) -> np.dtype:
    if not re.fullmatch(r"[|<>][iu][1248]", text):
        raise ValueError(f"{text!r:.80} is no type of integers")
    return np.dtype(text)


def _sparse(parts: list[Any]) -> sparse.csr_array:
    array = sparse.csr_array(tuple(parts[:3]), shape=parts[3])
    array.check_format(full_check=True)  # compiled code trusts the indices
    return array


# What is neither plain nor an array of numbers nor an object of the package: its type, what it is
# made of, and how it is made of that.
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
_BY_BASE = (np.dtype, np.generic, np.ndarray, sparse.sparray)  # of which there are subclasses


def keep(thing: Any, path: str | PathLike[str]) -> None:
    """Write an object to a file, which appears as a whole or not at all."""
    writer = _Writer()
    header = {"format": _FORMAT, "version": _VERSION, "root": writer.form(thing)}
    header["objects"] = writer.objects
    with replacing(Path(path)) as file:
        file.write(pack_sealed(header, writer.arrays))


def kept(path: str | PathLike[str], classes: Sequence[type] = ()) -> Any:
    """Read what `keep` has written; `classes` are those that are not of this package."""
    content = read_regular(path)
    try:
        arrays = unpack_arrays(content)
        header = json.loads(arrays.pop("header").tobytes())
        return _read(content, arrays, header, classes)
    except _RefusedError as error:
        raise ValueError(f"{path} {error}") from None
    except Exception as error:  # whatever a damaged or forged file makes the readers raise
        raise ValueError(
            f"{path} is no estimate that this release can read ({type(error).__name__}: "
            f"{str(error)[:300]}): save it again with the release that has written it."
        ) from None


def _read(content: Any, arrays: dict[str, np.ndarray], header: Any, classes: Any) -> Any:
    """Return the object of a file, after the checks of its version and its digest."""
    if header["format"] == _OF_CHECKPOINTS:
        raise _RefusedError(
            "is a checkpoint of a data collection, and not an estimate. Read it with "
            f"sklearn_ldp.collection.{_checkpoint_call(header)}.estimate_, and save that estimate."
        )
    if header["format"] != _FORMAT or header["version"] not in (1, _VERSION):
        raise ValueError(f"it is of version {header['version']!r:.80}, and not of {_VERSION}")
    names = {_name_of(made): made for made in classes}
    if header["version"] == 1:
        names |= _names_of_version_1()
    elif sha256_seal(content[:-SEAL_BYTES]) != content[-SEAL_BYTES:]:
        raise ValueError("its SHA-256 differs: the file was damaged or edited")
    return _Reader(arrays, names, len(content)).root(header)


def _checkpoint_call(header: dict[str, Any]) -> str:
    """Return the call that reads a checkpoint, with the options that its header claims."""
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
    """The name in files of a class that has no tag, because another package has written it."""
    return f"{made.__module__}:{made.__qualname__}"


def _tagged(tag: str) -> Any:
    """The class, or the constant, of a tag; None if there is none."""
    if tag not in TAGGED:
        importlib.import_module(f"{_PACKAGE}.surveys")  # gives every class its tag
    return TAGGED.get(tag)


def _names_of_version_1() -> dict[str, Any]:
    """The classes by the paths of modules that files of version 1 have in the place of tags."""
    table = files(__package__).joinpath("data/names_of_version_1.json").read_text("utf-8")
    return {name: _tagged(tag) for name, tag in json.loads(table).items()}


class _RefusedError(Exception):
    """A file is a checkpoint, or holds a class that the caller did not pass."""


class _Writer:
    """Values as JSON: each object and array is written once, after what it holds."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.objects: list[Any] = []
        # What is written, by its id; it is held, so that no other object gets this id.
        self._written: dict[int, tuple[Any, Any]] = {}

    def form(self, x: Any) -> Any:
        """Return the JSON form of a value."""
        if type(x) in _PLAIN:
            return x
        if type(x) is list:
            return [self.form(one) for one in x]
        if id(x) not in self._written:
            self._written[id(x)] = x, self._form(x)
        return self._written[id(x)][1]

    def _form(self, x: Any) -> dict[str, Any]:
        if isinstance(x, np.ndarray) and not x.dtype.hasobject:
            name = f"array_{len(self.arrays)}"
            self.arrays[name] = np.asarray(x)
            return {"array": name}
        for name, (of, write, _) in _FORMS.items():
            if type(x) is of or (of in _BY_BASE and isinstance(x, of)):
                return {name: self.form(write(x))}
        self.objects.append(self._object(x))
        return {"object": len(self.objects) - 1}

    def _object(self, x: Any) -> list[Any]:
        """A class, what it is called with or its instance made of, and the instance's state."""
        name = _name(type(x))
        if isinstance(x, BaseEstimator):  # by its parameters: a copy that is not fitted
            return [name, self.form(x.get_params(deep=False))]
        reduced = x.__reduce_ex__(2)
        if isinstance(reduced, str):  # a constant, of which copies are itself
            return [tag_of(x)]
        make, args, *state = reduced
        if make is type(x):
            return [name, self.form(list(args))]
        return [name, self.form(list(args[1:])), self.form(state[0] if state else None)]


class _Reader:
    """Values from what `_Writer` has made of them."""

    def __init__(self, arrays: dict[str, np.ndarray], names: dict[str, Any], n_bytes: int) -> None:
        if odd := [array.dtype for array in arrays.values() if array.dtype.kind not in _KINDS]:
            raise ValueError(f"an array has the dtype {odd[0]!s:.80}")
        self._arrays = {name: _sealed(array) for name, array in arrays.items()}
        self._names = names
        self._left = max(_LEAST_READ, _MOST_READ * n_bytes)
        self._objects: list[Any] = []

    def root(self, header: dict[str, Any]) -> Any:
        """Return the object of a file, after the others that it refers to."""
        for form in header["objects"]:
            self._objects.append(self._object(*form))
        return self.read(header["root"])

    def read(self, form: Any) -> Any:
        """Return the value that a form stands for."""
        if isinstance(form, list):
            return [self.read(one) for one in form]
        if not isinstance(form, dict):
            return form
        ((kind, value),) = form.items()
        if kind == "object":
            return self._objects[value]
        made = self._arrays[value] if kind == "array" else _FORMS[kind][2](self.read(value))
        if isinstance(made, np.ndarray):  # others are made of the shape that an empty one claims
            self._spend(math.prod(max(n, 1) for n in made.shape) * made.itemsize)
        return made

    def _object(self, name: str, args: Any = None, state: Any = None) -> Any:
        made = self._names.get(name) or _tagged(name)
        if made is None:
            remedy = f"load_estimate(path, classes=[{name.split(':')[-1]:.80}])"
            raise _RefusedError(
                f"holds {name!r:.200}, which this release does not know. If it is a class of "
                f"another package that you trust, pass it: {remedy}."
            )
        if not isinstance(made, type):
            return made
        args, state = self.read(args), self.read(state)
        if issubclass(made, BaseEstimator):
            thing = made(**args)
            thing._validate_params()
            return thing
        if issubclass(made, tuple) or "__reduce__" in vars(made):
            thing = made(*args)
        else:  # no `__init__` and no `__setstate__` runs
            thing = made.__new__(made)
            vars(thing).update(**(state or {}))  # an object without attributes has none
        check_types(thing)
        if check := getattr(made, "__check_state__", None):
            self._spend(check(thing) or 0)
        return thing

    def _spend(self, n_bytes: int) -> None:
        self._left -= n_bytes
        if self._left < 0:
            raise ValueError("its objects share arrays too often, or claim large ones")


def _name(made: type) -> str:
    """The tag of a class, or its path if it is a subclass of another package's."""
    tag = tag_of(made)
    is_ours = made.__module__.partition(".")[0] == _PACKAGE
    if tag is None and (is_ours or not issubclass(made, Tagged)):
        raise TypeError(
            f"An estimate that holds {_name_of(made).replace(':', '.')} cannot be saved, since a "
            "file holds numbers, text and objects of this package: give the oracle plain "
            "parameters."
        )
    return tag or _name_of(made)
