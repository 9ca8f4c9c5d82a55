"""The server as a process: codes of bad requests, limits, kills, results, and how it ends."""

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from itertools import compress
from pathlib import Path

import numpy as np
import pytest
from estimators import slow_but
from serving import (
    COLOURS,
    ORACLE,
    command,
    content,
    draw,
    end,
    free_port,
    get,
    patience,
    post,
    sealed,
    served,
    start,
)
from sklearn.base import clone

from sklearn_ldp import GRR, ItemOracle
from sklearn_ldp.__main__ import main
from sklearn_ldp.collection import Aggregator, aggregate

pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The port of a server that tests share, whatever they post to it."""
    options = ["--origin", "https://shop.example", "--host-name", "Poll.example"]
    with served(tmp_path_factory.mktemp("server"), *options, "--question", "Which <b>?") as port:
        yield port


# ---- requests ------------------------------------------------------------------------------------
def test_reports_are_taken_once(server):
    (report,) = draw(1)
    assert [post(server, content([report]))[0] for _ in range(3)] == [204] * 3
    assert post(server, content(draw(5)))[0] == 204
    assert post(server, content(draw(2), version=1))[0] == 204
    assert post(server, content([report]), "/poll/reports")[0] == 204  # below a path of a proxy


def changed(**changes):
    return {**content(draw(1)), **changes}


def reconfigured(**changes):
    return changed(configuration={**changed()["configuration"], **changes})


BAD = {
    "no JSON": (400, "{"),
    "not an object": (400, "[1]"),
    "deep": (400, "[" * 60_000),
    "no nonce": (400, {k: v for k, v in changed().items() if k != "nonce"}),
    "nonce of a UUID": (400, changed(nonce="0" * 8 + "-" + "0" * 4 + "-" * 19)),
    "long nonce": (400, changed(nonce="0" * 33)),
    "nonce in capitals": (400, changed(nonce="A" * 32)),
    "nonce is a number": (400, changed(nonce=5)),
    "other version": (400, changed(version=2)),
    "other entry": (400, changed(user="me")),
    "both": (400, changed(reports=[])),
    "no reports": (400, {k: v for k, v in changed(reports=[]).items() if k != "report"}),
    "a number": (400, changed(report=3)),
    "a float": (400, changed(report=["5", 1.5])),
    "a bool": (400, changed(report=["5", True])),
    "a text": (400, changed(report=["x", 1])),
    "signs": (400, changed(report=["-5", 1])),
    "too large": (400, changed(report=[str(2**63), 1])),
    "too short": (400, changed(report=["5"])),
    "nested": (400, changed(report=[["5"], 1])),
    "no such value": (400, changed(report=["5", 999])),
    "no configuration": (409, changed(configuration=None)),
    "other epsilon": (409, reconfigured(epsilon=1.0)),
    "other round": (409, reconfigured(collection_round="june")),
    "large": (413, " " * (1 << 17)),
}


@pytest.mark.parametrize("name", list(BAD))
def test_malformed_posts_have_their_code(name, server):
    status, body = BAD[name]
    found, headers, text = post(server, body)
    assert found == status
    assert headers["connection"] == "close"
    if name == "other epsilon":
        assert b"epsilon 1.0 instead of 2.0" in text


def test_routes_and_methods(server):
    assert get(server, "/secret")[0] == 404
    assert get(server, "/../../etc/passwd")[0] == 404
    assert get(server, "/reports")[0] == 405
    assert post(server, "x", "/results")[0] == 405
    assert get(server, "/health")[0] == 200
    assert get(server, "/estimate.json?token=any")[0] == 200  # as no token is asked for
    status, headers, _ = post(server, None, "/results", method="HEAD")
    assert status == 200
    assert int(headers["content-length"]) > 100


def test_origins(server):
    """A browser sends the origin of its page; this one or one that was named."""
    body = json.dumps(content(draw(1)))
    assert post(server, body, Origin=f"http://127.0.0.1:{server}")[0] == 204
    assert post(server, body, Origin="https://evil.example")[0] == 403
    for malformed in ("null", "http://[", "http://[::1", "//", "http://\xff["):
        assert post(server, body, Origin=malformed)[0] == 403
    status, headers, _ = post(server, body, Origin="https://shop.example")
    assert (status, headers["access-control-allow-origin"]) == (204, "https://shop.example")
    status, headers, _ = post(server, None, method="OPTIONS", Origin="https://shop.example")
    assert status == 204
    assert headers["access-control-allow-headers"] == "content-type"
    assert "access-control-allow-origin" not in get(server, "/")[1]


def test_other_names_are_not_served(server):
    """A page that binds its own name to the loopback address reads nothing, not even results."""
    for name in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::1", ""):
        assert get(server, "/estimate.json", host=name)[0] == 421
        assert post(server, content(draw(1)), host=name)[0] == 421
    for name in ("localhost", "LOCALHOST:1234", "127.0.0.1", "[::1]:80", "poll.example"):
        assert get(server, "/estimate.json", host=name)[0] == 200


def test_a_body_has_each_name_once_and_is_utf_8(server):
    body = json.dumps(content(draw(1)))
    twice = body[:-1] + ', "nonce": "' + "0" * 32 + '"}'
    for malformed in (twice, body.encode("utf-16"), body.encode("utf-16-le"), b"\xff"):
        status, _, said = post(server, malformed)
        assert (status, said[:8]) == (400, b"Expected")
    assert post(server, body.encode())[0] == 204


def test_pages_say_what_they_must(server):
    status, headers, page = get(server, "/")
    assert status == 200
    assert "default-src 'self'" in headers["content-security-policy"]
    assert b"Which &lt;b&gt;?" in page
    assert b"Each report is at most 7.39 times as likely" in page
    for path in ("/client.mjs", "/poll.mjs", "/style.css"):
        kind = "text/css" if path == "/style.css" else "text/javascript"
        assert get(server, path)[1]["content-type"].startswith(kind)
    assert b"does not keep their order of arrival" in get(server, "/results")[2]
    for path in ("/", "/results"):
        text = get(server, path)[2].decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|style=|<script>", text)


def resident(process):
    with open(f"/proc/{process}/status") as file:
        return int(file.read().partition("VmRSS:")[2].split()[0]) / 1024


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")


def raw(port, *pieces, pause=0.0, seconds=20):
    """Send bytes; return what came back until the connection was closed, and after how long."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as one:
        received = b""
        try:
            for piece in pieces:
                one.sendall(piece)
                time.sleep(pause)
            while chunk := one.recv(1 << 16):
                received += chunk
        except ConnectionError:
            pass
        return received, time.monotonic() - began


HEAD = b"POST /reports HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("pieces", "code"),
    [
        ([HEAD + b"Content-Length: -1\r\n\r\n"], b"400"),
        ([HEAD + b"Content-Length: x\r\n\r\n"], b"400"),
        ([HEAD + b"Content-Length: 99999999999\r\n\r\n"], b"413"),
        ([HEAD + b"Content-Length: 65536\r\n\r\n" + b"x" * 65536], b"400"),
        ([HEAD + b"Content-Length: 65537\r\n\r\n"], b"413"),
        ([HEAD + CHUNKED, b"ffff\r\n" + b"x" * 65535 + b"\r\n", b"9\r\nxx"], b"413"),
        ([b"\x16\x03\x01\x02\x00\x01"], b"400"),
        ([b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 9000], b"400"),
    ],
)
def test_requests_that_are_none(pieces, code, server):
    answer, _ = raw(server, *pieces)
    assert answer.split()[1] == code


@pytest.mark.slow
@needs_proc
def test_silent_slow_and_endless_connections_are_closed(tmp_path):
    """Within 6 seconds (and some, for a machine that is busy), and without memory."""
    process, port = start(tmp_path)
    try:
        post(port, content(draw(1)))
        before = resident(process.pid)
        for pieces, pause, code in (
            ([], 0, b""),
            ([b"POST /rep"], 0, b""),
            ([b"GET / HTTP/1.1\r\n", *[b"x: y\r\n"] * 40], 0.5, b""),
            ([HEAD + b"Content-Length: 100\r\n\r\n{"], 0, b"408"),
            ([HEAD + b"Content-Length: 1000\r\n\r\n", *[b"x"] * 8], 0.5, b"408"),
        ):
            began = time.monotonic()
            answer, _ = raw(port, *pieces, pause=pause)
            assert time.monotonic() - began < 30
            assert code in answer[:20]
        # Time is asserted only where nothing is sent, and so nothing waits for this process.
        _, seconds = raw(port)
        assert 4 < seconds < 8
        chunk = b"ffff\r\n" + b"x" * 65535 + b"\r\n"
        raw(port, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 2000)
        raw(port, b"GET / HTTP/1.1\r\nx: ", *[b"y" * 65536] * 2000)
        assert resident(process.pid) - before < 10
        assert post(port, content(draw(1)))[0] == 204
    finally:
        assert "Traceback" not in end(process)[1]


@pytest.mark.slow
def test_idle_connections_do_not_stop_the_service(tmp_path):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2200:
        pytest.skip(f"the system allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2200, hard))
    try:
        with served(tmp_path) as port:
            idle = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(2000)]
            assert post(port, content(draw(1)))[0] == 204
            for one in idle:
                one.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---- results -------------------------------------------------------------------------------------
def estimate(port, **headers):
    return json.loads(get(port, "/estimate.json", **headers)[2])


@pytest.mark.slow
def test_results_change_by_steps_and_outlive_a_start(tmp_path):
    with served(tmp_path, "--step", 20, "--least", 1) as port:
        post(port, content(draw(19)))
        assert estimate(port) == {"n_samples": 0, "rows": []}
        post(port, content(draw(31)))
        shown = estimate(port)
        assert shown["n_samples"] == 40
    rows = shown["rows"]
    assert [row["category"] for row in rows] == COLOURS
    assert sum(row["frequency"] for row in rows) == pytest.approx(1)
    with served(tmp_path, "--step", 20, "--least", 1) as port:
        assert estimate(port) == shown
        post(port, content(draw(19)))
        assert estimate(port) == shown
        post(port, content(draw(1)))
        assert estimate(port)["n_samples"] == 70
        assert b"<svg" in get(port, "/results")[2]


@pytest.mark.parametrize("more", slow_but([[]], [[], ["--open"]]), ids=["listed", "open"])
def test_sets_are_counted_and_shown(more, tmp_path, monkeypatch, capsys):
    """Shares that do not sum to 1; off by .1, at least five standard errors, by chance never.

    A signal ends the server, which seals what it holds.
    """
    client = ItemOracle(2.0, categories="open" if more else COLOURS, max_items=3)
    shares, rng, posts = np.array([0.8, 0.7, 0.2]), np.random.default_rng(0), 20
    head = {"configuration": client.protocol("may").configuration}
    process, port = start(tmp_path, *more, "--max-items", 3, oracle=())
    try:
        for _ in range(posts):
            sets = [[*compress(COLOURS, row)] for row in rng.random((500, 3)) < shares]
            reports = [[str(x) for x in row] for row in client.privatize(sets).tolist()]
            body = {**head, "nonce": secrets.token_hex(16), "reports": reports}
            assert post(port, body)[0] == post(port, body)[0] == 204  # again, which does not count
        assert post(port, {**body, "reports": [1], "nonce": "0" * 32})[0] == 400
        found = estimate(port)
        page = get(port, "/results")[2]
    finally:
        assert end(process, signal.SIGTERM)[0] == 128 + signal.SIGTERM
    assert found["n_samples"] == 500 * posts
    assert [row["frequency"] for row in found["rows"]] == pytest.approx(shares, abs=0.1)
    assert b"<svg" in page
    monkeypatch.chdir(tmp_path)
    count = ["aggregate", "kept", "--categories", "domain.txt", "--checkpoint", "state.npz"]
    assert main(count) == 0
    assert "reports: 10000" in capsys.readouterr().out
    oracle = clone(client).set_params(categories=COLOURS, method="hash" if more else "auto")
    counted = Aggregator.load("state.npz", oracle, collection_round="may")
    assert np.asarray(counted.estimate_)[0] == pytest.approx(shares, abs=0.1)


def test_junk_is_told(server):
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = rng.integers(0, 8, 50).tolist()
        rows = [[int(rng.integers(2**63)), value] for value in values]
        assert post(server, content(rows))[0] == 204
    assert b"Reports do not look honest" in get(server, "/results")[2]


@pytest.mark.slow
def test_a_token_guards_the_results(tmp_path):
    with served(tmp_path, "--results-token", "s3cret") as port:
        for path in ("/results", "/estimate.json"):
            assert get(port, path)[0] == 403
            assert get(port, f"{path}?token=other")[0] == 403
            assert get(port, f"{path}?token=s3cret")[0] == 200
            assert get(port, path, Authorization="Bearer s3cret")[0] == 200
        assert b'href="results"' not in get(port, "/")[2]


def test_pipelined_posts_are_answered_in_their_order(server):
    one, other = (json.dumps(content(draw(1))).encode() for _ in range(2))
    lines = [HEAD + b"Content-Length: %d\r\n\r\n" % len(x) + x for x in (one, other, b"{")]
    answer, _ = raw(server, b"".join(lines))
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"204", b"204", b"400"]


# ---- its life ------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_seals_what_is_held(name, tmp_path):
    """The exit codes are those of every command: 130, 143 and 129."""
    number = getattr(signal, name)
    if name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("nohup runs the tests, and a server that it runs ignores SIGHUP")
    process, port = start(tmp_path, "--least", 30)
    post(port, content(draw(20)))
    code, said = end(process, number)
    assert code == 128 + number
    assert "20 reports are held for the next start, because --least is 30" in said
    assert "a million reports need about 30 MB" in said
    process, port = start(tmp_path, "--least", 30)
    post(port, content(draw(20)))
    code, said = end(process, number)
    assert code == 128 + number
    assert "the last 40 reports are sealed" in said
    assert len(sealed(tmp_path / "kept")) == 40
    assert {path.name for path in tmp_path.iterdir()} == {"domain.txt", "kept"}


GIVEN = "--categories domain.txt --folder kept"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ("--step 5", "--step must be at least 10, got 5"),
        (
            f"{GIVEN} --max-items 2 --oracle olh",
            "--oracle cannot be combined with --max-items",
        ),
        ("--port 70000", "--port must be from 0 to 65535, got 70000. Pass another port."),
        ("--port -1", "--port must be from 0 to 65535, got -1. Pass another port."),
        ("--folder x", "needs either --categories FILE and --folder FOLDER"),
        (f"{GIVEN} --oracle projective-geometry-response", "There is no client outside Python for"),
        (f"{GIVEN} --open --oracle grr", "--open works only with --oracle olh, got --oracle grr"),
        ("--categories none.txt --folder kept", "none.txt: No such file"),
    ],
)
def test_options_that_do_not_fit(options, match, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.txt").write_text("a\nb\n")
    assert main(["serve", *options.split()]) == 1
    assert match in capsys.readouterr().err


def test_a_folder_that_does_not_fit_is_refused_in_one_line(tmp_path, monkeypatch, capsys):
    """A folder of a release candidate, whose tags alone do not show what they are of."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.txt").write_text("red\ngreen\nblue\ngrey\n")
    kept = tmp_path / "kept" / ".serve"
    shutil.copytree(Path(__file__).parents[1] / "data" / "served_version_1", kept)
    options = f"{GIVEN} --port 0 --oracle grr --round 2026-11 --epsilon".split()
    assert main(["serve", *options, "1"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "is of another collection: epsilon 2.0 instead of 1.0. Pass another --folder" in line
    (kept / "salt").write_bytes(b"")
    assert main(["serve", *options, "2"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "salt must have 32 bytes, got 0" in line


def test_a_port_in_use_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.txt").write_text("a\nb\n")
    with socket.create_server(("127.0.0.1", 0)) as one:
        options = f"--categories domain.txt --folder kept --port {one.getsockname()[1]}"
        assert main(["serve", *options.split()]) == 1
    assert "in use" in capsys.readouterr().err


@pytest.mark.slow
def test_aggregate_counts_and_says_what_is_held(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    count = ["aggregate", "kept", "--categories", "domain.txt", "--checkpoint", "state.npz"]
    with served(tmp_path, "--batch-reports", 50) as port:
        post(port, content(draw(30)))
        assert main(count) == 1
        told = "kept: no batch is sealed yet. 30 reports are held, and sealed at 50"
        assert told in capsys.readouterr().err
        post(port, content(draw(30)))
        assert patience(lambda: list((tmp_path / "kept").glob("*.jsonl")))
        assert main(count) == 0
        assert "reports: 50" in capsys.readouterr().out
    assert main(count) == 0


@pytest.mark.slow
def test_batches_of_a_bot_are_skipped_with_a_note(tmp_path, monkeypatch, capsys):
    """Whoever posts the same report again and again makes equal batches, which stop no count."""
    monkeypatch.chdir(tmp_path)
    oracle = GRR(1.0, categories=COLOURS)
    process, port = start(tmp_path, "--oracle", "grr", "--epsilon", "1", "--batch-reports", 300)
    try:
        body = {"configuration": oracle.protocol("may").configuration, "reports": [1] * 100}
        for _ in range(7):
            assert post(port, {**body, "nonce": secrets.token_hex(16)})[0] == 204
        assert post(port, {**body, "nonce": secrets.token_hex(16), "reports": [0] * 200})[0] == 204
    finally:
        end(process)
    count = ["aggregate", "kept", "--categories", "domain.txt", "--checkpoint", "state.npz"]
    assert main(count) == 0
    out, err = capsys.readouterr()
    assert "reports: 600" in out
    assert "skipped" in err


@pytest.mark.slow
def test_a_demo_shows_results_at_once(tmp_path):
    argv = [*command(tmp_path)[:4], "--demo", "--port", "0"]
    process = subprocess.Popen(
        argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        shown = re.findall(r"http://127.0.0.1:(\d+)/", process.stdout.readline())
        assert len(shown) == 2
        assert patience(lambda: b"<svg" in get(int(shown[0]), "/results")[2], 30)
    finally:
        end(process)


# ---- kills ---------------------------------------------------------------------------------------
def killed(folder, n, seed):
    """Post with retries to a server that is killed again and again; compare report by report."""
    rng = np.random.default_rng(seed)
    port, sent, taken, stop = free_port(), [], [], threading.Event()

    def visit():
        while not stop.is_set():
            reports = draw(int(rng.integers(1, 4)))
            sent.extend(reports)
            body = content(reports)
            while True:  # also after the last kill, until it is taken
                try:
                    status = post(port, body, timeout=5)[0]
                except (OSError, Exception):
                    status = 0
                if status == 204:
                    taken.extend(reports)
                    break
                time.sleep(0.02)

    options = ["--batch-reports", 200, "--least", 1]
    visitors = [threading.Thread(target=visit) for _ in range(8)]
    process = None
    for i in range(n + 1):
        process, _ = start(folder, *options, "--port", port)
        if i == 0:
            for visitor in visitors:
                visitor.start()
        if i < n:
            time.sleep(float(rng.uniform(0.05, 0.5)))
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()
    stop.set()
    for visitor in visitors:
        visitor.join(60)
    code, said = end(process)
    assert code == 128 + signal.SIGINT, said
    assert len(taken) == len(sent)
    return sorted(taken), sealed(folder / "kept")


@pytest.mark.slow
def test_kills_lose_nothing_and_double_nothing(tmp_path, seed):
    taken, found = killed(tmp_path, int(os.environ.get("SKLEARN_LDP_KILLS", "10")), seed)
    assert len(taken) > 100
    assert found == taken


@pytest.mark.slow
@needs_proc
def test_a_million_reports_are_started_with_quickly(tmp_path):
    """Memory: 60 MB above that of an import of scikit-learn, and 16 bytes for a report."""
    from sklearn_ldp._serve.store import Post, Rules, Store

    done = []
    store = Store(tmp_path / "kept", ORACLE, "may", Rules(), done.extend)
    store.open()
    reports = draw(10_000)
    for i in range(10_000):  # 100 reports a post
        start_at = 100 * i % 10_000
        store.submit(Post(secrets.token_bytes(16), reports[start_at : start_at + 100], i))
        if store.n_waiting > 1000:
            time.sleep(0.01)
    assert patience(lambda: len(done) == 10_000, 300)
    store.close()
    began = time.process_time()
    again = Store(tmp_path / "kept", ORACLE, "may", Rules(), done.extend)
    again.open()
    assert time.process_time() - began < 2
    assert again.counts.n_samples == 1_000_000
    again.close()
    code = "import sklearn.pipeline; print(open('/proc/self/status').read())"
    base = subprocess.run([command(tmp_path)[0], "-c", code], capture_output=True, text=True).stdout
    process, port = start(tmp_path)
    try:
        post(port, content(draw(100)))
        above = resident(process.pid) - int(base.partition("VmRSS:")[2].split()[0]) / 1024
        print(f"{above:.0f} MB above")
        assert above < 60 + 16
    finally:
        end(process)
    server = aggregate(tmp_path / "kept", ORACLE, collection_round="may", on_refusal="skip")
    assert server.n_samples >= 1_000_000
