"""Every format, written by its own library and read back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import awkward as ak
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot
from tests.io_files import WRITERS, Columns, matrix, muons

import gofstream.io.gather
from gofstream.errors import GofstreamError, InputError
from gofstream.io import read
from gofstream.io.formats import opened
from gofstream.io.table import foreign

Writer = Callable[[Path, Columns], Path]
writers = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


@writers
def test_what_was_written_is_read(write: Writer, tmp_path: Path) -> None:
    """All columns, their order and every bit of every number."""
    columns = muons(2000)
    path = write(tmp_path, columns)
    events = read(path)
    assert events.sample.columns == tuple(columns)
    assert np.array_equal(events.sample.values, matrix(columns))
    assert events.sample.values.dtype == np.float64
    assert (events.files[0].path, events.files[0].rows, events.files[0].kept) == (path, 2000, 2000)
    assert events.sample.weights is None
    assert not events.carried


@writers
def test_pieces_make_no_difference(
    write: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole, in pieces of odd sizes, or row by row: values, weights, carried columns and draws."""
    columns = muons(1500)
    path = write(tmp_path, columns)

    def everything() -> list[bytes]:
        plain = read(path, columns=["eta", "charge"], weight="pt", carry=["tight"])
        drawn = read(path, where="pt > 10", rows=200, seed=3, carry=["pt"])
        return [
            array.tobytes()
            for events in (plain, drawn)
            for array in (
                events.sample.values,
                *([] if events.sample.weights is None else [events.sample.weights]),
                *events.carried.values(),
            )
        ]

    whole = everything()
    sizes = []
    for rows in (31, 333, 5000):
        monkeypatch.setattr(gofstream.io.gather, "rows_at_once", lambda *_, rows=rows: rows)
        seen: list[int] = []
        read(path, progress=lambda done, total, seen=seen: seen.append(done))
        sizes.append(len(seen))
        assert everything() == whole
    # CSV comes in blocks of text, which are larger than this file.
    assert sizes[0] > 40 or path.suffix == ".csv"


def test_float32_stays_if_all_of_it_is(tmp_path: Path) -> None:
    """Half the memory; one column of another type decides otherwise, in any file."""
    single = {name: np.arange(5, dtype=np.float32) + 0.1 for name in ("a", "b")}
    one, other = tmp_path / "1.npz", tmp_path / "2.npz"
    np.savez(one, **single)
    np.savez(other, a=single["a"], b=np.arange(5))
    assert read(one).sample.values.dtype == np.float32
    assert read([one, other], columns=["a"]).sample.values.dtype == np.float32
    assert read([one, other]).sample.values.dtype == np.float64


def test_big_endian_and_fortran_order(tmp_path: Path) -> None:
    """Bytes in another order, and matrices stored by columns."""
    values = np.arange(60.0).reshape(20, 3)
    for name, array in (("a.npy", np.asfortranarray(values)), ("b.npy", values.astype(">f4"))):
        np.save(tmp_path / name, array)
        assert np.array_equal(read(tmp_path / name).sample.values, values)
    np.savez_compressed(tmp_path / "c.npz", m=np.asfortranarray(values))
    events = read(tmp_path / "c.npz", columns=["x2", "x0"], memory=2000)
    assert np.array_equal(events.sample.values, values[:, [2, 0]])
    np.save(tmp_path / "d.npy", values[:, 0])
    assert read(tmp_path / "d.npy").sample.columns == ("x",)


def test_trees_are_picked(tmp_path: Path) -> None:
    """Several trees, folders, cycles, ntuples and what is no tree."""
    path = tmp_path / "a.root"
    with uproot.recreate(path) as file:
        for rows, name in ((3, "events"), (4, "events"), (5, "more/events")):
            file.mktree(name, {"x": "f4"}).extend({"x": np.arange(rows, dtype=np.float32)})
        file["counts"] = np.histogram([1.0, 2.0])
    assert len(read(path, tree="events").sample) == 4
    assert len(read(path, tree="events;1").sample) == 3
    assert len(read(path, tree="more/events").sample) == 5
    with pytest.raises(GofstreamError, match=r"several trees, 'events', 'more/events'; pick one"):
        read(path)
    with pytest.raises(GofstreamError, match=r"no tree 'event'; nearest: 'events'"):
        read(path, tree="event")


def test_ntuples_with_records_and_gaps(tmp_path: Path) -> None:
    """Members of records are columns; what is missing is NaN, and can be carried."""
    path = tmp_path / "a.root"
    with uproot.recreate(path) as file:
        columns = {
            "muon": ak.zip({"pt": np.arange(4.0), "q": np.arange(4)}),
            "gap": ak.Array([1.5, None, 2.5, 3.5]),
        }
        file.mkrntuple("events", columns)
    events = read(path, columns=["muon.pt"], carry=["gap", "muon.q"])
    assert events.sample.values.ravel().tolist() == [0, 1, 2, 3]
    assert np.array_equal(events.carried["gap"], [1.5, np.nan, 2.5, 3.5], equal_nan=True)
    assert events.carried["muon.q"].dtype == np.int64


def test_missing_integers_can_be_carried(tmp_path: Path) -> None:
    """Large whole numbers stay exact; with a gap they become float64, whatever the pieces."""
    path = tmp_path / "a.parquet"
    large = 2**60 + 1
    table = pa.table({"x": [1.0, 2.0, 3.0], "run": [large, 5, 6], "gap": [1, 2, None]})
    pq.write_table(table, path)
    events = read(path, columns=["x"], carry=["run", "gap"], memory=1000)
    assert events.carried["run"].tolist() == [large, 5, 6]
    assert np.array_equal(events.carried["gap"], [1, 2, np.nan], equal_nan=True)


def test_groups_and_datasets_of_hdf5(tmp_path: Path) -> None:
    """By `tree`; a matrix without names counts its columns."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["deep/er/a"] = [1.0, 2.0]
        file["deep/er/b"] = [3.0, 4.0]
        file["m"] = [[5.0, 6.0]]
        file["n"] = [[7.0, 8.0]]
        file["m"].attrs["columns"] = ["p", "q"]
        file["version"] = 3
    assert read(path, tree="deep/er").sample.columns == ("a", "b")
    assert read(path, tree="deep/er/b").sample.values.ravel().tolist() == [3, 4]
    assert read(path, tree="m").sample.columns == ("p", "q")
    assert read(path, tree="/n").sample.columns == ("x0", "x1")
    with pytest.raises(GofstreamError, match=r"no columns .*pick a part with `tree`: 'deep/'"):
        read(path)


def test_csv_takes_what_comes_later(tmp_path: Path) -> None:
    """Whole numbers at first, fractions two megabytes on; gaps; text beside."""
    path = tmp_path / "a.csv"
    lines = ["i,note,flag", *["7,abc,true"] * 200_000, "0.5,,false"]
    path.write_text("\n".join(lines))
    events = read(path, columns=["i", "flag"])
    assert len(events.sample) == 200_001
    assert events.sample.values[[0, -1]].tolist() == [[7, 1], [0.5, 0]]
    # Little memory makes small blocks, the first of which holds whole numbers only.
    last = read(path, columns=["i"], where="i != 7", memory=2_000_000)
    assert last.sample.values.tolist() == [[0.5]]


@pytest.mark.parametrize(
    ("write", "package", "extra"),
    [
        (WRITERS["parquet"], "pyarrow", "parquet"),
        (WRITERS["csv"], "pyarrow", "parquet"),
        (WRITERS["tree"], "uproot", "root"),
        (WRITERS["hdf5"], "h5py", "hdf5"),
    ],
)
def test_a_missing_library_is_a_command_to_type(
    write: Writer, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exact one."""
    path = write(tmp_path, muons(5))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(GofstreamError, match=rf"{package}.*pip install 'gofstream\[{extra}\]'"):
        read(path)


def test_no_code_is_made_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that uproot does not know would be compiled as the file describes it."""
    path = WRITERS["tree"](tmp_path, muons(5))
    compiled: list[object] = []

    def refuse(*described: object) -> None:
        compiled.append(described)
        raise RuntimeError("code from a file")

    monkeypatch.setattr(uproot.deserialization, "compile_class", refuse)
    assert len(read(path).sample) == 5
    monkeypatch.setattr(uproot.models.TTree.Model_TTree, "known_versions", {})
    with pytest.raises(GofstreamError, match=r"tree\.root: cannot be read as ROOT"):
        read(path)
    assert not compiled
    with uproot.open(path) as file, pytest.raises(RuntimeError, match="code from a file"):
        file["events"]


@pytest.mark.parametrize(
    "kind", ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
)
def test_arrow_types_are_those_of_numpy(kind: str, tmp_path: Path) -> None:
    """Each number of Parquet keeps its type and value; pyarrow below 26 asked for pandas here."""
    values = np.array([1, 0, 1], dtype=kind)
    pq.write_table(pa.table({"x": values}), tmp_path / "x.parquet")
    with opened(tmp_path / "x.parquet") as table:
        assert table.columns["x"].dtype == values.dtype
        (piece,) = table.pieces(["x"], 10)
    assert piece["x"].dtype == values.dtype
    assert piece["x"].tolist() == values.tolist()


def test_a_library_that_lacks_another_is_not_the_file_s_fault(tmp_path: Path) -> None:
    """The message names what is to be installed, and does not call the file damaged."""
    wanted = pytest.raises(InputError, match=r"needs a package that is not installed .*'no_such")
    with wanted, foreign(tmp_path / "x.root", "ROOT"):
        import_module("no_such_package")


@pytest.mark.parametrize("write", ["parquet", "arrow", "csv"])
def test_arrow_is_read_without_pandas(write: str, tmp_path: Path) -> None:
    """Types and numbers, in a process that cannot import pandas; see `gofstream.io.arrow`."""
    path = WRITERS[write](tmp_path, muons(50))
    code = "import sys; sys.modules['pandas'] = None; from gofstream.io import read; "
    code += f"print(len(read({str(path)!r}).sample))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "50\n", done.stderr
