"""What the papers print, as data: each statement with its tolerance and its measurement."""

from __future__ import annotations

from collections.abc import Callable
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
    growth,
    log10_of,
    near,
    over_best,
    over_worst,
    ratio,
    symmetry,
)
from ._methods import LEFT, METHODS_2019, METHODS_2020

_ALL_2020, _ALL_2019 = list(METHODS_2020), list(METHODS_2019)
_NOT_NORMED_2020 = ["Base", "Base-Pos", "Post-Pos", "Base-Cut", "Power"]
_NOT_NORMED_2019 = ["Base", "Base-Pos", "Post-Pos", "Base-Cut", "Power"]
_RANDOM_DRAW = "5,000 runs and another draw of the users move it by up to 1 %."
_CUT_NOTE = (
    "Norm-Cut as defined keeps whole estimates with a sum of at most 1, so about half of the first "
    "one that is cut is missing on average."
)
_RESCALED_NOTE = (
    "What the authors must have done: keep the estimate at which the sum passes 1 as well, and "
    "divide by the sum. Their published code does that."
)


# -- the 2020 paper -------------------------------------------------------------------------------
def _bias_sum(method: str) -> Callable:
    def measure(table: Any) -> list[Measured]:
        part = table.select(postprocessor=method)
        return [Measured("", part["bias_sum"][0], part["bias_sum_error"][0])]

    return measure


def _norm_variance(table: Any) -> list[Measured]:
    """How much smaller Norm's variances are in total, times d: 1 if their ratio is (d - 1) / d."""
    base, norm = (table.select(postprocessor=name) for name in ("Base", "Norm"))
    d = len(base["variance"])
    value = d * (1 - norm["variance"].sum() / base["variance"].sum())
    # It is the variance of the shift, a chi-square with one degree of freedom less than the runs.
    return [Measured("", value, value * np.sqrt(2 / (base["n_runs"][0] - 1)))]


def _saved(table: Any) -> list[Measured]:
    part = table.select(postprocessor="PowerNS")
    rows = zip(
        part["n_samples"],
        part["saved"],
        (1 - part["saved"]) * part["standard_error"] / part["equivalent_n_samples"],
        strict=True,
    )
    return [Measured(f"n {n:,}", saved, error) for n, saved, error in rows]


def _slope(table: Any) -> list[Measured]:
    part = table.select(postprocessor=["Base", "Norm"])
    names = ["postprocessor", "n_samples", "equivalent_n_samples", "standard_error"]
    rows = zip(*(part[name] for name in names), strict=True)
    return [Measured(f"{name}, n {n:,}", worth / n, error / n) for name, n, worth, error in rows]


def _choices(table: Any, synthesizer: str) -> Any:
    return table.select(synthesizer=synthesizer, is_chosen=True)


def _share(where: str, hits: np.ndarray) -> list[Measured]:
    """A share with the standard error of (hits + 1) of (n + 2), which is never 0."""
    p = (hits.sum() + 1) / (len(hits) + 2)
    return [Measured(where, hits.mean(), np.sqrt(p * (1 - p) / len(hits)))]


def _regret(table: Any) -> list[Measured]:
    regret = _choices(table, "NormSub")["regret"]
    error = regret.std(ddof=1) / np.sqrt(len(regret)) if len(regret) > 1 else np.inf
    return [Measured(f"mean of {len(regret)} choices", regret.mean(), error)]


def _picks_itself(table: Any) -> list[Measured]:
    chosen = _choices(table, "PowerNS")["postprocessor"]
    return _share(f"of {len(chosen)} choices", chosen == "PowerNS")


PAPER_2020 = [
    Claim(
        "2020-fig2",
        "Base is unbiased; printed bias sum −1,405",
        near(0, absolute=5000),
        _bias_sum("Base"),
        "5,000 runs leave a standard error of about 870.",
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
        Claim("2020-fig2", f"bias sum of {name}: 0", near(0, absolute=1), _bias_sum(name))
        for name in ("Norm", "Norm-Mul", "Norm-Sub", "PowerNS")
    ],
    Claim(
        "2020-fig2",
        "bias sum of Norm-Cut: 0, by the papers' definition",
        near(0, absolute=1),
        _bias_sum("Norm-Cut"),
        _CUT_NOTE,
    ),
    Claim(
        "2020-fig2",
        "bias sum of Norm-Cut: 0, rescaled",
        near(0, absolute=1),
        _bias_sum("Norm-Cut, rescaled"),
        _RESCALED_NOTE,
    ),
    Claim(
        "2020-fig3",
        "Norm's variance is (d − 1)/d of Base's (2019, section 3.2): d times what it saves is 1",
        near(1, absolute=0.15),
        _norm_variance,
    ),
    Claim(
        "2020-fig4",
        "MSE of Base-Pos is around half that of Base",
        near(0.5, absolute=0.1),
        ratio("Base-Pos", "Base"),
    ),
    Claim(
        "2020-fig4",
        "Norm-Sub reduces the MSE of Base by about a factor of 10 (Zipf's)",
        about(10),
        ratio("Base", "Norm-Sub", population="Zipf's"),
    ),
    Claim(
        "2020-fig4",
        "Norm-Sub reduces the MSE of Base by about a factor of 100 (Emoji)",
        about(100),
        ratio("Base", "Norm-Sub", population="Emoji"),
        "The paper's data have twice the emojis, most of them hardly ever used.",
    ),
    Claim(
        "2020-fig4",
        "Norm-Sub and MLE-Apx perform almost exactly the same",
        near(1, absolute=0.05),
        ratio("MLE-Apx", "Norm-Sub"),
    ),
    Claim(
        "2020-fig4",
        "Base performs very close to Norm",
        near(1, absolute=0.01),
        ratio("Norm", "Base"),
    ),
    Claim(
        "2020-fig4",
        "PowerNS performs the best: its MSE over the least of the others",
        at_most(1.02),
        over_best("PowerNS", _ALL_2020),
    ),
    Claim(
        "2020-fig5",
        "Base and Norm are straight lines of slope 1: n'/n",
        near(1, absolute=0.05),
        _slope,
    ),
    Claim(
        "2020-fig5",
        "PowerNS saves around 90 % of the users: 1 − n/n'",
        near(0.9, absolute=0.03),
        _saved,
    ),
    Claim(
        "2020-fig6",
        "at ρ = 90 PowerNS beats every method without normalisation by 2 orders of magnitude: "
        "least MSE of those over its own",
        at_least(100),
        best_over(_NOT_NORMED_2020, "PowerNS", axis="queries", queries="90"),
    ),
    Claim(
        "2020-fig6",
        "the MSE of normalised methods is symmetric about ρ = 50 (all but Norm-Cut)",
        near(1, absolute=0.02),
        symmetry(["Norm", "Norm-Mul", "Norm-Sub", "MLE-Apx", "PowerNS"]),
    ),
    Claim(
        "2020-fig6",
        "so is that of Norm-Cut",
        near(1, absolute=0.02),
        symmetry(["Norm-Cut"]),
        "Norm-Cut's sum is not quite 1; the larger set bears what is missing.",
    ),
    Claim(
        "2020-fig7",
        "errors of all methods increase with ρ: least ratio from one size to the next",
        at_least(1),
        growth(_ALL_2020),
    ),
    Claim(
        "2020-fig7",
        "Norm-Cut is better than Base-Cut, especially for ρ ≥ 2 (here ρ ≥ 5)",
        at_most(1),
        ratio("Norm-Cut", "Base-Cut", axis="queries", queries=["5", "10"]),
    ),
    Claim(
        "2020-fig8",
        "Post-Pos works best of the left panel on the categories of emojis",
        at_most(1),
        over_best("Post-Pos", LEFT),
        "The paper's categories, and its rare emojis, are not ours.",
    ),
    Claim(
        "2020-fig8",
        "Norm-Cut performs even better, especially for epsilon < 3 (here 0.2 and 1)",
        at_most(1),
        ratio("Norm-Cut", "Post-Pos", epsilon=[0.2, 1.0]),
        "The paper's categories, and its rare emojis, are not ours.",
    ),
    Claim(
        "2020-fig9",
        "synthetic data by Norm-Sub find the optimal method quite accurately: true error of the "
        "choice over the least one, less 1",
        at_most(0.1),
        _regret,
    ),
    Claim(
        "2020-fig9",
        "synthetic data by PowerNS select PowerNS: share of the choices",
        at_least(0.8),
        _picks_itself,
    ),
    Claim(
        "2020-fig10",
        "Norm-Mul is at least 10 times worse than any other method on the top k",
        at_least(10),
        over_worst("Norm-Mul", _ALL_2020, axis="queries"),
    ),
    Claim(
        "2020-fig10",
        "Norm-Sub is worse than Base on the top k",
        at_least(1),
        ratio("Norm-Sub", "Base", axis="queries"),
    ),
    Claim(
        "2020-fig10",
        "PowerNS is worse than Base-Cut for k > 10 (here k = 32)",
        at_least(1),
        ratio("PowerNS", "Base-Cut", axis="queries", queries="32"),
    ),
]


# -- the 2019 paper -------------------------------------------------------------------------------
_CONSISTENT = ["Norm-Sub", "MLE-Apx", "Norm-Hyb"]

PAPER_2019 = [
    Claim(
        "2019-fig1",
        "Norm-Sub reduces the MSE of Base by about a factor of 10",
        about(10),
        ratio("Base", "Norm-Sub"),
    ),
    Claim(
        "2019-fig1",
        "MSE of Base-Pos is around half that of Base",
        near(0.5, absolute=0.1),
        ratio("Base-Pos", "Base"),
    ),
    Claim(
        "2019-fig1",
        "Norm-Sub and MLE-Apx perform almost exactly the same",
        near(1, absolute=0.05),
        ratio("MLE-Apx", "Norm-Sub"),
    ),
    Claim(
        "2019-fig2",
        "at ρ = 90 Norm-Hyb is 1.5 to 4 orders of magnitude better than any method without "
        "normalisation",
        between(1.5, 4),
        log10_of(best_over(_NOT_NORMED_2019, "Norm-Hyb", axis="queries", queries="90")),
    ),
    Claim(
        "2019-fig2",
        "Norm-Hyb is the best on sets: its MSE over the least of the others, ρ 10 to 90",
        at_most(1.02),
        over_best("Norm-Hyb", _ALL_2019, axis="queries"),
    ),
    Claim(
        "2019-fig2",
        "the MSE of Base-Pos is 1 to 2 orders of magnitude above the others' (the greatest of "
        "them, at ρ = 90)",
        between(1, 2),
        log10_of(over_worst("Base-Pos", _ALL_2019, axis="queries", queries="90")),
    ),
    Claim(
        "2019-fig3",
        "errors of all methods increase with ρ: least ratio from one size to the next",
        at_least(1),
        growth(_ALL_2019),
    ),
    Claim(
        "2019-fig4",
        "Norm-Hyb performs consistently better than the other methods (but Norm-Sub and MLE-Apx) "
        "on states and regions",
        at_most(1),
        lambda study: [
            one._replace(where=f"{queries}, {one.where}")
            for queries in ("State", "Region")
            for one in over_best(
                "Norm-Hyb",
                [name for name in _ALL_2019 if name not in _CONSISTENT],
                queries=queries,
            )(study)
        ],
    ),
    Claim(
        "2019-fig5",
        "Norm-Mul is at least 10 times worse than any other method on the top k",
        at_least(10),
        over_worst("Norm-Mul", _ALL_2019, axis="queries"),
    ),
    Claim(
        "2019-fig7",
        "the MAE of Base-Cut is 30 % to 50 % below that of Norm-Hyb (all four data sets)",
        between(0.5, 0.7),
        ratio("Base-Cut", "Norm-Hyb"),
    ),
    Claim(
        "2019-fig8",
        "on sets the MSE of Base-Pos is about 1 order of magnitude above the others' (the "
        "greatest of them)",
        about(10, 3),
        over_worst("Base-Pos", _ALL_2019),
    ),
    Claim(
        "2019-fig9",
        "for epsilon < 1 the MSE of Base-Cut on the top 10 is around twice that of Base",
        about(2),
        ratio("Base-Cut", "Base", epsilon=[0.2]),
        "Measured at epsilon 0.2.",
    ),
]


# -- Calibrate ------------------------------------------------------------------------------------
def _gain(method: str, population: str, epsilon: float, reading: str = "zero/ours − 1") -> Callable:
    def measure(table: Any) -> list[Measured]:
        part = table.select(postprocessor=method, population=population, epsilon=epsilon)
        if not len(part["error"]):
            return []
        value, error = part["zero_over_this"][0], part["zero_over_this_error"][0]
        if reading == "zero/ours − 1":
            return [Measured("", value - 1, error)]
        return [Measured("", 1 - 1 / value, error / value**2)]

    return measure


def _noise(column: str) -> Callable:
    def measure(table: Any) -> list[Measured]:
        error = table[f"{column}_error"][0] if f"{column}_error" in table else 0.0
        return [Measured("", table[column][0], error)]

    return measure


def _f_score_gain(table: Any) -> list[Measured]:
    ours = table.select(score="f_score", postprocessor="OUE-Calibrate")
    axis = "threshold" if len(set(ours["epsilon"].tolist())) == 1 else "epsilon"
    rows = zip(ours[axis], ours["over_zero"], ours["over_zero_error"], strict=True)
    return [Measured(f"{axis} {x:,.0f}", gain, error) for x, gain, error in rows]


_GAINS = [("Retail", 1.0, 0.024, 0.02), ("Retail", 5.0, 0.65, 0.05)]
_KOSARAK_GAINS = [("Kosarak", 1.0, 0.16, 0.02), ("Kosarak", 5.0, 0.97, 0.05)]

CALIBRATE = [
    Claim(
        "calibrate-fig4",
        "theoretical noise level 5,434 (the paper calls it a variance)",
        near(5434, relative=0.001),
        _noise("theory_std"),
        "It is the standard deviation at epsilon 1 and n = 8,019,015.",
    ),
    Claim(
        "calibrate-fig4",
        "fitted noise level 5,405",
        near(5405, relative=0.02),
        _noise("std"),
    ),
    *[
        Claim(
            "calibrate-fig7",
            f"{population}, epsilon {epsilon:g}: OUE-Calibrate improves on OUE-Zero by "
            f"{published:.1%}; exponent by marginal likelihood (Eq. 16), error of OUE-Zero over "
            "its own, less 1",
            near(published, absolute=slack),
            _gain("OUE-Calibrate", population, epsilon),
        )
        for population, epsilon, published, slack in _GAINS + _KOSARAK_GAINS
    ],
    *[
        Claim(
            "calibrate-fig7",
            f"{population}, epsilon {epsilon:g}: the same {published:.1%}, read as 1 less its own "
            "error over that of OUE-Zero",
            near(published, absolute=slack),
            _gain("OUE-Calibrate", population, epsilon, "1 − ours/zero"),
        )
        for population, epsilon, published, slack in _GAINS
    ],
    *[
        Claim(
            "calibrate-fig7",
            f"{population}, epsilon {epsilon:g}: the same {published:.1%} with the exponent from "
            "the mean (Eq. 17)",
            near(published, absolute=slack),
            _gain("OUE-Calibrate, mean-variance", population, epsilon),
        )
        for population, epsilon, published, slack in _GAINS
    ],
    *[
        Claim(
            figure,
            f"{what}: F-score of OUE-Calibrate less that of OUE-Zero",
            at_least(-0.01),
            _f_score_gain,
            "Less than 0.01 below is as good.",
        )
        for figure, what in [
            ("calibrate-fig5", "better at every threshold (Kosarak)"),
            ("calibrate-fig6", "better at every threshold (Retail)"),
            ("calibrate-fig8", "better at every epsilon (Kosarak)"),
            ("calibrate-fig9", "better at every epsilon (Retail)"),
        ]
    ],
]

CLAIMS = [*PAPER_2020, *PAPER_2019, *CALIBRATE]
