"""The paper's experiments on DIMUON-5D, on samples that stand in for the public files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gofstream.execution import process_workers
from gofstream.settings import Settings, preset
from gofstream.toys.sources import Injected, Pool, Replaced, Source
from gofstream_studies.datasets import dimuon5d
from gofstream_studies.datasets.catalogue import data_folder
from gofstream_studies.datasets.dimuon5d import BENCHMARKS, Benchmark
from gofstream_studies.datasets.storage import STAND_IN
from gofstream_studies.paper import powers
from gofstream_studies.paper.claims import ideal_z
from gofstream_studies.paper.compare import Comparison
from gofstream_studies.paper.experiment import Context, Outcome
from gofstream_studies.paper.panels import draw_marginals
from gofstream_studies.paper.splits import Splits

BATCHES = (1, 2, 4)
QUICK, FULL = (250, 40), (300, 100)
#: Drell-Yan events of the full version.
EVENTS = 1_000_000
#: The quick version has so many times fewer expected events; fractions grow so that S/√B stays.
SHRINK = 4
#: Centres: the paper's 10 000 cost too much for batches larger than the paper's own.
CENTRES = {1: 3000, 2: 3000, 4: 10_000}
QUICK_CENTRES, QUICK_REFERENCE = 600, 20_000


@dataclass(frozen=True, slots=True)
class Size:
    """What a version of the experiments works with."""

    folder: Path | None
    n_reference: int
    expected: float
    settings: dict[int, Settings]
    grown: float


def size_of(context: Context) -> Size:
    """Take the paper's sizes and samples made for them, or the shipped samples and fewer events."""
    study = preset("dimuon5d")
    if not context.full:
        small = study.settings.changed(n_centres=QUICK_CENTRES)
        return Size(
            None,
            QUICK_REFERENCE,
            study.expected / SHRINK,
            dict.fromkeys(BATCHES, small),
            math.sqrt(SHRINK),
        )
    folder = data_folder("dimuon5d") / f"made-{EVENTS}-seed1"
    with context.bars("dimuon5d: making events with Pythia") as bar, process_workers() as workers:
        dimuon5d.make(folder, events=EVENTS, seed=1, executor=workers, progress=bar)
    settings = {
        n: study.settings.changed(n_centres=count, memory=12 * 1024**3)
        for n, count in CENTRES.items()
    }
    return Size(folder, study.n_reference, study.expected, settings, 1.0)


def compare(context: Context) -> Comparison:
    """Make the toys that all three power figures share."""
    return splits(context).compare(context)


def splits(context: Context) -> Splits:
    """Say which toys these are, and make the events that they are drawn from."""
    size = size_of(context)
    rng = np.random.default_rng(context.seed)
    events = dimuon5d.read("sm", size.folder)
    # Every toy that was ever kept depends on this draw, which is not to change.
    order = rng.permutation(len(events))
    rest, reference = (
        events.take(np.sort(rows)) for rows in np.split(order, [len(order) - size.n_reference])
    )
    pool = Pool(rest)
    pool.check(size.expected)
    return Splits(
        name="dimuon5d",
        reference=reference,
        nominal=pool,
        nominal_name=f"a pool of {len(rest)} events",
        alternatives={
            benchmark.name: alternative(benchmark, pool, size.folder, size.grown)
            for benchmark in BENCHMARKS.values()
        },
        expected=size.expected,
        settings=size.settings,
        toys=context.count(QUICK, FULL),
    )


def alternative(benchmark: Benchmark, nominal: Source, folder: Path | None, grown: float) -> Source:
    """Give data sets with a signal: added to nominal ones, its fraction grown, or in their place.

    Parameters
    ----------
    folder : of the samples; None for those shipped.
    """
    events = Pool(dimuon5d.read(benchmark.sample, folder))
    if benchmark.fraction is None:
        return Replaced(events, benchmark.ratio)
    return Injected(nominal, events, benchmark.fraction * grown)


def labels(context: Context) -> dict[str, str]:
    """Headings of panels."""
    grown = 1.0 if context.full else math.sqrt(SHRINK)
    return {
        b.name: (
            f"contact term\nc_W = {b.coupling:g} TeV⁻²"
            if b.fraction is None
            else f"Z' {b.mass:.0f} GeV\nN(S)/N(R) = {b.fraction * grown:.2g}"
        )
        for b in BENCHMARKS.values()
    }


def title(context: Context, what: str) -> str:
    """Say what is shown, at which size, and on which samples."""
    null, signal = context.count(QUICK, FULL)
    expected = preset("dimuon5d").expected / (1 if context.full else SHRINK)
    return (
        f"DIMUON-5D: {what}\nN(R) = {expected:.0f}, five widths by smallest p, {null} toys without "
        f"and {signal} with each signal (bands: 95 %)\n{STAND_IN}"
    )


def notes(context: Context) -> dict[str, str]:
    """Put our ideal Z beside the paper's."""
    found = {}
    for b in BENCHMARKS.values():
        rng = np.random.default_rng(context.seed)
        z = dimuon5d.ideal_median_z(b, preset("dimuon5d").expected, n_toys=2000, rng=rng).median_z
        found[b.name] = f"ideal Z at N(R) = 8000: ours {z:.1f}, paper {b.paper_z}"
    return found


def all_and_sum(context: Context) -> Outcome:
    """Figures 5D-zprime300-1, 5D-nplm-all-1 and 5D-nplm-all-2."""
    heading = title(context, "all and sum against the number of batches")
    return powers.all_and_sum(compare(context), labels(context), heading, notes(context))


def one_and_single(context: Context) -> Outcome:
    """Figures 5D-nplm-one and 5D-nplm-one-app."""
    heading = title(context, "one against single and all, and next, in 4 batches")
    return powers.one_and_single(compare(context), labels(context), heading, notes(context))


def sat_and_all(context: Context) -> Outcome:
    """Figures 5D-nplm-sat_aggr4 and 5D-nplm-sat_aggr1."""
    heading = title(context, "sat against all and one, and next")
    tail = [name for name in BENCHMARKS if name.startswith("zprime600")]
    return powers.sat_and_all(compare(context), labels(context), heading, notes(context), tail=tail)


def ideal_table(context: Context) -> Outcome:
    """Table 5d-dataset: ideal Z of our samples beside the paper's; and the data themselves."""
    toys = 20_000 if context.full else 4_000
    whole = preset("dimuon5d").expected
    claims, numbers = [], {}
    lines = ["signal              ideal Z, paper   ours at N(R) = 8000   ours at N(R) = 2000"]
    for b in BENCHMARKS.values():
        found = {
            expected: dimuon5d.ideal_median_z(
                b, expected, n_toys=toys, rng=np.random.default_rng(context.seed)
            )
            for expected in (whole, whole / 4)
        }
        test = found[whole]
        why = (
            "ours is from the mass spectrum of our own samples; the caption of the paper's table "
            "says its yields are those of one batch of 2000"
        )
        claims.append(ideal_z(b.name, test, whole, toys, why))
        numbers[b.name] = {
            "paper_z": b.paper_z,
            "n_over_reference": b.ratio,
            **{f"median_z_{n:.0f}": t.median_z for n, t in found.items()},
            **{f"median_z_error_{n:.0f}": t.median_z_error for n, t in found.items()},
        }
        quarter = found[whole / 4].median_z
        lines.append(f"{b.name:18s} {b.paper_z:14.1f} {test.median_z:17.1f} {quarter:21.1f}")
    return Outcome({"": _data_figure()}, numbers, claims, "\n".join([*lines, STAND_IN]))


def _data_figure() -> Figure:
    samples = {
        "Drell-Yan": dimuon5d.read("sm"),
        "Z' 200 GeV": dimuon5d.read("zprime200"),
        "Z' 300 GeV": dimuon5d.read("zprime300"),
        "Z' 600 GeV": dimuon5d.read("zprime600"),
        "contact term, c_W = 1": dimuon5d.read("eft"),
    }
    figure = Figure(figsize=(12, 6.6), layout="constrained")
    figure.suptitle(f"DIMUON-5D: shapes of the input and of the mass\n{STAND_IN}", fontsize=11)
    panels = figure.subplots(2, 3).ravel()
    columns: list[tuple[str, Any, Any]] = [
        (f"{name} ({dimuon5d.UNITS[name]})" if name in dimuon5d.UNITS else name, name, edges)
        for name, edges in (
            ("pt1", np.geomspace(20, 600, 40)),
            ("pt2", np.geomspace(20, 600, 40)),
            ("eta1", np.linspace(-2.1, 2.1, 30)),
            ("eta2", np.linspace(-2.1, 2.1, 30)),
            ("dphi", np.linspace(0, 2 * np.pi, 40)),
        )
    ]
    for axes, (label, name, edges) in zip(panels, columns, strict=False):
        values = {
            key: sample.values[:, sample.columns.index(name)].astype(np.float64)
            for key, sample in samples.items()
        }
        draw_marginals(
            axes,
            values,
            edges,
            label,
            log_x=name.startswith("pt"),
            log_y=not name.startswith("eta"),
        )
    masses = {key: dimuon5d.mass(sample) for key, sample in samples.items()}
    draw_marginals(panels[5], masses, np.geomspace(60, 1000, 60), "mass (GeV)", log_x=True)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5, fontsize=9, frameon=False)
    return figure
