"""A published statement, what is measured for it, and a verdict that can fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

Z = 2.0  # standard errors by which a measurement may be off


class Measured(NamedTuple):
    """One measurement: where, its value and its standard error."""

    where: str
    value: float
    error: float = 0.0


class Band(NamedTuple):
    """What counts as the published number, and how the report says so."""

    low: float
    high: float
    text: str


def near(published: float, *, relative: float = 0.0, absolute: float = 0.0) -> Band:
    """The number, give or take."""
    slack = abs(published) * relative + absolute
    text = f"{published:,g} ± " + (f"{100 * relative:g} %" if relative else f"{absolute:,g}")
    return Band(published - slack, published + slack, text)


def about(published: float, factor: float = 2.0) -> Band:
    """The number, within a factor."""
    return Band(
        published / factor, published * factor, f"{published:g}, within a factor {factor:g}"
    )


def at_least(published: float) -> Band:
    """The number or more."""
    return Band(published, math.inf, f"≥ {published:g}")


def at_most(published: float) -> Band:
    """The number or less."""
    return Band(-math.inf, published, f"≤ {published:g}")


def between(low: float, high: float) -> Band:
    """A range that the paper itself gives."""
    return Band(low, high, f"{low:g} to {high:g}")


@dataclass(frozen=True)
class Claim:
    """A statement of a paper.

    Parameters
    ----------
    figure : str
        The figure of the study that it is about.
    text : str
        What the paper says, and of which quantity.
    band : Band
        What would confirm it.
    measure : callable
        From the figure's table to measurements.
    note : str
        What to know of the tolerance or of a failure.
    """

    figure: str
    text: str
    band: Band
    measure: Callable[[Any], Sequence[Measured]]
    note: str = ""


class Finding(NamedTuple):
    """A claim with what was measured, on which data, and the verdict."""

    claim: Claim
    data: str
    measured: list[Measured]
    verdict: str

    @property
    def ours(self) -> str:
        """The measurements as the report shows them."""
        if len(self.measured) == 1:
            (one,) = self.measured
            where = f" ({one.where})" if one.where else ""
            return f"{_number(one.value)} ± {_number(one.error)}{where}"
        low = min(self.measured, key=lambda one: one.value)
        high = max(self.measured, key=lambda one: one.value)
        return (
            f"{_number(low.value)} ± {_number(low.error)} ({low.where}) .. "
            f"{_number(high.value)} ± {_number(high.error)} ({high.where})"
        )


def judge_each(claim: Claim, table: Any) -> list[Finding]:
    """Judge a claim on each population of a table by itself, where there are several."""
    try:
        names = list(dict.fromkeys(np.asarray(table["population"]).tolist()))
    except KeyError:
        names = []
    if not names:
        return [judge(claim, table)]
    found = [judge(claim, table.select(population=[name]), name) for name in names]
    return [finding for finding in found if finding.measured]


def judge(claim: Claim, table: Any, data: str = "") -> Finding:
    """Measure, and compare: every point of a claim must lie in its band, error bars included."""
    measured = list(claim.measure(table))
    verdicts = [judge_one(claim.band, one) for one in measured]
    n_good, n_bad = verdicts.count("reproduced"), verdicts.count("not reproduced")
    if not measured:
        verdict = "no data"
    elif n_good == len(verdicts):
        verdict = "reproduced"
    elif n_good and n_bad:
        verdict = f"in part: {n_good} of {len(verdicts)} points"
    else:
        verdict = "not reproduced" if n_bad else "undecided"
    return Finding(claim, data, measured, verdict)


def judge_one(band: Band, one: Measured) -> str:
    """Whether the value with its error bar is in the band, out of it, or across its end."""
    low, high = one.value - Z * one.error, one.value + Z * one.error
    if not (math.isfinite(one.value) and math.isfinite(one.error)):
        return "not reproduced"
    if band.low <= low and high <= band.high:
        return "reproduced"
    if high < band.low or low > band.high:
        return "not reproduced"
    return "undecided"


def _number(value: float) -> str:
    if abs(value) < 1e-6:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


# -- what is measured -----------------------------------------------------------------------------
def paired_ratio(top: np.ndarray, bottom: np.ndarray) -> tuple[float, float]:
    """Ratio of mean errors of methods that saw the same collections, with its standard error."""
    ratio = top.mean() / bottom.mean()
    rest = top - ratio * bottom
    return ratio, rest.std(ddof=1) / np.sqrt(len(rest)) / bottom.mean()


def _points(study: Any, axis: str, where: dict) -> list[tuple[str, Any]]:
    """The parts of a study at each point of an axis, in words."""
    part = study.select(**where)
    several = len(set(np.asarray(part["population"]).tolist())) > 1
    found = []
    for population in dict.fromkeys(np.asarray(part["population"]).tolist()):
        of_population = part.select(population=population)
        for value in dict.fromkeys(np.asarray(of_population[axis]).tolist()):
            name = f"{axis} {value:g}" if isinstance(value, float) else f"{axis} {value}"
            label = name.replace("queries ", "")
            label = f"{population}, {label}" if several else label
            found.append((label, of_population.select(**{axis: [value]})))
    return found


def _errors(part: Any, method: str) -> np.ndarray:
    (errors,) = part.select(postprocessor=[method]).errors
    return errors


def ratio(top: str, bottom: str, *, axis: str = "epsilon", **where: Any) -> Callable:
    """Error of one method over that of another, at each point."""

    def measure(study):
        return [
            Measured(label, *paired_ratio(_errors(part, top), _errors(part, bottom)))
            for label, part in _points(study, axis, where)
        ]

    return measure


def over_best(method: str, others: list[str], *, axis: str = "epsilon", **where: Any) -> Callable:
    """Error of a method over the least of the others, at each point."""

    def measure(study):
        found = []
        for label, part in _points(study, axis, where):
            rivals = {name: _errors(part, name) for name in others if name != method}
            best = min(rivals, key=lambda name: rivals[name].mean())
            found.append(
                Measured(f"{label}, {best}", *paired_ratio(_errors(part, method), rivals[best]))
            )
        return found

    return measure


def over_worst(method: str, others: list[str], *, axis: str = "epsilon", **where: Any) -> Callable:
    """Error of a method over the greatest of the others, at each point."""

    def measure(study):
        found = []
        for label, part in _points(study, axis, where):
            rivals = {name: _errors(part, name) for name in others if name != method}
            worst = max(rivals, key=lambda name: rivals[name].mean())
            found.append(
                Measured(f"{label}, {worst}", *paired_ratio(_errors(part, method), rivals[worst]))
            )
        return found

    return measure


def best_over(methods: list[str], method: str, *, axis: str = "epsilon", **where: Any) -> Callable:
    """Least error of some methods over that of another: how far this one is ahead of them."""

    def measure(study):
        found = []
        for label, part in _points(study, axis, where):
            rivals = {name: _errors(part, name) for name in methods}
            best = min(rivals, key=lambda name: rivals[name].mean())
            found.append(
                Measured(f"{label}, {best}", *paired_ratio(rivals[best], _errors(part, method)))
            )
        return found

    return measure


def log10_of(measure: Callable) -> Callable:
    """Orders of magnitude of ratios."""

    def logs(study):
        return [
            Measured(label, math.log10(value), error / value / math.log(10))
            for label, value, error in measure(study)
        ]

    return logs


def symmetry(methods: list[str], **where: Any) -> Callable:
    """MSE on sets of ρ % over that on sets of (100 - ρ) %, for ρ below 50."""

    def measure(study):
        found = []
        for population in dict.fromkeys(study["population"].tolist()):
            for method in methods:
                part = study.select(population=[population], postprocessor=[method], **where)
                by_size = {float(q): e for q, e in zip(part["queries"], part.errors, strict=True)}
                found += [
                    Measured(
                        f"{population}, {method}, ρ {rho:g}",
                        *paired_ratio(errors, by_size[100 - rho]),
                    )
                    for rho, errors in by_size.items()
                    if rho < 50
                ]
        return found

    return measure


def growth(methods: list[str]) -> Callable:
    """Least ratio of the MSE at one size of sets to that at the size before, for each method."""

    def measure(study):
        found = []
        for population in dict.fromkeys(study["population"].tolist()):
            for method in methods:
                part = study.select(population=[population], postprocessor=[method])
                order = np.argsort(part["queries"].astype(float))
                errors = part.errors[order]
                steps = [paired_ratio(b, a) for a, b in pairwise(errors)]
                found.append(Measured(f"{population}, {method}", *min(steps)))
        return found

    return measure
