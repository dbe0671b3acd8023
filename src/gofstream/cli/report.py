"""`gofstream report`: the page of a result, made again from its file."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gofstream.files import write_whole
from gofstream.report.html import render
from gofstream.report.record import Record


@click.command(epilog="Example: gofstream report result.json --out report.html")
@click.argument("result", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="Where the page goes; its name ends in .html.",
)
@click.option("--json", "as_json", is_flag=True, help="Print where it went as JSON.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def report(result: Path, out: Path, as_json: bool, quiet: bool) -> None:
    """Make the HTML report of a result file.

    RESULT is the result.json of a test. The report is one file that opens without a network.
    """
    # Among others, this keeps the page from being written over the result.
    if out.suffix != ".html":
        raise click.BadParameter("end the name in .html", param_hint="--out")
    page = render(Record.load(result))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, page)
    if as_json:
        click.echo(json.dumps({"report": str(out)}))
    elif not quiet:
        click.echo(f"Report: {out}")
