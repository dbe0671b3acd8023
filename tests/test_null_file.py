"""The null file under damage: every flipped bit and every cut changes nothing, or is refused."""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from gofstream.errors import FormatError, InputError
from gofstream.execution import thread_workers
from gofstream.inference.calibrate import calibrate
from gofstream.inference.null import NullFile, NullTable, describe_null
from gofstream.toys.plan import ReferencePlan
from test_farm import small_plan

TOYS = 16


@pytest.fixture(scope="module")
def plan() -> ReferencePlan:
    """Plan toys of four batches at two widths."""
    return small_plan()


@pytest.fixture(scope="module")
def whole(plan: ReferencePlan, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Make a null file, and give its bytes."""
    path = tmp_path_factory.mktemp("null") / "a.null"
    read(plan, path)
    return path.read_bytes()


def read(plan: ReferencePlan, path: Path) -> NullTable:
    """Make what is missing, and read all toys."""
    with thread_workers(1) as executor:
        return calibrate(plan, TOYS, path, executor).table


def numbers(table: NullTable) -> tuple[bytes, bytes, int]:
    """Give all that is read from a file."""
    assert table.scan is not None
    return table.t.tobytes(), table.scan.tobytes(), table.unconverged


def count_damage(plan: ReferencePlan, whole: bytes, path: Path, flips: int, cuts: int) -> int:
    """Flip single bits and cut the file; count what was refused. All else must change nothing."""
    path.write_bytes(whole)
    wanted, described = numbers(read(plan, path)), describe_null(path)
    rng, refused = random.Random(3), 0
    written = [place for place, byte in enumerate(whole) if byte]
    for number in range(flips + cuts):
        damaged = bytearray(whole)
        if number < flips:  # every other one in a byte that holds something
            place = rng.choice(written) if number % 2 else rng.randrange(len(whole))
            damaged[place] ^= 1 << rng.randrange(8)
        else:
            del damaged[rng.randrange(len(whole)) :]
        path.write_bytes(damaged)
        with suppress(FormatError):
            assert describe_null(path) == described
        try:
            found = numbers(read(plan, path))
        except (FormatError, InputError):  # a bit may say that the file must not be written
            refused += 1
        else:
            assert found == wanted
    return refused


def test_damage_is_refused_or_changes_nothing(
    plan: ReferencePlan, whole: bytes, tmp_path: Path
) -> None:
    """60 bits and 10 cuts."""
    assert count_damage(plan, whole, tmp_path / "d.null", 60, 10) > 35


@pytest.mark.slow
def test_much_damage(plan: ReferencePlan, whole: bytes, tmp_path: Path) -> None:
    """1000 bits and 200 cuts."""
    assert count_damage(plan, whole, tmp_path / "d.null", 1000, 0) > 500
    assert count_damage(plan, whole, tmp_path / "d.null", 0, 200) > 150


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("UPDATE blocks SET unconverged = 1 WHERE width = 1 AND block = 1", "block 1 of width 1"),
        ("UPDATE blocks SET t = zeroblob(length(t)) WHERE width = 2", "block 0 of the scan"),
        ("UPDATE blocks SET sha256 = NULL WHERE width = 0", "block 0 of width 0"),
        ("UPDATE blocks SET t = 'text' WHERE width = 0 AND block = 1", "block 1 of width 0"),
        ("UPDATE blocks SET block = 1 - block + 10 WHERE width = 1", "block 0 of width 1"),
    ],
)
def test_the_damaged_block_is_named(
    plan: ReferencePlan, whole: bytes, tmp_path: Path, change: str, name: str
) -> None:
    """A changed count, number, checksum, type or place; the last two blocks exchange theirs."""
    path = tmp_path / "d.null"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(change)
        connection.execute("UPDATE blocks SET block = block - 10 WHERE block >= 10")
    with pytest.raises(FormatError, match=rf"d\.null: {name} is damaged \(its SHA-256"):
        read(plan, path)
    with pytest.raises(FormatError, match=r"d\.null is not a whole null file.*is damaged"):
        describe_null(path)


def test_a_changed_description_is_refused(
    plan: ReferencePlan, whole: bytes, tmp_path: Path
) -> None:
    """Also where nothing compares it: a key that is added, or one that only `inspect` shows."""
    path = tmp_path / "d.null"
    for change in (
        "INSERT INTO about VALUES ('note', '1')",
        "UPDATE about SET value = '\"another\"' WHERE key = 'source'",
        "UPDATE about SET value = '\"0\"' WHERE key = 'made_for'",
        "DELETE FROM about WHERE key = 'sha256'",
        "INSERT INTO about VALUES ('note', x'00')",
        "INSERT INTO about VALUES (NULL, '1')",
    ):
        path.write_bytes(whole)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(change)
        for use in (lambda: read(plan, path), lambda: describe_null(path)):
            with pytest.raises(FormatError, match=r"d\.null: the description .* is damaged"):
                use()


def test_blocks_of_another_file_are_refused(plan: ReferencePlan, tmp_path: Path) -> None:
    """Where the description was lost, a new one is written; the old blocks do not belong to it."""
    path, other = tmp_path / "d.null", small_plan(seed=2)
    read(other, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM about")
    with pytest.raises(FormatError, match="block 0 of width 0 is damaged"):
        read(plan, path)


def test_files_without_checksums_are_refused(plan: ReferencePlan, tmp_path: Path) -> None:
    """The text says that an earlier version wrote them, and what to do; nothing is changed."""
    path = tmp_path / "old.null"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT)")
        connection.execute("CREATE TABLE blocks (width INTEGER, block INTEGER, t BLOB)")
        about = {"format": "gofstream.null", "version": 1, **plan.about()}
        connection.executemany(
            "INSERT INTO about VALUES (?, ?)", [(k, json.dumps(v)) for k, v in about.items()]
        )
    before = path.read_bytes()
    for use in (lambda: NullFile(path, plan.about()), lambda: describe_null(path)):
        with pytest.raises(FormatError, match=r"old\.null was written by an earlier gofstream"):
            use()
    assert path.read_bytes() == before


def test_checksums_as_documented(plan: ReferencePlan, whole: bytes, tmp_path: Path) -> None:
    """By hand, from the description of the format."""
    path = tmp_path / "a.null"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as connection:
        about = dict(connection.execute("SELECT key, value FROM about"))
        blocks = connection.execute("SELECT * FROM blocks").fetchall()
    digest = json.loads(about.pop("sha256"))
    text = json.dumps(about, sort_keys=True)
    assert digest == hashlib.sha256(text.encode()).hexdigest()
    assert len(blocks) == 3 * 2
    for width, block, unconverged, t, found in blocks:
        head = f"{about['made_for']} {width} {block} {unconverged} ".encode()
        assert found == hashlib.sha256(head + t).hexdigest()
        assert len(np.frombuffer(t, "<f8")) == 8 * (6 if width < 2 else 1) * 4
