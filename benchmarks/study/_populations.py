"""The papers' data sets, or what stands in for them; how they differ is part of the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from sklearn_ldp.datasets import make_beta, make_zipf, read_histogram

_POPULATION_SEED = 0  # the users are the same in every run; --seed draws their reports


@dataclass(frozen=True, eq=False)
class Population:
    """Users by category.

    Parameters
    ----------
    name : str
        What figures call it.
    counts : ndarray of shape (d,)
        Users of each category.
    paper : str
        The data set and size that the paper names.
    ours : str
        What is used here, and how it differs.
    is_exact : bool
        Whether it is the paper's own data, or drawn from the law that the paper states.
    groups : dict of ndarray of shape (d,)
        Labels of the categories.
    """

    name: str
    counts: np.ndarray
    paper: str
    ours: str
    is_exact: bool = False
    groups: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def n_samples(self) -> int:
        """Number of users."""
        return int(self.counts.sum())

    @property
    def frequencies(self) -> np.ndarray:
        """True frequencies."""
        return self.counts / self.n_samples


def load(name: str, data: Path) -> Population | None:
    """Return a population by its key, None where its file is not there."""
    return _load(name, str(data))


@lru_cache(maxsize=32)
def _load(name: str, data: str) -> Population | None:
    try:
        return _MAKERS[name](Path(data))
    except FileNotFoundError:
        return None


def _zipf(data: Path) -> Population:
    counts = make_zipf(return_counts=True, random_state=_POPULATION_SEED)
    return Population(
        "Zipf's",
        counts,
        "Zipf's law with s = 1.5, n = 1,000,000, d = 1,024",
        "drawn from the same law: other draws, the same sizes",
        is_exact=True,
    )


def _beta(data: Path) -> Population:
    counts = make_beta(return_counts=True, random_state=_POPULATION_SEED)
    return Population(
        "Beta",
        counts,
        "Beta(50, 2) in 400 buckets, n = 100,000",
        "drawn from the same law: other draws, the same sizes",
        is_exact=True,
    )


def _emoji(data: Path) -> Population:
    found = read_histogram(data / "EMOJI_TRACKER2019_N884427.csv.gz")
    return Population(
        "Emoji",
        found.counts,
        "emoji keyboard statistics, n = 884,427, d = 1,573, 68 categories of 10.4 emojis",
        "emoji use on Twitter scaled to the same n, but d = 845 (the rarest emojis are missing) "
        "and 93 subcategories of 9.1 emojis",
        groups=dict(found.groups),
    )


def _census(data: Path) -> Population:
    found = read_histogram(data / "US1940_CITY_1PCT_TOP915.csv.gz")
    return Population(
        "IPUMS",
        found.counts,
        "1 % sample of the 1940 census, n = 602,325, d = 915 cities",
        "1 % of the published populations of the 915 largest cities of 1940, n = 612,404, d = 915; "
        "states and the nine census divisions (the paper's regions) as groups; the state economic "
        "areas (SEA) are not in it",
        groups=dict(found.groups),
    )


def _scaled(counts: np.ndarray, n_samples: int) -> np.ndarray:
    """As many users with the same frequencies, to the nearest whole numbers."""
    exact = counts / counts.sum() * n_samples
    floor = np.floor(exact).astype(np.int64)
    missing = n_samples - int(floor.sum())
    floor[np.argsort(floor - exact, kind="stable")[:missing]] += 1
    return floor


def _pos(data: Path) -> Population:
    found = read_histogram(data / "RETAIL_one_item.csv.gz")
    return Population(
        "POS",
        found.counts,
        "one item of each merchant transaction, n = 515,597, d = 1,657",
        "one random item of each basket of Retail Market Basket, n = 88,162, d = 16,470: another "
        "shop, with fewer users and ten times the items",
    )


def _fire(data: Path) -> Population:
    found = read_histogram(data / "FIRE_WEEK_JAN2017.csv.gz")
    return Population(
        "Fire",
        _scaled(found.counts, 305_132),
        "units of the San Francisco fire calls of 2016, n = 305,132, d = 742",
        "the calls of one week of January 2017 (7,704) scaled to the paper's n; d = 178",
    )


def _kosarak_counts(data: Path) -> np.ndarray:
    return read_histogram(data / "KOSARAK_PREFIX36682_one_item.csv.gz").counts


def _kosarak(data: Path) -> Population:
    return Population(
        "Kosarak",
        _scaled(_kosarak_counts(data), 990_002),
        "one random click of each stream, n = 990,002, d = 42,178",
        "one random click of each of the first 36,682 streams scaled to the paper's n; d = 17,034: "
        "most pages have no users, the others at least 27",
    )


def _kosarak_clicks(data: Path) -> Population:
    return Population(
        "Kosarak",
        _scaled(_kosarak_counts(data), 8_019_015),
        "all clicks, n = 8,019,015, d = 41,270 pages",
        "one random click of each of the first 36,682 streams scaled to the paper's n; d = 17,034: "
        "most pages have no clicks, the others at least 218",
    )


def _retail(data: Path) -> Population:
    found = read_histogram(data / "RETAIL.csv.gz")
    return Population(
        "Retail",
        found.counts,
        "Retail Market Basket, n = 908,576, d = 16,470",
        "the same data",
        is_exact=True,
    )


def kosarak_head(data: Path) -> np.ndarray | None:
    """Exact users of Kosarak's 156 most frequent pages, falling; None where they are missing."""
    try:
        counts = read_histogram(data / "KOSARAK_FULL_HEAD156.csv.gz").counts
    except FileNotFoundError:
        return None
    return -np.sort(-counts)


_MAKERS: dict[str, Callable[[Path], Population]] = {
    "zipf": _zipf,
    "beta": _beta,
    "emoji": _emoji,
    "census": _census,
    "pos": _pos,
    "fire": _fire,
    "kosarak": _kosarak,
    "kosarak-clicks": _kosarak_clicks,
    "retail": _retail,
}
