"""`gofstream calibrate`: pseudo-experiments before there are data."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gofstream.cli.inputs import typed_inputs
from gofstream.cli.options import (
    Counting,
    Reading,
    Running,
    scratch_in,
    with_counting,
    with_device,
    with_reading,
    with_running,
)
from gofstream.errors import InputError
from gofstream.inference.calibrate import calibrate as make_toys
from gofstream.io import Events
from gofstream.nplm import plan_null
from gofstream.toys.plan import ReferencePlan


@click.command(epilog="Example: gofstream calibrate reference.parquet --expected 16000 --batches 8")
@click.argument("reference")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("toys.null"),
    show_default=True,
    help="The null file; toys that are there already are kept.",
)
@with_running
@with_device
@with_reading
@with_counting
def calibrate(
    reference: str, out: Path, running: Running, reading: Reading, counting: Counting
) -> None:
    """Make the null distribution for data still to come.

    `gofstream test --null` with the same reference, expected counts, settings and seed uses it.
    """
    make_null(reference, out, running, reading, counting)


def make_null(
    reference: str, path: Path, running: Running, reading: Reading, counting: Counting
) -> None:
    """Make toys without looking at data."""
    toys = counting.toys
    with scratch_in(path.parent) as scratch:
        _, plan = planned(reference, running, reading, counting, scratch)
        for note in plan.learner.notes:
            click.echo(f"gofstream: note: {note}", err=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        with running.workers() as executor, running.bar(f"{toys} toys") as progress:
            inputs = typed_inputs(reference, running, reading, counting)
            made = make_toys(plan, toys, path, executor, progress=progress, inputs=inputs)
    if running.json:
        click.echo(json.dumps(dict(made.table.about) | {"toys": toys, "path": str(path)}))
    running.console.print(f"{toys} toys from {plan.source_name}: {path}", highlight=False)


def planned(
    reference: str,
    running: Running,
    reading: Reading,
    counting: Counting,
    scratch: Path,
    signal: tuple[str, ...] = (),
) -> tuple[Events, ReferencePlan]:
    """Read the reference, and a pool if there is one, and plan toys.

    The signal is not read here; if it has weights, the reference need not.
    """
    if counting.expected is None:
        raise InputError("without data --expected must say how many events there will be")
    with running.bar("reading", "rows") as progress:
        pool = counting.pool
        simulated = (*pool, *signal)
        known = reading.reference((reference,), progress, scratch, simulated=simulated)
        further = reading.simulated(known, pool, "pool", progress, scratch) if pool else None
    plan = plan_null(
        known.sample,
        settings=running.settings,
        pool=None if further is None else further.sample,
        rng=running.seed,
        **counting.options,
    )
    return known, plan
