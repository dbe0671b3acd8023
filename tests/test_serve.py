"""The server: what it answers, whom it refuses, and that a store is never the worse for it."""

from __future__ import annotations

import gzip
import io
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runs import LEVEL, Run
from tests.serving import BEARER, TOKEN, Serving, serving, until

from gofstream.cli import cli
from gofstream.errors import InputError
from gofstream.io import read
from gofstream.serve.feed import MOST as PAGES
from gofstream.serve.guard import Access
from gofstream.serve.run import listen
from gofstream.stream.reader import Reader
from gofstream_studies.chaos.judge import everything

NPY = "application/x-npy"
PARQUET = "application/vnd.apache.parquet"
STREAM = "application/vnd.apache.arrow.stream"
LARGEST = 200_000
#: More than the tests below leave in the inbox, but for the one that fills it.
MOST = 12
COOKIE = Access("127.0.0.1", token=TOKEN).cookie


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a store, a token and an inbox."""
    made = tmp_path_factory.mktemp("serve")
    (made / "token").write_text(TOKEN + "\n")
    (made / "inbox").mkdir()
    with Run(made / "run.gofs") as run:
        run.add(60)
        run.alarm()
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Serving]:
    """Serve it; whatever was asked, the store is at the end what it was at the beginning."""
    before = everything(folder / "run.gofs")
    with serving(
        folder / "run.gofs",
        *("--token-file", str(folder / "token"), "--inbox", str(folder / "inbox")),
        *("--largest", "200kB", "--waiting", str(MOST), "--known-as", "control-room"),
    ) as started:
        yield started
        assert started.stop() == 0
    assert everything(folder / "run.gofs") == before


@pytest.fixture
def inbox(folder: Path) -> Iterator[Path]:
    """Give the inbox; nothing half-written may be left in it."""
    yield folder / "inbox"
    assert not [path for path in (folder / "inbox").iterdir() if path.name.startswith(".")]
    for path in (folder / "inbox").glob("*.*"):
        path.unlink()


def npy(rows: int = 50) -> bytes:
    """Write some events as NumPy does."""
    file = io.BytesIO()
    np.save(file, np.random.default_rng(1).normal(size=(rows, 3)))
    return file.getvalue()


def table(rows: int = 50) -> pa.Table:
    """Make some events with names."""
    rng = np.random.default_rng(1)
    return pa.table({name: rng.normal(size=rows) for name in ("m", "pt")})


def parquet(content: pa.Table) -> bytes:
    """Write events as Parquet."""
    file = io.BytesIO()
    pq.write_table(content, file)
    return file.getvalue()


def arrow(content: pa.Table, make: Any = pa.ipc.new_stream) -> bytes:
    """Write events as Arrow IPC."""
    file = io.BytesIO()
    with make(file, content.schema) as writer:
        writer.write_table(content)
    return file.getvalue()


def post(server: Serving, name: str, body: Any, kind: str = NPY, **headers: str) -> Any:
    """Send a batch with the token."""
    return server.ask("POST", f"/batches/{name}", body, Content_Type=kind, **(BEARER | headers))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:1234", 200),
        ("[::1]:80", 200),
        ("Control-Room:8765", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.nip.io", 421),
        ("127.0.0.1:8810, evil.example", 421),
        ("127.0.0.1, evil", 421),
        ("localhost:evil.example", 421),
        ("localhost:80:80", 421),
        ("localhost:", 421),
        ("localhost/evil", 421),
        ("evil@localhost", 421),
        ("[::1]evil", 421),
        ("[::1]:80 evil", 421),
        ("::1", 421),
        ("", 421),
    ],
)
def test_only_known_names_are_answered(server: Serving, host: str, status: int) -> None:
    """A page of another site that points its name here gets nothing."""
    for path in ("/", "/live?after=x", "/metrics", "/health", "/batches?before=9"):
        if path.startswith("/live") and status == 200:
            continue
        assert server.get(path, Host=host).status == status


def test_every_answer_tells_the_browser_what_to_refuse(server: Serving) -> None:
    """Scripts from elsewhere, frames, guesses about types; also where the answer is no."""
    for path in ("/", "/page.js", "/charts.js", "/plotly.js", "/metrics", "/nowhere"):
        headers = server.get(path).headers
        assert "script-src 'self';" in headers["content-security-policy"]
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/page/../app.py",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/page/",
        "/app.py",
        "/index.html",
    ],
)
def test_no_other_file_is_given(server: Serving, path: str) -> None:
    """Only the files of the page have addresses; there are no listings."""
    answer = server.get(path)
    assert answer.status in (404, 405)
    assert set(answer.json) == {"error"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Cookie": f"{COOKIE}={TOKEN}"},
        {"Authorization": "Bearer t\xf6ken"},
    ],
)
def test_without_the_token_nothing_is_taken(
    server: Serving, inbox: Path, headers: dict[str, str]
) -> None:
    """Neither a batch nor an acknowledgement."""
    for path, body in (("/batches/a", npy()), ("/alarms/acknowledge", b'{"by": "x", "upto": 99}')):
        answer = server.ask("POST", path, body, Content_Type=NPY, **headers)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    assert list(inbox.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "body", "suffix"),
    [
        (NPY, npy(), ".npy"),
        (PARQUET, parquet(table()), ".parquet"),
        (STREAM, arrow(table()), ".arrow"),
        ("application/vnd.apache.arrow.file", arrow(table(), pa.ipc.new_file), ".arrow"),
        (f"{NPY}; charset=binary", npy(1), ".npy"),
    ],
)
def test_a_batch_reaches_the_inbox_as_it_was_sent(
    server: Serving, inbox: Path, kind: str, body: bytes, suffix: str
) -> None:
    """Byte by byte, under its name; gofstream reads what it says it can read."""
    answer = post(server, "run%207%20%C3%BC-0001", body, kind)
    assert (answer.status, answer.json) == (202, {"name": "run 7 ü-0001", "bytes": len(body)})
    (path,) = inbox.iterdir()
    assert path.name == f"run 7 ü-0001{suffix}"
    assert path.read_bytes() == body
    assert len(read(path).sample) in (1, 50)


def test_a_batch_that_is_learnt_at_once(server: Serving, inbox: Path) -> None:
    """Its file may be gone before the sender is told."""
    done = threading.Event()

    def learn() -> None:
        while not done.is_set():
            for path in inbox.glob("fast-*"):
                path.unlink()

    learner = threading.Thread(target=learn)
    learner.start()
    try:
        told = []
        for number in range(40):
            # On a busy machine the learner may be late, and the inbox full.
            until(lambda: len(list(inbox.glob("fast-*"))) < MOST // 2)
            told.append(post(server, f"fast-{number}", npy(), NPY).status)
    finally:
        done.set()
        learner.join()
    assert told == [202] * 40


@pytest.mark.parametrize(
    "name",
    [
        "..",
        ".hidden",
        "..%2F..%2Fetc%2Fpasswd",
        "%2Fetc%2Fpasswd",
        "..%5C..%5Cx",
        "a%00b",
        "a%0Ab",
        "%1b%5B31m",
        "%20a",
        "x" * 193,
        "%C3%BC" * 97,
        "%E2%80%AEgnp",
    ],
)
def test_names_that_lead_elsewhere_are_refused(server: Serving, inbox: Path, name: str) -> None:
    """Folders, hidden files, control characters, and what no file can be called."""
    answer = post(server, name, npy())
    assert answer.status in (400, 404)
    assert set(answer.json) == {"error"}
    assert list(inbox.iterdir()) == []
    assert not (inbox.parent / "etc").exists()


def objects() -> bytes:
    """Write a NumPy file that runs code when it is unpickled."""
    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return file.getvalue()


MALFORMED = [
    (NPY, b""),
    (NPY, b"x" * 100),
    (NPY, npy()[:-1]),
    (NPY, objects()),
    (NPY, parquet(table())),
    (PARQUET, npy()),
    (PARQUET, parquet(table())[:-5]),
    (PARQUET, b"PAR1" + bytes(50) + b"PAR1"),
    (PARQUET, parquet(pa.table({"name": ["a", "b"]}))),
    # 30 million zeros, which Parquet packs into some kilobytes.
    (PARQUET, parquet(pa.table({"x": np.zeros(30_000_000, np.int8)}))),
    (STREAM, arrow(table())[:300]),
    (STREAM, b"\xff" * 200),
    (STREAM, bytes(64)),
    (STREAM, parquet(table())),
]


@pytest.mark.parametrize(("kind", "body"), MALFORMED, ids=range(len(MALFORMED)))
def test_what_cannot_be_read_is_refused(
    server: Serving, inbox: Path, kind: str, body: bytes
) -> None:
    """Cut, foreign, empty, of another kind, pickled, or swelling when unpacked."""
    assert len(body) < LARGEST
    answer = post(server, "a", body, kind)
    assert answer.status == 400
    assert "partial" not in answer.json["error"]
    assert list(inbox.iterdir()) == []


def test_other_kinds_are_refused(server: Serving, inbox: Path) -> None:
    """A pickle, say, or nothing at all."""
    for kind in ("application/octet-stream", "text/csv", ""):
        assert post(server, "a", npy(), kind).status == 415
    assert list(inbox.iterdir()) == []


def test_large_bodies_are_refused(server: Serving, inbox: Path) -> None:
    """Whether they say how large they are, or not."""
    assert post(server, "a", npy(20_000)).status == 413
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(
            f"POST /batches/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Type: {NPY}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        for _ in range(LARGEST // 50_000 + 1):
            connection.sendall(b"c350\r\n" + bytes(50_000) + b"\r\n")
        assert connection.recv(12) == b"HTTP/1.1 413"
    assert server.ask("POST", "/alarms/acknowledge", b"x" * 5000, **BEARER).status == 413
    until(lambda: list(inbox.iterdir()) == [])


@pytest.mark.parametrize("path", ["/batches/a", "/alarms/acknowledge", "/", "/health"])
def test_two_lengths_of_a_body_are_refused(server: Serving, inbox: Path, path: str) -> None:
    """A proxy may believe one and the server the other; nothing after them is a request."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Type: {NPY}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
            "0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"not both" in answer
    assert list(inbox.iterdir()) == []


def test_packed_bodies_are_refused(server: Serving, inbox: Path) -> None:
    """A batch is what was sent: nothing is unpacked on the way."""
    body = gzip.compress(npy())
    assert post(server, "a", body, Content_Encoding="gzip").status == 415
    assert post(server, "a", body).status == 400
    assert list(inbox.iterdir()) == []
    assert post(server, "a", npy(), Content_Encoding="identity").status == 202


def test_no_more_pages_than_there_are_places(tmp_path: Path) -> None:
    """All ask at once; when one goes, another is let in."""
    with Run(tmp_path / "run.gofs") as run:
        run.add(1)
    ask = b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(tmp_path / "run.gofs") as server, ExitStack() as stack:
        pages = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
            for _ in range(PAGES + 25)
        ]
        for page in pages:
            page.sendall(ask)
        told = [page.recv(12).removeprefix(b"HTTP/1.1 ") for page in pages]
        assert (told.count(b"200"), told.count(b"503")) == (PAGES, 25)
        assert f"gofstream_pages {PAGES}\n" in server.get("/metrics").body.decode()
        pages[told.index(b"200")].close()
        until(lambda: "gofstream_pages 199\n" in server.get("/metrics").body.decode())
        assert server.get("/health").status == 200
        with server.live() as messages:
            assert next(messages)[0] == "update"


def test_a_batch_that_breaks_off_leaves_nothing(server: Serving, inbox: Path) -> None:
    """Half a body, and the line goes dead."""
    body = npy()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(
            f"POST /batches/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Type: {NPY}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body[: len(body) // 2]
        )
        until(lambda: any(path.name.startswith(".") for path in inbox.iterdir()))
    until(lambda: list(inbox.iterdir()) == [])


def test_the_inbox_is_bounded_and_names_are_taken_once(server: Serving, inbox: Path) -> None:
    """The same name waits once, whatever its kind; when too many wait, come back later."""
    assert post(server, "batch-0", npy()).status == 202
    assert post(server, "batch-0", npy()).status == 409
    assert post(server, "batch-0", parquet(table()), PARQUET).status == 409
    # These do not count.
    (inbox / "quarantine").mkdir()
    (inbox / "batch-0.json").write_text('{"expected": 50}')
    for number in range(1, MOST):
        assert post(server, f"batch-{number}", npy(number)).status == 202
    full = post(server, "one-more", npy())
    assert full.status == 429
    assert int(full.headers["retry-after"]) > 0
    until(lambda: f"gofstream_inbox_files {MOST}\n" in server.get("/metrics").body.decode())
    (inbox / "quarantine").rmdir()
    (inbox / "batch-3.npy").unlink()
    assert post(server, "one-more", npy()).status == 202
    assert (inbox / "one-more.npy").exists()


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"by": "x"}', b'{"by": "", "upto": 9}', b'{"by": "a\\u0007", "upto": 9}',
     b'{"by": "x", "upto": "later"}', b'{"by": "' + b"x" * 81 + b'", "upto": 9}', b"\xff\xfe",
     b'{"by": "x", "upto": Infinity}', b'{"by": "x", "upto": 1e999}', b'{"by": "x", "upto": NaN}',
     b"[" * 4000, b'{"by": ' + b"[" * 4000, b'{"by": "x", "upto": true}', b'{"by": 7, "upto": 99}',
     b'{"by": "x", "upto": ' + b"9" * 4050 + b"}", b'{"by": "\\ud800", "upto": 99}'],
)  # fmt: skip
def test_an_acknowledgement_that_makes_no_sense_is_refused(server: Serving, body: bytes) -> None:
    """The alarm stays open."""
    assert server.ask("POST", "/alarms/acknowledge", body, **BEARER).status == 400
    assert "gofstream_alarms_open 1\n" in server.get("/metrics").body.decode()


def test_metrics_are_what_the_store_holds(server: Serving, folder: Path) -> None:
    """In the text format of Prometheus, each with its meaning, against the ledger."""
    answer = server.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.body.decode().splitlines()
    values = {}
    for line in lines:
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert re.fullmatch(r'[a-z_]+(\{[a-z]+="[a-z]+"\})?', name)
            values[name] = float(value)
            assert any(other.startswith(f"# TYPE {name.partition('{')[0]} ") for other in lines)
    with Reader(folder / "run.gofs") as reader:
        entries, head = reader.entries(), reader.head()
        last = entries[-1]
    for state in ("learnt", "unmonitored", "skipped", "quarantined"):
        count = sum(entry.state == state for entry in entries)
        assert values[f'gofstream_batches_total{{state="{state}"}}'] == count
    assert values["gofstream_events_total"] == sum(entry.events for entry in entries)
    assert values["gofstream_u_highest"] == max(s.u for s in last.statistics if s.u is not None)
    assert values["gofstream_u_boundary"] == LEVEL
    assert values["gofstream_alarms_total"] == values["gofstream_alarms_open"] == 1
    assert values["gofstream_last_batch_timestamp_seconds"] == last.arrived
    assert values['gofstream_store_bytes{part="models"}'] == head.model_bytes
    assert values['gofstream_store_bytes{part="events"}'] == head.event_bytes


def test_pages_of_the_table(server: Serving) -> None:
    """The latest first, as many as fit, and no further than the first."""
    found = server.get("/batches?before=30").json["rows"]
    assert [row["n"] for row in found] == list(range(29, 4, -1))
    assert [row["n"] for row in server.get("/batches?before=3").json["rows"]] == [2, 1]
    assert server.get("/batches?before=1").json["rows"] == []
    assert server.get("/batches?before=999999").json["rows"][0]["n"] == 61
    for wrong in ("", "x", "-1", "1e3", "9" * 40):
        assert server.get(f"/batches?before={wrong}").status == 400


def test_a_page_hears_only_what_is_new(tmp_path: Path) -> None:
    """By the mark of what it heard last; a page of another run starts afresh."""
    path = tmp_path / "run.gofs"
    with Run(path) as run:
        run.add(40)
        with serving(path, "--inbox", str(tmp_path)) as server:
            # Without a token it only shows.
            assert post(server, "a", npy()).status == 403
            assert server.ask("POST", "/alarms/acknowledge", b"{}", **BEARER).status == 403
            with server.live() as messages:
                kind, content, mark = next(messages)
                assert kind == "update"
                assert content["fresh"]
                assert [row["n"] for row in content["rows"]] == list(range(1, 41))
                assert ["name" in row for row in content["rows"]] == [False] * 15 + [True] * 25
                run.add(2)
                rows = []
                while len(rows) < 2:
                    kind, more, last = next(messages)
                    if kind == "update":
                        assert not more["fresh"]
                        rows += more["rows"]
                assert [row["n"] for row in rows] == [41, 42]
            with server.live(mark) as messages:
                _, content, again = next(messages)
                assert [row["n"] for row in content["rows"]] == [41, 42]
                assert again == last
            for foreign in ("40-0123456789abcdef", "999-0", "x", "-1", "9" * 60):
                with server.live(foreign) as messages:
                    assert next(messages)[1]["fresh"]


def test_a_store_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    """It says so, and goes on; another file in its place is shown from its beginning."""
    path, other = tmp_path / "run.gofs", tmp_path / "other.gofs"
    for each, count in ((path, 3), (other, 5)):
        with Run(each) as run:
            run.add(count)
    with serving(path, "--log", "json") as server, server.live() as messages:
        assert next(messages)[1]["now"]["batches"] == 3
        path.rename(tmp_path / "away")
        content = next(content for kind, content, _ in messages if kind == "trouble")
        assert "run.gofs" in content["text"]
        assert server.get("/health").status == 503
        assert "gofstream_store_readable 0\n" in server.get("/metrics").body.decode()
        other.rename(path)
        content = next(content for kind, content, _ in messages if kind == "update")
        assert content["fresh"]
        assert [row["n"] for row in content["rows"]] == [1, 2, 3, 4, 5]
        assert server.get("/health").json["status"] == "ok"
        # A page is open, and yet it stops, with success; all it said is JSON.
        assert server.stop() == 0
        assert {json.loads(line)["level"] for line in server.log} >= {"info", "error"}


def test_other_machines_are_let_in_with_the_token_only(tmp_path: Path) -> None:
    """Without one it does not start; with one, everything but its health takes it."""
    path = tmp_path / "run.gofs"
    with Run(path) as run:
        run.add(1)
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "short").write_text("password")
    for options in (("--host", "0.0.0.0"), ("--token-file", str(tmp_path / "short"))):
        with pytest.raises(InputError, match="token"):
            cli(["serve", str(path), *options], standalone_mode=False)
    with serving(path, "--host", "0.0.0.0", "--token-file", str(tmp_path / "token")) as server:
        for place in ("/live", "/metrics", "/batches?before=2", "/page.js", "/plotly.js"):
            assert server.get(place).status == 401
        assert server.get("/").headers["location"] == "/enter.html"
        assert b'name="token"' in server.get("/enter.html").body
        assert server.get("/metrics", **BEARER).status == 200
        assert server.ask("POST", "/enter", "token=wrong").status == 401
        entered = server.ask("POST", "/enter", f"token={TOKEN.replace(' ', '+')}")
        assert entered.status == 303
        cookie = entered.headers["set-cookie"]
        assert TOKEN not in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        shown = {"Cookie": cookie.partition(";")[0]}
        other = Access("127.0.0.1", token=TOKEN + "2").cookie
        assert shown["Cookie"].startswith(f"{COOKIE}=")
        assert other != COOKIE
        assert server.get("/", **shown).status == 200
        assert server.get("/metrics", **shown).status == 200
        # The pass lets one look, and no more.
        assert server.ask("POST", "/alarms/acknowledge", b"{}", **shown).status == 401
        assert server.get("/metrics", Cookie=f"{COOKIE}=guess").status == 401
        # A browser sends the passes of all servers of a host to each of them.
        both = {"Cookie": f"{other}=x; " + shown["Cookie"]}
        assert server.get("/metrics", **both).status == 200


def test_a_port_in_use_is_an_error(server: Serving) -> None:
    """Which the command line shows as one message."""
    with pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", server.port)
