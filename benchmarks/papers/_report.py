"""The report: verdicts, tables and pictures, written as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .._tables import markdown
from ._claims import Claim, Finding, by_claim, judge_conclusions, judge_each
from ._figure import Figure, Settings, columns
from ._published import CLAIMS, CONCLUSIONS, NOT_JUDGED

_INTRODUCTION = (
    "{figures}, computed with sklearn_ldp only. The papers are on frequency estimation under local "
    "differential privacy: {papers}."
)
_PAPERS = {
    "2020": "T. Wang et al., NDSS 2020 (doi 10.14722/ndss.2020.24157)",
    "2019": "T. Wang et al., 2019 (arXiv 1905.08320)",
    "calibrate": "J. Jia and N. Z. Gong, INFOCOM 2019 (doi 10.1109/INFOCOM.2019.8737527)",
}
_PRINTED = """\
These numbers are in the papers' text or tables. The authors' plots have no printed numbers, so
their curves are not compared."""
_SIZE = """\
This is the {size} study: {n_repeats} simulated collections of each cell, or more ({n_runs:,} for
bias and variance), seed {seed}, {seconds:.0f} seconds. Estimates come from each oracle's exact
law of support counts. OLH is the papers', with ideal hashing and the integer closest to e^ε + 1
(hash_family="mixing"). Error bars are standard errors of the mean; most are smaller than the
markers."""
_JUDGED = """\
A statement is *reproduced* if every measurement, two standard errors up and down, lies in the
band; *in part* if some lie in it and some outside; *not reproduced* if some lie outside and none
inside; *undecided* if error bars cross its end and none lies outside. A band is the paper's,
unless it says that it is ours. A point that the paper names is the point that is judged; where it
names none, all points of its figure are. Where several points were measured the least and the
greatest are shown. Errors are compared with the expected error of Base, which is known exactly,
and not with a simulated one."""
_READINGS = """\
Other ways to understand a statement above, or to compute what it is about. They do not count."""
_CHECKS = """\
What holds by algebra, or because the data were made so. Only a mistake of ours could break it, so
that it does not count as reproduced."""
_REST = """\
With those above, these are all sentences of the papers that have a number or a comparison."""
_PUZZLES = """\
What comes of them is in doc/notes/papers_contradicted.md: Norm-Cut's biases (table 2020-fig2),
Power by the code of 2019 (readings above, table 2019-fig2), and Calibrate's gains (tables
calibrate-fig7 and calibrate-readings)."""


def write_report(
    folder: Path,
    figures: dict[str, Figure],
    results: dict[str, Any],
    settings: Settings,
    seconds: dict[str, float],
    is_whole: bool = True,
) -> str:
    """Write report.md; return the verdicts as text.

    is_whole: whether the figures are all figures of the study. Otherwise the report has no section
    on other parts of the papers.
    """
    findings = [finding for claim in CLAIMS for finding in judge_each(claim, results)]
    blocks = _blocks(figures, results, findings, settings, seconds, is_whole)
    (folder / "report.md").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    lines = [f"{_counts(findings)}; the report is {folder / 'report.md'}"]
    open_claims = _without_verdict(findings, results)
    if open_claims:
        n = len(open_claims)
        lines.insert(0, f"{n} statement{'s are' if n > 1 else ' is'} undecided or not computed:")
        lines[1:1] = [f"  {where}: {text:.90} ({reason})" for where, text, reason in open_claims]
        if settings.quick:
            lines.append("--quick has fewer repeats and points. Omit it to decide more statements.")
    return "\n".join(lines)


def _without_verdict(findings: list[Finding], results: dict[str, Any]) -> list[list[str]]:
    """Rows of the statements about these figures that are not decided: figure, text, reason."""
    rows = []
    judged = {id(finding.claim) for finding in findings if finding.measured}
    for claim in _of_kind_of_claims("statement"):
        where = ", ".join(name for name in claim.figures if name in results)
        if where and id(claim) not in judged:
            rows.append([where, claim.text, "its data or points are not computed"])
    undecided = [
        [finding.figure, finding.claim.text, "the error bars are too long"]
        for finding in by_claim(_of_kind(findings, "statement"))
        if finding.verdict == "undecided"
    ]
    return rows + undecided


def _of_kind_of_claims(kind: str) -> list[Claim]:
    return [claim for claim in CLAIMS if claim.kind == kind]


def _tally(findings: list[Finding], words: dict[str, str] | None = None) -> str:
    kinds = [finding.verdict.split(":")[0] for finding in findings]
    words = words or {kind: kind for kind in sorted(set(kinds), reverse=True)}
    parts = [f"{kinds.count(kind)} {word}" for kind, word in words.items() if kind in kinds]
    return ", ".join(parts) or "none computed"


def _of_kind(findings: list[Finding], kind: str) -> list[Finding]:
    return [finding for finding in findings if finding.claim.kind == kind]


def _counts(findings: list[Finding]) -> str:
    """Statements, each of them once, whatever the number of its data sets."""
    statements = _of_kind(by_claim(findings), "statement")
    checks = _of_kind(by_claim(findings), "check")
    return (
        f"{len(statements)} statements: {_tally(statements)}; beside them "
        f"{len(checks)} checks: {_tally(checks, _OF_CHECKS)}"
    )


_OF_CHECKS = {
    "reproduced": "hold",
    "in part": "hold in part",
    "undecided": "are undecided",
    "not reproduced": "FAIL",
}


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return markdown(header, ([cell.replace("|", "\\|") for cell in row] for row in rows), "---")


def _blocks(figures, results, findings, settings, seconds, is_whole) -> list[str]:
    size = _SIZE.format(
        size="quick" if settings.quick else "whole",
        n_repeats=settings.n_repeats,
        n_runs=settings.n_runs,
        seed=settings.seed,
        seconds=sum(seconds.values()),
    )
    blocks = [
        "# The papers, reproduced",
        _introduction(figures, is_whole),
        "## Which conclusions of the papers stand",
        _counts(findings) + ".",
        _table(
            ["paper", "conclusion", "evidence", "does it stand?"],
            judge_conclusions(CONCLUSIONS, findings),
        ),
        "## Statements beside our measurements",
        size,
        _JUDGED,
        _by_data(findings, figures, settings),
        _verdicts(_of_kind(findings, "statement"), figures, settings),
    ]
    printed = [finding for finding in findings if finding.claim.printed]
    if printed:
        header = ["figure", "quantity", "data", "in print", "ours ± standard error"]
        rows = [[x.figure, x.claim.text, x.data, x.claim.printed, x.ours] for x in printed]
        blocks += ["## Printed numbers beside ours", _PRINTED, _table(header, rows)]
    open_claims = _without_verdict(findings, results)
    if open_claims:
        blocks += ["## Without a verdict", _table(["figure", "statement", "reason"], open_claims)]
    for kind, title, text in (
        ("reading", "Other readings", _READINGS),
        ("check", "Checks", _CHECKS),
    ):
        of_kind = _of_kind(findings, kind)
        if of_kind:
            blocks += [f"## {title}", text, _verdicts(of_kind, figures, settings)]
    blocks += ["## Data", _data(figures, settings)]
    if is_whole:
        blocks += ["## Puzzles", _PUZZLES, "## Sentences that are not judged", _REST]
        blocks.append(_table(["paper", "section", "sentence", "why not"], NOT_JUDGED))
    blocks.append("## Figures")
    for name, figure in figures.items():
        blocks += figure_blocks(name, figure, results[name], settings, seconds)
    return blocks


def _introduction(figures: dict[str, Figure], is_whole: bool) -> str:
    """Return the first paragraph, with the papers of these figures."""
    papers = [text for key, text in _PAPERS.items() if any(key in name for name in figures)]
    names = "All experiments" if is_whole else f"The experiments {', '.join(figures)}"
    return _INTRODUCTION.format(figures=names, papers="; ".join(papers or _PAPERS.values()))


def _kinds(finding: Finding, figures: dict[str, Figure], settings: Settings) -> dict[str, bool]:
    """Whether each population of a finding's figure is exact, by its name."""
    found = settings.populations(figures[finding.figure].data).values()
    return {population.name: population.is_exact for population in found}


def _is_exact(finding: Finding, figures: dict[str, Figure], settings: Settings) -> bool:
    """Whether the finding is on the paper's own data, or on the law that it states."""
    kinds = _kinds(finding, figures, settings)
    return all(kinds[name] for name in kinds if not finding.data or _is_of(finding.data, name))


def _is_of(data: str, name: str) -> bool:
    """Whether what was measured is on a population, maybe by one of its groupings."""
    return data == name or data.startswith(f"{name}, ")


def _by_data(findings: list[Finding], figures: dict[str, Figure], settings: Settings) -> str:
    rows = _of_kind(findings, "statement")
    exact = [finding for finding in rows if _is_exact(finding, figures, settings)]
    stand_in = [finding for finding in rows if not _is_exact(finding, figures, settings)]
    return (
        f"A row is a statement on one data set. On exact data, or draws from the law that the "
        f"paper states, {len(exact)} rows: {_tally(exact)}. On stand-ins for data that we do not "
        f"have, {len(stand_in)} rows: {_tally(stand_in)}; there a verdict is about the statement, "
        "and not about the authors' data."
    )


def _verdicts(findings, figures, settings) -> str:
    rows = []
    for finding in findings:
        claim = finding.claim
        kinds = _kinds(finding, figures, settings)
        name = finding.data or next(iter(kinds), "")
        text = claim.text + (f" ({claim.note})" if claim.note else "")
        of = (
            "exact" if is_exact else "stand-in" for p, is_exact in kinds.items() if _is_of(name, p)
        )
        data = ", ".join([name, *of])
        rows.append([finding.figure, text, data, claim.band.text, finding.ours, finding.verdict])
    header = ["figure", "the paper says", "data", "band", "ours ± standard error", "verdict"]
    return _table(header, rows)


def _data(figures: dict[str, Figure], settings: Settings) -> str:
    keys = list(dict.fromkeys(key for figure in figures.values() for key in figure.data))
    rows = []
    for key in keys:
        population = settings.population(key)
        used = ", ".join(name for name, figure in figures.items() if key in figure.data)
        if population is None:
            rows.append([key, "", "its file is not there: left out", used])
            continue
        kind = "exact: " if population.is_exact else "stand-in: "
        rows.append([population.name, population.paper, kind + population.ours, used])
    return _table(["data", "in the paper", "here", "figures"], rows)


def figure_blocks(name, figure, table, settings, seconds) -> list[str]:
    found = settings.populations(figure.data).values()
    used = "; ".join(
        f"{p.name}: {'exact' if p.is_exact else 'stand-in'}, n = {p.n_samples:,}, "
        f"d = {len(p.counts):,}"
        for p in found
    )
    blocks = [f"### {name}: {figure.title}"]
    missing = figure.missing(settings)
    text = f"Data: {used or 'see the table'}."
    if missing:
        text += f" Left out for want of data: {', '.join(missing)}."
    blocks.append(f"{text} {figure.note} ({name}.csv, {seconds[name]:.1f} s)".replace("  ", " "))
    if figure.draw is not None:
        blocks.append(f"![{figure.title}]({name}.png)")
    if figure.draw is None or figure.summary is not None:
        found = columns(table if figure.summary is None else figure.summary(table))
        rows = list(zip(*(values.tolist() for values in found.values()), strict=True))
        if len(rows) <= _MOST_ROWS:
            blocks.append(_table(list(found), [[_cell(cell) for cell in row] for row in rows]))
    return blocks


_MOST_ROWS = 100  # longer tables are in the CSV file alone


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
