"""How a block of fits grows from 10⁵ to 10⁷ reference events, and where cases sit on the roofline.

Each point is measured in a process of its own, on one core, so that its peak of memory is its own;
what the machine can do is measured just before it. Points go to a file, one JSON line each: a run
that was stopped goes on where it was. `python -m gofstream_studies.benchmarks.report` draws and
writes what came out.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from gofstream.ratio import arrays
from gofstream.ratio.centres import reduce_centres
from gofstream.ratio.features import Features, features_of, rows_are_stored
from gofstream.ratio.solver import fit
from gofstream.sample import Sample
from gofstream.settings import preset
from gofstream_studies.bench.cases import Case, dimuon5d_case, drawn, expo1d_case
from gofstream_studies.bench.machine import gemm_peak, read_bandwidth
from gofstream_studies.bench.memory import in_fresh_process, peak_and_present
from gofstream_studies.bench.run import DIMUON_CENTRES
from gofstream_studies.benchmarks.points import Lines, Points, Remaining
from gofstream_studies.benchmarks.scale import Smeared
from gofstream_studies.datasets import cmsl1

Floats = NDArray[np.float64]

OUT = Path("out/at_scale.jsonl")
GIB = 1024**3
PENALTY = 1e-6
#: A fit that took longer than this is timed once, others twice.
LONG = 60.0


@dataclass(frozen=True, slots=True)
class Shape:
    """One point: a block of fits of normal columns, or of one of the paper's cases.

    Attributes
    ----------
    n_reference, dims, fits, batch : N_R, D, T, and events expected in each batch.
    candidates : M.
    rank : centres that a width is sought for, so that so many remain of M.
    width : given instead of the rank.
    stored : whether rows of the reference are stored; None as the budget has it.
    memory : the budget, in bytes.
    case : of the paper, in place of normal columns.
    """

    n_reference: int = 1_000_000
    dims: int = 5
    fits: int = 16
    batch: float = 2000.0
    candidates: int = 1000
    rank: int | None = 300
    width: float | None = None
    stored: bool | None = False
    memory: int = GIB
    case: str | None = None


#: Points of each law by what is varied, around N_R = 10⁶, D = 5, M = 1000, r = 300 and T = 16 with
#: rows made; and the paper's cases, the last one with a tenth of its events and M = 3000
#: (`benchmarks.scale` has all of it).
LAWS: dict[str, dict[str, Shape]] = {
    "reference": {str(n): Shape(n) for n in (10**5, 3 * 10**5, 10**6, 3 * 10**6, 10**7)},
    "budget": {str(n): Shape(n, stored=None) for n in (10**5, 3 * 10**5, 10**6, 3 * 10**6, 10**7)},
    "candidates": {
        str(m): Shape(candidates=m, rank=None, width=5.0, memory=4 * GIB)
        for m in (1000, 3000, 10_000, 30_000, 100_000)
    },
    "rank": {str(r): Shape(candidates=4000, rank=r) for r in (50, 100, 200, 400, 800, 1600)},
    "fits": {str(t): Shape(fits=t) for t in (1, 2, 4, 8, 16, 32, 64)},
    "fits-stored": {
        str(t): Shape(fits=t, stored=True, memory=4 * GIB) for t in (1, 2, 4, 8, 16, 32, 64)
    },
    "dimensions": {str(d): Shape(dims=d) for d in (1, 2, 5, 10, 24)},
    "case": {
        f"{case} {width:g} {fits}": Shape(
            n, dims, fits, 2000.0, m, None, width, stored, 4 * GIB, case
        )
        for case, n, dims, m, width, stored, blocks in (
            ("expo1d", 200_000, 1, 1000, 0.1, True, (1, 32)),
            ("expo1d", 200_000, 1, 1000, 0.7, True, (1, 32)),
            ("dimuon5d", 40_000, 5, DIMUON_CENTRES, 1.9, True, (1, 32)),
            ("cmsl1", 1_000_000, 24, 3000, 10.5, False, (20,)),
        )
        for fits in blocks
    },
}


def run(out: Path = OUT, laws: dict[str, dict[str, Shape]] = LAWS) -> None:
    """Measure what the file lacks."""
    points = Points(out)
    wanted = {f"at_scale.{law}.{at}": s for law, shapes in laws.items() for at, s in shapes.items()}
    missing = {n: s for n, s in wanted.items() if not points.knows(n, asdict(s))}
    remaining = Remaining(cost(shape) for shape in missing.values())
    for name, shape in missing.items():
        found = _yardsticks() | in_fresh_process(measure, shape)
        points.put({"name": name, "shape": asdict(shape), **found})
        remaining.done()


def cost(shape: Shape) -> float:
    """Guess the seconds of a point on one core, to tell how long a run may still take.

    Two fits of five passes at 40 Gflop/s; the reductions of the centres at 10 Gflop/s: one, or
    about ten while a width is sought; and H0 from 50 rows for each centre. In many dimensions most
    centres are kept.
    """
    rank = shape.rank or (1500 if shape.dims < 10 else 0.75 * shape.candidates)
    rank = min(rank, shape.candidates)
    per_row = 4 * shape.fits + (0 if shape.stored else 2 * (shape.dims + 2) + 60)
    passes = 10 * shape.n_reference * rank * per_row / 40e9
    reductions = (10 if shape.width is None else 1) * shape.candidates * rank**2 / 10e9
    whitening = 150 * rank**3 / 50e9
    return 5 + passes + reductions + whitening


def _yardsticks() -> dict[str, Any]:
    """Time what the machine can do now: it may be slower than it was an hour ago."""
    rates = {
        "gflops32": gemm_peak() / 1e9,
        "gflops64": gemm_peak("float64") / 1e9,
        "bandwidth": read_bandwidth() / 1e9,
    }
    return {name: float(f"{rate:.4g}") for name, rate in rates.items()}


def measure(shape: Shape) -> dict[str, Any]:
    """Time one point, on one core; tell what it took of memory."""
    with threadpool_limits(limits=1):
        np.linalg.inv(np.random.default_rng(0).random((500, 500)))  # what BLAS keeps for itself
        _, before = peak_and_present()
        reference, candidates, batches = _events(shape)
        width = shape.width or width_of_rank(candidates, shape.rank or 1)
        begun = time.perf_counter()
        features, reduced = _features(shape, reference, candidates, width)
        prepared = time.perf_counter() - begun
        expected = np.full(shape.fits, shape.batch)
        times: list[float] = []
        while len(times) < 2 and sum(times) < LONG:
            begun = time.perf_counter()
            done = fit(features, batches, expected, memory=shape.memory)
            times.append(time.perf_counter() - begun)
        peak, _ = peak_and_present()
    return {
        "width": width,
        "rank": features.rank,
        "rows": "stored" if features.made is None else "made",
        "passes": done.passes.tolist(),
        "converged": bool(done.converged.all()),
        "reduce_seconds": reduced,
        "prepare_seconds": prepared,
        "block_seconds": min(times),
        "taken": peak - before,
    }


def width_of_rank(candidates: Floats, rank: int) -> float:
    """Find a width at which about so many of the candidates remain, by bisection."""
    low, high = 1e-4, 1e3
    for _ in range(40):
        middle = (low * high) ** 0.5
        found = reduce_centres(candidates, middle, PENALTY).rank
        if abs(found - rank) <= 0.01 * rank:
            break
        low, high = (middle, high) if found > rank else (low, middle)
    return float(middle)


def _events(shape: Shape) -> tuple[arrays.Points, Floats, list[Floats]]:
    """Draw the reference, its candidate centres and the batches."""
    rng = np.random.default_rng(1)
    if shape.case is None:
        reference = rng.normal(size=(shape.n_reference, shape.dims))
        sizes = rng.poisson(shape.batch, shape.fits)
        batches = [rng.normal(size=(n, shape.dims)) for n in sizes]
        return reference, reference[: shape.candidates], batches
    case = replace(_case(shape, rng), batch=shape.batch).changed(n_centres=shape.candidates)
    learner = case.learner(rng)
    batches = drawn(learner, case.source, shape.batch, shape.fits, rng)
    return learner.reference, learner.candidates, batches


def _case(shape: Shape, rng: np.random.Generator) -> Case:
    if shape.case == "expo1d":
        return expo1d_case(rng, shape.n_reference)
    if shape.case == "dimuon5d":
        return dimuon5d_case(rng)
    source = Smeared(cmsl1.varying(cmsl1.read("sm").sample))
    reference = Sample.from_array(source.events(shape.n_reference, rng), cmsl1.VARYING)
    return Case("cmsl1", reference, source, preset("cmsl1").settings, shape.batch)


def _features(
    shape: Shape, reference: arrays.Points, candidates: Floats, width: float
) -> tuple[Features, float]:
    """Make features as asked for; tell how long the reduction of centres took."""
    begun = time.perf_counter()
    centres = reduce_centres(candidates, width, PENALTY, memory=shape.memory)
    reduced = time.perf_counter() - begun
    stored = shape.stored
    if stored is None:
        sizes = len(reference), centres.rank, len(candidates)
        stored = rows_are_stored(*sizes, np.dtype(np.float32).itemsize, shape.memory)
    features = features_of(
        reference, centres, width, penalty=PENALTY, expected=shape.batch, stored=stored
    )
    return features, reduced


def laws_of(lines: Lines) -> dict[str, list[dict[str, Any]]] | None:
    """Gather what was measured, law by law; nothing if a point is missing."""
    names = {law: [f"at_scale.{law}.{at}" for at in shapes] for law, shapes in LAWS.items()}
    if not all(name in lines for each in names.values() for name in each):
        return None
    return {law: [lines[name] for name in each] for law, each in names.items()}
