"""Records in which order a file is written, linked and synced: what a power cut leaves."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest


class DiskStep(NamedTuple):
    """One call that a power cut may fall before or after.

    Attributes
    ----------
    kind : "file" or "folder" for a sync of one; "name" for a link or a renaming.
    path : of the file or folder; of the new name.
    size : bytes that the file had then; 0 for a folder.
    """

    kind: str
    path: Path
    size: int


def recorded_syncs(patch: pytest.MonkeyPatch) -> list[DiskStep]:
    """Give a list that grows by every sync, link and renaming; all of them are really done.

    Steps stand in the list when they are over, so a test may append its own marks, such as that
    the sender has been answered.
    """
    steps: list[DiskStep] = []

    def syncing(call: Callable[[int], None]) -> Callable[[int], None]:
        def sync(file: int) -> None:
            call(file)
            found, path = os.fstat(file), _path_of(file)
            folder = stat.S_ISDIR(found.st_mode)
            steps.append(
                DiskStep("folder" if folder else "file", path, 0 if folder else found.st_size)
            )

        return sync

    def naming(call: Callable[..., None]) -> Callable[..., None]:
        def name(source: Any, target: Any, **rest: Any) -> None:
            call(source, target, **rest)
            steps.append(DiskStep("name", Path(target).resolve(), os.stat(target).st_size))

        return name

    for call in ("fsync", "fdatasync"):
        patch.setattr(os, call, syncing(getattr(os, call)))
    for call in ("link", "rename", "replace"):
        patch.setattr(os, call, naming(getattr(os, call)))
    return steps


def assert_durable(steps: list[DiskStep], path: Path, size: int) -> None:
    """Check that a file was synced whole, then got its name, then its folder was synced.

    Call it when the answer has been given: all three steps must be over by then.
    """
    path = path.resolve()
    named = [k for k, step in enumerate(steps) if (step.kind, step.path) == ("name", path)]
    assert named, f"{path.name} never got its name: {steps}"
    before, after = steps[: named[0]], steps[named[0] + 1 :]
    synced = [step.size for step in before if step.kind == "file"]
    assert size in synced, f"{path.name} was named before its {size} bytes were synced: {steps}"
    folders = [step.path for step in after if step.kind == "folder"]
    assert path.parent in folders, f"the folder of {path.name} was not synced: {steps}"


def _path_of(file: int) -> Path:
    """Give the path of an open file."""
    if hasattr(fcntl, "F_GETPATH"):  # macOS
        return Path(fcntl.fcntl(file, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0").decode())
    return Path(os.readlink(f"/proc/self/fd/{file}"))
