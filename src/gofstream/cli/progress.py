"""Progress of long runs: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

#: Seconds between lines where there is no terminal.
QUIET = 10.0


@contextmanager
def blocks_bar(
    console: Console, what: str, unit: str = "blocks"
) -> Iterator[Callable[[int, int], None]]:
    """Give a function to call with (done, total) blocks; it shows rate and time left."""
    if not console.is_terminal:
        yield _lines(console, what, unit)
        return
    with Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit}, left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _lines(console: Console, what: str, unit: str) -> Callable[[int, int], None]:
    begun = last = time.monotonic()
    first = latest = -1

    def show(done: int, total: int) -> None:
        nonlocal begun, last, first, latest
        now = time.monotonic()
        if first < 0 or done < latest:  # a new count
            begun, first = now, done
        latest = done
        if now - last < QUIET:
            return
        last = now
        rate = (done - first) / max(now - begun, 1e-9)
        left = f"{(total - done) / rate:.0f} s left" if rate else "no estimate yet"
        console.print(f"{what}: {done} of {total} {unit}, {left}")

    return show


def duration(seconds: float) -> str:
    """Write a time with two digits or so.

    Examples
    --------
    >>> [duration(s) for s in (0.0123, 0.123, 9.87, 75, 4000, 200_000)]
    ['12 ms', '0.12 s', '9.9 s', '75 s', '67 min', '56 h']
    """
    limits = ((0.1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min"), (math.inf, 3600, "h"))
    unit, name = next((unit, name) for limit, unit, name in limits if seconds < limit)
    count = seconds / unit
    return f"{count:.{0 if count >= 10 else 1 if count >= 1 else 2}f} {name}"


def amount(number: float) -> str:
    """Write a number of events as commands take it.

    Examples
    --------
    >>> [amount(n) for n in (50, 1600, 200_000, 10**7)]
    ['50', '1.6k', '200k', '10M']
    """
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:g}{name}"
    return f"{number:g}"
