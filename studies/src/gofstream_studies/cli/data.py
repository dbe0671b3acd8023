"""`gofstream data`: what data sets there are, how to make them and how to get the public files."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from pathlib import Path
from textwrap import fill

import click
from rich.console import Console
from rich.table import Table

from gofstream.cli.options import as_json
from gofstream.cli.progress import blocks_bar
from gofstream.errors import InputError
from gofstream.execution import cores, process_workers
from gofstream_studies.datasets.catalogue import CATALOGUE, Entry, data_folder, entry
from gofstream_studies.datasets.fetch import ZENODO, fetch

_MEGABYTE = 1_000_000

into = click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the files go; by default $GOFSTREAM_DATA/NAME or ~/.cache/gofstream/NAME.",
)


@click.group(epilog="Example: gofstream data list")
def data() -> None:
    """List, describe, make and fetch the data sets of the paper."""


@data.command("list", epilog="Example: gofstream data list --json")
@as_json
def list_(as_json: bool) -> None:
    """List the data sets."""
    if as_json:
        click.echo(json.dumps([one.as_dict() for one in CATALOGUE.values()], indent=2))
        return
    table = Table("name", "title", "columns", "signals", "public files (Zenodo)", box=None)
    for one in CATALOGUE.values():
        sizes = str(len(one.columns)), str(len(one.signals))
        numbers = ", ".join(map(str, one.records))
        table.add_row(one.name, one.title, *sizes, numbers or "none: it is drawn from formulae")
    Console().print(table, highlight=False)


@data.command(epilog="Example: gofstream data describe dimuon5d")
@click.argument("name")
@as_json
def describe(name: str, as_json: bool) -> None:
    """Tell what a data set is, where its public files are and how they are laid out."""
    one = entry(name)
    click.echo(json.dumps(one.as_dict(), indent=2) if as_json else _text(one))


@data.command(epilog="Example: gofstream data make dimuon5d --events 200000 --to dimuon")
@click.argument("name")
@into
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option(
    "--events",
    type=click.IntRange(min=1),
    help="Reference events; `describe` tells the default, and what that costs.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Processes to use; by default as many as cores. What is made does not depend on it.",
)
def make(
    name: str, folder: Path | None, seed: int, events: int | None, workers: int | None
) -> None:
    """Make a data set with its generator. What was stopped goes on when run again."""
    one = entry(name)
    maker = one.load_maker()
    folder = data_folder(name) if folder is None else folder
    console = Console()
    start = time.perf_counter()
    count = workers or cores()
    pool = nullcontext(None) if count == 1 or not one.parallel else process_workers(count)
    with pool as executor, blocks_bar(console, one.title, "parts") as progress:
        maker(
            folder,
            seed=seed,
            events=events or one.events,
            executor=executor,
            progress=progress,
        )
    took = time.perf_counter() - start
    console.print(f"{one.title} made in {folder}   ({took:.1f} s)", soft_wrap=True)
    if one.note:
        console.print(one.note, soft_wrap=True)


@data.command("fetch", epilog="Example: gofstream data fetch dimuon5d --to dimuon-public")
@click.argument("name")
@into
@click.option("--only", multiple=True, metavar="PATTERN", help="Fetch only such files: '*.h5'.")
@click.option("--api", default=ZENODO, show_default=True, help="Who describes the records.")
def fetch_(name: str, folder: Path | None, only: tuple[str, ...], api: str) -> None:
    """Download the public files, check them, and go on where a download broke off."""
    one = entry(name)
    if not one.records:
        raise InputError(
            f"{one.title} has no public files, since its simulator is exact; "
            f"`gofstream data make {name}` writes it as files"
        )
    folder = data_folder(name) if folder is None else folder
    console = Console()
    with blocks_bar(console, one.title, "MB") as progress:
        files = fetch(
            one.records,
            folder,
            only=only,
            api=api,
            progress=lambda _, done, total: progress(done // _MEGABYTE, -(-total // _MEGABYTE)),
        )
    console.print(f"{len(files)} files of {one.title} in {folder}, all checked", soft_wrap=True)
    for file in files:
        console.print(f"  {file.name}", soft_wrap=True, highlight=False)


def _text(one: Entry) -> str:
    """Describe a data set to a reader."""
    width = max(len(name) for name in (*one.signals, *(name for name, _, _ in one.columns)))
    columns = [f"  {name:{width}}  {unit:4} {meaning}" for name, unit, meaning in one.columns]
    signals = [f"  {name:{width}}  {meaning}" for name, meaning in one.signals.items()]
    made = f"`gofstream data make {one.name}` makes {one.makes}"
    paragraphs = [
        f"{one.title} ({one.name})",
        one.what,
        "Columns:\n" + "\n".join(columns),
        "Signals:\n" + "\n".join(signals),
        "Public files:\n" + "\n".join(f"  {page}" for page in one.pages) if one.records else "",
        one.layout,
        f"Shipped: {one.shipped}.",
        f"{made}: {one.cost}." if one.cost else f"{made}.",
        one.note,
    ]
    # Lists keep their lines; prose is filled.
    return "\n\n".join(
        text if "\n" in text else fill(text, 92, break_on_hyphens=False)
        for text in paragraphs
        if text
    )
