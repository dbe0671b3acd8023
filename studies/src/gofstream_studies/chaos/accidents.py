"""Kills and failing disks: a writer at every call it makes, and at random moments."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from threadpoolctl import threadpool_limits

from gofstream.stream import files
from gofstream_studies.chaos.inject import (
    LOCKS,
    OTHERS,
    WRITES,
    Effect,
    Fault,
    Job,
    Outcome,
    run,
    run_free,
)
from gofstream_studies.chaos.judge import everything, judge
from gofstream_studies.chaos.monitor import acknowledged as acknowledged_by_monitor
from gofstream_studies.chaos.monitor import boundary, ingest
from gofstream_studies.chaos.writer import STOPPED, acknowledged, write

#: What a writer says by: to be killed there is to be killed before it acknowledges.
SAYING = ("write",)


@dataclass(frozen=True, slots=True)
class Writer:
    """What is killed: a function that writes batches up to a number, and how to read its words."""

    write: Callable[[Path, int], int]
    acknowledged: Callable[[str], dict[str, str]]


STORE = Writer(write, acknowledged)
MONITOR = Writer(ingest, acknowledged_by_monitor)


def prepare(kind: Literal["WAL", "DELETE"]) -> None:
    """Treat disks as local or as on a network, be impatient and single-threaded, from now on."""
    if kind == "DELETE":
        files.LOCAL = frozenset()
    # A memory of locks that cannot be had looks like another process's: nobody is to be waited for.
    files.PATIENCE = 0.1
    # What is there before a fork need not be made in each; threads of BLAS would not be there.
    threadpool_limits(limits=1)
    boundary()


def parts(path: Path) -> list[Path]:
    """Name the files that SQLite may make of a store."""
    return [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm", "-journal")]


def every_call(
    writer: Writer, batches: int, effect: Effect, lasting: bool, stride: int
) -> Counter[str]:
    """Let each call of a short run go wrong, one run for each; count what came of it.

    With a ``stride``, only one call in so many.
    """
    counts: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.gofs"
        write_whole(writer, whole, batches)
        right = everything(whole)
        groups: tuple[tuple[tuple[str, ...], bool], ...] = ((WRITES, False), (OTHERS, True))
        if effect == "KILL":  # locks are no matter of the disk, and saying none of the store's
            groups += ((LOCKS, True), (SAYING, False))
        for calls, watching in groups:
            first = Path(folder) / "first.gofs"
            seen = run(_job(writer, first, batches), calls, parts(first) if watching else ())
            _remove(first)
            for fault in list(_faults(seen, effect, lasting))[::stride]:
                path = Path(folder) / "run.gofs"
                job = _job(writer, path, batches)
                outcome = run(job, [fault.call], parts(path) if watching else (), fault)
                counts[f"{fault.call} {effect}"] += 1
                counts["batches"] += batches
                counts.update(_came_of(writer, path, outcome, effect == "KILL"))
                write_whole(writer, path, batches)
                counts["not as if nothing had happened"] += everything(path) != right
                _remove(path)
    return counts


def random_kills(
    writer: Writer, kills: int, batches: int, seed: int, life: float = 0.1
) -> Counter[str]:
    """Kill writers of one long store again and again, until it has all batches; count.

    They live for so many seconds on average.
    """
    counts: Counter[str] = Counter()
    rng = random.Random(seed)
    said: dict[str, str] = {}
    with TemporaryDirectory() as folder:
        path, whole = Path(folder) / "run.gofs", Path(folder) / "whole.gofs"
        while counts["kills"] < kills:
            outcome = run_free(_job(writer, path, batches), kill_after=rng.expovariate(1 / life))
            counts["kills"] += outcome.code == -9
            told = writer.acknowledged(outcome.out)
            counts["batches"] += len(told.keys() - said.keys())
            said |= told
            verdict = judge(path, said)
            counts["lost"] += len(verdict.lost)
            counts["twice"] += len(verdict.twice)
            counts["most batches"] = max(counts["most batches"], verdict.batches)
            if outcome.code == 0:  # it was done before it was killed
                write_whole(writer, whole, batches)
                counts["not as if nothing had happened"] += everything(path) != everything(whole)
                _remove(path)
                _remove(whole)
                said = {}
                counts["whole runs"] += 1
    return counts


def write_whole(writer: Writer, path: Path, batches: int) -> None:
    """Let a writer finish, with nothing in its way."""
    outcome = run_free(_job(writer, path, batches))
    if outcome.code:
        raise RuntimeError(f"{path} could not be completed: {outcome.out}")


def _job(writer: Writer, path: Path, batches: int) -> Job:
    return lambda: writer.write(path, batches)


def _faults(
    seen: Outcome, effect: Literal["KILL", "ENOSPC", "EIO"], lasting: bool
) -> Iterator[Fault]:
    for call, count in Counter(seen.calls).items():
        yield from (Fault(call, nth, effect, lasting) for nth in range(1, count + 1))


def _came_of(writer: Writer, path: Path, outcome: Outcome, killed: bool) -> Counter[str]:
    verdict = judge(path, writer.acknowledged(outcome.out))
    clean = outcome.code in ((-9,) if killed else (0, STOPPED))
    return Counter(
        {
            "lost": len(verdict.lost),
            "twice": len(verdict.twice),
            "not clean": not clean,
            "runs": 1,
            "errors told": "again " in outcome.out,
        }
    )


def _remove(path: Path) -> None:
    for part in parts(path):
        part.unlink(missing_ok=True)
