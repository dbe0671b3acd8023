"""From a plan for toys to a null table, and from that to the verdict on data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
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
from gofstream.toys.plan import Observed, Plan, check_sizes
from gofstream.toys.scanning import SCAN, Scanned, ScanPass

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """A plan and its null: ready to test any number of data sets.

    ``memory`` keeps what a test prepares of the reference, while there is room: a second data set
    costs its fits and nothing else.
    """

    plan: Plan
    table: NullTable
    memory: RunMemory = field(default_factory=RunMemory, repr=False)

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
        observed = ObservedData(self.plan, batches, self.memory)
        try:
            for index in range(len(self.plan.passes)):
                observed.compute(index)
        finally:
            self.memory.rest()
        return self.judge(observed, rule=rule, together=together, laws=laws, rate=rate)

    def judge(
        self,
        observed: ObservedData,
        *,
        rule: Rule = "min",
        together: Sequence[str] = (),
        laws: Mapping[str, Law] = LAWS,
        rate: RateTest | None = None,
    ) -> TestResult:
        """Compare the statistics of data with those of the toys, as `test` says."""
        plan, batches, widths = self.plan, observed.batches, self.plan.learner.widths
        learnt, scanned = tuple(observed.learnt), observed.scanned
        assert scanned is not None
        assert self.table.scan is not None
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


class ObservedData:
    """The statistics of one data set, computed in the passes in which those of toys are.

    Attributes
    ----------
    batches : the data, with the columns of the reference.
    learnt : what was learnt at each width so far.
    scanned : the scan, once its pass is over.
    """

    def __init__(self, plan: Plan, batches: Sequence[Events], memory: RunMemory) -> None:
        if not isinstance(plan.passes[-1], ScanPass):
            raise InputError(
                "these toys were made without a scan (`with_scan=False`), and a test has one; "
                "calibrate with it: the same file keeps its other toys"
            )
        self.batches = match_batches(batches, plan.learner.sample)
        check_sizes(plan, self.batches)
        self.learnt: list[Observed] = []
        self.scanned: Scanned | None = None
        self._plan, self._memory = plan, memory

    def compute(self, index: int) -> None:
        """Compute the statistics of one pass of the plan."""
        which = self._plan.passes[index]
        shared, _ = self._memory.shared(self._plan, which)
        if isinstance(which, ScanPass):
            self.scanned = self._plan.scan(shared, self.batches)
        else:
            self.learnt.append(self._plan.observe(shared, which, self.batches))


def calibrate_and_test(
    plan: Plan,
    batches: Sequence[Events],
    toys: int,
    path: str | Path,
    executor: Executor | None = None,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    inputs: Mapping[str, str] = NO_INPUTS,
    rate: RateTest | None = None,
) -> TestResult:
    """Make what the file lacks of so many toys, and test data in the same passes.

    The reference is prepared once at each width, for toys and data, whatever its size. The
    parameters are those of `calibrate` and `Calibration.test`.
    """
    memory = RunMemory()
    observed = ObservedData(plan, batches, memory)
    table = _null_table(plan, toys, path, executor, progress, inputs, memory, observed.compute)
    return Calibration(plan, table, memory).judge(observed, rate=rate)


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
    memory = RunMemory()
    table = _null_table(plan, toys, path, executor, progress, inputs, memory)
    return Calibration(plan, table, memory)


def _null_table(
    plan: Plan,
    toys: int,
    path: str | Path,
    executor: Executor | None,
    progress: Callable[[int, int], None],
    inputs: Mapping[str, str],
    memory: RunMemory,
    after_pass: Callable[[int], None] = lambda index: None,
) -> NullTable:
    toys = whole_number("toys", toys)
    file = NullFile(file_path("path", path), plan.about() | described(inputs))
    with chosen_workers(executor) as chosen:
        jobs = [Job(plan, toys, file)]
        run(jobs, chosen, progress=progress, memory=memory, after_pass=after_pass)
    return file.load(toys)


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
