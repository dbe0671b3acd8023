"""The e-value of the scan on null streams: how often it ever crosses its level."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gofstream.datasets import expo1d
from gofstream.files import whole
from gofstream.ratio.scaling import ScaledRows, Scaling
from gofstream.sample import Sample
from gofstream.scan.grid import RULE, ScanGrid
from gofstream.scan.summary import ScanSummary
from gofstream.toys.sources import toy_rng
from gofstream_studies.validation.checks import Check

Floats = NDArray[np.float64]

#: Taken at face value, and with the uncertainty of a finite reference paid for.
KINDS = ("naive", "safe")
#: Streams of one task, which share a reference only if it stands for a simulator.
TOGETHER = 20


@dataclass(frozen=True, slots=True)
class EvidenceSize:
    """How large the case is.

    Attributes
    ----------
    streams, batches, expected : how many streams, of how many batches, and N(R) of each.
    finite, scarce : rows of a reference that each stream has for itself: as one would take it, and
        too few for the naive e-value.
    simulator : rows of one reference that is as good as a simulator.
    alpha : the level.
    """

    streams: int = 2000
    batches: int = 100
    expected: float = 20.0
    finite: int = 10_000
    scarce: int = 400
    simulator: int = 1_000_000
    alpha: float = 0.05


def checks(
    size: EvidenceSize,
    seed: int,
    folder: Path,
    executor: Executor,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, list[Check]]:
    """Count the streams that ever cross; the naive e-value with too few rows must fail.

    Parameters
    ----------
    folder : streams that are done are kept there, and not made again.
    """
    families = {}
    cases = (("simulator", size.simulator), ("finite", size.finite), ("scarce", size.scarce))
    for done, (name, rows) in enumerate(cases):
        progress(done, len(cases))
        highest = measure(size, rows, seed, folder / name, executor, own=name != "simulator")
        naive, safe = (_check(size, kind, highest[:, k]) for k, kind in enumerate(KINDS))
        families[f"e-value, {name}: safe"] = [safe]
        families[f"{'wrong: ' if name == 'scarce' else ''}e-value, {name}: naive"] = [naive]
    progress(len(cases), len(cases))
    return families


def measure(
    size: EvidenceSize, rows: int, seed: int, folder: Path, executor: Executor, *, own: bool
) -> Floats:
    """Give the largest log e-value of every stream, naive and safe: (streams, 2).

    Parameters
    ----------
    rows : N_R.
    folder : for what is done; of another size, it is made anew.
    own : whether every stream has a reference of its own, as the safe e-value is about both.
    """
    about = f"{RULE}-{seed}-{rows}-{size.batches}-{size.expected:g}"
    starts = range(0, size.streams, TOGETHER)
    files = [folder / f"{about}-{start}.npy" for start in starts]
    folder.mkdir(parents=True, exist_ok=True)
    tasks = {
        file: executor.submit(_streams, size, rows, seed, start, own)
        for file, start in zip(files, starts, strict=True)
        if not file.exists()
    }
    for file, task in tasks.items():
        with whole(file) as partial, partial.open("wb") as out:
            np.save(out, task.result())
    return np.concatenate([np.load(file) for file in files])[: size.streams]


def _reference(rows: int, total: float, rng: np.random.Generator) -> tuple[Scaling, ScanGrid]:
    """Draw a reference; the scaling is learnt on rows that the e-value is about, as in a run."""
    reference = Sample.from_array(expo1d.reference(rows, rng))
    scaling = Scaling.learn(reference)
    return scaling, ScanGrid.choose(ScaledRows(reference, scaling), total, rng)


@lru_cache(maxsize=1)
def _simulator(rows: int, total: float, seed: int) -> tuple[Scaling, ScanGrid]:
    """Make the large reference once for each worker."""
    return _reference(rows, total, toy_rng(seed, "evidence", 0))


def _streams(size: EvidenceSize, rows: int, seed: int, start: int, own: bool) -> Floats:
    found, total = [], size.batches * size.expected
    for number in range(start, start + TOGETHER):
        rng = toy_rng(seed, f"evidence, {rows} rows", number)
        scaling, grid = _reference(rows, total, rng) if own else _simulator(rows, total, seed)
        summary, highest = ScanSummary.empty(grid), [-np.inf, -np.inf]
        for _ in range(size.batches):
            batch = Sample.from_array(expo1d.toy(size.expected, rng))
            summary = summary.add(scaling.apply(batch), size.expected)
            highest = [max(highest[0], summary.t / 2), max(highest[1], summary.log_e)]
        found.append(highest)
    return np.array(found)


def _check(size: EvidenceSize, kind: str, highest: Floats) -> Check:
    crossed = int(np.count_nonzero(highest >= -np.log(size.alpha)))
    p = stats.binomtest(crossed, len(highest), size.alpha, alternative="greater").pvalue
    what = f"{kind} e-value ever at {1 / size.alpha:g}, {size.batches} looks"
    return Check(what, f"{crossed} of {len(highest)}", float(p))
