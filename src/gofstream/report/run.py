"""How a run stands, in words: the same for the terminal and for the page."""

from __future__ import annotations

import math
from typing import NamedTuple

from gofstream.inference.sequential import TRUSTED_ROWS
from gofstream.report.words import e_text, number, p_text, size
from gofstream.stream.merge import remark
from gofstream.stream.rows import Alarm
from gofstream.stream.status import RunFacts, RunStatus


class Verdict(NamedTuple):
    """How a run stands, in a few words and in a sentence.

    Attributes
    ----------
    tone : waiting, calm, alarm, seen (above the boundary, and acknowledged) or unwatched.
    head : a few words.
    sentence : what they mean.
    """

    tone: str
    head: str
    sentence: str


def width_text(facts: RunFacts, index: int) -> str:
    """Write a width; by its index if the run does not say what it is."""
    known = 0 <= index < len(facts.widths)
    return f"σ = {number(facts.widths[index], 3)}" if known else f"width {index}"


def kept_text(facts: RunFacts) -> str:
    """Say whose events are kept."""
    which = "a reservoir of" if facts.reservoir else "the last"
    kept = {"all": "of every batch", "one": f"of {which} {facts.batches}", "sat": "of no batch"}
    return kept[facts.strategy]


def next_text(status: RunStatus) -> tuple[str | None, str]:
    """Write the e-value of `next` over the epoch, if there is one, and a note."""
    found = status.e_value
    if found is None:
        return None, "of the epoch"
    if not found.trusted:
        rows = f"{number(found.rows_per_event, 2)} reference rows for each event of an epoch"
        return None, f"none: {rows}, and it takes {TRUSTED_ROWS}"
    # A value below the smallest number has no logarithm.
    text = e_text(math.log(found.value)) if found.value else "0"
    return text, "of the epoch; may be looked at any time"


def verdict(status: RunStatus) -> Verdict:
    """Say in a few words and in a sentence how the run stands."""
    facts, latest, top = status.facts, status.ledger.latest, status.highest
    if status.open_alarms:
        return _open_alarm(status)
    if latest is None:
        count = status.batches
        text = f"{count} batches came, and none could be learnt." if count else "No batch yet."
        return Verdict("waiting", "Waiting", text)
    if facts.level is None:
        return Verdict(
            "unwatched",
            "No alarms",
            "This run has no boundary, so nothing can alarm: what is shown is what was learnt, "
            "without a statement about chance.",
        )
    monitored = status.ledger.monitored
    if monitored is None or latest.number != monitored.number or top is None or top.u is None:
        why = f"Batch {latest.number} was learnt but is not monitored: {remark(latest)}"
        return Verdict("unwatched", "Not monitored", why)
    where = f"The largest u after batch {monitored.number} is {number(top.u, 3)} ({top.family}, "
    where += f"{width_text(facts, top.width)})"
    if status.above:
        return Verdict(
            "seen",
            "Above the boundary",
            f"{where}, above the boundary of {number(facts.level, 3)}. Every alarm so far was "
            "acknowledged.",
        )
    return Verdict(
        "calm",
        "Nothing unusual",
        f"{where}, below the boundary of {number(facts.level, 3)}."
        + _chance(facts, " Chance alone crosses it"),
    )


def _open_alarm(status: RunStatus) -> Verdict:
    """Speak of the first alarm that nobody acknowledged: it is the one that dates the anomaly."""
    facts, alarms = status.facts, status.open_alarms
    first, last = alarms[0], alarms[-1]
    more = "" if last is first else f", and again until batch {last.batch}"
    return Verdict(
        "alarm",
        f"Alarm: since batch {first.since}",
        f"The data differ from the reference since batch {first.since}. The alarm rang after batch "
        f"{first.batch}{more}: {_crossing(facts, first)}."
        + _chance(facts, " Chance alone does this"),
    )


def _crossing(facts: RunFacts, alarm: Alarm) -> str:
    return (
        f"u of {alarm.family} at {width_text(facts, alarm.width)} was {number(alarm.u, 3)}, above "
        f"the boundary of {number(alarm.boundary, 3)}"
    )


def _chance(facts: RunFacts, what: str) -> str:
    if facts.alpha is None or facts.epoch is None:
        return ""
    share = f"{p_text(100 * facts.alpha)}\N{NO-BREAK SPACE}%"
    return f"{what} in at most {share} of epochs of {facts.epoch} batches."


def standing(status: RunStatus) -> str:
    """Write how a run stands in a few lines."""
    ledger, found = status.ledger, verdict(status)
    counted = ", ".join(f"{count} {state}" for state, count in ledger.states.items())
    lines = [f"{found.head}. {found.sentence}"]
    lines.append(f"batches: {status.batches}" + f" ({counted})" * bool(counted))
    if ledger.latest is not None:
        latest = ledger.latest
        lines.append(f"last learnt: {latest.number}, {latest.name}; step {status.step} of epoch")
    if status.facts.level is None:
        lines.append("no boundary: nothing alarms")
    elif (top := status.highest) is not None and top.u is not None:
        where = f"{top.family}, {width_text(status.facts, top.width)}"
        level = number(status.facts.level, 3)
        lines.append(f"largest u: {number(top.u, 3)} ({where}); the boundary is {level}")
    if status.e_value is not None:
        lines.append("e-value of next: " + ", ".join(filter(None, next_text(status))))
    if status.evidence is not None:
        text = f"e-value of the scan: {e_text(status.evidence)} of the epoch"
        lines.append(f"{text}, for any size of reference")
    lines += [f"scan: {window}" for window in status.windows[:1]]
    lines += [
        f"alarm after batch {alarm.batch}: anomalous since batch {alarm.since}"
        for alarm in status.open_alarms
    ]
    kept = status.storage
    lines.append(
        f"kept, by `{status.facts.strategy}`: events {size(kept.events)} of "
        f"{size(kept.all_events)}, models {size(kept.models)}, sums {size(kept.sums)}, scan "
        f"{size(kept.scan)}"
    )
    return "\n".join(lines)
