"""The papers' claims: one file of YAML a paper, and their reader."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from . import _measures
from ._claims import Claim, Conclusion, about, at_least, at_most, between, near
from ._measures import Measured
from ._methods import BY_CODE, POWER_2019


class Paper(NamedTuple):
    """What a file of claims holds."""

    claims: list[Claim]
    conclusions: list[Conclusion]
    not_judged: list[list[str]]  # paper, section, sentence and reason


def read_paper(path: Path, shared: Sequence[dict[str, Any]] = ()) -> Paper:
    """Read the claims of a paper.

    The file has these keys: ``paper``, its name; ``statements``, each with ``figure`` (of this
    study, or a list of figures that are one statement together), ``says``, ``band`` and
    ``measured`` (see below), and if need be ``note``, ``kind``, ``key`` and ``printed`` (see
    `Claim`); ``conclusions``, each with ``says`` and the keys of statements that it
    ``rests_on``; and ``not_judged``, each with ``section``, ``sentence`` and ``reason``. Other keys
    hold lists and notes that are used several times.

    ``band`` and ``measured`` are calls written as ``{function: [arguments], option: value}``, or
    the name of a function alone: of `near`, `about`, `at_least`, `at_most`, `between`, and of what
    is in ``_measures.py``. `measured_as` says what else ``measured`` may hold. With ``by_code:
    true`` a statement of 2019 about Power has a reading by the authors' code.

    Statements of `shared`, which other papers make as well, have ``figures`` by paper, and "$name"
    in their ``measured`` is the list of that name among the paper's ``methods``.
    """
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    name = found["paper"]
    rows = [_of_paper(row, name, found["methods"]) for row in shared if name in row["figures"]]
    return Paper(
        [claim for row in rows + found["statements"] for claim in _claims_of(name, **row)],
        [Conclusion(name, row["says"], row["rests_on"]) for row in found["conclusions"]],
        [
            [row.get("paper", name), row["section"], row["sentence"], row["reason"]]
            for row in found["not_judged"]
        ],
    )


def _of_paper(row: dict[str, Any], paper: str, methods: dict[str, list[str]]) -> dict[str, Any]:
    """A shared statement as one of a paper; its key ends with the paper's name."""
    made = {name: value for name, value in row.items() if name != "figures"}
    for name, listed in methods.items():
        made["measured"] = _replaced(made["measured"], f"${name}", listed)
    if "key" in made:
        made["key"] = f"{made['key']}-{paper}"
    return made | {"figure": row["figures"][paper]}


def _claims_of(
    paper: str,
    figure: str | list[str],
    says: str,
    band: Any,
    measured: Any,
    by_code: bool = False,
    **more: str,
) -> list[Claim]:
    function, arguments, options = _call(band)
    wanted = _BANDS[function](*arguments, **options)
    figures = (figure,) if isinstance(figure, str) else tuple(figure)
    claims = [Claim(figures, says, wanted, measured_as(measured), **more)]
    if by_code and paper == "2019":
        measure = measured_as(_replaced(measured, "Power", POWER_2019))
        claims.append(
            Claim(figures, f"the same: {says}", wanted, measure, note=BY_CODE, kind="reading")
        )
    return claims


_BANDS = {band.__name__: band for band in (near, about, at_least, at_most, between)}


def _call(spec: dict[str, Any]) -> tuple[str, list[Any], dict[str, Any]]:
    """A function's name, its arguments and its options."""
    (function, arguments), *options = spec.items()
    return function, arguments if isinstance(arguments, list) else [arguments], dict(options)


def measured_as(spec: Any) -> Callable[[Any], list[Measured]]:
    """What a file says of a measurement, as a function of a table.

    A list holds several, whose points are judged together. Options of a call beside those of its
    function are ``for: [names]``, which takes each name for "{}" in the arguments; ``at:
    [queries]``, each by itself; and ``log10: true``, orders of magnitude. ``all`` is the function
    that does nothing but hold several with one such option.
    """
    if isinstance(spec, list):
        several = [measured_as(one) for one in spec]
        return lambda table: [found for measure in several for found in measure(table)]
    if isinstance(spec, str):
        spec = {spec: []}
    if "for" in spec:
        rest = {name: value for name, value in spec.items() if name != "for"}
        return _named({name: measured_as(_replaced(rest, "{}", name)) for name in spec["for"]})
    if "at" in spec:
        rest = {name: value for name, value in spec.items() if name != "at"}
        return _named({q: measured_as(_with_option(rest, "queries", [q])) for q in spec["at"]})
    function, arguments, options = _call(spec)
    if function == "all":
        return measured_as(arguments)
    is_log = options.pop("log10", False)

    def measure(table: Any) -> list[Measured]:
        found = getattr(_measures, function)(table, *arguments, **options)
        return [_log10(one) for one in found] if is_log else found

    return measure


def _named(measures: dict[str, Callable]) -> Callable[[Any], list[Measured]]:
    """The points of several measurements, each with the name of its own."""
    return lambda table: [
        one._replace(where=f"{name}, {one.where}".rstrip(", "))
        for name, measure in measures.items()
        for one in measure(table)
    ]


def _log10(one: Measured) -> Measured:
    return Measured(one.where, math.log10(one.value), one.error / one.value / math.log(10))


def _replaced(spec: Any, old: str, new: str) -> Any:
    """The same with another name."""
    if isinstance(spec, dict):
        return {name: _replaced(value, old, new) for name, value in spec.items()}
    if isinstance(spec, list):
        return [_replaced(value, old, new) for value in spec]
    return new if spec == old else spec


def _with_option(spec: dict[str, Any], name: str, value: Any) -> Any:
    """The same with an option of each call."""
    if "all" in spec:
        return spec | {"all": [_with_option(one, name, value) for one in spec["all"]]}
    return spec | {name: value}


FOLDER = Path(__file__).parent / "claims"
_SHARED = yaml.safe_load((FOLDER / "shared.yaml").read_text(encoding="utf-8"))["statements"]
PAPER_2020, PAPER_2019, CALIBRATE = PAPERS = [
    read_paper(FOLDER / "paper2020.yaml", _SHARED),
    read_paper(FOLDER / "paper2019.yaml", _SHARED),
    read_paper(FOLDER / "calibrate.yaml"),
]
CLAIMS = [claim for paper in PAPERS for claim in paper.claims]
CONCLUSIONS = [conclusion for paper in PAPERS for conclusion in paper.conclusions]
NOT_JUDGED = [row for paper in PAPERS for row in paper.not_judged]
