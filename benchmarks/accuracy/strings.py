"""Recall, coverage and time of collections of strings without a list of possible strings.

    python -m benchmarks.accuracy.strings [--sections random names languages peer]

"random" draws 50,000 strings of 48 bits with frequencies that fall as rank**-1.2. "names" takes the
names in scikit-learn's installed source (runs of letters and underscores in lower case, of which 20
letters are kept) with their natural frequencies; the code of letters is learnt from scipy's source.
Each of these collections has a million users. "languages" takes words of five and more letters
of languages that the package's code was not made of (--words: language, tab, word, tab, frequency,
such as the 30,000 most frequent of each by the package wordfreq), of which 12 letters are kept.
"peer" times PEM of pure-ldp, in an
environment of its own (--peers-python) with `pure-ldp statsmodels scikit-learn xxhash<4`.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import re
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sklearn_ldp import Domain, StringOracle

from .._command import command
from .._tables import markdown

N_USERS = 1_000_000
LETTERS = "abcdefghijklmnopqrstuvwxyz_"
HEX = "0123456789abcdef"


def main() -> None:
    """Print the tables of the sections that are asked for."""
    parser = command(__doc__, __spec__, repeats=5)
    parser.add_argument("--sections", nargs="+", default=list(SECTIONS)[:2], choices=list(SECTIONS))
    parser.add_argument("--words", metavar="PATH", type=Path, help="language, word, frequency")
    parser.add_argument("--peers-python", metavar="PATH", help="interpreter with pure-ldp")
    arguments = parser.parse_args()
    for name in arguments.sections:
        print(f"\n{name}\n", flush=True)
        SECTIONS[name](arguments)


class Population(NamedTuple):
    """Strings, and how frequent each is."""

    strings: list[str]
    frequencies: np.ndarray

    def counts(self, seed: int, n_users: int) -> np.ndarray:
        """Numbers of users, drawn."""
        return np.random.default_rng(seed).multinomial(n_users, self.frequencies)


def random_strings(seed: int, n_strings: int = 50_000) -> Population:
    """Different strings of 12 hexadecimal digits, with the frequencies of Zipf's law."""
    drawn = np.random.default_rng(seed).integers(0, 1 << 48, n_strings)
    weights = np.arange(1, n_strings + 1) ** -1.2
    return Population([f"{number:012x}" for number in drawn.tolist()], weights / weights.sum())


def names_in_source(package: str) -> Counter:
    """Names in a package's installed source, cut off after 20 letters, and how often they occur."""
    found: Counter = Counter()
    folder = Path(str(importlib.import_module(package).__file__)).parent
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="ignore").lower()
        found.update(name[:20] for name in re.findall("[a-z_]+", text))
    return found


def letter_frequencies(names: Counter) -> dict[str, int]:
    """How frequent letters are, and the ends of names."""
    found: Counter = Counter(dict.fromkeys([*LETTERS, ""], 1))
    for name, n in names.items():
        for letter in [*name, ""]:
            found[letter] += n
    return dict(found)


# -- recall -----------------------------------------------------------------------------------
def run(oracle: StringOracle, population: Population, counts: np.ndarray) -> dict[str, float]:
    """Collect, search, and return recall by rank, coverage, and the seconds of the search."""
    oracle.fit(population.strings, sample_weight=counts)
    start = time.process_time()
    estimate = oracle.found_
    seconds = time.process_time() - start
    shares = dict(zip(population.strings, (counts / counts.sum()).tolist(), strict=True))
    truth = np.array([shares.get(one, 0.0) for one in estimate.categories])
    best, found = np.argsort(-counts, kind="stable"), set(estimate.categories)
    recalls = {
        f"recall@{k}": sum(population.strings[i] in found for i in best[:k]) / k
        for k in (16, 32, 64)
        if k <= oracle.n_found
    }
    low, high = estimate.confidence_interval(0.95)
    covered = float(np.mean((low[0] <= truth) & (truth <= high[0])))
    return {**recalls, "covered": covered, "CPU s": seconds}


def _row(name: str, populations: list[Population], **given: Any) -> dict[str, Any]:
    runs = []
    for seed, population in enumerate(populations):
        oracle = StringOracle(random_state=seed, **given)
        runs.append(run(oracle, population, population.counts(seed, N_USERS)))
    plan = oracle.plan()
    of_runs = pd.DataFrame(runs)
    parts = f"{'+'.join(map(str, plan.steps))} of GF({plan.hash_range})"
    row = {"strings": name, "n_found": given["n_found"], "parts": parts, **of_runs.mean()}
    row["CPU s"] = of_runs["CPU s"].max()
    print(row, flush=True)
    return row


def random_section(arguments: argparse.Namespace) -> None:
    """Print recall and time for random strings."""
    populations, rows = [random_strings(seed) for seed in range(arguments.repeats)], []
    for epsilon, n_found in ((1.0, 16), (2.0, 16), (2.0, 32), (4.0, 32), (4.0, 64)):
        given = {"epsilon": epsilon, "alphabet": HEX, "max_length": 12, "n_found": n_found}
        rows.append(_row(f"random, epsilon {epsilon:g}", populations, **given))
    print("\n" + pd.DataFrame(rows).round(3).to_string(index=False))


def names_section(arguments: argparse.Namespace) -> None:
    """Print recall and time for names in source code."""
    names = names_in_source("sklearn")
    shares = np.array(list(names.values())) / names.total()
    populations = [Population(list(names), shares)] * arguments.repeats
    public = letter_frequencies(names_in_source("scipy"))
    print(f"{len(names):,} names\n")
    rows = []
    # Without a number of digits, the code has as many as 14 letters need on average.
    plain, short = Domain.strings(LETTERS), Domain.strings(code=public, max_length=14)
    for epsilon, n_found, order, n_digits in (
        (4.0, 32, 29, None),
        (4.0, 32, "auto", None),
        (2.0, 16, 7, 24),
        (2.0, 16, 9, 22),
        (2.0, 16, "auto", 0),
        (3.0, 16, 17, 20),
        (3.0, 16, "auto", 0),
    ):
        coded = Domain.strings(code=public, max_length=20, max_digits=n_digits or None)
        strings: Any = {None: plain, 0: short}.get(n_digits, coded)
        name = f"names, epsilon {epsilon:g}, {'letters' if n_digits is None else 'code'}"
        given = {"epsilon": epsilon, "alphabet": strings, "n_found": n_found}
        rows.append(_row(name, populations, hash_range=order, **given))
    print("\n" + pd.DataFrame(rows).round(3).to_string(index=False))


def languages_section(arguments: argparse.Namespace) -> None:
    """Print the recall of words of languages that the package's code was not made of."""
    if arguments.words is None:
        print("(needs --words PATH)")
        return
    of_language: dict[str, Counter] = {}
    for line in arguments.words.read_text(encoding="utf-8").splitlines():
        language, word, frequency = line.split("\t")
        if len(word) >= 5:
            of_language.setdefault(language, Counter())[word[:12]] += float(frequency)
    public, found = Domain.strings(max_length=12), []
    for (language, words), epsilon in itertools.product(of_language.items(), (2.0, 3.0)):
        population = Population(list(words), np.array(list(words.values())) / words.total())
        own = "".join(sorted({letter for word in words for letter in word}))
        for name, strings in (("its letters", own), ("the package's code", public)):
            given = {"alphabet": strings, "max_length": 12, "n_found": 16}
            for seed in range(arguments.repeats):
                oracle = StringOracle(epsilon, random_state=seed, **given)
                recall = run(oracle, population, population.counts(seed, N_USERS))["recall@16"]
                found.append({"epsilon": epsilon, "language": language, name: recall})
    table = pd.DataFrame(found).groupby(["epsilon", "language"]).mean()
    print(table.round(3).to_string())
    print("\n" + table.groupby("epsilon").mean().round(3).to_string())


# -- a peer -----------------------------------------------------------------------------------
_PEM = """
import random, sys, time
from pure_ldp.heavy_hitters.prefix_extending.pem_client import PEMClient
from pure_ldp.heavy_hitters.prefix_extending.pem_server import PEMServer

n, epsilon, bits, length = int(sys.argv[1]), float(sys.argv[2]), 8, 16
given = dict(epsilon=epsilon, start_length=0, max_string_length=length, fragment_length=bits,
             index_mapper=lambda text: int(text, 2))
server, client = PEMServer(**given), PEMClient(**given)
users = [format(min(int(random.paretovariate(0.2)), 2**length - 1), "016b") for _ in range(n)]
start = time.process_time()
for user in users:
    server.aggregate(client.privatise(user))
server.find_heavy_hitters(k=16)
print(time.process_time() - start)
"""


def peer_rows(peers_python: str) -> list[list[str]]:
    """Return a row for PEM of pure-ldp and for ours: package, task, users, time per user, ratio.

    PEM's server hashes every string of a part's length for each report, 2**48 in the last part of
    our task, so it is timed on strings of 16 bits: a task 2**32 times as small.
    """
    n_users, population = 400, random_strings(0)
    command_line = [peers_python, "-c", _PEM, str(n_users), "4"]
    done = subprocess.run(command_line, capture_output=True, text=True, check=True)
    theirs = float(done.stdout) / n_users
    rows = [["pure-ldp, PEM", "16 bits", f"{n_users}", f"{theirs * 1e6:,.0f} us", "1"]]
    for n in (20_000, N_USERS):
        counts = population.counts(0, n)
        oracle = StringOracle(4.0, alphabet=HEX, max_length=12, n_found=16, expected_n_users=n)
        start = time.process_time()
        oracle.fit(population.strings, sample_weight=counts).estimate_  # noqa: B018
        ours = (time.process_time() - start) / n
        ratio = f"{theirs / ours:,.0f}"
        rows.append(["StringOracle", "48 bits", f"{n:,}", f"{ours * 1e6:,.1f} us", ratio])
    return rows


PEER_HEADER = ["package", "strings", "users", "CPU time per user", "times as fast"]


def peer_section(arguments: argparse.Namespace) -> None:
    """Print the time per user of pure-ldp's PEM and of ours."""
    print(markdown(PEER_HEADER, peer_rows(arguments.peers_python)))


SECTIONS = {
    "random": random_section,
    "names": names_section,
    "languages": languages_section,
    "peer": peer_section,
}

if __name__ == "__main__":
    main()
