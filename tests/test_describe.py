"""`gofstream describe`, and the summary behind it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tests.io_files import WRITERS, muons, tree

import gofstream.io.summary
from gofstream.cli import cli, main
from gofstream.io.summary import BINS, summarise


@pytest.mark.parametrize("kind", WRITERS)
def test_summary_is_what_numpy_says(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every format, whole and in small pieces, with and without a condition."""
    columns = muons(800)
    path = WRITERS[kind](tmp_path, columns)
    for rows in (100_000, 37):
        monkeypatch.setattr(gofstream.io.summary, "rows_at_once", lambda *_, rows=rows: rows)
        for where, chosen in ((None, np.full(800, True)), ("eta > 0.5", columns["eta"] > 0.5)):
            found = summarise(path, where=where)
            assert list(found.columns) == list(columns)
            assert (found.files[0].rows, found.selected) == (800, chosen.sum())
            for name, column in columns.items():
                right = column[chosen].astype(np.float64)
                one = found.columns[name]
                assert (one.count, one.missing) == (len(right), 0)
                assert (one.minimum, one.maximum) == (right.min(), right.max())
                assert one.mean == pytest.approx(right.mean(), rel=1e-12, abs=1e-12)
                assert one.histogram == np.histogram(right, BINS)[0].tolist()


def test_extremes(tmp_path: Path) -> None:
    """Gaps, huge values, a single value, none at all."""
    path = tmp_path / "a.npz"
    huge = np.finfo(float).max
    np.savez(
        path,
        gaps=[1.0, np.nan, np.inf, 3.0],
        huge=[-huge, huge, huge, huge],
        same=[5, 5, 5, 5],
        tiny=[0, 0, 0, 5e-324],
        none=[np.nan] * 4,
    )
    columns = summarise(path).columns
    assert (columns["gaps"].count, columns["gaps"].missing, columns["gaps"].mean) == (2, 2, 2.0)
    assert columns["huge"].mean == pytest.approx(huge / 2)
    assert (columns["huge"].histogram[0], columns["huge"].histogram[-1]) == (1, 3)
    assert (columns["same"].minimum, sum(columns["same"].histogram)) == (5.0, 4)
    assert sum(columns["tiny"].histogram) == 4
    assert (columns["none"].count, columns["none"].mean, columns["none"].histogram) == (0, None, [])


def test_two_files_count_together(tmp_path: Path) -> None:
    """One sample, two lines."""
    for name, values in (("a", [1.0, 2.0]), ("b", [6.0])):
        np.save(tmp_path / f"{name}.npy", values)
    found = summarise(tmp_path / "*.npy")
    assert [file.rows for file in found.files] == [2, 1]
    assert (found.columns["x"].mean, found.columns["x"].maximum) == (3.0, 6.0)


def test_the_table(tmp_path: Path) -> None:
    """Names in full, numbers, a histogram, text columns with their type, and trees."""
    path = tmp_path / "a.parquet"
    x = np.repeat([0.0, 1.0], [100, 1])
    named = "a_rather_long_name_of_a_column"
    pq.write_table(pa.table({named: x, "run": ["A"] * 101, "hits": [[1]] * 101}), path)
    result = CliRunner().invoke(cli, ["describe", str(path)])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == f"{path}: Parquet, 101 rows"
    row = next(line for line in lines if line.startswith(named))
    assert row.split()[1:7] == ["double", "101", "0", "0", "0.009901", "1"]
    assert row.rstrip().endswith("█" + " " * (BINS - 2) + "▁")
    assert re.search(r"^run +string *$", result.output, re.MULTILINE)
    assert re.search(r"^hits +list<", result.output, re.MULTILINE)
    root = CliRunner().invoke(cli, ["describe", str(tree(tmp_path, muons(9)))]).output
    assert "ROOT, 9 rows\n  holds events\n" in root


def test_json(tmp_path: Path) -> None:
    """The same for programs: plain JSON, without NaN."""
    path = tmp_path / "a.npz"
    np.savez(path, x=[1.0, 2.0, 4.0], none=[np.nan] * 3)
    arguments = ["describe", str(path), "--where", "x > 1", "--json"]
    output = CliRunner().invoke(cli, arguments).output
    found = json.loads(output, parse_constant=lambda name: pytest.fail(name))
    assert found["selected"] == 2
    assert found["files"] == [
        {"path": str(path), "format": "NPZ", "rows": 3, "parts": ["x", "none"]}
    ]
    assert found["columns"]["x"]["mean"] == 3.0
    assert found["columns"]["none"]["minimum"] is None


def test_names_do_not_steer_the_terminal(tmp_path: Path) -> None:
    """Escape sequences, markup, line breaks and letters that reverse the line show as text."""
    names = ["\x1b[31mred", "[bold]b[/bold]", "two\nlines", "\u202eback", ":smile:", "[/]"]
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for name in names[1:]:
            file[name.replace("/", "|")] = [1.0]
    parquet = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: [1.0] for name in names}), parquet)
    for one in (path, parquet):
        result = CliRunner().invoke(cli, ["describe", str(one)])
        assert result.exit_code == 0, result.output
        assert "\x1b" not in result.output
        assert "\u202e" not in result.output
        assert r"two\nlines" in result.output
        assert r"\u202eback" in result.output
        assert ":smile:" in result.output
    assert "[bold]b[/bold]" in result.output
    assert r"\x1b[31mred" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.root"], "no.root: there is no such file"),
        (["."], "is a folder"),
        (["a.npy", "--where", "x >"], "a number or a column was expected here"),
        (["a.npy", "--where", "y > 1"], "no column 'y'; known: 'x'"),
        (["a.npy", "--tree", "t"], "leave `tree` out"),
        (["bad.parquet"], "bad.parquet: cannot be read as Parquet"),
        (["a.npy", "a.npy"], "more than once"),
    ],
)
def test_mistakes(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One message, code 2, no traceback."""
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.arange(3.0))
    Path("bad.parquet").write_bytes(b"PAR1 and then nothing")
    monkeypatch.setattr(sys, "argv", ["gofstream", "describe", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert message in said.err
    assert said.err.count("gofstream:") == 1
    assert "Traceback" not in said.err


def test_help_shows_an_example() -> None:
    """Help ends a user's search."""
    text = CliRunner().invoke(cli, ["describe", "--help"]).output
    assert "Example: gofstream describe" in text
