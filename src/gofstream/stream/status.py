"""How a run stands: one answer, for the terminal, as JSON, for Prometheus and for the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gofstream.inference.sequential import EValue, e_value
from gofstream.scan.where import FoundWindow, windows_from_json
from gofstream.stream.reader import Reader
from gofstream.stream.rows import Alarm, Entry, State, Statistic
from gofstream.stream.scanning import is_scanned, scan_evidence


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What does not change during a run.

    Attributes
    ----------
    widths : σ by index.
    columns : names of what is tested.
    epoch, window : H and K, in batches.
    nominal : N(R) of a batch.
    reference_rows : how large the reference is.
    level, alpha : the boundary, and how often an epoch crosses it by chance; None without one.
    strategy, reservoir, batches : whose events are kept.
    scanned : whether it has a scan.
    """

    widths: tuple[float, ...]
    columns: tuple[str, ...]
    epoch: int | None
    window: int | None
    nominal: float | None
    reference_rows: int | None
    level: float | None
    alpha: float | None
    strategy: str
    reservoir: bool
    batches: int
    scanned: bool

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> RunFacts:
        """Take them from what a store says it is about; None for a field that is not there."""
        boundary, retention = about.get("boundary") or {}, about["retention"]
        return cls(
            tuple(about.get("widths", ())),
            tuple(about.get("columns", ())),
            about.get("epoch"),
            about.get("window"),
            about.get("nominal_expected"),
            about.get("reference_rows"),
            boundary.get("level"),
            boundary.get("alpha"),
            retention["strategy"],
            retention["reservoir"],
            retention["batches"],
            is_scanned(about),
        )


@dataclass(frozen=True, slots=True)
class StorageBytes:
    """Bytes in the store, by what they are; and those of all events, had they been kept."""

    events: int
    models: int
    sums: int
    scan: int
    file: int
    all_events: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """What is counted over all batches.

    Attributes
    ----------
    states : how many batches are in each state.
    events : of all batches.
    latest : the last batch that was learnt, monitored or not; None before the first.
    monitored : the last one that was monitored.
    arrived : when the last batch of any state did (seconds since 1970).
    """

    states: Mapping[State, int]
    events: int
    latest: Entry | None
    monitored: Entry | None
    arrived: float | None


@dataclass(frozen=True, slots=True)
class RunStatus:
    """How a run stands after its last batch.

    Attributes
    ----------
    facts : what the run is about.
    ledger : its batches.
    step : batches in the current epoch.
    e_value : of `next` over the epoch, which says itself whether to trust it.
    evidence : natural logarithm of the scan's e-value over the epoch, which holds for any size of
        the reference; None for a run without a scan, with a weighted reference, or with batches so
        small that one may be empty.
    windows : where the scan of the epoch found most.
    alarms : all of them, in order.
    storage : bytes.
    """

    facts: RunFacts
    ledger: Ledger
    step: int
    e_value: EValue | None
    evidence: float | None
    windows: tuple[FoundWindow, ...]
    alarms: tuple[Alarm, ...]
    storage: StorageBytes

    @property
    def batches(self) -> int:
        """How many batches the ledger has."""
        return sum(self.ledger.states.values())

    @property
    def highest(self) -> Statistic | None:
        """The statistic with the largest u after the last monitored batch."""
        return None if self.ledger.monitored is None else self.ledger.monitored.highest

    @property
    def above(self) -> bool:
        """Whether the last monitored batch left the statistics above the boundary."""
        u = None if self.highest is None else self.highest.u
        return u is not None and self.facts.level is not None and u > self.facts.level

    @property
    def open_alarms(self) -> tuple[Alarm, ...]:
        """The alarms that nobody has acknowledged."""
        return tuple(alarm for alarm in self.alarms if alarm.acknowledged is None)

    def to_json(self) -> dict[str, Any]:
        """Give it as plain values."""
        found, top = self.e_value, self.highest
        return {
            "batches": self.batches,
            "states": dict(self.ledger.states),
            "events": self.ledger.events,
            "arrived": self.ledger.arrived,
            "latest": None if self.ledger.latest is None else _entry(self.ledger.latest),
            "monitored": None if self.ledger.monitored is None else self.ledger.monitored.number,
            "step": self.step,
            "highest": None if top is None else top._asdict(),
            "level": self.facts.level,
            "above": self.above,
            "e_value": found.value if found is not None and found.trusted else None,
            "rows_per_event": None if found is None else found.rows_per_event,
            "scan_log_e_value": self.evidence,
            "windows": [asdict(window) for window in self.windows],
            "alarms": [asdict(alarm) for alarm in self.alarms],
            "strategy": self.facts.strategy,
            "storage": asdict(self.storage),
        }


def run_status(
    reader: Reader, states: Mapping[State, int] | None = None, events: int | None = None
) -> RunStatus:
    """Read how a run stands.

    Parameters
    ----------
    reader : the store of a run.
    states, events : how many batches are in each state, and events in all, where that is known;
        otherwise the whole ledger is read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from gofstream.stream.store import Retention, Store
    >>> about = {"epoch": 10, "boundary": None, "columns": ["x"]}
    >>> store = Store.create(Path(tempfile.mkdtemp()) / "run.gofs", about, Retention("sat"))
    >>> run_status(store).storage.models
    0
    >>> store.close()
    """
    with reader.snapshot():
        count = reader.head().batches
        if states is None or events is None:
            entries = reader.entries()
            states = dict(Counter(entry.state for entry in entries))
            events = sum(entry.events for entry in entries)
        ledger = Ledger(
            states,
            events,
            _last(reader, count, ("learnt", "unmonitored")),
            _last(reader, count, ("learnt",)),
            reader.entry(count).arrived if count else None,
        )
        return status_of(reader, RunFacts.of(reader.about()), ledger)


def status_of(reader: Reader, facts: RunFacts, ledger: Ledger) -> RunStatus:
    """Read what follows from more than the ledger, which is known.

    Parameters
    ----------
    reader : the store of a run.
    facts : what it is about.
    ledger : its batches, up to the last.
    """
    with reader.snapshot():
        head, alarms, sums = reader.head(), reader.alarms(), reader.checkpoint_bytes()
        scan = reader.scan() if facts.scanned else None
    learnt = ledger.states.get("learnt", 0)
    monitored = ledger.monitored
    log = reader.path.with_name(reader.path.name + "-wal")
    return RunStatus(
        facts=facts,
        ledger=ledger,
        step=(learnt - 1) % facts.epoch + 1 if learnt and facts.epoch else 0,
        e_value=_e_value(facts, monitored),
        evidence=None if monitored is None else scan_evidence(monitored),
        windows=() if scan is None else windows_from_json(scan.windows),
        alarms=tuple(alarms),
        storage=StorageBytes(
            events=head.event_bytes,
            models=head.model_bytes,
            sums=sums,
            scan=0 if scan is None else len(scan.epoch) + len(scan.run),
            file=sum(path.stat().st_size for path in (reader.path, log) if path.exists()),
            all_events=8 * ledger.events * len(facts.columns),
        ),
    )


def _e_value(facts: RunFacts, monitored: Entry | None) -> EValue | None:
    following = [s.t for s in monitored.statistics if s.family == "epoch next"] if monitored else []
    if not following or None in (facts.epoch, facts.nominal, facts.reference_rows):
        return None
    # Of a whole epoch: it is trusted from the first batch of an epoch to the last, or never. To
    # trust it at the beginning only would be to choose when to look.
    events = (facts.epoch or 0) * (facts.nominal or 0.0)
    return e_value(following, facts.reference_rows or 0, events)


def _entry(entry: Entry) -> dict[str, Any]:
    return asdict(entry) | {"statistics": [each._asdict() for each in entry.statistics]}


def _last(reader: Reader, batch: int, states: tuple[State, ...]) -> Entry | None:
    """Give the last entry in one of some states, up to a batch."""
    for number in range(batch, 0, -1):
        if (entry := reader.entry(number)).state in states:
            return entry
    return None
