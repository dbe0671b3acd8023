"""Batches that come by HTTP: checked, and put whole into the folder that a run watches."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from gofstream.errors import GofstreamError, InputError, printable
from gofstream.io.formats import opened, recognise
from gofstream.io.table import foreign
from gofstream.serve.arrow import arrow_sizes
from gofstream.serve.parquet import parquet_sizes
from gofstream.stream.directory import count_offered

#: How a kind of content is called, and how its file ends.
KINDS = {
    "application/vnd.apache.arrow.stream": ("Arrow", ".arrow"),
    "application/vnd.apache.arrow.file": ("Arrow", ".arrow"),
    "application/vnd.apache.parquet": ("Parquet", ".parquet"),
    "application/x-npy": ("NPY", ".npy"),
}
#: What a file may unpack to, in times of the largest body: zeros compress without end.
UNPACKED = 4
#: Bytes of the name of a file that a run takes.
LONGEST_FILE = 200
_ROWS = 65536
# What tells of a packed file how large it is unpacked.
_SIZES = {"Arrow": arrow_sizes, "Parquet": parquet_sizes}
# Bytes that are written at a time.
_CHUNK = 1 << 20


class RefusedError(GofstreamError):
    """A batch that is not taken, with the status that says so in HTTP."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(status, why)
        self.status = status

    def __str__(self) -> str:
        """Say why."""
        return str(self.args[1])


@dataclass(frozen=True, slots=True)
class Inbox:
    """The folder that takes batches, and how much it takes.

    Attributes
    ----------
    folder : where they wait to be learnt.
    largest : bytes of a batch.
    most : files that may wait.
    """

    folder: Path
    largest: int
    most: int

    def check_room(self) -> None:
        """Refuse what would wait behind too many others.

        Raises
        ------
        RefusedError
            429: come back later.
        """
        if (count := count_waiting(self.folder)) >= self.most:
            raise RefusedError(
                429, f"{count} batches wait already, and {self.most} may; try again later"
            )

    async def receive(self, body: AsyncIterator[bytes]) -> Path:
        """Write a body beside the batches, under a name that nobody reads.

        Raises
        ------
        RefusedError
            413, if it is too large; nothing stays of it.
        """
        partial = self.folder / f".{uuid.uuid4().hex}.partial"
        size, chunk = 0, bytearray()
        # A disk may take seconds, and nobody else would be answered: it is waited for in a thread.
        await asyncio.to_thread(partial.touch, exist_ok=False)
        try:
            async for part in body:
                size += len(part)
                if size > self.largest:
                    raise RefusedError(413, f"a batch may have {self.largest:,} bytes at most")
                chunk += part
                if len(chunk) >= _CHUNK:
                    await asyncio.to_thread(_write, partial, chunk)
                    chunk = bytearray()
            await asyncio.to_thread(_write, partial, chunk, sync=True)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        return partial

    def accept(self, partial: Path, name: str, kind: str) -> int:
        """Check what was received, and give it its name: from then on the run may take it.

        Parameters
        ----------
        partial : what `receive` gave; it is gone afterwards.
        name, kind : of the batch, and how its content is called.

        Returns
        -------
        int
            Its bytes; the file itself may be gone by then.

        Raises
        ------
        RefusedError
            If the content is not of that kind, or one of that name waits.
        """
        called, suffix = KINDS[kind]
        try:
            check_content(partial, called, UNPACKED * self.largest)
            path = self.folder / f"{name}{suffix}"
            # Whatever the ending: the run would take both for the same batch.
            if any((self.folder / f"{name}{end}").exists() for _, end in KINDS.values()):
                raise RefusedError(409, f"a batch called {name!r} waits already")
            try:
                os.link(partial, path)  # unlike renaming, this replaces no file
            except FileExistsError as error:
                raise RefusedError(409, f"a batch called {name!r} waits already") from error
            # What was announced as taken must be there after a power cut.
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
            return partial.stat().st_size
        finally:
            partial.unlink(missing_ok=True)


def count_waiting(folder: Path) -> int:
    """Count the batches that wait; not what is being written, or set aside in folders."""
    try:
        return count_offered(folder)
    except OSError:
        return 0


def _write(path: Path, content: bytearray, *, sync: bool = False) -> None:
    """Append to a file that is there, and see that all of it is on the disk if asked to."""
    # Opened anew each time: no file stays open in a thread that nobody waits for any longer.
    with path.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def check_name(name: str) -> str:
    """Refuse a name that is no plain name of a file.

    Raises
    ------
    RefusedError
        400.

    Examples
    --------
    >>> check_name("run7-0001")
    'run7-0001'
    """
    longest = LONGEST_FILE - max(len(suffix) for _, suffix in KINDS.values())
    plain = (
        name.isprintable()
        and name == name.strip()
        and not name.startswith(".")
        and not set(name) & set("/\\")
        and 0 < len(name.encode()) <= longest
    )
    if not plain:
        raise RefusedError(
            400,
            f"a batch cannot be called {printable(name[:60])!r}: give printable "
            f"characters without slashes, {longest} bytes at most, and no dot first",
        )
    return name


def check_content(path: Path, kind: str, largest: int) -> None:
    """Read a file to its end, to see that it is whole and of one kind.

    Raises
    ------
    RefusedError
        400, with the reason.
    """
    try:
        if (found := recognise(path).name) != kind:
            raise InputError(f"it is {found}, not {kind}")
        if (sizes := _SIZES.get(kind)) is not None:
            size = 0
            with foreign(path, kind):
                for more in sizes(path):
                    size += more
                    _check_unpacked(size, largest)
        with opened(path) as table:
            numbers = [name for name, column in table.columns.items() if column.dtype is not None]
            if not numbers:
                raise InputError("it has no columns of numbers")
            # What it promises before it is unpacked, and what comes out, should it promise nothing.
            _check_unpacked(8 * table.rows * len(numbers), largest)
            size = 0
            for piece in table.pieces(numbers, _ROWS):
                size += sum(column.nbytes for column in piece.values())
                _check_unpacked(size, largest)
    except GofstreamError as error:
        # The name under which it was received says nothing to the sender.
        why = str(error).replace(f"{path}: ", "").replace(str(path), "the batch")
        raise RefusedError(400, f"this cannot be taken as {kind}: {why}") from error


def _check_unpacked(size: int, largest: int) -> None:
    if size > largest:
        raise InputError(f"it unpacks to {size:,} bytes, and {largest:,} may be")
