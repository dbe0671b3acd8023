"""What is in files: columns, types, ranges, missing values and small histograms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import DtypeError
from gofstream.io.choice import Head, PathLike, check_number, choose, find, look
from gofstream.io.expression import Condition, parse
from gofstream.io.formats import opened, recognise
from gofstream.io.gather import rows_at_once
from gofstream.io.table import Piece

#: Bins of a histogram, from the smallest value to the largest.
BINS = 24

_MEMORY = 256 * 1024**2


@dataclass(slots=True)
class ColumnSummary:
    """A column of numbers; without values to speak of, there is no range and no histogram.

    Parameters
    ----------
    type
        As the file calls it.
    count, missing
        Entries that are finite, and those that are not: null, NaN or infinite.
    minimum, mean, maximum
        Of the finite entries.
    histogram
        Finite entries in `BINS` bins of one width.
    """

    type: str
    count: int = 0
    missing: int = 0
    minimum: float | None = None
    mean: float | None = None
    maximum: float | None = None
    histogram: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FileSummary:
    """A file: its format, its rows, and what `tree` can pick in it."""

    path: str
    format: str
    rows: int
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """What is in files.

    Parameters
    ----------
    files
        The files.
    selected
        Events that fulfil the condition; all, if there is none.
    columns
        Columns of numbers, by name.
    others
        Types of the columns that do not hold one number for each event, by name.
    """

    files: tuple[FileSummary, ...]
    selected: int
    columns: Mapping[str, ColumnSummary]
    others: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Give plain values that JSON can hold."""
        return asdict(self)


def summarise(
    files: PathLike | Iterable[PathLike],
    *,
    tree: str | None = None,
    where: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Summary:
    """Summarise the columns of files, in two passes and little memory.

    Parameters
    ----------
    files, tree, where
        As for `gofstream.io.read`.
    progress
        Called with the rows read so far, and all there are to read in both passes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.npz")
    >>> np.savez(path, pt=[1.0, 2.0, np.nan, 6.0])
    >>> column = summarise(path).columns["pt"]
    >>> column.count, column.missing, column.minimum, column.mean, column.maximum
    (3, 1, 1.0, 3.0, 6.0)
    """
    condition = None if where is None else parse(where)
    paths = find(files)
    heads = look(paths, tree)
    first = heads[0]
    names = [name for name, column in first.columns.items() if column.dtype is not None]
    columns = {name: ColumnSummary(first.columns[name].type) for name in names}
    others = {n: column.type for n, column in first.columns.items() if column.dtype is None}
    choose(heads, names, () if condition is None else condition.names)
    scan = _Scan(heads, names, tree, condition, progress)
    rows = [0] * len(heads)
    selected = 0
    for number, count, piece in scan.once():
        rows[number] += count
        selected += len(piece[names[0]]) if names else count
        for name in names:
            _measure(columns[name], piece[name])
    for _, _, piece in scan.once():
        for name in names:
            _fill(columns[name], piece[name])
    listed = zip(paths, rows, heads, strict=True)
    found = tuple(
        FileSummary(str(path), recognise(path).name, count, head.parts)
        for path, count, head in listed
    )
    return Summary(found, selected, columns, others)
