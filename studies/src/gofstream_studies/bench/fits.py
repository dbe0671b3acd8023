"""How long fits take: alone, in a block, and in blocks on all cores."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gofstream.execution import cores, thread_workers
from gofstream.ratio.features import Features
from gofstream.ratio.learner import Learner
from gofstream.ratio.solver import fit
from gofstream_studies.bench.cases import Case, drawn
from gofstream_studies.bench.machine import seconds

Floats = NDArray[np.float64]

#: Fits in a block.
BLOCK = 32
#: A fit may take so many times the memory of the settings: what is timed is not to depend on it.
ROOM = 2


@dataclass(frozen=True, slots=True)
class FitTimes:
    """What the fit of one batch takes at one width, in seconds.

    Attributes
    ----------
    data_set : of the paper.
    n_reference, batch, centres : N_R, expected events of the batch, candidate centres M.
    rank : centres that were kept.
    rows : whether those of the reference are "stored", or "made" in every pass.
    passes : over the reference, on average over a block.
    prepared : making the reference ready for this width, once for all fits.
    alone, in_block : a batch on its own, and one of a block of 32; on one core, or the device.
    on_all_cores : one of as many blocks as there are cores, at once; None where that was not timed.
    """

    data_set: str
    n_reference: int
    batch: float
    centres: int
    penalty: float
    width: float
    rank: int
    rows: str
    passes: float
    prepared: float
    alone: float
    in_block: float
    on_all_cores: float | None = None


def time_fits(
    case: Case,
    learner: Learner,
    width: float,
    rng: np.random.Generator,
    *,
    all_cores: bool = False,
) -> FitTimes:
    """Time fits of null batches at one width.

    Parameters
    ----------
    learner : the case's own, made ready once for all widths.
    all_cores : time them on all cores as well.
    """
    begun = time.perf_counter()
    features = learner.features(width)
    prepared = time.perf_counter() - begun
    batches = drawn(learner, case.source, case.batch, BLOCK, rng)
    memory = ROOM * case.settings.memory
    passes = 0.0

    def block() -> None:
        nonlocal passes
        done = fit(features, batches, np.full(BLOCK, case.batch), memory=memory)
        passes = float(done.passes.mean())

    in_block = seconds(block, 2) / BLOCK
    return FitTimes(
        data_set=case.name,
        n_reference=len(case.reference),
        batch=case.batch,
        centres=len(learner.candidates),
        penalty=learner.penalty,
        width=width,
        rank=features.rank,
        rows="stored" if features.made is None else "made",
        passes=passes,
        prepared=prepared,
        alone=time_alone(features, batches[0], case.batch),
        in_block=in_block,
        on_all_cores=_on_all_cores(features, batches, case.batch, memory) if all_cores else None,
    )


def time_alone(features: Features, batch: Floats, expected: float) -> float:
    """Time the fit of one batch on its own: the faster of two, as the first also touches memory."""
    return seconds(lambda: fit(features, [batch], [expected]), 2)


def _on_all_cores(features: Features, batches: list[Floats], expected: float, memory: int) -> float:
    """Time as many blocks as there are cores, at once, for each of their fits."""
    with thread_workers() as executor:
        begun = time.perf_counter()
        blocks = [
            executor.submit(fit, features, batches, np.full(BLOCK, expected), memory=memory)
            for _ in range(cores())
        ]
        for block in blocks:
            block.result()
        return (time.perf_counter() - begun) / (BLOCK * cores())
