"""The pages in a real browser, and behind a real proxy; skipped with the reason where they lack."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from serving import content, draw, end, free_port, patience, post, start

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
NGINX = shutil.which("nginx")
PICTURES = os.environ.get("SKLEARN_LDP_PICTURES")  # a folder, to look at the pages
ROOT = Path(__file__).parents[2]


class Browser:
    """Chromium without a window, which is told what to do through two pipes."""

    def __init__(self, profile):
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4.
        script = f'exec 3<&{to_read} 4>&{to_write}; exec "$@"'
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        argv = [CHROMIUM, *flags, f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", *argv],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._n, self._buffer, self.events, self.session = 0, b"", [], None
        pages = patience(lambda: [t for t in self.targets() if t["type"] == "page"])
        found = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)
        self.session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def targets(self):
        return self.call("Target.getTargets")["targetInfos"]

    def call(self, method, **params):
        self._n += 1
        message = {"id": self._n, "method": method, "params": params}
        message |= {"sessionId": self.session} if self.session else {}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._buffer:
                chunk = os.read(self._in, 1 << 16)
                if not chunk:
                    raise RuntimeError("the browser has ended")
                self._buffer += chunk
            one, _, self._buffer = self._buffer.partition(b"\0")
            answer = json.loads(one)
            if answer.get("id") == self._n:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def open(self, url, width=1400):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url=url)
        patience(lambda: self.js("document.readyState") == "complete")

    def js(self, expression):
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    def complaints(self):
        """Errors of scripts, and what the console says but for a server that is down."""
        self.js("1")
        found = []
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(event["params"]["exceptionDetails"])[:300])
            if event.get("method") == "Log.entryAdded":
                text = event["params"]["entry"]["text"]
                found += [text] * ("ERR_CONNECTION" not in text and "ERR_EMPTY" not in text)
            if event.get("method") == "Runtime.consoleAPICalled":
                found.append(str(event["params"])[:300])
        return found

    def look(self, name):
        if PICTURES:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            found = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
            Path(PICTURES, f"{name}.png").write_bytes(base64.b64decode(found["data"]))

    def end(self):
        self.process.terminate()
        self.process.wait(20)
        os.close(self._out)
        os.close(self._in)


@pytest.fixture
def browser():
    if CHROMIUM is None:
        pytest.skip("needs Chromium or Chrome")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        one = Browser(profile)
        yield one
        one.end()


def said(browser):
    return browser.js("document.getElementById('said').textContent")


def answer(browser, place=0):
    assert patience(lambda: browser.js("document.querySelectorAll('label').length"))
    browser.js(f"document.querySelectorAll('input')[{place}].click()")
    browser.js("document.getElementById('send').click()")


def test_an_answer_while_the_server_is_down_counts_once(browser, tmp_path):
    """It is kept, sent again by itself, and after a reload the page says that it has answered."""
    port = free_port()
    options = ["--port", port, "--least", 1, "--question", "Which colour?"]
    process, _ = start(tmp_path, *options)
    browser.open(f"http://127.0.0.1:{port}/")
    end(process)
    answer(browser)
    assert patience(lambda: "cannot be reached" in said(browser))
    browser.js("document.getElementById('send').click()")  # again, which does nothing
    process, _ = start(tmp_path, *options)
    assert patience(lambda: "has answered" in said(browser), 60)
    assert "The report: [" in browser.js("document.getElementById('leaves').textContent")
    browser.open(f"http://127.0.0.1:{port}/")
    assert patience(lambda: "has answered" in said(browser))
    assert browser.js("document.getElementById('form').hidden")
    code, text = end(process)
    assert (code, "the last 1 reports are sealed" in text) == (130, True)
    assert browser.complaints() == []


def test_a_report_that_was_kept_goes_out_with_the_next_page(browser, tmp_path):
    """With the same nonce, although the first answer of the server was lost."""
    port = free_port()
    options = ["--port", port, "--least", 1]
    process, _ = start(tmp_path, *options)
    browser.open(f"http://127.0.0.1:{port}/")
    browser.js("globalThis.fetch = () => fetch2().then(() => { throw new TypeError('lost'); });")
    # The request arrives, and the answer does not.
    browser.js(
        "globalThis.fetch2 = () => new Promise((done) => { const x = new XMLHttpRequest();"
        "x.open('POST', 'reports'); x.onload = done;"
        "x.send(JSON.parse(localStorage.getItem('sklearn_ldp poll may')).body); });"
    )
    answer(browser, 1)
    assert patience(lambda: "cannot be reached" in said(browser))
    browser.open(f"http://127.0.0.1:{port}/")
    assert patience(lambda: "has answered" in said(browser))
    assert "the last 1 reports are sealed" in end(process)[1]


def test_pages_in_both_widths(browser, tmp_path):
    process, port = start(tmp_path, "--question", "Which colour do you like?")
    try:
        post(port, content(draw(400)))
        post(port, content(draw(300)))
        for width in (1400, 400):
            for name in ("", "results"):
                browser.open(f"http://127.0.0.1:{port}/{name}", width)
                assert patience(lambda: browser.js("document.querySelector('h1') !== null"))
                browser.look(f"{name or 'poll'}-{width}")
                assert browser.js("document.documentElement.scrollWidth") <= width
        assert browser.js("document.querySelectorAll('rect').length") == 3
        assert browser.js("getComputedStyle(document.querySelector('dl')).display") == "grid"
        assert browser.complaints() == []
    finally:
        end(process)


def test_open_answers_and_refusals(browser, tmp_path):
    """Text that nobody has listed; and a server of another configuration says that at once."""
    process, port = start(tmp_path, "--open", "--oracle", "olh", "--least", 1)
    browser.open(f"http://127.0.0.1:{port}/")
    assert patience(lambda: browser.js("document.querySelectorAll('label').length")) == 1
    browser.js("document.querySelector('input').value = 'mauve'")
    browser.js("document.getElementById('send').click()")
    assert patience(lambda: "has answered" in said(browser))
    browser.js("localStorage.clear()")
    browser.open(f"http://127.0.0.1:{port}/")
    assert "the last 1 reports are sealed" in end(process)[1]
    other = ["--port", port, "--folder", "other", "--epsilon", "1"]
    process, _ = start(tmp_path, *other, "--open", "--oracle", "olh")
    browser.js("document.querySelector('input').value = 'mauve'")
    browser.js("document.getElementById('send').click()")
    assert patience(lambda: "refused this report (409)" in said(browser))
    assert not browser.js("document.getElementById('form').hidden")
    end(process)


@pytest.mark.parametrize("more", [[], ["--open"]], ids=["boxes", "lines"])
def test_sets_are_asked_for(more, browser, tmp_path):
    """Boxes, or lines of text; an answer without any of them is one, too."""
    process, port = start(tmp_path, *more, "--max-items", 2, "--least", 1, oracle=())
    for chosen in (2, 0):
        browser.js("localStorage.clear()")
        browser.open(f"http://127.0.0.1:{port}/")
        assert patience(lambda: browser.js("document.querySelectorAll('label').length")) == (
            1 if more else 3
        )
        browser.look(f"sets{''.join(more)}-{chosen}")
        if more:
            text = json.dumps(" red\n\nblue" * (chosen > 0))
            browser.js(f"document.querySelector('textarea').value = {text}")
        for place in range(0 if more else chosen):
            browser.js(f"document.querySelectorAll('input')[{place}].click()")
        browser.js("document.getElementById('send').click()")
        assert patience(lambda: "has answered" in said(browser))
    assert "the last 2 reports are sealed" in end(process)[1]
    assert browser.complaints() == []


# ---- a proxy -------------------------------------------------------------------------------------
def configuration():
    """The example of the guide."""
    page = (ROOT / "doc" / "serving.md").read_text(encoding="utf-8")
    return page.partition("```nginx\n")[2].partition("```")[0]


@contextmanager
def proxy(folder, port, server):
    """The proxy of the guide, with a certificate of its own and its logs in a folder."""
    key = ["-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem"]
    argv = ["openssl", "req", "-x509", *key, "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    text = configuration().replace("127.0.0.1:8000", f"127.0.0.1:{server}")
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    text = text.replace("/etc/ssl/", f"{folder}/").replace("example.org.pem", "cert.pem")
    text = text.replace("example.org.key", "key.pem")
    kept = " ".join(f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy"))
    kept += " ".join(f"{name}_temp_path {folder}/{name};" for name in ("fastcgi", "uwsgi", "scgi"))
    whole = f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
    whole += f"events {{}}\nhttp {{ access_log {folder}/access.log; {kept}\n{text}\n}}\n"
    (folder / "nginx.conf").write_text(whole)
    argv = [NGINX, "-p", folder, "-c", folder / "nginx.conf", "-e", folder / "error.log"]
    process = subprocess.Popen(list(map(str, argv)))
    try:
        time.sleep(1)
        yield
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.skipif(NGINX is None or shutil.which("openssl") is None, reason="needs nginx, openssl")
def test_behind_a_proxy(browser, tmp_path):
    """Below a path, by HTTPS, from its own origin; the proxy keeps nothing of who has posted."""
    process, port = start(tmp_path, "--least", 1)
    secure = free_port()
    try:
        with proxy(tmp_path, secure, port):
            browser.call("Security.setIgnoreCertificateErrors", ignore=True)
            browser.open(f"https://127.0.0.1:{secure}/poll/")
            answer(browser)
            assert patience(lambda: "has answered" in said(browser))
            browser.open(f"https://127.0.0.1:{secure}/poll/results")
            assert "There are no results yet" in browser.js("document.body.textContent")
            assert browser.complaints() == []
        logs = [tmp_path / name for name in ("access.log", "error.log")]
        assert [log.read_text() for log in logs if log.exists() and log.stat().st_size] == []
        assert [*(tmp_path / "client_body").glob("*")] == []
    finally:
        assert "the last 1 reports are sealed" in end(process)[1]
