"""Descriptions of estimates and differences for reports: numbers, and sentences that hold."""

from __future__ import annotations

import sys
from contextlib import suppress
from inspect import signature
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import clone

from ..domains import is_log, range_names
from ..noise import Noise
from ..queries import between
from ..support.text import number_texts
from ._confidence import level_of_each, table_columns, table_intervals
from ._intervals import sidak
from ._quantiles import quantiles
from ._ranks import ranks
from ._statements import at_level, check_level, if_normal, stated

_MOST_RANGES = 16  # columns of the picture of a distribution
_MOST_NAMES, _FEW = 8, 3  # in a sentence, and without a heading
_WIDE = 0.8  # of an interval from 0 to 1: if each is as wide, the estimate tells nothing
_HONEST = 0.9999  # of collections without fake reports are not said to look like one with some
_ORDINALS = {1: "the most frequent", 2: "the second most frequent", 3: "the third most frequent"}
_USERS = "those who reported, and nobody else"
POPULATION = "the population that the users are a random sample of"
_POPULATIONS = "the populations that the users are random samples of"
_ABOUT = {  # whether it is about the population, and whether by weights
    (False, False): _USERS,
    (False, True): "those who reported, each group by its weight",
    (True, False): POPULATION,
    (True, True): "the population, by weights: the users of each group are a random sample of it",
}
_TOO_FEW = (
    "These users are too few to say anything at this epsilon: each interval covers nearly all from "
    "0 to 100 %. Ask more users, or take a larger epsilon."
)


def describe_estimate(
    estimate: Any, level: float, question: str, of: str | None = None, n_tables: int = 1
) -> dict[str, Any]:
    """Return the result of `FrequencyEstimate.describe`, whose arguments these are.

    n_tables: the number of tables, of which this is one, whose intervals are simultaneous.
    """
    check_level(level)
    if len(estimate) != 1:
        names = range(len(estimate)) if estimate.row_names is None else estimate.row_names
        parts = [
            {**describe_estimate(row, level, "", of, n_tables), "name": str(name)}
            for name, row in zip(names, estimate, strict=True)
        ]
        whole = several(parts, str(estimate).partition("\n")[0], question)
        return {**whole, "is_series": True}
    estimate, of = stated(estimate, of)
    raw, noise, d = estimate.as_raw(), estimate.noise, estimate.shape[1]
    labels = estimate.labels
    value = "estimate" if estimate.is_raw else "frequency"
    table, interval = {"category": labels.tolist()}, at_level(level, estimate.states_errors, noise)
    each = level_of_each(level, n_tables)
    is_weighted = noise is not None and noise.is_weighted
    may, may_not, tells = [], [*estimate.caveats, *_cut_sets(estimate)], True
    try:
        columns = table_columns(estimate, each)
        table |= {name: column[0].tolist() for name, column in columns.items()}
        table |= {"interval": [at_level(level, noise=noise)] * d}
        may = _surely(estimate, level, labels, columns["low"][0])
        ends = columns["low"][0], columns["high"][0]
        may_not += _not_surely(estimate, raw, labels, *ends)
        tells = np.subtract(*np.clip(ends[::-1], 0, 1)).min() < _WIDE
    except ValueError as error:  # the noise, or the raw values, are not known
        may_not.append(f"There are no intervals: {error}")
        table.setdefault(value, estimate.answer()[0].tolist())
    known = ("n_samples" if is_weighted else "n_users", "n_samples", "std")
    sizes = [getattr(noise, name, None) for name in known]  # of no noise, nothing
    n_users, n_asked, std = (None if one is None else np.ravel(one)[0].item() for one in sizes)
    return {
        **describe_nothing(question, str(estimate).partition("\n")[0], level, estimate.oracle),
        "value": value,
        "shown": "Share of the population, by weights" if is_weighted else "Share of users",
        "domain": _domain(estimate, labels),
        "n_categories": d,
        "n_samples": n_users,
        "n_asked": n_asked,
        "noise_level": std,
        "postprocessors": list(estimate.postprocessors),
        "of": _ABOUT[of != "users", is_weighted],
        "interval": interval,
        "is_ordered": _is_ordered(estimate),
        "rows": rows_of(table),
        "ranges": _ranges(estimate, each, value),
        "scale": "log" if is_log(getattr(estimate.domain, "ends", None)) else "linear",
        "remark": "" if tells else _TOO_FEW,
        "may_be_said": may,
        "may_not_be_said": may_not,
        "made_by": _made_by(estimate, level),
    }


def _cut_sets(estimate: Any) -> list[str]:
    """The sentence of an estimate of items on users who have more than reports tell of."""
    most = getattr(estimate.domain, "max_items", None)
    sentence = (
        f"How large the shares are if some users have more than {most} items (max_items): their "
        "reports leave out the rest, so the shares are too small, and the intervals do not count "
        "that."
    )
    return [] if most is None else [sentence]


def describe_difference(difference: Any, level: float, question: str) -> dict[str, Any]:
    """Return the result of `EstimateDifference.describe`, whose arguments these are."""
    of = "users" if difference.shared_users else "population"
    every = difference.confidence_interval(level, simultaneous=True, of=of)
    names, parts, both = difference.one.labels.tolist(), [], (difference.one, difference.other)
    condition = if_normal(*both)
    first, second, where = "the first", "the second", "in the first estimate"
    if all(len(one) == 1 and one.row_names is not None for one in both):
        first, second = (one.row_names.tolist()[0] for one in both)
        where = f"in {first} than in {second}"
    for i, (values, low, high) in enumerate(zip(difference.values, *every, strict=True)):
        table = {"category": names, "difference": values.tolist()}
        table |= {"low": low.tolist(), "high": high.tolist()}
        rose, fell = _listed(names, low > 0), _listed(names, high < 0)
        n_open = int(np.sum((low <= 0) & (high >= 0)))
        rows = (one[i if len(one) > 1 else 0] for one in both)
        sizes = [int(np.ravel(one.noise.n_samples)[0]) for one in rows]
        parts.append(
            {
                **describe_nothing("", str(difference), level, difference.one.oracle),
                "name": f"{i}",
                "value": "difference",
                "unit": "points",
                "shown": f"Difference of the shares, {first} minus {second}",
                "domain": _domain(difference.one, difference.one.labels),
                "n_categories": len(names),
                "n_samples": sum(sizes),
                "n_each": sizes,
                "of": _USERS if of == "users" else _POPULATIONS,
                "interval": at_level(level) + condition,
                "is_ordered": _is_ordered(difference.one),
                "rows": rows_of(table),
                "may_be_said": [
                    f"{what} frequent {where}: {which} ({100 * level:g} % confidence, all at once"
                    f"{condition})."
                    for what, which in (("More", rose), ("Less", fell))
                    if which
                ],
                "may_not_be_said": [
                    f"Whether and where {n_open} of {len(names)} categories changed: their "
                    "intervals reach over 0."
                ]
                * (n_open > 0)
                + _cut_sets(difference.one)
                + list(dict.fromkeys((*difference.one.caveats, *difference.other.caveats))),
                "made_by": "# one, other: the two estimates\n"
                f"difference = one - other\ndifference.report(level={level:g})",
            }
        )
    if len(parts) != 1:
        return several(parts, str(difference), question)
    return {**parts[0], "question": question}


def several(parts: list[dict[str, Any]], heading: str, question: str) -> dict[str, Any]:
    """Return the description of several estimates, of which each has a name."""
    return {"question": question, "heading": heading, "parts": parts}


def describe_nothing(question: str, heading: str, level: float, oracle: Any) -> dict[str, Any]:
    """Return the fields of any description, each None."""
    names = "epsilon oracle configuration noise_level ranges bounds n_asked remark"
    known: dict[str, Any] = {"value": "estimate", "unit": "%", "postprocessors": []}
    known |= {"name": heading, "question": question, "heading": heading}
    known |= {"level": level, "of": _USERS}
    if oracle is not None:
        known |= {"oracle": type(oracle).__name__, "epsilon": float(oracle.epsilon)}
        with suppress(TypeError, ValueError):  # not all categories have a form for files
            known["configuration"] = dict(oracle.protocol().configuration)
    return {**dict.fromkeys(names.split()), **known}


def rows_of(table: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table, whose columns these are."""
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def _domain(estimate: Any, labels: np.ndarray) -> str:
    d, ends = len(labels), getattr(estimate.domain, "ends", None)
    if ends is not None:
        kind = " of whole numbers" * estimate.domain.integers
        low, high = number_texts(
            [np.ceil(ends[0]) + 0.0, np.floor(ends[-1])] if kind else ends[[0, -1]]
        )
        return f"{d:,} bins{kind} from {low} to {high}"
    listed = labels[:_MOST_NAMES].tolist()
    names = ", ".join(_quoted(one) if isinstance(one, tuple) else str(one) for one in listed)
    return f"{d:,} categories: {names}{', ...' * (d > _MOST_NAMES)}"


def _is_ordered(estimate: Any) -> bool:
    """Whether the categories are bins, an ordered scale, or rising numbers or dates."""
    categories = estimate.categories
    is_scale = estimate.domain is not None and estimate.domain.is_ordered
    is_number = categories.dtype.kind in "iufM"
    return is_scale or (is_number and bool(np.all(categories[:-1] < categories[1:])))


def _ranges(estimate: Any, level: float, value: str) -> list[dict[str, Any]] | None:
    """Ranges of bins between bounds, with intervals that hold at once; None for other domains."""
    ends = getattr(estimate.domain, "ends", None)
    if ends is None:
        return None
    n = min(len(ends) - 1, _MOST_RANGES)
    cuts = ends[np.arange(n + 1) * (len(ends) - 1) // n]
    cuts = np.ceil(cuts) + 0.0 if estimate.domain.integers else cuts
    asked = between(list(pairwise(cuts)))
    table = {"from": cuts[:-1], "to": cuts[1:], value: np.asarray(estimate.answer(asked))[0]}
    if estimate.domain.integers:
        table["name"] = np.array(range_names(cuts[:-1], cuts[1:]))
    with suppress(ValueError):
        low, high = table_intervals(estimate, level, asked)
        table |= {"low": low[0], "high": high[0]}
    return rows_of({name: column.tolist() for name, column in table.items()})


# -- sentences, each of which holds with the level ------------------------------------------------
def _surely(estimate: Any, level: float, labels: np.ndarray, shown: np.ndarray) -> list[str]:
    """Sentences that hold at once with the lower ends that are shown."""
    raw, said, d = estimate.as_raw(), list[str](), len(labels)
    if raw.noise.presumes_normal:
        return said
    if getattr(raw.domain, "ends", None) is not None:
        found = quantiles(raw, [0.25, 0.5, 0.75], level, simultaneous=True)
        names = ("The first quartile", "The median", "The third quartile")
        ends = zip(names, found.low[0], found.high[0], strict=True)
        said += [
            f"{name} is between {' and '.join(number_texts(pair, 4, raw.domain.ends))}."
            for name, *pair in ends
        ]
    else:
        said += _of_ranks(raw, level, labels)
        if n := int(np.sum(shown > 0)):
            which = "all" if n == d else f"{n:,} of the"
            said.append(f"Shares are above 0 for {which} {d:,} categories: see their intervals.")
    return [f"{one[:-1]} ({100 * level:g} % confidence)." for one in said]


def _of_ranks(raw: Any, level: float, labels: np.ndarray) -> list[str]:
    """Who leads, and which ranks cannot be told apart: the intervals of ranks hold at once."""
    low, high = (end[0] for end in ranks(raw, level))
    order = np.argsort(-raw.values[0], kind="stable")
    # The first i of the list are the i most frequent if no rank of theirs may exceed i.
    ends = 1 + np.flatnonzero(np.maximum.accumulate(high[order]) <= np.arange(1, len(order) + 1))
    said, start = [], 0
    for stop in ends.tolist():
        own, size = order[start:stop], stop - start
        names = [_quoted(one) for one in labels[own].tolist()]
        if size == len(order):
            break  # that each is anywhere says nothing
        if size == 1:
            said.append(f"{names[0]} is {_ORDINALS.get(stop, f'number {stop:,}')}.")
        elif size <= _MOST_NAMES:
            said.append(f"Ranks {start + 1:,} to {stop:,} are of {', '.join(names)}, in any order.")
        else:
            ends_of = zip(names[:3], low[own].tolist(), high[own].tolist(), strict=False)
            said += [f"{one} has a rank from {i:,} to {j:,}." for one, i, j in ends_of if j < stop]
        if len(said) >= _MOST_NAMES:
            break
        start = stop
    is_first = low == 1
    if 1 < is_first.sum() < len(order):
        said.insert(0, f"The most frequent is one of {_listed(labels.tolist(), is_first)}.")
    return said


def _not_surely(
    estimate: Any, raw: Any, labels: np.ndarray, low: np.ndarray, high: np.ndarray
) -> list[str]:
    """Sentences on the limits of an estimate."""
    said, d = [], raw.shape[1]
    names = ", ".join(estimate.postprocessors)
    if not estimate.is_raw and estimate.states_errors:
        said += [
            f"Which ranks or quartiles {names} gives: those above are of the raw values.",
            "That the intervals of all rows hold at once: those of each row do. A category that "
            "moves much more than others is outside of its interval more often than stated (in "
            "simulations in a third of the rows, the first and last ones included). Of a dozen "
            "rows or fewer of two categories, single intervals of 95 % held in .90 at worst.",
        ]
    elif not estimate.is_raw:
        said.append(
            f"How far the values shown are from the truth: they are those after {names}, which "
            "made them of the raw estimates. Intervals and sentences are of the raw estimates; the "
            "values shown lie inside or near the intervals."
        )
    if raw.noise.presumes_normal:
        said.append(
            "That all intervals contain the truth: only the standard deviation of the noise is "
            "known. Each interval presumes that the noise is normal."
        )
    said += _dishonest(raw, raw.noise)
    answers = np.clip(estimate.answer()[0], 0, 1)
    n_out = int(np.sum((answers < low) | (answers > high)))
    if n_out:
        said.append(
            f"{n_out:,} of the {d:,} values lie outside of their intervals: either reports are not "
            "honest, or the post-processor does not fit them."
        )
    n_open = int(np.sum(low <= 0))
    if n_open and getattr(raw.domain, "ends", None) is None:
        which, begin = _listed(labels.tolist(), low <= 0), "their intervals begin"
        if n_open == d:
            which = "any category"
        elif n_open <= _FEW:
            which = " or ".join(_quoted(one) for one in labels[low <= 0].tolist())
            begin = "its interval begins" if n_open == 1 else begin
        else:
            which = f"some of these {n_open:,} of the {d:,} categories: {which}"
        said.append(
            f"Whether anybody has {which}: {begin} at 0, and more users or a larger epsilon would "
            "tell."
        )
    return said


def _dishonest(raw: Any, noise: Noise) -> list[str]:
    """Values that honest reports do not give: a wrong sum, or some far outside of [0, 1]."""
    # Sidak's bound of d values below 0, d above 1, and their sum.
    values, most = raw.values[0], sidak(2 * raw.shape[1] + 1, _HONEST)
    plausible = noise.frequencies_behind(values)
    half = float(np.ravel(noise.half_count)[0])
    std = np.sqrt(np.maximum(np.ravel(noise.variance(np.clip(values, 0, 1))), 0)) + 1e-12
    outside = np.maximum(np.maximum(-values, values - 1) - half, 0) / std
    excess, sum_std = abs(values.sum() - 1), 0.0
    with suppress(ValueError):  # how errors of several categories go together is not known
        ones = np.ones(len(values))
        sum_std = np.sqrt(max(float(ones @ noise.at(plausible).product(ones)), 0))
    said = []
    if sum_std > 1e-9 and excess > most * sum_std:
        said.append(
            f"Reports do not look honest: the raw shares add up to {values.sum():.3g} instead of "
            f"1, {excess / sum_std:.0f} standard errors away. See sklearn_ldp.robustness."
        )
    if outside.max(initial=0) > most:
        said.append(
            f"Reports do not look honest: a raw share is {values[outside.argmax()]:.3g}, "
            f"{outside.max():.0f} standard errors outside of 0 to 1. See sklearn_ldp.robustness."
        )
    return said


def _quoted(name: Any) -> str:
    return repr(", ".join(map(str, name)) if isinstance(name, tuple) else name)


def _listed(names: list[Any], is_in: np.ndarray) -> str:
    found = [_quoted(names[i]) for i in np.flatnonzero(is_in)]
    return ", ".join(found[:_MOST_NAMES]) + ", ..." * (len(found) > _MOST_NAMES)


# -- the lines that make it again -----------------------------------------------------------------
def _made_by(estimate: Any, level: float) -> str:
    """Return lines of Python that make the estimate of the same reports, if it needs no others."""
    if not estimate.is_raw and estimate.states_errors:
        return ""  # it is a row that others have changed
    posts, about = list(estimate.postprocessors), "# reports: what users sent"
    calls = [_call(name, estimate.shares_overlap) for name in posts]
    steps = [f"estimate = {call}.fit_transform(estimate)" for call in calls]
    first = ["estimate = oracle.aggregate(reports).estimate_"]
    noise, kind = estimate.noise, type(estimate.oracle)
    is_known = noise is not None and noise.n_samples is not None
    if is_known and noise.is_weighted:
        about, first = "", ["estimate = ...  # a weighted mean of several"]
    elif is_known and np.ravel(noise.n_users)[0] > np.ravel(noise.n_samples)[0]:
        about += "; oracle: a survey, such as ColumnOracle; name: that of its column or table"
        first[0] += "[name]"
    elif estimate.oracle is None:
        about, first = "", ["estimate = ...  # the oracle is not known"]
    elif getattr(sys.modules["sklearn_ldp"], kind.__name__, None) is not kind:
        first.insert(0, f"oracle = ...  # the {kind.__name__} that clients and server know")
    else:
        own = estimate.oracle.get_params(deep=False)
        plain = {"categories": "auto", "n_shards": 10, "n_jobs": None}
        shown = clone(estimate.oracle).set_params(**{k: plain[k] for k in plain if k in own})
        known = f"{repr(shown)[:-1]}, categories=categories)"
        if "epsilon" in own and "epsilon=" not in known:  # the default
            known = known.replace("(", f"(epsilon={estimate.oracle.epsilon:g}, ", 1)
        known = known.replace("(, ", "(").replace(", , ", ", ")
        first.insert(0, f"oracle = {known}")
        posts = [known.partition("(")[0], *posts]
        about += "; categories: all possible answers, in their order"
    last = f"estimate.report(level={level:g})"
    head = [f"from sklearn_ldp import {', '.join(dict.fromkeys(posts))}", ""] if posts else []
    return "\n".join([*[about] * bool(about), *head, *first, *steps, last])


def _call(name: str, shares_overlap: bool) -> str:
    """The call that makes a post-processor, as far as its name and the shares tell it."""
    kind = getattr(sys.modules["sklearn_ldp"], name, None)
    needs = shares_overlap and kind is not None and "simplex" in signature(kind).parameters
    return f"{name}({'simplex=False' * needs})"
