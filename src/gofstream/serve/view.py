"""What the page shows of a run, as plain values that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gofstream.inference.scale import FAMILIES
from gofstream.inference.sequential import TRUSTED_ROWS, e_value
from gofstream.report.words import e_text, number, p_text
from gofstream.scan.where import FoundWindow
from gofstream.stream.merge import remark
from gofstream.stream.rows import Alarm, Entry
from gofstream.stream.scanning import is_scanned, scan_evidence

#: Alarms that are listed, the latest first.
LISTED = 20
#: Batches over which the rate is taken.
RECENT = 50


@dataclass(frozen=True, slots=True)
class Run:
    """What a run is about, as far as the page needs it.

    Attributes
    ----------
    widths : σ by index.
    columns : names of what is tested.
    epoch, window : H and K, in batches.
    nominal : N(R) of a batch.
    reference_rows : how large the reference is.
    level, alpha : the boundary, and how often an epoch crosses it by chance; None without one.
    kept : whose events are kept, in words.
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
    kept: str
    scanned: bool

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> Run:
        """Take it from what a store says it is about; a field that is not there is left out."""
        boundary = about.get("boundary") or {}
        retention = about["retention"]
        which = "a reservoir of" if retention["reservoir"] else "the last"
        kept = {
            "all": "of every batch",
            "one": f"of {which} {retention['batches']}",
            "sat": "of no batch",
        }
        return cls(
            tuple(about.get("widths", ())),
            tuple(about.get("columns", ())),
            about.get("epoch"),
            about.get("window"),
            about.get("nominal_expected"),
            about.get("reference_rows"),
            boundary.get("level"),
            boundary.get("alpha"),
            kept[retention["strategy"]],
            is_scanned(about),
        )

    def width(self, index: int) -> str:
        """Write a width; by its index if the run does not say what it is."""
        known = 0 <= index < len(self.widths)
        return f"σ = {number(self.widths[index], 3)}" if known else f"width {index}"


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


def by_width(run: Run, entry: Entry | None) -> dict[str, Any]:
    """Give u of every family at every width after a batch."""
    known = {} if entry is None else {(s.family, s.width): s.u for s in entry.statistics}
    return {
        "n": None if entry is None else entry.number,
        "sigma": [number(width, 3) for width in run.widths],
        "u": [[known.get((family, i)) for i in range(len(run.widths))] for family in FAMILIES],
    }


def evidence(run: Run, entry: Entry | None) -> dict[str, Any]:
    """Give the e-value of the epoch, if the reference is large enough for it to be one.

    Parameters
    ----------
    entry : the last batch with statistics.

    Returns
    -------
    dict
        ``e``, None where there is none to be trusted, and a ``note``.
    """
    t = [] if entry is None else [s.t for s in entry.statistics if s.family == "epoch next"]
    if not t or run.epoch is None or run.nominal is None or run.reference_rows is None:
        return {"e": None, "note": "of the epoch"}
    # A whole epoch, so that it is trusted from the beginning to the end, or not at all.
    found = e_value(t, run.reference_rows, run.epoch * run.nominal)
    if not found.trusted:
        rows = f"{number(found.rows_per_event, 2)} reference rows for each event of an epoch"
        return {"e": None, "note": f"none: {rows}, and it takes {TRUSTED_ROWS}"}
    return {"e": found.value, "note": "of the epoch; may be looked at any time"}


def scan(run: Run, entry: Entry | None, windows: Sequence[FoundWindow]) -> dict[str, Any]:
    """Give the e-value of the epoch's scan, and where it found most.

    Parameters
    ----------
    entry : the last batch with statistics.
    windows : of the epoch, the best first.

    Returns
    -------
    dict
        ``e`` in words, None where there is none; a ``note``; and ``windows``.
    """
    found = None if entry is None else scan_evidence(entry)
    note = (
        "of the epoch; may be looked at any time: a nominal epoch's reaches 20 with probability "
        "5\N{NO-BREAK SPACE}% at most"
    )
    if not run.scanned:
        note = "this run was begun without a scan"
    elif found is None:
        note = "none yet; or none for a weighted reference, or for batches that may be empty"
    return {
        "e": None if found is None else e_text(found),
        "note": note,
        "windows": [
            {
                "kind": window.kind,
                "where": window.where,
                "observed": window.observed,
                "expected": window.expected,
                "t": window.t,
            }
            for window in windows
        ],
    }


def verdict(run: Run, batches: int, entry: Entry | None, alarms: Sequence[Alarm]) -> dict[str, str]:
    """Say in a few words and in a sentence how the run stands.

    Parameters
    ----------
    batches : how many the ledger has.
    entry : the last one with statistics.
    alarms : all of them, in order.

    Returns
    -------
    dict
        ``tone`` (waiting, calm, alarm, seen or unwatched), ``head`` and ``sentence``.
    """
    open_ = [alarm for alarm in alarms if alarm.acknowledged is None]
    top = None if entry is None else entry.highest
    if open_:
        return _open_alarm(run, open_)
    if entry is None:
        text = f"{batches} batches came, and none could be learnt." if batches else "No batch yet."
        return {"tone": "waiting", "head": "Waiting", "sentence": text}
    if run.level is None:
        return {
            "tone": "unwatched",
            "head": "No alarms",
            "sentence": "This run has no boundary, so nothing can alarm: what is shown is what was "
            "learnt, without a statement about chance.",
        }
    if top is None or top.u is None:
        return {
            "tone": "unwatched",
            "head": "Not monitored",
            "sentence": f"Batch {entry.number} was learnt but is not monitored: {remark(entry)}",
        }
    family, width, u = top.family, top.width, top.u
    where = f"The largest u after batch {entry.number} is {number(u, 3)} ({family}, "
    where += f"{run.width(width)})"
    if u > run.level:
        return {
            "tone": "seen",
            "head": "Above the boundary",
            "sentence": f"{where}, above the boundary of {number(run.level, 3)}. Every alarm "
            "so far was acknowledged.",
        }
    return {
        "tone": "calm",
        "head": "Nothing unusual",
        "sentence": f"{where}, below the boundary of {number(run.level, 3)}."
        + _chance(run, " Chance alone crosses it"),
    }


def _open_alarm(run: Run, alarms: Sequence[Alarm]) -> dict[str, str]:
    """Speak of the first alarm that nobody acknowledged: it is the one that dates the anomaly."""
    first, last = alarms[0], alarms[-1]
    more = "" if last is first else f", and again until batch {last.batch}"
    return {
        "tone": "alarm",
        "head": f"Alarm: since batch {first.since}",
        "sentence": f"The data differ from the reference since batch {first.since}. The alarm rang "
        f"after batch {first.batch}{more}: u of {first.family} at {run.width(first.width)} was "
        f"{number(first.u, 3)}, above the boundary of {number(first.boundary, 3)}."
        + _chance(run, " Chance alone does this"),
    }


def _chance(run: Run, what: str) -> str:
    if run.alpha is None or run.epoch is None:
        return ""
    share = f"{p_text(100 * run.alpha)}\N{NO-BREAK SPACE}%"
    return f"{what} in at most {share} of epochs of {run.epoch} batches."


def listed(run: Run, alarms: Sequence[Alarm]) -> list[dict[str, Any]]:
    """List alarms, the latest first."""
    return [asdict(alarm) | {"at": run.width(alarm.width)} for alarm in alarms[: -LISTED - 1 : -1]]


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
    rows: int, batches: int, columns: int, model: float, sums: int | None, scan: int | None
) -> dict[str, float | None]:
    """Give the bytes that each strategy has to keep (METHOD §3).

    Parameters
    ----------
    rows, batches : events and learnt batches so far.
    columns : numbers in an event.
    model : bytes of the models of one batch.
    sums : bytes of the running sums on the reference, if they were written down.
    scan : bytes of the sums of the scan, if there is one.
    """
    models, events = model * batches, 8.0 * columns * rows
    return {
        "all": models + events,
        "one": models + events / batches if batches else 0.0,
        "sat": None if sums is None else float(sums),
        "scan": None if scan is None else float(scan),
    }
