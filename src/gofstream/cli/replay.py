"""`gofstream replay`: a stored stream once more, from what was learnt alone."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import click

from gofstream.cli.options import Reading, Running, with_reading, with_running
from gofstream.stream.prepare import prepare_stream
from gofstream.stream.reader import Reader
from gofstream.stream.replay import replay as run_again


@click.command(epilog="Example: gofstream replay run.gofs --reference reference.parquet --seed 1")
@click.argument("store", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--reference", multiple=True, required=True, help="The reference of the run.")
@click.option("--pool", multiple=True, help="The pool of the run, if it was given one.")
@with_running
@with_reading
def replay(
    store: Path,
    reference: tuple[str, ...],
    pool: tuple[str, ...],
    running: Running,
    reading: Reading,
) -> None:
    """Compute the statistics of STORE again from its models, and compare every bit.

    Reference, settings and seed must be those of the run, which must have kept its models.
    """
    with Reader(store) as reader:
        about = reader.about()
        with running.bar("reading", "rows") as progress:
            columns = reading.columns or tuple(about["columns"])
            known = replace(reading, columns=columns).reference(reference, progress, simulated=pool)
            further = reading.simulated(known, pool, "pool", progress) if pool else None
        learner, _ = prepare_stream(
            known.sample,
            running.settings,
            about["nominal_expected"],
            running.seed,
            epoch=about["epoch"],
            window=about["window"],
            alarms=about["boundary"] is not None,
            pool=None if further is None else further.sample,
        )
        with running.bar("replay", "batches") as progress:
            found = run_again(reader, learner, progress=progress)
    if running.json:
        click.echo(json.dumps(asdict(found) | {"path": str(store)}))
    running.console.print(
        f"{store}: {found.statistics} statistics of {found.batches} batches, the same to the bit",
        highlight=False,
    )
