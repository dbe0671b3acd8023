"""A result for the terminal: the verdict, every strategy, and where the difference is."""

from __future__ import annotations

from gofstream.report.record import Record
from gofstream.report.words import caveats, decision, number, p_text, verdict, z_text


def summary(record: Record) -> str:
    """Write a result in a dozen lines."""
    star = "*" if record.extrapolated else ""
    size = f"p = {p_text(record.pvalue)}{star}, Z = {z_text(record.zscore)}{star}"
    lines = [record.title, size, verdict(record), decision(record), ""]
    rows = [("strategy", "p", "Z", "most surprising width")]
    for name, found in record.statistics.items():
        best = min(range(len(found.p)), key=lambda k: found.p[k].p)
        star = "*" if found.combined.extrapolated else ""
        width = number(record.widths[best].width, 3)
        p, z = p_text(found.combined.p), z_text(found.combined.z)
        rows.append((name, f"{p}{star}", f"{z}{star}", width))
    sizes = [max(len(row[k]) for row in rows) for k in range(4)]
    lines += [
        "  ".join(cell.ljust(n) for cell, n in zip(row, sizes, strict=True)).rstrip()
        for row in rows
    ]
    for region in record.regions:
        first = region.ranges[0]
        place = f"{first.column} from {number(first.quarter)} to {number(first.three_quarters)}"
        lines += [
            "",
            f"where: {region.kind}, {region.observed} events seen, {number(region.expected, 3)} "
            f"expected; the middle half has {place} {first.unit}".rstrip(),
        ]
    lines.append("")
    return "\n".join([*lines, *(f"{head}: {text}" for head, text in caveats(record))])
