"""Reading a store, also while another process writes to it.

Every row that is read is checked: against its own seal, and against the head, which says how many
there must be. So damage is an error, never another value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from gofstream.errors import FormatError, InputError
from gofstream.stream import schema
from gofstream.stream.files import appearing, connect, finish_interrupted, troubles
from gofstream.stream.rows import (
    RUN_SCAN,
    Alarm,
    Checkpoint,
    Entry,
    Head,
    Retention,
    ScanRow,
    Statistic,
    entry_seal,
    models_seal,
    scan_seal,
    seal,
    sha256,
)

_ENTRY = "batch, name, digest, arrived, events, expected, state, note"


class Sealed(NamedTuple):
    """An entry, the seal of its models, the SHA-256 of its events, and its own seal."""

    entry: Entry
    models: bytes | None
    events: bytes | None
    seal: bytes


class Reader:
    """A store opened for reading only.

    Parameters
    ----------
    path : the file.

    Raises
    ------
    FormatError
        If it is damaged, no store, or of another version.
    StoppedError
        If it is not there or cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from gofstream.stream.store import Store
    >>> path = Path(tempfile.mkdtemp()) / "run.gofs"
    >>> store = Store.create(path, {"settings": {"penalty": 1e-6}}, Retention("sat"))
    >>> with Reader(path) as reader:
    ...     print(reader.about()["settings"], reader.head().batches)
    {'penalty': 1e-06} 0
    >>> store.close()
    """

    _mode: Literal["ro", "rw"] = "ro"

    def __init__(self, path: Path) -> None:
        self.path = path
        with troubles(path, "be opened"):
            finish_interrupted(path)
            self._db = connect(path, self._mode)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        with self.snapshot("be opened"):
            found = schema.version(self._db, self.path)
            if found < len(schema.STEPS):
                raise FormatError(
                    f"{self.path} has version {found}, older than {len(schema.STEPS)}; open it "
                    "once for writing, with `gofstream watch`, to bring it up to date"
                )
            self._check_ends()

    def _check_ends(self) -> None:
        """See that head and ledger agree about the last batch: a lost end looks like any other."""
        head = self.head()
        if schema.about_seal(self._db) != head.about:
            raise self._damaged("its description of the run or of its tables")
        (last,) = self._db.execute("SELECT max(batch) FROM ledger").fetchone()
        if (last or 0) != head.batches:
            raise self._damaged(f"its ledger, which should end with batch {head.batches}")
        if head.batches:
            self.entry(head.batches)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> Self:
        """Use as a context; it closes the file."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of the file."""
        self.close()

    @contextmanager
    def snapshot(self, what: str = "be read") -> Iterator[None]:
        """See one state of the store in several calls, whatever is written meanwhile."""
        with troubles(self.path, what):
            outermost = not self._db.in_transaction
            if outermost:
                self._db.execute("BEGIN")
            try:
                yield
            finally:
                if outermost and self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def version(self) -> int:
        """Give a number that another process's next commit will change: cheap to ask often."""
        with troubles(self.path, "be read"):
            return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    def about(self) -> dict[str, Any]:
        """Tell what the run is about: settings, digests, retention."""
        with self.snapshot():
            if schema.about_seal(self._db) != self.head().about:
                raise self._damaged("its description of the run")
            rows = self._db.execute("SELECT key, value FROM about").fetchall()
        return {key: json.loads(value) for key, value in rows}

    @property
    def retention(self) -> Retention:
        """Whose events the run keeps."""
        return Retention(**self.about()["retention"])

    def head(self) -> Head:
        """Tell what there is in all."""
        with self.snapshot():
            rows = self._db.execute(f"SELECT {schema.HEAD}, seal FROM head").fetchall()
        if len(rows) != 1 or seal("head", *rows[0][:-1]) != rows[0][-1]:
            raise self._damaged("its head")
        return Head(*rows[0][:-1])

    def entry(self, batch: int) -> Entry:
        """Give one entry of the ledger with its statistics.

        Raises
        ------
        InputError
            If there is no such batch.
        FormatError
            If it is damaged.
        """
        return self.sealed(batch).entry

    def entries(self, first: int = 1, last: int | None = None) -> list[Entry]:
        """Give the entries from ``first`` to ``last`` (default: the last there is), in order."""
        with self.snapshot():
            stop = self.head().batches if last is None else last
            return [self.entry(batch) for batch in range(first, stop + 1)]

    def sealed(self, batch: int) -> Sealed:
        """Give one entry with the digests that stand beside it.

        Raises
        ------
        InputError
            If there is no such batch.
        FormatError
            If it is damaged.
        """
        with self.snapshot(f"be read at batch {batch}"):
            row = self._db.execute(
                f"SELECT {_ENTRY}, models_sha256, events_sha256, seal FROM ledger WHERE batch = ?",
                (batch,),
            ).fetchone()
            statistics = self._db.execute(
                "SELECT family, width, t, u FROM statistics WHERE batch = ? ORDER BY family, width",
                (batch,),
            ).fetchall()
            if row is None and not 0 < batch <= (count := self.head().batches):
                raise InputError(f"there is no batch {batch}: {self.path} has {count}")
        if row is None or entry_seal(row[:-1], statistics) != row[-1]:
            raise self._damaged(f"batch {batch}: its entry in the ledger or its statistics")
        entry = replace(Entry(*row[:8]), statistics=tuple(Statistic(*s) for s in statistics))
        return Sealed(entry, row[8], row[9], row[10])

    def models(self, batch: int) -> dict[int, bytes]:
        """Give the models of a batch by width index; none if it had none or they were dropped."""
        return {width: data for width, (data, _) in self._learnt(batch).items()}

    def scores(self, batch: int) -> dict[int, bytes]:
        """Give the scores of a batch by width index, as long as its models are there."""
        return {width: scores for width, (_, scores) in self._learnt(batch).items()}

    def _learnt(self, batch: int) -> dict[int, tuple[bytes, bytes]]:
        with self.snapshot(f"be read at batch {batch}"):
            whole = self.sealed(batch).models
            if whole is None or batch <= self.head().dropped:
                return {}
            rows = self._db.execute(
                "SELECT width, sha256, data, scores FROM models WHERE batch = ? ORDER BY width",
                (batch,),
            ).fetchall()
        sound = all(sha256(data) == own for _, own, data, _ in rows)
        each = {width: (own, sha256(scores)) for width, own, _, scores in rows}
        if not sound or models_seal(each) != whole:
            raise self._damaged(f"batch {batch}: its models")
        return {width: (data, scores) for width, _, data, scores in rows}

    def kept(self) -> list[int]:
        """List the batches whose events are kept."""
        with self.snapshot():
            head = self.head()
            rows = self._db.execute("SELECT batch, sha256 FROM events ORDER BY batch").fetchall()
            for batch, own in rows:
                if not 0 < batch <= head.batches or self.sealed(batch).events != own:
                    raise self._damaged(f"batch {batch}: its events")
        if len(rows) != head.kept:
            raise self._damaged("the list of batches whose events are kept")
        return [batch for batch, _ in rows]

    def events(self, batch: int) -> bytes | None:
        """Give the events of a batch, if they are kept."""
        with self.snapshot(f"be read at batch {batch}"):
            data = self.stored_events(batch)
            if data is not None or self.sealed(batch).events is None:
                return data
            # If `kept` passes, the row was removed by the retention policy.
            if self.retention.strategy == "all" or batch in self.kept():
                raise self._damaged(f"batch {batch}: its events")
        return None

    def stored_events(self, batch: int) -> bytes | None:
        """Give the events of a batch, if there is a row of them; not why there is none."""
        with self.snapshot(f"be read at batch {batch}"):
            wanted = self.sealed(batch).events
            row = self._db.execute("SELECT data FROM events WHERE batch = ?", (batch,)).fetchone()
        if row is None:
            return None
        if wanted is None or sha256(row[0]) != wanted:
            raise self._damaged(f"batch {batch}: its events")
        return bytes(row[0])

    def alarms(self) -> list[Alarm]:
        """Give all alarms, in order."""
        with self.snapshot():
            rows = self._db.execute(
                "SELECT batch, family, width, u, boundary, since, acknowledged, by, seal "
                "FROM alarms ORDER BY batch"
            ).fetchall()
            count = self.head().alarms
        for row in rows:
            if seal("alarm", *row[:-1]) != row[-1]:
                raise self._damaged(f"batch {row[0]}: its alarm")
        if len(rows) != count:
            raise self._damaged("the list of alarms")
        return [Alarm(*row[:-1]) for row in rows]

    def checkpoint(self) -> Checkpoint | None:
        """Give the arrays that sum over batches, and up to which batch they do."""
        with self.snapshot():
            head = self.head()
            rows = self._db.execute(
                "SELECT name, width, batch, data, seal FROM checkpoint"
            ).fetchall()
        sound = len(rows) == head.arrays and all(
            batch == head.checkpoint and seal("checkpoint", name, width, batch, sha256(data)) == own
            for name, width, batch, data, own in rows
        )
        if not sound:
            raise self._damaged(f"batch {head.checkpoint}: the checkpoint of the sums up to it")
        if not rows:
            return None
        return Checkpoint(
            head.checkpoint, {(width, name): data for name, width, _, data, _ in rows}
        )

    def checkpoint_bytes(self) -> int:
        """Tell the size of the arrays of the checkpoint, without reading them."""
        with self.snapshot():
            row = self._db.execute("SELECT sum(length(data)) FROM checkpoint").fetchone()
        return int(row[0] or 0)

    def scan(self) -> ScanRow | None:
        """Give the sums of the scan up to the last batch that it took; None before the first.

        That batch is the last with a statistic of it, which the seal of its entry covers.
        """
        with self.snapshot():
            row = self._db.execute("SELECT batch, epoch, run, windows, seal FROM scan").fetchone()
            last = self._db.execute(
                "SELECT batch FROM statistics WHERE family = ? ORDER BY batch DESC LIMIT 1",
                (RUN_SCAN,),
            ).fetchone()
            if row is None and last is None:
                return None
            if row is not None and last == row[:1]:
                self.sealed(row[0])
                found = ScanRow(*row[1:4])
                if scan_seal(row[0], found) == row[4]:
                    return found
        raise self._damaged(f"batch {(last or row)[0]}: the sums of the scan up to it")

    def pages(self) -> list[str]:
        """Tell what SQLite finds wrong with the pages of the file."""
        with self.snapshot():
            rows = self._db.execute("PRAGMA integrity_check").fetchall()
        return [text for (text,) in rows if text != "ok"]

    def backup(self, path: Path) -> None:
        """Copy the store, as it is now, into a new file, which appears when it is whole.

        The copy has no log beside it, so that it can be read from where nothing can be written.

        Raises
        ------
        InputError
            If there is a file of that name.
        StoppedError
            If the copy cannot be written.
        """
        with (
            troubles(path, "be written"),
            appearing(path) as partial,
            closing(connect(partial, "rwc")) as copy,
        ):
            self._db.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")

    def _damaged(self, what: str) -> FormatError:
        return FormatError(f"{self.path} is damaged: {what}; restore a backup")
