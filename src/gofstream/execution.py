"""The one seam to more cores: a `concurrent.futures.Executor`.

Workers are threads: the array products release the interpreter's lock, and the prepared reference
is shared instead of copied. Each works with one BLAS thread, so that workers do not get in each
other's way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def thread_workers(count: int | None = None) -> Iterator[Executor]:
    """Give an executor of ``count`` threads (default: all cores), with one BLAS thread each.

    Examples
    --------
    >>> with thread_workers(2) as executor:
    ...     executor.submit(pow, 2, 5).result()
    32
    """
    workers = count or len(os.sched_getaffinity(0))
    with threadpool_limits(limits=1), ThreadPoolExecutor(workers) as executor:
        yield executor
