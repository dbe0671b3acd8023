"""The store of a run: what was learnt from each batch, in one SQLite file.

A batch goes in by one transaction: ledger entry, statistics, models, events, alarm, checkpoint,
and what is let go in their place. Once `Store.append` has returned, the batch is there for good;
before, no trace of it is. docs/reference/store.md describes the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Any, NamedTuple

from gofstream.errors import FormatError, IdentityError, InputError, StoppedError, short
from gofstream.stream import schema
from gofstream.stream.files import appearing, connect, journal, troubles
from gofstream.stream.reader import Reader
from gofstream.stream.rows import (
    RUN_SCAN,
    Alarm,
    Entry,
    Head,
    Retention,
    ScanRow,
    entry_seal,
    models_seal,
    scan_seal,
    seal,
    sha256,
)


class Receipt(NamedTuple):
    """What became of an offer: the number of the batch, and whether it is new."""

    number: int
    new: bool


class Store(Reader):
    """A store opened for writing; `create` makes one, `resume` goes on with a run.

    One process writes batches; others may read, and acknowledge alarms.

    Parameters
    ----------
    path : the file.

    Raises
    ------
    FormatError
        If it is damaged, no store, or of a newer version.
    StoppedError
        If it is not there, or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "run.gofs"
    >>> store = Store.create(path, {"reference": "9f86d08"}, Retention("one", batches=2))
    >>> batch = Entry(1, "run7/0001", "60303ae", arrived=0.0, events=2000, expected=1995.5)
    >>> store.append(batch, models={0: b"model"}, events=b"events")
    Receipt(number=1, new=True)
    >>> store.append(batch, models={0: b"model"}, events=b"events")
    Receipt(number=1, new=False)
    >>> store.models(1), store.kept()
    ({0: b'model'}, [1])
    >>> store.close()
    """

    _mode = "rw"

    @classmethod
    def create(cls, path: Path, about: Mapping[str, Any], retention: Retention) -> Store:
        """Make a new store, which appears when it is whole.

        Parameters
        ----------
        about : what decides the numbers of the run; anything that JSON can hold, by key.
        retention : whose events are kept.

        Raises
        ------
        InputError
            If there is a file of that name, or the log of a store that was there.
        StoppedError
            If it cannot be written, or the file system has no locks.
        """
        described = _described(about, retention)
        with troubles(path, "be made"):
            for log in (path.with_name(f"{path.name}{end}") for end in ("-wal", "-journal")):
                # SQLite would take it for the log of the new file, and ruin that.
                if log.exists() and log.stat().st_size:
                    raise InputError(
                        f"{log} belongs to a store that was at {path}, and may hold its last "
                        "batches; put that store back beside it, or move it away"
                    )
            kind = journal(path)
            with appearing(path) as partial, closing(connect(partial, "rwc")) as db:
                schema.make(db, described)
                db.execute(f"PRAGMA journal_mode = {kind}")
        return cls(path)

    @classmethod
    def resume(
        cls,
        path: Path,
        about: Mapping[str, Any],
        retention: Retention,
        *,
        newer: Collection[str] = (),
    ) -> Store:
        """Open a store to go on with a run, if it is the same run.

        Parameters
        ----------
        about, retention : what the run must have been created with.
        newer : keys that a run begun by an older gofstream may lack.

        Raises
        ------
        FormatError
            If it is damaged, of a newer version, or about something else; it says which field.
        StoppedError
            If it is not there, or cannot be written.
        """
        wanted = _described(about, retention)
        store = cls(path)
        there = {key: _json(value) for key, value in store.about().items()}
        for key in (*wanted, *there):
            if there.get(key) != wanted.get(key) and (key in there or key not in newer):
                store.close()
                raise FormatError(
                    f"{path} was made with another {key}: {short(there.get(key))} there, "
                    f"{short(wanted.get(key))} here; give another file, or go on with what it says"
                )
        return store

    def _open(self) -> None:
        with troubles(self.path, "be opened"):
            self._file = os.stat(self.path)
            wanted = journal(self.path)
            found = schema.version(self._db, self.path)
            (mode,) = self._db.execute(f"PRAGMA journal_mode = {wanted}").fetchone()
            if mode.upper() != wanted:
                raise StoppedError(
                    f"{self.path}: SQLite cannot keep a {wanted} journal there; give another place"
                )
            # Without a log, a commit is durable only once the folder has forgotten the journal.
            self._db.execute(f"PRAGMA synchronous = {'FULL' if wanted == 'WAL' else 'EXTRA'}")
        with self._transaction("be opened"):
            self._check_ends()
            if found < len(schema.STEPS):
                schema.migrate(self._db, self.head(), found)
            # A name that its index has lost would be taken for a new one, and counted twice.
            if self._db.execute("PRAGMA integrity_check(ledger)").fetchone() != ("ok",):
                raise self._damaged("the ledger or its index of names")
            self._retention = self.retention

    def named(self, name: str) -> Entry | None:
        """Give the entry of that name, if there is one."""
        with self.snapshot():
            row = self._db.execute(
                "SELECT batch FROM ledger WHERE name = ?", (str(name),)
            ).fetchone()
            return None if row is None else self.entry(row[0])

    def find(self, name: str, digest: str) -> Entry | None:
        """Give the entry of a batch that is being offered, if it is there already.

        Raises
        ------
        IdentityError
            If another batch has that name.
        """
        entry = self.named(name)
        if entry is not None and (entry.name, entry.digest) != (name, digest):
            raise IdentityError(
                f"{self.path} has another batch called {name!r}: number {entry.number}, "
                f"{entry.state}, digest {entry.digest or 'none'}; this one has {digest or 'none'}. "
                "Offer it under a name of its own"
            )
        return entry

    def append(
        self,
        entry: Entry,
        *,
        models: Mapping[int, bytes] | None = None,
        scores: Mapping[int, bytes] | None = None,
        events: bytes | None = None,
        alarm: Alarm | None = None,
        checkpoint: Mapping[tuple[int, str], bytes] | None = None,
        scan: ScanRow | None = None,
        drop_models: int = 0,
    ) -> Receipt:
        """Put in one batch and all that follows from it; it is acknowledged when this returns.

        Parameters
        ----------
        entry : its place in the ledger, and the statistics after it.
        models : by width index.
        scores : what `Track.add` gave beside each model; they go where the model goes.
        events : kept as the retention of the run says.
        alarm : if one rang after this batch.
        checkpoint : arrays, by width index and name, that sum up to this batch; they take the
            place of all arrays of the checkpoint before.
        scan : sums of the scan up to this batch, which take the place of those before; it goes with
            the scan's statistics.
        drop_models : models of batches up to this number are let go.

        Raises
        ------
        InputError
            If a row cannot hold it.
        IdentityError
            If another batch has its name.
        StoppedError
            If it cannot be written, or another process has written batches; nothing of it is.
        """
        entry = entry.checked()
        if drop_models > entry.number or (alarm is not None and alarm.batch != entry.number):
            raise InputError(
                f"batch {entry.number} cannot drop models up to {drop_models} or bring an alarm of "
                "another batch; both go with the batch they come after"
            )
        with self._transaction(f"take batch {entry.number}"):
            if (there := self.find(entry.name, entry.digest)) is not None:
                return Receipt(there.number, new=False)
            if (scan is None) == any(s.family == RUN_SCAN for s in entry.statistics):
                raise InputError(
                    f"batch {entry.number} must bring both the sums of a scan and the statistic "
                    f"{RUN_SCAN!r}, or neither"
                )
            head = self.head()
            if entry.number != head.batches + 1:
                raise StoppedError(
                    f"{self.path} has {head.batches} batches, and is given number {entry.number}: "
                    "another process writes to it, or one was left out; open it again"
                )
            kept = events if self._retention.strategy != "sat" else None
            learnt = {k: (data, (scores or {}).get(k, b"")) for k, data in (models or {}).items()}
            head = self._put_entry(head, entry, learnt, kept)
            head = self._put_models(head, learnt, drop_models)
            if kept is not None:
                head = self._put_events(head, entry.name, kept)
            if alarm is not None:
                self._put_alarm(alarm)
                head = replace(head, alarms=head.alarms + 1)
            if checkpoint is not None:
                head = self._put_checkpoint(head, checkpoint)
            if scan is not None:
                self._db.execute(
                    f"INSERT OR REPLACE INTO scan VALUES ({_marks(6)})",
                    (1, entry.number, *scan, scan_seal(entry.number, scan)),
                )
            schema.write_head(self._db, head)
        return Receipt(entry.number, new=True)

    def acknowledge(self, batch: int, by: str, at: float) -> Alarm:
        """Write down who has seen the alarm of a batch, and when; the first who did stays.

        Raises
        ------
        InputError
            If that batch has no alarm.
        """
        with self._transaction(f"take the acknowledgement of batch {batch}"):
            alarm = next((alarm for alarm in self.alarms() if alarm.batch == batch), None)
            if alarm is None:
                raise InputError(f"batch {batch} of {self.path} has no alarm to acknowledge")
            if alarm.acknowledged is None:
                alarm = replace(alarm, acknowledged=at, by=by).checked()
                self._put_alarm(alarm)
        return alarm

    def check_place(self) -> None:
        """Check that the file being written is still the one at the path of the store.

        SQLite goes on writing to a file that was moved or removed. A source calls this before it
        lets go of a batch, which would otherwise be nowhere.

        Raises
        ------
        StoppedError
            If the file was moved, removed or replaced. What it holds is then whole without the
            write-ahead log, which stayed behind.
        """
        try:
            if os.path.samestat(os.stat(self.path), self._file):
                return
        except OSError:
            pass
        with troubles(self.path, "be written"):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        raise StoppedError(
            f"{self.path} was moved, removed or replaced while it was written; put it back, or "
            "give another place for the store, and start the same command again: files of batches "
            "that are not in the store are still in the inbox"
        )

    @contextmanager
    def _transaction(self, what: str) -> Iterator[None]:
        """All of it or nothing."""
        self.check_place()
        with troubles(self.path, what):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
        self.check_place()

    def _put_entry(
        self,
        head: Head,
        entry: Entry,
        models: Mapping[int, tuple[bytes, bytes]],
        events: bytes | None,
    ) -> Head:
        columns = (
            *astuple(entry)[:-1],
            models_seal({k: (sha256(data), sha256(own)) for k, (data, own) in models.items()}),
            None if events is None else sha256(events),
        )
        own = entry_seal(columns, entry.statistics)
        self._db.execute(f"INSERT INTO ledger VALUES ({_marks(11)})", (*columns, own))
        self._db.executemany(
            f"INSERT INTO statistics VALUES ({_marks(5)})",
            [(entry.number, *statistic) for statistic in entry.statistics],
        )
        return replace(head, batches=entry.number, chain=seal("chain", head.chain, own))

    def _put_models(self, head: Head, models: Mapping[int, tuple[bytes, bytes]], drop: int) -> Head:
        dropped = max(head.dropped, drop)
        gone = self._db.execute(
            "DELETE FROM models WHERE batch > ? AND batch <= ? "
            "RETURNING length(data) + length(scores)",
            (head.dropped, dropped),
        ).fetchall()
        size = head.model_bytes - sum(length for (length,) in gone)
        if head.batches > dropped:
            self._db.executemany(
                f"INSERT INTO models VALUES ({_marks(5)})",
                [(head.batches, k, sha256(data), data, own) for k, (data, own) in models.items()],
            )
            size += sum(len(data) + len(own) for data, own in models.values())
        return replace(head, dropped=dropped, model_bytes=size)

    def _put_events(self, head: Head, name: str, events: bytes) -> Head:
        self._db.execute(
            f"INSERT INTO events VALUES ({_marks(3)})", (head.batches, sha256(events), events)
        )
        kept, size = head.kept + 1, head.event_bytes + len(events)
        if self._retention.strategy == "one":
            # As many rows as the retention allows, and one.
            names = dict(
                self._db.execute(
                    "SELECT name, batch FROM events JOIN ledger USING (batch) ORDER BY batch"
                )
            )
            for gone in set(names) - set(self._retention.keeps(list(names))):
                (length,) = self._db.execute(
                    "DELETE FROM events WHERE batch = ? RETURNING length(data)", (names[gone],)
                ).fetchone()
                kept, size = kept - 1, size - length
        return replace(head, kept=kept, event_bytes=size)

    def _put_alarm(self, alarm: Alarm) -> None:
        row = astuple(alarm.checked())
        self._db.execute(
            f"INSERT OR REPLACE INTO alarms VALUES ({_marks(9)})", (*row, seal("alarm", *row))
        )

    def _put_checkpoint(self, head: Head, arrays: Mapping[tuple[int, str], bytes]) -> Head:
        # The pages that are freed here are the ones filled next: the file does not grow.
        self._db.execute("DELETE FROM checkpoint")
        batch = head.batches
        self._db.executemany(
            f"INSERT INTO checkpoint VALUES ({_marks(5)})",
            [
                (name, width, batch, data, seal("checkpoint", name, width, batch, sha256(data)))
                for (width, name), data in arrays.items()
            ],
        )
        return replace(head, checkpoint=batch, arrays=len(arrays))


def _described(about: Mapping[str, Any], retention: Retention) -> dict[str, str]:
    return {key: _json(value) for key, value in {**about, "retention": asdict(retention)}.items()}


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _marks(count: int) -> str:
    return ", ".join("?" * count)
