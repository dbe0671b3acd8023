"""NumPy's own files, without ever unpickling anything."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from gofstream.errors import InputError, nearest_names
from gofstream.io.layout import Array, lay_out
from gofstream.io.table import Piece, Table, check_unique, sliced

_ENDING = ".npy"
#: Arrays in one archive: each is opened to learn its shape.
MOST_ARRAYS = 5000
# Bytes of its list of members, which has their names; and of the record at its end that tells how
# long that is, with the longest comment.
_LARGEST_DIRECTORY = 400 * MOST_ARRAYS
_END_RECORD = 22 + 65535


def open_npy(path: Path, stack: ExitStack, tree: str | None = None) -> Table:
    """Open a `.npy` file: a matrix, one column, or a structured array."""
    # Mapped for a moment, to learn where the numbers are. Pages of it would count as memory.
    mapped: np.memmap[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    dtype, begin, by_column = mapped.dtype, mapped.offset, not mapped.flags.c_contiguous
    shape = (*mapped.shape, 1) if mapped.ndim == 1 and dtype.names is None else mapped.shape
    layout = lay_out({path.name: Array(dtype, shape)}, path, ())
    file = stack.enter_context(path.open("rb", buffering=0))

    def numbers(first: int, count: int) -> NDArray[Any]:
        file.seek(begin + first * dtype.itemsize)
        return np.fromfile(file, dtype, count)

    def take(names: Sequence[str], start: int, stop: int) -> Piece:
        places, count = {name: layout.places[name][1] for name in names}, stop - start
        if by_column:
            return {
                n: numbers(int(at or 0) * layout.rows + start, count) for n, at in places.items()
            }
        width = math.prod(shape[1:])
        rows = numbers(start * width, count * width)
        if dtype.names is None:
            rows = rows.reshape(count, width)
        return {n: rows[:, at] if isinstance(at, int) else rows[at] for n, at in places.items()}

    return Table(layout.columns, layout.rows, sliced(layout.rows, take))


def open_npz(path: Path, stack: ExitStack, tree: str | None) -> Table:
    """Open a `.npz` file: one-dimensional arrays, or one matrix, which `tree` can name."""
    _refuse_many(path, _directory_bytes(path) > _LARGEST_DIRECTORY)
    archive = stack.enter_context(ZipFile(path))
    members = [name for name in archive.namelist() if name.endswith(_ENDING)]
    _refuse_many(path, len(members) > MOST_ARRAYS)
    parts = tuple(name.removesuffix(_ENDING) for name in members)
    check_unique(parts, path)
    if tree is not None and tree not in parts:
        raise InputError(f"{path}: has no array {tree!r}; {nearest_names(tree, parts)}")
    heads = {part: _head(archive, part) for part in parts if tree is None or part == tree}
    layout = lay_out(
        {part: Array(head.dtype, head.shape) for part, head in heads.items()}, path, parts
    )

    def pieces(names: Sequence[str], at_once: int) -> Iterator[Piece]:
        with ExitStack() as opened:
            streams = {}
            for name in names:
                part, at = layout.places[name]
                column = at if heads[part].by_column and isinstance(at, int) else None
                if (part, column) not in streams:
                    stream = opened.enter_context(archive.open(part + _ENDING))
                    streams[part, column] = _Stream(stream, column)
            for start in range(0, layout.rows, at_once):
                count = min(at_once, layout.rows - start)
                blocks = {key: stream.rows(count) for key, stream in streams.items()}
                yield {name: _column(blocks, *layout.places[name]) for name in names}

    return Table(layout.columns, layout.rows, pieces, parts)


def _refuse_many(path: Path, too_many: bool) -> None:
    if too_many:
        raise InputError(
            f"{path}: holds more than {MOST_ARRAYS} arrays; write each column of the events as one "
            "array"
        )


def _directory_bytes(path: Path) -> int:
    """Tell how large the list of members of an archive is, before it is read: that takes long."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _END_RECORD))
        tail = file.read()
    at = tail.rfind(b"PK\5\6")
    return int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 0


class _Stream:
    """Reads rows of an array in order; of one column only, if the array is stored by columns."""

    def __init__(self, stream: IO[bytes], column: int | None) -> None:
        head = _Head.read(stream)
        self.stream = stream
        self.dtype = head.dtype
        self.width = 1 if column is not None else math.prod(head.shape[1:])
        if column is not None:
            stream.seek(column * head.shape[0] * head.dtype.itemsize, 1)

    def rows(self, count: int) -> NDArray[Any]:
        """Give the next rows, as a matrix."""
        size = count * self.width * self.dtype.itemsize
        content = self.stream.read(size)
        if len(content) != size:
            raise ValueError(f"{size - len(content)} bytes are missing")
        return np.frombuffer(content, self.dtype).reshape(count, self.width)


@dataclass(frozen=True, slots=True)
class _Head:
    """What stands before the values of an array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    by_column: bool

    @classmethod
    def read(cls, stream: IO[bytes]) -> _Head:
        """Read as far as the first value."""
        version = npy_format.read_magic(stream)
        if version == (1, 0):
            shape, by_column, dtype = npy_format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, by_column, dtype = npy_format.read_array_header_2_0(stream)
        else:
            raise ValueError(f"version {version} of an array is not known")
        return cls(dtype, shape, by_column)


def _head(archive: ZipFile, part: str) -> _Head:
    with archive.open(part + _ENDING) as stream:
        return _Head.read(stream)


def _column(
    blocks: dict[tuple[str, int | None], NDArray[Any]], part: str, at: int | str | None
) -> NDArray[Any]:
    """Pick a column from what was read of its array."""
    if isinstance(at, int) and (part, at) not in blocks:
        return blocks[part, None][:, at]
    block = blocks[part, at if isinstance(at, int) else None][:, 0]
    return block[at] if isinstance(at, str) else block
