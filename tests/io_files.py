"""Real files in every format, for the tests of reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import uproot
from numpy.typing import NDArray

Columns = Mapping[str, NDArray[Any]]


def muons(rows: int, seed: int = 1) -> dict[str, NDArray[Any]]:
    """Make columns of several types, in alphabetical order: some formats know no other."""
    rng = np.random.default_rng(seed)
    return {
        "charge": rng.choice(np.array([-1, 1], np.int64), rows),
        "eta": rng.normal(0, 2, rows),
        "pt": rng.exponential(30, rows).astype(np.float32),
        "tight": rng.random(rows) < 0.3,
    }


def matrix(columns: Columns) -> NDArray[np.float64]:
    """Put columns side by side, as a sample would hold them."""
    return np.stack([column.astype(np.float64) for column in columns.values()], axis=1)


def parquet(folder: Path, columns: Columns) -> Path:
    """Write row groups that are not as long as pieces."""
    path = folder / "muons.parquet"
    pq.write_table(pa.table(dict(columns)), path, row_group_size=700)
    return path


def arrow(folder: Path, columns: Columns) -> Path:
    """Write record batches that are not as long as pieces, with an index of them at the end."""
    path = folder / "muons.arrow"
    table = pa.table(dict(columns))
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table, max_chunksize=700)
    return path


def arrow_stream(folder: Path, columns: Columns) -> Path:
    """Write record batches one after another, compressed."""
    path = folder / "muons.arrows"
    table = pa.table(dict(columns))
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(path, table.schema, options=options) as stream:
        stream.write_table(table, max_chunksize=700)
    return path


def tree(folder: Path, columns: Columns) -> Path:
    """Write a ROOT file with a TTree, in two lots."""
    path = folder / "tree.root"
    with uproot.recreate(path) as file:
        made = file.mktree("events", {name: column.dtype for name, column in columns.items()})
        half = len(next(iter(columns.values()))) // 2
        made.extend({name: column[:half] for name, column in columns.items()})
        made.extend({name: column[half:] for name, column in columns.items()})
    return path


def ntuple(folder: Path, columns: Columns) -> Path:
    """Write a ROOT file with an RNTuple, in two clusters."""
    path = folder / "ntuple.root"
    half = len(next(iter(columns.values()))) // 2
    with uproot.recreate(path) as file:
        made = file.mkrntuple("events", {name: column[:half] for name, column in columns.items()})
        made.extend({name: column[half:] for name, column in columns.items()})
    return path


def hdf5(folder: Path, columns: Columns) -> Path:
    """Write columns at the root, in compressed chunks."""
    path = folder / "muons.h5"
    with h5py.File(path, "w") as file:
        for name, column in columns.items():
            chunks = (min(300, len(column)),) if len(column) else None
            file.create_dataset(name, data=column, chunks=chunks)
    return path


def hdf5_matrix(folder: Path, columns: Columns) -> Path:
    """Write one matrix, with the names of its columns."""
    path = folder / "matrix.hdf5"
    with h5py.File(path, "w") as file:
        file["events"] = matrix(columns)
        # Names of one length: libhdf5 can hang on a damaged file with the other kind.
        file["events"].attrs["columns"] = np.array([name.encode() for name in columns])
    return path


def hdf5_table(folder: Path, columns: Columns) -> Path:
    """Write one dataset with fields."""
    path = folder / "table.h5"
    with h5py.File(path, "w") as file:
        file["events"] = structured(columns)
    return path


def structured(columns: Columns) -> NDArray[Any]:
    """Make one array with fields."""
    rows = len(next(iter(columns.values())))
    made = np.empty(rows, [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        made[name] = column
    return made


def npy(folder: Path, columns: Columns) -> Path:
    """Write a structured array."""
    path = folder / "muons.npy"
    np.save(path, structured(columns))
    return path


def npz(folder: Path, columns: Columns) -> Path:
    """Write compressed arrays by name."""
    path = folder / "muons.npz"
    np.savez_compressed(path, **columns)
    return path


def csv(folder: Path, columns: Columns) -> Path:
    """Write text from which every number comes back as it was."""
    path = folder / "muons.csv"
    lists = [column.tolist() for column in columns.values()]
    lines = (",".join(map(str, row)).lower() for row in zip(*lists, strict=True))
    path.write_text("\n".join([",".join(columns), *lines]) + "\n")
    return path


#: Ways to write columns under their names.
WRITERS: dict[str, Callable[[Path, Columns], Path]] = {
    writer.__name__: writer
    for writer in (
        parquet, arrow, arrow_stream, tree, ntuple, hdf5, hdf5_matrix, hdf5_table, npy, npz, csv,
    )
}  # fmt: skip
