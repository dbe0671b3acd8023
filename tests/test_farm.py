"""The farm: the same bits whoever works, whatever dies, and in whatever order."""

from __future__ import annotations

import json
import multiprocessing
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gofstream.datasets import expo1d
from gofstream.errors import FormatError, MemoryBudgetError, StoppedError
from gofstream.execution import thread_workers
from gofstream.inference.calibrate import calibrate
from gofstream.inference.null import NullFile
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.statistics import STATISTICS
from gofstream.toys.farm import Job, run
from gofstream.toys.memory import WorkerMemory
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.scanning import ScanPass
from gofstream.toys.sources import Simulator

Floats = NDArray[np.float64]
TOYS = 40
MANY = 480


def small_plan(seed: int = 1, expected: float = 150.0, reference_seed: int = 2) -> ReferencePlan:
    """Make four batches of 150 events against 4000 reference events, at two widths."""
    rng = np.random.default_rng(reference_seed)
    reference = Sample.from_array(expo1d.reference(4000, rng), name="reference")
    settings = Settings(widths=(0.4, 1.5), n_centres=60)
    learner = Learner.prepare(reference, settings, expected=expected, rng=rng)
    source = Simulator(expo1d.reference)
    return ReferencePlan(learner, source, "expo1d", np.full(4, expected), seed)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Floats:
    """Make the table that all others must equal, with one thread."""
    path = tmp_path_factory.mktemp("null") / "one.null"
    with thread_workers(1) as executor:
        made = calibrate(small_plan(), TOYS, path, executor)
    assert made.table.unconverged == 0
    assert made.table.t.shape == (TOYS, 6, 2, 4)
    assert np.isfinite(made.table.t).all()
    return made.table.t


class Shuffled(Executor):
    """Runs what it is given late, and in a random order."""

    def __init__(self) -> None:
        """Start with nothing to do."""
        self.inner = ThreadPoolExecutor(1)
        self.waiting: list[tuple[Future[Any], Any, Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Keep the call; run those kept, shuffled, as soon as somebody waits."""
        future: Future[Any] = Future()
        self.waiting.append((future, fn, args))
        if len(self.waiting) == 1:
            threading.Timer(0.05, self._drain).start()
        return future

    def _drain(self) -> None:
        calls, self.waiting = self.waiting, []
        random.Random(1).shuffle(calls)
        for future, fn, args in calls:
            future.set_result(fn(*args))


@pytest.mark.parametrize("threads", [2, 4])
def test_any_number_of_threads(table: Floats, tmp_path: Path, threads: int) -> None:
    """Bit-identical."""
    with thread_workers(threads) as executor:
        made = calibrate(small_plan(), TOYS, tmp_path / "n.null", executor)
    assert made.table.t.tobytes() == table.tobytes()


def test_any_order_of_blocks(table: Floats, tmp_path: Path) -> None:
    """Bit-identical."""
    made = calibrate(small_plan(), TOYS, tmp_path / "n.null", Shuffled())
    assert made.table.t.tobytes() == table.tobytes()


def test_more_toys_are_added(table: Floats, tmp_path: Path) -> None:
    """The first stay as they are and are not made again; a smaller number reads a part."""
    path = tmp_path / "n.null"
    calls: list[tuple[int, int]] = []
    with thread_workers(2) as executor:
        first = calibrate(small_plan(), 13, path, executor)
        made = calibrate(
            small_plan(), TOYS, path, executor, progress=lambda d, n: calls.append((d, n))
        )
        part = calibrate(small_plan(), 13, path, executor)
    assert first.table.t.tobytes() == table[:13].tobytes() == part.table.t.tobytes()
    assert made.table.t.tobytes() == table.tobytes()
    assert calls[0] == (6, 15)  # two widths and the scan
    assert calls[-1] == (15, 15)


def _calibrate_in_a_process(path: Path) -> None:
    with thread_workers(1) as executor:
        calibrate(small_plan(), MANY, path, executor, progress=lambda done, total: time.sleep(0.05))


@pytest.mark.slow
def test_killed_and_resumed(tmp_path: Path) -> None:
    """SIGKILL at 14 random moments, at the opening of the file too: it is whole, the bits the same.

    Processes are forked from one that has imported everything, so that they are killed while they
    calibrate, not while they import; they take their time, lest a fast machine be done too soon.
    """
    path = tmp_path / "killed.null"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gofstream.inference.calibrate"])
    rng = random.Random(5)
    kept = [0]
    for attempt in range(14):
        process = context.Process(target=_calibrate_in_a_process, args=[path])
        process.start()
        if attempt % 4:  # else kill it soon, whatever it does
            limit = time.monotonic() + 60
            while _count(path) <= kept[-1] and time.monotonic() < limit:
                time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.3))
        process.kill()
        process.join()
        kept.append(_count(path))
        if process.exitcode == 0:  # done, which only a long pause of this process can bring about
            break
        assert process.exitcode == -signal.SIGKILL
    assert kept == sorted(kept)
    assert len(set(kept)) > 7
    with thread_workers(2) as executor:
        undisturbed = calibrate(small_plan(), MANY, tmp_path / "whole.null", executor)
        made = calibrate(small_plan(), MANY, path, executor)
    assert made.table.t.tobytes() == undisturbed.table.t.tobytes()


def _count(path: Path) -> int:
    try:
        with closing(sqlite3.connect(path, timeout=5)) as connection:
            return int(connection.execute("SELECT count(*) FROM blocks").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def test_stopped_by_the_user(table: Floats, tmp_path: Path) -> None:
    """Ctrl-C keeps what is done and says how to go on; going on loses nothing."""
    path = tmp_path / "n.null"

    def stop(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with thread_workers(2) as executor:
        with pytest.raises(StoppedError, match=r"3 of 15 blocks.*same call.*goes on"):
            calibrate(small_plan(), TOYS, path, executor, progress=stop)
        seen: list[int] = []
        made = calibrate(small_plan(), TOYS, path, executor, progress=lambda d, n: seen.append(d))
    assert seen[0] == 3
    assert made.table.t.tobytes() == table.tobytes()


class SmallDisk(NullFile):
    """A null file on a disk with room for so many pages."""

    pages = 10**6

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        with super()._connect() as connection:
            connection.execute(f"PRAGMA max_page_count = {self.pages}")
            yield connection


def test_a_full_disk(table: Floats, tmp_path: Path) -> None:
    """The text says what was kept and how to go on; with more room, that works."""
    path = tmp_path / "n.null"
    file = SmallDisk(path, small_plan().about())
    file.pages = _pages(path) + 4
    with thread_workers(2) as executor:
        with pytest.raises(StoppedError) as caught:
            run([Job(small_plan(), TOYS, file)], executor)
        kept = _count(path)
        assert 0 < kept < 15
        for part in ("n.null", "disk is full", f"with {kept} of 15 blocks", "same call"):
            assert part in str(caught.value)
        with pytest.raises(FormatError, match=r"is missing; run the calibration again"):
            file.load(TOYS)
        made = calibrate(small_plan(), TOYS, path, executor)
    assert made.table.t.tobytes() == table.tobytes()


def _pages(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA page_count").fetchone()[0])


@dataclass(frozen=True, eq=False)
class Counted(ReferencePlan):
    """Counts how many blocks run at a time."""

    running: list[int] = field(default_factory=lambda: [0, 0, 0])
    lock: Any = field(default_factory=threading.Lock)

    def block(self, shared: Any, width: float | ScanPass, index: int) -> tuple[Floats, int]:
        """Count blocks of fits now, the most at a time, and all."""
        if isinstance(width, ScanPass):
            return ReferencePlan.block(self, shared, width, index)
        with self.lock:
            self.running[0] += 1
            self.running[1] = max(self.running[:2])
            self.running[2] += 1
        time.sleep(0.01)
        try:
            return ReferencePlan.block(self, shared, width, index)
        finally:
            with self.lock:
                self.running[0] -= 1


def counted_plan(memory: int, *, one_step: bool = False) -> Counted:
    """Make the small plan with a memory budget."""
    plan = small_plan()
    settings = plan.learner.settings.changed(memory=memory, one_step=one_step)
    learner = replace(plan.learner, settings=settings)
    return Counted(learner, plan.source, plan.source_name, plan.expected, plan.seed)


def needed(budget: int = 4 * 1024**3) -> tuple[int, int]:
    """Bytes of what blocks share and of a block, at the width that needs most of both."""
    plan, shared = counted_plan(budget), small_plan().shared
    return max(plan.memory(shared(width)) for width in plan.learner.widths)


@pytest.mark.parametrize(("blocks", "at_once"), [(1, 1), (2, 2), (3, 3), (50, 4)])
def test_as_many_blocks_at_once_as_memory_allows(
    table: Floats, tmp_path: Path, blocks: int, at_once: int
) -> None:
    """Never more, never a refusal; and the budget changes no bit."""
    shared, block = needed()
    plan = counted_plan(shared + blocks * block + block // 2)
    with thread_workers(4) as executor:
        made = calibrate(plan, TOYS, tmp_path / "n.null", executor)
    assert plan.running == [0, at_once, 10]
    assert made.table.t.tobytes() == table.tobytes()


def test_features_of_another_budget_are_not_used_again() -> None:
    """A worker outlives a run; the next may have less memory, and then makes rows anew."""
    plan = small_plan()
    settings = plan.learner.settings.changed(memory=2_000_000)
    tight = replace(plan, learner=replace(plan.learner, settings=settings))
    assert plan.about() == tight.about()
    memory = WorkerMemory()
    first = memory.shared(plan, 0.4)
    assert memory.shared(plan, 0.4) is first
    assert memory.shared(tight, 0.4) is not first


@pytest.mark.parametrize("one_step", [False, True])
def test_too_little_memory_for_one_block(tmp_path: Path, one_step: bool) -> None:
    """Refused before any block is begun, by the number of bytes of one that keeps no rows.

    A single step needs them kept.
    """
    shared, block = needed() if one_step else needed(budget=1)
    assert (block < needed()[1]) is not one_step
    plan = counted_plan(shared + block - 1, one_step=one_step)
    with thread_workers(2) as executor, pytest.raises(MemoryBudgetError) as caught:
        calibrate(plan, TOYS, tmp_path / "n.null", executor)
    assert (caught.value.needed, plan.running[2]) == (shared + block, 0)


@pytest.mark.parametrize(
    ("plan", "what"),
    [
        (small_plan(reference_seed=3), "the reference has other rows"),
        (small_plan(seed=2), r"the seed \(`rng`, --seed\) is another\. "),
        (replace(small_plan(), stream="other"), "these are toys of 'null', not of 'other'"),
        (
            replace(small_plan(), source_name="pool"),
            ".* came from expo1d, come from pool",
        ),
        (
            replace(small_plan(), expected=np.full(4, 160.0)),
            ".* were 150, .* are 160, 160",
        ),
    ],
)
def test_another_plan_is_refused(plan: ReferencePlan, what: str, tmp_path: Path) -> None:
    """The text says which input differs."""
    path = tmp_path / "n.null"
    NullFile(path, small_plan().about())
    with pytest.raises(FormatError, match=f"made with other inputs: {what}"):
        NullFile(path, plan.about())


def test_damaged_and_newer_files(tmp_path: Path) -> None:
    """Neither is used, and neither is changed."""
    path = tmp_path / "n.null"
    path.write_bytes(b"not a database, but long enough to be read as one" * 100)
    before = path.read_bytes()
    with pytest.raises(FormatError, match=r"n\.null cannot be used as a null file"):
        NullFile(path, small_plan().about())
    assert path.read_bytes() == before
    newer = tmp_path / "newer.null"
    NullFile(newer, small_plan().about())
    with closing(sqlite3.connect(newer)) as connection, connection:
        connection.execute("UPDATE about SET value = '3' WHERE key = 'version'")
    with pytest.raises(FormatError, match=r"has version 3, and this gofstream reads 2; use the"):
        NullFile(newer, small_plan().about())


def test_a_description_of_tables_that_is_no_text(tmp_path: Path) -> None:
    """SQLite's complaint quotes what cannot be decoded, and is a complaint all the same."""
    path, about = tmp_path / "n.null", small_plan().about()
    NullFile(path, about)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"CREATE TABLE", b"CREATE \xc9ABLE"))
    with pytest.raises(FormatError, match=r"n\.null cannot be used as a null file"):
        NullFile(path, about)


def test_a_missing_or_cut_block_is_named(tmp_path: Path) -> None:
    """Loading says which block, and what to do."""
    path = tmp_path / "n.null"
    with thread_workers(1) as executor:
        calibrate(small_plan(), 8, path, executor)
    file = NullFile(path, small_plan().about())
    with pytest.raises(FormatError, match="block 1 of width 0 is missing"):
        file.load(16)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE blocks SET t = substr(t, 1, 100) WHERE width = 1")
    with pytest.raises(FormatError, match="block 0 of width 1 is damaged"):
        file.load(8)


def test_the_file_is_readable_by_plain_sql(table: Floats, tmp_path: Path) -> None:
    """As the format is documented: JSON, and little-endian numbers."""
    path = tmp_path / "n.null"
    with thread_workers(1) as executor:
        calibrate(small_plan(), 8, path, executor)
    with closing(sqlite3.connect(path)) as connection:
        about = dict(connection.execute("SELECT key, value FROM about"))
        data = connection.execute("SELECT t FROM blocks WHERE width = 1").fetchone()[0]
    assert json.loads(about["widths"]) == [0.4, 1.5]
    assert json.loads(about["format"]) == "gofstream.null"
    t = np.frombuffer(data, "<f8").reshape(8, 6, 4)
    assert (t == table[:8, :, 1]).all()


def test_table_by_name(table: Floats, tmp_path: Path) -> None:
    """Statistics are found by their names, after any number of batches."""
    with thread_workers(1) as executor:
        made = calibrate(small_plan(), TOYS, tmp_path / "n.null", executor)
    for k, name in enumerate(STATISTICS):
        assert (made.table.statistic(name) == table[:, k, :, 3]).all()
        assert (made.table.statistic(name, 2) == table[:, k, :, 1]).all()
