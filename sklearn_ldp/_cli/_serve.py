"""``sklearn-ldp serve``: a web page that asks one question, and a collector behind it

Serve a page on which users answer one question. Their browsers randomise the answers, the reports
are on disk before they are acknowledged, and a second page shows what they tell so far, with
intervals. The folder gets batches that `sklearn-ldp aggregate` counts. The server speaks plain HTTP
on this machine: put a proxy with HTTPS in front of it, which also limits requests. Nonces stop
retries of one report and not voters who vote twice: that is a task of the proxy or of your
application, and sklearn_ldp.robustness tells what it may have done.

Ctrl-C, SIGTERM or SIGHUP ends the server with exit code 130, 143 or 129. It then seals the reports
that it holds if there are --least of them, and otherwise keeps them for the next start. A start
refuses files of .serve that were edited or belong to other options, and names missing ones. A
restored backup of the folder lacks the reports since, and counts those that are sent again. A new
round is another collection and needs a new --folder.

----
examples:
  sklearn-ldp serve --demo
      a poll on this machine, with simulated visitors
  sklearn-ldp serve --oracle olh --categories domain.txt --epsilon 1 --round may --folder reports \\
      --question "Which browser do you use most?"
  sklearn-ldp serve --open --oracle olh --categories names.txt --epsilon 2 --round may \\
      --folder names --question "Which app do you use most?"
"""

from __future__ import annotations

import argparse
import http.client
import json
import secrets
import tempfile
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ._aggregate import Terminated
from ._arguments import add_shared, count, hashing_oracle, make_oracle, read_key, say, seconds
from ._files import read_categories

_STEP = 10  # new reports between two results, at least
_DEMO = ["Chrome", "Safari", "Edge", "Firefox", "another one"]
_VISITORS = (0.5, 0.2, 0.12, 0.1, 0.08)  # a made-up distribution, in their order


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    asked = parser.add_argument_group("question")
    text = "the public domain: one category per line, or a .json file with a list of them"
    asked.add_argument("--categories", type=Path, metavar="FILE", help=text)
    text = "the page takes any text, and this server alone knows the categories (with OLH)"
    asked.add_argument("--open", action="store_true", help=text)
    add_shared(asked, "--epsilon", "--oracle", "--max-items", "--round")
    asked.add_argument("--question", default="", help="what the page asks (default: the round)")
    text = "name of what browsers remember of it (default: the round)"
    asked.add_argument("--question-id", metavar="NAME", help=text)
    asked.add_argument("--demo", action="store_true", help="a poll with simulated visitors")
    kept = parser.add_argument_group("reports")
    text = "where sealed batches go, and in .serve what is not sealed; created if missing"
    kept.add_argument("--folder", type=Path, metavar="FOLDER", help=text)
    text = "seal a batch of this many reports (default: 10000)"
    kept.add_argument("--batch-reports", type=count, default=10_000, metavar="N", help=text)
    text = "or after so many seconds (default: 600)"
    kept.add_argument("--batch-seconds", type=seconds, default=600.0, metavar="S", help=text)
    text = "seal no batch of fewer reports (default: 100)"
    kept.add_argument("--least", type=count, default=100, metavar="N", help=text)
    add_shared(kept, "--key-file")
    web = parser.add_argument_group("web")
    web.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this one)")
    web.add_argument("--port", type=int, default=8000, help="port, or 0 for a free one (8000)")
    text = "a name that clients call it by, such as that of a proxy; may be repeated"
    web.add_argument("--host-name", action="append", default=[], metavar="NAME", help=text)
    text = "an origin whose pages may post, such as https://example.org; may be repeated"
    web.add_argument("--origin", action="append", default=[], metavar="ORIGIN", help=text)
    text = "new reports between two results, at least 10 (default: 50)"
    web.add_argument("--step", type=count, default=50, metavar="N", help=text)
    text = "show results only to those who give this token (?token=... or as a bearer token)"
    web.add_argument("--results-token", default="", metavar="TOKEN", help=text)


def run(arguments: argparse.Namespace) -> None:
    """Serve until a signal ends the command, which then has the exit code of that signal."""
    try:
        from .._serve.app import Question
        from .._serve.server import serve
        from .._serve.store import Rules
    except ImportError as error:
        raise ImportError("serve needs uvicorn: pip install 'sklearn_ldp[serve]'.") from error
    if arguments.step < _STEP:
        raise ValueError(
            f"--step must be at least {_STEP}, got {arguments.step}: the difference of two results "
            "tells about the reports between them."
        )
    if not 0 <= arguments.port < 1 << 16:
        raise ValueError(f"--port must be from 0 to 65535, got {arguments.port}. Choose another.")
    if arguments.demo:
        arguments.question = arguments.question or "Which browser do you use most?"
        arguments.round, folder = arguments.round or "demo", tempfile.mkdtemp(prefix="sklearn-ldp-")
        arguments.folder = arguments.folder or Path(folder)
    if arguments.folder is None or (arguments.categories is None and not arguments.demo):
        raise ValueError("serve needs --categories FILE and --folder FOLDER, or --demo.")
    listed = _DEMO if arguments.categories is None else read_categories(arguments.categories)
    if arguments.open:
        oracle, client = (hashing_oracle(arguments, one) for one in (listed, "open"))
    else:
        oracle = client = make_oracle(arguments, listed, in_browsers=True)
    name = arguments.question_id or arguments.round or "poll"
    text, origins, token = arguments.question or name, arguments.origin, arguments.results_token
    hosts = _names(arguments.host, arguments.host_name)
    question = Question(text, name, tuple(origins), token, hosts)
    numbers = ("batch_reports", "batch_seconds", "least", "step")
    rules = Rules(**{one: getattr(arguments, one) for one in numbers})

    def started(port: int) -> None:
        shown = f"http://{arguments.host}:{port}"
        query = f"?token={token}" if token else ""
        print(f"{shown}/ asks, and {shown}/results{query} shows; Ctrl-C ends", flush=True)
        if arguments.demo:
            visitors = partial(_visit, port, oracle, arguments.round, np.array(listed))
            threading.Thread(target=visitors, daemon=True).start()

    number = serve(
        arguments.folder,
        oracle,
        arguments.round,
        question,
        rules,
        client=client,
        key=read_key(arguments.key_file),
        host=arguments.host,
        port=arguments.port,
        say=say,
        started=started,
    )
    if number:
        raise Terminated(number)


def _names(host: str, given: list[str]) -> tuple[str, ...]:
    """Names that the server answers to: on a loopback address no others, elsewhere all."""
    is_loopback = host in ("localhost", "::1") or host.startswith("127.")
    own = (host, "localhost", "127.0.0.1", "::1") if is_loopback else ()
    return (*own, *(name.lower() for name in given)) if is_loopback or given else ()


def _visit(port: int, oracle: Any, collection_round: str, categories: np.ndarray) -> None:
    """Post reports of simulated visitors: many at first, and then a few each second."""
    protocol = oracle.protocol(collection_round)
    shares = np.resize(_VISITORS, len(categories))
    rng, connection = np.random.default_rng(), http.client.HTTPConnection("127.0.0.1", port)
    for n in [2000, *[10] * 10**6]:
        answers = rng.choice(categories, n, p=shares / shares.sum())
        if protocol.domain.shares_overlap:
            answers = rng.random((n, len(categories))) < shares
        reports = oracle.privatize(answers).tolist()
        for start in range(0, n, 100):
            content = {"configuration": protocol.configuration, "nonce": secrets.token_hex(16)}
            body = json.dumps({**content, "reports": reports[start : start + 100]})
            with suppress(OSError, http.client.HTTPException):
                connection.request("POST", "/reports", body)
                connection.getresponse().read()
        time.sleep(1)
