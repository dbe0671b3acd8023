"""The commands: their names, and what all of them have in common."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Any, NoReturn, TextIO

import click
from click.shell_completion import CompletionItem
from threadpoolctl import threadpool_limits

from gofstream.cli.interrupts import STOPPED, end_silently, interruptible, was_interrupted
from gofstream.errors import GofstreamError, InputError, StoppedError

#: Each command has a module of its name. The first paragraph of its help is repeated here, so that
#: `gofstream --help` imports no command.
COMMANDS = {
    "calibrate": "Make the null distribution for data still to come.",
    "demo": "Test eight batches of EXPO-1D data, and draw what was learnt.",
    "describe": "Show columns, types, ranges, missing values and a small histogram of each column.",
    "example": "Write a reference, and data with a signal in them, into FOLDER.",
    "inspect": "Tell what is in a result, a null file, a model or the store of a run.",
    "plan": "Predict time, memory and disk of a null table, from small ones timed on this machine.",
    "power": "Tell how often a signal would have been seen, by every strategy.",
    "replay": "Compute the statistics of STORE again from its models, and compare every bit.",
    "report": "Make the HTML report of a result file.",
    "serve": "Show a run on a page that keeps itself up to date.",
    "test": "Test whether DATA follow REFERENCE, and write a report.",
    "watch": "Learn from batches as they come, and say when they no longer follow REFERENCE.",
}

#: Commands of the distribution gofstream-studies, which names them as entry points.
STUDIES = {
    "bench": "Measure speed, memory and growth here, beside the paper's times: about a minute.",
    "data": "List, describe, make and fetch the data sets of the paper.",
    "paper": "Run one experiment of the paper, or list them.",
}
ENTRY_POINTS = "gofstream.commands"

STARTS_AGAIN = "stopped; the same command starts again"


class _Commands(click.Group):
    """Commands whose modules are imported when one of them is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name all commands."""
        return [*COMMANDS, *STUDIES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name in STUDIES:
            return _from_studies(cmd_name)
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"gofstream.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        with formatter.section("Commands of gofstream-studies"):
            formatter.write_dl(list(STUDIES.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, without importing any."""
        known = COMMANDS | STUDIES
        names = sorted(name for name in known if name.startswith(incomplete))
        return [
            *(CompletionItem(name, help=known[name]) for name in names),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Import the command that is to run; from here on Ctrl-C is an exception."""
        found = super().resolve_command(ctx, args)
        # One BLAS thread: the products are small enough that more would only get in each other's
        # way (threads share the work instead). Only libraries that are loaded by now are limited.
        ctx.with_resource(threadpool_limits(limits=1))
        ctx.with_resource(interruptible())
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; Ctrl-C is an error with a message, not click's "Aborted!"."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise StoppedError(STARTS_AGAIN) from stop


def _from_studies(name: str) -> click.Command:
    """Import a command of the studies, or say how to install them."""
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINTS, name=name):
        command: click.Command = entry.load()
        return command
    raise InputError(
        f"`gofstream {name}` is part of gofstream-studies, which is not installed: in a clone of "
        "the repository, `pip install ./studies`"
    )


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gofstream", prog_name="gofstream")
def cli() -> None:
    """Ask whether data still look like what is expected."""


def run() -> None:
    """Run the command line, and show errors as one message each."""
    warnings.showwarning = _show_warning
    try:
        cli(prog_name="gofstream")
    except StoppedError as stop:
        _end(stop, STOPPED if isinstance(stop.__cause__, KeyboardInterrupt) else 2)
    except (GofstreamError, OSError) as error:
        if was_interrupted():
            _end(StoppedError(STARTS_AGAIN), STOPPED)
        _end(error, 2)


def _end(error: Exception, code: int) -> NoReturn:
    end_silently()  # one line is enough
    click.echo(f"gofstream: {error}", err=True)
    sys.exit(code)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show what the user should know, without the line of code that says so."""
    click.echo(f"gofstream: warning: {message}", err=True)
