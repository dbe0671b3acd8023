"""Batches through a pipe and by a call: bounded, in frames that are whole or named."""

from __future__ import annotations

import io
import os
import re
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gofstream.errors import BusyError, IdentityError, InputError, StoppedError
from gofstream.sample import Sample
from gofstream.stream.decode import Decoder
from gofstream.stream.directory import Inbox
from gofstream.stream.order import Order
from gofstream.stream.pipe import deliver, frames, spool
from gofstream.stream.sources import Arrival, Intake, Offers
from syncs import assert_durable, recorded_syncs

DECODER = Decoder(("x",))


def stream(values: list[float], **metadata: str | bytes) -> bytes:
    """Write an Arrow stream of one column."""
    noted = {f"gofstream.{key}": value for key, value in metadata.items()}
    table = pa.table({"x": np.array(values)}).replace_schema_metadata(noted)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def loaded(inbox: Inbox, name: str) -> Arrival:
    """Read one that waits."""
    inbox.claim(name)
    return inbox.load(name)


def framed(*contents: bytes) -> bytes:
    """Put each behind its length; independent of how the library reads it."""
    return b"".join(struct.pack("<Q", len(content)) + content for content in contents)


def test_frames_become_batches(tmp_path: Path) -> None:
    """By name, or by number if they have none, with what was expected."""
    inbox = Inbox(tmp_path, DECODER)
    contents = [stream([1.0, 2.0], name="run-1", expected="2.5"), stream([3.0]), stream([])]
    assert spool(io.BytesIO(framed(*contents)), tmp_path) == 3
    inbox.waiting(0.0)
    assert sorted(inbox.waiting(5.0)) == ["run-1", "stdin-0000002", "stdin-0000003"]
    arrivals = [loaded(inbox, name) for name in sorted(inbox.waiting(5.0))]
    found = [(a.sample.values.ravel().tolist(), a.expected) for a in arrivals if a.sample]
    assert found == [([1.0, 2.0], 2.5), ([3.0], None)]
    assert arrivals[2].sample is not None
    assert spool(io.BytesIO(), tmp_path) == 0


def test_cut_anywhere() -> None:
    """Whole frames are given, and the one that is not is named."""
    one, two = stream([1.0], name="a"), stream([2.0], name="b")
    whole = framed(one, two)
    for end in range(len(whole)):
        given: list[str] = []
        if end in (0, len(framed(one))):
            given = [frame.name for frame in frames(io.BytesIO(whole[:end]))]
        else:
            number = 1 if end < len(framed(one)) else 2
            reader = frames(io.BytesIO(whole[:end]))
            with pytest.raises(InputError, match=rf"^frame {number} of the input: ends "):
                given.extend(frame.name for frame in reader)
        assert given == ["a"] * (end >= len(framed(one)))


@settings(max_examples=300)
@given(st.binary(max_size=300), st.booleans())
def test_any_bytes(content: bytes, with_length: bool) -> None:
    """An error that names the frame; never anything else, and never more memory than came."""
    sent = framed(content) if with_length else content
    tracemalloc.start()
    said = ""
    try:
        assert list(frames(io.BytesIO(sent))) == [] or not sent
    except InputError as error:
        said = str(error)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert said.startswith("frame 1 of the input: ") == bool(sent)
    assert said.isprintable()
    assert peak < 2_000_000


@settings(max_examples=300)
@given(st.data())
def test_damaged_frames(data: st.DataObject) -> None:
    """A frame whose schema can be read goes on to the inbox; any other is named."""
    whole = bytearray(stream([1.0, 2.0], name="run-1"))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    said = ""
    found = []
    try:
        found = list(frames(io.BytesIO(framed(bytes(whole)))))
    except InputError as error:
        said = str(error)
    assert said.startswith("frame 1 of the input: ") != bool(found)
    assert said.isprintable()
    assert all(frame.name.isprintable() and "/" not in frame.name for frame in found)


def test_lengths_that_cannot_be(tmp_path: Path) -> None:
    """Refused before anything is read or room is made."""
    for size in (0, 1001, 2**40, 2**64 - 1):
        with pytest.raises(InputError, match=rf"frame 1 .* promises {size} bytes, and may have 1"):
            next(frames(io.BytesIO(struct.pack("<Q", size) + b"abc"), largest=1000))
    # A promise that is allowed, and not kept, costs what came.
    tracemalloc.start()
    with pytest.raises(InputError, match="ends after 3 of 200000000 bytes"):
        next(frames(io.BytesIO(struct.pack("<Q", 200_000_000) + b"abc")))
    assert tracemalloc.get_traced_memory()[1] < 3_000_000
    tracemalloc.stop()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["", "../run", "a/b", "/etc/passwd", ".hidden", "a\x1b[2J", "a\nb", "é" * 150, b"\xff"]
)
def test_names_that_cannot_be(name: str | bytes, tmp_path: Path) -> None:
    """They could lead out of the inbox, hide there, or steer a terminal."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    content = framed(stream([1.0], name="good"), stream([1.0], name=name))
    with pytest.raises(InputError, match=r"^frame 2 of the input: .* cannot be the name of") as got:
        spool(io.BytesIO(content), inbox)
    assert str(got.value).isprintable()
    assert [path.name for path in inbox.iterdir()] == ["good.arrows"]
    assert [path.name for path in tmp_path.iterdir()] == ["inbox"]


def test_a_frame_survives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes, then its name, then its folder are on the disk before the next frame is read."""
    content = stream([1.0, 2.0], name="run-1")
    steps = recorded_syncs(monkeypatch)
    deliver(tmp_path, "run-1.arrows", content)
    assert_durable(steps, tmp_path / "run-1.arrows", len(content))


def test_the_same_frame_again(tmp_path: Path) -> None:
    """Once is enough; another one under its name is refused."""
    again = framed(stream([1.0], name="a"), stream([1.0], name="a"))
    assert spool(io.BytesIO(again), tmp_path) == 2
    with pytest.raises(InputError, match=r"a\.arrows is there already"):
        spool(io.BytesIO(framed(stream([2.0], name="a"))), tmp_path)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [stream([1.0], name="a")]
    with pytest.raises(StoppedError, match="cannot take frame 1 of the input"):
        spool(io.BytesIO(again), tmp_path / "nowhere")


WRITER = """
import io, sys
import numpy as np, pyarrow as pa
for number in range(1, 21):
    table = pa.table({"x": np.full(5000, float(number))})
    table = table.replace_schema_metadata({"gofstream.name": f"run-{number:04d}"})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content = sink.getvalue()
    sys.stdout.buffer.write(len(content).to_bytes(8, "little") + content)
    sys.stdout.buffer.flush()
"""


def test_a_writer_that_is_too_fast(tmp_path: Path) -> None:
    """It has to wait while the inbox is full; then all come through, in order."""
    inbox = Inbox(tmp_path, DECODER, settle=0.0, poll=0.0)
    intake = Intake(inbox, Order(60.0, ["run-0000"]), room=2)
    writer = subprocess.Popen([sys.executable, "-c", WRITER], stdout=subprocess.PIPE)
    pipe = writer.stdout
    assert pipe is not None
    spooler = threading.Thread(target=spool, args=(pipe, tmp_path), kwargs={"room": 3})
    spooler.start()
    while len(list(tmp_path.glob("*.arrows"))) < 3:
        time.sleep(0.01)
    time.sleep(0.3)
    # Nothing has been done with, so it is stuck: three wait, and some are on their way.
    assert len(list(tmp_path.glob("*.arrows"))) == 3
    assert writer.poll() is None
    found: list[str] = []
    while len(found) < 20:
        for arrival in intake.take(time.monotonic()):
            assert isinstance(arrival, Arrival)
            assert arrival.sample is not None
            number = float(arrival.name.removeprefix("run-"))
            assert (arrival.sample.values == number).all()
            assert len(list(tmp_path.glob("*.arrows"))) <= 3
            found.append(arrival.name)
            intake.done(arrival)
        time.sleep(0.002)
    spooler.join()
    assert writer.wait() == 0
    assert found == [f"run-{number:04d}" for number in range(1, 21)]
    pipe.close()


def test_stopping(tmp_path: Path) -> None:
    """Between two frames, also while there is no room; the frame at hand is not lost."""
    content = framed(*(stream([float(n)], name=f"run-{n}") for n in range(9)))
    stop = threading.Event()
    ended: list[int] = []
    pipe = io.BytesIO(content)
    spooler = threading.Thread(
        target=lambda: ended.append(spool(pipe, tmp_path, room=2, stop=stop))
    )
    spooler.start()
    while len(list(tmp_path.glob("*.arrows"))) < 2:
        time.sleep(0.01)
    stop.set()
    spooler.join()
    assert ended == [len(list(tmp_path.glob("*.arrows")))]
    assert ended[0] in (2, 3)


SAMPLE = Sample.from_array([1.0, 2.0])


def test_offers_come_in_order_and_are_answered() -> None:
    """Who offered is told what became of it."""
    offers = Offers(size=4)
    intake = Intake(offers, Order(10.0, ["run-0"]), room=4)
    told = {name: offers.offer(name, SAMPLE, 2.5) for name in ("run-2", "run-1", "run-3")}
    first, second, third = intake.take(0.0)
    assert (first.name, second.name, third.name) == ("run-1", "run-2", "run-3")
    assert isinstance(first, Arrival)
    assert isinstance(second, Arrival)
    assert (first.sample, first.expected) == (SAMPLE, 2.5)
    assert intake.take(1.0) == []
    assert intake.lag(3.0) == (3, 3.0, 3)
    assert not told["run-1"].cancel()
    intake.done(first)
    intake.refused(second, "it has a hole")
    assert told["run-1"].result(timeout=0) is None
    with pytest.raises(InputError, match="batch 'run-2': it has a hole"):
        told["run-2"].result(timeout=0)
    assert not told["run-3"].done()
    assert intake.lag(4.0) == (1, 4.0, 1)
    with pytest.raises(IdentityError, match="'run-3' is waiting already"):
        offers.offer("run-3", SAMPLE)
    for name, expected in (("", 1.0), ("a\nb", 1.0), ("a", -1.0), ("a", float("nan"))):
        with pytest.raises(InputError, match=r"cannot be the name|the expected count is"):
            offers.offer(name, SAMPLE, expected)


def test_offers_are_bounded() -> None:
    """Refused at once, after a while, or made to wait until there is room."""
    offers = Offers(size=2)
    intake = Intake(offers, Order(0.0), room=1)
    for name in ("a", "b"):
        offers.offer(name, SAMPLE)
    for wait in (0.0, 0.01):
        with pytest.raises(BusyError, match="batch 'c': 2 others wait"):
            offers.offer("c", SAMPLE, wait=wait)
    waiting = threading.Thread(target=offers.offer, args=("c", SAMPLE))
    waiting.start()
    found = []
    while len(found) < 3:
        for arrival in intake.take(time.monotonic()):
            assert isinstance(arrival, Arrival)
            assert offers.lag(time.monotonic()).waiting <= 2
            found.append(arrival.name)
            intake.done(arrival)
    waiting.join()
    assert found == ["a", "b", "c"]


def test_offers_close() -> None:
    """Whoever waits for room is told; what is there can be finished."""
    offers = Offers(size=1)
    offers.offer("a", SAMPLE)
    said: list[str] = []

    def offer() -> None:
        try:
            offers.offer("b", SAMPLE)
        except StoppedError as error:
            said.append(str(error))

    waiting = threading.Thread(target=offer)
    waiting.start()
    offers.close()
    waiting.join()
    assert said == ["batch 'b': the stream takes no more; start it again"]
    (arrival,) = Intake(offers, Order(0.0)).take(0.0)
    assert arrival.name == "a"


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    """Its blocks, pasted in order, fill an inbox; all but the command that empties it."""
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "feed-a-stream.md").read_text()
    blocks = re.findall(r"```(sh|python)\n(.*?)```", page, re.DOTALL)
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{here}:{os.environ['PATH']}", "PYTHONWARNINGS": "error"}
    for kind, text in blocks:
        if text.startswith("gofstream watch"):
            continue
        command = ["bash", "-euc", text] if kind == "sh" else [sys.executable, "-c", text]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
        )
        assert done.returncode == 0, f"{text}\n{done.stderr}"
    inbox = Inbox(tmp_path / "inbox", DECODER)
    intake = Intake(inbox, Order(10.0, ["run7-0000"]), room=20)
    intake.take(0.0)
    intake.take(5.0)
    found = [(each.name, getattr(each, "expected", "skipped")) for each in intake.take(15.0)]
    assert intake.lag(15.0).waiting == 7
    assert found == [
        ("run7-0005", "skipped"),
        ("run7-0006", 1987.5),
        ("run7-0007", 2000.0),
        ("run7-0008", 2000.0),
    ]
