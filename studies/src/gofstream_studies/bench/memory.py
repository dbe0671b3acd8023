"""How much memory fits take, against the budget they are given: in a process of their own."""

from __future__ import annotations

import multiprocessing
import re
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from gofstream.errors import GofstreamError
from gofstream.ratio.devices import device_peak, namespace, place
from gofstream.ratio.features import prepare
from gofstream.ratio.solver import fit
from gofstream.settings import Device

P = ParamSpec("P")
T = TypeVar("T")

#: What is fitted: normal columns, so many rows of them, and batches at this width.
DIMENSIONS, WIDTH, CENTRES, FITS, BATCH = 5, 4.0, 500, 8, 2000
ROWS = 300_000


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What a block of fits took.

    Attributes
    ----------
    rows : whether those of the reference were "stored", or "made" in every pass.
    budget : bytes it was given.
    taken : bytes that the process held at its peak, beyond those it held before it began.
    on_device : bytes of the device's own memory, if it has any.
    seconds_per_fit : with what was prepared for them.
    """

    n_reference: int
    rows: str
    budget: int
    taken: int
    on_device: int
    seconds_per_fit: float


def measure_memory(budget: int, device: Device = "cpu", n_reference: int = ROWS) -> MemoryUse:
    """Fit a block within a budget, in a fresh process, and see what it took.

    Raises
    ------
    GofstreamError
        If the process was killed, as one is when the machine runs out of memory.
    """
    return in_fresh_process(_use, budget, device, n_reference)


def in_fresh_process(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a process that has done nothing else.

    Raises
    ------
    GofstreamError
        If the process was killed, as one is when the machine runs out of memory.
    """
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(1, mp_context=context) as executor:
            return executor.submit(work, *args, **kwargs).result()
    except BrokenProcessPool as error:
        raise GofstreamError(
            "the process that was measured is gone, killed perhaps for want of memory; free some, "
            "and try again"
        ) from error


def peak_and_present() -> tuple[int, int]:
    """Bytes that this process held at most, and those it holds now."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    found = dict(re.findall(r"^(VmHWM|VmRSS):\s+(\d+) kB", status, flags=re.MULTILINE))
    return 1024 * int(found["VmHWM"]), 1024 * int(found["VmRSS"])


def _use(budget: int, device: Device, n_reference: int) -> MemoryUse:
    rng = np.random.default_rng(1)
    with threadpool_limits(limits=1):
        # Libraries, and what BLAS keeps for itself, are not what is measured.
        namespace(device)
        np.linalg.inv(rng.random((500, 500)))
        _, before = peak_and_present()
        begun = time.perf_counter()
        reference = rng.normal(size=(n_reference, DIMENSIONS))
        batches = [rng.normal(size=(BATCH, DIMENSIONS)) for _ in range(FITS)]
        features = prepare(
            reference,
            reference[:CENTRES],
            WIDTH,
            penalty=1e-6,
            expected=float(BATCH),
            memory=budget,
        )
        fit(place(features, device), batches, np.full(FITS, float(BATCH)), memory=budget)
        spent = time.perf_counter() - begun
    peak, _ = peak_and_present()
    return MemoryUse(
        n_reference=n_reference,
        rows="stored" if features.made is None else "made",
        budget=budget,
        taken=peak - before,
        on_device=device_peak(device),
        seconds_per_fit=spent / FITS,
    )
