"""Alarms of streams that are looked at after every batch: false ones, true ones, and dates."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gofstream.datasets import expo1d
from gofstream.inference.pvalues import binomial_interval
from gofstream.inference.scale import FAMILIES
from gofstream.inference.sequential import Boundary
from gofstream.ratio.learner import Learner
from gofstream.ratio.solver import fit
from gofstream.sample import Sample
from gofstream.settings import Settings
from gofstream.stream.streams import StreamPlan, calibrate_alarms, null_streams
from gofstream.stream.track import Track
from gofstream.toys.plan import draw_toy
from gofstream.toys.sources import Injected, Simulator, Source
from gofstream_studies.validation.checks import Check, hit_law

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]

#: The false-alarm probability of an epoch that is asked for.
ALPHA = 0.05
#: A date is good if it is off by less than so many batches.
GOOD_DATE = 10


@dataclass(frozen=True, slots=True)
class StreamSize:
    """How large the case is.

    Attributes
    ----------
    n_reference, expected : N_R, and N(R) of a batch.
    streams_a, streams_b : null streams for the scale and for the boundary.
    streams : null streams that are looked at.
    with_signal : streams with a signal from step ``begins`` of the epoch on.
    signal, fraction : which one, and its strength.
    """

    n_reference: int = 20_000
    expected: float = 500.0
    centres: int = 300
    widths: tuple[float, ...] = (0.1, 0.7, 3.0)
    epoch: int = 100
    window: int = 20
    streams_a: int = 500
    streams_b: int = 1000
    streams: int = 1000
    with_signal: int = 200
    signal: str = "bulk"
    fraction: float = 0.02
    begins: int = 50


@dataclass(frozen=True, slots=True)
class SwitchedOn:
    """Nominal batches, and from one of them on batches with a signal."""

    nominal: Source
    signal: Source
    fraction: float
    first: int

    def draw(
        self, expected: Floats, rng: np.random.Generator, *, fixed: bool = False
    ) -> list[Floats]:
        """Draw both kinds."""
        later = Injected(self.nominal, self.signal, self.fraction)
        return [
            *self.nominal.draw(expected[: self.first], rng, fixed=fixed),
            *later.draw(expected[self.first :], rng, fixed=fixed),
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Alarms:
    """What was found: (streams,) the step of the first alarm of each stream, 0 for none.

    Attributes
    ----------
    quiet, naive : of null streams, with the boundary, and with p ≤ α at every look.
    found : of streams with a signal.
    dated : for those found, the step at which the anomaly is said to begin.
    highest : (streams, H) the largest u of every look at null streams, for the picture.
    signal : the same for streams with a signal.
    """

    size: StreamSize
    boundary: Boundary
    quiet: NDArray[np.int64]
    naive: NDArray[np.int64]
    found: NDArray[np.int64]
    dated: NDArray[np.int64]
    highest: Floats
    signal: Floats

    @property
    def true(self) -> NDArray[np.bool_]:
        """Which streams with a signal alarm when it is there."""
        return np.asarray(self.found >= self.size.begins)

    @property
    def errors(self) -> NDArray[np.int64]:
        """By how many batches the dates are late; negative if early."""
        return np.asarray(self.dated[self.true] - self.size.begins)

    def checks(self) -> list[Check]:
        """Check the alarms: as many false ones as promised, half of the signals found and dated."""
        found, good = self.true, np.abs(self.errors) < GOOD_DATE
        return [
            self.false_alarms(self.quiet),
            _at_least_half("signals found", found),
            _at_least_half(f"found ones dated to less than {GOOD_DATE} batches", good),
        ]

    def false_alarms(self, first: NDArray[np.int64]) -> Check:
        """Check that no more, nor fewer, null streams alarm than is promised."""
        hits, count = int(np.count_nonzero(first)), len(first)
        law = hit_law(count, self.boundary.streams, self.boundary.alpha)
        more, fewer = float(law[hits:].sum()), float(law[: hits + 1].sum())
        return Check("false alarms", f"{hits} of {count}", min(1.0, 2 * min(more, fewer)))

    def summary(self) -> dict[str, Any]:
        """Give the numbers to report."""
        delays = self.found[self.true] - self.size.begins
        return {
            "size": asdict(self.size),
            "alpha": self.boundary.alpha,
            "boundary": self.boundary.level,
            "root": dict(zip(FAMILIES, self.boundary.scale.root, strict=True)),
            "promised": asdict(self.boundary.false_alarms),
            "false alarms": _share(self.quiet > 0),
            "allowed": 3 * (2 * ALPHA * (1 - ALPHA) / len(self.quiet)) ** 0.5,
            "naive false alarms": _share(self.naive > 0),
            "found": _share(self.true),
            "median delay": float(np.median(delays)) if len(delays) else None,
            "median dating error": float(np.median(np.abs(self.errors))) if len(delays) else None,
            "dating errors": self.errors.tolist(),
        }


def _at_least_half(what: str, which: NDArray[np.bool_]) -> Check:
    hits = int(np.count_nonzero(which))
    p = stats.binomtest(hits, len(which), 0.5, alternative="less").pvalue if len(which) else 0.0
    return Check(what, f"{hits} of {len(which)}", float(p))


def _share(which: NDArray[np.bool_]) -> dict[str, float]:
    hits = int(np.count_nonzero(which))
    low, high = binomial_interval(hits, len(which))
    return {"rate": hits / len(which), "low": low, "high": high}


def stream_plan(size: StreamSize, seed: int) -> StreamPlan:
    """Draw a reference, and plan null streams of EXPO-1D."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0]))
    reference = Sample.from_array(expo1d.reference(size.n_reference, rng), name="reference")
    settings = Settings(n_centres=size.centres, widths=size.widths)
    learner = Learner.prepare(reference, settings, expected=size.expected, rng=rng)
    source = Simulator(expo1d.reference)
    return StreamPlan(learner, source, "expo1d", seed, epoch=size.epoch, window=size.window)


def with_signal(plan: StreamPlan, size: StreamSize) -> StreamPlan:
    """Plan the same streams with a signal that begins in the middle of the epoch."""
    signal = Simulator(expo1d.SIGNALS[size.signal].draw)
    first = size.window + size.begins - 1
    return replace(
        plan,
        source=SwitchedOn(plan.source, signal, size.fraction, first),
        source_name=f"expo1d, {size.signal} {size.fraction:g} from step {size.begins}",
        stream="signal",
    )


def measure(
    size: StreamSize, seed: int, folder: Path, executor: Executor, progress: Progress
) -> Alarms:
    """Calibrate, and look at null streams and at streams with a signal."""
    plan = stream_plan(size, seed)
    other = with_signal(plan, size)

    def made(which: StreamPlan, count: int, name: str) -> Floats:
        return null_streams(which, count, folder / f"{name}.null", executor, progress=progress).t

    boundary = calibrate_alarms(
        plan,
        ALPHA,
        folder,
        executor,
        streams_a=size.streams_a,
        streams_b=size.streams_b,
        progress=progress,
    )
    b = made(replace(plan, stream="stream B"), size.streams_b, "b")
    nominal = made(replace(plan, stream="looked at"), size.streams, "nominal")
    signal = made(other, size.with_signal, f"{size.signal}-{size.fraction:g}")
    highest, with_it = _highest(boundary, nominal), _highest(boundary, signal)
    found = _first(with_it > boundary.level)
    true = np.flatnonzero(found >= size.begins)
    jobs = [executor.submit(_begin, other, boundary, int(k), int(found[k])) for k in true]
    dated = np.zeros_like(found)
    dated[true] = [job.result() for job in jobs]
    return Alarms(
        size=size,
        boundary=boundary,
        quiet=_first(highest > boundary.level),
        naive=_first(_naive(_highest(boundary, b), highest) <= ALPHA),
        found=found,
        dated=dated,
        highest=highest,
        signal=with_it,
    )


def _highest(boundary: Boundary, t: Floats) -> Floats:
    """Give the largest u of every look: (streams, H)."""
    return np.asarray(boundary.scale.u(t).max(axis=(1, 2)))


def _first(crossed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Give the step of the first crossing of every stream, 0 for none."""
    return np.where(crossed.any(axis=1), crossed.argmax(axis=1) + 1, 0)


def _naive(null: Floats, seen: Floats) -> Floats:
    """Give the p-value of every look, right for one that was chosen beforehand."""
    p = np.empty_like(seen)
    for step in range(seen.shape[1]):
        beyond = len(null) - np.searchsorted(np.sort(null[:, step]), seen[:, step], side="left")
        p[:, step] = (1 + beyond) / (1 + len(null))
    return p


def _begin(plan: StreamPlan, boundary: Boundary, number: int, step: int) -> int:
    """Draw a stream anew up to its alarm, and say at which step its anomaly begins."""
    learner, settings = plan.learner, plan.learner.settings
    drawn = draw_toy(learner, plan.source, plan.expected, (plan.seed, plan.stream, number))
    batches = drawn[: plan.window + step]
    stretches = []
    for width in learner.widths:
        features = learner.features(width)
        done = fit(features, batches, plan.expected[: len(batches)])
        track = Track.begin(features, epoch=plan.epoch, window=plan.window, shrink=settings.shrink)
        for kept, events in zip(features.coefficients(done.z).T, batches, strict=True):
            track, _ = track.add(kept, learner.expected, events)
        stretches.append(track.stretches())
    return step + 1 - boundary.date(np.stack(stretches, axis=1)).batches
