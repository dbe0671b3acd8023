"""How long a null table would take, how much memory and disk: from small ones, timed here.

Time grows with the rows of reference and data once the centres are given. So blocks of the wanted
shape (dimensions, centres, batches, toys together) are timed at two small sizes, on all cores at
once, and a straight line through both is drawn out to the wanted size. Stored rows or made ones, as
the memory budget will have it there. The passes that fits take depend on λN: they are counted in
small fits with a penalty as much larger as their reference is smaller.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import InputError
from gofstream.execution import cores, thread_workers
from gofstream.ratio.centres import default_count
from gofstream.ratio.features import Features, prepare, rows_are_stored
from gofstream.ratio.kernel import KernelRows
from gofstream.ratio.learner import Learner
from gofstream.ratio.solver import fit, fit_bytes, rows_fit
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.statistics import STATISTICS
from gofstream.toys.plan import statistics_of, toys_in_a_block

Floats = NDArray[np.float64]

#: Reference rows of the smaller trial, at least; the larger one has so many times more.
ROWS, TIMES = 20_000, 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """A null table that is thought of.

    Attributes
    ----------
    n_reference : rows of the reference.
    expected : N(R) of all batches together.
    dims : columns.
    batches : N_b.
    toys : pseudo-experiments.
    workers : threads, processes or nodes that make blocks.
    """

    n_reference: int
    expected: float
    dims: int
    batches: int
    toys: int
    workers: int

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name in ("n_reference", "expected", "dims", "batches", "toys", "workers"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; give at least one")


@dataclass(frozen=True, slots=True)
class AtWidth:
    """What one width takes.

    Attributes
    ----------
    rank : centres kept.
    stored, data_stored : whether rows of the reference, and of the data, fit into memory.
    passes : over the reference, of a block.
    prepare_seconds : once for each worker process, or once for all threads.
    block_seconds : for one block, with all cores of this machine at work.
    memory : bytes of a process that makes one block at a time.
    """

    width: float
    rank: int
    stored: bool
    data_stored: bool
    passes: int
    prepare_seconds: float
    block_seconds: float
    memory: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a null table would take.

    Attributes
    ----------
    widths : by width.
    toys_per_block, blocks : at each width.
    seconds : in all.
    memory : bytes of each process.
    disk : bytes of the null file.
    """

    wanted: Wanted
    widths: tuple[AtWidth, ...]
    toys_per_block: int
    blocks: int
    seconds: float
    memory: int
    disk: int


def forecast(
    wanted: Wanted,
    settings: Settings,
    *,
    seed: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Forecast:
    """Time small null tables, and say what the wanted one would take.

    Parameters
    ----------
    settings : of the learner; widths that are not given follow from standard normal columns.
    progress : called with trials done and wanted.
    """
    settings.refuse_devices("a forecast")
    each = wanted.expected / wanted.batches
    count = settings.n_centres or default_count(wanted.n_reference + each, settings.centre_factor)
    settings = settings.changed(n_centres=count)
    small = min(wanted.n_reference, max(ROWS, 2 * count))
    sizes = sorted({small, min(wanted.n_reference, TIMES * small)})
    trials = [_Trial.prepare(wanted, settings, size, seed) for size in sizes]
    expected = np.full(wanted.batches, each)
    together = toys_in_a_block(expected, trials[0].learner, stored=settings.one_step)
    found = []
    for number, width in enumerate(trials[0].learner.widths):
        progress(number, len(trials[0].learner.widths))
        found.append(_at_width(wanted, settings, trials, width, together))
    progress(len(found), len(found))
    blocks = -(-wanted.toys // together)
    rounds = -(-blocks // wanted.workers)
    return Forecast(
        wanted=wanted,
        widths=tuple(found),
        toys_per_block=together,
        blocks=blocks,
        seconds=sum(w.prepare_seconds + rounds * w.block_seconds for w in found),
        memory=max(w.memory for w in found),
        disk=int(1.1 * 8 * blocks * together * len(STATISTICS) * len(found) * wanted.batches),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """A small reference of standard normal columns."""

    learner: Learner
    expected: float

    @classmethod
    def prepare(cls, wanted: Wanted, settings: Settings, rows: int, seed: int) -> _Trial:
        rng = np.random.default_rng(seed)
        sample = Sample.from_array(rng.normal(size=(rows, wanted.dims)))
        expected = wanted.expected / wanted.batches * rows / wanted.n_reference
        return cls(Learner.prepare(sample, settings, expected=expected, rng=rng), expected)

    def data(self, count: int) -> list[Floats]:
        """Draw batches."""
        rng = np.random.default_rng(count)
        sizes = rng.poisson(self.expected, count)
        return [rng.normal(size=(size, self.learner.reference.shape[1])) for size in sizes]

    def passes(self, width: float, penalty: float, count: int) -> int:
        """Count the passes of fits with so large a penalty."""
        learner = self.learner
        features = prepare(
            learner.reference,
            learner.candidates,
            width,
            penalty=penalty,
            expected=self.expected,
            precision=learner.settings.precision,
        )
        done = fit(
            features,
            self.data(count),
            [self.expected] * count,
            tolerance=learner.settings.tolerance,
            max_passes=learner.settings.max_passes,
        )
        return int(done.passes.max())


def _at_width(
    wanted: Wanted, settings: Settings, trials: Sequence[_Trial], width: float, together: int
) -> AtWidth:
    first, made, prepared = trials[0], list[Features](), list[float]()
    for trial in trials:
        begun = time.perf_counter()
        made.append(trial.learner.features(width))
        prepared.append(time.perf_counter() - begun)
    rank, rows = made[0].rank, wanted.n_reference
    itemsize, candidates = np.dtype(settings.precision).itemsize, len(first.learner.candidates)
    stored = rows_are_stored(rows, rank, candidates, itemsize, settings.memory)
    large = rows * rank * itemsize if stored else 8 * rows * wanted.dims
    features_bytes = large + 2 * 8 * rank**2
    each = wanted.expected / wanted.batches
    sizes = [int(each + 5 * math.sqrt(each))] * (together * wanted.batches)
    room = settings.memory - features_bytes + made[0].nbytes
    data_stored = settings.one_step or rows_fit(made[0], sizes, room)
    grown = (rows + each) / (len(first.learner.reference) + first.expected)
    penalty = first.learner.penalty * grown
    passes = 1 if settings.one_step else first.passes(width, penalty, min(4, len(sizes)))
    times = [
        _block_time(
            trial,
            features,
            (together, wanted.batches),
            passes,
            stored=stored,
            data_stored=data_stored,
        )
        for trial, features in zip(trials, made, strict=True)
    ]
    at = [len(trial.learner.reference) for trial in trials]
    return AtWidth(
        width=width,
        rank=rank,
        stored=stored,
        data_stored=data_stored,
        passes=passes,
        prepare_seconds=_drawn_out(at, prepared, rows),
        block_seconds=_drawn_out(at, times, rows),
        memory=2 * 8 * rows * wanted.dims
        + features_bytes
        + fit_bytes(made[0], sizes, stored=data_stored),
    )


def _block_time(
    trial: _Trial,
    features: Features,
    shape: tuple[int, int],
    passes: int,
    *,
    stored: bool,
    data_stored: bool,
) -> float:
    """Time one block of (toys, batches) on each core, all at once."""
    toys, batches = shape
    if not stored and features.made is None:
        points = trial.learner.reference
        made = KernelRows.of(points, features.centres, features.width)
        features = replace(features, psi=None, made=made)
    data = trial.data(toys * batches)
    sizes = [len(batch) for batch in data]
    memory = features.nbytes + fit_bytes(features, sizes) - (not data_stored)
    settings = trial.learner.settings.changed(memory=memory, max_passes=passes)
    expected = np.full(batches, trial.expected)
    count = cores()
    with thread_workers(count) as executor:
        begun = time.perf_counter()
        for done in [
            executor.submit(statistics_of, features, data, expected, settings) for _ in range(count)
        ]:
            done.result()
        return time.perf_counter() - begun


def _drawn_out(at: Sequence[int], seconds: Sequence[float], rows: int) -> float:
    """Draw a line through one or two times out to so many rows; never below the last one."""
    if len(at) == 1:
        return seconds[0]
    slope = max(0.0, (seconds[1] - seconds[0]) / (at[1] - at[0]))
    return max(seconds[1], seconds[1] + slope * (rows - at[1]))
