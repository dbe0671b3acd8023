"""What is in files: columns, types, ranges, missing values and small histograms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.io.choice import Head, PathLike, choose, find, look
from gofstream.io.define import Definitions
from gofstream.io.expression import Condition, parse
from gofstream.io.formats import opened, recognise
from gofstream.io.gather import rows_at_once, select
from gofstream.io.table import Piece

#: Bins of a histogram, from the smallest value to the largest.
BINS = 20

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
    define: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Summary:
    """Summarise the columns of files, in two passes and little memory.

    Parameters
    ----------
    files, tree, where, define
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
    definitions = Definitions.read(define or {})
    heads = look(find(files), tree, definitions)
    first = heads[0]
    names = [name for name, column in first.columns.items() if column.dtype is not None]
    columns = {name: ColumnSummary(first.columns[name].type) for name in names}
    others = {n: column.type for n, column in first.columns.items() if column.dtype is None}
    choose(heads, names, () if condition is None else condition.names)
    rows = [0 if names else head.rows for head in heads]
    selected = 0 if names else sum(rows)
    total = 2 * sum(head.rows for head in heads)
    done = 0
    for step in (_measure, _fill) if names else ():
        selected = 0
        for number, head in enumerate(heads):
            rows[number] = 0
            for count, piece in _pieces(head, names, tree, condition, definitions):
                for name in names:
                    step(columns[name], piece[name])
                rows[number] += count
                selected += len(piece[names[0]])
                done += count
                progress(done, max(total, done))
    each = zip(heads, rows, strict=True)
    found = tuple(FileSummary(str(h.path), recognise(h.path).name, n, h.parts) for h, n in each)
    return Summary(found, selected, columns, others)


def _pieces(
    head: Head,
    names: Sequence[str],
    tree: str | None,
    condition: Condition | None,
    define: Definitions,
) -> Iterator[tuple[int, Piece]]:
    """Give the rows of each piece, and what is selected of it."""
    with opened(head.path, tree, define) as table:
        for piece in table.pieces(names, rows_at_once(len(names), _MEMORY)):
            count = len(piece[names[0]])
            select(piece, condition)
            yield count, piece


def _measure(column: ColumnSummary, values: NDArray[Any]) -> None:
    """Take note of more values."""
    finite = _finite(values)
    column.missing += len(values) - len(finite)
    if not len(finite):
        return
    low, high = float(finite.min()), float(finite.max())
    total = column.count + len(finite)
    # Dividing before adding: the sum of huge values need not be finite.
    mean = float((finite / total).sum())
    if column.minimum is None or column.mean is None or column.maximum is None:
        column.minimum, column.mean, column.maximum = low, mean, high
    else:
        column.minimum, column.maximum = min(low, column.minimum), max(high, column.maximum)
        column.mean = column.mean * (column.count / total) + mean
    column.count = total


def _fill(column: ColumnSummary, values: NDArray[Any]) -> None:
    """Sort more values into the bins of a column whose range is known."""
    finite = _finite(values)
    if column.minimum is None or column.maximum is None or not len(finite):
        return
    # Halves: the difference of two huge values need not be finite.
    width = column.maximum / 2 - column.minimum / 2
    with np.errstate(all="ignore"):
        place = (finite / 2 - column.minimum / 2) / width * BINS if width else np.zeros(len(finite))
    bins = np.bincount(np.clip(place, 0, BINS - 1).astype(np.intp), minlength=BINS)
    column.histogram = (np.array(column.histogram or [0] * BINS) + bins).tolist()


def _finite(values: NDArray[Any]) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float64)
    return numbers[np.isfinite(numbers)]
