"""What the 2019 paper states, with its tolerance and its measurement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._claims import (
    Claim,
    Measured,
    about,
    at_least,
    at_most,
    between,
    both,
    each,
    growth,
    last_over_first,
    log10_of,
    near,
    over_best,
    over_typical,
    over_worst,
    ratio,
    spread,
    symmetry,
)
from ._methods import LEFT, METHODS_2019, POWER_2019
from ._published2020 import (
    EQUAL,
    at_size,
    decay_over_others,
    level,
    promises,
    reliable,
    sum_short_of_one,
    threshold_ratio,
)

ALL_2019 = list(METHODS_2019)
NOT_NORMED = ["Base", "Base-Pos", "Post-Pos", "Base-Cut", "Power"]
NORMED = ["Norm", "Norm-Mul", "Norm-Sub", "MLE-Apx", "Norm-Cut", "Norm-Hyb"]
SUM_ONE = [name for name in NORMED if name != "Norm-Cut"]
_CONSISTENT = ["Norm-Sub", "MLE-Apx", "Norm-Hyb"]
_SIMILAR = ["Norm-Sub", "MLE-Apx", "Norm-Hyb", "Base-Cut"]
_TIES = "Up to 2 % more is as good."
BY_CODE = (
    "Power as in the authors' code of 2019, whose normal density lacks the 2 of Eq. 10. That the "
    "figures were made with it is an inference."
)


def _at(names: list[str], measure: Callable) -> Callable:
    """The measurements for some queries, each by itself."""

    def measured(study: Any) -> list[Measured]:
        return [
            one._replace(where=f"{name}, {one.where}")
            for name in names
            for one in measure(name)(study)
        ]

    return measured


def _power(
    figure: str, text: str, band: Any, measure: Callable[[str], Callable], **kwargs: Any
) -> list[Claim]:
    """A statement about Power: by the paper's formula, and by the authors' code."""
    return [
        Claim(figure, text, band, measure("Power"), **kwargs),
        Claim(figure, f"the same: {text}", band, measure(POWER_2019), BY_CODE, kind="reading"),
    ]


def _region_is_fair(study: Any) -> list[Measured]:
    return ratio("Norm-Mul", "Norm-Sub", queries=["Region"])(study)


_MAIN = [
    Claim(
        "2019-table1",
        "the promises of Table 1 (but Norm-Cut's sum): 1 where a method keeps one",
        at_least(1),
        promises(
            {"is_non_negative": ["Norm-Cut", "Norm-Hyb", "Power"], "sums_to_one": ["Norm-Hyb"]}
        ),
        kind="check",
    ),
    Claim(
        "2019-table1",
        "Norm-Cut almost sums to 1 (and section 3.3: might be less): greatest distance from 1",
        at_most(0.05, ours=True),
        sum_short_of_one,
    ),
    Claim(
        "2019-table1",
        "the threshold of Norm-Cut is smaller than that of Base-Cut: their ratio",
        at_most(1),
        threshold_ratio,
    ),
    Claim(
        "2019-table1",
        "4.4: at epsilon 1 around 10 values can be reliably estimated: categories that Base-Cut "
        "keeps in 95 % of the collections",
        about(10, 1.5),
        reliable,
        "95 % is ours.",
    ),
    Claim(
        "2019-fig1",
        "Base performs very close to Norm (3.2: it improves by less than 1 %)",
        near(1, absolute=0.01),
        ratio("Norm", "Base"),
    ),
    Claim(
        "2019-fig1",
        "MSE of Base-Pos is around half that of Base",
        near(0.5, absolute=0.1),
        ratio("Base-Pos", "Base"),
    ),
    Claim(
        "2019-fig1",
        "Norm-Sub reduces the MSE of Base by about a factor of 10",
        about(10),
        ratio("Base", "Norm-Sub"),
        key="norm-sub-2019",
    ),
    Claim(
        "2019-fig1",
        "the MSE of Norm-Mul decreases much slower than that of other methods (of the left panel, "
        "of which the paper speaks there): factor by which the least other one falls, over its own",
        at_least(2, ours=True),
        decay_over_others("Norm-Mul", LEFT),
        "From epsilon 0.2 to 2.",
    ),
    Claim(
        "2019-fig1",
        "Norm-Sub and MLE-Apx perform almost exactly the same",
        near(1, absolute=0.05),
        ratio("MLE-Apx", "Norm-Sub"),
        key="mle-2019",
    ),
    Claim(
        "2019-fig1",
        "Norm-Sub and MLE-Apx are better than other methods: MSE of Norm-Sub over the least of "
        "them",
        at_most(1.02, ours=True),
        over_best("Norm-Sub", [name for name in ALL_2019 if name != "MLE-Apx"]),
        _TIES,
    ),
    *_power(
        "2019-fig1",
        "Norm-Sub, MLE-Apx, Power, Norm-Hyb and Base-Cut perform very similarly: greatest MSE of "
        "them over the least",
        at_most(1.2, ours=True),
        lambda power: spread([*_SIMILAR, power]),
        key="similar-2019",
    ),
    Claim(
        "2019-fig2",
        "methods that sum to 1 perform well: their MSE over that of Base, at every ρ",
        at_most(1),
        each(NORMED, lambda name: ratio(name, "Base", axis="queries")),
    ),
    Claim(
        "2019-fig2",
        ".. especially when ρ is large: that ratio at ρ = 90 over the one at 10",
        at_most(1),
        each(NORMED, lambda name: last_over_first(name, "Base", axis="queries")),
        "1/9 by algebra if the sum is exactly 1.",
        kind="check",
    ),
    Claim(
        "2019-fig2",
        "the MSE of methods that sum to 1 is symmetric about ρ = 50 (all but Norm-Cut)",
        near(1, absolute=0.02),
        symmetry(SUM_ONE),
        kind="check",
    ),
    Claim(
        "2019-fig2",
        "so is that of Norm-Cut",
        near(1, absolute=0.02),
        symmetry(["Norm-Cut"]),
        "Norm-Cut's sum is not quite 1; the larger set bears what is missing.",
    ),
    *_power(
        "2019-fig2",
        "at ρ = 90 Norm-Hyb is 1.5 to 4 orders of magnitude better than any method without "
        "normalisation: orders to each of them",
        between(1.5, 4),
        lambda power: both(
            *(
                log10_of(ratio(name, "Norm-Hyb", axis="queries", queries="90"))
                for name in [*NOT_NORMED[:-1], power]
            )
        ),
        key="orders-2019",
    ),
    Claim(
        "2019-fig2",
        "2019, 4.5: Norm-Hyb is the one to use on sets: its MSE over the least of the others, ρ 10 "
        "to 90",
        at_most(1.02, ours=True),
        over_best("Norm-Hyb", ALL_2019, axis="queries"),
        _TIES,
        key="sets-hyb",
    ),
    Claim(
        "2019-fig2",
        "the MSE of Base-Pos is 1 to 2 orders of magnitude above the others' (the greatest of "
        "them)",
        between(1, 2),
        log10_of(over_worst("Base-Pos", ALL_2019, axis="queries")),
    ),
    Claim(
        "2019-fig2",
        "the same of the typical other method",
        between(1, 2),
        log10_of(over_typical("Base-Pos", ALL_2019, axis="queries")),
        kind="reading",
    ),
    Claim(
        "2019-fig2",
        "Post-Pos is slightly better than Base",
        at_most(1.02, ours=True),
        ratio("Post-Pos", "Base", axis="queries"),
        EQUAL,
    ),
    Claim(
        "2019-fig2",
        "in some cases Base-Cut performs better than Base (here at ρ = 10)",
        at_most(1),
        ratio("Base-Cut", "Base", axis="queries", queries="10"),
        "No case is named; ρ = 10 is the one in which it is most likely.",
    ),
    *_power(
        "2019-fig2",
        "Power performs better than Base, especially when ρ is small: its MSE over that of Base",
        at_most(1),
        lambda power: ratio(power, "Base", axis="queries"),
        key="power-2019",
    ),
    *_power(
        "2019-fig2",
        "with IPUMS Power can be worse than Base when ρ approaches 90: its MSE over that of Base "
        "at ρ = 90",
        at_least(1),
        lambda power: ratio(power, "Base", axis="queries", queries="90", population="IPUMS"),
    ),
    *_power(
        "2019-fig2",
        "from ρ = 10 to 90 Power gets worse by 1 to 2 orders of magnitude",
        between(1, 2),
        lambda power: log10_of(last_over_first(power, axis="queries")),
    ),
    Claim(
        "2019-fig2",
        ".. and Base by less than 1 order",
        at_most(1),
        log10_of(last_over_first("Base", axis="queries")),
        "The error of Base is in proportion to ρ.",
        kind="check",
    ),
    Claim(
        "2019-fig3",
        "errors of all methods increase with ρ: least ratio from one size to the next",
        at_least(1),
        growth(ALL_2019),
        "For sets of up to half the domain this is algebra, whatever the errors are.",
        kind="check",
    ),
    Claim(
        "2019-fig3",
        "Norm-Cut is better than Base-Cut, especially for ρ ≥ 2: at ρ ≥ 2",
        at_most(1.02, ours=True),
        ratio("Norm-Cut", "Base-Cut", axis="queries", queries=at_size(2)),
        EQUAL,
    ),
    Claim(
        "2019-fig3",
        "Norm-Mul does not answer sets better: its MSE over that of Base",
        at_least(1),
        ratio("Norm-Mul", "Base", axis="queries"),
    ),
    Claim(
        "2019-fig4",
        "Norm-Sub, MLE-Apx and Norm-Hyb perform consistently better than the other methods on "
        "states and regions: MSE of each over the least of the others",
        at_most(1),
        each(
            _CONSISTENT,
            lambda method: _at(
                ["State", "Region"],
                lambda queries: over_best(
                    method,
                    [name for name in ALL_2019 if name not in _CONSISTENT],
                    queries=[queries],
                ),
            ),
        ),
        key="groups-2019",
    ),
    Claim(
        "2019-fig4",
        "in the Region query Norm-Mul is comparable to Norm-Sub",
        about(1),
        _region_is_fair,
    ),
    *_power(
        "2019-fig4",
        "Power performs poorly: its MSE over that of Norm-Sub",
        at_least(1),
        lambda power: _at(
            ["State", "Region"], lambda queries: ratio(power, "Norm-Sub", queries=[queries])
        ),
    ),
    Claim(
        "2019-fig4",
        "Base-Pos is generally higher: its MSE over that of Base",
        at_least(1),
        _at(["State", "Region"], lambda queries: ratio("Base-Pos", "Base", queries=[queries])),
    ),
    Claim(
        "2019-fig4",
        "Post-Pos is slightly better than Base and Norm: its MSE over theirs",
        at_most(1.02, ours=True),
        _at(
            ["State", "Region"],
            lambda queries: both(
                ratio("Post-Pos", "Base", queries=[queries]),
                ratio("Post-Pos", "Norm", queries=[queries]),
            ),
        ),
    ),
    Claim(
        "2019-fig4",
        "the MSE of Base-Cut falls less with epsilon than that of Norm-Cut: last over first "
        "relative to Norm-Cut's",
        at_least(1),
        _at(
            ["State", "Region"],
            lambda queries: last_over_first("Base-Cut", "Norm-Cut", queries=[queries]),
        ),
    ),
    Claim(
        "2019-fig5",
        "Base, Base-Pos, Post-Pos and Norm perform consistently well for all k: MSE over that of "
        "Base",
        near(1, absolute=0.1),
        each(["Base-Pos", "Post-Pos", "Norm"], lambda name: ratio(name, "Base", axis="queries")),
    ),
    Claim(
        "2019-fig5",
        "Norm-Mul is at least 10 times worse than any other method on the top k",
        at_least(10),
        over_worst("Norm-Mul", ALL_2019, axis="queries"),
    ),
    Claim(
        "2019-fig5",
        "the same of the typical other method",
        at_least(10),
        over_typical("Norm-Mul", ALL_2019, axis="queries"),
        kind="reading",
    ),
    Claim(
        "2019-fig5",
        "Norm-Sub and MLE-Apx are worse than Base, but better than Norm-Mul: MSE of the worse one "
        "over that of the better one",
        at_least(1),
        each(
            ["Norm-Sub", "MLE-Apx"],
            lambda name: both(
                ratio(name, "Base", axis="queries"), ratio("Norm-Mul", name, axis="queries")
            ),
        ),
    ),
    Claim(
        "2019-fig5",
        "Base and Norm-Sub have consistent MSE for different k: over that at k = 32",
        between(0.67, 1.5, ours=True),
        level(["Base", "Norm-Sub"], "32"),
    ),
    *_power(
        "2019-fig5",
        "the MSE of Base-Cut, Norm-Cut, Norm-Hyb and Power grows with k: at the last k over the "
        "first",
        at_least(1),
        lambda power: each(
            ["Base-Cut", "Norm-Cut", "Norm-Hyb", power],
            lambda name: last_over_first(name, axis="queries"),
        ),
    ),
    Claim(
        "2019-fig5",
        "Norm-Cut is better than Base-Cut",
        at_most(1.02, ours=True),
        ratio("Norm-Cut", "Base-Cut", axis="queries"),
        EQUAL,
    ),
    *_power(
        "2019-fig5",
        "with IPUMS Power is worse than Norm-Hyb for k > 12: at k > 12",
        at_least(1),
        lambda power: ratio(
            power, "Norm-Hyb", axis="queries", queries=at_size(12.5), population="IPUMS"
        ),
    ),
    Claim(
        "2019-fig5",
        "4.5: for the most frequent values one can use Norm: its MSE over the least of the others",
        at_most(1.02, ours=True),
        over_best("Norm", ALL_2019, axis="queries"),
        _TIES,
        key="top-norm-2019",
    ),
]

_APPENDIX = [
    Claim(
        "2019-fig7",
        "the methods that normalise (but Norm, which is as Base) improve over the baselines: MAE "
        "of each over that of Base",
        at_most(1),
        each(["Norm-Sub", "MLE-Apx", "Norm-Cut", "Norm-Hyb"], lambda m: ratio(m, "Base")),
    ),
    Claim(
        "2019-fig7",
        "the MAE of Base-Cut is 30 % to 50 % below that of Norm-Hyb (all four data sets)",
        between(0.5, 0.7),
        ratio("Base-Cut", "Norm-Hyb"),
    ),
    Claim(
        "2019-fig7",
        "4.5, 6: for single values Base-Cut should be used: its MAE over the least of the others",
        at_most(1.02, ours=True),
        over_best("Base-Cut", ALL_2019),
        _TIES,
        key="full-basecut-2019",
    ),
    Claim(
        "2019-fig8",
        "on sets the MSE of Base-Pos is about 1 order of magnitude above the others' (the "
        "greatest of them)",
        about(10, 3),
        over_worst("Base-Pos", ALL_2019),
    ),
    Claim(
        "2019-fig8",
        "the same of the typical other method",
        about(10, 3),
        over_typical("Base-Pos", ALL_2019),
        kind="reading",
    ),
    Claim(
        "2019-fig8",
        "Base-Cut performs well when epsilon is small: at the least epsilon its MSE over the "
        "middle one of all methods",
        at_most(1),
        over_typical("Base-Cut", ALL_2019, epsilon=[0.2]),
    ),
    Claim(
        "2019-fig9",
        "Base and Base-Pos work best on the top 10: MSE over the least of all methods",
        at_most(1.02, ours=True),
        each(["Base", "Base-Pos"], lambda name: over_best(name, ALL_2019)),
        _TIES,
    ),
    Claim(
        "2019-fig9",
        "when epsilon is small (roughly < 1) the MSE of Base-Cut on the top 10 is around twice "
        "that of Base: at epsilon < 1",
        between(1.5, 2.5, ours=True),
        ratio("Base-Cut", "Base", epsilon=lambda epsilon: epsilon < 1),
    ),
    Claim(
        "2019-fig9",
        ".. and is similar when epsilon is high enough: at epsilon 2",
        near(1, absolute=0.2),
        ratio("Base-Cut", "Base", epsilon=[2.0]),
    ),
    Claim(
        "2019-fig9",
        "Norm-Sub, MLE-Apx and Norm-Mul are consistently worse than the baselines: MSE over that "
        "of Base",
        at_least(1),
        each(["Norm-Sub", "MLE-Apx", "Norm-Mul"], lambda name: ratio(name, "Base")),
    ),
    Claim(
        "2019-fig9",
        "Norm-Cut and Norm-Hyb perform similarly to Base-Cut",
        near(1, absolute=0.25),
        each(["Norm-Cut", "Norm-Hyb"], lambda name: ratio(name, "Base-Cut")),
    ),
    *_power(
        "2019-fig9",
        "Power performs a little worse than Norm-Cut and Norm-Hyb: its MSE over theirs (not on "
        "Kosarak, where the paper has no Power)",
        at_least(1),
        lambda power: both(
            *(
                ratio(power, name, population=["Beta", "POS", "Fire"])
                for name in ("Norm-Cut", "Norm-Hyb")
            )
        ),
    ),
]

PAPER_2019 = [*_MAIN, *_APPENDIX]
