"""The papers' data sets, or what stands in for them; how they differ is part of the report."""

from __future__ import annotations

import pydoc_data.topics
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import yaml
from scipy.stats import poisson

from sklearn_ldp.datasets import load_us_states, make_beta, make_zipf, read_histogram

from ..accuracy.seven_distributions import rounded

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
    return np.concatenate([head, rounded(tail, n_samples - int(head.sum()))])


def scaled_part(part: np.ndarray, n_samples: int, n_categories: int) -> np.ndarray:
    """The part's frequencies at the size of the whole; no users where the part has none."""
    return widened(rounded(part, n_samples), n_categories)


# -- the data sets --------------------------------------------------------------------------------
_TEXTS = yaml.safe_load(Path(__file__).with_name("populations.yaml").read_text(encoding="utf-8"))
Made = tuple[np.ndarray, dict[str, np.ndarray]]  # counts, and labels of the categories by column


def load(name: str, data: Path) -> Population | None:
    """Return a population by its key, None where its file is not there."""
    return _load(name, str(data))


@lru_cache(maxsize=32)
def _load(name: str, data: str) -> Population | None:
    try:
        counts, groups = _MAKERS[name](Path(data))
    except FileNotFoundError:
        return None
    return Population(counts=counts, groups=groups, **_TEXTS[name])


def missing_data(keys: Iterable[str], data: Path) -> str:
    """Return the files that these populations need, with their sources, as text for the console."""
    lines = [f"Missing histograms, in {data} (--data or SKLEARN_LDP_DATA names another folder):"]
    for key in _MAKERS:
        if key in keys:
            lines += [f"  {name}.csv.gz: {_SOURCES[name]}" for name in _FILES[key]]
    lines.append("doc/user_guide/papers.md describes the format of the files.")
    return "\n".join(dict.fromkeys(lines))


def _file(name: str) -> Callable[[Path], Made]:
    def make(data: Path) -> Made:
        found = read_histogram(data / f"{name}.csv.gz")
        return found.counts, dict(found.groups)

    return make


_emoji = _file("EMOJI_TRACKER2019_N884427")
_RAREST = 6  # users of the rarest emoji that the data know; those that they lack have fewer


def _emoji_at_full_size(data: Path) -> Made:
    known, _ = _emoji(data)
    rest = np.round(np.geomspace(_RAREST, 0.3, 1573 - len(known))).astype(np.int64)
    return rounded(np.concatenate([known, rest]), 884_427), {}


def _pos(data: Path) -> Made:
    counts, _ = _file("RETAIL_one_item")(data)
    return rounded(-np.sort(-counts)[:1657], 515_597), {}


def _fire(data: Path) -> Made:
    counts, _ = _file("FIRE_WEEK_JAN2017")(data)
    n, rng = 305_132, np.random.default_rng(_POPULATION_SEED)
    return rounded(completed(widened(counts, 742), counts.sum() / n, rng), n), {}


def _states(data: Path) -> Made:
    found = load_us_states(n_samples=1_000_000, random_state=_POPULATION_SEED)
    return found.counts, dict(found.groups)


def _letters(data: Path) -> Made:
    text = " ".join(pydoc_data.topics.topics.values()).lower()
    typed = Counter(re.findall("(?=([a-z][a-z]))", text))
    pairs = [first + second for first in ascii_lowercase for second in ascii_lowercase]
    counts = rounded(np.array([typed[pair] for pair in pairs]), 1_000_000)
    return counts, {"first letter": np.array([pair[0] for pair in pairs])}


_USERS, _CLICKS, _PAGES = 990_002, 8_019_015, 41_270
KOSARAK_SHARE = 36_682 / _USERS  # of the streams, that of our prefix


def _kosarak(data: Path) -> Made:
    counts, _ = _file("KOSARAK_PREFIX36682_one_item")(data)
    rng = np.random.default_rng(_POPULATION_SEED)
    return rounded(completed(widened(counts, 42_178), KOSARAK_SHARE, rng, least=0), _USERS), {}


def _kosarak_head_and_tail(data: Path) -> Made:
    head = read_histogram(data / "KOSARAK_FULL_HEAD156.csv.gz")
    prefix = read_histogram(data / "KOSARAK_PREFIX36682_all_clicks.csv.gz")
    is_tail = ~np.isin(prefix.categories, head.categories)
    part = widened(prefix.counts[is_tail], _PAGES - len(head.counts))
    rng = np.random.default_rng(_POPULATION_SEED)
    return head_and_tail(head.counts, part, KOSARAK_SHARE, _CLICKS, rng), {}


def _kosarak_scaled_prefix(data: Path) -> Made:
    counts, _ = _file("KOSARAK_PREFIX36682_all_clicks")(data)
    return scaled_part(counts, _CLICKS, _PAGES), {}


_MAKERS: dict[str, Callable[[Path], Made]] = {
    "zipf": lambda _: (make_zipf(return_counts=True, random_state=_POPULATION_SEED), {}),
    "beta": lambda _: (make_beta(return_counts=True, random_state=_POPULATION_SEED), {}),
    "emoji-twitter": _emoji,
    "emoji": _emoji_at_full_size,
    "census": _file("US1940_CITY_1PCT_TOP915"),
    "states": _states,
    "letters": _letters,
    "pos": _pos,
    "fire": _fire,
    "kosarak": _kosarak,
    "kosarak-clicks": _kosarak_head_and_tail,
    "kosarak-prefix": _kosarak_scaled_prefix,
    "retail": _file("RETAIL"),
}
_SOURCES: dict[str, str] = yaml.safe_load(
    Path(__file__).with_name("sources.yaml").read_text(encoding="utf-8")
)
_FILES: dict[str, list[str]] = {  # the other populations need no file
    "emoji-twitter": ["EMOJI_TRACKER2019_N884427"],
    "emoji": ["EMOJI_TRACKER2019_N884427"],
    "census": ["US1940_CITY_1PCT_TOP915"],
    "pos": ["RETAIL_one_item"],
    "fire": ["FIRE_WEEK_JAN2017"],
    "kosarak": ["KOSARAK_PREFIX36682_one_item"],
    "kosarak-clicks": ["KOSARAK_FULL_HEAD156", "KOSARAK_PREFIX36682_all_clicks"],
    "kosarak-prefix": ["KOSARAK_PREFIX36682_all_clicks"],
    "retail": ["RETAIL"],
}
