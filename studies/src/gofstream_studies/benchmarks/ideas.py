"""What else might see more: ideas, tuned on three signals of a data set and judged on the others.

`python -m gofstream_studies.benchmarks.ideas expo1d dimuon5d` computes what every idea needs on the
same toys, a line of a file for some of them at a time: a run that was stopped goes on.
`python -m gofstream_studies.benchmarks.ideas write` puts what came out into docs/results/reach.md.

An idea takes the place of a default verdict, or of a part of it. It is *kept* if it gains on the
signals that it was tuned on and on those that it was not: both times the 95 % interval of its gain
in power, averaged over the signals, lies above zero.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from gofstream.datasets import expo1d
from gofstream.inference.combine import combined_p
from gofstream.inference.power import Difference
from gofstream.ratio import centres, features
from gofstream.ratio.features import Features
from gofstream.ratio.kernel import gaussian
from gofstream.ratio.learner import Learner
from gofstream.ratio.model import LogRatios
from gofstream.ratio.solver import fit
from gofstream.sample import Sample
from gofstream.scan.grid import RULE
from gofstream.settings import preset
from gofstream.statistics import all_, likelihood_ratio, log_mean_exp, next_, sat
from gofstream.toys.plan import draw_toy
from gofstream.toys.scanning import ScanPass, scan_sets
from gofstream.toys.sources import Injected, Pool, Simulator, Source, split_off_pool
from gofstream_studies.bench.cases import LABELS
from gofstream_studies.benchmarks.points import Lines, Points, Remaining, read_lines
from gofstream_studies.benchmarks.report import filled
from gofstream_studies.datasets import dimuon5d
from gofstream_studies.paper.compare import difference, powers_redrawn, redraw
from gofstream_studies.paper.dimuon5d import QUICK_CENTRES, QUICK_REFERENCE, alternative
from gofstream_studies.paper.dimuon5d import SHRINK as DIMUON_SHRINK
from gofstream_studies.paper.expo1d import SHRINK
from gofstream_studies.repository import RESULTS

Floats = NDArray[np.float64]

OUT = Path("out")
PAGE = RESULTS / "reach.md"
#: Toys without and with each signal, and in a line.
TOYS, CHUNK = (400, 100), 20
#: The stream of toys without a signal.
NULL = "null"
#: Signals that one may look at while an idea takes shape; the others judge it.
TUNED = {
    "expo1d": ("bulk", "narrow", "excess"),
    "dimuon5d": ("zprime200-5e-3", "zprime300-2.5e-3", "eft-cw1"),
}
#: b of `next`, averaged over; penalties, in units of the usual one; widths whose kernels are added.
SHRINKS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
PENALTIES = (0.1, 10.0, 100.0, 1000.0)
ADDED = slice(0, None, 2)


@dataclass(frozen=True, slots=True)
class Idea:
    """What is tried.

    Attributes
    ----------
    instead_of, tried : columns of t that are combined by the smallest p, before and after.
    only : the data set it makes sense for, if there is but one.
    """

    name: str
    instead_of: tuple[str, ...]
    tried: tuple[str, ...]
    only: str = ""


PATH = tuple(f"all, penalty x {factor:g}" for factor in PENALTIES)
IDEAS = (
    Idea(
        "b of `next` averaged over a grid", ("sat", "next", "scan"), ("sat", "next, any b", "scan")
    ),
    Idea("each batch tested by the mean of the others", ("all", "scan"), ("all, others", "scan")),
    Idea("geometric mean of the ratios", ("all", "scan"), ("all, geometric", "scan")),
    Idea("batches weighed by how surprising they are", ("all", "scan"), ("all, weighed", "scan")),
    Idea("a path of five penalties", ("all", "scan"), ("all", *PATH, "scan")),
    Idea("ten times the penalty", ("all", "scan"), (PATH[1], "scan")),
    Idea("a hundred times the penalty", ("all", "scan"), (PATH[2], "scan")),
    Idea("a sum of kernels, for all widths", ("all", "scan"), ("all, kernels added", "scan")),
    Idea(
        "a sum of kernels, beside the widths",
        ("all", "scan"),
        ("all", "all, kernels added", "scan"),
    ),
    Idea("the mass as a sixth column", ("all", "scan"), ("all, mass", "scan, mass"), "dimuon5d"),
    Idea("the mass, in the scan alone", ("all", "scan"), ("all", "scan, mass"), "dimuon5d"),
)


# -- what is computed of a toy --------------------------------------------------------------------


def others(ratios: LogRatios) -> float:
    """Test each batch with the aggregate of all others."""
    total, count = 0.0, len(ratios.data)
    for j in range(count):
        rest = np.arange(count) != j
        expected = ratios.expected[rest]
        total += likelihood_ratio(
            log_mean_exp(ratios.reference[rest], expected),
            log_mean_exp(ratios.data[j][rest], expected),
            ratios.expected[j],
            ratios.share,
        )
    return total


def geometric(ratios: LogRatios) -> float:
    """Test all batches with the mean of f in place of the logarithm of the mean of e^f."""
    weights = ratios.expected / ratios.expected.sum()
    f = weights @ ratios.reference
    return sum(
        likelihood_ratio(f, weights @ ratios.data[j], ratios.expected[j], ratios.share)
        for j in range(len(ratios.data))
    )


def weighed(ratios: LogRatios) -> float:
    """Test all batches with an aggregate in which batch i weighs N_i(R) e^{t_i / 8}, t its own."""
    own = np.array(
        [
            likelihood_ratio(
                ratios.reference[i], ratios.data[i][i], ratios.expected[i], ratios.share
            )
            for i in range(len(ratios.data))
        ]
    )
    weights = ratios.expected * np.exp((own - own.max()) / 8)
    f = log_mean_exp(ratios.reference, weights)
    return sum(
        likelihood_ratio(f, log_mean_exp(on, weights), number, ratios.share)
        for on, number in zip(ratios.data, ratios.expected, strict=True)
    )


def any_shrink(ratios: LogRatios) -> float:
    """Average the likelihood ratios of `next` over b: 2 log mean_b e^{t_b / 2}."""
    half = np.array([next_(ratios, b) for b in SHRINKS]) / 2
    return 2 * float(np.logaddexp.reduce(half) - math.log(len(half)))


#: All that follows from the models of a toy.
OF_MODELS: Mapping[str, Callable[[LogRatios], float]] = {
    "all": all_,
    "sat": sat,
    "next": next_,
    "next, any b": any_shrink,
    "all, others": others,
    "all, geometric": geometric,
    "all, weighed": weighed,
}


# -- data sets ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class WithMass:
    """Another source, with the logarithm of the mass of the two muons as one more column."""

    source: Source

    def draw(
        self, expected: Floats, rng: np.random.Generator, *, fixed: bool = False
    ) -> list[Floats]:
        """Draw a data set."""
        return [with_mass(x) for x in self.source.draw(expected, rng, fixed=fixed)]


def with_mass(x: Floats) -> Floats:
    """Append log m."""
    return np.column_stack([x, np.log(dimuon5d.mass(Sample.from_array(x, dimuon5d.COLUMNS)))])


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A reference, made ready, with sources of toys without (`NULL`) and with signals."""

    name: str
    learner: Learner
    expected: Floats
    sources: Mapping[str, Source]

    def toys(self, stream: str, first: int, count: int) -> list[list[Floats]]:
        """Draw toys; the same from sources that differ by a column."""
        return [
            draw_toy(self.learner, self.sources[stream], self.expected, (1, stream, n))
            for n in range(first, first + count)
        ]


def expo1d_task() -> Task:
    """EXPO-1D as in the paper's experiments, quick version: 8 batches."""
    study, rng = preset("expo1d"), np.random.default_rng(1)
    nominal = Simulator(expo1d.reference)
    sources: dict[str, Source] = {NULL: nominal}
    for name, signal in expo1d.SIGNALS.items():
        fraction = signal.fraction * math.sqrt(SHRINK)
        sources[name] = Injected(nominal, Simulator(signal.draw), fraction)
    reference = Sample.from_array(expo1d.reference(study.n_reference // SHRINK, rng))
    expected = np.full(study.batches, study.expected / SHRINK / study.batches)
    learner = Learner.prepare(reference, study.settings, expected=expected[0], rng=rng)
    return Task("expo1d", learner, expected, sources)


def dimuon5d_task() -> Task:
    """DIMUON-5D as in the paper's experiments, quick version: 4 batches."""
    study, rng = preset("dimuon5d"), np.random.default_rng(1)
    sample = dimuon5d.drell_yan()
    reference, rest = split_off_pool(sample, len(sample) - QUICK_REFERENCE, rng)
    pool, grown = Pool(rest), math.sqrt(DIMUON_SHRINK)
    sources: dict[str, Source] = {NULL: pool}
    for name, benchmark in dimuon5d.BENCHMARKS.items():
        sources[name] = alternative(benchmark, pool, None, grown)
    expected = np.full(study.batches, study.expected / DIMUON_SHRINK / study.batches)
    settings = study.settings.changed(n_centres=QUICK_CENTRES)
    learner = Learner.prepare(reference, settings, expected=expected[0], rng=rng)
    return Task("dimuon5d", learner, expected, sources)


TASKS = {"expo1d": expo1d_task, "dimuon5d": dimuon5d_task}


def massive(task: Task) -> Task:
    """Add the mass to a task."""
    learner, old = task.learner, task.learner.sample
    reference = Sample.from_array(with_mass(old.values.astype(np.float64)), [*old.columns, "log m"])
    return Task(
        task.name,
        Learner.prepare(
            reference,
            learner.settings,
            expected=learner.expected,
            rng=np.random.default_rng(2),
        ),
        task.expected,
        {name: WithMass(source) for name, source in task.sources.items()},
    )


# -- all columns of t -----------------------------------------------------------------------------


@contextmanager
def kernels_added(widths: Sequence[float]) -> Iterator[None]:
    """Let the kernel be the mean of Gaussians of these widths, whatever width is asked for."""

    def added(x: Any, at: Any, width: float) -> Any:
        return sum(gaussian(x, at, each) for each in widths) / len(widths)

    with patch.object(centres, "gaussian", added), patch.object(features, "gaussian", added):
        yield


class Columns:
    """Everything that ideas need, of toys of one task."""

    def __init__(self, task: Task) -> None:
        learner = task.learner
        self.task, self.mass = task, massive(task) if task.name == "dimuon5d" else None
        self.usual = [learner.features(width) for width in learner.widths]
        self.path = {
            name: [
                replace(learner, penalty=factor * learner.penalty).features(width)
                for width in learner.widths
            ]
            for name, factor in zip(PATH, PENALTIES, strict=True)
        }
        with kernels_added(learner.widths[ADDED]):
            self.added = learner.features(learner.widths[0])
        whole = ScanPass(float(task.expected.sum()), 1, shape_only=False)
        self.grid = whole.grid(learner)
        if self.mass is not None:
            self.massive = [self.mass.learner.features(w) for w in self.mass.learner.widths]
            self.massive_grid = whole.grid(self.mass.learner)

    def of(self, stream: str, first: int, count: int) -> dict[str, list[list[float]]]:
        """Compute all columns of some toys: by name, a row for each toy."""
        toys, expected = self.task.toys(stream, first, count), self.task.expected
        found = self._models(self.usual, toys, OF_MODELS)
        for name, made in self.path.items():
            found[name] = self._models(made, toys, {"all": all_})["all"]
        with kernels_added(self.task.learner.widths[ADDED]):
            name = "all, kernels added"
            found[name] = self._models([self.added], toys, {name: all_})[name]
        found["scan"] = scan_sets(self.grid, toys, expected)[:, 0, -1:]
        if self.mass is not None:
            toys = self.mass.toys(stream, first, count)
            found["all, mass"] = self._models(self.massive, toys, {"all": all_})["all"]
            found["scan, mass"] = scan_sets(self.massive_grid, toys, expected)[:, 0, -1:]
        return {name: t.tolist() for name, t in found.items()}

    def _models(
        self,
        made: Sequence[Features],
        toys: list[list[Floats]],
        wanted: Mapping[str, Callable[[LogRatios], float]],
    ) -> dict[str, Floats]:
        """Fit toys at every width: t by name, (toys, widths)."""
        found = {name: np.empty((len(toys), len(made))) for name in wanted}
        for k, each in enumerate(made):
            for n, ratios in enumerate(self._ratios(each, toys)):
                for name, statistic in wanted.items():
                    found[name][n, k] = statistic(ratios)
        return found

    def _ratios(self, made: Features, toys: list[list[Floats]]) -> Iterator[LogRatios]:
        expected, count = self.task.expected, len(self.task.expected)
        together = [batch for toy in toys for batch in toy]
        done = fit(made, together, np.tile(expected, len(toys)))
        share = np.full(made.n_reference, 1 / made.n_reference)
        for n, toy in enumerate(toys):
            z = done.z[:, n * count : (n + 1) * count]
            yield LogRatios(
                reference=np.ascontiguousarray(made.log_ratio_reference(z).T, dtype=np.float64),
                data=[made.log_ratio(x, z).T for x in toy],
                expected=expected,
                share=share,
            )


def run(name: str, out: Path = OUT, toys: tuple[int, int] = TOYS, task: Task | None = None) -> None:
    """Compute what the file of a task lacks, on one core."""
    points = Points(out / f"ideas-{name}.jsonl")
    with threadpool_limits(limits=1):
        task = task or TASKS[name]()
        about = task.learner.about() | {"scan": RULE, "b": SHRINKS, "penalties": PENALTIES}
        depends = hashlib.sha256(json.dumps(about).encode()).hexdigest()
        chunks: dict[str, dict[str, Any]] = {
            f"ideas.{name}.{stream}.{first}": {
                "stream": stream,
                "first": first,
                "count": CHUNK,
                "depends on": depends,
            }
            for stream in task.sources
            for first in range(0, toys[stream != NULL], CHUNK)
        }
        missing = {key: shape for key, shape in chunks.items() if not points.knows(key, shape)}
        if not missing:
            return
        columns, remaining = Columns(task), Remaining(1.0 for _ in missing)
        for key, shape in missing.items():
            points.put(
                {
                    "name": key,
                    "shape": shape,
                    "t": columns.of(shape["stream"], shape["first"], CHUNK),
                }
            )
            remaining.done()


# -- what came out --------------------------------------------------------------------------------


def gathered(lines: Lines, name: str) -> dict[str, dict[str, Floats]]:
    """Join the lines of a task: t (toys, K) by stream and column."""
    found: dict[str, dict[str, list[Any]]] = {}
    own = [line for key, line in lines.items() if key.startswith(f"ideas.{name}.")]
    for line in sorted(own, key=lambda line: line["shape"]["first"]):
        stream = found.setdefault(line["shape"]["stream"], {})
        for column, t in line["t"].items():
            stream.setdefault(column, []).extend(t)
    return {
        stream: {column: np.array(t) for column, t in columns.items()}
        for stream, columns in found.items()
    }


def gain(t: Mapping[str, Mapping[str, Floats]], idea: Idea, signals: Sequence[str]) -> Difference:
    """Power of an idea minus that of what it replaces, averaged over signals."""

    def joined(columns: tuple[str, ...], stream: str) -> Floats:
        return np.hstack([t[stream][name] for name in columns])

    draws = redraw(len(t[NULL]["all"]))
    p: dict[tuple[str, ...], list[float]] = {idea.tried: [], idea.instead_of: []}
    moved = np.zeros(len(draws))
    for signal in signals:
        for columns, sign in ((idea.tried, 1), (idea.instead_of, -1)):
            null, found = joined(columns, NULL), joined(columns, signal)
            each = strategies(t[NULL], columns)
            p[columns] += [combined_p(row, null, columns=each) for row in found]
            moved += sign * powers_redrawn(null, found, draws, columns=each) / len(signals)
    return difference(np.array(p[idea.tried]), np.array(p[idea.instead_of]), moved)


def strategies(t: Mapping[str, Floats], columns: tuple[str, ...]) -> list[int]:
    """Count the columns of every strategy: those of its variants, after a comma, are its own."""
    return [
        sum(t[name].shape[1] for name in names)
        for _, names in groupby(columns, lambda name: name.split(",")[0])
    ]


def section(lines: Lines) -> str:
    """Table every idea on every task, with what follows."""
    parts = []
    for name, tuned in TUNED.items():
        t = gathered(lines, name)
        if not {NULL, *tuned} <= set(t):
            parts.append(f"**{LABELS[name]}**: not run yet.\n")
            continue
        rest = [signal for signal in t if signal != NULL and signal not in tuned]
        count = len(t[NULL]["all"]), len(t[tuned[0]]["all"])
        text = (
            f"**{LABELS[name]}**, {count[0]} toys without and {count[1]} with each signal; tuned "
            f"on {', '.join(tuned)}; judged on {', '.join(rest)}:\n\n"
            "| idea | tried | instead of | gain where tuned | gain where judged | |\n"
            "|---|---|---|---|---|---|\n"
        )
        for idea in IDEAS:
            if idea.only not in ("", name):
                continue
            gains = [gain(t, idea, signals) for signals in (tuned, rest)]
            text += (
                f"| {idea.name} | {_plus(idea.tried)} | {_plus(idea.instead_of)} "
                f"| {' | '.join(map(_signed, gains))} | {verdict(*gains)} |\n"
            )
        parts.append(text)
    return "\n".join(parts)


def verdict(tuned: Difference, judged: Difference) -> str:
    """Say what becomes of an idea."""
    if tuned.low > 0 and judged.low > 0:
        return "**gains**"
    if tuned.high < 0 or judged.high < 0:
        return "loses"
    return "no gain shown"


def _plus(columns: Sequence[str]) -> str:
    short = [name for name in columns if name not in PATH or len(columns) < len(PATH)]
    return " + ".join(short) + (" + the other penalties" if len(short) < len(columns) else "")


def _signed(found: Difference) -> str:
    return f"{found.value:+.3f} ({found.low:+.3f} to {found.high:+.3f})"


def write(out: Path = OUT, page: Path = PAGE) -> None:
    """Put the tables into the page."""
    lines = read_lines(sorted(out.glob("ideas-*.jsonl")))
    text = filled(page.read_text(encoding="utf-8"), {"ideas": section(lines)})
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    asked = argparse.ArgumentParser(prog="python -m gofstream_studies.benchmarks.ideas")
    asked.add_argument("steps", nargs="+", choices=[*TASKS, "write"])
    for step in asked.parse_args().steps:
        if step == "write":
            write()
        else:
            run(step)
