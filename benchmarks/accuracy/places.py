"""Errors of places: rectangles, maps and distances, beside HDG and the disk mechanism.

    python -m benchmarks.accuracy.places [--populations FILE] [--tune] [--cells 16 32 64] ..

FILE is the output of ``benchmarks/accuracy/_real_populations.py --places``: residents of cities of
countries. Other populations are pairs of columns of Adult. All code and all constants were fixed
before these populations were used, except for the last step of SmoothMLE and the prior of margins:
see the notes on places.
`--tune` uses the populations for tuning instead: other countries, made-up populations, and other
pairs of columns. HDG and the disk mechanism are written from the papers:

- J. Yang, T. Wang, N. Li, X. Cheng, S. Su, "Answering multi-dimensional range queries under local
  differential privacy", PVLDB 14(3), 2020, doi:10.14778/3430915.3430927.
- The disk mechanism reports a place near the user's own more likely than others. The radius has
  the greatest mutual information, and expectation-maximisation with smoothing estimates the map.

A row is a population. "rectangles" is the root mean square error of random rectangles over that of
HDG, "map" the total variation at 16 x 16 cells over that of HDG, "distance" the sliced Wasserstein
distance over that of the disk mechanism, all of RangeOracle with SmoothMLE; "raw rectangles" is of
RangeOracle alone. "worst" is the error of SmoothMLE over that of the better of the raw estimate
and NormSub, for rectangles and for the map, the larger of the two.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.ndimage import convolve
from scipy.signal import fftconvolve
from scipy.stats import gmean

from sklearn_ldp import OLH, Domain, NormSub, RangeOracle, SmoothMLE
from sklearn_ldp._core.numerics.simplex import norm_sub
from sklearn_ldp.queries import rectangles

from .._command import add_data_argument, command
from .._tables import markdown

_ROUNDS = 3  # of consistency and non-negativity, of HDG
_EM_STEPS = 200


def main() -> None:
    """Print the table."""
    parser = command(__doc__, __spec__, repeats=2, seed=0)
    add_data_argument(parser)
    parser.add_argument("--tune", action="store_true", help="the populations for tuning")
    parser.add_argument("--populations", type=Path, help="JSON of _real_populations.py --places")
    parser.add_argument("--cells", nargs="+", type=int, default=[16, 32])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 4.0])
    parser.add_argument("--users", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    arguments = parser.parse_args()
    rows = []
    settings = itertools.product(arguments.cells, arguments.epsilons, arguments.users)
    for n_cells, epsilon, n_users in settings:
        chosen = populations(n_cells, arguments.tune, arguments.data, arguments.populations)
        for name, shares in chosen.items():
            rng = np.random.default_rng(arguments.seed)
            counts = rng.multinomial(n_users, shares.ravel()).reshape(shares.shape)
            errors = [compared(counts, epsilon, rng) for _ in range(arguments.repeats)]
            ratios = gmean(errors, axis=0)
            rows.append([name, n_cells, epsilon, n_users, *ratios])
    frame = pd.DataFrame(rows, columns=["population", "cells", "epsilon", "users", *RATIOS])
    _show(frame)
    for by in ("cells", "epsilon", "users"):
        _show(frame.groupby(by)[RATIOS].agg(gmean).reset_index())
    ratios = frame[RATIOS].to_numpy()
    summary = pd.DataFrame([gmean(ratios), ratios.max(axis=0)], columns=RATIOS)
    for limit in (1, 1.08):
        summary.loc[len(summary)] = (ratios > limit).mean(axis=0)
    summary.insert(0, "all", ["geometric mean", "greatest", "share above 1", "share above 1.08"])
    _show(summary)


def _show(frame: pd.DataFrame) -> None:
    rows = frame.to_numpy(dtype=object).tolist()
    texts = [[f"{x:.2f}" if isinstance(x, float) else str(x) for x in row] for row in rows]
    print(markdown(list(map(str, frame.columns)), texts), end="\n\n")


RATIOS = ["rectangles", "raw rectangles", "map", "distance", "worst"]


def compared(counts: np.ndarray, epsilon: float, rng: np.random.Generator) -> list[float]:
    """Return the ratios of one collection."""
    n = len(counts)
    bins = Domain.bins(n, bounds=(0, 1))
    grid = Domain.grid(bins, bins)
    truth = counts / counts.sum()
    oracle = RangeOracle(
        epsilon, categories=grid, random_state=rng, expected_n_users=int(counts.sum())
    )
    raw = oracle.simulate(counts.ravel())
    maps = [each.values[0].reshape(n, n) for each in (raw, *map(_fitted_to(raw), _MODELS))]
    maps += [hdg(counts, epsilon, rng), disk(counts, epsilon, rng)]
    asked = rectangles(400).aligned(raw.categories, grid).matrix(n * n)
    of_rectangles = [np.sqrt(np.mean((asked @ (m - truth).ravel()) ** 2)) for m in maps]
    of_maps = [total_variation(each, truth) for each in maps]
    distances = [sliced_distance(norm_sub(m.ravel()).reshape(n, n), truth) for m in maps]
    own = 1  # the place of SmoothMLE
    worst = max(each[own] / min(each[0], each[2]) for each in (of_rectangles, of_maps))
    return [
        of_rectangles[own] / of_rectangles[3],
        of_rectangles[0] / of_rectangles[3],
        of_maps[own] / of_maps[3],
        distances[own] / distances[4],
        worst,
    ]


_MODELS = (SmoothMLE(), NormSub())


def _fitted_to(raw: Any) -> Any:
    return lambda model: model.fit(raw).estimate_


def total_variation(estimated: np.ndarray, truth: np.ndarray) -> float:
    """Half the sum of absolute errors of 16 x 16 cells."""
    width = len(truth) // 16
    off = (estimated - truth).reshape(16, width, 16, width).sum(axis=(1, 3))
    return float(np.abs(off).sum() / 2)


def sliced_distance(estimated: np.ndarray, truth: np.ndarray) -> float:
    """The mean Wasserstein distance of projections on 16 lines, the square having the side 1."""
    x, y = (np.mgrid[: len(truth), : len(truth)] + 0.5) / len(truth)
    distances = []
    for angle in np.arange(16) * np.pi / 16:
        places = (np.cos(angle) * x + np.sin(angle) * y).ravel()
        order = np.argsort(places)
        off = np.cumsum((estimated - truth).ravel()[order])[:-1]
        distances.append(np.sum(np.abs(off) * np.diff(places[order])))
    return float(np.mean(distances))


# -- populations -----------------------------------------------------------------------------------
def _scaled(shares: np.ndarray) -> np.ndarray:
    return shares / shares.sum()


def _blob(n: int, at: tuple[float, float], size: tuple[float, float]) -> np.ndarray:
    x, y = (np.mgrid[:n, :n] + 0.5) / n
    return np.exp(-0.5 * (((x - at[0]) / size[0]) ** 2 + ((y - at[1]) / size[1]) ** 2))


def populations(n: int, tune: bool, data: Path, file: Path | None) -> dict[str, np.ndarray]:
    """Shares of cells of each population: for tuning, or held back."""
    named = {}
    if file is None:
        print("skipped: countries, because there is no --populations")
    else:
        countries = json.loads(file.read_text())["tuned" if tune else "held back"]
        width = 64 // n
        for name, rows in countries.items():
            named[name] = np.array(rows).reshape(n, width, n, width).sum(axis=(1, 3))
    if tune:
        named |= tuned(n) | drawn(n) | rough(n)
    path = data / "ADULT_TRAIN.csv.gz"
    if path.exists():
        people = pd.read_csv(path)
        for first, second in _TUNED_COLUMNS if tune else _COLUMNS:
            named[f"{first} and {second}"] = _histogram(people[first], people[second], n)
    else:
        print(f"skipped: there is no {path}")
    return {name: _scaled(shares) for name, shares in named.items()}


_TUNED_COLUMNS = (
    ("age", "hours_per_week"),
    ("age", "education_num"),
    ("age", "capital_loss"),
)
_COLUMNS = (
    ("fnlwgt", "age"),
    ("education_num", "hours_per_week"),
    ("capital_gain", "hours_per_week"),
)


def tuned(n: int) -> dict[str, np.ndarray]:
    """Populations on which the constants were chosen."""
    rng = np.random.default_rng(1)
    x, y = (np.mgrid[:n, :n] + 0.5) / n
    first, second = (_scaled(_blob(n, (a, b), (s, s))) for a, b, s in _TUNED_BLOBS)
    blobs = 0.4 * first + 0.4 * second + 0.2 / n**2
    spikes = np.full((n, n), 0.5 / n**2)
    spikes.flat[rng.choice(n * n, 8, replace=False)] += 0.5 * rng.dirichlet(np.ones(8))
    cities = 0.6 * blobs
    places = rng.choice(n * n, 20, replace=False, p=blobs.ravel())
    cities.flat[places] += 0.4 * rng.dirichlet(np.full(20, 0.5))
    zipf = rng.permutation(1 / np.arange(1, n * n + 1)).reshape(n, n)
    ridge = np.exp(-0.5 * ((x - y) / 0.08) ** 2 - 3 * x)
    even = np.ones((n, n))
    named = {"blobs": blobs, "ridge": ridge, "spikes": spikes, "cities": cities}
    return named | {"zipf": zipf, "even": even}


_TUNED_BLOBS = ((0.3, 0.3, 0.1), (0.7, 0.6, 0.15))


def drawn(n: int) -> dict[str, np.ndarray]:
    """Other populations for tuning: a country, a coast, a city, a circle and steps."""
    rng = np.random.default_rng(77)
    x, y = (np.mgrid[:n, :n] + 0.5) / n
    land = (x - 0.5) ** 2 + 1.4 * (y - 0.45) ** 2 < 0.18 + 0.03 * np.sin(9 * x + 5 * y)
    sizes = 1 / np.arange(1, 61)
    country = 0.3 * _scaled(land + 1e-9)
    on_land = rng.choice(n * n, 60, replace=False, p=_scaled(land.ravel() + 0.0))
    country.flat[on_land] += 0.4 * _scaled(sizes)
    for place, size in zip(on_land[:12], _scaled(sizes[:12]), strict=True):
        center = ((place // n + 0.5) / n, (place % n + 0.5) / n)
        country += 0.3 * size * _scaled(_blob(n, center, (0.04, 0.04)))
    coast = np.exp(-(((y - 0.3 - 0.2 * np.sin(4 * x)) / 0.05) ** 2)) * (0.2 + x)
    city = _blob(n, (0.45, 0.55), (0.06, 0.09)) + 0.15 * _blob(n, (0.5, 0.5), (0.25, 0.3))
    circle = np.exp(-((np.hypot(x - 0.5, y - 0.5) - 0.3) ** 2) / 0.004) + 0.02
    steps = 1.0 + 6 * ((x < 0.43) & (y > 0.31)) + 2 * (x > 0.78)
    named = {"country": country, "coast": coast, "city": city, "circle": circle, "steps": steps}
    return named


def rough(n: int) -> dict[str, np.ndarray]:
    """Other populations for tuning: almost independent numbers, with rough margins."""
    rng = np.random.default_rng(5)
    x = (np.arange(n) + 0.5) / n
    first, second = (rng.permutation(np.arange(1.0, n + 1) ** -power) for power in (1.0, 0.7))
    heaped = np.exp(-(((x - 0.45) / 0.2) ** 2)) + 0.02
    heaped[:: max(n // 8, 1)] *= 3
    heaped[int(0.4 * n)] *= 12
    smooth = np.exp(-(((x - 0.3) / 0.25) ** 2))
    tilted = np.exp(3 * np.outer(x - 0.5, x - 0.5))
    return {
        "product": np.outer(first, second),
        "heaped": np.outer(heaped, second) * tilted,
        "smooth and heaped": np.outer(smooth, heaped) * tilted**2,
    }


def _histogram(first: Any, second: Any, n: int) -> np.ndarray:
    ends = [
        np.linspace(column.min() - 0.5, column.max() + 0.5, n + 1) for column in (first, second)
    ]
    return np.histogram2d(first, second, bins=ends)[0]


# -- peers -----------------------------------------------------------------------------------------
def hdg(counts: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Hybrid-dimensional grids: a third of the users on each axis and on a grid of blocks."""
    n, n_users = len(counts), int(counts.sum())
    growth = np.exp(epsilon)
    on_axes, on_grid = 2 * n_users / 3, n_users / 3
    fine = np.cbrt(on_axes * (growth - 1) ** 2 * 0.7**2 / (2 * 2 * growth))
    coarse = np.sqrt(2 * 0.03 * (growth - 1) * np.sqrt(on_grid / growth))
    fine, coarse = (int(np.clip(2 ** np.rint(np.log2(g)), 2, n)) for g in (fine, coarse))
    fine = max(fine, coarse)
    thirds = rng.multinomial(n_users, np.ones(3) / 3)
    first = rng.multivariate_hypergeometric(counts.ravel(), thirds[0], method="marginals")
    left = counts.ravel() - first
    second = rng.multivariate_hypergeometric(left, thirds[1], method="marginals")
    groups = [part.reshape(n, n) for part in (first, second, left - second)]
    asked = [
        groups[0].sum(axis=1).reshape(fine, -1).sum(axis=1),
        groups[1].sum(axis=0).reshape(fine, -1).sum(axis=1),
        groups[2].reshape(coarse, n // coarse, coarse, n // coarse).sum(axis=(1, 3)),
    ]
    x, y, blocks = (
        OLH(epsilon, categories=one.size, random_state=rng).simulate(one.ravel()).values[0].copy()
        for one in asked
    )
    blocks = blocks.reshape(coarse, coarse)
    ratio = fine // coarse
    for _ in range(_ROUNDS):
        for axis, line in ((1, x), (0, y)):
            sums = line.reshape(coarse, ratio).sum(axis=1), blocks.sum(axis=axis)
            # Weights are inverse to the number of cells that are summed.
            agreed = (sums[0] / ratio + sums[1] / coarse) / (1 / ratio + 1 / coarse)
            line += np.repeat((agreed - sums[0]) / ratio, ratio)
            blocks += np.expand_dims((agreed - sums[1]) / coarse, axis)
        x, y = norm_sub(x), norm_sub(y)
        blocks = norm_sub(blocks.ravel()).reshape(coarse, coarse)
    return _weighted_update(x, y, blocks, n, n_users)


def _weighted_update(
    x: np.ndarray, y: np.ndarray, blocks: np.ndarray, n: int, n_users: int
) -> np.ndarray:
    """The matrix of the greatest entropy that agrees with all grids."""
    shares = np.full((n, n), 1 / n**2)
    for _ in range(100):
        before = shares.copy()
        for target in (x[:, None], y[None, :], blocks):
            n_x, n_y = target.shape
            cells = shares.reshape(n_x, n // n_x, n_y, n // n_y)
            sums = cells.sum(axis=(1, 3), keepdims=True)
            wanted = target[:, None, :, None]
            cells *= np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)
        if np.abs(shares - before).sum() < 1 / n_users:
            break
    return shares


def disk(counts: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """The disk mechanism, with expectation-maximisation that smooths the map in each step."""
    n = len(counts)
    radius = max(round(_best_radius(epsilon) * n), 1)
    offsets = np.arange(-radius, radius + 1)
    near = (offsets[:, None] ** 2 + offsets**2 <= radius**2).astype(float)
    size = n + 2 * radius
    reachable = fftconvolve(np.ones((n, n)), near) > 0.5
    base = 1 / (np.exp(epsilon) * near.sum() + reachable.sum() - near.sum())
    extra = base * (np.exp(epsilon) - 1) * near
    shares = counts / counts.sum()
    chances = np.maximum(base * reachable + fftconvolve(shares, extra), 0.0)
    # A draw from the mean distribution: differs from users' own draws by less than its noise.
    tally = rng.multinomial(int(counts.sum()), _scaled(chances).ravel()).reshape(size, size)
    weights = np.outer([1, 2, 1], [1, 2, 1]) / 16
    guess = np.full((n, n), 1 / n**2)
    value = -np.inf
    for _ in range(_EM_STEPS):
        chances = np.maximum(base * reachable + fftconvolve(guess, extra), 1e-300)
        ratio = np.where(reachable, tally / chances, 0.0)
        back = fftconvolve(ratio, extra[::-1, ::-1], mode="valid") + base * ratio.sum()
        guess = _scaled(convolve(_scaled(np.maximum(guess * back, 0.0)), weights, mode="nearest"))
        now = float(np.sum(tally[reachable] * np.log(chances[reachable])))
        if now - value < 1e-3 * np.exp(epsilon):
            break
        value = now
    return guess


def _best_radius(epsilon: float) -> float:
    """The radius with the greatest mutual information, for equally frequent places."""
    radii = np.linspace(0.02, 1.5, 300)
    disks = np.pi * radii**2
    areas = 1 + 4 * radii + disks
    low = 1 / (disks * np.exp(epsilon) + areas - disks)
    high = np.exp(epsilon) * low
    information = disks * high * np.log(high * areas) + (areas - disks) * low * np.log(low * areas)
    return float(radii[np.argmax(information)])


if __name__ == "__main__":
    main()
