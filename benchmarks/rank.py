"""What the rank r costs and brings: t and power against the reduction and the candidates.

The same toys are fitted with models of different size: the tolerance of the reduction from 1e-4 λ
to 10 λ, and 300 to 100 000 candidates at the default 0.1 λ. Toys are kept in files, two for each
model: a run that is stopped goes on from there. On two free cores it takes about an hour, most of
it for the largest models of CMS-L1.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.machine import emit
from gofstream.datasets import cmsl1, dimuon5d
from gofstream.errors import GofstreamWarning
from gofstream.execution import thread_workers
from gofstream.inference.null import NullFile
from gofstream.inference.power import Power, power
from gofstream.inference.pvalues import LAWS, p_value
from gofstream.ratio import centres
from gofstream.ratio.learner import Learner
from gofstream.sample import Sample
from gofstream.settings import preset
from gofstream.toys.farm import Job
from gofstream.toys.farm import run as run_farm
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Injected, Pool

Floats = NDArray[np.float64]

PICTURE = Path(__file__).parents[1] / "docs" / "performance" / "rank.png"
#: Residual variances in units of λ, with `CANDIDATES` of them; the default.
TOLERANCES, CANDIDATES, DEFAULT = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0), 3000, 0.1
#: Candidates, at the default tolerance.
LADDER = (300, 1000, 3000, 10_000, 30_000, 100_000)
#: Toys without and with signal, the events expected in one, and two sigma.
TOYS, EXPECTED, LEVEL = (200, 100), 2000.0, 0.0228
#: Enough for the largest models.
MEMORY = 8 * 1024**3
#: Candidates beyond the rows of the reference are those rows, moved by this share of a spread.
SMEAR = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A reference, and toys without and with signal.

    Attributes
    ----------
    strength : N(S) / √N(R).
    """

    name: str
    title: str
    reference: Sample
    nominal: Pool
    signal: Pool
    strength: float
    width: float


@dataclass(frozen=True, slots=True)
class Point:
    """One model: how it was made, its rank, and what it found."""

    tolerance: float
    candidates: int
    rank: int
    mean: float
    error: float
    seen: Power
    seconds: float


def cases() -> list[Case]:
    """DIMUON-5D with a Z' of 300 GeV, and CMS-L1 with A → 4l: the samples shipped."""
    rng = np.random.default_rng(1)
    muons = dimuon5d.drell_yan()
    order = rng.permutation(len(muons))
    training, rest = cmsl1.split(cmsl1.read("sm"), 20_000, rng)
    return [
        Case(
            "dimuon5d",
            "DIMUON-5D, Z' of 300 GeV, σ = 1.9",
            muons.take(np.sort(order[:40_000])),
            Pool(muons.take(np.sort(order[40_000:]))),
            Pool(dimuon5d.read("zprime300")),
            3.5,
            1.9,
        ),
        Case(
            "cmsl1",
            "CMS-L1, A → 4l, σ = 10.5",
            cmsl1.varying(training.sample),
            Pool(cmsl1.varying(rest.sample)),
            Pool(cmsl1.varying(cmsl1.read("A4l").sample)),
            2.0,
            10.5,
        ),
    ]


def run(
    folder: Path = Path("out") / "rank",
    picture: Path = PICTURE,
    *,
    toys: tuple[int, int] = TOYS,
    tolerances: Sequence[float] = TOLERANCES,
    ladder: Sequence[int] = LADDER,
    expected: float = EXPECTED,
) -> None:
    """Print a line for each model, and draw them all."""
    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(9.5, 6.5), layout="constrained")
    above, below = figure.subplots(2, 2, sharex="col")
    for column, case in enumerate(cases()):
        models = [(each, CANDIDATES) for each in tolerances]
        models += [(DEFAULT, count) for count in ladder]
        found: dict[tuple[float, int], Point] = {}
        for tolerance, count in dict.fromkeys(models):
            found[tolerance, count] = _point(case, tolerance, count, folder, toys, expected)
        series = {
            f"M = {CANDIDATES}, tolerance {min(tolerances):g} to {max(tolerances):g} λ": [
                found[each, CANDIDATES] for each in tolerances
            ],
            f"{DEFAULT:g} λ, M = {min(ladder)} to {max(ladder)}": [
                found[DEFAULT, count] for count in ladder
            ],
        }
        _draw(above[column], below[column], case.title, series)
    above[0].set_ylabel("mean t of toys without signal")
    below[0].set_ylabel(f"power at p ≤ {LEVEL:g} (bars: 95 %)")
    figure.suptitle(
        f"{toys[0]} toys without and {toys[1]} with signal, of {expected:.0f} events; ringed: "
        f"{DEFAULT:g} λ, M = {CANDIDATES}"
    )
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=110)


def _point(
    case: Case,
    tolerance: float,
    count: int,
    folder: Path,
    toys: tuple[int, int],
    expected: float,
) -> Point:
    """Make the toys of one model, or read them."""
    settings = preset(case.name).settings.changed(
        widths=(case.width,), n_centres=300, memory=MEMORY
    )
    rng = np.random.default_rng(2)
    learner = Learner.prepare(case.reference, settings, expected=expected, rng=rng)
    learner = replace(learner, candidates=_candidates(learner, count, rng))
    plan = ReferencePlan(learner, case.nominal, "a pool", np.array([expected]), seed=1)
    with_signal = replace(
        plan,
        source=Injected(case.nominal, case.signal, case.strength / math.sqrt(expected)),
        source_name=f"a pool with signal, {case.strength:g} times the root of N(R)",
        stream="signal",
    )
    tag = f"{case.name}-{tolerance:g}-{count}"
    begun, jobs = time.perf_counter(), []
    with (
        # Rank up to 200 would be reduced more finely.
        patch.object(centres, "FINE_RANK", 0),
        patch.object(centres, "COARSE", tolerance),
        warnings.catch_warnings(),
        thread_workers() as executor,
    ):
        # With many candidates memory may have room for fewer centres than asked for.
        warnings.simplefilter("ignore", GofstreamWarning)
        rank = learner.features(case.width).rank
        for each, number in ((plan, toys[0]), (with_signal, toys[1])):
            file = NullFile(folder / f"{tag}-{each.stream}.null", each.about())
            jobs.append((file, number, Job(each, number, file)))
        run_farm([job for _, _, job in jobs], executor)
    null, signal = (file.load(number).statistic("single")[:, 0] for file, number, _ in jobs)
    seen = power([p_value(float(t), null, LAWS["single"]).p for t in signal], LEVEL)
    point = Point(
        tolerance,
        count,
        rank,
        float(null.mean()),
        float(null.std() / math.sqrt(len(null))),
        seen,
        time.perf_counter() - begun,
    )
    emit(
        f"rank.{case.name}.tolerance={tolerance:g}.candidates={count}",
        point.seen.value,
        f"power at p <= {LEVEL:g}",
        rank=rank,
        low=seen.low,
        high=seen.high,
        mean_t=point.mean,
        error_t=point.error,
        toys=toys,
        seconds=round(point.seconds, 1),
    )
    return point


def _candidates(learner: Learner, count: int, rng: np.random.Generator) -> Floats:
    """Give the first of one long list, so that fewer candidates are among more of them."""
    order = rng.permutation(len(learner.reference))
    more = rng.integers(len(order), size=max(0, count - len(order)))
    rows = learner.reference[np.concatenate([order, more])[:count]]
    rows[len(order) :] += SMEAR * rng.standard_normal(rows[len(order) :].shape)
    return rows


def _draw(above: Any, below: Any, title: str, series: dict[str, list[Point]]) -> None:
    above.set_title(title)
    for (label, points), colour, shift in zip(
        series.items(), ("#0072B2", "#D55E00"), (0.99, 1.01), strict=True
    ):
        points = sorted(points, key=lambda point: point.rank)
        rank = np.array([point.rank for point in points]) * shift
        mean, error = [p.mean for p in points], [p.error for p in points]
        above.errorbar(rank, mean, error, fmt="o-", ms=4, color=colour, label=label)
        values = np.array([(p.seen.value, p.seen.low, p.seen.high) for p in points]).T
        bars = [values[0] - values[1], values[2] - values[0]]
        below.errorbar(rank, values[0], bars, fmt="o-", ms=4, color=colour)
        for place, point in zip(rank, points, strict=True):
            if (point.tolerance, point.candidates) == (DEFAULT, CANDIDATES):
                for axes, height in ((above, point.mean), (below, point.seen.value)):
                    axes.plot(place, height, "o", ms=11, mfc="none", color="black")
    above.legend(fontsize=8, frameon=False)
    below.set_xlabel("centres kept, r")
    below.set_ylim(0, 1)
    for axes in (above, below):
        axes.set_xscale("log")
        axes.grid(alpha=0.3, which="both", lw=0.5)
