"""The report: one HTML file that opens offline, made from a result file alone."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from gofstream.inference.result import RULES, UNDESCRIBED
from gofstream.report import words
from gofstream.report.histograms import column_figure, pair_figure
from gofstream.report.pictures import null_figure, p_figure, storage_figure
from gofstream.report.record import Record
from gofstream.report.svg import inline_svg

#: What each strategy asks, in the words of the README.
QUESTIONS = {
    "single": "the first batch, by what it taught itself",
    "sum": "the single tests, added",
    "all": "all batches, by the aggregate",
    "one": "the first batch, by the aggregate",
    "sat": "the aggregate against the reference",
    "next": "each batch, by what came before it",
    "scan": "all batches, one window at a time",
}


class Picture(NamedTuple):
    """A figure in the page, and the words below it."""

    svg: Markup
    head: str
    text: str


def render(record: Record) -> str:
    """Write the report of a result as a page that needs nothing else.

    The same record gives the same text. All of a user's text is escaped; there are no scripts, and
    the page forbids itself any.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": words.number,
        "p": words.p_text,
        "z": words.z_text,
        "interval": words.interval,
        "size": words.size,
        "shell": shlex.join,
        "place": words.place_text,
        "span": words.span_text,
        "e_value": words.e_text,
        "json": lambda value: json.dumps(value, ensure_ascii=False),
    }
    page = environment.get_template("report.html.j2").render(
        record=record,
        questions=QUESTIONS,
        rule=RULES[record.rule],
        headline=words.headline(record),
        verdict=words.verdict(record),
        decision=words.decision(record),
        undescribed=UNDESCRIBED,
        lost={name: words.widths_undescribed(record, name) for name in record.statistics},
        caveats=words.caveats(record),
        units={column.name: column.label for column in record.columns},
        pictures=_pictures(record),
    )
    # A name may hold half a character (a lone surrogate), which no file can.
    return page.encode("utf-8", "replace").decode("utf-8")


def _pictures(record: Record) -> dict[str, list[Picture]]:
    """Draw the figures of each section."""
    pictures = {
        "p": [
            _picture(
                p_figure(record),
                "z",
                "Every strategy:",
                "Z on the lower axis and p on the upper one, at each width and over all of them.",
            )
        ],
        "null": [
            _picture(
                null_figure(record, name),
                f"null{i}",
                f"{name}:",
                "the toys as a histogram, the data as a line.",
            )
            for i, name in enumerate(record.statistics)
        ],
        "pair": [],
        "columns": [
            _picture(
                column_figure(column),
                f"column{i}",
                f"{column.label}:",
                "fitted." if column.fitted else "carried along, not fitted.",
            )
            for i, column in enumerate(record.columns)
        ],
        "storage": [
            _picture(
                storage_figure(record), "storage", "Storage:", "what each strategy has to keep."
            )
        ],
    }
    if record.pair is not None:
        both = f"{record.pair.x} and {record.pair.y}:"
        pictures["pair"] = [
            _picture(pair_figure(record, "data"), "pair0", both, "the data."),
            _picture(
                pair_figure(record, "pull"),
                "pair1",
                both,
                "how far the data are from the reference; positive (red) is more than expected, "
                "negative (blue) is less. Grey expects nothing, and a cross is data there.",
            ),
        ]
    return pictures


def _picture(figure: Figure, name: str, head: str, text: str) -> Picture:
    # What `inline_svg` gives is made of elements, with every text in it escaped.
    return Picture(Markup(inline_svg(figure, name, f"{head} {text}")), head, text)
