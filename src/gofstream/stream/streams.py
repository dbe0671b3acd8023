"""Null streams: what `Track` would give on streams that follow the reference, made in blocks.

A stream is K + H batches of the nominal exposure. The first K fill the window, then an epoch of H
begins: what a monitor meets at the start of any epoch but the first of a run. There the window is
not watched until it is full, and the rest is the same; so an epoch's largest value is never larger
in law than here, and a boundary for these streams holds for both.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import InputError, SettingsError
from gofstream.inference.null import NullFile, NullTable
from gofstream.inference.scale import FAMILIES
from gofstream.inference.sequential import Boundary
from gofstream.ratio.features import Features
from gofstream.ratio.learner import Learner
from gofstream.ratio.solver import block_bytes, fit
from gofstream.stream.steps import stream_statistics
from gofstream.toys.farm import Job, run
from gofstream.toys.matching import match_source
from gofstream.toys.plan import draw_toy, events_digest
from gofstream.toys.sources import Pool, Source, refuse_training_rows, toy_rng

Floats = NDArray[np.float64]

#: Fits that the solver takes at a time.
FITS_AT_ONCE = 64


@dataclass(frozen=True, slots=True, eq=False)
class StreamPlan:
    """Streams of batches of the nominal exposure, against a fixed reference.

    Attributes
    ----------
    learner : the prepared reference.
    source : where events come from.
    source_name : what to call it in the file; give another source another name.
    seed, stream : with the number of a stream, its seed.
    epoch, window : H and K, in batches.
    """

    learner: Learner
    source: Source
    source_name: str
    seed: int
    stream: str = "stream A"
    epoch: int = 100
    window: int = 20

    def __post_init__(self) -> None:
        """Match the columns of pools with those of the reference."""
        object.__setattr__(self, "source", match_source(self.source, self.learner.sample))

    @property
    def expected(self) -> Floats:
        """N(R) of every batch, those that fill the window first."""
        return np.full(self.window + self.epoch, self.learner.expected)

    @property
    def passes(self) -> tuple[float, ...]:
        """What is done with all streams in turn: a fit at each width."""
        return self.learner.widths

    @property
    def toys_per_block(self) -> int:
        """Streams computed together."""
        return max(1, FITS_AT_ONCE // (self.window + self.epoch))

    def about(self) -> dict[str, Any]:
        """Describe everything that decides a number, for the file."""
        return self.learner.about() | {
            "statistics": list(FAMILIES),
            "expected": self.expected[self.window :].tolist(),
            "window": self.window,
            "source": self.source_name,
            "seed": self.seed,
            "stream": self.stream,
            "toys_per_block": self.toys_per_block,
            "first_toy": events_digest(
                self.source.draw(self.expected, toy_rng(self.seed, self.stream, 0))
            ),
        }

    def check(self) -> None:
        """Refuse what cannot be calibrated.

        Raises
        ------
        InputError
            If a pool is too small for a stream, all of whose events differ.
        SettingsError
            If centres look at data: batches that are gone cannot be learnt again with others.
        """
        if self.epoch < 1 or self.window < 1:
            raise SettingsError(
                f"epoch is {self.epoch} and window is {self.window} batches; both need one"
            )
        refuse_for_streams(self.learner)
        if isinstance(self.source, Pool):
            try:
                self.source.check(float(self.expected.sum()))
            except InputError as error:
                raise InputError(
                    f"{error}; or watch fewer batches at a time: a stream is a window of "
                    f"{self.window} and an epoch of {self.epoch} batches"
                ) from error

    def shared(self, width: float) -> Features:
        """Make the features."""
        return self.learner.features(width)

    def memory(self, shared: Features) -> tuple[int, int]:
        """Bytes that are shared, and bytes that one block takes beyond."""
        settings, expected = self.learner.settings, np.tile(self.expected, self.toys_per_block)
        return shared.nbytes, block_bytes(
            shared, expected, settings.memory, one_step=settings.one_step
        )

    def block(self, shared: Features, width: float, index: int) -> tuple[Floats, int]:
        """Draw the streams of a block, and compute their statistics: (streams, 4, H)."""
        size, settings, parts, missed = self.toys_per_block, self.learner.settings, [], 0
        for number in range(index * size, (index + 1) * size):
            stream = draw_toy(
                self.learner, self.source, self.expected, (self.seed, self.stream, number)
            )
            if number == 0:
                refuse_training_rows(np.concatenate(stream), self.learner.reference)
            parts.append(stream)
        fits = []
        for batches in _parts([batch for stream in parts for batch in stream]):
            done = fit(
                shared,
                batches,
                np.full(len(batches), self.learner.expected),
                one_step=settings.one_step,
                tolerance=settings.tolerance,
                max_passes=settings.max_passes,
                memory=settings.memory,
            )
            missed += 0 if settings.one_step else int(np.count_nonzero(~done.converged))
            fits.append(done)
        expected = self.learner.expected
        t = stream_statistics(shared, fits, expected, self.epoch, self.window, settings.shrink)
        return t, missed


def refuse_for_streams(learner: Learner) -> None:
    """Refuse centres that look at data, as batches that are gone cannot be learnt again; devices.

    Raises
    ------
    SettingsError
        It says which settings ask for them.
    """
    learner.settings.refuse_devices("a stream")
    if learner.waiting:
        raise SettingsError(
            "these settings take centres from the data (`centres_from` or `cover`), but a stream "
            "is learnt batch by batch with the same centres; take them from the reference"
        )


def calibrate_alarms(
    plan: StreamPlan,
    alpha: float,
    folder: Path,
    executor: Executor,
    *,
    streams_a: int = 500,
    streams_b: int = 1000,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Boundary:
    """Make what a folder lacks of the streams A and B, and find the boundary.

    Parameters
    ----------
    plan : what streams.
    alpha : the probability, at most, that an epoch of nominal batches alarms (see `alpha_for`).
    folder : made if it does not exist; its files ``a.null`` and ``b.null`` hold the streams.
    executor : runs the blocks.
    streams_a, streams_b : how many, for the scale and for the boundary.
    progress : called with the number of blocks done and wanted, first of A and then of B.

    Raises
    ------
    InputError, SettingsError, FormatError, StoppedError
        As `null_streams` does; and if the streams are too few for this α.
    """
    folder.mkdir(parents=True, exist_ok=True)
    a, b = (
        null_streams(
            replace(plan, stream=f"stream {name.upper()}"),
            count,
            folder / f"{name}.null",
            executor,
            progress=progress,
        )
        for name, count in (("a", streams_a), ("b", streams_b))
    )
    return Boundary.learn(a.t, b.t, alpha, plan.about())


def null_streams(
    plan: StreamPlan,
    streams: int,
    path: Path,
    executor: Executor,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> NullTable:
    """Make what the file lacks of so many streams, and read them.

    Parameters
    ----------
    plan : what streams.
    streams : how many.
    path : the null file.
    executor : runs the blocks.
    progress : called with the number of blocks done and wanted.

    Raises
    ------
    InputError, SettingsError
        If the plan cannot be calibrated: a pool too small, say.
    FormatError
        If the file was made with another plan; it says what differs.
    StoppedError
        On Ctrl-C, when a worker dies or the disk is full; the same call goes on from there.

    Examples
    --------
    >>> import tempfile
    >>> from gofstream.execution import thread_workers
    >>> from gofstream.sample import Sample
    >>> from gofstream.settings import Settings
    >>> from gofstream.toys.sources import Simulator
    >>> def nominal(n, rng):
    ...     return rng.exponential(size=(n, 1))
    >>> rng = np.random.default_rng(1)
    >>> settings = Settings(widths=(0.7,), n_centres=30)
    >>> learner = Learner.prepare(
    ...     Sample.from_array(nominal(2000, rng)), settings, expected=50.0, rng=rng
    ... )
    >>> plan = StreamPlan(learner, Simulator(nominal), "exponential", 1, "stream A", 6, 2)
    >>> with tempfile.TemporaryDirectory() as folder, thread_workers(1) as executor:
    ...     null_streams(plan, 3, Path(folder) / "a.null", executor).t.shape
    (3, 4, 1, 6)
    """
    plan.check()
    file = NullFile(path, plan.about())
    run([Job(plan, streams, file)], executor, progress=progress)
    return file.load(streams)


def _parts(batches: list[Floats]) -> list[list[Floats]]:
    """Cut a list into parts of nearly equal length that the solver takes at a time."""
    count = -(-len(batches) // FITS_AT_ONCE)
    ends = [len(batches) * k // count for k in range(count + 1)]
    return [batches[i:j] for i, j in itertools.pairwise(ends)]
