"""A real browser for the tests: Debian's Chromium, which is installed where it is missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a headless Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"])
        yield browser
        browser.close()


def find() -> str:
    """Give the path of a Chromium, and install it if there is none and this is root."""
    # Workers of the tests run at the same time, and apt refuses a second one.
    lock = Path(tempfile.gettempdir()) / f"gofstream-chromium-{os.getuid()}.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        path = _installed()
        if path is None and os.getuid() == 0 and shutil.which("apt-get"):
            _install()
            path = _installed()
    if path is None:
        raise RuntimeError(
            "these tests open reports in a browser, and none was found: install Chromium, on "
            "Debian with `apt-get install chromium` as root"
        )
    return path


def _installed() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def _install() -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        done = subprocess.run(
            ["apt-get", *arguments], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"apt-get {' '.join(arguments)} failed:\n{done.stderr}")
