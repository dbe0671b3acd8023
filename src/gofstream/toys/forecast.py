"""How long a null table would take, how much memory and disk: from small ones, timed here.

Time grows with the rows of reference and data once the centres are given. So blocks of the wanted
shape (dimensions, centres, batches, toys together) are timed at two small sizes, on all cores at
once, and a straight line through both is drawn out to the wanted size. Stored rows or made ones, as
the memory budget will have it there. The passes that fits take depend on λN, so the penalty is as
much larger as the reference is smaller.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import InputError
from gofstream.execution import cores, one_blas_thread, thread_workers
from gofstream.ratio.centres import Centres, default_count, reduce_centres
from gofstream.ratio.features import (
    Features,
    features_of,
    gram_of_part,
    gram_rows,
    prepare_bytes,
    rows_are_stored,
)
from gofstream.ratio.learner import Learner
from gofstream.ratio.solver import fit_bytes, rows_fit
from gofstream.sample import Sample
from gofstream.scan.grid import ScanGrid, rows_looked_at
from gofstream.settings import Settings
from gofstream.statistics import STATISTICS
from gofstream.toys.plan import statistics_of, toys_in_a_block
from gofstream.toys.scanning import scan_bytes, scan_set

Floats = NDArray[np.float64]

#: Reference rows of the smaller trial, at least; the larger one has so many times more.
ROWS, TIMES = 20_000, 2
#: Events that are scanned on trial, at most.
SCANNED = 20_000


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
    grid_seconds, scan_seconds : the same for the scan: its grid, and one block.
    seconds : in all.
    memory : bytes of each process.
    disk : bytes of the null file.
    """

    wanted: Wanted
    widths: tuple[AtWidth, ...]
    toys_per_block: int
    blocks: int
    grid_seconds: float
    scan_seconds: float
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
    if settings.data_dependent:
        raise InputError(
            'a forecast knows no data, and with centres_from="pooled" or cover=true every toy '
            "chooses its own centres; forecast without, and add the time of preparing for each toy"
        )
    each = wanted.expected / wanted.batches
    count = settings.n_centres or default_count(wanted.n_reference + each, settings.centre_factor)
    settings = settings.changed(n_centres=count)
    small = min(wanted.n_reference, max(ROWS, count))
    sizes = sorted({small, min(wanted.n_reference, TIMES * small)})
    rng = np.random.default_rng(seed)
    sample = Sample.from_array(rng.normal(size=(sizes[-1], wanted.dims)))
    expected = each * sizes[-1] / wanted.n_reference
    learner = Learner.prepare(sample, settings, expected=expected, rng=rng)
    together = toys_in_a_block(np.full(wanted.batches, each), learner, stored=settings.one_step)
    found = []
    for number, width in enumerate(learner.widths):
        progress(number, len(learner.widths))
        with one_blas_thread:
            found.append(_at_width(wanted, learner, sizes, width, together))
    progress(len(found), len(found))
    blocks = -(-wanted.toys // together)
    rounds = -(-blocks // wanted.workers)
    columns = len(STATISTICS) * len(found) + 1  # the scan has no width
    grid_seconds, scan_seconds, scan_memory = _scan(wanted, learner.reference[:], together)
    return Forecast(
        wanted=wanted,
        widths=tuple(found),
        toys_per_block=together,
        blocks=blocks,
        grid_seconds=grid_seconds,
        scan_seconds=scan_seconds,
        seconds=sum(w.prepare_seconds + rounds * w.block_seconds for w in found)
        + grid_seconds
        + rounds * scan_seconds,
        memory=max(*(w.memory for w in found), _held(wanted, settings) + scan_memory),
        disk=int(1.1 * 8 * blocks * together * columns * wanted.batches),
    )


def _at_width(
    wanted: Wanted, learner: Learner, trials: Sequence[int], width: float, together: int
) -> AtWidth:
    """Time one width with so many rows of the reference in each trial."""
    settings, rows = learner.settings, wanted.n_reference
    candidates, itemsize = len(learner.candidates), np.dtype(settings.precision).itemsize
    begun = time.perf_counter()
    centres = reduce_centres(learner.candidates, width, learner.penalty, memory=settings.memory)
    prepare_seconds, rank = time.perf_counter() - begun, centres.rank
    held = _held(wanted, settings)
    stored = rows_are_stored(rows, rank, candidates, itemsize, settings.memory - held)
    made, seconds = _features(wanted, learner, trials, centres, width, stored=stored)
    prepare_seconds += seconds
    each = wanted.expected / wanted.batches
    sizes = [int(each + 5 * math.sqrt(each))] * (together * wanted.batches)
    features_bytes = held + 2 * 8 * rank**2 + (rows * rank * itemsize if stored else 0)
    room = settings.memory - features_bytes + made[0].nbytes
    data_stored = settings.one_step or rows_fit(made[0], sizes, room)
    passes = _block(made[0], settings, 1, min(4, len(sizes)), data_stored=data_stored)
    # A tolerance that is never reached: the same number of passes in both trials.
    forced = settings.changed(max_passes=passes, tolerance=1e-300)
    times = []
    with thread_workers() as executor:
        for features in made:
            begun = time.perf_counter()
            if stored:
                for done in [
                    executor.submit(
                        _block, features, forced, together, wanted.batches, data_stored=data_stored
                    )
                    for _ in range(cores())
                ]:
                    done.result()
                times.append(time.perf_counter() - begun)
            else:  # all threads share each block
                _block(features, forced, together, wanted.batches, data_stored=data_stored)
                times.append(cores() * (time.perf_counter() - begun))
    return AtWidth(
        width=width,
        rank=rank,
        stored=stored,
        data_stored=data_stored,
        passes=passes,
        prepare_seconds=prepare_seconds,
        block_seconds=_drawn_out(trials, times, rows),
        memory=max(
            features_bytes + fit_bytes(made[0], sizes, stored=data_stored),
            held + prepare_bytes(rows, rank, candidates, itemsize, stored=stored),
        ),
    )


def _held(wanted: Wanted, settings: Settings) -> int:
    """Bytes of a reference in memory; large ones are on disk, as the commands have it."""
    size = 8 * wanted.n_reference * wanted.dims
    return size if size <= settings.memory // 2 else 0


def _features(
    wanted: Wanted,
    learner: Learner,
    trials: Sequence[int],
    centres: Centres,
    width: float,
    *,
    stored: bool,
) -> tuple[list[Features], float]:
    """Make the features of each trial; tell how long those of the wanted size would take."""
    rows, most = wanted.n_reference, gram_rows(centres.rank)
    gram_seconds = 0.0
    if not stored:
        # A part of the reference is enough for this, so it does not grow with the rest.
        part = learner.reference[:most]
        begun = time.perf_counter()
        gram_of_part(part, centres, width)
        gram_seconds = (time.perf_counter() - begun) / len(part)
    made, rest = [], []
    for size in trials:
        begun = time.perf_counter()
        made.append(
            features_of(
                learner.reference[:size],
                centres,
                width,
                penalty=learner.penalty * rows / size,
                expected=wanted.expected / wanted.batches * size / rows,
                precision=learner.settings.precision,
                stored=stored,
            )
        )
        spent = time.perf_counter() - begun
        rest.append(max(0.0, spent - gram_seconds * min(size, most)))
    return made, gram_seconds * min(rows, most) + _drawn_out(trials, rest, rows)


def _scan(wanted: Wanted, reference: Floats, together: int) -> tuple[float, float, int]:
    """Time a grid and the scan of one toy; both grow with the events alone: one trial is enough.

    Returns the seconds of the grid and of a block, and the bytes of both together.
    """
    rng = np.random.default_rng(together)
    begun = time.perf_counter()
    grid = ScanGrid.choose(reference, wanted.expected, rng)
    chosen = (time.perf_counter() - begun) / grid.rows
    size = max(1, int(min(wanted.expected, SCANNED) / wanted.batches))
    toy = [rng.normal(size=(size, wanted.dims)) for _ in range(wanted.batches)]
    begun = time.perf_counter()
    scan_set(grid, toy, np.full(wanted.batches, wanted.expected / wanted.batches))
    looked = (time.perf_counter() - begun) / (size * wanted.batches)
    rows = min(wanted.n_reference, rows_looked_at(wanted.expected))
    events = wanted.expected * together
    return chosen * rows, looked * events, sum(scan_bytes(grid, int(events)))


def _block(
    features: Features, settings: Settings, toys: int, batches: int, *, data_stored: bool
) -> int:
    """Make one block; tell how many passes over the reference it took."""
    rng = np.random.default_rng(toys)
    sizes = rng.poisson(features.expected, toys * batches)
    data = [rng.normal(size=(size, features.centres.shape[1])) for size in sizes]
    memory = features.nbytes + fit_bytes(features, sizes.tolist()) - (not data_stored)
    expected = np.full(batches, features.expected)
    _, done = statistics_of(features, data, expected, settings.changed(memory=memory))
    return int(done.passes.max())


def _drawn_out(at: Sequence[int], seconds: Sequence[float], rows: int) -> float:
    """Draw a line through one or two times out to so many rows; never below the last one."""
    if len(at) == 1:
        return seconds[0]
    slope = max(0.0, (seconds[1] - seconds[0]) / (at[1] - at[0]))
    return max(seconds[1], seconds[1] + slope * (rows - at[1]))
