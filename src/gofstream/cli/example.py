"""`gofstream example`: files to try things on."""

from __future__ import annotations

from pathlib import Path

import click

from gofstream.datasets.example import EXAMPLES, write


@click.command(epilog="Example: gofstream example first --format root")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--data-set", type=click.Choice(list(EXAMPLES)), default="expo1d", show_default=True)
@click.option(
    "--format", "kind", type=click.Choice(["parquet", "root"]), default="parquet", show_default=True
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
def example(folder: Path, data_set: str, kind: str, seed: int) -> None:
    """Write a reference, and data with a signal in them, into FOLDER."""
    reference, data = write(data_set, folder, kind, seed)
    chosen = EXAMPLES[data_set]
    click.echo(f"written: {reference} and {data}; hidden in the data: {chosen.shows}")
    words = f"--expected {chosen.expected} --batches {chosen.batches} {chosen.options}".strip()
    click.echo(f"Now: gofstream test {reference} {data} {words}")
