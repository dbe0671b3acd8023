"""From a plan for toys to a null table, and from that to the verdict on data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gofstream.arguments import file_path, whole_number
from gofstream.checks import match_batches
from gofstream.errors import InputError
from gofstream.execution import chosen_workers
from gofstream.inference.agreement import NO_INPUTS, described
from gofstream.inference.combine import Rule, combined_p
from gofstream.inference.consistency import contradictions
from gofstream.inference.null import NullFile, NullTable
from gofstream.inference.pvalues import LAWS, Law, PValue, counted_p, p_value
from gofstream.inference.rate import RateTest
from gofstream.inference.result import StatisticResult, TestResult, complaints, verdicts_of
from gofstream.sample import Events
from gofstream.statistics import STATISTICS
from gofstream.toys.farm import Job, run
from gofstream.toys.memory import RunMemory
from gofstream.toys.plan import Plan, check_sizes
from gofstream.toys.scanning import SCAN

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """A plan and its null: ready to test any number of data sets."""

    plan: Plan
    table: NullTable

    def test(
        self,
        batches: Sequence[Events],
        *,
        rule: Rule = "min",
        together: Sequence[str] = (),
        laws: Mapping[str, Law] = LAWS,
        rate: RateTest | None = None,
    ) -> TestResult:
        """Test one data set, batch by batch as planned.

        Parameters
        ----------
        rule : how widths are combined: smallest p, mean p, product of p.
        together : statistics to combine into one more p-value, each over its widths first.
        laws : what to extrapolate with beyond the toys; `PAPER_LAWS` is the paper's recipe.
        rate : a test of the number of events, to be told with that of the shape.

        Raises
        ------
        InputError
            If there are not as many batches as planned, or, for a test of shape alone, not of the
            planned sizes; or if no statistic has a name in ``together``.
        """
        plan = self.plan
        if self.table.scan is None:
            raise InputError(
                "these toys were made without a scan (`with_scan=False`), and a test has one; "
                "calibrate with it: the same file keeps its other toys"
            )
        batches = match_batches(batches, plan.learner.sample)
        check_sizes(plan, batches)
        widths = plan.learner.widths
        with RunMemory() as memory:
            learnt = tuple(
                plan.observe(memory.shared(plan, width)[0], width, batches) for width in widths
            )
        scanned = plan.scan(batches)
        by_width = np.stack([found.t[:, -1] for found in learnt], axis=1)
        t = dict(zip(STATISTICS, by_width, strict=True)) | {SCAN: scanned.t[-1:]}
        caveats = contradictions(plan, self.table.scan[:, -1]) + list(plan.learner.notes)
        for found in learnt:
            caveats += complaints(
                found.models[0].width,
                [model.converged for model in found.models],
                int(found.uncovered.sum()),
            )
        if self.table.unconverged:
            caveats.append(f"fits of toys that did not converge: {self.table.unconverged}")
        statistics = {
            name: judge_statistic(
                values, self.table.statistic(name), laws.get(_same(name, len(batches))), rule
            )
            for name, values in t.items()
        }
        return TestResult(
            statistics=statistics,
            widths=widths,
            learnt=learnt,
            scanned=scanned,
            null=self.table,
            rule=rule,
            verdicts={
                names: self._together(names, statistics, rule)
                for names in verdicts_of(len(batches))
            },
            together=(tuple(together), self._together(together, statistics, rule))
            if together
            else None,
            rate=rate,
            source=plan.source_name,
            expected=float(plan.expected.sum()),
            batches=tuple(len(batch) for batch in batches),
            shape_only=plan.shape_only,
            caveats=tuple(caveats),
        )

    def _together(
        self, names: Sequence[str], found: Mapping[str, StatisticResult], rule: Rule
    ) -> PValue:
        nulls = [self.table.statistic(name) for name in names]
        return judge_together([found[name] for name in names], nulls, rule)


def calibrate(
    plan: Plan,
    toys: int,
    path: str | Path,
    executor: Executor | None = None,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    inputs: Mapping[str, str] = NO_INPUTS,
) -> Calibration:
    """Make what the file lacks of so many toys, and read them.

    Parameters
    ----------
    plan : what toys.
    toys : how many; a file with fewer is extended, one with more is used in part.
    path : the null file.
    executor : runs the blocks; by default threads on all cores.
    progress : called with the number of blocks done and wanted.
    inputs : what the user typed, by option; a new file keeps it, to say later what has changed.

    Raises
    ------
    FormatError
        If the file was made with other inputs; it says which.
    StoppedError
        On Ctrl-C, when a worker dies or the disk is full; the same call goes on from there.
    """
    toys = whole_number("toys", toys)
    file = NullFile(file_path("path", path), plan.about() | described(inputs))
    with chosen_workers(executor) as chosen:
        run([Job(plan, toys, file)], chosen, progress=progress)
    return Calibration(plan, file.load(toys))


def judge_statistic(t: Floats, null: Floats, law: Law | None, rule: Rule) -> StatisticResult:
    """Compare t, by width, with that of toys (B, widths): p at each width, and over all."""
    each = tuple(p_value(float(value), null[:, k], law) for k, value in enumerate(t))
    return StatisticResult(tuple(t.tolist()), each, _ranked(t, null, rule, [len(t)]))


def judge_together(found: Sequence[StatisticResult], nulls: Sequence[Floats], rule: Rule) -> PValue:
    """Combine strategies, each over its widths first, by ranks among the toys.

    Parameters
    ----------
    found : each strategy's own result.
    nulls : (B, widths) t of the toys, of each.
    """
    if len(found) == 1:
        return found[0].combined
    t, null = np.concatenate([each.t for each in found]), np.concatenate(nulls, axis=1)
    return _ranked(t, null, rule, [len(each.t) for each in found])


def _same(statistic: str, batches: int) -> str:
    """Name the statistic of several batches that this one is: with one batch many are one."""
    return "single" if batches == 1 and statistic in ("sum", "all", "one") else statistic


def _ranked(t: Floats, null: Floats, rule: Rule, columns: Sequence[int]) -> PValue:
    toys = len(null)
    return counted_p(round(combined_p(t, null, rule, columns) * (toys + 1)) - 1, toys)
