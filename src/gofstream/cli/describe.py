"""`gofstream describe`: what is in a file of events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import click
from rich.console import Console
from rich.table import Table

from gofstream.cli.options import as_json, define_option
from gofstream.cli.progress import blocks_bar
from gofstream.errors import printable
from gofstream.io.summary import ColumnSummary, Summary, summarise

_BLOCKS = " ▁▂▃▄▅▆▇█"
# Parts listed, columns of a terminal for a name, and of a line where there is no terminal.
_PARTS, _NAME, _WIDE = 20, 20, 200


@click.command(epilog="Example: gofstream describe 'run*.root' --tree events --where 'pt > 20'")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--tree", help="Tree, group, dataset or array, if a file holds several.")
@click.option("--where", help="Look only at events such as 'mll > 60 & pt2 > 20'.")
@define_option
@as_json
def describe(
    files: tuple[str, ...],
    tree: str | None,
    where: str | None,
    define: Mapping[str, str],
    as_json: bool,
) -> None:
    """Show columns, types, ranges, missing values and a small histogram of each column.

    Several files are taken for one sample.
    """
    # The bar goes where messages go, so that the answer can be piped.
    with blocks_bar(Console(stderr=True), "reading", "rows") as progress:
        summary = summarise(files, tree=tree, where=where, define=define, progress=progress)
    if as_json:
        click.echo(json.dumps(summary.as_dict(), indent=2))
    else:
        _show(summary, where)


def _show(summary: Summary, where: str | None) -> None:
    # Nothing that comes from a file is markup, or steers the terminal.
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:  # nobody's lines to break
        console.width = _WIDE
    for file in summary.files:
        line = f"{file.path}: {file.format}, {file.rows} rows"
        console.print(printable(line), soft_wrap=True)
        if file.parts:
            more = f" and {len(file.parts) - _PARTS} more" if len(file.parts) > _PARTS else ""
            parts = ", ".join(file.parts[:_PARTS])
            console.print(printable(f"  holds {parts}{more}"), soft_wrap=True)
    if where is not None:
        console.print(printable(f"{summary.selected} rows with {where}"), soft_wrap=True)
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    longest = max(map(len, (*summary.columns, *summary.others)), default=0)
    table.add_column("column", overflow="fold", min_width=min(longest, _NAME))
    table.add_column("type", overflow="fold")
    for title in ("count", "missing", "min", "mean", "max"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("min to max", no_wrap=True)
    for name, column in summary.columns.items():
        table.add_row(*map(printable, (name, column.type, *_numbers(column))))
    for name, kind in summary.others.items():
        table.add_row(printable(name), printable(kind))
    console.print(table)


def _numbers(column: ColumnSummary) -> Sequence[str]:
    limits = (column.minimum, column.mean, column.maximum)
    shown = ["" if value is None else f"{value:.4g}" for value in limits]
    return [str(column.count), str(column.missing), *shown, _bars(column.histogram)]


def _bars(counts: Sequence[int]) -> str:
    """Draw a histogram in one line: a bin that is not empty shows at least the lowest block."""
    top = max(counts, default=0)
    return "".join(_BLOCKS[-(-count * (len(_BLOCKS) - 1) // top)] for count in counts)
