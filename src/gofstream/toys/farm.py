"""The farm: blocks of toys, through any executor, into a file that can be resumed."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import ToysStoppedError
from gofstream.execution import concurrency, in_this_process, pack, use_hands, worker_died
from gofstream.toys.memory import RunMemory, WorkerMemory, recomputes_rows
from gofstream.toys.plan import Blocks

Floats = NDArray[np.float64]
#: t of a block and the number of fits that did not converge; nothing if the plan is not known.
Made = tuple[Floats, int] | None

#: How often a block is tried again when the worker that had it is gone.
ATTEMPTS = 5


class Sink(Protocol):
    """Where blocks are kept: a null file, for one."""

    def blocks(self) -> set[tuple[int, int]]:
        """Tell which (pass, block) are there."""
        ...

    def put(self, which: int, block: int, t: Floats, unconverged: int) -> None:
        """Keep one block, for good once this returns.

        Raises
        ------
        OSError
            If there is no room for it, say; blocks that were put before stay.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """So many toys of one plan, and where their blocks go.

    Attributes
    ----------
    sink : blocks that it already holds are not made again.
    """

    plan: Blocks
    toys: int
    sink: Sink

    @property
    def per_pass(self) -> int:
        """Blocks that make up the toys, in each pass."""
        return -(-self.toys // self.plan.toys_per_block)

    @property
    def blocks(self) -> int:
        """Blocks of all passes."""
        return self.per_pass * len(self.plan.passes)

    def missing(self) -> list[tuple[int, int]]:
        """List the (pass, block) that are still to be made."""
        there, passes = self.sink.blocks(), range(len(self.plan.passes))
        return [(w, b) for w in passes for b in range(self.per_pass) if (w, b) not in there]


def run(
    jobs: Sequence[Job],
    executor: Executor,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    memory: RunMemory | None = None,
    after_pass: Callable[[int], None] = lambda index: None,
) -> None:
    """Make what toys are missing.

    Pass after pass: jobs of one learner thus share what is prepared for a width, or the grid.

    Parameters
    ----------
    executor : runs the blocks.
    progress : called with the number of blocks done and wanted, over all jobs.
    memory : holds what blocks share; afterwards it keeps what there is room for. By default nothing
        is kept.
    after_pass : called with the number of a pass when its blocks are done, and what they share is
        still there.

    Raises
    ------
    StoppedError
        On Ctrl-C, when a worker dies, or when a block cannot be kept; those done before are.
    """
    kept = memory is not None
    memory = memory or RunMemory()
    todo = [(job, _Farm(job.plan, executor, memory), job.missing()) for job in jobs]
    total = sum(job.blocks for job in jobs)
    done = total - sum(len(missing) for _, _, missing in todo)
    progress(done, total)
    try:
        for which in range(max(len(job.plan.passes) for job in jobs)):
            for job, farm, missing in todo:
                for block, made in farm.made(which, [b for w, b in missing if w == which]):
                    try:
                        job.sink.put(which, block, *made)
                    except OSError as error:
                        raise _stopped(f"{error}: ", done, total) from error
                    done += 1
                    progress(done, total)
            after_pass(which)
    except KeyboardInterrupt as stop:
        raise _stopped("", done, total) from stop
    finally:
        memory.rest() if kept else memory.forget()
        _worker.forget(farm.name for _, farm, _ in todo)  # of an executor in this process


def _stopped(why: str, done: int, blocks: int) -> ToysStoppedError:
    return ToysStoppedError(f"{why}stopped with {done} of {blocks} blocks of toys done")


class _Farm:
    """One run: which blocks are with the executor, and how the plan reaches its workers.

    Threads share the plan. Other workers are sent the name of the run only; one that does not know
    it says so, and is sent the plan with the next block. A worker that is replaced by a fresh one
    in the middle of a run is thus served like any other.
    """

    def __init__(self, plan: Blocks, executor: Executor, memory: RunMemory) -> None:
        self.plan, self.executor, self.memory = plan, executor, memory
        self.name = uuid.uuid4().hex
        self.local = in_this_process(executor)
        self.parcel: Any = None

    def made(self, index: int, blocks: list[int]) -> Iterator[tuple[int, tuple[Floats, int]]]:
        """Yield blocks of a pass in the order in which they are done.

        Those not begun are dropped when the run is stopped.
        """
        if not blocks:
            return
        which = self.plan.passes[index]
        fitting, submit = self._pass(which)
        waiting = blocks[::-1]
        tries = dict.fromkeys(blocks, 0)
        running: dict[Future[Made], int] = {}
        try:
            while waiting or running:
                # Workers of a cluster come and go.
                at_once = min(fitting, 2 * concurrency(self.executor))
                while waiting and len(running) < at_once:
                    block = waiting.pop()
                    running[submit(block, tries[block])] = block
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    block = running.pop(future)
                    result = self._result(future, last=tries[block] == ATTEMPTS)
                    if result is not None:
                        yield block, result
                    else:
                        tries[block] += 1
                        waiting.append(block)
        finally:
            for future in running:
                future.cancel()

    def _pass(self, which: Any) -> tuple[float, Callable[[int, int], Future[Made]]]:
        """Prepare a pass: blocks that may be with the executor at a time, and what submits one.

        As many blocks as the memory budget allows; but if rows of the reference are recomputed in
        every pass, one, which all threads share: two would recompute the same rows.
        """
        if not self.local:  # each worker has a process, and the budget, of its own

            def send(block: int, tried: int) -> Future[Made]:
                # What was tried before is an argument, since a cluster takes equal calls for the
                # same one.
                return self._submit(_work, self.name, self._plan(tried), which, block, tried)

            return math.inf, send
        workers = concurrency(self.executor)
        shared, fitting = self.memory.shared(self.plan, which, workers)
        one = recomputes_rows(shared)
        inner_threads = workers if one else 1

        def start(block: int, tried: int) -> Future[Made]:
            return self._submit(_work_here, self.plan, shared, which, block, inner_threads)

        # Those that wait for a thread take no memory.
        return (fitting if one or fitting < workers else math.inf), start

    def _submit(self, work: Callable[..., Made], *arguments: Any) -> Future[Made]:
        try:
            return self.executor.submit(work, *arguments)
        except BrokenExecutor as error:
            raise ToysStoppedError("a worker died") from error

    def _plan(self, tried: int) -> Any:
        if not tried:
            return None
        if self.parcel is None:
            self.parcel = pack(self.plan, self.executor)
        return self.parcel

    def _result(self, future: Future[Made], *, last: bool) -> Made:
        """Give what a worker made, or nothing if the block has to be sent out again."""
        try:
            result = future.result()
        except CancelledError:  # the worker that held the parcel is gone, and it with it
            self.parcel = result = None
        except Exception as error:
            if worker_died(error):
                raise ToysStoppedError("a worker died") from error
            raise
        if result is None and last:
            raise ToysStoppedError(
                f"workers were lost {ATTEMPTS} times with the same block of toys"
            )
        return result


_worker = WorkerMemory()


def _work(name: str, sent: Blocks | None, which: Any, block: int, tried: int) -> Made:
    """Make one block in a worker that keeps what blocks share."""
    plan = _worker.plan(name, sent)
    return None if plan is None else plan.block(_worker.shared(plan, which), which, block)


def _work_here(plan: Blocks, shared: Any, which: Any, block: int, inner_threads: int) -> Made:
    """Make one block in a thread of this process."""
    with use_hands(inner_threads):
        return plan.block(shared, which, block)
