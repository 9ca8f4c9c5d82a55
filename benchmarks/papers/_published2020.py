"""What the NDSS 2020 paper states, with its tolerance and its measurement."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ._claims import (
    Claim,
    Measured,
    about,
    at_least,
    at_most,
    best_over,
    between,
    both,
    each,
    errors_of,
    growth,
    last_over_first,
    near,
    of_points,
    over_best,
    over_typical,
    over_worst,
    paired_ratio,
    ratio,
    spread,
    symmetry,
)
from ._methods import LEFT, METHODS_2020

ALL_2020 = list(METHODS_2020)
NOT_NORMED = ["Base", "Base-Pos", "Post-Pos", "Base-Cut", "Power"]
NORMED = ["Norm", "Norm-Mul", "Norm-Sub", "MLE-Apx", "Norm-Cut", "PowerNS"]
SUM_ONE = [name for name in NORMED if name != "Norm-Cut"]
_RANDOM_DRAW = "5,000 runs and another draw of the users move it by up to 1 %."
_CUT_NOTE = (
    "Norm-Cut as defined keeps whole estimates with a sum of at most 1, so about half of the first "
    "one that is cut is missing on average."
)
_RESCALED_NOTE = (
    "The authors' published code keeps the estimate at which the sum passes 1 as well, and divides "
    "by the sum, so that it is 1 by algebra. That Figure 2 was made with it is an inference."
)
_TIES = "Up to 2 % more is as good."
EQUAL = "Where they are equal, up to 2 % more is as good."


def at_size(least: float = 0, most: float = np.inf) -> Callable[[Any], bool]:
    """A condition on set sizes and on k."""
    return lambda value: least <= float(value) <= most


# -- Figures 1 to 3: moments of each count --------------------------------------------------------
def _bias_sum(method: str) -> Callable:
    def measure(table: Any) -> list[Measured]:
        part = table.select(postprocessor=method)
        return [Measured("", part["bias_sum"][0], part["bias_sum_error"][0])]

    return measure


def _of_ranks(part: Any, column: str, first: int, last: int) -> tuple[float, float]:
    """Mean of a column over ranks, with its standard error as if ranks were independent."""
    among = (part["rank"] >= first) & (part["rank"] <= last)
    error = part["bias_error"][among] if column == "bias" else np.zeros(among.sum())
    return part[column][among].mean(), np.sqrt((error**2).sum()) / among.sum()


def _biases(method: str, *ranks: tuple[int, int], relative: bool = False) -> Callable:
    def measure(table: Any) -> list[Measured]:
        part = table.select(postprocessor=method)
        found = []
        for first, last in ranks:
            where = f"rank {first}" if first == last else f"ranks {first} to {last:,}"
            value, error = _of_ranks(part, "bias", first, last)
            scale = _of_ranks(part, "count", first, last)[0] if relative else 1.0
            found.append(Measured(where, value / scale, error / scale))
        return found

    return measure


_TOP = [(rank, rank) for rank in range(1, 6)]
_LOW = [(513, 1024)]
_BLOCKS = [(1, 10), (11, 100), (101, 1024)]


def _opposed_biases(method: str) -> Callable:
    """Biases with the sign that a method is said to give them turned to plus."""

    def measure(table: Any) -> list[Measured]:
        top = _biases(method, *_TOP)(table)
        return [one._replace(value=-one.value) for one in top] + _biases(method, *_LOW)(table)

    return measure


def _bias_steps(method: str) -> Callable:
    """How much the mean bias of a block of ranks is above that of the block before."""

    def measure(table: Any) -> list[Measured]:
        found = _biases(method, *_BLOCKS)(table)
        return [
            Measured(f"{b.where} less {a.where}", b.value - a.value, np.hypot(a.error, b.error))
            for a, b in pairwise(found)
        ]

    return measure


def _greatest_bias(table: Any) -> list[Measured]:
    ours, other = (table.select(postprocessor=name)["bias"] for name in ("Norm-Sub", "Norm-Mul"))
    return [Measured("", np.abs(ours).max() / np.abs(other).max())]


def _power_shrinks_low_ones(table: Any) -> list[Measured]:
    top, low = _biases("Power", (1, 5), (101, 1024), relative=True)(table)
    return [Measured("", abs(top.value / low.value), top.error / abs(low.value))]


def _variance_ratio(method: str, top: tuple[int, int], bottom: tuple[int, int]) -> Callable:
    def measure(table: Any) -> list[Measured]:
        part = table.select(postprocessor=method)
        value = _of_ranks(part, "variance", *top)[0] / _of_ranks(part, "variance", *bottom)[0]
        runs = part["n_runs"][0] * min(top[1] - top[0] + 1, bottom[1] - bottom[0] + 1)
        return [Measured("", value, value * np.sqrt(4 / runs))]

    return measure


def norm_variance(table: Any) -> list[Measured]:
    """How much smaller Norm's variances are in total, times d: 1 if their ratio is (d - 1) / d."""
    base, norm = (table.select(postprocessor=name) for name in ("Base", "Norm"))
    d = len(base["variance"])
    value = d * (1 - norm["variance"].sum() / base["variance"].sum())
    # It is the variance of the shift, a chi-square with one degree of freedom less than the runs.
    return [Measured("", value, value * np.sqrt(2 / (base["n_runs"][0] - 1)))]


# -- Table I, section III -------------------------------------------------------------------------
_PROMISES = {
    "is_non_negative": ["Base-Pos", "Post-Pos", "Base-Cut", "Norm-Mul", "Norm-Sub", "MLE-Apx"],
    "sums_to_one": SUM_ONE,
    "keeps_order": ALL_2020,
}


def promises(more: dict[str, list[str]]) -> Callable:
    """1 for each property that a method has, 0 if it lacks one that the table promises."""

    def measure(table: Any) -> list[Measured]:
        return [
            Measured(f"{name}, {what}", float(table.select(postprocessor=name)[what][0]))
            for what, names in _PROMISES.items()
            for name in [*names, *more.get(what, [])]
            if name in table["postprocessor"]
        ]

    return measure


def threshold_ratio(table: Any) -> list[Measured]:
    """Norm-Cut's threshold over Base-Cut's."""
    cut, base = (
        table.select(postprocessor=name)["mean_threshold"][0] for name in ("Norm-Cut", "Base-Cut")
    )
    return [Measured("", cut / base)]


def reliable(table: Any) -> list[Measured]:
    """Categories that Base-Cut finds in 95 % of the collections."""
    return [Measured("", float(table.select(postprocessor="Base-Cut")["reliable"][0]))]


def sum_short_of_one(table: Any) -> list[Measured]:
    """How far Norm-Cut's sum is from 1 at most."""
    part = table.select(postprocessor="Norm-Cut")
    return [Measured("", 1 - part["least_sum"][0])]


def _oracle_noise(top: str, bottom: str, epsilons: list[float]) -> Callable:
    def measure(table: Any) -> list[Measured]:
        d = table["d"].max()
        found = []
        for epsilon in epsilons:
            a, b = (
                table.select(oracle=name, epsilon=epsilon, d=d)["noise"][0]
                for name in (top, bottom)
            )
            found.append(Measured(f"epsilon {epsilon:g}", a / b))
        return found

    return measure


def _grr_growth(table: Any) -> list[Measured]:
    found = []
    for epsilon in (0.5, 1.0):
        part = table.select(oracle="GRR", epsilon=epsilon)
        order = np.argsort(part["d"])
        small, large = part["noise"][order]
        d_small, d_large = part["d"][order]
        found.append(
            Measured(
                f"epsilon {epsilon:g}", (large - small) / small * d_small / (d_large - d_small)
            )
        )
    return found


def _sum_std(names: list[str]) -> Callable:
    def measure(table: Any) -> list[Measured]:
        part = table.select(oracle=names, epsilon=1.0)
        rows = zip(part["oracle"], part["d"], part["sum_std"], strict=True)
        return [Measured(f"{name}, d {d:,}", float(value)) for name, d, value in rows]

    return measure


# -- Figure 5 -------------------------------------------------------------------------------------
def _saved(table: Any) -> list[Measured]:
    part = table.select(postprocessor="PowerNS")
    rows = zip(
        part["n_samples"],
        part["saved"],
        (1 - part["saved"]) * part["standard_error"] / part["equivalent_n_samples"],
        strict=True,
    )
    return [Measured(f"n {n:,}", saved, error) for n, saved, error in rows]


def _worth(*methods: str) -> Callable:
    """n' over n."""

    def measure(table: Any) -> list[Measured]:
        part = table.select(postprocessor=list(methods))
        names = ["postprocessor", "n_samples", "equivalent_n_samples", "standard_error"]
        rows = zip(*(part[name] for name in names), strict=True)
        return [
            Measured(f"{name}, n {n:,}", worth / n, error / n) for name, n, worth, error in rows
        ]

    return measure


def _rise(table: Any) -> list[Measured]:
    part = table.select(postprocessor="Norm-Mul")
    n, worth, error = (part[c] for c in ("n_samples", "equivalent_n_samples", "standard_error"))
    first, last = np.argmin(n), np.argmax(n)
    length = n[last] - n[first]
    value = (worth[last] - worth[first]) / length
    return [Measured("", value, np.hypot(error[first], error[last]) / length)]


def _pairs(top: str, bottom: str) -> Callable:
    def measure(table: Any) -> list[Measured]:
        found = []
        for n in np.unique(table["n_samples"]):
            a, b = (table.select(postprocessor=m, n_samples=n) for m in (top, bottom))
            value = a["equivalent_n_samples"][0] / b["equivalent_n_samples"][0]
            # Both come from the same collections; that is left out, so this is at most too wide.
            relative = np.hypot(
                *(x["standard_error"][0] / x["equivalent_n_samples"][0] for x in (a, b))
            )
            found.append(Measured(f"n {n:,}", value, value * relative))
        return found

    return measure


# -- Figures 4 to 10 ------------------------------------------------------------------------------
def decay_over_others(method: str, others: list[str]) -> Callable:
    """Factor by which a method's error falls along the axis, over the least one of the others."""

    def measure(study: Any) -> list[Measured]:
        found = {
            name: {one.where: one for one in last_over_first(name)(study)}
            for name in [method, *others]
        }
        points = []
        for population, ours in found[method].items():
            rivals = {name: found[name][population] for name in others if name != method}
            # The least fall has the greatest quotient of the last error and the first.
            name = max(rivals, key=lambda name: rivals[name].value)
            other = rivals[name]
            value = other.value / ours.value
            relative = np.hypot(ours.error / ours.value, other.error / other.value)
            points.append(Measured(f"{population}, {name}", value, value * relative))
        return points

    return measure


def level(methods: list[str], last: str) -> Callable:
    """Error at each k over that at the last, at which it is an average of the most values."""

    def measure(study: Any) -> list[Measured]:
        found = []
        for population in dict.fromkeys(study["population"].tolist()):
            part = study.select(population=[population])
            if last not in part["queries"]:
                continue
            end = part.select(queries=[last])
            for where, cell in of_points(study, "queries", population=[population]):
                if where == last:
                    continue
                found += [
                    Measured(
                        f"{population}, {name}, k {where}",
                        *paired_ratio(errors_of(cell, name), errors_of(end, name)),
                    )
                    for name in methods
                ]
        return found

    return measure


def _choices(table: Any, synthesizer: str) -> Any:
    return table.select(synthesizer=synthesizer, is_chosen=True)


def _regret(table: Any) -> list[Measured]:
    regret = _choices(table, "NormSub")["regret"]
    error = regret.std(ddof=1) / np.sqrt(len(regret)) if len(regret) > 1 else np.inf
    return [Measured(f"mean of {len(regret)} choices", regret.mean(), error)]


def _picks_itself(table: Any) -> list[Measured]:
    """A share with the standard error of (hits + 1) of (n + 2), which is never 0."""
    hits = _choices(table, "PowerNS")["postprocessor"] == "PowerNS"
    p = (hits.sum() + 1) / (len(hits) + 2)
    error = np.sqrt(p * (1 - p) / len(hits))
    return [Measured(f"of {len(hits)} choices", hits.mean(), error)]


_SECTION_3 = [
    Claim(
        "2020-oracles",
        "III-A: the variance of GRR grows linearly with d: relative growth of variance over that "
        "of d",
        near(1, absolute=0.01),
        _grr_growth,
        kind="check",
    ),
    Claim(
        "2020-oracles",
        "III-C: the noise of Subset Selection is less than that of OLH",
        at_most(1),
        _oracle_noise("Subset", "OLH", [0.5, 1.0, 2.0, 4.0]),
        kind="check",
    ),
    Claim(
        "2020-oracles",
        "VI: the noise of Hadamard Response is above that of OLH for larger epsilon (here 2 and 4)",
        at_least(1),
        _oracle_noise("Hadamard", "OLH", [2.0, 4.0]),
        kind="check",
    ),
    Claim(
        "2020-oracles",
        "IV-B: Norm does nothing for GRR and Subset Selection, whose estimates sum to 1: standard "
        "deviation of the sum",
        at_most(1e-9, ours=True),
        _sum_std(["GRR", "Subset"]),
        kind="check",
    ),
    Claim(
        "2020-oracles",
        "IV-B: Norm does nothing for Hadamard Response either: standard deviation of the sum",
        at_most(1e-9, ours=True),
        _sum_std(["Hadamard"]),
        "A report supports half of the K indices, and K is the power of 2 above d. The sum over "
        "fewer categories than K − 1 is random.",
    ),
    Claim(
        "2020-alpha",
        "IV-A: alpha = 5 % performs poorly: MSE of Base-Cut with 5 % over that with 2",
        at_least(1),
        lambda study: [
            one._replace(where=f"{name}, {one.where}")
            for name in dict.fromkeys(study["queries"].tolist())
            for one in ratio("Base-Cut, 5 %", "Base-Cut", queries=[name])(study)
        ],
    ),
]

_MOMENTS = [
    Claim(
        "2020-fig2",
        "Base is unbiased; printed bias sum −1,405",
        near(0, absolute=5000),
        _bias_sum("Base"),
        "5,000 runs leave a standard error of about 870.",
        kind="check",
    ),
    *[
        Claim(
            "2020-fig2",
            f"bias sum of {name}: {published:,}".replace("-1", "−1").replace(": -", ": −"),
            near(published, relative=0.02),
            _bias_sum(name),
            _RANDOM_DRAW,
        )
        for name, published in [
            ("Base-Pos", 711_932),
            ("Base-Cut", -137_449),
            ("Power", -96_332),
        ]
    ],
    *[
        Claim(
            "2020-fig2",
            f"bias sum of {name}: 0",
            near(0, absolute=1),
            _bias_sum(name),
            kind="check",
        )
        for name in ("Norm", "Norm-Mul", "Norm-Sub", "PowerNS")
    ],
    Claim(
        "2020-fig2",
        "bias sum of Norm-Cut: 0, by the papers' definition",
        near(0, absolute=1),
        _bias_sum("Norm-Cut"),
        _CUT_NOTE,
        key="cut-sum",
    ),
    Claim(
        "2020-fig2",
        "bias sum of Norm-Cut: 0, rescaled",
        near(0, absolute=1),
        _bias_sum("Norm-Cut, rescaled"),
        _RESCALED_NOTE,
        kind="reading",
    ),
    Claim(
        "2020-table1",
        "the promises of Table I (but Norm-Cut's sum): 1 where a method keeps one",
        at_least(1),
        promises({"is_non_negative": ["Norm-Cut", "Power", "PowerNS"]}),
        kind="check",
    ),
    Claim(
        "2020-table1",
        "IV-F: Norm-Cut enforces that the estimates sum to 1: greatest distance from 1",
        at_most(1e-9, ours=True),
        sum_short_of_one,
        _CUT_NOTE,
    ),
    Claim(
        "2020-table1",
        "V-B, V-C, V-E: the threshold of Norm-Cut is lower than that of Base-Cut: their ratio",
        at_most(1),
        threshold_ratio,
    ),
    Claim(
        "2020-table1",
        "V-E: at epsilon 1 around 10 values can be reliably estimated: categories that Base-Cut "
        "keeps in 95 % of the collections",
        about(10, 1.5),
        reliable,
        "95 % is ours.",
    ),
    Claim(
        "2020-fig2",
        "V-B: Base-Cut is unbiased for the first few most frequent values: bias over count",
        near(0, absolute=0.005),
        _biases("Base-Cut", *_TOP, relative=True),
    ),
    *[
        Claim(
            "2020-fig2",
            f"IV-B: under {name} high-frequency values have negative biases and low-frequency ones "
            "positive biases: minus the bias at ranks 1 to 5, and that at ranks 513 to 1,024",
            at_least(0),
            _opposed_biases(name),
        )
        for name in ("Norm-Mul", "Norm-Sub")
    ],
    Claim(
        "2020-fig2",
        "IV-B: the biases of Norm-Sub are more even than those of Norm-Mul: their greatest ones",
        at_most(1),
        _greatest_bias,
    ),
    Claim(
        "2020-fig2",
        "V-B: the bias of Norm-Sub increases with the rank: mean of a block of ranks less that of "
        "the block before",
        at_least(0),
        _bias_steps("Norm-Sub"),
    ),
    Claim(
        "2020-fig2",
        "V-B: Power changes little to the top estimations, more to the low ones: bias over count, "
        "of ranks 1 to 5 over that of 101 to 1,024",
        at_most(0.1, ours=True),
        _power_shrinks_low_ones,
    ),
    Claim(
        "2020-fig3",
        "V-B: the variance is similar for all values in Base and Norm: rank 1 over ranks 101 to "
        "1,024",
        near(1, absolute=0.2),
        each(["Base", "Norm"], lambda name: _variance_ratio(name, (1, 1), (101, 1024))),
    ),
    Claim(
        "2020-fig3",
        "V-B: in all other methods the variance drops with the rank: ranks 513 to 1,024 over ranks "
        "1 to 10",
        at_most(1),
        each(
            ["Base-Pos", "Base-Cut", "Norm-Mul", "Norm-Cut", "Norm-Sub", "Power", "PowerNS"],
            lambda name: _variance_ratio(name, (513, 1024), (1, 10)),
        ),
    ),
    Claim(
        "2020-fig3",
        "Norm's variance is (d − 1)/d of Base's (2019, section 3.2): d times what it saves is 1",
        near(1, absolute=0.15),
        norm_variance,
        kind="check",
    ),
]

_FULL = [
    Claim(
        "2020-fig4",
        "MSE of Base-Pos is around half that of Base",
        near(0.5, absolute=0.1),
        ratio("Base-Pos", "Base"),
        key="half",
    ),
    Claim(
        "2020-fig4",
        "Norm-Sub reduces the MSE of Base by about a factor of 10 (Zipf's)",
        about(10),
        ratio("Base", "Norm-Sub", population="Zipf's"),
        key="norm-sub-zipf",
    ),
    Claim(
        "2020-fig4",
        "Norm-Sub reduces the MSE of Base by about a factor of 100 (Emoji)",
        about(100),
        ratio("Base", "Norm-Sub", population="Emoji"),
        key="norm-sub-emoji",
    ),
    Claim(
        "2020-fig4",
        "the MSE of Norm-Mul decreases much slower than that of other methods (of the left panel, "
        "of which the paper speaks there): factor by which the least other one falls, over its own",
        at_least(2, ours=True),
        decay_over_others("Norm-Mul", LEFT),
        "From epsilon 0.2 to 4.",
    ),
    Claim(
        "2020-fig4",
        "Norm-Sub and MLE-Apx perform almost exactly the same",
        near(1, absolute=0.05),
        ratio("MLE-Apx", "Norm-Sub"),
        key="mle",
    ),
    Claim(
        "2020-fig4",
        "Base performs very close to Norm",
        near(1, absolute=0.01),
        ratio("Norm", "Base"),
        key="norm",
    ),
    Claim(
        "2020-fig4",
        "Norm-Sub, MLE-Apx, Power, PowerNS and Base-Cut perform very similarly: greatest MSE of "
        "them over the least",
        at_most(1.2, ours=True),
        spread(["Norm-Sub", "MLE-Apx", "Power", "PowerNS", "Base-Cut"]),
    ),
    Claim(
        "2020-fig4",
        "V-C: PowerNS performs the best: its MSE over the least of the others",
        at_most(1.02, ours=True),
        over_best("PowerNS", ALL_2020),
        _TIES,
        key="full-powerns",
    ),
    Claim(
        "2020-fig4",
        "I, V: for full-domain queries Base-Cut performs the best: its MSE over the least of the "
        "others",
        at_most(1.02, ours=True),
        over_best("Base-Cut", ALL_2020),
        f"V-C says that PowerNS does. {_TIES}",
        key="full-basecut",
    ),
    Claim(
        "2020-fig5",
        "Base and Norm are straight lines of slope 1: n'/n",
        near(1, absolute=0.05),
        _worth("Base", "Norm"),
        kind="check",
    ),
    Claim(
        "2020-fig5",
        "the y value of Norm-Mul grows even slower than that of Base: growth of n' over that of n",
        at_most(1),
        _rise,
    ),
    Claim(
        "2020-fig5",
        "Base-Pos and Post-Pos have similar performance: ratio of their n'",
        near(1, absolute=0.05),
        _pairs("Base-Pos", "Post-Pos"),
        "For queries of one value they are the same.",
        kind="check",
    ),
    Claim(
        "2020-fig5",
        "PowerNS saves around 90 % of the users: 1 − n/n'",
        near(0.9, absolute=0.03),
        _saved,
        key="saved",
    ),
]

_SETS = [
    Claim(
        "2020-fig6",
        "methods that sum to 1 perform well: their MSE over that of Base, at every ρ",
        at_most(1),
        each(NORMED, lambda name: ratio(name, "Base", axis="queries")),
    ),
    Claim(
        "2020-fig6",
        ".. especially when ρ is large: that ratio at ρ = 90 over the one at 10",
        at_most(1),
        each(NORMED, lambda name: last_over_first(name, "Base", axis="queries")),
        "1/9 by algebra if the sum is exactly 1.",
        kind="check",
    ),
    Claim(
        "2020-fig6",
        "at ρ = 90 PowerNS beats every method without normalisation by 2 orders of magnitude: "
        "least MSE of those over its own",
        at_least(100),
        best_over(NOT_NORMED, "PowerNS", axis="queries", queries="90"),
        key="two-orders",
    ),
    Claim(
        "2020-fig6",
        "the MSE of normalised methods is symmetric about ρ = 50 (all but Norm-Cut)",
        near(1, absolute=0.02),
        symmetry(SUM_ONE),
        kind="check",
    ),
    Claim(
        "2020-fig6",
        "so is that of Norm-Cut",
        near(1, absolute=0.02),
        symmetry(["Norm-Cut"]),
        "Norm-Cut's sum is not quite 1; the larger set bears what is missing.",
    ),
    Claim(
        "2020-fig6",
        "the MSE of Base-Pos is higher than that of the other methods (the greatest of them)",
        at_least(1),
        over_worst("Base-Pos", ALL_2020, axis="queries"),
    ),
    Claim(
        "2020-fig6",
        "the same of the typical other method",
        at_least(1),
        over_typical("Base-Pos", ALL_2020, axis="queries"),
        kind="reading",
    ),
    Claim(
        "2020-fig6",
        "Post-Pos is slightly better than Base",
        at_most(1.02, ours=True),
        ratio("Post-Pos", "Base", axis="queries"),
        EQUAL,
    ),
    Claim(
        "2020-fig6",
        "Base-Cut also outperforms Base",
        at_most(1),
        ratio("Base-Cut", "Base", axis="queries"),
        "Figure 2 prints sums of biases of −137,449 for Base-Cut and −1,405 for Base: with the "
        "size of the set the first one must fall behind.",
        key="cut-sets",
    ),
    Claim(
        "2020-fig6",
        "PowerNS achieves better utility than all other methods: its MSE over the least of them",
        at_most(1.02, ours=True),
        over_best("PowerNS", ALL_2020, axis="queries"),
        _TIES,
        key="sets-powerns",
    ),
    Claim(
        "2020-fig7",
        "errors of all methods increase with ρ: least ratio from one size to the next",
        at_least(1),
        growth(ALL_2020),
        "For sets of up to half the domain this is algebra, whatever the errors are.",
        kind="check",
    ),
    Claim(
        "2020-fig7",
        "Norm-Cut is better than Base-Cut, especially for ρ ≥ 2: at ρ ≥ 2",
        at_most(1.02, ours=True),
        ratio("Norm-Cut", "Base-Cut", axis="queries", queries=at_size(2)),
        EQUAL,
    ),
    Claim(
        "2020-fig7",
        "Norm-Mul does not answer sets better: its MSE over that of Base",
        at_least(1),
        ratio("Norm-Mul", "Base", axis="queries"),
    ),
    Claim(
        "2020-fig8",
        "Post-Pos works best of the left panel on the categories of emojis",
        at_most(1),
        over_best("Post-Pos", LEFT),
        "The authors' categories are not ours.",
        key="emoji-postpos",
    ),
    Claim(
        "2020-fig8",
        "Norm-Cut performs even better, especially for epsilon < 3: at epsilon < 3",
        at_most(1),
        ratio("Norm-Cut", "Post-Pos", epsilon=lambda epsilon: epsilon < 3),
        "The authors' categories are not ours.",
        key="emoji-normcut",
    ),
    Claim(
        "2020-fig9",
        "synthetic data by Norm-Sub find the optimal method quite accurately: true error of the "
        "choice over the least one, less 1",
        at_most(0.1, ours=True),
        _regret,
        key="synthetic",
    ),
    Claim(
        "2020-fig9",
        "synthetic data by PowerNS select PowerNS: share of the choices",
        at_least(0.8, ours=True),
        _picks_itself,
    ),
]

_TOP_K = [
    Claim(
        "2020-fig10",
        "Base, Base-Pos, Post-Pos and Norm perform consistently well for all k: MSE over that of "
        "Base",
        near(1, absolute=0.1),
        each(["Base-Pos", "Post-Pos", "Norm"], lambda name: ratio(name, "Base", axis="queries")),
    ),
    Claim(
        "2020-fig10",
        "Norm-Mul is at least 10 times worse than any other method on the top k",
        at_least(10),
        over_worst("Norm-Mul", ALL_2020, axis="queries"),
    ),
    Claim(
        "2020-fig10",
        "the same of the typical other method",
        at_least(10),
        over_typical("Norm-Mul", ALL_2020, axis="queries"),
        kind="reading",
    ),
    Claim(
        "2020-fig10",
        "Norm-Sub is worse than Base on the top k, but better than Norm-Mul: MSE of the worse one "
        "over that of the better one",
        at_least(1),
        both(
            ratio("Norm-Sub", "Base", axis="queries"), ratio("Norm-Mul", "Norm-Sub", axis="queries")
        ),
    ),
    Claim(
        "2020-fig10",
        "Base and Norm-Sub have consistent MSE for different k: over that at k = 32",
        between(0.67, 1.5, ours=True),
        level(["Base", "Norm-Sub"], "32"),
    ),
    Claim(
        "2020-fig10",
        "the MSE of Base-Cut, Norm-Cut, Power and PowerNS grows with k: at the last k over the "
        "first",
        at_least(1),
        each(
            ["Base-Cut", "Norm-Cut", "Power", "PowerNS"],
            lambda name: last_over_first(name, axis="queries"),
        ),
    ),
    Claim(
        "2020-fig10",
        "Norm-Cut is better than Base-Cut",
        at_most(1.02, ours=True),
        ratio("Norm-Cut", "Base-Cut", axis="queries"),
        EQUAL,
    ),
    Claim(
        "2020-fig10",
        "the performances of Power and PowerNS are similar",
        near(1, absolute=0.2),
        ratio("Power", "PowerNS", axis="queries"),
    ),
    Claim(
        "2020-fig10",
        "Power and PowerNS are worse than Base-Cut, especially for k > 10: at k > 10",
        at_least(1),
        each(
            ["Power", "PowerNS"],
            lambda name: ratio(name, "Base-Cut", axis="queries", queries=at_size(10.5)),
        ),
        key="powerns-top",
    ),
    Claim(
        "2020-fig10",
        "I, V: for the most frequent values Norm performs the best: its MSE over the least of the "
        "others",
        at_most(1.02, ours=True),
        over_best("Norm", ALL_2020, axis="queries"),
        _TIES,
        key="top-norm",
    ),
]

PAPER_2020 = [*_SECTION_3, *_MOMENTS, *_FULL, *_SETS, *_TOP_K]
