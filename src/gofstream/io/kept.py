"""Rows that are kept while files are read: in memory once, and never more than allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import refuse_beyond

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
    """

    def __init__(
        self,
        width: int,
        dtype: np.dtype[Any],
        beside: Sequence[np.dtype[Any]],
        memory: int,
        aside: int,
        aside_per_row: int,
    ) -> None:
        self.count = 0
        self.memory = memory
        self.aside = aside
        own = width * dtype.itemsize + sum(each.itemsize for each in beside)
        self.row_bytes = own + aside_per_row
        self._matrix: NDArray[Any] = np.empty((0, width), dtype)
        self._beside: list[NDArray[Any]] = [np.empty(0, each) for each in beside]

    def reserve(self, rows: int) -> None:
        """Make room for exactly this many rows, or refuse to."""
        needed = rows * self.row_bytes + self.aside
        what = f"reading {self._matrix.shape[1]} columns of {rows} events"
        refuse_beyond(self.memory, needed, what, _FEWER)
        for array in self._arrays:
            # In place, so that old and new are not in memory together; nobody else has a view.
            array.resize((rows, *array.shape[1:]), refcheck=False)

    def append(
        self, columns: Sequence[NDArray[Any]], beside: Sequence[NDArray[Any] | int], rows: int
    ) -> None:
        """Keep some more rows."""
        end = self.count + rows
        if end > len(self._matrix):
            # A quarter more than needed, if it fits: growing by every piece would take for ever.
            fits = (self.memory - self.aside) // self.row_bytes
            self.reserve(max(end, min(end * 5 // 4, fits)))
        new = slice(self.count, end)
        # A number too large for float64 becomes inf, which the caller has looked for.
        with np.errstate(over="ignore"):
            for j, column in enumerate(columns):
                self._matrix[new, j] = column
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

    def finish(self) -> tuple[NDArray[Any], list[NDArray[Any]]]:
        """Give the arrays, cut to size."""
        self.reserve(self.count)
        return self._matrix, self._beside

    @property
    def _arrays(self) -> list[NDArray[Any]]:
        return [self._matrix, *self._beside]


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
