"""Toys by permuting labels: when there is a reference, data, and nothing else.

Data and reference are pooled; a toy deals the pooled events out anew, as many to each batch as were
observed. Everything that is decided once (scaling, widths, centres) looks at the pooled events and
not at their labels, so under the null the observed labels are as good as any others. That holds
for unweighted events and for the shape only: the numbers of events are fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.checks import check_data, check_reference, match_batches
from gofstream.errors import InputError, MemoryBudgetError
from gofstream.ratio.centres import uncovered
from gofstream.ratio.features import STORED, Features
from gofstream.ratio.labels import Labels
from gofstream.ratio.learner import Learner
from gofstream.ratio.solver import Fit, fit_bytes
from gofstream.sample import Events, Sample, as_sample
from gofstream.scan.grid import RULE, ScanGrid
from gofstream.settings import Settings
from gofstream.toys.plan import (
    Observed,
    counted,
    statistics_of,
    toys_in_a_block,
)
from gofstream.toys.scanning import SCAN, Scanned, ScanPass, scan_bytes, scan_set, scan_sets
from gofstream.toys.sources import toy_rng

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
#: The features of the pooled events, and which of these no centre can see.
Shared = tuple[Features, NDArray[np.bool_]]


@dataclass(frozen=True, slots=True, eq=False)
class PermutationPlan:
    """Toys that deal the pooled events out anew. Make one with `PermutationPlan.pool`.

    Attributes
    ----------
    learner : prepared on the pooled events: those of the reference, then those of each batch.
    expected : (N_b,) the sizes of the batches.
    data_digest : of the data that were pooled; only those can be tested.
    seed, stream : with the number of a toy, its seed.
    """

    learner: Learner
    expected: Floats
    data_digest: str
    seed: int
    stream: str = "null"

    source_name = "permuted labels"
    shape_only = True

    @classmethod
    def pool(
        cls,
        reference: Events,
        batches: Sequence[Events],
        settings: Settings,
        *,
        seed: int,
        rng: np.random.Generator,
    ) -> PermutationPlan:
        """Pool reference and data, and decide everything that is decided once.

        Raises
        ------
        InputError
            For a weighted reference, or for settings whose centres look at labels.
        """
        reference = as_sample(reference, "reference")
        if reference.weights is not None:
            raise InputError(
                f"the reference {reference.name!r} is weighted: its events cannot change places "
                "with data; give a simulator or a pool of nominal events"
            )
        if settings.data_dependent:
            raise InputError(
                "permutation takes centres from reference and data pooled already, and centres "
                "that know which are data (`centres_from`, `cover`) would undo that; leave both "
                "settings alone"
            )
        settings.refuse_devices("permutation")
        check_reference(reference)
        matched = check_data(batches, reference)
        pooled = Sample.from_array(
            np.concatenate([reference.values, *(batch.values for batch in matched)]),
            reference.columns,
            periodic=reference.periodic,
            name=f"{reference.name} and data",
        )
        sizes = np.array([len(batch) for batch in matched], dtype=np.float64)
        if not sizes.all():
            raise InputError(
                f"batch {int(sizes.argmin()) + 1} has no events: the shape of nothing cannot be "
                "tested; leave the batch out"
            )
        learner = Learner.prepare(pooled, settings, expected=float(sizes.mean()), rng=rng)
        return cls(learner, sizes, data_digest(matched), seed)

    @property
    def passes(self) -> tuple[float | ScanPass, ...]:
        """What is done with all toys in turn."""
        return (*self.learner.widths, self._scan)

    @property
    def _scan(self) -> ScanPass:
        return ScanPass(float(self.expected.sum()), self.seed, shape_only=True)

    @property
    def toys_per_block(self) -> int:
        """Toys computed together."""
        return toys_in_a_block(self.expected, self.learner, stored=True)

    def about(self) -> dict[str, Any]:
        """Describe everything that decides a number, for the file."""
        return self.learner.about() | {
            "data": self.data_digest,
            "expected": self.expected.tolist(),
            "source": self.source_name,
            "seed": self.seed,
            "stream": self.stream,
            "shape_only": True,
            "toys_per_block": self.toys_per_block,
            SCAN: RULE,
        }

    def shared(self, which: float | ScanPass) -> Any:
        """Make the features of all pooled events, or their grid: labels do not enter."""
        return self._grid() if isinstance(which, ScanPass) else self._features(which)

    def _grid(self) -> ScanGrid:
        # Means over the pooled events stand for those over the reference: labels do not enter. For
        # the same reason no e-value comes of it without permutations.
        return replace(self._scan.grid(self.learner), safe_drift=None)

    def _features(self, width: float) -> Shared:
        features = self.learner.features(width)
        if features.made is not None:  # labels are dealt to rows, which therefore have to be there
            needed = features.n_reference * features.rank * np.dtype(features.precision).itemsize
            raise MemoryBudgetError(
                int(needed / STORED),
                self.learner.settings.memory,
                f"permutation of {features.n_reference} events at rank {features.rank} (width "
                f"{width:g})",
                "give a simulator or a pool of nominal events, which need less",
            )
        return features, uncovered(self.learner.reference, features.centres, width)

    def memory(self, shared: Shared | ScanGrid) -> tuple[int, int]:
        """Bytes that are shared, and bytes that one block takes beyond: its fits and labels."""
        if isinstance(shared, ScanGrid):
            return scan_bytes(shared, int(self.toys_per_block * self.expected.sum()))
        features, _ = shared
        sizes = self.expected.astype(int).tolist() * self.toys_per_block
        labels = 2 * features.dtype.itemsize * features.n_reference * len(sizes)
        return features.nbytes, fit_bytes(features, sizes) + labels

    def block(self, shared: Any, which: float | ScanPass, index: int) -> tuple[Floats, int]:
        """Deal the events out anew for each toy, and compute its statistics."""
        first = index * self.toys_per_block
        orders = [
            toy_rng(self.seed, self.stream, toy).permutation(len(self.learner.reference))
            for toy in range(first, first + self.toys_per_block)
        ]
        if isinstance(which, ScanPass):
            return scan_sets(shared, map(self._dealt, orders), self.expected), 0
        return counted(self.learner.settings, *self._statistics(shared, orders))

    def observe(self, shared: Shared, width: float, batches: Sequence[Sample]) -> Observed:
        """Compute the statistics of the data that were pooled.

        Raises
        ------
        InputError
            If other data are given.
        """
        return Observed.of(self, shared[0], *self._statistics(shared, [self._order(batches)]))

    def scan(self, grid: ScanGrid, batches: Sequence[Sample]) -> Scanned:
        """Scan the data that were pooled.

        Raises
        ------
        InputError
            If other data are given.
        """
        order = self._order(batches)
        # What lies in a region is counted as anybody would: data here, the reference there.
        reference = self.learner.sample.take(slice(0, len(order) - int(self.expected.sum())))
        found = scan_set(grid, self._dealt(order), self.expected)
        return found.located(self.learner, batches, reference)

    def _dealt(self, order: Indices) -> list[Floats]:
        """Give the events of each batch: the first of an order, one batch after another."""
        ends = np.cumsum(self.expected).astype(np.int64)
        return np.split(self.learner.reference[order[: ends[-1]]], ends[:-1])

    def _order(self, batches: Sequence[Sample]) -> Indices:
        """Put the pooled events in the order of the data, after checking that they are those."""
        matched = match_batches(batches, self.learner.sample)
        if data_digest(matched) != self.data_digest:
            raise InputError(
                "permuted labels calibrate the data that were pooled with the reference, and no "
                "others; make a new plan for these"
            )
        count = len(self.learner.reference)
        n_data = int(self.expected.sum())
        # Data first, as in a toy.
        return np.concatenate([np.arange(count - n_data, count), np.arange(count - n_data)])

    def _statistics(self, shared: Shared, orders: Sequence[Indices]) -> tuple[Floats, Fit]:
        """Give the first events of each order to the batches, and the rest to the reference."""
        features, far = shared
        ends = np.cumsum(self.expected).astype(np.int64)
        dealt = [np.split(order[: ends[-1]], ends[:-1]) for order in orders]
        labels = Labels.deal(features, far, dealt)
        return statistics_of(features, labels, self.expected, self.learner.settings)


def data_digest(batches: Sequence[Sample]) -> str:
    """Name the data by what they are, batch by batch."""
    return " ".join(batch.digest() for batch in batches)
