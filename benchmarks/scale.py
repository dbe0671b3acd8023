"""CMS-L1-24D at the paper's size, on two cores and within a memory budget.

The reference is the shipped sample, drawn again and smeared: good for timing, not for physics.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import emit
from gofstream.datasets import cmsl1
from gofstream.execution import thread_workers
from gofstream.inference.null import NullFile
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Device, preset
from gofstream.toys.farm import Job
from gofstream.toys.farm import run as run_farm
from gofstream.toys.plan import ReferencePlan

#: The paper's table: a batch on its GPU.
PAPER = "40 to 70 s a batch on the paper's GPU"
#: A draw moves by this share of the spread of each column.
SMEAR = 0.1


class Smeared:
    """Events of a sample, drawn again and again and moved a little."""

    def __init__(self, sample: Sample) -> None:
        self.values = sample.values.astype(np.float32)
        self.spread = (SMEAR * self.values.std(axis=0)).astype(np.float32)

    def events(self, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
        """Draw some."""
        out = self.values[rng.integers(len(self.values), size=count)]
        for part in np.array_split(out, max(1, count // 100_000)):
            part += self.spread * rng.standard_normal(part.shape, dtype=np.float32)
        return out

    def draw(
        self, expected: NDArray[np.float64], rng: np.random.Generator, *, fixed: bool = False
    ) -> list[NDArray[np.float64]]:
        """Draw the batches of a toy."""
        sizes = expected.astype(int) if fixed else rng.poisson(expected)
        return [self.events(int(n), rng).astype(np.float64) for n in sizes]


def run(
    n_reference: int = 10_000_000,
    batch: float = 200_000.0,
    toys: int = 12,
    *,
    centres: int = 10_000,
    memory: int = 8 * 1024**3,
    device: Device = "cpu",
) -> None:
    """Print the time per fit, and the largest amount of memory this process ever had."""
    study = preset("cmsl1")
    rng = np.random.default_rng(1)
    source = Smeared(cmsl1.varying(cmsl1.read("sm").sample))
    reference = Sample.from_array(source.events(n_reference, rng), cmsl1.VARYING, name="reference")
    settings = study.settings.changed(n_centres=centres, memory=memory, device=device)
    expected = np.full(study.batches, batch)
    learner = Learner.prepare(reference, settings, expected=batch, rng=rng)
    plan = ReferencePlan(learner, source, "smeared", expected, seed=1, with_scan=False)
    begun = time.perf_counter()
    features = learner.features(learner.widths[0])
    prepared, made, rank = time.perf_counter() - begun, features.made is not None, features.rank
    del features
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, thread_workers() as executor:
        file = NullFile(Path(folder) / "toys.null", plan.about())
        run_farm([Job(plan, toys, file)], executor, progress=_log)
        table = file.load(toys)
    spent = time.perf_counter() - begun
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    emit(
        "scale.seconds_per_fit",
        (spent - prepared) / (toys * study.batches),
        f"seconds per batch, amortised; {PAPER}",
        n_reference=n_reference,
        batch=batch,
        toys=toys,
        fits_per_block=plan.toys_per_block * study.batches,
        rank=rank,
        rows="made" if made else "stored",
        device=device,
        prepared_seconds=round(prepared, 1),
        unconverged=table.unconverged,
    )
    emit("scale.memory", peak / memory, "peak resident memory over the budget", bytes=peak)


def _log(done: int, total: int) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} blocks: {done} of {total}\n")
    sys.stderr.flush()
