"""What an Arrow file says it unpacks to, read from its headers before anything is unpacked."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gofstream.errors import InputError
from gofstream.io.arrow import STREAM

if TYPE_CHECKING:
    import pyarrow as pa

#: Kinds of messages that hold buffers (Message.fbs of Arrow), and the field they hold them in.
_DICTIONARY, _BATCH = 2, 3
#: How Arrow 0.17 said that buffers are packed; readers still believe it.
_OLD_MARK = b"ARROW:experimental_compression"
_MAGIC = b"ARROW1"


def arrow_sizes(path: Path) -> Iterator[int]:
    """Give the bytes that each message of an Arrow file or stream unpacks to.

    A packed buffer begins with its length before packing, which Arrow holds it to.

    Raises
    ------
    InputError
        If headers contradict the file.
    """
    import pyarrow as pa

    try:
        with pa.OSFile(str(path), "rb") as file:
            yield from map(_message_bytes, _messages(file))
    except (struct.error, IndexError) as error:
        raise InputError(f"{path}: a header in it is damaged; write it again") from error


def _messages(file: pa.NativeFile) -> Iterator[pa.ipc.Message]:
    from pyarrow import ipc

    if file.read(len(STREAM)) == STREAM:
        file.seek(0)
        yield from ipc.MessageReader.open_stream(file)
        return
    # A file is read in the order of its footer, which may name a message several times.
    size = file.size()
    file.seek(size - len(_MAGIC) - 4)
    length = struct.unpack("<i", file.read(4))[0]
    file.seek(size - len(_MAGIC) - 4 - length)
    footer = _Table.root(file.read(length))
    for field in (2, 3):
        for place in footer.structs(field, 24):
            file.seek(struct.unpack_from("<q", place)[0])
            yield ipc.read_message(file)


def _message_bytes(message: pa.ipc.Message) -> int:
    head = message.metadata.to_pybytes()
    table = _Table.root(head)
    kind = table.byte(1)
    size = 0 if message.body is None else len(message.body)
    if kind not in (_DICTIONARY, _BATCH):
        return size
    batch = table.table(2)
    if batch is not None and kind == _DICTIONARY:
        batch = batch.table(1)
    if batch is None or message.body is None:
        return size
    packed = batch.table(3) is not None or _OLD_MARK in head
    body = memoryview(message.body)
    total = 0
    for place in batch.structs(2, 16):
        start, length = struct.unpack("<qq", place)
        promise = -1
        if packed and length:
            if not 0 <= start <= size - 8:
                raise IndexError(start)
            promise = struct.unpack_from("<q", body, start)[0]
        # -1 says that this buffer is not packed.
        total += length if promise == -1 else abs(promise)
    return max(total, size)


class _Table:
    """A table of a flatbuffer: https://flatbuffers.dev/internals."""

    def __init__(self, content: bytes, start: int) -> None:
        self._content, self._start = content, start
        self._fields = start - self._number("<i", start)

    @classmethod
    def root(cls, content: bytes) -> _Table:
        """Take the outermost table."""
        return cls(content, struct.unpack_from("<I", content)[0])

    def byte(self, field: int) -> int:
        """Give a number of one byte; 0 where it is left out."""
        place = self._place(field)
        return self._number("<B", place) if place else 0

    def table(self, field: int) -> _Table | None:
        """Give a table in this one."""
        place = self._place(field)
        return _Table(self._content, place + self._number("<I", place)) if place else None

    def structs(self, field: int, size: int) -> Iterator[bytes]:
        """Give the structures of so many bytes in a list."""
        place = self._place(field)
        if not place:
            return
        place += self._number("<I", place)
        count = self._number("<I", place)
        for start in range(place + 4, place + 4 + count * size, size):
            if start + size > len(self._content):
                raise IndexError(start)
            yield self._content[start : start + size]

    def _place(self, field: int) -> int:
        offset = 4 + 2 * field
        if offset + 2 > self._number("<H", self._fields):
            return 0
        found = self._number("<H", self._fields + offset)
        return self._start + found if found else 0

    def _number(self, kind: str, place: int) -> int:
        if place < 0:
            raise IndexError(place)
        found: int = struct.unpack_from(kind, self._content, place)[0]
        return found
