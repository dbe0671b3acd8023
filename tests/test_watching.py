"""From a source to the store: the loop, and `gofstream watch` as a user types it."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from gofstream.errors import StoppedError
from gofstream.execution import thread_workers
from gofstream.io import read
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.statistics import STATISTICS
from gofstream.stream import watching as watching_module
from gofstream.stream.decode import Decoder
from gofstream.stream.directory import Inbox
from gofstream.stream.merge import Gathering, LearntNames, parts_of
from gofstream.stream.monitor import Acknowledged, Monitor
from gofstream.stream.order import Order
from gofstream.stream.reader import Reader
from gofstream.stream.rows import Retention
from gofstream.stream.sources import Arrival, Intake, Lag, Offers
from gofstream.stream.watching import Watching

SET = ("--set", "widths=[0.3,1.0]", "--set", "n_centres=40")
SETTINGS = Settings(widths=(0.3, 1.0), n_centres=40)


def events(n: int, seed: int) -> NDArray[np.float64]:
    """Draw a batch."""
    return np.random.default_rng([5, seed]).exponential(size=(n, 1))


@pytest.fixture(scope="module")
def learner() -> Learner:
    """Prepare a small reference."""
    rng = np.random.default_rng(1)
    reference = Sample.from_array(events(4000, 0), ["x"])
    return Learner.prepare(reference, SETTINGS, expected=100.0, rng=rng)


Offered = Sequence[tuple[str, Sample] | tuple[str, Sample, float]]


def offered(
    path: Path, learner: Learner, batches: Offered, later: Offered = ()
) -> tuple[list[Acknowledged], list[Exception | None]]:
    """Run the loop over batches that are offered all at once; give what it said to whom.

    Those for later are offered when the first of the others is in the store.
    """
    offers, seen = Offers(size=100), []
    told = [offers.offer(*batch) for batch in batches]
    if not later:
        offers.close()

    def see(done: Acknowledged, lag: Lag) -> None:
        if later and not seen:
            told.extend(offers.offer(*batch) for batch in later)
            offers.close()
        seen.append(done)

    with (
        Monitor.open(path, learner, None, Retention("sat"), epoch=10, window=2) as monitor,
        thread_workers(2) as executor,
    ):
        order = Order(0.0, monitor.learnt_names.names)
        watching = Watching(monitor, Intake(offers, order, room=3), executor)
        watching.run(threading.Event(), see, ended=lambda: True)
    return seen, [future.exception(timeout=0) for future in told]


def test_applied_in_order_whatever_the_order_of_learning(tmp_path: Path, learner: Learner) -> None:
    """Twelve batches offered backwards: ledger and statistics are those of the right order."""
    names = [f"run-{n:02d}" for n in range(1, 13)]
    samples = {n: Sample.from_array(events(90 + k, k), ["x"]) for k, n in enumerate(names, 1)}
    seen, told = offered(tmp_path / "a", learner, [(n, samples[n]) for n in reversed(names)])
    assert [done.entry.name for done in seen] == names
    assert told == [None] * 12
    with Monitor.open(
        tmp_path / "b", learner, None, Retention("sat"), epoch=10, window=2
    ) as monitor:
        alone = [monitor.apply(monitor.learn(n, samples[n], None, 0.0)).entry for n in names]
    assert [done.entry.statistics for done in seen] == [entry.statistics for entry in alone]


def test_a_run_without_an_end_waits_for_the_next_batch(
    tmp_path: Path, learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long nothing comes: only `stop` ends it."""
    monkeypatch.setattr(watching_module, "QUIET", 0.05)
    offers, stop, seen = Offers(), threading.Event(), list[Acknowledged]()
    sample, begin = Sample.from_array(events(100, 1), ["x"]), time.monotonic()

    def idle(lag: Lag) -> None:
        if time.monotonic() - begin > 0.4 and not lag.waiting and not seen:
            offers.offer("run-1", sample)

    def see(done: Acknowledged, lag: Lag) -> None:
        seen.append(done)
        stop.set()

    with (
        Monitor.open(
            tmp_path / "run", learner, None, Retention("sat"), epoch=10, window=2
        ) as monitor,
        thread_workers(1) as executor,
    ):
        watching = Watching(monitor, Intake(offers, Order(0.0)), executor)
        watching.run(stop, see, idle=idle)
    assert [done.entry.name for done in seen] == ["run-1"]


def pieces(count: int) -> list[tuple[str, Sample, float]]:
    """Draw small batches, of a quarter of the nominal exposure to a little more than all of it."""
    rng = np.random.default_rng(8)
    sizes = [30, 30, 35, 100, 40, 99, 25, 25, 25, 25, 111, 60]
    return [
        (f"run-{k:02d}", Sample.from_array(rng.exponential(size=(n, 1)), ["x"]), float(n))
        for k, n in enumerate(sizes[:count], 1)
    ]


def test_small_batches_are_merged_to_the_nominal_exposure(tmp_path: Path, learner: Learner) -> None:
    """As by hand; one whose company would be too large, and what is left at the end, goes alone."""
    given = pieces(12)
    seen, told = offered(tmp_path / "run", learner, given)
    assert told == [None] * 12
    assert [(d.entry.name, d.entry.expected, d.entry.state) for d in seen] == [
        ("run-01 .. run-03", 95.0, "learnt"),
        ("run-04", 100.0, "learnt"),
        ("run-05", 40.0, "unmonitored"),
        ("run-06", 99.0, "learnt"),
        ("run-07 .. run-10", 100.0, "learnt"),
        ("run-11", 111.0, "unmonitored"),
        ("run-12", 60.0, "unmonitored"),
    ]
    together = Sample.from_array(np.concatenate([s.values for _, s, _ in given[6:10]]), ["x"])
    with Monitor.open(
        tmp_path / "b", learner, None, Retention("sat"), epoch=10, window=2
    ) as monitor:
        alone = monitor.apply(monitor.learn("one", together, 100.0, 0.0)).entry
    assert (seen[4].entry.digest, seen[4].entry.events) == (alone.digest, 100)


def test_parts_of_a_merged_batch_are_known(tmp_path: Path, learner: Learner) -> None:
    """Killed before all files were let go: the others are not new, nor late; another one is."""
    given = pieces(10)
    offered(tmp_path / "run", learner, given[:4])
    other = Sample.from_array(events(35, 1), ["x"])
    again = [given[1], ("run-03", other, 35.0), *given[4:]]
    seen, told = offered(tmp_path / "run", learner, again)
    assert [(d.entry.name, d.entry.state, d.new) for d in seen] == [
        ("run-01 .. run-03", "learnt", False),
        ("run-03", "quarantined", True),
        ("run-05", "unmonitored", True),
        ("run-06", "learnt", True),
        ("run-07 .. run-10", "learnt", True),
    ]
    assert [error is None for error in told] == [True, False, *[True] * 6]


def test_parts_without_numbers_are_known_too(tmp_path: Path, learner: Learner) -> None:
    """Nobody can tell from their names that they come again."""
    names = ("monday", "tuesday", "wednesday")
    given = [(name, *rest) for name, (_, *rest) in zip(names, pieces(3), strict=True)]
    offered(tmp_path / "run", learner, given)
    other = Sample.from_array(events(35, 1), ["x"])
    again = [given[1], ("wednesday", other, 35.0), ("zero", other, 100.0)]
    seen, told = offered(tmp_path / "run", learner, again)
    assert [(d.entry.number, d.entry.state, d.new) for d in seen] == [
        (1, "learnt", False),
        (2, "quarantined", True),
        (3, "learnt", True),
    ]
    assert "part of batch 1" in seen[1].entry.note
    assert [error is None for error in told] == [True, False, True]


def test_parts_are_known_in_the_same_run(tmp_path: Path, learner: Learner) -> None:
    """One that comes again right after the whole was learnt."""
    names = ("monday", "tuesday", "wednesday")
    given = [(name, *rest) for name, (_, *rest) in zip(names, pieces(3), strict=True)]
    seen, told = offered(tmp_path / "run", learner, given, later=given[1:2])
    assert [(d.entry.number, d.entry.state, d.new) for d in seen] == [
        (1, "learnt", True),
        (1, "learnt", False),
    ]
    assert told == [None] * 4


def test_a_merged_batch_whose_name_is_taken(tmp_path: Path, learner: Learner) -> None:
    """It is learnt under a name that a digest makes its own."""
    taken = Sample.from_array(events(100, 1), ["x"])
    given = [(name, *rest) for name, (_, *rest) in zip("abc", pieces(3), strict=True)]
    offered(tmp_path / "run", learner, [("a .. c", taken, 100.0)])
    ((done,), told) = offered(tmp_path / "run", learner, given)
    digest = hashlib.sha256(b"a\nb\nc").hexdigest()[:12]
    assert (done.entry.name, done.entry.state) == (f"a .. c… ({digest})", "learnt")
    assert told == [None] * 3


def test_parts_whose_names_agree_in_98_characters(tmp_path: Path, learner: Learner) -> None:
    """Every whole has a name of its own, and all are learnt."""
    begin = "x" * 98
    given = [
        (f"{begin}-{letter}-{part}", *rest)
        for letter in "abc"
        for part, (_, *rest) in zip("123", pieces(3), strict=True)
    ]
    seen, told = offered(tmp_path / "run", learner, given)
    assert [done.entry.state for done in seen] == ["learnt"] * 3
    assert len({done.entry.name for done in seen}) == 3
    assert told == [None] * 9


def test_names_cannot_pass_for_parts(tmp_path: Path, learner: Learner) -> None:
    """Neither in the note of a refused batch, nor as a part called like two."""
    fake = "merged: run-05 0123456789abcdef + run-06 0123456789abcdef"
    wrong = Sample.from_array([[1.0]], [fake])
    sly = [(f"x + run-0{k} 0", *rest) for k, (_, *rest) in enumerate(pieces(3), 7)]
    path = tmp_path / "run"
    seen, _ = offered(path, learner, [("a", wrong, 100.0), *sly])
    assert [done.entry.state for done in seen] == ["quarantined", "learnt"]
    assert fake in seen[0].entry.note
    with Reader(path) as reader:
        refused, merged = reader.entries()
    assert (parts_of(refused), LearntNames.of([refused])) == ({}, LearntNames())
    assert list(parts_of(merged)) == [name for name, *_ in sly]
    good = [(f"run-0{k}", Sample.from_array(events(100, k), ["x"])) for k in (5, 6, 7, 8)]
    seen, told = offered(path, learner, good)
    assert [done.entry.state for done in seen] == ["learnt"] * 4
    assert told == [None] * 4


@pytest.mark.parametrize(
    "bad", [Sample.from_array([[1.0]], ["y"]), Sample.from_array([[1e38]], ["x"])]
)
def test_one_bad_part_does_not_spoil_the_others(
    tmp_path: Path, learner: Learner, bad: Sample
) -> None:
    """It is put aside, and the others are merged."""
    given = pieces(3)
    seen, _ = offered(
        tmp_path / "run", learner, [given[0], ("run-02", bad, 30.0), ("run-03", *given[2][1:])]
    )
    assert [(d.entry.name, d.entry.state) for d in seen] == [
        ("run-02", "quarantined"),
        ("run-01 .. run-03", "unmonitored"),
    ]


def test_junk_names_disable_no_series(tmp_path: Path, learner: Learner) -> None:
    """Numbers far ahead, good content or bad, and names of 200 characters with a gap."""
    good = {n: Sample.from_array(events(100, n), ["x"]) for n in range(1, 8)}
    wrong = Sample.from_array(events(100, 9), ["y"])
    long = "n" * 196
    given = [
        ("run-1", good[1]),
        ("run-99999999", wrong),
        ("run-50", wrong),
        ("run-88888888", good[2]),
        (f"{long}0001", good[3]),
        (f"{long}0003", good[4]),
    ]
    seen, _ = offered(tmp_path / "run", learner, given)
    ends = {done.entry.name: done.entry.state for done in seen}
    assert ends.pop(f"{long}0002") == "skipped"
    bad = {"run-99999999", "run-50"}
    assert ends == {n: "quarantined" if n in bad else "learnt" for n, _ in given}
    # Afterwards, in a run that goes on, the series is where it was.
    seen, told = offered(
        tmp_path / "run", learner, [("run-2", good[5]), ("run-50", good[6]), ("run-3", good[7])]
    )
    learnt = [done.entry.name for done in seen if done.entry.state == "learnt"]
    assert learnt == ["run-2", "run-3", "run-50 (again)"]
    assert told == [None] * 3


def test_no_batch_stops_the_run(tmp_path: Path, learner: Learner) -> None:
    """One without events is learnt by nobody, and its number is not believed."""
    good = Sample.from_array(events(100, 1), ["x"])
    empty = good.take(slice(0, 0))
    seen, told = offered(
        tmp_path / "run", learner, [("r-1", good), ("r-9", empty)], later=[("r-2", good)]
    )
    ends = [(done.entry.name, done.entry.state) for done in seen]
    assert ends == [("r-1", "learnt"), ("r-9", "quarantined"), ("r-2", "learnt")]
    assert [error is None for error in told] == [True, False, True]


def test_a_large_batch_waits_for_nobody(learner: Learner) -> None:
    """Nor do those before it."""
    small = Arrival("run-1", 0.0, Sample.from_array(events(30, 1), ["x"]), expected=30.0)
    large = Arrival("run-2", 0.0, Sample.from_array(events(300, 2), ["x"]), expected=300.0)
    waiting, wholes = Gathering(learner).add(small)
    assert (len(waiting.parts), wholes) == (1, [])
    waiting, wholes = waiting.add(large)
    assert waiting.parts == ()
    assert [(whole.name, whole.expected) for whole in wholes] == [("run-1", 30.0), ("run-2", 300.0)]


def test_parts_may_have_their_columns_in_any_order(tmp_path: Path) -> None:
    """The whole is that of parts which have them in the order of the reference."""
    rng = np.random.default_rng(2)
    reference = Sample.from_array(rng.normal([0, 5], 1, (4000, 2)), ["x", "y"])
    own = Learner.prepare(reference, SETTINGS, expected=100.0, rng=rng)
    halves = [rng.normal([0, 5], 1, (50, 2)) for _ in range(2)]
    found = []
    for name, columns in (("same", ["x", "y"]), ("turned", ["y", "x"])):
        order = [columns.index("x"), columns.index("y")]
        second = Sample.from_array(halves[1][:, order], columns)
        first = Sample.from_array(halves[0], ["x", "y"])
        given = [("run-1", first, 50.0), ("run-2", second, 50.0)]
        (done,), _ = offered(tmp_path / name, own, given)
        found.append((done.entry.digest, done.entry.statistics))
    assert found[0] == found[1]


def test_what_cannot_be_used_is_put_aside_and_the_stream_goes_on(
    tmp_path: Path, learner: Learner
) -> None:
    """A wrong column, a missing number, a late one, a known one, another one of its name."""
    good = [Sample.from_array(events(100, k), ["x"]) for k in range(4)]
    wrong = Sample.from_array(events(100, 9), ["y"])
    first = [("run-1", good[0]), ("run-2", wrong), ("run-4", good[1])]
    seen, told = offered(tmp_path / "run", learner, first)
    assert [(d.entry.name, d.entry.state) for d in seen] == [
        ("run-1", "learnt"),
        ("run-2", "quarantined"),
        ("run-3", "skipped"),
        ("run-4", "learnt"),
    ]
    assert [error is None for error in told] == [True, False, True]
    assert "'x'" in seen[1].entry.note
    # After a restart: known ones are known, and what comes too late is refused.
    again = [("run-1", good[0]), ("run-3", good[2]), ("run-4", good[3]), ("run-5", good[2])]
    seen, told = offered(tmp_path / "run", learner, again)
    ends = {d.entry.name: (d.entry.number, d.entry.state, d.new) for d in seen}
    assert ends == {
        "run-1": (1, "learnt", False),
        "run-3 (again)": (5, "quarantined", True),
        "run-4 (again)": (6, "quarantined", True),
        "run-5": (7, "learnt", True),
    }
    assert [error is None for error in told] == [True, False, False, True]
    assert "too late" in str(told[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a reference for the command."""
    folder = tmp_path_factory.mktemp("watch")
    pq.write_table(pa.table({"x": events(45_000, 1000)[:, 0]}), folder / "reference.parquet")
    return folder


def command(folder: Path, inbox: Path, store: Path, *more: str) -> list[str]:
    """Give what a user types."""
    here = Path(sys.executable).parent / "gofstream"
    given = ["--expected", "100", "--epoch", "8", "--window", "3", "--false-alarm-every", "80"]
    given += ["--streams", "40", *SET]
    given += ["--config", str(folder / "keep.toml")] if (folder / "keep.toml").exists() else []
    reference = str(folder / "reference.parquet")
    return [
        str(here),
        "watch",
        reference,
        "--inbox",
        str(inbox),
        "--store",
        str(store),
        *given,
        *more,
    ]


def put(inbox: Path, number: int, peak: int = 0) -> None:
    """Let one file appear."""
    x = events(100, number)[:, 0]
    x = np.concatenate([x, np.random.default_rng(number).normal(3, 0.1, peak)])
    inbox.mkdir(exist_ok=True)
    pq.write_table(pa.table({"x": x}), inbox / ".part")
    (inbox / ".part").rename(inbox / f"run1-{number:03d}.parquet")


@pytest.mark.slow
def test_watch_alarms_and_goes_on_after_a_stop(folder: Path, tmp_path: Path) -> None:
    """Stopped and started again, with a peak switched on meanwhile: an alarm, rightly dated."""
    inbox, store = tmp_path / "in", tmp_path / "run.gofs"
    for number in range(1, 10):
        put(inbox, number)
    line = command(folder, inbox, store, "--patience", "2", "--json", "--keep-models")
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        rest, error = process.stdout.readlines(), process.stderr.read()
    assert process.returncode == 130, error
    assert "goes on from there" in error
    assert json.loads(first)["name"] == "run1-001"
    before = 1 + len(rest)
    for number in range(10, 17):
        put(inbox, number, peak=25)
    done = subprocess.run(
        [*line, "--once"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(text) for text in done.stdout.splitlines()]
    assert [each["batch"] for each in lines if each["new"]] == list(range(before + 1, 17))
    assert not list(inbox.glob("*.parquet"))
    with Reader(store) as reader:
        entries, alarms = reader.entries(), reader.alarms()
    assert [entry.name for entry in entries] == [f"run1-{n:03d}" for n in range(1, 17)]
    assert 10 <= alarms[-1].batch <= 13
    assert abs(alarms[-1].since - 10) <= 2
    again = [line[0], "replay", str(store), "--reference", line[2], *SET]
    done = subprocess.run(again, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "of 16 batches, the same to the bit" in done.stdout


def put_pieces(inbox: Path) -> None:
    """Let small files appear, three to a nominal exposure; the last one finds no others."""
    inbox.mkdir()
    for number in range(1, 29):
        table = pa.table({"x": events(34, number)[:, 0]})
        told = {b"gofstream.expected": b"33.4"}
        pq.write_table(table.replace_schema_metadata(told), inbox / ".part")
        (inbox / ".part").rename(inbox / f"run1-{number:03d}.parquet")


@pytest.mark.slow
def test_killed_while_it_merges(folder: Path, tmp_path: Path) -> None:
    """SIGKILL at random moments: every file in one whole, each whole once, the same bits."""
    rng = np.random.default_rng(3)
    runs, kills = [], 0
    for name in ("whole", "killed"):
        inbox, store = tmp_path / f"in-{name}", tmp_path / f"{name}.gofs"
        put_pieces(inbox)
        line = command(folder, inbox, store, "--patience", "1", "--json", "--once", "--quiet")
        line[line.index("--false-alarm-every") + 1] = "0"
        while True:
            with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                if name == "killed" and kills < 4:
                    process.stdout.readline()
                    time.sleep(float(rng.uniform(0, 0.05)))
                    process.kill()
                    kills += 1
                process.stdout.read()
            if process.returncode != -signal.SIGKILL:
                break
        assert process.returncode == 0
        assert not list(inbox.glob("*.parquet"))
        with Reader(store) as reader:
            runs.append(reader.entries())
    assert kills >= 2
    for whole, killed in zip(*runs, strict=True):
        assert (killed.name, killed.digest, killed.note) == (whole.name, whole.digest, whole.note)
        assert killed.statistics == whole.statistics
    parts = [part for entry in runs[1] for part in parts_of(entry) or {entry.name: ""}]
    assert parts == [f"run1-{number:03d}" for number in range(1, 29)]
    assert [entry.state for entry in runs[1]] == ["learnt"] * 9 + ["unmonitored"]


def test_statistics_of_a_run_are_those_offline(folder: Path, tmp_path: Path) -> None:
    """`sat` and `next` of the first epoch, from files, against their definitions."""
    inbox, store = tmp_path / "in", tmp_path / "run.gofs"
    for number in range(1, 7):
        put(inbox, number)
    (inbox / "run1-007.parquet").write_bytes(b"nothing of the kind")
    put(inbox, 8)
    kept = tmp_path / "kept"
    line = command(folder, inbox, store, "--once", "--false-alarm-every", "0", "--keep-files")
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    (inbox / "done").rename(kept)
    reference = read(str(folder / "reference.parquet"), name="reference").sample
    rng = np.random.default_rng(1)
    learner = Learner.prepare(reference, SETTINGS, expected=100.0, rng=rng)
    batches = [read(str(path)).sample for path in sorted(kept.glob("*.parquet"))[:6]]
    with Reader(store) as reader:
        found = {(s.family, s.width): s.t for s in reader.entry(6).statistics}
        # One that cannot be read keeps its place, and is put aside when nobody writes to it.
        assert [entry.state for entry in reader.entries(6)] == ["learnt", "quarantined", "learnt"]
    assert "not Parquet" in (inbox / "quarantine" / "run1-007.parquet.txt").read_text()
    for index, width in enumerate(learner.widths):
        ratios = learner.learn(learner.features(width), batches, [100.0] * 6).ratios
        for name in ("sat", "next"):
            wanted = STATISTICS[name](ratios)
            assert found[f"epoch {name}", index] == pytest.approx(wanted, rel=1e-5)


def test_arrow_frames_from_a_pipe(folder: Path, tmp_path: Path) -> None:
    """Two frames and a broken one: two batches, and an error that names the third."""
    frames = b""
    for number in (1, 2):
        table = pa.table({"x": events(100, number)[:, 0]})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        content = sink.getvalue().to_pybytes()
        frames += len(content).to_bytes(8, "little") + content
    line = command(folder, tmp_path / "in", tmp_path / "run.gofs", "--stdin", "--patience", "0")
    done = subprocess.run(
        [*line, "--false-alarm-every", "0"],
        input=frames + b"\x07\x00\x00",
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2
    assert b"frame 3" in done.stderr
    with Reader(tmp_path / "run.gofs") as reader:
        assert [entry.state for entry in reader.entries()] == ["learnt", "learnt"]


@pytest.mark.parametrize(
    "sign", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_stopped_while_it_reads_standard_input(
    folder: Path, tmp_path: Path, sign: signal.Signals
) -> None:
    """With half a frame read, and the writer still there: an orderly end that says what stands."""
    inbox, store = tmp_path / "in", tmp_path / "run.gofs"
    line = command(folder, inbox, store, "--stdin", "--patience", "0", "--json")
    line[line.index("--false-alarm-every") + 1] = "0"
    table, sink = pa.table({"x": events(100, 1)[:, 0]}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content = sink.getvalue().to_pybytes()
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(len(content).to_bytes(8, "little") + content)
        process.stdin.write(len(content).to_bytes(8, "little") + content[:500])
        process.stdin.flush()
        assert b'"state": "learnt"' in process.stdout.readline()
        process.send_signal(sign)
        process.wait(timeout=20)
        error = process.stderr.read().decode()
    assert process.returncode == 130, error
    assert "Fatal" not in error
    assert "stopped; 1 batches are in" in error
    assert "frames of the input that were read whole" in error


def put_twice(inbox: Path) -> None:
    """Let the files of two batches appear."""
    for number in (1, 2):
        put(inbox, number)


def remove(path: Path) -> None:
    """Remove a store and all that lies beside it."""
    for each in path.parent.glob("run.gofs*"):
        each.unlink()


def replace_by_a_copy(path: Path) -> None:
    """Put another file in the place of a store."""
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


@pytest.mark.parametrize(
    "accident",
    [lambda path: path.rename(path.with_name("moved")), remove, replace_by_a_copy],
    ids=["moved", "removed", "replaced"],
)
def test_a_store_moved_or_removed_loses_no_batch(
    tmp_path: Path, learner: Learner, accident: Callable[[Path], object]
) -> None:
    """The run stops before it lets go of a file; put back, the run has each batch once."""
    inbox, store = tmp_path / "in", tmp_path / "run" / "run.gofs"
    store.parent.mkdir()
    put_twice(inbox)
    names = []

    def watch(after: Callable[[Path], object]) -> None:
        def see(done: Acknowledged, lag: Lag) -> None:
            names.append(done.entry.name)
            after(store)

        with (
            Monitor.open(store, learner, None, Retention("sat"), epoch=10, window=2) as monitor,
            thread_workers(1) as executor,
        ):
            order = Order(0.0, monitor.learnt_names.names)
            source = Inbox(inbox, Decoder(("x",)), settle=0.0, poll=0.0)
            watching = Watching(monitor, Intake(source, order, room=1), executor)
            watching.run(threading.Event(), see, ended=lambda: True)

    with pytest.raises(StoppedError, match=r"run\.gofs was moved, removed or replaced while"):
        watch(accident)
    assert names == ["run1-001"]
    assert sorted(path.name for path in inbox.glob("*.parquet")) == ["run1-002.parquet"]
    if (store.parent / "moved").exists():
        (store.parent / "moved").rename(store)
        with Reader(store) as reader:
            assert [entry.name for entry in reader.entries()] == ["run1-001"]
        watch(lambda path: None)
        with Reader(store) as reader:
            assert [entry.name for entry in reader.entries()] == ["run1-001", "run1-002"]


def test_a_terminal_shows_the_run(tmp_path: Path, learner: Learner) -> None:
    """The picture says how the run stands, and has the batches and what waits; names are text."""
    from io import StringIO

    from rich.console import Console

    from gofstream.cli import live

    seen, _ = offered(
        tmp_path / "run", learner, [("[red]run-1", Sample.from_array(events(100, 1), ["x"]))]
    )
    with Monitor.open(
        tmp_path / "run", learner, None, Retention("sat"), epoch=10, window=2
    ) as monitor:
        picture = live.picture(monitor.status(), seen, Lag(3, 12.0, 1))
    console = Console(file=StringIO(), width=100)
    console.print(picture)
    shown = console.file.getvalue()
    assert "No alarms. This run has no boundary" in shown
    assert "[red]run-1" in shown
    assert "3 waiting, the oldest 12 s" in shown
    assert time.time() - seen[0].entry.arrived < 60
