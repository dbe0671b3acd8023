"""Runs that overlap in one process: one budget, features made once each, BLAS threads restored."""

from __future__ import annotations

import os
import threading
import tracemalloc
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

from gofstream.errors import MemoryBudgetError
from gofstream.execution import cores, hands, thread_workers
from gofstream.inference.calibrate import calibrate, calibrate_and_test
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys.memory import ProcessBudget, RunMemory, WorkerMemory
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.scanning import ScanPass
from gofstream.toys.sources import Simulator

Floats = NDArray[np.float64]


def nominal(count: int, rng: np.random.Generator) -> Floats:
    """Draw standard normal events."""
    return rng.normal(size=(count, 2))


@dataclass(frozen=True, eq=False)
class Counting(ReferencePlan):
    """Counts what is prepared for blocks, and the threads each block may use."""

    prepared: Counter[float | ScanPass] = field(default_factory=Counter)
    inner_threads: set[int] = field(default_factory=set)

    def shared(self, which: float | ScanPass) -> Any:
        """Prepare, and count it."""
        self.prepared[which] += 1
        return ReferencePlan.shared(self, which)

    def block(self, shared: Any, which: float | ScanPass, index: int) -> tuple[Floats, int]:
        """Compute, and note the threads."""
        self.inner_threads.add(hands())
        return ReferencePlan.block(self, shared, which, index)


def plan(seed: int, rows: int, memory: int = 4 * 1024**3, *, with_scan: bool = True) -> Counting:
    """Plan toys of two batches, against a reference of its own for each seed."""
    rng = np.random.default_rng(seed)
    settings = Settings(widths=(0.15, 0.2), n_centres=150, memory=memory)
    reference = Sample.from_array(nominal(rows, rng))
    learner = Learner.prepare(reference, settings, expected=200.0, rng=rng)
    expected = np.full(2, 200.0)
    return Counting(learner, Simulator(nominal), "normal", expected, seed, with_scan=with_scan)


def blas_threads() -> set[object]:
    """Look up the number of threads of every BLAS library of this process."""
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def run_together(plans: list[Counting], folder: Path, toys: int = 32) -> list[Floats]:
    """Calibrate all plans at once, in a thread and with two workers each."""
    tables: dict[int, Floats] = {}
    start = threading.Barrier(len(plans))

    def calibrated(own: Counting) -> None:
        with thread_workers(2) as executor:
            start.wait(20)
            tables[own.seed] = calibrate(own, toys, folder / f"{own.seed}", executor).table.t

    threads = [threading.Thread(target=calibrated, args=[own]) for own in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [tables[own.seed] for own in plans]


def test_blas_threads_after_overlapping_workers() -> None:
    """The first to begin ends first: one thread until the last has ended, then as before."""
    with threadpool_limits(2):
        first, second = ExitStack(), ExitStack()
        first.enter_context(thread_workers(1))
        second.enter_context(thread_workers(1))
        assert blas_threads() == {1}
        first.close()
        assert blas_threads() == {1}
        second.close()
        assert blas_threads() == {2}


def test_cores_where_the_system_knows_no_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == os.cpu_count()
    with thread_workers() as executor:
        assert executor.submit(pow, 2, 5).result() == 32


def test_runs_that_overlap_prepare_each_width_once(tmp_path: Path) -> None:
    """And the bits are those of each run alone."""
    plans = [plan(seed, 3000) for seed in (1, 2)]
    together = run_together(plans, tmp_path)
    for own in plans:
        assert set(own.prepared.values()) == {1}
        assert len(own.prepared) == 3  # two widths and the grid
    with thread_workers(1) as executor:
        alone = calibrate(plans[0], 32, tmp_path / "alone", executor).table.t
    assert together[0].tobytes() == alone.tobytes()


def test_runs_that_overlap_share_one_budget(tmp_path: Path) -> None:
    """Each would fit, both would not: features of one wait for those of the other."""
    with RunMemory() as memory:
        alone = plan(1, 100_000, with_scan=False)
        shared = memory.shared(alone, 0.15)[0].nbytes
        budget = int(1.02 * sum(alone.memory(alone.shared(0.15))))
        assert budget < 2 * shared
    plans = [plan(seed, 100_000, budget, with_scan=False) for seed in (1, 2)]
    tracemalloc.start()
    run_together(plans, tmp_path, toys=16)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.5 * budget < peak < budget


def test_one_run_that_recomputes_rows_has_all_threads() -> None:
    """For one block at a time; and no other run begins beside it."""
    tight = plan(1, 100_000, 60_000_000, with_scan=False)
    with RunMemory() as memory:
        shared, blocks = memory.shared(tight, 0.15, workers=3)
        assert shared.made is not None
        assert blocks == 1
        assert memory.shared(tight, 0.15, workers=3)[0] is shared


def test_threads_of_a_block(tmp_path: Path) -> None:
    """All of them where rows are recomputed, one elsewhere."""
    for memory, threads in ((60_000_000, 3), (4 * 1024**3, 1)):
        own = plan(1, 100_000, memory, with_scan=False)
        with thread_workers(3) as executor:
            calibrate(own, 16, tmp_path / f"{memory}.null", executor)
        assert own.inner_threads == {threads}


def test_claims_wait_for_each_other() -> None:
    """A claim that does not fit waits until another is released; the only one never waits."""
    budget, owners = ProcessBudget(), ["first", "second"]
    budget.claim(owners[0], 150, 100)
    budget.claim(owners[0], 70, 100)
    claimed = threading.Event()

    def claim() -> None:
        budget.claim(owners[1], 40, 100)
        claimed.set()

    thread = threading.Thread(target=claim)
    thread.start()
    assert not claimed.wait(0.1)
    budget.claim(owners[0], 60, 100)
    assert claimed.wait(20)
    thread.join()
    assert budget.others(owners[0]) == 40
    budget.release(owners[1])
    assert budget.others(owners[0]) == 0


def test_a_run_inside_another_does_not_wait_for_it() -> None:
    """As when `progress` of a run that has claimed the whole budget tests something else."""
    outer, inner = plan(1, 100_000, 60_000_000, with_scan=False), plan(2, 3000, 60_000_000)
    done: list[int] = []

    def nested() -> None:
        with RunMemory() as memory, RunMemory() as second:
            memory.shared(outer, 0.15)
            done.append(second.shared(inner, 0.15)[1])

    thread = threading.Thread(target=nested, daemon=True)
    thread.start()
    thread.join(20)
    assert done == [1]


def test_a_refused_run_leaves_its_memory_to_others() -> None:
    """What it had claimed is released with it."""
    large, small = plan(1, 3000), plan(2, 3000)
    settings = large.learner.settings.changed(memory=600_000)
    large = replace(large, learner=replace(large.learner, settings=settings))
    with pytest.raises(MemoryBudgetError), RunMemory() as memory:
        memory.shared(large, 0.15)
    with RunMemory() as memory:
        assert memory.shared(small, 0.15, workers=50)[1] == 50


def test_runs_that_take_turns_in_a_worker_process() -> None:
    """Features of both are kept while the budget allows; of each run, those of one width."""
    plans = [plan(seed, 3000) for seed in (1, 2)]
    memory = WorkerMemory()
    for _ in range(3):
        for own in plans:
            assert memory.plan(str(own.seed), own) is own
            memory.shared(own, 0.15)
    assert [own.prepared[0.15] for own in plans] == [1, 1]
    memory.shared(plans[0], 0.2)
    memory.shared(plans[0], 0.15)
    assert plans[0].prepared[0.15] == 2
    memory.forget(["1"])
    assert memory.plan("1", None) is None
    assert memory.plan("2", None) is plans[1]
    size = sum(plans[0].memory(plans[0].shared(0.15)))
    tight = [plan(seed, 3000, size + size // 4) for seed in (1, 2)]
    for _ in range(2):
        for own in tight:
            memory.shared(own, 0.15)
    assert [own.prepared[0.15] for own in tight] == [2, 2]


@pytest.mark.parametrize("memory", [4 * 1024**3, 60_000_000])
def test_toys_and_data_prepare_each_width_once(tmp_path: Path, memory: int) -> None:
    """Also where a width fills the budget; and the numbers are those of a test afterwards."""
    own = plan(1, 100_000 if memory < 1024**3 else 3000, memory)
    data = [Sample.from_array(nominal(200, np.random.default_rng(k))) for k in (5, 6)]
    with thread_workers(2) as executor:
        together = calibrate_and_test(own, data, 16, tmp_path / "together", executor)
        assert set(own.prepared.values()) == {1}
        assert len(own.prepared) == 3  # two widths and the grid
        apart = calibrate(own, 16, tmp_path / "apart", executor).test(data)
    assert {name: s.t for name, s in together.statistics.items()} == {
        name: s.t for name, s in apart.statistics.items()
    }
    assert together.pvalue == apart.pvalue


def test_a_second_data_set_prepares_nothing(tmp_path: Path) -> None:
    """What the first has prepared is kept while there is room, and dropped for another run."""
    own, other = plan(1, 3000), plan(2, 3000)
    data = [Sample.from_array(nominal(200, np.random.default_rng(k))) for k in (5, 6)]
    with thread_workers(1) as executor:
        calibration = calibrate(own, 16, tmp_path / "null", executor)
    first = calibration.test(data)
    assert set(own.prepared.values()) == {1}
    assert calibration.test(data).pvalue == first.pvalue
    assert set(own.prepared.values()) == {1}
    assert len(calibration.memory.kept) == 3
    with RunMemory() as memory:
        memory.shared(replace(other, learner=changed(other.learner, 50_000_000)), 0.15)
        assert not calibration.memory.kept
    assert calibration.test(data).pvalue == first.pvalue


def changed(learner: Learner, memory: int) -> Learner:
    """Give a learner another memory budget."""
    return replace(learner, settings=learner.settings.changed(memory=memory))
