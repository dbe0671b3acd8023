"""A scan of many batches by many workers: parts are summed where they are read, then merged.

Batches are dealt out in fixed groups and merged in a fixed order, so that the result has the same
bits on any number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gofstream.execution import pack
from gofstream.scan.grid import ScanGrid
from gofstream.scan.summary import ScanSummary

Floats = NDArray[np.float64]
Batch = TypeVar("Batch")
#: What a summary is without its grid, which workers need not send back.
State = tuple[NDArray[np.int64], float, int]

#: Batches that one task sums up, and summaries that one task merges.
GROUP, WAYS = 64, 8


def scan_batches(
    grid: ScanGrid,
    batches: Sequence[Batch],
    read: Callable[[Batch], tuple[Floats, float]],
    executor: Executor,
) -> ScanSummary:
    """Scan batches where they lie, and merge what was found as a tree.

    Parameters
    ----------
    grid : sent to every worker of a Dask cluster once.
    batches : what they are called: numbers, or names of files.
    read : gives the scaled events of a batch and N_i(R); called by a worker.
    executor : runs the parts.

    Examples
    --------
    >>> import numpy as np
    >>> from gofstream.execution import thread_workers
    >>> rng = np.random.default_rng(1)
    >>> grid = ScanGrid.choose(rng.exponential(size=(5000, 1)), 400.0, rng)
    >>> def read(seed):
    ...     return np.random.default_rng(seed).exponential(size=(4, 1)), 4.0
    >>> with thread_workers(2) as executor:
    ...     scan_batches(grid, range(100), read, executor).batches
    100
    """
    known = pack(grid, executor)
    groups = [batches[k : k + GROUP] for k in range(0, len(batches), GROUP)]
    tasks = [executor.submit(_scanned, known, group, read) for group in groups]
    states: list[State] = [task.result() for task in tasks]
    while len(states) > 1:
        pairs = [states[k : k + WAYS] for k in range(0, len(states), WAYS)]
        states = [task.result() for task in [executor.submit(_merged, part) for part in pairs]]
    return ScanSummary(grid, *states[0]) if states else ScanSummary.empty(grid)


def _scanned(grid: ScanGrid, batches: Sequence[Any], read: Callable[[Any], Any]) -> State:
    found = ScanSummary.empty(grid)
    for batch in batches:
        found = found.add(*read(batch))
    return found.counts, found.exposure, found.batches


def _merged(states: Sequence[State]) -> State:
    counts, exposure, batches = states[0]
    for other in states[1:]:
        counts, exposure, batches = counts + other[0], exposure + other[1], batches + other[2]
    return counts, exposure, batches
