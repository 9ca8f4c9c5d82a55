"""Published statements, what is measured for each, and verdicts that can fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ._measures import Measured

Z = 2.0  # standard errors by which a measurement may be off


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

    A "check" holds by algebra, or because the data were made so: only a mistake of ours could break
    it. A "reading" is another way to understand a statement, or to compute what it is about.
    Neither counts as a statement.
    """

    figures: tuple[str, ...]  # that it is about; together they are one statement
    text: str  # what the paper says, and of which quantity
    band: Band  # what would confirm it
    measure: Callable[[Any], list[Measured]]  # from the figure's table
    note: str = ""  # what to know of the tolerance or of a failure
    kind: str = "statement"
    key: str = ""  # by which the conclusions refer to it
    printed: str = ""  # the number in the paper's text or tables; empty for a comparison in words


class Finding(NamedTuple):
    """A claim with what was measured, in which figure, on which data, and the verdict."""

    claim: Claim
    figure: str
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


def judge_each(claim: Claim, results: Mapping[str, Any]) -> list[Finding]:
    """Judge a claim in each of its figures that is there, and on each population by itself."""
    found = [
        judge(claim, part, figure, name)
        for figure in claim.figures
        if figure in results
        for name, part in _by_population(results[figure])
    ]
    return [one for one in found if one.measured or not one.data]


def _by_population(table: Any) -> list[tuple[str, Any]]:
    try:
        names = list(dict.fromkeys(np.asarray(table["population"]).tolist()))
    except KeyError:
        return [("", table)]
    return [(name, table.select(population=[name])) for name in names]


def judge(claim: Claim, table: Any, figure: str = "", data: str = "") -> Finding:
    """Measure, and compare: every point of a claim must lie in its band, error bars included."""
    measured = list(claim.measure(table))
    return Finding(claim, figure, data, measured, verdict_of(claim.band, measured))


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
    """One finding a claim: the points of all its figures and data sets together."""
    grouped: dict[int, list[Finding]] = {}
    for finding in findings:
        grouped.setdefault(id(finding.claim), []).append(finding)
    return [
        Finding(
            found[0].claim,
            ", ".join(dict.fromkeys(one.figure for one in found)),
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


# -- conclusions ----------------------------------------------------------------------------------
class Conclusion(NamedTuple):
    """What a reader takes home from a paper."""

    paper: str
    text: str
    rests_on: Sequence[str]  # keys of statements


def standing(verdicts: Sequence[str]) -> str:
    """Whether a conclusion stands, given the verdicts on its statements."""
    if all(verdict == "reproduced" for verdict in verdicts):
        return "stands"
    if all(verdict == "not reproduced" for verdict in verdicts):
        return "does not stand"
    return "undecided" if all(verdict == "undecided" for verdict in verdicts) else "stands in part"


def judge_conclusions(
    conclusions: Sequence[Conclusion], findings: Sequence[Finding]
) -> list[list[str]]:
    """Rows: paper, conclusion, the evidence if something was measured, and whether it stands."""
    rows = []
    for conclusion in conclusions:
        found = [one for one in findings if one.claim.key in conclusion.rests_on]
        if not found:
            continue
        evidence = "; ".join(f"{one.claim.text} ({_where(one)}): {one.ours}" for one in found)
        stands = standing([one.verdict for one in found])
        if stands == "stands in part":
            stands += f": {_share(found)}"
        rows.append([conclusion.paper, conclusion.text, evidence, stands])
    return rows


def _where(finding: Finding) -> str:
    return ", ".join(filter(None, [finding.figure, finding.data]))


def _share(findings: Sequence[Finding]) -> str:
    """How many of all points are in their bands."""
    verdicts = [judge_one(one.claim.band, point) for one in findings for point in one.measured]
    return f"{verdicts.count('reproduced')} of {len(verdicts)} points"
