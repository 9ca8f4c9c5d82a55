"""Measures: functions from the table of a figure to the numbers that a claim is judged by.

The files of claims name them, with their arguments. The table comes first, of one population;
``axis`` and the conditions of `of_points` choose the points of a study of errors.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import spearmanr


class Measured(NamedTuple):
    """One measurement: where, its value and its standard error."""

    where: str
    value: float
    error: float = 0.0


def distinct(column: Any) -> list[Any]:
    """The values of a column, each once, in their order."""
    return list(dict.fromkeys(np.asarray(column).tolist()))


def paired_ratio(top: np.ndarray, bottom: np.ndarray) -> tuple[float, float]:
    """Ratio of mean errors of methods that saw the same collections, with its standard error."""
    value = top.mean() / bottom.mean()
    rest = top - value * bottom
    return value, rest.std(ddof=1) / np.sqrt(len(rest)) / bottom.mean()


def _quotient(where: str, top: Measured, bottom: Measured) -> Measured:
    """Ratio of independent measurements, or of such that are taken for independent."""
    value = top.value / bottom.value
    relative = math.hypot(top.error / top.value, bottom.error / bottom.value)
    return Measured(where, value, value * relative)


# -- studies of errors ----------------------------------------------------------------------------
_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


def _holds(condition: str) -> Callable[[Any], bool]:
    sign, _, bound = condition.partition(" ")
    return lambda value: _COMPARE[sign](float(value), float(bound))


def of_points(study: Any, axis: str = "epsilon", **where: Any) -> list[tuple[str, Any]]:
    """The rows of a study at each point of an axis, with the name of the point.

    A condition is a value, a list of values, or a comparison such as "< 3" (with a blank).
    """
    compared = {
        name: wanted
        for name, wanted in where.items()
        if isinstance(wanted, str) and wanted.split(" ")[0] in _COMPARE
    }
    part = study.select(**{name: where[name] for name in where if name not in compared})
    for name, condition in compared.items():
        part = part.select(**{name: [x for x in distinct(part[name]) if _holds(condition)(x)]})
    found = []
    for value in distinct(part[axis]):
        name = f"{axis} {value:g}" if isinstance(value, float) else f"{axis} {value}"
        found.append((name.replace("queries ", ""), part.select(**{axis: [value]})))
    return found


_ENOUGH = 20  # collections from which a regression on the error of Base is worth its own error


def errors_of(part: Any, method: str) -> np.ndarray:
    """Errors of a method in one cell, less what chance did to the error of Base there.

    The expected error of Base is known exactly. All methods see the same collections, so that what
    Base's error is above its expectation tells what is chance in theirs (a control variate).
    """
    (errors,) = part.select(postprocessor=[method]).errors
    expected = float(np.asarray(part["expected_base"])[0]) if "expected_base" in part.columns else 0
    rows = part.select(postprocessor=["Base"]).errors
    if not (np.isfinite(expected) and expected > 0 and len(rows) == 1):
        return errors
    excess = rows[0] - expected
    if method == "Base":
        return np.full_like(errors, expected)
    if len(errors) < _ENOUGH or np.ptp(excess) == 0:
        return errors
    slope = np.cov(errors, excess)[0, 1] / excess.var(ddof=1)
    return errors - slope * excess


def ratio(study: Any, top: str, bottom: str, **points: Any) -> list[Measured]:
    """Error of one method over that of another, at each point."""
    return [
        Measured(label, *paired_ratio(errors_of(part, top), errors_of(part, bottom)))
        for label, part in of_points(study, **points)
    ]


def _over(rank: float, study: Any, method: str, others: Sequence[str], **points: Any) -> list:
    found = []
    for label, part in of_points(study, **points):
        rivals = {name: errors_of(part, name) for name in others if name != method}
        names = sorted(rivals, key=lambda name: rivals[name].mean())
        name = names[min(int(rank * len(names)), len(names) - 1)]
        found.append(
            Measured(f"{label}, {name}", *paired_ratio(errors_of(part, method), rivals[name]))
        )
    return found


# Error of a method over the least, the middle and the greatest of the others, at each point.
over_best, over_typical, over_worst = (partial(_over, rank) for rank in (0, 0.5, 1))


def best_over(study: Any, methods: Sequence[str], method: str, **points: Any) -> list[Measured]:
    """Least error of some methods over that of another: how far this one is ahead of them."""
    return [
        Measured(label, 1 / value, error / value**2)
        for label, value, error in over_best(study, method, methods, **points)
    ]


def spread(study: Any, methods: Sequence[str], **points: Any) -> list[Measured]:
    """Greatest error of some methods over their least, at each point."""
    found = []
    for label, part in of_points(study, **points):
        errors = {name: errors_of(part, name) for name in methods}
        least, *_, most = sorted(errors, key=lambda name: errors[name].mean())
        found.append(
            Measured(f"{label}, {most} / {least}", *paired_ratio(errors[most], errors[least]))
        )
    return found


def _error_of(part: Any, top: str, bottom: str) -> Measured:
    errors = errors_of(part, top)
    below = errors_of(part, bottom) if bottom else np.ones_like(errors)
    return Measured("", *paired_ratio(errors, below))


def last_over_first(study: Any, top: str, bottom: str = "", **points: Any) -> list[Measured]:
    """Error at the end of an axis over that at its start; with `bottom`, of the ratio to it."""
    parts = of_points(study, **points)
    if len(parts) < 2:
        return []
    first, last = (_error_of(parts[i][1], top, bottom) for i in (0, -1))
    return [_quotient(_of(study), last, first)]


def _of(study: Any) -> str:
    return str(study["population"][0])


def symmetry(study: Any, methods: Sequence[str]) -> list[Measured]:
    """MSE on sets of ρ % over that on sets of (100 - ρ) %, for ρ below 50."""
    found = []
    for method in methods:
        part = study.select(postprocessor=[method])
        by_size = {float(q): e for q, e in zip(part["queries"], part.errors, strict=True)}
        found += [
            Measured(
                f"{_of(study)}, {method}, ρ {rho:g}", *paired_ratio(errors, by_size[100 - rho])
            )
            for rho, errors in by_size.items()
            if rho < 50
        ]
    return found


def growth(study: Any, methods: Sequence[str]) -> list[Measured]:
    """Least ratio of the MSE at one size of sets to that at the size before, for each method."""
    found = []
    for method in methods:
        part = study.select(postprocessor=[method])
        errors = part.errors[np.argsort(part["queries"].astype(float))]
        steps = [paired_ratio(b, a) for a, b in pairwise(errors)]
        found.append(Measured(f"{_of(study)}, {method}", *min(steps)))
    return found


def decay_over_others(study: Any, method: str, others: Sequence[str]) -> list[Measured]:
    """Factor by which a method's error falls along the axis, over the least one of the others."""
    falls = {name: last_over_first(study, name) for name in [method, *others]}
    if not falls[method]:
        return []
    rivals = {name: falls[name][0] for name in others if name != method}
    # The least fall has the greatest quotient of the last error and the first.
    name = max(rivals, key=lambda name: rivals[name].value)
    return [_quotient(f"{_of(study)}, {name}", falls[method][0], rivals[name])]


def _rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    return float(spearmanr(first, second).statistic)


def rank_correlation(study: Any, methods: Sequence[str], at: str) -> list[Measured]:
    """Of the methods' errors on queries named `at` with those on every value, "1 value"."""
    errors = [
        [errors_of(study.select(queries=[queries]), name).mean() for name in methods]
        for queries in (at, SINGLE)
    ]
    return [Measured(_of(study), _rank_correlation(*map(np.array, errors)))]


SINGLE = "1 value"  # what sets of one category are called among sets of a share of the domain


def metrics_agree(study: Any, methods: Sequence[str]) -> list[Measured]:
    """Rank correlation of the methods' MAE with their MSE, at each point."""
    found = []
    for label, part in of_points(study):
        mae, mse = (
            part.select(metric=[metric], postprocessor=list(methods)) for metric in ("mae", "mse")
        )
        order = dict(zip(mse["postprocessor"].tolist(), mse.error, strict=True))
        other = np.array([order[name] for name in mae["postprocessor"]])
        found.append(Measured(label, _rank_correlation(mae.error, other)))
    return found


def level(study: Any, methods: Sequence[str], last: str) -> list[Measured]:
    """Error at each k over that at the last, at which it is an average of the most values."""
    if last not in study["queries"]:
        return []
    end = study.select(queries=[last])
    return [
        Measured(
            f"{_of(study)}, {name}, k {where}",
            *paired_ratio(errors_of(cell, name), errors_of(end, name)),
        )
        for where, cell in of_points(study, "queries")
        if where != last
        for name in methods
    ]


def value(table: Any, column: str, by: str = "", sign: int = 1, **where: Any) -> list[Measured]:
    """A number of one row, or of each row by another column; with its error if it has one."""
    part = table.select(**where)
    places = [f"{by} {x:,.0f}" if x > 10 else f"{by} {x:g}" for x in part[by]] if by else [""]
    errors = part.get(f"{column}_error", np.zeros(len(part[column])))
    rows = zip(places, part[column], errors, strict=False)  # one place: the first row
    return [Measured(place, sign * float(number), float(error)) for place, number, error in rows]


# -- oracles, and what methods promise ------------------------------------------------------------
def grr_growth(table: Any) -> list[Measured]:
    """Relative growth of GRR's noise over that of d."""
    found = []
    for epsilon in (0.5, 1.0):
        part = table.select(oracle="GRR", epsilon=epsilon)
        order = np.argsort(part["d"])
        small, large = part["noise"][order]
        d_small, d_large = part["d"][order]
        value = (large - small) / small * d_small / (d_large - d_small)
        found.append(Measured(f"epsilon {epsilon:g}", value))
    return found


def oracle_noise(table: Any, top: str, bottom: str, epsilons: list[float]) -> list[Measured]:
    """Noise of one oracle over that of another, on the largest domain."""
    found = []
    for epsilon in epsilons:
        a, b = (
            table.select(oracle=name, epsilon=epsilon, d=table["d"].max())["noise"][0]
            for name in (top, bottom)
        )
        found.append(Measured(f"epsilon {epsilon:g}", a / b))
    return found


def noise_by_side(
    table: Any, top: str, bottom: str, side: str, above: float = 0.0, below: float = math.inf
) -> list[Measured]:
    """Noise of an oracle over that of another, on one side of d - 2 = 3 exp(epsilon)."""
    part = table.select(side=side)
    found = []
    for epsilon in distinct(part["epsilon"]):
        if above < epsilon < below:
            a, b = (part.select(oracle=name, epsilon=epsilon)["noise"][0] for name in (top, bottom))
            found.append(Measured(f"epsilon {epsilon:g}", a / b))
    return found


def sum_std(table: Any, *oracles: str) -> list[Measured]:
    """Standard deviation of the sum of all estimates at epsilon 1."""
    part = table.select(oracle=list(oracles), epsilon=1.0)
    rows = zip(part["oracle"], part["d"], part["sum_std"], strict=True)
    return [Measured(f"{name}, d {d:,}", float(value)) for name, d, value in rows]


def promises(table: Any, **promised: list[str]) -> list[Measured]:
    """1 for each property that a method has, 0 if it lacks one that it is said to have."""
    return [
        Measured(f"{name}, {what}", float(table.select(postprocessor=name)[what][0]))
        for what, names in promised.items()
        for name in names
    ]


def threshold_ratio(table: Any) -> list[Measured]:
    """Norm-Cut's threshold over Base-Cut's."""
    cut, base = (
        table.select(postprocessor=name)["mean_threshold"][0] for name in ("Norm-Cut", "Base-Cut")
    )
    return [Measured("", cut / base)]


def sum_short_of_one(table: Any) -> list[Measured]:
    """How far Norm-Cut's sum is from 1 at most."""
    return [Measured("", 1 - table.select(postprocessor="Norm-Cut")["least_sum"][0])]


# -- moments of each count ------------------------------------------------------------------------
def _of_ranks(part: Any, column: str, first: int, last: int) -> tuple[float, float]:
    """Mean of a column over ranks, with its standard error as if ranks were independent."""
    among = (part["rank"] >= first) & (part["rank"] <= last)
    error = part["bias_error"][among] if column == "bias" else np.zeros(among.sum())
    return part[column][among].mean(), np.sqrt((error**2).sum()) / among.sum()


def biases(
    table: Any, method: str, *ranks: tuple[int, int], relative: bool = False
) -> list[Measured]:
    """Mean bias of each range of ranks; `relative` to the mean count there."""
    part = table.select(postprocessor=method)
    found = []
    for first, last in ranks:
        where = f"rank {first}" if first == last else f"ranks {first} to {last:,}"
        value, error = _of_ranks(part, "bias", first, last)
        scale = _of_ranks(part, "count", first, last)[0] if relative else 1.0
        found.append(Measured(where, value / scale, error / scale))
    return found


_TOP = [(rank, rank) for rank in range(1, 6)]
_LOW = (513, 1024)
_BLOCKS = [(1, 10), (11, 100), (101, 1024)]


def opposed_biases(table: Any, method: str) -> list[Measured]:
    """Biases with the sign that a method is said to give them turned to plus."""
    top = biases(table, method, *_TOP)
    return [one._replace(value=-one.value) for one in top] + biases(table, method, _LOW)


def bias_steps(table: Any, method: str) -> list[Measured]:
    """How much the mean bias of a block of ranks is above that of the block before."""
    return [
        Measured(f"{b.where} less {a.where}", b.value - a.value, np.hypot(a.error, b.error))
        for a, b in pairwise(biases(table, method, *_BLOCKS))
    ]


def greatest_bias(table: Any, top: str, bottom: str) -> list[Measured]:
    """Greatest bias of one method over that of another."""
    ours, other = (np.abs(table.select(postprocessor=m)["bias"]).max() for m in (top, bottom))
    return [Measured("", ours / other)]


def shrinks_low_ones(table: Any, method: str) -> list[Measured]:
    """Bias over count, of the five most frequent over that of the rare ones."""
    top, low = biases(table, method, (1, 5), (101, 1024), relative=True)
    return [Measured("", abs(top.value / low.value), top.error / abs(low.value))]


def variance_ratio(
    table: Any, method: str, top: tuple[int, int], bottom: tuple[int, int]
) -> list[Measured]:
    """Mean variance of a range of ranks over that of another."""
    part = table.select(postprocessor=method)
    value = _of_ranks(part, "variance", *top)[0] / _of_ranks(part, "variance", *bottom)[0]
    runs = part["n_runs"][0] * min(top[1] - top[0] + 1, bottom[1] - bottom[0] + 1)
    return [Measured("", value, value * np.sqrt(4 / runs))]


def zeros(table: Any, method: str, ranks: tuple[int, int]) -> list[Measured]:
    """Share of a method's estimates that are 0, over a range of ranks."""
    part = table.select(postprocessor=method)
    return [Measured("", _of_ranks(part, "zeros", *ranks)[0])]


def norm_variance(table: Any) -> list[Measured]:
    """How much smaller Norm's variances are in total, times d: 1 if their ratio is (d - 1) / d."""
    base, norm = (table.select(postprocessor=name) for name in ("Base", "Norm"))
    d = len(base["variance"])
    value = d * (1 - norm["variance"].sum() / base["variance"].sum())
    # It is the variance of the shift, a chi-square with one degree of freedom less than the runs.
    return [Measured("", value, value * np.sqrt(2 / (base["n_runs"][0] - 1)))]


# -- numbers of users, and choices ----------------------------------------------------------------
def worth(table: Any, *methods: str) -> list[Measured]:
    """n' over n."""
    part = table.select(postprocessor=list(methods))
    names = ["postprocessor", "n_samples", "equivalent_n_samples", "standard_error"]
    rows = zip(*(part[name] for name in names), strict=True)
    return [Measured(f"{name}, n {n:,}", worth / n, error / n) for name, n, worth, error in rows]


def saved(table: Any, method: str) -> list[Measured]:
    """Share of the users that a method saves."""
    part = table.select(postprocessor=method)
    error = (1 - part["saved"]) * part["standard_error"] / part["equivalent_n_samples"]
    rows = zip(part["n_samples"], part["saved"], error, strict=True)
    return [Measured(f"n {n:,}", share, error) for n, share, error in rows]


def rise(table: Any, method: str) -> list[Measured]:
    """Growth of n' over that of n."""
    part = table.select(postprocessor=method)
    n, worth, error = (part[c] for c in ("n_samples", "equivalent_n_samples", "standard_error"))
    first, last = np.argmin(n), np.argmax(n)
    length = n[last] - n[first]
    value = (worth[last] - worth[first]) / length
    return [Measured("", value, np.hypot(error[first], error[last]) / length)]


def pairs(table: Any, top: str, bottom: str) -> list[Measured]:
    """n' of one method over that of another, at each n."""
    found = []
    for n in np.unique(table["n_samples"]):
        ours, other = (
            Measured("", part["equivalent_n_samples"][0], part["standard_error"][0])
            for part in (table.select(postprocessor=m, n_samples=n) for m in (top, bottom))
        )
        # Both come from the same collections; that is left out, so this is at most too wide.
        found.append(_quotient(f"n {n:,}", ours, other))
    return found


def _choices(table: Any, synthesizer: str) -> Any:
    return table.select(synthesizer=synthesizer, is_chosen=True)


def regret(table: Any, synthesizer: str) -> list[Measured]:
    """True error of the choice over the least one, less 1."""
    values = _choices(table, synthesizer)["regret"]
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
    return [Measured(f"mean of {len(values)} choices", values.mean(), error)]


def _log_mean(values: np.ndarray) -> tuple[float, float]:
    logs = np.log(values)
    return float(logs.mean()), float(logs.std(ddof=1) / np.sqrt(len(logs)))


def best_constant(table: Any) -> str:
    """The candidate whose errors over the least possible have the least geometric mean."""
    names = distinct(table["postprocessor"])
    return min(names, key=lambda m: _log_mean(table.select(postprocessor=[m])["over_least"])[0])


def choice_over_constant(table: Any) -> list[Measured]:
    """Errors of the choices over those of the best constant rule, by kind of question."""
    found = []
    for kind in distinct(table["queries"]):
        part = table.select(queries=[kind])
        name = best_constant(part.select(is_choice=[False]))
        chosen = part.select(is_choice=[True])["over_least"]
        constant = part.select(is_choice=[False], postprocessor=[name])["over_least"]
        value, error = _log_mean(chosen / constant)
        found.append(Measured(f"{kind}, {name}", math.exp(value), math.exp(value) * error))
    return found


def picks_itself(table: Any, method: str) -> list[Measured]:
    """A share with the standard error of (hits + 1) of (n + 2), which is never 0."""
    hits = _choices(table, method)["postprocessor"] == method
    p = (hits.sum() + 1) / (len(hits) + 2)
    error = np.sqrt(p * (1 - p) / len(hits))
    return [Measured(f"of {len(hits)} choices", hits.mean(), error)]


# -- Calibrate ------------------------------------------------------------------------------------
def line(table: Any, data: str) -> list[Measured]:
    """Squared correlation of the logarithms, over item frequencies up to 30."""
    among = (table["count"] >= 1) & (table["count"] <= 30)
    if not _of(table).startswith(data) or among.sum() <= 5:
        return []
    x, y = np.log(table["count"][among]), np.log(table["fraction"][among])
    return [Measured(_of(table), np.corrcoef(x, y)[0, 1] ** 2)]


def gain(
    table: Any, method: str, population: str, epsilon: float, as_share: bool = False
) -> list[Measured]:
    """Error of OUE-Zero over that of a method, less 1; or 1 less the reverse `as_share`."""
    part = table.select(postprocessor=method, epsilon=epsilon)
    if not _of(table).startswith(population) or not len(part["error"]):
        return []
    value, error = part["zero_over_this"][0], part["zero_over_this_error"][0]
    one = (1 - 1 / value, error / value**2) if as_share else (value - 1, error)
    return [Measured("", *one)]


def zero_over(table: Any, method: str) -> list[Measured]:
    """Error of OUE-Zero over that of a method, at each epsilon."""
    return value(table, "zero_over_this", by="epsilon", postprocessor=method)


def raw_over(table: Any, method: str) -> list[Measured]:
    """Error of OUE over that of a method, at each epsilon."""
    parts = [table.select(postprocessor=name) for name in ("OUE", method)]
    found = []
    for i, epsilon in enumerate(parts[0]["epsilon"]):
        raw, ours = (Measured("", part["error"][i], part["standard_error"][i]) for part in parts)
        found.append(_quotient(f"{method}, epsilon {epsilon:g}", raw, ours))
    return found


def gain_grows(table: Any, method: str) -> list[Measured]:
    """The gain upon OUE-Zero less that at the epsilon before."""
    found = sorted(zero_over(table, method), key=lambda one: float(one.where.split()[1]))
    return [
        Measured(f"{b.where} less {a.where}", b.value - a.value, np.hypot(a.error, b.error))
        for a, b in pairwise(found)
    ]


def cut_over(table: Any, method: str) -> list[Measured]:
    """Error of a method with a cut over the error without it."""
    # Both come from the same collections; that is left out, so this is at most too wide.
    ours, cut = (zero_over(table, name) for name in (method, f"{method}, cut"))
    return [_quotient(a.where, a, b) for a, b in zip(ours, cut, strict=True)]


def score_gain(table: Any, score: str, sign: int = 1, bottom: str = "zero") -> list[Measured]:
    """Score of OUE-Calibrate less that of OUE-Zero (or of OUE: "raw")."""
    ours = table.select(score=score, postprocessor="OUE-Calibrate")
    axis = "threshold" if len(distinct(ours["epsilon"])) == 1 else "epsilon"
    return value(ours, f"over_{bottom}", axis, sign)


_PRECISE = (("precision", 1), ("recall", -1))


def more_precise(table: Any) -> list[Measured]:
    """Precision of OUE-Calibrate less that of OUE, and recall of OUE less that of the former."""
    return [
        one._replace(where=f"{score}, {one.where}")
        for score, sign in _PRECISE
        for one in score_gain(table, score, sign, "raw")
    ]


def zero_below(table: Any) -> list[Measured]:
    """The same of OUE-Zero, below the significance threshold."""
    found = []
    for score, sign in _PRECISE:
        raw, zero = (table.select(postprocessor=name, score=score) for name in ("OUE", "OUE-Zero"))
        for i in np.flatnonzero(raw["threshold"] < raw["significance"]):
            value = sign * (zero["error"][i] - raw["error"][i])
            error = np.hypot(zero["standard_error"][i], raw["standard_error"][i])
            found.append(Measured(f"{score}, threshold {raw['threshold'][i]:,.0f}", value, error))
    return found


def gain_at_small_thresholds(table: Any) -> list[Measured]:
    """Mean gain in F-score below the significance threshold less that above it."""
    ours = table.select(score="f_score", postprocessor="OUE-Calibrate")
    below = ours["threshold"] < ours["significance"]
    if not below.any() or below.all():
        return []
    means = [ours["over_raw"][rows].mean() for rows in (below, ~below)]
    errors = [ours["over_raw_error"][rows].max() for rows in (below, ~below)]
    return [Measured("", means[0] - means[1], np.hypot(*errors))]


def zero_is_raw(table: Any) -> list[Measured]:
    """Greatest difference of OUE and OUE-Zero above the significance threshold."""
    raw, zero = (table.select(postprocessor=name) for name in ("OUE", "OUE-Zero"))
    above = raw["threshold"] >= raw["significance"]
    return [Measured("", np.abs(raw["error"] - zero["error"])[above].max())] if above.any() else []
