"""Columns that no file has: computed as numpy would, and refused with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.io_files import WRITERS, muons

import gofstream.io.gather
from gofstream.cli import cli
from gofstream.datasets import muon_pairs
from gofstream.errors import (
    ColumnError,
    DtypeError,
    ExpressionError,
    GofstreamError,
    NonFiniteError,
)
from gofstream.io import read
from gofstream.io.define import Definitions
from gofstream.io.summary import summarise
from gofstream.stream.decode import Decoder


@pytest.mark.parametrize("kind", WRITERS)
def test_what_numpy_says(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From every format, whole and in small pieces; in conditions, and beside what is fitted."""
    columns = muons(800)
    path = WRITERS[kind](tmp_path, columns)
    pt, eta = columns["pt"].astype(np.float64), columns["eta"]
    define = {"pz": "pt * sinh(eta)", "p": "sqrt(pt**2 + pz**2)"}
    right = np.stack([eta, pt * np.cosh(eta)], axis=1)
    for rows in (100_000, 37):
        monkeypatch.setattr(gofstream.io.gather, "rows_at_once", lambda *_, rows=rows: rows)
        events = read(path, columns=["eta", "p"], carry=["pz"], where="p < 200", define=define)
        kept = right[:, 1] < 200
        assert 0 < kept.sum() < 800
        np.testing.assert_allclose(events.sample.values, right[kept], rtol=1e-6)
        np.testing.assert_allclose(events.carried["pz"], (pt * np.sinh(eta))[kept], rtol=1e-6)
    found = summarise(path, define=define).columns
    assert list(found) == [*columns, "pz", "p"]
    assert found["p"].maximum == pytest.approx(right[:, 1].max(), rel=1e-6)


def test_all_columns_means_these_too(tmp_path: Path) -> None:
    """And they are as precise as what they are made of, however they are computed."""
    path = tmp_path / "a.npz"
    a, b = np.array([1e-3, 2.0, 7.0], np.float32), np.array([3, 4, 5], np.int16)
    np.savez(path, a=a)
    single = read(path, define={"cube": "(a + 1000)**3 / 1e9"}).sample
    assert single.columns == ("a", "cube")
    assert single.values.dtype == np.float32
    exact = (a.astype(np.float64) + 1000) ** 3 / 1e9
    assert np.array_equal(single.values[:, 1], exact.astype(np.float32))
    np.savez(path, a=a, b=b)
    double = read(path, define={"sum": "a + b"}).sample
    assert double.values.dtype == np.float64
    assert np.array_equal(double.values[:, 2], a.astype(np.float64) + b)
    weighted = read(path, columns=["a"], weight="w", define={"w": "b / 2"}).sample
    np.testing.assert_array_equal(weighted.weights, b / 2)


def test_mass_from_momenta() -> None:
    """The formula of docs/reference/files.md is that of the data set."""
    values = muon_pairs.drell_yan(1000, np.random.default_rng(1))
    text = "sqrt(2 * pt1 * pt2 * (cosh(eta1 - eta2) - cos(dphi)))"
    assert text in (Path(__file__).parents[1] / "docs" / "reference" / "files.md").read_text()
    found = Definitions.read({"m": text}).formulas["m"].evaluate(values)
    np.testing.assert_allclose(found, muon_pairs.pair_mass(values), rtol=1e-12)


@pytest.mark.parametrize(
    ("define", "kind", "message"),
    [
        ({"x": "a + c"}, ColumnError, "a.npz, define 'x': no column 'c'; known: 'a'"),
        ({"x": "y", "y": "a"}, ColumnError, "define 'x': no column 'y'"),
        ({"a": "b + 1"}, ColumnError, "has a column 'a' already"),
        ({"x": "s + 1"}, DtypeError, "define 'x': column 's' holds <U"),
        ({"x": "a > 1"}, ExpressionError, "define 'x': this is a condition, but a number"),
        ({"x": "2 * 3"}, ExpressionError, "define 'x': this names no column"),
        ({"x": "a +"}, ExpressionError, "define 'x': a number or a column was expected"),
        ({"x": "open(a)"}, ExpressionError, "define 'x': there is no function 'open'"),
        ({"x": "log(a)"}, NonFiniteError, "column 'x': 2 of 3 values are .* -inf at row 0"),
        ({"x": "exp(a * 1000)"}, NonFiniteError, "column 'x': 1 of 3 .* inf at row 2"),
    ],
)
def test_refused(
    define: dict[str, str], kind: type[GofstreamError], message: str, tmp_path: Path
) -> None:
    """The error names the file, the new column, and the row if it is one."""
    path = tmp_path / "a.npz"
    np.savez(path, a=[0.0, -1.0, 2.0], b=[1.0, 2.0, 3.0], s=["u", "v", "w"])
    with pytest.raises(kind, match=message):
        read(path, columns=["a", "b", *(name for name in define if name != "a")], define=define)


def test_batches_of_a_stream(tmp_path: Path) -> None:
    """Each batch gets the columns of the reference; a bad formula is found before any comes."""
    path = tmp_path / "a.npz"
    np.savez(path, px=[3.0], py=[4.0])
    batch = Decoder(("pt", "px"), define={"pt": "hypot(px, py)"}).batch(path, "a")
    assert batch.sample.values.tolist() == [[5.0, 3.0]]
    with pytest.raises(ExpressionError, match="define 'pt'"):
        Decoder(("pt",), define={"pt": "hypot(px)"})


def test_on_the_command_line(tmp_path: Path) -> None:
    """`describe` shows the new column; what is no definition is refused."""
    path = tmp_path / "a.npz"
    np.savez(path, px=[3.0, 6.0], py=[4.0, 8.0])
    run = CliRunner().invoke
    shown = run(cli, ["describe", str(path), "--define", "pt = hypot(px, py)"])
    assert shown.exit_code == 0
    (line,) = (line for line in shown.output.splitlines() if line.startswith("pt "))
    assert "= hypot(px, py)" in line
    assert "7.5" in line
    for words, why in (
        (["--define", "pt"], "NAME=FORMULA"),
        (["--define", "=px"], "NAME=FORMULA"),
        (["--define", "r=px", "--define", "r=py"], "two columns have one name"),
    ):
        wrong = run(cli, ["describe", str(path), *words])
        assert wrong.exit_code == 2
        assert why in wrong.output


def test_sources_count_for_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column made of ten takes a piece as wide as all eleven."""
    path, wide = tmp_path / "a.npz", []

    def seen(columns: int, memory: int) -> int:
        wide.append(columns)
        return 100

    np.savez(path, **{f"x{k}": np.arange(5.0) for k in range(10)})
    monkeypatch.setattr(gofstream.io.gather, "rows_at_once", seen)
    text = " + ".join(f"x{k}" for k in range(10))
    assert read(path, columns=["sum"], define={"sum": text}).sample.values[2, 0] == 20
    assert wide == [11]
