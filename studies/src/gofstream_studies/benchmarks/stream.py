"""A monitor at work: batches per second beside the engine's fit alone, and a very long run."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.figure import Figure

from gofstream.datasets import expo1d
from gofstream.ratio.learner import Learner
from gofstream.ratio.solver import fit
from gofstream.sample import Sample
from gofstream.settings import Settings, preset
from gofstream.stream.monitor import Monitor
from gofstream.stream.rows import Retention
from gofstream_studies.benchmarks.growth import OUT
from gofstream_studies.benchmarks.machine import emit
from gofstream_studies.datasets import dimuon5d

#: Batches that fill epoch and window beforehand, and batches that are timed.
FILLED, TIMED = 100, 20
#: The long run.
LONG, SMALL, STEP = 10_000, 500.0, 500


def run() -> None:
    """Measure EXPO-1D and DIMUON-5D, 2000 events in a batch, five widths, on one core."""
    rng = np.random.default_rng(1)
    reference = Sample.from_array(expo1d.reference(200_000, rng), name="reference")
    learner = Learner.prepare(reference, preset("expo1d").settings, expected=2000.0, rng=rng)
    batches = [Sample.from_array(expo1d.toy(2000.0, rng)) for _ in range(TIMED)]
    _sustained("expo1d", learner, batches)
    sample = dimuon5d.drell_yan()
    sample = sample.take(rng.permutation(len(sample)))
    settings = preset("dimuon5d").settings.changed(n_centres=3000)
    learner = Learner.prepare(
        sample.take(slice(0, 40_000), name="reference"), settings, expected=2000.0, rng=rng
    )
    first = 40_000
    batches = [sample.take(slice(first + 2000 * k, first + 2000 * (k + 1))) for k in range(TIMED)]
    _sustained("dimuon5d", learner, batches)


def _sustained(name: str, learner: Learner, batches: list[Sample]) -> None:
    """Time learning and applying, with a full epoch behind it, beside fits of the same batches."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.gofs"
        with Monitor.open(path, learner, None, Retention("sat")) as monitor:
            taught = monitor.learn("first", batches[0], None, 0.0)
            for k in range(FILLED):
                entry = replace(taught.entry, name=f"filled {k}")
                monitor.apply(replace(taught, entry=entry))
            learning = applying = fitting = 0.0
            for k, batch in enumerate(batches):
                began = time.perf_counter()
                taught = monitor.learn(f"batch {k}", batch, None, 0.0)
                learnt = time.perf_counter()
                monitor.apply(taught)
                applied = time.perf_counter()
                for track in monitor.position.tracks:
                    fit(track.features, [taught.events], [learner.expected])
                fitting += time.perf_counter() - applied
                learning, applying = learning + learnt - began, applying + applied - learnt
    whole = learning + applying
    events = sum(map(len, batches))
    emit(
        f"stream.{name}.sustained",
        len(batches) / whole,
        "batches/s",
        events_per_second=round(events / whole),
        seconds_learning=learning / len(batches),
        seconds_applying=applying / len(batches),
    )
    emit(f"stream.{name}.vs_fit_alone", fitting / whole, "of the speed of the fits alone")


def run_long() -> None:
    """Measure 10 000 small batches with `sat`: the file, memory and time must not grow."""
    rng = np.random.default_rng(2)
    reference = Sample.from_array(expo1d.reference(20_000, rng), name="reference")
    settings = Settings(widths=(0.3, 0.7, 1.4), n_centres=300)
    learner = Learner.prepare(reference, settings, expected=SMALL, rng=rng)
    rows: list[tuple[int, float, float, float]] = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.gofs"
        with Monitor.open(path, learner, None, Retention("sat")) as monitor:
            sizes: dict[int, int] = {}
            began = time.perf_counter()
            for k in range(1, LONG + 1):
                batch = Sample.from_array(expo1d.toy(SMALL, rng))
                monitor.apply(monitor.learn(f"batch {k}", batch, None, float(k)))
                if k == FILLED or k % STEP == 0:
                    sizes[k] = _pages(monitor)
                if k % STEP == 0:
                    seconds = (time.perf_counter() - began) / STEP
                    memory = _memory()
                    rows.append((k, sizes[k] / 1e6, memory / 1e6, 1e3 * seconds))
                    emit(
                        f"stream.long.after_{k}",
                        seconds,
                        "s/batch",
                        bytes_per_batch=(sizes[k] - sizes[FILLED]) / (k - FILLED),
                        file_bytes=sizes[k],
                        memory=memory,
                    )
                    began = time.perf_counter()
    _draw(rows)


def _draw(rows: list[tuple[int, float, float, float]]) -> None:
    """Draw the file, memory and time per batch against the number of batches."""
    batches, *columns = zip(*rows, strict=True)
    figure = Figure(figsize=(9, 3), layout="constrained")
    labels = ("size of the store (MB)", "memory (MB)", "time per batch (ms)")
    for axes, values, label in zip(figure.subplots(1, 3), columns, labels, strict=True):
        axes.plot(batches, values, "o-", color="#0072B2", ms=4)
        axes.set_xlim(0, LONG * 1.04)
        axes.set_ylim(0, 1.25 * max(values))
        axes.set_xticks([0, LONG // 2, LONG], ["0", "5 000", "10 000"])
        axes.set_xlabel("batches")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3, lw=0.5)
    figure.savefig(OUT / "stream-10k.png", dpi=110)


def _pages(monitor: Monitor) -> int:
    """Give the size of the store, were its log written back."""
    head = monitor.store.path.with_name("size.gofs")
    monitor.store.backup(head)
    size = head.stat().st_size
    head.unlink()
    return size


def _memory() -> int:
    """Give the memory that this process holds now: its peak was that of the yardsticks before."""
    resident = Path("/proc/self/statm").read_text().split()[1]
    return int(resident) * os.sysconf("SC_PAGE_SIZE")
