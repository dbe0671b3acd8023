"""A real browser for the tests: Debian's Chromium, which is installed where it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chaos.programs import program
from playwright.sync_api import Browser, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a headless Chromium; a busy machine has time to show what is expected."""
    expect.set_options(timeout=30_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"])
        yield browser
        browser.close()


def find() -> str:
    """Give the path of a Chromium."""
    return program("chromium", NAMES, "these tests open pages in a browser")
