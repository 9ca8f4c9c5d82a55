"""The one page that shows an estimate, and what all that is shown on one has in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .support.files import replacing
from .support.kept import keep
from .support.privacy import HARDLY_ANY
from .support.tags import Tagged
from .support.text import number_texts, printable, rounded_up

_MOST_BARS, _MOST_COLUMNS, _MOST_ROWS, _MOST_NAMES, _MOST_LABELS = 30, 256, 100, 8, 5
_MOST_SERIES = 6  # pictures of categories over the rows of an estimate
_MINUS = "\N{MINUS SIGN}"
_BAR, _LINE = "#7ba7d7", "#1d3557"
_HOW_NOISY = ("a mean", "a share that nobody has")
_LABEL = 56  # characters of a name beside its bar
# Also a file of its own, where a page may have no styles in it.
STYLE = """\
.ldp { font: 15px/1.5 system-ui, sans-serif; max-width: 46rem; overflow-wrap: anywhere; }
.ldp h1 { font-size: 1.35rem; line-height: 1.25; }
.ldp h2 { font-size: 1.05rem; margin: 1.4em 0 .3em; }
.ldp dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0; }
.ldp dt { color: #666; } .ldp dd { margin: 0; } .ldp ul { margin: 0; padding-left: 1.2rem; }
.ldp svg { display: block; width: 100%; font: 13px system-ui, sans-serif; overflow: visible; }
.ldp table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
.ldp th, .ldp td { padding: .15rem .5rem; text-align: right; border-bottom: 1px solid #8884; }
.ldp .wide { overflow-x: auto; }
.ldp th { overflow-wrap: normal; } .ldp td + td { white-space: nowrap; }
.ldp th:first-child, .ldp td:first-child { text-align: left; padding-left: 0; }
.ldp pre { white-space: pre-wrap; font-size: 13px; }
.ldp summary { font-size: 1.05rem; font-weight: bold; margin: 1.4em 0 .3em; cursor: pointer; }
.ldp p { margin: .3em 0; color: #666; }
@media print { .ldp svg, .ldp tr, .ldp li { break-inside: avoid; } }
"""
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ margin: 1.5rem auto; padding: 0 1rem; max-width: 46rem; color: #222; background: #fff; }}
{style}</style>
{body}
</html>
"""


class EstimateReport:
    """A page that shows an estimate, for a notebook and as a file.

    It has the picture and the table with intervals that hold at once, so that they may be sorted
    and cut; what may be said, and what not; and how the estimate was made. The file is one page of
    HTML without scripts and without anything that a browser would load. Estimates make it
    themselves (``estimate.report()``).

    Parameters
    ----------
    description : dict
        What ``estimate.describe()`` returns.

    Attributes
    ----------
    html : str
        The report as a part of a page, without its style.

    Examples
    --------
    >>> from sklearn_ldp import OUE
    >>> oracle = OUE(3.0, categories=["a", "b", "c"], random_state=0)
    >>> estimate = oracle.fit_transform(["b"] * 900 + ["a"] * 100)
    >>> estimate.report(question="Which letter?")
    EstimateReport: Which letter?
        'b' is the most frequent (95 % confidence).
      'a' is the second most frequent (95 % confidence).
      'c' is the third most frequent (95 % confidence).
      Shares are above 0 for 2 of the 3 categories: see their intervals (95 % confidence).
    """

    def __init__(self, description: dict[str, Any]) -> None:
        self.description = description

    def __repr__(self) -> str:
        parts = self.description.get("parts", [self.description])
        said = [one for part in parts for one in (part.get("remark"), *part["may_be_said"]) if one]
        return "\n  ".join([f"{type(self).__name__}: {_title(self.description)}", *said[:20]])

    def _repr_html_(self) -> str:
        return f"<style>\n{STYLE}</style>\n{self.html}"

    @property
    def html(self) -> str:
        """The report as a part of a page, without its style."""
        whole = self.description
        head = f"<h1>{escape(_title(whole))}</h1>\n"
        if "parts" not in whole:
            return f'<div class="ldp">{head}{_body(whole)}</div>'
        parts = "".join(f"<h1>{escape(one['name'])}</h1>\n{_body(one)}" for one in whole["parts"])
        return f'<div class="ldp">{head}{_series(whole)}{parts}</div>'

    def save(self, path: str | PathLike[str]) -> None:
        """Write the report to a file, as one page of HTML.

        Parameters
        ----------
        path : path-like
            The file, such as ``report.html``; an existing one is replaced.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        page = _PAGE.format(title=escape(_title(self.description)), style=STYLE, body=self.html)
        with replacing(Path(path)) as file:
            file.write(page.encode("utf-8", "replace"))


class Reported:
    """Mixin of what can be described, shown on a page and kept in a file."""

    def describe(self, level: float = 0.95, *, question: str = "") -> dict[str, Any]:
        """Return the content of a report, as a dict of plain values.

        Parameters
        ----------
        level : float, default=0.95
            Probability that all intervals of an estimate hold at once; and that each sentence is
            true.
        question : str, default=""
            What users were asked.

        Returns
        -------
        dict
            With `rows` (a dict for each category, as in ``to_frame(level)``), `n_samples`,
            `epsilon`, `oracle`, `configuration`, `noise_level`, `interval` (how the intervals
            hold), `may_be_said`, `may_not_be_said`, `made_by` and others. What is not known is
            None. Several estimates have such a dict each, in `parts`.

        Raises
        ------
        ValueError
            If the level is not in [0.5, 1).
        """
        raise NotImplementedError

    def report(
        self, level: float = 0.95, *, question: str = "", of: str | None = None
    ) -> EstimateReport:
        """Return a page that shows the estimate, for a notebook and as a file.

        Parameters
        ----------
        level : float, default=0.95
            As for `describe`.
        question : str, default=""
            What users were asked: the title of the page.
        of : {"users", "population"}, default=None
            Of a :class:`~sklearn_ldp.FrequencyEstimate`, whom it is about, as for `describe`.

        Returns
        -------
        EstimateReport
            A notebook shows it, and ``report().save("report.html")`` writes it.

        Raises
        ------
        ValueError
            As for `describe`.
        """
        about = {} if of is None else {"of": of}
        return EstimateReport(self.describe(level, question=question, **about))


class Kept(Tagged, Reported):
    """Mixin of estimates, which are shown and kept."""

    def save(self, path: str | PathLike[str]) -> None:
        """Keep the estimate in a file, with its categories, its noise and its oracle.

        The file holds arrays and JSON, and no pickle. An oracle, or another object with parameters,
        is kept by these. :func:`sklearn_ldp.load_estimate` reads it, and needs the classes of other
        packages that the estimate holds.

        Parameters
        ----------
        path : path-like
            The file, such as ``estimate.npz``; it appears as a whole or not at all.

        Raises
        ------
        TypeError
            If the estimate holds something that is neither a number nor text nor of this package.
        OSError
            If the file cannot be written.
        """
        keep(self, path)


# -- the parts of a page --------------------------------------------------------------------------
def _title(description: dict[str, Any]) -> str:
    """The question, or what is shown of which domains."""
    if description["question"]:
        return printable(description["question"])
    if "parts" not in description:
        return printable(f"{description['shown']}: {description['domain'].partition(':')[0]}")
    if not (parts := description["parts"]):
        return printable(description["heading"])
    names = [part["name"] for part in parts]
    more = ", ..." * (len(names) > _MOST_NAMES)
    return printable(f"{parts[0]['shown']}: {', '.join(names[:_MOST_NAMES])}{more}")


def _body(part: dict[str, Any]) -> str:
    """The report of one estimate."""
    remark, shown = escape(part.get("remark") or ""), f"{part['shown']}{_after(part)}"
    if any("low" in row for row in part["rows"]):
        shown += f", and {_intervals(part)}"
    sections = [
        ("", f"<p>{remark}</p>" if remark else ""),
        ("", _facts(part)),
        (shown, _picture(part)),
        ("What may be said", _sentences(part["may_be_said"])),
        ("What may not be said", _sentences(part["may_not_be_said"])),
        ("The numbers", _table(part)),
    ]
    told = [f"<h2>{escape(head)}</h2>\n{text}" if head else text for head, text in sections if text]
    return "\n".join([*told, _made_by(part)])


def _made_by(part: dict[str, Any]) -> str:
    """What only those want to know who make it again, folded."""
    left_out = ("oracle", "epsilon", "n_categories", "domain_sha256", "p", "q")
    configuration = (part["configuration"] or {}).items()
    known = [printable(f"# {k} = {v}") for k, v in configuration if k not in left_out and v != ""]
    content = escape("\n".join(filter(None, [*known, part["made_by"]])))
    head = "<summary>How it was made</summary>"
    return f"<details>{head}<pre>{content}</pre></details>" if content else ""


def _facts(part: dict[str, Any]) -> str:
    facts = {
        "domain": part["domain"],
        "users": _users(part),
        "epsilon": part["epsilon"] and _of_epsilon(part["epsilon"]),
        "oracle": part["oracle"],
        "noise level": part["noise_level"]
        and f"{part['noise_level']:.2g}: the standard error of {_HOW_NOISY[part['unit'] == '%']}",
        "about": part["of"],
        "after": ", ".join(part["postprocessors"]),
    }
    items = (f"<dt>{k}</dt><dd>{escape(str(v))}</dd>" for k, v in facts.items() if v)
    return f"<dl>{''.join(items)}</dl>"


def _of_epsilon(epsilon: float) -> str:
    """What epsilon is, in words as far as it protects."""
    if epsilon > HARDLY_ANY:
        return f"{epsilon}"
    times = rounded_up(math.exp(epsilon))
    return f"{epsilon}: no answer makes a report more than {times} times as likely as another"


def _after(part: dict[str, Any]) -> str:
    names = ", ".join(part["postprocessors"])
    return f" after {names}" * bool(names)


def _intervals(part: dict[str, Any], where: str = "") -> str:
    """How intervals hold, in words: of "95 % simultaneous, of raw" for the table of an estimate."""
    level, _, of_raw = part["interval"].partition(" simultaneous")
    return f"intervals ({level}, simultaneous{where})" + ", of the raw values" * bool(of_raw)


def _users(part: dict[str, Any]) -> str | None:
    """How many users there were, and how many of them were asked for this part of a survey."""
    n_users, n_asked = part["n_samples"], part.get("n_asked")
    if n_users is None:
        return None
    if each := part.get("n_each"):
        return " against ".join(f"{n:,}" for n in each)
    is_part = n_asked is not None and n_asked < n_users
    return f"{n_users:,}" + (f", of whom {n_asked:,} were asked" if is_part else "")


def _sentences(sentences: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(printable(one))}</li>" for one in sentences)
    return f"<ul>{items}</ul>" if items else ""


def _table(part: dict[str, Any]) -> str:
    rows = _in_order(part)
    value, is_raw = part["value"], not part["postprocessors"]
    level, _, of_raw = part["interval"].partition(" simultaneous")
    places = {"count": 3, "estimate": 4, "low": 5 if of_raw else 2}
    places |= {"category": 0, value: 1}  # what is shown in the picture comes first
    heads = [name for name in (rows[0] if rows else {}) if name not in ("high", "interval")]
    heads.sort(key=lambda name: places.get(name, 6))
    names = {"low": f"interval ({level})", "frequency": "share"}
    names |= {} if is_raw else {"estimate": "raw"}
    head = "".join(f"<th>{escape(str(names.get(name, name)))}</th>" for name in heads)
    show, shown = _shower(part, rows), rows[:_MOST_ROWS]
    cells = (
        "".join(f"<td>{escape(_cell(part, name, row, show))}</td>" for name in heads)
        for row in shown
    )
    body = "".join(f"<tr>{one}</tr>" for one in cells)
    n_more = len(rows) - _MOST_ROWS
    more = f"<p>{n_more:,} more are in the estimate.</p>" if n_more > 0 else ""
    table = f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'
    shares = [row[name] for row in shown for name in ("estimate", "frequency") if name in row]
    of = " (it is around the raw value)" * bool(of_raw)
    if value == "frequency" and not of_raw:  # of a trend, whose intervals hold on conditions
        of = " but for what may not be said"
    told = {
        "frequency": f'"{part["shown"]}{_after(part)}" of the picture',
        "estimate": "the share as reports alone tell it: noise may put it below 0 or above 100 %",
        "difference": part["shown"],
        "low": f"with a probability of {level}, all of them contain the truth{of}",
        "count": f'the number of users that the column "{names.get(value, value)}" stands for',
    }
    words = [(names.get(name, name), told[name]) for name in heads if name in told]
    below = "".join(f"<p>{escape(name)}: {escape(text)}.</p>" for name, text in words)
    return f"{table}{_footnote(part, shares)}{more}{below}" if rows else ""


def _mark(part: dict[str, Any], share: float) -> str:
    """A star at shares that cannot be; a footnote tells what it means."""
    return " *" * (part["unit"] == "%" and not -1e-9 <= share <= 1 + 1e-9)


def _look(part: dict[str, Any], share: float) -> str:
    """The fill of a bar, and only its outline if it cannot be."""
    if _mark(part, share):
        return f'fill="none" stroke="{_BAR}" stroke-dasharray="2 2"'
    return f'fill="{_BAR}"'


def _footnote(part: dict[str, Any], shares: Sequence[float]) -> str:
    marked = [share for share in shares if _mark(part, share)]
    places = [("below", min(marked, default=0.0) < 0), ("above", max(marked, default=0.0) > 1)]
    where = " or ".join(place for place, is_there in places if is_there)
    return f"<p>* {where} what is possible, by noise: the interval ends there.</p>" * bool(where)


def _cell(
    part: dict[str, Any], name: str, row: dict[str, Any], show: Callable[[float], str]
) -> str:
    value = row[name]
    if name == "low":
        return f"{show(value).partition(' ')[0]} to {show(row['high'])}"
    if name == "count":
        text = f"{value:,.0f}".replace("-", _MINUS) + _mark(part, row[part["value"]])
        return "0" if round(value) == 0 else text
    if name == "p_value":
        return f"{value:.2g}"
    if isinstance(value, tuple):  # of a table
        return printable(", ".join(map(str, value)))
    return f"{show(value)}{_mark(part, value)}" if isinstance(value, float) else printable(value)


def _in_order(part: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows in the order of the domain if that is of numbers, otherwise the largest first."""
    rows = part["rows"]
    if part["is_ordered"]:
        return rows
    size: Any = abs if part["unit"] == "points" else float
    return sorted(rows, key=lambda row: -size(row[part["value"]]))


def _shower(part: dict[str, Any], rows: Sequence[dict[str, Any]]) -> Callable[[float], str]:
    """How numbers are written: with the digits that the shortest of the intervals leaves."""
    if not (unit := part["unit"]):
        return lambda x: f"{x:.4g}"
    widths = [100 * (row["high"] - row["low"]) for row in rows if "low" in row]
    widths = [width for width in widths if width > 0] or [1.0]
    decimals = int(np.clip(1 - np.floor(np.log10(min(widths))), 0, 6))

    def show(x: float) -> str:
        rounded = round(100 * x, decimals) + 0.0  # 0 has no sign
        return f"{rounded:.{decimals}f} {unit}".replace("-", _MINUS)

    return show


# -- pictures: in percent of the width, so that text has the same size on a page of any width -----
def _picture(part: dict[str, Any]) -> str:
    """A bar for each category, or columns in the order of the domain."""
    rows = _in_order(part)
    if part.get("ranges"):
        return _columns(part["ranges"], part)
    if part["is_ordered"] and _MOST_BARS < len(rows) <= _MOST_COLUMNS:
        places = [{"from": i, "to": i + 1, "name": row["category"]} for i, row in enumerate(rows)]
        return _columns([{**place, **row} for place, row in zip(places, rows, strict=True)], part)
    return _bars(rows[:_MOST_BARS], part, len(rows))


def _series(whole: dict[str, Any]) -> str:
    """Columns of the rows of one estimate, such as weeks, for each of its largest categories."""
    parts = whole["parts"]
    if not whole.get("is_series") or not 1 < len(parts) <= _MOST_COLUMNS:
        return ""
    first, drawn = {**parts[0], "ranges": None, "scale": "linear"}, []
    means = np.mean([[row[first["value"]] for row in part["rows"]] for part in parts], axis=0)
    for place in np.argsort(-means, kind="stable")[:_MOST_SERIES]:
        rows = [
            {**part["rows"][place], "from": i, "to": i + 1, "name": part["name"]}
            for i, part in enumerate(parts)
        ]
        head = f"<h2>{escape(_cell(first, 'category', rows[0], str))}</h2>"
        drawn.append(head + _columns(rows, {**first, "rows": rows}))
    where = _intervals(first, " in each row")
    n, names = len(first["rows"]), f"{first['shown']}{_after(first)}, row by row, and {where}"
    kept = f"<p>The {len(drawn)} largest of {n:,} categories.</p>" if len(drawn) < n else ""
    return f"<p>{names}</p>{''.join(drawn)}{kept}"


def _bars(rows: list[dict[str, Any]], part: dict[str, Any], n: int) -> str:
    value, show = part["value"], _shower(part, rows)
    ends = [[row.get("low", row[value]), row.get("high", row[value]), row[value]] for row in rows]
    least, most = _scale(ends, part)
    at = _axis(least, most)
    shapes = []
    for i, row in enumerate(rows):
        y, name = 40 * i, _cell(part, "category", row, str)
        short = name if len(name) <= _LABEL else f"{name[: _LABEL - 3]}..."
        zero, end = sorted((at(min(max(0.0, least), most)), at(row[value])))
        shapes += [
            f'<text x="0" y="{y + 14}" fill="currentColor">{escape(short)}'
            f"<title>{escape(name)}</title></text>",
            f'<text x="100%" y="{y + 14}" text-anchor="end" fill="currentColor">'
            f"{show(row[value])}{_mark(part, row[value])}</text>",
            f'<rect x="{zero:.2f}%" y="{y + 20}" width="{end - zero:.2f}%" height="10" '
            f"{_look(part, row[value])}/>",
        ]
        if "low" in row:
            shapes.append(_whisker(at(row["low"]), at(row["high"]), y + 25))
    kept = "" if len(rows) == n else f"<p>The {len(rows)} largest of {n:,}.</p>"
    return _svg(shapes, 40 * len(rows), part, rows) + kept


def _columns(rows: list[dict[str, Any]], part: dict[str, Any]) -> str:
    """Columns in their order, as high as their shares for each unit of their widths."""
    value, height = part["value"], 220
    on_axis: Any = math.log10 if part.get("scale") == "log" else float
    widths = np.array([on_axis(row["to"]) - on_axis(row["from"]) for row in rows])
    per = widths.mean() / widths  # columns of one width are as high as their shares
    shown = [[row.get("low", row[value]), row.get("high", row[value]), row[value]] for row in rows]
    ends = per[:, None] * shown
    least, most = _scale(ends, part)
    along = _axis(on_axis(rows[0]["from"]), on_axis(rows[-1]["to"]))
    up = _axis(least, most, height, 16)

    def at(number: float) -> float:
        return along(on_axis(number))

    shapes = []
    for (low, high, one), row in zip(ends, rows, strict=True):
        left, right = at(row["from"]), at(row["to"])
        top, bottom = sorted((up(one), up(max(0.0, least))))
        shapes += [
            f'<rect x="{left:.2f}%" y="{top:.1f}" width="{0.9 * (right - left):.2f}%" '
            f'height="{bottom - top:.1f}" {_look(part, row[value])}/>',
            f'<line x1="{(left + right) / 2:.2f}%" x2="{(left + right) / 2:.2f}%" '
            f'y1="{up(high):.1f}" y2="{up(low):.1f}" stroke="{_LINE}" stroke-width="1.5"/>',
        ]
    shapes += [
        f'<text x="{at(x):.2f}%" y="{height + 16}" text-anchor="{_anchor(at(x))}" '
        f'fill="currentColor">{escape(text)}</text>'
        f'<line x1="{at(x):.2f}%" x2="{at(x):.2f}%" y1="{height}" y2="{height + 4}" '
        'stroke="#888"/>'
        for x, text in _ticks(rows, part)
    ]
    each = "" if np.allclose(per, 1, rtol=0.01) else ", for a column of the mean width"
    shapes += [
        f'<line x1="0" x2="100%" y1="{up(x):.1f}" y2="{up(x):.1f}" stroke="#8888"/>'
        f'<text x="0" y="{up(x) - 4:.1f}" fill="currentColor">{100 * x:.3g} %{each}</text>'
        for x in (most / 2, most)
    ]
    bins = len(part["rows"])
    kept = f"<p>{len(rows)} ranges of the {bins:,} bins.</p>" if len(rows) < bins else ""
    return _svg(shapes, height + 20, part, rows) + kept


def _ticks(rows: list[dict[str, Any]], part: dict[str, Any]) -> list[tuple[float, str]]:
    """Places and texts along the axis: powers of ten, or the ends and the middle."""
    start, stop = rows[0]["from"], rows[-1]["to"]
    if part.get("scale") == "log":
        exponents = range(math.ceil(math.log10(start)), math.floor(math.log10(stop)) + 1)
        if len(exponents) > 1:
            tens = [10.0**k for k in exponents]
            step = math.ceil(len(tens) / _MOST_LABELS)
            names = [one if i % step == 0 else "" for i, one in enumerate(number_texts(tens))]
            return list(zip(tens, names, strict=True))
    middle = rows[len(rows) // 2]
    ends = [(start, rows[0], "from"), (middle["from"], middle, "from"), (stop, rows[-1], "to")]
    return [(x, _short(row.get("name", row[key]))) for x, row, key in ends]


def _anchor(place: float) -> str:
    """How a text stands at its place: it must not leave the picture."""
    return "start" if place < 5 else "end" if place > 95 else "middle"


def _axis(least: float, most: float, start: float = 0, stop: float = 100) -> Callable[..., float]:
    """Where a number stands between the ends of a scale."""
    slope = (stop - start) / (most - least)
    return lambda x: start + (x - least) * slope


def _scale(ends: Iterable[Sequence[float]], part: dict[str, Any]) -> tuple[float, float]:
    numbers = [x for one in ends for x in one]
    least, most = part.get("bounds") or (min([0.0, *numbers]), max([0.0, *numbers]))
    return least, most if most > least else least + 1.0


def _whisker(low: float, high: float, y: float) -> str:
    lines = [(low, high, y, y), (low, low, y - 4, y + 4), (high, high, y - 4, y + 4)]
    return "".join(
        f'<line x1="{a:.2f}%" x2="{b:.2f}%" y1="{c}" y2="{d}" stroke="{_LINE}" stroke-width="1.5"/>'
        for a, b, c, d in lines
    )


def _short(value: Any) -> str:
    return number_texts([value])[0] if isinstance(value, float) else printable(value)[:16]


def _svg(
    shapes: Iterable[str], height: int, part: dict[str, Any], rows: Sequence[dict[str, Any]]
) -> str:
    """The picture of some rows, and the footnote to them."""
    content = "\n".join(shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(part["shown"])}" '
        f'height="{height}">\n{content}\n</svg>'
    ) + _footnote(part, [row[part["value"]] for row in rows])
