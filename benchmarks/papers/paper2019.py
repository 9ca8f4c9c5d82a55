"""T. Wang et al., "Consistent and accurate frequency oracles under LDP" (2019)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_ldp import OUE, FrequencyEstimate
from sklearn_ldp.inspection import FrequencyDisplay
from sklearn_ldp.queries import groups, random_sets, top_k

from ._figure import Registry, Settings, Table
from ._methods import METHODS_2019, RIGHT_2019_BOTH, STUDIED_2019
from ._panels import error_panels, rows_of_panels
from .paper2020 import SETS_NOTE, SETS_REPEATS, TOP_REPEATS, properties

FIGURES = Registry()

_EPSILONS = np.arange(1, 11) / 5
_QUICK_EPSILONS = [0.2, 1, 2]
_MAIN = ["zipf", "census"]
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
    rows = []
    for key, (n, d) in published.items():
        population = settings.population(key)
        if population is not None:
            rows.append(
                {
                    "population": population.name,
                    "published_n": n,
                    "n": population.n_samples,
                    "published_d": d,
                    "d": len(population.counts),
                    "is_exact": population.is_exact,
                }
            )
    return Table.of(rows)


def _draw_by_epsilon(study: Any) -> Any:
    return error_panels(study, RIGHT_2019_BOTH, x="epsilon", x_label="epsilon")


def _draw_by_size(study: Any) -> Any:
    return error_panels(study, RIGHT_2019_BOTH, x="queries", x_label="ρ: set size, % of the domain")


@FIGURES.add("2019-fig1", "Figure 1: full-domain MSE", ("zipf", "census"), draw=_draw_by_epsilon)
def _(settings: Settings) -> Any:
    epsilons = settings.grid(_EPSILONS, _QUICK_EPSILONS)
    return settings.errors(
        _MAIN, OUE(), STUDIED_2019, epsilons=epsilons, n_repeats=2 * settings.n_repeats
    )


def _set_errors(settings: Settings, sizes: list[float], n_repeats: int = SETS_REPEATS) -> Any:
    queries = {f"{rho:g}": random_sets(rho / 100) for rho in sizes}
    return settings.errors(
        _MAIN,
        OUE(),
        STUDIED_2019,
        epsilons=1.0,
        queries=queries,
        n_repeats=n_repeats * settings.n_repeats,
    )


@FIGURES.add(
    "2019-fig2",
    "Figure 2: MSE on random sets of 10 % to 90 % of the domain",
    ("zipf", "census"),
    draw=_draw_by_size,
    note=SETS_NOTE,
)
def _(settings: Settings) -> Any:
    return _set_errors(settings, settings.grid(range(10, 91, 10), [10, 50, 90]))


@FIGURES.add(
    "2019-fig3",
    "Figure 3: MSE on random sets of 1 % to 10 % of the domain",
    ("zipf", "census"),
    draw=_draw_by_size,
    note=SETS_NOTE,
)
def _(settings: Settings) -> Any:
    return _set_errors(settings, settings.grid(range(1, 11), [1, 5, 10]), 90)


@FIGURES.add(
    "2019-fig4",
    "Figure 4: MSE on the states and regions of the census cities",
    ("census",),
    draw=lambda study: error_panels(
        study, RIGHT_2019_BOTH, x="epsilon", x_label="epsilon", row="queries"
    ),
    note="The paper's first pair of panels asks for state economic areas, which our data lack.",
)
def _(settings: Settings) -> Any:
    labels = settings.population("census").groups
    queries = {"State": groups(labels["category"]), "Region": groups(labels["division"])}
    epsilons = settings.grid(_EPSILONS, _QUICK_EPSILONS)
    return settings.errors(
        ["census"],
        OUE(),
        STUDIED_2019,
        epsilons=epsilons,
        queries=queries,
        n_repeats=10 * settings.n_repeats,
    )


@FIGURES.add(
    "2019-fig5",
    "Figure 5: MSE of the k most frequent values",
    ("zipf", "census"),
    draw=lambda study: error_panels(study, RIGHT_2019_BOTH, x="queries", x_label="k"),
)
def _(settings: Settings) -> Any:
    queries = {f"{k:g}": top_k(int(k)) for k in settings.grid(range(2, 33, 2), [2, 10, 32])}
    return settings.errors(
        _MAIN,
        OUE(),
        STUDIED_2019,
        epsilons=1.0,
        queries=queries,
        n_repeats=TOP_REPEATS * settings.n_repeats,
    )


# -- Appendix C -----------------------------------------------------------------------------------
def _draw_densities(table: Table) -> Any:
    names = list(dict.fromkeys(table["population"].tolist()))
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
    found = [settings.population(key) for key in ["census", *_APPENDIX, "zipf"]]
    parts = [
        {
            "population": np.full(len(p.counts), p.name, dtype=object),
            "rank": np.arange(1, len(p.counts) + 1),
            "count": -np.sort(-p.counts),
        }
        for p in found
        if p is not None
    ]
    return Table({key: np.concatenate([part[key] for part in parts]) for key in parts[0]})


_QUERIES = {"every value": None, "sets of 5 %": random_sets(0.05), "top 10": top_k(10)}
_simulated: dict[Settings, Any] = {}


def _appendix(settings: Settings, queries: str, metric: str = "mse") -> Any:
    """A figure of the appendix; all three ask the same collections, simulated once."""
    if settings not in _simulated:
        _simulated[settings] = settings.errors(
            _APPENDIX,
            OUE(),
            STUDIED_2019,
            epsilons=settings.grid(_EPSILONS, _QUICK_EPSILONS),
            queries=_QUERIES,
            metrics=["mse", "mae"],
        )
    return _simulated[settings].select(queries=[queries], metric=[metric])


_POWER = "The paper left out Power on Kosarak, where it took more than four hours a run."


@FIGURES.add(
    "2019-fig7",
    "Figure 7: full-domain MAE",
    ("beta", "pos", "fire", "kosarak"),
    draw=lambda study: error_panels(
        study, RIGHT_2019_BOTH, x="epsilon", x_label="epsilon", y_label="MAE"
    ),
    note=_POWER,
)
def _(settings: Settings) -> Any:
    return _appendix(settings, "every value", "mae")


@FIGURES.add(
    "2019-fig8",
    "Figure 8: MSE on random sets of 5 % of the domain",
    ("beta", "pos", "fire", "kosarak"),
    draw=_draw_by_epsilon,
    note=_POWER,
)
def _(settings: Settings) -> Any:
    return _appendix(settings, "sets of 5 %")


@FIGURES.add(
    "2019-fig9",
    "Figure 9: MSE of the ten most frequent values",
    ("beta", "pos", "fire", "kosarak"),
    draw=_draw_by_epsilon,
    note=_POWER,
)
def _(settings: Settings) -> Any:
    return _appendix(settings, "top 10")
