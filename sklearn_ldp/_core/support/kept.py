"""Objects of the package in files without pickle: JSON and arrays, and reading runs no code."""

from __future__ import annotations

import importlib
import json
import sys
from contextlib import suppress
from datetime import date, datetime
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from .arrays import pack_arrays, unpack_arrays
from .files import read_regular, replacing

_FORMAT, _VERSION = "sklearn_ldp estimate", 1
_OF_CHECKPOINTS = "sklearn_ldp checkpoint"  # what `storage.checkpoints` writes
_PACKAGE = __name__.partition(".")[0]
_PLAIN = (type(None), bool, int, float, str)
# What files call the rooms of `_core/`: as they were called when the format was made.
_CORE = f"{_PACKAGE}._core."
_IN_FILES = {
    **{room: f"_{room}" for room in ("numerics", "domains", "noise", "mechanisms", "estimates")},
    "support": "_utils",
    "statements": "_inference",
    "lifecycle": "_collector",
    "storage": "_collection",
    "report_page": "_estimate_report",
    "queries": "queries",
}
_OF_FILES = {written: room for room, written in _IN_FILES.items()}


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


# What is neither plain nor an array of numbers nor an object of the package: its type, what it is
# made of, and how it is made of that.
_FORMS: dict[str, tuple[Any, Any, Any]] = {
    "tuple": (tuple, list, tuple),
    "dict": (dict, lambda x: [list(pair) for pair in x.items()], dict),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (datetime, datetime.isoformat, datetime.fromisoformat),
    "fraction": (Fraction, str, Fraction),
    "dtype": (np.dtype, lambda x: x.str, np.dtype),
    "scalar": (np.generic, lambda x: np.array([x]), lambda x: x[0]),
    "objects": (np.ndarray, lambda x: [*x.ravel(), list(x.shape)], _objects),
    "sparse": (
        sparse.sparray,
        lambda x: [x.tocsr().data, x.tocsr().indices, x.tocsr().indptr, list(x.shape)],
        lambda x: sparse.csr_array(tuple(x[:3]), shape=x[3]),
    ),
}
_BY_BASE = (np.dtype, np.generic, np.ndarray, sparse.sparray)  # of which there are subclasses


def keep(thing: Any, path: str | PathLike[str]) -> None:
    """Write an object to a file, which appears as a whole or not at all."""
    writer = _Writer()
    root = writer.form(thing)
    header = {"format": _FORMAT, "version": _VERSION, "root": root, "objects": writer.objects}
    content = {"header": np.frombuffer(json.dumps(header).encode(), np.uint8), **writer.arrays}
    with replacing(Path(path)) as file:
        file.write(pack_arrays(content))


def kept(path: str | PathLike[str]) -> Any:
    """Read what `keep` has written."""
    content = read_regular(path)
    try:
        arrays = unpack_arrays(content)
        header = json.loads(arrays.pop("header").tobytes())
        is_checkpoint = header.get("format") == _OF_CHECKPOINTS
        if not is_checkpoint and (header["format"], header["version"]) != (_FORMAT, _VERSION):
            raise ValueError(f"it is of version {header['version']}, and not of {_VERSION}")
        if not is_checkpoint:
            return _Reader(arrays, header["objects"]).read(header["root"])
    except Exception as error:  # whatever a damaged or forged file makes the readers raise
        raise ValueError(
            f"{path} is no estimate that this release can read ({type(error).__name__}: "
            f"{str(error)[:300]}): save it again with the release that has written it."
        ) from None
    raise ValueError(
        f"{path} is a checkpoint of a collection, and no estimate: read it with "
        "sklearn_ldp.collection.Aggregator.load(path, oracle), whose estimate can be saved."
    )


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
        if isinstance(reduced, str):  # one that a module has under this name
            return [_in_files(type(x).__module__, reduced)]
        make, args, *state = reduced
        if make is type(x):
            return [name, self.form(list(args))]
        return [name, self.form(list(args[1:])), self.form(state[0] if state else None)]


class _Reader:
    """Values from what `_Writer` has made of them."""

    def __init__(self, arrays: dict[str, np.ndarray], objects: list[Any]) -> None:
        self._arrays = {name: _sealed(array) for name, array in arrays.items()}
        self._objects: list[Any] = []
        for form in objects:
            self._objects.append(self._object(*form))

    def read(self, form: Any) -> Any:
        """Return the value that a form stands for."""
        if isinstance(form, list):
            return [self.read(one) for one in form]
        if not isinstance(form, dict):
            return form
        ((kind, value),) = form.items()
        if kind in ("array", "object"):
            return self._arrays[value] if kind == "array" else self._objects[value]
        return _FORMS[kind][2](self.read(value))

    def _object(self, name: str, args: Any = None, *state: Any) -> Any:
        made, args = _found(name), self.read(args)
        if args is None:
            return made
        if not state:
            return made(**args) if isinstance(args, dict) else made(*args)
        one = made.__new__(made, *args)
        if hasattr(one, "__setstate__"):
            one.__setstate__(self.read(*state))
        elif state[0] is not None:
            vars(one).update(self.read(*state))
        return one


def _in_files(module: str, attribute: str) -> str:
    """The name in a file of what a module holds."""
    if module.startswith(_CORE):
        room, *inside = module.removeprefix(_CORE).split(".")
        module = ".".join([_PACKAGE, _IN_FILES[room], *inside])
    return f"{module}:{attribute}"


def _name(x: Any) -> str:
    """The name by which `_found` finds a class or a function."""
    name = _in_files(x.__module__, x.__qualname__)
    with suppress(ValueError, AttributeError):
        if _found(name) is x:
            return name
    raise TypeError(
        f"An estimate that holds {name.replace(':', '.')} cannot be saved, since a file holds "
        "numbers, text and objects of this package: give the oracle plain parameters."
    )


def _found(name: str) -> Any:
    """The class, or an object, of this name: of this package, or derived from what is."""
    module, _, attribute = name.partition(":")
    package, _, path = module.partition(".")
    if package == _PACKAGE:
        room, *inside = path.split(".")
        if room in _OF_FILES:
            module = ".".join([f"{_CORE}{_OF_FILES[room]}", *inside])
        importlib.import_module(module)
    elif module not in sys.modules:  # importing it would run what it says
        raise ValueError(f"import {module} first, whose {attribute} it holds")
    found = getattr(sys.modules[module], attribute)
    bases = (found if isinstance(found, type) else type(found)).__mro__
    if not any(base.__module__.partition(".")[0] == _PACKAGE for base in bases):
        raise ValueError(f"{name} is nothing that an estimate holds")
    return found
