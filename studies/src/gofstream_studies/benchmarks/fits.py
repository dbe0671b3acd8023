"""Speed of fits against the textbook way, in one run on one core."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gofstream.ratio.features import prepare
from gofstream.ratio.solver import TOLERANCE, fit
from gofstream_studies.bench.cases import Case, dimuon5d_case, drawn, expo1d_case
from gofstream_studies.bench.fits import BLOCK
from gofstream_studies.bench.machine import seconds
from gofstream_studies.bench.run import DIMUON_CENTRES
from gofstream_studies.benchmarks.machine import emit
from gofstream_studies.benchmarks.textbook import Textbook, TextbookFit

Floats = NDArray[np.float64]

EXPECTED = 2000.0
PENALTY = 1e-6


@dataclass(frozen=True)
class Problem:
    """One data set of the paper at the size of the benchmark."""

    name: str
    reference: Floats
    centres: Floats
    batches: list[Floats]
    widths: tuple[float, ...]


def expo_problem() -> Problem:
    """EXPO-1D: 200 000 reference events, 1000 centres."""
    rng = np.random.default_rng(1)
    return _problem(expo1d_case(rng), rng)


def dimuon_problem() -> Problem:
    """DIMUON-5D: 40 000 reference events, 3000 centres, from the sample shipped."""
    rng = np.random.default_rng(1)
    return _problem(dimuon5d_case(rng).changed(n_centres=DIMUON_CENTRES), rng)


def _problem(case: Case, rng: np.random.Generator) -> Problem:
    learner = case.learner(rng)
    batches = drawn(learner, case.source, EXPECTED, BLOCK, rng)
    return Problem(case.name, learner.reference[:], learner.candidates, batches, learner.widths)


def run(problem: Problem, peak: float, bandwidth: float) -> None:
    """Print every line of one problem."""
    for width in problem.widths:
        base = _textbook(problem, width)
        tag = f"sigma={width:.1f}"
        emit(
            f"{problem.name}.textbook.{tag}",
            base.seconds,
            "s",
            passes=base.passes,
            gradient_norm=base.gradient_norm,
            relative_gradient=base.relative_gradient,
            gemv_bandwidth_fraction=round(base.bandwidth / bandwidth, 2),
            t=round(base.t, 4),
        )
        _ours(problem, width, base, peak, tag)


def _textbook(problem: Problem, width: float) -> TextbookFit:
    """Take the faster of two fits of the first batch."""
    textbook = Textbook(problem.reference, problem.centres, width, PENALTY, EXPECTED)
    fits = [textbook.fit(problem.batches[0], TOLERANCE["float32"]) for _ in range(2)]
    return min(fits, key=lambda f: f.seconds)


def _ours(problem: Problem, width: float, base: TextbookFit, peak: float, tag: str) -> None:
    def make() -> None:
        prepare(problem.reference, problem.centres, width, penalty=PENALTY, expected=EXPECTED)

    once = seconds(make, 1)
    features = prepare(
        problem.reference, problem.centres, width, penalty=PENALTY, expected=EXPECTED
    )
    emit(f"{problem.name}.prepare.{tag}", once / base.seconds, "textbook fits", seconds=once)
    expected = [EXPECTED] * BLOCK
    done = fit(features, problem.batches, expected)
    block = seconds(lambda: fit(features, problem.batches, expected), 3) / BLOCK
    alone = seconds(lambda: fit(features, problem.batches[:1], expected[:1]), 5)
    events = sum(len(batch) for batch in problem.batches) / BLOCK
    emit(
        f"{problem.name}.fit.block32.vs_textbook.{tag}",
        base.seconds / block,
        "times faster",
        seconds_per_fit=block,
        rank=features.rank,
        passes=float(done.passes.mean()),
        converged=bool(done.converged.all()),
        t_over_textbook=round(float(done.t[0]) / base.t, 5),
    )
    emit(
        f"{problem.name}.fit.alone.vs_textbook.{tag}",
        base.seconds / alone,
        "times faster",
        seconds_per_fit=alone,
    )
    products = 4 * (features.n_reference * done.passes.mean() + events) * features.rank
    emit(
        f"{problem.name}.fit.block32.gemm_fraction.{tag}",
        products / peak / block,
        "of the time",
        why=_why(features.rank),
    )


def _why(rank: int) -> str:
    if rank < 60:
        return (
            "with so few features the exponential and division on every reference event and "
            "fit cost more than the products"
        )
    if rank < 200:
        return (
            "products only 32 columns wide reach two thirds of the peak, and the exponentials "
            "take a fifth of the time"
        )
    return (
        "the kernel rows of each batch's own data (exponentials, whitening, matrix-vector "
        "products at the speed of memory) cost more than the shared products"
    )
