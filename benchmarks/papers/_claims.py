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
    """What counts as the published statement, and how the report says so."""

    low: float
    high: float
    text: str


def near(published: float, *, relative: float = 0.0, absolute: float = 0.0) -> Band:
    """The number, give or take; how much is ours to say."""
    slack = abs(published) * relative + absolute
    text = f"{published:,g} ± " + (f"{100 * relative:g} %" if relative else f"{absolute:,g}")
    return Band(published - slack, published + slack, f"{text} (ours)")


def about(published: float, factor: float = 2.0) -> Band:
    """The number, within a factor, which is ours to say."""
    return Band(
        published / factor, published * factor, f"{published:g}, within a factor {factor:g} (ours)"
    )


def at_least(published: float, *, ours: bool = False) -> Band:
    """The number or more; `ours` if it is not the paper's."""
    return Band(published, math.inf, f"≥ {published:g}" + " (ours)" * ours)


def at_most(published: float, *, ours: bool = False) -> Band:
    """The number or less; `ours` if it is not the paper's."""
    return Band(-math.inf, published, f"≤ {published:g}" + " (ours)" * ours)


def between(low: float, high: float, *, ours: bool = False) -> Band:
    """A range; `ours` if it is not the paper's."""
    return Band(low, high, f"{low:g} to {high:g}" + " (ours)" * ours)


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, or something that goes with one.

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
    kind : {"statement", "check", "reading"}
        A "check" holds by algebra, or because the data were made so: only a mistake of ours could
        break it. A "reading" is another way to understand a statement, or to compute what it is
        about. Neither counts as a statement.
    key : str
        A name by which the conclusions refer to it.
    """

    figure: str
    text: str
    band: Band
    measure: Callable[[Any], Sequence[Measured]]
    note: str = ""
    kind: str = "statement"
    key: str = ""


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
    return Finding(claim, data, measured, verdict_of(claim.band, measured))


def verdict_of(band: Band, measured: Sequence[Measured]) -> str:
    """One verdict on several points."""
    verdicts = [judge_one(band, one) for one in measured]
    n_good, n_bad = verdicts.count("reproduced"), verdicts.count("not reproduced")
    if not measured:
        return "no data"
    if n_good == len(verdicts):
        return "reproduced"
    if n_good and n_bad:
        return f"in part: {n_good} of {len(verdicts)} points"
    return "not reproduced" if n_bad else "undecided"


def by_claim(findings: Sequence[Finding]) -> list[Finding]:
    """One finding a claim: the points of all its data sets together."""
    grouped: dict[int, list[Finding]] = {}
    for finding in findings:
        grouped.setdefault(id(finding.claim), []).append(finding)
    return [
        Finding(
            found[0].claim,
            ", ".join(one.data for one in found if one.data),
            [point for one in found for point in one.measured],
            verdict_of(found[0].claim.band, [point for one in found for point in one.measured]),
        )
        for found in grouped.values()
    ]


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


def of_points(study: Any, axis: str = "epsilon", **where: Any) -> list[tuple[str, Any]]:
    """The parts of a study at each point of an axis, in words; a condition may be a function."""
    fixed = {name: wanted for name, wanted in where.items() if not callable(wanted)}
    part = study.select(**fixed)
    for name, holds in where.items():
        if callable(holds):
            values = dict.fromkeys(np.asarray(part[name]).tolist())
            part = part.select(**{name: [value for value in values if holds(value)]})
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


_ENOUGH = 20  # collections from which a regression on the error of Base is worth its own error


def errors_of(part: Any, method: str) -> np.ndarray:
    """Errors of a method in one cell, less what chance did to the error of Base there.

    The expected error of Base is known exactly. All methods see the same collections, so that what
    Base's error is above its expectation tells what is chance in theirs (a control variate).
    """
    (errors,) = part.select(postprocessor=[method]).errors
    expected = float(np.asarray(part["expected_base"])[0]) if "expected_base" in part.columns else 0
    rows = part.select(postprocessor=["Base"]).errors
    if not (np.isfinite(expected) and expected > 0 and len(rows) == 1):
        return errors
    excess = rows[0] - expected
    if method == "Base":
        return np.full_like(errors, expected)
    if len(errors) < _ENOUGH or np.ptp(excess) == 0:
        return errors
    slope = np.cov(errors, excess)[0, 1] / excess.var(ddof=1)
    return errors - slope * excess


def ratio(top: str, bottom: str, *, axis: str = "epsilon", **where: Any) -> Callable:
    """Error of one method over that of another, at each point."""

    def measure(study):
        return [
            Measured(label, *paired_ratio(errors_of(part, top), errors_of(part, bottom)))
            for label, part in of_points(study, axis, **where)
        ]

    return measure


def _over(pick: Callable) -> Callable:
    def over(method: str, others: Sequence[str], *, axis: str = "epsilon", **where: Any):
        def measure(study):
            found = []
            for label, part in of_points(study, axis, **where):
                rivals = {name: errors_of(part, name) for name in others if name != method}
                name = pick(sorted(rivals, key=lambda name: rivals[name].mean()))
                value, error = paired_ratio(errors_of(part, method), rivals[name])
                found.append(Measured(f"{label}, {name}", value, error))
            return found

        return measure

    return over


over_best = _over(lambda names: names[0])
over_best.__doc__ = "Error of a method over the least of the others, at each point."
over_worst = _over(lambda names: names[-1])
over_worst.__doc__ = "Error of a method over the greatest of the others, at each point."
over_typical = _over(lambda names: names[len(names) // 2])
over_typical.__doc__ = "Error of a method over the middle one of the others, at each point."


def best_over(
    methods: Sequence[str], method: str, *, axis: str = "epsilon", **where: Any
) -> Callable:
    """Least error of some methods over that of another: how far this one is ahead of them."""
    reverse = over_best(method, methods, axis=axis, **where)

    def measure(study):
        return [
            Measured(label, 1 / value, error / value**2) for label, value, error in reverse(study)
        ]

    return measure


def spread(methods: Sequence[str], *, axis: str = "epsilon", **where: Any) -> Callable:
    """Greatest error of some methods over their least, at each point."""

    def measure(study):
        found = []
        for label, part in of_points(study, axis, **where):
            errors = {name: errors_of(part, name) for name in methods}
            order = sorted(errors, key=lambda name: errors[name].mean())
            value, error = paired_ratio(errors[order[-1]], errors[order[0]])
            found.append(Measured(f"{label}, {order[-1]} / {order[0]}", value, error))
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


def each(methods: Sequence[str], one: Callable) -> Callable:
    """The measurements of several methods together."""

    def measure(study):
        return [
            found._replace(where=f"{method}, {found.where}".rstrip(", "))
            for method in methods
            for found in one(method)(study)
        ]

    return measure


def both(*measures: Callable) -> Callable:
    """The measurements of several parts of one sentence."""
    return lambda study: [one for measure in measures for one in measure(study)]


def last_over_first(top: str, bottom: str = "", *, axis: str = "epsilon", **where: Any) -> Callable:
    """Error at the end of an axis over that at its start; with `bottom`, of the ratio to it."""

    def measure(study):
        found = []
        for population in dict.fromkeys(np.asarray(study["population"]).tolist()):
            parts = of_points(study, axis, population=population, **where)
            if len(parts) < 2:
                continue
            ends = []
            for _, part in (parts[0], parts[-1]):
                errors = errors_of(part, top)
                below = errors_of(part, bottom) if bottom else np.ones_like(errors)
                ends.append(paired_ratio(errors, below))
            (first, error), (last, last_error) = ends
            value = last / first
            relative = math.hypot(error / first, last_error / last)
            found.append(Measured(population, value, value * relative))
        return found

    return measure


def symmetry(methods: Sequence[str], **where: Any) -> Callable:
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


def growth(methods: Sequence[str]) -> Callable:
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
