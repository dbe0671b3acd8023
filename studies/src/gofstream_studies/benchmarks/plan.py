"""`gofstream plan` against runs that it predicts."""

from __future__ import annotations

import functools
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from gofstream.cli.progress import amount, duration
from gofstream.execution import cores, thread_workers
from gofstream.inference.calibrate import calibrate
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.toys.forecast import Wanted, forecast
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Simulator
from gofstream_studies.bench.machine import cpu_name, seconds
from gofstream_studies.benchmarks.points import Lines, Points

OUT = Path("out/plan.jsonl")
#: The factor within which predictions were wanted.
WANTED = 1.5
#: Three sizes: many fits of few features; a larger model; rows that do not fit into memory.
CASES = {
    "1d": (Wanted(400_000, 16_000.0, 1, 8, 96, 1), Settings(n_centres=1000)),
    "5d": (Wanted(200_000, 20_000.0, 5, 4, 48, 1), Settings(n_centres=1000, widths=(1.9, 4.4))),
    "24d": (
        Wanted(400_000, 40_000.0, 24, 5, 24, 1),
        Settings(n_centres=1000, widths=(8.0,), memory=512 * 1024**2),
    ),
}


def run(out: Path = OUT, cases: Mapping[str, tuple[Wanted, Settings]] = CASES) -> None:
    """Predict, then run, each on all cores; what the file has is not done again."""
    points = Points(out)
    for name, (case, settings) in cases.items():
        wanted = replace(case, workers=cores())
        shape = asdict(wanted) | {"settings": settings.model_dump(mode="json"), "cpu": cpu_name()}
        points.measured(f"plan.{name}", shape, functools.partial(_compared, wanted, settings))


def _compared(wanted: Wanted, settings: Settings) -> dict[str, Any]:
    found = forecast(wanted, settings)
    _say(f"predicted {duration(found.seconds)}; running")
    took = seconds(functools.partial(_run, wanted, settings), 1)
    return {
        "predicted": found.seconds,
        "real": took,
        "rows": "stored" if all(each.stored for each in found.widths) else "made",
    }


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def section(lines: Lines) -> str:
    """Write predictions beside what runs took, or that none was compared yet."""
    found = [line for name, line in lines.items() if name.startswith("plan.")]
    if not found:
        return (
            "*Not compared yet.* `python -m gofstream_studies.benchmarks plan` compares three "
            "predictions with the runs they predict, and `python -m "
            "gofstream_studies.benchmarks.report out/plan.jsonl` writes it here.\n"
        )
    rows, factors = "", []
    for line in found:
        shape, ratio = line["shape"], line["predicted"] / line["real"]
        factors.append(max(ratio, 1 / ratio))
        rows += (
            f"| {amount(shape['n_reference'])} | {amount(shape['expected'])} in "
            f"{shape['batches']} | {shape['dims']} | {shape['toys']} | {line['rows']} "
            f"| {duration(line['predicted'])} | {duration(line['real'])} | {ratio:.2f} |\n"
        )
    worst = max(factors)
    return (
        f"Three predictions and the runs, on {found[0]['shape']['workers']} cores "
        f"({found[0]['shape']['cpu']}):\n\n"
        "| reference | data, batches | dimensions | toys | rows | predicted | real | ratio |\n"
        f"|---|---|---|---|---|---|---|---|\n{rows}\n"
        f"The worst is off by a factor {worst:.2f}; at most {WANTED:g} was wanted, which "
        f"{'is met' if worst <= WANTED else 'is **not** met'}.\n"
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
