"""Compare the methods of two inner loops: ``python -m benchmarks.speed.inner_loops``.

The first table compares three methods that convert values to integer codes: our hash table, a
binary search among sorted categories, and a dictionary. The second table compares the methods that
draw a random subset of a given size. If a method does not support a domain, the cell is empty.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from sklearn_ldp._core.common.text import format_table
from sklearn_ldp._core.domains._lists import HashTable
from sklearn_ldp._core.mechanisms import coins

from .._command import command
from .._timing import seconds

DTYPES = ["int64", "float64", "U12", "datetime64[s]"]
SIZES = [10, 1_000, 100_000, 1_000_000]
SUBSETS = [
    (12, 4),
    (16, 8),
    (40, 2),
    (40, 12),
    (100, 27),
    (1_024, 10),
    (1_024, 276),
    (40_000, 10_779),
]
CHUNK = 1 << 14  # rows, as in the table of hashes


def searched(categories: np.ndarray, codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the codes of values by a binary search among sorted categories."""
    result = np.empty(len(values), dtype=np.int64)
    for start in range(0, len(values), CHUNK):
        part = values[start : start + CHUNK]
        places = np.minimum(np.searchsorted(categories, part), len(categories) - 1)
        result[start : start + CHUNK] = np.where(categories[places] == part, codes[places], -1)
    return result


def lookups(dtype: str, size: int, n: int) -> list[str]:
    """Return the milliseconds that each method needs for n values of one type."""
    rng = np.random.default_rng(0)
    numbers = rng.permutation(np.unique(rng.integers(10**11, size=size)))
    if dtype == "U12":
        categories = np.array([f"c{number:011d}" for number in numbers])
    else:
        categories = numbers / 7 if dtype == "float64" else numbers.astype(dtype)
    values = categories[rng.integers(len(categories), size=n)]
    order = np.argsort(categories)
    places = dict(zip(categories.tolist(), range(len(categories)), strict=True))
    table = HashTable.of(categories, np.arange(len(categories)))
    methods = {
        "table": None if table is None else partial(table.codes_of, values),
        "search": partial(searched, categories[order], order, values),
        "dictionary": lambda: np.fromiter(map(places.get, values.tolist()), np.int64, n),
    }
    return [f"{1e3 * seconds(work):.1f}" if work else "" for work in methods.values()]


def draws(n_items: int, size: int, n_bits: int) -> list[str]:
    """Return the nanoseconds per item that each method needs for subsets of one size."""
    n = max(n_bits // n_items, 1)
    source = coins.SeededCoins(np.random.default_rng(0))
    sizes = np.full(n, size)
    start = coins.best_start(n_items, size) if n_items <= 4_096 else None
    is_tried = start is not None and start.is_kept > 0.01
    n_bytes = -(-n_items // 8)
    methods = {
        "table": partial(source._listed_subsets, sizes, n_items) if n_items <= 16 else None,
        "places": lambda: np.packbits(source._placed(sizes, n_items, 8 * n_bytes), axis=1),
        "start": partial(source._finished, start, size, n) if is_tried else None,
        "repair": partial(source._repaired, sizes, n_items, n_bytes),
    }
    return [
        f"{1e9 * seconds(work) / (n * n_items):.2f}" if work else "" for work in methods.values()
    ]


def main() -> None:
    """Print two tables in Markdown's columns."""
    parser = command(__doc__, __spec__)
    parser.add_argument("--values", type=int, default=10**6)
    parser.add_argument("--bits", type=int, default=2 * 10**7)
    arguments = parser.parse_args()
    rows = [[t, f"{d:,}", *lookups(t, d, arguments.values)] for t in DTYPES for d in SIZES]
    print(format_table(["values", "categories", "table, ms", "search, ms", "dictionary, ms"], rows))
    rows = [[f"{size:,} of {d:,}", *draws(d, size, arguments.bits)] for d, size in SUBSETS]
    print(format_table(["subset", "table, ns", "places, ns", "start, ns", "repair, ns"], rows))


if __name__ == "__main__":
    main()
