"""`gofstream calibrate`: pseudo-experiments before there are data."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gofstream.cli.options import Numbers, Reading, Running, with_reading, with_running
from gofstream.errors import InputError
from gofstream.inference.calibrate import calibrate as make_toys
from gofstream.io import Events
from gofstream.nplm import plan_null
from gofstream.toys.plan import ReferencePlan


@click.command(epilog="Example: gofstream calibrate reference.parquet --expected 16000 --batches 8")
@click.argument("reference")
@click.option(
    "--expected",
    type=Numbers(),
    required=True,
    help="Events the nominal model predicts: in all, or for each batch.",
)
@click.option("--batches", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--pool", multiple=True, help="Further nominal events, for pseudo-experiments.")
@click.option("--toys", type=click.IntRange(min=10), default=400, show_default=True)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("toys.null"),
    show_default=True,
    help="The null file; toys that are there already are kept.",
)
@with_running
@with_reading
def calibrate(
    reference: str,
    expected: tuple[float, ...],
    batches: int,
    pool: tuple[str, ...],
    toys: int,
    out: Path,
    running: Running,
    reading: Reading,
) -> None:
    """Make the null distribution for data still to come.

    `gofstream test --null` with the same reference, expected counts, settings and seed uses it.
    """
    make_null(reference, expected, batches, pool, toys, out, running, reading)


def make_null(
    reference: str,
    expected: tuple[float, ...] | None,
    batches: int,
    pool: tuple[str, ...],
    toys: int,
    path: Path,
    running: Running,
    reading: Reading,
) -> None:
    """Make toys without looking at data."""
    if expected is None:
        raise InputError("without data --expected must say how many events there will be")
    _, plan = planned(reference, expected, batches, pool, running, reading)
    path.parent.mkdir(parents=True, exist_ok=True)
    with running.workers() as executor, running.bar(f"{toys} toys") as progress:
        table = make_toys(plan, toys, path, executor, progress=progress).table
    if running.json:
        click.echo(json.dumps(dict(table.about) | {"toys": toys, "path": str(path)}))
    running.console.print(f"{toys} toys from {plan.source_name}: {path}", highlight=False)


def planned(
    reference: str,
    expected: tuple[float, ...],
    batches: int,
    pool: tuple[str, ...],
    running: Running,
    reading: Reading,
) -> tuple[Events, ReferencePlan]:
    """Read the reference, and a pool if there is one, and plan toys."""
    with running.bar("reading", "rows") as progress:
        known = reading.reference((reference,), progress)
        further = reading.like(known, pool, "pool", progress) if pool else None
    plan = plan_null(
        known.sample,
        expected[0] if len(expected) == 1 else expected,
        batches=max(batches, len(expected)),
        settings=running.settings,
        pool=None if further is None else further.sample,
        rng=running.seed,
    )
    return known, plan
