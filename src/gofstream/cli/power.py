"""`gofstream power`: what could have been seen."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

import click

from gofstream.cli.calibrate import planned
from gofstream.cli.inputs import typed_inputs
from gofstream.cli.options import (
    Counting,
    Numbers,
    Reading,
    Running,
    scratch_in,
    with_counting,
    with_device,
    with_reading,
    with_running,
)
from gofstream.errors import InputError
from gofstream.files import write_whole
from gofstream.inference.pvalues import toys_needed
from gofstream.inference.result import is_shown, verdicts_of
from gofstream.inference.study import PowerStudy, check_reach, power_study
from gofstream.toys.sources import Pool


@click.command(
    epilog="Example: gofstream power reference.parquet --signal zprime.parquet --rates 0.002,0.005 "
    "--expected 8000 --batches 4"
)
@click.argument("reference")
@click.option("--signal", multiple=True, required=True, help="File of signal events.")
@click.option(
    "--rates",
    type=Numbers(),
    required=True,
    help="Signal over nominal events; each rate gets its own toys.",
)
@click.option("--signal-toys", type=click.IntRange(min=10), default=100, show_default=True)
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.0228,
    show_default=True,
    help="p-value that counts as seen; 0.0228 is two sigma.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("gofstream-power"),
    show_default=True,
    help="Folder for power.json, power.png and the toys.",
)
@with_running
@with_device
@with_reading
@with_counting
def power(
    reference: str,
    signal: tuple[str, ...],
    rates: tuple[float, ...],
    signal_toys: int,
    level: float,
    out: Path,
    running: Running,
    reading: Reading,
    counting: Counting,
) -> None:
    """Tell how often a signal would have been seen, by every strategy.

    Signal events are added to nominal ones at each rate. No data are needed, or opened.
    """
    if not all(math.isfinite(rate) and rate > 0 for rate in rates):
        raise InputError(f"rates must be positive and finite, got {list(rates)}")
    check_reach(level, counting.toys)  # before toys are made
    with scratch_in(out) as scratch:
        known, plan = planned(reference, running, reading, counting, scratch, signal)
        with running.bar("reading", "rows") as progress:
            added = Pool(reading.simulated(known, signal, "signal", progress, scratch).sample)
        added.check(max(rates) * float(plan.expected.sum()))
        with running.workers() as executor, running.bar("toys") as progress:
            found = power_study(
                plan,
                added,
                rates,
                toys=counting.toys,
                signal_toys=signal_toys,
                # Toys know their reference by its digest, but not their signal.
                folder=out / f"toys-{added.sample.digest()[:8]}",
                executor=executor,
                progress=progress,
                inputs=typed_inputs(reference, running, reading, counting),
            )
    _tell(found, rates, level, out, running)


def _tell(
    found: PowerStudy[float], rates: tuple[float, ...], level: float, out: Path, running: Running
) -> None:
    batches = found.null.t.shape[3]
    alone = [(name,) for name in found.null.names if is_shown(name, batches)]
    tests = {" + ".join(names): names for names in (*verdicts_of(batches), *alone)}
    powers = {
        label: [found.power(names, level, rate) for rate in rates] for label, names in tests.items()
    }
    content = {
        "level": level,
        "rates": list(rates),
        "power": {name: [asdict(each) for each in curve] for name, curve in powers.items()},
    }
    write_whole(out / "power.json", json.dumps(content, indent=1) + "\n")
    # Plotting takes a while to import.
    from gofstream.report.plots import plot_power

    plot_power(powers, rates, "signal over nominal events", f"Power at p ≤ {level:g}").savefig(
        out / "power.png", dpi=130
    )
    if running.json:
        click.echo(json.dumps(content))
    lines = [f"power at p ≤ {level:g} (95 % interval), all widths combined"]
    longest = max(map(len, powers)) + 2
    for name, curve in powers.items():
        cells = [f"{p.value:.2f} ({p.low:.2f} to {p.high:.2f})" for p in curve]
        lines.append(f"{name:<{longest}}" + "  ".join(cells))
    toys, widths = len(found.null.t), found.null.t.shape[2]
    if toys < (enough := toys_needed(level, len(verdicts_of(batches)[0]) * widths)):
        lines.append(
            f"lower limits: with fewer than {enough:,} toys ({toys:,} here) a signal that shows at "
            "one width of one strategy only may not reach this level"
        )
    lines.insert(1, f"{'rate':<{longest}}" + "  ".join(f"{rate:<19g}" for rate in rates))
    running.console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    running.console.print(f"written: {out / 'power.json'} and {out / 'power.png'}", highlight=False)
