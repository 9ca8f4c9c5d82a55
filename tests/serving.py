"""What tests of the server share: one that runs in a process of its own, and posts to it."""

import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

from sklearn_ldp import OLH
from sklearn_ldp.collection import read_reports

COLOURS = ["red", "green", "blue"]
# Reports that nobody else makes: the seed of a hash function is one of 2**63.
ORACLE = OLH(2.0, categories=COLOURS, hash_family="mixing")
OPTIONS = "--epsilon 2 --round may --categories domain.txt --port 0"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def command(folder, *more, oracle=("--oracle", "olh-mixing")):
    (folder / "domain.txt").write_text("\n".join(COLOURS) + "\n")
    options = [*OPTIONS.split(), "--folder", "kept", *oracle, *more]
    return [sys.executable, "-m", "sklearn_ldp", "serve", *options]


STARTED = []  # all processes of servers


def start(folder, *more, **oracle):
    """Start a server in a folder; return its process and its port."""
    process = subprocess.Popen(
        command(folder, *map(str, more), **oracle),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    STARTED.append(process)
    line = process.stdout.readline()
    if "/ asks" not in line:
        raise RuntimeError(f"no server: {line}{process.communicate()[1]}")
    return process, int(line.split("/ asks")[0].rpartition(":")[2])


def end(process, number=signal.SIGINT):
    """End a server; return its exit code and what it has said."""
    if process.poll() is None:
        process.send_signal(number)
    try:
        return process.wait(30), process.communicate()[1]
    finally:
        process.kill()
        process.wait()


@contextmanager
def served(folder, *more):
    process, port = start(folder, *more)
    try:
        yield port
    finally:
        end(process)


def content(reports, nonce=None, **changes):
    """A post of one report, or of several."""
    one = {"configuration": ORACLE.protocol("may").configuration}
    one["nonce"] = nonce or secrets.token_hex(16)
    # Of this oracle, the seeds of reports are texts, as JavaScript would round them.
    rows = [[str(seed), value] for seed, value in reports]
    return {**one, **({"report": rows[0]} if len(rows) == 1 else {"reports": rows}), **changes}


def post(port, body, path="/reports", timeout=20, method="POST", **headers):
    """Return status, headers and body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        body = json.dumps(body) if isinstance(body, dict) else body
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def get(port, path, **headers):
    return post(port, None, path, method="GET", **headers)


def draw(n):
    return ORACLE.privatize(["red"] * n).tolist()


def sealed(folder, oracle=ORACLE):
    """All reports in sealed batches, sorted."""
    paths = folder.glob("*.jsonl")
    batches = [read_reports(path, oracle, collection_round="may").tolist() for path in paths]
    return sorted(one for batch in batches for one in batch)


def patience(check, seconds=20):
    """Wait until something is true."""
    stop = time.monotonic() + seconds
    while not (found := check()) and time.monotonic() < stop:
        time.sleep(0.02)
    return found
