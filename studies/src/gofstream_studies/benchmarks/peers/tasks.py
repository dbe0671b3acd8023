"""What all tests are asked: two data sets of the paper, with and without signals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gofstream.datasets import expo1d
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings, preset
from gofstream.toys.plan import draw_toy
from gofstream.toys.sources import Injected, Pool, Simulator, Source, split_off_pool, toy_rng
from gofstream_studies.datasets import dimuon5d
from gofstream_studies.paper.dimuon5d import SHRINK, alternative

Floats = NDArray[np.float64]

#: The stream of toys without a signal.
NULL = "null"
#: The signals of each task.
SIGNALS = {"expo1d": tuple(expo1d.SIGNALS), "dimuon5d": tuple(dimuon5d.BENCHMARKS)}
#: Candidate centres of DIMUON-5D.
CENTRES = 2000


@dataclass(frozen=True, slots=True, eq=False)
class Toy:
    """One data set, in scaled units: batch by batch for those who look at batches.

    Attributes
    ----------
    seed, stream, number : who it is.
    """

    seed: int
    stream: str
    number: int
    batches: list[Floats]

    @property
    def events(self) -> Floats:
        """All events."""
        return np.concatenate(self.batches)

    def rng(self, test: str) -> np.random.Generator:
        """Make the generator of a test that throws dice over this data set."""
        return toy_rng(self.seed, f"{self.stream}: {test}", self.number)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A reference, made ready, and data sets to be compared with it.

    Attributes
    ----------
    learner : holds the scaled reference, the widths and centres; other tests take the first two.
    expected : events expected in each batch.
    sources : of toys without a signal, under `NULL`, and with each signal.
    seed : of all toys.
    """

    name: str
    learner: Learner
    expected: Floats
    sources: Mapping[str, Source]
    seed: int = 1

    @property
    def reference(self) -> Floats:
        """The reference that all tests compare with, scaled."""
        return self.learner.reference[:]

    def toys(self, stream: str, first: int, count: int) -> list[Toy]:
        """Draw toys: each depends on its stream and number alone."""
        source = self.sources[stream]
        return [
            Toy(
                self.seed,
                stream,
                n,
                draw_toy(self.learner, source, self.expected, (self.seed, stream, n)),
            )
            for n in range(first, first + count)
        ]


def expo1d_task() -> Task:
    """EXPO-1D at the paper's size: 16 000 expected events in 8 batches, five signals."""
    study, rng = preset("expo1d"), np.random.default_rng(1)
    nominal = Simulator(expo1d.reference)
    return _task(
        "expo1d",
        Sample.from_array(expo1d.reference(study.n_reference, rng)),
        study.settings,
        np.full(study.batches, study.expected / study.batches),
        {NULL: nominal}
        | {
            name: Injected(nominal, Simulator(signal.draw), signal.fraction)
            for name, signal in expo1d.SIGNALS.items()
        },
        rng,
    )


def dimuon5d_task() -> Task:
    """DIMUON-5D on the sample shipped: a quarter of the paper's events, as the pool is small.

    Fractions grow so that N(S)/√N(R) stays.
    """
    study, rng = preset("dimuon5d"), np.random.default_rng(1)
    sample = dimuon5d.drell_yan()
    reference, rest = split_off_pool(sample, len(sample) - study.n_reference, rng)
    pool, expected = Pool(rest), study.expected / SHRINK
    pool.check(expected)
    return _task(
        "dimuon5d",
        reference,
        study.settings.changed(n_centres=CENTRES),
        np.full(study.batches, expected / study.batches),
        {NULL: pool}
        | {
            benchmark.name: alternative(benchmark, pool, None, math.sqrt(SHRINK))
            for benchmark in dimuon5d.BENCHMARKS.values()
        },
        rng,
    )


def _task(
    name: str,
    reference: Sample,
    settings: Settings,
    expected: Floats,
    sources: dict[str, Source],
    rng: np.random.Generator,
) -> Task:
    learner = Learner.prepare(reference, settings, expected=float(expected[0]), rng=rng)
    return Task(name, learner, expected, sources)


TASKS = {"expo1d": expo1d_task, "dimuon5d": dimuon5d_task}
