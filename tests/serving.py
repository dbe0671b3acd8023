"""A real server for the tests: `gofstream serve` in a process of its own."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gofstream.cli import main

TOKEN = "a token of some length"
BEARER = {"Authorization": f"Bearer {TOKEN}"}

# Importing takes longer than most tests: it is done once, and every server is a fork of that.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["gofstream.cli", "gofstream.serve.run"])


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

    process: multiprocessing.process.BaseProcess
    out: Path
    port: int

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.port}/"

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send one request; headers are written with underscores."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, named)
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

    def stop(self) -> int | None:
        """Ask it to stop, and wait; the exit code."""
        self.process.terminate()
        self.process.join(30)
        return self.process.exitcode

    @property
    def log(self) -> list[str]:
        """What it wrote down, without the line that says where it is."""
        return self.out.read_text().splitlines()[1:]


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
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        arguments = ("serve", str(store), "--port", str(port), *options)
        process = _FORKS.Process(target=_command, args=(arguments, out))
        process.start()
        try:
            server = Serving(process, out, _port(out))
            _wait(server)
            yield server
        finally:
            process.kill()
            process.join()


def _command(arguments: tuple[str, ...], out: Path) -> None:
    """Be the command line, with warnings as errors, in a process of its own."""
    warnings.simplefilter("error")
    with out.open("wb", buffering=0) as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.argv = ["gofstream", *arguments]
    main()


def _port(out: Path) -> int:
    for _ in range(600):
        found = re.search(r":(\d+)/$", out.read_text(), re.MULTILINE) if out.exists() else None
        if found:
            return int(found[1])
        time.sleep(0.05)
    raise AssertionError(out.read_text() if out.exists() else "the server does not start")


def _wait(server: Serving) -> None:
    def up() -> bool:
        try:
            return server.get("/health").status == 200
        except OSError:
            return False

    until(up)


def until(what: Callable[[], bool]) -> None:
    """Wait for something that is about to happen."""
    for _ in range(400):
        if what():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")
