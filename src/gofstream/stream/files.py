"""Where a store lies: how its disk is used safely, and what the disk's troubles are called."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

from gofstream.errors import FormatError, GofstreamError, InputError, StoppedError

#: File systems of one machine, where processes can share the memory that a write-ahead log needs.
LOCAL = frozenset(
    {"btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "tmpfs", "xfs", "zfs"}
)
#: File systems on which two machines do not see each other's locks.
WITHOUT_LOCKS = frozenset({"afs", "fuse.eosxd", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"})
#: Seconds to wait for another process to finish its transaction.
PATIENCE = 30.0

_INTERRUPTED = (sqlite3.SQLITE_READONLY_ROLLBACK, sqlite3.SQLITE_READONLY_RECOVERY)
_LACKS = {
    sqlite3.SQLITE_FULL: "make room on its disk",
    sqlite3.SQLITE_IOERR: "look after its disk",
    sqlite3.SQLITE_BUSY: "another process is using it; wait for it, or stop it",
    sqlite3.SQLITE_LOCKED: "another process is using it; wait for it, or stop it",
    sqlite3.SQLITE_PROTOCOL: "another process is using it; wait for it, or stop it",
    sqlite3.SQLITE_READONLY: "check the permissions of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "check the permissions of the file and its folder",
    sqlite3.SQLITE_PERM: "check the permissions of the file and its folder",
    sqlite3.SQLITE_NOMEM: "make memory free",
    sqlite3.SQLITE_INTERRUPT: "try again",
}


def journal(path: Path, mounts: Path = Path("/proc/self/mounts")) -> Literal["WAL", "DELETE"]:
    """Choose how SQLite makes transactions safe on the file system that holds a file.

    A write-ahead log lets others read while one writes, but its readers and writers share memory,
    so it is chosen only where the file system is known to be local.

    Parameters
    ----------
    path : the file, which need not exist.
    mounts : the system's list of file systems.

    Raises
    ------
    StoppedError
        If two machines that opened the file would not see each other's locks.

    Examples
    --------
    >>> journal(Path("/run/store.gofs"), mounts=Path("/no/such/list"))
    'DELETE'
    """
    kind = _file_system(path.absolute().parent, mounts)
    if kind in WITHOUT_LOCKS:
        raise StoppedError(
            f"{path} lies on a file system ({kind}) without locks between machines, where two "
            "writers would ruin it; keep the store on a local disk and copy backups there"
        )
    return "WAL" if kind in LOCAL else "DELETE"


def _file_system(folder: Path, mounts: Path) -> str:
    """Find the type of the innermost mount that holds a folder; the last of equals is on top."""
    best, found = -1, "unknown"
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return found
    place = Path(os.path.realpath(folder))
    for line in lines:
        point, kind = line.split(" ")[1:3]
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point)
        if place.is_relative_to(point) and len(Path(point).parts) >= best:
            best, found = len(Path(point).parts), kind
    return found


def connect(path: Path, mode: Literal["ro", "rw", "rwc"]) -> sqlite3.Connection:
    """Open an SQLite file; transactions are begun and ended by hand."""
    if sqlite3.sqlite_version_info < (3, 37):
        raise GofstreamError(
            f"a store needs SQLite 3.37 or newer, and this Python has {sqlite3.sqlite_version}; "
            "use a newer Python"
        )
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)


def finish_interrupted(path: Path) -> None:
    """Let SQLite undo what a killed writer had half done, which a reader may not do."""
    with closing(connect(path, "ro")) as db:
        try:
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode not in _INTERRUPTED:
                raise
    with closing(connect(path, "rw")) as db:
        db.execute("SELECT count(*) FROM sqlite_schema").fetchone()


@contextmanager
def troubles(path: Path, what: str) -> Iterator[None]:
    """Turn what SQLite and the disk may raise into errors that say what, where and what to do.

    Parameters
    ----------
    path : the store.
    what : what is being done, to follow the path and "cannot": "be read at batch 3".

    Raises
    ------
    StoppedError
        If something is lacking: room, permission, a working disk, a lock.
    FormatError
        If the file is damaged.
    """
    try:
        yield
    except sqlite3.Error as error:
        # The low byte says what it is, the others which call it came from.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if advice := _LACKS.get(code):
            raise StoppedError(f"{path} cannot {what} ({error}); {advice}") from error
        raise _damaged(path, what, error) from error
    except UnicodeDecodeError as error:  # SQLite's own message quotes bytes that are no text
        raise _damaged(path, what, error) from error
    except OSError as error:
        raise StoppedError(
            f"{path} cannot {what} ({error.strerror or error}); make room, or give another place"
        ) from error


def _damaged(path: Path, what: str, error: Exception) -> FormatError:
    return FormatError(
        f"{path} cannot {what} ({error}): it or its disk is damaged, or it is no store of "
        "gofstream; restore a backup"
    )


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Give a name beside ``path`` to write to; the file takes its own name once it is whole.

    Raises
    ------
    InputError
        If there is one of that name; it stays as it is.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.link(partial, path)  # unlike renaming, this replaces no file
        folder = os.open(path.absolute().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError as error:
        raise InputError(f"{path} is there already; give another name") from error
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            partial.with_name(partial.name + suffix).unlink(missing_ok=True)
