"""A writer to be killed: it puts made-up batches into a store, and says when each is safe."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gofstream.errors import FormatError, StoppedError
from gofstream.stream.rows import RUN_SCAN, Alarm, Entry, Retention, ScanRow, Statistic
from gofstream.stream.store import Store
from gofstream_studies.chaos.inject import say

T = TypeVar("T")

ABOUT = {"widths": [0.3, 1.4], "reference": "made up"}
RETENTION = Retention("one", batches=3, reservoir=True)
#: What may be raised when a disk fails; SQLite takes a page that cannot be read for a damaged one.
CLEAN = (StoppedError, FormatError)
#: Exit code of a writer that had to stop, and said why.
STOPPED = 4


def made(number: int) -> tuple[Entry, dict[str, Any]]:
    """Make the batch of a number, always the same, with something of everything."""
    rng = random.Random(number)
    families = ("next", "sat")
    entry = Entry(
        number,
        name(number),
        digest(number),
        arrived=1.7e9 + number,
        events=rng.randrange(3000),
        expected=2000.0,
        state="quarantined" if number % 7 == 0 else "learnt",
        note="no such column" if number % 7 == 0 else "",
        statistics=tuple(
            Statistic(family, width, rng.gauss(10, 3), rng.gauss(0, 1))
            for family in families
            for width in (0, 1)
        ),
    )
    rest: dict[str, Any] = {
        "models": {width: rng.randbytes(300) for width in (0, 1)},
        "scores": {width: rng.randbytes(8 * number) for width in (0, 1)},
        "events": rng.randbytes(900),
        "drop_models": max(0, number - 3),
    }
    if number % 2 == 0:
        rest["alarm"] = Alarm(number, "sat", 1, 4.2 + rng.random(), 4.2, since=number - 1)
    if number % 3 == 0:
        rest["checkpoint"] = {(width, "scaled"): rng.randbytes(5000) for width in (0, 1)}
        rest["scan"] = ScanRow(rng.randbytes(4000), rng.randbytes(4000), f"[{number}]")
        own = Statistic(RUN_SCAN, 0, rng.gauss(10, 3), rng.gauss(0, 1))
        entry = replace(entry, statistics=(*entry.statistics, own))
    return entry, rest


def name(number: int) -> str:
    """Give the name of a batch."""
    return f"batch-{number:05d}"


def digest(number: int) -> str:
    """Give the digest of a batch."""
    return hashlib.sha256(name(number).encode()).hexdigest()


def write(path: Path, last: int) -> int:
    """Write batches up to a number, going on where the store ends; the exit code.

    Each step is tried twice: a store must be usable after an error. The last batch that is there
    is offered again, as a source would after a restart.
    """
    try:
        with twice(lambda: _opened(path)) as store:
            for number in range(max(1, store.head().batches), last + 1):
                entry, rest = made(number)
                receipt = twice(partial(store.append, entry, **rest))
                if receipt.number != number:
                    raise AssertionError(f"batch {number} became {receipt.number}")
                say(f"ack {number}")
    except CLEAN as error:
        say(f"stopped {error}")
        return STOPPED
    return 0


def _opened(path: Path) -> Store:
    if path.exists():
        return Store.resume(path, ABOUT, RETENTION)
    return Store.create(path, ABOUT, RETENTION)


def twice(step: Callable[[], T]) -> T:
    """Do something, and once more if the disk failed."""
    try:
        return step()
    except CLEAN as error:
        say(f"again {error}")
        return step()


def acknowledged(out: str) -> dict[str, str]:
    """Read what a writer said: digest by name of the batches it acknowledged."""
    numbers = [int(line.split()[1]) for line in out.splitlines() if line.startswith("ack ")]
    return {name(number): digest(number) for number in numbers}
