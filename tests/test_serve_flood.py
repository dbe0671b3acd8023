"""Half-open connections, and what stops the server: others are answered meanwhile."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runs import Run
from tests.serving import TOKEN, Serving, serving, until
from tests.test_serve import NPY, npy

ROOT = Path(__file__).parents[1]
COUNT = 2000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    """Serve a run, with an inbox."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "inbox").mkdir()
    with Run(tmp_path / "run.gofs") as run:
        run.add(60)
    options = ("--token-file", str(tmp_path / "token"), "--inbox", str(tmp_path / "inbox"))
    with serving(tmp_path / "run.gofs", *options) as started:
        yield started


class Upload:
    """A batch that is sent piece by piece."""

    def __init__(self, server: Serving, pieces: int) -> None:
        body = npy(1000)
        size = -(-len(body) // pieces)
        self._pieces = [body[start : start + size] for start in range(0, len(body), size)]
        self._connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        self._connection.sendall(
            f"POST /batches/slow HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Type: {NPY}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        )

    def send(self, pause: float, count: int | None = None) -> None:
        """Send the next pieces, all of them if no number is given."""
        for piece in self._pieces[:count]:
            self._connection.sendall(piece)
            time.sleep(pause)
        self._pieces = self._pieces[count:] if count else []

    def answer(self) -> bytes:
        """Read what the server says, and close the connection."""
        with self._connection:
            return self._connection.recv(65536)


def answered_during_flood(server: Serving, seconds: float) -> dict[str, float]:
    """Open connections for some seconds, and ask for page and health all the time."""
    command = [sys.executable, "-m", "tests.flood", str(server.port), str(COUNT), str(seconds)]
    took: dict[str, list[float]] = {"/": [], "/health": []}
    most_open = 0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as flood:
        assert flood.stdout is not None
        while flood.poll() is None:
            for path, times in took.items():
                start = time.perf_counter()
                assert server.get(path).status == 200
                times.append(time.perf_counter() - start)
            most_open = max(most_open, len(os.listdir(f"/proc/{server.process.pid}/fd")))
            time.sleep(0.05)
        assert flood.stdout.readline() == "open\n"
        found = json.loads(flood.stdout.readline())
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return {
        "opened": found["opened"],
        "most_open": most_open,
        "asked": sum(map(len, took.values())),
        "page": max(took["/"]),
        "health": max(took["/health"]),
        "peak_mb": int(peak.split()[1]) / 1000,
    }


def test_half_open_connections_keep_nobody_out(server: Serving) -> None:
    """The page and its health come soon, while all these are open.

    A busy machine opens them more slowly than the server closes them: fewer are open at once.
    """
    found = answered_during_flood(server, 1.0)
    assert found["opened"] >= COUNT
    assert max(found["page"], found["health"]) < 5.0
    assert found["asked"] >= 6


@pytest.mark.slow
def test_half_open_connections_for_a_minute(server: Serving) -> None:
    """Each is closed after ten seconds and opened again; the figures go to a file if asked for."""
    upload = Upload(server, pieces=8)
    sender = threading.Thread(target=upload.send, args=(6.0,))
    sender.start()
    found = answered_during_flood(server, 60.0)
    sender.join()
    # A batch that is sent with the token may come slowly, and is not closed to make room.
    assert upload.answer().startswith(b"HTTP/1.1 202")
    if target := os.environ.get("FLOOD_FIGURES"):
        Path(target).write_text("".join(f"{name}: {x:.4g}\n" for name, x in found.items()))
    assert found["most_open"] > COUNT
    assert found["opened"] > 4 * COUNT
    assert max(found["page"], found["health"]) < 1.0


def test_a_batch_that_is_being_sent_when_the_server_stops_is_taken(
    server: Serving, tmp_path: Path
) -> None:
    """The server takes no new connection, finishes what was begun, and ends with success."""
    upload = Upload(server, pieces=2)
    upload.send(0.0, count=1)
    until(lambda: any(path.name.startswith(".") for path in (tmp_path / "inbox").iterdir()))
    with server.live() as messages:
        next(messages)
        assert server.process.pid is not None
        os.kill(server.process.pid, signal.SIGTERM)
        # The page is told to go, and comes back to a server that was started again.
        assert [kind for kind, _, _ in messages if kind == "update"] == []
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port), timeout=10)
    upload.send(0.0)
    assert upload.answer().startswith(b"HTTP/1.1 202")
    assert server.stop() == 0
    assert (tmp_path / "inbox" / "slow.npy").read_bytes() == npy(1000)
