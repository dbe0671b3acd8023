"""The page of a run in a real browser, while the run goes on."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, ViewportSize, expect
from tests.browser import assert_windows_fit, chromium
from tests.runs import Run
from tests.serving import TOKEN, serving, until
from tests.test_report_browser import CONTRAST, PAYLOADS

from gofstream.stream.reader import Reader

SIZES = (ViewportSize(width=1400, height=900), ViewportSize(width=390, height=844))
#: Words of one line that take several.
BROKEN = """[...document.querySelectorAll("#ledger td:nth-child(3)")]
  .filter((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return range.getClientRects().length > 1;
  }).map((cell) => cell.textContent)"""
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


class Servers:
    """One server after another, at the same address."""

    def __init__(self, run: Run) -> None:
        folder = run.store.path.parent
        self._path = run.store.path
        self._options = ("--token-file", str(folder / "token"), "--inbox", str(folder / "inbox"))
        self._port = 0
        self.start()

    def start(self) -> None:
        """Start one."""
        self._stack = ExitStack()
        server = self._stack.enter_context(serving(self._path, *self._options, port=self._port))
        self._port, self.url = server.port, server.url

    def stop(self) -> None:
        """Stop the one that runs."""
        self._stack.close()


@pytest.fixture(scope="module")
def servers(run: Run) -> Iterator[Servers]:
    """Serve the run."""
    started = Servers(run)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def watched(browser: Browser, servers: Servers) -> Iterator[tuple[Page, list[str]]]:
    """Keep the page open during all tests, and what it complains of, asks for or pops up."""
    troubles: list[str] = []
    url = servers.url
    page = browser.new_page(viewport=SIZES[0])
    page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (troubles.append("dialog"), dialog.dismiss()))
    page.on("console", lambda message: troubles.append(f"console: {message.text}"))

    def note(asked: Request) -> None:
        if not asked.url.startswith((url, "data:,")):
            troubles.append(f"request of {asked.url}")

    page.on("request", note)
    page.goto(url)
    yield page, troubles
    page.close()


@pytest.fixture
def page(watched: tuple[Page, list[str]]) -> Iterator[Page]:
    """Give the page; up to the end of each test nothing may have been amiss."""
    shown, troubles = watched
    expect(shown.locator("#link-text")).to_have_text("Live")
    yield shown
    # A browser complains of a refused token, and of a server that is gone: both are tested.
    meant = ("status of 401", "net::ERR_")
    assert [text for text in troubles if not any(part in text for part in meant)] == []


def batches(page: Page, count: int) -> None:
    """Wait until the page knows of so many batches."""
    expect(page.locator("#batches")).to_have_text(str(count))


def test_names_are_shown_as_text(page: Page, run: Run) -> None:
    """Of the store, of batches, of columns: in tables, titles and pictures nothing runs."""
    assert len(NAMES) >= 50
    batches(page, len(NAMES))
    assert page.locator("h1").text_content() == run.store.path.name
    assert run.store.path.name in page.title()
    shown: list[str] = []
    while True:
        shown += page.locator("#ledger tbody td:nth-child(2)").all_text_contents()
        if page.locator("#older").is_disabled():
            break
        before = page.locator("#shown").inner_text()
        page.locator("#older").click()
        expect(page.locator("#shown")).not_to_have_text(before)
    assert shown == list(reversed(NAMES))
    assert page.locator("#ledger img, #ledger script, #ledger svg, h1 *").count() == 0
    page.locator("#newest").click()
    assert page.locator("#shown").text_content() == f"{len(NAMES) - 24} to {len(NAMES)} of " + str(
        len(NAMES)
    )


def right(item: Locator) -> float:
    """Give the right edge of something on the page."""
    box = item.bounding_box()
    assert box is not None
    return box["x"] + box["width"]


def test_everything_is_visible_on_a_screen_and_on_a_phone(page: Page) -> None:
    """Every picture within the page, the page within the window, text against what is behind."""
    page.locator("#where .main-svg").first.wait_for()
    for size in SIZES:
        page.set_viewport_size(size)
        width = size["width"]
        # Pictures follow the window a moment later.
        for chart in page.locator(".chart .main-svg:first-child").all():
            until(lambda chart=chart, width=width: right(chart) <= width)
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
        # The state of a batch is one word in one line; the table is moved where it is wider.
        assert page.evaluate(BROKEN) == []
    assert_windows_fit(page, "td")
    page.emulate_media(color_scheme="light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(251, 251, 249)"
    assert "Nothing unusual" in page.locator("#head").inner_text()
    assert page.locator("#acknowledge").is_hidden()
    assert "files in the inbox" in page.locator("#waiting-note").inner_text()


def test_a_commit_is_shown_within_a_second(page: Page, run: Run) -> None:
    """Median over five commits, from before the commit to the new number on the page."""
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


def test_an_alarm_is_shown_and_acknowledged_by_keyboard(page: Page, run: Run) -> None:
    """A wrong token changes nothing; the right one closes the alarm."""
    run.alarm()
    page.locator("#verdict.alarm").wait_for()
    assert page.title().startswith("⚠ Alarm: since batch")
    number = run.store.head().batches
    assert f"The alarm rang after batch {number}" in page.locator("#sentence").inner_text()
    assert page.locator("#alarms tbody tr").count() == 1
    # From the top of the page, by the tab key alone.
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.locator("header").click()
    for wanted in ("by", "token"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == wanted
        page.keyboard.type("<b>Ada</b>")
    with page.expect_response("**/acknowledge") as answered:
        page.keyboard.press("Enter")
    assert answered.value.status == 401
    expect(page.locator("#answer")).to_contain_text("this takes the token")
    page.locator("#token").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(page.locator("#alarms tbody td").last).to_contain_text("<b>Ada</b>, ")
    expect(page.locator("#acknowledge")).to_be_hidden()
    assert page.locator("#verdict.alarm").count() == 0
    with Reader(run.store.path) as reader:
        (alarm,) = reader.alarms()
    assert alarm.by == "<b>Ada</b>"
    assert alarm.acknowledged == pytest.approx(time.time(), abs=60)


def test_a_page_comes_back_after_a_restart(page: Page, run: Run, servers: Servers) -> None:
    """The page says that it lost the server, finds it again, and shows what it missed, once."""
    before = run.store.head().batches
    batches(page, before)
    servers.stop()
    expect(page.locator("#link-text")).to_contain_text("Connection lost")
    run.add(3)
    servers.start()
    batches(page, before + 3)
    expect(page.locator("#link-text")).to_have_text("Live")
    numbers = page.locator("#ledger tbody td:first-child").all_text_contents()
    assert [int(text) for text in numbers] == list(range(before + 3, before + 3 - 25, -1))
    # Curves too: every batch that was learnt, and each once.
    x = page.evaluate("[...document.getElementById('u-chart').data[0].x]")
    assert x == sorted(set(x))
    assert x[-1] == before + 3


def test_a_browser_is_asked_for_the_token(browser: Browser, run: Run) -> None:
    """Once, where other machines could look; then the run is shown."""
    token = str(run.store.path.parent / "token")
    with serving(run.store.path, "--host", "0.0.0.0", "--token-file", token) as server:
        page = browser.new_page()
        page.goto(server.url)
        assert "token" in page.locator("h1").inner_text()
        page.keyboard.type(TOKEN)
        page.keyboard.press("Enter")
        batches(page, run.store.head().batches)
        page.close()
