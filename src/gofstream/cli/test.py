"""`gofstream test`: two files and a question."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gofstream.analysis import judge_events
from gofstream.cli.calibrate import make_null
from gofstream.cli.inputs import typed_inputs
from gofstream.cli.options import (
    Counting,
    Reading,
    Running,
    Units,
    scratch_in,
    with_counting,
    with_device,
    with_reading,
    with_running,
)
from gofstream.files import write_whole
from gofstream.report.record import Record
from gofstream.report.text import summary

#: The command is called `test` and is none: pytest leaves a module with this alone.
__test__: dict[str, str] = {}


@click.command(
    epilog="Example: gofstream test reference.parquet data.parquet --expected 16000 --batches 8"
)
@click.argument("reference")
@click.argument("data", nargs=-1, required=True)
@click.option(
    "--null",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of pseudo-experiments, from `calibrate` or an earlier test.",
)
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True),
    help="Exit with code 1 if p is at or below this.",
)
@click.option("--units", type=Units(), default=(), help="Units to show: pt=GeV,phi=rad.")
@click.option(
    "--drop-duplicates",
    is_flag=True,
    help="Leave out exact copies in data and reference, and reference rows that are in the data.",
)
@click.option("--blind", is_flag=True, help="Calibrate only: the data are not opened.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("gofstream-test"),
    show_default=True,
    help="Folder for result.json, report.html and toys.null.",
)
@with_running
@with_device
@with_reading
@with_counting
def test(
    reference: str,
    data: tuple[str, ...],
    null: Path | None,
    level: float | None,
    units: tuple[tuple[str, str], ...],
    drop_duplicates: bool,
    blind: bool,
    out: Path,
    running: Running,
    reading: Reading,
    counting: Counting,
) -> None:
    """Test whether DATA follow REFERENCE, and write a report.

    Each may be one file or a pattern such as 'run*.root', quoted; DATA may be several. Without
    --expected only the shape is tested. Without --pool, part of a large reference is set aside for
    pseudo-experiments; with a small one, labels of data and reference are permuted. Exit code: 0,
    or 1 for an anomaly at --level, or 2 for bad input.
    """
    path = out / "toys.null" if null is None else null
    if blind:
        make_null(reference, path, running, reading, counting)
        return
    with scratch_in(out) as scratch:
        with running.bar("reading", "rows") as progress:
            pool = counting.pool
            known = reading.reference((reference,), progress, scratch, simulated=pool)
            seen = reading.data(known, data, progress)
            further = reading.simulated(known, pool, "pool", progress, scratch) if pool else None
        with running.workers() as executor, running.bar(f"{counting.toys} toys") as progress:
            record = judge_events(
                seen,
                known,
                settings=running.settings,
                pool=further,
                toys=counting.toys,
                null=path,
                level=level,
                units=dict(units),
                drop_duplicates=drop_duplicates,
                seed=running.seed,
                command=("gofstream", *sys.argv[1:]),
                executor=executor,
                progress=progress,
                inputs=typed_inputs(reference, running, reading, counting)
                | ({"--drop-duplicates": "yes"} if drop_duplicates else {}),
                **counting.options,
            )
    # Plotting takes a while to import.
    from gofstream.report.html import render

    out.mkdir(parents=True, exist_ok=True)
    record.save(out / "result.json")
    write_whole(out / "report.html", render(record))
    _say(record, out, running)
    if record.anomalous:
        sys.exit(1)


def _say(record: Record, out: Path, running: Running) -> None:
    if running.json:
        click.echo(record.model_dump_json())
    console = running.console
    console.print(summary(record), highlight=False, markup=False, soft_wrap=True)
    console.print(f"written: {out / 'result.json'} and {out / 'report.html'}", highlight=False)
