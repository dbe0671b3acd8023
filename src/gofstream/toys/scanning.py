"""The scan as a pass of a plan, beside those of the widths: whole data sets to t.

A grid needs no fit and no width, so it has blocks of its own: a null file that was made before
there was a scan gets them added, and keeps its other toys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gofstream.checks import match_columns
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.scan.grid import ScanGrid
from gofstream.scan.summary import ScanSummary
from gofstream.scan.where import FoundWindow, windows_of
from gofstream.toys.sources import toy_rng

Floats = NDArray[np.float64]

#: What the statistic is called.
SCAN = "scan"


@dataclass(frozen=True, slots=True)
class ScanPass:
    """What the grid of a plan depends on, beside its learner.

    Attributes
    ----------
    expected : N(R) of all batches together.
    seed : of the plan.
    shape_only : whether the number of events is left out of the test.
    """

    expected: float
    seed: int
    shape_only: bool

    def grid(self, learner: Learner) -> ScanGrid:
        """Choose the grid: the same for all toys of the plan, and for its data."""
        return ScanGrid.choose(
            learner.reference,
            self.expected,
            toy_rng(self.seed, "scan", 0),
            share=learner.share,
            shape_only=self.shape_only,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Scanned:
    """What a scan says of one data set.

    Attributes
    ----------
    t : (N_b,) after every number of batches.
    summary : of all batches.
    windows : where it found most, if that was looked at.
    """

    t: Floats
    summary: ScanSummary
    windows: tuple[FoundWindow, ...] = ()

    def located(self, learner: Learner, batches: Sequence[Sample], reference: Sample) -> Scanned:
        """Look where the scan found most, in the columns of data and reference."""
        data = [match_columns(batch, learner.sample) for batch in batches]
        return replace(self, windows=windows_of(self.summary, learner.scaling, data, reference))


def scan_set(grid: ScanGrid, batches: Sequence[Floats], expected: Floats) -> Scanned:
    """Scan one data set, batch after batch."""
    summary, t = ScanSummary.empty(grid), []
    for x, number in zip(batches, expected, strict=True):
        summary = summary.add(x, float(number))
        t.append(summary.t)
    return Scanned(np.array(t), summary)


def scan_sets(grid: ScanGrid, sets: Iterable[Sequence[Floats]], expected: Floats) -> Floats:
    """Give t of many data sets after every number of batches: (sets, 1, N_b)."""
    return np.array([scan_set(grid, batches, expected).t for batches in sets])[:, None, :]


def scan_bytes(grid: ScanGrid, events: int) -> tuple[int, int]:
    """Bytes of the grid, and bytes that it takes to scan so many events."""
    return grid.nbytes, grid.work_bytes + 8 * events * grid.features
