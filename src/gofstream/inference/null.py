"""The null distribution: one file with t of every toy, statistic, width and number of batches.

Format, version 2: an SQLite file. Table `about` (key, value) holds JSON; `blocks` (width, block,
unconverged, t, sha256) holds, for each width index and block of toys, little-endian float64 numbers
in the order toy, statistic, number of batches; which statistics, stands in `about` under
`statistics`, and where it does not they are the six of eq. 4-9. If `about` has `scan`, the number
of its rule, there is one index more than widths, with the scan as its only statistic. A block is
written in one transaction, so a file is whole whatever happens to the program that writes it;
blocks that are missing can be added at any time, those of the scan to a file that was made before
there was one, or in place of those by an older rule.

Checksums: `about` has `sha256` over all its other rows, and `made_for`, a digest of the description
with which the file was made. The `sha256` of a block covers `made_for`, its two indices, its number
of fits that did not converge, and its numbers; so a block that is damaged, or of another file, is
refused.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gofstream.errors import FormatError, InputError, nearest_names
from gofstream.inference.agreement import differences
from gofstream.inference.checksums import (
    FORMAT,
    MADE_FOR,
    SHA256,
    VERSION,
    about_sum,
    block_sum,
    check_about,
    is_whole,
    obstacle,
    readable,
)
from gofstream.statistics import STATISTICS
from gofstream.toys.scanning import SCAN

Floats = NDArray[np.float64]
#: How long another program may keep a file locked.
LOCK_SECONDS = 60.0


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
        If the file is damaged, of another version, or made with something else; it says which
        field.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path = path
        self.about = {"format": FORMAT, "version": VERSION, **about}
        with readable(path), self._connect() as connection:
            self._made_for = self._open(connection)

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        opened = sqlite3.connect(self.path, timeout=LOCK_SECONDS, isolation_level=None)
        with closing(opened) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            yield connection

    def _open(self, connection: sqlite3.Connection) -> str:
        """Compare the description with that of the file, or write it; give its `made_for`."""
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT)")
        stored = dict(connection.execute("SELECT key, value FROM about"))
        if not (new := not stored):
            check_about(self.path, stored)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS blocks (width INTEGER, block INTEGER, unconverged INTEGER, "
            "t BLOB, sha256 TEXT, PRIMARY KEY (width, block))"
        )
        wanted = {key: json.dumps(value, sort_keys=True) for key, value in self.about.items()}
        rescan = stored and SCAN in wanted and _older(stored.get(SCAN), wanted[SCAN])
        if stored:
            self._compare({key: json.loads(value) for key, value in stored.items()})
        if rescan:
            which = len(self.about["widths"])
            connection.execute("DELETE FROM blocks WHERE width = ?", (which,))
            stored |= {SCAN: wanted[SCAN]}
        if not stored:
            stored = wanted | {MADE_FOR: json.dumps(about_sum(wanted))}
        stored[SHA256] = json.dumps(about_sum(stored))
        if rescan or new:
            connection.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", stored.items())
        connection.execute("COMMIT")
        return stored[MADE_FOR]

    def _compare(self, stored: Mapping[str, Any]) -> None:
        """Refuse toys that were made with other inputs."""
        newer = stored.get(SCAN, 0) > self.about.get(SCAN, stored.get(SCAN, 0))
        # An older scan is no difference: its blocks can be made anew, and the fits are kept.
        wanted = {key: value for key, value in self.about.items() if key != SCAN}
        found = differences(stored, wanted)
        if newer:
            found.append("the scan is one of a newer gofstream")
        if found:
            raise FormatError(
                f"{self.path} holds pseudo-experiments that were made with other inputs: "
                f"{'; '.join(found)}. Repeat those inputs, or make new pseudo-experiments: give "
                "another file (`null=` in Python; --null FILE or another --out on the command "
                f"line), or delete {self.path}"
            )

    def blocks(self) -> set[tuple[int, int]]:
        """Tell which (pass, block) are there: the widths, and the scan.

        Raises
        ------
        FormatError
            If the file is damaged.
        """
        with readable(self.path), self._connect() as connection:
            return set(connection.execute("SELECT width, block FROM blocks"))

    def put(self, which: int, block: int, t: Floats, unconverged: int) -> None:
        """Keep one block, for good once this returns.

        Raises
        ------
        OSError
            If it cannot be written, as on a full disk; the file stays as it was.
        """
        data = np.ascontiguousarray(t, dtype="<f8").tobytes()
        row = (which, block, unconverged, data)
        try:
            with self._connect() as connection:
                connection.execute(
                    "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?, ?)",
                    (*row, block_sum(self._made_for, row)),
                )
        except sqlite3.DatabaseError as error:
            advice = obstacle(self.path, error) or f"cannot be written ({error})"
            raise OSError(f"{self.path} {advice}") from error

    def load(self, toys: int) -> NullTable:
        """Read the first ``toys`` toys at all widths.

        Raises
        ------
        FormatError
            If a block is missing or damaged; it says which.
        """
        widths, names = len(self.about["widths"]), statistics_in(self.about)
        with readable(self.path), self._connect() as connection:
            passes = [
                self._pass(connection, which, toys, len(names) if which < widths else 1)
                for which in range(widths + (SCAN in self.about))
            ]
        t = np.stack([part for part, _ in passes[:widths]], axis=2)
        scan = passes[widths][0][:, 0] if SCAN in self.about else None
        return NullTable(t, self.about, sum(missed for _, missed in passes[:widths]), scan)

    def _pass(
        self, connection: sqlite3.Connection, which: int, toys: int, statistics: int
    ) -> tuple[Floats, int]:
        """Read toys of one width, or of the scan: (toys, statistics, N_b), and fits that failed."""
        size, batches = int(self.about["toys_per_block"]), len(self.about["expected"])
        parts, unconverged = [], 0
        for block in range(-(-toys // size)):
            row = connection.execute(
                "SELECT width, block, unconverged, t, sha256 FROM blocks "
                "WHERE width = ? AND block = ?",
                (which, block),
            ).fetchone()
            if row is None:
                raise FormatError(
                    f"{self.path}: {self._name(which, block)} is missing; run the calibration "
                    "again to complete it"
                )
            length = 8 * size * statistics * batches
            if row[:2] != (which, block) or not is_whole(self._made_for, row, length):
                raise FormatError(
                    f"{self.path}: {self._name(which, block)} is damaged (its SHA-256 does not "
                    "match); restore a copy of the file, or delete it to make the toys anew"
                )
            values = np.frombuffer(row[3], dtype="<f8")
            parts.append(values.reshape(size, statistics, batches))
            unconverged += row[2]
        return np.concatenate(parts)[:toys], unconverged

    def _name(self, which: int, block: int) -> str:
        return f"block {block} of {_pass_name(which, len(self.about['widths']))}"


def _pass_name(which: int, widths: int) -> str:
    return f"width {which}" if which < widths else "the scan"


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
            stored = dict(file.execute("SELECT key, value FROM about"))
            check_about(path, stored)
            blocks: Counter[int] = Counter()
            for row in file.execute("SELECT width, block, unconverged, t, sha256 FROM blocks"):
                if not is_whole(stored[MADE_FOR], row):
                    name = _pass_name(row[0], len(json.loads(stored["widths"])))
                    raise ValueError(f"block {row[1]} of {name} is damaged")
                blocks[row[0]] += 1
        about = {
            key: json.loads(value) for key, value in stored.items() if key not in (MADE_FOR, SHA256)
        }
        passes = len(about["widths"]) + (SCAN in about)
        fewest = min(blocks[which] for which in range(passes))
        return about | {"toys": fewest * int(about["toys_per_block"])}
    except (sqlite3.DatabaseError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path} is not a whole null file ({error}); make it anew") from error
