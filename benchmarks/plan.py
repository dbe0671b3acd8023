"""`gofstream plan` against runs that it predicts."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.machine import emit
from gofstream.bench.machine import seconds
from gofstream.execution import cores, thread_workers
from gofstream.inference.calibrate import calibrate
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys.forecast import Wanted, forecast
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Simulator

#: Three sizes: many fits of few features; a larger model; rows that do not fit into memory.
CASES = {
    "1d": (Wanted(400_000, 16_000.0, 1, 8, 96, 1), Settings(n_centres=1000)),
    "5d": (Wanted(200_000, 20_000.0, 5, 4, 48, 1), Settings(n_centres=1000, widths=(1.9, 4.4))),
    "24d": (
        Wanted(400_000, 40_000.0, 24, 5, 24, 1),
        Settings(n_centres=1000, widths=(8.0,), memory=512 * 1024**2),
    ),
}


def run() -> None:
    """Predict, then run, each on all cores."""
    for name, (case, settings) in CASES.items():
        wanted = replace(case, workers=cores())
        found = forecast(wanted, settings)
        took = seconds(functools.partial(_run, wanted, settings), 1)
        emit(
            f"plan.{name}",
            found.seconds / took,
            "predicted over real time",
            predicted=round(found.seconds, 1),
            real=round(took, 1),
            rows="stored" if all(each.stored for each in found.widths) else "made",
        )


def _run(wanted: Wanted, settings: Settings) -> None:
    rng = np.random.default_rng(2)
    reference = Sample.from_array(rng.normal(size=(wanted.n_reference, wanted.dims)))
    expected = np.full(wanted.batches, wanted.expected / wanted.batches)
    learner = Learner.prepare(reference, settings, expected=expected[0], rng=rng)
    source = Simulator(lambda count, own: own.normal(size=(count, wanted.dims)))
    plan = ReferencePlan(learner, source, "normal", expected, seed=1)
    with tempfile.TemporaryDirectory() as folder, thread_workers(wanted.workers) as executor:
        calibrate(plan, wanted.toys, Path(folder) / "toys.null", executor)
