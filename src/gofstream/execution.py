"""The one seam to more cores and machines: a `concurrent.futures.Executor`.

Threads are the default: the array products release the interpreter's lock, and the prepared
reference is shared instead of copied. Processes and Dask workers prepare it themselves, once each.
All work with one BLAS thread, so that workers do not get in each other's way.

Blocks of fits go to workers. Where one block is so large that its rows have to be made in every
pass, threads share that block instead: they are its hands.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
)
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from threadpoolctl import threadpool_limits

from gofstream.arguments import check_type, whole_number
from gofstream.errors import missing_extra

if TYPE_CHECKING:
    from dask_jobqueue import JobQueueCluster
    from distributed import Client
    from distributed import Future as DaskFuture


Item = TypeVar("Item")
Done = TypeVar("Done")


def cores() -> int:
    """Count the cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS, nor on Windows
        return os.cpu_count() or 1


class _OneBlasThread:
    """One BLAS thread while any number of `with` blocks, which may overlap, is inside.

    The number of BLAS threads belongs to the process. If each block restored what it found, one
    that begins inside another and ends after it would leave one thread for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits: threadpool_limits | None = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limits = threadpool_limits(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._limits is not None:
                self._limits.restore_original_limits()
                self._limits = None


one_blas_thread = _OneBlasThread()


def chosen_workers(executor: Executor | None) -> AbstractContextManager[Executor]:
    """Give the executor that was chosen, which stays open; or threads on all cores if none was.

    Examples
    --------
    >>> with chosen_workers(None) as executor:
    ...     executor.submit(pow, 2, 5).result()
    32
    """
    if executor is None:
        return thread_workers()
    check_type("executor", executor, Executor, "a concurrent.futures.Executor, or leave it out")
    return nullcontext(executor)


def _worker_count(count: int | None) -> int:
    return cores() if count is None else whole_number("count", count)


@contextmanager
def thread_workers(count: int | None = None) -> Iterator[Executor]:
    """Give an executor of ``count`` threads (default: all cores), with one BLAS thread each.

    Whoever asks has as many hands meanwhile. If that ends in an error, or by Ctrl-C, workers stop
    where they next share out something: nobody has to wait for a long block.

    Examples
    --------
    >>> with thread_workers(2) as executor:
    ...     executor.submit(pow, 2, 5).result()
    32
    """
    count, stop = _worker_count(count), threading.Event()
    pool = ThreadPoolExecutor(count, initializer=setattr, initargs=(_this_thread, "stop", stop))
    with (
        one_blas_thread,
        threadpool_limits(limits=1, user_api="openmp"),  # a number that each thread has
        pool as executor,
        use_hands(count),
    ):
        try:
            yield executor
        except BaseException:
            stop.set()
            raise


_this_thread = threading.local()


def hands() -> int:
    """Count the threads among which this one may share out what it has to do."""
    return int(getattr(_this_thread, "hands", 1))


@contextmanager
def use_hands(count: int) -> Iterator[None]:
    """Let this thread share out its work among so many.

    Examples
    --------
    >>> with use_hands(3):
    ...     hands()
    3
    >>> hands()
    1
    """
    before = hands()
    _this_thread.hands = count
    try:
        yield
    finally:
        _this_thread.hands = before


def share_out(work: Callable[[Item], Done], items: Sequence[Item], count: int) -> Iterator[Done]:
    """Do something with every item, in so many threads, and give the results in their order.

    Raises
    ------
    CancelledError
        If whoever started this thread has stopped.

    Examples
    --------
    >>> list(share_out(abs, [-1, 2, -3], 2))
    [1, 2, 3]
    """
    stop: threading.Event | None = getattr(_this_thread, "stop", None)

    def one(item: Item) -> Done:
        if stop is not None and stop.is_set():
            raise CancelledError("stopped")
        return work(item)

    if min(count, len(items)) <= 1:
        yield from map(one, items)
        return
    with ThreadPoolExecutor(min(count, len(items))) as pool:
        yield from pool.map(one, items)


@contextmanager
def process_workers(count: int | None = None) -> Iterator[Executor]:
    """Give an executor of ``count`` processes (default: all cores), made by loky.

    Threads do as well when toys are drawn by numpy. Processes help where a simulator is written in
    Python and holds the interpreter's lock.
    """
    try:
        from loky import ProcessPoolExecutor
    except ImportError as error:
        raise missing_extra("loky", "processes") from error
    pool = ProcessPoolExecutor(_worker_count(count), env=ONE_THREAD, initializer=_begin_work)
    with pool as executor:
        try:
            yield executor
        except BaseException:
            # What they are at is lost: whoever pressed Ctrl-C need not wait for it. (loky's own
            # `kill_workers` stumbles over tasks that were cancelled, and waits after all.)
            for worker in list(executor._processes.values()):
                worker.terminate()
            raise


def _begin_work() -> None:
    """Leave Ctrl-C, which a terminal sends to workers too, to the process that has asked.

    When that process is gone, killed perhaps, a worker that waits for it would wait for ever.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()


def _leave_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


@contextmanager
def dask_workers(where: str | Client = "local", count: int | None = None) -> Iterator[Executor]:
    """Give an executor that runs on a Dask cluster.

    Parameters
    ----------
    where : a client; the address of a scheduler; "local" for processes on this machine; "slurm" or
        "htcondor" for jobs on a batch system, set up as dask-jobqueue's own configuration says.
    count : workers to start, where they are started here (default: as many as cores).
    """
    try:
        from dask import config
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise missing_extra("distributed", "dask") from error
    with ExitStack() as stack:
        stack.enter_context(config.set({PAUSE: False}))
        if isinstance(where, Client):
            client = where
        elif where == "local":
            cluster = LocalCluster(
                n_workers=_worker_count(count),
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",  # any free port; None would mean 8787, for all
            )
            client = stack.enter_context(Client(stack.enter_context(cluster)))
        elif where in ("slurm", "htcondor"):
            batch_system = stack.enter_context(_batch_system(where))
            batch_system.scale(jobs=_worker_count(count))
            client = stack.enter_context(Client(batch_system))
        else:
            client = stack.enter_context(Client(where))
        client.wait_for_workers(1)
        yield _OnDask(client)


class _OnDask(Executor):
    """Tasks on a Dask client, as futures that always end.

    Dask's own executor leaves a future open for ever when the worker that has done its task dies
    before the result was fetched.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function on some worker; a result that is lost counts as cancelled."""
        task = self._client.submit(fn, *args, pure=False, **kwargs)
        waiting: Future[Any] = Future()

        def hand_over(done: DaskFuture) -> None:
            if not waiting.set_running_or_notify_cancel():
                return
            try:
                waiting.set_result(done.result())
            except (asyncio.CancelledError, CancelledError) as lost:
                waiting.set_exception(CancelledError(str(lost)))
            except Exception as error:
                waiting.set_exception(error)

        task.add_done_callback(hand_over)
        waiting.add_done_callback(lambda ended: task.cancel() if ended.cancelled() else None)
        return waiting


def _batch_system(name: str) -> JobQueueCluster:
    try:
        from dask_jobqueue import HTCondorCluster, SLURMCluster
    except ImportError as error:
        raise missing_extra("dask_jobqueue", "dask") from error
    from dask import config

    kind = SLURMCluster if name == "slurm" else HTCondorCluster
    theirs = config.get(f"jobqueue.{name}.job-script-prologue") or []
    ours = ONE_THREAD | {f"DASK_{PAUSE.upper().replace('.', '__')}": "False"}
    lines = [f"export {key}={value}" for key, value in ours.items()]
    return kind(processes=1, job_script_prologue=[*theirs, *lines])


#: Dask's setting for the share of its memory beyond which a worker gets nothing to do. Ours keep
#: the features of a width between blocks: the run could wait for ever.
PAUSE = "distributed.worker.memory.pause"
#: The environment of a worker process: one BLAS thread.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


# -- what the farm asks about an executor ---------------------------------------------------------


def in_this_process(executor: Executor) -> bool:
    """Tell whether workers see the same memory."""
    return isinstance(executor, ThreadPoolExecutor)


def concurrency(executor: Executor) -> int:
    """Count the workers."""
    client = getattr(executor, "_client", None)
    if client is not None:
        return max(1, int(sum(client.nthreads().values())))
    return int(getattr(executor, "_max_workers", cores()))


def pack(thing: Any, executor: Executor) -> Any:
    """Make an argument out of something large, to be given to several tasks.

    A Dask client sends it to every worker once; others send it with the task.
    """
    client = getattr(executor, "_client", None)
    return thing if client is None else client.scatter(thing, broadcast=True, hash=False)


def worker_died(error: Exception) -> bool:
    """Tell whether an error of a task says that its worker is gone for good."""
    return isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker"
