"""Executors: threads, processes and Dask workers give the same bits, also when some of them die."""

from __future__ import annotations

import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import yaml
from dask_jobqueue import HTCondorCluster, SLURMCluster
from distributed import Client, LocalCluster
from numpy.typing import NDArray

from gofstream.datasets import expo1d
from gofstream.errors import InputError, StoppedError
from gofstream.execution import (
    _batch_system,
    dask_workers,
    process_workers,
    share_out,
    thread_workers,
)
from gofstream.inference.calibrate import calibrate
from gofstream.ondisk import OnDisk, Writer
from gofstream.ratio.learner import Learner
from gofstream.sample import build
from gofstream.scan.grid import ScanGrid
from gofstream.scan.summary import ScanSummary
from gofstream.scan.tree import GROUP, scan_batches
from gofstream.toys.farm import _Farm
from gofstream.toys.memory import RunMemory
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.scanning import ScanPass
from gofstream.toys.sources import Simulator
from test_farm import TOYS, small_plan

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Watched(ReferencePlan):
    """Writes down which process prepares features or the grid, and which computes a block."""

    log: Path = Path()

    def shared(self, which: float | ScanPass) -> Any:
        """Prepare, and say so."""
        self._note(f"prepared {_name(which)}")
        return ReferencePlan.shared(self, which)

    def block(self, shared: Any, which: float | ScanPass, index: int) -> tuple[Floats, int]:
        """Compute, and say so."""
        self._note(f"block {_name(which)} {index}")
        return ReferencePlan.block(self, shared, which, index)

    def _note(self, what: str) -> None:
        with self.log.open("a") as file:
            file.write(f"{os.getpid()} {what}\n")

    def noted(self) -> list[tuple[int, str]]:
        """Read who did what."""
        lines = [line.split(" ", 1) for line in self.log.read_text().splitlines()]
        return [(int(pid), what) for pid, what in lines]


def _name(which: float | ScanPass) -> str:
    return "scan" if isinstance(which, ScanPass) else str(which)


def watched(log: Path) -> Watched:
    """Make the small plan, watched, with a simulator that no module holds by name."""
    plan, scale = small_plan(), 1.0
    return Watched(
        learner=plan.learner,
        source=Simulator(lambda n, rng: scale * rng.standard_exponential(size=(n, 1))),
        source_name=plan.source_name,
        expected=plan.expected,
        seed=plan.seed,
        log=log,
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Floats:
    """Make the table that all others must equal, with one thread."""
    with thread_workers(1) as executor:
        return made(small_plan(), tmp_path_factory.mktemp("null"), executor)


def made(plan: ReferencePlan, folder: Path, executor: Executor, **options: Any) -> Floats:
    """Give the numbers of a calibration, those of the scan at the end."""
    table = calibrate(plan, TOYS, folder / "n.null", executor, **options).table
    assert table.scan is not None
    return np.append(table.t, table.scan)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Start two Dask workers on this machine, to be used by several tests."""
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_threads(table: Floats, tmp_path: Path) -> None:
    """Bit-identical, and features are made once for all threads of a width; so is the grid."""
    for threads in (1, 2, 4):
        plan = watched(tmp_path / f"{threads}.log")
        folder = tmp_path / f"{threads}"
        folder.mkdir()
        with thread_workers(threads) as executor:
            assert made(plan, folder, executor).tobytes() == table.tobytes()
        assert Counter(w for _, w in plan.noted() if w.startswith("prepared")) == {
            "prepared 0.4": 1,
            "prepared 1.5": 1,
            "prepared scan": 1,
        }


def _prepared_once_by_each(plan: Watched) -> None:
    """Check that other processes did the work, and none prepared a width for every block."""
    noted = plan.noted()
    assert os.getpid() not in {pid for pid, _ in noted}
    blocks = Counter(what for _, what in noted if what.startswith("block"))
    assert set(blocks.values()) == {1}
    assert len(blocks) == 15
    times = Counter((pid, what) for pid, what in noted if what.startswith("prepared"))
    assert set(times.values()) == {1}


def scanned(seed: int) -> tuple[Floats, float]:
    """Make a batch of its own from a number."""
    return np.random.default_rng(seed).exponential(size=(7, 2)), 7.0


def test_a_scan_on_dask_has_the_bits_of_one_thread(client: Client) -> None:
    """Groups of batches and the tree of merges are fixed; both are one pass, up to rounding."""
    rng = np.random.default_rng(1)
    grid = ScanGrid.choose(rng.exponential(size=(200, 2)), 1400.0, rng)
    count = 9 * GROUP + 5  # more groups than one task merges
    with dask_workers(client) as executor:
        far = scan_batches(grid, range(count), scanned, executor)
        assert scan_batches(grid, [], scanned, executor).batches == 0
    with thread_workers(1) as executor:
        near = scan_batches(grid, range(count), scanned, executor)
    assert far.to_bytes() == near.to_bytes()
    assert far.batches == count
    once = ScanSummary.empty(grid)
    for seed in range(count):
        once = once.add(*scanned(seed))
    np.testing.assert_array_equal(far.counts, once.counts)


def test_processes(table: Floats, tmp_path: Path) -> None:
    """Bit-identical, with a simulator made on the spot; features once for each process and width.

    A second run in the same processes, with another plan, is not served from the first.
    """
    plan = watched(tmp_path / "log")
    other = replace(plan, seed=7, log=tmp_path / "other")
    with process_workers(2) as executor:
        assert made(plan, tmp_path, executor).tobytes() == table.tobytes()
        again = calibrate(other, TOYS, tmp_path / "other.null", executor).table.t
    _prepared_once_by_each(plan)
    with thread_workers(2) as executor:
        same = calibrate(other, TOYS, tmp_path / "same.null", executor).table.t
    assert again.tobytes() == same.tobytes() != table.tobytes()


def test_dask_client(table: Floats, tmp_path: Path, client: Client) -> None:
    """The same on workers of a client, which stays open."""
    plan = watched(tmp_path / "log")
    with dask_workers(client) as executor:
        assert made(plan, tmp_path, executor).tobytes() == table.tobytes()
    _prepared_once_by_each(plan)
    assert client.submit(pow, 2, 5).result() == 32


def test_dask_address(table: Floats, tmp_path: Path, client: Client) -> None:
    """The same by the address of a scheduler."""
    plan = watched(tmp_path / "log")
    with dask_workers(client.scheduler.address) as executor:
        assert made(plan, tmp_path, executor).tobytes() == table.tobytes()
    _prepared_once_by_each(plan)


class Noted(OnDisk):
    """Events on disk that write down which process opens their file."""

    def __reduce__(self) -> tuple[type[OnDisk], tuple[object, ...]]:
        """Stay what it is."""
        return Noted, OnDisk.__reduce__(self)[1]

    def _checked(self) -> Any:
        with self.path.with_name("opened").open("a") as file:
            file.write(f"{os.getpid()}\n")
        return OnDisk._checked(self)


def on_disk(folder: Path) -> ReferencePlan:
    """Make the small plan with its reference on disk."""
    rng, plan = np.random.default_rng(2), small_plan()
    values = expo1d.reference(4000, rng)
    writer = Writer(folder, 1, values.dtype)
    writer.append(values)
    found = writer.finish()
    kept: Any = Noted(found.path, found.shape, found.dtype, found.sha256)
    sample = build(kept, ["x"], None, None, (), "reference", copy=False)
    learner = Learner.prepare(sample, plan.learner.settings, expected=150.0, rng=rng)
    return replace(plan, learner=learner)


def test_workers_open_a_reference_on_disk_once(
    table: Floats, tmp_path: Path, client: Client
) -> None:
    """They are sent its path, and each reads the file itself: the same bits."""
    plan = on_disk(tmp_path)
    assert len(pickle.dumps(plan)) < 10_000 < 8 * 4000
    with dask_workers(client) as executor:
        assert made(plan, tmp_path, executor).tobytes() == table.tobytes()
    opened = Counter(map(int, (tmp_path / "opened").read_text().split()))
    here = os.getpid()
    assert set(opened) == {here, *client.run(os.getpid).values()}
    assert set(opened.values()) == {1}


def test_a_file_that_workers_do_not_see(tmp_path: Path, client: Client) -> None:
    """It is not there, or it is another one: the error names it, and says what to do."""
    plan = on_disk(tmp_path)
    path = plan.learner.sample.values.path  # type: ignore[attr-defined]
    content = path.read_bytes()
    path.write_bytes(content[::-1])
    with (
        dask_workers(client) as executor,
        pytest.raises(InputError, match=r"\.rows: is not the file that was written for this run"),
    ):
        made(plan, tmp_path, executor)
    path.unlink()
    with (
        dask_workers(client) as executor,
        pytest.raises(InputError, match=r"\.rows: cannot be opened here.*that all machines share"),
    ):
        made(plan, tmp_path, executor)


def test_workers_that_spill(table: Floats, tmp_path: Path) -> None:
    """A plan that Dask writes to a worker's disk, for lack of memory, and reads again."""
    settings = {"distributed.worker.memory.target": 1e-9}  # of its limit: nothing may stay
    spilt: list[int] = []

    def look(done: int, total: int) -> None:
        found = client.run(lambda dask_worker: dask_worker.data.spilled_total.disk)
        spilt.append(min(found.values()))

    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit="4GB",
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster) as client,
        dask_workers(client) as executor,
    ):
        assert made(small_plan(), tmp_path, executor, progress=look).tobytes() == table.tobytes()
    assert max(spilt) > 8 * 4000


def test_workers_are_not_paused() -> None:
    """One that keeps the features of a width may hold most of its memory between blocks."""
    with dask_workers("local", 1) as executor:
        client = executor._client  # type: ignore[attr-defined]
        found = client.run(lambda dask_worker: dask_worker.memory_manager.memory_pause_fraction)
    assert list(found.values()) == [False]


class Growing(Executor):
    """Has more workers each time it is asked; does its work when somebody waits for it."""

    def __init__(self) -> None:
        self.workers, self.waiting, self.most = 0, 0, 0

    @property
    def _max_workers(self) -> int:
        self.workers += 1
        return self.workers

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Take a task."""
        own = self

        class Lazy(Future[Any]):
            def result(self, timeout: float | None = None) -> Any:
                own.waiting -= 1
                return fn(*args, **kwargs)

        self.waiting += 1
        self.most = max(self.most, self.waiting)
        future = Lazy()
        future.set_result(None)
        return future


def test_workers_that_join_later_get_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch system starts its jobs one after another: two blocks for each that is there."""
    monkeypatch.setattr("gofstream.toys.farm._work", lambda *_: (np.zeros((1, 6, 4)), 0))
    executor = Growing()
    found = [
        block for block, _ in _Farm(small_plan(), executor, RunMemory()).made(0, list(range(30)))
    ]
    assert sorted(found) == list(range(30))
    assert executor.most == 10  # 2, 4, 6, 8 and 10 make 30


class Killer:
    """Sends SIGKILL to processes that have the plan, once, in the middle of a run."""

    def __init__(self, plan: Watched, after: int, victims: int = 1) -> None:
        """Wait for so many blocks, and until as many processes have worked."""
        self.plan, self.after, self.victims = plan, after, victims
        self.killed: list[int] = []

    def __call__(self, done: int, total: int) -> None:
        """Serve as `progress`."""
        pids = sorted({pid for pid, _ in self.plan.noted()}) if done >= self.after else []
        if len(pids) >= self.victims and not self.killed:
            self.killed = pids[: self.victims]
            for pid in self.killed:
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("victims", [1, 2])
def test_killed_dask_workers_are_replaced(
    table: Floats, tmp_path: Path, caplog: pytest.LogCaptureFixture, victims: int
) -> None:
    """One of two is killed in the middle, or both: the run ends as if nothing had happened.

    With both, the plan that was sent to them is lost, and has to be sent again.
    """
    plan = watched(tmp_path / "log")
    killer = Killer(plan, after=3, victims=victims)
    with (
        caplog.at_level(logging.CRITICAL, "distributed"),  # it reports the loss of its workers
        dask_workers("local", 2) as executor,
    ):
        found = made(plan, tmp_path, executor, progress=killer)
    assert len(killer.killed) == victims
    if victims == 2:
        assert len({pid for pid, _ in plan.noted()}) > 2
    assert found.tobytes() == table.tobytes()


def note_and_wait(path: Path, seconds: float) -> None:
    """Leave a file to show that this has run."""
    path.touch()
    time.sleep(seconds)


def test_what_is_cancelled_does_not_run_on_dask(client: Client, tmp_path: Path) -> None:
    """A run that is stopped takes back the blocks that no worker has begun."""
    with dask_workers(client) as executor:
        begun = [tmp_path / f"begun-{k}" for k in range(2)]
        running = [executor.submit(note_and_wait, path, 0.8) for path in begun]
        limit = time.monotonic() + 30
        while not all(path.exists() for path in begun) and time.monotonic() < limit:
            time.sleep(0.02)
        waiting = [executor.submit(note_and_wait, tmp_path / f"never-{k}", 0) for k in range(8)]
        assert all(future.cancel() for future in waiting)
        assert executor.submit(pow, 2, 5).result(timeout=60) == 32
        wait(running, timeout=60)
        last = [executor.submit(note_and_wait, tmp_path / f"last-{k}", 0.1) for k in range(4)]
        wait(last, timeout=60)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["begun-0", "begun-1", "last-0", "last-1", "last-2", "last-3"]


def done_and_gone(delay: float) -> float:
    """Give a result, and take the worker that holds it away before or after it is fetched."""
    threading.Timer(delay, os._exit, (1,)).start()
    return delay


@pytest.mark.slow
def test_results_lost_with_their_worker_do_not_leave_futures_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every future ends, whether its result was fetched in time or not."""
    with (
        caplog.at_level(logging.CRITICAL, "distributed"),
        dask_workers("local", 2) as executor,
    ):
        futures = [executor.submit(done_and_gone, 0.002 * k) for k in range(3)]
        ended = wait(futures, timeout=120)
    assert not ended.not_done


def test_a_killed_process_stops_the_run(table: Floats, tmp_path: Path) -> None:
    """What was done is kept; threads go on from there, and the bits are the same."""
    plan = watched(tmp_path / "log")
    with (
        process_workers(2) as executor,
        pytest.raises(StoppedError, match=r"a worker died; the blocks that were done are kept"),
    ):
        made(plan, tmp_path, executor, progress=Killer(plan, after=3))
    seen: list[int] = []
    with thread_workers(2) as executor:
        found = made(plan, tmp_path, executor, progress=lambda done, total: seen.append(done))
    assert 3 <= seen[0] < 10
    assert found.tobytes() == table.tobytes()


ORPHANS = """
import os, signal, time
from gofstream.execution import process_workers
with process_workers(2) as executor:
    busy = executor.submit(time.sleep, 100)
    print(executor.submit(os.getpid).result(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_do_not_outlive_who_asked() -> None:
    """A killed process says no goodbye; its workers notice, and stop."""
    done = subprocess.run(
        [sys.executable, "-c", ORPHANS], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    worker, limit = int(done.stdout), time.monotonic() + 60
    while Path(f"/proc/{worker}").exists() and time.monotonic() < limit:
        time.sleep(0.1)
    assert not Path(f"/proc/{worker}").exists()


def test_an_interrupted_run_does_not_wait_for_its_workers(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """They are at something that takes long, and whose result nobody will see."""
    workers = []

    def interrupted() -> None:
        with process_workers(2) as executor:
            workers.append(executor.submit(os.getpid).result())
            # Some run, some are handed over, some wait, and these are cancelled.
            for future in [executor.submit(time.sleep, 100) for _ in range(20)]:
                future.cancel()
            raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - begun < 60
    assert not Path(f"/proc/{workers[0]}").exists()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("hands", [1, 3])
def test_an_interrupted_run_does_not_wait_for_a_long_block(hands: int) -> None:
    """A thread cannot be killed: it stops where it next shares out its work."""
    done: list[int] = []
    begun = threading.Event()

    def step(item: int) -> None:
        done.append(item)
        begun.set()
        time.sleep(0.01)

    def block() -> None:
        for _ in share_out(step, range(10_000), hands):
            pass

    def interrupted() -> None:
        with thread_workers(2) as executor:
            executor.submit(block)
            begun.wait(60)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert 0 < len(done) < 5000
    block_again = list(share_out(abs, [-1, -2], hands))
    assert block_again == [1, 2]


def test_an_executor_that_is_broken_already(tmp_path: Path) -> None:
    """Its refusal to take work is the same news as work that does not come back."""
    with process_workers(2) as executor:
        os.kill(executor.submit(os.getpid).result(), signal.SIGKILL)
        with pytest.raises(BrokenExecutor):
            executor.submit(time.sleep, 30).result(timeout=20)
        with pytest.raises(StoppedError, match="a worker died"):
            made(small_plan(), tmp_path, executor)


def test_two_runs_at_once_in_one_process(table: Floats, tmp_path: Path) -> None:
    """Runs that share the memory of a process do not take each other's plan."""
    plans = [small_plan(seed=seed) for seed in (1, 2, 3)]
    found: dict[int, Floats] = {}

    def calibrated(plan: ReferencePlan) -> None:
        with thread_workers(2) as executor:
            folder = tmp_path / f"{plan.seed}"
            folder.mkdir()
            found[plan.seed] = made(plan, folder, executor)

    threads = [threading.Thread(target=calibrated, args=[plan]) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [1, 2, 3]
    assert found[1].tobytes() == table.tobytes()
    assert len({t.tobytes() for t in found.values()}) == 3


@pytest.mark.parametrize(
    ("package", "call", "extra"),
    [
        ("loky", "process_workers()", "processes"),
        ("distributed", "dask_workers()", "dask"),
        ("dask_jobqueue", "dask_workers('slurm')", "dask"),
    ],
)
def test_a_missing_extra_says_what_to_type(package: str, call: str, extra: str) -> None:
    """In a process of its own, where the package cannot be imported."""
    script = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from gofstream.errors import GofstreamError\n"
        "from gofstream.execution import dask_workers, process_workers\n"
        "try:\n"
        f"    with {call}: pass\n"
        "except GofstreamError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert f"needs {package}" in done.stdout, done.stderr
    assert f"pip install 'gofstream[{extra}]'" in done.stdout


def batch_system(name: str, **options: object) -> AbstractContextManager[Any]:
    """Configure a batch system as its users do, with a scheduler on this machine only."""
    common = {"cores": 1, "memory": "2GB", "disk": "1GB"}
    quiet = {"scheduler-options": {"host": "127.0.0.1", "dashboard": False}}
    given = {f"jobqueue.{name}.{key}": value for key, value in (common | quiet | options).items()}
    return dask.config.set(given)


@pytest.mark.parametrize("name", ["slurm", "htcondor"])
def test_jobs_use_one_blas_thread(name: str) -> None:
    """The script of a job says so before it starts the worker; the user's own lines stay."""
    with (
        batch_system(name, **{"job-script-prologue": ["source /opt/mine"]}),
        _batch_system(name) as cluster,
    ):
        assert isinstance(cluster, SLURMCluster if name == "slurm" else HTCondorCluster)
        script = cluster.job_script()
    before, worker = script.split("-m distributed.cli.dask_worker")
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        assert f"export {variable}=1" in before
    told = dict(re.findall(r"export (DASK_\w+)=(\w+)", before))
    env = dask.config.collect_env(told)
    assert dask.config.get("distributed.worker.memory.pause", config=env) is False
    assert "source /opt/mine" in before
    assert "--nthreads 1" in worker
    if name == "slurm":
        assert "#SBATCH --mem=2G" in script
    else:
        assert "MY.DaskWorkerMemory = 2000000000" in script


CLUSTERS = Path(__file__).parent.parent / "docs" / "how-to" / "clusters.md"


def test_the_recipe_gives_the_jobs_it_speaks_of() -> None:
    """The configuration in the tutorial: memory, time, queue and storage in the scripts of jobs."""
    (text,) = re.findall(r"```yaml\n(.*?)```", CLUSTERS.read_text(encoding="utf-8"), re.DOTALL)
    recipe = yaml.safe_load(text)["jobqueue"]
    wanted = {
        "slurm": (
            "#SBATCH -n 1\n",
            "#SBATCH --cpus-per-task=1\n",
            "#SBATCH --mem=6G\n",
            "#SBATCH -t 02:00:00\n",
            "#SBATCH -p short\n",
            "--memory-limit 5.59GiB",
            "--local-directory /tmp",
            "--death-timeout 600",
        ),
        "htcondor": (
            "RequestCpus = MY.DaskWorkerCores",
            "RequestMemory = floor(MY.DaskWorkerMemory / 1048576)",
            "MY.DaskWorkerMemory = 6000000000",
            "MY.DaskWorkerDisk = 10000000000",
            "+MaxRuntime = 7200",
            "--memory-limit 5.59GiB",
            "--death-timeout 600",
        ),
    }
    assert set(recipe) == set(wanted)
    for name, lines in wanted.items():
        with batch_system(name, **recipe[name]), _batch_system(name) as cluster:
            script = cluster.job_script()
        for line in lines:
            assert line in script, script
