"""From a plan for toys to a null table, in a file that can be resumed and extended."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

from gofstream.inference.null import NullFile, NullTable
from gofstream.toys.farm import Plan, run


def calibrate(
    plan: Plan,
    toys: int,
    path: Path,
    executor: Executor,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> NullTable:
    """Make what the file lacks of so many toys, and read them.

    Parameters
    ----------
    plan : what toys.
    toys : how many; a file with fewer is extended, one with more is used in part.
    path : the null file.
    executor : runs the blocks.
    progress : called with the number of blocks done and wanted.

    Raises
    ------
    FormatError
        If the file was made with another plan; it says what differs.
    StoppedError
        On Ctrl-C; the same call goes on from there.
    """
    file = NullFile(path, plan.about())
    run(plan, toys, file, executor, progress=progress)
    return file.load(toys)
