"""The store against a perfect one in memory, in any order of events."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gofstream.errors import FormatError, IdentityError
from gofstream.stream.reader import Reader
from gofstream.stream.rows import Alarm, Checkpoint, Entry, Retention, ScanRow
from gofstream.stream.store import Receipt, Store
from gofstream.stream.verify import verify
from gofstream_studies.chaos.writer import made

RETENTION = Retention("one", batches=2)
ABOUT = {"run": 7}


class StoreMachine(RuleBasedStateMachine):
    """What a store should hold is kept in plain lists and dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.lives = 0
        self.path = self.folder / "0.gofs"
        self.store = Store.create(self.path, ABOUT, RETENTION)
        self.entries: list[Entry] = []
        self.models: dict[int, dict[int, bytes]] = {}
        self.scores: dict[int, dict[int, bytes]] = {}
        self.events: dict[int, bytes] = {}
        self.alarms: dict[int, Alarm] = {}
        self.checkpoint: Checkpoint | None = None
        self.scan: ScanRow | None = None

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.store.close()
        shutil.rmtree(self.folder)

    def _next(self) -> tuple[Entry, dict[str, Any]]:
        entry, rest = made(len(self.entries) + 1)
        return entry, rest | {"drop_models": 0}

    def _remember(self, entry: Entry, rest: dict[str, Any]) -> None:
        number = entry.number
        self.entries.append(replace(entry, statistics=tuple(sorted(entry.statistics))))
        self.models[number], self.scores[number] = rest["models"], rest["scores"]
        for batch in range(1, rest["drop_models"] + 1):
            self.models[batch], self.scores[batch] = {}, {}
        if rest["events"] is not None:
            self.events[number] = rest["events"]
            self.events = {batch: self.events[batch] for batch in sorted(self.events)[-2:]}
        if "alarm" in rest:
            self.alarms[number] = rest["alarm"]
        if "checkpoint" in rest:
            self.checkpoint = Checkpoint(number, rest["checkpoint"])
            self.scan = rest["scan"]

    @rule(has_events=st.booleans(), keep=st.integers(0, 4))
    def append(self, has_events: bool, keep: int) -> None:
        """Take the next batch, and drop old models."""
        entry, rest = self._next()
        rest["drop_models"] = max(0, entry.number - keep)
        rest["events"] = rest["events"] if has_events else None
        assert self.store.append(entry, **rest) == Receipt(entry.number, new=True)
        self._remember(entry, rest)

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def offer_again(self, data: st.DataObject) -> None:
        """Offer a batch that is there, and another one under its name."""
        entry = data.draw(st.sampled_from(self.entries))
        again = replace(entry, number=len(self.entries) + 1, arrived=9.9e9)
        assert self.store.append(again) == Receipt(entry.number, new=False)
        with pytest.raises(IdentityError, match=entry.digest):
            self.store.append(replace(again, digest="f00d"))

    @rule()
    def reopen(self) -> None:
        """Close and go on."""
        self.store.close()
        with pytest.raises(FormatError, match="another run"):
            Store.resume(self.path, {"run": 8}, RETENTION)
        self.store = Store.resume(self.path, ABOUT, RETENTION)

    @rule(statements=st.integers(1, 30))
    def crash(self, statements: int) -> None:
        """Go on with the files as a kill would leave them, within a transaction or just after."""
        entry, rest = self._next()
        self.lives += 1
        left = self.folder / f"{self.lives}.gofs"
        seen: list[str] = []

        def copy(statement: str) -> None:
            seen.append(statement)
            if len(seen) == statements:
                self._copy(left)

        self.store._db.set_trace_callback(copy)
        self.store.append(entry, **rest)
        if len(seen) < statements:  # it was over before
            self._copy(left)
            self._remember(entry, rest)
        self.store.close()
        self.path = left
        self.store = Store.resume(self.path, ABOUT, RETENTION)

    def _copy(self, to: Path) -> None:
        for suffix in ("", "-wal"):
            part = self.path.with_name(self.path.name + suffix)
            if part.exists():
                shutil.copy(part, to.with_name(to.name + suffix))

    @rule()
    def go_on_with_a_backup(self) -> None:
        """Made by a reader, in the place of the store."""
        self.lives += 1
        copy = self.folder / f"{self.lives}.gofs"
        with Reader(self.path) as reader:
            reader.backup(copy)
        self.store.close()
        self.path = copy
        self.store = Store.resume(copy, ABOUT, RETENTION)

    @precondition(lambda self: self.alarms)
    @rule(data=st.data(), at=st.floats(0, 1e10))
    def acknowledge(self, data: st.DataObject, at: float) -> None:
        """By another connection; the first stays."""
        batch = data.draw(st.sampled_from(sorted(self.alarms)))
        if self.alarms[batch].acknowledged is None:
            self.alarms[batch] = replace(self.alarms[batch], acknowledged=at, by="shift")
        with Store(self.path) as page:
            assert page.acknowledge(batch, "shift", at) == self.alarms[batch]

    @invariant()
    def all_is_there(self) -> None:
        """See, beside the writer, just what should be there."""
        with Reader(self.path) as reader:
            assert verify(reader) == len(self.entries)
            assert reader.entries() == self.entries
            numbers = range(1, len(self.entries) + 1)
            assert {number: reader.models(number) for number in numbers} == self.models
            assert {number: reader.scores(number) for number in numbers} == self.scores
            assert reader.kept() == list(self.events)
            assert {number: reader.events(number) for number in self.events} == self.events
            assert reader.alarms() == [self.alarms[batch] for batch in sorted(self.alarms)]
            assert reader.checkpoint() == self.checkpoint
            assert reader.scan() == self.scan
            head = reader.head()
            kept = [*self.models.values(), *self.scores.values()]
            assert head.model_bytes == sum(len(data) for each in kept for data in each.values())
            assert head.event_bytes == sum(map(len, self.events.values()))


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=10, stateful_step_count=16, deadline=None)
