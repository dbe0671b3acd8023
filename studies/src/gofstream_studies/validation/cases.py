"""What is validated: three kinds of data, three sources of toys, in two sizes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gofstream.inference.calibrate import calibrate
from gofstream.inference.combine import combined_p
from gofstream.inference.null import NullTable
from gofstream.inference.pvalues import empirical_p
from gofstream.inference.result import VERDICTS
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys.permutation import PermutationPlan
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.scanning import SCAN
from gofstream.toys.sources import Simulator, toy_rng
from gofstream_studies.validation.checks import RULES, Table, column_name, columns_in
from gofstream_studies.validation.wrong import training_rows

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]
Draw = Callable[[int, np.random.Generator], Floats]


@dataclass(frozen=True, slots=True)
class Size:
    """How large a case is.

    Attributes
    ----------
    n_reference, expected : N_R and N(R) of all batches together.
    toys, sets : toys of the table, and data sets.
    """

    n_reference: int
    expected: float
    batches: int
    toys: int
    sets: int


def five_columns(n: int, rng: np.random.Generator) -> Floats:
    """Draw a sample with the look of two muons: falling, correlated, bounded columns."""
    energy = rng.exponential(size=(n, 2))
    angle = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=n)
    return np.column_stack([energy.sum(axis=1), energy[:, 1], angle, rng.uniform(-1, 1, size=n)])


def plan_for(draw: Draw, settings: Settings, size: Size, seed: int) -> ReferencePlan:
    """Draw a reference, and plan toys from the exact simulator."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0]))
    reference = Sample.from_array(draw(size.n_reference, rng), name="reference")
    expected = np.full(size.batches, size.expected / size.batches)
    learner = Learner.prepare(reference, settings, expected=float(expected[0]), rng=rng)
    return ReferencePlan(learner, Simulator(draw), "simulator", expected, seed)


def columns_of(made: NullTable) -> Table:
    """Give t of every statistic, and of the verdicts, whose columns are those of theirs."""
    table = {name: made.statistic(name) for name in made.names}
    return table | {
        " + ".join(names): np.hstack([table[name] for name in names]) for names in VERDICTS
    }


def made_table(
    plan: ReferencePlan, size: Size, folder: Path, executor: Executor, progress: Progress
) -> Table:
    """Make a table of toys."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "table.null"
    return columns_of(calibrate(plan, size.toys, path, executor, progress=progress).table)


def made_data(
    plan: ReferencePlan, size: Size, folder: Path, executor: Executor, progress: Progress
) -> Table:
    """Make data sets of the same nominal model."""
    folder.mkdir(parents=True, exist_ok=True)
    sets, path = replace(plan, stream="data"), folder / "data.null"
    return columns_of(calibrate(sets, size.sets, path, executor, progress=progress).table)


def table_from_training_rows(
    plan: ReferencePlan, size: Size, folder: Path, executor: Executor, progress: Progress
) -> Table:
    """Make a table the wrong way."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = training_rows(plan.learner.sample, np.random.default_rng(plan.seed))
    wrong = replace(plan, source=rows, source_name="training rows")
    path = folder / "training-rows.null"
    return columns_of(calibrate(wrong, size.toys, path, executor, progress=progress).table)


def permutation_ranks(
    draw: Draw,
    settings: Settings,
    size: Size,
    seed: int,
    folder: Path,
    executor: Executor,
    progress: Progress,
) -> dict[str, NDArray[np.int64]]:
    """Give p (B+1) of every data set, each with a reference and a permutation null of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    ranks: dict[str, list[float]] = {}
    for index in range(size.sets):
        progress(index, size.sets)
        rng = toy_rng(seed, "permutation", index)
        reference = Sample.from_array(draw(size.n_reference, rng), name="reference")
        mean = size.expected / size.batches
        data = [Sample.from_array(draw(rng.poisson(mean), rng)) for _ in range(size.batches)]
        plan = PermutationPlan.pool(reference, data, settings, seed=seed, rng=rng)
        made = calibrate(plan, size.toys, folder / f"{index}.null", executor)
        found = made.test(data)
        table = columns_of(made.table)
        for name, null in table.items():
            seen = np.concatenate([found.statistics[each].t for each in name.split(" + ")])
            for k, t in enumerate(seen if " + " not in name else ()):
                p = float(empirical_p(t, null[:, k]))
                ranks.setdefault(column_name(name, k), []).append(p)
            for rule in RULES if name != SCAN else ():
                p = combined_p(seen, null, rule, columns_in(table, name))
                ranks.setdefault(f"{name}, {rule} over widths", []).append(p)
    progress(size.sets, size.sets)
    return {
        what: np.rint(np.array(p) * (size.toys + 1)).astype(np.int64) for what, p in ranks.items()
    }
