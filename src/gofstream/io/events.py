"""Events from files: `read`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import EmptyError, InputError
from gofstream.io.choice import PathLike, choose, find, look
from gofstream.io.define import Definitions
from gofstream.io.expression import parse
from gofstream.io.gather import Wanted, gather
from gofstream.io.kept import Draw
from gofstream.io.table import check_unique
from gofstream.periods import Periodic
from gofstream.sample import Sample, build


@dataclass(frozen=True, slots=True)
class FileRead:
    """A file that was read: how many rows it has, and how many of them were kept."""

    path: Path
    rows: int
    kept: int

    def sha256(self) -> str:
        """Compute the SHA-256 of its bytes, in hex: another pass over the file."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """What `read` gives.

    Parameters
    ----------
    sample
        The columns to fit, and weights.
    carried
        Columns kept beside, row by row those of the sample; missing values are NaN.
    files
        Where the rows came from.
    """

    sample: Sample
    carried: Mapping[str, NDArray[Any]]
    files: tuple[FileRead, ...]

    def drop(self, rows: NDArray[np.int64]) -> Events:
        """Leave out some events, given in rising order, with what is carried beside them."""
        carried = {name: np.delete(values, rows) for name, values in self.carried.items()}
        return Events(self.sample.drop(rows), carried, self.files)


def read(
    files: PathLike | Iterable[PathLike],
    *,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    tree: str | None = None,
    where: str | None = None,
    define: Mapping[str, str] | None = None,
    rows: int | None = None,
    periodic: Periodic = (),
    carry: Sequence[str] = (),
    units: Mapping[str, str] | None = None,
    memory: int = 4 * 1024**3,
    scratch: Path | None = None,
    seed: int = 0,
    name: str | None = None,
    allow_empty: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Events:
    """Read events from Parquet, Arrow, ROOT, HDF5, NumPy or CSV files.

    Several files are one sample. They are read in pieces, and only the columns that are needed, so
    files can be larger than memory; what is kept must fit, or go to a file of its own.

    Parameters
    ----------
    files
        Names or patterns such as ``run*.parquet``. A pattern stands for its files in the order of
        their names.
    columns
        Columns to fit; by default all that hold numbers, but for `weight` and `carry`.
    weight
        Column of event weights.
    tree
        The tree or ntuple of a ROOT file, the group or dataset of an HDF5 file, the array of a
        ``.npz`` file. Not needed where there is only one.
    where
        Condition on events to read, such as ``"mll > 60 & pt2 > 20"``; see `io.expression.parse`.
    define
        Columns to compute, by name: formulas such as ``"hypot(px, py)"`` in the same language. They
        can be used like those in the files, and in the formulas after them.
    rows
        Keep this many events, drawn at random from all of them and left in their order.
    periodic, units
        As for `Sample`.
    carry
        Columns to keep beside those to fit.
    memory
        Bytes this may take.
    scratch
        Folder to which the columns to fit go, in one file of plain numbers, if they would take more
        than half of `memory`: the sample is then `OnDisk`. Weights, carried columns and events
        drawn by `rows` stay in memory. Without it, what does not fit is refused.
    seed
        Of the draw of `rows`.
    name
        What messages call the sample; by default the name of the file.
    allow_empty
        Whether there may be no events: a batch of a stream can have none.
    progress
        Called with the rows read so far, and all there are (for CSV, an estimate).

    Raises
    ------
    InputError
        If a file cannot be read, or its content cannot be used; it names file, column and row.
    ExpressionError
        If `where` is not a condition, or a definition not a formula.
    MemoryBudgetError
        If what is to be kept does not fit.

    Warns
    -----
    GofstreamWarning
        If columns that do not hold numbers are left out.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "muons.npz")
    >>> np.savez(path, pt=[25.0, 31.0, 8.0], eta=[0.1, -2.0, 1.1], mll=[91.0, 88.0, 60.5])
    >>> events = read(path, carry=["mll"], where="pt > 20")
    >>> events.sample.columns, events.sample.values.tolist(), events.carried["mll"].tolist()
    (('pt', 'eta'), [[25.0, 0.1], [31.0, -2.0]], [91.0, 88.0])
    """
    if rows is not None and rows < 1:
        raise InputError(f"rows is {rows}; keep at least one, or leave it out to keep all")
    condition = None if where is None else parse(where)
    definitions = Definitions.read(define or {})
    paths = find(files)
    name = name or called(paths)
    heads = look(paths, tree, definitions)
    carry = [carry] if isinstance(carry, str) else list(carry)
    beside = [*([] if weight is None else [weight]), *carry]
    wanted = Wanted(choose(heads, columns, beside), weight, carry, condition, definitions)
    check_unique([*wanted.columns, *beside], "the columns to read")
    if condition is not None:
        choose(heads, condition.names, ())
    # The gate of samples sees names, units and angles before an hour is spent on reading.
    empty = np.empty((0, len(wanted.columns)))
    build(empty, wanted.columns, None, units, periodic, name, copy=False)
    draw = None if rows is None else Draw(rows, seed)
    found = gather(heads, wanted, tree, draw, memory, scratch, progress)
    if not len(found.values) and not allow_empty:
        selected = "" if where is None else f" that fulfil {where!r}"
        total = sum(count for count, _ in found.counts)
        raise EmptyError(
            f"{', '.join(map(str, paths[:3]))}: no events{selected}, of {total} rows in "
            f"{len(paths)} files; check the files and the selection"
        )
    sample = build(found.values, wanted.columns, found.weights, units, periodic, name, copy=False)
    each = zip(paths, found.counts, strict=True)
    return Events(sample, found.carried, tuple(FileRead(path, *counts) for path, counts in each))


def called(paths: Sequence[Path]) -> str:
    """Name a sample after its files."""
    return paths[0].stem + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
