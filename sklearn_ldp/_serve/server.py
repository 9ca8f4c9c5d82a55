"""The HTTP server, which is uvicorn with limits on the time of a connection."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from .app import SECONDS, App, Question
from .store import Rules, Store

_HEAD_BYTES = 1 << 14
_WORK_SECONDS = 30.0  # for a request and its answer, even if the client reads it slowly


class _TimedConnection(H11Protocol):
    """A connection that is closed if headers arrive too late or a response is read too slowly."""

    _timer: Any = None

    def _watch(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch(SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        previous = self.cycle
        super().data_received(data)
        if self.cycle is not previous:  # a head is complete
            self._watch(_WORK_SECONDS)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        is_next = not self.cycle.response_complete  # a request that was sent with this request
        self._watch(_WORK_SECONDS if is_next else SECONDS)


class _Server(uvicorn.Server):
    """A uvicorn server for one application. It ends after a signal or a failure of the disk."""

    def __init__(self, app: App) -> None:
        config = uvicorn.Config(
            app,
            http=_TimedConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_HEAD_BYTES,
            timeout_graceful_shutdown=10,
        )
        super().__init__(config)
        self.app = app
        self.caught = list[int]()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle signals here. `serve` handles them, and then stores the last reports."""
        yield

    def stop(self, number: int, _: Any = None) -> None:
        self.caught.append(number)
        self.should_exit = True

    def finish(self, outcomes: list[tuple[Any, Any]]) -> None:
        """Deliver outcomes to the waiting requests. End the server if the disk has failed."""
        for ticket, outcome in outcomes:
            if not ticket.done():
                ticket.set_result(outcome)
        if self.app.store.failure is not None:
            self.should_exit = True


def serve(
    folder: Path,
    oracle: Any,
    collection_round: str,
    question: Question,
    rules: Rules,
    *,
    client: Any = None,
    key: bytes | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    say: Callable[[str], None] = print,
    started: Callable[[int], None] = lambda port: None,
) -> int:
    """Run the server until a signal arrives, and return the number of the signal.

    Raise OSError if the disk fails.
    """
    # client: the oracle of the page, if the page has no list of categories.
    # started: called with the port, once the server accepts connections.
    for name in ("uvicorn.error", "asyncio"):  # their messages contain addresses of users
        logging.getLogger(name).disabled = True
    with suppress(ImportError, ValueError):  # as many connections as the system allows
        import resource

        _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 1 << 16), limit))

    async def run() -> int:
        loop = asyncio.get_running_loop()
        app = App(oracle, client or oracle, collection_round, question, folder)
        server = _Server(app)

        def deliver(outcomes: list[tuple[Any, Any]]) -> None:
            loop.call_soon_threadsafe(server.finish, outcomes)

        app.store = Store(folder, oracle, collection_round, rules, deliver, key)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, port), family=family, backlog=2048) as listening:
            say(app.store.open(app.read_shown(say)))
            numbers = [signal.SIGINT, signal.SIGTERM]
            if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
                numbers.append(signal.SIGHUP)  # ignored under nohup, and missing on Windows
            for number in numbers:
                signal.signal(number, server.stop)
            started(listening.getsockname()[1])
            await server.serve([listening])
            summary = await asyncio.to_thread(app.store.close)
        if app.store.failure is not None:
            raise OSError(
                f"The disk has failed, so the server has ended: {app.store.failure}. Check the "
                "disk, and start the server again with the same folder."
            )
        say(summary)
        return server.caught[0] if server.caught else 0

    return asyncio.run(run())
