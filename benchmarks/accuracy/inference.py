"""How often the results of `sklearn_ldp.inference` are correct: coverage and false discoveries.

    python -m benchmarks.accuracy.inference
    python -m benchmarks.accuracy.inference --repeats 50 --parts answers discoveries

prints the tables of doc/notes/inference.md.

The coverage of intervals of one category is computed exactly, from the probabilities of all counts.
All other results are simulated.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.stats import gmean
from sklearn.base import clone

from sklearn_ldp import (
    BLH,
    GRR,
    OLH,
    OUE,
    SUE,
    ColumnOracle,
    Domain,
    FrequencyEstimate,
    HadamardResponse,
    KeyValueOracle,
    LocalMean,
    ProjectiveGeometryResponse,
    SubsetSelection,
    Trend,
)
from sklearn_ldp._core.statistics import EstimateCovariances
from sklearn_ldp._core.statistics._discoveries import adjusted_p_values
from sklearn_ldp._core.statistics._intervals import score_intervals, two_sided
from sklearn_ldp.inference import (
    combine,
    goodness_of_fit,
    mean_by_answer,
    poststratify,
    quantiles,
    ranks,
    top_categories,
)
from sklearn_ldp.queries import top_k
from sklearn_ldp.surveys import ResponseDesign

from .._command import command
from .._tables import markdown

PURE = [GRR, OUE, OLH, HadamardResponse, SubsetSelection, ProjectiveGeometryResponse]
ALL = [SUE(), BLH(), HadamardResponse(n_blocks="auto"), *(kind() for kind in PURE)]
LEVEL = 0.95
SUSPECT = 0.93  # cells that cover less at first are measured more exactly
FEW_USERS = ((30, 10.0), (300, 8.0), (1000, 3.0), (3000, 7.0))
VARIANCES = [0, 1, 3, 10, 20, 50, 300, np.inf]


def populations(d: int, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and distributions over d categories."""
    shapes = {
        "zipf": 1 / np.arange(1, d + 1),
        "uniform": np.ones(d),
        "geometric": 0.7 ** np.arange(d),
        "two": np.r_[1.0, 1.0, np.zeros(d - 2)],
        "half": np.repeat([1.0, 0.0], [d // 2, d - d // 2]),
        "sparse": rng.dirichlet(np.full(d, 0.2)),
    }
    yield from ((name, weights / weights.sum()) for name, weights in shapes.items())


# -- one category -----------------------------------------------------------------------------
def law_of_count(
    n: int, n_own: int, p: float, q: float, of: str
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the likely counts of reports that support a category, their law and its variance."""

    def window(m: int, share: float) -> tuple[int, np.ndarray]:
        radius = 12 * np.sqrt(m * share * (1 - share)) + 30
        first = max(0, int(m * share - radius))
        last = min(m, int(m * share + radius))
        return first, stats.binom.pmf(np.arange(first, last + 1), m, share)

    if of == "population":
        share = q + (p - q) * n_own / n
        first, law = window(n, share)
        return first + np.arange(len(law)), law, n * share * (1 - share)
    (one, own), (two, others) = window(n_own, p), window(n - n_own, q)
    law = np.convolve(own, others)
    variance = n_own * p * (1 - p) + (n - n_own) * q * (1 - q)
    return one + two + np.arange(len(law)), law, variance


def one_category(of: str) -> str:
    """Exact coverage of score intervals with half a count, and of Wald's, by variance."""
    found = []
    epsilons, domains, users = (
        (0.2, 0.5, 1, 2, 4, 6),
        (2, 10, 100, 1000),
        (200, 1000, 10_000, 100_000),
    )
    shares = (0, 0.001, 0.01, 0.1, 0.5, 1)
    for kind, epsilon, d, n, share in itertools.product(PURE, epsilons, domains, users, shares):
        channel = kind(epsilon).channel(d)
        p, q, noise, n_own = float(channel.p), float(channel.q), channel.noise(n), int(n * share)
        counts, law, variance = law_of_count(n, n_own, p, q, of)
        x, truth = (counts / n - q) / (p - q), n_own / n
        plug_in = np.clip(x, 0, 1)
        ends = score_intervals(x, EstimateCovariances(noise, of, plug_in), two_sided(LEVEL))
        half = two_sided(LEVEL) * np.sqrt(noise.variance(plug_in))  # what forgets the sampling
        wald = x - half, x + half
        covered = [law[(low <= truth) & (truth <= high)].sum() for low, high in (ends, wald)]
        lengths = [law @ np.diff(np.clip(pair, 0, 1), axis=0)[0] for pair in (ends, wald)]
        found.append((variance, *covered, lengths[0] / max(lengths[1], 1e-300)))
    table = pd.DataFrame(found, columns=["variance", "score", "wald", "length"])
    rows = []
    for place, cells in table.groupby(pd.cut(table.variance, VARIANCES, right=False)):
        coverage = [f"{x:.3f}" for x in (cells.score.min(), cells.score.mean(), cells.wald.min())]
        others = f"{(cells.wald < 0.94).mean():.0%}", f"{gmean(cells.length):.2f}"
        of = f"{place.left:g} to {place.right:g}"
        rows.append([of, f"{len(cells):,}", *coverage, *others])
    head = ["variance of the count", "cells", "score, least", "mean", "Wald, least", "below .94"]
    return markdown([*head, "length / clipped Wald"], rows)


# -- linear answers and bands -----------------------------------------------------------------
def queries(d: int) -> dict[str, np.ndarray]:
    """Return the queries of each kind, one per row."""
    groups = np.array([np.arange(d) % 4 == i for i in range(4)], dtype=float)
    prefixes = np.tril(np.ones((d, d)))[[d // 4, d // 2, d - 2]]
    pairs = np.eye(d)[[0, 0, 1, 2]] - np.eye(d)[[1, d - 1, d - 1, 3]]
    return {"groups": groups, "prefixes": prefixes, "differences": pairs}


def is_inside(ends: Any, truth: np.ndarray) -> np.ndarray:
    """Whether intervals cover the truth; both may be the same number up to rounding."""
    return (ends.low <= truth + 1e-12) & (truth - 1e-12 <= ends.high)


def cells(
    kinds: list[Any], epsilons: tuple[float, ...], rng: np.random.Generator
) -> Iterator[tuple[str, Any, int, np.ndarray]]:
    """Yield row of the table, oracle, number of users and distribution of each cell."""
    for kind, d, n, epsilon in itertools.product(kinds, (8, 60), (200, 2000, 20_000), epsilons):
        for _, shares in populations(d, rng):
            oracle = clone(kind).set_params(epsilon=epsilon, categories=d, random_state=rng)
            channel = oracle.channel(d)
            variance = n * channel.null_variance * float(channel.p - channel.q) ** 2
            size = "20 and more" if variance >= 20 else "below 20"
            yield f"{label(kind)} | {size}", oracle, n, shares


def label(oracle: Any) -> str:
    """Return the name of an oracle, with blocks if it has any."""
    blocks = getattr(oracle, "n_blocks", 1)
    return type(oracle).__name__ + ("" if blocks == 1 else ", blocks")


def answers_of_users(
    oracle: Any, n: int, shares: np.ndarray, repeats: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return how often the intervals of each kind of linear answer cover those of the users."""
    kinds = queries(len(shares))
    counts = rng.multinomial(n, shares)
    matrix = np.vstack(list(kinds.values()))
    names = np.repeat(list(kinds), [len(rows) for rows in kinds.values()])
    ends = oracle.simulate(counts, n_repeats=repeats).confidence_interval(LEVEL, matrix)
    inside = is_inside(ends, matrix @ counts / n).mean(axis=0)
    return {name: inside[names == name].mean() for name in kinds}


def answers_of_differences(
    oracle: Any, n: int, shares: np.ndarray, repeats: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return the same of what changed between two populations, of which nothing has."""
    d = len(shares)
    matrix = np.vstack([np.eye(d)[: d // 2], queries(d)["groups"]])
    inside = []
    for _ in range(repeats):
        one, other = (oracle.simulate(rng.multinomial(m, shares)) for m in (n, 2 * n))
        inside.append(is_inside((one - other).confidence_interval(LEVEL, matrix), np.zeros(1)))
    by_query = np.concatenate(inside).mean(axis=0)
    return {"categories": by_query[: d // 2].mean(), "groups": by_query[d // 2 :].mean()}


def covered(
    measure: Callable[..., dict[str, float]],
    epsilons: tuple[float, ...],
    repeats: int,
    rng: np.random.Generator,
) -> str:
    """Return the table of what is covered; what looks bad is measured in new collections."""
    found = []
    for row, *cell in cells(ALL, epsilons, rng):
        coverage = measure(*cell, repeats, rng)
        if min(coverage.values()) < SUSPECT:
            coverage = measure(*cell, 20 * repeats, rng)
        found.append({"row": row, **coverage})
    table = pd.DataFrame(found).set_index("row")
    rows = [
        [*row.split(" | "), f"{len(part)}", *(mean_and_range(part[name]) for name in part)]
        for row, part in table.groupby("row", sort=False)
    ]
    head = ["oracle", "variance of an empty category's count", "cells"]
    return markdown([*head, *table], rows)


def mean_and_range(coverage: Any) -> str:
    """Return mean, least and most."""
    return f"{np.mean(coverage):.3f} ({np.min(coverage):.3f} to {np.max(coverage):.3f})"


def of_few_users(repeats: int, rng: np.random.Generator) -> str:
    """Coverage with few users: of few categories at once and of two combined; false changes."""
    rows = []
    for kind in ALL:
        found = []
        for d, (n, epsilon), other in itertools.product((2, 30), FEW_USERS, (1.0, 8.0)):
            for shares in (np.eye(d)[0], 1 / np.arange(1, d + 1)):
                users = np.rint(n * shares / shares.sum()).astype(int)
                one = clone(kind).set_params(epsilon=epsilon, categories=d, random_state=rng)
                parts = [one.simulate(users, repeats)]
                if other != epsilon:
                    one = clone(one).set_params(epsilon=other)
                parts.append(one.simulate(2 * users, repeats))
                truth = users / users.sum()
                ends = parts[0].confidence_interval(LEVEL, simultaneous=True)
                at_once = is_inside(ends, truth).all(axis=1).mean()
                single = is_inside(combine(parts).confidence_interval(LEVEL), truth).mean()
                named = (parts[0] - parts[1]).changed(of="users").mask.any(axis=1).mean()
                found.append((at_once, single, named))
        shares = zip(*found, strict=True)
        rows.append([label(kind), f"{len(found)}", *map(mean_and_range, shares)])
    head = ["oracle", "cells", "all categories at once", "each, two combined"]
    return markdown([*head, "named as changed by chance"], rows)


# -- discoveries --------------------------------------------------------------------
def false_discoveries(repeats: int, rng: np.random.Generator) -> str:
    """Simulated false-discovery rates and powers of `detected` at 5 %."""
    rows = []
    cases = [(GRR, 4.0, 10_000, 20), (GRR, 1.0, 100_000, 8), (OUE, 1.0, 10_000, 8)]
    for kind, epsilon, n, n_there in cases:
        d = 1024
        counts = np.r_[np.full(n_there, n // n_there), np.zeros(d - n_there, dtype=np.int64)]
        estimate = kind(epsilon, categories=d, random_state=rng).simulate(counts, 5 * repeats)
        normal = adjusted_p_values(stats.norm.sf(estimate.values / estimate.noise.std), "fdr")
        masks = {
            "exact": estimate.detected(LEVEL).mask,
            "Holm": estimate.detected(LEVEL, error_rate="fwer").mask,
            "normal": normal <= 1 - LEVEL,
        }
        channel = kind(epsilon).channel(d)
        variance = n * float(channel.q * (1 - channel.q))
        row = [f"{kind.__name__}, {n_there} of {d:,} there", f"{variance:.0f}"]
        for mask in masks.values():
            false = mask[:, n_there:].sum(axis=1) / np.maximum(mask.sum(axis=1), 1)
            row.append(f"{false.mean():.3f} / {mask[:, :n_there].mean():.2f}")
        rows.append(row)
    head = ["population", "variance of an empty category's count", "Benjamini-Hochberg, exact"]
    return markdown([*head, "Holm, exact", "negative control: normal p-values"], rows)


# -- every kind of statement ----------------------------------------------------------------------
def statement_kinds(repeats: int, rng: np.random.Generator) -> str:
    """Coverage of each kind of statement, beside its nominal level less two standard errors."""
    rows = []
    for kind, d, n, shape in itertools.product(
        (GRR, OUE, OLH), (2, 50), (60, 5000), ("even", "rare")
    ):
        shares = (
            np.full(d, 1 / d) if shape == "even" else np.r_[0.98, np.full(d - 1, 0.02 / (d - 1))]
        )
        oracle = kind(2.0, categories=d, random_state=rng)
        counts = rng.multinomial(n, shares)
        estimate, truth = oracle.simulate(counts, repeats), counts / n
        drawn = FrequencyEstimate.from_rows(
            {i: oracle.simulate(rng.multinomial(n, shares)) for i in range(repeats)}
        )
        other = FrequencyEstimate.from_rows(
            {i: oracle.simulate(rng.multinomial(n, shares)) for i in range(repeats)}
        )
        each = estimate.confidence_interval(LEVEL)
        every = estimate.confidence_interval(LEVEL, simultaneous=True)
        first = estimate.confidence_interval(LEVEL, top_k(1), coverage="selected")
        leads = truth[estimate.values.argmax(axis=1)][:, None]
        population = drawn.confidence_interval(LEVEL, of="population")
        change = (drawn - other).confidence_interval(LEVEL, simultaneous=True)
        fits = goodness_of_fit(estimate, truth, of="users").p_value > 1 - LEVEL
        found = {
            "one category, users": is_inside(each, truth)[:, -1],
            "one category, population": is_inside(population, shares)[:, -1],
            "all categories": is_inside(every, truth).all(axis=1),
            "the leader": is_inside(first, leads)[:, 0],
            "all differences": is_inside(change, np.zeros(d)).all(axis=1),
            "test of fit, users": fits,
            "test of change": (drawn - other).test().p_value > 1 - LEVEL,
        }
        where = f"{kind.__name__}, {d} categories, {n:,} users, {shape}"
        rows += [(name, where, inside) for name, inside in found.items()]
    rows += _kinds_of_designs(repeats, rng) + _kinds_of_means(repeats, rng)
    rows += _kinds_of_tables(repeats, rng) + _kinds_of_ranks(repeats, rng)
    rows += _kinds_of_quantiles(repeats, rng) + _kinds_of_several(repeats, rng)
    rows += _kinds_of_trends(repeats, rng)
    lines = []
    for name, group in itertools.groupby(sorted(rows, key=lambda row: row[0]), lambda row: row[0]):
        cells = [(inside.mean(), len(inside), where) for _, where, inside in group]
        below = sum(mean < LEVEL - 2 * np.sqrt(LEVEL * (1 - LEVEL) / n) for mean, n, _ in cells)
        least = min(cells)
        means = f"{np.mean([mean for mean, *_ in cells]):.3f}", f"{least[0]:.3f}"
        lines.append([name, f"{len(cells)}", f"{least[1]}", *means, f"{below}", least[2]])
    head = ["statement", "cells", "collections", "mean", "minimum", "below", "cell of the minimum"]
    return markdown(head, lines)


def _kinds_of_designs(repeats: int, rng: np.random.Generator) -> list[Any]:
    rows = []
    designs = (
        ResponseDesign.mangat(0.6),
        ResponseDesign.triangular(0.5),
        ResponseDesign.crosswise(0.25),
    )
    for design, n, share in itertools.product(designs, (20, 400), (0.02, 0.5, 0.98)):
        mechanism, n_yes = design.oracle().channel(), round(n * share)
        for of in ("users", "population"):
            yes = (
                rng.binomial(n_yes, design.channel[1, 1], repeats)
                + rng.binomial(n - n_yes, design.channel[1, 0], repeats)
                if of == "users"
                else rng.binomial(n, design.channel[1] @ [1 - n_yes / n, n_yes / n], repeats)
            )
            values = np.column_stack([n - yes, yes]) / n @ mechanism.decoding.T
            estimate = FrequencyEstimate(values, ["no", "yes"], mechanism.noise(n))
            ends = estimate.confidence_interval(LEVEL, of=of)
            inside = is_inside(ends, np.array([n - n_yes, n_yes]) / n)[:, 1]
            rows.append((f"response design, {of}", f"{design.name}, {n} users, {share}", inside))
    return rows


def _kinds_of_means(repeats: int, rng: np.random.Generator) -> list[Any]:
    rows = []
    for epsilon, n, share, mean in itertools.product((1, 4), (200, 2000), (0.1, 0.5), (0.02, 0.5)):
        oracle, inside = GRR(epsilon, categories=2), []
        for _ in range(repeats):
            reports = oracle.privatize((rng.random(n) < share).astype(int))
            means = mean_by_answer(rng.random(n) < mean, reports, oracle)
            low, high = means.confidence_interval(LEVEL)
            inside += [low[1] <= mean <= high[1]] * bool(means.values[1] == means.values[1])
        if len(inside) > repeats / 4:
            where = f"epsilon {epsilon}, {n} users, share {share}, mean {mean}"
            rows.append(("mean by answer", where, np.array(inside)))
    for epsilon, n, value in itertools.product((4, 8), (100, 500), (0.02, 0.5)):
        users, inside = [{"a": value}] * (n // 2) + [{"b": 0.5}] * (n // 2), []
        for _ in range(repeats):
            oracle = KeyValueOracle(epsilon, categories=["a", "b"], max_items=1, random_state=rng)
            low, high = oracle.fit(users).means_interval(LEVEL)
            inside.append(low[0] <= value + 1e-9 and value - 1e-9 <= high[0])
        where = f"epsilon {epsilon}, {n} users, value {value}"
        rows.append(("mean of an item", where, np.array(inside)))
    return rows


def _kinds_of_tables(repeats: int, rng: np.random.Generator) -> list[Any]:
    domains, rows = {f"c{i}": 2 + i % 4 for i in range(12)}, []
    for n in (300, 3000):
        X = np.column_stack([rng.integers(d, size=n) for d in domains.values()])
        truth = np.concatenate(
            [np.bincount(x, minlength=d) / n for x, d in zip(X.T, domains.values(), strict=True)]
        )
        inside = []
        for _ in range(repeats // 4):
            survey = ColumnOracle(2.0, domains=domains, random_state=rng)
            frame = survey.fit_transform(X).to_frame(interval=LEVEL)
            inside.append(np.all((frame.low <= truth + 1e-12) & (truth - 1e-12 <= frame.high)))
        rows.append(("table of 12 columns", f"{n} users", np.array(inside)))
    return rows


def _kinds_of_ranks(repeats: int, rng: np.random.Generator) -> list[Any]:
    """Ranks, the most frequent categories and discoveries; half of the categories are empty."""
    rows = []
    for kind, d, n in itertools.product((GRR, OUE, OLH), (4, 50), (60, 5000)):
        counts = np.r_[rng.multinomial(n, np.full(d // 2, 2 / d)), np.zeros(d // 2, dtype=int)]
        estimate = kind(2.0, categories=d, random_state=rng).simulate(counts, repeats)
        where = f"{kind.__name__}, {d} categories, {n:,} users"
        low, high = ranks(estimate)
        first = 1 + (counts > counts[:, None]).sum(axis=1)
        last = (counts >= counts[:, None]).sum(axis=1)
        rows.append(("all ranks", where, np.all((low <= first) & (last <= high), axis=1)))
        surely, maybe = top_categories(estimate, 2)
        is_top = first <= 2
        is_true = np.all((surely <= is_top) & (is_top <= maybe), axis=1)
        rows.append(("the two most frequent", where, is_true))
        mask = estimate.detected(LEVEL).mask
        false = mask[:, counts == 0].sum(axis=1) / np.maximum(mask.sum(axis=1), 1)
        rows.append(("discoveries that are true", where, 1 - false))
        mask = estimate.detected(LEVEL, error_rate="fwer").mask
        rows.append(("no false discovery", where, ~mask[:, counts == 0].any(axis=1)))
    return rows


def _kinds_of_quantiles(repeats: int, rng: np.random.Generator) -> list[Any]:
    """Quartiles of numbers that lie in the middle of their bins, and means of numbers."""
    rows, probabilities = [], [0.25, 0.5, 0.75]
    for kind, d, n in itertools.product((GRR, OUE, OLH), (5, 40), (60, 5000)):
        domain = Domain.bins(d, bounds=(0, d))
        counts = rng.multinomial(n, rng.dirichlet(np.ones(d)))
        estimate = kind(2.0, categories=domain, random_state=rng).simulate(counts, repeats)
        truth = np.searchsorted(np.cumsum(counts) / n, probabilities) + 0.5
        where = f"{kind.__name__}, {d} bins, {n:,} users"
        single = is_inside(quantiles(estimate, probabilities), truth)[:, 1]
        band = is_inside(quantiles(estimate, probabilities, simultaneous=True), truth)
        rows.append(("median", where, single))
        rows.append(("all quartiles", where, band.all(axis=1)))
    for epsilon, n, share in itertools.product((1, 4), (30, 2000), (0.02, 0.5)):
        numbers, inside = (np.arange(n) < n * share).astype(float), []
        for _ in range(repeats):
            mean = LocalMean(epsilon, bounds=(0, 1), random_state=rng).fit_transform(numbers)
            low, high = mean.confidence_interval(LEVEL)
            inside.append(bool(low[0] <= numbers.mean() <= high[0]))
        rows.append(("mean of numbers", f"epsilon {epsilon}, {n:,} users, {share}", inside))
    return [(name, where, np.asarray(inside)) for name, where, inside in rows]


def _kinds_of_several(repeats: int, rng: np.random.Generator) -> list[Any]:
    """Two collections combined, and three groups with weights, about populations."""
    rows = []
    weights = {"a": 0.2, "b": 0.3, "c": 0.5}
    for kind, d, n in itertools.product((GRR, OUE, OLH), (3, 30), (100, 5000)):
        shares = rng.dirichlet(np.ones(d), size=3)
        one, other = (kind(e, categories=d, random_state=rng) for e in (2.0, 1.0))
        combined, weighted = [], []
        for _ in range(repeats):
            parts = [each.simulate(rng.multinomial(n, shares[0])) for each in (one, other)]
            ends = combine(parts, "users").confidence_interval(LEVEL, of="population")
            combined.append(is_inside(ends, shares[0])[0, 0])
            groups = zip(weights, (n, n // 2, n // 4), shares, strict=True)
            drawn = {name: one.simulate(rng.multinomial(m, own)) for name, m, own in groups}
            mean = poststratify(FrequencyEstimate.from_rows(drawn), weights)
            truth = list(weights.values()) @ shares
            ends = mean.confidence_interval(LEVEL, of="population")
            weighted.append(is_inside(ends, truth)[0, 0])
        where = f"{kind.__name__}, {d} categories, {n:,} users"
        rows.append(("two combined", where, np.array(combined)))
        rows.append(("three groups, weighted", where, np.array(weighted)))
    return rows


def _kinds_of_trends(repeats: int, rng: np.random.Generator) -> list[Any]:
    """A category of the last of 12 weeks, and of the week before and after a jump."""
    rows, oracle = [], OUE(1.0, categories=10, random_state=rng)
    for users, jump in itertools.product((500, 5000), (0.0, 0.25)):
        shares = np.full((12, 10), 0.1)
        shares[6:] -= jump / 9
        shares[6:, 0] += jump + jump / 9
        inside = []
        for _ in range(repeats):
            weeks = [oracle.simulate(rng.multinomial(users, week)) for week in shares]
            trend = Trend().fit_transform(FrequencyEstimate.from_rows(dict(enumerate(weeks))))
            ends = trend.confidence_interval(LEVEL, of="population")
            inside.append(is_inside(ends, shares)[[5, 6, 11]][:, [0, 1]].ravel())
        for i, (week, category) in enumerate(itertools.product((6, 7, 12), ("mover", "other"))):
            where = f"{users:,} users a week, jump {jump:g}, week {week}, {category}"
            rows.append(("trend", where, np.array(inside)[:, i]))
    return rows


PARTS: dict[str, Callable[[int, np.random.Generator], str]] = {
    "users": lambda repeats, rng: one_category("users"),
    "population": lambda repeats, rng: one_category("population"),
    "answers": partial(covered, answers_of_users, (1, 4)),
    "two_collections": partial(covered, answers_of_differences, (2,)),
    "few_users": of_few_users,
    "discoveries": false_discoveries,
    "kinds": statement_kinds,
}


def main() -> None:
    """Print the tables."""
    parser = command(__doc__, __spec__, repeats=100, seed=0)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    arguments = parser.parse_args()
    for part in arguments.parts:
        rng = np.random.default_rng(arguments.seed)
        print(f"\n{part} ({arguments.repeats} repeats, seed {arguments.seed})\n")
        print(PARTS[part](arguments.repeats, rng), flush=True)


if __name__ == "__main__":
    main()
