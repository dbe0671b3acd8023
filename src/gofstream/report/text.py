"""A result for the terminal: the verdict, every strategy, and where the difference is."""

from __future__ import annotations

from functools import partial

from gofstream.report.record import Record
from gofstream.report.words import (
    caveats,
    decision,
    facts,
    headline,
    number,
    p_text,
    place_text,
    span_text,
    verdict,
    widths_undescribed,
    z_text,
)
from gofstream.toys.scanning import SCAN


def summary(record: Record) -> str:
    """Write a result in a dozen lines."""
    lost = partial(widths_undescribed, record)
    lines = [record.title, facts(record), headline(record), verdict(record), decision(record), ""]
    rows = [("strategy", "p", "Z", "most surprising width")]
    for name, together in record.verdicts.items():
        rows.append((name, p_text(together.p), z_text(together.z), ""))
    for name, found in record.statistics.items():
        best = min(range(len(found.p)), key=lambda k: found.p[k].p)
        width = "-" if name == SCAN else number(record.widths[best].width, 3)
        p, z = p_text(found.combined.p), z_text(found.combined.z)
        rows.append((name, *(("t < 0", "-") if all(lost(name)) else (p, z)), width))
    sizes = [max(len(row[k]) for row in rows) for k in range(4)]
    lines += [
        "  ".join(cell.ljust(n) for cell, n in zip(row, sizes, strict=True)).rstrip()
        for row in rows
    ]
    for window in record.windows[:1]:
        seen = f"{window.observed} events seen, {number(window.expected, 3)} expected"
        lines += ["", f"scan: {window.kind}, {seen}; {place_text(window)}"]
    for region in record.regions:
        first = region.ranges[0]
        place = f"{first.column} {span_text(first.quarter, first.three_quarters)}"
        lines += [
            "",
            f"where: {region.kind}, {region.observed} events seen, {number(region.expected, 3)} "
            f"expected; the middle half has {place} {first.unit}".rstrip(),
        ]
    lines.append("")
    return "\n".join([*lines, *(f"{head}: {text}" for head, text in caveats(record))])
