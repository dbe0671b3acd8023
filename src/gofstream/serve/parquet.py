"""What a Parquet file says it unpacks to, by its footer and by the headers of its pages.

They are structures in Thrift's compact protocol, and are read here: at one damaged byte in some
footers pyarrow ends the whole process when it is asked for the sizes of a column.
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gofstream.errors import InputError

#: Fields of the footer, of a row group in it, and of a column chunk in that.
_ROW_GROUPS, _CHUNKS, _ABOUT = 4, 1, 3
#: Fields of what the footer says about a column chunk: bytes when unpacked and in the file, and
#: where its pages begin.
_UNPACKED, _STORED, _DATA, _DICTIONARY = 6, 7, 9, 11
#: Fields of the header of a page: bytes when unpacked, and in the file.
_PAGE_UNPACKED, _PAGE_STORED = 2, 3
#: Kinds of values: integers, and what has a fixed number of bytes.
_INTEGERS = (4, 5, 6)
_FIXED = {1: 0, 2: 0, 3: 1, 7: 8, 13: 16}
_BINARY, _LIST, _SET, _MAP, _STRUCT = 8, 9, 10, 11, 12
_END = b"PAR1"


def parquet_sizes(path: Path) -> Iterator[int]:
    """Give the bytes that each column chunk unpacks to; by footer or pages, whichever says more.

    Raises
    ------
    InputError
        If headers contradict the file.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - 8, 0))
            length = int.from_bytes(file.read(4), "little")
            if file.read(4) != _END or length > size - 8:
                raise IndexError(size)
            file.seek(size - 8 - length)
            for chunk in column_chunks(file.read(length)):
                # Where there is a dictionary, it stands before the data.
                first = min(chunk.get(_DICTIONARY) or chunk[_DATA], chunk[_DATA])
                if min(chunk[_UNPACKED], chunk[_STORED], first) < 0:
                    raise IndexError(first)
                file.seek(first)
                pages = sum(page_sizes(file.read(chunk[_STORED])))
                yield max(pages, chunk[_UNPACKED])
    except (IndexError, KeyError, RecursionError, OverflowError) as error:
        raise InputError(f"{path}: a header in it is damaged; write it again") from error


def column_chunks(footer: bytes) -> Iterator[dict[int, int]]:
    """Give what a footer says about each column chunk: integers by field."""
    place = _Place(footer, 0)
    for _ in place.structures(_ROW_GROUPS):
        for _ in place.structures(_CHUNKS):
            for field, kind in place.fields():
                if (field, kind) == (_ABOUT, _STRUCT):
                    yield place.integers()
                else:
                    place.skip(kind)


def page_sizes(chunk: bytes) -> Iterator[int]:
    """Give the bytes that each page of a column chunk unpacks to."""
    start = 0
    while start < len(chunk):
        header = _Place(chunk, start)
        found = header.integers()
        if min(found[_PAGE_UNPACKED], found[_PAGE_STORED]) < 0:
            raise IndexError(start)
        yield found[_PAGE_UNPACKED]
        start = header.at + found[_PAGE_STORED]


class _Place:
    """A place in a structure, which moves on as it is read."""

    def __init__(self, content: bytes, at: int) -> None:
        self._content, self.at = content, at

    def fields(self) -> Iterator[tuple[int, int]]:
        """Give number and kind of each field; whoever asks reads its value, or skips it."""
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._integer()
            yield field, head & 15

    def integers(self) -> dict[int, int]:
        """Read the integers of a structure by field, and skip whatever else it has."""
        found: dict[int, int] = {}
        for field, kind in self.fields():
            if kind in _INTEGERS:
                found[field] = self._integer()
            else:
                self.skip(kind)
        return found

    def structures(self, wanted: int) -> Iterator[None]:
        """Stand before each structure in the list that a field is, and skip the other fields."""
        for field, kind in self.fields():
            if (field, kind) == (wanted, _LIST):
                for element in self._elements():
                    if element != _STRUCT:
                        raise IndexError(self.at)
                    yield
            else:
                self.skip(kind)

    def skip(self, kind: int, *, in_list: bool = False) -> None:
        """Read a value, and forget it."""
        if kind in _INTEGERS:
            self._natural()
        elif kind in _FIXED:
            # A truth value is in the kind of a field, and takes a byte in a list.
            self.at += 1 if in_list and kind in (1, 2) else _FIXED[kind]
        elif kind == _BINARY:
            length = self._natural()
            self.at += length
        elif kind in (_LIST, _SET):
            for element in self._elements():
                self.skip(element, in_list=True)
        elif kind == _MAP:
            count = self._natural()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self.skip(kinds >> 4, in_list=True)
                self.skip(kinds & 15, in_list=True)
        elif kind == _STRUCT:
            self.integers()
        else:
            raise IndexError(self.at)
        if self.at > len(self._content):
            raise IndexError(self.at)

    def _elements(self) -> Iterator[int]:
        """Give the kind of each element of a list."""
        head = self._byte()
        count = self._natural() if head >> 4 == 15 else head >> 4
        for _ in range(count):
            yield head & 15

    def _byte(self) -> int:
        found = self._content[self.at]
        self.at += 1
        return found

    def _natural(self) -> int:
        found, shift = 0, 0
        while (more := self._byte()) & 128:
            found |= (more & 127) << shift
            shift += 7
            if shift > 63:
                raise IndexError(self.at)
        return found | more << shift

    def _integer(self) -> int:
        found = self._natural()
        return found >> 1 ^ -(found & 1)
