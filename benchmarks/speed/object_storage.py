"""Counting reports in object storage: ``python -m benchmarks.speed.object_storage``.

Starts an S3 server on this machine (moto, of the extra ``test``) in a process of its own, fills a
bucket with files of reports, and counts them by `aggregate`: from the disk, and from S3 through
fsspec's driver s3fs. The server is written in Python and shares the machine, so the
figures are a lower bound for a real one nearby.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_ldp import OLH
from sklearn_ldp._core.common.text import format_table
from sklearn_ldp.collection import aggregate, write_reports

from .._command import command
from .._timing import seconds

_FORMATS = {"parquet": ".parquet", "arrow": ".arrows"}


@contextmanager
def s3_server() -> Iterator[str]:
    """Run a server until the block ends; its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    server = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def counted(source: Any, oracle: Any, n: int, options: dict[str, Any]) -> None:
    """Count all reports."""
    assert aggregate(source, oracle, **options).n_samples == n


def main() -> None:
    """Print a row for each storage, format and number of files."""
    import fsspec

    parser = command(__doc__, __spec__, repeats=3)
    parser.add_argument("--reports", type=int, default=4_000_000)
    parser.add_argument("--files", type=int, nargs="+", default=[4, 200])
    arguments = parser.parse_args()
    oracle = OLH(1.0, categories=1000)
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    rows = []
    with s3_server() as address, tempfile.TemporaryDirectory() as folder:
        s3 = {"endpoint_url": f"http://{address}"}
        system = fsspec.filesystem("s3", **s3)
        system.mkdir("bucket")
        for form, suffix in _FORMATS.items():
            for n_files in arguments.files:
                n = arguments.reports // n_files
                name, size = f"{form}-{n_files}", 0
                (Path(folder) / name).mkdir()
                for number in range(n_files):
                    path = Path(folder) / name / f"{number:06}{suffix}"
                    reports = oracle.privatize(np.arange(n) % 1000)
                    write_reports(path, reports, oracle, random_state=0)
                    content = path.read_bytes()
                    size += len(content)
                    system.pipe_file(f"bucket/{name}/{path.name}", content)
                sources = {
                    "disk": (Path(folder) / name, {}),
                    "s3:// (s3fs)": (f"s3://bucket/{name}", {"storage_options": s3}),
                }
                for source, (place, options) in sources.items():
                    count = partial(counted, place, oracle, n * n_files, options)
                    took = seconds(count, arguments.repeats)
                    millions, megabytes = n * n_files / 1e6, size / 1e6
                    numbers = [f"{megabytes:.1f}", f"{took:.2f}", f"{millions / took:.1f}"]
                    numbers.append(f"{megabytes / took:.0f}")
                    rows.append([source, form, f"{n_files}", *numbers])
    header = ["storage", "format", "files", "MB", "seconds", "million\nreports/s", "MB/s"]
    print(format_table(header, rows))


if __name__ == "__main__":
    main()
