"""The application: what each address answers."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gofstream.errors import GofstreamError, InputError, missing_extra, printable
from gofstream.serve.feed import MOST, Feed
from gofstream.serve.guard import Access, Guard, refused
from gofstream.serve.inbox import KINDS, Inbox, RefusedError, check_name
from gofstream.serve.metrics import exposition
from gofstream.stream.store import Store

#: Seconds to wait for the next piece of a body, and for all of it.
PIECE, WHOLE = 10.0, 300.0
#: Bodies that are received at a time.
AT_ONCE = 4
#: Bytes of a form or a request in JSON.
SMALL = 4096
#: Bytes of a large answer that are sent at a time.
CHUNK = 1 << 16
#: Longest name of somebody who acknowledges.
LONGEST = 80

_ACKNOWLEDGEMENT = 'send {"by": "a name", "upto": N}, where N is the number of the last batch'

_PAGE = Path(__file__).parent / "page"
_FILES = {
    "/": ("index.html", "text/html"),
    "/enter.html": ("enter.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/charts.js": ("charts.js", "text/javascript"),
}


class Server:
    """Answers for one store.

    Parameters
    ----------
    feed : what is known of the store.
    access : who may ask.
    inbox : where batches go; without one, none are taken.
    """

    def __init__(self, feed: Feed, access: Access, inbox: Inbox | None) -> None:
        self.feed = feed
        self.access = access
        self.inbox = inbox
        self._receiving = 0
        self._checking = asyncio.Lock()

    def app(self) -> Starlette:
        """Put the addresses together."""
        return Starlette(
            routes=[
                *(Route(path, _file) for path in _FILES),
                Route("/plotly.js", _plotly),
                Route("/enter", self.enter, methods=["POST"]),
                Route("/live", self.live),
                Route("/batches", self.batches),
                Route("/batches/{name}", self.post, methods=["POST"]),
                Route("/alarms/acknowledge", self.acknowledge, methods=["POST"]),
                Route("/metrics", self.metrics),
                Route("/health", self.health),
            ],
            middleware=[Middleware(Guard, access=self.access)],
            exception_handlers={HTTPException: _plain_error, GofstreamError: _own_error},
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        looking = asyncio.create_task(self.feed.run())
        yield
        self.feed.stop()
        await looking

    async def enter(self, request: Request) -> Response:
        """Take the token from the form of a browser."""
        given = parse_qs((await _small(request)).decode("utf-8", "replace")).get("token", [""])[0]
        if not self.access.is_token(given.strip()):
            return refused(401, "this is not the token")
        return self.access.enter()

    async def live(self, request: Request) -> Response:
        """Tell a page all that is new, until it goes away."""
        mark = request.headers.get("last-event-id") or request.query_params.get("after", "")
        return _Live(self.feed, mark[:64])

    async def batches(self, request: Request) -> Response:
        """Give a page of the table."""
        text = request.query_params.get("before", "")
        if not (text.isdecimal() and len(text) < 16):
            return refused(400, "say before which batch: /batches?before=100")
        rows = await self.feed.in_thread(lambda: self.feed.follower.page(int(text)))
        return JSONResponse({"rows": rows})

    async def post(self, request: Request) -> Response:
        """Take a batch into the inbox."""
        self._check_token(request)
        if self.inbox is None:
            return refused(403, "this server takes no batches: it was started without --inbox")
        name = check_name(request.path_params["name"])
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in KINDS:
            return refused(415, f"a batch is one of {', '.join(KINDS)}; say which as Content-Type")
        if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
            return refused(415, "send the batch as it is, without Content-Encoding")
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self.inbox.largest:
            return refused(413, f"a batch may have {self.inbox.largest:,} bytes at most")
        await asyncio.to_thread(self.inbox.check_room)
        if self._receiving >= AT_ONCE:
            return refused(429, "other batches are being received; try again", retry_after="1")
        self._receiving += 1
        try:
            size = await self._take(self.inbox, request, name, kind)
        finally:
            self._receiving -= 1
        return JSONResponse({"name": name, "bytes": size}, 202)

    async def _take(self, inbox: Inbox, request: Request, name: str, kind: str) -> int:
        try:
            partial = await inbox.receive(_body(request))
            # One at a time: what is checked may take several times its size of memory.
            async with self._checking:
                return await asyncio.to_thread(inbox.accept, partial, name, kind)
        except OSError as error:
            raise RefusedError(507, f"the batch cannot be written ({error.strerror})") from error

    async def acknowledge(self, request: Request) -> Response:
        """Write down that somebody has seen all alarms up to a batch."""
        self._check_token(request)
        by, upto = _acknowledgement(await _small(request))
        done = await asyncio.to_thread(_acknowledge, self.feed.follower.path, by, upto)
        return JSONResponse({"acknowledged": done})

    async def metrics(self, request: Request) -> Response:
        """Answer Prometheus."""
        feed = self.feed
        readable = feed.store_health == "ok"
        text = exposition(feed.status, readable=readable, waiting=feed.waiting, pages=feed.pages)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def health(self, request: Request) -> Response:
        """Say whether the store is read and batches can be written, and how old the last one is."""
        health, status = self.feed.health, self.feed.status
        arrived = None if status is None else status.ledger.arrived
        content = {
            "status": health,
            "age": None if arrived is None else round(time.time() - arrived, 3),
        }
        return JSONResponse(content, 200 if health == "ok" else 503)

    def _check_token(self, request: Request) -> None:
        if self.access.token is None:
            raise RefusedError(403, "this server only shows: it was started without --token-file")
        # A form of another site cannot send this header, so nobody acts in a user's name.
        if not self.access.trusts(request.headers.get("authorization", "")):
            raise RefusedError(401, "this takes the token: Authorization: Bearer …")
        request.state.trusted = True


class _Live(StreamingResponse):
    """The messages of one page; refused if too many pages are open."""

    def __init__(self, feed: Feed, mark: str) -> None:
        super().__init__(feed.follow(mark), media_type="text/event-stream")
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a place among the pages for as long as the messages last."""
        # Nothing is awaited between the question and the answer: two cannot take the last place.
        if self._feed.pages >= MOST:
            full = refused(503, f"{MOST} pages are open already", retry_after="30")
            await full(scope, receive, send)
            return
        self._feed.pages += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feed.pages -= 1


def _acknowledgement(body: bytes) -> tuple[str, int]:
    """Read who acknowledges, and up to which batch."""
    try:
        content = json.loads(body)
        by, upto = content["by"], content["upto"]
    # RecursionError: thousands of brackets.
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RefusedError(400, _ACKNOWLEDGEMENT) from error
    if not isinstance(by, str) or type(upto) is not int or not 0 < upto < 1 << 63:
        raise RefusedError(400, _ACKNOWLEDGEMENT)
    by = by.strip()
    if not by or len(by) > LONGEST or not by.isprintable():
        raise RefusedError(400, f"give a name of 1 to {LONGEST} printable characters")
    return by, upto


def _acknowledge(path: Path, by: str, upto: int) -> list[int]:
    with Store(path) as store:
        seen = [a.batch for a in store.alarms() if a.acknowledged is None and a.batch <= upto]
        for batch in seen:
            store.acknowledge(batch, by, time.time())
    return seen


async def _body(request: Request) -> AsyncIterator[bytes]:
    """Give the pieces of a body, unless they are too slow in coming."""
    pieces = aiter(request.stream())
    end = time.monotonic() + WHOLE
    while True:
        try:
            async with asyncio.timeout(min(PIECE, end - time.monotonic())):
                piece = await anext(pieces, None)
        except TimeoutError as error:
            raise RefusedError(408, "this came too slowly; try again") from error
        except ClientDisconnect as error:
            raise RefusedError(400, "the request ended before it was whole") from error
        if piece is None:
            return
        yield piece


async def _small(request: Request) -> bytes:
    """Give a body that has no reason to be large."""
    content = b""
    async for piece in _body(request):
        content += piece
        if len(content) > SMALL:
            raise RefusedError(413, f"this may have {SMALL} bytes at most")
    return content


async def _file(request: Request) -> Response:
    name, kind = _FILES[request.url.path]
    return Response((_PAGE / name).read_bytes(), media_type=kind)


async def _plotly(request: Request) -> Response:
    headers = {"cache-control": "private, max-age=86400", "vary": "accept-encoding"}
    packed = "gzip" in request.headers.get("accept-encoding", "")
    if packed:
        headers["content-encoding"] = "gzip"
    content = await asyncio.to_thread(_plotly_content, packed)
    headers["content-length"] = str(len(content))

    # In chunks: whoever does not read the answer costs one of them, and not the whole.
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(content), CHUNK):
            yield content[start : start + CHUNK]

    return StreamingResponse(chunks(), headers=headers, media_type="text/javascript")


@cache
def _plotly_content(packed: bool) -> bytes:
    content = plotly_script().read_bytes()
    return gzip.compress(content, 6) if packed else content


def plotly_script() -> Path:
    """Find plotly.js as it comes with the plotly package.

    Raises
    ------
    GofstreamError
        If it is not installed.
    """
    found = find_spec("plotly")
    if found is None or found.origin is None:
        raise missing_extra("plotly", "serve")
    return Path(found.origin).parent / "package_data" / "plotly.min.js"


async def _plain_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return refused(error.status_code, f"{error.detail.lower()}", **(dict(error.headers or {})))


async def _own_error(request: Request, error: Exception) -> Response:
    """Turn our own errors into answers of one sentence."""
    if isinstance(error, RefusedError):
        later = {"retry_after": "10"} if error.status == 429 else {}
        return refused(error.status, str(error), **later)
    return refused(400 if isinstance(error, InputError) else 503, printable(str(error)))
