"""The e-value of the scan on null streams: how often it ever crosses its level (METHOD §9)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gofstream.datasets import expo1d
from gofstream.scan.grid import ScanGrid
from gofstream.scan.summary import ScanSummary
from gofstream.toys.sources import toy_rng
from validation.checks import Check

Floats = NDArray[np.float64]

#: Taken at face value, and with the uncertainty of a finite reference paid for.
KINDS = ("naive", "safe")
#: Streams of one task, which share a reference only if it stands for a simulator.
TOGETHER = 20


@dataclass(frozen=True, slots=True)
class EvidenceSize:
    """How large the case is.

    Attributes
    ----------
    streams, batches, expected : how many streams, of how many batches, and N(R) of each.
    finite, scarce : rows of a reference that each stream has for itself: as one would take it, and
        too few for the naive e-value.
    simulator : rows of one reference that is as good as a simulator.
    alpha : the level.
    """

    streams: int = 2000
    batches: int = 100
    expected: float = 20.0
    finite: int = 10_000
    scarce: int = 400
    simulator: int = 1_000_000
    alpha: float = 0.05


def checks(
    size: EvidenceSize,
    seed: int,
    executor: Executor,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, list[Check]]:
    """Count the streams that ever cross; the naive e-value with too few rows must fail."""
    families = {}
    cases = (("simulator", size.simulator), ("finite", size.finite), ("scarce", size.scarce))
    for done, (name, rows) in enumerate(cases):
        progress(done, len(cases))
        highest = measure(size, rows, seed, executor, own=name != "simulator")
        naive, safe = (_check(size, kind, highest[:, k]) for k, kind in enumerate(KINDS))
        families[f"e-value, {name}: safe"] = [safe]
        families[f"{'wrong: ' if name == 'scarce' else ''}e-value, {name}: naive"] = [naive]
    progress(len(cases), len(cases))
    return families


def measure(size: EvidenceSize, rows: int, seed: int, executor: Executor, *, own: bool) -> Floats:
    """Give the largest log e-value of every stream, naive and safe: (streams, 2).

    Parameters
    ----------
    rows : N_R.
    own : whether every stream has a reference of its own, as the safe e-value is about both.
    """
    starts = range(0, size.streams, TOGETHER)
    tasks = [executor.submit(_streams, size, rows, seed, start, own) for start in starts]
    return np.concatenate([task.result() for task in tasks])


def _streams(size: EvidenceSize, rows: int, seed: int, start: int, own: bool) -> Floats:
    found, grid = [], None
    for number in range(start, min(start + TOGETHER, size.streams)):
        rng = toy_rng(seed, f"evidence, {rows} rows", number)
        if own or grid is None:
            for_grid = rng if own else toy_rng(seed, "evidence", 0)
            reference = expo1d.reference(rows, for_grid)
            grid = ScanGrid.choose(reference, size.batches * size.expected, for_grid)
        summary, highest = ScanSummary.empty(grid), [-np.inf, -np.inf]
        for _ in range(size.batches):
            summary = summary.add(expo1d.toy(size.expected, rng), size.expected)
            highest = [max(highest[0], summary.t / 2), max(highest[1], summary.log_e)]
        found.append(highest)
    return np.array(found)


def _check(size: EvidenceSize, kind: str, highest: Floats) -> Check:
    crossed = int(np.count_nonzero(highest >= -np.log(size.alpha)))
    p = stats.binomtest(crossed, len(highest), size.alpha, alternative="greater").pvalue
    what = f"{kind} e-value ever at {1 / size.alpha:g}, {size.batches} looks"
    return Check(what, f"{crossed} of {len(highest)}", float(p))
