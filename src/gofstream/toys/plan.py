"""Plans: what toys to make, and how a data set becomes statistics, for data as for toys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import InputError
from gofstream.ratio.features import Features
from gofstream.ratio.labels import Labels
from gofstream.ratio.learner import Learner
from gofstream.ratio.model import LogRatio
from gofstream.ratio.solver import Fit, block_bytes, fit
from gofstream.sample import Sample
from gofstream.scan.grid import RULE, ScanGrid
from gofstream.settings import Settings
from gofstream.toys.growing import growing_statistics
from gofstream.toys.matching import match_source
from gofstream.toys.scanning import SCAN, Scanned, ScanPass, scan_bytes, scan_set, scan_sets
from gofstream.toys.sources import Source, refuse_training_rows, toy_rng

Floats = NDArray[np.float64]

#: Fits in a block: wide enough for fast products, small enough to lose little when killed.
FITS_PER_BLOCK = 32
#: Numbers in the data rows of a block, were all candidate centres kept: a few gigabytes at most.
VALUES_PER_BLOCK = 512 * 1024**2
#: Events in a block, and fits, where not even the rows of one toy can be kept: then they are made
#: in every pass, as those of the reference are, and what matters is that many fits share these.
EVENTS_PER_BLOCK, LARGE_FITS_PER_BLOCK = 8_000_000, 64


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """The statistics of one data set at one width, what was learnt, and how its fits went.

    Attributes
    ----------
    t : (6, N_b) every statistic after every number of batches.
    models : what each batch taught.
    uncovered : (N_b,) events of each batch that no centre can see.
    passes : (N_b,) passes over the reference that its fit took.
    """

    t: Floats
    models: tuple[LogRatio, ...]
    uncovered: NDArray[np.int64]
    passes: NDArray[np.int64]

    @classmethod
    def of(cls, plan: Plan, features: Features, t: Floats, done: Fit) -> Observed:
        """Keep what one data set gave."""
        models = plan.learner.models(features, done, plan.expected.tolist())
        return cls(t[0], models, done.uncovered, done.passes)


class Blocks(Protocol):
    """What the farm needs to know: a number of blocks in each pass, each always the same.

    A block is a fixed set of toys, each seeded by its own number. Which worker computes a block,
    when, or how often, changes no bit of it.
    """

    @property
    def learner(self) -> Learner:
        """The prepared sample."""
        ...

    @property
    def passes(self) -> tuple[float | ScanPass, ...]:
        """What is done with all toys in turn: a fit at each width, and the scan."""
        ...

    @property
    def toys_per_block(self) -> int:
        """Toys computed together."""
        ...

    def about(self) -> dict[str, Any]:
        """Describe everything that decides a number, for the file."""
        ...

    def shared(self, which: Any) -> Any:
        """Make what all blocks of a pass share."""
        ...

    def memory(self, shared: Any) -> tuple[int, int]:
        """Bytes that are shared, and bytes that one block takes beyond."""
        ...

    def block(self, shared: Any, which: Any, index: int) -> tuple[Floats, int]:
        """Make one block: t as (toys, statistics, N_b), and how many fits did not converge."""
        ...


class Plan(Blocks, Protocol):
    """Blocks of toys that data can be compared with."""

    @property
    def expected(self) -> Floats:
        """(N_b,) N_i(R)."""
        ...

    @property
    def source_name(self) -> str:
        """Where the toys come from, in words."""
        ...

    @property
    def shape_only(self) -> bool:
        """Whether the sizes of batches are held at ``expected``."""
        ...

    def observe(self, shared: Any, width: float, batches: Sequence[Sample]) -> Observed:
        """Compute the statistics of data, in the same way: t as (6, N_b)."""
        ...

    def scan(self, grid: ScanGrid, batches: Sequence[Sample]) -> Scanned:
        """Scan data, in the same way."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ReferencePlan:
    """Toys against a fixed reference.

    Attributes
    ----------
    learner : the prepared reference.
    source : where events come from.
    source_name : what to call it in the file; give another source another name.
    expected : (N_b,) N_i(R).
    seed, stream : with the number of a toy, its seed.
    shape_only : the sizes of batches are held at ``expected``, which then are those observed.
    with_scan : whether toys are scanned too; the paper's experiments know no scan. The other
        statistics do not depend on it, and a file serves both.
    split_from : digest of the sample that was split into reference and pool, if one was.
    """

    learner: Learner
    source: Source
    source_name: str
    expected: Floats
    seed: int
    stream: str = "null"
    shape_only: bool = False
    with_scan: bool = True
    split_from: str = ""

    def __post_init__(self) -> None:
        """Match the columns of pools with those of the reference."""
        object.__setattr__(self, "source", match_source(self.source, self.learner.sample))

    @property
    def passes(self) -> tuple[float | ScanPass, ...]:
        """What is done with all toys in turn."""
        widths = self.learner.widths
        return (*widths, self._scan) if self.with_scan else widths

    @property
    def toys_per_block(self) -> int:
        """Toys computed together."""
        one_step = self.learner.settings.one_step
        return toys_in_a_block(self.expected, self.learner, stored=one_step)

    def about(self) -> dict[str, Any]:
        """Describe everything that decides a number, for the file."""
        return self.learner.about() | {
            "expected": self.expected.tolist(),
            "source": self.source_name,
            "seed": self.seed,
            "stream": self.stream,
            "shape_only": self.shape_only,
            "toys_per_block": self.toys_per_block,
            "first_toy": self._first_toy(),
            **({SCAN: RULE} if self.with_scan else {}),
            **({"split_from": self.split_from} if self.split_from else {}),
        }

    def shared(self, which: float | ScanPass) -> Any:
        """Make the grid, or the features, unless every toy has to choose its own centres."""
        if isinstance(which, ScanPass):
            return which.grid(self.learner)
        return None if self.learner.waiting else self.learner.features(which)

    def memory(self, shared: Features | ScanGrid | None) -> tuple[int, int]:
        """Bytes that are shared, and bytes that one block takes beyond."""
        if isinstance(shared, ScanGrid):
            return scan_bytes(shared, int(self.toys_per_block * self.expected.sum()))
        if shared is None:  # `features` keeps to the budget, for one toy at a time
            return 0, self.learner.settings.memory
        settings, expected = self.learner.settings, np.tile(self.expected, self.toys_per_block)
        return shared.nbytes, block_bytes(
            shared, expected, settings.memory, one_step=settings.one_step
        )

    def block(self, shared: Any, which: float | ScanPass, index: int) -> tuple[Floats, int]:
        """Draw the toys of a block, and compute their statistics."""
        first = index * self.toys_per_block
        toys = {
            n: draw_toy(
                self.learner,
                self.source,
                self.expected,
                (self.seed, self.stream, n),
                fixed=self.shape_only,
            )
            for n in range(first, first + self.toys_per_block)
        }
        if index == 0:
            refuse_training_rows(np.concatenate(toys[0]), self.learner.reference)
        if isinstance(which, ScanPass):
            return scan_sets(shared, toys.values(), self.expected), 0
        if shared is not None:
            together = [batch for toy in toys.values() for batch in toy]
            return counted(self.learner.settings, *self._statistics(shared, together))
        parts = []
        for n, batches in toys.items():
            own = self._own_features(batches, which, self.stream, n)
            parts.append(counted(self.learner.settings, *self._statistics(own, batches)))
        return np.concatenate([t for t, _ in parts]), sum(missed for _, missed in parts)

    def observe(self, shared: Features | None, width: float, batches: Sequence[Sample]) -> Observed:
        """Compute the statistics of data; only the rounding of a block of another size differs."""
        events = self.learner.scaled(batches)
        features = self._own_features(events, width, "data", 0) if shared is None else shared
        return Observed.of(self, features, *self._statistics(features, events))

    def scan(self, grid: ScanGrid, batches: Sequence[Sample]) -> Scanned:
        """Scan data with the grid of the toys."""
        found = scan_set(grid, self.learner.scaled(batches), self.expected)
        return found.located(self.learner, batches, self.learner.sample)

    def _first_toy(self) -> str:
        rng = toy_rng(self.seed, self.stream, 0)
        return events_digest(self.source.draw(self.expected, rng, fixed=self.shape_only))

    @property
    def _scan(self) -> ScanPass:
        return ScanPass(float(self.expected.sum()), self.seed, self.shape_only)

    def _own_features(
        self, batches: Sequence[Floats], width: float, stream: str, toy: int
    ) -> Features:
        """Make the features of a data set that chooses its own centres."""
        rng = toy_rng(self.seed, f"{stream}: centres", toy)
        return self.learner.centred_on(batches, rng).features(width)

    def _statistics(self, features: Features, batches: Sequence[Floats]) -> tuple[Floats, Fit]:
        return statistics_of(features, batches, self.expected, self.learner.settings)


def events_digest(batches: Sequence[Floats]) -> str:
    """Digest the events of a toy: it tells a simulator from another, whatever they are called."""
    sha = hashlib.sha256(json.dumps([batch.shape for batch in batches]).encode())
    for batch in batches:
        sha.update((np.ascontiguousarray(batch, dtype="<f8") + 0.0).tobytes())
    return sha.hexdigest()


def draw_toy(
    learner: Learner,
    source: Source,
    expected: Floats,
    which: tuple[int, str, int],
    *,
    fixed: bool = False,
) -> list[Floats]:
    """Draw the batches of one toy, named by (seed, stream, number), in scaled units."""
    scaling, name = learner.scaling, f"toy {which[2]}"
    drawn = source.draw(expected, toy_rng(*which), fixed=fixed)
    events = np.concatenate(drawn)
    whole = Sample.from_array(events, scaling.columns, periodic=scaling.periodic, name=name)
    ends = np.cumsum([len(batch) for batch in drawn])
    return np.split(scaling.apply(whole), ends[:-1])


def statistics_of(
    features: Features, batches: Sequence[Floats] | Labels, expected: Floats, settings: Settings
) -> tuple[Floats, Fit]:
    """Fit whole data sets, one after another, and give their statistics: (sets, 6, N_b)."""
    done = fit(
        features,
        batches,
        np.tile(expected, len(batches) // len(expected)),
        one_step=settings.one_step,
        tolerance=settings.tolerance,
        max_passes=settings.max_passes,
        memory=settings.memory,
    )
    return growing_statistics(features, done, expected, settings.shrink), done


def counted(settings: Settings, t: Floats, done: Fit) -> tuple[Floats, int]:
    """Give t with the number of fits that did not converge; a single step never does."""
    return t, 0 if settings.one_step else int(np.count_nonzero(~done.converged))


def toys_in_a_block(expected: Floats, learner: Learner, *, stored: bool) -> int:
    """Count the toys that make about `FITS_PER_BLOCK` fits, or fewer where these would be huge.

    The user's memory budget does not enter: the same table must come from any machine. With
    ``stored``, fits need the rows of their data stored.
    """
    events = max(1.0, float(expected.sum()))
    fits, fitting = FITS_PER_BLOCK, VALUES_PER_BLOCK / (events * len(learner.candidates))
    if fitting < 1 and not stored:
        fits, fitting = LARGE_FITS_PER_BLOCK, EVENTS_PER_BLOCK / events
    return max(1, min(fits // len(expected), int(fitting)))


def check_sizes(plan: Plan, batches: Sequence[Sample]) -> None:
    """Refuse data that are not of the planned number or, for shape alone, of the planned sizes.

    Raises
    ------
    InputError
        With both numbers.
    """
    planned = plan.expected.astype(int).tolist()
    sizes = [len(batch) for batch in batches]
    if len(sizes) != len(planned):
        raise InputError(f"calibrated for {len(planned)} batches, but {len(sizes)} given")
    if plan.shape_only and sizes != planned:
        raise InputError(
            "a test of shape alone holds the sizes of batches: calibrated for "
            f"{planned}, but {sizes} given; calibrate for these"
        )
