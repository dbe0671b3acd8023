"""The farm: toys in fixed blocks, through any executor, into a file that can be resumed.

A block is a fixed set of toys, each seeded by its own number. Which worker computes a block, when,
or how often, changes no bit of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import InputError, StoppedError
from gofstream.ratio.features import Features
from gofstream.ratio.learner import Learner
from gofstream.ratio.solver import Fit, fit
from gofstream.sample import Sample
from gofstream.toys.growing import growing_statistics
from gofstream.toys.sources import Source, toy_rng

Floats = NDArray[np.float64]

#: Fits in a block: wide enough for fast products, small enough to lose little when killed.
FITS_PER_BLOCK = 32


class Sink(Protocol):
    """Where blocks are kept: a null file, for one."""

    def blocks(self) -> set[tuple[int, int]]:
        """Tell which (width, block) are there."""
        ...

    def put(self, width: int, block: int, t: Floats, unconverged: int) -> None:
        """Keep one block, for good once this returns."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What toys to make: everything that decides their numbers.

    Attributes
    ----------
    learner : the prepared reference.
    source : where events come from.
    source_name : what to call it in the file; give another source another name.
    expected : (N_b,) N_i(R).
    seed, stream : with the number of a toy, its seed.
    shape_only : the sizes of batches are held at ``expected``, which then are those observed.
    """

    learner: Learner
    source: Source
    source_name: str
    expected: Floats
    seed: int
    stream: str = "null"
    shape_only: bool = False

    def __post_init__(self) -> None:
        """Refuse what the farm cannot repeat in every toy yet."""
        if self.learner.settings.data_dependent:
            raise InputError(
                "toys for settings that take centres from the data (`centres_from`, `cover`) "
                "have to choose their own centres, which the farm cannot do yet; use centres from "
                "the reference"
            )

    @property
    def toys_per_block(self) -> int:
        """Toys computed together."""
        return max(1, FITS_PER_BLOCK // len(self.expected))

    def about(self) -> dict[str, Any]:
        """Describe the plan, for the file."""
        learner = self.learner
        # The memory budget does not change a number.
        settings = learner.settings.model_dump(mode="json", exclude={"memory"})
        return {
            "reference": learner.digest,
            "settings": settings,
            "centres": hashlib.sha256(learner.candidates.tobytes()).hexdigest(),
            "penalty": learner.penalty,
            "widths": list(learner.widths),
            "nominal_expected": learner.expected,
            "expected": self.expected.tolist(),
            "source": self.source_name,
            "seed": self.seed,
            "stream": self.stream,
            "shape_only": self.shape_only,
            "toys_per_block": self.toys_per_block,
        }


def compute_block(plan: Plan, features: Features, block: int) -> tuple[Floats, int]:
    """Make one block of toys at one width: (toys, 6, N_b), and how many fits did not converge."""
    scaling = plan.learner.scaling
    first = block * plan.toys_per_block
    batches: list[Floats] = []
    for toy in range(first, first + plan.toys_per_block):
        rng = toy_rng(plan.seed, plan.stream, toy)
        drawn = plan.source.draw(plan.expected, rng, fixed=plan.shape_only)
        sample = Sample.from_array(
            np.concatenate(drawn), scaling.columns, periodic=scaling.periodic, name=f"toy {toy}"
        )
        ends = np.cumsum([len(events) for events in drawn])
        batches += np.split(scaling.apply(sample), ends[:-1])
    t, done = statistics_of(plan, features, batches)
    return t, 0 if plan.learner.settings.one_step else int(np.count_nonzero(~done.converged))


def statistics_of(plan: Plan, features: Features, batches: list[Floats]) -> tuple[Floats, Fit]:
    """Fit whole data sets, one after another, and give their statistics: (sets, 6, N_b).

    Data go the same way as toys: only the rounding of a block of another size differs.
    """
    settings = plan.learner.settings
    done = fit(
        features,
        batches,
        np.tile(plan.expected, len(batches) // len(plan.expected)),
        one_step=settings.one_step,
        tolerance=settings.tolerance,
        max_passes=settings.max_passes,
        memory=settings.memory,
    )
    return growing_statistics(features, done, plan.expected, settings.shrink), done


def run(
    plan: Plan,
    toys: int,
    sink: Sink,
    executor: Executor,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Make what is missing of ``toys`` toys.

    Parameters
    ----------
    sink : where blocks go; those it already holds are not made again.
    executor : runs the blocks.
    progress : called with the number of blocks done and wanted.

    Raises
    ------
    StoppedError
        On Ctrl-C; the blocks that were done are kept.
    """
    per_width = range(-(-toys // plan.toys_per_block))
    wanted = [(w, b) for w in range(len(plan.learner.widths)) for b in per_width]
    there = sink.blocks()
    done = sum(item in there for item in wanted)
    progress(done, len(wanted))
    try:
        for width, sigma in enumerate(plan.learner.widths):
            missing = [b for b in per_width if (width, b) not in there]
            if not missing:
                continue
            features = plan.learner.features(sigma)
            for block, (t, unconverged) in _as_done(plan, features, missing, executor):
                sink.put(width, block, t, unconverged)
                done += 1
                progress(done, len(wanted))
    except KeyboardInterrupt as stop:
        raise StoppedError(
            f"stopped with {done} of {len(wanted)} blocks of toys done and kept; the same call, "
            "with the same file, goes on from there"
        ) from stop


def _as_done(
    plan: Plan, features: Features, blocks: Iterable[int], executor: Executor
) -> Iterator[tuple[int, tuple[Floats, int]]]:
    """Yield blocks in the order in which they are done; drop those not begun when stopped."""
    futures = {executor.submit(compute_block, plan, features, block): block for block in blocks}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()
