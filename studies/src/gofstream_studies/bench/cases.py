"""The paper's cases, at the sizes at which they are timed here, and the paper's own times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from gofstream.datasets import expo1d
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import PRESETS, Settings
from gofstream.toys.sources import Pool, Simulator, Source, split_off_pool
from gofstream_studies.datasets import dimuon5d

Floats = NDArray[np.float64]

#: Seconds per batch on the paper's GPU.
PAPER: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"expo1d": (0.5, 1.5), "dimuon5d": (3.0, 12.0), "cmsl1": (40.0, 70.0)}
)
#: What the paper calls its cases.
LABELS = {"expo1d": "EXPO-1D", "dimuon5d": "DIMUON-5D", "cmsl1": "CMS-L1-24D"}


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A data set at the size at which it is timed here.

    Attributes
    ----------
    name : of the paper's preset.
    reference, source : what is learnt against, and where batches come from.
    batch : expected events in a batch.
    """

    name: str
    reference: Sample
    source: Source
    settings: Settings
    batch: float

    def changed(self, **settings: object) -> Case:
        """Give the same case with some settings changed."""
        return replace(self, settings=self.settings.changed(**settings))

    def learner(self, rng: np.random.Generator) -> Learner:
        """Make the reference ready."""
        return Learner.prepare(self.reference, self.settings, expected=self.batch, rng=rng)


def expo1d_case(rng: np.random.Generator, n_reference: int | None = None) -> Case:
    """EXPO-1D at the paper's size, or with another number of reference events.

    Examples
    --------
    >>> import numpy as np
    >>> expo1d_case(np.random.default_rng(1)).batch
    2000.0
    """
    study = PRESETS["expo1d"]
    return Case(
        "expo1d",
        Sample.from_array(expo1d.reference(n_reference or study.n_reference, rng)),
        Simulator(expo1d.reference),
        study.settings,
        study.expected / study.batches,
    )


def dimuon5d_case(rng: np.random.Generator) -> Case:
    """DIMUON-5D at the paper's size, on the sample shipped."""
    study = PRESETS["dimuon5d"]
    sample = dimuon5d.drell_yan()
    reference, pool = split_off_pool(sample, len(sample) - study.n_reference, rng)
    return Case(
        "dimuon5d",
        reference,
        Pool(pool),
        study.settings,
        study.expected / study.batches,
    )


def drawn(
    learner: Learner, source: Source, expected: float, count: int, rng: np.random.Generator
) -> list[Floats]:
    """Draw batches, each on its own, in scaled units."""
    scaling = learner.scaling
    return [
        scaling.apply(Sample.from_array(x, scaling.columns, periodic=scaling.periodic))
        for _ in range(count)
        for x in source.draw(np.array([float(expected)]), rng)
    ]
