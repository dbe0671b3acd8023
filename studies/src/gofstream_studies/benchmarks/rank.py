"""What the rank r costs and brings: t and power against the reduction and the candidates.

The same toys are fitted with models of different size: the tolerance of the reduction from 1e-4 λ
to 10 λ, and 300 to 100 000 candidates as a user has them: 0.1 λ, and 10 λ beyond a rank of 3000;
with 10 000 also 0.1 λ throughout. Each model is a line of a file: a run that was stopped goes on
after the last. The largest models of CMS-L1 take most of the time.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gofstream.cli.progress import amount, duration
from gofstream.errors import GofstreamWarning, refuse_beyond
from gofstream.execution import cores, thread_workers
from gofstream.inference.power import Difference, power
from gofstream.inference.pvalues import empirical_p
from gofstream.ratio import centres
from gofstream.ratio.features import Features
from gofstream.ratio.learner import Learner
from gofstream.report.plots import BLACK, BLUE, GREEN, ORANGE
from gofstream.sample import Sample
from gofstream.settings import preset
from gofstream.statistics import STATISTICS
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Injected, Pool
from gofstream_studies.bench.cases import LABELS
from gofstream_studies.benchmarks.points import Lines, Points, Remaining
from gofstream_studies.datasets import cmsl1, dimuon5d
from gofstream_studies.paper.compare import difference, powers_redrawn, redraw
from gofstream_studies.repository import RESULTS

Floats = NDArray[np.float64]

OUT = Path("out/rank.jsonl")
PICTURE = RESULTS / "performance" / "rank.png"
#: Residual variances in units of λ, with `CANDIDATES` of them; the default.
TOLERANCES, CANDIDATES, DEFAULT = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0), 3000, centres.COARSE
#: Candidates, with the default tolerances; and how many also with the finer one throughout.
LADDER, THROUGHOUT = (300, 1000, 3000, 10_000, 30_000, 100_000), 10_000
#: Toys without and with signal, the events expected in one, and two sigma.
TOYS, EXPECTED, LEVEL = (200, 100), 2000.0, 0.0228
#: Enough for the largest models.
MEMORY = 8 * 1024**3
#: Candidates beyond the rows of the reference are those rows, moved by this share of a spread.
SMEAR = 0.1


@dataclass(frozen=True, slots=True)
class Model:
    """How a model is reduced.

    Attributes
    ----------
    tolerance, beyond : residual variance in units of λ, up to and beyond a rank of 3000.
    """

    candidates: int
    tolerance: float = DEFAULT
    beyond: float = centres.COARSEST


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
            0.4,
            1.9,
        ),
        Case(
            "cmsl1",
            "CMS-L1, A → 4l, σ = 10.5",
            cmsl1.varying(training.sample),
            Pool(cmsl1.varying(rest.sample)),
            Pool(cmsl1.varying(cmsl1.read("A4l").sample)),
            1.0,
            10.5,
        ),
    ]


def run(
    out: Path = OUT,
    picture: Path = PICTURE,
    *,
    toys: tuple[int, int] = TOYS,
    tolerances: Sequence[float] = TOLERANCES,
    ladder: Sequence[int] = LADDER,
    expected: float = EXPECTED,
) -> None:
    """Measure the models that the file lacks, a line for each, and draw them all."""
    points = Points(out)
    models = [each for group in series(tolerances, ladder).values() for each in group]
    wanted = {
        _name(case.name, model): (case, asdict(model) | {"toys": list(toys), "expected": expected})
        for case in cases()
        for model in models
    }
    missing = {n: each for n, each in wanted.items() if not points.knows(n, each[1])}
    remaining = Remaining(cost(shape) for _, shape in missing.values())
    for name, (case, shape) in missing.items():
        points.put({"name": name, "shape": shape, **measure(case, shape)})
        remaining.done()
    picture.parent.mkdir(parents=True, exist_ok=True)
    draw(points.lines, tolerances, ladder).savefig(picture, dpi=110)


def series(tolerances: Sequence[float], ladder: Sequence[int]) -> dict[str, list[Model]]:
    """Group the models as they are drawn."""
    found = {
        f"M = {CANDIDATES}, tolerance {min(tolerances):g} to {max(tolerances):g} λ": [
            Model(CANDIDATES, each, max(each, centres.COARSEST)) for each in tolerances
        ],
        f"M = {min(ladder)} to {max(ladder)}, as by default": [Model(count) for count in ladder],
    }
    if THROUGHOUT in ladder:
        finer = Model(THROUGHOUT, beyond=DEFAULT)
        found[f"M = {THROUGHOUT}, {DEFAULT:g} λ throughout"] = [finer]
    return found


def _name(case: str, model: Model) -> str:
    name = f"rank.{case}.tolerance={model.tolerance:g}.candidates={model.candidates}"
    return name if model.beyond == centres.COARSEST else f"{name}.beyond={model.beyond:g}"


def cost(shape: dict[str, Any]) -> float:
    """Guess what a model costs beside the others, to tell how long a run may still take.

    A finer tolerance leaves more centres, and more candidates do; the cost grows faster than their
    number.
    """
    candidates = float(shape["candidates"])
    most = 4000.0 if shape["beyond"] > shape["tolerance"] else 8000.0
    kept = min(most, candidates * (shape["tolerance"] / 1e-4) ** -0.15)
    return float(1e-3 * candidates + (kept / 1000) ** 1.5)


def measure(case: Case, shape: dict[str, Any]) -> dict[str, Any]:
    """Fit the toys of one model: its rank, mean t without signal, and power."""
    settings = preset(case.name).settings.changed(
        widths=(case.width,), n_centres=300, memory=MEMORY
    )
    rng, expected = np.random.default_rng(2), shape["expected"]
    learner = Learner.prepare(case.reference, settings, expected=expected, rng=rng)
    learner = replace(learner, candidates=_candidates(learner, shape["candidates"], rng))
    plan = ReferencePlan(learner, case.nominal, "a pool", np.array([expected]), seed=1)
    with_signal = replace(
        plan,
        source=Injected(case.nominal, case.signal, case.strength / math.sqrt(expected)),
        stream="signal",
    )
    begun = time.perf_counter()
    with (
        # Rank up to 200 would be reduced more finely.
        patch.multiple(centres, FINE_RANK=0, COARSE=shape["tolerance"], COARSEST=shape["beyond"]),
        warnings.catch_warnings(),
    ):
        # With many candidates memory may have room for fewer centres than asked for.
        warnings.simplefilter("ignore", GofstreamWarning)
        features = learner.features(case.width)
    prepared = time.perf_counter() - begun
    (null, missed), (signal, more) = (
        _toys(each, features, count)
        for each, count in zip((plan, with_signal), shape["toys"], strict=True)
    )
    seen = power(empirical_p(signal, null), LEVEL)
    return {
        "rank": features.rank,
        "mean": float(null.mean()),
        "error": float(null.std() / math.sqrt(len(null))),
        "power": seen.value,
        "low": seen.low,
        "high": seen.high,
        "unconverged": missed + more,
        "prepared": prepared,
        "seconds": time.perf_counter() - begun,
        "t": {"null": null.tolist(), "signal": signal.tolist()},
    }


def _toys(plan: ReferencePlan, features: Features, count: int) -> tuple[Floats, int]:
    """Give t of so many toys, and how many fits did not converge."""
    shared, block = plan.memory(features)
    refuse_beyond(MEMORY, shared + block, f"{features.rank} centres and one block of toys")
    with thread_workers(min(cores(), (MEMORY - shared) // block)) as executor:
        made = list(
            executor.map(
                lambda index: plan.block(features, features.width, index),
                range(-(-count // plan.toys_per_block)),
            )
        )
    single = list(STATISTICS).index("single")
    t = np.concatenate([t[:, single, 0] for t, _ in made])[:count]
    return t, sum(missed for _, missed in made)


def _candidates(learner: Learner, count: int, rng: np.random.Generator) -> Floats:
    """Give the first of one long list, so that fewer candidates are among more of them."""
    order = rng.permutation(len(learner.reference))
    more = rng.integers(len(order), size=max(0, count - len(order)))
    rows = learner.reference[np.concatenate([order, more])[:count]]
    rows[len(order) :] += SMEAR * rng.standard_normal(rows[len(order) :].shape)
    return rows


def draw(lines: Lines, tolerances: Sequence[float], ladder: Sequence[int]) -> Figure:
    """Draw t and power against the rank, for each case."""
    figure = Figure(figsize=(9.5, 6.5), layout="constrained")
    above, below = figure.subplots(2, 2, sharex="col")
    for column, case in enumerate(cases()):
        found = {
            label: [lines[_name(case.name, model)] for model in models]
            for label, models in series(tolerances, ladder).items()
        }
        _draw(above[column], below[column], case.title, found)
    shape = lines[_name(case.name, Model(ladder[0]))]["shape"]
    above[0].set_ylabel("mean t of toys without signal")
    below[0].set_ylabel(f"power at p ≤ {LEVEL:g} (bars: 95 %)")
    figure.suptitle(
        f"{shape['toys'][0]} toys without and {shape['toys'][1]} with signal, of "
        f"{shape['expected']:.0f} events; ringed: the default with M = {CANDIDATES}"
    )
    return figure


def _draw(above: Any, below: Any, title: str, found: dict[str, list[dict[str, Any]]]) -> None:
    above.set_title(title)
    looks = ((BLUE, "o-", 0.99), (ORANGE, "s-", 1.01), (GREEN, "D", 1.0))
    for (label, points), (colour, marker, shift) in zip(found.items(), looks, strict=False):
        points = sorted(points, key=lambda point: point["rank"])
        rank = np.array([point["rank"] for point in points]) * shift
        mean, error = [p["mean"] for p in points], [p["error"] for p in points]
        above.errorbar(rank, mean, error, fmt=marker, ms=4, color=colour, label=label)
        seen, low, high = np.array([(p["power"], p["low"], p["high"]) for p in points]).T
        below.errorbar(rank, seen, [seen - low, high - seen], fmt=marker, ms=4, color=colour)
        for place, point in zip(rank, points, strict=True):
            shape = point["shape"]
            if (shape["tolerance"], shape["candidates"]) == (DEFAULT, CANDIDATES):
                for axes, height in ((above, point["mean"]), (below, point["power"])):
                    axes.plot(place, height, "o", ms=11, mfc="none", color=BLACK)
    above.legend(fontsize=8, frameon=False)
    below.set_xlabel("centres kept, r")
    below.set_ylim(0, 1)
    for axes in (above, below):
        axes.set_xscale("log")
        axes.set_xticks((300, 1000, 3000, 10_000), ("300", "1000", "3000", "10 000"))
        axes.tick_params(which="minor", labelbottom=False)
        axes.set_xlim(250, 12_000)
        axes.grid(alpha=0.3, which="both", lw=0.5)


def section(lines: Lines) -> str:
    """Write a table of all models, or that not all have been fitted."""
    found = [line for name, line in lines.items() if name.startswith("rank.")]
    if not found:
        return (
            "*Not measured yet.* `python -m gofstream_studies.benchmarks rank` measures it, and "
            "`python -m gofstream_studies.benchmarks.report out/rank.jsonl` writes it here; no "
            "number exists before.\n"
        )
    rows = ""
    for line in sorted(found, key=lambda line: (line["name"].split(".")[1], line["rank"])):
        shape = line["shape"]
        beyond = ""
        if shape["beyond"] == shape["tolerance"]:
            beyond = " throughout"
        elif line["rank"] > centres.COARSE_RANK:
            beyond = f", then {shape['beyond']:g} λ"
        rows += (
            f"| {LABELS[line['name'].split('.')[1]]} | {shape['tolerance']:g} λ{beyond} "
            f"| {amount(shape['candidates'])} | {line['rank']} "
            f"| {line['mean']:.1f} ± {line['error']:.1f} "
            f"| {line['power']:.2f} ({line['low']:.2f} to {line['high']:.2f}) "
            f"| {duration(line['seconds'])} |\n"
        )
    return (
        f"Power at p ≤ {LEVEL:g} with its 95 % interval; the same toys for all models of a data "
        "set; time with what was prepared, on all cores.\n\n"
        "| | tolerance | candidates M | rank r | mean t without signal | power | time |\n"
        f"|---|---|---|---|---|---|---|\n{rows}\n{losses(lines)}\n"
        "![t and power against the number of centres](performance/rank.png)\n"
    )


def losses(lines: Lines) -> str:
    """Say what the default costs against finer reductions of the same candidates."""
    pairs = [
        (Model(CANDIDATES), Model(CANDIDATES, min(TOLERANCES))),
        (Model(THROUGHOUT), Model(THROUGHOUT, beyond=DEFAULT)),
    ]
    text = ""
    for name in ("dimuon5d", "cmsl1"):
        for pair in pairs:
            default, finer = (lines[_name(name, model)] for model in pair)
            if default["rank"] == finer["rank"]:
                continue  # the default is the finer one
            found = loss(default, finer)
            verdict = "nothing is lost that these toys can tell"
            if found.high < 0:
                verdict = "**power is lost**"
            text += (
                f"- {LABELS[name]}, M = {pair[0].candidates}: by default r = {default['rank']} "
                f"instead of {finer['rank']}, and the power changes by {found.value:+.2f} "
                f"({found.low:+.2f} to {found.high:+.2f}, paired): {verdict}.\n"
            )
    return text


def loss(default: dict[str, Any], finer: dict[str, Any]) -> Difference:
    """Power of one model minus that of another, on the same toys, with its 95 % interval."""
    draws = redraw(len(default["t"]["null"]))
    p, redrawn = [], []
    for line in (default, finer):
        null, signal = (np.array(line["t"][each])[:, None] for each in ("null", "signal"))
        p.append(empirical_p(signal[:, 0], null[:, 0]))
        redrawn.append(powers_redrawn(null, signal, draws, LEVEL))
    return difference(p[0], p[1], redrawn[0] - redrawn[1], LEVEL)
