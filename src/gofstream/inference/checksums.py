"""Checksums of the null file, and what is refused: its format is described in `null`."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gofstream.errors import FormatError, InputError, short

FORMAT = "gofstream.null"
VERSION = 2
#: Keys of `about` that the file makes itself.
MADE_FOR, SHA256 = "made_for", "sha256"


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what SQLite says of a file that it cannot use into an error that says what to do."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if advice := obstacle(path, error):
            raise InputError(f"{path} {advice}") from error
        raise FormatError(
            f"{path} cannot be used as a null file ({error}); move it away, or give another name"
        ) from error


def obstacle(path: Path, error: Exception) -> str:
    """Say what keeps a file from being used, and what to do; nothing if it is the file itself."""
    # The last byte is the kind; the others are details.
    kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "is in use by another program; wait until that ends, or give another file"
    if kind == sqlite3.SQLITE_FULL:
        return f"cannot be written ({error}); make room for it"
    if kind in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return "cannot be written; allow it (chmod u+w), or copy the file and give the copy"
    if kind != sqlite3.SQLITE_CANTOPEN:
        return ""
    if path.is_dir():
        return "is a folder; give a file in it"
    if not path.parent.exists():
        return f"cannot be made: there is no folder {path.parent}; make it, or give another file"
    return "cannot be opened; check who may read and write it and its folder"


def check_about(path: Path, stored: Mapping[str, str]) -> None:
    """Refuse a description that is damaged, or of another version of the format."""
    if stored.get("format") == json.dumps(FORMAT) and stored.get("version") == "1":
        raise FormatError(
            f"{path} was written by an earlier gofstream, without checksums (version 1 of the "
            "format); move it away, and make the toys anew"
        )
    for key, value in (("format", FORMAT), ("version", VERSION)):
        if stored.get(key) != json.dumps(value):
            raise FormatError(
                f"{path} has {key} {short(stored.get(key))}, and this gofstream reads "
                f"{json.dumps(value)}; use the gofstream that wrote it, or give another file"
            )
    # A damaged file may hold other types.
    plain = all(isinstance(item, str) for row in stored.items() for item in row)
    if not plain or MADE_FOR not in stored or stored.get(SHA256) != json.dumps(about_sum(stored)):
        raise FormatError(
            f"{path}: the description of its toys (table `about`) is damaged: its SHA-256 does "
            "not match; restore a copy of the file, or delete it to make the toys anew"
        )


def about_sum(rows: Mapping[str, str]) -> str:
    """Digest a description, but for its own checksum."""
    rows = {key: value for key, value in rows.items() if key != SHA256}
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def block_sum(made_for: str, row: tuple[int, int, int, bytes]) -> str:
    """Digest a block, and what it belongs to."""
    which, block, unconverged, data = row
    head = f"{made_for} {which} {block} {unconverged} "
    return hashlib.sha256(head.encode() + data).hexdigest()


def is_whole(made_for: str, row: tuple[Any, ...], length: int | None = None) -> bool:
    """Tell whether a row of `blocks` is as it was written, and of the right length."""
    which, block, unconverged, data, digest = row
    if not (isinstance(data, bytes) and all(isinstance(n, int) for n in row[:3])):
        return False
    right_length = length is None or len(data) == length
    return right_length and digest == block_sum(made_for, (which, block, unconverged, data))
