"""Rows that are kept while files are read: never more in memory than allowed; else on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import refuse_beyond
from gofstream.ondisk import OnDisk, Writer

_FEWER = "read fewer columns, keep fewer rows with `rows`, or select with `where`"
# Rows moved at once.
_ROWS = 65_536


class Kept:
    """Rows of a matrix, and of columns beside it, in arrays that grow.

    Parameters
    ----------
    width, dtype
        Columns of the matrix and their type.
    beside
        Types of the columns beside it.
    memory
        Bytes that may be used in all.
    aside, aside_per_row
        Bytes of them that are needed for other things.
    scratch
        Folder for a matrix that would take more than half of them, which then goes to a file.
    """

    def __init__(
        self,
        width: int,
        dtype: np.dtype[Any],
        beside: Sequence[np.dtype[Any]],
        memory: int,
        aside: int,
        aside_per_row: int,
        scratch: Path | None = None,
    ) -> None:
        self.count = 0
        self.memory = memory
        self.aside = aside
        self.scratch = scratch
        self.row_bytes = sum(each.itemsize for each in beside) + aside_per_row
        self._matrix: NDArray[Any] = np.empty((0, width), dtype)
        self._beside: list[NDArray[Any]] = [np.empty(0, each) for each in beside]
        self._file: Writer | None = None
        self._room = 0

    def reserve(self, rows: int) -> None:
        """Make room for exactly this many rows, or refuse to."""
        needed = rows * self.row_bytes + self.aside
        if self._file is None:
            matrix = rows * self._matrix.shape[1] * self._matrix.itemsize
            # Half of it may stay: the rest is for what is done with the events.
            if self.scratch is None or max(2 * matrix, needed + matrix) <= self.memory:
                needed += matrix
            else:
                self._file = Writer(self.scratch, self._matrix.shape[1], self._matrix.dtype)
                self._file.append(self._matrix[: self.count])
                self._matrix = self._matrix[:0].copy()
        what = f"reading {self._matrix.shape[1]} columns of {rows} events"
        refuse_beyond(self.memory, needed, what, _FEWER)
        for array in self._arrays:
            # In place, so that old and new are not in memory together; nobody else has a view.
            array.resize((rows, *array.shape[1:]), refcheck=False)
        self._room = rows

    def append(
        self, columns: Sequence[NDArray[Any]], beside: Sequence[NDArray[Any] | int], rows: int
    ) -> None:
        """Keep some more rows."""
        end = self.count + rows
        if end > self._room:
            # A quarter more than needed, if it fits: growing by every piece would take for ever.
            self.reserve(max(end, min(end * 5 // 4, self._fitting)))
        new = slice(self.count, end)
        # A number too large for float64 becomes inf, which the caller has looked for.
        with np.errstate(over="ignore"):
            if self._file is None:
                matrix = self._matrix[new]
            else:
                matrix = np.empty((rows, len(columns)), self._matrix.dtype)
            for j, column in enumerate(columns):
                matrix[:, j] = column
            if self._file is not None:
                self._file.append(matrix)
            for j, extra in enumerate(beside):
                # Integers of which one is missing go on as numbers that can be NaN.
                whole = self._beside[j].dtype.kind in "biu"
                if whole and isinstance(extra, np.ndarray) and extra.dtype.kind == "f":
                    self._beside[j] = self._beside[j].astype(np.float64)
                self._beside[j][new] = extra
        self.count = end

    def thin(self, rows: NDArray[np.integer[Any]]) -> None:
        """Drop all rows but these, given in ascending order."""
        for array in self._arrays:
            # No row moves up, so what is still to be moved has not been written over.
            for start in range(0, len(rows), _ROWS):
                stop = min(start + _ROWS, len(rows))
                array[start:stop] = array[rows[start:stop]]
        self.count = len(rows)

    def beside(self, j: int) -> NDArray[Any]:
        """Look at one of the columns beside the matrix; not to be held while rows are added."""
        return self._beside[j][: self.count]

    def finish(self) -> tuple[NDArray[Any] | OnDisk, list[NDArray[Any]]]:
        """Give the arrays, cut to size."""
        self.reserve(self.count)
        return self._matrix if self._file is None else self._file.finish(), self._beside

    @property
    def _arrays(self) -> list[NDArray[Any]]:
        return [*([self._matrix] if self._file is None else []), *self._beside]

    @property
    def _fitting(self) -> int:
        """Rows that there is room for where they are now."""
        row = self._matrix.shape[1] * self._matrix.itemsize if self._file is None else 0
        most = (self.memory - self.aside) // max(row + self.row_bytes, 1)
        return min(most, self.memory // 2 // row) if self.scratch and row else most


class Draw:
    """Choose N rows at random from a stream of unknown length.

    Every row draws a number, and the rows with the N smallest stay. Which they are depends on the
    seed and on the order of rows, not on the pieces in which they come.

    Parameters
    ----------
    rows
        How many to keep.
    seed
        Of the random numbers.
    """

    def __init__(self, rows: int, seed: int) -> None:
        self.rows = rows
        self.bar = np.inf
        self._random = np.random.default_rng(seed)

    def numbers(self, count: int) -> NDArray[np.float64]:
        """Draw for the next rows; those at or above the bar are out at once."""
        return self._random.random(count)

    def settle(self, kept: Kept, j: int, spare: int) -> None:
        """Drop the rows that lost, if there are more than `spare` of them.

        Parameters
        ----------
        kept
            All rows that were not out at once.
        j
            Which column beside the matrix holds the numbers drawn.
        spare
            Rows too many to put up with.
        """
        if kept.count <= self.rows + spare:
            return
        numbers = kept.beside(j)
        best = np.argpartition(numbers, self.rows - 1)[: self.rows]
        self.bar = numbers[best].max()
        kept.thin(np.sort(best))
