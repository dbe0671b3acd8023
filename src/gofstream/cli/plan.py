"""`gofstream plan`: what a null table would take."""

from __future__ import annotations

import json
from dataclasses import asdict

import click
from rich.console import Console
from rich.table import Table

from gofstream.cli.options import Count, Running, with_settings
from gofstream.cli.progress import duration
from gofstream.errors import readable_bytes
from gofstream.execution import cores
from gofstream.toys.forecast import Forecast, Wanted, forecast


@click.command(
    epilog="Example: gofstream plan --reference 10M --data 1M --dims 24 --toys 1000 --workers 64"
)
@click.option("--reference", type=Count(), required=True, help="Rows of the reference.")
@click.option("--data", type=Count(), required=True, help="Events of all batches together.")
@click.option("--dims", type=click.IntRange(min=1), required=True, help="Columns.")
@click.option("--batches", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--toys", type=click.IntRange(min=1), default=400, show_default=True)
@click.option("--workers", type=click.IntRange(min=1), help="Default: the cores of this machine.")
@with_settings
def plan(
    reference: int,
    data: int,
    dims: int,
    batches: int,
    toys: int,
    workers: int | None,
    running: Running,
) -> None:
    """Predict time, memory and disk of a null table, from small ones timed on this machine.

    The small ones have normal columns; give --preset or --set for centres, widths and penalty.
    """
    wanted = Wanted(reference, float(data), dims, batches, toys, workers or cores())
    with running.bar("timing small null tables", "widths") as progress:
        found = forecast(wanted, running.settings, seed=running.seed, progress=progress)
    if running.json:
        click.echo(json.dumps(asdict(found), indent=2))
    elif not running.quiet:
        _show(found)


def _show(found: Forecast) -> None:
    console = Console(highlight=False)
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("width", "centres", "rows", "passes", "prepare", "block"):
        table.add_column(title, justify="left" if title == "rows" else "right", no_wrap=True)
    for each in found.widths:
        table.add_row(
            f"{each.width:.3g}",
            str(each.rank),
            ("stored" if each.stored else "made") + (", data made" * (not each.data_stored)),
            str(each.passes),
            duration(each.prepare_seconds),
            duration(each.block_seconds),
        )
    table.add_row("scan", "", "", "", duration(found.grid_seconds), duration(found.scan_seconds))
    console.print(table)
    wanted = found.wanted
    console.print(
        f"{wanted.toys} toys in {found.blocks} blocks of {found.toys_per_block} at each width and "
        f"for the scan, on {wanted.workers} workers as fast as the cores of this machine:"
    )
    console.print(f"  time   about {duration(found.seconds)}")
    console.print(f"  memory {readable_bytes(found.memory)} for each process, at one block a time")
    console.print(f"  disk   {readable_bytes(found.disk)}")
