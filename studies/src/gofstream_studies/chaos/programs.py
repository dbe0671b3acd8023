"""Programs that tests and chaos need beside Python, installed where they are missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def program(package: str, names: tuple[str, ...], what_for: str) -> str:
    """Give the path of a program, and install its package if there is none and this is root.

    Parameters
    ----------
    package : of Debian.
    names : that the program goes by.
    what_for : what cannot be done without it.
    """
    # Workers of the tests run at the same time, and apt refuses a second one.
    lock = Path(tempfile.gettempdir()) / f"gofstream-apt-{os.getuid()}.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        path = _installed(names)
        if path is None and os.getuid() == 0 and shutil.which("apt-get"):
            _install(package)
            path = _installed(names)
    if path is None:
        raise RuntimeError(
            f"{what_for}, and there is none: on Debian, `apt-get install {package}` as root"
        )
    return path


def _installed(names: tuple[str, ...]) -> str | None:
    return next((path for name in names if (path := shutil.which(name))), None)


def _install(package: str) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", package]):
        done = subprocess.run(
            ["apt-get", *arguments], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"apt-get {' '.join(arguments)} failed:\n{done.stderr}")
