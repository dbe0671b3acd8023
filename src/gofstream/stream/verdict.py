"""How a run stands, read from its store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from gofstream.inference.sequential import EValue, e_value
from gofstream.scan.where import FoundWindow, windows_from_json
from gofstream.stream.reader import Reader
from gofstream.stream.rows import Alarm, Entry, State, Statistic
from gofstream.stream.scanning import is_scanned, scan_evidence


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes in the store, by what they are; and those of all events, had they been kept."""

    events: int
    models: int
    sums: int
    scan: int
    all_events: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run stands.

    Attributes
    ----------
    latest : the last batch that was learnt, with the statistics after it; None before the first.
    step : batches in the current epoch.
    highest : the statistic with the largest u after the last monitored batch, if there is one.
    level : of the boundary; None without one.
    e_value : of `next` over the epoch, which says itself whether to trust it.
    evidence : natural logarithm of the scan's e-value over the epoch, which holds for any size of
        the reference; None for a run without a scan, with a weighted reference, or with batches so
        small that one may be empty.
    windows : where the scan of the epoch found most.
    alarms : that nobody has acknowledged.
    states : how many batches are in each state.
    strategy : which events the run keeps.
    kept : bytes.
    """

    latest: Entry | None
    step: int
    highest: Statistic | None
    level: float | None
    e_value: EValue | None
    evidence: float | None
    windows: tuple[FoundWindow, ...]
    alarms: tuple[Alarm, ...]
    states: Mapping[State, int]
    strategy: str
    kept: Kept

    @property
    def above(self) -> bool:
        """Whether the last monitored batch left the statistics above the boundary."""
        u = None if self.highest is None else self.highest.u
        return u is not None and self.level is not None and u > self.level


def verdict(
    reader: Reader, states: Mapping[State, int] | None = None, events: int | None = None
) -> Verdict:
    """Read how a run stands.

    Parameters
    ----------
    reader : the store of a monitor.
    states, events : how many batches are in each state, and events in all, where that is known;
        otherwise the whole ledger is read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from gofstream.stream.store import Retention, Store
    >>> about = {"epoch": 10, "boundary": None, "columns": ["x"]}
    >>> store = Store.create(Path(tempfile.mkdtemp()) / "run.gofs", about, Retention("sat"))
    >>> verdict(store).kept
    Kept(events=0, models=0, sums=0, scan=0, all_events=0)
    """
    with reader.snapshot():
        about, head, sums = reader.about(), reader.head(), reader.checkpoint_bytes()
        scan = reader.scan() if is_scanned(about) else None
        if states is None or events is None:
            entries = reader.entries()
            states = dict(Counter(entry.state for entry in entries))
            events = sum(entry.events for entry in entries)
        latest = _last(reader, head.batches, ("learnt", "unmonitored"))
        watched = _last(reader, head.batches, ("learnt",))
        alarms = tuple(alarm for alarm in reader.alarms() if alarm.acknowledged is None)
    count = states.get("learnt", 0)
    step = (count - 1) % about["epoch"] + 1 if count else 0
    return Verdict(
        latest=latest,
        step=step,
        highest=None if watched is None else watched.highest,
        level=None if about["boundary"] is None else about["boundary"]["level"],
        e_value=None
        if watched is None
        else e_value(
            [s.t for s in watched.statistics if s.family == "epoch next"],
            about["reference_rows"],
            step * about["nominal_expected"],
        ),
        evidence=None if watched is None else scan_evidence(watched),
        windows=() if scan is None else windows_from_json(scan.windows),
        alarms=alarms,
        states=states,
        strategy=about["retention"]["strategy"],
        kept=Kept(
            head.event_bytes,
            head.model_bytes,
            sums,
            0 if scan is None else len(scan.epoch) + len(scan.run),
            8 * events * len(about["columns"]),
        ),
    )


def _last(reader: Reader, batch: int, states: tuple[State, ...]) -> Entry | None:
    """Give the last entry in one of some states, up to a batch."""
    for number in range(batch, 0, -1):
        if (entry := reader.entry(number)).state in states:
            return entry
    return None
