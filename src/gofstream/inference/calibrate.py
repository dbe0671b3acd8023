"""From a plan for toys to a null table, and from that to the verdict on data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gofstream.checks import check_data
from gofstream.errors import InputError
from gofstream.inference.combine import combined_p
from gofstream.inference.null import NullFile, NullTable
from gofstream.inference.pvalues import LAWS, PValue, p_value, with_p
from gofstream.inference.result import StatisticResult, TestResult
from gofstream.sample import Sample
from gofstream.statistics import STATISTICS
from gofstream.toys.farm import Plan, run, statistics_of

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """A plan and its null: ready to test any number of data sets."""

    plan: Plan
    table: NullTable

    def test(self, batches: Sequence[Sample]) -> TestResult:
        """Test one data set, batch by batch as planned.

        Raises
        ------
        InputError
            If there are not as many batches as planned, or, for a test of shape alone, not of the
            planned sizes.
        """
        plan = self.plan
        expected = plan.expected
        sizes = [len(batch) for batch in batches]
        if len(batches) != len(expected):
            raise InputError(f"calibrated for {len(expected)} batches, but {len(batches)} given")
        if plan.shape_only and sizes != expected.astype(int).tolist():
            raise InputError(
                f"a test of shape alone holds the sizes of batches: calibrated for "
                f"{expected.astype(int).tolist()}, but {sizes} given; calibrate for these"
            )
        events = [plan.learner.scaling.apply(b) for b in check_data(batches, plan.learner.sample)]
        t = np.empty((len(STATISTICS), len(plan.learner.widths)))
        caveats: list[str] = []
        for k, width in enumerate(plan.learner.widths):
            values, done = statistics_of(plan, plan.learner.features(width), events)
            t[:, k] = values[0, :, -1]
            caveats += _complaints(width, done.converged, done.uncovered)
        if self.table.unconverged:
            caveats.append(f"{self.table.unconverged} fits of toys did not converge")
        return TestResult(
            statistics={
                name: _judge(t[s], self.table.statistic(name), name)
                for s, name in enumerate(STATISTICS)
            },
            widths=plan.learner.widths,
            toys=len(self.table.t),
            source=plan.source_name,
            expected=float(expected.sum()),
            observed=sum(sizes),
            shape_only=plan.shape_only,
            caveats=tuple(caveats),
        )


def calibrate(
    plan: Plan,
    toys: int,
    path: Path,
    executor: Executor,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Calibration:
    """Make what the file lacks of so many toys, and read them.

    Parameters
    ----------
    plan : what toys.
    toys : how many; a file with fewer is extended, one with more is used in part.
    path : the null file.
    executor : runs the blocks.
    progress : called with the number of blocks done and wanted.

    Raises
    ------
    FormatError
        If the file was made with another plan; it says what differs.
    StoppedError
        On Ctrl-C; the same call goes on from there.
    """
    file = NullFile(path, plan.about())
    run(plan, toys, file, executor, progress=progress)
    return Calibration(plan, file.load(toys))


def _judge(t: Floats, null: Floats, name: str) -> StatisticResult:
    each = tuple(p_value(float(value), null[:, k], LAWS[name]) for k, value in enumerate(t))
    return StatisticResult(tuple(t.tolist()), each, _combine(t, null, each))


def _combine(t: Floats, null: Floats, each: tuple[PValue, ...]) -> PValue:
    """Combine by the smallest p; beyond the toys, K times the smallest extrapolated one (§4)."""
    toys, widths = null.shape
    p = combined_p(t, null)
    smallest = min(each, key=lambda item: item.p)
    bonferroni = widths * smallest.p
    if smallest.extrapolated and p <= widths / (toys + 1) and bonferroni < p:
        return with_p(bonferroni, round(p * (toys + 1)) - 1, toys, extrapolated=True)
    return with_p(p, round(p * (toys + 1)) - 1, toys, extrapolated=False)


def _complaints(
    width: float, converged: NDArray[np.bool_], uncovered: NDArray[np.int64]
) -> list[str]:
    found = []
    if not converged.all():
        which = ", ".join(str(i + 1) for i in np.flatnonzero(~converged))
        found.append(f"σ = {width:g}: the fit did not converge for batch {which}")
    if uncovered.any():
        found.append(f"σ = {width:g}: events far from every centre, not seen: {uncovered.sum()}")
    return found
