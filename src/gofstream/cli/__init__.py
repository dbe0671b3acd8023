"""The command line: one module per command, each a thin wrapper over the library."""

from __future__ import annotations

import signal
import sys
import warnings
from importlib import import_module
from typing import TextIO

import click
from threadpoolctl import threadpool_limits

from gofstream import __version__
from gofstream.errors import GofstreamError, StoppedError

#: Each has a module of its name, with a command of its name.
COMMANDS = (
    "bench",
    "calibrate",
    "data",
    "demo",
    "describe",
    "example",
    "inspect",
    "paper",
    "plan",
    "power",
    "replay",
    "report",
    "serve",
    "test",
    "watch",
)


class _Commands(click.Group):
    """Commands whose modules are loaded when asked for: those with pictures take a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"gofstream.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gofstream")
def cli() -> None:
    """Ask whether data still look like what is expected."""


def main() -> None:
    """Run the command line: a user's mistake is one message and exit code 2."""
    warnings.showwarning = _show_warning
    # A polite kill, as batch systems send when time is over, ends a command as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
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
