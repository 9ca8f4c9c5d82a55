"""The pages of a server and what it takes, as an ASGI application of eight routes."""

from __future__ import annotations

import asyncio
import hmac
import json
import math
import re
from collections.abc import Awaitable, Callable
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qs, urlsplit

from .._core.domains.values import is_missing
from .._core.mechanisms import Counts
from .._core.report_page import STYLE, EstimateReport
from .._core.storage.clients import client_module
from .._core.storage.formats import without_repeats
from .._core.support.text import rounded_up
from ..postprocessing import EmpiricalBayes
from .slots import OWN
from .state import read_state, write_state
from .store import Post, Store

SECONDS = 5.0  # for a head, and for a body
_BODY = 1 << 16  # bytes, and more where a report is larger
_MOST_WAITING = 8192  # posts
_NONCE = re.compile("[0-9a-f]{32}")
_DIGITS = re.compile("[0-9]{1,19}")
_KEYS = {"configuration", "nonce", "version"}
_HEADERS = {
    "content-security-policy": "default-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Question(NamedTuple):
    """The question of a page, and who may ask and see."""

    text: str
    name: str  # of the memo that browsers keep
    origins: tuple[str, ...] = ()
    token: str = ""  # of those who see the results; "" is everybody
    hosts: tuple[str, ...] = ()  # names that the server answers to; none are all names


class Answer(Exception):  # noqa: N818
    """The answer to a request, which ends its handling."""

    def __init__(self, status: int, body: str | bytes = "", kind: str = "text/plain", **more: str):
        super().__init__(status)
        self.status, self.kind, self.more = status, kind, more
        self.body = body.encode() if isinstance(body, str) else body


class App:
    """Answers to requests, each in time and in bounded memory; errors tell nothing of users."""

    def __init__(
        self, oracle: Any, client: Any, collection_round: str, question: Question, folder: Path
    ) -> None:
        self._question, self._shown_file = question, folder / OWN / "shown"
        module = client_module(client, collection_round=collection_round)
        self._results: dict[str, Any] | None = None
        self._shown: Counts | None = None
        self._drawing = asyncio.Lock()
        fields = oracle.protocol().mechanism.report_fields
        self._most = max(_BODY, 4096 + 24 * sum(field.width or 1 for field in fields))
        domain = client.protocol().domain
        listed = None if domain.is_open else domain.categories.tolist()
        known = listed and [None if is_missing(one) else one for one in listed]
        settings = {"categories": known, "memo": question.name, "is_set": domain.shares_overlap}
        shown = "" if question.token else '<p><a href="results">Results</a></p>'
        page = {
            "question": escape(question.text),
            "poll": escape(json.dumps(settings)),
            "epsilon": f"{oracle.epsilon:g}",
            "times": rounded_up(math.exp(min(oracle.epsilon, 700))),
            "link": shown,
        }
        html, script = "text/html; charset=utf-8", "text/javascript; charset=utf-8"
        self._routes: dict[str, tuple[str, Callable[..., Awaitable[Any]]]] = {
            "": ("GET", _fixed(_page("poll.html", **page), html)),
            "client.mjs": ("GET", _fixed(module, script)),
            "poll.mjs": ("GET", _fixed(_resource("poll.mjs"), script)),
            "style.css": ("GET", _fixed(_resource("style.css") + STYLE, "text/css")),
            "health": ("GET", self._health),
            "results": ("GET", self._results_page),
            "estimate.json": ("GET", self._estimate),
            "reports": ("POST", self._post),
        }
        self.store: Store  # set once it is open

    def read_shown(self, say: Callable[[str], None]) -> bool:
        """Go on showing the results of an earlier start; return whether there are any."""
        if not self._shown_file.exists():
            return False
        try:
            self._results, _ = read_state(self._shown_file, self.store.protocol)
        except ValueError as error:
            say(f"{error} Results are shown again after {self.store.rules.step} new reports.")
        return True

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        origin, allowed = headers.get("origin"), {"vary": "origin"}
        is_own = origin is None or _place(origin).netloc == headers.get("host", "")
        if origin in self._question.origins:
            allowed |= {"access-control-allow-origin": origin or ""}
        try:
            method, handle = self._routes.get(scope["path"].rpartition("/")[2], ("", None))
            if self._question.hosts and _host_name(headers) not in self._question.hosts:
                # A page elsewhere may have bound its own name to this address.
                raise Answer(421, "This server has another name: see --host-name.")
            if handle is None:
                raise Answer(404, "There is nothing here.")
            if not is_own and origin not in self._question.origins:
                raise Answer(403, "This server takes no requests from pages of other origins.")
            if scope["method"] == "OPTIONS":
                allowed |= {"access-control-allow-methods": method}
                raise Answer(204, **{"access-control-allow-headers": "content-type"})
            if scope["method"] not in (method, "HEAD" if method == "GET" else method):
                raise Answer(405, "Another method is asked for.", allow=method)
            await handle(scope, headers, receive)
        except Answer as found:
            answer = found
        except Exception as error:  # says what went wrong, and nothing of who asked
            answer = Answer(500, f"The server has failed: {type(error).__name__}.")
        more = {"connection": "close"} if answer.status >= 400 else {}
        head = {**_HEADERS, **allowed, **more, **answer.more}
        if answer.body:
            head |= {"content-type": answer.kind, "content-length": str(len(answer.body))}
        sent = [(key.encode(), value.encode()) for key, value in head.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": sent})
        await send({"type": "http.response.body", "body": answer.body})

    # -- reports ----------------------------------------------------------------------------------
    async def _post(self, scope: dict, headers: dict[str, str], receive: Callable) -> None:
        nonce, reports = self._parsed(await self._body(headers, receive))
        if self.store.failure is not None or self.store.n_waiting > _MOST_WAITING:
            raise Answer(503, "The server is busy: send it again.", **{"retry-after": "2"})
        ticket = asyncio.get_running_loop().create_future()
        self.store.submit(Post(nonce, reports, ticket))
        try:
            outcome = await asyncio.wait_for(ticket, 4 * SECONDS)
        except TimeoutError as error:
            outcome = error
        if isinstance(outcome, Exception):
            raise Answer(503, "The disk does not take it now.", **{"retry-after": "10"})
        raise Answer(400 if outcome else 204, outcome)

    async def _body(self, headers: dict[str, str], receive: Callable) -> bytes:
        body, more = b"", True
        too_large = Answer(413, f"A body has at most {self._most:,} bytes.")
        if int(headers.get("content-length", "0")) > self._most:  # h11 has checked its form
            raise too_large
        try:
            async with asyncio.timeout(SECONDS):
                # Ends: at the last message, or after `SECONDS`.
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Answer(400)
                    body, more = body + message["body"], message.get("more_body", False)
                    if len(body) > self._most:
                        raise too_large
        except TimeoutError:
            raise Answer(408, f"A body must come within {SECONDS:g} seconds.") from None
        return body

    def _parsed(self, body: bytes) -> tuple[bytes, list[Any]]:
        """The nonce and the reports of a post."""
        try:
            found = json.loads(body.decode(), object_pairs_hook=without_repeats)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or len(found.keys() & {"report", "reports"}) != 1:
            raise Answer(400, "Expected {configuration, nonce, report | reports} in JSON.")
        if found.keys() - _KEYS - {"report", "reports"} or found.get("version", 1) != 1:
            raise Answer(400, "This server knows version 1 of a post, and no other entries.")
        nonce, configuration = found.get("nonce"), found.get("configuration")
        if not isinstance(nonce, str) or not _NONCE.fullmatch(nonce):
            raise Answer(400, "A nonce is 128 random bits as 32 hexadecimal digits.")
        if configuration != self.store.protocol.configuration:
            is_dict = isinstance(configuration, dict)
            what = self.store.protocol.difference(configuration) if is_dict else "none"
            if what:
                raise Answer(409, f"The report is of another configuration: {what}.")
        reports = found["reports"] if "reports" in found else [found["report"]]
        if not isinstance(reports, list) or not reports:
            raise Answer(400, "Expected a list of reports.")
        return bytes.fromhex(nonce), [self._integers(one) for one in reports]

    def _integers(self, report: Any) -> Any:
        """A report as integers; those from 2**53 on are texts, as JavaScript would round them."""
        items = report if isinstance(report, list) else [report]
        items = [int(x) if isinstance(x, str) and _DIGITS.fullmatch(x) else x for x in items]
        if isinstance(report, list) != self.store.is_row or {*map(type, items)} != {int}:
            what = "a list of integers" if self.store.is_row else "an integer"
            raise Answer(400, f"Expected {what} as a report.")
        return items if self.store.is_row else items[0]

    # -- results ----------------------------------------------------------------------------------
    async def _health(self, *_: Any) -> None:
        is_well = self.store.failure is None
        raise Answer(200 if is_well else 503, json.dumps({"ok": is_well}), "application/json")

    async def _estimate(self, scope: dict, headers: dict[str, str], _: Any) -> None:
        results = await self._current(scope, headers) or {"n_samples": 0, "rows": []}
        raise Answer(200, json.dumps(results), "application/json")

    async def _results_page(self, scope: dict, headers: dict[str, str], _: Any) -> None:
        results, question = await self._current(scope, headers), escape(self._question.text)
        shown = f"<h1>{question}</h1><p>There are no results yet.</p>"
        if results is not None:
            shown = EstimateReport(results).html
        step = str(self.store.rules.step)
        page = _page("results.html", question=question, results=shown, step=step)
        raise Answer(200, page, "text/html; charset=utf-8")

    async def _current(self, scope: dict, headers: dict[str, str]) -> dict[str, Any] | None:
        """What is shown of the last step, drawn when it is first asked for."""
        given = headers.get("authorization", "").removeprefix("Bearer ")
        given = given or parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        token = self._question.token
        if token and not hmac.compare_digest(given.encode(), token.encode()):
            raise Answer(403, "The results are shown to those who have the token.")
        async with self._drawing:
            published = self.store.published
            if published is not None and published is not self._shown:
                self._results = await asyncio.to_thread(self._describe, published)
                self._shown = published
        return self._results

    def _describe(self, counts: Counts) -> dict[str, Any]:
        oracle = self.store.oracle.__collector__().with_counts(counts)
        bayes = EmpiricalBayes(simplex=not self.store.protocol.domain.shares_overlap)
        estimate = bayes.fit_transform(oracle.estimate_)
        found = estimate.describe(question=self._question.text)
        write_state(self._shown_file, self.store.protocol, found)
        return found


def _host_name(headers: dict[str, str]) -> str:
    """The name by which a client calls the server, without the port; "" if it is none."""
    return _place(f"//{headers.get('host', '')}").hostname or ""


def _place(address: str) -> SplitResult:
    """The parts of an address; empty ones if it is none."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def _resource(name: str) -> str:
    return (files("sklearn_ldp") / "_serve" / "pages" / name).read_text(encoding="utf-8")


def _page(name: str, **parts: str) -> str:
    return Template(_resource(name)).substitute(parts)


def _fixed(text: str, kind: str) -> Callable[..., Awaitable[Any]]:
    async def answer(*_: Any) -> None:
        raise Answer(200, text, kind)

    return answer
