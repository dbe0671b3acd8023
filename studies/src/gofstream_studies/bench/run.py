"""All that `gofstream bench` measures, in about a minute on two cores."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gofstream.settings import Device
from gofstream_studies.bench.cases import PAPER, dimuon5d_case, expo1d_case
from gofstream_studies.bench.fits import FitTimes, time_fits
from gofstream_studies.bench.machine import Machine, exponent, measure_machine
from gofstream_studies.bench.memory import MemoryUse, measure_memory

FORMAT, VERSION = "gofstream_studies.bench", 1

#: Widths that are timed: one of many centres and one of few.
WIDTHS = {"expo1d": (0.1, 0.7), "dimuon5d": (1.9, 4.4)}
#: Candidate centres of DIMUON-5D: with the paper's 10 000 this would take minutes.
DIMUON_CENTRES = 3000
#: Reference events of EXPO-1D, and the width, at which growth is seen.
SIZES, GROWTH_WIDTH = (100_000, 400_000, 1_600_000), 0.7
#: Budgets in which a block is fitted: rows of the reference fit into the first, not the second.
BUDGETS = (640 * 1024**2, 96 * 1024**2)


@dataclass(frozen=True, slots=True)
class Growth:
    """Time of a fit in a block against N_R, for EXPO-1D at one width.

    Attributes
    ----------
    exponent : of seconds ∝ N_R^exponent; below one where the data of a batch still show.
    """

    width: float
    n_reference: tuple[int, ...]
    seconds_per_fit: tuple[float, ...]
    exponent: float


@dataclass(frozen=True, slots=True)
class Bench:
    """What `gofstream bench` found; as JSON, the fields under their names.

    Attributes
    ----------
    format, version : of this record.
    machine : yardsticks, names, versions.
    fits, memory, growth : what was measured.
    paper : seconds per batch on the paper's GPU, least and most.
    seconds : that all of it took.
    """

    format: str
    version: int
    machine: Machine
    fits: tuple[FitTimes, ...]
    memory: tuple[MemoryUse, ...]
    growth: Growth
    paper: dict[str, tuple[float, float]]
    seconds: float


def bench(
    device: Device = "cpu",
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Bench:
    """Measure speed, memory and growth on this machine.

    Parameters
    ----------
    device : where products are made.
    progress : called with steps done and wanted.

    Raises
    ------
    GofstreamError
        If the device is not there, or the machine has too little memory.
    """
    begun, done = time.perf_counter(), 0
    total = 1 + sum(map(len, WIDTHS.values())) + len(SIZES) + len(BUDGETS)

    def step() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    progress(done, total)
    machine = measure_machine(device)
    step()
    rng, fits = np.random.default_rng(1), []
    cases = [expo1d_case(rng), dimuon5d_case(rng).changed(n_centres=DIMUON_CENTRES)]
    for case in (each.changed(device=device) for each in cases):
        learner = case.learner(rng)
        for width in WIDTHS[case.name]:
            fits.append(time_fits(case, learner, width, rng, all_cores=device == "cpu"))
            step()
    times = []
    for size in SIZES:
        case = expo1d_case(rng, size).changed(device=device)
        times.append(time_fits(case, case.learner(rng), GROWTH_WIDTH, rng).in_block)
        step()
    memory = []
    for budget in BUDGETS:
        memory.append(measure_memory(budget, device))
        step()
    return Bench(
        FORMAT,
        VERSION,
        machine,
        tuple(fits),
        tuple(memory),
        _growth(SIZES, times),
        dict(PAPER),
        time.perf_counter() - begun,
    )


def _growth(sizes: Sequence[int], times: Sequence[float]) -> Growth:
    return Growth(GROWTH_WIDTH, tuple(sizes), tuple(times), exponent(sizes, times))
