"""How a run stands, for the terminal."""

from __future__ import annotations

from gofstream.report.words import e_text, size
from gofstream.stream.verdict import Verdict


def standing(verdict: Verdict) -> str:
    """Write how a run stands in a few lines."""
    counted = ", ".join(f"{count} {state}" for state, count in verdict.states.items())
    lines = [f"batches: {sum(verdict.states.values())}" + f" ({counted})" * bool(counted)]
    if verdict.latest is not None:
        name = verdict.latest.name
        lines.append(f"last learnt: {verdict.latest.number}, {name}; step {verdict.step} of epoch")
    if verdict.level is None:
        lines.append("no boundary: nothing alarms")
    elif verdict.highest is not None:
        family, width, _, u = verdict.highest
        lines.append(
            f"largest u: {u:.3g} ({family} at width {width}); the boundary is {verdict.level:.3g}"
        )
    lines += [] if verdict.e_value is None else [f"next: {verdict.e_value}"]
    if verdict.evidence is not None:
        lines.append(
            f"scan: e-value {e_text(verdict.evidence)} of the epoch, for any size of reference"
        )
    lines += [f"scan: {window}" for window in verdict.windows[:1]]
    lines += [
        f"alarm after batch {alarm.batch}: anomalous since batch {alarm.since}"
        for alarm in verdict.alarms
    ]
    kept = verdict.kept
    lines.append(
        f"kept, by `{verdict.strategy}`: events {size(kept.events)} of {size(kept.all_events)}, "
        f"models {size(kept.models)}, sums {size(kept.sums)}, scan {size(kept.scan)}"
    )
    return "\n".join(lines)
