"""What blocks of toys share, and how the runs of one process divide its memory budget.

A run in threads owns its features (`RunMemory`). Runs that overlap in one process divide one
budget: a run whose next pass does not fit beside the others waits until it does. Features of passes
that are over are kept while nobody needs their memory, for the next data set. Processes and Dask
workers keep plans and features between blocks (`WorkerMemory`).
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Self
from weakref import WeakSet

import numpy as np

from gofstream.errors import refuse_beyond
from gofstream.ratio.features import Features, prepare_bytes
from gofstream.toys.plan import Blocks
from gofstream.toys.scanning import ScanPass

#: Bytes that choosing a grid takes at most, beside 16 for each row of the reference.
GRID_BYTES = 64 * 1024**2
#: Plans that a worker process keeps, for runs that take turns.
PLANS = 4


class ProcessBudget:
    """The bytes that each run of this process has claimed.

    A run enlarges its claim only while it holds `turn`, and it takes the turn only when it has no
    claim. A run with a claim therefore has all it needs and ends: no two runs wait for each other.
    What a run keeps of earlier passes is no claim: it is dropped as soon as a claim needs the room.
    """

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self._keepers: WeakSet[RunMemory] = WeakSet()
        # Bytes, and the thread that waits for the run to end.
        self._claims: dict[object, tuple[int, int]] = {}
        self._changed = threading.Condition()

    def claim(self, run: object, size: int, budget: int) -> None:
        """Set the claim of a run, as soon as all claims together are within the budget.

        A run that is alone, or with others of its own thread, never waits.
        """

        def fits() -> bool:
            others = self._others(run)
            return others == 0 or others + size <= budget

        with self._changed:
            self._changed.wait_for(fits)
            self._claims[run] = size, threading.get_ident()
            self._drop_kept(budget - sum(size for size, _ in self._claims.values()))
            self._changed.notify_all()

    def keep(self, run: RunMemory, key: Any, shared: Any, size: int) -> None:
        """Let a run keep what a pass that is over has shared."""
        with self._changed:
            run.kept[key] = shared, size
            self._keepers.add(run)

    def take(self, run: RunMemory, key: Any) -> Any:
        """Give back what a run has kept, or None."""
        with self._changed:
            return run.kept.pop(key, (None, 0))[0]

    def _drop_kept(self, room: int) -> None:
        """Drop what runs keep, the oldest of each first, until the rest fits."""
        for run in self._keepers:
            while run.kept and self._kept_bytes() > room:
                run.kept.popitem(last=False)

    def _kept_bytes(self) -> int:
        return sum(size for run in self._keepers for _, size in run.kept.values())

    def others(self, run: object) -> int:
        """Sum the claims of the runs of other threads."""
        with self._changed:
            return self._others(run)

    def release(self, run: object) -> None:
        """Give up the claim of a run."""
        with self._changed:
            self._claims.pop(run, None)
            self._changed.notify_all()

    def _others(self, run: object) -> int:
        # A run that is begun inside another, by its `progress` say, cannot wait for it.
        here = threading.get_ident()
        return sum(
            size
            for other, (size, thread) in self._claims.items()
            if other is not run and thread != here
        )


process_budget = ProcessBudget()


class RunMemory:
    """What the blocks of one run share, made once for each width or grid.

    What passes have shared is kept in ``kept`` while no run of this process needs its memory: a
    second data set finds it there. At the end of the `with` block nothing is claimed or kept.
    """

    def __init__(self) -> None:
        self.kept: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self._key: Any = None
        self._shared: Any = None
        self._size = self._claim = 0

    def __enter__(self) -> Self:
        """Begin with nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Forget what was shared."""
        self.forget()

    def forget(self) -> None:
        """Claim and keep nothing."""
        self.rest()
        self.kept.clear()

    def rest(self) -> None:
        """Claim nothing any more; keep what was shared until a run needs the room."""
        if self._key is not None:
            process_budget.keep(self, self._key, self._shared, self._size)
        self._key = self._shared = None
        process_budget.release(self)

    def shared(self, plan: Blocks, which: Any, workers: int = 1) -> tuple[Any, int]:
        """Give what blocks of a pass share, and how many blocks may be made at a time.

        Parameters
        ----------
        workers : blocks that can be made at a time; no memory is claimed for more.

        Raises
        ------
        MemoryBudgetError
            If not even one block fits beside what they share.
        """
        key = shared_key(plan, which)
        if self._key != key or sum(plan.memory(self._shared)) > self._claim:
            self.rest()  # before another is made, and before this run waits for its turn
            self._prepare(plan, which, key, workers)
            self._key = key
        if recomputes_rows(self._shared):
            return self._shared, 1  # all threads share one block
        shared, block = plan.memory(self._shared)
        return self._shared, (self._claim - shared) // max(1, block)

    def _prepare(self, plan: Blocks, which: Any, key: Any, workers: int) -> None:
        budget = plan.learner.settings.memory
        with process_budget.turn:
            self._shared = process_budget.take(self, key)
            if self._shared is None:
                process_budget.claim(self, preparing_bytes(plan, which), budget)
                self._shared = plan.shared(which)
            shared, block = plan.memory(self._shared)
            self._size = shared
            refuse_beyond(budget, shared + block, "what toys share and one block of them")
            process_budget.claim(self, shared + block, budget)
            room = budget - process_budget.others(self) - shared
            blocks = min(workers, max(1, room // max(1, block)))
            # The threads that share a block take as much as there is.
            self._claim = budget if recomputes_rows(self._shared) else shared + blocks * block
            process_budget.claim(self, self._claim, budget)


class WorkerMemory:
    """What a worker process keeps between blocks: plans of the latest runs, and what they share.

    Features or grids of several references are kept while the memory budget allows.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[str, Blocks] = OrderedDict()
        self._shared: OrderedDict[Any, tuple[Any, int]] = OrderedDict()

    def plan(self, name: str, sent: Blocks | None) -> Blocks | None:
        """Look up the plan of a run, or keep the one that was sent; None if there is neither."""
        with self._lock:
            plan = self._plans.pop(name, None) if sent is None else sent
            if plan is not None:
                self._plans[name] = plan
                if len(self._plans) > PLANS:
                    self._plans.popitem(last=False)
            return plan

    def shared(self, plan: Blocks, which: Any) -> Any:
        """Give what blocks of this pass share, made once for each reference, not for each block."""
        key, budget = shared_key(plan, which), plan.learner.settings.memory
        with self._lock:
            if key not in self._shared:
                for other in [other for other in self._shared if other[:-1] == key[:-1]]:
                    del self._shared[other]  # another width of the same reference
                self._keep(budget - preparing_bytes(plan, which))
                shared = plan.shared(which)
                size = sum(plan.memory(shared))
                self._keep(budget - size)
                self._shared[key] = shared, size
            self._shared.move_to_end(key)
            return self._shared[key][0]

    def _keep(self, size: int) -> None:
        """Forget what was used longest ago, until the rest with a block each is so small."""
        while self._shared and sum(taken for _, taken in self._shared.values()) > size:
            self._shared.popitem(last=False)

    def forget(self, names: Iterable[str]) -> None:
        """Forget runs that have ended."""
        with self._lock:
            for name in names:
                self._plans.pop(name, None)
            if not self._plans:
                self._shared.clear()


def shared_key(plan: Blocks, which: Any) -> tuple[Any, ...]:
    """Name what the blocks of a pass share by all that decides it; the pass comes last."""
    learner = plan.learner
    about = json.dumps(learner.about(), sort_keys=True)
    # `about` leaves out what changes no number.
    return type(plan).__name__, about, learner.settings.memory, learner.settings.device, which


def preparing_bytes(plan: Blocks, which: Any) -> int:
    """Bound the memory that `plan.shared` takes, with the reference."""
    learner = plan.learner
    reference, budget = learner.reference, learner.settings.memory
    if isinstance(which, ScanPass):
        return min(budget, reference.nbytes + GRID_BYTES + 16 * len(reference))
    count, itemsize = len(learner.candidates), np.dtype(learner.settings.precision).itemsize
    return min(budget, reference.nbytes + prepare_bytes(len(reference), count, count, itemsize))


def recomputes_rows(shared: Any) -> bool:
    """Tell whether rows of the reference are computed anew in every pass."""
    return isinstance(shared, Features) and shared.made is not None
