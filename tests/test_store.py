"""The store of a run: what goes in comes out, once, or is refused with a reason."""

from __future__ import annotations

import hashlib
import math
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gofstream.errors import (
    FormatError,
    IdentityError,
    InputError,
    SettingsError,
    StoppedError,
)
from gofstream.stream import files, schema
from gofstream.stream.reader import Reader, Sealed
from gofstream.stream.rows import RUN_SCAN, Alarm, Entry, Retention, ScanRow, Statistic
from gofstream.stream.store import Receipt, Store
from gofstream.stream.verify import verify
from gofstream_studies.chaos.judge import everything
from gofstream_studies.chaos.writer import ABOUT, RETENTION, made

ROOT = Path(__file__).parents[1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the name of a store that is not there yet."""
    return tmp_path / "run #1?.gofs"


def filled(path: Path, batches: int, retention: Retention = RETENTION) -> Store:
    """Make a store with some batches."""
    store = Store.create(path, ABOUT, retention)
    for number in range(1, batches + 1):
        entry, rest = made(number)
        assert store.append(entry, **rest) == Receipt(number, new=True)
    return store


def test_everything_comes_back(path: Path) -> None:
    """Rows, bytes, alarms and checkpoint, from the writer, after reopening, and from a reader."""
    with filled(path, 9) as store:
        entry, rest = made(8)
        assert replace(store.entry(8), statistics=()) == replace(entry, statistics=())
        assert sorted(store.entry(8).statistics) == sorted(entry.statistics)
        assert store.models(8) == rest["models"]
        assert store.scores(8) == rest["scores"]
        assert store.alarms()[-1] == rest["alarm"]
        checkpoint = store.checkpoint()
        assert checkpoint is not None
        assert (checkpoint.batch, checkpoint.arrays) == (9, made(9)[1]["checkpoint"])
        assert store.about()["widths"] == [0.3, 1.4]
        assert store.retention == RETENTION
        before = everything(path)
    assert everything(path) == before
    with Store.resume(path, ABOUT, RETENTION) as store:
        assert verify(store) == 9
    assert everything(path) == before


def test_models_are_dropped(path: Path) -> None:
    """Up to the number asked for, also when they come with the batch itself."""
    with filled(path, 9) as store:
        assert [bool(store.models(batch)) for batch in range(1, 10)] == [False] * 6 + [True] * 3
        assert store.head().model_bytes == 3 * 600 + 2 * 8 * (7 + 8 + 9)
        entry, rest = made(10)
        store.append(entry, **rest | {"drop_models": 10})
        assert store.models(10) == store.scores(10) == {}
        assert store.head().model_bytes == 0
        assert verify(store) == 10


@pytest.mark.parametrize("reservoir", [False, True])
def test_retention_of_some(path: Path, reservoir: bool) -> None:
    """After every batch, those kept are what a choice among all batches so far would be."""
    retention = Retention("one", batches=3, reservoir=reservoir)
    names: list[str] = []
    with Store.create(path, {}, retention) as store:
        for number in range(1, 31):
            entry, rest = made(number)
            events = None if number % 5 == 0 else rest["events"]
            store.append(entry, events=events, scan=rest.get("scan"))
            names += [entry.name] if events else []
            by_hash = sorted(
                names, key=lambda n: hashlib.sha256(f'["reservoir","{n}"]'.encode()).hexdigest()
            )
            wanted = by_hash[:3] if reservoir else names[-3:]
            assert store.kept() == sorted(int(n.split("-")[1]) for n in wanted)
            assert store.head().event_bytes == 900 * len(store.kept())
        for batch in store.kept():
            assert store.events(batch) == made(batch)[1]["events"]
        assert store.events(5) is None
        assert verify(store) == 30


def test_retention_of_all_and_none(path: Path, tmp_path: Path) -> None:
    """`all` keeps every batch that has events, `sat` none."""
    with filled(path, 5, Retention("all")) as store:
        assert store.kept() == [1, 2, 3, 4, 5]
    with filled(tmp_path / "none.gofs", 5, Retention("sat")) as store:
        assert store.kept() == []
        assert store.events(3) is None


def test_offered_twice(path: Path) -> None:
    """The same batch counts once; another under its name is refused, with both digests."""
    with filled(path, 3) as store:
        before = everything(path)
        entry, rest = made(2)
        assert store.append(entry, **rest) == Receipt(2, new=False)
        other = replace(entry, number=4, digest="f00d")
        with pytest.raises(IdentityError, match=rf"batch-00002.*{entry.digest}.*f00d"):
            store.append(other)
        assert store.find(entry.name, entry.digest) == store.entry(2)
        assert store.find("batch-00004", "f00d") is None
        assert everything(path) == before


def test_numbers_have_no_gaps(path: Path) -> None:
    """A number that is not the next one is refused: two writers notice each other."""
    with filled(path, 3) as store, Store(path) as other:
        entry, rest = made(5)
        with pytest.raises(StoppedError, match="has 3 batches, and is given number 5"):
            store.append(entry, **rest)
        assert other.append(made(4)[0]).new
        with pytest.raises(StoppedError, match="another process writes"):
            store.append(replace(entry, number=4))
        with pytest.raises(InputError, match="no batch 5"):
            store.entry(5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "1 to 200"),
        ({"name": "a\nb"}, r"a\\\\nb"),
        ({"name": "x" * 201}, "1 to 200"),
        ({"state": "learned"}, "nearest: 'learnt'"),
        ({"expected": math.nan}, "expected count is nan"),
        ({"arrived": math.inf}, "arrival is inf"),
        ({"statistics": (Statistic("sat", 0, math.nan),)}, "sat at width 0: t is nan"),
        ({"statistics": (Statistic("sat", 0, 1.0, math.inf),)}, "u is inf"),
        ({"statistics": (Statistic("sat", 0, 1.0), Statistic("sat", 0, 2.0))}, "give each once"),
    ],
)
def test_what_no_row_can_hold(path: Path, change: dict[str, Any], message: str) -> None:
    """Refused before anything is written."""
    with filled(path, 1) as store:
        with pytest.raises(InputError, match=message):
            store.append(replace(made(2)[0], **change))
        assert store.head().batches == 1


def test_odd_values_come_back(path: Path) -> None:
    """Extremes of floats, text that could be code, characters a terminal would obey, no u."""
    extremes = (5e-324, -1.7976931348623157e308, 0.1 + 0.2, -0.0, 3.0)
    entry = Entry(
        1,
        "<script>'; DROP TABLE ledger --",
        "",
        0.0,
        0,
        0.0,
        "skipped",
        "\x1b[31m \udcff",
        tuple(Statistic("日本", width, t) for width, t in enumerate(extremes)),
    )
    with Store.create(path, {}, Retention("sat")) as store:
        store.append(entry)
        back = store.entry(1)
        assert back.name == entry.name
        assert back.note == r"\x1b[31m \udcff"
        assert [s.t for s in back.statistics] == list(extremes)
        assert all(s.u is None for s in back.statistics)
        assert verify(store) == 1


@pytest.mark.parametrize("arguments", [("one",), ("all", 3), ("last", 3), ("sat", 1)])
def test_retention_that_contradicts_itself(arguments: Any) -> None:
    """Refused."""
    with pytest.raises(SettingsError, match="needs a number of batches"):
        Retention(*arguments)


def test_another_run_is_refused(path: Path) -> None:
    """It says which field differs, whichever side lacks it."""
    filled(path, 1).close()
    for about, retention, field in (
        (ABOUT | {"reference": "other"}, RETENTION, "reference"),
        ({"widths": ABOUT["widths"]}, RETENTION, "reference"),
        (ABOUT | {"null": "9f"}, RETENTION, "null"),
        (ABOUT, Retention("sat"), "retention"),
    ):
        with pytest.raises(FormatError, match=f"made with another {field}"):
            Store.resume(path, about, retention)


def test_alarms_are_acknowledged_once(path: Path) -> None:
    """By the first who does, also while another process has the store open for batches."""
    with filled(path, 4) as store, Store(path) as page:
        seen = page.acknowledge(2, by="shift leader", at=5.0)
        assert (seen.by, seen.acknowledged) == ("shift leader", 5.0)
        assert page.acknowledge(2, by="somebody else", at=6.0) == seen
        assert [alarm.acknowledged for alarm in store.alarms()] == [5.0, None]
        with pytest.raises(InputError, match=r"batch 3 .* no alarm"):
            page.acknowledge(3, by="x", at=1.0)
        assert store.append(made(5)[0], **made(5)[1]).new
        with pytest.raises(InputError, match="alarm of another batch"):
            store.append(replace(made(6)[0]), alarm=Alarm(5, "sat", 0, 5.0, 4.0, 3))


def test_reading_while_it_is_written(path: Path) -> None:
    """A reader sees each commit, and one state within a snapshot; polling is told of changes."""
    with filled(path, 2) as store, Reader(path) as reader:
        version = reader.version()
        assert reader.version() == version
        with reader.snapshot():
            assert reader.head().batches == 2
            store.append(made(3)[0], **made(3)[1])
            assert reader.head().batches == len(reader.entries()) == 2
        assert reader.version() != version
        assert reader.head().batches == 3
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._db.execute("DELETE FROM alarms")


def test_backup_while_it_is_written(path: Path, tmp_path: Path) -> None:
    """A whole store, one file, readable where nothing can be written; no file is replaced."""
    copy = tmp_path / "copy.gofs"
    with filled(path, 5) as store:
        with Reader(path) as reader:
            reader.backup(copy)
        before = everything(path)
        with pytest.raises(InputError, match="there already"):
            store.backup(copy)
        store.append(made(6)[0], **made(6)[1])
    assert everything(copy) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy.gofs", path.name]
    with Store.resume(copy, ABOUT, RETENTION) as other:
        assert other.append(made(6)[0], **made(6)[1]).new
    assert everything(copy) == everything(path)


def test_files_that_are_no_stores(path: Path, tmp_path: Path) -> None:
    """A missing, an empty, a foreign and a newer file are refused; none is touched."""
    with pytest.raises(StoppedError, match="cannot be opened"):
        Store(path)
    assert not path.exists()
    path.touch()
    foreign = tmp_path / "null.db"
    with closing(sqlite3.connect(foreign)) as db:
        db.execute("CREATE TABLE t (x)")
    text = tmp_path / "text"
    text.write_text("not a database at all, but long enough to have a header of 100 bytes" * 3)
    newer = tmp_path / "newer.gofs"
    filled(newer, 1).close()
    with closing(sqlite3.connect(newer)) as db:
        db.execute("PRAGMA user_version = 9")
    for file, message in (
        (path, "not a store"),
        (foreign, "not a store"),
        (text, "not a database"),
        (newer, "version 9"),
    ):
        content = file.read_bytes()
        for opening in (Reader, Store):
            with pytest.raises(FormatError, match=message):
                opening(file)
        assert file.read_bytes() == content
    with pytest.raises(InputError, match="there already"):
        Store.create(foreign, {}, RETENTION)


def test_migration(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older store is brought up to date by its writer, and then refused by older programs."""
    filled(path, 4).close()
    before = everything(path)
    old = schema.STEPS
    monkeypatch.setattr(schema, "STEPS", (*old, ("ALTER TABLE ledger ADD COLUMN shift TEXT",)))
    with pytest.raises(FormatError, match="version 2, older than 3"):
        Reader(path)
    with Store.resume(path, ABOUT, RETENTION) as store:
        assert verify(store) == 4
    after = everything(path)
    assert after.pop("head") != before.pop("head")
    assert after == before
    monkeypatch.setattr(schema, "STEPS", old)
    with pytest.raises(FormatError, match="version 3"):
        Store(path)


def test_a_migration_that_fails_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store stays what it was."""
    filled(path, 4).close()
    before, old = everything(path), schema.STEPS
    monkeypatch.setattr(schema, "STEPS", (*old, ("DELETE FROM models", "no SQL")))
    with pytest.raises(FormatError, match="syntax error"):
        Store(path)
    monkeypatch.setattr(schema, "STEPS", old)
    assert everything(path) == before


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/with\\040space xfs rw 0 0
AFS /afs afs rw 0 0
/dev/sdc1 /twice ext4 rw 0 0
server:/twice /twice nfs rw 0 0
what /odd fuse.newest rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/run.gofs", "WAL"),
        ("/home/me/run.gofs", "DELETE"),
        ("/homely/run.gofs", "WAL"),
        ("/home/with space/run.gofs", "WAL"),
        ("/twice/run.gofs", "DELETE"),
        ("/odd/run.gofs", "DELETE"),
    ],
)
def test_journal_follows_the_file_system(path: str, kind: str, tmp_path: Path) -> None:
    """A log only where the file system is known to be local."""
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert files.journal(Path(path), mounts) == kind


def test_no_store_without_locks(tmp_path: Path) -> None:
    """Refused, with advice."""
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    with pytest.raises(StoppedError, match=r"\(afs\) without locks.*local disk"):
        files.journal(Path("/afs/cern.ch/run.gofs"), mounts)


def test_on_a_network(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a log all is the same; a commit waits until the folder is safe, too."""
    with filled(path, 3) as store:
        assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
    monkeypatch.setattr(files, "LOCAL", frozenset())
    with Store.resume(path, ABOUT, RETENTION) as store, Reader(path) as reader:
        assert store._db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert store._db.execute("PRAGMA synchronous").fetchone() == (3,)
        store.append(made(4)[0], **made(4)[1])
        assert reader.head().batches == 4
        assert verify(reader) == 4


def test_a_locked_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told after some patience; the batch can be put in when the lock is gone."""
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    with filled(path, 1) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoppedError, match=r"take batch 2 .*locked.*another process"):
                store.append(made(2)[0])
        assert store.append(made(2)[0]).new


def test_a_file_that_may_not_grow(path: Path) -> None:
    """A full disk: told, undone, and the store goes on when there is room."""
    with filled(path, 3) as store:
        before = everything(path)
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        entry, rest = made(4)
        with pytest.raises(StoppedError, match=r"take batch 4 .*full.*make room"):
            store.append(entry, **rest | {"events": bytes(500_000)})
        assert everything(path) == before
        store._db.execute("PRAGMA max_page_count = 1000000")
        assert store.append(entry, **rest).new


def test_size_of_a_batch(path: Path) -> None:
    """At most 1 kB with 3 widths and 4 families when models are not kept, checkpoints included."""
    sizes = {}
    with Store.create(path, {}, Retention("sat")) as store:
        store._db.execute("PRAGMA synchronous = OFF")  # the size is the same, and it is quick
        for number in range(1, 601):
            entry, rest = made(number)
            families = ("next epoch", "next window", "sat epoch", "sat window")
            statistics = tuple(
                Statistic(family, width, number + 0.1, number + 0.2)
                for family in families
                for width in range(3)
            )
            arrays = {(width, "scaled"): bytes(40_000) for width in range(3)}
            store.append(
                replace(entry, statistics=(*statistics, Statistic(RUN_SCAN, 0, 1.5))),
                models=rest["models"],
                drop_models=number,
                scan=ScanRow(bytes(30_000), bytes(30_000), "[]"),
                checkpoint=arrays if number % 50 == 0 else None,
            )
            sizes[number] = store._db.execute("PRAGMA page_count").fetchone()[0] * 4096
    assert 300 < (sizes[600] - sizes[100]) / 500 <= 1000


def test_a_description_of_tables_that_is_no_text(path: Path) -> None:
    """One high bit in each byte of it: SQLite's complaint may then quote what cannot be decoded."""
    filled(path, 2).close()
    right, content = everything(path), path.read_bytes()
    first = content.index(b"CREATE TABLE")
    last = content.rindex(b"STRICT", 0, 2 * 4096)
    found = set()
    for at in range(first, last):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x80]) + content[at + 1 :])
        try:
            assert everything(path) == right
        except FormatError as error:
            found.add("decode" in str(error.__cause__))
    assert found == {True, False}


def damaged_by(path: Path, statement: str) -> None:
    """Change one row behind the store's back."""
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(statement).rowcount == 1
        db.commit()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE ledger SET expected = 2001 WHERE batch = 3", "batch 3: its entry"),
        ("UPDATE statistics SET u = 0 WHERE batch = 3 AND family = 'sat' AND width = 1", "batch 3"),
        ("DELETE FROM statistics WHERE batch = 3 AND family = 'sat' AND width = 1", "batch 3"),
        ("DELETE FROM ledger WHERE batch = 3", "batch 3: its entry"),
        ("DELETE FROM ledger WHERE batch = 8", "end with batch 8"),
        ("UPDATE models SET data = x'00' WHERE batch = 7 AND width = 0", "batch 7: its models"),
        ("UPDATE models SET scores = x'00' WHERE batch = 7 AND width = 0", "batch 7: its models"),
        ("DELETE FROM models WHERE batch = 7 AND width = 0", "batch 7: its models"),
        ("UPDATE events SET data = x'00' WHERE batch = 4", "batch 4: its events"),
        ("DELETE FROM events WHERE batch = 4", "events are kept"),
        ("UPDATE events SET batch = 1 WHERE batch = 4", "batch 1: its events"),
        ("UPDATE alarms SET acknowledged = 1 WHERE batch = 4", "batch 4: its alarm"),
        ("DELETE FROM alarms WHERE batch = 4", "list of alarms"),
        ("UPDATE checkpoint SET data = x'00' WHERE width = 0", "batch 6: the checkpoint"),
        ("DELETE FROM checkpoint WHERE width = 0", "batch 6: the checkpoint"),
        ("UPDATE scan SET epoch = x'00'", "batch 6: the sums of the scan"),
        ("UPDATE scan SET windows = '[]'", "batch 6: the sums of the scan"),
        ("UPDATE scan SET batch = 3", "batch 6: the sums of the scan"),
        ("DELETE FROM scan", "batch 6: the sums of the scan"),
        ("DELETE FROM statistics WHERE batch = 6 AND family = 'run scan'", "batch 6"),
        ("UPDATE about SET value = '[1]' WHERE key = 'widths'", "description of the run"),
        ("UPDATE head SET kept = 2", "its head"),
        ("DELETE FROM head", "its head"),
    ],
)
def test_changed_rows_are_noticed(path: Path, statement: str, message: str) -> None:
    """By whoever reads them, and by `verify`, with the batch."""
    filled(path, 8).close()
    damaged_by(path, statement)
    with pytest.raises(FormatError, match=message) as raised:
        everything(path)
    assert str(path) in str(raised.value)
    with pytest.raises(FormatError, match=message), Reader(path) as reader:
        verify(reader)


def test_a_log_that_was_left_behind(path: Path) -> None:
    """A store that was removed without it: no new one is ruined by it, and it is not lost."""
    log = path.with_name(f"{path.name}-wal")
    with Store.create(path, {}, Retention("sat")) as store:
        store.append(Entry(1, "b1", "d", 0.0, 1, 1.0))
        left = log.read_bytes()
    log.write_bytes(left)
    path.rename(path.with_name("moved"))
    with pytest.raises(InputError, match=r"-wal belongs to a store that was at .*move it away"):
        Store.create(path, {}, Retention("sat"))
    path.with_name("moved").rename(path)
    with Reader(path) as reader:
        assert [entry.name for entry in reader.entries()] == ["b1"]


def test_verify_names_every_batch(path: Path) -> None:
    """Not only the first that is damaged."""
    filled(path, 8).close()
    for batch in (2, 5):
        damaged_by(path, f"UPDATE ledger SET note = 'x' WHERE batch = {batch}")
    with Reader(path) as reader, pytest.raises(FormatError, match=r"batch 2: .*batch 5: "):
        verify(reader)


def test_verify_reads_each_row_a_few_times(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cost grows with batches, not with batches times kept ones."""
    with Store.create(path, {}, Retention("one", batches=40)) as store:
        for number in range(1, 101):
            store.append(Entry(number, f"b{number}", "d", 0.0, 1, 1.0), events=b"events")
        calls, sealed = list[int](), Reader.sealed

        def counted(self: Reader, batch: int) -> Sealed:
            calls.append(batch)
            return sealed(self, batch)

        monkeypatch.setattr(Reader, "sealed", counted)
        assert verify(store) == 100
        assert len(calls) <= 4 * 100
        # A missing row is still noticed: by the number of them.
        store._db.execute("DELETE FROM events WHERE batch = 77")
        with pytest.raises(FormatError, match="the list of batches whose events are kept"):
            verify(store)


def test_verify_misses_events_where_all_are_kept(path: Path) -> None:
    """It names the batch, though the list of those that are there has a gap only."""
    with Store.create(path, {}, Retention("all")) as store:
        for number in (1, 2, 3):
            store.append(Entry(number, f"b{number}", "d", 0.0, 1, 1.0), events=b"events")
        store._db.execute("DELETE FROM events WHERE batch = 2")
        with pytest.raises(FormatError, match=r"is damaged: batch 2: its events; the list"):
            verify(store)


def test_verify_sees_a_row_that_was_exchanged(path: Path) -> None:
    """A sound row of another run in its place breaks the chain."""
    filled(path, 4).close()
    other = path.with_name("other.gofs")
    with Store.create(other, ABOUT, RETENTION) as store:
        for number in range(1, 5):
            entry, rest = made(number)
            store.append(replace(entry, note="otherwise" if number == 2 else entry.note), **rest)
    with closing(sqlite3.connect(path)) as db:
        db.execute("ATTACH ? AS other", (str(other),))
        db.execute("REPLACE INTO main.ledger SELECT * FROM other.ledger WHERE batch = 2")
        db.commit()
    with Reader(path) as reader, pytest.raises(FormatError, match="other batches"):
        verify(reader)


def test_sql_of_the_documentation(path: Path) -> None:
    """What docs/reference/store.md shows can be pasted, and gives rows."""
    filled(path, 9).close()
    text = (ROOT / "docs" / "reference" / "store.md").read_text()
    statements = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    assert len(statements) >= 4
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            assert db.execute(statement).fetchall(), statement


def test_tables_of_the_documentation(path: Path) -> None:
    """docs/reference/store.md names every table and column."""
    filled(path, 1).close()
    text = (ROOT / "docs" / "reference" / "store.md").read_text()
    with closing(sqlite3.connect(path)) as db:
        for table in schema.TABLES:
            assert f"`{table}`" in text
            for row in db.execute(f"PRAGMA table_info({table})"):
                assert f"`{row[1]}`" in text, (table, row[1])
