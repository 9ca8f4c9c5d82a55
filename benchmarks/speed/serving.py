"""Posts per second of `sklearn-ldp serve` and of the first collector in the guide.

The two servers are measured one after the other. Each server has its own process, which is bound to
one core, and uses GRR with three categories. The client is bound to a second core. The program
prints the posts per second, the posts per second of the server's CPU time (which depend less on
other processes), the 50th and 99th percentiles of the time to an answer, and the memory of the
server minus the memory after ``import sklearn.pipeline``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from sklearn_ldp import GRR

from .._command import command
from .._timing import mebibytes

GUIDE_NAME = "guide of 4ce34d2"
CATEGORIES = ["chrome", "edge", "firefox"]
ROOT = Path(__file__).parents[2]
# The collector of the guide at 4ce34d2: a thread for each connection, one line for each report.
GUIDE = """
import random, secrets, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from sklearn_ldp import GRR
from sklearn_ldp.collection import RefusedBatchError, read_reports
protocol = GRR(1.0, categories=["chrome", "edge", "firefox"]).protocol("may")
class Collector(BaseHTTPRequestHandler):
    held, lock, folder, batch = [], Lock(), Path("reports"), 1000
    def do_POST(self):
        size = int(self.headers.get("Content-Length", 0))
        line = self.rfile.read(min(size, 1 << 16)).strip()
        try:
            is_one = b"\\n" not in line and len(read_reports(line, protocol, format="jsonl")) == 1
        except RefusedBatchError:
            is_one = False
        self.send_response(204 if is_one else 400)
        self.end_headers()
        with self.lock:
            self.held.extend([line] * is_one)
            if len(self.held) >= self.batch:
                random.SystemRandom().shuffle(self.held)
                self.folder.mkdir(exist_ok=True)
                file = self.folder / f"{secrets.token_hex(8)}.jsonl"
                file.write_bytes(b"\\n".join(self.held) + b"\\n")
                self.held.clear()
    def log_message(self, *args):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
print(server.server_port, flush=True)
server.serve_forever()
"""


def start(argv: list[str], folder: Path, core: int) -> tuple[subprocess.Popen, int]:
    """Start a server on one core, and return it with its port."""
    process = subprocess.Popen(
        [sys.executable, *argv],
        stdout=subprocess.PIPE,
        stderr=None,
        text=True,
        cwd=folder,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
    )
    line = process.stdout.readline()
    return process, int(line.split("/ asks")[0].rpartition(":")[2])


def cpu_seconds(process: int) -> float:
    """CPU time that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def load(
    port: int, seconds: float, n_connections: int, has_nonce: bool, keeps: bool
) -> tuple[float, list[float]]:
    """Post again and again over some connections; return posts a second and all latencies."""
    configuration = GRR(1.0, categories=CATEGORIES).protocol("may").configuration
    times: list[float] = []
    stop = time.perf_counter() + seconds

    async def one() -> None:
        writer = None
        while time.perf_counter() < stop:
            content = {"configuration": configuration, "report": 1}
            content |= {"nonce": secrets.token_hex(16)} if has_nonce else {}
            body = json.dumps(content).encode()
            began = time.perf_counter()
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"POST /reports HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            head += f"Content-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            status = await reader.readline()
            assert b" 204 " in status, status
            while (await reader.readline()).strip():
                pass
            times.append(time.perf_counter() - began)
            if not keeps:
                writer.close()
                writer = None

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(n_connections)))
    return len(times) / (time.perf_counter() - began), times


def main() -> None:
    """Run it."""
    parser: argparse.ArgumentParser = command(__doc__ or "", __spec__, repeats=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load (default: 5)")
    parser.add_argument("--connections", type=int, default=64, help="at once (default: 64)")
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    code = "import sklearn.pipeline; print(open('/proc/self/status').read())"
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    base = int(text.partition("VmRSS:")[2].split()[0]) / 1024
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "domain.txt").write_text("\n".join(CATEGORIES) + "\n")
        (folder / "guide.py").write_text(GUIDE)
        options = "--oracle grr --categories domain.txt --round may --port 0 --folder kept"
        serve = ["-m", "sklearn_ldp", "serve", *options.split(), "--batch-seconds", "1000000"]
        for _ in range(arguments.repeats):
            for what, argv, keeps in (
                (GUIDE_NAME, ["guide.py"], False),
                ("serve, a connection a post", serve, False),
                ("serve", serve, True),
            ):
                process, port = start(argv, folder, cores[0])
                load_of = arguments.seconds, arguments.connections
                before = cpu_seconds(process.pid)
                rate, times = asyncio.run(load(port, *load_of, what != GUIDE_NAME, keeps))
                of_cpu = len(times) / (cpu_seconds(process.pid) - before)
                found.setdefault(what, []).append(of_cpu)
                p50, p99 = (1000 * float(np.quantile(times, q)) for q in (0.5, 0.99))
                above = mebibytes("VmRSS", process.pid) - base
                speed = f"{rate:7,.0f} posts/s, {of_cpu:7,.0f} posts/CPU s"
                waits = f"p50 {p50:5.1f} ms, p99 {p99:5.1f} ms"
                print(f"{what:28} {speed}, {waits}, {above:5.1f} MB", flush=True)
                process.send_signal(signal.SIGINT)
                process.wait(20)
    medians = {what: statistics.median(rates) for what, rates in found.items()}
    for what, median in medians.items():
        print(f"{what:28} {median / medians[GUIDE_NAME]:.2f} times the posts of a CPU second")


if __name__ == "__main__":
    main()
