"""Following a store: what is new since the last look, read once for all pages."""

from __future__ import annotations

import os
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from gofstream.errors import StoppedError
from gofstream.report.run import kept_text
from gofstream.serve import view
from gofstream.stream.reader import Reader
from gofstream.stream.rows import Entry, State
from gofstream.stream.status import Ledger, RunFacts, RunStatus, status_of

#: Batches whose curves are shown; older ones are in the table, page by page.
HISTORY = 2000
#: Batches on a page of the table.
PAGE = 25
#: Entries read at a time, so that a long ledger does not keep the writer's log from being cut.
CHUNK = 500


@dataclass(frozen=True, slots=True)
class Change:
    """What a look found.

    Attributes
    ----------
    fresh : whether the rows replace all that were there: the first look, or another file.
    rows : new rows with their marks, which no other batch of any run has.
    status : how the run stands.
    page : what the page shows of that.
    """

    fresh: bool
    rows: list[tuple[str, dict[str, Any]]]
    status: RunStatus
    page: dict[str, Any]


@dataclass(slots=True)
class _Known:
    """What was gathered from one file so far."""

    facts: RunFacts
    rows: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=HISTORY))
    states: Counter[State] = field(default_factory=Counter)
    events: int = 0
    learnt: int = 0
    latest: Entry | None = None
    monitored: Entry | None = None
    model: float = 0.0

    def ledger(self) -> Ledger:
        """Tell what is counted over all batches."""
        arrived = self.rows[-1]["arrived"] if self.rows else None
        return Ledger(dict(self.states), self.events, self.latest, self.monitored, arrived)


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
            known = self._known or _Known(RunFacts.of(reader.about()))
            rows = self._read(reader, known)
            status = status_of(reader, known.facts, known.ledger())
            page = self._page(reader, known, status)
        except BaseException:
            self.close()
            raise
        self._known, self._version = known, version
        return Change(fresh, rows, status, page)

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
                if entry.state in ("learnt", "unmonitored"):
                    known.learnt, known.latest = known.learnt + 1, entry
                if entry.state == "learnt":
                    known.monitored = entry
                one = view.row(entry, known.events)
                known.rows.append(one)
                rows.append((f"{entry.number}-{own.hex()[:16]}", one))
            done = upto
        return list(rows)

    def _page(self, reader: Reader, known: _Known, status: RunStatus) -> dict[str, Any]:
        """Give what the page shows beside the batches."""
        with reader.snapshot():
            latest = known.latest
            if latest is not None and latest.number > reader.head().dropped and not known.model:
                known.model = float(sum(map(len, reader.models(latest.number).values())))
        columns, storage = len(known.facts.columns), status.storage
        return view.page(status) | {
            "store": self.path.name,
            "rate": view.rate(known.rows),
            "storage": {
                "file": storage.file,
                "models": storage.models,
                "events": storage.events,
                "kept": kept_text(known.facts),
                "model": known.model,
                "columns": columns,
                "strategies": view.strategies(
                    known.events,
                    known.learnt,
                    columns,
                    known.model,
                    storage.sums,
                    storage.scan or None,
                ),
            },
        }
