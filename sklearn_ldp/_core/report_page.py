"""The HTML report of an estimate, and base classes of the objects that have such a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .common.files import replacing
from .common.kept import keep
from .common.privacy import HARDLY_ANY
from .common.tags import Tagged
from .common.text import grouped_digits, number_texts, printable, rounded_up

_MOST_BARS = 30
_MOST_COLUMNS = 256
_MOST_ROWS = 100
_MOST_NAMES = 8
_MOST_LABELS = 5
_MOST_CELLS = 4096  # of a map
_MOST_SERIES = 6  # plots of categories over the rows of an estimate
_MINUS = "\N{MINUS SIGN}"
_BAR = "#7ba7d7"
_LINE = "#1d3557"
_HOW_NOISY = ("a mean", "a share of 0 %")
_LABEL_WIDTH = 15  # minimum distance of labels of an axis, in percent of its width
_LABEL = 56  # maximum number of characters of a name beside its bar
# The server sends it as a separate file, because its pages may not contain styles.
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
    """A report of an estimate as an HTML page, for a notebook or a file.

    The page has a plot, a table with simultaneous intervals (so readers may select rows),
    statements that the estimate supports, statements that it does not support, and the settings of
    the collection. The file contains no scripts, and a browser loads no other files.
    ``estimate.report()`` creates the page.

    Parameters
    ----------
    description : dict
        The result of ``estimate.describe()``.

    Attributes
    ----------
    html : str
        The report as HTML that can be put into a page, without the styles.

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
      2 of the 3 categories have a share above 0 (95 % confidence).
    """

    def __init__(self, description: dict[str, Any]) -> None:
        self.description = description

    def __repr__(self) -> str:
        sentences = []
        for part in self.description.get("parts", [self.description]):
            sentences += [part.get("remark"), *part["may_be_said"]]
        lines = [f"{type(self).__name__}: {_title(self.description)}", *filter(None, sentences)]
        return "\n  ".join(lines[:21])

    def _repr_html_(self) -> str:
        return f"<style>\n{STYLE}</style>\n{self.html}"

    @property
    def html(self) -> str:
        """The report as HTML that can be put into a page, without the styles."""
        description = self.description
        content = f"<h1>{escape(_title(description))}</h1>\n"
        if "parts" not in description:
            return f'<div class="ldp">{content}{_body(description)}</div>'
        content += _series(description)
        for part in description["parts"]:
            content += f"<h1>{escape(part['name'])}</h1>\n{_body(part)}"
        return f'<div class="ldp">{content}</div>'

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
    """Mixin class for results such as estimates, with the methods `describe` and `report`."""

    def describe(
        self, level: float = 0.95, *, question: str = "", of: str | None = None
    ) -> dict[str, Any]:
        """Return the content of the report page (see `report`) as a dict of plain values.

        Parameters
        ----------
        level : float, default=0.95
            Probability that all intervals of an estimate together cover the truth. Each sentence of
            the report is also true with this probability.
        question : str, default=""
            The question that users were asked.
        of : {"users", "population"}, default=None
            The people to whom intervals and sentences refer: the users, or a population of which
            the users are a random sample. None is the default of `confidence_interval`.

        Returns
        -------
        dict
            Among other entries: `rows` (a dict for each category, as in ``to_frame(level)``),
            `n_samples`, `epsilon`, `oracle`, `configuration`, `noise_level`, `interval` (the level
            and the kind of the intervals), `may_be_said` and `may_not_be_said` (lists of
            sentences), and `made_by` (Python code for this estimate). Unknown entries are None. For
            several estimates, the entry `parts` is a list with one such dict for each estimate.

        Raises
        ------
        ValueError
            If the level is not in [0.5, 1).
        """
        raise NotImplementedError

    def report(
        self,
        level: float = 0.95,
        *,
        question: str = "",
        of: str | None = None,
        at_all_times: bool | int = False,
    ) -> EstimateReport:
        """Return a report of the estimate as an HTML page, for a notebook or a file.

        Parameters
        ----------
        level : float, default=0.95
            Level of the intervals and the sentences, as for `describe`.
        question : str, default=""
            The question that users were asked; it is the title of the page.
        of : {"users", "population"}, default=None
            The people to whom intervals and sentences refer, as for `describe`.
        at_all_times : bool or int, default=False
            Whether a :class:`~sklearn_ldp.FrequencyEstimate` is reported for all looks at a growing
            collection, as for `describe`.

        Returns
        -------
        EstimateReport
            The page. A notebook shows it, and ``report().save("report.html")`` writes a file.

        Raises
        ------
        ValueError
            As for `describe`, and if `at_all_times` is not False for another class.
        """
        options: dict[str, Any] = {"question": question, "of": of}
        if at_all_times is not False:
            if "at_all_times" not in signature(self.describe).parameters:
                raise ValueError(
                    f"A report of {type(self).__name__} has no intervals for all looks. Leave out "
                    "at_all_times=, and use confidence_interval(at_all_times=) if it is available."
                )
            options["at_all_times"] = at_all_times
        return EstimateReport(self.describe(level, **options))


class Kept(Tagged, Reported):
    """Mixin class for estimates, with the methods `describe`, `report` and `save`."""

    def save(self, path: str | PathLike[str]) -> None:
        """Save the estimate in a file, with its categories, its noise and its oracle.

        The file contains arrays and JSON, and no pickle. An oracle, or another object with
        parameters, is saved as its class name and its parameters. Read the file with
        :func:`sklearn_ldp.load_estimate`. If the estimate contains objects of other packages'
        classes, pass these classes to it.

        Parameters
        ----------
        path : path-like
            The file, such as ``estimate.npz``. A failed call leaves no partial file.

        Raises
        ------
        TypeError
            If the estimate contains an object that the file format does not support.
        OSError
            If the file cannot be written.
        """
        keep(self, path)


# -- the parts of a page --------------------------------------------------------------------------
def _title(description: dict[str, Any]) -> str:
    """Return the title of the report page.

    It is the question if there is one, otherwise a text with the quantity and the domain.
    """
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
    """Return the HTML of the report of one estimate, without its title."""
    remark = escape(part.get("remark") or "")
    shown = f"{part['shown']}{_after(part)}"
    if any("low" in row for row in part["rows"]):
        shown += f", and {_intervals(part)}"
    sections = [
        ("", f"<p>{remark}</p>" if remark else ""),
        ("", _facts(part)),
        (shown, _plot(part)),
        ("Supported statements", _sentences(part["may_be_said"])),
        ("Limits", _sentences(part["may_not_be_said"])),
        ("Table", _table(part)),
    ]
    blocks = [
        f"<h2>{escape(head)}</h2>\n{text}" if head else text for head, text in sections if text
    ]
    return "\n".join([*blocks, _made_by(part)])


def _made_by(part: dict[str, Any]) -> str:
    """Return the HTML of a collapsed section with the settings of the collection."""
    omitted = ("oracle", "epsilon", "n_categories", "domain_sha256", "p", "q")
    configuration = (part["configuration"] or {}).items()
    settings = [printable(f"# {k} = {v}") for k, v in configuration if k not in omitted and v != ""]
    content = escape("\n".join(filter(None, [*settings, part["made_by"]])))
    head = "<summary>Settings and code</summary>"
    return f"<details>{head}<pre>{content}</pre></details>" if content else ""


def _facts(part: dict[str, Any]) -> str:
    facts = {
        "domain": part["domain"],
        "users": _users(part),
        "epsilon": part["epsilon"] and _epsilon_text(part["epsilon"]),
        "oracle": part["oracle"],
        "noise level": part["noise_level"]
        and f"{part['noise_level']:.2g}: the standard error of {_HOW_NOISY[part['unit'] == '%']}",
        "refers to": part["of"],
        "post-processing": ", ".join(part["postprocessors"]),
    }
    items = (f"<dt>{k}</dt><dd>{escape(str(v))}</dd>" for k, v in facts.items() if v)
    return f"<dl>{''.join(items)}</dl>"


def _epsilon_text(epsilon: float) -> str:
    """Return epsilon as text, followed by an explanation of its meaning.

    A large epsilon, which hardly protects users, has no explanation.
    """
    if epsilon > HARDLY_ANY:
        return f"{epsilon}"
    times = rounded_up(math.exp(epsilon))
    return f"{epsilon}: no answer makes a report more than {times} times as likely as another"


def _after(part: dict[str, Any]) -> str:
    names = ", ".join(part["postprocessors"])
    return f" after {names}" * bool(names)


def _intervals(part: dict[str, Any], where: str = "") -> str:
    """Return a text about the intervals of a table: their level, and the values that they cover."""
    level, are_raw = _level(part)
    kind = "" if "each" in level else ", simultaneous"
    looks = "valid for all looks" if _is_for_all_looks(part) else "valid for one look"
    return f"intervals ({level}{kind}{where}, {looks})" + ", of the raw values" * are_raw


def _is_for_all_looks(part: dict[str, Any]) -> bool:
    """Return whether the intervals are valid at all looks at a growing collection."""
    return "all looks" in part["interval"]


def _level(part: dict[str, Any]) -> tuple[str, bool]:
    """Return the level of the intervals as text, and whether they belong to the raw values."""
    text = part["interval"].removesuffix(", of raw")
    level = text if "each" in text else f"{text.partition(' %')[0]} %"
    return level, text != part["interval"]


def _users(part: dict[str, Any]) -> str | None:
    """Return a text with two numbers: all users, and the users who were asked this question."""
    n_users = part["n_samples"]
    n_asked = part.get("n_asked")
    if n_users is None:
        return None
    if n_by_estimate := part.get("n_each"):
        return " against ".join(map(grouped_digits, n_by_estimate))
    if "only users" in part["of"]:  # the number is estimated
        return f"about {grouped_digits(n_users)} of the users who were asked"
    if n_asked is None or n_asked >= n_users:
        return grouped_digits(n_users)
    return f"{grouped_digits(n_users)}; {grouped_digits(n_asked)} of them were asked"


def _sentences(sentences: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(printable(sentence))}</li>" for sentence in sentences)
    return f"<ul>{items}</ul>" if items else ""


def _table(part: dict[str, Any]) -> str:
    rows = _in_order(part)
    value = part["value"]
    is_raw = not part["postprocessors"]
    level, are_raw = _level(part)
    places = {"count": 3, "estimate": 4, "low": 5 if are_raw else 2}
    places |= {"category": 0, value: 1}  # the columns of the plot come first
    heads = [name for name in (rows[0] if rows else {}) if name not in ("high", "interval")]
    heads.sort(key=lambda name: places.get(name, 6))
    names = {"low": f"interval ({level})", "frequency": "share"}
    names |= {} if is_raw else {"estimate": "raw"}
    head = "".join(f"<th>{escape(str(names.get(name, name)))}</th>" for name in heads)
    show = _formatter(part, rows)
    shown = rows[:_MOST_ROWS]
    cells = (
        "".join(f"<td>{escape(_cell(part, name, row, show))}</td>" for name in heads)
        for row in shown
    )
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    n_more = len(rows) - _MOST_ROWS
    tables = "The tables of to_frame() and of sklearn-ldp estimate contain all rows."
    more = f"<p>{n_more:,} more rows are not shown. {tables}</p>" if n_more > 0 else ""
    table = f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'
    shares = [row[name] for row in shown for name in ("estimate", "frequency") if name in row]
    looks = "at one look, not at several looks at a growing collection"
    if _is_for_all_looks(part):
        looks = "at all looks at the growing collection"
    condition = " (each interval is around the raw value)" * are_raw
    if value == "frequency" and not are_raw:  # intervals of a trend are valid under conditions
        condition = ", under the conditions of the section Limits"
    subject = "each interval contains" if "each" in level else "all intervals contain"
    percent = level.partition(" %")[0]
    explanations = {
        "frequency": f'"{part["shown"]}{_after(part)}" of the plot',
        "estimate": "the share before post-processing; noise may move it below 0 or above 100 %",
        "difference": part["shown"],
        "low": f"{subject} the truth with a probability of {percent} % {looks}{condition}",
        "count": f'the number of users that corresponds to the column "{names.get(value, value)}"',
    }
    words = [(names.get(name, name), explanations[name]) for name in heads if name in explanations]
    below = "".join(f"<p>{escape(name)}: {escape(text)}.</p>" for name, text in words)
    return f"{table}{_footnote(part, shares)}{more}{below}" if rows else ""


def _mark(part: dict[str, Any], share: float) -> str:
    """Return "*" if the share is below 0 or above 1, else "". A footnote explains the star."""
    return " *" * (part["unit"] == "%" and not -1e-9 <= share <= 1 + 1e-9)


def _look(part: dict[str, Any], share: float) -> str:
    """Return the SVG style of a bar. A bar for a share below 0 or above 1 is only an outline."""
    if _mark(part, share):
        return f'fill="none" stroke="{_BAR}" stroke-dasharray="2 2"'
    return f'fill="{_BAR}"'


def _footnote(part: dict[str, Any], shares: Sequence[float]) -> str:
    marked = [share for share in shares if _mark(part, share)]
    ends = []
    if min(marked, default=0.0) < 0:
        ends.append("below 0 %")
    if max(marked, default=0.0) > 1:
        ends.append("above 100 %")
    if not ends:
        return ""
    return f"<p>* {' or '.join(ends)} because of noise; intervals contain only possible shares.</p>"


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
    """Return the rows of the table in the order in which the page shows them.

    Categories with an order, such as bins, keep it. Otherwise the largest values are first.
    """
    rows = part["rows"]
    if part["is_ordered"]:
        return rows
    size: Any = abs if part["unit"] == "points" else float
    return sorted(rows, key=lambda row: -size(row[part["value"]]))


def _formatter(part: dict[str, Any], rows: Sequence[dict[str, Any]]) -> Callable[[float], str]:
    """Return a function that formats the numbers of a table, all with the same number of digits.

    The shortest interval determines the number of digits.
    """
    if not (unit := part["unit"]):
        return lambda x: f"{x:.4g}"
    widths = [100 * (row["high"] - row["low"]) for row in rows if "low" in row]
    widths = [width for width in widths if width > 0] or [1.0]
    decimals = int(np.clip(1 - np.floor(np.log10(min(widths))), 0, 6))

    def show(x: float) -> str:
        rounded = round(100 * x, decimals) + 0.0  # 0 has no sign
        return f"{rounded:.{decimals}f} {unit}".replace("-", _MINUS)

    return show


# -- plots: in percent of the width, so that text has the same size on a page of any width --------
def _plot(part: dict[str, Any]) -> str:
    """Return an SVG plot: one bar per category, columns for the bins of a number, or a map."""
    rows = _in_order(part)
    if part.get("grid") and len(rows) <= _MOST_CELLS:
        return _map(part)
    if part.get("ranges"):
        return _columns(part["ranges"], part)
    if part["is_ordered"] and _MOST_BARS < len(rows) <= _MOST_COLUMNS:
        places = [{"from": i, "to": i + 1, "name": row["category"]} for i, row in enumerate(rows)]
        return _columns([{**place, **row} for place, row in zip(places, rows, strict=True)], part)
    return _bars(rows[:_MOST_BARS], part, len(rows))


def _series(whole: dict[str, Any]) -> str:
    """Return SVG plots of the largest categories over the rows of an estimate, such as weeks.

    whole: the description of an estimate with several rows. Each category has its own plot.
    """
    parts = whole["parts"]
    if not whole.get("is_series") or not 1 < len(parts) <= _MOST_COLUMNS:
        return ""
    first = {**parts[0], "ranges": None, "scale": "linear"}
    plots = []
    means = np.mean([[row[first["value"]] for row in part["rows"]] for part in parts], axis=0)
    for place in np.argsort(-means, kind="stable")[:_MOST_SERIES]:
        rows = [
            {**part["rows"][place], "from": i, "to": i + 1, "name": part["name"]}
            for i, part in enumerate(parts)
        ]
        head = f"<h2>{escape(_cell(first, 'category', rows[0], str))}</h2>"
        plots.append(head + _columns(rows, {**first, "rows": rows}))
    n = len(first["rows"])
    caption = f"{first['shown']}{_after(first)}, row by row, and "
    caption += _intervals(first, " in each row")
    note = f"<p>The {len(plots)} largest of {n:,} categories.</p>" if len(plots) < n else ""
    return f"<p>{caption}</p>{''.join(plots)}{note}"


def _bars(rows: list[dict[str, Any]], part: dict[str, Any], n: int) -> str:
    value = part["value"]
    show = _formatter(part, rows)
    ends = [[row.get("low", row[value]), row.get("high", row[value]), row[value]] for row in rows]
    low, high = _scale(ends, part)
    at = _axis(low, high)
    shapes = []
    for i, row in enumerate(rows):
        y = 40 * i
        name = _cell(part, "category", row, str)
        short = name if len(name) <= _LABEL else f"{name[: _LABEL - 3]}..."
        zero, end = sorted((at(min(max(0.0, low), high)), at(row[value])))
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
    height = 40 * len(rows)
    zero = min(max(0.0, low), high)
    far = [end for end in (low, high) if abs(at(end) - at(zero)) > _LABEL_WIDTH]
    shapes += [_axis_label(at(x), height, show(x)) for x in (zero, *far)]
    note = "" if len(rows) == n else f"<p>The {len(rows)} largest of {n:,}.</p>"
    return _svg(shapes, height + 20, part, rows) + note


def _columns(rows: list[dict[str, Any]], part: dict[str, Any]) -> str:
    """Return an SVG plot with one column for each bin. The area of a column is the bin's share."""
    value = part["value"]
    height = 220
    on_axis: Any = math.log10 if part.get("scale") == "log" else float
    widths = np.array([on_axis(row["to"]) - on_axis(row["from"]) for row in rows])
    factors = widths.mean() / widths  # if all widths are equal, heights are shares
    shares = [[row.get("low", row[value]), row.get("high", row[value]), row[value]] for row in rows]
    ends = factors[:, None] * shares
    lower, upper = _scale(ends, part)
    along = _axis(on_axis(rows[0]["from"]), on_axis(rows[-1]["to"]))
    up = _axis(lower, upper, height, 16)

    def at(number: float) -> float:
        return along(on_axis(number))

    shapes = []
    for (low, high, share), row in zip(ends, rows, strict=True):
        left, right = at(row["from"]), at(row["to"])
        top, bottom = sorted((up(share), up(max(0.0, lower))))
        shapes += [
            f'<rect x="{left:.2f}%" y="{top:.1f}" width="{0.9 * (right - left):.2f}%" '
            f'height="{bottom - top:.1f}" {_look(part, row[value])}/>',
            f'<line x1="{(left + right) / 2:.2f}%" x2="{(left + right) / 2:.2f}%" '
            f'y1="{up(high):.1f}" y2="{up(low):.1f}" stroke="{_LINE}" stroke-width="1.5"/>',
        ]
    shapes += [_axis_label(at(x), height, text) for x, text in _ticks(rows, part)]
    unit = "" if np.allclose(factors, 1, rtol=0.01) else ", for a column of the mean width"
    shapes += [
        f'<line x1="0" x2="100%" y1="{up(x):.1f}" y2="{up(x):.1f}" stroke="#8888"/>'
        f'<text x="0" y="{up(x) - 4:.1f}" fill="currentColor">{100 * x:.3g} %{unit}</text>'
        for x in (upper / 2, upper)
    ]
    n_bins = len(part["rows"])
    note = f"<p>{len(rows)} ranges of the {n_bins:,} bins.</p>" if len(rows) < n_bins else ""
    return _svg(shapes, height + 20, part, rows) + note


def _map(part: dict[str, Any]) -> str:
    """Return a map of the cells of a grid, which are as dark as they are dense."""
    height = 320
    rows = part["rows"]
    scales: dict[str, Any] = {"linear": np.array, "log": np.log10}
    x, y = (scales[axis["scale"]](axis["ends"]) for axis in part["grid"])
    x_at, y_at = _axis(x[0], x[-1], 12, 100), _axis(y[0], y[-1], height, 0)
    shares = np.array([row[part["value"]] for row in rows]).reshape(len(x) - 1, len(y) - 1)
    densities = np.maximum(shares / np.outer(np.diff(x), np.diff(y)), 0)
    shades = densities / max(densities.max(), 1e-300)
    shapes = [f'<rect x="12%" y="0" width="88%" height="{height}" fill="none" stroke="#8888"/>']
    for ((i, j), shade), row in zip(np.ndenumerate(shades), rows, strict=True):
        outline = f' stroke="{_LINE}"' * (row.get("low", 0) > 0)
        if outline or shade > 0.004:
            shapes.append(
                f'<rect x="{x_at(x[i]):.2f}%" y="{y_at(y[j + 1]):.1f}" '
                f'width="{x_at(x[i + 1]) - x_at(x[i]):.2f}%" '
                f'height="{y_at(y[j]) - y_at(y[j + 1]):.1f}" fill="{_BAR}" '
                f'fill-opacity="{shade:.2f}"{outline}/>'
            )
    (left, right), (low, high) = (axis["bounds"] for axis in part["grid"])
    labels = [("12%", height + 16, "start", left), ("100%", height + 16, "end", right)]
    labels += [("11%", height, "end", low), ("11%", 12, "end", high)]
    shapes += [
        f'<text x="{place}" y="{down}" text-anchor="{anchor}" fill="currentColor">{text}</text>'
        for place, down, anchor, text in labels
    ]
    note = f"The densest cell has {_formatter(part, rows)(shares.flat[densities.argmax()])}."
    note += " An outline marks cells with an interval above 0." * ("low" in rows[0])
    return f"{_svg(shapes, height + 20, part, [])}<p>{escape(note)}</p>"


def _ticks(rows: list[dict[str, Any]], part: dict[str, Any]) -> list[tuple[float, str]]:
    """Return positions and labels of axis ticks: powers of ten, or the ends and the middle."""
    start, stop = rows[0]["from"], rows[-1]["to"]
    if part.get("scale") == "log":
        exponents = range(math.ceil(math.log10(start)), math.floor(math.log10(stop)) + 1)
        if len(exponents) > 1:
            tens = [10.0**k for k in exponents]
            step = math.ceil(len(tens) / _MOST_LABELS)
            names = [text if i % step == 0 else "" for i, text in enumerate(number_texts(tens))]
            return list(zip(tens, names, strict=True))
    middle = rows[len(rows) // 2]
    ends = [(start, rows[0], "from"), (middle["from"], middle, "from"), (stop, rows[-1], "to")]
    return [(x, _short(row.get("name", row[key]))) for x, row, key in ends]


def _axis_label(place: float, height: int, text: str) -> str:
    """Return a tick of the horizontal axis, which is below a plot of this height."""
    return (
        f'<text x="{place:.2f}%" y="{height + 16}" text-anchor="{_anchor(place)}" '
        f'fill="currentColor">{escape(text)}</text>'
        f'<line x1="{place:.2f}%" x2="{place:.2f}%" y1="{height}" y2="{height + 4}" '
        'stroke="#888"/>'
    )


def _anchor(place: float) -> str:
    """Return the SVG text-anchor with which a text at this position stays within the plot.

    The anchor is "start", "middle" or "end".
    """
    return "start" if place < 5 else "end" if place > 95 else "middle"


def _axis(low: float, high: float, start: float = 0, stop: float = 100) -> Callable[..., float]:
    """Return a function that maps numbers in [low, high] linearly to positions [start, stop]."""
    slope = (stop - start) / (high - low)
    return lambda x: start + (x - low) * slope


def _scale(ends: Iterable[Sequence[float]], part: dict[str, Any]) -> tuple[float, float]:
    numbers = [x for row in ends for x in row]
    low, high = part.get("bounds") or (min([0.0, *numbers]), max([0.0, *numbers]))
    return low, high if high > low else low + 1.0


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
    """Return an SVG element that contains these shapes, followed by the footnote of the plot."""
    content = "\n".join(shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(part["shown"])}" '
        f'height="{height}">\n{content}\n</svg>'
    ) + _footnote(part, [row[part["value"]] for row in rows])
