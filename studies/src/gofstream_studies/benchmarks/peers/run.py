"""Give the same toys to every test, and keep what each says and how long it took.

Toys come in chunks. All tests take a chunk before the next one comes, so that a machine that is
slow for a while is slow for all. Lines go to a file as they come: a run that was stopped goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from threadpoolctl import threadpool_limits

from gofstream_studies.benchmarks.peers.methods import TESTS, Test
from gofstream_studies.benchmarks.peers.tasks import NULL, TASKS, Task, Toy
from gofstream_studies.benchmarks.points import Points, Remaining

T = TypeVar("T")

OUT = Path("out")
#: Toys without a signal, with each signal, and in a chunk.
TOYS, SIGNAL_TOYS, CHUNK = 200, 40, 10


def run(
    name: str,
    out: Path = OUT,
    tests: Sequence[str] = tuple(TESTS),
    toys: tuple[int, int] = (TOYS, SIGNAL_TOYS),
    task: Task | None = None,
) -> None:
    """Measure what the file of a task lacks, on one core.

    Parameters
    ----------
    toys : how many without a signal, and how many with each.
    task : in place of the one of that name.
    """
    torch.set_num_threads(1)
    points = Points(out / f"peers-{name}.jsonl")
    with threadpool_limits(limits=1):
        asked = _Asked(task or TASKS[name](), points)
        chunks = [
            (stream, first, min(CHUNK, count - first))
            for stream in asked.task.sources
            for count in (toys[0] if stream == NULL else toys[1],)
            for first in range(0, count, CHUNK)
        ]
        # Half of the run has half of each stream: the page can be written from that.
        chunks.sort(key=lambda each: each[1] / (toys[0] if each[0] == NULL else toys[1]))
        missing = [each for each in chunks if not all(asked.knows(test, *each) for test in tests)]
        remaining = Remaining(float(count) for _, _, count in missing)
        for each in missing:
            for test in tests:
                asked.chunk(test, *each)
            remaining.done()


class _Asked:
    """A task, with tests that are made ready when they are first asked."""

    def __init__(self, task: Task, points: Points) -> None:
        self.task, self.points = task, points
        self._ready: dict[str, Test] = {}
        self._drawn: tuple[tuple[str, int, int], list[Toy]] = (("", 0, 0), [])

    def chunk(self, test: str, stream: str, first: int, count: int) -> None:
        """Ask a test about so many toys, unless what it said is known."""
        name, shape = self._name(test, stream, first, count)
        self.points.measured(name, shape, lambda: self._say(test, (stream, first, count)))

    def knows(self, test: str, stream: str, first: int, count: int) -> bool:
        """Whether that was asked before."""
        return self.points.knows(*self._name(test, stream, first, count))

    def _name(self, test: str, stream: str, first: int, count: int) -> tuple[str, dict[str, Any]]:
        shape = {"task": self.task.name, "seed": self.task.seed, "test": test}
        shape |= {"stream": stream, "first": first, "count": count}
        return f"peers.{self.task.name}.{stream}.{first}.{test}", shape

    def _say(self, test: str, which: tuple[str, int, int]) -> dict[str, Any]:
        prepared, toys = self._prepare(test), self._toys(which)
        spent, t = _timed(lambda: self._ready[test](toys))
        return {"prepared": prepared, "seconds": spent, "t": t.tolist()}

    def _prepare(self, test: str) -> float | None:
        """Make a test ready: seconds, if this was the first time."""
        if test in self._ready:
            return None
        spent, self._ready[test] = _timed(lambda: TESTS[test](self.task))
        return spent

    def _toys(self, which: tuple[str, int, int]) -> list[Toy]:
        """Draw toys, once for all tests."""
        if self._drawn[0] != which:
            self._drawn = which, self.task.toys(*which)
        return self._drawn[1]


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    begun = time.perf_counter()
    found = work()
    return time.perf_counter() - begun, found
