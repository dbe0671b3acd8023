"""A writer to be killed that is a real monitor: it learns batches, applies them, and alarms."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import numpy as np

from gofstream.inference.sequential import Boundary
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.stream.monitor import Acknowledged, Monitor
from gofstream.stream.rows import Retention
from gofstream_studies.chaos.inject import say
from gofstream_studies.chaos.writer import CLEAN, STOPPED, name, twice

NOMINAL, EPOCH, WINDOW, EVERY = 30.0, 5, 2, 3
RETENTION = Retention("one", batches=2)


@cache
def learner() -> Learner:
    """Prepare a reference that is as small as can be."""
    rng = np.random.default_rng(1)
    reference = Sample.from_array(rng.exponential(size=500), name="reference")
    settings = Settings(widths=(0.5, 1.5), n_centres=12)
    return Learner.prepare(reference, settings, expected=NOMINAL, rng=rng)


@cache
def boundary() -> Boundary:
    """Make up a boundary that is low enough to alarm now and then."""
    t = np.random.default_rng(2).chisquare(3, size=(40, 4, 2, EPOCH))
    about = learner().about() | {"expected": [NOMINAL] * EPOCH, "window": WINDOW}
    return Boundary.learn(t[:20], t[20:], 0.5, about)


@cache
def batch(number: int) -> Sample:
    """Draw the batch of a number, always the same; every seventh is too large to be monitored."""
    size = 60 if number % 7 == 3 else 30
    return Sample.from_array(np.random.default_rng([3, number]).exponential(size=size))


def ingest(path: Path, last: int) -> int:
    """Offer batches up to a number, going on where the store ends; the exit code.

    Each step is tried twice: a monitor must be usable after an error. The last batch that is there
    is offered again, as a source would after a restart. Every fifth does not come.
    """
    try:
        with twice(partial(_opened, path)) as monitor:
            for number in range(max(1, monitor.position.number), last + 1):
                done = twice(partial(_offer, monitor, number))
                if done.entry.number != number:
                    raise AssertionError(f"batch {number} became {done.entry.number}")
                say(f"ack {number}")
    except CLEAN as error:
        say(f"stopped {error}")
        return STOPPED
    return 0


def acknowledged(out: str) -> dict[str, str]:
    """Read what `ingest` said: digest by name of the batches it acknowledged."""
    numbers = [int(line.split()[1]) for line in out.splitlines() if line.startswith("ack ")]
    return {name(number): "" if _missing(number) else batch(number).digest() for number in numbers}


def _opened(path: Path) -> Monitor:
    return Monitor.open(
        path,
        learner(),
        boundary(),
        RETENTION,
        epoch=EPOCH,
        window=WINDOW,
        checkpoint_every=EVERY,
    )


def _offer(monitor: Monitor, number: int) -> Acknowledged:
    arrived = 1.7e9 + number
    if _missing(number):
        return monitor.skip(name(number), arrived)
    sample = batch(number)
    return monitor.apply(monitor.learn(name(number), sample, float(len(sample)), arrived))


def _missing(number: int) -> bool:
    return number % 5 == 0
