"""The scan: its cost beside that of a fit, what it keeps, and many batches on Dask."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from gofstream.execution import dask_workers
from gofstream.ratio.features import prepare
from gofstream.ratio.solver import fit
from gofstream.scan.grid import ScanGrid
from gofstream.scan.summary import ScanSummary
from gofstream.scan.tree import scan_batches
from gofstream_studies.bench.fits import BLOCK
from gofstream_studies.bench.machine import seconds
from gofstream_studies.benchmarks.fits import (
    EXPECTED,
    PENALTY,
    Problem,
    dimuon_problem,
    expo_problem,
)
from gofstream_studies.benchmarks.machine import emit

Floats = NDArray[np.float64]

#: Batches of the run on Dask, and expected events of each.
BATCHES, SMALL = 10_000, 20.0


def run() -> None:
    """Print every line."""
    for problem, batches in ((expo_problem(), 8), (dimuon_problem(), 4)):
        _against_fits(problem, batches)
    _on_dask()


def _against_fits(problem: Problem, batches: int) -> None:
    """Time a batch of the scan, and the fit of one in a block at every width."""
    expected = batches * EXPECTED
    begun = time.perf_counter()
    grid = ScanGrid.choose(problem.reference, expected, np.random.default_rng(1))
    chosen = time.perf_counter() - begun
    own = (
        seconds(
            lambda: [ScanSummary.empty(grid).add(batch, EXPECTED).t for batch in problem.batches], 3
        )
        / BLOCK
    )
    each = np.array([_fit_seconds(problem, width) for width in problem.widths])
    emit(
        f"{problem.name}.scan.vs_fit",
        own / float(each.mean()),
        "fits of one width, on average",
        seconds=own,
        seconds_per_fit=each.tolist(),
        windows=grid.size,
        alternatives=int(np.isfinite(grid.log_weight).sum()),
        touched=round(float(grid.content.sum()), 1),
        choosing_seconds=chosen,
    )
    emit(
        f"{problem.name}.scan.bytes",
        len(ScanSummary.empty(grid).to_bytes()),
        "bytes kept, whatever the data",
        grid=grid.nbytes,
    )


def _fit_seconds(problem: Problem, width: float) -> float:
    """Time the fit of one batch in a block."""
    features = prepare(
        problem.reference, problem.centres, width, penalty=PENALTY, expected=EXPECTED
    )
    return seconds(lambda: fit(features, problem.batches, [EXPECTED] * BLOCK), 2) / BLOCK


def read(number: int) -> tuple[Floats, float]:
    """Make one small batch."""
    rng = np.random.default_rng(number)
    return rng.exponential(size=(rng.poisson(SMALL), 1)), SMALL


def _on_dask() -> None:
    """Merge many batches as a tree on Dask workers, and compare with one pass."""
    rng = np.random.default_rng(1)
    grid = ScanGrid.choose(rng.exponential(size=(200_000, 1)), BATCHES * SMALL, rng)
    with dask_workers("local") as executor:
        begun = time.perf_counter()
        merged = scan_batches(grid, range(BATCHES), read, executor)
        spent = time.perf_counter() - begun
    events = np.concatenate([read(number)[0] for number in range(BATCHES)])
    once = ScanSummary.empty(grid).add(events, BATCHES * SMALL)
    emit(
        "scan.dask.difference",
        int(np.abs(merged.counts - once.counts).max()),
        "events in any ring, to one pass over all events",
        batches=merged.batches,
        t=[merged.t, once.t],
        seconds=spent,
    )
