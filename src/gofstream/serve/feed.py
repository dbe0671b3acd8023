"""One task reads the store, every open page is told: pages never read it themselves."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from gofstream.errors import GofstreamError
from gofstream.sample import Sample
from gofstream.serve import where
from gofstream.serve.follower import HISTORY, PAGE, Change, Follower
from gofstream.serve.inbox import count_waiting
from gofstream.stream.status import RunStatus

T = TypeVar("T")

#: Seconds between two looks at the store: a page is up to date well within a second.
INTERVAL = 0.25
#: Seconds between signs of life, and after which a page that missed them calls itself lost.
PULSE = 5.0
#: Seconds to wait after a store could not be read.
RETRY = 2.0
#: Seconds without a look at the store after which the page cannot be relied on.
STALE = 30.0
#: Bytes free below which a disk counts as full: the next checkpoint may not fit.
FULL = 64 * 1024**2
#: Messages that wait for a slow page; beyond, it is sent away and catches up when it comes back.
PATIENCE = 64
#: Pages at a time.
MOST = 200
#: After the learnt ratio was computed, rest for so many times as long: the learner needs the cores.
REST = 30

_log = logging.getLogger("gofstream.serve")


class Feed:
    """What all pages are told, in the words of server-sent events.

    Parameters
    ----------
    path : the store.
    inbox : the folder that takes batches, if there is one.
    reference : the reference of the run, to evaluate models on.
    """

    def __init__(
        self,
        path: Path,
        inbox: Path | None = None,
        reference: Sample | None = None,
    ) -> None:
        self.follower = Follower(path)
        self.inbox = inbox
        #: Batches in the inbox, if there is one.
        self.waiting: int | None = None
        self.reference = reference
        #: How the run stands, and what the page shows of that; nothing before the first look.
        self.status: RunStatus | None = None
        self.page: dict[str, Any] = {}
        #: Pages that are open.
        self.pages = 0
        #: Why the store cannot be read, if it cannot.
        self.trouble = ""
        #: Which disk is full, if one is.
        self.full = ""
        #: Whether `run` is at work, and when it last read the store (monotonic seconds).
        self.running, self.looked = False, 0.0
        self._rows: deque[tuple[str, dict[str, Any]]] = deque(maxlen=HISTORY)
        self._whole: bytes | None = None
        self._where: bytes = b""
        self._where_of: tuple[int, int] | None = None
        self._pages: set[asyncio.Queue[bytes | None]] = set()
        self._stopped = asyncio.Event()
        # SQLite wants a connection to stay in its thread.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")

    async def run(self) -> None:
        """Look at the store until stopped."""
        pulsed, wheres = 0.0, asyncio.create_task(self._keep_locating())
        self.running = True
        try:
            while not self._stopped.is_set():
                await self._look()
                if time.monotonic() - pulsed >= PULSE:
                    self._tell(_message("pulse", self._beat()))
                    pulsed = time.monotonic()
                await self._pause(RETRY if self.trouble else INTERVAL)
        finally:
            self.running = False
            self.stop()
            await wheres
            await self.in_thread(self.follower.close)
            self._thread.shutdown()

    @property
    def store_health(self) -> str:
        """How well the store can be shown: "ok", or what is wrong."""
        if not self.running:
            return "starting" if not self._stopped.is_set() else "reading of the store has ended"
        if self.looked and (since := time.monotonic() - self.looked) > STALE:
            return f"store not read for {since:.0f} s"
        if self.trouble:
            return "store unreadable"
        return "ok" if self.page else "starting"

    @property
    def health(self) -> str:
        """How well the server works: "ok", or what is wrong."""
        return self.full or "ok" if self.store_health == "ok" else self.store_health

    def stop(self) -> None:
        """Send all pages away; they come back by themselves if there is a server again."""
        self._stopped.set()
        for page in self._pages:
            _last_word(page)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do something with the store, in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def follow(self, mark: str) -> AsyncIterator[bytes]:
        """Give the messages for one page, from the first it has not seen.

        Parameters
        ----------
        mark : of the last message it has seen; empty if it has none.
        """
        page: asyncio.Queue[bytes | None] = asyncio.Queue(PATIENCE)
        # No waiting between these lines: nothing new can fall between history and queue.
        self._pages.add(page)
        start = [self._since(mark), self._where]
        if self.trouble:
            start.append(_message("trouble", {"text": self.trouble}))
        if self._stopped.is_set():
            _last_word(page)
        try:
            yield b"retry: 1000\n\n" + b"".join(start)
            while (message := await page.get()) is not None:
                yield message
        finally:
            self._pages.discard(page)

    async def _look(self) -> None:
        try:
            change = await self.in_thread(self._look_in_thread)
            recovered, self.trouble = bool(self.trouble), ""
            if change is not None:
                self._take(change)
            elif recovered:
                self._tell(self._since(self._mark))
        except GofstreamError as error:
            self._complain(str(error), None)
        except Exception as error:  # a page that stands still in silence would be worse
            why = f"the run cannot be shown: {type(error).__name__}: {error}"
            self._complain(f"{why}; see the log of the server", error)
            # What was read and not shown is read again.
            await self.in_thread(self.follower.close)
        self.looked = time.monotonic()

    def _look_in_thread(self) -> Change | None:
        """Look at the disks, the inbox and the store."""
        self.full = _full_disk(store=self.follower.path.parent, inbox=self.inbox)
        self.waiting = None if self.inbox is None else count_waiting(self.inbox)
        return self.follower.look()

    def _complain(self, trouble: str, error: Exception | None) -> None:
        """Tell pages and log of a trouble, once for as long as it lasts."""
        if trouble != self.trouble:
            _log.error("%s", trouble, exc_info=error)
            self.trouble = trouble
            self._tell(_message("trouble", {"text": trouble}))

    def _take(self, change: Change) -> None:
        if change.fresh:
            self._rows.clear()
        self._rows.extend(change.rows)
        self.status, self.page, self._whole = change.status, change.page, None
        if change.fresh:
            self._tell(self._all())
        else:
            self._tell(self._update([row for _, row in change.rows], fresh=False))

    @property
    def _mark(self) -> str:
        return self._rows[-1][0] if self._rows else "0"

    def _since(self, mark: str) -> bytes:
        """Give what came after a mark; everything to a page of another run, or far behind."""
        if not self.page:
            return b""
        text = mark.partition("-")[0]
        first = self._rows[0][1]["n"] if self._rows else 0
        place = int(text) - first if text.isdecimal() and len(text) < 18 else -1
        if not 0 <= place < len(self._rows) or self._rows[place][0] != mark:
            return self._all()
        return self._update([row for _, row in list(self._rows)[place + 1 :]], fresh=False)

    def _all(self) -> bytes:
        """Give the whole history, written once for all pages that ask before the next batch."""
        if self._whole is None:
            rows = [row for _, row in self._rows]
            slim = [{key: row[key] for key in ("n", "state", "total", "u")} for row in rows[:-PAGE]]
            self._whole = self._update(slim + rows[-PAGE:], fresh=True)
        return self._whole

    def _update(self, rows: list[dict[str, Any]], *, fresh: bool) -> bytes:
        content = {"fresh": fresh, "rows": rows, "now": self.page, **self._beat()}
        return _message("update", content, self._mark)

    def _beat(self) -> dict[str, Any]:
        """Give what changes without a batch: the time, and the files that wait."""
        return {"time": time.time(), "waiting": self.waiting}

    def _tell(self, message: bytes) -> None:
        for page in self._pages:
            try:
                page.put_nowait(message)
            except asyncio.QueueFull:
                _last_word(page)

    async def _keep_locating(self) -> None:
        """Compute the learnt ratio after new batches, seldom enough to leave the learner alone."""
        while not self._stopped.is_set():
            took = 0.0
            wanted = (self.page.get("learnt") or 0, self.page.get("width") or 0)
            if wanted[0] and wanted != self._where_of:
                start = time.monotonic()
                await self._locate(*wanted)
                took = time.monotonic() - start
            await self._pause(max(INTERVAL, REST * took))

    async def _locate(self, last: int, width: int) -> None:
        self._where_of = (last, width)
        try:
            count = self.page["window"] or PAGE
            kept = await self.in_thread(lambda: self.follower.models(last, count))
            found = await asyncio.to_thread(where.describe, kept, width, self.reference)
        except GofstreamError as error:
            found = {"columns": [], "words": f"The models cannot be shown: {error}"}
        except Exception as error:  # the rest of the page goes on
            _log.error("the models cannot be shown", exc_info=error)
            why = f"{type(error).__name__}: {error}; see the log of the server"
            found = {"columns": [], "words": f"The models cannot be shown: {why}"}
        self._where = _message("where", found)
        self._tell(self._where)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            pass


def _full_disk(**folders: Path | None) -> str:
    """Say which of these folders lies on a full disk; nothing if none does."""
    for name, folder in folders.items():
        with suppress(OSError):  # whatever else is wrong, reading or writing there says so
            if folder is not None and shutil.disk_usage(folder).free < FULL:
                return f"disk of the {name} full"
    return ""


def _last_word(page: asyncio.Queue[bytes | None]) -> None:
    """End the messages of a page, whatever still waits for it."""
    while page.full():
        page.get_nowait()
    page.put_nowait(None)


def _message(kind: str, content: dict[str, Any], mark: str = "") -> bytes:
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True)
    head = f"id: {mark}\n" if mark else ""
    return f"{head}event: {kind}\ndata: {text}\n\n".encode()
