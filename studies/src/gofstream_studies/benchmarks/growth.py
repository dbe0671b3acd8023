"""How the cost of a fit grows: fitted exponents, and a plot of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from gofstream.datasets import expo1d
from gofstream.ratio.features import Features, prepare
from gofstream.ratio.model import LogRatios
from gofstream.ratio.solver import fit
from gofstream.statistics import all_
from gofstream_studies.bench.machine import seconds
from gofstream_studies.benchmarks.machine import emit
from gofstream_studies.repository import RESULTS

Floats = NDArray[np.float64]

OUT = RESULTS / "performance"


def run() -> None:
    """Measure every law around N_R = 100k, batch 2000, T = 16, r ≈ 50."""
    rng = np.random.default_rng(3)
    reference = expo1d.reference(400_000, rng)
    toys = [expo1d.toy(2000.0, rng) for _ in range(64)]

    def features(n_reference: int, width: float = 0.3, expected: float = 2000.0) -> Features:
        rows = reference[:n_reference]
        return prepare(rows, rows[:1000], width, penalty=1e-6, expected=expected)

    def block(made: Features, batches: list[Floats], expected: float = 2000.0) -> float:
        return seconds(lambda: fit(made, batches, [expected] * len(batches)), 3)

    base = features(100_000)
    _law(
        "reference",
        "reference events",
        [25_000, 50_000, 100_000, 200_000, 400_000],
        lambda n: block(features(n), toys[:16]) / 16,
    )
    _law(
        "batch",
        "events per batch",
        [1000, 4000, 16_000, 64_000],
        lambda n: (
            block(
                features(100_000, expected=float(n)),
                [expo1d.toy(float(n), rng) for _ in range(4)],
                float(n),
            )
            / 4
        ),
    )
    _law("fits", "fits in a block", [1, 2, 4, 8, 16, 32, 64], lambda t: block(base, toys[:t]))
    ranks: list[int] = []

    def by_rank(width: float) -> float:
        made = features(100_000, width)
        ranks.append(made.rank)
        return block(made, toys[:16]) / 16

    times = [by_rank(width) for width in (3.0, 1.0, 0.3, 0.1, 0.05)]
    _report("rank", "features r", ranks, times)
    _law("batches", "batches in the statistic `all`", [2, 4, 8, 16, 32], _statistic_time)


def _statistic_time(count: int) -> float:
    """Time of `all` on 100k reference events, every batch of 2000 events seen by every model."""
    rng = np.random.default_rng(4)
    ratios = LogRatios(
        reference=rng.normal(0, 0.1, (count, 100_000)),
        data=[rng.normal(0, 0.1, (count, 2000)) for _ in range(count)],
        expected=np.full(count, 2000.0),
        share=np.full(100_000, 1e-5),
    )
    return seconds(lambda: all_(ratios), 3)


def _law(name: str, label: str, sizes: Sequence[int], time: Callable[[int], float]) -> None:
    _report(name, label, sizes, [time(size) for size in sizes])


def _report(name: str, label: str, sizes: Sequence[int], times: Sequence[float]) -> None:
    slope, level = np.polyfit(np.log(sizes), np.log(times), 1)
    emit(
        f"growth.{name}",
        slope,
        "exponent",
        sizes=list(sizes),
        seconds=[float(f"{t:.3g}") for t in times],
    )
    _draw(name, label, sizes, times, slope, level)


def _draw(
    name: str,
    label: str,
    sizes: Sequence[int],
    times: Sequence[float],
    slope: float,
    level: float,
) -> None:
    figure = Figure(figsize=(5, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.loglog(sizes, times, "o", color="#0072B2", label="measured")
    line = np.geomspace(min(sizes), max(sizes), 50)
    axes.loglog(line, np.exp(level) * line**slope, color="#D55E00", label=f"exponent {slope:.2f}")
    axes.set_xticks(list(sizes), [f"{size:,}".replace(",", " ") for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="x", labelrotation=30)
    axes.set_xlabel(label)
    axes.set_ylabel("seconds" if name in ("fits", "batches") else "seconds per fit")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3, which="both", lw=0.5)
    OUT.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUT / f"growth-{name}.png", dpi=110)
