"""Descriptions of estimates and of differences of estimates, for the report page.

A description is a dict of numbers, of sentences that are valid with the stated confidence, and of
sentences that would not be valid.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from inspect import signature
from itertools import pairwise
from typing import Any

import numpy as np

from ..common.text import number_texts
from ..domains import has_cells, has_missing_numbers, is_log, range_names
from ..noise import Noise
from ..queries import between
from ._confidence import (
    level_of_each,
    level_of_look,
    narrowest,
    table_columns,
    table_intervals,
)
from ._covariances import refuse_unknown_tails
from ._intervals import sidak
from ._quantiles import quantiles
from ._ranks import ranks
from ._statements import at_level, check_level, if_normal, stated

_MOST_RANGES = 16  # columns of the plot of a distribution
_MOST_NAMES = 8  # in a sentence
_FEW = 3  # names in a sentence without a heading
_WIDE = 0.8  # width of an interval within [0, 1]; if all are as wide, the estimate is useless
_HONEST = 0.9999  # proportion of honest collections that do not look dishonest
_ORDINALS = {1: "the most frequent", 2: "the second most frequent", 3: "the third most frequent"}
_USERS = "the users who reported, and no one else"
POPULATION = "the population from which the users are a random sample"
_POPULATIONS = "the populations from which the users are random samples"
_ABOUT = {  # keys: whether it is about the population, and whether groups have weights
    (False, False): _USERS,
    (False, True): "the users who reported, each group by its weight",
    (True, False): POPULATION,
    (True, True): "the population, by weights: the users of each group are a random sample of it",
}
_TOO_FEW = (
    "There are too few users for any statement at this epsilon, because each interval covers "
    "almost the whole range from 0 to 100 %. Ask more users, or choose a larger epsilon."
)


def describe_estimate(
    estimate: Any,
    level: float,
    question: str,
    of: str | None = None,
    at_all_times: bool | int = False,
    n_tables: int = 1,
) -> dict[str, Any]:
    """Return the result of `FrequencyEstimate.describe` for the same arguments.

    n_tables: the number of tables on the report page; their intervals are simultaneous for all
    tables together.
    """
    check_level(level)
    if len(estimate) != 1:
        names = range(len(estimate)) if estimate.row_names is None else estimate.row_names
        parts = [
            {**describe_estimate(row, level, "", of, at_all_times, n_tables), "name": str(name)}
            for name, row in zip(names, estimate, strict=True)
        ]
        whole = several(parts, str(estimate).partition("\n")[0], question)
        return {**whole, "is_series": True}
    estimate, of = stated(estimate, of)
    raw = estimate.as_raw()
    noise = estimate.noise
    labels = estimate.labels
    d = len(labels)
    value = "estimate" if estimate.is_raw else "frequency"
    table = {"category": labels.tolist()}
    of_look = level
    if (n_narrowest := narrowest(at_all_times)) is not None:
        refuse_unknown_tails(noise, "intervals at all times")
        n_users = _number(noise, "n_samples")
        if n_users is None:
            raise ValueError(
                "Statements with at_all_times= need the number of users, which this estimate "
                "lacks. Leave out at_all_times=."
            )
        of_look = level_of_look(level, d, n_users, n_narrowest)
    each = level_of_each(of_look, n_tables)
    is_weighted = noise is not None and noise.is_weighted
    among = "" if noise is None else noise.among
    may_be_said: list[str] = []
    may_not_be_said = [*estimate.caveats, *_cut_sets(estimate)]
    is_useful = True
    try:
        columns = table_columns(estimate, each)
        table |= {name: column[0].tolist() for name, column in columns.items()}
        table |= {"interval": [at_level(level, True, noise, at_all_times)] * d}
        low = columns["low"][0]
        high = columns["high"][0]
        may_be_said = _certain(estimate, of_look, labels, low, level, at_all_times)
        may_not_be_said += _uncertain(estimate, raw, labels, low, high)
        widths = np.clip(high, 0, 1) - np.clip(low, 0, 1)
        is_useful = widths.min() < _WIDE
    except ValueError as error:  # the noise, or the raw values, are not known
        may_not_be_said.append(f"There are no intervals: {error}")
        table.setdefault(value, estimate.answer()[0].tolist())
    return {
        **describe_nothing(question, str(estimate).partition("\n")[0], level, estimate.oracle),
        "value": value,
        "shown": "Share of the population, by weights" if is_weighted else f"Share of users{among}",
        "domain": _domain(estimate, labels),
        "n_categories": d,
        "n_samples": _number(noise, "n_samples" if is_weighted else "n_users"),
        "n_asked": _number(noise, "n_samples"),
        "noise_level": _number(noise, "std"),
        "postprocessors": list(estimate.postprocessors),
        "of": _ABOUT[of != "users", is_weighted] + (among and f"; only users{among}"),
        "interval": at_level(level, estimate.states_errors, noise, at_all_times),
        "is_ordered": _is_ordered(estimate),
        "rows": rows_of(table),
        "ranges": _ranges(estimate, each, value),
        "scale": _scale_of(getattr(estimate.domain, "ends", None)),
        "grid": _grid(estimate),
        "remark": "" if is_useful else _TOO_FEW,
        "may_be_said": may_be_said,
        "may_not_be_said": may_not_be_said,
        "made_by": _made_by(estimate, level, at_all_times),
    }


def _number(noise: Any, name: str) -> Any:
    """Return the attribute of the noise with this name as a number.

    The result is None if the noise is None or lacks this attribute.
    """
    number = getattr(noise, name, None)
    if number is None:
        return None
    value = np.ravel(number)[0]
    if name != "std" and noise.among:
        value = np.rint(value)  # an estimated number of users
    return value.item()


def _cut_sets(estimate: Any) -> list[str]:
    """Return a list with a caveat about users with more items than a report can contain.

    The list is empty if the estimate is not about sets of items of a limited size.
    """
    n_items = getattr(estimate.domain, "max_items", None)
    sentence = (
        f"If some users have more than {n_items} items (max_items), the shares are too small, "
        "because the reports omit the other items. The intervals do not account for this."
    )
    return [] if n_items is None else [sentence]


def describe_difference(difference: Any, level: float, question: str, of: str) -> dict[str, Any]:
    """Return the result of `EstimateDifference.describe` for the same arguments."""
    every = difference.confidence_interval(level, simultaneous=True, of=of)
    rows = zip(difference.values, *every, strict=True)
    parts = [
        _difference_part(difference, i, level, of, values, low, high)
        for i, (values, low, high) in enumerate(rows)
    ]
    if len(parts) != 1:
        return several(parts, parts[0]["heading"], question)
    return {**parts[0], "question": question}


def _difference_part(
    difference: Any,
    row: int,
    level: float,
    of: str,
    values: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> dict[str, Any]:
    """Return the description of one row of a difference of estimates.

    Shapes: values, low, high (d,): the differences, and the ends of their simultaneous intervals.
    of: "users" or "population", the compared groups.
    """
    both = (difference.one, difference.other)
    names = difference.one.labels.tolist()
    condition = if_normal(*both)
    first, second = "the first", "the second"
    place = "in the first estimate"
    if all(len(estimate) == 1 and estimate.row_names is not None for estimate in both):
        first, second = (estimate.row_names.tolist()[0] for estimate in both)
        place = f"in {first} than in {second}"
    sizes = []
    for estimate in both:
        noise = estimate[row if len(estimate) > 1 else 0].noise
        sizes.append(int(np.ravel(noise.n_samples)[0]))
    table = {
        "category": names,
        "difference": values.tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
    }
    may_be_said = [
        f"{word} frequent {place}: {_listed(names, is_changed)} ({100 * level:g} % confidence, "
        f"simultaneous{condition})."
        for word, is_changed in (("More", low > 0), ("Less", high < 0))
        if is_changed.any()
    ]
    may_not_be_said = []
    if n_open := int(np.sum((low <= 0) & (high >= 0))):
        may_not_be_said.append(
            f"{n_open} of {len(names)} categories may not have changed, because their intervals "
            "contain 0."
        )
    may_not_be_said += _cut_sets(difference.one)
    may_not_be_said += dict.fromkeys((*difference.one.caveats, *difference.other.caveats))
    return {
        **describe_nothing("", str(difference).partition("\n")[0], level, difference.one.oracle),
        "name": f"{row}",
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
        "may_be_said": may_be_said,
        "may_not_be_said": may_not_be_said,
        "made_by": "# one, other: the two estimates\n"
        f'difference = one - other\ndifference.report(level={level:g}, of="{of}")',
    }


def several(parts: list[dict[str, Any]], heading: str, question: str) -> dict[str, Any]:
    """Return one description from the descriptions of several estimates, each with a name."""
    return {"question": question, "heading": heading, "parts": parts}


def describe_nothing(question: str, heading: str, level: float, oracle: Any) -> dict[str, Any]:
    """Return the fields that every description has, with default values.

    Most fields are None. The fields about the oracle are filled in if it is not None.
    """
    names = "epsilon oracle configuration noise_level ranges grid bounds n_asked remark"
    known: dict[str, Any] = {"value": "estimate", "unit": "%", "postprocessors": []}
    known |= {"name": heading, "question": question, "heading": heading}
    known |= {"level": level, "of": _USERS}
    if oracle is not None:
        known |= {"oracle": type(oracle).__name__, "epsilon": float(oracle.epsilon)}
        with suppress(TypeError, ValueError):  # not all categories have a form for files
            known["configuration"] = dict(oracle.protocol().configuration)
    return {**dict.fromkeys(names.split()), **known}


def rows_of(table: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Convert a table, a dict of columns, to a list of rows, each a dict with the same keys."""
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def _scale_of(ends: np.ndarray | None) -> str:
    return "log" if is_log(ends) else "linear"


def _grid(estimate: Any) -> list[dict[str, Any]] | None:
    """Return, for both numbers of a grid, the ends of the bins, the scale and the bounds."""
    if not has_cells(estimate.domain):
        return None
    axes = zip(estimate.domain.grid_ends, estimate.domain.are_integers, strict=True)
    return [
        {"ends": ends.tolist(), "scale": _scale_of(ends), "bounds": _bounds(ends, is_whole)}
        for ends, is_whole in axes
    ]


def _bounds(ends: np.ndarray, is_whole: bool) -> list[str]:
    """Return the smallest and the largest number of bins as texts."""
    bounds = [np.ceil(ends[0]) + 0.0, np.floor(ends[-1])] if is_whole else ends[[0, -1]]
    return number_texts(bounds)


def _domain(estimate: Any, labels: np.ndarray) -> str:
    d = len(labels)
    if (grid := _grid(estimate)) is not None:
        bounds = [" to ".join(axis["bounds"]) for axis in grid]
        return f"{' x '.join(map(str, estimate.domain.shape))} cells: {' and '.join(bounds)}"
    ends = getattr(estimate.domain, "ends", None)
    if ends is not None:
        kind = " of whole numbers" * estimate.domain.integers
        low, high = _bounds(ends, estimate.domain.integers)
        return f"{d:,} bins{kind} from {low} to {high}"
    listed = labels[: _MOST_NAMES + 1].tolist()
    names = [_quoted(label) if isinstance(label, tuple) else str(label) for label in listed]
    return f"{d:,} categories: {_enumerated(names)}"


def has_increasing_numbers(categories: np.ndarray) -> bool:
    """Return whether the categories are numbers or dates, listed in increasing order."""
    is_number = categories.dtype.kind in "iufM"
    return is_number and bool(np.all(categories[:-1] < categories[1:]))


def _is_ordered(estimate: Any) -> bool:
    """Return whether the categories are ordered: bins, a scale, or increasing numbers or dates."""
    is_scale = estimate.domain is not None and estimate.domain.is_ordered
    return is_scale or has_increasing_numbers(estimate.categories)


def _ranges(estimate: Any, level: float, value: str) -> list[dict[str, Any]] | None:
    """Return the frequencies of ranges of bins, with simultaneous intervals, as rows of a table.

    The result is None if the categories are not bins between bounds.
    value: the name of the column of frequencies.
    """
    ends = getattr(estimate.domain, "ends", None)
    if ends is None:
        return None
    n = min(len(ends) - 1, _MOST_RANGES)
    cuts = ends[np.arange(n + 1) * (len(ends) - 1) // n]
    cuts = np.ceil(cuts) + 0.0 if estimate.domain.integers else cuts
    ranges = between(list(pairwise(cuts)))
    table = {"from": cuts[:-1], "to": cuts[1:], value: np.asarray(estimate.answer(ranges))[0]}
    if estimate.domain.integers:
        table["name"] = np.array(range_names(cuts[:-1], cuts[1:]))
    with suppress(ValueError):
        low, high = table_intervals(estimate, level, ranges)
        table |= {"low": low[0], "high": high[0]}
    return rows_of({name: column.tolist() for name, column in table.items()})


# -- sentences, all simultaneous at the level -----------------------------------------------------
def _certain(
    estimate: Any,
    level: float,
    labels: np.ndarray,
    low: np.ndarray,
    stated_level: float,
    at_all_times: bool | int,
) -> list[str]:
    """Return sentences about the raw estimate that are all true with the probability of a level.

    level: the simultaneous level at which the sentences are computed.
    low: the lower ends of the simultaneous intervals of the categories, of shape (d,).
    stated_level: the level that the sentences mention. It is lower than `level` if the
    statements at all looks at a growing collection are simultaneous (`at_all_times`).
    """
    raw = estimate.as_raw()
    if raw.noise.presumes_normal:
        return []
    ends = getattr(raw.domain, "ends", None)
    sentences = _rank_sentences(raw, level, labels) if ends is None else []
    if ends is not None:
        intervals = quantiles(raw, [0.25, 0.5, 0.75], level, simultaneous=True)
        names = ("The first quartile", "The median", "The third quartile")
        for name, *pair in zip(names, intervals.low[0], intervals.high[0], strict=True):
            sentences.append(f"{name} is between {' and '.join(number_texts(pair, 4, ends))}.")
    elif n := int(np.sum(low > 0)):
        d = len(labels)
        which = "All" if n == d else f"{n:,} of the"
        sentences.append(f"{which} {d:,} categories have a share above 0.")
    confidence = f"{100 * stated_level:g} % confidence"
    confidence += "" if at_all_times is False else ", at all looks"
    return [f"{sentence[:-1]} ({confidence})." for sentence in sentences]


def _rank_sentences(raw: Any, level: float, labels: np.ndarray) -> list[str]:
    """Return sentences about the ranks of the most frequent categories.

    The sentences follow from simultaneous confidence intervals of all ranks.
    """
    low, high = (end[0] for end in ranks(raw, level))
    order = np.argsort(-raw.values[0], kind="stable")
    # The first i of the list are the i most frequent if none of their ranks may exceed i.
    stops = 1 + np.flatnonzero(np.maximum.accumulate(high[order]) <= np.arange(1, len(order) + 1))
    sentences = []
    start = 0
    for stop in stops.tolist():
        members = order[start:stop]
        size = stop - start
        names = [_quoted(label) for label in labels[members].tolist()]
        if size == len(order):
            break  # any category may have any rank, which is no information
        if size == 1:
            sentences.append(f"{names[0]} is {_ORDINALS.get(stop, f'number {stop:,}')}.")
        elif size <= _MOST_NAMES:
            listed = ", ".join(names)
            sentences.append(f"Ranks {start + 1:,} to {stop:,} belong to {listed}, in any order.")
        else:
            ends = zip(names[:3], low[members].tolist(), high[members].tolist(), strict=False)
            sentences += [
                f"{name} has a rank from {first:,} to {last:,}."
                for name, first, last in ends
                if last < stop
            ]
        if len(sentences) >= _MOST_NAMES:
            break
        start = stop
    is_first = low == 1
    if 1 < is_first.sum() < len(order):
        listed = _listed(labels.tolist(), is_first)
        sentences.insert(0, f"The most frequent category is one of {listed}.")
    return sentences


def _uncertain(
    estimate: Any, raw: Any, labels: np.ndarray, low: np.ndarray, high: np.ndarray
) -> list[str]:
    """Return a list of statements that the estimate does not support, with the reasons.

    raw: the raw estimate. low, high: the ends of the intervals of the categories, of shape (d,).
    """
    sentences = []
    d = len(labels)
    names = ", ".join(estimate.postprocessors)
    if not estimate.is_raw and estimate.states_errors:
        sentences += [
            f"The supported statements are about the raw values, not about the result of {names}.",
            "The intervals are simultaneous within each row, but not over all rows. A category "
            "that changes much more than others is outside of its interval more often than stated "
            "(in simulations in a third of the rows, including the first and the last rows). In "
            "series of at most a dozen rows with two categories, the coverage of single 95 % "
            "intervals was at least 90 %.",
        ]
    elif not estimate.is_raw:
        sentences.append(
            f"The error of the shown values is unknown, because {names} computed them from the "
            "raw estimates. Intervals and statements are about the raw estimates; the shown values "
            "lie inside or near the intervals."
        )
    if raw.noise.presumes_normal:
        sentences.append(
            "The level of the intervals is approximate, because only the standard deviation of "
            "the noise is known. Each interval assumes that the noise is normal."
        )
    if has_missing_numbers(raw.domain):
        sentences.append(
            "The mean, the quartiles and the ranges of the numbers: some users gave no number. The "
            "report of estimate.answered() is about the users who answered."
        )
    sentences += _dishonest(raw, raw.noise)
    answers = np.clip(estimate.answer()[0], 0, 1)
    n_out = int(np.sum((answers < low) | (answers > high)))
    if n_out:
        sentences.append(
            f"{n_out:,} of the {d:,} values lie outside of their intervals: either some reports "
            "are not honest, or the post-processor does not fit them."
        )
    is_open = low <= 0
    if is_open.any() and getattr(raw.domain, "ends", None) is None:
        which, intervals_begin = _open_categories(labels, is_open)
        sentences.append(
            f"It is unknown whether any user has {which}, because {intervals_begin} at 0. More "
            "users or a larger epsilon would show it."
        )
    return sentences


def _open_categories(labels: np.ndarray, is_open: np.ndarray) -> tuple[str, str]:
    """Return two phrases of a sentence about the categories with intervals that contain 0.

    is_open: for each category, whether its interval contains 0.
    Returns: the names of these categories; and "their intervals begin" or "its interval begins".
    """
    n_open = int(is_open.sum())
    verb = "their intervals begin"
    if n_open == len(labels):
        return "any category", verb
    if n_open <= _FEW:
        which = " or ".join(_quoted(label) for label in labels[is_open].tolist())
        return which, "its interval begins" if n_open == 1 else verb
    names = _listed(labels.tolist(), is_open)
    return f"some of these {n_open:,} of the {len(labels):,} categories: {names}", verb


def _dishonest(raw: Any, noise: Noise) -> list[str]:
    """Return sentences about raw values that are improbable if all reports are honest.

    Such values are a sum far from 1, and a value far below 0 or far above 1.
    """
    values = raw.values[0]
    # Sidak's bound for d values below 0, d values above 1, and their sum.
    critical = sidak(2 * len(values) + 1, _HONEST)
    plausible = noise.frequencies_behind(values)
    half = float(np.ravel(noise.half_count)[0])
    std = np.sqrt(np.maximum(np.ravel(noise.variance(np.clip(values, 0, 1))), 0)) + 1e-12
    distances = np.maximum(np.maximum(-values, values - 1) - half, 0) / std
    excess = abs(values.sum() - 1)
    sum_std = 0.0
    with suppress(ValueError):  # the covariances of the categories are not known
        ones = np.ones(len(values))
        sum_std = np.sqrt(max(float(ones @ noise.at(plausible).product(ones)), 0))
    sentences = []
    if sum_std > 1e-9 and excess > critical * sum_std:
        sentences.append(
            f"Reports do not look honest: the raw shares add up to {values.sum():.3g} instead of "
            f"1, {excess / sum_std:.0f} standard errors away. See sklearn_ldp.robustness."
        )
    if distances.max(initial=0) > critical:
        sentences.append(
            f"Reports do not look honest: a raw share is {values[distances.argmax()]:.3g}, "
            f"{distances.max():.0f} standard errors outside of 0 to 1. See sklearn_ldp.robustness."
        )
    return sentences


def _quoted(name: Any) -> str:
    return repr(", ".join(map(str, name)) if isinstance(name, tuple) else name)


def _listed(names: list[Any], is_in: np.ndarray) -> str:
    return _enumerated([_quoted(names[i]) for i in np.flatnonzero(is_in)])


def _enumerated(names: list[str]) -> str:
    """Join names with commas. After the first eight names, an ellipsis replaces the rest."""
    return ", ".join(names[:_MOST_NAMES]) + ", ..." * (len(names) > _MOST_NAMES)


# -- the lines that make it again -----------------------------------------------------------------
def _made_by(estimate: Any, level: float, at_all_times: bool | int) -> str:
    """Return Python code that computes the estimate again from the same reports.

    The result is an empty string if the estimate of a row also depends on other rows.
    """
    if not estimate.is_raw and estimate.states_errors:
        return ""  # other rows have changed this row
    imports, comment, lines = _raw_lines(estimate)
    imports += estimate.postprocessors
    for name in estimate.postprocessors:
        call = _postprocessor_call(name, estimate.shares_overlap)
        lines.append(f"estimate = {call}.fit_transform(estimate)")
    if estimate.noise is not None and estimate.noise.among:
        lines.append("estimate = estimate.answered()  # without its category None")
    looks = "" if at_all_times is False else f", at_all_times={at_all_times}"
    lines.append(f"estimate.report(level={level:g}{looks})")
    if imports:
        lines = [f"from sklearn_ldp import {', '.join(dict.fromkeys(imports))}", "", *lines]
    if comment:
        lines.insert(0, comment)
    return "\n".join(lines)


def _raw_lines(estimate: Any) -> tuple[list[str], str, list[str]]:
    """Return three parts of the code that computes the raw estimate from the reports.

    Returns: the names to import, a comment, and the lines of code.
    """
    noise = estimate.noise
    oracle = estimate.oracle
    kind = type(oracle)
    comment = "# reports: what users sent"
    line = "estimate = oracle.aggregate(reports).estimate_"
    if noise is not None and noise.n_samples is not None:
        if noise.is_weighted:
            return [], "", ["estimate = ...  # a weighted mean of several"]
        if np.ravel(noise.n_users)[0] > np.ravel(noise.n_samples)[0]:
            comment += "; oracle: a survey, such as ColumnOracle; name: its column or table"
            line += "[name]"
            return [], comment, [line]
    if oracle is None:
        return [], "", ["estimate = ...  # the oracle is not known"]
    if getattr(sys.modules["sklearn_ldp"], kind.__name__, None) is not kind:
        return [], comment, [f"oracle = ...  # the {kind.__name__} of clients and server", line]
    comment += "; categories: all possible answers, in their order"
    return [kind.__name__], comment, [f"oracle = {_oracle_call(oracle)}", line]


def _oracle_call(oracle: Any) -> str:
    """Return the Python expression that creates an oracle like this one.

    It contains epsilon and every parameter that differs from its default. The argument for the
    categories is the variable `categories`. The parameters n_shards and n_jobs are left out,
    because they do not change an estimate.
    """
    parameters = oracle.get_params(deep=False)
    arguments = {}
    if "epsilon" in parameters:
        arguments["epsilon"] = f"{oracle.epsilon:g}"
    defaults = signature(type(oracle)).parameters
    for name, value in parameters.items():
        is_default = repr(value) == repr(defaults[name].default)
        if not is_default and name not in ("categories", "n_shards", "n_jobs"):
            arguments[name] = repr(value)
    arguments["categories"] = "categories"
    return f"{type(oracle).__name__}({', '.join(f'{k}={v}' for k, v in arguments.items())})"


def _postprocessor_call(name: str, shares_overlap: bool) -> str:
    """Return the Python expression that creates the post-processor with this name.

    It contains simplex=False if a user may have several categories (`shares_overlap`).
    """
    kind = getattr(sys.modules["sklearn_ldp"], name, None)
    needs = shares_overlap and kind is not None and "simplex" in signature(kind).parameters
    return f"{name}({'simplex=False' * needs})"
