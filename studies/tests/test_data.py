"""`gofstream data`, and downloads from a real server on this machine."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from click.testing import CliRunner

from gofstream.cli import cli, main
from gofstream.datasets import expo1d
from gofstream.errors import FetchError, InputError
from gofstream_studies.datasets.catalogue import CATALOGUE, data_folder, entry
from gofstream_studies.datasets.fetch import describe, fetch
from gofstream_studies.datasets.storage import read_columns

Run = Callable[..., tuple[int, str]]

CONTENT = np.random.default_rng(0).bytes(700_000)


@dataclass
class Record:
    """What the server serves, and what it was asked for."""

    content: bytes = CONTENT
    name: str = "DiLepton_SM1.h5"
    checksum: str = "md5:" + hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
    link: str = "/api/records/4442665/files/DiLepton_SM1.h5/content"
    answer: bytes | None = None
    record_status: int = 200
    file_statuses: list[int] = field(default_factory=list)
    drop_after: list[int] = field(default_factory=list)
    ranges: bool = True
    asked: list[str | None] = field(default_factory=list)
    api: str = ""

    def description(self) -> bytes:
        """Answer as Zenodo does."""
        file = {
            "key": self.name,
            "size": len(self.content),
            "checksum": self.checksum,
            "links": {"self": self.link},
        }
        return json.dumps({"id": 4442665, "files": [file]}).encode()


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Iterator[Record]:
    """Serve one record on loopback."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    served = Record()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/api/records/4442665":
                text = served.description() if served.answer is None else served.answer
                self.reply(served.record_status, text)
            elif self.path.endswith("/content"):
                self.file()
            else:
                self.reply(404, b"")

        def file(self) -> None:
            wanted = self.headers.get("Range")
            served.asked.append(wanted)
            status = served.file_statuses.pop(0) if served.file_statuses else 200
            if status != 200:
                self.reply(status, b"")
                return
            start = int(wanted[6:-1]) if wanted and served.ranges else 0
            text = served.content[start:]
            keep = served.drop_after.pop(0) if served.drop_after else len(text)
            self.reply(206 if start else 200, text[:keep], len(text))

        def reply(self, status: int, text: bytes, length: int | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text) if length is None else length))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.api = f"http://127.0.0.1:{server.server_address[1]}/api/records"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def get(record: Record, folder: Path) -> list[Path]:
    """Fetch without waiting between attempts."""
    return fetch([4442665], folder, api=record.api, pause=0.0)


def test_fetch_brings_the_files_whole(record: Record, tmp_path: Path) -> None:
    """Once; the second time they are only checked."""
    folder = tmp_path / "new" / "folder"
    seen: list[tuple[str, int, int]] = []
    files = fetch([4442665], folder, api=record.api, progress=lambda *at: seen.append(at))
    assert [file.name for file in files] == ["DiLepton_SM1.h5"]
    assert files[0].read_bytes() == CONTENT
    assert list(folder.iterdir()) == files
    assert seen[-1] == ("DiLepton_SM1.h5", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert get(record, folder) == files
    assert record.asked == [None]


def test_a_dropped_connection_is_taken_up_again(record: Record, tmp_path: Path) -> None:
    """Each new connection asks only for what is missing."""
    record.drop_after = [300_000, 100_000]
    assert get(record, tmp_path)[0].read_bytes() == CONTENT
    assert record.asked == [None, "bytes=300000-", "bytes=400000-"]


def test_what_was_downloaded_is_kept_for_the_next_time(record: Record, tmp_path: Path) -> None:
    """After several broken connections: a message, and a partial file to go on from."""
    record.drop_after = [1000, 1000, 1000, 1000]
    with pytest.raises(FetchError, match=r"broke 4 times, with 4000 of 700000 bytes.*goes on"):
        get(record, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["DiLepton_SM1.h5.partial"]
    assert get(record, tmp_path)[0].read_bytes() == CONTENT
    assert record.asked[-1] == "bytes=4000-"
    assert [path.name for path in tmp_path.iterdir()] == ["DiLepton_SM1.h5"]


def test_a_server_without_ranges_sends_all_of_it_again(record: Record, tmp_path: Path) -> None:
    """What it sends does not go behind what is there."""
    record.ranges = False
    record.drop_after = [300_000]
    assert get(record, tmp_path)[0].read_bytes() == CONTENT


def test_a_server_in_trouble_is_asked_again(record: Record, tmp_path: Path) -> None:
    """503 passes; it does not pass for ever."""
    record.file_statuses = [503, 503]
    assert get(record, tmp_path)[0].read_bytes() == CONTENT
    record.file_statuses = [503] * 4
    with pytest.raises(
        FetchError, match=r"HTTP 503.*by hand from https://zenodo.org/records/44426"
    ):
        get(record, tmp_path / "b")


def test_a_wrong_checksum_is_thrown_away(record: Record, tmp_path: Path) -> None:
    """A damaged file never gets its name, and is not resumed either."""
    record.content = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    with pytest.raises(FetchError, match=r"checksum is not that of the record.*thrown away"):
        get(record, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_partial_file_of_something_else_is_noticed(record: Record, tmp_path: Path) -> None:
    """Stale beginnings, or more bytes than there should be."""
    for stale in (b"x" * 5000, b"x" * 800_000):
        (tmp_path / "DiLepton_SM1.h5.partial").write_bytes(stale)
        with pytest.raises(FetchError, match="checksum is not that of the record"):
            get(record, tmp_path)
        assert not list(tmp_path.iterdir())
    assert get(record, tmp_path)[0].read_bytes() == CONTENT


def test_a_file_of_ones_own_is_not_overwritten(record: Record, tmp_path: Path) -> None:
    """Something under the name of a file of the record."""
    (tmp_path / "DiLepton_SM1.h5").write_text("mine")
    with pytest.raises(FetchError, match=r"DiLepton_SM1\.h5 is there, but is not .* move it away"):
        get(record, tmp_path)
    assert (tmp_path / "DiLepton_SM1.h5").read_text() == "mine"


def test_missing_records_and_files(record: Record, tmp_path: Path) -> None:
    """404 for the one or the other: where to look by hand."""
    with pytest.raises(FetchError, match=r"/99 cannot be had \(HTTP 404.*zenodo.org/records/99"):
        fetch([99], tmp_path, api=record.api)
    record.file_statuses = [404]
    with pytest.raises(FetchError, match=r"HTTP 404.*zenodo.org/records/4442665 and put them into"):
        get(record, tmp_path)
    with pytest.raises(FetchError, match=r"no file of the record matches \*\.csv; it has DiLepton"):
        fetch([4442665], tmp_path, api=record.api, only=["*.csv"])


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>sign in first</html>",
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"files": 3}',
        b'{"files": [{"key": "a"}]}',
        b'{"files": [{"key": "a", "size": "many", "checksum": "md5:0", "links": {"self": "/"}}]}',
    ],
)
def test_garbage_instead_of_a_record(record: Record, tmp_path: Path, answer: bytes) -> None:
    """A page of something else, or a record without what is needed."""
    record.answer = answer
    with pytest.raises(FetchError, match=r"does not answer with a record .*by hand from https"):
        get(record, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "../evil.h5"}, "not a plain one"),
        ({"name": "/etc/evil"}, "not a plain one"),
        ({"name": ".."}, "not a plain one"),
        ({"name": "a\\b"}, "not a plain one"),
        ({"link": "file:///etc/passwd"}, "at another place"),
        ({"link": "http://127.0.0.2/a"}, "at another place"),
        ({"checksum": "crc:12"}, "checksum 'crc:12'"),
        ({"checksum": "12"}, "checksum '12'"),
    ],
)
def test_a_record_cannot_write_or_read_elsewhere(
    record: Record, tmp_path: Path, change: dict[str, str], message: str
) -> None:
    """Names and addresses of a record are not trusted."""
    for name, value in change.items():
        setattr(record, name, value)
    with pytest.raises(FetchError, match=message):
        describe(4442665, api=record.api)
    with pytest.raises(FetchError, match=message):
        get(record, tmp_path / "in")
    assert not list(tmp_path.rglob("*"))


def closed_port() -> int:
    """Find a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command as installed, but in this process: starting one takes seconds."""

    def command(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["gofstream", "data", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().err

    return command


def test_no_network_is_one_message_and_code_two(run: Run, tmp_path: Path) -> None:
    """The message names the page of the record and the folder for the files."""
    api = f"http://127.0.0.1:{closed_port()}/api/records"
    code, message = run("fetch", "dimuon5d", "--api", api, "--to", str(tmp_path / "here"))
    assert (code, len(message.splitlines())) == (2, 1)
    assert "by hand from https://zenodo.org/records/4442665" in message
    assert f"put them into {tmp_path / 'here'}" in message
    assert not (tmp_path / "here").exists()


def test_fetch_from_the_command_line(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into the folder of the environment, with what was fetched listed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOFSTREAM_DATA", "all")
    result = CliRunner().invoke(cli, ["data", "fetch", "dimuon5d", "--api", record.api])
    assert result.exit_code == 0, result.output
    assert "1 files of DIMUON-5D in all/dimuon5d, all checked" in result.output
    assert Path("all/dimuon5d/DiLepton_SM1.h5").read_bytes() == CONTENT


def test_mistakes_on_the_command_line(run: Run, tmp_path: Path) -> None:
    """One message each, code 2, no traceback."""
    file = tmp_path / "file"
    file.touch()
    for arguments, message in (
        (["describe", "dimuon"], "unknown data set 'dimuon'; nearest: 'dimuon5d'"),
        (["make", "expo1d", "--to", str(file)], "is a file"),
        (["make", "expo1d", "--events", "0"], "--events"),
        (["make", "expo1d", "--to", "/proc/no"], "/proc/no"),
        (["fetch", "expo1d"], "has no public files"),
        (["fetch", "dimuon5d", "--api", "file:///etc"], "not an http or https address"),
    ):
        code, said = run(*arguments)
        assert code == 2
        assert message in said


def test_list_and_describe() -> None:
    """All data sets, for people and as JSON; results from ours are never called theirs."""
    runner = CliRunner()
    listed = runner.invoke(cli, ["data", "list"]).output
    found = json.loads(runner.invoke(cli, ["data", "list", "--json"]).output)
    assert [one["name"] for one in found] == list(CATALOGUE) == ["expo1d", "dimuon5d", "cmsl1"]
    for one in found:
        assert one["name"] in listed
        text = runner.invoke(cli, ["data", "describe", one["name"]]).output
        as_json = runner.invoke(cli, ["data", "describe", one["name"], "--json"]).output
        assert json.loads(as_json) == one
        assert all(page in text for page in one["records"])
        assert all(column["name"] in text for column in one["columns"])
        assert ("stand in for the public files; they are not" in text) == bool(one["records"])
    assert [len(one["columns"]) for one in found] == [1, 5, 24]


@pytest.mark.parametrize("command", ["", "list", "describe", "make", "fetch"])
def test_every_command_shows_an_example(command: str) -> None:
    """Help ends a user's search."""
    text = CliRunner().invoke(cli, ["data", *command.split(), "--help"]).output
    assert re.search(rf"^  Example: gofstream data {command}", text, re.MULTILINE)


def test_make_expo1d(tmp_path: Path) -> None:
    """Reference and signals as files, the same for the same seed."""
    result = CliRunner().invoke(
        cli, ["data", "make", "expo1d", "--to", str(tmp_path), "--events", "5000"]
    )
    assert result.exit_code == 0, result.output
    names = {path.stem for path in tmp_path.iterdir()}
    assert names == {"reference", *expo1d.SIGNALS}
    x = read_columns(tmp_path / "reference.parquet", ["x"])["x"]
    assert len(x) == 5000
    assert x.mean() == pytest.approx(1.0, abs=0.06)
    tail = read_columns(tmp_path / "tail.parquet", ["x"])["x"]
    assert len(tail) == 500
    assert tail.mean() == pytest.approx(6.4, abs=0.04)


def test_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment decides; the user's cache otherwise."""
    monkeypatch.setenv("GOFSTREAM_DATA", "/data")
    assert data_folder("cmsl1") == Path("/data/cmsl1")
    monkeypatch.delenv("GOFSTREAM_DATA")
    assert data_folder("cmsl1") == Path.home() / ".cache" / "gofstream" / "cmsl1"


def test_entries_without_a_generator_say_so() -> None:
    """And unknown ones are named."""
    for one in CATALOGUE.values():
        if one.maker is None:
            with pytest.raises(InputError, match="no generator"):
                one.load_maker()
        else:
            assert callable(one.load_maker())
    with pytest.raises(InputError, match="unknown data set 'exp'"):
        entry("exp")
