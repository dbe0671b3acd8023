"""Write the tables of docs/results/reach.md.

`python -m gofstream_studies.benchmarks.reach_page FOLDER COMMIT` does.

What `benchmarks.reach` left in FOLDER, made with COMMIT, is copied beside the page, and the tables
are written from all that is there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from scipy.stats import norm

from gofstream.files import write_whole
from gofstream_studies.benchmarks.location import OFTEN, Located, often
from gofstream_studies.benchmarks.reach import MARGIN, TESTS, label
from gofstream_studies.benchmarks.report import filled
from gofstream_studies.repository import RESULTS

PAGE = RESULTS / "reach.md"
#: Data sets in their order, and what is said of each.
TITLES = {
    "expo1d": "EXPO-1D, N(R) = 16 000 in 8 batches, five widths",
    "dimuon5d": "DIMUON-5D, N(R) = 8000 in 4 batches, five widths, M = 3000 (stand-in sample)",
    "cmsl1": "CMS-L1-24D, N(R) = 6000 in 5 batches, QCD events reused (stand-in sample)",
    "cmsl1-independent": "CMS-L1-24D, N(R) = 4000 in 5 batches, independent events (stand-in)",
}


def main(folder: Path, commit: str, page: Path = PAGE) -> None:
    """Copy what is new, and write the page; what is the same keeps the commit it was made with."""
    kept = page.with_suffix("")
    kept.mkdir(exist_ok=True)
    for source in (*folder.glob("reach-*.json"), *folder.glob("location.json")):
        content, copy = json.loads(source.read_text()), kept / source.name
        before = json.loads(copy.read_text()) if copy.exists() else {}
        if content != {key: value for key, value in before.items() if key != "commit"}:
            write_whole(copy, json.dumps(content | {"commit": commit}, indent=1) + "\n")
    text = page.read_text(encoding="utf-8")
    sections = {"power": powers(kept), "location": location(kept)}
    page.write_text(filled(text, sections), encoding="utf-8")


def powers(kept: Path) -> str:
    """Write a table for every data set that was run."""
    parts = []
    for name, title in TITLES.items():
        path = kept / f"reach-{name}.json"
        if path.exists():
            parts.append(_powers(title, json.loads(path.read_text())))
        else:
            parts.append(f"**{title}**: not run yet.\n")
    return "\n".join(parts)


def _powers(title: str, content: dict[str, Any]) -> str:
    names = [label(test) for test in TESTS]
    signals = list(content["signal_toys"])
    found = {(row["signal"], row["test"]): row for row in content["powers"]}
    gains = {(gain["signal"], gain["verdict"]): gain for gain in content["gains"]}
    verdicts = list(dict.fromkeys(gain["verdict"] for gain in content["gains"]))
    head = ["signal", *names, *(f"gain of {verdict}" for verdict in verdicts)]
    head += [f"median Z of {names[0]}", "of the ideal test"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for signal in signals:
        first = found[signal, names[0]]
        cells = [_power(found[signal, name], interval=name in verdicts) for name in names]
        cells += [_gain(gains[signal, verdict]) for verdict in verdicts]
        cells += [_median_z(first, content["null_toys"]), _ideal(first)]
        lines.append(f"| {signal} | {' | '.join(cells)} |")
    toys = sorted(set(content["signal_toys"].values()))
    return (
        f"**{title}.** Power at two sigma; {content['null_toys']} toys without and "
        f"{' or '.join(map(str, toys))} with each signal, commit {content['commit']}. In brackets, "
        "95 % intervals. A gain is paired, over what the verdict replaces; in bold where it is "
        f"more than three standard deviations, with ! where a loss of {MARGIN:g} is not excluded."
        + "\n\n"
        + "\n".join(lines)
        + "\n"
    )


def _gain(gain: dict[str, Any]) -> str:
    each = gain["difference"]
    value = f"{each['value']:+.2f}"
    value = f"**{value}**" if gain["sd"] > 3 else value
    mark = "" if gain["not_inferior"] else " !"
    return f"{value} ({each['low']:+.2f} to {each['high']:+.2f}){mark}"


def _power(row: dict[str, Any], *, interval: bool) -> str:
    power = row["power at 2 sigma"]
    value = f"{power['value']:.2f}"
    return f"{value} ({power['low']:.2f} to {power['high']:.2f})" if interval else value


def _median_z(row: dict[str, Any], toys: int) -> str:
    """Write the median Z of two strategies; "or more" at p = 2 / (B + 1), the least they show."""
    z = row["median Z"]["value"]
    return f"{z:.1f}" + (" or more" if norm.sf(z) < 2.5 / (toys + 1) else "")


def _ideal(row: dict[str, Any]) -> str:
    z = row["median Z of the ideal test"]
    return "not known" if z is None else f"{z:.1f}"


def location(kept: Path) -> str:
    """Say how often the place of a peak was found."""
    path = kept / "location.json"
    if not path.exists():
        return "**Location**: not run yet.\n"
    content = json.loads(path.read_text())
    rows = ""
    for name, found in content.items():
        if name == "commit":
            continue
        toys = [Located(**toy) for toy in found["toys"]]
        share, low, high = often(toys, found["true"])
        rows += f"| {name} | {len(toys)} | {share:.2f} ({low:.2f} to {high:.2f}) |\n"
    return (
        "**Location**, EXPO-1D: of the toys in which the scan has three sigma, those with the true "
        f"centre within one width of the best window's; at least {OFTEN:g} was wanted (commit "
        f"{content['commit']}).\n\n| signal | toys | found |\n|---|---|---|\n{rows}"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
