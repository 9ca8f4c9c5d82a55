"""Mutated estimate files, and what reading each of them does."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import pickle
import random
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    OUE,
    ColumnOracle,
    Consistent,
    Domain,
    FrequencyEstimate,
    HadamardResponse,
    ItemOracle,
    LatentClasses,
    LocalMean,
    MarginalOracle,
    MatrixOracle,
    NoiseModel,
    NormSub,
    ProjectiveGeometryResponse,
    RangeOracle,
    SmoothMLE,
    StringOracle,
    SubsetSelection,
    load_estimate,
)
from sklearn_ldp._core.common.arrays import SEAL_BYTES, pack_arrays, sha256_seal, unpack_arrays
from sklearn_ldp.inference import combine
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.queries import groups
from sklearn_ldp.surveys import ResponseDesign

LETTERS = ["a", "b", "c", "d"]
USERS = LETTERS * 15
PEOPLE = np.column_stack([np.arange(600) % 2, np.arange(600) % 4])
SECONDS = 1.0
REFUSALS = (ValueError, TypeError, RuntimeError, OverflowError)  # of NumPy, to convert values
MEMORY = 1 << 30  # bytes that reading may take beyond those of the process

# What a forger may put in the place of anything in a header.
HOSTILE: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3.5, -0.0, 1e308, 10**18, 10**40, -(2**63), 2**64,
    float("nan"), float("inf"), "", "x", "open", "auto", "a" * 5000, [], {}, [[[[]]]],
    {"tuple": []}, {"dict": []}, {"list": []}, {"object": 0}, {"object": -1}, {"object": 10**9},
    {"array": "array_0"}, {"array": "header"}, {"array": "none"}, {"bytes": "00"},
    {"fraction": "1/2"}, {"fraction": "1e99999999"}, {"fraction": "1/0"}, {"fraction": "3/2"},
    {"fraction": "9" * 100_000}, {"fraction": "1/" + "9" * 1000}, {"date": "0000-00-00"},
    {"time": "9999-99-99"}, {"dtype": "O"}, {"dtype": "V99999999"}, {"dtype": "f8,O"},
    {"dtype": "|u1"}, {"scalar": {"array": "array_0"}}, {"scalar": []}, {"scalar": [1]},
    {"objects": [1, 2, [10**12]]}, {"objects": [[10**12, 0]]}, {"objects": ["a", [1]]},
    {"sparse": [{"array": "array_0"}] * 3 + [[10**9, 10**9]]}, {"dict": [["epsilon", "high"]]},
    {"dict": [[{"tuple": [1]}, 2], ["x", "y"]]}, {"unknown": 1}, {"tuple": [], "dict": []},
]  # fmt: skip
DEEP = "a list in a list in a list"
DEPTHS = ["[" * n + "]" * n for n in (900, 100_000)]
DEPTHS += ['{"tuple":[' * n + "]}" * n for n in (300, 50_000)]
NAMES = [
    "sklearn_ldp._utils.files:_NamedFile", "sklearn_ldp.collection:RepeatedClient",
    "sklearn_ldp._core.common.files:replacing", "os:system", "builtins:eval", "builtins:open",
    "antigravity:x", "this:s", "pathlib:Path", "subprocess:Popen", "shutil:rmtree",
]  # fmt: skip
ARGUMENTS: list[Any] = [["made", "x"], {"dict": [["memo", "made"]]}, ["echo made > made"], [], None]


def estimates() -> dict[str, Any]:
    """Return an estimate of each kind, of a few users."""
    oracles: list[Any] = [OUE(2.0), OLH(1.0), BLH(1.0), OLH(1.0, hash_family="mixing")]
    oracles += [HadamardResponse(1.0), HadamardResponse(2.0, n_blocks=2), SubsetSelection(1.0)]
    oracles += [ProjectiveGeometryResponse(1.0), MatrixOracle(1.0), GRR(1.0, n_shards=2)]
    oracles += [MatrixOracle(1.0, queries=groups([["a", "b"], ["c"]]))]
    given = {"categories": LETTERS, "random_state": 0}
    raw = [one.set_params(**given).fit_transform(USERS) for one in oracles]
    columns = {"domains": {"smokes": 2, "visits": 4}, "random_state": 0}
    tables = MarginalOracle(4.0, **columns).fit_transform(PEOPLE)
    bins = Domain.bins(4, bounds=(0, 8), missing=True)
    axis = Domain.bins(4, bounds=(0, 8))
    places = RangeOracle(2.0, categories=Domain.grid(axis, axis), random_state=0)
    on_grid = places.fit_transform(np.column_stack([np.arange(60) % 8, np.arange(60) % 7 + 0.5]))
    strings = StringOracle(
        6.0, alphabet="ab", max_length=2, n_found=2, expected_n_users=400, random_state=0
    )
    items = ItemOracle(2.0, categories=LETTERS, max_items=2, random_state=0)
    days = [date(2026, 11, 27), date(2026, 11, 28)]
    named = {repr(one): estimate for one, estimate in zip(oracles, raw, strict=True)}
    return {
        **named,
        "ranges": RangeOracle(1.0, categories=512, random_state=0).fit_transform(range(512)),
        "grid": on_grid,
        "smooth grid": SmoothMLE().fit_transform(on_grid),
        "design": ResponseDesign.crosswise(0.25).oracle().fit_transform([0, 1] * 30),
        "processed": NormSub().fit_transform(raw[0]),
        "difference": raw[0] - raw[1],
        "combined": combine(raw[:2]),
        "groups": estimate_by_group(GRR(1.0, categories=2, random_state=0), [0, 1] * 9, [0] * 18),
        "mean": LocalMean(1.0, bounds=(0, 9), random_state=0).fit([5.0] * 50).estimate_,
        "bins": OUE(1.0, categories=bins, random_state=0).fit_transform([1, 2, None] * 20),
        "strings": strings.fit_transform(["ab", "aa"] * 300),
        "items": items.fit_transform([["a", "b"], ["c"]] * 30),
        "columns": ColumnOracle(2.0, **columns).fit_transform(PEOPLE),
        "tables": tables,
        "consistent": Consistent().fit_transform(tables),
        "latent": LatentClasses(2, n_mixtures=1).fit_transform(tables),
        "days": FrequencyEstimate([[0.5, 0.5]], days, NoiseModel(0.5, 0.25, 100)),
        "odd": FrequencyEstimate([[0.5, 0.5]], [None, ("a", b"1", True)]),
    }


def sealed(members: dict[str, np.ndarray]) -> bytes:
    """Return a file with its digest, as anybody can write it."""
    content = pack_arrays(members, b"0" * SEAL_BYTES)
    content[-SEAL_BYTES:] = sha256_seal(content[:-SEAL_BYTES])
    return bytes(content)


def as_version_1(content: bytes) -> list[bytes]:
    """Return the same estimate in the format without tags and digest, if it has such classes."""
    table = files("sklearn_ldp._core.common").joinpath("data/names_of_version_1.json")
    names = {tag: name for name, tag in json.loads(table.read_text("utf-8")).items()}
    members = dict(unpack_arrays(content))
    header = json.loads(members["header"].tobytes())
    if not {tag for tag, *_ in header["objects"]} <= names.keys():
        return []
    header["version"] = 1
    header["objects"] = [[names[tag], *parts] for tag, *parts in header["objects"]]
    members["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    return [bytes(pack_arrays(members))]


# -- mutants ---------------------------------------------------------------------------------------
def changed_bytes(content: bytes, draw: random.Random) -> bytes:
    """Return a file with a few bytes flipped, cut, doubled or added."""
    data = bytearray(content)
    start = draw.randrange(len(data))
    stop = min(start + 1 + int(draw.expovariate(1 / 40)), len(data))
    match draw.randrange(6):
        case 0:
            del data[start:stop]
        case 1:
            data[start:start] = data[start:stop]
        case 2:
            data[start:stop] = draw.randbytes(stop - start)
        case 3:
            del data[start:]
        case _:
            for _ in range(draw.randrange(1, 9)):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def place(node: Any, draw: random.Random) -> tuple[Any, Any]:
    """Return a place of a header that can be replaced: a container and a key in it."""
    while True:
        key = draw.choice(range(len(node)) if isinstance(node, list) else list(node))
        child = node[key]
        if not isinstance(child, list | dict) or not child or draw.random() < 0.2:
            return node, key
        node = child


def changed_header(header: dict[str, Any], draw: random.Random) -> None:
    """Replace, swap, remove, add, nest or enlarge parts of a header."""
    container, key = place(header, draw)
    other, of_other = place(header, draw)
    match draw.randrange(8):
        case 0 | 1:
            container[key] = copy.deepcopy(draw.choice(HOSTILE))
        case 2:
            value = copy.deepcopy(container[key])
            container[key], other[of_other] = copy.deepcopy(other[of_other]), value
        case 3:
            del container[key]
        case 4:
            for _ in range(draw.choice([1, 3, 20])):
                container[key] = draw.choice([[container[key]], {"tuple": [container[key]]}])
            container[key] = draw.choice([container[key], container[key], DEEP])
        case 5:
            value = container[key]
            times = 1000 if len(json.dumps(value)) < 1_000 else 2
            container[key] = value * times if isinstance(value, list) else [value] * times
        case 6:
            thing = [draw.choice(NAMES), draw.choice(ARGUMENTS)]
            thing += draw.choice([[], [None], [{"dict": [["path", "made"]]}]])
            header["objects"].insert(draw.randrange(len(header["objects"]) + 1), thing)
        case _:
            row = draw.choice(header["objects"] or [[None]])
            row[0] = draw.choice([*NAMES, *(one[0] for one in header["objects"])])


def changed_array(members: dict[str, Any], draw: random.Random) -> None:
    """Change the values, the type or the shape of an array, or copy another one into its place."""
    names = [name for name in members if name != "header"]
    if not names:
        return
    name = draw.choice(names)
    array = np.array(members[name])
    match draw.randrange(7):
        case 0 if array.size:
            value = draw.choice([-1, 0, 1, 0.5, 1e9, np.nan, np.inf, 2**62])
            with np.errstate(all="ignore"), contextlib.suppress(*REFUSALS):
                array.flat[draw.randrange(array.size)] = np.array(value).astype(array.dtype)
        case 1 if array.size > 1:
            array = np.random.default_rng(draw.randrange(2**32)).permuted(array.ravel())
            array = array.reshape(members[name].shape)
        case 2:
            with np.errstate(all="ignore"), contextlib.suppress(*REFUSALS):
                array = array.astype(draw.choice(["f8", "i8", "c16", "U9", "u1", "M8[D]", "f2"]))
        case 3:
            array = np.resize(array, draw.choice([(0,), (0, 10**12), (1, 1), (7,), (2, 3, 4)]))
        case 4:
            array = np.concatenate([array.ravel()] * draw.choice([2, 100]))
        case 5:
            array = np.zeros(draw.choice([1, 1000]), dtype=[("a", "f8"), ("b", "i4")])
        case _:
            array = members[draw.choice(names)]
    members[name] = array


def mutant(content: bytes, draw: random.Random) -> tuple[str, bytes]:
    """Return a kind of change and a changed file: "sealed" if its digest, if any, was renewed."""
    kind = draw.choice(["bytes", "header", "header", "array"])
    if kind == "bytes":
        return kind, changed_bytes(content, draw)
    members: dict[str, Any] = dict(unpack_arrays(content))
    header = json.loads(members["header"].tobytes())
    is_old = header["version"] == 1
    for _ in range(draw.choice([1, 1, 2, 5])):
        if kind == "array":
            changed_array(members, draw)
        else:
            changed_header(header, draw)
            header.setdefault("objects", [])
            rows = header["objects"]
            if not isinstance(rows, list) or not all(isinstance(one, list) and one for one in rows):
                break
    text = json.dumps(header)[:4_000_000].replace(json.dumps(DEEP), draw.choice(DEPTHS), 3)
    members["header"] = np.frombuffer(text.encode(), np.uint8)
    if is_old:
        return kind, bytes(pack_arrays(members))
    if draw.random() < 0.2:
        return f"{kind}, digest as before", bytes(pack_arrays(members, content[-SEAL_BYTES:]))
    return f"{kind}, digest renewed", sealed(members)


# -- what reading does -----------------------------------------------------------------------------
class OverTimeError(BaseException):
    """Reading took more than a second; no `except Exception` stops it."""


class Watch:
    """The effects of reading, as Python's audit hooks tell them."""

    def __init__(self) -> None:
        self.is_on = False
        self.effects: list[str] = []
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        is_writing = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        others = ("os.", "shutil.", "socket.", "subprocess.", "ctypes.", "pickle.", "tempfile.")
        if is_writing or event in ("import", "exec") or event.startswith(others):
            self.effects.append(f"{event} {arguments!r:.200}")


def content_of(estimate: Any) -> bytes:
    """Return all that an estimate holds, to compare it; nobody reads these bytes."""
    return pickle.dumps(estimate)


def _stop(*_: Any) -> None:
    raise OverTimeError


def outcome(path: Path, expected: bytes, watch: Watch) -> tuple[str, float]:
    """Return what reading a file ends with, and the seconds of one core that it takes."""
    watch.effects.clear()
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, 2 * SECONDS)
    watch.is_on = True
    try:
        estimate = load_estimate(path)
        result = ""
    except ValueError:
        result = "ValueError"
    except OverTimeError:
        result = "too long"
    except BaseException as error:
        result = f"{type(error).__name__}: {error!s:.200}"
    finally:
        watch.is_on = False
        signal.setitimer(signal.ITIMER_PROF, 0)
    spent = time.process_time() - start
    if watch.effects:
        return f"an effect: {watch.effects[0]}", spent
    if result:
        return result, spent
    try:
        if content_of(estimate) == expected:
            return "equal", spent
        estimate.describe()
        return "another estimate", spent
    except ValueError as error:
        return f"another estimate, which describe refuses ({error!s:.60})", spent
    except Exception as error:
        return f"an estimate that describe fails on ({type(error).__name__}: {error!s:.100})", spent


def read_mutants(n_mutants: int, seed: int, folder: Path) -> tuple[Counter, list[str], float]:
    """Read so many mutants, and return their outcomes, the failures and the longest time."""
    warnings.simplefilter("ignore")
    draw = random.Random(seed)
    path = folder / "estimate.npz"
    originals = []
    for estimate in estimates().values():
        estimate.save(path)
        content = path.read_bytes()
        expected = content_of(load_estimate(path))
        for form in (content, *as_version_1(content)):
            path.write_bytes(form)
            originals.append((form, content_of(load_estimate(path))))
            assert originals[-1][1] == expected
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, most))
    signal.signal(signal.SIGPROF, _stop)
    watch, outcomes, failures, longest = Watch(), Counter(), [], 0.0
    for i in range(n_mutants):
        content, expected = draw.choice(originals)
        kind, data = mutant(content, draw)
        path.write_bytes(data)
        end, spent = outcome(path, expected, watch)
        longest = max(longest, spent)
        is_sealed = content[-SEAL_BYTES:].isalnum()
        has_digest = (kind == "bytes" and is_sealed) or kind.endswith("before")
        is_fine = end in ("ValueError", "equal") or (end == "another estimate" and not has_digest)
        if not is_fine or spent > SECONDS or len(os.listdir(folder)) != 1:
            failures.append(f"mutant {i}, {kind}: {end}, {spent:.2f} s, {os.listdir(folder)}")
        outcomes[kind, end] += 1
    return outcomes, failures, longest
