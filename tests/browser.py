"""A real browser for the tests: Debian's Chromium, which is installed where it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, expect, sync_playwright

from gofstream_studies.chaos.programs import program

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a headless Chromium; a busy machine has time to show what is expected."""
    expect.set_options(timeout=30_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"])
        yield browser
        browser.close()


def assert_windows_fit(page: Page, first: str) -> None:
    """On a phone the ranges of a window take the whole width, and all its numbers are in sight.

    ``first`` is the cell with the ranges: th or td.
    """
    width = page.viewport_size["width"] if page.viewport_size else 0
    rows = page.locator("#windows tbody tr").all()
    assert rows
    for row in rows:
        cell = row.locator(f"{first}:first-child")
        ranges = cell.bounding_box()
        assert ranges is not None
        assert ranges["width"] > 0.8 * width
        lines = round((ranges["height"] - 10) / 24)
        assert lines <= 1 or len(cell.inner_text()) / lines > 18
        for cell in row.locator("td").all():
            box = cell.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
    label = "getComputedStyle(document.querySelector('#windows td:last-child'), '::before').content"
    assert page.evaluate(label) == '"2 log ratio"'


def find() -> str:
    """Give the path of a Chromium."""
    return program("chromium", NAMES, "these tests open pages in a browser")
