"""Numbers in a file of their own, of which parts are read: events that memory cannot hold.

Parts are read and not mapped. Pages of a mapped file count as memory of the process, and when
somebody cuts the file, the process dies.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Never

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import InputError

Indices = NDArray[np.int64]

#: Rows this near to each other are read together.
NEAR = 1024


class OnDisk:
    """A matrix in a file. Rows are had as those of an array are; it can do nothing else.

    Another process to which it is sent gets the path and not the numbers. There the file is opened
    when rows are first asked for, and must be the one that was written.

    Parameters
    ----------
    path
        The file: numbers, row after row, and nothing else.
    shape, dtype
        Of all that is in the file.
    sha256
        Of its bytes, in hex.
    without
        Rows of the file that are left out, in rising order.
    order
        Columns of the file that are had, in this order; None for all, as they are.

    Examples
    --------
    >>> writer = Writer(Path(tempfile.mkdtemp()), 2, np.dtype(np.float64))
    >>> writer.append(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    >>> rows = writer.finish()
    >>> rows.shape, rows[1:].tolist(), rows[np.array([2, 0])].tolist()
    ((3, 2), [[3.0, 4.0], [5.0, 6.0]], [[5.0, 6.0], [1.0, 2.0]])
    """

    ndim = 2
    #: Memory that it takes.
    nbytes = 0

    def __init__(
        self,
        path: Path,
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        sha256: str,
        without: Indices | None = None,
        order: tuple[int, ...] | None = None,
    ) -> None:
        self.path, self.dtype, self.sha256 = path, dtype, sha256
        self._whole, self._order = shape, order
        self._without = np.empty(0, np.int64) if without is None else without
        # Rows that stay and come before each of those left out.
        self._before = self._without - np.arange(len(self._without))
        self._file: _File | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[OnDisk], tuple[object, ...]]:
        """Send where it is, not what it holds."""
        return OnDisk, (self.path, self._whole, self.dtype, self.sha256, self._without, self._order)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        columns = self._whole[1] if self._order is None else len(self._order)
        return self._whole[0] - len(self._without), columns

    def __len__(self) -> int:
        """Count the rows."""
        return self.shape[0]

    def without(self, rows: Indices) -> OnDisk:
        """Leave some rows, given in rising order, out; the file stays as it is."""
        left_out = np.sort(np.concatenate([self._without, self._in_file(rows)]))
        return self._like(left_out, self._order)

    def in_order(self, columns: Sequence[int]) -> OnDisk:
        """Choose columns and their order; the file stays as it is."""
        order = range(self._whole[1]) if self._order is None else self._order
        return self._like(self._without, tuple(order[column] for column in columns))

    def _like(self, without: Indices, order: tuple[int, ...] | None) -> OnDisk:
        """Look at the same file in another way."""
        found = OnDisk(self.path, self._whole, self.dtype, self.sha256, without, order)
        found._file = self._file
        return found

    def __getitem__(self, rows: slice | NDArray[Any]) -> NDArray[Any]:
        """Read a range of rows, those with some numbers, or those that a mask marks."""
        if isinstance(rows, slice):
            first, stop, step = rows.indices(len(self))
            if step == 1:
                return self._range(first, max(first, stop))
            wanted = np.arange(first, stop, step)
        else:
            wanted = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64)
        order = np.argsort(wanted, kind="stable")
        wanted, start = wanted[order], 0
        if len(wanted) and not 0 <= wanted[0] <= wanted[-1] < len(self):
            raise IndexError(f"rows {wanted[0]} to {wanted[-1]} of {len(self)}")
        out = np.empty((len(wanted), self.shape[1]), self.dtype)
        while start < len(wanted):
            first = int(wanted[start])
            stop = int(np.searchsorted(wanted, first + NEAR))
            near = self._range(first, int(wanted[stop - 1]) + 1)
            out[order[start:stop]] = near[wanted[start:stop] - first]
            start = stop
        return out

    def __array__(self, *_: object, **__: object) -> Never:
        """Refuse to become an array: numpy would read one row after another until all are there."""
        raise InputError(
            f"{self.path}: {len(self)} events are on disk because memory cannot hold them, but "
            "this needs them in memory; keep fewer with `rows`, or raise `memory`"
        )

    def _in_file(self, rows: Indices) -> Indices:
        """Where rows are, when those left out are counted."""
        return rows + np.searchsorted(self._before, rows, side="right")

    def _range(self, first: int, stop: int) -> NDArray[Any]:
        if first == stop:
            return np.empty((0, self.shape[1]), self.dtype)
        begin, last = self._in_file(np.array([first, stop - 1])).tolist()
        found = self._read(begin, last + 1)
        if self._order is not None:
            found = np.take(found, self._order, axis=1)
        i, j = np.searchsorted(self._without, [begin, last])
        return found if i == j else np.delete(found, self._without[i:j] - begin, axis=0)

    def _read(self, first: int, stop: int) -> NDArray[Any]:
        """Read rows of the file, from any thread."""
        number = self._opened().number
        out = np.empty((stop - first, self._whole[1]), self.dtype)
        left, at = out.data.cast("B"), first * out[:1].nbytes
        while left:  # one call reads two gigabytes at most
            count = os.preadv(number, [left], at)
            if not count:
                raise InputError(f"{self.path}: was cut short while it was used; begin again")
            left, at = left[count:], at + count
        return out

    def _opened(self) -> _File:
        with self._lock:
            if self._file is None:
                self._file = self._checked()
            return self._file

    def _checked(self) -> _File:
        """Open a file that another process has written."""
        try:
            file = _File(os.open(self.path, os.O_RDONLY))
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be opened here ({error.strerror}); it holds "
                f"{self._whole[0]} events that memory cannot hold, and every worker reads it: put "
                "what is written on storage that all machines share"
            ) from error
        with os.fdopen(file.number, "rb", closefd=False) as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
        if found != self.sha256:
            raise InputError(
                f"{self.path}: is not the file that was written for this run; begin again, and "
                "leave it alone meanwhile"
            )
        return file


class _File:
    """An open file, closed when nobody has it any more."""

    def __init__(self, number: int) -> None:
        self.number = number
        weakref.finalize(self, os.close, number)


class Writer:
    """Writes a matrix, some rows at a time, to a file in a folder.

    Parameters
    ----------
    folder
        Made if it is not there.
    columns, dtype
        Of the matrix.

    Raises
    ------
    OSError
        If the file cannot be written; it names the file.
    """

    def __init__(self, folder: Path, columns: int, dtype: np.dtype[Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(".rows", dir=folder)
        self.path = Path(name).resolve()
        self._file = _File(number)
        self._sha256 = hashlib.sha256()
        self._rows, self._columns, self._dtype = 0, columns, dtype

    def append(self, rows: NDArray[Any]) -> None:
        """Write some more rows."""
        if not len(rows):
            return
        left = np.ascontiguousarray(rows, self._dtype).data.cast("B")
        self._sha256.update(left)
        try:
            while left:
                left = left[os.write(self._file.number, left) :]
        except OSError as error:
            raise OSError(
                f"{self.path} cannot be written ({error.strerror}); make room, or give another "
                "place"
            ) from error
        self._rows += len(rows)

    def finish(self) -> OnDisk:
        """Give the matrix."""
        shape = (self._rows, self._columns)
        found = OnDisk(self.path, shape, self._dtype, self._sha256.hexdigest())
        found._file = self._file  # known to be the one that was written
        return found
