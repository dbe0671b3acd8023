"""What the farm adds to the fits, and what a second worker gains."""

from __future__ import annotations

import tempfile
from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from gofstream.datasets import expo1d
from gofstream.execution import dask_workers, thread_workers
from gofstream.inference.null import NullFile
from gofstream.ratio.features import Features
from gofstream.ratio.learner import Learner
from gofstream.ratio.solver import fit
from gofstream.sample import Sample
from gofstream.settings import preset
from gofstream.toys.farm import Job
from gofstream.toys.farm import run as run_farm
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Simulator, toy_rng
from gofstream_studies.bench.machine import seconds
from gofstream_studies.benchmarks.machine import emit, gemm_scaling

#: Blocks of each width that are timed on one thread.
BLOCKS = 16
#: And on one and on two, in so many turns, since the speed of a machine drifts. An even number of
#: alike blocks leaves no worker without one at the end.
SHARED_BLOCKS, TURNS = 12, 9
#: Toys of a whole run.
RUN_TOYS = 160


def run() -> None:
    """Measure on EXPO-1D, eight batches, five widths."""
    study = preset("expo1d")
    rng = np.random.default_rng(1)
    reference = Sample.from_array(expo1d.reference(study.n_reference, rng))
    expected = np.full(study.batches, study.expected / study.batches)
    learner = Learner.prepare(reference, study.settings, expected=expected[0], rng=rng)
    plan = ReferencePlan(
        learner, Simulator(expo1d.reference), "simulator", expected, seed=1, with_scan=False
    )
    whole, alone, one, two = 0.0, 0.0, 0.0, 0.0
    machine: list[float] = []
    for width in learner.widths:
        features = learner.features(width)
        alone += BLOCKS * _fits_alone(plan, features)
        whole += _all_of_it(plan, features)
        turns = []
        for _ in range(TURNS):
            machine.append(gemm_scaling())
            turns.append([_with_threads(plan, features, count) for count in (1, 2)])
        usual = np.median(turns, axis=0)
        one, two = one + usual[0], two + usual[1]
    emit("farm.overhead", whole / alone, "times the fits alone", blocks=BLOCKS)
    emit("farm.scaling", one / two, "times faster with two threads", turns=TURNS)
    emit(
        "machine.scaling",
        float(np.median(machine)),
        "times faster with two threads: plain products in between, 2 if the machine is quiet",
        least=round(min(machine), 2),
        most=round(max(machine), 2),
    )
    with thread_workers(2) as threads, dask_workers("local", 2) as dask:
        times = [[_whole_run(plan, executor) for executor in (threads, dask)] for _ in range(2)]
    emit(
        "farm.dask_vs_threads",
        min(pair[0] for pair in times) / min(pair[1] for pair in times),
        "speed of two Dask workers over that of two threads",
        toys=RUN_TOYS,
    )


def _whole_run(plan: ReferencePlan, executor: Executor) -> float:
    """Time a whole run, with what workers have to prepare."""
    with tempfile.TemporaryDirectory() as folder:
        file = NullFile(Path(folder) / "toys.null", plan.about())
        return seconds(lambda: run_farm([Job(plan, RUN_TOYS, file)], executor), 1)


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

        def work() -> None:
            futures = [
                executor.submit(plan.block, features, features.width, block)
                for block in range(SHARED_BLOCKS)
            ]
            for future in futures:
                future.result()

        return seconds(work, 1)
