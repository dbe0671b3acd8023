"""`gofstream demo`: EXPO-1D with an injected signal, learnt in eight batches."""

from __future__ import annotations

import time
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from gofstream.datasets import expo1d
from gofstream.ratio.learner import Learner, Learnt
from gofstream.ratio.model import Aggregate
from gofstream.report.plots import Reconstruction, plot_reconstruction
from gofstream.sample import Sample
from gofstream.settings import preset
from gofstream.statistics import STATISTICS

#: The width whose models are drawn: narrow enough to show the noise that averaging removes.
DRAWN_WIDTH = 0.3
FORMATS = (".png", ".pdf", ".svg")


@click.command()
@click.option(
    "--signal",
    type=click.Choice([*expo1d.SIGNALS, "none"]),
    default="bulk",
    show_default=True,
    help="Signal to inject, at the strength of the paper.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("gofstream-demo.png"),
    show_default=True,
    help="Where the picture goes; the ending says the format (png, pdf, svg).",
)
def demo(signal: str, seed: int, out: Path) -> None:
    r"""Learn from eight batches of EXPO-1D data, and draw what was learnt.

    \b
    Example:
      gofstream demo --signal tail --out tail.png
    """
    if out.suffix not in FORMATS:
        raise click.BadParameter(f"end the name in one of {', '.join(FORMATS)}", param_hint="--out")
    out.parent.mkdir(parents=True, exist_ok=True)
    console = Console()
    start = time.perf_counter()
    study = preset("expo1d")
    injected = None if signal == "none" else expo1d.SIGNALS[signal]
    rng = np.random.default_rng(seed)
    reference = Sample.from_array(expo1d.reference(study.n_reference, rng), name="reference")
    batches = [
        Sample.from_array(events, name=f"batch {i + 1}")
        for i, events in enumerate(expo1d.batches(study.expected, study.batches, rng, injected))
    ]
    expected = [study.expected / study.batches] * study.batches
    learner = Learner.prepare(reference, study.settings, expected=expected[0], rng=rng)
    learnt: dict[float, Learnt] = {}
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as progress:
        task = progress.add_task("learning at five widths", total=2 * len(learner.widths))
        for width in learner.widths:
            features = learner.features(width)
            progress.advance(task)
            learnt[width] = learner.learn(features, batches, expected)
            progress.advance(task)
    strength = f"{injected.fraction:.2%} of {signal} signal" if injected else "no signal"
    console.print(
        f"EXPO-1D: reference of {len(reference)} events, {sum(map(len, batches))} data events in "
        f"{len(batches)} batches ({study.expected:.0f} expected, {strength})."
    )
    console.print(_table(learnt))
    _complain(console, learnt)
    figure = plot_reconstruction(
        _reconstruct(reference, batches, expected, learnt[DRAWN_WIDTH], injected),
        f"EXPO-1D, {strength}: what batches and aggregate learnt (width {DRAWN_WIDTH})",
    )
    figure.savefig(out, dpi=130)
    console.print(f"Picture: {out}   ({time.perf_counter() - start:.1f} s in all)")


def _table(learnt: dict[float, Learnt]) -> Table:
    table = Table(title="Test statistics t, by width of the kernel")
    table.add_column("statistic")
    for width in learnt:
        table.add_column(f"{width:g}", justify="right")
    for name, statistic in STATISTICS.items():
        table.add_row(name, *(f"{statistic(result.ratios):.1f}" for result in learnt.values()))
    table.caption = "Large t means surprising; how surprising takes the null distribution of t."
    return table


def _complain(console: Console, learnt: dict[float, Learnt]) -> None:
    for width, result in learnt.items():
        lost = int(result.fit.uncovered.sum())
        if lost:
            console.print(f"width {width:g}: events far from every centre, unseen: {lost}")
        for i in np.flatnonzero(~result.fit.converged):
            norm = result.fit.gradient_norm[i]
            console.print(f"width {width:g}, batch {i + 1}: not converged (gradient {norm:.1e})")


def _reconstruct(
    reference: Sample,
    batches: list[Sample],
    expected: list[float],
    learnt: Learnt,
    signal: expo1d.Signal | None,
) -> Reconstruction:
    edges = np.linspace(0, 7, 29)
    grid = np.linspace(0, 7, 400)
    points = Sample.from_array(grid)
    aggregate = Aggregate(learnt.models)
    in_bins, _ = np.histogram(reference.values[:, 0], edges)
    return Reconstruction(
        label="x",
        edges=edges,
        expected=in_bins * (sum(expected) / len(reference)),
        observed=[
            np.histogram(batch.values[:, 0], edges)[0].astype(np.float64) for batch in batches
        ],
        shares=aggregate.shares,
        grid=grid,
        batch_ratios=[np.exp(model(points)) for model in learnt.models],
        aggregate_ratio=np.exp(aggregate(points)),
        true_ratio=np.exp(expo1d.log_ratio(grid, signal)) if signal else np.ones_like(grid),
    )
