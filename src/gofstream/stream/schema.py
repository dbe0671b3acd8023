"""The tables of a store, the steps from one version of them to the next, and their seal.

docs/reference/store.md describes them for those who read a store with plain SQL.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import astuple, fields, replace
from pathlib import Path

from gofstream.errors import FormatError
from gofstream.stream.rows import Head, seal

#: "gofs", as `file` and SQLite's own tools see it.
APPLICATION_ID = 0x676F6673

TABLES = (
    "about",
    "alarms",
    "checkpoint",
    "events",
    "head",
    "ledger",
    "models",
    "scan",
    "statistics",
)

#: The columns of the head, in the order of `Head`.
HEAD = ", ".join(field.name for field in fields(Head))

#: Step k leads from version k to version k + 1; a new store takes all of them.
STEPS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE about (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL -- JSON
) STRICT, WITHOUT ROWID""",
        """CREATE TABLE head (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  batches INTEGER NOT NULL,
  chain BLOB NOT NULL,
  dropped INTEGER NOT NULL,
  model_bytes INTEGER NOT NULL,
  kept INTEGER NOT NULL,
  event_bytes INTEGER NOT NULL,
  alarms INTEGER NOT NULL,
  checkpoint INTEGER NOT NULL,
  arrays INTEGER NOT NULL,
  about BLOB NOT NULL,
  seal BLOB NOT NULL
) STRICT""",
        """CREATE TABLE ledger (
  batch INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  digest TEXT NOT NULL,
  arrived REAL NOT NULL, -- seconds since 1970, UTC
  events INTEGER NOT NULL,
  expected REAL NOT NULL,
  state TEXT NOT NULL,
  note TEXT NOT NULL,
  models_sha256 BLOB,
  events_sha256 BLOB,
  seal BLOB NOT NULL
) STRICT""",
        """CREATE TABLE statistics (
  batch INTEGER NOT NULL,
  family TEXT NOT NULL,
  width INTEGER NOT NULL,
  t REAL NOT NULL,
  u REAL,
  PRIMARY KEY (batch, family, width)
) STRICT, WITHOUT ROWID""",
        """CREATE TABLE models (
  batch INTEGER NOT NULL,
  width INTEGER NOT NULL,
  sha256 BLOB NOT NULL,
  data BLOB NOT NULL,
  scores BLOB NOT NULL, -- float64
  PRIMARY KEY (batch, width)
) STRICT""",
        """CREATE TABLE events (
  batch INTEGER PRIMARY KEY,
  sha256 BLOB NOT NULL,
  data BLOB NOT NULL
) STRICT""",
        """CREATE TABLE alarms (
  batch INTEGER PRIMARY KEY,
  family TEXT NOT NULL,
  width INTEGER NOT NULL,
  u REAL NOT NULL,
  boundary REAL NOT NULL,
  since INTEGER NOT NULL,
  acknowledged REAL, -- seconds since 1970, UTC
  by TEXT NOT NULL,
  seal BLOB NOT NULL
) STRICT""",
        """CREATE TABLE checkpoint (
  name TEXT NOT NULL,
  width INTEGER NOT NULL,
  batch INTEGER NOT NULL,
  data BLOB NOT NULL,
  seal BLOB NOT NULL,
  PRIMARY KEY (name, width)
) STRICT""",
    ),
    (
        """CREATE TABLE scan (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  batch INTEGER NOT NULL,
  epoch BLOB NOT NULL,
  run BLOB NOT NULL,
  windows TEXT NOT NULL, -- JSON
  seal BLOB NOT NULL
) STRICT""",
    ),
)


def make(db: sqlite3.Connection, about: Mapping[str, str]) -> None:
    """Fill an empty database: tables, what the run is about (JSON by key), no batches."""
    db.execute("PRAGMA synchronous = FULL")
    db.execute("BEGIN IMMEDIATE")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    _step(db, 0)
    db.executemany("INSERT INTO about VALUES (?, ?)", about.items())
    write_head(db, Head(0, bytes(32), 0, 0, 0, 0, 0, 0, 0, about_seal(db)))
    db.execute("COMMIT")


def version(db: sqlite3.Connection, path: Path) -> int:
    """Give the version of a store's tables.

    Raises
    ------
    FormatError
        If it is no store, or one of a newer gofstream.
    """
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise FormatError(f"{path} is not a store of gofstream, or is damaged; give another file")
    if found > len(STEPS):
        raise FormatError(
            f"{path} has version {found}, but this gofstream reads stores up to version "
            f"{len(STEPS)}; use the gofstream that wrote it, or a newer one"
        )
    return int(found)


def migrate(db: sqlite3.Connection, head: Head, found: int) -> None:
    """Bring the tables from an older version to this one, in the caller's transaction."""
    _step(db, found)
    write_head(db, replace(head, about=about_seal(db)))


def _step(db: sqlite3.Connection, found: int) -> None:
    for step in STEPS[found:]:
        for statement in step:
            db.execute(statement)
    db.execute(f"PRAGMA user_version = {len(STEPS)}")


def write_head(db: sqlite3.Connection, head: Head) -> None:
    """Put the head in the place of the one before."""
    values = astuple(head)
    db.execute(
        f"INSERT OR REPLACE INTO head (one, {HEAD}, seal) VALUES (1{', ?' * (len(values) + 1)})",
        (*values, seal("head", *values)),
    )


def about_seal(db: sqlite3.Connection) -> bytes:
    """Seal what never changes in a run: what it is about, and the tables and their version."""
    (number,) = db.execute("PRAGMA user_version").fetchone()
    tables = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    about = db.execute("SELECT key, value FROM about ORDER BY key").fetchall()
    return seal("about", number, [row for row in tables if row[0] in TABLES], about)
