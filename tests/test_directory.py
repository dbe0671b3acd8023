"""A watched folder: real files, real writers, and what does not belong there."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.io_files import WRITERS, matrix, muons

from gofstream.errors import ExpressionError, InputError, StoppedError
from gofstream.io import npy
from gofstream.stream.decode import Batch, Decoder
from gofstream.stream.directory import Inbox
from gofstream.stream.order import Order
from gofstream.stream.pipe import deliver
from gofstream.stream.sources import Arrival, Intake, Skipped

DECODER = Decoder(("x",), memory=10_000_000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give the name of an inbox that is not there yet."""
    return tmp_path / "inbox"


def put(folder: Path, name: str, *values: float, **metadata: str) -> Path:
    """Write a batch of one column."""
    path = folder / name
    table = pa.table({"x": np.array(values)}).replace_schema_metadata(metadata)
    if path.suffix == ".arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    else:
        pq.write_table(table, path)
    return path


def loaded(inbox: Inbox, name: str) -> Arrival:
    """Read one that waits."""
    inbox.claim(name)
    return inbox.load(name)


def settled(inbox: Inbox, now: float = 0.0) -> dict[str, float]:
    """Look twice, with enough time in between."""
    inbox.waiting(now)
    return inbox.waiting(now + inbox.give_up)


def names(folder: Path) -> list[str]:
    """List what is in a folder, but for the inbox's own."""
    return sorted(p.name for p in folder.iterdir() if p.name not in ("quarantine", "done"))


def reason(folder: Path, name: str) -> str:
    """Read why a file is in quarantine, where it must be too."""
    assert os.path.lexists(folder / "quarantine" / name)
    return (folder / "quarantine" / f"{name}.txt").read_text()


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format(kind: str, folder: Path, tmp_path: Path) -> None:
    """The columns asked for, of the events asked for."""
    columns = muons(50)
    wanted = ("pt", "charge")
    inbox = Inbox(folder, Decoder(wanted, where="tight == 1"))
    path = WRITERS[kind](folder, columns)
    assert list(settled(inbox)) == [path.stem]
    arrival = loaded(inbox, path.stem)
    assert arrival.sample is not None, arrival.problem
    kept = matrix({name: columns[name] for name in wanted})[columns["tight"]]
    np.testing.assert_array_equal(arrival.sample.values, kept)
    assert (arrival.sample.name, arrival.expected) == (path.stem, None)
    assert abs(arrival.arrived - time.time()) < 60
    inbox.done(arrival)
    assert names(folder) == []


def test_batches_without_events(folder: Path) -> None:
    """A Poisson batch may have none; a file without bytes is none."""
    inbox = Inbox(folder, Decoder(("x",), where="x > 5"))
    put(folder, "a.parquet", 1.0, 2.0)
    put(folder, "b.arrow")
    (folder / "c.parquet").touch()
    assert list(settled(inbox)) == ["a", "b", "c"]
    for name in ("a", "b"):
        sample = loaded(inbox, name).sample
        assert sample is not None
        assert len(sample) == 0
    assert "the file is empty (0 bytes)" in loaded(inbox, "c").problem


def test_done_is_kept_if_asked(folder: Path) -> None:
    """Under a name of its own, with the file beside it."""
    inbox = Inbox(folder, DECODER, keep=True)
    for now in (0.0, 20.0):
        put(folder, "a.parquet", 1.0)
        (folder / "a.json").write_text('{"expected": 7}')
        assert list(settled(inbox, now)) == ["a"]
        inbox.done(loaded(inbox, "a"))
        assert names(folder) == []
    kept = ["a.json", "a.json~1", "a.parquet", "a.parquet~1"]
    assert names(folder / "done") == kept


def test_a_file_that_took_the_name_stays(folder: Path) -> None:
    """What was not loaded is not removed; it is offered again."""
    inbox = Inbox(folder, DECODER)
    put(folder, "a.parquet", 1.0)
    settled(inbox)
    arrival = loaded(inbox, "a")
    put(folder, "b.parquet", 2.0).rename(folder / "a.parquet")
    assert inbox.waiting(20.0) == {}
    inbox.done(arrival)
    assert inbox.waiting(30.0) == {}  # it has to settle first
    assert list(inbox.waiting(40.0)) == ["a"]
    sample = loaded(inbox, "a").sample
    assert sample is not None
    assert sample.values.tolist() == [[2.0]]


@pytest.mark.parametrize(("first", "second"), [("arrow", "parquet"), ("parquet", "arrow")])
def test_two_endings_of_one_name(first: str, second: str, folder: Path) -> None:
    """One after the other; whoever knows names decides about the second."""
    inbox = Inbox(folder, DECODER)
    put(folder, f"a.{first}", 1.0)
    settled(inbox)
    put(folder, f"a.{second}", 2.0)
    assert list(inbox.waiting(20.0)) == ["a"]
    arrival = loaded(inbox, "a")
    assert arrival.sample is not None
    assert arrival.sample.values.tolist() == [[1.0]]
    inbox.waiting(25.0)
    inbox.done(arrival)
    assert names(folder) == [f"a.{second}"]
    inbox.waiting(30.0)
    assert list(inbox.waiting(40.0)) == ["a"]


def test_a_restart_offers_again(folder: Path) -> None:
    """What was loaded and not done with is still there."""
    put_in = Inbox(folder, DECODER)
    put(folder, "run-1.parquet", 1.0)
    settled(put_in)
    loaded(put_in, "run-1")
    again = Inbox(folder, DECODER)
    settled(again)
    intake = Intake(again, Order(60.0, ["run-1", "run-2"]))
    (arrival,) = intake.take(100.0)
    assert isinstance(arrival, Arrival)
    assert arrival.sample is not None
    assert arrival.late == "came too late: run-2 had been taken"
    intake.done(arrival)
    assert names(folder) == []


def test_growing_files_are_waited_for(folder: Path) -> None:
    """Each change starts the time anew; once unreadable for long enough, a file is bad."""
    inbox = Inbox(folder, DECODER, settle=100.0, give_up=1000.0)
    whole = put(folder, "x.parquet", *range(100)).read_bytes()
    path = folder / "x.parquet"
    for now in range(0, 9000, 900):
        path.write_bytes(whole[: len(whole) * (now + 100) // 10_000])
        assert inbox.waiting(now) == {}
        assert inbox.waiting(now + 800.0) == {}
    assert inbox.lag(9000.0) == (1, 9000.0, 0)
    path.write_bytes(whole)
    assert inbox.waiting(9000.0) == {}
    assert inbox.waiting(9090.0) == {}
    assert inbox.waiting(9150.0) == {"x": 9150.0}
    # One that was ready and grows is not.
    path.write_bytes(whole[:50])
    assert inbox.waiting(9200.0) == {}
    assert inbox.waiting(10_100.0) == {}
    assert inbox.waiting(10_200.0) == {"x": 10_200.0}
    arrival = loaded(inbox, "x")
    assert arrival.sample is None
    assert "x.parquet: cannot be read as Parquet" in arrival.problem


def test_a_change_after_the_last_look(folder: Path) -> None:
    """A writer that paused for longer than `settle`."""
    inbox = Inbox(folder, DECODER)
    path = folder / "a.csv"
    path.write_text("x\n1.0\n")
    settled(inbox)
    path.write_text("\0")
    assert "changed after it had been the same for a while" in loaded(inbox, "a").problem


def test_a_file_that_never_settles_holds_up_nothing_for_ever(folder: Path) -> None:
    """It keeps its place for a while; then those behind it are taken."""
    inbox = Inbox(folder, DECODER)
    intake = Intake(inbox, Order(1.0, ["run-1"]))
    put(folder, "run-3.parquet", 1.0)
    taken: dict[float, list[str]] = {}
    for now in (0.0, 5.0, 100.0, 599.0, 601.0):
        with (folder / "run-2.csv").open("a") as file:
            file.write("1.0\n")
        taken[now] = [each.name for each in intake.take(now)]
    assert taken == {0.0: [], 5.0: [], 100.0: [], 599.0: [], 601.0: ["run-2", "run-3"]}


class GatedDecoder(Decoder):
    """Takes as long as a test likes over one file."""

    __slots__ = ("gate", "slow")

    def batch(self, path: Path, name: str) -> Batch:
        """Read a batch, when its time has come."""
        if path.stem == self.slow:
            assert self.gate.wait(20.0)
        return Decoder.batch(self, path, name)


@pytest.mark.parametrize(
    ("slow", "overtaking"), [("junk", ["r1", "r2", "r3"]), ("r2", ["junk", "r1"])]
)
def test_a_slow_file_is_overtaken_by_other_series(
    folder: Path, slow: str, overtaking: list[str]
) -> None:
    """Only those of its own series wait for it; nothing is lost."""
    decoder, gate = GatedDecoder(("x",)), Event()
    object.__setattr__(decoder, "gate", gate)
    object.__setattr__(decoder, "slow", slow)
    with ThreadPoolExecutor(3) as threads:
        inbox = Inbox(folder, decoder, settle=0.0, poll=0.0, executor=threads)
        for name in ("junk", "r1", "r2", "r3"):
            put(folder, f"{name}.parquet", 1.0)
        intake, found = Intake(inbox, Order(0.0), executor=threads), list[str]()
        try:
            end = time.monotonic() + 10.0
            while len(found) < len(overtaking) and (now := time.monotonic()) < end:
                found += [each.name for each in intake.take(now)]
                time.sleep(0.02)
            assert sorted(found) == overtaking
            time.sleep(0.2)
            assert intake.take(time.monotonic()) == []
            assert intake.lag(time.monotonic()).waiting == 4
        finally:
            gate.set()
        while len(found) < 4 and time.monotonic() < end:
            found += [each.name for each in intake.take(time.monotonic())]
            intake.wait(0.1)
        assert [name for name in found if name != "junk"] == ["r1", "r2", "r3"]
        assert len(found) == 4


class CountingPool(ThreadPoolExecutor):
    """Threads that know how much they were given to do."""

    given = 0

    def submit(self, *work: Any, **more: Any) -> Future[Any]:
        """Count one more."""
        self.given += 1
        return super().submit(*work, **more)


def test_thousands_of_files_do_not_queue_up_to_be_tried(folder: Path) -> None:
    """A hundred at a time; all of them get their turn, in order."""
    with CountingPool(2) as threads:
        inbox = Inbox(folder, DECODER, settle=0.0, poll=0.0, executor=threads)
        for number in range(250):
            np.save(folder / f"run-{number}.npy", [1.0])
        gate = Event()
        blocked = [ThreadPoolExecutor.submit(threads, gate.wait, 20.0) for _ in range(2)]
        for now in range(5):
            assert inbox.waiting(1000.0 * now) == {}
        assert threads.given == 100
        gate.set()
        assert all(each.result() for each in blocked)
        end, now = time.monotonic() + 10.0, 5000.0
        while len(found := inbox.waiting(now)) < 250 and time.monotonic() < end:
            now += 1000.0
            time.sleep(0.01)
        assert len(found) == 250
        assert threads.given == 250


def test_a_bad_file_keeps_no_good_one_of_its_name_waiting(folder: Path) -> None:
    """The good one goes first, however long the other has been there."""
    inbox = Inbox(folder, DECODER)
    (folder / "run-1.csv").write_bytes(b"\0junk")
    assert inbox.waiting(0.0) == {}
    assert inbox.waiting(5.0) == {}
    assert inbox.coming() == ["run-1"]
    put(folder, "run-1.parquet", 1.0)
    inbox.waiting(6.0)
    assert list(inbox.waiting(8.0)) == ["run-1"]
    assert inbox.coming() == []
    good = loaded(inbox, "run-1")
    assert good.sample is not None
    inbox.done(good)
    assert names(folder) == ["run-1.csv"]
    assert list(inbox.waiting(20.0)) == ["run-1"]
    assert "not text" in loaded(inbox, "run-1").problem


def test_an_archive_of_many_arrays_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its list of members alone takes longer to read than a good batch may wait."""
    path, content = tmp_path / "many.npz", io.BytesIO()
    with ZipFile(content, "w") as archive:
        for number in range(30_000):
            archive.writestr(f"{number}{'x' * 40}.npy", b"")
    path.write_bytes(content.getvalue())
    monkeypatch.setattr(npy, "ZipFile", None)
    with pytest.raises(InputError, match="holds more than 5000 arrays"):
        DECODER.look(path)


def test_an_error_that_nobody_expected_stops_nothing(folder: Path) -> None:
    """The file is bad, and the reason says which error."""

    class Broken(Decoder):
        def batch(self, path: Path, name: str) -> Batch:
            raise RecursionError("too deep")

    inbox = Inbox(folder, Broken(("x",)))
    put(folder, "a.parquet", 1.0)
    settled(inbox)
    assert "a.parquet: RecursionError: too deep" in loaded(inbox, "a").problem


SLOW = """
import os, sys, time
whole, to, pauses = open(sys.argv[1], "rb").read(), sys.argv[2], list(map(float, sys.argv[3:]))
size = len(whole) // len(pauses) + 1
with open(to, "wb", buffering=0) as file:
    for number, pause in enumerate(pauses):
        file.write(whole[number * size : (number + 1) * size])
        print(number, flush=True)
        time.sleep(pause)
if to.endswith(".tmp"):
    os.rename(to, to.removesuffix(".tmp"))
"""


def slowly(source: Path, to: Path, *pauses: float) -> subprocess.Popen[str]:
    """Copy a file in pieces, in a process of its own."""
    command = [sys.executable, "-c", SLOW, str(source), str(to), *map(str, pauses)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_slow_and_killed_writers(folder: Path, tmp_path: Path) -> None:
    """One pauses for longer than a file needs to settle; one renames; one dies half way."""
    values = np.random.default_rng(1).normal(size=500)
    source = put(tmp_path, "source.parquet", *values)
    inbox = Inbox(folder, DECODER, settle=0.2, give_up=2.0, poll=0.05)
    intake = Intake(inbox, Order(patience=3.0, names=["r-0"]))
    writers = [
        slowly(source, folder / "r-1.parquet", 0.05, 0.1, 0.8, 0.1, 0.5),
        slowly(source, folder / "r-2.parquet.tmp", 0.3, 0.3),
        slowly(source, folder / "r-3.parquet", 0.0, 60.0, 0.0),
    ]
    out = writers[2].stdout
    assert out is not None
    assert [out.readline(), out.readline()] == ["0\n", "1\n"]
    writers[2].send_signal(signal.SIGKILL)
    put(folder, "r-4.parquet", *values)
    found: list[Arrival] = []
    while len(found) < 4:
        for arrival in intake.take(time.monotonic()):
            assert isinstance(arrival, Arrival)
            found.append(arrival)
            if arrival.sample is None:
                intake.refused(arrival, arrival.problem)
            else:
                intake.done(arrival)
        time.sleep(0.02)
    for writer in writers:
        writer.wait()
        assert writer.stdout is not None
        writer.stdout.close()
    assert [arrival.name for arrival in found] == ["r-1", "r-2", "r-3", "r-4"]
    for arrival in found:
        if arrival.name == "r-3":
            assert arrival.sample is None
        else:
            assert arrival.sample is not None, arrival.problem
            np.testing.assert_array_equal(arrival.sample.values.ravel(), values)
    assert "r-3.parquet: cannot be read as Parquet" in reason(folder, "r-3.parquet")
    assert names(folder) == []


def link_out(folder: Path) -> str:
    """Point to a file outside that must stay as it is."""
    put(folder.parent, "secret.parquet", 1.0)
    (folder / "a.parquet").symlink_to(folder.parent / "secret.parquet")
    return "a.parquet"


def link_nowhere(folder: Path) -> str:
    """Point to nothing."""
    (folder / "a.parquet").symlink_to("/nowhere/at/all")
    return "a.parquet"


def subfolder(folder: Path) -> str:
    """Put a folder with a file in it."""
    (folder / "a.parquet").mkdir()
    put(folder / "a.parquet", "b.parquet", 1.0)
    return "a.parquet"


def fifo(folder: Path) -> str:
    """Put something that blocks whoever opens it."""
    os.mkfifo(folder / "a.csv")
    return "a.csv"


def steering(folder: Path) -> str:
    """Put a name that clears a terminal."""
    put(folder, "a\x1b[2J.parquet", 1.0)
    return "a\\x1b[2J.parquet"


def not_text(folder: Path) -> str:
    """Put a name that is not UTF-8."""
    os.rename(put(folder, "a.parquet", 1.0), os.fsencode(folder) + b"/a\xff.parquet")
    return "a\\udcff.parquet"


def too_long(folder: Path) -> str:
    """Put a name that no ledger has room for."""
    return put(folder, "a" * 230 + ".parquet", 1.0).name[:200]


def huge(folder: Path) -> str:
    """Put a file with holes, larger than all that may be read."""
    with (folder / "a.parquet").open("wb") as file:
        file.truncate(10_000_001)
    return "a.parquet"


def bomb(folder: Path) -> str:
    """Put a small file whose events do not fit."""
    pq.write_table(pa.table({"x": np.zeros(5_000_000)}), folder / "a.parquet")
    assert (folder / "a.parquet").stat().st_size < 1_000_000
    return "a.parquet"


def pickle(folder: Path) -> str:
    """Put objects that only a pickle can hold."""
    np.save(folder / "a.npy", np.array([{}], object))
    return "a.npy"


def other_columns(folder: Path) -> str:
    """Put a batch of another detector."""
    pq.write_table(pa.table({"y": [1.0]}), folder / "a.parquet")
    return "a.parquet"


def missing_values(folder: Path) -> str:
    """Put an event that has no x."""
    return put(folder, "a.parquet", 1.0, float("nan")).name


def unknown(folder: Path) -> str:
    """Put something for people to read."""
    (folder / "notes.txt").write_text("do not forget the milk")
    return "notes.txt"


BAD: list[tuple[Callable[[Path], str], str]] = [
    (link_out, "is a link; put the files themselves"),
    (link_nowhere, "is a link"),
    (subfolder, "is a folder"),
    (fifo, "is not a regular file"),
    (steering, "cannot be the name of a batch"),
    (not_text, "cannot be the name of a batch"),
    (too_long, "cannot be the name of a batch"),
    (huge, "a.parquet would need 9.5 MiB (10000001 bytes), but the memory budget is"),
    (bomb, "reading 1 columns of 5000000 events would need"),
    (pickle, "a.npy: cannot be read as NPY"),
    (other_columns, "a.parquet: no column 'x'; known: 'y'"),
    (missing_values, "column 'x': 1 of 2 values are missing"),
    (unknown, "notes.txt: is in no format known here"),
]


def many_arrays(folder: Path) -> str:
    """Put an archive that takes long to open."""
    with ZipFile(folder / "a.npz", "w") as archive:
        for number in range(5001):
            archive.writestr(f"{number}.npy", b"")
    return "a.npz"


BAD.append((many_arrays, "holds more than 5000 arrays"))


@pytest.mark.parametrize(("make", "why"), BAD, ids=lambda value: getattr(value, "__name__", ""))
def test_bad_files(make: Callable[[Path], str], why: str, folder: Path) -> None:
    """To quarantine with the reason, twice if they come twice; the stream goes on."""
    inbox = Inbox(folder, DECODER)
    intake = Intake(inbox, Order(0.0))
    for now, suffix in ((0.0, ""), (20.0, "~1")):
        shown = make(folder)
        put(folder, "z.parquet", 1.0)
        settled(inbox, now)
        bad, good = intake.take(now + inbox.give_up)
        assert isinstance(bad, Arrival)
        assert bad.sample is None
        assert bad.name.isprintable()
        assert 0 < len(bad.name) <= 200
        intake.refused(bad, bad.problem)
        assert isinstance(good, Arrival)
        assert good.sample is not None
        intake.done(good)
        text = reason(folder, shown + suffix)
        assert why in text
        assert text.replace("\n", "").isprintable()
        assert names(folder) == []
    assert inbox.lag(40.0) == (0, 0.0, 0)
    if make is link_out:
        assert pq.read_table(folder.parent / "secret.parquet").num_rows == 1


def test_what_is_left_alone(folder: Path) -> None:
    """Half-written files by their names, side-cars without a batch, the inbox's own folders."""
    inbox = Inbox(folder, DECODER)
    left = [".a.parquet", "a.parquet.tmp", "a.parquet.part", "a.parquet.partial", "a.json"]
    for name in left:
        (folder / name).write_bytes(b"")
    assert settled(inbox) == {}
    assert names(folder) == sorted(left)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_expected_counts(ending: str, folder: Path) -> None:
    """From the schema; the file beside goes first, and goes with the batch."""
    inbox = Inbox(folder, DECODER)
    put(folder, f"a.{ending}", 1.0, **{"gofstream.expected": "1987.5"})
    put(folder, f"b.{ending}", 1.0, **{"gofstream.expected": "1987.5"})
    (folder / "b.json").write_text('{"expected": 2001}')
    put(folder, f"c.{ending}", 1.0)
    settled(inbox)
    found = {name: loaded(inbox, name) for name in "abc"}
    assert [found[name].expected for name in "abc"] == [1987.5, 2001.0, None]
    inbox.done(found["a"])
    inbox.refused(found["b"], "a reason")
    inbox.done(found["c"])
    assert names(folder) == []
    assert names(folder / "quarantine") == sorted(["b.json", f"b.{ending}", f"b.{ending}.txt"])


@pytest.mark.parametrize(
    "text",
    ["", "7", "[]", '{"expected": "7"}', '{"expected": true}', '{"expected": 0}', "{}", "[" * 4000,
     '{"expected": NaN}', '{"expected": 7, "more": 1}', '{"expected": 1' + "0" * 400 + "}",
     '{"expected": 7}' + " " * 5000],
)  # fmt: skip
def test_bad_files_beside(text: str, folder: Path) -> None:
    """A wrong exposure would be a wrong test: the batch is not taken."""
    inbox = Inbox(folder, DECODER)
    put(folder, "a.parquet", 1.0)
    (folder / "a.json").write_text(text)
    settled(inbox)
    arrival = loaded(inbox, "a")
    assert arrival.sample is None
    assert "a.json: " in arrival.problem
    inbox.refused(arrival, arrival.problem)
    assert names(folder) == []


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=40) | st.floats().map(lambda x: repr(x).encode()), st.booleans())
def test_any_bytes_for_a_count(tmp_path: Path, content: bytes, beside: bool) -> None:
    """A number above zero, or an error that names the file."""
    path = tmp_path / "a.arrow"
    noted = {} if beside else {"gofstream.expected": content}
    table = pa.table({"x": [1.0]}).replace_schema_metadata(noted)
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    if beside:
        content = b'{"expected":' + content + b"}"
        (tmp_path / "a.json").write_bytes(content)
    else:
        (tmp_path / "a.json").unlink(missing_ok=True)
    said, expected = "", None
    try:
        expected = DECODER.batch(path, "a").expected
    except InputError as error:
        said = str(error)
    if said:
        assert str(tmp_path / "a.") in said
        assert said.isprintable()
    else:
        assert expected == float(json.loads(content)["expected"] if beside else content) > 0


@pytest.mark.parametrize("kind", ["arrow", "arrow_stream", "parquet", "npy"])
def test_cut_anywhere(kind: str, tmp_path: Path) -> None:
    """A file without its end is never taken for a shorter one."""
    whole = WRITERS[kind](tmp_path, muons(40)).read_bytes()
    path = tmp_path / f"cut{WRITERS[kind](tmp_path, muons(40)).suffix}"
    decoder = Decoder(("pt",))
    for end in {*range(0, len(whole), 37), *range(len(whole) - 70, len(whole))}:
        path.unlink(missing_ok=True)
        path.write_bytes(whole[:end])
        with pytest.raises(InputError, match="cut"):
            decoder.look(path)
    path.write_bytes(whole)
    assert len(decoder.batch(path, "cut").sample) == 40


def test_order_and_room(folder: Path) -> None:
    """Files in any order come in theirs, no more than there is room for; what waits is seen."""
    inbox = Inbox(folder, DECODER)
    intake = Intake(inbox, Order(60.0), room=3)
    numbers = [9, 2, 10, 3, 1, 5, 4, 7, 8]  # 6 does not come
    for number in numbers:
        put(folder, f"run-{number}.parquet", float(number))
    found: list[str] = []
    held: list[Arrival] = []
    now = 0.0
    while len(found) < 10 or held:
        for one in intake.take(now):
            found.append(one.name)
            if isinstance(one, Skipped):
                assert one.why == "did not come within 60 s while run-7 was there"
                continue
            assert one.sample is not None
            assert one.sample.values.tolist() == [[float(one.name.removeprefix("run-"))]]
            held.append(one)
        assert len(held) <= 3
        assert intake.lag(now).loaded == len(held)
        # One at a time is done with, so that there is room for one more.
        if held:
            intake.done(held.pop(0))
        now += 1.0
        assert now < 80
    assert found == [f"run-{number}" for number in range(1, 11)]
    put(folder, "run-6.parquet", 6.0)
    intake.take(100.0)
    (late,) = intake.take(110.0)
    assert isinstance(late, Arrival)
    assert late.late == "came too late: run-10 had been taken"
    intake.refused(late, late.late)
    assert "run-10 had been taken" in reason(folder, "run-6.parquet")
    assert intake.lag(110.0) == (0, 0.0, 0)


def test_what_waits_is_seen_also_without_room(folder: Path) -> None:
    """Learning that falls behind must not hide how far."""
    inbox = Inbox(folder, DECODER)
    intake = Intake(inbox, Order(0.0), room=1)
    put(folder, "a.parquet", 1.0)
    intake.take(0.0)
    assert len(intake.take(10.0)) == 1
    put(folder, "b.parquet", 1.0)
    assert intake.take(20.0) == intake.take(30.0) == []
    assert intake.lag(30.0) == (2, 30.0, 1)


def test_more_files_than_are_opened_at_once(folder: Path) -> None:
    """All count as waiting from the first; they can be taken in their order."""
    inbox = Inbox(folder, DECODER)
    for number in range(150):
        (folder / f"r-{number}.csv").write_text("x\n1\n")
    inbox.waiting(0.0)
    assert inbox.lag(90.0) == (150, 90.0, 0)
    assert set(inbox.waiting(90.0)) == {f"r-{number}" for number in range(100)}
    assert len(inbox.waiting(180.0)) == 150


def test_trouble_with_the_folder(folder: Path, tmp_path: Path) -> None:
    """The program is told, not the batches."""
    inbox = Inbox(folder, DECODER)
    put(folder, "a.parquet", 1.0)
    settled(inbox)
    arrival = loaded(inbox, "a")
    shutil.rmtree(folder / "quarantine")
    with pytest.raises(StoppedError, match=r"cannot be moved to quarantine \(.*No such file"):
        inbox.refused(arrival, "a reason")
    assert names(folder) == ["a.parquet"]
    shutil.rmtree(folder)
    with pytest.raises(StoppedError, match="inbox cannot be read"):
        inbox.waiting(100.0)
    folder.mkdir()
    (folder / "quarantine").symlink_to(tmp_path)
    with pytest.raises(StoppedError, match="quarantine is a link to elsewhere"):
        Inbox(folder, DECODER)
    with pytest.raises(ExpressionError):
        Decoder(("x",), where="x >")


def test_deliver(tmp_path: Path) -> None:
    """Whole, once; another one under its name is refused, and nothing else is left behind."""
    deliver(tmp_path, "a.csv", b"x\n1\n")
    deliver(tmp_path, "a.csv", b"x\n1\n")
    with pytest.raises(InputError, match="is there already"):
        deliver(tmp_path, "a.csv", b"x\n2\n")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.csv": b"x\n1\n"}
    with pytest.raises(OSError, match="No such file"):
        deliver(tmp_path / "no", "a.csv", b"")
