"""Toys by permuting labels (METHOD §6c): when there is a reference, data, and nothing else.

Data and reference are pooled; a toy deals the pooled events out anew, as many to each batch as were
observed. Everything that is decided once (scaling, widths, centres) looks at the pooled events and
not at their labels, so under the null the observed labels are as good as any others. That holds
for unweighted events and for the shape only: the numbers of events are fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.checks import check_data, check_reference, match_columns
from gofstream.errors import InputError
from gofstream.ratio.centres import Centres
from gofstream.ratio.features import prepare_bytes, project, whiten
from gofstream.ratio.learner import Learner
from gofstream.ratio.solver import Fit
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys.plan import (
    Observed,
    counted,
    statistics_of,
    toys_in_a_block,
)
from gofstream.toys.sources import toy_rng

Floats = NDArray[np.float64]
Projected = tuple[Centres, Floats]


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
        reference: Sample,
        batches: Sequence[Sample],
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
    def toys_per_block(self) -> int:
        """Toys computed together."""
        return toys_in_a_block(self.expected, self.learner)

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
        }

    def shared(self, width: float) -> Projected:
        """Reduce the centres and project the pooled events: labels do not enter."""
        settings = self.learner.settings
        return project(
            self.learner.reference,
            self.learner.candidates,
            width,
            penalty=self.learner.penalty,
            precision=settings.precision,
            memory=settings.memory,
        )

    def memory(self, shared: Projected) -> tuple[int, int]:
        """Bytes that are shared, and bytes that one block takes beyond: features of its own."""
        _, phi = shared
        n_rows, rank = phi.shape
        rows = int(self.expected.sum())
        # The fit comes after the features are made, and takes less beside them than making them.
        return phi.nbytes, prepare_bytes(n_rows, rank, 0, phi.itemsize) + 16 * rows * (rank + 8)

    def block(self, shared: Projected, width: float, index: int) -> tuple[Floats, int]:
        """Deal the events out anew for each toy, and compute its statistics."""
        first = index * self.toys_per_block
        parts = []
        for toy in range(first, first + self.toys_per_block):
            rng = toy_rng(self.seed, self.stream, toy)
            order = rng.permutation(len(self.learner.reference))
            t, done = self._statistics(shared, width, order)
            parts.append(counted(self.learner.settings, t, done))
        return np.concatenate([t for t, _ in parts]), sum(missed for _, missed in parts)

    def observe(self, shared: Projected, width: float, batches: Sequence[Sample]) -> Observed:
        """Compute the statistics of the data that were pooled.

        Raises
        ------
        InputError
            If other data are given.
        """
        matched = [match_columns(batch, self.learner.sample) for batch in batches]
        if data_digest(matched) != self.data_digest:
            raise InputError(
                "permuted labels calibrate the data that were pooled with the reference, and no "
                "others; make a new plan for these"
            )
        count = len(self.learner.reference)
        n_data = int(self.expected.sum())
        # Data first, as in a toy.
        order = np.concatenate([np.arange(count - n_data, count), np.arange(count - n_data)])
        t, done = self._statistics(shared, width, order)
        return Observed(t[0], done.converged, done.uncovered)

    def _statistics(
        self, shared: Projected, width: float, order: NDArray[np.int64]
    ) -> tuple[Floats, Fit]:
        """Give the first events of an order to the batches, and the rest to the reference."""
        centres, phi = shared
        ends = np.cumsum(self.expected).astype(np.int64)
        batches = [self.learner.reference[rows] for rows in np.split(order[: ends[-1]], ends[:-1])]
        features = whiten(
            centres,
            phi[np.sort(order[ends[-1] :])],
            width,
            penalty=self.learner.penalty,
            expected=self.learner.expected,
        )
        return statistics_of(features, batches, self.expected, self.learner.settings)


def data_digest(batches: Sequence[Sample]) -> str:
    """Name the data by what they are, batch by batch."""
    return " ".join(batch.digest() for batch in batches)
