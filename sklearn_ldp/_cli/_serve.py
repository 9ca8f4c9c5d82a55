"""``sklearn-ldp serve``: a web page with one question, and the server that collects its reports.

Serve a page on which users answer one question. Their browsers randomize the answers, and reports
are on disk before they are acknowledged. A second page shows the estimate so far, with intervals.
The folder receives batches that `sklearn-ldp aggregate` counts. The server uses plain HTTP on this
machine; put a proxy with HTTPS in front of it, which also limits requests. Nonces prevent that a
report counts twice if it is sent again. They do not prevent users from answering twice, which the
proxy or your application must do; sklearn_ldp.robustness computes the possible damage.

Ctrl-C, SIGTERM or SIGHUP ends the server with exit code 130, 143 or 129. The server then seals the
reports that it holds if there are at least --least reports; otherwise it keeps them for the next
start. A start refuses files of .serve that were edited or belong to other options, and names
missing files. A restored backup of the folder lacks the reports since the backup; if they are sent
again, they count. A new round is another collection and needs a new --folder.

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

_STEP = 10  # minimum number of new reports between two results
_DEMO = ["Chrome", "Safari", "Edge", "Firefox", "another one"]
_VISITORS = (0.5, 0.2, 0.12, 0.1, 0.08)  # a fictitious distribution, in the order of _DEMO


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command ``serve`` to its parser."""
    question = parser.add_argument_group("question")
    text = "the public domain: one category per line, or a .json file with a list of categories"
    question.add_argument("--categories", type=Path, metavar="FILE", help=text)
    text = "the page accepts any text, and only this server has the list of categories (with OLH)"
    question.add_argument("--open", action="store_true", help=text)
    add_shared(question, "--epsilon", "--oracle", "--max-items", "--round")
    text = "the question on the page (default: the round)"
    question.add_argument("--question", default="", help=text)
    text = "name under which browsers store their report (default: the round)"
    question.add_argument("--question-id", metavar="NAME", help=text)
    question.add_argument("--demo", action="store_true", help="a poll with simulated visitors")
    reports = parser.add_argument_group("reports")
    text = "folder of sealed batches, and of unsealed reports in .serve; created if missing"
    reports.add_argument("--folder", type=Path, metavar="FOLDER", help=text)
    text = "seal a batch of this many reports (default: 10000)"
    reports.add_argument("--batch-reports", type=count, default=10_000, metavar="N", help=text)
    text = "or after this many seconds (default: 600)"
    reports.add_argument("--batch-seconds", type=seconds, default=600.0, metavar="S", help=text)
    text = "do not seal a batch of fewer reports (default: 100)"
    reports.add_argument("--least", type=count, default=100, metavar="N", help=text)
    add_shared(reports, "--key-file")
    web = parser.add_argument_group("web")
    web.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)"
    )
    web.add_argument("--port", type=int, default=8000, help="port, or 0 for a free one (8000)")
    text = "a name of the server for its clients, such as the name of a proxy; may be repeated"
    web.add_argument("--host-name", action="append", default=[], metavar="NAME", help=text)
    text = "an origin whose pages may post, such as https://example.org; may be repeated"
    web.add_argument("--origin", action="append", default=[], metavar="ORIGIN", help=text)
    text = "new reports between two results, at least 10 (default: 50)"
    web.add_argument("--step", type=count, default=50, metavar="N", help=text)
    text = "show results only with this token (?token=... or as a bearer token)"
    web.add_argument("--results-token", default="", metavar="TOKEN", help=text)


def run(arguments: argparse.Namespace) -> None:
    """Run the server until a signal ends it. The exit code contains the number of the signal."""
    try:
        from .._serve.app import Question
        from .._serve.server import serve
        from .._serve.store import Rules
    except ImportError as error:
        raise ImportError(
            "The command 'serve' needs uvicorn. Run pip install 'sklearn_ldp[serve]'."
        ) from error
    if arguments.step < _STEP:
        raise ValueError(
            f"--step must be at least {_STEP}, got {arguments.step}, because the difference of "
            "two results reveals information about the reports between them. Pass a larger "
            "number."
        )
    if not 0 <= arguments.port < 1 << 16:
        raise ValueError(
            f"--port must be from 0 to 65535, got {arguments.port}. Pass another port."
        )
    if arguments.demo:
        arguments.question = arguments.question or "Which browser do you use most?"
        arguments.round = arguments.round or "demo"
        arguments.folder = arguments.folder or Path(tempfile.mkdtemp(prefix="sklearn-ldp-"))
    if arguments.folder is None or (arguments.categories is None and not arguments.demo):
        raise ValueError(
            "The command 'serve' needs either --categories FILE and --folder FOLDER, or --demo. "
            "Pass these options."
        )
    categories = _DEMO if arguments.categories is None else read_categories(arguments.categories)
    if arguments.open:
        oracle = hashing_oracle(arguments, categories)
        client = hashing_oracle(arguments, "open")
    else:
        oracle = client = make_oracle(arguments, categories, in_browsers=True)
    name = arguments.question_id or arguments.round or "poll"
    token = arguments.results_token
    question = Question(
        text=arguments.question or name,
        name=name,
        origins=tuple(arguments.origin),
        token=token,
        hosts=_names(arguments.host, arguments.host_name),
    )
    rules = Rules(
        batch_reports=arguments.batch_reports,
        batch_seconds=arguments.batch_seconds,
        least=arguments.least,
        step=arguments.step,
    )

    def started(port: int) -> None:
        address = f"http://{arguments.host}:{port}"
        query = f"?token={token}" if token else ""
        print(f"{address}/ asks, and {address}/results{query} shows; Ctrl-C ends", flush=True)
        if arguments.demo:
            visitors = partial(_visit, port, oracle, arguments.round, np.array(categories))
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


def _names(host: str, host_names: list[str]) -> tuple[str, ...]:
    """Return the host names under which the server accepts requests.

    An empty tuple means all names.
    """
    # On a loopback address the server answers only to its own names.
    is_loopback = host in ("localhost", "::1") or host.startswith("127.")
    own = (host, "localhost", "127.0.0.1", "::1") if is_loopback else ()
    return (*own, *(name.lower() for name in host_names)) if is_loopback or host_names else ()


def _visit(port: int, oracle: Any, collection_round: str, categories: np.ndarray) -> None:
    """Post reports of simulated visitors to the server.

    There are 2,000 at first, and then ten each second.
    """
    protocol = oracle.protocol(collection_round)
    shares = np.resize(_VISITORS, len(categories))
    rng = np.random.default_rng()
    connection = http.client.HTTPConnection("127.0.0.1", port)
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
