"""Compare all post-processors and searches, and optionally your own, for several queries.

    python -m benchmarks.leaderboard
    python -m benchmarks.leaderboard --method my_module:MyPostProcessor

The populations come with Python or with the required packages: the US states, words and pairs of
letters in Python's documentation, kinds of syntax nodes in the code of its standard library, words
in the names of Unicode characters, and pixels of images in scikit-learn. No method was tuned on
these populations. Each cell (a population, an oracle, an epsilon and a number of users) is one
collection of reports. In each cell, the mean squared error of a method is divided by the error of
the post-processor that is the best in hindsight. The table contains the geometric mean of these
ratios, its standard error over the populations, and the largest ratio.

Your method is a post-processor class that is created without arguments. If it has the parameter
``queries``, it receives the queries. ``--page FILE`` writes the table and its picture into a page.
"""

from __future__ import annotations

import json
import platform
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sklearn_ldp
from sklearn_ldp import OLH, FrequencyEstimate
from sklearn_ldp.datasets import load_us_states
from sklearn_ldp.model_selection import candidate_name

from ._command import command
from ._tables import markdown, refresh, with_error
from .accuracy._weak_frequencies import populations
from .accuracy.selection_regret import PAPERS, SINGLES, TOLD, WAYS, WIDE, compared

CELLS = WIDE[::2]
SEARCHES = {way: search for way, search in WAYS.items() if not way.startswith(" ")}
_POPULATIONS = 'more of them, JSON: {"name": {"counts": [..], "groups": {"by": [..]}}, ..}'
# The methods and the queries of the picture, by their names in tables.
BARS = {
    "EmpiricalBayes(queries)": "EmpiricalBayes(queries=..)",
    "papers' candidates, pick": "search among the papers' methods",
}
QUERIES = {
    "every category": "every category",
    "10 % sets": "random sets of 10 %",
    "natural groups": "natural groups",
    "groups by lot": "random groups",
    "top 10": "ten most frequent",
}
MARKS = ("<!-- leaderboard: begin -->", "<!-- leaderboard: end -->")


def main() -> None:
    """Print the table, or write it into a page."""
    parser = command(__doc__, __spec__, n_jobs=1, seed=0)
    parser.add_argument("--method", nargs="*", default=[], metavar="MODULE:CLASS")
    parser.add_argument("--populations", type=Path, metavar="FILE", help=_POPULATIONS)
    parser.add_argument("--page", type=Path, help="write between the page's two marks")
    parser.add_argument("--quick", action="store_true", help="two populations, no searches")
    arguments = parser.parse_args()
    found = shipped()
    if arguments.populations is not None:
        given = json.loads(arguments.populations.read_text(encoding="utf-8"))
        found |= {name: one for name, one in given.items() if one["groups"]}
    if arguments.quick:
        found = {name: found[name] for name in ("states", "pixels of digits")}
    try:
        own = dict(load(path) for path in arguments.method)
    except ValueError as error:
        parser.error(str(error))
    ways = {**({} if arguments.quick else SEARCHES), **own}
    settings = CELLS[1:2] if arguments.quick else CELLS
    cells = [(name, *one) for name in found for one in settings]
    ratios, _ = compared(found, cells, ways, arguments)
    said = (
        f"{date.today():%d %B %Y}: sklearn_ldp {sklearn_ldp.__version__}, Python "
        f"{platform.python_version()}, seed {arguments.seed}, {len(cells)} cells of "
        f"{len(found)} populations ({', '.join(found)}); oracles, epsilons and users: "
        f"{'; '.join(f'{o.__name__} {e:g}, {n:,}' for o, e, n in settings)}. By question: error "
        "over that of the best in hindsight (standard error over populations) / the greatest."
    )
    text = f"{said}\n\n{table(ratios, np.array([name for name, *_ in cells]), own)}"
    if arguments.page is None:
        print(text)
        return
    refresh(arguments.page, MARKS, f"{text}\n")
    picture = arguments.page.parents[1] / "_static" / "leaderboard.svg"
    draw(arguments.page, picture)


def shipped() -> dict[str, dict[str, Any]]:
    """Return the populations that have groups, as `compared` takes them."""
    states = load_us_states(random_state=0)
    found = {"states": {"counts": states.counts, "groups": {"": states.groups["division"]}}}
    for name, one in populations().items():
        if one.columns and name != "equal":
            found[name] = {"counts": one.counts, "groups": one.columns}
    return found


def load(path: str) -> tuple[str, Any]:
    """Return a method of somebody else's, by its name; raise ValueError if it is none."""
    module, _, name = path.partition(":")
    try:
        method = getattr(import_module(module), name)()
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        how = "expected module:ClassName, in a file beside benchmarks/ or on PYTHONPATH"
        raise ValueError(f"--method {path}: {error}; {how}.") from error
    estimate = OLH(1.0, categories=9, random_state=0).simulate(np.arange(9) * 100, 2)
    result = method.fit_transform(estimate)
    if not isinstance(result, FrequencyEstimate) or result.shape != estimate.shape:
        raise ValueError(
            f"{path}: fit_transform has to return estimates as it takes them, of shape "
            f"{estimate.shape}; got {type(result).__name__}. BasePostProcessor does that."
        )
    version = getattr(import_module(module.partition(".")[0]), "__version__", "no version")
    return f"{name} ({module}, {version})", method


def table(ratios: pd.DataFrame, of_cells: np.ndarray, own: dict[str, Any]) -> str:
    """A row for each method, the best of all questions first."""
    papers = {candidate_name(one) for one in PAPERS}
    methods = [one for one in (*SINGLES, TOLD, *SEARCHES, *own) if one in ratios]
    means = np.log(ratios[methods]).mean().sort_values(kind="stable")
    of_kinds = dict(list(ratios.groupby("kind", sort=False)))
    rows = []
    for method, mean in means.items():
        kind = "yours" if method in own else "published" if method in papers else "here"
        found = (with_error(part[method].to_numpy(), of_cells) for part in of_kinds.values())
        rows.append([method, kind, f"{np.exp(mean - means['NormSub']):.2f}", *found])
    return markdown(["method", "from", "over NormSub", *of_kinds], rows)


def draw(page: Path, path: Path) -> None:
    """Draw two methods of a page's table of errors as bars, relative to the best in hindsight."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "sklearn_ldp"  # the same picture gives the same file
    from matplotlib import pyplot as plt

    errors = excess_errors(page.read_text(encoding="utf-8"))
    places = np.arange(len(errors))
    figure, ax = plt.subplots(figsize=(7.5, 0.8 + 0.6 * len(errors)), layout="constrained")
    for i, method in enumerate(errors):
        look = {"color": ("#0072b2", "#e69f00")[i], "hatch": (None, "//")[i], "edgecolor": "white"}
        bars = ax.barh(places + 0.4 * i, errors[method], 0.38, label=BARS[method], **look)
        ax.bar_label(bars, [f"{error:.0f} %" for error in errors[method]], padding=3)
    ax.set_yticks(places + 0.2, errors.index)
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.set_xlabel("mean squared error above the best method in hindsight (%)")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, borderaxespad=0)
    figure.savefig(path, metadata={"Date": None})


def excess_errors(text: str) -> pd.DataFrame:
    """Read from a page by how much percent the errors exceed the best in hindsight, by query."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    header = next(row for row in rows if set(QUERIES) & set(row) and {"way", "method"} & set(row))
    of_method = {row[0]: row for row in rows if row and row[0] in BARS and len(row) == len(header)}
    shown = [name for name in QUERIES if name in header]
    values = {
        method: [100 * float(row[header.index(name)].split()[0]) - 100 for name in shown]
        for method, row in sorted(of_method.items())
    }
    return pd.DataFrame(values, index=[QUERIES[name] for name in shown])


if __name__ == "__main__":
    main()
