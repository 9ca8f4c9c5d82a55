"""T. Wang et al., "Consistent and accurate frequency oracles under LDP" (2019)."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import clone

from sklearn_ldp import BLH, GRR, OLH, OUE, FrequencyEstimate
from sklearn_ldp.inspection import FrequencyDisplay
from sklearn_ldp.postprocessing import norm_hyb
from sklearn_ldp.queries import groups, random_sets, top_k

from ._experiment import Experiment, rows_of_panels
from ._figure import Registry, Settings, Table
from ._measures import distinct
from ._methods import METHODS_2019, RIGHT_2019_BOTH, STUDIED_2019
from .paper2020 import properties

FIGURES = Registry()
_PAPER = Experiment("2019", FIGURES, ("zipf", "census"), OUE(), STUDIED_2019, RIGHT_2019_BOTH)

_EPSILONS = np.arange(1, 11) / 5
_QUICK_EPSILONS = [0.2, 1, 2]
_APPENDIX = ["beta", "pos", "fire", "kosarak"]


@FIGURES.add("2019-table1", "Table 1: what the methods promise, as measured", ("zipf",))
def _(settings: Settings) -> Table:
    return properties(settings, METHODS_2019)


@FIGURES.add("2019-table2", "Table 2: the data sets", ())
def _(settings: Settings) -> Table:
    published = {
        "census": (602_325, 915),
        "kosarak": (990_002, 42_178),
        "pos": (515_597, 1_657),
        "fire": (305_132, 742),
        "beta": (100_000, 400),
        "zipf": (1_000_000, 1_024),
    }
    found = settings.populations(published)
    return Table(
        population=np.array([one.name for one in found.values()]),
        published_n=np.array([published[key][0] for key in found]),
        n=np.array([one.n_samples for one in found.values()]),
        published_d=np.array([published[key][1] for key in found]),
        d=np.array([len(one.counts) for one in found.values()]),
        is_exact=np.array([one.is_exact for one in found.values()]),
    )


@FIGURES.add(
    "2019-oracles",
    "Sections 2.3 and 2.4: GRR and OUE on both sides of d - 2 = 3 exp(epsilon), and OLH beside BLH",
    (),
    note="`noise` is n times the variance of the estimate of a category that nobody has.",
)
def _(settings: Settings) -> Table:
    oracles = {"GRR": GRR(), "OUE": OUE(), "OLH": OLH(hash_family="mixing"), "BLH": BLH()}
    rows = []
    for epsilon in (0.2, 0.4, 0.5, 0.6, 1.0, 2.0, 3.0):
        line = 3 * np.exp(epsilon) + 2
        for side, d in (("smaller", math.ceil(line) - 1), ("larger", math.floor(line) + 1)):
            for name, oracle in oracles.items():
                made = clone(oracle).set_params(epsilon=epsilon, categories=d, random_state=0)
                noise = made.simulate(np.full(d, 10)).noise
                value = noise.n_samples * float(noise.std) ** 2
                rows.append(
                    {"oracle": name, "epsilon": epsilon, "side": side, "d": d, "noise": value}
                )
    return Table.of(rows)


@FIGURES.add("2019-fig1", "Figure 1: full-domain MSE", ("zipf", "census"), draw=_PAPER.draw())
def _(settings: Settings) -> Any:
    epsilons = settings.grid(_EPSILONS, _QUICK_EPSILONS)
    return _PAPER.errors(settings, epsilons=epsilons, n_repeats=2 * settings.n_repeats)


_PAPER.add_sets(2, range(10, 91, 10), [10, 50, 90])
_PAPER.add_sets(3, range(1, 11), [1, 5, 10], n_repeats=90)


@FIGURES.add(
    "2019-fig4",
    "Figure 4: MSE on the states and regions of the census cities",
    ("census",),
    draw=_PAPER.draw(row="queries"),
    note="The paper's first pair of panels asks for state economic areas, which our data lack.",
)
def _(settings: Settings) -> Any:
    labels = settings.population("census").groups
    queries = {"State": groups(labels["category"]), "Region": groups(labels["division"])}
    epsilons = settings.grid(_EPSILONS, _QUICK_EPSILONS)
    n_repeats = 10 * settings.n_repeats
    return _PAPER.errors(
        settings, ["census"], epsilons=epsilons, queries=queries, n_repeats=n_repeats
    )


_PAPER.add_small_sets()
_PAPER.add_top(5)
_PAPER.add_known_k("Norm-Hyb", norm_hyb)


# -- Appendix C -----------------------------------------------------------------------------------
def _draw_densities(table: Table) -> Any:
    names = distinct(table["population"])
    figure, axes = rows_of_panels(-(-len(names) // 2))
    for ax in axes.ravel()[len(names) :]:
        ax.remove()
    for name, ax in zip(names, axes.ravel(), strict=False):
        part = table.select(population=name)
        n = part["count"].sum()
        estimate = FrequencyEstimate([part["count"] / n], part["rank"])
        FrequencyDisplay.from_estimate(estimate, k=None, by="rank", ax=ax, name="true frequency")
        least = part["count"][part["count"] > 0].min() / n
        ax.set(title=name, yscale="log", ylim=(least / 2, None))
    return figure


@FIGURES.add(
    "2019-fig6",
    "Figure 6: the data sets",
    ("census", "beta", "pos", "fire", "kosarak", "zipf"),
    draw=_draw_densities,
)
def _(settings: Settings) -> Table:
    found = settings.populations(["census", *_APPENDIX, "zipf"]).values()
    parts = [
        {
            "population": np.full(len(p.counts), p.name, dtype=object),
            "rank": np.arange(1, len(p.counts) + 1),
            "count": -np.sort(-p.counts),
        }
        for p in found
    ]
    return Table({key: np.concatenate([part[key] for part in parts]) for key in parts[0]})


_QUERIES = {"every value": None, "sets of 5 %": random_sets(0.05), "top 10": top_k(10)}


@cache
def _appendix(settings: Settings) -> Any:
    """Three figures of the appendix, which ask the same collections."""
    return _PAPER.errors(
        settings,
        _APPENDIX,
        epsilons=settings.grid(_EPSILONS, _QUICK_EPSILONS),
        queries=_QUERIES,
        metrics=["mse", "mae"],
    )


_POWER = "The paper left out Power on Kosarak, where it took more than four hours a run."


def _of_appendix(**conditions: list[str]) -> Any:
    return lambda settings: _appendix(settings).select(**conditions)


for _name, _title, _draw, _conditions in (
    (
        "fig7",
        "Figure 7: full-domain MAE",
        _PAPER.draw(y_label="MAE"),
        {"queries": ["every value"], "metric": ["mae"]},
    ),
    (
        "fig8",
        "Figure 8: MSE on random sets of 5 % of the domain",
        _PAPER.draw(),
        {"queries": ["sets of 5 %"], "metric": ["mse"]},
    ),
    (
        "fig9",
        "Figure 9: MSE of the ten most frequent values",
        _PAPER.draw(),
        {"queries": ["top 10"], "metric": ["mse"]},
    ),
    ("metrics", "Section C.2: full-domain MAE beside MSE", None, {"queries": ["every value"]}),
):
    FIGURES.add(f"2019-{_name}", _title, tuple(_APPENDIX), draw=_draw, note=_POWER)(
        _of_appendix(**_conditions)
    )


@FIGURES.add(
    "2019-cut-sum",
    "Section C.3: the sum of the estimates after Base-Cut at epsilon 2",
    tuple(_APPENDIX),
)
def _(settings: Settings) -> Table:
    rows = []
    for population in settings.populations(_APPENDIX).values():
        oracle = OUE(2.0, categories=len(population.counts), random_state=settings.seed)
        raw = oracle.simulate(population.counts, settings.n_repeats)
        total = METHODS_2019["Base-Cut"].fit_transform(raw).values.sum(axis=1)
        error = total.std(ddof=1) / np.sqrt(len(total))
        rows.append(
            {"population": population.name, "mean_sum": total.mean(), "mean_sum_error": error}
        )
    return Table.of(rows)
