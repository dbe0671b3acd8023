"""The command line: one module per command, each a thin wrapper over the library."""

from __future__ import annotations

# Python's own start, about 15 ms, comes before this and shows a traceback on Ctrl-C; nothing that
# is imported may.
try:
    from gofstream.cli.interrupts import take_signals
except KeyboardInterrupt:
    import os

    os.write(2, b"gofstream: stopped\n")
    os._exit(130)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gofstream.cli.group import cli
else:
    from gofstream.lazy import lazy_names

    __getattr__ = lazy_names(__name__, {"cli": "gofstream.cli.group"})

__all__ = ["cli", "main"]


def main() -> None:
    """Run the command line: a user's mistake is one message and exit code 2."""
    # Before anything else is imported: what follows takes tenths of a second.
    take_signals()
    from gofstream.cli.group import run

    run()
