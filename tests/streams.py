"""A small stream and its monitor, for several tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gofstream.datasets import expo1d
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.scan.grid import ScanGrid
from gofstream.scan.region import Columns, Regions
from gofstream.scan.summary import ScanSummary
from gofstream.settings import Settings
from gofstream.stream.learning import Taught, learn_batch
from gofstream.stream.monitor import Acknowledged, Monitor
from gofstream.stream.rows import Retention
from gofstream.stream.scanning import scan_pass

NOMINAL = 50.0
EPOCH, WINDOW, EVERY = 5, 2, 4
SAT = Retention("sat")


@dataclass(frozen=True)
class Offer:
    """Something that happens to a monitor: a batch, or one that is missing or bad."""

    name: str
    sample: Sample | None
    expected: float | None = None
    why: str = ""


@cache
def learner() -> Learner:
    """Prepare a small reference at two widths."""
    rng = np.random.default_rng(2)
    reference = Sample.from_array(expo1d.reference(4000, rng), name="reference")
    settings = Settings(widths=(0.4, 1.5), n_centres=30)
    return Learner.prepare(reference, settings, expected=NOMINAL, rng=rng)


def batch(seed: int, expected: float = NOMINAL, signal: float = 0.0) -> Sample:
    """Draw a batch, always the same."""
    rng = np.random.default_rng([9, seed])
    return Sample.from_array(expo1d.toy(expected, rng, expo1d.SIGNALS["bulk"], signal))


@cache
def offers() -> tuple[Offer, ...]:
    """Make a stream with something of everything, over more than two epochs."""
    made = [Offer(f"b{n:02d}", batch(n), None if n % 3 else 1.04 * NOMINAL) for n in range(1, 17)]
    made[1] = Offer("b02", batch(2, 75.0), 75.0)
    made[3] = Offer("b04", None)
    made[8] = Offer("b09", None, why="no such column")
    made[9] = Offer("b10", batch(10, 40.0), 40.0)
    return tuple(made)


def opened(path: Path, retention: Retention = SAT, boundary: Any = None, **more: Any) -> Monitor:
    """Open a monitor of that stream."""
    lengths = {"epoch": EPOCH, "window": WINDOW, "checkpoint_every": EVERY} | more
    return Monitor.open(path, learner(), boundary, retention, **lengths)


@cache
def grid(epoch: int) -> ScanGrid:
    """Choose the grid of a stream with epochs of so many batches."""
    return scan_pass(learner(), epoch).grid(learner())


@cache
def scanned(given: Offer, epoch: int) -> ScanSummary:
    """Scan a batch alone."""
    assert given.sample is not None
    expected = NOMINAL if given.expected is None else given.expected
    regions = Regions.of(grid(epoch).windows, Columns.of(learner().scaling, learner().sample))
    inside = regions.count(given.sample).astype(np.int64)
    x = learner().scaling.apply(given.sample)
    return ScanSummary.empty(grid(epoch)).add(x, expected, inside)


@cache
def taught(given: Offer) -> Taught:
    """Learn a batch once for all tests: `Monitor.learn` is this, and is tested to be."""
    assert given.sample is not None
    features = [learner().features(width) for width in learner().widths]
    arrived = float(given.name.strip("b"))
    return learn_batch(learner(), features, given.name, given.sample, given.expected, arrived)


def offer(monitor: Monitor, given: Offer) -> Acknowledged:
    """Let it happen; arrivals are a matter of the name."""
    arrived = float(given.name.strip("b"))
    if given.sample is not None:
        scans = monitor.position.scans
        own = None if scans is None else scanned(given, scans.length)
        return monitor.apply(replace(taught(given), scanned=own))
    if given.why:
        return monitor.quarantine(given.name, arrived, given.why)
    return monitor.skip(given.name, arrived)
