"""The web application of a server: its pages, and the route that receives reports."""

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

from .._core.aggregation.clients import client_module
from .._core.aggregation.formats import without_repeats
from .._core.common.text import rounded_up
from .._core.domains.values import is_missing
from .._core.mechanisms import Counts
from .._core.report_page import STYLE, EstimateReport
from ..postprocessing import EmpiricalBayes
from .slots import OWN
from .state import read_state, write_state
from .store import Post, Store

SECONDS = 5.0  # for a request's head, and for its body
_BODY_BYTES = 1 << 16  # more if a report is larger
_MAX_WAITING = 8192  # posts
_NONCE = re.compile("[0-9a-f]{32}")
_DIGITS = re.compile("[0-9]{1,19}")
_JSON = "application/json"
_HTML = "text/html; charset=utf-8"
_KEYS = {"configuration", "nonce", "version"}
_HEADERS = {
    "content-security-policy": "default-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Question(NamedTuple):
    """The question on the page, the origins of pages that may post, and access to the results."""

    text: str
    name: str  # key under which browsers store their report
    origins: tuple[str, ...] = ()  # other origins whose pages may send reports
    token: str = ""  # password for the results; if empty, everyone sees the results
    hosts: tuple[str, ...] = ()  # names of the server; if empty, it answers to every name


class Answer:
    """An HTTP response: status, body, content type and further headers."""

    def __init__(
        self, status: int, body: str = "", content_type: str = "text/plain", **headers: str
    ) -> None:
        self.status = status
        self.body = body.encode()
        self.content_type = content_type
        self.headers = headers


class RequestError(Exception):
    """Error for a request that cannot be answered.

    `answer` is the response with status and reason.
    """

    def __init__(self, status: int, reason: str = "", **headers: str) -> None:
        super().__init__(status, reason)
        self.answer = Answer(status, reason, **headers)


Handler = Callable[[dict, dict[str, str], Callable], Awaitable[Answer]]


class App:
    """An ASGI application that answers requests within bounded time and memory.

    Its errors reveal nothing about users.
    """

    def __init__(
        self, oracle: Any, client: Any, collection_round: str, question: Question, folder: Path
    ) -> None:
        self._question = question
        self._shown_file = folder / OWN / "shown"
        module = client_module(client, collection_round=collection_round)
        self._results: dict[str, Any] | None = None
        self._shown: Counts | None = None
        self._drawing = asyncio.Lock()
        fields = oracle.protocol().mechanism.report_fields
        self._max_bytes = max(_BODY_BYTES, 4096 + 24 * sum(field.width or 1 for field in fields))
        domain = client.protocol().domain
        categories = None
        if not domain.is_open:
            categories = [None if is_missing(x) else x for x in domain.categories.tolist()]
        settings = {
            "categories": categories,
            "memo": question.name,
            "is_set": domain.shares_overlap,
        }
        page = {
            "question": escape(question.text),
            "poll": escape(json.dumps(settings)),
            "epsilon": f"{oracle.epsilon:g}",
            "times": rounded_up(math.exp(min(oracle.epsilon, 700))),
            "link": "" if question.token else '<p><a href="results">Results</a></p>',
        }
        script = "text/javascript; charset=utf-8"
        self._routes: dict[str, tuple[str, Handler]] = {
            "": ("GET", _fixed(_page("poll.html", **page), _HTML)),
            "client.mjs": ("GET", _fixed(module, script)),
            "poll.mjs": ("GET", _fixed(_resource("poll.mjs"), script)),
            "style.css": ("GET", _fixed(_resource("style.css") + STYLE, "text/css")),
            "health": ("GET", self._health),
            "results": ("GET", self._results_page),
            "estimate.json": ("GET", self._estimate),
            "reports": ("POST", self._post),
        }
        self.store: Store  # assigned by the server

    def read_shown(self, say: Callable[[str], None]) -> bool:
        """Load the results that an earlier start of the server has shown.

        Return whether there is a file with such results.
        """
        if not self._shown_file.exists():
            return False
        try:
            self._results, _ = read_state(self._shown_file, self.store.protocol)
        except ValueError as error:
            say(f"{error} Results are shown again after {self.store.rules.step} new reports.")
        return True

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        """Answer one HTTP request, as ASGI specifies."""
        if scope["type"] != "http":
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        try:
            answer = await self._answer(scope, headers, receive)
        except RequestError as error:
            answer = error.answer
        except Exception as error:  # the answer names the type of the error, and no user's data
            answer = Answer(500, f"The server has failed: {type(error).__name__}.")
        response = {**_HEADERS, "vary": "origin"}
        if (origin := headers.get("origin")) in self._question.origins:
            response["access-control-allow-origin"] = origin or ""
        if answer.status >= 400:
            response["connection"] = "close"
        response |= answer.headers
        if answer.body:
            response["content-type"] = answer.content_type
            response["content-length"] = str(len(answer.body))
        encoded = [(name.encode(), value.encode()) for name, value in response.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: dict, headers: dict[str, str], receive: Callable) -> Answer:
        question = self._question
        method, handle = self._routes.get(scope["path"].rpartition("/")[2], ("", None))
        if question.hosts and _host_name(headers) not in question.hosts:
            # A foreign page may have bound its own name to this address.
            raise RequestError(
                421,
                "This server does not answer to this host name. Use its own name, or start it "
                "with --host-name.",
            )
        if handle is None:
            raise RequestError(404, "There is no page with this name.")
        origin = headers.get("origin")
        is_own = origin is None or _parts(origin).netloc == headers.get("host", "")
        if not is_own and origin not in question.origins:
            raise RequestError(
                403,
                "This server refuses requests from pages of other origins. Use the page of this "
                "server, or start the server with --origin.",
            )
        if scope["method"] == "OPTIONS":
            allowed = {
                "access-control-allow-methods": method,
                "access-control-allow-headers": "content-type",
            }
            return Answer(204, **allowed)
        if scope["method"] not in (method, "HEAD" if method == "GET" else method):
            raise RequestError(405, f"The method must be {method}.", allow=method)
        return await handle(scope, headers, receive)

    # -- reports ----------------------------------------------------------------------------------
    async def _post(self, scope: dict, headers: dict[str, str], receive: Callable) -> Answer:
        nonce, reports = self._parsed(await self._body(headers, receive))
        if self.store.failure is not None or self.store.n_waiting > _MAX_WAITING:
            raise RequestError(503, "The server is busy. Send the report again.", **_retry_after(2))
        ticket = asyncio.get_running_loop().create_future()
        self.store.submit(Post(nonce, reports, ticket))
        try:
            outcome = await asyncio.wait_for(ticket, 4 * SECONDS)
        except TimeoutError as error:
            outcome = error
        if isinstance(outcome, Exception):
            reason = "The disk cannot store the report now. Send it again."
            raise RequestError(503, reason, **_retry_after(10))
        if outcome:
            raise RequestError(400, outcome)
        return Answer(204)

    async def _body(self, headers: dict[str, str], receive: Callable) -> bytes:
        too_large = RequestError(413, f"The body must have at most {self._max_bytes:,} bytes.")
        if int(headers.get("content-length", "0")) > self._max_bytes:  # h11 has checked its form
            raise too_large
        body = b""
        has_more = True
        try:
            async with asyncio.timeout(SECONDS):
                # Ends: at the last message, or after `SECONDS`.
                while has_more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestError(400)
                    body += message["body"]
                    has_more = message.get("more_body", False)
                    if len(body) > self._max_bytes:
                        raise too_large
        except TimeoutError:
            raise RequestError(408, f"The body must arrive within {SECONDS:g} seconds.") from None
        return body

    def _parsed(self, body: bytes) -> tuple[bytes, list[Any]]:
        """Return the nonce and the list of reports in the body of a request.

        The nonce is a random number that identifies the request. Raise RequestError if the body is
        not valid.
        """
        try:
            post = json.loads(body.decode(), object_pairs_hook=without_repeats)
        except (ValueError, RecursionError):
            post = None
        if not isinstance(post, dict) or len(post.keys() & {"report", "reports"}) != 1:
            raise RequestError(
                400,
                "Expected a JSON object with the entries configuration, nonce, and either report "
                "or reports.",
            )
        if post.keys() - _KEYS - {"report", "reports"} or post.get("version", 1) != 1:
            raise RequestError(
                400,
                "The body must have version 1 and no other entries than configuration, nonce, "
                "version, and report or reports.",
            )
        nonce = post.get("nonce")
        if not isinstance(nonce, str) or not _NONCE.fullmatch(nonce):
            raise RequestError(
                400, "The nonce must be 128 random bits, written as 32 hexadecimal digits."
            )
        configuration = post.get("configuration")
        if configuration != self.store.protocol.configuration:
            is_dict = isinstance(configuration, dict)
            difference = self.store.protocol.difference(configuration) if is_dict else "none"
            if difference:
                raise RequestError(
                    409,
                    f"The report was made with another configuration: {difference}. Load the "
                    "page again.",
                )
        reports = post["reports"] if "reports" in post else [post["report"]]
        if not isinstance(reports, list) or not reports:
            raise RequestError(400, "Expected a list of reports.")
        return bytes.fromhex(nonce), [self._integers(report) for report in reports]

    def _integers(self, report: Any) -> Any:
        """Return a report as integers.

        Integers of 2**53 or more may be strings, because JSON readers round them.
        """
        items = report if isinstance(report, list) else [report]
        items = [int(x) if isinstance(x, str) and _DIGITS.fullmatch(x) else x for x in items]
        if isinstance(report, list) != self.store.is_row or {*map(type, items)} != {int}:
            form = "a list of integers" if self.store.is_row else "an integer"
            raise RequestError(400, f"Expected {form} as a report.")
        return items if self.store.is_row else items[0]

    # -- results ----------------------------------------------------------------------------------
    async def _health(self, *_: Any) -> Answer:
        is_well = self.store.failure is None
        return Answer(200 if is_well else 503, json.dumps({"ok": is_well}), _JSON)

    async def _estimate(self, scope: dict, headers: dict[str, str], _: Any) -> Answer:
        results = await self._current(scope, headers) or {"n_samples": 0, "rows": []}
        return Answer(200, json.dumps(results), _JSON)

    async def _results_page(self, scope: dict, headers: dict[str, str], _: Any) -> Answer:
        results = await self._current(scope, headers)
        question = escape(self._question.text)
        content = f"<h1>{question}</h1><p>There are no results yet.</p>"
        if results is not None:
            content = EstimateReport(results).html
        step = str(self.store.rules.step)
        return Answer(
            200, _page("results.html", question=question, results=content, step=step), _HTML
        )

    async def _current(self, scope: dict, headers: dict[str, str]) -> dict[str, Any] | None:
        """Return the results to show, or None.

        They are computed at the first request after `step` new reports.
        """
        password = headers.get("authorization", "").removeprefix("Bearer ")
        query = parse_qs(scope["query_string"].decode("latin-1"))
        password = password or query.get("token", [""])[0]
        token = self._question.token
        if token and not hmac.compare_digest(password.encode(), token.encode()):
            raise RequestError(403, "The results are shown only with the token.")
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
        description = estimate.describe(question=self._question.text, at_all_times=True)
        write_state(self._shown_file, self.store.protocol, description)
        return description


def _retry_after(seconds: int) -> dict[str, str]:
    return {"retry-after": str(seconds)}


def _host_name(headers: dict[str, str]) -> str:
    """Return the host name in the headers of a request, without the port.

    It is empty if the header is not valid.
    """
    return _parts(f"//{headers.get('host', '')}").hostname or ""


def _parts(address: str) -> SplitResult:
    """Return the parts of a URL. The parts are empty if the URL is not valid."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def _resource(name: str) -> str:
    return (files("sklearn_ldp") / "_serve" / "pages" / name).read_text(encoding="utf-8")


def _page(name: str, **parts: str) -> str:
    return Template(_resource(name)).substitute(parts)


def _fixed(text: str, content_type: str) -> Handler:
    async def handle(*_: Any) -> Answer:
        return Answer(200, text, content_type)

    return handle
