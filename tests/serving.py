"""A real server for the tests: `gofstream serve` in a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOKEN = "a token of some length"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
COMMAND = (sys.executable, "-W", "error", "-c", "from gofstream.cli import main; main()", "serve")


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Read the body as JSON."""
        return json.loads(self.body)


@dataclass
class Serving:
    """A running server."""

    process: subprocess.Popen[str]
    port: int
    host: str = "127.0.0.1"
    log: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{self.host}:{self.port}/"

    def ask(
        self, method: str, path: str, body: Any = None, chunked: bool = False, **headers: str
    ) -> Answer:
        """Send one request; headers are written with underscores."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, named, encode_chunked=chunked)
            found = connection.getresponse()
            return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        """Ask for something."""
        return self.ask("GET", path, **headers)

    @contextmanager
    def live(self, mark: str | None = None) -> Iterator[Iterator[tuple[str, Any, str]]]:
        """Listen as a page does: kind, content and mark of each message."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", "/live", headers={"Last-Event-ID": mark} if mark else {})
            yield _messages(connection.getresponse())
        finally:
            connection.close()

    def stop(self) -> int:
        """Ask it to stop, and wait; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        _, rest = self.process.communicate(timeout=30)
        self.log += rest.splitlines()
        return self.process.returncode


def _messages(stream: Any) -> Iterator[tuple[str, Any, str]]:
    fields: dict[str, str] = {}
    for line in stream:
        key, _, value = line.decode().rstrip("\n").partition(": ")
        if key:
            fields[key] = value
        elif "data" in fields:
            yield fields["event"], json.loads(fields["data"]), fields.get("id", "")
            fields = {}


@contextmanager
def serving(store: Path, *options: str, port: int = 0) -> Iterator[Serving]:
    """Start a server and wait until it has read the store; stop it at the end."""
    process = subprocess.Popen(
        [*COMMAND, str(store), "--port", str(port), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        found = re.search(r":(\d+)/$", process.stdout.readline().strip())
        if found is None:
            raise AssertionError(process.communicate(timeout=30)[1])
        server = Serving(process, int(found[1]))
        _wait(server)
        yield server
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _wait(server: Serving) -> None:
    for _ in range(300):
        try:
            if server.get("/health").status == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError("the server does not come up")
