"""CMS-L1-24D at the paper's size, on all cores and within a memory budget.

The reference is the shipped sample, drawn again and smeared: good for timing, not for physics. A
block of toys, on which all cores work, makes a round, whose time is shared by all its fits. Each
round is a line of a file: a run that was stopped goes on after the last.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.cli.progress import amount, duration
from gofstream.execution import cores, thread_workers
from gofstream.ratio.learner import Learner
from gofstream.ratio.scaling import ScaledRows
from gofstream.sample import Sample
from gofstream.settings import Device, preset
from gofstream.toys.plan import ReferencePlan
from gofstream_studies.bench.cases import PAPER
from gofstream_studies.bench.machine import cpu_name
from gofstream_studies.bench.memory import peak_and_present
from gofstream_studies.benchmarks.points import Lines, Points
from gofstream_studies.datasets import cmsl1

OUT = Path("out/scale.jsonl")
#: A draw moves by this share of the spread of each column.
SMEAR = 0.1
#: What was wanted: seconds per batch, and peak memory over the budget.
WANTED_SECONDS, WANTED_MEMORY = 60.0, 1.1
#: Passes over the reference that a block is taken to need, while nothing better is known: those of
#: its fits, and one more for `sat`.
PASSES = 5
#: Seconds between lines that tell how far a run is.
QUIET = 60.0


class Smeared:
    """Events of a sample, drawn again and again and moved a little."""

    def __init__(self, sample: Sample) -> None:
        self.values = sample.values.astype(np.float32)
        self.spread = (SMEAR * self.values.std(axis=0)).astype(np.float32)

    def events(self, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
        """Draw some."""
        out = self.values[rng.integers(len(self.values), size=count)]
        for part in np.array_split(out, max(1, count // 100_000)):
            part += self.spread * rng.standard_normal(part.shape, dtype=np.float32)
        return out

    def draw(
        self, expected: NDArray[np.float64], rng: np.random.Generator, *, fixed: bool = False
    ) -> list[NDArray[np.float64]]:
        """Draw the batches of a toy."""
        sizes = expected.astype(int) if fixed else rng.poisson(expected)
        return [self.events(int(n), rng).astype(np.float64) for n in sizes]


class Watch:
    """Counts the kernel rows of the reference that were made, and says now and then how it goes.

    Parameters
    ----------
    rows : of the reference: so many make a pass.
    passes : that are expected in all, for the estimate.
    """

    def __init__(self, rows: int, passes: float) -> None:
        self.rows, self.passes = rows, passes
        self.seen = 0
        self.begun = self.said = time.monotonic()
        self._lock = threading.Lock()

    def count(self, rows: int) -> None:
        """Note that so many rows were asked for."""
        with self._lock:
            now = time.monotonic()
            if not self.seen:  # what was prepared before is no part of a pass
                self.begun = now
            self.seen += rows
            if now - self.said < QUIET or 100 * self.seen < self.rows:
                return
            self.said = now
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {self.text(now - self.begun)}\n")
        sys.stderr.flush()

    def text(self, spent: float) -> str:
        """Say how many passes were made in so many seconds, and how long the rest may take."""
        done = self.seen / self.rows
        left = max(0.0, self.passes - done) * spent / max(done, 1e-9)
        return (
            f"passes over the reference: {done:.2f} of about {self.passes:g}, "
            f"one in {duration(spent / max(done, 1e-9))}, about {duration(left)} left"
        )


class WatchedRows(ScaledRows):
    """Scaled events of a reference, with someone who counts them."""

    __slots__ = ("watch",)
    watch: Watch

    @classmethod
    def of(cls, rows: ScaledRows, watch: Watch) -> WatchedRows:
        """Watch these."""
        made = cls(rows.sample, rows.scaling)
        object.__setattr__(made, "watch", watch)
        return made

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[np.float64]:
        """Scale some of the events, and count them."""
        found = ScaledRows.__getitem__(self, rows)
        self.watch.count(len(found))
        return found


def run(
    n_reference: int = 10_000_000,
    batch: float = 200_000.0,
    rounds: int = 1,
    *,
    centres: int = 10_000,
    memory: int = 8 * 1024**3,
    device: Device = "cpu",
    out: Path = OUT,
) -> None:
    """Measure the rounds that the file lacks: time per fit, and the most memory there ever was."""
    shape: dict[str, Any] = {
        "n_reference": n_reference,
        "batch": batch,
        "centres": centres,
        "memory": memory,
        "device": device,
        "cores": cores(),
        "cpu": cpu_name(),
    }
    points = Points(out)
    missing = [k for k in range(rounds) if not points.knows(f"scale.round.{k}", shape)]
    if not missing:
        return
    plan = _plan(shape)
    (width,) = plan.learner.widths
    begun = time.perf_counter()
    with thread_workers():
        features = plan.learner.features(width)
    prepared = time.perf_counter() - begun
    watch = Watch(n_reference, len(missing) * PASSES)
    if features.made is not None:
        watched = WatchedRows.of(plan.learner.reference, watch)
        features = replace(features, made=replace(features.made, points=watched))
    for number in missing:
        before, begun = watch.seen, time.perf_counter()
        with thread_workers():
            t, unconverged = plan.block(features, width, number)
        spent = time.perf_counter() - begun
        fits = plan.toys_per_block * len(plan.expected)
        found = {
            "seconds": spent,
            "seconds_per_fit": spent / fits,
            "fits": fits,
            "passes": None if features.made is None else (watch.seen - before) / n_reference,
            "unconverged": unconverged,
            "prepared": prepared,
            "rank": features.rank,
            "rows": "stored" if features.made is None else "made",
            "peak": peak_and_present()[0],
            "t": t[:, :, -1].tolist(),
        }
        points.put({"name": f"scale.round.{number}", "shape": shape, **found})


def _plan(shape: dict[str, Any]) -> ReferencePlan:
    """Draw the reference, and plan toys against it."""
    study, rng = preset("cmsl1"), np.random.default_rng(1)
    source = Smeared(cmsl1.varying(cmsl1.read("sm").sample))
    reference = Sample.from_array(
        source.events(shape["n_reference"], rng), cmsl1.VARYING, name="reference"
    )
    settings = study.settings.changed(
        n_centres=shape["centres"], memory=shape["memory"], device=shape["device"]
    )
    learner = Learner.prepare(reference, settings, expected=shape["batch"], rng=rng)
    expected = np.full(study.batches, shape["batch"])
    return ReferencePlan(learner, source, "smeared", expected, seed=1)


def rounds_of(lines: Lines) -> list[dict[str, Any]]:
    """Gather the rounds that were measured, all of one shape."""
    found = [line for name, line in lines.items() if name.startswith("scale.round.")]
    return [line for line in found if line["shape"] == found[-1]["shape"]]


def section(lines: Lines) -> str:
    """Write what came out, or that nothing did yet."""
    rounds = rounds_of(lines)
    if not rounds:
        return (
            "*Not measured yet.* `python -m gofstream_studies.benchmarks scale` measures it, and "
            "`python -m gofstream_studies.benchmarks.report out/scale.jsonl` writes it here; no "
            "number exists before.\n"
        )
    return _words(rounds)


def _words(rounds: Sequence[dict[str, Any]]) -> str:
    shape, last = rounds[0]["shape"], rounds[-1]
    fits = sum(line["fits"] for line in rounds)
    each = sum(line["seconds"] for line in rounds) / fits
    share = max(line["peak"] for line in rounds) / shape["memory"]
    low, high = PAPER["cmsl1"]
    rows = "".join(
        f"| {number} | {line['fits']} | {_passes(line)} "
        f"| {duration(line['seconds'])} | {line['seconds_per_fit']:.3g} s | {line['unconverged']} "
        f"| {line['peak'] / shape['memory']:.2f} |\n"
        for number, line in enumerate(rounds, 1)
    )
    return (
        f"{amount(shape['n_reference'])} reference events in 24 dimensions, M = "
        f"{shape['centres']}, r = {last['rank']}, five batches of {amount(shape['batch'])} in each "
        f"toy, a budget of {shape['memory'] / 1024**3:.3g} GiB, {shape['cores']} cores "
        f"({shape['cpu']}, {shape['device']}); rows {last['rows']}. Preparing took "
        f"{duration(last['prepared'])}, once.\n\n"
        "| block | fits | passes | time | a batch, amortised | not converged "
        "| peak memory / budget |\n|---|---|---|---|---|---|---|\n"
        f"{rows}\n"
        f"**{each:.3g} s for the fit of a batch**, where the paper's GPU takes {low:g} to {high:g} "
        f"s; at most {WANTED_SECONDS:g} s were wanted, which "
        f"{'is met' if each <= WANTED_SECONDS else 'is **not** met'}. Resident memory peaked at "
        f"{share:.2f} of the budget; at most {WANTED_MEMORY:g} was wanted, which "
        f"{'is met' if share <= WANTED_MEMORY else 'is **not** met'}.\n"
    )


def _passes(line: dict[str, Any]) -> str:
    return "not counted" if line["passes"] is None else f"{line['passes']:.1f}"
