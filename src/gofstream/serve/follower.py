"""Following a store: what is new since the last look, read once for all pages."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from gofstream.errors import StoppedError
from gofstream.scan.where import windows_from_json
from gofstream.serve import view
from gofstream.stream.reader import Reader
from gofstream.stream.rows import Entry, Head

#: Batches whose curves are shown; older ones are in the table, page by page.
HISTORY = 2000
#: Batches on a page of the table.
PAGE = 25
#: Entries read at a time, so that a long ledger does not keep the writer's log from being cut.
CHUNK = 500
#: Seconds between two readings of the running sums, which may be large.
SUMS_EVERY = 60.0


@dataclass(frozen=True, slots=True)
class Change:
    """What a look found.

    Attributes
    ----------
    fresh : whether the rows replace all that were there: the first look, or another file.
    rows : new rows with their marks, which no other batch of any run has.
    now : how the run stands.
    """

    fresh: bool
    rows: list[tuple[str, dict[str, Any]]]
    now: dict[str, Any]


@dataclass(slots=True)
class _Known:
    """What was gathered from one file so far."""

    run: view.Run
    rows: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=HISTORY))
    states: Counter[str] = field(default_factory=Counter)
    events: int = 0
    learnt: int = 0
    last: Entry | None = None
    sums: int | None = None
    sums_of: int = 0
    sums_read: float = -SUMS_EVERY
    model: float = 0.0


class Follower:
    """Reads a store as it grows; everything in one thread, since SQLite asks for that.

    Parameters
    ----------
    path : the store.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader: Reader | None = None
        self._file = (0, 0)
        self._version = -1
        self._known: _Known | None = None

    def look(self) -> Change | None:
        """Read what is new; None if nothing is.

        Raises
        ------
        GofstreamError
            If the store cannot be read; the next look opens it anew.
        """
        try:
            reader = self._opened()
            version = reader.version()
            if version == self._version and self._known is not None:
                return None
            fresh = self._known is None
            known = self._known or _Known(view.Run.of(reader.about()))
            rows = self._read(reader, known)
            now = self._now(reader, known)
        except BaseException:
            self.close()
            raise
        self._known, self._version = known, version
        return Change(fresh, rows, now)

    def page(self, before: int) -> list[dict[str, Any]]:
        """Give the rows of a page of the table: those before a batch, the latest first."""
        with Reader(self.path) as reader:
            last = min(before - 1, reader.head().batches)
            found = reader.entries(max(1, last - PAGE + 1), last)
        return [view.row(entry, 0) for entry in reversed(found)]

    def models(self, last: int, count: int) -> list[tuple[int, dict[int, bytes]]]:
        """Give the models of the last batches up to one that have any, in order."""
        found: list[tuple[int, dict[int, bytes]]] = []
        with Reader(self.path) as reader, reader.snapshot():
            # Batches without models may stand between; not endlessly many.
            for number in islice(range(last, reader.head().dropped, -1), 2 * count):
                models = reader.models(number)
                if models:
                    found.insert(0, (number, models))
                if len(found) == count:
                    break
        return found

    def close(self) -> None:
        """Let go of the file, and of what was read from it."""
        if self._reader is not None:
            self._reader.close()
        self._reader = self._known = None

    def _opened(self) -> Reader:
        """Give the open store; opened anew if another file took its place, as after a restore."""
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise StoppedError(
                f"{self.path} cannot be read ({error.strerror}); check the name of the store"
            ) from error
        here = (found.st_dev, found.st_ino)
        if self._reader is None or here != self._file:
            self.close()
            self._reader, self._file = Reader(self.path), here
        return self._reader

    def _read(self, reader: Reader, known: _Known) -> list[tuple[str, dict[str, Any]]]:
        rows: deque[tuple[str, dict[str, Any]]] = deque(maxlen=HISTORY)
        done, count = known.states.total(), reader.head().batches
        while done < count:
            upto = min(done + CHUNK, count)
            with reader.snapshot():
                sealed = [reader.sealed(number) for number in range(done + 1, upto + 1)]
            for entry, _, _, own in sealed:
                known.states[entry.state] += 1
                known.events += entry.events
                if entry.statistics:
                    known.learnt, known.last = known.learnt + 1, entry
                one = view.row(entry, known.events)
                known.rows.append(one)
                rows.append((f"{entry.number}-{own.hex()[:16]}", one))
            done = upto
        return list(rows)

    def _now(self, reader: Reader, known: _Known) -> dict[str, Any]:
        with reader.snapshot():
            head, alarms = reader.head(), reader.alarms()
            self._weigh(reader, known, head)
            scan = reader.scan() if known.run.scanned else None
        run, last = known.run, known.last
        batches, top = known.states.total(), None if last is None else last.highest
        unseen = [alarm for alarm in alarms if alarm.acknowledged is None]
        return {
            "store": self.path.name,
            "verdict": view.verdict(run, batches, last, alarms),
            "alarms": view.listed(run, alarms),
            "rung": len(alarms),
            "open": len(unseen),
            "since": unseen[0].since if unseen else None,
            "batches": batches,
            "states": dict(known.states),
            "events": known.events,
            "arrived": known.rows[-1]["arrived"] if known.rows else None,
            "widths": view.by_width(run, last),
            "highest": None if top is None else top.u,
            "width": None if top is None else top.width,
            "learnt": None if last is None else last.number,
            "boundary": run.level,
            "epoch": run.epoch,
            "window": run.window,
            "evidence": view.evidence(run, last),
            "scan": view.scan(run, last, () if scan is None else windows_from_json(scan.windows)),
            "rate": view.rate(known.rows),
            "storage": self._storage(known, head, None if scan is None else len(scan.run)),
        }

    def _weigh(self, reader: Reader, known: _Known, head: Head) -> None:
        """See how large the models of a batch and the running sums are."""
        if known.last is not None and known.last.number > head.dropped and not known.model:
            known.model = float(sum(map(len, reader.models(known.last.number).values())))
        due = time.monotonic() - known.sums_read >= SUMS_EVERY
        if head.checkpoint != known.sums_of and due:
            checkpoint = reader.checkpoint()
            arrays = {} if checkpoint is None else checkpoint.arrays
            known.sums = sum(map(len, arrays.values()))
            known.sums_of, known.sums_read = head.checkpoint, time.monotonic()

    def _storage(self, known: _Known, head: Head, scan: int | None) -> dict[str, Any]:
        log = self.path.with_name(self.path.name + "-wal")
        columns = len(known.run.columns)
        return {
            "file": self.path.stat().st_size + (log.stat().st_size if log.exists() else 0),
            "models": head.model_bytes,
            "events": head.event_bytes,
            "kept": known.run.kept,
            "model": known.model,
            "columns": columns,
            "strategies": view.strategies(
                known.events, known.learnt, columns, known.model, known.sums, scan
            ),
        }
