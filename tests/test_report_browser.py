"""The report in a real browser: it shows, and a user's text is only ever text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize
from tests.browser import assert_windows_fit, chromium, find
from tests.records import cases, dimuon, line, wide
from tests.test_examine import record as examined

from gofstream.report.html import render
from gofstream.report.record import Record

SIZES = (ViewportSize(width=1400, height=900), ViewportSize(width=390, height=844))

#: Each would run something, or add an element, if it were not text.
PAYLOADS = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "</svg><script>alert(1)</script>",
    "</text></g></svg><img src=x onerror=alert(1)>",
    "</title><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</pre></code><script>alert(1)</script>",
    "</td></tr></table><script>alert(1)</script>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<iframe srcdoc='<script>parent.alert(1)</script>'>",
    "<object data=javascript:alert(1)></object>",
    "<embed src=javascript:alert(1)>",
    "<a href=javascript:alert(1)>click</a>",
    "<body onload=alert(1)>",
    "<details open ontoggle=alert(1)>x</details>",
    "<video><source onerror=alert(1)></video>",
    "<audio src=x onerror=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<select autofocus onfocus=alert(1)>",
    "<marquee onstart=alert(1)>x</marquee>",
    "<math><mtext></mtext><script>alert(1)</script></math>",
    "<style>body{display:none}</style>",
    "<style>@import 'http://localhost:1/x.css';</style>",
    "<link rel=stylesheet href=http://localhost:1/x.css>",
    "<meta http-equiv=refresh content='0;url=http://localhost:1/'>",
    "<base href=http://localhost:1/>",
    "<form action=http://localhost:1/><button>x</button></form>",
    "<img src=http://localhost:1/x.png>",
    "<image href=http://localhost:1/x.png></image>",
    "<use href='#z-figure_1'></use>",
    "<animate onbegin=alert(1) attributeName=x dur=1s>",
    "<foreignObject><script>alert(1)</script></foreignObject>",
    "<!-- comment",
    "--><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "]]><script>alert(1)</script>",
    "<?xml version='1.0'?><script>alert(1)</script>",
    "<!DOCTYPE html><script>alert(1)</script>",
    '"><script>alert(1)</script>',
    "'><script>alert(1)</script>",
    '" onmouseover="alert(1)" x="',
    "' onclick='alert(1)' x='",
    "` onclick=alert(1) `",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "&amp;lt;b&amp;gt;",
    "{{ 7 * 7 }}",
    "{% for x in range(9) %}x{% endfor %}",
    "{{ ''.__class__.__mro__ }}",
    "{# gone #}",
    "${7*7} #{7*7} <%= 7*7 %>",
    "$\\frac{1}{2}$",
    "$x_1^2$",
    "$\\undefined",
    "\\$5 and $6",
    "%s %(x)s {0} %n",
    'url(#z-clip) id="z-figure_1"',
    "javascript:alert(1)",
    "$(touch /tmp/x) `id`; rm -rf ~ | 'x'",
    "Ünïcödé 质量 масса 🧪",
    "\u202egnp.exe",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all pages."""
    with chromium() as started:
        yield started


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    """Open a report offline; at the end nothing may have complained, asked or popped up."""
    troubles: list[str] = []
    context = browser.new_context()
    path = tmp_path / "report.html"

    def note_request(route: Any) -> None:
        if route.request.url != path.as_uri():
            troubles.append(f"request of {route.request.url}")
        route.continue_()

    def open_page(record: Record, size: ViewportSize = SIZES[0]) -> Page:
        path.write_text(render(record), encoding="utf-8")
        page = context.new_page()
        page.set_viewport_size(size)
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (troubles.append("dialog"), dialog.dismiss()))
        page.route("**/*", note_request)
        page.goto(path.as_uri())
        return page

    yield open_page
    context.close()
    assert not troubles


def assert_shown(page: Page, figures: int) -> None:
    """Every figure and heading lies within the page, and the page within the window."""
    width = page.viewport_size["width"] if page.viewport_size else 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [item.bounding_box() for item in page.locator("figure svg").all()]
    assert len(boxes) == figures
    for box in boxes:
        assert box is not None
        assert box["width"] > 250
        assert box["height"] > 90
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    # Text that a picture cannot hold would be cut at its edge.
    cut = page.evaluate(
        """() => [...document.querySelectorAll('figure svg')].flatMap(svg => {
            const frame = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('text')].filter(text => {
                const box = text.getBoundingClientRect();
                return box.width > 0 && (box.left < frame.left - 1 || box.right > frame.right + 1
                    || box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
            }).map(text => svg.getAttribute('aria-label') + ': ' + text.textContent);
        })"""
    )
    assert cut == []


def count_figures(record: Record) -> int:
    """Count: p and storage, toys by strategy, columns, two views of the pair."""
    return 2 + len(record.statistics) + len(record.columns) + 2 * (record.pair is not None)


@pytest.mark.parametrize(
    "name",
    ["examined", "whole", "one batch", "no toy as extreme, level set", "huge numbers", "p of one"],
)
def test_everything_is_visible_on_a_screen_and_on_a_phone(opened: Any, name: str) -> None:
    """No console errors, no requests, every figure in place at both widths."""
    made = {"examined": examined, "whole": dimuon}
    record = made[name]() if name in made else cases()[name]
    page = opened(record)
    for size in SIZES:
        page.set_viewport_size(size)
        assert_shown(page, count_figures(record))
        assert page.locator("#verdict h2").is_visible()
    if record.windows:
        assert_windows_fit(page, "th")


def test_many_columns_on_a_phone_and_on_paper(opened: Any, tmp_path: Path) -> None:
    """24 columns: on a phone tables scroll in themselves, and on A4 they fit."""
    record = wide()
    page = opened(record, SIZES[1])
    assert_shown(page, count_figures(record))
    scrolled = page.locator(".scroll:has(#events)")
    assert scrolled.evaluate("box => box.scrollWidth > box.clientWidth")
    page.pdf(path=tmp_path / "report.pdf", format="A4", prefer_css_page_size=True)
    content = (tmp_path / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert 5 <= len(re.findall(rb"/Type /Page\b", content)) <= 20
    page.emulate_media(media="print")
    page.set_viewport_size(ViewportSize(width=690, height=1000))  # A4 within its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 690
    assert not page.locator("nav").is_visible()


def test_dark_and_light_can_be_read(opened: Any) -> None:
    """In both colour schemes all text stands out from what is behind it (4.5 : 1, WCAG AA)."""
    page = opened(line(surprise=30, level=1e-3))
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(CONTRAST) == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark


CONTRAST = """() => {
    const parts = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
    const light = colour => {
        const [r, g, b] = parts(colour).map(
            v => v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = element => {
        for (let e = element; e; e = e.parentElement) {
            const colour = getComputedStyle(e).backgroundColor;
            if (parts(colour)[3] !== 0) return colour;
        }
        return 'rgb(255, 255, 255)';
    };
    return [...document.querySelectorAll('h1,h2,h3,p,th,td,dt,dd,li,a,small,figcaption,code,.t')]
        .filter(e => {
            const a = light(getComputedStyle(e).color), b = light(behind(e));
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
        }).map(e => e.tagName + ': ' + e.textContent.slice(0, 30));
}"""


def test_texts_of_users_are_shown_as_text(opened: Any) -> None:
    """Every payload, wherever a user's text can stand: nothing runs, nothing is injected."""
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= 50
    page = opened(loaded(PAYLOADS))
    usual = opened(loaded([f"name {i}" for i in range(len(PAYLOADS))]))
    assert page.evaluate(ELEMENTS) == usual.evaluate(ELEMENTS)
    places = (".caveats li", "#files th", "#events th", ".keys th", ".ranges th", "#files td")
    shown = {place: " ".join(page.locator(place).all_text_contents()) for place in places}
    drawn = page.locator("svg text").all_text_contents()
    command = page.locator("pre").text_content()
    for i, payload in enumerate(PAYLOADS):
        for place, text in shown.items():
            assert payload in text, place
        # In pictures a long name is cut: on the bars of the storage, on the axes of the columns.
        assert sum(text.startswith(payload[:35]) for text in drawn) >= 1 + (i % EVERY == 0)
        assert shlex.quote(payload) in command
    assert page.title() == "".join(PAYLOADS[:3]) + " - gofstream report"
    assert page.locator("h1").text_content() == "".join(PAYLOADS[:3])


#: Every so many texts, one names a column: pictures take time.
EVERY = 9

# Elements of the page in order; those of pictures as a set, since the length of a text moves ticks.
ELEMENTS = """() => {
    const all = [...document.querySelectorAll('*')];
    const names = found => found.map(e => e.tagName);
    return [
        names(all.filter(e => !e.closest('svg'))),
        [...new Set(names(all.filter(e => e.closest('svg'))))].sort(),
    ];
}"""


def loaded(texts: Any) -> Record:
    """Put texts wherever a user's text can stand: each into every list, some into pictures."""
    usual = line()
    made, column, region = usual.provenance, usual.columns[0], usual.regions[0]
    assert made is not None
    columns = [
        column.model_copy(update={"name": name, "unit": unit})
        for name, unit in zip(texts[::EVERY], texts[::-EVERY], strict=True)
    ]
    ranges = [
        region.ranges[0].model_copy(update={"column": text, "unit": texts[-i]})
        for i, text in enumerate(texts)
    ]
    values = (tuple([1.5] * len(texts)),)
    return usual.model_copy(
        update={
            "title": "".join(texts[:3]),
            "source": texts[4],
            "caveats": tuple(texts),
            "columns": tuple(columns),
            "statistics": {**usual.statistics, texts[5]: usual.statistics["all"]},
            "storage": dict.fromkeys(texts, 10**5),
            "regions": (region.model_copy(update={"ranges": tuple(ranges)}),),
            "events": usual.events.model_copy(
                update={"columns": tuple(texts), "rows": (3,), "ratios": (2.0,), "values": values}
            ),
            "provenance": made.model_copy(
                update={
                    "made": texts[6],
                    "command": ("gofstream", *texts),
                    "settings": {text: {text: [text]} for text in texts},
                    "versions": {text: text for text in texts},
                    "files": tuple(
                        made.files[0].model_copy(update={"role": text, "path": text})
                        for text in texts
                    ),
                }
            ),
        }
    )


def test_characters_that_no_file_can_hold(opened: Any) -> None:
    """Control characters and half a character: the page is made, and shows something for them."""
    odd = ["nul\x00", "bell\x07", "escape\x1b[31m", "feed\x0c", "line\nbreak", "half \ud800"]
    odd += ["\ufffe", "a" * 300, "\u0301\u0301", ""]
    page = opened(loaded([f"{i}{text}" for i, text in enumerate(odd)]))
    assert "half ?" in page.evaluate("document.body.innerText")
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[0]["width"]


def test_a_missing_browser_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Never a skip: where nothing is found and nothing can be installed, the tests fail."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="apt-get install chromium"):
        find()
