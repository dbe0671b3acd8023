"""Connections on which nothing happens: they are closed before they keep others out."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds within which a request must have come in whole; a batch sent with the token may take
#: longer.
PATIENCE = 10.0
#: Seconds for which an answer may lie unread.
UNREAD = 30.0
#: Files that the server asks the system for; each connection takes one.
FILES = 8192
#: Connections accepted at a time, before those that are open have their turn.
BURST = 32
#: Idle connections closed at a time.
CLOSED = 32
#: Connections that the system holds until they are accepted.
QUEUE = 2048
#: Files for other uses than connections: the store, the inbox, libraries.
OTHER_FILES = 128


class Connection(H11Protocol):
    """A connection that knows since when it waits for a request, or for its answer to be read."""

    #: Connections at a time.
    room = FILES - BURST - OTHER_FILES

    def __init__(self, *args: Any, **options: Any) -> None:
        """Begin to wait; where all places are taken, those that have waited longest are closed."""
        super().__init__(*args, **options)
        self.since = time.monotonic()
        self.unread_since: float | None = None
        if len(self.connections) >= self.room:
            waiting = [each for each in _own(self.connections) if each.waits]
            waiting.sort(key=lambda each: each.since)
            # Several at once, since sorting takes time.
            for each in waiting[: 1 + self.room // 10]:
                each.transport.abort()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self.since = time.monotonic()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Note when the other side stopped reading."""
        self.unread_since = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the other side reads."""
        self.unread_since = None
        super().resume_writing()

    @property
    def waits(self) -> bool:
        """Whether its request has not come in whole, other than a batch sent with the token."""
        if self.cycle is None or self.cycle.response_complete:
            return True
        return self.cycle.more_body and not self.scope["state"].get("trusted", False)


def close_idle(connections: Iterable[object]) -> None:
    """Close connections that have waited too long; only some, if they are many."""
    now = time.monotonic()
    idle = (
        each
        for each in _own(connections)
        if (each.waits and now - each.since > PATIENCE)
        or (each.unread_since is not None and now - each.unread_since > UNREAD)
    )
    # Whoever keeps them open opens new ones at once: all together would hold others up.
    for each in islice(idle, CLOSED):
        each.transport.abort()


def make_room() -> int:
    """Ask the system for as many files as the server may need, and give the number of connections.

    A process begins with few, often 1024, and may take more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return max(files - BURST - OTHER_FILES, 1)


def _own(connections: Iterable[object]) -> list[Connection]:
    return [each for each in connections if isinstance(each, Connection)]
