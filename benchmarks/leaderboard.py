"""All post-processors and searches by question, and a method of yours beside them.

    python -m benchmarks.leaderboard
    python -m benchmarks.leaderboard --method my_module:MyPostProcessor

The populations are in packages that everybody has: the US states, words and pairs of letters of
Python's own documentation, kinds of nodes of its standard library's code, words in the names of
Unicode's characters, and pixels that scikit-learn bundles. No method was tuned on them. Each cell
(a population, an oracle, an epsilon and a number of users) is one collection of reports. The number
is the mean squared error over that of the best post-processor in hindsight, by geometric mean, with
its standard error over the populations, and the greatest.

A method is a post-processor that is made without arguments; if it has the parameter ``queries``, it
is told what will be asked. ``--page FILE`` writes the table and its picture into a page.
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
    draw(ratios[[*ways, TOLD, "PowerNS", "NormSub"]], picture)


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


def draw(ratios: pd.DataFrame, path: Path) -> None:
    """Draw the geometric mean of the ratios by question, hindsight's best candidate at 1."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    means = np.exp(np.log(ratios).groupby("kind", sort=False).mean())
    figure, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    for i, way in enumerate(means):
        places = np.arange(len(means)) + 0.06 * (i - (means.shape[1] - 1) / 2)
        marker = "osD^vPX*<>hd"[i % 12]
        ax.plot(means[way], places, marker, label=way.strip(), markersize=6)
    ax.axvline(1, color="0.6", linewidth=1)
    ax.set_yticks(range(len(means)), means.index)
    ax.invert_yaxis()
    ax.set_xscale("log")
    right = 1.05 * means.to_numpy().max()
    ticks = [tick for tick in (1, 1.1, 1.2, 1.5, 2, 3, 5) if tick <= right]
    ax.set_xlim(0.99, right)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xlabel("error over that of the best candidate in hindsight")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
