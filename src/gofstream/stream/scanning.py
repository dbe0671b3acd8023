"""The scan of a stream: sums over its epoch and its run, which no events are needed for.

An epoch is what the alarms are about, and what the grid is made for: its e-value may be looked at
after every batch, and begins anew with the next epoch. The sums of the whole run are kept beside
it, as they can be merged with those of other runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import refuse_beyond
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.scan.grid import RULE, ScanGrid
from gofstream.scan.region import Columns, Regions
from gofstream.scan.summary import ScanSummary
from gofstream.scan.where import FoundWindow, best_windows, windows_to_json
from gofstream.stream.learning import EXPOSURE_TOLERANCE
from gofstream.stream.reader import Reader
from gofstream.stream.rows import EPOCH_SCAN, EVIDENCE, RUN_SCAN, Entry, ScanRow, Statistic
from gofstream.toys.scanning import ScanPass

Floats = NDArray[np.float64]

#: Batches without an event that an epoch may expect to have, where there is an e-value.
NO_EMPTY = 1e-3


def scan_pass(learner: Learner, epoch: int) -> ScanPass:
    """Say what the grid of a stream is made for: an epoch, of the largest exposure watched."""
    # The grid follows from the reference alone; no toys are drawn with this seed.
    return ScanPass(epoch * learner.expected * (1 + EXPOSURE_TOLERANCE), seed=0, shape_only=False)


def about_scan(learner: Learner, epoch: int) -> dict[str, Any]:
    """Describe what decides the numbers of a scan, beside the learner, for the store."""
    return {"rule": RULE, "expected": scan_pass(learner, epoch).expected}


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """The part of the reference in each region, counted when it is first asked for.

    The best windows of a run hardly change from batch to batch, and a reference may be large.

    Attributes
    ----------
    regions : of the windows.
    reference : of the run.
    known : shares by number of the window, so far.
    """

    regions: Regions
    reference: Sample
    known: dict[int, float]

    def of(self, which: Sequence[int]) -> Floats:
        """Give the shares of some regions, with one pass over the reference at most."""
        new = [window for window in which if window not in self.known]
        if new:
            found = self.regions.share(self.reference, new).tolist()
            self.known.update(zip(new, found, strict=True))
        return np.array([self.known[window] for window in which])


@dataclass(frozen=True, slots=True, eq=False)
class Scans:
    """What the scan of a stream knows; nothing in it is ever changed.

    Attributes
    ----------
    learner : the prepared reference.
    length : of an epoch, in batches.
    epoch, run : sums over the batches watched in the epoch, and over all that were learnt.
    shares : what part of the reference lies in the regions of the windows.
    """

    learner: Learner
    length: int
    epoch: ScanSummary
    run: ScanSummary
    shares: Shares

    @classmethod
    def begin(cls, learner: Learner, length: int) -> Scans:
        """Choose the grid; no batch yet.

        Raises
        ------
        MemoryBudgetError
            If it does not fit.
        """
        grid = scan_pass(learner, length).grid(learner)
        refuse_beyond(learner.settings.memory, grid.nbytes + grid.work_bytes, "the scan's grid")
        empty = ScanSummary.empty(grid)
        regions = Regions.of(grid.windows, Columns.of(learner.scaling, learner.sample))
        return cls(learner, length, empty, empty, Shares(regions, learner.sample, {}))

    @property
    def grid(self) -> ScanGrid:
        """The alternatives."""
        return self.run.grid

    def add(self, found: ScanSummary, *, watched: bool) -> Scans:
        """Take one more batch, scanned alone; one that is not watched counts in the run only."""
        run = self.run.merge(found)
        if not watched:
            return replace(self, run=run)
        over = self.epoch.batches == self.length
        return replace(self, run=run, epoch=found if over else self.epoch.merge(found))

    def statistics(self) -> tuple[Statistic, ...]:
        """List t of epoch and run, and the logarithm of the epoch's e-value if it has one."""
        found = [Statistic(RUN_SCAN, 0, self.run.t)]
        if self.epoch.batches:
            found.append(Statistic(EPOCH_SCAN, 0, self.epoch.t))
            if self._promised and np.isfinite(log_e := self.epoch.log_e):
                found.append(Statistic(EVIDENCE, 0, log_e))
        return tuple(found)

    @property
    def _promised(self) -> bool:
        """Whether an e-value holds: for an unweighted reference, where no batch comes out empty.

        Empty batches are refused, and what was expected of them is lost with them.
        """
        empty = self.length * math.exp(-self.learner.expected)
        return self.grid.safe_drift is not None and empty < NO_EMPTY

    def row(self) -> ScanRow:
        """Write what has to be kept: the sums, and where the epoch's scan found most."""
        found = self._windows()
        return ScanRow(self.epoch.to_bytes(), self.run.to_bytes(), windows_to_json(found))

    def _windows(self) -> tuple[FoundWindow, ...]:
        """List the best windows of the epoch; none where an older gofstream began it."""
        inside = self.epoch.regions
        if inside is None:
            return ()
        shares = self.shares
        return best_windows(
            self.epoch, shares.regions, lambda which: inside[which].astype(np.float64), shares.of
        )

    def restored(self, reader: Reader) -> Scans:
        """Go on from what a store keeps.

        Raises
        ------
        FormatError
            If it is damaged, or belongs to another grid.
        """
        kept = reader.scan()
        if kept is None:
            return self
        epoch, run = (ScanSummary.from_bytes(data, self.grid) for data in (kept.epoch, kept.run))
        return replace(self, epoch=epoch, run=run)


def scan_evidence(entry: Entry) -> float | None:
    """Give the logarithm of the epoch's e-value after a batch, if there is one."""
    return next((s.t for s in entry.statistics if s.family == EVIDENCE), None)


def is_scanned(about: Mapping[str, Any]) -> bool:
    """Tell whether a run has a scan; one that an older gofstream began has none."""
    return about.get("scan") is not None
