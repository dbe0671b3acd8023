"""What the farm adds to the fits, and what a second worker gains."""

from __future__ import annotations

import tempfile
from concurrent.futures import Executor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.machine import emit, gemm_scaling, seconds
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

#: Blocks of each width that are timed on one thread.
BLOCKS = 16
#: And on one and on two, in turns. An even number of alike blocks leaves no worker without one at
#: the end.
SHARED_BLOCKS = 12
#: A turn is quiet if plain products scaled at least so well before and after it. So many quiet ones
#: are waited for, but no more than so many are taken in all.
QUIET, QUIET_TURNS, MOST_TURNS = 1.9, 3, 20
#: Toys of a whole run.
RUN_TOYS = 160


def run() -> None:
    """Measure on EXPO-1D, eight batches, five widths."""
    study = preset("expo1d")
    rng = np.random.default_rng(1)
    reference = Sample.from_array(expo1d.reference(study.n_reference, rng))
    expected = np.full(study.batches, study.expected / study.batches)
    learner = Learner.prepare(reference, study.settings, expected=expected[0], rng=rng)
    plan = ReferencePlan(learner, Simulator(expo1d.reference), "simulator", expected, seed=1)
    whole, alone = 0.0, 0.0
    turns: list[Turns] = []
    for width in learner.widths:
        features = learner.features(width)
        alone += BLOCKS * _fits_alone(plan, features)
        whole += _all_of_it(plan, features)
        turns.append(_turns(plan, features))
    emit("farm.overhead", whole / alone, "times the fits alone", blocks=BLOCKS)
    quiet = [[turn for turn in each if turn.machine >= QUIET] for each in turns]
    detail = {
        "quiet_turns": [len(each) for each in quiet],
        "turns": [len(each) for each in turns],
        "all_turns": round(_scaling(turns), 3),
        "machine": round(float(np.median([turn.machine for each in turns for turn in each])), 2),
    }
    if all(quiet):
        emit("farm.scaling", _scaling(quiet), "times faster with two threads, quiet", **detail)
    else:
        emit("farm.scaling", _scaling(turns), "times faster with two threads, NOT QUIET", **detail)
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
        return seconds(lambda: run_farm(plan, RUN_TOYS, file, executor), 1)


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


class Turn(NamedTuple):
    """Seconds on one thread and on two, and how well plain products scaled before or after."""

    one: float
    two: float
    machine: float


Turns = list[Turn]


def _turns(plan: ReferencePlan, features: Features) -> Turns:
    """Time one thread and two in turns, since the speed of a machine drifts."""
    found: Turns = []
    machine = gemm_scaling()
    while len(found) < MOST_TURNS and sum(t.machine >= QUIET for t in found) < QUIET_TURNS:
        one, two = (_with_threads(plan, features, count) for count in (1, 2))
        before, machine = machine, gemm_scaling()
        found.append(Turn(one, two, min(before, machine)))
    return found


def _scaling(turns: list[Turns]) -> float:
    """Compare the usual times, over all widths."""
    one, two = (sum(np.median([turn[k] for turn in each]) for each in turns) for k in (0, 1))
    return float(one / two)


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
