"""A page of all experiments: `python -m gofstream_studies.paper.gallery FROM TO COMMIT`.

Pictures and numbers in FROM, which were made with COMMIT, are copied to the folder TO, and TO.md is
written beside it from all that is there: what each experiment shows, the verdicts on its claims,
and what to type for the same.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gofstream.files import write_whole
from gofstream_studies.paper.catalogue import EXPERIMENTS
from gofstream_studies.paper.claims import Claim, Verdict, tally
from gofstream_studies.paper.experiment import Experiment

#: What stands in a table of many verdicts.
SHORT: dict[Verdict, str] = {"holds": "yes", "does not hold": "**no**", "not resolved": "?"}
#: How claims on all widths together end, and those on one.
COMBINED, WIDTH = "smallest p of all widths", "σ = "


def add(results: Path, to: Path, commit: str) -> None:
    """Copy pictures and numbers of the experiments that were run, with the commit they are of."""
    to.mkdir(parents=True, exist_ok=True)
    for name in EXPERIMENTS:
        source = results / f"{name}.json"
        if source.exists():
            record = {**json.loads(source.read_text()), "commit": commit}
            write_whole(to / source.name, json.dumps(record, indent=1) + "\n")
            for picture in _pictures(results, name):
                shutil.copy(picture, to)


def page(to: Path) -> str:
    """Write the page of what a folder holds."""
    parts = [
        "# Gallery\n\nExperiments of the paper as `gofstream paper` made them here. Numbers are "
        "in the JSON beside each picture; [how to read the verdicts](paper.md). In tables of many "
        "verdicts *yes* means that the claim holds, *no* that it does not, *?* that so many toys "
        "do not resolve it; beside it stands the difference of powers that decides.\n"
    ]
    there = {name: to / f"{name}.json" for name in EXPERIMENTS if (to / f"{name}.json").exists()}
    for name, path in there.items():
        names = [f"{to.name}/{picture.name}" for picture in _pictures(to, name)]
        parts.append(_section(EXPERIMENTS[name], json.loads(path.read_text()), names))
    missing = [name for name in EXPERIMENTS if name not in there]
    if missing:
        parts.append(f"Not run for this page: {', '.join(missing)}.\n")
    text = "\n".join(parts)
    write_whole(to.with_suffix(".md"), text)
    return text


def _pictures(folder: Path, name: str) -> list[Path]:
    """List the pictures of an experiment, and not of one with a longer name."""
    return [
        path
        for path in sorted(folder.glob(f"{name}*.png"))
        if max((other for other in EXPERIMENTS if path.stem.startswith(other)), key=len) == name
    ]


def _section(experiment: Experiment, record: dict[str, Any], pictures: Sequence[str]) -> str:
    claims = [Claim(**claim) for claim in record["claims"]]
    kinds: dict[str, list[Claim]] = {}
    for claim in claims:
        kinds.setdefault(claim.name.split(" [")[0], []).append(claim)
    toys = record["numbers"].get("null_toys")
    with_toys = f", {toys} toys without signal" if toys else ""
    lines = [
        f"## {experiment.name}\n",
        f"{experiment.paper}: {experiment.shows}.",
        _found(kinds, len(claims)),
        f"`{record['command']}`, commit {record['commit']}{with_toys}, "
        f"{record['seconds'] / 60:.1f} min; "
        f"[numbers]({pictures[0].split('/')[0]}/{experiment.name}.json)\n",
        "\n".join(f"![{experiment.shows}]({picture})\n" for picture in pictures),
    ]
    if any(WIDTH in claim.name for claim in claims):
        lines += [line for kind, own in kinds.items() for line in _by_width(kind, own)]
    elif claims:
        lines += ["| claim | verdict | value | 95 % interval |", "|---|---|---|---|"]
        lines += [
            f"| {claim.name} | {claim.verdict} | {_number(claim.value)} | "
            f"{_number(claim.low)} to {_number(claim.high)} |"
            for claim in claims
        ]
    return "\n".join(line for line in lines if line) + "\n"


def _found(kinds: dict[str, list[Claim]], count: int) -> str:
    """Say how each kind of claim fared; with all widths combined, where that is told apart."""
    if len(kinds) == count:  # each is of its own kind, and listed below
        return f"Claims: {tally([c for own in kinds.values() for c in own])}." if count else ""
    counted = {
        kind: tally([claim for claim in own if COMBINED in claim.name] or own)
        for kind, own in kinds.items()
    }
    return "; ".join(f"*{kind}*: {words}" for kind, words in counted.items()) + "."


def _by_width(kind: str, claims: Sequence[Claim]) -> list[str]:
    """Table the verdicts on one kind of claim: a row for each signal, a column for each width."""
    rows: dict[str, dict[str, str]] = {}
    for claim in claims:
        what, _, where = claim.name.split("[")[1].rstrip("]").rpartition(", ")
        rows.setdefault(what, {})[where] = f"{SHORT[claim.verdict]} {claim.value:+.2f}"
    columns = list(dict.fromkeys(where for row in rows.values() for where in row))
    return [
        f"\n| {kind} | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
        *(f"| {what} | {' | '.join(row[c] for c in columns)} |" for what, row in rows.items()),
    ]


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


if __name__ == "__main__":
    add(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    page(Path(sys.argv[2]))
