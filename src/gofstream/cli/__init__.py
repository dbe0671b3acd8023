"""The command line: one module per command, each a thin wrapper over the library."""

from __future__ import annotations

import sys
import warnings
from typing import TextIO

import click
from threadpoolctl import threadpool_limits

from gofstream import __version__
from gofstream.cli.calibrate import calibrate
from gofstream.cli.data import data
from gofstream.cli.demo import demo
from gofstream.cli.describe import describe
from gofstream.cli.example import example
from gofstream.cli.inspect import inspect
from gofstream.cli.paper import paper
from gofstream.cli.power import power
from gofstream.cli.report import report
from gofstream.cli.serve import serve
from gofstream.cli.test import test
from gofstream.errors import GofstreamError, StoppedError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gofstream")
def cli() -> None:
    """Ask whether data still look like what is expected."""


for command in (
    calibrate,
    data,
    demo,
    describe,
    example,
    inspect,
    paper,
    power,
    report,
    serve,
    test,
):
    cli.add_command(command)


def main() -> None:
    """Run the command line: a user's mistake is one message and exit code 2."""
    warnings.showwarning = _show_warning
    try:
        # One BLAS thread: the products are small enough that more would only get in each other's
        # way (DESIGN, dependencies).
        with threadpool_limits(limits=1):
            cli(prog_name="gofstream")
    except StoppedError as stop:
        click.echo(f"gofstream: {stop}", err=True)
        sys.exit(130 if isinstance(stop.__cause__, KeyboardInterrupt) else 2)
    except (GofstreamError, OSError) as error:
        click.echo(f"gofstream: {error}", err=True)
        sys.exit(2)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show what the user should know, without the line of code that says so."""
    click.echo(f"gofstream: {message}", err=True)
