"""Reading: selections, draws, weights, memory, and files that cannot be used."""

from __future__ import annotations

import gc
import hashlib
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import awkward as ak
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot
from scipy.stats import chi2
from tests.io_files import WRITERS, muons

from gofstream.errors import (
    ColumnError,
    DtypeError,
    EmptyError,
    ExpressionError,
    GofstreamError,
    GofstreamWarning,
    InputError,
    MemoryBudgetError,
    NonFiniteError,
    WeightError,
)
from gofstream.io import read
from gofstream.io.kept import Kept


def test_several_files_are_one_sample(tmp_path: Path) -> None:
    """A pattern in the order of names, formats mixed, digests of the bytes."""
    parts = [muons(10, seed) for seed in (1, 2, 3)]
    for name, part in zip(("b.npz", "a.npz", "c.npz"), parts, strict=True):
        np.savez(tmp_path / name, **part)
    events = read(str(tmp_path / "*.npz"), columns=["eta"])
    eta = [parts[j]["eta"] for j in (1, 0, 2)]
    assert np.array_equal(events.sample.values[:, 0], np.concatenate(eta))
    assert [file.path.name for file in events.files] == ["a.npz", "b.npz", "c.npz"]
    assert events.sample.name == "a and 2 more"
    content = (tmp_path / "a.npz").read_bytes()
    assert events.files[0].sha256() == hashlib.sha256(content).hexdigest()
    mixed = [WRITERS[name](tmp_path, parts[0]) for name in ("parquet", "tree", "csv")]
    assert len(read([*mixed, tmp_path / "a.npz"]).sample) == 40


def test_a_file_that_is_there_is_no_pattern(tmp_path: Path) -> None:
    """Brackets in a name are meant, if there is such a file."""
    np.save(tmp_path / "run[1].npy", np.arange(3.0))
    np.save(tmp_path / "run1.npy", np.arange(4.0))
    assert len(read(tmp_path / "run[1].npy").sample) == 3


def test_where_is_what_numpy_says(tmp_path: Path) -> None:
    """On columns that are kept and on others; rows before and after are counted."""
    columns = muons(3000)
    path = WRITERS["parquet"](tmp_path, columns)
    events = read(path, columns=["eta"], where="20 < pt < 60 & (charge == 1 | tight == 1)")
    pt = columns["pt"].astype(np.float64)
    right = (pt > 20) & (pt < 60) & ((columns["charge"] == 1) | columns["tight"])
    assert np.array_equal(events.sample.values[:, 0], columns["eta"][right])
    assert (events.files[0].rows, events.files[0].kept) == (3000, right.sum())


def test_weights_units_angles_and_carried_columns(tmp_path: Path) -> None:
    """Each to its place."""
    path = tmp_path / "a.npz"
    np.savez(path, phi=[0.1, 0.2], w=[1, 3], m=[np.nan, 5.0], pt=[1.0, 2.0])
    events = read(path, weight="w", carry=["m"], periodic=["phi"], units={"pt": "GeV"}, name="a")
    assert events.sample.columns == ("phi", "pt")
    assert events.sample.weights is not None
    assert events.sample.weights.tolist() == [1, 3]
    assert (events.sample.periodic, dict(events.sample.units)) == (
        {"phi": 2 * np.pi},
        {"pt": "GeV"},
    )
    assert np.array_equal(events.carried["m"], [np.nan, 5], equal_nan=True)
    with pytest.raises(ValueError, match="read-only"):
        events.carried["m"][0] = 1


def test_text_is_left_out_aloud(tmp_path: Path) -> None:
    """Only where no columns were named."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1.0], "run": ["a"], "when": pa.array([1], "date32")}), path)
    with pytest.warns(GofstreamWarning, match=r"'run', 'when' do not hold numbers"):
        assert read(path).sample.columns == ("x",)
    assert read(path, columns=["x"]).sample.columns == ("x",)


def test_draws_are_uniform_over_all_files(tmp_path: Path) -> None:
    """Each row equally often, over 400 seeds: chi-square with a tail of 1e-4 on either side."""
    rows, keep, seeds = 60, 20, 400
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    np.save(paths[0], np.arange(10.0))
    np.save(paths[1], np.arange(10.0, rows))
    counts = np.zeros(rows)
    for seed in range(seeds):
        drawn = read(paths, rows=keep, seed=seed)
        order = drawn.sample.values[:, 0].astype(int)
        assert len(order) == keep
        assert (np.diff(order) > 0).all()
        assert [file.kept for file in drawn.files] == [(order < 10).sum(), (order >= 10).sum()]
        counts[order] += 1
    share = keep / rows
    # Draws without putting back: n - 1 degrees of freedom, with variance share (1 - share) n/(n-1).
    size = ((counts - seeds * share) ** 2).sum() / (seeds * share * (1 - share) * rows / (rows - 1))
    assert chi2.ppf(1e-4, rows - 1) < size < chi2.ppf(1 - 1e-4, rows - 1)


def test_draws_thin_what_they_hold(tmp_path: Path) -> None:
    """From many more rows than are kept, in small memory: those with the smallest numbers."""
    path = tmp_path / "a.npy"
    np.save(path, np.arange(200_000.0))
    numbers = np.random.default_rng(5).random(200_000)
    smallest = np.sort(np.argsort(numbers)[:500])
    drawn = read(path, rows=500, seed=5, memory=200_000)
    assert np.array_equal(drawn.sample.values[:, 0], smallest)
    assert len(read(path, rows=300_000).sample) == 200_000


def test_memory_stays_within_the_budget(tmp_path: Path) -> None:
    """Two of twenty columns of a file that does not fit, whole, selected and drawn."""
    rows, budget = 200_000, 8_000_000
    rng = np.random.default_rng(1)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({f"c{j}": rng.normal(size=rows) for j in range(20)}), path)
    assert path.stat().st_size > 3 * budget
    pool = pa.default_memory_pool()
    for options in ({}, {"where": "c7 > -1"}, {"rows": 50_000}):
        gc.collect()
        before, arrow = tracemalloc.start(), pool.bytes_allocated()
        events = read(path, columns=["c3", "c11"], memory=budget, **options)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert before is None
        assert len(events.sample) * 16 < peak < budget - arrow
    with pytest.raises(MemoryBudgetError, match=r"3 columns of 200000 events would need.*`rows`"):
        read(path, columns=["c1", "c2", "c3"], memory=4_000_000)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_too_much_is_refused(kind: str, tmp_path: Path) -> None:
    """At once where the size is known; as soon as it is known where it is not."""
    path = WRITERS[kind](tmp_path, muons(20_000))
    seen: list[int] = []
    options = {"memory": 300_000, "progress": lambda done, total: seen.append(done)}
    with pytest.raises(MemoryBudgetError, match=r"reading 4 columns of \d+ events .*fewer columns"):
        read(path, **options)
    assert bool(seen) == (kind == "csv")
    seen.clear()
    with pytest.raises(MemoryBudgetError):
        read(path, where="pt > -1", **options)
    assert 0 < seen[-1] < 20_000
    assert len(read(path, where="pt > 150", memory=300_000).sample) > 50


def save(name: str, **columns: object) -> Callable[[Path], dict[str, object]]:
    """Make a case: a file of columns."""

    def make(folder: Path) -> dict[str, object]:
        path = folder / name
        if path.suffix == ".parquet":
            pq.write_table(pa.table(columns), path)
        else:
            np.savez(path, **columns)
        return {"files": path}

    return make


def raw(name: str, content: bytes) -> Callable[[Path], dict[str, object]]:
    """Make a case: a file of bytes."""

    def make(folder: Path) -> dict[str, object]:
        (folder / name).write_bytes(content)
        return {"files": folder / name}

    return make


def cut(kind: str, keep: float) -> Callable[[Path], dict[str, object]]:
    """Make a case: a good file of which only the beginning is left."""

    def make(folder: Path) -> dict[str, object]:
        path = WRITERS[kind](folder, muons(3000))
        path.write_bytes(path.read_bytes()[: int(keep * path.stat().st_size)])
        return {"files": path}

    return make


def asked(kind: str, **options: object) -> Callable[[Path], dict[str, object]]:
    """Make a case: a good file, read in a bad way."""

    def make(folder: Path) -> dict[str, object]:
        return {"files": WRITERS[kind](folder, muons(50)), **options}

    return make


def called(good: str, bad: str) -> Callable[[Path], dict[str, object]]:
    """Make a case: a good file under a wrong name."""

    def make(folder: Path) -> dict[str, object]:
        return {"files": WRITERS[good](folder, muons(50)).rename(folder / bad)}

    return make


def jagged(folder: Path) -> dict[str, object]:
    """Put a list into every row of a tree."""
    with uproot.recreate(folder / "a.root") as file:
        file.mktree("t", {"x": np.arange(3.0), "hits": ak.Array([[1.0], [], [2.0, 3.0]])})
    return {"files": folder / "a.root"}


def no_tree(folder: Path) -> dict[str, object]:
    """Write a histogram only."""
    with uproot.recreate(folder / "a.root") as file:
        file["h"] = np.histogram([1.0, 2.0])
    return {"files": folder / "a.root"}


def hdf5(**content: object) -> Callable[[Path], dict[str, object]]:
    """Make a case: datasets at the root."""

    def make(folder: Path) -> dict[str, object]:
        with h5py.File(folder / "a.h5", "w") as file:
            for name, data in content.items():
                file[name] = data
        return {"files": folder / "a.h5"}

    return make


def unwritten(folder: Path) -> dict[str, object]:
    """Promise chunks that never come."""
    with h5py.File(folder / "a.h5", "w") as file:
        column = file.create_dataset("x", (1000,), "f8", chunks=(100,))
        column[:300] = 1.0
    return {"files": folder / "a.h5"}


def elsewhere(folder: Path) -> dict[str, object]:
    """Keep the values in another file."""
    np.arange(8.0).tofile(folder / "secret")
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("x", (8,), "f8", external=[(str(folder / "secret"), 0, 64)])
    return {"files": folder / "a.h5"}


def linked(folder: Path) -> dict[str, object]:
    """Link to another file."""
    with h5py.File(folder / "secret.h5", "w") as file:
        file["x"] = [1.0]
    with h5py.File(folder / "a.h5", "w") as file:
        file["x"] = h5py.ExternalLink("secret.h5", "x")
    return {"files": folder / "a.h5", "tree": "x"}


def different(folder: Path) -> dict[str, object]:
    """Write two files with other columns."""
    np.savez(folder / "a.npz", x=[1.0], y=[1.0])
    np.savez(folder / "b.npz", x=[1.0], z=[1.0])
    return {"files": folder / "*.npz"}


def pickled(folder: Path) -> dict[str, object]:
    """Write Python objects, which only a pickle can hold."""
    np.save(folder / "a.npy", np.array([{}], object), allow_pickle=True)
    return {"files": folder / "a.npy"}


def fifo(folder: Path) -> dict[str, object]:
    """Make something that would be waited for."""
    os.mkfifo(folder / "a.csv")
    return {"files": folder / "a.csv"}


GAP = [1.0, 2.0, np.nan, 4.0, np.inf]
BAD: list[tuple[object, type[GofstreamError], str]] = [
    (lambda folder: {"files": folder / "no.root"}, InputError, r"no\.root: there is no such file"),
    (lambda folder: {"files": folder / "*.root"}, InputError, r"\*\.root: no file matches"),
    (lambda folder: {"files": []}, InputError, "no files were given"),
    (lambda folder: {"files": folder}, InputError, r"is a folder; name files in it, such as '"),
    (lambda folder: {"files": "a\0b"}, InputError, "is not the name of a file"),
    (fifo, InputError, r"a\.csv: is not a regular file"),
    (raw("a.parquet", b""), EmptyError, r"a\.parquet: the file is empty \(0 bytes\)"),
    (raw("a.csv", b"\n\n\n"), InputError, r"a\.csv: cannot be read as CSV"),
    (raw("a.csv", b"x,y\n"), EmptyError, r"a\.csv: no events, of 0 rows"),
    (raw("a.csv", b"1.5,2\n3,4\n"), InputError, "first line holds numbers, not names"),
    (raw("a.csv", b"x;y\n3;4\n"), InputError, r"'x;y', one column without a comma"),
    (raw("a.csv", b"x,x\n3,4\n"), ColumnError, "'x' more than once"),
    (raw("a.csv", b"x,y\n3,4\n5\n"), InputError, r"a\.csv.*Expected 2 columns, got 1"),
    (raw("a.csv", b"x\n1\n\0\n"), InputError, r"a\.csv: ends in \.csv, but holds bytes that are"),
    (raw("a.csv", b"<!DOCTYPE html>"), InputError, "looks like a web page: the download went"),
    (raw("a.csv", b"x\n" + b"1\n" * 1_000_000 + b"z\n"), InputError, r"a\.csv.*invalid value"),
    (raw("a.csv", b"\x1f\x8b\x08\x00"), InputError, "looks like gzip: unpack it first"),
    (raw("a.npy", b"\x80\x04\x95"), InputError, "a Python pickle: it is never opened"),
    (raw("a.root", b"hello, world"), InputError, r"ends in \.root but is not ROOT .*b'hello, w'"),
    (raw("a.dat", b"1 2 3"), InputError, r"no format known here; .* \.parquet, \.pq, \.arrow"),
    (raw("a.npz", b"PK\3\4 and no more"), InputError, r"a\.npz: cannot be read as NPZ"),
    (called("tree", "a.parquet"), InputError, r"ends in \.parquet, but looks like ROOT; rename it"),
    (called("npz", "a.h5"), InputError, r"ends in \.h5, but looks like NPZ; rename it to .*\.npz"),
    (called("hdf5", "a.csv"), InputError, r"ends in \.csv, but looks like HDF5"),
    (called("csv", "a.npy"), InputError, r"ends in \.npy but is not NPY"),
    (cut("parquet", 0.6), InputError, r"muons\.parquet: cannot be read as Parquet"),
    (cut("tree", 0.6), InputError, r"tree\.root: cannot be read as ROOT"),
    (cut("ntuple", 0.6), InputError, r"ntuple\.root: cannot be read as ROOT"),
    (cut("hdf5", 0.6), InputError, r"muons\.h5: cannot be read as HDF5"),
    (cut("npy", 0.6), InputError, r"muons\.npy: cannot be read as NPY"),
    (cut("npz", 0.6), InputError, r"muons\.npz: cannot be read as NPZ"),
    (asked("tree", columns=["Pt"]), ColumnError, r"tree\.root: no column 'Pt'; nearest: 'pt'"),
    (asked("hdf5", weight="w"), ColumnError, r"muons\.h5: no column 'w'; known: 'charge', 'eta'"),
    (asked("npz", carry=["mass"]), ColumnError, "no column 'mass'"),
    (asked("csv", where="eta2 > 1"), ColumnError, "no column 'eta2'; nearest: 'eta'"),
    (asked("csv", where="eta >"), ExpressionError, r"a column was expected here, not the end"),
    (asked("parquet", columns=["pt"], carry=["pt"]), ColumnError, "'pt' more than once"),
    (asked("parquet", columns=[]), ColumnError, "no columns"),
    (asked("parquet", periodic=["phi"]), ColumnError, "unknown column 'phi'"),
    (asked("parquet", tree="t"), InputError, r"a Parquet file is one table.*'t'; leave `tree` out"),
    (asked("hdf5", tree="events"), InputError, r"no group or dataset 'events'; known: 'charge'"),
    (asked("npz", tree="pts"), InputError, "no array 'pts'; nearest: 'pt'"),
    (asked("npz", rows=0), InputError, "rows is 0; keep at least one"),
    (
        asked("npy", where="pt < 0"),
        EmptyError,
        r"muons\.npy: no events that fulfil 'pt < 0', of 50",
    ),
    (
        save("a.npz", x=GAP),
        NonFiniteError,
        r"column 'x': 2 of 5 .* nan at row 2 .*abs\(`x`\) < 1e30",
    ),
    (save("a.parquet", x=[1, None, None]), NonFiniteError, r"column 'x': 2 of 3 .*nan at row 1 "),
    (save("a.parquet", x=[True, None]), NonFiniteError, r"column 'x': 1 of 2 .*nan at row 1 "),
    (save("a.npz", s=["a", "b"]), ColumnError, r"a\.npz: has no column of numbers .*'s'"),
    (save("a.npz", z=[1j, 2j]), ColumnError, r"a\.npz: has no column of numbers"),
    (save("a.npz", x=[1.0], y=[1.0, 2.0]), ColumnError, r"'x' has 1, 'y' has 2"),
    (save("a.npz", x=[1.0], m=[[1.0, 2.0]]), DtypeError, r"'m' hold several values.* 'x'"),
    (save("a.npz", m=np.ones((2, 2, 2))), InputError, r"no columns \('m' \(2, 2, 2\) there\)"),
    (save("a.parquet", x=[1.0], j=[[1, 2]]), DtypeError, r"a\.parquet: 'j' hold several values"),
    (save("a.npz", x=[[1.0, 1.0]] * 2 + [[np.nan, 0]]), NonFiniteError, r"'x0': 1 of 3 .*row 2 "),
    (jagged, DtypeError, r"a\.root: 'hits' hold several values for each event; .*`columns`"),
    (no_tree, InputError, "holds no tree and no ntuple"),
    (hdf5(x=[1.0], y=[1.0, 2.0]), ColumnError, r"a\.h5: columns differ in number of rows"),
    (hdf5(s=[b"a"]), ColumnError, "no column of numbers"),
    (hdf5(), InputError, r"a\.h5: has no columns"),
    (unwritten, InputError, r"'x' promises 1000 rows, but not all of them were written"),
    (elsewhere, InputError, r"'x' keeps its values in other files"),
    (linked, InputError, r"no group or dataset 'x'"),
    (different, ColumnError, r"b\.npz: lacks 'y' and adds 'z', unlike .*a\.npz; .*`columns`"),
    (pickled, InputError, r"a\.npy: cannot be read as NPY"),
]


@pytest.mark.parametrize(("make", "kind", "message"), BAD)
def test_bad_input(
    make: Callable[[Path], dict[str, object]],
    kind: type[GofstreamError],
    message: str,
    tmp_path: Path,
) -> None:
    """The right error, with the file, the place and a way out."""
    options = make(tmp_path)
    with pytest.raises(kind, match=message) as caught:
        read(**options)
    # Of this type, not only of a base of it: the program can tell them apart.
    assert type(caught.value) is kind
    assert len(str(caught.value)) < 900


def test_columns_that_were_asked_for(tmp_path: Path) -> None:
    """Text and lists are refused by name."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1.0], "s": ["a"], "j": [[1, 2]]}), path)
    with pytest.raises(DtypeError, match=r"column 's': holds string, not numbers; leave it out"):
        read(path, columns=["s"])
    with pytest.raises(DtypeError, match=r"column 'j': holds several values .*list<"):
        read(path, columns=["j"])
    with pytest.raises(DtypeError, match=r"column 's': holds string"):
        read(path, columns=["x"], where="s > 1")


def test_missing_values_are_counted_over_the_file(tmp_path: Path) -> None:
    """Row numbers of the file, whatever was selected; weights have an error of their own."""
    values = np.arange(20_000.0)
    values[[15_000, 19_000]] = np.nan
    np.savez(tmp_path / "a.npz", x=np.ones(20_000))
    np.savez(tmp_path / "b.npz", x=values)
    paths = [tmp_path / "a.npz", tmp_path / "b.npz"]
    with pytest.raises(NonFiniteError, match=r"b\.npz, column 'x': 2 of 20000 .*row 15000 "):
        read(paths, memory=500_000)
    with pytest.raises(NonFiniteError, match=r"2 of 20000 .*row 15000 "):
        read(paths, memory=500_000, where="!(x < 16000)")
    assert len(read(paths, where="abs(x) < 1e30").sample) == 39_998
    np.savez(tmp_path / "c.npz", x=values, y=np.ones(20_000))
    with pytest.raises(WeightError, match=r"c\.npz, column 'x': 2 of 20000"):
        read(tmp_path / "c.npz", weight="x")


def test_a_file_twice_is_refused(tmp_path: Path) -> None:
    """Also by another way to the same file."""
    np.save(tmp_path / "a.npy", [1.0])
    (tmp_path / "b.npy").symlink_to(tmp_path / "a.npy")
    with pytest.raises(InputError, match=r"b\.npy: is given more than once"):
        read(tmp_path / "*.npy")


def test_rows_grow_to_exactly_what_fits() -> None:
    """Growing by a quarter stops at the budget: of 4800 bytes, 4000 are needed for other things."""
    rows = Kept(1, np.dtype(np.float64), [], 4000 + 100 * 8, 4000, 0)
    rows.append([np.arange(90.0)], [], 90)
    rows.append([np.arange(90.0, 100.0)], [], 10)
    with pytest.raises(MemoryBudgetError, match="101 events"):
        rows.append([np.zeros(1)], [], 1)
    values, _ = rows.finish()
    assert np.asarray(values[:]).ravel().tolist() == [*range(100)]
