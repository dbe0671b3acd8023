"""Who may ask for what: names of the server, the token, and what a browser is told to refuse."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gofstream.errors import InputError

#: Names of this machine for itself.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
#: A token of fewer characters could be guessed.
SHORTEST = 16
#: What is answered to everybody: nothing of a run is in it.
OPEN = frozenset({"/health", "/page.css", "/enter", "/enter.html"})

# A name or an address, IPv6 in brackets, and a port perhaps; nothing before, between or after.
_HOST = re.compile(r"(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9._-]{1,253}))(?::[0-9]{1,5})?")
_HEADERS = {
    # Plotly writes its styles into elements; scripts come from here only.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' "
    "'unsafe-inline'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri "
    "'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True)
class Access:
    """Under which names a server answers, and which token it asks for.

    Attributes
    ----------
    host : where it listens.
    names : further names by which it is reached.
    token : for everything that changes something; beyond this machine, for everything.
    """

    host: str
    names: frozenset[str] = frozenset()
    token: str | None = None

    def __post_init__(self) -> None:
        """Refuse a server that anybody in the network could use.

        Raises
        ------
        InputError
            If it would listen to other machines without a token, or with one that is short.
        """
        if self.token is not None and (len(self.token) < SHORTEST or not self.token.isascii()):
            raise InputError(
                f"the token must have at least {SHORTEST} ASCII characters; make one with `openssl "
                "rand -hex 32`"
            )
        if not self.local and self.token is None:
            raise InputError(
                f"--host {self.host} lets other machines in, which takes a token: give "
                "--token-file, or leave --host out to serve this machine only"
            )

    @property
    def local(self) -> bool:
        """Whether only this machine can connect."""
        return _is_loopback(self.host)

    def knows(self, host: str) -> bool:
        """Tell whether a Host header names this server.

        Examples
        --------
        >>> access = Access("127.0.0.1")
        >>> access.knows("localhost:8000"), access.knows("[::1]:8000"), access.knows("evil.example")
        (True, True, False)
        >>> access.knows("127.0.0.1:8000, evil.example")
        False
        """
        found = _HOST.fullmatch(host.lower())
        return found is not None and (found[1] or found[2]) in LOOPBACK | self.names | {
            self.host.lower()
        }

    def trusts(self, authorization: str) -> bool:
        """Tell whether an Authorization header carries the token."""
        kind, _, given = authorization.partition(" ")
        return kind.lower() == "bearer" and self.is_token(given.strip())

    def is_token(self, given: str) -> bool:
        """Compare with the token, in a time that tells nothing about it."""
        if self.token is None:
            return False
        return hmac.compare_digest(given.encode(), self.token.encode())

    @property
    def pass_(self) -> str:
        """What a browser shows after it was given the token once: it allows to look only."""
        return hmac.new((self.token or "").encode(), b"gofstream page", hashlib.sha256).hexdigest()

    @property
    def cookie(self) -> str:
        """Name of the cookie that holds the pass.

        A browser keeps one set of cookies for all ports of a host: each token has its own name.
        """
        key = hmac.new((self.token or "").encode(), b"gofstream cookie", hashlib.sha256)
        return f"gofstream-{key.hexdigest()[:16]}"

    def let_in(self, cookies: str) -> bool:
        """Tell whether a browser was given the token."""
        try:
            found = SimpleCookie(cookies).get(self.cookie)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(found.value.encode(), self.pass_.encode())

    def enter(self) -> Response:
        """Send a browser that gave the token to the page, with a pass."""
        response = RedirectResponse("/", 303)
        response.set_cookie(self.cookie, self.pass_, httponly=True, samesite="strict")
        return response


class Guard:
    """Stands before the application: foreign names and strangers get no further."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await (self._refusal(scope) or self.app)(scope, receive, sealed)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy may believe the other one, and take the rest of the body for a request.
            why = "send Content-Length or Transfer-Encoding, not both"
            return refused(400, why, connection="close")
        if not self.access.knows(headers.get("host", "")):
            return refused(421, "this server is not called that; see --host and --known-as")
        if self.access.local or scope["path"] in OPEN:
            return None
        if self.access.trusts(headers.get("authorization", "")):
            return None
        if scope["method"] == "GET" and self.access.let_in(headers.get("cookie", "")):
            return None
        if scope["path"] == "/" and scope["method"] == "GET":
            return RedirectResponse("/enter.html", 303)
        return refused(401, "this takes the token: Authorization: Bearer …")


def refused(status: int, why: str, **headers: str) -> JSONResponse:
    """Say no, in one sentence."""
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return JSONResponse({"error": why}, status, named)


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
