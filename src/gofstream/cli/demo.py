"""`gofstream demo`: EXPO-1D with an injected signal, tested in eight batches."""

from __future__ import annotations

import time
from pathlib import Path

import click
import numpy as np
from rich.console import Console

from gofstream.cli.progress import blocks_bar
from gofstream.datasets import expo1d
from gofstream.datasets.reconstruction import WIDTH, expo_reconstruction
from gofstream.execution import thread_workers
from gofstream.inference.calibrate import calibrate
from gofstream.ratio.learner import Learner
from gofstream.report.plots import plot_null, plot_reconstruction
from gofstream.sample import Sample
from gofstream.settings import preset
from gofstream.toys.plan import ReferencePlan
from gofstream.toys.sources import Simulator

FORMATS = (".png", ".pdf", ".svg")


@click.command(epilog="Example: gofstream demo --signal tail --out tail.png")
@click.option(
    "--signal",
    type=click.Choice([*expo1d.SIGNALS, "none"]),
    default="bulk",
    show_default=True,
    help="Signal to inject, at the strength of the paper.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option(
    "--toys",
    type=click.IntRange(min=10),
    default=60,
    show_default=True,
    help="Pseudo-experiments behind the p-values.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("gofstream-demo.png"),
    show_default=True,
    help="Where the picture goes; the ending says the format (png, pdf, svg).",
)
def demo(signal: str, seed: int, toys: int, out: Path) -> None:
    """Test eight batches of EXPO-1D data, and draw what was learnt.

    The toys are kept beside the picture: a second run with the same seed uses them again.
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
    expected = np.full(study.batches, study.expected / study.batches)
    learner = Learner.prepare(reference, study.settings, expected=expected[0], rng=rng)
    plan = ReferencePlan(
        learner, Simulator(expo1d.reference), "the exact simulator", expected, seed
    )
    null = out.with_suffix(".null")
    with thread_workers() as executor, blocks_bar(console, f"{toys} toys") as progress:
        calibration = calibrate(plan, toys, null, executor, progress=progress)
    with console.status("testing the data"):
        result = calibration.test(batches)
        learnt = learner.learn(learner.features(WIDTH), batches, expected.tolist())
    strength = f"{injected.fraction:.2%} of {signal} signal" if injected else "no signal"
    console.print(f"EXPO-1D with {strength}, {len(batches)} batches")
    console.print(str(result), highlight=False, soft_wrap=True)
    picture = plot_reconstruction(
        expo_reconstruction(reference, batches, expected.tolist(), learnt, injected),
        f"EXPO-1D, {strength}: what batches and aggregate learnt (width {WIDTH})",
    )
    picture.savefig(out, dpi=130)
    nulls = out.with_stem(f"{out.stem}-null")
    plot_null(calibration.table, result, f"EXPO-1D, {strength}").savefig(nulls, dpi=100)
    took = time.perf_counter() - start
    console.print(f"Pictures: {out} and {nulls}; toys kept in {null}   ({took:.1f} s in all)")
