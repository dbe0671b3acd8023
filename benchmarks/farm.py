"""What the farm adds to the fits, and what a second worker gains."""

from __future__ import annotations

import itertools
import tempfile
from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from benchmarks.machine import emit, seconds
from gofstream.datasets import expo1d
from gofstream.execution import dask_workers, thread_workers
from gofstream.inference.null import NullFile
from gofstream.ratio.features import Features
from gofstream.ratio.learner import Learner
from gofstream.ratio.solver import fit
from gofstream.sample import Sample
from gofstream.settings import preset
from gofstream.toys.farm import run as run_farm
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Simulator, toy_rng

#: Blocks of each width that are timed: enough for the last ones, when a worker idles, to matter
#: little.
BLOCKS = 16
#: Toys of a whole run.
RUN_TOYS = 64


def run() -> None:
    """Measure on EXPO-1D, eight batches, five widths."""
    study = preset("expo1d")
    rng = np.random.default_rng(1)
    reference = Sample.from_array(expo1d.reference(study.n_reference, rng))
    expected = np.full(study.batches, study.expected / study.batches)
    learner = Learner.prepare(reference, study.settings, expected=expected[0], rng=rng)
    plan = ReferencePlan(learner, Simulator(expo1d.reference), "simulator", expected, seed=1)
    whole, alone, one, two = 0.0, 0.0, 0.0, 0.0
    for width in learner.widths:
        features = learner.features(width)
        alone += BLOCKS * _fits_alone(plan, features)
        whole += _all_of_it(plan, features)
        one += _with_threads(plan, features, 1)
        two += _with_threads(plan, features, 2)
    emit("farm.overhead", whole / alone, "times the fits alone", blocks=BLOCKS)
    emit("farm.scaling", one / two, "times faster with two threads", blocks=BLOCKS)
    with thread_workers(2) as threads:
        by_threads = _whole_runs(plan, threads)
    with dask_workers("local", 2) as dask:
        by_dask = _whole_runs(plan, dask)
    emit(
        "farm.dask_vs_threads",
        by_threads / by_dask,
        "speed of two Dask workers over that of two threads",
        toys=RUN_TOYS,
    )


def _whole_runs(plan: ReferencePlan, executor: Executor) -> float:
    """Time whole runs, with what workers have to prepare."""
    with tempfile.TemporaryDirectory() as folder:
        count = itertools.count()

        def work() -> None:
            file = NullFile(Path(folder) / f"{next(count)}.null", plan.about())
            run_farm(plan, RUN_TOYS, file, executor)

        return seconds(work, 2)


def _fits_alone(plan: ReferencePlan, features: Features) -> float:
    batches = []
    for toy in range(plan.toys_per_block):
        batches += plan.source.draw(plan.expected, toy_rng(1, "bench", toy))
    scaled = [plan.learner.scaling.apply(Sample.from_array(x)) for x in batches]
    counts = np.tile(plan.expected, plan.toys_per_block)
    return seconds(lambda: fit(features, scaled, counts), 3)


def _all_of_it(plan: ReferencePlan, features: Features) -> float:
    """Time drawing, scaling, fits, statistics and disk, one block after another."""
    with tempfile.TemporaryDirectory() as folder:
        file = NullFile(Path(folder) / "toys.null", plan.about())

        def work() -> None:
            for block in range(BLOCKS):
                file.put(0, block, *plan.block(features, features.width, block))

        return seconds(work, 2)


def _with_threads(plan: ReferencePlan, features: Features, threads: int) -> float:
    with thread_workers(threads) as executor:
        return seconds(
            lambda: [
                future.result()
                for future in [
                    executor.submit(plan.block, features, features.width, b) for b in range(BLOCKS)
                ]
            ],
            2,
        )
