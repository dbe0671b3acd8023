"""What the server says of itself, and that slow disks and its own defects stop nothing."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest
from starlette.types import Message
from tests.runs import Run
from tests.serving import TOKEN
from tests.syncs import DiskStep, assert_durable, recorded_syncs
from tests.test_serve import NPY, npy

from gofstream.serve import feed
from gofstream.serve.app import Server
from gofstream.serve.follower import Change
from gofstream.serve.guard import Access
from gofstream.serve.inbox import Inbox
from gofstream.stream.rows import Retention
from gofstream.stream.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a run, and make an inbox beside it."""
    with Run(tmp_path / "run.gofs") as run:
        run.add(3)
    (tmp_path / "inbox").mkdir()
    return tmp_path / "run.gofs"


Answer = tuple[int, bytes]


async def ask(
    server: Server,
    way: str,
    headers: Iterable[tuple[str, str]] = (),
    body: bytes = b"",
    answered: Callable[[], None] = lambda: None,
) -> Answer:
    """Ask the application itself; `answered` is called when the answer begins."""
    method, path = way.split(" ")
    named = [("host", "localhost"), *headers]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(key.lower().encode(), value.encode()) for key, value in named],
        "state": {},
    }
    status, content = 0, b""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, content
        if message["type"] == "http.response.start":
            answered()
            status = message["status"]
        content += message.get("body", b"")

    await server.app()(scope, receive, send)
    return status, content


def while_running(
    path: Path, work: Callable[[Server, asyncio.Task[None]], Awaitable[None]]
) -> None:
    """Do something beside the task that reads the store, from its first look on."""

    async def both() -> None:
        inbox = path.parent / "inbox"
        server = Server(
            feed.Feed(path, inbox),
            Access("127.0.0.1", token=TOKEN),
            Inbox(inbox, largest=10**6, most=9),
        )
        assert await health(server) == (503, "starting")
        looking = asyncio.create_task(server.feed.run())
        while not server.feed.looked:
            await asyncio.sleep(0.01)
        try:
            await work(server, looking)
        finally:
            server.feed.stop()
            await asyncio.wait([looking])

    asyncio.run(both())


async def health(server: Server) -> tuple[int, str]:
    """Ask for the health."""
    status, body = await ask(server, "GET /health")
    return status, json.loads(body)["status"]


async def eventually(server: Server, wanted: str) -> None:
    """Wait until the health is as it should be, and the status fits."""
    found = (0, "")
    for _ in range(400):
        found = await health(server)
        if found[1].startswith(wanted):
            break
        await asyncio.sleep(0.02)
    assert found[1].startswith(wanted)
    assert found[0] == (200 if wanted == "ok" else 503)


def test_a_task_that_has_ended_is_not_healthy(path: Path) -> None:
    """Whatever ended it; Prometheus is told, too."""

    async def work(server: Server, looking: asyncio.Task[None]) -> None:
        assert await health(server) == (200, "ok")
        looking.cancel()
        await asyncio.wait([looking])
        assert await health(server) == (503, "reading of the store has ended")
        _, metrics = await ask(server, "GET /metrics")
        assert b"gofstream_store_readable 0\n" in metrics

    while_running(path, work)


def test_a_look_that_takes_too_long_is_not_healthy(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file server that does not answer; it is healthy again when it does."""
    monkeypatch.setattr(feed, "STALE", 0.6)

    async def work(server: Server, looking: asyncio.Task[None]) -> None:
        stuck = asyncio.create_task(server.feed.in_thread(lambda: time.sleep(1.2)))
        await eventually(server, "store not read for 1 s")
        await stuck
        await eventually(server, "ok")

    while_running(path, work)


def test_a_full_disk_is_not_healthy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the store or of the inbox: no batch can be written."""

    async def work(server: Server, looking: asyncio.Task[None]) -> None:
        assert await health(server) == (200, "ok")
        with monkeypatch.context() as patch:
            # No disk of today has so much room.
            patch.setattr(feed, "FULL", 1 << 60)
            await eventually(server, "disk of the store full")
        await eventually(server, "ok")

    while_running(path, work)


def test_an_error_that_nobody_expected_does_not_stop_the_page(path: Path) -> None:
    """A store whose description is none is complained of; what comes after it is shown."""
    strange = path.with_name("strange.gofs")
    Store.create(strange, {"widths": 7}, Retention("sat")).close()

    async def work(server: Server, looking: asyncio.Task[None]) -> None:
        page = server.feed.follow("")
        assert b"event: update" in await anext(page)
        path.rename(path.with_name("good.gofs"))
        strange.rename(path)
        message = await anext(page)
        while b"event: trouble" not in message or b"TypeError" not in message:
            message = await anext(page)
        assert await health(server) == (503, "store unreadable")
        path.with_name("good.gofs").rename(path)
        await eventually(server, "ok")
        while b'"fresh":true' not in message:
            message = await anext(page)
        await page.aclose()

    while_running(path, work)


def test_a_message_that_cannot_be_written_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read and could not be shown is read once more: no row is missing."""
    (tmp_path / "inbox").mkdir()
    run = Run(tmp_path / "run.gofs")
    run.add(3)

    def fail(self: feed.Feed, change: Change) -> None:
        raise ZeroDivisionError

    async def work(server: Server, looking: asyncio.Task[None]) -> None:
        page = server.feed.follow("")
        await anext(page)
        monkeypatch.setattr(feed, "RETRY", 0.1)
        with monkeypatch.context() as patch:
            patch.setattr(feed.Feed, "_take", fail)
            run.add(1)
            await eventually(server, "store unreadable")
        await eventually(server, "ok")
        message = b""
        while b"event: update" not in message:
            message = await anext(page)
        rows = json.loads(message.partition(b"data: ")[2])["rows"]
        assert [row["n"] for row in rows] == [1, 2, 3, 4]
        await page.aclose()

    with run:
        while_running(run.store.path, work)


def send_batch(server: Server, answered: Callable[[], None] = lambda: None) -> Awaitable[Answer]:
    """Send a batch with the token."""
    headers = [("Authorization", f"Bearer {TOKEN}"), ("Content-Type", NPY)]
    return ask(server, "POST /batches/run-1", headers, npy(1000), answered)


def test_a_batch_is_on_the_disk_before_the_answer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is synced, gets its name, and its folder is synced; only then it is announced."""
    steps = recorded_syncs(monkeypatch)
    before_answer: list[DiskStep] = []

    async def work(server: Server, looking: asyncio.Task[None]) -> None:
        status, _ = await send_batch(server, lambda: before_answer.extend(steps))
        assert status == 202

    while_running(path, work)
    assert_durable(before_answer, path.parent / "inbox" / "run-1.npy", len(npy(1000)))


def test_a_slow_disk_holds_nobody_else_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a batch is synced, others are answered at once."""
    fsync = os.fsync

    def slowly(file: int) -> None:
        time.sleep(0.5)
        fsync(file)

    async def work(server: Server, looking: asyncio.Task[None]) -> None:
        monkeypatch.setattr(os, "fsync", slowly)
        begun = time.monotonic()
        sending = asyncio.ensure_future(send_batch(server))
        slowest = 0.0
        while not sending.done():
            start = time.monotonic()
            await asyncio.sleep(0.01)  # as long as it takes until a request is read
            assert (await health(server))[0] == 200
            slowest = max(slowest, time.monotonic() - start)
        assert (await sending)[0] == 202
        assert time.monotonic() - begun > 1.0
        assert slowest < 0.4

    while_running(path, work)
