"""The paper's experiments on CMS-L1-24D, at sizes that can be generated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gofstream.execution import process_workers
from gofstream.inference.power import MedianZ, median_z
from gofstream.inference.pvalues import LAWS, p_value
from gofstream.inference.study import PowerStudy
from gofstream.report.plots import SERIES
from gofstream.settings import preset
from gofstream.toys.sources import Injected, Pool
from gofstream_studies.datasets import cmsl1
from gofstream_studies.datasets.catalogue import data_folder
from gofstream_studies.datasets.storage import STAND_IN
from gofstream_studies.paper.claims import Claim, Verdict, more, not_less
from gofstream_studies.paper.compare import Comparison, Strategy
from gofstream_studies.paper.experiment import Context, Outcome
from gofstream_studies.paper.panels import draw_marginals
from gofstream_studies.paper.splits import Splits

Floats = NDArray[np.float64]

BATCHES = 5
QUICK, FULL = (300, 60), (400, 100)
#: N(S)/√N(R), as in the paper: 0.2 and 0.4 % of a million.
STRENGTHS = (2.0, 4.0)
NAMES = ("all", "one", "sat", "next", "single")
#: Standard Model events of the full version.
EVENTS = 300_000


@dataclass(frozen=True, slots=True)
class Size:
    """What a study works with; the paper's 10 million and 1 million cannot be generated here.

    Attributes
    ----------
    n_reference, expected, centres : N_R, N(R) of all batches together, M.
    independent : take one event of each collision. Few collisions stand behind the QCD events, so
        that their share falls from a third to a few per cent.
    """

    n_reference: int
    expected: float
    centres: int
    independent: bool = False

    def title(self, toys: tuple[int, int]) -> str:
        """Say what is shown, and what not to conclude from it."""
        events = (
            "one event of each collision (QCD share a few per cent)"
            if self.independent
            else "QCD events reused up to 20 times: no false-alarm rate is claimed"
        )
        return (
            f"CMS-L1-24D, N_R = {self.n_reference}, N(R) = {self.expected:.0f} in {BATCHES} "
            f"batches, {toys[0]} toys without and {toys[1]} with signal; open: extrapolated beyond "
            f"the toys\n{events}; {STAND_IN[0].lower()}{STAND_IN[1:]}"
        )


#: The quick version, on the sample shipped; and the full one, by the ending of its pictures, where
#: M / √N_R is about the paper's 3.
SMALL = {"": Size(20_000, 2000.0, 1000)}
LARGE = {
    "": Size(100_000, 6000.0, 1000),
    "independent": Size(60_000, 4000.0, 1000, independent=True),
}


@dataclass(frozen=True, slots=True)
class Reach:
    """Median Z with its 95 % interval, and whether it lies beyond what the toys resolve."""

    z: MedianZ
    extrapolated: bool


def summary(context: Context) -> Outcome:
    """Figure summary-cms-l1: median Z of every strategy for four signals."""
    folder = made(context)
    figures, numbers, claims, tables = {}, {}, [], []
    for ending, size in (LARGE if context.full else SMALL).items():
        study = splits(context, ending, size, folder).compare(context).studies[BATCHES]
        compared = Comparison({BATCHES: study})
        found = {
            signal: {
                name: [_reach(study, name, f"{signal}-{s:g}") for s in STRENGTHS] for name in NAMES
            }
            for signal in cmsl1.SIGNALS
        }
        figures[ending] = _figure(found, size.title(context.count(QUICK, FULL)))
        claims += _claims(compared, found, ending)
        tables.append(_table(found, ending))
        numbers[ending or "all events"] = asdict(size) | {
            "unconverged_fits": compared.unconverged,
            "median_z": {
                signal: {
                    name: [asdict(point.z) | {"extrapolated": point.extrapolated} for point in line]
                    for name, line in lines.items()
                }
                for signal, lines in found.items()
            },
        }
    toys = context.count(QUICK, FULL)
    about = {"strengths": list(STRENGTHS), "null_toys": toys[0], "signal_toys": toys[1]}
    return Outcome(figures, about | numbers, claims, "\n\n".join(tables))


def made(context: Context) -> Path | None:
    """Make the events of the full version; the quick one has those that are shipped."""
    if not context.full:
        return None
    folder = data_folder("cmsl1") / f"made-{EVENTS}-seed1"
    with context.bars("cmsl1: making events with Pythia") as bar, process_workers() as workers:
        cmsl1.make(folder, events=EVENTS, seed=1, executor=workers, progress=bar)
    return folder


def _figure(found: Mapping[str, Mapping[str, list[Reach]]], title: str) -> Figure:
    figure = Figure(figsize=(12, 4.6), layout="constrained")
    figure.suptitle(title, fontsize=11)
    row = figure.subplots(1, len(found), sharey=True)
    for axes, (signal, lines) in zip(row, found.items(), strict=True):
        _draw(axes, lines)
        axes.set_title(cmsl1.SIGNALS[signal].title)
    row[0].set_ylabel("median Z (bars: 95 %)")
    row[0].legend(fontsize=8, frameon=False)
    return figure


def splits(context: Context, ending: str, size: Size, folder: Path | None) -> Splits:
    """Say which toys a study of some size has.

    Parameters
    ----------
    ending : of its name.
    folder : of the events, as `made` gives it.
    """
    rng = np.random.default_rng(context.seed)
    events = cmsl1.read("sm", folder)
    signals = {name: cmsl1.read(name, folder) for name in cmsl1.SIGNALS}
    if size.independent:
        events = events.independent()
        signals = {name: signal.independent() for name, signal in signals.items()}
    training, rest = cmsl1.split(events, size.n_reference, rng)
    pool = Pool(cmsl1.varying(rest.sample))
    pool.check(size.expected)
    return Splits(
        name="-".join(filter(None, ("cmsl1", ending))),
        reference=cmsl1.varying(training.sample),
        nominal=pool,
        nominal_name=f"a pool of {len(rest)} events",
        alternatives={
            f"{name}-{s:g}": Injected(
                pool, Pool(cmsl1.varying(signal.sample)), s / math.sqrt(size.expected)
            )
            for name, signal in signals.items()
            for s in STRENGTHS
        },
        expected=size.expected,
        settings={BATCHES: preset("cmsl1").settings.changed(n_centres=size.centres)},
        toys=context.count(QUICK, FULL),
    )


def _reach(study: PowerStudy[str], name: str, signal: str) -> Reach:
    """Median Z of signal toys, each with its p from the toys or, beyond them, from a law."""
    null = study.null.statistic(name)[:, 0]
    each = [
        p_value(float(t), null, LAWS[name]) for t in study.signals[signal].statistic(name)[:, 0]
    ]
    beyond = [found.law_p for found in each if found.law_p is not None]
    p = [found.p if found.law_p is None else found.law_p for found in each]
    return Reach(median_z(p), bool(beyond) and float(np.median(p)) <= max(beyond))


def _draw(axes: Axes, lines: Mapping[str, list[Reach]]) -> None:
    for k, (name, points) in enumerate(lines.items()):
        x = np.array(STRENGTHS) + 0.08 * (k - 2)
        z = np.array([point.z.value for point in points])
        error = [
            [point.z.value - point.z.low for point in points],
            [point.z.high - point.z.value for point in points],
        ]
        axes.errorbar(x, z, error, color=SERIES[k], lw=1.2, label=name, marker="os^Dv"[k])
        for at, point in zip(x, points, strict=True):
            if point.extrapolated:
                axes.plot(at, point.z.value, "os^Dv"[k], mfc="white", mec=SERIES[k], zorder=5)
    for level in (3, 5):
        axes.axhline(level, color="0.8", lw=0.8, zorder=0)
    axes.set_xticks(STRENGTHS)
    axes.set_xlim(1.4, 4.6)
    axes.set_xlabel("N(S)/√N(R)")


def _claims(
    compared: Comparison, found: Mapping[str, Mapping[str, list[Reach]]], ending: str
) -> list[Claim]:
    claims = []
    which = f", {ending} events" if ending else ""
    for signal in found:
        for s in STRENGTHS:
            key = f"{signal}-{s:g}"
            toys = len(compared.p_values(Strategy("all", BATCHES), key))
            for first, second, words, judge in (
                ("one", "single", "one beats single", more),
                ("sat", "all", "sat follows all", not_less),
            ):
                difference = compared.difference(
                    Strategy(first, BATCHES), Strategy(second, BATCHES), key
                )
                claims.append(
                    Claim.judged(
                        f"{words} [{key}{which}]",
                        f"power of {first} minus power of {second} at N(S)/√N(R) = {s:g}",
                        difference,
                        judge,
                        toys,
                    )
                )
    for signal, level, words in (("A4l", 3, "evidence"), ("hptaunu", 5, "discovery")):
        reach = found[signal]["all"][0].z
        verdict: Verdict = "not resolved"
        if reach.low >= level or reach.high < level:
            verdict = "holds" if reach.low >= level else "does not hold"
        claims.append(
            Claim(
                f"{words} with all [{signal}{which}]",
                f"median Z of all reaches {level} at N(S)/√N(R) = 2",
                verdict,
                reach.value,
                reach.low,
                reach.high,
                reach.toys,
                "the paper's sample is a hundred times larger or more, so the same N(S)/√N(R) is "
                "another fraction; its text praises h± → τν here and calls it poor further on",
            )
        )
    return claims


def _table(found: Mapping[str, Mapping[str, list[Reach]]], ending: str) -> str:
    which = f", {ending} events" if ending else ""
    lines = [f"median Z at N(S)/√N(R) = 2 and 4{which} (* extrapolated)"]
    for signal, strategies in found.items():
        cells = [
            f"{name} " + " ".join(f"{p.z.value:.1f}{'*' if p.extrapolated else ''}" for p in points)
            for name, points in strategies.items()
        ]
        lines.append(f"{signal:9s} " + "   ".join(cells))
    return "\n".join(lines)


def inputs(context: Context) -> Outcome:
    """Figures cms-l1-input-panel1 and -panel2: marginals of the 24 input columns."""
    samples = {"Standard Model": cmsl1.read("sm").sample} | {
        signal.title: cmsl1.read(name).sample for name, signal in cmsl1.SIGNALS.items()
    }
    columns = cmsl1.COLUMNS
    objects = list(dict.fromkeys(column.rsplit("_", 1)[0] for column in columns))
    leptons = [name for name in objects if name.startswith(("mu", "e"))]
    panels = {"panel1": leptons, "panel2": [name for name in objects if name not in leptons]}
    seen: dict[str, Any] = {}
    figures = {}
    for ending, rows in panels.items():
        figure = Figure(figsize=(11, 2.5 * len(rows) + 0.6), layout="constrained")
        figure.suptitle(f"CMS-L1-24D: input columns\n{STAND_IN}", fontsize=11)
        grid = figure.subplots(len(rows), 3)
        for line, name in zip(grid, rows, strict=True):
            for axes, what in zip(line, ("pt", "eta", "phi"), strict=True):
                column = f"{name}_{what}"
                values = {
                    key: sample.values[:, columns.index(column)].astype(np.float64)
                    for key, sample in samples.items()
                }
                unit = f" ({cmsl1.UNITS[column]})" if column in cmsl1.UNITS else ""
                top = max(float(np.quantile(v, 0.999)) for v in values.values())
                edges = {
                    "pt": np.linspace(0, max(top, 1.0), 41),
                    "eta": np.linspace(-4, 4, 41),
                    "phi": np.linspace(-np.pi, np.pi, 41),
                }[what]
                draw_marginals(axes, values, edges, f"{column}{unit}")
                seen[column] = {
                    key: {"zero": float(np.mean(v == 0)), "mean": float(v.mean())}
                    for key, v in values.items()
                }
        handles, names = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=5, frameon=False)
        figures[ending] = figure
    return Outcome(figures, seen)
