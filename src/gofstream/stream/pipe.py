"""Batches from standard input: Arrow streams, each behind its length.

A pipe has no memory, and nobody at its other end to ask again. So what comes out of it goes
into the inbox, whole and for good, before more is read; there it is a batch like any other.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from gofstream.errors import InputError, StoppedError, printable
from gofstream.io.table import foreign
from gofstream.stream.directory import count_offered
from gofstream.stream.files import appearing, troubles
from gofstream.stream.names import BatchName

#: Where a frame says what its batch is called, in the metadata of its schema.
NAME = b"gofstream.name"
_LENGTH = 8
_PART = 1 << 20
# Seconds between looks whether to stop.
_LOOK = 0.1
# Bytes; the file system wants 255 at most, with an ending and a number of a process.
_LONGEST = 200


class ByteStream(Protocol):
    """What frames are read from: any binary file."""

    def read(self, size: int, /) -> bytes:
        """Give at most so many bytes; none at the end."""


class InterruptibleInput:
    """A pipe whose reader can be told to stop while it waits.

    A thread that waits in `sys.stdin.buffer` holds a lock which Python needs to end.

    Parameters
    ----------
    file : number of the open file, such as ``sys.stdin.fileno()``.
    stop : ends the waiting when it is set.
    """

    def __init__(self, file: int, stop: threading.Event) -> None:
        self.file = file
        self.stop = stop

    def read(self, size: int, /) -> bytes:
        """Give at most so many bytes, as soon as there are any.

        Raises
        ------
        StoppedError
            If it was told to stop, or the input cannot be read.
        """
        while not self.stop.is_set():
            try:
                if select.select([self.file], [], [], _LOOK)[0]:
                    return os.read(self.file, size)
            except OSError as error:
                raise StoppedError(f"the input cannot be read ({error.strerror})") from error
        raise StoppedError("the input was not read to its end; send the rest again")


class Frame(NamedTuple):
    """An Arrow stream from a pipe: its place, counted from 1, the name of its batch, its bytes."""

    number: int
    name: str
    content: bytes


def frames(stream: ByteStream, largest: int = 256 * 1024**2) -> Iterator[Frame]:
    """Read frames until the stream ends: a length of 8 bytes, little-endian, then that many bytes.

    Parameters
    ----------
    stream : standard input, say.
    largest : bytes that a frame may have.

    Raises
    ------
    InputError
        If a frame is cut short, too large, or no Arrow stream, or if its name cannot be used; it
        says which frame. All before it were given.

    Examples
    --------
    >>> import io, pyarrow as pa
    >>> table = pa.table({"x": [1.0, 2.0]}).replace_schema_metadata({"gofstream.name": "run7-0001"})
    >>> sink = io.BytesIO()
    >>> with pa.ipc.new_stream(sink, table.schema) as writer:
    ...     writer.write_table(table)
    >>> content = sink.getvalue()
    >>> pipe = io.BytesIO(len(content).to_bytes(8, "little") + content)
    >>> [(frame.number, frame.name) for frame in frames(pipe)]
    [(1, 'run7-0001')]
    """
    number = 1
    while head := _read(stream, _LENGTH):
        where = f"frame {number} of the input"
        size = int.from_bytes(head, "little")
        if len(head) < _LENGTH:
            raise InputError(f"{where}: ends within its length; the writer has stopped: send again")
        if not 0 < size <= largest:
            raise InputError(
                f"{where}: promises {size} bytes, and may have 1 to {largest}; each frame is a "
                "length of 8 bytes, little-endian, and an Arrow stream of that length"
            )
        content = _read(stream, size)
        if len(content) < size:
            raise InputError(
                f"{where}: ends after {len(content)} of {size} bytes; the writer has stopped: send "
                "it again"
            )
        yield Frame(number, _name(content, number, where), content)
        number += 1


def spool(
    stream: ByteStream,
    inbox: Path,
    *,
    room: int = 100,
    largest: int = 256 * 1024**2,
    stop: threading.Event | None = None,
) -> int:
    """Put frames into an inbox until the stream ends, and give their number.

    While `room` files wait there nothing is read, so that a writer that is too fast has to wait.

    Parameters
    ----------
    stream, largest : as for `frames`.
    inbox : the folder that an `Inbox` watches.
    room : files that may wait.
    stop : set it to end between two frames.

    Raises
    ------
    InputError
        As `frames`, and if another batch of the same name is waiting.
    StoppedError
        If the inbox cannot be written.
    """
    stop = stop or threading.Event()
    number = 0
    for number, name, content in frames(stream, largest):
        with troubles(inbox, f"take frame {number} of the input"):
            while count_offered(inbox) >= room and not stop.wait(0.05):
                pass
            deliver(inbox, f"{name}.arrows", content)
        if stop.is_set():
            break
    return number


def deliver(inbox: Path, name: str, content: bytes) -> None:
    r"""Put a file into an inbox, whole and for good, if it is not there already.

    Parameters
    ----------
    inbox : the folder.
    name : that of the file, with its ending.
    content : its bytes.

    Raises
    ------
    InputError
        If another file of that name is waiting there.
    OSError
        If it cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> deliver(folder, "run7-0001.csv", b"x,y\n1,2\n")
    >>> [path.name for path in folder.iterdir()]
    ['run7-0001.csv']
    """
    path = inbox / name
    try:
        with appearing(path) as partial, partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except InputError:
        try:
            same = path.read_bytes() == content
        except FileNotFoundError:  # it was taken meanwhile
            return deliver(inbox, name, content)
        if not same:
            raise


def _read(stream: ByteStream, size: int) -> bytes:
    """Read so many bytes, fewer only at the end; room is made for those that come."""
    content = bytearray()
    while len(content) < size and (part := stream.read(min(size - len(content), _PART))):
        content += part
    return bytes(content)


def _name(content: bytes, number: int, where: str) -> str:
    from pyarrow import ipc

    with foreign(Path(where), "an Arrow stream"):
        noted = (ipc.open_stream(content).schema.metadata or {}).get(NAME)
    if noted is None:
        return f"stdin-{number:07d}"
    name = noted.decode(errors="surrogateescape")
    try:
        BatchName(name)
        if "/" in name or name.startswith(".") or len(noted) > _LONGEST:
            raise InputError(
                f"{printable(name)!r} cannot be the name of a file: leave out slashes and a dot at "
                f"its beginning, and take at most {_LONGEST} bytes"
            )
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    return name
