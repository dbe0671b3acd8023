"""The same toys in one, two, four, … batches: what most of the paper's figures compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gofstream.inference.study import PowerStudy, study
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Merged, Source
from gofstream_studies.paper.compare import Comparison
from gofstream_studies.paper.experiment import Context


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """One data set of the paper, at the size of one version of its experiments.

    Attributes
    ----------
    name : of the study; its toys are kept under it.
    reference : what models are trained against.
    nominal, nominal_name : where toys come from.
    alternatives : data sets with a signal, by name.
    expected : N(R) of all batches together.
    settings : for each number of batches.
    toys : how many without and with signal.
    with_scan : whether they are scanned too, which the paper does not know.
    """

    name: str
    reference: Sample
    nominal: Source
    nominal_name: str
    alternatives: Mapping[str, Source]
    expected: float
    settings: Mapping[int, Settings]
    toys: tuple[int, int]
    with_scan: bool = False

    @property
    def parts(self) -> int:
        """How many parts every toy is drawn in."""
        return max(self.settings)

    @property
    def sources(self) -> dict[str, Source]:
        """Toys with a signal, by name."""
        return {name: Merged(source, self.parts) for name, source in self.alternatives.items()}

    def plan(self, batches: int, seed: int) -> ReferencePlan:
        """Plan the toys without signal in so many batches."""
        share = self.expected / batches
        learner = Learner.prepare(
            self.reference,
            self.settings[batches],
            expected=share,
            rng=np.random.default_rng(seed),
        )
        return ReferencePlan(
            learner,
            Merged(self.nominal, self.parts),
            f"{self.nominal_name}, drawn in {self.parts} parts",
            np.full(batches, share),
            seed,
            with_scan=self.with_scan,
        )

    def compare(self, context: Context) -> Comparison:
        """Make what toys are missing, and compare."""
        studies: dict[float, PowerStudy[str]] = {}
        for batches in self.settings:
            plan = self.plan(batches, context.seed)
            with context.bars(f"{self.name}: toys, N_b = {batches}") as bar:
                studies[batches] = study(
                    plan,
                    self.sources,
                    toys=self.toys[0],
                    signal_toys=self.toys[1],
                    folder=context.folder(self.name) / f"{batches}-batches",
                    executor=context.executor,
                    progress=bar,
                )
        return Comparison(studies)
