"""The null distribution: one file with t of every toy, statistic, width and number of batches.

Format, version 1: an SQLite file. Table `about` (key, value) holds JSON; `blocks` (width, block,
unconverged, t) holds, for each width index and block of toys, little-endian float64 numbers in the
order toy, statistic, number of batches; which statistics, stands in `about` under `statistics`, and
where it does not they are the six of METHOD §3. If `about` has `scan`, the number of its rule,
there is one index more than widths, with the scan as its only statistic. A block is written in one
transaction, so a file is whole whatever happens to the program that writes it; blocks that are
missing can be added at any time, those of the scan to a file that was made before there was one, or
in place of those by an older rule.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import FormatError, InputError, nearest_names, short
from gofstream.statistics import STATISTICS
from gofstream.toys.scanning import SCAN

Floats = NDArray[np.float64]

FORMAT = "gofstream.null"
VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class NullTable:
    """Toys in memory.

    Attributes
    ----------
    t : (B, statistics, widths, N_b).
    about : what the toys were made with.
    unconverged : fits that did not converge.
    scan : (B, N_b) the statistic that has no width, if it was made.
    """

    t: Floats
    about: Mapping[str, Any]
    unconverged: int
    scan: Floats | None = None

    @property
    def names(self) -> list[str]:
        """The statistics, in their order."""
        return statistics_in(self.about) + ([] if self.scan is None else [SCAN])

    def statistic(self, name: str, batches: int | None = None) -> Floats:
        """Values of one statistic after so many batches (default: all): (B, widths).

        The scan has no width, and one column.

        Raises
        ------
        InputError
            If there is no such statistic, or no such number of batches.
        """
        if name not in self.names:
            raise InputError(f"no statistic is called {name!r}; {nearest_names(name, self.names)}")
        after = self.t.shape[3] if batches is None else batches
        if not 1 <= after <= self.t.shape[3]:
            raise InputError(f"batches is {after}; these toys have 1 to {self.t.shape[3]}")
        if name == SCAN and self.scan is not None:
            return self.scan[:, after - 1 : after]
        return np.asarray(self.t[:, self.names.index(name), :, after - 1])


def statistics_in(about: Mapping[str, Any]) -> list[str]:
    """Name the statistics of a null that have a width, in their order.

    Examples
    --------
    >>> statistics_in({"widths": [0.7]})
    ['single', 'sum', 'all', 'one', 'sat', 'next']
    """
    return list(about.get("statistics", STATISTICS))


class NullFile:
    """A null on disk, growing block by block.

    Parameters
    ----------
    path : the file; made if it does not exist.
    about : what decides the numbers; must agree with what the file says.

    Raises
    ------
    FormatError
        If the file is damaged, of a newer format, or made with something else; it says which field.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path = path
        self.about = {"format": FORMAT, "version": VERSION, **about}
        try:
            with self._connect() as connection:
                self._open(connection)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise FormatError(
                f"{self.path} cannot be used as a null file ({error}); move it away, or give "
                "another name"
            ) from error

    def _connect(self) -> closing[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        return closing(connection)

    def _open(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT)")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS blocks (width INTEGER, block INTEGER, unconverged INTEGER, "
            "t BLOB, PRIMARY KEY (width, block))"
        )
        stored = dict(connection.execute("SELECT key, value FROM about"))
        wanted = {key: json.dumps(value, sort_keys=True) for key, value in self.about.items()}
        rescan = stored and SCAN in wanted and _older(stored.get(SCAN), wanted[SCAN])
        for key in ("format", "version", *wanted) if stored else ():
            if key == SCAN and rescan:
                continue  # from before this scan: its blocks can be made, and the fits are kept
            if stored.get(key) != wanted[key]:
                raise FormatError(
                    f"{self.path} was made with another {key}: {short(stored.get(key))} there, "
                    f"{short(wanted[key])} here; give another file, or make this one anew"
                )
        if rescan:
            which = len(self.about["widths"])
            connection.execute("DELETE FROM blocks WHERE width = ?", (which,))
            connection.execute("DELETE FROM about WHERE key = ?", (SCAN,))
        new = {key: value for key, value in wanted.items() if key not in stored or key == SCAN}
        connection.executemany("INSERT OR IGNORE INTO about VALUES (?, ?)", new.items())
        connection.execute("COMMIT")

    def blocks(self) -> set[tuple[int, int]]:
        """Tell which (pass, block) are there: the widths, and the scan."""
        with self._connect() as connection:
            return set(connection.execute("SELECT width, block FROM blocks"))

    def put(self, which: int, block: int, t: Floats, unconverged: int) -> None:
        """Keep one block, for good once this returns.

        Raises
        ------
        OSError
            If it cannot be written, as on a full disk; the file stays as it was.
        """
        data = np.ascontiguousarray(t, dtype="<f8").tobytes()
        try:
            with self._connect() as connection:
                connection.execute(
                    "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?)",
                    (which, block, unconverged, data),
                )
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path} cannot be written ({error}); make room for it") from error

    def load(self, toys: int) -> NullTable:
        """Read the first ``toys`` toys at all widths.

        Raises
        ------
        FormatError
            If a block is missing or of the wrong length.
        """
        widths, names = len(self.about["widths"]), statistics_in(self.about)
        parts, missed = zip(
            *(self._pass(which, toys, len(names)) for which in range(widths)), strict=True
        )
        scan = self._pass(widths, toys, 1)[0][:, 0] if SCAN in self.about else None
        return NullTable(np.stack(parts, axis=2), self.about, sum(missed), scan)

    def _pass(self, which: int, toys: int, statistics: int) -> tuple[Floats, int]:
        """Read toys of one width, or of the scan: (toys, statistics, N_b), and fits that failed."""
        size, batches = int(self.about["toys_per_block"]), len(self.about["expected"])
        parts, unconverged = [], 0
        with self._connect() as connection:
            for block in range(-(-toys // size)):
                row = connection.execute(
                    "SELECT unconverged, t FROM blocks WHERE width = ? AND block = ?",
                    (which, block),
                ).fetchone()
                if row is None or len(row[1]) != 8 * size * statistics * batches:
                    state = "missing" if row is None else "damaged"
                    where = f"width {which}" if which < len(self.about["widths"]) else "the scan"
                    raise FormatError(
                        f"{self.path}: block {block} of {where} is {state}; run the calibration "
                        "again to complete it"
                    )
                values = np.frombuffer(row[1], dtype="<f8")
                parts.append(values.reshape(size, statistics, batches))
                unconverged += row[0]
        return np.concatenate(parts)[:toys], unconverged


def _older(stored: str | None, wanted: str) -> bool:
    """Tell whether a file has no scan, or one by an older rule."""
    return stored is None or (stored.isdecimal() and int(stored) < int(wanted))


def describe_null(path: Path) -> dict[str, Any]:
    """Tell what a null file was made with, and how many toys it holds at every width.

    Raises
    ------
    FormatError
        If it is damaged, or not a null file.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            if file.execute("PRAGMA quick_check").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("its pages contradict each other")
            about = {
                key: json.loads(value)
                for key, value in file.execute("SELECT key, value FROM about")
            }
            blocks = dict(file.execute("SELECT width, count(*) FROM blocks GROUP BY width"))
        if about["format"] != FORMAT:
            raise KeyError("format")
        passes = len(about["widths"]) + (SCAN in about)
        fewest = min(blocks.get(which, 0) for which in range(passes))
        return about | {"toys": fewest * int(about["toys_per_block"])}
    except (sqlite3.DatabaseError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path} is not a whole null file ({error}); make it anew") from error
