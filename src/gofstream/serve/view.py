"""What the page shows of a run, as plain values that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gofstream.inference.scale import FAMILIES
from gofstream.report.run import next_text, verdict, width_text
from gofstream.report.words import e_text, number
from gofstream.stream.merge import remark
from gofstream.stream.rows import Alarm, Entry
from gofstream.stream.status import RunFacts, RunStatus

#: Alarms that are listed, the latest first.
LISTED = 20
#: Batches over which the rate is taken.
RECENT = 50


def row(entry: Entry, total: int) -> dict[str, Any]:
    """Give what the table and the curves show of a batch.

    Parameters
    ----------
    entry : the batch.
    total : events of all batches up to it.

    Returns
    -------
    dict
        ``u`` holds the largest u of each family over widths, None where nothing is monitored.

    Examples
    --------
    >>> from gofstream.stream.rows import Statistic
    >>> statistics = (Statistic("epoch sat", 0, 9.0, 1.25), Statistic("epoch sat", 1, 7.0, -0.5))
    >>> entry = Entry(3, "c", "60303ae", 0.0, 2000, 1995.5, statistics=statistics)
    >>> row(entry, 6000)["u"]
    [1.25, None, None, None]
    """
    u = [
        max((s.u for s in entry.statistics if s.family == family and s.u is not None), default=None)
        for family in FAMILIES
    ]
    return {
        "n": entry.number,
        "name": entry.name,
        "arrived": entry.arrived,
        "events": entry.events,
        "expected": entry.expected,
        "state": entry.state,
        "note": remark(entry),
        "total": total,
        "u": [None if each is None else round(each, 4) for each in u],
    }


def page(status: RunStatus) -> dict[str, Any]:
    """Give what the page shows of a run beside its batches."""
    facts, ledger, top = status.facts, status.ledger, status.highest
    opened = status.open_alarms
    e, note = next_text(status)
    return {
        "verdict": verdict(status)._asdict(),
        "alarms": listed(facts, status.alarms),
        "rung": len(status.alarms),
        "open": len(opened),
        "since": opened[0].since if opened else None,
        "batches": status.batches,
        "states": dict(ledger.states),
        "arrived": ledger.arrived,
        "widths": by_width(facts, ledger.latest),
        "highest": None if top is None else top.u,
        "width": None if top is None else top.width,
        "learnt": None if ledger.latest is None else ledger.latest.number,
        "boundary": facts.level,
        "window": facts.window,
        "evidence": {"e": e, "note": note},
        "scan": scan(status),
    }


def by_width(facts: RunFacts, entry: Entry | None) -> dict[str, Any]:
    """Give u of every family at every width after a batch."""
    known = {} if entry is None else {(s.family, s.width): s.u for s in entry.statistics}
    return {
        "n": None if entry is None else entry.number,
        "sigma": [number(width, 3) for width in facts.widths],
        "u": [[known.get((family, i)) for i in range(len(facts.widths))] for family in FAMILIES],
    }


def scan(status: RunStatus) -> dict[str, Any]:
    """Give the e-value of the epoch's scan in words, a note, and where it found most."""
    note = (
        "of the epoch; may be looked at any time: a nominal epoch's reaches 20 with probability "
        "5\N{NO-BREAK SPACE}% at most"
    )
    if not status.facts.scanned:
        note = "this run was begun without a scan"
    elif status.evidence is None:
        note = "none yet; or none for a weighted reference, or for batches that may be empty"
    return {
        "e": None if status.evidence is None else e_text(status.evidence),
        "note": note,
        "windows": [
            {
                "kind": window.kind,
                "where": window.where,
                "observed": window.observed,
                "expected": window.expected,
                "t": window.t,
            }
            for window in status.windows
        ],
    }


def listed(facts: RunFacts, alarms: Sequence[Alarm]) -> list[dict[str, Any]]:
    """List alarms, the latest first."""
    last = alarms[: -LISTED - 1 : -1]
    return [asdict(alarm) | {"at": width_text(facts, alarm.width)} for alarm in last]


def rate(rows: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    """Count batches and events per hour over the last batches that arrived at different times.

    Examples
    --------
    >>> rows = [{"arrived": 60.0 * i, "events": 500} for i in range(4)]
    >>> rate(rows)
    {'batches': 60.0, 'events': 30000.0, 'over': 4}
    """
    recent = [one for one in rows if one["events"]][-RECENT:]
    times = [one["arrived"] for one in recent]
    if not times or (hours := (max(times) - min(times)) / 3600) <= 0:
        return None
    # Between n arrivals lie n - 1 intervals, so the first batch only starts the clock.
    first = times.index(min(times))
    events = sum(one["events"] for i, one in enumerate(recent) if i != first)
    return {"batches": (len(recent) - 1) / hours, "events": events / hours, "over": len(recent)}


def strategies(
    rows: int, batches: int, columns: int, model: float, sums: int, scan: int | None
) -> dict[str, float | None]:
    """Give the bytes that each strategy has to keep (method page, below eq. 9).

    Parameters
    ----------
    rows, batches : events and learnt batches so far.
    columns : numbers in an event.
    model : bytes of the models of one batch.
    sums : bytes of the running sums on the reference; 0 before they are first written.
    scan : bytes of the sums of the scan, if there is one.
    """
    models, events = model * batches, 8.0 * columns * rows
    return {
        "all": models + events,
        "one": models + events / batches if batches else 0.0,
        "sat": float(sums) if sums else None,
        "scan": None if scan is None else float(scan),
    }
