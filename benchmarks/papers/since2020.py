"""The papers' questions with newer oracles and post-processors.

``python -m benchmarks.papers.since2020 [FIGURE ...]`` writes tables, pictures and report.md, with
the options of ``python -m benchmarks.papers``. It judges no statement of a paper.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from sklearn_ldp import (
    GRR,
    NPMLE,
    OLH,
    OUE,
    EmpiricalBayes,
    HadamardResponse,
    HeldOutSearch,
    NormSub,
    PowerNS,
    ProjectiveGeometryResponse,
    Smooth,
    SubsetSelection,
    SyntheticSearch,
)
from sklearn_ldp.inspection import ErrorCurveDisplay
from sklearn_ldp.metrics import query_errors
from sklearn_ldp.model_selection import ErrorStudy
from sklearn_ldp.queries import full_domain, groups, random_sets, top_k

from .__main__ import main
from ._blocks import Heading, Rows, as_markdown
from ._experiment import error_panels, rows_of_panels
from ._figure import Figure, Registry, Settings, Table, joined
from ._measures import paired_ratio
from ._methods import METHODS_2020, PAPER_OLH
from ._report import figure_blocks

FIGURES = Registry()

ORACLES = {
    "OLH": PAPER_OLH,
    "OLH, linear": OLH(),
    "OUE": OUE(),
    "GRR": GRR(),
    "Hadamard": HadamardResponse(),
    "Subset": SubsetSelection(),
    "Projective": ProjectiveGeometryResponse(),
}
_NEWER = {
    "PowerNS, likelihood": PowerNS(fit_method="mle"),
    "EmpiricalBayes": EmpiricalBayes(),
    "NPMLE": NPMLE(),
}
METHODS = {**METHODS_2020, **_NEWER}
_LEFT = ["Base", "Base-Cut", "Norm", "Norm-Sub", "Norm-Cut", "PowerNS"]
_RIGHT = ["PowerNS", *_NEWER]
_KEYS = ("zipf", "emoji-twitter", "census", "beta")
_EPSILONS = [0.2, 0.5, 1, 2, 3, 4]
_QUICK_EPSILONS = [0.5, 1, 4]


def _draw(x: str, x_label: str, right: list[str] = _RIGHT) -> Any:
    return lambda study: error_panels(study, right, left=_LEFT, x=x, x_label=x_label)


# Figures that ask the same collections share them.
_GROUPS = {"emoji-twitter": "subcategory", "census": "category"}
_simulated: dict[tuple[str, Settings], ErrorStudy] = {}


def _by_epsilon(settings: Settings) -> ErrorStudy:
    """Every value and, where there are groups, these, at each epsilon."""
    if ("epsilon", settings) not in _simulated:
        studies = []
        for key in _KEYS:
            population = settings.population(key)
            if population is None:
                continue
            queries: dict[str, Any] = {"every value": None}
            if key in _GROUPS:
                queries["groups"] = groups(population.groups[_GROUPS[key]])
            epsilons = settings.grid(_EPSILONS, _QUICK_EPSILONS)
            studies.append(
                settings.errors([key], PAPER_OLH, METHODS, epsilons=epsilons, queries=queries)
            )
        _simulated["epsilon", settings] = joined(studies)
    return _simulated["epsilon", settings]


def _by_size(settings: Settings, kind: str) -> ErrorStudy:
    """Random sets ("ρ") and the most frequent values ("k") at epsilon 1."""
    if ("size", settings) not in _simulated:
        sizes = settings.grid(range(10, 91, 10), [10, 50, 90])
        queries = {f"ρ {rho:g}": random_sets(rho / 100) for rho in sizes}
        counts = settings.grid(range(2, 33, 2), [2, 10, 32])
        queries |= {f"k {k:g}": top_k(int(k)) for k in counts}
        study = settings.errors(list(_KEYS), PAPER_OLH, METHODS, epsilons=1.0, queries=queries)
        _simulated["size", settings] = study
    study = _simulated["size", settings]
    found = study.select(queries=[q for q in study["queries"] if q.startswith(kind)])
    names = np.array([name.split()[1] for name in found["queries"]], dtype=object)
    return ErrorStudy(found.columns | {"queries": names}, found.errors)


@FIGURES.add(
    "since-fig4",
    "Full-domain MSE: the papers' methods (left) and the newer ones (right)",
    _KEYS,
    draw=_draw("epsilon", "epsilon"),
)
def _(settings: Settings) -> Any:
    return _by_epsilon(settings).select(queries=["every value"])


@FIGURES.add(
    "since-fig6",
    "MSE on random sets, epsilon 1",
    _KEYS,
    draw=_draw("queries", "ρ: set size, % of the domain"),
)
def _(settings: Settings) -> Any:
    return _by_size(settings, "ρ")


@FIGURES.add(
    "since-ordered",
    "Full-domain MSE on ordered categories: Smooth, which knows their order, and those that do not",
    ("beta",),
    draw=_draw("epsilon", "epsilon", right=["PowerNS", "EmpiricalBayes", "Smooth"]),
)
def _(settings: Settings) -> Any:
    name = settings.population("beta").name
    others = _by_epsilon(settings).select(population=[name], queries=["every value"])
    smooth = settings.errors(
        ["beta"],
        PAPER_OLH,
        {"Smooth": Smooth()},
        epsilons=settings.grid(_EPSILONS, _QUICK_EPSILONS),
        queries={"every value": None},
    )
    return joined([others, smooth])


@FIGURES.add(
    "since-fig8",
    "MSE on the categories of emojis and the states of cities",
    tuple(_GROUPS),
    draw=_draw("epsilon", "epsilon"),
)
def _(settings: Settings) -> Any:
    return _by_epsilon(settings).select(queries=["groups"])


@FIGURES.add(
    "since-fig10",
    "MSE of the k most frequent values, epsilon 1",
    _KEYS,
    draw=_draw("queries", "k"),
)
def _(settings: Settings) -> Any:
    return _by_size(settings, "k")


# -- oracles --------------------------------------------------------------------------------------
def _draw_oracles(study: Any) -> Any:
    names = list(dict.fromkeys(study["population"].tolist()))
    figure, axes = rows_of_panels(len(names))
    for name, pair in zip(names, axes, strict=True):
        for ax, method in zip(pair, ("Base", "EmpiricalBayes"), strict=True):
            part = study.select(population=[name], postprocessor=[method])
            ErrorCurveDisplay.from_results(part, by="oracle", ax=ax)
            ax.set(title=f"{name}: {method}", ylabel="MSE")
    return figure


@FIGURES.add(
    "since-oracles",
    "Full-domain MSE of the oracles, raw (left) and after EmpiricalBayes (right)",
    ("zipf", "emoji-twitter"),
    draw=_draw_oracles,
)
def _(settings: Settings) -> Any:
    methods = {name: METHODS[name] for name in ("Base", "EmpiricalBayes")}
    epsilons = settings.grid(_EPSILONS, _QUICK_EPSILONS)
    return settings.errors(["zipf", "emoji-twitter"], ORACLES, methods, epsilons=epsilons)


# -- choosing -------------------------------------------------------------------------------------
def _regrets(settings: Settings, population: Any, column: str, epsilon: float, i: int) -> list:
    rng = np.random.default_rng([settings.seed, i])
    estimate = _collect(population.counts, epsilon, rng)
    asked = {"every category": full_domain(), column: groups(population.groups[column])}
    return [
        {"population": population.name, "epsilon": epsilon, "queries": name, "search": search_name}
        | _regret(search.fit(estimate), estimate, population, queries)
        for name, queries in asked.items()
        for search_name, search in _searches(queries, settings, i).items()
    ]


def _searches(queries: Any, settings: Settings, seed: int) -> dict[str, Any]:
    common = {"queries": queries, "random_state": seed}
    candidates = list(METHODS_2020.values())
    return {
        "SyntheticSearch": SyntheticSearch(
            candidates, synthesizer=NormSub(), n_repeats=settings.n_repeats, **common
        ),
        "HeldOutSearch": HeldOutSearch(candidates, **common),
    }


@FIGURES.add(
    "since-choice",
    "Choosing among the 2020 paper's methods: on synthetic data, and on held-out reports",
    ("emoji-twitter", "census"),
    note="Collections through the users' own protocol, OLH with linear hashing. `regret`: true "
    "error of the choice on that collection over the least of all methods on it, less 1.",
)
def _(settings: Settings) -> Table:
    tasks = [
        delayed(_regrets)(settings, population, column, epsilon, i)
        for key, column in _GROUPS.items()
        if (population := settings.population(key)) is not None
        for epsilon in settings.grid([0.5, 1, 2], [1])
        for i in range(2 if settings.quick else 10)
    ]
    found = Parallel(n_jobs=settings.n_jobs)(tasks)
    table = Table.of([row for rows in found for row in rows])
    cells = ["population", "epsilon", "queries", "search"]
    keys = list(zip(*(table[c].tolist() for c in cells), strict=True))
    means = []
    for key in dict.fromkeys(keys):
        regret = table["regret"][[k == key for k in keys]]
        spread = regret.std(ddof=1) / np.sqrt(len(regret))
        means.append(
            dict(zip(cells, key, strict=True))
            | {"collections": len(regret), "regret": regret.mean(), "standard_error": spread}
        )
    return Table.of(means)


def _collect(counts: np.ndarray, epsilon: float, rng: np.random.Generator) -> Any:
    oracle = OLH(epsilon, categories=len(counts), random_state=rng)
    return oracle.fit_transform(np.arange(len(counts)), sample_weight=counts)


def _regret(search: Any, estimate: Any, population: Any, queries: Any) -> dict[str, Any]:
    truth = population.frequencies
    errors = {
        name: float(query_errors(truth, method.fit_transform(estimate), queries=queries)[0])
        for name, method in METHODS_2020.items()
    }
    chosen = list(METHODS_2020)[search.best_index_]
    return {"chosen": chosen, "regret": errors[chosen] / min(errors.values()) - 1}


# -- the page -------------------------------------------------------------------------------------
_QUESTIONS = [
    ("since-fig4", "every category", {"epsilon": [1.0]}),
    ("since-fig6", "random sets of 10 %", {"queries": ["10"]}),
    ("since-fig6", "random sets of 50 %", {"queries": ["50"]}),
    ("since-fig8", "groups", {"epsilon": [1.0]}),
    ("since-fig10", "the ten most frequent", {"queries": ["10"]}),
]


def comparison(results: dict[str, Any]) -> list[list[str]]:
    """Rows: data, question, best of the papers' methods, best newer one, ratio of their errors."""
    rows = []
    for name, question, where in _QUESTIONS:
        if name not in results:
            continue
        study = results[name].select(**where)
        for population in dict.fromkeys(study["population"].tolist()):
            part = study.select(population=[population])
            errors = dict(zip(part["postprocessor"].tolist(), part.errors, strict=True))
            old = min(METHODS_2020, key=lambda method: errors[method].mean())
            new = min(_NEWER, key=lambda method: errors[method].mean())
            value, spread = paired_ratio(errors[new], errors[old])
            rows.append(
                [
                    population,
                    question,
                    f"{old}, {errors[old].mean():.2e}",
                    f"{new}, {errors[new].mean():.2e}",
                    f"{value:.3f} ± {spread:.3f}",
                ]
            )
    return rows


def oracle_ratios(study: ErrorStudy) -> list[list[str]]:
    """Rows: data, epsilon, error of each oracle over OLH's, raw and after EmpiricalBayes."""
    rows = []
    for population in dict.fromkeys(study["population"].tolist()):
        for epsilon in (1.0, 4.0):
            for method in ("Base", "EmpiricalBayes"):
                part = study.select(
                    population=[population], epsilon=[epsilon], postprocessor=[method]
                )
                mean = dict(zip(part["oracle"].tolist(), part.error, strict=True))
                ratios = [f"{mean[oracle] / mean['OLH']:.3f}" for oracle in ORACLES]
                rows.append([population, f"{epsilon:g}", method, *ratios])
    return rows


def summary(results: dict[str, Any]) -> list:
    """What changed, as blocks."""
    blocks: list = []
    rows = comparison(results)
    if rows:
        blocks += [
            "Post-processors at epsilon 1, through OLH: the best in hindsight of the papers' "
            "eleven against the best newer one (PowerNS with its exponent by marginal likelihood, "
            "EmpiricalBayes, NPMLE), mean squared errors and their ratio. Below 1 the newer one "
            "is better.",
            Rows(["data", "question", "2020, MSE", "newer, MSE", "newer / 2020"], rows),
        ]
    if "since-ordered" in results:
        part = results["since-ordered"].select(epsilon=[1.0])
        errors = dict(zip(part["postprocessor"].tolist(), part.errors, strict=True))
        best = min((m for m in errors if m != "Smooth"), key=lambda m: errors[m].mean())
        value, spread = paired_ratio(errors["Smooth"], errors[best])
        blocks.append(
            "Ordered categories (Beta, epsilon 1): the error of Smooth is "
            f"{value:.3f} ± {spread:.3f} times that of {best}, the best that ignores the order."
        )
    if "since-oracles" in results:
        blocks += [
            "Oracles: full-domain error over that of OLH, raw (Base) and after EmpiricalBayes.",
            Rows(
                ["data", "epsilon", "after", *ORACLES],
                oracle_ratios(results["since-oracles"]),
            ),
        ]
    if "since-choice" in results:
        table = results["since-choice"]
        shown = zip(*(table[name].tolist() for name in table), strict=True)
        blocks += [
            "Choice of the post-processor: the papers' way, and on held-out reports, which needs "
            "no model of the data. `regret` is the error of the choice over the least possible, "
            "less 1.",
            Rows(
                list(table),
                [[f"{c:.3g}" if isinstance(c, float) else str(c) for c in row] for row in shown],
            ),
        ]
    return [Heading(1, "What changed since 2020"), *blocks]


def write_summary(
    folder: Path,
    figures: dict[str, Figure],
    results: dict[str, Any],
    settings: Settings,
    seconds: dict[str, float],
) -> str:
    """Write report.md; return where it is."""
    blocks = summary(results)
    for name, figure in figures.items():
        blocks += figure_blocks(name, figure, results[name], settings, seconds)
    (folder / "report.md").write_text(as_markdown(blocks), encoding="utf-8")
    return f"the report is {folder / 'report.md'}"


if __name__ == "__main__":
    with threadpool_limits(1):
        sys.exit(main(known=FIGURES.figures, write=write_summary))
