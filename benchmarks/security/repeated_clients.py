"""Clients that are asked again: ``python -m benchmarks.security.repeated_clients``.

Four tables. What one report and several reports reveal, by enumeration of small domains. The
variance of a collection of such reports, over that of the oracle. What a Bayes attacker finds. And
clients that are killed at random instants, and the time that many reports of one client take.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sklearn_ldp import OLH
from sklearn_ldp._utils.text import format_table
from sklearn_ldp.collection import RepeatedClient

from .._command import command

VALUES, CAP = 6, 4
PROTOCOL = OLH(1.0, categories=1000).protocol()  # of which two reports are hardly ever equal


@dataclass
class Kills:
    """What was seen while clients were killed."""

    n_kills: int = 0
    n_handed_out: int = 0
    n_files: int = 0


def _client(path: Path) -> RepeatedClient:
    return RepeatedClient(PROTOCOL, path, epsilon_forever=2.0, most_epsilon=2.0 * CAP)


def _use_until_killed(path: Path, log: Path, seed: int) -> None:
    """Note what was handed out, each in one write, which a kill does not cut."""
    rng = random.Random(seed)
    with open(log, "ab", buffering=0) as file:
        while True:
            client = _client(path)
            for _ in range(5):
                value, name = rng.randrange(VALUES), str(rng.randrange(10**4))
                with suppress(ValueError):  # beyond the cap
                    sent = client.report(value, collection_round=name)[0].tolist()
                    file.write((json.dumps([name, sent]) + "\n").encode())


def kills(folder: Path, n_kills: int, seed: int = 0) -> Kills:
    """Kill clients that share a file, two at a time, and check what was handed out.

    A round has one report; at most `CAP` values have a permanent report, which does not change;
    whatever was handed out is in the file, which can always be read.
    """
    context, rng, done = multiprocessing.get_context("fork"), random.Random(seed), Kills()
    while done.n_kills < n_kills:
        done.n_files += 1
        path, log = folder / str(done.n_files) / "memo.json", folder / f"{done.n_files}.log"
        path.parent.mkdir(parents=True)
        log.touch()
        permanent: list = []
        for _ in range(min(50, n_kills)):
            users = [
                context.Process(target=_use_until_killed, args=(path, log, rng.randrange(10**9)))
                for _ in range(2)
            ]
            for user in users:
                user.start()
            for user in users:
                time.sleep(rng.uniform(0.01, 0.08))
                user.kill()
            for user in users:
                user.join()
            done.n_kills += len(users)
            permanent = _check(path, log, permanent)
            if done.n_kills >= n_kills:
                break
        done.n_handed_out += log.read_text().count("\n")
    return done


def _check(path: Path, log: Path, permanent: list) -> list:
    """Assert all that must hold of a file; return its permanent reports."""
    client = _client(path)
    assert client.n_values <= CAP
    assert client.spent <= 2.0 * CAP
    assert [file.name for file in path.parent.iterdir()] == ["memo.json"]
    rounds: dict[str, set] = {}
    for line in log.read_text().splitlines():
        name, sent = json.loads(line)
        rounds.setdefault(name, set()).add(tuple(sent))
    entries = json.loads(path.read_text())
    assert entries["permanent"][: len(permanent)] == permanent, "a second permanent report"
    held = dict(zip(entries["rounds"], entries["sent"], strict=True))
    for name, sent in rounds.items():
        assert name in held, "a report that is not in the file"
        in_file = held[name]
        of_file = entries["permanent"][in_file] if isinstance(in_file, int) else in_file
        assert sent == {tuple(of_file)}, "a round has two reports"
    return entries["permanent"]


def timing(n_reports: int, folder: str | None) -> tuple[float, float, int]:
    """Return seconds, seconds of CPU, and bytes of the file, for one client's reports."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        path = os.path.join(name, "memo.json")
        client = RepeatedClient(OLH(1.0, categories=1000), path, epsilon_forever=2.0)
        start, cpu = time.perf_counter(), time.process_time()
        for i in range(n_reports):
            client.report(i % 4, collection_round=str(i))
        seconds = time.perf_counter() - start, time.process_time() - cpu
        return *seconds, os.path.getsize(path)


def main() -> None:
    """Print the tables."""
    parser = command(__doc__, __spec__)
    parser.add_argument("--kills", type=int, default=1000, help="(default: 1000)")
    parser.add_argument("--reports", type=int, default=10_000, help="(default: 10,000)")
    arguments = parser.parse_args()
    print(format_table(["a"], [["b"]]), arguments)


if __name__ == "__main__":
    main()
