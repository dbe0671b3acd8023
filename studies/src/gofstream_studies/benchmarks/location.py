"""Whether the scan says where: the true centre of a peak, and the best window of each toy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gofstream.datasets.expo1d import SIGNALS
from gofstream.files import write_whole
from gofstream.inference.pvalues import binomial_interval, empirical_p
from gofstream.inference.study import PowerStudy, signal_stream
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.scan.grid import ScanGrid
from gofstream.scan.region import HALF
from gofstream.scan.where import windows_of
from gofstream.toys.plan import draw_toy
from gofstream.toys.scanning import scan_set
from gofstream.toys.sources import Source
from gofstream_studies.benchmarks.machine import emit
from gofstream_studies.paper import expo1d
from gofstream_studies.paper.experiment import Context
from gofstream_studies.paper.splits import Splits

Floats = NDArray[np.float64]

#: A one-sided three sigma: what is fainter need not be found where it is.
HIGH = float(stats.norm.sf(3))
#: The signals with a centre, and how often it must be found.
PEAKS, OFTEN = ("narrow", "tail", "bulk"), 0.9
#: Toys of one task.
TOGETHER = 20


@dataclass(frozen=True, slots=True)
class Located:
    """The best window of one toy; a tail has no centre."""

    toy: int
    t: float
    centre: float | None
    width: float | None

    def at(self, true: float) -> bool:
        """Tell whether the true centre lies within one width of the window's."""
        if self.centre is None or self.width is None:
            return False
        return abs(self.centre - true) <= self.width


def scanned(splits: Splits, context: Context) -> PowerStudy[str]:
    """Make toys with the scan, in the largest number of batches alone; as the paper's are."""
    one = largest(splits)
    return one.compare(context).studies[one.parts]


def largest(splits: Splits) -> Splits:
    """Leave out all but the largest number of batches; toys are still drawn in as many parts."""
    return replace(splits, settings={splits.parts: splits.settings[splits.parts]}, with_scan=True)


def five_signals(context: Context) -> Splits:
    """Take EXPO-1D with each signal at one strength."""
    splits = expo1d.splits(context)
    once = {name: source for name, source in splits.alternatives.items() if name in SIGNALS}
    return replace(splits, alternatives=once)


def run(context: Context) -> None:
    """Locate every toy above three sigma, of every peak."""
    splits = largest(five_signals(context))
    study = scanned(splits, context)
    plan = splits.plan(splits.parts, context.seed)
    (scan,) = [which for which in plan.passes if not isinstance(which, float)]
    grid = plan.shared(scan)
    content = {}
    for name in PEAKS:
        t = study.signals[name].statistic("scan")[:, 0]
        seen = np.flatnonzero(empirical_p(t, study.null.statistic("scan")[:, 0]) <= HIGH)
        tasks = [
            context.executor.submit(
                locate,
                plan.learner,
                grid,
                splits.sources[name],
                plan.expected,
                (context.seed, signal_stream(name)),
                toys.tolist(),
            )
            for toys in np.array_split(seen, -(-len(seen) // TOGETHER) or 1)
        ]
        found = [each for task in tasks for each in task.result()]
        for each in found:  # these are the toys that were judged, or nothing is worth anything
            np.testing.assert_allclose(each.t, t[each.toy], rtol=1e-9)
        true = SIGNALS[name].mean
        assert true is not None
        share, low, high = often(found, true)
        emit(
            f"location.{name}",
            share,
            "of toys above three sigma have the true centre within one width of the best window's",
            low=low,
            high=high,
            toys=len(found),
            of=len(t),
            wanted=OFTEN,
        )
        content[name] = {"true": true, "toys": [asdict(each) for each in found]}
    context.out.mkdir(parents=True, exist_ok=True)
    write_whole(context.out / "location.json", json.dumps(content, indent=1) + "\n")


def often(found: Sequence[Located], true: float) -> tuple[float, float, float]:
    """Tell in which share of toys the true centre was found, with its 95 % interval."""
    hits = sum(each.at(true) for each in found)
    low, high = binomial_interval(hits, len(found)) if found else (0.0, 1.0)
    return hits / max(1, len(found)), low, high


def locate(
    learner: Learner,
    grid: ScanGrid,
    source: Source,
    expected: Floats,
    stream: tuple[int, str],
    toys: list[int],
) -> list[Located]:
    """Scan toys once more, and give the best window of each."""
    found = []
    for toy in toys:
        batches = draw_toy(learner, source, expected, (*stream, toy))
        summary = scan_set(grid, batches, expected)
        # One plain column: what was scaled goes back by its shift and scale.
        scaling = learner.scaling
        data = [
            Sample.from_array(x * scaling.scale + scaling.shift, scaling.columns) for x in batches
        ]
        windows = windows_of(summary.summary, scaling, data, learner.sample)
        place = windows[0].places[0] if windows and windows[0].shape == "bump" else None
        centre = width = None
        if place is not None and place.low is not None and place.high is not None:
            centre, width = (place.low + place.high) / 2, (place.high - place.low) / (2 * HALF)
        found.append(Located(toy, float(summary.t[-1]), centre, width))
    return found
