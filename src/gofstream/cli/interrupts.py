"""What Ctrl-C and a polite kill (SIGTERM) do while a command starts, runs and ends.

While modules are imported there is nothing to clean up, and an exception there would be shown with
a traceback, or be taken for a broken library: the process says one line and ends. While a command
runs, `KeyboardInterrupt` is raised. Exit code 130 in each case.
"""

from __future__ import annotations

import atexit
import os
import signal
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

#: The exit code of a command that was stopped.
STOPPED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_came: list[int] = []


def take_signals() -> None:
    """Take Ctrl-C and SIGTERM over for the rest of this process."""
    # The first function registered is the last one called: what follows it is the interpreter's
    # own end, where a signal would change the exit code of a command that has done its work.
    atexit.register(_on_signals, signal.SIG_IGN)
    _on_signals(_say_and_end)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `KeyboardInterrupt` when a signal comes; before and after, the process ends at once.

    Signals that `take_signals` has not taken, as in a notebook, are left alone.
    """
    if signal.getsignal(signal.SIGINT) is not _say_and_end:
        yield
        return
    _on_signals(_interrupt)
    try:
        yield
    finally:
        _on_signals(_say_and_end)


def was_interrupted() -> bool:
    """Tell whether a signal came while a command ran.

    `KeyboardInterrupt` can get lost: where it is raised in a question that C code asks, as numpy
    does before it reads from a file, another exception takes its place.
    """
    return bool(_came)


def end_silently() -> None:
    """End the process without another line when a signal comes again."""
    _on_signals(_end)


def _on_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for number in _SIGNALS:
        signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _came.append(number)
    raise KeyboardInterrupt


def _say_and_end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"gofstream: stopped\n")
    os._exit(STOPPED)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(STOPPED)
