"""The papers' data sets, or what stands in for them; how they differ is part of the report."""

from __future__ import annotations

import pydoc_data.topics
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from string import ascii_lowercase

import numpy as np
from scipy.stats import poisson

from sklearn_ldp.datasets import load_us_states, make_beta, make_zipf, read_histogram

_POPULATION_SEED = 0  # the users are the same in every run; --seed draws their reports


@dataclass(frozen=True, eq=False)
class Population:
    """Users by category."""

    name: str
    counts: np.ndarray  # shape (d,)
    paper: str  # the data set and size that the paper names
    ours: str  # what is used here, and how it differs
    is_exact: bool = False  # the paper's own data, or drawn from the law that it states
    groups: dict[str, np.ndarray] = field(default_factory=dict)  # labels of the categories

    @property
    def n_samples(self) -> int:
        """Number of users."""
        return int(self.counts.sum())

    @property
    def frequencies(self) -> np.ndarray:
        """True frequencies."""
        return self.counts / self.n_samples


# -- a whole data set made of a part, at the paper's n and d --------------------------------------
_ITERATIONS = 500


def scaled(counts: np.ndarray, n_samples: int) -> np.ndarray:
    """As many users with the same frequencies, to the nearest whole numbers."""
    exact = counts / counts.sum() * n_samples
    floor = np.floor(exact).astype(np.int64)
    missing = n_samples - int(floor.sum())
    floor[np.argsort(floor - exact, kind="stable")[:missing]] += 1
    return floor


def widened(counts: np.ndarray, n_categories: int) -> np.ndarray:
    """The counts, and zeros for the categories that the part has not seen."""
    return np.concatenate([counts, np.zeros(n_categories - len(counts), dtype=counts.dtype)])


def completed(
    part: np.ndarray, share: float, rng: np.random.Generator, *, least: int = 1
) -> np.ndarray:
    """Draw whole counts, given those of a part.

    A category with k users in all has Poisson(share * k) of them in the part. The distribution of k
    over the categories is the mixture of greatest likelihood (by EM, on a geometric grid). Each
    category then has its users in the part, and others drawn given these; no fewer than `least`,
    which is 1 if d counts the categories that occur. Shapes: (d,) to (d,).
    """
    distinct, place, times = np.unique(part, return_inverse=True, return_counts=True)
    most = 1.5 * distinct[-1] / share + 10
    support = np.unique(np.round(np.geomspace(1, most, 200)))
    support = np.concatenate([[0.0], support]) if least == 0 else support
    likelihood = poisson.pmf(distinct[:, None], support * share)
    weights = np.full(len(support), 1 / len(support))
    for _ in range(_ITERATIONS):
        given = likelihood * weights
        given /= given.sum(axis=1, keepdims=True)
        weights = times @ given / len(part)
    whole = np.empty(len(part), dtype=np.int64)
    for i, k in enumerate(distinct):
        where = np.flatnonzero(place == i)
        rate = rng.choice(support, p=given[i], size=len(where))
        whole[where] = np.maximum(k + rng.poisson(rate * (1 - share)), least)
    return whole


def head_and_tail(
    head: np.ndarray, part: np.ndarray, share: float, n_samples: int, rng: np.random.Generator
) -> np.ndarray:
    """Known counts of the largest categories, and then completed ones of all others.

    Shapes: (h,) in the whole and (d - h,) in the part to (d,) of `n_samples` users.
    """
    tail = completed(part, share, rng)
    return np.concatenate([head, scaled(tail, n_samples - int(head.sum()))])


def scaled_part(part: np.ndarray, n_samples: int, n_categories: int) -> np.ndarray:
    """The part's frequencies at the size of the whole; no users where the part has none."""
    return widened(scaled(part, n_samples), n_categories)


# -- the data sets --------------------------------------------------------------------------------
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


_RAREST = 6  # users of the rarest emoji that the data know; those that they lack have fewer


def _emoji_at_full_size(data: Path) -> Population:
    found = read_histogram(data / "EMOJI_TRACKER2019_N884427.csv.gz")
    d, known = 1573, len(found.counts)
    rest = np.round(np.geomspace(_RAREST, 0.3, d - known)).astype(np.int64)
    return Population(
        "Emoji",
        scaled(np.concatenate([found.counts, rest]), 884_427),
        "emoji keyboard statistics, n = 884,427, d = 1,573",
        "emoji use on Twitter (845 emojis) and 728 rarer ones whose counts fall from 6 to 0",
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


def _pos(data: Path) -> Population:
    found = read_histogram(data / "RETAIL_one_item.csv.gz")
    return Population(
        "POS",
        scaled(-np.sort(-found.counts)[:1657], 515_597),
        "one item of each merchant transaction, n = 515,597, d = 1,657",
        "one random item of each basket of Retail Market Basket: the 1,657 most frequent items, "
        "scaled to the paper's n; another shop",
    )


def _fire(data: Path) -> Population:
    found = read_histogram(data / "FIRE_WEEK_JAN2017.csv.gz")
    n, d = 305_132, 742
    share = found.counts.sum() / n
    rng = np.random.default_rng(_POPULATION_SEED)
    return Population(
        "Fire",
        scaled(completed(widened(found.counts, d), share, rng), n),
        "units of the San Francisco fire calls of 2016, n = 305,132, d = 742",
        "the calls of one week of January 2017 (7,704 calls of 178 units), completed to the "
        "paper's n and d by a Poisson mixture",
    )


def _states(data: Path) -> Population:
    found = load_us_states(n_samples=1_000_000, random_state=_POPULATION_SEED)
    return Population(
        "US states",
        found.counts,
        "not in it",
        "1,000,000 residents of the 50 states and the capital, 2020, in the nine census divisions",
        groups=dict(found.groups),
    )


def _letters(data: Path) -> Population:
    text = " ".join(pydoc_data.topics.topics.values()).lower()
    typed = Counter(re.findall("(?=([a-z][a-z]))", text))
    pairs = [first + second for first in ascii_lowercase for second in ascii_lowercase]
    return Population(
        "Letters",
        scaled(np.array([typed[pair] for pair in pairs]), 1_000_000),
        "not in it",
        "the 676 pairs of letters in the documentation that comes with Python, scaled to n = "
        "1,000,000, in 26 groups by the first letter",
        groups={"first letter": np.array([pair[0] for pair in pairs])},
    )


_USERS, _CLICKS, _PAGES = 990_002, 8_019_015, 41_270
KOSARAK_SHARE = 36_682 / _USERS  # of the streams, that of our prefix


def _kosarak(data: Path) -> Population:
    counts = read_histogram(data / "KOSARAK_PREFIX36682_one_item.csv.gz").counts
    n, d = _USERS, 42_178
    rng = np.random.default_rng(_POPULATION_SEED)
    whole = completed(widened(counts, d), KOSARAK_SHARE, rng, least=0)
    return Population(
        "Kosarak",
        scaled(whole, n),
        "one random click of each stream, n = 990,002, d = 42,178",
        "one random click of each of the first 36,682 streams (6,234 pages), completed to the "
        "paper's n and d by a Poisson mixture",
    )


_KOSARAK_PAPER = "all clicks, n = 8,019,015, d = 41,270 pages"


def _kosarak_head_and_tail(data: Path) -> Population:
    head = read_histogram(data / "KOSARAK_FULL_HEAD156.csv.gz")
    prefix = read_histogram(data / "KOSARAK_PREFIX36682_all_clicks.csv.gz")
    is_tail = ~np.isin(prefix.categories, head.categories)
    part = widened(prefix.counts[is_tail], _PAGES - len(head.counts))
    rng = np.random.default_rng(_POPULATION_SEED)
    return Population(
        "Kosarak (head, tail)",
        head_and_tail(head.counts, part, KOSARAK_SHARE, _CLICKS, rng),
        _KOSARAK_PAPER,
        "the exact clicks of the 156 most frequent pages, which are 45 % of all clicks; the other "
        "41,114 pages have the clicks of the first 36,682 streams, completed to the paper's n by "
        "a Poisson mixture",
    )


def _kosarak_scaled_prefix(data: Path) -> Population:
    prefix = read_histogram(data / "KOSARAK_PREFIX36682_all_clicks.csv.gz")
    return Population(
        "Kosarak (prefix)",
        scaled_part(prefix.counts, _CLICKS, _PAGES),
        _KOSARAK_PAPER,
        "all 294,022 clicks of the first 36,682 streams on 17,034 pages, scaled to the paper's n; "
        "the other 24,236 pages have no clicks, and none has 1 to 26",
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


_MAKERS: dict[str, Callable[[Path], Population]] = {
    "zipf": _zipf,
    "beta": _beta,
    "emoji-twitter": _emoji,
    "emoji": _emoji_at_full_size,
    "census": _census,
    "states": _states,
    "letters": _letters,
    "pos": _pos,
    "fire": _fire,
    "kosarak": _kosarak,
    "kosarak-clicks": _kosarak_head_and_tail,
    "kosarak-prefix": _kosarak_scaled_prefix,
    "retail": _retail,
}
