"""Starting and stopping the server, and what it writes down."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
from collections.abc import Callable
from typing import Literal

import uvicorn

from gofstream.serve.app import Server
from gofstream.serve.connections import BURST, QUEUE, Connection, close_idle, make_room

#: Seconds that requests may still take after the server was told to stop.
GRACE = 5
#: Bytes of the head of a request.
HEAD = 16384


class _Uvicorn(uvicorn.Server):
    """Closes idle connections, and ends the pages before it waits for connections to end."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self._server = server

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start; more connections may wait for the server than it accepts at a time."""
        await super().startup(sockets)
        for each in sockets or []:
            each.listen(QUEUE)

    async def on_tick(self, counter: int) -> bool:
        """Close idle connections; this is called ten times a second."""
        close_idle(self.server_state.connections)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, as soon as what was begun is done."""
        self._server.feed.stop()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """Open the address of the server; port 0 takes any that is free.

    Raises
    ------
    OSError
        If the address is in use or not of this machine.
    """
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(address[:2], family=family)


def serve(make: Callable[[], Server], listening: socket.socket) -> None:
    """Answer until SIGTERM or Ctrl-C, then finish what was begun.

    Parameters
    ----------
    make : makes the server, once there is a loop for it to live in.
    listening : from `listen`.
    """
    Connection.room = make_room()

    async def work() -> None:
        server = make()
        config = uvicorn.Config(
            server.app(),
            log_config=None,
            server_header=False,
            proxy_headers=False,
            ws="none",
            backlog=BURST,
            timeout_graceful_shutdown=GRACE,
            h11_max_incomplete_event_size=HEAD,
            http=Connection,
        )
        await _Uvicorn(config, server).serve(sockets=[listening])

    # Uvicorn raises the signal again after it has stopped; to have been stopped is no failure.
    before = {each: signal.signal(each, _pass) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        asyncio.run(work())
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _pass(number: int, frame: object) -> None:
    pass


def write_log(form: Literal["lines", "json"]) -> None:
    """Write what happens to standard error, line by line."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if form == "json" else _Lines())
    for name in ("gofstream", "uvicorn"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.handlers, logger.propagate = [handler], False


class _Lines(logging.Formatter):
    """Time, level, message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")


class _Json(logging.Formatter):
    """One object for each line."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record as JSON."""
        content = {
            "time": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            content["trace"] = self.formatException(record.exc_info)
        return json.dumps(content)
