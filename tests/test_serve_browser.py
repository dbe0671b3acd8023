"""The page of a run in a real browser, while the run goes on."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize
from tests.browser import chromium
from tests.runs import Run
from tests.serving import TOKEN, Serving, serving
from tests.test_report_browser import CONTRAST, PAYLOADS

from gofstream.stream.reader import Reader

SIZES = (ViewportSize(width=1400, height=900), ViewportSize(width=390, height=844))
#: Names of batches that would run something, or add an element, if they were not text.
NAMES = tuple(text for text in PAYLOADS if text.isprintable())


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all pages."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Write a run whose file and batches have names that want to be more than names."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "token").write_text(TOKEN)
    (folder / "inbox").mkdir()
    with Run(folder / "<img src=x onerror=alert(1)>.gofs", NAMES, time.time() - 9000) as made:
        made.add(len(NAMES))
        yield made


@pytest.fixture(scope="module")
def server(run: Run) -> Iterator[Serving]:
    """Serve the run."""
    with serve(run) as started:
        yield started


def serve(run: Run, port: int = 0) -> Any:
    """Start the server of a run."""
    path = run.store.path
    return serving(
        path,
        *("--token-file", str(path.parent / "token"), "--inbox", str(path.parent / "inbox")),
        port=port,
    )


@pytest.fixture
def opened(browser: Browser, server: Serving) -> Iterator[Any]:
    """Open the page; at the end nothing may have complained, asked elsewhere or popped up."""
    troubles: list[str] = []
    context = browser.new_context()

    def open_page(url: str = server.url, lost: bool = False) -> Page:
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (troubles.append("dialog"), dialog.dismiss()))
        page.on(
            "request",
            lambda request: (
                None if request.url.startswith((url, "data:,")) else troubles.append(request.url)
            ),
        )
        if not lost:  # a browser complains of a server that is gone
            page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.set_viewport_size(SIZES[0])
        page.goto(url)
        page.wait_for_function("document.getElementById('link').className === 'live'")
        return page

    yield open_page
    context.close()
    assert not troubles


def batches(page: Page, count: int) -> None:
    """Wait until the page knows of so many batches."""
    page.wait_for_function(
        "count => document.getElementById('batches').textContent === String(count)", arg=count
    )


def test_names_are_shown_as_text(opened: Any, run: Run) -> None:
    """Of the store, of batches, of columns: in tables, titles and pictures nothing runs."""
    assert len(NAMES) >= 50
    page = opened()
    batches(page, len(NAMES))
    assert page.locator("h1").text_content() == run.store.path.name
    assert run.store.path.name in page.title()
    shown: list[str] = []
    while True:
        shown += page.locator("#ledger tbody td:nth-child(2)").all_text_contents()
        if page.locator("#older").is_disabled():
            break
        before = page.locator("#shown").text_content()
        page.locator("#older").click()
        page.wait_for_function(
            "before => document.getElementById('shown').textContent !== before", arg=before
        )
    assert shown == list(reversed(NAMES))
    assert page.locator("#ledger img, #ledger script, #ledger svg, h1 *").count() == 0
    page.locator("#newest").click()
    assert page.locator("#shown").text_content() == f"{len(NAMES) - 24} to {len(NAMES)} of " + str(
        len(NAMES)
    )


def test_everything_is_visible_on_a_screen_and_on_a_phone(opened: Any) -> None:
    """Every picture within the page, the page within the window, text against what is behind."""
    page = opened()
    page.locator("#where .main-svg").first.wait_for()
    for size in SIZES:
        page.set_viewport_size(size)
        width = size["width"]
        page.wait_for_function(
            "width => [...document.querySelectorAll('.chart .main-svg')].every("
            "e => e.getBoundingClientRect().right <= width)",
            arg=width,
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        charts = page.locator(".chart")
        assert charts.count() == 3 + 3
        for chart in charts.all():
            box = chart.bounding_box()
            assert box is not None
            assert box["width"] > 250
            assert box["height"] > 150
            assert chart.locator(".main-svg").count() > 0
            assert chart.get_attribute("aria-label")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(CONTRAST) == []
    page.emulate_media(color_scheme="light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(251, 251, 249)"
    assert "Nothing unusual" in page.locator("#head").inner_text()
    assert page.locator("#acknowledge").is_hidden()
    assert "files in the inbox" in page.locator("#waiting-note").inner_text()


def test_a_commit_is_shown_within_a_second(opened: Any, run: Run) -> None:
    """Median over five commits, from before the commit to the new number on the page."""
    page = opened()
    took = []
    for _ in range(5):
        count = run.store.head().batches + 1
        start = time.perf_counter()
        run.add()
        batches(page, count)
        took.append(time.perf_counter() - start)
    assert statistics.median(took) < 1.0
    newest = page.locator("#ledger tbody tr").first
    assert newest.locator("td").first.inner_text() == str(count)
    assert page.locator("#ledger tbody tr").count() == 25


def test_an_alarm_is_shown_and_acknowledged_by_keyboard(opened: Any, run: Run) -> None:
    """A wrong token changes nothing; the right one closes the alarm for every page."""
    page, other = opened(), opened()
    run.alarm()
    for each in (page, other):
        each.locator("#verdict.alarm").wait_for()
        assert each.title().startswith("⚠ Alarm: since batch")
    number = run.store.head().batches
    assert f"The alarm rang after batch {number}" in page.locator("#sentence").inner_text()
    assert page.locator("#alarms tbody tr").count() == 1
    # From the top of the page, by the tab key alone.
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "by"
    page.keyboard.type("<b>Ada</b>")
    page.keyboard.press("Tab")
    page.keyboard.type("wrong")
    with page.expect_response("**/acknowledge") as answered:
        page.keyboard.press("Enter")
    assert answered.value.status == 401
    page.get_by_text("this takes the token").wait_for()
    page.locator("#token").fill(TOKEN)
    page.keyboard.press("Enter")
    for each in (page, other):
        each.wait_for_function("!document.getElementById('verdict').classList.contains('alarm')")
        assert each.locator("#alarms tbody td").last.inner_text().startswith("<b>Ada</b>, ")
        assert each.locator("#acknowledge").is_hidden()
    with Reader(run.store.path) as reader:
        (alarm,) = reader.alarms()
    assert alarm.by == "<b>Ada</b>"
    assert alarm.acknowledged == pytest.approx(time.time(), abs=60)


def test_a_page_comes_back_after_a_restart(opened: Any, run: Run) -> None:
    """The page says that it lost the server, finds it again, and shows what it missed, once."""
    with ExitStack() as stack:
        server = stack.enter_context(serve(run))
        page = opened(server.url, lost=True)
        before = run.store.head().batches
        batches(page, before)
        server.stop()
        page.get_by_text("Connection lost").wait_for()
        run.add(3)
        stack.enter_context(serve(run, server.port))
        batches(page, before + 3)
        assert page.locator("#link-text").inner_text() == "Live"
        numbers = page.locator("#ledger tbody td:first-child").all_text_contents()
        assert [int(text) for text in numbers] == list(range(before + 3, before + 3 - 25, -1))
        # Curves too: every batch that was learnt, and each once.
        x = page.evaluate("[...document.getElementById('u-chart').data[0].x]")
        assert x == sorted(set(x))
        assert x[-1] == before + 3


def test_the_page_of_a_browser_that_must_give_the_token(
    browser: Browser, run: Run, tmp_path: Path
) -> None:
    """It asks once, and then shows the run."""
    token = str(run.store.path.parent / "token")
    with serving(run.store.path, "--host", "0.0.0.0", "--token-file", token) as server:
        page = browser.new_page()
        page.goto(server.url)
        assert "token" in page.locator("h1").inner_text()
        page.keyboard.type(TOKEN)
        page.keyboard.press("Enter")
        page.locator("#link.live").wait_for()
        batches(page, run.store.head().batches)
        page.close()
