"""One open file of events, whatever its format: columns, and pieces of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import ColumnError, GofstreamError, InputError, printable

#: Some rows of some columns: arrays of one length. Missing numbers are NaN.
Piece = dict[str, NDArray[Any]]

#: Reads columns from the first row to the last, about so many rows at a time.
Pieces = Callable[[Sequence[str], int], Iterator[Piece]]


@dataclass(frozen=True, slots=True)
class Column:
    """What a file says of one of its columns.

    Parameters
    ----------
    type
        The type as the format calls it.
    dtype
        Type of the numbers in pieces; None if the column does not hold plain numbers.
    nested
        Whether an entry holds several values.
    """

    type: str
    dtype: np.dtype[Any] | None
    nested: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """An open file.

    Parameters
    ----------
    columns
        What the file says of its columns, by name.
    rows
        How many there are; an estimate unless `counted`.
    pieces
        Reads columns that hold numbers.
    parts
        What `tree` can pick in the file.
    notes
        What the writer put beside the columns: the metadata of Parquet and Arrow.
    """

    columns: Mapping[str, Column]
    rows: int
    pieces: Pieces
    parts: tuple[str, ...] = ()
    counted: bool = True
    notes: Mapping[bytes, bytes] = field(default_factory=dict)


def sliced(rows: int, take: Callable[[Sequence[str], int, int], Piece]) -> Pieces:
    """Make pieces with a function that reads any range of rows."""

    def pieces(names: Sequence[str], at_once: int) -> Iterator[Piece]:
        for start in range(0, rows, at_once):
            yield take(names, start, min(start + at_once, rows))

    return pieces


@contextmanager
def foreign(path: Path, kind: str) -> Iterator[None]:
    """Name the file in whatever a format library raises."""
    try:
        yield
    except GofstreamError:
        raise
    except ImportError as error:
        raise InputError(
            f"{path}: reading {kind} needs a package that is not installed ({error}); install it"
        ) from error
    except Exception as error:
        # Anything at all comes out of a library that is fed damaged bytes.
        reason = printable(" ".join(str(error).split()))[:300] or type(error).__name__
        raise InputError(
            f"{path}: cannot be read as {kind} ({reason}); the file is cut short, damaged or of an "
            "unusual kind: make or fetch it again, or convert it"
        ) from error


def guarded(table: Table, path: Path, kind: str) -> Table:
    """Watch over the pieces: they must hold together, and add up to what the file promised."""
    if table.rows < 0:
        raise InputError(
            f"{path}: promises {table.rows} rows; the file is damaged: make or fetch it again"
        )

    def pieces(names: Sequence[str], rows: int) -> Iterator[Piece]:
        done = 0
        with foreign(path, kind):
            for piece in table.pieces(names, rows):
                shapes = {piece[name].shape for name in names}
                if len(shapes) != 1 or len(shape := shapes.pop()) != 1:
                    raise InputError(
                        f"{path}: columns do not fit together near row {done}; the file is "
                        "damaged: make or fetch it again"
                    )
                done += shape[0]
                yield piece
        if table.counted and done != table.rows:
            raise InputError(
                f"{path}: promises {table.rows} rows, but has {done}; the file is cut short or "
                "damaged: make or fetch it again"
            )

    return replace(table, pieces=pieces)


def check_unique(names: Iterable[str], where: Path | str) -> None:
    """Refuse columns of which two have one name."""
    twice = [name for name, count in Counter(iter(names)).items() if count > 1]
    if twice:
        raise ColumnError(
            f"{where}: {', '.join(map(repr, twice))} more than once; rename or drop all but one of "
            "each"
        )


def described(dtype: np.dtype[Any]) -> Column:
    """Describe a column by the numpy type of its entries."""
    if dtype.subdtype is not None or dtype.names is not None:
        return Column(str(dtype), None, nested=True)
    return Column(str(dtype), dtype.newbyteorder("=") if dtype.kind in "biuf" else None)
