"""`gofstream bench`: what fits cost on this machine, beside the paper's figures."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import get_args

import click
from rich.console import Console
from rich.table import Table

from gofstream.cli.progress import amount, blocks_bar, duration
from gofstream.errors import readable_bytes
from gofstream.settings import PRESETS, Device
from gofstream_studies.bench.cases import LABELS, PAPER
from gofstream_studies.bench.fits import BLOCK
from gofstream_studies.bench.run import Bench
from gofstream_studies.bench.run import bench as measure

#: What to type for the case that is too large.
PLAN = (
    "gofstream plan --reference 10M --data 1M --dims 24 --batches 5 --toys 1000 --preset cmsl1 "
    "--memory 8GB"
)


@click.command(epilog="Example: gofstream bench --device cpu-torch --json")
@click.option(
    "--device",
    type=click.Choice(get_args(Device)),
    default="cpu",
    show_default=True,
    help="Where products are made.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def bench(device: Device, as_json: bool) -> None:
    """Measure speed, memory and growth here, beside the paper's times: about a minute.

    EXPO-1D is fitted at the paper's size, DIMUON-5D on the sample shipped and with 3000 candidate
    centres, not 10 000. On a GPU it ends with what to send back to the developers.
    """
    console = Console(stderr=as_json, highlight=False)
    with blocks_bar(console, "measuring", "steps") as progress:
        found = measure(device, progress=progress)
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
    else:
        _show(console, found)
    if device == "cuda":
        console.print(what_to_send(found), soft_wrap=True, markup=False)


def what_to_send(found: Bench) -> str:
    """Write what the developers want to know from a GPU: which one, versions, every number."""
    machine = found.machine
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    return (
        "\nFew GPUs, or none, have run this before. Please send the developers these lines:\n"
        f"device: {machine.device_name}\nhost: {machine.cpu}, {machine.cores} cores\n"
        f"versions: {versions}\n{json.dumps(asdict(found))}"
    )


def _show(console: Console, found: Bench) -> None:
    machine, growth = found.machine, found.growth
    grown = ", ".join(
        f"{duration(s)} at {amount(n)}"
        for n, s in zip(growth.n_reference, growth.seconds_per_fit, strict=True)
    )
    for part in (
        f"{machine.cpu}, {machine.cores} cores; {machine.device_name}",
        f"matrix products {machine.gflops32:.0f} Gflop/s in float32 and {machine.gflops64:.0f} in "
        f"float64, memory read at {machine.bandwidth:.0f} GB/s"
        + (", on one core" if machine.device == "cpu" else ""),
        f"\n[bold]Fit of a batch of 2000 events[/bold]: alone, in a block of {BLOCK}, in blocks on "
        "all cores; and on the paper's GPU",
        _fits(found),
        f"CMS-L1-24D is too large for a minute; what it would take here: {PLAN}",
        "\n[bold]Memory[/bold] of a block of fits, against its budget",
        _memory(found),
        f"\n[bold]Growth[/bold] of a fit with N_R (EXPO-1D, width {growth.width:g}, in a block): "
        f"{grown}; exponent {growth.exponent:.2f}",
        f"\nmeasured in {duration(found.seconds)}",
    ):
        console.print(part, soft_wrap=isinstance(part, str))


def _fits(found: Bench) -> Table:
    table = _table(
        "data set", "N_R", "M", "width", "r", "prepare", "alone", "block", "cores", "paper"
    )
    for each in found.fits:
        table.add_row(
            LABELS[each.data_set],
            amount(each.n_reference),
            amount(each.centres),
            f"{each.width:g}",
            str(each.rank),
            duration(each.prepared),
            duration(each.alone),
            duration(each.in_block),
            "" if each.on_all_cores is None else duration(each.on_all_cores),
            _paper(each.data_set),
        )
    study = PRESETS["cmsl1"]
    (width,) = study.settings.widths or ()
    size, centres = amount(study.n_reference), amount(study.settings.n_centres or 0)
    table.add_row(LABELS["cmsl1"], size, centres, f"{width:g}", *[""] * 5, _paper("cmsl1"))
    return table


def _memory(found: Bench) -> Table:
    table = _table("rows", "N_R", "budget", "taken", "share", "on the device")
    for each in found.memory:
        table.add_row(
            each.rows,
            amount(each.n_reference),
            _bytes(each.budget),
            _bytes(each.taken),
            f"{each.taken / each.budget:.2f}",
            _bytes(each.on_device) if each.on_device else "",
        )
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for title in titles:
        left = title in ("data set", "rows")
        table.add_column(title, justify="left" if left else "right", no_wrap=True)
    return table


def _paper(name: str) -> str:
    least, most = PAPER[name]
    return f"{least:g}-{most:g} s"


def _bytes(size: int) -> str:
    return readable_bytes(size).partition(" (")[0]
