"""T. Wang et al., "Locally differentially private frequency estimation with consistency" (2020)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.stats import gmean
from sklearn.base import clone

from sklearn_ldp import (
    GRR,
    OLH,
    BaseCut,
    ExactMLE,
    FrequencyEstimate,
    HadamardResponse,
    NormCut,
    NormSub,
    PowerNS,
    SubsetSelection,
    SyntheticSearch,
)
from sklearn_ldp.datasets import make_zipf
from sklearn_ldp.inspection import ErrorCurveDisplay
from sklearn_ldp.metrics import bias_variance, equivalent_n_samples, query_errors
from sklearn_ldp.postprocessing import base_cut
from sklearn_ldp.queries import QuerySet, full_domain, groups, top_k

from ._experiment import Experiment, error_panels, rows_of_panels
from ._figure import Registry, Settings, Table, joined
from ._measures import distinct
from ._methods import LEFT, METHODS_2020, PAPER_OLH, RIGHT_2020, paper_olh
from ._populations import Population

FIGURES = Registry()
_PAPER = Experiment("2020", FIGURES, ("zipf", "emoji"), PAPER_OLH, METHODS_2020, RIGHT_2020)

_EPSILONS = np.arange(1, 21) / 5
_QUICK_EPSILONS = [0.2, 1, 4]
# Figures 1 to 3 have nine panels: Post-Pos is Base for single values, MLE-Apx is Norm-Sub.
_NINE = [
    *("Base", "Base-Pos", "Base-Cut"),
    *("Norm", "Norm-Mul", "Norm-Cut"),
    *("Norm-Sub", "Power", "PowerNS"),
]
_CUT_RESCALED = "Norm-Cut, rescaled"


# -- Table I --------------------------------------------------------------------------------------
def properties(settings: Settings, methods: dict) -> Table:
    """What the methods promise, held against what they return."""
    population = settings.population("zipf")
    raw = paper_olh(1.0, len(population.counts), settings.seed).simulate(
        population.counts, settings.n_repeats
    )
    rows = []
    for name, method in methods.items():
        fitted = clone(method).fit(raw)
        processed = fitted.transform(raw)
        total = processed.values.sum(axis=1)
        order = np.take_along_axis(processed.values, np.argsort(raw.values, axis=1), axis=1)
        rows.append(
            {
                "postprocessor": name,
                "least_answer": processed.answer(full_domain()).min(),
                "least_sum": total.min(),
                "greatest_sum": total.max(),
                "is_non_negative": bool(processed.answer(full_domain()).min() >= 0),
                "sums_to_one": bool(np.allclose(total, 1, rtol=0, atol=1e-9)),
                "keeps_order": bool(np.diff(order, axis=1).min() >= 0),
                "mean_threshold": np.mean(getattr(fitted, "threshold_", np.nan)),
                "reliable": int(np.sum((processed.values > 0).mean(axis=0) >= 0.95)),
            }
        )
    return Table.of(rows)


@FIGURES.add(
    "2020-table1",
    "Table I: what the methods promise, as measured",
    ("zipf",),
    note="`least_answer` and the sums are over all simulated collections at epsilon 1. Norm-Cut's "
    "sum is at most 1, not 1: see Figure 2. `mean_threshold` is that of the methods that have one, "
    "and `reliable` the number of categories above 0 in 95 % of the collections.",
)
def _(settings: Settings) -> Table:
    return properties(settings, METHODS_2020)


# -- section III: oracles -------------------------------------------------------------------------
_ORACLES = {
    "GRR": GRR(),
    "OLH": OLH(hash_family="mixing"),
    "Hadamard": HadamardResponse(),
    "Subset": SubsetSelection(),
}


@FIGURES.add(
    "2020-oracles",
    "Section III: noise of the oracles, and of the sums of their estimates",
    ("zipf",),
    note="`noise` is n times the variance of the estimate of a category that nobody has; `sum_std` "
    "the standard deviation of the sum of all estimates, which Norm makes 1.",
)
def _(settings: Settings) -> Table:
    counts = settings.population("zipf").counts
    rows = []
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        for name, oracle in _ORACLES.items():
            for d in (len(counts) // 2, len(counts)):
                made = clone(oracle).set_params(
                    epsilon=epsilon, categories=d, random_state=settings.seed
                )
                raw = made.simulate(counts[:d], settings.n_repeats)
                rows.append(
                    {
                        "oracle": name,
                        "epsilon": epsilon,
                        "d": d,
                        "noise": raw.noise.n_samples * float(raw.noise.std) ** 2,
                        "sum_std": raw.values.sum(axis=1).std(),
                    }
                )
    return Table.of(rows)


@FIGURES.add(
    "2020-alpha",
    "Section IV-A: Base-Cut with alpha = 2, and with 5 %",
    ("zipf", "emoji"),
    draw=lambda study: error_panels(
        study.select(queries=["every value"]),
        ["Base-Cut", "Base-Cut, 5 %"],
        left=["Base", "Base-Cut", "Base-Cut, 5 %"],
        x="epsilon",
        x_label="epsilon",
    ),
)
def _(settings: Settings) -> Any:
    methods = {
        "Base": METHODS_2020["Base"],
        "Base-Cut": METHODS_2020["Base-Cut"],
        "Base-Cut, 5 %": BaseCut(alpha=0.05),
    }
    return settings.errors(
        ["zipf", "emoji"],
        PAPER_OLH,
        methods,
        epsilons=settings.grid(_EPSILONS, _QUICK_EPSILONS),
        queries={"every value": full_domain(), "the 32 most frequent": top_k(32)},
    )


# -- Figures 1 to 3 -------------------------------------------------------------------------------
@cache
def bias_and_variance(settings: Settings) -> Table:
    """Mean, bias and variance of each count over many runs, a row a method and rank.

    Figures 1 to 3 share it.
    """
    population = settings.population("zipf")
    oracle = paper_olh(1.0, len(population.counts), settings.seed)
    raw = oracle.simulate(population.counts, settings.n_runs)
    made = {name: METHODS_2020[name].fit_transform for name in _NINE}
    made[_CUT_RESCALED] = NormCut(rescale=True).fit_transform
    parts = Parallel(n_jobs=settings.n_jobs)(
        delayed(_moments)(name, process, raw, population.counts) for name, process in made.items()
    )
    return Table({key: np.concatenate([part[key] for part in parts]) for key in parts[0]})


def _moments(name: str, process: Any, raw: FrequencyEstimate, counts: np.ndarray) -> dict:
    n, d = counts.sum(), len(counts)
    processed = process(raw)
    found = bias_variance(counts / n, processed)
    total = n * (np.asarray(processed).sum(axis=1) - 1)
    order = np.argsort(-counts, kind="stable")
    return {
        "postprocessor": np.full(d, name, dtype=object),
        "rank": np.arange(1, d + 1),
        "count": counts[order],
        "mean": n * found.mean[order],
        "bias": n * found.bias[order],
        "zeros": (np.asarray(processed) == 0).mean(axis=0)[order],
        "bias_error": n * found.bias_error[order],
        "variance": n**2 * found.variance[order],
        "bias_sum": np.full(d, total.mean()),
        "bias_sum_error": np.full(d, total.std(ddof=1) / np.sqrt(len(total))),
        "n_runs": np.full(d, len(total)),
    }


def _nine_panels(table: Table) -> Any:
    figure, axes = rows_of_panels(3, 3)
    for name, ax in zip(_NINE, axes.ravel(), strict=True):
        ax.set_title("Base (Post-Pos)" if name == "Base" else name)
        yield figure, ax, table.select(postprocessor=name)


def _draw_means(table: Table) -> Any:
    for figure, ax, part in _nine_panels(table):  # noqa: B007
        ax.plot(part["rank"], part["mean"], ".", markersize=3, color="#0072b2", label="mean")
        ax.plot(part["rank"], part["count"], color="black", linewidth=1, label="truth")
        ax.set(xscale="log", yscale="log", ylim=(1, 1e6), xlabel="rank", ylabel="count")
        ax.legend()
    return figure


def _draw_biases(table: Table) -> Any:
    for figure, ax, part in _nine_panels(table):  # noqa: B007
        ax.axhline(0, color="grey", linewidth=0.8)
        ax.plot(part["rank"], part["bias"], ".", markersize=2, color="#0072b2")
        total, error = part["bias_sum"][0], part["bias_sum_error"][0]
        ax.set(title=f"{ax.get_title()}: sum {round(total):,} ± {round(error):,}")
        ax.set(xscale="log", xlabel="rank", ylabel="bias of the count")
        ax.set_yscale("symlog", linthresh=100)
    return figure


def _draw_variances(table: Table) -> Any:
    for figure, ax, part in _nine_panels(table):  # noqa: B007
        ax.plot(part["rank"], part["variance"] / 1e6, ".", markersize=2, color="#0072b2")
        ax.set(xscale="log", xlabel="rank", ylabel="variance / 10⁶", ylim=(0, None))
    return figure


_RUNS = "Epsilon 1; 5,000 runs in the whole study, as in the paper."


def _sums(table: Table) -> Table:
    """The sums of the biases, and the mean squared errors of a count."""
    rows = []
    for name in distinct(table["postprocessor"]):
        part = table.select(postprocessor=name)
        row = {column: part[column][0] for column in ("bias_sum", "bias_sum_error")}
        mse = (part["bias"] ** 2 + part["variance"]).mean()
        rows.append({"postprocessor": name, **row, "mse": mse})
    return Table.of(rows)


for _number, _what, _draw, _summary in [
    (1, "mean estimate of each count", _draw_means, None),
    (2, "bias of each count, and the sum of the biases", _draw_biases, _sums),
    (3, "variance of each count", _draw_variances, None),
]:
    FIGURES.add(
        f"2020-fig{_number}",
        f"Figure {_number}: {_what}",
        ("zipf",),
        draw=_draw,
        note=_RUNS,
        summary=_summary,
    )(bias_and_variance)


# -- Figures 4 to 8, 10: errors -------------------------------------------------------------------
@FIGURES.add("2020-fig4", "Figure 4: full-domain MSE", ("zipf", "emoji"), draw=_PAPER.draw())
def _(settings: Settings) -> Any:
    return _PAPER.errors(settings, epsilons=settings.grid(_EPSILONS, _QUICK_EPSILONS))


def _draw_equivalents(table: Table) -> Any:
    figure, (axes,) = rows_of_panels(1)
    for ax, methods in zip(axes, (LEFT, RIGHT_2020), strict=True):
        display = ErrorCurveDisplay.from_results(
            table.select(postprocessor=methods),
            x="n_samples",
            error="equivalent_n_samples",
            ax=ax,
            error_scale="linear",
        )
        display.ax_.set(title="Zipf's", xlabel="n", ylabel="n' with Base")
    return figure


@FIGURES.add("2020-fig5", "Figure 5: n against n'", ("zipf",), draw=_draw_equivalents)
def _(settings: Settings) -> Table:
    population = settings.population("zipf")
    sizes = [int(n) for n in settings.grid(np.arange(1, 11) * 2e5, [2e5, 1e6, 2e6])]
    d = len(population.counts)
    # The law itself: its users at each n, so that all sizes share their shape.
    law = np.arange(1, d + 1) ** -1.5
    study = _PAPER.errors(
        settings,
        ["zipf"],
        epsilons=1.0,
        frequencies={population.name: law / law.sum()},
        n_samples=sizes,
    )
    noise = paper_olh(1.0, d, 0).simulate(population.counts).noise
    worth = equivalent_n_samples(noise, study.error, d)
    return Table(
        **study.columns,
        equivalent_n_samples=worth,
        standard_error=worth * study.standard_error / study.error,  # by the delta method
        saved=1 - study["n_samples"] / worth,
    )


_PAPER.add_sets(6, range(10, 91, 10), [10, 50, 90])
_PAPER.add_sets(7, range(1, 11), [1, 5, 10], n_repeats=90)


#: Groups that nobody drew: of a population, by a column, as the report calls them.
_GROUPED = (
    ("emoji-twitter", "subcategory", "subcategories"),
    ("emoji-twitter", "category", "categories"),
    ("census", "category", "states"),
    ("census", "division", "divisions"),
    ("states", "division", "divisions"),
    ("letters", "first letter", "first letters"),
)
_WITH_GROUPS = tuple(dict.fromkeys(key for key, *_ in _GROUPED))


def grouped(settings: Settings) -> dict[str, tuple[Population, QuerySet]]:
    """Populations, each with groups of its categories, by the names of both."""
    return {
        f"{population.name}, {name}": (population, groups(population.groups[column]))
        for key, column, name in _GROUPED
        if (population := settings.population(key)) is not None
    }


def _on_groups(settings: Settings, epsilons: Any) -> Any:
    return joined(
        [
            _PAPER.errors(
                settings, epsilons=epsilons, queries=queries, frequencies={name: one.counts}
            )
            for name, (one, queries) in grouped(settings).items()
        ]
    )


_PAPER.add_small_sets()


@FIGURES.add(
    "2020-smooth",
    "Section IV-B: Norm-Mul on smooth and on skewed data, single values",
    ("zipf",),
    draw=_PAPER.draw(),
    note="1,024 categories: uniform, falling in a line to 0, two normal peaks, four steps, falling "
    "by 1 % from one to the next, and Zipf's.",
)
def _(settings: Settings) -> Any:
    zipf = settings.population("zipf")
    n, d = zipf.n_samples, len(zipf.counts)
    place = np.arange(d) / d
    shapes = {
        "Uniform": np.ones(d),
        "Slope": 1 - place,
        "Two peaks": np.exp(-(((place - 0.3) / 0.05) ** 2)) + np.exp(-(((place - 0.7) / 0.1) ** 2)),
        "Steps": 4.0 ** -np.floor(4 * place),
        "Geometric": 0.99 ** np.arange(d),
    }
    counts = {name: np.round(n * f / f.sum()).astype(int) for name, f in shapes.items()}
    return _PAPER.errors(
        settings,
        epsilons=settings.grid(_EPSILONS[::2], _QUICK_EPSILONS),
        frequencies=counts | {zipf.name: zipf.counts},
    )


@FIGURES.add(
    "2020-exact-mle",
    "Section VI: exact maximum likelihood against Norm-Sub, GRR over 32 categories",
    ("zipf",),
    note="100,000 users; the closed form of the likelihood of GRR.",
)
def _(settings: Settings) -> Any:
    methods = {"Base": METHODS_2020["Base"], "Norm-Sub": NormSub(), "Exact MLE": ExactMLE()}
    counts = make_zipf(100_000, 32, return_counts=True, random_state=settings.seed)
    return settings.errors(
        ["zipf"],
        GRR(),
        methods,
        epsilons=settings.grid([0.5, 1, 2, 4], _QUICK_EPSILONS),
        frequencies={"Zipf's, d 32": counts},
    )


@FIGURES.add(
    "2020-fig8",
    "Figure 8: MSE on the categories of emojis, and on other groups that nobody drew",
    _WITH_GROUPS,
    draw=_PAPER.draw(),
)
def _(settings: Settings) -> Any:
    return _on_groups(settings, settings.grid(_EPSILONS[::2], _QUICK_EPSILONS))


# -- Figure 9 -------------------------------------------------------------------------------------
_CHOICE_EPSILONS = [0.2, 0.6, 1, 2, 3, 4]


def synthetic_choice(settings: Settings) -> Table:
    """Errors on synthetic data fitted by Norm-Sub and by PowerNS, beside the true errors."""
    epsilons = settings.grid(_CHOICE_EPSILONS, _QUICK_EPSILONS)
    study = _on_groups(settings, epsilons)
    tasks = []
    for name, (population, queries) in grouped(settings).items():
        for epsilon in epsilons:
            oracle = paper_olh(epsilon, len(population.counts), settings.seed + 1)
            collections = oracle.simulate(population.counts, 1 if settings.quick else 3)
            true_error = study.select(population=name, epsilon=epsilon).error
            tasks += [
                delayed(_choice)(settings, name, estimate, synthesizer, queries, true_error, i)
                for i, estimate in enumerate(collections)
                for synthesizer in (NormSub(), PowerNS())
            ]
    return Table.of([row for rows in Parallel(n_jobs=settings.n_jobs)(tasks) for row in rows])


def _choice(
    settings: Settings,
    name: str,
    estimate: FrequencyEstimate,
    synthesizer: Any,
    queries: Any,
    true_error: np.ndarray,
    i: int,
) -> list[dict[str, Any]]:
    search = SyntheticSearch(
        list(METHODS_2020.values()),
        queries=queries,
        synthesizer=synthesizer,
        n_repeats=settings.n_repeats,
        random_state=settings.seed + i,
    ).fit(estimate)
    results = search.results_
    return [
        {
            "population": name,
            "synthesizer": type(synthesizer).__name__,
            "epsilon": estimate.oracle.epsilon,
            "collection": i,
            "postprocessor": method,
            "error": -results["mean_test_score"][j],
            "standard_error": results["std_test_score"][j] / np.sqrt(settings.n_repeats - 1),
            "true_error": true_error[j],
            "is_chosen": j == search.best_index_,
            "regret": true_error[search.best_index_] / true_error.min() - 1,
        }
        for j, method in enumerate(METHODS_2020)
    ]


def _draw_choice(table: Table) -> Any:
    first = table.select(population=table["population"][0], collection=0)
    names = np.array([f"synthetic data by {one}" for one in first["synthesizer"].tolist()])
    return error_panels(
        Table(first | {"synthesizer": names}),
        RIGHT_2020,
        row="synthesizer",
        x="epsilon",
        x_label="epsilon",
        y_label="MSE on synthetic data",
    )


def _choices(table: Table) -> Table:
    """What was chosen most often, and how much worse it is than the best method."""
    rows = []
    for (name, epsilon), cell in pd.DataFrame(table).groupby(["population", "epsilon"], sort=False):
        best = cell.postprocessor[cell.true_error.idxmin()]
        row = {"groups": name, "epsilon": epsilon, "best": best}
        for synthesizer, chosen in cell[cell.is_chosen].groupby("synthesizer", sort=False):
            row[f"by {synthesizer}"] = chosen.postprocessor.value_counts().index[0]
            row[f"regret by {synthesizer}"] = chosen.regret.mean()
        rows.append(row)
    return Table.of(rows)


FIGURES.add(
    "2020-fig9",
    "Figure 9: choosing the method on a synthetic data set",
    _WITH_GROUPS,
    draw=_draw_choice,
    note="Drawn for one collection of the first groups at each epsilon; the table is of three "
    "collections, with the choice made most often, and the mean of `regret`: the true error of "
    "what each would choose over the least one, less 1.",
    summary=_choices,
)(synthetic_choice)

_PAPER.add_top(10)
_PAPER.add_known_k("Base-Cut", base_cut)


# -- choosing where the best method differs -------------------------------------------------------
_WIDER = {
    "zipf": "",
    "emoji-twitter": "subcategory",
    "census": "category",
    "beta": "",
    "pos": "",
    "fire": "",
}


def _wider_choices(table: Table) -> Table:
    rows = []
    for (data, kind), cell in pd.DataFrame(table).groupby(["data", "queries"], sort=False):
        chosen, single = cell[cell.is_choice], cell[~cell.is_choice]
        means = single.groupby("postprocessor", sort=False).over_least.agg(gmean)
        row = {"data": data, "queries": kind, "choice": gmean(chosen.over_least)}
        rows.append(row | {"best single method": means.idxmin(), "its error": means.min()})
    return Table.of(rows)


def _questions(population: Population, column: str) -> dict[str, Any]:
    asked = {"every value": full_domain(), "the ten most frequent": top_k(10)}
    return asked | ({"groups": groups(population.groups[column])} if column else {})


def _chosen(population: Population, column: str, epsilon: float, i: int, n_repeats: int) -> list:
    d = len(population.counts)
    estimate = paper_olh(epsilon, d, i).simulate(population.counts)
    made = {name: method.fit_transform(estimate) for name, method in METHODS_2020.items()}
    rows = []
    for kind, queries in _questions(population, column).items():
        search = SyntheticSearch(
            list(METHODS_2020.values()),
            queries=queries,
            synthesizer=NormSub(),
            n_repeats=n_repeats,
            random_state=i,
        ).fit(estimate)
        errors = {
            name: float(query_errors(population.frequencies, one, queries=queries)[0])
            for name, one in made.items()
        }
        choice = list(METHODS_2020)[search.best_index_]
        least = min(errors.values())
        cell = {"data": population.name, "epsilon": epsilon, "queries": kind, "collection": i}
        rows += [
            cell | {"postprocessor": name, "over_least": error / least, "is_choice": False}
            for name, error in errors.items()
        ]
        rows.append(
            cell
            | {"postprocessor": choice, "over_least": errors[choice] / least, "is_choice": True}
        )
    return rows


@FIGURES.add(
    "2020-choice",
    "Choosing on synthetic data, on data, epsilons and questions where the best method differs",
    tuple(_WIDER),
    note="`over_least` is the error on a collection over the least of all methods on it: of each "
    "method, and of the choice on synthetic data fitted by Norm-Sub. OLH with ideal hashing. The "
    "table has the geometric means of the choice and of the best single method in hindsight.",
    summary=_wider_choices,
)
def _(settings: Settings) -> Table:
    tasks = [
        delayed(_chosen)(population, _WIDER[key], epsilon, i, settings.n_repeats)
        for key, population in settings.populations(_WIDER).items()
        for epsilon in settings.grid([0.5, 1, 2, 4], [1, 4])
        for i in range(2 if settings.quick else 5)
    ]
    found = Parallel(n_jobs=settings.n_jobs)(tasks)
    return Table.of([row for rows in found for row in rows])
