"""The report: every number is the record's, the same record gives the same page."""

from __future__ import annotations

import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hist import Hist, axis, storage
from matplotlib import rcParams
from scipy import stats
from tests.records import cases, dimuon, line, meaning, wide
from tests.test_cli import run

from gofstream.cli import cli
from gofstream.errors import ColumnError, FormatError, InputError
from gofstream.inference.result import UNDESCRIBED
from gofstream.report import words
from gofstream.report.histograms import poisson_errors
from gofstream.report.html import render
from gofstream.report.pictures import storage_figure
from gofstream.report.record import SCHEMA, Chance, Record, schema

CASES = cases()
NONE = "no toy as extreme, level set"


class Page(HTMLParser):
    """Reads tables (text and exact values of every cell), texts by element, and ids."""

    def __init__(self, page: str) -> None:
        """Read a whole page."""
        super().__init__()
        self.tables: dict[str, list[list[tuple[str, list[str]]]]] = {}
        self.ids: list[str] = []
        self.used: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self._table: list[list[tuple[str, list[str]]]] = []
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a table, row or cell; note ids and what refers to them."""
        given = dict(attrs)
        self.tags.append(tag)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        for value in given.values():
            self.used += re.findall(r"url\(#([^)]*)\)", value or "")
        if str(given.get("href", "")).startswith("#"):
            self.used.append(str(given["href"])[1:])
        if tag == "table":
            self._table = self.tables.setdefault(given.get("id") or f"table{len(self.tables)}", [])
        elif tag == "tr":
            self._table.append([])
        elif tag in ("td", "th"):
            self._table[-1].append(("", []))
            self._inside = True
        elif tag == "data" and self._inside:
            self._table[-1][-1][1].append(str(given["value"]))

    def handle_endtag(self, tag: str) -> None:
        """Close a cell."""
        self._inside = self._inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        """Collect text."""
        self.text += data
        if self._inside:
            text, values = self._table[-1][-1]
            self._table[-1][-1] = (text + data, values)

    def rows(self, table: str) -> list[list[tuple[str, list[str]]]]:
        """Give the body of a table."""
        return self.tables[table][1:]


@cache
def rendered(name: str) -> str:
    """Render a case, once."""
    return render(CASES[name])


def plain(text: str) -> str:
    """Join what is broken over lines."""
    return " ".join(text.split())


@pytest.mark.parametrize("name", CASES)
def test_every_number_in_the_tables_is_the_records(name: str) -> None:
    """Exact values stand beside what is read, and what is read is their rounding."""
    record, page = CASES[name], Page(rendered(name))
    told = record.verdicts | {name: found.combined for name, found in record.statistics.items()}
    for row, (strategy, found) in zip(page.rows("combined"), told.items(), strict=True):
        assert row[0][0].split("\n")[0] == strategy
        if strategy in record.statistics and all(words.widths_undescribed(record, strategy)):
            assert row[2][0] == UNDESCRIBED
            assert row[1][1] == row[2][1] == []
            continue
        assert row[1][1] == [str(found.z)]
        assert row[2][1] == [str(found.p)]
        p, interval = row[2][0].split("\n")
        assert_reads(p, found.p)
        assert interval == words.interval(found)
    for row, window in zip(page.rows("windows"), record.windows, strict=True):
        assert row[0][0] == words.place_text(window)
        assert row[1][0] == f"{window.kind}, {window.shape}"
        numbers = [window.observed, window.expected, window.signal, window.t]
        assert [value for cell in row[2:] for value in cell[1]] == list(map(str, numbers))
    for row, (name, found) in zip(page.rows("widths"), record.statistics.items(), strict=True):
        lost = words.widths_undescribed(record, name)
        for (text, values), chance, null, wrong in zip(
            row[1:], found.p, found.null, lost, strict=True
        ):
            if wrong:
                assert values == [str(null.t)]
                assert UNDESCRIBED in text
                continue
            law = [] if chance.law_p is None else [str(chance.law_p)]
            assert values == [str(null.t), str(chance.p), str(chance.z), *law]
            assert ("a fitted law, not measured" in text) == bool(law)
            t, p, z = re.findall(r"= (.*?)\s*(?:\n|$)", text)
            assert_reads(t, null.t, 3)
            assert_reads(p, chance.p)
            assert z == "-" if chance.z is None else float(ascii_number(z)) == round(chance.z, 1)
    for row, width in zip(page.rows("fits"), record.widths, strict=True):
        assert row[0][1] == [str(width.width)]
        assert row[1][1] == [str(width.centres)]
        assert row[2][0] == f"{min(width.passes)} to {max(width.passes)}"
        assert row[3][0] == f"{sum(width.converged)} of {len(width.converged)}"
        assert row[4][1] == [str(sum(width.uncovered))]
    events = record.events
    table = page.tables.get("events", [[]])
    if len(events.columns) > 8:  # it stands on its side
        table = [list(row) for row in zip(*table, strict=True)]
    for row, number, ratio, values in zip(
        table[1:], events.rows, events.ratios, events.values, strict=True
    ):
        assert row[0][0] == str(number)
        assert [value for cell in row[1:] for value in cell[1]] == [str(ratio), *map(str, values)]
        for (text, _), value in zip(row[2:], values, strict=True):
            assert value is not None
            assert_reads(text, value, 4)
    labels = [record.column(name).label for name in events.columns] if events.rows else []
    assert [cell[0] for cell in table[0][2:]] == labels


def assert_reads(text: str, value: float, digits: int = 2) -> None:
    """Read a number as a person would, and find the value in its rounding."""
    assert float(ascii_number(text)) == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits))


def ascii_number(text: str) -> str:
    """Turn the signs of print into those of a computer."""
    text = text.strip().replace("−", "-").replace(",", "").replace(" × 10", "e")
    return text.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))


def test_regions_storage_files_and_batches_are_the_records() -> None:
    """What is not in the tables above: read from the richest case."""
    record = CASES["carried column and units"]
    page = Page(rendered("carried column and units"))
    text = plain(page.text)
    region = record.regions[0]
    assert f"{region.observed} events observed there" in text
    ranges = page.tables["table3"][1:]
    for row, part in zip(ranges, region.ranges, strict=True):
        assert plain(row[0][0]) == (f"{part.column} [{part.unit}]" if part.unit else part.column)
        assert [float(value) for cell in row[1:] for value in cell[1]] == [
            *(part.median, part.quarter, part.three_quarters, part.low, part.high),
            *part.overall,
        ]
    for name, count in record.storage.items():
        assert [name, f"{count:,}"] in [[cell[0] for cell in row] for row in page.tables["kept"]]
    assert record.provenance is not None
    for row, file in zip(page.rows("files"), record.provenance.files, strict=True):
        values = [str(file.rows), str(file.kept)]
        assert [cell[0] for cell in row[:2]] == [file.role, file.path]
        assert [row[2][1][0], row[3][1][0], row[4][0]] == [*values, file.sha256]
    assert "gofstream test reference.parquet 'my data.parquet' --expected 16000" in text
    assert "Events in each batch: " + ", ".join(f"{n:,}" for n in record.batches) in text


@pytest.mark.parametrize("name", CASES)
def test_the_page_stands_by_itself(name: str) -> None:
    """Ids are unique and found, no script, no address, figures named, and the plain words."""
    page = Page(rendered(name))
    assert len(page.ids) == len(set(page.ids))
    assert set(page.used) <= set(page.ids)
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    assert "http" not in re.sub("http-equiv", "", rendered(name))
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in rendered(name)
    record = CASES[name]
    figures = 2 + len(record.statistics) + len(record.columns) + 2 * (record.pair is not None)
    assert rendered(name).count('role="img" aria-label="') == page.tags.count("svg") == figures
    text = plain(page.text)
    assert "No systematic uncertainties" in text
    assert "They have no local significance" in text
    assert not re.search(r"\bp = 0(?![.\d])", text)


def test_rendering_is_deterministic_and_leaves_matplotlib_alone() -> None:
    """The same record gives the same bytes; settings of the user stay."""
    before = dict(rcParams)
    record = wide(2)
    again = Record.model_validate_json(record.model_dump_json())
    assert render(record) == render(again)
    assert dict(rcParams) == before


@pytest.mark.parametrize(
    ("name", "said", "unsaid"),
    [
        (NONE, "An anomaly at the level that was set (p ≤ 0.02)", "Not an"),
        (NONE, "come up in at most 3.0 % of such repetitions", "fewer than once in a billion"),
        (
            NONE,
            "p = 0.0083, at most 0.030; none of 120 toys as extreme (95 % interval).",
            "No level",
        ),
        (NONE, "To go further: more toys.", "10⁻²⁰ Z"),
        ("level not reached", "Not an anomaly at the level that was set", "An anomaly"),
        ("level not reached", " % of such repetitions", "Few toys"),
        ("carried column and units", "No level was set beforehand", "anomaly at the level"),
        (
            "carried column and units",
            "none of 300 toys as extreme (95 % interval). To go",
            "xtrapolated",
        ),
        ("carried column and units", "mll [GeV]: carried along, not fitted", "not covered: "),
        ("no regions, no events", "No region stands out", "The most anomalous events"),
        ("rate tested apart", "2,000 observed, 2,100 expected, p = 0.028.", "not tested"),
        ("rate tested apart", "shape only: their number is tested apart", "· 2,000 expected"),
        ("one batch", "2,000 events in 1 batch ·", "batches ·"),
        ("p of one", "t < 0: f does not describe the data (all, next, scan)", "Few toys"),
        ("from Python", "None was kept", "To make it again"),
        ("not converged, not covered", "1 of 8 fits stopped early", "toys that did not"),
        ("not converged, not covered", "7 of 2,000 events lie far", "toys that did not"),
        ("one column, one width", "over 1 width (smallest p)", "pair of columns"),
    ],
)
def test_the_verdict_and_its_caveats(name: str, said: str, unsaid: str) -> None:
    """Each kind of result is said in its words, and not in those of another."""
    text = plain(Page(rendered(name)).text)
    assert said in text
    assert unsaid not in text


def test_a_level_that_toys_cannot_show_is_not_decided() -> None:
    """None of 120 toys is as extreme: p ≤ 0.008 is neither shown nor excluded."""
    said = "Not decided at the level that was set (p ≤ 0.008): 120 toys cannot show so small a p."
    assert words.decision(line(surprise=30, level=0.008, toys=120, widths=(0.4, 1.1))) == said
    # 1/121 can be shown, and a p of 0.3 or so is excluded whatever the level.
    assert words.decision(line(surprise=30, level=0.0083, toys=120)).startswith("An anomaly")
    assert words.decision(line(level=0.001, toys=120)).startswith("Not an anomaly")


def test_caveats_of_the_test_are_said_once() -> None:
    """What the diagnostics sum up is not said again; anything else the test says is."""
    record = line(
        surprise=2,
        converged=False,
        caveats=("σ = 0.7: the fit did not converge for batch 4", "fits of toys: 3"),
        level=0.001,
    )
    heads = [head for head, _ in words.caveats(record)]
    assert heads == [
        "Few toys",
        "Level out of reach",
        "Not converged",
        "From the test",
        "No systematic uncertainties",
    ]
    assert ("From the test", "fits of toys: 3") in words.caveats(record)


def test_small_numbers_never_become_zero() -> None:
    """The smallest p there is, an interval that begins at zero, bytes, a p of one."""
    tiny = float(np.finfo(np.float64).tiny)
    assert words.p_text(tiny) == "2.2 × 10⁻³⁰⁸"
    chance = Chance(p=tiny, z=37.5, low=0, high=0.012, hits=0, law_p=None)
    assert words.interval(chance) == "at most 0.012"
    assert words.interval(chance.model_copy(update={"low": 0.002})) == "0.002 to 0.012"
    assert words.z_text(None) == "-"
    assert words.size(0) == "0 B"
    for value in (999.6, 1e-300, 5e-324, 0.00099999, 999_999.9, 1e300):
        assert_reads(words.number(value), value, 4)


def test_poisson_errors_cover_as_they_should() -> None:
    """Garwood: each end leaves the tail of one standard deviation."""
    counts = np.array([0.0, 1.0, 7.0, 1e12])
    low, high = counts - poisson_errors(counts)[0], counts + poisson_errors(counts)[1]
    tail = stats.norm.sf(1)
    assert low[0] == 0
    assert stats.poisson.cdf(counts, high)[:3] == pytest.approx(tail)
    assert stats.poisson.sf(counts - 1, low)[1:3] == pytest.approx(tail)
    assert high[3] - counts[3] == pytest.approx(1e6, rel=1e-3)


def test_histograms_for_python() -> None:
    """UHI objects with the record's numbers; a column that is not there is named."""
    record = dimuon()
    column = record.columns[-1]
    data = record.column_histogram("mll", "data")
    assert data.values().tolist() == list(column.data)
    assert data.axes[0].edges.tolist() == list(column.edges)
    assert data.axes[0].label == "mll [GeV]"
    reference = record.column_histogram("mll", "reference")
    assert reference.values().tolist() == list(column.reference)
    assert reference.variances() == pytest.approx(np.square(column.reference_error))
    assert record.column_histogram("mll", "learnt").values().tolist() == list(column.learnt)
    with pytest.raises(ColumnError, match="nearest: 'mll'"):
        record.column_histogram("mlll", "data")


def test_pictures_for_python() -> None:
    """Each method draws its own; labels carry units, and mathematics in a name is text."""
    record = dimuon()
    axes = record.plot_column("mll").axes
    assert axes[1].get_xlabel() == "mll [GeV]"
    points = axes[0].containers[0].lines[0].get_xydata()
    shown = [(n, c) for n, c in enumerate(record.columns[-1].data) if c]
    assert [y for _, y in points] == [count for _, count in shown]
    assert len(record.plot_null("sat").axes) == 6
    assert [label.get_text() for label in record.plot_p().axes[0].get_yticklabels()] == [
        *record.verdicts,
        *record.statistics,
    ]
    assert len(record.plot_null("scan").axes) == 1
    pull = np.asarray(record.plot_pair().axes[0].collections[0].get_array())
    pair = record.pair
    assert pair is not None
    expected, seen = np.asarray(pair.reference), np.asarray(pair.data)
    some = expected > 0
    assert pull[some] == pytest.approx((seen - expected)[some] / np.sqrt(expected[some]))
    odd = record.columns[0].model_copy(update={"name": "$x^2$"})
    drawn = record.model_copy(update={"columns": (odd,)}).plot_column("$x^2$")
    assert not drawn.axes[1].xaxis.label.get_parse_math()
    with pytest.raises(InputError, match="one column only"):
        line().plot_pair()
    with pytest.raises(InputError, match="nearest: 'single'"):
        record.plot_null("singel")


def test_histograms_of_others_are_drawn_on_top() -> None:
    """As they are, with bins of their own; one of two axes is refused."""
    record = dimuon()
    mine = Hist(axis.Regular(5, 60, 160, name="mass"), storage=storage.Double())
    mine[...] = [1.0, 50.0, 300.0, 20.0, 2.0]
    top = record.plot_column("mll", {"$Z$ only": mine}).axes[0]
    drawn = {patch.get_label(): patch for patch in top.patches}["$Z$ only"]
    values, edges, _ = drawn.get_data()
    assert values.tolist() == mine.values().tolist()
    assert edges.tolist() == mine.axes[0].edges.tolist()
    flat = Hist(axis.Regular(2, 0, 1), axis.Regular(2, 0, 1))
    with pytest.raises(InputError, match="'two' has 2 axes"):
        record.plot_column("mll", {"two": flat})


def test_a_column_with_nothing_in_it_is_drawn() -> None:
    """No data, no expectation, nothing to keep: axes stay finite, and nothing warns."""
    record = line()
    empty = dict.fromkeys(("data", "reference", "reference_error", "learnt"), (0,) * 40)
    column = record.columns[0].model_copy(update=empty)
    figure = record.model_copy(update={"columns": (column,)}).plot_column("x")
    figure.draw_without_rendering()
    assert np.isfinite([axes.get_ylim() for axes in figure.axes]).all()
    kept = storage_figure(record.model_copy(update={"storage": {"sum": 0}}))
    kept.draw_without_rendering()
    assert [text.get_text() for text in kept.axes[0].texts] == ["0 B"]


def test_the_published_schema_is_that_of_the_record() -> None:
    """The file in the package follows the code."""
    assert meaning(json.loads(SCHEMA.read_text())) == meaning(json.loads(schema()))


def test_report_command(tmp_path: Path) -> None:
    """A result file becomes a page, in a folder that is made; nothing else is left there."""
    name = "one column, one width"
    source, out = tmp_path / "result.json", tmp_path / "new" / "page.html"
    CASES[name].save(source)
    done = CliRunner().invoke(cli, ["report", str(source), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert out.read_text() == rendered(name)
    assert [path.name for path in out.parent.iterdir()] == ["page.html"]
    assert "page.html" in done.output


def broken(**changes: Any) -> str:
    """Write a result that was changed by hand."""
    return json.dumps(json.loads(line().model_dump_json()) | changes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a gofstream result"),
        ('{"format": "gofstream.result", "version": 9}', "version 9"),
        (broken(pvalue=0), "pvalue"),
        (broken(nonsense=1), "nonsense"),
        (broken(statistics={}), "lack `all`"),
        (broken(widths=[]), "there is no width"),
        (broken(widths=json.loads(line().model_dump_json())["widths"] * 2), "has 1 entries, not 2"),
        (broken(storage={}), "storage names no strategy"),
        (broken(observed=10**30), "observed"),
    ],
)
def test_results_that_were_changed_are_refused(tmp_path: Path, content: str, message: str) -> None:
    """Refused when it is read, with a message that says what is wrong with which file."""
    source = tmp_path / "result.json"
    source.write_text(content)
    with pytest.raises(FormatError, match=re.escape(message)) as caught:
        Record.load(source)
    assert str(source) in str(caught.value)


def test_a_bad_result_ends_with_one_message(tmp_path: Path) -> None:
    """Exit code 2, one message, and what was there before is untouched."""
    source, out = tmp_path / "result.json", tmp_path / "report.html"
    out.write_text("an older report")
    source.write_text("{")
    done = run("report", str(source), "--out", str(out))
    assert done.returncode == 2
    assert done.stderr.startswith("gofstream: ")
    assert "is not JSON" in done.stderr
    assert "Traceback" not in done.stderr
    assert out.read_text() == "an older report"
    assert len(list(tmp_path.iterdir())) == 2


def test_the_result_is_not_overwritten_by_its_report(tmp_path: Path) -> None:
    """A page has to end in .html."""
    source = tmp_path / "result.json"
    line().save(source)
    before = source.read_text()
    done = CliRunner().invoke(cli, ["report", str(source), "--out", str(source)])
    assert done.exit_code == 2
    assert "end the name in .html" in done.output
    assert source.read_text() == before


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("columns", {"edges": [0.0, 1.0]}),
        ("columns", {"edges": [0.0] * 41}),
        ("columns", {"learnt": []}),
        ("events", {"rows": [1]}),
        ("pair", {"data": [[1]]}),
        ("pair", {"x_edges": [0.0, 1.0]}),
    ],
)
def test_lists_that_do_not_fit_each_other_are_refused(
    tmp_path: Path, part: str, changes: dict[str, Any]
) -> None:
    """A file changed by hand is refused when it is read, not when a picture is drawn."""
    content = json.loads(dimuon().model_dump_json())
    place = content[part][0] if part == "columns" else content[part]
    place.update(changes)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=part):
        Record.load(path)
