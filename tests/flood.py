"""Half-open connections, from a process of their own: `python -m tests.flood PORT COUNT SECONDS`.

Every connection that the server closes is opened again at once, so that COUNT are open all the
time. They differ in what they send: nothing, half a line, a head that grows by a letter a second,
a form that does. Beside them some ask for a large file and never read the answer.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field

#: What is sent at once, and what every second.
KINDS = (
    (b"", b""),
    (b"GET / HT", b""),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"x"),
    (b"POST /enter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000\r\n\r\ntoken=", b"x"),
)
#: One in so many connections asks for this, and does not read it.
UNREAD, LARGE = 50, b"GET /plotly.js HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class Flood:
    """Connections to one server."""

    port: int
    opened: int = 0
    held: dict[socket.socket, bytes] = field(default_factory=dict)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def connect(self, content: bytes) -> socket.socket:
        """Open a connection and send something."""
        one = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        one.sendall(content)
        one.setblocking(False)
        return one

    def fill(self, count: int) -> None:
        """Open what is missing."""
        while len(self.held) < count:
            first, more = KINDS[self.opened % len(KINDS)]
            one = self.connect(first)
            self.selector.register(one, selectors.EVENT_READ)
            self.held[one] = more
            self.opened += 1

    def drop_closed(self) -> None:
        """Let go of connections that the server has closed."""
        for key, _ in self.selector.select(0.02):
            one = key.fileobj
            assert isinstance(one, socket.socket)
            with contextlib.suppress(OSError):
                if one.recv(65536):
                    continue
            self.selector.unregister(one)
            del self.held[one]
            one.close()

    def trickle(self) -> None:
        """Send one more letter on each."""
        for one, more in self.held.items():
            with contextlib.suppress(OSError):
                one.send(more)


def main(port: int, count: int, seconds: float) -> None:
    """Write a line when all are open, and at the end how many were opened."""
    flood = Flood(port)
    flood.fill(count)
    unread = [flood.connect(LARGE) for _ in range(count // UNREAD)]
    sys.stdout.write("open\n")
    sys.stdout.flush()
    trickled, end = 0.0, time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        flood.drop_closed()
        flood.fill(count)
        if now - trickled > 1:
            trickled = now
            flood.trickle()
    sys.stdout.write(json.dumps({"opened": flood.opened, "unread": len(unread)}) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
